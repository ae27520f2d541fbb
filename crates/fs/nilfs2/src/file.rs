//! Files in memory: blocks of data, node blocks of the map, attributes.
//!
//! May use: `map`, `readings`, `records`.

use crate::map::Map;
use crate::readings::Readings;
use crate::records::{CPFILE_INODE, DAT_INODE, IFILE_INODE, Inode, SUFILE_INODE};
use fs_api::SharedPage;
use sim::{RwLock, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A block in memory (`struct buffer_head` and its page).
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Contents of the block; empty if [`Buffer::page`] has them.
    pub(crate) data: RefCell<Vec<u8>>,
    /// Contents of a block of a regular file, held by the page cache as well. It changes its page only after
    /// it has taken a copy.
    pub(crate) page: RefCell<Option<Rc<SharedPage>>>,
    /// Block of the file, or of a node block the pointer that leads to it.
    pub(crate) key: Cell<u64>,
    /// It is a node block of the map.
    pub(crate) is_node: bool,
    /// It has to be written.
    pub(crate) is_dirty: Cell<bool>,
    /// It has a virtual number that no log has used yet (`BH_NILFS_Volatile`).
    pub(crate) is_volatile: Cell<bool>,
    /// Of blocks that the cleaner moves: virtual number.
    pub(crate) virtual_block: Cell<u64>,
}

impl Buffer {
    pub(crate) fn new(key: u64, data: Vec<u8>, is_node: bool) -> Rc<Self> {
        Rc::new(Self {
            data: RefCell::new(data),
            page: RefCell::default(),
            key: Cell::new(key),
            is_node,
            is_dirty: Cell::new(false),
            is_volatile: Cell::new(false),
            virtual_block: Cell::new(0),
        })
    }

    /// Puts other contents in place of those there are.
    pub(crate) fn replace(&self, contents: Contents) {
        let (data, page) = match contents {
            Contents::Own(data) => (data, None),
            Contents::Shared(page) => (Vec::new(), Some(page)),
        };
        self.data.replace(data);
        self.page.replace(page);
    }

    /// Looks at the contents, whoever holds them.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        match &*self.page.borrow() {
            Some(page) => page.look(|bytes| look(bytes)),
            None => look(&self.data.borrow()),
        }
    }
}

/// What a block is to hold.
pub(crate) enum Contents {
    Own(Vec<u8>),
    Shared(Rc<SharedPage>),
}

/// Kinds of blocks of a file with numbered entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryBlock {
    /// Counts of free entries.
    Descriptors,
    /// Which entries are in use.
    Bitmap,
    /// The entries themselves: inodes or DAT entries.
    Entries,
}

type Buffers = RefCell<BTreeMap<u64, Rc<Buffer>>>;

/// A file in memory (`struct nilfs_inode_info`).
pub(crate) struct File {
    /// Inode number of the file.
    pub(crate) number: u64,
    /// Of a file that holds blocks for the cleaner: the checkpoint of which they are.
    pub(crate) cleaned_checkpoint: Option<u64>,
    /// Attributes; the map in it is out of date, [`File::map`] counts.
    pub(crate) inode: RefCell<Inode>,
    /// Map from blocks of the file to pointers.
    pub(crate) map: RefCell<Map>,
    /// Guards the map (`b_sem`).
    pub(crate) map_lock: RwLock<()>,
    /// Data blocks. Of regular files only those that wait for the constructor; the layer above keeps
    /// pages.
    pub(crate) data: Buffers,
    /// Node blocks by pointer.
    pub(crate) nodes: Buffers,
    /// Data blocks that were read ahead of; of metadata files only.
    pub(crate) data_ahead: Readings,
    /// Node blocks that were read ahead of, by pointer; not of metadata files.
    pub(crate) nodes_ahead: Readings,
    /// Of files with numbered entries: the block of each kind that was asked for last, which stays in
    /// memory (`struct nilfs_palloc_cache`).
    last_asked: [Cell<Option<u64>>; 3],
    /// It is in the list of files that have dirty data.
    pub(crate) is_queued: Cell<bool>,
    /// Of metadata files: something in it is dirty.
    pub(crate) is_dirty: Cell<bool>,
    /// Blocks came into its map or went since the constructor last looked (`NILFS_BMAP_DIRTY`).
    pub(crate) map_has_changed: Cell<bool>,
    /// Only a checkpoint makes the last changes durable (`NILFS_I_INODE_SYNC`).
    pub(crate) needs_checkpoint: Cell<bool>,
    /// It has no names and no users: it is deleted once the constructor lets go of it.
    pub(crate) is_forgotten: Cell<bool>,
}

impl File {
    pub(crate) fn new(sim: &Sim, number: u64, inode: Inode, map: Map) -> Rc<Self> {
        Rc::new(Self {
            number,
            cleaned_checkpoint: None,
            inode: RefCell::new(inode),
            map: RefCell::new(map),
            map_lock: RwLock::new(sim, ()),
            data: Buffers::default(),
            nodes: Buffers::default(),
            data_ahead: Readings::default(),
            nodes_ahead: Readings::default(),
            last_asked: Default::default(),
            is_queued: Cell::new(false),
            is_dirty: Cell::new(false),
            map_has_changed: Cell::new(false),
            needs_checkpoint: Cell::new(false),
            is_forgotten: Cell::new(false),
        })
    }

    /// A file that holds blocks of an inode as a checkpoint has them, for the cleaner.
    pub(crate) fn for_cleaner(sim: &Sim, number: u64, checkpoint: u64) -> Rc<Self> {
        let file = Self::new(sim, number, Inode::default(), Map::empty(number));
        let mut file = Rc::into_inner(file).expect("it is not shared yet");
        file.cleaned_checkpoint = Some(checkpoint);
        Rc::new(file)
    }

    /// True of the file of inodes and what users have: counted in a checkpoint.
    pub(crate) fn is_in_checkpoint(&self) -> bool {
        // These three hang below the super root and exist once; checkpoints differ in their file of
        // inodes only.
        !matches!(self.number, DAT_INODE | CPFILE_INODE | SUFILE_INODE)
    }

    /// True of files whose blocks stay in memory when they are clean: metadata, directories, links.
    pub(crate) fn keeps_blocks(&self) -> bool {
        let mode = self.inode.borrow().mode;
        self.is_metadata() || mode & 0o170_000 != 0o100_000
    }

    /// True of the file system's own files.
    pub(crate) fn is_metadata(&self) -> bool {
        matches!(self.number, DAT_INODE | CPFILE_INODE | SUFILE_INODE | IFILE_INODE)
    }

    /// A data block that is in memory.
    pub(crate) fn cached(&self, offset: u64) -> Option<Rc<Buffer>> {
        self.data.borrow().get(&offset).cloned()
    }

    /// A block was asked for; it is the last one of its kind until the next.
    pub(crate) fn asked_for(&self, kind: EntryBlock, offset: u64) {
        debug_assert!(self.is_metadata(), "inode {} has no numbered entries", self.number);
        self.last_asked[kind as usize].set(Some(offset));
    }

    /// Whether a data block is the last of its kind that was asked for.
    pub(crate) fn is_last_asked(&self, offset: u64) -> bool {
        self.last_asked.iter().any(|last| last.get() == Some(offset))
    }

    /// Marks a block and its file.
    pub(crate) fn dirty(&self, buffer: &Buffer) {
        buffer.is_dirty.set(true);
        self.is_dirty.set(true);
    }

    /// Dirty data blocks, in order.
    pub(crate) fn dirty_data(&self) -> Vec<Rc<Buffer>> {
        let data = self.data.borrow();
        data.values().filter(|buffer| buffer.is_dirty.get()).cloned().collect()
    }

    /// Dirty node blocks, by pointer.
    pub(crate) fn dirty_nodes(&self) -> Vec<Rc<Buffer>> {
        let nodes = self.nodes.borrow();
        nodes.values().filter(|buffer| buffer.is_dirty.get()).cloned().collect()
    }

    /// Counts blocks that were allocated or freed.
    pub(crate) fn count_blocks(&self, blocks: i64, block_bytes: u64) {
        let mut inode = self.inode.borrow_mut();
        let sectors = blocks * (block_bytes / 512).cast_signed();
        inode.sectors = inode.sectors.saturating_add_signed(sectors);
    }

    /// The inode as it is to be written, with its map.
    pub(crate) fn encoded(&self) -> Inode {
        let mut inode = self.inode.borrow().clone();
        inode.map = self.map.borrow().root;
        inode
    }
}

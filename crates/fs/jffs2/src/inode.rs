//! Inodes in use.
//!
//! Source: `struct jffs2_inode_info` of `fs/jffs2/os-linux.h`.
//!
//! May use: `compress`, `fragments`, `nodes`, `structures`.

use crate::compress::NONE;
use crate::fragments::{DataNode, Fragments};
use crate::nodes::{DT_DIR, InodeNode};
use crate::structures::Entry;
use fs_api::FileType;
use sim::Lock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// An inode in use (`jffs2_inode_info` with its `struct inode`).
pub(crate) struct Inode {
    pub(crate) number: u32,
    pub(crate) lock: Lock<()>,
    pub(crate) data: RefCell<InodeData>,
    /// It was forgotten while the collector held it.
    pub(crate) is_gone: Cell<bool>,
}

/// What is known of an inode in use.
#[derive(Debug, Default)]
pub(crate) struct InodeData {
    pub(crate) highest_version: u32,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) accessed: i64,
    pub(crate) modified: i64,
    pub(crate) changed: i64,
    /// Length of the file.
    pub(crate) bytes: u32,
    pub(crate) device: (u32, u32),
    pub(crate) fragments: Fragments,
    /// The node that tells the attributes and holds no file data.
    pub(crate) metadata: Option<Rc<DataNode>>,
    /// Of a directory; removed names stay until the collector drops them.
    pub(crate) entries: Vec<Entry>,
    pub(crate) target: Option<Vec<u8>>,
}

impl Inode {
    pub(crate) fn new(number: u32, data: InodeData, sim: &sim::Sim) -> Rc<Self> {
        let data = RefCell::new(data);
        Rc::new(Self { number, lock: Lock::new(sim, ()), data, is_gone: Cell::new(false) })
    }

    pub(crate) fn next_version(&self) -> u32 {
        let mut data = self.data.borrow_mut();
        data.highest_version = data.highest_version.wrapping_add(1);
        data.highest_version
    }

    pub(crate) fn is_directory(&self) -> bool {
        FileType::from_mode(self.data.borrow().mode) == Some(FileType::Directory)
    }

    /// Names of a directory that are directories.
    pub(crate) fn subdirectories(&self) -> u32 {
        let data = self.data.borrow();
        data.entries.iter().filter(|entry| entry.inode != 0 && entry.kind == DT_DIR).count() as u32
    }

    /// An inode node that says what is known.
    pub(crate) fn template(&self) -> InodeNode {
        let data = self.data.borrow();
        InodeNode {
            inode: self.number,
            mode: data.mode,
            uid: data.uid as u16,
            gid: data.gid as u16,
            file_bytes: data.bytes,
            accessed: data.accessed as u32,
            modified: data.modified as u32,
            changed: data.changed as u32,
            compressor: NONE,
            ..InodeNode::default()
        }
    }
}

//! What the layer above file systems remembers: names, inodes in use before, pages of files.
//!
//! Source of the shape: `fs/dcache.c`, `fs/inode.c` and `mm/filemap.c` of Linux 2.6.29. Names and inodes
//! stay until they are dropped on request; pages, until memory is full.

use crate::file_pages::FilePages;
use crate::names::{Meaning, Names};
use board::Board;
use fs_api::{CachedPages, Caller, Errno, FileSystem, InodeNumber, PAGE_BYTES, SharedPage};
use page_cache::{FileError, Mapping, PageCache, Process};
use rustc_hash::FxHashMap;
use sim::Cpus;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;

/// A file with pages in memory.
#[derive(Clone)]
pub(crate) struct CachedFile {
    pub(crate) mapping: Mapping,
    /// Bytes of the file, as the last call found them.
    pub(crate) size_bytes: Rc<Cell<u64>>,
}

/// All that is remembered of one file system.
pub(crate) struct Caches<F> {
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) board: Rc<Board>,
    file_system: Rc<F>,
    pages: Rc<PageCache>,
    device: u32,
    files: RefCell<FxHashMap<InodeNumber, CachedFile>>,
    names: RefCell<Names>,
    /// Inodes that names led to.
    inodes: RefCell<BTreeSet<InodeNumber>>,
}

impl<F: FileSystem + 'static> Caches<F> {
    pub(crate) fn new(
        cpus: &Rc<Cpus>,
        board: &Rc<Board>,
        pages: Rc<PageCache>,
        file_system: Rc<F>,
    ) -> Rc<Self> {
        // A device of its own for each file system, so that its dirty pages have a flusher of their
        // own.
        let device = pages.add_device();
        Rc::new(Self {
            cpus: cpus.clone(),
            board: board.clone(),
            file_system,
            pages,
            device,
            files: RefCell::default(),
            names: RefCell::default(),
            inodes: RefCell::default(),
        })
    }

    /// Pages in memory, of all file systems that share the cache.
    pub(crate) fn page_count(&self) -> u64 {
        self.pages.statistics().pages
    }

    /// Names and inodes remembered.
    pub(crate) fn remembered(&self) -> (u64, u64) {
        (self.names.borrow().count() as u64, self.inodes.borrow().len() as u64)
    }

    /// Pages in memory that the medium does not have, or is being given.
    pub(crate) fn dirty_page_count(&self) -> u64 {
        let statistics = self.pages.statistics();
        statistics.dirty + statistics.write_back
    }

    /// The pages of a file, which has `size_bytes` now.
    pub(crate) fn file(&self, inode: InodeNumber, size_bytes: u64) -> CachedFile {
        if let Some(file) = self.files.borrow().get(&inode) {
            // The size is known anew with each call; read-ahead ends at it.
            file.size_bytes.set(size_bytes);
            return file.clone();
        }
        let size = Rc::new(Cell::new(size_bytes));
        let backing = Rc::new(FilePages::new(&self.file_system, inode, size.clone()));
        let mapping = self.pages.clone().add_mapping(self.device, backing);
        let file = CachedFile { mapping, size_bytes: size };
        self.files.borrow_mut().insert(inode, file.clone());
        file
    }

    /// A file was cut to `size_bytes`: pages past its end go, the rest of its last page becomes zero.
    pub(crate) async fn truncate(&self, inode: InodeNumber, size_bytes: u64) {
        let file = self.files.borrow().get(&inode).cloned();
        let Some(file) = file else { return };
        file.size_bytes.set(size_bytes);
        // Pages first, then the rest of the last page: a reader must not find bytes behind the new
        // end.
        file.mapping.truncate(size_bytes.div_ceil(PAGE_BYTES as u64)).await;
        let within = (size_bytes % PAGE_BYTES as u64) as usize;
        // The end lies within a page: what stood behind it must read as zeros if the file grows
        // again.
        if within > 0 {
            file.mapping.clear_from(size_bytes / PAGE_BYTES as u64, within);
        }
    }

    /// What a name means, if that is known.
    pub(crate) fn known(&self, directory: InodeNumber, name: &[u8]) -> Option<Meaning> {
        self.names.borrow().get(directory, name)
    }

    /// Remembers what a name means.
    pub(crate) fn learn(&self, directory: InodeNumber, name: &[u8], meaning: Meaning) {
        self.names.borrow_mut().set(directory, name, meaning);
        if let Meaning::Inode(inode) = meaning {
            self.inodes.borrow_mut().insert(inode);
        }
    }

    /// An inode is gone for good.
    pub(crate) async fn remove(&self, inode: InodeNumber) {
        // Names first: a look-up that is under way must not find an inode whose pages are gone.
        self.names.borrow_mut().forget(inode);
        self.inodes.borrow_mut().remove(&inode);
        let file = self.files.borrow_mut().remove(&inode);
        if let Some(file) = file {
            file.mapping.remove().await;
        }
    }

    /// The pages of a file, if any were ever in memory.
    pub(crate) fn known_file(&self, inode: InodeNumber) -> Option<CachedFile> {
        self.files.borrow().get(&inode).cloned()
    }

    /// Writes all dirty pages and attributes, the file dirty for longest first, and waits.
    pub(crate) async fn write_all(&self) {
        self.pages.write_all(self.device).await;
    }

    /// Forgets names, clean pages, and inodes that are neither in use nor dirty (`drop_caches` with 3);
    /// returns those.
    pub(crate) fn drop_all(&self, is_used: impl Fn(InodeNumber) -> bool) -> Vec<InodeNumber> {
        self.names.borrow_mut().clear();
        let mut stay = BTreeSet::new();
        self.files.borrow_mut().retain(|inode, file| {
            // Clean pages alone, as `invalidate_mapping_pages` takes them; dirty ones stay with
            // their inode.
            file.mapping.invalidate(&(0..u64::MAX));
            if file.mapping.is_dirty() {
                stay.insert(*inode);
            }
            is_used(*inode) || !file.mapping.remove_if_unused()
        });
        let mut dropped = Vec::new();
        self.inodes.borrow_mut().retain(|inode| {
            // An inode in use keeps its place, as `prune_icache` passes over those with a
            // reference.
            let stays = is_used(*inode) || stay.contains(inode);
            if !stays {
                dropped.push(*inode);
            }
            stays
        });
        dropped
    }
}

impl<F: FileSystem + 'static> CachedPages for Caches<F> {
    fn get(&self, inode: InodeNumber, page: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
        self.files.borrow().get(&inode).is_some_and(|file| file.mapping.copy_page(page, into))
    }

    fn shared(&self, inode: InodeNumber, page: u64) -> Option<Rc<SharedPage>> {
        self.files.borrow().get(&inode)?.mapping.shared_page(page)
    }

    fn put(&self, inode: InodeNumber, page: u64, bytes: &[u8; PAGE_BYTES]) {
        if let Some(file) = self.files.borrow().get(&inode) {
            file.mapping.add_page(page, bytes);
        }
    }

    fn flusher(&self) -> Process {
        self.pages.flusher(self.device)
    }

    fn write_back(&self, pages: u64) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.pages.relieve(self.device, pages))
    }

    fn write_page(
        &self,
        _: &Caller,
        inode: InodeNumber,
        page: u64,
    ) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let (file, process) = (self.known_file(inode), process::current());
        Box::pin(async move {
            if let Some(file) = file {
                file.mapping.write_and_wait(process, page..page + 1).await;
            }
        })
    }
}

/// The error number of a failed call on a file.
pub(crate) fn errno_of(error: FileError) -> Errno {
    match error {
        FileError::FileSystem(errno) => errno,
        FileError::NoSpace { .. } => Errno::Enospc,
        FileError::Misaligned { .. } => Errno::Einval,
        FileError::Device(_) => Errno::Eio,
    }
}

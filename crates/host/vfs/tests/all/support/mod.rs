//! A file system in memory that writes back, and looks whether the layer above keeps its promises.

use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectoryEntry, Errno, FileSystem, InodeNumber,
    Memory, NewInode, PAGE_BYTES, SpaceUse,
};
use sim::Sim;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Weak;
use vfs::MemoryFileSystem;

/// What was written, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Page(u64, InodeNumber, u64),
    Inode(u64, InodeNumber),
    Fsync(u64, InodeNumber),
}

/// A [`MemoryFileSystem`] to which files are written back. Writing a page takes a millisecond.
pub(crate) struct WritesBack {
    sim: Sim,
    pub(crate) inner: MemoryFileSystem,
    /// Pages that were changed in memory and are not written.
    pub(crate) promised: RefCell<BTreeSet<(InodeNumber, u64)>>,
    pub(crate) most_promised: Cell<usize>,
    under_way: RefCell<BTreeSet<(InodeNumber, u64)>>,
    /// Attributes that changed in memory, the oldest change first.
    dirty: RefCell<Vec<InodeNumber>>,
    cached: RefCell<Option<Weak<dyn CachedPages>>>,
    pub(crate) events: RefCell<Vec<Event>>,
    /// Pages there is space for at a time.
    pub(crate) space_pages: Cell<usize>,
    /// Writes are allowed to fail from here on.
    pub(crate) fails: Cell<bool>,
    pub(crate) queries: Cell<u32>,
    pub(crate) shrinks: Cell<u32>,
}

impl WritesBack {
    pub(crate) fn new(sim: &Sim, caller: &Caller) -> Self {
        Self {
            sim: sim.clone(),
            inner: MemoryFileSystem::new(caller),
            promised: RefCell::default(),
            most_promised: Cell::new(0),
            under_way: RefCell::default(),
            dirty: RefCell::default(),
            cached: RefCell::default(),
            events: RefCell::default(),
            space_pages: Cell::new(usize::MAX),
            fails: Cell::new(false),
            queries: Cell::new(0),
            shrinks: Cell::new(0),
        }
    }

    pub(crate) fn pages_written(&self) -> Vec<(InodeNumber, u64)> {
        let page = |event: &Event| match event {
            Event::Page(_, inode, page) => Some((*inode, *page)),
            _ => None,
        };
        self.events.borrow().iter().filter_map(page).collect()
    }

    pub(crate) fn promises(&self) -> usize {
        self.promised.borrow().len()
    }

    fn note(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }

    fn make_dirty(&self, inode: InodeNumber) {
        let mut dirty = self.dirty.borrow_mut();
        if !dirty.contains(&inode) {
            dirty.push(inode);
        }
    }

    async fn ask_for_write_back(&self, pages: u64) {
        let cached = self.cached.borrow().clone();
        if let Some(cached) = cached.and_then(|cached| cached.upgrade()) {
            cached.write_back(pages).await;
        }
    }

    fn is_under_way(&self, inode: InodeNumber, from: u64) -> bool {
        self.under_way.borrow().range((inode, from)..=(inode, u64::MAX)).next().is_some()
    }
}

impl FileSystem for WritesBack {
    fn root(&self) -> InodeNumber {
        self.inner.root()
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        self.inner.lookup(directory, name).await
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        self.inner.read_directory(directory).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.inner.attributes(inode).await
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        let old = self.inner.attributes(inode).await?.size_bytes;
        // Short of space: the layer above holds the inode, and pages behind the new end.
        self.ask_for_write_back(2).await;
        if let Some(size) = to.size_bytes.filter(|size| *size < old) {
            let first = size.div_ceil(PAGE_BYTES as u64);
            let last = (inode, size / PAGE_BYTES as u64);
            assert!(!self.is_under_way(inode, first), "a page is written while it is cut");
            if last.1 < first {
                assert!(!self.promised.borrow().contains(&last), "the cut page was not written");
            }
            self.sim.sleep(500_000).await;
            assert!(!self.is_under_way(inode, first), "a page is written while it is cut");
            self.promised.borrow_mut().retain(|key| key.0 != inode || key.1 < first);
        }
        self.make_dirty(inode);
        self.inner.change(caller, inode, to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.inner.make(caller, directory, name, new).await
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.inner.link(caller, inode, directory, name).await
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.inner.unlink(caller, directory, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.inner.rename(caller, from, to).await
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        self.inner.read_link(inode).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        assert!(!self.promised.borrow().contains(&(inode, page)), "a dirty page is in memory");
        self.inner.read_page(inode, page, into).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let key = (inode, page);
        assert!(self.promised.borrow().contains(&key), "{key:?} was not begun");
        let size = self.inner.attributes(inode).await?.size_bytes;
        let valid = (size - page * PAGE_BYTES as u64).min(PAGE_BYTES as u64) as usize;
        assert_eq!(part, 0..valid, "{key:?}");
        assert!(self.under_way.borrow_mut().insert(key), "{key:?} is written twice at a time");
        self.sim.sleep(1_000_000).await;
        self.under_way.borrow_mut().remove(&key);
        if self.fails.get() {
            return Err(Errno::Eio);
        }
        let mut now = [0; PAGE_BYTES];
        let cached = self.cached.borrow().clone().and_then(|cached| cached.upgrade());
        // An inode that is being deleted has no pages to be seen any more.
        let is_there = cached.is_some_and(|cached| cached.get(inode, page, &mut now));
        assert!(!is_there || now == *bytes, "{key:?} changed while it was written");
        self.promised.borrow_mut().remove(&key);
        self.note(Event::Page(self.sim.now(), inode, page));
        self.inner.write_page(caller, inode, page, bytes, part).await
    }

    fn writes_back(&self) -> bool {
        true
    }

    async fn begin_write(
        &self,
        _caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        if !self.promised.borrow().contains(&(inode, page)) {
            for _ in 0..3 {
                if self.promises() < self.space_pages.get() {
                    break;
                }
                self.ask_for_write_back(2).await;
            }
            if self.promises() >= self.space_pages.get() {
                return Err(Errno::Enospc);
            }
            self.promised.borrow_mut().insert((inode, page));
            self.most_promised.set(self.most_promised.get().max(self.promises()));
        }
        Ok(!is_cached && part != (0..PAGE_BYTES))
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        assert!(self.promised.borrow().contains(&(inode, page)), "it was not begun");
        self.make_dirty(inode);
        let end = page * PAGE_BYTES as u64 + part.end as u64;
        if end > self.inner.attributes(inode).await?.size_bytes {
            let to = Changes { size_bytes: Some(end), ..Changes::default() };
            self.inner.change(caller, inode, &to).await?;
        }
        Ok(())
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        self.dirty.borrow().clone()
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        if self.dirty.borrow().contains(&inode) {
            self.dirty.borrow_mut().retain(|other| *other != inode);
            self.note(Event::Inode(self.sim.now(), inode));
        }
        Ok(())
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        self.inner.list_attributes(inode).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.queries.set(self.queries.get() + 1);
        self.inner.extended_attribute(inode, name).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.inner.set_extended_attribute(caller, inode, name, value).await
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        let links = self.inner.attributes(inode).await.map_or(0, |attributes| attributes.links);
        assert!(!self.is_under_way(inode, 0), "a page is written of an inode that is forgotten");
        if links == 0 {
            self.promised.borrow_mut().retain(|key| key.0 != inode);
            self.dirty.borrow_mut().retain(|other| *other != inode);
        } else {
            let promised = self.promised.borrow();
            assert!(promised.iter().all(|key| key.0 != inode), "a dirty inode was forgotten");
        }
        self.inner.forget(inode).await
    }

    async fn fsync(&self, _caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.note(Event::Fsync(self.sim.now(), inode));
        self.write_inode(inode).await
    }

    async fn sync(&self) -> Result<(), Errno> {
        assert!(self.dirty.borrow().is_empty(), "inodes are written before");
        Ok(())
    }

    async fn shrink(&self) -> u64 {
        self.shrinks.set(self.shrinks.get() + 1);
        if self.shrinks.get() == 1 { 100 } else { 3 }
    }

    async fn unmount(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        *self.cached.borrow_mut() = Some(pages);
    }

    fn space(&self) -> SpaceUse {
        self.inner.space()
    }

    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}

//! A host in small: dirty pages in memory, written back when asked, over a mounted file system.

use posix::{
    CachedPages, Caller, Changes, Errno, FileSystem, InodeNumber, NewInode, PAGE_BYTES, Time,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use ubifs::Ubifs;

type Page = Box<[u8; PAGE_BYTES]>;

/// Paths over a mount, and its page cache.
pub(crate) struct Host {
    pub(crate) fs: Ubifs,
    pages: RefCell<BTreeMap<(InodeNumber, u64), Page>>,
    dirty: RefCell<BTreeSet<(InodeNumber, u64)>>,
    /// Names that were looked up or made.
    names: RefCell<BTreeMap<(InodeNumber, Vec<u8>), InodeNumber>>,
    /// Seconds since 1970.
    pub(crate) now: Cell<i64>,
}

impl CachedPages for Host {
    fn get(&self, inode: InodeNumber, page: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
        let pages = self.pages.borrow();
        let known = pages.get(&(inode, page));
        known.inspect(|bytes| into.copy_from_slice(&bytes[..])).is_some()
    }

    fn put(&self, _: InodeNumber, _: u64, _: &[u8; PAGE_BYTES]) {}

    /// As newer kernels: whole files, until there were so many pages.
    fn write_back(&self, pages: u64) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            let mut written = 0;
            while written < pages as usize {
                let before = self.dirty.borrow().len();
                let Some((inode, _)) = self.dirty.borrow().first().copied() else { return };
                if self.flush(inode).await.is_err() || self.fs.write_inode(inode).await.is_err() {
                    return;
                }
                written += before - self.dirty.borrow().len();
            }
        })
    }
}

impl Host {
    pub(crate) fn new(fs: Ubifs) -> Rc<Self> {
        let now = Cell::new(1_700_000_000);
        let (pages, dirty, names) = (RefCell::default(), RefCell::default(), RefCell::default());
        let host = Self { fs, pages, dirty, names, now };
        let host = Rc::new(host);
        let pages: Rc<dyn CachedPages> = host.clone();
        host.fs.use_cached_pages(Rc::downgrade(&pages));
        host
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller { pid: 1, uid: 0, gid: 0, now: Time::from_seconds(self.now.get()) }
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let key = (directory, name.to_vec());
        if let Some(known) = self.names.borrow().get(&key) {
            return Ok(*known);
        }
        let found = self.fs.lookup(directory, name).await?;
        self.names.borrow_mut().insert(key, found);
        Ok(found)
    }

    /// The directory of a path, and the last name.
    pub(crate) async fn parent<'p>(&self, path: &'p str) -> Result<(InodeNumber, &'p [u8]), Errno> {
        let mut inode = self.fs.root();
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            inode = self.lookup(inode, part.as_bytes()).await?;
        }
        Ok((inode, name.as_bytes()))
    }

    pub(crate) async fn find(&self, path: &str) -> Result<InodeNumber, Errno> {
        if path == "." {
            return Ok(self.fs.root());
        }
        let (directory, name) = self.parent(path).await?;
        self.lookup(directory, name).await
    }

    pub(crate) async fn make(&self, path: &str, new: NewInode<'_>) -> Result<InodeNumber, Errno> {
        let (directory, name) = self.parent(path).await?;
        let made = self.fs.make(&self.caller(), directory, name, new).await?;
        self.names.borrow_mut().insert((directory, name.to_vec()), made);
        Ok(made)
    }

    /// `open` with `O_CREAT`: the file, made if need be.
    pub(crate) async fn open(&self, path: &str) -> Result<InodeNumber, Errno> {
        match self.find(path).await {
            Err(Errno::Enoent) => self.make(path, NewInode::Regular(0o644)).await,
            found => found,
        }
    }

    pub(crate) async fn write(
        &self,
        inode: InodeNumber,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        // Each write asks whether it takes privileges away (`file_remove_privs`).
        match self.fs.extended_attribute(inode, b"security.capability").await {
            Ok(_) | Err(Errno::Enodata) => {}
            Err(error) => return Err(error),
        }
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (page, from) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
            let count = rest.len().min(PAGE_BYTES - from);
            let (part, key) = (from..from + count, (inode, page));
            let is_cached = self.pages.borrow().contains_key(&key);
            let must_read =
                self.fs.begin_write(&self.caller(), inode, page, part.clone(), is_cached).await?;
            let known = self.pages.borrow_mut().remove(&key);
            let mut bytes = known.unwrap_or_else(|| Box::new([0; PAGE_BYTES]));
            if must_read {
                self.fs.read_page(inode, page, &mut bytes).await?;
            }
            bytes[part.clone()].copy_from_slice(&rest[..count]);
            self.pages.borrow_mut().insert(key, bytes);
            self.dirty.borrow_mut().insert(key);
            self.fs.end_write(&self.caller(), inode, page, part).await?;
            at += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Reads a whole file, by way of the cache.
    pub(crate) async fn read(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        let size = self.fs.attributes(inode).await?.size_bytes;
        let mut content = Vec::new();
        for page in 0..size.div_ceil(PAGE_BYTES as u64) {
            let known = self.pages.borrow().get(&(inode, page)).cloned();
            let bytes = if let Some(bytes) = known {
                bytes
            } else {
                let mut bytes = Box::new([0; PAGE_BYTES]);
                self.fs.read_page(inode, page, &mut bytes).await?;
                self.pages.borrow_mut().insert((inode, page), bytes.clone());
                bytes
            };
            content.extend_from_slice(&bytes[..]);
        }
        content.truncate(size as usize);
        Ok(content)
    }

    async fn write_back(&self, key: (InodeNumber, u64)) -> Result<(), Errno> {
        if !self.dirty.borrow_mut().remove(&key) {
            return Ok(());
        }
        let bytes = self.pages.borrow()[&key].clone();
        self.fs.write_page(&self.caller(), key.0, key.1, &bytes, 0..PAGE_BYTES).await
    }

    /// Writes back the dirty pages of a file.
    pub(crate) async fn flush(&self, inode: InodeNumber) -> Result<(), Errno> {
        let keys: Vec<_> =
            self.dirty.borrow().range((inode, 0)..=(inode, u64::MAX)).copied().collect();
        for key in keys {
            self.write_back(key).await?;
        }
        Ok(())
    }

    /// Writes back all dirty pages, file by file, and inodes.
    pub(crate) async fn flush_all(&self) -> Result<(), Errno> {
        let mut inodes = self.fs.dirty_inodes();
        inodes.extend(self.dirty.borrow().iter().map(|key| key.0));
        let mut done = BTreeSet::new();
        for inode in inodes {
            if done.insert(inode) {
                self.flush(inode).await?;
                self.fs.write_inode(inode).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn fsync(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.flush(inode).await?;
        self.fs.fsync(&self.caller(), inode).await
    }

    pub(crate) async fn sync(&self) -> Result<(), Errno> {
        self.flush_all().await?;
        self.fs.sync().await
    }

    pub(crate) async fn unmount(&self) -> Result<(), Errno> {
        self.flush_all().await?;
        self.fs.unmount().await
    }

    pub(crate) async fn truncate(&self, inode: InodeNumber, size: u64) -> Result<(), Errno> {
        let last = (inode, size / PAGE_BYTES as u64);
        if size < self.fs.attributes(inode).await?.size_bytes {
            if !size.is_multiple_of(PAGE_BYTES as u64) {
                self.write_back(last).await?;
            }
            let changes = Changes { size_bytes: Some(size), ..Changes::default() };
            self.fs.change(&self.caller(), inode, &changes).await?;
            self.drop_pages(inode, size.div_ceil(PAGE_BYTES as u64));
            if let Some(bytes) = self.pages.borrow_mut().get_mut(&last) {
                bytes[(size % PAGE_BYTES as u64) as usize..].fill(0);
            }
            return Ok(());
        }
        let changes = Changes { size_bytes: Some(size), ..Changes::default() };
        self.fs.change(&self.caller(), inode, &changes).await
    }

    fn drop_pages(&self, inode: InodeNumber, from: u64) {
        let range = (inode, from)..=(inode, u64::MAX);
        self.pages.borrow_mut().retain(|key, _| !range.contains(key));
        self.dirty.borrow_mut().retain(|key| !range.contains(key));
    }

    /// `drop_caches`: clean pages and inodes go, and nodes of the index.
    pub(crate) async fn drop_caches(&self) {
        let dirty = self.dirty.borrow().clone();
        self.pages.borrow_mut().retain(|key, _| dirty.contains(key));
        for inode in 2..2000 {
            self.fs.forget(inode).await.expect("forgotten");
        }
        self.names.borrow_mut().clear();
        self.fs.shrink();
    }

    pub(crate) async fn unlink(&self, path: &str) -> Result<(), Errno> {
        let (directory, name) = self.parent(path).await?;
        let inode = self.lookup(directory, name).await?;
        self.fs.unlink(&self.caller(), directory, name).await?;
        self.names.borrow_mut().remove(&(directory, name.to_vec()));
        self.forget_if_nameless(inode).await
    }

    pub(crate) async fn forget_if_nameless(&self, inode: InodeNumber) -> Result<(), Errno> {
        if self.fs.attributes(inode).await?.links == 0 {
            self.drop_pages(inode, 0);
            self.fs.forget(inode).await?;
        }
        Ok(())
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let (from, to) = (self.parent(from).await?, self.parent(to).await?);
        let inode = self.lookup(from.0, from.1).await?;
        let replaced = self.lookup(to.0, to.1).await.ok();
        self.fs.rename(&self.caller(), from, to).await?;
        self.names.borrow_mut().remove(&(from.0, from.1.to_vec()));
        self.names.borrow_mut().insert((to.0, to.1.to_vec()), inode);
        match replaced {
            Some(inode) => self.forget_if_nameless(inode).await,
            None => Ok(()),
        }
    }
}

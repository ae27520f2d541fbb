//! Calls of an application.

use crate::cache::{Caches, errno_of};
use crate::call_watch::{CallKind, CallWatch};
use crate::names::Meaning;
use board::Board;
use fs_api::{
    Attributes, Caller, Changes, Errno, FileSystem, FileType, InodeNumber, PAGE_BYTES, Time,
};
use page_cache::{CacheOptions, PageCache, ReadAhead};
use rustc_hash::FxHashMap;
use sim::{Cpus, Lock, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Longest name of an extended attribute (`XATTR_NAME_MAX`).
const ATTRIBUTE_NAME_BYTES_MAX: usize = 255;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of open(2)")]
pub struct OpenOptions {
    /// Make it with these permission bits if it is not there (`O_CREAT`).
    pub create: Option<u32>,
    /// Cut it to nothing (`O_TRUNC`).
    pub truncate: bool,
    /// Every write goes to the end (`O_APPEND`).
    pub append: bool,
    /// A write returns when the medium has it (`O_SYNC`).
    pub sync: bool,
    /// A write returns when the medium has its bytes, and what is needed to find them (`O_DSYNC`).
    pub data_sync: bool,
    /// A file must be made (`O_EXCL`).
    pub exclusive: bool,
    /// What the file is opened for.
    pub access: Access,
}

/// What a file is opened for (`O_ACCMODE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes.
    #[default]
    ReadWrite,
    /// Reads alone; directories can be opened so.
    Read,
    /// Writes alone.
    Write,
}

/// A file that is open; [`Vfs::close`] it. A file that was written is flushed then.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of open(2)")]
pub struct OpenFile {
    pub(crate) inode: InodeNumber,
    appends: bool,
    pub(crate) syncs: bool,
    /// What every write waits for leaves attributes out that are not needed (`O_DSYNC`).
    syncs_data_only: bool,
    access: Access,
    is_directory: bool,
    pub(crate) is_direct: Cell<bool>,
    is_written: Cell<bool>,
    pub(crate) read_ahead: Cell<ReadAhead>,
}

/// A mounted file system under the calls of applications.
///
/// Paths are relative to the root of the mount, components are divided by `/`. Symbolic links are followed
/// as the kernel does: on the way always, at the end by the calls that say so. Files are written through: what a call wrote has reached the file system when it returns.
/// Where the file system writes back ([`FileSystem::writes_back`]) and pages stay in memory, they are dirty
/// until the flusher, a sync or a writer that is held writes them.
pub struct Vfs<F> {
    file_system: Rc<F>,
    sim: Sim,
    /// None where nothing is remembered between calls.
    caches: Option<Rc<Caches<F>>>,
    /// The lock of each inode that anyone changes (`i_mutex`).
    locks: RefCell<FxHashMap<InodeNumber, Rc<Lock<()>>>>,
    users: RefCell<FxHashMap<InodeNumber, u32>>,
    pub(crate) watch: CallWatch,
}

impl<F: FileSystem + 'static> Vfs<F> {
    /// Calls that go to the file system every time and cost nothing of themselves: a library in the
    /// application's place.
    pub fn new(sim: &Sim, file_system: Rc<F>) -> Self {
        Self {
            file_system,
            sim: sim.clone(),
            caches: None,
            locks: RefCell::default(),
            users: RefCell::default(),
            watch: CallWatch::new(sim),
        }
    }

    /// Calls of a kernel, which remembers names, inodes and pages, and takes processor time.
    pub fn cached(sim: &Sim, cpus: &Rc<Cpus>, board: &Rc<Board>, file_system: Rc<F>) -> Self {
        let options = CacheOptions { stores_bytes: true };
        let pages = PageCache::new(sim, cpus, board, options);
        Self::cached_in(sim, cpus, board, pages, file_system)
    }

    /// As [`Vfs::cached`], where the page cache is there already, with pages of others in it. It keeps bytes.
    pub fn cached_in(
        sim: &Sim,
        cpus: &Rc<Cpus>,
        board: &Rc<Board>,
        pages: Rc<PageCache>,
        file_system: Rc<F>,
    ) -> Self {
        let caches = Caches::new(cpus, board, pages, file_system.clone());
        let pages = Rc::downgrade(&caches);
        // Weak: the caches hold the file system, and the file system must not hold them.
        file_system.use_cached_pages(pages);
        Self { caches: Some(caches), ..Self::new(sim, file_system) }
    }

    /// Forgets names, pages and inodes that are not in use, as `echo 3 > /proc/sys/vm/drop_caches`.
    ///
    /// # Errors
    /// [`Errno::Eio`], if the file system writes before it forgets an inode and the medium failed.
    pub async fn drop_caches(&self) -> Result<(), Errno> {
        let Some(caches) = &self.caches else { return Ok(()) };
        let dropped = caches.drop_all(|inode| self.users.borrow().contains_key(&inode));
        // Names and pages are dropped before inodes, as `drop_pagecache_sb` comes before
        // `drop_slab`.
        for inode in dropped {
            self.file_system.forget(inode).await?;
        }
        // `drop_slab` asks again while much is found.
        while self.file_system.shrink().await > 10 {}
        Ok(())
    }

    /// Pages of files in memory.
    pub fn cached_pages(&self) -> u64 {
        self.caches.as_ref().map_or(0, |caches| caches.page_count())
    }

    /// Names and inodes that are remembered (`struct dentry`, `struct inode`).
    pub fn remembered(&self) -> (u64, u64) {
        self.caches.as_ref().map_or((0, 0), |caches| caches.remembered())
    }

    /// Pages of files that differ from the medium.
    pub fn dirty_pages(&self) -> u64 {
        self.caches.as_ref().map_or(0, |caches| caches.dirty_page_count())
    }

    /// Processor time of a call, before what it does.
    pub(crate) fn call_ns(&self) -> u64 {
        self.caches.as_ref().map_or(0, |caches| caches.board.costs.syscall_ns)
    }

    pub(crate) async fn enter(&self) {
        if let Some(caches) = &self.caches {
            caches.cpus.run(self.call_ns()).await;
        }
    }

    /// The inode of a name, as remembered or as the file system says.
    pub(crate) async fn lookup(
        &self,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber, Errno> {
        let Some(caches) = &self.caches else {
            return self.file_system.lookup(directory, name).await;
        };
        // Each component costs the look-up in memory, whether it is remembered or not.
        caches.cpus.run(caches.board.work.entry_ns).await;
        if let Some(known) = caches.known(directory, name) {
            return known.answer();
        }
        let found = self.file_system.lookup(directory, name).await;
        match found {
            Ok(inode) => caches.learn(directory, name, Meaning::Inode(inode)),
            // Only `ENOENT` is remembered; other errors may pass.
            Err(Errno::Enoent) => caches.learn(directory, name, Meaning::Nothing),
            Err(_) => {}
        }
        found
    }

    /// A name means something else now.
    pub(crate) fn learn(&self, directory: InodeNumber, name: &[u8], meaning: Meaning) {
        if let Some(caches) = &self.caches {
            caches.learn(directory, name, meaning);
        }
    }

    pub(crate) fn caches(&self) -> Option<&Caches<F>> {
        self.caches.as_deref()
    }

    /// The file system itself.
    pub fn file_system(&self) -> &Rc<F> {
        &self.file_system
    }

    pub(crate) fn lock_of(&self, inode: InodeNumber) -> Rc<Lock<()>> {
        let new = || Rc::new(Lock::new(&self.sim, ()));
        self.locks.borrow_mut().entry(inode).or_insert_with(new).clone()
    }

    /// Attributes of what a path names, as `lstat` returns them.
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn stat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.enter().await;
        let inode = self.resolve(path).await?;
        self.file_system.attributes(inode).await
    }

    /// Opens a regular file, or a directory to read, by way of symbolic links.
    ///
    /// # Errors
    /// [`Errno::Eisdir`] for a directory that is to be written, [`Errno::Eexist`] for a file that had to be made,
    /// [`Errno::Enxio`] for a device, FIFO or socket, which have
    /// no other end here; as [`Vfs::resolve`].
    pub async fn open(
        &self,
        caller: &Caller,
        path: &[u8],
        options: OpenOptions,
    ) -> Result<OpenFile, Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let inode = self.find_file(caller, path, &options).await?;
        let attributes = self.file_system.attributes(inode).await?;
        // Before anything can fail: closing takes the user away again.
        *self.users.borrow_mut().entry(inode).or_default() += 1;
        let file = OpenFile {
            inode,
            appends: options.append,
            syncs: options.sync || options.data_sync || self.file_system.is_synchronous(),
            syncs_data_only: options.data_sync
                && !options.sync
                && !self.file_system.is_synchronous(),
            access: options.access,
            is_directory: attributes.kind == FileType::Directory,
            is_direct: Cell::new(false),
            is_written: Cell::new(false),
            read_ahead: Cell::default(),
        };
        // A library sets the size of an empty file, too (`yaffs_open_sharing_reldir` calls
        // `yaffs_resize_file` for `O_TRUNC`): YAFFS2 takes the chance to collect.
        if options.truncate
            && (attributes.size_bytes > 0 || self.file_system.is_library())
            && let Err(error) = self.set_size(caller, inode, 0).await
        {
            self.close(caller, file).await?;
            return Err(error);
        }
        Ok(file)
    }

    /// Closes a file; one that has no names any more is deleted with its last user.
    ///
    /// # Errors
    /// [`Errno::Eio`] or [`Errno::Enospc`], of the flush or of the deletion; the file is closed in any case.
    pub async fn close(&self, caller: &Caller, file: OpenFile) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        // `flush` of the file operations runs at every close; here only for files that were
        // written, which is what it concerns.
        let flushed = if file.is_written.get() || self.file_system.is_library() {
            self.file_system.flush(caller, file.inode).await
        } else {
            Ok(())
        };
        let is_last = {
            let mut users = self.users.borrow_mut();
            let count = users.get_mut(&file.inode).expect("an open file has a user");
            *count -= 1;
            let is_last = *count == 0;
            if is_last {
                users.remove(&file.inode);
            }
            is_last
        };
        // The last user of an inode without names deletes it (`iput_final`).
        let forgotten = if is_last { self.forget_if_nameless(file.inode).await } else { Ok(()) };
        flushed.and(forgotten)
    }

    pub(crate) async fn forget_if_nameless(&self, inode: InodeNumber) -> Result<(), Errno> {
        if self.users.borrow().contains_key(&inode) {
            return Ok(());
        }
        // A library keeps count of names itself, and reads nothing to find out.
        if self.file_system.is_library() {
            self.locks.borrow_mut().remove(&inode);
            return self.file_system.forget(inode).await;
        }
        match self.file_system.attributes(inode).await {
            Ok(attributes) if attributes.links > 0 => Ok(()),
            // Names are gone, or the inode cannot be read: what is in memory of it goes.
            _ => {
                self.locks.borrow_mut().remove(&inode);
                if let Some(caches) = &self.caches {
                    caches.remove(inode).await;
                }
                self.file_system.forget(inode).await
            }
        }
    }

    /// Writes bytes from `offset` on, or to the end of a file opened to append (`pwrite`).
    ///
    /// # Errors
    /// [`Errno::Ebadf`] for a file that is only read; [`Errno::Einval`] and [`Errno::Efbig`] for a place behind the largest offset; [`Errno::Enospc`],
    /// [`Errno::Erofs`] and [`Errno::Eio`] of the file system. What was written before stays.
    pub async fn write(
        &self,
        caller: &Caller,
        file: &OpenFile,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let timed = self.watch.begin(CallKind::Write);
        if file.access == Access::Read {
            return Err(Errno::Ebadf);
        }
        timed.moves(bytes.len());
        // Set before the write: a write that fails halfway has changed the file, too.
        file.is_written.set(true);
        let lock = self.lock_of(file.inode);
        // `i_mutex`: writers of one file go one after the other, so that appends do not overlap.
        let held = lock.lock().await;
        let mut size = self.file_system.attributes(file.inode).await?.size_bytes;
        // Read with the lock held, or two appends could begin at the same place.
        let at = if file.appends { size } else { offset };
        check_end(at, bytes.len() as u64)?;
        // A gap is made before the bytes behind it (`begin_behind_end`), so that a cut leaves zeros
        // and not old bytes.
        if at > size && !self.file_system.writes_back() {
            self.file_system.begin_behind_end(caller, file.inode, at).await?;
            size = self.file_system.attributes(file.inode).await?.size_bytes;
        }
        if self.is_direct_write(file, at + bytes.len() as u64 <= size) {
            self.write_direct(caller, file, at, bytes).await?;
            drop(held);
            let data_only = file.syncs_data_only;
            return if file.syncs {
                self.fsync_data(caller, file, data_only).await
            } else {
                Ok(())
            };
        }
        match &self.caches {
            Some(caches) if self.file_system.writes_back() => {
                let pages = caches.file(file.inode, size);
                self.write_dirty(&pages, caller, file, at, bytes).await?;
                if file.is_direct.get() {
                    self.write_out(file.inode, at, bytes.len() as u64).await?;
                }
                // Let go before the sync, as `generic_file_aio_write` does: `fsync` takes the lock
                // itself.
                drop(held);
                if file.syncs {
                    let end = (at + bytes.len() as u64).div_ceil(PAGE_BYTES as u64);
                    let pages = at / PAGE_BYTES as u64..end;
                    return self.sync_pages(caller, file, pages, file.syncs_data_only).await;
                }
                return Ok(());
            }
            Some(caches) => self.write_cached(caches, caller, file, size, at, bytes).await?,
            None => self.write_uncached(caller, file, size, at, bytes).await?,
        }
        if file.is_direct.get() {
            self.write_out(file.inode, at, bytes.len() as u64).await?;
        }
        // File systems that write through have the bytes; what is left is their own buffers.
        if file.syncs && file.syncs_data_only {
            self.file_system.sync_data(caller, file.inode).await?;
        } else if file.syncs {
            self.file_system.fsync(caller, file.inode).await?;
        }
        Ok(())
    }

    /// Writes by way of pages that stay in memory.
    async fn write_cached(
        &self,
        caches: &Caches<F>,
        caller: &Caller,
        file: &OpenFile,
        size: u64,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let pages = caches.file(file.inode, size);
        // A gap that the file system wrote is read with the page that it ends in.
        pages.size_bytes.set(pages.size_bytes.get().max(size));
        let write = async |page: u64, whole: &[u8], part: std::ops::Range<usize>| {
            let whole = whole.try_into().expect("pages have one size");
            let end = page * PAGE_BYTES as u64 + part.end as u64;
            self.file_system.write_page(caller, file.inode, page, whole, part).await?;
            pages.size_bytes.set(pages.size_bytes.get().max(end));
            Ok(())
        };
        let range = at..at + bytes.len() as u64;
        let call_ns = self.call_ns();
        let written =
            pages.mapping.write_through(process::current(), range, bytes, call_ns, write).await;
        written.map_err(errno_of)
    }

    /// Writes page by page, reading those that are written in part. A library is handed the parts alone:
    /// it keeps chunks of its own, and reads what it needs.
    async fn write_uncached(
        &self,
        caller: &Caller,
        file: &OpenFile,
        size: u64,
        mut at: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let mut rest = bytes;
        let mut page_bytes = Box::new([0; PAGE_BYTES]);
        while !rest.is_empty() {
            let (page, within) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
            let count = rest.len().min(PAGE_BYTES - within);
            let (part, later) = rest.split_at(count);
            let page_start = page * PAGE_BYTES as u64;
            let needs_rest = !self.file_system.is_library();
            // A page that is written in part is read first, unless it lies behind the end.
            if needs_rest && count < PAGE_BYTES && page_start < size {
                self.file_system.read_page(file.inode, page, &mut page_bytes).await?;
            } else {
                page_bytes.fill(0);
            }
            page_bytes[within..within + count].copy_from_slice(part);
            let part = within..within + count;
            self.file_system.write_page(caller, file.inode, page, &page_bytes, part).await?;
            at += count as u64;
            rest = later;
        }
        Ok(())
    }

    /// Reads bytes from `offset` on; fewer at the end of the file (`pread`).
    ///
    /// # Errors
    /// [`Errno::Ebadf`] for a file that is only written; [`Errno::Eisdir`]; [`Errno::Eio`], if the medium failed or
    /// the file is damaged.
    pub async fn read(
        &self,
        file: &OpenFile,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        let timed = self.watch.begin(CallKind::Read);
        if file.access == Access::Write {
            return Err(Errno::Ebadf);
        }
        if file.is_directory {
            return Err(Errno::Eisdir);
        }
        if file.is_direct.get() {
            let count = self.read_direct(file, offset, into).await?;
            timed.moves(count);
            return Ok(count);
        }
        let Some(caches) = &self.caches else {
            let count = self.file_system.read_bytes(file.inode, offset, into).await?;
            timed.moves(count);
            return Ok(count);
        };
        let size = self.file_system.attributes(file.inode).await?.size_bytes;
        let pages = caches.file(file.inode, size);
        // The call ends at the end of the file, as it was when the call began.
        let wanted = (into.len() as u64).min(size.saturating_sub(offset));
        timed.moves(wanted as usize);
        let (range, into) = (offset..offset + wanted, Some(&mut into[..wanted as usize]));
        let call_ns = self.call_ns();
        let read =
            pages.mapping.read(process::current(), &file.read_ahead, range, into, call_ns).await;
        read.map(|()| wanted as usize).map_err(errno_of)
    }

    /// Makes durable what was written to a file.
    ///
    /// # Errors
    /// [`Errno::Eio`] or [`Errno::Enospc`], of this call or of a write-back since the last one.
    pub async fn fsync(&self, caller: &Caller, file: &OpenFile) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Sync);
        self.enter().await;
        self.fsync_data(caller, file, false).await
    }

    /// Makes durable the data that was written to a file, with the attributes that lead to it (`fdatasync`).
    ///
    /// # Errors
    /// As [`Vfs::fsync`].
    pub async fn fdatasync(&self, caller: &Caller, file: &OpenFile) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Sync);
        self.enter().await;
        self.fsync_data(caller, file, true).await
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// [`Errno::Eio`] or [`Errno::Enospc`], if what was in memory could not be written.
    pub async fn sync(&self) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Sync);
        self.enter().await;
        // Pages before the file system's own buffers: writing pages adds to them.
        let written = self.write_all().await;
        written.and(self.file_system.sync().await)
    }

    /// Changes attributes of what a path leads to, by way of symbolic links (`chmod`, `utimensat`).
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn change(&self, caller: &Caller, path: &[u8], to: &Changes) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let inode = self.resolve_followed(path).await?;
        self.change_locked(caller, inode, to).await
    }

    /// Changes attributes of what a path names; of a symbolic link itself (`lchown`).
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn change_itself(
        &self,
        caller: &Caller,
        path: &[u8],
        to: &Changes,
    ) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let inode = self.resolve(path).await?;
        self.change_locked(caller, inode, to).await
    }

    async fn change_locked(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        to: &Changes,
    ) -> Result<(), Errno> {
        let lock = self.lock_of(inode);
        let _held = lock.lock().await;
        self.change_held(caller, inode, to).await
    }

    /// Sets the length of a regular file (`truncate`).
    ///
    /// # Errors
    /// [`Errno::Eisdir`], [`Errno::Einval`] for what is no regular file; as [`Vfs::resolve`].
    pub async fn truncate(&self, caller: &Caller, path: &[u8], size: u64) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        // `do_sys_truncate` checks the length before the path.
        check_end(0, size)?;
        let inode = self.resolve_followed(path).await?;
        match self.file_system.attributes(inode).await?.kind {
            FileType::Regular => self.set_size(caller, inode, size).await,
            FileType::Directory => Err(Errno::Eisdir),
            _ => Err(Errno::Einval),
        }
    }

    /// Sets the length of an open file (`ftruncate`).
    ///
    /// # Errors
    /// [`Errno::Einval`] for a file that was not opened to be written (`do_sys_ftruncate`), and for a length
    /// behind the largest offset; [`Errno::Enospc`], [`Errno::Erofs`] and [`Errno::Eio`] of the file system.
    pub async fn truncate_open(
        &self,
        caller: &Caller,
        file: &OpenFile,
        size: u64,
    ) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        check_end(0, size)?;
        if file.access == Access::Read || file.is_directory {
            return Err(Errno::Einval);
        }
        file.is_written.set(true);
        self.set_size(caller, file.inode, size).await
    }

    /// Length of an open file, bytes (`fstat`).
    ///
    /// # Errors
    /// [`Errno::Eio`], if the inode cannot be read.
    pub async fn size_of_open(&self, file: &OpenFile) -> Result<u64, Errno> {
        Ok(self.file_system.attributes(file.inode).await?.size_bytes)
    }

    /// Sets space aside for `length` bytes of an open file from `offset` on (`fallocate`).
    ///
    /// # Errors
    /// In the order of `vfs_fallocate` (fs/open.c): [`Errno::Einval`] for no byte; [`Errno::Ebadf`] for a file
    /// that is only read; [`Errno::Efbig`]; [`Errno::Eopnotsupp`] where the file system has no such operation.
    pub async fn allocate(
        &self,
        caller: &Caller,
        file: &OpenFile,
        (offset, length): (u64, u64),
        keeps_size: bool,
    ) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        if length == 0 {
            return Err(Errno::Einval);
        }
        if file.access == Access::Read {
            return Err(Errno::Ebadf);
        }
        check_end(offset, length)?;
        let lock = self.lock_of(file.inode);
        let _held = lock.lock().await;
        file.is_written.set(true);
        let part = offset..offset + length;
        self.file_system.allocate(caller, file.inode, part, keeps_size).await
    }

    pub(crate) fn is_open(&self, inode: InodeNumber) -> bool {
        self.users.borrow().contains_key(&inode)
    }

    /// Whether any file is open: such a mount cannot be ended (`EBUSY` of `umount`).
    pub fn has_open_files(&self) -> bool {
        !self.users.borrow().is_empty()
    }

    async fn set_size(&self, caller: &Caller, inode: InodeNumber, size: u64) -> Result<(), Errno> {
        let lock = self.lock_of(inode);
        let _held = lock.lock().await;
        let changes = Changes { size_bytes: Some(size), ..Changes::default() };
        self.change_held(caller, inode, &changes).await
    }

    /// A change of size reaches the pages in memory (`truncate_setsize`).
    pub(crate) async fn cut_pages(&self, inode: InodeNumber, changes: &Changes) {
        if let (Some(caches), Some(size)) = (&self.caches, changes.size_bytes) {
            caches.truncate(inode, size).await;
        }
    }

    /// Sets the times of what a path names (`utime`).
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn set_times(
        &self,
        caller: &Caller,
        path: &[u8],
        accessed: Time,
        modified: Time,
    ) -> Result<(), Errno> {
        let changes =
            Changes { accessed: Some(accessed), modified: Some(modified), ..Changes::default() };
        self.change(caller, path, &changes).await
    }

    /// Sets an extended attribute of what a path leads to, by way of symbolic links.
    ///
    /// # Errors
    /// [`Errno::Erange`] for a name of no byte or over 255; [`Errno::Eperm`] for an attribute of users of
    /// what is neither file nor directory (`xattr_permission`, fs/xattr.c); as [`Vfs::resolve`].
    pub async fn set_extended_attribute(
        &self,
        caller: &Caller,
        path: &[u8],
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let inode = self.resolve_followed(path).await?;
        if name.is_empty() || name.len() > ATTRIBUTE_NAME_BYTES_MAX {
            return Err(Errno::Erange);
        }
        let kind = self.file_system.attributes(inode).await?.kind;
        if name.starts_with(b"user.") && !matches!(kind, FileType::Regular | FileType::Directory) {
            // `EPERM` even for root: attributes of users are meant for data, which others do not
            // have.
            return Err(Errno::Eperm);
        }
        let lock = self.lock_of(inode);
        let _held = lock.lock().await;
        self.file_system.set_extended_attribute(caller, inode, name, value).await
    }
}

/// A place in a file is a signed number of 64 bits: one behind its end is wrong, and a call that would end
/// there writes too much (`rw_verify_area` and `generic_write_check_limits`, Linux).
fn check_end(at: u64, bytes: u64) -> Result<(), Errno> {
    const LAST: u64 = i64::MAX.cast_unsigned();
    match at.checked_add(bytes) {
        // A place behind the largest offset is wrong in itself; an end behind it is a file that is
        // too big.
        _ if at > LAST => Err(Errno::Einval),
        Some(end) if end <= LAST => Ok(()),
        _ if at == 0 => Err(Errno::Einval),
        _ => Err(Errno::Efbig),
    }
}

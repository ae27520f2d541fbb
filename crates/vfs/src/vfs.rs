//! Calls of an application.

use crate::cache::{Caches, errno_of};
use crate::call_watch::{CallKind, CallWatch};
use crate::names::Meaning;
use board::Board;
use fs::{CacheOptions, PageCache, Process, ReadAhead};
use posix::{
    Attributes, Caller, Changes, Errno, FileSystem, FileType, InodeNumber, NewInode, PAGE_BYTES,
    Time,
};
use rustc_hash::FxHashMap;
use sim::{Cpus, Lock, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Make it with these permission bits if it is not there (`O_CREAT`).
    pub create: Option<u32>,
    /// Cut it to nothing (`O_TRUNC`).
    pub truncate: bool,
    /// Every write goes to the end (`O_APPEND`).
    pub append: bool,
    /// A write returns when the medium has it (`O_SYNC`).
    pub sync: bool,
}

/// A file that is open; [`Vfs::close`] it. A file that was written is flushed then.
#[derive(Debug)]
pub struct OpenFile {
    pub(crate) inode: InodeNumber,
    pub(crate) process: Process,
    appends: bool,
    syncs: bool,
    is_written: Cell<bool>,
    read_ahead: Cell<ReadAhead>,
}

/// A mounted file system under the calls of applications.
///
/// Paths are relative to the root of the mount, components are divided by `/`. Symbolic links are not
/// followed. Files are written through: what a call wrote has reached the file system when it returns.
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
        let options = CacheOptions { stores_bytes: true, ..CacheOptions::default() };
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
        file_system.use_cached_pages(pages);
        Self { caches: Some(caches), ..Self::new(sim, file_system) }
    }

    /// Forgets names, pages and inodes that are not in use, as `echo 3 > /proc/sys/vm/drop_caches`.
    ///
    /// # Errors
    /// The file system's.
    pub async fn drop_caches(&self) -> Result<(), Errno> {
        let Some(caches) = &self.caches else { return Ok(()) };
        let dropped = caches.drop_all(|inode| self.users.borrow().contains_key(&inode));
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

    async fn enter(&self) {
        if let Some(caches) = &self.caches {
            caches.cpus.run(self.call_ns()).await;
        }
    }

    /// The inode of a name, as remembered or as the file system says.
    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let Some(caches) = &self.caches else {
            return self.file_system.lookup(directory, name).await;
        };
        caches.cpus.run(caches.board.work.entry_ns).await;
        if let Some(known) = caches.known(directory, name) {
            return known.answer();
        }
        let found = self.file_system.lookup(directory, name).await;
        match found {
            Ok(inode) => caches.learn(directory, name, Meaning::Inode(inode)),
            Err(Errno::Enoent) => caches.learn(directory, name, Meaning::Nothing),
            Err(_) => {}
        }
        found
    }

    /// A name means something else now.
    fn learn(&self, directory: InodeNumber, name: &[u8], meaning: Meaning) {
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

    /// The inode that a path names.
    ///
    /// # Errors
    /// [`Errno::Enoent`], [`Errno::Enotdir`], and the file system's.
    pub async fn resolve(&self, path: &[u8]) -> Result<InodeNumber, Errno> {
        let mut inode = self.file_system.root();
        for name in components(path) {
            inode = self.step(inode, name).await?;
        }
        Ok(inode)
    }

    async fn step(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        if self.file_system.attributes(directory).await?.kind != FileType::Directory {
            return Err(Errno::Enotdir);
        }
        self.lookup(directory, name).await
    }

    /// The directory that holds, or would hold, the last name of a path; and that name.
    async fn parent<'p>(&self, path: &'p [u8]) -> Result<(InodeNumber, &'p [u8]), Errno> {
        let mut names: Vec<&[u8]> = components(path).collect();
        let name = names.pop().ok_or(Errno::Einval)?;
        let mut directory = self.file_system.root();
        for name in names {
            directory = self.step(directory, name).await?;
        }
        if self.file_system.attributes(directory).await?.kind != FileType::Directory {
            return Err(Errno::Enotdir);
        }
        Ok((directory, name))
    }

    /// What `lstat` tells.
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn stat(&self, path: &[u8]) -> Result<Attributes, Errno> {
        self.enter().await;
        let inode = self.resolve(path).await?;
        self.file_system.attributes(inode).await
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Errno::Eisdir`] and [`Errno::Einval`] for what is no regular file; as [`Vfs::resolve`].
    pub async fn open(
        &self,
        caller: &Caller,
        path: &[u8],
        options: OpenOptions,
    ) -> Result<OpenFile, Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let (directory, name) = self.parent(path).await?;
        let inode = {
            let lock = self.lock_of(directory);
            let _held = lock.lock().await;
            match (self.lookup(directory, name).await, options.create) {
                (Err(Errno::Enoent), Some(permissions)) => {
                    let new = NewInode::Regular(permissions);
                    self.make_in(caller, directory, name, new).await?
                }
                (found, _) => found?,
            }
        };
        let attributes = self.file_system.attributes(inode).await?;
        match attributes.kind {
            FileType::Regular => {}
            FileType::Directory => return Err(Errno::Eisdir),
            _ => return Err(Errno::Einval),
        }
        *self.users.borrow_mut().entry(inode).or_default() += 1;
        let file = OpenFile {
            inode,
            process: Process::new(caller.pid),
            appends: options.append,
            syncs: options.sync || self.file_system.is_synchronous(),
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
    /// The file system's.
    pub async fn close(&self, caller: &Caller, file: OpenFile) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
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
        let forgotten = if is_last { self.forget_if_nameless(file.inode).await } else { Ok(()) };
        flushed.and(forgotten)
    }

    async fn forget_if_nameless(&self, inode: InodeNumber) -> Result<(), Errno> {
        if self.users.borrow().contains_key(&inode) {
            return Ok(());
        }
        // A library knows itself what has no names, and reads nothing to find out.
        if self.file_system.is_library() {
            self.locks.borrow_mut().remove(&inode);
            return self.file_system.forget(inode).await;
        }
        match self.file_system.attributes(inode).await {
            Ok(attributes) if attributes.links > 0 => Ok(()),
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
    /// The file system's; what was written before stays.
    pub async fn write(
        &self,
        caller: &Caller,
        file: &OpenFile,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let timed = self.watch.begin(CallKind::Write);
        timed.moves(bytes.len());
        file.is_written.set(true);
        let lock = self.lock_of(file.inode);
        let held = lock.lock().await;
        let size = self.file_system.attributes(file.inode).await?.size_bytes;
        let at = if file.appends { size } else { offset };
        match &self.caches {
            Some(caches) if self.file_system.writes_back() => {
                let pages = caches.file(file.inode, size);
                self.write_dirty(&pages, caller, file, at, bytes).await?;
                drop(held);
                if file.syncs {
                    let end = (at + bytes.len() as u64).div_ceil(PAGE_BYTES as u64);
                    return self.sync_pages(caller, file, at / PAGE_BYTES as u64..end).await;
                }
                return Ok(());
            }
            Some(caches) => self.write_cached(caches, caller, file, size, at, bytes).await?,
            None => self.write_uncached(caller, file, size, at, bytes).await?,
        }
        if file.syncs {
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
        let write = async |page: u64, whole: &[u8], part: std::ops::Range<usize>| {
            let whole = whole.try_into().expect("pages have one size");
            let end = page * PAGE_BYTES as u64 + part.end as u64;
            self.file_system.write_page(caller, file.inode, page, whole, part).await?;
            pages.size_bytes.set(pages.size_bytes.get().max(end));
            Ok(())
        };
        let range = at..at + bytes.len() as u64;
        let call_ns = self.call_ns();
        let written = pages.mapping.write_through(file.process, range, bytes, call_ns, write).await;
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
    /// The file system's.
    pub async fn read(
        &self,
        file: &OpenFile,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        let timed = self.watch.begin(CallKind::Read);
        let Some(caches) = &self.caches else {
            let count = self.file_system.read_bytes(file.inode, offset, into).await?;
            timed.moves(count);
            return Ok(count);
        };
        let size = self.file_system.attributes(file.inode).await?.size_bytes;
        let pages = caches.file(file.inode, size);
        let wanted = (into.len() as u64).min(size.saturating_sub(offset));
        timed.moves(wanted as usize);
        let (range, into) = (offset..offset + wanted, Some(&mut into[..wanted as usize]));
        let call_ns = self.call_ns();
        let read = pages.mapping.read(file.process, &file.read_ahead, range, into, call_ns).await;
        read.map(|()| wanted as usize).map_err(errno_of)
    }

    /// Makes durable what was written to a file.
    ///
    /// # Errors
    /// The file system's.
    pub async fn fsync(&self, caller: &Caller, file: &OpenFile) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Sync);
        self.enter().await;
        if self.file_system.writes_back() {
            return self.sync_pages(caller, file, 0..u64::MAX).await;
        }
        self.file_system.fsync(caller, file.inode).await
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The file system's.
    pub async fn sync(&self) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Sync);
        self.enter().await;
        let written = self.write_all().await;
        written.and(self.file_system.sync().await)
    }

    /// Makes a directory, symbolic link or special file under a name that does not exist.
    ///
    /// # Errors
    /// [`Errno::Eexist`]; as [`Vfs::resolve`].
    pub async fn make(
        &self,
        caller: &Caller,
        path: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let (directory, name) = self.parent(path).await?;
        let lock = self.lock_of(directory);
        let _held = lock.lock().await;
        self.must_be_free(directory, name).await?;
        self.make_in(caller, directory, name, new).await
    }

    async fn make_in(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        let inode = self.file_system.make(caller, directory, name, new).await?;
        self.learn(directory, name, Meaning::Inode(inode));
        Ok(inode)
    }

    async fn must_be_free(&self, directory: InodeNumber, name: &[u8]) -> Result<(), Errno> {
        match self.lookup(directory, name).await {
            Ok(_) => Err(Errno::Eexist),
            Err(Errno::Enoent) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// [`Errno::Eexist`]; [`Errno::Eperm`] for directories; as [`Vfs::resolve`].
    pub async fn link(&self, caller: &Caller, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let inode = self.resolve(from).await?;
        if self.file_system.attributes(inode).await?.kind == FileType::Directory {
            return Err(Errno::Eperm);
        }
        let (directory, name) = self.parent(to).await?;
        let lock = self.lock_of(directory);
        let _held = lock.lock().await;
        self.must_be_free(directory, name).await?;
        self.file_system.link(caller, inode, directory, name).await?;
        self.learn(directory, name, Meaning::Inode(inode));
        Ok(())
    }

    /// Removes the name of anything but a directory.
    ///
    /// # Errors
    /// [`Errno::Eisdir`]; as [`Vfs::resolve`].
    pub async fn unlink(&self, caller: &Caller, path: &[u8]) -> Result<(), Errno> {
        self.remove(caller, path, false).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Errno::Enotdir`]; [`Errno::Enotempty`]; as [`Vfs::resolve`].
    pub async fn remove_directory(&self, caller: &Caller, path: &[u8]) -> Result<(), Errno> {
        self.remove(caller, path, true).await
    }

    async fn remove(&self, caller: &Caller, path: &[u8], directories: bool) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let (directory, name) = self.parent(path).await?;
        let inode = {
            let lock = self.lock_of(directory);
            let _held = lock.lock().await;
            let inode = self.lookup(directory, name).await?;
            let kind = self.file_system.kind(inode).await?;
            match (kind == FileType::Directory, directories) {
                (true, false) => return Err(Errno::Eisdir),
                (false, true) => return Err(Errno::Enotdir),
                (true, true) if !self.file_system.read_directory(inode).await?.is_empty() => {
                    return Err(Errno::Enotempty);
                }
                _ => {}
            }
            self.file_system.unlink(caller, directory, name).await?;
            self.learn(directory, name, Meaning::Nothing);
            inode
        };
        self.forget_if_nameless(inode).await
    }

    /// Moves a name; what the new name named before loses it.
    ///
    /// # Errors
    /// [`Errno::Einval`] for a directory into itself; [`Errno::Eisdir`], [`Errno::Enotdir`] and
    /// [`Errno::Enotempty`] by the kinds of the two; as [`Vfs::resolve`].
    pub async fn rename(&self, caller: &Caller, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let (from_directory, from_name) = self.parent(from).await?;
        let (to_directory, to_name) = self.parent(to).await?;
        // Two directories are locked in the order of their numbers, so that nobody waits in a ring.
        let mut both = [from_directory, to_directory];
        both.sort_unstable();
        let locks = both.map(|directory| self.lock_of(directory));
        let _first = locks[0].lock().await;
        let _second = if both[0] == both[1] { None } else { Some(locks[1].lock().await) };
        let inode = self.lookup(from_directory, from_name).await?;
        let is_directory = self.file_system.kind(inode).await? == FileType::Directory;
        if is_directory && is_below(from, to) {
            return Err(Errno::Einval);
        }
        let replaced = match self.lookup(to_directory, to_name).await {
            Err(Errno::Enoent) => None,
            found => Some(found?),
        };
        // Linux leaves two names of one inode alone (`vfs_rename`). A library has no such rule for files:
        // YAFFS2's takes one of the names away, and writes its headers even if both are the same.
        if replaced == Some(inode) && (is_directory || !self.file_system.is_library()) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            let kind = self.file_system.kind(replaced).await?;
            match (is_directory, kind == FileType::Directory) {
                (false, true) => return Err(Errno::Eisdir),
                (true, false) => return Err(Errno::Enotdir),
                (true, true) if !self.file_system.read_directory(replaced).await?.is_empty() => {
                    return Err(Errno::Enotempty);
                }
                _ => {}
            }
        }
        let (from, to) = ((from_directory, from_name), (to_directory, to_name));
        self.file_system.rename(caller, from, to).await?;
        self.learn(from_directory, from_name, Meaning::Nothing);
        self.learn(to_directory, to_name, Meaning::Inode(inode));
        self.set_dirty(inode).await?;
        match replaced {
            Some(replaced) => self.forget_if_nameless(replaced).await,
            None => Ok(()),
        }
    }

    /// Changes attributes of what a path names; of a symbolic link itself.
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn change(&self, caller: &Caller, path: &[u8], to: &Changes) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let inode = self.resolve(path).await?;
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
        let inode = self.resolve(path).await?;
        match self.file_system.attributes(inode).await?.kind {
            FileType::Regular => self.set_size(caller, inode, size).await,
            FileType::Directory => Err(Errno::Eisdir),
            _ => Err(Errno::Einval),
        }
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

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn set_extended_attribute(
        &self,
        caller: &Caller,
        path: &[u8],
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let inode = self.resolve(path).await?;
        let lock = self.lock_of(inode);
        let _held = lock.lock().await;
        self.file_system.set_extended_attribute(caller, inode, name, value).await
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

/// True if `path` lies below `directory`.
fn is_below(directory: &[u8], path: &[u8]) -> bool {
    let mut path = components(path);
    components(directory).all(|name| path.next() == Some(name)) && path.next().is_some()
}

//! The calls that a file system answers, and what the layer above offers it.

use crate::{Attributes, Changes, Errno, FileType, SpaceUse, Time};
use process::Process;
use shared_page::SharedPage;
use std::ops::Range;
use std::pin::Pin;
use std::rc::{Rc, Weak};

/// Number of an inode, as the file system counts them.
pub type InodeNumber = u64;

/// Owner of what a call makes, and when the call is made. The process that makes it is
/// [`process::current`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Owner of what is made.
    pub uid: u32,
    /// Group of what is made.
    pub gid: u32,
    /// Time of the host's clock.
    pub now: Time,
}

/// An inode to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewInode<'a> {
    /// A regular file with permission bits.
    Regular(u32),
    /// A directory with permission bits.
    Directory(u32),
    /// A symbolic link and its target.
    Symlink(&'a [u8]),
    /// A device, pipe or socket: type and permission bits as `mknod` takes them, device number.
    Special(u32, (u32, u32)),
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Bytes of the name; `.` and `..` are left out.
    pub name: Vec<u8>,
    /// Inode that has the name.
    pub inode: InodeNumber,
}

/// Kernel memory that the file system's structures would take, by the sizes of the kernel's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Name of each kind of structure, number of them, bytes of all, sorted by name.
    pub kinds: Vec<(&'static str, u64, u64)>,
}

impl Memory {
    /// Bytes of all kinds together.
    pub fn total_bytes(&self) -> u64 {
        self.kinds.iter().map(|(_, _, bytes)| bytes).sum()
    }
}

/// Pages of files that the layer above has in memory, for file systems that look there before they
/// read the medium (`read_cache_page`).
pub trait CachedPages {
    /// Copies a page that is there and whole; false if it is not.
    fn get(&self, inode: InodeNumber, page: u64, into: &mut [u8; crate::PAGE_BYTES]) -> bool;

    /// A page that is there, to be held without a copy: a later change in memory does not reach it. None if
    /// it is not there, or cannot be shared.
    fn shared(&self, inode: InodeNumber, page: u64) -> Option<Rc<SharedPage>>;

    /// Keeps a page that was read from the medium; nothing happens if the page is there.
    fn put(&self, inode: InodeNumber, page: u64, bytes: &[u8; crate::PAGE_BYTES]);

    /// The thread that writes these pages back. It writes the metadata of a file system, too, that lies in
    /// the page cache of the block device: one thread serves a device (`bdi_writeback_task` of
    /// `fs/fs-writeback.c`, Linux 2.6.32).
    fn flusher(&self) -> Process;

    /// Writes back about so many dirty pages, the oldest first, by [`FileSystem::write_page`]: a file
    /// system that is short of space makes its promises come true (`writeback_inodes_sb_nr`). The
    /// caller may hold locks of the layer above, which must not be waited for.
    fn write_back(&self, pages: u64) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        // A cache without write-back has no dirty pages.
        let _ = pages;
        Box::pin(async {})
    }

    /// Writes one page of a file now if it is dirty, and waits; for [`FileSystem::writes_page_of_cut`].
    fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
    ) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        let _ = (caller, inode, page);
        Box::pin(async {})
    }
}

/// Pages of a file that follow each other, to be written back together.
#[derive(Clone, Copy, Debug)]
pub struct PageRun<'a> {
    /// Number of the first page.
    pub first: u64,
    /// The pages, as the page cache has them.
    pub pages: &'a [[u8; crate::PAGE_BYTES]],
    /// Bytes of them that lie within the file; the last page may reach beyond its end.
    pub bytes: usize,
    /// A call waits until the medium has them (`WB_SYNC_ALL`).
    pub is_waited_for: bool,
    /// They come past the page cache (`O_DIRECT`), and lie within the file. Only where
    /// [`FileSystem::direct_io`] offers it.
    pub is_direct: bool,
}

/// What a file that is opened with `O_DIRECT` offers (`direct_IO` of `address_space_operations`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectIo {
    /// There is no such operation: the flag is refused (`EINVAL`).
    #[default]
    Refused,
    /// Reads pass the page cache; the operation carries no write out, so writes go through the cache.
    Reads,
    /// Reads, and writes that lie within the file.
    ReadsAndWrites,
}

/// What a kernel's `renameat2` takes of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// There is such a call: it came with Linux 3.15.
    pub has_call: bool,
    /// `RENAME_EXCHANGE`, by [`FileSystem::exchange`].
    pub exchanges: bool,
    /// `RENAME_WHITEOUT`, by [`FileSystem::rename_with_whiteout`].
    pub has_whiteout: bool,
}

impl RenameFlags {
    /// A kernel without the call, or a library.
    pub const NONE: Self = Self { has_call: false, exchanges: false, has_whiteout: false };
    /// `RENAME_NOREPLACE` alone, which the layer above answers.
    pub const NO_REPLACE: Self = Self { has_call: true, ..Self::NONE };

    /// These flags in a kernel of this profile, if it has the call.
    #[must_use]
    pub fn in_profile(self, profile: &str) -> Self {
        let has_call = profile.starts_with("linux-") && !profile.starts_with("linux-2.");
        if has_call { self } else { Self::NONE }
    }
}

/// A mounted file system.
///
/// Calls may be under way at the same time, from several tasks; the file system has the locks of the
/// real one, and holds no borrow across an await. The layer above keeps its own rules: it looks a
/// name up before it makes or removes it, holds the lock of a directory while it changes it
/// (`i_mutex`), never asks for pages of an inode it has forgotten, and calls [`FileSystem::forget`]
/// when the last user of an inode is gone. Source of the shape: `include/linux/fs.h`
/// (`inode_operations`, `address_space_operations`, `super_operations`) of Linux 2.6.29.
///
/// `DynFileSystem` stands for one that is not known where it is used; each of its calls allocates a future.
#[dynosaur::dynosaur(pub DynFileSystem = dyn(box) FileSystem)]
#[allow(unreachable_pub, reason = "the attribute names the trait a second time, within itself")]
#[allow(async_fn_in_trait, reason = "one thread: no future needs to be Send")]
pub trait FileSystem {
    /// The inode of the root directory.
    fn root(&self) -> InodeNumber;

    /// The inode of a name in a directory.
    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno>;

    /// Names of a directory, in the order in which the file system lists them.
    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno>;

    /// The attributes that `stat` returns.
    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno>;

    /// Type alone, where the rest is not asked for. Whoever has to read the medium for the other
    /// attributes only, has its own way.
    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        // The default reads the inode; file systems that store the kind with the name answer
        // without.
        Ok(self.attributes(inode).await?.kind)
    }

    /// Changes attributes; a change of size is `truncate`.
    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno>;

    /// Makes an inode under a name that does not exist.
    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno>;

    /// Gives an inode another name.
    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno>;

    /// Removes a name: `unlink`, or `rmdir` of an empty directory.
    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno>;

    /// Moves a name; what the new name named before is unlinked.
    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno>;

    /// What `renameat2` takes beside 0.
    fn rename_flags(&self) -> RenameFlags {
        // What a kernel's file system that knows no flag answers (`jffs2_rename`, `nilfs_rename`).
        RenameFlags::NO_REPLACE
    }

    /// Exchanges what two names name (`RENAME_EXCHANGE`). Only where [`FileSystem::rename_flags`] has it.
    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        let _ = (caller, one, other);
        Err(Errno::Einval)
    }

    /// Moves a name and leaves a whiteout in its place: a character device 0:0 (`RENAME_WHITEOUT`), whose
    /// inode is the answer. Only where [`FileSystem::rename_flags`] has it.
    async fn rename_with_whiteout(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<InodeNumber, Errno> {
        let _ = (caller, from, to);
        Err(Errno::Einval)
    }

    /// Sets space aside for a part of a file (`fallocate`), which grows to the end of the part unless it keeps
    /// its size.
    async fn allocate(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        part: Range<u64>,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        // `vfs_fallocate` answers for a file system without the operation.
        let _ = (caller, inode, part, keeps_size);
        Err(Errno::Eopnotsupp)
    }

    /// Target of a symbolic link.
    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno>;

    /// Fills a page of a file from the medium (`readpage`); bytes past the end are zero.
    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; crate::PAGE_BYTES],
    ) -> Result<(), Errno>;

    /// Runs of pages of a file that may hold data, in order; all others are holes, whatever size the
    /// inode claims (`fiemap`). None if the file system keeps no such map: then all pages may. For tools that
    /// read images; no path of a simulated system call asks.
    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        let _ = inode;
        // Not known: callers take every page for data, which is right, if slow.
        Ok(None)
    }

    /// Takes over a part of a page that was written (`write_end`, for file systems that write
    /// through; `writepage`, for those that write back: the part is then all of the page that lies
    /// within the file, and the caller is whoever writes back). `bytes` is the whole page as the page
    /// cache has it; the file grows to the end of the part if it was shorter.
    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; crate::PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno>;

    /// Fills pages that follow each other; file systems that ask a device for neighbours together
    /// have their own (`readahead`). So do direct reads, when nothing of the pages is dirty in memory.
    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; crate::PAGE_BYTES]],
    ) -> Result<(), Errno> {
        // One by one is always right; file systems over block devices gain by more.
        for (page, into) in (first..).zip(into) {
            self.read_page(inode, page, into).await?;
        }
        Ok(())
    }

    /// Writes back pages that follow each other (`writepages`), as [`FileSystem::write_page`] does one.
    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        let mut left = run.bytes;
        for (page, bytes) in (run.first..).zip(run.pages) {
            // The last page may reach behind the end of the file.
            let part = 0..left.min(crate::PAGE_BYTES);
            left -= part.end;
            if !part.is_empty() {
                self.write_page(caller, inode, page, bytes, part).await?;
            }
        }
        Ok(())
    }

    /// The file system is a library in the application's place: nothing keeps pages above it. A part
    /// of a page is written without reading the rest, so the bytes of [`FileSystem::write_page`]
    /// outside of the part mean nothing; bytes are read by [`FileSystem::read_bytes`]; opening a file
    /// with `O_TRUNC` always sets its size.
    fn is_library(&self) -> bool {
        // What runs in a kernel has the page cache above it.
        false
    }

    /// Reads bytes from `offset` on without a page cache above; fewer at the end of the file. Tells how
    /// many. A library has its own way; what a kernel's file system offers are pages.
    async fn read_bytes(
        &self,
        inode: InodeNumber,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        // Read once: a file that grows meanwhile is read up to its old end.
        let size_bytes = self.attributes(inode).await?.size_bytes;
        let wanted = (into.len() as u64).min(size_bytes.saturating_sub(offset)) as usize;
        let mut page_bytes = Box::new([0; crate::PAGE_BYTES]);
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let page_size = crate::PAGE_BYTES as u64;
            let (page, within) = (at / page_size, (at % page_size) as usize);
            let count = (wanted - done).min(crate::PAGE_BYTES - within);
            self.read_page(inode, page, &mut page_bytes).await?;
            into[done..done + count].copy_from_slice(&page_bytes[within..within + count]);
            done += count;
        }
        Ok(wanted)
    }

    /// Most pages that [`FileSystem::read_pages`] and [`FileSystem::write_pages`] are given at once.
    fn pages_at_once(&self) -> u64 {
        // `writepage` gets one page; file systems with `writepages` take more.
        1
    }

    /// Data of files is written back later: the layer above keeps pages that were written as dirty
    /// ones, between [`FileSystem::begin_write`] and [`FileSystem::end_write`], and hands them over by
    /// [`FileSystem::write_page`] when they are old, too many, or asked for. Before `fsync` and `sync`
    /// it writes all dirty pages concerned, before [`FileSystem::change`] of a size the page with the
    /// new end if it is dirty. Pages behind a new end, and those of an inode that was forgotten
    /// without names, are not written any more. A page may not be changed while it is written.
    fn writes_back(&self) -> bool {
        false
    }

    /// Before a change of size, the file system itself asks for the page with the new end
    /// ([`CachedPages::write_page`]), when it has set space aside and how short the page will be is certain.
    fn writes_page_of_cut(&self) -> bool {
        false
    }

    /// Every write is as one to a file opened with `O_SYNC` (`mount -o sync`).
    fn is_synchronous(&self) -> bool {
        false
    }

    /// A write through begins at `offset`, behind the end of the file (`write_begin`). A file system that
    /// records the gap on the medium writes the record now, before the page is read that is changed.
    async fn begin_behind_end(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        offset: u64,
    ) -> Result<(), Errno> {
        let _ = (caller, inode, offset);
        Ok(())
    }

    /// A part of a page is about to be changed in memory (`write_begin`); the layer above holds the
    /// inode's lock. Space is set aside here, so a file system that is full says so here, and never
    /// when the page is written back. `is_cached`: the page is in memory and whole. Tells whether the
    /// page must be read before it is changed.
    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        let _ = (caller, inode, page);
        // A page that is overwritten whole need not be read.
        Ok(!is_cached && part != (0..crate::PAGE_BYTES))
    }

    /// The part was changed in memory: the page is dirty now, and the file reaches the end of the
    /// part at least (`write_end`).
    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        // The layer above marks the page dirty, as `block_write_end` does.
        let _ = (caller, inode, page, part);
        Ok(())
    }

    /// Inodes whose attributes changed in memory only, the oldest change first. The layer above
    /// writes them by [`FileSystem::write_inode`] after their pages, as `s_op->write_inode` is called.
    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        Vec::new()
    }

    /// Writes an inode if its attributes changed in memory (`write_inode`).
    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        let _ = inode;
        Ok(())
    }

    /// Names of the extended attributes of an inode.
    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno>;

    /// Value of an extended attribute; the name has its prefix (`user.`, `trusted.`).
    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno>;

    /// Sets an extended attribute, or removes it if the value is none.
    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno>;

    /// The last user of an inode is gone: if it has no names, it is deleted (`evict_inode`).
    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno>;

    /// A file that was open for writing is closed (`file_operations.flush`). Most file systems do
    /// nothing then.
    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let _ = (caller, inode);
        Ok(())
    }

    /// Makes durable what was written to a file (`fsync`).
    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno>;

    /// Makes data of a file durable, with its attributes only as far as they are needed to find it
    /// (`fdatasync`).
    async fn sync_data(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        // Where the kernel's code does not look at `datasync`, both calls are the same.
        self.fsync(caller, inode).await
    }

    /// What `O_DIRECT` offers.
    fn direct_io(&self) -> DirectIo {
        DirectIo::Refused
    }

    /// Writes data of a file that the file system itself holds back, and waits
    /// (`filemap_write_and_wait`). The layer above has written its own dirty pages.
    async fn write_out(&self, inode: InodeNumber) -> Result<(), Errno> {
        // Most have nothing in memory but what the layer above has.
        let _ = inode;
        Ok(())
    }

    /// Makes durable all that was written (`sync_fs`).
    async fn sync(&self) -> Result<(), Errno>;

    /// The kernel wants memory back: drops what can be read again, and returns how many objects went
    /// (`register_shrinker`).
    async fn shrink(&self) -> u64 {
        // Most file systems have no caches but those of the layer above.
        0
    }

    /// Ends the mount in an orderly way; the file system must not be used any more.
    async fn unmount(&self) -> Result<(), Errno>;

    /// Tells where pages are that the layer above has in memory.
    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        // A file system that looks nowhere keeps no reference.
        drop(pages);
    }

    /// A reader of a file is read ahead of (`ra_pages` of the backing device is not zero).
    fn reads_ahead(&self) -> bool {
        true
    }

    /// Space and names, as `statfs` returns them.
    fn space(&self) -> SpaceUse;

    /// Kernel memory that the mount takes now.
    fn memory(&self) -> Memory;
}

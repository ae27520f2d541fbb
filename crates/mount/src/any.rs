//! A file system of any kind.

use crate::{BlockPath, FatMount, Jffs2Mount, Nilfs2Mount, UbifsMount};
use fs::PageCache;
use posix::{
    Attributes, CachedPages, Caller, Changes, DirectoryEntry, Errno, FileSystem, InodeNumber,
    Memory, NewInode, PAGE_BYTES, PageRun, SpaceUse,
};
use std::ops::Range;
use std::rc::{Rc, Weak};
use yaffs2::Yaffs2;

/// A mounted file system of any kind.
pub enum AnyFileSystem {
    /// FAT on a block device.
    Fat(FatMount),
    /// JFFS2.
    Jffs2(Jffs2Mount),
    /// NILFS2 on a block device.
    Nilfs2(Nilfs2Mount),
    /// UBIFS over UBI.
    Ubifs(UbifsMount),
    /// YAFFS2.
    Yaffs2(Rc<Yaffs2>),
}

/// The same call on whatever kind it is.
macro_rules! on_each {
    ($self:ident, $fs:ident => $call:expr) => {
        match $self {
            AnyFileSystem::Fat(mount) => {
                let $fs = &mount.file_system;
                $call
            }
            AnyFileSystem::Jffs2(mount) => {
                let $fs = &mount.file_system;
                $call
            }
            AnyFileSystem::Nilfs2(mount) => {
                let $fs = &mount.file_system;
                $call
            }
            AnyFileSystem::Ubifs(mount) => {
                let $fs = &mount.file_system;
                $call
            }
            AnyFileSystem::Yaffs2($fs) => $call,
        }
    };
}

impl AnyFileSystem {
    /// Files go through a kernel's caches of names and pages; not those of a library.
    pub fn has_page_cache(&self) -> bool {
        match self {
            Self::Fat(_) | Self::Jffs2(_) | Self::Nilfs2(_) | Self::Ubifs(_) => true,
            Self::Yaffs2(fs) => fs.profile().has_page_cache,
        }
    }

    /// The way to the block device; none on raw NAND.
    pub fn block_path(&self) -> Option<&BlockPath> {
        match self {
            Self::Fat(mount) => Some(&mount.path),
            Self::Jffs2(mount) => mount.over_block.as_ref().map(|over| &over.path),
            Self::Nilfs2(mount) => Some(&mount.path),
            Self::Ubifs(_) | Self::Yaffs2(_) => None,
        }
    }

    /// The page cache that the way to the medium goes through, which files share.
    pub(crate) fn page_cache(&self) -> Option<Rc<PageCache>> {
        match self {
            Self::Jffs2(mount) => {
                mount.over_block.as_ref().map(|over| over.device.mapping().cache().clone())
            }
            Self::Fat(_) | Self::Nilfs2(_) | Self::Ubifs(_) | Self::Yaffs2(_) => None,
        }
    }

    /// The root directory holds a number of names that was fixed when the file system was made, as that of
    /// FAT12 and FAT16 does.
    pub fn has_bounded_root(&self) -> bool {
        match self {
            Self::Fat(mount) => mount.file_system.volume().root_slots > 0,
            Self::Jffs2(_) | Self::Nilfs2(_) | Self::Ubifs(_) | Self::Yaffs2(_) => false,
        }
    }

    /// Seconds for which a cleaner outside the kernel keeps what was overwritten; none without one.
    pub fn protection_period_s(&self) -> Option<u64> {
        match self {
            Self::Nilfs2(mount) => mount.protection_period_s,
            Self::Fat(_) | Self::Jffs2(_) | Self::Ubifs(_) | Self::Yaffs2(_) => None,
        }
    }

    /// What was found wrong with the medium since the mount began, a sentence each.
    pub async fn findings(&self) -> Vec<String> {
        match self {
            Self::Fat(mount) => mount.file_system.findings(),
            Self::Jffs2(mount) => mount.file_system.findings(),
            Self::Nilfs2(mount) => mount.file_system.findings(),
            Self::Ubifs(mount) => mount.findings(),
            Self::Yaffs2(fs) => {
                fs.findings().await.iter().map(|finding| format!("{finding:?}")).collect()
            }
        }
    }
}

impl AnyFileSystem {
    /// Reads everything and tells what contradicts itself, a sentence each; only FAT, NILFS2 and UBIFS
    /// keep enough twice for that.
    ///
    /// # Errors
    /// The first of reading.
    pub async fn check(&self) -> Result<Vec<String>, Errno> {
        match self {
            Self::Fat(mount) => mount.check().await,
            Self::Jffs2(_) | Self::Yaffs2(_) => Ok(Vec::new()),
            Self::Nilfs2(mount) => mount.file_system.check().await,
            Self::Ubifs(mount) => mount.file_system.check().await,
        }
    }
}

impl FileSystem for AnyFileSystem {
    fn root(&self) -> InodeNumber {
        on_each!(self, fs => fs.root())
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        on_each!(self, fs => fs.lookup(directory, name).await)
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        on_each!(self, fs => fs.read_directory(directory).await)
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        on_each!(self, fs => fs.attributes(inode).await)
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        on_each!(self, fs => fs.change(caller, inode, to).await)
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        on_each!(self, fs => fs.make(caller, directory, name, new).await)
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.link(caller, inode, directory, name).await)
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.unlink(caller, directory, name).await)
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.rename(caller, from, to).await)
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        on_each!(self, fs => fs.read_link(inode).await)
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.read_page(inode, page, into).await)
    }

    fn pages_at_once(&self) -> u64 {
        on_each!(self, fs => fs.pages_at_once())
    }

    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.write_pages(caller, inode, run).await)
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.read_pages(inode, first, into).await)
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.write_page(caller, inode, page, bytes, part).await)
    }

    fn writes_back(&self) -> bool {
        on_each!(self, fs => fs.writes_back())
    }

    fn is_synchronous(&self) -> bool {
        on_each!(self, fs => fs.is_synchronous())
    }

    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        on_each!(self, fs => fs.begin_write(caller, inode, page, part, is_cached).await)
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.end_write(caller, inode, page, part).await)
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        on_each!(self, fs => fs.dirty_inodes())
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        on_each!(self, fs => fs.write_inode(inode).await)
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        on_each!(self, fs => fs.list_attributes(inode).await)
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        on_each!(self, fs => fs.extended_attribute(inode, name).await)
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        on_each!(self, fs => fs.set_extended_attribute(caller, inode, name, value).await)
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        on_each!(self, fs => fs.forget(inode).await)
    }

    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        on_each!(self, fs => fs.flush(caller, inode).await)
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        on_each!(self, fs => fs.fsync(caller, inode).await)
    }

    async fn sync(&self) -> Result<(), Errno> {
        on_each!(self, fs => fs.sync().await)
    }

    async fn shrink(&self) -> u64 {
        match self {
            Self::Fat(mount) => mount.shrink(),
            Self::Jffs2(mount) => mount.shrink(),
            Self::Nilfs2(mount) => mount.file_system.shrink().await,
            Self::Ubifs(mount) => FileSystem::shrink(&mount.file_system).await,
            Self::Yaffs2(fs) => fs.shrink().await,
        }
    }

    async fn unmount(&self) -> Result<(), Errno> {
        match self {
            Self::Fat(mount) => mount.unmount().await,
            Self::Jffs2(mount) => mount.unmount().await,
            Self::Nilfs2(mount) => mount.unmount().await,
            Self::Ubifs(mount) => mount.unmount().await,
            Self::Yaffs2(fs) => fs.unmount().await,
        }
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        on_each!(self, fs => fs.use_cached_pages(pages));
    }

    fn reads_ahead(&self) -> bool {
        on_each!(self, fs => fs.reads_ahead())
    }

    fn space(&self) -> SpaceUse {
        on_each!(self, fs => fs.space())
    }

    fn memory(&self) -> Memory {
        match self {
            Self::Fat(mount) => mount.file_system.memory(),
            Self::Jffs2(mount) => mount.file_system.memory(),
            Self::Nilfs2(mount) => mount.file_system.memory(),
            Self::Ubifs(mount) => mount.memory(),
            Self::Yaffs2(fs) => fs.memory(),
        }
    }
}

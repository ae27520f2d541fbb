//! A file system of any kind.

use crate::{BlockPath, FatMount, Jffs2Mount, Nilfs2Mount, UbifsMount};
use fs::PageCache;
use posix::{
    Attributes, CachedPages, Caller, Changes, DirectoryEntry, DynFileSystem, Errno, FileSystem,
    FileType, InodeNumber, Memory, NewInode, PAGE_BYTES, PageRun, SpaceUse,
};
use std::ops::Range;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use yaffs2::Yaffs2;

/// A mounted file system of any kind.
pub enum AnyFileSystem {
    /// FAT on a block device.
    Fat(FatMount),
    /// JFFS2 on raw NAND, or over `block2mtd`.
    Jffs2(Jffs2Mount),
    /// NILFS2 on a block device.
    Nilfs2(Nilfs2Mount),
    /// UBIFS over a volume of UBI or of memory.
    Ubifs(UbifsMount),
    /// YAFFS2 on raw NAND.
    Yaffs2(Rc<Yaffs2>),
}

/// A call under way that is compiled in this crate once, and not again wherever it is awaited.
pub(crate) type Call<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

impl AnyFileSystem {
    /// Files go through a kernel's caches of names and pages; not those of a library.
    pub fn has_page_cache(&self) -> bool {
        match self {
            Self::Fat(_) | Self::Jffs2(_) | Self::Nilfs2(_) | Self::Ubifs(_) => true,
            // Only the library has none: its application reads and writes without a kernel.
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
                // Pages of the device are the cache that files share.
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

    /// The file system itself, without what its mount adds to it. Inlined in other crates it would bring
    /// all five of them along.
    #[inline(never)]
    fn any(&self) -> &DynFileSystem<'_> {
        match self {
            Self::Fat(mount) => DynFileSystem::from_ref(&mount.file_system),
            Self::Jffs2(mount) => DynFileSystem::from_ref(&mount.file_system),
            Self::Nilfs2(mount) => DynFileSystem::from_ref(&mount.file_system),
            Self::Ubifs(mount) => DynFileSystem::from_ref(&mount.file_system),
            Self::Yaffs2(fs) => DynFileSystem::from_ref(&**fs),
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

    /// Reads everything and tells what contradicts itself, a sentence each; only FAT, NILFS2 and UBIFS
    /// keep enough twice for that.
    ///
    /// # Errors
    /// The first of reading.
    pub async fn check(&self) -> Result<Vec<String>, Errno> {
        self.checking().await
    }

    fn checking(&self) -> Call<'_, Result<Vec<String>, Errno>> {
        match self {
            Self::Fat(mount) => Box::pin(mount.check()),
            // Neither keeps anything twice that could contradict itself.
            Self::Jffs2(_) | Self::Yaffs2(_) => Box::pin(async { Ok(Vec::new()) }),
            Self::Nilfs2(mount) => Box::pin(mount.file_system.check()),
            Self::Ubifs(mount) => Box::pin(mount.file_system.check()),
        }
    }

    fn unmounting(&self) -> Call<'_, Result<(), Errno>> {
        match self {
            Self::Fat(mount) => Box::pin(mount.unmount()),
            Self::Jffs2(mount) => Box::pin(mount.unmount()),
            Self::Nilfs2(mount) => Box::pin(mount.unmount()),
            Self::Ubifs(mount) => Box::pin(mount.unmount()),
            Self::Yaffs2(fs) => Box::pin(fs.unmount()),
        }
    }
}

// A default of the contract would hide what the file system itself does.
#[deny(clippy::missing_trait_methods, reason = "a wrapper answers as what it wraps")]
impl FileSystem for AnyFileSystem {
    fn root(&self) -> InodeNumber {
        self.any().root()
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        self.any().lookup(directory, name).await
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        self.any().read_directory(directory).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.any().attributes(inode).await
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        self.any().change(caller, inode, to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.any().make(caller, directory, name, new).await
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.any().link(caller, inode, directory, name).await
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.any().unlink(caller, directory, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.any().rename(caller, from, to).await
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        self.any().read_link(inode).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.any().read_page(inode, page, into).await
    }

    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        self.any().kind(inode).await
    }

    fn is_library(&self) -> bool {
        self.any().is_library()
    }

    async fn read_bytes(
        &self,
        inode: InodeNumber,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        self.any().read_bytes(inode, offset, into).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        self.any().data_pages(inode).await
    }

    fn pages_at_once(&self) -> u64 {
        self.any().pages_at_once()
    }

    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        self.any().write_pages(caller, inode, run).await
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        self.any().read_pages(inode, first, into).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.any().write_page(caller, inode, page, bytes, part).await
    }

    fn writes_back(&self) -> bool {
        self.any().writes_back()
    }

    fn writes_page_of_cut(&self) -> bool {
        self.any().writes_page_of_cut()
    }

    fn is_synchronous(&self) -> bool {
        self.any().is_synchronous()
    }

    async fn begin_behind_end(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        offset: u64,
    ) -> Result<(), Errno> {
        self.any().begin_behind_end(caller, inode, offset).await
    }

    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        self.any().begin_write(caller, inode, page, part, is_cached).await
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.any().end_write(caller, inode, page, part).await
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        self.any().dirty_inodes()
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.any().write_inode(inode).await
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        self.any().list_attributes(inode).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.any().extended_attribute(inode, name).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.any().set_extended_attribute(caller, inode, name, value).await
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.any().forget(inode).await
    }

    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.any().flush(caller, inode).await
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.any().fsync(caller, inode).await
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.any().sync().await
    }

    async fn shrink(&self) -> u64 {
        match self {
            // Caches of the mount's own are let go here; the file system's are its own affair.
            Self::Fat(mount) => mount.shrink(),
            Self::Jffs2(mount) => mount.shrink(),
            Self::Nilfs2(_) | Self::Ubifs(_) | Self::Yaffs2(_) => self.any().shrink().await,
        }
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.unmounting().await
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        self.any().use_cached_pages(pages);
    }

    fn reads_ahead(&self) -> bool {
        self.any().reads_ahead()
    }

    fn space(&self) -> SpaceUse {
        self.any().space()
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

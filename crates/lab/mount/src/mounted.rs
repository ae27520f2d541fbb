//! What a mount gives, whichever file system it is of.

use crate::{BlockPath, MountError};
use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectIo, DirectoryEntry, DynFileSystem, Errno,
    FileSystem, FileType, Finding, InodeNumber, Memory, NewInode, PAGE_BYTES, PageRun, RenameFlags,
    SpaceUse,
};
use page_cache::PageCache;
use std::any::Any;
use std::ops::{Deref, Range};
use std::pin::Pin;
use std::rc::{Rc, Weak};

/// A call under way that is compiled once, where it is made, and not again wherever it is awaited.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A mount under way.
pub type Mounting<'a> = Call<'a, Result<SharedMount, MountError>>;

/// A number that a file system counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What is counted, as results name it.
    pub name: &'static str,
    /// How much of it there was since the mount began.
    pub value: u64,
    /// Unit of the number.
    pub unit: &'static str,
    /// The mount itself counts it: studies of mounts show it.
    pub is_of_mount: bool,
}

impl Counter {
    /// Something that is counted while the file system works.
    pub fn new(name: &'static str, value: u64, unit: &'static str) -> Self {
        Self { name, value, unit, is_of_mount: false }
    }

    /// Something that tells how a mount went.
    pub fn of_mount(name: &'static str, value: u64, unit: &'static str) -> Self {
        Self { is_of_mount: true, ..Self::new(name, value, unit) }
    }
}

/// What a file system does by itself with blocks whose data nobody rewrites, so that they wear as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillData {
    /// They stay where they are, unless a layer below moves them.
    Stays,
    /// One of so many collected blocks is one of them, whichever it is.
    MovesByChance {
        /// Collected blocks.
        one_of: u32,
    },
    /// The oldest of them moves after hundreds of collections: too seldom to be seen in a few.
    MovesSeldom,
}

/// A mounted file system: the calls that a kernel makes on it, and all that a tool or a study asks of it.
///
/// No method has a default: an adaptor or a wrapper that leaves one out does not compile.
pub trait MountedFileSystem {
    /// The file system itself. `shrink`, `unmount` and `memory` of this contract come before its own.
    fn file_system(&self) -> &DynFileSystem<'_>;

    /// Files go through a kernel's caches of names and pages; not those of a library, whose application
    /// reads and writes without a kernel.
    fn has_page_cache(&self) -> bool;

    /// The way to the block device; none on raw NAND.
    fn block_path(&self) -> Option<&BlockPath>;

    /// The page cache that the way to the medium goes through, which files share.
    fn page_cache(&self) -> Option<Rc<PageCache>>;

    /// The root directory holds a number of names that was fixed when the file system was made, as that of
    /// FAT12 and FAT16 does.
    fn has_bounded_root(&self) -> bool;

    /// Seconds for which a cleaner outside the kernel keeps what was overwritten; none without one.
    fn protection_period_s(&self) -> Option<u64>;

    /// What becomes of blocks whose data nobody rewrites.
    fn still_data(&self) -> StillData;

    /// What was counted since the mount began.
    fn statistics(&self) -> Call<'_, Vec<Counter>>;

    /// What was found wrong with the medium since the mount began.
    fn findings(&self) -> Call<'_, Vec<Finding>>;

    /// Reads everything and tells what contradicts itself. A file system that keeps nothing twice has
    /// nothing to compare, and finds nothing.
    ///
    /// # Errors
    /// The first of reading.
    fn check(&self) -> Call<'_, Result<Vec<Finding>, Errno>>;

    /// Ends the mount in an orderly way, with all that was attached or opened for it.
    ///
    /// # Errors
    /// The first that anything under way met.
    fn unmount(&self) -> Call<'_, Result<(), Errno>>;

    /// Lets go of what can be read again, caches of the mount's own included; tells how many objects went.
    fn shrink(&self) -> Call<'_, u64>;

    /// Memory of the file system and of the layers that were brought up for it.
    fn memory(&self) -> Memory;

    /// [`MountedFileSystem::memory`] has the inodes of the layer above: the file system's own contain them.
    fn counts_inodes(&self) -> bool;

    /// The adaptor itself, for tools that know one file system better than this contract.
    fn as_any(&self) -> &dyn Any;
}

/// A mounted file system of any kind, as the layer above holds it.
///
/// The one type that [`vfs::Vfs`] is compiled for: each call goes to the file system through
/// [`DynFileSystem`], so that no crate above is compiled with all file systems.
#[derive(Clone)]
pub struct SharedMount(Rc<dyn MountedFileSystem>);

impl SharedMount {
    /// What an adaptor mounted.
    pub fn new(mounted: impl MountedFileSystem + 'static) -> Self {
        Self(Rc::new(mounted))
    }

    /// The adaptor, if it is of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }
}

impl Deref for SharedMount {
    type Target = dyn MountedFileSystem;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

// A default of the contract would hide what the file system itself does.
#[deny(clippy::missing_trait_methods, reason = "a wrapper answers as what it wraps")]
impl FileSystem for SharedMount {
    fn root(&self) -> InodeNumber {
        self.0.file_system().root()
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        self.0.file_system().lookup(directory, name).await
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        self.0.file_system().read_directory(directory).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.0.file_system().attributes(inode).await
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        self.0.file_system().change(caller, inode, to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.0.file_system().make(caller, directory, name, new).await
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.0.file_system().link(caller, inode, directory, name).await
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.0.file_system().unlink(caller, directory, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.0.file_system().rename(caller, from, to).await
    }

    fn rename_flags(&self) -> RenameFlags {
        self.0.file_system().rename_flags()
    }

    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.0.file_system().exchange(caller, one, other).await
    }

    async fn rename_with_whiteout(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<InodeNumber, Errno> {
        self.0.file_system().rename_with_whiteout(caller, from, to).await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        part: Range<u64>,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        self.0.file_system().allocate(caller, inode, part, keeps_size).await
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        self.0.file_system().read_link(inode).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.0.file_system().read_page(inode, page, into).await
    }

    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        self.0.file_system().kind(inode).await
    }

    fn is_library(&self) -> bool {
        self.0.file_system().is_library()
    }

    async fn read_bytes(
        &self,
        inode: InodeNumber,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        self.0.file_system().read_bytes(inode, offset, into).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        self.0.file_system().data_pages(inode).await
    }

    fn pages_at_once(&self) -> u64 {
        self.0.file_system().pages_at_once()
    }

    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        self.0.file_system().write_pages(caller, inode, run).await
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        self.0.file_system().read_pages(inode, first, into).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.0.file_system().write_page(caller, inode, page, bytes, part).await
    }

    fn writes_back(&self) -> bool {
        self.0.file_system().writes_back()
    }

    fn writes_page_of_cut(&self) -> bool {
        self.0.file_system().writes_page_of_cut()
    }

    fn is_synchronous(&self) -> bool {
        self.0.file_system().is_synchronous()
    }

    async fn begin_behind_end(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        offset: u64,
    ) -> Result<(), Errno> {
        self.0.file_system().begin_behind_end(caller, inode, offset).await
    }

    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        self.0.file_system().begin_write(caller, inode, page, part, is_cached).await
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.0.file_system().end_write(caller, inode, page, part).await
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        self.0.file_system().dirty_inodes()
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.0.file_system().write_inode(inode).await
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        self.0.file_system().list_attributes(inode).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.0.file_system().extended_attribute(inode, name).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.0.file_system().set_extended_attribute(caller, inode, name, value).await
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.0.file_system().forget(inode).await
    }

    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.0.file_system().flush(caller, inode).await
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.0.file_system().fsync(caller, inode).await
    }

    async fn sync_data(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.0.file_system().sync_data(caller, inode).await
    }

    fn direct_io(&self) -> DirectIo {
        self.0.file_system().direct_io()
    }

    async fn write_out(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.0.file_system().write_out(inode).await
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.0.file_system().sync().await
    }

    async fn shrink(&self) -> u64 {
        self.0.shrink().await
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.0.unmount().await
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        self.0.file_system().use_cached_pages(pages);
    }

    fn reads_ahead(&self) -> bool {
        self.0.file_system().reads_ahead()
    }

    fn space(&self) -> SpaceUse {
        self.0.file_system().space()
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

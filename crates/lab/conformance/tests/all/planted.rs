//! A wrapper of a file system that forwards every method, but for one that goes to the wrong place.
//!
//! The suite has to find each of these faults. A method that is left out does not compile.

use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectIo, DirectoryEntry, Errno, FileSystem,
    FileType, InodeNumber, Memory, NewInode, PAGE_BYTES, PageRun, RenameFlags, SpaceUse,
};
use std::ops::Range;
use std::rc::{Rc, Weak};

/// What a wrapper does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Names are looked up in the root, whatever the directory.
    LookupInRoot,
    /// Every directory shows the names of the root.
    DirectoryOfRoot,
    /// Every inode has the attributes of the root.
    AttributesOfRoot,
    /// The root is changed in place of the inode.
    ChangeOfRoot,
    /// Inodes are made in the root, whatever the directory.
    MakeInRoot,
    /// A link is not made.
    LinkForgotten,
    /// A name is not removed.
    UnlinkForgotten,
    /// The new name is renamed to the old one.
    RenameBackwards,
    /// The target of the root is read, which is no link.
    LinkOfRoot,
    /// The page behind is read.
    NextPageRead,
    /// The page behind is written.
    NextPageWritten,
    /// No inode shows extended attributes.
    AttributesUnlisted,
    /// An extended attribute gets another name.
    OtherAttributeSet,
}

impl Fault {
    /// All faults.
    pub(crate) const ALL: &[Self] = &[
        Self::LookupInRoot,
        Self::DirectoryOfRoot,
        Self::AttributesOfRoot,
        Self::ChangeOfRoot,
        Self::MakeInRoot,
        Self::LinkForgotten,
        Self::UnlinkForgotten,
        Self::RenameBackwards,
        Self::LinkOfRoot,
        Self::NextPageRead,
        Self::NextPageWritten,
        Self::AttributesUnlisted,
        Self::OtherAttributeSet,
    ];
}

impl Fault {
    /// Only a file system with extended attributes can show it.
    pub(crate) fn is_of_attributes(self) -> bool {
        matches!(self, Self::AttributesUnlisted | Self::OtherAttributeSet)
    }
}

/// A wrapper, and its fault if it has one.
pub(crate) struct Planted<F> {
    pub(crate) real: Rc<F>,
    pub(crate) fault: Option<Fault>,
}

impl<F: FileSystem> Planted<F> {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn or_root(&self, fault: Fault, inode: InodeNumber) -> InodeNumber {
        if self.has(fault) { self.real.root() } else { inode }
    }

    fn or_next(&self, fault: Fault, page: u64) -> u64 {
        page + u64::from(self.has(fault))
    }
}

#[deny(clippy::missing_trait_methods, reason = "a wrapper answers as what it wraps")]
impl<F: FileSystem> FileSystem for Planted<F> {
    fn root(&self) -> InodeNumber {
        self.real.root()
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        self.real.lookup(self.or_root(Fault::LookupInRoot, directory), name).await
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        self.real.read_directory(self.or_root(Fault::DirectoryOfRoot, directory)).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.real.attributes(self.or_root(Fault::AttributesOfRoot, inode)).await
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        self.real.change(caller, self.or_root(Fault::ChangeOfRoot, inode), to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.real.make(caller, self.or_root(Fault::MakeInRoot, directory), name, new).await
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        if self.has(Fault::LinkForgotten) {
            return Ok(());
        }
        self.real.link(caller, inode, directory, name).await
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        if self.has(Fault::UnlinkForgotten) {
            return Ok(());
        }
        self.real.unlink(caller, directory, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        if self.has(Fault::RenameBackwards) {
            return self.real.rename(caller, to, from).await;
        }
        self.real.rename(caller, from, to).await
    }

    fn rename_flags(&self) -> RenameFlags {
        self.real.rename_flags()
    }

    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.real.exchange(caller, one, other).await
    }

    async fn rename_with_whiteout(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<InodeNumber, Errno> {
        self.real.rename_with_whiteout(caller, from, to).await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        part: Range<u64>,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        self.real.allocate(caller, inode, part, keeps_size).await
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        self.real.read_link(self.or_root(Fault::LinkOfRoot, inode)).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.real.read_page(inode, self.or_next(Fault::NextPageRead, page), into).await
    }

    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        self.real.kind(inode).await
    }

    fn is_library(&self) -> bool {
        self.real.is_library()
    }

    async fn read_bytes(
        &self,
        inode: InodeNumber,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        self.real.read_bytes(inode, offset, into).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        self.real.data_pages(inode).await
    }

    fn pages_at_once(&self) -> u64 {
        self.real.pages_at_once()
    }

    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        let run = PageRun { first: self.or_next(Fault::NextPageWritten, run.first), ..run };
        self.real.write_pages(caller, inode, run).await
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        self.real.read_pages(inode, self.or_next(Fault::NextPageRead, first), into).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let page = self.or_next(Fault::NextPageWritten, page);
        self.real.write_page(caller, inode, page, bytes, part).await
    }

    fn writes_back(&self) -> bool {
        self.real.writes_back()
    }

    fn writes_page_of_cut(&self) -> bool {
        self.real.writes_page_of_cut()
    }

    fn is_synchronous(&self) -> bool {
        self.real.is_synchronous()
    }

    async fn begin_behind_end(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        offset: u64,
    ) -> Result<(), Errno> {
        self.real.begin_behind_end(caller, inode, offset).await
    }

    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        self.real.begin_write(caller, inode, page, part, is_cached).await
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.real.end_write(caller, inode, page, part).await
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        self.real.dirty_inodes()
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.real.write_inode(inode).await
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        if self.has(Fault::AttributesUnlisted) {
            return Ok(Vec::new());
        }
        self.real.list_attributes(inode).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.real.extended_attribute(inode, name).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let name = if self.has(Fault::OtherAttributeSet) { &b"user.other"[..] } else { name };
        self.real.set_extended_attribute(caller, inode, name, value).await
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.real.forget(inode).await
    }

    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.real.flush(caller, inode).await
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.real.fsync(caller, inode).await
    }

    async fn sync_data(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.real.sync_data(caller, inode).await
    }

    fn direct_io(&self) -> DirectIo {
        self.real.direct_io()
    }

    async fn write_out(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.real.write_out(inode).await
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.real.sync().await
    }

    async fn shrink(&self) -> u64 {
        self.real.shrink().await
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.real.unmount().await
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        self.real.use_cached_pages(pages);
    }

    fn reads_ahead(&self) -> bool {
        self.real.reads_ahead()
    }

    fn space(&self) -> SpaceUse {
        self.real.space()
    }

    fn memory(&self) -> Memory {
        self.real.memory()
    }
}

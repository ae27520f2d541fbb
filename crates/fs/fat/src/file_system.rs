//! The calls of [`fs_api::FileSystem`], and what only FAT offers.
//!
//! May use: `boot`, `engine`, `inode`, `mount`, `profile`.

use crate::boot::{MountError, Volume};
use crate::engine::Engine;
use crate::inode::ROOT;
use crate::mount;
use crate::profile::MountOptions;
use block_medium::{BlockMedium, WriteFlags};
use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectIo, DirectoryEntry, Errno, FileSystem, Finding,
    InodeNumber, Memory, NewInode, PAGE_BYTES, PageRun, RenameFlags, SpaceUse,
};
use sim::{Cpus, Sim};
use std::ops::Range;
use std::rc::{Rc, Weak};

/// Pages that are written back together: several bios are under way at a time.
const PAGES_AT_ONCE: u64 = 1024;

/// A mounted FAT volume.
#[derive(Clone)]
pub struct Fat {
    pub(crate) engine: Rc<Engine>,
}

impl Fat {
    /// Mounts a medium of blocks of 512 bytes.
    ///
    /// # Errors
    /// [`MountError::NotFat`], [`MountError::Unsupported`] and [`MountError::Damaged`] for what is on the
    /// medium, [`MountError::Medium`] if it cannot be read.
    pub async fn mount(
        sim: &Sim,
        cpus: Rc<Cpus>,
        medium: Rc<dyn BlockMedium>,
        options: MountOptions,
    ) -> Result<Self, MountError> {
        Ok(Self { engine: mount::mount(sim, cpus, medium, options).await? })
    }

    /// The layout of the volume.
    pub fn volume(&self) -> &Volume {
        &self.engine.volume
    }

    /// Counts free clusters, if that was not done yet: the first `statfs` reads a whole table.
    pub async fn count_free_clusters(&self) -> Result<u32, Errno> {
        self.engine.count_free().await
    }

    /// What was found wrong or odd since the mount.
    pub fn findings(&self) -> Vec<Finding> {
        self.engine.findings.borrow().clone()
    }

    /// True if nothing is written, because the mount may not or something was damaged.
    pub fn is_read_only(&self) -> bool {
        self.engine.is_read_only.get()
    }

    /// Sectors of metadata that differ from the medium.
    pub fn dirty_sectors(&self) -> u64 {
        self.engine.buffers.count().1
    }

    /// Forgets all sectors of metadata that are clean (`drop_caches`).
    pub fn drop_caches(&self) {
        self.engine.buffers.drop_clean();
    }
}

impl FileSystem for Fat {
    fn root(&self) -> InodeNumber {
        ROOT
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let directory = self.engine.directory(directory)?;
        Ok(self.engine.lookup(&directory, name).await?.number)
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let directory = self.engine.directory(directory)?;
        let names = self.engine.list(&directory).await?;
        Ok(names.into_iter().map(|(name, inode)| DirectoryEntry { name, inode }).collect())
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        let inode = self.engine.inode(inode)?;
        Ok(self.engine.attributes_of(&inode))
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        self.engine.change(caller, inode, to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.engine.make(caller, directory, name, new).await
    }

    async fn link(
        &self,
        _caller: &Caller,
        _inode: InodeNumber,
        _directory: InodeNumber,
        _name: &[u8],
    ) -> Result<(), Errno> {
        // An entry is the inode: two of them would be two files with the same clusters.
        Err(Errno::Eperm)
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.engine.unlink(caller, directory, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.engine.rename(caller, from, to).await
    }

    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.engine.exchange(caller, one, other).await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        part: Range<u64>,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        // `fat_fallocate` came with Linux 4.5.
        if !RenameFlags::NO_REPLACE.in_profile(self.engine.options.profile.name).has_call {
            return Err(Errno::Eopnotsupp);
        }
        self.engine.allocate_part(caller, inode, part.end, keeps_size).await
    }

    /// `vfat_rename2` exchanges names since Linux 6.0.
    fn rename_flags(&self) -> RenameFlags {
        RenameFlags { exchanges: true, ..RenameFlags::NO_REPLACE }
            .in_profile(self.engine.options.profile.name)
    }

    async fn read_link(&self, _inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        Err(Errno::Einval)
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.read_pages(inode, page, std::slice::from_mut(into)).await
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        let inode = self.engine.regular(inode)?;
        self.engine.read_pages(&inode, first, into).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let inode = self.engine.regular(inode)?;
        let start = page * PAGE_BYTES as u64;
        let end = start + part.end as u64;
        if end > inode.size_bytes.get() || caller.now > fs_api::Time::default() {
            // The layer above keeps no dirty pages: no room was made before.
            let write = start + part.start as u64..end;
            self.engine.make_room(&inode, write).await?;
            self.engine.grown(&inode, end, caller.now);
        }
        let _held = inode.writing.lock().await;
        // Only up to the end of the file: the last sector is filled with zeros and no cluster
        // behind it is touched.
        let valid = (inode.size_bytes.get() - start).min(PAGE_BYTES as u64) as usize;
        self.engine.write_bytes(&inode, start, &bytes[..valid], WriteFlags::default()).await
    }

    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        let inode = self.engine.regular(inode)?;
        if run.is_direct {
            self.engine.may_write()?;
            // As a write through the cache sets it, without the archive bit of `fat_write_end`
            // (`file_update_time`).
            self.engine.touch(&inode, caller.now);
        }
        let _held = inode.writing.lock().await;
        let start = run.first * PAGE_BYTES as u64;
        let valid = inode.size_bytes.get().saturating_sub(start).min(run.bytes as u64);
        let bytes = &run.pages.as_flattened()[..valid as usize];
        let flags = WriteFlags {
            is_sync: run.is_waited_for,
            is_direct: run.is_direct,
            ..WriteFlags::default()
        };
        self.engine.write_bytes(&inode, start, bytes, flags).await
    }

    fn pages_at_once(&self) -> u64 {
        PAGES_AT_ONCE
    }

    fn writes_back(&self) -> bool {
        true
    }

    fn is_synchronous(&self) -> bool {
        self.engine.options.is_synchronous
    }

    async fn begin_write(
        &self,
        _caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        let inode = self.engine.regular(inode)?;
        let start = page * PAGE_BYTES as u64;
        let write = start + part.start as u64..start + part.end as u64;
        // Zeros in front of the part but within the page are in memory with it.
        let zeroed_to = write.start.min(start.max(inode.size_bytes.get()));
        self.engine.make_room(&inode, zeroed_to..write.end).await?;
        // A page that is written whole need not be read (`block_write_begin`).
        Ok(!is_cached && part != (0..PAGE_BYTES))
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let inode = self.engine.regular(inode)?;
        self.engine.grown(&inode, page * PAGE_BYTES as u64 + part.end as u64, caller.now);
        Ok(())
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        self.engine.dirty_inodes().iter().map(|inode| inode.number).collect()
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        match self.engine.inode(inode) {
            Ok(inode) => self.engine.write_inode(&inode, false).await,
            Err(_) => Ok(()),
        }
    }

    async fn list_attributes(&self, _inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        Ok(Vec::new())
    }

    async fn extended_attribute(&self, _inode: InodeNumber, _: &[u8]) -> Result<Vec<u8>, Errno> {
        Err(Errno::Eopnotsupp)
    }

    async fn set_extended_attribute(
        &self,
        _caller: &Caller,
        _inode: InodeNumber,
        _name: &[u8],
        _value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        Err(Errno::Eopnotsupp)
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.engine.forget(inode).await
    }

    async fn fsync(&self, _caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        // No question whether the mount may write (`fat_file_fsync`): on a read-only one nothing is
        // dirty, and after damage what is dirty is still written.
        let inode = self.engine.inode(inode)?;
        self.engine.fsync(&inode, false).await
    }

    async fn sync_data(&self, _caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let inode = self.engine.inode(inode)?;
        self.engine.fsync(&inode, true).await
    }

    /// Writes within the file; others would have to make room (`fat_direct_IO`).
    fn direct_io(&self) -> DirectIo {
        DirectIo::ReadsAndWrites
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.engine.sync().await
    }

    async fn unmount(&self) -> Result<(), Errno> {
        mount::unmount(&self.engine).await
    }

    /// Free clusters as counted; before that, as FSInfo says, and none where it does not.
    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        *self.engine.cached_pages.borrow_mut() = Some(pages);
    }

    fn space(&self) -> SpaceUse {
        let free = u64::from(self.engine.free_clusters.get().unwrap_or(0));
        SpaceUse {
            block_bytes: self.engine.volume.cluster_bytes() as u32,
            blocks: self.engine.volume.clusters.into(),
            free_blocks: free,
            available_blocks: free,
        }
    }

    fn memory(&self) -> Memory {
        self.engine.memory_use()
    }
}

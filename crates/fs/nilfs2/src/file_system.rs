//! The calls of [`fs_api::FileSystem`], and what only NILFS2 offers.
//!
//! May use: `directory`, `engine`, `file`, `finding`, `mount`, `mount_error`, `operations`, `profile`,
//! `records`, `recovery`, `summary`.

use crate::directory::NAME_BYTES_MAX;
use crate::engine::Engine;
use crate::file::Buffer;
use crate::finding::Code;
use crate::mount;
use crate::mount_error::MountError;
use crate::operations::FilePage;
use crate::profile::MountOptions;
use crate::records::{Checkpoint, ROOT_INODE, SEGMENT_ACTIVE, SegmentUsage};
use crate::recovery::LogReader;
use crate::summary::{FileInfo, LogHeader};
use block_medium::BlockMedium;
use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectIo, DirectoryEntry, Errno, FileSystem,
    FileType, Finding, InodeNumber, Memory, NewInode, PAGE_BYTES, Place, RenameFlags, SpaceUse,
};
use sim::{Cpus, Sim};
use std::ops::Range;
use std::rc::{Rc, Weak};

/// A mounted NILFS2; clones share one mount.
#[derive(Clone)]
pub struct Nilfs2 {
    pub(crate) engine: Rc<Engine>,
}

impl Nilfs2 {
    /// Mounts a medium.
    ///
    /// # Errors
    /// [`MountError::NoSuperblock`], [`MountError::Unsupported`], [`MountError::NoCheckpoint`] and
    /// [`MountError::Damaged`] for what is on the medium, [`MountError::UnknownCheckpoint`] for the options,
    /// [`MountError::Medium`] if the device fails.
    pub async fn mount(
        sim: &Sim,
        cpus: Rc<Cpus>,
        medium: Rc<dyn BlockMedium>,
        options: MountOptions,
    ) -> Result<Self, MountError> {
        Ok(Self { engine: mount::mount(sim, cpus, medium, options).await? })
    }

    /// All checkpoints, in order (`lscp`).
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>, Errno> {
        self.engine.checkpoints().await
    }

    /// Number of the checkpoint that is newest on the medium.
    pub fn newest_checkpoint(&self) -> u64 {
        self.engine.position.get().last_checkpoint
    }

    /// All segments, in order (`lssu`). Active are the one that is being filled and the one after it,
    /// whatever the medium says (`nilfs_sufile_get_suinfo`).
    pub async fn segments(&self) -> Result<Vec<SegmentUsage>, Errno> {
        let mut all = Vec::new();
        let position = self.engine.position.get();
        for segment in 0..self.engine.geometry.segments {
            let mut usage = self.engine.segment_usage(segment).await?;
            usage.flags &= !SEGMENT_ACTIVE;
            if segment == position.segment || segment == position.next_segment {
                usage.flags |= SEGMENT_ACTIVE;
            }
            all.push(usage);
        }
        Ok(all)
    }

    /// True if the newest checkpoint is shown, with what was changed after it; false for an older one.
    pub fn shows_newest(&self) -> bool {
        let shown = self.engine.options.checkpoint;
        shown.is_none_or(|shown| shown == self.newest_checkpoint())
    }

    /// Logs of a segment: first block, header, files (`dumpseg`). Ends with the first that is not
    /// intact or of another sequence.
    pub async fn logs(&self, segment: u64) -> Result<Vec<(u64, LogHeader, Vec<FileInfo>)>, Errno> {
        let engine = &self.engine;
        let failed = |error| engine.failed(error);
        let reader = LogReader::new(engine.medium.clone(), engine.geometry);
        let (mut start, end) = engine.geometry.segment_range(segment);
        let head = reader.read(start..start + 1).await.map_err(failed)?;
        let Some(first) = LogHeader::decode(&head) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        while start < end
            && let Some(log) = reader.log(start, first.sequence).await.map_err(failed)?
        {
            let files = reader.files(&log).await.map_err(failed)?;
            let (files, _) =
                files.map_err(|why| engine.damaged(Code::DamagedLog, Place::Whole, why))?;
            start += u64::from(log.header.blocks);
            all.push((log.start, log.header, files));
        }
        Ok(all)
    }

    /// Makes a checkpoint (`mkcp`); gives its number.
    pub async fn make_checkpoint(&self) -> Result<u64, Errno> {
        self.engine.make_checkpoint().await?;
        Ok(self.newest_checkpoint())
    }

    /// Makes a snapshot of a checkpoint, or a checkpoint of a snapshot (`chcp`).
    ///
    /// # Errors
    /// [`Errno::Enoent`] if there is no such checkpoint.
    pub async fn change_checkpoint(&self, number: u64, is_snapshot: bool) -> Result<(), Errno> {
        let _transaction = self.engine.transactions.read().await;
        self.engine.may_write()?;
        self.engine.change_mode(number, is_snapshot).await?;
        self.engine.committed();
        Ok(())
    }

    /// Deletes a checkpoint (`rmcp`).
    ///
    /// # Errors
    /// [`Errno::Ebusy`] if it is a snapshot, [`Errno::Enoent`] if there is none, or it is the newest.
    pub async fn delete_checkpoint(&self, number: u64) -> Result<(), Errno> {
        let _transaction = self.engine.transactions.read().await;
        self.engine.may_write()?;
        // The newest checkpoint is the state that a mount shows, so it stays.
        let is_last = number == self.newest_checkpoint();
        // `nilfs_cpfile_delete_checkpoint` of `cpfile.c` tells a snapshot apart from what is not there.
        let found = self.engine.checkpoint(number).await?;
        if found.is_some_and(|checkpoint| checkpoint.is_snapshot()) {
            return Err(Errno::Ebusy);
        }
        if is_last || self.engine.delete_checkpoints(number, number + 1).await? == 0 {
            return Err(Errno::Enoent);
        }
        self.engine.committed();
        Ok(())
    }

    /// Makes data of a file durable, with its attributes only as far as they are needed to find it
    /// (`fdatasync`).
    pub async fn sync_data(&self, inode: InodeNumber) -> Result<(), Errno> {
        let file = self.engine.file(inode).await?;
        if file.is_queued.get() {
            self.engine.sync_data(&file).await?;
        }
        self.engine.flush_device().await
    }

    /// What was found wrong or odd since the mount.
    pub fn findings(&self) -> Vec<Finding> {
        self.engine.findings.borrow().clone()
    }

    /// Why the mount began at the older superblock, if it did: the log that the newer one names is torn, so
    /// that what was synced after the older one may be lost.
    pub fn rolled_back(&self) -> Option<&crate::RolledBack> {
        self.engine.rolled_back.as_ref()
    }

    /// True if nothing is written, because the mount may not or something was damaged.
    pub fn is_read_only(&self) -> bool {
        self.engine.is_read_only.get()
    }

    /// Blocks that the constructor's watermark counts.
    pub fn dirty_blocks(&self) -> u64 {
        self.engine.constructor.dirty_blocks.get()
    }

    /// Forgets all blocks that are clean (`drop_caches`); tells how many.
    pub fn drop_caches(&self) -> u64 {
        let engine = &self.engine;
        if engine.transactions.try_write().is_none() {
            // Blocks that logs under way still need may look clean.
            return 0;
        }
        let metadata = [&engine.dat, &engine.cpfile, &engine.sufile, &engine.root.ifile];
        let mut files: Vec<_> = metadata.into_iter().cloned().collect();
        files.extend(engine.root.files.borrow().values().cloned());
        let mut dropped = 0;
        let keeps_last = engine.options.profile.keeps_last_entries;
        for file in &files {
            let stays = |key: u64, buffer: &Buffer| {
                buffer.is_dirty.get() || !buffer.is_node && keeps_last && file.is_last_asked(key)
            };
            for buffers in [&file.data, &file.nodes] {
                let mut buffers = buffers.borrow_mut();
                let before = buffers.len();
                buffers.retain(|key, buffer| stays(*key, buffer));
                dropped += (before - buffers.len()) as u64;
            }
        }
        for ahead in files.iter().flat_map(|file| [&file.data_ahead, &file.nodes_ahead]) {
            dropped += ahead.take().len() as u64;
        }
        dropped
    }
}

impl FileSystem for Nilfs2 {
    fn root(&self) -> InodeNumber {
        ROOT_INODE
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let directory = self.engine.file(directory).await?;
        // Also of a name that is only looked for (`nilfs_lookup` in `fs/nilfs2/namei.c`).
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::Enametoolong);
        }
        let place = self.engine.find_name(&directory, name).await?;
        place.map(|place| place.inode).ok_or(Errno::Enoent)
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let directory = self.engine.file(directory).await?;
        self.engine.names(&directory).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        let file = self.engine.file(inode).await?;
        Ok(file.attributes())
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
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.engine.link(caller, inode, directory, name).await
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

    /// `nilfs_rename` takes `RENAME_NOREPLACE` alone.
    fn rename_flags(&self) -> RenameFlags {
        RenameFlags::NO_REPLACE.in_profile(self.engine.options.profile.name)
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        let file = self.engine.file(inode).await?;
        if file.kind() != Some(FileType::Symlink) {
            return Err(Errno::Einval);
        }
        self.engine.target_of(&file).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        let file = self.engine.file(inode).await?;
        self.engine.read_pages(&file, page, std::slice::from_mut(into)).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        let file = self.engine.file(inode).await?;
        self.engine.data_pages(&file).await.map(Some)
    }

    /// Read-ahead reaches the device as bios of neighbours (`nilfs_readpages`).
    fn pages_at_once(&self) -> u64 {
        self.engine.medium.bio_blocks_max().into()
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        let file = self.engine.file(inode).await?;
        self.engine.read_pages(&file, first, into).await
    }

    /// The page is dirty here from now on, not in the layer above: the constructor decides when it is
    /// written, so [`FileSystem::writes_back`] stays false.
    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.engine.write_page(caller, FilePage { inode, page }, bytes, part).await
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

    /// Blocks lie in the page cache of their inodes, and go with it.
    async fn shrink(&self) -> u64 {
        self.drop_caches()
    }

    async fn fsync(&self, _caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.engine.may_write()?;
        let file = self.engine.file(inode).await?;
        // As in the kernel only data counts: a change of attributes alone waits for the timer.
        if file.is_queued.get() && self.engine.options.profile.fsync_writes_data_first {
            self.engine.sync_data(&file).await?;
        }
        if file.is_queued.get() {
            self.engine.make_checkpoint().await?;
        }
        self.engine.flush_device().await
    }

    async fn sync_data(&self, _caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        Self::sync_data(self, inode).await
    }

    /// A write would need the cleaner to stand still (`nilfs_direct_IO`).
    fn direct_io(&self) -> DirectIo {
        DirectIo::Reads
    }

    async fn write_out(&self, inode: InodeNumber) -> Result<(), Errno> {
        let file = self.engine.file(inode).await?;
        if file.dirty_data().is_empty() { Ok(()) } else { self.engine.sync_data(&file).await }
    }

    async fn sync(&self) -> Result<(), Errno> {
        if self.engine.is_read_only.get() {
            return Ok(());
        }
        if self.engine.options.profile.sync_writes_data_first {
            // Write-back of each dirty file comes first (`nilfs_writepages`), then a checkpoint.
            let dirty = self.engine.dirty_files.borrow().clone();
            for file in dirty {
                if !file.dirty_data().is_empty() {
                    self.engine.sync_data(&file).await?;
                }
            }
        } else {
            // The file of inodes became dirty with the first write, so it is visited first, and write-back
            // of any of its pages is a checkpoint (`nilfs_mdt_write_folio`).
            self.engine.make_checkpoint().await?;
        }
        // The VFS calls `sync_fs` twice; only the second time a checkpoint is waited for.
        self.engine.sync_superblock().await?;
        self.engine.make_checkpoint().await?;
        self.engine.sync_superblock().await
    }

    async fn unmount(&self) -> Result<(), Errno> {
        if self.engine.is_read_only.get() {
            return Ok(());
        }
        // The daemon first: it must not start a construction while the mount ends
        // (`umount.nilfs2`).
        self.stop_cleaner().await;
        self.sync().await?;
        // Deletions that the last checkpoint made possible become part of the one that follows.
        self.engine.evict().await?;
        self.engine.stop_constructor().await?;
        // Valid again only after the last log is on the medium: a mount then trusts the
        // superblock's log without a search.
        self.engine.end_superblocks().await
    }

    /// Pages that are written are shared with the layer above, not copied.
    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        *self.engine.cached_pages.borrow_mut() = Some(pages);
    }

    fn space(&self) -> SpaceUse {
        let geometry = &self.engine.geometry;
        let per_segment = geometry.blocks_per_segment;
        let reserved = geometry.reserved_segments * per_segment;
        let free = self.engine.clean_segments.get() * per_segment;
        SpaceUse {
            block_bytes: geometry.block_bytes as u32,
            blocks: geometry.blocks() - geometry.first_data_block,
            free_blocks: free,
            available_blocks: free.saturating_sub(reserved),
        }
    }

    fn memory(&self) -> Memory {
        self.engine.memory_use()
    }
}

//! Data of files: chains, growing, cutting, pages read and written.
//!
//! Source: `fat_get_cluster` of `fs/fat/cache.c`, `fat_add_cluster`, `fat_get_block` and `fat_write_begin`
//! of `fs/fat/inode.c`, `fat_free` of `fs/fat/file.c`, `fat_chain_add` of `fs/fat/misc.c`; bios by
//! `fs/mpage.c`; Linux 6.12. Clusters are allocated when a page is first changed in memory, not when it
//! is written back.
//!
//! May use: `boot`, `engine`, `finding`, `inode`, `join`, `names`, `table`, `times`.

use crate::boot::SECTOR_BYTES;
use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::Inode;
use crate::join::join_all;
use crate::names::ATTRIBUTE_ARCHIVE;
use crate::table::Link;
use crate::times;
use block_medium::WriteFlags;
use fs_api::{Errno, PAGE_BYTES, Place, Time};
use std::ops::Range;

/// Largest file: its size takes 32 bits (`s_maxbytes`).
const FILE_BYTES_MAX: u64 = u32::MAX as u64;
/// Pages of zeros written at a time.
const ZEROED_PAGES: u64 = 256;
const SECTOR: u64 = SECTOR_BYTES as u64;

/// Sectors that stand together on the medium and in a file.
struct Run {
    sector: u64,
    sectors: u32,
    /// Where they stand in the file, bytes.
    at: u64,
}

impl Engine {
    /// The cluster of an index in a file; none behind the end of its chain.
    pub(crate) async fn cluster(&self, inode: &Inode, index: usize) -> Result<Option<u32>, Errno> {
        loop {
            let (known, last) = {
                let chain = inode.chain.borrow();
                if let Some(cluster) = chain.get(index) {
                    return Ok(Some(*cluster));
                }
                (chain.len(), chain.last().copied())
            };
            if inode.is_chain_whole.get() {
                return Ok(None);
            }
            let next = match last {
                None if inode.start.get() == 0 => Link::End,
                None => Link::Next(inode.start.get()),
                Some(last) => self.link(last).await?,
            };
            // Another task followed the chain while this one read the table: its result counts.
            if inode.chain.borrow().len() != known {
                continue;
            }
            match next {
                // More clusters than the volume has can only be a loop (`fat_get_cluster` counts
                // the same way). The mount becomes read-only then.
                Link::Next(next) if known as u64 > u64::from(self.volume.clusters) => {
                    return Err(self.damaged(
                        Code::BadChain,
                        Place::Block(next.into()),
                        format!("a chain comes back to cluster {next}"),
                    ));
                }
                Link::Next(next) if self.volume.has_cluster(next) => {
                    inode.chain.borrow_mut().push(next);
                }
                Link::Next(next) => {
                    return Err(self.damaged(
                        Code::BadChain,
                        Place::Block(next.into()),
                        format!("a chain leads to cluster {next}"),
                    ));
                }
                Link::Free => {
                    return Err(self.damaged(
                        Code::BadChain,
                        Place::Whole,
                        "a chain leads to a free cluster",
                    ));
                }
                Link::End => inode.is_chain_whole.set(true),
            }
        }
    }

    /// Follows a chain to its end; gives its length.
    pub(crate) async fn follow_chain(&self, inode: &Inode) -> Result<usize, Errno> {
        while self.cluster(inode, usize::MAX).await?.is_some() {}
        Ok(inode.chain.borrow().len())
    }

    /// Adds a cluster to the end of a chain (`fat_chain_add`).
    pub(crate) async fn append_cluster(&self, inode: &Inode, cluster: u32) -> Result<(), Errno> {
        self.follow_chain(inode).await?;
        debug_assert!(inode.is_chain_whole.get(), "a cluster comes behind the last of the chain");
        let last = inode.chain.borrow().last().copied();
        if let Some(last) = last {
            // The new cluster has its end mark already: in memory the chain is whole at any time.
            // On the medium nothing is ordered.
            self.set_link(last, Some(cluster)).await?;
        } else {
            inode.start.set(cluster);
            self.mark_dirty(inode);
        }
        inode.chain.borrow_mut().push(cluster);
        inode.assert_chain(&self.volume);
        Ok(())
    }

    /// Allocates clusters up to a length.
    pub(crate) async fn reserve(&self, inode: &Inode, bytes: u64) -> Result<(), Errno> {
        if bytes > FILE_BYTES_MAX {
            return Err(Errno::Efbig);
        }
        let clusters_of = |bytes: u64| bytes.div_ceil(self.volume.cluster_bytes()) as usize;
        let needed = clusters_of(bytes);
        // The whole chain is read before the first allocation, so a damaged one costs no cluster.
        if needed > clusters_of(inode.size_bytes.get()) {
            self.follow_chain(inode).await?;
        }
        while needed > 0 && self.cluster(inode, needed - 1).await?.is_none() {
            let cluster = self.allocate().await?;
            if let Err(error) = self.append_cluster(inode, cluster).await {
                // It is in no chain yet, so it goes back alone.
                self.free_chain(cluster).await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes room for a write; bytes between the end of the file and the write become zero.
    ///
    /// # Errors
    /// [`Errno::Enospc`], and then nothing is kept (`fat_write_failed`); [`Errno::Efbig`].
    pub(crate) async fn make_room(&self, inode: &Inode, write: Range<u64>) -> Result<(), Errno> {
        self.may_write()?;
        let size = inode.size_bytes.get();
        if let Err(error) = self.reserve(inode, write.end).await {
            // What was allocated before the volume was full belongs to no byte of the file.
            self.cut_chain(inode, size.div_ceil(self.volume.cluster_bytes()) as usize).await?;
            return Err(error);
        }
        // FAT has no holes: the bytes between are allocated now and written as zeros with the
        // inode.
        inode.zeros.borrow_mut().push(size..write.start);
        Ok(())
    }

    /// The file reaches a place at least, and was changed at a time, if there is one.
    pub(crate) fn grown(&self, inode: &Inode, end: u64, now: Time) {
        inode.size_bytes.set(inode.size_bytes.get().max(end));
        if now > Time::default() {
            self.touch(inode, now);
            // Every write sets the bit (`fat_write_end`); backup programs clear it.
            inode.bits.set(inode.bits.get() | ATTRIBUTE_ARCHIVE);
        }
        self.mark_dirty(inode);
    }

    /// Data was changed: the inode has a new time of modification.
    pub(crate) fn touch(&self, inode: &Inode, now: Time) {
        inode.modified.set(times::truncated(now));
        self.mark_dirty(inode);
    }

    /// Sets the length of a file.
    pub(crate) async fn set_size(&self, inode: &Inode, size: u64, now: Time) -> Result<(), Errno> {
        let old = inode.size_bytes.get();
        if size > old {
            self.make_room(inode, size..size).await?;
        } else if size < old {
            self.may_write()?;
            inode.zeros.borrow_mut().remove(&(size..u64::MAX));
            inode.size_bytes.set(size);
            // The size in memory first, so that no write-back looks for clusters that go now. On
            // the medium the entry may keep the old size with a shorter chain after a cut.
            self.cut_chain(inode, size.div_ceil(self.volume.cluster_bytes()) as usize).await?;
        }
        inode.size_bytes.set(size);
        self.grown(inode, size, now);
        Ok(())
    }

    /// Frees the clusters of a file from an index on (`fat_free`).
    pub(crate) async fn cut_chain(&self, inode: &Inode, keep: usize) -> Result<(), Errno> {
        let Some(first) = self.cluster(inode, keep).await? else { return Ok(()) };
        if keep == 0 {
            inode.start.set(0);
            self.mark_dirty(inode);
        } else {
            let last = inode.chain.borrow()[keep - 1];
            self.set_link(last, None).await?;
        }
        // The tail is ended before its clusters are freed (`fat_free`): the other order would leave
        // a chain that leads into another file's.
        inode.chain.borrow_mut().truncate(keep);
        inode.is_chain_whole.set(true);
        inode.assert_chain(&self.volume);
        self.free_chain(first).await
    }

    /// Where sectors of a file stand on the medium, in runs of at most a bio.
    async fn runs(&self, inode: &Inode, bytes: Range<u64>) -> Result<Vec<Run>, Errno> {
        let cluster_bytes = self.volume.cluster_bytes();
        let most = self.medium.bio_blocks_max();
        let mut runs: Vec<Run> = Vec::new();
        let mut at = bytes.start / SECTOR * SECTOR;
        while at < bytes.end {
            let Some(cluster) = self.cluster(inode, (at / cluster_bytes) as usize).await? else {
                return Err(self.damaged(
                    Code::BadChain,
                    Place::Whole,
                    "a file is longer than its chain",
                ));
            };
            let within = at % cluster_bytes;
            let sector = self.volume.sector_of(cluster) + within / SECTOR;
            // Whole sectors: the medium takes no parts of one.
            let here = (cluster_bytes - within).min(bytes.end - at).div_ceil(SECTOR);
            for sector in sector..sector + here {
                match runs.last_mut() {
                    Some(run)
                        if run.sector + u64::from(run.sectors) == sector && run.sectors < most =>
                    {
                        run.sectors += 1;
                    }
                    _ => runs.push(Run { sector, sectors: 1, at }),
                }
                at += SECTOR;
            }
        }
        let start = bytes.start / SECTOR * SECTOR;
        debug_assert_eq!(
            runs.iter().map(|run| u64::from(run.sectors)).sum::<u64>() * SECTOR,
            bytes.end.next_multiple_of(SECTOR).saturating_sub(start),
            "runs hold the sectors of {bytes:?}"
        );
        Ok(runs)
    }

    /// Fills pages from the medium; bytes past the end are zero.
    pub(crate) async fn read_pages(
        &self,
        inode: &Inode,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        let start = first * PAGE_BYTES as u64;
        let into = into.as_flattened_mut();
        into.fill(0);
        let end = inode.size_bytes.get().min(start + into.len() as u64);
        if end <= start {
            return Ok(());
        }
        for run in self.runs(inode, start..end).await? {
            let read = self.medium.read(run.sector, run.sectors).await;
            let bytes = read.map_err(|error| self.failed(error))?;
            let at = (run.at - start) as usize;
            let count = bytes.len().min((end - run.at) as usize);
            into[at..at + count].copy_from_slice(&bytes[..count]);
        }
        inode.zeros.borrow().clear(start, &mut into[..(end - start) as usize]);
        Ok(())
    }

    /// Writes bytes of a file from a sector's beginning on; the rest of the last sector becomes zero.
    pub(crate) async fn write_bytes(
        &self,
        inode: &Inode,
        start: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Result<(), Errno> {
        debug_assert!(start.is_multiple_of(SECTOR), "byte {start} begins a sector");
        let end = start + bytes.len() as u64;
        let runs = self.runs(inode, start..end).await?;
        // Before the write, which brings these bytes anyway.
        inode.zeros.borrow_mut().remove(&(start..end));
        let mut under_way = Vec::new();
        for run in runs {
            let at = (run.at - start) as usize;
            let length = run.sectors as usize * SECTOR_BYTES;
            let mut data = bytes[at..bytes.len().min(at + length)].to_vec();
            data.resize(length, 0);
            let taken = self.medium.write(run.sector, data, flags).await;
            under_way.push(taken.map_err(|error| self.failed(error))?);
        }
        for done in join_all(under_way).await {
            done.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Writes the bytes that are zero and have not been written so; the inode's data is held.
    pub(crate) async fn write_zeros(&self, inode: &Inode, is_sync: bool) -> Result<(), Errno> {
        const PAGE: u64 = PAGE_BYTES as u64;
        loop {
            let size = inode.size_bytes.get();
            let Some(range) = inode.zeros.borrow().first() else { return Ok(()) };
            if range.start >= size {
                // A write that is under way will bring the end of the file here.
                return Ok(());
            }
            let start = range.start / PAGE * PAGE;
            let end = range.end.min(size).min(start + ZEROED_PAGES * PAGE);
            let pages = (end - start).div_ceil(PAGE) as usize;
            let mut content = vec![[0; PAGE_BYTES]; pages];
            // What stands around the zeros stays.
            let has_head = range.start > start;
            if has_head {
                self.read_pages(inode, start / PAGE, &mut content[..1]).await?;
            }
            if !end.is_multiple_of(PAGE) && (pages > 1 || !has_head) {
                let last = start / PAGE + pages as u64 - 1;
                self.read_pages(inode, last, &mut content[pages - 1..]).await?;
            }
            // Whole sectors again; what stands around the zeros in the first and the last one was
            // read above.
            let from = range.start / SECTOR * SECTOR;
            let to = end.next_multiple_of(SECTOR).min(size);
            let bytes = &content.as_flattened()[(from - start) as usize..(to - start) as usize];
            let flags = WriteFlags { is_sync, ..WriteFlags::default() };
            self.write_bytes(inode, from, bytes, flags).await?;
        }
    }
}

//! Directories: looking through slots, adding names, removing them.
//!
//! Source: `fat_get_entry`, `fat_search_long`, `fat_add_entries` and `fat_alloc_new_dir` of
//! `fs/fat/dir.c`, Linux 6.12.
//!
//! May use: `boot`, `buffers`, `engine`, `finding`, `inode`, `names`.

use crate::boot::{FatType, SECTOR_BYTES};
use crate::buffers::{Buffer, Owner};
use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::Inode;
use crate::names::{
    self, ATTRIBUTE_DIRECTORY, DOT, DOT_DOT, Entry, Parser, Record, SLOT_BYTES, Seen, Slot,
};
use fs_api::{Errno, Place, Time};
use std::rc::Rc;

const SECTOR_SLOTS: u32 = (SECTOR_BYTES / SLOT_BYTES) as u32;
/// Most slots of a directory (`FAT_MAX_DIR_ENTRIES`).
const SLOTS_MAX: u32 = 65_536;

impl Engine {
    /// The volume's sector for a sector of a directory; none behind its end.
    async fn directory_sector(&self, inode: &Inode, index: u32) -> Result<Option<u64>, Errno> {
        if inode.is_root() && self.volume.kind != FatType::Fat32 {
            // The root of FAT12 and FAT16 stands in front of the clusters, with a fixed length.
            let is_inside = index < self.volume.root_slots / SECTOR_SLOTS;
            return Ok(is_inside.then(|| u64::from(self.volume.root_start + index)));
        }
        let per_cluster = self.volume.cluster_sectors;
        let cluster = self.cluster(inode, (index / per_cluster) as usize).await?;
        let Some(cluster) = cluster else { return Ok(None) };
        let first = self.volume.sector_of(cluster);
        if index.is_multiple_of(per_cluster) && per_cluster > 1 {
            // All sectors of a cluster are asked for at once (`fat_dir_readahead`).
            let read = self.buffers.read_run(first, per_cluster).await;
            read.map_err(|error| self.failed(error))?;
        }
        Ok(Some(first + u64::from(index % per_cluster)))
    }

    /// The buffer of a slot, and the byte in it.
    async fn slot(&self, inode: &Inode, slot: u32) -> Result<(Rc<Buffer>, usize), Errno> {
        let sector = self.directory_sector(inode, slot / SECTOR_SLOTS).await?;
        let sector = sector.ok_or_else(|| {
            self.damaged(Code::BadDirectory, Place::Whole, "a directory lost its end")
        })?;
        Ok((self.buffer(sector).await?, (slot % SECTOR_SLOTS) as usize * SLOT_BYTES))
    }

    /// Sector and byte of a slot (`i_pos`).
    pub(crate) async fn place_of_slot(
        &self,
        inode: &Inode,
        slot: u32,
    ) -> Result<(u64, usize), Errno> {
        let (buffer, at) = self.slot(inode, slot).await?;
        Ok((buffer.sector, at))
    }

    /// Hands slots to `see` until it says that it has seen enough; whether it did.
    async fn each_slot(
        &self,
        inode: &Inode,
        mut see: impl FnMut(u32, &[u8]) -> bool,
    ) -> Result<bool, Errno> {
        let mut index = 0;
        while let Some(sector) = self.directory_sector(inode, index).await? {
            // A bound for damaged chains, at twice what `add_slots` makes.
            if index >= SLOTS_MAX / SECTOR_SLOTS * 2 {
                return Err(self.damaged(
                    Code::BadDirectory,
                    Place::Whole,
                    "a directory does not end",
                ));
            }
            let buffer = self.buffer(sector).await?;
            self.compute(u64::from(SECTOR_SLOTS) * self.options.costs.directory_slot_ns).await;
            for (number, slot) in buffer.bytes().chunks_exact(SLOT_BYTES).enumerate() {
                if see(index * SECTOR_SLOTS + number as u32, slot) {
                    return Ok(true);
                }
            }
            index += 1;
        }
        Ok(false)
    }

    /// The first entry that is wanted.
    pub(crate) async fn scan(
        &self,
        inode: &Inode,
        mut is_wanted: impl FnMut(&Entry) -> bool,
    ) -> Result<Option<Entry>, Errno> {
        let mut parser = Parser::default();
        let mut found = None;
        let kind = self.volume.kind;
        let ends_early = self.options.profile.ends_at_unused_slot;
        self.each_slot(inode, |number, slot| {
            // A zero first byte says that no slot behind was ever used.
            if ends_early && slot[0] == 0 {
                return true;
            }
            if let Seen::Entry(entry) = parser.push(number, slot, kind)
                && is_wanted(&entry)
            {
                found = Some(entry);
            }
            found.is_some()
        })
        .await?;
        Ok(found)
    }

    /// The entry of a name.
    pub(crate) async fn find(&self, directory: &Inode, name: &[u8]) -> Result<Entry, Errno> {
        let found = self.scan(directory, |entry| entry.is_meant_by(name)).await?;
        found.ok_or(Errno::Enoent)
    }

    /// All entries but `.` and `..`.
    pub(crate) async fn entries(&self, directory: &Inode) -> Result<Vec<Entry>, Errno> {
        let mut entries = Vec::new();
        self.scan(directory, |entry| {
            if !matches!(entry.record.name, DOT | DOT_DOT) {
                entries.push(entry.clone());
            }
            false
        })
        .await?;
        Ok(entries)
    }

    /// Writes slots of a new name into a directory, which grows by clusters if it must; gives the
    /// number of the last one.
    ///
    /// # Errors
    /// [`Errno::Enospc`]: no cluster is free, or the root directory of FAT12 and FAT16 is full.
    pub(crate) async fn add_slots(&self, directory: &Inode, slots: &[Slot]) -> Result<u32, Errno> {
        let wanted = slots.len() as u32;
        let (mut free, mut end) = (0, 0);
        self.each_slot(directory, |number, slot| {
            // A run of free slots, wherever it is: the first that is long enough is taken
            // (`fat_add_entries`), so names do not stay in the order in which they came.
            let is_free = matches!(slot[0], 0 | 0xe5);
            free = if is_free { free + 1 } else { 0 };
            end = number + 1;
            free == wanted
        })
        .await?;
        // Free slots at the end count, and new clusters follow them.
        debug_assert!(free <= end && free <= wanted, "{free} of {end} slots, {wanted} wanted");
        let first = end - free;
        let missing = wanted - free;
        if missing > 0 {
            self.add_clusters(directory, missing, end).await?;
        }
        for (number, slot) in (first..).zip(slots) {
            // Slots may lie in two sectors, which nothing orders: after a cut the long name may be
            // there without the short one or the other way round.
            let (buffer, at) = self.slot(directory, number).await?;
            debug_assert!(
                matches!(buffer.bytes()[at], 0 | 0xe5),
                "slot {number} of directory {} is free",
                directory.number
            );
            self.buffers.change(&buffer, Owner::Directory(directory.number), |bytes| {
                bytes[at..at + SLOT_BYTES].copy_from_slice(slot);
            });
        }
        self.arm_flusher();
        Ok(first + wanted - 1)
    }

    async fn add_clusters(&self, directory: &Inode, slots: u32, have: u32) -> Result<(), Errno> {
        if directory.is_root() && self.volume.kind != FatType::Fat32 {
            return Err(Errno::Enospc);
        }
        let cluster_slots = self.volume.cluster_sectors * SECTOR_SLOTS;
        let count = slots.div_ceil(cluster_slots);
        // Before anything is allocated: `fat_add_entries` refuses at two megabytes.
        if have + count * cluster_slots > SLOTS_MAX {
            return Err(Errno::Enospc);
        }
        let mut clusters = Vec::new();
        for _ in 0..count {
            match self.new_directory_cluster(Owner::Directory(directory.number)).await {
                Ok(cluster) => clusters.push(cluster),
                Err(error) => {
                    for cluster in clusters {
                        self.free_chain(cluster).await?;
                    }
                    return Err(error);
                }
            }
        }
        for cluster in clusters {
            // The slots are in their buffers before the chain leads to them, but on the medium the
            // table may come first.
            self.append_cluster(directory, cluster).await?;
        }
        let clusters = directory.chain.borrow().len() as u64;
        directory.size_bytes.set(clusters * self.volume.cluster_bytes());
        Ok(())
    }

    /// A cluster of free slots (`fat_zeroed_cluster`).
    async fn new_directory_cluster(&self, owner: Owner) -> Result<u32, Errno> {
        let cluster = self.allocate().await?;
        let first = self.volume.sector_of(cluster);
        for sector in first..first + u64::from(self.volume.cluster_sectors) {
            // Zeros in memory only: a cut before they are written leaves a directory with whatever
            // stood in the cluster.
            let buffer = self.buffers.fresh(sector);
            self.buffers.change(&buffer, owner, |_| {});
        }
        Ok(cluster)
    }

    /// The cluster of a new directory, with the names of itself and its parent (`fat_alloc_new_dir`).
    pub(crate) async fn make_directory(&self, parent: &Inode, now: Time) -> Result<u32, Errno> {
        // The kernel hands these buffers to the parent (`mark_buffer_dirty_inode(bhs[n], dir)`).
        let owner = Owner::Directory(parent.number);
        let cluster = self.new_directory_cluster(owner).await?;
        let buffer = self.buffer(self.volume.sector_of(cluster)).await?;
        let attributes = ATTRIBUTE_DIRECTORY;
        let own = Record { name: DOT, attributes, start: cluster, ..Record::at(now) };
        let above = Record { name: DOT_DOT, start: parent.start_for_children(), ..own };
        self.buffers.change(&buffer, owner, |bytes| {
            bytes[..SLOT_BYTES].copy_from_slice(&own.encode());
            bytes[SLOT_BYTES..2 * SLOT_BYTES].copy_from_slice(&above.encode());
        });
        Ok(cluster)
    }

    /// Frees the slots of a name, the short one first (`fat_remove_entries`).
    pub(crate) async fn remove_slots(&self, directory: &Inode, entry: &Entry) -> Result<(), Errno> {
        // The short one first, as `fat_remove_entries` does before it clears the long ones: what a
        // cut leaves then is slots without a file, which other systems pass over.
        debug_assert!(entry.slots.0 <= entry.slots.1, "the short entry is the last slot of a name");
        for number in (entry.slots.0..=entry.slots.1).rev() {
            let (buffer, at) = self.slot(directory, number).await?;
            self.buffers.change(&buffer, Owner::Directory(directory.number), |bytes| {
                names::free_slot(&mut bytes[at..]);
            });
        }
        self.arm_flusher();
        Ok(())
    }

    /// A directory that moved has another parent.
    pub(crate) async fn set_parent(&self, moved: &Inode, parent: &Inode) -> Result<(), Errno> {
        let entry = self.scan(moved, |entry| entry.record.name == DOT_DOT).await?;
        let Some(entry) = entry else {
            return Err(self.damaged(
                Code::BadDirectory,
                Place::Whole,
                "a directory does not know its parent",
            ));
        };
        let (buffer, at) = self.slot(moved, entry.slots.1).await?;
        // Zero for the root, also on FAT32 where the root has a cluster of its own: the format
        // demands it.
        let start = parent.start_for_children();
        self.buffers.change(&buffer, Owner::Directory(moved.number), |bytes| {
            Record::set_start(&mut bytes[at..], start);
        });
        Ok(())
    }
}

//! The tables: chains of clusters, allocation, freeing.
//!
//! Source: `fs/fat/fatent.c`, Linux 6.12. The first table is read; sectors of it that change are copied to
//! the others (`fat_mirror_bhs`).
//!
//! May use: `boot`, `buffers`, `engine`, `finding`.

use crate::boot::{FIRST_CLUSTER, FatType, SECTOR_BYTES, Volume};
use crate::buffers::{Buffer, Owner};
use crate::engine::Engine;
use crate::finding::Code;
use fs_api::{Errno, Place};
use std::collections::BTreeSet;
use std::rc::Rc;

/// What stands in a table for a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Free,
    Next(u32),
    /// The last of a chain, or not usable.
    End,
}

impl Engine {
    /// Where the entry of a cluster begins in a table: sector of the volume and byte in it.
    fn place_of(&self, cluster: u32) -> (u64, usize) {
        let cluster = u64::from(cluster);
        let at = match self.volume.kind {
            FatType::Fat12 => cluster + cluster / 2,
            FatType::Fat16 => cluster * 2,
            FatType::Fat32 => cluster * 4,
        };
        let sector = u64::from(self.volume.table_start) + at / SECTOR_BYTES as u64;
        (sector, (at % SECTOR_BYTES as u64) as usize)
    }

    fn link_of(&self, value: u32) -> Link {
        match self.volume.kind {
            _ if value == 0 => Link::Free,
            // `BAD_FAT12` counts as an end (`fat12_ent_get`), and so do the reserved marks above
            // it.
            FatType::Fat12 if value >= 0xff7 => Link::End,
            FatType::Fat16 if value >= 0xfff7 => Link::End,
            FatType::Fat32 if value >= 0x0fff_fff7 => Link::End,
            _ => Link::Next(value),
        }
    }

    /// The raw entry of a cluster.
    async fn entry(&self, cluster: u32) -> Result<u32, Errno> {
        let (sector, at) = self.place_of(cluster);
        let buffer = self.buffer(sector).await?;
        Ok(match self.volume.kind {
            FatType::Fat12 => {
                let low = buffer.bytes()[at];
                // Entries of 12 bits may lie across two sectors (`fat12_ent_bread` takes two
                // buffers).
                let high = if at + 1 == SECTOR_BYTES {
                    self.buffer(sector + 1).await?.bytes()[0]
                } else {
                    buffer.bytes()[at + 1]
                };
                let both = u32::from(u16::from_le_bytes([low, high]));
                if cluster.is_multiple_of(2) { both & 0xfff } else { both >> 4 }
            }
            FatType::Fat16 => {
                let bytes = buffer.bytes();
                u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
            }
            FatType::Fat32 => {
                let bytes = buffer.bytes();
                u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) & 0x0fff_ffff
            }
        })
    }

    /// What follows a cluster (`fat_ent_read`).
    ///
    /// # Errors
    /// [`Errno::Eio`] for a number that no cluster has.
    pub(crate) async fn link(&self, cluster: u32) -> Result<Link, Errno> {
        if !self.volume.has_cluster(cluster) {
            return Err(self.damaged(
                Code::BadChain,
                Place::Block(cluster.into()),
                format!("cluster {cluster} is none of the volume's"),
            ));
        }
        Ok(self.link_of(self.entry(cluster).await?))
    }

    /// Writes an entry into the first table (`ent_put`).
    async fn put_entry(
        &self,
        cluster: u32,
        value: u32,
        touched: &mut Vec<Rc<Buffer>>,
    ) -> Result<(), Errno> {
        debug_assert!(
            value <= self.volume.kind.end_mark(),
            "{value:#x} fits an entry of {:?}",
            self.volume.kind
        );
        debug_assert!(self.volume.has_cluster(cluster), "cluster {cluster} has an entry");
        let (sector, at) = self.place_of(cluster);
        let buffer = self.buffer(sector).await?;
        let mut change = |buffer: &Rc<Buffer>, change: &mut dyn FnMut(&mut [u8])| {
            self.buffers.change(buffer, Owner::Tables, change);
            if !touched.iter().any(|known| Rc::ptr_eq(known, buffer)) {
                touched.push(buffer.clone());
            }
        };
        match self.volume.kind {
            FatType::Fat12 => {
                let is_even = cluster.is_multiple_of(2);
                let set = |byte: &mut u8, is_low: bool| match (is_even, is_low) {
                    (true, true) => *byte = value as u8,
                    (true, false) => *byte = *byte & 0xf0 | (value >> 8) as u8,
                    (false, true) => *byte = *byte & 0x0f | (value << 4) as u8,
                    (false, false) => *byte = (value >> 4) as u8,
                };
                change(&buffer, &mut |bytes| set(&mut bytes[at], true));
                let (next, at) = if at + 1 == SECTOR_BYTES {
                    (self.buffer(sector + 1).await?, 0)
                } else {
                    (buffer, at + 1)
                };
                change(&next, &mut |bytes| set(&mut bytes[at], false));
            }
            FatType::Fat16 => change(&buffer, &mut |bytes| {
                bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
            }),
            FatType::Fat32 => change(&buffer, &mut |bytes| {
                // The four bits above are reserved and stay.
                let value = value | u32::from(bytes[at + 3] & 0xf0) << 24;
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }),
        }
        Ok(())
    }

    /// Copies changed sectors of the first table to the others.
    fn mirror(&self, touched: &[Rc<Buffer>]) {
        for copy in 1..self.volume.tables {
            let distance = u64::from(copy) * u64::from(self.volume.table_sectors);
            for buffer in touched {
                // Not read before: the whole sector is the first table's (`fat_mirror_bhs`).
                // Differences that a cut left in the copy go with it.
                let twin = self.buffers.fresh_or_known(buffer.sector + distance);
                debug_assert!(
                    twin.sector < self.table_end(),
                    "sector {} is one of a table's copies",
                    twin.sector
                );
                let bytes = buffer.bytes().to_vec();
                self.buffers.change(&twin, Owner::Tables, |twin| twin.copy_from_slice(&bytes));
            }
        }
        self.arm_flusher();
    }

    /// Makes `next` follow `cluster`, or nothing (`fat_ent_write`).
    pub(crate) async fn set_link(&self, cluster: u32, next: Option<u32>) -> Result<(), Errno> {
        debug_assert!(
            next.is_none_or(|next| self.volume.has_cluster(next)),
            "{next:?} behind cluster {cluster} is one of the volume"
        );
        let mut touched = Vec::new();
        let value = next.unwrap_or(self.volume.kind.end_mark());
        self.put_entry(cluster, value, &mut touched).await?;
        self.mirror(&touched);
        Ok(())
    }

    /// Takes a free cluster, as the end of a chain of its own: the next one behind the cluster that was
    /// taken last (`fat_alloc_clusters`).
    ///
    /// # Errors
    /// [`Errno::Enospc`] if no cluster is free, [`Errno::Eio`] if the tables cannot be read.
    pub(crate) async fn allocate(&self) -> Result<u32, Errno> {
        let _held = self.table_lock.lock().await;
        // FSInfo's number alone is not believed: the volume would seem full after a cut.
        if self.is_count_certain.get() && self.free_clusters.get() == Some(0) {
            return Err(Errno::Enospc);
        }
        // From the last one on, round and round (`prev_free`): new data goes forward, and freed
        // clusters behind rest until the search comes back.
        let mut cluster = self.last_allocated.get();
        for looked_at in 1..=u64::from(self.volume.clusters) {
            cluster += 1;
            if !self.volume.has_cluster(cluster) {
                cluster = FIRST_CLUSTER;
            }
            if self.entry(cluster).await? != 0 {
                continue;
            }
            self.compute(looked_at * self.options.costs.table_entry_ns).await;
            self.set_link(cluster, None).await?;
            self.last_allocated.set(cluster);
            debug_assert!(
                !self.is_count_certain.get() || self.free_clusters.get() != Some(0),
                "cluster {cluster} was free, and none was counted"
            );
            self.free_clusters.set(self.free_clusters.get().map(|free| free.saturating_sub(1)));
            self.is_info_dirty.set(true);
            let sectors = self.volume.sector_of(cluster);
            let end = sectors + u64::from(self.volume.cluster_sectors);
            self.buffers.forget(sectors..end).await;
            return Ok(cluster);
        }
        self.free_clusters.set(Some(0));
        self.is_count_certain.set(true);
        // `fat_alloc_clusters` of `fatent.c` marks FSInfo on every way out of the search.
        self.is_info_dirty.set(true);
        Err(Errno::Enospc)
    }

    /// Frees a chain from a cluster on (`fat_free_clusters`).
    ///
    /// # Errors
    /// [`Errno::Eio`] for a chain that leads to a free cluster or none.
    pub(crate) async fn free_chain(&self, first: u32) -> Result<(), Errno> {
        let _held = self.table_lock.lock().await;
        let (mut touched, mut freed) = (Vec::new(), Vec::new());
        let mut cluster = first;
        let result = loop {
            match self.link(cluster).await {
                Ok(Link::Free) => {
                    break Err(self.damaged(
                        Code::BadChain,
                        Place::Whole,
                        "a chain goes on where it ended",
                    ));
                }
                Ok(link) => {
                    self.put_entry(cluster, 0, &mut touched).await?;
                    freed.push(cluster);
                    match link {
                        Link::Next(next) => cluster = next,
                        _ => break Ok(()),
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.mirror(&touched);
        debug_assert_eq!(
            freed.iter().collect::<BTreeSet<_>>().len(),
            freed.len(),
            "a cluster is freed once: {freed:?}"
        );
        let count = freed.len() as u32;
        self.free_clusters.set(self.free_clusters.get().map(|free| free.saturating_add(count)));
        self.is_info_dirty.set(true);
        if self.options.discards {
            self.discard(&freed);
        }
        self.compute(u64::from(count) * self.options.costs.table_entry_ns).await;
        result
    }

    fn discard(&self, clusters: &[u32]) {
        let each = u64::from(self.volume.cluster_sectors);
        for run in clusters.chunk_by(|one, next| one + 1 == *next) {
            let first = self.volume.sector_of(run[0]);
            self.medium.discard(first..first + run.len() as u64 * each);
        }
    }

    /// Counts free clusters: the whole table is read (`fat_count_free_clusters`).
    pub(crate) async fn count_free(&self) -> Result<u32, Errno> {
        let _held = self.table_lock.lock().await;
        if self.is_count_certain.get()
            && let Some(free) = self.free_clusters.get()
        {
            return Ok(free);
        }
        // Asked for in large pieces (`fat_ent_reada`).
        let most = self.medium.bio_blocks_max();
        for first in (0..self.volume.table_sectors).step_by(most as usize) {
            let count = most.min(self.volume.table_sectors - first);
            let read = self.buffers.read_run((self.volume.table_start + first).into(), count).await;
            read.map_err(|error| self.failed(error))?;
        }
        let mut free = 0;
        for cluster in FIRST_CLUSTER..self.volume.cluster_end() {
            free += u32::from(self.entry(cluster).await? == 0);
        }
        self.compute(u64::from(self.volume.clusters) * self.options.costs.table_entry_ns).await;
        debug_assert!(free <= self.volume.clusters, "{free} clusters cannot be free");
        self.free_clusters.set(Some(free));
        self.is_count_certain.set(true);
        self.is_info_dirty.set(true);
        Ok(free)
    }

    /// First sector behind all copies of the table.
    fn table_end(&self) -> u64 {
        let Volume { table_start, table_sectors, tables, .. } = self.volume;
        u64::from(table_start) + u64::from(tables) * u64::from(table_sectors)
    }
}

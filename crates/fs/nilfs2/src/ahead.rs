//! Reading ahead of metadata: blocks that are submitted while the first is waited for.
//!
//! Source: `nilfs_mdt_read_block` of `fs/nilfs2/mdt.c`, `__nilfs_btree_get_block` of `btree.c` and
//! `nilfs_btnode_submit_block` of `btnode.c`, Linux 2.6.35 to 6.12.
//!
//! May use: `engine`, `file`, `readings`.

use crate::engine::Engine;
use crate::file::File;
use crate::readings::Reading;
use fs_api::Errno;
use std::rc::Rc;

/// Blocks of a metadata file behind the one that is wanted (`NILFS_MDT_MAX_RA_BLOCKS`).
const BLOCKS_AHEAD: u64 = 15;
/// Siblings of a node behind the one that is wanted (`max_ra_blocks`).
pub(crate) const NODES_AHEAD: usize = 7;

/// A block of a file, and where the device has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedBlock {
    pub(crate) offset: u64,
    pub(crate) block: u64,
}

impl Engine {
    /// Submits a read of one block.
    async fn submit_reading(&self, block: u64, reading: &Rc<Reading>) {
        let submitted = self.medium.submit_read(block, 1).await;
        let place = reading.clone();
        self.sim.spawn(async move {
            let bytes = match submitted {
                Ok(pending) => pending.await,
                Err(error) => Err(error),
            };
            place.bytes.replace(Some(bytes));
            place.done.complete();
        });
    }

    /// Reads a block of a metadata file, and those behind it ahead.
    pub(crate) async fn read_with_blocks_ahead(
        &self,
        file: &File,
        wanted: MappedBlock,
    ) -> Result<Vec<u8>, Errno> {
        let MappedBlock { offset, block } = wanted;
        self.check_place(block)?;
        let first = Reading::new(&self.sim);
        self.submit_reading(block, &first).await;
        // The first block is submitted before the others, so that it heads the queue of the device
        // (`nilfs_mdt_read_block`).
        for next in (1..=BLOCKS_AHEAD).map_while(|distance| offset.checked_add(distance)) {
            if file.cached(next).is_none() && !file.data_ahead.borrow().contains_key(&next) {
                // The block cannot leave the map until it is known to be on its way.
                let lock = file.map_lock.read().await;
                self.compute(self.options.costs.map_lookup_ns).await;
                // A hole ends the read-ahead: the kernel stops at the first block that it cannot
                // map.
                let Ok(Some(pointer)) = self.map_find(file, next).await else { break };
                let Ok(block) = self.physical(file, pointer).await else { break };
                if self.has_place(block) && file.cached(next).is_none() {
                    let reading = Reading::new(&self.sim);
                    file.data_ahead.borrow_mut().insert(next, reading.clone());
                    drop(lock);
                    self.submit_reading(block, &reading).await;
                }
            }
            // The kernel stops reading ahead once the wanted block is up to date (`buffer_locked`
            // of the first buffer).
            if first.is_done() {
                break;
            }
        }
        self.finish(&first).await
    }

    /// Reads a node of a map, and ahead those of its siblings that follow it on the device.
    pub(crate) async fn read_with_nodes_ahead(
        &self,
        file: &File,
        block: u64,
        siblings: &[u64],
    ) -> Result<Vec<u8>, Errno> {
        self.check_place(block)?;
        let first = Reading::new(&self.sim);
        self.submit_reading(block, &first).await;
        let mut last = block;
        for pointer in siblings {
            let is_there = file.nodes.borrow().contains_key(pointer)
                || file.nodes_ahead.borrow().contains_key(pointer);
            if !is_there {
                // A pointer that a node has no more may still stand in it.
                let Ok(Some(block)) = self.dat_place(*pointer).await else { break };
                // Only neighbours on the device: a read elsewhere would cost a seek
                // (`nilfs_btnode_submit_block` with its expected block number).
                if block == last + 1 && self.has_place(block) {
                    let reading = Reading::new(&self.sim);
                    // Noted before it is submitted, so that a second task waits for this read
                    // instead of making its own.
                    file.nodes_ahead.borrow_mut().insert(*pointer, reading.clone());
                    self.submit_reading(block, &reading).await;
                    last = block;
                }
            }
            if first.is_done() {
                break;
            }
        }
        self.finish(&first).await
    }

    async fn finish(&self, reading: &Reading) -> Result<Vec<u8>, Errno> {
        let bytes = reading.take().await.expect("no other task holds it");
        bytes.map_err(|error| self.failed(error))
    }
}

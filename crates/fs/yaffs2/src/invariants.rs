//! What must hold of a device between two calls.
//!
//! Two kinds: what this code alone decides, which holds on every medium; and the accounts of chunks and
//! blocks, which a mount takes from the medium. The latter are asserted if they agreed when the mount
//! ended.
//!
//! May use: `blocks`, `device`, `file_system`, `objects`.

use crate::blocks::BlockState;
use crate::device::{BlockPage, Device};
use crate::file_system::Yaffs2;
use crate::objects::Object;

impl Yaffs2 {
    /// Compares all that the mount keeps in memory with itself: objects, trees, the cache, and the accounts
    /// of chunks and blocks. It takes time in proportion to the chunks of the device. Returns whether the
    /// accounts were compared, too: a damaged checkpoint may have brought some that never agreed. Only
    /// builds with debug assertions look for that at the mount.
    ///
    /// # Panics
    /// If the memory contradicts itself, which is a defect of this crate.
    pub async fn check_invariants(&self) -> bool {
        let device = self.device.lock().await;
        device.assert_invariants();
        device.has_sound_accounts
    }
}

impl Device {
    /// Whether the accounts that the mount took from the medium agree.
    pub(crate) fn judge_accounts(&mut self) {
        self.has_sound_accounts = cfg!(debug_assertions) && self.contradiction().is_none();
    }

    /// After each change of the chunks in use of a block.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_block(&self, block: u32) {
        debug_assert!(
            !self.has_sound_accounts
                || self.blocks.count_used(block) as i32 == self.blocks.get(block).pages_in_use,
            "{} chunks of block {block} are in use, {} counted",
            self.blocks.count_used(block),
            self.blocks.get(block).pages_in_use
        );
    }

    fn assert_invariants(&self) {
        self.objects.assert_invariants();
        self.cache.assert_invariants(self.chunk_bytes);
        let mut tree_nodes = 0;
        for number in self.objects.numbers() {
            let Some(file) = self.objects.get(number).and_then(Object::file) else { continue };
            file.tree.assert_invariants();
            tree_nodes += u64::from(file.tree.node_count());
        }
        assert_eq!(self.tree_nodes, tree_nodes, "nodes of all trees");
        if let Some(block) = self.alloc_block {
            assert!(self.alloc_page < self.pages_per_block, "page {} is next", self.alloc_page);
            let state = self.blocks.get(block).state;
            assert_eq!(state, BlockState::Allocating, "block {block} is being written");
        }
        assert_eq!(
            self.summary.len(),
            self.chunks_before_summary() as usize,
            "a summary has an entry for each chunk before it"
        );
        if self.has_sound_accounts {
            assert_eq!(self.contradiction(), None, "the accounts agreed when the mount ended");
        }
    }

    /// The first thing in the accounts that does not agree.
    fn contradiction(&self) -> Option<String> {
        self.block_contradiction().or_else(|| self.reference_contradiction())
    }

    /// Counts of chunks and blocks against the blocks.
    fn block_contradiction(&self) -> Option<String> {
        let (mut erased, mut free, mut in_checkpoint) = (0, 0, 0);
        for (block, info) in self.blocks.iter() {
            let used = self.blocks.count_used(block);
            if used as i32 != info.pages_in_use {
                let counted = info.pages_in_use;
                return Some(format!("{used} chunks of block {block} in use, {counted} counted"));
            }
            match info.state {
                BlockState::Empty if used > 0 => {
                    return Some(format!("erased block {block} has {used} chunks in use"));
                }
                BlockState::Empty => {
                    erased += 1;
                    free += self.pages_per_block;
                }
                BlockState::Allocating if self.alloc_block != Some(block) => {
                    return Some(format!("block {block} is open, and not being written"));
                }
                BlockState::Allocating if info.sequence != self.sequence => {
                    return Some(format!("block {block} is written, and not the youngest"));
                }
                BlockState::Full if info.sequence > self.sequence => {
                    return Some(format!("block {block} is younger than the youngest"));
                }
                BlockState::Allocating
                | BlockState::Full
                | BlockState::Collecting
                | BlockState::Dirty => free += self.pages_per_block - used,
                BlockState::Checkpoint => in_checkpoint += 1,
                BlockState::Unknown
                | BlockState::Scanning
                | BlockState::NeedsScan
                | BlockState::Dead => {}
            }
        }
        let counted = (self.erased_blocks, self.free_chunks, self.checkpoint.blocks_in as i32);
        let found = (erased, free as i32, in_checkpoint);
        (counted != found).then(|| {
            format!(
                "erased blocks, free chunks, blocks of a checkpoint: {found:?}, {counted:?} counted"
            )
        })
    }

    /// Chunks in use against the trees and headers that name them.
    fn reference_contradiction(&self) -> Option<String> {
        let chunks = (self.blocks.last() + 1) * self.pages_per_block;
        let mut is_named = vec![false; chunks as usize];
        for number in self.objects.numbers() {
            let Some(object) = self.objects.get(number) else { continue };
            let places = object.file().map(|file| file.tree.chunks()).unwrap_or_default();
            if object.file().is_some() && object.data_chunks != places.len() as i32 {
                let counted = object.data_chunks;
                return Some(format!(
                    "object {number}: {} chunks, {counted} counted",
                    places.len()
                ));
            }
            let header = Some(object.header_chunk).filter(|chunk| *chunk != 0);
            for chunk in places.into_iter().map(|(_, place)| place).chain(header) {
                if !self.blocks.holds_chunk(chunk) || !self.blocks.is_used(chunk) {
                    return Some(format!("object {number} names chunk {chunk}, which is free"));
                }
                if std::mem::replace(&mut is_named[chunk as usize], true) {
                    return Some(format!("object {number} names chunk {chunk} of another"));
                }
            }
        }
        for block in self.blocks.numbers() {
            // Chunks of summaries are of no object.
            for page in 0..self.chunks_before_summary() {
                let chunk = self.chunk(BlockPage { block, page });
                if self.blocks.is_used(chunk) && !is_named[chunk as usize] {
                    return Some(format!("chunk {chunk} is in use, and no object names it"));
                }
            }
        }
        None
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{BlockPage, BlockState, Device};
    use crate::options::MountOptions;
    use crate::profile::find_profile;
    use crate::tags::Tags;
    use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
    use nand::{Chip, FaultSettings, Storage, find_part};
    use sim::{Cpus, Simulation};
    use std::rc::Rc;

    /// Mounts a blank device, writes a stray chunk that no object names, and changes the memory.
    fn after(change: impl AsyncFnOnce(&mut Device) + 'static) {
        let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
        part.geometry.blocks = 32;
        part.geometry.pages_per_block = 16;
        let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
        let options = MtdOptions {
            layout: find_layout("linux-large").expect("in the table"),
            costs: DriverCosts::default(),
            bad_blocks: BadBlocks::Table,
            reads_sub_pages: false,
            takes_time: false,
        };
        let mtd = Mtd::new(&sim, cpus.clone(), chip, options);
        sim.spawn(async move {
            let options = MountOptions::new(find_profile("linux-6.1").expect("in the table"));
            let mut device = Device::new(mtd, cpus, options, 0);
            device.mount().await.expect("mounted");
            assert!(device.has_sound_accounts, "a blank device has sound accounts");
            device.assert_invariants();
            let page = vec![0; device.chunk_bytes as usize];
            let chunk = device.write_new_chunk(&page, Tags::data(300, 1, 1), false).await;
            device.delete_chunk(chunk.expect("written")).await;
            device.assert_invariants();
            change(&mut device).await;
            device.assert_invariants();
        });
        simulation.run();
    }

    #[test]
    fn a_device_that_is_left_alone_agrees_with_itself() {
        after(async |_| {});
    }

    #[test]
    #[should_panic(expected = "the accounts agreed when the mount ended")]
    fn a_free_chunk_too_many_is_found() {
        after(async |device| device.free_chunks += 1);
    }

    #[test]
    #[should_panic(expected = "the accounts agreed when the mount ended")]
    fn a_chunk_in_use_that_is_not_counted_is_found() {
        after(async |device| {
            let block = device.alloc_block.expect("one is being written");
            let chunk = device.chunk(BlockPage { block, page: 3 });
            device.blocks.set_used(chunk);
        });
    }

    #[test]
    #[should_panic(expected = "is being written")]
    fn a_closed_block_is_not_written_to() {
        after(async |device| {
            let block = device.alloc_block.expect("one is being written");
            device.blocks.get_mut(block).state = BlockState::Full;
        });
    }

    /// Writes a chunk that no object names.
    async fn write(device: &mut Device) -> u32 {
        let page = vec![0; device.chunk_bytes as usize];
        let chunk = device.write_new_chunk(&page, Tags::data(300, 1, 1), false).await;
        chunk.expect("written")
    }

    #[test]
    #[should_panic(expected = "is freed twice")]
    fn a_chunk_is_not_freed_twice() {
        after(async |device| {
            let chunk = write(device).await;
            write(device).await;
            device.delete_chunk(chunk).await;
            device.delete_chunk(chunk).await;
        });
    }

    #[test]
    #[should_panic(expected = "without any")]
    fn a_block_without_chunks_frees_none() {
        after(async |device| {
            let chunk = write(device).await;
            device.delete_chunk(chunk).await;
            device.delete_chunk(chunk).await;
        });
    }

    #[test]
    #[should_panic(expected = "is taken twice")]
    fn a_chunk_is_not_taken_twice() {
        after(async |device| {
            let block = device.alloc_block.expect("one is being written");
            let next = device.chunk(BlockPage { block, page: device.alloc_page });
            device.blocks.set_used(next);
            write(device).await;
        });
    }

    #[test]
    #[should_panic(expected = "is erased with chunks in use")]
    fn a_block_with_chunks_in_use_is_not_erased() {
        after(async |device| {
            let chunk = write(device).await;
            device.erase_dirty_block(device.block_of(chunk)).await;
        });
    }

    #[test]
    #[should_panic(expected = "the block being written is not erased")]
    fn the_block_that_is_written_is_not_erased() {
        after(async |device| {
            let block = device.alloc_block.expect("one is being written");
            device.erase_dirty_block(block).await;
        });
    }

    #[test]
    #[should_panic(expected = "has chunks in use")]
    fn an_erased_block_with_chunks_is_not_opened() {
        after(async |device| {
            let block = device.blocks.next_after(device.alloc_finder);
            let chunk = device.chunk(BlockPage { block, page: 0 });
            device.blocks.set_used(chunk);
            device.alloc_block = None;
            write(device).await;
        });
    }
}

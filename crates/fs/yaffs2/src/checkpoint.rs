//! Checkpoints: all that a mount needs to know, in a stream over erased blocks.
//!
//! Source: `yaffs_checkptrw.c` (the stream), `yaffs_yaffs2.c` (what is in it); layout of version 3 by
//! a 2.6.32 tree, of version 8 by images.
//!
//! May use: `blocks`, `device`, `format`, `tags`.

use crate::blocks::{BlockState, Blocks};
use crate::device::{BlockPage, Device};
use crate::format::SEQUENCE_CHECKPOINT;
use crate::tags::{EccResult, Tags};

/// Head of every chunk since version 8: version, number, sum, xor.
const CHUNK_HEAD_BYTES: usize = 16;

/// The stream, in one direction.
pub(crate) struct Stream {
    has_heads: bool,
    version: u32,
    buffer: Vec<u8>,
    at: usize,
    pages: u32,
    sum: u32,
    xor: u32,
    block: Option<u32>,
    page: u32,
    /// Where to look for the next block; none if there are no more.
    next_block: Option<u32>,
    found: Vec<u32>,
}

impl Stream {
    fn new(version: u32, chunk_bytes: u32) -> Self {
        Self {
            // Since that version each chunk repeats how far the sums had come before it, so that a
            // stream with a stale chunk in its middle is refused there and not at its end.
            has_heads: version >= 8,
            version,
            buffer: vec![0; chunk_bytes as usize],
            at: 0,
            pages: 0,
            sum: 0,
            xor: 0,
            block: None,
            page: 0,
            next_block: Some(Blocks::FIRST),
            found: Vec::new(),
        }
    }

    fn head(&self) -> [u8; CHUNK_HEAD_BYTES] {
        let mut head = [0; CHUNK_HEAD_BYTES];
        let words = [self.version, self.pages, self.sum, self.xor];
        for (place, word) in head.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        head
    }

    fn start_chunk(&mut self) {
        // Each chunk begins as zeros, so the unused rest of the last one does not carry bytes of
        // the one before.
        self.buffer.fill(0);
        self.at = 0;
        if self.has_heads {
            let head = self.head();
            self.buffer[..CHUNK_HEAD_BYTES].copy_from_slice(&head);
            self.at = CHUNK_HEAD_BYTES;
        }
    }

    fn start_bytes(&self) -> usize {
        if self.has_heads { CHUNK_HEAD_BYTES } else { 0 }
    }

    fn count(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.sum = self.sum.wrapping_add((*byte).into());
            self.xor ^= u32::from(*byte);
        }
    }

    /// Sum over all bytes so far, as the stream ends with it.
    pub(crate) fn composite_sum(&self) -> u32 {
        // `yaffs2_get_checkpt_sum`. The sum's upper eight bits are shifted out, so two streams that
        // differ only there pass as one.
        self.sum << 8 | self.xor & 0xff
    }
}

impl Device {
    /// Whether this device gets checkpoints.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.options.writes_checkpoint
            && !self.is_read_only
            && self.blocks.count() >= self.profile.checkpoint_blocks_min
    }

    /// Bytes of a tree's leaf as checkpoints store it, and bits of a chunk number in it.
    pub(crate) fn leaf_shape(&self) -> (usize, u32) {
        let chunks = self.pages_per_block * (self.blocks.last() + 1);
        // The width of a chunk number depends on the device: rounded up to even, and 16 bits at
        // least (`yaffs_guts_ll_init`). A checkpoint does not record it, so it cannot be read on a
        // device of another size.
        let bits = u32::BITS - (chunks - 1).leading_zeros();
        let width = bits.next_multiple_of(2).max(16);
        // Leaves and inner nodes share one structure in memory (`struct yaffs_tnode`, eight
        // pointers). Its size is what is stored, so 32-bit and 64-bit kernels write checkpoints
        // that the other refuses.
        let node_bytes = 8 * self.profile.pointer_bytes;
        ((2 * width).max(node_bytes) as usize, width)
    }

    /// Bytes of the structures of an object and of the device.
    pub(crate) fn record_bytes(&self) -> (usize, usize) {
        // `struct yaffs_checkpt_obj` got a size of 64 bits, `struct yaffs_checkpt_dev` lost its
        // last word (`oldest_dirty_seq`). A reader compares the sizes, so they are a version in
        // themselves.
        if self.profile.checkpoint_version >= 8 { (32, 36) } else { (28, 40) }
    }

    /// Blocks that a checkpoint needs beyond those it has (`yaffs_calc_checkpt_blocks_required`).
    pub(crate) fn checkpoint_blocks_needed(&mut self) -> u32 {
        if self.checkpoint.blocks_required.is_none() && self.has_checkpoints() {
            let (object_bytes, device_bytes) = self.record_bytes();
            let (leaf_bytes, _) = self.leaf_shape();
            let bytes = 2 * 16
                + device_bytes
                + self.blocks.count() as usize * (8 + self.blocks.stride())
                + self.objects.count() as usize * (object_bytes + 4)
                + self.tree_nodes as usize * (leaf_bytes + 4)
                + 4;
            let block_bytes = (self.chunk_bytes * self.pages_per_block) as usize;
            // One to round up, two for blocks that may go bad while the stream is written.
            self.checkpoint.blocks_required = Some((bytes / block_bytes) as u32 + 3);
        }
        self.checkpoint.blocks_required.unwrap_or(0).saturating_sub(self.checkpoint.blocks_in)
    }

    /// Erases the checkpoint: what is in memory changes.
    pub(crate) async fn invalidate_checkpoint(&mut self) {
        // Also one that was found but not used: after a scan its blocks are still taken, and would
        // be stale the moment anything is written.
        if self.checkpoint.is_current || self.checkpoint.blocks_in > 0 {
            self.checkpoint.is_current = false;
            self.erase_checkpoint().await;
        }
    }

    async fn erase_checkpoint(&mut self) {
        if self.is_read_only {
            return;
        }
        for block in self.blocks.numbers() {
            if self.blocks.get(block).state != BlockState::Checkpoint {
                continue;
            }
            // Not through `erase_dirty_block`, which would come back here. A failure marks the
            // block and leaves the accounts alone, for its chunks did not count as free.
            if self.erase_block(block).await {
                let info = self.blocks.get_mut(block);
                info.state = BlockState::Empty;
                self.erased_blocks += 1;
                self.free_chunks += self.pages_per_block as i32;
            } else {
                // A mark that cannot be set is found again by the next mount.
                let _ = self.mtd.mark_bad(Self::device_block(block)).await;
                self.blocks.get_mut(block).state = BlockState::Dead;
            }
        }
        self.checkpoint.blocks_in = 0;
    }

    /// Opens the stream for writing; none if there is no space.
    pub(crate) async fn open_checkpoint(&mut self) -> Option<Stream> {
        // `yaffs2_checkpt_space_ok`: the reserve is the collector's; a checkpoint that used it
        // could leave the next mount unable to write.
        if self.erased_blocks <= self.options.reserved_blocks as i32 {
            return None;
        }
        self.erase_checkpoint().await;
        let mut stream = Stream::new(self.profile.checkpoint_version, self.chunk_bytes);
        stream.start_chunk();
        Some(stream)
    }

    /// Opens the stream for reading.
    pub(crate) fn open_checkpoint_to_read(&mut self) -> Stream {
        self.checkpoint.blocks_in = 0;
        let mut stream = Stream::new(self.profile.checkpoint_version, self.chunk_bytes);
        stream.at = stream.buffer.len();
        stream
    }

    /// The next erased block for the stream.
    fn next_erased_block(&self, stream: &mut Stream) {
        stream.block = None;
        // Erased blocks are taken in order of their number, not where the allocator stands, so a
        // mount finds the stream from the first block on. The count of erased blocks falls only in
        // the end (`subtract_checkpoint`), so this test does not see the stream's own blocks; the
        // real one is blind in the same way.
        let available = self.erased_blocks - self.options.reserved_blocks as i32;
        let Some(start) = stream.next_block.filter(|_| available > 0) else { return };
        stream.block = (start..=self.blocks.last())
            .find(|block| self.blocks.get(*block).state == BlockState::Empty);
        stream.next_block = stream.block.map(|block| block + 1);
    }

    async fn flush_checkpoint(&mut self, stream: &mut Stream) -> bool {
        if stream.block.is_none() {
            self.next_erased_block(stream);
            stream.page = 0;
        }
        let Some(block) = stream.block else { return false };
        if stream.page == 0 {
            debug_assert_eq!(
                self.blocks.get(block).state,
                BlockState::Empty,
                "the stream takes erased block {block}"
            );
            self.blocks.get_mut(block).state = BlockState::Checkpoint;
            self.checkpoint.blocks_in += 1;
        }
        let mut tags =
            // The object in the tags is a hint where the stream goes on, minus one for nowhere; the
            // chunk counts from 1 over all blocks.
            Tags::data(stream.next_block.unwrap_or(u32::MAX), stream.pages + 1, self.chunk_bytes);
        tags.sequence = SEQUENCE_CHECKPOINT;
        let chunk = self.chunk(BlockPage { block, page: stream.page });
        // A failed write is noticed when the checkpoint is read.
        // Straight to the page, past the allocator: a checkpoint has no sequence of its own, is
        // never collected and never retried.
        let _ = self.write_raw(chunk, &stream.buffer, &tags).await;
        stream.pages += 1;
        stream.page += 1;
        if stream.page >= self.pages_per_block {
            stream.page = 0;
            stream.block = None;
        }
        stream.start_chunk();
        true
    }

    /// Writes bytes to the stream; false if there is no space.
    pub(crate) async fn put(&mut self, stream: &mut Stream, bytes: &[u8]) -> bool {
        self.cpu_debt_ps += bytes.len() as u64 * self.options.costs.checkpoint_ps_per_byte;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = stream.buffer.len() - stream.at;
            let (part, later) = rest.split_at(rest.len().min(room));
            stream.buffer[stream.at..stream.at + part.len()].copy_from_slice(part);
            stream.at += part.len();
            stream.count(part);
            rest = later;
            if stream.at == stream.buffer.len() && !self.flush_checkpoint(stream).await {
                return false;
            }
        }
        true
    }

    /// Reads bytes from the stream; false if it ends, or is damaged.
    pub(crate) async fn take(&mut self, stream: &mut Stream, into: &mut [u8]) -> bool {
        self.cpu_debt_ps += into.len() as u64 * self.options.costs.checkpoint_ps_per_byte;
        let mut rest = into;
        while !rest.is_empty() {
            if stream.at == stream.buffer.len() && !self.fill_checkpoint(stream).await {
                return false;
            }
            let count = rest.len().min(stream.buffer.len() - stream.at);
            let (part, later) = rest.split_at_mut(count);
            part.copy_from_slice(&stream.buffer[stream.at..stream.at + count]);
            stream.at += count;
            stream.count(part);
            rest = later;
        }
        true
    }

    async fn fill_checkpoint(&mut self, stream: &mut Stream) -> bool {
        if stream.block.is_none() {
            self.find_checkpoint_block(stream).await;
            stream.page = 0;
        }
        let Some(block) = stream.block else { return false };
        let chunk = self.chunk(BlockPage { block, page: stream.page });
        let mut data = std::mem::take(&mut stream.buffer);
        let (tags, result) = self.read_raw(chunk, Some(&mut data)).await;
        stream.buffer = data;
        let is_good = tags.chunk == stream.pages + 1
            && result != EccResult::Unfixed
            // No data block has this number, so a scan can tell the two apart by the first page.
            && tags.sequence == SEQUENCE_CHECKPOINT
            && (!stream.has_heads || stream.buffer[..CHUNK_HEAD_BYTES] == stream.head());
        if !is_good {
            return false;
        }
        stream.at = stream.start_bytes();
        stream.pages += 1;
        stream.page += 1;
        if stream.page >= self.pages_per_block {
            stream.block = None;
        }
        true
    }

    /// Looks for the next block of the checkpoint, from the place that the last one named.
    async fn find_checkpoint_block(&mut self, stream: &mut Stream) {
        stream.block = None;
        // `checkpt_max_blocks` sizes the list of blocks that a reader keeps; a writer does not ask
        // for it. A longer checkpoint is written, and refused at the next mount.
        let blocks_max = (self.blocks.count() - 1) / 16 + 2;
        let Some(start) = stream.next_block else { return };
        if self.checkpoint.blocks_in >= blocks_max || start < Blocks::FIRST {
            return;
        }
        for block in start..=self.blocks.last() {
            let (tags, _) = self.read_raw(self.chunk(BlockPage { block, page: 0 }), None).await;
            if tags.sequence != SEQUENCE_CHECKPOINT {
                continue;
            }
            let (state, _) = self.query_block(block).await;
            // The sequence number is read before the mark: an old checkpoint may stand in a block
            // that went bad since.
            if state == BlockState::Dead {
                continue;
            }
            stream.next_block = Some(tags.object);
            stream.block = Some(block);
            stream.found.push(block);
            self.checkpoint.blocks_in += 1;
            return;
        }
        stream.next_block = None;
    }

    /// State of a block as its first tags tell it, and its sequence number.
    pub(crate) async fn query_block(&mut self, block: u32) -> (BlockState, u32) {
        match self.mtd.is_bad(Self::device_block(block)).await {
            Ok(false) => {}
            Ok(true) | Err(_) => return (BlockState::Dead, 0),
        }
        let (tags, _) = self.read_raw(self.chunk(BlockPage { block, page: 0 }), None).await;
        if tags.is_unused() {
            (BlockState::Empty, 0)
        } else {
            // The first page stands for the block: pages are written in order, so a block whose
            // first page is erased has none written. How well the tags could be read is not asked;
            // a number outside the range of data is refused by the scan.
            (BlockState::NeedsScan, tags.sequence)
        }
    }

    /// Ends writing: the last chunk is written, its blocks are no longer free.
    pub(crate) async fn close_checkpoint(&mut self, mut stream: Stream) -> bool {
        let mut is_good = true;
        if stream.at != stream.start_bytes() {
            is_good = self.flush_checkpoint(&mut stream).await;
        }
        self.subtract_checkpoint();
        is_good
    }

    /// Ends reading: the blocks found hold the checkpoint.
    pub(crate) fn close_checkpoint_to_read(&mut self, stream: &Stream) {
        for block in &stream.found {
            let info = self.blocks.get_mut(*block);
            // The stream carries the states of before it was written: its own blocks were erased
            // then, and are set right here.
            if info.state == BlockState::Empty {
                info.state = BlockState::Checkpoint;
            }
        }
        self.subtract_checkpoint();
    }

    fn subtract_checkpoint(&mut self) {
        debug_assert!(
            !self.has_sound_accounts || self.checkpoint.blocks_in as i32 <= self.erased_blocks,
            "{} blocks of a checkpoint were erased before, {} are counted",
            self.checkpoint.blocks_in,
            self.erased_blocks
        );
        self.free_chunks -= (self.checkpoint.blocks_in * self.pages_per_block) as i32;
        self.erased_blocks -= self.checkpoint.blocks_in as i32;
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocks, CHUNK_HEAD_BYTES, Device};
    use crate::options::MountOptions;
    use crate::profile::find_profile;
    use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
    use nand::{Chip, FaultSettings, Storage, find_part};
    use sim::{Cpus, Simulation};
    use std::cell::Cell;
    use std::rc::Rc;

    const BLOCKS: u32 = 64;
    const PAGES_PER_BLOCK: u32 = 4;

    /// A stream may be written over as many blocks as are erased; reading it ends at a sixteenth of the
    /// blocks and two more (`checkpt_max_blocks` of `yaffs2_checkpt_open`), as its list of blocks does.
    #[test]
    fn a_stream_is_not_read_past_the_most_blocks_that_a_checkpoint_has() {
        let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
        part.geometry.blocks = BLOCKS;
        part.geometry.pages_per_block = PAGES_PER_BLOCK;
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
        let blocks_max = u64::from((BLOCKS - 1) / 16 + 2);
        let block_bytes = u64::from(PAGES_PER_BLOCK) * (2048 - CHUNK_HEAD_BYTES as u64);
        let read_bytes = Rc::new(Cell::new(0));
        let place = read_bytes.clone();
        sim.spawn(async move {
            let options = MountOptions::new(find_profile("linux-6.1").expect("in the table"));
            let mut device = Device::new(mtd.clone(), cpus.clone(), options.clone(), 0);
            device.mount().await.expect("mounted");
            let mut stream = device.open_checkpoint().await.expect("there is room");
            for _ in 0..=blocks_max {
                assert!(device.put(&mut stream, &vec![7; block_bytes as usize]).await);
            }
            assert!(device.close_checkpoint(stream).await);
            let mut reader = Device::new(mtd, cpus, options, 0);
            let mut stream = reader.open_checkpoint_to_read();
            while reader.take(&mut stream, &mut [0; 127]).await {
                place.set(place.get() + 127);
            }
            assert_eq!(stream.found.len() as u64, blocks_max);
            assert_eq!(stream.found[0], Blocks::FIRST);
        });
        simulation.run();
        let wanted = blocks_max * block_bytes;
        assert_eq!(read_bytes.get(), wanted / 127 * 127, "of {wanted}");
    }
}

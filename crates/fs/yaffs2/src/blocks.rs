//! What is known of every block: its state, its sequence number, which of its chunks are in use.
//!
//! Blocks are numbered from 1: chunk number 0 means "none", so block 0 of the device is block 1 here
//! (`block_offset` in `yaffs_guts_ll_init`).
//!
//! May use no other file of the crate.

/// State of a block; the order is that of the numbers in checkpoints (`enum yaffs_block_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockState {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// Its tags are being read by a mount.
    Scanning,
    /// Holds chunks, of which the mount has read the first tags only.
    NeedsScan,
    /// Erased: every chunk can be written.
    Empty,
    /// Chunks are taken from it.
    Allocating,
    /// All chunks are taken, or will not be.
    Full,
    /// Holds nothing any more, and is about to be erased.
    Dirty,
    /// Holds a part of the checkpoint.
    Checkpoint,
    /// A step of collecting copies its live chunks.
    Collecting,
    /// Bad or retired: never used again.
    Dead,
}

impl BlockState {
    fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Scanning,
            2 => Self::NeedsScan,
            3 => Self::Empty,
            4 => Self::Allocating,
            5 => Self::Full,
            6 => Self::Dirty,
            7 => Self::Checkpoint,
            8 => Self::Collecting,
            9 => Self::Dead,
            _ => Self::Unknown,
        }
    }
}

/// A block (`struct yaffs_block_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the bits of the real structure")]
pub struct BlockInfo {
    /// What the block is used for now.
    pub state: BlockState,
    /// Chunks in use, soft-deleted ones among them.
    pub pages_in_use: i32,
    /// Chunks of deleted files that still count as in use.
    pub soft_deleted_pages: i32,
    /// Retired when it is empty.
    pub needs_retiring: bool,
    /// Known to be erased.
    pub skips_erased_check: bool,
    /// To be collected before others: something was wrong with it.
    pub is_prioritised: bool,
    /// How often something was wrong.
    pub error_strikes: u8,
    /// Ends with a summary.
    pub has_summary: bool,
    /// Holds a header that shrinks a file.
    pub has_shrink_header: bool,
    /// Age of the block's contents: the greater the younger.
    pub sequence: u32,
}

impl BlockInfo {
    /// Chunks that collecting would have to copy.
    pub fn live_pages(&self) -> u32 {
        (self.pages_in_use - self.soft_deleted_pages).max(0) as u32
    }

    /// The eight bytes of a checkpoint: bit fields from the lowest bit on.
    pub fn to_bytes(self, has_summary_bit: bool) -> [u8; 8] {
        let fields = [
            // The compiler's layout of the bit fields of `struct yaffs_block_info` on little-endian
            // machines. Ten bits, one of them the sign: a count of 512 pages comes back negative,
            // on the real code too.
            (self.soft_deleted_pages as u32 & 0x3ff, 10),
            (self.pages_in_use as u32 & 0x3ff, 10),
            (self.state as u32, 4),
            (self.needs_retiring.into(), 1),
            (self.skips_erased_check.into(), 1),
            (self.is_prioritised.into(), 1),
            (u32::from(self.error_strikes & 7), 3),
            // The bit came with version 8 and pushed the last one up by one place; its width is
            // zero before.
            (self.has_summary.into(), u32::from(has_summary_bit)),
            (self.has_shrink_header.into(), 1),
        ];
        let (mut word, mut at) = (0, 0);
        for (value, bits) in fields {
            if bits > 0 {
                word |= value << at;
                at += bits;
            }
        }
        let mut out = [0; 8];
        out[..4].copy_from_slice(&word.to_le_bytes());
        out[4..].copy_from_slice(&self.sequence.to_le_bytes());
        out
    }

    /// The block of eight bytes of a checkpoint.
    pub fn from_bytes(bytes: [u8; 8], has_summary_bit: bool) -> Self {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        // The two counts are signed fields of ten bits.
        let signed = |at: u32| (word << (22 - at)) as i32 >> 22;
        let flag = |at: u32| word >> at & 1 != 0;
        Self {
            soft_deleted_pages: signed(0),
            pages_in_use: signed(10),
            state: BlockState::from_number(word >> 20 & 15),
            needs_retiring: flag(24),
            skips_erased_check: flag(25),
            is_prioritised: flag(26),
            error_strikes: (word >> 27 & 7) as u8,
            has_summary: has_summary_bit && flag(30),
            // See `to_bytes`: where there is no bit for summaries this one stands in its place.
            has_shrink_header: flag(if has_summary_bit { 31 } else { 30 }),
            sequence: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }
}

/// All blocks, and a bit for every chunk in use.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    infos: Vec<BlockInfo>,
    bits: Vec<u8>,
    stride: usize,
    pages_per_block: u32,
}

impl Blocks {
    /// Number of the first block of the device.
    pub(crate) const FIRST: u32 = 1;

    /// Blocks of which nothing is known.
    pub(crate) fn new(blocks: u32, pages_per_block: u32) -> Self {
        // Each block's bits begin at a byte (`chunk_bit_stride`); checkpoints store them so.
        let stride = pages_per_block.div_ceil(8) as usize;
        Self {
            infos: vec![BlockInfo::default(); blocks as usize],
            bits: vec![0; blocks as usize * stride],
            stride,
            pages_per_block,
        }
    }

    /// How many blocks the device has, bad ones included.
    pub(crate) fn count(&self) -> u32 {
        self.infos.len() as u32
    }

    /// Number of the last block, which is the count as well.
    pub(crate) fn last(&self) -> u32 {
        self.count()
    }

    /// The numbers of all blocks, in order.
    pub(crate) fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        Self::FIRST..=self.last()
    }

    /// The block after another, round and round.
    pub(crate) fn next_after(&self, block: u32) -> u32 {
        // The lower bound matters once a mount: the finder is 0 until the first search, and 0 is no
        // block.
        if block + 1 > self.last() || block + 1 < Self::FIRST { Self::FIRST } else { block + 1 }
    }

    /// Whether a number is one of a block.
    pub(crate) fn holds(&self, block: u32) -> bool {
        // Block 0 is never one, so chunk numbers below `pages_per_block` never are: zero can stand
        // for "none" in trees, headers and checkpoints.
        self.numbers().contains(&block)
    }

    /// Whether a chunk number lies in a block.
    pub(crate) fn holds_chunk(&self, chunk: u32) -> bool {
        self.holds(chunk / self.pages_per_block)
    }

    /// What is known of a block; panics for a number that is none.
    pub(crate) fn get(&self, block: u32) -> &BlockInfo {
        debug_assert!(self.holds(block), "there is no block {block}");
        &self.infos[(block - Self::FIRST) as usize]
    }

    /// A block to be changed.
    pub(crate) fn get_mut(&mut self, block: u32) -> &mut BlockInfo {
        &mut self.infos[(block - Self::FIRST) as usize]
    }

    /// Blocks with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &BlockInfo)> {
        (Self::FIRST..).zip(&self.infos)
    }

    /// Bytes of a block's bits.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The bits of all blocks, as checkpoints hold them.
    pub(crate) fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Takes all bits from a checkpoint.
    pub(crate) fn set_bits(&mut self, bits: &[u8]) {
        debug_assert_eq!(bits.len(), self.bits.len(), "bits of all blocks");
        self.bits.copy_from_slice(bits);
    }

    fn place(&self, chunk: u32) -> (usize, u8) {
        let (block, page) = (chunk / self.pages_per_block, chunk % self.pages_per_block);
        let byte = (block - Self::FIRST) as usize * self.stride + page as usize / 8;
        (byte, 1 << (page % 8))
    }

    /// Whether a chunk is in use.
    pub(crate) fn is_used(&self, chunk: u32) -> bool {
        let (byte, bit) = self.place(chunk);
        self.bits[byte] & bit != 0
    }

    /// Notes that a chunk is in use.
    pub(crate) fn set_used(&mut self, chunk: u32) {
        let (byte, bit) = self.place(chunk);
        self.bits[byte] |= bit;
    }

    /// Notes that a chunk is not in use.
    pub(crate) fn clear_used(&mut self, chunk: u32) {
        let (byte, bit) = self.place(chunk);
        self.bits[byte] &= !bit;
    }

    /// Notes that no chunk of a block is in use.
    pub(crate) fn clear_block(&mut self, block: u32) {
        let start = (block - Self::FIRST) as usize * self.stride;
        self.bits[start..start + self.stride].fill(0);
    }

    /// How many chunks of a block are in use.
    pub(crate) fn count_used(&self, block: u32) -> u32 {
        let start = (block - Self::FIRST) as usize * self.stride;
        self.bits[start..start + self.stride].iter().map(|byte| byte.count_ones()).sum()
    }

    /// Whether any chunk of a block is in use.
    pub(crate) fn is_any_used(&self, block: u32) -> bool {
        let start = (block - Self::FIRST) as usize * self.stride;
        self.bits[start..start + self.stride].iter().any(|byte| *byte != 0)
    }
}

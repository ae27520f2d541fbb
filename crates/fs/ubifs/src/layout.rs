//! Where the areas of a file system lie, and the sizes that follow from its superblock.
//!
//! Source: `fs/ubifs/super.c` (`init_constants_early`, `init_constants_sb`), `lpt.c` (`do_calc_lpt_geom`).

use crate::nodes::{
    BLOCK_BYTES, IndexNode, MASTER_BYTES, MAX_DATA_NODE_BYTES, MAX_NODE_BYTES, REFERENCE_BYTES,
    aligned,
};
use crate::superblock::Superblock;
use crate::volume::VolumeShape;

/// Eraseblock of the superblock, first of the two of the master node, first of the log.
pub(crate) const SUPERBLOCK_LEB: u32 = 0;
pub(crate) const MASTER_LEB: u32 = 1;
pub(crate) const LOG_LEB: u32 = 3;
/// Heads of the journal (`GCHD`, `BASEHD`, `DATAHD`).
pub(crate) const GC_HEAD: usize = 0;
pub(crate) const BASE_HEAD: usize = 1;
pub(crate) const DATA_HEAD: usize = 2;
pub(crate) const HEADS: usize = 3;
/// Children of a node of the LEB properties tree.
pub(crate) const LPT_FANOUT: u32 = 4;
/// Smallest node that may be written (`MIN_WRITE_SZ`), and space that holds any (`MAX_...`).
const MIN_WRITE_BYTES: u32 = 56;
/// Eraseblocks that the index always has (`MIN_INDEX_LEBS`).
pub(crate) const MIN_INDEX_LEBS: u32 = 2;

/// Shape of the LEB properties tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LptShape {
    pub(crate) is_big: bool,
    pub(crate) height: u32,
    pub(crate) pnode_count: u32,
    pub(crate) nnode_count: u32,
    pub(crate) space_bits: u32,
    pub(crate) leb_bits: u32,
    pub(crate) offset_bits: u32,
    pub(crate) table_bits: u32,
    pub(crate) number_bits: u32,
    pub(crate) main_leb_bits: u32,
    pub(crate) pnode_bytes: u32,
    pub(crate) nnode_bytes: u32,
    pub(crate) table_bytes: u32,
    pub(crate) saved_bytes: u32,
    pub(crate) saved_count: u32,
    /// Bytes of all, with what writing wastes.
    pub(crate) total_bytes: u64,
}

/// Position of the highest bit that is set, from 1 (`fls`).
const fn bits_of(value: u32) -> u32 {
    u32::BITS - value.leading_zeros()
}

/// What the shape of the tree depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LptInput {
    pub(crate) leb_bytes: u32,
    pub(crate) min_io: u32,
    pub(crate) leb_count: u32,
    pub(crate) max_leb_count: u32,
    pub(crate) main_lebs: u32,
    pub(crate) lpt_lebs: u32,
    pub(crate) saved_count: u32,
    pub(crate) is_big: bool,
}

impl LptShape {
    pub(crate) fn new(input: LptInput) -> Self {
        const HEAD_BITS: u32 = 16 + 4;
        let LptInput { leb_bytes, lpt_lebs, is_big, .. } = input;
        let most_lebs = input.main_lebs + (input.max_leb_count - input.leb_count);
        let most_pnodes = most_lebs.div_ceil(LPT_FANOUT);
        let mut height = 1;
        while 1_u64 << (2 * height) < u64::from(most_pnodes) {
            height += 1;
        }
        let pnode_count = input.main_lebs.div_ceil(LPT_FANOUT);
        let (mut nnode_count, mut level) = (0, pnode_count);
        for _ in 0..height {
            level = level.div_ceil(LPT_FANOUT);
            nnode_count += level;
        }
        let mut shape = Self {
            is_big,
            height,
            pnode_count,
            nnode_count,
            space_bits: bits_of(leb_bytes) - 3,
            leb_bits: bits_of(lpt_lebs),
            offset_bits: bits_of(leb_bytes - 1),
            table_bits: bits_of(leb_bytes),
            number_bits: bits_of(input.max_leb_count.div_ceil(LPT_FANOUT) - 1),
            main_leb_bits: bits_of(input.max_leb_count - 1),
            saved_count: input.saved_count,
            ..Self::default()
        };
        let numbered = HEAD_BITS + if is_big { shape.number_bits } else { 0 };
        let bytes = |bits: u32| bits.div_ceil(8);
        shape.pnode_bytes = bytes(numbered + (shape.space_bits * 2 + 1) * LPT_FANOUT);
        shape.nnode_bytes = bytes(numbered + (shape.leb_bits + shape.offset_bits) * LPT_FANOUT);
        shape.table_bytes = bytes(HEAD_BITS + lpt_lebs * shape.table_bits * 2);
        shape.saved_bytes = bytes(HEAD_BITS + shape.main_leb_bits * input.saved_count);
        let saved = if is_big { shape.saved_bytes } else { 0 };
        let net = u64::from(pnode_count) * u64::from(shape.pnode_bytes)
            + u64::from(nnode_count) * u64::from(shape.nnode_bytes)
            + u64::from(shape.table_bytes + saved);
        // At the end of each eraseblock a node may not fit.
        let waste_per_leb = u64::from(shape.pnode_bytes.max(shape.nnode_bytes));
        let (mut rest, mut waste) = (net + waste_per_leb, waste_per_leb);
        while rest > u64::from(leb_bytes) {
            rest = rest + waste_per_leb - u64::from(leb_bytes);
            waste += waste_per_leb;
        }
        waste += rest.next_multiple_of(u64::from(input.min_io)) - rest;
        shape.total_bytes = net + waste;
        shape
    }

    /// Model, eraseblocks of the tree and of the main area for an area that both share
    /// (`calc_dflt_lpt_geom`).
    pub(crate) fn fit(mut input: LptInput, both_lebs: u32) -> Option<(Self, u32, u32)> {
        input.lpt_lebs = 2;
        input.main_lebs = both_lebs.checked_sub(2)?;
        input.is_big = false;
        let mut shape = Self::new(input);
        if shape.total_bytes > u64::from(input.leb_bytes) {
            input.is_big = true;
            shape = Self::new(input);
        }
        for _ in 0..64 {
            let needed = (shape.total_bytes * 4).div_ceil(u64::from(input.leb_bytes)) as u32;
            if needed <= input.lpt_lebs {
                return (shape.table_bytes <= input.leb_bytes).then_some((
                    shape,
                    input.lpt_lebs,
                    input.main_lebs,
                ));
            }
            input.lpt_lebs = needed;
            input.main_lebs = both_lebs.checked_sub(needed)?;
            shape = Self::new(input);
        }
        None
    }
}

/// Areas and sizes of a file system.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) leb_bytes: u32,
    pub(crate) leb_count: u32,
    pub(crate) min_io: u32,
    pub(crate) max_write: u32,
    pub(crate) log_lebs: u32,
    pub(crate) lpt_first: u32,
    pub(crate) lpt_lebs: u32,
    pub(crate) orphan_first: u32,
    pub(crate) orphan_lebs: u32,
    pub(crate) main_first: u32,
    pub(crate) main_lebs: u32,
    pub(crate) fanout: usize,
    pub(crate) max_bud_bytes: u64,
    /// Bytes of the journal at which a commit starts in the background.
    pub(crate) background_bud_bytes: u64,
    pub(crate) master_stride: u32,
    pub(crate) reference_stride: u32,
    pub(crate) min_index_node: u32,
    pub(crate) max_index_node: u32,
    /// An index eraseblock holds at least so much (`idx_leb_size`).
    pub(crate) index_leb_bytes: u32,
    /// Less free and dirty space than this is of no use (`dead_wm`).
    pub(crate) dead_watermark: u32,
    /// Less than this is of use to some nodes only (`dark_wm`).
    pub(crate) dark_watermark: u32,
    /// What a full eraseblock of full data nodes leaves (`leb_overhead`).
    pub(crate) leb_overhead: u32,
    pub(crate) lpt: LptShape,
}

impl Layout {
    pub(crate) fn new(superblock: &Superblock, shape: VolumeShape) -> Self {
        let (leb_bytes, min_io) = (superblock.leb_bytes, superblock.min_io);
        let lpt_first = LOG_LEB + superblock.log_lebs;
        let orphan_first = lpt_first + superblock.lpt_lebs;
        let main_first = orphan_first + superblock.orphan_lebs;
        let main_lebs = superblock.leb_count - main_first;
        // Each head, and one more, can always have an eraseblock before a commit is due.
        let least_bytes = u64::from(leb_bytes) * (HEADS as u64 + 1) + 1;
        let max_bud_bytes = superblock.max_bud_bytes.max(least_bytes + u64::from(leb_bytes));
        let background_bud_bytes = ((superblock.max_bud_bytes * 13) >> 4).max(least_bytes);
        let max_index_node = aligned(IndexNode::bytes_of(superblock.fanout as usize)) as u32;
        let lpt = LptShape::new(LptInput {
            leb_bytes,
            min_io,
            leb_count: superblock.leb_count,
            max_leb_count: superblock.max_leb_count,
            main_lebs,
            lpt_lebs: superblock.lpt_lebs,
            saved_count: superblock.saved_count,
            is_big: superblock.has_big_lpt(),
        });
        Self {
            leb_bytes,
            leb_count: superblock.leb_count,
            min_io,
            max_write: shape.max_write_bytes,
            log_lebs: superblock.log_lebs,
            lpt_first,
            lpt_lebs: superblock.lpt_lebs,
            orphan_first,
            orphan_lebs: superblock.orphan_lebs,
            main_first,
            main_lebs,
            fanout: superblock.fanout as usize,
            max_bud_bytes,
            background_bud_bytes,
            master_stride: (MASTER_BYTES as u32).next_multiple_of(min_io),
            reference_stride: (REFERENCE_BYTES as u32).next_multiple_of(min_io),
            min_index_node: (IndexNode::bytes_of(1) as u32).next_multiple_of(8),
            max_index_node,
            index_leb_bytes: leb_bytes - max_index_node,
            dead_watermark: MIN_WRITE_BYTES.next_multiple_of(min_io),
            dark_watermark: (MAX_NODE_BYTES as u32).next_multiple_of(min_io),
            leb_overhead: leb_bytes % MAX_DATA_NODE_BYTES as u32,
            lpt,
        }
    }

    /// The eraseblock of the log behind another (`ubifs_next_log_lnum`).
    pub(crate) fn next_log_leb(&self, leb: u32) -> u32 {
        if leb + 1 >= LOG_LEB + self.log_lebs { LOG_LEB } else { leb + 1 }
    }

    pub(crate) fn is_main(&self, leb: u32) -> bool {
        (self.main_first..self.leb_count).contains(&leb)
    }

    /// Of free and dirty space, what may not be of use (`ubifs_calc_dark`).
    pub(crate) fn dark(&self, space: u32) -> u32 {
        if space < self.dark_watermark {
            space
        } else if space - self.dark_watermark < MIN_WRITE_BYTES {
            space - MIN_WRITE_BYTES
        } else {
            self.dark_watermark
        }
    }

    /// Bytes of file data that free bytes are worth: each data node of a full block brings its share of
    /// an index of half-full nodes, thrice (`ubifs_reported_space`).
    pub(crate) fn reported_space(&self, free: u64) -> u64 {
        let half_fanout = if self.fanout > 3 { self.fanout as u64 >> 1 } else { 2 };
        let index_share = u64::from(self.max_index_node) * 3 / (half_fanout - 1);
        free * BLOCK_BYTES as u64 / (MAX_DATA_NODE_BYTES as u64 + index_share)
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;
    use crate::compress::Compressor;
    use crate::profile::NewFileSystem;
    use crate::superblock::Superblock;
    use crate::volume::VolumeShape;

    /// Nodes are laid out on multiples of eight bytes: what counts how many fit must count so, too,
    /// or a commit runs out of eraseblocks (`max_idx_node_sz`, `idx_leb_size`).
    #[test]
    fn index_nodes_are_counted_with_their_padding() {
        let shape = VolumeShape {
            leb_bytes: 126_976,
            leb_count: 100,
            min_io_bytes: 2048,
            max_write_bytes: 2048,
        };
        let superblock =
            Superblock::default_for(shape, 4, Compressor::None, NewFileSystem::default());
        let layout = Layout::new(&superblock.expect("large enough"), shape);
        assert_eq!(layout.max_index_node, 192);
        assert_eq!(layout.index_leb_bytes, 126_976 - 192);
    }
}

//! Where the areas of a file system lie, and the sizes that follow from its superblock.
//!
//! Source: `fs/ubifs/super.c` (`init_constants_early`, `init_constants_sb`). A format: uses formats only.

use crate::lpt_format::LptArea;
use crate::lpt_shape::{LptInput, LptShape};
use crate::nodes::{
    BLOCK_BYTES, IndexNode, MASTER_BYTES, MAX_DATA_NODE_BYTES, MAX_NODE_BYTES, REFERENCE_BYTES,
    aligned,
};
use crate::position::{LebNumber, MainIndex};
use crate::superblock::Superblock;
use crate::volume_shape::VolumeShape;

/// Eraseblock of the superblock, first of the two of the master node, first of the log.
pub(crate) const SUPERBLOCK_LEB: LebNumber = LebNumber::new(0);
pub(crate) const MASTER_LEB: LebNumber = LebNumber::new(1);
pub(crate) const LOG_LEB: LebNumber = LebNumber::new(3);
/// Heads of the journal (`GCHD`, `BASEHD`, `DATAHD`).
pub(crate) const GC_HEAD: HeadNumber = HeadNumber(0);
pub(crate) const BASE_HEAD: HeadNumber = HeadNumber(1);
pub(crate) const DATA_HEAD: HeadNumber = HeadNumber(2);
pub(crate) const HEADS: [HeadNumber; 3] = [GC_HEAD, BASE_HEAD, DATA_HEAD];

/// Number of a head of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct HeadNumber(u32);

impl HeadNumber {
    /// The number as the log has it.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// A number of the log; none if there is no such head.
    pub(crate) fn of(number: u32) -> Option<Self> {
        HEADS.into_iter().find(|head| head.0 == number)
    }
}
/// Smallest node that may be written (`MIN_WRITE_SZ`), and space that holds any (`MAX_...`).
const MIN_WRITE_BYTES: u32 = 56;

/// Areas and sizes of a file system.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) leb_bytes: u32,
    pub(crate) leb_count: u32,
    pub(crate) min_io: u32,
    pub(crate) max_write: u32,
    pub(crate) log_lebs: u32,
    pub(crate) lpt_first: LebNumber,
    pub(crate) lpt_lebs: u32,
    pub(crate) orphan_first: LebNumber,
    pub(crate) orphan_lebs: u32,
    pub(crate) main_first: LebNumber,
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
        let main_lebs = superblock.leb_count - main_first.get();
        // Each head, and one more, can always have an eraseblock before a commit is due.
        let least_bytes = u64::from(leb_bytes) * (HEADS.len() as u64 + 1) + 1;
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
    pub(crate) fn next_log_leb(&self, leb: LebNumber) -> LebNumber {
        debug_assert!((LOG_LEB..self.lpt_first).contains(&leb), "eraseblock {leb} is of the log");
        if leb + 1 >= self.lpt_first { LOG_LEB } else { leb + 1 }
    }

    /// All eraseblocks of the tree of LEB properties.
    pub(crate) fn lpt_area(&self) -> LptArea {
        LptArea { first: self.lpt_first, lebs: self.lpt_lebs }
    }

    pub(crate) fn is_main(&self, leb: LebNumber) -> bool {
        (self.main_first.get()..self.leb_count).contains(&leb.get())
    }

    /// The number of an eraseblock of the main area within that area.
    pub(crate) fn main_index(&self, leb: LebNumber) -> MainIndex {
        debug_assert!(self.is_main(leb), "eraseblock {leb} is of the main area");
        MainIndex::new(leb - self.main_first)
    }

    pub(crate) fn main_leb(&self, index: MainIndex) -> LebNumber {
        debug_assert!(index.get() < self.main_lebs, "the main area has so many eraseblocks");
        self.main_first + index.get()
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
    use super::{LOG_LEB, Layout};
    use crate::compress::Compressor;
    use crate::profile::NewFileSystem;
    use crate::superblock::Superblock;
    use crate::volume_shape::VolumeShape;
    use crate::write_buffer::WriteBuffer;

    /// Nodes are laid out on multiples of eight bytes: what counts how many fit must count so, too,
    /// or a commit runs out of eraseblocks (`max_idx_node_sz`, `idx_leb_size`).
    #[test]
    fn index_nodes_are_counted_with_their_padding() {
        let layout = layout();
        assert_eq!(layout.max_index_node, 192);
        assert_eq!(layout.index_leb_bytes, 126_976 - 192);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "is of the log")]
    fn the_log_does_not_go_on_behind_its_area() {
        let layout = layout();
        layout.next_log_leb(layout.lpt_first);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "is of the main area")]
    fn an_eraseblock_of_the_log_has_no_properties() {
        layout().main_index(LOG_LEB);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the head stays in its eraseblock")]
    fn a_head_does_not_grow_beyond_its_eraseblock() {
        let layout = layout();
        let mut buffer = WriteBuffer { offset: layout.leb_bytes - 2048, ..WriteBuffer::default() };
        buffer.advance(2048, &layout);
        buffer.advance(2048, &layout);
    }

    fn layout() -> Layout {
        let shape = VolumeShape {
            leb_bytes: 126_976,
            leb_count: 100,
            min_io_bytes: 2048,
            max_write_bytes: 2048,
        };
        let superblock =
            Superblock::default_for(shape, 4, Compressor::None, NewFileSystem::default());
        Layout::new(&superblock.expect("large enough"), shape)
    }
}

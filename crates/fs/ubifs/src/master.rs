//! The master node: where everything begins, as the last commit left it.
//!
//! Source: `fs/ubifs/master.c`. A state: uses formats and the states of inodes and LEB properties.

use crate::inode::INODE_NUMBER_WATERMARK;
use crate::layout::{LOG_LEB, Layout};
use crate::lprops::SpaceSums;
use crate::nodes::{
    MASTER_BYTES, Place, position_at, put_position, put_u32, put_u64, u32_at, u64_at,
};
use crate::position::{LebNumber, Position};

/// Stands for no eraseblock on the medium (`gc_lnum` is -1).
const NO_LEB: LebNumber = LebNumber::new(u32::MAX);

/// Flags of the master node.
pub(crate) mod flag {
    /// Mounted, or not unmounted in order.
    pub(crate) const DIRTY: u32 = 1;
    /// No orphans are in their area.
    pub(crate) const NO_ORPHANS: u32 = 2;
    /// Written by a recovery.
    pub(crate) const RECOVERED: u32 = 4;
}

/// Fields of the master node; byte offsets stand in `parse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) highest_inode: u64,
    pub(crate) commit: u64,
    pub(crate) flags: u32,
    pub(crate) log_leb: LebNumber,
    pub(crate) root: Place,
    /// The collector's reserve, if there is one.
    pub(crate) gc_leb: Option<LebNumber>,
    pub(crate) index_head: Position,
    pub(crate) index_bytes: u64,
    pub(crate) sums: SpaceSums,
    pub(crate) lpt_root: Position,
    pub(crate) lpt_head: Position,
    pub(crate) lpt_table: Position,
    pub(crate) lpt_saved: Position,
    pub(crate) scan_leb: LebNumber,
    pub(crate) leb_count: u32,
}

impl Master {
    pub(crate) fn parse(node: &[u8]) -> Self {
        let gc_leb = LebNumber::new(u32_at(node, 60));
        Self {
            highest_inode: u64_at(node, 24),
            commit: u64_at(node, 32),
            flags: u32_at(node, 40),
            log_leb: LebNumber::new(u32_at(node, 44)),
            root: Place::new(position_at(node, 48), u32_at(node, 56)),
            gc_leb: Some(gc_leb).filter(|leb| *leb != NO_LEB),
            index_head: position_at(node, 64),
            index_bytes: u64_at(node, 72),
            sums: SpaceSums {
                empty_lebs: u32_at(node, 156),
                // Nothing is taken when a mount begins; the medium does not store the count.
                taken_empty_lebs: 0,
                index_lebs: u32_at(node, 160),
                free: u64_at(node, 80),
                dirty: u64_at(node, 88),
                used: u64_at(node, 96),
                dead: u64_at(node, 104),
                dark: u64_at(node, 112),
            },
            lpt_root: position_at(node, 120),
            lpt_head: position_at(node, 128),
            lpt_table: position_at(node, 136),
            lpt_saved: position_at(node, 144),
            scan_leb: LebNumber::new(u32_at(node, 152)),
            leb_count: u32_at(node, 164),
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut node = vec![0; MASTER_BYTES];
        put_u64(&mut node, 24, self.highest_inode);
        put_u64(&mut node, 32, self.commit);
        put_u32(&mut node, 40, self.flags);
        put_u32(&mut node, 44, self.log_leb.get());
        put_position(&mut node, 48, self.root.position());
        put_u32(&mut node, 56, self.root.bytes);
        put_u32(&mut node, 60, self.gc_leb.unwrap_or(NO_LEB).get());
        put_position(&mut node, 64, self.index_head);
        put_u64(&mut node, 72, self.index_bytes);
        put_u64(&mut node, 80, self.sums.free);
        put_u64(&mut node, 88, self.sums.dirty);
        put_u64(&mut node, 96, self.sums.used);
        put_u64(&mut node, 104, self.sums.dead);
        put_u64(&mut node, 112, self.sums.dark);
        let places = [self.lpt_root, self.lpt_head, self.lpt_table, self.lpt_saved];
        for (place, at) in places.into_iter().zip((120..).step_by(8)) {
            put_position(&mut node, at, place);
        }
        put_u32(&mut node, 152, self.scan_leb.get());
        put_u32(&mut node, 156, self.sums.empty_lebs);
        put_u32(&mut node, 160, self.sums.index_lebs);
        put_u32(&mut node, 164, self.leb_count);
        node
    }

    /// Whether all that the node names lies in its area (`validate_master`).
    pub(crate) fn has_sound_places(&self, layout: &Layout) -> bool {
        let main = |leb| layout.is_main(leb);
        let lpt =
            |at: Position| layout.lpt_area().contains(at.leb) && at.offset <= layout.leb_bytes;
        let log = (LOG_LEB..layout.lpt_first).contains(&self.log_leb);
        log && main(self.root.leb)
            && self.root.offset < layout.leb_bytes
            && self.root.offset.is_multiple_of(8)
            && self.root.bytes <= layout.max_index_node
            && self.gc_leb.is_none_or(main)
            && main(self.index_head.leb)
            && self.index_head.offset <= layout.leb_bytes
            && self.index_head.offset.is_multiple_of(layout.min_io)
            && lpt(self.lpt_root)
            && lpt(self.lpt_head)
            // A commit writes on from there (`nhead_offs`).
            && self.lpt_head.offset.is_multiple_of(layout.min_io)
            && lpt(self.lpt_table)
            && (!layout.lpt.is_big || lpt(self.lpt_saved))
            && main(self.scan_leb)
    }

    /// Whether the numbers can be (`validate_master`).
    pub(crate) fn is_sound(&self, layout: &Layout) -> bool {
        let main_bytes = u64::from(layout.main_lebs) * u64::from(layout.leb_bytes);
        let sums = &self.sums;
        self.has_sound_places(layout)
            && self.highest_inode < INODE_NUMBER_WATERMARK
            && self.index_bytes < main_bytes
            && self.index_bytes.is_multiple_of(8)
            && sums.empty_lebs <= layout.main_lebs
            && sums.index_lebs <= layout.main_lebs
            && sums.free <= main_bytes
            && sums.dirty <= main_bytes
            && sums.used <= main_bytes
            && sums.dead + sums.dark + sums.used <= main_bytes
    }
}

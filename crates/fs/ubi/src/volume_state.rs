//! Volumes in memory: their records and where their blocks are. Uses formats and numbers only.

use crate::headers::{LAYOUT_VOLUME, VolumeKind};
use crate::layout::Layout;
use crate::numbers::{PebNumber, VolumeNumber};
use crate::volume_table::VolumeRecord;
use std::collections::BTreeMap;

/// The volume of the volume table.
pub(crate) const LAYOUT: VolumeNumber = VolumeNumber::new(LAYOUT_VOLUME);
/// Logical blocks of the volume table.
pub(crate) const LAYOUT_LEBS: u32 = 2;
/// Blocks that wear levelling and atomic changes need for themselves.
pub(crate) const OWN_PEBS: u32 = 2;

/// A volume in memory.
#[derive(Clone, Debug)]
pub(crate) struct VolumeState {
    pub(crate) record: VolumeRecord,
    /// Physical blocks by logical ones (`eba_tbl`).
    pub(crate) map: Vec<Option<PebNumber>>,
    /// Blocks that hold data: all of a dynamic volume.
    pub(crate) used_lebs: u32,
    /// Bytes of data in the last of them.
    pub(crate) last_leb_bytes: u32,
    /// Some of the blocks of a static volume are missing or wrong.
    pub(crate) is_corrupted: bool,
    /// The CRCs of a static volume were checked.
    pub(crate) is_checked: bool,
}

impl VolumeState {
    /// A volume without data.
    pub(crate) fn new(record: VolumeRecord, layout: &Layout) -> Self {
        let is_dynamic = record.kind == VolumeKind::Dynamic;
        let usable_bytes = layout.usable_bytes(record.data_pad);
        Self {
            map: vec![None; record.reserved_pebs as usize],
            used_lebs: if is_dynamic { record.reserved_pebs } else { 0 },
            last_leb_bytes: if is_dynamic { usable_bytes } else { 0 },
            is_corrupted: false,
            is_checked: is_dynamic,
            record,
        }
    }

    /// The volume of the volume table.
    pub(crate) fn of_layout(layout: &Layout) -> Self {
        let record = VolumeRecord {
            reserved_pebs: LAYOUT_LEBS,
            alignment: 1,
            data_pad: 0,
            kind: VolumeKind::Dynamic,
            update_marker: false,
            name: b"layout volume".to_vec(),
            is_auto_resized: false,
            skips_check: false,
        };
        Self::new(record, layout)
    }

    /// Bytes of data that the volume holds.
    pub(crate) fn used_bytes(&self, layout: &Layout) -> u64 {
        let usable_bytes = u64::from(layout.usable_bytes(self.record.data_pad));
        match self.used_lebs {
            0 => 0,
            lebs => u64::from(lebs - 1) * usable_bytes + u64::from(self.last_leb_bytes),
        }
    }

    pub(crate) fn label(&self) -> String {
        format!("{:?}", String::from_utf8_lossy(&self.record.name))
    }
}

/// All volumes, and what is left for more.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// By number, the volume of the table among them.
    pub(crate) by_id: BTreeMap<VolumeNumber, VolumeState>,
    /// Blocks that no volume has (`avail_pebs`).
    pub(crate) available_pebs: u32,
    /// Blocks that volumes and UBI itself have (`rsvd_pebs`).
    pub(crate) reserved_pebs: u32,
    /// Blocks kept for those that go bad (`beb_rsvd_pebs`).
    pub(crate) bad_reserve: u32,
    /// Blocks that should be kept (`beb_rsvd_level`).
    pub(crate) bad_reserve_level: u32,
    /// Greatest number of bad blocks expected; none where a share of the good ones is kept.
    pub(crate) bad_limit: Option<u32>,
    pub(crate) good_pebs: u32,
    pub(crate) bad_pebs: u32,
    /// Good blocks whose contents are damaged or not ours: they are neither available nor reserved.
    pub(crate) preserved_pebs: u32,
}

impl Volumes {
    /// Takes blocks from those that no volume has.
    pub(crate) fn reserve(&mut self, pebs: u32) {
        // Promises are made in numbers, not in blocks: any free block serves any volume.
        debug_assert!(pebs <= self.available_pebs, "{pebs} blocks are promised");
        self.available_pebs -= pebs;
        self.reserved_pebs += pebs;
    }

    /// Gives blocks back that a volume does not need any more.
    pub(crate) fn release(&mut self, pebs: u32) {
        debug_assert!(pebs <= self.reserved_pebs, "{pebs} blocks were promised");
        self.available_pebs += pebs;
        self.reserved_pebs -= pebs;
    }

    /// Asserts that every good block is counted once: it holds at any time.
    pub(crate) fn assert_good_pebs(&self) {
        let sum = self.available_pebs + self.reserved_pebs + self.preserved_pebs;
        debug_assert_eq!(sum, self.good_pebs, "available, reserved and preserved blocks");
    }

    /// Asserts that the reserved blocks are those of volumes and of UBI itself.
    ///
    /// It holds between two changes of volumes. A volume that grows has its blocks before its record
    /// says so, and the thread may give up a block meanwhile.
    pub(crate) fn assert_sums(&self) {
        self.assert_good_pebs();
        let of_volumes: u32 = self.by_id.values().map(|volume| volume.record.reserved_pebs).sum();
        let reserved = of_volumes + OWN_PEBS + self.bad_reserve;
        debug_assert_eq!(reserved, self.reserved_pebs, "blocks of volumes and of UBI itself");
    }

    /// Says how many blocks should be kept for bad ones (`ubi_calculate_reserved`).
    pub(crate) fn calculate_reserve(&mut self) {
        self.bad_reserve_level = match self.bad_limit {
            // The vendor's limit is for the chip's whole life: each bad block uses up one of those
            // expected.
            Some(limit) => limit.saturating_sub(self.bad_pebs),
            // `CONFIG_MTD_UBI_BEB_RESERVE` of one percent and `MIN_RESEVED_PEBS` of two, before
            // 3.7.
            None => (self.good_pebs / 100).max(2),
        };
    }

    /// Fills the reserve from blocks that no volume has (`ubi_update_reserved`).
    pub(crate) fn fill_reserve(&mut self) {
        let missing = self.bad_reserve_level.saturating_sub(self.bad_reserve);
        let taken = missing.min(self.available_pebs);
        self.bad_reserve += taken;
        self.reserve(taken);
    }

    /// Volumes of users: all but the volume table's.
    pub(crate) fn of_users(&self) -> impl Iterator<Item = (VolumeNumber, &VolumeState)> {
        self.by_id.iter().filter(|(id, _)| **id != LAYOUT).map(|(id, volume)| (*id, volume))
    }

    /// Records by number, as the table has them.
    pub(crate) fn records(&self, slots: u32) -> Vec<Option<VolumeRecord>> {
        let record =
            |id| self.by_id.get(&VolumeNumber::new(id)).map(|volume| volume.record.clone());
        (0..slots).map(record).collect()
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{OWN_PEBS, Volumes};

    /// A device of twenty good blocks without volumes: UBI has its own, and two are kept for bad ones.
    fn volumes() -> Volumes {
        let reserved_pebs = OWN_PEBS + 2;
        Volumes {
            available_pebs: 20 - reserved_pebs,
            reserved_pebs,
            bad_reserve: 2,
            good_pebs: 20,
            ..Volumes::default()
        }
    }

    #[test]
    fn blocks_that_are_reserved_and_released_add_up() {
        let mut volumes = volumes();
        volumes.assert_sums();
        volumes.reserve(5);
        volumes.assert_good_pebs();
        volumes.release(5);
        volumes.assert_sums();
    }

    #[test]
    #[should_panic(expected = "15 blocks are promised")]
    fn more_blocks_than_there_are_cannot_be_promised() {
        let mut volumes = volumes();
        volumes.available_pebs = 14;
        volumes.reserve(15);
    }

    #[test]
    #[should_panic(expected = "21 blocks were promised")]
    fn more_blocks_than_were_promised_do_not_come_back() {
        volumes().release(21);
    }

    #[test]
    #[should_panic(expected = "available, reserved and preserved blocks")]
    fn a_block_that_is_counted_twice_is_found() {
        let mut volumes = volumes();
        volumes.preserved_pebs = 1;
        volumes.assert_good_pebs();
    }

    #[test]
    #[should_panic(expected = "blocks of volumes and of UBI itself")]
    fn blocks_reserved_for_no_volume_are_found() {
        let mut volumes = volumes();
        volumes.reserve(1);
        volumes.assert_sums();
    }
}

//! What an attached device reports to tools. Uses the device and its states.

use crate::device::{SetAside, Ubi};
use crate::headers::VolumeKind;
use crate::layout::Layout;
use std::collections::BTreeMap;

/// A volume as tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Number of the volume, which is its place in the table.
    pub id: u32,
    /// Name; bytes that are no UTF-8 are replaced.
    pub name: String,
    /// Whether it is dynamic or static.
    pub kind: VolumeKind,
    /// Logical blocks that the table promises it.
    pub leb_count: u32,
    /// Bytes of a logical block that can be used.
    pub leb_bytes: u32,
    /// Logical blocks that have a physical one.
    pub mapped_lebs: u32,
    /// Bytes of data: all of a dynamic volume.
    pub used_bytes: u64,
    /// Unit of the block size.
    pub alignment: u32,
    /// It takes all blocks that are left when first attached read-write.
    pub is_auto_resized: bool,
    /// An update was begun and not ended.
    pub is_incomplete: bool,
    /// Blocks of a static volume are missing or wrong.
    pub is_corrupted: bool,
}

/// A device as tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Sizes, and the places of headers and data in a block.
    pub layout: Layout,
    /// Random number of the image.
    pub image_sequence: u32,
    /// Volumes of users, in the order of their numbers.
    pub volumes: Vec<VolumeInfo>,
    /// Good blocks by erase counter.
    pub erase_counters: BTreeMap<u64, u32>,
    /// Blocks that are marked bad.
    pub bad_pebs: u32,
    /// Blocks that no volume has.
    pub available_pebs: u32,
    /// Blocks kept for those that go bad, and how many should be.
    pub bad_reserve_pebs: (u32, u32),
    /// Blocks of UBI itself: volume table, wear levelling, atomic changes.
    pub own_pebs: u32,
    /// Free blocks, erased and with their counters.
    pub free_pebs: u32,
    /// Blocks that wait to be erased.
    pub pending_erases: u32,
    /// Blocks that wait to be moved because the ECC had work.
    pub scrub_pebs: u32,
    /// Blocks with data whose owner cannot be read.
    pub corrupted_pebs: u32,
    /// Blocks of internal volumes of others.
    pub alien_pebs: u32,
    /// The image has a fastmap, which was left aside.
    pub has_fastmap: bool,
    /// Nothing can be written.
    pub is_read_only: bool,
}

impl Info {
    /// Least, mean and greatest erase counter.
    pub fn erase_counter_range(&self) -> Option<(u64, f64, u64)> {
        let (least, _) = self.erase_counters.first_key_value()?;
        let (most, _) = self.erase_counters.last_key_value()?;
        let count: u64 = self.erase_counters.values().map(|count| u64::from(*count)).sum();
        let sum: u64 =
            self.erase_counters.iter().map(|(counter, count)| counter * u64::from(*count)).sum();
        Some((*least, sum as f64 / count as f64, *most))
    }
}

impl Ubi {
    /// What the device reports to tools.
    pub fn info(&self) -> Info {
        let volumes = self.volumes.borrow();
        let wear = self.wear.borrow();
        let layout = self.io.layout;
        let shown = volumes.of_users().map(|(id, volume)| VolumeInfo {
            id: id.get(),
            name: String::from_utf8_lossy(&volume.record.name).into_owned(),
            kind: volume.record.kind,
            leb_count: volume.record.reserved_pebs,
            leb_bytes: self.usable_bytes(&volume.record),
            mapped_lebs: volume.map.iter().flatten().count() as u32,
            used_bytes: volume.used_bytes(&layout),
            alignment: volume.record.alignment,
            is_auto_resized: volume.record.is_auto_resized,
            is_incomplete: volume.record.update_marker,
            is_corrupted: volume.is_corrupted,
        });
        let SetAside { corrupted, alien } = &self.set_aside;
        Info {
            layout,
            image_sequence: self.io.image_sequence.get(),
            volumes: shown.collect(),
            erase_counters: wear.histogram(|peb| {
                self.io.mtd.with_chip(|chip| chip.is_bad(peb.get()))
                    || corrupted.contains(&peb)
                    || alien.contains(&peb)
            }),
            bad_pebs: volumes.bad_pebs,
            available_pebs: volumes.available_pebs,
            bad_reserve_pebs: (volumes.bad_reserve, volumes.bad_reserve_level),
            own_pebs: crate::volume_state::LAYOUT_LEBS + crate::volume_state::OWN_PEBS,
            free_pebs: wear.free.len(),
            pending_erases: wear.pending_erases(),
            scrub_pebs: wear.scrub_count(),
            corrupted_pebs: corrupted.len() as u32,
            alien_pebs: alien.len() as u32,
            has_fastmap: self.has_fastmap,
            is_read_only: self.is_read_only(),
        }
    }
}

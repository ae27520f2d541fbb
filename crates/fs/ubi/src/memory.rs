//! Kernel memory that an attached device takes.
//!
//! Sizes are those of the structures of Linux 2.6.32 on 32-bit ARM, without debugging options.
//! Uses the device and its states.

use crate::device::Ubi;
use fs_api::Memory;

const DEVICE_BYTES: u64 = 1144;
const VOLUME_BYTES: u64 = 456;
const WEAR_ENTRY_BYTES: u64 = 20;
const POINTER_BYTES: u64 = 4;
const MAP_ENTRY_BYTES: u64 = 4;
const LOCK_BYTES: u64 = 36;
/// List, function, entry, flag; since 3.7 the volume and the logical block, too.
const WORK_BYTES: u64 = 28;

impl Ubi {
    /// Structures and their bytes, by kind.
    pub fn memory_use(&self) -> Memory {
        let volumes = self.volumes.borrow();
        let layout = &self.io.layout;
        let pebs = u64::from(layout.peb_count);
        let entries = u64::from(volumes.good_pebs);
        let lebs: u64 = volumes.by_id.values().map(|volume| volume.map.len() as u64).sum();
        let count = volumes.by_id.len() as u64;
        let locks = self.leb_locks.len() as u64;
        let works = self.wear.borrow().works.len() as u64;
        let buffers = self.options.profile.block_buffers;
        let leb_bytes = layout.leb_bytes;
        let table = crate::volume_table::table_bytes(leb_bytes, layout.min_io_bytes);
        let mut kinds = vec![
            ("ubi_device", 1, DEVICE_BYTES),
            ("ubi_eba_entry", lebs, lebs * MAP_ENTRY_BYTES),
            ("ubi_lookuptbl", pebs, pebs * POINTER_BYTES),
            ("ubi_ltree_entry", locks, locks * LOCK_BYTES),
            ("ubi_peb_buf", buffers, buffers * u64::from(layout.peb_bytes)),
            ("ubi_volume", count, count * VOLUME_BYTES),
            ("ubi_vtbl", 1, table.into()),
            ("ubi_wl_entry", entries, entries * WEAR_ENTRY_BYTES),
            ("ubi_work", works, works * WORK_BYTES),
        ];
        kinds.sort_unstable();
        Memory { kinds }
    }
}

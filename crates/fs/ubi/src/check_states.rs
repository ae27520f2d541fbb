//! Checking what is in memory: blocks against their sets, logical blocks against physical ones.
//!
//! What the kernel's `self_check_in_wl_tree`, `self_check_in_pq` and `self_check_eba` look at
//! (`drivers/mtd/ubi/wl.c`, `eba.c`). Uses the device with its states. Nothing is read, so that tests can ask
//! after each call.

use crate::device::Ubi;
use crate::numbers::{LebAddress, LebNumber, PebNumber};
use std::collections::BTreeMap;

impl Ubi {
    /// Rules that hold between two calls and are broken now, as sentences; nothing is read.
    ///
    /// No block is in two sets. Each mapped block is in use, and mapped once. Each block that is not set
    /// aside and not bad is somewhere, unless the device became read-only in the middle of a work.
    pub async fn check_states(&self) -> Vec<String> {
        // Works under way hold blocks that are in no set.
        let _alone = self.work_lock.write().await;
        let (wear, volumes) = (self.wear.borrow(), self.volumes.borrow());
        let mut broken = wear.broken_rules();
        let mut mapped: BTreeMap<PebNumber, LebAddress> = BTreeMap::new();
        for (id, volume) in &volumes.by_id {
            for (peb, leb) in volume.map.iter().zip((0..).map(LebNumber::new)) {
                let (Some(peb), address) = (peb, LebAddress { volume: *id, leb }) else { continue };
                if !wear.is_in_use(*peb) {
                    broken.push(format!("LEB {address}: its block {peb} is not in use"));
                }
                if let Some(other) = mapped.insert(*peb, address) {
                    broken.push(format!("block {peb} is LEB {address} and LEB {other}"));
                }
            }
        }
        if self.is_read_only() {
            return broken;
        }
        let held = wear.held_blocks();
        let good = (volumes.good_pebs - volumes.preserved_pebs) as usize;
        if held != good {
            broken.push(format!("{held} blocks are in a set, {good} are good"));
        }
        broken
    }
}

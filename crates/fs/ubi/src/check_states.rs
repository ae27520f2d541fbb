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
                // A move that failed leaves its source in no set, and the device read-only.
                if !wear.is_in_use(*peb) && !self.is_read_only() {
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

#[cfg(test)]
mod tests {
    use super::{LebNumber, PebNumber, Ubi};
    use crate::format::FormatOptions;
    use crate::profile::{AttachOptions, find_profile};
    use crate::volumes::VolumeOptions;
    use crate::wear_state::Work;
    use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
    use nand::{Chip, FaultSettings, Storage, find_part};
    use sim::{Cpus, Simulation};
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Part of the text that is expected, and the change that breaks a rule.
    type Fault = (&'static str, fn(&Ubi));

    /// What is reported of a device with three mapped blocks after a fault was planted in its memory.
    fn reported(plant: fn(&Ubi)) -> Vec<String> {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
        (part.geometry.blocks, part.geometry.pages_per_block) = (24, 8);
        let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let options = MtdOptions {
            layout: find_layout("linux-large").expect("in the table"),
            costs: DriverCosts::default(),
            bad_blocks: BadBlocks::Table,
            reads_sub_pages: true,
            takes_time: false,
        };
        let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
        let mtd = Mtd::new(&sim, cpus.clone(), chip, options);
        let texts = Rc::new(RefCell::new(None));
        let (out, handle) = (texts.clone(), sim.clone());
        let task = sim.spawn(async move {
            let format = FormatOptions::default();
            Ubi::format(&handle, cpus.clone(), mtd.clone(), &format).await.expect("formatted");
            let profile = find_profile("linux-6.12").expect("in the table");
            let options = AttachOptions { has_thread: false, ..AttachOptions::new(profile) };
            let ubi = Ubi::attach(&handle, cpus, mtd, options).await.expect("it attaches");
            let id = ubi.make_volume(&VolumeOptions::new("data")).await.expect("made");
            let volume = ubi.open_volume(id).await.expect("opened");
            for leb in LebNumber::default().run(4) {
                volume.write(leb, 0, &[7; 2048]).await.expect("written");
            }
            // One block is erased, so that there is a counter above zero.
            volume.unmap(LebNumber::new(3)).await.expect("unmapped");
            ubi.finish_works().await.expect("works end");
            plant(&ubi);
            out.replace(Some(ubi.check_states().await));
        });
        simulation.run();
        assert!(task.is_finished(), "nothing waits for ever");
        texts.take().expect("it was checked")
    }

    /// The block of the first logical block of the volume.
    fn first(ubi: &Ubi) -> PebNumber {
        let volumes = ubi.volumes.borrow();
        let (_, volume) = volumes.of_users().next().expect("a volume");
        volume.map[0].expect("it is mapped")
    }

    #[test]
    fn a_sound_device_breaks_no_rule() {
        assert_eq!(reported(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn faults_that_are_planted_are_reported() {
        let faults: [Fault; 6] = [
            ("is not in use", |ubi| {
                ubi.wear.borrow_mut().release(first(ubi));
            }),
            ("is in 2 sets", |ubi| {
                let work = Work::Erase { peb: first(ubi), leb: None, tortures: false };
                ubi.wear.borrow_mut().works.push_back(work);
            }),
            ("is LEB", |ubi| {
                let peb = first(ubi);
                let mut volumes = ubi.volumes.borrow_mut();
                let volume = volumes.by_id.values_mut().next().expect("a volume");
                volume.map[1] = Some(peb);
            }),
            ("blocks are in a set", |ubi| {
                let free = ubi.wear.borrow().free.first().expect("a free block");
                ubi.wear.borrow_mut().free.remove(free);
            }),
            ("more often than the most worn one", |ubi| {
                ubi.wear.borrow_mut().erase_counter_max = 0;
            }),
            ("the flag says no", |ubi| ubi.wear.borrow_mut().works.push_back(Work::Move)),
        ];
        for (expected, plant) in faults {
            let texts = reported(plant);
            let is_reported = texts.iter().any(|text| text.contains(expected));
            assert!(is_reported, "{expected:?} is not among {texts:?}");
        }
    }
}

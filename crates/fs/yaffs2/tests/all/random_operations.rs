//! Random calls beside the model of all file systems where the suite over their table does not go: on blocks so
//! small that most calls meet the collector, with mounts that are forgotten, options of no mount, failing blocks.

use crate::common;

use common::{Bench, part};
use conformance::{Area, Call, Model, SideBySide};
use nand::{Chip, FaultSettings, Storage};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use vfs::Vfs;
use yaffs2::{Finding, MountOptions, PROFILES, Statistics, TagsPlace, Yaffs2, find_profile};

/// Calls between two mounts.
const CALLS: usize = 50;

/// Small blocks, so that much is collected.
fn small_chip(faults: &FaultSettings) -> Chip {
    let mut part = part(64);
    part.geometry.pages_per_block = 16;
    Chip::new(&part, Storage::Bytes, faults)
}

/// Calls after which YAFFS2 differs from the model. A file that `truncate` made longer is as long as its chunks
/// after a mount that scans; the library takes one of two names of a file away when one is renamed over the
/// other.
pub(crate) async fn is_left_out(side: &SideBySide<Yaffs2>, call: &Call) -> bool {
    let Call::Line(line) = call else { return false };
    let words: Vec<&str> = line.split(' ').collect();
    if words[0] == "truncate" {
        let bytes = side.model_bytes(words[1]).await;
        return bytes.is_some_and(|bytes| words[2].parse().is_ok_and(|wanted: u64| wanted > bytes));
    }
    let is_of_library = !side.vfs().file_system().profile().has_page_cache;
    is_of_library && words[0] == "rename" && side.are_one_file(words[1], words[2]).await
}

/// Calls beside the model, with a look at the accounts after each.
async fn work(side: &SideBySide<Yaffs2>, calls: &[Call], label: &str) {
    for call in calls {
        if is_left_out(side, call).await {
            continue;
        }
        let done = side.call(call).await;
        assert!(done.is_ok(), "{label}: {done:?}");
        let are_compared = side.vfs().file_system().check_invariants().await;
        assert!(are_compared, "{label}, {call:?}: the accounts were wrong");
    }
}

/// Ends a mount: properly, or by forgetting it after a sync.
async fn leave(side: &SideBySide<Yaffs2>, is_clean: bool, sum: &mut Statistics) {
    let fs = side.vfs().file_system();
    let statistics = fs.statistics().await;
    sum.gc_copies += statistics.gc_copies;
    sum.erasures += statistics.erasures;
    sum.retired_blocks += statistics.retired_blocks;
    sum.checkpoints_written += statistics.checkpoints_written;
    let done = if is_clean { side.vfs().unmount().await } else { side.vfs().sync().await };
    done.expect("it ends");
}

fn play(options: MountOptions, seed: u64, calls: usize, faults: &FaultSettings) -> Statistics {
    let mut bench = Bench::new(small_chip(faults), "linux-large");
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    let has_faults = faults.program_failure_probability > 0.0;
    sim.clone().spawn(async move {
        // So many files that every profile has to collect.
        let area = Area { names: 9, ..Area::whole(true) };
        let mut stream = Stream::new(seed, "random operations");
        let mut sum = Statistics::default();
        let mut known = None;
        for stretch in 0..calls / CALLS {
            let label = format!("{}, seed {seed}, mount {stretch}", options.profile.name);
            // Of the mounts after a forgotten one every other scans.
            let reads_checkpoint = stretch % 4 != 1;
            let options = MountOptions { reads_checkpoint, ..options.clone() };
            let fs =
                Yaffs2::mount(&sim, cpus.clone(), mtd.clone(), options, common::ROOT.now).await;
            let fs = fs.expect("mounted");
            // Blocks that a forgotten mount left open are found partly written.
            let mut findings = fs.findings().await.into_iter();
            let first = findings.find(|one| !matches!(one, Finding::PartlyWritten { .. }));
            assert!(has_faults || first.is_none(), "{label}: {first:?}");
            let model = match known.take() {
                Some(model) => model,
                None => Model::new(&*fs, true).await,
            };
            let side = SideBySide::new(&sim, &Rc::new(Vfs::new(&sim, fs)), &model);
            assert_eq!(side.compare().await, Ok(()), "{label}");
            let mut calls: Vec<Call> = (0..CALLS).map(|_| area.draw(&mut stream)).collect();
            if stretch == 0 {
                calls.splice(0..0, area.first_calls());
            }
            work(&side, &calls, &label).await;
            assert_eq!(side.compare().await, Ok(()), "{label}, before its end");
            leave(&side, stretch % 2 == 1, &mut sum).await;
            known = Some(model);
        }
        place.borrow_mut().replace(sum);
    });
    bench.simulation.run();
    result.take().expect("ran to the end")
}

#[test]
fn every_profile_collects_and_writes_checkpoints() {
    for profile in PROFILES {
        let mut sum = Statistics::default();
        for seed in 0..10 {
            let statistics = play(MountOptions::new(profile), seed, 800, &FaultSettings::default());
            sum.gc_copies += statistics.gc_copies;
            sum.checkpoints_written += statistics.checkpoints_written;
        }
        assert!(sum.gc_copies > 100, "{}: {sum:?}", profile.name);
        assert!(sum.checkpoints_written > 10, "{}: {sum:?}", profile.name);
    }
}

#[test]
fn other_places_of_tags_and_no_cache() {
    let profile = find_profile("linux-6.1").expect("in the table");
    for tags in [TagsPlace::Spare, TagsPlace::Inband] {
        play(
            MountOptions { tags, ..MountOptions::new(profile) },
            7,
            300,
            &FaultSettings::default(),
        );
    }
    let no_cache = MountOptions { caches: 0, ..MountOptions::new(profile) };
    play(no_cache, 8, 300, &FaultSettings::default());
    let plain = MountOptions {
        writes_summaries: false,
        writes_checkpoint: false,
        always_checks_erased: true,
        ..MountOptions::new(profile)
    };
    play(plain, 9, 300, &FaultSettings::default());
}

#[test]
fn failed_programs_and_erases_retire_blocks_and_lose_nothing() {
    for profile in PROFILES {
        let faults = FaultSettings {
            seed: 3,
            program_failure_probability: 0.001,
            erase_failure_probability: 0.15,
            ..FaultSettings::default()
        };
        let statistics = play(MountOptions::new(profile), 11, 1200, &faults);
        // Newer code erases a block whose program failed and uses it again; one whose erase failed is
        // retired by all of them.
        assert!(statistics.retired_blocks > 0, "{}", profile.name);
    }
}

//! Random operations against a model in memory, with mounts in between.

use crate::common;

use common::model::Random;
use common::ops::Shell;
use common::{Bench, manifest, part, without};
use nand::{Chip, FaultSettings, Storage};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use yaffs2::{Finding, MountOptions, PROFILES, Statistics, TagsPlace, Yaffs2, find_profile};

const MTIME: usize = 6;

/// Small blocks, so that much is collected.
fn small_chip(faults: &FaultSettings) -> Chip {
    let mut part = part(64);
    part.geometry.pages_per_block = 16;
    Chip::new(&part, Storage::Bytes, faults)
}

async fn rows(fs: &Yaffs2) -> BTreeMap<String, String> {
    let rows = manifest(fs).await;
    let rows = rows.iter().map(|row| {
        let text = without(row, &[MTIME]);
        (text.rsplit(' ').next().expect("a path").to_owned(), text)
    });
    rows.filter(|(path, _)| path != "." && path != "lost+found").collect()
}

fn play(options: MountOptions, seed: u64, operations: usize, faults: &FaultSettings) -> Statistics {
    let mut bench = Bench::new(small_chip(faults), "linux-large");
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    let has_faults = faults.program_failure_probability > 0.0;
    sim.clone().spawn(async move {
        let name = options.profile.name;
        let mut random = Random::new(seed, options.profile.has_xattrs, 600_000);
        let mut shell = Shell::new(sim, mtd, cpus, options);
        shell.has_caches = true;
        // Mounts are forgotten without an end: their tasks would live on.
        shell.has_background = false;
        shell.mount().await;
        let mut sum = Statistics::default();
        for step in 0..operations {
            let line = random.next();
            let done = shell.line(&line).await;
            assert_eq!(done, Ok(()), "{name}, seed {seed}, step {step}: {line}");
            if let Some(fs) = &shell.fs {
                let are_compared = fs.check_invariants().await;
                assert!(are_compared, "{name}, seed {seed}, step {step}: the accounts were wrong");
            }
            let is_clean = step % 90 == 89;
            if is_clean || step % 60 == 59 {
                let statistics = shell.fs.as_ref().expect("mounted").statistics().await;
                sum.gc_copies += statistics.gc_copies;
                sum.erasures += statistics.erasures;
                sum.retired_blocks += statistics.retired_blocks;
                sum.checkpoints_written += statistics.checkpoints_written;
                if is_clean {
                    shell.unmount().await;
                } else {
                    // The mount is forgotten: what was synced is found by a scan.
                    shell.line("sync").await.expect("synced");
                    shell.options.reads_checkpoint = step % 120 == 59;
                    shell.drop_caches();
                }
                shell.mount().await;
                shell.options.reads_checkpoint = true;
                let fs = shell.fs.clone().expect("mounted");
                let (shown, wanted) = (rows(&fs).await, random.model.rows());
                assert_eq!(shown, wanted, "{name}, seed {seed}, step {step}");
                // Blocks that a forgotten mount left open are found partly written.
                let mut findings = fs.findings().await.into_iter();
                let first = findings.find(|one| !matches!(one, Finding::PartlyWritten { .. }));
                if !has_faults {
                    assert_eq!(first, None, "{name}, seed {seed}, step {step}");
                }
            }
        }
        shell.unmount().await;
        place.borrow_mut().replace(sum);
    });
    bench.simulation.run();
    result.take().expect("ran to the end")
}

#[test]
fn every_profile_agrees_with_the_model() {
    for profile in PROFILES {
        let mut sum = Statistics::default();
        for seed in 0..6 {
            let statistics = play(MountOptions::new(profile), seed, 400, &FaultSettings::default());
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
        let statistics = play(MountOptions::new(profile), 11, 300, &faults);
        // Newer code erases a block whose program failed and uses it again; one whose erase failed is
        // retired by all of them.
        assert!(statistics.retired_blocks > 0, "{}", profile.name);
    }
}

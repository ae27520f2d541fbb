//! Random work, compared with a file system in memory after every stretch and every mount.

use crate::support;

use fat::{FatType, FormatOptions, MountOptions, PROFILES};
use fs_api::FileSystem;
use random::Stream;
use support::work::Pair;
use support::{Bench, assert_clean, assert_same, formatted, options, run, tree};
use vfs::Vfs;

fn size_of(kind: FatType) -> u64 {
    match kind {
        FatType::Fat12 => 8 << 20,
        FatType::Fat16 => 24 << 20,
        FatType::Fat32 => 40 << 20,
    }
}

async fn compare(pair: &Pair, label: &str) {
    // Pages that are dirty above must be below, where the tree is read.
    pair.ours.sync().await.expect("it syncs");
    let (ours, model) = (pair.ours.file_system(), pair.model.file_system());
    assert_same(label, &tree(&**ours).await, &tree(&**model).await);
    assert_eq!(ours.findings(), [], "{label}");
    ours.check_chains().await.expect("the tables are read");
}

async fn work(bench: Bench, seed: u64, options: MountOptions, is_cached: bool, label: String) {
    let mut stream = Stream::new(seed, "work");
    let over = |fs| if is_cached { bench.kernel_over(fs) } else { Vfs::new(&bench.sim, fs.into()) };
    let mut pair = Pair::new(&bench.sim, over(bench.mount(options).await));
    for round in 0..6 {
        let label = format!("{label}, round {round}");
        for _ in 0..60 {
            pair.step(&mut stream, 40_000).await;
            if stream.below(10) == 0 {
                bench.sim.sleep(7_000_000_000).await;
            }
        }
        compare(&pair, &label).await;
        if round % 2 == 0 {
            pair.ours.drop_caches().await.expect("it drops");
            pair.ours.file_system().drop_caches();
            compare(&pair, &label).await;
        } else {
            let free = pair.ours.file_system().space().free_blocks;
            pair.ours.unmount().await.expect("it unmounts");
            let fs = bench.mount(options).await;
            assert_eq!(fs.count_free_clusters().await.map(u64::from), Ok(free), "{label}");
            pair = pair.with(over(fs));
            compare(&pair, &format!("{label}, mounted again")).await;
        }
    }
    pair.ours.unmount().await.expect("it unmounts");
}

#[test]
fn every_width_of_entries_agrees_with_a_model() {
    for kind in [FatType::Fat12, FatType::Fat16, FatType::Fat32] {
        for seed in 0..3 {
            let label = format!("{kind:?}, seed {seed}");
            let format = FormatOptions { kind: Some(kind), ..FormatOptions::default() };
            let medium = formatted(size_of(kind), format);
            let name = label.clone();
            let (medium, is_done) =
                run(medium, move |bench| work(bench, seed, options(), true, name));
            assert!(is_done, "{label}");
            assert_clean(&medium, &label);
        }
    }
}

#[test]
fn a_library_in_the_applications_place_agrees_too() {
    let medium = formatted(8 << 20, FormatOptions::default());
    let label = "uncached".to_owned();
    let (medium, is_done) = run(medium, |bench| work(bench, 11, options(), false, label));
    assert!(is_done);
    assert_clean(&medium, "uncached");
}

#[test]
fn every_kernel_and_a_synchronous_mount_agree() {
    for profile in PROFILES.iter().filter(|profile| !profile.shows_lower_case) {
        for is_synchronous in [false, true] {
            let options = MountOptions { is_synchronous, ..MountOptions::new(profile) };
            let label = format!("{}, synchronous {is_synchronous}", profile.name);
            let medium = formatted(8 << 20, FormatOptions::default());
            let name = label.clone();
            let (medium, is_done) = run(medium, move |bench| work(bench, 5, options, true, name));
            assert!(is_done, "{label}");
            assert_clean(&medium, &label);
        }
    }
}

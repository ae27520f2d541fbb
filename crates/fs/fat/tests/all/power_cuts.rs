//! The power fails at every sector that is written: what FAT can promise is kept, and what else a cut
//! leaves is counted.

use crate::support;

use block_medium::MemoryMedium;
use fat::{Check, FatType, FormatOptions, MountOptions, check, find_profile};
use random::Stream;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use support::work::{Pair, Promised};
use support::{Found, formatted, options, run};
use vfs::{OpenOptions, Vfs};

/// What is left of some work.
struct Left {
    medium: Rc<MemoryMedium>,
    promised: Promised,
    /// Sectors written since the cut was set.
    written: u64,
    is_done: bool,
}

/// Works until the power fails so many sectors after there is something to lose.
fn work(medium: &MemoryMedium, options: MountOptions, seed: u64, cut_after: u64) -> Left {
    let kept: Rc<RefCell<(u64, Rc<RefCell<Promised>>)>> = Rc::default();
    let reported = kept.clone();
    let (medium, is_done) = run(medium.after_cut(None), move |bench| async move {
        let mut stream = Stream::new(seed, "cut");
        let pair = Pair::new(&bench.sim, bench.kernel(options).await);
        for _ in 0..80 {
            pair.step(&mut stream, 12_000).await;
        }
        pair.sync().await;
        // What is in the cache of a device cannot be promised before it is flushed.
        pair.promised.borrow_mut().flushed.clear();
        *kept.borrow_mut() = (bench.medium.written_blocks(), pair.promised.clone());
        bench.medium.cut_power_after(cut_after);
        for step in 0..100 {
            pair.step(&mut stream, 12_000).await;
            match step % 20 {
                7 => bench.sim.sleep(40_000_000_000).await,
                19 => pair.sync().await,
                _ => {}
            }
        }
        pair.ours.unmount().await.expect("it unmounts");
    });
    let (before, promised) = reported.take();
    let promised = promised.borrow().clone();
    let written = medium.written_blocks() - before;
    Left { medium, promised, written, is_done }
}

/// Mounts what a cut left and looks for what was promised; gives what else is found.
fn recover(medium: MemoryMedium, promised: BTreeMap<String, Found>, label: String) -> Check {
    let found = Rc::new(RefCell::new(Check::default()));
    let reported = found.clone();
    let name = label.clone();
    let (_, is_done) = run(medium, move |bench| async move {
        *reported.borrow_mut() = check(&*bench.medium).await.expect("a volume");
        let read_only = MountOptions { is_read_only: true, ..options() };
        let vfs = Vfs::new(&bench.sim, Rc::new(bench.mount(read_only).await));
        for (path, expected) in promised {
            let Found::File(expected) = expected else {
                assert!(vfs.stat(path.as_bytes()).await.is_ok(), "{label}: {path} is missing");
                continue;
            };
            let file = vfs.open(&support::CALLER, path.as_bytes(), OpenOptions::default()).await;
            let file = file.unwrap_or_else(|error| panic!("{label}: {path}: {error}"));
            let mut content = vec![0; expected.len() + 1];
            let count = vfs.read(&file, 0, &mut content).await.expect("it reads");
            assert!(content[..count] == expected, "{label}: {path} is another");
        }
    });
    assert!(is_done, "{name}");
    found.take()
}

/// Cuts work at every sector; gives the sums of all that was found, and cuts that left a clean volume.
fn cut_everywhere(kind: FatType, options: MountOptions, seed: u64) -> (Check, u64) {
    let format =
        FormatOptions { kind: Some(kind), cluster_sectors: Some(1), ..FormatOptions::default() };
    let bytes = if kind == FatType::Fat12 { 1 << 20 } else { 3 << 20 };
    let medium = formatted(bytes, format);
    let whole = work(&medium, options, seed, u64::MAX / 2);
    assert!(whole.is_done && whole.promised.written.len() > 3, "little was promised");
    let (mut sums, mut clean, mut promises) = (Check::default(), 0, 0);
    for cut in 0..whole.written {
        let Left { medium: left, promised, is_done, .. } = work(&medium, options, seed, cut);
        assert!(!is_done && left.is_cut());
        let label = format!("{kind:?}, {}, cut {cut}", options.profile.name);
        promises += promised.written.len();
        let found = recover(left.after_cut(None), promised.written, label.clone());
        clean += u64::from(Check { is_dirty: false, ..found.clone() }.is_clean());
        sums.files += found.files;
        sums.lost_clusters += u64::from(found.lost_clusters > 0);
        sums.cross_links += u64::from(found.cross_links > 0);
        sums.table_differences += u64::from(found.table_differences > 0);
        sums.broken_chains += u64::from(found.broken_chains > 0);
        sums.long_chains += u64::from(found.long_chains > 0);
        sums.short_chains += u64::from(found.short_chains > 0);
        sums.stray_slots += u64::from(found.stray_slots > 0);
        sums.double_names += u64::from(found.double_names > 0);
        sums.bad_directories += u64::from(found.bad_directories > 0);
        if options.profile.fsync_flushes {
            let mut stream = Stream::new(cut, "cache");
            let lost = left.after_cut(Some(&mut stream));
            recover(lost, promised.flushed, format!("{label}, cache lost"));
        }
    }
    assert!(whole.written > 250 && promises > 1000, "{} cuts, {promises}", whole.written);
    (sums, clean)
}

#[test]
fn what_was_synced_survives_a_cut_anywhere() {
    for (kind, seed) in [(FatType::Fat12, 1), (FatType::Fat16, 2), (FatType::Fat32, 3)] {
        let (sums, clean) = cut_everywhere(kind, options(), seed);
        // A test that saw no damage would not have looked: the kernel orders no metadata.
        assert!(sums.lost_clusters > 0 && sums.table_differences > 0 && clean > 0, "{sums:?}");
    }
}

#[test]
fn old_kernels_promise_the_same() {
    for name in ["linux-2.6.29", "linux-2.6.35"] {
        let profile = find_profile(name).expect("in the table");
        // Names in upper case are shown in lower case by the first.
        cut_everywhere(FatType::Fat12, MountOptions::new(profile), 4);
    }
}

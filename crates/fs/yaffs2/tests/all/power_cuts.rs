//! The power is cut at one chip operation after another: what was synced, and not touched since, is
//! found again.

use crate::common;

use common::model::Random;
use common::ops::Shell;
use common::{Bench, manifest, part, without};
use nand::{Chip, CutPoint, FaultSettings, Storage, Torn};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use yaffs2::{Finding, MountOptions, Profile, Yaffs2, find_profile};

const MTIME: usize = 6;
const OPERATIONS: usize = 180;

/// What must be found again.
#[derive(Default)]
struct Promise {
    rows: BTreeMap<String, String>,
    touched: std::collections::BTreeSet<String>,
}

impl Promise {
    fn check(&self, shown: &BTreeMap<String, String>, what: &str) {
        for (path, row) in &self.rows {
            if !self.touched.contains(path) {
                assert_eq!(shown.get(path), Some(row), "{what}: {path}");
            }
        }
    }
}

async fn rows(fs: &Yaffs2) -> BTreeMap<String, String> {
    let rows = manifest(fs).await;
    let rows = rows.iter().map(|row| {
        let text = without(row, &[MTIME]);
        (text.rsplit(' ').next().expect("a path").to_owned(), text)
    });
    rows.collect()
}

fn small_chip() -> Chip {
    let mut part = part(64);
    part.geometry.pages_per_block = 16;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

fn options(profile: &'static Profile) -> MountOptions {
    MountOptions::new(profile)
}

/// Plays random operations until the power fails; the chip, what it must hold, whether it was cut.
fn play(options: MountOptions, seed: u64, chip: Chip) -> (Chip, Promise, bool) {
    let mut bench = Bench::new(chip, "linux-large");
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    let promise = Rc::new(RefCell::new(Promise::default()));
    let kept = promise.clone();
    sim.clone().spawn(async move {
        let mut random = Random::new(seed, options.profile.has_xattrs, 500_000);
        let mut shell = Shell::new(sim, mtd, cpus, options);
        shell.has_caches = true;
        shell.has_background = false;
        shell.mount().await;
        for step in 0..OPERATIONS {
            let line = if step % 25 == 24 { "sync".to_owned() } else { random.next() };
            kept.borrow_mut().touched.extend(std::mem::take(&mut random.touched));
            shell.line(&line).await.expect("room for all");
            if line == "sync" {
                *kept.borrow_mut() = Promise { rows: random.model.rows(), ..Promise::default() };
            }
        }
    });
    bench.simulation.run();
    let was_cut = !bench.chip().is_powered();
    let promise = promise.take();
    (bench.chip(), promise, was_cut)
}

/// Mounts after a cut, checks, writes, mounts again.
fn recover(options: MountOptions, chip: Chip, promise: Promise, what: String) {
    let mut bench = Bench::new(chip, "linux-large");
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    let done = Rc::new(RefCell::new(false));
    let reached = done.clone();
    sim.clone().spawn(async move {
        let mut shell = Shell::new(sim, mtd, cpus, options);
        shell.has_background = false;
        shell.mount().await;
        let fs = shell.fs.clone().expect("mounted");
        promise.check(&rows(&fs).await, &what);
        // A rename over a name of a file with other names, cut after its first header, deletes the
        // file under all of them; the names stay, and a new file may get its number.
        let mut findings = fs.findings().await.into_iter();
        let has_dangling = findings.any(|one| matches!(one, Finding::DanglingLink { .. }));
        for index in 0..12 {
            shell.line(&format!("put after{index} 644 20000 4096 x {index}")).await.expect("room");
        }
        shell.line("sync").await.expect("synced");
        let after = rows(&fs).await;
        promise.check(&after, &format!("{what}, later"));
        shell.unmount().await;
        for reads_checkpoint in [true, false] {
            shell.options.reads_checkpoint = reads_checkpoint;
            shell.mount().await;
            let fs = shell.fs.clone().expect("mounted");
            let again = rows(&fs).await;
            promise.check(&again, &format!("{what}, mounted again"));
            if reads_checkpoint && !has_dangling {
                let other = after.iter().find(|(path, row)| again.get(*path) != Some(row));
                let found = other.map(|(path, _)| again.get(path));
                assert_eq!(other, None, "{what}, mounted again: {found:?}");
                assert_eq!(again.len(), after.len(), "{what}, mounted again");
            }
            shell.drop_caches();
        }
        *reached.borrow_mut() = true;
    });
    bench.simulation.run();
    assert!(*done.borrow(), "the job ended");
}

fn cut_everywhere(profile: &'static str, torn: Torn, point: CutPoint, stride: u64, checks: bool) {
    let profile = find_profile(profile).expect("in the table");
    let mut cuts = 0;
    for seed in 0..3 {
        for at in (20 + seed * 7..).step_by(stride as usize) {
            let mut chip = small_chip();
            chip.set_torn(torn);
            chip.cut_power_after(at, point);
            let mut options = options(profile);
            options.always_checks_erased = checks;
            let (mut chip, promise, was_cut) = play(options.clone(), seed, chip);
            if !was_cut {
                break;
            }
            cuts += 1;
            chip.power_on();
            let what = format!("{} {torn:?} {point:?}, seed {seed}, cut at {at}", profile.name);
            recover(options, chip, promise, what);
        }
    }
    assert!(cuts > 20, "{cuts}");
    eprintln!("{} {torn:?} {point:?}: {cuts} cuts", profile.name);
}

#[test]
fn nothing_is_left_of_a_torn_operation() {
    cut_everywhere("linux-6.1", Torn::Nothing, CutPoint::Inside, 89, false);
    cut_everywhere("linux-2.6.29", Torn::Nothing, CutPoint::Inside, 89, false);
}

#[test]
fn a_torn_operation_leaves_noise() {
    cut_everywhere("linux-6.1", Torn::Unreadable, CutPoint::Inside, 61, false);
    cut_everywhere("yaffs-direct", Torn::Unreadable, CutPoint::Inside, 97, false);
    cut_everywhere("linux-2.6.35", Torn::Unreadable, CutPoint::Inside, 97, false);
}

/// A block of which half was erased looks empty by its first page: the check of every chunk, an
/// option of the real code, keeps it from being programmed twice.
#[test]
fn a_torn_operation_leaves_its_first_half() {
    cut_everywhere("linux-6.1", Torn::Prefix, CutPoint::Inside, 61, true);
    cut_everywhere("linux-2.6.29", Torn::Prefix, CutPoint::Inside, 97, true);
}

#[test]
fn a_torn_operation_leaves_its_data_without_tags() {
    cut_everywhere("linux-6.1", Torn::DataOnly, CutPoint::Inside, 61, true);
    cut_everywhere("linux-2.6.35", Torn::DataOnly, CutPoint::Inside, 97, true);
}

#[test]
fn an_operation_is_complete_or_was_never_begun() {
    cut_everywhere("linux-6.1", Torn::Nothing, CutPoint::Before, 131, false);
    cut_everywhere("yaffs-direct", Torn::Nothing, CutPoint::After, 131, false);
}

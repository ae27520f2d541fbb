//! The power is cut at one chip operation after another: what was synced, and not touched since, is
//! found again.

use crate::common;
use crate::random_operations::is_left_out;

use common::ops::Shell;
use common::{Bench, part};
use conformance::{Area, Call, Model, SideBySide};
use nand::{Chip, CutPoint, FaultSettings, Storage, Torn};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use vfs::Vfs;
use yaffs2::{Finding, MountOptions, Profile, Yaffs2, find_profile};

const CALLS: usize = 250;
/// Calls from one sync of all to the next.
const SYNCED_EVERY: usize = 25;

fn small_chip() -> Chip {
    let mut part = part(64);
    part.geometry.pages_per_block = 16;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

fn options(profile: &'static Profile) -> MountOptions {
    MountOptions::new(profile)
}

/// Plays random calls until the power fails; the chip, the model with what it must hold unless the first mount was
/// cut, whether it was cut.
fn play(options: MountOptions, seed: u64, chip: Chip) -> (Chip, Option<Model>, bool) {
    let mut bench = Bench::new(chip, "linux-large");
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    let model = Rc::new(RefCell::new(None));
    let kept = model.clone();
    sim.clone().spawn(async move {
        let area = Area::whole(true);
        let mut stream = Stream::new(seed, "work until a cut");
        let mounted = Yaffs2::mount(&sim, cpus, mtd, options, common::ROOT.now).await;
        let fs = mounted.expect("mounted");
        let model = Model::new(&*fs, true).await;
        kept.replace(Some(model.clone()));
        let side = SideBySide::new(&sim, &Rc::new(Vfs::new(&sim, fs)), &model);
        let mut calls = area.first_calls();
        calls.extend((calls.len()..CALLS).map(|number| match number % SYNCED_EVERY {
            0 => Call::Line("sync".into()),
            _ => area.draw(&mut stream),
        }));
        for call in calls {
            if !is_left_out(&side, &call).await {
                side.call(&call).await.unwrap_or_else(|wrong| panic!("{wrong}")).ok();
            }
        }
    });
    bench.simulation.run();
    let was_cut = !bench.chip().is_powered();
    (bench.chip(), model.take(), was_cut)
}

async fn assert_kept(model: &Model, fs: &Yaffs2, what: &str) {
    let promise = model.promise().borrow().clone();
    let lost = promise.lost(model, fs).await;
    assert!(lost.is_empty(), "{what}: {lost:?}");
}

/// Mounts after a cut, checks, writes, mounts again.
fn recover(options: MountOptions, chip: Chip, model: Option<Model>, what: String) {
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
        let model = match model {
            Some(model) => model,
            None => Model::new(&*fs, true).await,
        };
        assert_kept(&model, &fs, &what).await;
        // A hard link is an object of its own, which names the object of its file (`yaffs_link_obj`). The first
        // header of a rename shadows the object that it replaces (`yaffs_rename_obj`). If the power is cut
        // behind that header, the scan deletes the file, and its other names stay. A new file may get its
        // number, and with it those names. The promise leaves all of them out from the rename on.
        let mut findings = fs.findings().await.into_iter();
        let has_dangling = findings.any(|one| matches!(one, Finding::DanglingLink { .. }));
        for index in 0..12 {
            shell.line(&format!("put after{index} 644 20000 4096 x {index}")).await.expect("room");
        }
        shell.line("sync").await.expect("synced");
        let after = model.rows(&*fs).await;
        assert_kept(&model, &fs, &format!("{what}, later")).await;
        shell.unmount().await;
        for reads_checkpoint in [true, false] {
            shell.options.reads_checkpoint = reads_checkpoint;
            shell.mount().await;
            let fs = shell.fs.clone().expect("mounted");
            assert_kept(&model, &fs, &format!("{what}, mounted again")).await;
            if reads_checkpoint && !has_dangling {
                assert!(after.is_ok(), "{what}: {after:?}");
                assert_eq!(model.rows(&*fs).await, after, "{what}, mounted again");
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
            let (mut chip, model, was_cut) = play(options.clone(), seed, chip);
            if !was_cut {
                break;
            }
            cuts += 1;
            chip.power_on();
            let what = format!("{} {torn:?} {point:?}, seed {seed}, cut at {at}", profile.name);
            recover(options, chip, model, what);
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
    cut_everywhere("linux-6.1", Torn::Nothing, CutPoint::Before, 79, false);
    cut_everywhere("yaffs-direct", Torn::Nothing, CutPoint::After, 79, false);
}

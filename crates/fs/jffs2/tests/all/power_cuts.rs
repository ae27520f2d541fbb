//! The power fails at every k-th operation of the chip, in each of the ways a torn operation can
//! leave the medium: what was synced and not touched since is there, and work goes on.

use crate::support;

use conformance::{Area, Model, SideBySide};
use fs_api::{FileSystem, NewInode};
use jffs2::Jffs2;
use nand::{Chip, CutPoint, Torn};
use random::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::{CALLER, blank, quiet, run, write};

/// As many files as fill most of a chip.
fn area() -> Area {
    Area { names: 40, ..Area::whole(true) }
}

async fn step(side: &SideBySide<Jffs2>, fs: &Jffs2, stream: &mut Stream, label: &str) {
    let done = side.step(&area(), stream).await;
    done.unwrap_or_else(|wrong| panic!("{label}: {wrong} {:?}", fs.findings())).ok();
    fs.check_invariants();
}

/// Fills a chip with random work, so that cuts meet the collector and erases.
fn fill(blocks: u32, seed: u64) -> (Chip, Model) {
    let filled = Rc::new(RefCell::new(None));
    let result = filled.clone();
    let (chip, _) = run(blank(blocks), false, move |bench| async move {
        let fs = Rc::new(bench.mount(quiet(seed)).await);
        let model = Model::new(&*fs, true).await.that_may_be_full();
        let side = SideBySide::bare(&bench.sim, &fs, &model);
        for call in area().first_calls() {
            assert_eq!(side.call(&call).await, Ok(Ok(())));
        }
        let mut stream = Stream::new(seed, "filling");
        for _ in 0..2000 {
            step(&side, &fs, &mut stream, "filling").await;
        }
        assert!(fs.statistics().nodes_collected > 100, "{:?}", fs.statistics());
        fs.unmount().await.expect("it unmounts");
        model.note_synced().await;
        result.replace(Some(model));
    });
    (chip, filled.take().expect("it was filled"))
}

/// Random work until the power fails; the model that was changed meanwhile, and whether the power did fail.
fn work(chip: Chip, model: &Model, seed: u64, label: String) -> (Chip, Model, bool) {
    let done = Rc::new(Cell::new(false));
    let is_done = done.clone();
    let forked = Rc::new(RefCell::new(None));
    let (kept, model) = (forked.clone(), model.clone());
    let (chip, _) = run(chip, false, move |bench| async move {
        let model = model.fork().await;
        kept.replace(Some(model.clone()));
        let fs = Rc::new(bench.mount(quiet(seed)).await);
        let side = SideBySide::bare(&bench.sim, &fs, &model);
        let mut stream = Stream::new(seed, "power cut work");
        for _ in 0..300 {
            step(&side, &fs, &mut stream, &label).await;
        }
        is_done.set(true);
    });
    (chip, forked.take().expect("the work began"), !done.get())
}

async fn assert_kept(model: &Model, fs: &Jffs2, label: &str) {
    let promise = model.promise().borrow().clone();
    let lost = promise.lost(model, fs).await;
    assert!(lost.is_empty(), "{label}: {lost:?}\n{:?}", fs.findings());
}

/// Mounts what a cut left and looks for what must be there; then cleans up, writes and looks again.
fn verify(chip: Chip, model: &Model, seed: u64, label: &str, is_last: bool) -> Chip {
    let (model, label) = (model.clone(), label.to_owned());
    let done = Rc::new(Cell::new(false));
    let is_done = done.clone();
    let (chip, end) = run(chip, false, move |bench| async move {
        let fs = bench.mount(quiet(seed)).await;
        if is_last {
            assert_kept(&model, &fs, &label).await;
            fs.check_invariants();
        }
        for round in 0..12_u64 {
            while fs.collect().await {}
            let name = format!("zz{seed}-{round}");
            let made = fs.make(&CALLER, 1, name.as_bytes(), NewInode::Regular(0o600)).await;
            let Ok(inode) = made else { break };
            let data = vec![round as u8; 9000];
            if write(&fs, &CALLER, inode, 0, &data).await.is_err() {
                break;
            }
        }
        fs.sync().await.expect("it syncs");
        if is_last {
            assert_kept(&model, &fs, &format!("{label}, after cleaning")).await;
            fs.check_invariants();
        }
        is_done.set(true);
    });
    assert!(done.get() || !is_last, "{end:?}");
    chip
}

fn storm(torn: Torn, seeds: std::ops::Range<u64>, stride: u64) -> u32 {
    let mut cuts = 0;
    for seed in seeds {
        let (filled, model) = fill(14, seed);
        let points = [CutPoint::Inside, CutPoint::Before, CutPoint::After];
        for k in 0..36_u64 {
            let mut chip = filled.clone();
            chip.set_torn(torn);
            chip.cut_power_after(1 + seed % stride + k * stride, points[(k % 3) as usize]);
            let label = format!("{torn:?} seed {seed} k {k}");
            let (mut chip, model, is_cut) = work(chip, &model, seed + 1000, label.clone());
            if !is_cut {
                break;
            }
            cuts += 1;
            chip.power_on();
            if k % 3 == 0 {
                // A second cut soon after, while what the first left is cleaned up.
                chip.set_torn(torn);
                chip.cut_power_after(3 + k * 11, CutPoint::Inside);
                chip = verify(chip, &model, k, &label, false);
                chip.power_on();
                cuts += 1;
            }
            let chip = verify(chip, &model, k + 100, &label, true);
            verify(chip, &model, k + 200, &label, true);
        }
    }
    cuts
}

#[test]
fn synced_data_survives_where_half_a_page_is_programmed() {
    let cuts = storm(Torn::Prefix, 0..1, 41);
    assert!(cuts > 30);
}

#[test]
fn synced_data_survives_where_only_the_spare_area_is_missing() {
    let cuts = storm(Torn::DataOnly, 10..11, 43);
    assert!(cuts > 30);
}

#[test]
fn synced_data_survives_where_a_torn_operation_never_began() {
    let cuts = storm(Torn::Nothing, 20..21, 47);
    assert!(cuts > 30);
}

#[test]
fn synced_data_survives_where_a_torn_page_is_noise() {
    let cuts = storm(Torn::Unreadable, 30..31, 53);
    assert!(cuts > 30);
}

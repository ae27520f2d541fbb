//! The power fails at every operation of the chip, in each of the ways a torn operation can leave the
//! medium: what was acknowledged is there, an atomic change is old or new, and work goes on.

use crate::support;

use nand::{Chip, CutPoint, FaultSettings, Torn};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use support::model::Model;
use support::{run, small, threaded};
use ubi::{AttachOptions, FormatOptions, LebNumber, VolumeOptions};

fn options() -> AttachOptions {
    // A low threshold lets blocks move for the sake of wear in between.
    AttachOptions { wear_threshold: 2, ..threaded() }
}

/// A chip after random work.
fn fill(seed: u64) -> (Chip, Model) {
    let model = Rc::new(RefCell::new(None));
    let result = model.clone();
    let (chip, is_done) =
        run(small(20, &FaultSettings::default()), false, move |bench| async move {
            bench.format(&FormatOptions { image_sequence: 7, ..Default::default() }).await;
            let ubi = bench.attach(options()).await;
            let id = ubi.make_volume(&VolumeOptions::new("data")).await.expect("made");
            let volume = ubi.open_volume(id).await.expect("opened");
            let place = RefCell::new(Model::new(&volume));
            let mut stream = Stream::new(seed, "filling");
            for _ in 0..400 {
                Model::step(&place, &volume, &mut stream).await.expect("it works");
            }
            assert!(ubi.statistics().blocks_levelled > 0, "blocks move, too");
            result.replace(Some(place.into_inner()));
            ubi.detach();
        });
    assert!(is_done);
    (chip, model.take().expect("it was filled"))
}

/// Attaches, compares, works on; whether it came to the end, and what should be found then.
fn work(chip: Chip, model: &Model, seed: u64, steps: u32, label: &str) -> (Chip, Model, bool) {
    let place = Rc::new(RefCell::new(model.clone()));
    let (known, label) = (place.clone(), label.to_owned());
    let (chip, is_done) = run(chip, false, move |bench| async move {
        let ubi = bench.attach(options()).await;
        let volume = ubi.open_volume(0).await.expect("opened");
        let mut model = known.borrow().clone();
        model.adopt(&volume, &label).await;
        known.replace(model);
        let mut stream = Stream::new(seed, "power cut work");
        for _ in 0..steps {
            let step = Model::step(&known, &volume, &mut stream).await;
            step.unwrap_or_else(|error| panic!("{label}: {error}, {:?}", ubi.findings()));
        }
        assert!(!ubi.is_read_only(), "{label}: {:?}", ubi.findings());
        let model = known.borrow().clone();
        model.compare(&volume, &label).await;
        ubi.detach();
    });
    let model = place.borrow().clone();
    (chip, model, is_done)
}

fn storm(torn: Torn, seed: u64, stride: u64) {
    let (filled, mut model) = fill(seed);
    model.has_torn_erases = torn == Torn::Unreadable;
    let mut cuts = 0_u64;
    for point in [CutPoint::Before, CutPoint::Inside, CutPoint::After] {
        let mut after = 1 + seed % stride;
        loop {
            let mut chip = filled.clone();
            chip.set_torn(torn);
            chip.cut_power_after(after, point);
            let label = format!("{torn:?} seed {seed} {point:?} {after}");
            let (mut chip, left, is_done) = work(chip, &model, seed + 1000, 40, &label);
            if is_done {
                break;
            }
            cuts += 1;
            chip.power_on();
            let mut left = left;
            if after.is_multiple_of(3) {
                // A second cut while what the first left is put right.
                chip.set_torn(torn);
                chip.cut_power_after(1 + after % 60, CutPoint::Inside);
                let again = work(chip, &left, seed + 2000, 20, &format!("{label}, again"));
                (chip, left) = (again.0, again.1);
                chip.power_on();
            }
            let (_, _, is_done) = work(chip, &left, seed + 3000, 25, &format!("{label}, after"));
            assert!(is_done, "{label}");
            after += stride;
        }
    }
    assert!(cuts > 600 / stride, "{cuts} cuts");
}

#[test]
fn data_survives_where_half_a_page_is_programmed() {
    storm(Torn::Prefix, 1, 1);
}

#[test]
fn data_survives_where_only_the_spare_area_is_missing() {
    storm(Torn::DataOnly, 2, 1);
}

#[test]
fn data_survives_where_a_torn_operation_never_began() {
    storm(Torn::Nothing, 3, 1);
}

#[test]
fn data_survives_where_a_torn_page_is_noise() {
    storm(Torn::Unreadable, 4, 1);
}

#[test]
fn an_erased_block_does_not_come_back_from_an_older_copy() {
    let quiet = || AttachOptions { has_thread: false, ..options() };
    run(small(20, &FaultSettings::default()), false, move |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let ubi = bench.attach(quiet()).await;
        let id = ubi.make_volume(&VolumeOptions::new("data")).await.expect("made");
        let volume = ubi.open_volume(id).await.expect("opened");
        volume.change(LebNumber::new(3), &[1; 2048]).await.expect("changed");
        volume.change(LebNumber::new(3), &[2; 2048]).await.expect("changed");
        // Both copies are on the medium when the device is left.
        ubi.detach();
        let ubi = bench.attach(quiet()).await;
        let volume = ubi.open_volume(id).await.expect("opened");
        let mut page = [0; 2048];
        volume.read(LebNumber::new(3), 0, &mut page, false).await.expect("read");
        assert_eq!(page, [2; 2048]);
        volume.erase(LebNumber::new(3)).await.expect("erased");
        ubi.detach();
        let ubi = bench.attach(quiet()).await;
        assert!(!ubi.open_volume(id).await.expect("opened").is_mapped(LebNumber::new(3)));
        // What is only unmapped may come back.
        let volume = ubi.open_volume(id).await.expect("opened");
        volume.change(LebNumber::new(4), &[4; 2048]).await.expect("changed");
        volume.unmap(LebNumber::new(4)).await.expect("unmapped");
        ubi.detach();
        let ubi = bench.attach(quiet()).await;
        assert!(ubi.open_volume(id).await.expect("opened").is_mapped(LebNumber::new(4)));
    });
}

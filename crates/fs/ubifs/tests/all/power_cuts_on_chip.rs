//! Power cuts at operations of a chip, with UBI in between: what was synced stays, and everything adds up
//! after each recovery.

use crate::support;

use crate::power_cuts::{fill, look_and_work, play};
use conformance::{Model, SideBySide};
use nand::{Chip, CutPoint, Torn};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use support::host::Host;
use support::{Bench, blank, quiet, run_chip};
use ubi::{FormatOptions, Ubi, VolumeOptions};
use ubifs::{Compressor, MountOptions, Volume};

fn options() -> MountOptions {
    MountOptions { compressor: Some(Compressor::Lzo), has_thread: true, ..quiet() }
}

async fn mount(bench: &Bench) -> (Rc<Ubi>, Rc<Host>) {
    let ubi = bench.attach(None).await;
    let volume = ubi.open_volume(0).await.expect("volume 0");
    let fs = bench.mount(Volume::Ubi(volume), options()).await;
    (ubi, Host::new(bench, fs))
}

/// A chip with a file system on which some work was done, and the model of it.
fn filled(seed: u64) -> (Chip, Model) {
    let result = Rc::new(RefCell::new(None));
    let out = result.clone();
    let (chip, is_done) = run_chip("linux-large", blank(48), false, move |bench| async move {
        let (sim, cpus, mtd) = (bench.sim.clone(), bench.cpus.clone(), bench.mtd().clone());
        let format = FormatOptions::default();
        Ubi::format(&sim, cpus, mtd, &format).await.expect("it is formatted");
        let ubi = bench.attach(None).await;
        ubi.make_volume(&VolumeOptions::new("test")).await.expect("made");
        ubi.detach();
        let (ubi, host) = mount(&bench).await;
        let model = fill(&bench, &host, seed, 250).await;
        host.unmount().await.expect("it unmounts");
        ubi.detach();
        out.replace(Some(model));
    });
    assert!(is_done);
    (chip, result.take().expect("it came to its end"))
}

/// Attaches, mounts and works until the power is cut.
fn work(chip: Chip, model: &Model, seed: u64) -> (Chip, Model, bool) {
    let (forked, known) = (Rc::new(RefCell::new(None)), model.clone());
    let kept = forked.clone();
    let (chip, is_done) = run_chip("linux-large", chip, false, move |bench| async move {
        let model = known.fork().await;
        kept.replace(Some(model.clone()));
        let (_ubi, host) = mount(&bench).await;
        let side = SideBySide::new(&bench.sim, &host.vfs, &model);
        play(&side, &mut Stream::new(seed, "work"), 400).await;
    });
    (chip, forked.take().expect("the work began"), !is_done)
}

/// Attaches and mounts after a cut, and looks.
fn recover(chip: Chip, model: Model, label: String) {
    let (_, is_done) = run_chip("linux-large", chip, false, move |bench| async move {
        let (_ubi, host) = mount(&bench).await;
        look_and_work(&bench, &host, &model, 1, &label).await;
    });
    assert!(is_done);
}

fn storm(torn: Torn, seed: u64, stride: u64) {
    let (filled, model) = filled(seed);
    let points = [CutPoint::Inside, CutPoint::Before, CutPoint::After];
    let mut cuts = 0;
    for k in 0..60_u64 {
        let mut chip = filled.clone();
        chip.set_torn(torn);
        let operations = 1 + k * stride;
        chip.cut_power_after(operations, points[(k % 4).saturating_sub(1) as usize]);
        let (mut chip, model, is_cut) = work(chip, &model, seed + 1);
        if !is_cut {
            break;
        }
        cuts += 1;
        chip.power_on();
        recover(chip, model, format!("{torn:?}, cut {operations}"));
    }
    assert!(cuts > 20, "{cuts} cuts");
}

#[test]
fn synced_data_survives_where_a_torn_operation_never_began() {
    storm(Torn::Nothing, 1, 31);
}

#[test]
fn synced_data_survives_where_half_a_page_is_programmed() {
    storm(Torn::Prefix, 2, 29);
}

#[test]
fn synced_data_survives_where_only_the_spare_area_is_missing() {
    storm(Torn::DataOnly, 3, 37);
}

#[test]
fn synced_data_survives_where_a_torn_page_is_noise() {
    storm(Torn::Unreadable, 4, 33);
}

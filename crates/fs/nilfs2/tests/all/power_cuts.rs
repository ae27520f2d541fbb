//! The power fails at every block that is written: what was synced is there, and the rest makes sense.

use crate::support;

use block_medium::MemoryMedium;
use conformance::{Area, Model};
use fs_api::{FileSystem, NewInode, PAGE_BYTES};
use nilfs2::{FormatOptions, MountOptions, Nilfs2, format};
use random::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::{Bench, CALLER, Work, quiet, run};

const DEVICE_BYTES: u64 = 8 << 20;
/// Names of files in each directory: what they hold fills a part of the device.
const NAMES: u32 = 6;

async fn fresh(bench: &Bench) -> Rc<Nilfs2> {
    let options = FormatOptions { blocks_per_segment: 32, ..FormatOptions::default() };
    format(&*bench.medium, &options).await.expect("it is made");
    Rc::new(bench.mount(quiet()).await)
}

/// A medium with something on it, and what was promised of it.
fn prepared(seed: u64) -> (MemoryMedium, Model) {
    let kept = Rc::new(RefCell::new(None));
    let model = kept.clone();
    let (medium, is_done) = run(MemoryMedium::new(4096, DEVICE_BYTES), move |bench| async move {
        let fs = fresh(&bench).await;
        let mut work = Work::new(&bench, &fs, seed, NAMES).await;
        assert_eq!(work.play(100).await, 0, "there is room");
        fs.sync().await.expect("it syncs");
        let model = work.model().clone();
        model.note_synced().await;
        fs.unmount().await.expect("it unmounts");
        *kept.borrow_mut() = Some(model);
    });
    assert!(is_done);
    let model = model.borrow_mut().take().expect("it was kept");
    (medium.after_cut(None), model)
}

/// Works until the power fails after so many blocks; the model with what is promised, and whether it did.
fn work(
    medium: &MemoryMedium,
    model: &Model,
    seed: u64,
    cut_after: u64,
    cleans: bool,
) -> (Rc<MemoryMedium>, Model, bool) {
    let (known, forked) = (model.clone(), Rc::new(RefCell::new(None)));
    let kept = forked.clone();
    let (medium, is_done) = run(medium.after_cut(None), move |bench| async move {
        let model = known.fork().await;
        kept.replace(Some(model.clone()));
        bench.medium.cut_power_after(cut_after);
        let fs = Rc::new(bench.mount(quiet()).await);
        let area = Area { names: NAMES, ..Area::whole(true) };
        let mut work = Work::beside(&bench, &fs, seed + 100, &model, area);
        for _ in 0..9 {
            assert_eq!(work.play(14).await, 0, "there is room");
            if cleans {
                let settings = nilfs2::CleanerSettings {
                    protection_period_s: 0,
                    ..nilfs2::CleanerSettings::default()
                };
                fs.clean(&settings, 2, 0).await.expect("it cleans");
            }
        }
        fs.unmount().await.expect("it unmounts");
    });
    (medium, forked.take().expect("the work began"), is_done)
}

async fn assert_kept(model: &Model, fs: &Nilfs2, label: &str) {
    let promise = model.promise().borrow().clone();
    let lost = promise.lost(model, fs).await;
    assert!(lost.is_empty(), "{label}: {lost:?}; {:?}", fs.findings());
}

/// Mounts what a cut left, compares, and works on.
fn assert_recovers(medium: MemoryMedium, model: &Model, label: String) {
    let (model, name) = (model.clone(), label.clone());
    let (_, is_done) = run(medium, move |bench| async move {
        let fs = bench.mount(quiet()).await;
        assert_kept(&model, &fs, &label).await;
        assert_eq!(fs.check().await.expect("it is read"), [], "{label}");
        let file = fs.make(&CALLER, fs.root(), b"after", NewInode::Regular(0o600)).await;
        let file = file.expect("it is made");
        let page = [7; PAGE_BYTES];
        fs.write_page(&CALLER, file, 0, &page, 0..PAGE_BYTES).await.expect("it is written");
        fs.unmount().await.expect("it unmounts");
        let fs = bench.mount(quiet()).await;
        assert_kept(&model, &fs, &label).await;
        assert_eq!(fs.check().await.expect("it is read"), [], "{label}");
    });
    assert!(is_done, "{name}");
}

/// Cuts work at every block, or every few.
fn cut_everywhere(seed: u64, step: u64, cleans: bool) {
    let (medium, model) = prepared(seed);
    let (whole, _, is_done) = work(&medium, &model, seed, u64::MAX / 2, cleans);
    assert!(is_done);
    let blocks = whole.written_blocks();
    assert!(blocks > 80, "{blocks} blocks are few");
    for cut in (0..blocks).step_by(step as usize) {
        let (left, model, is_done) = work(&medium, &model, seed, cut, cleans);
        assert!(!is_done && left.is_cut());
        assert_recovers(left.after_cut(None), &model, format!("seed {seed}, cut {cut}"));
        let mut stream = Stream::new(cut, "cache");
        let lost = left.after_cut(Some(&mut stream));
        let label = format!("seed {seed}, cut {cut}, cache lost");
        assert_recovers(lost, &model, label);
    }
}

#[test]
fn every_block_of_work_can_be_the_last() {
    cut_everywhere(1, 1, false);
}

#[test]
fn every_block_of_other_work_can_be_the_last() {
    cut_everywhere(2, 1, false);
}

#[test]
fn cleaning_can_be_cut_anywhere() {
    cut_everywhere(3, 2, true);
}

// One function: the pages that the work has synced are those that the mount after the cut is asked for.
/// Pages of a file that only data-sync logs make durable.
#[test]
fn data_that_was_synced_without_a_checkpoint_is_rolled_forward() {
    const PAGES: u64 = 12;
    let (medium, is_done) = run(MemoryMedium::new(4096, DEVICE_BYTES), |bench| async move {
        let fs = fresh(&bench).await;
        let file = fs.make(&CALLER, fs.root(), b"file", NewInode::Regular(0o600)).await;
        let file = file.expect("it is made");
        for page in 0..PAGES {
            let bytes = [0; PAGE_BYTES];
            let part = 0..PAGE_BYTES;
            fs.write_page(&CALLER, file, page, &bytes, part).await.expect("it is written");
        }
        fs.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    let medium = medium.after_cut(None);
    let versions = Rc::new(RefCell::new([0_u8; PAGES as usize]));
    let (mut cut, mut rolled_forward) = (0, 0);
    loop {
        *versions.borrow_mut() = [0; PAGES as usize];
        let synced = versions.clone();
        let (left, is_done) = run(medium.after_cut(None), move |bench| async move {
            bench.medium.cut_power_after(cut);
            let fs = bench.mount(quiet()).await;
            let file = fs.lookup(fs.root(), b"file").await.expect("it is there");
            for round in 1..20_u8 {
                let mut pages = *synced.borrow();
                for place in 0..3 {
                    let page = (u64::from(round) * 5 + place * 7) % PAGES;
                    pages[page as usize] = round;
                    let bytes = [round; PAGE_BYTES];
                    let part = 0..PAGE_BYTES;
                    fs.write_page(&CALLER, file, page, &bytes, part).await.expect("written");
                }
                fs.sync_data(file).await.expect("it syncs");
                *synced.borrow_mut() = pages;
                if round % 7 == 6 {
                    fs.sync().await.expect("it syncs");
                }
            }
        });
        let (versions, found) = (*versions.borrow(), Rc::new(Cell::new(0)));
        let notes = found.clone();
        let (_, recovers) = run(left.after_cut(None), move |bench| async move {
            for options in [MountOptions { is_read_only: true, ..quiet() }, quiet()] {
                let fs = bench.mount(options).await;
                let file = fs.lookup(fs.root(), b"file").await.expect("it is there");
                for (page, version) in versions.iter().enumerate() {
                    let mut bytes = [0; PAGE_BYTES];
                    fs.read_page(file, page as u64, &mut bytes).await.expect("it is read");
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "cut {cut}, page {page}");
                    assert!(bytes[0] >= *version, "cut {cut}, page {page}: {}", bytes[0]);
                }
                let forward =
                    fs.findings().iter().filter(|it| it.code == "nilfs2-rolled-forward").count();
                notes.set(notes.get() + forward);
                if !options.is_read_only {
                    assert_eq!(fs.check().await.expect("read"), [], "{cut}");
                    fs.unmount().await.expect("it unmounts");
                }
            }
        });
        assert!(recovers, "cut {cut}");
        rolled_forward += found.get();
        if is_done {
            break;
        }
        cut += 1;
    }
    assert!(cut > 80 && rolled_forward > 20, "{cut} cuts, {rolled_forward} rolled forward");
}

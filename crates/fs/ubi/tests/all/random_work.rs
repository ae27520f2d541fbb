//! Random work against a model: attached again and again, on chips whose blocks fail, under many
//! callers.

use crate::support;

use nand::{Chip, FaultSettings, Storage, find_part};
use random::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::model::Model;
use support::{quiet, run, run_with, small, threaded};
use ubi::{AttachOptions, FormatOptions, LebNumber, UbiError, VolumeOptions, VolumeSize};

/// Formats a chip and makes a volume of most of it.
pub(crate) fn prepare(chip: Chip, options: AttachOptions, spare_lebs: u32) -> (Chip, Model) {
    let model = Rc::new(RefCell::new(None));
    let result = model.clone();
    let (chip, is_done) = run(chip, false, move |bench| async move {
        let header_offset = options.header_offset;
        bench
            .format(&FormatOptions { image_sequence: 7, header_offset, ..Default::default() })
            .await;
        let ubi = bench.attach(options).await;
        let lebs = u64::from(ubi.info().available_pebs - spare_lebs);
        let bytes = lebs * u64::from(ubi.info().layout.leb_bytes);
        let size = VolumeSize::Bytes(bytes);
        let id = ubi.make_volume(&VolumeOptions { size, ..VolumeOptions::new("data") }).await;
        let volume = ubi.open_volume(id.expect("made")).await.expect("opened");
        result.replace(Some(Model::new(&volume)));
        ubi.detach();
    });
    assert!(is_done);
    (chip, model.take().expect("it was made"))
}

#[test]
fn contents_are_those_of_the_model() {
    for (header_offset, has_thread) in [(None, true), (Some(2048), false)] {
        let options = AttachOptions { header_offset, has_thread, ..threaded() };
        let (mut chip, mut model) =
            prepare(small(40, &FaultSettings::default()), options.clone(), 0);
        let mut stream = Stream::new(1, "work");
        for round in 0..12 {
            let (given, options) = (Rc::new(RefCell::new(model)), options.clone());
            let place = given.clone();
            let mut forked = stream.clone();
            let (next, is_done) = run(chip, has_thread, move |bench| async move {
                let ubi = bench.attach(options).await;
                let volume = ubi.open_volume(0).await.expect("opened");
                let label = format!("round {round}");
                // What was unmapped may be back; what was there must be.
                let mut model = place.borrow().clone();
                model.adopt(&volume, &label).await;
                place.replace(model);
                for _ in 0..400 {
                    Model::step(&place, &volume, &mut forked).await.expect("it works");
                }
                let known = place.borrow().clone();
                known.compare(&volume, &label).await;
                assert!(ubi.findings().is_empty(), "{:?}", ubi.findings());
                if round % 2 == 0 {
                    ubi.finish_works().await.expect("works end");
                }
                ubi.detach();
            });
            assert!(is_done);
            for _ in 0..1000 {
                stream.next_u64();
            }
            chip = next;
            model = given.borrow().clone();
        }
    }
}

/// Pages of 512 bytes in two sub-pages; pages without sub-pages.
#[test]
fn other_pages_are_served_as_well() {
    let mut part = find_part("k9f5608u0d").expect("in the catalogue");
    part.geometry.blocks = 40;
    let small_pages = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let whole_pages = small(40, &FaultSettings::default());
    let chips = [("linux-small", small_pages, 256, 512), ("bare", whole_pages, 2048, 4096)];
    for (layout, chip, header_offset, data_offset) in chips {
        let (_, is_done) = run_with(layout, chip, false, move |bench| async move {
            bench.format(&FormatOptions::default()).await;
            let ubi = bench.attach(threaded()).await;
            let found = ubi.info().layout;
            assert_eq!((found.header_offset, found.data_offset), (header_offset, data_offset));
            let id = ubi.make_volume(&VolumeOptions::new("data")).await.expect("made");
            let volume = ubi.open_volume(id).await.expect("opened");
            let place = RefCell::new(Model::new(&volume));
            let mut stream = Stream::new(9, "work");
            for _ in 0..300 {
                Model::step(&place, &volume, &mut stream).await.expect("it works");
            }
            ubi.detach();
            let ubi = bench.attach(threaded()).await;
            let volume = ubi.open_volume(id).await.expect("opened");
            place.into_inner().adopt(&volume, layout).await;
        });
        assert!(is_done);
    }
}

/// Each caller has blocks of its own, hot and cold; the thread moves them all under its hands.
#[test]
fn callers_work_side_by_side() {
    let (chip, _) = prepare(small(48, &FaultSettings::default()), quiet(), 0);
    let (_, is_done) = run(chip, true, move |bench| async move {
        let ubi = bench.attach(AttachOptions { wear_threshold: 2, ..threaded() }).await;
        let volume = ubi.open_volume(0).await.expect("opened");
        let tasks: Vec<_> = (0..5_u32)
            .map(|caller| {
                let (volume, sim) = (volume.clone(), bench.sim.clone());
                bench.sim.spawn(async move {
                    let mut stream = Stream::new(u64::from(caller), "caller");
                    let own: Vec<u32> =
                        (0..volume.leb_count()).filter(|lnum| lnum % 5 == caller).collect();
                    let mut bytes = vec![0xff_u8; own.len()];
                    for round in 0..1500 {
                        let is_cold = round < own.len() || stream.below(4) == 0;
                        let at = if is_cold { round % own.len() } else { 0 };
                        let (lnum, byte) = (own[at], stream.below(200) as u8);
                        let whole = vec![byte; volume.leb_bytes() as usize];
                        if stream.below(2) == 0 {
                            volume.change(LebNumber::new(lnum), &whole).await.expect("changed");
                        } else {
                            volume.unmap(LebNumber::new(lnum)).await.expect("unmapped");
                            volume.write(LebNumber::new(lnum), 0, &whole).await.expect("written");
                        }
                        bytes[at] = byte;
                        let at = stream.below(own.len() as u32) as usize;
                        let mut back = vec![0; whole.len()];
                        volume
                            .read(LebNumber::new(own[at]), 0, &mut back, false)
                            .await
                            .expect("read");
                        assert!(back.iter().all(|byte| *byte == bytes[at]), "LEB {}", own[at]);
                        sim.sleep(u64::from(stream.below(2_000_000))).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        ubi.finish_works().await.expect("works end");
        let counts = ubi.statistics();
        assert!(counts.blocks_levelled > 100 && counts.moves_cancelled > 3, "{counts:?}");
        assert_eq!((ubi.info().pending_erases, ubi.findings()), (0, Vec::new()));
        ubi.detach();
    });
    assert!(is_done);
}

#[test]
fn blocks_that_fail_are_replaced_until_none_is_left() {
    let mut ended_read_only = 0;
    for seed in 0..4 {
        let faults = FaultSettings {
            seed,
            program_failure_probability: 0.002,
            erase_failure_probability: 0.3,
            ..FaultSettings::default()
        };
        let options = AttachOptions { bad_blocks_per_1024: Some(150), ..quiet() };
        let (mut chip, model) = prepare(small(60, &faults), options.clone(), 4);
        let place = Rc::new(RefCell::new(model));
        let bad = Rc::new(Cell::new(0));
        let mut stream = Stream::new(seed, "work");
        for round in 0..6 {
            let (model, bad, options) = (place.clone(), bad.clone(), options.clone());
            let mut work = stream.clone();
            let ended = Rc::new(Cell::new(false));
            let is_ended = ended.clone();
            let (next, is_done) = run(chip, false, move |bench| async move {
                let ubi = bench.attach(options).await;
                let volume = ubi.open_volume(0).await.expect("opened");
                let label = format!("seed {seed} round {round}");
                let mut known = model.borrow().clone();
                known.adopt(&volume, &label).await;
                model.replace(known);
                for _ in 0..300 {
                    match Model::step(&model, &volume, &mut work).await {
                        Ok(()) => {}
                        Err(UbiError::ReadOnly | UbiError::NoSpace | UbiError::Io(_)) => {
                            assert!(ubi.is_read_only() || ubi.info().bad_pebs > 3, "{label}");
                            is_ended.set(true);
                            break;
                        }
                        Err(error) => panic!("{label}: {error}"),
                    }
                }
                if !is_ended.get() {
                    let known = model.borrow().clone();
                    known.compare(&volume, &label).await;
                }
                bad.set(ubi.info().bad_pebs);
                ubi.detach();
            });
            assert!(is_done);
            for _ in 0..1000 {
                stream.next_u64();
            }
            chip = next;
            if ended.get() {
                ended_read_only += 1;
                break;
            }
        }
        assert!(bad.get() > 0, "seed {seed}: no block went bad");
    }
    assert!(ended_read_only < 4, "a reserve lasts for some time");
}

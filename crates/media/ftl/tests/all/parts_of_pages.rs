//! Layers that map parts of a page: several of them are written by one program.
//!
//! Derived from the registry: every layer whose row says that it maps parts, on each page order. `power` cuts before,
//! inside and after operations drawn at random, and again within the rebuild. `wear` lets programs and erases fail.
//! `write_amplification` compares with the closed form, which knows nothing of array pages.
//!
//! The chips keep tags alone. A copy of a page gets a higher sequence number than its source, so the newest copy of an
//! acknowledged page never has a lower number than the one that was acknowledged: an older version would.

use ftl::predicted_waf::predicted_waf;
use ftl::{CleanStep, FTLS, Ftl, FtlEntry, FtlError, Settings, Value};
use libtest_mimic::{Failed, Trial};
use nand::random::Stream;
use nand::{Chip, CutPoint, FaultSettings, NandError, PageOrder, Part, Storage};
use std::collections::BTreeMap;

const LOGICAL_PAGES: u32 = 96;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for entry in FTLS.iter().copied().filter(|entry| entry.maps_parts) {
        for order in [PageOrder::Any, PageOrder::Ascending, PageOrder::Sequential] {
            for units in [2, 4] {
                let name = format!("{} {order:?}, {units} parts", entry.name);
                trials.push(Trial::test(format!("{name}/power"), move || {
                    (0..40)
                        .try_for_each(|seed| power(entry, order, units, seed))
                        .map_err(Failed::from)
                }));
                trials.push(Trial::test(format!("{name}/wear"), move || {
                    wear(entry, order, units).map_err(Failed::from)
                }));
            }
        }
        for spare in [0.07, 0.28] {
            let name = format!("{} write amplification Sf={spare}", entry.name);
            trials.push(Trial::test(name, move || {
                write_amplification(entry, spare).map_err(Failed::from)
            }));
        }
    }
    for entry in FTLS.iter().copied().filter(|entry| !entry.maps_parts) {
        trials.push(Trial::test(format!("{} maps whole pages", entry.name), move || {
            let built = layer(entry, &part(PageOrder::Any, 4, 60), &BTreeMap::new());
            match built {
                Err(message) if message.contains("maps whole pages") => Ok(()),
                Err(message) => Err(message.into()),
                Ok(_) => Err("a chip of parts was taken".into()),
            }
        }));
    }
    trials
}

fn part(order: PageOrder, units: u32, blocks: u32) -> Part {
    let mut part = nand::find_part("published-small-block").expect("in the catalogue");
    (part.geometry.pages_per_block, part.geometry.blocks) = (8, blocks);
    part.geometry.page_order = order;
    part.geometry = part.geometry.divided(units);
    part
}

fn layer(
    entry: &FtlEntry,
    part: &Part,
    given: &BTreeMap<String, Value>,
) -> Result<Box<dyn Ftl>, String> {
    let settings = Settings::new(entry.parameters, given).map_err(|error| error.to_string())?;
    let chip = Chip::new(part, Storage::Tags, &FaultSettings::default());
    ftl::build(entry, chip, LOGICAL_PAGES, &settings).map_err(|error| error.to_string())
}

/// Sequence number of the newest copy of every page; none for pages that are nowhere.
fn newest(ftl: &dyn Ftl) -> Vec<Option<u64>> {
    let sequence = |lpn| ftl.locate(lpn).map(|at| ftl.flash().peek(at).sequence());
    (0..ftl.logical_pages()).map(sequence).collect()
}

/// Writes up to an array page of pages drawn at random, some of them twice, or cleans, or trims one.
fn step(ftl: &mut dyn Ftl, draw: &mut Stream, units: u32) -> (Vec<u32>, Result<(), FtlError>) {
    match draw.below(16) {
        0 => {
            let lpn = draw.below(LOGICAL_PAGES);
            (vec![lpn], ftl.trim(lpn))
        }
        1..4 => (Vec::new(), ftl.clean_step(4).map(|_: CleanStep| ())),
        _ => {
            let count = 1 + draw.below(units);
            let lpns: Vec<u32> = (0..count).map(|_| draw.below(LOGICAL_PAGES)).collect();
            let outcome = ftl.write_together(&lpns).map(|work| {
                assert!(work.total.counters.page_programs > 0, "a write programs");
                assert!(work.own_program_ns > 0, "its own program takes time");
            });
            (lpns, outcome)
        }
    }
}

fn power(entry: &FtlEntry, order: PageOrder, units: u32, seed: u64) -> Result<(), String> {
    let mut draw = Stream::new(seed, "power of parts");
    let given = BTreeMap::from([(
        "frontier".to_owned(),
        Value::Word(["shared", "separate", "hot-cold"][draw.below(3) as usize].into()),
    )]);
    let settings = Settings::new(entry.parameters, &given).map_err(|error| error.to_string())?;
    // As many blocks as the layer asks for, so that it cleans all the time.
    let geometry = part(order, units, 60).geometry;
    let blocks = (entry.blocks_required)(&geometry, LOGICAL_PAGES, &settings);
    let mut ftl = layer(entry, &part(order, units, blocks + 1 + draw.below(2)), &given)?;
    let mut cuts = 0;
    for number in 0..800 {
        if draw.below(8) == 0 {
            let point = [CutPoint::Before, CutPoint::Inside, CutPoint::After];
            let after = u64::from(draw.below(30));
            ftl.flash_mut().chip_mut().cut_power_after(after, point[draw.below(3) as usize]);
        }
        let before = newest(ftl.as_ref());
        let (touched, outcome) = step(ftl.as_mut(), &mut draw, units);
        match outcome {
            Ok(()) => {}
            Err(FtlError::Nand(NandError::PowerLost)) => {
                cuts += 1;
                rebuild(ftl.as_mut(), &mut draw)?;
                let after = newest(ftl.as_ref());
                for (lpn, (before, after)) in (0..).zip(before.iter().zip(&after)) {
                    let is_kept = after >= before;
                    // A trimmed page may come back, and the trim under way may have taken place.
                    if !is_kept && !touched.contains(&lpn) {
                        return Err(format!(
                            "seed {seed}, step {number}: page {lpn} had number {before:?} and has {after:?}"
                        ));
                    }
                    if touched.contains(&lpn) && before.is_some() && after.is_none() {
                        return Err(format!("seed {seed}, step {number}: page {lpn} is gone"));
                    }
                }
            }
            Err(error) => return Err(format!("seed {seed}, step {number}: {error}")),
        }
        for lpn in touched {
            match ftl.read(lpn, None) {
                Ok(()) => {}
                // The cut that was waiting for an operation.
                Err(FtlError::Nand(NandError::PowerLost)) => rebuild(ftl.as_mut(), &mut draw)?,
                Err(error) => return Err(format!("seed {seed}, page {lpn}: {error}")),
            }
        }
        ftl.audit();
    }
    if cuts < 10 { Err(format!("{cuts} cuts prove too little")) } else { Ok(()) }
}

/// Rebuilds, with up to three further cuts in between.
fn rebuild(ftl: &mut dyn Ftl, draw: &mut Stream) -> Result<(), String> {
    for attempt in 0.. {
        ftl.flash_mut().chip_mut().power_on();
        if attempt < 3 && draw.below(2) == 0 {
            let after = u64::from(draw.below(600));
            ftl.flash_mut().chip_mut().cut_power_after(after, CutPoint::Inside);
        }
        match ftl.rebuild() {
            Ok(()) => break,
            Err(FtlError::Nand(NandError::PowerLost)) => {}
            Err(error) => return Err(format!("rebuild: {error}")),
        }
    }
    ftl.flash_mut().chip_mut().power_on();
    Ok(())
}

fn wear(entry: &FtlEntry, order: PageOrder, units: u32) -> Result<(), String> {
    let given = BTreeMap::from([
        ("reserve_blocks".to_owned(), Value::Integer(8)),
        ("wear_leveling".to_owned(), Value::Word("static".into())),
        ("wear_threshold".to_owned(), Value::Integer(3)),
    ]);
    let mut ftl = layer(entry, &part(order, units, 60), &given)?;
    let faults = FaultSettings {
        seed: 3,
        program_failure_probability: 1.0e-4,
        erase_failure_probability: 1.0e-4,
        ..FaultSettings::default()
    };
    ftl.flash_mut().chip_mut().set_faults(&faults);
    let mut draw = Stream::new(7, "wear of parts");
    for number in 0..40_000 {
        let (touched, outcome) = step(ftl.as_mut(), &mut draw, units);
        outcome.map_err(|error| format!("step {number}: {error}"))?;
        for lpn in touched {
            ftl.read(lpn, None).map_err(|error| format!("step {number}, page {lpn}: {error}"))?;
        }
    }
    ftl.audit();
    let (retired, leveled) = (ftl.flash().retired_blocks, ftl.flash().leveled_blocks);
    if retired == 0 || leveled == 0 {
        return Err(format!("{retired} blocks went bad and {leveled} were exchanged: too few"));
    }
    Ok(())
}

/// Uniform random writes of whole array pages: as many programs for each page of the host as theory says.
fn write_amplification(entry: &FtlEntry, spare: f64) -> Result<(), String> {
    const UNITS: u32 = 4;
    let mut part = part(PageOrder::Ascending, 1, 500);
    part.geometry.pages_per_block = 256;
    part.geometry = part.geometry.divided(UNITS);
    let pages = part.geometry.pages();
    let logical_pages = pages - (f64::from(pages) * spare).round() as u32;
    let settings = Settings::new(entry.parameters, &BTreeMap::new()).expect("defaults");
    let expected = predicted_waf(entry, &part.geometry, logical_pages, &settings)
        .ok_or("no closed form for the defaults")?;
    let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    let mut ftl = ftl::build(entry, chip, logical_pages, &settings).expect("a large enough chip");
    let mut stream = Stream::new(1, "uniform writes of parts");
    ftl.write_pages(0..logical_pages).expect("a healthy chip");
    let mut write = |programs: u32| {
        let before = ftl.flash().chip().counters().page_programs;
        for _ in 0..programs {
            let lpns = [(); UNITS as usize].map(|()| stream.below(logical_pages));
            ftl.write_together(&lpns).expect("a healthy chip");
        }
        ftl.flash().chip().counters().page_programs - before
    };
    write(6 * logical_pages / UNITS);
    let host = 4 * logical_pages / UNITS;
    let measured = write(host) as f64 / f64::from(host);
    let error = measured / expected - 1.0;
    // Above theory by the padding after the last copies of a block: one and a half parts of 1,024 on average, which
    // are taken from the spare pages.
    if (-0.01..=0.05).contains(&error) {
        Ok(())
    } else {
        Err(format!("measured {measured:.3}, expected {expected:.3}"))
    }
}

//! Requests of several pages, for layers to which the size of a request matters.
//!
//! Derived from the registry: every layer, on each page order, gets long and short requests in turns, plain ones and
//! measured ones, while the power fails at random operations and again within the rebuild.
//!
//! The chips keep tags alone. A copy of a page gets a higher sequence number than its source, so the newest copy of an
//! acknowledged page never has a lower number than the one that was acknowledged: an older version would.

use crate::support::small_part;
use ftl::{FTLS, Ftl, FtlEntry, FtlError, PageWork, Settings, Value};
use libtest_mimic::{Failed, Trial};
use nand::random::Stream;
use nand::{Chip, CutPoint, FaultSettings, NandError, PageOrder, Storage};
use std::collections::BTreeMap;
use std::ops::Range;

const LOGICAL_PAGES: u32 = 44;
const PAGES_PER_BLOCK: u32 = 4;
const STEPS: u32 = 500;
const SEEDS: u64 = 12;
const CUT_POINTS: [CutPoint; 3] = [CutPoint::Before, CutPoint::Inside, CutPoint::After];

/// Settings that make long and short requests meet, where a layer has them: few log blocks, and a low threshold.
const TIGHT: &[(&str, i64)] =
    &[("log_blocks", 4), ("sequential_request_pages", 3), ("data_blocks", 3)];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for entry in FTLS.iter().copied() {
        for order in [PageOrder::Any, PageOrder::Ascending, PageOrder::Sequential] {
            let name = format!("{} {order:?} requests", entry.name);
            trials.push(Trial::test(name, move || {
                (0..SEEDS).try_for_each(|seed| live(entry, order, seed)).map_err(Failed::from)
            }));
        }
    }
    trials
}

fn layer(entry: &FtlEntry, order: PageOrder, seed: u64) -> Result<Box<dyn Ftl>, String> {
    let known = |name: &str| entry.parameters.iter().any(|parameter| parameter.name == name);
    let tight = TIGHT.iter().filter(|(name, _)| known(name));
    let given: BTreeMap<String, Value> =
        tight.map(|(name, number)| ((*name).to_owned(), Value::Integer(*number))).collect();
    let settings = Settings::new(entry.parameters, &given).map_err(|error| error.to_string())?;
    let mut part = small_part(PAGES_PER_BLOCK, 4096);
    part.geometry.page_order = order;
    // As many blocks as the layer asks for, or a few more.
    part.geometry.blocks =
        (entry.blocks_required)(&part.geometry, LOGICAL_PAGES, &settings) + (seed % 3) as u32;
    let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    ftl::build(entry, chip, LOGICAL_PAGES, &settings).map_err(|error| error.to_string())
}

/// Sequence number of the newest copy of every page; none for pages that are nowhere.
fn newest(ftl: &dyn Ftl) -> Vec<Option<u64>> {
    let sequence = |lpn| ftl.locate(lpn).map(|at| ftl.flash().peek(at).sequence());
    (0..ftl.logical_pages()).map(sequence).collect()
}

/// A request: long or short, at the beginning of a block, after the last one, or anywhere.
fn request(draw: &mut Stream, last_end: u32) -> Range<u32> {
    let first = match draw.below(4) {
        0 => draw.below(LOGICAL_PAGES / PAGES_PER_BLOCK) * PAGES_PER_BLOCK,
        1 => draw.below(LOGICAL_PAGES),
        _ => last_end % LOGICAL_PAGES,
    };
    let count = if draw.below(2) == 0 { 1 + draw.below(2) } else { 3 + draw.below(9) };
    first..LOGICAL_PAGES.min(first + count)
}

fn perform(ftl: &mut dyn Ftl, pages: &Range<u32>, kind: u32) -> Result<(), FtlError> {
    match kind {
        0 => ftl.trim_pages(pages.clone()),
        1..8 => ftl.write_pages(pages.clone()),
        _ => {
            let mut work = vec![PageWork::default(); pages.len()];
            ftl.write_measured(pages.start, &mut work)?;
            assert!(work.iter().all(|page| page.own_program_ns > 0), "each page is programmed");
            Ok(())
        }
    }
}

fn live(entry: &FtlEntry, order: PageOrder, seed: u64) -> Result<(), String> {
    let mut draw = Stream::new(seed, "requests");
    let mut ftl = layer(entry, order, seed)?;
    let mut trimmed = vec![false; LOGICAL_PAGES as usize];
    let (mut last_end, mut cuts) = (0, 0);
    for number in 0..STEPS {
        let place = |error: String| format!("seed {seed}, request {number}: {error}");
        let pages = request(&mut draw, last_end);
        last_end = pages.end;
        let kind = draw.below(16);
        if draw.below(6) == 0 {
            let after = u64::from(draw.below(30));
            let point = CUT_POINTS[draw.below(3) as usize];
            ftl.flash_mut().chip_mut().cut_power_after(after, point);
        }
        let before = newest(ftl.as_ref());
        let trims = kind == 0;
        match perform(ftl.as_mut(), &pages, kind) {
            Ok(()) => {
                pages.for_each(|lpn| trimmed[lpn as usize] = trims);
            }
            Err(FtlError::Nand(NandError::PowerLost)) => {
                cuts += 1;
                rebuild(ftl.as_mut(), &mut draw).map_err(place)?;
                for (lpn, (before, after)) in (0..).zip(before.iter().zip(newest(ftl.as_ref()))) {
                    let is_under_trim = trims && pages.contains(&lpn);
                    // A trimmed page may come back, and what is found of one holds from now on.
                    if after < *before && !is_under_trim && !trimmed[lpn as usize] {
                        return Err(place(format!(
                            "page {lpn} had number {before:?} and has {after:?}"
                        )));
                    }
                    trimmed[lpn as usize] |= is_under_trim;
                }
            }
            Err(error) => return Err(place(error.to_string())),
        }
        if number % 25 == 0 {
            ftl.flash_mut().chip_mut().power_on();
            ftl.audit();
            for lpn in 0..LOGICAL_PAGES {
                ftl.read(lpn, None).map_err(|error| place(format!("page {lpn}: {error}")))?;
            }
        }
    }
    if cuts > STEPS / 20 { Ok(()) } else { Err(format!("only {cuts} cuts")) }
}

/// Rebuilds, cutting the power at most three times more.
fn rebuild(ftl: &mut dyn Ftl, draw: &mut Stream) -> Result<(), String> {
    for attempt in 0..4 {
        ftl.flash_mut().chip_mut().power_on();
        if attempt < 3 && draw.below(2) == 0 {
            let geometry = ftl.flash().geometry();
            let after = u64::from(geometry.pages() + draw.below(3 * geometry.pages_per_block));
            ftl.flash_mut().chip_mut().cut_power_after(after, CUT_POINTS[draw.below(3) as usize]);
        }
        match ftl.rebuild() {
            Ok(()) => break,
            Err(FtlError::Nand(NandError::PowerLost)) => {}
            Err(error) => return Err(format!("rebuild {attempt}: {error}")),
        }
    }
    ftl.flash_mut().chip_mut().power_on();
    Ok(())
}

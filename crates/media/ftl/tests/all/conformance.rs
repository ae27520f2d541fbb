//! What every translation layer must keep, derived from the registry: each layer with its defaults
//! and with every other value of each of its switches and choices.
//!
//! `model`: random writes, reads and trims with stored data while blocks go bad, against a table of
//! versions. `power`: a cut before, inside and after every chip operation of a run, and within the
//! rebuild that follows; no acknowledged write may be lost.

use crate::support;

use ftl::{COMMON_PARAMETERS, FTLS, Ftl, FtlEntry, FtlError, Kind, Settings, Value};
use libtest_mimic::{Failed, Trial};
use nand::random::Stream;
use nand::{CutPoint, FaultSettings, NandError};
use std::collections::BTreeMap;
use support::{PAGE_BYTES, build, is_long, page_bytes, small_part, version_of};

type Given = BTreeMap<String, Value>;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for entry in FTLS.iter().copied() {
        for (variant, given) in variants(entry) {
            let default = given.is_empty();
            let operations = if default { 1_000_000 } else { 100_000 };
            // Each chip operation is cut in three ways, which takes two to four minutes with the larger numbers.
            let writes = match (default, is_long()) {
                (true, true) => 2_000,
                (true, false) => 500,
                (false, true) => 300,
                (false, false) => 150,
            };
            let model = given.clone();
            trials.push(Trial::test(format!("{}/model{variant}", entry.name), move || {
                model_run(entry, &model, operations).map_err(Failed::from)
            }));
            trials.push(Trial::test(format!("{}/power{variant}", entry.name), move || {
                power_run(entry, &given, writes).map_err(Failed::from)
            }));
        }
    }
    trials
}

/// The defaults, and every other value of each switch and choice, one at a time.
fn variants(entry: &FtlEntry) -> Vec<(String, Given)> {
    let mut variants = vec![(String::new(), Given::new())];
    for parameter in entry.parameters.iter().chain(COMMON_PARAMETERS) {
        let values: Vec<Value> = match parameter.kind {
            Kind::Choice(words) | Kind::Policy { names: words, .. } => {
                words.iter().map(|word| Value::Word((*word).to_owned())).collect()
            }
            Kind::Switch => vec![Value::Switch(true), Value::Switch(false)],
            Kind::Integer { .. } => continue,
        };
        for value in values.into_iter().filter(|value| *value != Value::from(parameter.default)) {
            let mut given = Given::from([(parameter.name.to_owned(), value.clone())]);
            if parameter.name == "wear_leveling" {
                given.insert("wear_threshold".into(), Value::Integer(3));
            }
            variants.push((format!(" {}={value}", parameter.name), given));
        }
    }
    variants
}

/// Few log blocks, so that merges of every kind happen within a short run.
fn tight(entry: &FtlEntry, given: &Given) -> Given {
    let mut given = given.clone();
    if entry.parameters.iter().any(|parameter| parameter.name == "log_blocks") {
        given.insert("log_blocks".into(), Value::Integer(4));
    }
    given
}

fn model_run(entry: &FtlEntry, given: &Given, operations: u32) -> Result<(), String> {
    const LOGICAL_PAGES: u32 = 200;
    let part = small_part(8, 120);
    let mut given = tight(entry, given);
    // Some ten blocks will go bad.
    given.insert("reserve_blocks".into(), Value::Integer(40));
    let mut ftl = build(entry, &part, LOGICAL_PAGES, &given)?;
    let faults = FaultSettings {
        seed: 1,
        program_failure_probability: 3.0 / f64::from(operations),
        erase_failure_probability: 6.0 / f64::from(operations),
        ..FaultSettings::default()
    };
    ftl.flash_mut().chip_mut().set_faults(&faults);
    let mut draw = Stream::new(1, "model");
    let mut versions = vec![0_u32; LOGICAL_PAGES as usize];
    let mut run_left = 0;
    let mut lpn = 0;
    for number in 1..=operations {
        // Runs of consecutive pages exercise switch and partial merges.
        if run_left == 0 {
            lpn = draw.below(LOGICAL_PAGES);
            run_left = if draw.below(4) == 0 { draw.below(24) } else { 0 };
        } else {
            run_left -= 1;
            lpn = (lpn + 1) % LOGICAL_PAGES;
        }
        let outcome = match draw.below(20) {
            0 => {
                versions[lpn as usize] = 0;
                ftl.trim(lpn)
            }
            1..=6 => check_read(ftl.as_mut(), lpn, versions[lpn as usize])?,
            _ => {
                versions[lpn as usize] = number;
                ftl.write(lpn, Some(&page_bytes(lpn, number)))
            }
        };
        outcome.map_err(|error| format!("operation {number}, page {lpn}: {error}"))?;
    }
    for lpn in 0..LOGICAL_PAGES {
        check_read(ftl.as_mut(), lpn, versions[lpn as usize])?
            .map_err(|error| error.to_string())?;
    }
    let retired = ftl.flash().retired_blocks;
    if retired == 0 { Err("no block went bad: the run proves too little".into()) } else { Ok(()) }
}

fn check_read(ftl: &mut dyn Ftl, lpn: u32, version: u32) -> Result<Result<(), FtlError>, String> {
    let mut bytes = [0xaa; PAGE_BYTES];
    let outcome = ftl.read(lpn, Some(&mut bytes));
    if outcome.is_ok() && bytes != page_bytes(lpn, version) {
        return Err(format!(
            "page {lpn} holds {:?}, not version {version}",
            version_of(lpn, &bytes)
        ));
    }
    Ok(outcome)
}

/// What the host expects of its pages.
#[derive(Clone)]
struct Host {
    /// Version written last, or zero after a trim.
    versions: Vec<u32>,
    /// True if the page was trimmed since its last write.
    trimmed: Vec<bool>,
}

impl Host {
    /// After a cut: written pages hold their version, trimmed ones zeros or data they once held,
    /// the page under way the old or the new version.
    fn check(&self, ftl: &mut dyn Ftl, under_way: Option<(u32, u32)>) -> Result<(), String> {
        let mut bytes = [0; PAGE_BYTES];
        for (lpn, version) in (0..).zip(&self.versions) {
            ftl.read(lpn, Some(&mut bytes)).map_err(|error| format!("page {lpn}: {error}"))?;
            let found = version_of(lpn, &bytes)
                .ok_or_else(|| format!("page {lpn} holds another page's data"))?;
            let new = under_way.is_some_and(|(page, new)| page == lpn && new == found);
            if found != *version && !self.trimmed[lpn as usize] && !new {
                return Err(format!("page {lpn} holds version {found}, not {version}"));
            }
        }
        Ok(())
    }
}

fn power_run(entry: &FtlEntry, given: &Given, writes: u32) -> Result<(), String> {
    const LOGICAL_PAGES: u32 = 96;
    let given = tight(entry, given);
    // Just enough blocks, so that page-mapped layers clean all the time.
    let settings = Settings::new(entry.parameters, &given).map_err(|error| error.to_string())?;
    let blocks = (entry.blocks_required)(&small_part(8, 48).geometry, LOGICAL_PAGES, &settings);
    let mut ftl = build(entry, &small_part(8, blocks), LOGICAL_PAGES, &given)?;
    let mut host = Host {
        versions: vec![0; LOGICAL_PAGES as usize],
        trimmed: vec![false; LOGICAL_PAGES as usize],
    };
    let mut draw = Stream::new(2, "power");
    let (mut cases, mut rebuilds_cut) = (0_u32, 0);
    let rebuilds_cut_min = if is_long() { 100 } else { 30 };
    let mut lpn = 0;
    for number in 1..=writes {
        lpn =
            if draw.below(3) == 0 { draw.below(LOGICAL_PAGES) } else { (lpn + 1) % LOGICAL_PAGES };
        let trims = draw.below(25) == 0;
        let perform = |ftl: &mut dyn Ftl| {
            if trims { ftl.trim(lpn) } else { ftl.write(lpn, Some(&page_bytes(lpn, number))) }
        };
        let before = ftl.clone_box();
        perform(ftl.as_mut()).map_err(|error| format!("write {number}: {error}"))?;
        if trims {
            host.trimmed[lpn as usize] = true;
        }
        let operations = operation_count(ftl.as_ref()) - operation_count(before.as_ref());
        for operation in 0..operations {
            for point in [CutPoint::Before, CutPoint::Inside, CutPoint::After] {
                let place = || {
                    format!(
                        "write {number} (page {lpn}), operation {operation} of {operations}, cut {point:?}"
                    )
                };
                let mut cut = before.clone_box();
                cut.flash_mut().chip_mut().cut_power_after(operation, point);
                if perform(cut.as_mut()) != Err(FtlError::Nand(NandError::PowerLost)) {
                    return Err(format!("{}: the cut went unnoticed", place()));
                }
                cut.flash_mut().chip_mut().power_on();
                cases += 1;
                // Cases that are evenly spread over the run are cut again while they rebuild. A quarter
                // more are drawn than must be there: some numbers fall on trims that cost no operation.
                let stride = (writes / (rebuilds_cut_min * 5 / 4)).max(1);
                if number % stride == 0 && operation == operations / 2 && point == CutPoint::Inside
                {
                    rebuilds_cut += 1;
                    cut_rebuild(cut.as_ref(), &host, (lpn, number))
                        .map_err(|error| format!("{}: {error}", place()))?;
                }
                recover(cut, &host, (lpn, number))
                    .map_err(|error| format!("{}: {error}", place()))?;
            }
        }
        if !trims {
            host.versions[lpn as usize] = number;
            host.trimmed[lpn as usize] = false;
        }
    }
    if cases < writes * 3 || rebuilds_cut < rebuilds_cut_min {
        return Err(format!(
            "only {cases} cuts in {writes} writes, {rebuilds_cut} of them cut again"
        ));
    }
    Ok(())
}

/// Rebuilds, checks all pages, goes on writing and checks again.
fn recover(mut ftl: Box<dyn Ftl>, host: &Host, under_way: (u32, u32)) -> Result<(), String> {
    ftl.rebuild().map_err(|error| format!("rebuild: {error}"))?;
    host.check(ftl.as_mut(), Some(under_way))?;
    let mut host = host.clone();
    host.trimmed[under_way.0 as usize] = true;
    for step in 0..12 {
        let lpn = (under_way.0 + step * 7) % host.versions.len() as u32;
        let version = 1_000_000 + step;
        ftl.write(lpn, Some(&page_bytes(lpn, version)))
            .map_err(|error| format!("write after rebuild: {error}"))?;
        host.versions[lpn as usize] = version;
        host.trimmed[lpn as usize] = false;
    }
    host.check(ftl.as_mut(), None)
        .map_err(|error| format!("after rebuild and more writes: {error}"))
}

/// Cuts the rebuild before, inside and after each of its operations, and rebuilds again.
fn cut_rebuild(ftl: &dyn Ftl, host: &Host, under_way: (u32, u32)) -> Result<(), String> {
    let mut whole = ftl.clone_box();
    whole.rebuild().map_err(|error| format!("rebuild: {error}"))?;
    for operation in 0..operation_count(whole.as_ref()) - operation_count(ftl) {
        for point in [CutPoint::Before, CutPoint::Inside, CutPoint::After] {
            let mut cut = ftl.clone_box();
            cut.flash_mut().chip_mut().cut_power_after(operation, point);
            if cut.rebuild() != Err(FtlError::Nand(NandError::PowerLost)) {
                return Err(format!(
                    "operation {operation} of the rebuild: the cut went unnoticed"
                ));
            }
            cut.flash_mut().chip_mut().power_on();
            recover(cut, host, under_way).map_err(|error| {
                format!("operation {operation} of the rebuild, {point:?}: {error}")
            })?;
        }
    }
    Ok(())
}

fn operation_count(ftl: &dyn Ftl) -> u64 {
    let counters = ftl.flash().chip().counters();
    counters.reads() + counters.programs() + counters.erases
}

//! Wear: levelling does level, the device lives no longer than its cells, and bad blocks are
//! replaced as long as there are spare ones.

use crate::support;

use ftl::{FTLS, Ftl, FtlEntry, FtlError, Value};
use libtest_mimic::{Failed, Trial};
use nand::FaultSettings;
use nand::random::Stream;
use std::collections::BTreeMap;
use support::{PAGE_BYTES, build, page_bytes, small_part, version_of};

const PAGES_PER_BLOCK: u32 = 8;
const LOGICAL_PAGES: u32 = 256;

type Given = BTreeMap<String, Value>;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for entry in FTLS.iter().copied() {
        let mut add = |what: &str, test: fn(&FtlEntry) -> Result<(), String>| {
            trials.push(Trial::test(format!("{}/{what}", entry.name), move || {
                test(entry).map_err(Failed::from)
            }));
        };
        add("levelling", levelling);
        add("counters_at_zero", counters_at_zero);
        add("lifetime", lifetime);
        add("replacement", replacement);
    }
    trials
}

fn settings_of(entry: &FtlEntry, pairs: &[(&str, &str)]) -> Given {
    let mut given: Given =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    if entry.parameters.iter().any(|parameter| parameter.name == "log_blocks") {
        given.insert("log_blocks".into(), Value::Integer(4));
    }
    given
}

/// Fills the device, then writes nine times in ten to a tenth of the pages and never to the last
/// half, which is cold for good.
fn hot_cold(ftl: &mut dyn Ftl, writes: u32) -> Result<(), FtlError> {
    let mut draw = Stream::new(3, "hot and cold");
    for number in 0..LOGICAL_PAGES + writes {
        let lpn = if number < LOGICAL_PAGES {
            number
        } else if draw.below(10) > 0 {
            draw.below(LOGICAL_PAGES / 10)
        } else {
            draw.below(LOGICAL_PAGES / 2)
        };
        ftl.write(lpn, Some(&page_bytes(lpn, number + 1)))?;
    }
    Ok(())
}

/// Standard deviation of the erase counts, the largest count, and blocks moved.
struct Spread {
    deviation: f64,
    max: u32,
    leveled_blocks: u64,
}

fn spread(entry: &FtlEntry, leveling: &str) -> Result<Spread, String> {
    let given = settings_of(entry, &[("wear_leveling", leveling), ("wear_threshold", "8")]);
    let mut ftl = build(entry, &small_part(PAGES_PER_BLOCK, 80), LOGICAL_PAGES, &given)?;
    hot_cold(ftl.as_mut(), 40_000).map_err(|error| error.to_string())?;
    let counts = ftl.flash().chip().erase_counts();
    let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / counts.len() as f64;
    let squares: f64 = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum();
    Ok(Spread {
        deviation: (squares / counts.len() as f64).sqrt() / mean,
        max: *counts.iter().max().expect("blocks"),
        leveled_blocks: ftl.flash().leveled_blocks,
    })
}

/// Relative deviations: dynamic levelling is no worse than none, static levelling moves cold blocks
/// and brings the deviation below a tenth of the mean.
///
/// In chains of in-place blocks, cold data ends up on the least-worn blocks, and dynamic levelling
/// alone never takes them back: there the deviation may grow.
fn levelling(entry: &FtlEntry) -> Result<(), String> {
    let [none, dynamic, with_static] =
        [spread(entry, "none")?, spread(entry, "dynamic")?, spread(entry, "static")?];
    let shown = format!(
        "deviation {:.3} {:.3} {:.3}, largest {} {} {}, moved {}",
        none.deviation,
        dynamic.deviation,
        with_static.deviation,
        none.max,
        dynamic.max,
        with_static.max,
        with_static.leveled_blocks
    );
    let dynamic_growth_max = if entry.name == "m-systems-anand" { 1.8 } else { 1.02 };
    let levels = none.leveled_blocks == 0
        && dynamic.leveled_blocks == 0
        && dynamic.deviation <= none.deviation * dynamic_growth_max
        && with_static.leveled_blocks > 0
        && with_static.deviation < none.deviation / 2.0
        && with_static.deviation < 0.1
        && with_static.max < none.max;
    if levels { Ok(()) } else { Err(shown) }
}

/// Setting the counters to zero, as before a measurement, changes no decision: the same pages lie at
/// the same places, and the same blocks are exchanged.
fn counters_at_zero(entry: &FtlEntry) -> Result<(), String> {
    let has_policies = entry.parameters.iter().any(|parameter| parameter.name == "cleaning");
    for leveling in ["none", "dynamic", "static"] {
        for policy in if has_policies { &["greedy", "cat"][..] } else { &["greedy"] } {
            let mut pairs = vec![("wear_leveling", leveling), ("wear_threshold", "8")];
            if has_policies {
                pairs.push(("cleaning", *policy));
            }
            let given = settings_of(entry, &pairs);
            let mut ftl = build(entry, &small_part(PAGES_PER_BLOCK, 80), LOGICAL_PAGES, &given)?;
            hot_cold(ftl.as_mut(), 6_000).map_err(|error| error.to_string())?;
            let mut other = ftl.clone_box();
            other.flash_mut().chip_mut().reset_counters();
            for ftl in [&mut ftl, &mut other] {
                hot_cold(ftl.as_mut(), 6_000).map_err(|error| error.to_string())?;
            }
            let (flash, other) = (ftl.flash(), other.flash());
            let places = |flash: &ftl::Flash| -> Vec<Vec<u32>> {
                let blocks = 0..flash.geometry().blocks;
                blocks.map(|block| flash.chip().peek_lpns(block).collect()).collect()
            };
            let cycles = |flash: &ftl::Flash| -> Vec<u32> {
                let blocks = 0..flash.geometry().blocks;
                blocks.map(|block| flash.chip().erase_cycles(block)).collect()
            };
            if flash.leveled_blocks != other.leveled_blocks
                || cycles(flash) != cycles(other)
                || places(flash) != places(other)
            {
                return Err(format!(
                    "{leveling}, {policy}: {} and {} blocks moved",
                    flash.leveled_blocks, other.leveled_blocks
                ));
            }
        }
    }
    Ok(())
}

/// With cells that die at exactly their rated number of cycles and no spare block, the host writes
/// at most capacity x (physical / logical) x cycles / write amplification before the first failure.
fn lifetime(entry: &FtlEntry) -> Result<(), String> {
    const CYCLES: u32 = 60;
    let mut reached = Vec::new();
    for leveling in ["none", "static"] {
        let mut part = small_part(PAGES_PER_BLOCK, 80);
        part.errors.erase_cycles_max = CYCLES;
        part.errors.erase_cycles_spread_percent = 0.0;
        let given = settings_of(entry, &[("wear_leveling", leveling), ("wear_threshold", "4")]);
        let mut ftl = build(entry, &part, LOGICAL_PAGES, &given)?;
        let mut draw = Stream::new(4, "lifetime");
        let mut written = 0_u64;
        // The first block that reaches its rating ends the life of the device.
        while ftl.flash().chip().erase_counts().iter().all(|count| *count < CYCLES) {
            let lpn = if draw.below(10) > 0 {
                draw.below(LOGICAL_PAGES / 10)
            } else {
                draw.below(LOGICAL_PAGES)
            };
            ftl.write(lpn, None).map_err(|error| error.to_string())?;
            written += 1;
        }
        let geometry = ftl.flash().geometry();
        let amplification = ftl.flash().chip().counters().programs() as f64 / written as f64;
        let physical = f64::from(geometry.pages());
        // Pages programmed since the last erase of their block are one partly used cycle more.
        let bound = physical * f64::from(CYCLES + 1) / amplification;
        if written as f64 > bound {
            return Err(format!(
                "{leveling}: {written} pages written, more than {bound:.0} can be"
            ));
        }
        reached.push(written as f64 / bound);
    }
    // Levelled, the life comes near the bound as far as blocks are erased full.
    if reached[1] > reached[0] {
        Ok(())
    } else {
        Err(format!("static levelling shortens life: {reached:?}"))
    }
}

/// Programs and erases fail until the spare blocks are used up; then writes are refused, but what
/// was acknowledged can be read to the end.
fn replacement(entry: &FtlEntry) -> Result<(), String> {
    const RESERVE_BLOCKS: u32 = 12;
    for (program_failures, erase_failures) in [(0.002, 0.0), (0.0, 0.01), (0.001, 0.005)] {
        let given = settings_of(entry, &[("reserve_blocks", &RESERVE_BLOCKS.to_string())]);
        let settings =
            ftl::Settings::new(entry.parameters, &given).map_err(|error| error.to_string())?;
        let mut part = small_part(PAGES_PER_BLOCK, 4096);
        part.geometry.blocks =
            (entry.blocks_required)(&part.geometry, LOGICAL_PAGES, &settings) + RESERVE_BLOCKS;
        let mut ftl = build(entry, &part, LOGICAL_PAGES, &given)?;
        ftl.flash_mut().chip_mut().set_faults(&FaultSettings {
            seed: 5,
            program_failure_probability: program_failures,
            erase_failure_probability: erase_failures,
            ..FaultSettings::default()
        });
        let mut versions = vec![0; LOGICAL_PAGES as usize];
        let mut draw = Stream::new(6, "replacement");
        let mut refused = None;
        for number in 1..200_000 {
            let lpn = draw.below(LOGICAL_PAGES);
            match ftl.write(lpn, Some(&page_bytes(lpn, number))) {
                Ok(()) => versions[lpn as usize] = number,
                Err(FtlError::NoFreeBlock) => {
                    refused = Some((lpn, number));
                    break;
                }
                Err(error) => return Err(format!("write {number}: {error}")),
            }
        }
        let under_way = refused.ok_or("the device never came to its end")?;
        let retired = ftl.flash().retired_blocks;
        if retired < RESERVE_BLOCKS {
            return Err(format!("the end came after {retired} bad blocks, with spare ones left"));
        }
        check_all(ftl.as_mut(), &versions, under_way).map_err(|error| {
            format!("failure rates {program_failures} and {erase_failures}, {retired} bad blocks: {error}")
        })?;
    }
    Ok(())
}

/// Every page holds its version; the page of the refused write may hold either.
fn check_all(ftl: &mut dyn Ftl, versions: &[u32], under_way: (u32, u32)) -> Result<(), String> {
    for (lpn, version) in (0..).zip(versions) {
        let mut bytes = [0xaa; PAGE_BYTES];
        match ftl.read(lpn, Some(&mut bytes)) {
            Ok(()) => {}
            // A read of a layer with a map on flash may have to write.
            Err(FtlError::NoFreeBlock) => continue,
            Err(error) => return Err(format!("page {lpn}: {error}")),
        }
        let found = version_of(lpn, &bytes)
            .ok_or_else(|| format!("page {lpn} holds another page's data"))?;
        if found != *version && under_way != (lpn, found) {
            return Err(format!("page {lpn} holds version {found}, not {version}"));
        }
    }
    Ok(())
}

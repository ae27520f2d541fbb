//! Write amplification under uniform random writes against theory.
//!
//! One shared frontier, four times the logical pages written and measured after six times, mean of some seeds: three on
//! chips of 4,000 blocks, ten on chips of 100, where the blocks that hold no data count. Sf is the spare factor: spare
//! pages / physical pages.
//!
//! The oracles are the closed forms of `ftl::predicted_waf`, which know nothing of the simulation; its own tests
//! compare them with published values.

use ftl::predicted_waf::predicted_waf;
use ftl::{FtlEntry, Settings, Value, find_ftl};
use libtest_mimic::{Failed, Trial};
use nand::random::Stream;
use nand::{Chip, FaultSettings, Part, Storage, find_part};
use std::collections::BTreeMap;

const SPARE_FACTORS: [f64; 5] = [0.07, 0.125, 0.20, 0.28, 0.50];

/// Policy, blocks it draws, and how far the mean may be off.
const POLICIES: [(&str, u32, f64); 6] = [
    ("greedy", 0, 0.01),
    ("fifo", 0, 0.01),
    ("random", 1, 0.015),
    ("d-choices", 2, 0.015),
    ("d-choices", 5, 0.015),
    ("d-choices", 10, 0.015),
];

#[derive(Clone, Copy)]
struct Case {
    blocks: u32,
    pages_per_block: u32,
    spare: f64,
    policy: &'static str,
    choices: u32,
    seeds: u32,
    tolerance: f64,
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (policy, choices, tolerance) in POLICIES {
        for pages_per_block in [32, 64] {
            for spare in SPARE_FACTORS {
                let case = Case {
                    blocks: 4_000,
                    pages_per_block,
                    spare,
                    policy,
                    choices,
                    seeds: 3,
                    tolerance,
                };
                let name = format!("{policy} {choices} N={pages_per_block} Sf={spare}");
                trials.push(Trial::test(name, move || compare(case).map_err(Failed::from)));
            }
        }
        for spare in [0.07, 0.28] {
            let case = Case {
                blocks: 100,
                pages_per_block: 64,
                spare,
                policy,
                choices,
                seeds: 10,
                tolerance: 0.025,
            };
            let name = format!("{policy} {choices} on 100 blocks Sf={spare}");
            trials.push(Trial::test(name, move || compare(case).map_err(Failed::from)));
        }
    }
    trials
}

fn compare(case: Case) -> Result<(), String> {
    let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
    part.geometry.pages_per_block = case.pages_per_block;
    part.geometry.blocks = case.blocks;
    let pages = part.geometry.pages();
    let logical_pages = pages - (f64::from(pages) * case.spare).round() as u32;
    let entry = find_ftl("page").expect("in the table");
    let settings = |seed: u32| {
        let given = BTreeMap::from([
            ("cleaning".to_owned(), Value::Word(case.policy.to_owned())),
            ("choices".to_owned(), Value::Integer(i64::from(case.choices.max(1)))),
            ("cleaning_seed".to_owned(), Value::Integer(i64::from(seed))),
        ]);
        Settings::new(entry.parameters, &given).expect("known settings")
    };
    let expected = predicted_waf(entry, &part.geometry, logical_pages, &settings(1))
        .ok_or("no closed form for these settings")?;
    let measured = (1..=case.seeds)
        .map(|seed| simulate(entry, &part, logical_pages, &settings(seed), seed))
        .sum::<f64>()
        / f64::from(case.seeds);
    let error = measured / expected - 1.0;
    if error.abs() <= case.tolerance {
        return Ok(());
    }
    Err(format!("measured {measured:.3}, expected {expected:.3}: off by {:.2} %", 100.0 * error))
}

fn simulate(
    entry: &FtlEntry,
    part: &Part,
    logical_pages: u32,
    settings: &Settings,
    seed: u32,
) -> f64 {
    let chip = Chip::new(part, Storage::Tags, &FaultSettings::default());
    let mut ftl = ftl::build(entry, chip, logical_pages, settings).expect("a large enough chip");
    let mut stream = Stream::new(u64::from(seed), "uniform writes");
    ftl.write_pages(0..logical_pages).expect("a healthy chip");
    for _ in 0..6 * logical_pages {
        ftl.write(stream.below(logical_pages), None).expect("a healthy chip");
    }
    let before = ftl.flash().chip().counters().page_programs;
    for _ in 0..4 * logical_pages {
        ftl.write(stream.below(logical_pages), None).expect("a healthy chip");
    }
    let programs = ftl.flash().chip().counters().page_programs - before;
    programs as f64 / f64::from(4 * logical_pages)
}

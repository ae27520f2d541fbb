//! Write amplification under uniform random writes against theory.
//!
//! 4,000 blocks, one shared frontier, four times the logical pages written and measured after six
//! times, mean of three seeds. Sf is the spare factor: spare pages / physical pages.
//!
//! Oracles, each computed here and none taken from the simulation:
//! greedy and FIFO in their closed forms (Bux and Iliadis 2010; Desnoyers 2014), random 1 / Sf, and
//! d-choices by the mean-field balance of Van Houdt (2013): with X the share of blocks that hold at
//! least i valid pages, as many blocks leave the states >= i by invalidation as enter them by
//! writes and do not leave by cleaning, c i x = 1 - X^d.

use ftl::{Settings, Value, find_ftl};
use libtest_mimic::{Failed, Trial};
use nand::random::Stream;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::collections::BTreeMap;

const BLOCKS: u32 = 4_000;
const SPARE_FACTORS: [f64; 5] = [0.07, 0.125, 0.20, 0.28, 0.50];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for pages_per_block in [32, 64] {
        for spare in SPARE_FACTORS {
            for (policy, choices, tolerance) in [
                ("greedy", 0, 0.01),
                ("fifo", 0, 0.01),
                ("random", 1, 0.015),
                ("d-choices", 2, 0.015),
                ("d-choices", 5, 0.015),
                ("d-choices", 10, 0.015),
            ] {
                let name = format!("{policy} {choices} N={pages_per_block} Sf={spare}");
                trials.push(Trial::test(name, move || {
                    compare(pages_per_block, spare, policy, choices, tolerance)
                        .map_err(Failed::from)
                }));
            }
        }
    }
    trials.push(Trial::test("the oracles agree with the published table", || {
        oracles().map_err(Failed::from)
    }));
    trials
}

fn compare(
    pages_per_block: u32,
    spare: f64,
    policy: &str,
    choices: u32,
    tolerance: f64,
) -> Result<(), String> {
    let expected = match policy {
        "greedy" => greedy(pages_per_block, 1.0 - spare),
        "fifo" => fifo(1.0 - spare),
        _ => d_choices(pages_per_block, 1.0 - spare, choices),
    };
    let measured: f64 =
        (1..=3).map(|seed| simulate(pages_per_block, spare, policy, choices, seed)).sum::<f64>()
            / 3.0;
    let error = measured / expected - 1.0;
    if error.abs() <= tolerance {
        return Ok(());
    }
    Err(format!("measured {measured:.3}, expected {expected:.3}: off by {:.2} %", 100.0 * error))
}

fn simulate(pages_per_block: u32, spare: f64, policy: &str, choices: u32, seed: u32) -> f64 {
    let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
    part.geometry.pages_per_block = pages_per_block;
    part.geometry.blocks = BLOCKS;
    let given = BTreeMap::from([
        ("cleaning".to_owned(), Value::Word(policy.to_owned())),
        ("choices".to_owned(), Value::Integer(i64::from(choices.max(1)))),
        ("cleaning_seed".to_owned(), Value::Integer(i64::from(seed))),
    ]);
    let entry = find_ftl("page").expect("in the table");
    let settings = Settings::new(entry.parameters, &given).expect("known settings");
    let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    let logical_pages =
        part.geometry.pages() - (f64::from(part.geometry.pages()) * spare).round() as u32;
    let mut ftl = ftl::build(entry, chip, logical_pages, &settings).expect("a large enough chip");
    let mut stream = Stream::new(u64::from(seed), "uniform writes");
    ftl.write_pages(0, logical_pages).expect("a healthy chip");
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

/// v = exp(-(1 - v) / rho), v < 1; WA = 1 / (1 - v).
fn fifo(rho: f64) -> f64 {
    let mut valid = 0.5;
    for _ in 0..10_000 {
        valid = exponential(-(1.0 - valid) / rho);
    }
    1.0 / (1.0 - valid)
}

/// e^x by its series after halving the argument: tests may not depend on a platform's library either.
fn exponential(x: f64) -> f64 {
    let small = x / 1024.0;
    let series = 1.0 + small * (1.0 + small / 2.0 * (1.0 + small / 3.0 * (1.0 + small / 4.0)));
    (0..10).fold(series, |power, _| power * power)
}

/// `rho N (x/m + H_N - H_m) = N - m + x`, 0 <= x <= 1; WA = N / (N - m + x).
fn greedy(pages_per_block: u32, rho: f64) -> f64 {
    let pages = f64::from(pages_per_block);
    let mut tail = 0.0;
    for m in (1..=pages_per_block).rev() {
        let m_real = f64::from(m);
        // Linear in x: rho N / m x + rho N tail = N - m + x.
        let slope = rho * pages / m_real - 1.0;
        let x = (pages - m_real - rho * pages * tail) / slope;
        if slope > 0.0 && (0.0..=1.0).contains(&x) {
            return pages / (pages - m_real + x);
        }
        tail += 1.0 / m_real;
    }
    1.0
}

/// Mean-field balance of d-choices; c is found so that the mean number of valid pages is rho N.
fn d_choices(pages_per_block: u32, rho: f64, choices: u32) -> f64 {
    let pages = f64::from(pages_per_block);
    let mean_valid = |c: f64| {
        let (mut at_least, mut mean) = (0.0, 0.0);
        for valid in (1..=pages_per_block).rev() {
            // c i x = 1 - (X + x)^d: the left side grows, the right side falls, so bisect x.
            let (mut low, mut high) = (0.0, 1.0 - at_least);
            for _ in 0..60 {
                let x = f64::midpoint(low, high);
                let left = c * f64::from(valid) * x;
                let right = 1.0 - (at_least + x).powi(choices.cast_signed());
                if left < right { low = x } else { high = x }
            }
            at_least += low;
            mean += low * f64::from(valid);
        }
        mean
    };
    // A larger c empties blocks faster: the mean falls as c grows.
    let (mut low, mut high) = (1e-6, 1.0 / rho);
    for _ in 0..60 {
        let c = f64::midpoint(low, high);
        if mean_valid(c) > rho * pages { low = c } else { high = c }
    }
    1.0 / (low * rho)
}

/// The oracles against values that the literature and an independent simulation give.
fn oracles() -> Result<(), String> {
    let cases = [
        ("greedy", greedy(32, 0.93), 6.057, 0.001),
        ("greedy", greedy(64, 0.875), 3.949, 0.001),
        ("greedy", greedy(64, 0.5), 1.239, 0.001),
        ("greedy", greedy(4, 0.8), 1.800, 0.001),
        ("fifo", fifo(0.93), 7.318, 0.001),
        ("fifo", fifo(0.875), 4.182, 0.001),
        ("fifo", fifo(0.5), 1.255, 0.001),
        ("random", d_choices(64, 0.93, 1), 1.0 / 0.07, 0.001),
        ("random", d_choices(32, 0.5, 1), 2.0, 0.001),
        ("d = 2", d_choices(64, 0.93, 2), 9.714, 0.015),
        ("d = 10", d_choices(64, 0.93, 10), 6.943, 0.015),
        ("d = 2", d_choices(64, 0.5, 2), 1.528, 0.015),
        ("d = 5", d_choices(32, 0.8, 5), 2.774, 0.015),
        ("d = 10", d_choices(32, 0.72, 10), 1.955, 0.015),
    ];
    for (what, computed, table, tolerance) in cases {
        let error: f64 = computed / table - 1.0;
        if error.abs() > tolerance {
            return Err(format!("{what}: computed {computed:.4}, table {table:.4}"));
        }
    }
    Ok(())
}

//! Random calls on every file system and on a file system in memory, on a small chip whose blocks go
//! bad and are collected throughout: both show the same, and refuse the same.

use crate::support;

use file_systems::find_kind;
use mount::Kind;
use nand::{Chip, FaultSettings, Storage, find_part};
use rayon::prelude::*;
use std::fmt::Write as _;
use std::panic::catch_unwind;
use support::calls::{Call, random_calls};
use support::session::{LOST_NODES, Met, Wrong, carry_out, is_worn_out};

/// Histories of a file system, and calls of each: 240,000 in all.
const HISTORIES: u64 = 120;
const CALLS: usize = 2000;
/// Share of the erases that fail.
const FAILING_ERASES: f64 = 0.02;
/// Runs of the search for a shorter list of calls that goes wrong.
const SHORTENINGS: usize = 120;

fn chip(seed: u64, erase_failure_probability: f64) -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 64;
    part.geometry.pages_per_block = 16;
    let faults = FaultSettings {
        seed,
        program_failure_probability: 0.0005,
        erase_failure_probability,
        ..FaultSettings::default()
    };
    Chip::new(&part, Storage::Bytes, &faults)
}

/// Old kernels' JFFS2 may show what stood behind the end of a file; the profiles that do not, and all
/// of other file systems, take turns.
fn profile(kind: &Kind, history: u64) -> &'static str {
    let count = if kind.name == "jffs2" { 2 } else { kind.profiles.len() };
    kind.profiles[history as usize % count]
}

/// Carries a history out; a panic is something that went wrong at its last call.
fn play(kind: &'static Kind, seed: u64, calls: &[Call]) -> Result<Met, Wrong> {
    let profile = profile(kind, seed);
    let done = catch_unwind(|| carry_out(chip(seed, FAILING_ERASES), kind, profile, calls))
        .unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err((calls.len(), text.unwrap_or_else(|| "a defect of the engine".into())))
        });
    match done {
        // A program failed while no block was free: the kernel loses the nodes, too ("Failed to allocate
        // space for wbuf recovery. Data loss ensues.", `jffs2_wbuf_recover` of fs/jffs2/wbuf.c).
        Err((_, text)) if kind.name == "jffs2" && text.contains(LOST_NODES) => {
            Ok(Met { lost_nodes: 1, ..Met::default() })
        }
        // Kernels before 3.7 keep 1 % of the blocks for bad ones, and two at least: on 64 blocks the third that
        // fails is one too many, if a volume has taken all others.
        Err((_, text)) if kind.name == "ubifs" && is_worn_out(&text) => {
            Ok(Met { worn_out: 1, ..Met::default() })
        }
        done => done,
    }
}

/// Takes calls away while the history still goes wrong.
fn shorten(mut calls: Vec<Call>, goes_wrong: impl Fn(&[Call]) -> bool) -> Vec<Call> {
    let mut size = calls.len().div_ceil(2);
    let mut runs = 0;
    while size > 0 && runs < SHORTENINGS {
        let mut start = 0;
        while start < calls.len() && runs < SHORTENINGS {
            let end = calls.len().min(start + size);
            let shorter = [&calls[..start], &calls[end..]].concat();
            runs += 1;
            if goes_wrong(&shorter) {
                calls = shorter;
            } else {
                start = end;
            }
        }
        size /= 2;
    }
    calls
}

fn tell(kind: &'static Kind, seed: u64, calls: &[Call], wrong: &Wrong) -> String {
    let profile = profile(kind, seed);
    let again = |calls: &[Call]| play(kind, seed, calls).err();
    let calls = calls[..calls.len().min(wrong.0 + 1)].to_vec();
    let short = shorten(calls, |calls| again(calls).is_some());
    let last = again(&short).unwrap_or_else(|| wrong.clone());
    let mut text = format!("{} {profile}, seed {seed}: {}\n", kind.name, last.1);
    for call in &short {
        let _ = writeln!(text, "{call}");
    }
    text
}

fn agree(kind: &str) {
    let kind = find_kind(kind).expect("in the table");
    let results: Vec<Result<Met, String>> = (0..HISTORIES)
        .into_par_iter()
        .map(|seed| {
            let calls = random_calls(seed, CALLS);
            play(kind, seed, &calls).map_err(|wrong| tell(kind, seed, &calls, &wrong))
        })
        .collect();
    let mut sum = Met::default();
    let wrong: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    for text in wrong.iter().take(3) {
        eprintln!("{text}");
    }
    assert!(wrong.is_empty(), "{}: {} histories went wrong", kind.name, wrong.len());
    for result in results {
        let met = result.unwrap_or_else(|text| panic!("{text}"));
        sum.calls += met.calls;
        sum.refused_by_both += met.refused_by_both;
        sum.out_of_space += met.out_of_space;
        sum.erases += met.erases;
        sum.bad_blocks += met.bad_blocks;
        sum.failures += met.failures;
        sum.remounts += met.remounts;
        sum.lost_nodes += met.lost_nodes;
        sum.worn_out += met.worn_out;
        sum.measured += met.measured;
    }
    eprintln!("{}: {sum:?}", kind.name);
    assert!(sum.calls >= 200_000 && sum.refused_by_both < sum.calls / 2, "{sum:?}");
    assert!(sum.lost_nodes <= HISTORIES / 40 && sum.worn_out <= HISTORIES / 40, "{sum:?}");
    assert!(sum.measured > 2 * HISTORIES, "{sum:?}");
    assert!(sum.out_of_space >= HISTORIES && sum.remounts > 5 * HISTORIES, "{sum:?}");
    assert!(
        sum.erases > 100 * HISTORIES && sum.failures > HISTORIES && sum.bad_blocks > 10,
        "{sum:?}"
    );
}

/// A history whose chip has no good block left for a bad one ends there: the call that is refused next says why,
/// and a refusal without that reason is none of them. An erase is tried four times before a block counts as bad
/// (`UBI_IO_RETRIES`).
#[test]
fn a_reserve_that_is_used_up_ends_a_history() {
    let kind = find_kind("ubifs").expect("in the table");
    let ends: Vec<String> = (0..12)
        .filter_map(|seed| {
            let calls = random_calls(seed, CALLS);
            carry_out(chip(seed, 0.4), kind, "linux-2.6.29", &calls).err().map(|(_, text)| text)
        })
        .collect();
    assert!(
        ends.iter().any(|text| is_worn_out(text)),
        "two spare blocks are soon used up: {ends:?}"
    );
    assert!(!is_worn_out("sync: EROFS: read-only file system; []"));
    assert!(!is_worn_out("d/n1: nothing; [Finding { code: \"ubi-no-reserve\" }]"));
}

#[test]
fn jffs2_agrees_with_the_model() {
    agree("jffs2");
}

#[test]
fn yaffs2_agrees_with_the_model() {
    agree("yaffs2");
}

#[test]
fn ubifs_agrees_with_the_model() {
    agree("ubifs");
}

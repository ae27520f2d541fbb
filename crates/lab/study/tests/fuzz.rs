//! Damaged study files: whatever the text, a study is refused or planned, soon and in bounds.
//!
//! Good studies are mutated by a seeded generator, so a failure can be repeated: the message names
//! the iteration. `NANDLAB_FUZZ_SECONDS` sets the processor time spent, 10 by default.
#![allow(clippy::disallowed_methods, reason = "the time to spend is the reader's choice")]
#![allow(clippy::print_stdout, reason = "the number of iterations is the point")]

#[path = "../../trace/tests/all/support/processor_time.rs"]
mod processor_time;
#[path = "all/support/mod.rs"]
mod support;

use nand::random::Stream;
use processor_time::Stopwatch;
use std::collections::BTreeMap;
use std::time::Duration;
use study::{SettingValue, Study};
use support::{Folder, HEAD};
use trace::{Operation, Record};

/// No study may take longer to load, in processor time.
const LONGEST: Duration = Duration::from_secs(20);

/// All iterations together may not use more memory than this.
const MEMORY_KIB_MAX: u64 = 512 * 1024;

/// Pages of a device on which an accepted study is also run.
const PAGES_TO_RUN: u64 = 4096;

/// Numbers at which arithmetic tends to fail, and words with a meaning elsewhere.
const VALUES: [&str; 16] = [
    "0",
    "1",
    "-1",
    "99",
    "100",
    "4000000000",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "1e308",
    "nan",
    "true",
    "[]",
    "\"\"",
    "\"page\"",
];

fn seeds() -> Vec<String> {
    let generated = "part = \"published-small-block\"\nblocks = 64\nrepeats = 2\naxis_order = [\"spare_percent\", \"ftl\"]\n\
        [workload]\nkind = \"hot-cold\"\nhot_pages_percent = 20\nhot_writes_percent = 80\nwarm_up_writes = 1\nmeasured_writes = 1\n\
        [axes]\nftl = [\"page\", \"dftl\"]\nspare_percent = [30, 12.5]\n";
    let traced = "part = \"k9f2g08u0c\"\nblocks = 16\n[workload]\nkind = \"trace\"\nfile = \"{name}.parquet\"\n\
        capacity_bytes = 65536\npreconditioning = \"image\"\nrequests_quick = 5\nwindow = 3\n\
        [axes]\nftl = [\"bast\", \"mitsubishi\"]\nname = [\"small\"]\nsettings = [\"default\", \"tight\"]\n\
        [settings.default.mitsubishi]\nblocks = 32\nspace_pages = 4\n[settings.default.bast]\nlog_blocks = 4\n[settings.tight.bast]\nlog_blocks = 2\nreserve_blocks = 1\n\
        [published_charging]\nbast = { reads = 2, writes = 1 }\n";
    let jobs = "repeats = 2\n[workload]\nkind = \"jobs\"\n[host]\nboard = \"odroid-xu\"\ndevice = \"disk-7200\"\n\
        free_bytes = 1048576\nnr_requests = 128\n[[job]]\nname = \"mixed\"\nprocesses = 2\nrw = \"randrw\"\nrwmixread = 30\n\
        bs = \"{size}k\"\niodepth = 4\nrequests = 3\nmode = \"direct\"\nthinktime_us = 10\nrandom_distribution = \"zipf:0.5\"\n\
        [[job]]\nname = \"writer\"\nprocesses = 1\nrw = \"write\"\nbs = \"16k\"\nrequests = 4\nmode = \"buffered\"\nfsync = 2\n\
        rate_iops = 100\n[scheduler_variants.other]\nscheduler = \"deadline\"\nset = { read_expire = 50 }\n\
        [mechanisms.still]\nscheduler = { slice_idle = 0 }\ndevice = { \"host.queue_depth\" = 1 }\n\
        [timeline]\nseconds = 1\naxes = { size = [4] }\n[quick_form]\nrepeats = 1\nrequests = 2\naxes = { size = [4] }\n\
        [axes]\nscheduler = [\"cfq\", \"sfq\", \"other\"]\nsize = [4, 64]\nmechanism = [\"all\", \"still\"]\n";
    vec![format!("{HEAD}{generated}"), format!("{HEAD}{traced}"), format!("{HEAD}{jobs}")]
}

fn mutate(text: &mut Vec<u8>, seeds: &[String], draw: &mut Stream) {
    if text.is_empty() {
        return;
    }
    let position = draw.below(text.len() as u32) as usize;
    match draw.below(8) {
        0 => text[position] ^= 1 << draw.below(8),
        1 => text.truncate(position),
        2 => drop(text.drain(position..text.len().min(position + 1 + draw.below(20) as usize))),
        3 => {
            let other = seeds[draw.below(seeds.len() as u32) as usize].as_bytes();
            let start = draw.below(other.len() as u32) as usize;
            let piece = &other[start..other.len().min(start + 60)];
            text.splice(position..position, piece.iter().copied());
        }
        // Most mutations give a key another value, for those get past the parser.
        _ => {
            let value = VALUES[draw.below(VALUES.len() as u32) as usize];
            let Some(equals) = text[position..].iter().position(|byte| *byte == b'=') else {
                return;
            };
            let start = position + equals + 1;
            let end = text[start..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(text.len(), |line| start + line);
            text.splice(start..end, format!(" {value}").bytes());
        }
    }
}

/// Largest memory of this process so far; zero where the system does not say.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The most blocks that a chip of the study may have; without end if it does not say.
fn blocks_max(study: &Study) -> u64 {
    let of_settings = study.settings.values().flat_map(BTreeMap::values);
    let of_settings = of_settings.filter_map(|settings| match settings.get("blocks") {
        Some(SettingValue::Integer(blocks)) => Some(blocks.cast_unsigned()),
        _ => None,
    });
    let of_axis = study.axes.get("blocks").into_iter().flatten();
    let of_axis = of_axis.map(|blocks| blocks.to_string().parse().unwrap_or(u64::MAX));
    let own = study.blocks.map_or(u64::MAX, u64::from);
    of_settings.chain(of_axis).chain([own]).max().unwrap_or(u64::MAX)
}

/// Loads the study; plans it, and runs it for a moment if it is small. True if it was accepted.
fn attempt(folder: &Folder, text: &[u8], quick: bool) -> bool {
    let path = folder.path().join("fuzzed.toml");
    std::fs::write(&path, text).unwrap();
    let study = match study::load(&path, &[], None, quick) {
        Ok(study) => study,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let runs = study.runs().expect("checked when it was loaded");
    assert!(!runs.is_empty() && !study.columns().is_empty());
    if blocks_max(&study).saturating_mul(64) <= PAGES_TO_RUN {
        let started = Stopwatch::of_process();
        // An error is an answer, and a long study is stopped.
        let _ = study::run_study(&study, 1, &mut |_, _, _| {
            started.elapsed() < Duration::from_millis(300)
        });
    }
    true
}

#[test]
fn damaged_studies_are_refused_or_planned() {
    let folder = Folder::new("fuzz");
    folder.trace(
        "small.parquet",
        &[Record::new(0, Operation::Write, 0, 512), Record::new(1, Operation::Read, 4096, 8192)],
    );
    let seconds =
        std::env::var("NANDLAB_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let (begun, seconds) = (Stopwatch::of_process(), Duration::from_secs(seconds));
    let seeds = seeds();
    for seed in &seeds {
        folder.load(seed).expect("a good study");
    }
    let (mut iterations, mut accepted) = (0_u64, 0_u64);
    while begun.elapsed() < seconds {
        let mut draw = Stream::new(iterations, "study fuzz");
        let mut text = seeds[draw.below(seeds.len() as u32) as usize].clone().into_bytes();
        for _ in 0..=draw.below(3) {
            mutate(&mut text, &seeds, &mut draw);
        }
        let started = Stopwatch::of_process();
        let outcome =
            std::panic::catch_unwind(|| attempt(&folder, &text, iterations.is_multiple_of(2)));
        let shown = String::from_utf8_lossy(&text);
        let is_accepted =
            outcome.unwrap_or_else(|_| panic!("iteration {iterations} panicked on:\n{shown}"));
        assert!(
            started.elapsed() < LONGEST,
            "iteration {iterations} took {:?} on:\n{shown}",
            started.elapsed()
        );
        assert!(
            peak_memory_kib() < MEMORY_KIB_MAX,
            "iteration {iterations} used too much memory on:\n{shown}"
        );
        accepted += u64::from(is_accepted);
        iterations += 1;
    }
    println!(
        "{iterations} damaged studies, {accepted} of them accepted, at most {} KiB",
        peak_memory_kib()
    );
}

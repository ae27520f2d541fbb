//! The same study gives the same digest, whoever runs it; runs that cannot differ are run once.

use crate::support;

use nand::random::Stream;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Folder, HEAD};
use trace::{Operation, Record};

fn tiny_trace() -> Vec<Record> {
    let mut draw = Stream::new(1, "tiny trace");
    let sector_bytes = 512;
    (0..400_u32)
        .map(|number| {
            let operation =
                [Operation::Write, Operation::Write, Operation::Read][number as usize % 3];
            let offset_bytes = u64::from(draw.below(1900)) * sector_bytes;
            let mut record =
                Record::new(u64::from(number), operation, offset_bytes, 512 * (1 + draw.below(8)));
            record.file_operation = Some(number / 10);
            record
        })
        .collect()
}

fn digest(folder: &Folder, text: &str, seed: Option<u64>, jobs: usize) -> String {
    let path = folder.write("study.toml", text);
    let study = study::load(&path, &[], seed, false).unwrap();
    study::run_study(&study, jobs, &mut |_, _, _| true).unwrap().digest()
}

fn trace_study(repeats: u32) -> String {
    format!(
        "{HEAD}part = \"published-small-block\"\nblocks = 160\nrepeats = {repeats}\n\
         [workload]\nkind = \"trace\"\nfile = \"{{name}}.parquet\"\ncapacity_bytes = 1048576\nwindow = 20\n\
         [axes]\nftl = [\"bast\", \"page\", \"m-systems\"]\nname = [\"tiny\"]\nsettings = [\"default\", \"logs\"]\n\
         [settings.logs.bast]\nlog_blocks = 2\n"
    )
}

#[test]
fn workers_and_repetition_do_not_change_a_digest() {
    let folder = Folder::new("workers");
    folder.trace("tiny.parquet", &tiny_trace());
    let first = digest(&folder, &trace_study(1), None, 1);
    for jobs in [1, 2, 2, 1_000_000] {
        assert_eq!(digest(&folder, &trace_study(1), None, jobs), first, "{jobs} workers");
    }
    assert_eq!(
        digest(&folder, &trace_study(1), Some(9), 1),
        first,
        "a trace has no use for a seed"
    );
}

#[test]
fn a_seed_and_a_repeat_draw_other_numbers() {
    let folder = Folder::new("seeds");
    let text = format!(
        "{HEAD}part = \"published-small-block\"\nblocks = 64\nrepeats = 2\n\
         [workload]\nkind = \"uniform\"\n[axes]\nftl = [\"page\", \"dftl\"]\n"
    );
    let first = digest(&folder, &text, None, 2);
    assert_eq!(digest(&folder, &text, None, 1), first);
    assert_ne!(digest(&folder, &text, Some(2), 1), first);
    assert_ne!(digest(&folder, &text, Some(u64::MAX), 1), first, "the largest seed is a seed");
    let results = folder.run(&text).unwrap();
    let erases = |repeat| {
        let row = results
            .rows
            .iter()
            .find(|row| row.repeat == repeat && row.metric.name == "page_programs");
        row.unwrap().metric.value.to_string()
    };
    assert_ne!(erases(0), erases(1), "each repeat has its own stream");
}

#[test]
fn equal_work_is_done_once_and_shown_in_every_row() {
    let folder = Folder::new("equal-work");
    folder.trace("tiny.parquet", &tiny_trace());
    let study = folder.load(&trace_study(3)).unwrap();
    let calls = AtomicUsize::new(0);
    let mut last_done = 0;
    let results = study::run_study(&study, 1, &mut |done, total, _| {
        assert_eq!(total, 18);
        if done > last_done {
            calls.fetch_add(1, Ordering::Relaxed);
            last_done = done;
        }
        true
    })
    .unwrap();
    assert!(calls.into_inner() <= 4, "three layers, of which one has settings of its own");
    assert_eq!(last_done, 18);
    let rows = |axes: &[&str], repeat| {
        let fits = |row: &study::Row<'_>| {
            row.axes.iter().zip(axes).all(|(cell, axis)| cell == axis) && row.repeat == repeat
        };
        results.rows.iter().filter(fits).map(|row| row.metric).collect::<Vec<_>>()
    };
    assert!(!rows(&["page"], 0).is_empty());
    assert_eq!(rows(&["page", "tiny", "default"], 0), rows(&["page", "tiny", "logs"], 2));
    assert_ne!(rows(&["bast", "tiny", "default"], 0), rows(&["bast", "tiny", "logs"], 0));
    assert!(!results.interrupted);
}

#[test]
fn a_stopped_study_keeps_what_was_finished_and_stops_within_a_run() {
    let folder = Folder::new("stopped");
    // The second run would take hours.
    let text = format!(
        "{HEAD}part = \"published-small-block\"\n\
         [workload]\nkind = \"uniform\"\nwarm_up_writes = 10000\n[axes]\nftl = [\"page\"]\npart = [\"published-small-block\"]\n"
    );
    let study = folder.load(&text).unwrap();
    let results = study::run_study(&study, 1, &mut |_, _, _| false).unwrap();
    assert!(results.interrupted);
    assert!(results.rows.is_empty());
}

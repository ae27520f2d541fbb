//! The file workload of captured traces, on simulated file systems and block devices.

use crate::support;

use std::collections::BTreeMap;
use study::{StudyError, StudyResults, load, run_study};
use support::Folder;

const STUDY: &str = r#"
name = "small"
title = "Files"
question = "What does a copy cost?"
seed = 1
repeats = 1
part = "k9f2g08u0c"
blocks = 160
axis_order = ["file_system", "test", "file_set", "operations"]

[workload]
kind = "raw-nand"
capacity_bytes = 6000000

[host]
board = "s5pv210-datasheet"

[axes]
file_system = ["fat", "jffs2", "nilfs2", "ubifs", "yaffs2"]
test = ["copy-delete"]
file_set = ["jpg"]
operations = [40]
"#;

/// A card as large as the disk of a capture, quick enough for nothing to grow old.
const CARD: &str = r#"
name = "card"
summary = "100 MiB over four dies"
[host]
bytes_per_second = 200000000
command_overhead_ns = 60000
queue_depth = 2
executes = 1
[flash]
part = "k9f2g08u0c"
blocks = 230
channels = 4
dies_per_channel = 1
capacity_bytes = 104857600
copy_back = true
ftl = "page"
[sources]
"flash" = "of this test"
"#;

fn study(folder: &Folder, overrides: &[&str]) -> Result<study::Study, StudyError> {
    folder.write("card.toml", CARD);
    let path = folder.write("small.toml", STUDY);
    let overrides: Vec<String> = overrides.iter().map(|given| (*given).to_owned()).collect();
    load(&path, &overrides, None, false)
}

fn run(study: &study::Study, workers: usize) -> StudyResults {
    run_study(study, workers, &mut |_, _, _| true).expect("a study that runs")
}

/// Metrics by file system and phase.
fn by_place(results: &StudyResults) -> BTreeMap<(String, String), BTreeMap<String, f64>> {
    let mut found: BTreeMap<(String, String), BTreeMap<String, f64>> = BTreeMap::new();
    for row in results.rows.iter() {
        let value = row.metric.value.to_string().parse().expect("a number");
        let phase = row.axes.last().expect("the column of phases").clone();
        let place = found.entry((row.axes[0].clone(), phase)).or_default();
        place.insert(row.metric.name.to_owned(), value);
    }
    found
}

/// Counts of a phase as whole numbers.
fn counts<const N: usize>(phase: &BTreeMap<String, f64>, names: [&str; N]) -> [u64; N] {
    names.map(|name| phase[name] as u64)
}

#[test]
fn every_file_system_carries_out_the_same_files() {
    let study = study(&Folder::new("copy-delete-all"), &[]).expect("right");
    let results = run(&study, 1);
    assert_eq!(run(&study, 3).digest(), results.digest());
    let found = by_place(&results);
    assert_eq!(found.len(), 10, "{:?}", found.keys());
    for kind in ["fat", "jffs2", "nilfs2", "ubifs", "yaffs2"] {
        let of = |phase: &str| &found[&(kind.to_owned(), phase.to_owned())];
        let (fill, operations) = (of("fill"), of("operations"));
        assert!((20.0..30.0).contains(&fill["copies"]), "{kind}: {fill:?}");
        let [copies, deletes] = counts(operations, ["copies", "deletes"]);
        assert_eq!(copies + deletes, 40, "{kind}");
        assert!(operations["write_amplification"] > 1.0, "{kind}: {operations:?}");
        assert_eq!(operations.contains_key("metadata_share"), ["fat", "nilfs2"].contains(&kind));
    }
    let share = |kind: &str| found[&(kind.to_owned(), "operations".to_owned())]["metadata_share"];
    assert!(share("fat") < share("nilfs2"), "a log writes more metadata than a table of clusters");
}

#[test]
fn fat_over_a_translation_layer_writes_what_the_captured_kernel_writes() {
    let overrides = [
        "axes.file_system=fat",
        "axes.file_set=mp3",
        "axes.operations=60",
        "workload.capacity_bytes=104857600",
        "host.block_device=card.toml",
        "host.kernel=6.12",
        "host.max_sectors_kb=64",
    ];
    let folder = Folder::new("copy-delete-captured");
    let results = run(&study(&folder, &overrides).expect("right"), 1);
    let found = by_place(&results);
    let of = |phase: &str| &found[&("fat".to_owned(), phase.to_owned())];
    let (fill, operations) = (of("fill"), of("operations"));
    // The sums of `crates/fs/fat/tests/data/fat-mp3-1.requests.tsv`: sectors and requests written from
    // the mount on, flushes; the bytes stand in `traces/small/fat-mp3-1.json`.
    let names = ["copies", "deletes", "copied_bytes", "written_sectors", "flushes"];
    assert_eq!(counts(fill, names), [23, 0, 100_726_187, 196_743 + 461, 24]);
    assert_eq!(counts(operations, names), [30, 30, 119_562_084, 233_533 + 1091, 30]);
    assert!((operations["metadata_share"] - 0.004_706_7).abs() < 1e-6, "{operations:?}");
    let requests = |phase: &BTreeMap<String, f64>, captured: f64| {
        assert!((phase["write_requests"] / captured - 1.0).abs() < 0.03, "{phase:?}, {captured}");
    };
    requests(fill, 1621.0);
    requests(operations, 2098.0);
    // The layer below programs what the file system writes, a page of both planes at a time, and cleans.
    assert!(operations["device_page_programs"] * 8.0 >= operations["written_sectors"]);
    assert!(operations["device_erases"] > 0.0);
}

#[test]
fn a_device_under_a_file_system_on_raw_nand_is_refused() {
    let refused = |name: &str, overrides: &[&str]| {
        let folder = Folder::new(&format!("copy-delete-{name}"));
        study(&folder, overrides).expect_err("refused").to_string()
    };
    let message = refused("raw", &["host.block_device=emmc-4.5-64gb"]);
    assert!(message.contains("jffs2 works on raw NAND itself"), "{message}");
    assert!(message.contains("choose a file system that stands on one"), "{message}");
    let message = refused("slip", &["host.block_device=emmc-4.5-64g"]);
    assert!(message.contains("did you mean `emmc-4.5-64gb`"), "{message}");
    let mount = [
        "axes.test=mount",
        "axes.file_set=-",
        "axes.operations=-",
        "axes.file_system=fat",
        "host.block_device=emmc-4.5-64gb",
    ];
    let message = refused("chip", &mount);
    assert!(message.contains("test `mount` needs the chip itself"), "{message}");
    let message = refused("set", &["axes.file_set=wav"]);
    assert!(message.contains("unknown file set wav: use jpg or mp3"), "{message}");
}

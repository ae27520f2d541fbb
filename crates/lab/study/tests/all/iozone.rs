//! Studies of IOzone on file systems over raw NAND.
#![allow(clippy::float_cmp, reason = "counts are whole numbers, and equal runs give equal times")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use study::{Measurement, Study, StudyError, StudyResults, load, run_study};

const STUDY: &str = r#"
name = "small"
title = "IOzone on raw NAND"
question = "Who is faster?"
seed = 1
repeats = 2
part = "k9f2g08u0c"
blocks = 64
axis_order = ["file_system", "flash", "data", "cache", "passes", "scheduler"]

[workload]
kind = "iozone"
options = "-i 0 -i 1 -s 256k -r 32k -e -c"

[host]
board = "s5pv210-datasheet"

[flash_states.aged]
fill_percent = 40
rewritten_percent = 60
file_kib_max = 128

[scheduler_variants.hasty]
scheduler = "deadline-2.6.32"
set = { writes_starved = 1 }

[axes]
file_system = ["jffs2", "yaffs2"]
flash = ["fresh", "aged"]
data = ["pattern", "random"]
cache = ["cold", "warm"]
passes = [1]
scheduler = ["noop"]
"#;

fn study(folder: &str, text: &str, overrides: &[&str]) -> Result<Study, StudyError> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("iozone-{folder}"));
    std::fs::create_dir_all(&folder).expect("a folder for the study");
    let path = folder.join("small.toml");
    std::fs::write(&path, text).expect("room for the study");
    let overrides: Vec<String> = overrides.iter().map(|given| (*given).to_owned()).collect();
    load(&path, &overrides, None, false)
}

fn run(study: &Study, workers: usize) -> StudyResults {
    run_study(study, workers, &mut |_, _, _| true).expect("a study that runs")
}

/// A metric of the first repeat by axis values and test.
fn value(results: &StudyResults, axes: &[&str], metric: &str) -> f64 {
    let found = results
        .rows
        .iter()
        .find(|row| row.axes == axes && row.repeat == 0 && row.metric.name == metric);
    number(found.unwrap_or_else(|| panic!("{axes:?} {metric}")).metric)
}

fn number(metric: Measurement<'_>) -> f64 {
    metric.value.to_string().parse().expect("a number")
}

#[test]
fn a_matrix_has_a_row_a_test_and_a_digest_that_is_everyones() {
    let small = study("matrix", STUDY, &[]).expect("right");
    let results = run(&small, 1);
    assert_eq!(results.columns.last().map(String::as_str), Some("test"));
    let tests: Vec<&str> = results.rows.iter().map(|row| row.axes[6].as_str()).collect();
    for test in ["write", "rewrite", "read", "reread"] {
        assert!(tests.contains(&test), "{test}");
    }
    for workers in [2, 3] {
        assert_eq!(run(&small, workers).digest(), results.digest(), "{workers} workers");
    }
    let elapsed = |axes: &[&str]| value(&results, axes, "elapsed_ns");
    let warm = elapsed(&["yaffs2", "fresh", "random", "warm", "1", "noop", "read"]);
    let cold = elapsed(&["yaffs2", "fresh", "random", "cold", "1", "noop", "read"]);
    assert!(warm * 5.0 < cold, "{warm} {cold}");
    let fresh = elapsed(&["jffs2", "fresh", "random", "cold", "1", "noop", "write"]);
    let aged = elapsed(&["jffs2", "aged", "random", "cold", "1", "noop", "write"]);
    assert!(fresh < aged, "after a mount the collector checks every node: {fresh} {aged}");
    let programs = |data| {
        let axes = ["jffs2", "fresh", data, "cold", "1", "noop", "write"];
        value(&results, &axes, "page_programs")
    };
    assert!(programs("pattern") * 8.0 < programs("random"));
}

#[test]
fn only_a_file_system_on_a_block_device_meets_the_scheduler() {
    let chosen = [
        "repeats=1",
        "blocks=512",
        "workload.options=-i 0 -i 1 -s 1m -r 32k -e -c",
        "axes.flash=fresh",
        "axes.data=random",
        "axes.cache=cold",
    ];
    let text = STUDY
        .replace("[\"jffs2\", \"yaffs2\"]", "[\"jffs2\", \"nilfs2\"]")
        .replace("scheduler = [\"noop\"]", "scheduler = [\"noop\", \"hasty\", \"sfq\"]");
    let text = text.replace("board = ", "kernel = \"2.6.29\"\nboard = ");
    let results = run(&study("schedulers", &text, &chosen).expect("right"), 1);
    let of = |file_system, scheduler, test, metric| {
        value(&results, &[file_system, "fresh", "random", "cold", "1", scheduler, test], metric)
    };
    for test in ["write", "read"] {
        let jffs2 = |scheduler| of("jffs2", scheduler, test, "elapsed_ns");
        let bits = |scheduler| jffs2(scheduler).to_bits();
        assert_eq!([bits("hasty"), bits("sfq")], [bits("noop"); 2]);
    }
    // SFQ serves the last bio of a log, which is synchronous, before the others: mtdblock, which holds
    // one erase block, writes blocks back once more.
    let erases = |scheduler| of("nilfs2", scheduler, "write", "erases");
    assert!(erases("noop") >= 9.0, "a mebibyte is eight erase blocks and there are logs");
    assert!(erases("noop").to_bits() == erases("hasty").to_bits());
    assert!(erases("sfq") > erases("noop"), "{} {}", erases("sfq"), erases("noop"));
    // IOzone reads a first byte before the clock starts; little metadata is read then.
    let pages = of("nilfs2", "noop", "read", "page_reads");
    assert!((505.0..520.0).contains(&pages), "each of 512 pages once: {pages}");
}

/// Cells of NILFS2 on flash that is two thirds full and was written over once more, with its segments as
/// few as on 256 MiB: 8 of 31 are the cleaner's.
fn aged_nilfs2(name: &str, percent_of: &str, kernel: &str) -> Study {
    let chosen = [
        "repeats=1",
        "blocks=512",
        "axes.file_system=nilfs2",
        "axes.data=random",
        "axes.cache=cold",
        "flash_states.aged.fill_percent=65",
        "flash_states.aged.rewritten_percent=65",
        &format!("flash_states.aged.percent_of={percent_of}"),
        &format!("host.kernel={kernel}"),
    ];
    study(name, STUDY, &chosen).expect("right")
}

#[test]
fn nilfs2_grows_old_while_its_protection_period_passes() {
    for kernel in ["2.6.29", "2.6.35"] {
        let results = run(&aged_nilfs2(&format!("old-{kernel}"), "usable", kernel), 2);
        let pages = |flash, metric| {
            value(&results, &["nilfs2", flash, "random", "cold", "1", "noop", "write"], metric)
        };
        // A month after the history the first daemon has segments to read and to move while IOzone
        // writes; the later one waits for fewer clean segments.
        let (fresh, aged) = (pages("fresh", "page_reads"), pages("aged", "page_reads"));
        assert_eq!(aged > fresh, kernel == "2.6.29", "{kernel}: {fresh} {aged}");
        assert!(pages("aged", "records") > 0.0, "{kernel}");
    }
}

#[test]
fn a_history_that_cannot_be_says_why() {
    let study = aged_nilfs2("too-full", "size", "2.6.29");
    let Err(failed) = run_study(&study, 1, &mut |_, _, _| true) else {
        panic!("65 % of all are 20 segments, and of 23 some hold what leads to the files");
    };
    let message = failed.to_string();
    let parts = [
        "nilfs2 linux-2.6.29",
        "ENOSPC",
        "of its 61 MiB",
        "can have 45",
        "percent_of = \"usable\"",
    ];
    for part in parts {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn the_parts_of_the_time_add_up() {
    let results = run(&study("parts", STUDY, &["repeats=1"]).expect("right"), 2);
    let mut by_test: BTreeMap<Vec<String>, BTreeMap<&str, f64>> = BTreeMap::new();
    for row in results.rows.iter() {
        by_test.entry(row.axes.to_vec()).or_default().insert(row.metric.name, number(row.metric));
    }
    for (axes, metrics) in by_test {
        let parts = ["array_read_ns", "array_program_ns", "array_erase_ns", "transfer_ns"];
        let sum: f64 =
            parts.iter().chain(&["driver_ns", "software_ns"]).map(|part| metrics[part]).sum();
        let elapsed = metrics["elapsed_ns"];
        assert!((sum - elapsed).abs() <= elapsed * 0.002, "{axes:?}: {sum} of {elapsed}");
        assert!(metrics["processor_ns"] <= elapsed);
    }
}

/// No bio of these file systems meets a scheduler. A matrix simulates such cells once; simulated one
/// by one they are equal.
#[test]
fn schedulers_have_no_path_to_these_file_systems() {
    let names = ["noop", "anticipatory", "hasty", "cfq-2.6.29"];
    let narrow = ["axes.flash=fresh", "axes.cache=cold", "axes.data=random"];
    let single = |name: &str| {
        let scheduler = format!("axes.scheduler={name}");
        let overrides = [&narrow[..], &[scheduler.as_str()]].concat();
        let results = run(&study(&format!("one-{name}"), STUDY, &overrides).expect("right"), 2);
        let csv = results.to_csv();
        assert!(csv.contains(&format!(",{name},")));
        csv.replace(&format!(",{name},"), ",any,")
    };
    let alone: Vec<String> = names.iter().map(|name| single(name)).collect();
    assert!(alone.iter().all(|csv| *csv == alone[0]));
    let all = format!("axes.scheduler={}", names.join(","));
    let overrides = [&narrow[..], &[all.as_str()]].concat();
    let together = run(&study("all", STUDY, &overrides).expect("right"), 2);
    for name in names {
        let mark = format!(",{name},");
        let own: Vec<String> = together
            .to_csv()
            .lines()
            .filter(|line| line.contains(&mark))
            .map(|line| line.replace(&mark, ",any,"))
            .collect();
        assert_eq!(own, alone[0].lines().skip(1).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn passes_are_summed_and_the_kernel_names_the_profile() {
    let overrides = [
        "axes.flash=fresh",
        "axes.cache=warm",
        "axes.data=pattern",
        "axes.passes=1,3",
        "repeats=1",
    ];
    let results = run(&study("passes", STUDY, &overrides).expect("right"), 2);
    let records = |passes| {
        value(&results, &["yaffs2", "fresh", "pattern", "warm", passes, "noop", "write"], "records")
    };
    assert_eq!((records("1"), records("3")), (8.0, 24.0));
    let newer = [&overrides[..], &["host.kernel=2.6.35"]].concat();
    let others = run(&study("kernel", STUDY, &newer).expect("right"), 2);
    assert_ne!(others.digest(), results.digest());
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    let said = |overrides: &[&str]| match study("wrong", STUDY, overrides) {
        Ok(_) => panic!("{overrides:?} was taken"),
        Err(error) => error.to_string(),
    };
    let cases: [(&str, &[&str]); 10] = [
        ("did you mean `jffs2`", &["axes.file_system=jffs"]),
        ("did you mean `cfq-2.6.29`", &["axes.scheduler=cfq-2.6.28"]),
        ("unknown state of the flash `old`", &["axes.flash=old"]),
        ("test 9 is not modelled", &["workload.options=-i 9"]),
        ("O_DIRECT", &["workload.options=-i 0 -I"]),
        ("leave it to the axis `cache`", &["workload.options=-i 0 -U"]),
        ("no layout of the spare area", &["part=k9gag08u0m"]),
        ("fill_percent is 99", &["flash_states.aged.fill_percent=99"]),
        ("`0` must be a number", &["axes.passes=0"]),
        ("unknown board", &["host.board=s5pv210"]),
    ];
    for (expected, overrides) in cases {
        let message = said(overrides);
        assert!(message.contains(expected), "{overrides:?}: {message}");
    }
}

/// JFFS2 over block2mtd stands on a card where none is named, beside JFFS2 on raw NAND in one study. Its
/// requests do pass the scheduler, but no write of IOzone's does before the time ends: `fsync` flushes nothing.
#[test]
#[expect(clippy::float_cmp, reason = "counts, and times that are tied")]
fn jffs2_over_block2mtd_meets_the_scheduler_and_its_writes_come_later() {
    let text = STUDY.replace("repeats = 2", "repeats = 1");
    let overrides = [
        "axes.file_system=jffs2,jffs2-block2mtd",
        "axes.flash=fresh",
        "axes.data=random",
        "axes.cache=cold",
        "axes.scheduler=noop,cfq-2.6.29,deadline-2.6.32,anticipatory",
    ];
    let over_block = study("block2mtd", &text, &overrides).expect("right");
    let results = run(&over_block, 2);
    let cell = |kind: &str, scheduler: &str, test: &str, metric: &str| {
        let axes = [kind, "fresh", "random", "cold", "1", scheduler, test];
        value(&results, &axes, metric)
    };
    let ours = "jffs2-block2mtd";
    for scheduler in ["noop", "cfq-2.6.29", "deadline-2.6.32", "anticipatory"] {
        for test in ["write", "read"] {
            // The file is read when it is opened, to be compared with its CRCs; reads find it in memory.
            let reads = cell(ours, scheduler, test, "device_reads");
            assert!(if test == "write" { reads > 40.0 } else { reads == 0.0 }, "{test}: {reads}");
            let before = cell(ours, scheduler, test, "device_reads_before");
            assert!(before > 60.0, "{scheduler} {test}: {before} read requests of mount and open");
            for nothing in ["device_written_sectors", "device_flushes", "page_programs"] {
                let found = cell(ours, scheduler, test, nothing);
                assert!(found == 0.0, "{scheduler} {test}: {nothing} {found}");
            }
            let time = cell(ours, scheduler, test, "elapsed_ns");
            let spread = time / cell(ours, "noop", test, "elapsed_ns") - 1.0;
            assert!(spread.abs() < 0.02, "{scheduler} {test}: {spread}");
        }
        let writes = cell(ours, scheduler, "read", "device_writes_before");
        assert!(writes > 0.0, "{scheduler}: the unmount before the reads writes what is dirty");
        let dirty = cell(ours, scheduler, "write", "dirty_bytes_at_end");
        assert!(dirty >= 256.0 * 1024.0, "{scheduler}: {dirty} bytes are still in memory");
        let raw = cell("jffs2", scheduler, "write", "elapsed_ns");
        let same = raw == cell("jffs2", "noop", "write", "elapsed_ns");
        assert!(same, "raw NAND has no scheduler");
    }
    let has_device = |row: &study::Row<'_>| row.metric.name.starts_with("device_");
    let names = results.rows.iter().filter(|row| has_device(row)).map(|row| row.axes[0].as_str());
    assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), 1, "raw NAND has none");
}

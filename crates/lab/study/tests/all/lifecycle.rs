//! A piece of work from mount to mount, and the service times of translation layers.
#![allow(clippy::float_cmp, reason = "counts are whole numbers")]

use crate::support;

use study::{StudyError, StudyResults, load, run_study};
use support::{Folder, by_place};
use trace::{Operation, Record};

const HEAD: &str = r#"
name = "small"
title = "Small"
question = "Which one?"
seed = 1
part = "K9F2G08U0C"
blocks = 160
[host]
board = "s5pv210-datasheet"
"#;

/// 20 files of 5000 bytes in calls of 1000, synced each; one replaced; all of them read.
const SCRIPT: &str = "mkdir d 755\nphase write\nputn d/f 0 20 644 5000 1000 x 1\nsync\n\
                      put new 644 5000 1000 t 2 fsync\nrename new d/f00000\nsleep 60000\ndrop\n\
                      read d/f00000 4096\n";

/// A study and the folder that its scripts are read from when it runs.
fn study(name: &str, workload: &str, axes: &str) -> Result<(study::Study, Folder), StudyError> {
    let folder = Folder::new(&format!("lifecycle-{name}"));
    folder.write("work.ops", SCRIPT);
    folder.write("mounts.ops", "put a 644 1 1 x 1\numount\n");
    folder.write("wrong.ops", "put a 644 1 1 x 1\nptu\n");
    folder.write("large.ops", "put a 644 60m 32k x 1\n");
    folder.write("zeros.ops", "putn a 1 3 644 1k 1k x 0\nappend a00001 1k 1k x 0\n");
    folder.write("wraps.ops", "putn a 1 3 644 1k 1k t 18446744073709551614\n");
    folder.write("place.ops", "put a 644 64k 4k x 1\nrwrite a 8 4k 64k 0 x 2\n");
    let text = format!("{HEAD}[workload]\nkind = \"raw-nand\"\n{workload}\n[axes]\n{axes}\n");
    let study = load(&folder.write("small.toml", &text), &[], None, false)?;
    Ok((study, folder))
}

fn run(study: &study::Study, jobs: usize) -> StudyResults {
    run_study(study, jobs, &mut |_, _, _| true).expect("a study that runs")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const ALL: &str = "file_system = [\"jffs2\", \"nilfs2\", \"ubifs\", \"yaffs2\"]\n\
                   scheduler = [\"noop\", \"cfq\"]\ntest = [\"lifecycle\"]";

#[test]
fn a_script_is_measured_call_by_call_on_every_file_system() {
    let (study, _folder) = study("script", "script = \"work.ops\"", ALL).expect("right");
    let results = run(&study, 2);
    assert_eq!(results.digest(), run(&study, 1).digest(), "workers change nothing");
    let found = by_place(&results);
    for name in ["jffs2", "nilfs2", "ubifs", "yaffs2"] {
        let at = |scheduler: &str, phase| &found[&words(&[name, scheduler, "lifecycle", phase])];
        let work = at("noop", "work");
        assert_eq!(work["host_write_bytes"], 105_000.0, "{name}");
        assert_eq!(work["host_read_bytes"], 5_000.0, "{name}");
        // Twenty files of five calls, and one more.
        assert_eq!(work["write_calls"], 105.0, "{name}");
        assert_eq!(work["sync_calls"], 2.0, "{name}");
        let kinds = ["read", "write", "sync", "other"].map(|kind| work[&format!("{kind}_calls")]);
        assert_eq!(work["call_calls"], kinds.iter().sum::<f64>(), "{name}");
        assert!(work["write_p50_ns"] <= work["write_p99_ns"], "{name}");
        assert!(work["write_p99_ns"] <= work["write_max_ns"], "{name}");
        assert!(work["call_max_ns"] >= work["sync_max_ns"], "{name}");
        // The pause is no part of the calls.
        assert!(work["elapsed_ns"] >= 60e9 && work["call_ns"] < 60e9, "{name}");
        assert!(work["waf"] > 0.3 && work["memory_bytes_max"] > 0.0, "{name}: {work:?}");
        assert!(at("noop", "mount")["mount_ns"] > 0.0, "{name}");
        let same = work == at("cfq", "work");
        assert!(same || name == "nilfs2", "{name}: a scheduler means nothing to it");
    }
    // The chip's bytes decide life where wear is even, the block erased most where nothing levels it.
    let life = |name, key: &str| found[&words(&[name, "noop", "lifecycle", "work"])][key];
    let flash = 160.0 * 64.0 * 2048.0;
    let levelled = flash * 1e5 / life("jffs2", "waf");
    assert!((life("jffs2", "lifetime_host_bytes") / levelled - 1.0).abs() < 1e-9);
    let mut expected = flash * 1e5 / life("nilfs2", "waf");
    let again = life("nilfs2", "erase_count_max") - 1.0;
    if again > 0.0 {
        expected = expected.min(105_000.0 * 1e5 / again);
    }
    assert!((life("nilfs2", "lifetime_host_bytes") / expected - 1.0).abs() < 1e-6);
}

/// A card of one die of the part.
fn card(ftl: &str) -> String {
    format!(
        "name = \"card-{ftl}\"\nsummary = \"a card\"\n[host]\nbytes_per_second = 25000000\n\
         command_overhead_ns = 60000\nqueue_depth = 1\nexecutes = 1\n[flash]\npart = \"k9f2g08u0c\"\n\
         blocks = 160\nchannels = 1\ndies_per_channel = 1\ncapacity_bytes = 15728640\n\
         copy_back = true\nftl = \"{ftl}\"\n"
    )
}

#[test]
fn file_systems_meet_translation_layers_in_cards_of_their_own() {
    let folder = Folder::new("lifecycle-cards");
    folder.write("work.ops", SCRIPT);
    folder.write("bast.toml", &card("bast"));
    folder.write("page.toml", &card("page"));
    let axes = "file_system = [\"fat\", \"nilfs2\"]\nblock_device = [\"bast.toml\", \"page.toml\"]\n\
                test = [\"lifecycle\"]";
    let text =
        format!("{HEAD}[workload]\nkind = \"raw-nand\"\nscript = \"work.ops\"\n[axes]\n{axes}\n");
    let study = load(&folder.write("small.toml", &text), &[], None, false).expect("right");
    let results = run(&study, 2);
    assert_eq!(results.digest(), run(&study, 1).digest(), "workers change nothing");
    let found = by_place(&results);
    for name in ["fat", "nilfs2"] {
        let [bast, page] = ["bast.toml", "page.toml"]
            .map(|card| &found[&words(&[card, name, "lifecycle", "work"])]);
        for work in [bast, page] {
            assert_eq!(work["host_write_bytes"], 105_000.0, "{name}");
            assert!(work["page_programs"] > 0.0 && work["device_ram_bytes"] > 0.0, "{name}");
            // Pages of both planes: all that was programmed, and a life that it allows.
            let waf = work["page_programs"] * 4096.0 / 105_000.0;
            assert!((work["waf"] / waf - 1.0).abs() < 1e-9, "{name}: {work:?}");
            let life = 160.0 * 64.0 * 2048.0 * 1e5 / waf;
            assert!((work["lifetime_host_bytes"] / life - 1.0).abs() < 1e-6, "{name}: {work:?}");
        }
        let ram = "device_ram_bytes";
        assert!(bast[ram] < page[ram], "{name}: a map of blocks is smaller than one of pages");
        let again = &found[&words(&["bast.toml", name, "lifecycle", "mount"])];
        assert!(again["mount_ns"] > 0.0 && again["findings"] == 0.0, "{name}");
    }
    assert!(found.keys().all(|place| place[3] != "mount-after-cut"), "a card is not cut");
}

#[test]
fn iozone_is_measured_too_and_a_full_flash_is_a_result() {
    let axes = "file_system = [\"yaffs2\"]\ntest = [\"lifecycle\"]";
    let options = "options = \"-i 0 -i 1 -s 1m -r 4k -e\"";
    let (measured, _folder) = study("iozone", options, axes).expect("right");
    let found = by_place(&run(&measured, 1));
    let work = &found[&words(&["yaffs2", "lifecycle", "work"])];
    // Written and rewritten; read twice, with a byte to prime the caches before each.
    assert_eq!(work["host_write_bytes"], f64::from(2 << 20));
    assert_eq!(work["host_read_bytes"], f64::from((2 << 20) + 2));
    let (filled, _folder) = study("full", "script = \"large.ops\"", axes).expect("right");
    let full = by_place(&run(&filled, 1));
    assert_eq!(full[&words(&["yaffs2", "lifecycle", "work"])]["is_full"], 1.0);
    assert_eq!(full.len(), 1, "nothing is mounted after that");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_runs() {
    let axes = "file_system = [\"jffs2\"]\ntest = [\"lifecycle\"]";
    for (name, workload, axes, parts) in [
        ("neither", "", axes, vec!["lifecycle", "`script`", "`options`"]),
        ("both", "script = \"work.ops\"\noptions = \"-i 0\"", axes, vec!["not both"]),
        (
            "mounts",
            "script = \"mounts.ops\"",
            axes,
            vec!["mounts.ops", "line 2", "leave this line"],
        ),
        ("wrong", "script = \"wrong.ops\"", axes, vec!["wrong.ops", "line 2", "put"]),
        ("missing", "script = \"no.ops\"", axes, vec!["no.ops"]),
        (
            "zeros",
            "script = \"zeros.ops\"",
            axes,
            vec!["zeros.ops", "line 2", "seed 0", "kind `z`"],
        ),
        ("wraps", "script = \"wraps.ops\"", axes, vec!["wraps.ops", "line 1", "seed 0"]),
        ("place", "script = \"place.ops\"", axes, vec!["place.ops", "line 2", "the first block"]),
        ("remount", "options = \"-i 0 -U\"", axes, vec!["workload.options", "-U"]),
        (
            "scheduler",
            "script = \"work.ops\"",
            &format!("{axes}\nscheduler = [\"cqf\"]"),
            vec!["cfq"],
        ),
    ] {
        let Err(error) = study(name, workload, axes) else { panic!("{name}: it is refused") };
        let error = error.to_string();
        for part in parts {
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}

#[test]
fn service_times_add_up_to_the_time_of_the_chip() {
    let folder = Folder::new("service-times");
    let record = |number: u64| Record::new(number, Operation::Write, number * 7 % 50 * 2048, 2048);
    let records: Vec<Record> = (0..400).map(record).collect();
    folder.trace("writes.parquet", &records);
    let text = "name = \"s\"\ntitle = \"t\"\nquestion = \"q\"\nseed = 1\npart = \"k9f2g08u0c\"\nblocks = 64\n\
                [workload]\nkind = \"trace\"\nfile = \"writes.parquet\"\nservice_times = true\n\
                [axes]\nftl = [\"bast\", \"page\"]\n";
    let study = load(&folder.write("s.toml", text), &[], None, false).expect("right");
    for (place, values) in by_place(&run(&study, 1)) {
        let throughput = 400.0 * 2.0 / (values["busy_ns"] / 1e9);
        assert!((values["throughput_kib_per_s"] / throughput - 1.0).abs() < 1e-9, "{place:?}");
        assert!(values["write_p50_ns"] >= 250_000.0, "{place:?}: a program takes 250 us");
        assert!(values["write_max_ns"] <= values["busy_ns"], "{place:?}");
        // Every spare area that may hold data is read.
        assert!(values["rebuild_ns"] > 50.0 * 40_000.0, "{place:?}: {}", values["rebuild_ns"]);
    }
}

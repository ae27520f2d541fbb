//! Studies of several tests of file systems on raw NAND.

use crate::support;

use study::{StudyError, StudyResults, load, run_study};
use support::{Folder, by_place};

const STUDY: &str = r#"
name = "small"
title = "Raw NAND"
question = "Who is faster?"
seed = 1
repeats = 1
part = "k9f2g08u0c"
blocks = 160
axis_order = ["test", "file_system", "flash", "limits", "data", "file_mib", "files", "rate_kib_per_s", "written_mib"]

[workload]
kind = "raw-nand"
options = "-i 0 -i 1 -i 2 -s {file_mib}m -r 32k"

[host]
board = "s5pv210-datasheet"
kernel = "2.6.35"

[flash_states.empty]
fill_percent = 0
[flash_states.half]
fill_percent = 50
rewritten_percent = 10
file_kib_max = 128

[limits.small]
partition_mib = 10
[limits.filled]
free_mib = 4
[limits.synchronous]
mount_options = ["sync"]

[axes]
test = ["mount"]
file_system = ["jffs2", "ubifs", "yaffs2"]
flash = ["empty", "half"]
limits = ["whole"]
data = ["-"]
file_mib = ["-"]
files = ["-"]
rate_kib_per_s = ["-"]
written_mib = ["-"]
"#;

/// Axis values but the file system, which is given apart.
const MOUNT: [&str; 7] = ["whole", "-", "-", "-", "-", "-", "mount"];

fn study(name: &str, overrides: &[&str]) -> Result<study::Study, StudyError> {
    let folder = Folder::new(&format!("raw-nand-{name}"));
    let path = folder.write("small.toml", STUDY);
    let overrides: Vec<String> = overrides.iter().map(|given| (*given).to_owned()).collect();
    load(&path, &overrides, None, false)
}

fn run(name: &str, overrides: &[&str]) -> StudyResults {
    let study = study(name, overrides).expect("right");
    run_study(&study, 2, &mut |_, _, _| true).expect("a study that runs")
}

fn place(test: &str, file_system: &str, flash: &str, rest: [&str; 7]) -> Vec<String> {
    [test, file_system, flash].iter().chain(&rest).map(|word| (*word).to_owned()).collect()
}

#[test]
fn mounts_are_timed_and_say_what_they_did() {
    let results = run("mount", &[]);
    assert_eq!(results.columns.last().map(String::as_str), Some("phase"));
    let found = by_place(&results);
    let at = |kind: &str, flash: &str| &found[&place("mount", kind, flash, MOUNT)];
    for flash in ["empty", "half"] {
        let ubifs = at("ubifs", flash);
        // The mark of each block, and the page with its two headers.
        assert!(ubifs["attach_spare_reads"] >= 160.0, "{ubifs:?}");
        assert!(ubifs["attach_page_reads"] >= 160.0, "{ubifs:?}");
        let sum = ubifs["attach_ns"] + ubifs["mount_only_ns"];
        assert!((ubifs["mount_ns"] - sum).abs() < 1.0);
        let yaffs2 = at("yaffs2", flash);
        assert!((yaffs2["is_from_checkpoint"] - 1.0).abs() < 1e-9, "{yaffs2:?}");
        let parts = ["array_read_ns", "array_program_ns", "array_erase_ns", "transfer_ns"];
        for metrics in [ubifs, yaffs2, at("jffs2", flash)] {
            let sum: f64 =
                parts.iter().chain(&["driver_ns", "software_ns"]).map(|part| metrics[*part]).sum();
            assert!((sum - metrics["mount_ns"]).abs() <= metrics["mount_ns"] * 0.01);
        }
    }
    assert!(at("jffs2", "half")["mount_ns"] > at("jffs2", "empty")["mount_ns"]);
}

#[test]
fn after_a_cut_yaffs2_scans_what_is_filled_and_ubifs_its_journal() {
    let cut = ["axes.test=mount-after-cut", "axes.written_mib=1", "repeats=3"];
    let results = run("cut", &cut);
    let found = by_place(&results);
    let mut rest = MOUNT;
    rest[5] = "1";
    let at = |kind: &str, flash: &str| &found[&place("mount-after-cut", kind, flash, rest)];
    assert!(at("yaffs2", "half")["is_from_checkpoint"].abs() < 1e-9);
    // A scan reads the tags of every page that is programmed: half of the chip at least.
    assert!(at("yaffs2", "half")["spare_reads"] > 160.0 * 64.0 / 2.0);
    let growth = at("yaffs2", "half")["mount_ns"] / at("yaffs2", "empty")["mount_ns"];
    assert!(growth > 3.0, "{growth}");
    let growth = at("ubifs", "half")["mount_ns"] / at("ubifs", "empty")["mount_ns"];
    assert!(growth < 1.5, "{growth}");
}

#[test]
fn the_benchmark_reads_cold_then_warm_and_writes_at_random_twice() {
    let overrides = ["axes.test=iozone", "axes.flash=fresh", "axes.data=random", "axes.file_mib=1"];
    let results = run("iozone", &overrides);
    let found = by_place(&results);
    for kind in ["jffs2", "ubifs", "yaffs2"] {
        let at = |phase| {
            let rest = ["whole", "random", "1", "-", "-", "-", phase];
            &found[&place("iozone", kind, "fresh", rest)]
        };
        assert!(at("reread")["elapsed_ns"] * 5.0 < at("read")["elapsed_ns"], "{kind}");
        // 512 pages, but for what the byte that IOzone reads first brought in.
        assert!(at("read")["page_reads"] >= 480.0, "{kind}");
        assert!(at("reread")["page_reads"].abs() < 1e-9, "{kind}");
        assert!(at("random-rewrite").contains_key("elapsed_ns"), "{kind}");
        assert!(at("all")["memory_bytes_max"] > 0.0, "{kind}");
    }
}

#[test]
fn limits_change_the_partition_the_fill_and_the_mount() {
    let overrides = [
        "axes.test=iozone",
        "axes.flash=fresh",
        "axes.data=random",
        "axes.file_mib=1",
        "axes.file_system=ubifs,yaffs2",
        "axes.limits=small,filled",
    ];
    let results = run("limits", &overrides);
    // The fourth axis is called `limits`; its column keeps the name that recorded results have.
    assert_eq!(results.columns[3], "room");
    let found = by_place(&results);
    for kind in ["ubifs", "yaffs2"] {
        for limits in ["small", "filled"] {
            let rest = [limits, "random", "1", "-", "-", "-", "all"];
            assert!(found[&place("iozone", kind, "fresh", rest)]["is_full"].abs() < 1e-9);
        }
    }
}

#[test]
fn memory_grows_with_the_files_that_are_known() {
    let overrides = ["axes.test=files", "axes.flash=fresh", "axes.files=200,1200"];
    let found = by_place(&run("files", &overrides));
    for kind in ["jffs2", "ubifs", "yaffs2"] {
        let at = |files, phase| {
            let rest = ["whole", "-", "-", files, "-", "-", phase];
            &found[&place("files", kind, "fresh", rest)]
        };
        let drop = |files, phase| at(files, phase)["drop_bytes"];
        assert!(drop("1200", "touched") > drop("1200", "mounted"), "{kind}");
        // A dentry of 128 bytes and an inode of 304 at least, for each of a thousand more files.
        let more = drop("1200", "touched") - drop("200", "touched");
        assert!(more > 1000.0 * 432.0, "{kind}: {more}");
        let touched = at("1200", "touched");
        let sum: f64 = touched
            .iter()
            .filter(|(name, _)| name.starts_with("structure_"))
            .map(|(_, bytes)| bytes)
            .sum();
        assert!((sum - touched["drop_bytes"]).abs() < 1.0, "{kind}");
    }
}

#[test]
fn bursts_lose_nothing_that_was_synced() {
    let overrides = ["axes.test=burst", "axes.flash=fresh", "axes.rate_kib_per_s=64", "repeats=3"];
    let results = run("burst", &overrides);
    for (place, metrics) in by_place(&results) {
        assert!((metrics["is_mounted"] - 1.0).abs() < 1e-9, "{place:?}");
        assert!(metrics["lost_synced_bytes"].abs() < 1e-9, "{place:?}: {metrics:?}");
        assert!(metrics["complaints"].abs() < 1e-9, "{place:?}: {metrics:?}");
        assert!(metrics["written_bytes"] > 1e6, "{place:?}");
    }
}

#[test]
fn the_digest_is_the_same_with_any_number_of_workers() {
    let overrides = ["axes.test=mount-after-cut", "axes.written_mib=1", "repeats=2"];
    let study = study("digest", &overrides).expect("right");
    let digest = |workers| {
        run_study(&study, workers, &mut |_, _, _| true).expect("a study that runs").digest()
    };
    assert_eq!(digest(1), digest(3));
}

#[test]
fn what_is_wrong_is_refused_with_a_suggestion() {
    let said = |overrides: &[&str]| {
        let error = study("wrong", overrides).expect_err("refused").to_string();
        error.split_once("small.toml: ").expect("the file is named").1.to_owned()
    };
    assert!(said(&["axes.test=mounts"]).contains("did you mean `mount`?"));
    let renamed = said(&["axes.room=small"]);
    assert!(renamed.contains("axis `room` is now called `limits`: rename it"), "{renamed}");
    assert!(said(&["axes.limits=smal"]).contains("did you mean `small`?"));
    assert!(said(&["axes.files=3"]).contains("means nothing to test `mount`"));
    assert!(said(&["axes.test=files"]).contains("test `files` needs a value"));
    let never = said(&["axes.file_system=jffs2-block2mtd", "axes.flash=fresh"]);
    assert!(never.contains("on which `jffs2-block2mtd` never stands: leave it out"), "{never}");
    assert!(said(&["axes.test=files", "axes.files=many"]).contains("must be a number"));
    assert!(said(&["axes.limits=filled"]).contains("leave the axis `flash` at `fresh`"));
    assert!(
        said(&["axes.limits=small", "limits.small.partition_mib=4000"]).contains("must be 1 to 20")
    );
    assert!(said(&["axes.limits=small", "limits.small.dirty_ratio=0"]).contains("dirty_ratio"));
}

#[test]
fn parts_that_share_a_name_share_no_flash() {
    let folder = Folder::new("raw-nand-parts");
    let part = nand::find_part("k9f2g08u0c").expect("in the catalogue");
    let mut slow = part.clone();
    slow.timing.read_ns[0] *= 20;
    for (name, part) in [("fast.toml", &part), ("slow.toml", &slow)] {
        folder.write(name, &toml::to_string(part).expect("a part"));
    }
    let text = STUDY
        .replace("part = \"k9f2g08u0c\"\n", "")
        .replace("axis_order = [", "axis_order = [\"part\", ")
        .replace("[axes]\n", "[axes]\npart = [\"fast.toml\", \"slow.toml\"]\n")
        .replace("[\"jffs2\", \"ubifs\", \"yaffs2\"]", "[\"jffs2\"]")
        .replace("flash = [\"empty\", \"half\"]", "flash = [\"half\"]");
    let study = load(&folder.write("small.toml", &text), &[], None, false).expect("right");
    // One worker: the second run finds what the first has prepared.
    let results = run_study(&study, 1, &mut |_, _, _| true).expect("a study that runs");
    let mount_ns = |part: &str| -> f64 {
        let is_wanted = |row: &study::Row<'_>| row.axes[0] == part && row.metric.name == "mount_ns";
        let row = results.rows.iter().find(is_wanted).expect("measured");
        row.metric.value.to_string().parse().expect("a number")
    };
    assert!(mount_ns("slow.toml") > 4.0 * mount_ns("fast.toml"));
}

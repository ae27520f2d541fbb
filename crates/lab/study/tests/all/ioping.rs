//! Studies of ioping over a scheduler and a block device, and on file systems.

use crate::support;

use study::{StudyError, StudyResults, load, run_study};
use support::{Folder, HEAD};

const STUDY: &str = "repeats = 2\n[workload]\nkind = \"ioping\"\n\
    options = \"-D -i 0 -c 40 -s {size_kib}k directory\"\nreaders = 8\nwriters = 8\nmixed = 2\n\
    [host]\nboard = \"odroid-xu\"\ndevice = \"emmc-4.5-64gb\"\nfree_bytes = 67108864\n\
    [axes]\nscheduler = [\"noop\", \"sfq\"]\nsize_kib = [4]\n";

fn study(text: &str) -> Result<study::Study, StudyError> {
    let folder = Folder::new("ioping");
    load(&folder.write("study.toml", &format!("{HEAD}{text}")), &[], None, false)
}

fn run(text: &str) -> StudyResults {
    run_study(&study(text).expect("right"), 2, &mut |_, _, _| true).expect("a study that runs")
}

fn value(results: &StudyResults, axes: &[&str], metric: &str) -> f64 {
    let is_it = |row: &study::Row<'_>| row.axes == axes && row.metric.name == metric;
    let row = results.rows.iter().find(is_it).unwrap_or_else(|| panic!("no {metric} of {axes:?}"));
    row.metric.value.to_string().parse().expect("a number")
}

#[test]
fn every_role_has_a_row_and_the_tool_leaves_out_the_first_request() {
    let results = run(STUDY);
    assert_eq!(results.columns, ["scheduler", "size_kib", "role"]);
    for (role, processes) in [("reader", 8.0), ("writer", 8.0), ("mixed", 2.0), ("all", 18.0)] {
        let at = |metric| value(&results, &["sfq", "4", role], metric);
        assert!((at("requests_generated") - processes * 40.0).abs() < 1e-9, "{role}");
        assert!((at("requests_completed") - processes * 39.0).abs() < 1e-9, "{role}");
        assert!(at("latency_min_ns") <= at("latency_p50_ns"), "{role}");
        assert!(at("latency_p50_ns") <= at("latency_max_ns"), "{role}");
        let rate = at("requests_completed") * 1e9 / at("request_time_ns");
        assert!((at("iops") / rate - 1.0).abs() < 1e-9, "{role}");
        assert!((at("speed_bytes_per_s") / rate / 4096.0 - 1.0).abs() < 1e-9, "{role}");
        // A process waits for each of its requests, so its time is no longer than that of the run.
        assert!(at("request_time_ns") <= at("elapsed_ns") * processes, "{role}");
    }
    // Each role shows the lines of its first process, once for both repeats of a combination.
    let prints: Vec<&String> =
        results.notes.iter().filter(|note| note.contains("prints: ---")).collect();
    assert_eq!(prints.len(), 2 * 3, "{prints:?}");
    assert!(prints[0].contains("39 requests completed in "), "{prints:?}");
    assert!(prints[0].contains("generated 40 requests in "), "{prints:?}");
}

#[test]
fn a_command_line_alone_is_one_process() {
    let alone = STUDY.replace("readers = 8\nwriters = 8\nmixed = 2\n", "");
    for (given, role) in [("-D", "reader"), ("-D -W", "writer"), ("-D -G", "mixed")] {
        let results = run(&alone.replace("-D", given));
        assert!((value(&results, &["noop", "4", role], "requests_generated") - 40.0).abs() < 1e-9);
        assert!(results.rows.iter().all(|row| [role, "all"].contains(&row.axes[2].as_str())));
    }
}

#[test]
fn versions_differ_in_pace_and_statistics() {
    let text = STUDY
        .replace("readers = 8\nwriters = 8\nmixed = 2\n", "")
        .replace("-i 0", "-i 50ms")
        .replace("size_kib = [4]", "size_kib = [4]\nprofile = [\"v0.9\", \"v1.0\"]");
    let results = run(&text);
    assert_eq!(results.columns, ["profile", "scheduler", "size_kib", "role"]);
    let at = |profile, metric| value(&results, &[profile, "noop", "4", "all"], metric);
    // 39 pauses of 50 ms, and the requests beside them only in 0.9.
    assert!(at("v0.9", "elapsed_ns") > 39.0 * 50e6 + 0.9 * at("v0.9", "request_time_ns"));
    assert!(at("v1.0", "elapsed_ns") < 39.0 * 50e6 + 10e6);
    assert!((at("v0.9", "requests_completed") - 40.0).abs() < 1e-9);
    assert!((at("v1.0", "requests_completed") - 39.0).abs() < 1e-9);
}

#[test]
fn what_does_not_fit_is_refused() {
    let replaced = |from: &str, to: &str| {
        assert!(STUDY.contains(from), "{from}");
        let error = study(&STUDY.replace(from, to)).expect_err(to).to_string();
        error.split_once("study.toml: ").expect("the file is named").1.to_owned()
    };
    for (from, to, expected) in [
        ("-c 40", "", "workload.options: ioping -c: nothing ends it"),
        ("-D -i", "-Q -i", "workload.options: ioping -Q: is not known here"),
        ("-D -i", "-W -i", "workload.options: -W and -G: `readers`, `writers` and `mixed` say"),
        ("options", "file", "workload: kind `ioping` takes options"),
        ("readers = 8", "readers = 5000", "are 5010 processes; 1 to 1024"),
        (
            "readers = 8\nwriters = 8\nmixed = 2",
            "readers = 0",
            "readers, writers and mixed are 0 processes",
        ),
        ("67108864", "4194304", "workload.options: ioping -S: 1048576 bytes do not fit"),
        ("size_kib = [4]", "size_kib = [4]\nprofile = [\"v1.8\"]", "unknown profile of ioping"),
        ("[\"noop\", \"sfq\"]", "[\"nop\"]", "did you mean `noop`?"),
        ("scheduler = [\"noop\", \"sfq\"]\n", "", "an axis `scheduler`"),
        ("[axes]", "[limits.a]\nram_mib = 1\n[axes]", "limits: means nothing to workload kind"),
        (
            "[host]\nboard = \"odroid-xu\"\ndevice = \"emmc-4.5-64gb\"\nfree_bytes = 67108864\n",
            "",
            "workload kind `ioping` needs a table [host]",
        ),
    ] {
        let said = replaced(from, to);
        assert!(said.contains(expected), "{to}: {said}");
    }
    // The options of one kind are no options of another.
    let error = study(&STUDY.replace("kind = \"ioping\"", "kind = \"jobs\"")).expect_err("keys");
    assert!(error.to_string().contains("but not options"), "{error}");
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    let study = study(STUDY).expect("right");
    let digest = |workers| {
        run_study(&study, workers, &mut |_, _, _| true).expect("a study that runs").digest()
    };
    assert_eq!(digest(1), digest(3));
}

const FILES: &str = "part = \"k9f2g08u0c\"\nblocks = 160\n[workload]\nkind = \"ioping\"\n\
    options = \"-{access} -i 1ms -c 9 {target}\"\n\
    [host]\nboard = \"odroid-xu\"\nblock_device = \"emmc-4.5-64gb\"\nfree_bytes = 1048576\n\
    [axes]\nfile_system = [\"fat\", \"nilfs2\"]\naccess = [\"C\", \"W\"]\ntarget = [\"directory\"]\n";

#[test]
fn a_file_system_is_an_axis_and_the_medium_is_counted() {
    let results = run(FILES);
    assert_eq!(results.columns, ["access", "file_system", "target", "role"]);
    for file_system in ["fat", "nilfs2"] {
        let at =
            |access, metric| value(&results, &[access, file_system, "directory", "all"], metric);
        for metric in ["device_reads", "device_writes", "device_flushes", "page_programs"] {
            assert!(at("C", metric).abs() < 1e-9, "{file_system}: {metric}");
        }
        assert!((at("W", "device_writes") - 9.0).abs() < 1e-9, "{file_system}");
        // `fat_file_fsync` of the board's kernel flushes no device.
        let flushes = if file_system == "fat" { 0.0 } else { 9.0 };
        assert!((at("W", "device_flushes") - flushes).abs() < 1e-9, "{file_system}");
        assert!(at("W", "latency_min_ns") > 10.0 * at("C", "latency_max_ns"), "{file_system}");
    }
    let shown: Vec<&String> =
        results.notes.iter().filter(|note| note.contains("directory (vfat")).collect();
    assert_eq!(shown.len(), 2, "{:?}", results.notes);
    assert!(shown[0].contains("directory (vfat emmc-4.5-64gb 58.2 GiB)"), "{shown:?}");
}

#[test]
fn the_device_itself_stands_beside_file_systems_and_is_as_without_them() {
    let alone = STUDY.replace("directory", "file");
    let beside = alone
        .replace("[workload]", "part = \"k9f2g08u0c\"\n[workload]")
        .replace("free_bytes", "block_device = \"emmc-4.5-64gb\"\nfree_bytes")
        .replace("[axes]", "[axes]\nfile_system = [\"none\", \"fat\"]");
    let (alone, beside) = (run(&alone), run(&beside));
    for (scheduler, role) in [("noop", "reader"), ("sfq", "writer"), ("sfq", "all")] {
        for metric in ["elapsed_ns", "latency_mean_ns"] {
            let one = value(&alone, &[scheduler, "4", role], metric);
            let other = value(&beside, &["none", scheduler, "4", role], metric);
            assert!((one - other).abs() < 1e-9, "{scheduler} {role} {metric}");
            let on_fat = value(&beside, &["fat", scheduler, "4", role], metric);
            assert!((one - on_fat).abs() > 1.0, "{scheduler} {role} {metric}");
        }
    }
}

#[test]
fn a_file_system_on_raw_nand_meets_no_scheduler() {
    let text = FILES
        .replace("block_device = \"emmc-4.5-64gb\"\n", "")
        .replace("[\"fat\", \"nilfs2\"]", "[\"jffs2\", \"ubifs\", \"yaffs2\"]")
        .replace("[axes]", "[axes]\nscheduler = [\"noop\", \"deadline\"]");
    let results = run(&text);
    for file_system in ["jffs2", "ubifs", "yaffs2"] {
        let at = |access, scheduler, metric| {
            value(&results, &[access, file_system, scheduler, "directory", "all"], metric)
        };
        assert!(at("C", "noop", "page_reads").abs() < 1e-9, "{file_system}");
        assert!(at("W", "noop", "page_programs") >= 18.0, "{file_system}");
        let (one, other) =
            (at("W", "noop", "latency_mean_ns"), at("W", "deadline", "latency_mean_ns"));
        assert!((one - other).abs() < 1e-9, "{file_system}");
    }
}

#[test]
fn what_no_file_system_takes_is_refused() {
    let said = |replacements: &[(&str, &str)]| {
        let mut text = FILES.to_owned();
        for (from, to) in replacements {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let loaded = study(&text);
        let done = loaded.and_then(|study| run_study(&study, 1, &mut |_, _, _| true));
        done.map(drop).expect_err("refused").to_string()
    };
    let raw = ("[\"fat\", \"nilfs2\"]", "[\"jffs2\"]");
    let no_device = ("block_device = \"emmc-4.5-64gb\"\n", "");
    let file = ("[\"directory\"]", "[\"file\"]");
    for (replacements, expected) in [
        (
            vec![file, ("free_bytes = 1048576\n", "")],
            "host.free_bytes: is missing: the target `file`",
        ),
        (vec![file, ("1048576", "2048")], "ioping -s: a request of 4096 bytes is larger than 2048"),
        (vec![("[\"directory\"]", "[\"device\"]"), ("\"W\"", "\"WWW\"")], "no target `device`"),
        (vec![raw], "jffs2 works on raw NAND itself; leave the block device out"),
        (vec![("block_device", "device")], "host.device: is for ioping on a device itself"),
        (vec![("[axes]", "[axes]\ndevice = [\"sata-ssd\"]")], "axes.device: is for ioping on"),
        (
            vec![("[axes]", "[axes]\n\"device.cache.bytes\" = [0]")],
            "axes.device.cache.bytes: is for ioping on",
        ),
        (vec![("\"fat\"", "\"fad\"")], "did you mean `fat`?"),
        (vec![("part = \"k9f2g08u0c\"\n", "")], "part: name the chip"),
        (vec![raw, no_device, ("\"C\"", "\"D\"")], "ioping: fcntl(O_DIRECT): EINVAL"),
        (vec![("\"C\"", "\"Ds512\"")], "-s, -o and -S must be multiples of 4096 bytes with -D"),
        (
            vec![raw, no_device, ("1048576", "104857600")],
            "a file of 104857600 bytes for ioping (host.free_bytes): ENOSPC",
        ),
        (vec![("[axes]", "[mechanisms.a]\n[axes]")], "mechanisms: means nothing"),
    ] {
        let said = said(&replacements);
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(
            !said.trim_end().contains('\n') || said.contains("did you mean"),
            "one line: {said}"
        );
    }
    // Without a file system, what stands under one means nothing.
    let error = study(&STUDY.replace("free_bytes", "block_device = \"mtdblock\"\nfree_bytes"));
    assert!(error.expect_err("refused").to_string().contains("host.block_device: means nothing"));
}

/// The page tells readers to save it; this keeps what it says of the results.
#[test]
fn the_study_of_the_page_runs_as_the_page_says() {
    let page = include_str!("../../../../../docs/studies.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let mut texts = blocks.map(|(text, _)| text).filter(|text| text.contains("\"ioping-files\""));
    let text = texts.next().expect("a study on the page");
    let folder = Folder::new("ioping-page");
    let study = load(&folder.write("study.toml", text), &[], None, false).expect("right");
    let results = run_study(&study, 2, &mut |_, _, _| true).expect("a study that runs");
    let writes = |file_system, target| {
        value(&results, &[file_system, "noop", target, "all"], "device_writes")
    };
    // The page, and on FAT no more; the log of NILFS2 is written once a request.
    for target in ["directory", "file"] {
        assert!((writes("fat", target) - 50.0).abs() < 1e-9, "{}", writes("fat", target));
        assert!(writes("nilfs2", target) >= 50.0, "{}", writes("nilfs2", target));
    }
}

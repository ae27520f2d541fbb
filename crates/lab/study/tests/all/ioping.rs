//! Studies of ioping over a scheduler and a block device.

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

//! Studies of processes over a scheduler and a block device.

use crate::support::HEAD;

use std::fmt::Write as _;
use std::path::PathBuf;
use study::{Study, StudyError, StudyResults, load, run_study};

const STUDY: &str = r#"
name = "small"
title = "Readers and writers"
question = "Who waits?"
seed = 1
repeats = 2
axis_order = ["scheduler", "request_kib", "writers", "mechanism"]

[workload]
kind = "jobs"

[host]
board = "odroid-xu"
device = "emmc-4.5-64gb"
free_bytes = 1_073_741_824

[[job]]
name = "readers"
processes = 4
rw = "randread"
bs = "{request_kib}k"
requests = 200
mode = "direct"

[[job]]
name = "writers"
processes = 4
rw = "randwrite"
bs = "{request_kib}k"
requests = 200
mode = "{writers}"

[scheduler_variants.sfq-fill-none]
scheduler = "sfq"
set = { fill = "none" }

[mechanisms.no-cleaning]
device = { "cleaning.takes_time" = false }

[mechanisms.no-idling]
scheduler = { slice_idle = 0 }

[timeline]
axes = { scheduler = ["sfq-fill-none"], request_kib = [4] }

[axes]
scheduler = ["cfq-3.4", "sfq-fill-none"]
request_kib = [4, 128]
writers = ["direct"]
mechanism = ["all"]

[[extra_runs]]
axes = { scheduler = ["cfq-3.4"], request_kib = [128], mechanism = ["all", "no-cleaning", "no-idling"] }
repeats = 1
"#;

fn study(folder: &str, text: &str, overrides: &[&str]) -> Result<Study, StudyError> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("jobs-{folder}"));
    std::fs::create_dir_all(&folder).expect("a folder for the study");
    let path = folder.join("small.toml");
    std::fs::write(&path, text).expect("room for the study");
    let overrides: Vec<String> = overrides.iter().map(|given| (*given).to_owned()).collect();
    load(&path, &overrides, None, false)
}

fn run(study: &Study, workers: usize) -> StudyResults {
    run_study(study, workers, &mut |_, _, _| true).expect("a study that runs")
}

fn value(results: &StudyResults, axes: &[&str], metric: &str) -> f64 {
    let row = results
        .rows
        .iter()
        .find(|row| row.axes == axes && row.repeat == 0 && row.metric.name == metric);
    let row = row.unwrap_or_else(|| panic!("no {metric} of {axes:?}"));
    row.metric.value.to_string().parse().expect("a number")
}

#[test]
fn the_digest_does_not_depend_on_the_number_of_workers() {
    let study = study("workers", STUDY, &[]).expect("a study");
    let (one, two) = (run(&study, 1), run(&study, 2));
    assert_eq!(one.digest(), two.digest());
    assert_eq!(
        one.tables.iter().map(|table| table.name).collect::<Vec<_>>(),
        ["pooled", "latencies", "requests", "activity"]
    );
    assert!(one.tables.iter().all(|table| !table.is_empty()));
}

#[test]
fn combinations_beside_the_product_run_once_and_every_request_is_counted() {
    let study = study("counts", STUDY, &[]).expect("a study");
    assert_eq!(study.runs().expect("a plan").len(), 4 * 2 + 2);
    let results = run(&study, 2);
    for row in results.rows.iter().filter(|row| row.metric.name.ends_with("_requests")) {
        assert_eq!(row.metric.value.to_string(), "800", "{row:?}");
    }
    let pooled = &results.tables[0];
    let all = ["cfq-3.4", "128", "direct", "all", "read_requests", "1600", "requests"];
    assert!(pooled.rows().any(|row| row == all), "both repeats are pooled");
    assert_eq!(
        results.tables[2].rows().count(),
        1600,
        "the first repeat of one combination is kept"
    );
}

#[test]
fn repeats_of_extra_runs_are_pooled_with_those_of_the_axes() {
    // Three repeats of a combination that has two by the axes, with another combination in between.
    let extra = "extra_runs=[{axes = {scheduler = ['cfq-3.4'], request_kib = [4]}, repeats = 3}]";
    let study = study("pooled", STUDY, &[extra]).expect("a study");
    assert_eq!(study.runs().expect("a plan").len(), 4 * 2 + 1);
    let results = run(&study, 2);
    let own = ["cfq-3.4", "4", "direct", "all", "read_requests"];
    let rows = results.tables[0].rows().filter(|row| row[..5] == own);
    let counts: Vec<&str> = rows.map(|row| row[5]).collect();
    assert_eq!(counts, ["2400"], "800 requests of each of three repeats");
    // Every line of a table is of a place of its own.
    let histogram = &results.tables[1];
    let mut places: Vec<Vec<&str>> = histogram.rows().map(|row| row[..6].to_vec()).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), histogram.rows().count());
}

#[test]
fn what_is_switched_off_does_not_happen() {
    let study = study("mechanisms", STUDY, &[]).expect("a study");
    let results = run(&study, 2);
    let cell = |mechanism| ["cfq-3.4", "128", "direct", mechanism];
    let cleaning = |mechanism| value(&results, &cell(mechanism), "device_foreground_cleaning_ns");
    assert!(cleaning("all") > 0.0);
    assert!(cleaning("no-cleaning") < 1.0);
    let idling = |mechanism| value(&results, &cell(mechanism), "read_behind_idling_mean_ns");
    assert!(idling("no-idling") < 1.0);
}

#[test]
fn names_that_do_not_exist_are_answered_with_a_suggestion() {
    let mut wrong = String::new();
    let cases: [(&str, &[&str]); 6] = [
        ("did you mean `cfq-3.4`?", &["axes.scheduler=cfq-34"]),
        ("did you mean `emmc-4.5-64gb`?", &["host.device=emmc-4.5-64g"]),
        ("did you mean `odroid-xu`?", &["host.board=odroid-ux"]),
        ("did you mean `no-idling`?", &["axes.mechanism=no-idlin"]),
        ("did you mean `direct`?", &["axes.writers=dirct"]),
        ("cannot be free of", &["host.free_bytes=999999999999999"]),
    ];
    for (expected, overrides) in cases {
        match study("names", STUDY, overrides).and_then(|study| study.runs().map(drop)) {
            Ok(()) => writeln!(wrong, "{overrides:?} was accepted").expect("a string"),
            Err(error) if error.to_string().contains(expected) => {}
            Err(error) => writeln!(wrong, "{overrides:?}: {error}").expect("a string"),
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn kernels_of_which_nothing_is_known_are_refused_with_the_nearest() {
    for (kernel, nearest) in [("7.0", "6.12"), ("2.4.20", "2.6.29"), ("6.13", "6.12")] {
        let given = format!("host.kernel={kernel}");
        let planned = study("kernels", STUDY, &[&given]).and_then(|study| study.runs().map(drop));
        let error = planned.expect_err(kernel).to_string();
        assert!(error.contains("host.kernel") && error.contains(kernel), "{error}");
        assert!(error.ends_with(&format!("such as {nearest}")), "{error}");
    }
    for kernel in ["2.6.29", "4.9", "6.12.3"] {
        let given = format!("host.kernel={kernel}");
        let study = study("kernels", STUDY, &[&given]).expect(kernel);
        assert!(!study.runs().expect(kernel).is_empty());
    }
}

/// One process that reads once a second, much longer than a read takes: requests begin just after whole seconds.
const PACED: &str = r#"
name = "paced"
title = "One request a second"
question = "What is counted?"
seed = 1
repeats = 1

[workload]
kind = "jobs"

[host]
board = "odroid-xu"
device = "emmc-4.5-64gb"
free_bytes = 1_048_576

[[job]]
name = "reader"
processes = 1
rw = "randread"
bs = "4k"
mode = "direct"
thinktime_us = 1_000_000
TIMES

[axes]
scheduler = ["noop"]
"#;

#[test]
fn the_ramp_is_not_counted_and_the_runtime_begins_after_it() {
    // Reads begin at 0 s, and a little later than 1 s, 2 s and so on. Which of them complete in the counted time?
    let cases = [
        ("requests = 3", 3.0, 2.0),
        // At 0, 1, 2, 3 and 4 s; the one after that would begin after the end.
        ("runtime = 5", 5.0, 4.0),
        ("runtime = \"{seconds}s\"", 5.0, 4.0),
        // At 2, 3, 4, 5 and 6 s; two are in the ramp.
        ("runtime = \"5s\"\nramp_time = \"2000ms\"", 5.0, 6.0),
        ("requests = 3\nramp_time = 2", 3.0, 4.0),
        ("requests = 3\nruntime = \"1m\"", 3.0, 2.0),
        ("requests = 100\nruntime = \"1500ms\"", 2.0, 1.0),
    ];
    for (times, requests, last_s) in cases {
        let mut text = PACED.replace("TIMES", times);
        if times.contains("{seconds}") {
            text.push_str("seconds = [5]\n");
        }
        let results = run(&study("paced", &text, &[]).expect(times), 1);
        let axes = results.rows.iter().next().expect("a row").axes;
        let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
        let found = |metric| value(&results, &axes, metric);
        assert!((found("read_requests") - requests).abs() < 1e-9, "{times}");
        let end_s = found("simulated_ns") / 1e9;
        assert!(last_s < end_s && end_s < last_s + 0.1, "{times}: {end_s}");
        // Bytes a second of what is counted alone.
        let ramp_s = if times.contains("ramp") { 2.0 } else { 0.0 };
        let rate = requests * 4096.0 / (end_s - ramp_s);
        assert!((found("throughput_bytes_per_s") / rate - 1.0).abs() < 1e-6, "{times}");
    }
}

#[test]
fn several_requests_at_once_keep_to_ramp_and_runtime_too() {
    let times = "requests = 6\nramp_time = 2\niodepth = 4";
    let results = run(&study("deep", &PACED.replace("TIMES", times), &[]).expect(times), 1);
    assert!((value(&results, &["noop"], "read_requests") - 6.0).abs() < 1e-9);
    // Four at 0 s and four at 1 s are in the ramp; four at 2 s count, and two of those at 3 s are left.
    let end_s = value(&results, &["noop"], "simulated_ns") / 1e9;
    assert!(3.0 < end_s && end_s < 3.1, "{end_s}");
    // Ten a second: at 0, 0.1 and so on to 1.9 s; the one at 2 s does not begin.
    let times = "runtime = 1\nramp_time = 1\nrate_iops = 10";
    let results = run(&study("rate", &PACED.replace("TIMES", times), &[]).expect(times), 1);
    assert!((value(&results, &["noop"], "read_requests") - 10.0).abs() < 1e-9);
}

#[test]
fn a_latency_holds_the_sync_if_the_job_says_so() {
    let found = |key: &str, pace: &str| {
        let writes = PACED.replace("randread", "randwrite").replace("\"direct\"", "\"buffered\"");
        let text = writes.replace("TIMES", &format!("requests = 20\n{key}\n{pace}"));
        let results = run(&study("sync", &text, &[]).expect(key), 1);
        ["write_latency_mean_ns", "write_latency_p50_ns", "device_commands"]
            .map(|metric| value(&results, &["noop"], metric))
    };
    for pace in ["", "rate_iops = 10"] {
        let [never, ..] = found("", pace);
        let [apart, _, commands] = found("fsync = 1", pace);
        // The sync is no part of the latency: a write goes to the cache, with or without one behind it.
        assert!(apart < never * 2.0, "{apart} of {never}");
        assert!(commands >= 20.0, "a write to the device for each sync: {commands}");
        let [within, _, same_commands] = found("fsync = 1\nlatency_includes_sync = true", pace);
        // The same work, counted otherwise: a program of the chip is longer than a copy by far.
        assert!(within > apart * 5.0, "{within} of {apart}");
        assert!((commands - same_commands).abs() < 1e-9);
        let by_other_call = found("fdatasync = 1\nlatency_includes_sync = true", pace);
        assert!((by_other_call[0] - within).abs() < 1e-9, "a block device has no metadata");
        // Half of the writes are followed by a sync: the mean shows it, the median does not have to.
        let [half, ..] = found("fsync = 2\nlatency_includes_sync = true", pace);
        assert!(apart * 2.0 < half && half < within, "{half} between {apart} and {within}");
    }
}

#[test]
fn keys_of_time_and_sync_that_do_not_fit_are_refused() {
    let cases = [
        ("", "nothing ends it: give requests, runtime or both"),
        ("runtime = 0", "runtime must be above 0"),
        ("runtime = \"5x\"", "runtime is `5x`, but must be a number with us, ms, s, m or h"),
        ("runtime = 1.5", "runtime is `1.5`, but must be a whole number"),
        ("runtime = \"25h\"", "runtime, ramp_time and startdelay must be at most 86400 s"),
        (
            "requests = 1\nramp_time = \"90000s\"",
            "runtime, ramp_time and startdelay must be at most 86400 s",
        ),
        ("runtime = \"99999999999999999999s\"", "must be a whole number"),
        ("runtime = \"99999999999999h\"", "which is too long"),
        ("requests = 1\nlatency_includes_sync = true", "latency_includes_sync needs fsync"),
        ("requests = 1\nfsync = 1\nfdatasync = 1", "fsync and fdatasync exclude each other"),
        ("requests = 1\nfsync = 1\niodepth = 4", "fsync needs iodepth 1"),
        ("requests = 1\nrate_interval = 0", "rate_interval must be above 0"),
        ("requests = 1\nrate_interval = 2\nrate_iops = 2", "rate_interval excludes rate_iops"),
        ("requests = 1\nrate_process = \"poisson\"", "rate_process needs a rate"),
        ("requests = 1\nprioclass = 4", "prioclass and cmdprio_class must be 0 to 3"),
        ("requests = 1\nprio = 8", "prio and cmdprio must be 0 to 7"),
        ("requests = 1\ncmdprio_percentage = [101, 0]", "cmdprio_percentage must be 0 to 100"),
        ("requests = 1\ngap_bytes = 100", "must be a multiple of 512"),
        ("requests = 1\nbssplit = \"4k/50:8k/50\"", "give one of bs, bsrange and bssplit"),
        ("requests = 1\nblockalign = \"100\"", "blockalign must be a multiple of 512"),
        ("requests = 1\nblockalign = \"x\"", "blockalign is `x`, but must be a number with k"),
        ("requests = 1\npercentage_random = 101", "percentage_random must be 0 to 100"),
        ("requests = 1\nrandom_map = true\nblockalign = \"8k\"", "random_map needs one smallest"),
        (
            "requests = 1\nrandom_map = true\nrandom_distribution = \"zipf:0.9\"",
            "random_map needs a uniform or zoned distribution",
        ),
        ("io_size = \"0\"", "loops and io_size must be above 0"),
        ("requests = 1\nloops = 0", "loops and io_size must be above 0"),
        ("requests = 1\nzoneskip = \"4k\"", "zonerange and zoneskip need zonesize"),
        ("requests = 1\nzonesize = \"1k\"", "zonerange at least a request"),
        ("requests = 1\nzonesize = \"1g\"", "more than the region"),
        ("requests = 1\nsteadystate = \"iops:0%\"", "steadystate needs a limit above 0"),
        ("requests = 1\nsteadystate = \"iops:5%\"", "ss_dur must be at least 2 s"),
        ("requests = 1\nsize_bytes = 99_000_000_000_000", "end at byte 99000000000000 of a region"),
        ("requests = 1\nrandom_distribution = \"pareto:1\"", "must lie between 0 and 1"),
        ("requests = 1\nrandom_distribution = \"zipf:1\"", "theta must be above 0, and not 1"),
        ("requests = 1\ncmdprio_bssplit = \"4k\"", "needs SIZE/PERCENT or SIZE/PERCENT/CLASS"),
        ("requests = 1\ncmdprio_bssplit = \"4k/60:4k/60\"", "must be 0 to 100, and so must"),
        (
            "requests = 1\ncmdprio_bssplit = \"4k/60\"\ncmdprio_percentage = [1, 1]",
            "cmdprio_percentage and cmdprio_bssplit exclude each other",
        ),
        ("requests = 1\nrate_interval = \"2s,0\"", "rate_interval must be above 0"),
        ("requests = 1\nrandom_distribution = \"zoned:50/50\"", "whose requests are 100 together"),
    ];
    for (keys, expected) in cases {
        let error = study("refused", &PACED.replace("TIMES", keys), &[]).expect_err(keys);
        assert!(error.to_string().contains(expected), "{keys}: {error}");
        assert!(error.to_string().contains("job reader"), "{keys}: {error}");
    }
}

/// Short readers that exit while their read-ahead is queued. A request carries four pages, so one
/// window is eight requests, and SFQ has not served all of them when the last reader's page is there.
const ORPHANS: &str = r#"
[workload]
kind = "jobs"

[host]
board = "odroid-xu"
device = "emmc-4.5-64gb"
free_bytes = 1_073_741_824
max_sectors_kb = 16

[[job]]
name = "readers"
processes = 16
rw = "read"
bs = "4k"
requests = 100
mode = "buffered"

[[job]]
name = "writers"
processes = 4
rw = "randwrite"
bs = "64k"
requests = 100
mode = "direct"

[scheduler_variants.sfq-cancel]
scheduler = "sfq"
set = { orphans = "cancel" }

[axes]
scheduler = ["sfq", "sfq-cancel"]
"#;

#[test]
fn read_ahead_of_exited_processes_is_cancelled_where_the_scheduler_does_so() {
    let study = study("orphans", &format!("{HEAD}{ORPHANS}"), &[]).expect("a study");
    let results = run(&study, 2);
    let count = |scheduler, metric| value(&results, &[scheduler], metric) as u64;
    let cancelled = count("sfq-cancel", "cancelled_bios");
    assert!(cancelled > 0);
    // What is cancelled is not read. Without that it is, as far as the run goes on for so long.
    let (drained, others) = (count("sfq", "read_bios"), count("sfq-cancel", "read_bios"));
    assert!(others < drained && drained <= others + cancelled);
    assert_eq!(count("sfq", "read_requests"), count("sfq-cancel", "read_requests"));
    // A scheduler that drains an exited process's requests has no such row.
    assert!(
        !results
            .rows
            .iter()
            .any(|row| { row.axes == ["sfq"] && row.metric.name == "cancelled_bios" })
    );
}

//! Studies of processes over a scheduler and a block device.

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
    assert!(one.tables.iter().all(|table| !table.rows.is_empty()));
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
    assert!(pooled.rows.iter().any(|row| row == &all), "both repeats are pooled");
    assert_eq!(results.tables[2].rows.len(), 1600, "the first repeat of one combination is kept");
}

#[test]
fn repeats_of_extra_runs_are_pooled_with_those_of_the_axes() {
    // Three repeats of a combination that has two by the axes, with another combination in between.
    let extra = "extra_runs=[{axes = {scheduler = ['cfq-3.4'], request_kib = [4]}, repeats = 3}]";
    let study = study("pooled", STUDY, &[extra]).expect("a study");
    assert_eq!(study.runs().expect("a plan").len(), 4 * 2 + 1);
    let results = run(&study, 2);
    let own = ["cfq-3.4", "4", "direct", "all", "read_requests"];
    let rows = results.tables[0].rows.iter().filter(|row| row[..5] == own);
    let counts: Vec<&str> = rows.map(|row| row[5].as_str()).collect();
    assert_eq!(counts, ["2400"], "800 requests of each of three repeats");
    // Every line of a table is of a place of its own.
    let histogram = &results.tables[1];
    let mut places: Vec<&[String]> = histogram.rows.iter().map(|row| &row[..6]).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), histogram.rows.len());
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

//! The module `nandlab._native`: calls into the engine; JSON text and typed columns out.
//!
//! Every error becomes one `nandlab.NandlabError` with the whole message. Long calls release the
//! interpreter lock and give Python a chance to stop them (`boundary`).

mod boundary;
mod cells;
mod columns;
mod crash;
mod crash_search;
mod device_life;
mod device_replay;
mod image;
mod policies;
mod script;
mod serve;

use boundary::{carry_out, interruptible, tell};
use cells::{CellWorker, PythonStore};
use columns::{Columns, StudyTables};
use ftl::Value;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{create_exception, wrap_pyfunction};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use study::{DeviceOptions, ExplainOptions, ReplayOptions};

create_exception!(
    nandlab._native,
    NandlabError,
    PyValueError,
    "Bad input, with place, reason and suggestion."
);

create_exception!(
    nandlab._native,
    UncertainError,
    NandlabError,
    "An image in which something is found, but not enough to be believed."
);

fn failed(error: impl std::fmt::Display) -> PyErr {
    NandlabError::new_err(error.to_string())
}

/// Options of all calls, as JSON; each call uses its part.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    ftl: String,
    part: Option<String>,
    settings: BTreeMap<String, serde_json::Value>,
    blocks: Option<u32>,
    logical_bytes: Option<u64>,
    logical_pages: Option<u32>,
    pages_per_block: Option<u32>,
    format: Option<String>,
    time_unit: Option<String>,
    event: Option<String>,
    address: Option<String>,
    passes: Option<u32>,
    fill: bool,
    skip_bad_lines: bool,
    trace_device: Option<u32>,
    metadata: BTreeMap<String, String>,
}

/// Options of `schedule`, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleArguments {
    scheduler: String,
    settings: BTreeMap<String, String>,
    hz: u32,
    service_us: u64,
    device: Option<String>,
    queue_depth: Option<u32>,
    plug: String,
    nonrot: bool,
    sync_write_noidle: bool,
    harness: String,
    events: bool,
}

impl Options {
    fn parse(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map_err(failed)
    }

    fn trace(&self) -> PyResult<trace::Options> {
        let unknown = |option: &str, value: &str, known: &str| {
            failed(format!("{option}: `{value}` is none of {known}"))
        };
        let mut options = trace::Options {
            format: self.format.clone(),
            skip_bad_lines: self.skip_bad_lines,
            device: self.trace_device,
            ..trace::Options::default()
        };
        if let Some(unit) = &self.time_unit {
            let parsed = trace::TimeUnit::from_name(unit);
            options.time_unit =
                Some(parsed.ok_or_else(|| unknown("--time-unit", unit, "ps, ns, us"))?);
        }
        if let Some(event) = &self.event {
            options.event =
                trace::Event::from_name(event).ok_or_else(|| unknown("--event", event, "D, Q"))?;
        }
        Ok(options)
    }

    fn settings(&self) -> PyResult<BTreeMap<String, Value>> {
        let value = |value: &serde_json::Value| match value {
            serde_json::Value::Bool(switch) => Ok(Value::Switch(*switch)),
            serde_json::Value::Number(number) if number.is_i64() => {
                Ok(Value::Integer(number.as_i64().unwrap_or(0)))
            }
            serde_json::Value::String(text) => Ok(Value::from(text.as_str())),
            other => Err(failed(format!(
                "{other} is no setting: give a whole number, a word, true or false"
            ))),
        };
        self.settings.iter().map(|(name, given)| Ok((name.clone(), value(given)?))).collect()
    }

    fn device(&self) -> PyResult<DeviceOptions> {
        Ok(DeviceOptions {
            ftl: self.ftl.clone(),
            part: self.part.clone(),
            settings: self.settings()?,
            blocks: self.blocks,
            pages_per_block: self.pages_per_block,
            logical_bytes: self.logical_bytes,
        })
    }
}

/// The rows of the table `kind`: devices, formats, ftls, parts, policies, schedulers, workloads.
#[pyfunction]
fn listing(kind: &str) -> PyResult<String> {
    Ok(study::listing(kind).map_err(failed)?.to_string())
}

/// The device of a name or of a file, as a row of the table `devices`.
#[pyfunction]
fn device_row(name: &str) -> PyResult<String> {
    Ok(study::device_row(name).map_err(failed)?.to_string())
}

fn resolved(study: &study::Study) -> PyResult<serde_json::Value> {
    let mut value = serde_json::to_value(study).map_err(failed)?;
    value["runs"] = json!(study.runs().map_err(failed)?.len());
    value["columns"] = json!(study.columns());
    value["own_files"] = json!(study.own_files());
    value["stacks"] = json!(study.stacks().map_err(failed)?);
    Ok(value)
}

/// The resolved study, without running it.
#[pyfunction]
fn describe_study(
    python: Python<'_>,
    path: PathBuf,
    sets: Vec<String>,
    seed: Option<u64>,
    quick: bool,
) -> PyResult<String> {
    interruptible(python, move || {
        let study = study::load(&path, &sets, seed, quick).map_err(failed)?;
        Ok(resolved(&study)?.to_string())
    })
}

/// Runs a study; `progress(done, total, label)` may raise to stop it, and so may a signal handler.
///
/// Returns the answer as JSON, and the tables as typed columns. The JSON holds rows and curves, too, if `has_rows`.
/// `timeline` takes what happened in the first run of the study; `cells` holds finished cells.
#[pyfunction]
#[pyo3(signature = (path, sets, seed, quick, jobs, progress, has_rows, timeline=None, cells=None))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the command line")]
fn run_study(
    python: Python<'_>,
    path: PathBuf,
    sets: Vec<String>,
    seed: Option<u64>,
    quick: bool,
    jobs: usize,
    progress: Py<PyAny>,
    has_rows: bool,
    timeline: Option<PathBuf>,
    cells: Option<Py<PyAny>>,
) -> PyResult<(String, StudyTables)> {
    let store = cells.map(|cells| PythonStore::of(python, cells)).transpose()?;
    let run = move || {
        let mut study = study::load(&path, &sets, seed, quick).map_err(failed)?;
        study.timeline_file = timeline;
        let mut watch = |done: usize, total: usize, label: &str| {
            tell(&progress, done as u64, total as u64, label)
        };
        let results = match store {
            Some(mut store) => study::run_study_with(&study, jobs, &mut store, &mut watch),
            None => study::run_study(&study, jobs, &mut watch),
        };
        let results = results.map_err(failed)?;
        Ok((study_json(&study, &results, has_rows)?, StudyTables::of(results)))
    };
    // What finished before a signal came is part of the answer, which says that it was interrupted.
    carry_out(python, run)?.part()
}

fn study_json(
    study: &study::Study,
    results: &study::StudyResults,
    has_rows: bool,
) -> PyResult<String> {
    let csv = results.to_csv();
    let digest = results.digest_of(&csv);
    let mut answer = json!({
        "study": resolved(study)?,
        "columns": results.columns,
        "axis_kinds": results.axis_kinds,
        "tables": results.tables.iter().filter(|table| !table.is_empty())
            .map(|table| json!({"name": table.name, "csv": table.to_csv()})).collect::<Vec<_>>(),
        "results_digest": digest,
        "notes": results.notes,
    });
    if has_rows {
        answer["rows"] = json!(rows_json(&results.rows));
        answer["curves"] = curves_json(results);
    }
    // Moved, not copied: it may be the largest part of the answer.
    answer["results_csv"] = csv.into();
    // Looked at last: a signal may come after the last cell, while millions of rows become text. An
    // answer without this mark would drop the signal, and the caller would go on.
    answer["interrupted"] = (results.interrupted || cancellation::is_requested()).into();
    Ok(answer.to_string())
}

/// Cumulative curves, one point after the other.
fn curves_json(results: &study::StudyResults) -> serde_json::Value {
    let points: Vec<serde_json::Value> = results
        .curves
        .iter()
        .flat_map(|(axes, curve)| {
            curve.points().map(move |point| {
                let mut row: Vec<serde_json::Value> = axes.iter().map(|axis| json!(axis)).collect();
                row.extend(point.iter().map(|value| json!(value)));
                json!(row)
            })
        })
        .collect();
    let columns: Vec<&str> =
        results.columns.iter().map(String::as_str).chain(study::CURVE_COLUMNS).collect();
    json!({"columns": columns, "rows": points})
}

/// Rows of results as lists of cells.
fn rows_json(rows: &study::Rows) -> Vec<serde_json::Value> {
    rows.iter()
        .map(|row| {
            let mut cells: Vec<serde_json::Value> =
                row.axes.iter().map(|axis| json!(axis)).collect();
            cells.extend([
                json!(row.repeat),
                json!(row.metric.name),
                json!(row.metric.value),
                json!(row.metric.unit),
            ]);
            json!(cells)
        })
        .collect()
}

/// The rule that `--address` names.
fn address_rule(name: &str) -> PyResult<trace::AddressRule> {
    trace::AddressRule::from_name(name)
        .ok_or_else(|| failed(format!("--address: `{name}` is none of error, modulo, clip")))
}

/// Replays a trace on one device.
#[pyfunction]
fn replay(python: Python<'_>, trace_path: PathBuf, options_json: &str) -> PyResult<String> {
    let options = Options::parse(options_json)?;
    let address = options.address.as_deref().unwrap_or("error");
    let replay_options = ReplayOptions {
        device: options.device()?,
        trace: options.trace()?,
        address: address_rule(address)?,
        fills_first: options.fill,
        warm_up_passes: options.passes.unwrap_or(1).saturating_sub(1),
        service_times: true,
    };
    // JSON is Unicode, and a path need not be.
    let shown = trace_path.to_string_lossy().into_owned();
    let results = interruptible(python, move || {
        study::replay_trace(&trace_path, &replay_options).map_err(failed)
    })?;
    Ok(json!({
        "trace": {"path": shown, "format": results.format},
        "device": {"ftl": options.ftl, "part": results.part, "chip": results.chip, "capacity_bytes": results.capacity_bytes},
        "metrics": results.metrics.iter().map(|metric| {
            json!({"metric": metric.name, "value": metric.value, "unit": metric.unit})
        }).collect::<Vec<_>>(),
        "service_times": results.service_times,
        "notes": results.notes,
    })
    .to_string())
}

/// Wears a translation layer, or UBI, out by a trace.
#[pyfunction]
fn life_of_trace(
    python: Python<'_>,
    trace_path: PathBuf,
    options_json: &str,
    years: f64,
    bytes_per_day: Option<f64>,
) -> PyResult<String> {
    let options = Options::parse(options_json)?;
    let address = options.address.as_deref().unwrap_or("error");
    let replay = ReplayOptions {
        device: options.device()?,
        trace: options.trace()?,
        address: address_rule(address)?,
        ..ReplayOptions::default()
    };
    let life_options = study::LifeOptions { replay, bytes_per_day, years };
    let life = interruptible(python, move || {
        study::life_of_trace(&trace_path, &life_options).map_err(failed)
    })?;
    serde_json::to_string(&life).map_err(failed)
}

/// The most cycles at which data of this age keeps on a part, by its error model and its ECC.
#[pyfunction]
fn cycles_within_ecc(part: &str, data_bytes: u64, age_years: f64) -> PyResult<u32> {
    study::part_cycles_within_ecc(part, data_bytes, age_years).map_err(failed)
}

fn summary_json(summary: &trace::Summary) -> String {
    json!({
        "format": summary.format,
        "records": summary.records,
        "reads": summary.reads,
        "writes": summary.writes,
        "trims": summary.trims,
        "flushes": summary.flushes,
        "write_zeroes": summary.write_zeroes,
        "read_bytes": summary.read_bytes,
        "written_bytes": summary.written_bytes,
        "trimmed_bytes": summary.trimmed_bytes,
        "distinct_sectors_written": summary.distinct_sectors_written,
        "end_bytes": summary.end_bytes,
        "last_arrival_ns": summary.last_arrival_ns,
        "request_sizes": summary.request_sizes.iter().map(|class| {
            json!({"up_to_bytes": class.up_to_bytes, "requests": class.requests})
        }).collect::<Vec<_>>(),
        "digest": summary.digest,
        "notes": summary.notes.counters().into_iter().filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{what}: {count}"))
            .chain(summary.notes.first_skipped.iter().cloned()).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Converts a trace to the canonical Parquet form.
#[pyfunction]
fn convert(
    python: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    options_json: &str,
) -> PyResult<String> {
    let options = Options::parse(options_json)?;
    let trace_options = options.trace()?;
    let summary = interruptible(python, move || {
        trace::convert(&input, &trace_options, &output, &options.metadata).map_err(failed)
    })?;
    Ok(summary_json(&summary))
}

/// Performs a few operations on a small device and shows everything that happens.
#[pyfunction]
fn explain(
    python: Python<'_>,
    ftl: String,
    operations: String,
    options_json: &str,
) -> PyResult<String> {
    let options = Options::parse(options_json)?;
    let explain_options = ExplainOptions {
        pages_per_block: options.pages_per_block.unwrap_or(4),
        logical_pages: options.logical_pages,
        blocks: options.blocks,
        settings: options.settings()?,
    };
    interruptible(python, move || {
        let explained = study::explain(&ftl, &operations, &explain_options).map_err(failed)?;
        serde_json::to_string(&explained).map_err(failed)
    })
}

/// What a scheduler does with a table of requests, or with recorded events: a table as CSV.
#[pyfunction]
fn schedule(
    python: Python<'_>,
    shown: String,
    text: String,
    arguments_json: &str,
) -> PyResult<String> {
    let given: ScheduleArguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let settings = given.settings.iter();
    let options = study::ScheduleOptions {
        scheduler: given.scheduler,
        settings: settings.map(|(name, text)| (name.clone(), Value::from(text.as_str()))).collect(),
        hz: given.hz,
        service_us: given.service_us,
        device: given.device,
        queue_depth: given.queue_depth,
        plug: given.plug,
        nonrot: given.nonrot,
        sync_write_noidle: given.sync_write_noidle,
        harness: given.harness,
    };
    let run = if given.events { study::schedule_events } else { study::schedule };
    interruptible(python, move || run(&shown, &text, &options).map_err(failed))
}

/// Asks all calls that are under way to stop; one that begins when none is left takes that back.
///
/// A signal handler runs in the main thread alone, and so never in a call of another thread.
#[pyfunction]
fn stop() {
    cancellation::request();
}

/// True if all calls that are under way were asked to stop: a function that one of them calls asks for it.
#[pyfunction]
fn is_stopping() -> bool {
    cancellation::is_requested()
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NandlabError", module.py().get_type::<NandlabError>())?;
    module.add("UncertainError", module.py().get_type::<UncertainError>())?;
    module.add_class::<Columns>()?;
    module.add_class::<CellWorker>()?;
    module.add_class::<StudyTables>()?;
    module.add_function(wrap_pyfunction!(device_row, module)?)?;
    module.add_function(wrap_pyfunction!(listing, module)?)?;
    module.add_function(wrap_pyfunction!(stop, module)?)?;
    module.add_function(wrap_pyfunction!(is_stopping, module)?)?;
    module.add_function(wrap_pyfunction!(describe_study, module)?)?;
    module.add_function(wrap_pyfunction!(run_study, module)?)?;
    module.add_function(wrap_pyfunction!(replay, module)?)?;
    module.add_function(wrap_pyfunction!(life_of_trace, module)?)?;
    module.add_function(wrap_pyfunction!(cycles_within_ecc, module)?)?;
    module.add_function(wrap_pyfunction!(device_life::life_of_device, module)?)?;
    module.add_function(wrap_pyfunction!(device_replay::replay_on_device, module)?)?;
    module.add_function(wrap_pyfunction!(convert, module)?)?;
    module.add_function(wrap_pyfunction!(schedule, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(crash::cut_script, module)?)?;
    module.add_function(wrap_pyfunction!(crash_search::minimise_script, module)?)?;
    module.add_function(wrap_pyfunction!(crash_search::search_scripts, module)?)?;
    module.add_function(wrap_pyfunction!(script::run_script, module)?)?;
    policies::register(module)?;
    serve::register(module)?;
    image::register(module)
}

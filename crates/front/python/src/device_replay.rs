//! `nandlab replay --device`: a trace through schedulers and devices in simulated time.

use crate::boundary::interruptible;
use crate::{Options, address_rule, failed};
use device_replay::{Pace, Preconditioning, ReplayOptions, Stacks};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of the call, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    device: String,
    changes: BTreeMap<String, String>,
    ftls: Vec<String>,
    schedulers: Vec<String>,
    precondition: String,
    /// Millionths of the trace's time, in an open loop.
    time_ppm: Option<u32>,
    /// Requests outstanding, in a closed loop.
    queue_depth: Option<u32>,
    address: String,
    nr_requests: u32,
    timeline: Option<PathBuf>,
    seed: u64,
}

/// Replays a trace on each layer under each scheduler; the answer holds the conditions and a list of runs.
#[pyfunction]
pub(crate) fn replay_on_device(
    python: Python<'_>,
    trace_path: PathBuf,
    arguments_json: &str,
    reading_json: &str,
) -> PyResult<String> {
    let given: Arguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let reading = Options::parse(reading_json)?.trace()?;
    let preconditioning = Preconditioning::from_name(&given.precondition).ok_or_else(|| {
        failed(format!(
            "--precondition: `{}` is none of none, fill, random:PERCENT (1 to 1000) and steady",
            given.precondition
        ))
    })?;
    let pace = match given.queue_depth {
        Some(queue_depth) => Pace::ClosedLoop { queue_depth },
        None => Pace::OpenLoop { time_ppm: given.time_ppm.unwrap_or(1_000_000) },
    };
    let options = ReplayOptions {
        trace: trace_path.clone(),
        reading,
        pace,
        address: address_rule(&given.address)?,
        nr_requests: given.nr_requests,
        timeline: given.timeline,
        seed: given.seed,
    };
    let stacks = Stacks {
        device: given.device,
        changes: given.changes,
        ftls: given.ftls,
        schedulers: given.schedulers,
        preconditioning,
    };
    let spec = device_replay::device_of(&stacks).map_err(failed)?;
    let runs = interruptible(python, move || {
        device_replay::replay_all(&options, &stacks).map_err(failed)
    })?;
    Ok(json!({
        "trace": {"path": trace_path.to_string_lossy(), "format": runs[0].outcome.format},
        "device": {"name": spec.name, "summary": spec.summary, "part": spec.flash.map(|flash| flash.part)},
        "conditions": {
            "precondition": given.precondition,
            "pace": pace,
            "address": given.address,
            "nr_requests": given.nr_requests,
            "seed": given.seed,
        },
        "parts": device_replay::PARTS,
        "runs": runs,
    })
    .to_string())
}

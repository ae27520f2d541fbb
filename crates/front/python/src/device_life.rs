//! `nandlab life --device`: how long a named device lasts under a trace.

use crate::boundary::interruptible;
use crate::{Options, address_rule, failed};
use pyo3::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of the call, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    device: String,
    changes: BTreeMap<String, String>,
    address: String,
    bytes_per_day: Option<f64>,
    years: f64,
}

/// Wears a named device out by a trace.
#[pyfunction]
pub(crate) fn life_of_device(
    python: Python<'_>,
    trace_path: PathBuf,
    arguments_json: &str,
    reading_json: &str,
) -> PyResult<String> {
    let given: Arguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let options = study::DeviceLifeOptions {
        device: given.device,
        changes: given.changes,
        trace: Options::parse(reading_json)?.trace()?,
        address: address_rule(&given.address)?,
        bytes_per_day: given.bytes_per_day,
        years: given.years,
    };
    let life = interruptible(python, move || {
        study::life_of_device(&trace_path, &options).map_err(failed)
    })?;
    serde_json::to_string(&life).map_err(failed)
}

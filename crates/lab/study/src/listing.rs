//! What there is, from the tables: boards, devices, file systems, layers, parts, schedulers and the rest.

use crate::StudyError;
use crate::raw_nand::TESTS;
use crate::workload::table::WORKLOADS;
use ftl::cleaning::POLICIES;
use ftl::{COMMON_PARAMETERS, FTLS, Parameter};
use sched::SCHEDULERS;
use serde_json::{Value, json};

const KINDS: [&str; 13] = [
    "boards",
    "devices",
    "file-systems",
    "formats",
    "ftls",
    "guarantees",
    "oob-layouts",
    "parts",
    "policies",
    "schedulers",
    "script-commands",
    "tests",
    "workloads",
];

/// The device of a name, or of a file whose name ends in `.toml`, as a row of the table `devices`.
///
/// # Errors
/// [`StudyError`] of a device that does not exist, with a suggestion, or of a file that describes none.
pub fn device_row(name: &str) -> Result<Value, StudyError> {
    Ok(serde_json::to_value(device::find_or_load(name)?).expect("plain data"))
}

/// The rows of one table as JSON objects, each with `name` and `summary`.
///
/// # Errors
/// [`StudyError::Unknown`] for a kind of list that does not exist, with a suggestion.
pub fn listing(kind: &str) -> Result<Value, StudyError> {
    Ok(match kind {
        "ftls" => FTLS.iter().map(|entry| ftl(entry)).collect(),
        // Rows that are plain data already have the shape of their file.
        "devices" => serde_json::to_value(device::devices()).expect("plain data"),
        "boards" => serde_json::to_value(board::catalogue()).expect("plain data"),
        "file-systems" => file_systems(),
        "guarantees" => guarantees(),
        "oob-layouts" => mtd::LAYOUTS
            .iter()
            .map(|layout| {
                json!({
                    "name": layout.name,
                    "summary": layout.summary,
                    "page_bytes": layout.page_bytes,
                    "oob_bytes": layout.oob_bytes,
                })
            })
            .collect(),
        "schedulers" => schedulers(),
        "parts" => {
            let mut parts = serde_json::to_value(nand::catalogue()).expect("plain data");
            // The default is a constant of `nand`, no key of a part file.
            for part in parts.as_array_mut().expect("a list") {
                part["is_default"] = json!(part["name"] == nand::DEFAULT_PART);
            }
            parts
        }
        "policies" => POLICIES
            .iter()
            .map(|entry| json!({"name": entry.name, "summary": entry.summary, "source": entry.source}))
            .collect(),
        "tests" => TESTS
            .iter()
            .map(|entry| json!({"name": entry.name, "summary": entry.summary, "axes": entry.axes}))
            .collect(),
        "script-commands" => script::COMMANDS
            .iter()
            .map(|row| {
                let summary = row.does.replace('`', "");
                json!({
                    "name": row.name, "summary": summary, "group": row.group.name(), "forms": row.forms,
                })
            })
            .collect(),
        "workloads" => WORKLOADS
            .iter()
            .map(|entry| json!({"name": entry.name, "summary": entry.summary, "keys": entry.keys}))
            .collect(),
        "formats" => trace::FORMATS
            .iter()
            .map(|entry| {
                json!({
                    "name": entry.name,
                    "summary": entry.summary,
                    "file_names": entry.file_names,
                    "time": entry.time,
                    "address": entry.address,
                    "length": entry.length,
                })
            })
            .collect(),
        _ => return Err(StudyError::unknown("kind of list", kind, KINDS.into_iter())),
    })
}

/// The file systems that are shown: the toy of the tests is not.
fn file_systems() -> Value {
    file_systems::KINDS
        .iter()
        .filter(|kind| kind.is_shown)
        .map(|kind| {
            json!({
                "name": kind.name,
                "summary": kind.summary,
                "profiles": kind.profiles,
                "is_on_block_device": kind.is_on_block_device,
                "usual_block_device":
                    kind.is_on_block_device.then_some(kind.usual_block_device),
            })
        })
        .collect()
}

/// What each file system guarantees across a power cut, and the losses that are known.
fn guarantees() -> Value {
    crash::guarantees()
        .map(|entry| {
            json!({
                "name": entry.kind,
                "summary": format!("safe: {}", entry.safe),
                "in_short": entry.durable.in_short(),
                "new_file": entry.new_file,
                "beyond": entry.beyond,
                "beyond_torn_page": entry.beyond_torn_page,
                "hazards": entry.hazards.iter().map(|hazard| {
                    json!({"name": hazard.name, "summary": hazard.summary})
                }).collect::<Vec<Value>>(),
            })
        })
        .collect()
}

/// The schedulers with their tunables.
fn schedulers() -> Value {
    SCHEDULERS
        .iter()
        .map(|entry| {
            json!({
                "name": entry.name,
                "aliases": entry.aliases,
                "summary": entry.summary,
                "source": entry.source,
                "parameters": entry.tunables().map(parameter).collect::<Vec<Value>>(),
            })
        })
        .collect()
}

/// The entry of a translation layer.
fn ftl(entry: &ftl::FtlEntry) -> Value {
    let parameters: Vec<Value> =
        entry.parameters.iter().chain(COMMON_PARAMETERS).map(parameter).collect();
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "features": {
            "mapping": entry.features.mapping,
            "first_write": entry.features.first_write,
            "overwrite": entry.features.overwrite,
            "block_kinds": entry.features.block_kinds,
        },
        "parameters": parameters,
    })
}

fn parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "takes": parameter.kind.to_string(),
        "default": parameter.default,
        "summary": parameter.summary,
    })
}

//! `nandlab check`: what every policy of a kind keeps, tried on one.

use crate::boundary::{interruptible, tell};
use crate::failed;
use ftl::Value;
use policy_check::{
    Broken, Checked, Effort, LayerCheck, check_admission, check_layer, check_scheduler,
};
use pyo3::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

/// Checks a policy that is in the table of its kind; the answer is JSON.
///
/// `progress(done, total, label)` may raise to stop it.
///
/// # Errors
/// A kind or a name that there is not.
#[pyfunction]
pub(super) fn check_policy(
    python: Python<'_>,
    kind: String,
    name: String,
    sequences: u32,
    operations: u32,
    seed: u64,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let effort = Effort { sequences, operations, seed };
    interruptible(python, move || {
        let mut watch = |done: u32, total: u32| {
            tell(&progress, done.into(), total.into(), "sequences");
        };
        let outcome = carry_out(&kind, &name, effort, &mut watch)?;
        Ok(told(&outcome).to_string())
    })
}

fn carry_out(
    kind: &str,
    name: &str,
    effort: Effort,
    watch: &mut dyn FnMut(u32, u32),
) -> PyResult<Result<Checked, Broken>> {
    let unknown = || failed(format!("there is no policy `{name}` of the kind {kind}"));
    let layer = |name: &str, given| -> PyResult<LayerCheck<'_>> {
        Ok(LayerCheck { entry: ftl::find_ftl(name).ok_or_else(unknown)?, given })
    };
    match kind {
        "layer" => Ok(check_layer(&layer(name, BTreeMap::new())?, effort, watch)),
        "cleaning" => {
            ftl::cleaning::find_policy(name).ok_or_else(unknown)?;
            // A policy is tried in the layer that asks it for every block that is emptied.
            let given = BTreeMap::from([("cleaning".to_owned(), Value::Word(name.to_owned()))]);
            Ok(check_layer(&layer("page", given)?, effort, watch))
        }
        "wear-leveling" => {
            // Low, so that a policy which heeds the threshold moves data in a short sequence.
            let given = BTreeMap::from([
                ("wear_leveling".to_owned(), Value::Word(name.to_owned())),
                ("wear_threshold".to_owned(), Value::Integer(2)),
            ]);
            Ok(check_layer(&layer("page", given)?, effort, watch))
        }
        "cache-admission" => Ok(check_admission(name, effort, watch)),
        "scheduler" => {
            let entry = sched::find_scheduler(name).ok_or_else(unknown)?;
            Ok(check_scheduler(entry, effort, watch))
        }
        _ => Err(unknown()),
    }
}

fn told(outcome: &Result<Checked, Broken>) -> serde_json::Value {
    match outcome {
        Ok(checked) => {
            let counts: Vec<_> =
                checked.iter().map(|(what, count)| json!({"what": what, "count": count})).collect();
            json!({"passed": true, "checked": counts})
        }
        Err(Broken { what, conditions, operations, kept }) => json!({
            "passed": false, "broke": what, "conditions": conditions, "operations": operations,
            "sequences_kept": kept,
        }),
    }
}

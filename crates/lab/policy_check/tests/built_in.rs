//! The built-in rows keep what the checks ask, and planted faults are found.

use ftl::cleaning::POLICIES;
use ftl::{FTLS, FtlEntry, Value};
use policy_check::{Effort, LayerCheck, check_layer, check_scheduler};
use sched::SCHEDULERS;
use std::collections::BTreeMap;

const EFFORT: Effort = Effort { sequences: 60, operations: 120, seed: 1 };

fn layer(entry: &FtlEntry, given: BTreeMap<String, Value>) -> LayerCheck<'_> {
    LayerCheck { entry, given }
}

#[test]
fn every_layer_passes() {
    for entry in FTLS {
        let checked = check_layer(&layer(entry, BTreeMap::new()), EFFORT, &mut |_, _| {});
        let checked = checked.unwrap_or_else(|broken| panic!("{}: {broken:#?}", entry.name));
        let count = |what| checked.iter().find(|(name, _)| *name == what).expect("counted").1;
        assert!(count("power cuts") > 200, "{}: {checked:?}", entry.name);
        assert!(count("power cuts in a rebuild") > 100, "{}: {checked:?}", entry.name);
        assert!(count("blocks that went bad") > 5, "{}: {checked:?}", entry.name);
    }
}

#[test]
fn every_cleaning_policy_passes() {
    let page = ftl::find_ftl("page").expect("in the table");
    for policy in POLICIES {
        let given = BTreeMap::from([("cleaning".to_owned(), Value::from(policy.name))]);
        check_layer(&layer(page, given), EFFORT, &mut |_, _| {})
            .unwrap_or_else(|broken| panic!("{}: {broken:#?}", policy.name));
    }
}

#[test]
fn every_scheduler_passes() {
    for entry in SCHEDULERS {
        check_scheduler(entry, EFFORT, &mut |_, _| {})
            .unwrap_or_else(|broken| panic!("{}: {broken:#?}", entry.name));
    }
}

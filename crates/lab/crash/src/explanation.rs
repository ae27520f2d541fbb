//! What is wrong with a tree that is not allowed, in words.

use crate::history::{Dirty, State};
use crate::judgement::Mismatch;
use crate::tree::{Row, Tree};
use std::sync::Arc;

/// A name that a directory tells leads to nothing.
pub(crate) fn leads_nowhere(states: &[State], path: &[u8]) -> Mismatch {
    Mismatch {
        was_safe: states[0].tree.rows.contains_key(path),
        path: path.to_vec(),
        expected: "no such name, or one that can be read".into(),
        found: "a name of nothing".into(),
    }
}

/// The path that says best what is wrong: one that was safe and is not as it was, else the first
/// that is in none of the states.
pub(crate) fn explain(states: &[State], dirty: &Dirty, found: &Tree) -> Mismatch {
    let safe = &states[0].tree;
    let is_untouched = |path: &[u8], row: &Arc<Row>| {
        let untouched = |state: &State| {
            // Hazards are states of their own and say nothing about what should be there.
            state
                .tree
                .rows
                .get(path)
                .is_some_and(|other| Arc::ptr_eq(row, other) || row.is_same(other))
        };
        states.iter().filter(|state| state.hazard.is_none()).all(untouched)
    };
    for (path, row) in &safe.rows {
        let there = found.rows.get(path);
        if there.is_none_or(|there| !there.is_same(row))
            && is_untouched(path, row)
            && (there.is_none() || !dirty.contains_key(&row.inode))
        {
            let found = describe_beside(Some(row), there);
            return Mismatch {
                was_safe: true,
                path: path.clone(),
                expected: row.describe(),
                found,
            };
        }
    }
    let is_known = |path: &[u8], row: Option<&Arc<Row>>| {
        states.iter().any(|state| match (state.tree.rows.get(path), row) {
            (Some(known), Some(row)) => known.is_same(row),
            (None, None) => true,
            _ => false,
        })
    };
    let newest = &states.last().expect("a window has a state").tree;
    let strange = found.rows.iter().map(|(path, row)| (path, Some(row)));
    let missing = newest.rows.keys().filter(|path| !found.rows.contains_key(*path));
    let mut all = strange.chain(missing.map(|path| (path, None)));
    let path = match all.find(|(path, row)| !is_known(path, *row)) {
        Some((path, _)) => path.clone(),
        None => found.first_difference(newest).unwrap_or_default(),
    };
    let newest = newest.rows.get(&path);
    let expected = describe_either(safe.rows.get(&path), newest);
    let found = describe_beside(newest, found.rows.get(&path));
    Mismatch { was_safe: false, path, expected, found }
}

fn describe(row: Option<&Arc<Row>>) -> String {
    row.map_or("nothing".into(), |row| row.describe())
}

/// What a path may show, where both differ in what a line tells.
pub(crate) fn describe_either(old: Option<&Arc<Row>>, new: Option<&Arc<Row>>) -> String {
    match (describe(old), describe(new)) {
        (old, new) if old == new => new,
        (old, new) => format!("{old} or {new}"),
    }
}

/// What was found; where a line tells the same of what was expected, the bytes that differ.
pub(crate) fn describe_beside(known: Option<&Arc<Row>>, found: Option<&Arc<Row>>) -> String {
    match (known, found) {
        (Some(known), Some(row)) if known.facts == row.facts => describe_bytes(known, row),
        (_, row) => describe(row),
    }
}

fn describe_bytes(known: &Row, found: &Row) -> String {
    let pairs = || known.content.bytes().zip(found.content.bytes());
    let first = pairs().take_while(|(known, found)| known == found).count();
    let other = pairs().filter(|(a, b)| a != b).count();
    format!("{}: {other} bytes are others, the first is byte {first}", found.describe())
}

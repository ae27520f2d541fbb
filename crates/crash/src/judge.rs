//! Whether a tree that was found after a cut is one of those that the guarantee allows.

use crate::guarantee::{Hazard, Order};
use crate::history::{History, State};
use crate::tree::{Row, Tree};
use posix::FileType;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// A state of the history.
    State,
    /// A state of the history but for a file that was being written.
    PartOfWrite,
    /// What the real code is known to lose.
    Hazard(&'static Hazard),
}

/// Why a tree is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// It was safe, and not touched since.
    pub(crate) was_safe: bool,
    pub(crate) path: Vec<u8>,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Judges a tree by the states of a window.
pub(crate) fn judge(
    history: &History,
    window: RangeInclusive<usize>,
    found: &Tree,
) -> Result<Judgement, Mismatch> {
    let states = &history.states()[window];
    let differing = differences(states, found);
    if let Some(at) = (0..states.len()).rev().find(|at| differing[*at] == Differing::None) {
        return Ok(states[at].hazard.map_or(Judgement::State, Judgement::Hazard));
    }
    for (at, state) in states.iter().enumerate() {
        let ends = match history.guarantee().order {
            Order::Calls => at + 1..states.len().min(at + 2),
            Order::CallsWithChunks => at + 1..states.len(),
        };
        if differing[at] == Differing::OneFile && state.hazard.is_none() {
            for end in ends.rev() {
                if is_part_of_writes(&states[at..=end], found) {
                    return Ok(Judgement::PartOfWrite);
                }
            }
        }
    }
    Err(explain(states, found))
}

/// How a tree differs from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differing {
    /// Not at all.
    None,
    /// In the bytes of one file, perhaps under several names.
    OneFile,
    /// More.
    More,
}

/// Compares a tree with each state; rows that states share are compared once.
fn differences(states: &[State], found: &Tree) -> Vec<Differing> {
    let mut all: Vec<Differing> = states
        .iter()
        .map(|state| match state.tree.rows.len() == found.rows.len() {
            true => Differing::None,
            false => Differing::More,
        })
        .collect();
    let mut files = vec![None; states.len()];
    for (path, row) in &found.rows {
        let mut last: Option<(&Arc<Row>, Differing)> = None;
        for (at, state) in states.iter().enumerate() {
            if all[at] == Differing::More {
                continue;
            }
            let difference = match (state.tree.rows.get(path), last) {
                (None, _) => Differing::More,
                (Some(known), Some((same, difference))) if Arc::ptr_eq(known, same) => difference,
                (Some(known), _) => {
                    let difference = difference(known, row);
                    last = Some((known, difference));
                    difference
                }
            };
            if difference == Differing::OneFile {
                let file = files[at].get_or_insert(row.inode);
                all[at] = if *file == row.inode { Differing::OneFile } else { Differing::More };
            } else if difference == Differing::More {
                all[at] = Differing::More;
            }
        }
    }
    all
}

fn difference(known: &Row, found: &Row) -> Differing {
    if known.is_same(found) {
        return Differing::None;
    }
    let mut facts = known.facts.clone();
    facts.size_bytes = found.facts.size_bytes;
    match facts == found.facts && facts.kind == FileType::Regular {
        true => Differing::OneFile,
        false => Differing::More,
    }
}

/// True if the file in which `found` differs from the first of the states has only bytes that one of
/// the states has there, and all between them are writes to it.
fn is_part_of_writes(states: &[State], found: &Tree) -> bool {
    let (first, later) = (&states[0], &states[1..]);
    let written = later[0].written;
    if written.is_none() || later.iter().any(|state| state.written != written) {
        return false;
    }
    found.rows.iter().all(|(path, row)| {
        let Some(known) = first.tree.rows.get(path) else { return false };
        known.is_same(row)
            || Some(known.inode) == written && {
                let versions: Option<Vec<&Row>> = states
                    .iter()
                    .map(|state| state.tree.rows.get(path).map(AsRef::as_ref))
                    .collect();
                versions.is_some_and(|versions| is_mixture(&versions, row))
            }
    })
}

/// True if each byte is that of a version; what lies behind a version's end counts as zero.
fn is_mixture(versions: &[&Row], found: &Row) -> bool {
    let sizes = versions.iter().map(|row| row.content.len());
    let (least, most) =
        (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    let byte = |row: &Row, at: usize| row.content.get(at).copied().unwrap_or(0);
    (least..=most).contains(&found.content.len())
        && found
            .content
            .iter()
            .enumerate()
            .all(|(at, found)| versions.iter().any(|row| byte(row, at) == *found))
}

/// The path that says best what is wrong: one that was safe and is not as it was, else the first
/// that is in none of the states.
fn explain(states: &[State], found: &Tree) -> Mismatch {
    let describe = |row: Option<&Arc<Row>>| row.map_or("nothing".into(), |row| row.describe());
    let safe = &states[0].tree;
    let is_untouched = |path: &[u8], row: &Arc<Row>| {
        let untouched = |state: &State| {
            state.tree.rows.get(path).is_some_and(|other| Arc::ptr_eq(row, other) || row.is_same(other))
        };
        states.iter().filter(|state| state.hazard.is_none()).all(untouched)
    };
    for (path, row) in &safe.rows {
        let there = found.rows.get(path);
        if there.is_none_or(|there| !there.is_same(row)) && is_untouched(path, row) {
            let mut seen = describe(there);
            if let Some(there) = there
                && there.facts == row.facts
            {
                seen = describe_bytes(row, there);
            }
            let (path, expected) = (path.clone(), row.describe());
            return Mismatch { was_safe: true, path, expected, found: seen };
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
    let expected = match (safe.rows.get(&path), newest.rows.get(&path)) {
        (old, new) if describe(old) == describe(new) => describe(new),
        (old, new) => format!("{} or {}", describe(old), describe(new)),
    };
    let seen = match (newest.rows.get(&path), found.rows.get(&path)) {
        (Some(known), Some(row)) if known.facts == row.facts => describe_bytes(known, row),
        (_, row) => describe(row),
    };
    Mismatch { was_safe: false, path, expected, found: seen }
}

fn describe_bytes(known: &Row, found: &Row) -> String {
    let pairs = known.content.iter().zip(found.content.iter());
    let first = pairs.take_while(|(known, found)| known == found).count();
    let other = known.content.iter().zip(found.content.iter()).filter(|(a, b)| a != b).count();
    format!("{}: {other} bytes are others, the first is byte {first}", found.describe())
}

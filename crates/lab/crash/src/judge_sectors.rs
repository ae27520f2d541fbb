//! Trees of a file system that orders nothing: what was safe and not touched since is there, and for what was
//! touched there are names.

use crate::explanation::{describe_beside, describe_either, leads_nowhere};
use crate::history::{History, State, Window};
use crate::judgement::{Judgement, Mismatch};
use crate::mixture::is_mixture;
use crate::tree::{Row, Tree};
use fs_api::{FileType, InodeNumber};
use mount::guarantee::{Hazard, LOST_FILE, STRANGE_NAME, WRONG_BYTES};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Each sector old or new. Where several hazards struck, the judgement names the first; [`hazards`] has all.
pub(crate) fn sectors(
    history: &History,
    window: &Window,
    found: &Tree,
) -> Result<Judgement, Mismatch> {
    let states = &history.states()[window.states.clone()];
    if let Some(path) = found.dangling.first() {
        return Err(leads_nowhere(states, path));
    }
    for (path, row) in &states[0].tree.rows {
        if let Some(mismatch) = lost(history, window, (path, row), found) {
            return Err(mismatch);
        }
    }
    if let Some(path) = found.rows.keys().find(|path| is_out_of_nothing(states, path)) {
        return Err(Mismatch {
            was_safe: false,
            path: path.clone(),
            expected: "nothing".into(),
            found: describe_beside(None, found.rows.get(path)),
        });
    }
    let hazards = hazards(history, window, found);
    let is_state = || states.iter().rev().any(|state| state.tree.is_same(found));
    Ok(match hazards.first() {
        Some(hazard) => Judgement::Hazard(hazard),
        None if is_state() => Judgement::State,
        None => Judgement::PartOfWrite,
    })
}

/// True of a name that no state has, in a directory whose names did not change: no sector of it was written.
fn is_out_of_nothing(states: &[State], path: &[u8]) -> bool {
    let parent = parent_of(path);
    let names = |state: &State| -> Option<(InodeNumber, Vec<Vec<u8>>)> {
        let inode = state.tree.rows.get(parent)?.inode;
        let rows = state.tree.rows.keys();
        let names = rows.filter(|name| !name.is_empty() && parent_of(name) == parent);
        Some((inode, names.cloned().collect()))
    };
    let Some(first) = names(&states[0]) else { return false };
    !path.is_empty()
        && !states.iter().any(|state| state.tree.rows.contains_key(path))
        && states[1..].iter().all(|state| names(state).as_ref() == Some(&first))
}

/// The directory that a name stands in; the root's path is empty.
fn parent_of(path: &[u8]) -> &[u8] {
    let cut = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..cut]
}

/// What is wrong with a name that was safe; nothing if it is there, or was touched since.
fn lost(
    history: &History,
    window: &Window,
    (path, row): (&Vec<u8>, &Arc<Row>),
    found: &Tree,
) -> Option<Mismatch> {
    let states = &history.states()[window.states.clone()];
    let names_it = |tree: &Tree| tree.rows.get(path).is_some_and(|other| other.inode == row.inode);
    if !states.iter().all(|state| names_it(&state.tree)) {
        return None;
    }
    let versions = versions(history, window, row.inode);
    let there = found.rows.get(path);
    let is_settled = versions.windows(2).all(|pair| pair[0].is_same(pair[1]));
    let is_kept = match there {
        // A file that was written since keeps its name, and may have any bytes.
        Some(there) if !is_settled => there.facts.kind == row.facts.kind,
        Some(there) => versions[0].is_same(there),
        // Bytes of a file that was written since may be out of reach, but its slot is there.
        None => !is_settled && found.unreadable.contains(path),
    };
    if is_kept {
        return None;
    }
    let expected = versions.first().copied();
    Some(Mismatch {
        was_safe: true,
        path: path.clone(),
        expected: describe_either(expected, versions.last().copied()),
        found: describe_beside(expected, there),
    })
}

/// Rows of a file since it was safe, each once.
fn versions<'a>(history: &'a History, window: &Window, inode: InodeNumber) -> Vec<&'a Arc<Row>> {
    let (first, last) = (*window.states.start(), *window.states.end());
    let since = window.dirty.get(&inode).copied().unwrap_or(first).min(last);
    let mut versions: Vec<&Arc<Row>> = Vec::new();
    for row in history.rows_of(inode, since..=last).filter_map(<[_]>::first) {
        if versions.last().is_none_or(|last| !Arc::ptr_eq(last, row)) {
            versions.push(row);
        }
    }
    versions
}

/// What is neither old nor new, by its names.
pub(crate) fn hazards(history: &History, window: &Window, found: &Tree) -> Vec<&'static Hazard> {
    let states = &history.states()[window.states.clone()];
    let mut hazards = Vec::new();
    let has_wrong_bytes = |(path, row): (&Vec<u8>, &Arc<Row>)| {
        let known = states.iter().filter_map(|state| state.tree.rows.get(path));
        let inodes: BTreeSet<InodeNumber> =
            known.filter(|known| known.facts.kind == row.facts.kind).map(|row| row.inode).collect();
        row.facts.kind == FileType::Regular
            && !inodes.into_iter().any(|inode| {
                let versions = versions(history, window, inode);
                let versions: Vec<&Row> = versions.iter().map(AsRef::as_ref).collect();
                is_mixture(&versions, row)
            })
    };
    let is_known = |path: &Vec<u8>| states.iter().any(|state| state.tree.rows.contains_key(path));
    if !found.unreadable.is_empty()
        || found.rows.iter().filter(|(path, _)| is_known(path)).any(has_wrong_bytes)
    {
        hazards.push(&WRONG_BYTES);
    }
    let mut names = found.rows.keys().chain(&found.unreadable);
    if !names.all(is_known) {
        hazards.push(&STRANGE_NAME);
    }
    let is_gone = |row: &Arc<Row>| {
        let mut all = states.iter().map(|state| {
            let rows = state.tree.rows.iter().filter(|(_, other)| other.inode == row.inode);
            rows.map(|(path, _)| path).collect::<Vec<_>>()
        });
        // It had a name in every state, and none of them is there.
        all.all(|paths| {
            !paths.is_empty()
                && !paths
                    .iter()
                    .any(|path| found.rows.contains_key(*path) || found.unreadable.contains(*path))
        })
    };
    if states[0].tree.rows.values().any(is_gone) {
        hazards.push(&LOST_FILE);
    }
    hazards
}

//! Trees where names go through one journal head, in their order, and each file's bytes and attributes
//! through another, or through none yet.

use crate::history::{History, Window};
use crate::judgement::{Judgement, Mismatch};
use crate::mixture::has_page;
use crate::tree::{Row, Tree};
use fs_api::{InodeNumber, PAGE_BYTES};
use std::collections::BTreeMap;
use std::sync::Arc;

// `UBIFS_BLOCK_SIZE`: a data node holds a block, and each is on the medium or not.
/// Bytes that are written as one: blocks are pages.
const BLOCK_BYTES: usize = 4096;
const _: () = assert!(BLOCK_BYTES == PAGE_BYTES);

/// Rows of a file since it was safe, each once.
type Versions<'a> = Vec<&'a Arc<Row>>;

/// Names as in one of the states, and each file a mixture of what it was since it was safe.
pub(crate) fn names_in_order(
    history: &History,
    window: &Window,
    found: &Tree,
) -> Result<Judgement, Mismatch> {
    let mut known: BTreeMap<InodeNumber, Versions> = BTreeMap::new();
    let states = &history.states()[window.states.clone()];
    let mut first_wrong = None;
    // The newest first, so that the explanation is about the state that came closest.
    for state in states.iter().rev() {
        let tree = &state.tree;
        if !tree.rows.keys().eq(found.rows.keys()) {
            continue;
        }
        let wrong = tree.rows.iter().find(|(path, row)| {
            let there = &found.rows[*path];
            // Versions of an inode do not depend on the state that is tried.
            let versions =
                known.entry(row.inode).or_insert_with(|| versions(history, window, row.inode));
            !has_same_name(row, there) || !is_of_versions(versions, there)
        });
        match wrong {
            None => return Ok(Judgement::PartOfWrite),
            Some((path, _)) => first_wrong = first_wrong.or(Some(path)),
        }
    }
    Err(explain(history, window, found, first_wrong))
}

fn versions<'a>(history: &'a History, window: &Window, inode: InodeNumber) -> Versions<'a> {
    let (first, last) = (*window.states.start(), *window.states.end());
    let since = window.dirty.get(&inode).copied().unwrap_or(first);
    // All versions since the file was safe: any block may stem from any of them.
    let mut versions: Versions = Vec::new();
    for row in history.rows_of(inode, since..=last).flatten() {
        if versions.last().is_none_or(|last| !Arc::ptr_eq(last, row)) {
            versions.push(row);
        }
    }
    versions
}

/// What the records of names say is the same.
fn has_same_name(known: &Row, found: &Row) -> bool {
    let (known, found) = (&known.facts, &found.facts);
    known.kind == found.kind
        && known.links == found.links
        && known.device == found.device
        && known.target == found.target
        && known.extended == found.extended
}

/// True if mode, owner and each block are those of a version, and the size is one between them.
fn is_of_versions(versions: &[&Arc<Row>], found: &Row) -> bool {
    let sizes = || versions.iter().map(|row| row.content.len());
    let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else { return false };
    let mut blocks = found.content.pages().enumerate();
    versions.iter().any(|row| row.facts.permissions == found.facts.permissions)
        && versions.iter().any(|row| row.facts.owner == found.facts.owner)
        && (least..=most).contains(&found.content.len())
        && blocks.all(|(at, bytes)| versions.iter().any(|row| has_page(&row.content, at, bytes)))
}

/// What was safe and is not there, else what stands where no state has it.
fn explain(
    history: &History,
    window: &Window,
    found: &Tree,
    first_wrong: Option<&Vec<u8>>,
) -> Mismatch {
    let describe = |row: Option<&Arc<Row>>| row.map_or("nothing".into(), |row| row.describe());
    let states = &history.states()[window.states.clone()];
    let newest = &states[states.len() - 1].tree;
    for (path, row) in &states[0].tree.rows {
        let stays = states
            .iter()
            .all(|state| state.tree.rows.get(path).is_some_and(|other| other.inode == row.inode));
        let versions = versions(history, window, row.inode);
        let is_settled = versions.windows(2).all(|pair| pair[0].is_same(pair[1]));
        let there = found.rows.get(path);
        // What the records of names say is as safe as the bytes.
        let is_known = |there: &Row| versions.iter().any(|row| has_same_name(row, there));
        let is_there =
            there.is_some_and(|there| is_known(there) && is_of_versions(&versions, there));
        if stays && !is_there && (there.is_none() || is_settled) {
            let expected = versions.first().map_or_else(|| row.describe(), |row| row.describe());
            let mut seen = describe(there);
            if seen == expected {
                seen += ", with other bytes";
            }
            return Mismatch { was_safe: true, path: path.clone(), expected, found: seen };
        }
    }
    let path = first_wrong.cloned().or_else(|| found.first_difference(newest)).unwrap_or_default();
    let expected = describe(newest.rows.get(&path));
    let mut seen = describe(found.rows.get(&path));
    if seen == expected {
        seen += ", with other bytes, or names of different times";
    }
    Mismatch { was_safe: false, path, expected, found: seen }
}

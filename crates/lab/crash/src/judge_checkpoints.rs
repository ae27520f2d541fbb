//! Trees that are those of one checkpoint, but for bytes that were synced without one.

use crate::explanation::explain;
use crate::history::{History, Window};
use crate::judgement::{Judgement, Mismatch};
use crate::mixture::is_mixture;
use crate::tree::{Row, Tree};

/// One of the states, whole; of a file with a data log behind it newer bytes, which must be there if the log
/// was flushed (`nilfs_salvage_orphan_logs` of `fs/nilfs2/recovery.c`).
pub(crate) fn checkpoints(
    history: &History,
    window: &Window,
    found: &Tree,
) -> Result<Judgement, Mismatch> {
    let numbers = window.states.clone();
    for state in numbers.rev() {
        let tree = &history.states()[state].tree;
        let is_allowed = tree.rows.len() == found.rows.len()
            && tree.rows.iter().zip(&found.rows).all(|((path, row), (found_path, found))| {
                path == found_path && is_of_checkpoint(history, window, state, row, found)
            });
        if is_allowed {
            let is_whole = tree.is_same(found);
            return Ok(if is_whole { Judgement::State } else { Judgement::PartOfWrite });
        }
    }
    Err(explain(&history.states()[window.states.clone()], &window.dirty, found))
}

fn is_of_checkpoint(
    history: &History,
    window: &Window,
    state: usize,
    row: &Row,
    found: &Row,
) -> bool {
    let mut facts = found.facts.clone();
    facts.size_bytes = row.facts.size_bytes;
    if facts != row.facts {
        return false;
    }
    let bytes = history.states_of_bytes(window, row.inode, state);
    if bytes == (state..=state) {
        return row.is_same(found);
    }
    let versions = history.rows_of(row.inode, bytes).filter_map(<[_]>::first);
    let versions: Vec<&Row> = versions.map(AsRef::as_ref).collect();
    // A log replaces blocks of a file and leaves its size to the inode, which a checkpoint alone writes.
    is_mixture(&versions, found)
}

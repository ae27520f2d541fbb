//! From which moment on a state is safe, and which states a cut may leave.

use crate::support::trees::{file, guarantee, standard};
use crash::{History, LOST_GROWTH, Tree};

/// Inodes of the model.
const F: u64 = 7;
const G: u64 = 8;

fn tree(number: u8) -> Tree {
    let mut tree = standard();
    tree.rows.insert(vec![b'x', number], file(u64::from(number), 0o644, &[number]));
    tree
}

/// First and last state of the window of a cut, and the files of which less is safe.
fn window(history: &History, operation: u64) -> (usize, usize, Vec<(u64, usize)>) {
    let window = history.window(operation);
    let dirty = window.dirty.iter().map(|(inode, state)| (*inode, *state)).collect();
    (*window.states.start(), *window.states.end(), dirty)
}

/// An operation, the window of a cut there, and the files of which less is safe.
type Expected<'a> = (u64, usize, usize, &'a [(u64, usize)]);

fn assert_windows(history: &History, expected: &[Expected]) {
    for (operation, first, last, dirty) in expected {
        let found = window(history, *operation);
        assert_eq!(found, (*first, *last, dirty.to_vec()), "operation {operation}");
    }
}

#[test]
fn a_sync_makes_safe_what_came_before_it() {
    let mut history = History::new(guarantee("jffs2"), standard());
    assert_windows(&history, &[(0, 0, 0, &[]), (99, 0, 0, &[])]);
    // Nobody is asked about bytes in memory: they are on the medium when the call returns.
    history.file_dirtied(F);
    history.push(5, tree(1), Some(F));
    history.file_changed(F);
    history.returned(6);
    history.push(8, tree(2), None);
    history.file_changed(G);
    // Names are none of a file's own records.
    history.push(9, tree(3), None);
    history.names_changed(&[F]);
    history.flushed(9, F);
    history.fsynced(10, F);
    history.push(15, tree(4), None);
    history.synced(20);
    history.push(22, tree(5), None);
    history.fsynced(30, F);
    // Of an inode that no call changed, fsync makes nothing safe.
    history.fsynced(31, 999);
    assert_windows(
        &history,
        &[
            (0, 0, 0, &[]),
            (4, 0, 0, &[]),
            (5, 0, 1, &[]),
            (7, 0, 1, &[]),
            (8, 0, 2, &[]),
            (9, 0, 3, &[]),
            (10, 1, 3, &[]),
            (14, 1, 3, &[]),
            (15, 1, 4, &[]),
            (19, 1, 4, &[]),
            (20, 4, 4, &[]),
            (22, 4, 5, &[]),
            (30, 4, 5, &[]),
            (99, 4, 5, &[]),
        ],
    );
}

#[test]
fn a_return_makes_safe_all_but_bytes_in_memory() {
    let mut history = History::new(guarantee("yaffs2"), standard());
    history.push(5, tree(1), None);
    history.returned(6);
    history.file_dirtied(F);
    history.push(8, tree(2), Some(F));
    history.file_dirtied(F);
    history.push(9, tree(3), Some(F));
    history.file_dirtied(G);
    history.push(10, tree(4), Some(G));
    history.returned(11);
    history.push(12, tree(5), None);
    history.flushed(13, F);
    history.fsynced(14, G);
    history.file_dirtied(G);
    history.push(16, tree(6), Some(G));
    history.synced(20);
    assert_windows(
        &history,
        &[
            (5, 0, 1, &[]),
            (6, 1, 1, &[]),
            (8, 1, 2, &[]),
            (10, 1, 4, &[]),
            (11, 4, 4, &[(F, 1), (G, 3)]),
            (12, 4, 5, &[(F, 1), (G, 3)]),
            (13, 5, 5, &[(G, 3)]),
            (14, 5, 5, &[]),
            (16, 5, 6, &[]),
            (20, 6, 6, &[]),
        ],
    );
}

#[test]
fn a_sync_of_a_file_makes_it_and_the_names_before_it_safe() {
    let mut history = History::new(guarantee("ubifs"), standard());
    history.push(2, tree(1), None);
    history.names_changed(&[F]);
    history.returned(3);
    history.file_dirtied(F);
    history.push(4, tree(2), Some(F));
    // Bytes are none of a name's records.
    history.file_changed(F);
    history.push(5, tree(3), None);
    history.names_changed(&[G]);
    history.flushed(6, F);
    history.fsynced(7, F);
    history.file_dirtied(F);
    history.push(8, tree(4), Some(F));
    history.fsynced(9, G);
    history.synced(12);
    assert_windows(
        &history,
        &[
            (3, 0, 1, &[]),
            (6, 0, 3, &[]),
            // The names up to those of the file itself; of the file, all.
            (7, 1, 3, &[(F, 3)]),
            (8, 1, 4, &[(F, 3)]),
            (9, 3, 4, &[(F, 3), (G, 4)]),
            (12, 4, 4, &[]),
        ],
    );
}

/// Write-back may begin before a call and be noted after it: the last state that had begun counts.
#[test]
fn the_last_state_that_had_begun_ends_the_window() {
    let mut history = History::new(guarantee("jffs2"), standard());
    history.push(8, tree(1), None);
    history.push(3, tree(2), None);
    assert_windows(&history, &[(2, 0, 0, &[]), (3, 0, 2, &[]), (7, 0, 2, &[]), (8, 0, 2, &[])]);
    history.push_hazard(9, tree(3), &LOST_GROWTH);
    let states = history.states();
    assert_eq!(states.len(), 4);
    assert_eq!(states[3].hazard, Some(&LOST_GROWTH));
    assert_eq!((states[1].hazard, states[1].begun_at, states[3].begun_at), (None, 8, 9));
    assert_eq!(history.guarantee().kind, "jffs2");
}

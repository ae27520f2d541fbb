//! Orphans: inodes without names that are still in use, so that a mount after a cut removes them.
//!
//! Source: `fs/ubifs/orphan.c`. A state: uses formats only.

use crate::position::Position;
use std::collections::BTreeMap;

/// State of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not in the area of orphans; the journal holds its deletion until the next commit.
    New,
    /// Written by a commit.
    Written,
    /// Deleted; still in a node on the medium.
    Deleted,
}

/// Orphans in memory and where the next orphan node goes.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    pub(crate) inodes: BTreeMap<u64, State>,
    /// Where the next node goes.
    pub(crate) head: Position,
    /// At the last commit there were any.
    pub(crate) had_any: bool,
}

impl Orphans {
    pub(crate) fn add(&mut self, inode: u64) {
        self.inodes.insert(inode, State::New);
    }

    pub(crate) fn remove(&mut self, inode: u64) {
        match self.inodes.get_mut(&inode) {
            Some(State::New) => {
                self.inodes.remove(&inode);
            }
            // The node on the medium names it until the commit ends. A mount after a cut then finds
            // no inode and goes on.
            Some(state) => *state = State::Deleted,
            None => {}
        }
    }

    pub(crate) fn has_written(&self) -> bool {
        self.had_any
    }

    /// Whether no commit has written any of them.
    pub(crate) fn has_only_new(&self) -> bool {
        self.inodes.values().all(|state| *state == State::New)
    }

    pub(crate) fn len(&self) -> usize {
        self.inodes.len()
    }
}

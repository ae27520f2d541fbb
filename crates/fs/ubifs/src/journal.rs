//! The journal: the log, and the eraseblocks that it names.
//!
//! Source: `fs/ubifs/ubifs.h` (`struct ubifs_bud`, `struct ubifs_info`). A state: uses formats only.

use crate::layout::{HeadNumber, Layout};
use crate::position::{LebNumber, Position};
use fs_api::Errno;
use std::collections::BTreeMap;

/// An eraseblock of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bud {
    pub(crate) start: u32,
    pub(crate) head: HeadNumber,
}

/// The log, and what it names.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) buds: BTreeMap<LebNumber, Bud>,
    /// Eraseblocks that the commit under way takes out of the journal.
    pub(crate) old_buds: Vec<LebNumber>,
    pub(crate) bud_bytes: u64,
    pub(crate) committing_bytes: u64,
    pub(crate) log_head: Position,
    pub(crate) log_tail: LebNumber,
    /// Bytes of the log that must stay free for the next commit.
    pub(crate) min_log_bytes: u64,
}

/// Why nothing can be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A commit has to be made first.
    CommitFirst,
    Failed(Errno),
}

impl From<Errno> for Obstacle {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

impl Journal {
    /// Bytes of the eraseblocks that the journal may still fill or has filled.
    pub(crate) fn bytes_of_buds(&self, leb_bytes: u32) -> u64 {
        self.buds.values().map(|bud| u64::from(leb_bytes - bud.start)).sum()
    }

    /// Bytes of the log between its head and its tail (`empty_log_bytes`).
    pub(crate) fn empty_log_bytes(&self, layout: &Layout) -> u64 {
        let leb_bytes = u64::from(layout.leb_bytes);
        let all = u64::from(layout.log_lebs) * leb_bytes;
        let head = u64::from(self.log_head.leb) * leb_bytes + u64::from(self.log_head.offset);
        let tail = u64::from(self.log_tail) * leb_bytes;
        match head.cmp(&tail) {
            std::cmp::Ordering::Greater => all + tail - head,
            std::cmp::Ordering::Less => tail - head,
            std::cmp::Ordering::Equal if self.log_head.leb != self.log_tail => 0,
            std::cmp::Ordering::Equal => all,
        }
    }
}

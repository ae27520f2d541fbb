//! What was synced into a device's cache: it is safe when the device is flushed, and not before.

use fs_api::InodeNumber;
use std::collections::BTreeMap;

/// Syncs that returned since the device was flushed. States are numbers of the history.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unflushed {
    /// The newest state that a sync of everything, or a checkpoint, has written.
    pub(crate) whole: Option<usize>,
    /// The newest state of each file whose bytes were written by a sync of its own.
    pub(crate) files: BTreeMap<InodeNumber, usize>,
}

impl Unflushed {
    /// Everything up to a state was written.
    pub(crate) fn write_whole(&mut self, state: usize) {
        self.whole = self.whole.max(Some(state));
    }

    /// Bytes of a file up to a state were written.
    pub(crate) fn write_file(&mut self, inode: InodeNumber, state: usize) {
        let newest = self.files.entry(inode).or_default();
        *newest = state.max(*newest);
    }
}

/// Bytes of files that a log without a checkpoint holds, or may hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataLogs {
    /// Logs that were begun: when, of which file (none for all that were dirty), and the state then.
    begun: Vec<(u64, Option<InodeNumber>, usize)>,
    /// Logs that were flushed: when, of which file, and the state that they hold.
    safe: Vec<(u64, InodeNumber, usize)>,
}

impl DataLogs {
    /// A sync begins that writes bytes of this file first, or of all of them.
    pub(crate) fn begin(&mut self, begun_at: u64, inode: Option<InodeNumber>, state: usize) {
        self.begun.push((begun_at, inode, state));
    }

    /// A device was flushed after bytes of this file were synced.
    pub(crate) fn flush(&mut self, now: u64, inode: InodeNumber, state: usize) {
        self.safe.push((now, inode, state));
    }

    /// The oldest state whose bytes a file may have after a cut at this operation, if a log of it is safe.
    pub(crate) fn oldest(&self, operation: u64, inode: InodeNumber) -> Option<usize> {
        let safe = self.safe.iter().filter(|(at, of, _)| *at <= operation && *of == inode);
        safe.map(|(.., state)| *state).max()
    }

    /// The newest state whose bytes a file may have then, if a log of it was begun.
    pub(crate) fn newest(&self, operation: u64, inode: InodeNumber) -> Option<usize> {
        let is_of = |of: &Option<InodeNumber>| of.is_none_or(|of| of == inode);
        let begun = self.begun.iter().filter(|(at, of, _)| *at <= operation && is_of(of));
        begun.map(|(.., state)| *state).max()
    }
}

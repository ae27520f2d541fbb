//! Names that were looked up, and what came of it (`fs/dcache.c`).

use fs_api::{Errno, InodeNumber};
use rustc_hash::FxHashMap;

/// What a name of a directory means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The inode that has the name.
    Inode(InodeNumber),
    /// Nothing has the name (a negative entry).
    // Negative entries matter for time: a name that was looked for and not found costs no second
    // search.
    Nothing,
}

impl Meaning {
    /// As a look-up answers.
    pub(crate) fn answer(self) -> Result<InodeNumber, Errno> {
        match self {
            Self::Inode(inode) => Ok(inode),
            Self::Nothing => Err(Errno::Enoent),
        }
    }
}

type Directory = FxHashMap<Box<[u8]>, Meaning>;

/// Remembered names, by the directory they are in.
#[derive(Default)]
pub(crate) struct Names {
    directories: FxHashMap<InodeNumber, Directory>,
}

impl Names {
    pub(crate) fn get(&self, directory: InodeNumber, name: &[u8]) -> Option<Meaning> {
        self.directories.get(&directory)?.get(name).copied()
    }

    pub(crate) fn set(&mut self, directory: InodeNumber, name: &[u8], meaning: Meaning) {
        // The old meaning goes: making, moving and removing a name all pass here.
        self.directories.entry(directory).or_default().insert(name.into(), meaning);
    }

    /// Names remembered, those of nothing too.
    pub(crate) fn count(&self) -> usize {
        self.directories.values().map(FxHashMap::len).sum()
    }

    /// Forgets the names of a directory.
    pub(crate) fn forget(&mut self, directory: InodeNumber) {
        self.directories.remove(&directory);
    }

    /// Forgets all names of all directories.
    pub(crate) fn clear(&mut self) {
        self.directories.clear();
    }
}

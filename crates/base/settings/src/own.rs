//! Rows that a user adds to a table of policies while the process runs.
//!
//! The tables of this project are constants, so that the list of rows can be read. A policy that a user
//! writes outside of it, in Python, is a row as well: it is added here, under the name by which studies
//! and the command line call it, and is found after the built-in rows.
//!
//! **Determinism.** Rows are added before a run begins, and a run finds a row by its name alone. So the
//! order in which rows were added changes nothing.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

/// Rows of one table that a user added.
#[derive(Debug)]
pub struct OwnRows<T: 'static>(Mutex<Vec<(&'static str, &'static T)>>);

impl<T> OwnRows<T> {
    /// A table without rows.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Adds a row, or puts it in the place of the row of that name.
    ///
    /// The row before stays in memory: a run that found it may still be at work.
    pub fn put(&self, name: &'static str, row: &'static T) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.retain(|(known, _)| *known != name);
        rows.push((name, row));
    }

    /// The row called `name`.
    pub fn find(&self, name: &str) -> Option<&'static T> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().find(|(known, _)| *known == name).map(|(_, row)| *row)
    }
}

impl<T> Default for OwnRows<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Files of the policies that a user added, by name.
static SOURCES: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());

/// Notes the files that a policy comes from, its own first: results depend on what they say.
pub fn note_sources(name: &str, paths: Vec<String>) {
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    sources.insert(name.to_owned(), paths);
}

/// Names and files of the policies that a user added, sorted by name; a policy may have several files.
pub fn sources() -> Vec<(String, String)> {
    let sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let of_one = |(name, paths): (&String, &Vec<String>)| -> Vec<(String, String)> {
        paths.iter().map(|path| (name.clone(), path.clone())).collect()
    };
    sources.iter().flat_map(of_one).collect()
}

/// A policy of a user's own that failed in the middle of a run.
///
/// No signature between a policy and the boundary of the engine knows of it: the run is left by
/// unwinding, as `cancellation` leaves it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{policy}: {reason}")]
pub struct OwnPolicyError {
    /// Name of the policy.
    pub policy: String,
    /// What it did, in words.
    pub reason: String,
}

impl OwnPolicyError {
    /// Leaves the run. No panic hook is called, and so nothing is printed.
    pub fn leave(self) -> ! {
        resume_unwind(Box::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::OwnRows;

    #[test]
    fn a_row_is_found_by_its_name_and_the_last_one_counts() {
        static ONE: u8 = 1;
        static TWO: u8 = 2;
        let rows = OwnRows::new();
        assert_eq!(rows.find("a.py:A"), None);
        rows.put("a.py:A", &ONE);
        rows.put("a.py:B", &TWO);
        assert_eq!(rows.find("a.py:A"), Some(&ONE));
        rows.put("a.py:A", &TWO);
        assert_eq!((rows.find("a.py:A"), rows.find("a.py:C")), (Some(&TWO), None));
    }
}

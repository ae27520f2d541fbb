//! One cut looked at closely: the tree that was found beside those of the application, and the chip.

use crate::application::{Done, tree_after};
use crate::content::Content;
use crate::cuts::Crash;
use crate::error::CrashError;
use crate::expectation::{described, is_alike};
use crate::expectation_outcome::LineOfScript;
use crate::guarantee::TornModel;
use crate::recover::{Looked, Trial};
use crate::recovery_cuts::Left;
use crate::tree::{Row, Tree};
use fs_api::FileType;
use nand::Chip;
use script::{ControlLine, Place, Step};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::escape_path;

/// What a cut left, beside what the application had before it and would have had without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The cut point.
    pub cut_point: u64,
    /// Name of the torn model.
    pub torn: &'static str,
    /// The operation that was torn, in words.
    pub operation: String,
    /// The line behind which the tree is the one before: the last rest point, or else the last line that had come
    /// to its end; none for the beginning of the script.
    pub before: Option<LineOfScript>,
    /// The line at whose end the tree is the one after: the one that the cut hits; none behind the last line.
    pub after: Option<LineOfScript>,
    /// Why there is no tree: the mount or a read failed.
    pub failure: Option<String>,
    /// Names, sorted.
    pub rows: Vec<ShownRow>,
}

/// A name in three trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownRow {
    /// From the root.
    pub path: String,
    /// What it was before.
    pub before: String,
    /// What was found.
    pub found: String,
    /// What it would have been after.
    pub after: String,
    /// What the found one is: `same` as both, `before`, `after`, or `neither`.
    pub is: &'static str,
}

impl Crash {
    /// The chip after a cut, with the power back and nothing mounted yet.
    ///
    /// # Errors
    /// [`CrashError::NoCutPoint`].
    pub fn chip_after(&self, cut: u64, model: &'static TornModel) -> Result<Chip, CrashError> {
        let operations = self.operations();
        if cut >= operations {
            return Err(CrashError::NoCutPoint { asked: cut, operations });
        }
        let mut chip = self.before().clone();
        for operation in &self.journal()[..cut as usize] {
            // A program or erase that failed does so again: the faults are the chip's.
            let _ = chip.apply(operation);
        }
        Ok(self.torn_chip(&chip, cut as usize, model))
    }

    /// What the first mount after a cut shows, name by name.
    ///
    /// # Errors
    /// [`CrashError::NoCutPoint`]; [`CrashError::Line`] of a call that cannot be followed.
    pub fn show(&self, cut: u64, model: &'static TornModel) -> Result<Shown, CrashError> {
        let operations = self.operations();
        if cut >= operations {
            return Err(CrashError::NoCutPoint { asked: cut, operations });
        }
        let history = self.history_shared();
        let window = history.window(cut);
        let trial = Trial::new(history, window, model);
        let left = match self.card_after(cut, model) {
            Some(contents) => Left::Card(contents),
            None => Left::Chip(Box::new(self.chip_after(cut, model)?)),
        };
        let Looked { recovered, shown: found, .. } = self.recover_left(left, &trial, false);
        // Another violation says nothing here: it is told of the cut itself, beside the tree that was found.
        let failure = match (&found, recovered) {
            (None, Err(fault)) => Some(fault.told()),
            (None, Ok(recovered)) => recovered.failure,
            _ => None,
        };
        // Calls end in their order, and a call that changed nothing ends where the medium stands then.
        let returned = self.calls.partition_point(|call| call.returned_at <= cut);
        let ended = &self.calls[..returned];
        let rest = ended.iter().rposition(is_rest).map_or(returned, |at| at + 1);
        let upto = self.calls.len().min(returned + 1);
        let (guarantee, first) = (history.guarantee(), &history.states()[0].tree);
        let before = tree_after(guarantee, first, &self.calls[..rest])?;
        let after = tree_after(guarantee, first, &self.calls[..upto])?;
        let line = |call: Option<&Done>| call.map(|call: &Done| (&call.command.place).into());
        let place = |place: Option<&Place>| place.map(Into::into);
        Ok(Shown {
            cut_point: cut,
            torn: model.name,
            operation: self.operation(cut as usize),
            before: line(rest.checked_sub(1).and_then(|at| self.calls.get(at))),
            after: place(history.calls_around(cut).next.as_ref()),
            failure,
            rows: rows(&before, &found.unwrap_or_default(), &after),
        })
    }
}

fn is_rest(call: &Done) -> bool {
    matches!(call.command.step, Step::Control(ControlLine::AtRest(_)))
}

/// The names of three trees side by side.
fn rows(before: &Tree, found: &Tree, after: &Tree) -> Vec<ShownRow> {
    let trees = [before, found, after];
    let named = trees.iter().flat_map(|tree| tree.rows.keys()).chain(&found.unreadable);
    let paths: BTreeSet<&Vec<u8>> = named.collect();
    // The root is in every tree and tells nothing.
    let paths = paths.into_iter().filter(|path| !path.is_empty());
    let shown = paths.map(|path| {
        let mut shown = row(path, trees.map(|tree| tree.rows.get(path)));
        // The name is there, and its inode or its bytes are not.
        if found.unreadable.contains(path) {
            (shown.found, shown.is) = ("cannot be read".into(), "neither");
        }
        shown
    });
    shown.collect()
}

fn row(path: &[u8], [before, found, after]: [Option<&Arc<Row>>; 3]) -> ShownRow {
    let is = |one: Option<&Arc<Row>>| match (one, found) {
        (Some(one), Some(found)) => is_alike(one, found),
        (None, None) => true,
        _ => false,
    };
    let is = match (is(before), is(after)) {
        (true, true) => "same",
        (true, false) => "before",
        (false, true) => "after",
        (false, false) => "neither",
    };
    let [before, found, after] = [before, found, after].map(told);
    ShownRow { path: escape_path(path), before, found, after, is }
}

/// A file with a number that differs where its bytes do.
fn told(row: Option<&Arc<Row>>) -> String {
    let text = described(row);
    match row {
        Some(row) if row.facts.kind == FileType::Regular && !row.content.is_empty() => {
            format!("{text}, {:08x}", check_sum(&row.content))
        }
        _ => text,
    }
}

/// FNV-1a of 32 bits (Fowler, Noll and Vo): short enough for a table.
fn check_sum(content: &Content) -> u32 {
    content.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

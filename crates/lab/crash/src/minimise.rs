//! The smallest script that still shows a failure, found by leaving parts out.
//!
//! Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002): halves of
//! the lines are left out, then quarters, down to single lines, within each block too. Then blocks are opened,
//! words left out and numbers made smaller, until nothing smaller fails in the same way. A smaller script may show
//! the failure at any cut.

use crate::cuts::Cuts;
use crate::error::CrashError;
use crate::failure::{Bench, Failure, FailureKind, cuts_for};
use crate::script_text::{Item, items_of, text_of};
use crate::smaller::{opened, paths_named, smaller_numbers, smaller_words, without_name};
use std::collections::BTreeSet;

/// Lines of comment that stand before a minimised script.
pub const HEAD_LINES: usize = 3;
/// Scripts that are tried: small ones need some hundreds, and a search must come to an end.
const MOST_TRIED: u64 = 4000;

/// The smallest script that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimised {
    /// Its lines, behind [`HEAD_LINES`] lines that are left to the caller.
    pub text: String,
    /// What it shows.
    pub failure: Failure,
    /// Scripts that were tried.
    pub tried: u64,
    /// True if it was asked to stop: there may be smaller ones.
    pub interrupted: bool,
}

/// How far a search for a smaller script is.
#[derive(Clone, Copy, Debug)]
pub struct Minimising {
    /// Scripts that were tried.
    pub tried: u64,
    /// Lines of the smallest one.
    pub lines: u64,
}

struct Minimiser<'a> {
    bench: &'a Bench,
    cuts: Cuts,
    items: Vec<Item>,
    failure: Failure,
    tried: u64,
    seen: BTreeSet<String>,
    is_stopped: bool,
    progress: &'a mut dyn FnMut(Minimising) -> bool,
}

/// Makes a script smaller that fails at one of these cuts, in this way if one is given; none if it does not.
///
/// `progress` is told of each script that is tried, and ends the search by answering false.
///
/// # Errors
/// [`CrashError`] of a script that cannot be cut.
pub fn minimise(
    bench: &Bench,
    text: &str,
    cuts: &Cuts,
    kind: Option<&FailureKind>,
    progress: &mut dyn FnMut(Minimising) -> bool,
) -> Result<Option<Minimised>, CrashError> {
    // A mistake is told with the line that it has in the script as it was given.
    script::parse(text)?;
    let items = items_of(text);
    // The lines alone, behind the head, whose failure is told with their numbers.
    let script = script::parse(&with_head(&text_of(&items)))?;
    let lines = text_of(&items).lines().count() as u64;
    let mut goes_on = || progress(Minimising { tried: 0, lines });
    let is_meant = |one: &FailureKind| kind.is_none_or(|kind| kind == one);
    let first = bench.first_failure(&script, cuts, &mut goes_on, &is_meant)?;
    let Some(failure) = first else { return Ok(None) };
    let (cuts, seen) = (cuts_for(&failure, cuts.workers), BTreeSet::new());
    let mut minimiser =
        Minimiser { bench, cuts, items, failure, tried: 0, seen, is_stopped: false, progress };
    minimiser.search();
    let Minimiser { items, failure, tried, is_stopped: interrupted, .. } = minimiser;
    let text = text_of(&items);
    Ok(Some(Minimised { text, failure, tried, interrupted }))
}

/// Lines of comment before the lines of a script.
fn with_head(text: &str) -> String {
    "#\n".repeat(HEAD_LINES) + text
}

impl Minimiser<'_> {
    fn search(&mut self) {
        // What is cheap comes first: each line that goes saves a trial of each of its words and numbers. A number
        // that is smaller may free a line in its turn, so it all begins again until nothing changes.
        loop {
            let before = self.items.clone();
            self.leave_lines_out();
            self.leave_names_out();
            self.try_each(opened);
            self.try_each(smaller_words);
            self.try_each(smaller_numbers);
            if self.is_stopped || self.items == before {
                return;
            }
        }
    }

    /// Takes a script if it fails in the same way.
    fn try_out(&mut self, items: Vec<Item>) -> bool {
        let text = text_of(&items);
        if self.is_stopped || !self.seen.insert(text.clone()) {
            return false;
        }
        let Ok(script) = script::parse(&with_head(&text)) else { return false };
        let state =
            Minimising { tried: self.tried, lines: text_of(&self.items).lines().count() as u64 };
        self.is_stopped = !(self.progress)(state) || self.tried >= MOST_TRIED;
        if self.is_stopped {
            return false;
        }
        self.tried += 1;
        let (kind, mut is_asked) = (&self.failure.kind, true);
        let mut goes_on = || {
            is_asked = (self.progress)(state);
            is_asked
        };
        let tried =
            || self.bench.first_failure(&script, &self.cuts, &mut goes_on, &|one| one == kind);
        // A script that cannot be cut is none that shows the failure.
        let found = if let Ok(found) = cancellation::catch(tried) {
            found.ok().flatten()
        } else {
            is_asked = false;
            None
        };
        self.is_stopped = !is_asked;
        let Some(failure) = found else { return false };
        (self.items, self.failure) = (items, failure);
        true
    }

    /// Tries what a function makes of the script, anew after each that is taken.
    fn try_each(&mut self, smaller: fn(&[Item]) -> Vec<Vec<Item>>) {
        let mut from = 0;
        loop {
            let all = smaller(&self.items);
            let taken = (from..all.len()).find(|at| self.try_out(all[*at].clone()));
            // What came before it was tried already.
            match taken {
                Some(at) => from = at,
                None if from > 0 && !self.is_stopped => from = 0,
                None => return,
            }
        }
    }

    fn leave_lines_out(&mut self) {
        let mut depth = 0;
        while let Some(path) = bodies(&self.items).get(depth).cloned() {
            let mut run = body(&self.items, &path).len().div_ceil(2);
            while run > 0 && !self.is_stopped {
                let is_shorter = self.leave_runs_out(&path, run);
                // A line that is gone may have been the only user of one that was tried before it.
                run = if run == 1 && is_shorter { 1 } else { run / 2 };
            }
            depth += 1;
        }
    }

    /// Leaves out runs of so many items of a body, the last ones first: what is made is used later.
    fn leave_runs_out(&mut self, path: &[(usize, usize)], run: usize) -> bool {
        let mut end = body(&self.items, path).len();
        let mut is_shorter = false;
        while end > 0 {
            let start = end.saturating_sub(run);
            let mut items = self.items.clone();
            body_mut(&mut items, path).drain(start..end);
            is_shorter |= self.try_out(items);
            end = start;
        }
        is_shorter
    }

    /// Leaves out all lines that name a path.
    fn leave_names_out(&mut self) {
        // They need each other: without the first of them the others fail, and no run of lines holds them all.
        for name in paths_named(&self.items) {
            let items = without_name(&self.items, &name);
            if items != self.items {
                self.try_out(items);
            }
        }
    }
}

/// Where bodies stand: the item and the pair of braces of each block around. The script itself is the first.
fn bodies(items: &[Item]) -> Vec<Vec<(usize, usize)>> {
    let mut all = vec![Vec::new()];
    for (number, item) in items.iter().enumerate() {
        let Item::Block { bodies: inner, .. } = item else { continue };
        for (brace, items) in inner.iter().enumerate() {
            let within = bodies(items).into_iter();
            all.extend(within.map(|path| [vec![(number, brace)], path].concat()));
        }
    }
    all
}

fn body<'a>(items: &'a [Item], path: &[(usize, usize)]) -> &'a [Item] {
    path.iter().fold(items, |items, (number, brace)| match &items[*number] {
        Item::Block { bodies, .. } => &bodies[*brace],
        Item::Line(_) => unreachable!("a path leads through blocks"),
    })
}

fn body_mut<'a>(items: &'a mut Vec<Item>, path: &[(usize, usize)]) -> &'a mut Vec<Item> {
    path.iter().fold(items, |items, (number, brace)| match &mut items[*number] {
        Item::Block { bodies, .. } => &mut bodies[*brace],
        Item::Line(_) => unreachable!("a path leads through blocks"),
    })
}

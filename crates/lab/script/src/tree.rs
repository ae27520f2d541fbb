//! A script as a tree of commands and blocks.

use crate::place::{Place, ScriptError};
use crate::step::Step;
use crate::walk::Walk;
use crate::words::{Word, step_of};
use fs_api::Errno;
use std::sync::Arc;

/// What a line says of the end of its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expectation {
    /// It succeeds; a failure ends the script.
    #[default]
    Success,
    /// `try`: it may fail, and the script goes on.
    Either,
    /// `fails`: it fails with this error, and anything else ends the script.
    Failure(Errno),
}

/// One command of a script, as it is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where it stands.
    pub place: Place,
    /// How it is to end.
    pub expectation: Expectation,
    /// What it asks for.
    pub step: Step,
}

/// Part of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Line(Line),
    Block(Arc<Block>),
}

/// A command as it stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) place: Place,
    pub(crate) expectation: Expectation,
    /// The step; with variables, that of one value of each.
    pub(crate) step: Step,
    /// The words, if a variable is among them: then each pass has a step of its own.
    pub(crate) template: Option<Arc<[Word]>>,
}

impl Line {
    /// The line of a step that no variable changes.
    pub(crate) fn fixed(place: Place, step: Step) -> Self {
        Self { place, expectation: Expectation::Success, step, template: None }
    }

    /// The command in a pass of the blocks around it.
    ///
    /// # Errors
    /// The values of this pass make no line of the language.
    pub(crate) fn command(&self, passes: Vec<crate::Pass>) -> Result<Command, ScriptError> {
        let step = match &self.template {
            None => self.step.clone(),
            Some(words) => {
                let values = |name: &str| value_of(&passes, name);
                let wrong = |(column, reason): (usize, String)| {
                    let place = Place { passes: passes.clone(), ..Place::default() };
                    let reason = format!("{reason} ({})", place.passes_text());
                    ScriptError { line: self.place.line, column, reason }
                };
                let words = fill_words(words, &values).map_err(wrong)?;
                step_of(&words).map_err(wrong)?
            }
        };
        let place = Place { passes, ..self.place.clone() };
        Ok(Command { place, expectation: self.expectation, step })
    }
}

/// A number of the source, or a variable of a `for` around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Number(u64),
    Variable(Word),
}

impl Bound {
    /// Its value in a pass of the blocks around it.
    pub(crate) fn value(&self, passes: &[crate::Pass]) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Variable(word) => {
                fill(&word.text, &|name| value_of(passes, name)).ok()?.parse().ok()
            }
        }
    }

    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self, Self::Number(_))
    }
}

/// A block of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Repeat { count: Bound, body: Arc<[Node]> },
    For { variable: Arc<str>, first: Bound, last: Bound, body: Arc<[Node]> },
    Every { place: Place, period_ms: u64, duration_ms: u64, body: Arc<[Node]> },
    Concurrent { place: Place, processes: Vec<Process> },
}

impl Block {
    /// The lines of the block, in their order.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Arc<[Node]>> {
        let (one, many) = match self {
            Self::Repeat { body, .. } | Self::For { body, .. } | Self::Every { body, .. } => {
                (Some(body), &[][..])
            }
            Self::Concurrent { processes, .. } => (None, &processes[..]),
        };
        one.into_iter().chain(many.iter().map(|process| &process.body))
    }
}

/// The lines of a process of `concurrent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Where its opening brace stands.
    pub(crate) place: Place,
    pub(crate) body: Arc<[Node]>,
}

/// A script that was read. Blocks stay blocks, so it takes memory for its source and not for its passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub(crate) nodes: Arc<[Node]>,
}

impl Script {
    /// True if it has no command.
    pub fn is_empty(&self) -> bool {
        self.samples().next().is_none()
    }

    /// A walk through its commands from the first on.
    pub fn walk(&self) -> Walk {
        Walk::new(self.nodes.clone(), Vec::new())
    }

    /// Every command of the source once, in its order: of a line with variables, the command of one value of
    /// each.
    pub fn samples(&self) -> impl Iterator<Item = Command> {
        // As references: only those that are asked for are copied.
        let mut lines = Vec::new();
        collect(&self.nodes, &mut lines);
        lines.into_iter().map(|line| {
            let Line { place, expectation, step, .. } = line.clone();
            Command { place, expectation, step }
        })
    }

    /// Periods and durations of all `every`, in milliseconds, with their places.
    pub fn timed_blocks(&self) -> Vec<(Place, u64, u64)> {
        let mut found = Vec::new();
        visit_blocks(&self.nodes, &mut |block| {
            if let Block::Every { place, period_ms, duration_ms, .. } = block {
                found.push((place.clone(), *period_ms, *duration_ms));
            }
        });
        found
    }

    /// The walk of a process of `concurrent`: that whose opening brace stands at this line and column, in these
    /// passes of the blocks around it.
    pub fn process_at(&self, line: usize, column: usize, passes: Vec<crate::Pass>) -> Option<Walk> {
        let mut found = None;
        visit_blocks(&self.nodes, &mut |block| {
            let Block::Concurrent { processes, .. } = block else { return };
            let is_meant =
                |process: &&Process| (process.place.line, process.place.column) == (line, column);
            if let Some(process) = processes.iter().find(is_meant) {
                found = Some(process.body.clone());
            }
        });
        found.map(|body| Walk::new(body, passes))
    }

    /// Puts a command before all others.
    pub(crate) fn with_first(&self, line: Line) -> Self {
        let first = std::iter::once(Node::Line(line));
        Self { nodes: first.chain(self.nodes.iter().cloned()).collect() }
    }

    /// Puts a command behind all others.
    pub(crate) fn with_last(&self, line: Line) -> Self {
        let last = std::iter::once(Node::Line(line));
        Self { nodes: self.nodes.iter().cloned().chain(last).collect() }
    }
}

fn collect<'a>(nodes: &'a [Node], lines: &mut Vec<&'a Line>) {
    for node in nodes {
        match node {
            Node::Line(line) => lines.push(line),
            Node::Block(block) => block.bodies().for_each(|body| collect(body, lines)),
        }
    }
}

fn visit_blocks(nodes: &[Node], visit: &mut impl FnMut(&Block)) {
    for node in nodes {
        if let Node::Block(block) = node {
            visit(block);
            block.bodies().for_each(|body| visit_blocks(body, visit));
        }
    }
}

fn value_of(passes: &[crate::Pass], name: &str) -> Option<u64> {
    // The innermost one wins, but the parser lets no name stand for two.
    let is_meant = |pass: &&crate::Pass| pass.variable.as_deref() == Some(name);
    passes.iter().rev().find(is_meant).map(|pass| pass.number)
}

/// Puts numbers in the place of variables in all words.
pub(crate) fn fill_words(
    words: &[Word],
    values: &impl Fn(&str) -> Option<u64>,
) -> Result<Vec<Word>, (usize, String)> {
    let filled = |word: &Word| {
        let text = fill(&word.text, values).map_err(|reason| (word.column, reason))?;
        Ok(Word { text, column: word.column })
    };
    words.iter().map(filled).collect()
}

/// Puts numbers in the place of `$NAME` and `${NAME}`.
///
/// # Errors
/// A name without a value, a brace that is not closed, a dollar sign without a name.
pub(crate) fn fill(text: &str, values: &impl Fn(&str) -> Option<u64>) -> Result<String, String> {
    // By hand, as an expression engine would be a dependency for one form.
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        filled.push_str(before);
        let (name, after) = if let Some(inner) = behind.strip_prefix('{') {
            inner
                .split_once('}')
                .ok_or_else(|| format!("`{text}`: `${{` has no `}}`: write `${{NAME}}`"))?
        } else {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = behind.find(|letter| !is_name(letter)).unwrap_or(behind.len());
            behind.split_at(end)
        };
        if name.is_empty() {
            return Err(format!("`{text}`: `$` has no name: write a dollar sign as %24 here"));
        }
        let number = values(name).ok_or_else(|| {
            format!("`${name}` is no variable of a `for` around this line: write a dollar sign as %24 here")
        })?;
        filled.push_str(&number.to_string());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

//! Checks of policies that a user writes: translation layers, cleaning, wear levelling, cache admission and
//! schedulers. Each says what every policy of its kind keeps.
//!
//! A check draws short sequences from a seed, carries them out, and compares with the simplest model there
//! is. The first sequence that fails is made shorter as long as it still fails, and is the answer: a list of
//! operations that a person can follow. The built-in rows pass the same checks, in the tests of this crate.

mod admission;
mod attempt;
mod layer;
mod model;
mod scheduler;
mod shorter;

pub use admission::check_admission;
pub use layer::{LayerCheck, check_layer};
pub use scheduler::check_scheduler;

/// How much is checked, and from which seed.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Sequences to carry out.
    pub sequences: u32,
    /// Operations of a sequence.
    pub operations: u32,
    /// Seed that all sequences are drawn from.
    pub seed: u64,
}

/// What was checked of a policy that kept everything: words and numbers, in the order of a report.
pub type Checked = Vec<(&'static str, u64)>;

/// What a policy broke, and the shortest sequence found that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What it did, in words.
    pub what: String,
    /// The device or queue on which it did it.
    pub conditions: String,
    /// The operations, one a line, the failing one last.
    pub operations: Vec<String>,
    /// Sequences that were kept before.
    pub kept: u32,
}

/// Called with the sequences that are done and their number in all.
pub type Progress<'a> = &'a mut dyn FnMut(u32, u32);

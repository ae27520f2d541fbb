//! What a judge says of a tree that was found after a cut.

use mount::guarantee::Hazard;

/// How a tree that is allowed was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A state of the history.
    State,
    /// A state of the history but for a file that was being written.
    PartOfWrite,
    /// What the real code is known to lose.
    Hazard(&'static Hazard),
}

/// Why a tree is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// It was safe, and not touched since.
    pub was_safe: bool,
    /// Path from the root.
    pub path: Vec<u8>,
    /// What the guarantee allows there, as [`crate::Row::describe`] says it.
    pub expected: String,
    /// What stands there instead.
    pub found: String,
}

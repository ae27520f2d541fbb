//! What the commit of a mount does just now.
//!
//! Source: `fs/ubifs/ubifs.h` (`cmt_state`). A state: uses nothing of the crate.

/// What the commit does (`cmt_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CommitState {
    #[default]
    Resting,
    /// The background thread makes a commit next.
    Background,
    /// Writers wait until a commit is made.
    Required,
    RunningInBackground,
    RunningRequired,
    Broken,
}

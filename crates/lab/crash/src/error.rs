//! Why the power cuts of a script cannot be tested.

use fs_api::Errno;
use mount::MountError;
use script::{Place, ScriptError};
use thiserror::Error;

/// Why a script cannot be tested.
#[derive(Debug, Error)]
pub enum CrashError {
    /// A mount was refused.
    #[error("{0}")]
    Mount(#[from] MountError),
    /// Nothing holds for the file system.
    #[error("{kind} has no guarantee: there is nothing to hold it to")]
    NoGuarantee {
        /// Name of the file system.
        kind: &'static str,
    },
    /// A line failed in the run without a cut.
    #[error("line {place}: {reason}")]
    Line {
        /// Where the line stands, and the passes of its blocks.
        place: Place,
        /// Why the line failed, as a user reads it.
        reason: String,
    },
    /// The medium that the script begins with cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// Path that was read.
        path: String,
        /// Answer of the file system.
        error: Errno,
    },
    /// A cut point that there is none of.
    #[error("there is no cut point {asked}: the script changes the medium {operations} times, so 0 to {} are", operations.saturating_sub(1))]
    NoCutPoint {
        /// Cut point that was asked for.
        asked: u64,
        /// How many there are.
        operations: u64,
    },
    /// A torn model that does not fit what is under the file system.
    #[error("`{name}` is no way in which this medium can be left: {known} are")]
    TornModel {
        /// Name of the model.
        name: &'static str,
        /// Names of those that fit.
        known: String,
    },
    /// No threads can be started.
    #[error("workers cannot be started: {reason}")]
    Workers {
        /// Answer of the system.
        reason: String,
    },
    /// The script changes nothing.
    #[error("the script changes nothing on the medium: there is nothing to cut")]
    NoOperation,
}

impl From<ScriptError> for CrashError {
    fn from(error: ScriptError) -> Self {
        Self::Line { place: Place::of_line(error.line), reason: error.reason }
    }
}

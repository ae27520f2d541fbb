//! The one error of studies and replays: place, reason, suggestion in one message.

use ftl::{FtlError, SettingError};
use nand::PartError;
use thiserror::Error;
use trace::TraceError;

/// Why a study or a replay cannot be run.
#[derive(Debug, Error)]
pub enum StudyError {
    /// A file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// Path as it was given.
        path: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The study file or an override is wrong.
    #[error("{place}: {reason}")]
    Study {
        /// File, line and key, as far as they are known.
        place: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A name is not in its table.
    #[error("unknown {kind} `{name}`{}; known: {known}", did_you_mean(.suggestion.as_deref()))]
    Unknown {
        /// Kind of thing that was named.
        kind: &'static str,
        /// Name that was given.
        name: String,
        /// The nearest known name.
        suggestion: Option<String>,
        /// All names of the table.
        known: String,
    },
    /// A board of the user's own cannot be used.
    #[error(transparent)]
    Board(#[from] board::BoardError),
    /// The part cannot be used.
    #[error(transparent)]
    Part(#[from] PartError),
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] device::SpecError),
    /// A setting of the layer is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace cannot be read without an option that studies do not have.
    #[error(
        "{0}; studies read a trace as it is: give the option to `nandlab convert`, and name the file it writes"
    )]
    TraceOfStudy(TraceError),
    /// A request cannot be served.
    #[error("request {number} ({what}): {reason}")]
    Request {
        /// Number of the request in the trace, from 1.
        number: u64,
        /// Operation, address and length of the request.
        what: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Stacks of a study cannot be mounted; nothing was run.
    #[error("nothing was run: {}", .0.join("; "))]
    Unmountable(Vec<String>),
    /// A run of a study failed.
    #[error("run `{run}` failed after {finished} of {total} runs were done: {reason}")]
    Run {
        /// Axis values of the run.
        run: String,
        /// Message of the error that ended it.
        reason: String,
        /// Runs that were done by then; their results are not kept.
        finished: usize,
        /// All runs of the study.
        total: usize,
    },
    /// The layer came to its end.
    #[error("{0}")]
    Ftl(#[from] FtlError),
}

impl StudyError {
    /// An error about a name that `known` does not hold.
    pub(crate) fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        Self::Unknown {
            kind,
            name: name.to_owned(),
            suggestion: suggestion::nearest(name, known.clone()).map(str::to_owned),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}

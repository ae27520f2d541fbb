//! Calls that failed, and ends of calls that a line did not expect.

use crate::place::ScriptError;
use crate::tree::Expectation;
use fs_api::Errno;
use thiserror::Error;

/// A call of a script that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call}: {error}{advice}")]
pub struct RunError {
    /// Name of the call in the script.
    pub call: &'static str,
    /// Why the call failed.
    pub error: Errno,
    /// What would be right, if that can be told: the end of a sentence, with its `;`.
    pub advice: String,
}

impl RunError {
    /// A call that failed. One that makes no file where there is none says what makes one: unlike a shell's `>>`,
    /// these calls have no `O_CREAT`.
    pub fn new(call: &'static str, error: Errno) -> Self {
        let opens = ["append", "write", "rwrite", "truncate", "fallocate"].contains(&call);
        let advice = if opens && error == Errno::Enoent {
            "; this call makes no file: make it with `put` first, or with `open NAME PATH rw,creat`"
        } else {
            ""
        };
        Self { call, error, advice: advice.to_owned() }
    }

    /// A call that would take the last name of an open file away, under a library.
    pub(crate) fn open_in_library(call: &'static str) -> Self {
        let advice =
            "; this library keeps no file that is open without a name here: close it first";
        Self { call, error: Errno::Ebusy, advice: advice.to_owned() }
    }

    /// A call on a name as which no file is open.
    pub(crate) fn not_open(call: &'static str, name: &str) -> Self {
        let advice = format!("; no file is open as `{name}`: `open {name} PATH FLAGS` comes first");
        Self { call, error: Errno::Ebadf, advice }
    }
}

/// Why a command ends the script.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failed {
    /// The call failed.
    #[error("{0}")]
    Call(RunError),
    /// The call succeeded, and its line says that it fails.
    #[error("{expected} was expected, but the call succeeded")]
    Succeeded {
        /// The error that the line names.
        expected: Errno,
    },
    /// The call failed otherwise than its line says.
    #[error("{expected} was expected, but found {found}")]
    Otherwise {
        /// The error that the line names.
        expected: Errno,
        /// How the call failed.
        found: RunError,
    },
    /// A file is open under the name already.
    #[error("open: a file is open as `{0}` already: `close {0}` comes first")]
    OpenTwice(String),
    /// The values of a pass make no line.
    #[error("{}", .0.reason)]
    Line(ScriptError),
}

impl Expectation {
    /// Holds the end of a call against what its line says. The failure of a line with `try` is handed back.
    ///
    /// # Errors
    /// A call that did not end so.
    pub fn judge(self, done: Result<(), RunError>) -> Result<Option<RunError>, Failed> {
        // Only the number counts: a file system may say more than its kernel does.
        match (self, done) {
            (Self::Success | Self::Either, Ok(())) => Ok(None),
            (Self::Success, Err(error)) => Err(Failed::Call(error)),
            (Self::Either, Err(error)) => Ok(Some(error)),
            (Self::Failure(expected), Ok(())) => Err(Failed::Succeeded { expected }),
            (Self::Failure(expected), Err(found)) if found.error == expected => Ok(None),
            (Self::Failure(expected), Err(found)) => Err(Failed::Otherwise { expected, found }),
        }
    }
}

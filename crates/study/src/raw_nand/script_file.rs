//! The script of system calls that a workload names.

use crate::StudyError;
use script::{Command, Harness, Step, parse};
use std::path::Path;

/// Reads a script that a test carries out on a mount of its own.
///
/// # Errors
/// File, line and reason: what is no line of the language, and lines that mount or touch the chip.
pub(super) fn script_of(path: &Path) -> Result<Vec<Command>, StudyError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|reason| StudyError::File { path: shown.clone(), reason })?;
    let wrong = |reason: String| StudyError::Study { place: shown.clone(), reason };
    let commands = parse(&text).map_err(|error| wrong(error.to_string()))?;
    if commands.is_empty() {
        return Err(wrong("the script is empty: docs/scripts.md describes the language".into()));
    }
    match commands.iter().find(|command| !is_work(&command.step)) {
        Some(command) => {
            let reason = "the test mounts, cuts and counts by itself: leave this line out";
            Err(wrong(format!("line {}: {reason}", command.line)))
        }
        None => Ok(commands),
    }
}

/// System calls, and lines that mean something, or nothing, on one mount.
fn is_work(step: &Step) -> bool {
    use Harness::{DropCaches, End, Log, Phase, Workload};
    match step {
        Step::Harness(line) => matches!(line, DropCaches | End | Log(_) | Phase(_) | Workload(_)),
        _ => true,
    }
}

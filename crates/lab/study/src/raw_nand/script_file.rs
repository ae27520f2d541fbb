//! The script of system calls that a workload names.

use crate::StudyError;
use script::{ControlLine, DataKind, Script, Step, parse};
use std::path::Path;

/// Reads a script that a test carries out on a mount of its own.
///
/// # Errors
/// File, line and reason: what is no line of the language, lines that mount or touch the chip, and seeds
/// that give no random numbers.
pub(super) fn script_of(path: &Path) -> Result<Script, StudyError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|reason| StudyError::File { path: shown.clone(), reason })?;
    let wrong = |reason: String| StudyError::Study { place: shown.clone(), reason };
    let script = parse(&text).map_err(|error| wrong(error.to_string()))?;
    if script.is_empty() {
        return Err(wrong("the script is empty: docs/scripts.md describes the language".into()));
    }
    // The first values of variables are looked at: numbers only grow from them.
    let found =
        script.samples().find_map(|command| Some((command.place, complaint(&command.step)?)));
    match found {
        Some((place, reason)) => Err(wrong(format!("line {place}: {reason}"))),
        None => Ok(script),
    }
}

/// Why a test cannot carry a line out as it is meant.
fn complaint(step: &Step) -> Option<&'static str> {
    if !is_work(step) {
        return Some("the test mounts, cuts and counts by itself: leave this line out");
    }
    // The generator of the language stays at 0 if it begins there (`script::Xorshift`). Scripts recorded
    // in kernels hold such lines, so the language keeps them; in a study they would pass for random
    // bytes, which file systems that compress store in no space.
    if has_equal_bytes(step) {
        return Some("seed 0 gives the same bytes again and again: take another, or kind `z`");
    }
    if matches!(step, Step::RandomWrite { place_seed: 0, .. }) {
        return Some("places of seed 0 are all the first block: take another seed");
    }
    None
}

/// True if bytes that are asked for as random or as text are drawn with the seed 0.
fn has_equal_bytes(step: &Step) -> bool {
    let (call, has_seed_zero) = match step {
        Step::Put { call, .. }
        | Step::Append { call, .. }
        | Step::Write { call, .. }
        | Step::RandomWrite { call, .. } => (call, call.seed == 0),
        // The number of the file is added to the seed, and the sum may wrap (`script::Runner`).
        Step::PutMany { numbers, call, .. } => (call, numbers.contains(&call.seed.wrapping_neg())),
        _ => return false,
    };
    has_seed_zero && matches!(call.kind, DataKind::Incompressible | DataKind::Text)
}

/// System calls, and lines that mean something, or nothing, on one mount.
fn is_work(step: &Step) -> bool {
    use ControlLine::{AtRest, DropCaches, End, Log, Phase, Workload};
    match step {
        Step::Control(line) => {
            matches!(line, AtRest(_) | DropCaches | End | Log(_) | Phase(_) | Workload(_))
        }
        _ => true,
    }
}

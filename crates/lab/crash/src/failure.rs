//! What fails in a script: the same failure is known again in another script.

use crate::cuts::{Crash, CutOf, Cuts, Violation, without_defect};
use crate::error::CrashError;
use crate::expectation::{Broken, Symptom};
use crate::guarantee::{TornModel, find_torn_model};
use crate::recover::ViolationKind;
use crate::recoveries::{Recoveries, Then, spelled};
use crate::reference::Setup;
use nand::Chip;
use script::Script;
use serde::Serialize;

/// Failures that are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// A guarantee is broken.
    Violation {
        /// The rule that is broken.
        rule: ViolationKind,
        /// What the file system or the engine says, without its numbers; empty where a tree is compared.
        said: String,
    },
    /// An expectation of the script does not hold.
    Expectation {
        /// The expectation as it stands in the script.
        line: String,
        /// How it is broken.
        symptom: Symptom,
    },
}

/// A failure, and the first cut that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What makes others the same.
    #[serde(skip)]
    pub kind: FailureKind,
    /// The cut point; none if the run without a cut fails.
    pub cut_point: Option<u64>,
    /// Name of the torn model; nothing without a cut.
    pub torn: &'static str,
    /// Cuts within the recovery that followed, as [`spelled`] writes them.
    pub then: String,
    /// What is wrong, in one sentence.
    pub shown: String,
}

/// Text in which numbers and paths of two scripts do not differ.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match (letter.is_ascii_digit(), plain.ends_with('#')) {
            (true, true) => {}
            (true, false) => plain.push('#'),
            (false, _) => plain.push(letter),
        }
    }
    plain
}

impl FailureKind {
    pub(crate) fn of(violation: &Violation) -> Self {
        let said = match violation.kind {
            ViolationKind::Lost | ViolationKind::Impossible | ViolationKind::Unstable => {
                String::new()
            }
            _ => without_numbers(&violation.found),
        };
        Self::Violation { rule: violation.kind, said }
    }

    /// In a word or two, for the name of a file.
    pub fn name(&self) -> String {
        match self {
            Self::Violation { rule, .. } => format!("{rule:?}").to_lowercase(),
            Self::Expectation { symptom, .. } => format!("expectation-{}", symptom.name()),
        }
    }
}

/// The failures of a cut, and of the cuts within its recovery, in their order.
pub(crate) fn failures_of<'a>(
    crash: &'a Crash,
    cut: &'a CutOf<'a>,
) -> impl Iterator<Item = Failure> + 'a {
    let own = (&cut.result.recovered, &cut.result.broken, &[][..]);
    let deeper = cut.result.deeper.iter();
    let deeper = deeper.map(|one| (&one.recovered, &one.broken, &one.then[..]));
    std::iter::once(own).chain(deeper).flat_map(move |(recovered, broken, then)| {
        let violation = recovered.as_ref().err();
        let violation = violation.map(|one| of_violation(one, cut.at, cut.model, then));
        let broken = broken.iter().map(move |(number, broken)| {
            let line = crash.expectations()[*number].expect.to_string();
            of_broken(line, broken, cut.at, cut.model, then)
        });
        violation.into_iter().chain(broken)
    })
}

fn of_violation(
    violation: &Violation,
    at: usize,
    torn: &'static TornModel,
    then: &[Then],
) -> Failure {
    let Violation { path, expected, found, line, operation, passes, .. } = violation;
    let passes = if passes.is_empty() { String::new() } else { format!(", {passes}") };
    let kind = FailureKind::of(violation);
    let shown = format!(
        "{operation}, line {line}{passes}: {}: {path}: expected {expected}; found {found}",
        kind.name()
    );
    let (cut_point, torn, then) = (Some(at as u64), torn.name, spelled(then));
    Failure { kind, cut_point, torn, then, shown }
}

fn of_broken(
    line: String,
    broken: &Broken,
    at: usize,
    torn: &'static TornModel,
    then: &[Then],
) -> Failure {
    let Broken { symptom, path, found, .. } = broken;
    let path = if path.is_empty() { ".".into() } else { vfs::escape_path(path) };
    let shown = format!("{line}: {}: {path}: found {found}", symptom.name());
    let kind = FailureKind::Expectation { line, symptom: *symptom };
    let (cut_point, torn, then) = (Some(at as u64), torn.name, spelled(then));
    Failure { kind, cut_point, torn, then, shown }
}

/// On what scripts are tried.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The chip before each script; of a card the measure.
    pub chip: Chip,
    /// What is mounted, and how.
    pub setup: Setup,
    /// Threads of each run; none for one a processor.
    pub workers: Option<usize>,
}

impl Bench {
    /// Runs a script without a cut; a failure if the engine stops with a defect of its own.
    pub(crate) fn run(&self, script: &Script) -> Result<Result<Crash, CrashError>, Failure> {
        let run = || Crash::new(&self.chip, &self.setup, script);
        without_defect(run).map_err(|fault| {
            let (rule, said) = (ViolationKind::Defect, without_numbers(&fault.found));
            let kind = FailureKind::Violation { rule, said };
            let shown = format!("the run without a cut: {}: {}", kind.name(), fault.found);
            Failure { kind, cut_point: None, torn: "", then: String::new(), shown }
        })
    }

    /// The first failure of a script that is meant, over all its cuts, and over those within recoveries to this
    /// depth.
    ///
    /// # Errors
    /// [`CrashError`] of a script that cannot be cut.
    pub(crate) fn first_failure(
        &self,
        script: &Script,
        cuts: &Cuts,
        goes_on: &mut dyn FnMut() -> bool,
        is_meant: &dyn Fn(&FailureKind) -> bool,
    ) -> Result<Option<Failure>, CrashError> {
        let crash = match self.run(script) {
            Ok(crash) => crash?,
            Err(failure) => return Ok(Some(failure).filter(|one| is_meant(&one.kind))),
        };
        let mut found = None;
        let look = |cut: &CutOf<'_>| {
            let mut failures = failures_of(&crash, cut);
            // The rest of a batch is told, too; the first failure counts, however many workers there are.
            if found.is_none() {
                found = failures.find(|failure| is_meant(&failure.kind));
            }
            found.is_none()
        };
        crash.run_watched(cuts, |_, _| goes_on(), look)?;
        Ok(found)
    }
}

/// Operations of each recovery that are cut for a smaller script: a mount may write hundreds of times.
const CUT_IN_RECOVERY: usize = 8;

/// All cuts that may show a failure; if it came in a recovery, those in recoveries that are as deep.
pub(crate) fn cuts_for(failure: &Failure, workers: Option<usize>) -> Cuts {
    let depth = failure.then.split_whitespace().count();
    // Cuts in recoveries cost as much again for each operation of a mount: only such a failure needs them.
    if depth == 0 {
        return Cuts { workers, ..Cuts::default() };
    }
    let recoveries = Recoveries::Each { depth, most: CUT_IN_RECOVERY };
    let torn = find_torn_model(failure.torn).into_iter().collect();
    Cuts { torn, workers, recoveries, ..Cuts::default() }
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn numbers_make_no_difference() {
        assert_eq!(without_numbers("node 17 at 0x2048: 3 of 40"), "node # at #x#: # of #");
        assert_eq!(without_numbers("a"), "a");
    }
}

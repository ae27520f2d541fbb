//! What became of the expectations of a script over all cuts: equal failures are one group.

use crate::expectation::{Broken, Expectation, Symptom};
use crate::history::History;
use script::Place;
use serde::Serialize;
use std::collections::BTreeMap;
use vfs::escape_path;

/// A line of the script, for tables and machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineOfScript {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of its first character, from 1.
    pub column: usize,
    /// The passes of its blocks, such as `pass 3, i=17`; nothing outside of blocks.
    pub passes: String,
}

impl From<&Place> for LineOfScript {
    fn from(place: &Place) -> Self {
        Self { line: place.line, column: place.column, passes: place.passes_text() }
    }
}

/// A cut after which an expectation is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenAt {
    /// Cut point: operations that had changed the medium before the one that was torn.
    pub cut_point: u64,
    /// Name of the torn model.
    pub torn: &'static str,
    /// Cuts within the recovery that followed; nothing for none.
    pub then: String,
    /// How it is broken.
    pub symptom: Symptom,
    /// The file concerned.
    pub path: String,
    /// What was found of it.
    pub found: String,
    /// The operation that was torn, in words.
    pub operation: String,
    /// The last line that had come to its end.
    pub after: Option<LineOfScript>,
    /// The line that the cut hits, or comes before.
    pub within: Option<LineOfScript>,
    /// Number of the newest `ack` line that had been passed, and where it stands.
    pub acknowledged: Option<(u64, LineOfScript)>,
}

/// Cuts that break an expectation alike, between the same lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    /// The first of them.
    pub first: BrokenAt,
    /// How many there are.
    pub cuts: u64,
    /// Files that they concern.
    pub paths: Vec<String>,
    /// Passes of the blocks around their lines, each once, in the order of the cuts.
    pub passes: Vec<String>,
    /// The same in one sentence; see [`ExpectationOutcome::tell`].
    pub sentence: String,
}

/// What became of the expectations of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectationOutcome {
    /// The expectation, as it stands in the script; of a line that is passed several times, the first.
    pub expectation: String,
    /// Where the line stands.
    pub line: LineOfScript,
    /// Different expectations that the passes of the line make.
    pub expectations: u64,
    /// Cuts behind it that were judged.
    pub cuts: u64,
    /// Those of them after which it does not hold.
    pub failed: u64,
    /// Those of them by their symptoms and lines, the one that is met first in front.
    pub groups: Vec<FailureGroup>,
    /// The failed cuts, in the order of the cuts.
    pub failures: Vec<BrokenAt>,
}

/// What a cut was found to break: the number of the expectation, and how.
pub(crate) type BrokenBy = (usize, Broken);

/// Expectations that are counted over cuts.
pub(crate) struct Tally<'a> {
    expectations: &'a [Expectation],
    history: &'a History,
    outcomes: Vec<ExpectationOutcome>,
    /// Which outcome an expectation belongs to.
    outcome_of: Vec<usize>,
    groups: Vec<BTreeMap<GroupKey, Met>>,
}

/// The number of a group, and the cut that it counted last.
type Met = (usize, Option<(u64, &'static str)>);

/// Failures with the same key are one group.
type GroupKey = (Symptom, bool, Option<(usize, usize)>, Option<(usize, usize)>);

impl<'a> Tally<'a> {
    pub(crate) fn new(expectations: &'a [Expectation], history: &'a History) -> Self {
        let (mut outcomes, mut outcome_of) = (Vec::<ExpectationOutcome>::new(), Vec::new());
        for Expectation { expect, place, .. } in expectations {
            // Passes of a block make expectations of their own, and a reader looks for the line.
            let known = outcomes.iter().position(|known| {
                (known.line.line, known.line.column) == (place.line, place.column)
            });
            if let Some(known) = known {
                outcomes[known].expectations += 1;
            } else {
                outcomes.push(ExpectationOutcome {
                    expectation: expect.to_string(),
                    line: place.into(),
                    expectations: 1,
                    cuts: 0,
                    failed: 0,
                    groups: Vec::new(),
                    failures: Vec::new(),
                });
            }
            outcome_of.push(known.unwrap_or(outcomes.len() - 1));
        }
        let groups = vec![BTreeMap::new(); outcomes.len()];
        Self { expectations, history, outcomes, outcome_of, groups }
    }

    /// Counts a cut.
    pub(crate) fn add(
        &mut self,
        cut_point: u64,
        torn: &'static str,
        then: &str,
        operation: &dyn ToString,
        broken: Vec<BrokenBy>,
    ) {
        // A cut counts once for each line, however many files the line speaks of.
        for (at, outcome) in self.outcomes.iter_mut().enumerate() {
            let is_judged = self.expectations.iter().zip(&self.outcome_of);
            let mut is_judged = is_judged.filter(|(_, of)| **of == at);
            outcome.cuts +=
                u64::from(is_judged.any(|(expectation, _)| expectation.is_in_force(cut_point)));
            let is_meant = |(number, _): &&BrokenBy| self.outcome_of[*number] == at;
            outcome.failed += u64::from(broken.iter().any(|one| is_meant(&one)));
        }
        // Looked up once: a cut may break many expectations, and stands between the same lines for all.
        let around = self.history.calls_around(cut_point);
        for (number, Broken { symptom, path, found, acknowledged }) in broken {
            let of = self.outcome_of[number];
            let failure = BrokenAt {
                cut_point,
                torn,
                then: then.to_owned(),
                symptom,
                path: if path.is_empty() { ".".into() } else { escape_path(&path) },
                found,
                operation: operation.to_string(),
                after: around.returned.as_ref().map(Into::into),
                within: around.next.as_ref().map(Into::into),
                acknowledged: acknowledged.map(|line| (line.number, (&line.place).into())),
            };
            self.group(of, failure);
        }
    }

    fn group(&mut self, of: usize, failure: BrokenAt) {
        let line = |line: &Option<LineOfScript>| line.as_ref().map(|one| (one.line, one.column));
        let is_acknowledged = failure.acknowledged.is_some();
        // Without the passes: the same fault in each pass of a block is one for its reader.
        let key = (failure.symptom, is_acknowledged, line(&failure.after), line(&failure.within));
        let outcome = &mut self.outcomes[of];
        let (at, last) = self.groups[of].entry(key).or_insert((outcome.groups.len(), None));
        let (at, cut) = (*at, Some((failure.cut_point, failure.torn)));
        if at == outcome.groups.len() {
            outcome.groups.push(FailureGroup {
                first: failure.clone(),
                cuts: 0,
                paths: Vec::new(),
                passes: Vec::new(),
                sentence: String::new(),
            });
        }
        let group = &mut outcome.groups[at];
        // A cut may break the expectation for several files.
        group.cuts += u64::from(*last != cut);
        *last = cut;
        if !group.paths.contains(&failure.path) {
            group.paths.push(failure.path.clone());
        }
        let passes = failure.within.as_ref().or(failure.after.as_ref());
        let passes = passes.map(|line| line.passes.clone()).filter(|text| !text.is_empty());
        if let Some(passes) = passes.filter(|passes| !group.passes.contains(passes)) {
            group.passes.push(passes);
        }
        outcome.failures.push(failure);
    }

    pub(crate) fn outcomes(self) -> Vec<ExpectationOutcome> {
        self.outcomes
    }
}

impl ExpectationOutcome {
    /// Writes the sentences of all groups. They name the calls of the lines by the script's source.
    pub fn tell(&mut self, source: &str) {
        let cuts = self.cuts;
        for group in &mut self.groups {
            group.sentence = sentence(group, cuts, source);
        }
    }
}

/// A group in one sentence, such as "at 3 of 412 cuts `cfg` is empty: between line 3 (`truncate`) and the end of
/// line 4 (`write`)".
fn sentence(group: &FailureGroup, cuts: u64, source: &str) -> String {
    let FailureGroup { first, cuts: failed, paths, passes, .. } = group;
    let noun = if cuts == 1 { "cut" } else { "cuts" };
    let more = match paths.len() {
        0 | 1 => String::new(),
        2 => " and 1 more file".into(),
        count => format!(" and {} more files", count - 1),
    };
    // What was found of one file is not what was found of the others, so of several only the symptom is told.
    let is = if more.is_empty() { state(first) } else { format!("({})", first.symptom.name()) };
    let mut text = format!("at {failed} of {cuts} {noun} `{}`{more} {is}", first.path);
    if let Some((number, line)) = &first.acknowledged {
        let acknowledged = format!(", though `ack {number}` (line {}) had been passed", line.line);
        text.push_str(&acknowledged);
    }
    text.push_str(": ");
    text.push_str(&between(first.after.as_ref(), first.within.as_ref(), source));
    match passes.as_slice() {
        [] => {}
        [one] => text = format!("{text}, in {one}"),
        several => {
            text = format!("{text}, in {} passes, the first of them {}", several.len(), several[0]);
        }
    }
    text
}

/// What is wrong with the file, as the end of a sentence about it.
fn state(first: &BrokenAt) -> String {
    let found = &first.found;
    match first.symptom {
        Symptom::Empty => "is empty".into(),
        Symptom::Missing => "is missing".into(),
        Symptom::CutShort => format!("is cut short ({found})"),
        Symptom::Zeros => format!("has zeros in place of bytes ({found})"),
        Symptom::Old => "is old".into(),
        Symptom::Mixed => format!("holds bytes of several states ({found})"),
        Symptom::Other => format!("holds bytes that it had at no rest point ({found})"),
        Symptom::Both => "is there beside the other file".into(),
        Symptom::OtherTree => format!("is as in none of the trees that were kept ({found})"),
        Symptom::Unreadable => "cannot be read".into(),
    }
}

/// Between which lines a cut comes.
pub(crate) fn between(
    after: Option<&LineOfScript>,
    within: Option<&LineOfScript>,
    source: &str,
) -> String {
    let told = |line: &LineOfScript| match call_of(source, line) {
        Some(call) => format!("line {} (`{call}`)", line.line),
        None => format!("line {}", line.line),
    };
    match (after, within) {
        (Some(after), Some(within)) => {
            format!("between {} and the end of {}", told(after), told(within))
        }
        (Some(after), None) => format!("after {}", told(after)),
        (None, Some(within)) => format!("before the end of {}", told(within)),
        (None, None) => "before the first line".into(),
    }
}

/// The call of a line, without what stands before it.
fn call_of<'a>(source: &'a str, place: &LineOfScript) -> Option<&'a str> {
    let line = source.lines().nth(place.line.checked_sub(1)?)?;
    let start = line.char_indices().nth(place.column.checked_sub(1)?)?.0;
    let mut words = line[start..].split_ascii_whitespace();
    match words.next()? {
        "try" => words.next(),
        "fails" => words.nth(1),
        call => Some(call),
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokenAt, FailureGroup, LineOfScript, Tally, sentence};
    use crate::expectation::{Broken, Expectation, Symptom};
    use crate::guarantee::find_guarantee;
    use crate::history::History;
    use crate::tree::Tree;
    use script::{Expect, FileForm, Pass, Place};

    const SOURCE: &str = "put cfg\nexpect cfg\ntruncate cfg 0\ntry write cfg\nrepeat 2 { sync }\n";

    fn line(line: usize, column: usize, passes: &str) -> LineOfScript {
        LineOfScript { line, column, passes: passes.to_owned() }
    }

    fn broken(symptom: Symptom) -> BrokenAt {
        BrokenAt {
            cut_point: 5,
            torn: "prefix",
            then: String::new(),
            symptom,
            path: "cfg".into(),
            found: "3 bytes".into(),
            operation: "erase of block 1".into(),
            after: Some(line(3, 1, "")),
            within: Some(line(4, 1, "")),
            acknowledged: None,
        }
    }

    fn group(first: BrokenAt, cuts: u64, paths: &[&str], passes: &[&str]) -> FailureGroup {
        let [paths, passes] =
            [paths, passes].map(|all| all.iter().map(|one| (*one).into()).collect());
        FailureGroup { first, cuts, paths, passes, sentence: String::new() }
    }

    #[test]
    fn a_group_is_told_in_one_sentence() {
        let one = group(broken(Symptom::Empty), 3, &["cfg"], &[]);
        let lines = "between line 3 (`truncate`) and the end of line 4 (`write`)";
        assert_eq!(
            sentence(&one, 412, SOURCE),
            format!("at 3 of 412 cuts `cfg` is empty: {lines}")
        );
        let alone = group(broken(Symptom::CutShort), 1, &["cfg"], &["i=2"]);
        let expected = format!("at 1 of 1 cut `cfg` is cut short (3 bytes): {lines}, in i=2");
        assert_eq!(sentence(&alone, 1, SOURCE), expected);
        let two = group(broken(Symptom::Missing), 2, &["cfg", "b"], &["i=2", "i=3"]);
        let expected = format!(
            "at 2 of 9 cuts `cfg` and 1 more file (missing): {lines}, in 2 passes, the first of them i=2"
        );
        assert_eq!(sentence(&two, 9, SOURCE), expected);
        let three = group(broken(Symptom::Old), 2, &["cfg", "b", "c"], &[]);
        assert!(sentence(&three, 9, SOURCE).contains("`cfg` and 2 more files (old)"));
    }

    #[test]
    fn a_sentence_names_what_was_acknowledged_and_the_lines_there_are() {
        let mut first = broken(Symptom::Old);
        first.acknowledged = Some((4, line(9, 3, "i=4")));
        (first.after, first.within) = (Some(line(5, 12, "pass 2")), None);
        let told = sentence(&group(first.clone(), 1, &["cfg"], &[]), 2, SOURCE);
        let expected = "at 1 of 2 cuts `cfg` is old, though `ack 4` (line 9) had been passed: after line 5 \
                        (`sync`)";
        assert_eq!(told, expected);
        first.acknowledged = None;
        (first.after, first.within) = (None, Some(line(99, 1, "")));
        let told = sentence(&group(first.clone(), 1, &["cfg"], &[]), 2, SOURCE);
        assert!(told.ends_with("is old: before the end of line 99"), "{told}");
        first.within = None;
        let told = sentence(&group(first, 1, &["cfg"], &[]), 2, SOURCE);
        assert!(told.ends_with("is old: before the first line"), "{told}");
    }

    fn expectation(path: &str, from: u64) -> Expectation {
        let form = FileForm::Whole;
        Expectation {
            expect: Expect::File { path: path.into(), form },
            place: Place {
                passes: vec![Pass { variable: None, number: from }],
                ..Place::of_line(2)
            },
            from,
            rests: Vec::new(),
            acknowledged: Vec::new(),
        }
    }

    #[test]
    fn equal_failures_are_counted_together_and_a_cut_counts_once() {
        let expectations = [expectation("a", 0), expectation("b", 3)];
        let history = History::new(find_guarantee("jffs2").expect("in the table"), Tree::default());
        let mut tally = Tally::new(&expectations, &history);
        let broken = |path: &str, symptom| Broken {
            symptom,
            path: path.into(),
            found: "nothing".into(),
            acknowledged: None,
        };
        tally.add(0, "nothing", "", &"erase", Vec::new());
        tally.add(1, "nothing", "", &"erase", vec![(0, broken("a", Symptom::Missing))]);
        let both = [(0, broken("a", Symptom::Missing)), (1, broken("b", Symptom::Missing))];
        tally.add(3, "nothing", "", &"erase", both.to_vec());
        tally.add(4, "nothing", "", &"erase", vec![(1, broken("b", Symptom::Empty))]);
        let outcomes = tally.outcomes();
        let [outcome] = outcomes.as_slice() else { panic!("one line: {outcomes:?}") };
        assert_eq!((outcome.expectations, outcome.cuts, outcome.failed), (2, 4, 3));
        let groups: Vec<_> =
            outcome.groups.iter().map(|one| (one.first.symptom, one.cuts)).collect();
        assert_eq!(groups, [(Symptom::Missing, 2), (Symptom::Empty, 1)]);
        assert_eq!(outcome.groups[0].paths, ["a", "b"]);
        assert_eq!(outcome.failures.len(), 4);
    }
}

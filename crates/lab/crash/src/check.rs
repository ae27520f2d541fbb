//! A check of the user's own that looks at the files of each cut: a program of an application, or a function.
//!
//! The recovered files are handed out cut by cut, in order, with the newest acknowledgement that had been passed.
//! Equal files with an equal acknowledgement are handed out once, for the first such cut. So what is told does not
//! depend on the number of workers, and no more trees are in memory than those of a few stretches of cuts.

use crate::application::Done;
use crate::content::Content;
use crate::expectation_outcome::{LineOfScript, between};
use crate::history::History;
use crate::tree::Tree;
use fs_api::FileType;
use script::{ControlLine, RestLine, Step};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The files that a cut left, to be looked at.
#[derive(Clone, Debug)]
pub struct FilesOfCut {
    /// The cut point.
    pub cut_point: u64,
    /// Name of the torn model.
    pub torn: &'static str,
    /// Number of the newest `ack` line that had been passed.
    pub acknowledged: Option<u64>,
    /// What the first mount after the cut shows.
    pub tree: Arc<Tree>,
}

/// What is said of files: none if they hold, or why they do not.
pub type Verdict = Option<String>;

/// Looks at files: a verdict for each, in their order, or none to end the run.
pub type Check<'a> = dyn FnMut(&[FilesOfCut]) -> Option<Vec<Verdict>> + 'a;

/// A cut whose files do not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckFailure {
    /// Cut point: operations that had changed the medium before the one that was torn.
    pub cut_point: u64,
    /// Name of the torn model.
    pub torn: &'static str,
    /// What the check said.
    pub reason: String,
    /// The operation that was torn, in words.
    pub operation: String,
    /// The last line that had come to its end.
    pub after: Option<LineOfScript>,
    /// The line that the cut hits, or comes before.
    pub within: Option<LineOfScript>,
    /// Number of the newest `ack` line that had been passed, and where it stands.
    pub acknowledged: Option<(u64, LineOfScript)>,
}

/// Cuts of which the check said the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckGroup {
    /// The first of them.
    pub first: CheckFailure,
    /// How many there are.
    pub cuts: u64,
    /// The same in one sentence; see [`CheckOutcome::tell`].
    pub sentence: String,
}

/// What the check said of all cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckOutcome {
    /// Cuts that were judged.
    pub cuts: u64,
    /// Different files and acknowledgements among them: as often the check was asked.
    pub asked: u64,
    /// Cuts whose files do not hold.
    pub failed: u64,
    /// Those of them by what the check said, the one that is met first in front.
    pub groups: Vec<CheckGroup>,
    /// The failed cuts, in the order of the cuts.
    pub failures: Vec<CheckFailure>,
}

impl CheckOutcome {
    /// Writes the sentences of all groups. They name the calls of the lines by the script's source.
    pub fn tell(&mut self, source: &str) {
        let noun = if self.cuts == 1 { "cut" } else { "cuts" };
        for CheckGroup { first, cuts, sentence } in &mut self.groups {
            let CheckFailure { reason, after, within, acknowledged, .. } = first;
            let passed = match acknowledged {
                Some((number, line)) => format!(", behind `ack {number}` (line {})", line.line),
                None => String::new(),
            };
            let first = if *cuts == 1 { "" } else { "the first " };
            let place = between(after.as_ref(), within.as_ref(), source);
            let all = self.cuts;
            *sentence = format!("at {cuts} of {all} {noun} {reason}: {first}{place}{passed}");
        }
    }
}

/// What a cut left for a check.
#[derive(Clone, Debug)]
pub(crate) enum FilesLeft {
    /// Files, with a digest of all that the check sees of them.
    Files { digest: [u8; 32], tree: Arc<Tree> },
    /// No files: the mount or a read failed.
    Nothing { reason: String },
}

impl FilesLeft {
    /// What the first mount showed, or why it showed nothing. What `last` has of the same files is kept once.
    pub(crate) fn of(shown: Option<Tree>, fault: Option<String>, last: Option<&Self>) -> Self {
        let Some(mut tree) = shown else {
            let reason = format!("nothing can be read: {}", fault.unwrap_or_default());
            return Self::Nothing { reason };
        };
        let new = digest(&tree);
        match last {
            Some(Self::Files { digest, tree: old }) if *digest == new => {
                Self::Files { digest: new, tree: old.clone() }
            }
            Some(Self::Files { tree: old, .. }) => {
                tree.share(old);
                Self::Files { digest: new, tree: Arc::new(tree) }
            }
            _ => Self::Files { digest: new, tree: Arc::new(tree) },
        }
    }
}

/// BLAKE3 over all that a check sees of files.
fn digest(tree: &Tree) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut first_names = BTreeMap::new();
    for (path, row) in &tree.rows {
        add(&mut hasher, path);
        add(&mut hasher, &[row.facts.kind.letter() as u8]);
        add(&mut hasher, &row.facts.permissions.to_le_bytes());
        add_content(&mut hasher, &row.content);
        add(&mut hasher, &row.facts.target);
        if row.facts.kind == FileType::Regular {
            let first = first_names.entry(row.inode).or_insert(path);
            add(&mut hasher, first);
        }
    }
    for path in &tree.unreadable {
        add(&mut hasher, b"unreadable");
        add(&mut hasher, path);
    }
    hasher.finalize().into()
}

// Lengths stand before bytes: no two trees are written alike.
fn add(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

fn add_content(hasher: &mut blake3::Hasher, content: &Content) {
    hasher.update(&(content.len() as u64).to_le_bytes());
    for page in content.pages() {
        hasher.update(page);
    }
}

/// A line `ack N` that was passed.
struct Passed {
    at: u64,
    number: u64,
    line: LineOfScript,
}

/// Where a cut is: its cut point, the torn model, and the operation in words.
pub(crate) type CutPlace = (u64, &'static str, String);

/// A check under way, and what it said so far.
pub(crate) struct Checks<'a, 'b> {
    check: &'a mut Check<'b>,
    history: &'a History,
    acknowledgements: Vec<Passed>,
    /// By digest and acknowledgement. They stay for the whole run, the trees do not.
    verdicts: BTreeMap<([u8; 32], Option<u64>), Verdict>,
    groups: BTreeMap<String, usize>,
    outcome: CheckOutcome,
}

impl<'a, 'b> Checks<'a, 'b> {
    pub(crate) fn new(check: &'a mut Check<'b>, history: &'a History, calls: &[Done]) -> Self {
        let passed = |done: &Done| match done.command.step {
            Step::Control(ControlLine::AtRest(RestLine::Acknowledge(number))) => {
                Some(Passed { at: done.returned_at, number, line: (&done.command.place).into() })
            }
            _ => None,
        };
        Self {
            check,
            history,
            acknowledgements: calls.iter().filter_map(passed).collect(),
            verdicts: BTreeMap::new(),
            groups: BTreeMap::new(),
            outcome: CheckOutcome::default(),
        }
    }

    fn acknowledged(&self, cut_point: u64) -> Option<&Passed> {
        // A line that is passed between two operations counts for the cut of the second.
        self.acknowledgements.iter().rfind(|line| line.at <= cut_point)
    }

    /// Looks at what cuts left, in the order of the cuts; false to end the run. Then none of them counts.
    pub(crate) fn look_at(&mut self, cuts: &[(CutPlace, FilesLeft)]) -> bool {
        let mut new = BTreeMap::new();
        let mut asked = Vec::new();
        for ((cut_point, torn, _), left) in cuts {
            let FilesLeft::Files { digest, tree } = left else { continue };
            let (cut_point, torn) = (*cut_point, *torn);
            let acknowledged = self.acknowledged(cut_point).map(|line| line.number);
            let key = (*digest, acknowledged);
            if self.verdicts.contains_key(&key) || new.contains_key(&key) {
                continue;
            }
            new.insert(key, asked.len());
            // A copy of the pointer: trees of a stretch share what they have in common.
            asked.push(FilesOfCut { cut_point, torn, acknowledged, tree: tree.clone() });
        }
        if !asked.is_empty() {
            let Some(verdicts) = (self.check)(&asked) else { return false };
            assert_eq!(verdicts.len(), asked.len(), "a verdict for each");
            self.outcome.asked += asked.len() as u64;
            self.verdicts.extend(new.into_iter().map(|(key, at)| (key, verdicts[at].clone())));
        }
        for (place, left) in cuts {
            self.add(place, left);
        }
        true
    }

    fn add(&mut self, (cut_point, torn, operation): &CutPlace, left: &FilesLeft) {
        self.outcome.cuts += 1;
        let passed = self.acknowledged(*cut_point);
        let reason = match left {
            // An application that gets no files at all has lost them, whatever the guarantee permits.
            FilesLeft::Nothing { reason } => Some(reason.clone()),
            FilesLeft::Files { digest, .. } => {
                self.verdicts[&(*digest, passed.map(|line| line.number))].clone()
            }
        };
        let Some(reason) = reason else { return };
        let around = self.history.calls_around(*cut_point);
        let failure = CheckFailure {
            cut_point: *cut_point,
            torn,
            reason: reason.clone(),
            operation: operation.clone(),
            after: around.returned.as_ref().map(Into::into),
            within: around.next.as_ref().map(Into::into),
            acknowledged: passed.map(|line| (line.number, line.line.clone())),
        };
        let CheckOutcome { failed, groups, failures, .. } = &mut self.outcome;
        *failed += 1;
        let at = *self.groups.entry(reason).or_insert(groups.len());
        if at == groups.len() {
            let first = failure.clone();
            groups.push(CheckGroup { first, cuts: 0, sentence: String::new() });
        }
        groups[at].cuts += 1;
        failures.push(failure);
    }

    pub(crate) fn outcome(self) -> CheckOutcome {
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::digest;
    use crate::content::Content;
    use crate::tree::Tree;
    use crate::tree::made_up::tree;
    use std::sync::Arc;

    fn changed(change: impl FnOnce(&mut Tree)) -> Tree {
        let mut tree = tree(&[("a", b"one"), ("b", b"one")]);
        tree.rows.insert(b"b".to_vec(), {
            let mut row = (**tree.rows.get(b"b".as_slice()).expect("made")).clone();
            row.inode = 2;
            Arc::new(row)
        });
        change(&mut tree);
        tree
    }

    #[test]
    fn whatever_a_check_sees_changes_the_digest_and_nothing_else_does() {
        let row = |tree: &mut Tree, change: fn(&mut crate::tree::Row)| {
            change(Arc::make_mut(tree.rows.get_mut(b"b".as_slice()).expect("made")));
        };
        let plain = digest(&changed(|_| {}));
        assert_eq!(plain, digest(&changed(|tree| row(tree, |row| row.facts.owner = (7, 8)))));
        assert_eq!(plain, digest(&changed(|tree| row(tree, |row| row.inode = 9))));
        let others = [
            changed(|tree| row(tree, |row| row.facts.permissions = 0o600)),
            changed(|tree| row(tree, |row| row.content = Content::new(b"two"))),
            changed(|tree| row(tree, |row| row.inode = 1)),
            changed(|tree| tree.unreadable.push(b"c".to_vec())),
            changed(|tree| drop(tree.rows.remove(b"b".as_slice()))),
        ];
        let mut digests: Vec<_> = others.iter().map(digest).chain([plain]).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), others.len() + 1);
        // Bytes that stand in another name: lengths keep the two apart.
        assert_ne!(digest(&tree(&[("a", b"bc")])), digest(&tree(&[("ab", b"c")])));
    }
}

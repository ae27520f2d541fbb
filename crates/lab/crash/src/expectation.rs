//! What an application expects of its files after a power cut, and whether a tree that was found keeps it.

use crate::content::Content;
use crate::tree::{Row, Tree};
use fs_api::FileType;
use script::{Expect, FileForm, Place};
use std::sync::Arc;
use vfs::escape_path;

/// An expectation of a script, with what the files held at the rest points behind its line.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// What is expected.
    pub expect: Expect,
    /// The first line that says so.
    pub place: Place,
    /// Operations that had changed the medium when that line was passed: cuts from here on are judged.
    pub from: u64,
    /// The rest points, in their order.
    pub rests: Vec<Rest>,
    /// Lines `ack` behind the expectation, in their order.
    pub acknowledged: Vec<Acknowledged>,
}

/// A rest point: where the application's files are as one of its updates leaves them.
#[derive(Clone, Debug)]
pub struct Rest {
    /// Operations that had changed the medium when it was passed; the largest number for the end of the script,
    /// behind which no cut is.
    pub at: u64,
    /// What was held there.
    pub held: Held,
}

/// What the application held at a rest point.
#[derive(Clone, Debug)]
pub enum Held {
    /// The files that an expectation names, in its order; none for one that is missing.
    Files(Vec<Option<Arc<Row>>>),
    /// All files.
    Tree(Arc<Tree>),
}

/// A line `ack N` that was passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Operations that had changed the medium then.
    pub at: u64,
    /// The number of the step.
    pub number: u64,
    /// Where the line stands.
    pub place: Place,
    /// The rest point that must not be taken back.
    pub rest: usize,
}

/// How an expectation is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Symptom {
    /// The file is there without a byte.
    Empty,
    /// The file is not there.
    Missing,
    /// The file ends too early.
    CutShort,
    /// The file has zeros from some byte on, where others were written: its size is there before its bytes.
    Zeros,
    /// What an `ack` line had promised is not there, but what was there before it.
    Old,
    /// Each byte is one that the file held at that place at some rest point, or zero.
    Mixed,
    /// The file holds bytes that it held at no rest point.
    Other,
    /// Both files are there, and one was to be.
    Both,
    /// The tree is none of those that were kept.
    OtherTree,
    /// Nothing can be read: the mount or a read failed.
    Unreadable,
}

impl Symptom {
    /// The word that tables and machines read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Missing => "missing",
            Self::CutShort => "cut-short",
            Self::Zeros => "zeros",
            Self::Old => "old",
            Self::Mixed => "mixed",
            Self::Other => "other",
            Self::Both => "both",
            Self::OtherTree => "other-tree",
            Self::Unreadable => "unreadable",
        }
    }
}

/// An expectation that does not hold after a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// How.
    pub symptom: Symptom,
    /// The file concerned; of a tree, the first one that differs.
    pub path: Vec<u8>,
    /// What was found, in words.
    pub found: String,
    /// The newest `ack` line that had been passed.
    pub acknowledged: Option<Acknowledged>,
}

/// The rest points that count for a cut.
struct Counting<'a> {
    /// Those that may be found: the acknowledged one or the first, and all up to the next one.
    allowed: &'a [Rest],
    /// Those that an `ack` line made too old.
    older: &'a [Rest],
    acknowledged: Option<&'a Acknowledged>,
}

impl Expectation {
    /// True if a cut of this operation comes behind the line of the expectation.
    pub fn is_in_force(&self, cut: u64) -> bool {
        self.from <= cut
    }

    fn counting(&self, cut: u64) -> Counting<'_> {
        let acknowledged = self.acknowledged.iter().rfind(|line| line.at <= cut);
        let first = acknowledged.map_or(0, |line| line.rest);
        // The next rest point counts, too: its update may be whole on the medium before its line is passed.
        let passed = self.rests.partition_point(|rest| rest.at <= cut);
        let end = self.rests.len().min(passed + 1);
        Counting { allowed: &self.rests[first..end], older: &self.rests[..first], acknowledged }
    }

    /// Judges what a cut of this operation left, `found` by the first mount after it; none if nothing could be
    /// mounted or read. Nothing is wrong before the line of the expectation.
    ///
    /// # Errors
    /// How the expectation is broken.
    pub fn judge(&self, cut: u64, found: Option<&Tree>) -> Result<(), Box<Broken>> {
        if !self.is_in_force(cut) {
            return Ok(());
        }
        let counting = self.counting(cut);
        let broken = |symptom, path: &[u8], found: String| {
            let acknowledged = counting.acknowledged.cloned();
            Box::new(Broken { symptom, path: path.to_vec(), found, acknowledged })
        };
        let Some(found) = found else {
            let path = self.paths().first().copied().unwrap_or_default();
            return Err(broken(Symptom::Unreadable, path, "nothing that can be read".into()));
        };
        for path in self.paths() {
            if found.unreadable.iter().chain(&found.dangling).any(|one| one == path) {
                return Err(broken(Symptom::Unreadable, path, "a name of nothing".into()));
            }
        }
        let judged = match &self.expect {
            Expect::File { path, form } => counting.file(*form, 0, found.rows.get(path)),
            Expect::OneOf(paths) => {
                counting.one_of([&paths[0], &paths[1]].map(|path| found.rows.get(path)))
            }
            Expect::Tree(_) => {
                return counting.tree(found).map_err(|(symptom, path)| {
                    let text = described(found.rows.get(&path));
                    broken(symptom, &path, text)
                });
            }
        };
        judged.map_err(|(symptom, at)| {
            let path = self.paths()[at];
            let row = found.rows.get(path);
            let text = described(row);
            let zeros = row.filter(|_| symptom == Symptom::Zeros);
            let text = zeros.map_or(text.clone(), |row| {
                format!("{text}, zeros from byte {} on", without_zeros(&row.content).len())
            });
            broken(symptom, path, text)
        })
    }

    /// The files that it names.
    fn paths(&self) -> Vec<&[u8]> {
        match &self.expect {
            Expect::File { path, .. } => vec![path],
            Expect::OneOf(paths) => paths.iter().map(Vec::as_slice).collect(),
            Expect::Tree(_) => Vec::new(),
        }
    }
}

/// A file as `rests` held it, the oldest first: of those that an expectation names, number `at`.
fn files(rests: &[Rest], at: usize) -> impl Iterator<Item = Option<&Arc<Row>>> {
    rests.iter().filter_map(move |rest| match &rest.held {
        Held::Files(files) => Some(files[at].as_ref()),
        Held::Tree(_) => None,
    })
}

impl Counting<'_> {
    /// Judges file number `at`.
    fn file(
        &self,
        form: FileForm,
        at: usize,
        found: Option<&Arc<Row>>,
    ) -> Result<(), (Symptom, usize)> {
        let mut allowed = files(self.allowed, at);
        let is_kept = match (form, found) {
            (FileForm::Prefix, None) => self.promised(at).is_none(),
            (FileForm::Prefix, Some(found)) => {
                // All that was acknowledged, and no byte that was not written.
                self.promised(at).is_none_or(|row| is_beginning(&row.content, found))
                    && allowed.flatten().any(|row| is_beginning(&found.content, row))
            }
            (FileForm::OldOrNew, None) => allowed.any(|row| row.is_none()),
            (FileForm::Whole, None) => false,
            (FileForm::AbsentOrWhole, None) => {
                self.promised(at).is_none() || allowed.any(|row| row.is_none())
            }
            (_, Some(found)) => allowed.flatten().any(|row| is_alike(row, found)),
        };
        if is_kept { Ok(()) } else { Err((self.symptom(form, at, found), at)) }
    }

    /// The file that the newest `ack` line promised.
    fn promised(&self, at: usize) -> Option<&Arc<Row>> {
        self.acknowledged.and_then(|_| files(self.allowed, at).next().flatten())
    }

    fn one_of(&self, found: [Option<&Arc<Row>>; 2]) -> Result<(), (Symptom, usize)> {
        match found {
            [Some(_), Some(_)] => Err((Symptom::Both, 0)),
            [None, None] => Err((Symptom::Missing, 0)),
            [one, None] => self.file(FileForm::Whole, 0, one),
            [None, other] => self.file(FileForm::Whole, 1, other),
        }
    }

    /// How a file that is not as expected is wrong.
    fn symptom(&self, form: FileForm, at: usize, found: Option<&Arc<Row>>) -> Symptom {
        let Some(found) = found else { return Symptom::Missing };
        let known = || files(self.older, at).chain(files(self.allowed, at)).flatten();
        // A log that lacks its end is cut short, whether or not it was ever as short as that.
        let is_log = form == FileForm::Prefix;
        if !is_log && files(self.older, at).flatten().any(|row| is_alike(row, found)) {
            return Symptom::Old;
        }
        let bytes = &found.content;
        if found.facts.kind != FileType::Regular {
            Symptom::Other
        } else if bytes.is_empty() {
            Symptom::Empty
        } else if known().any(|row| is_beginning(bytes, row)) {
            Symptom::CutShort
        } else if known().any(|row| is_beginning(&without_zeros(bytes), row)) {
            Symptom::Zeros
        } else if bytes.bytes().enumerate().all(|(place, byte)| {
            byte == 0 || known().any(|row| row.content.byte(place) == Some(byte))
        }) {
            Symptom::Mixed
        } else {
            Symptom::Other
        }
    }

    fn tree(&self, found: &Tree) -> Result<(), (Symptom, Vec<u8>)> {
        let trees = |rests: &'_ [Rest]| -> Vec<Arc<Tree>> {
            let trees = rests.iter().filter_map(|rest| match &rest.held {
                Held::Tree(tree) => Some(tree.clone()),
                Held::Files(_) => None,
            });
            trees.collect()
        };
        let allowed = trees(self.allowed);
        if allowed.iter().any(|tree| first_other(tree, found).is_none()) {
            return Ok(());
        }
        // Told beside the newest: that is the one which the update under way leads to.
        let path = allowed.last().and_then(|tree| first_other(tree, found)).unwrap_or_default();
        let is_old = trees(self.older).iter().any(|tree| first_other(tree, found).is_none());
        Err((if is_old { Symptom::Old } else { Symptom::OtherTree }, path))
    }
}

/// True if an application that reads both finds the same: kind, bytes, and the target of a link.
pub(crate) fn is_alike(one: &Row, other: &Row) -> bool {
    one.facts.kind == other.facts.kind
        && one.facts.target == other.facts.target
        && one.content == other.content
}

/// The bytes up to the last one that is not zero.
fn without_zeros(bytes: &Content) -> Content {
    bytes.cut_to(bytes.bytes().rev().skip_while(|byte| *byte == 0).count())
}

fn is_beginning(bytes: &Content, of: &Row) -> bool {
    of.facts.kind == FileType::Regular && of.content.starts_with(bytes)
}

/// The first path at which trees differ, as an application reads them.
fn first_other(one: &Tree, other: &Tree) -> Option<Vec<u8>> {
    let differs = |(path, row): &(&Vec<u8>, &Arc<Row>)| {
        other.rows.get(*path).is_none_or(|found| !is_alike(row, found))
    };
    let mine = one.rows.iter().find(differs).map(|(path, _)| path);
    let only_theirs = other.rows.keys().find(|path| !one.rows.contains_key(*path));
    mine.into_iter().chain(only_theirs).min().cloned()
}

/// What stands at a path, in few words.
pub(crate) fn described(row: Option<&Arc<Row>>) -> String {
    let Some(row) = row else { return "nothing".into() };
    match row.facts.kind {
        FileType::Regular => bytes_text(row.content.len()),
        FileType::Directory => "a directory".into(),
        FileType::Symlink => format!("a link to {}", escape_path(&row.facts.target)),
        _ => "a special file".into(),
    }
}

fn bytes_text(count: usize) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

#[cfg(test)]
mod tests {
    use super::{Acknowledged, Expectation, Held, Rest, Symptom};
    use crate::tree::Tree;
    use crate::tree::made_up::{self, row};
    use script::{Expect, FileForm, Place};
    use std::sync::Arc;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
        made_up::tree(&files)
    }

    /// Rest points after 10, 20 and so on operations, each with what the files hold there.
    fn expectation(expect: Expect, held: &[&[Option<&str>]], acks: &[usize]) -> Expectation {
        let at = |number: usize| 10 * (number as u64 + 1);
        let files = |files: &[Option<&str>]| {
            Held::Files(files.iter().map(|one| one.map(|text| row(text.as_bytes()))).collect())
        };
        let rests = held.iter().enumerate();
        let rests = rests.map(|(number, held)| Rest { at: at(number), held: files(held) });
        let acks = acks.iter().map(|rest| Acknowledged {
            at: at(*rest),
            number: 7,
            place: Place::of_line(9),
            rest: *rest,
        });
        let (rests, acknowledged) = (rests.collect(), acks.collect());
        Expectation { expect, place: Place::of_line(1), from: 10, rests, acknowledged }
    }

    fn file(form: FileForm) -> Expect {
        Expect::File { path: b"cfg".to_vec(), form }
    }

    /// What is wrong with `cfg` of these bytes after a cut of this operation; none if nothing is.
    fn judged(expectation: &Expectation, cut: u64, bytes: Option<&str>) -> Option<Symptom> {
        let found = bytes.map_or_else(Tree::default, |bytes| tree(&[("cfg", bytes)]));
        expectation.judge(cut, Some(&found)).err().map(|broken| broken.symptom)
    }

    #[test]
    fn old_or_new_is_a_rest_point_from_the_acknowledged_one_to_the_next() {
        let held: [&[Option<&str>]; 4] =
            [&[Some("aaaa")], &[Some("bbbbbb")], &[Some("cccc")], &[None]];
        let free = expectation(file(FileForm::OldOrNew), &held, &[]);
        // Between the second rest point and the third all up to the third may be found.
        for bytes in ["aaaa", "bbbbbb", "cccc"] {
            assert_eq!(judged(&free, 25, Some(bytes)), None, "{bytes}");
        }
        for (bytes, symptom) in [
            (None, Symptom::Missing),
            (Some(""), Symptom::Empty),
            (Some("bbb"), Symptom::CutShort),
            (Some("\0\0\0\0"), Symptom::Zeros),
            (Some("aabb"), Symptom::Mixed),
            (Some("aaxx"), Symptom::Other),
        ] {
            assert_eq!(judged(&free, 25, bytes), Some(symptom), "{bytes:?}");
        }
        // The first rest point has no update behind it yet: what comes later was never written.
        assert_eq!(judged(&free, 10, Some("cccc")), Some(Symptom::Other));
        // The last rest point is one where the file is gone.
        assert_eq!(judged(&free, 30, None), None);
        let acknowledged = expectation(file(FileForm::OldOrNew), &held, &[1]);
        assert_eq!(judged(&acknowledged, 19, Some("aaaa")), None, "not passed yet");
        assert_eq!(judged(&acknowledged, 20, Some("aaaa")), Some(Symptom::Old));
        assert_eq!(judged(&acknowledged, 20, Some("bbbbbb")), None);
        let found = tree(&[("cfg", "aaaa")]);
        let broken = acknowledged.judge(20, Some(&found)).expect_err("old");
        assert_eq!((broken.found.as_str(), broken.path.as_slice()), ("4 bytes", b"cfg".as_slice()));
        assert_eq!(broken.acknowledged.map(|line| (line.number, line.place.line)), Some((7, 9)));
    }

    #[test]
    fn whole_files_are_there_and_others_may_be_missing_until_they_are_acknowledged() {
        let held: [&[Option<&str>]; 2] = [&[Some("aaaa")], &[Some("bbbb")]];
        let whole = expectation(file(FileForm::Whole), &held, &[]);
        assert_eq!(judged(&whole, 10, None), Some(Symptom::Missing));
        assert_eq!(judged(&whole, 10, Some("bbbb")), None);
        let absent = expectation(file(FileForm::AbsentOrWhole), &held, &[]);
        assert_eq!(judged(&absent, 10, None), None);
        assert_eq!(judged(&absent, 10, Some("aa")), Some(Symptom::CutShort));
        let acknowledged = expectation(file(FileForm::AbsentOrWhole), &held, &[0]);
        assert_eq!(judged(&acknowledged, 10, None), Some(Symptom::Missing));
        let removed: [&[Option<&str>]; 2] = [&[Some("aaaa")], &[None]];
        let removed = expectation(file(FileForm::AbsentOrWhole), &removed, &[0]);
        assert_eq!(judged(&removed, 10, None), None, "the next update takes it away");
    }

    #[test]
    fn a_log_keeps_its_beginning_and_all_that_was_acknowledged() {
        let held: [&[Option<&str>]; 3] = [&[Some("ab")], &[Some("abcd")], &[Some("abcdef")]];
        let free = expectation(file(FileForm::Prefix), &held, &[]);
        for bytes in [None, Some(""), Some("a"), Some("abcde")] {
            assert_eq!(judged(&free, 25, bytes), None, "{bytes:?}");
        }
        assert_eq!(judged(&free, 25, Some("abcdeg")), Some(Symptom::Other));
        assert_eq!(judged(&free, 25, Some("abcd\0\0")), Some(Symptom::Zeros));
        let broken = free.judge(25, Some(&tree(&[("cfg", "abcd\0\0")]))).expect_err("zeros");
        assert_eq!(broken.found, "6 bytes, zeros from byte 4 on");
        assert_eq!(judged(&free, 15, Some("abcde")), Some(Symptom::Other), "not written yet");
        let acknowledged = expectation(file(FileForm::Prefix), &held, &[1]);
        assert_eq!(judged(&acknowledged, 20, Some("abcde")), None);
        assert_eq!(judged(&acknowledged, 20, Some("abcd")), None);
        assert_eq!(judged(&acknowledged, 20, Some("abc")), Some(Symptom::CutShort));
        assert_eq!(judged(&acknowledged, 20, Some("ab")), Some(Symptom::CutShort));
        assert_eq!(judged(&acknowledged, 20, Some("")), Some(Symptom::Empty));
        assert_eq!(judged(&acknowledged, 20, None), Some(Symptom::Missing));
        assert_eq!(judged(&acknowledged, 19, None), None);
    }

    #[test]
    fn one_of_two_files_is_there_and_whole() {
        let expect = Expect::OneOf([b"a".to_vec(), b"b".to_vec()]);
        let held: [&[Option<&str>]; 2] = [&[Some("xy"), None], &[None, Some("xy")]];
        let free = expectation(expect.clone(), &held, &[]);
        let judged = |one: &Expectation, cut, files: &[(&str, &str)]| {
            one.judge(cut, Some(&tree(files))).err().map(|broken| broken.symptom)
        };
        assert_eq!(judged(&free, 10, &[("a", "xy")]), None);
        assert_eq!(judged(&free, 10, &[("b", "xy")]), None);
        assert_eq!(judged(&free, 10, &[("a", "xy"), ("b", "xy")]), Some(Symptom::Both));
        assert_eq!(judged(&free, 10, &[]), Some(Symptom::Missing));
        assert_eq!(judged(&free, 10, &[("b", "x")]), Some(Symptom::CutShort));
        let acknowledged = expectation(expect, &held, &[1]);
        assert_eq!(judged(&acknowledged, 20, &[("a", "xy")]), Some(Symptom::Old));
        assert_eq!(judged(&acknowledged, 20, &[("b", "xy")]), None);
    }

    #[test]
    fn a_tree_is_one_of_those_that_were_kept() {
        let kept = [tree(&[("a", "1")]), tree(&[("a", "1"), ("b", "2")]), tree(&[("b", "3")])];
        let rests = kept.iter().enumerate().map(|(number, tree)| Rest {
            at: 10 * (number as u64 + 1),
            held: Held::Tree(Arc::new(tree.clone())),
        });
        let mut expectation = expectation(Expect::Tree("t".into()), &[], &[1]);
        expectation.rests = rests.collect();
        let judged = |cut, found: &Tree| {
            let broken = expectation.judge(cut, Some(found)).err()?;
            Some((broken.symptom, String::from_utf8(broken.path).expect("letters")))
        };
        assert_eq!(judged(15, &kept[0]), None);
        assert_eq!(judged(15, &kept[1]), None);
        assert_eq!(judged(20, &kept[0]), Some((Symptom::Old, "a".into())));
        assert_eq!(judged(15, &kept[2]), Some((Symptom::OtherTree, "a".into())));
        let half = tree(&[("a", "1"), ("b", "")]);
        assert_eq!(judged(15, &half), Some((Symptom::OtherTree, "b".into())));
    }

    #[test]
    fn what_cannot_be_read_keeps_no_expectation() {
        let held: [&[Option<&str>]; 1] = [&[None]];
        let expectation = expectation(file(FileForm::AbsentOrWhole), &held, &[]);
        assert!(!expectation.is_in_force(9) && expectation.is_in_force(10));
        assert_eq!(judged(&expectation, 9, Some("")), None, "before the line");
        assert_eq!(judged(&expectation, 10, Some("")), Some(Symptom::Empty));
        assert_eq!(judged(&expectation, 10, None), None);
        let broken = expectation.judge(10, None).expect_err("nothing was mounted");
        assert_eq!(broken.symptom, Symptom::Unreadable);
        let unreadable = Tree { unreadable: vec![b"cfg".to_vec()], ..Tree::default() };
        let broken = expectation.judge(10, Some(&unreadable)).expect_err("an error of the read");
        assert_eq!(broken.symptom, Symptom::Unreadable);
    }
}

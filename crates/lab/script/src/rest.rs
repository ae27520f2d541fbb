//! Lines that tell what an application relies on after a power cut, and where its files are at rest.

use std::fmt;
use vfs::escape_path;

/// A line about the application's own promises. It makes no call: `nandlab crash` reads it, and no other program
/// carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestLine {
    /// `expect` and `expect-tree`: from here on, a cut must leave this.
    Expect(Expect),
    /// `tree NAME`: the tree is at rest, and is kept under a name.
    Tree(String),
    /// `ack N`: the application has told its user that step N is done.
    Acknowledge(u64),
}

/// What must be there after a power cut.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expect {
    /// `expect PATH FORM`: a file.
    File {
        /// From the root of the mount, without `.` and without empty names.
        path: Vec<u8>,
        /// What it may hold.
        form: FileForm,
    },
    /// `expect one-of A B`: exactly one of two files is there, and whole.
    OneOf([Vec<u8>; 2]),
    /// `expect-tree NAME`: the tree is one of those that were kept under this name.
    Tree(String),
}

/// What a file may hold after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileForm {
    /// What it held at a rest point; it may be missing if it was missing there.
    OldOrNew,
    /// The first bytes of what it held at a rest point.
    Prefix,
    /// What it held at a rest point, and it is there.
    Whole,
    /// The same, or it is missing.
    AbsentOrWhole,
}

impl FileForm {
    /// All forms, in the order of the manual.
    pub const ALL: [Self; 4] = [Self::OldOrNew, Self::Prefix, Self::Whole, Self::AbsentOrWhole];

    /// The word of the language.
    pub fn name(self) -> &'static str {
        match self {
            Self::OldOrNew => "old-or-new",
            Self::Prefix => "prefix",
            Self::Whole => "whole",
            Self::AbsentOrWhole => "absent-or-whole",
        }
    }

    fn named(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name);
        Self::ALL.into_iter().find(|form| form.name() == name).ok_or_else(|| {
            let hint = suggestion::hint(name, names());
            format!("`{name}` must be one of {}{hint}", names().join(", "))
        })
    }
}

/// As it stands in the script.
impl fmt::Display for Expect {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, form } => write!(to, "expect {} {}", escape_path(path), form.name()),
            Self::OneOf([one, other]) => {
                write!(to, "expect one-of {} {}", escape_path(one), escape_path(other))
            }
            Self::Tree(name) => write!(to, "expect-tree {name}"),
        }
    }
}

/// What `expect` says with these words: paths as they stand in the script, and the form of a file.
///
/// # Errors
/// The number of the word that is wrong, and why.
pub(crate) fn file_expectation(words: &[(&str, Vec<u8>)]) -> Result<Expect, (usize, String)> {
    match words {
        // By its number of words: a file may have the name `one-of`.
        [("one-of", _), one, other] => {
            let paths =
                [plain(&one.1).map_err(|why| (1, why))?, plain(&other.1).map_err(|why| (2, why))?];
            if paths[0] == paths[1] {
                return Err((2, format!("`{}` is the same file twice", other.0)));
            }
            Ok(Expect::OneOf(paths))
        }
        [path, (form, _)] => {
            let path = plain(&path.1).map_err(|why| (0, why))?;
            Ok(Expect::File { path, form: FileForm::named(form).map_err(|why| (1, why))? })
        }
        _ => {
            let forms = FileForm::ALL.map(FileForm::name).join(", ");
            let last = words.len().saturating_sub(1);
            Err((last, format!("write `expect PATH FORM` with {forms}, or `expect one-of A B`")))
        }
    }
}

/// A path from the root, name by name. It is compared with the names of a tree, so nothing is followed.
fn plain(path: &[u8]) -> Result<Vec<u8>, String> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    let names: Vec<&[u8]> = names.collect();
    // What `..` leads to depends on links, and no tree has a name with it.
    if names.contains(&b"..".as_slice()) {
        return Err(format!("`{}` leads upwards: write the path from the root", escape_path(path)));
    }
    if names.is_empty() {
        return Err("the root is no file: `expect-tree` speaks of all files".into());
    }
    Ok(names.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::{Expect, FileForm, RestLine};
    use crate::{ControlLine, Step, parse};

    fn lines(text: &str) -> Vec<RestLine> {
        let commands = parse(text).expect("a script");
        let rest = commands.commands().filter_map(|command| match command.step {
            Step::Control(ControlLine::AtRest(line)) => Some(line),
            _ => None,
        });
        rest.collect()
    }

    fn refused(text: &str) -> String {
        parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn expectations_are_read_with_their_forms() {
        let text = "expect ./a//b old-or-new\nexpect one-of whole\nexpect one-of a%20b c\nexpect-tree t\n\
                    tree t\nfor i in 1..2 {\nack $i\n}\n";
        let file = |path: &[u8], form| RestLine::Expect(Expect::File { path: path.into(), form });
        let expected = [
            file(b"a/b", FileForm::OldOrNew),
            file(b"one-of", FileForm::Whole),
            RestLine::Expect(Expect::OneOf([b"a b".to_vec(), b"c".to_vec()])),
            RestLine::Expect(Expect::Tree("t".into())),
            RestLine::Tree("t".into()),
            RestLine::Acknowledge(1),
            RestLine::Acknowledge(2),
        ];
        assert_eq!(lines(text), expected);
        let shown: Vec<String> = lines(text)
            .into_iter()
            .filter_map(|line| match line {
                RestLine::Expect(expect) => Some(expect.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(
            shown,
            [
                "expect a/b old-or-new",
                "expect one-of whole",
                "expect one-of a%20b c",
                "expect-tree t"
            ]
        );
    }

    #[test]
    fn what_is_no_expectation_is_refused_at_its_word() {
        let wrong = refused("expect cfg hole");
        assert!(wrong.starts_with("line 1, column 12: `hole` must be one of"), "{wrong}");
        assert!(wrong.ends_with("did you mean `whole`?"), "{wrong}");
        assert!(refused("expect one-of a ./a").starts_with("line 1, column 17: `./a` is the same"));
        assert!(refused("expect ../a whole").starts_with("line 1, column 8: `../a` leads upwards"));
        assert!(refused("expect . whole").contains("`expect-tree`"));
        assert!(refused("expect cfg").contains("write `expect PATH FORM`"));
        assert!(refused("expect a whole b").contains("write `expect PATH FORM`"));
        assert!(refused("ack one").contains("the number of the step is `one`"));
        assert!(refused("concurrent { ack 1 }").contains("system calls and sleeps"));
        assert!(refused("try ack 1").contains("only a system call"));
    }
}

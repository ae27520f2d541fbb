//! The command line of IOzone, and which of its options are refused.

use crate::buffer::Contents;
use crate::contract::Test;
use crate::table::{TESTS, find_test};
use thiserror::Error;

/// An option that is unknown, not modelled or incomplete.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("iozone {option}: {reason}")]
pub struct OptionError {
    /// The option as the command line has it.
    pub option: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// A command line of IOzone.
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line, each of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tests in the order they run (`-i`); by number, as IOzone runs them.
    pub tests: Vec<&'static Test>,
    /// Bytes of the file (`-s`).
    pub file_bytes: u64,
    /// Bytes of a record (`-r`).
    pub record_bytes: u64,
    /// The time of a test includes `fsync` (`-e`).
    pub includes_flush: bool,
    /// The time of a test includes `close` (`-c`).
    pub includes_close: bool,
    /// The file is written synchronously (`-o`, `O_SYNC`).
    pub is_synchronous: bool,
    /// The file is opened with `O_DIRECT` (`-I`).
    pub is_direct: bool,
    /// Tests are run once, not repeated (`-+n` takes this away).
    pub has_retests: bool,
    /// The file system is unmounted and mounted again before each test (`-U`).
    pub remounts: bool,
    /// The file stays after the last test (`-w`).
    pub keeps_file: bool,
    /// Bytes that records are made of.
    pub contents: Contents,
    /// Records between the beginnings of two strided reads (`-j`).
    pub stride_records: u64,
}

/// Options of IOzone that are not modelled, and why not.
const REFUSED: &[(&str, &str)] = &[
    ("-a", "automatic mode is not modelled: name the file with -s and the record with -r"),
    ("-A", "automatic mode is not modelled: name the file with -s and the record with -r"),
    ("-z", "automatic mode is not modelled: name the file with -s and the record with -r"),
    ("-t", "one process is modelled, not threads or throughput mode"),
    ("-B", "memory-mapped files are not modelled"),
    ("-H", "asynchronous I/O is not modelled"),
    ("-k", "asynchronous I/O is not modelled"),
];

/// Options that change only what IOzone prints, or where its file lies.
const IGNORED: &[(&str, bool)] =
    &[("-R", false), ("-Q", false), ("-N", false), ("-+u", false), ("-f", true), ("-b", true)];

/// Record size unless `-r` names one.
const RECORD_BYTES: u64 = 4 << 10;
/// File size unless `-s` names one.
const FILE_BYTES: u64 = 512 << 10;
/// Stride unless `-j` names one: 17 records.
const STRIDE_RECORDS: u64 = 17;

impl Options {
    /// Reads a command line, without the name of the program.
    ///
    /// # Errors
    /// [`OptionError`] for an option that is unknown or not modelled, and for a value that is missing or out of
    /// range.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let mut options = Self {
            tests: Vec::new(),
            file_bytes: FILE_BYTES,
            record_bytes: RECORD_BYTES,
            includes_flush: false,
            includes_close: false,
            is_synchronous: false,
            is_direct: false,
            has_retests: true,
            remounts: false,
            keeps_file: false,
            contents: Contents::Pattern,
            stride_records: STRIDE_RECORDS,
        };
        let mut words = text.split_whitespace().peekable();
        while let Some(option) = words.next() {
            let mut argument = || {
                let word = words.next();
                word.ok_or_else(|| wrong(option, "a value is missing behind it"))
            };
            match option {
                "-i" => options.add_test(argument()?)?,
                "-s" => options.file_bytes = kilobytes(option, argument()?)?,
                "-r" => options.record_bytes = kilobytes(option, argument()?)?,
                "-j" => options.stride_records = number(option, argument()?, 1, 1 << 20)?,
                "-e" => options.includes_flush = true,
                "-c" => options.includes_close = true,
                "-o" => options.is_synchronous = true,
                "-I" => options.is_direct = true,
                "-w" => options.keeps_file = true,
                "-+n" => options.has_retests = false,
                "-+w" => {
                    let percent = number(option, argument()?, 0, 100)?;
                    options.contents = Contents::Random { same_percent: percent as u32 };
                }
                "-U" => {
                    options.remounts = true;
                    // The mount point may be left out: there is one mount.
                    let _ = words.next_if(|word| !word.starts_with('-'));
                }
                _ => pass(option, &mut words)?,
            }
        }
        options.check()?;
        Ok(options)
    }

    fn add_test(&mut self, given: &str) -> Result<(), OptionError> {
        let number = number("-i", given, 0, 12)? as u32;
        let Some(test) = find_test(number) else {
            return Err(wrong("-i", format!("test {number} is not modelled: 0 to 7 are")));
        };
        if !self.tests.contains(&test) {
            self.tests.push(test);
            // IOzone runs tests by number, in whatever order the command line names them.
            self.tests.sort_by_key(|test| test.number);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), OptionError> {
        if self.tests.is_empty() {
            self.tests = TESTS.iter().collect();
        }
        if !self.tests.iter().any(|test| test.makes_file) {
            return Err(wrong("-i", "the file must be made first: add -i 0"));
        }
        if self.tests[0].number > 0 && !self.tests[0].makes_file {
            return Err(wrong("-i", "tests run by number, so the file must be made by -i 0"));
        }
        if self.record_bytes == 0 || self.file_bytes < self.record_bytes {
            return Err(wrong("-s", "the file must hold at least one record (-r)"));
        }
        if self.record_bytes > 16 << 20 {
            return Err(wrong("-r", "a record is at most 16 MiB, as in IOzone"));
        }
        Ok(())
    }

    /// Whole records of the file.
    pub fn records(&self) -> u64 {
        self.file_bytes / self.record_bytes
    }

    /// Names of the columns that the tests fill, in the order they run.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.tests.iter().flat_map(|test| test.columns_run(self.has_retests)).copied()
    }
}

/// What is neither an option of the model nor an error.
fn pass<'a>(option: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<(), OptionError> {
    if let Some((_, takes_value)) = IGNORED.iter().find(|(known, _)| *known == option) {
        if *takes_value {
            words.next();
        }
        return Ok(());
    }
    match REFUSED.iter().find(|(known, _)| *known == option) {
        Some((_, reason)) => Err(wrong(option, *reason)),
        None => Err(wrong(option, "is not known here: -i -s -r -j -e -c -o -I -w -+n -+w -U are")),
    }
}

fn wrong(option: &str, reason: impl Into<String>) -> OptionError {
    OptionError { option: option.to_owned(), reason: reason.into() }
}

fn number(option: &str, text: &str, least: u64, most: u64) -> Result<u64, OptionError> {
    let found = text.parse().ok().filter(|number| (least..=most).contains(number));
    found.ok_or_else(|| wrong(option, format!("`{text}` must be a number, {least} to {most}")))
}

/// A size: kilobytes, or a number with k, m or g.
fn kilobytes(option: &str, text: &str) -> Result<u64, OptionError> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    // Without a letter IOzone counts in kilobytes, of 1024 bytes.
    let shift = match &text[digits.len()..] {
        "" | "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return Err(wrong(option, format!("`{text}` must be a number with k, m or g"))),
    };
    let most = 4 << (30 - shift);
    number(option, digits, 1, most).map(|number| number << shift)
}

#[cfg(test)]
mod tests {
    use super::Options;
    use crate::buffer::Contents;

    #[test]
    fn a_command_line_is_understood() {
        let options = Options::parse("-i 1 -i 0 -s 2m -r 32k -e -c -U /mnt -+n").expect("right");
        assert_eq!(
            (options.file_bytes, options.record_bytes, options.records()),
            (2 << 20, 32 << 10, 64)
        );
        assert!(options.includes_flush && options.includes_close && options.remounts);
        assert!(!options.is_direct && !options.has_retests);
        assert_eq!(options.columns().collect::<Vec<_>>(), ["write", "read"]);
        assert_eq!(options.contents, Contents::Pattern);
        let all = Options::parse("-s 64 -+w 0").expect("all tests");
        assert_eq!((all.tests.len(), all.columns().count()), (8, 13));
        assert_eq!(all.contents, Contents::Random { same_percent: 0 });
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        let said = |text: &str| Options::parse(text).expect_err("refused").to_string();
        assert_eq!(said("-i 9"), "iozone -i: test 9 is not modelled: 0 to 7 are");
        assert_eq!(said("-i 1"), "iozone -i: the file must be made first: add -i 0");
        assert_eq!(said("-s 1x"), "iozone -s: `1x` must be a number with k, m or g");
        assert_eq!(said("-s"), "iozone -s: a value is missing behind it");
        assert!(said("-a").contains("automatic mode"));
        assert!(said("-q4").contains("is not known here"));
        assert!(said("-i 0 -s 4k -r 8k").contains("at least one record"));
    }
}

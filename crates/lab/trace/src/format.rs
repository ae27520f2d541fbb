//! The table of formats: names, choice and detection derive from it.

use std::path::{Path, PathBuf};

use crate::error::{Fault, Kind};
use crate::input::Input;
use crate::lines::{LineParser, Lines};
use crate::reader::{Options, Source};
use crate::{blkparse, blktrace, diskmon, disksim, fio_iolog, mqsim, msr, parquet, spc, suggest};

/// Lines that detection looks at.
const DETECTION_LINES: usize = 16;

/// A format: a row of [`FORMATS`].
pub struct FormatEntry {
    /// The name users choose it by.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// How its files are usually called.
    pub file_names: &'static [&'static str],
    /// How the time is coded.
    pub time: &'static str,
    /// How the address is coded.
    pub address: &'static str,
    /// How the length is coded.
    pub length: &'static str,
    /// What tells a read from a write, and what else it knows.
    pub operations: &'static str,
    /// Whether the user must name the unit of time.
    pub takes_time_unit: bool,
    pub(crate) detect: fn(&Head) -> Match,
    pub(crate) open: fn(Opening) -> Result<Box<dyn Source>, Fault>,
}

/// Every format, sorted by name.
pub static FORMATS: &[FormatEntry] = &[
    FormatEntry {
        name: "blkparse",
        summary: "text of blkparse, default output",
        file_names: &["*.blkparse", "*.blkparse.txt"],
        time: "seconds, 9 decimals",
        address: "512-byte sectors",
        length: "512-byte sectors",
        operations: "letters R, W, D (trim), N, F (flush, FUA), S, A, M",
        takes_time_unit: false,
        detect: blkparse::detect,
        open: |opening| {
            let parser = blkparse::Parser::new(opening.options.event);
            Ok(opening.lines(parser))
        },
    },
    FormatEntry {
        name: "blktrace",
        summary: "binary log of the Linux block layer, one file per CPU",
        file_names: &["*.blktrace.0", "*.blktrace.1"],
        time: "nanoseconds",
        address: "512-byte sectors",
        length: "bytes",
        operations: "category bits: write, discard, flush, FUA, sync, meta, readahead",
        takes_time_unit: false,
        detect: |head| blktrace::detect(head.bytes),
        open: blktrace::open,
    },
    FormatEntry {
        name: "diskmon",
        summary: "saved log of Sysinternals DiskMon",
        file_names: &["*.log"],
        time: "seconds, decimal",
        address: "512-byte sectors",
        length: "512-byte sectors",
        operations: "Read, Write",
        takes_time_unit: false,
        detect: diskmon::detect,
        open: |opening| Ok(opening.lines(diskmon::Parser)),
    },
    FormatEntry {
        name: "disksim",
        summary: "ASCII trace of DiskSim",
        file_names: &["*.disksim"],
        time: "milliseconds, decimal",
        address: "512-byte blocks",
        length: "512-byte blocks",
        operations: "hexadecimal flags: bit 0 set is a read, 0x80 is synchronous",
        takes_time_unit: false,
        detect: disksim::detect,
        open: |opening| Ok(opening.lines(disksim::Parser)),
    },
    FormatEntry {
        name: "fio-iolog",
        summary: "I/O log of fio, versions 2 and 3",
        file_names: &["*.iolog"],
        time: "microseconds (version 3), waits (version 2)",
        address: "bytes",
        length: "bytes",
        operations: "read, write, trim, sync, datasync",
        takes_time_unit: false,
        detect: fio_iolog::detect,
        open: |opening| {
            let parser = fio_iolog::Parser::new(opening.input.head())?;
            Ok(opening.lines(parser))
        },
    },
    FormatEntry {
        name: "mqsim",
        summary: "ASCII trace of MQSim",
        file_names: &["*.mqsim"],
        time: "whole number, unit named by --time-unit",
        address: "512-byte sectors",
        length: "512-byte sectors",
        operations: "0 write, 1 read",
        takes_time_unit: true,
        detect: mqsim::detect,
        open: |opening| {
            let parser = mqsim::Parser::of_mqsim(opening.options.time_unit)?;
            Ok(opening.lines(parser))
        },
    },
    FormatEntry {
        name: "msr",
        summary: "MSR Cambridge CSV",
        file_names: &["*.csv", "*.csv.gz"],
        time: "100 ns since 1601",
        address: "bytes",
        length: "bytes",
        operations: "Read, Write; response time",
        takes_time_unit: false,
        detect: msr::detect,
        open: |opening| Ok(opening.lines(msr::Parser)),
    },
    FormatEntry {
        name: "parquet",
        summary: "canonical form of this project",
        file_names: &["*.parquet"],
        time: "nanoseconds",
        address: "bytes",
        length: "bytes",
        operations: "read, write, trim, flush, write_zeroes; flags, latency, file operation",
        takes_time_unit: false,
        detect: |head| parquet::detect(head.bytes),
        open: |opening| parquet::open(&opening),
    },
    FormatEntry {
        name: "spc",
        summary: "SPC trace, as of the UMass repository",
        file_names: &["*.spc"],
        time: "seconds, decimal",
        address: "512-byte blocks",
        length: "bytes",
        operations: "R, W in either case",
        takes_time_unit: false,
        detect: spc::detect,
        open: |opening| Ok(opening.lines(spc::Parser)),
    },
    FormatEntry {
        name: "ssdsim",
        summary: "ASCII trace of SSDsim (HUST)",
        file_names: &["*.ssdsim"],
        time: "nanoseconds",
        address: "512-byte sectors",
        length: "512-byte sectors",
        operations: "0 write, 1 read",
        takes_time_unit: false,
        // The same lines as MQSim's: the name of the file decides, or the user.
        detect: mqsim::detect,
        open: |opening| Ok(opening.lines(mqsim::Parser::of_ssdsim())),
    },
];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static FormatEntry> {
    FORMATS.iter().find(|entry| entry.name == name)
}

/// The format of that name, or an error with the nearest one.
pub(crate) fn named(name: &str) -> Result<&'static FormatEntry, Fault> {
    find(name).ok_or_else(|| {
        let names = || FORMATS.iter().map(|entry| entry.name);
        let suggestion = match suggest::nearest(name, names()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        };
        Fault::new(Kind::UnknownFormat, "the format is unknown").quoting(name).suggest(suggestion)
    })
}

/// What a format's open function gets.
pub(crate) struct Opening<'a> {
    pub(crate) path: &'a Path,
    pub(crate) input: Input,
    /// All files of a blktrace, if the path names one; else empty.
    pub(crate) files: &'a [PathBuf],
    pub(crate) options: &'a Options,
}

impl Opening<'_> {
    fn lines(self, parser: impl LineParser + 'static) -> Box<dyn Source> {
        Box::new(Lines::new(self.input.into_bytes(), parser, self.options.skip_bad_lines))
    }
}

/// How well content fits a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The content is of another format.
    No,
    /// It fits, and may fit others too.
    Possible,
    /// It fits and has a mark of its own.
    Certain,
}

impl Match {
    pub(crate) fn certain_if(condition: bool) -> Self {
        if condition { Self::Certain } else { Self::No }
    }
}

/// The beginning of a trace.
pub(crate) struct Head<'a> {
    pub(crate) bytes: &'a [u8],
    lines: Vec<&'a str>,
}

impl<'a> Head<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let lines = bytes
            .split(|byte| *byte == b'\n')
            // Binary content has no lines.
            .filter_map(|line| std::str::from_utf8(line).ok())
            // The byte order mark and the line ends of Windows are no part of the content.
            .map(|line| line.trim_start_matches('\u{feff}').trim_end_matches('\r'))
            .filter(|line| !line.trim().is_empty())
            .take(DETECTION_LINES)
            .collect();
        Self { bytes, lines }
    }

    /// The first lines that are not blank.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a str> {
        self.lines.iter().copied()
    }

    /// Certain if at least half of the lines are of the format, so that a bad line does not hide it.
    pub(crate) fn certain_if_most(&self, is_of_format: impl Fn(&str) -> bool) -> Match {
        let fitting = self.lines.iter().filter(|line| is_of_format(line)).count();
        Match::certain_if(fitting > 0 && fitting * 2 >= self.lines.len())
    }
}

/// The format to read with: the named one unless the content is plainly another's, else the one
/// the content fits.
pub(crate) fn choose(
    named: Option<&'static FormatEntry>,
    head: &[u8],
    path: &Path,
) -> Result<&'static FormatEntry, Fault> {
    if head.is_empty() {
        return Err(Fault::new(Kind::Empty, "the file is empty"));
    }
    let head = Head::new(head);
    let fitting = |wanted: Match| {
        FORMATS.iter().filter(|entry| (entry.detect)(&head) == wanted).collect::<Vec<_>>()
    };
    let certain = fitting(Match::Certain);
    // Only content that is certainly of one other format contradicts a name that was given.
    match (named, certain.as_slice()) {
        (Some(named), [other]) if (named.detect)(&head) == Match::No => Err(Fault::new(
            Kind::WrongFormat,
            format!("the content is not {} but {}", named.name, other.name),
        )
        .suggest(format!("leave --format out or say --format {}", other.name))),
        (Some(named), _) => Ok(named),
        (None, [only]) => Ok(only),
        (None, _) => choose_possible(&fitting(Match::Possible), &head, path),
    }
}

/// Where content leaves several formats, a telling file name decides.
fn choose_possible(
    possible: &[&'static FormatEntry],
    head: &Head,
    path: &Path,
) -> Result<&'static FormatEntry, Fault> {
    let by_name: Vec<_> =
        possible.iter().copied().filter(|entry| is_named_like(entry, path)).collect();
    // One format alone fits, or one alone is called so.
    if let ([only], _) | (_, [only]) = (possible, by_name.as_slice()) {
        return Ok(only);
    }
    let first = head.lines().next().unwrap_or_default();
    if possible.is_empty() {
        let names: Vec<_> = FORMATS.iter().map(|entry| entry.name).collect();
        return Err(Fault::new(Kind::Undetectable, "the content fits no format")
            .quoting(first)
            .suggest(format!("name it with --format: {}", names.join(", "))));
    }
    let names: Vec<_> = possible.iter().map(|entry| entry.name).collect();
    Err(Fault::new(Kind::Ambiguous, format!("the content fits {}", names.join(", ")))
        .quoting(first)
        .suggest(format!(
            "name it with --format {}; mqsim also needs --time-unit ps, ns or us",
            names.join(" or ")
        )))
}

/// Whether the file is called as the format's files usually are, compressed or not.
fn is_named_like(entry: &FormatEntry, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    entry.file_names.iter().any(|pattern| plain.ends_with(pattern.trim_start_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_are_unique() {
        assert!(FORMATS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let fault = named("blkprase").err().unwrap();
        assert!(fault.to_string().contains("did you mean blkparse?"), "{fault}");
        assert!(named("xyzzy").err().unwrap().to_string().contains("one of blkparse, blktrace"));
    }
}

//! The contract of a trace format: how it is found, how it is opened, and what a row of the table says of it.
//!
//! A format uses this file and never the table, so that each format can be read and tested alone.

use std::path::{Path, PathBuf};

use crate::columns::Columns;
use crate::error::Fault;
use crate::input::Input;
use crate::notes::Notes;
use crate::options::Options;
use crate::record::Record;

/// Lines that detection looks at.
const DETECTION_LINES: usize = 16;

/// Records a batch aims at.
pub(crate) const BATCH_RECORDS: usize = 4096;

/// A format: a row of [`crate::FORMATS`].
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
    /// How operations are coded, and what else the format records.
    pub operations: &'static str,
    /// Whether the user must name the unit of time.
    pub takes_time_unit: bool,
    /// Why its times are of no use for a replay at the times of the trace; none where they are.
    pub no_times: Option<&'static str>,
    pub(crate) detect: fn(&Head) -> Match,
    pub(crate) open: fn(Opening) -> Result<Box<dyn Source>, Fault>,
}

/// A format's stream of records, as the file has them.
pub(crate) trait Source: Send {
    /// Appends some records; false when there are no more, then and ever after.
    fn fill(&mut self, records: &mut Vec<Record>, notes: &mut Notes) -> Result<bool, Fault>;

    /// A second stream of the same file by columns, if the format stores columns.
    fn columns(&self) -> Option<Result<Box<dyn ColumnSource>, Fault>> {
        None
    }

    /// What the file says about itself.
    fn metadata(&self) -> &[(String, String)] {
        &[]
    }
}

/// A format's stream of columns.
pub(crate) trait ColumnSource: Send {
    /// Appends a batch; false when there are no more, then and ever after.
    fn fill(&mut self, columns: &mut Columns) -> Result<bool, Fault>;
}

/// What a format's open function gets.
pub(crate) struct Opening<'a> {
    pub(crate) path: &'a Path,
    pub(crate) input: Input,
    /// All files of a blktrace, if the path names one; else empty.
    pub(crate) files: &'a [PathBuf],
    pub(crate) options: &'a Options,
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

//! What went wrong, where, and what to do about it.
//!
//! A reader reports a [`Fault`] with the place inside the file; the file's name is added
//! where the file was opened, which makes it a [`TraceError`].

use std::fmt;
use std::io;

/// Longest piece of the trace quoted in a message.
const QUOTE_CHARACTERS: usize = 80;

/// The class of an error, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The operating system refused, or the compressed data is damaged.
    Io,
    /// There is no such file.
    Missing,
    /// The file has no content.
    Empty,
    /// The file ends in the middle of something.
    Truncated,
    /// The named format does not exist.
    UnknownFormat,
    /// The file is of another format than the one named.
    WrongFormat,
    /// The content fits no format.
    Undetectable,
    /// The content fits several formats.
    Ambiguous,
    /// The format or its variant is known and not read.
    Unsupported,
    /// The options do not fit the format.
    Usage,
    /// A line or record breaks the rules of its format.
    Malformed,
}

/// Where in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Line of a text format, from 1.
    Line(u64),
    /// Byte of a binary format (after decompression), from 0.
    Byte(u64),
    /// Row of a Parquet file, from 0.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(formatter, "line {number}"),
            Self::Byte(number) => write!(formatter, "byte {number}"),
            Self::Row(number) => write!(formatter, "row {number}"),
        }
    }
}

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {fault}")]
pub struct TraceError {
    file: String,
    fault: Box<Fault>,
}

impl TraceError {
    /// The class of the error.
    pub fn kind(&self) -> Kind {
        self.fault.kind
    }

    /// The file it is about.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where in the file, if the error has a place.
    pub fn place(&self) -> Option<Place> {
        self.fault.place
    }

    /// The offending piece of the trace, shortened.
    pub fn text(&self) -> Option<&str> {
        self.fault.text.as_deref()
    }

    /// What is wrong, without place and file.
    pub fn reason(&self) -> &str {
        &self.fault.reason
    }

    /// What to do about it, if that is known.
    pub fn suggestion(&self) -> Option<&str> {
        self.fault.suggestion.as_deref()
    }
}

/// An error that does not know its file yet.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// Set where one trace consists of several files.
    file: Option<String>,
    place: Option<Place>,
    text: Option<String>,
    reason: String,
    suggestion: Option<String>,
}

impl Fault {
    pub(crate) fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Self { kind, file: None, place: None, text: None, reason: reason.into(), suggestion: None }
    }

    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self::new(Kind::Malformed, reason)
    }

    /// A fault of reading, compressed streams included.
    pub(crate) fn io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(Kind::Missing, "there is no such file"),
            // Both decoders report a stream that was cut off so.
            io::ErrorKind::UnexpectedEof => {
                Self::new(Kind::Truncated, "the compressed data ends early")
                    .suggest("copy or download the file again")
            }
            _ => Self::new(Kind::Io, error.to_string()),
        }
    }

    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    pub(crate) fn quoting(mut self, text: &str) -> Self {
        self.text = Some(shortened(text));
        self
    }

    pub(crate) fn of_file(mut self, file: &str) -> Self {
        // A fault that names its file keeps it.
        self.file.get_or_insert_with(|| file.to_owned());
        self
    }

    pub(crate) fn into_error(mut self, file: &str) -> TraceError {
        let file = self.file.take().unwrap_or_else(|| file.to_owned());
        TraceError { file, fault: Box::new(self) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(formatter, "{place}: ")?;
        }
        formatter.write_str(&self.reason)?;
        if let Some(text) = &self.text {
            write!(formatter, ": \"{text}\"")?;
        }
        if let Some(suggestion) = &self.suggestion {
            write!(formatter, " ({suggestion})")?;
        }
        Ok(())
    }
}

/// The beginning of a text, printable on one line.
fn shortened(text: &str) -> String {
    // Escaped: control characters of a damaged trace must not reach a terminal.
    let mut shown: String =
        text.chars().take(QUOTE_CHARACTERS).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTE_CHARACTERS).is_some() {
        shown.push_str("...");
    }
    shown
}

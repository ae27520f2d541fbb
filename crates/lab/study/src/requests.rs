//! Requests of a trace, held compactly so that many runs can share one copy.

use crate::StudyError;
use std::path::Path;
use trace::{Columns, Notes, Operation, Options, TraceError};

/// One request, as a replay needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// First byte that is addressed.
    pub offset_bytes: u64,
    /// Bytes that are addressed.
    pub length_bytes: u32,
    /// File operation it belongs to: 0 for set-up and for traces that do not say.
    pub file_operation: u32,
    /// Read, write, trim or another kind of request.
    pub operation: Operation,
}

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Requests in the order of the trace.
    pub requests: Vec<Request>,
    /// True if the trace says which file operation caused a request.
    pub has_file_operations: bool,
    /// Key-value metadata of the trace file.
    pub metadata: Vec<(String, String)>,
    /// What the reader left out or changed.
    pub notes: Vec<String>,
}

impl Requests {
    /// Reads a trace whole, or its first `limit` requests after set-up.
    ///
    /// # Errors
    /// [`StudyError::Trace`] for a file that is missing, or a line that is none.
    pub fn load(path: &Path, options: &Options, limit: Option<usize>) -> Result<Self, StudyError> {
        let mut reader = trace::open(path, options).map_err(of_study)?.into_columns()?;
        let mut columns = Columns::default();
        let mut loaded = Self { metadata: reader.reader().metadata().to_vec(), ..Self::default() };
        let mut measured = 0;
        'reading: while reader.next_columns(&mut columns)? {
            for index in 0..columns.len() {
                let file_operation = columns.file_operation[index];
                // A trace has file operations if one of its requests has a number of one.
                loaded.has_file_operations |= file_operation.is_some();
                // The set-up is kept whole: the limit counts what is measured.
                if file_operation != Some(0) {
                    measured += 1;
                    if limit.is_some_and(|limit| measured > limit) {
                        break 'reading;
                    }
                }
                loaded.requests.push(Request {
                    offset_bytes: columns.offset_bytes[index],
                    length_bytes: columns.length_bytes[index],
                    file_operation: file_operation.unwrap_or(0),
                    operation: columns.operation[index],
                });
            }
        }
        loaded.notes = describe_notes(reader.reader().notes());
        Ok(loaded)
    }

    /// The requests before the first file operation, if the trace numbers them; else none.
    pub fn set_up(&self) -> impl Iterator<Item = &Request> {
        let is_numbered = self.has_file_operations;
        self.requests.iter().take_while(move |request| is_numbered && request.file_operation == 0)
    }

    /// Requests that are measured: all but the set-up, if the trace numbers its file operations.
    pub fn measured(&self) -> impl Iterator<Item = &Request> {
        let skip_set_up = self.has_file_operations;
        self.requests.iter().filter(move |request| !skip_set_up || request.file_operation > 0)
    }

    /// The metadata value `key` as a number.
    pub fn metadata_number(&self, key: &str) -> Option<u64> {
        self.metadata.iter().find(|(name, _)| name == key)?.1.parse().ok()
    }
}

/// What a trace reader suggests are options of commands on traces, which a study has not.
fn of_study(error: TraceError) -> StudyError {
    // Options begin with two dashes.
    if error.to_string().contains("--") { StudyError::TraceOfStudy(error) } else { error.into() }
}

/// The counters of a reader that are not zero, and the first lines it skipped.
pub(crate) fn describe_notes(notes: &Notes) -> Vec<String> {
    let counted = notes.counters().into_iter().filter(|(_, count)| *count > 0);
    let counted = counted.map(|(what, count)| format!("{what}: {count}"));
    counted.chain(notes.first_skipped.iter().cloned()).collect()
}

//! The log of a run: every call of the core, in order, with its simulated time and the bytes written.
//!
//! A file of these parts:
//!
//! | part | holds |
//! |---|---|
//! | magic | `nandlab serve 1` and a newline |
//! | options | u32 length, little-endian, then [`CoreOptions`] as JSON |
//! | records | the calls; see [`crate::record`] |
//! | end | the last record, with the digest of the chips |
//!
//! The magic names the version: another layout gets another number.

use crate::carry_out::{Next, Stop, carry_out_next};
use crate::core::Core;
use crate::header::{read_options, write_options};
use crate::record::RecordWriter;
use crate::work::CoreOptions;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use thiserror::Error;

const MAGIC: &[u8] = b"nandlab serve 1\n";

/// Begins a log.
///
/// # Errors
/// Those of writing.
pub(crate) fn begin_log(mut file: File, options: &CoreOptions) -> io::Result<RecordWriter> {
    // A server that is killed at once leaves a log of no records.
    write_options(&mut file, MAGIC, options)?;
    Ok(RecordWriter::new(file))
}

/// Why a log cannot be carried out again.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        reason: io::Error,
    },
    /// It is no log.
    #[error("{path}: this is no log of `nandlab serve`, or one of another version: {reason}")]
    NoLog {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A record that no server writes.
    #[error("{path}: record {number}: {reason}")]
    Record {
        /// The file.
        path: String,
        /// Number of the record; the first is number 1.
        number: u64,
        /// What is wrong.
        reason: String,
    },
    /// The device of the log cannot be made.
    #[error("{path}: {reason}")]
    Device {
        /// The file.
        path: String,
        /// What does not fit.
        reason: String,
    },
}

/// What came of carrying a log out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// Records that were carried out.
    pub records: u64,
    /// Power cuts among them.
    pub cuts: u64,
    /// Simulated time of the last one, nanoseconds.
    pub end_ns: u64,
    /// The digest of the chips now.
    pub digest: String,
    /// The digest that the log ends with; none if the server was killed.
    pub recorded_digest: Option<String>,
    /// The log has no end, as after a server was killed. A record that is incomplete was left out.
    pub is_cut_short: bool,
}

/// Carries a log out again, on a device made as the log says.
///
/// # Errors
/// [`LogError`].
pub fn replay_log(path: &Path) -> Result<(Core, LogReport), LogError> {
    let shown = path.display().to_string();
    let file_error = |reason| LogError::File { path: shown.clone(), reason };
    let mut input = BufReader::new(File::open(path).map_err(file_error)?);
    let options = read_options(&mut input, MAGIC)
        .map_err(|reason| LogError::NoLog { path: shown.clone(), reason })?;
    let mut core =
        Core::new(&options).map_err(|reason| LogError::Device { path: shown.clone(), reason })?;
    let mut report = LogReport {
        records: 0,
        cuts: 0,
        end_ns: 0,
        digest: String::new(),
        recorded_digest: None,
        is_cut_short: false,
    };
    loop {
        // Ctrl-C: nothing is left half-done, since the device is in memory.
        cancellation::check();
        match carry_out_next(&mut input, &mut core) {
            Ok(Next::Done) => report.records += 1,
            Ok(Next::End(digest)) => {
                report.recorded_digest = Some(digest);
                break;
            }
            // A log that a server ended has an end; another one is whole up to here.
            Ok(Next::NoEnd) | Err(Stop::CutShort) => {
                report.is_cut_short = true;
                break;
            }
            Err(Stop::File(reason)) => return Err(file_error(reason)),
            Err(Stop::Wrong(reason)) => {
                let number = report.records + 1;
                return Err(LogError::Record { path: shown, number, reason });
            }
        }
    }
    (report.cuts, report.end_ns, report.digest) = (core.cuts(), core.now_ns(), core.digest());
    Ok((core, report))
}

//! The canonical form of a trace: one Parquet file, one row a record.
//!
//! Integers are delta encoded and zstd compressed, in row groups of [`ROW_GROUP_RECORDS`]. The
//! bytes of a file depend on its records and metadata alone. Where the file came from stands in
//! its key-value metadata. Reading all columns gives records; a simulation that ignores times
//! reads four columns and leaves the others on the disk. Columns are decoded one by one: the rows
//! of a trace are no nested values, so nothing has to be put together.

mod pages;
mod reading;
mod schema;
mod writing;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::contract::{FormatEntry, Match, Opening, Source};
use crate::error::{Fault, Kind};

pub use writing::TraceWriter;

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "parquet",
    summary: "canonical form of this project",
    file_names: &["*.parquet"],
    time: "nanoseconds",
    address: "bytes",
    length: "bytes",
    operations: "read, write, trim, flush, write_zeroes; flags, latency, file operation",
    takes_time_unit: false,
    no_times: None,
    detect: |head| detect(head.bytes),
    open: |opening| open(&opening),
};

const MAGIC: &[u8] = b"PAR1";

/// Records of a row group.
const ROW_GROUP_RECORDS: usize = 128 * 1024;

/// Records decoded at once: few enough for their columns to stay in the caches.
const BATCH_RECORDS: usize = 16 * 1024;

/// A Parquet file begins with its magic.
pub(crate) fn detect(head: &[u8]) -> Match {
    Match::certain_if(head.starts_with(MAGIC))
}

/// Opens a trace by rows.
pub(crate) fn open(opening: &Opening) -> Result<Box<dyn Source>, Fault> {
    if !opening.input.is_plain_file {
        return Err(Fault::new(
            Kind::Unsupported,
            "a Parquet file is not read from standard input or through compression",
        )
        .suggest("name the plain file; it is compressed inside"));
    }
    Ok(Box::new(reading::RecordSource::open(opening.path)?))
}

/// Runs a call of the Parquet library, which panics on some damaged files.
fn guarded<T>(call: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|reason| {
        // An interruption unwinds too, and is no damage.
        if cancellation::is_interruption(reason.as_ref()) {
            resume_unwind(reason);
        }
        Err(damaged("the Parquet decoder gave up"))
    })
}

fn damaged(reason: impl std::fmt::Display) -> Fault {
    Fault::malformed(format!("the Parquet file is damaged: {reason}"))
}

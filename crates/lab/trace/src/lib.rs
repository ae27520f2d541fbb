//! Block traces: readers of the formats in use, and the canonical Parquet form they all convert to.
//!
//! A trace is a stream of [`Record`]s, each one request to a block device. [`open`] finds the
//! format, and a [`Reader`] yields the records in batches, so memory does not grow with the trace.
//! [`convert`] writes them as Parquet, the one form a simulation needs to read fast.
//!
//! Every format has one reader file and one row in [`FORMATS`]; listing, choice and detection all
//! come from that table.

#![allow(clippy::doc_markdown, reason = "MQSim and UMass are names, not code")]

mod blkparse;
mod blktrace;
mod block_events;
mod convert;
mod diskmon;
mod disksim;
mod error;
mod fio_iolog;
mod format;
mod input;
mod lines;
mod mqsim;
mod msr;
mod number;
mod parquet;
mod reader;
mod record;
mod spc;
pub mod suggest;
mod summary;

pub use convert::convert;
pub use error::{Kind, Place, TraceError};
pub use format::{FORMATS, FormatEntry, find};
pub use parquet::TraceWriter;
pub use reader::{ColumnReader, Columns, Event, Notes, Options, Reader, TimeUnit, open};
pub use record::{Flags, Operation, Record};
pub use summary::{SizeClass, Summary, summarise};

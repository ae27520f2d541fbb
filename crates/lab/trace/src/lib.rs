//! Block traces: readers of the formats in use, and the canonical Parquet form they all convert to.
//!
//! A trace is a stream of [`Record`]s, each one request to a block device. [`open`] finds the
//! format, and a [`Reader`] yields the records in batches, so memory does not grow with the trace.
//! [`convert`] writes them as Parquet, the one form a simulation needs to read fast.
//!
//! Every format has one reader file and one row in [`FORMATS`]; listing, choice and detection all
//! come from that table.

#![allow(clippy::doc_markdown, reason = "MQSim and UMass are names, not code")]

mod address_rule;
mod alibaba;
mod biosnoop;
mod blkparse;
mod blktrace;
mod block_events;
mod columns;
mod contract;
mod convert;
mod detection;
mod diskmon;
mod disksim;
mod error;
mod f2fs;
mod fio_iolog;
mod fiu;
mod fixed_records;
mod ftrace;
mod input;
mod libcachesim_csv;
mod lines;
mod midas;
mod mqsim;
mod msr;
mod notes;
mod number;
mod options;
mod oracle_general;
mod parquet;
mod plain;
mod reader;
mod record;
mod scsi;
mod spc;
mod summary;
mod systor;
mod table;
mod tencent;
mod vscsi;

pub use address_rule::AddressRule;
pub use columns::Columns;
pub use contract::FormatEntry;
pub use convert::convert;
pub use error::{Kind, Place, TraceError};
pub use notes::Notes;
pub use options::{Event, Options, TimeUnit};
pub use parquet::TraceWriter;
pub use reader::{ColumnReader, Reader, open};
pub use record::{Flags, Operation, Record};
pub use summary::{SizeClass, Summary, summarise};
pub use table::{FORMATS, find};

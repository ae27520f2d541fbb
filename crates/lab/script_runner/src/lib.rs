//! Whole scripts carried out over the file systems on raw NAND: their system calls, and the lines that
//! mount, unmount, count, wait until the chip is idle, keep and exchange the chip, and cut its power.
//!
//! [`prepare`] checks a parsed script before anything runs; [`run`] carries it out and gives back a
//! [`Record`]: operations of the chip by phase, chips kept under names, the chip at the end.
//! [`counts_csv`] and [`sequence`] write a record down. Nothing here tells one file system from
//! another: they come from the table of `mount`.

mod aging;
mod prepare;
mod process_ends;
mod record;
mod scrub;
mod session;
mod tables;
mod timeline_of_lines;

pub use aging::Aged;
pub use prepare::prepare;
pub use record::{Failure, LogLine, PhaseCounts, Record, SoFar};
pub use scrub::{FileErrors, Scrub};
pub use session::{Observed, RunnerError, Setup, Watch, run, run_observed};
pub use tables::{COUNTS_HEAD, counts_csv, counts_csv_of, sequence};
pub use timeline_of_lines::LineTracks;

//! IOzone 3, in its own options and words, over a mounted file system in simulated time.
//!
//! One process opens a file, transfers records and is timed as IOzone times itself: from the return of
//! `open` to the return of the last record, with `fsync` (`-e`) and `close` (`-c`) inside or outside of the
//! time. [`Options`] reads a command line; [`Benchmark`] carries it out on a
//! [`Machine`](mount::Machine) and answers with a [`Measurement`] a test.
//!
//! Source: iozone.c of the 3.x series (`write_perf_test`, `read_perf_test`, `random_perf_test`,
//! `reverse_perf_test`, `rewriterec_perf_test`, `read_stride_perf_test`, `fwrite_perf_test`,
//! `fread_perf_test`, `fill_buffer`) and its manual.
//!
//! Not modelled: threads (`-t`), memory-mapped and asynchronous files, think times, automatic mode
//! (`-a`); they are refused by name. The process's own instructions beside copies cost nothing.

mod benchmark;
mod buffer;
mod contract;
mod options;
mod table;

pub use benchmark::{Benchmark, BenchmarkError, DeviceWork, Measurement};
pub use buffer::Contents;
pub use contract::Test;
pub use options::{OptionError, Options};
pub use table::{TESTS, find_test};

//! What a test of file systems on raw NAND is: one file, and one row of `table.rs`.
//!
//! The file exports a function that carries out a [`RawNandRun`] and answers with rows of results. The row says
//! which axes and keys mean something to the test; `plan.rs` refuses all others.

use crate::StudyError;
use crate::flash_aging::{FlashPlan, PreparedFlash};
use crate::metric::TestRow;
use crate::raw_host::RawHost;
use file_workload::FileSet;
use iozone::Options;
use mount::{BlockRequest, Watcher};
use script::Script;

/// What a run has beside its plan.
pub(crate) struct Context<'a> {
    /// Flash that is made once.
    pub(crate) prepared: &'a PreparedFlash,
    /// Seed of the study, which aging is drawn from.
    pub(crate) study_seed: u64,
    /// Seed of this repeat.
    pub(crate) seed: u64,
    /// Who watches machines on which time passes.
    pub(crate) watcher: Option<&'a dyn Watcher>,
}

/// How a test is carried out.
type Carry = fn(&RawNandRun, &Context<'_>) -> Result<Vec<TestRow>, StudyError>;

/// What a test takes from the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The test brings its own work.
    Nothing,
    /// `options`, the command line of IOzone.
    Options,
    /// Either `options` or `script`.
    OptionsOrScript,
    /// A script: the key `script`, or the axis of that name.
    Script,
}

/// A test: one file, one row.
#[derive(Debug)]
pub(crate) struct Test {
    /// Value on the axis `test`.
    pub(crate) name: &'static str,
    /// What the test does, in one line.
    pub(crate) summary: &'static str,
    /// Axes that it has beside those of all tests.
    pub(crate) axes: &'static [&'static str],
    /// What of the workload says what is done.
    pub(crate) needs: Needs,
    /// File systems may stand on another block device than `mtdblock`: all is done on one machine, and
    /// no aged flash is needed.
    pub(crate) has_block_device: bool,
    /// Time passes in it, so that it has a timeline.
    pub(crate) takes_time: bool,
    pub(crate) carry_out: Carry,
}

/// A run of a test.
#[derive(Clone, Debug)]
pub(crate) struct RawNandRun {
    pub(crate) test: &'static Test,
    pub(crate) host: RawHost,
    pub(crate) flash: FlashPlan,
    /// The block device and its scheduler, if the file system stands on one.
    pub(crate) block: BlockRequest,
    /// Options of the mount.
    pub(crate) mount_options: Vec<String>,
    /// IOzone's command line; of no use to other tests.
    pub(crate) benchmark: Option<Options>,
    /// Files that are copied and deleted.
    pub(crate) file_set: Option<FileSet>,
    /// Copies and deletions that are carried out.
    pub(crate) operations: u32,
    /// Room that copied files may take, if it is said.
    pub(crate) capacity_bytes: Option<u64>,
    /// What is done instead; empty if nothing is.
    pub(crate) script: Script,
    /// Axis values that the work depends on: no scheduler, for a file system on raw NAND.
    pub(crate) work_key: Vec<String>,
    /// Files that the test `files` makes.
    pub(crate) files: u32,
    /// Rate at which the application writes.
    pub(crate) rate_kib_per_s: u32,
    /// Bytes that are being written when the power goes.
    pub(crate) written_bytes: u64,
}

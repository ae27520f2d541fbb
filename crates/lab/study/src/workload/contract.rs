//! What a kind of workload is: one file, or one folder, and one row of `table.rs`.
//!
//! The file exports a [`WorkloadKind`]. A study names it by `workload.kind`. The kind says which axes and
//! keys mean something to it, checks the study, and makes a [`Plan`] of each combination of axis values.
//! Everything else is the same for all kinds: `matrix.rs` forms the combinations, `checks.rs` refuses what
//! no kind takes, and `run.rs` carries the plans out side by side.
//!
//! A plan is called once a run. No request and no page of a run passes through a call of this contract.

use crate::StudyError;
use crate::flash_aging::{FlashPlan, PreparedFlash};
use crate::metric::{Metric, TestRow};
use crate::pooled::Samples;
use crate::prepared_devices::PreparedDevices;
use crate::raw_host::RawHost;
use crate::requests::Requests;
use crate::study_file::Study;
use mount::BlockRequest;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

/// One combination of axis values, by the name of the axis.
pub(crate) type Combination<'a> = BTreeMap<&'a str, &'a str>;

/// Identity of a piece of work within a study: equal identities have equal results.
pub(crate) type Identity = Vec<String>;

/// A combination that can be carried out, or what is wrong with it.
pub(crate) type Planned = Result<Box<dyn Plan>, StudyError>;

/// A kind of workload: one file, one row.
pub struct WorkloadKind {
    /// Name that `workload.kind` gives.
    pub name: &'static str,
    /// What such a workload does, in one line.
    pub summary: &'static str,
    /// Keys of `[workload]` it takes, beside `kind`.
    pub keys: &'static [&'static str],
    /// Axes that mean something to it.
    pub(crate) axes: fn(&Study) -> KnownAxes,
    /// Runs can write [`RunContext::timeline_file`], but for those of which [`Plan::why_no_timeline`] says otherwise.
    pub(crate) has_timeline: bool,
    /// Columns of the results after those of the axes: those of [`Plan::cells`], then that of
    /// [`TestRow::test`] if a run has several rows of results.
    pub(crate) columns: &'static [&'static str],
    /// Checks what does not depend on a combination of axis values; names the key that is wrong.
    pub(crate) check: fn(&Study) -> Result<(), StudyError>,
    /// Resolves one combination: names found, numbers in range; nothing is built yet.
    pub(crate) plan: fn(&Study, &Combination<'_>) -> Planned,
}

/// The axes that a study of a kind may have.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownAxes {
    /// Axes of every study of the kind. One of them may be called as a column of another kind is.
    pub(crate) own: &'static [&'static str],
    /// Axes that follow from the study: names in braces, settings of the candidates.
    pub(crate) of_study: Vec<String>,
    /// Axes whose column in the results has another name: axis, column.
    pub(crate) columns: &'static [(&'static str, &'static str)],
    /// What is added to the message about an axis that is none of these.
    pub(crate) advice: Option<fn(&str) -> String>,
}

impl KnownAxes {
    /// All names, those of the kind first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.own.iter().copied().chain(self.of_study.iter().map(String::as_str))
    }
}

/// One combination of axis values, ready to be carried out.
pub(crate) trait Plan: Debug + Send + Sync {
    /// Carries out one repeat; none if it was stopped before its end.
    ///
    /// # Errors
    /// [`StudyError`] of the layer, the file system or the process that ended the run.
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError>;

    /// Identity of this repeat. Runs of one identity are carried out once.
    /// None if no run is like another.
    fn identity(&self, repeat: u32) -> Option<Identity>;

    /// Cells of the columns that the kind adds and that are the same for the whole run.
    fn cells(&self) -> Vec<String> {
        Vec::new()
    }

    /// Finds out what else is wrong, without carrying the run out.
    ///
    /// # Errors
    /// [`StudyError`] that the run would end with.
    fn check(&self) -> Result<(), StudyError> {
        Ok(())
    }

    /// The trace that the run reads. It is loaded once for all runs.
    fn trace(&self) -> Option<&Path> {
        None
    }

    /// The stack of a run of file systems. It is mounted once before anything is run.
    fn stack(&self) -> Option<StackPlan<'_>> {
        None
    }

    /// A note for the results; the same note of several runs is listed once.
    fn note(&self) -> Option<String> {
        // What a stack stands for matters to every kind that mounts one.
        self.stack()?.host.kernel_note()
    }

    /// True if [`Measured::samples`] of all repeats are pooled into tables.
    fn has_pooled_tables(&self) -> bool {
        false
    }

    /// Why this run has no timeline, though others of its kind have one.
    fn why_no_timeline(&self) -> Option<String> {
        None
    }

    /// Where such runs are carried out, if that is not here.
    fn carried_out_elsewhere(&self) -> Option<&'static str> {
        None
    }
}

/// A file system and all that it stands on.
#[derive(Clone, Copy)]
pub(crate) struct StackPlan<'a> {
    pub(crate) host: &'a RawHost,
    /// The flash that the run begins on.
    pub(crate) flash: &'a FlashPlan,
    /// The block device and its scheduler, if the file system stands on one.
    pub(crate) block: &'a BlockRequest,
    /// Options of the mount, in the kernel's words.
    pub(crate) mount_options: &'a [String],
}

/// What a run has beside its plan.
pub(crate) struct RunContext<'a> {
    /// Seed of the study, which everything is drawn from that all repeats share.
    pub(crate) study_seed: u64,
    /// Number of the repeat, from 0.
    pub(crate) repeat: u32,
    /// The trace, for plans that name one.
    pub(crate) requests: Option<&'a Requests>,
    pub(crate) prepared: &'a Prepared,
    /// File that takes a timeline of the run.
    pub(crate) timeline_file: Option<&'a Path>,
    /// True if the run is to end early; called every few thousand requests.
    pub(crate) stopped: &'a dyn Fn() -> bool,
}

impl RunContext<'_> {
    /// Seed of this repeat.
    pub(crate) fn seed(&self) -> u64 {
        // Wrapping: a study may have the largest seed there is.
        self.study_seed.wrapping_add(self.repeat.into())
    }
}

/// What is made once and copied for every run.
#[derive(Default)]
pub(crate) struct Prepared {
    /// Block devices filled with data.
    pub(crate) devices: PreparedDevices,
    /// Flash with a file system on it.
    pub(crate) flash: PreparedFlash,
}

/// What a run measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Metrics of the whole run.
    pub(crate) metrics: Vec<Metric>,
    /// What follows from them under another way of counting.
    pub(crate) derived: Vec<Metric>,
    /// Points of its cumulative curve; none if the kind has no curves.
    pub(crate) curve: Option<Vec<[u64; 5]>>,
    /// The tests of a run, or the phases of a test.
    pub(crate) tests: Vec<TestRow>,
    /// Latencies and time lines, to be pooled with those of other repeats.
    pub(crate) samples: Option<Box<Samples>>,
}

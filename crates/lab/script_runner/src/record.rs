//! What a run of a script leaves, and how it is measured.

use crate::Scrub;
use mtd::{Mtd, Operation, OperationCounts};
use nand::Chip;
use script::{Lateness, Place};
use std::collections::BTreeMap;

/// What a phase cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Name of the phase.
    pub name: String,
    /// Operations of the chip while they were counted.
    pub counts: OperationCounts,
    /// Simulated time from the beginning of the phase to its end.
    pub duration_ns: u64,
}

/// A line of the log of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// A phase of this name begins here.
    Phase(String),
    /// The chip carries something out.
    Operation(Operation),
}

/// A call that failed and was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where its line stands, and the first pass in which it failed.
    pub place: Place,
    /// The call, and why.
    pub reason: String,
    /// How often it failed so, over all passes.
    pub times: u64,
}

/// What a run of a script leaves.
#[derive(Debug, Default)]
pub struct Record {
    /// Phases in their order. A script without phases is one, called `script`.
    pub phases: Vec<PhaseCounts>,
    /// Operations in their order, where a log was asked for.
    pub log: Vec<LogLine>,
    /// Chips that were kept, by name.
    pub kept: BTreeMap<String, Chip>,
    /// Calls that failed and were passed over, in the order in which each line first did.
    pub failures: Vec<Failure>,
    /// How late the passes of each `every` began, in the order of the source.
    pub lateness: Vec<Lateness>,
    /// What the file systems found wrong with the medium, a sentence each.
    pub findings: Vec<String>,
    /// What each line `scrub` found, in the order of their runs.
    pub scrubs: Vec<Scrub>,
    /// Name of the first file system that was mounted.
    pub file_system: Option<&'static str>,
    /// Name of its profile.
    pub profile: Option<&'static str>,
    /// The file system was still mounted at the end.
    pub is_mounted: bool,
}

/// What a run had counted after its last whole line: all there is of a run that is left before its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Phases that have ended.
    pub phases: Vec<PhaseCounts>,
    /// The phase under way, up to the end of that line.
    pub unfinished: Option<PhaseCounts>,
    /// Where that line stands; line 0 before the first.
    pub place: Place,
    /// What lines `scrub` have found.
    pub scrubs: Vec<Scrub>,
    /// Name of the file system of the run, as [`Record::file_system`] has it.
    pub file_system: Option<&'static str>,
    /// Name of the profile of the run, as [`Record::profile`] has it.
    pub profile: Option<&'static str>,
}

/// Notes a call that failed and was passed over. Failures of a line that are the same are noted once, so that a
/// block of a million passes leaves as much as one of two.
pub(crate) fn note_failure(failures: &mut Vec<Failure>, place: &Place, reason: String) {
    let is_same = |known: &&mut Failure| {
        (known.place.line, known.place.column) == (place.line, place.column)
            && known.reason == reason
    };
    // Only passes of blocks carry a line out again.
    let is_repeated = !place.passes.is_empty();
    match failures.iter_mut().filter(|_| is_repeated).find(is_same) {
        Some(known) => known.times += 1,
        None => failures.push(Failure { place: place.clone(), reason, times: 1 }),
    }
}

impl SoFar {
    /// Takes over what a line has added.
    pub(crate) fn follow(
        &mut self,
        record: &Record,
        unfinished: Option<PhaseCounts>,
        place: Place,
    ) {
        // Phases that have ended do not change: only new ones are copied, for this comes after every line.
        self.phases.extend_from_slice(&record.phases[self.phases.len()..]);
        self.scrubs.extend_from_slice(&record.scrubs[self.scrubs.len()..]);
        self.unfinished = unfinished;
        self.place = place;
        self.file_system = record.file_system;
        self.profile = record.profile;
    }
}

/// Counts by phase, over chips that come and go.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Operations that were counted on machines before this one, and before counting was suspended.
    counted: OperationCounts,
    /// What the device had carried out when counting began; none while it is off.
    counting_since: Option<OperationCounts>,
    /// Simulated time on machines before this one.
    elapsed_ns: u64,
    open: Option<PhaseCounts>,
    logs: bool,
}

impl Meter {
    pub(crate) fn new(logs: bool) -> Self {
        Self { logs, ..Self::default() }
    }

    pub(crate) fn is_counting(&self) -> bool {
        self.counting_since.is_some()
    }

    /// Counts what the device does from now on.
    pub(crate) fn resume(&mut self, mtd: &Mtd) {
        if self.counting_since.is_none() {
            self.counting_since = Some(mtd.operation_counts());
            // The log has what is counted and nothing else.
            mtd.log_operations(self.logs);
        }
    }

    /// Does not count any more.
    pub(crate) fn suspend(&mut self, mtd: &Mtd, record: &mut Record) {
        // Fetched now: the device may end with its machine.
        Self::drain(mtd, record);
        mtd.log_operations(false);
        if let Some(since) = self.counting_since.take() {
            self.counted += mtd.operation_counts() - since;
        }
    }

    /// The machine ends at `now_ns` of its time; another will take its place.
    pub(crate) fn change_machine(&mut self, now_ns: u64) {
        // The clock of the next machine begins at zero.
        self.elapsed_ns += now_ns;
    }

    fn total(&self, mtd: &Mtd) -> OperationCounts {
        let mut total = self.counted;
        if let Some(since) = self.counting_since {
            total += mtd.operation_counts() - since;
        }
        total
    }

    /// The phase that is open, as if it ended now.
    pub(crate) fn unfinished(&self, mtd: &Mtd, now_ns: u64) -> Option<PhaseCounts> {
        let open = self.open.as_ref()?;
        let counts = self.total(mtd) - open.counts;
        let duration_ns = self.elapsed_ns + now_ns - open.duration_ns;
        Some(PhaseCounts { name: open.name.clone(), counts, duration_ns })
    }

    fn drain(mtd: &Mtd, record: &mut Record) {
        record.log.extend(mtd.take_operations().into_iter().map(LogLine::Operation));
    }

    /// Ends the phase that is open, and begins another.
    pub(crate) fn phase(
        &mut self,
        next: Option<&str>,
        mtd: &Mtd,
        now_ns: u64,
        record: &mut Record,
    ) {
        // Before the phase changes, so that operations stand below their own heading.
        Self::drain(mtd, record);
        let (total, now_ns) = (self.total(mtd), self.elapsed_ns + now_ns);
        if let Some(open) = self.open.take() {
            let counts = total - open.counts;
            let duration_ns = now_ns - open.duration_ns;
            record.phases.push(PhaseCounts { counts, duration_ns, ..open });
        }
        if let Some(name) = next {
            if self.logs {
                record.log.push(LogLine::Phase(name.to_owned()));
            }
            // Until it ends, a phase holds what the counters and the clock read at its beginning.
            self.open =
                Some(PhaseCounts { name: name.to_owned(), counts: total, duration_ns: now_ns });
        }
    }
}

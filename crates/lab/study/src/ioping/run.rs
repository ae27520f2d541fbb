//! One run on a device: processes of ioping, page cache, scheduler and device in simulated time. And what any
//! run measured.

use crate::StudyError;
use crate::block_stack::{BlockStack, OpenedDevice, finish_timeline, run_to_end, start_timeline};
use crate::metric::{Metric, TestRow};
use crate::workload::contract::RunContext;
use ::ioping::{Access, Options, Place, Report, Target, start};
use ::jobs::Region;
use sim::Simulation;
use std::cell::RefCell;
use std::rc::Rc;

/// Number of the first process; the kernel's own threads have smaller ones.
pub(super) const FIRST_PID: u32 = 1000;

/// Quantiles of latencies, in millionths. The tool prints none of them.
const QUANTILES: [(u32, &str); 3] = [(500_000, "p50"), (990_000, "p99"), (999_000, "p999")];

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Reader,
    Writer,
    Mixed,
}

impl Role {
    pub(super) fn of(access: Access) -> Self {
        match access {
            Access::Read => Self::Reader,
            Access::Write => Self::Writer,
            Access::Alternate => Self::Mixed,
        }
    }

    pub(super) fn access(self) -> Access {
        match self {
            Self::Reader => Access::Read,
            Self::Writer => Access::Write,
            Self::Mixed => Access::Alternate,
        }
    }

    /// Cell of the column `role`.
    fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Mixed => "mixed",
        }
    }
}

/// A process of a run, and the bytes of the device that are its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessPlan {
    pub(crate) role: Role,
    pub(crate) region: Region,
}

/// A run of ioping over a scheduler and a device.
#[derive(Clone, Debug)]
pub(crate) struct IopingPlan {
    pub(crate) stack: BlockStack,
    pub(crate) options: Options,
    pub(crate) processes: Vec<ProcessPlan>,
}

/// Carries the run out: a row for each role, and one for all; none if it was stopped.
///
/// # Errors
/// The first error of a process, or what makes the device impossible.
pub(super) fn run_ioping(
    run: &IopingPlan,
    context: &RunContext<'_>,
) -> Result<Option<Vec<TestRow>>, StudyError> {
    let mut simulation = Simulation::new(context.seed());
    let sim = simulation.handle();
    let OpenedDevice { queue, file } = run.stack.open(&sim, context)?;
    let tracks = start_timeline(&queue, context)?;
    let options = Rc::new(run.options.clone());
    // Which file lies where says nothing of who reads it: else processes that are served in turn would sweep
    // over a disk by chance. Fisher and Yates: every order is as likely as the others.
    let mut regions: Vec<Region> = run.processes.iter().map(|process| process.region).collect();
    let mut order = sim.stream("files of ioping");
    for last in (1..regions.len()).rev() {
        regions.swap(last, order.below(last as u32 + 1) as usize);
    }
    let mut handles = Vec::new();
    for ((pid, process), region) in (FIRST_PID..).zip(&run.processes).zip(regions) {
        let access = process.role.access();
        handles.push(start(&sim, &file, &queue, &options, access, region, pid));
    }
    let reports: Rc<RefCell<Vec<Report>>> = Rc::default();
    let (task_sim, task_reports) = (sim.clone(), reports.clone());
    // The cache's threads never end, so the end of the processes ends the run.
    sim.spawn_named("end of ioping", async move {
        for handle in handles {
            let report = handle.await;
            task_reports.borrow_mut().push(report);
        }
        task_sim.stop();
    });
    if !run_to_end(&mut simulation, context.stopped) {
        return Ok(None);
    }
    let reports = reports.take();
    debug_assert_eq!(reports.len(), run.processes.len(), "every process has a report");
    // Before anything is counted: a process that failed leaves less work to the others.
    if let Some(error) = reports.iter().find_map(|report| report.error) {
        let (place, reason) = (run.stack.device.name.clone(), error.to_string());
        return Err(StudyError::Study { place, reason });
    }
    if let Some(tracks) = tracks {
        tracks.borrow_mut().device(&queue.take_activity());
        finish_timeline(&tracks, context)?;
    }
    let (path, file_system) = match run.options.target {
        Target::Directory => ("directory", "none"),
        Target::File => ("file", "none"),
        Target::Device => ("device", "block"),
    };
    let device = run.stack.device.name.as_str();
    let place = Place { path, file_system, device, bytes: run.stack.device_bytes };
    // One repeat is enough to see the lines.
    let mut rows = rows_of(&reports, &run.options, (context.repeat == 0).then_some(place));
    let device = queue.statistics().expect("the device is timed");
    let all = rows.last_mut().expect("the row of all processes");
    all.metrics.push(Metric::count("device_commands", device.completed, "commands"));
    Ok(Some(rows))
}

/// A row for each role, and one for all processes at the end. The rows of roles have the lines of the tool for
/// a note, if a place is given.
pub(super) fn rows_of(
    reports: &[Report],
    options: &Options,
    place: Option<Place<'_>>,
) -> Vec<TestRow> {
    let mut rows: Vec<TestRow> = Vec::new();
    for role in [Role::Reader, Role::Writer, Role::Mixed] {
        let own = reports.iter().filter(|report| Role::of(report.access) == role);
        if let Some(report) = sum(own) {
            let mut row = TestRow::new(role.name(), metrics(&report));
            row.note = place.map(|place| lines(options, &place, reports, role));
            rows.push(row);
        }
    }
    let all = sum(reports.iter()).expect("a run has a process");
    rows.push(TestRow::new("all", metrics(&all)));
    rows
}

/// What several processes measured, as one.
pub(super) fn sum<'a>(mut reports: impl Iterator<Item = &'a Report>) -> Option<Report> {
    let mut sum = reports.next()?.clone();
    for report in reports {
        sum.add(report);
    }
    Some(sum)
}

/// The numbers that the tool prints, and quantiles beside them.
fn metrics(report: &Report) -> Vec<Metric> {
    let valid = &report.valid;
    let mut metrics = vec![
        Metric::count("requests_completed", valid.count(), "requests"),
        Metric::count("request_time_ns", report.sum_ns, "ns"),
        Metric::number("iops", report.iops(), "requests/s"),
        Metric::number("speed_bytes_per_s", report.speed_bytes_per_s(), "bytes/s"),
        Metric::count("requests_too_fast", report.too_fast, "requests"),
        Metric::count("requests_too_slow", report.too_slow, "requests"),
        Metric::count("requests_generated", report.requests, "requests"),
        Metric::count("elapsed_ns", report.elapsed_ns(), "ns"),
        Metric::number("load_iops", report.load_iops(), "requests/s"),
        Metric::number("load_bytes_per_s", report.load_bytes_per_s(), "bytes/s"),
    ];
    // The warm-up may be all that there was.
    if valid.count() > 0 {
        metrics.extend([
            Metric::count("latency_min_ns", valid.min_ns(), "ns"),
            Metric::number("latency_mean_ns", valid.mean_ns(), "ns"),
            Metric::count("latency_max_ns", valid.max_ns(), "ns"),
            Metric::number("latency_mdev_ns", report.deviation_ns(), "ns"),
        ]);
        metrics.extend(QUANTILES.map(|(share, name)| {
            Metric::count(format!("latency_{name}_ns"), valid.quantile_ns(share), "ns")
        }));
    }
    metrics
}

/// The last lines that the first process of a role prints.
fn lines(options: &Options, place: &Place<'_>, reports: &[Report], role: Role) -> String {
    let first = reports.iter().find(|report| Role::of(report.access) == role);
    let first = first.expect("a role that has a row has a process");
    let lines = first.lines(options, place).join("; ");
    format!("ioping {} of process {} prints: {lines}", options.profile.name, first.pid)
}

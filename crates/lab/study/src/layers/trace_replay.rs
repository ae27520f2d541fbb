//! A block trace, replayed request by request: costs by windows of requests and along a curve.

use super::device_plan::{check_device, check_layers, device_axes, device_of, identity_of};
use crate::StudyError;
use crate::braces::filled_in;
use crate::ftl_device::{DeviceOptions, build_seeded};
use crate::metric::Metric;
use crate::replay::Replay;
use crate::replay_metrics::{cumulative, device_metrics};
use crate::requests::{Request, Requests};
use crate::service_times::{ServiceTimes, rebuild_metric};
use crate::study_file::{Preconditioning, Study};
use crate::windows::{HostWriteCharge, Windows};
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, Planned, RunContext, WorkloadKind,
};
use std::path::{Path, PathBuf};
use trace::{AddressRule, Operation};

/// Points of a cumulative curve: about as many as a figure of some hundred pixels can show.
const CURVE_POINTS: u64 = 200;

/// Requests between two looks at the stop flag.
const STRIDE: usize = 4096;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "trace",
    summary: "a block trace; `{axis}` in the file name is replaced by the axis value",
    keys: &[
        "file",
        "capacity_bytes",
        "preconditioning",
        "requests_quick",
        "service_times",
        "window",
    ],
    axes,
    has_timeline: false,
    columns: &["initial"],
    check,
    plan,
};

/// A replay of a trace on a device.
#[derive(Debug)]
struct TracePlan {
    device: DeviceOptions,
    trace: PathBuf,
    preconditioning: Preconditioning,
    /// Requests, and file operations, in a window.
    window: u64,
    has_service_times: bool,
    /// What the publication seems to charge this layer for each page write.
    charge: HostWriteCharge,
    /// Some layer of the study is charged.
    is_charged: bool,
    /// The short form, whose trace is cut.
    is_quick: bool,
}

fn axes(study: &Study) -> KnownAxes {
    let advice =
        |axis: &str| format!("; an axis of traces is named in workload.file as {{{axis}}}");
    KnownAxes { advice: Some(advice), ..device_axes(study) }
}

fn check(study: &Study) -> Result<(), StudyError> {
    if study.workload.file.as_ref().is_none_or(String::is_empty) {
        let reason = "kind `trace` needs `file`".into();
        return Err(StudyError::Study { place: "workload".into(), reason });
    }
    check_layers(study)
}

fn plan(study: &Study, values: &Combination<'_>) -> Planned {
    let device = device_of(study, values)?;
    let workload = &study.workload;
    let file = filled_in(workload.file.as_deref().unwrap_or_default(), values);
    Ok(Box::new(TracePlan {
        trace: study.file_of(&file),
        preconditioning: workload.preconditioning,
        window: workload.window,
        has_service_times: workload.service_times,
        charge: study.published_charging.get(&device.ftl).copied().unwrap_or_default(),
        is_charged: !study.published_charging.is_empty(),
        is_quick: study.quick,
        device,
    }))
}

impl Plan for TracePlan {
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        let requests = context.requests.expect("the traces of all plans are loaded");
        // Repeats are the same work, whatever the workload draws: they have one seed.
        let layer = build_seeded(&self.device, context.study_seed)?;
        let mut replay = Replay::new(layer, AddressRule::Error);
        let stopped = context.stopped;
        let complete = match self.preconditioning {
            Preconditioning::None => true,
            Preconditioning::Image => serve_all(&mut replay, requests.set_up(), stopped)?,
            Preconditioning::ImageAndPass => {
                serve_all(&mut replay, requests.requests.iter(), stopped)?
            }
        };
        if !complete {
            return Ok(None);
        }
        // What came before is in the layer's tables and in the wear, but in no count.
        replay.reset_counters();
        self.measure(&mut replay, requests, stopped)
    }

    fn identity(&self, _: u32) -> Option<Identity> {
        // A trace is the same in every repeat, and so are the costs of a layer.
        let trace = self.trace.display().to_string();
        Some(identity_of(&self.device, &[trace, format!("{:?}", self.charge)]))
    }

    fn cells(&self) -> Vec<String> {
        vec![self.preconditioning.name().to_owned()]
    }

    fn check(&self) -> Result<(), StudyError> {
        check_device(&self.device)?;
        // Found before hours of other runs.
        if !self.trace.is_file() {
            let reason = format!("there is no trace {}", self.trace.display());
            return Err(StudyError::Study { place: "workload.file".into(), reason });
        }
        Ok(())
    }

    fn trace(&self) -> Option<&Path> {
        Some(&self.trace)
    }
}

/// Serves requests in order; false if it was stopped.
fn serve_all<'a>(
    replay: &mut Replay,
    requests: impl Iterator<Item = &'a Request>,
    stopped: &dyn Fn() -> bool,
) -> Result<bool, StudyError> {
    for (number, request) in requests.enumerate() {
        if number % STRIDE == 0 && stopped() {
            return Ok(false);
        }
        replay.serve(request.operation, request.offset_bytes, request.length_bytes)?;
    }
    Ok(true)
}

impl TracePlan {
    /// Serves the measured requests and takes their costs by windows and along a curve.
    ///
    /// It is one function because all of it is read from one replay, request by request: windows, curve, times.
    fn measure(
        &self,
        replay: &mut Replay,
        requests: &Requests,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Measured>, StudyError> {
        let mut by_request = Windows::new(self.window, self.charge);
        let mut by_operation = Windows::new(self.window, self.charge);
        let all = requests.measured().filter(|request| is_io(request)).count() as u64;
        // About as many points as a figure can show.
        let stride = all.div_ceil(CURVE_POINTS).max(1);
        let (mut io, mut last_operation) = (0, 0);
        let mut curve = vec![[0; 5]];
        let mut times = self.has_service_times.then(|| ServiceTimes::start(replay));
        for (number, request) in requests.measured().enumerate() {
            if number % STRIDE == 0 && stopped() {
                return Ok(None);
            }
            let operation = u64::from(request.file_operation);
            // File operations are numbered in order: one is complete when the next begins.
            if operation > last_operation {
                by_operation.reached(operation - 1, replay.counters(), replay.host().write_pages);
                last_operation = operation;
            }
            replay.serve(request.operation, request.offset_bytes, request.length_bytes)?;
            if let Some(times) = &mut times {
                times.served(request.operation, replay);
            }
            if !is_io(request) {
                continue;
            }
            io += 1;
            let counters = replay.counters();
            by_request.reached(io, counters, replay.host().write_pages);
            if io % stride == 0 || io == all {
                curve.push(cumulative(io, counters));
            }
        }
        debug_assert_eq!(io, all, "every measured request was served");
        by_operation.reached(last_operation, replay.counters(), replay.host().write_pages);
        let mut metrics = by_request.metrics("");
        if requests.has_file_operations {
            metrics.extend(by_operation.metrics("operation_window_"));
            metrics.push(Metric::count("file_operations", last_operation, "operations"));
        }
        // A shortened trace has copied less than its metadata say.
        if let (Some(copied), false) = (requests.metadata_number("copied_bytes"), self.is_quick) {
            let written = replay.host().write_bytes.max(1);
            metrics.push(Metric::number(
                "metadata_share",
                1.0 - copied as f64 / written as f64,
                "ratio",
            ));
        }
        metrics.extend(device_metrics(replay));
        if let Some(times) = times {
            metrics.extend(times.metrics(replay));
            // After all other metrics, since it changes the layer.
            metrics.push(rebuild_metric(replay)?);
        }
        let derived = if self.is_charged {
            self.charge.totals(replay.counters(), replay.host().write_pages)
        } else {
            Vec::new()
        };
        Ok(Some(Measured { metrics, derived, curve: Some(curve), ..Measured::default() }))
    }
}

/// Reads and writes are I/Os; flushes and trims are served but not counted as such.
fn is_io(request: &Request) -> bool {
    matches!(request.operation, Operation::Read | Operation::Write | Operation::WriteZeroes)
}

//! Workloads without a trace: single-page writes that a kind draws, from a random stream of its name.
//!
//! The device is filled, written until it is in a steady state, and written on while counting.

use super::device_plan::{check_device, check_layers, device_axes, device_of, identity_of};
use crate::StudyError;
use crate::ftl_device::{DeviceOptions, build_seeded, resolve};
use crate::metric::Metric;
use crate::replay::Replay;
use crate::replay_metrics::device_metrics;
use crate::study_file::{Study, Workload};
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, Planned, RunContext,
};
use nand::random::Stream;
use std::marker::PhantomData;
use trace::{AddressRule, Operation};

/// Writes before counting, in multiples of the logical pages, if the study does not say. After five the
/// simulated write amplification is within 3 % of the closed forms (`tests/all/setting_axes.rs`).
const WARM_UP_WRITES: u32 = 6;

/// Writes counted, in multiples of the logical pages, if the study does not say.
const MEASURED_WRITES: u32 = 4;

/// The short form writes this part of it.
const QUICK_DIVISOR: u64 = 4;

/// Writes between two looks at the stop flag.
const STRIDE: u64 = 4096;

/// Value of the `initial` column: pages were written until the device was in a steady state.
const WARMED_UP: &str = "warmed-up";

/// Column of what the device held when counting began.
pub(super) const COLUMNS: &[&str] = &["initial"];

/// The pages that a kind of workload writes, one after the other.
pub(super) trait Draw: Send + Sync + 'static {
    /// True if a closed form of the write amplification holds for these writes.
    const HAS_PREDICTION: bool = false;

    /// Pages of a device of `pages` logical pages, from 0.
    fn new(workload: &Workload, pages: u32) -> Self;

    /// The next page that is written.
    fn next(&mut self, numbers: &mut Stream) -> u32;
}

/// A run of generated writes. The kind of draw is a type, so that no page costs a virtual call.
struct GeneratedPlan<D> {
    device: DeviceOptions,
    workload: Workload,
    /// True in the short form, which writes less.
    is_quick: bool,
    draw: PhantomData<fn() -> D>,
}

impl<D> std::fmt::Debug for GeneratedPlan<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeneratedPlan").field("device", &self.device).finish_non_exhaustive()
    }
}

/// Axes that a study of generated writes may have.
pub(super) fn axes(study: &Study) -> KnownAxes {
    device_axes(study)
}

/// Checks a study of generated writes.
///
/// # Errors
/// [`StudyError::Study`], as for all studies of layers.
pub(super) fn check(study: &Study) -> Result<(), StudyError> {
    check_layers(study)
}

/// Resolves one combination of axis values.
///
/// # Errors
/// Names that do not exist, with a suggestion; values that do not fit.
pub(super) fn plan<D: Draw>(study: &Study, values: &Combination<'_>) -> Planned {
    Ok(Box::new(GeneratedPlan::<D> {
        device: device_of(study, values)?,
        workload: study.workload.clone(),
        is_quick: study.quick,
        draw: PhantomData,
    }))
}

impl<D: Draw> Plan for GeneratedPlan<D> {
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        let mut replay =
            Replay::new(build_seeded(&self.device, context.seed())?, AddressRule::Error);
        if !self.write(context, &mut replay)? {
            return Ok(None);
        }
        let mut metrics = device_metrics(&replay);
        if D::HAS_PREDICTION {
            let predicted = resolve(&self.device)?.predicted_waf();
            metrics.extend(predicted.map(|waf| Metric::number("predicted_waf", waf, "ratio")));
        }
        // A steady state has no course: its curve is empty.
        Ok(Some(Measured { metrics, curve: Some(Vec::new()), ..Measured::default() }))
    }

    fn identity(&self, repeat: u32) -> Option<Identity> {
        Some(identity_of(&self.device, &[repeat.to_string()]))
    }

    fn cells(&self) -> Vec<String> {
        vec![WARMED_UP.to_owned()]
    }

    fn check(&self) -> Result<(), StudyError> {
        check_device(&self.device)
    }
}

impl<D: Draw> GeneratedPlan<D> {
    /// Fills the device, warms it up and writes what is counted; false if it was stopped.
    fn write(&self, context: &RunContext<'_>, replay: &mut Replay) -> Result<bool, StudyError> {
        let workload = &self.workload;
        let count = replay.ftl().logical_pages();
        let mut draw = D::new(workload, count);
        // Named by the kind, so that no two kinds share their draws.
        let mut numbers = Stream::new(context.seed(), &workload.kind);
        let page_bytes = replay.ftl().flash().geometry().page_data_bytes;
        let divisor = if self.is_quick { QUICK_DIVISOR } else { 1 };
        let multiple = |multiple: Option<u32>, default: u32| {
            u64::from(multiple.unwrap_or(default)) * u64::from(count) / divisor
        };
        let fill = u64::from(count);
        let warm_up = multiple(workload.warm_up_writes, WARM_UP_WRITES);
        let measured = multiple(workload.measured_writes, MEASURED_WRITES);
        for number in 0..fill + warm_up + measured {
            if number % STRIDE == 0 && (context.stopped)() {
                return Ok(false);
            }
            // Filling and warming up are not counted.
            if number == fill + warm_up {
                replay.reset_counters();
            }
            // Each page once, in order; then as the workload draws them.
            let lpn = if number < fill { number as u32 } else { draw.next(&mut numbers) };
            debug_assert!(lpn < count, "page {lpn} of a device of {count} pages");
            replay.serve(Operation::Write, u64::from(lpn) * u64::from(page_bytes), page_bytes)?;
        }
        debug_assert!(
            measured == 0 || replay.host().write_pages == measured,
            "every measured write is one page"
        );
        Ok(true)
    }
}

//! One trace on one device: `nandlab replay`.

use crate::StudyError;
use crate::ftl_device::{DeviceOptions, build_device};
use crate::replay::{AddressRule, Replay};
use crate::requests::describe_notes;
use crate::results::{Metric, device_metrics, shape};
use std::path::Path;
use trace::{Columns, Options};

/// What `nandlab replay` is told.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// The device.
    pub device: DeviceOptions,
    /// How to read the trace.
    pub trace: Options,
    /// What to do with addresses past the end.
    pub address: AddressRule,
    /// Uncounted passes before the counted one.
    pub warm_up_passes: u32,
}

/// What a single replay yields.
pub struct ReplayResults {
    /// All metrics.
    pub metrics: Vec<Metric>,
    /// Format the trace was read as.
    pub format: &'static str,
    /// Shape of the chip.
    pub chip: String,
    /// Bytes the device offers.
    pub capacity_bytes: u64,
    /// What the reader left out or changed, and what the replay did.
    pub notes: Vec<String>,
}

/// Replays a trace on one device, streaming: memory does not grow with the trace.
///
/// # Errors
/// Bad traces, names, settings; addresses past the end unless told otherwise.
pub fn replay_trace(path: &Path, options: &ReplayOptions) -> Result<ReplayResults, StudyError> {
    // Names and settings are checked before a long trace is read.
    let mut replay = Replay::new(build_device(&options.device)?, options.address);
    let mut columns = Columns::default();
    let mut notes = Vec::new();
    let mut format = "";
    for pass in 0..=options.warm_up_passes {
        replay.reset_counters();
        let mut reader = trace::open(path, &options.trace)?.into_columns()?;
        format = reader.reader().format().name;
        while reader.next_columns(&mut columns)? {
            for index in 0..columns.len() {
                // Requests of a few records may be as large as the device.
                cancellation::check();
                replay.serve(
                    columns.operation[index],
                    columns.offset_bytes[index],
                    columns.length_bytes[index],
                )?;
            }
        }
        if pass == options.warm_up_passes {
            notes = describe_notes(reader.reader().notes());
        }
    }
    if replay.host().lost_reads > 0 {
        notes.push(format!("lost_reads: {}", replay.host().lost_reads));
    }
    Ok(ReplayResults {
        metrics: device_metrics(&replay),
        format,
        chip: shape(replay.ftl().flash().geometry()),
        capacity_bytes: replay.capacity_bytes(),
        notes,
    })
}

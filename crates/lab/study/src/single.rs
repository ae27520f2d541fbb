//! One trace on one device: `nandlab replay`.

use crate::StudyError;
use crate::exact_times::{ExactTimes, ServiceTimeSummary};
use crate::ftl_device::{DeviceOptions, build_device, resolve};
use crate::metric::Metric;
use crate::replay::Replay;
use crate::replay_metrics::{device_metrics, shape};
use crate::requests::describe_notes;
use std::path::Path;
use trace::{AddressRule, Columns, Options};

/// Options of `nandlab replay`.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Layer and chip that serve the trace.
    pub device: DeviceOptions,
    /// How to read the trace.
    pub trace: Options,
    /// What to do with addresses past the end.
    pub address: AddressRule,
    /// Every page of the device is written once before the trace, uncounted.
    pub fills_first: bool,
    /// Uncounted passes before the counted one.
    pub warm_up_passes: u32,
    /// The chip's time of each request is measured.
    pub service_times: bool,
}

/// What a single replay yields.
pub struct ReplayResults {
    /// Metrics of host, chip and layer.
    pub metrics: Vec<Metric>,
    /// Quantiles of the chip's time for a request, if `service_times` is set.
    pub service_times: Option<ServiceTimeSummary>,
    /// Format the trace was read as.
    pub format: &'static str,
    /// Name of the part, as its file or the catalogue gives it.
    pub part: String,
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
/// Bad traces, names, settings; addresses past the end unless an option admits them.
pub fn replay_trace(path: &Path, options: &ReplayOptions) -> Result<ReplayResults, StudyError> {
    // Names and settings are checked before a long trace is read.
    let part = resolve(&options.device)?.part.name;
    let mut replay = Replay::new(build_device(&options.device)?, options.address);
    if options.fills_first {
        replay.fill()?;
    }
    let mut columns = Columns::default();
    let mut notes = Vec::new();
    let mut format = "";
    let mut times = None;
    for pass in 0..=options.warm_up_passes {
        replay.reset_counters();
        let is_counted = pass == options.warm_up_passes;
        times = (is_counted && options.service_times).then(|| ExactTimes::start(&replay));
        let mut reader = trace::open(path, &options.trace)?.into_columns()?;
        format = reader.reader().format().name;
        while reader.next_columns(&mut columns)? {
            for index in 0..columns.len() {
                // Requests of a few records may be as large as the device.
                cancellation::check();
                let served = replay.serve(
                    columns.operation[index],
                    columns.offset_bytes[index],
                    columns.length_bytes[index],
                );
                served.map_err(with_options_of_replay)?;
                if let Some(times) = &mut times {
                    times.served(columns.operation[index], &replay);
                }
            }
        }
        // Every pass has the same notes; the last one is counted.
        if is_counted {
            notes = describe_notes(reader.reader().notes());
        }
    }
    let host = replay.host();
    if host.lost_reads > 0 {
        notes.push(format!("lost_reads: {}", host.lost_reads));
    }
    notes.extend(unwritten_note(host.unwritten_read_pages, host.read_pages));
    Ok(ReplayResults {
        metrics: device_metrics(&replay),
        service_times: times.map(|times| times.summary()),
        format,
        part,
        chip: shape(replay.ftl().flash().geometry()),
        capacity_bytes: replay.capacity_bytes(),
        notes,
    })
}

/// An address past the end has a remedy here that studies do not have.
fn with_options_of_replay(error: StudyError) -> StudyError {
    match error {
        StudyError::Request { number, what, reason } => {
            let reason = format!("{reason}; or treat it otherwise with --address modulo or clip");
            StudyError::Request { number, what, reason }
        }
        other => other,
    }
}

/// A note on reads that cost nothing because there was nothing to read.
pub(crate) fn unwritten_note(unwritten_pages: u64, read_pages: u64) -> Option<String> {
    (unwritten_pages > 0).then(|| {
        format!(
            "{unwritten_pages} of the {read_pages} pages that were read had never been written, or were \
             trimmed: the chip did no work for them"
        )
    })
}

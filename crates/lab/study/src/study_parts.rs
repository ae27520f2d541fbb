//! Optional parts of a study, and the refusal of those that a workload kind does not take.

use crate::StudyError;
use crate::study_file::Study;

/// Parts of a study that only some kinds take.
fn is_given(study: &Study, part: &str) -> bool {
    match part {
        "extra_runs" => !study.extra_runs.is_empty(),
        "host" => study.host.is_some(),
        "host.block_device" => study.host.as_ref().is_some_and(|host| host.block_device.is_some()),
        "job" => !study.jobs.is_empty(),
        "limits" => !study.limits.is_empty(),
        "mechanisms" => !study.mechanisms.is_empty(),
        "scheduler_variants" => !study.scheduler_variants.is_empty(),
        "timeline" => study.timeline.is_some(),
        _ => unreachable!("`{part}` is no optional part of a study"),
    }
}

/// The first of some parts that the study has.
pub(crate) fn first_given<'a>(study: &Study, parts: &[&'a str]) -> Option<&'a str> {
    parts.iter().copied().find(|part| is_given(study, part))
}

/// Refuses parts of a study that its kind does not look at: silence would leave a slip unseen.
///
/// # Errors
/// The part, and the kind that it means nothing to.
pub(crate) fn refuse(study: &Study, parts: &[&str]) -> Result<(), StudyError> {
    match first_given(study, parts) {
        Some(part) => Err(StudyError::Study {
            place: part.to_owned(),
            reason: format!("means nothing to workload kind `{}`", study.workload.kind),
        }),
        None => Ok(()),
    }
}

//! One attempt at a sequence: what a policy of the user's own raises is an answer, not a defect.

use ftl::OwnPolicyError;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Carries out `work`; a policy that leaves the run has failed with what it says.
///
/// # Errors
/// What the work says, or what the policy raised.
pub(crate) fn attempt<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|reason| {
        match reason.downcast::<OwnPolicyError>() {
            Ok(error) => Err(error.reason),
            // The request to stop, or a defect: neither is an answer.
            Err(other) => resume_unwind(other),
        }
    })
}

//! Calls of a history up to its next remount.

use conformance::{Call, SideBySide};
use fs_api::FileSystem;

/// Calls between two comparisons of all that is there.
const COMPARED_EVERY: usize = 60;

/// Carries calls out up to the next remount; the number of the first call that is left.
///
/// # Errors
/// The call that went otherwise than on the model, and how.
pub(crate) async fn play<F: FileSystem + 'static>(
    side: &SideBySide<F>,
    calls: &[Call],
    first: usize,
) -> Result<usize, String> {
    side.compare().await.map_err(|wrong| format!("call {first}, mounted: {wrong}"))?;
    for (number, call) in calls.iter().enumerate().skip(first) {
        let wrong = |wrong: String| format!("call {number}: {wrong}");
        let _how_it_ended = side.call(call).await.map_err(wrong)?;
        if *call == Call::Remount {
            side.compare().await.map_err(wrong)?;
            return Ok(number + 1);
        }
        if number % COMPARED_EVERY == 0 {
            side.compare().await.map_err(wrong)?;
        }
    }
    side.compare().await?;
    Ok(calls.len())
}

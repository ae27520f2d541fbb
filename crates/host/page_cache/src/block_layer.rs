//! The block layer as a kernel of a version has it.

use block::{Plugging, PoolRules, QueueOptions};
use board::Board;

/// The oldest kernel whose page cache and request queues are modelled here: the steps of `Limits` begin after it.
const OLDEST: (u32, u32) = (2, 6);
/// Its third number, which distinguished kernels until 3.0.
const OLDEST_PATCH: u32 = 29;
/// The newest kernel that this crate was compared with.
const NEWEST: (u32, u32) = (6, 12);

/// Refuses a kernel that is not modelled here: it would be simulated as another.
///
/// # Errors
/// A sentence that names the range and the nearest kernel.
pub fn check_kernel(board: &Board) -> Result<(), String> {
    let (major, minor, patch) = board.kernel_version()?;
    let is_older = (major, minor, patch) < (OLDEST.0, OLDEST.1, OLDEST_PATCH);
    if !is_older && (major, minor) <= NEWEST {
        return Ok(());
    }
    let oldest = format!("{}.{}.{OLDEST_PATCH}", OLDEST.0, OLDEST.1);
    let newest = format!("{}.{}", NEWEST.0, NEWEST.1);
    let nearest = if is_older { &oldest } else { &newest };
    Err(format!(
        "the block layer of kernel {} is not modelled, only {oldest} to {newest}; name one of those, such \
         as {nearest}",
        board.kernel
    ))
}

/// How the board's kernel runs a request queue: tasks plug since 2.6.39, the limit of requests counts
/// synchronous and asynchronous ones apart since 2.6.30, cores have hardware queues since 3.19.
pub fn queue_options(board: &Board, max_sectors: u32) -> QueueOptions {
    QueueOptions {
        plugging: if board.is_kernel_at_least((2, 6, 39)) {
            Plugging::Task
        } else {
            Plugging::Queue
        },
        pool: if board.is_kernel_at_least((2, 6, 30)) {
            PoolRules::PerSync
        } else {
            PoolRules::PerDirection
        },
        max_sectors,
        queue_depth: 0,
        // NVMe has hardware queues of blk-mq since 3.19 (`nvme_queue_rq` of its driver).
        cores: if board.is_kernel_at_least((3, 19, 0)) { board.processors.count } else { 1 },
    }
}

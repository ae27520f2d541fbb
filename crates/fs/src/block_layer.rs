//! The block layer as a kernel of a version has it.

use block::{Plugging, PoolRules, QueueOptions};
use board::Board;

/// How the board's kernel runs a request queue: tasks plug since 2.6.39, the limit of requests counts
/// synchronous and asynchronous ones apart since 2.6.30.
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
    }
}

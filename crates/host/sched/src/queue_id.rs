//! The name of a queue, which processes, service trees and position trees keep in place of the queue.

/// Place of a queue in [`super::queue::Queues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId(pub u32);

impl QueueId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

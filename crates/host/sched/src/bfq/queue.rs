//! Queues of requests, one for each process and one for each asynchronous priority.
//!
//! A queue lives as long as something refers to it, as in the kernel: processes, requests, its place in
//! a service tree, a weight counter, a merge to come. How many *processes* refer to it is what is
//! left, and a queue that no process uses is not idled for.
//!
//! Source: Linux 6.1 and 6.12, `struct bfq_queue` of `block/bfq-iosched.h`, `bfqq_process_refs` and
//! `bfq_init_bfqq` of `block/bfq-iosched.c`.

use super::entity::Entity;
use super::think_time::ThinkTime;
use crate::queue_id::QueueId;
use crate::{List, RequestId, SectorTree};
use std::ops::{Index, IndexMut};

/// Place of a process in the table of processes.
pub(super) type ProcessId = usize;

/// What is on or off for a queue (`enum bfqq_state_flags`).
#[expect(clippy::struct_excessive_bools, reason = "flags of the kernel, each by its own name")]
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    pub just_created: bool,
    pub busy: bool,
    /// The queue is in service, empty, and the idle timer runs.
    pub waits: bool,
    /// It ran empty in service, and may get back the rest of its budget.
    pub may_resume: bool,
    /// The FIFO was looked at in this turn.
    pub fifo_checked: bool,
    pub short_think_time: bool,
    pub io_bound: bool,
    pub in_large_burst: bool,
    /// Several processes share it.
    pub shared: bool,
    /// It is to be split at the next request.
    pub to_split: bool,
    pub soft_real_time_update: bool,
}

/// Weight raising of a queue; times in jiffies.
#[derive(Clone, Debug)]
pub(super) struct Raising {
    /// Factor of the weight, 1 if it is not raised.
    pub factor: u32,
    /// How long the raising lasts; for soft real time a fixed time.
    // The fixed time is also the mark of soft real time, in the kernel as well (`wr_cur_max_time`).
    pub max_time: u64,
    pub last_start_or_end: u64,
    /// When the interactive period began that soft real time interrupted.
    pub interactive_start: u64,
    pub service: i64,
    /// Not before this is the queue taken for soft real time again.
    pub soft_real_time_next: u64,
}

/// How much other queues may be served while the queue idles.
#[derive(Clone, Debug, Default)]
pub(super) struct Injection {
    pub limit: u32,
    // In jiffies, and `base_ns` is not: the kernel compares it with whole milliseconds only.
    pub decreased: u64,
    /// Shortest total time of a request of the queue, 0 if none is known.
    pub base_ns: u64,
}

/// Queues that wake each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakers {
    pub waker: Option<QueueId>,
    pub candidate: Option<QueueId>,
    pub detections: u32,
    pub detection_start_ns: u64,
    /// Queues that this one wakes, the one that became busy last first.
    pub woken: Vec<QueueId>,
    // Not the same as `waker`: a queue may leave the list of its waker before it gets another.
    pub is_listed: bool,
}

/// A queue.
#[derive(Clone, Debug)]
pub(super) struct BfqQueue {
    pub entity: Entity,
    pub refs: u32,
    /// References of processes that may merge into it later.
    pub stable_refs: u32,
    /// The process, if one alone uses it.
    pub process: Option<ProcessId>,
    /// Class in force: 0 real time, 1 best effort, 2 idle.
    pub class: usize,
    pub new_class: usize,
    pub level: u8,
    pub new_level: u8,
    pub is_sync: bool,
    /// The queue that its processes are to use from now on.
    pub merges_into: Option<QueueId>,
    pub waiting: SectorTree,
    pub fifo: List,
    pub next: Option<RequestId>,
    /// Requests queued, asynchronous and synchronous.
    pub queued: [u32; 2],
    /// Requests with the driver.
    pub dispatched: u32,
    pub max_budget: i64,
    /// While in service, the jiffy at which its turn ends; then, when it became idle.
    // One field for both in the kernel. Some tests read the one where the other was written, and so do these.
    pub budget_timeout: u64,
    pub flags: Flags,
    /// One bit a request, the latest lowest: set if it was a seek.
    pub seeks: u32,
    pub last_end_sector: u64,
    pub think_time: ThinkTime,
    pub io_start_ns: u64,
    pub idle_ns: u64,
    pub raising: Raising,
    pub injection: Injection,
    pub wakers: Wakers,
    /// The weight it is counted under while it is active and not raised.
    pub counted_weight: Option<u32>,
    pub in_position_tree: bool,
    pub in_burst_list: bool,
    pub created: u64,
    pub split: u64,
    /// Sectors served since it last became busy.
    pub service_since_busy: i64,
    pub last_busy: u64,
    pub first_io: u64,
}

impl BfqQueue {
    pub(super) fn is_idle_class(&self) -> bool {
        self.class == 2
    }

    /// More than 19 of the last 32 requests were seeks (`BFQQ_SEEKY`).
    // 60 %: a process in sequence has some seeks, as for metadata of its file.
    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > 19
    }

    /// All of the last 32 requests were seeks (`BFQQ_TOTALLY_SEEKY`).
    pub(super) fn is_totally_seeky(&self) -> bool {
        self.seeks == u32::MAX
    }

    /// References that are processes' (`bfqq_process_refs`).
    pub(super) fn process_refs(&self) -> u32 {
        let others = self.entity.allocated
            + u32::from(self.entity.is_counted)
            + u32::from(self.counted_weight.is_some())
            + self.stable_refs;
        debug_assert!(self.refs >= others, "a reference is counted once");
        // Below zero, a release build would take a queue without a process for one in use.
        self.refs.saturating_sub(others)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// All queues, by number; the number of one that is gone is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    slots: Vec<BfqQueue>,
    free: Vec<QueueId>,
}

impl Queues {
    pub(super) fn add(&mut self, queue: BfqQueue) -> QueueId {
        if let Some(id) = self.free.pop() {
            self.slots[id.index()] = queue;
            return id;
        }
        self.slots.push(queue);
        QueueId(self.slots.len() as u32 - 1)
    }

    pub(super) fn remove(&mut self, id: QueueId) {
        debug_assert!(!self.free.contains(&id), "a queue ends once");
        debug_assert!(self[id].is_empty(), "a queue that ends is empty");
        debug_assert_eq!(self[id].dispatched, 0, "a queue that ends has nothing with the driver");
        // The number is used again. Whatever may name it was cleared before: see `put_queue`.
        self.free.push(id);
    }

    /// Queues that exist.
    pub(super) fn iter(&self) -> impl Iterator<Item = (QueueId, &BfqQueue)> {
        // In linear time for each number, which only the audit of debug builds pays.
        let all = (0..).map(QueueId).zip(&self.slots);
        all.filter(|(id, _)| !self.free.contains(id))
    }

    pub(super) fn bytes(&self) -> usize {
        let own = self.slots.capacity() * size_of::<BfqQueue>();
        own + self.slots.iter().map(|queue| queue.waiting.bytes()).sum::<usize>()
    }
}

impl Index<QueueId> for Queues {
    type Output = BfqQueue;

    fn index(&self, id: QueueId) -> &BfqQueue {
        &self.slots[id.index()]
    }
}

impl IndexMut<QueueId> for Queues {
    fn index_mut(&mut self, id: QueueId) -> &mut BfqQueue {
        &mut self.slots[id.index()]
    }
}

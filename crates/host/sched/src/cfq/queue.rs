//! One queue of CFQ: the requests of a process, or asynchronous ones of a priority (`cfq_queue`).

use super::service_tree::Place;
use crate::queue_id::QueueId;
use crate::{Class, List, RequestId, SectorTree};

/// Yes-or-no properties of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Flag {
    /// The device idles, or has idled in this turn, for the next request of this queue.
    WaitsForRequest = 1,
    /// A request has come while the device idled: serve it even if the slice is over.
    MustDispatch = 1 << 1,
    /// A request above the limit was granted in this turn.
    OverLimitGranted = 1 << 2,
    /// Its oldest request has been looked at in this turn.
    FifoChecked = 1 << 3,
    /// The queue is worth idling for when it runs empty in its turn.
    IdleWindow = 1 << 4,
    /// The slice has not begun: nothing was completed in this turn.
    SliceNew = 1 << 5,
    /// Shared by several processes (3.4), or has jumped the order as a close cooperator (2.6.32).
    Cooperates = 1 << 6,
    /// Jumped the order by preempting; `Cooperates` outlives its next turn (2.6.32).
    CooperatorPreempted = 1 << 7,
    /// The processes that share it are to be split (3.4).
    Splits = 1 << 8,
    /// Had four requests queued at once, and idling did not fail since (3.4).
    Deep = 1 << 9,
    /// Its slice was extended to let the next request come (3.4).
    WaitsBusy = 1 << 10,
    /// Its process has changed class or level since the last request.
    PriorityChanged = 1 << 11,
}

/// The [`Flag`]s that are set, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags(u16);

impl Flags {
    pub(super) fn has(self, flag: Flag) -> bool {
        self.0 & flag as u16 != 0
    }

    pub(super) fn set(&mut self, flag: Flag) {
        self.0 |= flag as u16;
    }

    pub(super) fn clear(&mut self, flag: Flag) {
        self.0 &= !(flag as u16);
    }

    pub(super) fn put(&mut self, flag: Flag, value: bool) {
        if value { self.set(flag) } else { self.clear(flag) }
    }
}

/// A queue of requests that takes turns with others.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnQueue {
    pub sync: bool,
    pub class: Class,
    pub level: u8,
    pub flags: Flags,
    /// Processes and requests that refer to it, and the table of asynchronous queues.
    pub references: u32,
    /// Requests among the references.
    pub allocated: u32,
    /// Waiting requests, by sector.
    pub waiting: SectorTree,
    /// Waiting requests, by age.
    pub fifo: List,
    /// Waiting request that goes next unless the oldest has expired.
    pub next: Option<RequestId>,
    /// Requests on the dispatch list or with the driver.
    pub dispatched: u32,
    /// Where it stands for its turn: it is busy.
    pub place: Option<Place>,
    /// The position tree it is in (2.6.32, 3.4).
    pub position_level: Option<u8>,
    pub slice_start: u64,
    pub slice_end: u64,
    /// What the last slice left, or took too much.
    pub slice_left: i64,
    /// Dispatched in this turn.
    pub slice_dispatched: u32,
    /// A bit for each of the last 32 requests, set if it was far or small (3.4).
    pub seek_history: u32,
    /// End of the request that came last (3.4).
    pub last_end_sector: u64,
    /// The queue this one is to be merged with (3.4).
    pub merges_into: Option<QueueId>,
}

impl TurnQueue {
    pub(super) fn has(&self, flag: Flag) -> bool {
        self.flags.has(flag)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.place.is_some()
    }

    pub(super) fn is_real_time(&self) -> bool {
        self.class == Class::RealTime
    }

    pub(super) fn is_idle_class(&self) -> bool {
        self.class == Class::Idle
    }

    /// True if the slice has begun and is over.
    pub(super) fn slice_is_used(&self, now: u64) -> bool {
        // A new slice has no end yet: its length is known only with the first completion, so a slow
        // first seek is not charged (`cfq_slice_used`).
        !self.has(Flag::SliceNew) && now >= self.slice_end
    }

    /// Processes that refer to it.
    pub(super) fn processes(&self) -> u32 {
        // `cfqq_process_refs` of 3.4: what is left after requests, and for shared queues the table,
        // is processes.
        self.references - self.allocated
    }
}

/// All queues, with the numbers of those that were freed for reuse.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    slots: Vec<TurnQueue>,
    free: Vec<QueueId>,
}

impl Queues {
    pub(super) fn make(&mut self, sync: bool) -> QueueId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(TurnQueue::default());
            QueueId(self.slots.len() as u32 - 1)
        });
        // The tree's storage is kept for reuse; everything else begins anew.
        let waiting = std::mem::take(&mut self[id].waiting);
        let mut flags = Flags::default();
        // A new queue takes its priority with its first request, which has the class
        // (`cfq_mark_cfqq_prio_changed` in `cfq_get_queue`).
        flags.set(Flag::PriorityChanged);
        // Idling is assumed until the think time is known, or a sequential reader would lose its
        // first turns.
        flags.put(Flag::IdleWindow, sync);
        self[id] = TurnQueue { sync, flags, waiting, ..TurnQueue::default() };
        id
    }

    /// All queues that exist, or did: those that were freed are empty.
    pub(super) fn iter(&self) -> impl Iterator<Item = (QueueId, &TurnQueue)> {
        (0..).map(QueueId).zip(&self.slots)
    }

    pub(super) fn free(&mut self, id: QueueId) {
        debug_assert!(self[id].is_empty() && !self[id].is_busy());
        debug_assert!(!self.free.contains(&id), "a queue ends once");
        self.free.push(id);
    }

    /// Checks that the queues without references are those that are free.
    ///
    /// # Panics
    /// A queue is free and in use, or neither.
    pub(super) fn audit(&self) {
        let unused = self.slots.iter().filter(|queue| queue.references == 0).count();
        assert_eq!(unused, self.free.len(), "a queue without references is free");
    }

    pub(super) fn bytes(&self) -> usize {
        let held: usize = self.slots.iter().map(|queue| queue.waiting.bytes()).sum();
        self.slots.capacity() * size_of::<TurnQueue>() + held
    }
}

impl std::ops::Index<QueueId> for Queues {
    type Output = TurnQueue;

    fn index(&self, id: QueueId) -> &TurnQueue {
        &self.slots[id.index()]
    }
}

impl std::ops::IndexMut<QueueId> for Queues {
    fn index_mut(&mut self, id: QueueId) -> &mut TurnQueue {
        &mut self.slots[id.index()]
    }
}

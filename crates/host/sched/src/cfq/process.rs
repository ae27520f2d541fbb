//! What CFQ keeps of a process: its I/O context for this device (`cfq_io_context`, `cfq_io_cq`).

use crate::queue_id::QueueId;
use crate::{Bio, Class};
use rustc_hash::FxHashMap;

/// More than two samples: the mean is used.
// `sample_valid`: the fixed-point count is 32, 60, 84 after one, two and three samples, so 80 means
// three.
const MEAN_SAMPLES: u64 = 80;

/// Weight of one sample in the decaying counts, which lose an eighth with each.
// One in 8.8 fixed point, as in `cfq_update_io_thinktime`; sums lose an eighth with each sample.
const SAMPLE: u64 = 256;

/// Mean time between a completion and the next request, in jiffies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    pub last_end: u64,
    samples: u64,
    total: u64,
    mean: u64,
}

impl ThinkTime {
    pub(super) fn starting(now: u64) -> Self {
        // `cfq_alloc_io_context` sets `last_end_request` to now, so the first think time is that
        // since the first request.
        Self { last_end: now, ..Self::default() }
    }

    /// A request has come; a pause counts as no more than twice the idle time.
    pub(super) fn sample(&mut self, now: u64, slice_idle: u64) {
        // The cut is that of `cfq_update_io_thinktime`: one long pause must not outweigh many short
        // ones.
        let pause = now.wrapping_sub(self.last_end).min(2 * slice_idle);
        self.samples = (7 * self.samples + SAMPLE) / 8;
        self.total = (7 * self.total + SAMPLE * pause) / 8;
        // 128 is half of 256: it rounds the mean. It ignores the weight of the samples, as the
        // kernel's line does.
        self.mean = (self.total + 128) / self.samples;
    }

    /// The mean, once there are samples enough.
    pub(super) fn known(&self) -> Option<u64> {
        (self.samples > MEAN_SAMPLES).then_some(self.mean)
    }
}

/// Mean distance between consecutive requests of a process, in sectors (2.6.29 and 2.6.32).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seeks {
    pub last_end_sector: u64,
    samples: u64,
    total: u64,
    pub mean: u64,
}

impl Seeks {
    /// Processes whose mean is above are seeky.
    // `CIC_SEEKY` of 2.6.29 and 2.6.32: a mean of 8192 sectors is 4 MiB.
    pub(super) const SEEKY_SECTORS: u64 = 8 * 1024;

    /// Takes a distance into account. Outliers are cut, the more so the more is known.
    pub(super) fn sample(&mut self, distance: u64) {
        // `cfq_update_io_seektime`: the first three samples may exceed four means by 1 GiB, later
        // ones by 64 MiB.
        let slack = if self.samples <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
        let distance = distance.min(self.mean * 4 + slack);
        self.samples = (7 * self.samples + SAMPLE) / 8;
        self.total = (7 * self.total + SAMPLE * distance) / 8;
        self.mean = (self.total + self.samples / 2) / self.samples;
    }

    pub(super) fn is_known(&self) -> bool {
        self.samples > MEAN_SAMPLES
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.mean > Self::SEEKY_SECTORS
    }
}

/// Place of a context in [`Contexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextId(u32);

/// The context of one process.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub class: Class,
    pub level: u8,
    /// Queues of its asynchronous and synchronous requests, once it had one.
    pub queues: [Option<QueueId>; 2],
    pub think_time: ThinkTime,
    pub seeks: Seeks,
    /// False once the process has exited.
    pub alive: bool,
    /// Requests and the active turn that refer to it, and the process.
    references: u32,
}

/// All contexts. That of a process that has exited stays until its last request is done.
#[derive(Clone, Debug, Default)]
pub(super) struct Contexts {
    slots: Vec<Context>,
    free: Vec<ContextId>,
    by_pid: FxHashMap<u32, ContextId>,
}

impl Contexts {
    pub(super) fn find(&self, pid: u32) -> Option<ContextId> {
        self.by_pid.get(&pid).copied()
    }

    /// The context of the process that submits a bio, made now if it is new.
    pub(super) fn find_or_make(&mut self, now: u64, bio: &Bio) -> ContextId {
        if let Some(id) = self.find(bio.pid) {
            return id;
        }
        let context = Context {
            class: bio.class,
            level: bio.level,
            // The process itself is one reference; each request and the active turn hold one more.
            queues: [None, None],
            think_time: ThinkTime::starting(now),
            seeks: Seeks::default(),
            alive: true,
            references: 1,
        };
        let id = if let Some(id) = self.free.pop() {
            self[id] = context;
            id
        } else {
            self.slots.push(context);
            ContextId(self.slots.len() as u32 - 1)
        };
        self.by_pid.insert(bio.pid, id);
        id
    }

    pub(super) fn hold(&mut self, id: ContextId) {
        self[id].references += 1;
    }

    pub(super) fn release(&mut self, id: ContextId) {
        self[id].references -= 1;
        // The slot is free only when the last request is done: completions update the think time of
        // a process that has exited.
        if self[id].references == 0 {
            self.free.push(id);
        }
    }

    /// The process is gone.
    pub(super) fn forget(&mut self, pid: u32) {
        if let Some(id) = self.by_pid.remove(&pid) {
            // A process that comes back under the same number gets a new context: `exit_io_context`
            // detached the old one.
            self[id].alive = false;
            self.release(id);
        }
    }

    /// Checks that processes that live, and `others` (requests and the turn), hold all references.
    ///
    /// # Panics
    /// A rule is broken.
    pub(super) fn audit(&self, others: u32) {
        let held: u32 = self.slots.iter().map(|context| context.references).sum();
        assert_eq!(held, self.by_pid.len() as u32 + others, "references to processes");
        let unused = self.slots.iter().filter(|context| context.references == 0).count();
        assert_eq!(unused, self.free.len(), "a context without references is free");
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Context>()
            + self.by_pid.capacity() * size_of::<(u32, ContextId)>()
    }
}

impl std::ops::Index<ContextId> for Contexts {
    type Output = Context;

    fn index(&self, id: ContextId) -> &Context {
        &self.slots[id.0 as usize]
    }
}

impl std::ops::IndexMut<ContextId> for Contexts {
    fn index_mut(&mut self, id: ContextId) -> &mut Context {
        &mut self.slots[id.0 as usize]
    }
}

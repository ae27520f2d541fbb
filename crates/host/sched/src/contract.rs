//! The contract of a scheduler: its hooks, and what a row of the table says of it.
//!
//! A scheduler uses this file and never the table, so that each one can be read and tested alone.

use crate::quasi_async::QUEUE_PARAMETERS;
use crate::{Bio, Clock, Queue, RequestId, Settings};
use settings::Parameter;

/// Which end of a request a bio was merged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeSide {
    /// Before its first sector.
    Front,
    /// After its last sector.
    Back,
}

/// A scheduler at work: the hooks of `struct elevator_ops`, as functions of the time.
///
/// Times are nanoseconds and never go backwards. A scheduler keeps request numbers, never requests;
/// the requests and the dispatch list are the [`Queue`]'s.
pub trait Scheduler: Send {
    /// Takes a request over (`elevator_add_req_fn`).
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue);

    /// Moves requests to the dispatch list (`elevator_dispatch_fn`); returns how many.
    ///
    /// With `force` it moves everything it has, without waiting for anything.
    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32;

    /// As [`Scheduler::dispatch`] without force, for one hardware queue (`dispatch_request` of blk-mq).
    ///
    /// A scheduler with one structure for the whole device answers whichever asks, also with a request of another
    /// hardware queue; one with lists for each has its own answer.
    fn dispatch_to(&mut self, hardware_queue: usize, now_ns: u64, queue: &mut Queue) -> u32 {
        debug_assert!(hardware_queue < queue.map.hardware_queues(), "a queue of the device asks");
        self.dispatch(now_ns, false, queue)
    }

    /// True of schedulers of blk-mq. Those of a single queue see one, whatever the device has.
    fn is_multi_queue(&self) -> bool {
        false
    }

    /// Requests it holds that are not on the dispatch list.
    fn queued(&self) -> usize;

    /// True if the elevator's own back-merge caches serve this scheduler.
    // Kyber alone is not served by them: `blk_mq_sched_bio_merge` asks its own hook, which searches
    // its lists.
    fn uses_merge_caches(&self) -> bool {
        true
    }

    /// A bio is submitted, and requests that it may be merged with are about to be searched
    /// (`bio_merge` of blk-mq).
    fn before_merge(&mut self, _now_ns: u64, _bio: &Bio, _queue: &Queue) {}

    /// True if the bio may become part of the request (`elevator_allow_merge_fn`).
    fn allows_merge(&self, _bio: &Bio, _id: RequestId, _queue: &Queue) -> bool {
        true
    }

    /// True if a whole request, which comes from a plug, may become part of another one. A kernel does
    /// not ask `elevator_allow_merge_fn` then.
    fn allows_request_merge(&self, request: &Bio, id: RequestId, queue: &Queue) -> bool {
        self.allows_merge(request, id, queue)
    }

    /// A request that the bio may be merged with, found by the scheduler's own order
    /// (`elevator_merge_fn`), after the merge caches found none.
    fn find_merge(&self, _bio: &Bio, _queue: &Queue) -> Option<(RequestId, MergeSide)> {
        None
    }

    /// A bio was merged into the request (`elevator_merged_fn`).
    fn merged(&mut self, _now_ns: u64, _id: RequestId, _side: MergeSide, _queue: &mut Queue) {}

    /// `absorbed` has become part of `survivor` and must be forgotten (`elevator_merge_req_fn`).
    fn absorb(&mut self, now_ns: u64, survivor: RequestId, absorbed: RequestId, queue: &mut Queue);

    /// True if a request that the driver gives back goes to the dispatch list, and leaves the scheduler as it is.
    ///
    /// Others have lists of their own for it, or count what the driver has: they are not given any.
    fn takes_back(&self) -> bool {
        false
    }

    /// The driver gives back a request that [`Scheduler::activate`] was told of, and which goes to the dispatch list.
    fn returned(&mut self, _id: RequestId, _queue: &mut Queue) {}

    /// True if a synchronous write has another place than an asynchronous one.
    ///
    /// Others keep the request where it is when a task begins to wait for it: to insert it again would put it
    /// behind younger ones.
    fn sorts_by_sync(&self) -> bool {
        false
    }

    /// Forgets a write that waits, which is about to be inserted again as a synchronous one.
    // Linux has no hook for it. A request that is joined to another leaves in the same way; joined to itself
    // it hands on neither age nor place.
    fn take_out(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.absorb(now_ns, id, id, queue);
    }

    /// The request before this one in the order in which neighbours are joined after a front merge
    /// (`elevator_former_req_fn`).
    fn former(&self, _id: RequestId, _queue: &Queue) -> Option<RequestId> {
        None
    }

    /// The request after this one (`elevator_latter_req_fn`).
    fn latter(&self, _id: RequestId, _queue: &Queue) -> Option<RequestId> {
        None
    }

    /// The driver took a request off the dispatch list (`elevator_activate_req_fn`).
    fn activate(&mut self, _now_ns: u64, _id: RequestId, _queue: &mut Queue) {}

    /// The device has carried a request out (`elevator_completed_req_fn`).
    fn complete(&mut self, _now_ns: u64, _id: RequestId, _queue: &mut Queue) {}

    /// True if a bio of the process must get a request although `nr_requests` are allocated
    /// (`elevator_may_queue_fn` says `ELV_MQUEUE_MUST`).
    fn must_queue(&mut self, _pid: u32, _bio: &Bio, _queue: &Queue) -> bool {
        false
    }

    /// Requests allocated from which the bio gets none (`limit_depth` of the multi-queue schedulers, and
    /// the number of their tags).
    // `get_request` asks a scheduler of a single queue nothing of the kind: its batches end at three
    // halves of `nr_requests` alone.
    fn depth_limit(&self, _bio: &Bio, _queue: &Queue) -> Option<u32> {
        None
    }

    /// The process is gone. What it has queued is still to be served, unless a policy says other.
    fn exit(&mut self, _now_ns: u64, _pid: u32, _queue: &mut Queue) {}

    /// When [`Scheduler::timer`] is to be called next; none if no timer is armed.
    fn timer_ns(&self) -> Option<u64> {
        None
    }

    /// The time of [`Scheduler::timer_ns`] has come.
    fn timer(&mut self, _now_ns: u64, _queue: &mut Queue) {}

    /// Requests that the scheduler gave up (an orphan policy that cancels); the caller ends them
    /// with an error.
    fn take_cancelled(&mut self) -> Vec<RequestId> {
        Vec::new()
    }

    /// True if it holds requests back now and idles for a better one to come.
    fn is_idling(&self) -> bool {
        false
    }

    /// Bytes of state it holds, for the table of costs.
    fn state_bytes(&self) -> usize;

    /// Checks what it keeps more than once, and its counts. The elevator calls it after every hook, in
    /// debug builds.
    fn audit(&self, _queue: &Queue) {}
}

/// Makes a scheduler, at time zero.
// No function pointer: a scheduler of the user's own also holds the class that it is made of.
pub type BuildScheduler = &'static (dyn Fn(&Settings, Clock) -> Box<dyn Scheduler> + Sync);

/// A row of the table of schedulers.
pub struct SchedulerEntry {
    /// Name on the command line and in studies.
    pub name: &'static str,
    /// Other names of the same row.
    pub aliases: &'static [&'static str],
    /// One line: what it is.
    pub summary: &'static str,
    /// Kernel file and version, or paper, that describes it.
    pub source: &'static str,
    /// Its own tunables, with the names, units and defaults of sysfs.
    pub parameters: &'static [Parameter],
    /// Makes one, at time zero.
    pub build: BuildScheduler,
}

impl std::fmt::Debug for SchedulerEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SchedulerEntry").field(&self.name).finish()
    }
}

impl SchedulerEntry {
    /// All its tunables: its own, then those of the request queue.
    pub fn tunables(&self) -> impl Iterator<Item = &'static Parameter> + Clone + use<> {
        self.parameters.iter().chain(QUEUE_PARAMETERS)
    }

    /// Checks tunables and fills in defaults.
    ///
    /// # Errors
    /// [`settings::SettingError`] for the first name or value that does not fit.
    pub fn settings(
        &self,
        given: &std::collections::BTreeMap<String, settings::Value>,
    ) -> Result<Settings, settings::SettingError> {
        Settings::new(&[self.parameters, QUEUE_PARAMETERS], given)
    }
}

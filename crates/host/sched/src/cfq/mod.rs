//! CFQ, completely fair queueing, of three kernels: processes take turns with the device.
//!
//! Every process has a queue of its synchronous requests (reads, and writes that a process waits
//! for); asynchronous writes share a queue for each priority. Queues get the device in turn for a
//! *slice* of time that depends on the priority and begins when the first request of the turn is
//! done. Inside a queue requests go in the order of sectors, except that once a turn the oldest
//! goes first if it has expired. A process whose queue runs empty in its turn is waited for
//! (`slice_idle`) if it thinks shortly and does not seek: that keeps sequential readers sequential,
//! and costs a fast device most of its time. Synchronous requests end the turn of asynchronous ones.
//!
//! What the versions share stands in this folder's common files; the decisions each takes on its
//! own stand in `v2_6_29.rs`, `v2_6_32.rs` and `v3_4.rs`. In short:
//!
//! - 2.6.29 moves up to `quantum` requests at once, several queues' worth if no other queue waits;
//! - 2.6.32 moves one at a time, holds asynchronous writes back after synchronous requests, and
//!   lets a queue that works close to the head jump the order;
//! - 3.4 sorts queues by kind of work into trees with time of their own, shortens slices if many
//!   wait, judges seeks by the last 32 requests, and merges queues that work side by side.
//!
//! When to expect what: fair shares of *time* among readers and low latency of readers against
//! writers on disks; on flash without `nonrot` idling costs throughput, with it much of the
//! fairness goes unless the requests are large.
//!
//! Left out: metadata and high-priority flags of requests, control groups (3.4 behaves as with
//! `CONFIG_CFQ_GROUP_IOSCHED` off), boosting of processes that hold file system locks. A tunable
//! below the least value that sysfs stores counts as that value. A process that changes its
//! priority keeps its place until its next turn. Slice arithmetic is signed and does not overflow.
//!
//! Source: `block/cfq-iosched.c` of Linux 2.6.29, 2.6.32 and 3.4.

mod cooperators;
mod process;
mod queue;
mod requests;
mod service_tree;
#[cfg(test)]
mod tests;
mod tunables;
mod turns;
mod v2_6_29;
mod v2_6_32;
mod v3_4;

use crate::lane_audit::audit_lane;
use crate::position_tree::{Nodes, PositionTree};
use crate::queue_id::QueueId;
use crate::{Bio, Class, Clock, Direction, Links, MergeSide, Queue, RequestId, Scheduler};
use process::{Context, ContextId, Contexts};
use queue::{Flag, Queues};
use service_tree::{Place, ServiceTree};
use tunables::Tunables;

pub(crate) use v2_6_29::ENTRY as ENTRY_2_6_29;
pub(crate) use v2_6_32::ENTRY as ENTRY_2_6_32;
pub(crate) use v3_4::ENTRY as ENTRY_3_4;

/// Levels of a priority class.
// `IOPRIO_BE_NR`: `ioprio_set(2)` takes levels 0 to 7, and `async_cfqq` and `prio_trees` are arrays
// of eight.
const LEVELS: usize = 8;

/// Requests queued or with the device from which on depth is measured.
// `CFQ_HW_QUEUE_MIN`: both the load from which samples count and the depth that proves queueing.
const DEEP_QUEUE: u32 = 5;

/// Completions at such times that make a measurement.
// `cfq_update_hw_tag` counts before it compares (`hw_tag_samples++ < 50`), so the 51st sample
// decides.
const DEPTH_SAMPLES: u32 = 50;

/// A request of at most this many sectors is no more than a page.
// `PAGE_CACHE_SIZE` of 4 KiB in `cfq_rq_enqueued`: a larger request has been merged already, so
// waiting for more gains nothing.
const PAGE_SECTORS: u32 = 8;

/// The decisions that differ between kernels.
trait Version: Sized + Send + 'static {
    /// Number of service trees.
    // 2.6.29 and 2.6.32 sort classes within one tree; 3.4 has `service_trees[2][3]` and
    // `service_tree_idle`.
    const TREES: usize;

    /// A queue gives up its place as soon as its last request is gone, not when its turn ends.
    // `cfq_dispatch_insert` calls `cfq_remove_request`, which took the queue off the tree until
    // 2.6.32; later `__cfq_slice_expired` does it.
    const LEAVES_WHEN_EMPTY: bool;

    /// Of two requests that start at the same sector, the earlier goes to the dispatch list when
    /// the later is inserted.
    // `elv_rb_add` of 2.6 returned an alias, and `cfq_add_rq_rb` dispatched it to keep keys unique.
    const ALIAS_IS_DISPATCHED: bool;

    /// It looks for queues that work close to the head.
    // `cfq_close_cooperator` is an empty stub in 2.6.29 and uses `prio_trees` from 2.6.30 on.
    const KNOWS_POSITIONS: bool;

    /// The place a queue gets now; `front` to be served next. `joins` if it had none.
    fn place(cfq: &mut Cfq<Self>, now: u64, id: QueueId, front: bool, joins: bool) -> Place;

    /// When the oldest request of a queue expires.
    fn expiry(_cfq: &Cfq<Self>, _id: QueueId, request: RequestId, queue: &Queue) -> u64 {
        queue.requests[request].deadline
    }

    /// Chooses the request that follows one which is about to be dispatched, if that is decided
    /// even if another was to follow.
    fn next_after(
        cfq: &Cfq<Self>,
        id: QueueId,
        request: RequestId,
        queue: &Queue,
    ) -> Option<RequestId>;

    /// The queue a new request of a process goes to.
    fn queue_for(
        cfq: &mut Cfq<Self>,
        _now: u64,
        process: ContextId,
        bio: &Bio,
        _queue: &mut Queue,
    ) -> QueueId {
        cfq.own_queue(process, is_sync(bio))
    }

    /// `absorbed` is about to be forgotten: `survivor` may take over its place.
    fn absorbing(
        _cfq: &mut Cfq<Self>,
        _survivor: RequestId,
        _absorbed: RequestId,
        _queue: &mut Queue,
    ) {
    }

    /// Learns from a request that was just inserted, and decides whether its queue preempts the
    /// active one.
    fn enqueued(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue);

    /// Anything but a dispatch happens now.
    fn event(_cfq: &mut Cfq<Self>) {}

    /// What a slice that never began leaves to the next.
    fn unbegun_slice(_cfq: &mut Cfq<Self>, _id: QueueId) -> Option<i64> {
        None
    }

    /// A turn ends, and the queue is about to be given its next place.
    fn turn_over(_cfq: &mut Cfq<Self>, _now: u64, _id: QueueId) {}

    /// Moves requests to the dispatch list.
    fn dispatch(cfq: &mut Cfq<Self>, now: u64, queue: &mut Queue) -> u32;

    /// A request of the queue is done; the counts of those on their way still include it.
    fn completing(cfq: &mut Cfq<Self>, now: u64, id: QueueId, queue: &Queue);

    /// As `completing`, but the counts no longer include the request.
    fn completed(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue);

    /// The idle timer has fired in the turn of a queue.
    fn idled_in_vain(cfq: &mut Cfq<Self>, now: u64, id: QueueId) -> AfterIdling;
}

/// What happens when the idle timer has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterIdling {
    /// The turn ends, and another queue may be chosen.
    Expire,
    /// The turn goes on with what has come.
    Run,
    /// No queue has a request: the turn stays open, and the queue is not run.
    Rest,
}

/// Who made a request, and the queue it is in.
#[derive(Clone, Copy, Debug)]
struct Owner {
    process: ContextId,
    queue: QueueId,
}

/// The scheduler; `own` is what only one version has.
struct Cfq<V> {
    clock: Clock,
    tunables: Tunables,
    processes: Contexts,
    queues: Queues,
    // The kernel has a single `async_idle_cfqq`; here the idle class has a queue for each level
    // that its processes name.
    /// Asynchronous queues by class and level.
    shared: [[Option<QueueId>; LEVELS]; 3],
    /// Process and queue of each request, by the number of the request.
    owners: Vec<Owner>,
    fifo_links: Links,
    trees: Vec<ServiceTree>,
    /// Position trees (`prio_trees`) by level.
    positions: [PositionTree; LEVELS],
    position_nodes: Nodes,
    /// Queues that have a place in a service tree.
    busy: u32,
    busy_sync: u32,
    // `busy_rt_queues` of 2.6.29: a queue that changes its class while it is busy is counted out
    // under its new class, so the kernel's count drifts as this one does.
    busy_real_time: u32,
    /// Requests that wait in queues.
    waiting: u32,
    /// Requests on the dispatch list or with the driver: asynchronous, synchronous.
    dispatched: [u32; 2],
    /// Requests with the driver: asynchronous, synchronous.
    in_driver: [u32; 2],
    /// The queue whose turn it is.
    active: Option<QueueId>,
    /// The process whose request was dispatched first in this turn.
    active_process: Option<ContextId>,
    // `last_position`: set in `cfq_activate_request`, so it moves when the driver takes a request
    // and not when the scheduler dispatches it.
    /// End of the request that the driver took last.
    head: u64,
    timer_ns: Option<u64>,
    own: V,
}

fn is_sync(bio: &Bio) -> bool {
    bio.sync || bio.direction == Direction::Read
}

impl<V: Version> Cfq<V> {
    fn new(clock: Clock, tunables: Tunables, own: V) -> Self {
        Self {
            clock,
            tunables,
            processes: Contexts::default(),
            queues: Queues::default(),
            shared: [[None; LEVELS]; 3],
            owners: Vec::new(),
            fifo_links: Links::default(),
            trees: vec![ServiceTree::default(); V::TREES],
            positions: [PositionTree::default(); LEVELS],
            position_nodes: Nodes::default(),
            busy: 0,
            busy_sync: 0,
            busy_real_time: 0,
            waiting: 0,
            dispatched: [0; 2],
            in_driver: [0; 2],
            active: None,
            active_process: None,
            head: 0,
            timer_ns: None,
            own,
        }
    }

    fn owner(&self, request: RequestId) -> Owner {
        self.owners[request.index()]
    }

    /// The queue that a bio would go to if it became a request, if it exists.
    // A merge must not create queues: `cfq_allow_merge` and `cfq_may_queue` look up the I/O context
    // of the current task and give up without one.
    fn existing_queue(&self, bio: &Bio) -> Option<QueueId> {
        let process = self.processes.find(bio.pid)?;
        self.processes[process].queues[usize::from(is_sync(bio))]
    }

    fn driver_depth(&self) -> u32 {
        self.in_driver[0] + self.in_driver[1]
    }

    /// Asks for the queue to be run soon if any queue is busy (`cfq_schedule_dispatch`).
    fn run_soon(&self, queue: &mut Queue) {
        if self.busy > 0 {
            queue.run_soon = true;
        }
    }

    /// Runs the idle timer for a number of jiffies.
    fn start_idling(&mut self, now: u64, jiffies: u64) {
        if let Some(active) = self.active {
            self.queues[active].flags.set(Flag::WaitsForRequest);
        }
        // `mod_timer` fires a timer for the current jiffy at the next tick.
        self.timer_ns = Some(self.clock.timer_ns(0, now + jiffies.max(1)));
    }

    /// The context of the process that submits a bio, with its priority brought up to date.
    fn process_for(&mut self, now: u64, bio: &Bio, queue: &mut Queue) -> ContextId {
        let process = self.processes.find_or_make(now, bio);
        let context = &mut self.processes[process];
        // `changed_ioprio` is called when the I/O context says so; comparing with the bio finds the
        // same moment, because a bio carries its process's priority.
        if (context.class, context.level) == (bio.class, bio.level) {
            return process;
        }
        (context.class, context.level) = (bio.class, bio.level);
        let [asynchronous, synchronous] = context.queues;
        // An asynchronous queue belongs to a priority, not to a process: the process moves to
        // another.
        if let Some(old) = asynchronous {
            let new = self.get_queue(process, false);
            self.processes[process].queues[0] = Some(new);
            self.put_queue(now, old, queue);
        }
        // A synchronous queue is the process's own. It takes the priority over with its next
        // request (`cfq_init_prio_data`), so that it is not moved within a tree by a system call.
        if let Some(id) = synchronous {
            self.queues[id].flags.set(Flag::PriorityChanged);
        }
        process
    }

    /// A queue for a process: the shared one of its priority, or a new one.
    fn get_queue(&mut self, process: ContextId, sync: bool) -> QueueId {
        let Context { class, level, .. } = self.processes[process];
        let slot = &mut self.shared[class as usize][usize::from(level) % LEVELS];
        let id = match *slot {
            Some(id) if !sync => id,
            _ => {
                let id = self.queues.make(sync);
                if !sync {
                    // The table holds a reference of its own (`cfq_get_queue`), so a shared queue
                    // outlives all processes.
                    *slot = Some(id);
                    self.queues[id].references += 1;
                }
                self.take_priority(id, process);
                id
            }
        };
        self.queues[id].references += 1;
        id
    }

    /// The queue of a process for its next request, made if there is none.
    fn own_queue(&mut self, process: ContextId, sync: bool) -> QueueId {
        let place = usize::from(sync);
        if let Some(id) = self.processes[process].queues[place] {
            return id;
        }
        let id = self.get_queue(process, sync);
        self.processes[process].queues[place] = Some(id);
        id
    }

    /// Takes over the priority of a process if it has changed.
    fn take_priority(&mut self, id: QueueId, process: ContextId) {
        let queue = &mut self.queues[id];
        if !queue.has(Flag::PriorityChanged) {
            return;
        }
        let context = &self.processes[process];
        (queue.class, queue.level) = (context.class, context.level.min(LEVELS as u8 - 1));
        // `cfq_init_prio_data` pins the idle class to the lowest level and never idles for it: no
        // process waits for a class that runs only when no other class has requests.
        if queue.class == Class::Idle {
            queue.level = LEVELS as u8 - 1;
            queue.flags.clear(Flag::IdleWindow);
        }
        queue.flags.clear(Flag::PriorityChanged);
    }

    /// One reference less; without any the queue is no more.
    fn put_queue(&mut self, now: u64, id: QueueId, queue: &mut Queue) {
        self.queues[id].references -= 1;
        if self.queues[id].references > 0 {
            return;
        }
        // The last reference can go while the queue is active: an exit ends the turn, or the device
        // would idle for a process that is gone.
        if self.active == Some(id) {
            self.expire(now, id, false, queue);
            self.run_soon(queue);
        }
        self.queues.free(id);
    }

    /// Gives up the references that a planned merge of queues has taken.
    fn put_cooperators(&mut self, now: u64, id: QueueId, queue: &mut Queue) {
        // A planned merge is a chain; each link holds a reference that `cfq_setup_merge` took for
        // processes that were expected to follow (`cfq_put_cooperator`).
        let mut planned = self.queues[id].merges_into;
        while let Some(other) = planned {
            planned = self.queues[other].merges_into;
            self.put_queue(now, other, queue);
        }
    }

    /// A request is no more.
    fn put_request(&mut self, now: u64, request: RequestId, queue: &mut Queue) {
        let Owner { process, queue: id } = self.owner(request);
        self.queues[id].allocated -= 1;
        self.processes.release(process);
        self.put_queue(now, id, queue);
    }
}

impl<V: Version> Scheduler for Cfq<V> {
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        // 2.6.32 marks a queue only after the queue was run within the insertion; any later event
        // is after it.
        V::event(self);
        let now = queue.jiffies(now_ns);
        let bio = queue.requests[id].bio;
        let process = self.process_for(now, &bio, queue);
        let target = V::queue_for(self, now, process, &bio, queue);
        // The request holds the context, which an exit of the process would free otherwise
        // (`cfq_set_request`).
        self.processes.hold(process);
        let own = &mut self.queues[target];
        own.references += 1;
        own.allocated += 1;
        let owner = Owner { process, queue: target };
        if self.owners.len() <= id.index() {
            self.owners.resize(id.index() + 1, owner);
        }
        self.owners[id.index()] = owner;
        self.take_priority(target, process);
        // The flag of the request selects the expiry (`rq_set_fifo_time` in `cfq_insert_request`).
        // 2.6.29 stores none and computes it in `cfq_check_fifo`; see `V29::expiry`.
        let expire = self.tunables.fifo_expire[usize::from(is_sync(&bio))];
        queue.requests[id].deadline = now + expire;
        // Sorted before it is appended, as in 2.6.29 and 2.6.32: an alias that is dispatched leaves
        // the FIFO before this request enters it. 3.4 appends first, but has no aliases.
        self.add_waiting(now, id, queue);
        self.queues[target].fifo.push_back(&mut self.fifo_links, id);
        self.waiting += 1;
        V::enqueued(self, now, id, queue);
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        if self.busy == 0 {
            return 0;
        }
        let now = queue.jiffies(now_ns);
        if force { self.drain(now, queue) } else { V::dispatch(self, now, queue) }
    }

    fn queued(&self) -> usize {
        self.waiting as usize
    }

    fn audit(&self, queue: &Queue) {
        let (mut waiting, mut dispatched, mut busy, mut busy_sync) = (0, [0; 2], 0, 0);
        for (id, own) in self.queues.iter() {
            assert_eq!(own.waiting.len(), own.fifo.len(), "{id:?} sorts by sector and by age");
            assert_eq!(own.next.is_some(), !own.is_empty(), "{id:?} has a next request if any");
            assert!(own.is_busy() || own.is_empty(), "{id:?} has requests and no place");
            assert!(own.references >= own.allocated, "each request of {id:?} refers to it");
            assert_eq!(
                own.allocated as usize,
                own.waiting.len() + own.dispatched as usize,
                "requests of {id:?} wait or are on their way"
            );
            if let Some(place) = own.place {
                assert!(self.trees[place.tree].holds(place, id), "{id:?} stands at its place");
                busy += 1;
                busy_sync += u32::from(own.sync);
            }
            audit_lane(&own.waiting, own.fifo, &self.fifo_links, queue);
            let is_own = |request: RequestId| self.owner(request).queue == id;
            let mut requests = own.fifo.iter(&self.fifo_links);
            assert!(requests.all(is_own), "requests of {id:?} are its own");
            let is_there = |next| own.waiting.contains(next);
            assert!(own.next.is_none_or(is_there), "the next request of {id:?} waits in it");
            let has_position = own.position_level.is_some();
            assert!(!has_position || !own.is_empty(), "{id:?} has a position and no request");
            waiting += own.waiting.len();
            dispatched[usize::from(own.sync)] += own.dispatched;
        }
        let allocated: u32 = self.queues.iter().map(|(_, own)| own.allocated).sum();
        self.processes.audit(allocated + u32::from(self.active_process.is_some()));
        self.queues.audit();
        let is_live = |active: QueueId| self.queues[active].references > 0;
        assert!(self.active.is_none_or(is_live), "the queue whose turn it is exists");
        let places: usize = self.trees.iter().map(ServiceTree::len).sum();
        assert_eq!(places, busy, "as many places are taken as queues are busy");
        assert_eq!((self.busy as usize, self.busy_sync), (busy, busy_sync), "busy queues");
        assert!(self.trees.iter().all(ServiceTree::is_sorted), "trees are sorted by rank and key");
        assert_eq!(waiting, self.waiting as usize, "waiting requests of all queues");
        assert_eq!(dispatched, self.dispatched, "dispatched requests of all queues");
        assert_eq!(self.driver_depth(), queue.in_flight, "requests with the driver");
    }

    fn allows_merge(&self, bio: &Bio, id: RequestId, queue: &Queue) -> bool {
        // A process would wait for a request that its turn does not cover: `cfq_allow_merge`
        // refuses a synchronous bio in an asynchronous request, but not the other way round.
        let refused = is_sync(bio) && !is_sync(&queue.requests[id].bio);
        !refused && self.existing_queue(bio) == Some(self.owner(id).queue)
    }

    fn find_merge(&self, bio: &Bio, queue: &Queue) -> Option<(RequestId, MergeSide)> {
        let id = self.queues[self.existing_queue(bio)?].waiting.find(bio.end())?;
        let fits =
            queue.requests[id].bio.direction == bio.direction && self.allows_merge(bio, id, queue);
        fits.then_some((id, MergeSide::Front))
    }

    fn merged(&mut self, now_ns: u64, id: RequestId, side: MergeSide, queue: &mut Queue) {
        V::event(self);
        // Only a front merge changes the key of the sorted tree (`cfq_merged_request`,
        // `cfq_reposition_rq_rb`).
        if side == MergeSide::Front {
            let owner = self.owner(id).queue;
            self.queues[owner].waiting.remove(id);
            self.add_waiting(queue.jiffies(now_ns), id, queue);
        }
    }

    fn absorb(&mut self, now_ns: u64, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        V::event(self);
        let now = queue.jiffies(now_ns);
        V::absorbing(self, survivor, absorbed, queue);
        self.take_out(absorbed, queue);
        let id = self.owner(absorbed).queue;
        let left = &self.queues[id];
        // A queue that loses its last request to a merge would stay on the service tree for ever,
        // since only the active queue is expired. 3.4 removes it in `cfq_merged_requests`.
        if left.is_busy() && left.is_empty() && self.active != Some(id) {
            self.leave(id);
        }
        self.put_request(now, absorbed, queue);
    }

    fn sorts_by_sync(&self) -> bool {
        true
    }

    fn former(&self, id: RequestId, _queue: &Queue) -> Option<RequestId> {
        self.queues[self.owner(id).queue].waiting.previous(id)
    }

    fn latter(&self, id: RequestId, _queue: &Queue) -> Option<RequestId> {
        self.queues[self.owner(id).queue].waiting.next(id)
    }

    fn activate(&mut self, _now_ns: u64, id: RequestId, queue: &mut Queue) {
        let request = &queue.requests[id];
        // Counted when the driver takes the request (`cfq_activate_request`); `dispatched` is
        // counted when it goes to the dispatch list.
        self.in_driver[usize::from(is_sync(&request.bio))] += 1;
        self.head = request.end();
    }

    fn complete(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        V::event(self);
        let now = queue.jiffies(now_ns);
        let Owner { process, queue: owner } = self.owner(id);
        // `cfq_update_hw_tag` runs first, and sees the depth that the device had before this
        // completion.
        V::completing(self, now, owner, queue);
        let sync = is_sync(&queue.requests[id].bio);
        self.in_driver[usize::from(sync)] -= 1;
        // By the kind of the queue, while the line above counts by the request's flag, as the
        // kernel does (`cfq_cfqq_sync` and `rq_is_sync`).
        self.dispatched[usize::from(self.queues[owner].sync)] -= 1;
        self.queues[owner].dispatched -= 1;
        if sync {
            self.processes[process].think_time.last_end = now;
        }
        V::completed(self, now, id, queue);
        // A dispatch call that returned nothing because requests were with the driver armed no
        // timer: this kick repeats it.
        if self.driver_depth() == 0 {
            self.run_soon(queue);
        }
        self.put_request(now, id, queue);
    }

    fn must_queue(&mut self, pid: u32, bio: &Bio, _queue: &Queue) -> bool {
        let Some(id) = self.existing_queue(&Bio { pid, ..*bio }) else { return false };
        let own = &mut self.queues[id];
        // `must_alloc_slice`: one request beyond the limit for each turn, or a process that is
        // idled for could take the whole pool.
        let must = own.has(Flag::WaitsForRequest) && !own.has(Flag::OverLimitGranted);
        if must {
            own.flags.set(Flag::OverLimitGranted);
        }
        must
    }

    fn exit(&mut self, now_ns: u64, pid: u32, queue: &mut Queue) {
        V::event(self);
        let now = queue.jiffies(now_ns);
        let Some(process) = self.processes.find(pid) else { return };
        for place in 0..2 {
            // `cfq_exit_cfqq` expires before it drops the reference, because expiring reads the
            // queue.
            let Some(id) = self.processes[process].queues[place].take() else { continue };
            if self.active == Some(id) {
                self.expire(now, id, false, queue);
                self.run_soon(queue);
            }
            self.put_cooperators(now, id, queue);
            self.put_queue(now, id, queue);
        }
        self.processes.forget(pid);
    }

    fn timer_ns(&self) -> Option<u64> {
        self.timer_ns
    }

    fn timer(&mut self, now_ns: u64, queue: &mut Queue) {
        V::event(self);
        self.timer_ns = None;
        let now = queue.jiffies(now_ns);
        if let Some(id) = self.active {
            match V::idled_in_vain(self, now, id) {
                AfterIdling::Expire => self.expire(now, id, false, queue),
                AfterIdling::Run => {}
                // `cfq_idle_slice_timer` leaves without a kick when no queue is busy: the next
                // insertion runs the queue.
                AfterIdling::Rest => return,
            }
        }
        self.run_soon(queue);
    }

    fn is_idling(&self) -> bool {
        // For the statistics only: the device stands still although another queue could use it.
        let active_is_empty = self.active.is_some_and(|id| self.queues[id].is_empty());
        self.timer_ns.is_some() && active_is_empty && self.waiting > 0
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>()
            + self.processes.bytes()
            + self.queues.bytes()
            + self.owners.capacity() * size_of::<Owner>()
            + self.fifo_links.bytes()
            + self.trees.iter().map(ServiceTree::bytes).sum::<usize>()
            + self.position_nodes.bytes()
    }
}

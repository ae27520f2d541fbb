//! BFQ, Budget Fair Queueing: a queue for each process, each turn as long as a budget of sectors.
//!
//! Queues are served in turn by B-WF2Q+, so that each gets its share of the *sectors* by weight, however
//! long its turns are. The device is kept idle for the next request of the queue in service where that
//! pays, or where the shares need it. New, interactive and soft real-time processes get a large weight
//! for a while.
//!
//! When to expect what: a process that starts, or that reads now and then, waits little beside others
//! that read or write much. A device that serves several requests at once gets few while a queue is
//! idled for. Each request costs much processor time.
//!
//! Two versions, `bfq-6.1` and `bfq-6.12`, which differ in what large requests may be injected, in the
//! limits of tags, and in when a limit of injection may first be measured. With a single actuator and
//! a single group, the other changes between them have no effect.
//!
//! Quirk of 6.12: the first pause of a process counts as the longest there is, because the time is cached
//! during a submission (`hooks.rs`, `pause_ns`). So a new process counts as one that thinks for long after
//! its third pause, until the fourth is known, and idling for it is left off or filled by injection.
//!
//! Left out: groups (all queues are in the root group), actuators, insertion at the head and requests
//! without an I/O context, the flag `REQ_META`, and failures of allocation (`oom_bfqq`).
//!
//! Source: Linux 6.1.192 and 6.12.117, `block/bfq-iosched.c`, `block/bfq-wf2q.c`.

mod budget;
mod burst;
mod choice;
mod cooperators;
mod entity;
mod hooks;
mod idling;
mod injection;
mod peak_rate;
mod process;
mod queue;
mod selection;
mod service_tree;
mod tags;
#[cfg(test)]
mod tests;
mod think_time;
mod tunables;
mod turns;
mod wakers;
mod weight_raising;

use crate::position_tree::{Nodes, PositionTree};
use crate::queue_id::QueueId;
use crate::{Clock, Links, RequestId, SchedulerEntry, Settings};
use budget::DEFAULT_MAX_BUDGET;
use burst::Burst;
use peak_rate::{Depth, Rate};
use process::Process;
use queue::{ProcessId, Queues};
use rustc_hash::FxHashMap;
use service_tree::ServiceTree;
use tunables::{PARAMETERS, Tunables};

/// The row of Linux 6.1.
pub(crate) const ENTRY_6_1: SchedulerEntry = SchedulerEntry {
    name: "bfq-6.1",
    aliases: &[],
    summary: "turns of a budget of sectors by weight, with idling and raised weights",
    source: "Linux 6.1.192, block/bfq-iosched.c, block/bfq-wf2q.c",
    parameters: PARAMETERS,
    build: &|settings, clock| Box::new(Bfq::new(settings, clock, Version::V6_1)),
};

/// The row of Linux 6.12.
pub(crate) const ENTRY_6_12: SchedulerEntry = SchedulerEntry {
    name: "bfq-6.12",
    aliases: &["bfq"],
    summary: "turns of a budget of sectors by weight; large requests are not injected beside others",
    source: "Linux 6.12.117, block/bfq-iosched.c, block/bfq-wf2q.c",
    parameters: PARAMETERS,
    build: &|settings, clock| Box::new(Bfq::new(settings, clock, Version::V6_12)),
};

/// Nanoseconds at time zero: a time stamp of zero lies long ago, as in a kernel that has been up for a while.
const FIRST_NS: u64 = 1 << 40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V6_1,
    V6_12,
}

/// Why a turn ends (`enum bfqq_expiration`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiration {
    TooIdle,
    Timeout,
    Exhausted,
    NoMoreRequests,
    Preempted,
}

/// Whose a request is.
#[derive(Clone, Copy)]
struct Owner {
    process: ProcessId,
    queue: QueueId,
}

/// The scheduler (`struct bfq_data`).
#[expect(clippy::struct_excessive_bools, reason = "flags of the kernel, each by its own name")]
struct Bfq {
    version: Version,
    clock: Clock,
    tunables: Tunables,
    /// The time of the hook that runs.
    now_ns: u64,
    jiffies: u64,
    is_set_up: bool,
    rotational: bool,

    queues: Queues,
    processes: Vec<Process>,
    free_processes: Vec<ProcessId>,
    by_pid: FxHashMap<u32, ProcessId>,
    /// Queues of asynchronous requests: eight levels of real time and of best effort, and idle.
    // The idle class has one queue, since its level is always the lowest (`bfq_async_queue_prio`).
    async_queues: [Option<QueueId>; 17],
    owners: Vec<Owner>,
    fifo_links: Links,

    /// One for each class.
    trees: [ServiceTree; 3],
    nodes: Nodes,
    /// Entities in the active trees, the one inserted last at the end.
    // The kernel adds at the front (`bfq_active_insert`), where injection begins. Here it is read backwards.
    active_list: Vec<QueueId>,
    in_service_entity: Option<QueueId>,
    next_in_service: Option<QueueId>,
    // That of the root group, the only one here (`bfq_class_idle_last_service`).
    idle_class_served: u64,
    /// Weights of active queues that are not raised, with their numbers.
    // Raised ones are left out: their weights differ for a while only, and idling protects them anyway.
    weights: Vec<(u32, u32)>,
    /// Busy queues by class.
    busy: [u32; 3],
    raised_busy: u32,

    // Not the same as `in_service_entity` within a call: the entity leaves at deactivation, the queue after it.
    in_service: Option<QueueId>,
    turn_start_ns: u64,
    timer_at_ns: Option<u64>,
    // Twice: whether a queue is slow is computed in nanoseconds, injection compares jiffies.
    idling_start_ns: u64,
    idling_start: u64,
    budgets_assigned: u64,
    /// What the device does in the longest turn (`bfq_max_budget`).
    device_budget: i64,

    queued: u32,
    in_driver: u32,
    last_position: u64,
    in_service_position: u64,
    last_completion_ns: u64,
    last_completed: Option<QueueId>,
    rate: Rate,
    depth: Depth,
    nonrot_with_queueing: bool,

    injected: bool,
    awaits_dispatch: bool,
    waited_request: Option<RequestId>,
    occupied_ns: u64,

    burst: Burst,
    last_created: Option<QueueId>,
    positions: PositionTree,
    position_nodes: Nodes,
}

impl Bfq {
    fn new(settings: &Settings, clock: Clock, version: Version) -> Self {
        Self {
            version,
            clock,
            tunables: Tunables::new(settings, clock),
            now_ns: FIRST_NS,
            jiffies: clock.jiffies(0),
            // The first hook sets up what `bfq_init_queue` reads from the queue of the device.
            is_set_up: false,
            // Known with the first call alone, which brings the queue of the device.
            rotational: true,
            queues: Queues::default(),
            processes: Vec::new(),
            free_processes: Vec::new(),
            by_pid: FxHashMap::default(),
            async_queues: [None; 17],
            owners: Vec::new(),
            fifo_links: Links::default(),
            trees: [ServiceTree::default(), ServiceTree::default(), ServiceTree::default()],
            nodes: Nodes::default(),
            active_list: Vec::new(),
            in_service_entity: None,
            next_in_service: None,
            idle_class_served: clock.jiffies(0),
            weights: Vec::new(),
            busy: [0; 3],
            raised_busy: 0,
            in_service: None,
            turn_start_ns: 0,
            timer_at_ns: None,
            idling_start_ns: 0,
            idling_start: 0,
            budgets_assigned: 0,
            device_budget: DEFAULT_MAX_BUDGET,
            queued: 0,
            in_driver: 0,
            last_position: 0,
            in_service_position: 0,
            last_completion_ns: 0,
            last_completed: None,
            rate: Rate::default(),
            depth: Depth::default(),
            nonrot_with_queueing: false,
            injected: false,
            awaits_dispatch: false,
            waited_request: None,
            occupied_ns: 0,
            burst: Burst::default(),
            last_created: None,
            positions: PositionTree::default(),
            position_nodes: Nodes::default(),
        }
    }

    /// Whose a request is that is queued or with the driver.
    fn owner(&self, request: RequestId) -> Owner {
        self.owners[request.index()]
    }
}

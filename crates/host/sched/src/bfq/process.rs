//! What is kept of a process: its I/O context for this device, and the queues that it uses.
//!
//! Source: Linux 6.1 and 6.12, `struct bfq_io_cq` of `block/bfq-iosched.h`; `bfq_get_queue`,
//! `bfq_init_bfqq`, `bfq_check_ioprio_change`, `bfq_exit_icq` of `block/bfq-iosched.c`.

use super::entity::{Entity, weight_of_level};
use super::queue::{BfqQueue, Flags, Injection, ProcessId, Raising, Wakers};
use super::think_time::ThinkTime;
use super::{Bfq, Expiration, Version};
use crate::queue_id::QueueId;
use crate::{Bio, Class, List, Queue, SectorTree};

/// What a process keeps of its queue while that is merged with another.
#[expect(clippy::struct_excessive_bools, reason = "flags of the kernel, each by its own name")]
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub injection: Injection,
    pub weight: u32,
    pub think_time: ThinkTime,
    pub short_think_time: bool,
    pub io_bound: bool,
    pub io_start_ns: u64,
    pub idle_ns: u64,
    pub in_large_burst: bool,
    pub was_in_burst_list: bool,
    pub raising: Raising,
}

/// An I/O context.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub class: Class,
    pub level: u8,
    /// The queues of its asynchronous and its synchronous requests.
    // Both at once, as in `struct bfq_io_cq`: a process reads from its own queue while its writes share another.
    pub queues: [Option<QueueId>; 2],
    /// Requests that exist.
    // Kept beyond the end of the process, whose place must not be used again before the last is complete.
    pub requests: u32,
    /// Its queue is merged for good with one created at the same time.
    pub stably_merged: bool,
    /// The queue that its own may be merged with later.
    pub stable_merge: Option<QueueId>,
    pub saved: Option<Saved>,
    pub has_exited: bool,
}

/// Place of a class in tables: real time, best effort, idle.
pub(super) fn class_index(class: Class) -> usize {
    match class {
        Class::RealTime => 0,
        Class::BestEffort => 1,
        Class::Idle => 2,
    }
}

impl Bfq {
    /// The process of a bio, with the priority that the bio says.
    pub(super) fn process_of(&mut self, bio: &Bio) -> ProcessId {
        if let Some(process) = self.by_pid.get(&bio.pid).copied() {
            self.take_priority(process, bio);
            return process;
        }
        let process = Process {
            class: bio.class,
            level: bio.level,
            queues: [None; 2],
            requests: 0,
            stably_merged: false,
            stable_merge: None,
            saved: None,
            has_exited: false,
        };
        let id = if let Some(id) = self.free_processes.pop() {
            self.processes[id] = process;
            id
        } else {
            self.processes.push(process);
            self.processes.len() - 1
        };
        self.by_pid.insert(bio.pid, id);
        id
    }

    /// `bfq_check_ioprio_change`.
    fn take_priority(&mut self, process: ProcessId, bio: &Bio) {
        let own = &mut self.processes[process];
        // The kernel compares the `ioprio` of the context with what it saw last.
        if (own.class, own.level) == (bio.class, bio.level) {
            return;
        }
        (own.class, own.level) = (bio.class, bio.level);
        // A shared queue has a priority of its own, so the process changes the queue. Its synchronous queue
        // stays, and changes its priority.
        if let Some(before) = own.queues[0] {
            let queue = self.async_queue(process);
            self.set_queue(process, false, Some(queue));
            self.release(before);
        }
        if let Some(queue) = self.processes[process].queues[1] {
            self.set_next_priority(queue, process);
        }
    }

    /// `bfq_set_next_ioprio_data`.
    fn set_next_priority(&mut self, id: QueueId, process: ProcessId) {
        let Process { class, level, .. } = self.processes[process];
        let queue = &mut self.queues[id];
        // New values only: those in force belong to stamps in a tree (`update_priority`).
        queue.new_class = class_index(class);
        queue.new_level = if class == Class::Idle { 7 } else { level.min(7) };
        queue.entity.new_weight = weight_of_level(queue.new_level);
        queue.entity.has_new_priority = true;
    }

    /// `bic_set_bfqq`: the process uses another queue, or none.
    pub(super) fn set_queue(&mut self, process: ProcessId, sync: bool, queue: Option<QueueId>) {
        let before = self.processes[process].queues[usize::from(sync)];
        if let Some(before) = before
            && self.queues[before].process == Some(process)
        {
            self.queues[before].process = None;
        }
        self.processes[process].queues[usize::from(sync)] = queue;
        // It uses the queue now that it was to be merged with, so nothing is left to do later (`bic_set_bfqq`).
        let own = &mut self.processes[process];
        if queue.is_some() && own.stable_merge == queue {
            own.stable_merge = None;
            if let Some(queue) = queue {
                self.put_stable(queue);
            }
        }
    }

    /// A new queue (`bfq_init_bfqq`, `bfq_init_entity`), with no reference.
    fn create(&mut self, process: ProcessId, is_sync: bool) -> QueueId {
        let (now_ns, jiffies) = (self.now_ns, self.jiffies);
        let Process { class, level, .. } = self.processes[process];
        let level = if class == Class::Idle { 7 } else { level.min(7) };
        let weight = weight_of_level(level);
        let class = class_index(class);
        let entity = Entity {
            weight,
            own_weight: weight,
            new_weight: weight,
            // The first insertion in a tree puts the weight in force, raised or not.
            has_new_priority: true,
            ..Entity::default()
        };
        let flags = Flags {
            just_created: is_sync,
            // Until pauses are known: a process that starts should find the device idled for it.
            short_think_time: is_sync && class != 2,
            io_bound: true,
            ..Flags::default()
        };
        let raising = Raising {
            factor: 1,
            max_time: 0,
            last_start_or_end: jiffies,
            interactive_start: 0,
            service: 0,
            soft_real_time_next: jiffies,
        };
        // 6.12 sets it at creation (`bfq_init_bfqq`). With 0 in 6.1 the first request resets the limit.
        let decreased = if self.version == Version::V6_1 { 0 } else { jiffies };
        self.queues.add(BfqQueue {
            entity,
            refs: 0,
            stable_refs: 0,
            process: None,
            class,
            new_class: class,
            level,
            new_level: level,
            is_sync,
            merges_into: None,
            waiting: SectorTree::default(),
            fifo: List::default(),
            next: None,
            queued: [0; 2],
            dispatched: 0,
            // A first trade between throughput and latency (`bfq_init_bfqq`).
            max_budget: 2 * self.max_budget() / 3,
            // Infinitely long ago: the queue counts as idle for long.
            budget_timeout: 0,
            flags,
            // `bfq_init_bfqq`: what was before the first request counts as a seek.
            seeks: 1,
            last_end_sector: 0,
            // `ktime_get_ns() + 1`: what comes of it in 6.12 stands at `pause_ns`.
            think_time: ThinkTime::starting(now_ns + 1),
            io_start_ns: now_ns,
            idle_ns: 0,
            raising,
            injection: Injection { decreased, ..Injection::default() },
            wakers: Wakers::default(),
            counted_weight: None,
            in_position_tree: false,
            in_burst_list: false,
            created: jiffies,
            split: 0,
            service_since_busy: 0,
            last_busy: 0,
            first_io: 0,
        })
    }

    /// The queue of all asynchronous requests of a priority, with a reference more.
    fn async_queue(&mut self, process: ProcessId) -> QueueId {
        let Process { class, level, .. } = self.processes[process];
        let place = match class {
            Class::RealTime => usize::from(level.min(7)),
            Class::BestEffort => 8 + usize::from(level.min(7)),
            Class::Idle => 16,
        };
        let id = self.async_queues[place].unwrap_or_else(|| {
            let id = self.create(process, false);
            // The table's own reference: an asynchronous queue never ends.
            self.queues[id].refs += 1;
            id
        });
        self.async_queues[place] = Some(id);
        self.queues[id].refs += 1;
        id
    }

    /// `bfq_get_queue`: a queue for the process, with a reference more.
    pub(super) fn get_queue(&mut self, process: ProcessId, sync: bool, respawn: bool) -> QueueId {
        if !sync {
            return self.async_queue(process);
        }
        let id = self.create(process, true);
        self.queues[id].refs += 1;
        // After a split the queue was shared in vain, so it is not merged again at once.
        if respawn { id } else { self.stable_merge(id, process) }
    }

    /// A reference less; the queue ends with the last one (`bfq_put_queue`).
    pub(super) fn put_queue(&mut self, id: QueueId) {
        debug_assert!(self.queues[id].refs > 0, "no reference is given back twice");
        self.queues[id].refs -= 1;
        if self.queues[id].refs > 0 {
            return;
        }
        if self.queues[id].in_burst_list {
            self.leave_burst_list(id);
            // A short-lived process with a queue of its own was no part of a burst after all. One whose queue was
            // merged has lost `process`, and still counts.
            if self.queues[id].process.is_some() && self.burst.size > 0 {
                self.burst.size -= 1;
            }
        }
        self.end_waking(id);
        self.queues.remove(id);
    }

    pub(super) fn put_stable(&mut self, id: QueueId) {
        self.queues[id].stable_refs -= 1;
        self.put_queue(id);
    }

    /// A process no longer uses a queue (`bfq_release_process_ref`).
    pub(super) fn release(&mut self, id: QueueId) {
        // Busy and empty it waits for requests of a process, and this one sends no more. In service it ends with
        // its turn.
        let queue = &self.queues[id];
        if queue.flags.busy && queue.is_empty() && self.in_service != Some(id) {
            self.leave_busy(id, false);
        }
        // Whoever is created next must not be merged with a queue that its process has left.
        if self.last_created == Some(id) {
            self.last_created = None;
        }
        self.put_queue(id);
    }

    /// References for a merge that has not taken place (`bfq_put_cooperator`).
    pub(super) fn put_cooperators(&mut self, id: QueueId) {
        let mut next = self.queues[id].merges_into;
        while let Some(other) = next {
            // Read before the reference is given back, which may end the queue.
            next = self.queues[other].merges_into;
            self.put_queue(other);
        }
    }

    /// The process is gone (`bfq_exit_icq`).
    pub(super) fn exit_process(&mut self, pid: u32, queue: &mut Queue) {
        let Some(process) = self.by_pid.remove(&pid) else { return };
        if let Some(stable) = self.processes[process].stable_merge.take() {
            self.put_stable(stable);
        }
        // In the order of `bfq_exit_icq`.
        for sync in [true, false] {
            let Some(id) = self.processes[process].queues[usize::from(sync)] else { continue };
            self.set_queue(process, sync, None);
            // Nothing is idled for a process that is gone (`bfq_exit_bfqq`). `end_turn` and not `expire`, for its
            // next budget matters to nobody.
            if self.in_service == Some(id) {
                self.end_turn(id, Expiration::Timeout, &queue.requests);
                self.run_again(queue);
            }
            self.put_cooperators(id);
            self.release(id);
        }
        self.processes[process].has_exited = true;
        self.free_process(process);
    }

    /// Gives the place of a process free that is gone and has no request any more.
    pub(super) fn free_process(&mut self, process: ProcessId) {
        let own = &self.processes[process];
        if own.has_exited && own.requests == 0 {
            self.free_processes.push(process);
        }
    }
}

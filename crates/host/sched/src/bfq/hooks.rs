//! The hooks of the elevator.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_init_rq`, `__bfq_insert_request`,
//! `bfq_allow_bio_merge`, `bfq_requests_merged`, `bfq_finish_requeue_request`.

use super::peak_rate::REFERENCE;
use super::{Bfq, Expiration, FIRST_NS, Owner, Version};
use crate::queue_id::QueueId;
use crate::{Bio, MergeSide, Queue, RequestId, Requests, Scheduler};

// Merging compares the whole `ioprio` (`blk_rq_merge_ok`, `attempt_merge`), so the level counts, too.
fn same_priority(one: &Bio, other: &Bio) -> bool {
    (one.class, one.level) == (other.class, other.level)
}

impl Bfq {
    /// A hook begins: takes the time, and what the queue is like when the first one runs.
    fn enter(&mut self, now_ns: u64, queue: &Queue) {
        self.now_ns = FIRST_NS + now_ns;
        self.jiffies = queue.jiffies(now_ns);
        if self.is_set_up {
            return;
        }
        self.is_set_up = true;
        self.rotational = queue.rotational;
        // Until the depth of a flash device is known, it is taken for one that queues requests.
        self.nonrot_with_queueing = !queue.rotational;
        // Two thirds of the reference until a rate is measured (`bfq_init_queue`).
        self.rate.peak = REFERENCE[usize::from(!queue.rotational)] * 2 / 3;
        if self.tunables.max_budget > 0 {
            self.device_budget = self.tunables.max_budget;
        } else if self.tunables.is_timeout_given {
            // Writing to the file computes it, even if the value is the default (`bfq_timeout_sync_store`).
            self.device_budget = self.budget_of_rate();
        }
    }

    /// The queue that a bio's request would be of; none before the first request of the process.
    pub(super) fn queue_of(&self, bio: &Bio) -> Option<QueueId> {
        let process = self.by_pid.get(&bio.pid)?;
        self.processes[*process].queues[usize::from(bio.sync)]
    }

    /// Requests a bio could become part of, in the order in which they are looked at, and before their
    /// queues are.
    fn candidates(&self, bio: &Bio, queue: &Queue) -> [Option<RequestId>; 3] {
        let by_end = || self.queues[self.queue_of(bio)?].waiting.find(bio.end());
        [queue.last_merge, queue.ending_at(bio.sector), by_end()].map(|candidate| {
            candidate.filter(|id| {
                let other = &queue.requests[*id].bio;
                other.direction == bio.direction
                    && (other.sync || !bio.sync)
                    && same_priority(other, bio)
            })
        })
    }

    /// A request gets a queue (`bfq_init_rq`).
    fn adopt(&mut self, request: RequestId, requests: &Requests) -> Owner {
        let bio = &requests[request].bio;
        // The priority first: a change of class gives the process another asynchronous queue.
        let process = self.process_of(bio);
        let id = self.queue_for(process, bio.sync);
        let queue = &mut self.queues[id];
        queue.entity.allocated += 1;
        queue.refs += 1;
        self.processes[process].requests += 1;
        let owner = Owner { process, queue: id };
        if self.owners.len() <= request.index() {
            self.owners.resize(request.index() + 1, owner);
        }
        self.owners[request.index()] = owner;
        let queue = &mut self.queues[id];
        // Only while it alone uses the queue: at a merge the state is saved for this process.
        if queue.merges_into.is_none() && queue.process_refs() == 1 {
            queue.process = Some(process);
        }
        // A burst begins on an idle device only, but one under way goes on beside other queues.
        if queue.flags.just_created && (self.burst.size > 0 || self.busy_queues() == 0) {
            self.handle_burst(id);
        }
        owner
    }

    /// Moves a request to the queue that its own is merged with; returns the queue whose statistics are
    /// updated.
    fn cooperate(&mut self, request: RequestId, owner: Owner, requests: &Requests) -> QueueId {
        let Owner { process, queue: old } = owner;
        let sector = requests[request].sector();
        let Some(new) = self.find_cooperator(old, sector, process, requests) else { return old };
        // First taken, then given back: `new` must not end in between.
        self.queues[new].entity.allocated += 1;
        self.queues[new].refs += 1;
        self.queues[old].entity.allocated -= 1;
        let mut id = old;
        // Another request of the process may have moved it already. Step by step, for each queue of the chain
        // takes over the state of the one before.
        if self.processes[process].queues[1] == Some(old) {
            while id != new {
                id = self.merge(process, id);
            }
        }
        self.queues[old].flags.just_created = false;
        // Last, as it may end the queue.
        self.put_queue(old);
        self.owners[request.index()].queue = new;
        id
    }

    /// Time since the last completion of a queue.
    // A new queue has it lie a nanosecond ahead (`bfq_init_bfqq`). In 6.1 that has passed when the pause is
    // computed. In 6.12 the time is cached from the submission on (`blk_time_get_ns`, `__submit_bio`), and the
    // difference is -1 without a sign: the first pause counts as the longest there is.
    pub(super) fn pause_ns(&self, id: QueueId) -> u64 {
        let last_end_ns = self.queues[id].think_time.last_end_ns;
        match self.version {
            Version::V6_1 => self.now_ns.saturating_sub(last_end_ns),
            Version::V6_12 => self.now_ns.wrapping_sub(last_end_ns),
        }
    }

    /// `bfq_update_io_thinktime`, `bfq_update_has_short_ttime`.
    fn update_think_time(&mut self, id: QueueId) {
        let slice_idle_ns = self.tunables.slice_idle_ns;
        let pause_ns = self.pause_ns(id);
        let queue = &mut self.queues[id];
        // With requests under way the process did not wait for the last one, so the pause says nothing.
        if queue.dispatched == 0 && !queue.flags.busy {
            queue.think_time.sample(pause_ns, slice_idle_ns);
        }
        let two_seconds = self.clock.from_milliseconds(2000);
        if !queue.is_sync
            || queue.is_idle_class()
            || slice_idle_ns == 0
            // After a split the pauses known are those of several processes.
            || queue.split + two_seconds >= self.jiffies
        {
            return;
        }
        // Also short if too little is known: idling in vain costs less than a lost sequence.
        let is_short = !queue.think_time.is_long(slice_idle_ns);
        let has_changed = is_short != queue.flags.short_think_time;
        queue.flags.short_think_time = is_short;
        let tenth = self.clock.from_milliseconds(100);
        if has_changed
            && queue.injection.base_ns == 0
            && (queue.injection.decreased + tenth <= self.jiffies || !is_short)
        {
            self.reset_injection(id);
        }
    }

    /// A request exists no longer.
    fn forget_request(&mut self, request: RequestId) {
        let Owner { process, queue } = self.owner(request);
        self.queues[queue].entity.allocated -= 1;
        self.put_queue(queue);
        self.processes[process].requests -= 1;
        self.free_process(process);
    }
}

impl Scheduler for Bfq {
    // One structure for the device (`bfq_dispatch_request` asks `elevator_data` of the queue).
    fn is_multi_queue(&self) -> bool {
        true
    }

    fn insert(&mut self, now_ns: u64, request: RequestId, queue: &mut Queue) {
        self.enter(now_ns, queue);
        // In the order of `__bfq_insert_request`: the queue is found, merged and judged before the request is in it.
        let owner = self.adopt(request, &queue.requests);
        let id = self.cooperate(request, owner, &queue.requests);
        self.update_think_time(id);
        let last_end = self.queues[id].last_end_sector;
        let is_seek = self.is_seek(last_end, request, &queue.requests);
        self.queues[id].seeks = self.queues[id].seeks << 1 | u32::from(is_seek);
        // Random reads come as evenly as those of a player (`bfq_update_io_seektime`).
        self.end_raising_of_seeks(id);
        self.add_request(request, &queue.requests);
        let bio = &mut queue.requests[request];
        bio.deadline = self.now_ns + self.tunables.fifo_expire_ns[usize::from(bio.bio.sync)];
        let id = self.owner(request).queue;
        self.queues[id].fifo.push_back(&mut self.fifo_links, request);
        self.request_came(request, &queue.requests);
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        self.enter(now_ns, queue);
        let mut moved = 0;
        loop {
            // One request at a time: the device itself could change the order (`__bfq_dispatch_request`).
            let is_blocked = self.tunables.strict_guarantees && self.in_driver > 0 && !force;
            if self.busy_queues() == 0 || is_blocked {
                return moved;
            }
            if let Some(id) = self.select(&queue.requests) {
                moved += u32::from(self.take_next(id, queue));
            } else if let Some(id) = self.in_service.filter(|_| force && self.queued > 0) {
                // Idles, which a drain does not wait for.
                self.expire(id, false, Expiration::NoMoreRequests, &queue.requests);
                continue;
            } else {
                return moved;
            }
            if !force {
                return moved;
            }
        }
    }

    fn queued(&self) -> usize {
        self.queued as usize
    }

    fn before_merge(&mut self, now_ns: u64, bio: &Bio, queue: &Queue) {
        self.enter(now_ns, queue);
        let Some(process) = self.by_pid.get(&bio.pid).copied() else { return };
        let Some(mut id) = self.queue_of(bio) else { return };
        // `bfq_allow_bio_merge` merges queues before it compares them, but it is asked only if there
        // is a request to compare with.
        if self.candidates(bio, queue).iter().flatten().next().is_none() {
            return;
        }
        let found = self.find_cooperator(id, bio.sector, process, &queue.requests);
        while let Some(new) = found
            && id != new
        {
            id = self.merge(process, id);
        }
    }

    fn allows_merge(&self, bio: &Bio, request: RequestId, queue: &Queue) -> bool {
        let other = &queue.requests[request].bio;
        (other.sync || !bio.sync)
            && same_priority(bio, other)
            && self.queue_of(bio) == Some(self.owner(request).queue)
    }

    // `blk_attempt_req_merge` compares neither queues nor `REQ_SYNC`: a synchronous request may become part
    // of an asynchronous one of another queue.
    fn allows_request_merge(&self, request: &Bio, id: RequestId, queue: &Queue) -> bool {
        same_priority(request, &queue.requests[id].bio)
    }

    fn find_merge(&self, bio: &Bio, queue: &Queue) -> Option<(RequestId, MergeSide)> {
        let id = self.queues[self.queue_of(bio)?].waiting.find(bio.end())?;
        let fits =
            queue.requests[id].bio.direction == bio.direction && self.allows_merge(bio, id, queue);
        fits.then_some((id, MergeSide::Front))
    }

    fn merged(&mut self, now_ns: u64, request: RequestId, side: MergeSide, queue: &mut Queue) {
        self.enter(now_ns, queue);
        if side == MergeSide::Front {
            self.request_moved(request, &queue.requests);
        }
    }

    fn absorb(&mut self, now_ns: u64, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        self.enter(now_ns, queue);
        let id = self.owner(survivor).queue;
        let deadline = queue.requests[absorbed].deadline;
        if id == self.owner(absorbed).queue && deadline < queue.requests[survivor].deadline {
            queue.requests[survivor].deadline = deadline;
            let fifo = &mut self.queues[id].fifo;
            fifo.remove(&mut self.fifo_links, survivor);
            fifo.insert_before(&mut self.fifo_links, absorbed, survivor);
        }
        // Before it is removed, which would choose another one by its own place.
        if self.queues[id].next == Some(absorbed) {
            self.queues[id].next = Some(survivor);
        }
        self.remove_request(absorbed, &queue.requests);
        self.forget_request(absorbed);
    }

    fn sorts_by_sync(&self) -> bool {
        true
    }

    fn former(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        let former = self.queues[self.owner(id).queue].waiting.previous(id)?;
        same_priority(&queue.requests[id].bio, &queue.requests[former].bio).then_some(former)
    }

    fn latter(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        let latter = self.queues[self.owner(id).queue].waiting.next(id)?;
        same_priority(&queue.requests[id].bio, &queue.requests[latter].bio).then_some(latter)
    }

    fn complete(&mut self, now_ns: u64, request: RequestId, queue: &mut Queue) {
        self.enter(now_ns, queue);
        // The request keeps its queue alive until the account is settled.
        self.completed(self.owner(request).queue, request, queue);
        self.forget_request(request);
    }

    fn depth_limit(&self, bio: &Bio, queue: &Queue) -> Option<u32> {
        Some(self.tag_limit(bio, queue))
    }

    fn exit(&mut self, now_ns: u64, pid: u32, queue: &mut Queue) {
        self.enter(now_ns, queue);
        self.exit_process(pid, queue);
    }

    fn timer_ns(&self) -> Option<u64> {
        self.timer_at_ns.map(|at_ns| at_ns - FIRST_NS)
    }

    fn timer(&mut self, now_ns: u64, queue: &mut Queue) {
        self.enter(now_ns, queue);
        self.idled_in_vain(queue);
    }

    fn is_idling(&self) -> bool {
        // The timer of a queue whose only process has moved to another queue goes on, and the device
        // idles in vain (`bfq_select_queue` tests `wait_request` alone).
        self.in_service.is_some_and(|id| self.queues[id].flags.waits || self.must_idle(id))
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>()
            + self.queues.bytes()
            + self.processes.capacity() * size_of::<super::process::Process>()
            + self.owners.capacity() * size_of::<Owner>()
            + self.fifo_links.bytes()
            + self.nodes.bytes()
            + self.position_nodes.bytes()
            + self.trees.iter().map(super::service_tree::ServiceTree::bytes).sum::<usize>()
    }

    fn audit(&self, queue: &Queue) {
        let mut counts = [0_u64; 3];
        let (mut queued, mut dispatched, mut raised) = (0, 0, 0);
        let mut busy = 0;
        for (id, own) in self.queues.iter() {
            crate::lane_audit::audit_lane(&own.waiting, own.fifo, &self.fifo_links, queue);
            assert_eq!(own.next.is_none(), own.is_empty(), "a queue with requests has a next one");
            let all: u32 = own.queued.iter().sum();
            assert_eq!(all as usize, own.waiting.len(), "a queue counts its requests");
            queued += all;
            dispatched += own.dispatched;
            busy += u32::from(own.flags.busy);
            raised += u32::from(own.flags.busy && own.raising.factor > 1);
            if own.entity.is_counted {
                counts[own.class] += u64::from(own.entity.weight);
            }
            assert!(!own.flags.waits || self.in_service == Some(id), "the queue in service waits");
            assert!(own.flags.busy || own.is_empty(), "a queue with requests is busy");
        }
        assert_eq!(queued, self.queued, "queues have the requests queued");
        assert_eq!(dispatched, self.in_driver, "queues have the requests with the driver");
        // By class they need not be: see `leave_busy`.
        assert_eq!(busy, self.busy_queues(), "busy queues are counted");
        assert_eq!(raised, self.raised_busy, "raised busy queues are counted");
        assert_eq!(self.in_service, self.in_service_entity, "the entity in service is the queue's");
        for (class, tree) in self.trees.iter().enumerate() {
            assert_eq!(tree.weights, counts[class], "a tree counts the weights of its entities");
            for id in tree.members(&self.nodes) {
                assert!(self.queues[id].entity.is_counted, "an entity in a tree counts");
                assert_eq!(self.queues[id].class, class, "an entity is in the tree of its class");
            }
        }
    }
}

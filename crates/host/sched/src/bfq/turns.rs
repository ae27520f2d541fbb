//! Which queue is served next: activation, requeueing and the end of backlogs.
//!
//! The next queue is known in advance. A queue that becomes active takes that place without a search if
//! it is of the same class, eligible and finishes strictly earlier; otherwise the trees are searched.
//!
//! Quirks, all of the kernel (`block/bfq-wf2q.c`, 6.1 and 6.12):
//! - With a queue in service, a search may look past the virtual time, but moves it only if nothing is
//!   in service or its turn ends (`__bfq_lookup_next_entity`).
//! - The idle class alone is looked at if a fifth of a second has passed since it was last, and the time
//!   is noted even if it has nothing (`bfq_lookup_next_entity`).
//! - A budget that was not used up while the queue still waits for a request of its own lets the queue
//!   start in the past, at its old finish (`__bfq_activate_entity`).
//!
//! Left out: groups. All queues are in the root group, whose entities have no parent.

use super::Bfq;
use super::entity::{Tree, is_later, virtual_time};
use crate::queue_id::QueueId;

impl Bfq {
    /// Sets the next queue; `new` is one that became active (`bfq_update_next_in_service`).
    fn update_next(&mut self, new: Option<QueueId>, expiration: bool) {
        if let Some(new) = new.filter(|new| self.next_in_service != Some(*new)) {
            let takes_over = self.next_in_service.is_none_or(|next| {
                let (new, next) = (&self.queues[new], &self.queues[next]);
                // Strictly earlier: of equals the one known first stays.
                new.class == next.class
                    && !is_later(new.entity.start, self.trees[new.class].vtime)
                    && is_later(next.entity.finish, new.entity.finish)
            });
            if takes_over {
                self.next_in_service = Some(new);
                return;
            }
        }
        self.next_in_service = self.look_up_next(expiration);
    }

    /// `bfq_lookup_next_entity`.
    fn look_up_next(&mut self, expiration: bool) -> Option<QueueId> {
        let mut first_class = 0;
        // `BFQ_CL_IDLE_TIMEOUT`: what the idle class gets, so that it never starves.
        if self.idle_class_served + u64::from(self.clock.hz / 5) < self.jiffies {
            if self.trees[2].has_active() {
                first_class = 2;
            }
            self.idle_class_served = self.jiffies;
        }
        // The entity in service still moves the time: until its turn ends, a jump would be premature.
        let is_served = self.in_service_entity.is_some() && !expiration;
        (first_class..3).find_map(|class| {
            if !self.trees[class].has_active() {
                return None;
            }
            let vtime = self.trees[class].jump(&self.queues);
            // `bfq_update_vtime` compares without regard to the end of the numbers.
            if !is_served && vtime > self.trees[class].vtime {
                self.trees[class].vtime = vtime;
                self.forget_idle(class);
            }
            self.trees[class].first(&self.nodes, &self.queues, vtime)
        })
    }

    /// `bfq_forget_idle`.
    fn forget_idle(&mut self, class: usize) {
        if let Some(first) = self.trees[class].settle_idle(&self.queues) {
            self.trees[class].extract_idle(&mut self.queues, first);
            self.forget(class, first, self.in_service_entity == Some(first));
        }
    }

    /// `bfq_forget_entity`: it no longer counts.
    fn forget(&mut self, class: usize, id: QueueId, is_in_service: bool) {
        self.queues[id].entity.is_counted = false;
        self.trees[class].weights -= u64::from(self.queues[id].entity.weight);
        // In service, `end_turn` gives the reference back.
        if !is_in_service {
            self.put_queue(id);
        }
    }

    /// Puts weight and class asked for in force, and returns the class whose tree the entity is of now
    /// (`__bfq_entity_update_weight_prio`).
    pub(super) fn update_priority(&mut self, class: usize, id: QueueId, class_too: bool) -> usize {
        if !self.queues[id].entity.has_new_priority {
            return class;
        }
        // Out of the sum with the old weight, and in again with the new one, perhaps of another class.
        let queue = &mut self.queues[id];
        self.trees[class].weights -= u64::from(queue.entity.weight);
        if queue.entity.new_weight != queue.entity.own_weight {
            queue.entity.own_weight = queue.entity.new_weight;
            queue.level = 8_u32.saturating_sub(queue.entity.own_weight / 10) as u8;
        }
        if class_too {
            queue.class = queue.new_class;
        }
        // A change of class that was put off is still to come.
        if queue.class == queue.new_class {
            queue.entity.has_new_priority = false;
        }
        let new_class = queue.class;
        let (before, after) = (queue.entity.weight, queue.entity.own_weight * queue.raising.factor);
        // Uncounted under the weight that it was counted under.
        if before != after {
            self.uncount_weight(id);
        }
        self.queues[id].entity.weight = after;
        if before != after && self.queues[id].raising.factor == 1 {
            self.count_weight(id);
        }
        self.trees[new_class].weights += u64::from(after);
        // Each class has a virtual time of its own.
        if new_class != class {
            self.queues[id].entity.start = self.trees[new_class].vtime;
        }
        new_class
    }

    /// A queue got `sectors` of service (`bfq_bfqq_served`).
    pub(super) fn serve(&mut self, id: QueueId, sectors: i64) {
        let jiffies = self.jiffies;
        let queue = &mut self.queues[id];
        // From its first service, and not from its first request, a queue may be too late to be merged.
        if queue.service_since_busy == 0 {
            queue.first_io = jiffies;
        }
        if queue.raising.factor > 1 {
            queue.raising.service += sectors;
        }
        queue.service_since_busy += sectors;
        queue.entity.service += sectors;
        // With the sum of all weights: while each gets its share, one unit of time passes for all.
        let class = queue.class;
        let tree = &mut self.trees[class];
        tree.vtime = tree.vtime.wrapping_add(virtual_time(sectors, tree.weights));
        self.forget_idle(class);
    }

    /// Sets the finish of an entity and puts it in the active tree (`bfq_update_fin_time_enqueue`).
    fn enqueue(&mut self, class: usize, id: QueueId, is_backshifted: bool) {
        // Here, while the entity stands in no tree, its weight and class may change.
        let class = self.update_priority(class, id, true);
        let vtime = self.trees[class].vtime;
        let queue = &mut self.queues[id];
        let factor = u64::from(queue.raising.factor);
        let entity = &mut queue.entity;
        entity.set_finish(entity.budget);
        if is_backshifted && is_later(vtime, entity.finish) {
            // A finish in the past goes before all others. Without the shift a queue that comes back late would hold
            // the device for long. A raised one is shifted less (`bfq_update_fin_time_enqueue`).
            let shift = vtime.wrapping_sub(entity.finish) / factor;
            entity.start = entity.start.wrapping_add(shift);
            entity.finish = entity.finish.wrapping_add(shift);
        }
        self.trees[class].insert_active(&mut self.nodes, &mut self.queues, id);
        self.active_list.push(id);
    }

    fn extract_active(&mut self, class: usize, id: QueueId) {
        self.trees[class].extract_active(&mut self.nodes, &mut self.queues, id);
        self.active_list.retain(|other| *other != id);
    }

    /// `__bfq_activate_entity`.
    fn activate_entity(&mut self, id: QueueId, may_resume: bool) {
        let class = self.queues[id].class;
        let vtime = self.trees[class].vtime;
        let finish = self.queues[id].entity.finish;
        // It only waited for its own request, and idled for it would have gone on at its old finish. So it starts
        // there, in the past, and loses nothing.
        let is_backshifted = may_resume && is_later(vtime, finish);
        let earliest = if is_backshifted { finish } else { vtime };
        if self.queues[id].entity.tree == Some(Tree::Idle) {
            self.trees[class].extract_idle(&mut self.queues, id);
            // Not before its old finish: a queue that comes and goes would get more than its share.
            let start = if is_later(earliest, finish) { earliest } else { finish };
            self.queues[id].entity.start = start;
        } else {
            let queue = &mut self.queues[id];
            queue.entity.start = earliest;
            self.trees[class].weights += u64::from(queue.entity.weight);
            // The tree's own reference, which `forget` gives back.
            queue.refs += 1;
            queue.entity.is_counted = true;
        }
        self.enqueue(class, id, is_backshifted);
    }

    /// `__bfq_requeue_entity`.
    fn requeue_entity(&mut self, id: QueueId) {
        let class = self.queues[id].class;
        if self.in_service_entity == Some(id) {
            let entity = &mut self.queues[id].entity;
            // The finish in force allowed for the whole budget; the service received decides.
            entity.set_finish(entity.service);
            entity.start = entity.finish;
            if entity.tree.is_some() {
                self.extract_active(class, id);
            }
        } else {
            self.extract_active(class, id);
        }
        self.enqueue(class, id, false);
    }

    /// A queue has requests, or waits under another budget (`bfq_activate_requeue_entity`).
    fn activate_or_requeue(&mut self, id: QueueId, may_resume: bool, expiration: bool) {
        let is_active = self.queues[id].entity.tree == Some(Tree::Active);
        if self.in_service_entity == Some(id) || is_active {
            self.requeue_entity(id);
        } else {
            self.activate_entity(id, may_resume);
        }
        self.update_next(Some(id), expiration);
    }

    /// `bfq_requeue_bfqq`.
    pub(super) fn requeue(&mut self, id: QueueId, expiration: bool) {
        self.activate_or_requeue(id, false, expiration);
    }

    /// A queue runs empty (`bfq_deactivate_entity`).
    fn deactivate(&mut self, id: QueueId, expiration: bool) {
        if !self.queues[id].entity.is_counted {
            return;
        }
        let class = self.queues[id].class;
        let is_in_service = self.in_service_entity == Some(id);
        // What it was served, not what it might have been: it pays for no more.
        let entity = &mut self.queues[id].entity;
        entity.set_finish(entity.service);
        if is_in_service {
            self.in_service_entity = None;
        } else {
            entity.service = 0;
        }
        match self.queues[id].entity.tree {
            Some(Tree::Active) => self.extract_active(class, id),
            Some(Tree::Idle) if !is_in_service => {
                self.trees[class].extract_idle(&mut self.queues, id);
            }
            _ => {}
        }
        // With a finish ahead it had more than its share, which must be remembered until the time gets there.
        if is_later(self.queues[id].entity.finish, self.trees[class].vtime) {
            self.trees[class].insert_idle(&mut self.queues, id);
        } else {
            self.forget(class, id, is_in_service);
        }
        if self.next_in_service == Some(id) {
            self.update_next(None, expiration);
        }
    }

    /// The queue to be served goes in service (`bfq_get_next_queue`).
    pub(super) fn take_next_queue(&mut self) -> Option<QueueId> {
        if self.busy_queues() == 0 {
            return None;
        }
        let next = self.next_in_service;
        debug_assert!(next.is_some(), "with busy queues there is a next one");
        let id = next?;
        self.in_service_entity = Some(id);
        self.extract_active(self.queues[id].class, id);
        // Known in advance, since activations compare with it (`update_next`).
        self.update_next(None, false);
        Some(id)
    }

    /// `bfq_del_bfqq_busy`.
    pub(super) fn leave_busy(&mut self, id: QueueId, expiration: bool) {
        let queue = &mut self.queues[id];
        debug_assert!(queue.flags.busy, "only a busy queue ends to be");
        queue.flags.busy = false;
        // Quirk: a queue that is busy may have changed its class since it was counted, and the kernel
        // takes it from the count of the new one (`bfq_del_bfqq_busy`). Its unsigned counts wrap around
        // then, and are right only in their sum.
        self.busy[queue.class] = self.busy[queue.class].wrapping_sub(1);
        if queue.raising.factor > 1 {
            self.raised_busy -= 1;
        }
        // The kernel's callers hold a reference of the process or of a request; hold one here, too.
        self.queues[id].refs += 1;
        self.deactivate(id, expiration);
        // With requests in flight it still counts: `completed` ends that.
        if self.queues[id].dispatched == 0 {
            self.uncount_weight(id);
        }
        self.put_queue(id);
    }

    /// `bfq_add_bfqq_busy`.
    pub(super) fn become_busy(&mut self, id: QueueId) {
        let may_resume = self.queues[id].flags.may_resume;
        self.activate_or_requeue(id, may_resume, false);
        let queue = &mut self.queues[id];
        queue.flags.may_resume = false;
        queue.flags.busy = true;
        self.busy[queue.class] = self.busy[queue.class].wrapping_add(1);
        if queue.dispatched == 0 && queue.raising.factor == 1 {
            self.count_weight(id);
        }
        if self.queues[id].raising.factor > 1 {
            self.raised_busy += 1;
        }
        // A queue that wakes up goes to the front of the list of its waker.
        if self.queues[id].wakers.is_listed {
            let waker = self.queues[id].wakers.waker;
            debug_assert!(waker.is_some(), "a listed queue has a waker");
            if let Some(waker) = waker {
                let woken = &mut self.queues[waker].wakers.woken;
                woken.retain(|other| *other != id);
                woken.insert(0, id);
            }
        }
    }

    pub(super) fn busy_queues(&self) -> u32 {
        // `bfq_tot_busy_queues`; around the end of the numbers, as single counts may lie below zero (`leave_busy`).
        self.busy.iter().fold(0, |sum: u32, count| sum.wrapping_add(*count))
    }

    /// Counts the weight of an active queue that is not raised (`bfq_weights_tree_add`).
    pub(super) fn count_weight(&mut self, id: QueueId) {
        let queue = &mut self.queues[id];
        if queue.counted_weight.is_some() {
            return;
        }
        // Noted with the queue: its weight may change while it is counted.
        let weight = queue.entity.weight;
        queue.counted_weight = Some(weight);
        queue.refs += 1;
        match self.weights.binary_search_by_key(&weight, |(weight, _)| *weight) {
            Ok(place) => self.weights[place].1 += 1,
            Err(place) => self.weights.insert(place, (weight, 1)),
        }
    }

    /// `bfq_weights_tree_remove`.
    pub(super) fn uncount_weight(&mut self, id: QueueId) {
        let Some(weight) = self.queues[id].counted_weight.take() else { return };
        if let Ok(place) = self.weights.binary_search_by_key(&weight, |(weight, _)| *weight) {
            self.weights[place].1 -= 1;
            if self.weights[place].1 == 0 {
                self.weights.remove(place);
            }
        }
        self.put_queue(id);
    }
}

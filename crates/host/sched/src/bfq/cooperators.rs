//! Queues of processes that work on the same data are merged, and split again.
//!
//! Processes that read close to each other share one queue, so that their requests are served in the
//! order of sectors. Processes whose queues were created within 180 ms are taken for parts of one
//! program, and their queues are merged for good: at once on a flash device that queues requests,
//! elsewhere after 600 ms.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_setup_cooperator`, `bfq_merge_bfqqs`,
//! `bfq_do_or_sched_stable_merge`, `bfqq_find_close`, `bfq_split_bfqq`, `bfq_bfqq_resume_state`.

use super::process::Saved;
use super::queue::{ProcessId, Raising};
use super::{Bfq, Version};
use crate::Requests;
use crate::position_tree::{Found, PositionTree};
use crate::queue_id::QueueId;

/// Sectors within which requests are close (`BFQQ_CLOSE_THR`).
const CLOSE_SECTORS: u64 = 8 * 1024;

// In both directions: the head may come to either of them first.
fn is_close(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= CLOSE_SECTORS
}

impl Bfq {
    /// Age at which two queues are merged for good, or no longer considered together.
    fn stable_jiffies(&self) -> u64 {
        self.clock.from_milliseconds(600)
    }

    /// A queue was served for a tenth of a second: it does well alone (`bfq_too_late_for_merging`).
    // Processes that work together show it with their first requests. Later neighbours are chance.
    fn is_too_late(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        queue.service_since_busy > 0
            && queue.first_io + u64::from(self.clock.hz / 10) < self.jiffies
    }

    /// Puts a queue where its next request is (`bfq_pos_tree_add_move`).
    pub(super) fn move_position(&mut self, id: QueueId, requests: &Requests) {
        self.leave_position(id);
        // What could not be merged need not be found.
        if self.is_too_late(id) || self.queues[id].is_idle_class() {
            return;
        }
        let Some(next) = self.queues[id].next else { return };
        let queues = &self.queues;
        let position = |id: QueueId| queues[id].next.map_or(0, |next| requests[next].sector());
        let sector = requests[next].sector();
        let is_in = self.positions.insert(&mut self.position_nodes, id, sector, position);
        self.queues[id].in_position_tree = is_in;
    }

    pub(super) fn leave_position(&mut self, id: QueueId) {
        if std::mem::take(&mut self.queues[id].in_position_tree) {
            self.positions.remove(&mut self.position_nodes, id);
        }
    }

    /// A queue whose next request is close to a sector (`bfqq_find_close`).
    fn find_close(&self, sector: u64, requests: &Requests) -> Option<QueueId> {
        let position = |id: QueueId| self.queues[id].next.map_or(0, |next| requests[next].sector());
        let found = match self.positions.find(&self.position_nodes, sector, position) {
            Found::Nothing => return None,
            Found::Exact(id) => return Some(id),
            Found::Below(id) => id,
        };
        if is_close(position(found), sector) {
            return Some(found);
        }
        let neighbour = if position(found) < sector {
            PositionTree::next(&self.position_nodes, found)
        } else {
            PositionTree::previous(&self.position_nodes, found)
        };
        neighbour.filter(|id| is_close(position(*id), sector))
    }

    /// Sets a merge up: the processes of `id` are to use `other` (`bfq_setup_merge`).
    fn set_up_merge(&mut self, id: QueueId, other: QueueId) -> Option<QueueId> {
        if self.queues[other].process_refs() == 0 {
            return None;
        }
        // To the end of the chain, so that no queue is merged with one that gives up its processes itself. A
        // chain back to this queue would be a ring.
        let mut last = other;
        while let Some(next) = self.queues[last].merges_into {
            if next == id {
                return None;
            }
            last = next;
        }
        let refs = self.queues[id].process_refs();
        if refs == 0 || self.queues[last].process_refs() == 0 || last == id {
            return None;
        }
        self.queues[id].merges_into = Some(last);
        // Processes come one by one with their next requests; the queue must last until then. The kernel holds
        // a reference for each of them (`bfq_setup_merge`).
        self.queues[last].refs += refs;
        Some(last)
    }

    fn may_cooperate(&self, id: QueueId, other: QueueId) -> bool {
        let (one, two) = (&self.queues[id], &self.queues[other]);
        // Queues that seek have no sequence that a merge could complete (`bfq_may_be_close_cooperator`).
        !self.is_too_late(other)
            && !one.is_idle_class()
            && one.class == two.class
            && !one.is_seeky()
            && !two.is_seeky()
            && one.is_sync
            && two.is_sync
    }

    /// The queue that the process's is to be merged with, if there is one (`bfq_setup_cooperator`).
    pub(super) fn find_cooperator(
        &mut self,
        id: QueueId,
        sector: u64,
        process: ProcessId,
        requests: &Requests,
    ) -> Option<QueueId> {
        if let Some(mut last) = self.queues[id].merges_into {
            while let Some(next) = self.queues[last].merges_into {
                last = next;
            }
            return Some(last);
        }
        // The device puts requests of several queues in order by itself, and a merge would mix their shares.
        if self.nonrot_with_queueing {
            return None;
        }
        let queue = &self.queues[id];
        let stable = self.stable_jiffies();
        if queue.is_sync
            && !queue.flags.just_created
            && queue.split + stable < self.jiffies
            && queue.created + stable < self.jiffies
            && let Some(other) = self.processes[process].stable_merge
        {
            return self.merge_late(id, other, process);
        }
        // Alone, the queue competes with none that it could join.
        if self.is_too_late(id) || self.busy_queues() == 1 {
            return None;
        }
        // The queue in service first: it was served last, so the head is where it reads.
        if let Some(served) = self.in_service.filter(|served| *served != id)
            && is_close(sector, self.in_service_position)
            && self.may_cooperate(id, served)
            && let Some(last) = self.set_up_merge(id, served)
        {
            return Some(last);
        }
        let close = self.find_close(sector, requests).filter(|close| *close != id)?;
        if self.may_cooperate(id, close) { self.set_up_merge(id, close) } else { None }
    }

    /// `bfq_setup_stable_merge`.
    fn merge_late(&mut self, id: QueueId, other: QueueId, process: ProcessId) -> Option<QueueId> {
        self.processes[process].stable_merge = None;
        let refs = self.queues[id].process_refs().min(self.queues[other].process_refs());
        let mut merged = None;
        // Where idling reaches the full throughput, a merge would only cost each queue its share.
        if refs > 0 && !self.idling_boosts(id) {
            merged = self.set_up_merge(id, other);
            if let Some(last) = merged {
                self.processes[process].stably_merged = true;
                if let Some(owner) = self.queues[last].process {
                    self.processes[owner].stably_merged = true;
                }
            }
        }
        // Last: the reference kept `other` alive until the merge took references of its own.
        self.put_stable(other);
        merged
    }

    /// A queue was created: merges it with the one created just before, or notes that for later
    /// (`bfq_do_or_sched_stable_merge`).
    pub(super) fn stable_merge(&mut self, id: QueueId, process: ProcessId) -> QueueId {
        let created = self.queues[id].created;
        let alike = self.last_created.filter(|last| {
            let (last, own) = (&self.queues[*last], &self.queues[id]);
            last.created + self.stable_jiffies() >= created
                && (last.level, last.class) == (own.level, own.class)
        });
        // Too old or of another priority: this queue is what the next one is compared with.
        let Some(last) = alike else {
            self.last_created = Some(id);
            return id;
        };
        // Between 180 and 600 ms nothing is done, and the remembered queue stays: quirk of
        // `bfq_do_or_sched_stable_merge`.
        if self.queues[last].created + self.burst_jiffies() < created {
            return id;
        }
        if !self.nonrot_with_queueing {
            // A reference, as the other process may end before the merge. It is none of a process's, which
            // would be idled for.
            self.queues[last].refs += 1;
            self.queues[last].stable_refs += 1;
            self.processes[process].stable_merge = Some(last);
            return id;
        }
        let Some(merged) = self.set_up_merge(id, last) else { return id };
        if let Some(owner) = self.queues[merged].process {
            self.processes[owner].stably_merged = true;
        }
        self.processes[process].stably_merged = true;
        // `merge` saves the state for the process of the queue, which is set with the first request only.
        self.queues[id].process = Some(process);
        self.merge(process, id)
    }

    /// A process leaves its queue for the one that is to take its requests (`bfq_merge_bfqqs`).
    pub(super) fn merge(&mut self, process: ProcessId, id: QueueId) -> QueueId {
        let Some(into) = self.queues[id].merges_into else { return id };
        // Both, while each still has its process: a split gives each its own state back.
        self.save(id);
        self.save(into);
        // One process that keeps the device busy is enough for the shared queue.
        if std::mem::take(&mut self.queues[id].flags.io_bound) {
            self.queues[into].flags.io_bound = true;
        }
        // A queue does not wake itself, which it would if its waker were the shared queue.
        let waker = self.queues[id].wakers.waker.filter(|waker| *waker != into);
        if waker.is_some() && self.queues[into].wakers.waker.is_none() {
            self.set_waker(into, waker);
            self.queues[into].wakers.candidate = None;
        }
        // The raising moves, and is not doubled: `raised_busy` counts busy queues whose weight is raised.
        let own = self.queues[id].raising.clone();
        if self.queues[into].raising.factor == 1 && own.factor > 1 {
            let other = &mut self.queues[into];
            let soft_real_time_next = other.raising.soft_real_time_next;
            let service = other.raising.service;
            other.raising = Raising { service, soft_real_time_next, ..own };
            other.entity.has_new_priority = true;
            self.raised_busy += u32::from(other.flags.busy);
        }
        let queue = &mut self.queues[id];
        if queue.raising.factor > 1 {
            queue.raising.factor = 1;
            queue.entity.has_new_priority = true;
            self.raised_busy -= u32::from(queue.flags.busy);
        }
        self.set_queue(process, true, Some(into));
        let shared = &mut self.queues[into];
        shared.flags.shared = true;
        shared.process = None;
        self.queues[id].process = None;
        // The next new queue is compared with the one that lives on.
        if self.last_created == Some(id) {
            self.last_created = Some(into);
        }
        self.release(id);
        into
    }

    /// `bfq_bfqq_save_state`.
    fn save(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        let Some(process) = queue.process else { return };
        let mut raising = queue.raising.clone();
        if queue.flags.just_created && !queue.flags.in_large_burst && self.tunables.low_latency {
            // It would have been raised with its first request.
            raising.factor = super::weight_raising::INTERACTIVE;
            raising.interactive_start = 0;
            raising.max_time = self.raising_jiffies();
            raising.last_start_or_end = self.jiffies;
            let before = self.processes[process].saved.as_ref();
            raising.service = before.map_or(0, |saved| saved.raising.service);
        }
        let saved = Saved {
            injection: queue.injection.clone(),
            weight: queue.entity.own_weight,
            think_time: queue.think_time,
            short_think_time: queue.flags.short_think_time,
            io_bound: queue.flags.io_bound,
            io_start_ns: queue.io_start_ns,
            idle_ns: queue.idle_ns,
            in_large_burst: queue.flags.in_large_burst,
            was_in_burst_list: queue.in_burst_list,
            raising,
        };
        self.processes[process].saved = Some(saved);
    }

    /// `bfq_bfqq_resume_state`.
    fn resume(&mut self, id: QueueId, process: ProcessId, already_existing: bool) {
        let Some(saved) = self.processes[process].saved.clone() else { return };
        // A new queue is busy with its first request, which counts it then.
        let busy = already_existing && self.queues[id].flags.busy;
        let soft_time = self.soft_real_time_jiffies();
        let duration = self.raising_jiffies();
        let (jiffies, low_latency) = (self.jiffies, self.tunables.low_latency);
        let queue = &mut self.queues[id];
        queue.flags.short_think_time = saved.short_think_time;
        queue.flags.io_bound = saved.io_bound;
        queue.injection = saved.injection;
        queue.entity.new_weight = saved.weight;
        queue.think_time = saved.think_time;
        queue.io_start_ns = saved.io_start_ns;
        queue.idle_ns = saved.idle_ns;
        let own_factor = queue.raising.factor;
        let old_factor = if low_latency { own_factor } else { 1 };
        let soft_real_time_next = queue.raising.soft_real_time_next;
        let factor = if low_latency { saved.raising.factor } else { own_factor };
        queue.raising = Raising { factor, soft_real_time_next, ..saved.raising };
        let is_late = queue.raising.last_start_or_end + queue.raising.max_time < jiffies;
        if factor > 1 && (queue.flags.in_large_burst || is_late) {
            // Raising ran out while the queues were merged; an interactive period may not have.
            if queue.raising.max_time == soft_time
                && !queue.flags.in_large_burst
                && queue.raising.interactive_start + duration >= jiffies
            {
                self.switch_to_interactive(id);
            } else {
                queue.raising.factor = 1;
            }
        }
        let queue = &mut self.queues[id];
        queue.entity.has_new_priority = true;
        if busy && old_factor == 1 && queue.raising.factor > 1 {
            self.raised_busy += 1;
        } else if busy && old_factor > 1 && queue.raising.factor == 1 {
            self.raised_busy -= 1;
        }
    }

    /// The queue for a request of the process: a shared one that is to be split gives way to one of its
    /// own (`bfq_get_bfqq_handle_split`).
    pub(super) fn queue_for(&mut self, process: ProcessId, sync: bool) -> QueueId {
        let Some(id) = self.processes[process].queues[usize::from(sync)] else {
            let id = self.get_queue(process, sync, false);
            self.set_queue(process, sync, Some(id));
            return id;
        };
        let flags = &self.queues[id].flags;
        if !flags.shared || !flags.to_split || self.processes[process].stably_merged {
            return id;
        }
        let waker = self.lasting_waker(id);
        // The burst became large while the queue was shared, so the saved state does not know of it.
        if self.queues[id].flags.in_large_burst
            && let Some(saved) = &mut self.processes[process].saved
        {
            saved.in_large_burst = true;
        }
        if self.queues[id].process_refs() == 1 && self.queues[id].merges_into.is_none() {
            // The last of the processes keeps the queue.
            let flags = &mut self.queues[id].flags;
            (flags.shared, flags.to_split) = (false, false);
            self.resume(id, process, true);
            return id;
        }
        // `put_cooperators` before `release`: the queue may end with its last reference, and its chain with it.
        self.set_queue(process, true, None);
        self.put_cooperators(id);
        self.release(id);
        let id = self.respawn(process);
        // 6.1 resumes once the process is known to be the only one of the queue, which it is.
        debug_assert!(self.version == Version::V6_12 || self.queues[id].process_refs() == 1);
        self.resume(id, process, false);
        self.set_waker(id, waker);
        self.queues[id].wakers.candidate = None;
        id
    }

    /// A queue of its own for a process that had a share of one.
    fn respawn(&mut self, process: ProcessId) -> QueueId {
        let id = self.get_queue(process, true, true);
        self.set_queue(process, true, Some(id));
        let saved = self.processes[process].saved.as_ref();
        let (was_listed, was_large) =
            saved.map_or((false, false), |saved| (saved.was_in_burst_list, saved.in_large_burst));
        let is_large = (was_listed && self.burst.is_large) || was_large;
        self.queues[id].flags.in_large_burst = is_large;
        if !is_large && was_listed {
            self.join_burst_list(id);
        }
        // For two seconds no think time is judged and nothing is raised: the saved state decides.
        self.queues[id].split = self.jiffies;
        id
    }
}

//! Workloads of CFQ 3.4, and how long they and their queues are served.

use super::{IDLE_TREE, LEAST_WORKLOAD_JIFFIES, V34, WORKLOADS, Workload, tree_of};
use crate::Class;
use crate::cfq::Cfq;
use crate::cfq::service_tree::ServiceTree;
use crate::cfq::tunables::Tunables;
use crate::queue_id::QueueId;

impl Cfq<V34> {
    pub(super) fn leave_workload(&mut self, id: QueueId) {
        self.leave(id);
        if self.busy == 0 {
            // `cfq_group_notify_queue_del`: a group without queues forgets its saved workload.
            self.own.saved = None;
        }
    }

    /// Busy queues of a class.
    pub(super) fn busy_of(&self, class: Class) -> u64 {
        let trees = match class {
            Class::Idle => IDLE_TREE..=IDLE_TREE,
            class => tree_of(class, Workload::Async)..=tree_of(class, Workload::Sync),
        };
        self.trees[trees].iter().map(|tree| tree.len() as u64).sum()
    }

    /// The slice a queue gets now; updates the mean number of busy queues of its class.
    pub(super) fn scaled_slice(&mut self, id: QueueId) -> i64 {
        let slice = self.slice(id);
        if !self.tunables.low_latency {
            return slice;
        }
        let (place, class) = if self.queues[id].is_real_time() {
            (1, Class::RealTime)
        } else {
            (0, Class::BestEffort)
        };
        let busy = self.busy_of(class);
        let mean = &mut self.own.busy_mean[place];
        let (less, more) = (busy.min(*mean), busy.max(*mean));
        // `cfq_hist_divisor` of 4: three parts of the larger and one of the smaller number, so the
        // mean rises quickly and falls slowly. Two more round it.
        *mean = (3 * more + less + 2) / 4;
        let [_, sync_slice] = self.tunables.slice;
        let expected = sync_slice * mean.cast_signed();
        let target = self.tunables.target_latency.cast_signed();
        if expected <= target {
            return slice;
        }
        // The floor keeps a slice from shrinking to nothing: two idle waits, scaled to the
        // priority.
        let patience = 2 * self.tunables.slice_idle.cast_signed();
        let least = slice.min(slice.saturating_mul(patience) / sync_slice);
        least.max(slice * target / expected)
    }

    /// Chooses what is served next, or goes on with it while it has time and queues.
    pub(super) fn choose_workload(&mut self, now: u64) {
        if self.busy == 0 {
            // Cannot happen while a request waits, since its queue is busy; the shares below divide
            // by this number.
            return;
        }
        match self.own.saved {
            Some(saved) => {
                self.own.workload_ends = now + saved.jiffies;
                self.own.serving_class = saved.class;
                self.own.serving = saved.workload;
            }
            // In the past: the test below then fails, and a workload is chosen.
            None => self.own.workload_ends = now - 1,
        }
        let class = [Class::RealTime, Class::BestEffort]
            .into_iter()
            .find(|class| self.busy_of(*class) > 0)
            .unwrap_or(Class::Idle);
        let is_same_class = self.own.serving_class == class;
        self.own.serving_class = class;
        if class == Class::Idle {
            // A jiffy is enough for the one request that the class gets.
            self.own.workload_ends = now + 1;
            return;
        }
        let has_queues = self.trees[tree_of(class, self.own.serving)].len() > 0;
        // `time_after`: a workload may still be kept in the very jiffy in which it ends.
        if is_same_class && has_queues && now <= self.own.workload_ends {
            return;
        }
        self.own.serving = self.most_due(class);
        self.own.workload_ends = now + self.workload_jiffies(class, self.own.serving);
    }

    /// The workload of a class whose first queue is due first.
    pub(super) fn most_due(&self, class: Class) -> Workload {
        let first = |workload| self.trees[tree_of(class, workload)].first();
        // Of equals the first in the order of kinds wins: `cfq_choose_wl` takes another only with
        // `time_before`.
        let due = WORKLOADS.into_iter().filter_map(|workload| Some((workload, first(workload)?)));
        due.min_by_key(|(_, (place, _))| place.key)
            .map_or(Workload::SyncNoIdle, |(workload, _)| workload)
    }

    /// Time for a workload: its share of `target_latency`, less if it is asynchronous.
    pub(super) fn workload_jiffies(&self, class: Class, workload: Workload) -> u64 {
        let Tunables { target_latency, slice_idle, slice, .. } = self.tunables;
        let count = self.trees[tree_of(class, workload)].len() as u64;
        let mean = self.own.busy_mean[usize::from(class == Class::RealTime)];
        // The mean counts queues of the recent past, and the busy ones are the floor: a share is
        // never larger than the whole.
        let share = target_latency * count / mean.max(self.busy_of(class));
        let jiffies = if workload == Workload::Async {
            // Asynchronous queues are shared by all, so their part is also measured against all
            // busy queues.
            let asynchronous: u64 = [Class::BestEffort, Class::RealTime]
                .into_iter()
                .map(|class| self.trees[tree_of(class, Workload::Async)].len() as u64)
                .sum();
            let most = target_latency * asynchronous / u64::from(self.busy);
            share.min(most) * slice[0].unsigned_abs() / slice[1].unsigned_abs()
        } else {
            // `cfq_choose_wl`'s caller gives a synchronous workload at least two idle waits.
            share.max(2 * slice_idle)
        };
        jiffies.max(LEAST_WORKLOAD_JIFFIES)
    }

    pub(super) fn served_tree(&self) -> &ServiceTree {
        &self.trees[tree_of(self.own.serving_class, self.own.serving)]
    }
}

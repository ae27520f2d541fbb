//! What the anticipatory scheduler measures of processes: how long each thinks between a completion
//! and its next request, how far it seeks, and whether it is still there.

use super::Side;
use crate::Request;
use rustc_hash::FxHashMap;

/// One, in the fixed point numbers of probabilities and sample counts.
// 8 bits of fraction: `as_update_thinktime` and `as_update_seekdist` share the base with CFQ's
// statistics.
pub(super) const ONE: u64 = 256;

/// A fading sum: an eighth of it gives way to each new value.
fn fade(sum: u64, value: u64) -> u64 {
    (7 * sum + ONE * value) / 8
}

/// Number of a process while anything refers to it; reused afterwards. A process that comes back
/// after its exit gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// A decaying mean of think times or seek distances of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    samples: u64,
    total: u64,
    pub(super) value: u64,
}

impl Mean {
    pub(super) fn is_unknown(&self) -> bool {
        self.samples == 0
    }

    fn add(&mut self, value: u64) {
        self.samples = fade(self.samples, 1);
        self.total = fade(self.total, value);
    }

    /// Think times are rounded by half of one, whatever the number of samples.
    fn add_think_time(&mut self, jiffies: u64) {
        self.add(jiffies);
        // 128 in the kernel, whatever the weight of the samples; the seek mean below rounds by half
        // of them.
        self.value = (self.total + ONE / 2) / self.samples;
    }

    /// Distances are cut to a multiple of the mean, so that one odd request does not spoil it; the
    /// first few may be longer. They are rounded to the nearest.
    fn add_seek(&mut self, sectors: u64) {
        let slack = if self.samples <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
        self.add(sectors.min(4 * self.value + slack));
        self.value = (self.total + self.samples / 2) / self.samples;
    }
}

/// The same of processes at their second request, for the benefit of those not known yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newcomers {
    think_total: u64,
    pub(super) think_mean: u64,
    seek_total: u64,
    pub(super) seek_mean: u64,
    /// Probability that a process never issues a second request, of [`ONE`].
    pub(super) exits: u64,
    /// Probability that no other process takes up the work of one that exited, of [`ONE`].
    pub(super) exits_alone: u64,
}

impl Newcomers {
    fn add_think_time(&mut self, jiffies: u64) {
        self.think_total = fade(self.think_total, jiffies);
        self.think_mean = self.think_total / ONE;
        // The first think time of a process shows that it did not exit after one request.
        self.exits = fade(self.exits, 0);
    }

    fn add_seek(&mut self, sectors: u64) {
        self.seek_total = fade(self.seek_total, sectors);
        self.seek_mean = self.seek_total / ONE;
    }

    /// A process was waited for in vain, or is known to have exited.
    pub(super) fn count_exit(&mut self) {
        self.exits = fade(self.exits, 1);
    }

    /// Counts whether another process took up the work of one that exited (`alone` is false), or
    /// none did.
    pub(super) fn count_cooperation(&mut self, alone: bool) {
        self.exits_alone = fade(self.exits_alone, u64::from(alone));
    }
}

/// One process and what it has under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    pub(super) has_exited: bool,
    has_started: bool,
    has_completed: bool,
    last_completion: u64,
    /// End of its last synchronous request.
    last_position: u64,
    /// Requests the scheduler holds.
    pub(super) queued: u32,
    /// Requests on the dispatch list.
    pub(super) dispatched: u32,
    /// Requests that exist, and one more while it is the awaited process.
    references: u32,
    pub(super) think: Mean,
    pub(super) seek: Mean,
}

impl Process {
    /// Learns from a request that is queued at time `now`.
    pub(super) fn learn(
        &mut self,
        now: u64,
        longest_think: u64,
        request: &Request,
        newcomers: &mut Newcomers,
    ) {
        if Side::of(request) == Side::Async {
            return;
        }
        if self.has_started {
            let thinks = self.has_completed && self.queued + self.dispatched == 0;
            // `as_update_iohist`: a process with requests under way does not think.
            let think = if thinks { (now - self.last_completion).min(longest_think) } else { 0 };
            if self.think.is_unknown() {
                newcomers.add_think_time(think);
            }
            self.think.add_think_time(think);
            let distance = self.last_position.abs_diff(request.sector());
            if self.seek.is_unknown() {
                newcomers.add_seek(distance);
            }
            self.seek.add_seek(distance);
        }
        self.last_position = request.end();
        self.has_started = true;
    }

    /// Is not worth waiting for, by its own think times or, if it has none, by those of newcomers.
    pub(super) fn thinks_too_long(&self, longest_wait: u64, newcomers: &Newcomers) -> bool {
        if self.think.is_unknown() {
            newcomers.think_mean > longest_wait
                || newcomers.exits * newcomers.exits_alone > ONE / 2 * ONE
        } else {
            self.think.value > longest_wait
        }
    }
}

/// All processes that have issued a request and have not exited, and those that still have any.
#[derive(Debug, Default)]
pub(super) struct Processes {
    slots: Vec<Process>,
    free: Vec<Slot>,
    by_pid: FxHashMap<u32, Slot>,
}

impl Processes {
    /// The process, new if it was not known.
    pub(super) fn enter(&mut self, pid: u32) -> Slot {
        if let Some(slot) = self.by_pid.get(&pid) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Process::default());
            Slot(self.slots.len() as u32 - 1)
        });
        self[slot] = Process::default();
        self.by_pid.insert(pid, slot);
        slot
    }

    pub(super) fn find(&self, pid: u32) -> Option<Slot> {
        self.by_pid.get(&pid).copied()
    }

    pub(super) fn exit(&mut self, pid: u32) {
        if let Some(slot) = self.by_pid.remove(&pid) {
            self[slot].has_exited = true;
            self.free_if_unused(slot);
        }
    }

    pub(super) fn refer(&mut self, slot: Slot) {
        self[slot].references += 1;
    }

    pub(super) fn unrefer(&mut self, slot: Slot) {
        self[slot].references -= 1;
        self.free_if_unused(slot);
    }

    /// A request of the process exists no longer: it was completed, or became part of another.
    pub(super) fn end_request(&mut self, slot: Slot, now: u64, side: Side) {
        if side == Side::Sync {
            self[slot].has_completed = true;
            self[slot].last_completion = now;
        }
        self.unrefer(slot);
    }

    fn free_if_unused(&mut self, slot: Slot) {
        if self[slot].has_exited && self[slot].references == 0 {
            self.free.push(slot);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Process>()
            + self.free.capacity() * size_of::<Slot>()
            + self.by_pid.capacity() * size_of::<(u32, Slot)>()
    }
}

impl std::ops::Index<Slot> for Processes {
    type Output = Process;

    fn index(&self, slot: Slot) -> &Process {
        &self.slots[slot.0 as usize]
    }
}

impl std::ops::IndexMut<Slot> for Processes {
    fn index_mut(&mut self, slot: Slot) -> &mut Process {
        &mut self.slots[slot.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Mean;

    #[test]
    fn means_of_a_constant_approach_it_from_above() {
        let mut mean = Mean::default();
        let steps: Vec<(u64, u64, u64)> = (0..3)
            .map(|_| {
                mean.add_think_time(10);
                (mean.samples, mean.total, mean.value)
            })
            .collect();
        assert_eq!(steps, [(32, 320, 14), (60, 600, 12), (84, 845, 11)]);
        (0..50).for_each(|_| mean.add_think_time(10));
        assert_eq!(mean.value, 10);
    }

    #[test]
    fn a_far_seek_counts_as_a_multiple_of_the_mean() {
        let mut seek = Mean::default();
        seek.add_seek(u64::from(u32::MAX));
        assert_eq!(seek.value, 2 * 1024 * 1024, "the first is cut to the slack alone");
        let mut steady = Mean::default();
        (0..60).for_each(|_| steady.add_seek(1000));
        assert!(steady.samples > 60);
        let (before, usual) = (steady.total, steady.value);
        steady.add_seek(u64::from(u32::MAX));
        assert_eq!(steady.total, (7 * before + 256 * (4 * usual + 131_072)) / 8);
    }
}

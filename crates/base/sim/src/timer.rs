//! Timers: a heap of instants, sleeping, and a timer that can be armed again.

use crate::executor::Sim;
use crate::task::TaskId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Clone, Copy)]
struct Slot {
    /// Number of the arming that is in force, or [`DISARMED`].
    sequence: u64,
    has_fired: bool,
    task: TaskId,
}

const DISARMED: u64 = 0;
const EMPTY: Slot = Slot { sequence: DISARMED, has_fired: false, task: TaskId::NONE };

/// An arming: instant, number of the arming, slot. Equal instants fire in the order of arming.
type Entry = Reverse<(u64, u64, u32)>;

/// All timers of a simulation. Disarming leaves the entry in the heap; the number of the arming
/// tells that it is dead, and dead entries never move the clock.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Entry>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    armings: u64,
    dead: usize,
}

impl Timers {
    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(EMPTY);
            (self.slots.len() - 1) as u32
        })
    }

    fn free_slot(&mut self, slot: u32) {
        self.disarm(slot);
        self.slots[slot as usize] = EMPTY;
        self.free.push(slot);
    }

    fn arm(&mut self, slot: u32, at_ns: u64) {
        self.disarm(slot);
        self.armings += 1;
        self.slots[slot as usize].sequence = self.armings;
        self.heap.push(Reverse((at_ns, self.armings, slot)));
    }

    /// Whether the timer was armed.
    fn disarm(&mut self, slot: u32) -> bool {
        let entry = &mut self.slots[slot as usize];
        if entry.sequence == DISARMED {
            return false;
        }
        entry.sequence = DISARMED;
        self.dead += 1;
        // Timeouts are armed for every request and hardly ever fire: without this the heap would
        // hold all of them until their time has come.
        if self.dead > 64 && self.dead > self.heap.len() / 2 {
            let slots = &self.slots;
            self.heap
                .retain(|Reverse((_, sequence, slot))| slots[*slot as usize].sequence == *sequence);
            self.dead = 0;
        }
        true
    }

    /// Fires the next timer not later than `limit_ns`: its instant, and the task that waits for it.
    #[inline]
    pub(crate) fn pop(&mut self, limit_ns: u64) -> Option<(u64, TaskId)> {
        loop {
            let Reverse((at_ns, sequence, slot)) = *self.heap.peek()?;
            let entry = &mut self.slots[slot as usize];
            let is_dead = entry.sequence != sequence;
            if !is_dead && at_ns > limit_ns {
                return None;
            }
            self.heap.pop();
            // A dead entry must not move the clock.
            if is_dead {
                self.dead -= 1;
                continue;
            }
            entry.sequence = DISARMED;
            entry.has_fired = true;
            return Some((at_ns, entry.task));
        }
    }

    /// Whether a timer is armed for an instant before `limit_ns`, looking at live entries alone.
    pub(crate) fn is_any_before(&self, limit_ns: u64) -> bool {
        self.heap.iter().any(|Reverse((at_ns, sequence, slot))| {
            *at_ns < limit_ns && self.slots[*slot as usize].sequence == *sequence
        })
    }
}

/// Returned by [`Sim::sleep`] and [`Sim::sleep_until`].
pub struct Sleep {
    sim: Sim,
    at_ns: u64,
    slot: Option<u32>,
}

impl Sleep {
    pub(crate) fn new(sim: Sim, at_ns: u64) -> Self {
        Self { sim, at_ns, slot: None }
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // A time that has come needs no timer.
        if this.sim.now() >= this.at_ns {
            return Poll::Ready(());
        }
        let task = this.sim.current();
        let mut timers = this.sim.0.timers.borrow_mut();
        // Armed at the first poll only; a later poll may come from another task.
        let slot = *this.slot.get_or_insert_with(|| {
            let slot = timers.take_slot();
            timers.arm(slot, this.at_ns);
            slot
        });
        timers.slots[slot as usize].task = task;
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.sim.0.timers.borrow_mut().free_slot(slot);
        }
    }
}

/// A one-shot timer that can be armed again, as a driver keeps one for its timeouts. One task
/// waits for it; any task may arm or cancel it.
pub struct Timer {
    sim: Sim,
    slot: u32,
}

impl Timer {
    /// A timer that is not armed.
    pub fn new(sim: &Sim) -> Self {
        Self { sim: sim.clone(), slot: sim.0.timers.borrow_mut().take_slot() }
    }

    /// Arms the timer for `at_ns`, in place of what it was armed for; it fires at once if that is
    /// not in the future. A firing that no task has seen yet is forgotten.
    pub fn arm(&self, at_ns: u64) {
        let mut timers = self.sim.0.timers.borrow_mut();
        if at_ns > self.sim.now() {
            timers.arm(self.slot, at_ns);
            timers.slots[self.slot as usize].has_fired = false;
        } else {
            timers.disarm(self.slot);
            timers.slots[self.slot as usize].has_fired = true;
            self.sim.wake(timers.slots[self.slot as usize].task);
        }
    }

    /// Disarms the timer; returns whether it was armed or had fired unseen.
    pub fn cancel(&self) -> bool {
        let mut timers = self.sim.0.timers.borrow_mut();
        let was_armed = timers.disarm(self.slot);
        std::mem::take(&mut timers.slots[self.slot as usize].has_fired) || was_armed
    }

    /// Waits until the timer fires, and consumes the firing. It waits through cancelling and
    /// arming. Panics if another task waits already.
    pub fn fired(&self) -> Fired<'_> {
        Fired { timer: self, waits: false }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.sim.0.timers.borrow_mut().free_slot(self.slot);
    }
}

/// Returned by [`Timer::fired`].
pub struct Fired<'a> {
    timer: &'a Timer,
    waits: bool,
}

impl Future for Fired<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let sim = &self.timer.sim;
        let mut timers = sim.0.timers.borrow_mut();
        let slot = &mut timers.slots[self.timer.slot as usize];
        assert!(self.waits || slot.task == TaskId::NONE, "two tasks wait for one timer");
        if std::mem::take(&mut slot.has_fired) {
            return Poll::Ready(());
        }
        slot.task = sim.current();
        drop(timers);
        self.waits = true;
        Poll::Pending
    }
}

impl Drop for Fired<'_> {
    fn drop(&mut self) {
        if self.waits {
            let mut timers = self.timer.sim.0.timers.borrow_mut();
            timers.slots[self.timer.slot as usize].task = TaskId::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;

    #[test]
    fn timeouts_that_never_fire_do_not_pile_up() {
        let mut timers = Timers::default();
        let (live, timeout) = (timers.take_slot(), timers.take_slot());
        timers.arm(live, 5);
        for at_ns in 10..10_010 {
            timers.arm(timeout, at_ns);
        }
        assert!(timers.heap.len() < 200, "{}", timers.heap.len());
        assert!(timers.disarm(timeout) && !timers.disarm(timeout));
        assert_eq!(timers.pop(u64::MAX).map(|fired| fired.0), Some(5));
        assert_eq!(timers.pop(u64::MAX), None);
        assert_eq!((timers.heap.len(), timers.dead), (0, 0));
    }
}

//! Timers: a heap of instants, sleeping, and a timer that can be armed again.

use crate::executor::Sim;
use crate::task::TaskId;
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Clone, Copy)]
struct Slot {
    /// Where the slot stands in the heap, or [`NOWHERE`].
    place: u32,
    has_fired: bool,
    task: TaskId,
}

/// Place of a slot that is not armed.
const NOWHERE: u32 = u32::MAX;
const EMPTY: Slot = Slot { place: NOWHERE, has_fired: false, task: TaskId::NONE };

/// An arming that is in force.
#[derive(Clone, Copy)]
struct Arming {
    at_ns: u64,
    /// Number of the arming: equal instants fire in the order of arming.
    sequence: u64,
    slot: u32,
}

impl Arming {
    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        (self.at_ns, self.sequence) < (other.at_ns, other.sequence)
    }
}

// Four children lie in two cache lines, and the heap is half as deep as one of two children.
/// Children of an entry of the heap.
const CHILDREN: usize = 4;

/// All timers of a simulation: a heap of the armed ones. Each slot knows its place there, so a timer that is
/// armed again is moved and one that is disarmed is taken out.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Vec<Arming>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    armings: u64,
}

impl Timers {
    #[inline]
    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(EMPTY);
            (self.slots.len() - 1) as u32
        })
    }

    #[inline]
    fn free_slot(&mut self, slot: u32) {
        self.disarm(slot);
        self.slots[slot as usize] = EMPTY;
        self.free.push(slot);
    }

    #[inline]
    fn arm(&mut self, slot: u32, at_ns: u64) {
        // Counted where a timer only moves, too: of two armings for one instant the later fires later.
        self.armings += 1;
        let arming = Arming { at_ns, sequence: self.armings, slot };
        let place = self.slots[slot as usize].place;
        if place == NOWHERE {
            self.heap.push(arming);
            self.rise(self.heap.len() - 1, arming);
        } else {
            self.reposition(place as usize, arming);
        }
        self.check_places(slot);
    }

    /// Whether the timer was armed.
    #[inline]
    fn disarm(&mut self, slot: u32) -> bool {
        let place = self.slots[slot as usize].place;
        if place == NOWHERE {
            return false;
        }
        self.take_out(place as usize);
        true
    }

    /// Takes an entry out of the heap; the last one fills the gap.
    #[inline]
    fn take_out(&mut self, place: usize) {
        self.slots[self.heap[place].slot as usize].place = NOWHERE;
        let Some(last) = self.heap.pop() else { return };
        // The last entry may stand in another branch, so it can belong above the gap or below it.
        if place < self.heap.len() {
            self.reposition(place, last);
            self.check_places(last.slot);
        }
    }

    /// Puts an entry into the gap at `place`, or where it belongs from there.
    #[inline]
    fn reposition(&mut self, place: usize, arming: Arming) {
        if place > 0 && arming.is_before(&self.heap[(place - 1) / CHILDREN]) {
            self.rise(place, arming);
        } else {
            self.sink(place, arming);
        }
    }

    /// Moves the gap at `place` towards the root until the entry fits into it.
    #[inline]
    fn rise(&mut self, mut place: usize, arming: Arming) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            let above = self.heap[parent];
            if !arming.is_before(&above) {
                break;
            }
            self.put(place, above);
            place = parent;
        }
        self.put(place, arming);
    }

    /// Moves the gap at `place` away from the root until the entry fits into it.
    #[inline]
    fn sink(&mut self, mut place: usize, arming: Arming) {
        loop {
            let first = place * CHILDREN + 1;
            let end = (first + CHILDREN).min(self.heap.len());
            if first >= end {
                break;
            }
            let mut child = first;
            for other in first + 1..end {
                if self.heap[other].is_before(&self.heap[child]) {
                    child = other;
                }
            }
            let below = self.heap[child];
            if !below.is_before(&arming) {
                break;
            }
            self.put(place, below);
            place = child;
        }
        self.put(place, arming);
    }

    #[inline]
    fn put(&mut self, place: usize, arming: Arming) {
        self.heap[place] = arming;
        self.slots[arming.slot as usize].place = place as u32;
    }

    /// Checks an armed slot beside its neighbours in the heap, in debug builds.
    #[inline]
    fn check_places(&self, slot: u32) {
        if !cfg!(debug_assertions) {
            return;
        }
        let place = self.slots[slot as usize].place as usize;
        assert_eq!(self.heap[place].slot, slot, "a slot leads to its entry");
        // Neighbours alone: the whole heap at every arming would make debug runs quadratic.
        let first = place * CHILDREN + 1;
        let children = self.heap.iter().skip(first).take(CHILDREN);
        let parent = place.checked_sub(1).map(|before| &self.heap[before / CHILDREN]);
        assert!(
            parent.is_none_or(|parent| parent.is_before(&self.heap[place])),
            "a timer fires after the one above it"
        );
        assert!(
            children.into_iter().all(|child| self.heap[place].is_before(child)),
            "a timer fires before those below it"
        );
    }

    /// Fires the next timer not later than `limit_ns`: its instant, and the task that waits for it.
    #[inline]
    pub(crate) fn pop(&mut self, limit_ns: u64) -> Option<(u64, TaskId)> {
        let Arming { at_ns, slot, .. } = *self.heap.first()?;
        if at_ns > limit_ns {
            return None;
        }
        self.take_out(0);
        let entry = &mut self.slots[slot as usize];
        entry.has_fired = true;
        Some((at_ns, entry.task))
    }

    /// Whether a timer is armed for an instant before `limit_ns`.
    pub(crate) fn is_any_before(&self, limit_ns: u64) -> bool {
        self.heap.first().is_some_and(|first| first.at_ns < limit_ns)
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
    use proptest::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn timeouts_that_never_fire_do_not_pile_up() {
        let mut timers = Timers::default();
        let (live, timeout) = (timers.take_slot(), timers.take_slot());
        timers.arm(live, 5);
        for at_ns in 10..10_010 {
            timers.arm(timeout, at_ns);
        }
        assert_eq!(timers.heap.len(), 2);
        assert!(timers.disarm(timeout) && !timers.disarm(timeout));
        assert_eq!(timers.pop(u64::MAX).map(|fired| fired.0), Some(5));
        assert_eq!(timers.pop(u64::MAX), None);
        assert_eq!(timers.heap.len(), 0);
    }

    proptest! {
        /// Against a list that is searched for the earliest instant, and the earliest arming of that instant.
        #[test]
        fn timers_fire_by_instant_and_then_by_arming(
            calls in prop::collection::vec((0_u32..40, 0_u64..12, 0_u8..4), 1..300)
        ) {
            let mut timers = Timers::default();
            let slots: Vec<u32> = (0..40).map(|_| timers.take_slot()).collect();
            let mut armed: Vec<(u64, u32)> = Vec::new();
            for (slot, at_ns, call) in calls {
                let slot = slots[slot as usize];
                match call {
                    0 | 1 => {
                        timers.arm(slot, at_ns);
                        armed.retain(|(_, other)| *other != slot);
                        armed.push((at_ns, slot));
                    }
                    2 => {
                        let was_armed = armed.iter().any(|(_, other)| *other == slot);
                        armed.retain(|(_, other)| *other != slot);
                        prop_assert_eq!(timers.disarm(slot), was_armed);
                    }
                    _ => {
                        // The first of several that are equal, which was armed first.
                        let next = (0..armed.len()).min_by_key(|index| armed[*index].0);
                        let due = next.filter(|index| armed[*index].0 <= at_ns);
                        let expected = due.map(|index| armed.remove(index));
                        let fired = timers.pop(at_ns).map(|(fired_ns, _)| fired_ns);
                        prop_assert_eq!(fired, expected.map(|(fired_ns, _)| fired_ns));
                        if let Some((_, slot)) = expected {
                            let was_fired = std::mem::take(&mut timers.slots[slot as usize].has_fired);
                            prop_assert!(was_fired, "the slot that was armed first fires first");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_broken_place_is_seen() {
        type Breaking = fn(&mut Timers);
        let broken: [(&str, Breaking); 3] = [
            ("a slot leads to its entry", |timers| timers.slots.swap(0, 1)),
            ("a timer fires after the one above it", |timers| timers.heap[0].at_ns = 90),
            ("a timer fires before those below it", |timers| timers.heap[5].at_ns = 5),
        ];
        for (message, break_it) in broken {
            let mut timers = Timers::default();
            for at_ns in 0..6 {
                let slot = timers.take_slot();
                timers.arm(slot, 10 * at_ns);
            }
            (0..6).for_each(|slot| timers.check_places(slot));
            break_it(&mut timers);
            let check = AssertUnwindSafe(|| timers.check_places(1));
            let panic = catch_unwind(check).expect_err(message);
            let said = panic.downcast_ref::<String>().map_or_else(
                || panic.downcast_ref::<&str>().copied().unwrap_or_default(),
                String::as_str,
            );
            assert!(said.contains(message), "{said:?} is not {message:?}");
        }
    }
}

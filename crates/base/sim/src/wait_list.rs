//! The line before a lock or queue: a linked list in a vector, so that a waiter leaves from
//! anywhere at once and a long-lived line allocates nothing.

use crate::task::TaskId;

const NIL: u32 = u32::MAX;

struct Place<K> {
    task: TaskId,
    kind: K,
    is_granted: bool,
    previous: u32,
    next: u32,
}

/// Waiters in the order of arrival. A waiter that was granted what it waits for has left the line
/// but keeps its place until it takes notice.
pub(crate) struct WaitList<K> {
    places: Vec<Place<K>>,
    free: Vec<u32>,
    first: u32,
    last: u32,
}

impl<K: Copy> WaitList<K> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), first: NIL, last: NIL }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Joins the end of the line and returns the place.
    pub(crate) fn push(&mut self, task: TaskId, kind: K) -> u32 {
        let place = Place { task, kind, is_granted: false, previous: self.last, next: NIL };
        let index = if let Some(index) = self.free.pop() {
            self.places[index as usize] = place;
            index
        } else {
            self.places.push(place);
            (self.places.len() - 1) as u32
        };
        match self.last {
            NIL => self.first = index,
            last => self.places[last as usize].next = index,
        }
        self.last = index;
        index
    }

    /// What the first in line waits for.
    pub(crate) fn front(&self) -> Option<K> {
        self.places.get(self.first as usize).map(|place| place.kind)
    }

    /// Grants the first in line what it waits for, as `kind`; returns the task to wake.
    pub(crate) fn grant_front(&mut self, kind: K) -> Option<TaskId> {
        let index = self.first;
        let place = self.places.get_mut(index as usize)?;
        place.is_granted = true;
        place.kind = kind;
        let task = place.task;
        self.unlink(index);
        Some(task)
    }

    /// Whether the waiter was granted; if not, `task` is the one to wake from now on.
    pub(crate) fn check(&mut self, index: u32, task: TaskId) -> bool {
        let place = &mut self.places[index as usize];
        place.task = task;
        place.is_granted
    }

    /// Gives the place up; returns what was granted, if it was.
    pub(crate) fn leave(&mut self, index: u32) -> Option<K> {
        self.free.push(index);
        let place = &self.places[index as usize];
        let granted = place.is_granted.then_some(place.kind);
        if granted.is_none() {
            self.unlink(index);
        }
        granted
    }

    fn unlink(&mut self, index: u32) {
        let Place { previous, next, .. } = self.places[index as usize];
        match previous {
            NIL => self.first = next,
            previous => self.places[previous as usize].next = next,
        }
        match next {
            NIL => self.last = previous,
            next => self.places[next as usize].previous = previous,
        }
    }
}

//! What all locks share: a rule that says who may be inside together, and a line before it.

use crate::executor::Sim;
use crate::wait_list::WaitList;
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Who may be inside together.
pub(crate) trait Rule {
    /// What one may ask for.
    type Kind: Copy;
    /// Takes `kind` if that is possible now.
    fn admit(&mut self, kind: Self::Kind) -> bool;
    /// Gives back what was taken.
    fn give_back(&mut self, kind: Self::Kind);
}

/// A number of equal permits; one asks for some of them.
pub(crate) struct Permits {
    pub(crate) available: u32,
}

impl Rule for Permits {
    type Kind = u32;

    #[inline]
    fn admit(&mut self, wanted: u32) -> bool {
        let is_possible = wanted <= self.available;
        if is_possible {
            self.available -= wanted;
        }
        is_possible
    }

    #[inline]
    fn give_back(&mut self, taken: u32) {
        self.available = self.available.saturating_add(taken);
    }
}

struct State<R: Rule> {
    rule: R,
    line: WaitList<R::Kind>,
}

/// A rule and its line. A task that leaves hands over to the first in line, so none overtakes.
pub(crate) struct Gate<R: Rule> {
    sim: Sim,
    state: RefCell<State<R>>,
}

impl<R: Rule> Gate<R> {
    pub(crate) fn new(sim: &Sim, rule: R) -> Self {
        Self { sim: sim.clone(), state: RefCell::new(State { rule, line: WaitList::new() }) }
    }

    pub(crate) fn enter(&self, kind: R::Kind) -> Enter<'_, R> {
        Enter { gate: self, kind, place: None }
    }

    /// Enters if that is possible at once; fails while others wait.
    #[inline]
    pub(crate) fn try_enter(&self, kind: R::Kind) -> Option<Pass<'_, R>> {
        let mut state = self.state.borrow_mut();
        let is_in = state.line.is_empty() && state.rule.admit(kind);
        // Not `then_some`: a pass that is made gives back when it is dropped.
        is_in.then(|| Pass { gate: self, kind })
    }

    /// Gives `kind` back, or adds it, and lets in whom the rule then admits.
    #[inline]
    pub(crate) fn leave(&self, kind: R::Kind) {
        self.state.borrow_mut().rule.give_back(kind);
        self.admit_waiters();
    }

    pub(crate) fn has_line(&self) -> bool {
        !self.state.borrow().line.is_empty()
    }

    pub(crate) fn inspect<T>(&self, look: impl FnOnce(&R) -> T) -> T {
        look(&self.state.borrow().rule)
    }

    /// Lets in those who wait, in the order of the line, as long as the rule admits them.
    #[inline]
    fn admit_waiters(&self) {
        let state = &mut *self.state.borrow_mut();
        // In the order of the line, up to the first that cannot be admitted: one who asks for much
        // is not overtaken.
        while let Some(kind) = state.line.front()
            && state.rule.admit(kind)
            && let Some(task) = state.line.grant_front(kind)
        {
            self.sim.wake(task);
        }
    }
}

/// Waits before a gate.
pub(crate) struct Enter<'a, R: Rule> {
    gate: &'a Gate<R>,
    kind: R::Kind,
    place: Option<u32>,
}

impl<R: Rule> Unpin for Enter<'_, R> {}

impl<'a, R: Rule> Future for Enter<'a, R> {
    type Output = Pass<'a, R>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Pass<'a, R>> {
        let this = self.get_mut();
        let gate = this.gate;
        if let Some(place) = this.place {
            let mut state = gate.state.borrow_mut();
            if !state.line.check(place, gate.sim.current()) {
                return Poll::Pending;
            }
            state.line.leave(place);
            this.place = None;
            return Poll::Ready(Pass { gate, kind: this.kind });
        }
        if let Some(pass) = gate.try_enter(this.kind) {
            return Poll::Ready(pass);
        }
        let task = gate.sim.current();
        this.place = Some(gate.state.borrow_mut().line.push(task, this.kind));
        Poll::Pending
    }
}

impl<R: Rule> Drop for Enter<'_, R> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut state = self.gate.state.borrow_mut();
        if let Some(granted) = state.line.leave(place) {
            // Granted and not taken up: the next in line gets it.
            state.rule.give_back(granted);
        }
        drop(state);
        // The one who gave up may have been the first in line and stood in the way of others.
        self.gate.admit_waiters();
    }
}

/// Being inside; dropping it leaves.
pub(crate) struct Pass<'a, R: Rule> {
    gate: &'a Gate<R>,
    kind: R::Kind,
}

impl<R: Rule> Drop for Pass<'_, R> {
    #[inline]
    fn drop(&mut self) {
        self.gate.leave(self.kind);
    }
}

//! Jobs whose numbers of requests keep a ratio (`flow` of fio).

use sim::{Sim, WaitQueue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What `flow`, `flow_id` and `flow_sleep` of a job say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Jobs with the same number keep the ratio of their weights.
    pub id: u32,
    /// Share of the requests of all jobs with this number.
    pub weight: u32,
    /// Nanoseconds that a process sleeps when it is ahead; 0 to try again when another has made a request.
    pub sleep_ns: u64,
}

/// Requests and weights of the processes that run now with one number.
///
/// Source: `flow.c` of fio. A process is ahead if its share of the requests is above its share of the weights.
pub(crate) struct SharedFlow {
    /// Requests of all processes, and one: fio begins at 1, because it divides by it.
    requests: Cell<u64>,
    weight: Cell<u64>,
    changed: WaitQueue,
}

impl SharedFlow {
    fn new(sim: &Sim) -> Self {
        Self { requests: Cell::new(1), weight: Cell::new(0), changed: WaitQueue::new(sim) }
    }

    /// Counts a request of a process, unless it is ahead: then false.
    fn count(&self, own_requests: &Cell<u64>, weight: u32) -> bool {
        // own / all > weight / weights, without a division.
        let (own, all) = (u128::from(own_requests.get()), u128::from(self.requests.get()));
        if own * u128::from(self.weight.get()) > all * u128::from(weight) {
            return false;
        }
        self.requests.set(self.requests.get() + 1);
        own_requests.set(own_requests.get() + 1);
        // All: each of those that wait may be the one that is behind now.
        self.changed.wake_all();
        true
    }
}

/// The flows of a run, by number.
pub(crate) struct Flows {
    sim: Sim,
    shared: RefCell<BTreeMap<u32, Rc<SharedFlow>>>,
}

impl Flows {
    pub(crate) fn new(sim: &Sim) -> Self {
        Self { sim: sim.clone(), shared: RefCell::default() }
    }

    /// A process begins: its weight counts from now on (`flow_init_job`).
    pub(crate) fn join(&self, flow: Flow) -> Member {
        let mut shared = self.shared.borrow_mut();
        let shared = shared.entry(flow.id).or_insert_with(|| Rc::new(SharedFlow::new(&self.sim)));
        shared.weight.set(shared.weight.get() + u64::from(flow.weight));
        Member { shared: shared.clone(), flow, requests: Cell::new(0) }
    }
}

/// A process of a flow; it leaves when this is dropped.
pub(crate) struct Member {
    shared: Rc<SharedFlow>,
    flow: Flow,
    requests: Cell<u64>,
}

impl Member {
    /// Counts the next request, unless the process is ahead.
    pub(crate) fn may_go(&self) -> bool {
        self.shared.count(&self.requests, self.flow.weight)
    }

    /// Nanoseconds to sleep when it is ahead; 0 to wait for others.
    pub(crate) fn sleep_ns(&self) -> u64 {
        self.flow.sleep_ns
    }

    /// Waits until another process has made a request, or has ended.
    pub(crate) async fn others(&self) {
        self.shared.changed.wait().await;
    }
}

impl Drop for Member {
    // `flow_exit_job`: those that stay share what is left.
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.requests.set(shared.requests.get() - self.requests.get());
        shared.weight.set(shared.weight.get() - u64::from(self.flow.weight));
        shared.changed.wake_all();
    }
}

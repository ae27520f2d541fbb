//! I/O schedulers of the user's own.

use super::object::{Own, OwnClass};
use pyo3::prelude::*;
use pyo3::types::PyType;
use sched::{
    Bio, Class, Direction, MergeSide, OWN_SCHEDULERS, Queue, RequestId, Scheduler, SchedulerEntry,
};

/// A request as a scheduler in Python sees it; the same object from its insertion to its end.
#[pyclass(module = "nandlab.policy", name = "IoRequest", frozen)]
pub(crate) struct IoRequest {
    /// Number while it exists; a bio that is no request yet has none.
    #[pyo3(get)]
    number: Option<u32>,
    /// Process that issued it.
    #[pyo3(get)]
    pid: u32,
    /// True if data comes from the device.
    #[pyo3(get)]
    is_read: bool,
    /// True if a process waits for it.
    #[pyo3(get)]
    is_sync: bool,
    /// Priority class of the process: `realtime`, `best-effort` or `idle`.
    #[pyo3(get)]
    priority_class: &'static str,
    /// Priority in its class, 0 (first) to 7.
    #[pyo3(get)]
    priority_level: u8,
    /// First sector and number of sectors of 512 bytes: merging changes both.
    place: std::sync::Mutex<(u64, u32)>,
}

impl IoRequest {
    fn new(bio: &Bio, number: Option<RequestId>) -> Self {
        Self {
            number: number.map(|id| id.0),
            pid: bio.pid,
            is_read: bio.direction == Direction::Read,
            is_sync: bio.sync,
            priority_class: match bio.class {
                Class::RealTime => "realtime",
                Class::BestEffort => "best-effort",
                Class::Idle => "idle",
            },
            priority_level: bio.level,
            place: (bio.sector, bio.sectors).into(),
        }
    }

    fn place(&self) -> (u64, u32) {
        *self.place.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl IoRequest {
    /// First sector, of 512 bytes.
    #[getter]
    fn sector(&self) -> u64 {
        self.place().0
    }

    /// Length in sectors of 512 bytes.
    #[getter]
    fn sectors(&self) -> u32 {
        self.place().1
    }

    /// The sector after the last one.
    #[getter]
    fn end(&self) -> u64 {
        let (sector, sectors) = self.place();
        sector + u64::from(sectors)
    }

    fn __repr__(&self) -> String {
        let (sector, sectors) = self.place();
        let what = if self.is_read { "read" } else { "write" };
        format!("<{what} of {sectors} sectors at {sector} by process {}>", self.pid)
    }

    /// A copy of a scheduler holds the same requests.
    fn __deepcopy__(slf: Py<Self>, _memo: Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

/// Which hooks the class has: those it has not are never called.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "one for each hook")]
struct Hooks {
    allows_merge: bool,
    find_merge: bool,
    merged: bool,
    former: bool,
    latter: bool,
    complete: bool,
    exit: bool,
    timer: bool,
    sorts_dispatch: bool,
}

/// Adds a class to the schedulers.
pub(super) fn register(name: String, class: &Bound<'_, PyType>) -> PyResult<()> {
    let python = class.py();
    let class = OwnClass::new(name, class);
    let has = |method: &str| class.overrides(python, "Scheduler", method);
    let hooks = Hooks {
        allows_merge: has("allows_merge")?,
        find_merge: has("find_merge")?,
        merged: has("merged")?,
        former: has("former")?,
        latter: has("latter")?,
        complete: has("complete")?,
        exit: has("exit")?,
        timer: has("timer")?,
        sorts_dispatch: class.attribute(python, "sorts_dispatch")?.is_truthy()?,
    };
    let (own, summary) = (class.name, class.summary(python));
    let build = move |settings: &sched::Settings, _: sched::Clock| -> Box<dyn Scheduler> {
        let own = Python::attach(|python| class.make(python, settings.seed(), ()));
        Box::new(OwnScheduler { own, hooks, requests: Vec::new(), held: 0 })
    };
    let entry = SchedulerEntry {
        name: own,
        aliases: &[],
        summary,
        source: "a scheduler of your own",
        parameters: &[],
        build: Box::leak(Box::new(build)),
    };
    OWN_SCHEDULERS.put(own, Box::leak(Box::new(entry)));
    Ok(())
}

struct OwnScheduler {
    own: Own,
    hooks: Hooks,
    /// What Python has for each request that it was told of, and whether it still holds it.
    requests: Vec<Option<(Py<IoRequest>, bool)>>,
    held: usize,
}

impl OwnScheduler {
    fn request(&self, id: RequestId) -> &Py<IoRequest> {
        let known = self.requests.get(id.index()).and_then(Option::as_ref);
        &known.expect("the elevator names requests that it inserted").0
    }

    /// Merging has changed where a request lies.
    fn follow(&self, id: RequestId, queue: &Queue) {
        let bio = &queue.requests[id].bio;
        let shown = self.request(id).get();
        *shown.place.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            (bio.sector, bio.sectors);
    }

    /// Takes a request from what the scheduler holds; false if it does not hold it.
    fn release(&mut self, id: RequestId) -> bool {
        let Some(Some((_, is_held))) = self.requests.get_mut(id.index()) else { return false };
        self.held -= usize::from(*is_held);
        std::mem::replace(is_held, false)
    }

    /// Calls a method without an answer.
    fn tell<A>(&self, method: &str, arguments: impl FnOnce() -> A)
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        Python::attach(|python| {
            let done = self.own.bind(python).call_method1(method, arguments());
            self.own.expect(python, done);
        });
    }

    /// The request that a method answers, if any.
    fn asked<A>(&self, method: &str, arguments: A) -> Option<RequestId>
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        Python::attach(|python| {
            let answer = self.own.bind(python).call_method1(method, arguments);
            let answer = self.own.expect(python, answer);
            self.named(method, &answer)
        })
    }

    /// As [`OwnScheduler::asked`], of a request that is still to be dispatched.
    // The elevator joins what these hooks name without another look: a request that the driver has, or that
    // waits on the dispatch list, must not grow any more.
    fn asked_of_held<A>(&self, method: &str, arguments: A) -> Option<RequestId>
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        let id = self.asked(method, arguments)?;
        let is_held = matches!(self.requests.get(id.index()), Some(Some((_, true))));
        if !is_held {
            let shown = self.request(id).get().__repr__();
            self.own.broke(format!("{method} returned {shown}, which was dispatched"));
        }
        Some(id)
    }

    /// The request that an answer names; none for `None`.
    fn named(&self, method: &str, answer: &Bound<'_, PyAny>) -> Option<RequestId> {
        if answer.is_none() {
            return None;
        }
        let Ok(request) = answer.cast::<IoRequest>() else {
            self.own.broke(format!("{method} returned `{answer}`, which is no request"));
        };
        let Some(number) = request.get().number else {
            self.own.broke(format!("{method} returned a bio, which is no request yet"));
        };
        let is_known = self
            .requests
            .get(number as usize)
            .is_some_and(|known| known.as_ref().is_some_and(|(known, _)| known.is(answer)));
        if !is_known {
            self.own.broke(format!("{method} returned {answer}, which has ended"));
        }
        Some(RequestId(number))
    }
}

impl Scheduler for OwnScheduler {
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let request = Python::attach(|python| {
            let made = Py::new(python, IoRequest::new(&queue.requests[id].bio, Some(id)));
            self.own.expect(python, made)
        });
        if self.requests.len() <= id.index() {
            self.requests.resize_with(id.index() + 1, || None);
        }
        Python::attach(|python| {
            self.requests[id.index()] = Some((request.clone_ref(python), true));
        });
        self.held += 1;
        self.tell("insert", || (now_ns, request));
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        while self.held > 0 {
            let Some(id) = self.asked("dispatch", (now_ns, force)) else { break };
            if !self.release(id) {
                let again = self.request(id).get().__repr__();
                self.own.broke(format!("dispatch returned {again}, which it gave before"));
            }
            if self.hooks.sorts_dispatch {
                queue.dispatch_sort(id);
            } else {
                queue.dispatch_tail(id);
            }
            moved += 1;
            // One request a call, as the kernel asks: what is moved early can no longer be merged
            // or overtaken.
            if !force {
                break;
            }
        }
        if force && self.held > 0 {
            self.own.broke(format!(
                "dispatch returned None with force, though {} requests are left: \
                 with force it gives all of them, one a call",
                self.held
            ));
        }
        moved
    }

    fn queued(&self) -> usize {
        self.held
    }

    fn allows_merge(&self, bio: &Bio, id: RequestId, _queue: &Queue) -> bool {
        !self.hooks.allows_merge
            || Python::attach(|python| {
                let arguments = (IoRequest::new(bio, None), self.request(id));
                let answer = self.own.bind(python).call_method1("allows_merge", arguments);
                self.own.expect(python, answer.and_then(|answer| answer.is_truthy()))
            })
    }

    fn find_merge(&self, bio: &Bio, queue: &Queue) -> Option<(RequestId, MergeSide)> {
        if !self.hooks.find_merge {
            return None;
        }
        let id = self.asked_of_held("find_merge", (IoRequest::new(bio, None),))?;
        let request = &queue.requests[id];
        // `elv_rq_merge_ok` is asked of the merge caches alone: here the hook answers for itself.
        if request.bio.direction != bio.direction {
            let shown = self.request(id).get().__repr__();
            self.own.broke(format!("find_merge returned {shown} for a bio of the other direction"));
        }
        if !self.allows_merge(bio, id, queue) {
            return None;
        }
        match () {
            () if bio.end() == request.sector() => Some((id, MergeSide::Front)),
            () if request.end() == bio.sector => Some((id, MergeSide::Back)),
            () => self.own.broke(format!(
                "find_merge returned {}, which does not touch the bio of {} sectors at {}",
                self.request(id).get().__repr__(),
                bio.sectors,
                bio.sector
            )),
        }
    }

    fn merged(&mut self, now_ns: u64, id: RequestId, _side: MergeSide, queue: &mut Queue) {
        self.follow(id, queue);
        if self.hooks.merged {
            self.tell("merged", || (now_ns, Python::attach(|py| self.request(id).clone_ref(py))));
        }
    }

    fn absorb(&mut self, now_ns: u64, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        self.follow(survivor, queue);
        self.release(absorbed);
        let both = Python::attach(|py| {
            (now_ns, self.request(survivor).clone_ref(py), self.request(absorbed).clone_ref(py))
        });
        self.tell("absorb", || both);
        self.requests[absorbed.index()] = None;
    }

    fn former(&self, id: RequestId, _queue: &Queue) -> Option<RequestId> {
        if !self.hooks.former {
            return None;
        }
        self.asked_of_held("former", (self.request(id),))
    }

    fn latter(&self, id: RequestId, _queue: &Queue) -> Option<RequestId> {
        if !self.hooks.latter {
            return None;
        }
        self.asked_of_held("latter", (self.request(id),))
    }

    fn complete(&mut self, now_ns: u64, id: RequestId, _queue: &mut Queue) {
        // A request that never came by `insert` is unknown here: a flush goes past the scheduler.
        let Some(Some((request, _))) = self.requests.get_mut(id.index()).map(Option::take) else {
            return;
        };
        if self.hooks.complete {
            self.tell("complete", || (now_ns, request));
        }
    }

    fn exit(&mut self, now_ns: u64, pid: u32, _queue: &mut Queue) {
        if self.hooks.exit {
            self.tell("exit", || (now_ns, pid));
        }
    }

    fn timer_ns(&self) -> Option<u64> {
        if !self.hooks.timer {
            return None;
        }
        Python::attach(|python| {
            let time = self.own.bind(python).getattr("timer_ns");
            self.own.expect(python, time.and_then(|time| time.extract()))
        })
    }

    fn timer(&mut self, now_ns: u64, _queue: &mut Queue) {
        self.tell("timer", || (now_ns,));
        if self.timer_ns().is_some_and(|next_ns| next_ns <= now_ns) {
            self.own.broke(format!(
                "after timer({now_ns}) timer_ns is still at or before that time: \
                 set it to a later time, or to None"
            ));
        }
    }

    fn is_idling(&self) -> bool {
        self.hooks.timer && self.held > 0 && self.timer_ns().is_some()
    }

    // What Python spends is no measure of what the algorithm needs.
    fn state_bytes(&self) -> usize {
        0
    }
}

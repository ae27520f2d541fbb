//! The request queue: from bio to completion.
//!
//! Models `__make_request` (`blk_queue_bio`), the plugs of both eras, and a driver that keeps as
//! many commands with the device as it admits. Source: Linux 2.6.29 and 3.4, `block/blk-core.c`.

use crate::occupancy::Occupancy;
use crate::plug::{PLUG_REQUESTS_MAX, Plugged};
use crate::{
    Behind, Bytes, Grant, Life, Observer, Part, Plug, PoolRules, RequestPool, ServedDevice,
};
use device::{BlockDevice, Command, DeviceError, DeviceFlash, DeviceStatistics, Operation};
use sched::{Bio, Direction, Elevator, MergeSide, RequestId};
use sim::{Completion, Sim, Timer, WaitQueue};
use std::cell::{Cell, Ref, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// Unplug delay of 2.6.29 (`unplug_delay`).
// `q->unplug_delay` of `blk_queue_make_request`: 3 ms, in jiffies there.
const UNPLUG_DELAY_NS: u64 = 3_000_000;

/// Requests at which a plugged queue of 2.6.29 is run (`unplug_thresh`).
// `q->unplug_thresh` of the same function.
const UNPLUG_REQUESTS: u32 = 4;

/// Who holds requests back so that more can be merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plugging {
    /// No plugging: every bio runs the queue.
    None,
    /// The queue, if it was empty and the device is rotational (2.6.29).
    Queue,
    /// Each task that hands a [`Plug`] with its bios (2.6.39 and later).
    #[default]
    Task,
}

/// How a queue is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// Which of the queue and the tasks holds bios back.
    pub plugging: Plugging,
    /// What the limit of requests counts.
    pub pool: PoolRules,
    /// Most sectors of a request, the same number as the elevator's.
    pub max_sectors: u32,
    /// Commands the driver keeps with the device; 0 for as many as the device admits.
    pub queue_depth: u32,
}

/// A bio on its way.
pub(crate) struct BioState {
    done: Completion,
    life: Cell<Life>,
    /// Totals of the device at insertion.
    totals: Cell<Behind>,
    /// Commands sent so far when it was inserted, plus requests queued then.
    turn: Cell<u64>,
    error: Cell<Option<DeviceError>>,
    bytes: Option<Bytes>,
}

impl BioState {
    fn new(sim: &Sim, life: Life, bytes: Option<Bytes>) -> Rc<Self> {
        Rc::new(Self {
            done: Completion::new(sim),
            life: Cell::new(life),
            totals: Cell::default(),
            turn: Cell::default(),
            error: Cell::new(None),
            bytes,
        })
    }

    fn bio(&self) -> Bio {
        self.life.get().bio
    }

    /// What a device that is served sees of the bio.
    fn part(&self) -> Part {
        let Bio { sector, sectors, .. } = self.life.get().bio;
        Part { sector, sectors, bytes: self.bytes.clone() }
    }
}

/// A bio as part of a request.
pub(crate) type MemberState = Rc<BioState>;

/// A bio as part of a request.
pub(crate) struct Member(MemberState);

/// A submitted bio; [`Handle::wait`] for its end, or leave it to itself.
pub struct Handle(MemberState);

impl Handle {
    /// Waits until the device is done.
    ///
    /// # Errors
    /// The device's.
    pub async fn wait(&self) -> Result<Life, DeviceError> {
        self.0.done.wait().await;
        self.0.error.get().map_or_else(|| Ok(self.0.life.get()), Err)
    }

    /// True if the device is done.
    pub fn is_done(&self) -> bool {
        self.0.done.is_done()
    }
}

/// A command with the device.
struct Issued {
    request: Option<RequestId>,
    start_ns: u64,
    own_ns: u64,
    cleaning_ns: u64,
    operation: Operation,
    error: Option<DeviceError>,
    flush: Option<Rc<BioState>>,
}

/// What carries commands out.
enum Device {
    /// It says at once when a command will be done.
    Timed(Box<dyn BlockDevice>),
    /// A thread serves it.
    Served {
        device: Rc<dyn ServedDevice>,
        /// Commands that the thread has not taken yet, by number of issue.
        // The thread takes commands in the order of issue: `mtd_blkdevs` does not reorder what the
        // elevator gave it.
        waiting: VecDeque<(u64, Command, Vec<Part>)>,
        /// Commands that are not done.
        outstanding: u32,
    },
}

struct State {
    elevator: Elevator,
    device: Device,
    options: QueueOptions,
    queue_depth: u32,
    pool: RequestPool,
    /// Tasks to wake because a request was freed, by side of the pool.
    to_wake: [u32; 2],
    /// Requests of the pool in plugs or on their way there, where the elevator does not see them.
    plugged: usize,
    is_plugged: bool,
    unplug_ns: Option<u64>,
    /// Bios of each request, by its number.
    members: Vec<Vec<Member>>,
    /// Side of the pool each request came from, by its number.
    sides: Vec<usize>,
    /// Commands with the device, by time of completion and order of issue.
    running: BinaryHeap<Reverse<(u64, u64)>>,
    issued: VecDeque<(u64, Issued)>,
    issues: u64,
    flushes: VecDeque<Rc<BioState>>,
    occupancy: Occupancy,
    observers: Vec<Rc<RefCell<dyn Observer>>>,
    finished: Vec<Rc<BioState>>,
    // Vectors of finished requests are used again: a request is made for each bio that is not
    // merged.
    spare: Vec<Vec<Member>>,
}

struct Shared {
    sim: Sim,
    state: RefCell<State>,
    timer: Timer,
    /// Tasks that wait for a request, by side of the pool.
    waiters: [WaitQueue; 2],
    /// The thread that serves the device, if one does.
    thread: WaitQueue,
}

/// A request queue. Clones are the same queue.
#[derive(Clone)]
pub struct RequestQueue(Rc<Shared>);

impl RequestQueue {
    /// A queue over `device`; spawns the task that stands for the driver's interrupts and timers.
    pub fn new(
        sim: &Sim,
        elevator: Elevator,
        device: Box<dyn BlockDevice>,
        options: QueueOptions,
    ) -> Self {
        let queue_depth = match options.queue_depth {
            0 => device.queue_depth(),
            depth => depth.min(device.queue_depth()),
        };
        Self::over(sim, elevator, Device::Timed(device), options, queue_depth)
    }

    /// A queue over a device that a thread serves, one request at a time; spawns the thread.
    pub fn served(
        sim: &Sim,
        elevator: Elevator,
        device: Rc<dyn ServedDevice>,
        options: QueueOptions,
    ) -> Self {
        let (waiting, outstanding) = (VecDeque::new(), 0);
        let under = Device::Served { device: device.clone(), waiting, outstanding };
        // One at a time, whatever the options say: the thread of `mtd_blktrans_thread` carries a
        // request out before it fetches the next.
        let queue = Self::over(sim, elevator, under, options, 1);
        let driver = queue.clone();
        sim.spawn_named("block driver thread", async move {
            loop {
                driver.0.thread.wait_until(|| driver.has_command()).await;
                let Some((number, command, parts)) = driver.take_command() else { continue };
                let error = device.serve(command, parts).await.err();
                driver.on_served(number, error);
            }
        });
        queue
    }

    fn over(
        sim: &Sim,
        elevator: Elevator,
        device: Device,
        options: QueueOptions,
        queue_depth: u32,
    ) -> Self {
        let state = State {
            pool: RequestPool::new(options.pool, elevator.queue().nr_requests),
            elevator,
            device,
            options,
            queue_depth,
            to_wake: [0; 2],
            plugged: 0,
            is_plugged: false,
            unplug_ns: None,
            members: Vec::new(),
            sides: Vec::new(),
            running: BinaryHeap::new(),
            issued: VecDeque::new(),
            issues: 0,
            flushes: VecDeque::new(),
            occupancy: Occupancy::default(),
            observers: Vec::new(),
            finished: Vec::new(),
            spare: Vec::new(),
        };
        let shared = Rc::new(Shared {
            sim: sim.clone(),
            state: RefCell::new(state),
            timer: Timer::new(sim),
            waiters: [WaitQueue::new(sim), WaitQueue::new(sim)],
            thread: WaitQueue::new(sim),
        });
        let driver = Self(shared.clone());
        // Interrupts, the unplug timer and the scheduler's timer are one task: events of one time
        // must run in a fixed order.
        sim.spawn_named("block driver", async move {
            loop {
                driver.0.timer.fired().await;
                driver.on_event();
            }
        });
        Self(shared)
    }

    /// Lets an observer see every bio that completes from now on.
    pub fn observe(&self, observer: Rc<RefCell<dyn Observer>>) {
        self.0.state.borrow_mut().observers.push(observer);
    }

    /// Sectors of the device.
    pub fn sectors(&self) -> u64 {
        match &self.0.state.borrow().device {
            Device::Timed(device) => device.sectors(),
            Device::Served { device, .. } => device.sectors(),
        }
    }

    /// What the device has done so far; none if a thread serves it, which counts by itself.
    pub fn statistics(&self) -> Option<DeviceStatistics> {
        match &self.0.state.borrow().device {
            Device::Timed(device) => Some(device.statistics()),
            Device::Served { .. } => None,
        }
    }

    /// The flash of the device; none if there is none, or if a thread serves the queue.
    pub fn flash(&self) -> Option<DeviceFlash> {
        match &self.0.state.borrow().device {
            Device::Timed(device) => device.flash(),
            Device::Served { .. } => None,
        }
    }

    /// How the queue is run.
    pub fn options(&self) -> QueueOptions {
        self.0.state.borrow().options
    }

    /// The elevator with its scheduler.
    pub fn elevator(&self) -> Ref<'_, Elevator> {
        Ref::map(self.0.state.borrow(), |state| &state.elevator)
    }

    /// What the dies did since the last call, if it was recorded.
    pub fn take_activity(&self) -> Vec<device::Activity> {
        match &mut self.0.state.borrow_mut().device {
            Device::Timed(device) => device.take_activity(),
            Device::Served { .. } => Vec::new(),
        }
    }

    /// Starts or stops the recording of what the dies do.
    pub fn record_activity(&self, on: bool) {
        if let Device::Timed(device) = &mut self.0.state.borrow_mut().device {
            device.record_activity(on);
        }
    }

    /// What the device has done until now, by kind.
    pub fn totals(&self) -> Behind {
        self.0.state.borrow().occupancy.totals()
    }

    /// True if a background writer should wait (`bdi_write_congested`).
    pub fn is_congested(&self, bio: &Bio) -> bool {
        let state = self.0.state.borrow();
        state.pool.is_congested(state.pool.side(bio))
    }

    /// Submits a bio. Waits for a request if there is none, not for the device.
    ///
    /// With a [`Plug`] and task plugging the scheduler does not see it before the plug is flushed.
    pub async fn submit(&self, bio: Bio, plug: Option<&Plug>) -> Handle {
        self.submit_bytes(bio, None, plug).await
    }

    /// As [`RequestQueue::submit`], with the bytes that the bio moves.
    pub async fn submit_bytes(
        &self,
        bio: Bio,
        bytes: Option<Bytes>,
        plug: Option<&Plug>,
    ) -> Handle {
        let plug = plug.filter(|_| self.0.state.borrow().options.plugging == Plugging::Task);
        let now_ns = self.0.sim.now();
        // Assumed merged; a request of its own clears the flag below. A bio in a plug's request has
        // no other moment to learn it.
        let life = Life { is_merged: true, ..Life::entering(bio, now_ns) };
        let state = BioState::new(&self.0.sim, life, bytes);
        let handle = Handle(state.clone());
        let mut member = Member(state);
        if let Some(plug) = plug {
            let max_sectors = self.0.state.borrow().options.max_sectors;
            // The plug first, without the scheduler (`attempt_plug_merge` before `elv_merge` in
            // `blk_queue_bio`).
            match plug.try_merge(&bio, member, max_sectors) {
                None => return handle,
                Some(back) => member = back,
            }
        }
        let merged = self.0.state.borrow_mut().try_merge(now_ns, &bio, member);
        let Err(member) = merged else {
            self.after_submit(&bio);
            // A merge lifts the plug of the queue as an insertion does, if the bio is synchronous.
            return handle;
        };
        self.get_request(&bio, plug).await;
        self.settle(&bio, member, plug);
        handle
    }

    /// Waits until the limit of requests admits one more.
    async fn get_request(&self, bio: &Bio, plug: Option<&Plug>) {
        let mut waited = false;
        loop {
            let now_ns = self.0.sim.now();
            let side = {
                let mut state = self.0.state.borrow_mut();
                let state = &mut *state;
                // A task that slept has a batch granted (`get_request_wait`), or it would sleep
                // again for its next bio.
                if waited {
                    state.pool.woke(now_ns, bio.pid);
                }
                let must = state.elevator.must_queue(bio);
                let limit = state.elevator.scheduler().depth_limit(bio, state.elevator.queue());
                match state.pool.allocate(now_ns, bio, must, limit) {
                    Grant::Granted => return,
                    Grant::Wait => state.pool.side(bio),
                }
            };
            // A task must not sleep on requests that lie in its own plug: they would never go
            // (`blk_flush_plug` in `io_schedule`).
            if let Some(plug) = plug {
                self.unplug(plug);
            }
            // A waiter ends the queue's plugging, because the requests it waits for may be the ones
            // held back (`__generic_unplug_device`).
            self.run_unplugged();
            self.0.waiters[side].wait().await;
            waited = true;
        }
    }

    /// A request was granted: it goes to the plug or to the scheduler.
    fn settle(&self, bio: &Bio, member: Member, plug: Option<&Plug>) {
        let now_ns = self.0.sim.now();
        let mut life = member.0.life.get();
        life.is_merged = false;
        life.get_ns = now_ns;
        member.0.life.set(life);
        if let Some(plug) = plug {
            self.0.state.borrow_mut().plugged += 1;
            // The list goes before the new request is added, so it takes one more request than the
            // limit to see it go.
            if plug.len() >= PLUG_REQUESTS_MAX {
                self.unplug(plug);
            }
            let plugged = Plugged { bio: *bio, members: vec![member], sim: self.0.sim.clone() };
            plug.list.borrow_mut().push(plugged);
            return;
        }
        {
            let mut state = self.0.state.borrow_mut();
            let state = &mut *state;
            state.occupancy.advance(now_ns);
            // `blk_plug_device` only for an empty queue on a rotating disk; flash is never plugged
            // in 2.6.29.
            let holds_back = state.options.plugging == Plugging::Queue
                && !state.device_is_flat()
                && state.elevator.waiting() == 0
                && state.outstanding() == 0;
            if holds_back && !state.is_plugged {
                state.is_plugged = true;
                state.unplug_ns = Some(now_ns + UNPLUG_DELAY_NS);
            }
            state.insert(now_ns, bio, member);
            if state.is_plugged && state.elevator.waiting() as u32 >= UNPLUG_REQUESTS {
                // Requests that wait, not those with the driver (`nrq` in `elv_insert`).
                state.unplug_queue();
            }
        }
        self.after_submit(bio);
    }

    /// What follows a bio that reached the scheduler, by merging or by insertion.
    fn after_submit(&self, bio: &Bio) {
        {
            let mut state = self.0.state.borrow_mut();
            // A synchronous bio carries the unplug flag in the era of the plugged queue.
            if bio.sync {
                state.unplug_queue();
            }
            state.run(self.0.sim.now());
        }
        self.after_run();
    }

    /// Hands everything in the plug to the scheduler and runs the queue: the end of the task's plug,
    /// or a task about to sleep.
    pub fn unplug(&self, plug: &Plug) {
        let list = std::mem::take(&mut *plug.list.borrow_mut());
        if list.is_empty() {
            return;
        }
        {
            let mut state = self.0.state.borrow_mut();
            let now_ns = self.0.sim.now();
            state.occupancy.advance(now_ns);
            state.plugged -= list.len();
            // The queue runs once, after all: `blk_flush_plug_list` runs it with the last request
            // of each queue.
            for plugged in list {
                state.insert_plugged(now_ns, plugged);
            }
            state.run(now_ns);
        }
        self.after_run();
    }

    /// Ends the plugging of the queue, as a task does that is going to wait for its data.
    pub fn run_unplugged(&self) {
        {
            let mut state = self.0.state.borrow_mut();
            state.unplug_queue();
            state.run(self.0.sim.now());
        }
        self.after_run();
    }

    /// Makes what was completed before durable.
    ///
    /// # Errors
    /// The device's.
    // A flush has no request: it passes by the elevator and the limit, and goes to the device
    // before what is queued.
    pub async fn flush(&self, pid: u32) -> Result<Life, DeviceError> {
        let now_ns = self.0.sim.now();
        let bio = Bio {
            pid,
            direction: Direction::Write,
            sync: true,
            noidle: true,
            class: sched::Class::BestEffort,
            level: 4,
            sector: 0,
            sectors: 0,
        };
        let state = BioState::new(&self.0.sim, Life::entering(bio, now_ns), None);
        {
            let mut queue = self.0.state.borrow_mut();
            queue.occupancy.advance(now_ns);
            queue.enter(now_ns, &state);
            queue.flushes.push_back(state.clone());
            queue.unplug_queue();
            queue.run(now_ns);
        }
        self.after_run();
        Handle(state).wait().await
    }

    /// The process has exited. A scheduler whose policy cancels what such a process queued ends these
    /// bios with [`DeviceError::Cancelled`].
    pub fn exit(&self, pid: u32) {
        {
            let mut state = self.0.state.borrow_mut();
            let now_ns = self.0.sim.now();
            state.occupancy.advance(now_ns);
            state.exit(now_ns, pid);
            state.run(now_ns);
        }
        self.after_run();
    }

    /// A completion is due, or a timer.
    fn on_event(&self) {
        let now_ns = self.0.sim.now();
        {
            let mut state = self.0.state.borrow_mut();
            // All completions of this moment before any task wakes: a task that submits must find
            // the room that they leave.
            while let Some(number) = state.next_done(now_ns) {
                state.complete(now_ns, number);
            }
            state.fire_timers(now_ns);
        }
        self.after_run();
    }

    fn has_command(&self) -> bool {
        matches!(&self.0.state.borrow().device, Device::Served { waiting, .. } if !waiting.is_empty())
    }

    fn take_command(&self) -> Option<(u64, Command, Vec<Part>)> {
        match &mut self.0.state.borrow_mut().device {
            Device::Served { waiting, .. } => waiting.pop_front(),
            Device::Timed(_) => None,
        }
    }

    /// The thread has carried a command out.
    fn on_served(&self, number: u64, error: Option<DeviceError>) {
        let now_ns = self.0.sim.now();
        {
            let mut state = self.0.state.borrow_mut();
            state.end_served(now_ns, number, error);
            state.complete(now_ns, number);
        }
        self.after_run();
    }

    /// Wakes those who wait for a request, and those whose bios are done, and sets the timer for what is
    /// due next.
    fn after_run(&self) {
        let (to_wake, mut finished, next_ns) = {
            let mut state = self.0.state.borrow_mut();
            state.audit();
            let to_wake = std::mem::take(&mut state.to_wake);
            (to_wake, std::mem::take(&mut state.finished), state.next_ns())
        };
        // Tasks wake after the state is released, since a waker may run into the queue again.
        for (waiters, tasks) in self.0.waiters.iter().zip(to_wake) {
            for _ in 0..tasks {
                waiters.wake_one();
            }
        }
        if self.has_command() {
            self.0.thread.wake_all();
        }
        // Completed last: whoever waits sees a queue that has run.
        for bio in finished.drain(..) {
            bio.done.complete();
        }
        self.0.state.borrow_mut().finished = finished;
        match next_ns {
            Some(next_ns) => self.0.timer.arm(next_ns),
            None => drop(self.0.timer.cancel()),
        }
    }
}

impl State {
    /// Checks the counts of requests and commands, in debug builds.
    fn audit(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let allocated = (self.pool.allocated(0) + self.pool.allocated(1)) as usize;
        let requests = self.elevator.queue().requests.len();
        assert_eq!(
            allocated,
            requests + self.plugged,
            "requests of the pool are with the elevator ({requests}) or in a plug"
        );
        let with_members = self.members.iter().filter(|members| !members.is_empty()).count();
        assert_eq!(with_members, requests, "every request has bios, and no other has any");
        assert_eq!(self.issued.len(), self.outstanding() as usize, "commands that are not done");
        assert!(self.outstanding() <= self.queue_depth, "the device gets as many as it admits");
        assert!(self.issued.iter().is_sorted_by_key(|(number, _)| *number), "order of issue");
    }

    /// Commands that the device has not completed.
    fn outstanding(&self) -> u32 {
        match &self.device {
            Device::Timed(_) => self.running.len() as u32,
            Device::Served { outstanding, .. } => *outstanding,
        }
    }

    fn device_is_flat(&self) -> bool {
        !self.elevator.queue().rotational
    }

    fn unplug_queue(&mut self) {
        self.is_plugged = false;
        self.unplug_ns = None;
    }

    fn try_merge(&mut self, now_ns: u64, bio: &Bio, member: Member) -> Result<(), Member> {
        // Merging needs no request of the pool, which is why it is tried before one is asked for.
        let Some(merged) = self.elevator.try_merge(now_ns, bio) else { return Err(member) };
        self.occupancy.advance(now_ns);
        self.enter(now_ns, &member.0);
        let survivor = merged.survivor.index();
        match (merged.side, merged.absorbed) {
            (MergeSide::Back, None) => self.members[survivor].push(member),
            (MergeSide::Front, None) => self.members[survivor].insert(0, member),
            (_, Some(absorbed)) => {
                let mut later = std::mem::take(&mut self.members[absorbed.index()]);
                self.members[survivor].push(member);
                self.members[survivor].append(&mut later);
                self.spare.push(later);
                // The absorbed request goes back to the pool at once (`__blk_put_request` in
                // `attempt_merge`).
                self.free_request(self.sides[absorbed.index()]);
            }
        }
        Ok(())
    }

    fn insert(&mut self, now_ns: u64, bio: &Bio, member: Member) {
        let mut members = self.spare.pop().unwrap_or_default();
        members.push(member);
        self.insert_request(now_ns, bio, members);
    }

    fn insert_request(&mut self, now_ns: u64, bio: &Bio, members: Vec<Member>) {
        for member in &members {
            self.enter(now_ns, &member.0);
        }
        let id = self.elevator.insert(now_ns, *bio);
        if self.members.len() <= id.index() {
            self.members.resize_with(id.index() + 1, Vec::new);
            self.sides.resize(id.index() + 1, 0);
        }
        self.sides[id.index()] = self.pool.side(bio);
        self.members[id.index()] = members;
    }

    /// The scheduler sees the bio now.
    fn enter(&self, now_ns: u64, bio: &BioState) {
        // It was set at submission; what counts for the wait is when the scheduler sees the bio.
        bio.life.set(Life { insert_ns: now_ns, ..bio.life.get() });
        bio.totals.set(self.occupancy.totals());
        // Commands sent and requests queued by now: if more commands than these go first, later
        // ones have overtaken it.
        bio.turn.set(self.issues + self.elevator.waiting() as u64);
    }

    /// A request from a plug is tried at the end of queued ones, then inserted.
    fn insert_plugged(&mut self, now_ns: u64, plugged: Plugged) {
        let Plugged { bio, mut members, .. } = plugged;
        let Some(id) = self.elevator.merge_behind(now_ns, &bio) else {
            self.insert_request(now_ns, &bio, members);
            return;
        };
        for member in &members {
            self.enter(now_ns, &member.0);
        }
        self.members[id.index()].append(&mut members);
        // Two requests became one: the plug's was allocated when its bio came.
        self.free_request(self.pool.side(&bio));
    }

    /// Gives a request back to the pool, and notes a task that may have it (`freed_request`).
    fn free_request(&mut self, side: usize) {
        self.to_wake[side] += u32::from(self.pool.free(side));
    }

    /// Runs the queue, and again as long as the scheduler asks for it and something comes of it.
    fn run(&mut self, now_ns: u64) {
        self.occupancy.advance(now_ns);
        // A plugged queue dispatches nothing; its time is booked as held back.
        if !self.is_plugged {
            self.dispatch(now_ns);
            // `__blk_run_queue` from within a hook: the scheduler asks, and the loop ends when
            // nothing comes of it.
            while self.elevator.take_run_soon() {
                if !self.dispatch(now_ns) {
                    break;
                }
            }
        }
        let is_waiting = self.elevator.waiting() > 0;
        self.occupancy.set_waiting(is_waiting);
    }

    /// Gives the device commands while it has room; true if it got any.
    fn dispatch(&mut self, now_ns: u64) -> bool {
        let before = self.issues;
        while self.outstanding() < self.queue_depth {
            // A flush first: it waits for no order but its own, since its caller has waited for the
            // data before.
            if let Some(flush) = self.flushes.pop_front() {
                self.issue(now_ns, &Command::flush(), None, Some(flush));
                continue;
            }
            let Some(id) = self.elevator.next(now_ns) else { break };
            let bio = &self.elevator.queue().requests[id].bio;
            let operation = match bio.direction {
                Direction::Read => Operation::Read,
                Direction::Write => Operation::Write,
            };
            let command = Command::new(operation, bio.sector, bio.sectors);
            self.issue(now_ns, &command, Some(id), None);
        }
        self.issues > before
    }

    fn issue(
        &mut self,
        now_ns: u64,
        command: &Command,
        request: Option<RequestId>,
        flush: Option<Rc<BioState>>,
    ) {
        let number = self.issues;
        self.issues += 1;
        let members = request.map(|id| self.members[id.index()].as_slice()).unwrap_or_default();
        // A command that is refused takes no time, and of one that is served the time is not known.
        let at_once = device::Completion {
            start_ns: now_ns,
            done_ns: now_ns,
            ..device::Completion::default()
        };
        let (completion, error) = match &mut self.device {
            Device::Timed(device) => {
                let (completion, error) = match device.submit(now_ns, command) {
                    Ok(completion) => (completion, None),
                    Err(error) => (at_once, Some(error)),
                };
                self.running.push(Reverse((completion.done_ns, number)));
                (completion, error)
            }
            Device::Served { waiting, outstanding, .. } => {
                let parts = members.iter().map(|member| member.0.part()).collect();
                waiting.push_back((number, *command, parts));
                *outstanding += 1;
                (at_once, None)
            }
        };
        debug_assert!(
            members.windows(2).all(|pair| pair[0].0.bio().end() == pair[1].0.bio().sector),
            "bios of a request follow each other"
        );
        debug_assert_eq!(
            members.iter().map(|member| member.0.bio().sectors).sum::<u32>(),
            if members.is_empty() { 0 } else { command.sectors },
            "a request is as long as its bios"
        );
        let execution_ns = completion.done_ns - completion.start_ns;
        let cleaning_ns = completion.own_cleaning_ns;
        self.occupancy.begin(number, command.operation, completion.start_ns, cleaning_ns);
        for bio in members.iter().map(|member| &member.0).chain(&flush) {
            let mut life = bio.life.get();
            // The device may begin later than it was given the command; from D to there the bio
            // waits behind others.
            life.issue_ns = now_ns;
            life.start_ns = completion.start_ns;
            life.overtaken = number.saturating_sub(bio.turn.get());
            bio.life.set(life);
        }
        let issued = Issued {
            request,
            start_ns: completion.start_ns,
            own_ns: execution_ns - cleaning_ns,
            cleaning_ns,
            operation: command.operation,
            error,
            flush,
        };
        self.issued.push_back((number, issued));
    }

    /// The time that a served command took is known now, and what became of it.
    fn end_served(&mut self, now_ns: u64, number: u64, error: Option<DeviceError>) {
        if let Device::Served { outstanding, .. } = &mut self.device {
            *outstanding -= 1;
        }
        // `issued` is in the order of issue, and the served device has one outstanding command: a
        // search finds it at once.
        if let Some((_, issued)) = self.issued.iter_mut().find(|(other, _)| *other == number) {
            issued.own_ns = now_ns - issued.start_ns;
            issued.error = error;
        }
    }

    /// Takes the earliest command off the running ones, if it is done.
    fn next_done(&mut self, now_ns: u64) -> Option<u64> {
        let Reverse((done_ns, number)) = *self.running.peek()?;
        if done_ns > now_ns {
            return None;
        }
        self.running.pop();
        Some(number)
    }

    /// Completes a command.
    fn complete(&mut self, now_ns: u64, number: u64) {
        self.occupancy.advance(now_ns);
        self.occupancy.end(number);
        // Not always the first: a device with a queue completes out of order.
        let place = self.issued.iter().position(|(other, _)| *other == number);
        let Some((_, issued)) = place.and_then(|place| self.issued.remove(place)) else { return };
        let mut members = match issued.request {
            Some(id) => {
                self.elevator.complete(now_ns, id);
                self.free_request(self.sides[id.index()]);
                std::mem::take(&mut self.members[id.index()])
            }
            None => Vec::new(),
        };
        let flushed = issued.flush.clone();
        for bio in members.drain(..).map(|member| member.0).chain(flushed) {
            self.finish(now_ns, bio, &issued);
        }
        self.spare.push(members);
        // The queue is run before the tasks wake, as the interrupt does: a request that waits goes
        // before one that is yet to come.
        self.run(now_ns);
    }

    fn finish(&mut self, now_ns: u64, bio: Rc<BioState>, issued: &Issued) {
        let mut life = bio.life.get();
        life.complete_ns = now_ns;
        debug_assert!(
            [life.queue_ns, life.insert_ns, life.issue_ns, life.start_ns, now_ns].is_sorted(),
            "the phases of a life follow each other: {life:?}"
        );
        // Its own execution is no waiting; what is left of the totals is what others did meanwhile.
        let mut behind = self.occupancy.totals().since(&bio.totals.get());
        let own = behind.of(issued.operation);
        *own = own.saturating_sub(issued.own_ns);
        life.behind = behind;
        bio.life.set(life);
        bio.error.set(issued.error);
        debug_assert!(issued.start_ns + issued.own_ns + issued.cleaning_ns <= now_ns);
        for observer in &self.observers {
            observer.borrow_mut().completed(&life);
        }
        self.finished.push(bio);
    }

    fn exit(&mut self, now_ns: u64, pid: u32) {
        for id in self.elevator.exit(now_ns, pid) {
            // What is cancelled makes room for processes that wait for a request.
            self.free_request(self.sides[id.index()]);
            let mut members = std::mem::take(&mut self.members[id.index()]);
            for Member(bio) in members.drain(..) {
                bio.error.set(Some(DeviceError::Cancelled));
                self.finished.push(bio);
            }
            self.spare.push(members);
        }
    }

    fn fire_timers(&mut self, now_ns: u64) {
        // The plug's timer before the scheduler's: requests it lets go may be what the scheduler
        // waits for.
        if self.unplug_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.unplug_queue();
            self.run(now_ns);
        }
        if self.elevator.timer_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.elevator.timer(now_ns);
            if self.elevator.take_run_soon() {
                self.run(now_ns);
            }
        }
    }

    fn next_ns(&self) -> Option<u64> {
        let completion = self.running.peek().map(|Reverse((done_ns, _))| *done_ns);
        [completion, self.elevator.timer_ns(), self.unplug_ns].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::{BioState, Life, Member, Plugging, PoolRules, QueueOptions, RequestQueue, State};
    use crate::tests::panics_with;
    use device::ConstantDevice;
    use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, find_scheduler};
    use sim::Simulation;
    use std::collections::BTreeMap;

    /// What breaks the state.
    type Break = fn(&mut State);

    fn bio(sector: u64) -> Bio {
        Bio {
            pid: 1,
            direction: Direction::Read,
            sync: true,
            noidle: false,
            class: Class::BestEffort,
            level: 4,
            sector,
            sectors: 8,
        }
    }

    /// Runs with one read with the device and one behind it, and breaks the state between.
    fn broken(break_it: Break) {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let entry = find_scheduler("noop").expect("in the table");
        let settings = entry.settings(&BTreeMap::new()).expect("defaults");
        let elevator = Elevator::new(entry, &settings, ElevatorOptions::default());
        let options = QueueOptions {
            plugging: Plugging::None,
            pool: PoolRules::PerSync,
            max_sectors: 1024,
            queue_depth: 1,
        };
        let device = Box::new(ConstantDevice::new(1 << 20, 1_000_000, 1));
        let queue = RequestQueue::new(&sim, elevator, device, options);
        sim.spawn(async move {
            drop(queue.submit(bio(0), None).await);
            drop(queue.submit(bio(100), None).await);
            let mut state = queue.0.state.borrow_mut();
            state.audit();
            break_it(&mut state);
            state.audit();
        });
        simulation.run();
    }

    #[test]
    fn every_broken_count_of_requests_is_seen() {
        let cases: [(&str, Break); 9] = [
            ("or in a plug", |state| state.plugged += 1),
            ("every request has bios", |state| state.members[1].clear()),
            ("commands that are not done", |state| drop(state.issued.pop_back())),
            ("the device gets as many as it admits", |state| state.queue_depth = 0),
            ("order of issue", |state| {
                state.queue_depth = 2;
                state.dispatch(0);
                state.issued.swap(0, 1);
            }),
            ("bios of a request follow each other", |state| {
                let first = state.members[0].pop();
                state.members[1].extend(first);
                state.queue_depth = 2;
                state.dispatch(0);
            }),
            ("a request is as long as its bios", |state| {
                state.members[1].clear();
                state.members[1].push(Member(BioState::new(
                    &Simulation::new(1).handle(),
                    Life::entering(Bio { sectors: 4, ..bio(100) }, 0),
                    None,
                )));
                state.queue_depth = 2;
                state.dispatch(0);
            }),
            ("the phases of a life follow each other", |state| {
                let bio = &state.members[0][0].0;
                bio.life.set(Life { queue_ns: 5, ..bio.life.get() });
                state.complete(1, 0);
            }),
            ("issued.start_ns + issued.own_ns", |state| state.complete(1, 0)),
        ];
        for (message, break_it) in cases {
            panics_with(message, || broken(break_it));
        }
    }
}

//! The request queue: from bio to completion.
//!
//! Models `__make_request` (`blk_queue_bio`), the plugs of both eras, and a driver that keeps as
//! many commands with the device as it admits. Source: Linux 2.6.29 and 3.4, `block/blk-core.c`.
//! This file has what tasks call and what wakes them; `state.rs` what becomes of requests between.

mod awaited;
mod state;

pub use awaited::Awaited;
pub(crate) use state::Member;

use crate::occupancy::CommandNumber;
use crate::plug::{PLUG_REQUESTS_MAX, Plugged};
use crate::{BioTimes, Bytes, Grant, Observer, Part, Plug, PoolRules, ServedDevice, WaitBreakdown};
use device::{
    BlockDevice, Command, DeviceActivity, DeviceError, DeviceFlash, DeviceStatistics, QueuedDevice,
};
use sched::{Bio, Direction, Elevator};
use sim::{Sim, Timer, WaitQueue};
use state::{Device, EndedBios, MemberState, State};
use std::cell::{Ref, RefCell};
use std::collections::VecDeque;
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
    /// Commands the driver keeps with the device, in each of its queues; 0 for as many as the device admits.
    pub queue_depth: u32,
    /// Cores on which processes submit; 0 or 1 where the kernel has one queue, as NVMe has before 3.19. Where the device has
    /// several queues, each core uses one ([`sched::QueueMap`]).
    pub cores: u32,
}

/// A submitted bio; [`Handle::wait`] for its end, or leave it to itself.
pub struct Handle {
    bio: MemberState,
    ended: Rc<EndedBios>,
}

impl Handle {
    /// Waits until the device is done.
    ///
    /// # Errors
    /// The [`DeviceError`] of the command that carried the bio; [`DeviceError::Cancelled`] if the scheduler
    /// gave it up.
    pub async fn wait(&self) -> Result<BioTimes, DeviceError> {
        self.ended().await?;
        Ok(self.times())
    }

    /// As [`Handle::wait`], without the times.
    ///
    /// # Errors
    /// As [`Handle::wait`].
    pub async fn ended(&self) -> Result<(), DeviceError> {
        self.bio.done.wait().await;
        self.bio.error.get().map_or(Ok(()), Err)
    }

    /// The times of the bio so far: all of them once the device is done.
    pub fn times(&self) -> BioTimes {
        *self.bio.times.borrow()
    }

    /// True if the device is done.
    pub fn is_done(&self) -> bool {
        self.bio.done.is_done()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.ended.keep(&self.bio);
    }
}

struct Shared {
    sim: Sim,
    state: RefCell<State>,
    timer: Timer,
    /// Tasks that wait for a request, by hardware queue and side of its pool.
    waiters: Vec<[WaitQueue; 2]>,
    /// The thread that serves the device, if one does.
    thread: WaitQueue,
    ended: Rc<EndedBios>,
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
        let device = match device.host_queues() {
            Some(queues) => Device::Queued(Box::new(QueuedDevice::new(device, &queues))),
            None => Device::Timed(device),
        };
        Self::over(sim, elevator, device, options, queue_depth)
    }

    /// A queue over a device that a thread serves, one request at a time; spawns the thread.
    pub fn served(
        sim: &Sim,
        elevator: Elevator,
        device: Rc<dyn ServedDevice>,
        options: QueueOptions,
    ) -> Self {
        let under = Device::Served { device: device.clone(), waiting: VecDeque::new() };
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
        let state = State::new(elevator, device, options, queue_depth);
        let hardware_queues = state.hardware.len();
        let shared = Rc::new(Shared {
            sim: sim.clone(),
            state: RefCell::new(state),
            timer: Timer::new(sim),
            waiters: (0..hardware_queues)
                .map(|_| [WaitQueue::new(sim), WaitQueue::new(sim)])
                .collect(),
            thread: WaitQueue::new(sim),
            ended: Rc::default(),
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
            Device::Queued(device) => device.device().sectors(),
            Device::Served { device, .. } => device.sectors(),
        }
    }

    /// What the device has done so far; none if a thread serves it, which counts by itself.
    pub fn statistics(&self) -> Option<DeviceStatistics> {
        match &self.0.state.borrow().device {
            Device::Timed(device) => Some(device.statistics()),
            Device::Queued(device) => Some(device.device().statistics()),
            Device::Served { .. } => None,
        }
    }

    /// The flash of the device; none if there is none, or if a thread serves the queue.
    pub fn flash(&self) -> Option<DeviceFlash> {
        match &self.0.state.borrow().device {
            Device::Timed(device) => device.flash(),
            Device::Queued(device) => device.device().flash(),
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

    /// What the device did since the last call, if it was recorded.
    pub fn take_activity(&self) -> DeviceActivity {
        match &mut self.0.state.borrow_mut().device {
            Device::Timed(device) => device.take_activity(),
            Device::Queued(device) => device.device_mut().take_activity(),
            Device::Served { .. } => DeviceActivity::default(),
        }
    }

    /// Starts or stops the recording of what the device does.
    pub fn record_activity(&self, on: bool) {
        match &mut self.0.state.borrow_mut().device {
            Device::Timed(device) => device.record_activity(on),
            Device::Queued(device) => device.device_mut().record_activity(on),
            Device::Served { .. } => {}
        }
    }

    /// What the device has done until now, by kind.
    pub fn totals(&self) -> WaitBreakdown {
        self.0.state.borrow().occupancy.totals()
    }

    /// True if a background writer should wait (`bdi_write_congested`).
    pub fn is_congested(&self, bio: &Bio) -> bool {
        let state = self.0.state.borrow();
        let pool = state.pool(bio);
        pool.is_congested(pool.side(bio))
    }

    /// Submits a bio. Waits for a request if there is none, not for the device.
    ///
    /// With a [`Plug`] and task plugging the scheduler does not see it before the plug is flushed.
    pub async fn submit(&self, bio: Bio, plug: Option<&Plug>) -> Handle {
        self.submit_bytes(bio, None, plug).await
    }

    /// As [`RequestQueue::submit`], of a bio that its sender wanted to submit at `arrived_ns`, now or earlier: its
    /// times begin there.
    ///
    /// Where a trace is sent at its own times, a bio that finds no request keeps later ones waiting.
    pub async fn submit_arrived(&self, bio: Bio, arrived_ns: u64) -> Handle {
        debug_assert!(arrived_ns <= self.0.sim.now(), "a bio is submitted after it arrived");
        let times = BioTimes { is_merged: true, ..BioTimes::entering(bio, arrived_ns) };
        let (handle, without_request) = self.submit_at_once(times, None, None);
        if let Some(member) = without_request {
            self.submit_later(&bio, member, None).await;
        }
        handle
    }

    /// As [`RequestQueue::submit`], with the bytes that the bio moves.
    pub async fn submit_bytes(
        &self,
        bio: Bio,
        bytes: Option<Bytes>,
        plug: Option<&Plug>,
    ) -> Handle {
        // Assumed merged; a request of its own clears the flag below. A bio in a plug's request has
        // no other moment to learn it.
        let times = BioTimes { is_merged: true, ..BioTimes::entering(bio, self.0.sim.now()) };
        let plug = plug.filter(|_| self.0.state.borrow().options.plugging == Plugging::Task);
        let (handle, without_request) = self.submit_at_once(times, bytes, plug);
        if let Some(member) = without_request {
            self.submit_later(&bio, member, plug).await;
        }
        handle
    }

    /// As much of a submission as waits for nothing, which is all of it for most bios; one that finds no request is
    /// given back.
    // No part of a future: what lives across an `await` is copied to its memory and back.
    #[inline]
    fn submit_at_once(
        &self,
        times: BioTimes,
        bytes: Option<Bytes>,
        plug: Option<&Plug>,
    ) -> (Handle, Option<Member>) {
        let (now_ns, bio) = (self.0.sim.now(), times.bio);
        // Of a bio that is merged this is M; one that gets a request of its own has its time set then.
        let times = BioTimes { get_ns: now_ns, ..times };
        let handle = self.begin(times, bytes);
        let mut member = Member(handle.bio.clone());
        if let Some(plug) = plug {
            let max_sectors = self.0.state.borrow().options.max_sectors;
            // The plug first, without the scheduler (`attempt_plug_merge` before `elv_merge` in
            // `blk_queue_bio`).
            match plug.try_merge(&bio, member, max_sectors) {
                None => return (handle, None),
                Some(back) => member = back,
            }
        }
        let merged = self.0.state.borrow_mut().try_merge(now_ns, &bio, member);
        let Err(member) = merged else {
            self.after_submit(&bio);
            // A merge lifts the plug of the queue as an insertion does, if the bio is synchronous.
            return (handle, None);
        };
        if self.get_request(&bio, false) == Grant::Wait {
            return (handle, Some(member));
        }
        self.enqueue(&bio, member, plug);
        (handle, None)
    }

    /// A bio that reaches the queue, for whoever waits for its end.
    fn begin(&self, times: BioTimes, bytes: Option<Bytes>) -> Handle {
        let ended = self.0.ended.clone();
        Handle { bio: ended.begin(&self.0.sim, times, bytes), ended }
    }

    /// Asks for a request of the limit.
    fn get_request(&self, bio: &Bio, has_waited: bool) -> Grant {
        let now_ns = self.0.sim.now();
        let mut state = self.0.state.borrow_mut();
        let state = &mut *state;
        let pool = &mut state.hardware[state.map.hardware_queue(bio.pid)].pool;
        // A task that slept has a batch granted (`get_request_wait`), or it would sleep
        // again for its next bio.
        if has_waited {
            pool.woke(now_ns, bio.pid);
        }
        let must = state.elevator.must_queue(bio);
        let limit = state.elevator.scheduler().depth_limit(bio, state.elevator.queue());
        pool.allocate(now_ns, bio, must, limit)
    }

    /// Submits a bio that found no request, when there is one.
    async fn submit_later(&self, bio: &Bio, member: Member, plug: Option<&Plug>) {
        let line = self.0.state.borrow().line(bio);
        loop {
            // A task must not sleep on requests that lie in its own plug: they would never go
            // (`blk_flush_plug` in `io_schedule`).
            if let Some(plug) = plug {
                self.unplug(plug);
            }
            // A waiter ends the queue's plugging, because the requests it waits for may be the ones
            // held back (`__generic_unplug_device`).
            self.run_unplugged();
            self.0.waiters[line / 2][line % 2].wait().await;
            if self.get_request(bio, true) == Grant::Granted {
                break;
            }
        }
        self.enqueue(bio, member, plug);
    }

    /// A request was granted: it goes to the plug or to the scheduler.
    fn enqueue(&self, bio: &Bio, member: Member, plug: Option<&Plug>) {
        let now_ns = self.0.sim.now();
        {
            let mut times = member.0.times.borrow_mut();
            times.is_merged = false;
            times.get_ns = now_ns;
        }
        if let Some(plug) = plug {
            self.0.state.borrow_mut().plugged += 1;
            // The list goes before the new request is added, so it takes one more request than the
            // limit to see it go.
            if plug.len() >= PLUG_REQUESTS_MAX {
                self.unplug(plug);
            }
            let mut state = self.0.state.borrow_mut();
            let members = state.members_of_one(member);
            let plugged = Plugged { bio: *bio, members, sim: self.0.sim.clone() };
            let mut list = plug.list.borrow_mut();
            if list.capacity() == 0 {
                *list = state.empty_list();
            }
            list.push(plugged);
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
            // The queue runs once, after all: `blk_flush_plug_list` runs it with the last request
            // of each queue.
            state.insert_list(now_ns, list);
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
    /// [`DeviceError::Medium`] if the device could not write what it buffered; others as the device names them.
    // A flush has no request: it passes by the elevator and the limit, and goes to the device
    // before what is queued.
    pub async fn flush(&self, pid: u32) -> Result<BioTimes, DeviceError> {
        self.submit_past_scheduler(Command::flush(), pid, self.0.sim.now()).wait().await
    }

    /// Gives the device a command that passes the scheduler by, as soon as it has room: a flush, a write with
    /// force unit access, a discard. It arrived at `arrived_ns`, now or earlier.
    ///
    /// `blk_insert_flush` of `block/blk-flush.c` puts a write with force unit access at the end of the dispatch
    /// list, where the device has both a cache and such writes. Kernels sort discards with writes; here they go
    /// as fast as they come.
    pub fn submit_past_scheduler(&self, command: Command, pid: u32, arrived_ns: u64) -> Handle {
        let now_ns = self.0.sim.now();
        debug_assert!(arrived_ns <= now_ns, "a command is submitted after it arrived");
        let is_read = command.operation == device::Operation::Read;
        let bio = Bio {
            pid,
            direction: if is_read { Direction::Read } else { Direction::Write },
            sync: true,
            noidle: true,
            class: sched::Class::BestEffort,
            level: 4,
            sector: command.sector,
            sectors: command.sectors,
        };
        let operation = command.operation;
        let times = BioTimes { operation, get_ns: now_ns, ..BioTimes::entering(bio, arrived_ns) };
        let handle = self.begin(times, None);
        {
            let mut state = self.0.state.borrow_mut();
            state.occupancy.advance(now_ns);
            state.enter(now_ns, &handle.bio);
            // As a flush does: a plug holds back what may merge, and these never do.
            state.pass(pid, command, handle.bio.clone());
            state.unplug_queue();
            state.run(now_ns);
        }
        self.after_run();
        handle
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

    /// Bios that ended with [`DeviceError::Cancelled`] so far. Observers do not see them: they have no
    /// time of issue or completion.
    pub fn cancelled_bios(&self) -> u64 {
        self.0.state.borrow().cancelled_bios
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
        self.0.state.borrow().device.has_command()
    }

    fn take_command(&self) -> Option<(CommandNumber, Command, Vec<Part>)> {
        match &mut self.0.state.borrow_mut().device {
            Device::Served { waiting, .. } => waiting.pop_front(),
            Device::Timed(_) | Device::Queued(_) => None,
        }
    }

    /// The thread has carried a command out.
    fn on_served(&self, number: CommandNumber, error: Option<DeviceError>) {
        let now_ns = self.0.sim.now();
        {
            let mut state = self.0.state.borrow_mut();
            state.end_served(now_ns, number, error);
            state.complete(now_ns, number);
        }
        self.after_run();
    }

    /// Wakes tasks that wait for a request of a hardware queue, so many of each side.
    #[inline]
    fn wake(&self, hardware_queue: usize, to_wake: [u32; 2]) {
        for (waiters, tasks) in self.0.waiters[hardware_queue].iter().zip(to_wake) {
            for _ in 0..tasks {
                waiters.wake_one();
            }
        }
    }

    /// Wakes those who wait for a request, and those whose bios are done, and sets the timer for what is
    /// due next.
    fn after_run(&self) {
        let (to_wake, finished, has_command, next_ns) = {
            let mut state = self.0.state.borrow_mut();
            state.audit();
            let to_wake = std::mem::take(&mut state.hardware[0].to_wake);
            // Most runs end no bio: the list is taken out and put back only where one does.
            let finished =
                (!state.finished.is_empty()).then(|| std::mem::take(&mut state.finished));
            (to_wake, finished, state.device.has_command(), state.next_ns())
        };
        // Tasks wake after the state is released, since a waker may run into the queue again.
        self.wake(0, to_wake);
        for queue in 1..self.0.waiters.len() {
            let to_wake = std::mem::take(&mut self.0.state.borrow_mut().hardware[queue].to_wake);
            self.wake(queue, to_wake);
        }
        if has_command {
            self.0.thread.wake_all();
        }
        // Completed last: whoever waits sees a queue that has run.
        if let Some(mut finished) = finished {
            for bio in finished.drain(..) {
                bio.done.complete();
                self.0.ended.keep(&bio);
            }
            self.0.state.borrow_mut().finished = finished;
        }
        match next_ns {
            Some(next_ns) => self.0.timer.arm(next_ns),
            None => drop(self.0.timer.cancel()),
        }
    }
}

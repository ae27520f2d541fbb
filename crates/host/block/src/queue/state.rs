//! Requests and commands of a queue: merged, inserted, issued and completed. Nothing here sleeps or wakes.

mod hardware;

use super::QueueOptions;
use super::awaited::Waits;
use crate::occupancy::{CommandNumber, Occupancy};
use crate::plug::Plugged;
use crate::{BioTimes, Bytes, Observer, Part, RequestPool, ServedDevice, WaitBreakdown};
use device::{BlockDevice, Command, DeviceError, Operation, QueuedDevice};
use hardware::HardwareQueue;
use sched::{Bio, Elevator, MergeSide, QueueMap, RequestId};
use sim::{Completion, Sim};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A bio on its way.
pub(crate) struct BioState {
    pub(super) done: Completion,
    pub(super) times: RefCell<BioTimes>,
    /// Totals of the device at insertion.
    pub(super) totals: Cell<WaitBreakdown>,
    /// Commands sent so far when it was inserted, plus requests queued then.
    turn: Cell<u64>,
    pub(super) error: Cell<Option<DeviceError>>,
    pub(super) bytes: RefCell<Option<Bytes>>,
}

impl BioState {
    pub(super) fn new(sim: &Sim, times: BioTimes, bytes: Option<Bytes>) -> Rc<Self> {
        Rc::new(Self {
            done: Completion::new(sim),
            times: RefCell::new(times),
            totals: Cell::default(),
            turn: Cell::default(),
            error: Cell::new(None),
            bytes: RefCell::new(bytes),
        })
    }

    fn bio(&self) -> Bio {
        self.times.borrow().bio
    }

    /// What a device that is served sees of the bio.
    fn part(&self) -> Part {
        let Bio { sector, sectors, .. } = self.bio();
        Part { sector, sectors, bytes: self.bytes.borrow().clone() }
    }
}

/// Bios that have ended, to be used again: a bio takes memory only where more are under way than ever before.
#[derive(Default)]
pub(super) struct EndedBios(RefCell<Vec<MemberState>>);

impl EndedBios {
    /// A bio as [`BioState::new`] makes it.
    pub(super) fn begin(&self, sim: &Sim, times: BioTimes, bytes: Option<Bytes>) -> MemberState {
        let Some(bio) = self.0.borrow_mut().pop() else {
            return BioState::new(sim, times, bytes);
        };
        debug_assert_eq!(Rc::strong_count(&bio), 1, "only the list of ended bios holds one");
        bio.done.reset();
        bio.times.replace(times);
        bio.totals.set(WaitBreakdown::default());
        bio.turn.set(0);
        bio.error.set(None);
        bio.bytes.replace(bytes);
        bio
    }

    /// Keeps a bio that is given up here, unless someone else still knows it.
    pub(super) fn keep(&self, bio: &MemberState) {
        if Rc::strong_count(bio) == 1 {
            // What it moved is its owner's, and not kept from it.
            bio.bytes.take();
            self.0.borrow_mut().push(bio.clone());
        }
    }
}

/// A bio as part of a request.
pub(crate) type MemberState = Rc<BioState>;

/// A bio as part of a request.
pub(crate) struct Member(pub(super) MemberState);

impl Member {
    /// The bio as it was submitted.
    pub(crate) fn bio(&self) -> Bio {
        self.0.bio()
    }

    /// A bio that no task waits for.
    #[cfg(test)]
    pub(crate) fn of(sim: &Sim, bio: Bio) -> Self {
        Self(BioState::new(sim, BioTimes::entering(bio, 0), None))
    }
}

/// A command with the device.
struct Issued {
    pub(super) request: Option<RequestId>,
    /// The hardware queue that carries it.
    hardware_queue: u32,
    /// It is part of the packed command of the one issued before it.
    is_packed: bool,
    start_ns: u64,
    own_ns: u64,
    cleaning_ns: u64,
    operation: Operation,
    pub(super) error: Option<DeviceError>,
    /// The bio of a command that passed the scheduler by.
    pub(super) passing: Option<Rc<BioState>>,
}

/// What carries commands out.
pub(super) enum Device {
    /// It says at once when a command will be done.
    Timed(Box<dyn BlockDevice>),
    /// Commands wait in its submission queues until it begins them.
    Queued(Box<QueuedDevice>),
    /// A thread serves it.
    Served {
        device: Rc<dyn ServedDevice>,
        /// Commands that the thread has not taken yet, by number of issue.
        // The thread takes commands in the order of issue: `mtd_blkdevs` does not reorder what the
        // elevator gave it.
        waiting: VecDeque<(CommandNumber, Command, Vec<Part>)>,
    },
}

impl Device {
    /// True if a command waits for the thread that serves the device.
    pub(super) fn has_command(&self) -> bool {
        matches!(self, Self::Served { waiting, .. } if !waiting.is_empty())
    }

    /// Gives the device a command; when it will be done, and why it was refused if it was.
    fn send(
        &mut self,
        now_ns: u64,
        number: CommandNumber,
        command: &Command,
        hardware_queue: usize,
        parts: impl FnOnce() -> Vec<Part>,
    ) -> (device::Completion, Option<DeviceError>) {
        // A command that is refused takes no time, and of one that is served or queued the time is not known.
        let (start_ns, done_ns) = (now_ns, now_ns);
        let at_once = device::Completion { start_ns, done_ns, ..device::Completion::default() };
        match self {
            Self::Timed(device) => match device.submit(now_ns, command) {
                Ok(completion) => (completion, None),
                Err(error) => (at_once, Some(error)),
            },
            Self::Queued(device) => {
                device.ring(hardware_queue, number.0, command);
                (at_once, None)
            }
            Self::Served { waiting, .. } => {
                waiting.push_back((number, *command, parts()));
                (at_once, None)
            }
        }
    }
}

pub(super) struct State {
    pub(super) elevator: Elevator,
    pub(super) device: Device,
    pub(super) options: QueueOptions,
    /// Commands that the device takes, in each hardware queue.
    pub(super) queue_depth: u32,
    /// Writes that the driver packs into one command, at most.
    packed_writes: u32,
    /// Which hardware queue a process uses.
    pub(super) map: QueueMap,
    pub(super) hardware: Vec<HardwareQueue>,
    /// The hardware queue that is run first next time.
    first_queue: usize,
    /// Requests of the pool in plugs or on their way there, where the elevator does not see them.
    pub(super) plugged: usize,
    pub(super) is_plugged: bool,
    pub(super) unplug_ns: Option<u64>,
    /// Bios of each request, by its number.
    pub(super) members: Vec<Vec<Member>>,
    /// Line in which the task of each request waited, by the request's number.
    lines: Vec<usize>,
    /// Commands with the device, by time of completion and order of issue.
    // In order, and no heap: nearly every command ends behind all that are under way, and the first is taken.
    running: VecDeque<(u64, CommandNumber)>,
    issued: VecDeque<(CommandNumber, Issued)>,
    issues: u64,
    pub(super) occupancy: Occupancy,
    pub(super) observers: Vec<Rc<RefCell<dyn Observer>>>,
    /// Bios that the scheduler gave up at the exit of their process.
    pub(super) cancelled_bios: u64,
    pub(super) finished: Vec<Rc<BioState>>,
    /// What tasks wait for, if such requests are promoted.
    pub(super) waits: Waits,
    // Vectors of finished requests are used again: a request is made for each bio that is not
    // merged. Every new request takes one, that of a plug too, so that there are never more than
    // requests were once under way.
    spare: Vec<Vec<Member>>,
    /// Lists of plugs that have gone, used again for the same reason.
    spare_lists: Vec<Vec<Plugged>>,
}

impl State {
    /// A queue that is empty over a device that is idle.
    pub(super) fn new(
        mut elevator: Elevator,
        device: Device,
        options: QueueOptions,
        queue_depth: u32,
    ) -> Self {
        let packed_writes = match &device {
            Device::Timed(device) => device.packed_writes(),
            Device::Queued(_) | Device::Served { .. } => 1,
        };
        let map = match &device {
            Device::Queued(device)
                if device.queues() > 1 && elevator.scheduler().is_multi_queue() =>
            {
                QueueMap::new(options.cores, device.queues() as u32)
            }
            _ => QueueMap::ONE,
        };
        elevator.queue_mut().map = map;
        let queues = map.hardware_queues();
        let pool = RequestPool::new(options.pool, elevator.queue().nr_requests);
        Self {
            map,
            hardware: (0..queues).map(|_| HardwareQueue::new(pool.clone())).collect(),
            first_queue: 0,
            elevator,
            device,
            options,
            queue_depth,
            packed_writes,
            plugged: 0,
            is_plugged: false,
            unplug_ns: None,
            members: Vec::new(),
            lines: Vec::new(),
            running: VecDeque::new(),
            issued: VecDeque::new(),
            issues: 0,
            occupancy: Occupancy::default(),
            observers: Vec::new(),
            cancelled_bios: 0,
            finished: Vec::new(),
            waits: Waits::default(),
            spare: Vec::new(),
            spare_lists: Vec::new(),
        }
    }

    /// Checks the counts of requests and commands, in debug builds.
    pub(super) fn audit(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let sides = |queue: &HardwareQueue| queue.pool.allocated(0) + queue.pool.allocated(1);
        let allocated = self.hardware.iter().map(sides).sum::<u32>() as usize;
        let requests = self.elevator.queue().requests.len();
        assert_eq!(
            allocated,
            requests + self.plugged,
            "requests of the pool are with the elevator ({requests}) or in a plug"
        );
        let with_members = self.members.iter().filter(|members| !members.is_empty()).count();
        assert_eq!(with_members, requests, "every request has bios, and no other has any");
        let commands = self.issued.iter().filter(|(_, issued)| !issued.is_packed).count();
        assert_eq!(commands, self.outstanding() as usize, "commands that are not done");
        let is_admitted = |queue: &HardwareQueue| queue.outstanding <= self.queue_depth;
        assert!(self.hardware.iter().all(is_admitted), "the device gets as many as it admits");
        assert!(self.issued.iter().is_sorted_by_key(|(number, _)| *number), "order of issue");
        assert!(self.running.iter().is_sorted(), "the first command ends first");
        let sent = self.issued.iter().filter(|(_, issued)| issued.request.is_some()).count();
        let in_flight = self.elevator.queue().in_flight as usize;
        let held: usize = self.hardware.iter().map(|queue| queue.held.len()).sum();
        assert_eq!(sent + held, in_flight, "the device has the requests that the elevator gave");
        let begun = match &self.device {
            Device::Queued(device) => device.executing(),
            Device::Timed(_) | Device::Served { .. } => self.issued.len(),
        };
        assert_eq!(begun, self.occupancy.running(), "commands whose time is counted");
        assert_eq!(self.is_plugged, self.unplug_ns.is_some(), "a plugged queue has a timer");
        for queue in &self.hardware {
            let has_room = !self.is_plugged && queue.outstanding < self.queue_depth;
            assert!(!has_room || queue.passing.is_empty(), "a flush goes as soon as there is room");
            assert!(!has_room || queue.held.is_empty(), "a held request goes when there is room");
            queue.pool.audit();
        }
        assert!(self.spare.iter().all(Vec::is_empty), "a spare vector holds no bio");
        let mut by_line = vec![0; 2 * self.hardware.len()];
        for (bios, line) in self.members.iter().zip(&self.lines) {
            by_line[*line] += u32::from(!bios.is_empty());
        }
        let is_allocated =
            |line: usize| by_line[line] <= self.hardware[line / 2].pool.allocated(line % 2);
        assert!((0..by_line.len()).all(is_allocated), "requests of a side of the pool");
    }

    /// Commands that the device has not completed.
    pub(super) fn outstanding(&self) -> u32 {
        self.hardware.iter().map(|queue| queue.outstanding).sum()
    }

    pub(super) fn device_is_flat(&self) -> bool {
        !self.elevator.queue().rotational
    }

    pub(super) fn unplug_queue(&mut self) {
        self.is_plugged = false;
        self.unplug_ns = None;
    }

    pub(super) fn try_merge(
        &mut self,
        now_ns: u64,
        bio: &Bio,
        member: Member,
    ) -> Result<(), Member> {
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
                self.free_request(self.lines[absorbed.index()]);
            }
        }
        self.promote_if_awaited(now_ns, merged.survivor);
        Ok(())
    }

    pub(super) fn insert(&mut self, now_ns: u64, bio: &Bio, member: Member) {
        let members = self.members_of_one(member);
        self.insert_request(now_ns, bio, members);
    }

    /// The members of a new request, in memory that a finished one left if there is any.
    pub(super) fn members_of_one(&mut self, member: Member) -> Vec<Member> {
        let mut members = self.spare.pop().unwrap_or_default();
        debug_assert!(members.is_empty(), "a spare vector holds no bio");
        members.push(member);
        members
    }

    /// The list of a plug, in memory that one which has gone left if there is any.
    pub(super) fn empty_list(&mut self) -> Vec<Plugged> {
        self.spare_lists.pop().unwrap_or_default()
    }

    /// The requests of a plug go to the scheduler, in the order in which they came.
    pub(super) fn insert_list(&mut self, now_ns: u64, mut list: Vec<Plugged>) {
        self.plugged -= list.len();
        for plugged in list.drain(..) {
            self.insert_plugged(now_ns, plugged);
        }
        self.spare_lists.push(list);
    }

    fn insert_request(&mut self, now_ns: u64, bio: &Bio, members: Vec<Member>) {
        for member in &members {
            self.enter(now_ns, &member.0);
        }
        let id = self.elevator.insert(now_ns, *bio);
        if self.members.len() <= id.index() {
            self.members.resize_with(id.index() + 1, Vec::new);
            self.lines.resize(id.index() + 1, 0);
        }
        debug_assert!(!members.is_empty(), "a request has bios");
        debug_assert!(
            self.members[id.index()].is_empty(),
            "a new request has no bios of an old one"
        );
        self.lines[id.index()] = self.line(bio);
        self.members[id.index()] = members;
        self.promote_if_awaited(now_ns, id);
    }

    /// The scheduler sees the bio now.
    pub(super) fn enter(&self, now_ns: u64, bio: &BioState) {
        // It was set at submission; what counts for the wait is when the scheduler sees the bio.
        bio.times.borrow_mut().insert_ns = now_ns;
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
        self.spare.push(members);
        // Two requests became one: the plug's was allocated when its bio came.
        self.free_request(self.line(&bio));
        self.promote_if_awaited(now_ns, id);
    }

    /// Gives a request back to the pool, and notes a task that may have it (`freed_request`).
    fn free_request(&mut self, line: usize) {
        let (queue, side) = (&mut self.hardware[line / 2], line % 2);
        queue.to_wake[side] += u32::from(queue.pool.free(side));
    }

    /// Runs the queue, and again as long as the scheduler asks for it and something comes of it.
    pub(super) fn run(&mut self, now_ns: u64) {
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

    fn issue(
        &mut self,
        now_ns: u64,
        command: &Command,
        hardware_queue: usize,
        request: Option<RequestId>,
        passing: Option<Rc<BioState>>,
    ) {
        let number = CommandNumber(self.issues);
        let members = request.map(|id| self.members[id.index()].as_slice()).unwrap_or_default();
        let parts = || members.iter().map(|member| member.0.part()).collect();
        let sent = self.device.send(now_ns, number, command, hardware_queue, parts);
        self.note_issued(now_ns, command, hardware_queue, (request, passing), sent, false);
    }

    /// Sends several writes as one packed command, which ends all of them.
    pub(super) fn issue_together(&mut self, now_ns: u64, commands: &[Command], ids: &[RequestId]) {
        let Device::Timed(device) = &mut self.device else { unreachable!("timed devices pack") };
        let at_once =
            device::Completion { start_ns: now_ns, done_ns: now_ns, ..Default::default() };
        let sent = match device.submit_packed(now_ns, commands) {
            Ok(completion) => (completion, None),
            Err(error) => (at_once, Some(error)),
        };
        for (index, (command, id)) in commands.iter().zip(ids).enumerate() {
            self.note_issued(now_ns, command, 0, (Some(*id), None), sent, index > 0);
        }
    }

    /// Takes a command that was sent into the books.
    #[allow(clippy::inline_always, reason = "as `issue`, which is called for each command")]
    #[inline(always)]
    fn note_issued(
        &mut self,
        now_ns: u64,
        command: &Command,
        hardware_queue: usize,
        (request, passing): (Option<RequestId>, Option<Rc<BioState>>),
        (completion, error): (device::Completion, Option<DeviceError>),
        is_packed: bool,
    ) {
        let number = CommandNumber(self.issues);
        self.issues += 1;
        let members = request.map(|id| self.members[id.index()].as_slice()).unwrap_or_default();
        self.hardware[hardware_queue].outstanding += u32::from(!is_packed);
        if let Device::Timed(_) = self.device {
            let ending = (completion.done_ns, number);
            if self.running.back().is_none_or(|last| *last < ending) {
                self.running.push_back(ending);
            } else {
                let place = self.running.partition_point(|other| *other < ending);
                self.running.insert(place, ending);
            }
        }
        debug_assert!(completion.start_ns >= now_ns, "the device begins after it was asked");
        debug_assert!(
            completion.start_ns + completion.own_cleaning_ns <= completion.done_ns,
            "the device ends after it has cleaned"
        );
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
        // What waits in a queue of the device has not begun.
        if !matches!(self.device, Device::Queued(_)) {
            // Of a packed command the first stands for all: its cleaning took place once.
            let own_cleaning_ns = if is_packed { 0 } else { cleaning_ns };
            let times = device::Completion { own_cleaning_ns, ..completion };
            self.occupancy.begin(number, command.operation, &times);
        }
        for bio in members.iter().map(|member| &member.0).chain(&passing) {
            let mut times = bio.times.borrow_mut();
            // The device may begin later than it was given the command; from D to there the bio
            // waits behind others.
            times.issue_ns = now_ns;
            times.start_ns = completion.start_ns;
            times.overtaken = number.0.saturating_sub(bio.turn.get());
        }
        let issued = Issued {
            request,
            hardware_queue: hardware_queue as u32,
            is_packed,
            start_ns: completion.start_ns,
            own_ns: execution_ns - cleaning_ns,
            cleaning_ns,
            operation: command.operation,
            error,
            passing,
        };
        self.issued.push_back((number, issued));
    }

    /// The time that a served command took is known now, and what became of it.
    pub(super) fn end_served(
        &mut self,
        now_ns: u64,
        number: CommandNumber,
        error: Option<DeviceError>,
    ) {
        // `issued` is in the order of issue, and the served device has one outstanding command: a
        // search finds it at once.
        if let Some((_, issued)) = self.issued.iter_mut().find(|(other, _)| *other == number) {
            issued.own_ns = now_ns - issued.start_ns;
            issued.error = error;
        }
    }

    /// Takes the earliest command off the running ones, if it is done.
    pub(super) fn next_done(&mut self, now_ns: u64) -> Option<CommandNumber> {
        if let Device::Queued(_) = self.device {
            return self.next_told(now_ns);
        }
        let (done_ns, number) = *self.running.front()?;
        if done_ns > now_ns {
            return None;
        }
        self.running.pop_front();
        Some(number)
    }

    /// Takes a command that the device is done with off the books, and ends its bios.
    pub(super) fn complete(&mut self, now_ns: u64, number: CommandNumber) {
        self.occupancy.advance(now_ns);
        if !matches!(self.device, Device::Queued(_)) {
            self.occupancy.end(number);
        }
        let Some((_, mut issued)) = self.take_issued(number) else { return };
        // The first of a packed command stands for all: they end together.
        self.hardware[issued.hardware_queue as usize].outstanding -= u32::from(!issued.is_packed);
        let mut members = match issued.request {
            Some(id) => {
                self.elevator.complete(now_ns, id);
                self.free_request(self.lines[id.index()]);
                std::mem::take(&mut self.members[id.index()])
            }
            None => Vec::new(),
        };
        let passing = issued.passing.take();
        for bio in members.drain(..).map(|member| member.0).chain(passing) {
            self.finish(now_ns, bio, &issued);
        }
        // A command past the scheduler has no request, and leaves no vector to use again.
        if issued.request.is_some() {
            self.spare.push(members);
        }
        // The driver ends all requests of a packed command before it takes the next (`mmc_blk_end_packed_req`).
        // Most drivers pack nothing, and need no search for the next one.
        if self.packed_writes > 1 {
            let next = CommandNumber(number.0 + 1);
            let place = self.issued.binary_search_by_key(&next, |(other, _)| *other);
            if place.is_ok_and(|place| self.issued[place].1.is_packed) {
                return;
            }
        }
        // The queue is run before the tasks wake, as the interrupt does: a request that waits goes
        // before one that is yet to come.
        self.run(now_ns);
    }

    /// Takes a command off those with the device.
    fn take_issued(&mut self, number: CommandNumber) -> Option<(CommandNumber, Issued)> {
        // Not always the first: a device with a queue completes out of order.
        if self.issued.front().is_some_and(|(first, _)| *first == number) {
            return self.issued.pop_front();
        }
        let place = self.issued.binary_search_by_key(&number, |(other, _)| *other).ok()?;
        self.issued.remove(place)
    }

    fn finish(&mut self, now_ns: u64, bio: Rc<BioState>, issued: &Issued) {
        let mut times = bio.times.borrow_mut();
        times.complete_ns = now_ns;
        debug_assert!(
            [times.queue_ns, times.get_ns, times.insert_ns, times.issue_ns, times.start_ns, now_ns]
                .is_sorted(),
            "the times of a bio follow each other: {times:?}"
        );
        // Its own execution is no waiting; what is left of the totals is what others did meanwhile.
        let mut wait = self.occupancy.totals().since(&bio.totals.get());
        let own = wait.of(issued.operation);
        *own = own.saturating_sub(issued.own_ns);
        debug_assert!(
            wait.total_ns() <= now_ns - times.insert_ns,
            "a bio waits no longer than it is there"
        );
        times.wait = wait;
        bio.error.set(issued.error);
        debug_assert!(issued.start_ns + issued.own_ns + issued.cleaning_ns <= now_ns);
        for observer in &self.observers {
            observer.borrow_mut().completed(&times);
        }
        drop(times);
        self.finished.push(bio);
    }

    pub(super) fn exit(&mut self, now_ns: u64, pid: u32) {
        for id in self.elevator.exit(now_ns, pid) {
            // What is cancelled makes room for processes that wait for a request.
            self.free_request(self.lines[id.index()]);
            let mut members = std::mem::take(&mut self.members[id.index()]);
            self.cancelled_bios += members.len() as u64;
            for Member(bio) in members.drain(..) {
                bio.error.set(Some(DeviceError::Cancelled));
                self.finished.push(bio);
            }
            self.spare.push(members);
        }
    }

    pub(super) fn fire_timers(&mut self, now_ns: u64) {
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

    pub(super) fn next_ns(&self) -> Option<u64> {
        let completion = match &self.device {
            Device::Queued(device) => device.next_ns(),
            _ => self.running.front().map(|(done_ns, _)| *done_ns),
        };
        earlier(earlier(completion, self.elevator.timer_ns()), self.unplug_ns)
    }
}

/// The earlier of two times, each of which there may not be.
// An iterator over three of them took thirty instructions more, twice for each request.
#[inline]
fn earlier(one_ns: Option<u64>, other_ns: Option<u64>) -> Option<u64> {
    match (one_ns, other_ns) {
        (Some(one_ns), Some(other_ns)) => Some(one_ns.min(other_ns)),
        (one_ns, other_ns) => one_ns.or(other_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BioState, BioTimes, BlockDevice, Command, CommandNumber, Device, DeviceError, EndedBios,
        Member, QueueOptions, State,
    };
    use crate::PoolRules;
    use crate::queue::{Plugging, RequestQueue};
    use crate::tests::panics_with;
    use device::{ConstantDevice, DeviceActivity, DeviceStatistics};
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
            cores: 1,
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

    fn member(sector: u64) -> Member {
        Member::of(&Simulation::new(1).handle(), bio(sector))
    }

    /// A device that answers every command alike, whenever it comes.
    struct Fixed(device::Completion);

    impl BlockDevice for Fixed {
        fn sectors(&self) -> u64 {
            1 << 20
        }

        fn queue_depth(&self) -> u32 {
            2
        }

        fn is_rotational(&self) -> bool {
            false
        }

        fn submit(&mut self, _: u64, _: &Command) -> Result<device::Completion, DeviceError> {
            Ok(self.0)
        }

        fn clone_box(&self) -> Box<dyn BlockDevice> {
            Box::new(Self(self.0))
        }

        fn statistics(&self) -> DeviceStatistics {
            DeviceStatistics::default()
        }

        fn record_activity(&mut self, _: bool) {}

        fn take_activity(&mut self) -> DeviceActivity {
            DeviceActivity::default()
        }
    }

    /// Sends a command at 5 ns to a device that says it runs from `start_ns` to `done_ns`.
    fn send(state: &mut State, start_ns: u64, done_ns: u64, own_cleaning_ns: u64) {
        let times = device::Completion { start_ns, done_ns, ..device::Completion::default() };
        let fixed = Fixed(device::Completion { own_cleaning_ns, ..times });
        state.device = Device::Timed(Box::new(fixed));
        state.queue_depth = 2;
        state.dispatch(5);
    }

    /// Faults of commands, flushes and sides of the pool.
    fn more_faults() -> [(&'static str, Break); 13] {
        [
            ("the device begins after it was asked", |state| send(state, 4, 9, 0)),
            ("the device ends after it has cleaned", |state| send(state, 5, 9, 5)),
            ("the device has the requests that the elevator gave", |state| {
                state.issued[0].1.request = None;
            }),
            ("commands whose time is counted", |state| state.occupancy.end(CommandNumber(0))),
            ("a plugged queue has a timer", |state| state.is_plugged = true),
            ("a flush goes as soon as there is room", |state| {
                state.pass(1, Command::flush(), member(0).0);
                state.queue_depth = 2;
            }),
            ("a held request goes when there is room", |state| {
                let id = state.elevator.next(0).expect("one waits");
                state.hardware[0].held.push_back(id);
                state.queue_depth = 2;
            }),
            ("a spare vector holds no bio", |state| state.spare.push(vec![member(0)])),
            ("requests of a side of the pool", |state| state.lines[0] = 1),
            ("a request has bios", |state| state.insert_request(0, &bio(500), Vec::new())),
            ("a new request has no bios of an old one", |state| {
                state.members.push(vec![member(0)]);
                state.lines.push(0);
                state.insert(0, &bio(500), member(500));
            }),
            ("a command that ends is running", |state| state.complete(1, CommandNumber(7))),
            ("a bio waits no longer than it is there", |state| {
                let bio = &state.members[0][0].0;
                let (insert_ns, issue_ns, start_ns) = (3, 3, 3);
                let times = *bio.times.borrow();
                bio.times.replace(BioTimes { insert_ns, issue_ns, start_ns, ..times });
                state.issued[0].1.own_ns = 0;
                state.complete(3, CommandNumber(0));
            }),
        ]
    }

    #[test]
    fn a_bio_is_used_again_when_no_one_knows_it() {
        let (sim, ended) = (Simulation::new(1).handle(), EndedBios::default());
        let begin = |sector| ended.begin(&sim, BioTimes::entering(bio(sector), sector), None);
        let first = begin(8);
        first.error.set(Some(DeviceError::Cancelled));
        first.turn.set(7);
        first.done.complete();
        let known = first.clone();
        ended.keep(&first);
        drop(first);
        let other = begin(16);
        assert!(!std::rc::Rc::ptr_eq(&known, &other), "it is known");
        ended.keep(&known);
        let address = std::rc::Rc::as_ptr(&known);
        drop(known);
        let again = begin(24);
        assert_eq!(std::rc::Rc::as_ptr(&again), address);
        assert!(!again.done.is_done());
        assert_eq!((again.error.get(), again.turn.get()), (None, 0));
        assert_eq!(*again.times.borrow(), BioTimes::entering(bio(24), 24));
        ended.keep(&again);
        panics_with("only the list of ended bios holds one", || drop(begin(32)));
    }

    #[test]
    fn every_broken_count_of_requests_is_seen() {
        let cases: [(&str, Break); 10] = [
            ("or in a plug", |state| state.plugged += 1),
            ("every request has bios", |state| state.members[1].clear()),
            ("commands that are not done", |state| drop(state.issued.pop_back())),
            ("the device gets as many as it admits", |state| state.queue_depth = 0),
            ("order of issue", |state| {
                state.queue_depth = 2;
                state.dispatch(0);
                state.issued.swap(0, 1);
            }),
            ("the first command ends first", |state| {
                state.queue_depth = 2;
                state.dispatch(0);
                state.running.swap(0, 1);
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
                    BioTimes::entering(Bio { sectors: 4, ..bio(100) }, 0),
                    None,
                )));
                state.queue_depth = 2;
                state.dispatch(0);
            }),
            ("the times of a bio follow each other", |state| {
                let bio = &state.members[0][0].0;
                bio.times.borrow_mut().queue_ns = 5;
                state.complete(1, CommandNumber(0));
            }),
            ("issued.start_ns + issued.own_ns", |state| state.complete(1, CommandNumber(0))),
        ];
        for (message, break_it) in cases.into_iter().chain(more_faults()) {
            panics_with(message, || broken(break_it));
        }
    }
}

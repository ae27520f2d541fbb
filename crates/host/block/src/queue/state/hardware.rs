//! Hardware queues, as blk-mq has them: which request goes to which, and what a device with submission queues tells.
//!
//! A device with one queue has one hardware queue, whose run is that of the request queue.
//!
//! Source: Linux 6.1, `block/blk-mq.c`, `block/blk-mq-sched.c`.

use super::{BioState, Device, State};
use crate::RequestPool;
use crate::occupancy::CommandNumber;
use device::{Command, Completion, Fetched, Operation};
use sched::{Bio, Direction, RequestId};
use std::collections::VecDeque;
use std::rc::Rc;

/// A hardware queue of blk-mq (`struct blk_mq_hw_ctx`), or the one queue of a device.
pub(in crate::queue) struct HardwareQueue {
    /// Its requests.
    pub(in crate::queue) pool: RequestPool,
    /// Tasks to wake because a request was freed, by side of the pool.
    pub(in crate::queue) to_wake: [u32; 2],
    /// Commands that the device has not completed.
    pub(super) outstanding: u32,
    /// Requests that the scheduler gave up for another queue while this one was full (`hctx->dispatch`).
    pub(super) held: VecDeque<RequestId>,
    /// Commands that pass the scheduler by, each with the bio that waits for it.
    pub(super) passing: VecDeque<(Command, Rc<BioState>)>,
}

impl HardwareQueue {
    pub(super) fn new(pool: RequestPool) -> Self {
        let (held, passing) = (VecDeque::new(), VecDeque::new());
        Self { pool, to_wake: [0; 2], outstanding: 0, held, passing }
    }
}

impl State {
    /// The line in which a task waits for a request for its bio: a side of the pool of its hardware queue.
    #[inline]
    pub(in crate::queue) fn line(&self, bio: &Bio) -> usize {
        let queue = self.map.hardware_queue(bio.pid);
        2 * queue + self.hardware[queue].pool.side(bio)
    }

    /// The pool of a bio's hardware queue.
    pub(in crate::queue) fn pool(&self, bio: &Bio) -> &RequestPool {
        &self.hardware[self.map.hardware_queue(bio.pid)].pool
    }

    /// Gives the device commands while it has room; true if it got any.
    pub(super) fn dispatch(&mut self, now_ns: u64) -> bool {
        let before = self.issues;
        match self.device {
            Device::Queued(_) => self.run_hardware_queues(now_ns),
            Device::Timed(_) | Device::Served { .. } => self.run_hardware_queue(now_ns, 0),
        }
        self.issues > before
    }

    /// Runs all hardware queues of a device with submission queues, then lets it begin what it has room for.
    #[inline(never)]
    fn run_hardware_queues(&mut self, now_ns: u64) {
        // Each time another queue first, so that none has all of what is common, the tokens of Kyber. A kernel runs
        // the queue of a submission or a completion, and lets queues wait for tokens in line.
        let (first, count) = (self.first_queue, self.hardware.len());
        self.first_queue = (first + 1) % count;
        (first..count).chain(0..first).for_each(|queue| self.run_hardware_queue(now_ns, queue));
        self.fetch(now_ns);
    }

    /// Gives the device commands of a hardware queue while it has room there.
    #[allow(clippy::inline_always, reason = "a call for each request is a hundredth of a replay")]
    #[inline(always)]
    fn run_hardware_queue(&mut self, now_ns: u64, queue: usize) {
        loop {
            let hardware = &mut self.hardware[queue];
            if hardware.outstanding >= self.queue_depth {
                break;
            }
            // These first: a flush waits for no order but its own, since its caller has waited for
            // the data before.
            if let Some((command, bio)) = hardware.passing.pop_front() {
                self.issue(now_ns, &command, queue, None, Some(bio));
                continue;
            }
            // Then what another queue left (`blk_mq_sched_dispatch_requests` looks at `hctx->dispatch` first).
            let held = hardware.held.pop_front();
            let Some(id) = held.or_else(|| self.elevator.next_for(queue, now_ns)) else { break };
            let bio = &self.elevator.queue().requests[id].bio;
            // That of its tag, which it keeps if it becomes the request of a process that waits for it.
            let own = self.lines[id.index()] / 2;
            if own != queue && self.hardware[own].outstanding >= self.queue_depth {
                // It has no tag there: it waits for its own queue, and this one asks no further
                // (`__blk_mq_do_dispatch_sched`).
                self.hardware[own].held.push_back(id);
                break;
            }
            let operation = match bio.direction {
                Direction::Read => Operation::Read,
                Direction::Write => Operation::Write,
            };
            let command = Command::new(operation, bio.sector, bio.sectors);
            if self.packed_writes > 1 && operation == Operation::Write {
                self.issue_packed(now_ns, command, id);
                continue;
            }
            self.issue(now_ns, &command, own, Some(id), None);
        }
    }

    /// A write, and those that the scheduler gives next, as one packed command.
    ///
    /// The driver takes requests until one is no write, or too long with those before it and the header; that one goes
    /// back. Source: `mmc_blk_prep_packed_list` of `drivers/mmc/card/block.c`, Linux 3.9 to 4.9.
    #[cold]
    fn issue_packed(&mut self, now_ns: u64, first: Command, id: RequestId) {
        let mut commands = vec![first];
        let mut ids = vec![id];
        // The header is a sector of the command, too.
        let mut sectors = first.sectors + 1;
        while commands.len() < self.packed_writes as usize {
            let held = self.hardware[0].held.pop_front();
            let Some(next) = held.or_else(|| self.elevator.next_for(0, now_ns)) else { break };
            let bio = &self.elevator.queue().requests[next].bio;
            sectors += bio.sectors;
            if bio.direction != Direction::Write || sectors > self.options.max_sectors {
                self.hardware[0].held.push_front(next);
                break;
            }
            commands.push(Command::write(bio.sector, bio.sectors));
            ids.push(next);
        }
        self.issue_together(now_ns, &commands, &ids);
    }

    /// A command that passes the scheduler by, in the hardware queue of its process.
    pub(in crate::queue) fn pass(&mut self, pid: u32, command: Command, bio: Rc<BioState>) {
        self.hardware[self.map.hardware_queue(pid)].passing.push_back((command, bio));
    }

    /// A device with submission queues begins what it has room for.
    fn fetch(&mut self, now_ns: u64) {
        let Device::Queued(device) = &mut self.device else { return };
        while let Some(Fetched { number, completion, error }) = device.fetch(now_ns) {
            let number = CommandNumber(number);
            let place = self.issued.binary_search_by_key(&number, |(other, _)| *other);
            let issued = &mut self.issued[place.expect("a command that is fetched was issued")].1;
            let Completion { start_ns, done_ns, own_cleaning_ns, .. } = completion;
            issued.start_ns = start_ns;
            issued.own_ns = done_ns - start_ns - own_cleaning_ns;
            issued.cleaning_ns = own_cleaning_ns;
            issued.error = error;
            self.occupancy.begin(number, issued.operation, &completion);
            let members = issued.request.map(|id| self.members[id.index()].as_slice());
            let members = members.unwrap_or_default().iter().map(|member| &member.0);
            members.chain(&issued.passing).for_each(|bio| {
                bio.times.borrow_mut().start_ns = start_ns;
            });
        }
    }

    /// The next command of which a device with submission queues tells the host.
    pub(super) fn next_told(&mut self, now_ns: u64) -> Option<CommandNumber> {
        let Device::Queued(device) = &mut self.device else { return None };
        while let Some(number) = device.end(now_ns) {
            self.occupancy.advance(now_ns);
            self.occupancy.end(CommandNumber(number));
        }
        // Before the host is told: what it sends then comes too late for these places.
        self.fetch(now_ns);
        let Device::Queued(device) = &mut self.device else { return None };
        device.tell(now_ns).map(CommandNumber)
    }
}

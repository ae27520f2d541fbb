//! A drive behind submission queues: it fetches commands when it can execute them, and tells of them by interrupts.
//!
//! A [`BlockDevice`] answers a command at once with the time of its end. With several queues that time is not known
//! when the host rings the doorbell: a command that comes later in another queue may be fetched before. So commands wait
//! here, and the device gets one when it has a place for it. The host asks again at [`QueuedDevice::next_ns`].
//!
//! At one moment the device ends commands, then fetches, then tells: a command that the host sends because of a
//! completion comes too late for the place that the completion left.
//!
//! Left out: the admin queue, sizes of queues (the host keeps to the depth), and the time of doorbells and fetches, which
//! is part of the overhead of a command.

use crate::arbitration::Arbiter;
use crate::command::{Command, Completion, DeviceError};
use crate::contract::BlockDevice;
use crate::host_queues::{Coalescing, HostQueues};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A command that the device has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The host's number of the command.
    pub number: u64,
    /// Its times: it begins now. One that was refused begins and ends now.
    pub completion: Completion,
    /// Why it was refused, if it was.
    pub error: Option<DeviceError>,
}

/// Completions of a queue that the host was not told of.
#[derive(Clone, Debug, Default)]
struct Vector {
    posted: Vec<u64>,
    /// When the first of them is old enough for an interrupt.
    due_ns: u64,
}

/// A device behind submission queues.
pub struct QueuedDevice {
    device: Box<dyn BlockDevice>,
    arbiter: Arbiter,
    executes: usize,
    coalescing: Option<Coalescing>,
    /// Commands that were not fetched, by queue.
    queues: Vec<VecDeque<(u64, Command)>>,
    /// How many they are.
    waiting: usize,
    /// Commands that are executed: time of the end, the host's number, the queue.
    executing: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Completions that wait for an interrupt, by queue.
    vectors: Vec<Vector>,
    /// Completions of which an interrupt tells now.
    told: VecDeque<u64>,
}

impl QueuedDevice {
    /// The device behind queues; nothing was asked of it yet.
    pub fn new(device: Box<dyn BlockDevice>, queues: &HostQueues) -> Self {
        let count = queues.count as usize;
        Self {
            device,
            arbiter: Arbiter::new(queues),
            executes: queues.executes as usize,
            coalescing: queues.coalescing,
            queues: vec![VecDeque::new(); count],
            waiting: 0,
            executing: BinaryHeap::new(),
            vectors: vec![Vector::default(); count],
            told: VecDeque::new(),
        }
    }

    /// The device.
    pub fn device(&self) -> &dyn BlockDevice {
        self.device.as_ref()
    }

    /// As [`QueuedDevice::device`], to change what it records.
    pub fn device_mut(&mut self) -> &mut dyn BlockDevice {
        self.device.as_mut()
    }

    /// Queues of the device.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Commands that the device executes.
    pub fn executing(&self) -> usize {
        self.executing.len()
    }

    /// The host puts a command into a queue (the doorbell of its tail). `number` is the host's; no two that are under way
    /// have the same.
    pub fn ring(&mut self, queue: usize, number: u64, command: &Command) {
        self.queues[queue].push_back((number, *command));
        self.waiting += 1;
    }

    /// The device begins a command, if one waits and there is room.
    ///
    /// To be called until there is none, after every command that was put into a queue and at every event.
    pub fn fetch(&mut self, now_ns: u64) -> Option<Fetched> {
        if self.waiting == 0 || self.executing.len() >= self.executes {
            return None;
        }
        let queues = &self.queues;
        let queue = self.arbiter.next(|queue| !queues[queue].is_empty())?;
        let (number, command) = self.queues[queue].pop_front()?;
        self.waiting -= 1;
        let (completion, error) = match self.device.submit(now_ns, &command) {
            Ok(completion) => (completion, None),
            Err(error) => {
                let at_once =
                    Completion { start_ns: now_ns, done_ns: now_ns, ..Completion::default() };
                (at_once, Some(error))
            }
        };
        debug_assert_eq!(completion.start_ns, now_ns, "the device has room for what it fetches");
        self.executing.push(Reverse((completion.done_ns, number, queue)));
        Some(Fetched { number, completion, error })
    }

    /// A command that has ended by now, the earliest first; its number. It leaves room for another one.
    pub fn end(&mut self, now_ns: u64) -> Option<u64> {
        let Reverse((done_ns, number, queue)) = *self.executing.peek()?;
        if done_ns > now_ns {
            return None;
        }
        self.executing.pop();
        let Some(Coalescing { entries, time_ns }) = self.coalescing else {
            self.told.push_back(number);
            return Some(number);
        };
        let vector = &mut self.vectors[queue];
        if vector.posted.is_empty() {
            vector.due_ns = done_ns + time_ns;
        }
        vector.posted.push(number);
        if vector.posted.len() >= entries as usize {
            self.told.extend(vector.posted.drain(..));
        }
        Some(number)
    }

    /// A command that an interrupt tells the host of; its number. To be called when no command ends or begins any more.
    pub fn tell(&mut self, now_ns: u64) -> Option<u64> {
        if self.told.is_empty() && self.coalescing.is_some() {
            let is_due =
                |vector: &&mut Vector| !vector.posted.is_empty() && vector.due_ns <= now_ns;
            if let Some(vector) = self.vectors.iter_mut().find(is_due) {
                self.told.extend(vector.posted.drain(..));
            }
        }
        self.told.pop_front()
    }

    /// When a command ends, or an interrupt is due; none while nothing is under way.
    pub fn next_ns(&self) -> Option<u64> {
        let end_ns = self.executing.peek().map(|Reverse((done_ns, ..))| *done_ns);
        if self.coalescing.is_none() {
            return end_ns;
        }
        let waiting = self.vectors.iter().filter(|vector| !vector.posted.is_empty());
        end_ns.into_iter().chain(waiting.map(|vector| vector.due_ns)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::QueuedDevice;
    use crate::host_queues::{Arbitration, HostQueues};
    use crate::tests::panics_with;
    use crate::{Command, ConstantDevice};

    #[test]
    fn more_commands_than_the_device_has_room_for_are_seen() {
        let fetched = |executes| {
            let (burst, arbitration, coalescing) = (None, Arbitration::RoundRobin, None);
            let queues = HostQueues { count: 1, executes, burst, arbitration, coalescing };
            let device = Box::new(ConstantDevice::new(64, 10, 1));
            let mut drive = QueuedDevice::new(device, &queues);
            (0..2).for_each(|number| drive.ring(0, number, &Command::read(0, 8)));
            std::iter::from_fn(|| drive.fetch(0)).count()
        };
        assert_eq!(fetched(1), 1);
        panics_with("the device has room for what it fetches", || _ = fetched(2));
    }
}

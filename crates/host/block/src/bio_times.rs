//! The times of a bio, in the words of blktrace and btt.

use device::Operation;
use sched::{Bio, Direction};

/// What the device did between two moments, nanoseconds of each kind.
///
/// Exact for a device that carries out one command at a time; for others, an interval counts for
/// the command that has been with the device longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitBreakdown {
    /// The device carried out reads.
    pub reads_ns: u64,
    /// The device carried out writes and flushes.
    pub writes_ns: u64,
    /// The device cleaned, and a command waited for it.
    pub cleaning_ns: u64,
    /// Nothing, although requests were queued: the scheduler (or a plug) held them back.
    pub idling_ns: u64,
}

impl WaitBreakdown {
    /// Sum of all kinds.
    pub fn total_ns(&self) -> u64 {
        self.reads_ns + self.writes_ns + self.cleaning_ns + self.idling_ns
    }

    /// What lies between an earlier reading of the same totals and this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads_ns: self.reads_ns.saturating_sub(earlier.reads_ns),
            writes_ns: self.writes_ns.saturating_sub(earlier.writes_ns),
            cleaning_ns: self.cleaning_ns.saturating_sub(earlier.cleaning_ns),
            idling_ns: self.idling_ns.saturating_sub(earlier.idling_ns),
        }
    }

    /// The counter of a kind of command.
    pub(crate) fn of(&mut self, operation: Operation) -> &mut u64 {
        match operation {
            Operation::Read => &mut self.reads_ns,
            // A flush is booked as a write: it delays others in the same way, and blktrace counts
            // it so.
            Operation::Write | Operation::Flush | Operation::Discard => &mut self.writes_ns,
        }
    }
}

/// Times of a bio, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioTimes {
    /// The bio as it was submitted.
    pub bio: Bio,
    /// What the device is asked for: a flush and a discard are writes to the scheduler.
    pub operation: Operation,
    /// It was merged into a request that was there before.
    pub is_merged: bool,
    /// Q: it reached the block layer.
    pub queue_ns: u64,
    /// G: it got a request; M, if it was merged.
    pub get_ns: u64,
    /// I: its request reached the scheduler; M, if it was merged there.
    pub insert_ns: u64,
    /// D: its request went to the device.
    pub issue_ns: u64,
    /// The device began with it.
    pub start_ns: u64,
    /// C: the device was done.
    pub complete_ns: u64,
    /// What the device did from I to the beginning, and the cleaning that was its own.
    pub wait: WaitBreakdown,
    /// At least so many requests that came later went to the device before it: those sent between
    /// I and D, less those that were queued at I.
    pub overtaken: u64,
}

impl BioTimes {
    /// A bio that reaches the block layer now.
    pub(crate) fn entering(bio: Bio, now_ns: u64) -> Self {
        let operation = match bio.direction {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
        };
        Self {
            bio,
            operation,
            is_merged: false,
            queue_ns: now_ns,
            get_ns: now_ns,
            insert_ns: now_ns,
            issue_ns: now_ns,
            start_ns: now_ns,
            complete_ns: now_ns,
            wait: WaitBreakdown::default(),
            overtaken: 0,
        }
    }

    /// Time in the block layer and the device, all in all.
    pub fn q2c_ns(&self) -> u64 {
        self.complete_ns - self.queue_ns
    }

    /// Waiting for a request (`nr_requests`).
    pub fn q2g_ns(&self) -> u64 {
        self.get_ns - self.queue_ns
    }

    /// Time in the plug of the task.
    pub fn g2i_ns(&self) -> u64 {
        self.insert_ns - self.get_ns
    }

    /// Time with the scheduler.
    pub fn i2d_ns(&self) -> u64 {
        self.issue_ns - self.insert_ns
    }

    /// With the driver and the device.
    pub fn d2c_ns(&self) -> u64 {
        self.complete_ns - self.issue_ns
    }
}

/// Receives the times of every bio when it is complete.
pub trait Observer {
    /// The bio is complete.
    fn completed(&mut self, times: &BioTimes);
}

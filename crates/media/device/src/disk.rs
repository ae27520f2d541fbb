//! A rotating disk: seek, rotation, transfer by track, one command at a time.
//!
//! The time of a seek is `settle + root · √distance` up to a knee and goes on linearly beyond it;
//! distances are cylinders. The platter turns all the time: where the head arrives decides how long
//! it waits. Tracks and cylinders are skewed by the head switch and the seek to the next cylinder,
//! so that a long transfer does not lose a revolution at each. Beyond a read the head goes on
//! reading into a buffer as far as that reaches, until the next command; a read that goes on there
//! is served from it, and the buffer is taken to have been filled on without a pause.
//!
//! Every write reaches the medium before it is done: the write cache is off. Left out: zones (all
//! tracks are as long as the mean one), spared sectors, command queueing, thermal recalibration.
//!
//! Source: the form of the seek curve is that of Ruemmler and Wilkes, "An introduction to disk drive
//! modeling", IEEE Computer 27(3), 1994.

use crate::disk_spec::DiskSpec;
use crate::host_spec::HostSpec;
use crate::{
    BlockDevice, Command, Completion, DeviceActivity, DeviceError, DeviceStatistics, Operation,
    SECTOR_BYTES,
};
use random::Stream;
use std::ops::Range;

/// Sectors that go by under the head since a read ended, and where they go.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    /// First sector after the read.
    sector: u64,
    /// It began to go by at this time.
    since_ns: u64,
}

/// A rotating disk at work.
#[derive(Clone, Debug)]
pub struct DiskDevice {
    disk: DiskSpec,
    host: HostSpec,
    phase_ns: u64,
    cylinder: u32,
    head: u32,
    busy_until_ns: u64,
    last_ns: u64,
    read_ahead: Option<ReadAhead>,
    statistics: DeviceStatistics,
}

/// Where a sector lies.
#[derive(Clone, Copy)]
struct Place {
    track: u64,
    cylinder: u32,
    head: u32,
    sector: u32,
}

impl DiskDevice {
    /// A disk; `seed` decides how the platter stands at time zero.
    pub fn new(disk: DiskSpec, host: HostSpec, seed: u64) -> Self {
        let mut stream = Stream::new(seed, "disk");
        Self {
            // The platter's angle at time zero is drawn, since a host cannot measure it.
            phase_ns: stream.next_u64() % disk.revolution_ns(),
            disk,
            host,
            cylinder: 0,
            head: 0,
            busy_until_ns: 0,
            last_ns: 0,
            read_ahead: None,
            statistics: DeviceStatistics::default(),
        }
    }

    fn place(&self, sector: u64) -> Place {
        let per_track = u64::from(self.disk.sectors_per_track);
        let heads = u64::from(self.disk.heads);
        let track = sector / per_track;
        debug_assert!(sector < self.disk.sectors(), "sector {sector} is on the disk");
        Place {
            track,
            cylinder: (track / heads) as u32,
            head: (track % heads) as u32,
            sector: (sector % per_track) as u32,
        }
    }

    /// Time to move the head from one place to another.
    fn move_ns(&self, cylinder: u32, head: u32, to: Place) -> u64 {
        let seek_ns = self.disk.seek.seek_ns(cylinder.abs_diff(to.cylinder));
        // Arm and head switch at the same time; the slower one counts.
        if head == to.head { seek_ns } else { seek_ns.max(self.disk.head_switch_ns) }
    }

    /// Time that `sectors` sectors of one track take to go by.
    fn pass_ns(&self, sectors: u32) -> u64 {
        u64::from(sectors) * self.disk.revolution_ns() / u64::from(self.disk.sectors_per_track)
    }

    /// Angle at which the first sector of a track begins, as time of a revolution.
    ///
    /// Every track begins as much later as the change to it takes.
    fn skew_ns(&self, track: u64) -> u64 {
        let cylinders = track / u64::from(self.disk.heads);
        // Every track but the first of a cylinder is reached by a head switch.
        let switches = track - cylinders;
        let revolution_ns = u128::from(self.disk.revolution_ns());
        let sum = u128::from(cylinders)
            * u128::from(self.disk.seek.seek_ns(1).max(self.disk.head_switch_ns))
            + u128::from(switches) * u128::from(self.disk.head_switch_ns);
        (sum % revolution_ns) as u64
    }

    /// Time from `now_ns` until the sector begins to go by under its head.
    fn wait_ns(&self, now_ns: u64, at: Place) -> u64 {
        let revolution_ns = self.disk.revolution_ns();
        let sector_ns = (self.skew_ns(at.track) + self.pass_ns(at.sector)) % revolution_ns;
        let angle_ns = (now_ns % revolution_ns + self.phase_ns) % revolution_ns;
        // A sector passes once in a revolution.
        (sector_ns + revolution_ns - angle_ns) % revolution_ns
    }

    /// The head goes by `sectors`, the first of which begins at `start_ns`; returns when it has.
    fn pass(&self, start_ns: u64, sectors: Range<u64>) -> u64 {
        let mut at = self.place(sectors.start);
        let (mut now_ns, mut left) = (start_ns, sectors.end - sectors.start);
        loop {
            let here = left.min(u64::from(self.disk.sectors_per_track - at.sector));
            debug_assert!(here > 0, "every track has a part of the transfer");
            now_ns += self.pass_ns(at.sector + here as u32) - self.pass_ns(at.sector);
            left -= here;
            if left == 0 {
                return now_ns;
            }
            let next = self.place((at.track + 1) * u64::from(self.disk.sectors_per_track));
            // The skew is made for this move, so a long transfer loses no revolution.
            now_ns += self.move_ns(at.cylinder, at.head, next);
            now_ns += self.wait_ns(now_ns, next);
            at = next;
        }
    }

    fn transfer_ns(&self, sectors: u64) -> u64 {
        let bits = u128::from(sectors * SECTOR_BYTES) * 1_000_000_000;
        (bits / u128::from(self.host.bytes_per_second)) as u64
    }

    /// Moves the head to the first of `sectors` and goes by all of them; returns the end.
    fn access(&mut self, from_ns: u64, sectors: Range<u64>) -> u64 {
        let at = self.place(sectors.start);
        let there_ns = from_ns + self.move_ns(self.cylinder, self.head, at);
        let begin_ns = there_ns + self.wait_ns(there_ns, at);
        let last = self.place(sectors.end - 1);
        let end_ns = self.pass(begin_ns, sectors);
        (self.cylinder, self.head) = (last.cylinder, last.head);
        end_ns
    }

    /// Reads `sectors`; returns the end, and how many came out of the read-ahead buffer.
    fn read(&mut self, start_ns: u64, sectors: Range<u64>) -> (u64, u32) {
        let command_ns = start_ns + self.host.command_overhead_ns;
        let Range { start, end } = sectors;
        let count = end - start;
        let ahead = self.read_ahead.filter(|ahead| {
            // The buffer reaches so far ahead of the host, and not past the end of the disk.
            let reach = ahead.sector + self.disk.read_ahead_bytes / SECTOR_BYTES;
            ahead.sector <= start && end <= reach.min(self.disk.sectors())
        });
        let (medium_ns, cached) = match ahead {
            Some(ahead) => {
                let read_ns = self.pass(ahead.since_ns, ahead.sector..end);
                let found = read_ns <= command_ns;
                (read_ns.max(command_ns), if found { count as u32 } else { 0 })
            }
            None => (self.access(command_ns, sectors), 0),
        };
        let last = self.place(end - 1);
        (self.cylinder, self.head) = (last.cylinder, last.head);
        if self.disk.read_ahead_bytes > 0 {
            // Read out of the buffer, the head is further on; the buffer moves with the host.
            let since_ns =
                ahead.map_or(medium_ns, |ahead| self.pass(ahead.since_ns, ahead.sector..end));
            self.read_ahead = Some(ReadAhead { sector: end, since_ns });
        }
        // The host takes the sectors as they come, the last one after it is read.
        let behind_ns = if cached > 0 { self.transfer_ns(count) } else { self.transfer_ns(1) };
        (medium_ns + behind_ns, cached)
    }

    /// Writes `sectors`; returns the end.
    fn write(&mut self, start_ns: u64, sectors: Range<u64>) -> u64 {
        // A write may change what the buffer holds.
        self.read_ahead = None;
        let received_ns = start_ns
            + self.host.command_overhead_ns
            + self.transfer_ns(sectors.end - sectors.start);
        // The arm moves while the data comes; the medium must not run ahead of the host.
        let first_ns = start_ns + self.host.command_overhead_ns;
        self.access(first_ns, sectors).max(received_ns)
    }
}

impl BlockDevice for DiskDevice {
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    fn queue_depth(&self) -> u32 {
        self.host.queue_depth
    }

    fn is_rotational(&self) -> bool {
        true
    }

    fn submit(&mut self, now_ns: u64, command: &Command) -> Result<Completion, DeviceError> {
        if now_ns < self.last_ns {
            return Err(DeviceError::TimeWentBackwards { now_ns, last_ns: self.last_ns });
        }
        self.last_ns = now_ns;
        self.statistics.submitted += 1;
        command.check(self.sectors())?;
        let start_ns = now_ns.max(self.busy_until_ns);
        let range = command.sector..command.sector + u64::from(command.sectors);
        let (done_ns, cached_sectors) = match command.operation {
            Operation::Read => self.read(start_ns, range),
            Operation::Write => (self.write(start_ns, range), 0),
            // Nothing is held back, and a disk has no use for a discard.
            Operation::Flush | Operation::Discard => (start_ns + self.host.command_overhead_ns, 0),
        };
        debug_assert!(
            done_ns >= start_ns + self.host.command_overhead_ns,
            "a command takes its overhead at least"
        );
        self.busy_until_ns = done_ns;
        self.statistics.host_busy_ns += self.transfer_ns(command.transfer_bytes() / SECTOR_BYTES);
        self.statistics.cache_read_sectors += u64::from(cached_sectors);
        self.statistics.count(command);
        Ok(Completion { start_ns, done_ns, cached_sectors, ..Completion::default() })
    }

    fn clone_box(&self) -> Box<dyn BlockDevice> {
        Box::new(self.clone())
    }

    fn statistics(&self) -> DeviceStatistics {
        self.statistics
    }

    /// There is no die to record.
    fn record_activity(&mut self, _on: bool) {}

    fn take_activity(&mut self) -> DeviceActivity {
        DeviceActivity::default()
    }
}

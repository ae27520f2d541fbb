//! What a device did when: its dies, its channels and its write cache, kept on request.
//!
//! The record is what the timelines of the device were booked with, to the nanosecond. Off, nothing is kept.

use serde::{Deserialize, Serialize};

/// What a die or a channel worked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ActivityKind {
    /// Pages read for the host, or to complete a page that a write replaces in part.
    Read,
    /// Pages programmed for the host.
    Program,
    /// Cleaning within a host write: copies and erases.
    ForegroundCleaning,
    /// Cleaning in idle time: copies and erases.
    BackgroundCleaning,
}

/// An interval of a die's time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Number of the die.
    pub die: u32,
    /// When it begins, nanoseconds.
    pub start_ns: u64,
    /// When it ends, nanoseconds.
    pub end_ns: u64,
    /// What the die did.
    pub kind: ActivityKind,
}

/// A transfer over a channel: one die has the bus.
///
/// The transfers of cleaning are booked as one, at its beginning. So a cleaning that a read suspends has its transfers
/// where they were booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelUse {
    /// Number of the channel.
    pub channel: u32,
    /// Number of the die that sends or takes the data.
    pub die: u32,
    /// When the transfer begins, nanoseconds.
    pub start_ns: u64,
    /// When it ends, nanoseconds.
    pub end_ns: u64,
    /// What the data are for.
    pub kind: ActivityKind,
}

/// What happened to the write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheEvent {
    /// Sectors of a write have arrived, those that overwrite waiting ones left out; or they were there as the record
    /// began.
    Enter {
        /// When, nanoseconds.
        at_ns: u64,
        /// Sectors that take room from now on.
        sectors: u32,
    },
    /// A program has brought sectors to the medium.
    Programmed {
        /// When the program ends, nanoseconds.
        at_ns: u64,
        /// Sectors that take no room any more.
        sectors: u32,
    },
    /// Sectors left the cache another way: a write past the cache took them along, or a discard covered them.
    Withdrawn {
        /// When, nanoseconds.
        at_ns: u64,
        /// Sectors that take no room any more.
        sectors: u32,
    },
    /// A flush was carried out.
    Flush {
        /// When the device begins to empty the cache, nanoseconds.
        start_ns: u64,
        /// When all is on the medium, nanoseconds.
        end_ns: u64,
        /// Sectors that it found in the cache.
        sectors: u32,
    },
    /// The supply failed: nothing is in the cache any more, and what was to happen later does not.
    Lost {
        /// When, nanoseconds.
        at_ns: u64,
        /// Sectors that had arrived, or were to, and were not on the medium.
        sectors: u32,
    },
}

impl CacheEvent {
    /// When it happens; of a flush, when it begins. Nanoseconds.
    pub fn at_ns(&self) -> u64 {
        match *self {
            Self::Enter { at_ns, .. }
            | Self::Programmed { at_ns, .. }
            | Self::Withdrawn { at_ns, .. }
            | Self::Lost { at_ns, .. } => at_ns,
            Self::Flush { start_ns, .. } => start_ns,
        }
    }
}

/// What a device did, each list in the order in which it was booked.
///
/// Bookings run ahead: a list may have a later interval before an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceActivity {
    /// Intervals of the dies; those of one die come in order and do not overlap.
    pub dies: Vec<Activity>,
    /// Transfers; those of one channel do not overlap.
    pub channels: Vec<ChannelUse>,
    /// Changes of the write cache.
    pub cache: Vec<CacheEvent>,
    /// Every transfer and every change of the cache that begins before it was told; nanoseconds.
    pub settled_ns: u64,
}

impl DeviceActivity {
    /// A die works; the last interval is made longer if it goes on with the same thing.
    pub(crate) fn die_works(&mut self, interval: Activity) {
        match self.dies.last_mut() {
            Some(last)
                if last.die == interval.die
                    && last.kind == interval.kind
                    && last.end_ns == interval.start_ns =>
            {
                last.end_ns = interval.end_ns;
            }
            _ => self.dies.push(interval),
        }
    }

    /// The last interval of a die, which was to end at `end_ns`, ends at `at_ns`; none is left of one that had not
    /// begun.
    pub(crate) fn cut_short(&mut self, die: u32, end_ns: u64, at_ns: u64) {
        let last = self.dies.iter().rposition(|interval| interval.die == die);
        let Some(last) = last.filter(|last| self.dies[*last].end_ns == end_ns) else { return };
        if self.dies[last].start_ns < at_ns {
            self.dies[last].end_ns = at_ns;
        } else {
            self.dies.remove(last);
        }
    }

    /// The supply fails at `at_ns`: of what was booked ahead nothing happens. `sectors` were in the cache.
    pub(crate) fn lose_power(&mut self, at_ns: u64, sectors: u32) {
        self.dies.retain(|interval| interval.start_ns < at_ns);
        self.dies.iter_mut().for_each(|interval| interval.end_ns = interval.end_ns.min(at_ns));
        self.channels.retain(|transfer| transfer.start_ns < at_ns);
        self.channels.iter_mut().for_each(|transfer| transfer.end_ns = transfer.end_ns.min(at_ns));
        self.cache.retain(|event| event.at_ns() <= at_ns);
        for event in &mut self.cache {
            if let CacheEvent::Flush { end_ns, .. } = event {
                *end_ns = at_ns.min(*end_ns);
            }
        }
        self.cache.push(CacheEvent::Lost { at_ns, sectors });
    }
}

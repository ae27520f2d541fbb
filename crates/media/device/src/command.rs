//! What a host asks of a device and what it answers.

use crate::slc::SlcStatistics;
use ftl::FtlError;
use nand::Counters;
use thiserror::Error;

/// Bytes of a sector, the unit of all addresses.
pub const SECTOR_BYTES: u64 = units::SECTOR_BYTES_U64;

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Data from the device.
    Read,
    /// Data to the device.
    Write,
    /// Everything written before is on the medium when it is done. Sector and length say nothing.
    Flush,
    /// The sectors' contents are no longer needed.
    Discard,
}

/// One command of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Kind of the command.
    pub operation: Operation,
    /// The first sector it concerns.
    pub sector: u64,
    /// Number of sectors; not zero but for a flush.
    pub sectors: u32,
    /// Force unit access: a write is on the medium, not in a cache, when it is done.
    pub fua: bool,
}

impl Command {
    /// A command without force unit access.
    pub const fn new(operation: Operation, sector: u64, sectors: u32) -> Self {
        Self { operation, sector, sectors, fua: false }
    }

    /// A read of sectors without force unit access.
    pub const fn read(sector: u64, sectors: u32) -> Self {
        Self::new(Operation::Read, sector, sectors)
    }

    /// A write of sectors without force unit access.
    pub const fn write(sector: u64, sectors: u32) -> Self {
        Self::new(Operation::Write, sector, sectors)
    }

    /// A flush of the device's cache.
    pub const fn flush() -> Self {
        Self::new(Operation::Flush, 0, 0)
    }

    /// A discard of sectors.
    pub const fn discard(sector: u64, sectors: u32) -> Self {
        Self::new(Operation::Discard, sector, sectors)
    }

    /// Bytes that cross the host interface.
    pub const fn transfer_bytes(&self) -> u64 {
        match self.operation {
            Operation::Read | Operation::Write => self.sectors as u64 * SECTOR_BYTES,
            Operation::Flush | Operation::Discard => 0,
        }
    }

    /// Checks that the command fits a device of `device_sectors`.
    ///
    /// # Errors
    /// [`DeviceError::Empty`]; [`DeviceError::PastTheEnd`].
    pub fn check(&self, device_sectors: u64) -> Result<(), DeviceError> {
        // A flush concerns no sectors, so there is nothing to check.
        if self.operation == Operation::Flush {
            return Ok(());
        }
        if self.sectors == 0 {
            return Err(DeviceError::Empty { sector: self.sector });
        }
        match self.sector.checked_add(u64::from(self.sectors)) {
            Some(end) if end <= device_sectors => Ok(()),
            _ => Err(DeviceError::PastTheEnd {
                sector: self.sector,
                sectors: self.sectors,
                device_sectors,
            }),
        }
    }
}

/// When a command is done, and where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Execution began: the command in front was out of the way.
    pub start_ns: u64,
    /// When the device answers that the command is done.
    pub done_ns: u64,
    /// Part of the time from submission to `done_ns` in which the command waited for cleaning,
    /// foreground or background, its own or that of a command in front.
    pub cleaning_ns: u64,
    /// Part of the time from `start_ns` to `done_ns` in which the command waited for cleaning.
    pub own_cleaning_ns: u64,
    /// Sectors that the device's cache gave or took, without a die having a part in it.
    pub cached_sectors: u32,
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The command has no sectors.
    #[error("the command at sector {sector} has no sectors")]
    Empty {
        /// First sector of the command.
        sector: u64,
    },
    /// Sectors that the device does not have.
    #[error("sectors {sector} to {} lie outside the device of {device_sectors} sectors", sector.saturating_add(u64::from(*sectors)) - 1)]
    PastTheEnd {
        /// First sector of the command.
        sector: u64,
        /// Sectors of the command.
        sectors: u32,
        /// Sectors of the device.
        device_sectors: u64,
    },
    /// Time went backwards: a mistake of the caller.
    #[error("a command came at {now_ns} ns, after one at {last_ns} ns")]
    TimeWentBackwards {
        /// Time of this command.
        now_ns: u64,
        /// Time of an earlier one.
        last_ns: u64,
    },
    /// The medium under the device failed.
    #[error("the medium failed at sector {sector}")]
    Medium {
        /// First sector of what could not be carried out.
        sector: u64,
    },
    /// The device has no power, or lost it before the command began.
    #[error("the device has no power")]
    PowerLost,
    /// The bytes of a page are no longer held: a power cut left an older version of it than was programmed.
    #[error("the bytes of the page at sector {sector} are lost: a power cut left an older version")]
    Gone {
        /// First sector of the page.
        sector: u64,
    },
    /// The scheduler gave the request up before the device had it.
    #[error("the scheduler cancelled the request")]
    Cancelled,
    /// The translation layer could not serve it; [`FtlError::NoFreeBlock`] is the end of life.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}

/// The flash of a device, all dies together, and what its controller keeps in memory for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFlash {
    /// Bytes of what one operation moves: a page of every plane of a die.
    pub page_bytes: u64,
    /// Bytes of what one operation erases: a block of every plane of a die.
    pub block_bytes: u64,
    /// Erases that a block stands.
    pub erase_cycles_max: u32,
    /// Erases of each block since it was made, die by die.
    pub erase_counts: Vec<u32>,
    /// The same of the blocks of SLC caches, which wear by themselves.
    pub slc_erase_counts: Vec<u32>,
    /// Blocks that the layers have free.
    pub free_blocks: u64,
    /// Tables of the translation layers and the write cache.
    pub ram_bytes: u64,
}

/// What a device has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStatistics {
    /// Commands that were taken.
    pub submitted: u64,
    /// Commands answered with a completion; the rest were errors.
    pub completed: u64,
    /// Read commands that were completed.
    pub reads: u64,
    /// Write commands that were completed.
    pub writes: u64,
    /// Flush commands that were completed.
    pub flushes: u64,
    /// Discard commands that were completed.
    pub discards: u64,
    /// Sectors read by the host.
    pub read_sectors: u64,
    /// Sectors written by the host.
    pub written_sectors: u64,
    /// Sectors discarded by the host.
    pub discarded_sectors: u64,
    /// Sectors that reads found in the cache.
    pub cache_read_sectors: u64,
    /// Sectors that writes overwrote or completed in a page that waited in the cache.
    pub cache_merged_sectors: u64,
    /// Pages of which a write replaced a part, so that the rest was read first.
    pub read_modify_writes: u64,
    /// Time in which the host interface moved data, nanoseconds.
    pub host_busy_ns: u64,
    /// Time in which dies worked, waits for a channel left out, all dies together, nanoseconds.
    pub die_busy_ns: u64,
    /// Cleaning within writes, all dies together, nanoseconds.
    pub foreground_cleaning_ns: u64,
    /// Cleaning in idle time, all dies together, nanoseconds.
    pub background_cleaning_ns: u64,
    /// Reads of the host that the first decode did not correct.
    pub retried_reads: u64,
    /// Further reads of the same pages.
    pub read_retries: u64,
    /// Programs and erases that stopped for a read.
    pub suspensions: u64,
    /// Times that the host started background operations.
    pub bkops: u64,
    /// Pages that the SLC caches took, folded and found stale.
    pub slc: SlcStatistics,
    /// Operations of the SLC caches; [`DeviceStatistics::chip`] has them, too.
    pub slc_chip: Counters,
    /// Blocks cleaned or merged by the translation layers.
    pub cleaned_blocks: u64,
    /// Operations of all chips; one operation moves a page of every plane of its die.
    pub chip: Counters,
}

impl DeviceStatistics {
    /// Counts a command that was completed.
    pub(crate) fn count(&mut self, command: &Command) {
        self.completed += 1;
        let sectors = u64::from(command.sectors);
        match command.operation {
            Operation::Read => {
                self.reads += 1;
                self.read_sectors += sectors;
            }
            Operation::Write => {
                self.writes += 1;
                self.written_sectors += sectors;
            }
            Operation::Flush => self.flushes += 1,
            Operation::Discard => {
                self.discards += 1;
                self.discarded_sectors += sectors;
            }
        }
        debug_assert_eq!(
            self.completed,
            self.reads + self.writes + self.flushes + self.discards,
            "completed commands are those of all kinds"
        );
        debug_assert!(self.completed <= self.submitted, "what is completed was submitted");
    }
}

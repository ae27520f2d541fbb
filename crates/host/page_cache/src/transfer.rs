//! What a call transfers, how, and what came of it.

use block::BioTimes;
use process::Process;
use sched::{Bio, Direction};

/// Flags of a bio, by what it is for. Source: `include/linux/fs.h`, Linux 3.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BioKind {
    /// `READ`: synchronous, and the scheduler may idle after it.
    Read,
    /// `WRITE_ODIRECT`: synchronous, and more may follow.
    DirectWrite,
    /// `WRITE_SYNC`: synchronous, and nothing will follow.
    SyncWrite,
    /// `WRITE`: asynchronous, from a flusher.
    WriteBack,
}

impl BioKind {
    /// A bio of this kind that a process submits.
    pub(crate) fn bio(self, process: Process, sector: u64, sectors: u32) -> Bio {
        Bio {
            pid: process.pid,
            direction: if self == Self::Read { Direction::Read } else { Direction::Write },
            // Plain `WRITE` alone is asynchronous.
            sync: self != Self::WriteBack,
            // `WRITE_SYNC` carries `REQ_NOIDLE`, `WRITE_ODIRECT` does not: the next direct write
            // follows closely.
            noidle: self == Self::SyncWrite,
            class: process.class,
            level: process.level,
            sector,
            sectors,
        }
    }
}

/// How a file was opened, of what matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Through the page cache; written back later.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache, and a write returns when the medium has it (`O_SYNC`).
    Sync,
}

/// What a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes read or written; fewer than asked for at the end of the file.
    pub bytes: u64,
    /// From the call to its return, nanoseconds.
    pub latency_ns: u64,
    /// The bio that was complete last, of those the call submitted and waited for.
    pub slowest: Option<BioTimes>,
}

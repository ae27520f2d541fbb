//! What a file system supplies so that its files can live in the page cache.

use crate::direct::BIO_PAGES_MAX;
use crate::transfer::BioKind;
use crate::{FileError, Mapping, Process};
use block::{Awaited, Plug};
use process::run_as;
use sched::QuasiAsync;
use std::ops::Range;
use std::pin::Pin;

/// A future that a [`Backing`] returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To have fewer dirty pages; no call waits for it (`WB_SYNC_NONE`).
    Cleaning,
    /// A call waits until the medium has them (`WB_SYNC_ALL`).
    Integrity,
}

/// For whom pages are read or written, and the plug of that task.
pub struct Task {
    /// The process or the flusher.
    pub process: Process,
    /// Bios of the task that the scheduler has not seen; they go before the task sleeps.
    pub plug: Plug,
}

impl Task {
    /// The task of a process, with an empty plug.
    pub fn new(process: Process) -> Self {
        Self { process, plug: Plug::new() }
    }

    /// Carries out what a backing does for the task, as the task's process: a file system under the
    /// backing finds it in [`process::current`].
    pub(crate) async fn carry_out<T>(&self, work: Pending<'_, T>) -> T {
        run_as(self.process, work).await
    }
}

impl Purpose {
    pub(crate) fn bio_kind(self) -> BioKind {
        match self {
            // The flag decides in which class of the pool and of the scheduler the bio counts; see
            // `BioKind`.
            Self::Cleaning => BioKind::WriteBack,
            Self::Integrity => BioKind::SyncWrite,
        }
    }
}

/// The operations under a file (`struct address_space_operations`).
///
/// Pages are handed over by range. The cache has locked those to read and put those to write under
/// write-back; the backing says with [`Mapping::end_read`] and [`Mapping::end_write`] when it is
/// done with a page, before it returns or later from a task of its own. While an operation is carried out,
/// the process that it is for is the one that runs ([`process::current`]).
pub trait Backing {
    /// Pages of the file, the last one counted whole: read-ahead ends there.
    fn pages(&self) -> u64;

    /// Begins to read pages.
    fn read_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        task: &'a Task,
    ) -> Pending<'a, ()>;

    /// Begins to write pages.
    fn write_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        purpose: Purpose,
        task: &'a Task,
    ) -> Pending<'a, ()>;

    /// Pages that may be handed over at once to be written.
    fn pages_at_once(&self) -> u64 {
        BIO_PAGES_MAX
    }

    /// Writes the file's attributes, if they changed in memory (`write_inode` of the super block's
    /// operations).
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`], if the medium failed or has no space.
    fn write_attributes(&self) -> Pending<'_, Result<(), FileError>> {
        Box::pin(async { Ok(()) })
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`], if the medium failed.
    fn flush(&self, process: Process) -> Pending<'_, Result<(), FileError>>;

    /// Whether the cache may read pages that no call has asked for yet.
    fn reads_ahead(&self) -> bool {
        true
    }

    /// Lets bios go that wait in the plug of a task about to sleep.
    fn unplug(&self, _task: &Task) {}

    /// What becomes of asynchronous writes of pages that a task has begun to wait for; none if nothing does.
    fn quasi_async(&self) -> Option<&'static QuasiAsync> {
        None
    }

    /// A task waits for pages that are being written, in ascending order and apart, as long as what is returned
    /// lives.
    fn await_pages(&self, _pages: &[Range<u64>], _waiter: Process) -> Option<Awaited> {
        None
    }

    /// True if so many writes are queued that one who need not write should not.
    fn is_write_congested(&self) -> bool {
        false
    }

    /// True if so many reads are queued that one who need not read should not.
    fn is_read_congested(&self) -> bool {
        false
    }
}

//! What the tool works on, once it is open: the calls that it makes on it.

use crate::options::Options;
use crate::report::MediumWork;
use page_cache::{BlockFile, FileError, Mode, PAGE_BYTES, Process};
use thiserror::Error;

/// A call of the tool that failed, which ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{call}: {error}")]
pub struct CallError {
    /// Name of the call.
    pub call: &'static str,
    /// What it returned.
    pub error: FileError,
}

/// A function that says which call an error is of.
pub(crate) fn failed<E: Into<FileError>>(call: &'static str) -> impl Fn(E) -> CallError {
    move |error| CallError { call, error: error.into() }
}

/// An open target. Offsets are those of the region that the process was started on.
pub(crate) trait OpenTarget {
    /// Opens it; of a directory, makes the file. False if the file is there with all its bytes, so that it
    /// need not be written.
    async fn open(&mut self) -> Result<bool, CallError>;

    async fn read(&mut self, offset: u64, bytes: u64) -> Result<(), CallError>;

    async fn write(&mut self, offset: u64, bytes: u64) -> Result<(), CallError>;

    async fn fsync(&self) -> Result<(), CallError>;

    async fn fdatasync(&self) -> Result<(), CallError>;

    /// `POSIX_FADV_RANDOM`.
    fn advise_random(&self);

    /// `POSIX_FADV_DONTNEED`.
    fn advise_not_needed(&self, offset: u64, bytes: u64);

    /// Draws the bytes that the next writes write.
    fn draw_bytes(&mut self);

    /// What the medium has done so far, if that is counted for each process.
    fn medium_work(&self) -> Option<MediumWork>;

    /// The process exits: its file is closed.
    async fn exit(&mut self) -> Result<(), CallError>;
}

/// Bytes of a block device. Nothing has to be opened, and their contents mean nothing.
pub(crate) struct OpenDevice {
    file: BlockFile,
    process: Process,
    mode: Mode,
}

impl OpenDevice {
    pub(crate) fn new(file: BlockFile, process: Process, options: &Options) -> Self {
        let mode = match (options.is_direct, options.is_synchronous) {
            (true, _) => Mode::Direct,
            (false, true) => Mode::Sync,
            (false, false) => Mode::Buffered,
        };
        Self { file, process, mode }
    }
}

impl OpenTarget for OpenDevice {
    async fn open(&mut self) -> Result<bool, CallError> {
        Ok(true)
    }

    async fn read(&mut self, offset: u64, bytes: u64) -> Result<(), CallError> {
        let read = self.file.read(self.process, offset, bytes, self.mode).await;
        read.map(drop).map_err(failed("read"))
    }

    async fn write(&mut self, offset: u64, bytes: u64) -> Result<(), CallError> {
        let written = self.file.write(self.process, offset, bytes, self.mode).await;
        written.map(drop).map_err(failed("write"))
    }

    async fn fsync(&self) -> Result<(), CallError> {
        self.file.fsync(self.process).await.map(drop).map_err(failed("fsync"))
    }

    async fn fdatasync(&self) -> Result<(), CallError> {
        // A device has no attributes that could be left out.
        self.fsync().await
    }

    fn advise_random(&self) {
        self.file.advise_random(self.process);
    }

    /// Drops the whole pages of a request from the cache, as `POSIX_FADV_DONTNEED` does with clean ones
    /// (`SYSCALL_DEFINE(fadvise64_64)` of mm/fadvise.c: a part of a page at either end stays).
    fn advise_not_needed(&self, offset: u64, bytes: u64) {
        let first = offset.div_ceil(PAGE_BYTES);
        let end = (offset + bytes) / PAGE_BYTES;
        if first < end {
            self.file.mapping().invalidate(&(first..end));
        }
    }

    fn draw_bytes(&mut self) {}

    fn medium_work(&self) -> Option<MediumWork> {
        None
    }

    async fn exit(&mut self) -> Result<(), CallError> {
        Ok(())
    }
}

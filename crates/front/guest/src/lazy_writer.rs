//! The lazy writer: starts the write-out of copied files some time after they were copied.
//!
//! It approximates the lazy writer of the cache manager of Windows. Once a second that writer queues an
//! eighth of the dirty pages of the system cache (Russinovich, Solomon, Ionescu: Windows Internals, sixth
//! edition, part 2, chapter 11, write-back caching and lazy writing). Here the same share of the bytes of
//! copied files goes out, the file that was copied first before the others. Left out are metadata, which
//! the flusher of Linux writes, and the extra writes of Windows above its limit of dirty pages, which no
//! disk of 100 MiB reaches.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

/// Time from one start of write-out to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Each time one part in so many of the dirty bytes goes out.
const SHARE: u64 = 8;

/// Write-out of a file is in multiples of this, as the cache manager of Windows writes at most 64 KiB at
/// once; so this is also the least that goes out while anything is dirty.
const UNIT_BYTES: u64 = 64 * 1024;

/// A run of bytes whose write-out is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    file: usize,
    offset_bytes: u64,
    length_bytes: u64,
}

/// The bytes of copied files whose write-out was not started, by file, the oldest file first.
///
/// A copy writes its file from the beginning to the end, so what is dirty of a file is one range.
#[derive(Debug, Default)]
struct Dirty {
    ranges: VecDeque<Range>,
    total_bytes: u64,
}

impl Dirty {
    /// Adds bytes that a copy appended to a file.
    fn append(&mut self, file: usize, offset_bytes: u64, length_bytes: u64) {
        self.total_bytes += length_bytes;
        // A file that is still being copied is among the youngest.
        match self.ranges.iter_mut().rev().find(|range| range.file == file) {
            Some(range) => range.length_bytes += length_bytes,
            None => self.ranges.push_back(Range { file, offset_bytes, length_bytes }),
        }
    }

    /// Forgets a file that is deleted; returns its bytes that are not written any more.
    fn forget(&mut self, file: usize) -> u64 {
        let dropped_bytes = self
            .ranges
            .iter()
            .filter(|range| range.file == file)
            .map(|range| range.length_bytes)
            .sum();
        self.ranges.retain(|range| range.file != file);
        self.total_bytes -= dropped_bytes;
        dropped_bytes
    }

    /// Takes out an eighth of the dirty bytes, from the oldest file on, in units of 64 KiB or a file's rest.
    fn take_share(&mut self) -> Vec<Range> {
        let mut wanted_bytes = self.total_bytes.div_ceil(SHARE).next_multiple_of(UNIT_BYTES);
        let mut taken = Vec::new();
        while wanted_bytes > 0
            && let Some(oldest) = self.ranges.front_mut()
        {
            let length_bytes = oldest.length_bytes.min(wanted_bytes.next_multiple_of(UNIT_BYTES));
            taken.push(Range { length_bytes, ..*oldest });
            oldest.offset_bytes += length_bytes;
            oldest.length_bytes -= length_bytes;
            if oldest.length_bytes == 0 {
                self.ranges.pop_front();
            }
            self.total_bytes -= length_bytes;
            wanted_bytes = wanted_bytes.saturating_sub(length_bytes);
        }
        taken
    }
}

/// What became of the bytes that copies wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Bytes whose write-out the lazy writer started.
    pub(crate) started_bytes: u64,
    /// Bytes of files that were deleted before their write-out was started.
    pub(crate) unwritten_bytes: u64,
    /// Bytes that were left to the final sync.
    pub(crate) left_bytes: u64,
    /// Most bytes that were ever dirty when the writer looked.
    pub(crate) dirty_bytes_maximum: u64,
}

#[derive(Debug, Default)]
struct State {
    dirty: Dirty,
    figures: Figures,
    is_over: bool,
}

/// The thread's view of the files that are copied and deleted.
#[derive(Debug, Default)]
pub(crate) struct LazyWriter {
    state: Mutex<State>,
    over: Condvar,
}

impl LazyWriter {
    /// A copy appended bytes to a file.
    pub(crate) fn appended(&self, file: usize, offset_bytes: u64, length_bytes: u64) {
        self.lock().dirty.append(file, offset_bytes, length_bytes);
    }

    /// A file is about to be deleted.
    pub(crate) fn deletes(&self, file: usize) {
        let mut state = self.lock();
        let dropped_bytes = state.dirty.forget(file);
        state.figures.unwritten_bytes += dropped_bytes;
    }

    /// Starts write-out once a second until `finish` is called. `path` names a file.
    ///
    /// Fails when a file cannot be opened or its write-out cannot be started.
    pub(crate) fn run(&self, path: impl Fn(usize) -> PathBuf) -> io::Result<()> {
        loop {
            let mut state = self.lock();
            if !state.is_over {
                state = self
                    .over
                    .wait_timeout_while(state, INTERVAL, |state| !state.is_over)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            if state.is_over {
                return Ok(());
            }
            state.figures.dirty_bytes_maximum =
                state.figures.dirty_bytes_maximum.max(state.dirty.total_bytes);
            let ranges = state.dirty.take_share();
            // Copies go on while write-out is started: it waits when the disk's queue is full.
            drop(state);
            for range in ranges {
                let is_there = start_write_out(&path(range.file), range)?;
                let figures = &mut self.lock().figures;
                // Another process may have deleted the file after its range was taken out.
                let of = if is_there {
                    &mut figures.started_bytes
                } else {
                    &mut figures.unwritten_bytes
                };
                *of += range.length_bytes;
            }
        }
    }

    /// Ends the writer; what is dirty is left to the final sync.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.figures.left_bytes = state.dirty.total_bytes;
        self.over.notify_all();
    }

    /// What became of the bytes.
    pub(crate) fn figures(&self) -> Figures {
        self.lock().figures
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts write-out of a range without waiting for it; false if the file is gone.
///
/// The advice `DONTNEED` starts write-out by the same call of the kernel as
/// `sync_file_range(SYNC_FILE_RANGE_WRITE)`: `__filemap_fdatawrite_range` with `WB_SYNC_NONE` (Linux 6.12,
/// mm/fadvise.c and fs/sync.c). It also drops clean pages, which nothing here reads again. It is taken because
/// this program has no unsafe code, and the library of safe system calls has no `sync_file_range`.
fn start_write_out(path: &std::path::Path, range: Range) -> io::Result<bool> {
    // Opened for reading, so that closing it changes nothing of the file.
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    fadvise(&file, range.offset_bytes, NonZeroU64::new(range.length_bytes), Advice::DontNeed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn an_eighth_of_the_dirty_bytes_goes_out_oldest_file_first() {
        let mut dirty = Dirty::default();
        dirty.append(7, 0, MIB / 2);
        dirty.append(3, 0, 6 * MIB);
        dirty.append(7, MIB / 2, MIB / 2);
        dirty.append(5, 0, MIB);
        assert_eq!(dirty.take_share(), [Range { file: 7, offset_bytes: 0, length_bytes: MIB }],);
        assert_eq!(dirty.total_bytes, 7 * MIB);
        assert_eq!(
            dirty.take_share(),
            [Range { file: 3, offset_bytes: 0, length_bytes: 14 * UNIT_BYTES }],
        );
        assert_eq!(dirty.ranges[0].offset_bytes, 14 * UNIT_BYTES);
    }

    #[test]
    fn little_that_is_dirty_goes_out_by_whole_units() {
        let mut dirty = Dirty::default();
        dirty.append(0, 0, 1000);
        dirty.append(1, 0, 3 * UNIT_BYTES);
        // The rest of a file is less than a unit: the next one fills the share up.
        assert_eq!(
            dirty.take_share(),
            [
                Range { file: 0, offset_bytes: 0, length_bytes: 1000 },
                Range { file: 1, offset_bytes: 0, length_bytes: UNIT_BYTES },
            ],
        );
        assert_eq!(dirty.take_share().len(), 1);
        assert_eq!(dirty.take_share().len(), 1);
        assert_eq!(dirty.take_share(), []);
        assert_eq!(dirty.total_bytes, 0);
    }

    #[test]
    fn a_deleted_file_is_not_written() {
        let writer = LazyWriter::default();
        writer.appended(0, 0, 100);
        writer.appended(1, 0, 10);
        writer.deletes(0);
        writer.finish();
        let figures = writer.figures();
        assert_eq!((figures.unwritten_bytes, figures.left_bytes), (100, 10));
    }
}

//! How much may be dirty, and what a kernel of some age does about it.
//!
//! Source: `global_dirty_limits` of `mm/page-writeback.c`, Linux 3.4. Dirtyable memory is what the
//! board has free for the page cache; it does not change in a run.

use crate::PAGE_BYTES;
use board::Board;

/// Limits, in pages, and the ways of the kernel.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a way of some kernels, on its own")]
pub(crate) struct Limits {
    /// Dirty pages above which the flusher writes.
    pub(crate) background: u64,
    /// Dirty pages and pages being written that writers must not exceed.
    pub(crate) dirty: u64,
    /// Pages dirtied after which a writer of a kernel before 3.2 looks at the limits.
    pub(crate) unchecked: u64,
    pub(crate) era: Era,
    /// Writers wait until a page is no longer being written: Linux 3.0 to 3.8, for all devices.
    pub(crate) has_stable_pages: bool,
    /// Read-ahead looks for traces of a stream (2.6.31 and later).
    pub(crate) looks_back: bool,
    /// Background writers turn away from a congested queue (before 2.6.32) instead of waiting for
    /// a request.
    pub(crate) minds_congestion: bool,
    /// The flusher's interval counts from the first dirty page (2.6.36 and later); before, it is a
    /// clock that always runs.
    pub(crate) sleeps_when_clean: bool,
    pub(crate) interval_ns: u64,
    pub(crate) expire_ns: u64,
    pub(crate) tick_ns: u64,
    pub(crate) hz: u64,
}

/// How writers are kept from dirtying faster than the device writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// They write pages themselves (before 3.2).
    WriterWrites,
    /// They pause, so that all together keep the pace of the device (3.2 and later).
    WriterPauses,
}

const CENTISECOND_NS: u64 = 10_000_000;

impl Limits {
    pub(crate) fn new(board: &Board) -> Self {
        let write_back = &board.writeback;
        let dirtyable = board.available_bytes / PAGE_BYTES;
        let share = |percent: u32| dirtyable * u64::from(percent) / 100;
        // Two at least, so that there is room for a background limit below it.
        let dirty = share(write_back.dirty_ratio).max(2);
        // The board's check keeps the ratio below the other; small memories round to the same number.
        let background = match share(write_back.dirty_background_ratio).max(1) {
            background if background >= dirty => dirty / 2,
            background => background,
        };
        // `writeback_set_ratelimit`, Linux 2.6.32: a share of memory, at most 4 MiB.
        let memory = board.memory_bytes / PAGE_BYTES;
        let unchecked = (memory / (u64::from(board.processors.count) * 32)).clamp(16, 1024);
        let is_from = |major, minor, patch| board.is_kernel_at_least((major, minor, patch));
        Self {
            background,
            dirty,
            unchecked,
            era: if is_from(3, 2, 0) { Era::WriterPauses } else { Era::WriterWrites },
            // `grab_cache_page_write_begin` waits since 3.0; from 3.9 on only devices that compute
            // checksums ask for it.
            has_stable_pages: is_from(3, 0, 0) && !is_from(3, 9, 0),
            // `try_context_readahead` came with 2.6.31.
            looks_back: is_from(2, 6, 31),
            // `pdflush` set `nonblocking`; the flusher threads of 2.6.32 sleep in `get_request`
            // instead.
            minds_congestion: !is_from(2, 6, 32),
            sleeps_when_clean: is_from(2, 6, 36),
            interval_ns: u64::from(write_back.dirty_writeback_centisecs) * CENTISECOND_NS,
            expire_ns: u64::from(write_back.dirty_expire_centisecs) * CENTISECOND_NS,
            tick_ns: 1_000_000_000 / u64::from(board.hz),
            hz: u64::from(board.hz),
        }
    }

    /// Pages up to which no writer is held (`dirty_freerun_ceiling`).
    pub(crate) fn free_run(&self) -> u64 {
        u64::midpoint(self.background, self.dirty)
    }
}

//! Who waits for pages that are being written, as far as the block layer is told.
//!
//! Write-back is asynchronous, for nobody waits for it when it is submitted. A task that comes to wait for it
//! depends on a request that the scheduler puts behind what others wait for. The paper on quasi-asynchronous I/O
//! (Jeong, Lee, Kim, FAST 2015) names these dependencies; here are those of pages:
//!
//! | a task waits | where | paper |
//! |---|---|---|
//! | `fsync`, `sync`, `O_SYNC`, a direct transfer: pages sent before | [`Mapping::write_and_wait`] | `D_sync` |
//! | a page that is written again, while it must not change | `lock_page` of `write.rs` | `D_data` |
//! | a page that is cut off, or held by a file system | `truncate`, `lock_pages` | `D_data` |
//! | a writer that is held for dirty pages | `throttle.rs` | none: an extension |
//!
//! Journals and discards are not modelled here, and neither are the paper's waits for them.

use crate::page_tree::Tag;
use crate::{Mapping, PageCache, Process};
use block::Awaited;
use std::ops::Range;

/// A task begins to wait for pages that are being written; none if the block layer need not know.
pub(crate) fn begin(
    cache: &PageCache,
    mapping: u32,
    pages: &[Range<u64>],
    waiter: Process,
) -> Option<Awaited> {
    let backing = cache.backing(mapping);
    let is_told = backing.quasi_async().is_some_and(|way| way.promotes_waits);
    if is_told && !pages.is_empty() { backing.await_pages(pages, waiter) } else { None }
}

impl Mapping {
    /// A call will wait for all pages of a range that are being written now.
    ///
    /// The kernel waits for them one by one (`filemap_fdatawait_range`, `truncate_inode_pages_range`), so a scheduler that learned of each wait
    /// alone would finish one page before it hurries for the next. What the call waits for is known from the
    /// beginning, and told at once: a choice of this model.
    pub(crate) fn begin_waits(&self, pages: &Range<u64>, waiter: Process) -> Option<Awaited> {
        let is_told = self.backing().quasi_async().is_some_and(|way| way.promotes_waits);
        let runs = if is_told { self.tagged_runs(Tag::WriteBack, pages, u64::MAX) } else { vec![] };
        begin(&self.cache, self.number, &runs, waiter)
    }

    /// A writer is held until pages are cleaned, about as many as it dirtied since it was held last.
    ///
    /// `balance_dirty_pages` waits for a time and for no page. Here it waits for the first pages of its own file
    /// that are being written.
    pub(crate) fn begin_throttling(&self, owed_pages: u64, writer: Process) -> Option<Awaited> {
        let is_told = self.backing().quasi_async().is_some_and(|way| way.promotes_throttling);
        if !is_told {
            return None;
        }
        let runs = self.tagged_runs(Tag::WriteBack, &(0..u64::MAX), owed_pages.max(1));
        begin(&self.cache, self.number, &runs, writer)
    }
}

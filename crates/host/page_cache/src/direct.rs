//! Transfers between a process' memory and a device, past the page cache.
//!
//! Source: `fs/direct-io.c` and `bio_get_nr_vecs` of `fs/bio.c`, Linux 3.4: bios as large as the
//! queue and 256 pages allow, submitted under the task's plug, then all waited for.

use crate::transfer::BioKind;
use crate::{FileError, Process};
use block::{BioTimes, Handle, Plug, Plugging, RequestQueue};
use device::SECTOR_BYTES;
use sim::Cpus;
use std::ops::Range;

/// Pages of the largest bio (`BIO_MAX_PAGES` of `include/linux/bio.h`).
pub(crate) const BIO_PAGES_MAX: u64 = 256;

/// Requests that make a plug go when one more comes (`BLK_MAX_REQUEST_COUNT` of `block/blk-core.c`).
const PLUG_REQUESTS: usize = 16;

/// A device as it is read and written directly.
pub(crate) struct DirectPath<'a> {
    pub(crate) cpus: &'a Cpus,
    pub(crate) queue: &'a RequestQueue,
    pub(crate) bio_submit_ns: u64,
    pub(crate) bio_complete_ns: u64,
}

impl DirectPath<'_> {
    /// Transfers sectors and waits for all of them; `overhead_ns` is processor time that comes
    /// before the first bio. Returns the times of the bio that was complete last.
    pub(crate) async fn transfer(
        &self,
        process: Process,
        kind: BioKind,
        sectors: Range<u64>,
        overhead_ns: u64,
    ) -> Result<Option<BioTimes>, FileError> {
        let options = self.queue.options();
        // `bio_get_nr_vecs`: what the queue takes in one request.
        let most = u64::from(options.max_sectors).clamp(1, sectors_of_pages(BIO_PAGES_MAX));
        let bios = (sectors.end - sectors.start).div_ceil(most) as usize;
        let mut handles = Handles::default();
        let plug = Plug::new();
        // The scheduler sees nothing of a plugged bio before the plug goes, so the bios up to the one
        // that makes it go are paid for at once.
        let mut batch = match options.plugging {
            Plugging::Task => PLUG_REQUESTS + 1,
            Plugging::None | Plugging::Queue => 1,
        };
        let mut unpaid_ns = overhead_ns;
        let mut at = sectors.start;
        while at < sectors.end {
            let paid = batch.min(bios - handles.len());
            self.cpus.run(unpaid_ns + paid as u64 * self.bio_submit_ns).await;
            unpaid_ns = 0;
            for _ in 0..paid {
                let length = most.min(sectors.end - at) as u32;
                let bio = kind.bio(process, at, length);
                handles.push(self.queue.submit(bio, Some(&plug)).await);
                at += u64::from(length);
            }
            // The first batch had one more: it found the plug empty.
            batch = batch.min(PLUG_REQUESTS);
        }
        self.queue.unplug(&plug);
        // A call of no bytes has paid for nothing yet.
        self.cpus.run(unpaid_ns).await;
        self.complete(&handles).await
    }

    /// Waits for bios and pays for their ends as they come, so that the end of one overlaps with
    /// the device's work on the next.
    async fn complete(&self, handles: &Handles) -> Result<Option<BioTimes>, FileError> {
        let mut slowest: Option<&Handle> = None;
        let mut outcome = Ok(());
        let mut next = 0;
        while next < handles.len() {
            let first = next;
            // The first is waited for, those done meanwhile are taken along: one interrupt ends
            // several bios.
            while let Some(handle) = handles.get(next)
                && (next == first || handle.is_done())
            {
                match handle.ended().await {
                    Ok(()) => {
                        let is_later =
                            |other: &Handle| other.times().complete_ns < handle.times().complete_ns;
                        if slowest.is_none_or(is_later) {
                            slowest = Some(handle);
                        }
                    }
                    // The first error counts, but all bios must end before the call returns.
                    Err(error) => outcome = outcome.and(Err(error.into())),
                }
                next += 1;
            }
            self.cpus.run((next - first) as u64 * self.bio_complete_ns).await;
        }
        outcome.map(|()| slowest.map(Handle::times))
    }
}

/// The bios of a transfer, in order. Most transfers have one, which takes no list.
#[derive(Default)]
struct Handles {
    first: Option<Handle>,
    others: Vec<Handle>,
}

impl Handles {
    fn push(&mut self, handle: Handle) {
        if self.first.is_none() {
            self.first = Some(handle);
        } else {
            self.others.push(handle);
        }
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    fn get(&self, index: usize) -> Option<&Handle> {
        match index.checked_sub(1) {
            None => self.first.as_ref(),
            Some(index) => self.others.get(index),
        }
    }
}

/// Sectors of a number of pages.
pub(crate) fn sectors_of_pages(pages: u64) -> u64 {
    pages * (crate::PAGE_BYTES / SECTOR_BYTES)
}

//! The pages of the block device under the page cache.

use block_medium::{BlockMedium, MediumError, WriteFlags};
use fs_api::Errno;
use page_cache::{Backing, FileError, Mapping, PAGE_BYTES, Pending, Process, Purpose, Task};
use sim::Sim;
use std::ops::Range;
use std::rc::Rc;

/// Page and block of the device go together. Pages in a row go as one bio: the kernel makes one of each, and
/// the queue joins them to the same requests.
pub(crate) struct DevicePages {
    sim: Sim,
    medium: Rc<dyn BlockMedium>,
    pages: u64,
}

impl DevicePages {
    pub(crate) fn new(sim: &Sim, medium: Rc<dyn BlockMedium>, pages: u64) -> Self {
        Self { sim: sim.clone(), medium, pages }
    }
}

fn failed(_: MediumError) -> FileError {
    FileError::FileSystem(Errno::Eio)
}

impl Backing for DevicePages {
    fn pages(&self) -> u64 {
        self.pages
    }

    /// `read_mapping_page` reads the page that is asked for, and no other.
    fn reads_ahead(&self) -> bool {
        false
    }

    fn read_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        _: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(async move {
            let count = (pages.end - pages.start) as u32;
            let read = self.medium.read(pages.start, count).await;
            let ended = read.map(|bytes| {
                for (page, bytes) in pages.clone().zip(bytes.chunks_exact(PAGE_BYTES as usize)) {
                    let _ = mapping.with_bytes(page, |stored| stored.copy_from_slice(bytes));
                }
            });
            mapping.end_read(pages, ended.map_err(failed));
        })
    }

    fn write_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        purpose: Purpose,
        _: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(async move {
            // A bio holds no more than a request of the queue.
            let most = u64::from(self.medium.bio_blocks_max()).max(1);
            let is_sync = purpose == Purpose::Integrity;
            let flags = WriteFlags { is_sync, ..WriteFlags::default() };
            let mut at = pages.start;
            while at < pages.end {
                let part = at..(at + most).min(pages.end);
                at = part.end;
                // Copied at submission; a change that comes later makes the page dirty again.
                let mut bytes = Vec::with_capacity((part.end - part.start) as usize * 4096);
                for page in part.clone() {
                    let _ = mapping.with_bytes(page, |stored| bytes.extend_from_slice(stored));
                }
                match self.medium.write(part.start, bytes, flags).await {
                    Ok(pending) => {
                        let mapping = mapping.clone();
                        // Write-back of the pages ends with their bio, while the submitter goes on.
                        self.sim.spawn_named("block2mtd bio end", async move {
                            mapping.end_write(part, pending.await.map_err(failed));
                        });
                    }
                    Err(error) => mapping.end_write(part, Err(failed(error))),
                }
            }
        })
    }

    fn flush(&self, _: Process) -> Pending<'_, Result<(), FileError>> {
        Box::pin(async move { self.medium.flush().await.map_err(failed) })
    }
}

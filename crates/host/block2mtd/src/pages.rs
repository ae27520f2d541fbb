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
            debug_assert!(pages.end <= self.pages, "pages are read of the device");
            let count = (pages.end - pages.start) as u32;
            let read = self.medium.read(pages.start, count).await;
            let ended = read.map(|bytes| {
                let asked = count as usize * PAGE_BYTES as usize;
                debug_assert_eq!(bytes.len(), asked, "the device gives what it is asked for");
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
            debug_assert!(pages.end <= self.pages, "pages are written to the device");
            // A bio holds no more than a request of the queue.
            let most = u64::from(self.medium.bio_blocks_max()).max(1);
            let is_sync = purpose == Purpose::Integrity;
            let flags = WriteFlags { is_sync, ..WriteFlags::default() };
            let mut at = pages.start;
            while at < pages.end {
                let part = at..(at + most).min(pages.end);
                at = part.end;
                // Copied at submission; a change that comes later makes the page dirty again.
                let mut bytes =
                    Vec::with_capacity((part.end - part.start) as usize * PAGE_BYTES as usize);
                for page in part.clone() {
                    let _ = mapping.with_bytes(page, |stored| bytes.extend_from_slice(stored));
                }
                let given = (part.end - part.start) * PAGE_BYTES;
                debug_assert_eq!(bytes.len() as u64, given, "the cache has the bytes of each page");
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

#[cfg(test)]
mod tests {
    use super::{DevicePages, PAGE_BYTES};
    use block_medium::MemoryMedium;
    use board::Board;
    use page_cache::{Backing, CacheOptions, PageCache, Process, Purpose, Task};
    use sim::{Cpus, Simulation};
    use std::ops::Range;
    use std::rc::Rc;

    /// Reads or writes pages of a device that has four, in blocks of so many bytes.
    fn transfer(block_bytes: u64, stores_bytes: bool, pages: Range<u64>, is_write: bool) {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let board = Rc::new(Board::without_costs());
        let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
        let cache = PageCache::new(&sim, &cpus, &board, CacheOptions { stores_bytes });
        let medium = MemoryMedium::new(block_bytes as usize, 8 * PAGE_BYTES);
        let backing = Rc::new(DevicePages::new(&sim, Rc::new(medium), 4));
        let mapping = cache.clone().add_mapping(cache.add_device(), backing.clone());
        sim.clone().spawn(async move {
            let task = Task::new(Process::new(1));
            if is_write {
                backing.write_pages(&mapping, pages, Purpose::Cleaning, &task).await;
            } else {
                backing.read_pages(&mapping, pages, &task).await;
            }
            sim.stop();
        });
        simulation.run();
    }

    #[test]
    #[should_panic(expected = "pages are read of the device")]
    fn a_read_behind_the_end_is_seen() {
        transfer(PAGE_BYTES, true, 3..5, false);
    }

    #[test]
    #[should_panic(expected = "the device gives what it is asked for")]
    fn a_read_of_too_few_bytes_is_seen() {
        transfer(512, true, 0..1, false);
    }

    #[test]
    #[should_panic(expected = "pages are written to the device")]
    fn a_write_behind_the_end_is_seen() {
        transfer(PAGE_BYTES, true, 3..5, true);
    }

    #[test]
    #[should_panic(expected = "the cache has the bytes of each page")]
    fn a_write_of_pages_without_bytes_is_seen() {
        transfer(PAGE_BYTES, false, 0..1, true);
    }
}

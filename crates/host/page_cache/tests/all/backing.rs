//! A file system's files over the cache: bytes against a model.

use crate::support;

use page_cache::{
    Backing, CacheOptions, FileError, Mapping, PAGE_BYTES, PageCache, Pending, Process,
};
use page_cache::{Purpose, ReadAhead, Task};
use random::Stream;
use sim::{Cpus, Sim, Simulation};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

const PAGES: u64 = 200;

/// Keeps pages in a map; a page takes 50 us either way.
struct Memory {
    sim: Sim,
    pages: Rc<RefCell<BTreeMap<u64, Vec<u8>>>>,
    flushes: Cell<u32>,
}

impl Backing for Memory {
    fn pages(&self) -> u64 {
        PAGES
    }

    fn read_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        _task: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(async move {
            for page in pages {
                self.sim.sleep(50_000).await;
                if let Some(stored) = self.pages.borrow().get(&page) {
                    mapping.with_bytes(page, |bytes| bytes.copy_from_slice(stored));
                }
                mapping.end_read(page..page + 1, Ok(()));
            }
        })
    }

    fn write_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        _purpose: Purpose,
        _task: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(async move {
            for page in pages {
                let bytes = mapping.with_bytes(page, |bytes| bytes.to_vec()).expect("it is there");
                self.sim.sleep(50_000).await;
                self.pages.borrow_mut().insert(page, bytes);
                mapping.end_write(page..page + 1, Ok(()));
            }
        })
    }

    fn flush(&self, _process: Process) -> Pending<'_, Result<(), FileError>> {
        self.flushes.set(self.flushes.get() + 1);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A file system that has taken a page over must find the bytes that it had then.
#[test]
fn a_page_that_was_taken_over_does_not_change_with_the_cache() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let board = Rc::new(support::board());
    let cpus = Rc::new(Cpus::new(&sim, 1, 6_000_000));
    let cache = PageCache::new(&sim, &cpus, &board, CacheOptions { stores_bytes: true });
    let memory = Rc::new(Memory { sim: sim.clone(), pages: Rc::default(), flushes: Cell::new(0) });
    let file = cache.clone().add_mapping(cache.add_device(), memory);
    let task = sim.spawn(async move {
        let process = Process::new(10);
        assert!(file.shared_page(0).is_none());
        file.write(process, 0..PAGE_BYTES, Some(&[1; PAGE_BYTES as usize]), 0).await.unwrap();
        let taken = file.shared_page(0).expect("it is there");
        file.write(process, 8..16, Some(&[2; 8]), 0).await.unwrap();
        assert!(taken.look(|bytes| bytes.iter().all(|byte| *byte == 1)));
        let mut now = [0; PAGE_BYTES as usize];
        assert!(file.copy_page(0, &mut now));
        assert_eq!((now[7], &now[8..16], now[16]), (1, &[2; 8][..], 1));
    });
    simulation.run();
    assert!(task.is_finished());
}

#[test]
fn what_is_read_is_what_was_written_and_the_medium_has_it_in_the_end() {
    for (kernel, seed) in [("2.6.29", 1), ("3.4", 2), ("3.4", 3), ("3.10", 4)] {
        let mut simulation = Simulation::new(seed);
        let sim = simulation.handle();
        let mut board = support::board();
        board.kernel = kernel.into();
        // Far fewer pages than the file has, so that they come and go.
        board.available_bytes = 64 * PAGE_BYTES;
        board.memory_bytes = 1 << 20;
        let board = Rc::new(board);
        let cpus = Rc::new(Cpus::new(&sim, 2, 6_000_000));
        let options = CacheOptions { stores_bytes: true };
        let cache = PageCache::new(&sim, &cpus, &board, options);
        let medium = Rc::new(RefCell::new(BTreeMap::new()));
        let memory =
            Rc::new(Memory { sim: sim.clone(), pages: medium.clone(), flushes: Cell::new(0) });
        let device = cache.add_device();
        let file = cache.clone().add_mapping(device, memory.clone());
        let model = Rc::new(RefCell::new(vec![0_u8; (PAGES * PAGE_BYTES) as usize]));
        let end = model.clone();
        let handle = sim.spawn(async move {
            let mut stream = Stream::new(seed, "calls");
            let ahead = Cell::new(ReadAhead::default());
            let process = Process::new(10);
            for step in 0..3000_u32 {
                let start = u64::from(stream.below((PAGES * PAGE_BYTES - 20_000) as u32));
                let length = u64::from(1 + stream.below(20_000));
                let range = start..start + length;
                let place = start as usize..(start + length) as usize;
                match stream.below(20) {
                    0 => file.fsync(process).await.unwrap(),
                    1 => {
                        let from = PAGES - u64::from(stream.below(20));
                        file.truncate(from).await;
                        // The model of a file that grows again: what was cut off reads as zeros.
                        medium.borrow_mut().retain(|page, _| *page < from);
                        model.borrow_mut()[(from * PAGE_BYTES) as usize..].fill(0);
                    }
                    2..11 => {
                        let bytes: Vec<u8> =
                            (0..length).map(|at| (u64::from(step) + at) as u8).collect();
                        file.write(process, range, Some(&bytes), 700).await.unwrap();
                        model.borrow_mut()[place].copy_from_slice(&bytes);
                    }
                    _ => {
                        let mut bytes = vec![0xee; length as usize];
                        file.read(process, &ahead, range, Some(&mut bytes), 700).await.unwrap();
                        assert!(bytes == model.borrow()[place], "{kernel}: step {step}");
                    }
                }
            }
            file.cache().sync().await.unwrap();
            let statistics = file.cache().statistics();
            assert_eq!((statistics.dirty, statistics.write_back), (0, 0));
            medium.take()
        });
        simulation.run_until(1_000_000_000_000);
        let medium = handle.try_take().expect("it came to its end");
        assert!(memory.flushes.get() > 0);
        for (page, bytes) in medium {
            let place = (page * PAGE_BYTES) as usize..((page + 1) * PAGE_BYTES) as usize;
            assert!(bytes == end.borrow()[place], "{kernel}: page {page} on the medium");
        }
    }
}

//! In which order dirty pages reach the medium: files by the age of their first dirty page, the pages of
//! a file from where its last chunk ended (`range_cyclic`).

use crate::support;

use page_cache::{
    Backing, CacheOptions, FileError, Mapping, PAGE_BYTES, PageCache, Pending, Process,
};
use page_cache::{Purpose, Task};
use sim::{Cpus, Sim, Simulation};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

const SECOND_NS: u64 = 1_000_000_000;
const PAGE_NS: u64 = 50_000;
/// Pages of a file that are written before others have a turn.
const CHUNK_PAGES: u64 = 1024;

/// File and page, in the order in which they were written.
pub(crate) type Written = Rc<RefCell<Vec<(usize, u64)>>>;

/// A file whose pages take so long each.
struct Noted {
    sim: Sim,
    file: usize,
    written: Written,
    congestion: Rc<Congestion>,
    page_ns: u64,
}

/// Until when the queue is congested.
#[derive(Default)]
pub(crate) struct Congestion {
    pub(crate) until_ns: Cell<u64>,
}

impl Backing for Noted {
    fn pages(&self) -> u64 {
        1 << 20
    }

    fn read_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        _task: &'a Task,
    ) -> Pending<'a, ()> {
        mapping.end_read(pages, Ok(()));
        Box::pin(std::future::ready(()))
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
                self.sim.sleep(self.page_ns).await;
                self.written.borrow_mut().push((self.file, page));
                mapping.end_write(page..page + 1, Ok(()));
            }
        })
    }

    fn is_write_congested(&self) -> bool {
        self.sim.now() < self.congestion.until_ns.get()
    }

    fn flush(&self, _process: Process) -> Pending<'_, Result<(), FileError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

pub(crate) struct Bench {
    pub(crate) simulation: Simulation,
    pub(crate) sim: Sim,
    /// The cache does not keep files alive: one without a holder is not written back.
    pub(crate) files: Rc<Vec<Mapping>>,
    pub(crate) written: Written,
    pub(crate) congestion: Rc<Congestion>,
}

pub(crate) fn bench(kernel: &str) -> Bench {
    bench_of(kernel, 256 << 20, PAGE_NS)
}

pub(crate) fn bench_of(kernel: &str, available_bytes: u64, page_ns: u64) -> Bench {
    let simulation = Simulation::new(1);
    let sim = simulation.handle();
    let mut board = support::board();
    board.kernel = kernel.into();
    board.available_bytes = available_bytes;
    let cpus = Rc::new(Cpus::new(&sim, 2, 6_000_000));
    let cache = PageCache::new(&sim, &cpus, &Rc::new(board), CacheOptions::default());
    let device = cache.add_device();
    let written = Written::default();
    let congestion = Rc::<Congestion>::default();
    let add = |file| {
        let (written, congestion) = (written.clone(), congestion.clone());
        let backing = Noted { sim: sim.clone(), file, written, congestion, page_ns };
        cache.clone().add_mapping(device, Rc::new(backing))
    };
    let files = Rc::new((0..3).map(add).collect());
    Bench { simulation, sim, files, written, congestion }
}

pub(crate) async fn dirty(file: &Mapping, pages: Range<u64>) {
    let bytes = pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
    file.write(Process::new(10), bytes, None, 0).await.expect("written");
}

#[test]
fn files_are_written_in_the_order_in_which_they_became_dirty() {
    for kernel in ["2.6.29", "3.4"] {
        let Bench { mut simulation, sim, files, written, .. } = bench(kernel);
        let held = files.clone();
        sim.clone().spawn(async move {
            for (second, file, pages) in
                [(1, 2, 5..7), (2, 0, 0..3), (3, 1, 9..10), (4, 2, 1..2), (26, 1, 3..4)]
            {
                sim.sleep_until(second * SECOND_NS).await;
                dirty(&files[file], pages).await;
            }
        });
        simulation.run_until(60 * SECOND_NS);
        // All pages of a file go with its first; within the file they go up.
        let expected = [(2, 1), (2, 5), (2, 6), (0, 0), (0, 1), (0, 2), (1, 3), (1, 9)];
        assert_eq!(*written.borrow(), expected, "{kernel}");
        drop(held);
    }
}

#[test]
fn a_large_file_goes_on_where_its_last_chunk_ended() {
    let Bench { mut simulation, sim, files, written, .. } = bench("2.6.29");
    let pages = CHUNK_PAGES + 500;
    let (progress, held) = (written.clone(), files.clone());
    sim.clone().spawn(async move {
        dirty(&files[0], 0..pages).await;
        dirty(&files[1], 7..9).await;
        // While the first chunk is being written, a page that is on the medium becomes dirty again.
        while progress.borrow().len() < 500 {
            sim.sleep(PAGE_NS).await;
        }
        dirty(&files[0], 3..4).await;
    });
    simulation.run_until(100 * SECOND_NS);
    let expected: Vec<(usize, u64)> = (0..CHUNK_PAGES)
        .map(|page| (0, page))
        // The other file has its turn between two chunks.
        .chain([(1, 7), (1, 8)])
        .chain((CHUNK_PAGES..pages).chain([3]).map(|page| (0, page)))
        .collect();
    let written = written.borrow();
    let first = written.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(first.map(|at| (at, written[at], expected[at])), None);
    assert_eq!(written.len(), expected.len());
    drop(held);
}

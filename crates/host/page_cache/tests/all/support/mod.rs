//! A board, a device of constant speed behind noop, and a record of every bio.

#![allow(dead_code, reason = "each test file uses a part")]

use block::{BioTimes, Observer, Plugging, PoolRules, QueueOptions, RequestQueue};
use board::Board;
use device::{BlockDevice, ConstantDevice};
use page_cache::{BlockFile, CacheOptions, PageCache};
use sched::{Direction, Elevator, ElevatorOptions, Value, find_scheduler};
use sim::{Cpus, Sim, Simulation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const DEVICE_BYTES: u64 = 1 << 30;
pub(crate) const SERVICE_NS: u64 = 1_000_000;

#[derive(Default)]
pub(crate) struct CompletedBios(pub(crate) Vec<BioTimes>);

impl Observer for CompletedBios {
    fn completed(&mut self, times: &BioTimes) {
        self.0.push(*times);
    }
}

impl CompletedBios {
    /// First page and pages of every bio in a direction, in order of completion; flushes left out.
    pub(crate) fn pages(&self, direction: Direction) -> Vec<(u64, u64)> {
        self.0
            .iter()
            .filter(|times| times.bio.direction == direction && times.bio.sectors > 0)
            .map(|times| (times.bio.sector / 8, u64::from(times.bio.sectors) / 8))
            .collect()
    }

    /// How often each page was written.
    pub(crate) fn writes_by_page(&self) -> BTreeMap<u64, u32> {
        let mut writes = BTreeMap::new();
        for (first, count) in self.pages(Direction::Write) {
            for page in first..first + count {
                *writes.entry(page).or_default() += 1;
            }
        }
        writes
    }
}

pub(crate) struct Rig {
    pub(crate) simulation: Simulation,
    pub(crate) sim: Sim,
    pub(crate) queue: RequestQueue,
    pub(crate) cache: Rc<PageCache>,
    pub(crate) file: BlockFile,
    pub(crate) completed: Rc<RefCell<CompletedBios>>,
    pub(crate) board: Rc<Board>,
}

pub(crate) fn board() -> Board {
    board::find_board("odroid-xu").expect("in the catalogue")
}

pub(crate) fn rig(board: Board) -> Rig {
    rig_over(board, Box::new(ConstantDevice::new(DEVICE_BYTES / 512, SERVICE_NS, 2)), 1024)
}

pub(crate) fn rig_over(board: Board, device: Box<dyn BlockDevice>, max_sectors: u32) -> Rig {
    let is_old = !board.is_kernel_at_least((2, 6, 39));
    let queue_options = QueueOptions {
        plugging: if is_old { Plugging::Queue } else { Plugging::Task },
        pool: PoolRules::PerSync,
        max_sectors,
        queue_depth: 0,
        cores: 1,
    };
    rig_under(board, device, queue_options, ("noop", &BTreeMap::new()))
}

/// The same under a scheduler with these settings.
pub(crate) fn rig_under(
    board: Board,
    device: Box<dyn BlockDevice>,
    queue_options: QueueOptions,
    (scheduler, given): (&str, &BTreeMap<String, Value>),
) -> Rig {
    let simulation = Simulation::new(1);
    let sim = simulation.handle();
    let entry = find_scheduler(scheduler).expect("in the table");
    let settings = entry.settings(given).expect("settings of the scheduler");
    let max_sectors = queue_options.max_sectors;
    let options = ElevatorOptions { max_sectors, rotational: false, ..ElevatorOptions::default() };
    let elevator = Elevator::new(entry, &settings, options);
    let queue = RequestQueue::new(&sim, elevator, device, queue_options);
    let completed = Rc::new(RefCell::new(CompletedBios::default()));
    queue.observe(completed.clone());
    let cpus = Rc::new(Cpus::new(&sim, board.processors.count, board.processors.timeslice_ns));
    let board = Rc::new(board);
    let cache = PageCache::new(&sim, &cpus, &board, CacheOptions::default());
    let file = BlockFile::new(&sim, cpus, board.clone(), queue.clone(), cache.clone());
    Rig { simulation, sim, queue, cache, file, completed, board }
}

impl Rig {
    /// Runs a task to its end, and everything that comes of it.
    pub(crate) fn run<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        let handle = self.sim.spawn(future);
        while !handle.is_finished() {
            let until_ns = self.sim.now() + 1_000_000_000;
            self.simulation.run_until(until_ns);
            assert!(self.sim.now() < 100_000_000_000_000, "the task never ends");
        }
        handle.try_take().expect("it is finished")
    }
}

//! A queue over a device that a thread of its driver serves, as `mtd_blkdevs` does: one command after
//! the other, and how long it takes is known when it is done.

use crate::support::{CompletedBios, MS, bio, elevator, options};
use block::{Bytes, Part, Plugging, RequestQueue, ServedDevice, Serving, WaitBreakdown};
use device::{Command, DeviceError, Operation};
use sched::Direction;
use sim::{Sim, Simulation};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// When a command came, in milliseconds, and of its parts sector, sectors, and whether they have bytes.
type Served = (u64, Command, Vec<(u64, u32, bool)>);

/// Reads give their sector's number, and take 2 ms; writes take 5 ms, a flush 1 ms. A sector cannot be
/// written.
struct Thread {
    sim: Sim,
    bad_sector: u64,
    is_busy: Cell<bool>,
    log: RefCell<Vec<Served>>,
}

impl Thread {
    fn new(sim: &Sim, bad_sector: u64) -> Rc<Self> {
        let (is_busy, log) = (Cell::default(), RefCell::default());
        Rc::new(Self { sim: sim.clone(), bad_sector, is_busy, log })
    }
}

impl ServedDevice for Thread {
    fn sectors(&self) -> u64 {
        4096
    }

    fn serve(&self, command: Command, parts: Vec<Part>) -> Serving<'_> {
        Box::pin(async move {
            assert!(!self.is_busy.replace(true), "one command at a time");
            let told = parts
                .iter()
                .map(|part| (part.sector, part.sectors, part.bytes.is_some()))
                .collect();
            self.log.borrow_mut().push((self.sim.now() / MS, command, told));
            let taken_ms = match command.operation {
                Operation::Read => 2,
                Operation::Write => 5,
                Operation::Flush | Operation::Discard => 1,
            };
            self.sim.sleep(taken_ms * MS).await;
            self.is_busy.set(false);
            for part in parts.iter().filter(|_| command.operation == Operation::Read) {
                if let Some(bytes) = &part.bytes {
                    bytes.borrow_mut().fill(part.sector as u8);
                }
            }
            if command.operation == Operation::Write && command.sector == self.bad_sector {
                return Err(DeviceError::Medium { sector: command.sector });
            }
            Ok(())
        })
    }
}

const READ: Direction = Direction::Read;
const WRITE: Direction = Direction::Write;

#[test]
fn a_thread_serves_one_request_at_a_time_with_all_its_bios() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let device = Thread::new(&sim, u64::MAX);
    let queue =
        RequestQueue::served(&sim, elevator(false, 128), device.clone(), options(Plugging::None));
    assert_eq!((queue.sectors(), queue.statistics(), queue.flash().is_none()), (4096, None, true));
    let seen = Rc::new(RefCell::new(CompletedBios::default()));
    queue.observe(seen.clone());
    let submitted = queue.clone();
    let read = sim.spawn(async move {
        let bytes: Bytes = Rc::new(RefCell::new(vec![0; 4096]));
        let first = submitted.submit_bytes(bio(1, READ, 64), Some(bytes.clone()), None).await;
        // These wait, are joined into one request, and stand in it by their sectors.
        let mut later = Vec::new();
        for sector in [108, 100, 116] {
            later.push(submitted.submit(bio(1, WRITE, sector), None).await);
        }
        assert!(!first.is_done(), "time has to pass");
        first.wait().await.expect("it is read");
        assert!(first.is_done() && later.iter().all(|handle| !handle.is_done()));
        bytes.take()
    });
    let flushed = queue.clone();
    sim.clone().spawn(async move {
        sim.sleep_until(4 * MS).await;
        let times = flushed.flush(1).await.expect("flushed");
        assert_eq!((times.insert_ns, times.start_ns, times.complete_ns), (4 * MS, 7 * MS, 8 * MS));
    });
    simulation.run();
    assert_eq!(read.try_take().expect("done"), vec![64; 4096], "bytes reach who waits for them");
    let expected = [
        (0, Command::read(64, 8), vec![(64, 8, true)]),
        (2, Command::write(100, 24), vec![(100, 8, false), (108, 8, false), (116, 8, false)]),
        (7, Command::flush(), Vec::new()),
    ];
    assert_eq!(device.log.borrow()[..], expected);
    for times in &seen.borrow().0 {
        assert_eq!(times.start_ns, times.issue_ns, "the thread takes a command when it is free");
    }
    let writes = seen.borrow().0.iter().filter(|times| times.bio.direction == WRITE).count();
    assert_eq!(writes, 4, "three bios and the flush");
    let totals = WaitBreakdown { reads_ns: 2 * MS, writes_ns: 6 * MS, ..WaitBreakdown::default() };
    assert_eq!(queue.totals(), totals);
}

#[test]
fn an_error_is_told_to_every_bio_of_the_request_and_the_next_command_goes_on() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let device = Thread::new(&sim, 200);
    let queue = RequestQueue::served(&sim, elevator(false, 128), device, options(Plugging::None));
    let done = sim.spawn(async move {
        let mut handles = Vec::new();
        for sector in [0, 200, 208, 300] {
            handles.push(queue.submit(bio(1, WRITE, sector), None).await);
        }
        let mut results = Vec::new();
        for handle in &handles {
            let result = handle.wait().await;
            results.push(result.map(|times| (times.complete_ns / MS, times.wait.writes_ns / MS)));
        }
        results
    });
    simulation.run();
    let failed = Err(DeviceError::Medium { sector: 200 });
    let expected = [Ok((5, 0)), failed, failed, Ok((15, 10))];
    assert_eq!(done.try_take().expect("done"), expected);
}

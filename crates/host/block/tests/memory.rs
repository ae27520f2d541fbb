//! Memory of a queue: it does not grow with the requests that went through.
//!
//! A binary of its own, for the allocator counts everything.

use block::{Plug, Plugging, PoolRules, QueueOptions, RequestQueue};
use device::ConstantDevice;
use peak_alloc::PeakAlloc;
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, find_scheduler};
use sim::Simulation;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Rounds of sixteen plugged writes and a flush before the first look: every table has its size by then.
const WARM_UP_ROUNDS: u64 = 500;
/// Rounds between the two looks.
const ROUNDS: u64 = 5_000;
/// A vector that is kept a request would be 80,000 of 24 bytes and more.
const GROWTH_BYTES_MAX: usize = 4096;

fn write(sector: u64) -> Bio {
    Bio {
        pid: 1,
        direction: Direction::Write,
        sync: true,
        noidle: false,
        class: Class::BestEffort,
        level: 4,
        sector,
        sectors: 8,
    }
}

#[test]
fn memory_does_not_grow_with_plugged_requests_and_flushes() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let entry = find_scheduler("noop").expect("in the table");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let elevator = Elevator::new(entry, &settings, ElevatorOptions::default());
    let device = Box::new(ConstantDevice::new(1 << 30, 1000, 1));
    let options = QueueOptions {
        plugging: Plugging::Task,
        pool: PoolRules::PerDirection,
        max_sectors: 1024,
        queue_depth: 1,
        cores: 1,
    };
    let queue = RequestQueue::new(&sim, elevator, device, options);
    let grown = Rc::new(Cell::new(None));
    let result = grown.clone();
    sim.spawn(async move {
        let mut before = 0;
        for round in 0..WARM_UP_ROUNDS + ROUNDS {
            if round == WARM_UP_ROUNDS {
                before = ALLOCATOR.current_usage();
            }
            let plug = Plug::new();
            let mut last = None;
            for number in 0..16 {
                // Far apart, so that none is merged and each is a request.
                last = Some(queue.submit(write(number * 1000), Some(&plug)).await);
            }
            queue.unplug(&plug);
            last.expect("sixteen").wait().await.expect("written");
            queue.flush(1).await.expect("flushed");
        }
        result.set(Some(ALLOCATOR.current_usage().saturating_sub(before)));
    });
    simulation.run();
    let grown = grown.get().expect("the task ended");
    assert!(grown <= GROWTH_BYTES_MAX, "{grown} bytes over {} requests", ROUNDS * 16);
}

//! A queue whose waiting time is known: Poisson arrivals, one server, constant service (M/D/1).
//!
//! Pollaczek and Khinchine: the mean wait is load × service / (2 (1 - load)). `NANDLAB_ARRIVALS`
//! sets the number of arrivals; `make test-long` takes ten million.

#![allow(clippy::disallowed_methods, reason = "the length of the test is set from outside")]
#![allow(clippy::print_stdout, reason = "a test shows what it measured")]

use block::{BioTimes, Observer, Plugging, PoolRules, QueueOptions, RequestQueue};
use device::ConstantDevice;
use random::Stream;
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, find_scheduler};
use sim::Simulation;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const SERVICE_NS: u64 = 100_000;

#[derive(Default)]
struct Waits {
    count: u64,
    sum_ns: u64,
    behind_ns: u64,
}

impl Observer for Waits {
    fn completed(&mut self, times: &BioTimes) {
        self.count += 1;
        self.sum_ns += times.q2c_ns() - SERVICE_NS;
        self.behind_ns += times.wait.total_ns();
    }
}

fn mean_wait_ns(load_percent: u64, arrivals: u64) -> f64 {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let entry = find_scheduler("noop").expect("in the table");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let options =
        ElevatorOptions { merging: false, nr_requests: 1_000_000, ..ElevatorOptions::default() };
    let elevator = Elevator::new(entry, &settings, options);
    let device = Box::new(ConstantDevice::new(1 << 30, SERVICE_NS, 1));
    let queue_options = QueueOptions {
        plugging: Plugging::None,
        pool: PoolRules::PerSync,
        max_sectors: 1024,
        queue_depth: 1,
        cores: 1,
    };
    let queue = RequestQueue::new(&sim, elevator, device, queue_options);
    let waits = Rc::new(RefCell::new(Waits::default()));
    queue.observe(waits.clone());
    let mean_gap_ns = (SERVICE_NS * 100) as f64 / load_percent as f64;
    let mut stream = sim.stream("arrivals");
    sim.clone().spawn(async move {
        for _ in 0..arrivals {
            sim.sleep(exponential_ns(&mut stream, mean_gap_ns)).await;
            let bio = Bio {
                pid: 1,
                direction: Direction::Read,
                sync: true,
                noidle: false,
                class: Class::BestEffort,
                level: 4,
                sector: u64::from(stream.below(1 << 24)) * 8,
                sectors: 8,
            };
            drop(queue.submit(bio, None).await);
        }
    });
    simulation.run();
    let waits = waits.borrow();
    assert_eq!(waits.count, arrivals, "every bio completes");
    assert_eq!(waits.sum_ns, waits.behind_ns, "every nanosecond of waiting is explained");
    waits.sum_ns as f64 / waits.count as f64
}

fn exponential_ns(stream: &mut Stream, mean_ns: f64) -> u64 {
    (-mean_ns * libm::log(1.0 - stream.unit())) as u64
}

#[test]
fn waiting_matches_pollaczek_and_khinchine() {
    let arrivals = std::env::var("NANDLAB_ARRIVALS").ok().and_then(|text| text.parse().ok());
    let arrivals = arrivals.unwrap_or(2_000_000);
    for load_percent in [50, 80] {
        let load = load_percent as f64 / 100.0;
        let expected = load * SERVICE_NS as f64 / (2.0 * (1.0 - load));
        let measured = mean_wait_ns(load_percent, arrivals);
        let error = measured / expected - 1.0;
        println!("load {load}: {measured:.0} ns, expected {expected:.0} ns, off by {error:+.4}");
        assert!(error.abs() < 0.01, "load {load}: {measured} ns, not {expected} ns");
    }
}

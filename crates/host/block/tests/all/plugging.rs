//! Golden scenarios of the block layer that need a plug, by label; and what Q, G, I, D, C mean.

use block::{BioTimes, Observer, Plug, Plugging, PoolRules, QueueOptions, RequestQueue};
use device::ConstantDevice;
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, find_scheduler};
use sim::{Sim, Simulation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const MS: u64 = 1_000_000;
const SERVICE_NS: u64 = 5 * MS;

#[derive(Default)]
struct CompletedBios(Vec<BioTimes>);

impl Observer for CompletedBios {
    fn completed(&mut self, times: &BioTimes) {
        self.0.push(*times);
    }
}

fn queue(
    sim: &Sim,
    plugging: Plugging,
    rotational: bool,
    nr_requests: u32,
) -> (RequestQueue, Rc<RefCell<CompletedBios>>) {
    let entry = find_scheduler("noop").expect("in the table");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let options = ElevatorOptions { rotational, nr_requests, ..ElevatorOptions::default() };
    let device = Box::new(ConstantDevice::new(1 << 30, SERVICE_NS, 1));
    let queue_options = QueueOptions {
        plugging,
        pool: PoolRules::PerDirection,
        max_sectors: 1024,
        queue_depth: 1,
        cores: 1,
    };
    let queue =
        RequestQueue::new(sim, Elevator::new(entry, &settings, options), device, queue_options);
    let completed = Rc::new(RefCell::new(CompletedBios::default()));
    queue.observe(completed.clone());
    (queue, completed)
}

fn write(sector: u64, sync: bool) -> Bio {
    Bio {
        pid: 1,
        direction: Direction::Write,
        sync,
        noidle: false,
        class: Class::BestEffort,
        level: 4,
        sector,
        sectors: 8,
    }
}

/// Submits writes at times in tenths of a millisecond; returns sector and issue time of each bio.
fn issue_times(
    plugging: Plugging,
    rotational: bool,
    bios: &'static [(u64, u64, bool)],
) -> Vec<(u64, f64)> {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let (queue, completed) = queue(&sim, plugging, rotational, 128);
    sim.clone().spawn(async move {
        for (tenths, sector, sync) in bios {
            sim.sleep_until(tenths * MS / 10).await;
            drop(queue.submit(write(*sector, *sync), None).await);
        }
    });
    simulation.run();
    let completed = completed.borrow();
    let mut times: Vec<(u64, f64)> = completed
        .0
        .iter()
        .map(|times| (times.bio.sector, times.issue_ns as f64 / MS as f64))
        .collect();
    times.sort_by_key(|(sector, _)| *sector);
    times
}

fn first_issue(times: &[(u64, f64)]) -> f64 {
    times.iter().map(|(_, time)| *time).fold(f64::MAX, f64::min)
}

#[test]
fn g_blk_1_a_plugged_queue_waits_for_its_timer_or_for_four_requests() {
    let three =
        issue_times(Plugging::Queue, true, &[(0, 0, false), (10, 100, false), (20, 200, false)]);
    assert!((first_issue(&three) - 3.0).abs() < 1e-9, "{three:?}");
    let four = issue_times(
        Plugging::Queue,
        true,
        &[(0, 0, false), (10, 100, false), (20, 200, false), (25, 300, false)],
    );
    assert!((first_issue(&four) - 2.5).abs() < 1e-9, "{four:?}");
}

#[test]
fn g_blk_2_contiguous_bios_count_as_one_request() {
    let times = issue_times(
        Plugging::Queue,
        true,
        &[(0, 0, false), (6, 8, false), (12, 16, false), (20, 24, false)],
    );
    assert!(times.iter().all(|(_, time)| (time - 3.0).abs() < 1e-9), "{times:?}");
}

#[test]
fn g_blk_3_a_synchronous_bio_ends_the_plug() {
    let times = issue_times(Plugging::Queue, true, &[(0, 0, false), (10, 100, true)]);
    assert!((first_issue(&times) - 1.0).abs() < 1e-9, "{times:?}");
}

#[test]
fn g_blk_4_a_queue_that_does_not_rotate_is_never_plugged() {
    let times =
        issue_times(Plugging::Queue, false, &[(0, 0, false), (10, 100, false), (20, 108, false)]);
    let expected = [(0, 0.0), (100, 5.0), (108, 5.0)];
    assert_eq!(times, expected, "merged while the device was busy");
}

#[test]
fn g_blk_5_a_task_s_plug_goes_when_a_seventeenth_request_comes() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let (queue, completed) = queue(&sim, Plugging::Task, false, 128);
    sim.clone().spawn(async move {
        let plug = Plug::new();
        for number in 0..20 {
            sim.sleep_until(number * MS / 10).await;
            drop(queue.submit(write(number * 100, false), Some(&plug)).await);
        }
        sim.sleep_until(100 * MS).await;
        queue.unplug(&plug);
    });
    simulation.run();
    let completed = completed.borrow();
    let inserted_ms = |number: usize| {
        let times = completed.0.iter().find(|times| times.bio.sector == number as u64 * 100);
        times.expect("every bio completes").insert_ns as f64 / MS as f64
    };
    assert!((0..16).all(|number| (inserted_ms(number) - 1.6).abs() < 1e-9));
    assert!((16..20).all(|number| (inserted_ms(number) - 100.0).abs() < 1e-9));
}

#[test]
fn the_phases_of_a_life_add_up_and_the_limit_of_requests_is_q_to_g() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let (queue, completed) = queue(&sim, Plugging::None, false, 4);
    for pid in 0..12_u64 {
        let queue = queue.clone();
        sim.spawn(async move {
            let bio = Bio { pid: pid as u32, ..write(pid * 1000, true) };
            queue.submit(bio, None).await.wait().await.expect("a healthy device");
        });
    }
    simulation.run();
    let completed = completed.borrow();
    assert_eq!(completed.0.len(), 12);
    for times in &completed.0 {
        let phases = times.q2g_ns() + times.g2i_ns() + times.i2d_ns() + times.d2c_ns();
        assert_eq!(phases, times.q2c_ns());
        assert_eq!(times.d2c_ns(), SERVICE_NS);
        assert_eq!(times.i2d_ns(), times.wait.writes_ns, "it waited behind writes alone");
    }
    let waited = completed.0.iter().filter(|times| times.q2g_ns() > 0).count();
    assert_eq!(
        waited,
        8,
        "four requests at a time: {:?}",
        completed.0.iter().map(BioTimes::q2g_ns).collect::<Vec<_>>()
    );
}

/// Requests that a plug makes of bios, one after the other.
fn plugged_requests(bios: &[Bio]) -> usize {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let (queue, completed) = queue(&sim, Plugging::Task, false, 128);
    let given = bios.to_vec();
    let requests = sim.spawn(async move {
        let plug = Plug::new();
        for bio in given {
            drop(queue.submit(bio, Some(&plug)).await);
        }
        let requests = plug.len();
        assert_eq!(plug.is_empty(), requests == 0);
        queue.unplug(&plug);
        assert!(plug.is_empty(), "nothing is left");
        requests
    });
    simulation.run();
    assert_eq!(completed.borrow().0.len(), bios.len(), "every bio completes");
    requests.try_take().expect("it came to its end")
}

/// A write of so many sectors.
const fn sized(sector: u64, sectors: u32, sync: bool) -> Bio {
    Bio {
        pid: 1,
        direction: Direction::Write,
        sync,
        noidle: false,
        class: Class::BestEffort,
        level: 4,
        sector,
        sectors,
    }
}

const fn read(sector: u64) -> Bio {
    Bio { direction: Direction::Read, ..sized(sector, 8, true) }
}

#[test]
fn a_plug_merges_what_is_alike_and_touches_within_the_limit() {
    let cases: [(&str, &[Bio], usize); 10] = [
        ("behind", &[sized(0, 8, false), sized(8, 8, false)], 1),
        ("before", &[sized(8, 8, false), sized(0, 8, false)], 1),
        ("before, then behind", &[sized(8, 8, false), sized(0, 8, false), sized(16, 8, false)], 1),
        ("a gap", &[sized(0, 8, false), sized(9, 8, false)], 2),
        ("on top", &[sized(0, 8, false), sized(7, 8, false)], 2),
        ("synchronous behind asynchronous", &[sized(0, 8, false), sized(8, 8, true)], 2),
        ("asynchronous before synchronous", &[sized(8, 8, true), sized(0, 8, false)], 2),
        ("a read behind a synchronous write", &[sized(0, 8, true), read(8)], 2),
        ("up to the limit", &[sized(0, 512, false), sized(512, 512, false)], 1),
        ("beyond the limit", &[sized(0, 512, false), sized(512, 513, false)], 2),
    ];
    for (name, bios, requests) in cases {
        assert_eq!(plugged_requests(bios), requests, "{name}");
    }
}

#[test]
fn a_plug_tries_its_newest_request_first() {
    // Both could take the bio between them: the newer one does, so that one behind the older is new.
    let bios: &[Bio] = &[
        sized(0, 8, false),
        sized(16, 8, false),
        sized(8, 8, false),
        sized(24, 1000, false),
        sized(1024, 8, false),
    ];
    // [8, 24) and 1000 more are 1016; with eight more they would be 1024 and still fit. Had the bio gone to
    // the older request, the newer one would be shorter, and nothing would tell.
    assert_eq!(plugged_requests(bios), 2);
    let full: &[Bio] = &[
        sized(0, 8, false),
        sized(16, 8, false),
        sized(8, 8, false),
        sized(24, 1008, false),
        sized(1032, 8, false),
    ];
    assert_eq!(plugged_requests(full), 3, "the newer request is full");
}

/// A plug at its limit goes before the request that does not fit, and keeps sixteen.
#[test]
fn a_plug_holds_sixteen_requests() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let (queue, completed) = queue(&sim, Plugging::Task, false, 128);
    sim.clone().spawn(async move {
        let plug = Plug::new();
        for number in 0..16_u64 {
            drop(queue.submit(write(number * 100, false), Some(&plug)).await);
            assert_eq!(plug.len() as u64, number + 1);
        }
        assert_eq!(queue.elevator().waiting(), 0, "the scheduler has seen none");
        // One that can be merged makes no request, and so the list does not go.
        drop(queue.submit(write(8, false), Some(&plug)).await);
        assert_eq!(plug.len(), 16);
        drop(queue.submit(write(9000, false), Some(&plug)).await);
        assert_eq!(plug.len(), 1);
        queue.unplug(&plug);
    });
    simulation.run();
    assert_eq!(completed.borrow().0.len(), 18);
}

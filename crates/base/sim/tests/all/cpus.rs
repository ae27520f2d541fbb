//! Processors: who computes when.

use crate::support;

use sim::{Cpus, RunEnd, Simulation};
use std::rc::Rc;
use support::{Log, race};

/// Tasks that start at a time with a cost, and the times at which they end.
struct Case {
    name: &'static str,
    processors: u32,
    tasks: &'static [(u64, u64)],
    ends_at_ns: &'static [u64],
}

/// All with slices of 10 ns.
const CASES: &[Case] = &[
    Case { name: "alone", processors: 1, tasks: &[(0, 35)], ends_at_ns: &[35] },
    Case {
        name: "zero does not queue",
        processors: 1,
        tasks: &[(0, 35), (3, 0)],
        ends_at_ns: &[35, 3],
    },
    Case {
        name: "short ones in line",
        processors: 1,
        tasks: &[(0, 5), (0, 5), (0, 5)],
        ends_at_ns: &[5, 10, 15],
    },
    // a 0-10, b 10-20, c 20-25, a 25-35, b 35-40, a 40-45
    Case {
        name: "round robin",
        processors: 1,
        tasks: &[(0, 25), (0, 15), (0, 5)],
        ends_at_ns: &[45, 40, 25],
    },
    // a alone 0-20, b 20-25, a 25-40: the slice of a that runs at 13 ends at 20.
    Case {
        name: "one comes in a slice",
        processors: 1,
        tasks: &[(0, 35), (13, 5)],
        ends_at_ns: &[40, 25],
    },
    Case {
        name: "two processors",
        processors: 2,
        tasks: &[(0, 30), (0, 30)],
        ends_at_ns: &[30, 30],
    },
    // a and b 0-10, c takes the place of a, a that of b, b that of c: each of 60 ns in three rounds of two.
    Case {
        name: "three on two",
        processors: 2,
        tasks: &[(0, 20), (0, 20), (0, 20)],
        ends_at_ns: &[20, 30, 30],
    },
];

#[test]
fn processors_are_shared_in_slices() {
    for case in CASES {
        let mut simulation = Simulation::new(0);
        let sim = simulation.handle();
        let cpus = Rc::new(Cpus::new(&sim, case.processors, 10));
        let ends = case.tasks.iter().map(|(start_ns, cost_ns)| {
            let (sim, cpus) = (sim.clone(), cpus.clone());
            simulation.handle().spawn(async move {
                sim.sleep(*start_ns).await;
                cpus.run(*cost_ns).await;
                sim.now()
            })
        });
        let ends: Vec<_> = ends.collect();
        assert_eq!(simulation.run(), RunEnd::Idle);
        let ends: Vec<u64> = ends.iter().map(|end| end.try_take().unwrap()).collect();
        assert_eq!(ends, case.ends_at_ns, "{}", case.name);
        assert_eq!(cpus.busy_ns(), case.tasks.iter().map(|task| task.1).sum(), "{}", case.name);
    }
}

#[test]
fn busy_time_is_exact_at_any_moment_and_under_cancellation() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let cpus = Rc::new(Cpus::new(&sim, 2, 10));
    for _ in 0..2 {
        let (sim, cpus) = (sim.clone(), cpus.clone());
        simulation.handle().spawn(async move {
            assert!(!race(cpus.run(100), sim.sleep(23)).await);
        });
    }
    let (in_task, task_log) = (cpus.clone(), log.clone());
    simulation.handle().spawn(async move {
        sim.sleep(7).await;
        task_log.add(in_task.busy_ns());
        sim.sleep(23).await;
        task_log.add(in_task.busy_ns());
        in_task.run(4).await;
        task_log.add(sim.now());
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(log.take(), [14, 46, 34]);
    assert_eq!(cpus.busy_ns(), 50);
}

//! Work that tasks report, and who watches it.

use sim::{Simulation, WorkWatcher};
use std::cell::RefCell;
use std::rc::Rc;

/// What was heard: the time, and what begins, or nothing at an end.
#[derive(Default)]
struct Heard(RefCell<Vec<(u64, String)>>);

impl WorkWatcher for Heard {
    fn begins(&self, _: u64, name: &str, what: &'static str, now_ns: u64) {
        self.0.borrow_mut().push((now_ns, format!("{name}: {what}")));
    }

    fn ends(&self, _: u64, now_ns: u64) {
        self.0.borrow_mut().push((now_ns, String::new()));
    }
}

/// A collector that works from 100 to 200 ns and reads from 120 to 150 ns, and writes when it is dropped at 500 ns.
fn run(watcher: Option<Rc<Heard>>) -> (u64, u64) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    sim.watch_work(watcher.map(|heard| heard as Rc<dyn WorkWatcher>));
    let own = sim.clone();
    sim.spawn_named("collector", async move {
        own.sleep(100).await;
        let pass = own.work("pass");
        own.sleep(20).await;
        let read = own.work("read");
        own.sleep(30).await;
        drop(read);
        own.sleep(50).await;
        drop(pass);
        let _write = own.work("write");
        own.sleep(1_000).await;
    });
    let own = sim.clone();
    sim.spawn_named("end", async move {
        own.sleep(500).await;
        own.stop();
    });
    simulation.run();
    (sim.now(), simulation.polls())
}

#[test]
fn work_nests_and_ends_with_its_task() {
    let heard = Rc::new(Heard::default());
    let watched = run(Some(heard.clone()));
    let told = [
        (100, "collector: pass"),
        (120, "collector: read"),
        (150, ""),
        (200, ""),
        (200, "collector: write"),
        (500, ""),
    ];
    let heard = heard.0.borrow();
    assert!(heard.iter().map(|(at_ns, what)| (*at_ns, what.as_str())).eq(told), "{heard:?}");
    assert_eq!(run(None), watched, "to watch changes nothing");
}

#[test]
fn work_outside_of_all_tasks_is_nobody_s() {
    let simulation = Simulation::new(1);
    let heard = Rc::new(Heard::default());
    simulation.handle().watch_work(Some(heard.clone()));
    drop(simulation.handle().work("format"));
    assert!(heard.0.borrow().is_empty());
}

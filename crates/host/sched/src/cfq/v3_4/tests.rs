//! CFQ 3.4 on its own: merging of queues, exits, depth.

use super::{Cfq, Flag, PARAMETERS_34, Tunables, V34};
use crate::cfq::tests::{MILLISECOND_NS, bio};
use crate::queue_id::QueueId;
use crate::{Clock, Direction, Queue, Request, RequestId, Scheduler, Settings};
use std::collections::BTreeMap;

/// The scheduler with its request queue; requests are served at once, one at a time.
struct Bench {
    cfq: Cfq<V34>,
    queue: Queue,
    now_ns: u64,
}

impl Bench {
    fn new() -> Self {
        let clock = Clock { hz: 1000 };
        let settings = Settings::new(&[PARAMETERS_34], &BTreeMap::new());
        let mut tunables = Tunables::common(&settings.expect("defaults are valid"), clock);
        tunables.target_latency = 300;
        tunables.low_latency = true;
        let own = V34::starting(clock.jiffies(0), 1000);
        let cfq = Cfq::new(clock, tunables, own);
        Self { cfq, queue: Queue::new(clock, true, 128), now_ns: 0 }
    }

    fn insert(&mut self, pid: u32, sector: u64) {
        let request = Request {
            start_jiffies: self.queue.jiffies(self.now_ns),
            insert_ns: self.now_ns,
            ..Request::new(bio(pid, Direction::Read, sector))
        };
        let id = self.queue.requests.add(request);
        self.cfq.insert(self.now_ns, id, &mut self.queue);
    }

    fn take(&mut self) -> Option<RequestId> {
        self.cfq.dispatch(self.now_ns, false, &mut self.queue);
        let id = self.queue.take()?;
        self.cfq.activate(self.now_ns, id, &mut self.queue);
        Some(id)
    }

    fn complete(&mut self, id: RequestId) {
        self.now_ns += MILLISECOND_NS;
        self.queue.in_flight -= 1;
        self.cfq.complete(self.now_ns, id, &mut self.queue);
        self.queue.requests.remove(id);
    }

    /// Serves all that is dispatched without waiting.
    fn serve(&mut self) {
        while let Some(id) = self.take() {
            self.complete(id);
        }
    }

    fn queue_of(&self, pid: u32) -> Option<QueueId> {
        let process = self.cfq.processes.find(pid)?;
        self.cfq.processes[process].queues[1]
    }

    /// Two processes that read alternate blocks.
    fn interleave(&mut self, blocks: std::ops::Range<u64>) {
        for block in blocks {
            self.insert(1, 16 * block);
            self.insert(2, 16 * block + 8);
            self.serve();
        }
    }
}

#[test]
fn queues_that_work_side_by_side_are_merged_and_a_seeky_one_is_split() {
    let mut bench = Bench::new();
    bench.interleave(1..2);
    assert_ne!(bench.queue_of(1), bench.queue_of(2));
    bench.interleave(2..6);
    let common = bench.queue_of(1);
    assert!(common.is_some() && common == bench.queue_of(2));
    let id = common.expect("was just seen");
    assert_eq!(bench.cfq.queues[id].processes(), 2);
    for far in 1..20 {
        bench.insert(1, far * 1_000_000);
        bench.insert(2, 500_000_000 - far * 1_000_000);
        bench.serve();
        bench.now_ns += 300 * MILLISECOND_NS;
        if bench.cfq.timer_ns().is_some() {
            bench.cfq.timer(bench.now_ns, &mut bench.queue);
        }
    }
    assert_ne!(bench.queue_of(1), bench.queue_of(2));
    let alone = [1, 2].map(|pid| bench.queue_of(pid).expect("each has a queue"));
    for id in alone {
        assert_eq!(bench.cfq.queues[id].processes(), 1);
        assert!(!bench.cfq.queues[id].has(Flag::Cooperates));
    }
}

#[test]
fn the_exit_of_both_processes_frees_their_common_queue() {
    let mut bench = Bench::new();
    bench.interleave(1..6);
    assert_eq!(bench.queue_of(1), bench.queue_of(2));
    for pid in [1, 2] {
        bench.cfq.exit(bench.now_ns, pid, &mut bench.queue);
    }
    assert_eq!(bench.cfq.busy, 0);
    assert_eq!(bench.cfq.active, None);
    bench.insert(3, 0);
    bench.insert(4, 1_000_000);
    let mut again = [3, 4].map(|pid| bench.queue_of(pid).map(|id| id.0));
    again.sort_unstable();
    assert_eq!(again, [Some(0), Some(1)], "both numbers are used again");
}

#[test]
fn depth_is_assumed_then_measured_then_kept_for_ever() {
    let mut bench = Bench::new();
    assert_eq!(bench.cfq.own.device_queues, None);
    let mut block = 0;
    let mut shallow = |bench: &mut Bench, completions: u32| {
        for _ in 0..completions {
            (0..8).for_each(|_| {
                block += 1;
                bench.insert(1, 8 * block);
            });
            let id = bench.take().expect("eight wait");
            bench.complete(id);
        }
    };
    shallow(&mut bench, 50);
    assert_eq!(bench.cfq.own.device_queues, None);
    shallow(&mut bench, 1);
    assert_eq!(bench.cfq.own.device_queues, Some(false));
    let together: Vec<RequestId> = (0..6).filter_map(|_| bench.take()).collect();
    assert_eq!(together.len(), 6);
    for id in together {
        bench.complete(id);
    }
    assert_eq!(bench.cfq.own.device_queues, Some(true));
    shallow(&mut bench, 100);
    assert_eq!(bench.cfq.own.device_queues, Some(true));
}

/// `cfq_setup_merge`: the queue that fewer processes use is to go up in the other, which counts them from
/// then on, so that it outlives them.
#[test]
fn a_queue_that_is_to_be_merged_hands_its_processes_over() {
    for (processes, of_other, goes_up) in [(1, 1, true), (1, 2, true), (2, 1, false)] {
        let mut bench = Bench::new();
        let [id, other] = [(); 2].map(|()| bench.cfq.queues.make(true));
        // Requests refer to their queue as well, and are no processes.
        bench.cfq.queues[id].references = processes + 3;
        bench.cfq.queues[id].allocated = 3;
        bench.cfq.queues[other].references = of_other;
        bench.cfq.plan_merge(id, other);
        let (from, into) = if goes_up { (id, other) } else { (other, id) };
        assert_eq!(bench.cfq.queues[from].merges_into, Some(into));
        assert_eq!(bench.cfq.queues[into].merges_into, None);
        assert_eq!(bench.cfq.queues[into].processes(), processes + of_other);
        // A queue that was merged with this one already is not merged again.
        let before = bench.cfq.queues[into].references;
        bench.cfq.plan_merge(into, from);
        assert_eq!(bench.cfq.queues[into].references, before);
    }
}

/// `cfq_update_hw_tag`: a queue that is idled for and has fewer than five requests keeps the device from
/// showing how many it takes.
#[test]
fn the_depth_says_nothing_while_a_queue_is_waited_for() {
    let mut bench = Bench::new();
    assert!(!bench.cfq.holds_depth_down(0), "no queue has its turn");
    let id = bench.cfq.queues.make(true);
    bench.cfq.active = Some(id);
    let mut holds = |dispatched, in_driver| {
        bench.cfq.queues[id].dispatched = dispatched;
        bench.cfq.holds_depth_down(in_driver)
    };
    assert!(holds(0, 0) && holds(4, 0) && holds(0, 4) && holds(4, 4));
    assert!(!holds(5, 0) && !holds(0, 5));
    bench.cfq.queues[id].dispatched = 0;
    bench.cfq.queues[id].flags.clear(Flag::IdleWindow);
    assert!(!bench.cfq.holds_depth_down(0), "it is not waited for");
}

/// Every sum that CFQ keeps beside its queues, and every place of a queue.
#[test]
fn every_broken_count_is_seen() {
    use super::{Cfq, ENTRY, Tunables, V34};
    use crate::queue_id::QueueId;
    use crate::tests::{CLOCK, defaults, filled, panics_with};
    use crate::{Queue, RequestId, Scheduler};
    type Break = fn(&mut Cfq<V34>, &mut Queue);
    let broken: [(&str, Break); 18] = [
        ("are its own", |cfq, _| cfq.owners[1].queue = QueueId(1)),
        ("waits in it", |cfq, _| cfq.queues[QueueId(0)].next = Some(RequestId(2))),
        ("has a position and no request", |cfq, _| {
            let id = cfq.queues.make(true);
            cfq.queues[id].position_level = Some(4);
        }),
        ("references to processes", |cfq, _| {
            let process = cfq.owners[0].process;
            cfq.processes.hold(process);
        }),
        ("a queue without references is free", |cfq, _| {
            cfq.queues.make(true);
        }),
        ("the queue whose turn it is exists", |cfq, _| {
            let id = cfq.queues.make(true);
            cfq.queues.free(id);
            cfq.active = Some(id);
        }),
        ("sorts by sector and by age", |cfq, _| {
            let id = QueueId(0);
            cfq.queues[id].waiting.remove(RequestId(1));
        }),
        ("has a next request if any", |cfq, _| cfq.queues[QueueId(0)].next = None),
        ("has requests and no place", |cfq, _| cfq.leave(QueueId(0))),
        ("refers to it", |cfq, _| cfq.queues[QueueId(0)].references = 1),
        ("wait or are on their way", |cfq, _| cfq.queues[QueueId(0)].dispatched = 1),
        ("stands at its place", |cfq, _| {
            if let Some(place) = &mut cfq.queues[QueueId(0)].place {
                place.key += 1;
            }
        }),
        ("as many places are taken", |cfq, _| {
            let place = cfq.queues[QueueId(0)].place.expect("busy");
            cfq.trees[place.tree].insert(place, QueueId(9));
        }),
        ("busy queues", |cfq, _| cfq.busy_sync += 1),
        ("waiting requests of all queues", |cfq, _| cfq.waiting += 1),
        ("dispatched requests of all queues", |cfq, _| cfq.dispatched[0] += 1),
        ("requests with the driver", |cfq, _| cfq.in_driver[1] += 1),
        ("a busy queue is in its tree once", |cfq, _| {
            let place = cfq.queues[QueueId(0)].place.expect("busy");
            cfq.trees[place.tree].insert(place, QueueId(0));
        }),
    ];
    for (message, break_it) in broken {
        let settings = defaults(&ENTRY);
        let own = V34::starting(CLOCK.jiffies(0), u64::from(CLOCK.hz));
        let cfq = Cfq::new(CLOCK, Tunables::common(&settings, CLOCK), own);
        let (mut cfq, mut queue) = filled(cfq);
        panics_with(message, || {
            break_it(&mut cfq, &mut queue);
            cfq.audit(&queue);
        });
    }
}

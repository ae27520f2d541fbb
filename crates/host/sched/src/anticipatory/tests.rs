//! Rules that show only inside: statistics, choices, windows.

use super::{Anticipatory, Wait};
use crate::{Bio, Class, Clock, Direction, Queue, Request, RequestId, Scheduler, Settings};
use settings::Value;
use std::collections::BTreeMap;

const MILLISECOND_NS: u64 = 1_000_000;

struct Bench {
    scheduler: Anticipatory,
    queue: Queue,
}

impl Bench {
    fn new(set: &[(&str, i64)]) -> Self {
        let clock = Clock { hz: 1000 };
        let given: BTreeMap<String, Value> =
            set.iter().map(|(name, value)| ((*name).to_owned(), Value::Integer(*value))).collect();
        let settings: Settings = super::ENTRY.settings(&given).expect("tunables in range");
        Self { scheduler: Anticipatory::new(&settings, clock), queue: Queue::new(clock, true, 128) }
    }

    fn insert(&mut self, ms: u64, pid: u32, direction: Direction, sector: u64) -> RequestId {
        let now_ns = ms * MILLISECOND_NS;
        let sync = direction == Direction::Read;
        let (class, level) = (Class::default(), 4);
        let bio = Bio { pid, direction, sync, noidle: false, class, level, sector, sectors: 8 };
        let id = self.queue.requests.add(Request {
            start_jiffies: self.queue.jiffies(now_ns),
            insert_ns: now_ns,
            ..Request::new(bio)
        });
        self.scheduler.insert(now_ns, id, &mut self.queue);
        id
    }

    fn read(&mut self, ms: u64, pid: u32, sector: u64) -> RequestId {
        self.insert(ms, pid, Direction::Read, sector)
    }

    /// What the driver gets.
    fn next(&mut self, ms: u64) -> Option<RequestId> {
        let now_ns = ms * MILLISECOND_NS;
        if self.queue.dispatch_is_empty() {
            self.scheduler.dispatch(now_ns, false, &mut self.queue);
        }
        let id = self.queue.take()?;
        self.scheduler.activate(now_ns, id, &mut self.queue);
        Some(id)
    }

    fn complete(&mut self, ms: u64, id: RequestId) {
        self.queue.in_flight -= 1;
        self.scheduler.complete(ms * MILLISECOND_NS, id, &mut self.queue);
        self.queue.requests.remove(id);
    }

    /// A read of the process is dispatched and completed, and the device asks for more.
    fn serve_then_ask(&mut self, pid: u32, sector: u64) {
        let id = self.read(0, pid, sector);
        assert_eq!(self.next(0), Some(id));
        self.complete(5, id);
        assert_eq!(self.next(5), None);
    }
}

#[test]
fn g_as_2_a_wait_in_vain_counts_as_an_exit() {
    let mut bench = Bench::new(&[]);
    bench.serve_then_ask(1, 1000);
    assert!(!bench.scheduler.is_idling(), "no request is held back");
    let other = bench.read(5, 2, 1_000_000);
    assert_eq!(bench.next(5), None);
    assert!(bench.scheduler.is_idling());
    assert_eq!(bench.scheduler.timer_ns(), Some(11 * MILLISECOND_NS));
    bench.scheduler.timer(11 * MILLISECOND_NS, &mut bench.queue);
    assert_eq!(bench.scheduler.newcomers.exits, 32);
    assert!(bench.queue.run_soon && !bench.scheduler.is_idling());
    assert_eq!(bench.next(11), Some(other));
    assert_eq!(bench.scheduler.wait, Wait::Off);
}

#[test]
fn an_exit_alone_counts_and_a_close_request_speaks_against_it() {
    let mut bench = Bench::new(&[]);
    bench.serve_then_ask(1, 1000);
    bench.read(5, 2, 1_000_000);
    assert_eq!(bench.next(5), None);
    bench.scheduler.exit(6 * MILLISECOND_NS, 1, &mut bench.queue);
    bench.scheduler.timer(11 * MILLISECOND_NS, &mut bench.queue);
    let newcomers = bench.scheduler.newcomers;
    assert_eq!((newcomers.exits, newcomers.exits_alone), (32, 32));

    let mut bench = Bench::new(&[]);
    bench.serve_then_ask(1, 1000);
    bench.read(5, 2, 1_000_000);
    assert_eq!(bench.next(5), None);
    bench.scheduler.exit(6 * MILLISECOND_NS, 1, &mut bench.queue);
    bench.scheduler.newcomers.exits_alone = 64;
    let near = bench.read(7, 3, 1016);
    assert_eq!(bench.scheduler.newcomers.exits_alone, 56);
    assert_eq!(bench.scheduler.newcomers.exits, 28, "counted, and faded by the close request");
    assert_eq!(bench.next(7), Some(near));
}

#[test]
fn g_as_7_near_ahead_counts_once_and_behind_twice() {
    for ([first, second], nearest) in [
        ([9000, 11_500], 11_500),
        ([9000, 12_500], 9000),
        ([11_000, 9500], 11_000),
        ([9500, 11_000], 11_000),
    ] {
        let mut bench = Bench::new(&[]);
        bench.scheduler.lanes[1].last_sector = 10_000;
        bench.read(0, 1, first);
        bench.read(0, 1, second);
        let next = bench.scheduler.lanes[1].next.expect("two are queued");
        assert_eq!(bench.queue.requests[next].sector(), nearest, "{first} {second}");
    }
}

#[test]
fn beyond_the_longest_back_seek_the_sweep_wraps_to_the_lowest() {
    let mut bench = Bench::new(&[]);
    let head = 10 * super::LONGEST_BACK_SEEK;
    bench.scheduler.lanes[1].last_sector = head;
    let nearest = |bench: &Bench| {
        let next = bench.scheduler.lanes[1].next.expect("queued");
        bench.queue.requests[next].sector()
    };
    bench.read(0, 1, 2000);
    bench.read(0, 1, 1000);
    assert_eq!(nearest(&bench), 1000);
    bench.read(0, 1, head - super::LONGEST_BACK_SEEK - 1);
    assert_eq!(nearest(&bench), 1000);
    bench.read(0, 1, head - super::LONGEST_BACK_SEEK);
    assert_eq!(nearest(&bench), head - super::LONGEST_BACK_SEEK);
}

#[test]
fn g_as_9_a_write_of_the_awaited_process_ends_the_wait() {
    let mut bench = Bench::new(&[]);
    bench.serve_then_ask(1, 1000);
    let other = bench.read(5, 2, 1_000_000);
    assert_eq!(bench.next(5), None);
    bench.insert(7, 3, Direction::Write, 5_000_000);
    assert!(bench.scheduler.is_idling(), "a write of another process does not");
    bench.insert(8, 1, Direction::Write, 9_000_000);
    assert!(!bench.scheduler.is_idling() && bench.queue.run_soon);
    assert_eq!(bench.scheduler.timer_ns(), None);
    assert_eq!(bench.next(8), Some(other));
}

#[test]
fn the_awaited_process_gets_a_request_beyond_the_limit() {
    let mut bench = Bench::new(&[]);
    bench.serve_then_ask(1, 1000);
    let id = bench.read(5, 2, 1_000_000);
    let bio = bench.queue.requests[id].bio;
    assert!(!bench.scheduler.must_queue(1, &bio, &bench.queue));
    assert_eq!(bench.next(5), None);
    assert!(bench.scheduler.must_queue(1, &bio, &bench.queue));
    assert!(!bench.scheduler.must_queue(2, &bio, &bench.queue));
}

#[test]
fn what_is_close_doubles_with_every_tick_and_overflows() {
    let far = |distance: u64, waited: u64| {
        let mut bench = Bench::new(&[("antic_expire", 30)]);
        bench.serve_then_ask(1, 1000);
        bench.read(5, 2, 1 << 40);
        assert_eq!(bench.next(5), None);
        bench.read(5 + waited, 3, 1008 + distance);
        bench.scheduler.is_idling()
    };
    assert!(!far(8192, 0) && far(8193, 0));
    assert!(!far(16_384, 1) && far(16_385, 1));
    assert!(!far(8192 << 17, 17) && far((8192 << 17) + 1, 17));
    assert!(!far(1 << 39, 18), "a window of 2^31 is negative, and everything is close");
    assert!(far(1, 19), "one of 2^32 is nothing");
    assert!(!far(1 << 39, 21), "and beyond 20 ms everything is close again");
}

#[test]
fn processes_that_are_gone_leave_no_state() {
    let mut bench = Bench::new(&[("antic_expire", 0)]);
    let mut bytes = 0;
    for pid in 0..1000 {
        let id = bench.read(0, pid, 1000);
        assert_eq!(bench.next(0), Some(id));
        bench.scheduler.exit(0, pid, &mut bench.queue);
        bench.complete(0, id);
        if pid == 20 {
            bytes = bench.scheduler.state_bytes();
        }
    }
    assert_eq!(bench.scheduler.state_bytes(), bytes);
}

/// `update_write_batch` of `block/as-iosched.c`, Linux 2.6.29: batches of writes are fitted to 125 ms. One
/// that took longer is made shorter, by half beyond three times as long; one that was used up earlier is
/// made longer, twofold below a third.
#[test]
fn a_batch_of_writes_is_fitted_to_the_time_it_took() {
    let fitted = |length: u32, taken: u64, left: u32, uncontended: bool| {
        let mut bench = Bench::new(&[("write_batch_expire", 125)]);
        let scheduler = &mut bench.scheduler;
        scheduler.write_batch_length = length;
        scheduler.writes_left = left;
        scheduler.writes_uncontended = uncontended;
        let now = 10_000;
        scheduler.batch_expires = now + 125 - taken;
        scheduler.resize_write_batch(now);
        scheduler.write_batch_length
    };
    assert_eq!([125, 126, 375, 376].map(|taken| fitted(16, taken, 0, false)), [16, 15, 15, 8]);
    assert_eq!([124, 42, 41, 0].map(|taken| fitted(16, taken, 0, false)), [17, 17, 32, 32]);
    assert_eq!(fitted(16, 41, 1, false), 16, "writes of the batch are left");
    assert_eq!(fitted(16, 376, 0, true), 16, "no reader waited for its end");
    assert_eq!([1, 2].map(|length| fitted(length, 376, 0, false)), [1, 1], "never none");
}

#[test]
fn a_broken_count_is_seen() {
    use super::{Anticipatory, ENTRY};
    use crate::tests::{CLOCK, defaults, filled, panics_with};
    use crate::{RequestId, Scheduler};
    let (mut anticipatory, queue) = filled(Anticipatory::new(&defaults(&ENTRY), CLOCK));
    for lane in &mut anticipatory.lanes {
        if lane.by_sector.first() == Some(RequestId(2)) {
            lane.by_sector.remove(RequestId(2));
        }
    }
    let message = "the same requests are sorted by sector and by age";
    panics_with(message, || anticipatory.audit(&queue));
}

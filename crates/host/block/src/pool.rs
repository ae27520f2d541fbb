//! The limit of requests: `nr_requests`, congestion and batching.
//!
//! Source: `get_request`, `freed_request` and `ioc_batching` of `block/blk-core.c`, Linux 2.6.29 to
//! 3.4. 2.6.29 counts reads and writes apart, later kernels synchronous and asynchronous requests.

use sched::{Bio, Direction};

/// Requests a task may allocate beyond the limit once it has filled the pool (`BLK_BATCH_REQ`).
const BATCH_REQUESTS: u32 = 32;

/// How long it may (`BLK_BATCH_TIME`, `HZ` / 50).
const BATCH_NS: u64 = 20_000_000;

/// A task's right to go on beyond the limit (`nr_batch_requests` and `last_waited` of its
/// `io_context`).
#[derive(Clone, Copy, Debug)]
struct Batch {
    pid: u32,
    /// Requests it may still allocate.
    left: u32,
    until_ns: u64,
}

impl Batch {
    fn is_valid(&self, now_ns: u64) -> bool {
        // A whole batch has no end: who was granted it gets at least one request, however late it
        // runs, or wake-ups could be lost (`ioc_batching`).
        self.left == BATCH_REQUESTS || now_ns < self.until_ns
    }
}

/// What is counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolRules {
    /// Reads and writes (2.6.29).
    PerDirection,
    /// Synchronous and asynchronous requests (2.6.30 to 3.x).
    #[default]
    PerSync,
}

/// The answer to a request for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The request is allocated.
    Granted,
    /// The pool is used up: wait for one to be freed, first come, first served.
    Wait,
}

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    allocated: u32,
    is_full: bool,
    is_congested: bool,
}

/// Requests allocated of a queue.
#[derive(Clone, Debug)]
pub struct RequestPool {
    rules: PoolRules,
    nr_requests: u32,
    sides: [Side; 2],
    /// Tasks that may go beyond the limit; none with nothing left.
    batches: Vec<Batch>,
}

impl RequestPool {
    /// An empty pool of `nr_requests` requests a side.
    pub fn new(rules: PoolRules, nr_requests: u32) -> Self {
        Self { rules, nr_requests, sides: [Side::default(); 2], batches: Vec::new() }
    }

    /// The side of the pool that a bio's request comes from.
    pub fn side(&self, bio: &Bio) -> usize {
        let second = match self.rules {
            // `rl->count[2]`: the index is the direction up to 2.6.29 and the synchronous flag from
            // 2.6.30 on.
            PoolRules::PerDirection => bio.direction == Direction::Write,
            PoolRules::PerSync => !bio.sync,
        };
        usize::from(second)
    }

    /// Allocates a request for a task. `must` is the scheduler's wish to have it in any case;
    /// `limit` is how many requests of the side the scheduler admits, if it limits them.
    pub fn allocate(&mut self, now_ns: u64, bio: &Bio, must: bool, limit: Option<u32>) -> Grant {
        let index = self.side(bio);
        // Plus one: the tests are made for the request that is asked for (`rl->count[] + 1`).
        let wanted = self.sides[index].allocated + 1;
        let fills = wanted >= self.nr_requests;
        if wanted >= congestion_on(self.nr_requests) {
            if fills {
                // The task that fills the pool becomes a batcher and goes on; whoever comes after
                // it waits (`ioc_set_batching`).
                if !self.sides[index].is_full {
                    self.sides[index].is_full = true;
                    self.set_batching(now_ns, bio.pid);
                } else if !must && !self.is_batching(now_ns, bio.pid) {
                    // `ELV_MQUEUE_MUST` passes this test, but not the one of three halves below.
                    return Grant::Wait;
                }
            }
            // Congestion is announced before the pool is empty, so that write-back turns to other
            // devices.
            self.sides[index].is_congested = true;
        }
        let allocated = self.sides[index].allocated;
        if allocated >= 3 * self.nr_requests / 2
            || limit.is_some_and(|limit| allocated >= limit && !must)
        {
            return Grant::Wait;
        }
        self.sides[index].allocated += 1;
        // 2.6.29 looks for the task's batch only where the pool is full, 3.4 always.
        if fills || self.rules == PoolRules::PerSync {
            self.use_batch(now_ns, bio.pid);
        }
        Grant::Granted
    }

    /// A task that waited gets its turn and may allocate a batch (`get_request_wait`).
    // Without it a waking task could find its request taken by another that never slept.
    pub fn woke(&mut self, now_ns: u64, pid: u32) {
        self.set_batching(now_ns, pid);
    }

    fn is_batching(&self, now_ns: u64, pid: u32) -> bool {
        self.batches.iter().any(|batch| batch.pid == pid && batch.is_valid(now_ns))
    }

    fn set_batching(&mut self, now_ns: u64, pid: u32) {
        // A batch under way is not begun anew (`ioc_set_batching`).
        self.batches.retain(|batch| batch.is_valid(now_ns));
        if !self.is_batching(now_ns, pid) {
            let until_ns = now_ns + BATCH_NS;
            self.batches.push(Batch { pid, left: BATCH_REQUESTS, until_ns });
        }
    }

    /// Counts a request against the task's batch, the one that filled the pool included.
    fn use_batch(&mut self, now_ns: u64, pid: u32) {
        for batch in &mut self.batches {
            if batch.pid == pid && batch.is_valid(now_ns) {
                batch.left -= 1;
            }
        }
        self.batches.retain(|batch| batch.left > 0);
        debug_assert!(
            self.batches.iter().filter(|batch| batch.pid == pid).count() <= 1,
            "a task has one batch"
        );
    }

    /// Frees a request; true if a task that waits for this side is to be woken.
    pub fn free(&mut self, side: usize) -> bool {
        let nr_requests = self.nr_requests;
        let side = &mut self.sides[side];
        debug_assert!(side.allocated > 0, "a request is freed once");
        side.allocated -= 1;
        // Off lies a sixteenth below on, so that the state does not change with each request.
        if side.allocated < congestion_off(nr_requests) {
            side.is_congested = false;
        }
        // `freed_request` wakes one waiter for each request below the limit, first come, first
        // served.
        if side.allocated < nr_requests {
            side.is_full = false;
            return true;
        }
        false
    }

    /// Checks counts, flags and batches.
    ///
    /// # Panics
    /// A rule is broken.
    pub(crate) fn audit(&self) {
        for side in &self.sides {
            // Room for the request whose allocation set the flag and was then refused by the scheduler.
            let next = side.allocated + 1;
            let most = (3 * self.nr_requests / 2).max(1);
            assert!(side.allocated <= most, "no more than three halves are allocated");
            assert!(!side.is_full || next >= self.nr_requests, "a full side has its requests");
            let (on, off) = (congestion_on(self.nr_requests), congestion_off(self.nr_requests));
            assert!(!side.is_congested || next >= off, "a congested side has requests");
            assert!(side.is_congested || side.allocated < on, "a side with many is congested");
        }
        for (place, batch) in self.batches.iter().enumerate() {
            assert!((1..=BATCH_REQUESTS).contains(&batch.left), "a batch has requests left");
            let is_other = |other: &Batch| other.pid != batch.pid;
            assert!(self.batches[..place].iter().all(is_other), "a task has one batch");
        }
    }

    /// True if a writer that can wait should (`bdi_write_congested`).
    pub fn is_congested(&self, side: usize) -> bool {
        self.sides[side].is_congested
    }

    /// Requests allocated of a side.
    pub fn allocated(&self, side: usize) -> u32 {
        self.sides[side].allocated
    }
}

/// Allocations from which a side is congested.
const fn congestion_on(nr_requests: u32) -> u32 {
    // `blk_queue_congestion_threshold`: seven eighths and one.
    let on = nr_requests - nr_requests / 8 + 1;
    if on > nr_requests { nr_requests } else { on }
}

/// Allocations below which it is not any more.
const fn congestion_off(nr_requests: u32) -> u32 {
    // Thirteen sixteenths less one, and never zero, or a small pool would stay congested for ever.
    let below = nr_requests - nr_requests / 8 - nr_requests / 16;
    if below > 1 { below - 1 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Grant, PoolRules, RequestPool};
    use crate::tests::panics_with;
    use sched::{Bio, Class, Direction};

    fn bio(pid: u32, sync: bool) -> Bio {
        Bio {
            pid,
            direction: Direction::Write,
            sync,
            noidle: false,
            class: Class::BestEffort,
            level: 4,
            sector: 0,
            sectors: 8,
        }
    }

    fn allocate(pool: &mut RequestPool, pid: u32, times: u32) -> u32 {
        (0..times)
            .take_while(|_| pool.allocate(0, &bio(pid, false), false, None) == Grant::Granted)
            .count() as u32
    }

    #[test]
    fn the_task_that_fills_the_pool_gets_a_batch_beyond_it() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        assert_eq!(allocate(&mut pool, 1, 112), 112);
        assert!(!pool.is_congested(1));
        assert_eq!(allocate(&mut pool, 1, 1), 1);
        assert!(pool.is_congested(1), "on at 113");
        assert_eq!(allocate(&mut pool, 1, 200), 15 + 31, "the 128th, and 31 more");
        assert_eq!(allocate(&mut pool, 2, 1), 0, "others wait");
        assert_eq!(pool.allocate(0, &bio(2, true), false, None), Grant::Granted);
        assert_eq!(pool.allocate(0, &bio(2, false), true, None), Grant::Granted, "must");
    }

    #[test]
    fn no_one_gets_beyond_three_halves() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        let granted = (0..300)
            .filter(|_| pool.allocate(0, &bio(1, false), true, None) == Grant::Granted)
            .count();
        assert_eq!(granted, 192);
    }

    #[test]
    fn congestion_ends_below_103() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        allocate(&mut pool, 1, 120);
        for _ in 0..17 {
            pool.free(1);
        }
        assert!(pool.is_congested(1), "103 left");
        pool.free(1);
        assert!(!pool.is_congested(1), "102 left");
    }

    /// `get_request_wait` of Linux 3.4: who slept becomes the batcher (`ioc_set_batching`), for 32 requests
    /// and 20 ms, and the one before is none any more.
    #[test]
    fn a_task_that_waited_gets_a_batch_for_32_requests_and_20_ms() {
        let granted = |pool: &mut RequestPool, now_ns: u64, pid: u32| {
            pool.allocate(now_ns, &bio(pid, false), false, None) == Grant::Granted
        };
        let mut full = RequestPool::new(PoolRules::PerSync, 128);
        allocate(&mut full, 1, 200);
        assert_eq!(full.allocated(1), 127 + 32);
        assert_eq!(full.allocated(0), 0, "the other side has its own");
        for _ in 0..30 {
            assert!(!full.free(1), "still at the limit or above");
        }
        assert!(!granted(&mut full, 0, 2), "129 are in use");
        full.woke(5_000_000, 2);
        assert!(!granted(&mut full, 5_000_000, 1), "the batch is another task's");
        let mut late = full.clone();
        assert!(granted(&mut late, 30_000_000, 2), "a whole batch does not end");
        assert!(!granted(&mut late, 30_000_000, 2), "20 ms are over");
        let mut late = full.clone();
        assert!(granted(&mut late, 5_000_000, 2));
        assert!(granted(&mut late, 24_999_999, 2));
        assert!(!granted(&mut late, 25_000_000, 2), "20 ms are over");
        let batch = (0..100).filter(|_| granted(&mut full, 5_000_000, 2)).count();
        assert_eq!(batch, 32);
    }

    /// The right stands in the `io_context` of each task: two that waited both have theirs, and a batch
    /// under way is not begun anew (`ioc_set_batching`).
    #[test]
    fn each_task_has_a_batch_of_its_own() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        allocate(&mut pool, 1, 130);
        for pid in [2, 3] {
            pool.woke(0, pid);
        }
        assert_eq!([allocate(&mut pool, 2, 10), allocate(&mut pool, 3, 10)], [10, 10]);
        pool.woke(0, 2);
        assert_eq!([2, 3, 4].map(|pid| allocate(&mut pool, pid, 40)), [22, 20, 0], "192 in all");
    }

    /// 3.4 finds the task's `io_context` first of all, 2.6.29 only where the pool is full
    /// (`get_request`).
    #[test]
    fn requests_below_the_limit_count_against_a_batch_from_3_4_on() {
        for (rules, batch) in [(PoolRules::PerSync, 31 - 20), (PoolRules::PerDirection, 31)] {
            let mut pool = RequestPool::new(rules, 128);
            allocate(&mut pool, 1, 128);
            for _ in 0..40 {
                pool.free(1);
            }
            allocate(&mut pool, 1, 20);
            // Another task fills the pool, so that the first one is not granted a batch anew.
            allocate(&mut pool, 2, 20);
            assert_eq!((pool.allocated(1), allocate(&mut pool, 1, 100)), (128, batch));
        }
    }

    /// A limit of the scheduler ends even a batch, and a bio without one goes on.
    #[test]
    fn a_scheduler_may_limit_what_a_bio_gets() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        let grants = |pool: &mut RequestPool, limit| {
            let grant = |_: &u32| pool.allocate(0, &bio(1, false), false, limit) == Grant::Granted;
            (0..300).take_while(grant).count()
        };
        assert_eq!(grants(&mut pool, Some(96)), 96);
        assert_eq!(grants(&mut pool, Some(128)), 32);
        assert_eq!(grants(&mut pool, None), 31);
    }

    /// `freed_request` wakes a task as soon as fewer than `nr_requests` are left, and the pool is not full.
    #[test]
    fn a_freed_request_wakes_a_task_below_the_limit_alone() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        allocate(&mut pool, 1, 130);
        assert_eq!([pool.free(1), pool.free(1), pool.free(1)], [false, false, true]);
        assert_eq!(pool.allocated(1), 127);
        // It is full again with the next one, and who takes that one is the batcher.
        assert_eq!(allocate(&mut pool, 2, 100), 32);
    }

    /// 2.6.29 counts reads and writes apart, 3.4 synchronous and asynchronous requests.
    #[test]
    fn what_is_counted_apart_depends_on_the_kernel() {
        let read = Bio { direction: Direction::Read, ..bio(1, true) };
        let sides = |rules| {
            let pool = RequestPool::new(rules, 128);
            [read, bio(1, true), bio(1, false)].map(|bio| pool.side(&bio))
        };
        assert_eq!(sides(PoolRules::PerDirection), [0, 1, 1]);
        assert_eq!(sides(PoolRules::PerSync), [0, 0, 1]);
    }

    /// `blk_queue_congestion_threshold`: small limits are rounded so that both thresholds stay within them.
    #[test]
    fn congestion_of_a_small_pool() {
        for (nr_requests, on, off) in [(4, 4, 3), (16, 15, 12), (64, 57, 51), (1, 1, 1)] {
            let mut pool = RequestPool::new(PoolRules::PerSync, nr_requests);
            let mut take = || pool.allocate(0, &bio(1, false), true, None);
            for _ in 1..on {
                take();
            }
            assert!(!pool.is_congested(1), "{nr_requests}: {on} are not taken yet");
            pool.allocate(0, &bio(1, false), true, None);
            assert!(pool.is_congested(1), "{nr_requests}: {on}");
            while pool.allocated(1) > off {
                pool.free(1);
                assert!(pool.is_congested(1), "{nr_requests}: {} left", pool.allocated(1));
            }
            pool.free(1);
            assert!(!pool.is_congested(1), "{nr_requests}: below {off}");
        }
    }

    #[test]
    fn every_broken_count_is_seen() {
        panics_with("a request is freed once", || {
            RequestPool::new(PoolRules::PerSync, 4).free(1);
        });
        let audited = |fault: fn(&mut RequestPool)| {
            let mut pool = RequestPool::new(PoolRules::PerSync, 128);
            allocate(&mut pool, 1, 130);
            pool.audit();
            fault(&mut pool);
            pool.audit();
        };
        panics_with("no more than three halves are allocated", || {
            audited(|pool| pool.sides[1].allocated = 193);
        });
        panics_with("a full side has its requests", || {
            audited(|pool| pool.sides[1].allocated = 126);
        });
        panics_with("a congested side has requests", || {
            audited(|pool| pool.sides[0].is_congested = true);
        });
        panics_with("a side with many is congested", || {
            audited(|pool| pool.sides[1].is_congested = false);
        });
        panics_with("a batch has requests left", || audited(|pool| pool.batches[0].left = 0));
        panics_with("a task has one batch", || {
            audited(|pool| pool.batches.push(pool.batches[0]));
        });
        panics_with("a task has one batch", || {
            let mut pool = RequestPool::new(PoolRules::PerSync, 4);
            let batch = Batch { pid: 1, left: 9, until_ns: 5 };
            pool.batches = vec![batch; 2];
            pool.use_batch(0, 1);
        });
    }
}

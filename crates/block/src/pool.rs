//! The limit of requests: `nr_requests`, congestion and batching.
//!
//! Source: `get_request`, `freed_request` and `ioc_batching` of `block/blk-core.c`, Linux 2.6.29 to
//! 3.4. 2.6.29 counts reads and writes apart, later kernels synchronous and asynchronous requests.

use sched::{Bio, Direction};

/// Requests a task may allocate beyond the limit once it has filled the pool (`BLK_BATCH_REQ`).
const BATCH_REQUESTS: u32 = 32;

/// How long it may (`BLK_BATCH_TIME`, `HZ` / 50).
const BATCH_NS: u64 = 20_000_000;

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
    /// Task that may go beyond the limit, how many more times, and until when.
    batcher: Option<(u32, u32, u64)>,
}

impl RequestPool {
    /// An empty pool of `nr_requests` requests a side.
    pub fn new(rules: PoolRules, nr_requests: u32) -> Self {
        Self { rules, nr_requests, sides: [Side::default(); 2], batcher: None }
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
    /// `limit` is how many requests of the side the scheduler admits.
    pub fn allocate(&mut self, now_ns: u64, bio: &Bio, must: bool, limit: u32) -> Grant {
        let index = self.side(bio);
        let side = &mut self.sides[index];
        // Plus one: the tests are made for the request that is asked for (`rl->count[] + 1`).
        if side.allocated + 1 >= congestion_on(self.nr_requests) {
            if side.allocated + 1 >= self.nr_requests {
                // The task that fills the pool becomes the batcher and goes on; whoever comes after
                // it waits (`ioc_set_batching`).
                if !side.is_full {
                    side.is_full = true;
                    self.batcher = Some((bio.pid, BATCH_REQUESTS, now_ns + BATCH_NS));
                } else if !must && !may_batch(&mut self.batcher, now_ns, bio.pid) {
                    // `ELV_MQUEUE_MUST` passes this test, but not the one of three halves below.
                    return Grant::Wait;
                }
            }
            // Congestion is announced before the pool is empty, so that write-back turns to other
            // devices.
            self.sides[index].is_congested = true;
        }
        let side = &mut self.sides[index];
        // `limit` is the asynchronous depth of the multi-queue schedulers. The others return
        // `nr_requests`, so a batch of asynchronous requests ends there, while the kernel's may go
        // on to three halves.
        if side.allocated >= 3 * self.nr_requests / 2 || (side.allocated >= limit && !must) {
            return Grant::Wait;
        }
        side.allocated += 1;
        Grant::Granted
    }

    /// A task that waited gets its turn and may allocate a batch (`get_request_wait`).
    // Without it a waking task could find its request taken by another that never slept.
    pub fn woke(&mut self, now_ns: u64, pid: u32) {
        self.batcher = Some((pid, BATCH_REQUESTS, now_ns + BATCH_NS));
    }

    /// Frees a request; true if a task that waits for this side is to be woken.
    pub fn free(&mut self, side: usize) -> bool {
        let nr_requests = self.nr_requests;
        let side = &mut self.sides[side];
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

    /// True if a writer that can wait should (`bdi_write_congested`).
    pub fn is_congested(&self, side: usize) -> bool {
        self.sides[side].is_congested
    }

    /// Requests allocated of a side.
    pub fn allocated(&self, side: usize) -> u32 {
        self.sides[side].allocated
    }
}

fn may_batch(batcher: &mut Option<(u32, u32, u64)>, now_ns: u64, pid: u32) -> bool {
    match batcher {
        // One task at a time here; the kernel keeps the right in each `io_context`.
        Some((task, left, until_ns)) if *task == pid && *left > 0 && now_ns < *until_ns => {
            *left -= 1;
            true
        }
        _ => false,
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
    use super::{Grant, PoolRules, RequestPool};
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
            .take_while(|_| pool.allocate(0, &bio(pid, false), false, u32::MAX) == Grant::Granted)
            .count() as u32
    }

    #[test]
    fn the_task_that_fills_the_pool_gets_a_batch_beyond_it() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        assert_eq!(allocate(&mut pool, 1, 112), 112);
        assert!(!pool.is_congested(1));
        assert_eq!(allocate(&mut pool, 1, 1), 1);
        assert!(pool.is_congested(1), "on at 113");
        assert_eq!(allocate(&mut pool, 1, 200), 15 + 32, "the 128th, and 32 more");
        assert_eq!(allocate(&mut pool, 2, 1), 0, "others wait");
        assert_eq!(pool.allocate(0, &bio(2, true), false, u32::MAX), Grant::Granted);
        assert_eq!(pool.allocate(0, &bio(2, false), true, u32::MAX), Grant::Granted, "must");
    }

    #[test]
    fn no_one_gets_beyond_three_halves() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        let granted = (0..300)
            .filter(|_| pool.allocate(0, &bio(1, false), true, u32::MAX) == Grant::Granted)
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
            pool.allocate(now_ns, &bio(pid, false), false, u32::MAX) == Grant::Granted
        };
        let mut full = RequestPool::new(PoolRules::PerSync, 128);
        allocate(&mut full, 1, 200);
        assert_eq!(full.allocated(1), 127 + 1 + 32);
        assert_eq!(full.allocated(0), 0, "the other side has its own");
        for _ in 0..30 {
            assert!(!full.free(1), "still at the limit or above");
        }
        assert!(!granted(&mut full, 0, 2), "130 are in use");
        full.woke(5_000_000, 2);
        assert!(!granted(&mut full, 5_000_000, 1), "the batch is another task's");
        let mut late = full.clone();
        assert!(granted(&mut late, 24_999_999, 2));
        assert!(!granted(&mut late, 25_000_000, 2), "20 ms are over");
        let batch = (0..100).filter(|_| granted(&mut full, 5_000_000, 2)).count();
        assert_eq!(batch, 32);
    }

    /// `freed_request` wakes a task as soon as fewer than `nr_requests` are left, and the pool is not full.
    #[test]
    fn a_freed_request_wakes_a_task_below_the_limit_alone() {
        let mut pool = RequestPool::new(PoolRules::PerSync, 128);
        allocate(&mut pool, 1, 130);
        assert_eq!([pool.free(1), pool.free(1), pool.free(1)], [false, false, true]);
        assert_eq!(pool.allocated(1), 127);
        // It is full again with the next one, and who takes that one is the batcher.
        assert_eq!(allocate(&mut pool, 2, 100), 33);
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
            let mut take = || pool.allocate(0, &bio(1, false), true, u32::MAX);
            for _ in 1..on {
                take();
            }
            assert!(!pool.is_congested(1), "{nr_requests}: {on} are not taken yet");
            pool.allocate(0, &bio(1, false), true, u32::MAX);
            assert!(pool.is_congested(1), "{nr_requests}: {on}");
            while pool.allocated(1) > off {
                pool.free(1);
                assert!(pool.is_congested(1), "{nr_requests}: {} left", pool.allocated(1));
            }
            pool.free(1);
            assert!(!pool.is_congested(1), "{nr_requests}: below {off}");
        }
    }
}

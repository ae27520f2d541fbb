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
    /// It is allocated.
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
        if side.allocated + 1 >= congestion_on(self.nr_requests) {
            if side.allocated + 1 >= self.nr_requests {
                if !side.is_full {
                    side.is_full = true;
                    self.batcher = Some((bio.pid, BATCH_REQUESTS, now_ns + BATCH_NS));
                } else if !must && !may_batch(&mut self.batcher, now_ns, bio.pid) {
                    return Grant::Wait;
                }
            }
            self.sides[index].is_congested = true;
        }
        let side = &mut self.sides[index];
        if side.allocated >= 3 * self.nr_requests / 2 || (side.allocated >= limit && !must) {
            return Grant::Wait;
        }
        side.allocated += 1;
        Grant::Granted
    }

    /// A task that waited gets its turn and may allocate a batch (`get_request_wait`).
    pub fn woke(&mut self, now_ns: u64, pid: u32) {
        self.batcher = Some((pid, BATCH_REQUESTS, now_ns + BATCH_NS));
    }

    /// Frees a request; true if a task that waits for this side is to be woken.
    pub fn free(&mut self, side: usize) -> bool {
        let nr_requests = self.nr_requests;
        let side = &mut self.sides[side];
        side.allocated -= 1;
        if side.allocated < congestion_off(nr_requests) {
            side.is_congested = false;
        }
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
        Some((task, left, until_ns)) if *task == pid && *left > 0 && now_ns < *until_ns => {
            *left -= 1;
            true
        }
        _ => false,
    }
}

/// Allocations from which a side is congested.
const fn congestion_on(nr_requests: u32) -> u32 {
    let on = nr_requests - nr_requests / 8 + 1;
    if on > nr_requests { nr_requests } else { on }
}

/// Allocations below which it is not any more.
const fn congestion_off(nr_requests: u32) -> u32 {
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
}

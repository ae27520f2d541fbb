//! Kyber: no order, only a limit of requests in flight for reads and for writes.
//!
//! Reads and writes are *domains* with a FIFO each, served in turn in batches of 16 reads and 8
//! writes. A request needs a token of its domain until it is completed. Every 100 ms of activity,
//! if the device answers more than one request in ten later than the target, domains that meet
//! their target lose tokens; a domain that misses its target gets tokens back.
//!
//! When to expect what: with a device of one or few slots the limits never bind and it is a FIFO in
//! batches; with a deep queue writes are throttled while reads miss `read_lat_nsec`.
//!
//! Quirks, all of the kernel:
//! - Percentiles need 500 samples or a second, but both percentiles of a domain share one timeout.
//!   The one of device latency is computed first and restarts it, so that of total latency waits for
//!   500 samples, or for a second in which the domain completed nothing (and the other did).
//! - A bio merges with one of the last 8 requests of its domain, and only until a dispatch of the
//!   domain finds no older batch and takes all of them over.
//! - Priorities matter in merging only.
//!
//! With several hardware queues each has its own FIFOs, batch and domain in turn (`kyber_hctx_data`). The
//! tokens are those of the device. Bios are merged in the software queue of their core; a hardware queue
//! takes over those of its cores one after the other.
//!
//! Left out: discards and other operations, whose domains stay empty; the queue in which hardware queues
//! wait for a token, and wake-ups in batches after tokens ran out.
//!
//! Source: Linux 6.12, `block/kyber-iosched.c` (the same from 4.20 on); merging, `block/blk-merge.c`.

use crate::tag_depth::TagPool;
use crate::{
    Bio, Clock, Direction, Links, List, MergeSide, Queue, QueueMap, RequestId, Scheduler,
    SchedulerEntry, Settings,
};
use settings::{Kind, Parameter};

/// Kyber as in Linux 4.20 to 6.12.
pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "kyber",
    aliases: &[],
    summary: "first in, first out, with limits of requests in flight that follow latencies",
    source: "Linux 6.12, block/kyber-iosched.c",
    parameters: &[
        // The targets of `kyber_latency_targets`.
        latency("read_lat_nsec", "2000000", "ns within which a read should be done"),
        latency("write_lat_nsec", "10000000", "ns within which a write should be done"),
    ],
    build: &|settings, clock| Box::new(Kyber::new(settings, clock)),
};

const fn latency(name: &'static str, default: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Integer { min: 0, max: u32::MAX as i64 }, default, summary }
}

/// Most tokens and size of a batch of reads and of writes.
// `kyber_depth` and `kyber_batch_size`.
const LIMITS: [(u32, u32); 2] = [(256, 16), (128, 8)];

/// Requests of a domain that a bio is compared with.
// `blk_bio_list_merge` gives up after eight requests.
const MERGE_CANDIDATES: usize = 8;

/// Share of a tag word, in percent, that asynchronous requests may use.
// `KYBER_ASYNC_PERCENT`.
const ASYNC_PERCENT: u32 = 75;

/// Samples that make a percentile without waiting.
// With less the timer waits for a second from the first sample on (`calculate_percentile`).
const ENOUGH_SAMPLES: u32 = 500;

/// Latencies by quarters of the target; the last bucket has no upper bound.
#[derive(Clone, Copy, Default)]
struct Histogram([u32; 8]);

/// First bucket over the target, and quarters of the target.
const TARGET_QUARTERS: usize = 4;

impl Histogram {
    fn add(&mut self, latency_ns: u64, target_ns: u64) {
        let quarter_ns = (target_ns / TARGET_QUARTERS as u64).max(1);
        // `add_latency_sample` rounds up: a request that takes exactly a quarter stands in the
        // first bucket.
        let last = self.0.len() - 1;
        let bucket = latency_ns.saturating_sub(1) / quarter_ns;
        self.0[bucket.min(last as u64) as usize] += 1;
    }

    fn samples(&self) -> u32 {
        self.0.iter().sum()
    }

    /// The bucket in which `percent` of the samples are reached.
    fn percentile(&self, percent: u32) -> usize {
        let wanted = (u64::from(self.samples()) * u64::from(percent)).div_ceil(100);
        let mut seen = 0;
        let reached = |count: &u32| {
            seen += u64::from(*count);
            seen >= wanted
        };
        // What rounding leaves belongs to the last bucket.
        self.0.iter().position(reached).unwrap_or(self.0.len() - 1)
    }
}

struct Domain {
    /// Requests that bios can be merged with, by core (`kyber_ctx_queue`).
    staged: Vec<List>,
    /// Requests that were taken over for dispatch, by hardware queue.
    ready: Vec<List>,
    in_flight: u32,
    /// Tokens that the domain has.
    depth: u32,
    max_depth: u32,
    batch: u32,
    target_ns: u64,
    total_latency: Histogram,
    device_latency: Histogram,
    /// When percentiles are computed of what samples there are, in jiffies.
    timeout: Option<u64>,
    /// Total latency at its last percentile, until it served under congestion.
    remembered: Option<usize>,
}

impl Domain {
    fn new((max_depth, batch): (u32, u32), target_ns: u32) -> Self {
        Self {
            staged: vec![List::default()],
            ready: vec![List::default()],
            in_flight: 0,
            depth: max_depth,
            max_depth,
            batch,
            target_ns: u64::from(target_ns),
            total_latency: Histogram::default(),
            device_latency: Histogram::default(),
            timeout: None,
            remembered: None,
        }
    }

    /// Takes the next request of a hardware queue, if there is one and a token for it.
    fn take(&mut self, links: &mut Links, map: QueueMap, queue: usize) -> Option<RequestId> {
        if self.in_flight >= self.depth {
            return None;
        }
        // `kyber_flush_busy_kcqs` empties the software queues only when the domain has nothing
        // taken over.
        let ready = &mut self.ready[queue];
        if ready.is_empty() {
            for core in map.cores_of(queue, self.staged.len()) {
                while let Some(id) = self.staged[core].pop_front(links) {
                    ready.push_back(links, id);
                }
            }
        }
        let id = ready.pop_front(links)?;
        self.in_flight += 1;
        debug_assert!(self.in_flight <= self.max_depth, "a request in flight has a token");
        Some(id)
    }

    /// True when percentiles of so many samples are due; starts waiting for them otherwise.
    fn is_due(&mut self, samples: u32, now: u64, clock: Clock) -> bool {
        if samples == 0 {
            return false;
        }
        let timeout = *self.timeout.get_or_insert(now + u64::from(clock.hz));
        // The timeout is that of the domain, shared by both percentiles: whichever is due first
        // restarts it.
        debug_assert!(timeout <= now + u64::from(clock.hz), "percentiles are due within a second");
        let is_due = samples >= ENOUGH_SAMPLES || now >= timeout;
        if is_due {
            self.timeout = None;
        }
        is_due
    }

    /// Whether one request in ten takes the device longer than the target.
    fn is_congested(&mut self, now: u64, clock: Clock) -> bool {
        self.is_due(self.device_latency.samples(), now, clock)
            && std::mem::take(&mut self.device_latency).percentile(90) >= TARGET_QUARTERS
    }

    /// The bucket of the 99th percentile of total latency.
    fn slowest(&mut self, now: u64, clock: Clock) -> Option<usize> {
        let samples = self.total_latency.samples();
        self.is_due(samples, now, clock)
            .then(|| std::mem::take(&mut self.total_latency).percentile(99))
    }

    /// Scales the depth with the latency: down under congestion if the domain meets its target, up
    /// if it does not.
    fn adjust(&mut self, slowest: Option<usize>, congested: bool) {
        let remembered = if congested { self.remembered.take() } else { None };
        if !congested && slowest.is_some() {
            self.remembered = slowest;
        }
        // A 99th percentile that is missing under congestion is replaced by the last one, once.
        let Some(bucket) = slowest.or(remembered) else { return };
        if congested || bucket >= TARGET_QUARTERS {
            // `(depth * (p99 + 1)) >> 2`: bucket 3 leaves the depth as it is, higher ones let it
            // grow.
            let scaled = self.depth * (bucket as u32 + 1) / TARGET_QUARTERS as u32;
            self.depth = scaled.clamp(1, self.max_depth);
        }
    }
}

/// Whose turn it is in a hardware queue.
#[derive(Clone, Copy)]
struct Turn {
    /// The domain that is served now.
    current: usize,
    /// Requests dispatched of its batch.
    batching: u32,
}

impl Turn {
    const FIRST: Self = Self { current: Direction::Read as usize, batching: 0 };
}

struct Kyber {
    domains: [Domain; 2],
    links: Links,
    /// By hardware queue.
    turns: Vec<Turn>,
    /// When each request went to the device.
    started_ns: Vec<u64>,
    clock: Clock,
    timer_ns: Option<u64>,
}

impl Kyber {
    fn new(settings: &Settings, clock: Clock) -> Self {
        let domain = |direction: Direction, name| {
            Domain::new(LIMITS[direction as usize], settings.integer(name))
        };
        Self {
            domains: [
                domain(Direction::Read, "read_lat_nsec"),
                domain(Direction::Write, "write_lat_nsec"),
            ],
            links: Links::default(),
            turns: vec![Turn::FIRST],
            started_ns: Vec::new(),
            clock,
            timer_ns: None,
        }
    }

    /// The next request: of the batch, or of a new batch of the next domain that has a request and
    /// a token, the current one last.
    fn next(&mut self, map: QueueMap, queue: usize) -> Option<RequestId> {
        let Turn { current, batching } = self.turns[queue];
        if batching < self.domains[current].batch
            && let Some(id) = self.take(map, queue)
        {
            return Some(id);
        }
        // The batch ends also without a token, and the domain is asked again only after the
        // others.
        self.turns[queue].batching = 0;
        (0..self.domains.len()).find_map(|_| {
            self.turns[queue].current = (self.turns[queue].current + 1) % self.domains.len();
            self.take(map, queue)
        })
    }

    fn take(&mut self, map: QueueMap, queue: usize) -> Option<RequestId> {
        let turn = &mut self.turns[queue];
        let id = self.domains[turn.current].take(&mut self.links, map, queue)?;
        turn.batching += 1;
        Some(id)
    }

    /// Makes lists for as many hardware queues as there are, and for the software queue of a core.
    fn make_lists(&mut self, map: QueueMap, core: usize) {
        for domain in &mut self.domains {
            let software_queues = domain.staged.len().max(core + 1);
            domain.staged.resize(software_queues, List::default());
            domain.ready.resize(map.hardware_queues(), List::default());
        }
        self.turns.resize(map.hardware_queues(), Turn::FIRST);
    }

    /// Empties a domain whatever its tokens.
    fn drain(&mut self, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        for domain in &mut self.domains {
            // A forced drain takes no tokens, but completions give them back: they are counted as
            // taken.
            for list in domain.ready.iter_mut().chain(&mut domain.staged) {
                while let Some(id) = list.pop_front(&mut self.links) {
                    domain.in_flight += 1;
                    queue.dispatch_tail(id);
                    moved += 1;
                }
            }
        }
        moved
    }
}

impl Scheduler for Kyber {
    fn insert(&mut self, _now_ns: u64, id: RequestId, queue: &mut Queue) {
        let bio = &queue.requests[id].bio;
        let core = queue.map.core(bio.pid);
        let has_lists =
            core < self.domains[0].staged.len() && self.turns.len() == queue.map.hardware_queues();
        if !has_lists {
            self.make_lists(queue.map, core);
        }
        self.domains[bio.direction as usize].staged[core].push_back(&mut self.links, id);
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        if force {
            return self.drain(queue);
        }
        let queues = self.turns.len();
        u32::from((0..queues).any(|asked| self.dispatch_to(asked, now_ns, queue) > 0))
    }

    fn dispatch_to(&mut self, hardware_queue: usize, _now_ns: u64, queue: &mut Queue) -> u32 {
        // A queue that never had a request has no lists yet.
        if hardware_queue >= self.turns.len() {
            return 0;
        }
        let Some(id) = self.next(queue.map, hardware_queue) else { return 0 };
        queue.dispatch_tail(id);
        1
    }

    fn is_multi_queue(&self) -> bool {
        true
    }

    fn audit(&self, queue: &Queue) {
        for (direction, domain) in self.domains.iter().enumerate() {
            for list in domain.staged.iter().chain(&domain.ready) {
                list.audit(&self.links);
                let is_own = |id: RequestId| queue.requests[id].bio.direction as usize == direction;
                assert!(list.iter(&self.links).all(is_own), "a domain has one direction");
            }
            for (core, list) in domain.staged.iter().enumerate() {
                let is_own = |id: RequestId| queue.map.core(queue.requests[id].bio.pid) == core;
                assert!(list.iter(&self.links).all(is_own), "a request is with its core");
            }
            for (place, list) in domain.ready.iter().enumerate() {
                let is_own =
                    |id: RequestId| queue.map.hardware_queue(queue.requests[id].bio.pid) == place;
                assert!(list.iter(&self.links).all(is_own), "a request is with its hardware queue");
            }
            assert!((1..=domain.max_depth).contains(&domain.depth), "a domain has tokens");
        }
        let in_flight: u32 = self.domains.iter().map(|domain| domain.in_flight).sum();
        let dispatched = queue.dispatch_list().count() as u32;
        assert_eq!(
            in_flight,
            dispatched + queue.in_flight,
            "a token is taken for each request that is dispatched and not done"
        );
    }

    fn queued(&self) -> usize {
        let lists = |domain: &Domain| -> usize {
            domain.staged.iter().chain(&domain.ready).map(List::len).sum()
        };
        self.domains.iter().map(lists).sum()
    }

    fn uses_merge_caches(&self) -> bool {
        false
    }

    fn allows_merge(&self, bio: &Bio, id: RequestId, queue: &Queue) -> bool {
        let request = &queue.requests[id].bio;
        (request.class, request.level) == (bio.class, bio.level)
    }

    fn find_merge(&self, bio: &Bio, queue: &Queue) -> Option<(RequestId, MergeSide)> {
        // The software queue of the core that submits the bio (`kyber_bio_merge`).
        let core = queue.map.core(bio.pid);
        let staged = self.domains[bio.direction as usize].staged.get(core)?;
        std::iter::successors(staged.back(), |id| self.links.previous(*id))
            .take(MERGE_CANDIDATES)
            .filter(|id| self.allows_merge(bio, *id, queue))
            .find_map(|id| {
                let request = &queue.requests[id];
                if request.end() == bio.sector {
                    Some((id, MergeSide::Back))
                } else if request.sector() == bio.end() {
                    Some((id, MergeSide::Front))
                } else {
                    None
                }
            })
    }

    // Not called as it stands: without `former` and `latter` no neighbours are joined, as in the
    // kernel.
    fn absorb(&mut self, _: u64, _: RequestId, absorbed: RequestId, queue: &mut Queue) {
        let bio = &queue.requests[absorbed].bio;
        let domain = &mut self.domains[bio.direction as usize];
        domain.staged[queue.map.core(bio.pid)].remove(&mut self.links, absorbed);
    }

    fn activate(&mut self, now_ns: u64, id: RequestId, _queue: &mut Queue) {
        if self.started_ns.len() <= id.index() {
            self.started_ns.resize(id.index() + 1, 0);
        }
        self.started_ns[id.index()] = now_ns;
    }

    fn complete(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let request = &queue.requests[id];
        let domain = &mut self.domains[request.bio.direction as usize];
        domain.in_flight -= 1;
        let (total_ns, device_ns) =
            (now_ns - request.insert_ns, now_ns - self.started_ns[id.index()]);
        domain.total_latency.add(total_ns, domain.target_ns);
        domain.device_latency.add(device_ns, domain.target_ns);
        // A tenth of a second after a completion: `timer_reduce` in `kyber_completed_request` never
        // puts the timer off.
        let expires = queue.jiffies(now_ns) + u64::from(self.clock.hz / 10);
        let due_ns = self.clock.timer_ns(now_ns, expires);
        self.timer_ns = Some(self.timer_ns.map_or(due_ns, |timer_ns| timer_ns.min(due_ns)));
    }

    fn depth_limit(&self, bio: &Bio, queue: &Queue) -> Option<u32> {
        // Synchronous writes are not limited (`kyber_limit_depth`), unlike in mq-deadline. There are
        // no more tags than `nr_requests`, and no batches beyond them (`blk_mq_get_tag`).
        let pool = TagPool::new(queue.nr_requests);
        let is_sync = bio.sync || bio.direction == Direction::Read;
        let in_word = if is_sync { u32::MAX } else { pool.word_bits() * ASYNC_PERCENT / 100 };
        Some(pool.within(in_word))
    }

    fn timer_ns(&self) -> Option<u64> {
        self.timer_ns
    }

    fn timer(&mut self, now_ns: u64, queue: &mut Queue) {
        self.timer_ns = None;
        let (now, clock) = (queue.jiffies(now_ns), self.clock);
        // All domains before any depth is changed: congestion of one throttles the others.
        let mut congested = false;
        for domain in &mut self.domains {
            congested |= domain.is_congested(now, clock);
        }
        for domain in &mut self.domains {
            let slowest = domain.slowest(now, clock);
            domain.adjust(slowest, congested);
        }
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.links.bytes() + self.started_ns.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests;

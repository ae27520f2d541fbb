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
//! Left out: discards and other operations, whose domains stay empty; several software queues, whose
//! requests would be taken over queue by queue; wake-ups in batches after tokens ran out.
//!
//! Source: Linux 6.12, `block/kyber-iosched.c` (the same from 4.20 on); merging, `block/blk-merge.c`.

use crate::tag_depth::TagPool;
use crate::{
    Bio, Clock, Direction, Links, List, MergeSide, Queue, RequestId, Scheduler, SchedulerEntry,
    Settings,
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
    build: |settings, clock| Box::new(Kyber::new(settings, clock)),
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
    /// Requests that bios can be merged with.
    staged: List,
    /// Requests that were taken over for dispatch.
    ready: List,
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
            staged: List::default(),
            ready: List::default(),
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

    /// Takes the next request, if there is one and a token for it.
    fn take(&mut self, links: &mut Links) -> Option<RequestId> {
        if self.in_flight >= self.depth {
            return None;
        }
        // `kyber_flush_busy_kcqs` empties the software queues only when the domain has nothing
        // taken over.
        if self.ready.is_empty() {
            while let Some(id) = self.staged.pop_front(links) {
                self.ready.push_back(links, id);
            }
        }
        let id = self.ready.pop_front(links)?;
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

struct Kyber {
    domains: [Domain; 2],
    links: Links,
    /// The domain that is served now.
    current: usize,
    /// Requests dispatched of its batch.
    batching: u32,
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
            current: Direction::Read as usize,
            batching: 0,
            started_ns: Vec::new(),
            clock,
            timer_ns: None,
        }
    }

    /// The next request: of the batch, or of a new batch of the next domain that has a request and
    /// a token, the current one last.
    fn next(&mut self) -> Option<RequestId> {
        if self.batching < self.domains[self.current].batch
            && let Some(id) = self.take()
        {
            return Some(id);
        }
        // The batch ends also without a token, and the domain is asked again only after the
        // others.
        self.batching = 0;
        (0..self.domains.len()).find_map(|_| {
            self.current = (self.current + 1) % self.domains.len();
            self.take()
        })
    }

    fn take(&mut self) -> Option<RequestId> {
        let id = self.domains[self.current].take(&mut self.links)?;
        self.batching += 1;
        Some(id)
    }

    /// Empties a domain whatever its tokens.
    fn drain(&mut self, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        for domain in &mut self.domains {
            // A forced drain takes no tokens, but completions give them back: they are counted as
            // taken.
            for list in [&mut domain.ready, &mut domain.staged] {
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
        let domain = &mut self.domains[queue.requests[id].bio.direction as usize];
        domain.staged.push_back(&mut self.links, id);
    }

    fn dispatch(&mut self, _now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        if force {
            return self.drain(queue);
        }
        let Some(id) = self.next() else { return 0 };
        queue.dispatch_tail(id);
        1
    }

    fn audit(&self, queue: &Queue) {
        for (direction, domain) in self.domains.iter().enumerate() {
            for list in [domain.staged, domain.ready] {
                list.audit(&self.links);
                let is_own = |id: RequestId| queue.requests[id].bio.direction as usize == direction;
                assert!(list.iter(&self.links).all(is_own), "a domain has one direction");
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
        self.domains.iter().map(|domain| domain.staged.len() + domain.ready.len()).sum()
    }

    fn uses_merge_caches(&self) -> bool {
        false
    }

    fn allows_merge(&self, bio: &Bio, id: RequestId, queue: &Queue) -> bool {
        let request = &queue.requests[id].bio;
        (request.class, request.level) == (bio.class, bio.level)
    }

    fn find_merge(&self, bio: &Bio, queue: &Queue) -> Option<(RequestId, MergeSide)> {
        let staged = self.domains[bio.direction as usize].staged;
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
        let domain = &mut self.domains[queue.requests[absorbed].bio.direction as usize];
        domain.staged.remove(&mut self.links, absorbed);
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
mod tests {
    use super::{Domain, ENTRY, Histogram, Kyber, LIMITS, TARGET_QUARTERS};
    use crate::{
        Bio, Class, Clock, Direction, Elevator, ElevatorOptions, Links, MergeSide, Merged, Request,
        RequestId, Scheduler,
    };
    use std::collections::BTreeMap;

    const CLOCK: Clock = Clock { hz: 1000 };
    const MILLISECOND_NS: u64 = 1_000_000;

    /// What breaks a count.
    type Break = fn(&mut Kyber);

    #[test]
    fn every_broken_count_is_seen() {
        use crate::tests::{defaults, filled, panics_with};
        let broken: [(&str, Break); 4] = [
            ("a token is taken for each request", |kyber| kyber.domains[1].in_flight += 1),
            ("a domain has one direction", |kyber| kyber.domains.swap(0, 1)),
            ("a domain has tokens", |kyber| kyber.domains[0].depth = 0),
            ("a domain has tokens", |kyber| kyber.domains[0].depth = 10_000),
        ];
        for (message, break_it) in broken {
            let (mut kyber, queue) = filled(Kyber::new(&defaults(&ENTRY), CLOCK));
            break_it(&mut kyber);
            panics_with(message, || kyber.audit(&queue));
        }
    }

    fn read_domain() -> Domain {
        Domain::new(LIMITS[Direction::Read as usize], 2_000_000)
    }

    fn write_domain() -> Domain {
        Domain::new(LIMITS[Direction::Write as usize], 10_000_000)
    }

    fn bio(direction: Direction, sector: u64) -> Bio {
        Bio {
            pid: 1,
            direction,
            sync: direction == Direction::Read,
            noidle: false,
            class: Class::BestEffort,
            level: 4,
            sector,
            sectors: 8,
        }
    }

    fn elevator() -> Elevator {
        let settings = ENTRY.settings(&BTreeMap::new()).expect("defaults fit");
        Elevator::new(&ENTRY, &settings, ElevatorOptions::default())
    }

    #[test]
    fn g_kyb_2_without_tokens_the_other_domain_is_served() {
        let settings = ENTRY.settings(&BTreeMap::new()).expect("defaults fit");
        let mut kyber = Kyber::new(&settings, CLOCK);
        kyber.domains[Direction::Read as usize].depth = 2;
        for id in 0..40 {
            kyber.domains[id as usize / 20].staged.push_back(&mut kyber.links, RequestId(id));
        }
        let taken: Vec<u32> = std::iter::from_fn(|| kyber.next()).map(|id| id.0).collect();
        assert_eq!(taken, [0, 1].into_iter().chain(20..40).collect::<Vec<u32>>());
        kyber.domains[Direction::Read as usize].in_flight -= 1;
        assert_eq!((kyber.next(), kyber.next()), (Some(RequestId(2)), None));
    }

    #[test]
    fn g_kyb_3_congestion_throttles_a_domain_that_meets_its_target() {
        let (mut reads, mut writes) = (read_domain(), write_domain());
        reads.adjust(Some(2), true);
        writes.adjust(Some(7), true);
        assert_eq!((reads.depth, writes.depth), (192, 128));
    }

    #[test]
    fn g_kyb_4_a_domain_that_misses_its_target_gets_tokens_back() {
        let mut reads = read_domain();
        reads.depth = 64;
        reads.adjust(Some(5), false);
        assert_eq!(reads.depth, 96);
        reads.adjust(Some(3), false);
        assert_eq!(reads.depth, 96, "without congestion no domain is throttled");
    }

    #[test]
    fn g_kyb_5_one_token_stays() {
        let mut reads = read_domain();
        (0..9).for_each(|_| reads.adjust(Some(0), true));
        assert_eq!(reads.depth, 1);
    }

    #[test]
    fn a_percentile_serves_congestion_once() {
        let mut reads = read_domain();
        reads.adjust(Some(1), false);
        assert_eq!(reads.depth, 256);
        reads.adjust(None, true);
        assert_eq!(reads.depth, 128, "the remembered percentile is used");
        reads.adjust(None, true);
        assert_eq!(reads.depth, 128, "and then forgotten");
        reads.adjust(Some(1), false);
        reads.adjust(Some(2), true);
        reads.adjust(None, true);
        assert_eq!(reads.depth, 96, "a newer one replaces it, and it is forgotten as well");
    }

    #[test]
    fn buckets_are_quarters_of_the_target_with_inclusive_ends() {
        let mut histogram = Histogram::default();
        for latency_ns in [0, 1, 500_000, 500_001, 2_000_000, 2_000_001, 3_500_000, 3_500_001] {
            histogram.add(latency_ns, 2_000_000);
        }
        assert_eq!(histogram.0, [3, 1, 0, 1, 1, 0, 1, 1]);
        let mut none = Histogram::default();
        (0..9).for_each(|latency_ns| none.add(latency_ns, 0));
        assert_eq!(none.0, [2, 1, 1, 1, 1, 1, 1, 1], "no target counts in nanoseconds");
        assert_eq!([1, 50, 90, 99].map(|percent| histogram.percentile(percent)), [0, 1, 7, 7]);
    }

    #[test]
    fn percentiles_need_many_samples_or_time() {
        let mut reads = read_domain();
        let late_ns = 3 * MILLISECOND_NS;
        let count = |domain: &mut Domain, samples: u32| {
            for _ in 0..samples {
                domain.total_latency.add(late_ns, domain.target_ns);
                domain.device_latency.add(late_ns, domain.target_ns);
            }
        };
        count(&mut reads, 499);
        assert!(!reads.is_congested(5000, CLOCK));
        assert!(!reads.is_congested(5999, CLOCK));
        assert!(reads.is_congested(6000, CLOCK));
        assert_eq!(reads.slowest(6000, CLOCK), None, "the common timeout began anew");
        count(&mut reads, 1);
        assert_eq!(reads.slowest(6100, CLOCK), Some(TARGET_QUARTERS + 1), "500 samples are enough");
        assert!(!reads.is_congested(7099, CLOCK));
    }

    /// A read and a write at a time, of 3 ms each: late for reads, quick for writes. Each second
    /// shows that the device is congested, but what writes take is only known after 500 of them.
    #[test]
    fn late_reads_take_tokens_from_writes() {
        let mut elevator = elevator();
        let settings = ENTRY.settings(&BTreeMap::new()).expect("defaults fit");
        let mut kyber = Kyber::new(&settings, CLOCK);
        let queue = elevator.queue_mut();
        let mut now_ns = 0;
        let mut depths = Vec::new();
        while now_ns < 3000 * MILLISECOND_NS {
            let ids = [Direction::Read, Direction::Write].map(|direction| {
                let request = Request {
                    bio: bio(direction, now_ns),
                    start_jiffies: 0,
                    insert_ns: now_ns,
                    deadline: 0,
                    started: false,
                    sorted: false,
                };
                let id = queue.requests.add(request);
                kyber.insert(now_ns, id, queue);
                assert_eq!(kyber.dispatch(now_ns, false, queue), 1);
                assert_eq!(queue.take(), Some(id));
                kyber.activate(now_ns, id, queue);
                id
            });
            now_ns += 3 * MILLISECOND_NS;
            if kyber.timer_ns().is_some_and(|timer_ns| timer_ns <= now_ns) {
                kyber.timer(now_ns, queue);
            }
            for id in ids {
                kyber.complete(now_ns, id, queue);
                queue.requests.remove(id);
            }
            if depths.last() != Some(&kyber.domains[1].depth) {
                depths.push(kyber.domains[1].depth);
            }
        }
        assert_eq!(kyber.domains[0].depth, 256);
        assert_eq!(depths, [128, 64]);
    }

    #[test]
    fn a_bio_merges_with_the_last_eight_and_not_after_they_were_taken_over() {
        let mut elevator = elevator();
        let ids: Vec<RequestId> =
            (0..9).map(|place| elevator.insert(0, bio(Direction::Write, 1000 * place))).collect();
        assert_eq!(elevator.try_merge(0, &bio(Direction::Write, 8)), None, "it is the ninth");
        let merged = |id, side| Some(Merged { survivor: id, side, absorbed: None });
        let touching = bio(Direction::Write, 1008);
        assert_eq!(elevator.try_merge(0, &touching), merged(ids[1], MergeSide::Back));
        let touching = bio(Direction::Write, 992);
        assert_eq!(elevator.try_merge(0, &touching), merged(ids[1], MergeSide::Front));
        let other = Bio { level: 0, ..bio(Direction::Write, 2008) };
        assert_eq!(elevator.try_merge(0, &other), None, "the priority differs");
        elevator.next(0).expect("there is work");
        assert_eq!(elevator.try_merge(0, &bio(Direction::Write, 2008)), None);
    }

    #[test]
    fn the_timer_runs_a_tenth_of_a_second_after_the_first_completion() {
        let mut elevator = elevator();
        for (now_ns, due_ns) in [(500_000, 100_000_000), (40_000_000, 100_000_000)] {
            elevator.insert(now_ns, bio(Direction::Read, 0));
            let id = elevator.next(now_ns).expect("there is work");
            elevator.complete(now_ns, id);
            assert_eq!(elevator.timer_ns(), Some(due_ns));
        }
        elevator.timer(100_000_000);
        assert_eq!(elevator.timer_ns(), None);
    }

    #[test]
    fn a_list_taken_over_keeps_its_order() {
        let (mut reads, mut links) = (read_domain(), Links::default());
        (0..3).for_each(|id| reads.staged.push_back(&mut links, RequestId(id)));
        assert_eq!(reads.take(&mut links), Some(RequestId(0)));
        reads.staged.push_back(&mut links, RequestId(7));
        let rest: Vec<u32> = std::iter::from_fn(|| reads.take(&mut links)).map(|id| id.0).collect();
        assert_eq!(rest, [1, 2, 7]);
    }
}

//! The speed of devices in simulated time: random writes while the dies clean, against the bare loop.
//!
//! A device does what the layer does and places every operation in time; the histogram of latencies
//! is part of the work that is measured.

use crate::ALLOCATOR;
use crate::bare_loop::{self, BareLoop};
use crate::processor_time::Stopwatch;
use device::{BlockDevice, Command, DeviceSpec, Fill, FlashDevice, Precondition};
use nand::random::Stream;
use nand::{Part, find_part};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// 4 GiB of 4 KiB pages, 64 to a block.
const BLOCKS: u32 = 16_384;
const PAGES_PER_BLOCK: u32 = 64;
const PAGE_SECTORS: u32 = 8;
/// Share of the pages that is spare: little, so that cleaning is most of the work.
const SPARE_FACTOR: f64 = 0.07;
const ROUNDS: usize = 5;
const WRITES: u64 = 1_000_000;

/// Memory does not depend on the number of requests: ten million writes may only make lists of what
/// is under way a little longer.
const GROWTH_BYTES_MAX: usize = 64 << 10;

/// Speeds and latencies of devices with one die and with many.
pub(crate) struct TimedDevice {
    pub(crate) bare_writes_per_s: f64,
    pub(crate) one_die_writes_per_s: f64,
    pub(crate) many_dies_writes_per_s: f64,
    /// Random reads of the device with many dies, without a host.
    pub(crate) raw_requests_per_s: f64,
    pub(crate) precondition_s: f64,
    pub(crate) one_die_p99_ms: f64,
    pub(crate) many_dies_p99_ms: f64,
}

impl TimedDevice {
    pub(crate) fn one_die_ratio(&self) -> f64 {
        self.one_die_writes_per_s / self.bare_writes_per_s
    }

    pub(crate) fn many_dies_ratio(&self) -> f64 {
        self.many_dies_writes_per_s / self.bare_writes_per_s
    }
}

/// Counts of latencies: 32 equal steps in every power of two of nanoseconds.
struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    const STEP_BITS: u32 = 5;

    fn new() -> Self {
        Self { counts: vec![0; 64 << Self::STEP_BITS] }
    }

    #[inline]
    fn record(&mut self, ns: u64) {
        let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(Self::STEP_BITS + 1);
        // Each power of two above the first ones adds 32 steps; the step itself holds its top bit.
        self.counts[(u64::from(shift << Self::STEP_BITS) + (ns >> shift)) as usize] += 1;
    }

    /// Lower edge of the step that holds the quantile.
    fn quantile_ns(&self, quantile: f64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let rank = (total as f64 * quantile) as u64;
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen > rank
        };
        let step = self.counts.iter().position(reaches).unwrap_or(0) as u64;
        let shift = (step >> Self::STEP_BITS).saturating_sub(1);
        (step - (shift << Self::STEP_BITS)) << shift
    }
}

fn logical_pages() -> u32 {
    (f64::from(BLOCKS * PAGES_PER_BLOCK) * (1.0 - SPARE_FACTOR)) as u32
}

/// One plane of 4 KiB pages, one program time.
fn part() -> Part {
    let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
    part.geometry.page_data_bytes = PAGE_SECTORS * 512;
    part.geometry.pages_per_block = PAGES_PER_BLOCK;
    part.geometry.planes = 1;
    part.timing.program_ns.truncate(1);
    part
}

/// A device of 4 GiB in all that executes as many commands at once as it has dies.
fn device(channels: u32, dies_per_channel: u32) -> FlashDevice {
    let dies = channels * dies_per_channel;
    let text = format!(
        r#"
name = "bench"
summary = "4 GiB of 4 KiB pages"
[host]
bytes_per_second = 3200000000
command_overhead_ns = 1000
queue_depth = {dies}
executes = {dies}
[flash]
part = "generic-mlc-2x"
blocks = {blocks}
channels = {channels}
dies_per_channel = {dies_per_channel}
capacity_bytes = {capacity_bytes}
copy_back = true
"#,
        blocks = BLOCKS / dies,
        capacity_bytes = u64::from(logical_pages()) * u64::from(PAGE_SECTORS) * 512,
    );
    let spec = DeviceSpec::parse("bench", &text).expect("a device");
    FlashDevice::new(&spec, &part(), 1).expect("dies are large enough")
}

/// A device, its host, and the latencies that the host saw.
struct Run {
    device: FlashDevice,
    depth: usize,
    outstanding: BinaryHeap<Reverse<u64>>,
    stream: Stream,
    histogram: Histogram,
    now_ns: u64,
    submitted: u64,
}

impl Run {
    fn new(device: FlashDevice) -> Self {
        let depth = device.queue_depth() as usize;
        Self {
            device,
            depth,
            outstanding: BinaryHeap::with_capacity(depth + 1),
            stream: Stream::new(1, "bench"),
            histogram: Histogram::new(),
            now_ns: 0,
            submitted: 0,
        }
    }

    /// Random commands of one page, as many outstanding as the device takes.
    fn submit(&mut self, count: u64, command: fn(u64, u32) -> Command) {
        let pages = logical_pages();
        for _ in 0..count {
            if self.outstanding.len() == self.depth {
                let Reverse(done_ns) = self.outstanding.pop().expect("depth is not zero");
                self.now_ns = self.now_ns.max(done_ns);
            }
            let sector = u64::from(self.stream.below(pages)) * u64::from(PAGE_SECTORS);
            let command = command(sector, PAGE_SECTORS);
            let completion = self.device.submit(self.now_ns, &command).expect("a healthy device");
            self.histogram.record(completion.done_ns - self.now_ns);
            self.outstanding.push(Reverse(completion.done_ns));
        }
        self.submitted += count;
    }

    /// Every command came back, and the dies cleaned meanwhile.
    fn check(&self) {
        let statistics = self.device.statistics();
        assert_eq!(statistics.submitted, self.submitted);
        assert_eq!(statistics.completed, self.submitted);
        assert_eq!(self.histogram.counts.iter().sum::<u64>(), self.submitted);
        assert!(statistics.cleaned_blocks > 0, "the device never cleaned");
    }
}

/// Fills a fresh device, and says how long that took.
fn filled(channels: u32, dies_per_channel: u32) -> (FlashDevice, f64) {
    let mut device = device(channels, dies_per_channel);
    let fill = Precondition { fill: Fill::Permille(1000), ..Precondition::default() };
    let start = Stopwatch::start();
    device.precondition(&fill).expect("a fresh device");
    (device, start.seconds())
}

/// Alternates rounds of the bare loop and of both devices, all in steady state.
pub(crate) fn measure() -> TimedDevice {
    let pages = logical_pages();
    let mut bare = BareLoop::new(BLOCKS, PAGES_PER_BLOCK, pages);
    (0..pages).for_each(|lpn| bare.write(lpn));
    let mut bare_stream = Stream::new(1, "bench");
    bare_loop::run(&mut bare, &mut bare_stream, 2 * WRITES);
    let mut precondition_s = f64::MAX;
    let mut runs = [(1, 1), (8, 4)].map(|(channels, dies_per_channel)| {
        let (device, seconds) = filled(channels, dies_per_channel);
        precondition_s = precondition_s.min(seconds);
        let mut run = Run::new(device);
        run.submit(2 * WRITES, Command::write);
        run
    });
    let (mut bare_best, mut best) = (f64::MAX, [f64::MAX; 2]);
    let bytes_before = ALLOCATOR.current_usage();
    for _ in 0..ROUNDS {
        let start = Stopwatch::start();
        bare_loop::run(&mut bare, &mut bare_stream, WRITES);
        bare_best = bare_best.min(start.seconds());
        for (run, best) in runs.iter_mut().zip(&mut best) {
            let start = Stopwatch::start();
            run.submit(WRITES, Command::write);
            *best = best.min(start.seconds());
        }
    }
    // Before there are reads among the latencies.
    let [one_die_p99_ms, many_dies_p99_ms] =
        runs.each_ref().map(|run| run.histogram.quantile_ns(0.99) as f64 * 1e-6);
    let read = |_| {
        let start = Stopwatch::start();
        runs[1].submit(WRITES, Command::read);
        start.seconds()
    };
    let read_best = (0..ROUNDS).map(read).fold(f64::MAX, f64::min);
    runs.iter().for_each(Run::check);
    let growth_bytes = ALLOCATOR.current_usage().saturating_sub(bytes_before);
    assert!(growth_bytes <= GROWTH_BYTES_MAX, "memory grew by {growth_bytes} bytes with requests");
    TimedDevice {
        bare_writes_per_s: WRITES as f64 / bare_best,
        one_die_writes_per_s: WRITES as f64 / best[0],
        many_dies_writes_per_s: WRITES as f64 / best[1],
        raw_requests_per_s: WRITES as f64 / read_best,
        precondition_s,
        one_die_p99_ms,
        many_dies_p99_ms,
    }
}

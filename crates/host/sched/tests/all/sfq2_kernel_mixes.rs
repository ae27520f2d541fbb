//! The table of mixes that a running kernel is held to, with the bound of each process.
//!
//! `python/tests/test_kernel_sfq2.py` runs them with `kernel/sfq/tests/fair-load.c` and compares the waits. The bounds
//! are those of the one formula (`sfq2_formula.rs`), so the table is made here. This test holds it to the formula, and
//! the simulator to the same bounds.

use crate::mix::{Machine, Stream, run};
use crate::sfq2_formula::{Bound, Places, bound};
use sched::{Class, Direction};
use std::fmt::Write;
use std::path::PathBuf;

const MIXES: u64 = 20;
const MILLISECOND_NS: u64 = 1_000_000;

const HEAD: &str =
    "mix slots direction processes threads depth block mode class life level services quiet_times";

/// The block layer takes one request more than the device has tags (`blk_mq_dispatch_rq_list`, block/blk-mq.c).
const TAKEN_AHEAD: u64 = 1;

/// Asynchronous requests that may be queued at a time: three quarters of 256 tags.
const ASYNC_MOST: u32 = 192;

/// Pseudo-random numbers of a mix (the generator of `fair-load.c`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// A job of `fair-load.c`.
struct Job {
    direction: Direction,
    processes: u32,
    threads: u32,
    depth: u32,
    block: u32,
    mode: &'static str,
    class: Class,
    is_short_lived: bool,
    level: u8,
}

impl Job {
    /// The job as a stream of the formula, one for each process that lasts.
    fn streams(&self) -> Vec<Stream> {
        let is_async = self.mode == "buffered";
        let depth = match (is_async, self.is_short_lived) {
            (true, _) => ASYNC_MOST,
            (_, true) => self.processes,
            (_, false) => self.threads * self.depth,
        };
        let stream = Stream {
            direction: self.direction,
            sync: !is_async,
            class: self.class,
            level: self.level,
            depth,
            sectors: self.block / 512,
            think_ns: 50_000,
            is_short_lived: self.is_short_lived,
        };
        vec![stream; if self.is_short_lived || is_async { 1 } else { self.processes as usize }]
    }

    fn line(&self, mix: u64, slots: u64, bound: Bound) -> String {
        let direction = if self.direction == Direction::Read { "read" } else { "write" };
        let class = match self.class {
            Class::RealTime => 1,
            Class::BestEffort => 2,
            Class::Idle => 3,
        };
        let life = if self.is_short_lived { "short" } else { "lasting" };
        let Job { processes, threads, depth, block, mode, level, .. } = self;
        let Bound { services, quiet_times } = bound;
        format!(
            "{mix} {slots} {direction} {processes} {threads} {depth} {block} {mode} {class} {life} {level} \
             {services} {quiet_times}"
        )
    }
}

/// The places of a mix and its jobs; the first is one process of best effort with one request at a time.
fn draw(mix: u64) -> (u64, Vec<Job>) {
    let mut numbers = Numbers(mix.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let slots = [1, 1, 2, 4][(mix % 4) as usize];
    let direct = |numbers: &mut Numbers| Job {
        direction: numbers.one_of(&[Direction::Read, Direction::Read, Direction::Write]),
        processes: 1,
        threads: 1,
        depth: 1,
        block: numbers.one_of(&[4096, 4096, 16384, 65536]),
        mode: "direct",
        class: Class::BestEffort,
        is_short_lived: false,
        level: numbers.one_of(&[4, 4, 0, 2, 6, 7]),
    };
    let mut jobs = vec![direct(&mut numbers)];
    for _ in 0..2 + numbers.below(4) {
        let mut job = direct(&mut numbers);
        job.class = numbers.one_of(&[
            Class::BestEffort,
            Class::BestEffort,
            Class::BestEffort,
            Class::BestEffort,
            Class::RealTime,
            Class::Idle,
        ]);
        match numbers.below(4) {
            0 => job.processes = 1 + numbers.below(3) as u32,
            1 => (job.threads, job.depth) = (1 + numbers.below(3) as u32, 4),
            _ => job.depth = numbers.one_of(&[8, 16, 48]),
        }
        jobs.push(job);
    }
    if mix.is_multiple_of(2) {
        let mut job = direct(&mut numbers);
        (job.processes, job.is_short_lived) = (4 + numbers.below(5) as u32, true);
        jobs.push(job);
    }
    if mix.is_multiple_of(3) {
        // Write-back runs at the level of the flusher, and without merging each of its requests is a page.
        let mut job = direct(&mut numbers);
        (job.direction, job.mode, job.block, job.level) = (Direction::Write, "buffered", 4096, 4);
        jobs.push(job);
    }
    if mix % 3 == 1 {
        let mut job = direct(&mut numbers);
        // More than a page would be several requests at a time.
        (job.direction, job.mode, job.block) = (Direction::Write, "sync", 4096);
        jobs.push(job);
    }
    (slots, jobs)
}

fn table() -> String {
    let mut text = format!("{HEAD}\n");
    for mix in 0..MIXES {
        let (slots, jobs) = draw(mix);
        let streams: Vec<Stream> = jobs.iter().flat_map(Job::streams).collect();
        for job in &jobs {
            let places = Places { slots, taken_ahead: TAKEN_AHEAD };
            let bound = bound(places, &streams, &job.streams()[0]);
            writeln!(text, "{}", job.line(mix, slots, bound)).expect("text takes all");
        }
    }
    text
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sfq2-mixes.txt")
}

/// With `NANDLAB_WRITE_MIXES=1` the table is written first.
#[test]
fn the_table_for_the_kernel_is_that_of_the_formula() {
    if std::env::var_os("NANDLAB_WRITE_MIXES").is_some() {
        std::fs::write(path(), table()).expect("the table is written");
    }
    let written = std::fs::read_to_string(path()).expect("the table is there");
    assert!(
        written == table(),
        "set NANDLAB_WRITE_MIXES=1, and look at what changes in tests/data/sfq2-mixes.txt"
    );
}

#[test]
fn the_simulator_keeps_the_bounds_of_these_mixes() {
    for mix in 0..MIXES {
        let (slots, jobs) = draw(mix);
        let streams: Vec<Stream> = jobs.iter().flat_map(Job::streams).collect();
        let machine = Machine {
            slots: slots as u32,
            service_ns: 2 * MILLISECOND_NS,
            tags: 256,
            duration_ns: 1500 * MILLISECOND_NS,
        };
        for (own, fared) in streams.iter().zip(run("sfq2", machine, &streams)) {
            let places = Places { slots, taken_ahead: 0 };
            let bound_ns =
                bound(places, &streams, own).time_ns(machine.service_ns, 2 * MILLISECOND_NS);
            let waited_ns = fared.longest_inserted_ns;
            assert!(
                waited_ns <= bound_ns,
                "mix {mix}: {own:?} waited {waited_ns} ns of {bound_ns}"
            );
        }
    }
}

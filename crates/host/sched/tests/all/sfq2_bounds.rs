//! The bounds of `docs/sfq2.md` under random mixes, and mixes that reach half of each.

use crate::mix::{Fared, Machine, Stream, run};
use crate::sfq2_formula::{Places, bound};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sched::{Class, Direction};

const MILLISECOND_NS: u64 = 1_000_000;

const GRACE_NS: u64 = 2 * MILLISECOND_NS;

/// The longest wait of a request from its insertion to its end.
fn bound_ns(machine: &Machine, streams: &[Stream], own: &Stream) -> u64 {
    // The simulated machine takes nothing ahead: it asks for a request when a slot is free.
    let places = Places { slots: u64::from(machine.slots), taken_ahead: 0 };
    bound(places, streams, own).time_ns(machine.service_ns, GRACE_NS)
}

fn any_stream() -> impl Strategy<Value = Stream> {
    let class = prop_oneof![1 => Just(Class::RealTime), 6 => Just(Class::BestEffort), 1 => Just(Class::Idle)];
    let depth = prop_oneof![2 => Just(1_u32), 2 => 2_u32..8, 1 => 8_u32..64];
    let sectors = prop_oneof![Just(1_u32), Just(8), Just(64), Just(512), Just(2048)];
    let think_ns = prop_oneof![Just(1000_u64), Just(100_000), 0_u64..20_000_000];
    let kind = prop_oneof![4 => Just((Direction::Read, true)), 1 => Just((Direction::Write, true)), 1 => Just((Direction::Write, false))];
    (class, depth, sectors, think_ns, kind, 0_u8..8, prop::bool::weighted(0.2)).prop_map(
        |(class, depth, sectors, think_ns, (direction, sync), level, short)| {
            let is_short_lived = short && sync;
            Stream { direction, sync, class, level, depth, sectors, think_ns, is_short_lived }
        },
    )
}

#[test]
fn no_request_of_200_random_mixes_waits_longer_than_its_bound() {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let slots = prop_oneof![2 => Just(1_u32), 1 => 2_u32..9];
    let closest = std::cell::Cell::new(0);
    let result = runner.run(&(vec(any_stream(), 1..10), slots), |(streams, slots)| {
        let machine = Machine {
            slots,
            service_ns: MILLISECOND_NS,
            tags: 256,
            duration_ns: 400 * MILLISECOND_NS,
        };
        for (own, fared) in streams.iter().zip(run("sfq2", machine, &streams)) {
            let bound_ns = bound_ns(&machine, &streams, own);
            let waited_ns = fared.longest_inserted_ns;
            prop_assert!(waited_ns <= bound_ns, "{own:?} waited {waited_ns} ns of {bound_ns}");
            if own.sync {
                closest.set(closest.get().max(100 * waited_ns / bound_ns));
            }
        }
        Ok(())
    });
    result.expect("no wait is longer than its bound");
    assert!(closest.get() >= 40, "the closest wait was {} % of its bound", closest.get());
}

/// Checks that the first stream of a mix waits as long as half its bound, and no longer than that.
fn reaches_half(service_ns: u64, streams: &[Stream]) {
    let machine = Machine { slots: 1, service_ns, tags: 1024, duration_ns: 3000 * MILLISECOND_NS };
    let bound_ns = bound_ns(&machine, streams, &streams[0]);
    let Fared { longest_inserted_ns, done, .. } = run("sfq2", machine, streams)[0];
    let percent = 100 * longest_inserted_ns / bound_ns;
    assert!(
        done > 0 && (50..=100).contains(&percent),
        "{longest_inserted_ns} of {bound_ns} ns, {percent} %"
    );
}

const DEEP: Stream = Stream { depth: 16, ..Stream::READER };
const SHORT_LIVED: Stream =
    Stream { depth: 2, is_short_lived: true, think_ns: 1000, ..Stream::READER };

#[test]
fn a_reader_beside_old_and_new_processes_waits_half_its_bound() {
    let mut streams = vec![Stream { think_ns: 1000, ..Stream::READER }];
    streams.extend([DEEP; 24]);
    streams.push(SHORT_LIVED);
    reaches_half(MILLISECOND_NS, &streams);
}

#[test]
fn a_deep_queue_waits_half_its_bound() {
    let mut streams = vec![DEEP; 12];
    streams.push(SHORT_LIVED);
    reaches_half(MILLISECOND_NS, &streams);
}

#[test]
fn a_reader_beside_real_time_and_idle_processes_waits_half_its_bound() {
    let mut streams = vec![Stream { think_ns: 1000, ..Stream::READER }];
    streams.extend([DEEP; 16]);
    streams.push(SHORT_LIVED);
    streams.push(Stream { class: Class::RealTime, ..DEEP });
    streams.push(Stream { class: Class::Idle, ..DEEP });
    reaches_half(MILLISECOND_NS, &streams);
}

#[test]
fn an_idle_process_beside_a_real_time_one_waits_half_its_bound() {
    let mut streams = vec![Stream { class: Class::Idle, ..Stream::READER }];
    streams.extend([Stream { class: Class::Idle, ..DEEP }; 12]);
    streams.push(Stream { class: Class::Idle, ..SHORT_LIVED });
    // A request, and almost the quiet time until the next.
    let think_ns = GRACE_NS - MILLISECOND_NS / 10;
    streams.push(Stream { class: Class::RealTime, think_ns, ..Stream::READER });
    reaches_half(MILLISECOND_NS, &streams);
}

#[test]
fn write_back_beside_deep_processes_waits_half_its_bound() {
    let streams = [Stream { depth: 60, ..Stream::WRITE_BACK }, DEEP, DEEP];
    reaches_half(4 * MILLISECOND_NS, &streams);
}

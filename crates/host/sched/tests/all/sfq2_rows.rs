//! The seven mixes of the table in `docs/sfq2.md`, and what SFQ2 promises of each.

use crate::mix::{Fared, Machine, Stream, run};
use sched::{Class, Direction};

const READER: Stream = Stream::READER;
const MILLISECOND_NS: u64 = 1_000_000;

fn beside(first: Stream, other: Stream) -> (u64, Fared) {
    let fared = run("sfq2", Machine::TABLE, &[first, other]);
    let seconds = Machine::TABLE.duration_ns / 1_000_000_000;
    (fared[0].done / seconds, fared[0])
}

#[test]
fn a_reader_beside_a_process_of_depth_32_gets_48_a_second() {
    let (rate, _) = beside(READER, Stream { depth: 32, ..READER });
    assert!(rate >= 48, "{rate}");
}

#[test]
fn a_reader_beside_a_process_of_depth_128_gets_40_a_second() {
    let (rate, _) = beside(READER, Stream { depth: 128, ..READER });
    assert!(rate >= 40, "{rate}");
}

#[test]
fn a_reader_beside_32_threads_of_16_gets_50_a_second() {
    let (rate, _) = beside(READER, Stream { depth: 32 * 16, ..READER });
    assert!(rate >= 50, "{rate}");
}

#[test]
fn an_old_reader_beside_short_lived_processes_waits_0_3_s_at_most() {
    let short_lived = Stream { depth: 8, is_short_lived: true, ..READER };
    let (_, fared) = beside(READER, short_lived);
    assert!(fared.done > 100 && fared.longest_ns <= 300 * MILLISECOND_NS);
}

#[test]
fn an_old_writer_beside_short_lived_processes_waits_0_3_s_at_most() {
    let short_lived = Stream { depth: 8, is_short_lived: true, ..READER };
    let writer = Stream { direction: Direction::Write, ..READER };
    let (_, fared) = beside(writer, short_lived);
    assert!(fared.done > 100 && fared.longest_ns <= 300 * MILLISECOND_NS);
}

#[test]
fn a_reader_under_write_back_gets_70_a_second_and_waits_60_ms_at_most() {
    let (rate, fared) = beside(READER, Stream::WRITE_BACK);
    assert!(rate >= 70 && fared.longest_ns <= 60 * MILLISECOND_NS);
}

#[test]
fn a_real_time_reader_beside_an_idle_one_gets_110_a_second() {
    let real_time = Stream { class: Class::RealTime, ..READER };
    let (rate, _) = beside(real_time, Stream { class: Class::Idle, depth: 32, ..READER });
    assert!(rate >= 110, "{rate}");
}

//! What every scheduler keeps: each request is dispatched once, none is lost, the order repeats itself.

use crate::attempt::attempt;
use crate::shorter::shortest;
use crate::{Broken, Checked, Effort, Progress};
use nand::random::Stream;
use sched::replay::{Arrival, Event, Order, Outcome, When, replay};
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, SchedulerEntry};
use std::collections::BTreeMap;

/// Processes that issue requests.
// Few, so that each has several requests queued at a time.
const PROCESSES: u32 = 5;
/// Device time of a request, and of each of its sectors.
/// Between the pauses of arrivals: so queues fill and run empty in each sequence.
const SERVICE_NS: (u64, u64) = (200_000, 1_000);

/// The queue of a sequence.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    queue_depth: u32,
    merging: bool,
    order: Order,
}

/// Checks a scheduler.
///
/// # Errors
/// The first sequence in which it breaks a rule, made as short as it can be.
pub fn check_scheduler(
    entry: &SchedulerEntry,
    effort: Effort,
    progress: Progress<'_>,
) -> Result<Checked, Broken> {
    let (mut arrivals, mut dispatched) = (0, 0);
    for number in 0..effort.sequences {
        cancellation::check();
        progress(number, effort.sequences);
        let mut draw = Stream::new(effort.seed.wrapping_add(u64::from(number)), "scheduler check");
        let conditions = Conditions {
            // A device without a queue, the least that has one, and that of SATA.
            queue_depth: [1, 2, 32][draw.below(3) as usize],
            merging: draw.below(4) > 0,
            order: [Order::ArrivalsFirst, Order::BatchedLast][draw.below(2) as usize],
        };
        let lines = drawn(&mut draw, effort.operations);
        match attempt(|| keeps(entry, conditions, &lines)) {
            Ok(requests) => {
                arrivals += lines.len() as u64;
                dispatched += requests;
            }
            Err(said) => {
                let mut fails = |some: &[Arrival]| {
                    cancellation::check();
                    attempt(|| keeps(entry, conditions, some)).err()
                };
                let (left, what) = shortest(&lines, said, &|_| Vec::new(), &mut fails);
                let Conditions { queue_depth, merging, .. } = conditions;
                let merges =
                    if merging { "adjacent requests are merged" } else { "nothing is merged" };
                return Err(Broken {
                    what,
                    conditions: format!("queue depth {queue_depth}, {merges}"),
                    operations: left.iter().map(shown).collect(),
                    kept: number,
                });
            }
        }
    }
    progress(effort.sequences, effort.sequences);
    Ok(vec![
        ("sequences", u64::from(effort.sequences)),
        ("arrivals", arrivals),
        ("requests dispatched", dispatched),
    ])
}

fn drawn(draw: &mut Stream, operations: u32) -> Vec<Arrival> {
    let mut now_ns = 0;
    let mut last_end = 0;
    let mut to_come: Vec<Bio> = Vec::new();
    let mut arrival = || {
        if let Some(bio) = to_come.pop() {
            return Arrival { event: Event::Submit(bio), when: When::At(now_ns) };
        }
        // Bursts, pauses shorter and longer than a request, and one in which most schedulers stop to idle.
        now_ns += [0, 0, 50_000, 1_000_000, 20_000_000][draw.below(5) as usize];
        let pid = 1 + draw.below(PROCESSES);
        if draw.below(30) == 0 {
            return Arrival { event: Event::Exit(pid), when: When::At(now_ns) };
        }
        let sectors = 8 * (1 + draw.below(4));
        let direction = if draw.below(2) == 0 { Direction::Read } else { Direction::Write };
        // One in four continues the request before, and half lie close together: so bios join requests,
        // and requests join each other.
        let sector = match draw.below(4) {
            0 => last_end,
            1 | 2 => 8 * u64::from(draw.below(24)),
            _ => 8 * u64::from(draw.below(100_000)),
        };
        let bio = Bio {
            pid,
            direction,
            sync: direction == Direction::Read || draw.below(4) == 0,
            noidle: false,
            class: [Class::BestEffort, Class::RealTime, Class::Idle][draw.below(3) as usize],
            level: draw.below(8) as u8,
            sector,
            sectors,
        };
        last_end = bio.end();
        if draw.below(10) == 0 {
            // The last one closes the gap between two that are neighbours in every order.
            let behind = |places: u64| Bio { sector: sector + places * u64::from(sectors), ..bio };
            to_come.extend([behind(1), behind(2)]);
        }
        Arrival { event: Event::Submit(bio), when: When::At(now_ns) }
    };
    (0..operations).map(|_| arrival()).collect()
}

/// # Errors
/// The rule that was broken; else the number of requests that were dispatched.
fn keeps(entry: &SchedulerEntry, on: Conditions, lines: &[Arrival]) -> Result<u64, String> {
    let outcome = outcome_of(entry, on, lines)?;
    if let Some(place) = outcome.stuck.first() {
        return Err(format!(
            "{} requests were never dispatched, though nothing else was left to happen; the first: {}",
            outcome.stuck.len(),
            shown(&lines[*place])
        ));
    }
    let mut times = BTreeMap::new();
    for place in outcome.dispatched.iter().flat_map(|request| &request.arrivals) {
        *times.entry(*place).or_insert(0_u32) += 1;
    }
    // A request that is given up ends once, too, and is not dispatched beside.
    for place in &outcome.cancelled {
        *times.entry(*place).or_insert(0) += 1;
    }
    for (place, line) in lines.iter().enumerate() {
        let count = times.get(&place).copied().unwrap_or(0);
        if matches!(line.event, Event::Submit(_)) && count != 1 {
            return Err(format!("dispatched {count} times: {}", shown(line)));
        }
    }
    // A second object in the same process: what goes by addresses of objects, as the order of a set
    // of requests does, comes out otherwise.
    if outcome_of(entry, on, lines)? != outcome {
        return Err("the same arrivals were dispatched in another order the second time; \
                    draw random numbers from self.random alone, and iterate over no set"
            .into());
    }
    // Last: a policy that loses requests anyway is told so in the words of the rule above.
    drains(entry, lines)?;
    Ok(outcome.dispatched.len() as u64)
}

fn outcome_of(
    entry: &SchedulerEntry,
    on: Conditions,
    lines: &[Arrival],
) -> Result<Outcome, String> {
    let options = ElevatorOptions { merging: on.merging, ..ElevatorOptions::default() };
    let mut elevator = elevator(entry, options)?;
    let mut service = |now_ns: u64, request: &sched::Request| {
        now_ns + SERVICE_NS.0 + SERVICE_NS.1 * u64::from(request.bio.sectors)
    };
    Ok(replay(&mut elevator, lines, on.queue_depth, on.order, &mut service))
}

/// With force, a scheduler gives everything it has: the kernel changes schedulers so.
fn drains(entry: &SchedulerEntry, lines: &[Arrival]) -> Result<(), String> {
    // Without merging, so that all lines are requests and one lost is one left.
    let options = ElevatorOptions { merging: false, ..ElevatorOptions::default() };
    let mut elevator = elevator(entry, options)?;
    for (line, now_ns) in lines.iter().zip(0..) {
        if let Event::Submit(bio) = line.event {
            elevator.insert(now_ns, bio);
        }
    }
    elevator.drain(lines.len() as u64);
    match elevator.scheduler().queued() {
        0 => Ok(()),
        left => Err(format!("{left} requests were left after dispatch with force")),
    }
}

fn elevator(entry: &SchedulerEntry, options: ElevatorOptions) -> Result<Elevator, String> {
    let settings = entry.settings(&BTreeMap::new()).map_err(|error| error.to_string())?;
    Ok(Elevator::new(entry, &settings, options))
}

fn shown(line: &Arrival) -> String {
    let When::At(now_ns) = line.when else { unreachable!("all times are drawn") };
    let time_us = now_ns / 1000;
    match line.event {
        Event::Exit(pid) => format!("{time_us} us: process {pid} exits"),
        Event::Submit(bio) => {
            let what = if bio.direction == Direction::Read { "reads" } else { "writes" };
            let (pid, sectors, sector) = (bio.pid, bio.sectors, bio.sector);
            format!("{time_us} us: process {pid} {what} {sectors} sectors at {sector}")
        }
    }
}

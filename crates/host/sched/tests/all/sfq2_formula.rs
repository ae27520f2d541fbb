//! The bounds of `docs/sfq2.md` as one formula, for the simulator's mixes and for those of a running kernel.

use crate::mix::Stream;
use sched::Class;

// Defaults of the tunables.
const VISIT_COST: u64 = 36;
const SYNC_VISITS: u64 = 3;
const CLASS_VISITS: u64 = 8;
const EXPIRED_INTERVAL: u64 = 8;

/// How many requests a device takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Requests that it carries out at a time: *D* of the page.
    pub slots: u64,
    /// Requests that are taken ahead of it, after which it may be the turn of others.
    pub taken_ahead: u64,
}

/// The longest wait of a request from its insertion to its end, in units that a machine gives a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Times that a request takes: *S* of the page.
    pub services: u64,
    /// Quiet times: *G* of the page.
    pub quiet_times: u64,
}

impl Bound {
    pub(crate) fn time_ns(self, service_ns: u64, grace_ns: u64) -> u64 {
        self.services * service_ns + self.quiet_times * grace_ns
    }
}

fn cost(of: &Stream) -> u64 {
    64 + u64::from(of.sectors.min(1024))
}

fn credit(level: u8) -> u64 {
    VISIT_COST * u64::from(8 - level)
}

/// Processes of a stream that have requests queued at a time.
fn processes(of: &Stream) -> u64 {
    if of.is_short_lived { u64::from(of.depth) } else { 1 }
}

/// Visits to a class while one of its queues waits, and the requests sent in them.
#[derive(Clone, Copy)]
struct Visits {
    visits: u64,
    requests: u64,
}

/// Most visits to its class before a request of a stream is sent: the names are those of the page.
fn visits_of_the_class(streams: &[Stream], own: &Stream, r: u64) -> Visits {
    let of_class = || streams.iter().filter(|other| other.class == own.class);
    let n_all: u64 = of_class().filter(|other| other.sync).map(processes).sum();
    if own.sync {
        let depth = if own.is_short_lived { 1 } else { u64::from(own.depth) };
        let p = (depth * cost(own) - 1) / credit(own.level) + 1;
        let v = p * (2 * (n_all - 1) + 2) + 1;
        let has_async = of_class().any(|other| !other.sync);
        let a = if has_async { v / SYNC_VISITS + 1 } else { 0 };
        return Visits { visits: v + a, requests: v * r + a };
    }
    let queued: u64 =
        of_class().filter(|other| !other.sync).map(|other| u64::from(other.depth)).sum();
    let largest = of_class().filter(|other| !other.sync).map(cost).max().unwrap_or(0);
    let t = queued + queued * largest / credit(4) + 1;
    // Those of a class without processes wait for the turns of a lower one.
    let n_lower = streams
        .iter()
        .any(|other| other.sync && other.class > own.class && other.class != Class::Idle);
    let v = if n_all > 0 || n_lower { (t + 1) * SYNC_VISITS } else { 0 };
    Visits { visits: t + v, requests: t + v * r }
}

/// The longest wait of a request of `own`, one of the streams.
pub(crate) fn bound(places: Places, streams: &[Stream], own: &Stream) -> Bound {
    let credits = streams.iter().filter(|other| other.sync).map(|other| credit(other.level));
    let least = streams.iter().map(cost).min().unwrap_or(1);
    let r = credits.max().unwrap_or(1).div_ceil(least);
    let Visits { visits, requests } = visits_of_the_class(streams, own, r);
    let is_busy = |class: Class| streams.iter().any(|other| other.class == class);
    let classes = [Class::RealTime, Class::BestEffort, Class::Idle];
    let higher =
        classes.iter().filter(|class| **class < own.class && is_busy(**class)).count() as u64;
    let from_higher = if higher == 0 { 0 } else { visits * (CLASS_VISITS + higher - 1) };
    let lower =
        classes.iter().filter(|class| **class > own.class && is_busy(**class)).count() as u64;
    let from_lower = lower * ((visits + from_higher) / CLASS_VISITS + 1);
    let before = requests + (from_higher + from_lower) * r;
    let all = before + before / EXPIRED_INTERVAL + 1 + places.taken_ahead;
    if own.sync && own.class != Class::Idle {
        return Bound { services: (all + 1).div_ceil(places.slots) + 1, quiet_times: 0 };
    }
    // Slots may be empty while requests are held, so the requests count as sent one after the other.
    let held = if own.sync || places.slots == 1 { 0 } else { visits };
    Bound { services: all + 2 + held, quiet_times: from_higher + visits + 1 }
}

//! Suspended programs and erases: a read takes a die that is in the middle of one.
//!
//! A chip with suspend commands stops a program or an erase within some microseconds, serves reads, and goes on (Wu
//! and He, FAST 2012). Here an operation is suspended only while nobody knows when it ends: a program of the
//! write cache, and cleaning ahead of need. A write that was answered by the end of its program, a flush, and cleaning
//! that a command waits for end when they were said to end. Each operation is suspended so often at most, so that
//! writes never starve: each read that interrupts it counts, also one that comes while it is suspended.

use super::{Dies, Moment};
use crate::rules::first_broken;
use crate::{Activity, ActivityKind};
use ftl::PageWork;
use serde::{Deserialize, Serialize};

/// How operations are suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuspendSpec {
    /// Most reads that may interrupt one operation; 0: nothing is suspended.
    pub per_operation: u32,
    /// From the command to suspend until the die takes a read, nanoseconds.
    pub latency_ns: u64,
    /// From the end of the read until the operation goes on, nanoseconds.
    pub resume_ns: u64,
}

impl SuspendSpec {
    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let rules = [
            (self.per_operation <= 1_000, "per_operation must be at most 1000"),
            (self.latency_ns <= 1_000_000_000, "latency_ns must be at most 1000000000 (1 s)"),
            (self.resume_ns <= 1_000_000_000, "resume_ns must be at most 1000000000 (1 s)"),
        ];
        first_broken("suspend", &rules)
    }
}

/// The last operation that a die was given, while nobody knows when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspendable {
    /// It goes on, or goes on again, from here.
    start_ns: u64,
    end_ns: u64,
    kind: ActivityKind,
    /// It was interrupted, and goes on at `start_ns`.
    resumes: bool,
    /// Reads that may still interrupt it.
    left: u32,
}

impl Suspendable {
    /// True if it is the operation that ends at `ns`.
    pub(super) fn ends_at(&self, ns: u64) -> bool {
        self.end_ns == ns
    }
}

/// An operation that a read interrupts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    operation: Suspendable,
    /// What is left of it, nanoseconds.
    rest_ns: u64,
    /// It was suspended already: another read goes before it goes on.
    is_longer: bool,
}

impl Dies {
    /// The last operation of the die may be suspended: its end was not told.
    #[inline]
    pub(super) fn offer(&mut self, die: usize, start_ns: u64, end_ns: u64, kind: ActivityKind) {
        let left = self.suspend.per_operation;
        self.all[die].suspendable =
            (left > 0).then_some(Suspendable { start_ns, end_ns, kind, resumes: false, left });
    }

    /// As [`Dies::offer`], of a program of the cache that ends at `end_ns`.
    #[inline]
    pub(crate) fn offer_program(&mut self, die: usize, work: &PageWork, end_ns: u64) {
        // Not before the data are in the die: only the array can be suspended.
        self.offer(die, end_ns - work.own_program_ns, end_ns, ActivityKind::Program);
    }

    /// The end of what the die does was told: it stays.
    #[inline]
    pub(crate) fn tell_end(&mut self, die: usize) {
        self.all[die].suspendable = None;
    }

    /// Suspends what the die does, if a read that is `ready` gains by it. The die takes the read at the moment that is
    /// returned. The read crosses the channel from `turn` on.
    pub(super) fn suspend(
        &mut self,
        die: usize,
        ready: Moment,
        turn: Moment,
    ) -> Option<(Suspended, Moment)> {
        let operation = self.all[die].suspendable?;
        let SuspendSpec { latency_ns, resume_ns, .. } = self.suspend;
        let is_longer = operation.resumes && ready.ns < operation.start_ns;
        let begins_ns = if is_longer {
            // Behind the read that suspended it.
            ready.ns.max(operation.start_ns - resume_ns)
        } else {
            ready.ns + latency_ns
        };
        let is_under_way = is_longer || ready.ns >= operation.start_ns;
        // Its last moments are waited for, and so is an end that comes before the turn on the channel.
        let gains = begins_ns + resume_ns < operation.end_ns && turn.ns < operation.end_ns;
        if operation.left == 0 || !is_under_way || !gains {
            return None;
        }
        let rest_ns = operation.end_ns - operation.start_ns.max(ready.ns);
        let state = &mut self.all[die];
        debug_assert_eq!(
            state.busy_until_ns, operation.end_ns,
            "it is the last operation of die {die}"
        );
        state.busy_until_ns = begins_ns;
        if operation.kind != ActivityKind::Program {
            state.cleaning_times.cut_short(operation.end_ns, begins_ns);
        }
        if let Some(activity) = &mut self.activity {
            activity.cut_short(die as u32, operation.end_ns, begins_ns);
        }
        let is_cleaning = operation.kind != ActivityKind::Program;
        let waited_ns = if is_cleaning && !is_longer { latency_ns } else { 0 };
        let begin = Moment { ns: begins_ns, cleaning_ns: ready.cleaning_ns + waited_ns };
        Some((Suspended { operation, rest_ns, is_longer }, begin))
    }

    /// The operation goes on after the read: its end moves.
    pub(super) fn resume(&mut self, die: usize, suspended: Suspended) {
        let Suspended { operation, rest_ns, is_longer } = suspended;
        let resume_ns = self.suspend.resume_ns;
        let start_ns = self.all[die].busy_until_ns + resume_ns;
        let end_ns = start_ns + rest_ns;
        debug_assert!(end_ns > operation.end_ns, "a suspended operation ends later");
        let later_ns = end_ns - operation.end_ns;
        let state = &mut self.all[die];
        if let Some(medium) = &mut state.medium {
            medium.delay(operation.end_ns - rest_ns, later_ns, &mut self.cut_watch);
        }
        if let Some(in_flight) = &mut state.in_flight
            && in_flight.end_ns == operation.end_ns
        {
            (in_flight.end_ns, state.drained_ns) = (end_ns, end_ns);
        }
        if operation.kind != ActivityKind::Program {
            state.cleaning_times.add(start_ns, end_ns);
        }
        // The work itself was counted when it was begun; what the die does besides is stopping and going on.
        if !is_longer {
            state.suspensions += 1;
            state.busy_ns += self.suspend.latency_ns + resume_ns;
        }
        state.suspendable = Some(Suspendable {
            start_ns,
            end_ns,
            resumes: true,
            left: operation.left - 1,
            ..operation
        });
        if let Some(activity) = &mut self.activity {
            activity.die_works(Activity {
                die: die as u32,
                start_ns,
                end_ns,
                kind: operation.kind,
            });
        }
        self.rest(die, end_ns);
    }
}

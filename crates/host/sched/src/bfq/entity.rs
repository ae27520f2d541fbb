//! What the service trees know of a queue: its time stamps, its budget and its weight.
//!
//! B-WF2Q+ gives each backlogged entity a virtual start and a virtual finish. The finish is the start
//! plus what the entity may still consume, divided by its weight.
//!
//! Source: Linux 6.1 and 6.12, `struct bfq_entity` of `block/bfq-iosched.h`, `block/bfq-wf2q.c`.

/// Bits of the fraction in virtual times (`WFQ_SERVICE_SHIFT`).
// Divisions truncate: without the fraction the largest weights would make time stand still.
const SERVICE_SHIFT: u32 = 22;

/// The tree that an entity stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// It waits for service.
    Active,
    /// It is empty, but its finish lies ahead of the virtual time.
    Idle,
}

/// Time stamps, budget and weight of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Entity {
    /// Virtual time from which it may be served.
    pub start: u64,
    /// Virtual time at which its budget is used up.
    pub finish: u64,
    /// Smallest start of its subtree in the active tree.
    pub min_start: u64,
    /// The tree it stands in; none while it is in service or forgotten.
    pub tree: Option<Tree>,
    /// It counts in the sum of weights of its tree.
    // Not the same as `tree`: the entity in service counts too, but stands in none (`on_st_or_in_serv`).
    pub is_counted: bool,
    /// Sectors it was charged for since it was last scheduled.
    pub service: i64,
    /// Sectors it may be charged for before it must be scheduled again.
    pub budget: i64,
    /// Requests allocated for it (`allocated`).
    pub allocated: u32,
    /// Weight that the trees go by.
    pub weight: u32,
    /// Weight without raising.
    pub own_weight: u32,
    /// Weight asked for, in force at the next insertion in a tree.
    // Not at once: stamps of an entity in a tree, and the sum of weights, belong to the weight in force.
    pub new_weight: u32,
    /// Weight or class are to be looked at again.
    pub has_new_priority: bool,
}

impl Entity {
    /// Sets the finish to the start plus `service` sectors (`bfq_calc_finish`).
    pub(super) fn set_finish(&mut self, service: i64) {
        self.finish = self.start.wrapping_add(virtual_time(service, u64::from(self.weight)));
    }

    /// Sectors left of the budget.
    pub(super) fn left(&self) -> i64 {
        self.budget - self.service
    }
}

/// Virtual time that `service` sectors take at a weight (`bfq_delta`).
pub(super) fn virtual_time(service: i64, weight: u64) -> u64 {
    debug_assert!(service >= 0, "no service is taken back");
    debug_assert!(weight > 0, "what is served has a weight");
    ((service as u64) << SERVICE_SHIFT) / weight
}

/// True if `one` is later than `other`, also around the end of the numbers (`bfq_gt`).
pub(super) fn is_later(one: u64, other: u64) -> bool {
    // Two times in force lie close together, so the sign of their difference tells their order.
    one.wrapping_sub(other).cast_signed() > 0
}

/// Weight of a priority level (`bfq_ioprio_to_weight`): 80 for level 0 to 10 for level 7.
pub(super) fn weight_of_level(level: u8) -> u32 {
    (8 - u32::from(level.min(7))) * 10
}

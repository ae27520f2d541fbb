//! The submission queues between host and drive: how many, and how the drive serves them.

/// Submission queues of a drive. Each has a completion queue and an interrupt of its own, as Linux sets them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostQueues {
    /// Number of queues.
    pub count: u32,
    /// Commands that the drive executes at once, of all queues together: it fetches while there are fewer.
    pub executes: u32,
    /// Most commands that the drive fetches from a queue in its turn; none for no limit.
    pub burst: Option<u32>,
    /// How it chooses the queue.
    pub arbitration: Arbitration,
    /// How it gathers completions; none for an interrupt each.
    pub coalescing: Option<Coalescing>,
}

/// How a drive chooses the queue from which it fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitration {
    /// All queues in turn.
    RoundRobin,
    /// Urgent queues first of all, the others by weights.
    Weighted(Weights),
}

/// Which queue is of which class, and how many commands a class has in a round.
///
/// The first queues are urgent, those behind them high, the last ones low, and those between medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Queues of the class urgent.
    pub queues_urgent: u32,
    /// Queues of the class high.
    pub queues_high: u32,
    /// Queues of the class low.
    pub queues_low: u32,
    /// Commands of the class high in a round.
    pub high: u32,
    /// Commands of the class medium in a round.
    pub medium: u32,
    /// Commands of the class low in a round.
    pub low: u32,
}

/// When completions of a queue make an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// As soon as there are so many that the host was not told of.
    pub entries: u32,
    /// Or when the first of them is so old, nanoseconds.
    pub time_ns: u64,
}

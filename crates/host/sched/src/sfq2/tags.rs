//! Who holds tags, and how many more a process or write-back may get: rule 9.
//!
//! A tag is held from the insertion of a request to its end, or until it is part of another one. Without a limit
//! a process of many requests, or write-back, takes them all. Others then wait before they reach any queue, where
//! no order of visits helps them.
//!
//! A device that takes every request at once leaves none to choose from. There the limit alone would decide how many
//! requests it has, and two processes would leave a third of the tags unused. So the limit is lifted while nothing is
//! queued, and a share stays free.

/// Tags held.
#[derive(Default)]
pub(super) struct Tags {
    /// Processes that hold one, each counted once for each of its classes.
    holders: u32,
    /// Requests of processes, and those that nobody waits for.
    synchronous: u32,
    asynchronous: u32,
}

impl Tags {
    /// A process that holds `held` tags gets one more.
    pub(super) fn hold(&mut self, held: &mut u32) {
        self.holders += u32::from(*held == 0);
        self.synchronous += 1;
        *held += 1;
    }

    /// A process that holds `held` tags gives one back.
    pub(super) fn let_go(&mut self, held: &mut u32) {
        *held -= 1;
        self.synchronous -= 1;
        self.holders -= u32::from(*held == 0);
    }

    pub(super) fn hold_asynchronous(&mut self) {
        self.asynchronous += 1;
    }

    pub(super) fn let_go_asynchronous(&mut self) {
        self.asynchronous -= 1;
    }

    pub(super) fn holders(&self) -> u32 {
        self.holders
    }

    pub(super) fn synchronous(&self) -> u32 {
        self.synchronous
    }

    pub(super) fn asynchronous(&self) -> u32 {
        self.asynchronous
    }

    /// Limit for a process that holds `held` of so many tags: all, or 1 if it has its share.
    ///
    /// With `all_sent` nothing is queued, and more than a share must be free for a process to exceed its own.
    pub(super) fn limit_of_process(&self, held: u32, tags: u32, all_sent: bool) -> u32 {
        // One share more than there are holders: it stays free for whoever comes next.
        let share = (tags / (self.holders + 1)).max(1);
        // Queued requests on a slow device end this, so that they are shared out as before.
        if all_sent && self.synchronous + self.asynchronous + share < tags {
            return tags;
        }
        // The elevator compares a limit with all synchronous requests, not with those of the process. One is
        // what it holds already, so with 1 it waits for a completion of its own (`sfq2_limit_depth`).
        if held >= share { 1 } else { tags }
    }

    /// Limit for asynchronous requests: a quarter of the tags beside processes, else three quarters.
    pub(super) fn limit_of_asynchronous(&self, tags: u32) -> u32 {
        // Never all: the first request of a process that comes must not wait for a slow write.
        let share = if self.holders > 0 { tags / 4 } else { tags - tags / 4 };
        share.max(1)
    }
}

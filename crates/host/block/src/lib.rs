//! The block layer between a file system (or a process that opens the device) and a device.
//!
//! A [`RequestQueue`] takes bios, merges them into requests, keeps to the limit of requests, plugs,
//! and drives an [`sched::Elevator`] over a [`device::BlockDevice`], which says at once when a command will be
//! done, or over a [`ServedDevice`], which says so when it is. Every bio leaves a [`BioTimes`]:
//! the times that blktrace names Q, G, I, D and C, and what the device did meanwhile.

mod bio_times;
mod occupancy;
mod plug;
mod pool;
mod queue;
mod served;

pub use bio_times::{BioTimes, Observer, WaitBreakdown};
pub use plug::Plug;
pub use pool::{Grant, PoolRules, RequestPool};
pub use queue::{Awaited, Handle, Plugging, QueueOptions, RequestQueue};
pub use served::{Bytes, Part, ServedDevice, Serving};

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Checks that a call panics, with a message that contains `message`.
    pub(crate) fn panics_with(message: &str, call: impl FnOnce()) {
        let said = catch_unwind(AssertUnwindSafe(call)).expect_err(message);
        let said = said.downcast_ref::<String>().map_or_else(
            || said.downcast_ref::<&str>().copied().unwrap_or_default(),
            String::as_str,
        );
        assert!(said.contains(message), "{said:?} is not {message:?}");
    }
}

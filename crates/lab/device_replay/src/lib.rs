//! A block trace through a scheduler, a request queue and a device, in simulated time.
//!
//! In an open loop a request reaches the block layer at its time in the trace, and its latency counts from there,
//! even where the limit of requests keeps it waiting. In a closed loop the next request follows as soon as one of
//! the outstanding ones is done. Every request that goes in comes out: [`replay`] counts both and asserts it.
//!
//! Traces record no process, so that all requests are those of one.

mod account;
mod commands;
mod options;
mod outcome;
mod player;
mod source;
mod stack;

pub use account::{BAND_NAMES, PARTS};
pub use commands::{TimedCommand, commands_of};
pub use device::Preconditioning;
pub use options::{Pace, ReplayOptions};
pub use outcome::{Band, LatencySummary, Outcome, SizeClass, SlcUse, Wear};
pub use player::{ReplayError, replay};
pub use stack::{Run, StackError, Stacks, device_of, replay_all, with_ftl};

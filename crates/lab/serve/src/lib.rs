//! A simulated device offered to real clients: `nandlab serve`.
//!
//! Clients speak NBD (see the crate `nbd`). Behind it stands one device that stores bytes and can lose its power
//! ([`device::StoredDevice`]). The files, from the device outwards:
//!
//! - [`Core`]: the device in simulated time. It knows no clock, no thread and no socket, so a log of its calls can be
//!   carried out again ([`replay_log`]) and ends in the same state.
//! - `record`, `log`, `image`: calls of the core in a file, for a second run or for the next server.
//! - [`Clock`]: ties simulated time to the host's clock, or lets it run as fast as requests come.
//! - `connection`: one client. A thread each, which reads requests, hands them to the core and sends each reply when
//!   it is due.
//! - [`Server`]: listens, and cuts and restores the power of all connections at once.
//! - `control`, `metrics`: what a second and a third socket answer; `questions` is their loop.
//!
//! Locks, in the order in which they are taken: the gate of replies, the core, then one of the small ones (the list of
//! connections, how late replies left, why the server failed). A reply is
//! sent under the shared gate, and a power cut takes the gate alone. So no reply leaves after the moment of a cut.

mod account;
mod carry_out;
mod clients;
mod clock;
mod connection;
mod control;
mod core;
mod frame;
mod header;
mod image;
mod log;
mod metrics;
mod open_image;
mod outgoing;
mod questions;
mod record;
mod server;
mod shared;
mod socket;
mod work;

pub use account::{Account, Totals};
pub use clock::{Clock, Pace};
pub use core::{Core, Power};
pub use image::ImageError;
pub use log::{LogError, LogReport, replay_log};
pub use open_image::image_options;
pub use server::{Server, ServerError, ServerOptions};
pub use shared::{OutageTold, Statistics, Status};
pub use socket::Address;
pub use work::{CoreOptions, CutAfter, Failure, Work};

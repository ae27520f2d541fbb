//! The network block device protocol (NBD), both sides, as functions over bytes.
//!
//! There is no socket, thread or clock here. A caller hands over the bytes that came, and sends the bytes that
//! the calls append. So every exchange can be tested byte for byte, and any transport may carry it.
//!
//! A server goes through three steps:
//!
//! 1. It sends [`Handshake::greeting`], then calls [`Handshake::feed`] until that answers [`Step::Begin`] with
//!    a [`Session`], or [`Step::Close`].
//! 2. It takes 28 bytes a request: [`Request::parse`]. [`Request::payload_bytes`] bytes follow a request, and
//!    are taken even if the request is refused. [`Session::must_close`] names what is too long to be taken.
//! 3. [`Session::check`] says what to do or which error to reply, and [`reply`] has the replies.
//!
//! What the server promises about durability is up to the caller:
//!
//! - A flush covers every write that was *replied to* before the flush is handled, on all connections if the
//!   export has [`transmission_flag::CAN_MULTI_CONN`].
//! - A command with `force_unit_access` is durable before its own reply.
//! - After [`Checked::Disconnect`] the caller finishes what is outstanding. It sends no reply and need not flush.
//! - A request of a connection that died must not be carried out later: Linux sends it again on a new one.
//!
//! Source: "The NBD protocol", `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>. Its baseline,
//! with structured replies and the context `base:allocation`; without TLS and extended headers. Where the
//! document leaves a choice, the answers are those of nbdkit 1.32.5, and departures are named where they stand.

mod block_status;
mod bytes;
pub mod client;
mod export;
mod handshake;
pub mod reply;
mod request;
mod session;
mod wire;

pub use block_status::{Extent, StatusLimit, block_status};
pub use export::{Export, ExportError, check_exports};
pub use handshake::{Handshake, INPUT_BYTES_MAX, OPTION_BYTES_MAX, Reason, Step};
pub use request::{BadMagic, DROPPED_PAYLOAD_BYTES_MAX, Request};
pub use session::{Checked, Refusal, Session};
pub use wire::*;

//! The client's side, as far as tools and tests need it: options, the handshake, requests, replies.
//!
//! Source: as for the crate. Like the server's side, it is functions over bytes.

mod handshake;
mod options;
mod replies;

pub use handshake::{ClientHandshake, ClientStep, Failure, Negotiated, Wanted};
pub use options::{
    BlockSizes, OptionReply, export_question, meta_question, option, parse_greeting,
};
pub use replies::{BadReply, Body, Reply};

use crate::request::Request;
use crate::wire::{Command, command_flag};

/// A request without flags.
pub fn request(command: Command, cookie: u64, offset: u64, length: u32) -> Request {
    Request { flags: 0, command: command.number(), cookie, offset, length }
}

/// Appends a write with its data, at most 4 GiB - 1.
pub fn write(output: &mut Vec<u8>, cookie: u64, offset: u64, data: &[u8], force_unit_access: bool) {
    let flags = if force_unit_access { command_flag::FUA } else { 0 };
    let length = data.len() as u32;
    Request { flags, ..request(Command::Write, cookie, offset, length) }.write(output);
    output.extend_from_slice(data);
}

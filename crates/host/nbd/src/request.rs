//! Requests as they are on the wire.

use crate::bytes::{Reader, put_u16, put_u32, put_u64};
use crate::export::Export;
use crate::wire::{Command, REQUEST_BYTES, REQUEST_MAGIC};
use thiserror::Error;

/// Longest payload of a write that is taken only to be dropped.
///
/// nbdkit 1.32.5 drops twice its maximum of 64 MiB and closes at one byte more.
pub const DROPPED_PAYLOAD_BYTES_MAX: u32 = 1 << 27;

/// A request, not judged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// [`command_flag`](crate::command_flag)s.
    pub flags: u16,
    /// A [`Command`], or a number that means nothing.
    pub command: u16,
    /// What the client knows the request by; its reply carries it.
    pub cookie: u64,
    /// First byte of the export.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
}

/// A request began with something else than the magic number: the place in the stream is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a request begins with {found:#010x} instead of {REQUEST_MAGIC:#010x}: close the connection"
)]
pub struct BadMagic {
    /// What stood there.
    pub found: u32,
}

impl Request {
    /// Takes a request from its bytes.
    ///
    /// # Errors
    /// [`BadMagic`]: the connection has to be closed.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, BadMagic> {
        let mut reader = Reader::new(bytes);
        // All fields are there: their lengths add up to that of the array.
        let found = reader.u32().unwrap_or_default();
        if found != REQUEST_MAGIC {
            return Err(BadMagic { found });
        }
        Ok(Self {
            flags: reader.u16().unwrap_or_default(),
            command: reader.u16().unwrap_or_default(),
            cookie: reader.u64().unwrap_or_default(),
            offset: reader.u64().unwrap_or_default(),
            length: reader.u32().unwrap_or_default(),
        })
    }

    /// Appends the request as a client sends it. The data of a write follows.
    pub fn write(&self, output: &mut Vec<u8>) {
        put_u32(output, REQUEST_MAGIC);
        put_u16(output, self.flags);
        put_u16(output, self.command);
        put_u64(output, self.cookie);
        put_u64(output, self.offset);
        put_u32(output, self.length);
    }

    /// Which command it is, if there is one of its number.
    pub fn known_command(&self) -> Option<Command> {
        Command::from_number(self.command)
    }

    /// Bytes that follow the request. They have to be taken even if the request is refused.
    pub fn payload_bytes(&self) -> u32 {
        // Judged by the number alone: flags and range may be wrong, and the client sends the data all the same.
        if self.command == Command::Write.number() { self.length } else { 0 }
    }

    /// Whether so many bytes follow that the connection has to be closed.
    pub(crate) fn is_too_long(&self, export: &Export) -> bool {
        // An export that takes more than is dropped elsewhere must not close at what it takes.
        self.payload_bytes() > export.maximum_payload_bytes.max(DROPPED_PAYLOAD_BYTES_MAX)
    }
}

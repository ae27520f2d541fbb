//! Replies to requests, as a client takes them apart.

use crate::block_status::Extent;
use crate::bytes::Reader;
use crate::wire::{CHUNK_MAGIC, ChunkKind, SIMPLE_REPLY_MAGIC, chunk_flag};
use thiserror::Error;

/// A simple reply or a chunk of a structured one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request that it answers.
    pub cookie: u64,
    /// Whether it is the last one to that request.
    pub is_last: bool,
    /// What it says.
    pub body: Body,
}

/// What a reply says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A simple reply without an error, with the data of a read.
    Simple {
        /// The data, empty for all but reads.
        data: Vec<u8>,
    },
    /// A simple reply with an error.
    SimpleError {
        /// An [`ErrorNumber`](crate::ErrorNumber), or an unknown number.
        error: u32,
    },
    /// A chunk that says nothing.
    None,
    /// Data of the export.
    Data {
        /// First byte.
        offset: u64,
        /// The data.
        data: Vec<u8>,
    },
    /// Zeros of the export.
    Hole {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Extents of a metadata context.
    Status {
        /// Number of the context.
        context: u32,
        /// Extents from the first byte of the request on.
        extents: Vec<Extent>,
    },
    /// An error.
    Error {
        /// An [`ErrorNumber`](crate::ErrorNumber), or an unknown number.
        error: u32,
        /// What the server says.
        text: String,
        /// Where, if the server says so.
        offset: Option<u64>,
    },
}

/// Bytes that are no reply: the connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadReply {
    /// Another beginning.
    #[error("a reply begins with {0:#010x}, which is no reply: close the connection")]
    Magic(u32),
    /// A chunk of an unknown type that is no error.
    #[error("a chunk has the unknown type {0}: close the connection")]
    Kind(u16),
    /// A chunk whose payload is not what its type says.
    #[error(
        "a chunk of type {0:#x} has a payload that does not fit its type: close the connection"
    )]
    Payload(u16),
    /// More bytes than the client takes.
    #[error("a reply has {0} bytes of payload, more than is taken: close the connection")]
    TooLong(u32),
}

impl Reply {
    /// The reply at the front of bytes, and how many it takes. `None` if it is not complete.
    ///
    /// A simple reply to a read carries as many bytes as were asked for: `read_bytes` says how many for a
    /// cookie, zero for other commands. `payload_bytes_max` bounds what is waited for.
    ///
    /// # Errors
    /// [`BadReply`] if the bytes are no reply.
    pub fn parse(
        input: &[u8],
        payload_bytes_max: u32,
        read_bytes: impl FnOnce(u64) -> u32,
    ) -> Result<Option<(Self, usize)>, BadReply> {
        let mut reader = Reader::new(input);
        let Some(magic) = reader.u32() else { return Ok(None) };
        let reply = match magic {
            SIMPLE_REPLY_MAGIC => Ok(simple(&mut reader, read_bytes)),
            CHUNK_MAGIC => chunk(&mut reader, payload_bytes_max),
            other => Err(BadReply::Magic(other)),
        };
        Ok(reply?.map(|reply| (reply, input.len() - reader.rest_bytes())))
    }
}

fn simple(reader: &mut Reader<'_>, read_bytes: impl FnOnce(u64) -> u32) -> Option<Reply> {
    let error = reader.u32()?;
    let cookie = reader.u64()?;
    let body = if error == 0 {
        Body::Simple { data: reader.take(read_bytes(cookie) as usize)?.to_vec() }
    } else {
        Body::SimpleError { error }
    };
    Some(Reply { cookie, is_last: true, body })
}

fn chunk(reader: &mut Reader<'_>, payload_bytes_max: u32) -> Result<Option<Reply>, BadReply> {
    let (Some(flags), Some(kind), Some(cookie), Some(length)) =
        (reader.u16(), reader.u16(), reader.u64(), reader.u32())
    else {
        return Ok(None);
    };
    // Before the payload is waited for: a damaged length could ask for gigabytes.
    if length > payload_bytes_max {
        return Err(BadReply::TooLong(length));
    }
    let Some(payload) = reader.take(length as usize) else { return Ok(None) };
    let is_last = flags & chunk_flag::DONE != 0;
    let body = match ChunkKind::from_number(kind) {
        // An unknown error is an error all the same.
        None if kind >> 15 == 1 => error(payload, false),
        None => return Err(BadReply::Kind(kind)),
        Some(known) => body(known, payload, is_last),
    };
    let body = body.ok_or(BadReply::Payload(kind))?;
    Ok(Some(Reply { cookie, is_last, body }))
}

fn body(kind: ChunkKind, payload: &[u8], is_last: bool) -> Option<Body> {
    let mut reader = Reader::new(payload);
    match kind {
        ChunkKind::None => (payload.is_empty() && is_last).then_some(Body::None),
        ChunkKind::OffsetData => {
            let offset = reader.u64()?;
            let data = reader.take(reader.rest_bytes())?.to_vec();
            (!data.is_empty()).then_some(Body::Data { offset, data })
        }
        ChunkKind::OffsetHole => {
            let (offset, length) = (reader.u64()?, reader.u32()?);
            (reader.is_empty() && length > 0).then_some(Body::Hole { offset, length })
        }
        ChunkKind::BlockStatus => {
            let context = reader.u32()?;
            let mut extents = Vec::new();
            while !reader.is_empty() {
                let (length, flags) = (u64::from(reader.u32()?), reader.u32()?);
                extents.push(Extent { length, flags });
            }
            // A client that goes on behind the last extent would ask the same for ever.
            let is_valid = !extents.is_empty() && extents.iter().all(|one| one.length > 0);
            is_valid.then_some(Body::Status { context, extents })
        }
        ChunkKind::Error => error(payload, false),
        ChunkKind::ErrorOffset => error(payload, true),
    }
}

fn error(payload: &[u8], has_offset: bool) -> Option<Body> {
    let mut reader = Reader::new(payload);
    let error = reader.u32()?;
    let length = usize::from(reader.u16()?);
    let text = String::from_utf8_lossy(reader.take(length)?).into_owned();
    let offset = if has_offset { Some(reader.u64()?) } else { None };
    (error != 0).then_some(Body::Error { error, text, offset })
}

//! Replies to requests, appended to bytes that are to be sent.
//!
//! Headers are apart from data, so that a caller can send the data of a read from where it lies.
//! Chunks of one reply share the cookie, and the last one has the flag DONE.

use crate::bytes::{cut, put_u16, put_u32, put_u64};
use crate::session::Session;
use crate::wire::{
    CHUNK_DATA_BYTES_MAX, CHUNK_MAGIC, ChunkKind, Command, ErrorNumber, SIMPLE_REPLY_MAGIC,
    chunk_flag,
};

/// Bytes of an offset in front of what a chunk tells of it.
const OFFSET_BYTES: u32 = 8;

/// A simple reply, with an error or without. It must not answer a read if replies are structured.
pub fn simple(output: &mut Vec<u8>, error: Option<ErrorNumber>, cookie: u64) {
    put_u32(output, SIMPLE_REPLY_MAGIC);
    // Zero is no error and has no name among the error numbers.
    put_u32(output, error.map_or(0, ErrorNumber::number));
    put_u64(output, cookie);
}

/// The header of a chunk whose payload of `payload_bytes` bytes follows.
pub(crate) fn chunk_header(
    output: &mut Vec<u8>,
    kind: ChunkKind,
    is_last: bool,
    cookie: u64,
    payload_bytes: u32,
) {
    put_u32(output, CHUNK_MAGIC);
    // Other bits belong to extensions, and clients must not see them.
    put_u16(output, if is_last { chunk_flag::DONE } else { 0 });
    put_u16(output, kind.number());
    put_u64(output, cookie);
    put_u32(output, payload_bytes);
}

/// The front of a chunk of data: `length` bytes of the export from `offset` on have to follow.
///
/// The length is 1 to [`CHUNK_DATA_BYTES_MAX`], which [`Session::check`] sees to.
pub fn data_header(output: &mut Vec<u8>, cookie: u64, offset: u64, length: u32, is_last: bool) {
    debug_assert!((1..=CHUNK_DATA_BYTES_MAX).contains(&length), "a chunk can hold the data");
    let payload_bytes = length.saturating_add(OFFSET_BYTES);
    chunk_header(output, ChunkKind::OffsetData, is_last, cookie, payload_bytes);
    put_u64(output, offset);
}

/// A chunk of data with its bytes, at least one.
pub fn data(output: &mut Vec<u8>, cookie: u64, offset: u64, data: &[u8], is_last: bool) {
    data_header(output, cookie, offset, data.len() as u32, is_last);
    output.extend_from_slice(data);
}

/// A chunk that stands for `length` zeros, at least one. Not for a read that must not be fragmented, unless
/// all of it is zeros.
pub fn hole(output: &mut Vec<u8>, cookie: u64, offset: u64, length: u32, is_last: bool) {
    debug_assert!(length > 0, "a hole has a byte");
    chunk_header(output, ChunkKind::OffsetHole, is_last, cookie, OFFSET_BYTES + 4);
    put_u64(output, offset);
    put_u32(output, length);
}

/// The chunk that ends a reply and holds nothing.
pub fn done(output: &mut Vec<u8>, cookie: u64) {
    chunk_header(output, ChunkKind::None, true, cookie, 0);
}

/// A chunk with an error and a text for people, cut at 4096 bytes. No other chunk need follow.
pub fn error_chunk(
    output: &mut Vec<u8>,
    error: ErrorNumber,
    cookie: u64,
    text: &str,
    is_last: bool,
) {
    // The length of the text has 16 bits, the limit of strings is lower.
    let text = cut(text);
    chunk_header(output, ChunkKind::Error, is_last, cookie, 6 + text.len() as u32);
    put_error(output, error, text);
}

/// A chunk with an error at a place of the request. Bytes before it count.
pub fn error_chunk_at(
    output: &mut Vec<u8>,
    error: ErrorNumber,
    cookie: u64,
    offset: u64,
    text: &str,
    is_last: bool,
) {
    let text = cut(text);
    let payload_bytes = 6 + text.len() as u32 + OFFSET_BYTES;
    chunk_header(output, ChunkKind::ErrorOffset, is_last, cookie, payload_bytes);
    put_error(output, error, text);
    put_u64(output, offset);
}

fn put_error(output: &mut Vec<u8>, error: ErrorNumber, text: &str) {
    put_u32(output, error.number());
    put_u16(output, text.len() as u16);
    output.extend_from_slice(text.as_bytes());
}

impl Session {
    /// The front of the reply to a whole read. The caller sends `length` bytes behind it and nothing more.
    ///
    /// Only when all bytes are at hand: after it no error can be told. Until then, a read that may fail halfway
    /// goes out as chunks that are not the last, or as nothing.
    pub fn read_header(&self, output: &mut Vec<u8>, cookie: u64, offset: u64, length: u32) {
        // One chunk whatever the flag DF says, so that both kinds of reads take the same way.
        if self.structured {
            data_header(output, cookie, offset, length, true);
        } else {
            simple(output, None, cookie);
        }
    }

    /// The reply to a whole read with its bytes.
    pub fn read(&self, output: &mut Vec<u8>, cookie: u64, offset: u64, data: &[u8]) {
        self.read_header(output, cookie, offset, data.len() as u32);
        output.extend_from_slice(data);
    }

    /// The reply to a command that was carried out and answers nothing: all but `READ` and `BLOCK_STATUS`.
    pub fn success(&self, output: &mut Vec<u8>, cookie: u64) {
        // Allowed in both kinds of session, and what nbdkit sends.
        simple(output, None, cookie);
    }

    /// The reply to a command that failed or was refused. Without structured replies the text goes nowhere.
    ///
    /// It must be the only reply to the request.
    pub fn failure(&self, output: &mut Vec<u8>, error: ErrorNumber, cookie: u64, text: &str) {
        // nbdkit uses chunks for READ and BLOCK_STATUS alone; the protocol prefers them for all, since they
        // carry the text.
        if self.structured {
            error_chunk(output, error, cookie, text, true);
        } else {
            simple(output, Some(error), cookie);
        }
    }

    /// Whether a successful reply to the command is made of chunks.
    pub fn replies_in_chunks(&self, command: Command) -> bool {
        self.structured && matches!(command, Command::Read | Command::BlockStatus)
    }
}

//! Options as a client sends them, and the replies to them.

use crate::bytes::{Reader, put_string, put_u16, put_u32, put_u64};
use crate::client::Failure;
use crate::wire::{
    GREETING_BYTES, GREETING_MAGIC, InfoKind, OPTION_MAGIC, OPTION_REPLY_HEADER_BYTES,
    OPTION_REPLY_MAGIC, OptionKind, OptionReplyKind,
};

/// Longest data of a reply to an option: name and description of an export have room several times.
const REPLY_BYTES_MAX: u32 = 1 << 16;

/// The handshake flags of a server's greeting.
///
/// # Errors
/// [`Failure::Greeting`] if it is no server of the newstyle handshake.
pub fn parse_greeting(greeting: &[u8; GREETING_BYTES]) -> Result<u16, Failure> {
    let mut reader = Reader::new(greeting);
    let is_server = reader.u64() == Some(GREETING_MAGIC) && reader.u64() == Some(OPTION_MAGIC);
    if is_server { reader.u16().ok_or(Failure::Greeting) } else { Err(Failure::Greeting) }
}

/// Appends an option with its data.
pub fn option(output: &mut Vec<u8>, kind: OptionKind, data: &[u8]) {
    put_u64(output, OPTION_MAGIC);
    put_u32(output, kind.number());
    put_u32(output, data.len() as u32);
    output.extend_from_slice(data);
}

/// Data of INFO and GO.
pub fn export_question(name: &str, infos: &[InfoKind]) -> Vec<u8> {
    let mut data = Vec::new();
    put_string(&mut data, name);
    put_u16(&mut data, infos.len() as u16);
    for info in infos {
        put_u16(&mut data, info.number());
    }
    data
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
pub fn meta_question(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    put_string(&mut data, name);
    put_u32(&mut data, queries.len() as u32);
    for query in queries {
        put_string(&mut data, query);
    }
    data
}

/// Sizes that a server advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it.
    pub minimum_bytes: u32,
    /// Requests of multiples of it are fast.
    pub preferred_bytes: u32,
    /// Most bytes that a request or its reply carries.
    pub maximum_payload_bytes: u32,
}

impl BlockSizes {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            minimum_bytes: reader.u32()?,
            preferred_bytes: reader.u32()?,
            maximum_payload_bytes: reader.u32()?,
        })
    }
}

/// A reply to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionReply {
    /// Number of the option.
    pub option: u32,
    /// Type of the reply, an [`OptionReplyKind`] or an unknown number.
    pub kind: u32,
    /// What the type says; for a refusal a text.
    pub data: Vec<u8>,
}

impl OptionReply {
    /// The reply at the front of bytes, and how many it takes. `None` if it is not complete.
    ///
    /// # Errors
    /// [`Failure::Reply`] if it is no reply, or too long.
    pub fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, Failure> {
        let mut reader = Reader::new(input);
        let Some(magic) = reader.u64() else { return Ok(None) };
        if magic != OPTION_REPLY_MAGIC {
            return Err(Failure::Reply);
        }
        let (Some(option), Some(kind), Some(length)) = (reader.u32(), reader.u32(), reader.u32())
        else {
            return Ok(None);
        };
        // Before the data is waited for: a damaged length could ask for gigabytes.
        if length > REPLY_BYTES_MAX {
            return Err(Failure::Reply);
        }
        let Some(data) = reader.take(length as usize) else { return Ok(None) };
        let taken = OPTION_REPLY_HEADER_BYTES + data.len();
        Ok(Some((Self { option, kind, data: data.to_vec() }, taken)))
    }

    /// The type of the reply, if it is known.
    pub fn known_kind(&self) -> Option<OptionReplyKind> {
        OptionReplyKind::from_number(self.kind)
    }
}

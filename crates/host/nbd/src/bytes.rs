//! Big-endian numbers and strings of the protocol.

use crate::wire::STRING_BYTES_MAX;

/// Takes numbers and strings from the front of bytes. Each call is `None` where bytes are missing.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest_bytes(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length in front of it.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let count = self.u32()? as usize;
        string(self.take(count)?)
    }
}

/// The string that bytes are, if they keep the rules (`proto.md`, "Conventions").
pub(crate) fn string(bytes: &[u8]) -> Option<&str> {
    // A zero byte would end the string in programs written in C, and two names could look the same.
    if bytes.len() > STRING_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    str::from_utf8(bytes).ok()
}

/// The longest front of a text that is a string of the protocol.
pub(crate) fn cut(text: &str) -> &str {
    // A text that breaks the rules is cut and not refused: its front is of use to a reader.
    let text = text.split('\0').next().unwrap_or_default();
    &text[..text.floor_char_boundary(STRING_BYTES_MAX)]
}

pub(crate) fn put_u16(output: &mut Vec<u8>, number: u16) {
    output.extend_from_slice(&number.to_be_bytes());
}

pub(crate) fn put_u32(output: &mut Vec<u8>, number: u32) {
    output.extend_from_slice(&number.to_be_bytes());
}

pub(crate) fn put_u64(output: &mut Vec<u8>, number: u64) {
    output.extend_from_slice(&number.to_be_bytes());
}

/// A string with its length in front of it.
pub(crate) fn put_string(output: &mut Vec<u8>, text: &str) {
    put_u32(output, text.len() as u32);
    output.extend_from_slice(text.as_bytes());
}

//! Write-buffers: what a head of the journal has not written yet.
//!
//! Source: `fs/ubifs/io.c`. A state: uses formats only.

use crate::layout::Layout;
use crate::position::{LebNumber, Position};
use sim::Lock;
use std::cell::RefCell;

/// A head of the journal.
pub(crate) struct Head {
    pub(crate) lock: Lock<()>,
    pub(crate) buffer: RefCell<WriteBuffer>,
}

/// The end of a head of the journal.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    /// Eraseblock of the head; none before it has one.
    pub(crate) leb: Option<LebNumber>,
    /// Where the buffer begins in the eraseblock.
    pub(crate) offset: u32,
    /// Bytes in use; the rest is not written.
    pub(crate) bytes: Vec<u8>,
    /// Bytes at which it is written.
    pub(crate) size: u32,
    /// Inodes with nodes in the buffer.
    pub(crate) inodes: Vec<u64>,
    /// When the first byte came, nanoseconds.
    pub(crate) since_ns: u64,
}

impl WriteBuffer {
    pub(crate) fn used(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Where the next node goes; none if the head is nowhere.
    pub(crate) fn position(&self) -> Option<Position> {
        self.leb.map(|leb| Position::new(leb, self.end()))
    }

    /// Offset at which the next node goes.
    pub(crate) fn end(&self) -> u32 {
        self.offset + self.used()
    }

    /// Copies what a range of the eraseblock has in the buffer; returns how many bytes.
    pub(crate) fn overlap(&self, offset: u32, into: &mut [u8]) -> usize {
        let (from, to) = (self.offset.max(offset), self.end().min(offset + into.len() as u32));
        if from >= to {
            return 0;
        }
        into[(from - offset) as usize..(to - offset) as usize].copy_from_slice(
            &self.bytes[(from - self.offset) as usize..(to - self.offset) as usize],
        );
        (to - from) as usize
    }

    /// Begins a new buffer behind bytes that were written.
    pub(crate) fn advance(&mut self, bytes: u32, layout: &Layout) {
        let (leb_bytes, max_write) = (layout.leb_bytes, layout.max_write);
        debug_assert!(self.offset + bytes <= leb_bytes, "the head stays in its eraseblock");
        self.offset += bytes;
        self.bytes.clear();
        self.inodes.clear();
        let rest = leb_bytes - self.offset;
        let to_boundary = self.offset.next_multiple_of(max_write) - self.offset;
        // Later writes then begin at multiples of the largest write (`ubifs_wbuf_seek_nolock`).
        self.size = if to_boundary > 0 { to_boundary } else { max_write }.min(rest);
    }
}

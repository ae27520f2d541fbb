//! Replies on their way into a socket.

use crate::socket::Socket;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::IoSlice;

/// A reply shorter than this is copied behind the one before it: a buffer of its own would cost more.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// A buffer that is filled so far takes no further reply.
const FULL_BYTES: usize = 64 << 10;

/// Buffers that are kept to be used again. Fresh memory costs a page fault for each 4 KiB, which takes longer than
/// to copy them.
const SPARE_MAX: usize = 64;

/// Buffers of one call to the system; fewer than the system takes (`IOV_MAX`, 1,024).
const SLICES_MAX: usize = 64;

/// Buffers in the order in which they leave.
#[derive(Default)]
pub(crate) struct Outgoing {
    buffers: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that have left.
    sent: usize,
    spare: Vec<Vec<u8>>,
}

impl Outgoing {
    /// Begins with these bytes.
    pub(crate) fn new(first: &[u8]) -> Self {
        let mut outgoing = Self::default();
        outgoing.push(first.to_vec());
        outgoing
    }

    /// True if everything has left.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Bytes of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.buffers.iter().map(Vec::len).sum()
    }

    /// The client is gone: nothing leaves any more.
    pub(crate) fn clear(&mut self) {
        self.buffers.clear();
        self.sent = 0;
    }

    /// A buffer to append short replies to, behind all others.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        let buffer = self.spare();
        self.buffers.push_back(buffer);
        self.buffers.back_mut().expect("one was pushed")
    }

    /// An empty buffer to write a reply in.
    pub(crate) fn spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// A reply goes behind all others.
    pub(crate) fn push(&mut self, reply: Vec<u8>) {
        match self.buffers.back_mut() {
            Some(last) if reply.len() < COPIED_BYTES_MAX && last.len() < FULL_BYTES => {
                last.extend_from_slice(&reply);
                self.keep(reply);
            }
            _ => self.buffers.push_back(reply),
        }
    }

    /// Writes as much as the socket takes.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) fn write(&mut self, socket: &Socket) -> Result<(), Errno> {
        while !self.buffers.is_empty() {
            let first = self.buffers.iter().take(1).map(|buffer| &buffer[self.sent..]);
            let others = self.buffers.iter().skip(1).map(Vec::as_slice);
            let slices: Vec<IoSlice<'_>> =
                first.chain(others).take(SLICES_MAX).map(IoSlice::new).collect();
            match rustix::io::writev(socket, &slices) {
                Ok(count) => self.left(count),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// So many bytes have left.
    fn left(&mut self, count: usize) {
        self.sent += count;
        while let Some(first) = self.buffers.front() {
            let length = first.len();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            if let Some(buffer) = self.buffers.pop_front() {
                self.keep(buffer);
            }
        }
    }
}

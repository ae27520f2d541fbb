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
const SPARE_MAX: usize = 16;

/// Largest buffer that is kept: with the number of them, what an idle client may cost.
const SPARE_BYTES_MAX: usize = (1 << 20) + (4 << 10);

/// Buffers of one call to the system; fewer than the system takes (`IOV_MAX`, 1,024).
const SLICES_MAX: usize = 64;

/// Buffers in the order in which they leave.
#[derive(Default)]
pub(crate) struct Outgoing {
    buffers: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that have left.
    sent: usize,
    /// Bytes of all buffers, where the last one counts as it was when it was looked at last.
    counted: usize,
    last_counted: usize,
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
        self.counted + self.buffers.back().map_or(0, Vec::len) - self.last_counted
    }

    /// Counts what was appended to the last buffer.
    fn settle(&mut self) {
        self.counted = self.bytes();
        self.last_counted = self.buffers.back().map_or(0, Vec::len);
    }

    /// The client is gone: nothing leaves any more.
    pub(crate) fn clear(&mut self) {
        self.buffers.clear();
        (self.sent, self.counted, self.last_counted) = (0, 0, 0);
    }

    /// A buffer to append short replies to, behind all others.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        if self.buffers.back().is_none_or(|last| last.len() >= FULL_BYTES) {
            self.settle();
            self.buffers.push_back(Vec::new());
            self.last_counted = 0;
        }
        self.buffers.back_mut().expect("one was pushed")
    }

    /// An empty buffer for a reply of so many bytes.
    pub(crate) fn spare(&mut self, bytes: usize) -> Vec<u8> {
        // Short replies are copied, so a large buffer would only wait with them.
        if bytes < COPIED_BYTES_MAX { Vec::new() } else { self.spare.pop().unwrap_or_default() }
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        let is_useful = (COPIED_BYTES_MAX..=SPARE_BYTES_MAX).contains(&buffer.capacity());
        if is_useful && self.spare.len() < SPARE_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// A reply goes behind all others.
    pub(crate) fn push(&mut self, reply: Vec<u8>) {
        if reply.len() < COPIED_BYTES_MAX {
            self.tail().extend_from_slice(&reply);
            return;
        }
        self.settle();
        self.counted += reply.len();
        self.last_counted = reply.len();
        self.buffers.push_back(reply);
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
                // The socket took a part: the rest goes with the next call.
                Ok(count) => self.left(count),
                // Full: the client has to take something first, and `poll` tells when it has.
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// So many bytes have left.
    fn left(&mut self, count: usize) {
        self.settle();
        self.sent += count;
        while let Some(first) = self.buffers.front() {
            let length = first.len();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            self.counted -= length;
            if self.buffers.len() == 1 {
                self.last_counted = 0;
            }
            if let Some(buffer) = self.buffers.pop_front() {
                self.keep(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COPIED_BYTES_MAX, Outgoing};

    #[test]
    fn bytes_are_counted_however_they_came_and_left() {
        let mut outgoing = Outgoing::new(&[0; 18]);
        assert_eq!(outgoing.bytes(), 18);
        outgoing.tail().extend_from_slice(&[0; 100]);
        outgoing.push(vec![0; 7]);
        assert_eq!((outgoing.bytes(), outgoing.buffers.len()), (125, 1));
        outgoing.push(vec![0; COPIED_BYTES_MAX]);
        outgoing.tail().push(0);
        assert_eq!(outgoing.bytes(), 126 + COPIED_BYTES_MAX);
        outgoing.left(130);
        assert_eq!(outgoing.bytes(), 1 + COPIED_BYTES_MAX);
        // A buffer counts until all of it has left.
        outgoing.left(COPIED_BYTES_MAX - 5);
        assert_eq!(outgoing.bytes(), 1 + COPIED_BYTES_MAX);
        outgoing.left(1);
        assert!(outgoing.is_empty() && outgoing.bytes() == 0);
    }
}

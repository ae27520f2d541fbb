//! A second socket at which each connection asks one question: the loop of the control socket and of the metrics.

use crate::shared::Shared;
use crate::socket::{Listener, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

/// How often it is looked whether the server stops.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A question has to be whole after so many looks, 200 ms, however many pieces it comes in: there is one thread for
/// all who ask, and one that keeps silent must not keep the others waiting.
const PATIENCE_LOOKS: u32 = 10;

/// How a question is known to be whole, and what is answered.
pub(crate) struct Questions {
    /// No more is read.
    pub(crate) bytes_max: usize,
    /// True once all of it has come.
    pub(crate) is_whole: fn(&[u8]) -> bool,
    /// The bytes of the answer.
    pub(crate) answer: fn(&Shared, &[u8]) -> Vec<u8>,
}

impl Questions {
    /// Answers until the server stops.
    pub(crate) fn answer_all(&self, shared: &Shared, listener: &Listener) {
        while !shared.is_stopping() {
            let mut polled = [PollFd::new(listener, PollFlags::IN)];
            // An interrupted wait is like one that found nothing.
            let _ = poll(&mut polled, Some(&LOOK));
            let socket = match listener.accept() {
                Ok(socket) => socket,
                Err(error) => {
                    // Without a free descriptor the client stays in the queue: `poll` would return at once for ever.
                    if error.kind() != ErrorKind::WouldBlock {
                        thread::sleep(Duration::from_nanos(LOOK.tv_nsec.unsigned_abs()));
                    }
                    continue;
                }
            };
            if let Some(question) = self.read(&socket) {
                let answer = (self.answer)(shared, &question);
                // Who asked may be gone by now; nothing of the server depends on it.
                let _ = write_all(&socket, &answer);
            }
            socket.shut();
        }
    }

    /// The question; none if it is too long, or not whole in time.
    fn read(&self, socket: &Socket) -> Option<Vec<u8>> {
        let mut question = Vec::new();
        let mut looks = 0;
        while looks < PATIENCE_LOOKS && question.len() <= self.bytes_max {
            if (self.is_whole)(&question) {
                return Some(question);
            }
            let mut polled = [PollFd::new(socket, PollFlags::IN)];
            let ready = poll(&mut polled, Some(&LOOK));
            looks += 1;
            if !ready.is_ok_and(|count| count > 0) {
                continue;
            }
            let mut bytes = [0; 1_024];
            match rustix::io::read(socket, &mut bytes) {
                Ok(count) if count > 0 => question.extend_from_slice(&bytes[..count]),
                Err(Errno::INTR) => {}
                // The client has said all that it will.
                _ => break,
            }
        }
        (self.is_whole)(&question).then_some(question)
    }
}

fn write_all(socket: &Socket, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(socket, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

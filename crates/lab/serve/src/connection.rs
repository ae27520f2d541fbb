//! One client: what comes from its socket, and when replies leave. [`requests`] has what becomes of each request.
//!
//! A thread serves a connection alone. It waits for bytes, for room in the socket, or for the moment of the next
//! reply, whichever comes first.

mod requests;

use crate::outgoing::Outgoing;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::work::Failure;
use nbd::{Handshake, Request, Session, Step};
use requests::Long;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::PoisonError;

/// Bytes that one call receives at least.
// A full socket buffer of a local client.
const RECEIVE_BYTES: usize = 64 << 10;

/// Replies that may wait for their moment or for room in the socket; then no further request is read.
// Twice the largest payload: a client may always have one such read under way while it sends another request.
const OUTGOING_BYTES_MAX: usize = 2 * nbd::MAXIMUM_PAYLOAD_BYTES as usize;

/// Requests that may wait for their replies; then no further one is read.
const OUTSTANDING_MAX: usize = 1_024;

/// Requests, and bytes of them, that are carried out under one lock of the core: other clients wait meanwhile.
// More than a client of one process has outstanding, and some milliseconds of work.
const BATCH_REQUESTS: u32 = 256;
const BATCH_BYTES: usize = 16 << 20;

/// Input that a client may keep when it is idle.
const INPUT_BYTES_KEPT: usize = 4 << 20;

/// Why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client said so, or closed its side.
    Closed,
    /// It broke the protocol.
    Broken(String),
    /// The device lost its power, or the server stops.
    Shut,
}

/// Why a batch of requests ends early.
enum Stop {
    /// The client broke the protocol.
    Ended(End),
    /// The device or the log did not do its part.
    Failed(Failure),
}

/// A reply that waits for its moment.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due_ns: u64,
    /// Replies of one moment leave in the order of their requests.
    number: u64,
    bytes: Vec<u8>,
}

/// A client.
pub(crate) struct Connection<'shared> {
    shared: &'shared Shared,
    socket: Socket,
    /// What came; the first `taken` bytes of it are done with.
    input: Vec<u8>,
    taken: usize,
    /// Bytes of a refused payload that are yet to come.
    dropping: usize,
    output: Outgoing,
    handshake: Option<Handshake>,
    session: Option<Session>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    replies: u64,
    /// Power cuts before this connection: after another one it is dead, whatever is left in its socket.
    cuts: u64,
    /// Requests that came were left, since too many replies wait or others have their turn.
    has_more: bool,
    /// A long request of which a part is carried out.
    long: Option<Long>,
    /// When the last bytes came, in simulated time. A wait for the core is no part of the host's delay.
    arrived_ns: u64,
    /// Without a clock: time has passed to here, and replies that are due by then may leave.
    passed_ns: u64,
    /// No further request is taken.
    is_closing: bool,
}

impl<'shared> Connection<'shared> {
    pub(crate) fn new(shared: &'shared Shared, socket: Socket, cuts: u64) -> Self {
        Self {
            handshake: Some(Handshake::new(shared.exports.clone())),
            shared,
            socket,
            input: Vec::new(),
            taken: 0,
            dropping: 0,
            output: Outgoing::new(&Handshake::greeting()),
            session: None,
            waiting: BinaryHeap::new(),
            waiting_bytes: 0,
            replies: 0,
            cuts,
            has_more: false,
            long: None,
            arrived_ns: 0,
            passed_ns: 0,
            is_closing: false,
        }
    }

    /// Serves the client until one side ends the connection.
    pub(crate) fn run(mut self) -> End {
        loop {
            if let Err(end) = self.send() {
                return end;
            }
            let is_done = self.waiting.is_empty() && self.output.is_empty();
            if self.is_closing && is_done {
                return End::Closed;
            }
            let has_input = if self.has_more && self.reads() {
                true
            } else {
                match self.wait() {
                    Ok(is_readable) => is_readable && self.receive(),
                    Err(_) => return End::Shut,
                }
            };
            if has_input && let Err(end) = self.take() {
                // What was answered before a mistake of the client still leaves.
                let _ = self.send();
                return end;
            }
        }
    }

    /// True while the client may send more.
    fn reads(&self) -> bool {
        !self.is_closing
            && self.waiting.len() < OUTSTANDING_MAX
            && self.waiting_bytes + self.output.bytes() < OUTGOING_BYTES_MAX
    }

    /// Waits until there is something to do; true if bytes came, or the client is gone.
    fn wait(&mut self) -> Result<bool, Errno> {
        let mut events = PollFlags::empty();
        if self.reads() {
            events |= PollFlags::IN;
        }
        if !self.output.is_empty() {
            events |= PollFlags::OUT;
        }
        let timeout = self.waiting.peek().map(|Reverse(next)| {
            let until = self.shared.clock.until(next.due_ns);
            Timespec {
                tv_sec: until.as_secs().cast_signed(),
                tv_nsec: i64::from(until.subsec_nanos()),
            }
        });
        let mut polled = [PollFd::new(&self.socket, events)];
        match poll(&mut polled, timeout.as_ref()) {
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error),
            Ok(_) => {
                let found = polled[0].revents();
                // A socket that is shut on both sides is told whatever was asked for.
                if found.intersects(PollFlags::ERR | PollFlags::NVAL)
                    || (found.contains(PollFlags::HUP) && !found.contains(PollFlags::IN))
                {
                    return Err(Errno::PIPE);
                }
                Ok(found.contains(PollFlags::IN))
            }
        }
    }

    /// Takes what the socket has; false if nothing came after all.
    fn receive(&mut self) -> bool {
        // What is left is the beginning of a request, for all whole ones were taken before.
        self.input.drain(..self.taken);
        self.taken = 0;
        if self.input.capacity() > INPUT_BYTES_KEPT && self.missing_bytes() < INPUT_BYTES_KEPT {
            self.input.shrink_to(RECEIVE_BYTES);
        }
        let missing = self.missing_bytes();
        self.input.reserve(RECEIVE_BYTES.max(missing));
        let read = rustix::io::read(&self.socket, rustix::buffer::spare_capacity(&mut self.input));
        self.arrived_ns = self.shared.clock.now_ns();
        match read {
            Ok(0) => {
                // The client has closed its side: what it asked for is still answered.
                self.is_closing = true;
                true
            }
            Ok(_) => true,
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => {
                self.is_closing = true;
                self.waiting.clear();
                self.output.clear();
                true
            }
        }
    }

    /// Bytes that the request at hand lacks.
    fn missing_bytes(&self) -> usize {
        let rest = &self.input[self.taken..];
        let Some(request) = front(rest) else { return 0 };
        (nbd::REQUEST_BYTES + request.payload_bytes() as usize).saturating_sub(rest.len())
    }

    /// Does what the bytes that came ask for.
    fn take(&mut self) -> Result<(), End> {
        if let Some(handshake) = &mut self.handshake {
            match handshake.feed(&mut self.input, self.output.tail()) {
                Step::NeedMore => return Ok(()),
                Step::Close(reason) => {
                    self.is_closing = true;
                    return match reason {
                        nbd::Reason::Aborted => Ok(()),
                        reason => Err(End::Broken(reason.to_string())),
                    };
                }
                Step::Begin(session) => {
                    self.session = Some(session);
                    self.handshake = None;
                }
            }
        }
        self.carry_out_all()
    }

    /// Carries out all requests that are whole, under one lock of the core.
    fn carry_out_all(&mut self) -> Result<(), End> {
        let Some(session) = self.session else { return Ok(()) };
        let shared = self.shared;
        let mut core = shared.core();
        // Linux sends the requests of a dead connection again on a new one. Carried out here as well, an old write
        // could follow a newer one.
        if core.cuts() != self.cuts {
            return Err(End::Shut);
        }
        if shared.is_stopping() {
            return Err(End::Shut);
        }
        // Requests that came together are seen together: the device has them all at once.
        let at_ns = if shared.clock.is_real() { self.arrived_ns } else { core.now_ns() };
        let mut done_ns = at_ns;
        let (mut requests, begin) = (0, self.taken);
        self.has_more = false;
        let carried_out = loop {
            let is_enough = requests >= BATCH_REQUESTS || self.taken - begin >= BATCH_BYTES;
            if is_enough || !self.reads() {
                // A client may ask for more than the memory holds before it takes a reply.
                self.has_more = !self.is_closing;
                break Ok(());
            }
            if let Some(long) = self.long.take() {
                match self.go_on(&mut core, &session, at_ns, long) {
                    Ok(due_ns) => done_ns = done_ns.max(due_ns),
                    Err(failure) => break Err(Stop::Failed(failure)),
                }
                // One piece under one lock.
                requests = BATCH_REQUESTS;
                continue;
            }
            requests += 1;
            match self.next_request(&session) {
                Ok(Some((request, place))) => {
                    match self.carry_out(&mut core, &session, at_ns, &request, place) {
                        Ok(due_ns) => done_ns = done_ns.max(due_ns),
                        Err(failure) => break Err(Stop::Failed(failure)),
                    }
                }
                Ok(None) => break Ok(()),
                Err(end) => break Err(Stop::Ended(end)),
            }
        };
        // Without a clock, the replies of a batch leave together: time jumps to the last of them. Also after a mistake
        // of the client, for what was answered before it still leaves.
        let passed = if shared.clock.is_real() { Ok(()) } else { core.pass_time(done_ns) };
        self.passed_ns = core.now_ns();
        // In the log before the client knows: a server that is killed has logged whatever was answered.
        let logged = core.sync_log();
        drop(core);
        let failure = match carried_out {
            Ok(()) => logged.and(passed).err(),
            Err(Stop::Ended(end)) => match logged.and(passed) {
                Ok(()) => return Err(end),
                Err(failure) => Some(failure),
            },
            Err(Stop::Failed(failure)) => Some(match logged {
                Err(unlogged) => unlogged,
                Ok(()) => failure,
            }),
        };
        match failure {
            None => Ok(()),
            Some(Failure::PowerLost) => {
                // Replies that were due before that moment have left.
                let _ = self.send();
                shared.cut_after(self.cuts);
                Err(End::Shut)
            }
            Some(failure) => {
                self.waiting.clear();
                self.output.clear();
                shared.fail(&failure.to_string());
                Err(End::Shut)
            }
        }
    }

    /// Sends replies whose moment has come, as far as the socket takes them.
    fn send(&mut self) -> Result<(), End> {
        let shared = self.shared;
        // Shared: replies of other connections leave meanwhile, and no power cut comes between.
        let gate = shared.gate.read().unwrap_or_else(PoisonError::into_inner);
        if !gate.is_open || gate.cuts != self.cuts {
            return Err(End::Shut);
        }
        let mut is_cut = false;
        if !self.waiting.is_empty() {
            let (limit_ns, has_failed) = match self.limit_ns() {
                Ok(limit) => limit,
                Err(failure) => {
                    // The gate is closed by the failure, so this thread must not hold it.
                    drop(gate);
                    shared.fail(&failure.to_string());
                    return Err(End::Shut);
                }
            };
            is_cut = has_failed;
            while let Some(Reverse(next)) = self.waiting.peek() {
                if next.due_ns > limit_ns {
                    break;
                }
                let Some(Reverse(next)) = self.waiting.pop() else { break };
                self.waiting_bytes -= next.bytes.capacity();
                shared.left(next.due_ns);
                self.output.push(next.bytes);
            }
        }
        let sent = self.output.write(&self.socket).map_err(|_| End::Closed);
        drop(gate);
        if is_cut {
            shared.cut_after(self.cuts);
            return Err(End::Shut);
        }
        sent
    }

    /// Up to which moment replies may leave, and whether the supply has failed by now.
    fn limit_ns(&self) -> Result<(u64, bool), Failure> {
        let shared = self.shared;
        let is_real = shared.clock.is_real();
        // Without a clock all replies of a batch are due.
        if !shared.is_armed() {
            let now_ns = if is_real { shared.clock.now_ns() } else { self.passed_ns };
            return Ok((now_ns, false));
        }
        let mut core = shared.core();
        let now_ns = if is_real { shared.clock.now_ns() } else { core.now_ns() };
        // An operation of the chips in which the supply fails may have begun since the last request.
        match core.pass_time(now_ns) {
            Ok(()) | Err(Failure::PowerLost) => {}
            Err(failure) => return Err(failure),
        }
        let failed_ns = core.failed_ns().filter(|at_ns| *at_ns <= now_ns);
        Ok((failed_ns.unwrap_or(now_ns), failed_ns.is_some()))
    }
}

/// The request at the front of these bytes, if its header is there.
fn front(bytes: &[u8]) -> Option<Request> {
    Request::parse(bytes.first_chunk()?).ok()
}

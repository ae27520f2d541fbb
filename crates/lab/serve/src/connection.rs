//! One client: its handshake, its requests and its replies.
//!
//! A thread serves a connection alone. It waits for bytes, for room in the socket, or for the moment of the next
//! reply, whichever comes first.

use crate::core::{Core, Failure, SECTOR_BYTES, Work};
use crate::outgoing::Outgoing;
use crate::shared::Shared;
use crate::socket::Socket;
use nbd::{
    Checked, ErrorNumber, Extent, Handshake, Request, Session, StatusLimit, Step, extent_flag,
};
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

/// Sectors of a request without payload that are carried out under one lock: 8 MiB. Such a request may ask for 4 GiB.
const SLICE_SECTORS: u32 = 16 << 10;

/// Input that a client may keep when it is idle.
const INPUT_BYTES_KEPT: usize = 4 << 20;

/// What the device could not do, told to the client.
const FAILED: &str = "The device could not carry the request out: look at the server's report.";

/// Zeros are written like data, so there is no faster way.
const NO_FAST_ZERO: &str =
    "Zeros are not faster than data here: send the request without FAST_ZERO.";

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

/// A request without payload that is carried out piece by piece.
#[derive(Clone, Copy)]
struct Long {
    kind: LongKind,
    sector: u64,
    sectors: u32,
    /// When the pieces that are carried out are done.
    due_ns: u64,
    cookie: u64,
}

#[derive(Clone, Copy)]
enum LongKind {
    Fetch,
    Zero { fua: bool },
    Discard,
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

    /// Carries the next piece of a long request out; returns when what was done is done.
    fn go_on(
        &mut self,
        core: &mut Core,
        session: &Session,
        at_ns: u64,
        long: Long,
    ) -> Result<u64, Failure> {
        let (sector, sectors) = (long.sector, long.sectors.min(SLICE_SECTORS));
        let work = match long.kind {
            LongKind::Fetch => Work::Read { sector, sectors },
            LongKind::Zero { fua } => Work::Zero { sector, sectors, fua },
            LongKind::Discard => Work::Discard { sector, sectors },
        };
        let due_ns = match core.submit(at_ns, &work) {
            Ok(due_ns) => due_ns.max(long.due_ns),
            Err(Failure::Device(error)) => {
                return Ok(self.tell(session, long.cookie, at_ns, &error));
            }
            Err(failure) => return Err(failure),
        };
        if sectors < long.sectors {
            self.long = Some(Long {
                sector: sector + u64::from(sectors),
                sectors: long.sectors - sectors,
                due_ns,
                ..long
            });
        } else {
            let mut bytes = Vec::new();
            session.success(&mut bytes, long.cookie);
            self.queue(due_ns, bytes);
        }
        Ok(due_ns)
    }

    /// The next whole request, and where its payload lies in the input.
    fn next_request(
        &mut self,
        session: &Session,
    ) -> Result<Option<(Request, std::ops::Range<usize>)>, End> {
        loop {
            let dropped = self.dropping.min(self.input.len() - self.taken);
            self.dropping -= dropped;
            self.taken += dropped;
            let rest = &self.input[self.taken..];
            let Some(bytes) = rest.first_chunk() else { return Ok(None) };
            let request = Request::parse(bytes).map_err(|error| End::Broken(error.to_string()))?;
            let export = &self.shared.exports[session.export];
            if session.must_close(&request, export) {
                return Err(End::Broken(format!(
                    "a write of {} bytes is longer than is taken",
                    request.payload_bytes()
                )));
            }
            let payload = request.payload_bytes() as usize;
            if payload > export.maximum_payload_bytes as usize {
                // It is refused whatever it holds, so it need not be kept.
                self.taken += nbd::REQUEST_BYTES;
                self.dropping = payload;
                self.answer_check(session, &request);
                continue;
            }
            let whole = nbd::REQUEST_BYTES + payload;
            if rest.len() < whole {
                return Ok(None);
            }
            let begin = self.taken + nbd::REQUEST_BYTES;
            self.taken += whole;
            return Ok(Some((request, begin..begin + payload)));
        }
    }

    /// The refusal of a request that cannot be carried out.
    fn answer_check(&mut self, session: &Session, request: &Request) {
        let export = &self.shared.exports[session.export];
        if let Err(refusal) = session.check_with_reason(request, export) {
            session.failure(self.output.tail(), refusal.error, request.cookie, refusal.reason);
        }
    }

    /// Carries a request out that came at `at_ns`; returns when its reply is due.
    fn carry_out(
        &mut self,
        core: &mut Core,
        session: &Session,
        at_ns: u64,
        request: &Request,
        payload: std::ops::Range<usize>,
    ) -> Result<u64, Failure> {
        let cookie = request.cookie;
        let export = &self.shared.exports[session.export];
        let checked = match session.check_with_reason(request, export) {
            Ok(checked) => checked,
            Err(refusal) => {
                session.failure(self.output.tail(), refusal.error, cookie, refusal.reason);
                return Ok(at_ns);
            }
        };
        let sector = request.offset / SECTOR_BYTES;
        let sectors = (u64::from(request.length) / SECTOR_BYTES) as u32;
        let work = match checked {
            Checked::Disconnect => {
                self.is_closing = true;
                return Ok(at_ns);
            }
            Checked::BlockStatus { offset, length, only_one, context } => {
                let limit = StatusLimit::new(export, offset, length, only_one);
                let extents = Extents { core, sector, end: sector + u64::from(sectors) };
                nbd::block_status(self.output.tail(), cookie, context, &limit, extents);
                return Ok(at_ns);
            }
            Checked::WriteZeroes { only_if_fast: true, .. } => {
                session.failure(
                    self.output.tail(),
                    ErrorNumber::NotSupported,
                    cookie,
                    NO_FAST_ZERO,
                );
                return Ok(at_ns);
            }
            Checked::Read { .. } => Work::Read { sector, sectors },
            Checked::Write { force_unit_access: fua, .. } => {
                Work::Write { sector, bytes: &self.input[payload], fua }
            }
            Checked::Flush => Work::Flush,
            Checked::WriteZeroes { .. } | Checked::Trim { .. } | Checked::Cache { .. } => {
                let kind = match checked {
                    Checked::WriteZeroes { force_unit_access: fua, .. } => LongKind::Zero { fua },
                    Checked::Trim { .. } => LongKind::Discard,
                    // What a client wants in its cache costs the device a read.
                    _ => LongKind::Fetch,
                };
                self.long = Some(Long { kind, sector, sectors, due_ns: at_ns, cookie });
                return Ok(at_ns);
            }
        };
        let due_ns = match core.submit(at_ns, &work) {
            Ok(due_ns) => due_ns,
            Err(Failure::Device(error)) => return Ok(self.tell(session, cookie, at_ns, &error)),
            Err(failure) => return Err(failure),
        };
        let mut bytes = self.output.spare(match checked {
            Checked::Read { length, .. } => length as usize,
            _ => 0,
        });
        if let Checked::Read { offset, length, .. } = checked {
            session.read_header(&mut bytes, cookie, offset, length);
            let header = bytes.len();
            bytes.resize(header + length as usize, 0);
            match core.read_bytes(sector, &mut bytes[header..]) {
                Ok(()) => {}
                Err(Failure::Device(error)) => {
                    return Ok(self.tell(session, cookie, due_ns, &error));
                }
                Err(failure) => return Err(failure),
            }
        } else {
            session.success(&mut bytes, cookie);
        }
        self.queue(due_ns, bytes);
        Ok(due_ns)
    }

    /// An error of the device becomes the reply.
    fn tell(
        &mut self,
        session: &Session,
        cookie: u64,
        due_ns: u64,
        error: &device::DeviceError,
    ) -> u64 {
        let mut bytes = Vec::new();
        let text = format!("{error}. {FAILED}");
        session.failure(&mut bytes, ErrorNumber::InputOutput, cookie, &text);
        self.queue(due_ns, bytes);
        due_ns
    }

    fn queue(&mut self, due_ns: u64, bytes: Vec<u8>) {
        self.replies += 1;
        self.waiting_bytes += bytes.capacity();
        self.waiting.push(Reverse(Waiting { due_ns, number: self.replies, bytes }));
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

/// Which pages of a range may hold something else than zeros.
struct Extents<'core> {
    core: &'core mut Core,
    sector: u64,
    end: u64,
}

impl Iterator for Extents<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        if self.sector >= self.end {
            return None;
        }
        let (is_allocated, sectors) = self.core.allocation(self.sector);
        let sectors = sectors.min(self.end - self.sector);
        self.sector += sectors;
        let flags = if is_allocated { 0 } else { extent_flag::HOLE | extent_flag::ZERO };
        Some(Extent { length: sectors * SECTOR_BYTES, flags })
    }
}

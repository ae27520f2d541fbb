//! What becomes of each request of a client: it is checked, carried out, and its reply waits for its moment.

use super::{Connection, End, Waiting};
use crate::core::Core;
use crate::work::{Failure, SECTOR_BYTES, Work};
use nbd::{Checked, ErrorNumber, Extent, Request, Session, StatusLimit, extent_flag};
use std::cmp::Reverse;

/// Sectors of a request without payload that are carried out under one lock: 8 MiB. Such a request may ask for 4 GiB.
const SLICE_SECTORS: u32 = 16 << 10;

/// What the device could not do, told to the client.
const FAILED: &str = "The device could not carry the request out: look at the server's report.";

/// Zeros are written like data, so there is no faster way.
const NO_FAST_ZERO: &str =
    "Zeros are not faster than data here: send the request without FAST_ZERO.";

/// A request without payload that is carried out piece by piece.
#[derive(Clone, Copy)]
pub(super) struct Long {
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

impl Connection<'_> {
    /// Carries the next piece of a long request out; returns when what was done is done.
    pub(super) fn go_on(
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
    pub(super) fn next_request(
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
    pub(super) fn carry_out(
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

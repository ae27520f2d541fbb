//! Requests of a trace on a device: records in order, addresses within the device.

use crate::player::ReplayError;
use device::SECTOR_BYTES;
use trace::{AddressRule, Operation, Reader, Record};

/// A request of the trace, in sectors of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) arrival_ns: u64,
    pub(crate) operation: Operation,
    pub(crate) is_sync: bool,
    /// It shall be durable when it completes (FUA).
    pub(crate) is_fua: bool,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
}

/// What was read from the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read {
    /// Records of the trace.
    pub(crate) records: u64,
    /// Requests that were left out or shortened, since they lie past the end.
    pub(crate) clipped: u64,
    /// Requests of the trace that wrap around the end and became two.
    pub(crate) wrapped: u64,
    /// Requests whose range was widened to whole sectors.
    pub(crate) widened: u64,
    /// Whether any request says if a task waits for it.
    pub(crate) has_sync_flags: bool,
}

/// A trace that is being read, a batch at a time.
pub(crate) struct Source {
    reader: Reader,
    batch: Vec<Record>,
    next: usize,
    sectors: u64,
    address: AddressRule,
    /// What is left of a request that wraps around the end.
    rest: Option<Request>,
    pub(crate) read: Read,
}

impl Source {
    pub(crate) fn new(reader: Reader, sectors: u64, address: AddressRule) -> Self {
        let (batch, next, rest) = (Vec::new(), 0, None);
        Self { reader, batch, next, sectors, address, rest, read: Read::default() }
    }

    /// Format and notes of the trace.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The next request; none at the end of the trace.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, ReplayError> {
        loop {
            if let Some(rest) = self.rest.take() {
                return Ok(Some(rest));
            }
            // One batch at a time is in memory, however long the trace is.
            if self.next == self.batch.len() {
                self.next = 0;
                if !self.reader.next_batch(&mut self.batch)? {
                    return Ok(None);
                }
            }
            let record = self.batch[self.next];
            self.next += 1;
            self.read.records += 1;
            if let Some(request) = self.place(&record)? {
                return Ok(Some(request));
            }
        }
    }

    /// The request of a record; none if all of it lies past the end and is left out.
    fn place(&mut self, record: &Record) -> Result<Option<Request>, ReplayError> {
        let end_bytes = record.offset_bytes.saturating_add(u64::from(record.length_bytes));
        let sector = record.offset_bytes / SECTOR_BYTES;
        let end = end_bytes.div_ceil(SECTOR_BYTES);
        let is_whole = record.offset_bytes.is_multiple_of(SECTOR_BYTES)
            && end_bytes.is_multiple_of(SECTOR_BYTES);
        // A device takes whole sectors; traces of files may address bytes.
        self.read.widened += u64::from(!is_whole);
        let is_marked = record.flags.contains(trace::Flags::SYNC);
        self.read.has_sync_flags |= is_marked;
        let request = Request {
            arrival_ns: record.arrival_ns,
            operation: record.operation,
            is_sync: is_marked,
            is_fua: record.flags.contains(trace::Flags::FUA),
            sector,
            sectors: (end - sector) as u32,
        };
        // A flush has no address, whatever stands in its fields.
        if record.operation == Operation::Flush || end <= self.sectors {
            return Ok(Some(request));
        }
        match self.address {
            AddressRule::Error => Err(ReplayError::PastTheEnd {
                number: self.read.records,
                offset_bytes: record.offset_bytes,
                length_bytes: record.length_bytes,
                device_bytes: self.sectors * SECTOR_BYTES,
            }),
            AddressRule::Clip => {
                self.read.clipped += 1;
                let sectors = self.sectors.saturating_sub(sector) as u32;
                Ok((sectors > 0).then_some(Request { sectors, ..request }))
            }
            AddressRule::Modulo => {
                let sector = sector % self.sectors;
                // A request as long as the device is as much as can be addressed.
                let sectors = u64::from(request.sectors).min(self.sectors);
                let here = sectors.min(self.sectors - sector);
                if here < sectors {
                    self.read.wrapped += 1;
                    let sectors = (sectors - here) as u32;
                    self.rest = Some(Request { sector: 0, sectors, ..request });
                }
                Ok(Some(Request { sector, sectors: here as u32, ..request }))
            }
        }
    }
}

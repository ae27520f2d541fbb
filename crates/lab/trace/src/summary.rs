//! What a trace amounts to: counts, bytes, the space it writes, and a digest of its records.

use std::collections::BTreeMap;

use crate::error::TraceError;
use crate::notes::Notes;
use crate::number::SECTOR_BYTES;
use crate::reader::Reader;
use crate::record::{Operation, Record};

/// Runs collected before they are merged; afterwards as many as there are merged ones.
const UNMERGED_RUNS_MIN: usize = 4096;

/// What a trace amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Name of the format it was read from.
    pub format: &'static str,
    /// Records of every kind.
    pub records: u64,
    /// Reads among the records.
    pub reads: u64,
    /// Writes with data among the records.
    pub writes: u64,
    /// Trims among the records.
    pub trims: u64,
    /// Flushes among the records.
    pub flushes: u64,
    /// Records of writes of zeroes.
    pub write_zeroes: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Bytes of all trims.
    pub trimmed_bytes: u64,
    /// 512-byte sectors written at least once, devices kept apart; writes of zeroes not counted.
    pub distinct_sectors_written: u64,
    /// First byte behind the highest range: a device this large holds the trace.
    pub end_bytes: u64,
    /// Arrival of the last record.
    pub last_arrival_ns: u64,
    /// Requests by length, the smallest class first; empty classes are left out.
    pub request_sizes: Vec<SizeClass>,
    /// BLAKE3 digest of the records, in hexadecimal; the same for every file that holds them.
    pub digest: String,
    /// What the reader left out or changed.
    pub notes: Notes,
}

/// Requests of similar length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// Upper bound of the length, a power of two; the class below ends at half of it.
    pub up_to_bytes: u64,
    /// Requests of that length.
    pub requests: u64,
}

/// Reads the rest of a trace and sums it up.
///
/// # Errors
/// As [`Reader::next_batch`].
pub fn summarise(reader: &mut Reader) -> Result<Summary, TraceError> {
    let (mut tally, mut batch) = (Tally::default(), Vec::new());
    while reader.next_batch(&mut batch)? {
        tally.add(&batch);
    }
    Ok(tally.finish(reader))
}

/// A summary in the making.
#[derive(Default)]
pub(crate) struct Tally {
    requests: [u64; Operation::ALL.len()],
    bytes: [u64; Operation::ALL.len()],
    written: BTreeMap<u32, Runs>,
    end_bytes: u64,
    last_arrival_ns: u64,
    /// Requests by the exponent of their class.
    sizes: BTreeMap<u32, u64>,
    digest: blake3::Hasher,
    encoded: Vec<u8>,
}

impl Tally {
    pub(crate) fn add(&mut self, records: &[Record]) {
        self.encoded.clear();
        for record in records {
            self.add_record(record);
            encode(record, &mut self.encoded);
        }
        self.digest.update(&self.encoded);
    }

    fn add_record(&mut self, record: &Record) {
        let (index, length) = (record.operation as usize, u64::from(record.length_bytes));
        let end = record.offset_bytes.saturating_add(length);
        self.requests[index] += 1;
        self.bytes[index] = self.bytes[index].saturating_add(length);
        self.end_bytes = self.end_bytes.max(end);
        self.last_arrival_ns = self.last_arrival_ns.max(record.arrival_ns);
        if length > 0 {
            *self.sizes.entry(length.next_power_of_two().trailing_zeros()).or_default() += 1;
        }
        if record.operation == Operation::Write {
            let run = (record.offset_bytes / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES));
            self.written.entry(record.device).or_default().add(run);
        }
    }

    pub(crate) fn finish(mut self, reader: &Reader) -> Summary {
        debug_assert!(
            self.sizes.values().sum::<u64>() <= self.requests.iter().sum::<u64>(),
            "a request is in one size class at most"
        );
        let requests = |operation: Operation| self.requests[operation as usize];
        let bytes = |operation: Operation| self.bytes[operation as usize];
        Summary {
            format: reader.format().name,
            records: self.requests.iter().sum(),
            reads: requests(Operation::Read),
            writes: requests(Operation::Write),
            trims: requests(Operation::Trim),
            flushes: requests(Operation::Flush),
            write_zeroes: requests(Operation::WriteZeroes),
            read_bytes: bytes(Operation::Read),
            written_bytes: bytes(Operation::Write),
            trimmed_bytes: bytes(Operation::Trim),
            distinct_sectors_written: self.written.values_mut().map(Runs::covered).sum(),
            end_bytes: self.end_bytes,
            last_arrival_ns: self.last_arrival_ns,
            request_sizes: self
                .sizes
                .iter()
                .map(|(exponent, requests)| SizeClass {
                    up_to_bytes: 1 << exponent,
                    requests: *requests,
                })
                .collect(),
            digest: self.digest.finalize().to_hex().to_string(),
            notes: reader.notes().clone(),
        }
    }
}

/// The digest takes every field in the order of the Parquet columns, little-endian: arrival (8
/// bytes), operation (1), device (4), offset (8), length (4), flags (1), then latency (8) and file
/// operation (4), each behind a byte that is 1 if there is one and 0, with zeroes, if not.
fn encode(record: &Record, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&record.arrival_ns.to_le_bytes());
    bytes.push(record.operation as u8);
    bytes.extend_from_slice(&record.device.to_le_bytes());
    bytes.extend_from_slice(&record.offset_bytes.to_le_bytes());
    bytes.extend_from_slice(&record.length_bytes.to_le_bytes());
    bytes.push(record.flags.bits());
    bytes.push(u8::from(record.latency_ns.is_some()));
    bytes.extend_from_slice(&record.latency_ns.unwrap_or(0).to_le_bytes());
    bytes.push(u8::from(record.file_operation.is_some()));
    bytes.extend_from_slice(&record.file_operation.unwrap_or(0).to_le_bytes());
}

/// A set of sectors as runs `(first, behind the last)`.
///
/// New runs are collected and merged when they are as many as the merged ones, so the memory is
/// that of the distinct runs, not of the requests.
#[derive(Default)]
struct Runs {
    merged: Vec<(u64, u64)>,
    unmerged: Vec<(u64, u64)>,
}

impl Runs {
    fn add(&mut self, run: (u64, u64)) {
        debug_assert!(run.0 <= run.1, "a run ends behind its first sector");
        match self.unmerged.last_mut() {
            // Sequential requests are one run from the start.
            Some(last) if last.1 == run.0 => last.1 = run.1,
            _ => self.unmerged.push(run),
        }
        if self.unmerged.len() >= self.merged.len().max(UNMERGED_RUNS_MIN) {
            self.merge();
        }
    }

    fn merge(&mut self) {
        self.merged.append(&mut self.unmerged);
        self.merged.sort_unstable();
        self.merged.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1;
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
        debug_assert!(
            self.merged.windows(2).all(|pair| pair[0].1 < pair[1].0),
            "merged runs lie apart and in order"
        );
    }

    /// Number of sectors in the set.
    fn covered(&mut self) -> u64 {
        self.merge();
        self.merged.iter().map(|(first, end)| end - first).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_count_each_sector_once() {
        let mut runs = Runs::default();
        for run in [(10, 20), (15, 25), (30, 31), (25, 28), (0, 1), (10, 11)] {
            runs.add(run);
        }
        assert_eq!(runs.covered(), 18 + 1 + 1);
        assert_eq!(runs.merged, [(0, 1), (10, 28), (30, 31)]);
    }

    #[test]
    #[should_panic(expected = "a run ends behind its first sector")]
    fn a_run_that_ends_before_it_begins_is_seen() {
        Runs::default().add((11, 10));
    }

    #[test]
    fn runs_agree_with_a_bitmap() {
        let (mut runs, mut bitmap, mut state) = (Runs::default(), vec![false; 1 << 14], 1_u64);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let first = (state >> 40) % ((1 << 14) - 16);
            let end = first + (state >> 20) % 3;
            runs.add((first, end));
            (first..end).for_each(|sector| bitmap[sector as usize] = true);
        }
        assert_eq!(runs.covered(), bitmap.iter().filter(|written| **written).count() as u64);
    }
}

//! The loop shared by binary formats whose records are all of one length.

use std::io::Read;

use crate::contract::{BATCH_RECORDS, Source};
use crate::error::{Fault, Kind, Place};
use crate::input::Bytes;
use crate::lines::check_range;
use crate::notes::Notes;
use crate::record::Record;

/// The meaning of a record of `N` bytes; none if it is left out.
pub(crate) type Parse<const N: usize> = fn(&[u8; N], &mut Notes) -> Result<Option<Record>, Fault>;

/// A trace of records of `N` bytes.
pub(crate) struct FixedRecords<const N: usize> {
    input: Bytes,
    parse: Parse<N>,
    at: u64,
}

impl<const N: usize> FixedRecords<N> {
    pub(crate) fn new(input: Bytes, parse: Parse<N>) -> Self {
        Self { input, parse, at: 0 }
    }

    /// The next record's bytes; none at the end of the file.
    fn next(&mut self) -> Result<Option<[u8; N]>, Fault> {
        let mut bytes = [0; N];
        let mut filled = 0;
        // A pipe may give a record in pieces.
        while filled < N {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => {
                    let what = format!("the file ends after {filled} of a record's {N} bytes");
                    return Err(Fault::new(Kind::Truncated, what).at(Place::Byte(self.at)));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::io(&error).at(Place::Byte(self.at))),
            }
        }
        Ok(Some(bytes))
    }
}

impl<const N: usize> Source for FixedRecords<N> {
    fn fill(&mut self, records: &mut Vec<Record>, notes: &mut Notes) -> Result<bool, Fault> {
        while records.len() < BATCH_RECORDS {
            let Some(bytes) = self.next()? else { return Ok(false) };
            let parsed = (self.parse)(&bytes, notes)
                .and_then(|record| record.as_ref().map_or(Ok(()), check_range).map(|()| record));
            records.extend(parsed.map_err(|fault| fault.at(Place::Byte(self.at)))?);
            self.at += N as u64;
        }
        Ok(true)
    }
}

/// The little-endian number of `N` bytes that stands at `at`.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

//! The result of a cell as bytes: what leaves the process that carried it out.
//!
//! A version byte, then the measurements in postcard's form, then a checksum over key and all before it.
//! The key is part of the checksum, so a result under another cell's key is as wrong as a damaged one.

use crate::metric::{Metric, Number, TestRow};
use crate::pooled::Samples;
use crate::workload::contract::Measured;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// First byte of a result; another form has another one.
const VERSION: u8 = 1;

/// Bytes of the checksum: a BLAKE3, cut off.
const CHECKSUM_BYTES: usize = 16;

/// Different words that are kept for ever, at most. The engine has some hundreds of units and tests.
const WORDS_MAX: usize = 10_000;

/// The stored result of a cell is damaged, of another version, or of another cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stored result of a cell is damaged; the cell has to be run again")]
pub struct DamagedCell;

/// Postcard writes no type, so it cannot read a [`Number`] as JSON has it.
#[derive(Serialize, Deserialize)]
enum StoredNumber {
    Count(u64),
    Real(f64),
}

/// A metric with a unit that can be read back.
#[derive(Serialize, Deserialize)]
struct StoredMetric(String, StoredNumber, String);

/// A test of a run: its name, its metrics, a note.
#[derive(Serialize, Deserialize)]
struct StoredTest(String, Vec<StoredMetric>, Option<String>);

/// [`Measured`], with words instead of references to them.
#[derive(Serialize, Deserialize)]
struct Stored {
    metrics: Vec<StoredMetric>,
    derived: Vec<StoredMetric>,
    curve: Option<Vec<[u64; 5]>>,
    tests: Vec<StoredTest>,
    samples: Option<Samples>,
}

/// The result of the cell with that key.
pub(crate) fn encode(measured: &Measured, key: &str) -> Vec<u8> {
    let stored = Stored {
        metrics: measured.metrics.iter().map(to_store).collect(),
        derived: measured.derived.iter().map(to_store).collect(),
        curve: measured.curve.clone(),
        tests: measured
            .tests
            .iter()
            .map(|row| {
                let metrics = row.metrics.iter().map(to_store).collect();
                StoredTest(row.test.to_owned(), metrics, row.note.clone())
            })
            .collect(),
        samples: measured.samples.as_deref().cloned(),
    };
    let mut bytes = vec![VERSION];
    // Numbers, words and lists of them: postcard writes them all, and memory has no end it could meet.
    bytes.extend(postcard::to_stdvec(&stored).expect("postcard writes all types of a result"));
    bytes.extend(checksum(&bytes, key));
    bytes
}

/// What the cell with that key measured.
///
/// # Errors
/// [`DamagedCell`] for any other bytes than those of [`encode`] with the same key.
pub(crate) fn decode(bytes: &[u8], key: &str) -> Result<Measured, DamagedCell> {
    let end = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(DamagedCell)?;
    let (content, sum) = bytes.split_at(end);
    let (version, body) = content.split_first().ok_or(DamagedCell)?;
    if *version != VERSION || sum != checksum(content, key) {
        return Err(DamagedCell);
    }
    // Only after the checksum: postcard believes lengths, and a damaged one would ask for any
    // amount of memory.
    let stored: Stored = postcard::from_bytes(body).map_err(|_| DamagedCell)?;
    let metrics = |stored: Vec<StoredMetric>| -> Result<Vec<Metric>, DamagedCell> {
        stored.into_iter().map(from_store).collect()
    };
    let test = |StoredTest(test, rows, note): StoredTest| {
        Ok(TestRow { test: word(&test)?, metrics: metrics(rows)?, note })
    };
    Ok(Measured {
        metrics: metrics(stored.metrics)?,
        derived: metrics(stored.derived)?,
        curve: stored.curve,
        tests: stored.tests.into_iter().map(test).collect::<Result<_, _>>()?,
        samples: stored.samples.map(Box::new),
    })
}

fn to_store(metric: &Metric) -> StoredMetric {
    let value = match metric.value {
        Number::Count(count) => StoredNumber::Count(count),
        Number::Real(real) => StoredNumber::Real(real),
    };
    StoredMetric(metric.name.clone(), value, metric.unit.to_owned())
}

fn from_store(StoredMetric(name, value, unit): StoredMetric) -> Result<Metric, DamagedCell> {
    let value = match value {
        StoredNumber::Count(count) => Number::Count(count),
        StoredNumber::Real(real) => Number::Real(real),
    };
    Ok(Metric { name, value, unit: word(&unit)? })
}

fn checksum(content: &[u8], key: &str) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    // Keys of cells have one length, so that key and content cannot be parted in two ways.
    hasher.update(key.as_bytes()).update(content);
    let mut sum = [0; CHECKSUM_BYTES];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

/// The one copy of a word of the engine; there are few, and none is ever given up.
fn word(text: &str) -> Result<&'static str, DamagedCell> {
    static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(text) {
        return Ok(known);
    }
    // Somebody who computes checksums could fill the memory else.
    if words.len() == WORDS_MAX {
        return Err(DamagedCell);
    }
    let kept: &'static str = Box::leak(text.into());
    words.insert(kept);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::{DamagedCell, VERSION, decode, encode};
    use crate::metric::{Metric, TestRow};
    use crate::pooled::Samples;
    use crate::workload::contract::Measured;
    use ::jobs::{Latencies, Place, Sample};
    use device::{Activity, ActivityKind};

    fn measured() -> Measured {
        let mut latencies = Latencies::default();
        for latency_ns in [0, 17, 1_000_003] {
            latencies.record(latency_ns);
        }
        let place = Place { offset_bytes: 4096, bytes: 512 };
        let sample = Sample { start_ns: 5, latency_ns: 7, place, is_read: true };
        let kind = ActivityKind::BackgroundCleaning;
        Measured {
            metrics: vec![Metric::count("a_bytes", u64::MAX, "bytes")],
            derived: vec![Metric::number("b", f64::NAN, "ratio"), Metric::number("c", -0.0, "")],
            curve: Some(vec![[1, 2, 3, 4, u64::MAX]]),
            tests: vec![TestRow { note: Some("few".into()), ..TestRow::new("write", Vec::new()) }],
            samples: Some(Box::new(Samples {
                latencies: [latencies.pack(), Latencies::default().pack()],
                requests: vec![(5, 3, sample)],
                activity: vec![Activity { die: 1, start_ns: 2, end_ns: 3, kind }],
                processes: vec![(1, 0, 9, None, 32), (2, 0, 9, Some(4), 1)],
            })),
        }
    }

    #[test]
    fn a_result_is_read_back_whole() {
        let bytes = encode(&measured(), "key");
        let found = decode(&bytes, "key").expect("its own bytes");
        // The debug form shows every part, and tells numbers that are none from each other.
        assert_eq!(format!("{found:?}"), format!("{:?}", measured()));
        let other = Measured { curve: None, ..measured() };
        assert_ne!(
            format!("{other:?}"),
            format!("{:?}", measured()),
            "a part that is missing shows"
        );
        assert_eq!(encode(&found, "key"), bytes);
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let bytes = encode(&measured(), "key");
        assert_eq!(bytes[0], VERSION);
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert_eq!(decode(&damaged, "key").err(), Some(DamagedCell), "byte {place}");
            assert_eq!(decode(&bytes[..place], "key").err(), Some(DamagedCell), "{place} bytes");
        }
        assert_eq!(decode(&bytes, "other").err(), Some(DamagedCell), "the result of another cell");
        assert!(decode(&bytes, "key").is_ok());
    }
}

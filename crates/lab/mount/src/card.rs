//! A block device with a translation layer of its own, as a power cut meets it: what was written to it, in order,
//! and what it had made durable.
//!
//! The layer itself keeps what it has acknowledged as durable, whatever chip operation is torn
//! (`ftl`, `tests/all/power_storm.rs`). So what a cut can leave is told by the host's side alone: each write that
//! no flush has covered may be there or not. eMMC (JESD84-B51, `FLUSH_CACHE`) and ATA (ACS-3) promise no order among
//! them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use units::{SECTOR_BYTES, SECTOR_BYTES_U64};

/// A change of a card, or of what it keeps over a power cut.
#[derive(Clone, Debug)]
pub enum CardOperation {
    /// A write was submitted.
    Write {
        /// First sector.
        sector: u64,
        /// Bytes of whole sectors.
        bytes: Arc<[u8]>,
    },
    /// These writes are durable from here on, by their numbers among the operations: a flush came to its end, or
    /// one write of a device without a cache.
    Durable {
        /// Writes, in the order in which they were submitted.
        writes: Arc<[usize]>,
    },
}

impl fmt::Display for CardOperation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { sector, bytes } => {
                let last = sector + bytes.len() as u64 / SECTOR_BYTES_U64 - 1;
                write!(out, "write of sectors {sector} to {last}")
            }
            Self::Durable { writes } => write!(out, "end of a flush of {} writes", writes.len()),
        }
    }
}

/// What the sectors of a card hold; those never written are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardContents {
    sectors: BTreeMap<u64, Arc<[u8]>>,
}

impl CardContents {
    /// Takes bytes of whole sectors over.
    pub fn put(&mut self, sector: u64, bytes: &[u8]) {
        assert!(bytes.len().is_multiple_of(SECTOR_BYTES), "{} bytes", bytes.len());
        for (sector, bytes) in (sector..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            // Most sectors of a fresh card are zero, and take no room.
            if bytes.iter().all(|byte| *byte == 0) {
                self.sectors.remove(&sector);
            } else {
                self.sectors.insert(sector, bytes.into());
            }
        }
    }

    /// Sectors that are not zero, in order.
    pub fn sectors(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.sectors.iter().map(|(sector, bytes)| (*sector, &bytes[..]))
    }
}

/// Where a machine's card comes from, and what is done to it.
#[derive(Debug, Default)]
pub struct CardSlot {
    /// What the card holds when it is opened.
    contents: RefCell<CardContents>,
    /// Bytes of the partition that is used; all if none.
    partition_bytes: Cell<Option<u64>>,
    /// What was done since the journal was begun; none without one.
    journal: RefCell<Option<Vec<CardOperation>>>,
    /// Writes that are done and not durable yet.
    done: RefCell<Vec<usize>>,
    /// Journals that were begun: a write that ends after its journal did is nobody's.
    journals: Cell<u64>,
}

/// A write in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotedWrite {
    number: usize,
    journal: u64,
}

impl CardSlot {
    /// The card that is opened next holds this, and is used up to so many bytes.
    pub fn insert(&self, contents: CardContents, partition_bytes: u64) {
        *self.contents.borrow_mut() = contents;
        self.partition_bytes.set(Some(partition_bytes));
    }

    /// Notes what is done from now on.
    pub fn start_journal(&self) {
        *self.journal.borrow_mut() = Some(Vec::new());
        // Numbers of writes begin at zero with each journal.
        self.done.borrow_mut().clear();
        self.journals.set(self.journals.get() + 1);
    }

    /// What was done since the journal was begun, which ends.
    pub fn take_journal(&self) -> Vec<CardOperation> {
        self.journal.borrow_mut().take().unwrap_or_default()
    }

    /// Operations in the journal.
    pub fn journaled(&self) -> u64 {
        self.journal.borrow().as_ref().map_or(0, Vec::len) as u64
    }

    pub(crate) fn contents(&self) -> CardContents {
        self.contents.borrow().clone()
    }

    pub(crate) fn limited(&self, device_bytes: u64) -> u64 {
        self.partition_bytes.get().map_or(device_bytes, |bytes| bytes.min(device_bytes))
    }

    /// A write is submitted; its number, if anybody notes it.
    pub(crate) fn write(&self, sector: u64, bytes: &[u8]) -> Option<NotedWrite> {
        let mut journal = self.journal.borrow_mut();
        let journal = journal.as_mut()?;
        journal.push(CardOperation::Write { sector, bytes: bytes.into() });
        Some(NotedWrite { number: journal.len() - 1, journal: self.journals.get() })
    }

    /// A write is done: durable where there is no cache, else waiting for a flush.
    pub(crate) fn done(&self, write: Option<NotedWrite>, has_cache: bool) {
        let Some(write) = write.filter(|write| write.journal == self.journals.get()) else {
            return;
        };
        self.done.borrow_mut().push(write.number);
        // Without a cache, done is done: `cache.bytes` of 0 is a write through to the medium.
        if !has_cache {
            self.flushed(&[write.number]);
        }
    }

    /// Writes that a flush which begins now covers.
    pub(crate) fn covered(&self) -> Vec<usize> {
        self.done.borrow().clone()
    }

    /// The flush came to its end.
    pub(crate) fn flushed(&self, covered: &[usize]) {
        // Those that ended while the flush was under way wait for the next one.
        self.done.borrow_mut().retain(|write| !covered.contains(write));
        if let Some(journal) = self.journal.borrow_mut().as_mut() {
            let mut writes = covered.to_vec();
            // Writes end in any order, and the last one that was submitted counts.
            writes.sort_unstable();
            journal.push(CardOperation::Durable { writes: writes.into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CardContents, CardOperation, CardSlot};

    fn durable(slot: &CardSlot) -> Vec<Vec<usize>> {
        let journal = slot.take_journal();
        let writes = journal.iter().filter_map(|operation| match operation {
            CardOperation::Durable { writes } => Some(writes.to_vec()),
            CardOperation::Write { .. } => None,
        });
        writes.collect()
    }

    #[test]
    fn a_flush_covers_the_writes_that_were_done_when_it_began() {
        let slot = CardSlot::default();
        assert_eq!(slot.write(1, &[1; 512]), None, "nobody notes it");
        slot.start_journal();
        let writes = [8, 16, 24].map(|sector| slot.write(sector, &[1; 1024]));
        let numbers = writes.map(|write| write.map(|write| write.number));
        assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
        slot.done(writes[1], true);
        slot.done(writes[0], true);
        let covered = slot.covered();
        slot.done(writes[2], true);
        slot.flushed(&covered);
        assert_eq!(slot.covered(), [2]);
        slot.flushed(&slot.covered());
        assert_eq!(slot.journaled(), 5);
        assert_eq!(durable(&slot), [vec![0, 1], vec![2]]);
        slot.start_journal();
        let alone = slot.write(0, &[0; 512]);
        slot.done(writes[0], true);
        slot.done(alone, false);
        assert_eq!(durable(&slot), [vec![0]], "a write of the journal before is nobody's");
    }

    #[test]
    fn sectors_that_were_never_written_are_zero_as_those_that_were_written_so() {
        let mut contents = CardContents::default();
        contents.put(3, &[7; 1024]);
        contents.put(3, &[0; 512]);
        let held: Vec<(u64, u8)> = contents.sectors().map(|(at, bytes)| (at, bytes[0])).collect();
        assert_eq!(held, [(4, 7)]);
    }
}

//! What an application was promised, and what of it is there after a power cut.

use crate::metric::Metric;
use fs_api::{Caller, Errno};
use mount::{Machine, Mounted, SharedMount};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use vfs::{OpenFile, OpenOptions, Vfs};

/// Bytes of a record of the log, and of a small file.
const RECORD_BYTES: u64 = 4096;
/// Records of the log between two calls of fsync.
const LOG_RECORDS_PER_SYNC: u64 = 64;
/// Small files, of which one is synced.
const FILES_PER_SYNC: u64 = 8;
/// Files of a directory.
const FILES_PER_DIRECTORY: u64 = 1000;
const LOG: &[u8] = b"log";
/// Stream of what is written.
const CONTENTS: &str = "contents of bursts";

/// What an application was promised by calls.
#[derive(Default)]
pub(super) struct Ledger {
    /// Bytes of the log that `write` and `fsync` answered for.
    log_bytes: u64,
    log_synced_bytes: u64,
    /// Small files that were written and closed, in order; true for those that were synced.
    files: Vec<bool>,
}

/// Bytes that were promised and are not there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Only `write` had answered for them.
    lost_unsynced_bytes: u64,
    /// `fsync` had answered for them.
    lost_synced_bytes: u64,
    /// Bytes that read as zeros: the file has its size, but they were not written yet.
    zero_bytes: u64,
    /// Bytes that are there and are neither those that were written nor zeros.
    wrong_bytes: u64,
    /// Small files that are not there, are empty, read as zeros, and hold wrong bytes.
    missing_files: u64,
    empty_files: u64,
    zero_files: u64,
    wrong_files: u64,
}

impl Found {
    pub(super) fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::count("lost_unsynced_bytes", self.lost_unsynced_bytes, "bytes"),
            Metric::count("lost_synced_bytes", self.lost_synced_bytes, "bytes"),
            Metric::count("zero_bytes", self.zero_bytes, "bytes"),
            Metric::count("wrong_bytes", self.wrong_bytes, "bytes"),
            Metric::count("missing_files", self.missing_files, "files"),
            Metric::count("empty_files", self.empty_files, "files"),
            Metric::count("zero_files", self.zero_files, "files"),
            Metric::count("wrong_files", self.wrong_files, "files"),
        ]
    }

    /// Adds one file: bytes promised, synced, and what is there.
    fn add(&mut self, promised: u64, synced: u64, there: &Content) {
        debug_assert!(synced <= promised, "a call of fsync follows one of write");
        debug_assert!(there.right + there.zero + there.wrong <= there.length);
        self.lost_synced_bytes += synced.saturating_sub(there.right);
        // Bytes that `fsync` had answered for count above alone.
        self.lost_unsynced_bytes += promised.saturating_sub(there.right.max(synced));
        self.zero_bytes += there.zero;
        self.wrong_bytes += there.wrong;
    }
}

impl Ledger {
    pub(super) fn acknowledged_bytes(&self) -> u64 {
        self.log_bytes + self.files.len() as u64 * RECORD_BYTES
    }

    pub(super) fn synced_bytes(&self) -> u64 {
        let files = self.files.iter().filter(|is_synced| **is_synced).count() as u64;
        self.log_synced_bytes + files * RECORD_BYTES
    }

    /// Looks for everything that was promised.
    pub(super) async fn look(&self, machine: &Machine, mounted: &Mounted) -> Found {
        let mut found = Found::default();
        let caller = machine.root();
        let there = content(&mounted.vfs, &caller, LOG, u64::MAX).await;
        found.add(self.log_bytes, self.log_synced_bytes, &there);
        for (number, is_synced) in (0..).zip(&self.files) {
            let path = file_path(number);
            let synced = if *is_synced { RECORD_BYTES } else { 0 };
            // A name that is gone is another loss than a file without bytes.
            if mounted.vfs.stat(&path).await.is_err() {
                found.missing_files += 1;
                found.add(RECORD_BYTES, synced, &Content::default());
                continue;
            }
            let there = content(&mounted.vfs, &caller, &path, number).await;
            found.empty_files += u64::from(there.length == 0);
            found.zero_files += u64::from(there.zero > 0);
            found.wrong_files += u64::from(there.wrong > 0);
            found.add(RECORD_BYTES, synced, &there);
        }
        found
    }
}

/// The bytes of a file against those that were written.
#[derive(Default)]
struct Content {
    /// From the beginning, those that were written.
    right: u64,
    /// In records that end in nothing but zeros.
    zero: u64,
    wrong: u64,
    length: u64,
}

/// Reads a file and compares it.
async fn content(
    vfs: &Vfs<SharedMount>,
    caller: &Caller,
    path: &[u8],
    file_number: u64,
) -> Content {
    let (mut there, mut is_right) = (Content::default(), true);
    let Ok(file) = vfs.open(caller, path, OpenOptions::default()).await else { return there };
    let mut bytes = vec![0; RECORD_BYTES as usize];
    for record in 0.. {
        let Ok(count) = vfs.read(&file, there.length, &mut bytes).await else { break };
        let expected = contents(file_number, record);
        let same = expected.iter().zip(&bytes[..count]).take_while(|(one, two)| one == two).count();
        // Only what is right from the beginning on counts: behind a gap the file is another.
        if is_right {
            there.right += same as u64;
            is_right = same == count;
        }
        let rest = &bytes[same..count];
        // What follows the right bytes of a record is zeros or wrong as a whole.
        let is_zero = rest.iter().all(|byte| *byte == 0);
        *(if is_zero { &mut there.zero } else { &mut there.wrong }) += rest.len() as u64;
        there.length += count as u64;
        // A record that is cut short is the last.
        if count < bytes.len() {
            break;
        }
    }
    let _ = vfs.close(caller, file).await;
    there
}

/// The bytes of a record; the log has the highest number that a file can have.
fn contents(file_number: u64, record: u64) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES as usize];
    // There are fewer than 2^32 records, so no two share a seed.
    let seed = file_number.wrapping_mul(1 << 32).wrapping_add(record);
    super::boot::fill(&mut bytes, &mut Stream::new(seed, CONTENTS));
    bytes
}

fn directory_path(number: u64) -> Vec<u8> {
    format!("small-{}", number / FILES_PER_DIRECTORY).into_bytes()
}

fn file_path(number: u64) -> Vec<u8> {
    format!("small-{}/{number}", number / FILES_PER_DIRECTORY).into_bytes()
}

/// The application that writes at a rate.
pub(super) struct Writer {
    machine: Machine,
    vfs: Rc<Vfs<SharedMount>>,
    ledger: Rc<RefCell<Ledger>>,
    /// Time from the beginning of one record to that of the next, unless it takes longer.
    interval_ns: u64,
}

impl Writer {
    pub(super) fn new(
        machine: &Machine,
        mounted: &Mounted,
        ledger: Rc<RefCell<Ledger>>,
        rate_kib_per_s: u32,
    ) -> Self {
        let interval_ns = 1_000_000_000 * (RECORD_BYTES >> 10) / u64::from(rate_kib_per_s);
        Self { machine: machine.clone(), vfs: mounted.vfs.clone(), ledger, interval_ns }
    }

    fn caller(&self) -> Caller {
        self.machine.root()
    }

    /// Writes until the machine is gone.
    ///
    /// # Errors
    /// The error number of the first call that fails.
    pub(super) async fn write_on(&self) -> Result<(), Errno> {
        let open = OpenOptions { create: Some(0o644), append: true, ..OpenOptions::default() };
        let log = self.vfs.open(&self.caller(), LOG, open).await?;
        let start_ns = self.machine.sim.now();
        for turn in 0_u64.. {
            // By the clock, not by the record before: one that took long is made up for.
            let due_ns = start_ns + turn * self.interval_ns;
            let now_ns = self.machine.sim.now();
            self.machine.sim.sleep(due_ns.saturating_sub(now_ns)).await;
            match turn % 2 {
                0 => self.append(&log, turn / 2).await?,
                _ => self.small_file(turn / 2).await?,
            }
        }
        Ok(())
    }

    async fn append(&self, log: &OpenFile, record: u64) -> Result<(), Errno> {
        let bytes = contents(u64::MAX, record);
        // The log is open for appending: the offset means nothing.
        self.vfs.write(&self.caller(), log, 0, &bytes).await?;
        // Noted when the call has returned; until then nothing is promised.
        self.ledger.borrow_mut().log_bytes += RECORD_BYTES;
        if record % LOG_RECORDS_PER_SYNC == LOG_RECORDS_PER_SYNC - 1 {
            self.vfs.fsync(&self.caller(), log).await?;
            let mut ledger = self.ledger.borrow_mut();
            ledger.log_synced_bytes = ledger.log_bytes;
        }
        Ok(())
    }

    async fn small_file(&self, number: u64) -> Result<(), Errno> {
        let caller = self.caller();
        if number.is_multiple_of(FILES_PER_DIRECTORY) {
            let new = fs_api::NewInode::Directory(0o755);
            self.vfs.make(&caller, &directory_path(number), new).await?;
        }
        let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = self.vfs.open(&caller, &file_path(number), open).await?;
        self.vfs.write(&caller, &file, 0, &contents(number, 0)).await?;
        let is_synced = number % FILES_PER_SYNC == FILES_PER_SYNC - 1;
        if is_synced {
            self.vfs.fsync(&caller, &file).await?;
        }
        self.vfs.close(&caller, file).await?;
        self.ledger.borrow_mut().files.push(is_synced);
        Ok(())
    }
}

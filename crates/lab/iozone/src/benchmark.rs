//! The tests, carried out and timed.

use crate::buffer::Buffer;
use crate::options::Options;
use fs_api::{Caller, Errno, FileSystem};
use mount::{Kind, Machine, MountError, MountRequest, Mounted, SharedMount};
use nand::Counters;
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;
use thiserror::Error;
use vfs::{OpenFile, OpenOptions, Vfs};

/// The file that IOzone works on, unless `-f` names another.
const FILE: &[u8] = b"iozone.tmp";
/// Permission bits of the file.
const PERMISSIONS: u32 = 0o640;
/// Name of the stream that the order of random I/O comes from.
const ORDER: &str = "iozone random order";

/// Why IOzone stopped before its last test.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BenchmarkError {
    /// A system call of a test failed.
    #[error("iozone {test}: {call}: {errno}")]
    Call {
        /// Column of the test that made the call.
        test: &'static str,
        /// Name of the system call, or of `mount`.
        call: &'static str,
        /// The error number that it returned.
        errno: Errno,
    },
    /// Bytes came back that were not written.
    #[error("iozone {test}: record {record} holds other bytes than were written")]
    Mismatch {
        /// Column of the test that read the record.
        test: &'static str,
        /// Number of the record, from 0.
        record: u64,
    },
    /// The file system could not be mounted again.
    #[error("iozone -U: {0}")]
    Mount(#[from] MountError),
}

/// What a test took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Column of IOzone's table.
    pub test: &'static str,
    /// Records that were read or written.
    pub records: u64,
    /// Bytes of those records.
    pub bytes: u64,
    /// Time as IOzone takes it.
    pub elapsed_ns: u64,
    /// Time of the record that took longest.
    pub record_max_ns: u64,
    /// Processor time of all processes and threads meanwhile.
    pub processor_ns: u64,
    /// Operations of the chip meanwhile.
    pub chip: Counters,
    /// Kernel memory of the mount at the end.
    pub memory_bytes: u64,
    /// What a block device with a driver and chips of its own did meanwhile; none on raw NAND and mtdblock.
    pub device: Option<DeviceWork>,
}

/// What a block device did: all of it passed the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// Read requests of the device, after merging.
    pub reads: u64,
    /// Write requests of the device, after merging.
    pub writes: u64,
    /// Sectors that the read requests cover.
    pub read_sectors: u64,
    /// Sectors that the write requests cover.
    pub written_sectors: u64,
    /// Flushes of its cache.
    pub flushes: u64,
    /// Bytes that were in memory only when the time ended, and are written later.
    pub dirty_bytes: u64,
    /// Read requests between the time of the test before and this one: unmount, mount, open.
    pub reads_before: u64,
    /// Write requests between the two.
    pub writes_before: u64,
}

/// A mounted file system, and IOzone's process on it.
pub struct Benchmark {
    machine: Machine,
    kind: &'static Kind,
    request: MountRequest,
    mounted: Mounted,
    seed: u64,
    /// Read and write requests up to the end of the last test's time.
    requests_counted: Cell<(u64, u64)>,
}

/// What a test does with the file, record by record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl Benchmark {
    /// Mounts the file system.
    ///
    /// # Errors
    /// [`BenchmarkError`] of the mount.
    pub async fn start(
        machine: &Machine,
        kind: &'static Kind,
        request: MountRequest,
        seed: u64,
    ) -> Result<Self, MountError> {
        let mounted = machine.mount(kind, &request).await?;
        Ok(Self::on(machine, kind, request, mounted, seed))
    }

    /// Works on what is mounted already, as `request` describes it.
    pub fn on(
        machine: &Machine,
        kind: &'static Kind,
        request: MountRequest,
        mounted: Mounted,
        seed: u64,
    ) -> Self {
        let requests_counted = Cell::default();
        Self { machine: machine.clone(), kind, request, mounted, seed, requests_counted }
    }

    /// The mount, when the work is done.
    pub fn into_mounted(self) -> Mounted {
        self.mounted
    }

    /// The calls on the file system.
    pub fn vfs(&self) -> &Rc<Vfs<SharedMount>> {
        &self.mounted.vfs
    }

    /// Runs the tests of a command line, one after the other.
    ///
    /// # Errors
    /// [`BenchmarkError`] of the first test that fails.
    pub async fn run(&mut self, options: &Options) -> Result<Vec<Measurement>, BenchmarkError> {
        let mut done = Vec::new();
        for test in &options.tests {
            for column in test.columns_run(options.has_retests) {
                if options.remounts {
                    self.remount(column).await?;
                }
                done.push(self.test(options, column).await?);
            }
        }
        // One test reads what another has written, so the file goes after the last one.
        if !options.keeps_file {
            let unlinked = self.vfs().unlink(&self.caller(), FILE).await;
            unlinked.map_err(failed("cleanup", "unlink"))?;
        }
        Ok(done)
    }

    /// Unmounts the file system and mounts it again (`-U`): nothing of it is left in memory.
    async fn remount(&mut self, test: &'static str) -> Result<(), BenchmarkError> {
        self.mounted.unmount().await.map_err(failed(test, "umount"))?;
        self.mounted = self.machine.mount(self.kind, &self.request).await?;
        Ok(())
    }

    fn caller(&self) -> Caller {
        self.machine.root()
    }

    /// Carries one test out. It is one function so that what the clock includes is seen in one place.
    async fn test(
        &self,
        options: &Options,
        column: &'static str,
    ) -> Result<Measurement, BenchmarkError> {
        let makes_file = matches!(column, "write" | "fwrite");
        let reads = column.ends_with("read");
        let direction = if reads { Direction::Read } else { Direction::Write };
        let at = |call| failed(column, call);
        if options.is_direct {
            // None of these file systems has a `direct_IO` address space operation.
            return Err(at("open with O_DIRECT (-I)")(Errno::Einval));
        }
        // Only a test that makes the file begins with an empty one: a rewrite finds the pages that are there.
        let open = OpenOptions {
            create: makes_file.then_some(PERMISSIONS),
            truncate: makes_file,
            sync: options.is_synchronous,
            ..OpenOptions::default()
        };
        let file = self.vfs().open(&self.caller(), FILE, open).await.map_err(at("open"))?;
        // What an earlier test left dirty is written now, and is no part of this test's time.
        self.vfs().fsync(&self.caller(), &file).await.map_err(at("fsync"))?;
        let mut buffer = Buffer::new(options.contents, options.record_bytes, self.seed);
        if matches!(column, "read" | "reread") {
            // Primes caches and the translation buffer of the processor, outside of the time.
            self.vfs().read(&file, 0, &mut [0]).await.map_err(at("read"))?;
        }
        let places = places(column, options, self.seed);
        let counters = || self.machine.mtd.with_chip(|chip| chip.counters());
        let (start_ns, busy_ns, chip) =
            (self.machine.sim.now(), self.machine.cpus.busy_ns(), counters());
        let before = self.device_work();
        let record_max_ns =
            self.transfer(options, column, direction, &file, &places, &mut buffer).await?;
        if options.includes_flush {
            self.vfs().fsync(&self.caller(), &file).await.map_err(at("fsync"))?;
        }
        // With `-c` the close is within the time; without it the file is closed after the clock was read.
        let mut left = Some(file);
        if options.includes_close {
            let file = left.take().expect("set above");
            self.vfs().close(&self.caller(), file).await.map_err(at("close"))?;
        }
        let elapsed_ns = self.machine.sim.now() - start_ns;
        debug_assert!(record_max_ns <= elapsed_ns, "a record lies within the time of its test");
        let device = self.device_work_since(before);
        let measurement = Measurement {
            test: column,
            records: places.len() as u64,
            bytes: places.len() as u64 * options.record_bytes,
            elapsed_ns,
            record_max_ns,
            processor_ns: self.machine.cpus.busy_ns() - busy_ns,
            chip: counters() - chip,
            memory_bytes: self.mounted.file_system.memory().total_bytes(),
            device,
        };
        // As after the open: the next test begins with no dirty page of this one.
        if let Some(file) = left {
            self.vfs().fsync(&self.caller(), &file).await.map_err(at("fsync"))?;
            self.vfs().close(&self.caller(), file).await.map_err(at("close"))?;
        }
        Ok(measurement)
    }

    /// What the block device did since `before`, the state of its counters when the time began.
    fn device_work_since(&self, before: Option<DeviceWork>) -> Option<DeviceWork> {
        let (before, after) = (before?, self.device_work()?);
        let (reads_counted, writes_counted) =
            self.requests_counted.replace((after.reads, after.writes));
        debug_assert!(reads_counted <= before.reads && writes_counted <= before.writes);
        // The counters run on over all tests. What came between two tests (unmount, mount, open) is kept
        // apart, as it is in no test's time.
        Some(DeviceWork {
            reads: after.reads - before.reads,
            writes: after.writes - before.writes,
            read_sectors: after.read_sectors - before.read_sectors,
            written_sectors: after.written_sectors - before.written_sectors,
            flushes: after.flushes - before.flushes,
            // Dirty bytes are a state and no counter: those at the end are the ones that are written later.
            dirty_bytes: after.dirty_bytes,
            reads_before: before.reads - reads_counted,
            writes_before: before.writes - writes_counted,
        })
    }

    /// All that the block device did since it was opened.
    fn device_work(&self) -> Option<DeviceWork> {
        let statistics = self.mounted.file_system.block_path()?.queue().statistics()?;
        Some(DeviceWork {
            reads: statistics.reads,
            writes: statistics.writes,
            read_sectors: statistics.read_sectors,
            written_sectors: statistics.written_sectors,
            flushes: statistics.flushes,
            dirty_bytes: self.vfs().dirty_pages() * fs_api::PAGE_BYTES as u64,
            ..DeviceWork::default()
        })
    }

    /// Reads or writes the records at these places; the time of the longest.
    async fn transfer(
        &self,
        options: &Options,
        column: &'static str,
        direction: Direction,
        file: &OpenFile,
        places: &[u64],
        buffer: &mut Buffer,
    ) -> Result<u64, BenchmarkError> {
        let at = |call| failed(column, call);
        let mut into = vec![0; options.record_bytes as usize];
        let mut record_max_ns = 0;
        for record in places {
            let offset = record * options.record_bytes;
            debug_assert!(
                offset + options.record_bytes <= options.file_bytes,
                "a record of the file"
            );
            // New contents are made while the clock runs (`fill_buffer`); a byte costs what its copy costs.
            if direction == Direction::Write {
                let made = buffer.bytes_made() as u64;
                let cost_ns = made * self.machine.board.costs.copy_ps_per_byte / 1000;
                self.machine.cpus.run(cost_ns).await;
            }
            let start_ns = self.machine.sim.now();
            match direction {
                Direction::Write => {
                    let bytes = buffer.next_record();
                    let written = self.vfs().write(&self.caller(), file, offset, bytes).await;
                    written.map_err(at("write"))?;
                }
                Direction::Read => {
                    let count = self.vfs().read(file, offset, &mut into).await;
                    let count = count.map_err(at("read"))?;
                    // Data made of the pattern is checked, as IOzone does it; that of `-+w` is not.
                    let is_right = count == into.len()
                        && (buffer.bytes_made() > 0 || into == buffer.next_record());
                    if !is_right {
                        return Err(BenchmarkError::Mismatch { test: column, record: *record });
                    }
                }
            }
            record_max_ns = record_max_ns.max(self.machine.sim.now() - start_ns);
        }
        Ok(record_max_ns)
    }
}

fn failed(test: &'static str, call: &'static str) -> impl Fn(Errno) -> BenchmarkError {
    move |errno| BenchmarkError::Call { test, call, errno }
}

/// The records of a test in the order it transfers them.
fn places(column: &str, options: &Options, seed: u64) -> Vec<u64> {
    let records = options.records();
    match column {
        "bkwd-read" => (0..records).rev().collect(),
        // The same record again and again: a hot spot in the file.
        "record-rewrite" => vec![0; records as usize],
        // Strides over the whole file, each pass a record further, until every record was read.
        "stride-read" => {
            let stride = options.stride_records;
            (0..stride).flat_map(|first| (first..records).step_by(stride as usize)).collect()
        }
        "random-read" | "random-write" => {
            // Every record once, in an order that is the same for both.
            let mut order: Vec<u64> = (0..records).collect();
            let mut numbers = Stream::new(seed, ORDER);
            for last in (1..order.len()).rev() {
                order.swap(last, numbers.below(last as u32 + 1) as usize);
            }
            order
        }
        _ => (0..records).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::places;
    use crate::options::Options;

    #[test]
    fn every_order_but_the_hot_spot_touches_each_record_once() {
        let options = Options::parse("-i 0 -s 160k -r 4k").expect("right");
        for column in ["write", "bkwd-read", "stride-read", "random-read", "random-write"] {
            let mut order = places(column, &options, 3);
            order.sort_unstable();
            assert_eq!(order, (0..40).collect::<Vec<u64>>(), "{column}");
        }
        assert_eq!(places("stride-read", &options, 3)[..4], [0, 17, 34, 1]);
        assert_eq!(places("bkwd-read", &options, 3)[0], 39);
        assert_eq!(places("record-rewrite", &options, 3), vec![0; 40]);
        assert_eq!(places("random-read", &options, 3), places("random-write", &options, 3));
        assert_ne!(places("random-read", &options, 3), places("random-read", &options, 4));
    }
}

//! The file workload of captured traces: a directory is filled, then files are copied into it and deleted.
//!
//! Files, order and bytes are those of `nandlab-guest` (crate `file_workload`): a copy writes a file by calls of
//! 64 KiB and syncs it, a deletion is not synced; the fill ends with an fsync of the directory and the
//! operations with a sync, as in a capture.

use super::boot::{Boot, Meter};
use super::contract::{Context, RawNandRun};
use super::traffic::{Counts, Traffic};
use crate::StudyError;
use crate::metric::{Metric, TestRow};
use crate::time_parts::time_parts;
use file_workload::{FileSet, Kind, Table, content, fill_order, process_random};
use fs_api::{Caller, Errno, FileSystem, NewInode};
use mount::{BlockDeviceChoice, Machine, Mounted};
use vfs::OpenOptions;

/// Directory of the files.
const DIRECTORY: &str = "FILES";
/// Room that a capture leaves.
const RESERVED_BYTES: u64 = 1 << 20;
/// Room that files take at most if nothing is said: the disk of a capture.
const CAPACITY_BYTES: u64 = 100 << 20;

/// Fills the directory, then carries out the operations; a row each.
///
/// # Errors
/// [`StudyError::Study`] with the call, its file and the error number.
pub(super) fn run_copy_delete(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let (value, _) = plan.on_machine(context, |machine, own, seed| async move {
        let boot = Boot::of(&machine, &own, seed).await.map_err(|error| error.to_string())?;
        let mut work = Work::begin(&machine, &boot.mounted, &own, seed).await?;
        work.fill().await?;
        let filled = work.row("fill", &own);
        work.operate(own.operations).await?;
        let operated = work.row("operations", &own);
        boot.end(&machine).await.map_err(|errno| format!("umount: {errno}"))?;
        Ok(vec![filled, operated])
    })?;
    value.map_err(|reason: String| plan.failed(reason))
}

/// What a phase did.
#[derive(Clone, Copy, Default)]
struct Done {
    copies: u64,
    deletes: u64,
    copied_bytes: u64,
}

/// The workload while it goes on.
struct Work<'a> {
    machine: &'a Machine,
    mounted: &'a Mounted,
    file_set: FileSet,
    seed: u64,
    table: Table,
    content: Vec<u8>,
    traffic: Option<Traffic>,
    /// Where the phase that goes on began.
    meter: Meter,
    before: Counts,
    done: Done,
}

impl<'a> Work<'a> {
    /// Makes the directory, and counts the room that is left.
    async fn begin(
        machine: &'a Machine,
        mounted: &'a Mounted,
        plan: &RawNandRun,
        seed: u64,
    ) -> Result<Self, String> {
        let file_set = plan.file_set.expect("the plan has a file set for this test");
        // None for a file system on raw NAND.
        let traffic = mounted.file_system.block_path().map(Traffic::watch);
        let before = traffic.as_ref().map(Traffic::read).unwrap_or_default();
        // Making the directory is part of the fill.
        let meter = Meter::start(machine);
        let made = async {
            let directory = NewInode::Directory(0o755);
            mounted.vfs.make(&machine.root(), DIRECTORY.as_bytes(), directory).await?;
            mounted.vfs.sync().await
        };
        made.await.map_err(|errno| format!("{DIRECTORY}: {errno}"))?;
        // Counted when the directory is durable.
        let space = mounted.file_system.space();
        let block_bytes = u64::from(space.block_bytes);
        let room = (space.available_blocks * block_bytes).saturating_sub(RESERVED_BYTES);
        let capacity = room.min(plan.capacity_bytes.unwrap_or(CAPACITY_BYTES));
        let table = Table::new(file_set.sizes_bytes(seed), capacity, block_bytes);
        let (content, done) = (content(), Done::default());
        Ok(Self { machine, mounted, file_set, seed, table, content, traffic, meter, before, done })
    }

    fn caller(&self) -> Caller {
        self.machine.root()
    }

    fn path(&self, file: usize) -> String {
        format!("{DIRECTORY}/{}", self.file_set.file_name(file))
    }

    async fn fill(&mut self) -> Result<(), String> {
        for file in fill_order(self.seed, self.table.files()) {
            // A capture stops at the first file that does not fit.
            if !self.table.fits(file) {
                break;
            }
            self.table.begin(Kind::Copy, file);
            self.carry_out(Kind::Copy, file).await?;
        }
        if self.done.copies == 0 {
            return Err("not even the first file fits: give the file system more room".into());
        }
        let synced = async {
            let directory = self.mounted.vfs.resolve(DIRECTORY.as_bytes()).await?;
            self.mounted.file_system.fsync(&self.caller(), directory).await
        };
        synced.await.map_err(|errno| format!("fsync of {DIRECTORY}: {errno}"))
    }

    async fn operate(&mut self, operations: u32) -> Result<(), String> {
        let mut random = process_random(self.seed, 0);
        for _ in 0..operations {
            let drawn = self.table.draw(&mut random);
            let (kind, file) = drawn.expect("a file is there or absent: no other process has any");
            self.carry_out(kind, file).await?;
        }
        self.mounted.vfs.sync().await.map_err(|errno| format!("sync: {errno}"))
    }

    async fn carry_out(&mut self, kind: Kind, file: usize) -> Result<(), String> {
        let path = self.path(file);
        let done = match kind {
            Kind::Copy => self.copy(path.as_bytes(), self.table.size_bytes(file)).await,
            Kind::Delete => self.mounted.vfs.unlink(&self.caller(), path.as_bytes()).await,
        };
        done.map_err(|errno| match errno {
            Errno::Enospc => format!(
                "{} {path}: {errno}; files have to leave more room: lower workload.capacity_bytes",
                kind.name()
            ),
            _ => format!("{} {path}: {errno}", kind.name()),
        })?;
        match kind {
            Kind::Copy => {
                self.done.copies += 1;
                self.done.copied_bytes += self.table.size_bytes(file);
            }
            Kind::Delete => self.done.deletes += 1,
        }
        self.table.finish(kind, file);
        Ok(())
    }

    async fn copy(&self, path: &[u8], size_bytes: u64) -> Result<(), Errno> {
        let vfs = &self.mounted.vfs;
        let options = OpenOptions { create: Some(0o644), truncate: true, ..OpenOptions::default() };
        let file = vfs.open(&self.caller(), path, options).await?;
        let mut at = 0;
        while at < size_bytes {
            let left = usize::try_from(size_bytes - at).unwrap_or(usize::MAX);
            let chunk = &self.content[..left.min(self.content.len())];
            vfs.write(&self.caller(), &file, at, chunk).await?;
            at += chunk.len() as u64;
        }
        vfs.fsync(&self.caller(), &file).await?;
        vfs.close(&self.caller(), file).await
    }

    /// Ends a phase; its row.
    fn row(&mut self, phase: &'static str, plan: &RawNandRun) -> TestRow {
        let (elapsed_ns, chip) = self.meter.read(self.machine);
        self.meter = Meter::start(self.machine);
        let Done { copies, deletes, copied_bytes } = std::mem::take(&mut self.done);
        let mut metrics = vec![
            Metric::count("elapsed_ns", elapsed_ns, "ns"),
            Metric::number(
                "throughput_kib_per_s",
                copied_bytes as f64 / 1024.0 / (elapsed_ns.max(1) as f64 / 1e9),
                "KiB/s",
            ),
            Metric::count("copies", copies, "files"),
            Metric::count("deletes", deletes, "files"),
            Metric::count("copied_bytes", copied_bytes, "bytes"),
        ];
        // Another device has chips of its own, and this one is idle.
        if plan.block.device == BlockDeviceChoice::MtdBlock {
            let programmed =
                chip.page_programs * u64::from(plan.host.part.geometry.page_data_bytes);
            let amplification = programmed as f64 / copied_bytes.max(1) as f64;
            metrics.push(Metric::number("write_amplification", amplification, "ratio"));
            metrics.extend(time_parts(&plan.host, chip, elapsed_ns));
        }
        if let Some(traffic) = &self.traffic {
            let now = traffic.read();
            metrics.extend((now - self.before).metrics(copied_bytes));
            self.before = now;
        }
        TestRow::new(phase, metrics)
    }
}

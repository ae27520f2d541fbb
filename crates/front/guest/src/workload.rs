//! The file workload: fill a directory, then copy and delete files at random.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;

use file_workload::{FileSet, Kind, Random, Table, content, fill_order, process_random};

use crate::copy_source::CopySource;
use crate::lazy_writer::{Figures, LazyWriter};

const PROGRESS_LINES: u64 = 50;

/// What one run of the workload does.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The files to copy and delete.
    pub(crate) file_set: FileSet,
    /// Seed of the sizes, of the fill order and of every process.
    pub(crate) seed: u64,
    /// Operations after the fill, of all processes together.
    pub(crate) operations: u64,
    /// How many processes work at the same time.
    pub(crate) processes: u64,
    /// An existing directory on the file system under study.
    pub(crate) directory: PathBuf,
    /// Room on the file system that the files may take.
    pub(crate) capacity_bytes: u64,
    /// Room is counted in multiples of this.
    pub(crate) cluster_bytes: u64,
    /// The message file of the running block trace.
    pub(crate) marker: PathBuf,
    /// Where the list of operations goes.
    pub(crate) log: PathBuf,
    /// How copied files get to the disk after the fill.
    pub(crate) writer: Writer,
}

/// How copied files get to the disk. The files of the fill are always synced one by one.
#[derive(Debug)]
pub(crate) enum Writer {
    /// Each copy ends with an fsync.
    Synced,
    /// Copies return when their bytes are in the page cache; they take as long as their source takes.
    Lazy { source: CopySource, writer: LazyWriter },
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Files copied before the first operation.
    pub(crate) filled_files: u64,
    /// Completed copies, without those of the fill.
    pub(crate) copies: u64,
    /// Files that were deleted after the fill.
    pub(crate) deletes: u64,
    /// Bytes that copies wrote, without those of the fill.
    pub(crate) copied_bytes: u64,
    /// Bytes that the fill wrote.
    pub(crate) filled_bytes: u64,
    /// Sum over the operations of the room that was left before each, in bytes.
    pub(crate) free_bytes_sum: u64,
    /// Most room that was ever left before an operation, in bytes.
    pub(crate) free_bytes_maximum: u64,
    /// What the lazy writer did, if there was one.
    pub(crate) lazy: Option<Figures>,
}

struct Shared {
    table: Table,
    outcome: Outcome,
    issued: u64,
    log: BufWriter<File>,
    failure: Option<io::Error>,
}

struct Context<'plan> {
    plan: &'plan Plan,
    data: Vec<u8>,
    shared: Mutex<Shared>,
    completed: Condvar,
}

/// Runs a plan and returns what it did.
///
/// Fails with the first failed file operation of any process, with the path it concerned.
pub(crate) fn run(plan: &Plan) -> io::Result<Outcome> {
    let sizes_bytes = plan.file_set.sizes_bytes(plan.seed);
    let mut log = BufWriter::new(File::create(&plan.log)?);
    writeln!(log, "operation\tprocess\tkind\tfile\tsize_bytes\tfree_bytes")?;
    let context = Context {
        plan,
        data: content(),
        shared: Mutex::new(Shared {
            table: Table::new(sizes_bytes, plan.capacity_bytes, plan.cluster_bytes),
            outcome: Outcome::default(),
            issued: 0,
            log,
            failure: None,
        }),
        completed: Condvar::new(),
    };
    context.fill()?;
    std::thread::scope(|scope| {
        if let Writer::Lazy { writer, .. } = &plan.writer {
            let context = &context;
            scope.spawn(move || {
                let done = writer.run(|file| context.path(file));
                done.unwrap_or_else(|failure| context.fail(failure));
            });
        }
        let processes = (0..plan.processes).map(|process| {
            let context = &context;
            scope.spawn(move || context.work(process))
        });
        // All are started before the first is waited for.
        let processes: Vec<_> = processes.collect();
        let ends: Vec<_> = processes.into_iter().map(ScopedJoinHandle::join).collect();
        // Before a panic goes on: the scope waits for the writer as well.
        if let Writer::Lazy { writer, .. } = &plan.writer {
            writer.finish();
        }
        for end in ends {
            end.unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    let mut shared = context.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared.log.flush()?;
    if let Writer::Lazy { writer, .. } = &plan.writer {
        shared.outcome.lazy = Some(writer.figures());
    }
    shared.failure.map_or(Ok(shared.outcome), Err)
}

impl Context<'_> {
    fn fill(&self) -> io::Result<()> {
        let mut shared = self.lock();
        for file in fill_order(self.plan.seed, shared.table.files()) {
            // The first file that does not fit ends the fill: later, smaller ones would bias the sizes.
            if !shared.table.fits(file) {
                break;
            }
            shared.table.begin(Kind::Copy, file);
            let size_bytes = shared.table.size_bytes(file);
            let path = self.path(file);
            self.write_durably(&path, size_bytes).map_err(|error| at(&path, &error))?;
            shared.table.finish(Kind::Copy, file);
            shared.outcome.filled_files += 1;
            shared.outcome.filled_bytes += size_bytes;
            let free_bytes = shared.table.free_bytes();
            writeln!(shared.log, "0\t0\tcopy\t{file}\t{size_bytes}\t{free_bytes}")?;
        }
        File::open(&self.plan.directory)?.sync_all()
    }

    fn work(&self, process: u64) {
        let mut random = process_random(self.plan.seed, process);
        if let Err(failure) = self.operations(process, &mut random) {
            self.fail(failure);
        }
        self.completed.notify_all();
    }

    fn fail(&self, failure: io::Error) {
        // The first failure is the cause; those of other processes may follow from it.
        self.lock().failure.get_or_insert(failure);
    }

    fn operations(&self, process: u64, random: &mut Random) -> io::Result<()> {
        while let Some((kind, file, size_bytes)) = self.next(process, random)? {
            let path = self.path(file);
            match kind {
                Kind::Copy => self.copy(file, &path, size_bytes),
                Kind::Delete => self.delete(file, &path),
            }
            .map_err(|error| at(&path, &error))?;
            let mut shared = self.lock();
            shared.table.finish(kind, file);
            match kind {
                Kind::Copy => {
                    shared.outcome.copies += 1;
                    shared.outcome.copied_bytes += size_bytes;
                }
                Kind::Delete => shared.outcome.deletes += 1,
            }
            // Released before the others wake, or they would wake only to wait for it.
            drop(shared);
            self.completed.notify_all();
        }
        Ok(())
    }

    /// Draws the next operation and marks it in the trace, waiting while all candidates are busy.
    fn next(&self, process: u64, random: &mut Random) -> io::Result<Option<(Kind, usize, u64)>> {
        let mut shared = self.lock();
        loop {
            if shared.issued == self.plan.operations || shared.failure.is_some() {
                return Ok(None);
            }
            let free_bytes = shared.table.free_bytes();
            if let Some((kind, file)) = shared.table.draw(random) {
                shared.issued += 1;
                shared.outcome.free_bytes_sum += free_bytes;
                shared.outcome.free_bytes_maximum =
                    shared.outcome.free_bytes_maximum.max(free_bytes);
                let operation = shared.issued;
                let size_bytes = shared.table.size_bytes(file);
                let word = kind.name();
                writeln!(
                    shared.log,
                    "{operation}\t{process}\t{word}\t{file}\t{size_bytes}\t{free_bytes}"
                )?;
                // The marker is written under the lock, so that markers are in order in the trace.
                mark(&self.plan.marker, operation)?;
                self.report_progress(operation)?;
                return Ok(Some((kind, file, size_bytes)));
            }
            shared = self.completed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn copy(&self, file: usize, path: &Path, size_bytes: u64) -> io::Result<()> {
        match &self.plan.writer {
            Writer::Synced => self.write_durably(path, size_bytes),
            Writer::Lazy { source, writer } => {
                source.open();
                let read = |length_bytes| source.read(length_bytes);
                let wrote = |offset_bytes, length_bytes| {
                    writer.appended(file, offset_bytes, length_bytes);
                };
                self.write(path, size_bytes, read, wrote).map(drop)
            }
        }
    }

    fn delete(&self, file: usize, path: &Path) -> io::Result<()> {
        if let Writer::Lazy { writer, .. } = &self.plan.writer {
            writer.deletes(file);
        }
        fs::remove_file(path)
    }

    fn write_durably(&self, path: &Path, size_bytes: u64) -> io::Result<()> {
        self.write(path, size_bytes, |_| (), |_, _| ())?.sync_all()
    }

    /// Writes a file by chunks. `before` is called with the length of each, `after` with its offset too.
    fn write(
        &self,
        path: &Path,
        size_bytes: u64,
        before: impl Fn(u64),
        after: impl Fn(u64, u64),
    ) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let mut offset_bytes = 0;
        while offset_bytes < size_bytes {
            let chunk_bytes = (size_bytes - offset_bytes).min(self.data.len() as u64);
            before(chunk_bytes);
            file.write_all(&self.data[..chunk_bytes as usize])?;
            after(offset_bytes, chunk_bytes);
            offset_bytes += chunk_bytes;
        }
        Ok(file)
    }

    fn report_progress(&self, operation: u64) -> io::Result<()> {
        if operation.is_multiple_of(self.plan.operations.div_ceil(PROGRESS_LINES)) {
            writeln!(io::stdout(), "nandlab progress {operation}")?;
        }
        Ok(())
    }

    fn path(&self, file: usize) -> PathBuf {
        self.plan.directory.join(self.plan.file_set.file_name(file))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the message `nandlab operation N` to the running trace.
///
/// Fails when the message file cannot be written: most often because no trace is running.
fn mark(marker: &Path, operation: u64) -> io::Result<()> {
    let message = format!("nandlab operation {operation}");
    // One write call is one message.
    fs::write(marker, message).map_err(|error| at(marker, &error))
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

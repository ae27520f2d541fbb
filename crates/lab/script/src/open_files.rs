//! Files that a process has open.

use crate::Data;
use crate::run::{Runner, buffer};
use crate::run_error::RunError;
use crate::step::{OpenData, OpenFlags, OpenSync, Step};
use fs_api::{Errno, FileSystem};
use std::cell::Cell;
use std::rc::Rc;
use vfs::{Access, OpenFile, OpenOptions};

/// An open file with the place in it (`struct file`).
#[derive(Debug)]
pub(crate) struct OpenDescription {
    pub(crate) file: OpenFile,
    /// Where the next `write` begins (`f_pos`).
    position: Cell<u64>,
}

/// Flags of the language in the words of the layer above file systems.
fn options_of(flags: &OpenFlags) -> OpenOptions {
    OpenOptions {
        create: flags.create,
        truncate: flags.truncates,
        append: flags.appends,
        sync: flags.sync == OpenSync::All,
        data_sync: flags.sync == OpenSync::Data,
        exclusive: flags.is_exclusive,
        access: match (flags.reads, flags.writes) {
            (true, true) => Access::ReadWrite,
            (true, false) => Access::Read,
            (false, _) => Access::Write,
        },
    }
}

impl<F: FileSystem + 'static> Runner<F> {
    /// Names of what the process has open, sorted.
    pub fn open_names(&self) -> Vec<String> {
        self.files.borrow().keys().cloned().collect()
    }

    /// What is open under a name, given as the bytes of a word.
    pub(crate) fn open_as(&self, name: &[u8]) -> Option<Rc<OpenDescription>> {
        let name = str::from_utf8(name).ok()?;
        self.files.borrow().get(name).cloned()
    }

    /// Closes all that the process has open, as at its end.
    ///
    /// # Errors
    /// The first of a close; all are closed in any case.
    pub async fn close_all(&self) -> Result<(), RunError> {
        let mut all = Ok(());
        // By name: the kernel goes by number, which the language has not.
        for name in self.open_names() {
            let closed = self.close(&name).await.map_err(|error| RunError::new("close", error));
            all = all.and(closed);
        }
        all
    }

    /// A step about open files.
    pub(crate) async fn open_file_step(&self, step: &Step) -> Result<(), RunError> {
        let call = match step {
            Step::Open { .. } => "open",
            Step::WriteOpen { .. } => "write",
            Step::WriteOpenAt { .. } => "pwrite",
            Step::ReadOpenAt { .. } => "pread",
            Step::TruncateOpen { .. } => "ftruncate",
            _ => "close",
        };
        let done = match step {
            Step::Open { name, path, flags } => self.open(name, path, flags).await,
            Step::Exit => return self.close_all().await,
            Step::Close { name } => match self.close(name).await {
                Err(Errno::Ebadf) => return Err(RunError::not_open(call, name)),
                closed => closed,
            },
            Step::WriteOpen { name, .. }
            | Step::WriteOpenAt { name, .. }
            | Step::ReadOpenAt { name, .. }
            | Step::TruncateOpen { name, .. } => {
                let Some(open) = self.open_as(name.as_bytes()) else {
                    return Err(RunError::not_open(call, name));
                };
                self.use_open(&open, step).await
            }
            _ => unreachable!("no step about open files"),
        };
        done.map_err(|error| RunError::new(call, error))
    }

    async fn use_open(&self, open: &Rc<OpenDescription>, step: &Step) -> Result<(), Errno> {
        match step {
            Step::WriteOpen { data, .. } => {
                // A write that fails halfway leaves the position, as the part is not told.
                self.write_open(open, open.position.get(), data).await?;
                open.position.set(open.position.get() + data.length);
                Ok(())
            }
            Step::WriteOpenAt { offset, data, .. } => self.write_open(open, *offset, data).await,
            Step::ReadOpenAt { offset, length, .. } => {
                let mut bytes = buffer(*length)?;
                self.machine.vfs.read(&open.file, *offset, &mut bytes).await.map(drop)
            }
            Step::TruncateOpen { size, .. } => {
                self.machine.vfs.truncate_open(&self.caller(), &open.file, *size).await
            }
            _ => unreachable!("no step about an open file"),
        }
    }

    async fn open(&self, name: &str, path: &[u8], flags: &OpenFlags) -> Result<(), Errno> {
        let file = self.machine.vfs.open(&self.caller(), path, options_of(flags)).await?;
        let open = OpenDescription { file, position: Cell::new(0) };
        self.files.borrow_mut().insert(name.to_owned(), Rc::new(open));
        Ok(())
    }

    async fn write_open(
        &self,
        open: &OpenDescription,
        offset: u64,
        data: &OpenData,
    ) -> Result<(), Errno> {
        let mut bytes = buffer(data.length)?;
        Data::new(data.kind.clone(), data.seed).fill(&mut bytes);
        self.machine.vfs.write(&self.caller(), &open.file, offset, &bytes).await
    }

    async fn close(&self, name: &str) -> Result<(), Errno> {
        let Some(open) = self.files.borrow_mut().remove(name) else { return Err(Errno::Ebadf) };
        // A process makes one call at a time, so no other call has it.
        let OpenDescription { file, .. } = Rc::try_unwrap(open).expect("no other call has it");
        self.machine.vfs.close(&self.caller(), file).await
    }
}

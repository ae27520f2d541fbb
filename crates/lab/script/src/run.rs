//! Carrying scripts out.

use crate::Data;
use crate::parse::{Step, Sync, WriteCall, numbered};
use fs_api::{Caller, Changes, Errno, FileSystem, NewInode, Time};
use sim::Sim;
use std::rc::Rc;
use thiserror::Error;
use vfs::{OpenFile, OpenOptions, Vfs};

/// A call of a script that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call}: {error}{}", self.advice())]
pub struct RunError {
    /// Name of the call in the script.
    pub call: &'static str,
    /// Why the call failed.
    pub error: Errno,
}

impl RunError {
    /// What a caller may have meant: unlike a shell's `>>`, these calls do not make the file (no `O_CREAT`).
    fn advice(&self) -> &'static str {
        let opens = ["append", "write", "rwrite", "truncate"].contains(&self.call);
        if opens && self.error == Errno::Enoent {
            "; this call makes no file: make it with `put` first"
        } else {
            ""
        }
    }
}

/// Permission bits that `mkdir` takes: set-uid and set-gid are left out (`vfs_mkdir`, Linux).
const MKDIR_PERMISSIONS: u32 = 0o1777;

/// Carries the calls of a script out, one after the other, as one process.
pub struct Runner<F> {
    sim: Sim,
    vfs: Rc<Vfs<F>>,
    /// The host's clock when the simulation began, seconds since 1970.
    epoch_seconds: i64,
    epoch_nanoseconds: u32,
}

impl<F: FileSystem + 'static> Runner<F> {
    /// Calls of root on `vfs`, made by the process that awaits each step.
    pub fn new(sim: &Sim, vfs: Rc<Vfs<F>>, epoch_seconds: i64) -> Self {
        Self { sim: sim.clone(), vfs, epoch_seconds, epoch_nanoseconds: 0 }
    }

    /// The same with a clock that stood between two seconds when the simulation began.
    #[must_use]
    pub fn with_epoch_nanoseconds(self, epoch_nanoseconds: u32) -> Self {
        Self { epoch_nanoseconds, ..self }
    }

    fn caller(&self) -> Caller {
        let now_ns = u64::from(self.epoch_nanoseconds) + self.sim.now();
        let seconds = self.epoch_seconds + (now_ns / 1_000_000_000).cast_signed();
        let now = Time { seconds, nanoseconds: (now_ns % 1_000_000_000) as u32 };
        Caller { uid: 0, gid: 0, now }
    }

    // Longer than a screen: one arm a call of the language.
    /// Carries a step out; false if it is a control line, which is for the caller, and nothing was done.
    ///
    /// # Errors
    /// The call of the step that failed.
    pub async fn step(&self, step: &Step) -> Result<bool, RunError> {
        let caller = &self.caller();
        let (call, done) = match step {
            Step::Put { path, permissions, call } => {
                ("put", self.put(path, *permissions, call).await)
            }
            Step::PutMany { prefix, numbers, permissions, call } => {
                let mut done = Ok(());
                for number in numbers.clone() {
                    let call = WriteCall { seed: call.seed.wrapping_add(number), ..call.clone() };
                    done = self.put(&numbered(prefix, number), *permissions, &call).await;
                    if done.is_err() {
                        break;
                    }
                }
                ("putn", done)
            }
            Step::Append { path, call } => {
                let options = OpenOptions { append: true, ..OpenOptions::default() };
                ("append", self.write(path, options, 0, call).await)
            }
            Step::Write { path, offset, call } => {
                ("write", self.write(path, OpenOptions::default(), *offset, call).await)
            }
            Step::RandomWrite { path, count, file_bytes, place_seed, call } => {
                let offsets = call.random_offsets(*count, *file_bytes, *place_seed);
                ("rwrite", self.write_at(path, OpenOptions::default(), offsets, call).await)
            }
            Step::Read { path, chunk, offset, length } => {
                ("read", self.read(path, *chunk, *offset, *length).await)
            }
            Step::Fsync { path } => ("fsync", self.fsync(path).await),
            Step::SyncAll => ("sync", self.vfs.sync().await),
            Step::Truncate { path, size } => {
                ("truncate", self.vfs.truncate(caller, path, *size).await)
            }
            Step::Rename { from, to } => ("rename", self.vfs.rename(caller, from, to).await),
            Step::Link { from, to } => ("link", self.vfs.link(caller, from, to).await),
            Step::Symlink { target, path } => {
                ("symlink", self.make(path, NewInode::Symlink(target)).await)
            }
            Step::Unlink { path } => ("unlink", self.vfs.unlink(caller, path).await),
            Step::UnlinkMany { prefix, numbers } => {
                let mut done = Ok(());
                for number in numbers.clone() {
                    // Each call has its own time; `caller` has that of the line's beginning.
                    done = self.vfs.unlink(&self.caller(), &numbered(prefix, number)).await;
                    if done.is_err() {
                        break;
                    }
                }
                ("unlinkn", done)
            }
            Step::MakeDirectory { path, permissions } => {
                let kept = permissions & MKDIR_PERMISSIONS;
                ("mkdir", self.make(path, NewInode::Directory(kept)).await)
            }
            Step::RemoveDirectory { path } => {
                ("rmdir", self.vfs.remove_directory(caller, path).await)
            }
            Step::ChangeMode { path, permissions } => {
                let changes = Changes { permissions: Some(*permissions), ..Changes::default() };
                ("chmod", self.vfs.change(caller, path, &changes).await)
            }
            Step::ChangeOwner { path, uid, gid } => {
                ("chown", self.change_owner(path, *uid, *gid).await)
            }
            Step::SetTimes { path, accessed, modified } => {
                let times = [*accessed, *modified].map(Time::from_seconds);
                ("utime", self.vfs.set_times(caller, path, times[0], times[1]).await)
            }
            Step::MakeNode { path, permissions, kind, device } => {
                let mode = kind.mode_bits() | permissions;
                ("mknod", self.make(path, NewInode::Special(mode, *device)).await)
            }
            Step::SetAttribute { path, name, value } => {
                let done = self.vfs.set_extended_attribute(caller, path, name, Some(value)).await;
                ("setxattr", done)
            }
            Step::Sleep { milliseconds } => {
                self.sim.sleep(milliseconds.saturating_mul(1_000_000)).await;
                ("sleep", Ok(()))
            }
            Step::Control(_) => return Ok(false),
        };
        done.map(|()| true).map_err(|error| RunError { call, error })
    }

    async fn make(&self, path: &[u8], new: NewInode<'_>) -> Result<(), Errno> {
        self.vfs.make(&self.caller(), path, new).await.map(drop)
    }

    /// `lchown`: as Linux has it, set-uid and set-gid of what is no directory are taken away.
    async fn change_owner(&self, path: &[u8], uid: u32, gid: u32) -> Result<(), Errno> {
        let attributes = self.vfs.stat(path).await?;
        let kept = kept_by_chown(&attributes);
        // `notify_change` sets `ATTR_MODE` only where a bit goes.
        let permissions = (kept != attributes.permissions).then_some(kept);
        let changes = Changes { uid: Some(uid), gid: Some(gid), permissions, ..Changes::default() };
        self.vfs.change_itself(&self.caller(), path, &changes).await
    }

    async fn put(&self, path: &[u8], permissions: u32, call: &WriteCall) -> Result<(), Errno> {
        let options =
            OpenOptions { create: Some(permissions), truncate: true, ..OpenOptions::default() };
        self.write(path, options, 0, call).await
    }

    async fn write(
        &self,
        path: &[u8],
        options: OpenOptions,
        offset: u64,
        call: &WriteCall,
    ) -> Result<(), Errno> {
        self.write_at(path, options, call.offsets(offset), call).await
    }

    /// Writes one chunk after the other, each at its offset.
    async fn write_at(
        &self,
        path: &[u8],
        options: OpenOptions,
        offsets: impl Iterator<Item = u64>,
        call: &WriteCall,
    ) -> Result<(), Errno> {
        let file = self.vfs.open(&self.caller(), path, options).await?;
        let written = self.write_chunks(&file, offsets, call).await;
        // Closed even if a write failed: a process that goes on would close it too.
        let closed = self.vfs.close(&self.caller(), file).await;
        written.and(closed)
    }

    async fn write_chunks(
        &self,
        file: &OpenFile,
        offsets: impl Iterator<Item = u64>,
        call: &WriteCall,
    ) -> Result<(), Errno> {
        let mut data = Data::new(call.kind.clone(), call.seed);
        let mut left = call.length;
        let mut bytes = buffer(call.chunk.min(call.length))?;
        for offset in offsets {
            // A file system that writes back takes a call over without waiting for anything.
            cancellation::check();
            let count = left.min(call.chunk) as usize;
            data.fill(&mut bytes[..count]);
            self.vfs.write(&self.caller(), file, offset, &bytes[..count]).await?;
            if call.sync == Sync::Each {
                self.vfs.fsync(&self.caller(), file).await?;
            }
            left -= count as u64;
        }
        match call.sync {
            Sync::AtEnd => self.vfs.fsync(&self.caller(), file).await,
            Sync::Each | Sync::Never => Ok(()),
        }
    }

    async fn read(
        &self,
        path: &[u8],
        chunk: u64,
        mut offset: u64,
        length: Option<u64>,
    ) -> Result<(), Errno> {
        let file = self.vfs.open(&self.caller(), path, OpenOptions::default()).await?;
        let mut left = length.unwrap_or(u64::MAX);
        // The file is open by now: without memory it is closed all the same.
        let mut bytes = match buffer(chunk.min(left)) {
            Ok(bytes) => bytes,
            Err(error) => return self.vfs.close(&self.caller(), file).await.and(Err(error)),
        };
        let read = loop {
            cancellation::check();
            if left == 0 {
                break Ok(());
            }
            let asked = left.min(chunk) as usize;
            match self.vfs.read(&file, offset, &mut bytes[..asked]).await {
                Ok(0) => break Ok(()),
                Ok(count) => (offset, left) = (offset + count as u64, left - count as u64),
                Err(error) => break Err(error),
            }
        };
        read.and(self.vfs.close(&self.caller(), file).await)
    }

    async fn fsync(&self, path: &[u8]) -> Result<(), Errno> {
        let file = self.vfs.open(&self.caller(), path, OpenOptions::default()).await?;
        let done = self.vfs.fsync(&self.caller(), &file).await;
        done.and(self.vfs.close(&self.caller(), file).await)
    }
}

/// Memory of the process for the bytes of a call.
fn buffer(bytes: u64) -> Result<Vec<u8>, Errno> {
    let mut buffer = Vec::new();
    // A script may ask for more than the machine has.
    buffer.try_reserve_exact(bytes as usize).map_err(|_| Errno::Enomem)?;
    buffer.resize(bytes as usize, 0);
    Ok(buffer)
}

/// Permission bits that a change of owner leaves (`chown_common` and `notify_change`, Linux): set-uid
/// goes, set-gid too if the group may execute; directories keep both.
fn kept_by_chown(attributes: &fs_api::Attributes) -> u32 {
    let bits = attributes.permissions;
    if matches!(attributes.kind, fs_api::FileType::Directory) {
        return bits;
    }
    let without_user = bits & !0o4000;
    // Set-gid without execution by the group asks for mandatory locks and gives no privilege.
    if bits & 0o010 == 0 { without_user } else { without_user & !0o2000 }
}

//! Carrying scripts out.

use crate::Data;
use crate::open_files::OpenDescription;
use crate::run_error::{Failed, RunError};
use crate::step::{AllocateMode, Step, Sync, WriteCall, numbered};
use crate::tree::Command;
use fs_api::{Caller, Changes, Errno, FileSystem, NewInode, Time};
use sim::{Lock, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use vfs::{Access, OpenFile, OpenOptions, Vfs};

/// Permission bits that `mkdir` takes: set-uid and set-gid are left out (`vfs_mkdir`, Linux).
const MKDIR_PERMISSIONS: u32 = 0o1777;

/// Carries the calls of a script out, one after the other, as one process.
pub struct Runner<F> {
    pub(crate) machine: Rc<Machine<F>>,
    /// What this process has open.
    pub(crate) files: RefCell<BTreeMap<String, Rc<OpenDescription>>>,
}

/// What all processes of a script share.
pub(crate) struct Machine<F> {
    pub(crate) sim: Sim,
    pub(crate) vfs: Rc<Vfs<F>>,
    /// The host's clock when the simulation began, seconds since 1970.
    epoch_seconds: i64,
    epoch_nanoseconds: u32,
    /// The script's clock when the simulation began: a power cut begins another one.
    clock_base_ns: u64,
    /// Held while a process makes a call, where calls come one after the other.
    pub(crate) turn: Option<Lock<()>>,
    /// Number of the next process.
    pub(crate) next_pid: Cell<u32>,
}

impl<F: FileSystem + 'static> Runner<F> {
    /// Calls of root on `vfs`, made by the process that awaits each step.
    pub fn new(sim: &Sim, vfs: Rc<Vfs<F>>, epoch_seconds: i64) -> Self {
        let machine = Machine {
            sim: sim.clone(),
            vfs,
            epoch_seconds,
            epoch_nanoseconds: 0,
            clock_base_ns: 0,
            turn: None,
            next_pid: Cell::new(process::INIT_PID + 1),
        };
        Self { machine: Rc::new(machine), files: RefCell::default() }
    }

    /// The same with a clock that stood between two seconds when the simulation began.
    #[must_use]
    pub fn with_epoch_nanoseconds(self, epoch_nanoseconds: u32) -> Self {
        self.with(|machine| Machine { epoch_nanoseconds, ..machine })
    }

    /// The same with a script whose clock read `clock_base_ns` when the simulation began.
    #[must_use]
    pub fn with_clock_base(self, clock_base_ns: u64) -> Self {
        self.with(|machine| Machine { clock_base_ns, ..machine })
    }

    /// The same with processes that make their calls one after the other: no call begins before the one under
    /// way has returned. For watchers that tell states by calls.
    #[must_use]
    pub fn one_call_at_a_time(self) -> Self {
        self.with(|machine| Machine { turn: Some(Lock::new(&machine.sim, ())), ..machine })
    }

    fn with(self, change: impl FnOnce(Machine<F>) -> Machine<F>) -> Self {
        let machine = Rc::into_inner(self.machine).expect("no process has begun");
        Self { machine: Rc::new(change(machine)), files: self.files }
    }

    /// The script's clock, nanoseconds: simulated time since the script began, over power cuts.
    pub fn clock_ns(&self) -> u64 {
        self.machine.clock_base_ns + self.machine.sim.now()
    }

    /// Waits until the script's clock reads `until_ns`.
    pub async fn wait_until(&self, until_ns: u64) {
        let until_ns = until_ns.saturating_sub(self.machine.clock_base_ns);
        self.machine.sim.sleep_until(until_ns).await;
    }

    pub(crate) fn caller(&self) -> Caller {
        let now_ns = u64::from(self.machine.epoch_nanoseconds) + self.machine.sim.now();
        let seconds = self.machine.epoch_seconds + (now_ns / 1_000_000_000).cast_signed();
        let now = Time { seconds, nanoseconds: (now_ns % 1_000_000_000) as u32 };
        Caller { uid: 0, gid: 0, now }
    }

    /// Carries a command out, and holds its end against what its line expects. The failure of a line with `try`
    /// is handed back.
    ///
    /// # Errors
    /// A call that failed, or that did not fail as its line says.
    pub async fn carry_out(&self, command: &Command) -> Result<Option<RunError>, Failed> {
        if let Step::Open { name, .. } = &command.step
            && self.files.borrow().contains_key(name)
        {
            return Err(Failed::OpenTwice(name.clone()));
        }
        let done = self.step(&command.step).await.map(drop);
        command.expectation.judge(done)
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
                ("putn", self.put_many(prefix, numbers.clone(), *permissions, call).await)
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
            Step::Fsync { target, is_data_only } => {
                let call = if *is_data_only { "fdatasync" } else { "fsync" };
                (call, self.fsync(target, *is_data_only).await)
            }
            Step::SyncAll => ("sync", self.machine.vfs.sync().await),
            Step::Truncate { path, size } => {
                ("truncate", self.machine.vfs.truncate(caller, path, *size).await)
            }
            Step::Rename { from, to, mode } => {
                ("rename", self.machine.vfs.rename_with(caller, from, to, *mode).await)
            }
            Step::Allocate { path, offset, length, mode } => {
                ("fallocate", self.allocate(path, (*offset, *length), *mode).await)
            }
            Step::Open { .. }
            | Step::WriteOpen { .. }
            | Step::WriteOpenAt { .. }
            | Step::ReadOpenAt { .. }
            | Step::TruncateOpen { .. }
            | Step::Close { .. }
            | Step::Exit => return self.open_file_step(step).await.map(|()| true),
            Step::Link { from, to } => ("link", self.machine.vfs.link(caller, from, to).await),
            Step::Symlink { target, path } => {
                ("symlink", self.make(path, NewInode::Symlink(target)).await)
            }
            Step::Unlink { path } => ("unlink", self.machine.vfs.unlink(caller, path).await),
            Step::UnlinkMany { prefix, numbers } => {
                ("unlinkn", self.unlink_many(prefix, numbers.clone()).await)
            }
            Step::MakeDirectory { path, permissions } => {
                let kept = permissions & MKDIR_PERMISSIONS;
                ("mkdir", self.make(path, NewInode::Directory(kept)).await)
            }
            Step::RemoveDirectory { path } => {
                ("rmdir", self.machine.vfs.remove_directory(caller, path).await)
            }
            Step::ChangeMode { path, permissions } => {
                let changes = Changes { permissions: Some(*permissions), ..Changes::default() };
                ("chmod", self.machine.vfs.change(caller, path, &changes).await)
            }
            Step::ChangeOwner { path, uid, gid } => {
                ("chown", self.change_owner(path, *uid, *gid).await)
            }
            Step::SetTimes { path, accessed, modified } => {
                let times = [*accessed, *modified].map(Time::from_seconds);
                ("utime", self.machine.vfs.set_times(caller, path, times[0], times[1]).await)
            }
            Step::MakeNode { path, permissions, kind, device } => {
                let mode = kind.mode_bits() | permissions;
                ("mknod", self.make(path, NewInode::Special(mode, *device)).await)
            }
            Step::SetAttribute { path, name, value } => {
                let done =
                    self.machine.vfs.set_extended_attribute(caller, path, name, Some(value)).await;
                ("setxattr", done)
            }
            Step::Sleep { milliseconds } => {
                self.machine.sim.sleep(milliseconds.saturating_mul(1_000_000)).await;
                ("sleep", Ok(()))
            }
            Step::Control(_) => return Ok(false),
        };
        let is_library = self.machine.vfs.file_system().is_library();
        done.map(|()| true).map_err(|error| match (call, error) {
            ("unlink" | "unlinkn" | "rename", Errno::Ebusy) if is_library => {
                RunError::open_in_library(call)
            }
            _ => RunError::new(call, error),
        })
    }

    async fn put_many(
        &self,
        prefix: &[u8],
        numbers: Range<u64>,
        permissions: u32,
        call: &WriteCall,
    ) -> Result<(), Errno> {
        for number in numbers {
            let call = WriteCall { seed: call.seed.wrapping_add(number), ..call.clone() };
            self.put(&numbered(prefix, number), permissions, &call).await?;
        }
        Ok(())
    }

    async fn unlink_many(&self, prefix: &[u8], numbers: Range<u64>) -> Result<(), Errno> {
        for number in numbers {
            // Each call has its own time.
            self.machine.vfs.unlink(&self.caller(), &numbered(prefix, number)).await?;
        }
        Ok(())
    }

    async fn make(&self, path: &[u8], new: NewInode<'_>) -> Result<(), Errno> {
        self.machine.vfs.make(&self.caller(), path, new).await.map(drop)
    }

    /// `lchown`: as Linux has it, set-uid and set-gid of what is no directory are taken away.
    async fn change_owner(&self, path: &[u8], uid: u32, gid: u32) -> Result<(), Errno> {
        let attributes = self.machine.vfs.stat(path).await?;
        let kept = kept_by_chown(&attributes);
        // `notify_change` sets `ATTR_MODE` only where a bit goes.
        let permissions = (kept != attributes.permissions).then_some(kept);
        let changes = Changes { uid: Some(uid), gid: Some(gid), permissions, ..Changes::default() };
        self.machine.vfs.change_itself(&self.caller(), path, &changes).await
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
        let file = self.machine.vfs.open(&self.caller(), path, options).await?;
        let written = self.write_chunks(&file, offsets, call).await;
        // Closed even if a write failed: a process that goes on would close it too.
        let closed = self.machine.vfs.close(&self.caller(), file).await;
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
            self.machine.vfs.write(&self.caller(), file, offset, &bytes[..count]).await?;
            if call.sync == Sync::Each {
                self.machine.vfs.fsync(&self.caller(), file).await?;
            }
            left -= count as u64;
        }
        match call.sync {
            Sync::AtEnd => self.machine.vfs.fsync(&self.caller(), file).await,
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
        let file = self.machine.vfs.open(&self.caller(), path, OpenOptions::default()).await?;
        let mut left = length.unwrap_or(u64::MAX);
        // The file is open by now: without memory it is closed all the same.
        let mut bytes = match buffer(chunk.min(left)) {
            Ok(bytes) => bytes,
            Err(error) => {
                return self.machine.vfs.close(&self.caller(), file).await.and(Err(error));
            }
        };
        let read = loop {
            cancellation::check();
            if left == 0 {
                break Ok(());
            }
            let asked = left.min(chunk) as usize;
            match self.machine.vfs.read(&file, offset, &mut bytes[..asked]).await {
                Ok(0) => break Ok(()),
                Ok(count) => (offset, left) = (offset + count as u64, left - count as u64),
                Err(error) => break Err(error),
            }
        };
        read.and(self.machine.vfs.close(&self.caller(), file).await)
    }

    /// An open file of that name goes before a path.
    async fn fsync(&self, target: &[u8], is_data_only: bool) -> Result<(), Errno> {
        let vfs = &self.machine.vfs;
        if let Some(open) = self.open_as(target) {
            if is_data_only {
                return vfs.fdatasync(&self.caller(), &open.file).await;
            }
            return vfs.fsync(&self.caller(), &open.file).await;
        }
        // To read, as a directory can be opened in no other way.
        let options = OpenOptions { access: Access::Read, ..OpenOptions::default() };
        let file = vfs.open(&self.caller(), target, options).await?;
        let done = vfs.fsync(&self.caller(), &file).await;
        done.and(vfs.close(&self.caller(), file).await)
    }

    async fn allocate(
        &self,
        path: &[u8],
        part: (u64, u64),
        mode: AllocateMode,
    ) -> Result<(), Errno> {
        let vfs = &self.machine.vfs;
        let options = OpenOptions { access: Access::Write, ..OpenOptions::default() };
        let file = vfs.open(&self.caller(), path, options).await?;
        let done = match mode {
            // No file system here makes holes; the kernel's answer for each of them is the same.
            AllocateMode::PunchHole if part.1 > 0 => Err(Errno::Eopnotsupp),
            AllocateMode::PunchHole => Err(Errno::Einval),
            AllocateMode::KeepSize => vfs.allocate(&self.caller(), &file, part, true).await,
            AllocateMode::Grow => vfs.allocate(&self.caller(), &file, part, false).await,
        };
        done.and(vfs.close(&self.caller(), file).await)
    }
}

/// Memory of the process for the bytes of a call.
pub(crate) fn buffer(bytes: u64) -> Result<Vec<u8>, Errno> {
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

//! The system calls of a script, made.

use fs_api::{Errno, FileType};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, RenameFlags, Timespec, Timestamps, XattrFlags,
};
use script::{
    AllocateMode, Command, Data, Expectation, OpenData, OpenFlags, OpenSync, RenameMode, Step,
    Sync, WriteCall, numbered,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `O_NONBLOCK` of Linux on x86: a FIFO without a reader answers ENXIO, where an open for writing would
/// wait for ever.
const NONBLOCKING: i32 = 0o4000;

fn opening() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(NONBLOCKING);
    options
}

/// A process of a script: where its calls are made, and what it has open.
#[derive(Debug)]
pub(crate) struct Calls {
    root: PathBuf,
    files: BTreeMap<String, File>,
}

/// How a call ended: as its line expects, with the failure that `try` reports, or otherwise.
pub(crate) type CallEnd = Result<Option<String>, String>;

impl Calls {
    /// A process that makes its calls below `root`; the umask must be 0.
    pub(crate) fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), files: BTreeMap::new() }
    }

    /// Makes the calls of a command, and holds their end against what its line expects.
    pub(crate) fn carry_out(&mut self, command: &Command) -> CallEnd {
        let call = name(&command.step);
        let expectation = command.expectation;
        match (expectation, self.make(&command.step)) {
            (Expectation::Success | Expectation::Either, Ok(())) => Ok(None),
            (Expectation::Success, Err(error)) => Err(format!("{call}: {error}")),
            (Expectation::Either, Err(error)) => Ok(Some(format!("{call}: {error}"))),
            (Expectation::Failure(expected), Ok(())) => {
                Err(format!("{expected} was expected, but the call succeeded"))
            }
            (Expectation::Failure(expected), Err(error)) => {
                if error.raw_os_error() == Some(expected.number()) {
                    return Ok(None);
                }
                Err(format!("{expected} was expected, but found {call}: {error}"))
            }
        }
    }

    /// Makes the calls of a step. A step for the harness makes none.
    ///
    /// It is long because it has one arm for each kind of step, and each arm is one call.
    ///
    /// # Errors
    /// The error of the first call that fails.
    fn make(&mut self, step: &Step) -> io::Result<()> {
        let root = self.root.clone();
        let at = |path: &[u8]| -> PathBuf { root.join(relative(path)) };
        match step {
            Step::Put { path, permissions, call } => put(&at(path), *permissions, call),
            Step::PutMany { prefix, numbers, permissions, call } => {
                numbers.clone().try_for_each(|number| {
                    // Each file has a seed of its own, or all would hold the same bytes.
                    let call = WriteCall { seed: call.seed.wrapping_add(number), ..call.clone() };
                    put(&at(&numbered(prefix, number)), *permissions, &call)
                })
            }
            Step::Append { path, call } => {
                write(&opening().append(true).open(at(path))?, call.offsets(0), call, true)
            }
            Step::Write { path, offset, call } => {
                let file = opening().write(true).open(at(path))?;
                write(&file, call.offsets(*offset), call, false)
            }
            Step::RandomWrite { path, count, file_bytes, place_seed, call } => {
                let file = opening().write(true).open(at(path))?;
                let offsets = call.random_offsets(*count, *file_bytes, *place_seed);
                write(&file, offsets, call, false)
            }
            Step::Read { path, chunk, offset, length } => read(&at(path), *chunk, *offset, *length),
            Step::Fsync { target, is_data_only } => self.fsync(target, *is_data_only),
            Step::SyncAll => {
                rustix::fs::sync();
                Ok(())
            }
            Step::Truncate { path, size } => opening().write(true).open(at(path))?.set_len(*size),
            Step::Rename { from, to, mode } => {
                let flags = match mode {
                    RenameMode::Replace => return std::fs::rename(at(from), at(to)),
                    RenameMode::NoReplace => RenameFlags::NOREPLACE,
                    RenameMode::Exchange => RenameFlags::EXCHANGE,
                    RenameMode::Whiteout => RenameFlags::WHITEOUT,
                };
                Ok(rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags)?)
            }
            Step::Allocate { path, offset, length, mode } => {
                let file = opening().write(true).open(at(path))?;
                let flags = match mode {
                    AllocateMode::Grow => FallocateFlags::empty(),
                    AllocateMode::KeepSize => FallocateFlags::KEEP_SIZE,
                    AllocateMode::PunchHole => {
                        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
                    }
                };
                Ok(rustix::fs::fallocate(file, flags, *offset, *length)?)
            }
            Step::Open { .. }
            | Step::WriteOpen { .. }
            | Step::WriteOpenAt { .. }
            | Step::ReadOpenAt { .. }
            | Step::TruncateOpen { .. }
            | Step::Close { .. }
            | Step::Exit => self.use_files(step),
            Step::Link { from, to } => std::fs::hard_link(at(from), at(to)),
            Step::Symlink { target, path } => {
                std::os::unix::fs::symlink(OsStr::from_bytes(target), at(path))
            }
            Step::Unlink { path } => std::fs::remove_file(at(path)),
            Step::UnlinkMany { prefix, numbers } => numbers
                .clone()
                .try_for_each(|number| std::fs::remove_file(at(&numbered(prefix, number)))),
            Step::MakeDirectory { path, permissions } => {
                DirBuilder::new().mode(*permissions).create(at(path))
            }
            Step::RemoveDirectory { path } => std::fs::remove_dir(at(path)),
            Step::ChangeMode { path, permissions } => {
                std::fs::set_permissions(at(path), Permissions::from_mode(*permissions))
            }
            Step::ChangeOwner { path, uid, gid } => {
                std::os::unix::fs::lchown(at(path), Some(*uid), Some(*gid))
            }
            Step::SetTimes { path, accessed, modified } => {
                let [last_access, last_modification] =
                    [*accessed, *modified].map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
                let times = Timestamps { last_access, last_modification };
                Ok(rustix::fs::utimensat(CWD, at(path), &times, AtFlags::empty())?)
            }
            Step::MakeNode { path, permissions, kind, device } => {
                make_node(&at(path), *permissions, *kind, *device)
            }
            Step::SetAttribute { path, name, value } => {
                let name = OsStr::from_bytes(name);
                Ok(rustix::fs::setxattr(at(path), name, value, XattrFlags::empty())?)
            }
            Step::Sleep { .. } | Step::Control(_) => Ok(()),
        }
    }

    /// Makes the calls of a step about open files.
    fn use_files(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Open { name, path, flags } => {
                if self.files.contains_key(name) {
                    let reason =
                        format!("a file is open as `{name}` already: `close {name}` comes first");
                    return Err(io::Error::other(reason));
                }
                let file = options_of(flags).open(self.root.join(relative(path)))?;
                self.files.insert(name.clone(), file);
                Ok(())
            }
            Step::WriteOpen { name, data } => {
                let bytes = bytes_of(data);
                self.open_file(name)?.write_all(&bytes)
            }
            Step::WriteOpenAt { name, offset, data } => {
                self.open_file(name)?.write_all_at(&bytes_of(data), *offset)
            }
            Step::ReadOpenAt { name, offset, length } => {
                let mut bytes = vec![0; *length as usize];
                self.open_file(name)?.read_at(&mut bytes, *offset).map(drop)
            }
            Step::TruncateOpen { name, size } => self.open_file(name)?.set_len(*size),
            Step::Close { name } => {
                self.open_file(name)?;
                // `File` tells of no error when it is closed, and the file systems have none to tell.
                self.files.remove(name);
                Ok(())
            }
            Step::Exit => {
                self.files.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Names of what is open.
    pub(crate) fn open_names(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn open_file(&mut self, name: &str) -> io::Result<&mut File> {
        let number = Errno::Ebadf.number();
        self.files.get_mut(name).ok_or_else(|| io::Error::from_raw_os_error(number))
    }

    /// An open file of that name goes before a path, which may be that of a directory.
    fn fsync(&self, target: &[u8], is_data_only: bool) -> io::Result<()> {
        let open = str::from_utf8(target).ok().and_then(|name| self.files.get(name));
        match (open, is_data_only) {
            (Some(file), true) => file.sync_data(),
            (Some(file), false) => file.sync_all(),
            (None, _) => opening().read(true).open(self.root.join(relative(target)))?.sync_all(),
        }
    }
}

/// The bytes of one call to an open file.
fn bytes_of(data: &OpenData) -> Vec<u8> {
    Data::new(data.kind.clone(), data.seed).take(data.length as usize)
}

/// Flags of the language as those of the standard library, which adds `O_CLOEXEC`.
fn options_of(flags: &OpenFlags) -> OpenOptions {
    /// `O_TRUNC`, `O_APPEND`, `O_DSYNC` and `O_SYNC` of Linux on x86 and Arm.
    const TRUNCATES: i32 = 0o1000;
    const APPENDS: i32 = 0o2000;
    const SYNCS_DATA: i32 = 0o10000;
    const SYNCS: i32 = 0o4_010_000;
    const CREATES: i32 = 0o100;
    const EXCLUSIVE: i32 = 0o200;
    // Given as numbers: the standard library refuses some that Linux takes.
    let mut bits = NONBLOCKING;
    let sync = match flags.sync {
        OpenSync::Never => 0,
        OpenSync::Data => SYNCS_DATA,
        OpenSync::All => SYNCS,
    };
    bits |= sync;
    let given = [
        (flags.truncates, TRUNCATES),
        (flags.appends, APPENDS),
        (flags.create.is_some(), CREATES),
        (flags.is_exclusive, EXCLUSIVE),
    ];
    bits |= given.iter().filter(|(is_given, _)| *is_given).map(|(_, bit)| bit).sum::<i32>();
    let mut options = OpenOptions::new();
    options.read(flags.reads).write(flags.writes).custom_flags(bits);
    options.mode(flags.create.unwrap_or(0));
    options
}

/// The call that a step is named after, for messages.
fn name(step: &Step) -> &'static str {
    match step {
        Step::Put { .. } => "put",
        Step::PutMany { .. } => "putn",
        Step::Append { .. } => "append",
        Step::Write { .. } | Step::WriteOpen { .. } => "write",
        Step::WriteOpenAt { .. } => "pwrite",
        Step::ReadOpenAt { .. } => "pread",
        Step::TruncateOpen { .. } => "ftruncate",
        Step::Open { .. } => "open",
        Step::Close { .. } | Step::Exit => "close",
        Step::Allocate { .. } => "fallocate",
        Step::RandomWrite { .. } => "rwrite",
        Step::Read { .. } => "read",
        Step::Fsync { is_data_only: true, .. } => "fdatasync",
        Step::Fsync { .. } => "fsync",
        Step::SyncAll => "sync",
        Step::Truncate { .. } => "truncate",
        Step::Rename { .. } => "rename",
        Step::Link { .. } => "link",
        Step::Symlink { .. } => "symlink",
        Step::Unlink { .. } => "unlink",
        Step::UnlinkMany { .. } => "unlinkn",
        Step::MakeDirectory { .. } => "mkdir",
        Step::RemoveDirectory { .. } => "rmdir",
        Step::ChangeMode { .. } => "chmod",
        Step::ChangeOwner { .. } => "chown",
        Step::SetTimes { .. } => "utime",
        Step::MakeNode { .. } => "mknod",
        Step::SetAttribute { .. } => "setxattr",
        Step::Sleep { .. } => "sleep",
        Step::Control(_) => "harness",
    }
}

/// A path without the slashes that would lead it away from the mount point.
fn relative(path: &[u8]) -> &Path {
    let begin = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    Path::new(OsStr::from_bytes(&path[begin..]))
}

fn put(path: &Path, permissions: u32, call: &WriteCall) -> io::Result<()> {
    let mut options = opening();
    options.write(true).create(true).truncate(true).mode(permissions);
    write(&options.open(path)?, call.offsets(0), call, false)
}

/// Writes one chunk after the other, each at its offset or at the end.
fn write(
    mut file: &File,
    offsets: impl Iterator<Item = u64>,
    call: &WriteCall,
    appends: bool,
) -> io::Result<()> {
    let mut data = Data::new(call.kind.clone(), call.seed);
    let mut left = call.length;
    let mut bytes = vec![0; call.chunk.min(call.length) as usize];
    for offset in offsets {
        let count = left.min(call.chunk) as usize;
        data.fill(&mut bytes[..count]);
        // `O_APPEND` decides the place itself; `pwrite` on such a file ignores its offset on Linux.
        if appends {
            file.write_all(&bytes[..count])?;
        } else {
            file.write_all_at(&bytes[..count], offset)?;
        }
        if call.sync == Sync::Each {
            file.sync_all()?;
        }
        left -= count as u64;
    }
    if call.sync == Sync::AtEnd { file.sync_all() } else { Ok(()) }
}

fn read(path: &Path, chunk: u64, offset: u64, length: Option<u64>) -> io::Result<()> {
    let mut file = opening().read(true).open(path)?;
    // A FIFO has no places to seek to, but may be read from its beginning.
    if offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
    }
    let mut left = length.unwrap_or(u64::MAX);
    let mut bytes = vec![0; chunk.min(left) as usize];
    while left > 0 {
        let asked = left.min(chunk) as usize;
        let count = file.read(&mut bytes[..asked])?;
        if count == 0 {
            break;
        }
        left -= count as u64;
    }
    Ok(())
}

fn make_node(
    path: &Path,
    permissions: u32,
    kind: FileType,
    (major, minor): (u32, u32),
) -> io::Result<()> {
    let kind = rustix::fs::FileType::from_raw_mode(kind.mode_bits());
    let device = rustix::fs::makedev(major, minor);
    Ok(rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(permissions), device)?)
}

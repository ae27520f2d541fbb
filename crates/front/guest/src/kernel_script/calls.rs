//! The system calls of a script, made.

use fs_api::FileType;
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, XattrFlags};
use script::{Data, Step, Sync, WriteCall, numbered};
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

/// Makes the calls of a step below `root`; the umask must be 0. A step for the harness makes none.
///
/// It is long because it has one arm for each kind of step, and each arm is one call.
///
/// # Errors
/// The error of the first call that fails.
pub(crate) fn make(root: &Path, step: &Step) -> io::Result<()> {
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
        Step::Fsync { path } => opening().read(true).write(true).open(at(path))?.sync_all(),
        Step::SyncAll => {
            rustix::fs::sync();
            Ok(())
        }
        Step::Truncate { path, size } => opening().write(true).open(at(path))?.set_len(*size),
        Step::Rename { from, to } => std::fs::rename(at(from), at(to)),
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

/// The call that a step is named after, for messages.
pub(crate) fn name(step: &Step) -> &'static str {
    match step {
        Step::Put { .. } => "put",
        Step::PutMany { .. } => "putn",
        Step::Append { .. } => "append",
        Step::Write { .. } => "write",
        Step::RandomWrite { .. } => "rwrite",
        Step::Read { .. } => "read",
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

//! Trees out of images, onto the host.
//!
//! Everything is made below one open directory by calls that follow no symbolic link, under names
//! that are single components: whatever a damaged image says, nothing outside is touched.

use crate::error::ImageError;
use crate::options::ExtractOptions;
use crate::unfinished::Unfinished;
use fs_api::{Attributes, FileSystem, FileType, InodeNumber, PAGE_BYTES};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RawMode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod,
    fsetxattr, ftruncate, linkat, mkdirat, mknodat, openat, symlinkat, utimensat,
};
use rustix::io::{Errno, pwrite};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use vfs::contents::{Piece, read_pieces};
use vfs::escape_path;
use vfs::tree::{FoundNode, TreeDamage, walk_damaged};

/// What became of an extraction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Names that were made.
    pub names: u64,
    /// Bytes that were written to files.
    pub bytes: u64,
    /// Paths, escaped, and why they, or a part of them, were left out.
    pub left_out: Vec<(String, String)>,
    /// What an extraction that was killed had left in the place of this one, and what is gone now.
    pub replaced: Option<PathBuf>,
}

/// Folder in the unfinished one that becomes the directory: by it, and nothing beside it, what an
/// extraction left behind is known from a folder of the user's.
const TREE: &str = "tree";

/// Makes the folder that a directory is filled in, and the tree in it; true if one that an extraction left
/// when it was killed was in the way, and gave way.
fn make_unfinished(unfinished: &Path) -> Result<bool, ImageError> {
    let mut is_replaced = false;
    if unfinished.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        let entries = std::fs::read_dir(unfinished).map_err(ImageError::io(unfinished))?;
        let names: Result<Vec<_>, _> =
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
        let names = names.map_err(ImageError::io(unfinished))?;
        // A folder of this name that holds anything else is the user's.
        if names.iter().all(|name| name == TREE) {
            std::fs::remove_dir_all(unfinished).map_err(ImageError::io(unfinished))?;
            is_replaced = true;
        }
    }
    std::fs::create_dir(unfinished).map_err(ImageError::io(unfinished))?;
    let tree = unfinished.join(TREE);
    std::fs::create_dir(&tree).map_err(ImageError::io(&tree))?;
    Ok(is_replaced)
}

/// Fills a directory, which must not exist, and appears when it is complete.
pub(crate) fn appear(
    to: &Path,
    fill: impl FnOnce(&Path, OwnedFd) -> Result<Extracted, ImageError>,
) -> Result<Extracted, ImageError> {
    let exists = || std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    if to.symlink_metadata().is_ok() {
        return Err(ImageError::io(to)(exists()));
    }
    let Some(name) = to.file_name() else { return Err(ImageError::io(to)(exists())) };
    let mut unfinished = name.to_owned();
    unfinished.push(".unfinished");
    let unfinished = to.with_file_name(unfinished);
    let is_replaced = make_unfinished(&unfinished)?;
    // What is left behind by a failure, a panic or an interruption is removed with the folder.
    let guard = Unfinished(&unfinished);
    let tree = unfinished.join(TREE);
    let root = rustix::fs::open(&tree, OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
        .map_err(|error| ImageError::io(to)(error.into()))?;
    let extracted = fill(&tree, root)?;
    // The name appears by renaming, when all is there.
    std::fs::rename(&tree, to).map_err(ImageError::io(to))?;
    drop(guard);
    Ok(Extracted { replaced: is_replaced.then(|| unfinished.clone()), ..extracted })
}

pub(crate) struct Extraction<F> {
    file_system: Rc<F>,
    options: ExtractOptions,
    file_bytes_max: u64,
    done: Extracted,
    /// Where each inode that is no directory was made first.
    first_names: BTreeMap<InodeNumber, Vec<u8>>,
}

impl<F: FileSystem> Extraction<F> {
    /// No file that claims to be longer than `file_bytes_max` is read.
    pub(crate) fn new(file_system: Rc<F>, options: ExtractOptions, file_bytes_max: u64) -> Self {
        Self {
            file_system,
            options,
            file_bytes_max,
            done: Extracted::default(),
            first_names: BTreeMap::new(),
        }
    }

    /// Makes everything below a directory.
    pub(crate) async fn run(mut self, root: OwnedFd) -> Extracted {
        let mut damage = Vec::new();
        let nodes = walk_damaged(&*self.file_system, |path, found| {
            let what = match found {
                TreeDamage::SecondName => "the directory has another name already".into(),
                TreeDamage::LongPath => "the path is too long".into(),
                TreeDamage::BadName => "no file can have this name".into(),
                TreeDamage::Attributes(errno) | TreeDamage::Names(errno) => errno.to_string(),
            };
            damage.push((escape_path(path), what));
        })
        .await;
        self.done.left_out = damage;
        let mut directories = Vec::new();
        for FoundNode { path, inode, attributes } in &nodes {
            let Some(attributes) = attributes else { continue };
            if path.is_empty() {
                directories.push((path.clone(), *attributes));
                continue;
            }
            match self.make(&root, path, *inode, attributes).await {
                Ok(()) => self.done.names += 1,
                Err(what) => {
                    self.done.left_out.push((escape_path(path), what));
                    continue;
                }
            }
            if attributes.kind == FileType::Directory {
                directories.push((path.clone(), *attributes));
            }
        }
        // Permissions and times of directories last, the deepest first: making names changes them,
        // and a directory may not admit writes.
        for (path, attributes) in directories.iter().rev() {
            if let Err(error) = self.finish_directory(&root, path, attributes) {
                self.done.left_out.push((escape_path(path), format!("attributes: {error}")));
            }
        }
        self.done
    }

    async fn make(
        &mut self,
        root: &OwnedFd,
        path: &[u8],
        inode: InodeNumber,
        attributes: &Attributes,
    ) -> Result<(), String> {
        let (parent, name) = open_parent(root, path)?;
        let is_directory = attributes.kind == FileType::Directory;
        // A directory has one name; anything else may have several.
        if !is_directory && let Some(first) = self.first_names.get(&inode) {
            let (other, other_name) = open_parent(root, first)?;
            return linkat(&other, other_name, &parent, name, AtFlags::empty()).map_err(text_of);
        }
        match attributes.kind {
            // For the owner alone while it is filled; `finish_directory` sets the rest.
            FileType::Directory => mkdirat(&parent, name, Mode::RWXU).map_err(text_of)?,
            FileType::Regular => {
                let size_bytes = attributes.size_bytes;
                if let Some(what) = self.write_file(&parent, name, inode, size_bytes).await? {
                    self.done.left_out.push((escape_path(path), what));
                }
            }
            FileType::Symlink => {
                let target = self.file_system.read_link(inode).await;
                let target = target.map_err(|errno| errno.to_string())?;
                symlinkat(&target[..], &parent, name).map_err(text_of)?;
            }
            kind => {
                if !self.options.has_devices {
                    return Err("devices, pipes and sockets are left out".into());
                }
                let kind = rustix::fs::FileType::from_raw_mode(kind.mode_bits() as RawMode);
                let (major, minor) = attributes.device;
                let device = rustix::fs::makedev(major, minor);
                mknodat(&parent, name, kind, Mode::RUSR | Mode::WUSR, device).map_err(text_of)?;
            }
        }
        self.set_extended_attributes(&parent, path, inode, attributes.kind).await;
        if is_directory {
            return Ok(());
        }
        self.first_names.insert(inode, path.to_vec());
        self.set_attributes(&parent, name, attributes).map_err(text_of)
    }

    /// Sets the attributes of users, where the host has such; what is not set is reported.
    async fn set_extended_attributes(
        &mut self,
        parent: &OwnedFd,
        path: &[u8],
        inode: InodeNumber,
        kind: FileType,
    ) {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let names = match self.file_system.list_attributes(inode).await {
            Ok(names) => names,
            Err(errno) => {
                self.done.left_out.push((escape_path(path), format!("attributes: {errno}")));
                return;
            }
        };
        for attribute in names {
            let shown = escape_path(&attribute);
            let value = match self.file_system.extended_attribute(inode, &attribute).await {
                Ok(value) => value,
                Err(errno) => {
                    self.done.left_out.push((escape_path(path), format!("{shown}: {errno}")));
                    continue;
                }
            };
            let may_have = matches!(kind, FileType::Regular | FileType::Directory);
            let done = if may_have && attribute.starts_with(b"user.") {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
                openat(parent, name, flags, Mode::empty())
                    .and_then(|file| fsetxattr(&file, &attribute[..], &value, XattrFlags::empty()))
                    .map_err(|error| error.to_string())
            } else {
                Err("only user.* of files and directories is set".into())
            };
            if let Err(error) = done {
                let what = format!("attribute {shown} is left out: {error}");
                self.done.left_out.push((escape_path(path), what));
            }
        }
    }

    /// Writes the contents of a file; what of them cannot be read stays zero, and is reported.
    async fn write_file(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        inode: InodeNumber,
        size_bytes: u64,
    ) -> Result<Option<String>, String> {
        if size_bytes > self.file_bytes_max {
            return Err(format!("a file of {size_bytes} bytes is not read: its size is damaged"));
        }
        // `EXCL` and `NOFOLLOW`: nothing that is there is written through.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(parent, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| error.to_string())?;
        // Of its whole length: what is not written is a hole.
        ftruncate(&file, size_bytes).map_err(|error| error.to_string())?;
        let mut written = 0;
        let mut refused = None;
        let write = |piece: Piece<'_>| {
            let Piece::Data(offset, bytes) = piece else { return Ok(()) };
            for (start, page) in (offset..).step_by(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES)) {
                // Zeros stay holes.
                if page.iter().any(|byte| *byte != 0) {
                    if let Err(error) = write_all(&file, page, start) {
                        refused = Some(error);
                        return Err(fs_api::Errno::Eio);
                    }
                    written += page.len() as u64;
                }
            }
            Ok(())
        };
        let read = read_pieces(&*self.file_system, inode, write).await;
        self.done.bytes += written;
        if let Some(error) = refused {
            return Err(error.to_string());
        }
        Ok(read.err().map(|error| format!("bytes from {} on: {}", error.offset, error.errno)))
    }

    fn set_attributes(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        attributes: &Attributes,
    ) -> Result<(), Errno> {
        let at = AtFlags::SYMLINK_NOFOLLOW;
        if self.options.has_owners {
            let owner = Some(Uid::from_raw(attributes.uid));
            chownat(parent, name, owner, Some(Gid::from_raw(attributes.gid)), at)?;
        }
        // After the owner, whose change takes set-uid away. Symbolic links have no permissions.
        if attributes.kind != FileType::Symlink {
            let mode = Mode::from_raw_mode(attributes.permissions as RawMode);
            if attributes.kind == FileType::Regular {
                let flags = OFlags::WRONLY | OFlags::NOFOLLOW;
                fchmod(openat(parent, name, flags, Mode::empty())?, mode)?;
            } else {
                rustix::fs::chmodat(parent, name, mode, AtFlags::empty())?;
            }
        }
        utimensat(parent, name, &times(attributes), at)
    }

    fn finish_directory(
        &self,
        root: &OwnedFd,
        path: &[u8],
        attributes: &Attributes,
    ) -> Result<(), String> {
        let directory = open_directory(root, path)?;
        if self.options.has_owners {
            let (owner, group) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            rustix::fs::fchown(&directory, Some(owner), Some(group)).map_err(text_of)?;
        }
        fchmod(&directory, Mode::from_raw_mode(attributes.permissions as RawMode))
            .map_err(text_of)?;
        rustix::fs::futimens(&directory, &times(attributes)).map_err(text_of)
    }
}

/// The words of an error of the host.
fn text_of(error: Errno) -> String {
    error.to_string()
}

fn times(attributes: &Attributes) -> Timestamps {
    let time =
        |time: fs_api::Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    Timestamps {
        last_access: time(attributes.accessed),
        last_modification: time(attributes.modified),
    }
}

fn write_all(file: &OwnedFd, bytes: &[u8], start: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        done += pwrite(file, &bytes[done..], start + done as u64)?;
    }
    Ok(())
}

/// The directory that holds the last name of a path, and that name.
fn open_parent<'p>(root: &OwnedFd, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8]), String> {
    let end = path.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = match end {
        Some(end) => (&path[..end], &path[end + 1..]),
        None => (&[][..], path),
    };
    check_name(name)?;
    Ok((open_directory(root, parent)?, name))
}

fn open_directory(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut at = openat(root, ".", flags, Mode::empty()).map_err(text_of)?;
    // An empty path is the root, where `split` would give an empty name.
    for name in path.split(|byte| *byte == b'/').filter(|_| !path.is_empty()) {
        check_name(name)?;
        at = openat(&at, name, flags, Mode::empty()).map_err(text_of)?;
    }
    Ok(at)
}

fn check_name(name: &[u8]) -> Result<(), String> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
        return Err("this is no name of a file".into());
    }
    Ok(())
}

//! The tree that the kernel shows, as a manifest.

use fs_api::FileType;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use vfs::{Manifest, ManifestRow, escape_path, hexadecimal};

/// Reads all below `root`, contents included, in the order of the bytes of the paths.
///
/// # Errors
/// The error of the first call that fails.
pub(crate) fn manifest(root: &Path) -> io::Result<Manifest> {
    let mut paths = vec![Vec::new()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        let directory = root.join(OsStr::from_bytes(&path));
        // Not followed: a link to a directory is a link in the manifest.
        if !std::fs::symlink_metadata(&directory)?.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&directory)? {
            let name = entry?.file_name();
            let mut below = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(name.as_bytes());
            paths.push(below);
        }
    }
    // By bytes, whatever order the kernel lists them in.
    paths.sort();
    let rows = paths.iter().map(|path| row(root, path)).collect::<io::Result<_>>()?;
    Ok(Manifest { rows })
}

fn row(root: &Path, path: &[u8]) -> io::Result<ManifestRow> {
    let at = root.join(OsStr::from_bytes(path));
    let found = std::fs::symlink_metadata(&at)?;
    let kind = FileType::from_mode(found.mode())
        .ok_or_else(|| io::Error::other(format!("{}: an inode of no kind", at.display())))?;
    let target = (kind == FileType::Symlink).then(|| std::fs::read_link(&at)).transpose()?;
    let device = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    Ok(ManifestRow {
        kind: kind.letter(),
        permissions: found.mode() & 0o7777,
        links: u32::try_from(found.nlink()).map_err(io::Error::other)?,
        uid: found.uid(),
        gid: found.gid(),
        // The size of a directory has no common meaning: file systems and kernels differ in it.
        size_bytes: if kind == FileType::Directory { 0 } else { found.size() },
        modified: found.mtime(),
        device: kind.is_device().then_some(device),
        sha256: (kind == FileType::Regular).then(|| hash(&at)).transpose()?,
        target: target.map(|target| escape_path(target.as_os_str().as_bytes())),
        extended: extended_attributes(&at)?,
        path: if path.is_empty() { ".".into() } else { escape_path(path) },
    })
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut bytes = vec![0; 1 << 16];
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hexadecimal(&hash.finalize())),
            count => hash.update(&bytes[..count]),
        }
    }
}

/// Attributes by name, those of the kernel itself (`system.`) left out.
fn extended_attributes(path: &Path) -> io::Result<Vec<(String, String)>> {
    let mut names = vec![0; 1 << 16];
    let length = match rustix::fs::llistxattr(path, &mut names[..]) {
        // JFFS2 and UBIFS of a kernel without extended attributes.
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        found => found?,
    };
    let mut extended = Vec::new();
    let mut value = vec![0; 1 << 16];
    for name in names[..length].split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(b"system.") {
            continue;
        }
        let length = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..])?;
        extended.push((escape_path(name), hexadecimal(&value[..length])));
    }
    extended.sort();
    Ok(extended)
}

//! A tree of the host, as an image shall hold it.

use crate::error::ImageError;
use fs_api::FileType;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A directory, whose names follow.
    Directory,
    /// A regular file of the host.
    File(PathBuf),
    /// Another name of what an earlier path names.
    Link(Vec<u8>),
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// A device, pipe or socket.
    Special(FileType, (u32, u32)),
}

/// A name with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceNode {
    pub(crate) content: Content,
    pub(crate) permissions: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Time of the last change, seconds since 1970.
    pub(crate) modified: i64,
}

/// All names by their path; the empty one is the root. A directory comes before what is in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) nodes: BTreeMap<Vec<u8>, SourceNode>,
}

impl Source {
    /// Reads a directory of the host.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub(crate) fn read(from: &Path) -> Result<Self, ImageError> {
        let mut source = Self::default();
        let metadata = from.metadata().map_err(ImageError::io(from))?;
        if !metadata.is_dir() {
            return Err(ImageError::content(from, "this is no directory"));
        }
        source.nodes.insert(Vec::new(), node(Content::Directory, &metadata));
        let mut first_names = BTreeMap::new();
        source.add_directory(from, &[], &mut first_names)?;
        Ok(source)
    }

    fn add_directory(
        &mut self,
        from: &Path,
        path: &[u8],
        first_names: &mut BTreeMap<(u64, u64), Vec<u8>>,
    ) -> Result<(), ImageError> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(from).map_err(ImageError::io(from))? {
            names.push(entry.map_err(ImageError::io(from))?.file_name());
        }
        // The order in which a directory returns its names is the host's own.
        names.sort();
        for name in names {
            let host = from.join(&name);
            let failed = ImageError::io(&host);
            // Not `metadata`: a link of the tree is a link in the image, wherever it leads.
            let metadata = host.symlink_metadata().map_err(&failed)?;
            let below = if path.is_empty() {
                name.as_bytes().to_vec()
            } else {
                [path, b"/", name.as_bytes()].concat()
            };
            let kind = metadata.file_type();
            let key = (metadata.dev(), metadata.ino());
            let device = metadata.rdev();
            let device = (rustix::fs::major(device), rustix::fs::minor(device));
            let content = if kind.is_dir() {
                Content::Directory
            // A directory is never a hard link; of other files the first name in the order of
            // bytes is the file, so that the same tree gives the same image on every host.
            } else if metadata.nlink() > 1
                && let Some(first) = first_names.get(&key)
            {
                Content::Link(first.clone())
            } else if kind.is_file() {
                Content::File(host.clone())
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&host).map_err(&failed)?;
                Content::Symlink(target.as_os_str().as_bytes().to_vec())
            } else if kind.is_char_device() {
                Content::Special(FileType::CharacterDevice, device)
            } else if kind.is_block_device() {
                Content::Special(FileType::BlockDevice, device)
            } else if kind.is_fifo() {
                Content::Special(FileType::Fifo, (0, 0))
            } else {
                Content::Special(FileType::Socket, (0, 0))
            };
            if !kind.is_dir() {
                first_names.entry(key).or_insert_with(|| below.clone());
            }
            self.nodes.insert(below.clone(), node(content, &metadata));
            if kind.is_dir() {
                self.add_directory(&host, &below, first_names)?;
            }
        }
        Ok(())
    }

    /// Makes root the owner of everything.
    pub(crate) fn squash_owners(&mut self) {
        for node in self.nodes.values_mut() {
            (node.uid, node.gid) = (0, 0);
        }
    }

    /// Takes away what lets others write, set-uid and set-gid, as mkfs.jffs2 does.
    pub(crate) fn squash_permissions(&mut self) {
        for node in self.nodes.values_mut() {
            // `squash_perms` of mkfs.jffs2: set-uid, set-gid, and what group and others write.
            node.permissions &= !0o6022;
        }
    }

    /// Sets times that are later to this one.
    pub(crate) fn limit_times(&mut self, latest: i64) {
        for node in self.nodes.values_mut() {
            // Earlier times stay: that is what SOURCE_DATE_EPOCH asks of reproducible builds.
            node.modified = node.modified.min(latest);
        }
    }
}

fn node(content: Content, metadata: &std::fs::Metadata) -> SourceNode {
    SourceNode {
        content,
        permissions: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        modified: metadata.mtime(),
    }
}

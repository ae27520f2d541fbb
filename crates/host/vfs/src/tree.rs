//! All that a file system holds.

use fs_api::{Attributes, Errno, FileSystem, FileType, InodeNumber};
use std::collections::BTreeSet;

/// Something that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path from the root; empty for the root itself.
    pub path: Vec<u8>,
    /// Number of the inode.
    pub inode: InodeNumber,
    /// Its attributes, as `stat` returns them.
    pub attributes: Attributes,
}

/// Longest path that is followed, bytes: as Linux takes them (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;

/// Everything below and with the root, in the order of the bytes of the paths.
///
/// # Errors
/// The [`Errno`] of the first call that failed, [`Errno::Eio`] for damage.
pub async fn walk<F: FileSystem>(file_system: &F) -> Result<Vec<Node>, Errno> {
    let mut first = None;
    let found = walk_damaged(file_system, |_, damage| {
        first.get_or_insert(damage.errno());
    })
    .await;
    match first {
        Some(errno) => Err(errno),
        None => Ok(found.into_iter().filter_map(FoundNode::whole).collect()),
    }
}

/// A name, and what is known of what it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundNode {
    /// Path from the root; empty for the root itself.
    pub path: Vec<u8>,
    /// Number of the inode.
    pub inode: InodeNumber,
    /// Its attributes; none if `stat` fails.
    pub attributes: Option<Attributes>,
}

impl FoundNode {
    fn whole(self) -> Option<Node> {
        let Self { path, inode, attributes } = self;
        attributes.map(|attributes| Node { path, inode, attributes })
    }
}

/// What keeps a part of a tree from being seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeDamage {
    /// A name whose inode cannot be read.
    Attributes(Errno),
    /// A directory whose names cannot be read.
    Names(Errno),
    /// A directory that has another name already, perhaps within itself.
    SecondName,
    /// A path longer than any call takes.
    LongPath,
    /// A name that no call can make: empty, of dots that stand for directories, or with a slash or a NUL.
    BadName,
}

impl TreeDamage {
    /// What a call on it would answer.
    pub const fn errno(self) -> Errno {
        match self {
            Self::Attributes(errno) | Self::Names(errno) => errno,
            Self::SecondName | Self::LongPath | Self::BadName => Errno::Eio,
        }
    }
}

/// [`walk`] over a file system that may be damaged: `report` gets what cannot be read, with its
/// path, and the rest is found. A directory is entered once, so that the walk ends.
pub async fn walk_damaged<F: FileSystem>(
    file_system: &F,
    mut report: impl FnMut(&[u8], TreeDamage),
) -> Vec<FoundNode> {
    let root = file_system.root();
    let mut nodes = vec![FoundNode { path: Vec::new(), inode: root, attributes: None }];
    let mut entered = BTreeSet::new();
    // A list and not a recursion: a damaged directory may be deeper than any stack.
    let mut next = 0;
    while next < nodes.len() {
        let FoundNode { path, inode, .. } = nodes[next].clone();
        match file_system.attributes(inode).await {
            Ok(attributes) => nodes[next].attributes = Some(attributes),
            Err(errno) => report(&path, TreeDamage::Attributes(errno)),
        }
        let kind = nodes[next].attributes.map(|attributes| attributes.kind);
        next += 1;
        if kind != Some(FileType::Directory) {
            continue;
        }
        // A directory with two names could contain itself.
        if !entered.insert(inode) {
            report(&path, TreeDamage::SecondName);
            continue;
        }
        let entries = match file_system.read_directory(inode).await {
            Ok(entries) => entries,
            Err(errno) => {
                report(&path, TreeDamage::Names(errno));
                continue;
            }
        };
        for entry in entries {
            // Whoever made such a path from it would leave the directory, or the tree.
            let is_bad = !is_name(&entry.name);
            let mut below = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(&entry.name);
            // Reported with as much as fits: the name itself may be damaged.
            if below.len() > PATH_BYTES_MAX {
                report(&below[..PATH_BYTES_MAX], TreeDamage::LongPath);
                continue;
            }
            if is_bad {
                report(&below, TreeDamage::BadName);
                continue;
            }
            nodes.push(FoundNode { path: below, inode: entry.inode, attributes: None });
        }
    }
    // Sorted at the end, because directories list their names in orders of their own.
    nodes.sort_by(|a, b| a.path.cmp(&b.path));
    nodes
}

/// Whether a name is one that an entry of a directory may have. A kernel refuses to show slashes and empty
/// names (`verify_dirent_name` of `fs/readdir.c`), and no call makes the others.
pub fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

/// Hands the bytes of a file to `see`, in pieces.
///
/// # Errors
/// The [`Errno`] of the first call that failed, [`Errno::Eio`] for damage.
pub async fn read_all<F: FileSystem>(
    file_system: &F,
    inode: InodeNumber,
    mut see: impl FnMut(&[u8]),
) -> Result<(), Errno> {
    let mut piece = vec![0; 16 * fs_api::PAGE_BYTES];
    let mut offset = 0;
    loop {
        let count = file_system.read_bytes(inode, offset, &mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        see(&piece[..count]);
        offset += count as u64;
    }
}

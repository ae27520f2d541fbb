//! All that a file system holds.

use crate::vfs::read_bytes;
use posix::{Attributes, Errno, FileSystem, FileType, InodeNumber};

/// Something that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Path from the root; empty for the root itself.
    pub path: Vec<u8>,
    /// Inode.
    pub inode: InodeNumber,
    /// What `stat` tells.
    pub attributes: Attributes,
}

/// Everything below and with the root, in the order of the bytes of the paths.
///
/// # Errors
/// The first of the file system.
pub async fn walk<F: FileSystem>(file_system: &F) -> Result<Vec<Node>, Errno> {
    let root = file_system.root();
    let attributes = file_system.attributes(root).await?;
    let mut nodes = vec![Node { path: Vec::new(), inode: root, attributes }];
    let mut next = 0;
    while next < nodes.len() {
        let Node { path, inode, attributes } = nodes[next].clone();
        next += 1;
        if attributes.kind != FileType::Directory {
            continue;
        }
        for entry in file_system.read_directory(inode).await? {
            let mut below = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(&entry.name);
            let attributes = file_system.attributes(entry.inode).await?;
            nodes.push(Node { path: below, inode: entry.inode, attributes });
        }
    }
    nodes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(nodes)
}

/// Hands the bytes of a file to `see`, in pieces.
///
/// # Errors
/// The first of the file system.
pub async fn read_all<F: FileSystem>(
    file_system: &F,
    inode: InodeNumber,
    mut see: impl FnMut(&[u8]),
) -> Result<(), Errno> {
    let mut piece = vec![0; 16 * posix::PAGE_BYTES];
    let mut offset = 0;
    loop {
        let count = read_bytes(file_system, inode, offset, &mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        see(&piece[..count]);
        offset += count as u64;
    }
}

//! A tree of the host, copied into an empty file system.

use crate::error::ImageError;
use crate::host_file::{HostFile, Piece};
use crate::options::MakeOptions;
use crate::source::{Content, Source, SourceNode};
use fs_api::{Caller, Changes, Errno, FileSystem, NewInode, PAGE_BYTES, Time};
use std::path::Path;
use vfs::{OpenOptions, Vfs};

/// The tree with the changes that are asked for.
pub(crate) fn read_source(from: &Path, options: &MakeOptions) -> Result<Source, ImageError> {
    let mut source = Source::read(from)?;
    if let Some(table) = &options.device_table {
        source.apply_device_table(table)?;
    }
    if options.squashes_owners {
        source.squash_owners();
    }
    if options.squashes_permissions {
        source.squash_permissions();
    }
    if let Some(latest) = options.latest_time {
        source.limit_times(latest);
    }
    Ok(source)
}

/// Copies a tree into an empty file system, and unmounts it.
pub(crate) async fn copy<F: FileSystem + 'static>(
    vfs: &Vfs<F>,
    source: &Source,
) -> Result<(), ImageError> {
    for (path, node) in &source.nodes {
        if !path.is_empty() {
            copy_node(vfs, path, node).await?;
        }
    }
    // Names made in a directory change its times; the deepest come first.
    for (path, node) in source.nodes.iter().rev() {
        if node.content == Content::Directory {
            let time = Time::from_seconds(node.modified);
            // Only the root was there before; all others were made with their owner and mode.
            let to = Changes {
                permissions: path.is_empty().then_some(node.permissions),
                uid: path.is_empty().then_some(node.uid),
                gid: path.is_empty().then_some(node.gid),
                accessed: Some(time),
                modified: Some(time),
                ..Changes::default()
            };
            let changed = vfs.change(&caller(node), path, &to).await;
            changed.map_err(|errno| failed(path, errno))?;
        }
    }
    let synced = vfs.sync().await.and(vfs.unmount().await);
    synced.map_err(|errno| failed(b"", errno))
}

fn caller(node: &SourceNode) -> Caller {
    // The clock stands at the time of the file, so that the image depends on the tree alone.
    Caller { uid: node.uid, gid: node.gid, now: Time::from_seconds(node.modified) }
}

pub(crate) fn failed(path: &[u8], errno: Errno) -> ImageError {
    let hint = match errno {
        Errno::Enospc => ": the tree does not fit; give a chip more --blocks, a device more --size",
        Errno::Enametoolong => ": the name or the target is too long for the file system",
        _ => "",
    };
    ImageError::Make { name: format!("/{}", vfs::escape_path(path)), errno, hint }
}

async fn copy_node<F: FileSystem + 'static>(
    vfs: &Vfs<F>,
    path: &[u8],
    node: &SourceNode,
) -> Result<(), ImageError> {
    let caller = caller(node);
    let new = match &node.content {
        Content::Directory => NewInode::Directory(node.permissions),
        Content::Symlink(target) => NewInode::Symlink(target),
        Content::Special(kind, device) => {
            NewInode::Special(kind.mode_bits() | node.permissions, *device)
        }
        Content::Link(first) => {
            let linked = vfs.link(&caller, first, path).await;
            return linked.map_err(|errno| failed(path, errno));
        }
        Content::File(host) => return copy_file(vfs, path, node, host).await,
    };
    vfs.make(&caller, path, new).await.map(drop).map_err(|errno| failed(path, errno))
}

async fn copy_file<F: FileSystem + 'static>(
    vfs: &Vfs<F>,
    path: &[u8],
    node: &SourceNode,
    host: &Path,
) -> Result<(), ImageError> {
    let caller = caller(node);
    let create = OpenOptions { create: Some(node.permissions), ..OpenOptions::default() };
    let refused = |errno| failed(path, errno);
    let file = vfs.open(&caller, path, create).await.map_err(refused)?;
    let mut reader = HostFile::open(host)?;
    let mut end = 0;
    while let Some(piece) = reader.next().map_err(ImageError::io(host))? {
        if let Piece::Data(offset, bytes) = piece {
            vfs.write(&caller, &file, offset, bytes).await.map_err(refused)?;
            end = offset + bytes.len() as u64;
        }
    }
    let bytes = reader.bytes();
    if end < bytes {
        // The end of a file that ends in a hole is written: a scan of YAFFS2 finds no other.
        let last = (bytes - 1) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let zeros = vec![0; (bytes - last) as usize];
        vfs.write(&caller, &file, last, &zeros).await.map_err(refused)?;
    }
    vfs.close(&caller, file).await.map_err(refused)
}

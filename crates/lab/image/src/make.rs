//! Images made from a tree of the host.
//!
//! The file system itself writes them: the tree is copied onto a blank chip or device and unmounted.
//! Blocks of a chip behind the last one that holds data are left out.

use crate::any::check_name;
use crate::host_file::{HostFile, Piece};
use crate::load::default_block_bytes;
use crate::make_nilfs2::Nilfs2MakeOptions;
use crate::make_ubi::UbiMakeOptions;
use crate::source::{Content, Source, SourceNode};
use crate::{DeviceImage, ImageError};
use file_systems::find_kind;
use fs_api::{Caller, Changes, Errno, FileSystem, NewInode, PAGE_BYTES, Time};
use mount::{Driver, MountRequest};
use mtd::{LAYOUTS, OobLayout};
use nand::{Chip, FaultSettings, Part, Storage, find_part, load_part};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use vfs::{OpenOptions, Vfs};

/// How far an image is filled up with 0xFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// To the end of its last block.
    Block,
    /// To this many bytes of data.
    Bytes(u64),
}

/// What image is made.
#[derive(Clone, Debug)]
pub struct MakeOptions {
    /// Name of the file system.
    pub file_system: String,
    /// Device table that is applied to the tree.
    pub device_table: Option<PathBuf>,
    /// Root becomes the owner of everything.
    pub squashes_owners: bool,
    /// Groups and others may not write.
    pub squashes_permissions: bool,
    /// Padding; none ends the image with the last page that is written.
    pub padding: Option<Padding>,
    /// Most bytes of data that the image may have.
    pub size_limit_bytes: Option<u64>,
    /// Spare areas are part of the image.
    pub has_oob: bool,
    /// Part of the catalogue, or a file.
    pub part: String,
    /// Blocks of the chip, if not the part's.
    pub blocks: Option<u32>,
    /// Bytes of data of a page, if not the part's.
    pub page_bytes: Option<u32>,
    /// Generation of the code.
    pub profile: Option<String>,
    /// Options of the mount that writes the image.
    pub mount_options: Vec<String>,
    /// No time is later: seconds since 1970 (`SOURCE_DATE_EPOCH`).
    pub latest_time: Option<i64>,
    /// What images of UBI and UBIFS may choose.
    pub ubi: UbiMakeOptions,
    /// What images of NILFS2 may choose.
    pub nilfs2: Nilfs2MakeOptions,
}

/// How large an image turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Names in the image.
    pub names: u64,
    /// Pages; of a block device blocks of 4 KiB.
    pub pages: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// Makes an image of a directory; the file appears when it is complete.
///
/// # Errors
/// [`ImageError`]: the tree cannot be read or does not fit, an option is wrong.
pub fn make(from: &Path, to: &Path, options: &MakeOptions) -> Result<Made, ImageError> {
    check_name(&options.file_system)?;
    if options.file_system == DeviceImage::FILE_SYSTEM {
        return crate::make_nilfs2::make_nilfs2(from, to, options);
    }
    let fs_error =
        |error: mount::MountError| ImageError::Option { option: "--fs", reason: error.to_string() };
    let kind = find_kind(&options.file_system).map_err(fs_error)?;
    if kind.is_over_ubi {
        return crate::make_ubi::make_ubi(Some(from), to, options);
    }
    let profile = kind
        .profile(options.profile.as_deref())
        .map_err(|error| ImageError::Option { option: "--profile", reason: error.to_string() })?;
    let (part, layout) = find_chip(options)?;
    let source = read_source(from, options)?;
    let names = source.nodes.len() as u64;
    // Nothing writes by time: the image depends on the tree alone.
    let mut request = MountRequest {
        profile: Some(profile.to_owned()),
        has_background: false,
        has_write_back: false,
        ..MountRequest::default()
    };
    request.options.clone_from(&options.mount_options);
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let shown = to.to_owned();
    let outcome = mount::run(chip, &Driver::of_tool(layout), 0, move |machine| async move {
        let mount_error = |source| {
            let source = Box::new(source);
            ImageError::Mount { path: shown.clone(), source }
        };
        let mounted = machine.mount(kind, &request).await.map_err(mount_error)?;
        copy(&mounted.vfs, &source).await
    });
    outcome.value.expect("no power cut is asked for")?;
    save(&outcome.chip, to, options).map(|(pages, file_bytes)| Made { names, pages, file_bytes })
}

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

pub(crate) fn find_chip(options: &MakeOptions) -> Result<(Part, &'static OobLayout), ImageError> {
    let refuse = |option, reason| ImageError::Option { option, reason };
    let mut part = match find_part(&options.part) {
        Some(part) => part,
        None => load_part(Path::new(&options.part)).map_err(|error| {
            refuse("--part", format!("{error}: give a name of `nandlab list parts`, or a file"))
        })?,
    };
    if let Some(page_bytes) = options.page_bytes {
        let layouts = || LAYOUTS.iter().filter(|layout| !layout.ecc_places.is_empty());
        let Some(layout) = layouts().find(|layout| layout.page_bytes == page_bytes) else {
            let reason =
                format!("no layout has pages of {page_bytes} bytes: 512 and 2048 are known");
            return Err(refuse("--page-size", reason));
        };
        if page_bytes != part.geometry.page_data_bytes {
            let pages = default_block_bytes(page_bytes) / page_bytes;
            let blocks = part.geometry.capacity_bytes() / u64::from(page_bytes * pages);
            part.geometry.page_data_bytes = page_bytes;
            part.geometry.page_oob_bytes = layout.oob_bytes;
            part.geometry.pages_per_block = pages;
            part.geometry.blocks = blocks.min(1 << 16) as u32;
        }
    }
    part.geometry.blocks = options.blocks.unwrap_or(part.geometry.blocks);
    let checked = part.geometry.check().and_then(|()| part.geometry.check_memory());
    checked.map_err(|reason| refuse("--blocks", reason))?;
    let geometry = &part.geometry;
    let fits = |layout: &&OobLayout| {
        let size = (layout.page_bytes, layout.oob_bytes);
        size == (geometry.page_data_bytes, geometry.page_oob_bytes) && !layout.ecc_places.is_empty()
    };
    let layout = LAYOUTS.iter().find(fits).ok_or_else(|| {
        let (data, oob) = (geometry.page_data_bytes, geometry.page_oob_bytes);
        refuse("--part", format!("no layout is made for pages of {data} + {oob} bytes"))
    })?;
    Ok((part, layout))
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
    Caller { pid: 1, uid: node.uid, gid: node.gid, now: Time::from_seconds(node.modified) }
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
        // The end of a file that ends in a hole is written: a scan of YAFFS2 knows no other.
        let last = (bytes - 1) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let zeros = vec![0; (bytes - last) as usize];
        vfs.write(&caller, &file, last, &zeros).await.map_err(refused)?;
    }
    vfs.close(&caller, file).await.map_err(refused)
}

/// The blocks of an image: each a block of the chip, and the pages of it up to the last with data.
///
/// JFFS2 takes the blocks of a blank chip from the last to the first, as the kernel's does. No node says
/// in which block it stands, so that the image has them in the order in which they were written.
fn used_blocks(chip: &Chip, is_ordered_by_use: bool) -> Vec<(u32, u32)> {
    let geometry = chip.geometry();
    let data_bytes = geometry.page_data_bytes as usize;
    let stride = data_bytes + geometry.page_oob_bytes as usize;
    let used_pages = |block: u32| {
        let pages = chip.block_bytes(block).unwrap_or_default().chunks_exact(stride);
        // A page with blank data is not used, even if its spare area has a mark.
        let is_used = |page: &[u8]| page[..data_bytes].iter().any(|byte| *byte != 0xff);
        pages.zip(1..).filter(|(page, _)| is_used(page)).last().map_or(0, |(_, end)| end)
    };
    let mut blocks: Vec<(u32, u32)> =
        (0..geometry.blocks).map(|block| (block, used_pages(block))).collect();
    if is_ordered_by_use {
        blocks.retain(|(_, pages)| *pages > 0);
        blocks.reverse();
    } else {
        // Blocks within keep their places; those behind the last are left out.
        while blocks.pop_if(|(_, pages)| *pages == 0).is_some() {}
    }
    blocks
}

fn save(chip: &Chip, to: &Path, options: &MakeOptions) -> Result<(u32, u64), ImageError> {
    let geometry = chip.geometry();
    let page_bytes = u64::from(geometry.page_data_bytes);
    let blocks = used_blocks(chip, options.file_system == "jffs2");
    let used = blocks
        .last()
        .map_or(0, |(_, pages)| (blocks.len() as u32 - 1) * geometry.pages_per_block + pages);
    if let Some(limit) = options.size_limit_bytes
        && u64::from(used) * page_bytes > limit
    {
        let reason = format!(
            "the image has {} bytes of data, {limit} are allowed",
            u64::from(used) * page_bytes
        );
        return Err(ImageError::Option { option: "--size-limit", reason });
    }
    let pages = match options.padding {
        None => used,
        Some(Padding::Block) => used.next_multiple_of(geometry.pages_per_block),
        Some(Padding::Bytes(bytes)) => {
            let pages = bytes.div_ceil(page_bytes);
            if pages > u64::from(geometry.pages()) {
                let reason =
                    format!("{bytes} bytes are more than the chip has: give more --blocks");
                return Err(ImageError::Option { option: "--pad", reason });
            }
            used.max(pages as u32)
        }
    };
    let bytes = finish(to, |to| write_pages(chip, to, &blocks, pages, options.has_oob))?;
    Ok((pages, bytes))
}

/// Writes a file that appears when it is complete.
pub(crate) fn finish<T>(
    to: &Path,
    write: impl FnOnce(&Path) -> std::io::Result<T>,
) -> Result<T, ImageError> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let guard = Unfinished(&unfinished);
    let done = write(&unfinished).map_err(ImageError::io(to))?;
    std::fs::rename(&unfinished, to).map_err(ImageError::io(to))?;
    drop(guard);
    Ok(done)
}

/// A file or folder that has a name for the time being: what is not moved from there goes away with this,
/// however the work ends.
pub(crate) struct Unfinished<'p>(pub(crate) &'p Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // The reason is reported; what was never made, or was moved, need not be removed.
        let _ = match self.0.symlink_metadata() {
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(self.0),
            Ok(_) => std::fs::remove_file(self.0),
            Err(_) => Ok(()),
        };
    }
}

fn write_pages(
    chip: &Chip,
    to: &Path,
    blocks: &[(u32, u32)],
    pages: u32,
    has_oob: bool,
) -> std::io::Result<u64> {
    let geometry = chip.geometry();
    let data_bytes = geometry.page_data_bytes as usize;
    let stride = data_bytes + geometry.page_oob_bytes as usize;
    let kept = if has_oob { stride } else { data_bytes };
    let blank = vec![0xff; kept];
    let mut writer = BufWriter::new(std::fs::File::create(to)?);
    for page in 0..pages {
        cancellation::check();
        let (block, index) = (page / geometry.pages_per_block, page % geometry.pages_per_block);
        let stored = blocks.get(block as usize).and_then(|(block, _)| chip.block_bytes(*block));
        let bytes = stored.map(|bytes| &bytes[index as usize * stride..][..kept]);
        writer.write_all(bytes.unwrap_or(&blank))?;
    }
    writer.flush()?;
    Ok(u64::from(pages) * kept as u64)
}

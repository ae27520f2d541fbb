//! Images of NILFS2, as mkfs.nilfs2 and a copy of the tree make them.
//!
//! The clock of logs and superblocks stands still: at `SOURCE_DATE_EPOCH`, or at the newest time in the
//! tree. What mkfs.nilfs2 draws at random follows from the tree.

use super::device::{profile, run_job};
use super::medium::BLOCK_BYTES;
use crate::contract::Made;
use crate::error::ImageError;
use crate::host_file::{HostFile, Piece, data_bytes};
use crate::options::MakeOptions;
use crate::source::{Content, Source, SourceNode};
use crate::tree_copy::{copy, failed, read_source};
use crate::unfinished::finish;
use block_medium::{BlockMedium, MemoryMedium};
use fs_api::{Caller, Time};
use nilfs2::{FormatError, FormatOptions, MountError, MountOptions, Nilfs2, format};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use vfs::Vfs;
use vfs::contents::add_zeros;

/// The file that mkfs.nilfs2 makes for the cleaner's daemon.
const OWN_FILE: &[u8] = b".nilfs";
/// Segments beside those for data: the least that are kept for the cleaner, and two that are being filled.
const OWN_SEGMENTS: u64 = 10;

/// Makes an image of NILFS2; the file appears when it is complete.
///
/// # Errors
/// [`ImageError`]: the tree cannot be read or does not fit, an option is wrong.
pub(super) fn make_nilfs2(
    from: &Path,
    to: &Path,
    options: &MakeOptions,
) -> Result<Made, ImageError> {
    if let Some(option) = options.mount_options.first() {
        let reason = format!("`{option}` changes no image of NILFS2: leave it out");
        return Err(ImageError::Option { option: "--option", reason });
    }
    let profile = profile(options.profile.as_deref())?;
    let source = read_source(from, options)?;
    let names = source.nodes.len() as u64;
    let fresh = format_options(&source, options)?;
    let size_bytes =
        options.nilfs2.size_bytes.map_or_else(|| fitting_bytes(&source, &fresh), Ok)?;
    let medium = Rc::new(MemoryMedium::new(BLOCK_BYTES, size_bytes));
    let device = medium.clone();
    let path = to.to_owned();
    run_job(async move |sim, cpus| {
        format(&*device, &fresh).await.map_err(|error| refused(&error))?;
        let mount_options =
            MountOptions { has_timer: false, epoch_s: fresh.now_s, ..MountOptions::new(profile) };
        let mounted = Nilfs2::mount(&sim, cpus, device as Rc<dyn BlockMedium>, mount_options);
        let mounted =
            mounted.await.map_err(|source: MountError| ImageError::Nilfs2 { path, source })?;
        let vfs = Vfs::new(&sim, Rc::new(mounted));
        // The tree brings this file itself: that of mkfs.nilfs2 gives way.
        if source.nodes.contains_key(OWN_FILE) {
            let caller = Caller { uid: 0, gid: 0, now: Time::default() };
            let removed = vfs.unlink(&caller, OWN_FILE).await;
            removed.map_err(|errno| failed(OWN_FILE, errno))?;
        }
        copy(&vfs, &source).await
    })?;
    finish(to, |to| save(&medium, to))?;
    Ok(Made { names, pages: (size_bytes / BLOCK_BYTES as u64) as u32, file_bytes: size_bytes })
}

fn format_options(source: &Source, options: &MakeOptions) -> Result<FormatOptions, ImageError> {
    let digest = digest(source)?;
    let newest = source.nodes.values().map(|node| node.modified).max().unwrap_or(0);
    // Superblocks and logs have no times before 1970.
    let now_s = options.latest_time.unwrap_or(newest).max(0).cast_unsigned();
    let asked = &options.nilfs2;
    let defaults = FormatOptions::default();
    let reserved_percent = asked.reserved_percent.unwrap_or(defaults.reserved_percent);
    if !(1..=99).contains(&reserved_percent) {
        let reason = format!("{reserved_percent} is no share of segments: 1 to 99 percent");
        return Err(ImageError::Option { option: "--reserved-percent", reason });
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&digest[..16]);
    // A random identifier of RFC 4122.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    let seed = [digest[16], digest[17], digest[18], digest[19]];
    Ok(FormatOptions {
        blocks_per_segment: asked.blocks_per_segment.unwrap_or(defaults.blocks_per_segment),
        reserved_percent,
        checksum_seed: u32::from_le_bytes(seed),
        uuid,
        label: asked.label.clone().unwrap_or_default().into_bytes(),
        now_s,
    })
}

/// A digest of all names, attributes and contents.
fn digest(source: &Source) -> Result<[u8; 32], ImageError> {
    let mut sum = Sha256::new();
    for (path, node) in &source.nodes {
        let SourceNode { permissions, uid, gid, modified, .. } = node;
        sum.update(format!("{path:?} {permissions:o} {uid} {gid} {modified} "));
        match &node.content {
            Content::File(host) => {
                let mut file = HostFile::open(host)?;
                while let Some(piece) = file.next().map_err(ImageError::io(host))? {
                    match piece {
                        Piece::Data(_, bytes) => sum.update(bytes),
                        Piece::Zeros(bytes) => add_zeros(bytes, |zeros| sum.update(zeros)),
                    }
                }
            }
            other => sum.update(format!("{other:?}")),
        }
    }
    Ok(sum.finalize().into())
}

/// Twice the segments that the tree takes, and those that are kept free.
fn fitting_bytes(source: &Source, fresh: &FormatOptions) -> Result<u64, ImageError> {
    let block_bytes = BLOCK_BYTES as u64;
    let mut blocks = 0;
    for node in source.nodes.values() {
        // A block of a directory, a link, or of the tree that leads to a file's data.
        blocks += 1;
        if let Content::File(host) = &node.content {
            blocks += data_bytes(host)?.div_ceil(block_bytes);
        }
    }
    let per_segment = u64::from(fresh.blocks_per_segment).max(1);
    let used = 2 * blocks.div_ceil(per_segment) + OWN_SEGMENTS;
    let segments = (used * 100).div_ceil(100 - u64::from(fresh.reserved_percent));
    // The second superblock stands behind the last segment.
    Ok((segments * per_segment + 1) * block_bytes)
}

fn refused(error: &FormatError) -> ImageError {
    let option = match error {
        FormatError::SegmentSize(_) => "--blocks-per-segment",
        FormatError::Label(_) => "--label",
        FormatError::TooSmall(_) | FormatError::Medium(_) => "--size",
    };
    let hint = match error {
        FormatError::TooSmall(_) => " with -B, or the device larger",
        _ => "",
    };
    ImageError::Option { option, reason: format!("{error}{hint}") }
}

/// Writes the blocks that hold anything; the others are holes of the file.
fn save(medium: &MemoryMedium, to: &Path) -> io::Result<()> {
    let file = File::create(to)?;
    // Holes read as zeros, as the device does.
    file.set_len(medium.size_bytes())?;
    for number in medium.stored_blocks() {
        cancellation::check();
        file.write_all_at(&medium.block(number), number * BLOCK_BYTES as u64)?;
    }
    Ok(())
}

//! What a mounted image shows: listed, extracted, read for a check.

use crate::chip::image::ChipImage;
use crate::error::ImageError;
use crate::extract::{Extracted, Extraction};
use crate::listing::{FILE_BYTES_MAX, Listing};
use crate::options::ExtractOptions;
use crate::report::Report;
use mount::MountRequest;
use std::os::fd::OwnedFd;
use vfs::{Manifest, ReadLimits};

/// Lists the tree of a mount.
///
/// # Errors
/// [`ImageError::Mount`].
pub(crate) fn list_mounted(
    image: &ChipImage,
    request: MountRequest,
    limits: ReadLimits,
) -> Result<Listing, ImageError> {
    image.run_as(request, move |_, mounted| async move {
        let (manifest, damage) = Manifest::of_damaged(&*mounted.file_system, &limits).await;
        Listing { manifest, damage, notes: Vec::new() }
    })
}

/// Extracts the tree of the mount into an open folder. What cannot be read is left out and reported.
///
/// # Errors
/// [`ImageError::Mount`].
pub(crate) fn extract_mounted(
    image: &ChipImage,
    root: OwnedFd,
    options: ExtractOptions,
) -> Result<Extracted, ImageError> {
    image.run(move |_, mounted| {
        Extraction::new(mounted.file_system, options, FILE_BYTES_MAX).run(root)
    })
}

/// Reads the tree of the mount; what cannot be read is a finding.
///
/// # Errors
/// [`ImageError::Mount`].
pub(crate) fn check_mounted(
    image: &ChipImage,
    limits: ReadLimits,
    report: &mut Report,
) -> Result<(), ImageError> {
    let damage = image.run(move |_, mounted| async move {
        // Every byte is read, for a wrong checksum shows only then; the content is not kept.
        Manifest::fingerprinted(&*mounted.file_system, &limits).await.1
    })?;
    for damage in damage {
        report.add_finding(format!("path {}", damage.path), damage.what);
    }
    Ok(())
}

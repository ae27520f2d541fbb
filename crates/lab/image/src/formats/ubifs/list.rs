//! What volumes of UBI hold, as rows: a tree of UBIFS each, or the data of a static volume as a file.

use super::volumes::{Holding, raw_name, read_raw, run_ubi};
use crate::chip::{ChipImage, list_mounted};
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use fs_api::Errno;
use sha2::{Digest, Sha256};
use std::path::Path;
use ubi::VolumeInfo;
use vfs::{Damage, ManifestRow, ReadLimits, escape_path, hexadecimal};

/// Several volumes, each below a directory of its name.
pub(super) fn list_volumes(
    image: &ChipImage,
    volumes: &[(VolumeInfo, Holding)],
    limits: &ReadLimits,
) -> Result<Listing, ImageError> {
    let mut all = Listing::empty();
    for (volume, holding) in volumes {
        let name = &volume.name;
        let listing = match holding {
            Holding::Raw => list_raw(image, volume, limits.has_hashes)?,
            Holding::Nothing => {
                all.notes.push(format!("volume `{name}` is empty: nothing was ever written"));
                continue;
            }
            Holding::Other => {
                all.notes.push(format!("volume `{name}` holds no file system of UBIFS"));
                continue;
            }
            Holding::Ubifs => {
                let mut request = image.request.clone();
                request.ubi.volume = Some(name.clone());
                match list_mounted(image, request, *limits) {
                    Ok(listing) => listing.below(name),
                    // One volume that does not mount hides no other.
                    Err(error) => {
                        let path = escape_path(name.as_bytes());
                        let what = error.to_string();
                        all.damage.push(Damage { path, errno: Errno::Eio, what });
                        continue;
                    }
                }
            }
        };
        all.manifest.rows.extend(listing.manifest.rows);
        all.damage.extend(listing.damage);
        all.notes.extend(listing.notes);
    }
    Ok(all)
}

/// A static volume as the file that it is extracted to.
pub(super) fn list_raw(
    image: &ChipImage,
    volume: &VolumeInfo,
    has_hashes: bool,
) -> Result<Listing, ImageError> {
    let (id, path) = (volume.id, escape_path(raw_name(volume).as_bytes()));
    let read = run_ubi(image, move |ubi| async move { read_raw(&ubi, id).await })?;
    let mut listing = Listing::empty();
    let data = match read {
        Ok((data, true)) => {
            let name = &volume.name;
            let note =
                format!("volume `{name}` is static: it holds raw data, whose CRCs are right");
            listing.notes.push(note);
            data
        }
        Ok((data, false)) => {
            let what = "the data of the static volume is not what its CRCs say".into();
            listing.damage.push(Damage { path: path.clone(), errno: Errno::Eio, what });
            data
        }
        Err(error) => {
            let what = error.to_string();
            listing.damage.push(Damage { path: path.clone(), errno: Errno::Eio, what });
            Vec::new()
        }
    };
    // A volume has no attributes; these are those of a file that all may read.
    listing.manifest.rows.push(ManifestRow {
        kind: 'f',
        permissions: 0o644,
        links: 1,
        uid: 0,
        gid: 0,
        size_bytes: data.len() as u64,
        modified: 0,
        device: None,
        sha256: has_hashes.then(|| hexadecimal(&Sha256::digest(&data))),
        target: None,
        extended: Vec::new(),
        path,
    });
    Ok(listing)
}

/// Extracts the data of a static volume, as a file.
///
/// # Errors
/// [`ImageError::Io`] of the file; [`ImageError::Mount`].
pub(super) fn extract_raw(
    image: &ChipImage,
    volume: &VolumeInfo,
    folder: &Path,
) -> Result<Extracted, ImageError> {
    let (id, name) = (volume.id, raw_name(volume));
    let mut done = Extracted::default();
    match run_ubi(image, move |ubi| async move { read_raw(&ubi, id).await })? {
        Ok((data, is_sound)) => {
            let path = folder.join(&name);
            std::fs::write(&path, &data).map_err(ImageError::io(&path))?;
            (done.names, done.bytes) = (1, data.len() as u64);
            if !is_sound {
                let what = "the data of the static volume is not what its CRCs say";
                done.left_out.push((escape_path(name.as_bytes()), what.into()));
            }
        }
        Err(error) => done.left_out.push((escape_path(name.as_bytes()), error.to_string())),
    }
    Ok(done)
}

//! What an image of UBI is, in numbers: the device, its volumes, the file systems on them.

use super::check_ubi::UbiCounts;
use super::detect::UbiForm;
use super::volumes::{Holding, volumes};
use crate::chip::ChipImage;
use crate::error::ImageError;
use file_systems::UbifsMount;
use fs_api::FileSystem;
use serde_json::{Map, Value, json};
use ubi::VolumeInfo;

/// The device as its headers show it.
pub(super) fn ubi_json(form: UbiForm, counts: &UbiCounts) -> Value {
    let counters = &counts.erase_counters;
    let blocks: u64 = counters.values().map(|count| u64::from(*count)).sum();
    let sum: f64 = counters.iter().map(|(value, count)| *value as f64 * f64::from(*count)).sum();
    // Three decimals: the sum is of integers, so the same image gives the same digits everywhere.
    let mean = if blocks == 0 { 0.0 } else { (sum / blocks as f64 * 1000.0).round() / 1000.0 };
    let histogram: Map<String, Value> =
        counters.iter().map(|(value, count)| (value.to_string(), json!(count))).collect();
    json!({
        "image_sequence": counts.image_sequence,
        "vid_header_offset": form.header_offset,
        "data_offset": form.data_offset,
        "leb_bytes": form.block_bytes.saturating_sub(form.data_offset),
        "mapped_blocks": counts.mapped,
        "free_blocks": counts.free,
        "replaced_blocks": counts.replaced,
        "corrupted_blocks": counts.corrupted,
        "fastmap": match counts.fastmap {
            0 => "none".to_owned(),
            blocks => format!("{blocks} blocks; attached by scanning"),
        },
        "erase_counter_min": counters.keys().next(),
        "erase_counter_mean": mean,
        "erase_counter_max": counters.keys().next_back(),
        "erase_counters_lost": counts.lost_counters,
        "blocks_by_erase_counter": histogram,
    })
}

/// The volumes, with the file systems on them.
///
/// # Errors
/// [`ImageError::Mount`] if the image does not attach.
pub(super) fn volumes_json(image: &ChipImage) -> Result<Vec<Value>, ImageError> {
    let volumes = volumes(image)?;
    let shown = volumes.iter().map(|(volume, holding)| {
        let mut shown = volume_json(volume, *holding);
        if *holding == Holding::Ubifs {
            shown["ubifs"] = ubifs_json(image, Some(volume));
        }
        shown
    });
    Ok(shown.collect())
}

/// The file system of a volume, or the bare one; why it cannot be mounted.
pub(super) fn ubifs_json(image: &ChipImage, volume: Option<&VolumeInfo>) -> Value {
    let mut request = image.request.clone();
    request.ubi.volume = volume.map(|volume| volume.name.clone());
    let shown = image.run_as(request, |_, mounted| async move {
        let Some(mount) = mounted.file_system.get::<UbifsMount>() else { return Value::Null };
        let fs = &mount.file_system;
        let (info, space) = (fs.info(), fs.space());
        let superblock = info.superblock;
        let uuid = vfs::hexadecimal(&superblock.uuid);
        let compressor = ubifs::Compressor::ALL
            .iter()
            .find(|(_, known)| Some(*known) == superblock.compressor)
            .map_or("unknown", |(name, _)| *name);
        json!({
            "unmounted_cleanly": info.was_clean,
            "format": superblock.format,
            "leb_bytes": superblock.leb_bytes,
            "lebs": superblock.leb_count,
            "max_lebs": superblock.max_leb_count,
            "min_io_bytes": superblock.min_io_bytes,
            "compressor": compressor,
            "key_hash": superblock.key_hash,
            "journal_bytes": superblock.journal_bytes,
            "log_lebs": superblock.log_lebs,
            "lpt_lebs": superblock.lpt_lebs,
            "orphan_lebs": superblock.orphan_lebs,
            "fanout": superblock.fanout,
            "reserved_bytes": superblock.reserved_bytes,
            "big_lpt": superblock.has_big_lpt,
            "space_fixup": superblock.needs_space_fixup,
            "double_hash": superblock.has_double_hash,
            "encrypted": superblock.is_encrypted,
            "authenticated": superblock.is_authenticated,
            "uuid": uuid,
            "commit": info.commit,
            "highest_inode": info.highest_inode,
            "index_bytes": info.index_bytes,
            "free_bytes": space.free_blocks * u64::from(space.block_bytes),
        })
    });
    // One volume that does not mount must not hide the others.
    shown.unwrap_or_else(|error| json!({"not_mounted": error.to_string()}))
}

fn volume_json(volume: &VolumeInfo, holding: Holding) -> Value {
    json!({
        "id": volume.id,
        "name": volume.name,
        "kind": volume.kind.name(),
        "holds": match holding {
            Holding::Raw => "raw data",
            Holding::Ubifs => "ubifs",
            Holding::Nothing => "nothing",
            Holding::Other => "no ubifs",
        },
        "lebs": volume.leb_count,
        "leb_bytes": volume.leb_bytes,
        "mapped_lebs": volume.mapped_lebs,
        "used_bytes": volume.used_bytes,
        "alignment": volume.alignment,
        "autoresize": volume.is_auto_resized,
        "update_interrupted": volume.is_incomplete,
        "corrupted": volume.is_corrupted,
    })
}

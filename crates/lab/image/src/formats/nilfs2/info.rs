//! What an image of NILFS2 is, in numbers: superblock, use of space, checkpoints and segments.

use super::device::{DeviceImage, newest};
use crate::error::ImageError;
use fs_api::{Errno, FileSystem};
use nilfs2::records::{
    CHECKPOINT_MINOR, Checkpoint, SEGMENT_ACTIVE, SEGMENT_DIRTY, SEGMENT_ERROR, SegmentUsage,
};
use nilfs2::{STATE_ERROR, STATE_VALID, Superblock};
use serde_json::{Value, json};
use vfs::hexadecimal;

impl DeviceImage {
    /// What the image is: an object of objects. `checkpoints` are those that lscp lists with `-a`,
    /// `segments` those that lssu lists: all that are not clean.
    ///
    /// # Errors
    /// [`ImageError::Nilfs2`].
    pub(super) fn describe(&self) -> Result<Value, ImageError> {
        let superblocks = self.medium.superblocks();
        let read = self.run(|fs| async move {
            let (checkpoints, segments) = (fs.checkpoints().await, fs.segments().await);
            (checkpoints, segments, fs.space(), fs.findings())
        })?;
        let (checkpoints, segments, space, findings) = read;
        let mut remarks = self.notes.clone();
        remarks.extend(findings.into_iter().map(|finding| finding.text));
        let block_bytes = u64::from(space.block_bytes);
        let mut answer = json!({
            "file": {"path": self.path, "bytes": self.file_bytes},
            "form": {"fs": Self::FILE_SYSTEM, "profile": self.profile.name},
            "superblock": newest(&superblocks).map(superblock_json),
            "superblocks": superblocks_json(&superblocks),
            "space": {
                "bytes": space.blocks * block_bytes,
                "free_bytes": space.free_blocks * block_bytes,
                "available_bytes": space.available_blocks * block_bytes,
            },
        });
        // What cannot be read leaves the rest of the answer as it is.
        let unreadable = |errno: Errno| json!([{"not_read": errno.to_string()}]);
        answer["checkpoints"] = checkpoints
            .map_or_else(unreadable, |all| all.iter().map(checkpoint_json).collect::<Value>());
        answer["segments"] = segments.map_or_else(unreadable, |all| {
            let used = (0_u64..).zip(&all).filter(|(_, usage)| !usage.is_clean());
            used.map(|(number, usage)| segment_json(number, usage)).collect()
        });
        answer["remarks"] = remarks.into();
        Ok(answer)
    }
}

fn superblocks_json(superblocks: &[Result<Superblock, String>; 2]) -> Value {
    let [first, second] = superblocks.each_ref().map(|found| match found {
        Ok(superblock) => format!("sound, checkpoint {}", superblock.last_checkpoint),
        Err(why) => why.clone(),
    });
    json!({"first": first, "second": second})
}

fn superblock_json(superblock: &Superblock) -> Value {
    let label = superblock.label.split(|byte| *byte == 0).next().unwrap_or_default();
    let uuid = hexadecimal(&superblock.uuid);
    // Grouped as RFC 4122 writes it.
    let uuid = [&uuid[..8], &uuid[8..12], &uuid[12..16], &uuid[16..20], &uuid[20..]].join("-");
    let [compatible, read_compatible, incompatible] = superblock.features;
    json!({
        "uuid": uuid,
        "label": String::from_utf8_lossy(label),
        "revision": format!("{}.{}", superblock.revision, superblock.minor_revision),
        "state": if superblock.state & STATE_ERROR != 0 {
            "error"
        } else if superblock.state & STATE_VALID != 0 {
            "valid"
        } else {
            "not unmounted"
        },
        "device_bytes": superblock.device_bytes,
        "block_bytes": superblock.block_bytes(),
        "blocks_per_segment": superblock.blocks_per_segment,
        "segments": superblock.segments,
        "first_data_block": superblock.first_data_block,
        "reserved_percent": superblock.reserved_percent,
        "free_blocks": superblock.free_blocks,
        "last_checkpoint": superblock.last_checkpoint,
        "last_log_block": superblock.last_log,
        "last_sequence": superblock.last_sequence,
        "created_at": superblock.created,
        "mounted_at": superblock.mounted,
        "written_at": superblock.written,
        "mounts": superblock.mounts,
        "mounts_max": superblock.mounts_max,
        "checked_at": superblock.checked,
        "check_interval_s": superblock.check_interval,
        "commit_interval_s": superblock.commit_interval,
        "watermark_blocks": superblock.watermark_blocks,
        "features_compatible": format!("{compatible:#x}"),
        "features_compatible_for_reading": format!("{read_compatible:#x}"),
        "features_incompatible": format!("{incompatible:#x}"),
    })
}

fn checkpoint_json(checkpoint: &Checkpoint) -> Value {
    json!({
        "number": checkpoint.number,
        "created_at": checkpoint.created,
        "mode": if checkpoint.is_snapshot() { "ss" } else { "cp" },
        "is_minor": checkpoint.flags & CHECKPOINT_MINOR != 0,
        "blocks": checkpoint.blocks,
        "inodes": checkpoint.inodes,
    })
}

fn segment_json(number: u64, usage: &SegmentUsage) -> Value {
    let flag = |flag, letter| if usage.flags & flag != 0 { letter } else { '-' };
    json!({
        "number": number,
        "modified_at": usage.modified,
        "status": String::from_iter([
            flag(SEGMENT_ACTIVE, 'a'),
            flag(SEGMENT_DIRTY, 'd'),
            flag(SEGMENT_ERROR, 'e'),
        ]),
        "blocks": usage.blocks,
    })
}

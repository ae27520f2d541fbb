//! What `stat` and `statfs` report of objects and of the device.
//!
//! May use: `device`, `format`, `objects`.

use crate::device::Device;
use crate::format::{NAME_BYTES_MAX, ObjectKind};
use crate::objects::{Body, Object};
use fs_api::{Attributes, Errno, FileType, InodeNumber, SpaceUse, Time};

fn seconds(time: i64) -> Time {
    Time::from_seconds(time)
}

/// Device numbers as YAFFS2 stores them: eight bits of each (`old_encode_dev`).
pub(crate) fn encode_device((major, minor): (u32, u32)) -> u32 {
    // Numbers above 255 overflow without a word, as in the kernel's old encoding; YAFFS2 never
    // learnt the new one.
    (major << 8 | minor) & 0xffff
}

fn decode_device(device: u32) -> (u32, u32) {
    (device >> 8 & 0xff, device & 0xff)
}

pub(crate) fn space_of(device: &mut Device) -> SpaceUse {
    let free = u64::from(device.user_free_chunks());
    SpaceUse {
        block_bytes: device.chunk_bytes,
        blocks: u64::from(device.blocks.count()) * u64::from(device.pages_per_block),
        free_blocks: free,
        available_blocks: free,
    }
}

/// Type of an object; that of a special file stands in its mode.
pub(crate) fn kind_of(object: &Object) -> Result<FileType, Errno> {
    match object.kind() {
        ObjectKind::File => Ok(FileType::Regular),
        ObjectKind::Directory => Ok(FileType::Directory),
        ObjectKind::Symlink => Ok(FileType::Symlink),
        // The header has one kind for devices, pipes and sockets; only the bits of `st_mode` tell
        // them apart.
        ObjectKind::Special => FileType::from_mode(object.mode).ok_or(Errno::Eio),
        // A link whose object is gone is a name of nothing (`yaffs_lookup` of `yaffs_vfs.c`: no equivalent object).
        ObjectKind::HardLink => Err(Errno::Enoent),
        ObjectKind::Unknown => Err(Errno::Eio),
    }
}

pub(crate) fn attributes_of(object: &Object) -> Result<Attributes, Errno> {
    let kind = kind_of(object)?;
    let size_bytes = match &object.body {
        Body::File(file) => file.size_bytes,
        Body::Symlink(alias) => alias.as_ref().map_or(0, |alias| alias.len() as u64),
        _ => 0,
    };
    // Every header has the field, and a tool may leave all its bits set: it means something for
    // devices alone.
    let device = if kind.is_device() { decode_device(object.device) } else { (0, 0) };
    Ok(Attributes {
        kind,
        permissions: object.mode & 0o7777,
        // `yaffs_get_obj_link_count`: the object's own name, unless it is gone, and each hard link.
        // Directories have one, whatever stands in them.
        links: u32::from(!object.is_unlinked) + object.links.len() as u32,
        uid: object.uid,
        gid: object.gid,
        size_bytes,
        accessed: seconds(object.times[0]),
        modified: seconds(object.times[1]),
        changed: seconds(object.times[2]),
        device,
    })
}

/// The number of an object; inodes have no others.
pub(crate) fn number_of(inode: InodeNumber) -> Result<u32, Errno> {
    // Object numbers end at 0x3FFFF; one that does not even fit into 32 bits cannot have come from
    // a lookup.
    u32::try_from(inode).map_err(|_| Errno::Enoent)
}

/// Whether an object may be called so.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        0 => Err(Errno::Einval),
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(Errno::Enametoolong),
    }
}

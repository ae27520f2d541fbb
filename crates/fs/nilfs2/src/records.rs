//! Records in the metadata files: inodes, DAT entries, checkpoints, segment usages, the super root.
//!
//! Source: `include/uapi/linux/nilfs2_ondisk.h`.
//!
//! May use: `bytes`.

use crate::bytes::{Checksum, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use fs_api::Time;

/// Bytes of a block map's root in its inode.
pub const MAP_BYTES: usize = 56;
/// Bytes of an inode.
pub const INODE_BYTES: usize = 128;
/// Bytes of a DAT entry.
pub const DAT_ENTRY_BYTES: usize = 32;
/// Bytes of a checkpoint.
pub const CHECKPOINT_BYTES: usize = 192;
/// Bytes of a segment usage.
pub const SEGMENT_USAGE_BYTES: usize = 16;
/// Bytes of a super root without the rest of its block.
pub const SUPER_ROOT_BYTES: usize = 16 + 3 * INODE_BYTES;

/// Number of the first checkpoint (`NILFS_CNO_MIN`).
pub const FIRST_CHECKPOINT: u64 = 1;
/// End of what is still in use.
pub const NO_END: u64 = u64::MAX;

/// Inode of the root directory.
pub const ROOT_INODE: u64 = 2;
/// Inode of the disk address translation file.
pub const DAT_INODE: u64 = 3;
/// Inode of the checkpoint file.
pub const CPFILE_INODE: u64 = 4;
/// Inode of the segment usage file.
pub const SUFILE_INODE: u64 = 5;
/// Inode of the file of inodes.
pub const IFILE_INODE: u64 = 6;
/// First inode that users get.
pub const FIRST_USER_INODE: u64 = 11;

/// An inode (`struct nilfs_inode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Allocated data and node blocks, in units of 512 bytes.
    pub sectors: u64,
    /// Length of the file, bytes.
    pub size_bytes: u64,
    /// Last change of the inode.
    pub changed: Time,
    /// Last change of the data.
    pub modified: Time,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID of the owner.
    pub gid: u32,
    /// Type and permission bits.
    pub mode: u16,
    /// Names that lead to the inode, with those of `..` and `.`.
    pub links: u16,
    /// Inode flags as `chattr` sets them (`FS_*_FL`).
    pub flags: u32,
    /// Root of the block map; of devices the number.
    pub map: [u8; MAP_BYTES],
    /// Block of extended attributes, unused.
    pub attributes_block: u64,
    /// Generation, for network file systems.
    pub generation: u32,
}

impl Default for Inode {
    fn default() -> Self {
        Self {
            sectors: 0,
            size_bytes: 0,
            changed: Time::default(),
            modified: Time::default(),
            uid: 0,
            gid: 0,
            mode: 0,
            links: 0,
            flags: 0,
            map: [0; MAP_BYTES],
            attributes_block: 0,
            generation: 0,
        }
    }
}

impl Inode {
    /// Reads an inode from its bytes on the medium; panics if they are too few.
    pub fn decode(raw: &[u8]) -> Self {
        let time = |seconds, nanoseconds| Time {
            seconds: get_u64(raw, seconds).cast_signed(),
            nanoseconds: get_u32(raw, nanoseconds),
        };
        Self {
            sectors: get_u64(raw, 0),
            size_bytes: get_u64(raw, 8),
            changed: time(16, 32),
            modified: time(24, 36),
            uid: get_u32(raw, 40),
            gid: get_u32(raw, 44),
            mode: get_u16(raw, 48),
            links: get_u16(raw, 50),
            flags: get_u32(raw, 52),
            map: raw[56..112].try_into().expect("56 bytes"),
            attributes_block: get_u64(raw, 112),
            generation: get_u32(raw, 120),
        }
    }

    /// Writes all but the map, which is written when a log is made (`nilfs_write_inode_common`).
    pub fn encode_attributes(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.sectors);
        put_u64(raw, 8, self.size_bytes);
        put_u64(raw, 16, self.changed.seconds.cast_unsigned());
        put_u64(raw, 24, self.modified.seconds.cast_unsigned());
        put_u32(raw, 32, self.changed.nanoseconds);
        put_u32(raw, 36, self.modified.nanoseconds);
        put_u32(raw, 40, self.uid);
        put_u32(raw, 44, self.gid);
        put_u16(raw, 48, self.mode);
        put_u16(raw, 50, self.links);
        put_u32(raw, 52, self.flags);
        put_u64(raw, 112, self.attributes_block);
        put_u32(raw, 120, self.generation);
        put_u32(raw, 124, 0);
    }

    /// Writes all of it.
    pub fn encode(&self, raw: &mut [u8]) {
        self.encode_attributes(raw);
        raw[56..112].copy_from_slice(&self.map);
    }
}

/// Where a virtual block is, and in which checkpoints (`struct nilfs_dat_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatEntry {
    /// Block of the device; 0 before it was written.
    pub block: u64,
    /// First checkpoint that uses it.
    pub start: u64,
    /// First checkpoint that does not use it any more, [`NO_END`] if there is none yet.
    pub end: u64,
}

impl DatEntry {
    /// Reads a DAT entry from its bytes on the medium; panics if they are too few.
    pub fn decode(raw: &[u8]) -> Self {
        Self { block: get_u64(raw, 0), start: get_u64(raw, 8), end: get_u64(raw, 16) }
    }

    /// Writes a DAT entry as it stands on the medium; panics if the bytes are too few.
    pub fn encode(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.block);
        put_u64(raw, 8, self.start);
        put_u64(raw, 16, self.end);
    }
}

/// The checkpoint is a snapshot: the cleaner keeps it.
pub const CHECKPOINT_SNAPSHOT: u32 = 1;
/// There is no such checkpoint.
pub const CHECKPOINT_INVALID: u32 = 2;
/// Nothing that users see changed since the checkpoint before.
pub const CHECKPOINT_MINOR: u32 = 8;

/// A state of the file system that can be mounted (`struct nilfs_checkpoint`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Any of [`CHECKPOINT_SNAPSHOT`], [`CHECKPOINT_INVALID`] and [`CHECKPOINT_MINOR`].
    pub flags: u32,
    /// Of the first slot of a block: valid checkpoints in the block.
    pub valid_in_block: u32,
    /// Next and previous snapshot.
    pub snapshots: (u64, u64),
    /// Number of the checkpoint; zero in a slot that was never used.
    pub number: u64,
    /// When it was made, seconds.
    pub created: u64,
    /// Blocks written since the checkpoint before.
    pub written_blocks: u64,
    /// Inodes that users have.
    pub inodes: u64,
    /// Blocks of them and of the file of inodes.
    pub blocks: u64,
    /// The file of inodes.
    pub ifile: Inode,
}

impl Checkpoint {
    /// Reads a checkpoint from its bytes on the medium; panics if they are too few.
    pub fn decode(raw: &[u8]) -> Self {
        Self {
            flags: get_u32(raw, 0),
            valid_in_block: get_u32(raw, 4),
            snapshots: (get_u64(raw, 8), get_u64(raw, 16)),
            number: get_u64(raw, 24),
            created: get_u64(raw, 32),
            written_blocks: get_u64(raw, 40),
            inodes: get_u64(raw, 48),
            blocks: get_u64(raw, 56),
            ifile: Inode::decode(&raw[64..64 + INODE_BYTES]),
        }
    }

    /// Writes a checkpoint as it stands on the medium; panics if the bytes are too few.
    pub fn encode(&self, raw: &mut [u8]) {
        put_u32(raw, 0, self.flags);
        put_u32(raw, 4, self.valid_in_block);
        put_u64(raw, 8, self.snapshots.0);
        put_u64(raw, 16, self.snapshots.1);
        put_u64(raw, 24, self.number);
        put_u64(raw, 32, self.created);
        put_u64(raw, 40, self.written_blocks);
        put_u64(raw, 48, self.inodes);
        put_u64(raw, 56, self.blocks);
        self.ifile.encode(&mut raw[64..64 + INODE_BYTES]);
    }

    /// True of a snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.flags & CHECKPOINT_SNAPSHOT != 0
    }

    /// True if there is no such checkpoint.
    pub fn is_invalid(&self) -> bool {
        self.flags & CHECKPOINT_INVALID != 0
    }
}

/// The segment is being written; only mkfs stores it.
pub const SEGMENT_ACTIVE: u32 = 1;
/// The segment holds logs.
pub const SEGMENT_DIRTY: u32 = 2;
/// The segment cannot be written.
pub const SEGMENT_ERROR: u32 = 4;

/// State of a segment (`struct nilfs_segment_usage`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentUsage {
    /// Creation time of the newest log in it, seconds.
    pub modified: u64,
    /// Blocks that logs take.
    pub blocks: u32,
    /// [`SEGMENT_ACTIVE`], [`SEGMENT_DIRTY`], [`SEGMENT_ERROR`]; none of a clean segment.
    pub flags: u32,
}

impl SegmentUsage {
    /// Reads a segment usage from its bytes on the medium; panics if they are too few.
    pub fn decode(raw: &[u8]) -> Self {
        Self { modified: get_u64(raw, 0), blocks: get_u32(raw, 8), flags: get_u32(raw, 12) }
    }

    /// Writes a segment usage as it stands on the medium; panics if the bytes are too few.
    pub fn encode(&self, raw: &mut [u8]) {
        put_u64(raw, 0, self.modified);
        put_u32(raw, 8, self.blocks);
        put_u32(raw, 12, self.flags);
    }

    /// True if it can be allocated.
    pub fn is_clean(&self) -> bool {
        self.flags == 0
    }

    /// True if it holds logs.
    pub fn is_dirty(&self) -> bool {
        self.flags & SEGMENT_DIRTY != 0
    }

    /// True if it cannot be written.
    pub fn has_error(&self) -> bool {
        self.flags & SEGMENT_ERROR != 0
    }
}

/// The inodes from which everything else is found (`struct nilfs_super_root`), the last block of a
/// log that makes a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperRoot {
    /// When the newest log was made that is not the cleaner's, seconds.
    pub written: u64,
    /// The disk address translation file.
    pub dat: Inode,
    /// Inode of the checkpoint file.
    pub cpfile: Inode,
    /// The segment usage file.
    pub sufile: Inode,
}

impl SuperRoot {
    /// Reads and checks one.
    pub fn decode(block: &[u8], seed: u32) -> Result<Self, String> {
        let bytes = get_u16(block, 4) as usize;
        if bytes < SUPER_ROOT_BYTES || bytes > block.len() {
            return Err(format!("a super root of {bytes} bytes"));
        }
        if Checksum::of(seed, &block[4..bytes]) != get_u32(block, 0) {
            return Err("the super root's checksum does not match".into());
        }
        let inode = |index: usize| Inode::decode(&block[16 + index * INODE_BYTES..]);
        Ok(Self { written: get_u64(block, 8), dat: inode(0), cpfile: inode(1), sufile: inode(2) })
    }

    /// The block of it, checksummed.
    pub fn encode(&self, block_bytes: usize, seed: u32) -> Vec<u8> {
        let mut block = vec![0; block_bytes];
        put_u16(&mut block, 4, SUPER_ROOT_BYTES as u16);
        put_u64(&mut block, 8, self.written);
        for (index, inode) in [&self.dat, &self.cpfile, &self.sufile].into_iter().enumerate() {
            inode.encode(&mut block[16 + index * INODE_BYTES..][..INODE_BYTES]);
        }
        let sum = Checksum::of(seed, &block[4..SUPER_ROOT_BYTES]);
        put_u32(&mut block, 0, sum);
        block
    }
}

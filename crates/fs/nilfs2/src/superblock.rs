//! The superblock: 280 bytes that say where the newest log with a super root is, kept twice.
//!
//! Source: `struct nilfs_super_block` of `include/uapi/linux/nilfs2_ondisk.h`.
//!
//! May use: `bytes`.

use crate::bytes::{Checksum, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};

/// Byte of the device where the first superblock stands.
pub const SUPERBLOCK_OFFSET: u64 = 1024;
/// Bytes that a superblock takes on the medium.
pub const SUPERBLOCK_BYTES: usize = 1024;
const SUMMED_BYTES: u16 = 280;
const MAGIC: u16 = 0x3434;

/// The file system was unmounted in an orderly way.
pub const STATE_VALID: u16 = 1;
/// An error was met.
pub const STATE_ERROR: u16 = 2;

/// What [`Superblock::decode`] says of bytes that are no superblock at all.
pub const NO_SUPERBLOCK: &str = "no NILFS2 magic number";

/// The contents of one of the two superblocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Revision of the format; only 2 is mounted.
    pub revision: u32,
    /// Minor revision of the format, 0 so far.
    pub minor_revision: u16,
    /// Flags; no flag is defined.
    pub flags: u16,
    /// First value of every checksum.
    pub checksum_seed: u32,
    /// A block has `1024 << this` bytes.
    pub block_size_shift: u32,
    /// Segments of the file system.
    pub segments: u64,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// First block of segment 0 that holds data.
    pub first_data_block: u64,
    /// Blocks of a segment.
    pub blocks_per_segment: u32,
    /// Segments that only the cleaner may use, in percent.
    pub reserved_percent: u32,
    /// Checkpoint of the log that is pointed to.
    pub last_checkpoint: u64,
    /// First block of the newest log with a super root that this superblock names.
    pub last_log: u64,
    /// Sequence number of its segment.
    pub last_sequence: u64,
    /// Free blocks when this was written.
    pub free_blocks: u64,
    /// When the file system was made, seconds.
    pub created: u64,
    /// Time of the last writable mount, seconds since 1970.
    pub mounted: u64,
    /// Last write of this superblock, seconds.
    pub written: u64,
    /// Mounts since the last check.
    pub mounts: u16,
    /// Mounts after which a check is due.
    pub mounts_max: u16,
    /// Any of [`STATE_VALID`] and [`STATE_ERROR`].
    pub state: u16,
    /// What to do on errors.
    pub errors: u16,
    /// Time of the last check, seconds since 1970.
    pub checked: u64,
    /// Time between checks, seconds.
    pub check_interval: u32,
    /// System that made it, 0 for Linux.
    pub creator: u32,
    /// Owner of reserved blocks: user and group.
    pub reserved_owner: (u16, u16),
    /// First inode of users.
    pub first_inode: u32,
    /// Bytes of an inode, a DAT entry, a checkpoint and a segment usage.
    pub record_bytes: [u16; 4],
    /// UUID of the file system.
    pub uuid: [u8; 16],
    /// Label, filled up with zeros.
    pub label: [u8; 80],
    /// Seconds between checkpoints; 0 for the kernel's default.
    pub commit_interval: u32,
    /// Dirty blocks that start the constructor; 0 for the kernel's default.
    pub watermark_blocks: u32,
    /// Features: compatible, compatible for reading, incompatible.
    pub features: [u64; 3],
}

impl Superblock {
    /// Reads and checks one; the error says what is wrong with it.
    pub fn decode(raw: &[u8]) -> Result<Self, String> {
        if raw.len() < SUPERBLOCK_BYTES || get_u16(raw, 6) != MAGIC {
            return Err(NO_SUPERBLOCK.into());
        }
        let bytes = get_u16(raw, 8) as usize;
        if !(20..=SUPERBLOCK_BYTES).contains(&bytes) {
            return Err(format!("{bytes} bytes are checksummed"));
        }
        let seed = get_u32(raw, 12);
        let mut sum = Checksum::new(seed);
        sum.update(&raw[..16]);
        sum.update(&[0; 4]);
        sum.update(&raw[20..bytes]);
        if sum.finish() != get_u32(raw, 16) {
            return Err("its checksum does not match".into());
        }
        Ok(Self {
            revision: get_u32(raw, 0),
            minor_revision: get_u16(raw, 4),
            flags: get_u16(raw, 10),
            checksum_seed: seed,
            block_size_shift: get_u32(raw, 20),
            segments: get_u64(raw, 24),
            device_bytes: get_u64(raw, 32),
            first_data_block: get_u64(raw, 40),
            blocks_per_segment: get_u32(raw, 48),
            reserved_percent: get_u32(raw, 52),
            last_checkpoint: get_u64(raw, 56),
            last_log: get_u64(raw, 64),
            last_sequence: get_u64(raw, 72),
            free_blocks: get_u64(raw, 80),
            created: get_u64(raw, 88),
            mounted: get_u64(raw, 96),
            written: get_u64(raw, 104),
            mounts: get_u16(raw, 112),
            mounts_max: get_u16(raw, 114),
            state: get_u16(raw, 116),
            errors: get_u16(raw, 118),
            checked: get_u64(raw, 120),
            check_interval: get_u32(raw, 128),
            creator: get_u32(raw, 132),
            reserved_owner: (get_u16(raw, 136), get_u16(raw, 138)),
            first_inode: get_u32(raw, 140),
            record_bytes: [144, 146, 148, 150].map(|at| get_u16(raw, at)),
            uuid: raw[152..168].try_into().expect("16 bytes"),
            label: raw[168..248].try_into().expect("80 bytes"),
            commit_interval: get_u32(raw, 248),
            watermark_blocks: get_u32(raw, 252),
            features: [256, 264, 272].map(|at| get_u64(raw, at)),
        })
    }

    /// The bytes of it, checksummed.
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut raw = [0; SUPERBLOCK_BYTES];
        put_u32(&mut raw, 0, self.revision);
        put_u16(&mut raw, 4, self.minor_revision);
        put_u16(&mut raw, 6, MAGIC);
        put_u16(&mut raw, 8, SUMMED_BYTES);
        put_u16(&mut raw, 10, self.flags);
        put_u32(&mut raw, 12, self.checksum_seed);
        put_u32(&mut raw, 20, self.block_size_shift);
        put_u64(&mut raw, 24, self.segments);
        put_u64(&mut raw, 32, self.device_bytes);
        put_u64(&mut raw, 40, self.first_data_block);
        put_u32(&mut raw, 48, self.blocks_per_segment);
        put_u32(&mut raw, 52, self.reserved_percent);
        put_u64(&mut raw, 56, self.last_checkpoint);
        put_u64(&mut raw, 64, self.last_log);
        put_u64(&mut raw, 72, self.last_sequence);
        put_u64(&mut raw, 80, self.free_blocks);
        put_u64(&mut raw, 88, self.created);
        put_u64(&mut raw, 96, self.mounted);
        put_u64(&mut raw, 104, self.written);
        put_u16(&mut raw, 112, self.mounts);
        put_u16(&mut raw, 114, self.mounts_max);
        put_u16(&mut raw, 116, self.state);
        put_u16(&mut raw, 118, self.errors);
        put_u64(&mut raw, 120, self.checked);
        put_u32(&mut raw, 128, self.check_interval);
        put_u32(&mut raw, 132, self.creator);
        put_u16(&mut raw, 136, self.reserved_owner.0);
        put_u16(&mut raw, 138, self.reserved_owner.1);
        put_u32(&mut raw, 140, self.first_inode);
        for (index, bytes) in self.record_bytes.iter().enumerate() {
            put_u16(&mut raw, 144 + index * 2, *bytes);
        }
        raw[152..168].copy_from_slice(&self.uuid);
        raw[168..248].copy_from_slice(&self.label);
        put_u32(&mut raw, 248, self.commit_interval);
        put_u32(&mut raw, 252, self.watermark_blocks);
        for (index, feature) in self.features.iter().enumerate() {
            put_u64(&mut raw, 256 + index * 8, *feature);
        }
        let sum = Checksum::of(self.checksum_seed, &raw[..SUMMED_BYTES as usize]);
        put_u32(&mut raw, 16, sum);
        raw
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        1024_u64.checked_shl(self.block_size_shift).unwrap_or(0)
    }

    /// Byte of the device where the second superblock stands: its last whole 4 KiB.
    pub fn second_offset(device_bytes: u64) -> u64 {
        (device_bytes / 4096).saturating_sub(1) * 4096
    }
}

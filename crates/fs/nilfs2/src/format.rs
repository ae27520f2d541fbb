//! Making an empty file system, block by block as mkfs.nilfs2 makes it.
//!
//! Source: images of nilfs-utils 2.2.
//!
//! May use: `bytes`, `records`, `summary`, `superblock`.

use crate::bytes::{put_u16, put_u32, put_u64};
use crate::records::{
    CHECKPOINT_BYTES, CHECKPOINT_INVALID, CPFILE_INODE, Checkpoint, DAT_ENTRY_BYTES, DAT_INODE,
    DatEntry, FIRST_CHECKPOINT, FIRST_USER_INODE, IFILE_INODE, INODE_BYTES, Inode, MAP_BYTES,
    NO_END, ROOT_INODE, SEGMENT_ACTIVE, SEGMENT_DIRTY, SEGMENT_USAGE_BYTES, SUFILE_INODE,
    SegmentUsage, SuperRoot,
};
use crate::summary::{
    BlockInfo, FileInfo, LOG_BEGIN, LOG_END, LOG_SUPER_ROOT, LogHeader, encode_summary, seal,
};
use crate::superblock::{STATE_VALID, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock};
use block_medium::{BlockMedium, MediumError, WriteFlags};
use fs_api::Time;
use thiserror::Error;

const BLOCK: usize = 4096;
const BLOCK_BYTES: u64 = BLOCK as u64;
const FIRST_BLOCK: u64 = 1;
const ENTRIES_PER_GROUP: u32 = BLOCK as u32 * 8;
/// Blocks of the one log: summary, root directory, three of the file of inodes, checkpoints, segment
/// usages, three of the DAT, super root.
const LOG_BLOCKS: u32 = 11;
/// Virtual blocks of the log's files; number 0 is never used.
const VIRTUAL_BLOCKS: u64 = 6;
/// Segments that the file system takes at least: those kept for the cleaner and some more.
const SEGMENTS_MIN: u64 = 10;

/// What an empty file system is to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Blocks of a segment.
    pub blocks_per_segment: u32,
    /// Segments that only the cleaner may use, percent.
    pub reserved_percent: u32,
    /// First value of every checksum; mkfs draws it at random.
    pub checksum_seed: u32,
    /// Identifier; mkfs draws it at random.
    pub uuid: [u8; 16],
    /// Label, 80 bytes at most.
    pub label: Vec<u8>,
    /// Time of creation, seconds since 1970.
    pub now_s: u64,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            blocks_per_segment: 2048,
            reserved_percent: 5,
            checksum_seed: 0x1d0b_5eed,
            uuid: *b"nandlab-nilfs2-0",
            label: Vec::new(),
            now_s: 1_700_000_000,
        }
    }
}

/// Why no file system is made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The device holds too few segments.
    #[error("{0} segments fit on the device, at least 10 are needed: make segments smaller")]
    TooSmall(u64),
    /// A segment of so many blocks is not allowed.
    #[error("a segment of {0} blocks: a power of two of at least 16 is needed")]
    SegmentSize(u32),
    /// The label is too long.
    #[error("a label of {0} bytes: 80 fit")]
    Label(usize),
    /// The device could not be written.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

fn direct(pointers: &[u64]) -> [u8; MAP_BYTES] {
    let mut map = [0; MAP_BYTES];
    for (index, pointer) in pointers.iter().enumerate() {
        put_u64(&mut map, 8 + index * 8, *pointer);
    }
    map
}

fn allocator(used: u32) -> (Vec<u8>, Vec<u8>) {
    let (mut descriptors, mut bitmap) = (vec![0; BLOCK], vec![0; BLOCK]);
    for at in (0..BLOCK).step_by(4) {
        put_u32(&mut descriptors, at, ENTRIES_PER_GROUP);
    }
    put_u32(&mut descriptors, 0, ENTRIES_PER_GROUP - used);
    for entry in 0..used {
        bitmap[(entry / 8) as usize] |= 1 << (entry % 8);
    }
    (descriptors, bitmap)
}

fn root_directory() -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let entries: [(usize, u64, usize, &[u8], u8); 3] = [
        (0, ROOT_INODE, 16, b".", 2),
        (16, ROOT_INODE, 16, b"..", 2),
        (32, FIRST_USER_INODE, BLOCK - 32, b".nilfs", 1),
    ];
    for (at, inode, bytes, name, kind) in entries {
        put_u64(&mut block, at, inode);
        put_u16(&mut block, at + 8, bytes as u16);
        block[at + 10] = name.len() as u8;
        block[at + 11] = kind;
        block[at + 12..at + 12 + name.len()].copy_from_slice(name);
    }
    block
}

fn inode_table(now: Time) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    for number in [1, ROOT_INODE, 7, 8, 9, 10, FIRST_USER_INODE] {
        let base = Inode { changed: now, modified: now, links: 1, ..Inode::default() };
        let inode = match number {
            ROOT_INODE => Inode {
                sectors: 1,
                size_bytes: BLOCK_BYTES,
                mode: 0o040_755,
                links: 2,
                map: direct(&[1]),
                ..base
            },
            FIRST_USER_INODE => Inode { mode: 0o100_644, ..base },
            _ => Inode { mode: 0o100_000, ..base },
        };
        inode.encode(&mut block[number as usize * INODE_BYTES..][..INODE_BYTES]);
    }
    block
}

fn checkpoint_table(ifile: Inode, now_s: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    put_u64(&mut block, 0, 1);
    let checkpoint = Checkpoint {
        flags: 0,
        valid_in_block: 0,
        snapshots: (0, 0),
        number: FIRST_CHECKPOINT,
        created: now_s,
        written_blocks: LOG_BLOCKS.into(),
        inodes: 2,
        blocks: 4,
        ifile,
    };
    checkpoint.encode(&mut block[CHECKPOINT_BYTES..]);
    for number in 2..BLOCK / CHECKPOINT_BYTES {
        put_u32(&mut block, number * CHECKPOINT_BYTES, CHECKPOINT_INVALID);
        put_u64(&mut block, number * CHECKPOINT_BYTES + 24, number as u64);
    }
    block
}

/// Usage blocks: all of the header's block, and as many as the segments need.
fn usage_table(segments: u64, now_s: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    put_u64(&mut block, 0, segments - 2);
    put_u64(&mut block, 8, 2);
    put_u64(&mut block, 16, segments - 1);
    let flags = SEGMENT_ACTIVE | SEGMENT_DIRTY;
    let first = SegmentUsage { modified: now_s, blocks: LOG_BLOCKS, flags };
    first.encode(&mut block[2 * SEGMENT_USAGE_BYTES..]);
    SegmentUsage { modified: 0, blocks: 0, flags }.encode(&mut block[3 * SEGMENT_USAGE_BYTES..]);
    block
}

/// The first log: one checkpoint with an empty root directory.
fn first_log(options: &FormatOptions, segments: u64) -> Vec<u8> {
    // One function: it lists the blocks of the one log that mkfs.nilfs2 writes, in their order.
    let now = Time::from_seconds(options.now_s.cast_signed());
    let special = |blocks, map| Inode {
        sectors: blocks,
        changed: now,
        modified: now,
        mode: 0o100_000,
        links: 1,
        map,
        ..Inode::default()
    };
    let ifile = special(3, direct(&[2, 3, 4]));
    // The summary and six blocks with virtual numbers stand before the DAT, whose own map needs
    // device blocks.
    let first_dat_block = FIRST_BLOCK + 7;
    let root = SuperRoot {
        written: options.now_s,
        dat: special(3, direct(&[first_dat_block, first_dat_block + 1, first_dat_block + 2])),
        cpfile: special(1, direct(&[5])),
        sufile: special(1, direct(&[6])),
    };
    let (inode_groups, inode_bitmap) = allocator(FIRST_USER_INODE as u32 + 1);
    let (dat_groups, dat_bitmap) = allocator(VIRTUAL_BLOCKS as u32 + 1);
    let mut dat = vec![0; BLOCK];
    for number in 1..=VIRTUAL_BLOCKS {
        let entry = DatEntry { block: FIRST_BLOCK + number, start: FIRST_CHECKPOINT, end: NO_END };
        entry.encode(&mut dat[number as usize * DAT_ENTRY_BYTES..]);
    }
    let data = |inode, first: u64, count: u64| FileInfo {
        inode,
        checkpoint: FIRST_CHECKPOINT,
        blocks: (0..count)
            .map(|offset| BlockInfo {
                virtual_block: if inode == DAT_INODE { 0 } else { first + offset },
                offset,
                level: 0,
            })
            .collect(),
        data_blocks: count as u32,
    };
    let files = [
        data(ROOT_INODE, 1, 1),
        data(IFILE_INODE, 2, 3),
        data(CPFILE_INODE, 5, 1),
        data(SUFILE_INODE, 6, 1),
        data(DAT_INODE, 0, 3),
    ];
    let mut header = LogHeader {
        flags: LOG_BEGIN | LOG_END | LOG_SUPER_ROOT,
        sequence: 0,
        created: options.now_s,
        next: options.blocks_per_segment.into(),
        blocks: LOG_BLOCKS,
        checkpoint: FIRST_CHECKPOINT,
        ..LogHeader::default()
    };
    // One log with `LOG_BEGIN`, `LOG_END` and a super root, in the order of the kernel's own logs.
    let mut log = encode_summary(&mut header, &files, BLOCK);
    for block in [
        root_directory(),
        inode_groups,
        inode_bitmap,
        inode_table(now),
        checkpoint_table(ifile, options.now_s),
        usage_table(segments, options.now_s),
        dat_groups,
        dat_bitmap,
        dat,
        root.encode(BLOCK, options.checksum_seed),
    ] {
        log.extend(block);
    }
    seal(&mut log, header.summary_bytes, options.checksum_seed);
    log
}

fn superblock(options: &FormatOptions, segments: u64, device_bytes: u64) -> Superblock {
    let mut label = [0; 80];
    label[..options.label.len()].copy_from_slice(&options.label);
    Superblock {
        revision: 2,
        minor_revision: 0,
        flags: 0,
        checksum_seed: options.checksum_seed,
        block_size_shift: 2,
        segments,
        device_bytes,
        first_data_block: FIRST_BLOCK,
        blocks_per_segment: options.blocks_per_segment,
        reserved_percent: options.reserved_percent,
        last_checkpoint: FIRST_CHECKPOINT,
        last_log: FIRST_BLOCK,
        last_sequence: 0,
        free_blocks: u64::from(options.blocks_per_segment) * (segments - 1),
        created: options.now_s,
        mounted: 0,
        written: options.now_s,
        mounts: 0,
        mounts_max: 50,
        state: STATE_VALID,
        errors: 1,
        checked: options.now_s,
        check_interval: 180 * 24 * 3600,
        creator: 0,
        reserved_owner: (0, 0),
        first_inode: FIRST_USER_INODE as u32,
        record_bytes: [
            INODE_BYTES as u16,
            DAT_ENTRY_BYTES as u16,
            CHECKPOINT_BYTES as u16,
            SEGMENT_USAGE_BYTES as u16,
        ],
        uuid: options.uuid,
        label,
        commit_interval: 0,
        watermark_blocks: 0,
        features: [0; 3],
    }
}

/// Makes an empty file system on a device (`mkfs.nilfs2`).
///
/// # Errors
/// [`FormatError::TooSmall`], [`FormatError::SegmentSize`] and [`FormatError::Label`] before anything is
/// written, [`FormatError::Medium`] if the device fails.
pub async fn format(medium: &dyn BlockMedium, options: &FormatOptions) -> Result<(), FormatError> {
    let per_segment = options.blocks_per_segment;
    if !per_segment.is_power_of_two() || per_segment < 16 {
        return Err(FormatError::SegmentSize(per_segment));
    }
    if options.label.len() > 80 {
        return Err(FormatError::Label(options.label.len()));
    }
    let device_bytes = medium.size_bytes();
    let second = Superblock::second_offset(device_bytes);
    let segments = second / BLOCK_BYTES / u64::from(per_segment);
    // The first usage block holds 254 segments; the rest of the table is a hole that reads as clean.
    if segments < SEGMENTS_MIN {
        return Err(FormatError::TooSmall(segments));
    }
    let superblock = superblock(options, segments, device_bytes).encode();
    let mut first = vec![0; BLOCK];
    first[SUPERBLOCK_OFFSET as usize..][..SUPERBLOCK_BYTES].copy_from_slice(&superblock);
    let mut last = vec![0; BLOCK];
    last[..SUPERBLOCK_BYTES].copy_from_slice(&superblock);
    let log = first_log(options, segments);
    // The first superblock goes last: until it is there, the device is not recognised as NILFS2 by
    // its usual place.
    for (block, bytes) in [(FIRST_BLOCK, log), (second / BLOCK_BYTES, last), (0, first)] {
        let flags = WriteFlags { is_sync: true, ..WriteFlags::default() };
        medium.write(block, bytes, flags).await?.await?;
    }
    medium.flush().await?;
    Ok(())
}

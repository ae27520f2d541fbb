//! The summary of a log (partial segment): which block of which file each of its blocks is.
//!
//! Source: `struct nilfs_segment_summary`, `nilfs_finfo`, `nilfs_binfo_*` of
//! `include/uapi/linux/nilfs2_ondisk.h`; `fs/nilfs2/segbuf.c` and `segment.c` for the order.
//!
//! May use: `bytes`, `records`.

use crate::bytes::{Checksum, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::records::DAT_INODE;

/// The log begins a logical segment.
pub const LOG_BEGIN: u16 = 1;
/// The log ends a logical segment.
pub const LOG_END: u16 = 2;
/// The log's last block is a super root.
pub const LOG_SUPER_ROOT: u16 = 4;
/// The log holds data of one file that was made durable without its metadata.
pub const LOG_DATA_SYNC: u16 = 8;
/// The log was written by the cleaner.
pub const LOG_CLEANER: u16 = 0x10;

/// Bytes of the summary's header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of the header of older media, without the checkpoint's number.
const HEADER_BYTES_MIN: usize = 56;
/// Bytes of the header of a file's blocks.
pub const FILE_INFO_BYTES: usize = 24;
const MAGIC: u32 = 0x1eaf_fa11;

/// Header of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHeader {
    /// Checksum of the whole log but its first four bytes.
    pub data_sum: u32,
    /// Checksum of the summary but its first eight bytes.
    pub summary_sum: u32,
    /// Any of the `LOG_*` flags.
    pub flags: u16,
    /// Sequence number of the segment.
    pub sequence: u64,
    /// When it was made, seconds.
    pub created: u64,
    /// First block of the segment that follows.
    pub next: u64,
    /// Blocks of the log.
    pub blocks: u32,
    /// Files that have blocks in the log.
    pub files: u32,
    /// Bytes of the summary.
    pub summary_bytes: u32,
    /// Checkpoint that is being made.
    pub checkpoint: u64,
    /// Bytes of the header.
    pub header_bytes: u16,
}

impl LogHeader {
    /// Reads one; none if the magic number is missing or sizes make no sense.
    pub fn decode(block: &[u8]) -> Option<Self> {
        if get_u32(block, 8) != MAGIC {
            return None;
        }
        let header = Self {
            data_sum: get_u32(block, 0),
            summary_sum: get_u32(block, 4),
            header_bytes: get_u16(block, 12),
            flags: get_u16(block, 14),
            sequence: get_u64(block, 16),
            created: get_u64(block, 24),
            next: get_u64(block, 32),
            blocks: get_u32(block, 40),
            files: get_u32(block, 44),
            summary_bytes: get_u32(block, 48),
            checkpoint: get_u64(block, 56),
        };
        let bytes = header.header_bytes as usize;
        let holds = bytes >= HEADER_BYTES_MIN
            && bytes <= block.len()
            && header.summary_bytes as usize >= bytes
            && (header.summary_bytes as usize).div_ceil(block.len()) <= header.blocks as usize
            && header.blocks > 0;
        holds.then_some(header)
    }

    fn encode(&self, block: &mut [u8]) {
        put_u32(block, 8, MAGIC);
        put_u16(block, 12, HEADER_BYTES as u16);
        put_u16(block, 14, self.flags);
        put_u64(block, 16, self.sequence);
        put_u64(block, 24, self.created);
        put_u64(block, 32, self.next);
        put_u32(block, 40, self.blocks);
        put_u32(block, 44, self.files);
        put_u32(block, 48, self.summary_bytes);
        put_u32(block, 52, 0);
        put_u64(block, 56, self.checkpoint);
    }

    /// Blocks that the summary takes.
    pub fn summary_blocks(&self, block_bytes: usize) -> u32 {
        (self.summary_bytes as usize).div_ceil(block_bytes) as u32
    }

    /// True if both checksums of a whole log match.
    pub fn is_intact(&self, log: &[u8], seed: u32) -> bool {
        let summary_bytes = self.summary_bytes as usize;
        summary_bytes <= log.len()
            && Checksum::of(seed, &log[4..]) == self.data_sum
            && Checksum::of(seed, &log[8..summary_bytes]) == self.summary_sum
    }
}

/// What the summary says of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// Virtual block number; 0 of blocks of the DAT.
    pub virtual_block: u64,
    /// Block of the file, of data; of node blocks of the DAT their first key.
    pub offset: u64,
    /// Level of node blocks of the DAT.
    pub level: u8,
}

/// What the summary says of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// Inode number of the file.
    pub inode: u64,
    /// Checkpoint of which it is.
    pub checkpoint: u64,
    /// Its data blocks, then its node blocks.
    pub blocks: Vec<BlockInfo>,
    /// How many of them are data.
    pub data_blocks: u32,
}

/// Bytes of what the summary says of a data block or a node block of a file.
pub fn block_info_bytes(inode: u64, is_node: bool) -> usize {
    match (inode == DAT_INODE, is_node) {
        // Data of files: virtual number and offset. Nodes of the DAT: offset and level. The other
        // two kinds need one number.
        (false, false) | (true, true) => 16,
        (true, false) | (false, true) => 8,
    }
}

/// Position in a summary: entries do not cross blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    at: usize,
    block_bytes: usize,
}

impl Cursor {
    /// A position behind the header, where the first entry stands.
    pub fn new(header_bytes: usize, block_bytes: usize) -> Self {
        Self { at: header_bytes, block_bytes }
    }

    /// Takes an entry's place; gives its first byte.
    pub fn take(&mut self, bytes: usize) -> usize {
        if self.at % self.block_bytes + bytes > self.block_bytes || self.is_at_edge() {
            self.at = self.at.next_multiple_of(self.block_bytes);
        }
        let at = self.at;
        self.at += bytes;
        at
    }

    fn is_at_edge(&self) -> bool {
        self.at.is_multiple_of(self.block_bytes)
    }

    /// True if so many bytes do not fit into the block any more.
    pub fn needs_block(&self, bytes: usize) -> bool {
        self.is_at_edge() || self.at % self.block_bytes + bytes > self.block_bytes
    }

    /// Bytes up to here.
    pub fn bytes(&self) -> usize {
        self.at
    }
}

/// Reads what the summary of a log says of its files; the error says why it makes no sense.
pub fn decode_files(
    header: &LogHeader,
    summary: &[u8],
    block_bytes: usize,
) -> Result<Vec<FileInfo>, String> {
    let mut cursor = Cursor::new(header.header_bytes as usize, block_bytes);
    let mut files = Vec::new();
    let end = summary.len().min((header.summary_bytes as usize).next_multiple_of(block_bytes));
    let fits = |at: usize, bytes: usize| {
        if at + bytes <= end { Ok(at) } else { Err("the summary ends too early".to_owned()) }
    };
    let mut total = header.summary_blocks(block_bytes);
    for _ in 0..header.files {
        let at = fits(cursor.take(FILE_INFO_BYTES), FILE_INFO_BYTES)?;
        let (count, data_blocks) = (get_u32(summary, at + 16), get_u32(summary, at + 20));
        total = total.saturating_add(count);
        if data_blocks > count || total > header.blocks {
            return Err(format!("a file of {count} blocks in a log of {}", header.blocks));
        }
        let inode = get_u64(summary, at);
        let mut file = FileInfo {
            inode,
            checkpoint: get_u64(summary, at + 8),
            blocks: Vec::with_capacity(count as usize),
            data_blocks,
        };
        for index in 0..count {
            let is_node = index >= data_blocks;
            let bytes = block_info_bytes(inode, is_node);
            let at = fits(cursor.take(bytes), bytes)?;
            file.blocks.push(match (inode == DAT_INODE, is_node) {
                (false, false) => BlockInfo {
                    virtual_block: get_u64(summary, at),
                    offset: get_u64(summary, at + 8),
                    level: 0,
                },
                (false, true) => {
                    BlockInfo { virtual_block: get_u64(summary, at), offset: 0, level: 0 }
                }
                (true, false) => {
                    BlockInfo { virtual_block: 0, offset: get_u64(summary, at), level: 0 }
                }
                (true, true) => BlockInfo {
                    virtual_block: 0,
                    offset: get_u64(summary, at),
                    level: summary[at + 8],
                },
            });
        }
        files.push(file);
    }
    Ok(files)
}

/// The summary blocks of a log, without checksums. `summary_bytes` and `files` of the header are
/// set here.
pub fn encode_summary(header: &mut LogHeader, files: &[FileInfo], block_bytes: usize) -> Vec<u8> {
    let mut cursor = Cursor::new(HEADER_BYTES, block_bytes);
    let mut summary = vec![0; block_bytes];
    let mut place = |summary: &mut Vec<u8>, bytes: usize| {
        let at = cursor.take(bytes);
        let needed = (at + bytes).next_multiple_of(block_bytes);
        if summary.len() < needed {
            summary.resize(needed, 0);
        }
        at
    };
    for file in files {
        let at = place(&mut summary, FILE_INFO_BYTES);
        put_u64(&mut summary, at, file.inode);
        put_u64(&mut summary, at + 8, file.checkpoint);
        put_u32(&mut summary, at + 16, file.blocks.len() as u32);
        put_u32(&mut summary, at + 20, file.data_blocks);
        for (index, block) in file.blocks.iter().enumerate() {
            let is_node = index >= file.data_blocks as usize;
            let at = place(&mut summary, block_info_bytes(file.inode, is_node));
            match (file.inode == DAT_INODE, is_node) {
                (false, false) => {
                    put_u64(&mut summary, at, block.virtual_block);
                    put_u64(&mut summary, at + 8, block.offset);
                }
                (false, true) => put_u64(&mut summary, at, block.virtual_block),
                (true, false) => put_u64(&mut summary, at, block.offset),
                (true, true) => {
                    put_u64(&mut summary, at, block.offset);
                    summary[at + 8] = block.level;
                }
            }
        }
    }
    header.files = files.len() as u32;
    header.summary_bytes = cursor.bytes() as u32;
    header.header_bytes = HEADER_BYTES as u16;
    header.encode(&mut summary);
    summary
}

/// Puts both checksums into the first block of a log.
pub fn seal(log: &mut [u8], summary_bytes: u32, seed: u32) {
    // The summary's checksum first, since the log's checksum covers it.
    let sum = Checksum::of(seed, &log[8..summary_bytes as usize]);
    put_u32(log, 4, sum);
    let sum = Checksum::of(seed, &log[4..]);
    put_u32(log, 0, sum);
}

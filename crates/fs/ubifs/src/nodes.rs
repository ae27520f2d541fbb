//! Nodes as they stand on the medium.
//!
//! Source of the format: `fs/ubifs/ubifs-media.h`. Numbers are little endian; a node begins at a multiple
//! of eight bytes with a common header whose checksum covers everything behind it. A format: uses formats
//! only.

use crate::keys::{KEY_BYTES, Key};
use crate::position::{LebNumber, Position};

/// Kinds of nodes, as the common header stores them (`UBIFS_*_NODE`).
pub(crate) mod kind {
    pub(crate) const INODE: u8 = 0;
    pub(crate) const DATA: u8 = 1;
    pub(crate) const ENTRY: u8 = 2;
    pub(crate) const ATTRIBUTE: u8 = 3;
    pub(crate) const TRUNCATION: u8 = 4;
    pub(crate) const PADDING: u8 = 5;
    pub(crate) const SUPERBLOCK: u8 = 6;
    pub(crate) const MASTER: u8 = 7;
    pub(crate) const REFERENCE: u8 = 8;
    pub(crate) const INDEX: u8 = 9;
    pub(crate) const COMMIT_START: u8 = 10;
    pub(crate) const ORPHANS: u8 = 11;
    pub(crate) const AUTHENTICATION: u8 = 12;
    pub(crate) const SIGNATURE: u8 = 13;
}

/// The group of a node: a group is on the medium whole, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// The node is in no group.
    None,
    /// More nodes of the same group follow.
    Member,
    /// The last node of its group.
    Last,
}

pub(crate) const MAGIC: u32 = 0x0610_1831;
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const INODE_BYTES: usize = 160;
pub(crate) const DATA_BYTES: usize = 48;
pub(crate) const ENTRY_BYTES: usize = 56;
pub(crate) const TRUNCATION_BYTES: usize = 56;
pub(crate) const PADDING_BYTES: usize = 28;
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
pub(crate) const MASTER_BYTES: usize = 512;
pub(crate) const REFERENCE_BYTES: usize = 64;
pub(crate) const INDEX_BYTES: usize = 28;
pub(crate) const BRANCH_BYTES: usize = 12 + KEY_BYTES;
pub(crate) const COMMIT_START_BYTES: usize = 32;
pub(crate) const ORPHANS_BYTES: usize = 32;
/// Bytes of a file in one data node.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Longest data node, inode node (with the data it may hold) and entry.
pub(crate) const MAX_DATA_NODE_BYTES: usize = DATA_BYTES + BLOCK_BYTES;
pub(crate) const MAX_INODE_DATA_BYTES: usize = 4096;
pub(crate) const MAX_INODE_NODE_BYTES: usize = INODE_BYTES + MAX_INODE_DATA_BYTES;
pub(crate) const MAX_NAME_BYTES: usize = 255;
pub(crate) const MAX_ENTRY_NODE_BYTES: usize = ENTRY_BYTES + MAX_NAME_BYTES + 1;
/// Longest node of all but those of the index and of orphans.
pub const MAX_NODE_BYTES: usize = MAX_INODE_NODE_BYTES;
/// Fills gaps that are too short for a padding node.
pub(crate) const PADDING_BYTE: u8 = 0xce;

/// CRC-32 without the final inversion.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    // The kernel calls `crc32(UBIFS_CRC32_INIT, …)` and does not invert the result.
    !crc32fast::hash(bytes)
}

/// Bytes up to where the next node may begin.
pub(crate) const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Eraseblock and offset, one word each, as nodes name them.
pub(crate) fn position_at(bytes: &[u8], at: usize) -> Position {
    Position::new(LebNumber::new(u32_at(bytes, at)), u32_at(bytes, at + 4))
}

pub(crate) fn put_position(bytes: &mut [u8], at: usize, position: Position) {
    put_u32(bytes, at, position.leb.get());
    put_u32(bytes, at + 4, position.offset);
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The common header of all nodes, checked (`struct ubifs_ch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u64,
    pub(crate) bytes: usize,
    pub(crate) kind: u8,
    pub(crate) group: Group,
}

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NodeError {
    #[error("no node begins here")]
    NoNode,
    #[error("its kind or length cannot be")]
    BadForm,
    #[error("its checksum is wrong")]
    BadChecksum,
}

/// Lengths a node of a kind may have; none for kinds that do not exist.
fn lengths(kind: u8) -> Option<std::ops::RangeInclusive<usize>> {
    Some(match kind {
        kind::INODE => INODE_BYTES..=MAX_INODE_NODE_BYTES,
        kind::DATA => DATA_BYTES + 1..=MAX_DATA_NODE_BYTES,
        kind::ENTRY | kind::ATTRIBUTE => ENTRY_BYTES..=MAX_ENTRY_NODE_BYTES,
        kind::TRUNCATION => TRUNCATION_BYTES..=TRUNCATION_BYTES,
        kind::PADDING => PADDING_BYTES..=PADDING_BYTES,
        kind::SUPERBLOCK => SUPERBLOCK_BYTES..=SUPERBLOCK_BYTES,
        kind::MASTER => MASTER_BYTES..=MASTER_BYTES,
        kind::REFERENCE => REFERENCE_BYTES..=REFERENCE_BYTES,
        // The largest index node depends on the fanout, which is in the superblock.
        kind::INDEX => INDEX_BYTES + BRANCH_BYTES..=usize::MAX,
        kind::COMMIT_START => COMMIT_START_BYTES..=COMMIT_START_BYTES,
        kind::ORPHANS => ORPHANS_BYTES + 8..=usize::MAX,
        kind::AUTHENTICATION | kind::SIGNATURE => HEADER_BYTES..=usize::MAX,
        _ => return None,
    })
}

impl Header {
    /// The header and whether the node behind it is whole (`ubifs_check_node`).
    pub(crate) fn check(bytes: &[u8]) -> Result<Self, NodeError> {
        if bytes.len() < HEADER_BYTES || u32_at(bytes, 0) != MAGIC {
            return Err(NodeError::NoNode);
        }
        let node_bytes = u32_at(bytes, 16) as usize;
        let kind = bytes[20];
        let fits = lengths(kind).is_some_and(|lengths| lengths.contains(&node_bytes));
        if !fits || node_bytes > bytes.len() {
            return Err(NodeError::BadForm);
        }
        if crc(&bytes[8..node_bytes]) != u32_at(bytes, 4) {
            return Err(NodeError::BadChecksum);
        }
        let group = match bytes[21] {
            0 => Group::None,
            1 => Group::Member,
            _ => Group::Last,
        };
        Ok(Self { sequence: u64_at(bytes, 8), bytes: node_bytes, kind, group })
    }
}

/// Fills in the header of a node whose length is that of `node`.
pub(crate) fn seal(node: &mut [u8], kind: u8, sequence: u64, group: Group) {
    // What is written here must pass `Header::check` when it is read.
    debug_assert!(
        lengths(kind).is_some_and(|lengths| lengths.contains(&node.len())),
        "a node of kind {kind} cannot have {} bytes",
        node.len()
    );
    put_u32(node, 0, MAGIC);
    put_u64(node, 8, sequence);
    put_u32(node, 16, node.len() as u32);
    node[20] = kind;
    node[21] = match group {
        Group::None => 0,
        Group::Member => 1,
        Group::Last => 2,
    };
    // Padding bytes of the header are part of the checksum.
    node[22..24].fill(0);
    // The checksum leaves out the magic number and itself.
    let sum = crc(&node[8..]);
    put_u32(node, 4, sum);
}

/// Fills a gap behind nodes (`ubifs_pad`).
pub(crate) fn pad(gap: &mut [u8]) {
    if gap.len() < PADDING_BYTES {
        gap.fill(PADDING_BYTE);
        return;
    }
    gap.fill(0);
    // The length names the bytes behind the padding node, which lie outside its checksum.
    put_u32(gap, 24, (gap.len() - PADDING_BYTES) as u32);
    // Sequence zero: `ubifs_pad` draws no number, so padding does not disturb the order of a
    // replay.
    seal(&mut gap[..PADDING_BYTES], kind::PADDING, 0, Group::None);
}

/// A node, or several, padded up to the next unit of writing.
pub(crate) fn padded(mut bytes: Vec<u8>, min_io: u32) -> Vec<u8> {
    let used = bytes.len().next_multiple_of(8);
    bytes.resize(used, 0);
    bytes.resize(used.next_multiple_of(min_io as usize), 0);
    pad(&mut bytes[used..]);
    bytes
}

/// The key of a node that has one.
pub(crate) fn key_of(node: &[u8]) -> Key {
    Key::parse(&node[HEADER_BYTES..])
}

/// Time of an inode: seconds and nanoseconds.
pub(crate) type Stamp = (i64, u32);

/// An inode node (`struct ubifs_ino_node`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InodeNode {
    pub(crate) key: Key,
    pub(crate) creation: u64,
    pub(crate) size: u64,
    pub(crate) accessed: Stamp,
    pub(crate) changed: Stamp,
    pub(crate) modified: Stamp,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    pub(crate) flags: u32,
    pub(crate) attribute_count: u32,
    pub(crate) attribute_bytes: u32,
    pub(crate) attribute_name_bytes: u32,
    pub(crate) compressor: u16,
    /// Target of a symbolic link, device number, value of an extended attribute.
    pub(crate) data: Vec<u8>,
}

impl InodeNode {
    /// The inode of a node; none if the node names data that it does not hold.
    ///
    /// A deletion is the exception: `pack_inode` of `fs/ubifs/journal.c` keeps the length of the data of an
    /// inode without links, but leaves the data out. Such a node counts as one without data.
    pub(crate) fn parse(node: &[u8]) -> Option<Self> {
        let (data_bytes, links) = (u32_at(node, 112) as usize, u32_at(node, 92));
        let held = node.get(INODE_BYTES..)?.get(..data_bytes);
        let data = if links == 0 { held.unwrap_or_default() } else { held? };
        Some(Self {
            key: key_of(node),
            creation: u64_at(node, 40),
            size: u64_at(node, 48),
            accessed: (u64_at(node, 56).cast_signed(), u32_at(node, 80)),
            changed: (u64_at(node, 64).cast_signed(), u32_at(node, 84)),
            modified: (u64_at(node, 72).cast_signed(), u32_at(node, 88)),
            links,
            uid: u32_at(node, 96),
            gid: u32_at(node, 100),
            mode: u32_at(node, 104),
            flags: u32_at(node, 108),
            attribute_count: u32_at(node, 116),
            attribute_bytes: u32_at(node, 120),
            attribute_name_bytes: u32_at(node, 128),
            compressor: u16_at(node, 132),
            data: data.to_vec(),
        })
    }

    /// The node without its header. One without links names the length of its data and holds none of it.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let held: &[u8] = if self.links == 0 { &[] } else { &self.data };
        let mut node = vec![0; INODE_BYTES + held.len()];
        self.key.put(&mut node[24..]);
        put_u64(&mut node, 40, self.creation);
        put_u64(&mut node, 48, self.size);
        put_u64(&mut node, 56, self.accessed.0.cast_unsigned());
        put_u64(&mut node, 64, self.changed.0.cast_unsigned());
        put_u64(&mut node, 72, self.modified.0.cast_unsigned());
        put_u32(&mut node, 80, self.accessed.1);
        put_u32(&mut node, 84, self.changed.1);
        put_u32(&mut node, 88, self.modified.1);
        put_u32(&mut node, 92, self.links);
        put_u32(&mut node, 96, self.uid);
        put_u32(&mut node, 100, self.gid);
        put_u32(&mut node, 104, self.mode);
        put_u32(&mut node, 108, self.flags);
        put_u32(&mut node, 112, self.data.len() as u32);
        put_u32(&mut node, 116, self.attribute_count);
        put_u32(&mut node, 120, self.attribute_bytes);
        put_u32(&mut node, 128, self.attribute_name_bytes);
        put_u16(&mut node, 132, self.compressor);
        node[INODE_BYTES..].copy_from_slice(held);
        node
    }
}

/// A block of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataNode {
    pub(crate) key: Key,
    /// Bytes of the block before compression.
    pub(crate) bytes: u32,
    pub(crate) compressor: u16,
    pub(crate) stored: Vec<u8>,
}

impl DataNode {
    pub(crate) fn parse(node: &[u8]) -> Self {
        Self {
            key: key_of(node),
            bytes: u32_at(node, 40),
            compressor: u16_at(node, 44),
            stored: node[DATA_BYTES..].to_vec(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut node = vec![0; DATA_BYTES + self.stored.len()];
        self.key.put(&mut node[24..]);
        put_u32(&mut node, 40, self.bytes);
        put_u16(&mut node, 44, self.compressor);
        node[DATA_BYTES..].copy_from_slice(&self.stored);
        node
    }
}

/// A name: of a directory, or of an extended attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryNode {
    pub(crate) key: Key,
    /// Zero: the name was removed.
    pub(crate) inode: u64,
    /// Kind of the inode, by its number in entries: f d l b c p s from 0 on.
    pub(crate) file_type: u8,
    pub(crate) cookie: u32,
    pub(crate) name: Vec<u8>,
}

impl EntryNode {
    pub(crate) fn parse(node: &[u8]) -> Option<Self> {
        let name_bytes = usize::from(u16_at(node, 50));
        let name = node.get(ENTRY_BYTES..ENTRY_BYTES + name_bytes)?;
        Some(Self {
            key: key_of(node),
            inode: u64_at(node, 40),
            file_type: node[49],
            cookie: u32_at(node, 52),
            name: name.to_vec(),
        })
    }

    pub(crate) fn bytes_of(name: &[u8]) -> usize {
        ENTRY_BYTES + name.len() + 1
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut node = vec![0; Self::bytes_of(&self.name)];
        self.key.put(&mut node[24..]);
        put_u64(&mut node, 40, self.inode);
        node[49] = self.file_type;
        put_u16(&mut node, 50, self.name.len() as u16);
        put_u32(&mut node, 52, self.cookie);
        node[ENTRY_BYTES..ENTRY_BYTES + self.name.len()].copy_from_slice(&self.name);
        node
    }
}

/// A file was cut: data behind the new end is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TruncationNode {
    pub(crate) inode: u32,
    pub(crate) old_size: u64,
    pub(crate) new_size: u64,
}

impl TruncationNode {
    pub(crate) fn parse(node: &[u8]) -> Self {
        Self { inode: u32_at(node, 24), old_size: u64_at(node, 40), new_size: u64_at(node, 48) }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut node = vec![0; TRUNCATION_BYTES];
        put_u32(&mut node, 24, self.inode);
        put_u64(&mut node, 40, self.old_size);
        put_u64(&mut node, 48, self.new_size);
        node
    }
}

/// The log names an eraseblock that belongs to the journal from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReferenceNode {
    /// Where the part of the journal begins.
    pub(crate) at: Position,
    pub(crate) head: u32,
}

impl ReferenceNode {
    pub(crate) fn parse(node: &[u8]) -> Self {
        Self { at: position_at(node, 24), head: u32_at(node, 32) }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut node = vec![0; REFERENCE_BYTES];
        put_position(&mut node, 24, self.at);
        put_u32(&mut node, 32, self.head);
        node
    }
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) leb: LebNumber,
    pub(crate) offset: u32,
    /// Length of the node without its padding.
    pub(crate) bytes: u32,
}

impl Place {
    pub(crate) const fn new(at: Position, bytes: u32) -> Self {
        Self { leb: at.leb, offset: at.offset, bytes }
    }

    pub(crate) const fn position(self) -> Position {
        Position::new(self.leb, self.offset)
    }

    /// Where the next node may begin.
    pub(crate) const fn end(self) -> u32 {
        self.offset + self.bytes.next_multiple_of(8)
    }
}

/// A node of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexNode {
    /// Zero: branches lead to nodes that are not of the index.
    pub(crate) level: u16,
    pub(crate) branches: Vec<(Key, Place)>,
}

impl IndexNode {
    pub(crate) const fn bytes_of(branches: usize) -> usize {
        INDEX_BYTES + branches * BRANCH_BYTES
    }

    pub(crate) fn parse(node: &[u8]) -> Option<Self> {
        let (count, level) = (usize::from(u16_at(node, 24)), u16_at(node, 26));
        if count == 0 || node.len() < Self::bytes_of(count) {
            return None;
        }
        let branches = node[INDEX_BYTES..].chunks_exact(BRANCH_BYTES).take(count);
        let branches = branches.map(|branch| {
            let place = Place::new(position_at(branch, 0), u32_at(branch, 8));
            (Key::parse(&branch[12..]), place)
        });
        Some(Self { level, branches: branches.collect() })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut node = vec![0; Self::bytes_of(self.branches.len())];
        put_u16(&mut node, 24, self.branches.len() as u16);
        put_u16(&mut node, 26, self.level);
        for (branch, (key, place)) in
            node[INDEX_BYTES..].chunks_exact_mut(BRANCH_BYTES).zip(&self.branches)
        {
            put_position(branch, 0, place.position());
            put_u32(branch, 8, place.bytes);
            key.put(&mut branch[12..]);
        }
        node
    }
}

/// The beginning of a commit in the log.
pub(crate) fn commit_start(commit: u64) -> Vec<u8> {
    let mut node = vec![0; COMMIT_START_BYTES];
    put_u64(&mut node, 24, commit);
    node
}

/// Inodes without names, as a commit found them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrphansNode {
    pub(crate) commit: u64,
    /// Last node of its commit.
    pub(crate) is_last: bool,
    pub(crate) inodes: Vec<u64>,
}

impl OrphansNode {
    pub(crate) fn parse(node: &[u8]) -> Self {
        let word = u64_at(node, 24);
        let inodes = node[ORPHANS_BYTES..].chunks_exact(8).map(|bytes| u64_at(bytes, 0)).collect();
        Self { commit: word & (u64::MAX >> 1), is_last: word >> 63 == 1, inodes }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut node = vec![0; ORPHANS_BYTES + 8 * self.inodes.len()];
        put_u64(&mut node, 24, self.commit | u64::from(self.is_last) << 63);
        for (at, inode) in self.inodes.iter().enumerate() {
            put_u64(&mut node, ORPHANS_BYTES + 8 * at, *inode);
        }
        node
    }
}

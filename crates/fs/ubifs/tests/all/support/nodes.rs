//! Nodes as they stand on the medium, read by hand: what the engine wrote, not what it reads back.

/// A node that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawNode {
    pub(crate) leb: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// Kinds of nodes (`fs/ubifs/ubifs-media.h`).
pub(crate) const INODE: u8 = 0;
pub(crate) const DATA: u8 = 1;
pub(crate) const ENTRY: u8 = 2;
pub(crate) const ATTRIBUTE: u8 = 3;
pub(crate) const TRUNCATION: u8 = 4;

impl RawNode {
    pub(crate) fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn sequence(&self) -> u64 {
        u64::from(self.word(8)) | u64::from(self.word(12)) << 32
    }

    pub(crate) fn kind(&self) -> u8 {
        self.bytes[20]
    }

    /// 0: of no group; 1: others of the group follow; 2: the last of it.
    pub(crate) fn group(&self) -> u8 {
        self.bytes[21]
    }

    /// Inode of the key.
    pub(crate) fn inode(&self) -> u32 {
        self.word(24)
    }

    /// Links of an inode node, and the bytes of data that it names.
    pub(crate) fn links_and_data(&self) -> (u32, u32) {
        (self.word(92), self.word(112))
    }

    /// Name of an entry.
    pub(crate) fn name(&self) -> &[u8] {
        let length = usize::from(u16::from_le_bytes([self.bytes[50], self.bytes[51]]));
        &self.bytes[56..56 + length]
    }
}

/// Whole nodes of all eraseblocks that belong to the journal or may: inodes, data, entries, truncations, in
/// the order in which they were written.
pub(crate) fn journal_nodes(contents: &[Option<Vec<u8>>]) -> Vec<RawNode> {
    let mut nodes = Vec::new();
    for (leb, bytes) in contents.iter().enumerate() {
        let Some(bytes) = bytes else { continue };
        for offset in (0..bytes.len().saturating_sub(24)).step_by(8) {
            let rest = &bytes[offset..];
            if rest[..4] != [0x31, 0x18, 0x10, 0x06] || rest[20] > TRUNCATION {
                continue;
            }
            let length = u32::from_le_bytes(rest[16..20].try_into().expect("four bytes")) as usize;
            let node = RawNode { leb, offset, bytes: rest[..length].to_vec() };
            assert_eq!(!crc32fast::hash(&node.bytes[8..]), node.word(4), "LEB {leb}:{offset}");
            nodes.push(node);
        }
    }
    nodes.sort_by_key(RawNode::sequence);
    nodes
}

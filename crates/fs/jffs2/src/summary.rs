//! Erase block summaries: what a block holds, at its end.
//!
//! Source: `fs/jffs2/summary.c`.
//!
//! May use: `nodes`.

use crate::nodes::{
    DIRENT, Header, INODE, SUMMARY, XATTR, XREF, XREF_BYTES, crc, padded, u16_at, u32_at,
};

/// The last four bytes of a block with a summary.
const MARK: u32 = 0x0285_1885;
/// Bytes of the node before its entries.
const FRAME_BYTES: usize = 32;
/// Bytes of the marker behind the entries: offset of the node, and [`MARK`].
const MARKER_BYTES: usize = 8;
/// Summaries larger than this are not written.
const BYTES_MAX: usize = 64 * 1024;

/// What the summary of the block being written will say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collected {
    entries: Vec<u8>,
    count: u32,
    padding: u32,
    pub(crate) is_disabled: bool,
}

/// Bytes of the entry of a node, for the room that must stay free.
pub(crate) const fn entry_bytes(node_type: u16, name_bytes: usize) -> u32 {
    match node_type {
        INODE | XATTR => 18,
        DIRENT => 24 + name_bytes as u32,
        XREF => 6,
        _ => 0,
    }
}

impl Collected {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn disable(&mut self) {
        self.clear();
        self.is_disabled = true;
    }

    /// Bytes of the summary with one more entry.
    pub(crate) fn bytes_with(&self, entry: u32) -> u32 {
        padded(self.entries.len() as u32 + entry + (FRAME_BYTES + MARKER_BYTES) as u32)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Adds a node that was written or scanned, by its first bytes.
    pub(crate) fn add(&mut self, node: &[u8], at: u32) {
        if self.is_disabled {
            return;
        }
        let header = Header::parse(node);
        let put = &mut self.entries;
        put.extend_from_slice(&header.node_type.to_le_bytes());
        match header.node_type {
            INODE | XATTR => {
                put.extend_from_slice(&node[12..20]);
                put.extend_from_slice(&at.to_le_bytes());
                put.extend_from_slice(&header.total_bytes.to_le_bytes());
            }
            DIRENT => {
                put.extend_from_slice(&header.total_bytes.to_le_bytes());
                put.extend_from_slice(&at.to_le_bytes());
                put.extend_from_slice(&node[12..24]);
                put.extend_from_slice(&node[28..30]);
                put.extend_from_slice(&node[40..40 + usize::from(node[28])]);
            }
            XREF => put.extend_from_slice(&at.to_le_bytes()),
            _ => {
                let rest = put.len() - 2;
                put.truncate(rest);
                // Padding has no entry. Its sum tells the mount how much of the block is waste, not
                // dirt.
                self.padding += header.total_bytes;
                return;
            }
        }
        self.count += 1;
    }

    /// The node, filled up to `room` bytes, for offset `at` of its block, which begins with a mark of
    /// `marker_bytes`; none if it does not fit.
    pub(crate) fn to_bytes(&self, at: u32, room: u32, marker_bytes: u32) -> Option<Vec<u8>> {
        let needed = FRAME_BYTES + self.entries.len() + MARKER_BYTES;
        if self.is_disabled || needed > room as usize || needed > BYTES_MAX {
            return None;
        }
        let mut body = self.entries.clone();
        // The node fills the block to its end, where the mount looks for the marker.
        body.resize(room as usize - FRAME_BYTES - MARKER_BYTES, 0xff);
        body.extend_from_slice(&at.to_le_bytes());
        body.extend_from_slice(&MARK.to_le_bytes());
        let mut bytes = Header::new(SUMMARY, room).to_bytes().to_vec();
        for word in [self.count, marker_bytes, self.padding, crc(&body)] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let node_crc = crc(&bytes[..24]);
        bytes.splice(28.., node_crc.to_le_bytes());
        bytes.extend_from_slice(&body);
        debug_assert_eq!(
            parse_summary(&bytes).map(|entries| entries.len()),
            Some(self.count as usize),
            "a mount reads what is written"
        );
        Some(bytes)
    }
}

/// Where the summary of a block begins, by its last eight bytes.
pub fn summary_offset(marker: &[u8], block_bytes: u32) -> Option<u32> {
    let offset = u32_at(marker, 0);
    let is_sane = u32_at(marker, 4) == MARK
        && offset.is_multiple_of(4)
        && offset as usize + FRAME_BYTES + MARKER_BYTES <= block_bytes as usize;
    is_sane.then_some(offset)
}

/// An entry of a summary: what a node says of itself, and where it stands in the block.
#[derive(Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the nodes")]
pub enum SummaryEntry<'a> {
    /// An inode node, with or without data.
    Inode { inode: u32, at: u32, length: u32 },
    /// A directory entry with its name.
    Dirent { at: u32, length: u32, parent: u32, version: u32, inode: u32, kind: u8, name: &'a [u8] },
    /// Name and value of an extended attribute.
    Xattr { id: u32, version: u32, at: u32, length: u32 },
    /// Reference to an extended attribute.
    Xref { at: u32 },
}

impl SummaryEntry<'_> {
    /// Offset of the node in its block, and its length without padding.
    pub fn place(&self) -> (u32, u32) {
        match self {
            Self::Inode { at, length, .. }
            | Self::Dirent { at, length, .. }
            | Self::Xattr { at, length, .. } => (*at, *length),
            Self::Xref { at } => (*at, XREF_BYTES as u32),
        }
    }
}

/// The entries of a summary node; none if a CRC is wrong or an entry makes no sense.
pub fn parse_summary(node: &[u8]) -> Option<Vec<SummaryEntry<'_>>> {
    let header = Header::parse(node.get(..FRAME_BYTES)?);
    let is_sound = header.is_valid()
        && header.node_type == SUMMARY
        && header.total_bytes as usize == node.len()
        && crc(&node[..24]) == u32_at(node, 28)
        && crc(&node[FRAME_BYTES..]) == u32_at(node, 24);
    if !is_sound {
        return None;
    }
    let count = u32_at(node, 12);
    let mut rest = node.get(FRAME_BYTES..node.len() - MARKER_BYTES)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let bytes = match u16_at(rest.get(..2)?, 0) {
            INODE | XATTR => 18,
            XREF => 6,
            DIRENT => 24 + usize::from(*rest.get(22)?),
            _ => return None,
        };
        let entry = rest.get(..bytes)?;
        rest = &rest[bytes..];
        entries.push(match u16_at(entry, 0) {
            INODE => SummaryEntry::Inode {
                inode: u32_at(entry, 2),
                at: u32_at(entry, 10),
                length: u32_at(entry, 14),
            },
            XATTR => SummaryEntry::Xattr {
                id: u32_at(entry, 2),
                version: u32_at(entry, 6),
                at: u32_at(entry, 10),
                length: u32_at(entry, 14),
            },
            XREF => SummaryEntry::Xref { at: u32_at(entry, 2) },
            _ => SummaryEntry::Dirent {
                length: u32_at(entry, 2),
                at: u32_at(entry, 6),
                parent: u32_at(entry, 10),
                version: u32_at(entry, 14),
                inode: u32_at(entry, 18),
                kind: entry[23],
                name: &entry[24..],
            },
        });
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::{Collected, SummaryEntry, parse_summary, summary_offset};
    use crate::nodes::{DirentNode, InodeNode};

    #[test]
    fn summaries_come_back() {
        let mut collected = Collected::default();
        collected
            .add(&InodeNode { inode: 5, version: 1, ..InodeNode::default() }.to_bytes(b"xy"), 0);
        let entry = DirentNode {
            parent: 1,
            version: 2,
            inode: 5,
            changed: 0,
            kind: 8,
            name: b"name".to_vec(),
        };
        collected.add(&entry.to_bytes(), 72);
        let bytes = collected.to_bytes(116, 4096 - 116, 0).expect("it fits");
        assert_eq!(summary_offset(&bytes[bytes.len() - 8..], 4096), Some(116));
        let entries = parse_summary(&bytes).expect("sound");
        assert_eq!(entries[0], SummaryEntry::Inode { inode: 5, at: 0, length: 70 });
        assert_eq!(entries.len(), 2);
        let mut damaged = bytes.clone();
        damaged[40] ^= 1;
        assert!(parse_summary(&damaged).is_none());
        assert!(parse_summary(&bytes[..100]).is_none());
    }
}

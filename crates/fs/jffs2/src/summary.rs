//! Erase block summaries: what a block holds, at its end.
//!
//! Source: `fs/jffs2/summary.c`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::{
    DIRENT, Header, INODE, NAME_BYTES_MAX, SUMMARY, XATTR, XREF, XREF_BYTES, XrefNode, crc, padded,
    u16_at, u32_at,
};
use crate::state::{Entry, NodeState, Owner, name_hash};
use fs_api::{Errno, Place};

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
    fn to_bytes(&self, at: u32, room: u32, marker_bytes: u32) -> Option<Vec<u8>> {
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

impl Engine {
    /// Takes what a block holds from its summary (`jffs2_sum_scan_sumnode`); false if it has to be
    /// scanned. Nothing is linked unless all entries make sense.
    pub(crate) async fn scan_summary(
        &self,
        block: u32,
        node: &[u8],
        node_at: u32,
    ) -> Result<bool, Errno> {
        self.charge_crc(node.len()).await;
        let Some(entries) = parse_summary(node) else {
            self.find(
                Code::DamagedSummary,
                Place::Block(block.into()),
                format!("block {block}: the summary is damaged"),
            );
            return Ok(false);
        };
        let marker_bytes = u32_at(node, 16);
        let has_mark = self.is_in_band() && marker_bytes == self.marker_bytes();
        let mut end = if has_mark { marker_bytes } else { 0 };
        for entry in &entries {
            let (at, length) = entry.place();
            let next = at.checked_add(length).map(padded);
            // Entries out of order or over each other would break the accounts. The block is
            // scanned instead.
            if at < end
                || !at.is_multiple_of(4)
                || length == 0
                || next.is_none_or(|next| next > node_at)
            {
                self.find(
                    Code::SenselessSummary,
                    Place::Block(block.into()),
                    format!("block {block}: the summary makes no sense"),
                );
                return Ok(false);
            }
            end = next.unwrap_or(node_at);
        }
        let first = block * self.block_bytes;
        if has_mark && marker_bytes <= node_at {
            let mut state = self.state.borrow_mut();
            state.link(first, marker_bytes, NodeState::Normal, Owner::None);
        }
        for entry in entries {
            if let SummaryEntry::Xref { at } = entry {
                let mut bytes = [0; XREF_BYTES];
                self.read(first + at, &mut bytes).await?;
                let mut state = self.state.borrow_mut();
                state.link_gap(first + at);
                match XrefNode::parse(&bytes) {
                    Some(node) => state.link_xref(first + at, &node),
                    None => state.link_dirt(first + at, XREF_BYTES as u32),
                }
                continue;
            }
            let mut state = self.state.borrow_mut();
            match entry {
                SummaryEntry::Inode { inode, at, length } => {
                    state.link_gap(first + at);
                    let owner = Owner::Inode(inode);
                    state.link(first + at, padded(length), NodeState::Unchecked, owner);
                }
                SummaryEntry::Dirent { at, length, parent, version, inode, kind, name } => {
                    state.link_gap(first + at);
                    let owner = Owner::Inode(parent);
                    let unchecked = NodeState::Unchecked;
                    let Some(node) = state.link(first + at, padded(length), unchecked, owner)
                    else {
                        continue;
                    };
                    let name = name[..name.len().min(NAME_BYTES_MAX)].to_vec();
                    let name_hash = name_hash(&name);
                    let entry = Entry { node, version, inode, kind, name_hash, name };
                    state.add_scanned(parent, entry);
                }
                SummaryEntry::Xattr { id, version, at, length } => {
                    state.link_gap(first + at);
                    state.link_xattr(first + at, padded(length), id, version);
                }
                SummaryEntry::Xref { .. } => {}
            }
        }
        let mut state = self.state.borrow_mut();
        state.link_gap(first + node_at);
        state.link(first + node_at, node.len() as u32, NodeState::Normal, Owner::None);
        self.count(|statistics| statistics.summaries_read += 1);
        Ok(true)
    }

    /// Writes the summary of the block being written into all that is left of it
    /// (`jffs2_sum_write_sumnode`).
    pub(crate) async fn write_summary(&self) -> Result<(), Errno> {
        let Some(offset) = self.write_offset() else { return Ok(()) };
        let bytes = {
            let mut state = self.state.borrow_mut();
            // A page that was flushed half full may have been the last: then nothing is left, and the
            // offset is that of the next block.
            let room = state.next_block.map_or(0, |block| state.blocks[block as usize].free);
            let bytes = state.summary.to_bytes(self.block_bytes - room, room, self.marker_bytes());
            if bytes.is_none() {
                state.summary.disable();
            }
            bytes
        };
        let Some(bytes) = bytes else { return Ok(()) };
        self.charge_crc(bytes.len()).await;
        match self.write_buffered(offset, &bytes, 0).await {
            Ok(()) => {
                let length = bytes.len() as u32;
                self.state.borrow_mut().link(offset, length, NodeState::Normal, Owner::None);
                self.count(|statistics| statistics.summaries_written += 1);
                Ok(())
            }
            Err(error) => {
                // The block was given up; its nodes were moved to another without a summary.
                self.find(
                    Code::FailedWrite,
                    Place::Address(offset.into()),
                    format!("the summary at {offset:#x} could not be written"),
                );
                Err(error)
            }
        }
    }
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

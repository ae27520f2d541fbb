//! Summaries of blocks: taken at a scan, written when a block is full.
//!
//! Source: `fs/jffs2/summary.c` (`jffs2_sum_scan_sumnode`, `jffs2_sum_write_sumnode`).
//!
//! May use: `engine`, `finding`, `nodes`, `state`, `summary`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::{NAME_BYTES_MAX, XREF_BYTES, XrefNode, padded, u32_at};
use crate::state::{Entry, NodeState, Owner, name_hash};
use crate::summary::{SummaryEntry, parse_summary};
use fs_api::{Errno, Place};

/// Nodes follow each other from `start` on without overlaps, and end before the summary at `node_at`.
fn are_in_order(entries: &[SummaryEntry<'_>], start: u32, node_at: u32) -> bool {
    let mut end = start;
    for entry in entries {
        let (at, length) = entry.place();
        let next = at.checked_add(length).map(padded);
        let Some(next) = next.filter(|next| *next <= node_at) else { return false };
        if at < end || !at.is_multiple_of(4) || length == 0 {
            return false;
        }
        end = next;
    }
    true
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
        // One function: nothing is linked before all entries are found sound, and each kind of
        // entry is linked in its own way.
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
        // Entries out of order or over each other would break the accounts. The block is scanned
        // instead.
        if !are_in_order(&entries, if has_mark { marker_bytes } else { 0 }, node_at) {
            self.find(
                Code::SenselessSummary,
                Place::Block(block.into()),
                format!("block {block}: the summary makes no sense"),
            );
            return Ok(false);
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

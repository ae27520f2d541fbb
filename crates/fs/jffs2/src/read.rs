//! Reading file data: from fragments to bytes.
//!
//! Source: `fs/jffs2/read.c`.
//!
//! May use: `compress`, `engine`, `finding`, `fragments`, `inode`, `nodes`.

use crate::compress::{NONE, ZERO, find_compressor};
use crate::engine::Engine;
use crate::finding::Code;
use crate::fragments::Fragment;
use crate::inode::Inode;
use crate::nodes::{INODE_BYTES, InodeNode, PAGE_BYTES, crc};
use fs_api::{Errno, Place};
use std::ops::Range;

impl Engine {
    /// Reads bytes of a file; holes and what lies behind the end are zero
    /// (`jffs2_read_inode_range`). The inode's lock is held.
    pub(crate) async fn read_range(
        &self,
        inode: &Inode,
        offset: u32,
        into: &mut [u8],
    ) -> Result<(), Errno> {
        into.fill(0);
        let end = offset.saturating_add(into.len() as u32);
        let mut at = offset;
        while at < end {
            let part: Option<Fragment> = {
                let data = inode.data.borrow();
                let found = data.fragments.find(at).or_else(|| data.fragments.from(at));
                found.filter(|part| part.offset < end).cloned()
            };
            let Some(part) = part else { return Ok(()) };
            let (from, to) = (part.offset.max(at), part.end().min(end));
            if let Some(data) = &part.data {
                let place = self.state.borrow().node(data.node.get()).offset;
                // The whole node is read and decompressed for any part of it, as `jffs2_read_dnode`
                // does: the CRC covers all of it.
                let bytes = self.read_node_data(place).await?;
                let start = (from - data.offset) as usize;
                let count = (to - from) as usize;
                if let Some(source) = bytes.get(start..start + count) {
                    into[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
                } else if !bytes.is_empty() {
                    return Err(Errno::Eio);
                }
            }
            at = to;
        }
        Ok(())
    }

    /// Runs of pages that nodes with data show; what a node of zeros covers is a hole, and that may be all
    /// of the four gigabytes that an inode can claim. The inode's lock is held.
    pub(crate) async fn data_pages(&self, inode: &Inode) -> Result<Vec<Range<u64>>, Errno> {
        let page = |offset: u32| u64::from(offset / PAGE_BYTES);
        let parts: Vec<Fragment> = inode.data.borrow().fragments.iter().cloned().collect();
        let mut runs: Vec<Range<u64>> = Vec::new();
        for part in parts.iter().filter(|part| part.bytes > 0) {
            let Some(data) = &part.data else { continue };
            // No compressor is given more than a page at once, so only a longer node can be zeros alone.
            if data.bytes > PAGE_BYTES {
                let place = self.state.borrow().node(data.node.get()).offset;
                let mut head = [0; INODE_BYTES];
                self.read(place, &mut head).await?;
                if InodeNode::parse(&head).is_some_and(|node| node.compressor == ZERO) {
                    continue;
                }
            }
            let (first, end) = (page(part.offset), page(part.end() - 1) + 1);
            match runs.last_mut() {
                Some(last) if first <= last.end => last.end = last.end.max(end),
                _ => runs.push(first..end),
            }
        }
        Ok(runs)
    }

    /// The data of the inode node at a place, decompressed as a whole (`jffs2_read_dnode`); empty for
    /// a hole.
    pub(crate) async fn read_node_data(&self, place: u32) -> Result<Vec<u8>, Errno> {
        let mut head = [0; INODE_BYTES];
        self.read(place, &mut head).await?;
        self.charge_crc(INODE_BYTES).await;
        let Some(node) = InodeNode::parse(&head) else {
            self.find(
                Code::UnreadableNode,
                Place::Address(place.into()),
                format!("{place:#x}: the inode node can no longer be read"),
            );
            return Err(Errno::Eio);
        };
        if node.compressor == ZERO {
            return Ok(Vec::new());
        }
        if node.stored_bytes > self.block_bytes || node.data_bytes > self.block_bytes * 8 {
            return Err(Errno::Eio);
        }
        let mut stored = vec![0; node.stored_bytes as usize];
        self.read(place + INODE_BYTES as u32, &mut stored).await?;
        self.charge_crc(stored.len()).await;
        if crc(&stored) != node.data_crc {
            self.find(
                Code::UnreadableNode,
                Place::Address(place.into()),
                format!("{place:#x}: the data of the node can no longer be read"),
            );
            return Err(Errno::Eio);
        }
        let cost = self.options.costs.decompress_ps_per_byte(node.compressor);
        self.charge(node.data_bytes as usize, cost).await;
        if node.compressor == NONE {
            return Ok(stored);
        }
        let compressor = find_compressor(node.compressor);
        let data = compressor.and_then(|found| found.decompress(&stored, node.data_bytes as usize));
        if data.is_none() {
            self.find(
                Code::UnreadableNode,
                Place::Address(place.into()),
                format!("{place:#x}: compressor {} cannot restore the data", node.compressor),
            );
        }
        data.ok_or(Errno::Eio)
    }
}

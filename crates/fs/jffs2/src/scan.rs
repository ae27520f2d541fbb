//! Reading the medium at mount: what every block holds.
//!
//! Source: `fs/jffs2/scan.c`. Data is not compared with its CRC here.
//!
//! May use: `engine`, `finding`, `flash`, `mount_error`, `nodes`, `state`, `summary`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::flash::Flash;
use crate::mount_error::MountError;
use crate::nodes::{
    ACCURATE, CLEANMARKER, COMPATIBILITY_MASK, DIRENT, DIRENT_BYTES, DirentNode, HEADER_BYTES,
    Header, INODE, INODE_BYTES, InodeNode, MAGIC, PADDING, SUMMARY, XATTR, XATTR_BYTES, XREF,
    XREF_BYTES, XattrNode, XrefNode, padded,
};
use crate::state::{Entry, List, NodeState, Owner, State, is_dirty, name_hash};
use crate::summary::{Collected, summary_offset};
use fs_api::Place;
use mtd::{first_written, is_blank};

/// What a block turned out to be (`BLK_STATE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    AllBlank,
    Clean,
    PartlyDirty,
    CleanMarker,
    AllDirty,
    Bad,
}

/// The part of a block that is in memory.
#[derive(Default)]
struct Window {
    /// Memory for as many bytes as the longest part had: blocks use it one after the other.
    room: Vec<u8>,
    /// Bytes of it that were read.
    bytes: usize,
    /// Offset of the first byte on the medium.
    start: u32,
}

impl Window {
    /// Another part begins, whose bytes the caller reads.
    fn begin(&mut self, start: u32, bytes: usize) -> &mut [u8] {
        (self.start, self.bytes) = (start, bytes);
        if self.room.len() < bytes {
            self.room.resize(bytes, 0);
        }
        &mut self.room[..bytes]
    }

    fn holds(&self, offset: u32, bytes: usize) -> bool {
        (offset - self.start) as usize + bytes <= self.bytes
    }

    fn at(&self, offset: u32) -> &[u8] {
        &self.room[(offset - self.start) as usize..self.bytes]
    }
}

impl State {
    /// Counts what lies between the last node of a block and `offset` as dirt.
    pub(crate) fn link_gap(&mut self, offset: u32) {
        let block = self.block_of(offset);
        let filled = (block + 1) * self.block_bytes - self.blocks[block as usize].free;
        if offset > filled {
            self.link_dirt(filled, offset - filled);
        }
    }

    /// Adds an entry that the scan found.
    pub(crate) fn add_scanned(&mut self, parent: u32, entry: Entry) {
        let mut scanned = std::mem::take(&mut self.inode_cache(parent).scanned);
        self.add_entry(&mut scanned, entry);
        self.inode_cache(parent).scanned = scanned;
    }

    fn classify(&mut self, number: u32, marker_bytes: u32) -> Found {
        let block = &self.blocks[number as usize];
        let live = block.used + block.unchecked;
        if live == marker_bytes && block.dirty == 0 && block.nodes.len() <= 1 {
            Found::CleanMarker
        } else if !is_dirty(self.block_bytes - live) {
            let dirt = block.dirty;
            self.dirt_to_waste(number, dirt);
            Found::Clean
        } else if live > 0 {
            Found::PartlyDirty
        } else {
            Found::AllDirty
        }
    }
}

impl Engine {
    /// Scans all blocks and files them (`jffs2_scan_medium`).
    pub(crate) async fn scan(&self) -> Result<(), MountError> {
        let blocks = self.state.borrow().blocks.len() as u32;
        let (mut blank, mut bad) = (0, 0);
        let mut window = Window::default();
        for block in 0..blocks {
            let mut collected = Collected::default();
            let found = self.scan_block(block, &mut window, &mut collected).await?;
            let state = &mut *self.state.borrow_mut();
            match found {
                Found::AllBlank => {
                    blank += 1;
                    // A block without a mark may be half erased. It is erased again before use.
                    state.file_first(block, List::ErasePending);
                    state.erasing_blocks += 1;
                }
                Found::CleanMarker if state.blocks[block as usize].dirty == 0 => {
                    state.file_first(block, List::Free);
                }
                Found::CleanMarker | Found::AllDirty => {
                    state.file_first(block, List::ErasePending);
                    state.erasing_blocks += 1;
                }
                Found::Clean => state.file_first(block, List::Clean),
                Found::PartlyDirty => self.choose_next(state, block, collected),
                Found::Bad => {
                    bad += 1;
                    let bytes = u64::from(state.block_bytes);
                    state.sums.bad += bytes;
                    state.sums.free -= bytes;
                    state.blocks[block as usize].free = 0;
                    state.file_first(block, List::Bad);
                }
            }
        }
        let state = &mut *self.state.borrow_mut();
        if let Some(next) = state.next_block {
            self.align_next(state, next);
        }
        let has_nodes = state.sums.used > 0 || state.sums.unchecked > 0;
        let accounted = state.free_blocks() + blank + bad;
        if state.erasing_blocks > 0 && !has_nodes && (accounted != blocks || bad == blocks) {
            // `jffs2_scan_medium` refuses to erase a medium that looks like something else.
            return Err(MountError::NoNodes);
        }
        Ok(())
    }

    /// The block with most room is written further; the others are filed.
    fn choose_next(&self, state: &mut State, block: u32, collected: Collected) {
        let free = state.blocks[block as usize].free;
        let room_min =
            (2 * INODE_BYTES as u32).max(if self.is_in_band() { 0 } else { self.page_bytes });
        let is_better = state.next_block.is_none_or(|next| state.blocks[next as usize].free < free);
        // At most one block is written further. Others with free space are filed as they are, and
        // their rest is lost until they are collected.
        if free > room_min && is_better {
            if let Some(old) = state.next_block.replace(block) {
                state.close(old, true);
            }
            state.summary = collected;
        } else {
            state.close(block, true);
        }
    }

    /// Dirt of the block written further cannot be collected now; writing goes on at a page.
    fn align_next(&self, state: &mut State, next: u32) {
        let dirt = state.blocks[next as usize].dirty;
        state.dirt_to_waste(next, dirt);
        let free = state.blocks[next as usize].free;
        // A page that was programmed in part must not be programmed again.
        let skip = free % self.page_bytes;
        if !self.is_in_band() && skip > 0 {
            state.link_dirt((next + 1) * self.block_bytes - free, skip);
            state.dirt_to_waste(next, skip);
        }
    }

    async fn scan_block(
        &self,
        block: u32,
        window: &mut Window,
        collected: &mut Collected,
    ) -> Result<Found, MountError> {
        let first = block * self.block_bytes;
        let mut has_marker = false;
        if !self.is_in_band() {
            if let Flash::Nand(mtd) = &self.flash
                && mtd.is_bad(block).await.map_err(MountError::Medium)?
            {
                return Ok(Found::Bad);
            }
            has_marker = self.flash.has_spare_marker(block).await?;
        }
        // The end of the block is read first: with a summary nothing else has to be.
        if self.has_summary
            && let Some(found) = self.scan_block_end(block, window).await?
        {
            return Ok(found);
        }
        let count = self.options.profile.empty_scan_bytes.min(self.block_bytes);
        self.read(first, window.begin(first, count as usize)).await?;
        let is_blank = is_blank(window.at(first));
        if is_blank && self.ends_scans_early() {
            return Ok(Found::AllBlank);
        }
        if is_blank && !self.is_in_band() {
            let is_blank = self.flash.is_spare_blank(block, has_marker).await?;
            return Ok(match (is_blank, has_marker) {
                (true, true) => Found::CleanMarker,
                (true, false) => Found::AllBlank,
                (false, _) => Found::AllDirty,
            });
        }
        self.scan_nodes(block, window, collected).await?;
        let mut state = self.state.borrow_mut();
        // The collected entries would not fit any more; the block gets no summary.
        if collected.bytes_with(0) > state.blocks[block as usize].free {
            collected.disable();
        }
        let wasted = state.blocks[block as usize].wasted;
        if wasted > 0 {
            state.waste_to_dirt(block);
        }
        Ok(state.classify(block, self.marker_bytes()))
    }

    /// Looks for a summary at the end of a block.
    async fn scan_block_end(
        &self,
        block: u32,
        window: &mut Window,
    ) -> Result<Option<Found>, MountError> {
        let first = block * self.block_bytes;
        // Whole pages on NAND: the end of the summary comes with its marker.
        let end_bytes = if self.is_in_band() { 8 } else { self.page_bytes };
        let end_start = first + self.block_bytes - end_bytes;
        self.read(end_start, window.begin(end_start, end_bytes as usize)).await?;
        let end = window.at(end_start);
        let Some(at) = summary_offset(&end[end.len() - 8..], self.block_bytes) else {
            return Ok(None);
        };
        let length = (self.block_bytes - at) as usize;
        let mut node = vec![0; length];
        let kept = end.len().min(length);
        node[length - kept..].copy_from_slice(&end[end.len() - kept..]);
        if length > kept {
            self.read(first + at, &mut node[..length - kept]).await?;
        }
        if !self.scan_summary(block, &node, at).await? {
            return Ok(None);
        }
        Ok(Some(self.state.borrow_mut().classify(block, self.marker_bytes())))
    }

    /// Brings `bytes` from `offset` on into the window, and with them the rest of the block.
    async fn fill(&self, window: &mut Window, offset: u32, end: u32) -> Result<(), MountError> {
        Ok(self.read(offset, window.begin(offset, (end - offset) as usize)).await?)
    }

    async fn scan_nodes(
        &self,
        block: u32,
        window: &mut Window,
        collected: &mut Collected,
    ) -> Result<(), MountError> {
        // One function: the window, the place in it and the complaints change with every node.
        let end = (block + 1) * self.block_bytes;
        let mut at = window.start;
        let mut complaints = 10_u32;
        while at < end {
            if end - at < HEADER_BYTES as u32 {
                // Too little for a node; blank, it still counts as filled.
                self.state.borrow_mut().link_gap(at);
                self.state.borrow_mut().link_dirt(at, end - at);
                break;
            }
            if !window.holds(at, HEADER_BYTES) {
                self.fill(window, at, end).await?;
            }
            if window.at(at)[..4] == [0xff; 4] {
                match self.skip_blank(window, at, end).await? {
                    Some(next) => {
                        self.state.borrow_mut().link_dirt(at, next - at);
                        at = next;
                        continue;
                    }
                    None => break,
                }
            }
            let header = Header::parse(window.at(at));
            let length = padded(header.total_bytes.min(self.block_bytes));
            if !header.is_valid() || header.total_bytes < HEADER_BYTES as u32 || length > end - at {
                if header.magic == MAGIC || header.magic != 0 {
                    complaints = complaints.saturating_sub(1);
                    if complaints > 0 {
                        self.find(
                            Code::DamagedNode,
                            Place::Address(at.into()),
                            format!("{at:#x}: no node, or its header is damaged"),
                        );
                    }
                }
                self.state.borrow_mut().link_dirt(at, 4);
                // Nodes are aligned to four bytes, so the search for the next one goes on there.
                at += 4;
                continue;
            }
            let needed = match header.node_type {
                INODE => INODE_BYTES,
                DIRENT | XATTR | XREF => length as usize,
                _ => HEADER_BYTES,
            };
            if !window.holds(at, needed.min(length as usize)) {
                self.fill(window, at, end).await?;
            }
            self.charge_crc(needed.min(DIRENT_BYTES + 60)).await;
            self.link_found(header, at, length, window, collected)?;
            at += length;
        }
        Ok(())
    }

    /// A block without spare area that begins blank is taken to be blank, as `jffs2_scan_eraseblock` does.
    /// Pages of an image without spare areas are read to their end: its blocks may be smaller than supposed.
    fn ends_scans_early(&self) -> bool {
        matches!(self.flash, Flash::Ram(_))
    }

    /// A block begins at `offset`, and its mark is all that was found in it: what was read of it is taken
    /// for all.
    fn has_mark_alone(&self, offset: u32) -> bool {
        let state = self.state.borrow();
        let block = &state.blocks[state.block_of(offset) as usize];
        self.ends_scans_early()
            && offset.is_multiple_of(self.block_bytes)
            && (block.used, block.dirty, block.nodes.len()) == (self.marker_bytes(), 0, 1)
    }

    /// The end of a blank stretch; none if it reaches the end of the block.
    async fn skip_blank(
        &self,
        window: &mut Window,
        from: u32,
        end: u32,
    ) -> Result<Option<u32>, MountError> {
        let mut at = from;
        loop {
            // Whole words: nodes are aligned to four bytes.
            let rest = window.at(at);
            let words = &rest[..rest.len() & !3];
            if let Some(used) = first_written(words) {
                return Ok(Some(at + (used as u32 & !3)));
            }
            at += words.len() as u32;
            if at >= end || self.has_mark_alone(window.start) {
                return Ok(None);
            }
            self.fill(window, at, end).await?;
        }
    }

    /// Links a node with a sound header.
    fn link_found(
        &self,
        header: Header,
        at: u32,
        length: u32,
        window: &Window,
        collected: &mut Collected,
    ) -> Result<(), MountError> {
        let node = window.at(at);
        let node = &node[..node.len().min(header.total_bytes as usize)];
        let state = &mut *self.state.borrow_mut();
        let within = at % self.block_bytes;
        if header.node_type & ACCURATE == 0 {
            state.link_dirt(at, length);
            return Ok(());
        }
        let is_linked = match header.node_type {
            INODE => InodeNode::parse(node).map(|inode| {
                state.link(at, length, NodeState::Unchecked, Owner::Inode(inode.inode));
            }),
            DIRENT => DirentNode::parse(node).map(|entry| link_dirent(state, at, length, entry)),
            XATTR => XattrNode::parse_head(&node[..node.len().min(XATTR_BYTES)])
                .map(|(id, version)| state.link_xattr(at, length, id, version)),
            XREF => (node.len() >= XREF_BYTES)
                .then(|| XrefNode::parse(node))
                .flatten()
                .map(|reference| state.link_xref(at, &reference)),
            CLEANMARKER => {
                if self.is_in_band() && within == 0 && header.total_bytes == HEADER_BYTES as u32 {
                    state.link(at, length, NodeState::Normal, Owner::None);
                } else {
                    state.link_dirt(at, length);
                }
                return Ok(());
            }
            PADDING => {
                collected.add(node, within);
                state.link_dirt(at, length);
                return Ok(());
            }
            SUMMARY => {
                state.link_dirt(at, length);
                return Ok(());
            }
            other => return self.link_unknown(state, other, at, length, collected),
        };
        if is_linked.is_some() {
            collected.add(node, within);
        } else {
            self.find(
                Code::DamagedNode,
                Place::Address(at.into()),
                format!("{at:#x}: the node of type {:#x} is damaged", header.node_type),
            );
            state.link_dirt(at, length);
        }
        Ok(())
    }

    /// A node of unknown type says itself what to do with it.
    fn link_unknown(
        &self,
        state: &mut State,
        node_type: u16,
        at: u32,
        length: u32,
        collected: &mut Collected,
    ) -> Result<(), MountError> {
        self.find(
            Code::UnknownNode,
            Place::Address(at.into()),
            format!("{at:#x}: a node of unknown type {node_type:#x}"),
        );
        match node_type & COMPATIBILITY_MASK {
            0xc000 => return Err(MountError::Incompatible { node_type, offset: at }),
            0x8000 if !self.options.is_read_only => {
                return Err(MountError::ReadOnlyCompatible { node_type, offset: at });
            }
            0x4000 => {
                // The node's own type says that it may be copied unseen
                // (`JFFS2_FEATURE_RWCOMPAT_COPY`).
                state.link(at, length, NodeState::Pristine, Owner::None);
                collected.disable();
            }
            _ => state.link_dirt(at, length),
        }
        Ok(())
    }
}

fn link_dirent(state: &mut State, at: u32, length: u32, entry: DirentNode) {
    let node_state = NodeState::of_entry(entry.inode);
    if let Some(node) = state.link(at, length, node_state, Owner::Inode(entry.parent)) {
        let DirentNode { parent, version, inode, kind, name, .. } = entry;
        let name_hash = name_hash(&name);
        state.add_scanned(parent, Entry { node, version, inode, kind, name_hash, name });
    }
}

//! Writing the index: dirty nodes from the lowest level up, to empty eraseblocks, or into the gaps of
//! dirty ones when those are short.
//!
//! Source: `fs/ubifs/tnc_commit.c`. What the kernel marks copy-on-write until it is written is turned into
//! bytes at once here, under the same lock. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::keys::Key;
use crate::lprops::Change;
use crate::nodes::{Group, IndexNode, Place, aligned, kind, pad, seal, u16_at};
use crate::position::{LebNumber, Position};
use crate::scan::Scan;
use crate::tnc::{Branch, Tnc, ZnodeId};
use fs_api::{Errno, Place as FoundAt};
use ubi::written_bytes;

/// A write of index nodes, laid out when the commit began.
struct IndexWrite {
    to: Position,
    bytes: Vec<u8>,
}

/// What the end of a commit has to do for the index.
#[derive(Default)]
pub(crate) struct IndexCommit {
    writes: Vec<IndexWrite>,
    /// Eraseblocks whose gaps were filled.
    gap_lebs: Vec<LebNumber>,
    /// Eraseblocks that are full now and no longer the index's head.
    left_lebs: Vec<LebNumber>,
    head: Option<Position>,
    count: u64,
}

impl Tnc {
    /// Dirty nodes in the order in which they are written: children before their parent.
    fn dirty_nodes(&self) -> Vec<ZnodeId> {
        let mut found = Vec::new();
        let Some(root) = self.root.child.filter(|root| self.get(*root).is_dirty) else {
            return found;
        };
        let mut rest = vec![(root, false)];
        while let Some((id, is_done)) = rest.pop() {
            if is_done {
                found.push(id);
                continue;
            }
            rest.push((id, true));
            let znode = self.get(id);
            if znode.level > 0 {
                let children = znode.branches.iter().rev().filter_map(|branch| branch.child);
                rest.extend(
                    children.filter(|child| self.get(*child).is_dirty).map(|child| (child, false)),
                );
            }
        }
        found
    }

    /// The node as it goes to the medium.
    fn index_node(&self, id: ZnodeId) -> Vec<u8> {
        let znode = self.get(id);
        let branches = znode.branches.iter().map(|branch| (branch.key, branch.place));
        IndexNode { level: znode.level, branches: branches.collect() }.to_bytes()
    }

    /// Gives a node its place on the medium: it is clean.
    fn make_clean(&mut self, id: ZnodeId, place: Place) {
        let znode = self.get(id);
        debug_assert!(znode.is_dirty, "clean nodes stay where they are");
        debug_assert_eq!(place.bytes as usize, IndexNode::bytes_of(znode.branches.len()));
        let has_place = |branch: &Branch| branch.child.is_none() || branch.place.bytes > 0;
        debug_assert!(
            znode.branches.iter().all(has_place),
            "children have their places before their parent is written"
        );
        let znode = self.get_mut(id);
        (znode.is_dirty, znode.is_altered) = (false, false);
        self.dirty -= 1;
        self.clean += 1;
        self.branch_to_mut(id).place = place;
        self.index_bytes += aligned(place.bytes as usize) as u64;
    }
}

impl Engine {
    /// Empty eraseblocks that so many nodes may need behind the head of the index (`get_leb_cnt`).
    fn index_lebs_needed(&self, nodes: usize) -> usize {
        let node = self.layout.max_index_node;
        let in_head = (self.layout.leb_bytes - self.space.borrow().index_head.offset) / node;
        nodes.saturating_sub(in_head as usize).div_ceil((self.layout.leb_bytes / node) as usize)
    }

    /// Lays out all dirty nodes (`ubifs_tnc_start_commit`).
    pub(crate) async fn start_index(&self) -> Result<IndexCommit, Errno> {
        let _held = self.tnc_lock.lock().await;
        let nodes = self.tnc.borrow().dirty_nodes();
        let mut commit = IndexCommit { count: nodes.len() as u64, ..IndexCommit::default() };
        if !nodes.is_empty() {
            // Every node is counted with the largest size, so that laying out cannot run short in
            // the middle.
            let needed = self.index_lebs_needed(nodes.len());
            let mut lebs = Vec::new();
            while lebs.len() < needed {
                match self.find_for_index().await {
                    Ok(leb) => lebs.push(leb),
                    Err(Errno::Enospc) => break,
                    Err(error) => return Err(error),
                }
            }
            let mut rest: &[ZnodeId] = &nodes;
            if lebs.len() < needed {
                rest = self.fill_gaps(rest, lebs.len(), &mut commit).await?;
            }
            let used = self.lay_out(rest, &lebs, &mut commit).await?;
            for leb in &lebs[used..] {
                let change =
                    Change { is_index: Some(false), is_taken: Some(false), ..Change::default() };
                self.change_properties(*leb, change).await?;
            }
        }
        // The laid-out index does not contain the old nodes. A cut before the master is safe: their
        // eraseblocks are not written before the commit ends.
        debug_assert_eq!(self.tnc.borrow().dirty, 0, "every dirty node was laid out");
        self.tnc.borrow_mut().old.clear();
        self.save_dirty_index().await;
        let index_bytes = self.tnc.borrow().index_bytes;
        let mut space = self.space.borrow_mut();
        if let Some(head) = commit.head {
            space.index_head = head;
        }
        space.committed_index_bytes = index_bytes;
        space.uncommitted_index_bytes = 0;
        space.min_index_lebs = space.index_lebs_for(&self.layout);
        Ok(commit)
    }

    /// Puts nodes behind the head of the index, then into empty eraseblocks; returns how many of those
    /// were used (`layout_in_empty_space`).
    // One function: each node decides, by the length of the next one, whether its write ends.
    async fn lay_out(
        &self,
        nodes: &[ZnodeId],
        lebs: &[LebNumber],
        commit: &mut IndexCommit,
    ) -> Result<usize, Errno> {
        let min_io = self.layout.min_io;
        // As many bytes as the kernel's buffer holds go at a stroke.
        let stroke = self.layout.max_index_node.next_multiple_of(min_io);
        let mut used_lebs = 0;
        let (mut leb, mut offset) = {
            let Position { leb, offset } = self.space.borrow().index_head;
            (Some(leb), offset)
        };
        let mut buffer: Vec<u8> = Vec::new();
        let mut nodes = nodes.iter().peekable();
        if let Some(first) = nodes.peek() {
            let bytes = self.index_node_bytes(**first);
            if offset + bytes > self.layout.leb_bytes {
                commit.left_lebs.extend(leb.take());
            }
        } else {
            return Ok(0);
        }
        while let Some(id) = nodes.next() {
            let here = if let Some(leb) = leb {
                leb
            } else {
                let Some(next) = lebs.get(used_lebs) else {
                    self.find(Code::NoRoom, FoundAt::Whole, "no empty LEB is left for the index");
                    return Err(Errno::Enospc);
                };
                used_lebs += 1;
                (leb, offset) = (Some(*next), 0);
                *next
            };
            let mut node = self.tnc.borrow().index_node(*id);
            seal(&mut node, kind::INDEX, self.next_sequence(), Group::None);
            self.charge_crc(node.len()).await;
            let bytes = node.len() as u32;
            let at = offset + buffer.len() as u32;
            self.tnc.borrow_mut().make_clean(*id, Place { leb: here, offset: at, bytes });
            buffer.extend_from_slice(&node);
            buffer.resize(aligned(buffer.len()), 0);
            let end = offset + buffer.len() as u32;
            let next = nodes.peek().map(|next| self.index_node_bytes(**next));
            let fits = next.is_some_and(|next| end + next <= self.layout.leb_bytes);
            if fits {
                if buffer.len() as u32 >= stroke {
                    let rest = buffer.split_off(stroke as usize);
                    commit
                        .writes
                        .push(IndexWrite { to: Position::new(here, offset), bytes: buffer });
                    (offset, buffer) = (offset + stroke, rest);
                }
                continue;
            }
            let used = buffer.len();
            buffer.resize(used.next_multiple_of(min_io as usize), 0);
            pad(&mut buffer[used..]);
            let padding = (buffer.len() - used) as u32;
            let to = Position::new(here, offset);
            let write = IndexWrite { to, bytes: std::mem::take(&mut buffer) };
            offset += write.bytes.len() as u32;
            commit.writes.push(write);
            let free = self.layout.leb_bytes - offset;
            self.update_properties(here, Some(free), padding, Change::default()).await?;
            if next.is_some() {
                commit.left_lebs.push(here);
                leb = None;
            }
        }
        commit.head = leb.map(|leb| Position::new(leb, offset));
        Ok(used_lebs)
    }

    fn index_node_bytes(&self, id: ZnodeId) -> u32 {
        IndexNode::bytes_of(self.tnc.borrow().get(id).branches.len()) as u32
    }

    /// Fills the gaps of dirty eraseblocks of the index, each rewritten as a whole, until the rest
    /// fits into the empty ones; returns what is left (`layout_in_gaps`).
    async fn fill_gaps<'n>(
        &self,
        nodes: &'n [ZnodeId],
        empty_lebs: usize,
        commit: &mut IndexCommit,
    ) -> Result<&'n [ZnodeId], Errno> {
        let mut rest = nodes;
        loop {
            let leb = match self.find_dirty_index().await {
                Ok(leb) => leb,
                Err(Errno::Enospc) => {
                    self.find(Code::NoRoom, FoundAt::Whole, "no LEB of the index has gaps to fill");
                    return Ok(rest);
                }
                Err(error) => return Err(error),
            };
            commit.gap_lebs.push(leb);
            rest = self.fill_gaps_of(leb, rest).await?;
            if self.index_lebs_needed(rest.len()) <= empty_lebs {
                return Ok(rest);
            }
        }
    }

    // One function: a gap ends where the walk meets a node in use, so the walk is part of it.
    async fn fill_gaps_of<'n>(
        &self,
        leb: LebNumber,
        nodes: &'n [ZnodeId],
    ) -> Result<&'n [ZnodeId], Errno> {
        self.count(|statistics| statistics.gap_lebs += 1);
        let mut bytes = self.read_leb(Position::start_of(leb)).await?;
        let scan = Scan::of(&bytes, 0, self.layout.min_io as usize).map_err(|damage| {
            let at = Position::new(leb, damage.offset);
            self.find(Code::DamagedIndex, at.found(), format!("LEB {at}: damaged index"));
            Errno::Eio
        })?;
        let (mut rest, mut dirty, mut gap_start) = (nodes, 0, 0);
        for found in &scan.nodes {
            let at = found.offset as usize;
            if found.header.kind != kind::INDEX {
                return Err(Errno::Eio);
            }
            let position = Position::new(leb, found.offset);
            let node = &bytes[at..at + found.header.bytes];
            let (key, level) = (Key::parse(&node[40..]), u16_at(node, 26));
            let known = self.find_znode(key, level, position).await?;
            let is_dirty = known.map(|id| self.tnc.borrow().get(id).is_dirty);
            let is_old = self.tnc.borrow().old.contains(&position);
            // Neither in the present nor in the last index: the node is part of a gap.
            if is_dirty.is_none() && !is_old {
                continue;
            }
            let end = at + aligned(found.header.bytes);
            // The node is void in the new index but protected as part of the old one: it counts as
            // dirty and is not overwritten.
            if is_dirty != Some(false) {
                dirty += (end - at) as u32;
            }
            rest = self.fill_gap(leb, (gap_start, at), &mut bytes, rest, &mut dirty);
            gap_start = end;
        }
        let whole = bytes.len();
        rest = self.fill_gap(leb, (gap_start, whole), &mut bytes, rest, &mut dirty);
        let used = written_bytes(&bytes).next_multiple_of(self.layout.min_io as usize);
        if rest.len() == nodes.len() {
            let (properties, _) = self.properties(leb).await?;
            if properties.free == self.layout.leb_bytes {
                let change = Change {
                    free: Some(0),
                    dirty: Some(self.layout.leb_bytes),
                    ..Change::default()
                };
                self.change_properties(leb, change).await?;
            }
            return Ok(rest);
        }
        let free = self.layout.leb_bytes - used as u32;
        let change = Change { free: Some(free), dirty: Some(dirty), ..Change::default() };
        self.change_properties(leb, change).await?;
        // An atomic change: old nodes in it belong to the last commit, so a torn write must not
        // damage them.
        self.change_leb(leb, &bytes[..used]).await?;
        Ok(rest)
    }

    /// Puts nodes into one gap and pads what is left of it (`fill_gap`).
    fn fill_gap<'n>(
        &self,
        leb: LebNumber,
        (start, end): (usize, usize),
        bytes: &mut [u8],
        nodes: &'n [ZnodeId],
        dirty: &mut u32,
    ) -> &'n [ZnodeId] {
        let (mut at, mut rest) = (start, nodes);
        while let Some((id, later)) = rest.split_first() {
            let length = self.index_node_bytes(*id) as usize;
            if length >= end - at {
                break;
            }
            let mut node = self.tnc.borrow().index_node(*id);
            seal(&mut node, kind::INDEX, self.next_sequence(), Group::None);
            bytes[at..at + length].copy_from_slice(&node);
            bytes[at + length..at + aligned(length)].fill(0);
            let place = Place { leb, offset: at as u32, bytes: length as u32 };
            let mut tnc = self.tnc.borrow_mut();
            tnc.remember_old(*id);
            tnc.make_clean(*id, place);
            drop(tnc);
            at += aligned(length);
            rest = later;
        }
        let pad_end = if end == bytes.len() {
            // Behind the last node the eraseblock becomes free space again, not padding.
            bytes[at..].fill(0xff);
            at.next_multiple_of(self.layout.min_io as usize)
        } else {
            end
        };
        pad(&mut bytes[at..pad_end]);
        *dirty += (pad_end - at) as u32;
        rest
    }

    /// Writes what was laid out (`ubifs_tnc_end_commit`).
    pub(crate) async fn end_index(&self, commit: IndexCommit) -> Result<(), Errno> {
        for leb in commit.gap_lebs {
            self.change_properties(leb, Change::RETURN).await?;
        }
        for write in commit.writes {
            self.write(write.to, &write.bytes).await?;
        }
        for leb in commit.left_lebs {
            self.change_properties(leb, Change::RETURN).await?;
        }
        self.count(|statistics| statistics.index_nodes_written += commit.count);
        Ok(())
    }
}

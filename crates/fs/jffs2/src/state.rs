//! The state of a mount in memory: blocks, lists, references to nodes, inode caches, and the accounts
//! of space.
//!
//! Source: `fs/jffs2/nodelist.h`, `nodelist.c` (linking), `nodemgmt.c` (marking obsolete, refiling).
//! No change here waits for anything; all of it happens between two awaits.
//! What must hold after each change is in `state/invariants.rs`.
//!
//! May use: `attributes`, `clock`, `nodes`, `structures`, `summary`.

mod invariants;

use crate::attributes::Attributes;
use crate::clock::Clock;
use crate::nodes::{DATA_BYTES_MIN, INODE_BYTES};
use crate::summary::Collected;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use crate::structures::{
    Block, Entry, InodeCache, InodeState, LISTS, List, NodeId, NodeRef, NodeState, Owner, Reserve,
    Sums, WriteBuffer,
};

pub(crate) struct State {
    pub(crate) block_bytes: u32,
    pub(crate) blocks: Vec<Block>,
    lists: [VecDeque<u32>; LISTS],
    nodes: Vec<NodeRef>,
    unused_nodes: Vec<NodeId>,
    pub(crate) inodes: BTreeMap<u32, InodeCache>,
    pub(crate) attributes: Attributes,
    pub(crate) sums: Sums,
    pub(crate) reserve: Reserve,
    pub(crate) next_block: Option<u32>,
    pub(crate) collect_block: Option<u32>,
    /// A block whose last page could not be programmed: its nodes are being written to another one.
    pub(crate) recovered_block: Option<u32>,
    pub(crate) erasing_blocks: u32,
    pub(crate) highest_inode: u32,
    /// Where the check goes on; past all inodes at its end.
    pub(crate) check_inode: u64,
    pub(crate) write_buffer: WriteBuffer,
    pub(crate) summary: Collected,
    pub(crate) is_scanning: bool,
    /// Set when the thread should look whether there is work.
    pub(crate) is_triggered: bool,
    /// Nodes that became obsolete are marked on the medium, too.
    pub(crate) marks_obsolete: bool,
    /// Those that are still to be marked.
    pub(crate) marks: VecDeque<NodeId>,
    pub(crate) clock: Clock,
}

/// So much dirt that a block is worth collecting (`ISDIRTY`).
pub(crate) fn is_dirty(bytes: u32) -> bool {
    bytes > INODE_BYTES as u32 + DATA_BYTES_MIN
}

impl State {
    pub(crate) fn new(block_bytes: u32, blocks: u32, clock: Clock) -> Self {
        let block = Block {
            used: 0,
            dirty: 0,
            wasted: 0,
            free: block_bytes,
            unchecked: 0,
            failures: 0,
            list: List::Nowhere,
            nodes: Vec::new(),
            collect_at: 0,
        };
        let flash_bytes = u64::from(block_bytes) * u64::from(blocks);
        // `jffs2_calc_trigger_levels`: 2 % of the flash and 100 bytes per block, in blocks, beside
        // two for deletions.
        let overhead =
            (flash_bytes / 50 + u64::from(blocks) * 100).div_ceil(u64::from(block_bytes)) as u32;
        let write = 2 + overhead;
        Self {
            block_bytes,
            blocks: vec![block; blocks as usize],
            lists: Default::default(),
            nodes: Vec::new(),
            unused_nodes: Vec::new(),
            inodes: BTreeMap::new(),
            attributes: Attributes::default(),
            sums: Sums { free: flash_bytes, ..Sums::default() },
            reserve: Reserve {
                deletion: 2,
                write,
                collect_trigger: write + 1,
                merge: 3,
                collect_bad: 0,
                very_dirty_trigger: write + 1,
                dirty_bytes_min: u64::from(block_bytes) + flash_bytes / 100,
            },
            next_block: None,
            collect_block: None,
            recovered_block: None,
            erasing_blocks: 0,
            highest_inode: 0,
            check_inode: 0,
            write_buffer: WriteBuffer::default(),
            summary: Collected::default(),
            is_scanning: true,
            is_triggered: false,
            marks_obsolete: false,
            marks: VecDeque::new(),
            clock,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> NodeRef {
        self.nodes[id as usize]
    }

    pub(crate) fn is_obsolete(&self, id: NodeId) -> bool {
        self.nodes[id as usize].state == NodeState::Obsolete
    }

    pub(crate) fn block_of(&self, offset: u32) -> u32 {
        offset / self.block_bytes
    }

    /// Number of references to nodes in memory.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len() - self.unused_nodes.len()
    }

    pub(crate) fn list(&self, list: List) -> &VecDeque<u32> {
        &self.lists[list as usize]
    }

    pub(crate) fn free_blocks(&self) -> u32 {
        self.list(List::Free).len() as u32
    }

    pub(crate) fn available_blocks(&self) -> u32 {
        self.free_blocks() + self.erasing_blocks
    }

    /// Takes a block from its list and files it at the end of another.
    pub(crate) fn file(&mut self, block: u32, list: List) {
        self.unfile(block);
        self.blocks[block as usize].list = list;
        if list != List::Nowhere {
            self.lists[list as usize].push_back(block);
        }
        self.assert_fits(block, list);
    }

    /// As [`State::file`], at the beginning.
    pub(crate) fn file_first(&mut self, block: u32, list: List) {
        self.unfile(block);
        self.blocks[block as usize].list = list;
        self.lists[list as usize].push_front(block);
        self.assert_fits(block, list);
    }

    fn unfile(&mut self, block: u32) {
        let list = self.blocks[block as usize].list;
        if list != List::Nowhere {
            let filed = &mut self.lists[list as usize];
            let count = filed.len();
            filed.retain(|other| *other != block);
            debug_assert_eq!(filed.len() + 1, count, "block {block} is once on list {list:?}");
        }
    }

    /// Bytes that can be got by collecting, as `jffs2_reserve_space` and the thread count them.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        // Blocks that wait for their erase are in the sum of dirty bytes, but count as available
        // already.
        let pending = u64::from(self.erasing_blocks) * u64::from(self.block_bytes);
        (self.sums.dirty + self.sums.erasing).saturating_sub(pending)
    }

    /// Links a node behind the last one of its block (`jffs2_link_node_ref`). What does not fit is an
    /// error of the caller, who reads lengths from the medium: nothing is linked then.
    pub(crate) fn link(
        &mut self,
        offset: u32,
        length: u32,
        state: NodeState,
        owner: Owner,
    ) -> Option<NodeId> {
        let number = self.block_of(offset);
        let end = (number + 1) * self.block_bytes;
        let block = self.blocks.get_mut(number as usize)?;
        // Nodes of a block are linked in order and without gaps: lengths follow from offsets in the
        // kernel (`TEST_TOTLEN`).
        if length == 0 || length > block.free || offset != end - block.free {
            return None;
        }
        let node = NodeRef { offset, length, state, owner };
        let id = if let Some(id) = self.unused_nodes.pop() {
            debug_assert_eq!(
                self.nodes[id as usize].state,
                NodeState::Obsolete,
                "number {id} was free to be used again"
            );
            self.nodes[id as usize] = node;
            id
        } else {
            self.nodes.push(node);
            self.nodes.len() as NodeId - 1
        };
        block.nodes.push(id);
        block.free -= length;
        self.sums.free -= u64::from(length);
        self.count_in(number, length, state);
        match owner {
            Owner::Inode(inode) => self.inode_cache(inode).nodes.push(id),
            Owner::Datum(_) | Owner::Reference(_) | Owner::None => {}
        }
        self.attributes.link(owner, id);
        self.assert_accounts(number);
        Some(id)
    }

    fn count_in(&mut self, block: u32, length: u32, state: NodeState) {
        let block = &mut self.blocks[block as usize];
        let (sum, total) = match state {
            NodeState::Unchecked => (&mut block.unchecked, &mut self.sums.unchecked),
            NodeState::Obsolete => (&mut block.dirty, &mut self.sums.dirty),
            NodeState::Pristine | NodeState::Normal => (&mut block.used, &mut self.sums.used),
        };
        *sum += length;
        *total += u64::from(length);
    }

    /// Counts bytes of a block as dirt (`jffs2_scan_dirty_space`).
    pub(crate) fn link_dirt(&mut self, offset: u32, length: u32) {
        let number = self.block_of(offset);
        let Some(block) = self.blocks.get_mut(number as usize) else { return };
        let length = length.min(block.free);
        if length == 0 {
            return;
        }
        if let Some(last) = block.nodes.last().copied()
            && self.nodes[last as usize].state == NodeState::Obsolete
            && self.nodes[last as usize].owner == Owner::None
        {
            // Adjacent dirt shares one reference, which saves memory (`jffs2_scan_dirty_space`).
            self.nodes[last as usize].length += length;
            block.free -= length;
            self.sums.free -= u64::from(length);
            self.count_in(number, length, NodeState::Obsolete);
            self.assert_accounts(number);
        } else {
            let at = (number + 1) * self.block_bytes - block.free;
            let linked = self.link(at, length, NodeState::Obsolete, Owner::None);
            debug_assert!(linked.is_some(), "{length} bytes of dirt fit behind the last node");
        }
    }

    /// Counts the dirt of a block as waste that does not make it worth collecting.
    pub(crate) fn dirt_to_waste(&mut self, number: u32, bytes: u32) {
        let block = &mut self.blocks[number as usize];
        let bytes = bytes.min(block.dirty);
        block.dirty -= bytes;
        block.wasted += bytes;
        self.sums.dirty -= u64::from(bytes);
        self.sums.wasted += u64::from(bytes);
        self.assert_accounts(number);
    }

    /// Counts the waste of a block as dirt.
    pub(crate) fn waste_to_dirt(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        let bytes = std::mem::take(&mut block.wasted);
        block.dirty += bytes;
        self.sums.wasted -= u64::from(bytes);
        self.sums.dirty += u64::from(bytes);
        self.assert_accounts(number);
    }

    /// The cache of an inode, made if it is not there (`jffs2_scan_make_ino_cache`).
    pub(crate) fn inode_cache(&mut self, inode: u32) -> &mut InodeCache {
        self.highest_inode = self.highest_inode.max(inode);
        self.inodes.entry(inode).or_insert_with(|| InodeCache {
            state: InodeState::Unchecked,
            parent_or_links: u32::from(inode == 1),
            nodes: Vec::new(),
            scanned: Vec::new(),
            references: Vec::new(),
        })
    }

    /// Tells that a checked node is sound: it is no longer unchecked.
    pub(crate) fn mark_checked(&mut self, id: NodeId, state: NodeState) {
        let node = self.nodes[id as usize];
        if node.state != NodeState::Unchecked {
            return;
        }
        debug_assert!(
            matches!(state, NodeState::Pristine | NodeState::Normal),
            "a checked node is live, not {state:?}"
        );
        let number = self.block_of(node.offset);
        let block = &mut self.blocks[number as usize];
        block.unchecked -= node.length;
        block.used += node.length;
        self.sums.unchecked -= u64::from(node.length);
        self.sums.used += u64::from(node.length);
        self.nodes[id as usize].state = state;
        self.assert_accounts(number);
    }

    /// A pristine node shares its page now.
    pub(crate) fn mark_normal(&mut self, id: NodeId) {
        let state = &mut self.nodes[id as usize].state;
        if *state == NodeState::Pristine {
            *state = NodeState::Normal;
        }
    }

    /// A node has its page for itself.
    pub(crate) fn mark_pristine(&mut self, id: NodeId) {
        let state = &mut self.nodes[id as usize].state;
        if *state == NodeState::Normal {
            *state = NodeState::Pristine;
        }
    }

    /// Nothing needs a node any more (`jffs2_mark_node_obsolete`).
    pub(crate) fn mark_obsolete(&mut self, id: NodeId) {
        let node = self.nodes[id as usize];
        if node.state == NodeState::Obsolete {
            return;
        }
        let number = self.block_of(node.offset);
        let length = u64::from(node.length);
        let is_next = self.next_block == Some(number);
        let block = &mut self.blocks[number as usize];
        if node.state == NodeState::Unchecked {
            block.unchecked -= node.length;
            self.sums.unchecked -= length;
        } else {
            block.used -= node.length;
            self.sums.used -= length;
        }
        let mut added = 0;
        // Small losses are waste until they add up to more than a minimal node. The block being
        // written gets dirty only when it is closed.
        if (block.dirty > 0 || is_dirty(block.wasted + node.length)) && !is_next {
            added = node.length;
            block.dirty += node.length;
            self.sums.dirty += length;
            if block.wasted > 0 {
                added = if block.list == List::BadUsed { 0 } else { added + block.wasted };
                self.waste_to_dirt(number);
            }
        } else {
            block.wasted += node.length;
            self.sums.wasted += length;
        }
        self.nodes[id as usize].state = NodeState::Obsolete;
        self.assert_accounts(number);
        if self.marks_obsolete {
            self.marks.push_back(id);
        }
        // A scan files blocks when it has seen all of them.
        if self.is_scanning || is_next {
            return;
        }
        self.refile(number, added);
    }

    /// Files a block anew after `added` bytes of it became dirty.
    fn refile(&mut self, number: u32, added: u32) {
        // A file that is forgotten marks its nodes without the allocation lock. The block is filed after
        // its live nodes were read and written elsewhere: an erase before would take them away.
        if self.recovered_block == Some(number) {
            return;
        }
        let block = &self.blocks[number as usize];
        let (dirty, list) = (block.dirty, block.list);
        if block.used == 0 && block.unchecked == 0 {
            if list == List::Bad || list == List::ErasePending || list == List::Erasing {
                return;
            }
            if self.collect_block == Some(number) {
                self.collect_block = None;
            }
            if self.write_buffer.bytes.is_empty() {
                self.file_erasable(number);
            } else {
                // What replaced the nodes may still be in the buffer only.
                self.file(number, List::ErasablePendingFlush);
            }
        } else if self.collect_block == Some(number) {
            // The collector files it when it is done.
        } else if is_dirty(dirty) && !is_dirty(dirty.saturating_sub(added)) && list == List::Clean {
            self.file(number, List::Dirty);
        } else if self.is_very_dirty(dirty)
            && !self.is_very_dirty(dirty.saturating_sub(added))
            && matches!(list, List::Clean | List::Dirty)
        {
            self.file(number, List::VeryDirty);
        }
    }

    /// Files a block without live nodes: mostly to be erased at once.
    pub(crate) fn file_erasable(&mut self, block: u32) {
        // The kernel looks at the low bits of its clock here.
        // One in 128 is kept for later, so that not always the same blocks are erased.
        if self.clock.low_bits() == 0 {
            self.file(block, List::Erasable);
        } else {
            self.file_erase_pending(block);
        }
    }

    pub(crate) fn file_erase_pending(&mut self, block: u32) {
        let list = self.blocks[block as usize].list;
        // `erasing_blocks` would count the block twice, and the reserve of free blocks rely on both.
        debug_assert!(
            !matches!(
                list,
                List::ErasePending | List::Erasing | List::EraseComplete | List::Free | List::Bad
            ),
            "block {block} is to be erased while it is on list {list:?}"
        );
        debug_assert_ne!(self.next_block, Some(block), "the block being written is not erased");
        self.file(block, List::ErasePending);
        self.erasing_blocks += 1;
        self.is_triggered = true;
        self.assert_erasing();
    }

    pub(crate) fn is_very_dirty(&self, bytes: u32) -> bool {
        bytes >= self.block_bytes / 2
    }

    /// Files a block that is written to its end (`jffs2_close_nextblock`, `file_dirty`).
    pub(crate) fn close(&mut self, number: u32, is_first: bool) {
        let block = &self.blocks[number as usize];
        let list = if is_dirty(block.wasted + block.dirty) {
            self.waste_to_dirt(number);
            if self.is_very_dirty(self.blocks[number as usize].dirty) {
                List::VeryDirty
            } else {
                List::Dirty
            }
        } else {
            List::Clean
        };
        if is_first {
            self.file_first(number, list);
        } else {
            self.file(number, list);
        }
    }

    /// Forgets what stood in a block that is about to be erased (`jffs2_free_jeb_node_refs`).
    pub(crate) fn forget_nodes(&mut self, number: u32) {
        let ids = std::mem::take(&mut self.blocks[number as usize].nodes);
        let all = &self.nodes;
        self.marks.retain(|id| all[*id as usize].offset / self.block_bytes != number);
        let mut owners = BTreeSet::new();
        for id in &ids {
            match self.nodes[*id as usize].owner {
                Owner::None => {}
                Owner::Inode(inode) => {
                    owners.insert(inode);
                }
                owner => self.attributes.unlink(owner, *id),
            }
        }
        for inode in owners {
            let Some(cache) = self.inodes.get_mut(&inode) else { continue };
            let (nodes, bytes) = (&self.nodes, self.block_bytes);
            cache.nodes.retain(|id| nodes[*id as usize].offset / bytes != number);
            let is_gone = cache.nodes.is_empty()
                && cache.parent_or_links == 0
                && cache.state != InodeState::Present;
            if is_gone {
                self.inodes.remove(&inode);
            }
        }
        self.attributes.drop_dead();
        debug_assert!(
            ids.iter().all(|id| self.nodes[*id as usize].state == NodeState::Obsolete),
            "block {number} had live nodes when it was to be erased"
        );
        self.unused_nodes.extend(ids);
    }

    /// Puts a node that was copied in bulk to where it stands now; its old place becomes dirt.
    pub(crate) fn move_node(&mut self, id: NodeId, to: u32) {
        let node = self.nodes[id as usize];
        let from = self.block_of(node.offset);
        let place = self.blocks[from as usize].nodes.iter().position(|other| *other == id);
        debug_assert!(place.is_some(), "node {id} is in block {from}");
        debug_assert_ne!(node.state, NodeState::Obsolete, "only live nodes move");
        // The node keeps its number, which inodes refer to. A second reference takes its old place
        // as dirt.
        let stand_in = NodeRef { state: NodeState::Obsolete, owner: Owner::None, ..node };
        self.nodes.push(stand_in);
        let stand_in = self.nodes.len() as NodeId - 1;
        if let Some(place) = place {
            self.blocks[from as usize].nodes[place] = stand_in;
        }
        let length = u64::from(node.length);
        let block = &mut self.blocks[from as usize];
        if node.state == NodeState::Unchecked {
            block.unchecked -= node.length;
            self.sums.unchecked -= length;
        } else {
            block.used -= node.length;
            self.sums.used -= length;
        }
        block.dirty += node.length;
        self.sums.dirty += length;
        let number = self.block_of(to);
        debug_assert_eq!(
            to,
            (number + 1) * self.block_bytes - self.blocks[number as usize].free,
            "a node that moved stands directly behind the last one of its new block"
        );
        let block = &mut self.blocks[number as usize];
        block.nodes.push(id);
        block.free -= node.length;
        self.sums.free -= length;
        self.count_in(number, node.length, node.state);
        self.nodes[id as usize].offset = to;
        self.assert_accounts(from);
        self.assert_accounts(number);
    }

    /// Adds an entry to a directory's, in place of an older one of the same name
    /// (`jffs2_add_fd_to_list`). Of one version the last one counts: a record that a summary tells of, and that is no
    /// longer there, can win over the collector's whole copy.
    pub(crate) fn add_entry(&mut self, entries: &mut Vec<Entry>, new: Entry) {
        let start = entries.partition_point(|entry| entry.name_hash < new.name_hash);
        let same = entries[start..]
            .iter()
            .take_while(|entry| entry.name_hash == new.name_hash)
            .position(|entry| entry.name == new.name);
        match same {
            Some(at) if entries[start + at].version > new.version => self.mark_obsolete(new.node),
            Some(at) => {
                let old = std::mem::replace(&mut entries[start + at], new);
                self.mark_obsolete(old.node);
            }
            None => entries.insert(start, new),
        }
        debug_assert!(
            entries.is_sorted_by_key(|entry| entry.name_hash),
            "entries of a directory stand in the order of their hashes"
        );
    }
}

/// The hash that entries are sorted by (`full_name_hash` of 2.6; later kernels mix words and a salt).
pub(crate) fn name_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, byte| {
        let byte = u32::from(*byte);
        hash.wrapping_add(byte << 4).wrapping_add(byte >> 4).wrapping_mul(11)
    })
}

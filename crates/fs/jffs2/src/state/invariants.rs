//! What must hold of blocks, lists and references to nodes between two awaits.
//!
//! None of it depends on what the medium says: damage is counted as dirt or becomes a finding before it
//! gets here. A failed assertion is therefore a defect of this crate.
//!
//! May use: `state`.

use super::{InodeState, List, NodeState, Owner, State, Sums};
use std::collections::BTreeSet;

/// Lists of blocks that count as being erased (`nr_erasing_blocks`).
const ERASING: [List; 3] = [List::ErasePending, List::Erasing, List::EraseComplete];

/// All lists that hold blocks.
const FILED: [List; 11] = [
    List::Clean,
    List::VeryDirty,
    List::Dirty,
    List::Erasable,
    List::ErasablePendingFlush,
    List::Erasing,
    List::ErasePending,
    List::EraseComplete,
    List::Free,
    List::Bad,
    List::BadUsed,
];

impl State {
    /// After each change of the bytes of a block: they add up to the block, and all sums to the medium.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_accounts(&self, number: u32) {
        let block = &self.blocks[number as usize];
        debug_assert_eq!(
            block.used + block.dirty + block.wasted + block.unchecked + block.free,
            self.block_bytes,
            "the bytes of block {number} on list {:?}",
            block.list
        );
        debug_assert_eq!(self.sums.total(), self.medium_bytes(), "{:?}", self.sums);
    }

    /// After a block was filed: what its list promises of it.
    #[inline]
    #[track_caller]
    pub(super) fn assert_fits(&self, number: u32, list: List) {
        let block = &self.blocks[number as usize];
        let live = block.used + block.unchecked;
        match list {
            // Whoever takes a block from these lists erases it without looking at its nodes.
            List::Erasable | List::ErasablePendingFlush | List::ErasePending => {
                debug_assert_eq!(live, 0, "block {number} on list {list:?} holds live nodes");
            }
            // Its bytes are in the sum of what is erased, or of what is bad.
            List::Erasing | List::EraseComplete | List::Bad => {
                debug_assert_eq!(self.sums.total(), self.medium_bytes(), "{:?}", self.sums);
                let counted = live + block.dirty + block.wasted + block.free;
                debug_assert_eq!(counted, 0, "block {number} on list {list:?} counts bytes");
                debug_assert!(block.nodes.is_empty(), "block {number} is erased: it has no nodes");
            }
            List::Free => {
                debug_assert_eq!(
                    (block.unchecked, block.dirty, block.wasted),
                    (0, 0, 0),
                    "free block {number} holds its mark alone"
                );
                debug_assert!(block.nodes.len() <= 1, "free block {number} holds its mark alone");
            }
            List::Nowhere | List::Clean | List::VeryDirty | List::Dirty | List::BadUsed => {}
        }
    }

    /// After a change of the blocks that are to be erased: as many are counted as the lists hold.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_erasing(&self) {
        debug_assert_eq!(
            self.erasing_blocks as usize,
            ERASING.iter().map(|list| self.list(*list).len()).sum::<usize>(),
            "blocks that are being erased or wait for it"
        );
    }

    fn medium_bytes(&self) -> u64 {
        u64::from(self.block_bytes) * self.blocks.len() as u64
    }

    /// All of the state against itself; takes time in proportion to the nodes of the medium. It holds
    /// between any two awaits.
    ///
    /// # Panics
    /// If it does not hold.
    pub(crate) fn assert_invariants(&self) {
        self.assert_lists();
        self.assert_sums();
        let placed = self.assert_nodes();
        self.assert_owners(&placed);
    }

    /// A block is on the list that it says, once, and on no other.
    fn assert_lists(&self) {
        let mut filed = vec![0_u32; self.blocks.len()];
        for list in FILED {
            for number in self.list(list) {
                filed[*number as usize] += 1;
                assert_eq!(self.blocks[*number as usize].list, list, "the list of block {number}");
                self.assert_fits(*number, list);
            }
        }
        for (block, (number, count)) in self.blocks.iter().zip((0_u32..).zip(filed)) {
            let expected = u32::from(block.list != List::Nowhere);
            assert_eq!(count, expected, "lists that hold block {number}, {:?}", block.list);
        }
        for block in [self.next_block, self.collect_block].into_iter().flatten() {
            let list = self.blocks[block as usize].list;
            assert_eq!(list, List::Nowhere, "block {block} is written or collected");
        }
        assert!(
            self.next_block.is_none() || self.next_block != self.collect_block,
            "the block being written is not collected"
        );
        self.assert_erasing();
    }

    /// The sums over the medium are those of the blocks.
    fn assert_sums(&self) {
        let block_bytes = u64::from(self.block_bytes);
        let count = |list: List| self.list(list).len() as u64 * block_bytes;
        let mut sums = Sums {
            erasing: count(List::Erasing) + count(List::EraseComplete),
            bad: count(List::Bad),
            ..Sums::default()
        };
        for block in &self.blocks {
            sums.used += u64::from(block.used);
            sums.dirty += u64::from(block.dirty);
            sums.wasted += u64::from(block.wasted);
            sums.unchecked += u64::from(block.unchecked);
            sums.free += u64::from(block.free);
        }
        assert_eq!(self.sums, sums, "the sums that are kept, and those over the blocks");
        assert_eq!(sums.total(), self.medium_bytes(), "{sums:?}");
    }

    /// Nodes fill their block from its beginning without gaps, and its sums are theirs. Returns for each
    /// number of a reference whether a block holds it.
    fn assert_nodes(&self) -> Vec<bool> {
        let mut placed = vec![false; self.nodes.len()];
        for (block, number) in self.blocks.iter().zip(0_u32..) {
            let (mut used, mut unchecked, mut obsolete) = (0, 0, 0);
            let mut end = number * self.block_bytes;
            for id in &block.nodes {
                let node = self.node(*id);
                assert!(!placed[*id as usize], "node {id} stands in one block");
                placed[*id as usize] = true;
                assert_eq!(node.offset, end, "node {id} of block {number} follows the last one");
                end += node.length;
                match node.state {
                    NodeState::Unchecked => unchecked += node.length,
                    NodeState::Obsolete => obsolete += node.length,
                    NodeState::Pristine | NodeState::Normal => used += node.length,
                }
            }
            assert_eq!((block.used, block.unchecked), (used, unchecked), "nodes of block {number}");
            // A block whose erase failed is dirt as a whole and has no nodes any more.
            if !block.nodes.is_empty() {
                let dead = block.dirty + block.wasted;
                assert_eq!(dead, obsolete, "dirt and waste of block {number}");
            }
        }
        for id in &self.unused_nodes {
            assert!(!placed[*id as usize], "number {id} is in use and free at once");
            placed[*id as usize] = true;
        }
        assert!(placed.iter().all(|is_placed| *is_placed), "a reference to a node is lost");
        for id in &self.unused_nodes {
            placed[*id as usize] = false;
        }
        placed
    }

    /// Owners name their nodes once, and nodes their owners.
    fn assert_owners(&self, placed: &[bool]) {
        let mut owned = BTreeSet::new();
        for (number, cache) in &self.inodes {
            for id in &cache.nodes {
                assert_eq!(self.node(*id).owner, Owner::Inode(*number), "owner of node {id}");
                assert!(placed[*id as usize], "node {id} of inode {number} is on the medium");
                assert!(owned.insert(*id), "node {id} is in one inode once");
            }
            for reference in &cache.references {
                let found = self.attributes.references.get(reference);
                assert!(
                    found.is_some_and(|found| found.inode == *number),
                    "reference {reference} is one of inode {number}"
                );
            }
            if cache.state == InodeState::Present {
                assert!(*number <= self.highest_inode, "inode {number} was numbered");
            }
        }
        let data = self.attributes.data.iter();
        let data = data.map(|(id, datum)| (Owner::Datum(*id), &datum.nodes));
        let references = self.attributes.references.iter();
        let references = references.map(|(id, found)| (Owner::Reference(*id), &found.nodes));
        for (owner, nodes) in data.chain(references) {
            for (at, id) in nodes.iter().enumerate() {
                let is_last = at + 1 == nodes.len();
                assert_eq!(self.node(*id).owner, owner, "owner of node {id}");
                assert!(owned.insert(*id), "node {id} is in one value or reference once");
                assert!(
                    is_last || self.is_obsolete(*id),
                    "an older node of {owner:?} is live: {id}"
                );
            }
        }
        for (node, id) in self.nodes.iter().zip(0..) {
            let is_live = placed[id as usize] && node.state != NodeState::Obsolete;
            if is_live && node.owner != Owner::None {
                assert!(owned.contains(&id), "live node {id} of {:?} is lost", node.owner);
            }
        }
        for id in &self.marks {
            assert!(self.is_obsolete(*id), "node {id} is to be marked, and live");
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{List, NodeState, Owner, State};
    use crate::clock::Clock;
    use sim::Simulation;

    /// Eight blocks, of which the first holds two nodes of inode 5 and is being written.
    fn state() -> State {
        let clock = Clock::new(&Simulation::new(0).handle(), 250, 0, false);
        let mut state = State::new(65_536, 8, clock);
        state.is_scanning = false;
        for block in 1..8 {
            state.file(block, List::Free);
        }
        state.next_block = Some(0);
        for at in [0, 100] {
            state.link(at, 100, NodeState::Normal, Owner::Inode(5)).expect("there is room");
        }
        state.assert_invariants();
        state
    }

    #[test]
    fn a_sound_state_passes_through_its_changes() {
        let mut state = state();
        state.mark_obsolete(0);
        state.link_dirt(200, 40);
        state.dirt_to_waste(0, 40);
        state.next_block = None;
        state.close(0, false);
        state.assert_invariants();
        state.mark_obsolete(1);
        state.assert_invariants();
        assert_eq!(state.available_blocks(), 8, "the block waits for its erase");
    }

    #[test]
    #[should_panic(expected = "the bytes of block 0")]
    fn bytes_that_leave_a_block_are_missed() {
        let mut state = state();
        state.blocks[0].used -= 4;
        state.mark_obsolete(0);
    }

    #[test]
    #[should_panic(expected = "the sums that are kept")]
    fn bytes_that_move_between_two_sums_are_missed() {
        let mut state = state();
        state.sums.dirty += 4;
        state.sums.used -= 4;
        state.assert_invariants();
    }

    #[test]
    #[should_panic(expected = "lists that hold block 3")]
    fn a_block_that_stands_twice_on_its_list_is_found() {
        let mut state = state();
        state.lists[List::Free as usize].push_back(3);
        state.assert_invariants();
    }

    #[test]
    #[should_panic(expected = "is to be erased while it is on list ErasePending")]
    fn a_block_is_not_given_up_for_erasing_twice() {
        let mut state = state();
        state.file(3, List::Nowhere);
        state.file_erase_pending(3);
        state.file_erase_pending(3);
    }

    #[test]
    #[should_panic(expected = "holds live nodes")]
    fn a_block_with_live_nodes_is_not_erased() {
        let mut state = state();
        state.next_block = None;
        state.file_erase_pending(0);
    }

    #[test]
    #[should_panic(expected = "the block being written is not erased")]
    fn the_block_that_is_written_is_not_given_up_for_erasing() {
        let mut state = state();
        state.mark_obsolete(0);
        state.mark_obsolete(1);
        state.file_erase_pending(0);
    }

    #[test]
    #[should_panic(expected = "blocks that are being erased or wait for it")]
    fn an_erase_that_is_counted_twice_is_found() {
        let mut state = state();
        state.file(3, List::Nowhere);
        state.erasing_blocks += 1;
        state.file_erase_pending(3);
    }

    #[test]
    #[should_panic(expected = "block 3 on list Erasing counts bytes")]
    fn a_block_is_not_erased_while_its_bytes_count() {
        state().file(3, List::Erasing);
    }

    #[test]
    #[should_panic(expected = "free block 0 holds its mark alone")]
    fn a_block_with_dirt_is_not_free() {
        let mut state = state();
        state.next_block = None;
        state.link_dirt(200, 40);
        state.file(0, List::Free);
    }

    #[test]
    #[should_panic(expected = "is once on list Free")]
    fn a_block_that_its_list_has_lost_is_found() {
        let mut state = state();
        state.lists[List::Free as usize].retain(|block| *block != 3);
        state.file(3, List::Nowhere);
    }

    #[test]
    #[should_panic(expected = "only live nodes move")]
    fn a_node_that_is_obsolete_is_not_moved() {
        let mut state = state();
        state.mark_obsolete(0);
        state.file(1, List::Nowhere);
        state.move_node(0, 65_536);
    }

    #[test]
    #[should_panic(expected = "stands directly behind the last one of its new block")]
    fn a_node_is_not_moved_behind_a_gap() {
        let mut state = state();
        state.file(1, List::Nowhere);
        state.move_node(0, 65_536 + 8);
    }

    /// Its nodes are read until they stand elsewhere: a node that becomes obsolete meanwhile files it on no list.
    #[test]
    fn a_block_that_is_recovered_is_not_filed_by_others() {
        let mut state = state();
        (state.next_block, state.recovered_block) = (None, Some(0));
        state.mark_obsolete(0);
        state.mark_obsolete(1);
        assert_eq!((state.blocks[0].list, state.erasing_blocks), (List::Nowhere, 0));
        state.recovered_block = None;
        state.file_erase_pending(0);
        state.assert_invariants();
    }

    #[test]
    #[should_panic(expected = "node 1 of block 0 follows the last one")]
    fn a_gap_between_two_nodes_is_found() {
        let mut state = state();
        state.nodes[1].offset += 4;
        state.assert_invariants();
    }

    #[test]
    #[should_panic(expected = "live node 1 of Inode(5) is lost")]
    fn a_live_node_that_its_inode_does_not_name_is_found() {
        let mut state = state();
        state.inode_cache(5).nodes.pop();
        state.assert_invariants();
    }
}

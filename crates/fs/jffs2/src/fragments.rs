//! Which node holds which bytes of a file.
//!
//! Source: `fs/jffs2/nodelist.c` (`jffs2_add_full_dnode_to_inode`, `jffs2_truncate_fragtree`).
//!
//! May use: `nodes`, `state`.

use crate::nodes::PAGE_BYTES;
use crate::state::{NodeId, State};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A node with data (`jffs2_full_dnode`).
#[derive(Debug)]
pub(crate) struct DataNode {
    pub(crate) node: Cell<NodeId>,
    /// First byte of the file.
    pub(crate) offset: u32,
    /// Bytes of the file.
    pub(crate) bytes: u32,
    /// Fragments that show it.
    pub(crate) fragments: Cell<u32>,
}

impl DataNode {
    pub(crate) fn new(node: NodeId, offset: u32, bytes: u32) -> Rc<Self> {
        Rc::new(Self { node: Cell::new(node), offset, bytes, fragments: Cell::new(0) })
    }
}

/// A part of a file (`jffs2_node_frag`).
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    /// None for a hole that no node tells of.
    pub(crate) data: Option<Rc<DataNode>>,
}

impl Fragment {
    pub(crate) fn end(&self) -> u32 {
        self.offset + self.bytes
    }
}

/// All parts of a file, in order and without gaps.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    parts: BTreeMap<u32, Fragment>,
    /// Parts without a node. Counted as they come and go: whoever watches the memory of a mount asks every
    /// few milliseconds, and a walk over all parts would take more time than the writes.
    holes: usize,
}

const fn page(offset: u32) -> u32 {
    offset / PAGE_BYTES
}

impl Fragments {
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Parts that show a node.
    pub(crate) fn shown_len(&self) -> usize {
        self.parts.len() - self.holes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Fragment> {
        self.parts.values()
    }

    /// End of the last fragment.
    pub(crate) fn end(&self) -> u32 {
        self.parts.last_key_value().map_or(0, |(_, last)| last.end())
    }

    /// The fragment that holds a byte.
    pub(crate) fn find(&self, offset: u32) -> Option<&Fragment> {
        let (_, part) = self.parts.range(..=offset).next_back()?;
        (offset < part.end()).then_some(part)
    }

    /// The fragment before the one that begins at `offset`.
    pub(crate) fn before(&self, offset: u32) -> Option<&Fragment> {
        self.parts.range(..offset).next_back().map(|(_, part)| part)
    }

    /// The first fragment that begins at `offset` or behind it.
    pub(crate) fn from(&self, offset: u32) -> Option<&Fragment> {
        self.parts.range(offset..).next().map(|(_, part)| part)
    }

    fn insert(&mut self, part: Fragment) {
        if part.bytes > 0 {
            self.holes += usize::from(part.data.is_none());
            self.parts.insert(part.offset, part);
        } else if let Some(data) = part.data {
            data.fragments.set(data.fragments.get() - 1);
        }
    }

    /// After a change: what begins at `offset` follows what is before it, without a gap or an overlap.
    #[inline]
    #[track_caller]
    fn assert_joins(&self, offset: u32) {
        debug_assert_eq!(
            self.before(offset).map_or(0, Fragment::end),
            self.from(offset).map_or(self.end(), |part| part.offset),
            "fragments on both sides of {offset}"
        );
    }

    /// All fragments lie in order, without gaps, within their nodes, and are as many as the nodes count.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn assert_invariants(&self) {
        let mut end = 0;
        let mut counted: BTreeMap<NodeId, (&DataNode, u32)> = BTreeMap::new();
        for (offset, part) in &self.parts {
            assert_eq!((*offset, part.offset), (end, end), "a fragment follows the one before it");
            assert!(part.bytes > 0, "the fragment at {offset} shows nothing");
            end = part.end();
            let Some(data) = &part.data else { continue };
            let node_end = data.offset.saturating_add(data.bytes);
            assert!(
                data.offset <= part.offset && end <= node_end,
                "{offset}..{end} lies within its node, {}..{node_end}",
                data.offset
            );
            counted.entry(data.node.get()).or_insert((data, 0)).1 += 1;
        }
        let holes = self.iter().filter(|part| part.data.is_none()).count();
        assert_eq!(holes, self.holes, "parts without a node");
        for (data, count) in counted.into_values() {
            assert_eq!(data.fragments.get(), count, "fragments of the node at {}", data.offset);
        }
    }

    /// Lays a newer node over what is there; nodes that are no longer seen become obsolete.
    pub(crate) fn add(&mut self, data: &Rc<DataNode>, state: &mut State) {
        if data.bytes == 0 {
            return;
        }
        let (start, end) = (data.offset, data.offset.saturating_add(data.bytes));
        let last_end = self.end();
        if start >= last_end {
            if last_end > 0 && page(last_end - 1) == page(start) {
                if let Some(last) =
                    self.parts.last_key_value().and_then(|(_, part)| part.data.as_ref())
                {
                    state.mark_normal(last.node.get());
                }
                state.mark_normal(data.node.get());
            }
            // The tree has no gaps: look-ups by offset rely on it.
            self.insert(Fragment { offset: last_end, bytes: start - last_end, data: None });
        } else {
            self.cut_out(start, end, state);
        }
        data.fragments.set(data.fragments.get() + 1);
        self.insert(Fragment { offset: start, bytes: end - start, data: Some(data.clone()) });
        self.assert_joins(start);
        self.assert_joins(end);
        self.share_pages(data, start, end, state);
    }

    /// Nodes that share a page are no longer pristine.
    fn share_pages(&self, data: &Rc<DataNode>, start: u32, end: u32, state: &mut State) {
        let neighbours = [
            (!start.is_multiple_of(PAGE_BYTES)).then(|| self.before(start)).flatten(),
            (!end.is_multiple_of(PAGE_BYTES)).then(|| self.from(end)).flatten(),
        ];
        for neighbour in neighbours.into_iter().flatten() {
            state.mark_normal(data.node.get());
            if let Some(other) = &neighbour.data {
                state.mark_normal(other.node.get());
            }
        }
    }

    /// Takes away what lies in a range.
    fn cut_out(&mut self, start: u32, end: u32, state: &mut State) {
        let first = self.find(start).map_or(start, |part| part.offset);
        let touched: Vec<u32> = self.parts.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(part) = self.parts.remove(&at) else { continue };
            self.holes -= usize::from(part.data.is_none());
            let (head, tail) = (start.saturating_sub(at), part.end().saturating_sub(end));
            if let Some(data) = &part.data {
                // A node laid into the middle of another splits it in two; both parts keep it in
                // use.
                let left = u32::from(head > 0) + u32::from(tail > 0);
                debug_assert!(
                    data.fragments.get() > 0,
                    "a node that is shown counts its fragments"
                );
                data.fragments.set(data.fragments.get() - 1 + left);
                if data.fragments.get() == 0 {
                    state.mark_obsolete(data.node.get());
                } else {
                    state.mark_normal(data.node.get());
                }
            }
            // Without `data.fragments`: the two parts were counted above, together with the one that went.
            if part.data.is_none() {
                self.holes += usize::from(head > 0) + usize::from(tail > 0);
            }
            if head > 0 {
                self.parts
                    .insert(at, Fragment { offset: at, bytes: head, data: part.data.clone() });
            }
            if tail > 0 {
                self.parts.insert(end, Fragment { offset: end, bytes: tail, data: part.data });
            }
        }
    }

    /// Takes away what lies behind the end of the file.
    pub(crate) fn truncate(&mut self, bytes: u32, state: &mut State) {
        if self.end() > bytes {
            self.cut_out(bytes, u32::MAX, state);
        }
        debug_assert!(self.end() <= bytes, "nothing is shown behind {bytes} any more");
        // The last fragment is pristine only if its node is a whole page, or ends with the file: the
        // kernel looks at its end the same way.
        if let Some((_, last)) = self.parts.last_key_value()
            && last.offset.is_multiple_of(PAGE_BYTES)
            && let Some(data) = &last.data
            && !state.is_obsolete(data.node.get())
            && data.fragments.get() == 1
            && last.bytes == data.bytes
        {
            state.mark_pristine(data.node.get());
        }
    }

    /// Puts another node in the place of one in all its fragments.
    pub(crate) fn replace(&mut self, old: &Rc<DataNode>, new: &Rc<DataNode>) {
        for part in self.parts.values_mut() {
            if part.data.as_ref().is_some_and(|data| Rc::ptr_eq(data, old)) {
                part.data = Some(new.clone());
                new.fragments.set(new.fragments.get() + 1);
                old.fragments.set(old.fragments.get() - 1);
            }
        }
        debug_assert_eq!(old.fragments.get(), 0, "the node that was replaced is shown no more");
    }

    /// The node of the only fragment, which leaves the tree (devices and symbolic links).
    pub(crate) fn take_only(&mut self) -> Option<Rc<DataNode>> {
        let (_, part) = self.parts.pop_first()?;
        self.parts.clear();
        self.holes = 0;
        part.data
    }

    /// Takes all away; the nodes become obsolete if the file is deleted.
    pub(crate) fn clear(&mut self, is_deleted: bool, state: &mut State) {
        self.holes = 0;
        for part in std::mem::take(&mut self.parts).into_values() {
            if let Some(data) = part.data
                && is_deleted
            {
                state.mark_obsolete(data.node.get());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DataNode, Fragments};
    use crate::clock::Clock;
    use crate::state::{NodeState, Owner, State};
    use sim::Simulation;
    use std::rc::Rc;

    /// A file in memory with its nodes, all of them pristine until they are added.
    struct Bench {
        state: State,
        parts: Fragments,
        end: u32,
    }

    impl Bench {
        fn new() -> Self {
            let clock = Clock::new(&Simulation::new(0).handle(), 250, 0, false);
            Self { state: State::new(65_536, 8, clock), parts: Fragments::default(), end: 0 }
        }

        fn add(&mut self, offset: u32, bytes: u32) -> Rc<DataNode> {
            let id = self.state.link(self.end, 100, NodeState::Pristine, Owner::None);
            self.end += 100;
            let node = DataNode::new(id.expect("there is room"), offset, bytes);
            self.parts.add(&node, &mut self.state);
            node
        }

        fn is_pristine(&self, node: &DataNode) -> bool {
            self.state.node(node.node.get()).state == NodeState::Pristine
        }
    }

    /// The collector copies a pristine node as it is. Nodes that share a page are written anew as one
    /// (`jffs2_garbage_collect_dnode`), so that they must not stay pristine.
    #[test]
    fn nodes_that_share_a_page_are_not_pristine() {
        let mut bench = Bench::new();
        let whole = bench.add(0, 4096);
        let first = bench.add(4096, 1000);
        assert!(bench.is_pristine(&whole) && bench.is_pristine(&first));
        // Behind the end of the file, with a gap.
        let last = bench.add(6000, 500);
        assert!(bench.is_pristine(&whole));
        assert!(!bench.is_pristine(&first) && !bench.is_pristine(&last));
    }

    /// A fragment whose end is cut off without what follows it being moved.
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a fragment follows the one before it")]
    fn a_gap_between_two_fragments_is_found() {
        let mut bench = Bench::new();
        bench.add(0, 4096);
        bench.add(4096, 4096);
        bench.parts.assert_invariants();
        bench.parts.parts.get_mut(&0).expect("it is there").bytes -= 1;
        bench.parts.assert_invariants();
    }

    /// A gap between two nodes that a third node splits, and that the end of the file then cuts.
    #[test]
    fn parts_without_a_node_are_counted_as_they_come_and_go() {
        let mut bench = Bench::new();
        bench.add(8192, 4096);
        assert_eq!((bench.parts.len(), bench.parts.shown_len()), (2, 1));
        bench.add(4096, 1000);
        assert_eq!((bench.parts.len(), bench.parts.shown_len()), (4, 2));
        bench.parts.truncate(2048, &mut bench.state);
        assert_eq!((bench.parts.len(), bench.parts.shown_len()), (1, 0));
        bench.parts.assert_invariants();
        bench.parts.clear(true, &mut bench.state);
        assert_eq!((bench.parts.len(), bench.parts.shown_len()), (0, 0));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "parts without a node")]
    fn a_part_without_a_node_that_is_not_counted_is_found() {
        let mut bench = Bench::new();
        bench.add(4096, 4096);
        bench.parts.assert_invariants();
        bench.parts.holes -= 1;
        bench.parts.assert_invariants();
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "fragments of the node at 0")]
    fn a_node_that_counts_too_few_fragments_is_found() {
        let mut bench = Bench::new();
        let node = bench.add(0, 4096);
        bench.add(1000, 100);
        bench.parts.assert_invariants();
        node.fragments.set(1);
        bench.parts.assert_invariants();
    }

    #[test]
    fn neighbours_of_a_new_node_are_not_pristine() {
        for replaced in [(1000, 1000), (1200, 500)] {
            let mut bench = Bench::new();
            let nodes = [bench.add(0, 1000), bench.add(1000, 1000), bench.add(2000, 1000)];
            let other = bench.add(4096, 4096);
            for node in &nodes {
                bench.state.mark_pristine(node.node.get());
            }
            let new = bench.add(replaced.0, replaced.1);
            assert!(!bench.is_pristine(&new));
            let is_beside = replaced.1 == 1000;
            assert_eq!(bench.is_pristine(&nodes[0]), !is_beside, "before {replaced:?}");
            assert_eq!(bench.is_pristine(&nodes[2]), !is_beside, "behind {replaced:?}");
            assert!(bench.is_pristine(&other));
        }
    }
}

//! The tree of LEB properties in memory, read piece by piece as it is needed.
//!
//! Source: `fs/ubifs/lpt.c`. Nodes have fixed numbers, so the tree is kept level by level. A state: uses
//! formats and the states of LEB properties and the master.

use crate::layout::Layout;
use crate::lprops::Lebs;
use crate::lpt_format::{NEVER_WRITTEN, Properties};
use crate::lpt_shape::LPT_FANOUT;
use crate::master::Master;
use crate::position::{LebNumber, MainIndex, Position};

/// A node above the lowest level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nnode {
    pub(crate) branches: [Position; 4],
    pub(crate) is_dirty: bool,
}

/// A node of the lowest level: the properties stand in the table of eraseblocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pnode {
    pub(crate) is_dirty: bool,
}

/// An eraseblock of the tree's own area.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableEntry {
    pub(crate) free: u32,
    pub(crate) dirty: u32,
    /// Nothing in it is in use: it is unmapped when the commit under way ends.
    pub(crate) is_released: bool,
    /// Taken by the commit that is being laid out.
    pub(crate) is_taken: bool,
}

/// An eraseblock of the index that was collected and waits for the end of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) leb: LebNumber,
    pub(crate) ends_with_commit: bool,
}

/// The tree of LEB properties, as far as it was read.
#[derive(Default)]
pub(crate) struct Lpt {
    /// `levels[0]` leads to the lowest nodes; the last has the root alone.
    pub(crate) levels: Vec<Vec<Option<Nnode>>>,
    pub(crate) pnodes: Vec<Option<Pnode>>,
    pub(crate) pnodes_loaded: u32,
    pub(crate) nnodes_loaded: u32,
    pub(crate) dirty_nodes: u32,
    pub(crate) lebs: Lebs,
    pub(crate) root: Position,
    pub(crate) head: Position,
    pub(crate) table_place: Position,
    pub(crate) saved_place: Position,
    pub(crate) table: Vec<TableEntry>,
    pub(crate) saved: Vec<LebNumber>,
    pub(crate) is_table_dirty: bool,
    pub(crate) is_saved_dirty: bool,
    /// Where the last search ended.
    pub(crate) scan_leb: LebNumber,
    pub(crate) waiting: Vec<Waiting>,
    /// Eraseblocks of the index at the last commit, the dirtiest last.
    pub(crate) dirty_index: Vec<MainIndex>,
}

impl Lpt {
    pub(crate) fn new(layout: &Layout, master: &Master) -> Self {
        let mut levels = Vec::new();
        let mut count = layout.lpt.pnode_count;
        for _ in 0..layout.lpt.height {
            count = count.div_ceil(LPT_FANOUT);
            levels.push(vec![None; count as usize]);
        }
        let mut lebs = Lebs::new(layout.main_lebs);
        lebs.sums = master.sums;
        Self {
            levels,
            pnodes: vec![None; layout.lpt.pnode_count as usize],
            lebs,
            root: master.lpt_root,
            head: master.lpt_head,
            table_place: master.lpt_table,
            saved_place: master.lpt_saved,
            scan_leb: master.scan_leb,
            ..Self::default()
        }
    }

    /// Where a node above the lowest level stands: `level` counts from zero.
    pub(crate) fn nnode_place(&self, level: usize, number: u32) -> Option<Position> {
        match self.levels.get(level + 1) {
            None => Some(self.root),
            Some(above) => {
                let parent = above[(number / LPT_FANOUT) as usize].as_ref()?;
                Some(parent.branches[(number % LPT_FANOUT) as usize])
            }
        }
    }

    pub(crate) fn pnode_place(&self, number: u32) -> Option<Position> {
        let parent = self.levels[0][(number / LPT_FANOUT) as usize].as_ref()?;
        Some(parent.branches[(number % LPT_FANOUT) as usize])
    }

    /// Space of the tree's own area falls out of use (`ubifs_add_lpt_dirt`).
    pub(crate) fn add_dirt(&mut self, at: Position, bytes: u32, layout: &Layout) {
        // What was never written occupies nothing.
        if at != NEVER_WRITTEN {
            self.table[(at.leb - layout.lpt_first) as usize].dirty += bytes;
        }
    }

    /// The eraseblocks of the tree's own area, with their space.
    pub(crate) fn table_by_leb(
        &self,
        layout: &Layout,
    ) -> impl Iterator<Item = (LebNumber, &TableEntry)> {
        layout.lpt_first.run(layout.lpt_lebs).zip(&self.table)
    }

    /// A node and all above it will be written by the next commit.
    pub(crate) fn make_dirty(&mut self, pnode: u32, layout: &Layout) {
        let place = self.pnode_place(pnode).expect("the path is loaded");
        let entry = self.pnodes[pnode as usize].as_mut().expect("the node is loaded");
        if !std::mem::replace(&mut entry.is_dirty, true) {
            self.dirty_nodes += 1;
            self.add_dirt(place, layout.lpt.pnode_bytes, layout);
        }
        self.make_path_dirty(0, pnode / LPT_FANOUT, layout);
    }

    /// Whether a node above the lowest level is dirty; what would stand above the root counts as dirty.
    fn is_nnode_dirty(&self, level: usize, number: u32) -> bool {
        let nnodes = self.levels.get(level);
        nnodes.is_none_or(|nnodes| nnodes[number as usize].is_some_and(|nnode| nnode.is_dirty))
    }

    pub(crate) fn make_path_dirty(&mut self, level: usize, number: u32, layout: &Layout) {
        let mut number = number;
        for level in level..self.levels.len() {
            let place = self.nnode_place(level, number).expect("the path is loaded");
            let nnode = self.levels[level][number as usize].as_mut().expect("the path is loaded");
            if std::mem::replace(&mut nnode.is_dirty, true) {
                debug_assert!(
                    self.is_nnode_dirty(level + 1, number / LPT_FANOUT),
                    "so is its parent"
                );
                return;
            }
            self.dirty_nodes += 1;
            self.add_dirt(place, layout.lpt.nnode_bytes, layout);
            // A commit that moves the root writes the table too (`ubifs_add_nnode_dirt`,
            // `LTAB_DIRTY`).
            if level + 1 == self.levels.len() && !std::mem::replace(&mut self.is_table_dirty, true)
            {
                let table = self.table_place;
                self.add_dirt(table, layout.lpt.table_bytes, layout);
            }
            number /= LPT_FANOUT;
        }
    }

    /// Takes in a node of the lowest level; its eraseblocks find their categories.
    pub(crate) fn insert_pnode(&mut self, number: u32, lebs: &[Properties; 4], layout: &Layout) {
        debug_assert!(self.pnodes[number as usize].is_none(), "node {number} is read once");
        self.pnodes[number as usize] = Some(Pnode::default());
        self.pnodes_loaded += 1;
        let first = number * LPT_FANOUT;
        let indexes = (first..layout.main_lebs).map(MainIndex::new);
        for (index, properties) in indexes.zip(lebs) {
            self.lebs.all[index.index()].properties = *properties;
            let category = Lebs::categorise(self.lebs.get(index), layout);
            self.lebs.add(index, category);
        }
    }
}

//! Writing the tree of LEB properties.
//!
//! Source: `fs/ubifs/lpt_commit.c`. The small model writes all of it anew when its area runs full, the
//! big one collects its eraseblocks. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::layout::Layout;
use crate::lprops::Category;
use crate::lpt::Lpt;
use crate::lpt_format::{Found, Properties};
use crate::lpt_shape::LPT_FANOUT;
use crate::position::{LebNumber, Position};
use fs_api::{Errno, Place as FoundAt};
use std::cmp::Reverse;

/// What the end of a commit has to write.
#[derive(Default)]
pub(crate) struct LptCommit {
    /// In the order in which they are made.
    writes: Vec<LptWrite>,
}

/// Nodes that go to the medium at a stroke.
struct LptWrite {
    to: Position,
    bytes: Vec<u8>,
}

/// A node of the tree, in the order of writing.
#[derive(Clone, Copy)]
enum Node {
    Pnode(u32),
    Nnode(usize, u32),
}

/// Nodes of a commit, laid out one behind the other.
struct Layouter<'a> {
    layout: &'a Layout,
    /// Where the part that is to be written begins.
    from: Position,
    bytes: Vec<u8>,
    writes: Vec<LptWrite>,
    is_saved_put: bool,
    /// Which write holds the table, and from which of its bytes on.
    table_at: Option<(usize, usize)>,
}

impl<'a> Layouter<'a> {
    fn new(layout: &'a Layout, head: Position) -> Self {
        let (bytes, writes) = (Vec::new(), Vec::new());
        // The small model has no list of saved eraseblocks.
        let is_saved_put = !layout.lpt.is_big;
        Self { layout, from: head, bytes, writes, is_saved_put, table_at: None }
    }

    /// Where the next node goes.
    fn end(&self) -> Position {
        self.from.plus(self.bytes.len() as u32)
    }

    fn has_room(&self, bytes: u32) -> bool {
        self.end().offset + bytes <= self.layout.leb_bytes
    }

    /// Ends the part in the present eraseblock, and accounts for it in the table.
    fn close(&mut self, lpt: &mut Lpt) {
        let end = self.end().offset;
        debug_assert!(end <= self.layout.leb_bytes, "nodes stay within their eraseblock");
        // Nodes have no headers, so the gap up to the unit of writing is filled with 0xFF and
        // counted as dirty.
        let padded = end.next_multiple_of(self.layout.min_io);
        let entry = &mut lpt.table[(self.from.leb - self.layout.lpt_first) as usize];
        entry.free = self.layout.leb_bytes - padded;
        entry.dirty += padded - end;
        self.bytes.resize((padded - self.from.offset) as usize, 0xff);
        let bytes = std::mem::take(&mut self.bytes);
        if !bytes.is_empty() {
            self.writes.push(LptWrite { to: self.from, bytes });
        }
    }

    /// Puts the list of saved eraseblocks and the table here, as far as they fit and are missing.
    fn put_tables(&mut self, lpt: &mut Lpt) {
        let shape = &self.layout.lpt;
        if !self.is_saved_put && self.has_room(shape.saved_bytes) {
            self.is_saved_put = true;
            lpt.saved_place = self.end();
            self.bytes.extend_from_slice(&shape.pack_saved(&lpt.saved));
        }
        if self.table_at.is_none() && self.has_room(shape.table_bytes) {
            // The table describes this very commit. Its bytes are known at the end only, so its
            // room is reserved here.
            self.table_at = Some((self.writes.len(), self.bytes.len()));
            lpt.table_place = self.end();
            self.bytes.resize(self.bytes.len() + shape.table_bytes as usize, 0);
        }
    }

    /// Bytes of the table that has no place yet, or of the list of saved eraseblocks before it.
    fn missing_table_bytes(&self) -> Option<u32> {
        let shape = &self.layout.lpt;
        match (self.is_saved_put, self.table_at) {
            (true, Some(_)) => None,
            (true, None) => Some(shape.table_bytes),
            (false, _) => Some(shape.saved_bytes),
        }
    }
}

impl Lpt {
    /// Dirty nodes, children before their parent.
    fn dirty_order(&self) -> Vec<Node> {
        let mut found = Vec::new();
        let top = self.levels.len() - 1;
        // A parent stores the places of its children, so the children get their places first
        // (`get_cnodes_to_commit`).
        let mut rest = vec![(Node::Nnode(top, 0), false)];
        while let Some((node, is_done)) = rest.pop() {
            match node {
                Node::Pnode(_) => found.push(node),
                Node::Nnode(..) if is_done => found.push(node),
                Node::Nnode(level, number) => {
                    let nnode = &self.levels[level][number as usize];
                    // A dirty node has dirty parents up to the root. A clean one therefore has
                    // nothing dirty below.
                    if !nnode.as_ref().is_some_and(|nnode| nnode.is_dirty) {
                        continue;
                    }
                    rest.push((node, true));
                    for child in (number * LPT_FANOUT..(number + 1) * LPT_FANOUT).rev() {
                        let at = child as usize;
                        if level > 0 {
                            if at < self.levels[level - 1].len() {
                                rest.push((Node::Nnode(level - 1, child), false));
                            }
                        } else if self
                            .pnodes
                            .get(at)
                            .is_some_and(|pnode| pnode.as_ref().is_some_and(|pnode| pnode.is_dirty))
                        {
                            rest.push((Node::Pnode(child), false));
                        }
                    }
                }
            }
        }
        found
    }
}

impl Engine {
    /// The whole tree must be written anew (`need_write_all`).
    fn is_lpt_short(&self, lpt: &Lpt) -> bool {
        let whole = u64::from(self.layout.leb_bytes);
        let lebs = lpt.table_by_leb(&self.layout);
        let free: u64 = lebs
            .map(|(leb, entry)| {
                // Of the head only the rest counts. In other eraseblocks written space becomes free
                // with the whole eraseblock only.
                if leb == lpt.head.leb {
                    whole - u64::from(lpt.head.offset)
                } else if u64::from(entry.free + entry.dirty) == whole {
                    whole
                } else {
                    0
                }
            })
            .sum();
        // Twice: one copy for the commit under way, one for the next commit, which must also
        // succeed before the old copy is void.
        free <= self.layout.lpt.total_bytes * 2
    }

    /// Eraseblocks of the tree with nothing in use may be used again after this commit
    /// (`lpt_tgc_start`).
    fn release_void_lpt(&self) {
        let mut lpt = self.lpt.borrow_mut();
        let (head, whole) = (lpt.head.leb, self.layout.leb_bytes);
        let lebs = self.layout.lpt_first.run(self.layout.lpt_lebs);
        for (leb, entry) in lebs.zip(&mut lpt.table) {
            // The table counts the space as free now, but `is_released` keeps it unused until the
            // commit is on the medium: the last commit's tree may stand there.
            if leb != head && entry.dirty > 0 && entry.free + entry.dirty == whole {
                entry.is_released = true;
                (entry.free, entry.dirty) = (whole, 0);
            }
        }
    }

    /// Lays out all dirty nodes (`ubifs_lpt_start_commit`).
    pub(crate) async fn start_lpt_commit(&self) -> Result<LptCommit, Errno> {
        let _held = self.lpt_lock.lock().await;
        // Before the dirty nodes are laid out: eraseblocks that the previous commits made void free
        // their space for the next one.
        self.release_void_lpt();
        if self.lpt.borrow().dirty_nodes == 0 {
            return Ok(LptCommit::default());
        }
        let is_big = self.layout.lpt.is_big;
        if !is_big && self.is_lpt_short(&self.lpt.borrow()) {
            for pnode in 0..self.layout.lpt.pnode_count {
                // Nodes must be in memory to be written anew (`make_tree_dirty`). The small model
                // bounds the tree to one eraseblock, so this is cheap.
                self.load_pnode(pnode).await?;
                self.lpt.borrow_mut().make_dirty(pnode, &self.layout);
            }
            // A second time: the loop above made all remaining nodes dirty, and their eraseblocks
            // void with them (`ubifs_lpt_start_commit`).
            self.release_void_lpt();
        }
        if is_big {
            self.fill_saved();
        }
        self.lay_out_lpt()
    }

    /// Notes eraseblocks that a mount should know of at once (`populate_lsave`).
    fn fill_saved(&self) {
        let mut lpt = self.lpt.borrow_mut();
        // The old copy of the list becomes dirty space once per commit, although the list changes
        // each time (`populate_lsave`).
        if !std::mem::replace(&mut lpt.is_saved_dirty, true) {
            let saved = lpt.saved_place;
            lpt.add_dirt(saved, self.layout.lpt.saved_bytes, &self.layout);
        }
        let first = self.layout.main_first;
        let lists = [Category::Empty, Category::Freeable, Category::FreeableIndex];
        let heaps = [Category::DirtyIndex, Category::Dirty, Category::Free];
        // The kernel inserts at the front of its lists; here the newest entry is the last, hence
        // the reversal.
        let listed = lists.iter().flat_map(|list| lpt.lebs.list(*list).iter().rev());
        let heaped = heaps.iter().flat_map(|heap| lpt.lebs.heap(*heap));
        let count = self.layout.lpt.saved_count as usize;
        let found = listed.chain(heaped).take(count);
        let mut saved: Vec<LebNumber> = found.map(|number| self.layout.main_leb(*number)).collect();
        // The kernel fills the rest with the first main eraseblock. A mount then loads its node,
        // which is harmless.
        saved.resize(count, first);
        lpt.saved = saved;
    }

    /// An empty eraseblock of the tree's area behind another (`alloc_lpt_leb`).
    fn take_lpt_leb(&self, lpt: &mut Lpt, leb: LebNumber) -> Result<LebNumber, Errno> {
        let (first, count) = (self.layout.lpt_first, self.layout.lpt_lebs);
        // The search starts behind the head and wraps, so that the area wears evenly. The last step
        // is the head itself.
        for step in 1..=count {
            let at = (leb - first + step) % count;
            let entry = &mut lpt.table[at as usize];
            // An eraseblock that is released but not unmapped still holds the tree of the last
            // commit. A cut now would need it.
            if !entry.is_released && !entry.is_taken && entry.free == self.layout.leb_bytes {
                entry.is_taken = true;
                return Ok(first + at);
            }
        }
        self.find(Code::NoRoom, FoundAt::Whole, "the LEB properties have no space left");
        Err(Errno::Enospc)
    }

    /// The layout goes on in another eraseblock of the tree's area.
    fn go_on_in_next_leb(&self, out: &mut Layouter<'_>, lpt: &mut Lpt) -> Result<(), Errno> {
        out.close(lpt);
        out.from = Position::start_of(self.take_lpt_leb(lpt, out.from.leb)?);
        Ok(())
    }

    /// Gives all dirty nodes their places (`layout_cnodes`).
    fn lay_out_lpt(&self) -> Result<LptCommit, Errno> {
        let shape = &self.layout.lpt;
        let mut lpt = self.lpt.borrow_mut();
        let order = lpt.dirty_order();
        debug_assert_eq!(order.len(), lpt.dirty_nodes as usize, "dirty nodes of LEB properties");
        // Nothing is written yet. `end_lpt_commit` writes after the commit's lock is released, so
        // places and contents are fixed here.
        let mut out = Layouter::new(&self.layout, lpt.head);
        // Tables are put where an eraseblock begins, if they fit.
        out.put_tables(&mut lpt);
        for node in order {
            let length = match node {
                Node::Pnode(_) => shape.pnode_bytes,
                Node::Nnode(..) => shape.nnode_bytes,
            };
            if !out.has_room(length) {
                self.go_on_in_next_leb(&mut out, &mut lpt)?;
                out.put_tables(&mut lpt);
            }
            let place = out.end();
            let bytes = self.pack_lpt(&mut lpt, node);
            debug_assert_eq!(bytes.len(), length as usize, "nodes of a kind have one length");
            out.bytes.extend_from_slice(&bytes);
            lpt.set_place(node, place);
            // The count is compared with zero by the next commit, which has nothing to write then.
            lpt.dirty_nodes -= 1;
        }
        // They did not fit at the start of any eraseblock, so they follow the nodes.
        while let Some(missing) = out.missing_table_bytes() {
            if !out.has_room(missing) {
                self.go_on_in_next_leb(&mut out, &mut lpt)?;
            }
            out.put_tables(&mut lpt);
        }
        debug_assert_eq!(lpt.dirty_nodes, 0, "all dirty nodes have a place");
        out.close(&mut lpt);
        let Layouter { mut writes, table_at, .. } = out;
        let last = writes.last().expect("something was written");
        lpt.head = last.to.plus(last.bytes.len() as u32);
        for entry in &mut lpt.table {
            // `is_taken` (`cmt` in the kernel) only keeps one commit from taking an eraseblock
            // twice.
            entry.is_taken = false;
        }
        // The table says how things are when all of this is written.
        let (write, at) = table_at.expect("the table was put");
        let table: Vec<_> = lpt.table.iter().map(|entry| (entry.free, entry.dirty)).collect();
        let packed = shape.pack_table(&table);
        writes[write].bytes[at..at + packed.len()].copy_from_slice(&packed);
        (lpt.is_table_dirty, lpt.is_saved_dirty) = (false, false);
        Ok(LptCommit { writes })
    }

    /// The node as it goes to the medium; it is clean then.
    fn pack_lpt(&self, lpt: &mut Lpt, node: Node) -> Vec<u8> {
        let shape = &self.layout.lpt;
        match node {
            Node::Pnode(number) => {
                let mut lebs =
                    [Properties { free: self.layout.leb_bytes, ..Properties::default() }; 4];
                // The last node may describe eraseblocks behind the end of the main area. They stay
                // empty, as `ubifs_create_dflt_lpt` makes them.
                let known = lpt.lebs.all.iter().skip((number * LPT_FANOUT) as usize);
                for (leb, known) in lebs.iter_mut().zip(known) {
                    *leb = known.properties;
                }
                if let Some(lowest) = lpt.pnodes[number as usize].as_mut() {
                    lowest.is_dirty = false;
                }
                shape.pack_pnode(number, &lebs)
            }
            Node::Nnode(level, number) => {
                let full_number = shape.nnode_number(level, number);
                let upper = lpt.levels[level][number as usize].as_mut().expect("it is dirty");
                upper.is_dirty = false;
                shape.pack_nnode(full_number, &upper.branches, self.layout.lpt_area())
            }
        }
    }

    /// Writes what was laid out (`write_cnodes`).
    pub(crate) async fn end_lpt_commit(&self, commit: LptCommit) -> Result<(), Errno> {
        for LptWrite { to, bytes } in commit.writes {
            // UBI refuses to write to what is written. The old contents were void already when the
            // commit began.
            if to.offset == 0 {
                self.unmap(to.leb).await?;
            }
            self.write(to, &bytes).await?;
        }
        Ok(())
    }

    /// The commit is on the medium (`ubifs_lpt_post_commit`).
    pub(crate) async fn finish_lpt_commit(&self) -> Result<(), Errno> {
        let _held = self.lpt_lock.lock().await;
        for at in 0..self.layout.lpt_lebs {
            // Only now: the master node names the new tree, so the old one is not needed after a
            // cut (`lpt_tgc_end`).
            if self.lpt.borrow().table[at as usize].is_released {
                self.unmap(self.layout.lpt_first + at).await?;
                self.lpt.borrow_mut().table[at as usize].is_released = false;
            }
        }
        if !self.layout.lpt.is_big {
            return Ok(());
        }
        // The big model cannot rewrite the whole tree in one commit. It makes room for the next
        // commit now, when nothing depends on the space.
        while self.is_lpt_short(&self.lpt.borrow()) {
            if !self.collect_lpt().await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes all nodes of the tree's dirtiest eraseblock dirty, so that the next commit moves them
    /// (`lpt_gc`); false if there is nothing to gain.
    async fn collect_lpt(&self) -> Result<bool, Errno> {
        let leb = {
            let lpt = self.lpt.borrow();
            let lebs = lpt.table_by_leb(&self.layout);
            let worth = lebs.filter(|(leb, entry)| {
                *leb != lpt.head.leb
                    && entry.dirty > 0
                    && entry.free + entry.dirty != self.layout.leb_bytes
            });
            // `lpt_gc` keeps the first of equals; `max_by_key` would keep the last.
            match worth.max_by_key(|(leb, entry)| (entry.dirty, Reverse(*leb))) {
                Some((leb, _)) => leb,
                None => return Ok(false),
            }
        };
        let mut bytes = vec![0; self.layout.leb_bytes as usize];
        self.read(Position::start_of(leb), &mut bytes).await?;
        let mut at = 0_u32;
        while at < self.layout.leb_bytes {
            let Some((found, length)) = self.layout.lpt.find_node(&bytes[at as usize..]) else {
                // The bytes up to the next unit are 0xFF padding between two commits
                // (`get_pad_len` in `lpt_gc_lnum`).
                let next = at.next_multiple_of(self.layout.min_io);
                if next == at {
                    break;
                }
                at = next;
                continue;
            };
            self.make_moved(found, Position::new(leb, at)).await?;
            at += length;
        }
        Ok(true)
    }

    async fn make_moved(&self, found: Found, place: Position) -> Result<(), Errno> {
        match found {
            Found::Pnode(number) if number < self.layout.lpt.pnode_count => {
                self.load_pnode(number).await?;
                let mut lpt = self.lpt.borrow_mut();
                // A node that stands elsewhere by now is garbage here. Only the copy in use has to
                // move.
                if lpt.pnode_place(number) == Some(place) {
                    lpt.make_dirty(number, &self.layout);
                }
            }
            Found::Nnode(number) if number > 0 => {
                // The steps down from the root stand behind the highest bit, the first lowest.
                let depth = (u32::BITS - 1 - number.leading_zeros()) / 2;
                let at = (0..depth).fold(0, |at, step| at << 2 | (number >> (2 * step) & 3));
                let Some(level) = self.layout.lpt.height.checked_sub(depth + 1) else {
                    return Ok(());
                };
                // There is no call that loads a path to an inner node. The first lowest node below
                // it has that path.
                self.load_pnode((at << (2 * (level + 1))).min(self.layout.lpt.pnode_count - 1))
                    .await?;
                let mut lpt = self.lpt.borrow_mut();
                let level = level as usize;
                if lpt.nnode_place(level, at) == Some(place) {
                    lpt.make_path_dirty(level, at, &self.layout);
                }
            }
            Found::Table => {
                let mut lpt = self.lpt.borrow_mut();
                if lpt.table_place == place && !std::mem::replace(&mut lpt.is_table_dirty, true) {
                    lpt.add_dirt(place, self.layout.lpt.table_bytes, &self.layout);
                }
            }
            Found::Saved => {
                let mut lpt = self.lpt.borrow_mut();
                if lpt.saved_place == place && !std::mem::replace(&mut lpt.is_saved_dirty, true) {
                    lpt.add_dirt(place, self.layout.lpt.saved_bytes, &self.layout);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Lpt {
    fn set_place(&mut self, node: Node, place: Position) {
        let (level, number) = match node {
            Node::Pnode(number) => (0, number),
            Node::Nnode(level, number) => (level + 1, number),
        };
        match self.levels.get_mut(level) {
            // The root has no parent. The master node names it.
            None => self.root = place,
            Some(above) => {
                let parent = above[(number / LPT_FANOUT) as usize].as_mut();
                parent.expect("parents of dirty nodes are loaded").branches
                    [(number % LPT_FANOUT) as usize] = place;
            }
        }
    }
}

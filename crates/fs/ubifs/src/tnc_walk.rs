//! Walking the index: nodes are read as a walk comes to them.
//!
//! Source: `fs/ubifs/tnc.c`, `tnc_misc.c`. All calls here expect the caller to hold the index's lock. A
//! part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::keys::Key;
use crate::nodes::{IndexNode, Place, key_of, kind};
use crate::position::Position;
use crate::tnc::{Branch, Spot, Znode, ZnodeId};
use fs_api::Errno;
use std::rc::Rc;

/// Deepest index that can be (`BOTTOM_UP_HEIGHT`).
const MAX_LEVEL: u16 = 64;

impl Engine {
    /// Reads a node of the index and checks that it can be where it is (`read_znode`).
    async fn read_znode(
        &self,
        place: Place,
        level: Option<u16>,
        floor: Key,
    ) -> Result<Znode, Errno> {
        let bytes = self.read_node(place, kind::INDEX).await?;
        let damaged = |what: &str| {
            let at = place.position();
            let text = format!("LEB {at}: node of the index: {what}");
            self.find(Code::DamagedIndex, at.found(), text);
            Errno::Eio
        };
        let node = IndexNode::parse(&bytes).ok_or_else(|| damaged("no branches"))?;
        // The checks of `read_znode`. Without them a damaged node with a valid checksum could send
        // a walk round in circles.
        if node.branches.len() > self.layout.fanout || node.level > MAX_LEVEL {
            return Err(damaged("too many branches or levels"));
        }
        if level.is_some_and(|level| level != node.level) {
            return Err(damaged("not of its level"));
        }
        for (key, child) in &node.branches {
            let is_inside = self.layout.is_main(child.leb)
                && u64::from(child.offset) + u64::from(child.bytes)
                    <= u64::from(self.layout.leb_bytes)
                && child.offset.is_multiple_of(8);
            // The kernel does not compare with the parent's key. A key below the parent's inode can
            // only be damage.
            if !is_inside || *key < floor && key.inode < floor.inode {
                return Err(damaged("a branch leads nowhere"));
            }
        }
        // Equal keys are legal only where the key holds the hash of a name.
        let is_sorted = node
            .branches
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 || pair[0].0 == pair[1].0 && pair[0].0.is_hashed());
        if !is_sorted {
            return Err(damaged("keys are not in order"));
        }
        let branches = node.branches.into_iter();
        let branches = branches.map(|(key, place)| Branch { key, place, ..Branch::default() });
        Ok(Znode {
            level: node.level,
            branches: branches.collect(),
            used_ns: self.sim.now(),
            ..Znode::default()
        })
    }

    /// The root, read if need be.
    pub(crate) async fn root_znode(&self) -> Result<ZnodeId, Errno> {
        debug_assert!(self.tnc_lock.is_locked(), "a walk begins under the lock of the index");
        let (place, child) = {
            let tnc = self.tnc.borrow();
            (tnc.root.place, tnc.root.child)
        };
        if let Some(id) = child {
            return Ok(id);
        }
        let znode = self.read_znode(place, None, Key::default()).await?;
        let mut tnc = self.tnc.borrow_mut();
        let id = tnc.insert(znode);
        tnc.root.child = Some(id);
        Ok(id)
    }

    /// A child, read if need be (`get_znode`).
    pub(crate) async fn child_znode(&self, id: ZnodeId, at: usize) -> Result<ZnodeId, Errno> {
        let (branch, level) = {
            let tnc = self.tnc.borrow();
            (tnc.branch(id, at).clone(), tnc.get(id).level)
        };
        if let Some(child) = branch.child {
            self.tnc.borrow_mut().get_mut(child).used_ns = self.sim.now();
            return Ok(child);
        }
        let level = level.checked_sub(1).ok_or(Errno::Eio)?;
        let mut znode = self.read_znode(branch.place, Some(level), branch.key).await?;
        (znode.parent, znode.position) = (Some(id), at);
        let mut tnc = self.tnc.borrow_mut();
        let child = tnc.insert(znode);
        tnc.get_mut(id).branches[at].child = Some(child);
        Ok(child)
    }

    /// A node will be written by the next commit; what it is on the medium falls out of use
    /// (`dirty_cow_znode`).
    pub(crate) async fn make_znode_dirty(&self, id: ZnodeId) -> Result<(), Errno> {
        debug_assert!(self.tnc_lock.is_locked(), "the index changes under its lock");
        let place = {
            let mut tnc = self.tnc.borrow_mut();
            // The kernel also copies a node that a commit is writing. Here the commit has turned it
            // into bytes already (see `tnc_commit.rs`).
            if std::mem::replace(&mut tnc.get_mut(id).is_dirty, true) {
                return Ok(());
            }
            tnc.dirty += 1;
            tnc.clean -= 1;
            let place = tnc.branch_to(id).place;
            // A node that was never written occupies nothing on the medium.
            if place.bytes == 0 {
                return Ok(());
            }
            // The in-the-gaps method must not overwrite this node: the index of the last commit
            // still contains it (`old_idx` tree of `insert_old_idx`).
            tnc.old.insert(place.position());
            let bytes = u64::from(place.bytes.next_multiple_of(8));
            tnc.index_bytes = tnc.index_bytes.saturating_sub(bytes);
            place
        };
        // Index lock before the lock of the LEB properties; no caller takes them in the other
        // order.
        self.add_dirt(place.leb, place.bytes).await
    }

    /// A node and all above it, from the root down (`dirty_cow_bottom_up`).
    pub(crate) async fn make_path_dirty(&self, id: ZnodeId) -> Result<(), Errno> {
        let mut path = vec![id];
        while let Some(parent) = self.tnc.borrow().get(path[path.len() - 1]).parent {
            path.push(parent);
        }
        // From the root down, so that no clean node ever lies above a dirty one: commits and the
        // shrinker rely on that.
        for id in path.into_iter().rev() {
            self.make_znode_dirty(id).await?;
        }
        Ok(())
    }

    /// The branch with a key, or the one before it (`ubifs_lookup_level0`); with `dirties`, all nodes
    /// on the way become dirty.
    pub(crate) async fn find_key(&self, key: Key, dirties: bool) -> Result<(bool, Spot), Errno> {
        let mut id = self.root_znode().await?;
        let (is_exact, at) = loop {
            // On the way down: a change of the leaf changes the place of every node above it at the
            // next commit.
            if dirties {
                self.make_znode_dirty(id).await?;
            }
            let (found, level) = {
                let mut tnc = self.tnc.borrow_mut();
                let znode = tnc.get_mut(id);
                znode.used_ns = self.sim.now();
                (znode.search(key), znode.level)
            };
            // The borrow above has ended: this await lets other tasks run, and only the index's
            // lock protects the tree.
            self.cpus.run(self.options.costs.znode_ns).await;
            if level == 0 {
                break found;
            }
            id = self.child_znode(id, found.1.unwrap_or(0)).await?;
        };
        let spot = Spot { znode: id, at };
        // Quirk of `ubifs_lookup_level0`: after a split between equal keys the parent leads to the
        // right node, whose first key is larger.
        if is_exact || !key.is_hashed() || at.is_some() {
            return Ok((is_exact, spot));
        }
        // Names with one hash may begin in the node to the left.
        match self.previous(spot).await? {
            Some(left) if self.key_at(left) == key => {
                if dirties {
                    self.make_path_dirty(left.znode).await?;
                }
                Ok((true, left))
            }
            _ => Ok((false, spot)),
        }
    }

    pub(crate) fn key_at(&self, spot: Spot) -> Key {
        self.tnc.borrow().branch(spot.znode, spot.at.expect("on a branch")).key
    }

    pub(crate) fn place_at(&self, spot: Spot) -> Place {
        self.tnc.borrow().branch(spot.znode, spot.at.expect("on a branch")).place
    }

    /// The branch behind another (`tnc_next`).
    pub(crate) async fn next(&self, spot: Spot) -> Result<Option<Spot>, Errno> {
        let next = spot.at.map_or(0, |at| at + 1);
        let mut id = spot.znode;
        if next < self.tnc.borrow().get(id).branches.len() {
            return Ok(Some(Spot { znode: id, at: Some(next) }));
        }
        let mut at = loop {
            let tnc = self.tnc.borrow();
            let znode = tnc.get(id);
            let Some(parent) = znode.parent else { return Ok(None) };
            let position = znode.position + 1;
            id = parent;
            if position < tnc.get(parent).branches.len() {
                break position;
            }
        };
        loop {
            if self.tnc.borrow().get(id).level == 0 {
                return Ok(Some(Spot { znode: id, at: Some(0) }));
            }
            id = self.child_znode(id, at).await?;
            at = 0;
        }
    }

    /// The branch before another (`tnc_prev`).
    pub(crate) async fn previous(&self, spot: Spot) -> Result<Option<Spot>, Errno> {
        if let Some(at) = spot.at.and_then(|at| at.checked_sub(1)) {
            return Ok(Some(Spot { znode: spot.znode, at: Some(at) }));
        }
        let mut id = spot.znode;
        // Climb to the first ancestor with a branch further left, then go down along last branches.
        let mut at = loop {
            let tnc = self.tnc.borrow();
            let znode = tnc.get(id);
            let Some(parent) = znode.parent else { return Ok(None) };
            let position = znode.position;
            id = parent;
            if let Some(before) = position.checked_sub(1) {
                break before;
            }
        };
        loop {
            id = self.child_znode(id, at).await?;
            let tnc = self.tnc.borrow();
            at = tnc.get(id).branches.len() - 1;
            if tnc.get(id).level == 0 {
                return Ok(Some(Spot { znode: id, at: Some(at) }));
            }
        }
    }

    /// The entry that a branch leads to, from memory if it was read before (`tnc_read_hashed_node`).
    pub(crate) async fn read_leaf(&self, spot: Spot) -> Result<Rc<[u8]>, Errno> {
        let at = spot.at.expect("on a branch");
        let (leaf, place, key) = {
            let tnc = self.tnc.borrow();
            let branch = tnc.branch(spot.znode, at);
            (branch.leaf.clone(), branch.place, branch.key)
        };
        if let Some(leaf) = leaf {
            return Ok(leaf);
        }
        // The kernel caches entries, not inodes or data (`lnc_add`): the page cache and the inode
        // cache hold those.
        let leaf: Rc<[u8]> = self.read_keyed(place, key).await?.into();
        self.tnc.borrow_mut().get_mut(spot.znode).branches[at].leaf = Some(leaf.clone());
        Ok(leaf)
    }

    /// Reads the node that the index says a key has (`ubifs_tnc_read_node`).
    pub(crate) async fn read_keyed(&self, place: Place, key: Key) -> Result<Vec<u8>, Errno> {
        let node = self.read_node(place, key.kind() as u8).await?;
        // The checksum holds for a node of any key. A stale index branch can lead to a whole node
        // of another file.
        if key_of(&node) == key {
            return Ok(node);
        }
        let at = place.position();
        let text = format!("LEB {at}: the node has another key");
        self.find(Code::DamagedIndex, at.found(), text);
        Err(Errno::Eio)
    }

    /// A node of the index by what it says of itself on the medium; none if the index does not lead
    /// to that place any more (`lookup_znode`).
    pub(crate) async fn find_znode(
        &self,
        key: Key,
        level: u16,
        position: Position,
    ) -> Result<Option<ZnodeId>, Errno> {
        let is_place = |place: Place| place.position() == position;
        let mut id = self.root_znode().await?;
        // The root has no branch in a node; its place stands apart.
        if is_place(self.tnc.borrow().root.place) {
            return Ok(Some(id));
        }
        // The index shrank: no node of this level can be in use.
        if level >= self.tnc.borrow().get(id).level {
            return Ok(None);
        }
        let at = loop {
            let (mut at, here) = {
                let tnc = self.tnc.borrow();
                (tnc.get(id).search(key).1, tnc.get(id).level)
            };
            if at.is_none() {
                // The node's first key may have grown since it was written (`is_altered`), so the
                // key may belong to the left neighbour (`lookup_znode`).
                let Some(left) = self.left_of(id).await? else { return Ok(None) };
                id = left;
                at = self.tnc.borrow().get(id).search(key).1;
            }
            let at = at.unwrap_or(0);
            if here == level + 1 {
                break at;
            }
            id = self.child_znode(id, at).await?;
        };
        if is_place(self.tnc.borrow().branch(id, at).place) {
            return self.child_znode(id, at).await.map(Some);
        }
        // Nodes to both sides may begin with the same key.
        if !key.is_hashed() {
            return Ok(None);
        }
        self.find_beside(id, at, key, position).await
    }

    /// A node at a place, to which one of the branches with a key leads on both sides of a branch.
    async fn find_beside(
        &self,
        id: ZnodeId,
        at: usize,
        key: Key,
        position: Position,
    ) -> Result<Option<ZnodeId>, Errno> {
        for goes_left in [true, false] {
            let (mut id, mut at) = (id, at);
            loop {
                let count = self.tnc.borrow().get(id).branches.len();
                if goes_left && at > 0 {
                    at -= 1;
                } else if !goes_left && at + 1 < count {
                    at += 1;
                } else {
                    let side =
                        if goes_left { self.left_of(id).await? } else { self.right_of(id).await? };
                    let Some(side) = side else { break };
                    id = side;
                    let last = self.tnc.borrow().get(id).branches.len() - 1;
                    at = if goes_left { last } else { 0 };
                }
                let branch = self.tnc.borrow().branch(id, at).clone();
                if branch.place.position() == position {
                    return self.child_znode(id, at).await.map(Some);
                }
                // Equal keys are adjacent, so the first other key ends the search on this side.
                if goes_left && branch.key < key || !goes_left && branch.key > key {
                    break;
                }
            }
        }
        Ok(None)
    }

    async fn left_of(&self, id: ZnodeId) -> Result<Option<ZnodeId>, Errno> {
        self.beside(id, true).await
    }

    async fn right_of(&self, id: ZnodeId) -> Result<Option<ZnodeId>, Errno> {
        self.beside(id, false).await
    }

    /// The neighbour of a node on its level.
    async fn beside(&self, id: ZnodeId, goes_left: bool) -> Result<Option<ZnodeId>, Errno> {
        let level = self.tnc.borrow().get(id).level;
        let mut id = id;
        let mut at = loop {
            let tnc = self.tnc.borrow();
            let znode = tnc.get(id);
            let Some(parent) = znode.parent else { return Ok(None) };
            let position = znode.position;
            id = parent;
            let count = tnc.get(parent).branches.len();
            match goes_left {
                true if position > 0 => break position - 1,
                false if position + 1 < count => break position + 1,
                _ => {}
            }
        };
        loop {
            id = self.child_znode(id, at).await?;
            let tnc = self.tnc.borrow();
            if tnc.get(id).level == level {
                return Ok(Some(id));
            }
            at = if goes_left { tnc.get(id).branches.len() - 1 } else { 0 };
        }
    }
}

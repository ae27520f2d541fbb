//! Changes of the index: putting in, replacing, taking out.
//!
//! Source: `fs/ubifs/tnc.c`. Splits are the kernel's, so that an index of ours has the kernel's shape. A
//! part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::keys::{Key, kind as key_kind};
use crate::layout::Layout;
use crate::nodes::Place;
use crate::position::Position;
use crate::tnc::{Branch, Spot, Tnc, Znode, ZnodeId};
use fs_api::{Errno, Place as FoundAt};

impl Tnc {
    /// Notes that a node of the index on the medium is not in use any more (`insert_old_idx_znode`).
    pub(crate) fn remember_old(&mut self, id: ZnodeId) {
        let place = self.branch_to(id).place;
        if place.bytes > 0 {
            self.old.insert(place.position());
        }
    }

    /// Sets parent and position of the children from a branch on.
    fn number_children(&mut self, id: ZnodeId, from: usize) {
        let znode = self.get(id);
        let level = znode.level;
        let children: Vec<_> = znode.branches.iter().enumerate().skip(from).collect();
        if level == 0 {
            return;
        }
        let children: Vec<_> =
            children.into_iter().filter_map(|(at, branch)| Some((at, branch.child?))).collect();
        for (at, child) in children {
            let child = self.get_mut(child);
            debug_assert_eq!(child.level + 1, level, "a child is one level below");
            (child.parent, child.position) = (Some(id), at);
        }
    }

    /// A node has a new first branch; the keys that lead to it follow (`correct_parent_keys`).
    fn correct_parent_keys(&mut self, id: ZnodeId) {
        self.get_mut(id).is_altered = true;
        let key = self.get(id).branches[0].key;
        let mut id = id;
        while let (Some(parent), 0) = (self.get(id).parent, self.get(id).position) {
            let above = self.get_mut(parent);
            // The branch leads to all keys from its own on, so a smaller key above needs no change.
            if above.branches[0].key <= key {
                return;
            }
            above.branches[0].key = key;
            above.is_altered = true;
            id = parent;
        }
    }

    /// How a full node is divided when a branch is put in at a place: how many stay, and whether the
    /// new branch goes to those that stay.
    fn divide(&self, id: ZnodeId, key: Key, at: usize, appends: &mut bool) -> (usize, bool) {
        let znode = self.get(id);
        let fanout = znode.branches.len();
        let is_data_of = |at: usize| {
            let other = znode.branches[at].key;
            other.inode == key.inode && other.kind() == key_kind::DATA
        };
        let mut looks_for_run = false;
        if znode.level == 0 && key.kind() == key_kind::DATA {
            // Data of one file that follow each other stay together.
            if at == fanout {
                *appends |= is_data_of(fanout - 1);
            } else {
                looks_for_run = true;
            }
        } else if *appends && at != fanout {
            *appends = false;
            looks_for_run = true;
        }
        if looks_for_run && at >= fanout.div_ceil(2) && is_data_of(0) && !is_data_of(at) {
            // Keeps blocks of one file in few nodes (`tnc_insert`, label `check_split`).
            return (at, true);
        }
        // Appending leaves a full node behind and opens a new one; anything else divides in half.
        let keep = if *appends { fanout } else { fanout.div_ceil(2) };
        if at < keep { (keep - 1, true) } else { (keep, false) }
    }

    /// Puts a branch into a node, dividing it and those above it if they are full (`tnc_insert`).
    // One function: each division gives the loop the branch that goes into the parent.
    fn insert_branch(&mut self, id: ZnodeId, branch: Branch, at: usize, layout: &Layout) {
        let fanout = layout.fanout;
        let (mut id, mut branch, mut at) = (id, branch, at);
        let (key, mut appends) = (branch.key, false);
        loop {
            if self.get(id).branches.len() < fanout {
                self.get_mut(id).insert_in_order(at, branch);
                self.number_children(id, at);
                if at == 0 {
                    self.correct_parent_keys(id);
                }
                return;
            }
            if self.get(id).is_altered {
                // It may not be found by its key any more, so that is noted by its place.
                self.remember_old(id);
                self.branch_to_mut(id).place = Place::default();
            }
            let (keep, goes_left) = self.divide(id, key, at, &mut appends);
            debug_assert!(keep <= fanout && keep > 0, "{keep} branches stay in a node of {fanout}");
            let znode = self.get_mut(id);
            let moved = znode.branches.split_off(keep);
            let new = Znode {
                parent: znode.parent,
                level: znode.level,
                branches: moved,
                is_dirty: true,
                used_ns: znode.used_ns,
                ..Znode::default()
            };
            let new = self.insert(new);
            let target = if goes_left { id } else { new };
            // What stayed may have grown by one less than the place: the run of data ends here.
            let target_at = if goes_left { at } else { at - keep.min(at) };
            self.get_mut(target).insert_in_order(target_at, branch);
            self.number_children(id, 0);
            self.number_children(new, 0);
            if target == id && at == 0 {
                self.correct_parent_keys(id);
            }
            let new_branch = Branch {
                key: self.get(new).branches[0].key,
                child: Some(new),
                ..Branch::default()
            };
            if let Some(parent) = self.get(id).parent {
                at = self.get(id).position + 1;
                (id, branch) = (parent, new_branch);
                continue;
            }
            let old = Branch {
                key: self.get(id).branches[0].key,
                place: std::mem::take(&mut self.root.place),
                child: Some(id),
                leaf: None,
            };
            let root = Znode {
                level: self.get(id).level + 1,
                branches: vec![old, new_branch],
                is_dirty: true,
                used_ns: self.get(id).used_ns,
                ..Znode::default()
            };
            let root = self.insert(root);
            self.root.child = Some(root);
            self.number_children(root, 0);
            return;
        }
    }
}

impl Engine {
    fn put_in(&self, spot: Spot, key: Key, place: Place) {
        let at = spot.at.map_or(0, |at| at + 1);
        let branch = Branch { key, place, ..Branch::default() };
        self.tnc.borrow_mut().insert_branch(spot.znode, branch, at, &self.layout);
    }

    async fn replace_at(&self, spot: Spot, place: Place) -> Result<(), Errno> {
        let old = {
            let mut tnc = self.tnc.borrow_mut();
            let at = spot.at.expect("on a branch");
            let branch = &mut tnc.get_mut(spot.znode).branches[at];
            branch.leaf = None;
            std::mem::replace(&mut branch.place, place)
        };
        self.add_dirt(old.leb, old.bytes).await
    }

    /// A node with a key of its own was written (`ubifs_tnc_add`).
    pub(crate) async fn tnc_add(&self, key: Key, place: Place) -> Result<(), Errno> {
        let _held = self.tnc_lock.lock().await;
        let (found, spot) = self.find_key(key, true).await?;
        if found {
            self.replace_at(spot, place).await
        } else {
            self.put_in(spot, key, place);
            Ok(())
        }
    }

    /// A named entry was written (`ubifs_tnc_add_nm`).
    pub(crate) async fn tnc_add_name(
        &self,
        key: Key,
        place: Place,
        name: &[u8],
    ) -> Result<(), Errno> {
        let held = self.tnc_lock.lock().await;
        let (mut found, mut spot) = self.find_key(key, true).await?;
        if found {
            (found, spot) = if self.is_mounting.get() {
                self.find_name_in_replay(spot, name, true).await?
            } else {
                self.find_name(spot, name).await?
            };
            self.make_path_dirty(spot.znode).await?;
        }
        if found {
            self.replace_at(spot, place).await
        } else {
            self.put_in(spot, key, place);
            drop(held);
            if self.is_mounting.get() {
                // A branch to the entry's place before it was collected may dangle: it goes with a
                // name that nothing has.
                return self.tnc_remove_name(key, b"").await;
            }
            Ok(())
        }
    }

    /// The collector moved a node; if the index leads elsewhere meanwhile, the copy is void
    /// (`ubifs_tnc_replace`).
    pub(crate) async fn tnc_replace(
        &self,
        key: Key,
        old: Position,
        new: Place,
    ) -> Result<(), Errno> {
        let held = self.tnc_lock.lock().await;
        if let Some(spot) = self.find_moved(key, old).await? {
            self.make_path_dirty(spot.znode).await?;
            self.replace_at(spot, new).await?;
        } else {
            drop(held);
            self.add_dirt(new.leb, new.bytes).await?;
        }
        Ok(())
    }

    /// The branch of a key that leads to a place.
    async fn find_moved(&self, key: Key, old: Position) -> Result<Option<Spot>, Errno> {
        let (found, spot) = self.find_key(key, false).await?;
        if !found {
            return Ok(None);
        }
        let is_there = |spot: Spot| self.place_at(spot).position() == old;
        if is_there(spot) {
            return Ok(Some(spot));
        }
        if !key.is_hashed() {
            return Ok(None);
        }
        for goes_left in [true, false] {
            let mut here = spot;
            loop {
                let side =
                    if goes_left { self.previous(here).await? } else { self.next(here).await? };
                match side {
                    Some(side) if self.key_at(side) == key => here = side,
                    _ => break,
                }
                if is_there(here) {
                    return Ok(Some(here));
                }
            }
        }
        Ok(None)
    }

    /// Whether the index leads to a node at a place (`ubifs_tnc_has_node`).
    pub(crate) async fn tnc_has_node(
        &self,
        key: Key,
        level: u16,
        place: Position,
        is_index: bool,
    ) -> Result<bool, Errno> {
        let _held = self.tnc_lock.lock().await;
        if is_index {
            let found = self.find_znode(key, level, place).await?;
            // A dirty node on the medium is void.
            return Ok(found.is_some_and(|id| !self.tnc.borrow().get(id).is_dirty));
        }
        Ok(self.find_moved(key, place).await?.is_some())
    }

    /// Takes a branch out, and nodes that become empty (`tnc_delete`). All above are dirty.
    async fn take_out(&self, spot: Spot) -> Result<(), Errno> {
        let at = spot.at.expect("on a branch");
        debug_assert!(self.tnc.borrow().get(spot.znode).is_dirty, "what changes is dirty");
        let branch = self.tnc.borrow_mut().get_mut(spot.znode).branches.remove(at);
        self.add_dirt(branch.place.leb, branch.place.bytes).await?;
        if !self.tnc.borrow().get(spot.znode).branches.is_empty() {
            return Ok(());
        }
        {
            let mut tnc = self.tnc.borrow_mut();
            let mut id = spot.znode;
            // The last branch of a node leads to the node's own end.
            let (parent, position) = loop {
                let znode = tnc.get(id);
                let (parent, position) = (znode.parent, znode.position);
                let Some(parent) = parent else {
                    drop(tnc);
                    return Err(Errno::Eio);
                };
                tnc.remember_old(id);
                tnc.remove(id);
                if tnc.get(parent).branches.len() > 1 {
                    break (parent, position);
                }
                id = parent;
            };
            let znode = tnc.get_mut(parent);
            znode.branches.remove(position);
            tnc.number_children(parent, position);
            if tnc.get(parent).parent.is_some() {
                return Ok(());
            }
        }
        self.lower_root().await
    }

    /// A root with one child is none (`tnc_delete`).
    async fn lower_root(&self) -> Result<(), Errno> {
        loop {
            let root = self.root_znode().await?;
            {
                let tnc = self.tnc.borrow();
                let znode = tnc.get(root);
                if znode.level == 0 || znode.branches.len() != 1 {
                    return Ok(());
                }
            }
            let child = self.child_znode(root, 0).await?;
            self.make_znode_dirty(child).await?;
            let mut tnc = self.tnc.borrow_mut();
            tnc.remember_old(root);
            let old = tnc.remove(root);
            let branch = old.branches.into_iter().next().expect("it has one");
            tnc.root = Branch { child: Some(child), ..branch };
            let znode = tnc.get_mut(child);
            (znode.parent, znode.position) = (None, 0);
        }
    }

    /// Takes out a name (`ubifs_tnc_remove_nm`).
    pub(crate) async fn tnc_remove_name(&self, key: Key, name: &[u8]) -> Result<(), Errno> {
        let _held = self.tnc_lock.lock().await;
        let (found, spot) = self.find_key(key, true).await?;
        if !found {
            return Ok(());
        }
        let (found, spot) = if self.is_mounting.get() {
            self.find_name_in_replay(spot, name, false).await?
        } else {
            self.find_name(spot, name).await?
        };
        if found {
            self.make_path_dirty(spot.znode).await?;
            self.take_out(spot).await?;
        }
        Ok(())
    }

    /// Takes out all keys of a range (`ubifs_tnc_remove_range`).
    pub(crate) async fn tnc_remove_range(&self, from: Key, to: Key) -> Result<(), Errno> {
        let _held = self.tnc_lock.lock().await;
        loop {
            let (found, mut spot) = self.find_key(from, false).await?;
            if !found {
                match self.next(spot).await? {
                    Some(next) => spot = next,
                    None => return Ok(()),
                }
            }
            if !(from..=to).contains(&self.key_at(spot)) {
                return Ok(());
            }
            self.make_path_dirty(spot.znode).await?;
            // All of the range that is in this node but one, which may be the node's last.
            let (more, at) = {
                let mut tnc = self.tnc.borrow_mut();
                let at = spot.at.expect("on a branch");
                let branches = &mut tnc.get_mut(spot.znode).branches;
                let behind = branches[at + 1..].iter().take_while(|branch| branch.key <= to);
                let count = behind.count();
                (branches.drain(at + 1..at + 1 + count).collect::<Vec<_>>(), at)
            };
            for branch in more {
                self.add_dirt(branch.place.leb, branch.place.bytes).await?;
            }
            self.take_out(Spot { at: Some(at), ..spot }).await?;
        }
    }

    /// Takes out an inode with all its extended attributes (`ubifs_tnc_remove_ino`).
    pub(crate) async fn tnc_remove_inode(&self, inode: u64) -> Result<(), Errno> {
        let mut seen = (Key::first_attribute(inode), Vec::new());
        while let Some(entry) = self.next_entry(seen.0, &seen.1).await? {
            self.tnc_remove_name(entry.key, &entry.name).await?;
            let value = entry.inode;
            // Keys hold 32 bits. Without this test a damaged entry would remove another inode.
            if value > u64::from(u32::MAX) {
                let text = format!("inode {inode}: an attribute names inode {value}");
                self.find(Code::BadInode, FoundAt::Inode(inode), text);
                return Err(Errno::Eio);
            }
            self.tnc_remove_range(Key::inode(value), Key::last_of(value)).await?;
            seen = (entry.key, entry.name);
        }
        self.tnc_remove_range(Key::inode(inode), Key::last_of(inode)).await
    }
}

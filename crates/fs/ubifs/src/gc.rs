//! Garbage collection: what is in use moves to the collector's head, what is of the index becomes dirty.
//!
//! Source: `fs/ubifs/gc.c`. A part of the engine: uses the engine, states and formats, and what a search
//! may pick (`find.rs`).

use crate::commit_state::CommitState;
use crate::engine::Engine;
use crate::find::Picking;
use crate::finding::Code;
use crate::journal::Obstacle;
use crate::keys::Key;
use crate::layout::{GC_HEAD, HEADS};
use crate::lprops::{Category, Change};
use crate::lpt::Waiting;
use crate::nodes::{INODE_BYTES, Place, key_of, kind, u16_at};
use crate::position::{LebNumber, Position};
use crate::scan::{Found, Scan};
use fs_api::Errno;

// `SOFT_LEBS_LIMIT` and `HARD_LEBS_LIMIT` of `fs/ubifs/gc.c`.
/// Eraseblocks after which collected ones of the index are waited for, and after which it is given up.
const SOFT_LIMIT: u32 = 4;
const HARD_LIMIT: u32 = 32;

/// Result of collecting an eraseblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    Freed,
    /// It is the collector's reserve now.
    Retained,
    /// Free after the next commit.
    IndexFreed,
}

/// A node in use that has to move.
struct Moving {
    key: Key,
    found: Found,
}

impl Engine {
    fn should_commit(&self) -> bool {
        matches!(self.commit_state.get(), CommitState::Background | CommitState::Required) && {
            if self.commit_state.get() == CommitState::Background {
                self.require_commit();
            }
            self.commit_state.get() == CommitState::Required
        }
    }

    /// Frees an eraseblock; the caller holds the commit's lock. With `anyway`, empty ones do not count
    /// (`ubifs_garbage_collect`).
    pub(crate) async fn collect(&self, anyway: bool) -> Result<LebNumber, Obstacle> {
        if self.should_commit() {
            return Err(Obstacle::CommitFirst);
        }
        // Commit lock before head lock. A caller that holds the lock of another head must drop it
        // first (`reserve_space`).
        let _held = self.head(GC_HEAD).lock.lock().await;
        let _work = self.sim.work("garbage collection");
        self.must_be_writable()?;
        self.count(|statistics| statistics.collections += 1);
        let mut found = self.collect_until_freed(anyway).await;
        if found == Err(Obstacle::Failed(Errno::Enospc)) && !self.lpt.borrow().waiting.is_empty() {
            self.require_commit();
            found = Err(Obstacle::CommitFirst);
        }
        if let Err(Obstacle::Failed(error)) = found
            && error != Errno::Enospc
        {
            self.turn_read_only(error);
            return found;
        }
        // The moved nodes must be on the medium before the eraseblock they came from is unmapped or
        // written.
        self.sync_head_locked(GC_HEAD).await?;
        let reserve = self.space.borrow().gc_leb;
        if let Some(leb) = reserve {
            self.unmap(leb).await?;
        }
        found
    }

    async fn collect_until_freed(&self, anyway: bool) -> Result<LebNumber, Obstacle> {
        let dead = self.layout.dead_watermark;
        let mut min_space = dead;
        let picking = if anyway { Picking::Dirty } else { Picking::FreeToo };
        for round in 0.. {
            if self.should_commit() {
                return Err(Obstacle::CommitFirst);
            }
            if round > SOFT_LIMIT && !self.lpt.borrow().waiting.is_empty() {
                self.require_commit();
                return Err(Obstacle::CommitFirst);
            }
            if round > HARD_LIMIT {
                break;
            }
            let (leb, properties) = self.find_dirty(min_space, picking).await?;
            if properties.free + properties.dirty == self.layout.leb_bytes {
                if properties.free != self.layout.leb_bytes {
                    // What made it void may still be in a write-buffer.
                    self.sync_other_heads().await?;
                    self.make_empty(leb).await?;
                }
                self.unmap(leb).await?;
                return Ok(leb);
            }
            // More room afterwards means that small leftovers were merged; then smaller victims are
            // worth collecting too.
            let before = self.gc_room().unwrap_or(0);
            match self.collect_leb(leb).await {
                Ok(Collected::Freed) => return Ok(leb),
                // Its space comes with the next commit only; the search for space now goes on.
                Ok(Collected::IndexFreed) => continue,
                Ok(Collected::Retained) => {}
                Err(Obstacle::CommitFirst) => {
                    self.change_properties(leb, Change::RETURN).await?;
                    return Err(Obstacle::CommitFirst);
                }
                Err(error) => return Err(error),
            }
            if self.gc_room().unwrap_or(0) > before {
                min_space = (min_space >> 1).max(dead);
            // No progress: the victim's nodes are larger than the gaps. Victims with more space
            // must be taken, up to the dark watermark.
            } else if round >= SOFT_LIMIT {
                min_space = (min_space << 1).min(self.layout.dark_watermark);
            }
        }
        Err(Obstacle::Failed(Errno::Enospc))
    }

    /// Room that the collector's head has.
    fn gc_room(&self) -> Option<u32> {
        let buffer = self.head(GC_HEAD).buffer.borrow();
        buffer.leb.map(|_| self.layout.leb_bytes - buffer.end())
    }

    async fn make_empty(&self, leb: LebNumber) -> Result<(), Errno> {
        let free = Some(self.layout.leb_bytes);
        let change = Change { free, dirty: Some(0), ..Change::default() };
        self.change_properties(leb, change).await
    }

    async fn sync_other_heads(&self) -> Result<(), Errno> {
        for head in HEADS.into_iter().filter(|head| *head != GC_HEAD) {
            self.sync_head(head).await?;
        }
        Ok(())
    }

    /// The collector's head goes on in the reserve (`switch_gc_head`).
    async fn switch_head(&self) -> Result<(), Obstacle> {
        let reserve = self.space.borrow().gc_leb;
        let leb = reserve.ok_or(Obstacle::Failed(Errno::Enospc))?;
        self.sync_head_locked(GC_HEAD).await?;
        self.unmap(leb).await?;
        // The log names the eraseblock before its first byte is written, or a mount after a cut
        // would not replay it.
        self.add_bud(GC_HEAD, Position::start_of(leb)).await?;
        self.space.borrow_mut().gc_leb = None;
        self.seek(GC_HEAD, Position::start_of(leb));
        Ok(())
    }

    /// Collects one eraseblock; the caller holds the lock of the collector's head
    /// (`ubifs_garbage_collect_leb`).
    pub(crate) async fn collect_leb(&self, leb: LebNumber) -> Result<Collected, Obstacle> {
        self.count(|statistics| statistics.collected_lebs += 1);
        let bytes = self.read_leb(Position::start_of(leb)).await?;
        let scan = Scan::of(&bytes, 0, self.layout.min_io as usize).map_err(|damage| {
            let at = Position::new(leb, damage.offset);
            let text = format!("LEB {at}: damaged node met while collecting");
            self.find(Code::DamagedNode, at.found(), text);
            Errno::Eio
        })?;
        let is_index = scan.nodes.first().is_some_and(|node| node.header.kind == kind::INDEX);
        if is_index {
            return Ok(self.collect_index(leb, &bytes, &scan).await?);
        }
        // The order is that of `ubifs_garbage_collect_leb`: copies reach the collector's head,
        // other heads are written, then the properties change, last the unmap.
        let moved = self.move_nodes(leb, &bytes, &scan).await;
        if moved.is_ok() {
            self.sync_other_heads().await?;
            self.make_empty(leb).await?;
        }
        // Readers without the index's lock compare this count and read again (`gc_seq` and
        // `gced_lnum`).
        self.collected.set(self.collected.get() + 1);
        moved?;
        // The collector used up its reserve in `switch_head`. It takes the first eraseblock that it
        // empties as the new one.
        if self.space.borrow().gc_leb.is_none() {
            self.space.borrow_mut().gc_leb = Some(leb);
            return Ok(Collected::Retained);
        }
        self.sync_head_locked(GC_HEAD).await?;
        self.unmap(leb).await?;
        Ok(Collected::Freed)
    }

    /// Nodes of the index in use become dirty; the next commit writes them elsewhere.
    async fn collect_index(
        &self,
        leb: LebNumber,
        bytes: &[u8],
        scan: &Scan,
    ) -> Result<Collected, Errno> {
        for found in &scan.nodes {
            if found.header.kind != kind::INDEX {
                return Err(Errno::Eio);
            }
            let node = &bytes[found.offset as usize..];
            let (key, level) = (Key::parse(&node[40..]), u16_at(node, 26));
            let _held = self.tnc_lock.lock().await;
            if let Some(id) = self.find_znode(key, level, Position::new(leb, found.offset)).await? {
                self.make_path_dirty(id).await?;
            }
        }
        // The index of the last commit still uses these nodes. After a cut the mount needs them, so
        // the eraseblock is free only after a commit.
        self.lpt.borrow_mut().waiting.push(Waiting { leb, ends_with_commit: false });
        let change = Change {
            free: Some(self.layout.leb_bytes),
            dirty: Some(0),
            is_index: Some(false),
            is_taken: None,
        };
        self.change_properties(leb, change).await?;
        Ok(Collected::IndexFreed)
    }

    /// Nodes in use: data by inode and block; then inodes, the longest first, and entries by hash
    /// (`sort_nodes`).
    async fn nodes_in_use(
        &self,
        leb: LebNumber,
        bytes: &[u8],
        scan: &Scan,
    ) -> Result<(Vec<Moving>, Vec<Moving>), Errno> {
        let (mut data, mut others) = (Vec::new(), Vec::new());
        for found in &scan.nodes {
            // Truncations, padding and log nodes are of no use after their commit.
            if found.header.kind > kind::ATTRIBUTE {
                continue;
            }
            let key = key_of(&bytes[found.offset as usize..]);
            if !self.tnc_has_node(key, 0, Position::new(leb, found.offset), false).await? {
                continue;
            }
            let list = if found.header.kind == kind::DATA { &mut data } else { &mut others };
            list.push(Moving { key, found: *found });
        }
        data.sort_by_key(|moving: &Moving| moving.key);
        others.sort_by_key(|moving: &Moving| {
            if moving.found.header.kind == kind::INODE {
                // Long inode nodes (with data) first: they fill a head that short nodes can
                // complete (`nondata_nodes_cmp`).
                return (false, usize::MAX - moving.found.header.bytes, Key::default());
            }
            let by_hash = Key { inode: moving.key.inode, rest: moving.key.low() };
            (true, 0, by_hash)
        });
        Ok((data, others))
    }

    /// Moves nodes in use to the collector's head, first fit (`move_nodes`).
    async fn move_nodes(&self, leb: LebNumber, bytes: &[u8], scan: &Scan) -> Result<(), Obstacle> {
        if self.gc_room().is_none() {
            self.switch_head().await?;
        }
        let (mut data, mut others) = self.nodes_in_use(leb, bytes, scan).await?;
        let all = data.iter().chain(&others);
        // With less room than the shortest node, no further node can fit (`min` of `move_nodes`).
        let shortest = all.map(|moving| moving.found.header.bytes).min().unwrap_or(0);
        loop {
            // Data stays in order.
            let mut count = 0;
            while count < data.len() && self.fits(&data[count]) {
                self.move_node(leb, bytes, &data[count]).await?;
                count += 1;
            }
            data.drain(..count);
            let mut at = 0;
            while at < others.len() && self.gc_room().unwrap_or(0) as usize >= shortest {
                let moving = &others[at];
                if self.fits(moving) {
                    self.move_node(leb, bytes, moving).await?;
                    others.remove(at);
                    continue;
                }
                let header = moving.found.header;
                // The kernel takes entries and plain inodes for equally long. If one does not fit,
                // the head is switched.
                if header.kind == kind::ENTRY || header.bytes == INODE_BYTES {
                    break;
                }
                at += 1;
            }
            if data.is_empty() && others.is_empty() {
                return Ok(());
            }
            self.switch_head().await?;
        }
    }

    fn fits(&self, moving: &Moving) -> bool {
        self.gc_room().is_some_and(|room| moving.found.header.bytes <= room as usize)
    }

    async fn move_node(&self, leb: LebNumber, bytes: &[u8], moving: &Moving) -> Result<(), Errno> {
        let Found { header, offset } = moving.found;
        let node = &bytes[offset as usize..offset as usize + header.bytes];
        let to = self.append(GC_HEAD, node).await?;
        debug_assert_ne!(to.leb, leb, "the collector does not copy into what it empties");
        self.count(|statistics| statistics.moved_bytes += header.bytes as u64);
        let place = Place::new(to, header.bytes as u32);
        // The index follows each copy at once: the node could be replaced by a writer before the
        // next one is moved.
        self.tnc_replace(moving.key, Position::new(leb, offset), place).await
    }

    /// What is void is unmapped when a commit begins, of the index when it ends
    /// (`ubifs_gc_start_commit`).
    pub(crate) async fn start_collected(&self) -> Result<(), Errno> {
        let _held = self.lpt_lock.lock().await;
        let whole = Some(self.layout.leb_bytes);
        loop {
            let number = self.lpt.borrow().lebs.list(Category::Freeable).last().copied();
            let Some(number) = number else { break };
            // Safe at this point: all write-buffers were written, so what made the eraseblock void
            // is on the medium (`do_commit` syncs them first).
            self.unmap(self.layout.main_leb(number)).await?;
            let change = Change { free: whole, dirty: Some(0), ..Change::default() };
            self.change_number(number, change).await?;
        }
        for waiting in &mut self.lpt.borrow_mut().waiting {
            waiting.ends_with_commit = true;
        }
        loop {
            let number = self.lpt.borrow().lebs.list(Category::FreeableIndex).last().copied();
            let Some(number) = number else { return Ok(()) };
            let change =
                Change { free: whole, dirty: Some(0), is_index: Some(false), is_taken: Some(true) };
            self.change_number(number, change).await?;
            let leb = self.layout.main_leb(number);
            self.lpt.borrow_mut().waiting.push(Waiting { leb, ends_with_commit: true });
        }
    }

    /// Unmaps the eraseblocks of the index that this commit freed and gives them back for use
    /// (`ubifs_gc_end_commit`).
    pub(crate) async fn end_collected(&self) -> Result<(), Errno> {
        let _held = self.head(GC_HEAD).lock.lock().await;
        let ended: Vec<_> = {
            let mut lpt = self.lpt.borrow_mut();
            let (ended, rest) =
                std::mem::take(&mut lpt.waiting).into_iter().partition(|one| one.ends_with_commit);
            lpt.waiting = rest;
            ended
        };
        // The kernel adds to the front of `idx_gc`; the order decides which empty eraseblock is
        // used first.
        for waiting in ended.into_iter().rev() {
            self.unmap(waiting.leb).await?;
            self.change_properties(waiting.leb, Change::RETURN).await?;
        }
        Ok(())
    }
}

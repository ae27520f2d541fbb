//! Finding an eraseblock for a purpose: by category, else by a search of the tree.
//!
//! Source: `fs/ubifs/find.c`. A part of the engine: uses the engine, states and formats, and the search of
//! `lpt_load.rs`.

use crate::engine::Engine;
use crate::lprops::{Category, Change, Leb, Lebs};
use crate::lpt::Lpt;
use crate::lpt_format::Properties;
use crate::lpt_load::Verdict;
use crate::lpt_shape::LPT_FANOUT;
use crate::position::{LebNumber, MainIndex, Position};
use fs_api::Errno;

/// Which eraseblocks the collector may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picking {
    /// Eraseblocks with dirty space only, for a collection on behalf of the budget.
    Dirty,
    /// Eraseblocks with free space as well.
    FreeToo,
    /// Free ones as well, but none of the index: the collector's reserve is sought.
    Reserve,
}

/// What an eraseblock for the collector must have.
#[derive(Clone, Copy)]
struct DirtySearch {
    min_space: u32,
    picks_free: bool,
    excludes_index: bool,
}

/// What an eraseblock for a head of the journal must have.
#[derive(Clone, Copy)]
struct FreeSearch {
    min_space: u32,
    /// Empty eraseblocks may be taken.
    picks_empty: bool,
    /// Partly used eraseblocks come first.
    squeezes: bool,
}

impl Engine {
    /// Whether a node that a search has read should stay in memory (`valuable`).
    fn is_valuable(&self, lpt: &Lpt, properties: &Properties) -> bool {
        let mut leb = Leb::default();
        leb.properties = *properties;
        let category = Lebs::categorise(&leb, &self.layout);
        match category {
            Category::Dirty | Category::DirtyIndex | Category::Free => {
                !lpt.lebs.is_heap_full(category)
                    || properties.free + properties.dirty >= self.layout.dark_watermark
            }
            Category::Empty => lpt.lebs.available_lebs(0) < i64::from(self.superblock.saved_count),
            Category::Freeable | Category::FreeableIndex => true,
            Category::None => false,
        }
    }

    fn waiting_lebs(&self) -> u32 {
        self.lpt.borrow().waiting.len() as u32
    }

    /// Eraseblocks of the reserve of the index that it does not have yet.
    fn reserved_index_lebs(&self) -> i64 {
        let index_lebs = self.lpt.borrow().lebs.sums.index_lebs;
        i64::from(self.space.borrow().min_index_lebs.saturating_sub(index_lebs))
    }

    /// An eraseblock with dirty space for the collector, taken (`ubifs_find_dirty_leb`).
    pub(crate) async fn find_dirty(
        &self,
        min_space: u32,
        picking: Picking,
    ) -> Result<(LebNumber, Properties), Errno> {
        let _held = self.lpt_lock.lock().await;
        let mut excludes_index = picking == Picking::Reserve;
        let mut picks_free = picking != Picking::Dirty;
        let index_lebs = self.lpt.borrow().lebs.sums.index_lebs;
        // The index uses no more than its reserve. Collecting it would only make commits longer
        // (`ubifs_find_dirty_leb`).
        if self.space.borrow().min_index_lebs >= index_lebs {
            excludes_index = true;
        }
        let mut found = None;
        if picks_free {
            let available = self.lpt.borrow().lebs.available_lebs(self.waiting_lebs());
            // Empty eraseblocks up to the reserve belong to the index, or a commit could fail.
            if self.reserved_index_lebs() < available {
                let lpt = self.lpt.borrow();
                let empty = lpt.lebs.list(Category::Empty).last();
                found = empty.or_else(|| lpt.lebs.list(Category::Freeable).last()).copied();
            } else {
                picks_free = false;
            }
        }
        if found.is_none() {
            found = self.dirtiest(min_space, excludes_index);
        }
        let number = match found {
            Some(number) => number,
            None => {
                self.search_dirty(DirtySearch { min_space, picks_free, excludes_index }).await?
            }
        };
        // Taken under the same lock: two collectors or writers must not choose the same eraseblock.
        self.change_number(number, Change::TAKE).await?;
        let properties = self.lpt.borrow().lebs.get(number).properties;
        Ok((self.layout.main_leb(number), properties))
    }

    fn dirtiest(&self, min_space: u32, excludes_index: bool) -> Option<MainIndex> {
        let lpt = self.lpt.borrow();
        let space = |number: &MainIndex| {
            let properties = lpt.lebs.get(*number).properties;
            properties.free + properties.dirty
        };
        let best = |category| lpt.lebs.heap(category).first().copied();
        // Thrice the space of the index is reserved: only what is half void is worth it.
        let half = self.layout.leb_bytes / 2;
        let index = best(Category::DirtyIndex)
            .filter(|number| !excludes_index && space(number) >= min_space.max(half));
        let data = best(Category::Dirty).filter(|number| space(number) >= min_space);
        match (index, data) {
            (Some(index), Some(data)) if space(&index) >= space(&data) => Some(index),
            (index, None) => index,
            (_, data) => data,
        }
    }

    async fn search_dirty(&self, search: DirtySearch) -> Result<MainIndex, Errno> {
        let DirtySearch { min_space, picks_free, excludes_index } = search;
        let dead = self.layout.dead_watermark;
        {
            let lpt = self.lpt.borrow();
            let fits = |number: &&MainIndex| {
                let leb = lpt.lebs.get(**number);
                !leb.is_taken
                    && leb.properties.free + leb.properties.dirty >= min_space
                    && !(excludes_index && leb.properties.is_index)
                    && leb.properties.dirty >= dead
            };
            // The free heap may hold eraseblocks with dirty space, because one with more free than
            // dirty space counts as free.
            let free = lpt.lebs.heap(Category::Free).iter().find(fits);
            // An eraseblock that fell off a full heap is in no category, though it may be the one
            // wanted (`scan_for_dirty`).
            let found = free.or_else(|| lpt.lebs.list(Category::None).iter().rev().find(fits));
            if let Some(number) = found {
                return Ok(*number);
            }
            // All properties are in memory, so a search of the medium cannot find more.
            if lpt.pnodes_loaded >= self.layout.lpt.pnode_count {
                return Err(Errno::Enospc);
            }
        }
        self.search(|lpt, properties, is_taken, is_loaded| {
            if is_taken {
                return Verdict::default();
            }
            let keeps = !is_loaded && self.is_valuable(lpt, properties);
            let space = properties.free + properties.dirty;
            let is_void = space == self.layout.leb_bytes;
            let takes = space >= min_space
                && !(excludes_index && properties.is_index)
                && if is_void { picks_free } else { properties.dirty >= dead };
            Verdict { keeps, takes }
        })
        .await
    }

    /// An eraseblock with free space for a head of the journal, taken, and where its free space
    /// begins (`ubifs_find_free_space`).
    pub(crate) async fn find_free(
        &self,
        min_space: u32,
        squeezes: bool,
    ) -> Result<Position, Errno> {
        let found = {
            let _held = self.lpt_lock.lock().await;
            let picks_empty = {
                let lpt = self.lpt.borrow();
                let sums = &lpt.lebs.sums;
                let available = lpt.lebs.available_lebs(lpt.waiting.len() as u32);
                self.reserved_index_lebs() < available && sums.empty_lebs > sums.taken_empty_lebs
            };
            if picks_empty {
                // Counted as taken while the search may read the medium, so that no other task
                // plans with it (`ubifs_find_free_space`).
                self.lpt.borrow_mut().lebs.sums.taken_empty_lebs += 1;
            }
            let chosen = self.choose_free(FreeSearch { min_space, picks_empty, squeezes }).await;
            let taken = match chosen {
                Ok(number) => self.change_number(number, Change::TAKE).await.map(|()| number),
                Err(error) => Err(error),
            };
            let mut lpt = self.lpt.borrow_mut();
            if picks_empty {
                lpt.lebs.sums.taken_empty_lebs -= 1;
            }
            let number = taken?;
            let free = lpt.lebs.get(number).properties.free;
            Position::new(self.layout.main_leb(number), self.layout.leb_bytes - free)
        };
        if found.offset == 0 {
            // It may hold what was void before a power cut, or what collecting left.
            self.unmap(found.leb).await?;
        }
        Ok(found)
    }

    async fn choose_free(&self, search: FreeSearch) -> Result<MainIndex, Errno> {
        let FreeSearch { min_space, picks_empty, squeezes } = search;
        {
            let lpt = self.lpt.borrow();
            let has_room =
                |number: &&MainIndex| lpt.lebs.get(**number).properties.free >= min_space;
            let free = lpt.lebs.heap(Category::Free).first().filter(has_room);
            let empty = lpt.lebs.list(Category::Empty).last().filter(|_| picks_empty);
            // Names and inodes fill partly used eraseblocks; data prefers empty ones, where it
            // stays in sequence for bulk-read.
            let quick = if squeezes { free.or(empty) } else { empty.or(free) };
            let dirty = || lpt.lebs.heap(Category::Dirty).iter().find(has_room);
            let fallen = || {
                let usable = |number: &&MainIndex| {
                    let leb = lpt.lebs.get(**number);
                    !leb.is_taken && !leb.properties.is_index && has_room(number)
                };
                lpt.lebs.list(Category::None).iter().rev().find(usable)
            };
            if let Some(number) = quick.or_else(dirty).or_else(fallen) {
                return Ok(*number);
            }
            if lpt.pnodes_loaded >= self.layout.lpt.pnode_count {
                return Err(Errno::Enospc);
            }
        }
        self.search(|lpt, properties, is_taken, is_loaded| {
            if is_taken {
                return Verdict::default();
            }
            let keeps = !is_loaded && self.is_valuable(lpt, properties);
            let Properties { free, dirty, is_index } = *properties;
            let is_empty = free == self.layout.leb_bytes;
            // What has free and dirty space only may be unmapped already, or void because of nodes
            // that are still in a write-buffer.
            let is_void = free + dirty == self.layout.leb_bytes && dirty > 0;
            let takes = !is_index && free >= min_space && (picks_empty || !is_empty) && !is_void;
            Verdict { keeps, takes }
        })
        .await
    }

    /// An empty eraseblock for the index, taken (`ubifs_find_free_leb_for_idx`).
    pub(crate) async fn find_for_index(&self) -> Result<LebNumber, Errno> {
        let leb = {
            let _held = self.lpt_lock.lock().await;
            let found = {
                let lpt = self.lpt.borrow();
                let empty = lpt.lebs.list(Category::Empty).last();
                empty.or_else(|| lpt.lebs.list(Category::Freeable).last()).copied()
            };
            let number = match found {
                Some(number) => number,
                None => self.search_for_index().await?,
            };
            let change = Change {
                free: Some(self.layout.leb_bytes),
                dirty: Some(0),
                is_index: Some(true),
                is_taken: Some(true),
            };
            self.change_number(number, change).await?;
            self.layout.main_leb(number)
        };
        self.unmap(leb).await?;
        Ok(leb)
    }

    async fn search_for_index(&self) -> Result<MainIndex, Errno> {
        let is_all_known = {
            let lpt = self.lpt.borrow();
            let sums = &lpt.lebs.sums;
            lpt.pnodes_loaded >= self.layout.lpt.pnode_count
                && sums.empty_lebs <= sums.taken_empty_lebs
        };
        if is_all_known {
            return Err(Errno::Enospc);
        }
        self.search(|lpt, properties, is_taken, is_loaded| {
            if is_taken {
                return Verdict::default();
            }
            let keeps = !is_loaded && self.is_valuable(lpt, properties);
            let is_void = properties.free + properties.dirty == self.layout.leb_bytes;
            Verdict { keeps, takes: is_void && !properties.is_index }
        })
        .await
    }

    /// Notes which eraseblocks of the index a later commit may fill up (`ubifs_save_dirty_idx_lnums`).
    pub(crate) async fn save_dirty_index(&self) {
        let _held = self.lpt_lock.lock().await;
        let mut lpt = self.lpt.borrow_mut();
        let mut dirty = lpt.lebs.heap(Category::DirtyIndex).to_vec();
        dirty.sort_by_key(|number| {
            let properties = lpt.lebs.get(*number).properties;
            properties.free + properties.dirty
        });
        // A snapshot, because commits change the heap while they fill gaps. `pop` takes the
        // dirtiest.
        lpt.dirty_index = dirty;
    }

    /// An eraseblock of the index with gaps, taken (`ubifs_find_dirty_idx_leb`).
    pub(crate) async fn find_dirty_index(&self) -> Result<LebNumber, Errno> {
        let _held = self.lpt_lock.lock().await;
        loop {
            let Some(number) = self.lpt.borrow_mut().dirty_index.pop() else { break };
            self.load_pnode(number.get() / LPT_FANOUT).await?;
            let leb = *self.lpt.borrow().lebs.get(number);
            if !leb.is_taken && leb.properties.is_index {
                self.change_number(number, Change::TAKE).await?;
                return Ok(self.layout.main_leb(number));
            }
        }
        match self.search_dirty_index().await {
            Ok(number) => {
                self.change_number(number, Change::TAKE).await?;
                return Ok(self.layout.main_leb(number));
            }
            Err(Errno::Enospc) => {}
            Err(error) => return Err(error),
        }
        // Last, what was to be unmapped when this commit ends.
        let waiting = self.lpt.borrow_mut().waiting.pop().ok_or(Errno::Enospc)?;
        // It holds index nodes of the last commit. Filling its gaps is the last resort when no
        // other eraseblock is left.
        let change = Change { is_index: Some(true), ..Change::default() };
        self.change_locked(waiting.leb, change).await?;
        Ok(waiting.leb)
    }

    async fn search_dirty_index(&self) -> Result<MainIndex, Errno> {
        let fits = |properties: &Properties| {
            properties.is_index && properties.free + properties.dirty >= self.layout.min_index_node
        };
        {
            let lpt = self.lpt.borrow();
            let known = |number: &&MainIndex| {
                let leb = lpt.lebs.get(**number);
                !leb.is_taken && fits(&leb.properties)
            };
            let heap = lpt.lebs.heap(Category::DirtyIndex).iter().find(known);
            let void = || lpt.lebs.list(Category::FreeableIndex).iter().rev().find(known);
            let fallen = || lpt.lebs.list(Category::None).iter().rev().find(known);
            if let Some(number) = heap.or_else(void).or_else(fallen) {
                return Ok(*number);
            }
            if lpt.pnodes_loaded >= self.layout.lpt.pnode_count {
                return Err(Errno::Enospc);
            }
        }
        self.search(|lpt, properties, is_taken, is_loaded| Verdict {
            keeps: !is_taken && !is_loaded && self.is_valuable(lpt, properties),
            takes: !is_taken && fits(properties),
        })
        .await
    }
}

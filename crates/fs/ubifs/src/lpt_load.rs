//! Loading LEB properties from the medium, changing them, and searching all of them.
//!
//! Source: `fs/ubifs/lpt.c`. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::lprops::Change;
use crate::lpt::{Lpt, Nnode, TableEntry};
use crate::lpt_format::{NEVER_WRITTEN, Properties};
use crate::lpt_shape::LPT_FANOUT;
use crate::position::{LebNumber, MainIndex, Position};
use fs_api::Errno;

/// The verdict of a search on an eraseblock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// Its node stays in memory.
    pub(crate) keeps: bool,
    /// The search ends with this eraseblock.
    pub(crate) takes: bool,
}

impl Engine {
    async fn read_lpt(&self, at: Position, bytes: u32) -> Result<Vec<u8>, Errno> {
        if !self.layout.lpt_area().contains(at.leb) {
            return Err(Errno::Eio);
        }
        let mut node = vec![0; bytes as usize];
        self.read(at, &mut node).await?;
        Ok(node)
    }

    fn bad_lpt(&self, at: Position) -> Errno {
        let text = format!("LEB {at}: damaged node of LEB properties");
        self.find(Code::DamagedProperties, at.found(), text);
        Errno::Eio
    }

    /// Brings a node above the lowest level into memory.
    async fn load_nnode(&self, level: usize, number: u32) -> Result<(), Errno> {
        if self.lpt.borrow().levels[level][number as usize].is_some() {
            return Ok(());
        }
        let place = self.lpt.borrow().nnode_place(level, number).ok_or(Errno::Eio)?;
        let mut nnode = Nnode::default();
        // What was never written describes eraseblocks that are empty.
        if place != NEVER_WRITTEN {
            let shape = &self.layout.lpt;
            let bytes = self.read_lpt(place, shape.nnode_bytes).await?;
            let number = shape.nnode_number(level, number);
            let branches = shape.unpack_nnode(number, &bytes, self.layout.lpt_area());
            nnode.branches = branches.ok_or_else(|| self.bad_lpt(place))?;
        }
        let mut lpt = self.lpt.borrow_mut();
        lpt.levels[level][number as usize] = Some(nnode);
        lpt.nnodes_loaded += 1;
        Ok(())
    }

    async fn read_pnode(&self, number: u32) -> Result<[Properties; 4], Errno> {
        let place = self.lpt.borrow().pnode_place(number).ok_or(Errno::Eio)?;
        let empty = Properties { free: self.layout.leb_bytes, ..Properties::default() };
        if place == NEVER_WRITTEN {
            return Ok([empty; 4]);
        }
        let shape = &self.layout.lpt;
        let bytes = self.read_lpt(place, shape.pnode_bytes).await?;
        let lebs = shape.unpack_pnode(number, &bytes).ok_or_else(|| self.bad_lpt(place))?;
        let is_sound = lebs.iter().all(|leb| {
            // `validate_pnode`: free space begins at a unit of writing, which padding brings about.
            leb.free.is_multiple_of(self.layout.min_io)
                && leb.free + leb.dirty <= self.layout.leb_bytes
        });
        if is_sound { Ok(lebs) } else { Err(self.bad_lpt(place)) }
    }

    async fn load_path(&self, pnode: u32) -> Result<(), Errno> {
        for level in (0..self.layout.lpt.height as usize).rev() {
            self.load_nnode(level, pnode >> (2 * (level + 1))).await?;
        }
        Ok(())
    }

    /// Brings the properties of an eraseblock of the main area into memory.
    pub(crate) async fn load_leb(&self, leb: LebNumber) -> Result<MainIndex, Errno> {
        if !self.layout.is_main(leb) {
            return Err(Errno::Eio);
        }
        let number = self.layout.main_index(leb);
        self.load_pnode(number.get() / LPT_FANOUT).await?;
        Ok(number)
    }

    pub(crate) async fn load_pnode(&self, pnode: u32) -> Result<(), Errno> {
        if self.lpt.borrow().pnodes[pnode as usize].is_some() {
            return Ok(());
        }
        self.load_path(pnode).await?;
        let lebs = self.read_pnode(pnode).await?;
        self.lpt.borrow_mut().insert_pnode(pnode, &lebs, &self.layout);
        Ok(())
    }

    /// Properties of an eraseblock that is in memory are about to change.
    pub(crate) async fn change_number(
        &self,
        number: MainIndex,
        change: Change,
    ) -> Result<(), Errno> {
        debug_assert!(self.lpt_lock.is_locked(), "LEB properties change under their lock");
        let pnode = number.get() / LPT_FANOUT;
        self.load_pnode(pnode).await?;
        let mut lpt = self.lpt.borrow_mut();
        lpt.make_dirty(pnode, &self.layout);
        lpt.lebs.change(number, change, &self.layout);
        Ok(())
    }

    /// Changes properties of an eraseblock; the caller has the lock.
    pub(crate) async fn change_locked(&self, leb: LebNumber, change: Change) -> Result<(), Errno> {
        let number = self.load_leb(leb).await?;
        self.change_number(number, change).await
    }

    /// Changes properties of an eraseblock (`ubifs_change_one_lp`).
    pub(crate) async fn change_properties(
        &self,
        leb: LebNumber,
        change: Change,
    ) -> Result<(), Errno> {
        let _held = self.lpt_lock.lock().await;
        self.change_locked(leb, change).await
    }

    /// Adds to the dirty space of an eraseblock (`ubifs_update_one_lp`).
    pub(crate) async fn update_properties(
        &self,
        leb: LebNumber,
        free: Option<u32>,
        more_dirty: u32,
        mut change: Change,
    ) -> Result<(), Errno> {
        let _held = self.lpt_lock.lock().await;
        let number = self.load_leb(leb).await?;
        let dirty = self.lpt.borrow().lebs.get(number).properties.dirty;
        (change.free, change.dirty) = (free, Some(dirty + more_dirty));
        self.change_number(number, change).await
    }

    /// Bytes of an eraseblock fall out of use (`ubifs_add_dirt`).
    pub(crate) async fn add_dirt(&self, leb: LebNumber, bytes: u32) -> Result<(), Errno> {
        let bytes = bytes.next_multiple_of(8);
        self.update_properties(leb, None, bytes, Change::default()).await
    }

    pub(crate) async fn properties(&self, leb: LebNumber) -> Result<(Properties, bool), Errno> {
        let _held = self.lpt_lock.lock().await;
        let number = self.load_leb(leb).await?;
        let lpt = self.lpt.borrow();
        let leb = lpt.lebs.get(number);
        Ok((leb.properties, leb.is_taken))
    }

    /// Looks at all eraseblocks from where the last search ended, reading what is not in memory; what
    /// is read is kept only where the verdict says so (`ubifs_lpt_scan_nolock`).
    pub(crate) async fn search(
        &self,
        mut judge: impl FnMut(&Lpt, &Properties, bool, bool) -> Verdict,
    ) -> Result<MainIndex, Errno> {
        let main_lebs = self.layout.main_lebs;
        // Each search begins where the last one ended (`lscan_lnum`), so that all eraseblocks are
        // used in turn.
        let end = self.layout.main_index(self.lpt.borrow().scan_leb).get();
        let mut number = (end + 1) % main_lebs;
        let mut fresh: Option<(u32, [Properties; 4])> = None;
        loop {
            let (pnode, index) = (number / LPT_FANOUT, MainIndex::new(number));
            let is_loaded = self.lpt.borrow().pnodes[pnode as usize].is_some();
            if !is_loaded && fresh.is_none_or(|(at, _)| at != pnode) {
                self.load_path(pnode).await?;
                fresh = Some((pnode, self.read_pnode(pnode).await?));
            }
            let verdict = {
                let lpt = self.lpt.borrow();
                let (properties, is_taken) = match &fresh {
                    Some((_, lebs)) if !is_loaded => (lebs[(number % LPT_FANOUT) as usize], false),
                    _ => (lpt.lebs.get(index).properties, lpt.lebs.get(index).is_taken),
                };
                judge(&lpt, &properties, is_taken, is_loaded)
            };
            if is_loaded && verdict.takes {
                self.lpt.borrow_mut().lebs.ensure_category(index, &self.layout);
            } else if verdict.keeps || verdict.takes {
                let (_, lebs) = fresh.expect("it was read");
                self.lpt.borrow_mut().insert_pnode(pnode, &lebs, &self.layout);
            }
            if verdict.takes {
                self.lpt.borrow_mut().scan_leb = self.layout.main_leb(index);
                return Ok(index);
            }
            if number == end {
                return Err(Errno::Enospc);
            }
            number = (number + 1) % main_lebs;
        }
    }

    /// Reads what a mount needs of the tree at once (`ubifs_lpt_init`).
    pub(crate) async fn start_lpt(&self) -> Result<(), Errno> {
        let shape = self.layout.lpt;
        let place = self.lpt.borrow().table_place;
        let bytes = self.read_lpt(place, shape.table_bytes).await?;
        let table = shape.unpack_table(self.layout.lpt_lebs, &bytes);
        let table = table.ok_or_else(|| self.bad_lpt(place))?;
        let whole = self.layout.leb_bytes;
        if table.iter().any(|(free, dirty)| free + dirty > whole) {
            return Err(self.bad_lpt(place));
        }
        let entry = |(free, dirty)| TableEntry { free, dirty, ..TableEntry::default() };
        self.lpt.borrow_mut().table = table.into_iter().map(entry).collect();
        // The list of saved eraseblocks only speeds up the first write of the big model
        // (`lpt_init_wr`).
        if self.is_read_only() || !shape.is_big {
            return Ok(());
        }
        let place = self.lpt.borrow().saved_place;
        let bytes = self.read_lpt(place, shape.saved_bytes).await?;
        let saved = shape.unpack_saved(&bytes).ok_or_else(|| self.bad_lpt(place))?;
        for leb in &saved {
            if self.layout.is_main(*leb) {
                self.load_leb(*leb).await?;
            }
        }
        self.lpt.borrow_mut().saved = saved;
        Ok(())
    }
}

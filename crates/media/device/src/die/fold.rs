//! Writes to the SLC cache of a die, and folding, placed in time.

use super::{Cost, Dies, Moment, Moved, changes};
use crate::ActivityKind;
use crate::slc::WhenFull;
use ftl::{FtlError, Work};

/// Free blocks that the layer of a die keeps for itself, beside `cleaning.free_target_blocks`.
// Assumed: room for what a layer that maps pages opens before `owes` is asked again, and for cleaning.
const KEPT_BLOCKS: usize = 4;

impl Dies {
    /// True if dies have an SLC cache.
    #[inline]
    pub(crate) fn has_slc(&self) -> bool {
        self.all.first().is_some_and(|die| die.slc.is_some())
    }

    /// Blocks that the layer of a die lends to its dynamic SLC cache: those that it has free beyond what it keeps.
    fn lent(&self, die: usize) -> usize {
        let kept = KEPT_BLOCKS + self.cleaning.free_target_blocks as usize;
        self.all[die].layer.0.flash().free_blocks().saturating_sub(kept)
    }

    /// Programs pages of the host to the SLC cache, by one program. Returns when they are on the medium; none if they
    /// are to go to the layer, since the die has no SLC cache or that is full.
    ///
    /// # Errors
    /// As [`ftl::Ftl::write`], of folding.
    #[inline]
    pub(crate) fn write_slc(
        &mut self,
        die: usize,
        lpns: &[u32],
        ready: Moment,
    ) -> Result<Option<Moment>, FtlError> {
        if self.all[die].slc.is_none() { Ok(None) } else { self.program_slc(die, lpns, ready) }
    }

    #[cold]
    fn program_slc(
        &mut self,
        die: usize,
        lpns: &[u32],
        ready: Moment,
    ) -> Result<Option<Moment>, FtlError> {
        let mut begin = ready;
        // Blocks that the layer has lent go back first if it needs them.
        while !self.has_slc_room(die, lpns) || self.owes(die) {
            let holds_pages = self.all[die].slc.as_ref().is_some_and(|slc| slc.holds_pages());
            let must_fold = self.slc.when_full == WhenFull::Fold
                || self.owes(die)
                || lpns.iter().any(|lpn| self.remains_in_slc(die, *lpn));
            if !holds_pages || !must_fold {
                return Ok(None);
            }
            let start = self.wait(die, begin);
            let end_ns = self.fold_step(die, start.ns, ActivityKind::ForegroundCleaning)?;
            begin = Moment { ns: end_ns, cleaning_ns: start.cleaning_ns + (end_ns - start.ns) };
        }
        let state = &mut self.all[die];
        let Some(slc) = &mut state.slc else { return Ok(None) };
        let layer = state.layer.0.as_mut();
        let before = Work::of(&slc.chip);
        let layer_before = Work::of(layer.flash().chip());
        slc.write(lpns)?;
        // The layer's own copies are stale: were they kept, cleaning would move them.
        lpns.iter().try_for_each(|lpn| layer.trim(*lpn))?;
        let work = Work::of(&slc.chip) - before;
        let forgotten = Work::of(layer.flash().chip()) - layer_before;
        state.record_slc();
        let start = self.wait(die, begin);
        // A block that is taken again after a power cut is erased first.
        let erase_ns = work.counters.erases * self.slc.erase_ns;
        let transfer_ns = self.times.program_transfer_ns;
        let array_ns = self.slc.program_ns + erase_ns;
        let kind = ActivityKind::Program;
        let begun_ns = self.book_channel(die, start.ns, transfer_ns);
        let end_ns = begun_ns + transfer_ns + array_ns;
        self.place(die, changes(work), start.ns, end_ns);
        let moved = Moved::from(begun_ns, transfer_ns);
        self.occupy(die, start.ns, end_ns, transfer_ns + array_ns, kind, moved);
        self.all[die].may_clean = true;
        // What a layer does to forget pages: it may look up its map, or erase a block of which nothing is left. The
        // page is on the medium by then.
        if forgotten != Work::default() {
            let start_ns = self.all[die].busy_until_ns;
            if self.cleaning.takes_time {
                self.clean(die, start_ns, forgotten, ActivityKind::ForegroundCleaning);
            } else {
                self.place(die, changes(forgotten), start_ns, start_ns);
            }
        }
        Ok(Some(start.not_before(end_ns)))
    }

    fn has_slc_room(&self, die: usize, lpns: &[u32]) -> bool {
        self.all[die].slc.as_ref().is_some_and(|slc| slc.has_room(lpns, self.lent(die)))
    }

    /// True if the dynamic cache of a die holds more blocks than its layer lends.
    fn owes(&self, die: usize) -> bool {
        self.all[die].slc.as_ref().is_some_and(|slc| slc.dynamic_blocks() > self.lent(die))
    }

    fn remains_in_slc(&self, die: usize, lpn: u32) -> bool {
        self.all[die].slc.as_ref().is_some_and(|slc| slc.remains(lpn))
    }

    /// The copy of a page in the SLC cache is stale.
    #[inline]
    pub(crate) fn forget_slc(&mut self, die: usize, lpn: u32) {
        if let Some(slc) = &mut self.all[die].slc {
            slc.forget(lpn);
        }
    }

    /// True if a page lies in the SLC cache.
    #[inline]
    pub(crate) fn is_in_slc(&self, die: usize, lpn: u32) -> bool {
        self.all[die].slc.as_ref().is_some_and(|slc| slc.place(lpn).is_some())
    }

    /// Reads pages of the SLC cache that lie in one array page, or one page; as [`Dies::read_parts`].
    pub(crate) fn read_slc(
        &mut self,
        die: usize,
        lpn: u32,
        ready: Moment,
        turn: Moment,
        parts: u64,
    ) -> Moment {
        if let Some(slc) = &mut self.all[die].slc
            && let Some(at) = slc.place(lpn)
        {
            // Counted by the chip, as every read; it has no errors.
            let read = slc.chip.read(at);
            debug_assert!(read.is_ok(), "{at:?} of the SLC cache can be read");
        }
        let array_ns = self.slc.read_ns;
        // Suspends what the die does like any read; one bit a cell needs no retry.
        self.read_first(die, ready, turn, array_ns, parts * self.times.transfer_ns)
    }

    /// The array page of the SLC cache in which a page lies, if it does.
    pub(crate) fn slc_array_page(&self, die: usize, lpn: u32) -> Option<(u32, u32)> {
        let slc = self.all[die].slc.as_ref()?;
        let at = slc.place(lpn)?;
        Some((at.block, slc.chip.geometry().array_page(at.page)))
    }

    /// When folding in idle time would take its next step; never, if there is none to take.
    #[inline]
    pub(super) fn next_fold_ns(&self, die: usize) -> u64 {
        let state = &self.all[die];
        match &state.slc {
            Some(slc) if self.slc.fold_idle_ns > 0 && slc.holds_pages() => {
                // Once begun, folding goes on without another pause.
                let pause_ns = if state.is_folding { 0 } else { self.slc.fold_idle_ns };
                state.busy_until_ns + pause_ns
            }
            _ => u64::MAX,
        }
    }

    /// Folds the pages of one program, or erases the oldest block if no valid page is left in it. Returns the end.
    ///
    /// # Errors
    /// As [`ftl::Ftl::write`].
    pub(super) fn fold_step(
        &mut self,
        die: usize,
        start_ns: u64,
        kind: ActivityKind,
    ) -> Result<u64, FtlError> {
        let state = &mut self.all[die];
        let Some(slc) = &mut state.slc else { return Ok(start_ns) };
        let layer = state.layer.0.as_mut();
        let batch = slc.batch(layer.flash().geometry().pages_per_program as usize);
        if batch.lpns.is_empty() {
            slc.erase_oldest()?;
            state.record_slc();
            let cost = Cost { array_ns: self.slc.erase_ns, transfer_ns: 0 };
            return Ok(self.clean_for(die, start_ns, cost, 1, kind));
        }
        let before = Work::of(layer.flash().chip());
        match batch.lpns.as_slice() {
            [lpn] if layer.flash().geometry().pages_per_program == 1 => layer.write(*lpn, None)?,
            lpns => layer.write_together(lpns).map(drop)?,
        }
        let work = Work::of(layer.flash().chip()) - before;
        slc.folded(&batch);
        state.record_fold();
        state.may_clean = true;
        let mut cost = self.times.cost(work);
        cost.array_ns += batch.reads * self.slc.read_ns;
        cost.transfer_ns += batch.lpns.len() as u64 * self.times.transfer_ns;
        Ok(self.clean_for(die, start_ns, cost, changes(work), kind))
    }

    /// Books work of the die's own from `start_ns` on; see [`Dies::clean`].
    pub(super) fn clean_for(
        &mut self,
        die: usize,
        start_ns: u64,
        cost: Cost,
        changes: u64,
        kind: ActivityKind,
    ) -> u64 {
        // The sum of the transfers at the beginning, although copies would spread them.
        let begun_ns = self.book_channel(die, start_ns, cost.transfer_ns);
        let end_ns = begun_ns + cost.transfer_ns + cost.array_ns;
        self.place(die, changes, start_ns, end_ns);
        let moved = Moved::from(begun_ns, cost.transfer_ns);
        self.occupy(die, start_ns, end_ns, cost.transfer_ns + cost.array_ns, kind, moved);
        let die = &mut self.all[die];
        // No question concerns times before the horizon, so the list stays short.
        die.cleaning_times.forget_before(self.horizon_ns);
        die.cleaning_times.add(start_ns, end_ns);
        let sum = if kind == ActivityKind::ForegroundCleaning {
            &mut die.foreground_cleaning_ns
        } else {
            &mut die.background_cleaning_ns
        };
        *sum += cost.transfer_ns + cost.array_ns;
        end_ns
    }
}

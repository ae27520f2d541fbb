//! Writes that wait in the cache: which ones do, how they find room, and how the cache is emptied.
//!
//! With a cache a write is done when its data are in it. The dies drain it whenever they have nothing else to do, and
//! a write that finds it full waits until a die has programmed a page. A flush waits until it is empty.

use super::FlashDevice;
use crate::Command;
use crate::admission::AdmissionView;
use crate::cache::{Sectors, sectors};
use crate::timeline::Moment;
use ftl::FtlError;

impl FlashDevice {
    /// Takes a waiting page out of the cache for a command that is ready.
    pub(super) fn cache_withdraw(&mut self, die: usize, page: u64, ready: Moment) -> Sectors {
        if !self.cache.has_waiting() {
            return 0;
        }
        self.record_withdrawal(page, ready.ns);
        self.cache.withdraw(die, page as u32)
    }

    /// True of a write that waits in the cache: there is one, and it is admitted.
    // A policy is asked once a write, in the order of the writes: it may learn from each.
    #[inline]
    pub(super) fn goes_to_cache(&mut self, command: &Command, ready: Moment) -> bool {
        self.cache.exists() && (self.gate.is_none() || self.is_admitted(command, ready))
    }

    /// Asks the policy of the user's own.
    #[cold]
    fn is_admitted(&mut self, command: &Command, ready: Moment) -> bool {
        // Counted page by page, as the cache keeps its sectors.
        let waiting_sectors = (0..self.stripe(command).pages).map(|index| {
            let piece = self.piece(command, index);
            let waiting = self.cache.waiting(piece.page as u32).unwrap_or(0);
            (waiting & sectors(piece.first, piece.end)).count_ones()
        });
        let view = AdmissionView {
            now_ns: ready.ns,
            sector: command.sector,
            sectors: command.sectors,
            waiting_sectors: waiting_sectors.sum(),
            used_sectors: self.cache.used_sectors(),
            capacity_sectors: self.cache.capacity_sectors(),
        };
        self.gate.as_mut().is_none_or(|gate| gate.admits(&view))
    }

    /// Sectors go into the cache; done when the last one has arrived.
    pub(super) fn write_to_cache(
        &mut self,
        command: &Command,
        ready: Moment,
    ) -> Result<Moment, FtlError> {
        let mut arrived = ready;
        for index in 0..self.stripe(command).pages {
            let piece = self.piece(command, index);
            let (die, _) = self.die_of(piece.page);
            let written = sectors(piece.first, piece.end);
            loop {
                // Sectors that wait here already take no more room.
                let waiting = self.cache.waiting(piece.page as u32).unwrap_or(0);
                if self.cache.has_room((written & !waiting).count_ones()) {
                    self.statistics.cache_merged_sectors +=
                        u64::from((written & waiting).count_ones());
                    break;
                }
                arrived = self.wait_for_room(arrived)?;
            }
            arrived = self.cross(arrived, piece.sectors());
            // Not before: what waits in the cache until there is room must not have these bytes.
            self.arrive(command, piece);
            let before = self.cache.used_sectors();
            self.cache.put(die, piece.page as u32, written, arrived.ns);
            self.record_entry(before, arrived.ns);
        }
        Ok(arrived)
    }

    /// Lets time pass until some die has programmed a page of the cache.
    fn wait_for_room(&mut self, from: Moment) -> Result<Moment, FtlError> {
        let mut next: Option<(u64, usize)> = None;
        for die in 0..self.dies.all.len() {
            self.catch_up_die(die, from.ns, true)?;
            let state = &self.dies.all[die];
            let end_ns = match (&state.in_flight, self.drain_ready_ns(die)) {
                (Some(in_flight), _) => in_flight.end_ns,
                // It takes its first page by then at the earliest; a nanosecond later that is in
                // flight.
                (None, Some(ready_ns)) => state.busy_until_ns.max(ready_ns).max(from.ns) + 1,
                (None, None) => continue,
            };
            if next.is_none_or(|(soonest_ns, _)| end_ns < soonest_ns) {
                next = Some((end_ns, die));
            }
        }
        // No die works, and none has enough parts to begin: waiting would never end.
        let Some((end_ns, die)) = next else { return self.make_room(from) };
        if end_ns <= from.ns {
            return Ok(from);
        }
        // The write is done then, so nothing may put it off any more.
        self.dies.tell_end(die);
        self.catch_up_die(die, end_ns, true)?;
        let cleaning_ns = self.dies.cleaning_between(die, from.ns, end_ns);
        Ok(Moment { ns: end_ns, cleaning_ns: from.cleaning_ns + cleaning_ns })
    }

    /// The cache is full of parts, and no die has enough of them for a page: the die with most programs them.
    fn make_room(&mut self, from: Moment) -> Result<Moment, FtlError> {
        let dies = 0..self.dies.all.len();
        // The first of equals, whatever the number of dies.
        let fullest = dies.rev().max_by_key(|die| self.cache.waiting_of(*die));
        let Some(die) = fullest.filter(|die| self.cache.waiting_of(*die) > 0) else {
            return Ok(from);
        };
        let start_ns = self.dies.all[die].busy_until_ns.max(from.ns);
        self.drain_one(die, start_ns)?;
        let end_ns = self.dies.all[die].in_flight.as_ref().map_or(from.ns, |page| page.end_ns);
        self.land(die);
        self.dies.tell_end(die);
        let cleaning_ns = self.dies.cleaning_between(die, from.ns, end_ns);
        Ok(Moment { ns: end_ns, cleaning_ns: from.cleaning_ns + cleaning_ns })
    }

    /// Programs all that the cache holds, as before a run begins.
    pub(crate) fn drain_cache(&mut self) -> Result<(), FtlError> {
        self.drain_all(Moment { ns: self.last_ns, cleaning_ns: 0 })?;
        Ok(())
    }

    /// Everything in the cache goes to the dies. Returns when it is there, and the sectors that were found.
    pub(super) fn drain_all(&mut self, ready: Moment) -> Result<(Moment, u32), FtlError> {
        let (mut done, mut found) = (ready, 0);
        for die in 0..self.dies.all.len() {
            self.catch_up_die(die, ready.ns, true)?;
            let before = self.cache.used_sectors();
            while let Some(first) = self.cache.first(die) {
                self.land(die);
                let start_ns = self.dies.all[die].busy_until_ns.max(first.ready_ns).max(ready.ns);
                self.drain_one(die, start_ns)?;
            }
            self.land(die);
            found += before - self.cache.used_sectors();
            self.dies.tell_end(die);
            // A flush that is still being executed has taken pages out of the cache: this one waits for them too.
            let end_ns = self.dies.all[die].drained_ns;
            if end_ns > ready.ns {
                let cleaning_ns = self.dies.cleaning_between(die, ready.ns, end_ns);
                let cleaning_ns = ready.cleaning_ns + cleaning_ns;
                done = done.or_later(Moment { ns: end_ns, cleaning_ns });
            }
        }
        Ok((done, found))
    }
}

//! Devices whose layer maps parts of a page, as cards map 4 KiB where a program writes 16 KiB or more.
//!
//! Array pages go round the dies, each with all of its parts. Writes gather in the cache until they fill an array page
//! of a die, and are programmed together, wherever on the device they belong. A flush, a write past the cache and a
//! cache that is full of rests program fewer: what is left of the array page is padding, which the layer counts as
//! stale. Reads move the parts that were asked for; those that lie in one array page cost one array time.
//!
//! Left out: programs that are held back for a time to gather more, and caches that are powered over a cut.

use super::{FlashDevice, Moment};
use crate::Command;
use crate::cache::sectors;
use ftl::{FtlError, PageWork};
use nand::PAGES_PER_PROGRAM_MAX;
use std::ops::Range;

const PARTS_MAX: usize = PAGES_PER_PROGRAM_MAX as usize;

impl FlashDevice {
    /// Sectors come from the dies, or from the cache; done when the last one has crossed the interface.
    ///
    /// The arrays begin at `early`, the transfers when the command is `ready`.
    pub(super) fn read_parts(
        &mut self,
        command: &Command,
        early: Moment,
        ready: Moment,
        cached: &mut u32,
    ) -> Result<Moment, FtlError> {
        let first = self.piece(command, 0).page;
        let pages = first..first + self.stripe(command).pages;
        let mut last = ready;
        for group in groups(pages, self.parts()) {
            let (die, local) = self.die_of(group.start);
            let mut arrived = [ready; PARTS_MAX];
            let mut wanted = [false; PARTS_MAX];
            for (page, is_wanted) in group.clone().zip(&mut wanted) {
                let piece = self.piece(command, page - first);
                let asked = sectors(piece.first, piece.end);
                let held = self.cache.held(page as u32) & asked;
                *cached += held.count_ones();
                self.statistics.cache_read_sectors += u64::from(held.count_ones());
                *is_wanted = held != asked;
            }
            self.read_slc_group(
                die,
                local,
                &mut wanted[..(group.end - group.start) as usize],
                early,
                &mut arrived,
            );
            self.read_group(
                die,
                local,
                &wanted[..(group.end - group.start) as usize],
                early,
                &mut arrived,
            )?;
            for (page, arrived) in group.zip(arrived) {
                let count = self.piece(command, page - first).sectors();
                last = self.cross(arrived.or_later(last), count);
            }
        }
        Ok(last)
    }

    /// The die reads those of the wanted parts that lie in its SLC cache, and takes them off the list. Parts in a row
    /// that lie in one array page there cost one array time.
    fn read_slc_group(
        &mut self,
        die: usize,
        local: u32,
        wanted: &mut [bool],
        early: Moment,
        arrived: &mut [Moment; PARTS_MAX],
    ) {
        if !self.dies.has_slc() {
            return;
        }
        let mut part = 0;
        while part < wanted.len() {
            let lpn = local + part as u32;
            let Some(at) = self.dies.slc_array_page(die, lpn).filter(|_| wanted[part]) else {
                part += 1;
                continue;
            };
            let is_there = |other: &usize| {
                wanted[*other] && self.dies.slc_array_page(die, local + *other as u32) == Some(at)
            };
            let end =
                (part..wanted.len()).take_while(is_there).last().map_or(part + 1, |last| last + 1);
            let here = self.dies.read_slc(die, lpn, early, arrived[part], (end - part) as u64);
            arrived[part..end].fill(here);
            wanted[part..end].fill(false);
            part = end;
        }
    }

    /// The die reads the wanted parts of a logical array page from `early` on; `arrived` says when each is in the
    /// controller, and before that when its turn is.
    fn read_group(
        &mut self,
        die: usize,
        local: u32,
        wanted: &[bool],
        early: Moment,
        arrived: &mut [Moment; PARTS_MAX],
    ) -> Result<(), FtlError> {
        let mut work = [PageWork::default(); PARTS_MAX];
        let mut next = 0;
        while let Some(start) = (next..wanted.len()).find(|part| wanted[*part]) {
            let end = (start..wanted.len()).find(|part| !wanted[*part]).unwrap_or(wanted.len());
            next = end;
            self.dies.read_measured(die, local + start as u32, &mut work[start..end])?;
            let reads = |part: usize| work[part].total.counters.page_reads > 0;
            let mut part = start;
            while let Some(first) = (part..end).find(|part| reads(*part)) {
                // The parts behind it that cost no read lie in the same array page, or were never written.
                part = (first + 1..end).find(|part| reads(*part)).unwrap_or(end);
                let extra_ns = work[first].own_extra_read_ns;
                let count = (part - first) as u64;
                let page = local + first as u32;
                let turn = arrived[first];
                let here = self.dies.read_parts(die, page, early, turn, count, extra_ns);
                arrived[first..part].fill(here);
            }
        }
        Ok(())
    }

    /// Sectors go to the dies past the cache; done when the last program is.
    pub(super) fn write_parts(
        &mut self,
        command: &Command,
        ready: Moment,
    ) -> Result<Moment, FtlError> {
        let first = self.piece(command, 0).page;
        let pages = first..first + self.stripe(command).pages;
        let (mut arrived, mut done) = (ready, ready);
        for group in groups(pages, self.parts()) {
            let (die, local) = self.die_of(group.start);
            let mut rest = ready;
            let mut held_any = 0;
            let mut lpns = [0; PARTS_MAX];
            let lpns = &mut lpns[..(group.end - group.start) as usize];
            for ((page, local), lpn) in group.zip(local..).zip(&mut *lpns) {
                let piece = self.piece(command, page - first);
                // Sectors that wait in the cache go to the medium with this write.
                let held = self.cache_withdraw(die, page, ready);
                held_any |= held;
                self.arrive(command, piece);
                if sectors(piece.first, piece.end) | held != sectors(0, self.page_sectors) {
                    rest = self.read_rest(die, local, rest)?;
                }
                arrived = self.cross(arrived, piece.sectors());
                *lpn = local;
            }
            // One program for each logical array page: they lie on different dies, or come one after the other.
            let begin = arrived.or_later(rest);
            let end = if let Some(end) = self.dies.write_slc(die, lpns, begin)? {
                end
            } else {
                let work = self.dies.write_together(die, lpns)?;
                let end = self.dies.program(die, begin, &work);
                self.dies.clean_after_program(die)?;
                end
            };
            if held_any != 0 {
                self.dies.all[die].take_along(end.ns);
            }
            done = done.or_later(end);
        }
        Ok(done)
    }

    /// The die takes the parts that wait first, up to an array page, out of the cache.
    pub(super) fn drain_parts(&mut self, die: usize, start_ns: u64) -> Result<(), FtlError> {
        let most = self.parts() as usize;
        let (mut slots, mut lpns) = ([0; PARTS_MAX], [0; PARTS_MAX]);
        let mut count = 0;
        let mut begin = Moment { ns: start_ns, cleaning_ns: 0 };
        while count < most
            && let Some(first) = self.cache.first(die)
            && let Some(slot) = self.cache.take_first(die)
        {
            let (_, local) = self.die_of(u64::from(first.page));
            // A flush drains parts that have yet to cross the interface.
            begin = begin.not_before(first.ready_ns);
            // A part of which the host wrote less is read before it is programmed.
            if first.written != sectors(0, self.page_sectors) {
                begin = self.read_rest(die, local, begin)?;
            }
            (slots[count], lpns[count]) = (slot, local);
            count += 1;
        }
        debug_assert!(count > 0, "a die without a page in the cache drains nothing");
        if let Some(end) = self.dies.write_slc(die, &lpns[..count], begin)? {
            self.dies.all[die].fly(&slots[..count], end.ns);
            return Ok(());
        }
        let work = self.dies.write_together(die, &lpns[..count])?;
        let end = self.dies.program(die, begin, &work);
        self.dies.offer_program(die, &work, end.ns);
        self.dies.clean_after_program(die)?;
        self.dies.all[die].fly(&slots[..count], end.ns);
        Ok(())
    }

    /// The layers forget whole pages.
    pub(super) fn discard_parts(
        &mut self,
        pages: Range<u64>,
        ready: Moment,
    ) -> Result<Moment, FtlError> {
        for group in groups(pages, self.parts()) {
            let (die, local) = self.die_of(group.start);
            // What waits in the cache must not be written after the discard.
            group.clone().for_each(|page| _ = self.cache_withdraw(die, page, ready));
            let count = (group.end - group.start) as u32;
            self.dies.all[die].layer.0.trim_pages(local..local + count)?;
            self.dies.all[die].record();
            // Trimmed pages can make a block worth cleaning.
            self.dies.look_again(die, ready.ns);
        }
        Ok(ready)
    }
}

/// The pages, divided where one array page ends and the next begins.
fn groups(pages: Range<u64>, parts: u64) -> impl Iterator<Item = Range<u64>> {
    let mut next = pages.start;
    std::iter::from_fn(move || {
        let group = next..((next / parts + 1) * parts).min(pages.end);
        next = group.end;
        (!group.is_empty()).then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn groups_end_where_array_pages_do() {
        let all = |pages| groups(pages, 4).collect::<Vec<_>>();
        assert_eq!(all(2..11), [2..4, 4..8, 8..11]);
        assert_eq!(all(4..9), [4..8, 8..9]);
        assert!(all(8..8).is_empty());
    }
}

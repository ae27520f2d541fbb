//! A flash device: host interface, write cache, and a translation layer on each die.
//!
//! Logical pages go round the dies, the channels first and then the dies of a channel. Commands
//! begin in the order in which they came, as soon as one of `executes` places is free, and one that
//! is begun runs to its end. Data of reads cross the host interface page by page in order, data of
//! writes too; the interface carries one page at a time in either direction.
//!
//! Without a cache a write is done when its last page is programmed. A page of which a write
//! replaces a part is read first, if it was ever written. With a cache a write is done when its data
//! are in it; the cache drains to the dies whenever they have nothing else to do, so that a read
//! waits for one program at most. A write that finds the cache full waits until there is room;
//! a flush waits until it is empty; a write with force unit access goes past it.
//!
//! Discards take effect for pages that they cover as a whole.
//!
//! Idle time is made up for when the next command begins: until then the dies drain the cache and
//! clean. A die that the cache has made to work ahead of a command that waits for room is not taken
//! back for a later command that might have come first.

mod assemble;
mod parts;
mod recording;
mod supply;
mod wear;
mod write_cache;

use crate::admission::Gate;
use crate::cache::{Sectors, WriteCache, sectors};
use crate::die::{BkopsLevel, Dies};
use crate::divisor::Divisor;
use crate::host_queues::HostQueues;
use crate::host_spec::HostSpec;
use crate::places::Places;
use crate::stored::{Stored, StoredDevice};
use crate::timeline::{CleaningTimes, Moment, Timeline};
use crate::{
    BlockDevice, Command, Completion, DeviceActivity, DeviceError, DeviceFlash, DeviceStatistics,
    Operation,
};
use ftl::{Ftl, FtlError, PageWork, Work};

/// Sectors of a page are kept in one mask.
// One bit a sector: pages of up to 64 KiB, all planes together.
const PAGE_SECTORS_MAX: u32 = Sectors::BITS;

/// A flash device at work.
#[derive(Clone)]
pub struct FlashDevice {
    sectors: u64,
    /// Sectors of a mapped page: an array page of all planes, or a part of one.
    page_sectors: u32,
    /// The same, to divide sectors by.
    page_divisor: Divisor,
    /// The number of dies, to divide pages by.
    die_divisor: Divisor,
    /// Mapped pages of an array page, as a power of two.
    parts_shift: u32,
    host: HostSpec,
    bus: Timeline,
    /// Time of so many sectors on the host interface, up to a page.
    transfer_ns: Vec<u64>,
    /// When each command that is executed at once is done.
    places: Places,
    /// When each processor of the controller is free, where they are counted.
    processors: Option<Places>,
    /// Cleaning that commands had in their way.
    cleaning_times: CleaningTimes,
    pub(crate) dies: Dies,
    cache: WriteCache,
    /// Which writes go through the cache, where a policy of the user's own says so.
    gate: Option<Gate>,
    works_in_idle_time: bool,
    /// The host starts background operations.
    manual_bkops: bool,
    last_ns: u64,
    /// Everything that happens by itself has happened until then.
    caught_up_ns: u64,
    statistics: DeviceStatistics,
    /// Work that the layers report for the pages of the command, die by die.
    work: Vec<PageWork>,
    /// Bytes and supply of a device that stores them.
    pub(crate) stored: Option<Stored>,
}

/// Consecutive pages of the device, die by die: those of a die are consecutive in its layer too.
#[derive(Clone, Copy)]
struct Stripe {
    first: u64,
    pages: u64,
    dies: Divisor,
}

impl Stripe {
    /// Number of dies that have a page of it.
    fn width(self) -> usize {
        self.pages.min(self.dies.value()) as usize
    }

    /// The die with the `column`-th page.
    fn die(self, column: usize) -> usize {
        self.dies.split(self.first + column as u64).1 as usize
    }

    /// First page of that die, in its layer.
    fn first_page(self, column: usize) -> u32 {
        self.dies.quotient(self.first + column as u64) as u32
    }

    /// Pages of that die.
    fn depth(self, column: usize) -> usize {
        self.dies.quotient_up(self.pages - column as u64) as usize
    }

    /// Where the pages of the column begin if they are put one column behind the other.
    // The first columns are one page longer than the others.
    fn offset(self, column: usize) -> usize {
        let (whole, rest) = self.dies.split(self.pages);
        column * whole as usize + column.min(rest as usize)
    }

    /// Where the `index`-th page of the stripe is then.
    fn position(self, index: usize) -> usize {
        let (row, column) = self.dies.split(index as u64);
        self.offset(column as usize) + row as usize
    }
}

/// Part of a page that a command covers.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) page: u64,
    pub(crate) first: u32,
    end: u32,
}

impl Piece {
    #[inline]
    pub(crate) fn sectors(self) -> u32 {
        self.end - self.first
    }

    /// True if the command covers no other page.
    #[inline]
    fn is_all_of(self, command: &Command) -> bool {
        self.sectors() == command.sectors
    }
}

impl FlashDevice {
    /// The translation layers, die by die, to look at.
    pub fn layers(&self) -> impl Iterator<Item = &dyn Ftl> {
        self.dies.all.iter().map(|die| die.layer.0.as_ref())
    }

    /// Sectors of a mapped page: one page of every plane of a die, or a part of it.
    pub fn page_sectors(&self) -> u32 {
        self.page_sectors
    }

    #[inline]
    fn stripe(&self, command: &Command) -> Stripe {
        let end = command.sector + u64::from(command.sectors);
        let first = self.page_divisor.quotient(command.sector);
        let pages = self.page_divisor.quotient_up(end) - first;
        let stripe = Stripe { first, pages, dies: self.die_divisor };
        debug_assert_eq!(
            (0..stripe.width()).map(|column| stripe.depth(column)).sum::<usize>(),
            stripe.pages as usize,
            "the dies' pages are all pages"
        );
        stripe
    }

    /// The `index`-th page of the command, as far as the command covers it.
    #[inline]
    pub(crate) fn piece(&self, command: &Command, index: u64) -> Piece {
        let page_sectors = u64::from(self.page_sectors);
        let page = self.page_divisor.quotient(command.sector) + index;
        let begin = page * page_sectors;
        let end = command.sector + u64::from(command.sectors);
        let piece = Piece {
            page,
            first: command.sector.saturating_sub(begin) as u32,
            end: (end - begin).min(page_sectors) as u32,
        };
        debug_assert!(piece.first < piece.end, "page {page} is part of the command");
        piece
    }

    #[inline]
    pub(crate) fn die_of(&self, page: u64) -> (usize, u32) {
        if self.parts_shift == 0 {
            let (local, die) = self.die_divisor.split(page);
            return (die as usize, local as u32);
        }
        let (array_page, part) = (page >> self.parts_shift, page & (self.parts() - 1));
        let (local, die) = self.die_divisor.split(array_page);
        (die as usize, (local << self.parts_shift | part) as u32)
    }

    /// Mapped pages of an array page.
    #[inline]
    pub(crate) fn parts(&self) -> u64 {
        1 << self.parts_shift
    }

    /// Everything that happens by itself until `until_ns`.
    #[allow(clippy::inline_always, reason = "a call for each command is a hundredth of a replay")]
    #[inline(always)]
    fn catch_up(&mut self, until_ns: u64) -> Result<(), FtlError> {
        // Without a cache and background cleaning nothing happens by itself.
        if self.works_in_idle_time {
            for die in 0..self.dies.all.len() {
                // Most dies have nothing to catch up with between two commands.
                if self.cache.first(die).is_some() || self.dies.has_work(die, until_ns) {
                    self.catch_up_die(die, until_ns, true)?;
                }
            }
        }
        self.dies.forget_before(until_ns);
        self.bus.forget_before(until_ns);
        Ok(())
    }

    /// Ends what the die has ended, and begins what it can begin before `until_ns`.
    fn catch_up_die(&mut self, die: usize, until_ns: u64, cleans: bool) -> Result<(), FtlError> {
        loop {
            if let Some(in_flight) = &self.dies.all[die].in_flight {
                // It is still being programmed.
                if in_flight.end_ns > until_ns {
                    return Ok(());
                }
                self.land(die);
            }
            let state = &self.dies.all[die];
            let Some(ready_ns) = self.drain_ready_ns(die) else {
                return if cleans { self.dies.clean_until(die, until_ns) } else { Ok(()) };
            };
            let start_ns = state.busy_until_ns.max(ready_ns);
            // Between a page that has yet to arrive and the next, a die may clean.
            if cleans && self.dies.next_cleaning_ns(die) < start_ns.min(until_ns) {
                self.dies.clean_until(die, start_ns.min(until_ns))?;
                continue;
            }
            if start_ns >= until_ns {
                return Ok(());
            }
            self.drain_one(die, start_ns)?;
        }
    }

    /// When all sectors have arrived that the die programs next; never, if it waits for more of them.
    ///
    /// Parts of a page wait until they fill one: the cache is there to gather them.
    #[inline]
    fn drain_ready_ns(&self, die: usize) -> Option<u64> {
        if self.parts_shift == 0 {
            return self.cache.first(die).map(|first| first.ready_ns);
        }
        let parts = self.parts() as usize;
        self.cache
            .group(die, parts)
            .filter(|(count, _)| *count == parts)
            .map(|(_, ready_ns)| ready_ns)
    }

    /// What the die programs has reached the medium, and leaves the cache.
    fn land(&mut self, die: usize) {
        let Some(in_flight) = self.dies.all[die].in_flight.take() else { return };
        let before = self.cache.used_sectors();
        in_flight.slots().iter().for_each(|slot| self.cache.release(*slot));
        self.record_program(before, in_flight.end_ns);
    }

    /// The die takes its first page, or as many parts of a page as wait, out of the cache.
    fn drain_one(&mut self, die: usize, start_ns: u64) -> Result<(), FtlError> {
        if self.parts_shift > 0 {
            return self.drain_parts(die, start_ns);
        }
        let Some(first) = self.cache.first(die) else { return Ok(()) };
        let Some(slot) = self.cache.take_first(die) else { return Ok(()) };
        let (_, local) = self.die_of(u64::from(first.page));
        let start = Moment { ns: start_ns, cleaning_ns: 0 };
        // A page of which the host wrote a part is read before it is programmed.
        let is_whole = first.written == sectors(0, self.page_sectors);
        let read = if is_whole { start } else { self.read_rest(die, local, start)? };
        let end = if let Some(end) = self.dies.write_slc(die, &[local], read)? {
            end
        } else {
            let mut work = [PageWork::default()];
            self.dies.write_measured(die, local, &mut work)?;
            let end = self.dies.program(die, read, &work[0]);
            self.dies.offer_program(die, &work[0], end.ns);
            self.dies.clean_after_program(die)?;
            end
        };
        self.dies.all[die].fly(&[slot], end.ns);
        Ok(())
    }

    /// Reads a page that is about to be replaced in part.
    fn read_rest(&mut self, die: usize, local: u32, ready: Moment) -> Result<Moment, FtlError> {
        if self.dies.is_in_slc(die, local) {
            self.statistics.read_modify_writes += 1;
            return Ok(self.dies.read_slc(die, local, ready, ready, 1));
        }
        let mut work = [PageWork::default()];
        self.dies.read_measured(die, local, &mut work)?;
        self.statistics.read_modify_writes += u64::from(work[0].total.counters.page_reads > 0);
        Ok(self.dies.read(die, local, ready, ready, &work[0]))
    }

    /// The command crosses the interface, as far as it is about a piece of a page.
    #[inline]
    fn cross(&mut self, ready: Moment, count: u32) -> Moment {
        let transfer_ns = self.transfer_ns[count as usize];
        let start_ns = self.bus.book(ready.ns, transfer_ns);
        ready.not_before(start_ns + transfer_ns)
    }

    /// Sectors come from the dies or the cache, and go to the host in order.
    fn read(
        &mut self,
        command: &Command,
        early: Moment,
        ready: Moment,
        cached: &mut u32,
    ) -> Result<Moment, FtlError> {
        // With empty caches each layer is asked for all its pages at once.
        if !self.cache.is_empty() || self.dies.has_slc() {
            return self.read_past_cache(command, early, ready, cached);
        }
        let piece = self.piece(command, 0);
        if piece.is_all_of(command) {
            return self.read_page(piece, early, ready);
        }
        let stripe = self.stripe(command);
        self.work.resize(stripe.pages as usize, PageWork::default());
        for column in 0..stripe.width() {
            let offset = stripe.offset(column);
            let work = &mut self.work[offset..offset + stripe.depth(column)];
            self.dies.read_measured(stripe.die(column), stripe.first_page(column), work)?;
        }
        let mut last = ready;
        for index in 0..stripe.pages {
            let piece = self.piece(command, index);
            let (die, local) = self.die_of(piece.page);
            let work = self.work[stripe.position(index as usize)];
            // All dies begin together; the host gets the pages in order.
            let here = self.dies.read(die, local, early, ready, &work);
            last = self.cross(here.or_later(last), piece.sectors());
        }
        Ok(last)
    }

    /// As [`FlashDevice::read`], of a command within one page: most are, and there are no dies to share it.
    #[inline]
    fn read_page(
        &mut self,
        piece: Piece,
        early: Moment,
        ready: Moment,
    ) -> Result<Moment, FtlError> {
        let (die, local) = self.die_of(piece.page);
        let mut work = [PageWork::default()];
        self.dies.read_measured(die, local, &mut work)?;
        let here = self.dies.read(die, local, early, ready, &work[0]);
        Ok(self.cross(here, piece.sectors()))
    }

    /// As [`FlashDevice::read`], with a look into the cache for every page.
    fn read_past_cache(
        &mut self,
        command: &Command,
        early: Moment,
        ready: Moment,
        cached: &mut u32,
    ) -> Result<Moment, FtlError> {
        let mut last = ready;
        for index in 0..self.stripe(command).pages {
            let piece = self.piece(command, index);
            let (die, local) = self.die_of(piece.page);
            let wanted = sectors(piece.first, piece.end);
            let held = self.cache.held(piece.page as u32) & wanted;
            *cached += held.count_ones();
            self.statistics.cache_read_sectors += u64::from(held.count_ones());
            let here = if held == wanted {
                ready
            } else if self.dies.is_in_slc(die, local) {
                self.dies.read_slc(die, local, early, ready, 1)
            } else {
                let mut work = [PageWork::default()];
                self.dies.read_measured(die, local, &mut work)?;
                self.dies.read(die, local, early, ready, &work[0])
            };
            last = self.cross(here.or_later(last), piece.sectors());
        }
        Ok(last)
    }

    /// As [`FlashDevice::write_through`], of a command within one page.
    #[inline]
    fn write_page(
        &mut self,
        command: &Command,
        piece: Piece,
        ready: Moment,
    ) -> Result<Moment, FtlError> {
        let (die, local) = self.die_of(piece.page);
        self.arrive(command, piece);
        let held = self.cache_withdraw(die, piece.page, ready);
        let is_whole = sectors(piece.first, piece.end) | held == sectors(0, self.page_sectors);
        let rest = if is_whole { ready } else { self.read_rest(die, local, ready)? };
        let arrived = self.cross(ready, piece.sectors());
        let end = self.write_now(die, local, arrived.or_later(rest))?;
        if held != 0 {
            self.dies.all[die].take_along(end.ns);
        }
        Ok(ready.or_later(end))
    }

    /// The die programs a page whose data have arrived: to its SLC cache if it has one with room.
    #[inline]
    fn write_now(&mut self, die: usize, local: u32, ready: Moment) -> Result<Moment, FtlError> {
        if let Some(end) = self.dies.write_slc(die, &[local], ready)? {
            return Ok(end);
        }
        let mut work = [PageWork::default()];
        self.dies.write_measured(die, local, &mut work)?;
        let end = self.dies.program(die, ready, &work[0]);
        self.dies.clean_after_program(die)?;
        Ok(end)
    }

    /// Sectors go to the dies; done when the last page is programmed.
    fn write_through(&mut self, command: &Command, ready: Moment) -> Result<Moment, FtlError> {
        let piece = self.piece(command, 0);
        if piece.is_all_of(command) {
            return self.write_page(command, piece, ready);
        }
        let stripe = self.stripe(command);
        for index in 0..stripe.pages {
            self.arrive(command, self.piece(command, index));
        }
        self.work.resize(stripe.pages as usize, PageWork::default());
        let last_index = stripe.pages - 1;
        // At most the first and the last page are replaced in part; they are read first.
        let mut read = [ready; 2];
        let mut held_any = 0;
        for (index, read) in [0, last_index].into_iter().zip(&mut read) {
            let piece = self.piece(command, index);
            let (die, local) = self.die_of(piece.page);
            // Sectors that wait in the cache go to the medium with this write.
            let held = self.cache_withdraw(die, piece.page, ready);
            held_any |= held;
            let written = sectors(piece.first, piece.end) | held;
            if written != sectors(0, self.page_sectors) {
                *read = self.read_rest(die, local, ready)?;
            }
        }
        for index in 1..last_index {
            let piece = self.piece(command, index);
            let (die, _) = self.die_of(piece.page);
            held_any |= self.cache_withdraw(die, piece.page, ready);
        }
        let has_slc = self.dies.has_slc();
        for column in (0..stripe.width()).filter(|_| !has_slc) {
            let offset = stripe.offset(column);
            let work = &mut self.work[offset..offset + stripe.depth(column)];
            self.dies.write_measured(stripe.die(column), stripe.first_page(column), work)?;
        }
        let (mut arrived, mut done) = (ready, ready);
        for index in 0..stripe.pages {
            let piece = self.piece(command, index);
            let (die, local) = self.die_of(piece.page);
            // Data arrive page by page, whatever the dies do.
            arrived = self.cross(arrived, piece.sectors());
            let rest = match index {
                0 => read[0],
                index if index == last_index => read[1],
                _ => ready,
            };
            let ready = arrived.or_later(rest);
            // With an SLC cache the layer is asked page by page, if at all.
            let end = if has_slc {
                self.write_now(die, local, ready)?
            } else {
                let work = self.work[stripe.position(index as usize)];
                let end = self.dies.program(die, ready, &work);
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

    /// The layers forget the pages that the command covers as a whole.
    fn discard(&mut self, command: &Command, ready: Moment) -> Result<Moment, FtlError> {
        let page_sectors = u64::from(self.page_sectors);
        let end = command.sector + u64::from(command.sectors);
        let first = command.sector.div_ceil(page_sectors);
        // The last page of the device may be cut short by its end.
        let end_page =
            if end == self.sectors { end.div_ceil(page_sectors) } else { end / page_sectors };
        if end_page <= first {
            return Ok(ready);
        }
        self.forget(first..end_page);
        if self.dies.has_slc() {
            for page in first..end_page {
                let (die, local) = self.die_of(page);
                self.dies.forget_slc(die, local);
            }
        }
        if self.parts_shift > 0 {
            return self.discard_parts(first..end_page, ready);
        }
        let stripe = Stripe { first, pages: end_page - first, dies: self.die_divisor };
        if self.cache.has_waiting() {
            // What waits in the cache must not be written after the discard.
            for page in first..end_page {
                let (die, _) = self.die_of(page);
                self.cache_withdraw(die, page, ready);
            }
        }
        let mut done = ready;
        for column in 0..stripe.width() {
            let die = stripe.die(column);
            let layer = &mut self.dies.all[die].layer.0;
            let before = Work::of(layer.flash().chip());
            let first = stripe.first_page(column);
            layer.trim_pages(first..first + stripe.depth(column) as u32)?;
            let work = Work::of(layer.flash().chip()) - before;
            self.dies.all[die].record();
            // Trimmed pages can make a block worth cleaning.
            self.dies.look_again(die, ready.ns);
            if work != Work::default() {
                done = done.or_later(self.dies.manage(die, ready, work));
            }
        }
        Ok(done)
    }

    fn execute(
        &mut self,
        command: &Command,
        early: Moment,
        start: Moment,
        cached: &mut u32,
    ) -> Result<Moment, FtlError> {
        let ready = self.begin(start, command.operation);
        // With a queue to look ahead in, the array begins once the card has looked at the task, and without one when
        // the command is taken up.
        let overhead_ns = self.host.command_overhead_ns;
        let early = if self.host.prefetches { early.after(overhead_ns) } else { ready };
        match command.operation {
            Operation::Read if self.parts_shift > 0 => {
                self.read_parts(command, early, ready, cached)
            }
            Operation::Read => self.read(command, early, ready, cached),
            Operation::Write if !command.fua && self.goes_to_cache(command, ready) => {
                *cached = command.sectors;
                self.write_to_cache(command, ready)
            }
            Operation::Write if self.parts_shift > 0 => self.write_parts(command, ready),
            Operation::Write => self.write_through(command, ready),
            Operation::Flush => self.flush(ready),
            Operation::Discard => self.discard(command, ready),
        }
    }

    /// The controller takes a command up: its data can move when the overhead is over.
    #[inline]
    fn begin(&mut self, start: Moment, operation: Operation) -> Moment {
        let overhead_ns = match (operation, self.host.write_overhead_ns) {
            (Operation::Write, Some(overhead_ns)) => overhead_ns,
            _ => self.host.command_overhead_ns,
        };
        let Some(processors) = &mut self.processors else { return start.after(overhead_ns) };
        // Commands that are executed at once still share the processors, one after the other.
        let ready = start.not_before(processors.first_ns()).after(overhead_ns);
        // In the order in which commands begin, so a processor is never kept for a later one.
        processors.occupy_first(ready.ns);
        ready
    }
}

impl FlashDevice {
    /// Carries out a command, or several writes as one packed command.
    #[allow(clippy::inline_always, reason = "a call for each command is a hundredth of a replay")]
    #[inline(always)]
    fn carry_out(&mut self, now_ns: u64, commands: &[Command]) -> Result<Completion, DeviceError> {
        if now_ns < self.last_ns {
            return Err(DeviceError::TimeWentBackwards { now_ns, last_ns: self.last_ns });
        }
        if self.is_without_power() {
            return Err(DeviceError::PowerLost);
        }
        self.last_ns = now_ns;
        self.statistics.submitted += commands.len() as u64;
        for command in commands {
            command.check(self.sectors)?;
        }
        // Commands begin in order, on the place that is free first.
        let start_ns = now_ns.max(self.places.first_ns());
        // Idle time is made up for now: the state must be that of the moment at which the command
        // begins. A read that is prefetched begins on the dies as it comes.
        let prefetches = self.host.prefetches && commands[0].operation == Operation::Read;
        // Not before the command ahead of it begins: until then the dies are as that one finds them.
        let early_ns = if prefetches { now_ns.max(self.caught_up_ns) } else { start_ns };
        self.catch_up(early_ns)?;
        self.caught_up_ns = early_ns;
        self.fail_if_due(now_ns)?;
        self.cleaning_times.forget_before(now_ns);
        let waited_ns = self.cleaning_times.between(now_ns, start_ns);
        let start = Moment { ns: start_ns, cleaning_ns: waited_ns };
        let mut cached_sectors = 0;
        let early = Moment { ns: early_ns, cleaning_ns: 0 };
        let done = match commands {
            [command] => self.execute(command, early, start, &mut cached_sectors)?,
            writes => self.execute_packed(writes, start, &mut cached_sectors)?,
        };
        let done = if self.manual_bkops { self.run_urgent_bkops(done)? } else { done };
        debug_assert!(done.ns >= start_ns, "a command ends after it begins");
        debug_assert!(
            waited_ns <= done.cleaning_ns && done.cleaning_ns <= done.ns - now_ns,
            "the wait for cleaning is part of the command's time"
        );
        self.places.occupy_first(done.ns);
        // Cleaning comes first in a command: it delays the commands behind. A prefetched read has waited on its die
        // before its turn as well: what the die cleaned then is no part of the time that the read takes.
        let own_cleaning_ns = (done.cleaning_ns - waited_ns).min(done.ns - start_ns);
        self.cleaning_times.add(start_ns, start_ns + own_cleaning_ns);
        for command in commands {
            self.statistics.count(command);
        }
        self.let_time_pass(now_ns);
        Ok(Completion {
            start_ns,
            done_ns: done.ns,
            cleaning_ns: done.cleaning_ns,
            own_cleaning_ns,
            cached_sectors,
        })
    }

    /// How urgent the background operations of the card are, as of the last command.
    pub fn bkops_level(&self) -> BkopsLevel {
        self.dies.bkops_level()
    }

    /// The end of a command after which the host runs background operations, if the card asks for them.
    ///
    /// # Errors
    /// As [`ftl::Ftl::clean_step`].
    #[cold]
    fn run_urgent_bkops(&mut self, done: Moment) -> Result<Moment, FtlError> {
        // The response is that of the command's end: what the cache drained until then counts.
        self.idle_until(done.ns)?;
        if self.dies.bkops_level() < BkopsLevel::PerformanceImpacted {
            return Ok(done);
        }
        self.statistics.bkops += 1;
        let mut end = done;
        for die in 0..self.dies.all.len() {
            let end_ns = self.dies.run_bkops(die, done.ns)?;
            let cleaning_ns = done.cleaning_ns + (end_ns - done.ns);
            end = end.or_later(Moment { ns: end_ns, cleaning_ns });
        }
        Ok(end)
    }

    /// One overhead and one header for several writes; done with the last of them.
    #[cold]
    fn execute_packed(
        &mut self,
        writes: &[Command],
        start: Moment,
        cached: &mut u32,
    ) -> Result<Moment, FtlError> {
        debug_assert!(
            writes.iter().all(|write| write.operation == Operation::Write && !write.fua),
            "writes without force unit access are packed"
        );
        let ready = self.begin(start, Operation::Write);
        // The header with their addresses, a block of 512 bytes.
        let mut arrived = self.cross(ready, 1);
        let mut done = arrived;
        for write in writes {
            let end = if self.goes_to_cache(write, arrived) {
                *cached += write.sectors;
                arrived = self.write_to_cache(write, arrived)?;
                arrived
            } else if self.parts_shift > 0 {
                self.write_parts(write, arrived)?
            } else {
                self.write_through(write, arrived)?
            };
            done = done.or_later(end);
        }
        Ok(done)
    }
}

impl BlockDevice for FlashDevice {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn queue_depth(&self) -> u32 {
        self.host.queue_depth
    }

    fn host_queues(&self) -> Option<HostQueues> {
        self.host.queues()
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn packed_writes(&self) -> u32 {
        self.host.packed_writes.unwrap_or(0).max(1)
    }

    fn submit_packed(
        &mut self,
        now_ns: u64,
        commands: &[Command],
    ) -> Result<Completion, DeviceError> {
        self.carry_out(now_ns, commands)
    }

    #[inline]
    fn submit(&mut self, now_ns: u64, command: &Command) -> Result<Completion, DeviceError> {
        self.carry_out(now_ns, std::slice::from_ref(command))
    }

    fn precondition(
        &mut self,
        how: &crate::Precondition,
    ) -> Result<Option<crate::Steadiness>, DeviceError> {
        crate::precondition::prepare(self, how)
    }

    fn clone_box(&self) -> Box<dyn BlockDevice> {
        Box::new(self.clone())
    }

    /// Dies that nothing was asked of since are as of the last command.
    fn statistics(&self) -> DeviceStatistics {
        let totals = self.dies.totals();
        let mut statistics = DeviceStatistics {
            host_busy_ns: self.bus.busy_ns(),
            retried_reads: totals.retried_reads,
            read_retries: totals.read_retries,
            suspensions: totals.suspensions,
            die_busy_ns: totals.busy_ns,
            foreground_cleaning_ns: totals.foreground_cleaning_ns,
            background_cleaning_ns: totals.background_cleaning_ns,
            ..self.statistics
        };
        for layer in self.layers() {
            let merges = layer.flash().merges;
            statistics.cleaned_blocks +=
                merges.cleaned + merges.full + merges.partial + merges.switch;
            statistics.chip += layer.flash().chip().counters();
        }
        for slc in self.dies.all.iter().filter_map(|die| die.slc.as_ref()) {
            statistics.slc.written_pages += slc.statistics.written_pages;
            statistics.slc.folded_pages += slc.statistics.folded_pages;
            statistics.slc.stale_pages += slc.statistics.stale_pages;
            statistics.slc_chip += slc.chip.counters();
        }
        statistics.chip += statistics.slc_chip;
        statistics
    }

    fn flash(&self) -> Option<DeviceFlash> {
        let chip = self.dies.all.first()?.layer.0.flash().chip();
        let geometry = chip.geometry();
        let page_bytes = geometry.program_bytes();
        let erase_counts = self.layers().flat_map(|layer| layer.flash().chip().erase_counts());
        let slc = self.dies.all.iter().filter_map(|die| die.slc.as_ref());
        let tables_bytes: u64 = self.layers().map(Ftl::ram_bytes).sum();
        Some(DeviceFlash {
            page_bytes,
            block_bytes: geometry.block_bytes(),
            erase_cycles_max: chip.errors().erase_cycles_max,
            erase_counts: erase_counts.copied().collect(),
            slc_erase_counts: slc.flat_map(|slc| slc.erase_counts()).copied().collect(),
            free_blocks: self.layers().map(|layer| layer.flash().free_blocks() as u64).sum(),
            ram_bytes: tables_bytes + self.cache.capacity_bytes(),
        })
    }

    fn stored(&mut self) -> Option<&mut dyn StoredDevice> {
        Some(self)
    }

    fn record_activity(&mut self, on: bool) {
        self.set_recording(on);
    }

    fn take_activity(&mut self) -> DeviceActivity {
        self.take_record()
    }
}

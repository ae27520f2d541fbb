//! Dies behind channels: what the translation layers make their chips do, placed in time.
//!
//! All planes of a die work together: a page here is one page of every plane, programmed and erased
//! by multi-plane commands, so a die has as many array operations in flight as it has planes, of the
//! same kind. A die does one thing at a time, in the order of arrival. A read is the array time and
//! then a transfer over the channel, a program the transfer and then the array time, with the lower
//! and upper pages' own times; whole pages are moved, as the page's ECC needs them. No cache
//! commands. A read may be retried (see [`crate::read_retry`]), and may suspend what the die does (see [`suspend`]).
//!
//! What a layer does beyond the page's own read or program is its cleaning (merges, and the map
//! traffic of layers that keep it on flash, are counted with it) and comes first. Copies within the
//! die are copy-back commands that leave the channel alone, or go over it, as the device says; a
//! channel is then charged their sum at once, at the beginning.

mod bkops;
mod fold;
mod reads;
mod suspend;

use crate::cut_watch::CutWatch;
use crate::medium::Medium;
use crate::read_retry::ReadRetry;
use crate::slc::{Slc, SlcSpec, SlcStatistics};
use crate::spec::{Cleaning, Suspend};
use crate::timeline::{CleaningTimes, Moment, Timeline};
use crate::{Activity, ActivityKind, ChannelUse, DeviceActivity};
pub use bkops::BkopsLevel;
use ftl::{CleanStep, Ftl, FtlError, PageWork, Work};
use nand::{PAGES_PER_PROGRAM_MAX, Part};
pub use suspend::SuspendSpec;
use suspend::Suspendable;

/// Times of one operation on one die, all planes together.
#[derive(Clone, Debug)]
struct Times {
    /// Of a lower page.
    read_ns: u64,
    spare_program_ns: u64,
    erase_ns: u64,
    /// A mapped page over the channel: an array page, or a part of one.
    transfer_ns: u64,
    /// What one program writes, over the channel.
    program_transfer_ns: u64,
    spare_transfer_ns: u64,
    copy_back: bool,
    /// Pages are parts of an array page.
    has_parts: bool,
}

/// Time that work takes in the array and on the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    array_ns: u64,
    transfer_ns: u64,
}

impl Times {
    fn new(part: &Part, copy_back: bool) -> Self {
        let (geometry, timing) = (&part.geometry, &part.timing);
        let page_bytes = geometry.page_data_bytes + geometry.page_oob_bytes;
        Self {
            read_ns: timing.lower_read_ns(),
            // A spare area alone takes the array time of a lower page.
            spare_program_ns: timing.program_ns[0],
            erase_ns: timing.erase_ns,
            transfer_ns: timing.transfer_ns(page_bytes),
            program_transfer_ns: timing.transfer_ns(page_bytes * geometry.pages_per_program),
            spare_transfer_ns: timing.transfer_ns(geometry.page_oob_bytes),
            copy_back,
            has_parts: geometry.pages_per_program > 1,
        }
    }

    /// Cost of work that serves no page of the host: copies that stay in the die move nothing.
    fn cost(&self, work: Work) -> Cost {
        let counters = work.counters;
        let copies =
            // A copy is a read and a program; with copy-back neither crosses the channel.
            if self.copy_back { counters.page_reads.min(counters.page_programs) } else { 0 };
        let page_transfer_ns = if self.has_parts {
            // Only the parts that move are read out, and they come together in the controller.
            work.moved_pages * self.transfer_ns + counters.page_programs * self.program_transfer_ns
        } else {
            (counters.page_reads + counters.page_programs - 2 * copies) * self.transfer_ns
        };
        Cost {
            array_ns: counters.reads() * self.read_ns
                + work.extra_read_ns
                + work.program_ns
                + counters.spare_programs * self.spare_program_ns
                + counters.erases * self.erase_ns,
            transfer_ns: page_transfer_ns
                + (counters.spare_reads + counters.spare_programs) * self.spare_transfer_ns,
        }
    }
}

/// Pages of the cache on their way to the die, by one program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    slots: [u32; PAGES_PER_PROGRAM_MAX as usize],
    count: u32,
    pub(crate) end_ns: u64,
}

impl InFlight {
    /// The pages in these slots of the cache, on the medium at `end_ns`.
    pub(crate) fn new(slots: &[u32], end_ns: u64) -> Self {
        let mut all = [0; PAGES_PER_PROGRAM_MAX as usize];
        all[..slots.len()].copy_from_slice(slots);
        Self { slots: all, count: slots.len() as u32, end_ns }
    }

    /// Their places in the cache.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots[..self.count as usize]
    }
}

/// A translation layer that can be cloned with the die it works on.
pub(crate) struct Layer(pub(crate) Box<dyn Ftl>);

impl Clone for Layer {
    fn clone(&self) -> Self {
        Self(self.0.clone_box())
    }
}

/// A die, its translation layer and its time line.
#[derive(Clone)]
pub(crate) struct Die {
    pub(crate) layer: Layer,
    channel: u32,
    /// The die takes the next operation at this time.
    pub(crate) busy_until_ns: u64,
    /// Cleaning may begin at this time if nothing else does.
    clean_from_ns: u64,
    /// False if the layer had nothing to clean, and nothing was written since.
    may_clean: bool,
    /// Cleaning has begun a block and not finished it.
    in_block: bool,
    cleaning_times: CleaningTimes,
    pub(crate) in_flight: Option<InFlight>,
    /// When all that the cache gave the die so far is on the medium: what is in flight, and what an earlier flush
    /// or a full cache had it program ahead of time.
    pub(crate) drained_ns: u64,
    busy_ns: u64,
    foreground_cleaning_ns: u64,
    background_cleaning_ns: u64,
    /// Its SLC cache, if it has one.
    pub(crate) slc: Option<Box<Slc>>,
    /// It was folding last.
    is_folding: bool,
    /// Draws retries, on a device whose reads may be retried.
    pub(crate) retry: Option<Box<ReadRetry>>,
    /// Reads that were retried, and retries of all of them.
    retried_reads: u64,
    read_retries: u64,
    /// Its last operation, if a read may suspend it.
    suspendable: Option<Suspendable>,
    suspensions: u64,
    /// What the die holds in simulated time, on a device that stores bytes.
    pub(crate) medium: Option<Box<Medium>>,
}

impl Die {
    /// A write past the cache took sectors of it along, which are on the medium at `end_ns`: a flush that comes before
    /// that finds them in the cache no more, and waits for them all the same.
    pub(crate) fn take_along(&mut self, end_ns: u64) {
        self.drained_ns = self.drained_ns.max(end_ns);
    }

    /// Takes pages of the cache that are on the medium at `end_ns`.
    pub(crate) fn fly(&mut self, slots: &[u32], end_ns: u64) {
        debug_assert!(self.in_flight.is_none(), "a die programs one thing at a time");
        debug_assert!(self.drained_ns <= end_ns, "programs of a die end in their order");
        self.in_flight = Some(InFlight::new(slots, end_ns));
        self.drained_ns = end_ns;
    }

    /// After a call of the layer: its changes go to the medium, where they wait for their times.
    #[inline]
    pub(crate) fn record(&mut self) {
        if self.medium.is_some() {
            self.record_changes();
        }
    }

    #[cold]
    fn record_changes(&mut self) {
        if let Some(medium) = &mut self.medium {
            medium.record(self.layer.0.as_mut());
        }
    }

    /// After a write to the SLC cache, or an erase of one of its blocks.
    fn record_slc(&mut self) {
        if let (Some(medium), Some(slc)) = (&mut self.medium, &mut self.slc) {
            medium.record_slc(&mut slc.chip);
            // What a layer does to forget pages.
            medium.record(self.layer.0.as_mut());
        }
    }

    /// After the layer was given pages of the SLC cache.
    fn record_fold(&mut self) {
        if let Some(medium) = &mut self.medium {
            medium.record_fold(self.layer.0.as_mut());
        }
    }
}

/// What all dies did, nanoseconds summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_field_names, reason = "units stand last in every name")]
pub(crate) struct DieTotals {
    pub(crate) busy_ns: u64,
    pub(crate) foreground_cleaning_ns: u64,
    pub(crate) background_cleaning_ns: u64,
    pub(crate) retried_reads: u64,
    pub(crate) read_retries: u64,
    pub(crate) suspensions: u64,
}

/// All dies and channels of a device.
#[derive(Clone)]
pub(crate) struct Dies {
    pub(crate) all: Vec<Die>,
    channels: Vec<Timeline>,
    times: Times,
    cleaning: Cleaning,
    suspend: SuspendSpec,
    slc: SlcSpec,
    /// What is recorded, if anything is.
    pub(crate) activity: Option<Box<DeviceActivity>>,
    /// Nothing asks about times before this one.
    horizon_ns: u64,
    /// Looks for the operation in which the supply is to fail.
    pub(crate) cut_watch: CutWatch,
}

/// The transfer of an operation, as its channel was booked.
#[derive(Clone, Copy, Debug)]
struct Moved {
    start_ns: u64,
    duration_ns: u64,
}

impl Moved {
    #[inline]
    fn from(start_ns: u64, duration_ns: u64) -> Self {
        Self { start_ns, duration_ns }
    }
}

/// Changes of the medium among the operations.
pub(crate) fn changes(work: Work) -> u64 {
    work.counters.page_programs + work.counters.spare_programs + work.counters.erases
}

impl Dies {
    /// Dies over `layers`; die `d` is on channel `d mod channels`. `part` has one plane: the planes
    /// of the real part driven together.
    pub(crate) fn new(
        layers: Vec<Box<dyn Ftl>>,
        channels: u32,
        part: &Part,
        copy_back: bool,
        cleaning: Cleaning,
        suspend: SuspendSpec,
        slc: SlcSpec,
    ) -> Self {
        let die = |(layer, number): (Box<dyn Ftl>, u32)| Die {
            layer: Layer(layer),
            channel: number % channels,
            busy_until_ns: 0,
            clean_from_ns: cleaning.idle_before_ns,
            may_clean: true,
            in_block: false,
            cleaning_times: CleaningTimes::default(),
            in_flight: None,
            drained_ns: 0,
            busy_ns: 0,
            foreground_cleaning_ns: 0,
            background_cleaning_ns: 0,
            slc: None,
            is_folding: false,
            retry: None,
            retried_reads: 0,
            read_retries: 0,
            suspendable: None,
            suspensions: 0,
            medium: None,
        };
        Self {
            all: layers.into_iter().zip(0..).map(die).collect(),
            channels: vec![Timeline::default(); channels as usize],
            times: Times::new(part, copy_back),
            cleaning,
            suspend,
            slc,
            activity: None,
            horizon_ns: 0,
            cut_watch: CutWatch::default(),
        }
    }

    /// The layer of a die writes consecutive pages; see [`Ftl::write_measured`].
    #[inline]
    pub(crate) fn write_measured(
        &mut self,
        die: usize,
        first: u32,
        work: &mut [PageWork],
    ) -> Result<(), FtlError> {
        let die = &mut self.all[die];
        die.layer.0.write_measured(first, work)?;
        die.record();
        Ok(())
    }

    /// The layer of a die writes pages by one program; see [`Ftl::write_together`].
    #[inline]
    pub(crate) fn write_together(
        &mut self,
        die: usize,
        lpns: &[u32],
    ) -> Result<PageWork, FtlError> {
        let die = &mut self.all[die];
        let work = die.layer.0.write_together(lpns)?;
        die.record();
        Ok(work)
    }

    /// The layer of a die reads consecutive pages; layers that keep their map on flash may program some of it.
    #[inline]
    pub(crate) fn read_measured(
        &mut self,
        die: usize,
        first: u32,
        work: &mut [PageWork],
    ) -> Result<(), FtlError> {
        let die = &mut self.all[die];
        die.layer.0.read_measured(first, work)?;
        die.record();
        Ok(())
    }

    /// Places the next changes of a die's medium between two moments.
    #[inline]
    fn place(&mut self, die: usize, count: u64, begin_ns: u64, end_ns: u64) {
        if self.all[die].medium.is_some() {
            self.place_changes(die, count, begin_ns, end_ns);
        }
    }

    #[cold]
    fn place_changes(&mut self, die: usize, count: u64, begin_ns: u64, end_ns: u64) {
        if let Some(medium) = &mut self.all[die].medium {
            medium.place(count, begin_ns, end_ns, &mut self.cut_watch);
        }
    }

    /// The die programs a page of the host; returns when it is on the medium.
    #[inline]
    pub(crate) fn program(&mut self, die: usize, ready: Moment, work: &PageWork) -> Moment {
        let mut rest = work.total;
        debug_assert!(rest.counters.page_programs > 0, "the page's own program is in its work");
        debug_assert!(rest.program_ns >= work.own_program_ns, "the own program is part of the sum");
        // The page's own program is timed below; all else is the layer's management and comes
        // first.
        rest.counters.page_programs -= 1;
        rest.program_ns -= work.own_program_ns;
        let start = self.manage(die, ready, rest);
        let transfer_ns = self.times.program_transfer_ns;
        // Data go to the die first, then the array works, while another die uses the channel.
        let kind = ActivityKind::Program;
        let begun_ns = self.book_channel(die, start.ns, transfer_ns);
        let end_ns = begun_ns + transfer_ns + work.own_program_ns;
        self.place(die, 1, start.ns, end_ns);
        let busy_ns = transfer_ns + work.own_program_ns;
        self.occupy(die, start.ns, end_ns, busy_ns, kind, Moved::from(begun_ns, transfer_ns));
        self.all[die].may_clean = true;
        start.not_before(end_ns)
    }

    /// Waits for the die and does what its layer does beside the page: returns when that is done.
    #[inline]
    pub(crate) fn manage(&mut self, die: usize, ready: Moment, work: Work) -> Moment {
        let start = self.wait(die, ready);
        if work == Work::default() {
            return start;
        }
        // An experiment without the cost of cleaning: the layer still cleans, and its counts are
        // the same.
        if !self.cleaning.takes_time {
            self.place(die, changes(work), start.ns, start.ns);
            return start;
        }
        let end_ns = self.clean(die, start.ns, work, ActivityKind::ForegroundCleaning);
        self.rest(die, end_ns);
        Moment { ns: end_ns, cleaning_ns: start.cleaning_ns + (end_ns - start.ns) }
    }

    /// Books cleaning from `start_ns` on; returns its end.
    fn clean(&mut self, die: usize, start_ns: u64, work: Work, kind: ActivityKind) -> u64 {
        self.clean_for(die, start_ns, self.times.cost(work), changes(work), kind)
    }

    /// Books the channel of the die from `earliest_ns` on; returns when its use begins.
    #[inline]
    fn book_channel(&mut self, die: usize, earliest_ns: u64, duration_ns: u64) -> u64 {
        let channel = &mut self.channels[self.all[die].channel as usize];
        // Here and not as the horizon moves: there are many channels, and a command uses few.
        channel.forget_before(self.horizon_ns);
        channel.book(earliest_ns, duration_ns)
    }

    /// Keeps what a die does from `start_ns` to `end_ns`, and its transfer in that time.
    #[cold]
    fn record_work(&mut self, die: usize, from_to_ns: [u64; 2], kind: ActivityKind, moved: Moved) {
        let Some(activity) = &mut self.activity else { return };
        let (channel, die) = (self.all[die].channel, die as u32);
        let [start_ns, end_ns] = from_to_ns;
        activity.die_works(Activity { die, start_ns, end_ns, kind });
        // Copies within a die move nothing.
        if moved.duration_ns > 0 {
            let (start_ns, end_ns) = (moved.start_ns, moved.start_ns + moved.duration_ns);
            activity.channels.push(ChannelUse { channel, die, start_ns, end_ns, kind });
        }
    }

    /// Time in which each channel moved data, nanoseconds.
    pub(crate) fn channel_busy_ns(&self) -> impl Iterator<Item = u64> {
        self.channels.iter().map(Timeline::busy_ns)
    }

    /// When the die takes an operation that is ready, and how much of the wait was for cleaning.
    #[inline]
    fn wait(&self, die: usize, ready: Moment) -> Moment {
        let die = &self.all[die];
        if die.busy_until_ns <= ready.ns {
            return ready;
        }
        // Only the part of the wait in which the die cleaned counts as cleaning.
        let waited_ns = die.cleaning_times.between(ready.ns, die.busy_until_ns);
        Moment { ns: die.busy_until_ns, cleaning_ns: ready.cleaning_ns + waited_ns }
    }

    #[inline]
    fn occupy(
        &mut self,
        die: usize,
        start_ns: u64,
        end_ns: u64,
        busy_ns: u64,
        kind: ActivityKind,
        moved: Moved,
    ) {
        debug_assert!(
            self.all[die].busy_until_ns <= start_ns,
            "die {die} does one thing at a time: it is busy until {} ns and begins at {start_ns} ns",
            self.all[die].busy_until_ns
        );
        debug_assert!(busy_ns <= end_ns - start_ns, "a die works at most all the time it is taken");
        // One look for the die and its channel: this is the hottest place of a device.
        if self.activity.is_some() {
            self.record_work(die, [start_ns, end_ns], kind, moved);
        }
        // An operation whose end nobody learns is offered again by its caller.
        if self.suspend.per_operation > 0 {
            self.all[die].suspendable = None;
        }
        self.all[die].busy_ns += busy_ns;
        self.rest(die, end_ns);
    }

    /// The die is free from `end_ns` on; idle time begins there.
    #[inline]
    fn rest(&mut self, die: usize, end_ns: u64) {
        let idle_before_ns = self.cleaning.idle_before_ns;
        let die = &mut self.all[die];
        die.busy_until_ns = end_ns;
        die.clean_from_ns = end_ns + idle_before_ns;
        die.is_folding = false;
    }

    /// Time at which cleaning between commands would take its next step; never, if it has none.
    #[inline]
    pub(crate) fn next_cleaning_ns(&self, die: usize) -> u64 {
        let state = &self.all[die];
        let clean_ns = if self.cleaning.background && state.may_clean {
            state.clean_from_ns
        } else {
            u64::MAX
        };
        if state.slc.is_none() { clean_ns } else { clean_ns.min(self.next_fold_ns(die)) }
    }

    /// True if a page of the cache is being programmed, or cleaning begins or goes on before `until_ns`.
    #[inline]
    pub(crate) fn has_work(&self, die: usize, until_ns: u64) -> bool {
        let state = &self.all[die];
        state.in_flight.is_some() || state.in_block || self.next_cleaning_ns(die) < until_ns
    }

    /// Cleans while the die is idle: takes every step that begins before `until_ns`.
    ///
    /// A step is one page copy, or the erase of a block whose pages are moved; a command that comes
    /// within it waits for its end. With suspension by block, it waits for the block.
    pub(crate) fn clean_until(&mut self, die: usize, until_ns: u64) -> Result<(), FtlError> {
        let whole_blocks = self.cleaning.suspend == Suspend::Block;
        // A block that was begun is finished where cleaning cannot be suspended within it.
        while self.next_cleaning_ns(die) < until_ns || (whole_blocks && self.all[die].in_block) {
            let fold_ns = self.next_fold_ns(die);
            // Folding before cleaning: a burst of the host finds room again.
            if fold_ns < until_ns && fold_ns <= self.next_cleaning_ns(die) {
                let kind = ActivityKind::BackgroundCleaning;
                let end_ns = self.fold_step(die, fold_ns, kind)?;
                self.offer(die, fold_ns, end_ns, kind);
                self.all[die].is_folding = true;
                continue;
            }
            let start_ns = self.all[die].clean_from_ns;
            debug_assert!(
                start_ns >= self.horizon_ns || !self.cleaning.takes_time,
                "die {die} cleans at {start_ns} ns, before the horizon of {} ns",
                self.horizon_ns
            );
            let layer = &mut self.all[die].layer.0;
            let before = Work::of(layer.flash().chip());
            let step = layer.clean_step(self.cleaning.free_target_blocks)?;
            let work = Work::of(layer.flash().chip()) - before;
            let state = &mut self.all[die];
            state.record();
            state.in_block = step == CleanStep::Moved;
            // After a step that found nothing the layer is not asked again until something is
            // written.
            state.may_clean = step != CleanStep::Idle;
            if self.cleaning.takes_time && work != Work::default() {
                let end_ns = self.clean(die, start_ns, work, ActivityKind::BackgroundCleaning);
                self.offer(die, start_ns, end_ns, ActivityKind::BackgroundCleaning);
                // Once begun, cleaning goes on without another pause.
                self.all[die].clean_from_ns = end_ns;
            } else {
                self.place(die, changes(work), start_ns, start_ns);
            }
        }
        Ok(())
    }

    /// Cleans a little after a program of the host, so that no write ever waits for a whole block.
    ///
    /// The program is done by then: the steps delay what comes after it on the die.
    #[inline]
    pub(crate) fn clean_after_program(&mut self, die: usize) -> Result<(), FtlError> {
        for _ in 0..self.cleaning.steps_per_program {
            let layer = &mut self.all[die].layer.0;
            // A step says what kind it was, and not what it cost: the chip's counts do.
            let before = Work::of(layer.flash().chip());
            let step = layer.clean_step(self.cleaning.free_target_blocks)?;
            let work = Work::of(layer.flash().chip()) - before;
            // Idle cleaning that may not be suspended within a block goes on where this one stopped.
            self.all[die].in_block = step == CleanStep::Moved;
            self.all[die].record();
            // Enough blocks are free: most programs end here, at once.
            if step == CleanStep::Idle {
                break;
            }
            let start_ns = self.all[die].busy_until_ns;
            if self.cleaning.takes_time {
                let end_ns = self.clean(die, start_ns, work, ActivityKind::ForegroundCleaning);
                self.offer(die, start_ns, end_ns, ActivityKind::ForegroundCleaning);
            } else {
                self.place(die, changes(work), start_ns, start_ns);
            }
        }
        Ok(())
    }

    /// Frees, in no time, what a device keeps free that spreads its cleaning over writes: a prepared device is not in
    /// the middle of it.
    pub(crate) fn clean_ahead(&mut self) -> Result<(), FtlError> {
        if self.cleaning.steps_per_program == 0 {
            return Ok(());
        }
        for die in &mut self.all {
            while die.layer.0.clean_step(self.cleaning.free_target_blocks)? != CleanStep::Idle {}
        }
        Ok(())
    }

    /// Nothing will be asked about times before `ns`.
    #[inline]
    pub(crate) fn forget_before(&mut self, ns: u64) {
        self.horizon_ns = ns;
    }

    /// Cleaning of a die between two moments.
    pub(crate) fn cleaning_between(&self, die: usize, from_ns: u64, to_ns: u64) -> u64 {
        self.all[die].cleaning_times.between(from_ns, to_ns)
    }

    /// A trim at `now_ns` changed what there is to clean.
    pub(crate) fn look_again(&mut self, die: usize, now_ns: u64) {
        let die = &mut self.all[die];
        die.may_clean = true;
        // The die may have been idle for long; what the trim left to clean was not there before it.
        die.clean_from_ns = die.clean_from_ns.max(now_ns);
    }

    /// Takes the dies up again at `now_ns` after a power cut: nothing is under way, nothing is booked.
    pub(crate) fn power_up(&mut self, now_ns: u64) {
        for channel in &mut self.channels {
            channel.power_up();
        }
        self.horizon_ns = now_ns;
        for die in &mut self.all {
            (die.busy_until_ns, die.drained_ns) = (now_ns, 0);
            die.clean_from_ns = now_ns + self.cleaning.idle_before_ns;
            (die.may_clean, die.in_block, die.in_flight) = (true, false, None);
            die.is_folding = false;
            die.suspendable = None;
            die.cleaning_times = CleaningTimes::default();
        }
    }

    /// Forgets time and counts; what the dies hold stays.
    pub(crate) fn start_over(&mut self) {
        self.channels.fill(Timeline::default());
        self.horizon_ns = 0;
        for die in &mut self.all {
            (die.busy_until_ns, die.drained_ns) = (0, 0);
            if let Some(slc) = &mut die.slc {
                slc.statistics = SlcStatistics::default();
                slc.chip.reset_counters();
            }
            die.clean_from_ns = self.cleaning.idle_before_ns;
            die.may_clean = true;
            die.cleaning_times = CleaningTimes::default();
            (die.busy_ns, die.foreground_cleaning_ns, die.background_cleaning_ns) = (0, 0, 0);
            (die.retried_reads, die.read_retries, die.suspensions) = (0, 0, 0);
            die.is_folding = false;
            die.suspendable = None;
        }
        self.activity = self.activity.take().map(|_| Box::default());
    }

    pub(crate) fn totals(&self) -> DieTotals {
        let mut totals = DieTotals::default();
        for die in &self.all {
            debug_assert!(
                die.foreground_cleaning_ns + die.background_cleaning_ns <= die.busy_ns,
                "a die that cleans is busy"
            );
            totals.busy_ns += die.busy_ns;
            totals.foreground_cleaning_ns += die.foreground_cleaning_ns;
            totals.background_cleaning_ns += die.background_cleaning_ns;
            totals.retried_reads += die.retried_reads;
            totals.read_retries += die.read_retries;
            totals.suspensions += die.suspensions;
        }
        totals
    }

    pub(crate) fn record_activity(&mut self, on: bool) {
        self.activity = on.then(|| self.activity.take().unwrap_or_default());
    }

    pub(crate) fn take_activity(&mut self) -> DeviceActivity {
        let Some(activity) = &mut self.activity else { return DeviceActivity::default() };
        let mut taken = std::mem::take(&mut **activity);
        if self.suspend.per_operation == 0 {
            return taken;
        }
        // An operation that a read may still suspend is told when its end is known.
        let is_open = |interval: &Activity| {
            let suspendable = self.all[interval.die as usize].suspendable;
            suspendable.is_some_and(|operation| operation.ends_at(interval.end_ns))
        };
        (activity.dies, taken.dies) = taken.dies.into_iter().partition(is_open);
        taken
    }
}

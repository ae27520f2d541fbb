//! What a die holds in simulated time, and the bytes of its pages.
//!
//! A layer carries out its operations at once, and the device places them in time afterwards. The medium follows:
//! it is a second chip, on which an operation takes place when its time is over. At a power cut the operation
//! under way is torn on it, and those to come never happen. The layer then begins anew from what the medium has.
//!
//! Bytes are kept here and not in the cells. Each write of the host gives its page a new *version*, which the
//! page of the chip remembers and copies take along. Of each logical page few versions are held: the newest one,
//! which the host reads, the newest one that is programmed, and the one before it while the layer has not done all
//! that belongs to the write (until then a rebuild may undo it). A still older version is never what a layer may
//! answer; where one does, the page is [`Content::Gone`] and reads fail.

mod follower;
mod saved;

use crate::cut_watch::CutWatch;
use crate::page_file::{PageBytes, PageFile};
use crate::slc::Slc;
use follower::Follower;
use ftl::{Ftl, FtlError, Work};
use nand::{Chip, CutPoint, MediumChange, NandError, PageAddress, Role, Timing};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a mapped page.
#[derive(Clone, Debug, Default)]
pub(crate) enum Content {
    /// Never written, or written with zeros.
    #[default]
    Zeros,
    Bytes(PageBytes),
    /// An older version than the newest one that was programmed: its bytes are no longer held.
    Gone,
}

/// The bytes of a page and the number of the write that made them so; 0 is what was there before all writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    pub(crate) number: u64,
    pub(crate) content: Content,
}

/// The versions of a page that a rebuild may find.
#[derive(Clone, Debug, Default)]
struct Durable {
    newest: Version,
    /// The one before, while the call that programmed the newest one is not over.
    before: Option<Version>,
}

/// A change of the chip and when it takes place.
#[derive(Clone, Debug)]
struct Placed {
    change: MediumChange,
    /// Of a program: the versions of data that are no copies, page by page.
    fresh: Vec<Option<Version>>,
    /// It is a change of the chip of the SLC cache, not of the layer's.
    is_slc: bool,
    /// Number of the layer's call that it belongs to.
    call: u64,
    begin_ns: u64,
    end_ns: u64,
}

/// The operation that a power cut tore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TornOperation {
    /// A page program.
    Program(PageAddress),
    /// A program of a spare area alone.
    Mark(PageAddress),
    /// An erase of a block.
    Erase(u32),
}

/// The chip of a die as it is in simulated time, and the bytes of the die's pages.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    layer: Follower,
    /// The blocks of the SLC cache, if there is one.
    slc: Option<Follower>,
    /// The newest version of each page that was written to the SLC cache: what folding moves.
    in_slc: FxHashMap<u32, Version>,
    /// Changes that are not over yet, in the order in which they take place.
    pending: VecDeque<Placed>,
    /// So many of them, the last ones, have no time yet.
    unplaced: usize,
    /// What the host reads, by logical page.
    host: FxHashMap<u32, Version>,
    /// What was programmed last, by logical page.
    durable: FxHashMap<u32, Durable>,
    /// Calls of the layer so far.
    calls: u64,
    /// The call of the change that was carried out last, and the pages whose versions it replaced.
    last_call: u64,
    replaced: Vec<u32>,
    /// Pages that the host gave up, and the newest version of any page at that time: a layer may answer any older one.
    given_up: FxHashMap<u32, u64>,
    last_version: u64,
    page_bytes: usize,
    /// Where bytes of pages are kept instead of memory.
    page_file: Option<Arc<PageFile>>,
    scratch: Vec<MediumChange>,
}

/// Where data come from that a program writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Host,
    /// The SLC cache, whose pages are folded.
    Slc,
    /// The host, on their way to the SLC cache.
    HostToSlc,
}

/// True if what a page of this role holds came from the host or was copied from such a page.
fn is_data(role: Role) -> bool {
    matches!(role, Role::Data | Role::Log | Role::SequentialLog)
}

impl Medium {
    /// The medium under a layer and its SLC cache, whose chips record their changes from now on. What it holds reads
    /// as zeros.
    pub(crate) fn new(layer: &mut dyn Ftl, slc: Option<&mut Slc>) -> Self {
        let layer = Follower::new(layer.flash_mut().chip_mut());
        Self {
            slc: slc.map(|slc| Follower::new(&mut slc.chip)),
            in_slc: FxHashMap::default(),
            pending: VecDeque::new(),
            unplaced: 0,
            host: FxHashMap::default(),
            durable: FxHashMap::default(),
            calls: 0,
            last_call: 0,
            replaced: Vec::new(),
            given_up: FxHashMap::default(),
            last_version: 0,
            page_bytes: layer.chip.geometry().page_data_bytes as usize,
            page_file: None,
            scratch: Vec::new(),
            layer,
        }
    }

    /// Bytes of pages go to a file from now on.
    pub(crate) fn keep_in(&mut self, file: Arc<PageFile>) {
        self.page_file = Some(file);
    }

    /// The host writes a page or a part of one.
    pub(crate) fn write(&mut self, lpn: u32, offset: usize, bytes: &Arc<[u8]>) {
        debug_assert!(offset + bytes.len() <= self.page_bytes, "the bytes lie in one page");
        self.last_version += 1;
        let (page, file) = (self.host.entry(lpn).or_default(), self.page_file.as_ref());
        page.number = self.last_version;
        // A page of zeros takes no room: images are full of them.
        if bytes.len() == self.page_bytes {
            let is_zero = bytes.iter().all(|byte| *byte == 0);
            page.content = if is_zero {
                Content::Zeros
            } else {
                Content::Bytes(PageBytes::keep(Arc::clone(bytes), file))
            };
            return;
        }
        let mut whole = match std::mem::take(&mut page.content) {
            Content::Bytes(held) => {
                let Some(held) = held.into_memory() else {
                    // The host cannot read its file: neither the page nor what is written of it can be kept.
                    page.content = Content::Gone;
                    return;
                };
                held
            }
            // Rewriting a part of a page that is gone makes the rest zeros: no version has it.
            Content::Zeros | Content::Gone => vec![0; self.page_bytes].into(),
        };
        if Arc::get_mut(&mut whole).is_none() {
            // An older version of the page has these bytes, too.
            whole = Arc::from(&*whole);
        }
        let own = Arc::get_mut(&mut whole).expect("it has just been made");
        own[offset..offset + bytes.len()].copy_from_slice(bytes);
        page.content = Content::Bytes(PageBytes::keep(whole, file));
    }

    /// The host forgets a page: it reads zeros from now on.
    pub(crate) fn trim(&mut self, lpn: u32) {
        // Pages that were never written are not remembered: a host may discard a whole device.
        if self.host.remove(&lpn).is_some() || self.durable.contains_key(&lpn) {
            self.given_up.insert(lpn, self.last_version);
        }
    }

    /// What the host reads from a page; false if its bytes are gone.
    pub(crate) fn read(&self, lpn: u32, offset: usize, bytes: &mut [u8]) -> bool {
        match self.host.get(&lpn).map(|page| &page.content) {
            None | Some(Content::Zeros) => bytes.fill(0),
            Some(Content::Bytes(held)) => return held.copy_to(offset, bytes),
            Some(Content::Gone) => return false,
        }
        true
    }

    /// True if the host has written the page, and not with zeros alone.
    pub(crate) fn is_allocated(&self, lpn: u32) -> bool {
        self.host.get(&lpn).is_some_and(|page| !matches!(page.content, Content::Zeros))
    }

    /// Takes over what the layer has done to its chip since the last call. Data that it programmed are those that
    /// the host has written last.
    pub(crate) fn record(&mut self, layer: &mut dyn Ftl) {
        self.take_over(layer.flash_mut().chip_mut(), Source::Host);
    }

    /// As [`Medium::record`], where the data are pages of the SLC cache.
    pub(crate) fn record_fold(&mut self, layer: &mut dyn Ftl) {
        self.take_over(layer.flash_mut().chip_mut(), Source::Slc);
    }

    /// Takes over what was done to the chip of the SLC cache since the last call.
    pub(crate) fn record_slc(&mut self, chip: &mut Chip) {
        self.take_over(chip, Source::HostToSlc);
    }

    fn take_over(&mut self, chip: &mut Chip, source: Source) {
        let mut changes = std::mem::take(&mut self.scratch);
        chip.take_changes(&mut changes);
        self.calls += 1;
        for change in changes.drain(..) {
            let versions = match source {
                // Not what the host has written last: that may wait in the write cache.
                Source::Slc => &self.in_slc,
                Source::Host | Source::HostToSlc => &self.host,
            };
            let fresh = fresh_pages(&change, versions);
            let is_slc = source == Source::HostToSlc;
            if let MediumChange::Program { units, .. } = &change
                && is_slc
            {
                let pages = units.iter().map(|unit| unit.tag.lpn()).zip(&fresh);
                let held = pages.filter_map(|(lpn, version)| Some((lpn, version.clone()?)));
                self.in_slc.extend(held);
            }
            let call = self.calls;
            self.pending.push_back(Placed { change, fresh, is_slc, call, begin_ns: 0, end_ns: 0 });
            self.unplaced += 1;
        }
        self.scratch = changes;
    }

    fn follower(&mut self, is_slc: bool) -> &mut Follower {
        match &mut self.slc {
            Some(slc) if is_slc => slc,
            _ => &mut self.layer,
        }
    }

    /// The next `count` changes take place one after the other from `begin_ns` to `end_ns`, each as long as its share
    /// of the array time. `watch` sees each of them.
    pub(crate) fn place(&mut self, count: u64, begin_ns: u64, end_ns: u64, watch: &mut CutWatch) {
        debug_assert!(count as usize <= self.unplaced, "{count} changes of {}", self.unplaced);
        let count = (count as usize).min(self.unplaced);
        let first = self.pending.len() - self.unplaced;
        let changes = first..first + count;
        debug_assert!(
            first == 0 || self.pending[first - 1].end_ns <= begin_ns,
            "a die does one thing at a time"
        );
        let array_ns = |placed: &Placed| {
            let follower = match &self.slc {
                Some(slc) if placed.is_slc => slc,
                _ => &self.layer,
            };
            let timing = follower.chip.timing();
            match &placed.change {
                MediumChange::Program { to, .. } => {
                    program_ns(timing, follower.chip.word_line_position(to.page))
                }
                MediumChange::Mark { .. } | MediumChange::Bad { .. } => timing.program_ns[0],
                MediumChange::Erase { .. } => timing.erase_ns,
            }
        };
        let times: Vec<u64> = self.pending.range(changes.clone()).map(array_ns).collect();
        let total_ns: u64 = times.iter().sum();
        // Reads and transfers lie between them, in the same proportion.
        let at = |array_ns: u64| {
            let share =
                u128::from(end_ns - begin_ns) * u128::from(array_ns) / u128::from(total_ns.max(1));
            begin_ns + share as u64
        };
        let mut done_ns = 0;
        for (placed, array_ns) in self.pending.range_mut(changes).zip(&times) {
            (placed.begin_ns, placed.end_ns) = (at(done_ns), at(done_ns + array_ns));
            done_ns += array_ns;
            watch.see(&placed.change, placed.begin_ns, placed.end_ns);
        }
        self.unplaced -= count;
    }

    /// What takes place after `from_ns` is put off by `later_ns`: it was suspended for so long. So is a cut that is to
    /// come in the middle of it.
    pub(crate) fn delay(&mut self, from_ns: u64, later_ns: u64, watch: &mut CutWatch) {
        let placed = ..self.pending.len() - self.unplaced;
        let put_off = self.pending.range_mut(placed).rev();
        for placed in put_off.take_while(|placed| placed.end_ns > from_ns) {
            let is_cut = |cut_ns: &u64| placed.begin_ns < *cut_ns && *cut_ns <= placed.end_ns;
            if watch.cut_ns.is_some_and(|cut_ns| cut_ns > from_ns && is_cut(&cut_ns)) {
                watch.cut_ns = watch.cut_ns.map(|cut_ns| cut_ns + later_ns);
            }
            placed.end_ns += later_ns;
            if placed.begin_ns >= from_ns {
                placed.begin_ns += later_ns;
            }
        }
    }

    /// Changes that no booking of the die has claimed take place at `now_ns`, in no time.
    pub(crate) fn settle(&mut self, now_ns: u64, watch: &mut CutWatch) {
        let busy_ns =
            self.pending.len().checked_sub(self.unplaced + 1).map(|last| self.pending[last].end_ns);
        let now_ns = busy_ns.map_or(now_ns, |busy_ns| busy_ns.max(now_ns));
        self.place(self.unplaced as u64, now_ns, now_ns, watch);
    }

    /// Carries out what is over by `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        self.carry_out_until(now_ns);
        // Nothing is left of the call that was carried out last.
        if self.pending.front().is_none_or(|next| next.call != self.last_call) {
            self.forget_replaced();
        }
    }

    fn carry_out_until(&mut self, now_ns: u64) {
        while self.pending.len() > self.unplaced {
            let Some(placed) = self.pending.pop_front_if(|placed| placed.end_ns <= now_ns) else {
                break;
            };
            let done = self.follower(placed.is_slc).chip.carry_out(&placed.change);
            debug_assert_eq!(done, Ok(()), "what the layer's chip took, the medium takes");
            self.follow(&placed);
        }
    }

    /// The versions that the last call replaced are not asked for any more.
    fn forget_replaced(&mut self) {
        for lpn in self.replaced.drain(..) {
            if let Some(durable) = self.durable.get_mut(&lpn) {
                durable.before = None;
            }
        }
    }

    /// The versions of the pages follow a change that took place.
    fn follow(&mut self, placed: &Placed) {
        if placed.call != self.last_call {
            self.forget_replaced();
            self.last_call = placed.call;
        }
        self.follow_pages(placed);
    }

    fn follow_pages(&mut self, placed: &Placed) {
        let follower = self.follower(placed.is_slc);
        match &placed.change {
            MediumChange::Program { to, units } => {
                let numbers: Vec<u64> = units
                    .iter()
                    .zip(&placed.fresh)
                    .map(|(unit, fresh)| match (unit.from, fresh) {
                        (Some(from), _) => follower.version_at(from),
                        (None, Some(version)) => version.number,
                        (None, None) => 0,
                    })
                    .collect();
                follower.set_versions(*to, &numbers);
                for (unit, version) in units.iter().zip(&placed.fresh) {
                    if let Some(version) = version {
                        self.replace(unit.tag.lpn(), version.clone());
                    }
                }
            }
            MediumChange::Erase { block } => follower.versions[*block as usize] = None,
            MediumChange::Mark { .. } | MediumChange::Bad { .. } => {}
        }
    }

    /// A newer version of a page was programmed.
    fn replace(&mut self, lpn: u32, version: Version) {
        let durable = self.durable.entry(lpn).or_default();
        let before = std::mem::replace(&mut durable.newest, version);
        // A call may program a page twice: what was there before the call is what a rebuild goes back to.
        durable.before.get_or_insert(before);
        self.replaced.push(lpn);
    }

    /// The supply fails at `at_ns`: what is over has happened, what is under way is torn, all else never happens.
    pub(crate) fn cut_power(&mut self, at_ns: u64) -> Option<TornOperation> {
        debug_assert_eq!(self.unplaced, 0, "every change has its time");
        self.advance(at_ns);
        let torn = self.pending.pop_front().filter(|placed| placed.begin_ns < at_ns);
        self.pending.clear();
        let placed = torn?;
        let chip = &mut self.follower(placed.is_slc).chip;
        chip.cut_power_after(0, CutPoint::Inside);
        let done = chip.carry_out(&placed.change);
        debug_assert_eq!(done, Err(NandError::PowerLost), "the operation is torn");
        chip.power_on();
        Some(match placed.change {
            MediumChange::Program { to, .. } => TornOperation::Program(to),
            MediumChange::Mark { at, .. } => TornOperation::Mark(at),
            MediumChange::Bad { block } => TornOperation::Mark(PageAddress::new(block, 0)),
            MediumChange::Erase { block } => TornOperation::Erase(block),
        })
    }

    /// The layer and the SLC cache begin anew from what the medium has; the host reads what it finds there. Returns the
    /// work of both.
    ///
    /// With `cut_after`, the supply fails again after so many operations of the layer's rebuild, in the middle of the
    /// next one.
    ///
    /// # Errors
    /// As [`Ftl::rebuild`]; after a power loss the medium has what was done by then, and the call can be made again.
    pub(crate) fn rebuild(
        &mut self,
        layer: &mut dyn Ftl,
        slc: Option<&mut Slc>,
        cut_after: Option<u64>,
    ) -> Result<Work, FtlError> {
        let mut chip = self.layer.lead_again(layer.flash().chip());
        if let Some(operations) = cut_after {
            chip.cut_power_after(operations, CutPoint::Inside);
        }
        let before = Work::of(&chip);
        *layer.flash_mut().chip_mut() = chip;
        let mut rebuilt = layer.rebuild();
        let (mut slc, mut slc_work) = (slc, Work::default());
        if let (Some(slc), Some(follower)) = (&mut slc, &mut self.slc) {
            slc.chip = follower.lead_again(&slc.chip);
        }
        if let Some(slc) = &mut slc
            && rebuilt.is_ok()
        {
            let slc_before = Work::of(&slc.chip);
            rebuilt = slc.rebuild(layer);
            slc_work = Work::of(&slc.chip) - slc_before;
        }
        // What the rebuild programs and erases is over when the device answers again.
        self.record(layer);
        self.settle(0, &mut CutWatch::default());
        // The versions before the torn call are looked for below, so they are kept.
        while let Some(placed) = self.pending.pop_front() {
            let done = self.follower(placed.is_slc).chip.carry_out(&placed.change);
            debug_assert_eq!(done, Ok(()), "what the layer's chip took, the medium takes");
            self.follow_pages(&placed);
        }
        let chip = layer.flash_mut().chip_mut();
        chip.power_on();
        if rebuilt.is_err() {
            // With the torn operation, which is no change that could be carried out again.
            self.layer.chip = chip.clone();
            self.layer.chip.stop_changes();
        }
        rebuilt?;
        let mut work = Work::of(layer.flash().chip()) - before;
        work.counters.spare_reads += slc_work.counters.spare_reads;
        self.look_up(layer, slc.as_deref());
        Ok(work)
    }

    /// The host reads what the layer leads to.
    fn look_up(&mut self, layer: &dyn Ftl, slc: Option<&Slc>) {
        let mut durable = std::mem::take(&mut self.durable);
        let found = |(lpn, durable): (&u32, &mut Durable)| {
            let number = if let Some(at) = slc.and_then(|slc| slc.place(*lpn)) {
                self.slc.as_ref()?.version_at(at)
            } else {
                let at = layer.locate(*lpn)?;
                let block = layer.flash().physical_block(at.block);
                self.layer.version_at(PageAddress::new(block, at.page))
            };
            let held = [Some(&durable.newest), durable.before.as_ref()];
            let is_given_up =
                self.given_up.get(lpn).is_some_and(|last| *last >= durable.newest.number);
            let content = match held.into_iter().flatten().find(|held| held.number == number) {
                Some(version) => version.content.clone(),
                // Zeros are as good as the older version, whose bytes are no longer held.
                None if is_given_up => Content::Zeros,
                None => Content::Gone,
            };
            *durable = Durable { newest: Version { number, content }, before: None };
            Some((*lpn, durable.newest.clone()))
        };
        self.host = durable.iter_mut().filter_map(found).collect();
        self.durable = durable;
        let is_in_slc = |lpn: &u32| slc.is_some_and(|slc| slc.place(*lpn).is_some());
        let kept = self.host.iter().filter(|(lpn, _)| is_in_slc(lpn));
        self.in_slc = kept.map(|(lpn, version)| (*lpn, version.clone())).collect();
        self.replaced.clear();
    }

    /// Adds everything that a later run could tell apart to a digest: tags, versions and bytes.
    pub(crate) fn digest(&self, hash: &mut blake3::Hasher) {
        // Operations that are not over yet: a later run goes on with them.
        for placed in &self.pending {
            hash.update(&placed.begin_ns.to_le_bytes());
            hash.update(&placed.end_ns.to_le_bytes());
        }
        self.layer.digest(hash);
        if let Some(slc) = &self.slc {
            slc.digest(hash);
        }
        let mut pages: Vec<_> = self.host.iter().collect();
        pages.sort_unstable_by_key(|(lpn, _)| **lpn);
        for (lpn, version) in pages {
            hash.update(&lpn.to_le_bytes());
            match &version.content {
                Content::Zeros => drop(hash.update(&[0])),
                Content::Gone => drop(hash.update(&[1])),
                Content::Bytes(held) => {
                    if held.look(|bytes| hash.update(bytes).count()).is_none() {
                        hash.update(&[1]);
                    }
                }
            }
        }
    }
}

/// Of a program, the versions of the pages that are no copies and hold data.
fn fresh_pages(change: &MediumChange, versions: &FxHashMap<u32, Version>) -> Vec<Option<Version>> {
    let MediumChange::Program { units, .. } = change else { return Vec::new() };
    let version = |unit: &nand::Unit| {
        let is_fresh = unit.from.is_none() && is_data(unit.tag.role());
        is_fresh.then(|| versions.get(&unit.tag.lpn()).cloned().unwrap_or_default())
    };
    units.iter().map(version).collect()
}

/// Array time of a program, by the position of its page in the word line.
fn program_ns(timing: &Timing, position: u32) -> u64 {
    // A part that lists fewer times repeats the last.
    timing.program_ns[(position as usize).min(timing.program_ns.len() - 1)]
}

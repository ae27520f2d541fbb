//! What a translation layer changed on its chip, operation by operation, to be carried out again on a copy.
//!
//! A device carries the operations of its layers out at once and places them in time afterwards. A second
//! chip, the medium, follows in simulated time: at a power cut it has what was done by then, and the operation
//! under way is torn there. A change says where each page came from, so that bytes that are kept beside the
//! chip can follow their pages.

use super::pages::WHOLE_PROGRAM;
use super::{Chip, SPARE_PROGRAM};
use crate::{Counters, NandError, PageAddress, Tag};

/// A page as it was programmed: its tag, and the page that it was copied from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// What the spare area says.
    pub tag: Tag,
    /// Source of a copy; none of data that came from the host, of padding and of mapping information.
    pub from: Option<PageAddress>,
}

/// An operation of a layer that changed the medium. Reads change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediumChange {
    /// One program of a page, or of all parts of an array page.
    Program {
        /// The first page that was programmed.
        to: PageAddress,
        /// The pages from `to` on.
        units: Box<[Unit]>,
    },
    /// A program of the spare area alone.
    Mark {
        /// The page whose spare area was programmed.
        at: PageAddress,
        /// The marks.
        tag: Tag,
    },
    /// An erase.
    Erase {
        /// The block that was erased.
        block: u32,
    },
    /// A bad mark.
    Bad {
        /// The block that was marked.
        block: u32,
    },
}

impl Chip {
    /// Records from now on what changes the medium, for [`Chip::take_changes`].
    ///
    /// For chips under a translation layer: the programs of raw drivers have a journal of their own, and a failed
    /// program or erase is not recorded.
    pub fn record_changes(&mut self) {
        debug_assert!(self.faults.is_none(), "no operation of a recorded chip fails");
        self.changes = Some(Vec::new());
        self.watch();
    }

    /// Ends the recording; the changes that were not taken are forgotten.
    pub fn stop_changes(&mut self) {
        self.changes = None;
        self.watch();
    }

    /// Moves the changes since the start or the last call to the end of `changes`, in the order of operations.
    pub fn take_changes(&mut self, changes: &mut Vec<MediumChange>) {
        if let Some(recorded) = &mut self.changes {
            changes.append(recorded);
        }
    }

    /// Notes a change that was carried out, if changes are recorded.
    #[cold]
    pub(super) fn record(&mut self, change: MediumChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// As [`Chip::record`], of a program of pages that are no copies as far as it is known yet.
    // Apart, so that nothing of it stands in the way of a plain program.
    #[cold]
    #[inline(never)]
    pub(super) fn record_program(&mut self, to: PageAddress, tags: &[Tag]) {
        if self.changes.is_some() {
            let units = tags.iter().map(|tag| Unit { tag: *tag, from: None }).collect();
            self.record(MediumChange::Program { to, units });
        }
    }

    /// Adds to the last change where its pages were copied from.
    pub(super) fn record_sources(&mut self, sources: &[PageAddress]) {
        let last = self.changes.as_mut().and_then(|changes| changes.last_mut());
        let Some(MediumChange::Program { units, .. }) = last else { return };
        debug_assert!(sources.len() <= units.len(), "each copied page has a place");
        for (unit, from) in units.iter_mut().zip(sources) {
            unit.from = Some(*from);
        }
    }

    /// Carries a recorded change out: the same pages, tags and counts.
    ///
    /// # Errors
    /// [`NandError::PowerLost`] at a cut, which tears the operation as it tears any other. The rules of the part, if
    /// the chip is not as the other one was before the change.
    pub fn carry_out(&mut self, change: &MediumChange) -> Result<(), NandError> {
        match change {
            MediumChange::Program { to, units } => self.program_again(*to, units),
            MediumChange::Mark { at, tag } => self.program_spare(*at, *tag),
            MediumChange::Erase { block } => self.erase(*block),
            MediumChange::Bad { block } => self.mark_bad(*block),
        }
    }

    fn program_again(&mut self, to: PageAddress, units: &[Unit]) -> Result<(), NandError> {
        let index = self.checked_index(to)?;
        self.check_program(to).map_err(|error| self.refuse(error))?;
        let completes_before_cut = !self.watched || self.enter_program(to, index, units[0].tag)?;
        let mut last = to;
        for (page, unit) in (to.page..).zip(units) {
            last.page = page;
            let before = self.pages.programs(last);
            // A mark may have been programmed before the data, as `program_tag` knows it.
            let tag = if before == 0 { unit.tag } else { self.pages.tag(last).and(unit.tag) };
            self.pages.set(last, before + WHOLE_PROGRAM, tag);
        }
        debug_assert!(
            self.pages.programs(to) / SPARE_PROGRAM <= self.geometry.oob_programs_max,
            "{to:?} is programmed as often as the part allows"
        );
        self.raise_next_page(last);
        self.count_program(to.page);
        // Copies of whole pages are no moves of parts: see `copy_together`.
        if self.geometry.pages_per_program > 1 {
            self.moved_pages += units.iter().filter(|unit| unit.from.is_some()).count() as u64;
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Takes the counts of reads over from the chip that this one follows: reads are no changes.
    pub fn adopt_reads(&mut self, leader: &Self) {
        let Counters { page_reads, spare_reads, .. } = leader.counters;
        (self.counters.page_reads, self.counters.spare_reads) = (page_reads, spare_reads);
        (self.ecc, self.extra_read_ns) = (leader.ecc, leader.extra_read_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chip, CutPoint, LowerPages, Storage};
    use super::MediumChange;
    use crate::random::Stream;
    use crate::{FaultSettings, NandError, PageAddress, Part, Role, Tag, find_part};

    fn part(parts: u32) -> Part {
        let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
        (part.geometry.blocks, part.geometry.pages_per_block) = (4, 8);
        part.geometry = part.geometry.divided(parts);
        part
    }

    fn chip(parts: u32) -> Chip {
        Chip::new(&part(parts), Storage::Tags, &FaultSettings::default())
    }

    /// Programs, copies, marks and erases at random, each where the part allows it.
    fn work(chip: &mut Chip, seed: u64) {
        let mut draw = Stream::new(seed, "changes of a chip");
        let together = chip.geometry().pages_per_program;
        for number in 0..200_u64 {
            let (block, other) = (draw.below(4), draw.below(4));
            let to = PageAddress::new(block, chip.next_page(block));
            let is_full = to.page + together > chip.geometry().pages_per_block;
            let sequence = number * 16;
            match draw.below(5) {
                0 => chip.erase(block).expect("erased"),
                1 if chip.next_page(block) > 0 && together == 1 => {
                    let _ = chip.program_spare(PageAddress::new(block, 0), Tag::link());
                }
                _ if is_full => {}
                2 | 3 if together == 1 => chip
                    .program(to, Tag::new(number as u32, sequence, Role::Data), None)
                    .expect("programmed"),
                2 => chip
                    .program_together(to, &[number as u32, 7], sequence, Role::Log)
                    .expect("programmed"),
                _ if other == block || chip.next_page(other) == 0 => {}
                3 => chip.copy_together(other, &[0, 1], to, sequence, Role::Data).expect("copied"),
                _ if together == 1 => {
                    let tag = Tag::new(number as u32, sequence, Role::Data);
                    chip.copy(PageAddress::new(other, 0), to, tag).expect("copied");
                }
                _ => chip.copy_array_page(PageAddress::new(other, 0), to).expect("moved"),
            }
        }
    }

    #[test]
    fn changes_carried_out_again_give_the_same_chip() {
        for (parts, seed) in [(1, 1), (1, 2), (4, 3), (4, 4)] {
            let mut leader = chip(parts);
            let mut follower = leader.clone();
            leader.record_changes();
            work(&mut leader, seed);
            let mut changes = Vec::new();
            leader.take_changes(&mut changes);
            assert!(changes.len() > 50, "{} changes", changes.len());
            let copies = changes.iter().filter(|change| {
                matches!(change, MediumChange::Program { units, .. } if units[0].from.is_some())
            });
            assert!(copies.count() > 5, "copies are among them");
            for change in &changes {
                follower.carry_out(change).expect("as before");
            }
            assert!(follower.is_same_medium(&leader));
            follower.adopt_reads(&leader);
            assert_eq!(follower.counters(), leader.counters());
            assert_eq!(follower.moved_pages(), leader.moved_pages());
            assert_eq!(follower.erase_counts(), leader.erase_counts());
            // One change less is another medium.
            let mut short = chip(parts);
            for change in &changes[..changes.len() - 1] {
                short.carry_out(change).expect("as before");
            }
            assert!(!short.is_same_medium(&leader));
        }
    }

    #[test]
    fn a_torn_change_is_torn_as_the_operation_would_be() {
        for lower_pages in [LowerPages::Lost, LowerPages::BackedUp] {
            let (mut leader, mut follower) = (chip(1), chip(1));
            follower.set_lower_pages(lower_pages);
            leader.record_changes();
            for page in 0..6 {
                let tag = Tag::new(page, u64::from(page), Role::Data);
                leader.program(PageAddress::new(0, page), tag, None).expect("programmed");
            }
            let mut changes = Vec::new();
            leader.take_changes(&mut changes);
            let (torn, whole) = changes.split_last().expect("six");
            for change in whole {
                follower.carry_out(change).expect("as before");
            }
            follower.cut_power_after(0, CutPoint::Inside);
            assert_eq!(follower.carry_out(torn), Err(NandError::PowerLost));
            follower.power_on();
            let lost = |chip: &mut Chip, page| chip.read(PageAddress::new(0, page)).is_err();
            assert!(lost(&mut follower, 5));
            // Page 5 is the upper page of page 2 (the paired pages of a 128-page part begin with 0 and 2 apart).
            let lower = leader.paired_pages(5);
            assert!(!lower.is_empty(), "page 5 is an upper page");
            for page in lower {
                assert_eq!(
                    lost(&mut follower, page),
                    lower_pages == LowerPages::Lost,
                    "page {page}"
                );
            }
        }
    }
}

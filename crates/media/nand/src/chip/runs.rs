//! Copies of several pages at once: what cleaning does most, with the rules looked at once.
//!
//! A run does exactly what as many single copies do. Wherever a rule stands against one of them, or
//! something must look at each operation, there is no run: the caller copies page by page, and meets
//! the rule at the page that breaks it.

use super::{Chip, ReadTimes};
use crate::{PageAddress, PageOrder, Role};

impl Chip {
    /// Copies pages of block `from` to consecutive pages from `to` on, all of them or none.
    ///
    /// `lpns` are the logical pages of the copied pages, in the order in which these lie in their
    /// block. The copies get the sequence numbers from `sequence` on. The state afterwards is that
    /// after as many calls of [`Chip::copy`].
    ///
    /// Returns false, and does nothing, if one of the copies would be refused, would fail, would
    /// find something programmed at its place, or if a page of `from` is lost (see [`Tag::lost`]).
    /// The same holds for a chip that stores bytes, that may fail, or whose operations are recorded, and for a part
    /// whose pages take different times to read: where the pages of a run lie is not looked at.
    #[inline]
    pub fn copy_run(
        &mut self,
        from: u32,
        lpns: &[u32],
        to: PageAddress,
        sequence: u64,
        role: Role,
    ) -> bool {
        let is_plain = !self.watched && self.bytes.is_none() && self.reads_alike == ReadTimes::One;
        if !is_plain || !self.may_copy_run(from, lpns.len(), to) {
            return false;
        }
        debug_assert!(self.states_in_order(from, lpns), "a run copies pages of block {from}");
        self.pages.program_run(to, lpns, sequence, role);
        self.raise_next_page(PageAddress::new(to.block, to.page + lpns.len() as u32 - 1));
        self.counters.page_reads += lpns.len() as u64;
        self.count_programs(to.page, lpns.len() as u32);
        true
    }

    /// True if so many copies from `from` to the pages from `to` on break no rule and each needs
    /// nothing but its tag.
    #[inline]
    fn may_copy_run(&self, from: u32, pages: usize, to: PageAddress) -> bool {
        let pages_per_block = self.geometry.pages_per_block as usize;
        let is_in_range = from < self.geometry.blocks
            && to.block < self.geometry.blocks
            && (1..=pages_per_block).contains(&pages)
            && to.page as usize <= pages_per_block - pages;
        if !is_in_range || self.check_block(to.block).is_err() {
            return false;
        }
        let next = self.next_page(to.block);
        let is_in_order = match self.geometry.page_order {
            PageOrder::Any => true,
            PageOrder::Ascending => to.page >= next,
            PageOrder::Sequential => to.page == next,
        };
        is_in_order
            && self.geometry.oob_programs_max > 0
            // A mark in a spare area would have to be anded with the tag.
            && self.pages.is_blank(to, pages)
            // Lost pages are rare: one anywhere in the block is a reason to look at each page.
            && !self.pages.has_lost(from)
    }

    /// True if pages of the block state these logical pages, in this order.
    fn states_in_order(&self, block: u32, lpns: &[u32]) -> bool {
        let mut stated = self.peek_lpns(block);
        lpns.iter().all(|lpn| stated.any(|stated| stated == *lpn))
    }

    #[inline]
    fn count_programs(&mut self, first: u32, pages: u32) {
        self.counters.page_programs += u64::from(pages);
        // As `count_program` does for one page.
        if self.timing.program_ns.len() > 1 {
            for page in first..first + pages {
                self.programs_by_position[self.word_line_position(page) as usize] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chip, CutPoint, Storage, Torn};
    use crate::random::Stream;
    use crate::{
        Cell, FaultSettings, NandError, PageAddress, PageOrder, Part, Role, Tag, find_part,
    };

    const CASES: u64 = 20_000;
    const BLOCKS: u32 = 4;

    /// A run that a test asks for.
    #[derive(Clone, Debug)]
    struct Copies {
        from: u32,
        pages: Vec<u32>,
        to: PageAddress,
        sequence: u64,
        role: Role,
    }

    impl Copies {
        fn lpns(&self, chip: &Chip) -> Vec<u32> {
            let lpn = |page: &u32| chip.peek(PageAddress::new(self.from, *page)).lpn();
            self.pages.iter().map(lpn).collect()
        }

        /// Page by page, until one fails.
        fn singly(&self, chip: &mut Chip) -> Result<(), NandError> {
            for (number, (page, lpn)) in (0..).zip(self.pages.iter().zip(self.lpns(chip))) {
                let from = PageAddress::new(self.from, *page);
                let to = PageAddress::new(self.to.block, self.to.page + number);
                chip.copy(from, to, Tag::new(lpn, self.sequence + u64::from(number), self.role))?;
            }
            Ok(())
        }

        /// As a run, or page by page where there is none.
        fn at_once(&self, chip: &mut Chip) -> (bool, Result<(), NandError>) {
            let lpns = self.lpns(chip);
            if chip.copy_run(self.from, &lpns, self.to, self.sequence, self.role) {
                (true, Ok(()))
            } else {
                (false, self.singly(chip))
            }
        }
    }

    fn part(draw: &mut Stream) -> Part {
        let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
        let geometry = &mut part.geometry;
        (geometry.blocks, geometry.pages_per_block) = (BLOCKS, [8, 12, 16][draw.below(3) as usize]);
        (geometry.page_data_bytes, geometry.page_oob_bytes) = (512, 16);
        geometry.page_order =
            [PageOrder::Any, PageOrder::Ascending, PageOrder::Sequential][draw.below(3) as usize];
        geometry.data_programs_max = 1 + draw.below(4) as u8;
        geometry.oob_programs_max = draw.below(4) as u8;
        let (cell, times) = [(Cell::Slc, 1), (Cell::Mlc, 1), (Cell::Mlc, 2), (Cell::Tlc, 3)]
            [draw.below(4) as usize];
        geometry.cell = cell;
        part.timing.program_ns = (1..=times).collect();
        part
    }

    fn page(draw: &mut Stream, chip: &Chip) -> PageAddress {
        PageAddress::new(draw.below(BLOCKS), draw.below(chip.geometry().pages_per_block))
    }

    /// One operation of any kind; many are refused.
    fn disturb(chip: &mut Chip, draw: &mut Stream) {
        let at = page(draw, chip);
        let tag = Tag::new(draw.below(100), u64::from(draw.below(1000)), Role::Data);
        let _ = match draw.below(12) {
            0 => chip.mark_bad(at.block),
            1 => chip.program_spare(at, Tag::link()),
            2 => chip.program(at, tag.lost(), None),
            3 => chip.program_raw(at, &[0; 8], &[]),
            4 => {
                chip.cut_power_after(0, CutPoint::Inside);
                let _ = chip.erase(at.block);
                chip.power_on();
                Ok(())
            }
            5 => {
                chip.cut_power_after(0, CutPoint::Inside);
                let _ = chip.program(at, tag, None);
                chip.power_on();
                Ok(())
            }
            6 | 7 => chip.erase(at.block),
            // In order, which is what cleaning meets.
            _ => (0..=at.page)
                .try_for_each(|page| chip.program(PageAddress::new(at.block, page), tag, None)),
        };
    }

    /// Something that must see every operation.
    fn watch(chip: &mut Chip, draw: &mut Stream) {
        let fails = |probability| FaultSettings {
            seed: 1,
            program_failure_probability: probability,
            ..FaultSettings::default()
        };
        match draw.below(24) {
            0 => chip.start_log(),
            1 => chip.start_journal(),
            2 => chip.set_faults(&fails(0.1)),
            3 => chip.set_faults(&FaultSettings { seed: 2, bit_errors: true, ..fails(0.0) }),
            4 => chip.set_faults(&FaultSettings { seed: 3, wear_out: true, ..fails(0.0) }),
            5..8 => {
                let point = [CutPoint::Before, CutPoint::Inside, CutPoint::After];
                chip.set_torn([Torn::Unreadable, Torn::Nothing][draw.below(2) as usize]);
                chip.cut_power_after(u64::from(draw.below(20)), point[draw.below(3) as usize]);
            }
            _ => {}
        }
    }

    /// A chip with a past, and copies that may be possible on it.
    fn case(number: u64) -> (Chip, Copies) {
        let mut draw = Stream::new(number, "copies");
        let part = part(&mut draw);
        let storage = if draw.below(16) == 0 { Storage::Bytes } else { Storage::Tags };
        let mut chip = Chip::new(&part, storage, &FaultSettings::default());
        (0..draw.below(6)).for_each(|_| disturb(&mut chip, &mut draw));
        if draw.below(4) != 0 {
            // Torn pages outlive the cut, and a chip that has one is looked at in each operation.
            (0..BLOCKS).for_each(|block| _ = chip.erase(block));
            let at = page(&mut draw, &chip);
            let lpn = |page| Tag::new(7 * page, u64::from(page), Role::Data);
            for page in 0..at.page {
                let _ = chip.program(PageAddress::new(at.block, page), lpn(page), None);
            }
        }
        watch(&mut chip, &mut draw);
        let from = draw.below(BLOCKS);
        let pages_per_block = chip.geometry().pages_per_block;
        let to_block = (from + 1 + draw.below(BLOCKS - 1)) % BLOCKS;
        // Mostly where the block goes on.
        let to_page = match draw.below(4) {
            0 => draw.below(pages_per_block + 1),
            _ => chip.next_page(to_block),
        };
        let room = if draw.below(8) == 0 { pages_per_block } else { pages_per_block - to_page };
        let longest = room.min(1 + draw.below(pages_per_block)) as usize;
        let pages: Vec<u32> = (0..pages_per_block).filter(|_| draw.below(3) != 0).collect();
        let copies = Copies {
            from,
            pages: pages.into_iter().take(longest).collect(),
            to: PageAddress::new(to_block, to_page),
            // The lower half of the number overflows within some of the runs.
            sequence: (1 << 32) * u64::from(draw.below(3))
                + [1 << 20, (1 << 32) - 5][draw.below(2) as usize],
            role: [Role::Data, Role::Log, Role::Translation][draw.below(3) as usize],
        };
        (chip, copies)
    }

    /// All state there is: tags, counters, wear, marks, faults and their streams, the log, power.
    fn state(chip: &Chip) -> String {
        format!("{chip:?} {:?}", chip.busy_ns())
    }

    #[test]
    fn a_run_leaves_what_single_copies_leave() {
        let (mut runs, mut failures, mut cuts, mut refused) = (0, 0, 0, 0);
        for number in 0..CASES {
            let (chip, copies) = case(number);
            let (mut single, mut batched) = (chip.clone(), chip);
            let expected = copies.singly(&mut single);
            let (is_run, got) = copies.at_once(&mut batched);
            assert_eq!(got, expected, "case {number}: {copies:?}");
            assert_eq!(state(&batched), state(&single), "case {number}: {copies:?}");
            runs += u64::from(is_run);
            match expected {
                Err(NandError::ProgramFailed { .. }) => failures += 1,
                Err(NandError::PowerLost) => cuts += 1,
                Err(_) => refused += 1,
                Ok(()) => {}
            }
        }
        // Otherwise the comparison would be one of single copies with single copies.
        assert!(runs > CASES / 4, "{runs} of {CASES} were runs");
        for (what, count) in [("failed", failures), ("were cut", cuts), ("were refused", refused)] {
            assert!(count > 100, "{count} of {CASES} {what}");
        }
    }

    /// A run is all or nothing: where there is none, the chip is as it was.
    #[test]
    fn a_run_that_is_not_possible_changes_nothing() {
        let mut refused = 0;
        for number in 0..CASES {
            let (mut chip, copies) = case(number);
            let before = state(&chip);
            let lpns = copies.lpns(&chip);
            if !chip.copy_run(copies.from, &lpns, copies.to, copies.sequence, copies.role) {
                assert_eq!(state(&chip), before, "case {number}: {copies:?}");
                refused += 1;
            }
        }
        assert!(refused > CASES / 20, "{refused} of {CASES} were refused");
    }

    #[test]
    fn a_run_outside_the_chip_is_refused() {
        let part = find_part("published-small-block").expect("in the catalogue");
        let mut chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        let (blocks, pages) = (part.geometry.blocks, part.geometry.pages_per_block);
        let erased = vec![u32::MAX; pages as usize + 1];
        let mut run = |from, pages: u32, block, page| {
            let to = PageAddress::new(block, page);
            chip.copy_run(from, &erased[..pages as usize], to, 0, Role::Data)
        };
        assert!(!run(blocks, 1, 0, 0) && !run(0, 1, blocks, 0) && !run(0, 1, u32::MAX, 0));
        assert!(!run(0, 1, 1, pages) && !run(0, 2, 1, pages - 1) && !run(0, 1, 1, u32::MAX));
        assert!(!run(0, pages + 1, 1, 0) && !run(0, 0, 1, 0));
        assert!(run(0, pages, 1, 0));
    }
}

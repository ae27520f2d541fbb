//! Pages that the array reads and programs in one operation: the mapping units of a device's layer.
//!
//! A page of a chip is then a part of an array page (see [`crate::Geometry::divided`]). The rules of the part hold for
//! array pages: each is programmed once, in order, and whole. Units that nobody gave are filled with padding, as a
//! program writes all cells of the word line in any case. A torn or failed program takes all of its units.

use super::{Chip, NEXT_PAGE};
use crate::geometry::PAGES_PER_PROGRAM_MAX;
use crate::{NandError, PageAddress, Role, Tag};
use std::ops::Range;

/// Logical page of padding: that of an erased tag, which no layer has.
const PADDING: u32 = u32::MAX;

const _: () = assert!(PAGES_PER_PROGRAM_MAX < NEXT_PAGE, "a block holds more than one array page");

/// Logical pages of an array page, padded to its end.
type Units = [u32; PAGES_PER_PROGRAM_MAX as usize];

impl Chip {
    /// Pages that [`Chip::copy_together`] moved since the counters were last set to zero.
    #[inline]
    pub fn moved_pages(&self) -> u64 {
        self.moved_pages
    }

    /// The pages that are read and programmed together with `page`, itself among them.
    #[inline]
    pub(super) fn pages_with(&self, page: u32) -> Range<u32> {
        let pages = self.geometry.pages_per_program;
        let first = page - page % pages;
        first..first + pages
    }

    /// Reads a page that lies in the array page read last: it is in the register, and only crosses the bus.
    ///
    /// Returns true if the page is lost (see [`Tag::lost`]). Not an operation of the array.
    ///
    /// # Errors
    /// As [`Chip::read`].
    #[inline]
    pub fn read_register(&mut self, at: PageAddress) -> Result<bool, NandError> {
        let index = self.checked_index(at)?;
        if self.watched {
            if !self.powered {
                return Err(NandError::PowerLost);
            }
            self.correct_read(at, index, self.geometry.page_data_bytes)?;
        }
        Ok(self.pages.is_lost(at))
    }

    /// Programs one array page from `to`, its first page, on: a page for each of `lpns`, and padding after them.
    ///
    /// The pages get the sequence numbers from `sequence` on, padding included. Counts one page program. For chips
    /// that keep tags alone.
    ///
    /// # Errors
    /// As [`Chip::program`]. After [`NandError::ProgramFailed`] and a torn program none of the pages can be read.
    ///
    /// # Panics
    /// If there are more logical pages than an array page has, and in debug builds if `to` is not its first page.
    pub fn program_together(
        &mut self,
        to: PageAddress,
        lpns: &[u32],
        sequence: u64,
        role: Role,
    ) -> Result<(), NandError> {
        // Checked in every build: a page too many would be lost without a trace.
        assert!(lpns.len() <= self.geometry.pages_per_program as usize, "an array page holds them");
        let mut units: Units = [PADDING; PAGES_PER_PROGRAM_MAX as usize];
        units[..lpns.len()].copy_from_slice(lpns);
        self.program_units(to, &units, sequence, role, 0)
    }

    /// As [`Chip::program_together`]; `lost` has a bit for each page that stands for lost data.
    #[inline]
    fn program_units(
        &mut self,
        to: PageAddress,
        units: &Units,
        sequence: u64,
        role: Role,
        lost: u32,
    ) -> Result<(), NandError> {
        let pages = self.geometry.pages_per_program;
        debug_assert!(to.page.is_multiple_of(pages), "{to:?} is the first page of an array page");
        debug_assert!(self.bytes.is_none(), "pages that are programmed together have no bytes");
        let index = self.checked_index(to)?;
        // The rules of the first page are those of all: they are programmed together or not at all.
        self.check_program(to).map_err(|error| self.refuse(error))?;
        let completes_before_cut =
            !self.watched || self.enter_program(to, index, Tag::new(units[0], sequence, role))?;
        // Padding has the role and the numbers that follow, so that the block stays a run of four bytes a page.
        self.pages.program_run(to, &units[..pages as usize], sequence, role);
        for unit in (0..pages).filter(|unit| lost >> unit & 1 != 0) {
            let at = PageAddress::new(to.block, to.page + unit);
            self.pages.set(at, self.pages.programs(at), self.pages.tag(at).lost());
        }
        // To the end of the array page: what is padding cannot be programmed later.
        self.raise_next_page(PageAddress::new(to.block, to.page + pages - 1));
        self.count_program(to.page);
        if self.watched {
            let tags = self.tags_from(to, pages);
            self.record_program(to, &tags[..pages as usize]);
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// The tags of an array page, from its first page on.
    fn tags_from(&self, first: PageAddress, pages: u32) -> [Tag; PAGES_PER_PROGRAM_MAX as usize] {
        let mut tags = [Tag::ERASED; PAGES_PER_PROGRAM_MAX as usize];
        for (page, tag) in (first.page..first.page + pages).zip(&mut tags) {
            *tag = self.pages.tag(PageAddress::new(first.block, page));
        }
        tags
    }

    /// Moves `pages` of block `from`, in ascending order, to the array page that begins at `to`.
    ///
    /// Counts a page read for each array page that holds some of them, and one page program. The copies get the
    /// sequence numbers from `sequence` on. A page that cannot be read is moved as lost.
    ///
    /// # Errors
    /// As [`Chip::copy`].
    pub fn copy_together(
        &mut self,
        from: u32,
        pages: &[u32],
        to: PageAddress,
        sequence: u64,
        role: Role,
    ) -> Result<(), NandError> {
        assert!(
            pages.len() <= self.geometry.pages_per_program as usize,
            "an array page holds them"
        );
        debug_assert!(
            pages.windows(2).all(|pair| pair[0] < pair[1]),
            "pages are in ascending order"
        );
        let mut units: Units = [PADDING; PAGES_PER_PROGRAM_MAX as usize];
        let (mut lost, mut in_register) = (0, None);
        for (unit, page) in pages.iter().enumerate() {
            let at = PageAddress::new(from, *page);
            let array_page = Some(self.geometry.array_page(*page));
            let read = if in_register == array_page {
                self.read_register(at)
            } else {
                in_register = array_page;
                self.read_lost(at)
            };
            let is_lost = match read {
                Ok(is_lost) => is_lost,
                // Moved as lost: a page that read as older data without an error would be worse.
                Err(NandError::Uncorrectable { .. }) => true,
                Err(error) => return Err(error),
            };
            lost |= u32::from(is_lost) << unit;
            units[unit] = self.pages.tag(at).lpn();
        }
        self.program_units(to, &units, sequence, role, lost)?;
        self.moved_pages += pages.len() as u64;
        if self.watched {
            let sources: Vec<_> = pages.iter().map(|page| PageAddress::new(from, *page)).collect();
            self.record_sources(&sources);
        }
        Ok(())
    }

    /// Moves a whole array page with the tags of all its pages: one read, one program.
    ///
    /// For exchanges of blocks, which a rebuild recognises by equal sequence numbers.
    ///
    /// # Errors
    /// As [`Chip::copy`].
    pub fn copy_array_page(&mut self, from: PageAddress, to: PageAddress) -> Result<(), NandError> {
        debug_assert!(self.bytes.is_none(), "pages that are programmed together have no bytes");
        let index = self.checked_index(to)?;
        self.check_program(to).map_err(|error| self.refuse(error))?;
        let pages = self.geometry.pages_per_program;
        let mut tags = [Tag::ERASED; PAGES_PER_PROGRAM_MAX as usize];
        let tags = &mut tags[..pages as usize];
        for (unit, tag) in (0..).zip(&mut *tags) {
            let at = PageAddress::new(from.block, from.page + unit);
            let read = if unit == 0 { self.read_lost(at) } else { self.read_register(at) };
            *tag = self.pages.tag(at);
            match read {
                Ok(_) => {}
                Err(NandError::Uncorrectable { .. }) => *tag = tag.lost(),
                Err(error) => return Err(error),
            }
        }
        let completes_before_cut = !self.watched || self.enter_program(to, index, tags[0])?;
        for (page, tag) in (to.page..).zip(&*tags) {
            self.program_unit(PageAddress::new(to.block, page), *tag);
        }
        self.raise_next_page(PageAddress::new(to.block, to.page + pages - 1));
        self.count_program(to.page);
        self.moved_pages += u64::from(pages);
        if self.watched {
            self.record_program(to, tags);
            let sources: Vec<_> =
                self.pages_with(from.page).map(|page| PageAddress::new(from.block, page)).collect();
            self.record_sources(&sources);
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    pub(super) fn program_unit(&mut self, at: PageAddress, tag: Tag) {
        debug_assert!(!self.is_programmed(at), "{at:?} is programmed once after an erase");
        self.pages.set(at, super::pages::WHOLE_PROGRAM, tag);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chip, CutPoint, Storage};
    use crate::{FaultSettings, NandError, PageAddress, Part, Role, find_part};

    fn part() -> Part {
        let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
        (part.geometry.blocks, part.geometry.pages_per_block) = (4, 8);
        part.geometry = part.geometry.divided(4);
        part
    }

    fn chip() -> Chip {
        Chip::new(&part(), Storage::Tags, &FaultSettings::default())
    }

    fn lpns(chip: &Chip, block: u32, pages: std::ops::Range<u32>) -> Vec<u32> {
        pages.map(|page| chip.peek(PageAddress::new(block, page)).lpn()).collect()
    }

    #[test]
    fn one_program_writes_all_pages_of_an_array_page() {
        let mut chip = chip();
        let at = |page| PageAddress::new(1, page);
        chip.program_together(at(0), &[7, 8, 9, 10], 0, Role::Data).expect("programmed");
        chip.program_together(at(4), &[11], 4, Role::Data).expect("programmed");
        assert_eq!(chip.counters().page_programs, 2);
        assert_eq!(lpns(&chip, 1, 0..8), [7, 8, 9, 10, 11, u32::MAX, u32::MAX, u32::MAX]);
        assert_eq!(chip.next_page(1), 8);
        // A part of an array page is not programmed later.
        let refused = chip.program_together(at(4), &[12], 8, Role::Data);
        assert_eq!(refused, Err(NandError::NotErased { block: 1, page: 4 }));
        assert_eq!(chip.programs_by_position(), [2, 0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "an array page holds them")]
    fn a_page_too_many_is_no_silent_loss() {
        let _ = chip().program_together(PageAddress::new(1, 0), &[0; 5], 0, Role::Data);
    }

    #[test]
    fn copies_read_each_array_page_once() {
        let mut chip = chip();
        for group in 0..4 {
            let lpns = [0, 1, 2, 3].map(|unit| group * 4 + unit);
            let at = PageAddress::new(0, group * 4);
            chip.program_together(at, &lpns, u64::from(group) * 4, Role::Data).expect("programmed");
        }
        let before = chip.counters();
        let to = PageAddress::new(2, 0);
        chip.copy_together(0, &[1, 2, 9, 14], to, 100, Role::Data).expect("copied");
        let work = chip.counters() - before;
        assert_eq!((work.page_reads, work.page_programs, chip.moved_pages()), (3, 1, 4));
        assert_eq!(lpns(&chip, 2, 0..4), [1, 2, 9, 14]);
        chip.copy_array_page(PageAddress::new(0, 4), PageAddress::new(3, 0)).expect("moved");
        assert_eq!(lpns(&chip, 3, 0..4), [4, 5, 6, 7]);
        assert_eq!(chip.peek(PageAddress::new(3, 2)), chip.peek(PageAddress::new(0, 6)));
    }

    #[test]
    fn a_torn_program_takes_all_of_its_pages_and_those_of_the_lower_page() {
        let mut chip = chip();
        let at = |page| PageAddress::new(0, page);
        // Array pages 0 to 3 are lower pages; array page 4 is the upper one of array page 0.
        for group in 0..4 {
            chip.program_together(at(group * 4), &[group], 0, Role::Data).expect("programmed");
        }
        chip.cut_power_after(0, CutPoint::Inside);
        let torn = chip.program_together(at(16), &[1, 2, 3, 4], 9, Role::Data);
        assert_eq!(torn, Err(NandError::PowerLost));
        chip.power_on();
        for page in (0..4).chain(16..20) {
            let read = chip.read(at(page));
            assert!(matches!(read, Err(NandError::Uncorrectable { .. })), "page {page}: {read:?}");
        }
        assert!(chip.read(at(4)).is_ok());
        assert_eq!(chip.next_page(0), 20);
    }
}

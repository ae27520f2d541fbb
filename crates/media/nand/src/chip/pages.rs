//! The state of every page: how often it was programmed, and the tag in its spare area.
//!
//! A layer that appends pages programs most blocks in one way: page after page from the first on, each once, with
//! one role and with sequence numbers in a row. Such a block is a *run*, and its first number, its role and its
//! length say everything but the logical pages. So it takes four bytes a page, and an erased block none but the
//! room for them: the logical pages are kept inverted, so that an erased one is zero, and memory of zeros is
//! not taken from the system before it is written. A block with any other page is *listed*: eight further bytes
//! a page, which the next erase gives to other blocks.

use super::SPARE_PROGRAM;
use crate::tag::LOST_MASK;
use crate::{PageAddress, Role, Tag};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Length of a block that is listed; no run is as long.
const LISTED: u16 = u16::MAX;

/// Programs of a page of a run: one of the data and the spare area together.
pub(super) const WHOLE_PROGRAM: u8 = 1 + SPARE_PROGRAM;

/// A block, as far as its pages are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Block {
    /// Of a run the sequence number of its first page, lower half; of a listed block its place among the lists.
    first: u32,
    /// Of a run the role, the marks and the upper bits of the sequence number of its pages.
    meta: u16,
    /// Pages of the run, from the first page of the block on, or [`LISTED`]. The others are erased.
    pages: u16,
}

/// A page of a listed block, without its logical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    sequence_low: u32,
    meta: u16,
    programs: u8,
}

impl Listed {
    const ERASED: Self =
        Self { sequence_low: Tag::ERASED.sequence_low, meta: Tag::ERASED.meta, programs: 0 };
}

/// Programs and tags of all pages of a chip.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PageStates {
    pages_per_block: u32,
    /// Logical pages of the tags, inverted.
    inverted_lpn: Vec<u32>,
    blocks: Vec<Block>,
    /// Pages of the listed blocks, one block behind the other.
    lists: Vec<Listed>,
    /// Places of lists that no block has.
    free_lists: Vec<u32>,
    /// A lost page was programmed at some time: on most chips none is, and no read needs to look.
    was_lost: bool,
}

impl PageStates {
    /// Erased pages.
    pub(super) fn new(blocks: u32, pages_per_block: u32) -> Self {
        Self {
            pages_per_block,
            // An erased page has a logical page of ones.
            inverted_lpn: vec![!Tag::ERASED.lpn; blocks as usize * pages_per_block as usize],
            blocks: vec![Block::default(); blocks as usize],
            lists: Vec::new(),
            free_lists: Vec::new(),
            was_lost: false,
        }
    }

    /// True if this can be the state of so many blocks: what comes from a file need not be.
    pub(super) fn is_of(&self, blocks: u32, pages_per_block: u32) -> bool {
        let (count, pages) = (blocks as usize, pages_per_block as usize);
        if self.pages_per_block != pages_per_block
            || self.blocks.len() != count
            || self.inverted_lpn.len() != count * pages
            || !self.lists.len().is_multiple_of(pages.max(1))
        {
            return false;
        }
        // Each list has one owner: two blocks with the same one would change each other.
        let mut is_owned = vec![false; self.lists.len() / pages.max(1)];
        let mut own = |list: u32| {
            is_owned.get_mut(list as usize).is_some_and(|owned| !std::mem::replace(owned, true))
        };
        self.free_lists.iter().all(|list| own(*list))
            && self.blocks.iter().all(|block| match block.pages {
                LISTED => own(block.first),
                run => u32::from(run) <= pages_per_block,
            })
    }

    /// Bytes of all of it.
    pub(super) fn bytes(&self) -> usize {
        size_of::<u32>() * (self.inverted_lpn.len() + self.free_lists.len())
            + size_of::<Block>() * self.blocks.len()
            + size_of::<Listed>() * self.lists.len()
    }

    #[inline]
    fn index(&self, at: PageAddress) -> usize {
        at.block as usize * self.pages_per_block as usize + at.page as usize
    }

    /// The state of a page but for its logical page.
    #[inline]
    fn state(&self, at: PageAddress) -> Listed {
        let block = self.blocks[at.block as usize];
        if block.pages == LISTED {
            self.lists[self.list_start(block) + at.page as usize]
        } else if at.page < u32::from(block.pages) {
            let sequence_low = block.first.wrapping_add(at.page);
            Listed { sequence_low, meta: block.meta, programs: WHOLE_PROGRAM }
        } else {
            Listed::ERASED
        }
    }

    /// How often a page was programmed, in two nibbles.
    #[inline]
    pub(super) fn programs(&self, at: PageAddress) -> u8 {
        self.state(at).programs
    }

    /// The tag in the spare area of a page.
    #[inline]
    pub(super) fn tag(&self, at: PageAddress) -> Tag {
        let Listed { sequence_low, meta, .. } = self.state(at);
        Tag { lpn: !self.inverted_lpn[self.index(at)], sequence_low, meta }
    }

    /// True if a page stands for data that was lost.
    #[inline]
    pub(super) fn is_lost(&self, at: PageAddress) -> bool {
        self.was_lost && self.state(at).meta & LOST_MASK == 0
    }

    /// Logical pages of the tags of a block, page by page.
    #[inline]
    pub(super) fn lpns(&self, block: u32) -> impl ExactSizeIterator<Item = u32> {
        let first = self.index(PageAddress::new(block, 0));
        let inverted = &self.inverted_lpn[first..first + self.pages_per_block as usize];
        inverted.iter().map(|lpn| !lpn)
    }

    /// True if no page of `pages` from `to` on was programmed in any way.
    #[inline]
    pub(super) fn is_blank(&self, to: PageAddress, pages: usize) -> bool {
        let block = self.blocks[to.block as usize];
        if block.pages != LISTED {
            return to.page >= u32::from(block.pages);
        }
        let start = self.list_start(block) + to.page as usize;
        self.lists[start..start + pages].iter().all(|page| page.programs == 0)
    }

    /// True if a page of the block is lost.
    #[inline]
    pub(super) fn has_lost(&self, block: u32) -> bool {
        if !self.was_lost {
            return false;
        }
        let block = self.blocks[block as usize];
        if block.pages != LISTED {
            return block.pages > 0 && block.meta & LOST_MASK == 0;
        }
        let start = self.list_start(block);
        let pages = &self.lists[start..start + self.pages_per_block as usize];
        pages.iter().any(|page| page.meta & LOST_MASK == 0)
    }

    /// Sets the state of a page.
    #[inline]
    pub(super) fn set(&mut self, at: PageAddress, programs: u8, tag: Tag) {
        self.was_lost |= tag.is_lost();
        let Tag { sequence_low, meta, .. } = tag;
        let block = self.blocks[at.block as usize];
        if block.pages == LISTED {
            let place = self.list_start(block) + at.page as usize;
            self.lists[place] = Listed { sequence_low, meta, programs };
        } else if programs == WHOLE_PROGRAM
            && let Some(longer) = block.with(at.page, sequence_low, meta, 1)
        {
            self.blocks[at.block as usize] = longer;
        } else {
            let place = self.list(at.block) + at.page as usize;
            self.lists[place] = Listed { sequence_low, meta, programs };
        }
        let index = self.index(at);
        self.inverted_lpn[index] = !tag.lpn;
    }

    /// Programs blank pages from `to` on once each, with the sequence numbers from `sequence` on.
    #[inline]
    pub(super) fn program_run(&mut self, to: PageAddress, lpns: &[u32], sequence: u64, role: Role) {
        debug_assert!(self.is_blank(to, lpns.len()), "a run is programmed into blank pages");
        let tag = Tag::new(0, sequence, role);
        let last = Tag::new(0, sequence + lpns.len() as u64 - 1, role);
        let block = &mut self.blocks[to.block as usize];
        if last.meta == tag.meta
            && let Some(longer) = block.with(to.page, tag.sequence_low, tag.meta, lpns.len())
        {
            *block = longer;
            let first = self.index(to);
            let targets = &mut self.inverted_lpn[first..first + lpns.len()];
            for (target, lpn) in targets.iter_mut().zip(lpns) {
                *target = !lpn;
            }
            return;
        }
        // The upper bits of the number change within the run, or the block is none.
        for ((page, sequence), lpn) in (to.page..).zip(sequence..).zip(lpns) {
            let at = PageAddress::new(to.block, page);
            self.set(at, WHOLE_PROGRAM, Tag::new(*lpn, sequence, role));
        }
    }

    /// Erases all pages of a block.
    pub(super) fn erase(&mut self, block: u32) {
        let state = std::mem::take(&mut self.blocks[block as usize]);
        let mut pages = self.pages_per_block as usize;
        if state.pages == LISTED {
            self.free_lists.push(state.first);
        } else {
            pages = usize::from(state.pages);
        }
        let first = self.index(PageAddress::new(block, 0));
        self.inverted_lpn[first..first + pages].fill(!Tag::ERASED.lpn);
    }

    #[inline]
    fn list_start(&self, block: Block) -> usize {
        block.first as usize * self.pages_per_block as usize
    }

    /// Gives a block that is a run a list; where it starts.
    #[inline(never)]
    fn list(&mut self, number: u32) -> usize {
        let pages = self.pages_per_block as usize;
        let list = self.free_lists.pop().unwrap_or_else(|| {
            if self.lists.len() == self.lists.capacity() {
                // An eighth at a time: twice as much would be memory that most chips never use.
                self.lists.reserve_exact((self.lists.len() / pages / 8).max(1) * pages);
            }
            let list = self.lists.len() / pages;
            self.lists.resize(self.lists.len() + pages, Listed::ERASED);
            list as u32
        });
        let start = list as usize * pages;
        let block = self.blocks[number as usize];
        let (run, rest) = self.lists[start..start + pages].split_at_mut(usize::from(block.pages));
        // Layers that write blocks in turn list each of them after every erase: what is erased is filled
        // at once, and a run is hardly ever longer than a page then.
        for (page, place) in (0..).zip(run) {
            let sequence_low = block.first.wrapping_add(page);
            *place = Listed { sequence_low, meta: block.meta, programs: WHOLE_PROGRAM };
        }
        rest.fill(Listed::ERASED);
        self.blocks[number as usize] = Block { first: list, meta: 0, pages: LISTED };
        start
    }
}

impl Block {
    /// The run with so many pages more from `page` on, if it is a run with them.
    #[inline]
    fn with(self, page: u32, sequence_low: u32, meta: u16, pages: usize) -> Option<Self> {
        let length = page as usize + pages;
        let goes_on = page == u32::from(self.pages)
            && length < usize::from(LISTED)
            && (page == 0 || (meta == self.meta && sequence_low == self.first.wrapping_add(page)));
        // The number of its first page, which is this one or lies so many pages before.
        let first = sequence_low.wrapping_sub(page);
        goes_on.then_some(Self { first, meta, pages: length as u16 })
    }
}

/// What is in the pages, however it is kept: two states that show the same are the same.
impl fmt::Debug for PageStates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = (0..self.blocks.len() as u32)
            .flat_map(|block| (0..self.pages_per_block).map(move |page| (block, page)));
        let shown = pages.map(|(block, page)| {
            let at = PageAddress::new(block, page);
            let Tag { lpn, sequence_low, meta } = self.tag(at);
            (lpn, sequence_low, meta, self.programs(at))
        });
        formatter.debug_list().entries(shown).finish()
    }
}

/// Equal in every page, however it is kept.
impl PartialEq for PageStates {
    fn eq(&self, other: &Self) -> bool {
        let has_same_pages = |number: usize| {
            let block = self.blocks[number];
            if block.pages != LISTED && block == other.blocks[number] {
                return true;
            }
            (0..self.pages_per_block).all(|page| {
                let at = PageAddress::new(number as u32, page);
                self.state(at) == other.state(at)
            })
        };
        self.pages_per_block == other.pages_per_block
            && self.inverted_lpn == other.inverted_lpn
            && (0..self.blocks.len()).all(has_same_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, LISTED, Listed, PageStates, SPARE_PROGRAM, WHOLE_PROGRAM};
    use crate::random::Stream;
    use crate::{PageAddress, Role, Tag};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const BLOCKS: u32 = 4;
    const PAGES: u32 = 8;

    /// A plain list of all pages.
    type Plain = Vec<(u8, Tag)>;

    /// The same change of both, drawn at random; mostly what a layer does.
    fn change(states: &mut PageStates, plain: &mut Plain, draw: &mut Stream, sequence: &mut u64) {
        let block = draw.below(BLOCKS);
        let first = (block * PAGES) as usize;
        let next = plain[first..].iter().take(PAGES as usize).rposition(|page| page.0 != 0);
        let next = next.map_or(0, |page| page as u32 + 1);
        let role = [Role::Data, Role::Data, Role::Data, Role::Log][draw.below(4) as usize];
        if draw.below(8) == 0 {
            *sequence += u64::from(draw.below(3));
        }
        let lpns: Vec<u32> = (0..PAGES).map(|_| draw.below(100)).collect();
        match draw.below(12) {
            0 => {
                states.erase(block);
                plain[first..first + PAGES as usize].fill((0, Tag::ERASED));
            }
            1 => {
                let page = draw.below(PAGES);
                let (_, tag) = plain[first + page as usize];
                let programs = [0, 1, SPARE_PROGRAM, WHOLE_PROGRAM, 0xff][draw.below(5) as usize];
                let tag = [Tag::ERASED, tag, tag.lost(), tag.and(Tag::link())];
                let tag = tag[draw.below(4) as usize];
                states.set(PageAddress::new(block, page), programs, tag);
                plain[first + page as usize] = (programs, tag);
            }
            2..6 if next < PAGES => {
                let count = (1 + draw.below(PAGES - next)) as usize;
                let to = PageAddress::new(block, next);
                assert!(states.is_blank(to, count));
                states.program_run(to, &lpns[..count], *sequence, role);
                for (place, lpn) in (first + next as usize..).zip(&lpns[..count]) {
                    plain[place] = (WHOLE_PROGRAM, Tag::new(*lpn, *sequence, role));
                    *sequence += 1;
                }
            }
            _ if next < PAGES => {
                let tag = Tag::new(lpns[0], *sequence, role);
                *sequence += 1;
                states.set(PageAddress::new(block, next), WHOLE_PROGRAM, tag);
                plain[first + next as usize] = (WHOLE_PROGRAM, tag);
            }
            _ => {}
        }
    }

    fn of_plain(plain: &Plain) -> PageStates {
        let mut states = PageStates::new(BLOCKS, PAGES);
        (0..BLOCKS).for_each(|block| _ = states.list(block));
        for (index, (programs, tag)) in (0..).zip(plain) {
            states.set(PageAddress::new(index / PAGES, index % PAGES), *programs, *tag);
        }
        states
    }

    #[test]
    fn pages_are_those_of_a_plain_list() {
        let (mut runs, mut lists) = (0, 0);
        for case in 0..400 {
            let mut draw = Stream::new(case, "pages");
            let mut states = PageStates::new(BLOCKS, PAGES);
            let mut plain = vec![(0, Tag::ERASED); (BLOCKS * PAGES) as usize];
            // The lower half of the number overflows in every second case.
            let mut sequence = if case % 2 == 0 { 7 } else { (1 << 32) - 40 };
            for step in 0..200 {
                change(&mut states, &mut plain, &mut draw, &mut sequence);
                for (index, (programs, tag)) in (0..).zip(&plain) {
                    let at = PageAddress::new(index / PAGES, index % PAGES);
                    let found = (states.programs(at), states.tag(at), states.is_lost(at));
                    assert_eq!(
                        found,
                        (*programs, *tag, tag.is_lost()),
                        "case {case}, step {step}, {at:?}"
                    );
                }
                for block in 0..BLOCKS {
                    let pages = &plain[(block * PAGES) as usize..][..PAGES as usize];
                    assert_eq!(states.has_lost(block), pages.iter().any(|page| page.1.is_lost()));
                    assert!(states.lpns(block).eq(pages.iter().map(|page| page.1.lpn)));
                    let blank = |page: u32| states.is_blank(PageAddress::new(block, page), 1);
                    assert!((0..PAGES).all(|page| blank(page) == (pages[page as usize].0 == 0)));
                }
            }
            let listed = of_plain(&plain);
            assert!(states == listed && format!("{states:?}") == format!("{listed:?}"));
            let is_run = |block: &&Block| (1..LISTED).contains(&block.pages);
            runs += states.blocks.iter().filter(is_run).count();
            lists += states.blocks.iter().filter(|block| block.pages == LISTED).count();
            assert!(states.lists.len() <= (BLOCKS * PAGES) as usize, "lists are used again");
        }
        // Otherwise one of the two ways was not compared.
        assert!(runs > 100 && lists > 100, "{runs} {lists}");
    }

    #[test]
    fn states_that_differ_in_a_page_are_not_equal() {
        let programmed = |tags: &[Tag]| {
            let mut states = PageStates::new(BLOCKS, PAGES);
            let pages = (0..).zip(tags);
            pages
                .for_each(|(page, tag)| states.set(PageAddress::new(1, page), WHOLE_PROGRAM, *tag));
            states
        };
        let tags = [Tag::new(1, 5, Role::Data), Tag::new(2, 6, Role::Data)];
        let whole = programmed(&tags);
        assert!(whole == programmed(&tags));
        assert!(whole != programmed(&tags[..1]));
        assert!(whole != programmed(&[tags[0], Tag::new(3, 6, Role::Data)]));
        assert!(whole != programmed(&[tags[0], Tag::new(2, 7, Role::Data)]));
        assert!(whole != programmed(&[tags[0], Tag::new(2, 6, Role::Log)]));
    }

    #[test]
    fn a_run_over_a_programmed_page_is_seen() {
        let mut states = PageStates::new(BLOCKS, PAGES);
        states.set(PageAddress::new(2, 1), WHOLE_PROGRAM, Tag::new(1, 5, Role::Data));
        let call = AssertUnwindSafe(|| {
            states.program_run(PageAddress::new(2, 0), &[1, 2], 6, Role::Data);
        });
        let said = catch_unwind(call).expect_err("a page is programmed");
        let said = said.downcast_ref::<&str>().copied();
        assert_eq!(said, Some("a run is programmed into blank pages"));
    }

    /// A run of the longest block that the type of its length could hold is not taken for a list.
    #[test]
    fn no_run_is_as_long_as_the_mark_of_a_list() {
        let pages = u32::from(LISTED);
        let mut states = PageStates::new(1, pages);
        let lpns: Vec<u32> = (0..pages).collect();
        states.program_run(PageAddress::new(0, 0), &lpns, 0, Role::Data);
        let last = states.tag(PageAddress::new(0, pages - 1));
        assert_eq!(last, Tag::new(pages - 1, u64::from(pages) - 1, Role::Data));
        assert_eq!(states.state(PageAddress::new(0, 0)).programs, WHOLE_PROGRAM);
        states.erase(0);
        assert_eq!(states.state(PageAddress::new(0, 0)), Listed::ERASED);
    }
}

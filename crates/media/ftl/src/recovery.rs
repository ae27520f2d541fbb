//! What the spare areas say after a power cut.
//!
//! A rebuild starts from a [`Scan`]: the tag of every page of every good block. Blocks that hold
//! the same pages twice are left over from an interrupted exchange (see [`crate::flash`]): tags
//! are copied unchanged there, so an equal sequence number proves it.

use crate::logical_block::LogicalBlock;
use crate::{Flash, FtlError, Locations, VirtualPage};
use nand::{Chip, NandError, PageAddress, Role, Tag};
use std::collections::BTreeMap;

/// A page as its spare area shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageScan {
    /// Not programmed, as far as can be seen.
    Erased,
    /// Programmed, but neither data nor tag can be read.
    Unreadable,
    /// Programmed with this tag.
    Tagged(Tag),
}

/// All pages of a block.
#[derive(Clone, Debug, Default)]
pub struct BlockScan {
    /// Pages in order; empty for a bad block.
    pub pages: Vec<PageScan>,
}

/// All blocks of a chip, by physical number.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Blocks by physical number.
    pub blocks: Vec<BlockScan>,
}

impl BlockScan {
    /// True if no page holds a tag or traces of one.
    pub fn is_empty(&self) -> bool {
        self.pages.iter().all(|page| *page == PageScan::Erased)
    }

    /// Page number and tag of every page that holds data.
    pub fn tags(&self) -> impl Iterator<Item = (u32, Tag)> + '_ {
        self.pages.iter().enumerate().filter_map(|(page, scan)| match scan {
            // Padding holds no data: whole pages of it have a role, parts of an array page no logical page.
            PageScan::Tagged(tag)
                if tag.lpn() != Tag::ERASED.lpn() && tag.role() != Role::Padding =>
            {
                Some((page as u32, *tag))
            }
            _ => None,
        })
    }

    /// Sequence number of the oldest page with data.
    pub fn oldest_sequence(&self) -> Option<u64> {
        self.tags().map(|(_, tag)| tag.sequence()).min()
    }

    /// Role that the first page with data states.
    pub fn role(&self) -> Option<Role> {
        self.tags().next().map(|(_, tag)| tag.role())
    }

    /// True if a page with data states this role.
    pub fn has_role(&self, role: Role) -> bool {
        self.tags().any(|(_, tag)| tag.role() == role)
    }

    /// True if every page with data lies at its home offset and all belong to one logical block.
    pub fn is_in_place(&self, pages_per_logical_block: u32) -> bool {
        let mut blocks = self.tags().map(|(_, tag)| tag.lpn() / pages_per_logical_block);
        let first = blocks.next();
        blocks.all(|block| Some(block) == first)
            // Both tests: a log block can hold pages of one logical block out of place.
            && self.tags().all(|(page, tag)| tag.lpn() % pages_per_logical_block == page)
    }
}

impl Scan {
    /// A sequence number above all found.
    pub fn next_sequence(&self) -> u64 {
        let all = self.blocks.iter().flat_map(|block| &block.pages).filter_map(|page| match page {
            // Unreadable pages may have had higher numbers; they can never be compared, so it does
            // not matter.
            PageScan::Tagged(tag) if !tag.is_erased() => Some(tag.sequence() + 1),
            _ => None,
        });
        all.max().unwrap_or(0)
    }

    /// Empties the half of every interrupted exchange that holds fewer pages, the later block of
    /// equals; returns the blocks to erase.
    ///
    /// They must be erased at once: left alone until their next use, they would show their old pages
    /// again at a later power cut, when the other half may be gone.
    pub(crate) fn drop_incomplete_copies(&mut self) -> Vec<u32> {
        let mut losers = Vec::new();
        let mut holder: BTreeMap<u64, usize> = BTreeMap::new();
        for block in 0..self.blocks.len() {
            let sequences: Vec<u64> =
                self.blocks[block].tags().map(|(_, tag)| tag.sequence()).collect();
            // An exchange copies tags unchanged, and no other operation repeats a sequence number.
            let twin = sequences.iter().find_map(|sequence| holder.get(sequence).copied());
            let loser = match twin {
                // The fuller one is the original: an exchange copies upwards and was cut short.
                Some(twin) if self.blocks[twin].tags().count() < sequences.len() => Some(twin),
                Some(_) => Some(block),
                None => None,
            };
            if let Some(loser) = loser {
                self.blocks[loser].pages.fill(PageScan::Erased);
                losers.push(loser as u32);
            }
            // The loser's numbers must not claim later blocks as its twins.
            if loser != Some(block) {
                holder.extend(sequences.into_iter().map(|sequence| (sequence, block)));
            }
        }
        losers
    }
}

/// Reads the spare area of every page of every good block.
pub(crate) fn scan_chip(chip: &mut Chip) -> Result<Scan, FtlError> {
    let geometry = chip.geometry().clone();
    let mut blocks = Vec::with_capacity(geometry.blocks as usize);
    for block in 0..geometry.blocks {
        let mut pages = Vec::new();
        if !chip.is_bad(block) {
            for page in 0..geometry.pages_per_block {
                pages.push(match chip.read_spare(PageAddress::new(block, page)) {
                    Ok(Tag::ERASED) => PageScan::Erased,
                    Ok(tag) => PageScan::Tagged(tag),
                    // It was programmed and cannot be read: no tag, but no free page either.
                    Err(NandError::Uncorrectable { .. }) => PageScan::Unreadable,
                    Err(error) => return Err(error.into()),
                });
            }
        }
        blocks.push(BlockScan { pages });
    }
    Ok(Scan { blocks })
}

/// Erases blocks that a power cut left as the target of an unfinished [`crate::merge::rewrite`]:
/// in place, with nothing but pages of the role `unfinished`.
pub(crate) fn drop_unfinished(
    flash: &mut Flash,
    scan: &mut Scan,
    unfinished: Role,
    pages_per_logical_block: u32,
) -> Result<(), FtlError> {
    for (found, block) in scan.blocks.iter_mut().zip(0..) {
        let drops = found.has_role(unfinished)
            // In place as well: a random log block of FAST has the same role, but not this form.
            && found.tags().all(|(_, tag)| tag.role() == unfinished)
            && found.is_in_place(pages_per_logical_block);
        if drops {
            flash.release(block)?;
            found.pages.fill(PageScan::Erased);
        }
    }
    Ok(())
}

/// Erases blocks whose newest pages, if any, are trimmed ones that a later merge left behind.
pub(crate) fn discard(
    flash: &mut Flash,
    scan: &Scan,
    locations: &mut Locations,
    blocks: &[u32],
) -> Result<(), FtlError> {
    for block in blocks {
        for (page, tag) in scan.blocks[*block as usize].tags() {
            // A trimmed page has no newer copy, so its old one would come back as the newest.
            if locations.is_newest(tag.lpn(), VirtualPage::new(*block, page)) {
                locations.clear(tag.lpn());
            }
        }
        flash.release(*block)?;
    }
    Ok(())
}

/// What a scan found of a logical block that has a home block, and at times one log block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// All pages at their home offsets.
    Home(u32),
    /// Beside the home block a younger one that takes its overwrites.
    HomeAndLog(u32, u32),
    /// The target of a finished merge. The older blocks hold at most trimmed pages.
    Merged { older: &'a [u32], target: u32 },
    /// What a cut left in the middle of an operation.
    Unfinished,
}

/// Says what the blocks of a logical block are, oldest first as [`sort_blocks`] has them.
///
/// For layers that program overwrites as [`Role::Log`], and every page of another role at its home offset.
pub(crate) fn found_of<'a>(
    blocks: &'a [u32],
    scan: &Scan,
    pages_per_logical_block: u32,
) -> Found<'a> {
    let is_in_place = |block: u32| scan.blocks[block as usize].is_in_place(pages_per_logical_block);
    // A log block that holds pages in order still is a log, as its role says.
    let is_log = |block: u32| scan.blocks[block as usize].has_role(Role::Log);
    match *blocks {
        // One block in place is a home block, or a log block whose home block was released when it took
        // its place: both read the same.
        [block] if is_in_place(block) => Found::Home(block),
        [home, log] if is_in_place(home) && is_log(log) => Found::HomeAndLog(home, log),
        [ref older @ .., target] if is_in_place(target) && !is_log(target) => {
            Found::Merged { older, target }
        }
        _ => Found::Unfinished,
    }
}

/// Erases blocks that hold no newest page and sorts the others by logical block, oldest first.
///
/// For layers whose blocks hold pages of one logical block each.
pub(crate) fn sort_blocks(
    flash: &mut Flash,
    scan: &Scan,
    locations: &Locations,
    pages_per_logical_block: u32,
) -> Result<BTreeMap<LogicalBlock, Vec<u32>>, FtlError> {
    let mut sorted: BTreeMap<LogicalBlock, Vec<u32>> = BTreeMap::new();
    for (found, block) in scan.blocks.iter().zip(0..) {
        let newest = found
            .tags()
            // One newest page decides: a block of these layers belongs to one logical block.
            .find(|(page, tag)| locations.is_newest(tag.lpn(), VirtualPage::new(block, *page)));
        match newest {
            Some((_, tag)) => {
                let (logical_block, _) = LogicalBlock::of(tag.lpn(), pages_per_logical_block);
                sorted.entry(logical_block).or_default().push(block);
            }
            None if found.is_empty() => {}
            // Nothing in it is the newest copy: what a cut left of a merge that was finished.
            None => flash.release(block)?,
        }
    }
    for blocks in sorted.values_mut() {
        blocks.sort_by_key(|block| scan.blocks[*block as usize].oldest_sequence());
    }
    Ok(sorted)
}

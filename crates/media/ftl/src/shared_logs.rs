//! Data blocks in place beside log blocks that several logical blocks may share.
//!
//! What such layers have in common: the map of data blocks, sequential log blocks, full merges
//! that empty a shared log block, and the rebuild. Which log block takes a page, and which one is merged,
//! is the layer's part.

use crate::logical_block::LogicalBlock;
use crate::merge::{gather, rewrite};
use crate::recovery::{BlockScan, Scan, discard, drop_unfinished, sort_blocks};
use crate::{Flash, FtlError, Locations, Table, VirtualPage};
use nand::Role;

/// Role of the pages of a sequential log block, which may become a data block without a copy.
const SEQUENTIAL: Role = Role::SequentialLog;

/// Role of the pages of a full merge before its last; see [`rewrite`]. Shared log blocks have it too, but they never
/// begin with page 0 of a logical block: their first page is out of place, and a target's is not. Where they may begin
/// so, the first page has another role: see [`role_in_shared_log`].
const UNFINISHED: Role = Role::Log;

/// Role of a page of a shared log block that may begin with page 0 of a logical block.
///
/// Such a first page is at its home offset, so it has the role of a sequential log block: with the other one a rebuild
/// would take the block for an unfinished merge and erase it, newest pages and all. A block that begins with such a
/// page and goes on with pages of the other role is a shared log block, and nothing else: see [`is_home`]. One
/// that has no other page is taken for a sequential log block, which is no loss.
pub(crate) fn role_in_shared_log(at: VirtualPage, offset: u32) -> Role {
    if at.page == 0 && offset == 0 { SEQUENTIAL } else { Role::Log }
}

/// A log block that takes the pages of one logical block in order, from its page 0 on.
#[derive(Clone, Copy)]
struct SequentialLog {
    logical_block: LogicalBlock,
    block: u32,
}

/// Data blocks, and the log blocks of one logical block each.
#[derive(Clone)]
pub(crate) struct SharedLogs {
    pub(crate) flash: Flash,
    pub(crate) locations: Locations,
    /// Logical block to data block.
    data: Vec<Option<u32>>,
    /// Sequential log blocks, least recently written first.
    sequential: Vec<SequentialLog>,
}

impl SharedLogs {
    /// No page is written.
    pub(crate) fn new(flash: Flash, logical_pages: u32) -> Self {
        let logical_blocks = logical_pages.div_ceil(flash.pages_per_block());
        Self {
            locations: Locations::new(logical_pages),
            data: vec![None; logical_blocks as usize],
            sequential: Vec::new(),
            flash,
        }
    }

    /// The logical block of a page, and the page's offset there.
    pub(crate) fn place_of(&self, lpn: u32) -> (LogicalBlock, u32) {
        LogicalBlock::of(lpn, self.flash.pages_per_block())
    }

    /// Programs a page and notes its place, which changes only when the program has returned.
    pub(crate) fn program(
        &mut self,
        at: VirtualPage,
        lpn: u32,
        role: Role,
        data: Option<&[u8]>,
    ) -> Result<(), FtlError> {
        self.locations.program(&mut self.flash, at, lpn, role, data)
    }

    /// Programs a page at its home offset, in a fresh data block if need be; false if that is taken.
    ///
    /// While its logical block owns a sequential log block the page has the role of that log, so that the remnant of
    /// a half-erased data block is never taken for the finished target of a merge.
    pub(crate) fn program_in_place(
        &mut self,
        lpn: u32,
        data: Option<&[u8]>,
    ) -> Result<bool, FtlError> {
        self.locations.check(lpn)?;
        let (logical_block, offset) = self.place_of(lpn);
        let home = if let Some(block) = self.data[logical_block.index()] {
            block
        } else {
            *self.data[logical_block.index()].insert(self.flash.allocate()?)
        };
        let at = VirtualPage::new(home, offset);
        if !self.flash.is_programmable(at) {
            return Ok(false);
        }
        // The first page of a data block is newer than every log page of its logical block, since those
        // are trimmed ones: it must not look like a log that belongs to an older data block.
        let is_first = self.flash.next_page(home) == 0;
        let owns_log = self.sequential.iter().any(|log| log.logical_block == logical_block);
        let role = if owns_log && !is_first { SEQUENTIAL } else { Role::Data };
        self.program(at, lpn, role, data)?;
        Ok(true)
    }

    /// Where a page goes if that is a sequential log block: page 0 of a logical block starts one, and
    /// the next page in order continues it. A page out of order ends it by a merge.
    pub(crate) fn place_in_sequential(
        &mut self,
        lpn: u32,
        logs_max: usize,
    ) -> Result<Option<VirtualPage>, FtlError> {
        let (logical_block, offset) = self.place_of(lpn);
        let owned = self.sequential.iter().position(|log| log.logical_block == logical_block);
        if offset == 0 {
            if let Some(index) = owned {
                self.merge_sequential(index)?;
            } else if self.sequential.len() >= logs_max {
                // The one written longest ago: its stream has most likely ended.
                self.merge_sequential(0)?;
            }
            let block = self.flash.allocate()?;
            self.sequential.push(SequentialLog { logical_block, block });
            return Ok(Some(VirtualPage::new(block, 0)));
        }
        let Some(index) = owned else { return Ok(None) };
        let block = self.sequential[index].block;
        if self.flash.next_page(block) == offset {
            self.sequential[index..].rotate_left(1);
            return Ok(Some(VirtualPage::new(block, offset)));
        }
        self.merge_sequential(index)?;
        Ok(None)
    }

    /// Makes a sequential log block the data block of its owner.
    fn merge_sequential(&mut self, index: usize) -> Result<(), FtlError> {
        let SequentialLog { logical_block, block } = self.sequential[index];
        let pages = self.flash.pages_per_block();
        let lpns = logical_block.lpns(pages);
        let used = self.flash.next_page(block);
        // A log block found by a scan takes no page, nor may it take over as it is: in-place writes beside
        // it may have been tagged before anything said that it is a sequential one.
        let can_hold_all = !self.flash.is_sealed(block)
            && lpns.clone().all(|lpn| {
                let to = VirtualPage::new(block, lpn - lpns.start);
                let from = self.locations.get(lpn);
                from.is_none_or(|from| from.block == block || self.flash.is_programmable(to))
            });
        if !can_hold_all {
            return self.merge_fully(logical_block);
        }
        let from = VirtualPage::new(block, 0);
        gather(&mut self.flash, &mut self.locations, lpns, from, None)?;
        if used == pages {
            self.flash.merges.switch += 1;
        } else {
            self.flash.merges.partial += 1;
        }
        self.sequential.remove(index);
        self.take_over(logical_block, block)
    }

    /// A log block that holds all newest pages at their home offsets becomes the data block.
    fn take_over(&mut self, logical_block: LogicalBlock, block: u32) -> Result<(), FtlError> {
        // The map before the old block is erased; a cut in between leaves both, and the log's pages are
        // the newer ones.
        let old = self.data[logical_block.index()].replace(block);
        old.map_or(Ok(()), |old| self.flash.release(old))
    }

    /// Gathers a logical block from all its blocks in a fresh one.
    fn merge_fully(&mut self, logical_block: LogicalBlock) -> Result<(), FtlError> {
        let lpns = logical_block.lpns(self.flash.pages_per_block());
        let target = rewrite(&mut self.flash, &mut self.locations, lpns, UNFINISHED, None)?;
        self.flash.merges.full += 1;
        let old = self.data[logical_block.index()].replace(target);
        self.release_with_sequential(logical_block, old)
    }

    /// Merges every logical block with a newest page in a log block and erases that.
    pub(crate) fn empty_log(&mut self, block: u32) -> Result<(), FtlError> {
        // A merge leaves no newest page of its logical block here, so each is merged once.
        for logical_block in self.live_logical_blocks(block) {
            self.merge_fully(logical_block)?;
        }
        self.flash.release(block)
    }

    /// The logical blocks with a newest page in a block, in the order of their first one there.
    pub(crate) fn live_logical_blocks(&self, block: u32) -> Vec<LogicalBlock> {
        let mut found = Vec::new();
        for (lpn, page) in self.flash.peek_lpns(block).zip(0..) {
            if self.locations.is_newest(lpn, VirtualPage::new(block, page)) {
                let (logical_block, _) = self.place_of(lpn);
                if !found.contains(&logical_block) {
                    found.push(logical_block);
                }
            }
        }
        found
    }

    /// Forgets a page; gives the blocks of its logical block back with the last one.
    pub(crate) fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.locations.check(lpn)?;
        let (logical_block, _) = self.place_of(lpn);
        self.locations.clear(lpn);
        if !self.locations.all_clear(logical_block.lpns(self.flash.pages_per_block())) {
            return Ok(());
        }
        // The data block, with the older copies, goes first: a cut leaves no older copy as the newest.
        let data = self.data[logical_block.index()].take();
        self.release_with_sequential(logical_block, data)
    }

    fn release_with_sequential(
        &mut self,
        logical_block: LogicalBlock,
        data: Option<u32>,
    ) -> Result<(), FtlError> {
        let owned = self.sequential.iter().position(|log| log.logical_block == logical_block);
        let log = owned.map(|index| self.sequential.remove(index).block);
        data.into_iter().chain(log).try_for_each(|block| self.flash.release(block))
    }

    /// Builds maps and lists anew from the spare areas.
    ///
    /// Keeps `logs_max` sequential log blocks at most, and returns the shared ones, oldest first.
    pub(crate) fn rebuild(&mut self, logs_max: usize) -> Result<Vec<u32>, FtlError> {
        let mut scan = self.flash.scan()?;
        let pages = self.flash.pages_per_block();
        drop_unfinished(&mut self.flash, &mut scan, UNFINISHED, pages)?;
        self.locations.rebuild(&scan);
        self.data.fill(None);
        self.sequential.clear();
        let (mut in_place, mut shared, mut unfinished) = (Vec::new(), Vec::new(), Vec::new());
        for (logical_block, blocks) in sort_blocks(&mut self.flash, &scan, &self.locations, pages)?
        {
            let (homes, others): (Vec<u32>, Vec<u32>) =
                blocks.into_iter().partition(|block| is_home(&scan.blocks[*block as usize], pages));
            shared.extend(others);
            match self.adopt(logical_block, &homes, &scan)? {
                Adopted::Whole => {}
                Adopted::WithLog(block) => in_place.push(SequentialLog { logical_block, block }),
                Adopted::Unfinished => unfinished.push((logical_block, homes)),
            }
        }
        // After all others gave back what is left of finished merges: a merge needs a free block.
        for (logical_block, homes) in unfinished {
            self.merge_fully(logical_block)?;
            homes.iter().try_for_each(|block| self.flash.release(*block))?;
        }
        let age = |block: &u32| scan.blocks[*block as usize].oldest_sequence();
        in_place.sort_by_key(|log| age(&log.block));
        shared.sort_by_key(age);
        self.sequential = in_place;
        // What a cut leaves can count as more of them than there may be.
        while self.sequential.len() > logs_max {
            self.merge_sequential(0)?;
        }
        Ok(shared)
    }

    /// Takes over what a scan found of a logical block: `homes`, in place and oldest first.
    fn adopt(
        &mut self,
        logical_block: LogicalBlock,
        homes: &[u32],
        scan: &Scan,
    ) -> Result<Adopted, FtlError> {
        let is_log = |block: u32| scan.blocks[block as usize].role() == Some(SEQUENTIAL);
        let data = &mut self.data[logical_block.index()];
        match *homes {
            [] => {}
            [block] => *data = Some(block),
            [block, log] if is_log(log) => {
                *data = Some(block);
                return Ok(Adopted::WithLog(log));
            }
            [ref older @ .., target] if !is_log(target) => {
                // The target of a finished full merge; the older blocks hold at most trimmed pages.
                *data = Some(target);
                discard(&mut self.flash, scan, &mut self.locations, older)?;
            }
            // More than one log block in place, or what a cut left of a merge.
            _ => return Ok(Adopted::Unfinished),
        }
        Ok(Adopted::Whole)
    }

    /// Two bytes a logical block, four for each page of the shared log blocks, and owner, block and fill of each
    /// sequential one.
    pub(crate) fn ram_bytes(&self, shared_max: usize, sequential_max: usize) -> u64 {
        let pages = u64::from(self.flash.pages_per_block());
        2 * self.data.len() as u64 + 4 * pages * shared_max as u64 + 6 * sequential_max as u64
    }

    /// The map of data blocks, and the log blocks with the logical blocks of their newest pages.
    pub(crate) fn tables<'a>(&self, shared: impl Iterator<Item = &'a u32>) -> Vec<Table> {
        let map = self.data.iter().zip(0_u32..).filter_map(|(data, logical_block)| {
            data.map(|block| vec![logical_block.to_string(), block.to_string()])
        });
        let sequential = self.sequential.iter();
        let sequential =
            sequential.map(|log| ("sequential", log.block, log.logical_block.to_string()));
        let shared = shared.map(|block| ("random", *block, self.owners(*block)));
        let rows = sequential.chain(shared).map(|(kind, block, owner)| {
            vec![kind.to_owned(), block.to_string(), owner, self.flash.next_page(block).to_string()]
        });
        vec![
            Table {
                title: "block map",
                columns: vec!["logical block", "data block"],
                rows: map.collect(),
            },
            Table {
                title: "log blocks",
                columns: vec!["kind", "block", "logical blocks", "pages used"],
                rows: rows.collect(),
            },
        ]
    }

    /// The logical blocks with a newest page in a log block, as a cell of a table.
    fn owners(&self, block: u32) -> String {
        let owners = self.live_logical_blocks(block);
        owners.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// True for a data block and for a sequential log block, by what a scan shows of it.
fn is_home(found: &BlockScan, pages: u32) -> bool {
    // Page 0 of a data block is written when no log has a page 0, or copied, and a sequential log block has no page
    // of a shared one.
    let begins_as_sequential =
        found.tags().next().is_some_and(|(page, tag)| page == 0 && tag.role() == SEQUENTIAL);
    let is_shared = begins_as_sequential && found.has_role(Role::Log);
    let has_home_role = found.has_role(Role::Data) || found.has_role(SEQUENTIAL);
    found.is_in_place(pages) && has_home_role && !is_shared
}

/// What became of the blocks in place of one logical block.
enum Adopted {
    /// At most a data block is left.
    Whole,
    /// A data block, and this log block beside it.
    WithLog(u32),
    /// A full merge must gather what is newest of all of them.
    Unfinished,
}

/// The methods of [`crate::Ftl`] that every layer with a field `blocks` of shared logs writes alike.
macro_rules! shared_accessors {
    () => {
        fn logical_pages(&self) -> u32 {
            self.blocks.locations.logical_pages()
        }

        fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
            self.blocks.locations.read(&mut self.blocks.flash, lpn, data)
        }

        fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
            self.blocks.trim(lpn)
        }

        fn locate(&self, lpn: u32) -> Option<VirtualPage> {
            self.blocks.locations.get(lpn)
        }

        fn flash(&self) -> &Flash {
            &self.blocks.flash
        }

        fn flash_mut(&mut self) -> &mut Flash {
            &mut self.blocks.flash
        }

        fn into_chip(self: Box<Self>) -> Chip {
            self.blocks.flash.into_chip()
        }

        fn clone_box(&self) -> Box<dyn Ftl> {
            Box::new(self.clone())
        }
    };
}
pub(crate) use shared_accessors;

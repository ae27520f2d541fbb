//! FAST: fully associative log blocks.
//!
//! Data blocks are mapped as blocks, their pages lie at their home offsets. Overwrites go to log
//! blocks that all logical blocks share. One is *sequential*: it starts with page 0 of a logical
//! block and takes the following pages as long as they come in order; when another page 0, or a page
//! out of order, needs it, it becomes the data block by a *switch* or a *partial* merge. The others
//! are *random*: filled in order with pages of any logical block. When all are full the oldest is
//! the victim: every logical block with a newest page in it is gathered in a fresh block, a *full*
//! merge each, then the victim is erased.
//!
//! When to expect what: log blocks are always used to the last page, so random writes merge far
//! less often than under BAST; but one write may wait for as many merges as a block has pages.
//!
//! Source: Lee, Park, Chung, Lee, Park, Song, "A log buffer-based flash translation layer using
//! fully-associative sector translation", ACM TECS 6(3), 2007. Where the paper leaves room: a page
//! out of order goes to a random log block after the sequential one is merged (its offset is not 0,
//! so it cannot start a new one); the sequential log block is merged only when it is needed, even if
//! full; a full merge takes in the pages of the sequential log block and erases it too. The tables
//! are in RAM and rebuilt from spare areas.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::merge::{gather, rewrite};
use crate::recovery::{Scan, discard, drop_unfinished, sort_blocks};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Locations, Settings, VirtualPage};
use nand::{Chip, Role};
use std::collections::VecDeque;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "fast",
    summary: "FAST: data blocks, one sequential log block, and random log blocks that all data blocks share",
    source: "Lee et al., ACM TECS 6(3), 2007",
    features: Features {
        mapping: "block; pages within log blocks",
        first_write: "in place",
        overwrite: "out of place, in log blocks that all data blocks share",
        block_kinds: "data, sequential log, random log",
    },
    parameters: &[Parameter {
        name: "log_blocks",
        kind: Kind::Integer { min: 2, max: 1_000_000 },
        default: "16",
        summary: "log blocks (k): one sequential, the others random",
    }],
    blocks_required: |geometry, logical_pages, settings| {
        logical_pages.div_ceil(geometry.pages_per_block) + settings.integer("log_blocks") + 1
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: |flash, logical_pages, settings| Box::new(Fast::new(flash, logical_pages, settings)),
};

/// Role of the pages of a full merge before its last; see [`rewrite`]. Random log blocks have it
/// too, but they never begin with page 0 of a logical block, so their first page is out of place.
const UNFINISHED: Role = Role::Log;

#[derive(Clone, Copy)]
struct SequentialLog {
    logical_block: LogicalBlock,
    block: u32,
}

#[derive(Clone)]
struct Fast {
    flash: Flash,
    locations: Locations,
    /// Logical block to data block.
    data: Vec<Option<u32>>,
    sequential: Option<SequentialLog>,
    /// Random log blocks, oldest first; only the last has room.
    random: VecDeque<u32>,
    random_blocks_max: usize,
}

impl Fast {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let logical_blocks = logical_pages.div_ceil(flash.pages_per_block());
        Self {
            locations: Locations::new(logical_pages),
            data: vec![None; logical_blocks as usize],
            sequential: None,
            random: VecDeque::new(),
            // One of the k log blocks is the sequential one.
            random_blocks_max: settings.integer("log_blocks") as usize - 1,
            flash,
        }
    }

    fn program(
        &mut self,
        at: VirtualPage,
        lpn: u32,
        role: Role,
        data: Option<&[u8]>,
    ) -> Result<(), FtlError> {
        self.flash.program(at, lpn, role, data)?;
        self.locations.set(lpn, at);
        Ok(())
    }

    /// Where page `offset` of `logical_block` goes if that is the sequential log block.
    fn place_in_sequential(
        &mut self,
        logical_block: LogicalBlock,
        offset: u32,
    ) -> Result<Option<VirtualPage>, FtlError> {
        let owned = self.sequential.filter(|log| log.logical_block == logical_block);
        match owned {
            // A page 0 starts a sequential log in any case, even of the logical block that owns the
            // present one.
            _ if offset == 0 => {
                self.merge_sequential()?;
                let block = self.flash.allocate()?;
                self.sequential = Some(SequentialLog { logical_block, block });
                Ok(Some(VirtualPage::new(block, 0)))
            }
            // The next page in order, and only that: a gap would cost copies at the merge.
            Some(log) if self.flash.next_page(log.block) == offset => {
                Ok(Some(VirtualPage::new(log.block, offset)))
            }
            // Out of order: the sequential log is merged, and the page goes to a random one, since
            // it cannot start a new log.
            Some(_) => self.merge_sequential().map(|()| None),
            None => Ok(None),
        }
    }

    /// The next page of the random log blocks.
    fn place_in_random(&mut self) -> Result<VirtualPage, FtlError> {
        if let Some(last) = self.random.back() {
            let page = self.flash.next_page(*last);
            if page < self.flash.pages_per_block() {
                return Ok(VirtualPage::new(*last, page));
            }
        }
        // Random log blocks are used to the last page before any is merged, which is FAST's gain
        // over BAST.
        if self.random.len() >= self.random_blocks_max {
            self.merge_oldest_random()?;
        }
        let block = self.flash.allocate()?;
        self.random.push_back(block);
        Ok(VirtualPage::new(block, 0))
    }

    /// Makes the sequential log block, if there is one, the data block of its owner.
    fn merge_sequential(&mut self) -> Result<(), FtlError> {
        let Some(SequentialLog { logical_block, block }) = self.sequential else { return Ok(()) };
        let pages = self.flash.pages_per_block();
        let first = logical_block.first_lpn(pages);
        let used = self.flash.next_page(block);
        let can_hold_all = (0..pages).all(|offset| {
            let to = VirtualPage::new(block, offset);
            self.locations
                .get(first + offset)
                .is_none_or(|from| from.block == block || self.flash.is_programmable(to))
        });
        if !can_hold_all {
            // Sealed by a power cut, or overtaken by a write to a data block that had room again.
            return self.merge_fully(logical_block);
        }
        gather(
            &mut self.flash,
            &mut self.locations,
            first..first + pages,
            VirtualPage::new(block, 0),
            None,
        )?;
        if used == pages {
            self.flash.merges.switch += 1;
        } else {
            self.flash.merges.partial += 1;
        }
        // The map and the log before the old block is erased; see `adopt` for what a cut leaves.
        self.sequential = None;
        self.data[logical_block.index()]
            .replace(block)
            .map_or(Ok(()), |old| self.flash.release(old))
    }

    /// Merges every logical block with a newest page in the oldest random log block and erases that.
    fn merge_oldest_random(&mut self) -> Result<(), FtlError> {
        let Some(victim) = self.random.front().copied() else { return Ok(()) };
        let pages = self.flash.pages_per_block();
        for page in 0..pages {
            let at = VirtualPage::new(victim, page);
            let lpn = self.flash.peek(at).lpn();
            // A merge leaves no newest page of its logical block here, so each is merged once.
            if self.locations.is_newest(lpn, at) {
                self.merge_fully(LogicalBlock::of(lpn, pages).0)?;
            }
        }
        self.random.pop_front();
        self.flash.release(victim)
    }

    /// Gathers a logical block from all its blocks in a fresh one.
    fn merge_fully(&mut self, logical_block: LogicalBlock) -> Result<(), FtlError> {
        let pages = self.flash.pages_per_block();
        let first = logical_block.first_lpn(pages);
        let target =
            rewrite(&mut self.flash, &mut self.locations, first..first + pages, UNFINISHED, None)?;
        // Pages of the logical block in other random log blocks become stale with it.
        self.flash.merges.full += 1;
        let old = self.data[logical_block.index()].replace(target);
        self.release_with_sequential(logical_block, old)
    }

    /// Releases a former data block and the sequential log block if `logical_block` owns it.
    fn release_with_sequential(
        &mut self,
        logical_block: LogicalBlock,
        data: Option<u32>,
    ) -> Result<(), FtlError> {
        // The sequential log of the same logical block is merged in, since its pages were gathered,
        // too.
        let log = self.sequential.take_if(|log| log.logical_block == logical_block);
        data.into_iter()
            .chain(log.map(|log| log.block))
            .try_for_each(|block| self.flash.release(block))
    }

    /// Takes over what a scan found of a logical block: `homes`, in place and oldest first. A block
    /// that may be the sequential log block is returned.
    fn adopt(
        &mut self,
        logical_block: LogicalBlock,
        homes: &[u32],
        scan: &Scan,
    ) -> Result<Option<u32>, FtlError> {
        let found = |block: u32| &scan.blocks[block as usize];
        let is_sequential = |block: u32| found(block).role() == Some(Role::SequentialLog);
        let data = &mut self.data[logical_block.index()];
        match *homes {
            [] => {}
            [block] => *data = Some(block),
            [block, log] if is_sequential(log) => {
                *data = Some(block);
                return Ok(Some(log));
            }
            [ref older @ .., target] if !is_sequential(target) => {
                // The target of a finished full merge; the older blocks hold at most trimmed pages.
                *data = Some(target);
                discard(&mut self.flash, scan, &mut self.locations, older)?;
            }
            // Neither is complete: a merge was cut short. It is done again.
            _ => {
                self.merge_fully(logical_block)?;
                homes.iter().try_for_each(|block| self.flash.release(*block))?;
            }
        }
        Ok(None)
    }
}

impl Ftl for Fast {
    fn logical_pages(&self) -> u32 {
        self.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        self.locations.read(&mut self.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.flash.audit_is_due() {
            self.audit();
        }
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (logical_block, offset) = LogicalBlock::of(lpn, pages);
        let home = if let Some(block) = self.data[logical_block.index()] {
            block
        } else {
            *self.data[logical_block.index()].insert(self.flash.allocate()?)
        };
        let in_place = VirtualPage::new(home, offset);
        if self.flash.is_programmable(in_place) {
            // Remnants of an erased data block that are younger than the sequential log block must
            // not look like the target of a full merge.
            let owns_log = self.sequential.is_some_and(|log| log.logical_block == logical_block);
            let role = if owns_log { Role::SequentialLog } else { Role::Data };
            return self.program(in_place, lpn, role, data);
        }
        if let Some(at) = self.place_in_sequential(logical_block, offset)? {
            return self.program(at, lpn, Role::SequentialLog, data);
        }
        let at = self.place_in_random()?;
        self.program(at, lpn, Role::Log, data)
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (logical_block, _) = LogicalBlock::of(lpn, pages);
        self.locations.clear(lpn);
        if !self.locations.all_clear(logical_block.lpns(pages)) {
            return Ok(());
        }
        let data = self.data[logical_block.index()].take();
        self.release_with_sequential(logical_block, data)
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.flash.scan()?;
        let pages = self.flash.pages_per_block();
        // Targets of cut merges go before anything is located.
        drop_unfinished(&mut self.flash, &mut scan, UNFINISHED, pages)?;
        self.locations.rebuild(&scan);
        self.data.fill(None);
        self.sequential = None;
        self.random.clear();
        let mut logs = Vec::new();
        for (logical_block, blocks) in sort_blocks(&mut self.flash, &scan, &self.locations, pages)?
        {
            // Random log blocks hold pages of several logical blocks, or not at their offsets.
            let is_home = |block: &u32| {
                let found = &scan.blocks[*block as usize];
                found.is_in_place(pages)
                    && (found.has_role(Role::Data) || found.has_role(Role::SequentialLog))
            };
            let (homes, random): (Vec<u32>, Vec<u32>) = blocks.into_iter().partition(is_home);
            self.random.extend(random);
            let log = self.adopt(logical_block, &homes, &scan)?;
            logs.extend(log.map(|block| SequentialLog { logical_block, block }));
        }
        // All but the newest sequential log block were merged before the newest was begun.
        logs.sort_by_key(|log| scan.blocks[log.block as usize].oldest_sequence());
        self.sequential = logs.pop();
        for SequentialLog { logical_block, block } in logs {
            if let Some(old) = self.data[logical_block.index()].replace(block) {
                discard(&mut self.flash, &scan, &mut self.locations, &[old])?;
            }
        }
        self.random
            .make_contiguous()
            .sort_by_key(|block| scan.blocks[*block as usize].oldest_sequence());
        // What a cut leaves can count as more random log blocks than the setting allows.
        while self.random.len() > self.random_blocks_max {
            self.merge_oldest_random()?;
        }
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.locations.get(lpn)
    }

    /// Two bytes a logical block, four for each page of the random log blocks, and owner, block and
    /// fill of the sequential one.
    fn ram_bytes(&self) -> u64 {
        let log_entries = self.random_blocks_max as u64 * u64::from(self.flash.pages_per_block());
        2 * self.data.len() as u64 + 4 * log_entries + 6
    }

    fn tables(&self) -> Vec<Table> {
        let map = self.data.iter().zip(0_u32..).filter_map(|(data, logical_block)| {
            data.map(|block| vec![logical_block.to_string(), block.to_string()])
        });
        let log = |kind: &str, block: u32, owner: String| {
            vec![kind.to_owned(), block.to_string(), owner, self.flash.next_page(block).to_string()]
        };
        let sequential = self
            .sequential
            .iter()
            .map(|found| log("sequential", found.block, found.logical_block.to_string()));
        let random = self.random.iter().map(|block| log("random", *block, String::new()));
        let log_columns = vec!["kind", "block", "logical block", "pages used"];
        vec![
            Table {
                title: "block map",
                columns: vec!["logical block", "data block"],
                rows: map.collect(),
            },
            Table {
                title: "log blocks",
                columns: log_columns,
                rows: sequential.chain(random).collect(),
            },
        ]
    }

    crate::contract::flash_accessors!();
}

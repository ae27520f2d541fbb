//! BAST: block-associative log blocks.
//!
//! Data blocks are mapped as blocks, their pages lie at their home offsets. Up to k log blocks take
//! overwrites; each belongs to one logical block and is filled in order. A full log block, or the
//! least recently written one when another block needs a log, is merged: by a *switch* if it holds
//! all pages in order, by a *partial* merge if it holds a prefix in order, else by a *full* merge
//! into a fresh block.
//!
//! When to expect what: sequential overwrites cost one erase a block; random writes over more than
//! k blocks merge log blocks that hold a page or two each (thrashing).
//!
//! Source: Kim, Kim, Noh, Min, Cho, "A space-efficient flash translation layer for `CompactFlash`
//! systems", IEEE Trans. Consumer Electronics 48(2), 2002. The paper keeps its map in map blocks on
//! flash; here it is in RAM and rebuilt from spare areas. The partial merge is later taxonomy.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::merge::{gather, rewrite};
use crate::recovery::{Found, Scan, discard, drop_unfinished, found_of, sort_blocks};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Locations, Settings, VirtualPage};
use nand::{Chip, Role};

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "bast",
    summary: "BAST: data blocks and k log blocks, each log for one data block",
    source: "Kim et al., IEEE Trans. Consumer Electronics 48(2), 2002",
    features: Features {
        mapping: "block; pages within log blocks",
        first_write: "in place",
        overwrite: "out of place, in the block's own log block",
        block_kinds: "data, log",
    },
    parameters: &[
        Parameter {
            name: "log_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "16",
            summary: "log blocks (k)",
        },
        Parameter {
            name: "log_victim",
            kind: Kind::Choice(&["lru", "fifo"]),
            default: "lru",
            summary: "log block to merge when all are in use: least recently written, or oldest",
        },
        Parameter {
            name: "partial_merge",
            kind: Kind::Switch,
            default: "true",
            summary: "complete a log block that holds a prefix in order instead of a full merge",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        // One block more than data and logs: a full merge fills it before it gives two back.
        logical_pages.div_ceil(geometry.pages_per_block) + settings.integer("log_blocks") + 1
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Bast::new(flash, logical_pages, settings)),
};

/// Role of the pages of a full merge that is not complete.
const UNFINISHED: Role = Role::SequentialLog;

#[derive(Clone, Copy)]
struct Log {
    logical_block: LogicalBlock,
    block: u32,
}

#[derive(Clone)]
struct Bast {
    flash: Flash,
    locations: Locations,
    /// Logical block to data block.
    data: Vec<Option<u32>>,
    /// In the order in which they would be merged.
    logs: Vec<Log>,
    log_blocks_max: usize,
    victim_is_lru: bool,
    partial_merge: bool,
}

impl Bast {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let logical_blocks = logical_pages.div_ceil(flash.pages_per_block());
        Self {
            locations: Locations::new(logical_pages),
            data: vec![None; logical_blocks as usize],
            logs: Vec::new(),
            log_blocks_max: settings.integer("log_blocks") as usize,
            victim_is_lru: settings.word("log_victim") == "lru",
            partial_merge: settings.switch("partial_merge"),
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
        self.locations.program(&mut self.flash, at, lpn, role, data)
    }

    /// The log block with room for a page of `logical_block`, merging where there is none.
    fn log_with_room(&mut self, logical_block: LogicalBlock) -> Result<u32, FtlError> {
        let pages = self.flash.pages_per_block();
        if let Some(index) = self.logs.iter().position(|log| log.logical_block == logical_block) {
            let log = self.logs[index];
            if self.flash.next_page(log.block) < pages {
                if self.victim_is_lru {
                    // The log written last moves to the end; of those behind it none overtakes
                    // another.
                    self.logs[index..].rotate_left(1);
                }
                return Ok(log.block);
            }
            self.merge(index)?;
        } else if self.logs.len() >= self.log_blocks_max {
            // No log block is free for another logical block: the victim's merge frees one.
            self.merge(0)?;
        }
        let block = self.flash.allocate()?;
        self.logs.push(Log { logical_block, block });
        Ok(block)
    }

    /// Merges a log block with its data block by the cheapest of the three merges.
    fn merge(&mut self, index: usize) -> Result<(), FtlError> {
        let Log { logical_block, block } = self.logs[index];
        let pages = self.flash.pages_per_block();
        let first = logical_block.first_lpn(pages);
        let used = self.flash.next_page(block);
        // A page written in place after the log was opened, its home slot being free, is newer than
        // its copy in the log.
        let is_newest_in_log = |lpn| self.locations.get(lpn).is_none_or(|at| at.block == block);
        let is_home = |page| self.flash.peek(VirtualPage::new(block, page)).lpn() == first + page;
        // A sealed log block may hold a page that only looks erased, so no further page is
        // programmed there.
        let in_order = !self.flash.is_sealed(block)
            && (0..used).all(|page| is_home(page) && is_newest_in_log(first + page));
        let old = self.data[logical_block.index()];
        if in_order && (used == pages || self.partial_merge) {
            // A cut within leaves copies behind the log's own pages; their originals lie in the
            // data block, which is released last.
            gather(
                &mut self.flash,
                &mut self.locations,
                first..first + pages,
                VirtualPage::new(block, used),
                None,
            )?;
            // The map changes before the old block is erased; after a cut the scan finds both and
            // takes the log's pages for the newer ones.
            self.data[logical_block.index()] = Some(block);
            self.logs.remove(index);
            if used == pages {
                self.flash.merges.switch += 1;
            } else {
                self.flash.merges.partial += 1;
            }
        } else {
            self.merge_fully(logical_block)?;
            self.logs.remove(index);
            // Either order would do: after a cut a complete target without log pages ends whatever
            // is left.
            self.flash.release(block)?;
        }
        old.map_or(Ok(()), |old| self.flash.release(old))
    }

    fn merge_fully(&mut self, logical_block: LogicalBlock) -> Result<(), FtlError> {
        let pages = self.flash.pages_per_block();
        let first = logical_block.first_lpn(pages);
        let target =
            rewrite(&mut self.flash, &mut self.locations, first..first + pages, UNFINISHED, None)?;
        self.data[logical_block.index()] = Some(target);
        self.flash.merges.full += 1;
        Ok(())
    }

    /// Takes over the blocks that a scan found of a logical block, oldest first.
    fn adopt(
        &mut self,
        logical_block: LogicalBlock,
        blocks: &[u32],
        scan: &Scan,
    ) -> Result<(), FtlError> {
        let data = &mut self.data[logical_block.index()];
        match found_of(blocks, scan, self.flash.pages_per_block()) {
            Found::Home(block) => *data = Some(block),
            Found::HomeAndLog(block, log) => {
                *data = Some(block);
                self.logs.push(Log { logical_block, block: log });
            }
            Found::Merged { older, target } => {
                *data = Some(target);
                discard(&mut self.flash, scan, &mut self.locations, older)?;
            }
            Found::Unfinished => {
                // A full merge takes what is newest of all of them.
                self.merge_fully(logical_block)?;
                blocks.iter().try_for_each(|block| self.flash.release(*block))?;
            }
        }
        Ok(())
    }
}

impl Ftl for Bast {
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
            // A first write of a logical block goes to its home offset and needs no log.
            *self.data[logical_block.index()].insert(self.flash.allocate()?)
        };
        let in_place = VirtualPage::new(home, offset);
        if self.flash.is_programmable(in_place) {
            // Tagged as log beside a log, so that the remnant of a half-erased data block is never
            // taken for the finished target of a merge.
            let has_log = self.logs.iter().any(|log| log.logical_block == logical_block);
            return self.program(in_place, lpn, if has_log { Role::Log } else { Role::Data }, data);
        }
        let log = self.log_with_room(logical_block)?;
        let at = VirtualPage::new(log, self.flash.next_page(log));
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
        // The data block, with the older copies, goes first.
        // The other way round, a cut would leave the older copies as the newest.
        if let Some(block) = self.data[logical_block.index()].take() {
            self.flash.release(block)?;
        }
        match self.logs.iter().position(|log| log.logical_block == logical_block) {
            Some(index) => {
                let log = self.logs.remove(index);
                self.flash.release(log.block)
            }
            None => Ok(()),
        }
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.flash.scan()?;
        let pages = self.flash.pages_per_block();
        // Before the locations are built, or pages of an unfinished target would count as the
        // newest copies.
        drop_unfinished(&mut self.flash, &mut scan, UNFINISHED, pages)?;
        self.locations.rebuild(&scan);
        self.data.fill(None);
        self.logs.clear();
        for (logical_block, blocks) in sort_blocks(&mut self.flash, &scan, &self.locations, pages)?
        {
            self.adopt(logical_block, &blocks, &scan)?;
        }
        // Opened earlier, merged earlier: use since the cut is not known.
        self.logs.sort_by_key(|log| scan.blocks[log.block as usize].oldest_sequence());
        // What a cut leaves can count as more logs than the setting allows.
        while self.logs.len() > self.log_blocks_max {
            self.merge(0)?;
        }
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.locations.get(lpn)
    }

    /// Two bytes a logical block, and two bytes for each page of the log blocks.
    fn ram_bytes(&self) -> u64 {
        let log_entries = self.log_blocks_max as u64 * u64::from(self.flash.pages_per_block());
        2 * self.data.len() as u64 + 2 * log_entries
    }

    fn tables(&self) -> Vec<Table> {
        let log_of =
            |logical_block| self.logs.iter().find(|log| log.logical_block == logical_block);
        let rows = self.data.iter().zip((0..).map(LogicalBlock::new)).filter_map(
            |(data, logical_block)| {
                let log = log_of(logical_block).map_or(String::new(), |log| log.block.to_string());
                data.map(|block| vec![logical_block.to_string(), block.to_string(), log])
            },
        );
        vec![Table {
            title: "block map",
            columns: vec!["logical block", "data block", "log block"],
            rows: rows.collect(),
        }]
    }

    crate::contract::flash_accessors!();
}

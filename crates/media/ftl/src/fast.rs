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
use crate::settings::{Kind, Parameter};
use crate::shared_logs::SharedLogs;
use crate::{Flash, FtlError, Settings, VirtualPage};
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
    blocks_required: &|geometry, logical_pages, settings| {
        logical_pages.div_ceil(geometry.pages_per_block) + settings.integer("log_blocks") + 1
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Fast::new(flash, logical_pages, settings)),
};

/// Sequential log blocks at a time.
const SEQUENTIAL_BLOCKS_MAX: usize = 1;

#[derive(Clone)]
struct Fast {
    blocks: SharedLogs,
    /// Random log blocks, oldest first; only the last has room.
    random: VecDeque<u32>,
    random_blocks_max: usize,
}

impl Fast {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        Self {
            blocks: SharedLogs::new(flash, logical_pages),
            random: VecDeque::new(),
            random_blocks_max: settings.integer("log_blocks") as usize - SEQUENTIAL_BLOCKS_MAX,
        }
    }

    /// The next page of the random log blocks.
    fn place_in_random(&mut self) -> Result<VirtualPage, FtlError> {
        let flash = &mut self.blocks.flash;
        if let Some(last) = self.random.back() {
            let page = flash.next_page(*last);
            if page < flash.pages_per_block() {
                return Ok(VirtualPage::new(*last, page));
            }
        }
        // Random log blocks are used to the last page before any is merged, which is FAST's gain
        // over BAST.
        if self.random.len() >= self.random_blocks_max {
            self.merge_oldest_random()?;
        }
        let block = self.blocks.flash.allocate()?;
        self.random.push_back(block);
        Ok(VirtualPage::new(block, 0))
    }

    /// Merges every logical block with a newest page in the oldest random log block and erases that.
    fn merge_oldest_random(&mut self) -> Result<(), FtlError> {
        let Some(victim) = self.random.front().copied() else { return Ok(()) };
        self.blocks.empty_log(victim)?;
        self.random.pop_front();
        Ok(())
    }
}

impl Ftl for Fast {
    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.blocks.flash.audit_is_due() {
            self.audit();
        }
        if self.blocks.program_in_place(lpn, data)? {
            return Ok(());
        }
        if let Some(at) = self.blocks.place_in_sequential(lpn, SEQUENTIAL_BLOCKS_MAX)? {
            return self.blocks.program(at, lpn, Role::SequentialLog, data);
        }
        let at = self.place_in_random()?;
        self.blocks.program(at, lpn, Role::Log, data)
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        self.random.clear();
        self.random.extend(self.blocks.rebuild(SEQUENTIAL_BLOCKS_MAX)?);
        // What a cut leaves can count as more random log blocks than the setting allows.
        while self.random.len() > self.random_blocks_max {
            self.merge_oldest_random()?;
        }
        Ok(())
    }

    /// Two bytes a logical block, four for each page of the random log blocks, and owner, block and
    /// fill of the sequential one.
    fn ram_bytes(&self) -> u64 {
        self.blocks.ram_bytes(self.random_blocks_max, SEQUENTIAL_BLOCKS_MAX)
    }

    fn tables(&self) -> Vec<Table> {
        self.blocks.tables(self.random.iter())
    }

    crate::shared_logs::shared_accessors!();
}

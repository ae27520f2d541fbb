//! KAST: log blocks whose pages belong to at most K logical blocks.
//!
//! Data blocks are mapped as blocks, their pages lie at their home offsets. Overwrites go to log blocks.
//! Some are *sequential*, as in FAST: each starts with page 0 of a logical block and takes the following
//! pages in order, until a *switch* or a *partial* merge makes it the data block. The others are *random*
//! and shared, but the newest pages in one belong to at most K logical blocks, its associativity. When no
//! random log block may take a page, the one of the lowest associativity is emptied by a *full* merge of
//! each logical block in it.
//!
//! When to expect what: FAST's gain over BAST for random writes, while no write waits for more than K full
//! merges. A small K bounds the longest write and costs more merges, as log blocks are given up half
//! stale or half full.
//!
//! Source: Cho, Shin, Eom, "KAST: K-associative sector translation for NAND flash memory in real-time
//! systems", DATE 2009. Where the paper leaves room: a page goes to a log block that holds pages of its
//! logical block already, else to the one of the lowest associativity; of equals the oldest is taken.
//! Sequential log blocks follow FAST's rules, and the one written longest ago is merged when another
//! logical block starts. The tables are in RAM and rebuilt from spare areas.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::settings::{Kind, Parameter, SettingError};
use crate::shared_logs::SharedLogs;
use crate::{Flash, FtlError, Settings, VirtualPage};
use nand::{Chip, Role};

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "kast",
    summary: "KAST: sequential log blocks, and random ones for at most K logical blocks each",
    source: "Cho, Shin, Eom, DATE 2009",
    features: Features {
        mapping: "block; pages within log blocks",
        first_write: "in place",
        overwrite: "out of place, in log blocks that K data blocks share",
        block_kinds: "data, sequential log, random log",
    },
    parameters: &[
        Parameter {
            name: "log_blocks",
            kind: Kind::Integer { min: 2, max: 1_000_000 },
            default: "16",
            summary: "log blocks, sequential and random",
        },
        Parameter {
            name: "sequential_log_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "2",
            summary: "how many of the log blocks are sequential",
        },
        Parameter {
            name: "associativity",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "4",
            summary: "logical blocks with newest pages in a random log block, at most (K)",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        logical_pages.div_ceil(geometry.pages_per_block) + settings.integer("log_blocks") + 1
    },
    maps_parts: false,
    check: |_, settings| {
        let (logs, sequential) =
            (settings.integer("log_blocks"), settings.integer("sequential_log_blocks"));
        if sequential < logs {
            return Ok(());
        }
        Err(SettingError::Impossible(format!(
            "of {logs} log blocks {sequential} cannot be sequential: at least one is random"
        )))
    },
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Kast::new(flash, logical_pages, settings)),
};

#[derive(Clone)]
struct Kast {
    blocks: SharedLogs,
    /// Random log blocks, oldest first.
    random: Vec<u32>,
    random_blocks_max: usize,
    sequential_blocks_max: usize,
    associativity_max: usize,
}

impl Kast {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let sequential_blocks_max = settings.integer("sequential_log_blocks") as usize;
        Self {
            blocks: SharedLogs::new(flash, logical_pages),
            random: Vec::new(),
            random_blocks_max: settings.integer("log_blocks") as usize - sequential_blocks_max,
            sequential_blocks_max,
            associativity_max: settings.integer("associativity") as usize,
        }
    }

    /// The next page of a random log block that may take a page of `logical_block`.
    fn place_in_random(&mut self, logical_block: LogicalBlock) -> Result<VirtualPage, FtlError> {
        if let Some(block) = self.log_with_room(logical_block) {
            return Ok(VirtualPage::new(block, self.blocks.flash.next_page(block)));
        }
        if self.random.len() >= self.random_blocks_max {
            self.merge_least_associated()?;
        }
        let block = self.blocks.flash.allocate()?;
        self.random.push(block);
        Ok(VirtualPage::new(block, 0))
    }

    fn log_with_room(&self, logical_block: LogicalBlock) -> Option<u32> {
        let flash = &self.blocks.flash;
        let mut best: Option<(usize, u32)> = None;
        for block in &self.random {
            if flash.next_page(*block) >= flash.pages_per_block() {
                continue;
            }
            let live = self.blocks.live_logical_blocks(*block);
            // One that has the logical block gets no further one by the page.
            if live.contains(&logical_block) {
                return Some(*block);
            }
            let is_better = best.is_none_or(|(fewest, _)| live.len() < fewest);
            if live.len() < self.associativity_max && is_better {
                best = Some((live.len(), *block));
            }
        }
        best.map(|(_, block)| block)
    }

    /// Empties the random log block with pages of the fewest logical blocks, the oldest of equals.
    fn merge_least_associated(&mut self) -> Result<(), FtlError> {
        let associativity = |block: u32| self.blocks.live_logical_blocks(block).len();
        let victim = (0..self.random.len()).min_by_key(|index| associativity(self.random[*index]));
        let Some(index) = victim else { return Ok(()) };
        debug_assert!(
            associativity(self.random[index]) <= self.associativity_max,
            "no merge takes more than K full ones"
        );
        self.blocks.empty_log(self.random[index])?;
        self.random.remove(index);
        Ok(())
    }
}

impl Ftl for Kast {
    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.blocks.flash.audit_is_due() {
            self.audit();
        }
        if self.blocks.program_in_place(lpn, data)? {
            return Ok(());
        }
        if let Some(at) = self.blocks.place_in_sequential(lpn, self.sequential_blocks_max)? {
            return self.blocks.program(at, lpn, Role::SequentialLog, data);
        }
        let (logical_block, _) = self.blocks.place_of(lpn);
        let at = self.place_in_random(logical_block)?;
        self.blocks.program(at, lpn, Role::Log, data)
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        self.random.clear();
        self.random = self.blocks.rebuild(self.sequential_blocks_max)?;
        // Trimmed pages that a cut brought back can belong to further logical blocks.
        let exceeds = |kast: &Self, block: u32| {
            kast.blocks.live_logical_blocks(block).len() > kast.associativity_max
        };
        while let Some(index) = self.random.iter().position(|block| exceeds(self, *block)) {
            self.blocks.empty_log(self.random[index])?;
            self.random.remove(index);
        }
        // What a cut leaves can count as more log blocks than the settings allow.
        while self.random.len() > self.random_blocks_max {
            self.merge_least_associated()?;
        }
        Ok(())
    }

    /// Two bytes a logical block, four for each page of the random log blocks, and owner, block and fill of
    /// each sequential one.
    fn ram_bytes(&self) -> u64 {
        self.blocks.ram_bytes(self.random_blocks_max, self.sequential_blocks_max)
    }

    fn tables(&self) -> Vec<Table> {
        self.blocks.tables(self.random.iter())
    }

    crate::shared_logs::shared_accessors!();
}

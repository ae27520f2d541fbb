//! LAST: long requests and short ones go to different log blocks, and hot pages are kept apart.
//!
//! Data blocks are mapped as blocks, their pages lie at their home offsets. A request of at least
//! `sequential_request_pages` pages is taken for a part of a stream: its overwrites go to *sequential* log
//! blocks, each for one logical block from its page 0 on, which a *switch* or a *partial* merge makes the
//! data block. Shorter requests go to *random* log blocks, which all logical blocks share. These are hot or
//! cold: a page whose newest copy was put into a random log block not long ago is hot. Hot pages are
//! overwritten soon, so their log blocks die: no page in them is the newest, and an erase frees them
//! without a copy. A hot log block that lives on when another is needed turns cold. Of the cold ones that
//! with pages of the fewest logical blocks is emptied, by a *full* merge of each.
//!
//! When to expect what: mixed work costs less than under FAST, whose log blocks mix streams with single pages
//! and hot pages with cold ones. The size of requests is what tells them apart, so a layer that gets page
//! by page from a write cache, or a short share of each request since its device has many dies, has random ones alone.
//!
//! Source: Lee, Shin, Kim, Kim, "LAST: locality-aware sector translation for NAND flash memory-based storage
//! systems", ACM SIGOPS Operating Systems Review 42(6), 2008. Where our sources leave room: the paper's
//! threshold is 4 KiB, which is eight pages of 512 bytes; a long request that begins within a logical block
//! continues its sequential log block, or goes to the cold ones; how long a page is hot is a setting; so is the share
//! of hot log blocks, which is fixed, while the paper adapts it; a dead log block is erased when a block is
//! needed, and one that dies with a page for which a block is needed right after that; of equals the oldest is taken. Which log blocks were hot is not on the medium: after a power cut
//! the youngest are. The tables are in RAM and rebuilt from spare areas.

use crate::contract::{Features, Ftl, FtlEntry, Table, measure_writes};
use crate::settings::{Kind, Parameter, SettingError};
use crate::shared_logs::{SharedLogs, role_in_shared_log};
use crate::work::PageWork;
use crate::{Flash, FtlError, Settings, VirtualPage};
use nand::{Chip, Role};
use std::ops::Range;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "last",
    summary: "LAST: sequential log blocks for long requests, hot and cold random ones for short requests",
    source: "Lee et al., ACM SIGOPS Operating Systems Review 42(6), 2008",
    features: Features {
        mapping: "block; pages within log blocks",
        first_write: "in place",
        overwrite: "out of place, in log blocks by size of request and by recency",
        block_kinds: "data, sequential log, hot log, cold log",
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
            name: "sequential_request_pages",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "8",
            summary: "pages from which on a request goes to the sequential log blocks",
        },
        Parameter {
            name: "hot_log_percent",
            kind: Kind::Integer { min: 0, max: 99 },
            default: "25",
            summary: "share of the random log blocks that is for hot pages, rounded up; one at least is cold",
        },
        Parameter {
            name: "hot_window_programs",
            kind: Kind::Integer { min: 1, max: 1_000_000_000 },
            default: "4096",
            summary: "page programs of the chip for which a page in a random log block is hot",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        // One block more than data and logs: a full merge fills it before it gives one back. Another one takes the
        // page with which a hot log block dies.
        logical_pages.div_ceil(geometry.pages_per_block) + settings.integer("log_blocks") + 2
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
    build: &|flash, logical_pages, settings| Box::new(Last::new(flash, logical_pages, settings)),
};

#[derive(Clone)]
struct Last {
    blocks: SharedLogs,
    /// Random log blocks for hot pages, oldest first; only the last has room.
    hot: Vec<u32>,
    /// The other random log blocks: those that were hot last, then the others, oldest first; only the last has room.
    cold: Vec<u32>,
    sequential_blocks_max: usize,
    hot_blocks_max: usize,
    cold_blocks_max: usize,
    sequential_request_pages: usize,
    hot_window_programs: u64,
    /// Pages of the request that is being written.
    request_pages: usize,
}

impl Last {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let sequential_blocks_max = settings.integer("sequential_log_blocks") as usize;
        let random = settings.integer("log_blocks") as usize - sequential_blocks_max;
        let hot = (random * settings.integer("hot_log_percent") as usize).div_ceil(100);
        // Pages that are overwritten for the first time in a long while need a log block, too.
        let hot_blocks_max = hot.min(random - 1);
        Self {
            blocks: SharedLogs::new(flash, logical_pages),
            hot: Vec::new(),
            cold: Vec::new(),
            sequential_blocks_max,
            hot_blocks_max,
            cold_blocks_max: random - hot_blocks_max,
            sequential_request_pages: settings.integer("sequential_request_pages") as usize,
            hot_window_programs: u64::from(settings.integer("hot_window_programs")),
            request_pages: 1,
        }
    }

    /// True if the newest copy of a page went into a random log block within the window.
    fn is_hot(&self, lpn: u32) -> bool {
        let Some(at) = self.blocks.locations.get(lpn) else { return false };
        if !self.hot.contains(&at.block) && !self.cold.contains(&at.block) {
            return false;
        }
        // The log's map of pages is in order of time, so RAM knows the age of each entry.
        let flash = &self.blocks.flash;
        flash.sequence() - flash.peek(at).sequence() <= self.hot_window_programs
    }

    /// The next page of the random log blocks for a page that is hot, or for one that is not.
    fn place_in_random(&mut self, lpn: u32, is_hot: bool) -> Result<VirtualPage, FtlError> {
        let flash = &self.blocks.flash;
        let logs = if is_hot { &self.hot } else { &self.cold };
        if let Some(last) = logs.last() {
            let page = flash.next_page(*last);
            if page < flash.pages_per_block() {
                return Ok(VirtualPage::new(*last, page));
            }
        }
        if is_hot {
            self.make_room_for_hot(lpn)?;
        }
        while self.cold.len() > self.cold_blocks_max - usize::from(!is_hot) {
            self.merge_cheapest()?;
        }
        let block = self.blocks.flash.allocate()?;
        if is_hot {
            self.hot.push(block);
        } else {
            self.cold.push(block);
        }
        Ok(VirtualPage::new(block, 0))
    }

    /// Hot log blocks that are full make room for another: a dead one is erased, or the oldest turns cold. One
    /// that dies with the page that is about to be written stays until then.
    fn make_room_for_hot(&mut self, lpn: u32) -> Result<(), FtlError> {
        while self.hot.len() >= self.hot_blocks_max {
            if self.erase_dead_hot()? {
                continue;
            }
            let may_die = self.hot.len() == self.hot_blocks_max;
            if may_die && self.hot.iter().any(|block| self.holds_only(*block, lpn)) {
                return Ok(());
            }
            // Its pages were not overwritten again in time. Nothing is moved: it is full, so it goes before those
            // that have room.
            let turned_cold = self.hot.remove(0);
            self.cold.insert(0, turned_cold);
        }
        Ok(())
    }

    /// True if `lpn` is the only page whose newest copy is in a block.
    fn holds_only(&self, block: u32, lpn: u32) -> bool {
        let lpns = self.blocks.flash.peek_lpns(block).zip(0..);
        let mut live = lpns.filter(|(lpn, page)| {
            self.blocks.locations.is_newest(*lpn, VirtualPage::new(block, *page))
        });
        live.next().is_some_and(|(first, _)| first == lpn) && live.next().is_none()
    }

    /// Erases the oldest hot log block without a newest page; false if there is none.
    fn erase_dead_hot(&mut self) -> Result<bool, FtlError> {
        let is_dead = |block: &u32| self.blocks.live_logical_blocks(*block).is_empty();
        let Some(index) = self.hot.iter().position(is_dead) else { return Ok(false) };
        let dead = self.hot.remove(index);
        self.blocks.flash.release(dead)?;
        Ok(true)
    }

    /// Empties the cold log block with pages of the fewest logical blocks, the first of equals; a dead one has none.
    fn merge_cheapest(&mut self) -> Result<(), FtlError> {
        let cost = |block: u32| self.blocks.live_logical_blocks(block).len();
        let victim = (0..self.cold.len()).min_by_key(|index| cost(self.cold[*index]));
        let Some(index) = victim else { return Ok(()) };
        self.blocks.empty_log(self.cold[index])?;
        self.cold.remove(index);
        Ok(())
    }
}

impl Ftl for Last {
    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.blocks.flash.audit_is_due() {
            self.audit();
        }
        if self.blocks.program_in_place(lpn, data)? {
            return Ok(());
        }
        if self.request_pages >= self.sequential_request_pages
            && let Some(at) = self.blocks.place_in_sequential(lpn, self.sequential_blocks_max)?
        {
            return self.blocks.program(at, lpn, Role::SequentialLog, data);
        }
        let is_hot = self.hot_blocks_max > 0 && self.is_hot(lpn);
        let at = self.place_in_random(lpn, is_hot)?;
        let (_, offset) = self.blocks.place_of(lpn);
        self.blocks.program(at, lpn, role_in_shared_log(at, offset), data)?;
        // One too many for the time of the program: it held the old copy, and nothing else that is newest.
        if self.hot.len() > self.hot_blocks_max {
            self.erase_dead_hot()?;
        }
        Ok(())
    }

    fn write_pages(&mut self, mut pages: Range<u32>) -> Result<(), FtlError> {
        self.request_pages = pages.len();
        let outcome = pages.try_for_each(|lpn| self.write(lpn, None));
        // A single page that comes next is a request of its own.
        self.request_pages = 1;
        outcome
    }

    fn write_measured(&mut self, first: u32, pages: &mut [PageWork]) -> Result<(), FtlError> {
        self.request_pages = pages.len();
        let outcome = measure_writes(self, first, pages);
        self.request_pages = 1;
        outcome
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        self.hot.clear();
        self.cold = self.blocks.rebuild(self.sequential_blocks_max)?;
        let excess = self.cold.len().saturating_sub(self.cold_blocks_max);
        self.hot = self.cold.split_off(self.cold.len() - excess.min(self.hot_blocks_max));
        // What a cut leaves can count as more log blocks than the settings allow.
        while self.cold.len() > self.cold_blocks_max {
            self.merge_cheapest()?;
        }
        Ok(())
    }

    /// Two bytes a logical block, four for each page of the random log blocks, and owner, block and fill of each
    /// sequential one.
    fn ram_bytes(&self) -> u64 {
        self.blocks
            .ram_bytes(self.hot_blocks_max + self.cold_blocks_max, self.sequential_blocks_max)
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = self.blocks.tables(self.hot.iter().chain(&self.cold));
        let rows = tables.iter_mut().flat_map(|table| &mut table.rows);
        for (row, number) in rows.filter(|row| row[0] == "random").zip(0..) {
            row[0] = if number < self.hot.len() { "hot".into() } else { "cold".into() };
        }
        tables
    }

    crate::shared_logs::shared_accessors!();
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Last};
    use crate::work::PageWork;
    use crate::{Flash, Ftl, FtlError, Settings, Value};
    use nand::{Chip, CutPoint, FaultSettings, Role, Storage, find_part};
    use std::collections::BTreeMap;

    /// Eight logical blocks of four pages, all written; requests from three pages on are long.
    fn layer() -> Last {
        layer_with(5, 3)
    }

    /// The same with so many log blocks, one of them sequential, and spare blocks beside data and logs.
    fn layer_with(log_blocks: u32, spare_blocks: u32) -> Last {
        let numbers = [
            ("log_blocks", i64::from(log_blocks)),
            ("sequential_log_blocks", 1),
            ("sequential_request_pages", 3),
            ("hot_log_percent", 50),
        ];
        let given: BTreeMap<String, Value> = numbers
            .into_iter()
            .map(|(name, number)| (name.to_owned(), Value::Integer(number)))
            .collect();
        let settings = Settings::new(ENTRY.parameters, &given).expect("known settings");
        let mut part = find_part("published-small-block").expect("in the catalogue");
        (part.geometry.pages_per_block, part.geometry.blocks) = (4, 8 + log_blocks + spare_blocks);
        let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        let mut layer = Last::new(Flash::new(chip, &settings), 32, &settings);
        layer.write_pages(0..32).expect("a healthy chip");
        layer
    }

    fn role(layer: &Last, lpn: u32) -> Role {
        layer.flash().peek(layer.locate(lpn).expect("written")).role()
    }

    /// A request has the size of its range, plain or measured, and the next page on its own is one of one page.
    #[test]
    fn the_size_of_a_request_is_that_of_its_range() {
        type Write = fn(&mut Last, u32, usize);
        let ways: [Write; 2] = [
            |layer, first, count| {
                layer.write_pages(first..first + count as u32).expect("a healthy chip");
            },
            |layer, first, count| {
                let mut work = vec![PageWork::default(); count];
                layer.write_measured(first, &mut work).expect("a healthy chip");
                assert!(work.iter().all(|page| page.total.counters.page_programs == 1));
            },
        ];
        for write in ways {
            let mut layer = layer();
            write(&mut layer, 0, 3);
            assert_eq!([0, 1, 2].map(|lpn| role(&layer, lpn)), [Role::SequentialLog; 3]);
            // In order behind them, and short.
            layer.write(3, None).expect("a healthy chip");
            assert_eq!(role(&layer, 3), Role::Log);
            write(&mut layer, 5, 2);
            assert_eq!([5, 6].map(|lpn| role(&layer, lpn)), [Role::Log; 2]);
        }
    }

    /// Page 1 is hot from its second write on, pages that are written once are cold: they lie in blocks of their own.
    #[test]
    fn hot_pages_lie_apart() {
        let mut layer = layer();
        for lpn in [1, 5, 1, 9, 1, 13] {
            layer.write(lpn, None).expect("a healthy chip");
        }
        let block = |lpn| layer.locate(lpn).expect("written").block;
        assert_eq!(layer.hot, [block(1)]);
        assert_eq!(layer.cold, [block(5)]);
        assert_eq!([block(9), block(13)], [block(5); 2]);
        // A rebuild does not know it; no cold log block is one too many, so all are cold.
        let (hot, cold) = (layer.hot.clone(), layer.cold.clone());
        layer.rebuild().expect("a healthy chip");
        assert!(layer.hot.is_empty());
        assert_eq!(layer.cold, [cold, hot].concat());
    }

    /// A hot page fills one log block after another: each dies with the page for which the next one is taken.
    #[test]
    fn one_hot_page_costs_an_erase_a_block() {
        let mut layer = layer();
        (layer.hot_blocks_max, layer.cold_blocks_max) = (1, 1);
        layer.write(5, None).expect("a healthy chip");
        let free = layer.flash().free_blocks();
        for number in 0..41 {
            layer.write(1, None).expect("a healthy chip");
            assert!(layer.hot.len() <= 1, "after {number} writes {:?} are hot", layer.hot);
        }
        let counters = layer.flash().chip().counters();
        // Ten hot log blocks were taken.
        assert_eq!((counters.page_reads, counters.erases), (0, 9));
        assert_eq!(layer.flash().free_blocks(), free - 1);
    }

    /// A hot log block dies with a write, and a cut comes before its erase: a page of it that was trimmed is the newest
    /// again. So there is a log block too many, and to empty one takes the second block beyond data and logs.
    #[test]
    fn a_log_block_that_a_cut_brings_back_is_merged() {
        let after_cut = |spare_blocks: u32| {
            let mut layer = layer_with(3, spare_blocks);
            // A sequential log block, a cold one full of pages that live, and a hot one with pages 1 and 5.
            layer.write_pages(16..19).expect("a healthy chip");
            for lpn in [1, 5, 9, 13, 1, 5, 1, 1] {
                layer.write(lpn, None).expect("a healthy chip");
            }
            layer.trim(5).expect("a healthy chip");
            // The program, and then the erase.
            layer.flash_mut().chip_mut().cut_power_after(1, CutPoint::Before);
            layer.write(1, None).expect_err("the power fails");
            layer.flash_mut().chip_mut().power_on();
            layer.rebuild().map(|()| layer)
        };
        let layer = after_cut(2).expect("a free block for the merge");
        assert_eq!((layer.hot.len(), layer.cold.len()), (1, 1));
        assert_eq!(after_cut(1).err(), Some(FtlError::NoFreeBlock));
    }
}

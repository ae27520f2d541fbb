//! Hybrid: a page-mapped area beside allocation units, of which few are open for writing.
//!
//! What memory cards show from outside. The first units, where FAT keeps its tables, are mapped page by page:
//! any write is appended, and the block with the fewest valid pages is cleaned when their blocks are used up.
//! Every other unit is mapped as a whole. A write to one *opens* it: a fresh block takes its pages in ascending
//! order, at their home offsets, and pages that a write skips are copied from the old block. At most
//! `open_units` units are open. A write to another one closes the one written longest ago: what the open block
//! lacks is copied and the old block is erased. A write below the last page closes and opens its unit, too.
//!
//! When to expect what: streams to as many units as may be open cost a program a page. With one more
//! each change of the unit copies about a unit, so throughput halves with the piece that is written at a
//! time: the signature that `flashbench --open-au` looks for. Short random writes cost a unit each outside
//! of the page-mapped area, and little within.
//!
//! Source: Bergmann, "Optimizing Linux with cheap flash drives", LWN, 2011, and his `flashbench`; OLPC's page
//! `SDCard_Testing`. No maker has published such a layer, and this one is ours. Assumed: the page-mapped area is
//! at the beginning, its size is a setting; a unit is a block of the chip; pages of an open unit are programmed
//! in ascending order alone, as linear cards do; the unit written longest ago is closed; a unit that is
//! full stays open until another one needs its place. The tables are in RAM and rebuilt from spare areas.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::merge::{gather, rewrite};
use crate::page_groups::{PageGroups, SPARE_BLOCKS};
use crate::recovery::{Scan, discard, drop_unfinished};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Settings, VirtualPage};
use nand::{Chip, Role};
use std::collections::BTreeMap;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "hybrid",
    summary: "Hybrid card: a page-mapped area beside allocation units, few of which are open for writing",
    source: "ours, after Bergmann, LWN, 2011, and flashbench",
    features: Features {
        mapping: "page in the first units, block in the others",
        first_write: "appended in the first units, in place in an open unit",
        overwrite: "appended in the first units, in place in an open unit",
        block_kinds: "page-mapped, data, open",
    },
    parameters: &[
        Parameter {
            name: "page_mapped_units",
            kind: Kind::Integer { min: 0, max: 1_000_000 },
            default: "2",
            summary: "allocation units at the beginning that are mapped page by page",
        },
        Parameter {
            name: "update_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "2",
            summary: "blocks that the page-mapped area may have beyond those of its data",
        },
        Parameter {
            name: "open_units",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "5",
            summary: "other allocation units that are open for writing at a time",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        let units = logical_pages.div_ceil(geometry.pages_per_block);
        // The spare blocks of the page-mapped area serve the units, too: one takes the pages of a unit that is
        // closed after a power cut, and only one of all operations is ever half done.
        units + settings.integer("open_units") + settings.integer("update_blocks") + SPARE_BLOCKS
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Hybrid::new(flash, logical_pages, settings)),
};

/// Role of the pages of a full merge before its last; see [`rewrite`]. The pages of open units are data.
const UNFINISHED: Role = Role::SequentialLog;

/// A unit that is open for writing.
#[derive(Clone, Copy)]
struct OpenUnit {
    unit: LogicalBlock,
    block: u32,
}

#[derive(Clone)]
struct Hybrid {
    /// The page-mapped area, the chip, and where the pages of both areas lie.
    pages: PageGroups,
    /// Unit to block: the old one while the unit is open.
    data: Vec<Option<u32>>,
    /// Least recently written first.
    open: Vec<OpenUnit>,
    open_units_max: usize,
}

impl Hybrid {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let pages_per_unit = flash.pages_per_block();
        let units = logical_pages.div_ceil(pages_per_unit);
        let mapped_units = settings.integer("page_mapped_units").min(units);
        let mapped = 0..logical_pages.min(mapped_units * pages_per_unit);
        let areas = (!mapped.is_empty()).then_some(mapped).into_iter();
        let update_blocks = settings.integer("update_blocks");
        Self {
            pages: PageGroups::new(flash, logical_pages, areas, update_blocks, true),
            data: vec![None; units as usize],
            open: Vec::new(),
            open_units_max: settings.integer("open_units") as usize,
        }
    }

    /// Writes a page of a unit that is mapped as a whole.
    fn write_in_unit(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        let pages = self.pages.flash.pages_per_block();
        let (unit, offset) = LogicalBlock::of(lpn, pages);
        let block = self.open_for(unit, offset)?;
        let next = VirtualPage::new(block, self.pages.flash.next_page(block));
        // What is skipped comes from the old block, since it cannot be programmed later.
        let skipped = unit.first_lpn(pages)..lpn;
        gather(&mut self.pages.flash, &mut self.pages.locations, skipped, next, None)?;
        let at = VirtualPage::new(block, offset);
        self.pages.locations.program(&mut self.pages.flash, at, lpn, Role::Data, data)
    }

    /// The open block of a unit, whose pages from `offset` on are erased.
    fn open_for(&mut self, unit: LogicalBlock, offset: u32) -> Result<u32, FtlError> {
        if let Some(index) = self.open.iter().position(|open| open.unit == unit) {
            let block = self.open[index].block;
            // A unit that a power cut left open is sealed: no page of it is erased for sure.
            if self.pages.flash.next_page(block) <= offset {
                self.open[index..].rotate_left(1);
                return Ok(block);
            }
            self.close(index)?;
        } else if self.open.len() >= self.open_units_max {
            self.close(0)?;
        }
        let block = self.pages.flash.allocate()?;
        self.open.push(OpenUnit { unit, block });
        Ok(block)
    }

    /// Completes the block of an open unit, or gathers the unit in a fresh one where that cannot be, and erases
    /// the old one.
    fn close(&mut self, index: usize) -> Result<(), FtlError> {
        let OpenUnit { unit, block } = self.open[index];
        let Some(old) = self.data[unit.index()] else {
            // Written for the first time: nothing is missing.
            self.data[unit.index()] = Some(block);
            self.open.remove(index);
            return Ok(());
        };
        let PageGroups { flash, locations, .. } = &mut self.pages;
        let lpns = unit.lpns(flash.pages_per_block());
        let next = flash.next_page(block);
        let has_room_for = |lpn: u32| next <= lpn - lpns.start;
        let holds = |lpn: u32| locations.get(lpn).is_none_or(|at| at.block == block);
        if lpns.clone().all(|lpn| holds(lpn) || has_room_for(lpn)) {
            gather(flash, locations, lpns.clone(), VirtualPage::new(block, next), None)?;
            if next == flash.pages_per_block() {
                flash.merges.switch += 1;
            } else {
                flash.merges.partial += 1;
            }
            // The map before the old block is erased; a cut in between leaves both, and the unit open.
            self.data[unit.index()] = Some(block);
            self.open.remove(index);
            return self.pages.flash.release(old);
        }
        let target = rewrite(flash, locations, lpns, UNFINISHED, None)?;
        flash.merges.full += 1;
        self.data[unit.index()] = Some(target);
        self.open.remove(index);
        // The older one first: a cut leaves two blocks of the unit at most, the younger with the newest pages.
        [old, block].into_iter().try_for_each(|block| self.pages.flash.release(block))
    }

    /// Forgets a page of a unit that is mapped as a whole; gives its blocks back with the last one.
    fn trim_in_unit(&mut self, lpn: u32) -> Result<(), FtlError> {
        let pages = self.pages.flash.pages_per_block();
        let (unit, _) = LogicalBlock::of(lpn, pages);
        self.pages.locations.clear(lpn);
        if !self.pages.locations.all_clear(unit.lpns(pages)) {
            return Ok(());
        }
        let index = self.open.iter().position(|open| open.unit == unit);
        let open = index.map(|index| self.open.remove(index).block);
        // The old block, with the older copies, goes first: a cut leaves no older copy as the newest.
        let blocks = self.data[unit.index()].take().into_iter().chain(open);
        blocks.into_iter().try_for_each(|block| self.pages.flash.release(block))
    }

    /// Takes over what a scan found of the units that are mapped as a whole.
    fn adopt_units(&mut self, scan: &Scan) -> Result<(), FtlError> {
        let pages = self.pages.flash.pages_per_block();
        let mut units: BTreeMap<LogicalBlock, Vec<u32>> = BTreeMap::new();
        for (found, block) in scan.blocks.iter().zip(0..) {
            let Some((_, first)) = found.tags().next() else { continue };
            if self.pages.group_of(first.lpn()).is_some() {
                continue;
            }
            let is_newest = |(page, lpn): (u32, u32)| {
                self.pages.locations.is_newest(lpn, VirtualPage::new(block, page))
            };
            if found.tags().any(|(page, tag)| is_newest((page, tag.lpn()))) {
                let (unit, _) = LogicalBlock::of(first.lpn(), pages);
                units.entry(unit).or_default().push(block);
            } else {
                self.pages.flash.release(block)?;
            }
        }
        for (unit, mut blocks) in units {
            blocks.sort_by_key(|block| scan.blocks[*block as usize].oldest_sequence());
            let PageGroups { flash, locations, .. } = &mut self.pages;
            match *blocks {
                [block] => self.data[unit.index()] = Some(block),
                // Open, or closed when the power failed, and the old block has trimmed pages. That one counts as
                // open in its own stead: the next unit was not opened yet.
                [old, block] => {
                    self.data[unit.index()] = Some(old);
                    self.open.push(OpenUnit { unit, block });
                }
                // A full merge was finished: the older blocks hold at most trimmed pages.
                [ref older @ .., target] => {
                    discard(flash, scan, locations, older)?;
                    self.data[unit.index()] = Some(target);
                }
                [] => {}
            }
        }
        self.open.sort_by_key(|open| scan.blocks[open.block as usize].oldest_sequence());
        debug_assert!(self.open.len() <= self.open_units_max, "a cut opens no unit");
        Ok(())
    }
}

impl Ftl for Hybrid {
    fn logical_pages(&self) -> u32 {
        self.pages.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        self.pages.locations.read(&mut self.pages.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.pages.flash.audit_is_due() {
            self.audit();
            self.pages.audit();
        }
        self.pages.locations.check(lpn)?;
        match self.pages.group_of(lpn) {
            Some(index) => self.pages.write(index, lpn, data, &mut |_, _| Ok(())),
            None => self.write_in_unit(lpn, data),
        }
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.pages.locations.check(lpn)?;
        match self.pages.group_of(lpn) {
            Some(index) => self.pages.trim(index, lpn),
            None => self.trim_in_unit(lpn),
        }
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.pages.flash.scan()?;
        let pages = self.pages.flash.pages_per_block();
        drop_unfinished(&mut self.pages.flash, &mut scan, UNFINISHED, pages)?;
        self.pages.drop_unfinished(&mut scan)?;
        self.pages.locations.rebuild(&scan);
        self.data.fill(None);
        self.open.clear();
        self.adopt_units(&scan)?;
        self.pages.rebuild(&scan)
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.pages.locations.get(lpn)
    }

    /// Four bytes a page and a block of the page-mapped area; two bytes for each other unit; unit, block and fill of
    /// each open one.
    fn ram_bytes(&self) -> u64 {
        let pages_per_unit = self.pages.flash.pages_per_block() as usize;
        let areas = || 0..self.pages.len();
        let mapped =
            areas().map(|index| self.pages.lpns(index).len() + self.pages.blocks_max(index));
        let mapped_units =
            areas().map(|index| self.pages.lpns(index).len().div_ceil(pages_per_unit));
        let units = self.data.len() - mapped_units.sum::<usize>();
        (4 * mapped.sum::<usize>() + 2 * units + 6 * self.open_units_max) as u64
    }

    fn tables(&self) -> Vec<Table> {
        let open_of = |unit| self.open.iter().find(|open| open.unit == unit);
        let units = self.data.iter().zip((0..).map(LogicalBlock::new));
        let rows = units.filter_map(|(data, unit)| {
            let block = |block: Option<u32>| block.map_or(String::new(), |block| block.to_string());
            let open = open_of(unit).map(|open| open.block);
            let row = vec![unit.to_string(), block(*data), block(open)];
            (data.is_some() || open.is_some()).then_some(row)
        });
        vec![
            Table {
                title: "page-mapped area",
                columns: vec!["area", "block", "valid pages", "open for"],
                rows: self.pages.rows(),
            },
            Table {
                title: "allocation units",
                columns: vec!["unit", "block", "open block"],
                rows: rows.collect(),
            },
        ]
    }

    crate::page_groups::grouped_accessors!();
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Hybrid};
    use crate::tests::panics_with;
    use crate::{Flash, Ftl, Settings, Value, VirtualPage};
    use nand::{Chip, FaultSettings, Storage, find_part};
    use std::collections::BTreeMap;

    const PAGES: u32 = 64;

    /// Six units of 64 pages, two of them page-mapped; of the others two may be open. All pages are written.
    fn layer() -> Hybrid {
        let given = BTreeMap::from([("open_units".to_owned(), Value::Integer(2))]);
        let settings = Settings::new(ENTRY.parameters, &given).expect("known settings");
        let mut part = find_part("published-small-block").expect("in the catalogue");
        part.geometry.pages_per_block = PAGES;
        part.geometry.blocks = (ENTRY.blocks_required)(&part.geometry, 6 * PAGES, &settings);
        let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        let mut layer = Hybrid::new(Flash::new(chip, &settings), 6 * PAGES, &settings);
        layer.write_pages(0..6 * PAGES).expect("a healthy chip");
        layer
    }

    /// Programs for each page that is written to `units` units in turns, `piece` pages at a time, from unit 2 on.
    fn programs_per_page(units: u32, piece: u32) -> f64 {
        let mut layer = layer();
        let before = layer.flash().chip().counters().page_programs;
        for first in (0..PAGES).step_by(piece as usize) {
            for unit in 2..2 + units {
                let lpn = unit * PAGES + first;
                layer.write_pages(lpn..lpn + piece).expect("a healthy chip");
            }
        }
        let programs = layer.flash().chip().counters().page_programs - before;
        programs as f64 / f64::from(units * PAGES)
    }

    /// With one unit more than may be open, work doubles when the piece is halved: each piece costs a unit.
    #[test]
    fn over_the_limit_each_piece_costs_a_unit() {
        for piece in [1, 2, 4, 8, 16, 32] {
            assert!((programs_per_page(2, piece) - 1.0).abs() < 1e-9, "two units, {piece} pages");
            let expected = f64::from(PAGES / piece);
            let found = programs_per_page(3, piece);
            // Units that are still open at the end were not completed.
            assert!(
                (0.9..=1.0).contains(&(found / expected)),
                "three units, {piece} pages: {found}"
            );
        }
        assert!((programs_per_page(3, PAGES) - 1.0).abs() < 1e-9, "whole units");
    }

    /// The page-mapped area takes single pages without closing a unit.
    #[test]
    fn the_page_mapped_area_leaves_units_open() {
        let mut layer = layer();
        let before = layer.flash().chip().counters();
        for first in 0..PAGES {
            for lpn in [2 * PAGES + first, 3 * PAGES + first, first * 7 % (2 * PAGES)] {
                layer.write(lpn, None).expect("a healthy chip");
            }
        }
        let spent = layer.flash().chip().counters() - before;
        // A block's worth of rewrites fits into the blocks that the area has beyond its own. The two units that
        // were open gave up nothing, since they were written for the first time.
        assert_eq!(
            (spent.page_programs, spent.page_reads, spent.erases),
            (3 * u64::from(PAGES), 0, 0)
        );
        assert_eq!(layer.open.len(), 2);
    }

    /// The younger of a unit's two blocks is the open one, as before the cut, and the unit written first comes first.
    #[test]
    fn a_rebuild_finds_the_open_units() {
        let mut layer = layer();
        for lpn in [3 * PAGES, 2 * PAGES, 2 * PAGES + 1] {
            layer.write(lpn, None).expect("a healthy chip");
        }
        let state = |layer: &Hybrid| {
            let open = layer.open.iter().map(|open| (open.unit.index(), open.block));
            (open.collect::<Vec<_>>(), layer.data[2..].to_vec())
        };
        let mut before = state(&layer);
        assert_eq!(before.0.iter().map(|(unit, _)| *unit).collect::<Vec<_>>(), [3, 2]);
        layer.rebuild().expect("a healthy chip");
        before
            .0
            .sort_by_key(|(_, block)| layer.flash().peek(VirtualPage::new(*block, 0)).sequence());
        assert_eq!(state(&layer), before);
    }

    #[test]
    fn too_many_open_units_are_seen() {
        let mut layer = layer();
        for unit in [2, 3] {
            layer.write(unit * PAGES, None).expect("a healthy chip");
        }
        layer.open_units_max = 1;
        panics_with("a cut opens no unit", || layer.rebuild().expect("a healthy chip"));
    }
}

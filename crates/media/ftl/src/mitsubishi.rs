//! Mitsubishi: each block keeps its overwrites in space pages of its own.
//!
//! A physical block of N pages holds a logical block of m = N − n pages at their home offsets and n
//! space pages behind them. A page whose home is used goes to the lowest free space page; when none
//! is left, the newest pages are merged into a fresh block, the incoming page straight to its home.
//! The RAM holds the block map alone: the state of pages is read from spare areas (`probe`).
//!
//! What a look through the space pages costs, by `scan`, with u of the n space pages used:
//! `forward-stop` ends at the first erased page, min(u + 1, n); `all` reads every one, n;
//! `backward` ends at the newest match for a read, and at the last used page for a write. The merge
//! uses what the write has read already, so that it costs n in all three, and one look more for
//! each home never written.
//!
//! When to expect what: every n overwrites of a block cost one erase, however they are spread
//! within it; sequential overwrites gain nothing. Half of the chip is space by default.
//!
//! Parts that program in ascending order: a home behind the last programmed page counts as used,
//! and the page goes to the space. Nothing else is refused: a merge programs upwards.
//!
//! Source: Shinohara, US patent 5,905,993. The sources do not fix n, nor how a power cut within a
//! merge is found: here the last page of a merge marks it as finished.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::merge::{Incoming, rewrite};
use crate::recovery::{discard, drop_unfinished, sort_blocks};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Locations, SettingError, Settings, VirtualPage};
use nand::{Chip, Role};

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "mitsubishi",
    summary: "Mitsubishi: block map, overwrites in space pages of the same block",
    source: "Shinohara, US 5,905,993 (1999)",
    features: Features {
        mapping: "block",
        first_write: "in place",
        overwrite: "out of place, in the block's own space pages",
        block_kinds: "data",
    },
    parameters: &[
        Parameter {
            name: "space_pages",
            kind: Kind::Integer { min: 0, max: 16_383 },
            default: "0",
            summary: "space pages of a block (n); 0: half of its pages",
        },
        Parameter {
            name: "probe",
            kind: Kind::Choice(&["flash", "ram"]),
            default: "flash",
            summary: "state of pages: read from spare areas (counted as RS), or known in RAM",
        },
        Parameter {
            name: "scan",
            kind: Kind::Choice(&["forward-stop", "all", "backward"]),
            default: "forward-stop",
            summary: "space spares read: up to the first erased one, all, or from the last down to a match",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        let space_pages = space_pages(geometry.pages_per_block, settings);
        let data_pages = geometry.pages_per_block.saturating_sub(space_pages).max(1);
        // One free block: a merge fills it and gives the old one back.
        logical_pages.div_ceil(data_pages) + 1
    },
    maps_parts: false,
    check: |geometry, settings| {
        let pages = geometry.pages_per_block;
        if space_pages(pages, settings) < pages {
            return Ok(());
        }
        Err(SettingError::Impossible(format!(
            "setting `space_pages` must be below the {pages} pages of a block, to leave one for data"
        )))
    },
    predicted_waf: None,
    build: &|flash, logical_pages, settings| {
        Box::new(Mitsubishi::new(flash, logical_pages, settings))
    },
};

fn space_pages(pages_per_block: u32, settings: &Settings) -> u32 {
    match settings.integer("space_pages") {
        0 => pages_per_block / 2,
        space_pages => space_pages,
    }
}

/// Role of the pages of a merge before its last; see [`rewrite`].
const UNFINISHED: Role = Role::SequentialLog;

/// Order in which the spare areas of the space pages are read.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    ForwardStop,
    All,
    Backward,
}

#[derive(Clone)]
struct Mitsubishi {
    flash: Flash,
    locations: Locations,
    /// Logical block to physical block.
    data: Vec<Option<u32>>,
    /// Pages of a logical block (m), and first space page.
    data_pages: u32,
    probes: bool,
    order: Order,
}

impl Mitsubishi {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let data_pages = flash.pages_per_block() - space_pages(flash.pages_per_block(), settings);
        Self {
            locations: Locations::new(logical_pages),
            data: vec![None; logical_pages.div_ceil(data_pages) as usize],
            data_pages,
            probes: settings.word("probe") == "flash",
            order: match settings.word("scan") {
                "all" => Order::All,
                "backward" => Order::Backward,
                _ => Order::ForwardStop,
            },
            flash,
        }
    }

    fn program(&mut self, at: VirtualPage, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        self.locations.program(&mut self.flash, at, lpn, Role::Data, data)
    }

    fn home_block(&mut self, logical_block: LogicalBlock) -> Result<u32, FtlError> {
        if let Some(block) = self.data[logical_block.index()] {
            return Ok(block);
        }
        let block = self.flash.allocate()?;
        self.data[logical_block.index()] = Some(block);
        Ok(block)
    }

    fn probe(&mut self, at: VirtualPage) -> Result<(), FtlError> {
        if self.probes { self.flash.probe(at) } else { Ok(()) }
    }

    /// Looks through the space pages of a block from `first` on until `is_last`.
    fn probe_space(
        &mut self,
        block: u32,
        is_last: impl Fn(&Flash, VirtualPage) -> bool,
    ) -> Result<(), FtlError> {
        if !self.probes {
            return Ok(());
        }
        let pages = self.flash.pages_per_block();
        for step in 0..pages - self.data_pages {
            let page = if self.order == Order::Backward {
                pages - 1 - step
            } else {
                self.data_pages + step
            };
            let at = VirtualPage::new(block, page);
            self.flash.probe(at)?;
            if self.order != Order::All && is_last(&self.flash, at) {
                break;
            }
        }
        Ok(())
    }

    /// Looks for the lowest free space page.
    // Backward, the first used page ends the search; forward, the first free one.
    fn probe_for_room(&mut self, block: u32) -> Result<(), FtlError> {
        let backward = self.order == Order::Backward;
        self.probe_space(block, |flash, at| flash.is_programmed(at) == backward)
    }

    /// Looks for the newest copy of a page, which lies at `newest`.
    fn probe_for_copy(&mut self, newest: VirtualPage) -> Result<(), FtlError> {
        let backward = self.order == Order::Backward;
        self.probe_space(newest.block, |flash, at| {
            if backward { at == newest } else { !flash.is_programmed(at) }
        })
    }

    /// Reads the spare areas that the merge needs and the search for room has not read.
    fn probe_for_merge(
        &mut self,
        logical_block: LogicalBlock,
        block: u32,
        incoming: u32,
    ) -> Result<(), FtlError> {
        if !self.probes {
            return Ok(());
        }
        // Forward and `all` have read these pages in the search for room.
        if self.order == Order::Backward {
            let used = |page: &u32| self.flash.is_programmed(VirtualPage::new(block, *page));
            let last = (self.data_pages..self.flash.pages_per_block()).rfind(used);
            for page in self.data_pages..last.unwrap_or(0) {
                self.flash.probe(VirtualPage::new(block, page))?;
            }
        }
        let first = logical_block.first_lpn(self.data_pages);
        for offset in 0..self.data_pages {
            let lpn = first + offset;
            // Pages of locations are known; a home that was never written must be looked at to know
            // it is empty.
            if lpn != incoming && self.locations.contains(lpn) && self.locations.get(lpn).is_none()
            {
                self.flash.probe(VirtualPage::new(block, offset))?;
            }
        }
        Ok(())
    }
}

impl Ftl for Mitsubishi {
    fn logical_pages(&self) -> u32 {
        self.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        if let Some(newest) = self.locations.get(lpn) {
            self.probe_for_copy(newest)?;
        }
        self.locations.read(&mut self.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.flash.audit_is_due() {
            self.audit();
        }
        self.locations.check(lpn)?;
        let (logical_block, offset) = LogicalBlock::of(lpn, self.data_pages);
        let block = self.home_block(logical_block)?;
        let in_place = VirtualPage::new(block, offset);
        self.probe(in_place)?;
        if self.flash.is_programmable(in_place) {
            return self.program(in_place, lpn, data);
        }
        self.probe_for_room(block)?;
        // At least the first space page: homes that are still free do not count as space.
        let next = self.flash.next_page(block).max(self.data_pages);
        if next < self.flash.pages_per_block() {
            return self.program(VirtualPage::new(block, next), lpn, data);
        }
        self.probe_for_merge(logical_block, block, lpn)?;
        let first = logical_block.first_lpn(self.data_pages);
        let (home, incoming) = (first..first + self.data_pages, Some(Incoming { lpn, data }));
        let target = rewrite(&mut self.flash, &mut self.locations, home, UNFINISHED, incoming)?;
        self.flash.merges.full += 1;
        self.data[logical_block.index()] = Some(target);
        // The old block goes after the merge is whole; its last page's role says so.
        self.flash.release(block)
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.locations.check(lpn)?;
        let (logical_block, _) = LogicalBlock::of(lpn, self.data_pages);
        let first = logical_block.first_lpn(self.data_pages);
        self.locations.clear(lpn);
        if !self.locations.all_clear(first..first + self.data_pages) {
            return Ok(());
        }
        self.data[logical_block.index()].take().map_or(Ok(()), |block| self.flash.release(block))
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.flash.scan()?;
        let pages = self.data_pages;
        drop_unfinished(&mut self.flash, &mut scan, UNFINISHED, pages)?;
        self.locations.rebuild(&scan);
        self.data.fill(None);
        for (logical_block, blocks) in sort_blocks(&mut self.flash, &scan, &self.locations, pages)?
        {
            // Of two blocks the younger is the target of a merge that was finished, but whose old
            // block was not erased: that holds at most trimmed pages.
            let [older @ .., block] = blocks.as_slice() else { continue };
            self.data[logical_block.index()] = Some(*block);
            discard(&mut self.flash, &scan, &mut self.locations, older)?;
        }
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.locations.get(lpn)
    }

    /// Two bytes a logical block.
    fn ram_bytes(&self) -> u64 {
        2 * self.data.len() as u64
    }

    fn tables(&self) -> Vec<Table> {
        let rows =
            self.data.iter().zip(0..).filter_map(|(data, logical_block): (&Option<u32>, u32)| {
                data.map(|block| {
                    let used = self.flash.next_page(block).saturating_sub(self.data_pages);
                    vec![logical_block.to_string(), block.to_string(), used.to_string()]
                })
            });
        vec![Table {
            title: "block map",
            columns: vec!["logical block", "block", "space pages used"],
            rows: rows.collect(),
        }]
    }

    crate::contract::flash_accessors!();
}

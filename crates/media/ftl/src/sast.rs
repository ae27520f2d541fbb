//! SAST: log blocks that the logical blocks of a group share.
//!
//! Data blocks are mapped as blocks, their pages lie at their home offsets. Kd adjacent logical blocks form
//! a group. Overwrites go to log blocks that belong to a group: at most Km of them, filled in order with
//! pages of any of its logical blocks. When all of them are full the oldest is emptied: every logical
//! block with a newest page in it is gathered in a fresh block, a *full* merge each, then it is erased.
//! When the device has no further log block, the group written longest ago gives up its oldest one.
//!
//! When to expect what: Kd = Km = 1 is BAST without switch and partial merges, one group of all
//! logical blocks is FAST without its sequential log block. In between, no write waits for more than Kd
//! full merges, and log blocks are used better than BAST's where writes fall into few groups.
//!
//! Source: Park, Cheon, Kang, Roh, Cho, Kim, "A reconfigurable FTL (flash translation layer) architecture
//! for NAND flash-based applications", ACM TECS 7(4), 2008. Where our sources leave room: groups are
//! adjacent logical blocks; recency of groups is that of their last write; there are no sequential log
//! blocks, so that each merge is a full one; the paper's way to choose Kd and Km for an application is left
//! to whoever sets them. The tables are in RAM and rebuilt from spare areas.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::settings::{Kind, Parameter};
use crate::shared_logs::{SharedLogs, role_in_shared_log};
use crate::{Flash, FtlError, Settings, VirtualPage};
use nand::Chip;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "sast",
    summary: "SAST: data blocks, and log blocks that groups of them share",
    source: "Park et al., ACM TECS 7(4), 2008",
    features: Features {
        mapping: "block; pages within log blocks",
        first_write: "in place",
        overwrite: "out of place, in log blocks that a group of data blocks shares",
        block_kinds: "data, log",
    },
    parameters: &[
        Parameter {
            name: "log_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "16",
            summary: "log blocks of the device",
        },
        Parameter {
            name: "group_data_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "4",
            summary: "logical blocks of a group (Kd)",
        },
        Parameter {
            name: "group_log_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "2",
            summary: "log blocks of a group, at most (Km)",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        // One block more than data and logs: a full merge fills it before it gives one back.
        logical_pages.div_ceil(geometry.pages_per_block) + settings.integer("log_blocks") + 1
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Sast::new(flash, logical_pages, settings)),
};

/// Sequential log blocks: none. What a rebuild takes for one is merged at once.
const SEQUENTIAL_BLOCKS_MAX: usize = 0;

/// The log blocks of a group.
#[derive(Clone)]
struct Group {
    number: usize,
    /// Oldest first; only the last has room.
    logs: Vec<u32>,
}

#[derive(Clone)]
struct Sast {
    blocks: SharedLogs,
    /// Groups with log blocks, least recently written first.
    active: Vec<Group>,
    log_blocks_max: usize,
    group_data_blocks: usize,
    group_log_blocks_max: usize,
    groups: u64,
}

impl Sast {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let logical_blocks = logical_pages.div_ceil(flash.pages_per_block());
        let group_data_blocks = settings.integer("group_data_blocks");
        Self {
            blocks: SharedLogs::new(flash, logical_pages),
            active: Vec::new(),
            log_blocks_max: settings.integer("log_blocks") as usize,
            group_data_blocks: group_data_blocks as usize,
            group_log_blocks_max: settings.integer("group_log_blocks") as usize,
            groups: u64::from(logical_blocks.div_ceil(group_data_blocks)),
        }
    }

    fn group_of(&self, logical_block: LogicalBlock) -> usize {
        logical_block.index() / self.group_data_blocks
    }

    fn log_blocks(&self) -> usize {
        self.active.iter().map(|group| group.logs.len()).sum()
    }

    /// The next page of the log blocks of a group.
    fn place_in_group(&mut self, number: usize) -> Result<VirtualPage, FtlError> {
        if let Some(index) = self.active.iter().position(|group| group.number == number) {
            self.active[index..].rotate_left(1);
        } else {
            self.active.push(Group { number, logs: Vec::new() });
        }
        let last = self.active.len() - 1;
        let flash = &self.blocks.flash;
        if let Some(block) = self.active[last].logs.last() {
            let page = flash.next_page(*block);
            if page < flash.pages_per_block() {
                return Ok(VirtualPage::new(*block, page));
            }
        }
        if self.active[last].logs.len() >= self.group_log_blocks_max {
            self.empty_oldest(last)?;
        } else if self.log_blocks() >= self.log_blocks_max {
            // The group that is written stands last: it is the victim if no other one has a log block.
            self.empty_oldest(0)?;
        }
        debug_assert!(self.log_blocks() < self.log_blocks_max, "a log block was given up");
        let block = self.blocks.flash.allocate()?;
        // Emptying may have taken a group before it out of the list, so that its place is no longer `last`.
        let group = self.active.last_mut().filter(|group| group.number == number);
        group.expect("the group that is written stands last").logs.push(block);
        Ok(VirtualPage::new(block, 0))
    }

    /// Merges every logical block with a newest page in a group's oldest log block and erases that.
    fn empty_oldest(&mut self, index: usize) -> Result<(), FtlError> {
        let Some(block) = self.active[index].logs.first().copied() else { return Ok(()) };
        debug_assert!(
            self.blocks.live_logical_blocks(block).len() <= self.group_data_blocks,
            "no merge takes more than Kd full ones"
        );
        self.blocks.empty_log(block)?;
        self.active[index].logs.remove(0);
        // The group that is written is about to get a block.
        if self.active[index].logs.is_empty() && index + 1 < self.active.len() {
            self.active.remove(index);
        }
        Ok(())
    }
}

impl Ftl for Sast {
    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.blocks.flash.audit_is_due() {
            self.audit();
        }
        if self.blocks.program_in_place(lpn, data)? {
            return Ok(());
        }
        let (logical_block, offset) = self.blocks.place_of(lpn);
        let at = self.place_in_group(self.group_of(logical_block))?;
        self.blocks.program(at, lpn, role_in_shared_log(at, offset), data)
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        self.active.clear();
        // Oldest first, which puts the groups in the order in which their log blocks were opened.
        for block in self.blocks.rebuild(SEQUENTIAL_BLOCKS_MAX)? {
            let Some(first) = self.blocks.live_logical_blocks(block).first().copied() else {
                // A merge of this rebuild took its last newest page.
                self.blocks.flash.release(block)?;
                continue;
            };
            let number = self.group_of(first);
            match self.active.iter().position(|group| group.number == number) {
                Some(index) => {
                    self.active[index].logs.push(block);
                    self.active[index..].rotate_left(1);
                }
                None => self.active.push(Group { number, logs: vec![block] }),
            }
        }
        Ok(())
    }

    /// Two bytes a logical block, four for each page of the log blocks, and two for each group and log block: which
    /// log blocks a group has.
    fn ram_bytes(&self) -> u64 {
        let lists = 2 * (self.groups + self.log_blocks_max as u64);
        self.blocks.ram_bytes(self.log_blocks_max, SEQUENTIAL_BLOCKS_MAX) + lists
    }

    fn tables(&self) -> Vec<Table> {
        let logs = self.active.iter().flat_map(|group| &group.logs);
        let mut tables = self.blocks.tables(logs);
        let rows = self.active.iter().map(|group| {
            let logs: Vec<String> = group.logs.iter().map(ToString::to_string).collect();
            vec![group.number.to_string(), logs.join(" ")]
        });
        tables.push(Table {
            title: "groups, least recently written first",
            columns: vec!["group", "log blocks"],
            rows: rows.collect(),
        });
        tables
    }

    crate::shared_logs::shared_accessors!();
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Sast};
    use crate::tests::panics_with;
    use crate::{Flash, Ftl, Settings, Value};
    use nand::{Chip, FaultSettings, Storage, find_part};
    use std::collections::BTreeMap;

    /// Eight logical blocks of four pages in groups of two, all written; pages of two groups are overwritten.
    fn layer() -> Sast {
        let given = BTreeMap::from([
            ("log_blocks".to_owned(), Value::Integer(2)),
            ("group_data_blocks".to_owned(), Value::Integer(2)),
            ("group_log_blocks".to_owned(), Value::Integer(1)),
        ]);
        let settings = Settings::new(ENTRY.parameters, &given).expect("known settings");
        let mut part = find_part("published-small-block").expect("in the catalogue");
        (part.geometry.pages_per_block, part.geometry.blocks) = (4, 16);
        let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        let mut layer = Sast::new(Flash::new(chip, &settings), 32, &settings);
        layer.write_pages(0..32).expect("a healthy chip");
        for lpn in [1, 5, 2, 6, 9] {
            layer.write(lpn, None).expect("a healthy chip");
        }
        layer
    }

    #[test]
    fn every_broken_rule_is_seen() {
        panics_with("no merge takes more than Kd full ones", || {
            let mut layer = layer();
            layer.group_data_blocks = 1;
            layer.empty_oldest(0).expect("a healthy chip");
        });
        panics_with("a log block was given up", || {
            let mut layer = layer();
            layer.log_blocks_max = 1;
            layer.write(17, None).expect("a healthy chip");
        });
    }

    /// What a rebuild knows of groups: which log blocks they have, in the order in which they were opened.
    #[test]
    fn a_rebuild_finds_the_log_blocks_of_each_group() {
        let mut layer = layer();
        let groups = |layer: &Sast| -> Vec<(usize, Vec<u32>)> {
            layer.active.iter().map(|group| (group.number, group.logs.clone())).collect()
        };
        let before = groups(&layer);
        assert_eq!(before.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
        layer.rebuild().expect("a healthy chip");
        assert_eq!(groups(&layer), before);
    }
}

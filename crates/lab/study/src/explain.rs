//! One layer, a few operations, and everything that happens: as a lesson in how the layer works.

use crate::StudyError;
use crate::ftl_device::find_layer;
use ftl::{Ftl, FtlEntry, Settings, Table, Value, VirtualPage};
use nand::{Chip, ChipOperation, Counters, FaultSettings, Part, Storage, find_part};
use serde::Serialize;
use std::collections::BTreeMap;

/// Pages of the largest device that is shown.
const PAGES_MAX: u32 = 1 << 20;

/// A small device to watch.
#[derive(Clone, Debug)]
pub struct ExplainOptions {
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Logical pages; what the operations touch, rounded up to blocks, if absent.
    pub logical_pages: Option<u32>,
    /// Physical blocks; what the layer needs and two more, if absent.
    pub blocks: Option<u32>,
    /// Settings of the layer.
    pub settings: BTreeMap<String, Value>,
}

/// A few operations and all that they cause.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Name of the translation layer.
    pub ftl: &'static str,
    /// Shape of the device.
    pub device: String,
    /// All settings, given and defaulted.
    pub settings: BTreeMap<String, String>,
    /// One entry an operation.
    pub steps: Vec<Step>,
}

/// An operation and its effects.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The operation as it was typed.
    pub operation: String,
    /// What it cost, by RD, RS, PD, PS, E.
    pub cost: BTreeMap<&'static str, u64>,
    /// What the chip did, in order.
    pub chip_operations: Vec<String>,
    /// The layer's tables afterwards.
    pub tables: Vec<TableView>,
    /// Blocks in use afterwards.
    pub blocks: Vec<BlockView>,
}

/// A table of the layer.
#[derive(Clone, Debug, Serialize)]
pub struct TableView {
    /// What the table maps, and to what.
    pub title: &'static str,
    /// Heads of the columns.
    pub columns: Vec<&'static str>,
    /// Cells of each row.
    pub rows: Vec<Vec<String>>,
}

/// A block and its pages: `L3` a copy of logical page 3, `L3*` the newest one, `-` erased, `x` unreadable.
#[derive(Clone, Debug, Serialize)]
pub struct BlockView {
    /// Number of the block.
    pub block: u32,
    /// What each page holds, in order.
    pub pages: Vec<String>,
}

/// Performs operations such as `W0 W1 R0 T1` and shows each.
///
/// # Errors
/// [`StudyError`] for unknown layers, settings and operations, and for a page past the end.
pub fn explain(
    layer: &str,
    operations: &str,
    options: &ExplainOptions,
) -> Result<Explanation, StudyError> {
    let entry = find_layer(layer)?;
    let settings = Settings::new(entry.parameters, &options.settings)?;
    let parsed: Vec<(char, u32)> =
        operations.split_whitespace().map(parse).collect::<Result<_, _>>()?;
    let touched = parsed.iter().map(|(_, lpn)| lpn + 1).max().unwrap_or(1);
    let (part, logical_pages) = small_device(entry, &settings, options, touched)?;
    let mut chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    chip.start_log();
    let mut ftl = ftl::build(entry, chip, logical_pages, &settings)?;
    let mut steps = Vec::new();
    for (kind, lpn) in parsed {
        steps.push(perform(ftl.as_mut(), kind, lpn)?);
    }
    Ok(Explanation {
        ftl: entry.name,
        device: format!(
            "{logical_pages} logical pages on {} blocks of {} pages",
            part.geometry.blocks, part.geometry.pages_per_block
        ),
        settings: settings
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_string()))
            .collect(),
        steps,
    })
}

/// A part of the shape that is given, and the logical pages to put on it.
fn small_device(
    entry: &FtlEntry,
    settings: &Settings,
    options: &ExplainOptions,
    touched: u32,
) -> Result<(Part, u32), StudyError> {
    let wrong = |place: &str, reason: String| StudyError::Study { place: place.into(), reason };
    let mut part = find_part("published-small-block").expect("in the catalogue");
    let geometry = &mut part.geometry;
    geometry.pages_per_block = options.pages_per_block;
    geometry.check().map_err(|reason| wrong("--pages-per-block", reason))?;
    // Whole blocks, in which many layers map.
    let all_touched = touched.next_multiple_of(options.pages_per_block);
    let logical_pages = options.logical_pages.unwrap_or(all_touched);
    if logical_pages > PAGES_MAX {
        return Err(wrong(
            "logical pages",
            format!("{logical_pages} are too many to show: at most {PAGES_MAX}"),
        ));
    }
    (entry.check)(geometry, settings)?;
    let required = (entry.blocks_required)(geometry, logical_pages, settings)
        + settings.integer("reserve_blocks");
    // Two more than needed, so that cleaning does not begin at once.
    geometry.blocks = options.blocks.unwrap_or(required + 2);
    geometry.check().map_err(|reason| wrong("--blocks", reason))?;
    if geometry.pages() > 2 * PAGES_MAX {
        return Err(wrong("--blocks", format!("{} are too many to show", geometry.blocks)));
    }
    Ok((part, logical_pages))
}

fn parse(word: &str) -> Result<(char, u32), StudyError> {
    let wrong = || StudyError::Study {
        place: format!("operation `{word}`"),
        reason: "write W5 (write page 5), R5 (read) or T5 (trim), separated by spaces".into(),
    };
    let kind = word.chars().next().filter(|kind| "WRT".contains(*kind)).ok_or_else(wrong)?;
    // The word begins with an ASCII letter, so its second byte begins a character.
    let lpn: u32 = word[1..].parse().map_err(|_| wrong())?;
    if lpn < PAGES_MAX { Ok((kind, lpn)) } else { Err(wrong()) }
}

fn perform(ftl: &mut dyn Ftl, kind: char, lpn: u32) -> Result<Step, StudyError> {
    let before = ftl.flash().chip().counters();
    match kind {
        'W' => ftl.write(lpn, None)?,
        'R' => ftl.read(lpn, None)?,
        _ => ftl.trim(lpn)?,
    }
    // Taken after each step, so that the log holds one operation.
    let log = ftl.flash_mut().chip_mut().take_log();
    Ok(Step {
        operation: format!("{kind}{lpn}"),
        cost: named(ftl.flash().chip().counters() - before),
        chip_operations: log.iter().map(describe).collect(),
        tables: ftl
            .tables()
            .into_iter()
            .map(|Table { title, columns, rows }| TableView { title, columns, rows })
            .collect(),
        blocks: blocks(ftl),
    })
}

fn named(counters: Counters) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("RD", counters.page_reads),
        ("RS", counters.spare_reads),
        ("PD", counters.page_programs),
        ("PS", counters.spare_programs),
        ("E", counters.erases),
    ])
}

fn describe(operation: &ChipOperation) -> String {
    match operation {
        ChipOperation::PageRead(at) => format!("read {}:{}", at.block, at.page),
        ChipOperation::SpareRead(at) => format!("read spare {}:{}", at.block, at.page),
        ChipOperation::PageProgram(at, tag) => {
            format!("program {}:{} with L{}", at.block, at.page, tag.lpn())
        }
        ChipOperation::SpareProgram(at) => format!("program spare {}:{}", at.block, at.page),
        ChipOperation::Erase(block) => format!("erase {block}"),
    }
}

fn blocks(ftl: &dyn Ftl) -> Vec<BlockView> {
    let flash = ftl.flash();
    let pages = flash.pages_per_block();
    let page = |block, page| {
        let at = VirtualPage::new(block, page);
        let tag = flash.peek(at);
        match (flash.is_programmed(at), tag.is_erased()) {
            (false, _) => "-".to_owned(),
            // Programmed without a tag that can be read: lost.
            (true, true) => "x".to_owned(),
            (true, false) if tag.role() == nand::Role::Translation => format!("M{}", tag.lpn()),
            (true, false) => {
                let newest = if ftl.locate(tag.lpn()) == Some(at) { "*" } else { "" };
                format!("L{}{newest}", tag.lpn())
            }
        }
    };
    (0..flash.geometry().blocks)
        .map(|block| BlockView {
            block,
            pages: (0..pages).map(|number| page(block, number)).collect(),
        })
        // Erased blocks say nothing.
        .filter(|view| view.pages.iter().any(|page| page != "-"))
        .collect()
}

//! Power that fails again and again, on devices without a block to spare.
//!
//! Derived from the registry: every layer with settings that leave it little room, on each page
//! order, with blocks of 2 to 8 pages, exactly as many blocks as the layer asks for and a few more,
//! few and many trims. The power fails at random operations, up to five times more while the layer
//! rebuilds, and life goes on with what was left. No acknowledged write may be lost, no block may be
//! wanting, and no rule of the chip may be broken.

use crate::support;

use ftl::{CleanStep, FTLS, Ftl, FtlEntry, FtlError, Settings, Value};
use libtest_mimic::{Failed, Trial};
use nand::random::Stream;
use nand::{CutPoint, NandError, PageOrder};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::{PAGE_BYTES, build, page_bytes, small_part, version_of};

const OPERATIONS: u32 = 500;
const SEEDS: u64 = 8;
const CUT_POINTS: [CutPoint; 3] = [CutPoint::Before, CutPoint::Inside, CutPoint::After];

type Given = BTreeMap<String, Value>;

/// Settings under which a layer has little room, by layer; every layer also runs with its defaults
/// and with eager static wear levelling.
const TIGHT: &[(&str, &[(&str, &str)])] = &[
    ("bast", &[("log_blocks", "2")]),
    ("bast", &[("log_blocks", "3"), ("partial_merge", "false")]),
    ("dftl", &[("cmt_entries", "2"), ("entries_per_page", "4")]),
    (
        "dftl",
        &[
            ("cmt_entries", "9"),
            ("entries_per_page", "8"),
            ("cmt_policy", "lru"),
            ("batch_update", "false"),
        ],
    ),
    ("fast", &[("log_blocks", "2")]),
    ("fast", &[("log_blocks", "4")]),
    ("hybrid", &[("page_mapped_units", "0"), ("open_units", "1")]),
    ("hybrid", &[("page_mapped_units", "3"), ("update_blocks", "1"), ("open_units", "2")]),
    ("hybrid", &[("page_mapped_units", "1"), ("open_units", "3")]),
    ("kast", &[("log_blocks", "2"), ("sequential_log_blocks", "1"), ("associativity", "1")]),
    ("kast", &[("log_blocks", "4"), ("associativity", "2")]),
    ("last", &[("log_blocks", "2"), ("sequential_log_blocks", "1")]),
    (
        "last",
        &[
            ("log_blocks", "3"),
            ("sequential_log_blocks", "1"),
            ("sequential_request_pages", "1"),
            ("hot_log_percent", "50"),
        ],
    ),
    ("last", &[("log_blocks", "4"), ("sequential_log_blocks", "1"), ("hot_window_programs", "6")]),
    ("lexar", &[("moved_blocks", "1"), ("consolidation", "fill"), ("switch", "false")]),
    ("lexar", &[("moved_blocks", "2"), ("moved_eviction", "full"), ("switch", "false")]),
    ("m-systems", &[("fold_switch", "false"), ("scan", "all")]),
    ("m-systems-anand", &[("chain_length_max", "3")]),
    ("mitsubishi", &[("space_pages", "1"), ("scan", "backward")]),
    ("page", &[("low_water", "2")]),
    ("page", &[("frontier", "separate"), ("low_water", "2")]),
    ("page", &[("frontier", "hot-cold"), ("low_water", "2")]),
    ("page", &[("cleaning", "fifo"), ("low_water", "2")]),
    ("page", &[("cleaning", "random"), ("low_water", "2")]),
    ("sast", &[("log_blocks", "1"), ("group_data_blocks", "1"), ("group_log_blocks", "1")]),
    ("sast", &[("log_blocks", "2"), ("group_data_blocks", "2")]),
    ("sast", &[("log_blocks", "3"), ("group_data_blocks", "8"), ("group_log_blocks", "2")]),
    ("superblock", &[("data_blocks", "2"), ("update_blocks", "1")]),
    ("superblock", &[("data_blocks", "3"), ("update_blocks", "2"), ("cached_tables", "0")]),
    ("superblock", &[("data_blocks", "1"), ("update_blocks", "3"), ("table_entries", "2")]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for entry in FTLS.iter().copied() {
        for given in variants(entry) {
            for order in [PageOrder::Any, PageOrder::Ascending, PageOrder::Sequential] {
                let settings: Vec<String> =
                    given.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let name = format!("{} {order:?} {}", entry.name, settings.join(" "));
                let given = given.clone();
                trials.push(Trial::test(name, move || {
                    storm(entry, &given, order).map_err(Failed::from)
                }));
            }
        }
    }
    trials
}

fn variants(entry: &FtlEntry) -> Vec<Given> {
    let tight = TIGHT.iter().filter(|(name, _)| *name == entry.name);
    let mut variants: Vec<Given> = tight.map(|(_, pairs)| settings_of(pairs)).collect();
    variants.push(Given::new());
    let mut leveled = variants[0].clone();
    leveled.extend(settings_of(&[("wear_leveling", "static"), ("wear_threshold", "1")]));
    variants.push(leveled);
    variants
}

fn settings_of(pairs: &[(&str, &str)]) -> Given {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// One device and one life on it.
#[derive(Clone, Copy, Debug)]
struct Life {
    pages_per_block: u32,
    order: PageOrder,
    /// Data and spare programs of a page between erases.
    programs_max: (u8, u8),
    logical_pages: u32,
    /// Blocks beyond those the layer asks for.
    extra_blocks: u32,
    trim_percent: u32,
    seed: u64,
}

fn storm(entry: &FtlEntry, given: &Given, order: PageOrder) -> Result<(), String> {
    let (mut failures, mut lives, mut cuts) = (Vec::new(), 0, 0);
    for pages_per_block in [2, 3, 4, 8] {
        for (logical_pages, trim_percent) in
            [(8 * pages_per_block - 1, 5), (5 * pages_per_block, 30), (3 * pages_per_block + 1, 60)]
        {
            for extra_blocks in [0, 1, 4] {
                for seed in 0..SEEDS {
                    let programs_max = if seed % 2 == 0 { (1, 1) } else { (2, 3) };
                    let life = Life {
                        pages_per_block,
                        order,
                        programs_max,
                        logical_pages,
                        extra_blocks,
                        trim_percent,
                        seed,
                    };
                    lives += 1;
                    let outcome = catch_unwind(AssertUnwindSafe(|| live(entry, given, life)));
                    match outcome.unwrap_or_else(|_| Err("panic".into())) {
                        Ok(more) => cuts += more,
                        Err(error) => failures.push(format!("{life:?}: {error}")),
                    }
                }
            }
        }
    }
    if let Some(first) = failures.first() {
        return Err(format!("{} of {lives} lives failed; the first: {first}", failures.len()));
    }
    if cuts < 20 * lives { Err(format!("only {cuts} cuts in {lives} lives")) } else { Ok(()) }
}

/// What the host expects of its pages.
struct Host {
    /// Version read last or written since; zero for zeros.
    versions: Vec<u32>,
    /// True if the page was trimmed since its last write: old data may come back with a cut.
    trimmed: Vec<bool>,
}

/// Performs random operations under power cuts; returns the number of cuts.
fn live(entry: &FtlEntry, given: &Given, life: Life) -> Result<u32, String> {
    let mut part = small_part(life.pages_per_block, 4096);
    part.geometry.page_order = life.order;
    (part.geometry.data_programs_max, part.geometry.oob_programs_max) = life.programs_max;
    let settings = Settings::new(entry.parameters, given).map_err(|error| error.to_string())?;
    part.geometry.blocks =
        (entry.blocks_required)(&part.geometry, life.logical_pages, &settings) + life.extra_blocks;
    let mut ftl = build(entry, &part, life.logical_pages, given)?;
    let pages = life.logical_pages as usize;
    let mut host = Host { versions: vec![0; pages], trimmed: vec![false; pages] };
    let mut draw = Stream::new(life.seed, "power storm");
    let mut idle = Stream::new(life.seed, "power storm, idle time");
    let (mut lpn, mut cuts) = (0, 0);
    for number in 1..=OPERATIONS {
        lpn = match draw.below(24) {
            0..6 => draw.below(life.logical_pages),
            6..9 => lpn,
            _ => (lpn + 1) % life.logical_pages,
        };
        let place = |error: String| format!("operation {number}, page {lpn}: {error}");
        let trims = draw.below(100) < life.trim_percent;
        if draw.below(8) == 0 {
            let after = u64::from(draw.below(3 * life.pages_per_block));
            ftl.flash_mut().chip_mut().cut_power_after(after, CUT_POINTS[draw.below(3) as usize]);
        }
        // Half of the lives clean between requests, where the layer can: any number of steps.
        if life.seed % 4 >= 2 {
            match clean_a_little(ftl.as_mut(), &mut idle) {
                Ok(()) => {}
                Err(FtlError::Nand(NandError::PowerLost)) => {
                    cuts += 1 + rebuild(ftl.as_mut(), &mut draw).map_err(place)?;
                    host.adopt(ftl.as_mut(), (lpn, host.versions[lpn as usize])).map_err(place)?;
                }
                Err(error) => return Err(place(format!("cleaning between requests: {error}"))),
            }
        }
        let version = if trims { 0 } else { number };
        let outcome =
            if trims { ftl.trim(lpn) } else { ftl.write(lpn, Some(&page_bytes(lpn, number))) };
        match outcome {
            Ok(()) => {
                host.versions[lpn as usize] = version;
                host.trimmed[lpn as usize] = trims;
            }
            Err(FtlError::Nand(NandError::PowerLost)) => {
                cuts += 1;
                host.trimmed[lpn as usize] |= trims;
                cuts += rebuild(ftl.as_mut(), &mut draw).map_err(place)?;
                host.adopt(ftl.as_mut(), (lpn, version)).map_err(place)?;
            }
            Err(error) => {
                return Err(place(format!("{error} ({} blocks free)", ftl.flash().free_blocks())));
            }
        }
        if number % 25 == 0 {
            ftl.flash_mut().chip_mut().power_on();
            host.check(ftl.as_mut()).map_err(place)?;
        }
    }
    Ok(cuts)
}

/// Takes up to six steps of cleaning towards two to four free blocks.
fn clean_a_little(ftl: &mut dyn Ftl, idle: &mut Stream) -> Result<(), FtlError> {
    let free_target = 2 + idle.below(3);
    for _ in 0..idle.below(7) {
        if ftl.clean_step(free_target)? == CleanStep::Idle {
            break;
        }
    }
    Ok(())
}

/// Rebuilds, cutting the power at most five times more; returns the number of cuts.
fn rebuild(ftl: &mut dyn Ftl, draw: &mut Stream) -> Result<u32, String> {
    let mut cuts = 0;
    let attempts = draw.below(6);
    loop {
        ftl.flash_mut().chip_mut().power_on();
        if cuts < attempts {
            // The scan of the spare areas changes nothing: the cuts go to what follows it.
            let geometry = ftl.flash().geometry();
            let after = u64::from(geometry.pages() + draw.below(2 * geometry.pages_per_block));
            ftl.flash_mut().chip_mut().cut_power_after(after, CUT_POINTS[draw.below(3) as usize]);
        }
        match ftl.rebuild() {
            Ok(()) => {
                ftl.flash_mut().chip_mut().power_on();
                return Ok(cuts);
            }
            Err(FtlError::Nand(NandError::PowerLost)) => cuts += 1,
            Err(error) => return Err(format!("rebuild after {cuts} cuts: {error}")),
        }
    }
}

impl Host {
    /// After a cut: every page holds its version, the page under way the old or the new one, trimmed
    /// ones zeros or data they once held. What is found holds from now on.
    fn adopt(&mut self, ftl: &mut dyn Ftl, under_way: (u32, u32)) -> Result<(), String> {
        for lpn in 0..self.versions.len() as u32 {
            let found = read(ftl, lpn)?;
            let index = lpn as usize;
            if found != self.versions[index] {
                let is_new = under_way == (lpn, found);
                if !is_new && !self.trimmed[index] {
                    return Err(format!(
                        "page {lpn} holds version {found}, not {}",
                        self.versions[index]
                    ));
                }
                self.versions[index] = found;
                self.trimmed[index] &= !is_new || found == 0;
            }
        }
        Ok(())
    }

    fn check(&self, ftl: &mut dyn Ftl) -> Result<(), String> {
        for (lpn, version) in (0..).zip(&self.versions) {
            let found = read(ftl, lpn)?;
            if found != *version {
                return Err(format!(
                    "page {lpn} holds version {found}, not {version}, without a cut"
                ));
            }
        }
        Ok(())
    }
}

fn read(ftl: &mut dyn Ftl, lpn: u32) -> Result<u32, String> {
    let mut bytes = [0xaa; PAGE_BYTES];
    ftl.read(lpn, Some(&mut bytes)).map_err(|error| format!("reading page {lpn}: {error}"))?;
    version_of(lpn, &bytes).ok_or_else(|| format!("page {lpn} holds another page's data"))
}

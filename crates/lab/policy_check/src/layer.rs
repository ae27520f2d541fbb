//! What every translation layer keeps: its pages, across power cuts, while blocks go bad.
//!
//! A model is a table of versions. A page that was written holds its version, also after a power cut. The page
//! under way when the power failed holds the old or the new version. A page that was trimmed reads zeros, and
//! after a cut zeros or a version that it held before and whose copy may still lie on the flash. What a cut
//! left counts from then on: a version newer than that, or any if zeros were left, never comes back. That is
//! the contract of [`Ftl`].
//!
//! Every sequence is carried out twice, and all pages must lie at the same places.

use crate::attempt::attempt;
use crate::model::{PAGE_BYTES, Page, bytes_of, read};
use crate::shorter::shortest;
use crate::{Broken, Checked, Effort, Progress};
use ftl::{Ftl, FtlEntry, FtlError, Settings, Value, VirtualPage};
use nand::random::Stream;
use nand::{Chip, CutPoint, FaultSettings, NandError, Part, Storage};
use std::collections::BTreeMap;
use std::fmt;

/// Operations between two looks at all pages.
/// A look ends a pending cut. Cuts come within two dozen operations of the chip, so most of them
/// strike between two looks.
const LOOK_INTERVAL: u32 = 16;
/// Blocks kept back where blocks go bad.
/// More than go bad at these rates in a sequence: a check must not fail for a device that is worn
/// out.
const RESERVE_BLOCKS: u32 = 12;

const CUT_POINTS: [(CutPoint, &str); 3] = [
    (CutPoint::Before, "before"),
    (CutPoint::Inside, "in the middle of"),
    (CutPoint::After, "after"),
];

/// The layer to check, with its settings.
pub struct LayerCheck<'a> {
    /// Row of the layer.
    pub entry: &'a FtlEntry,
    /// Its settings, where they are not the defaults.
    pub given: BTreeMap<String, Value>,
}

/// The device of a sequence.
#[derive(Clone, Copy, Debug)]
struct Device {
    pages_per_block: u32,
    logical_pages: u32,
    extra_blocks: u32,
    /// Blocks go bad: programs and erases fail now and then.
    has_faults: bool,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Write(u32),
    Trim(u32),
    Read(u32),
    Flush,
    /// The power fails at the operation of the chip that comes after so many.
    Cut {
        after: u64,
        point: usize,
    },
}

impl Operation {
    /// A cut that comes earlier, a page with a lower number.
    fn simpler(&self) -> Vec<Self> {
        match *self {
            Self::Cut { after, point } if after > 0 => {
                let mut sooner = vec![0, after / 2, after - 1];
                sooner.dedup();
                sooner.into_iter().map(|after| Self::Cut { after, point }).collect()
            }
            Self::Write(lpn) if lpn > 0 => vec![Self::Write(0)],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(lpn) => write!(f, "write {lpn}"),
            Self::Trim(lpn) => write!(f, "trim {lpn}"),
            Self::Read(lpn) => write!(f, "read {lpn}"),
            Self::Flush => f.write_str("flush"),
            Self::Cut { after, point } => {
                let place = CUT_POINTS[*point].1;
                write!(f, "the power will fail {place} chip operation {} from here", after + 1)
            }
        }
    }
}

/// What a sequence came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    operations: u64,
    cuts: u64,
    cut_rebuilds: u64,
    retired_blocks: u64,
    moved_blocks: u64,
}

/// Where all pages lie, and the wear of all blocks.
type Outcome = (Counts, Vec<Option<VirtualPage>>, Vec<u32>);

/// Checks a layer.
///
/// # Errors
/// The first sequence that the layer does not keep, made as short as it can be.
pub fn check_layer(
    check: &LayerCheck<'_>,
    effort: Effort,
    progress: Progress<'_>,
) -> Result<Checked, Broken> {
    let mut sum = Counts::default();
    for number in 0..effort.sequences {
        cancellation::check();
        progress(number, effort.sequences);
        let mut draw = Stream::new(effort.seed.wrapping_add(u64::from(number)), "layer check");
        let device = Device::drawn(&mut draw, effort.seed.wrapping_add(u64::from(number)));
        let operations = drawn(&mut draw, device, effort.operations);
        match attempt(|| keeps(check, device, &operations)) {
            Ok(counts) => {
                sum.operations += counts.operations;
                sum.cuts += counts.cuts;
                sum.cut_rebuilds += counts.cut_rebuilds;
                sum.retired_blocks += counts.retired_blocks;
                sum.moved_blocks += counts.moved_blocks;
            }
            Err(said) => {
                let mut fails = |some: &[Operation]| {
                    cancellation::check();
                    attempt(|| keeps(check, device, some)).err()
                };
                let (left, what) = shortest(&operations, said, &Operation::simpler, &mut fails);
                return Err(Broken {
                    what,
                    conditions: device.to_string(),
                    operations: left.iter().map(ToString::to_string).collect(),
                    kept: number,
                });
            }
        }
    }
    progress(effort.sequences, effort.sequences);
    let mut checked = vec![
        ("sequences", u64::from(effort.sequences)),
        ("operations", sum.operations),
        ("power cuts", sum.cuts),
        ("power cuts in a rebuild", sum.cut_rebuilds),
        ("blocks that went bad", sum.retired_blocks),
    ];
    // Of other policies the number is always 0, which would read as a fault.
    if check.given.contains_key("wear_leveling") {
        checked.push(("blocks moved to level wear", sum.moved_blocks));
    }
    Ok(checked)
}

impl Device {
    fn drawn(draw: &mut Stream, seed: u64) -> Self {
        let pages_per_block = [2, 4, 8][draw.below(3) as usize];
        Self {
            pages_per_block,
            logical_pages: pages_per_block * (3 + draw.below(6)) - draw.below(2),
            // Half of the devices have no block to spare: a layer that asks for too few must run
            // out of them here.
            extra_blocks: [0, 0, 1, 4][draw.below(4) as usize],
            has_faults: draw.below(4) == 0,
            seed,
        }
    }

    fn part(&self) -> Part {
        let mut part = nand::find_part("published-small-block").expect("in the catalogue");
        part.geometry.page_data_bytes = PAGE_BYTES;
        part.geometry.pages_per_block = self.pages_per_block;
        part
    }

    /// # Errors
    /// The layer asks for a device that cannot be.
    fn build(&self, check: &LayerCheck<'_>) -> Result<Box<dyn Ftl>, String> {
        let mut given = check.given.clone();
        let reserve = if self.has_faults { RESERVE_BLOCKS } else { 0 };
        given.insert("reserve_blocks".into(), Value::Integer(reserve.into()));
        let settings = Settings::new(check.entry.parameters, &given).map_err(|e| e.to_string())?;
        let mut part = self.part();
        // Exactly as many blocks as the layer asks for: what it asks for must do.
        part.geometry.blocks =
            (check.entry.blocks_required)(&part.geometry, self.logical_pages, &settings)
                + self.extra_blocks
                + reserve;
        // Some failures in a sequence of a hundred writes, on real parts one in many thousands.
        let probability = if self.has_faults { 0.01 } else { 0.0 };
        let faults = FaultSettings {
            seed: self.seed,
            program_failure_probability: probability,
            erase_failure_probability: probability,
            ..FaultSettings::default()
        };
        let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let mut ftl = ftl::build(check.entry, chip, self.logical_pages, &settings)
            .map_err(|error| error.to_string())?;
        // After the build: what a constructor programs is no operation of the sequence, and its
        // failure would have no line.
        ftl.flash_mut().chip_mut().set_faults(&faults);
        Ok(ftl)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages_per_block, logical_pages, extra_blocks, has_faults, seed } = self;
        let faults = if *has_faults { "blocks go bad" } else { "no block goes bad" };
        write!(
            f,
            "{logical_pages} logical pages, {pages_per_block} pages a block, {extra_blocks} blocks \
             beyond those that the layer asks for, {faults}, seed {seed}"
        )
    }
}

fn drawn(draw: &mut Stream, device: Device, operations: u32) -> Vec<Operation> {
    let mut lpn = 0;
    let mut operation = || {
        lpn = match draw.below(8) {
            0..3 => draw.below(device.logical_pages),
            3 => lpn,
            // Runs of pages, as files are written.
            _ => (lpn + 1) % device.logical_pages,
        };
        match draw.below(20) {
            0 => Operation::Trim(lpn),
            1 | 2 => Operation::Read(lpn),
            3 => Operation::Flush,
            4 | 5 => Operation::Cut {
                after: u64::from(draw.below(3 * device.pages_per_block)),
                point: draw.below(3) as usize,
            },
            _ => Operation::Write(lpn),
        }
    };
    (0..operations).map(|_| operation()).collect()
}

/// # Errors
/// What the layer did not keep, once or the second time.
fn keeps(
    check: &LayerCheck<'_>,
    device: Device,
    operations: &[Operation],
) -> Result<Counts, String> {
    let first = carry_out(check, device, operations)?;
    // A second object in the same process: what goes by addresses of objects, or draws from elsewhere,
    // comes out otherwise.
    if carry_out(check, device, operations)? != first {
        return Err(
            "the same operations left pages at other places, or other blocks worn, the second \
                    time; draw random numbers from self.random alone, and iterate over no set"
                .into(),
        );
    }
    Ok(first.0)
}

/// # Errors
/// What the layer did not keep.
fn carry_out(
    check: &LayerCheck<'_>,
    device: Device,
    operations: &[Operation],
) -> Result<Outcome, String> {
    let mut ftl = device.build(check)?;
    let mut pages = vec![Page::default(); device.logical_pages as usize];
    let mut draw = Stream::new(device.seed, "cuts of rebuilds");
    let mut counts = Counts::default();
    for (number, operation) in (1_u32..).zip(operations) {
        counts.operations += 1;
        let (lpn, outcome) = match *operation {
            Operation::Cut { after, point } => {
                ftl.flash_mut().chip_mut().cut_power_after(after, CUT_POINTS[point].0);
                continue;
            }
            Operation::Write(lpn) => (lpn, ftl.write(lpn, Some(&bytes_of(lpn, number)))),
            Operation::Trim(lpn) => (lpn, ftl.trim(lpn)),
            Operation::Read(lpn) => {
                let found = read(ftl.as_mut(), lpn)?;
                if let Ok(found) = found {
                    pages[lpn as usize].compare(lpn, found)?;
                }
                (lpn, found.map(|_| ()))
            }
            Operation::Flush => (0, ftl.flush()),
        };
        match outcome {
            Ok(()) => {
                match *operation {
                    Operation::Write(_) => pages[lpn as usize].write(number),
                    Operation::Trim(_) => pages[lpn as usize].trim(),
                    _ => {}
                }
                if number.is_multiple_of(LOOK_INTERVAL) {
                    // A cut that is still to come would fall into the look.
                    ftl.flash_mut().chip_mut().power_on();
                    look(ftl.as_mut(), &pages)?;
                    ftl.audit();
                }
            }
            Err(FtlError::Nand(NandError::PowerLost)) => {
                counts.cuts += 1;
                counts.cut_rebuilds += rebuild(ftl.as_mut(), &mut draw)?;
                // Before the look at all pages: this one may hold the old or the new version.
                match *operation {
                    Operation::Write(_) => pages[lpn as usize].begin_write(number),
                    Operation::Trim(_) => pages[lpn as usize].begin_trim(),
                    _ => {}
                }
                adopt(ftl.as_mut(), &mut pages)?;
            }
            Err(error) => {
                let free = ftl.flash().free_blocks();
                return Err(format!("{operation}: {error} ({free} blocks are free)"));
            }
        }
    }
    // A cut that was ordered and has not come would fall into the last look.
    ftl.flash_mut().chip_mut().power_on();
    look(ftl.as_mut(), &pages)?;
    ftl.audit();
    let flash = ftl.flash();
    counts.retired_blocks += u64::from(flash.retired_blocks);
    counts.moved_blocks += flash.leveled_blocks;
    let wear = (0..flash.geometry().blocks).map(|block| flash.chip().erase_cycles(block)).collect();
    let places = (0..device.logical_pages).map(|lpn| ftl.locate(lpn)).collect();
    Ok((counts, places, wear))
}

/// Rebuilds, cutting the power again at most three times; returns those cuts.
fn rebuild(ftl: &mut dyn Ftl, draw: &mut Stream) -> Result<u64, String> {
    let attempts = u64::from(draw.below(4));
    for cuts in 0.. {
        ftl.flash_mut().chip_mut().power_on();
        if cuts < attempts {
            // The scan changes nothing: the cuts go to what follows it, too.
            let pages = ftl.flash().geometry().pages();
            let after = u64::from(draw.below(pages + 8));
            let (point, _) = CUT_POINTS[draw.below(3) as usize];
            ftl.flash_mut().chip_mut().cut_power_after(after, point);
        }
        match ftl.rebuild() {
            Ok(()) => {
                ftl.flash_mut().chip_mut().power_on();
                return Ok(cuts);
            }
            Err(FtlError::Nand(NandError::PowerLost)) => {}
            Err(error) => return Err(format!("rebuild after {cuts} more cuts: {error}")),
        }
    }
    unreachable!("a rebuild that is not cut ends")
}

/// After a cut: what is found holds from now on, if it is one of the versions that may be there.
fn adopt(ftl: &mut dyn Ftl, pages: &mut [Page]) -> Result<(), String> {
    for (lpn, page) in (0..).zip(pages) {
        let found = read(ftl, lpn)?.map_err(|error| format!("after a power cut, {error}"))?;
        page.adopt(lpn, found)?;
    }
    Ok(())
}

/// Without a cut, every page holds its version.
fn look(ftl: &mut dyn Ftl, pages: &[Page]) -> Result<(), String> {
    for (lpn, page) in (0..).zip(pages) {
        page.compare(lpn, read(ftl, lpn)?.map_err(|error| error.to_string())?)?;
    }
    Ok(())
}

//! Filling a device before a run: sequential writes, then random overwrites, in no time.

use crate::{DeviceError, FlashDevice};
use ftl::{Ftl, FtlError};
use nand::PAGES_PER_PROGRAM_MAX;
use random::Stream;
use serde::{Deserialize, Serialize};

/// How a device is prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precondition {
    /// How much of the device is written from its beginning, in order.
    pub fill: Fill,
    /// Random overwrites of filled pages, per thousand of them; 1000 writes each once in the mean.
    #[serde(default)]
    pub overwrite_permille: u32,
    /// Goes on with random overwrites until every die has begun to clean.
    #[serde(default)]
    pub until_all_clean: bool,
    /// Goes on with random overwrites until write amplification is steady; see [`Steadiness`].
    #[serde(default)]
    pub steady: bool,
    /// Seed of the overwrites.
    #[serde(default)]
    pub seed: u64,
}

/// How much of a device is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// Thousandths of the device.
    Permille(u32),
    /// Bytes, rounded down to whole pages.
    Bytes(u64),
    /// All but so many bytes.
    AllBut(u64),
}

impl Default for Fill {
    fn default() -> Self {
        Self::Permille(1000)
    }
}

impl Fill {
    /// Bytes to fill on a device of `capacity_bytes`; at most all.
    pub fn bytes(self, capacity_bytes: u64) -> u64 {
        match self {
            Self::Permille(share) => {
                (u128::from(capacity_bytes) * u128::from(share.min(1000)) / 1000) as u64
            }
            Self::Bytes(bytes) => bytes.min(capacity_bytes),
            Self::AllBut(bytes) => capacity_bytes.saturating_sub(bytes),
        }
    }
}

/// What a device holds before a run, in the words of the command line and of studies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preconditioning {
    /// Nothing: it is erased. A read finds no page on a die.
    None,
    /// Every page was written once, in order.
    Fill,
    /// Every page was written once, then so many percent of them at random.
    Random(u32),
    /// As with [`Preconditioning::Fill`], then written at random until write amplification is steady
    /// ([`Steadiness`]).
    #[default]
    Steady,
}

impl Preconditioning {
    /// `none`, `fill`, `random:PERCENT` or `steady`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "fill" => Some(Self::Fill),
            "steady" => Some(Self::Steady),
            other => {
                let percent = other.strip_prefix("random:")?.parse().ok()?;
                // Ten device writes: more change nothing but the wear.
                (1..=1000).contains(&percent).then_some(Self::Random(percent))
            }
        }
    }

    /// How to bring a device there; none for an erased one. `seed` draws the overwrites.
    pub fn steps(self, seed: u64) -> Option<Precondition> {
        let fill = Precondition { fill: Fill::AllBut(0), seed, ..Precondition::default() };
        match self {
            Self::None => None,
            Self::Fill => Some(fill),
            Self::Random(percent) => {
                Some(Precondition { overwrite_permille: percent * 10, ..fill })
            }
            Self::Steady => Some(Precondition { steady: true, ..fill }),
        }
    }
}

/// How a device came to a steady state under random overwrites.
///
/// Write amplification is steady when it changes by less than a hundredth from one write of what is filled
/// to the next. After [`DEVICE_WRITES_MAX`] such writes the search ends without it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steadiness {
    /// Times that as much was overwritten as is filled.
    pub device_writes: u32,
    /// False if the search ended first.
    pub is_reached: bool,
    /// Pages programmed for each page of the host, in the last device write.
    pub write_amplification: f64,
}

/// Device writes after which the search for a steady state ends.
// A greedy page layer with 7 % of spare needs four to six; more than eight change little and take minutes.
pub const DEVICE_WRITES_MAX: u32 = 8;

/// A change of one part in so many, and less, is steady.
const STEADY_PARTS: u64 = 100;

/// Overwrites so many of the `filled` pages, drawn at random; parts of a page come together, as a cache gathers them.
fn overwrite(
    layer: &mut dyn Ftl,
    stream: &mut Stream,
    filled: u32,
    count: u64,
) -> Result<(), FtlError> {
    let together = layer.flash().geometry().pages_per_program;
    if together == 1 {
        return (0..count).try_for_each(|_| layer.write(stream.below(filled), None));
    }
    let mut lpns = [0; PAGES_PER_PROGRAM_MAX as usize];
    for first in (0..count).step_by(together as usize) {
        let lpns = &mut lpns[..u64::from(together).min(count - first) as usize];
        lpns.fill_with(|| stream.below(filled));
        layer.write_together(lpns)?;
    }
    Ok(())
}

/// Overwrites what is filled, as often as it takes; `streams` has one of each die.
fn settle(
    device: &mut FlashDevice,
    filled: &[u32],
    streams: &mut [Stream],
) -> Result<Option<Steadiness>, DeviceError> {
    let host_pages: u64 = filled.iter().map(|pages| u64::from(*pages)).sum();
    if host_pages == 0 {
        return Ok(None);
    }
    let mut before = None;
    for device_writes in 1..=DEVICE_WRITES_MAX {
        let mut programs = 0;
        for ((die, filled), stream) in device.dies.all.iter_mut().zip(filled).zip(&mut *streams) {
            let layer = die.layer.0.as_mut();
            let counted = layer.flash().chip().counters().page_programs;
            overwrite(layer, stream, *filled, u64::from(*filled))?;
            programs += layer.flash().chip().counters().page_programs - counted;
        }
        // In whole numbers: a ratio of floats would depend on how it is rounded.
        let is_reached =
            before.is_some_and(|before: u64| programs.abs_diff(before) * STEADY_PARTS < before);
        if is_reached || device_writes == DEVICE_WRITES_MAX {
            let write_amplification = (programs * device.parts()) as f64 / host_pages as f64;
            return Ok(Some(Steadiness { device_writes, is_reached, write_amplification }));
        }
        before = Some(programs);
    }
    unreachable!("the last device write ends the search")
}

/// Fills the dies side by side; time does not pass, and all counts begin again at zero.
pub(crate) fn prepare(
    device: &mut FlashDevice,
    how: &Precondition,
) -> Result<Option<Steadiness>, DeviceError> {
    let page_bytes = u64::from(device.page_sectors()) * crate::SECTOR_BYTES;
    let capacity_bytes = crate::BlockDevice::sectors(device) * crate::SECTOR_BYTES;
    let bytes = how.fill.bytes(capacity_bytes);
    // The last page of the device may be cut short by its end.
    let pages =
        if bytes == capacity_bytes { bytes.div_ceil(page_bytes) } else { bytes / page_bytes };
    let (dies, parts) = (device.dies.all.len() as u64, device.parts());
    device.drain_cache()?;
    let (mut filled_pages, mut streams) = (Vec::new(), Vec::new());
    for (die, number) in device.dies.all.iter_mut().zip(0_u64..) {
        // The fill goes past the SLC cache, whose copies would be taken for newer ones.
        if let Some(slc) = &mut die.slc {
            slc.clear().map_err(ftl::FtlError::from)?;
        }
        // Array page p of the device is array page p / dies of die p mod dies; the last one may be filled in part.
        let whole = (pages / parts).saturating_sub(number).div_ceil(dies) * parts;
        let is_last = pages / parts % dies == number;
        let filled = (whole + if is_last { pages % parts } else { 0 }) as u32;
        let layer = die.layer.0.as_mut();
        debug_assert!(filled <= layer.logical_pages(), "die {number} has the pages of its share");
        layer.write_pages(0..filled)?;
        // A stream for each die, so that the number of dies does not change what another die draws.
        let mut stream = Stream::new(how.seed, &format!("precondition of die {number}"));
        let overwrites = u64::from(filled) * u64::from(how.overwrite_permille) / 1000;
        overwrite(layer, &mut stream, filled, overwrites)?;
        if how.until_all_clean && filled > 0 {
            // A layer that never erases under random writes has no steady state to wait for.
            let mut left = 2 * u64::from(layer.flash().geometry().pages());
            let erases = layer.flash().chip().counters().erases;
            while left > 0 && layer.flash().chip().counters().erases == erases {
                let count = parts.min(left);
                overwrite(layer, &mut stream, filled, count)?;
                left -= count;
            }
        }
        filled_pages.push(filled);
        streams.push(stream);
    }
    let steadiness = if how.steady { settle(device, &filled_pages, &mut streams)? } else { None };
    device.dies.clean_ahead()?;
    for die in &mut device.dies.all {
        let layer = die.layer.0.as_mut();
        // Counters begin at zero after the fill; wear stays.
        layer.flush()?;
        layer.flash_mut().chip_mut().reset_counters();
        layer.flash_mut().merges = ftl::MergeCounts::default();
    }
    device.start_over();
    Ok(steadiness)
}

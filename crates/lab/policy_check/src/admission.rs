//! What every policy of admission to a write cache keeps: it repeats itself, and the device keeps its sectors.
//!
//! A small device with a cache carries out writes, reads, flushes and power cuts, one at a time. A model is a
//! table of writes by sector: a read finds the last one; after a cut a sector holds the last durable one, or one
//! that came later. A write is durable once it is flushed, or done without the cache.

use crate::attempt::attempt;
use crate::shorter::shortest;
use crate::{Broken, Checked, Effort, Progress};
use device::{BlockDevice, Command, DeviceSpec, FlashDevice, StoredDevice};
use nand::Part;
use nand::random::Stream;
use std::fmt;

/// A device of one die with a cache of 64 KiB.
// One command at a time, so that the answers of a policy come in the order of the writes. No background cleaning:
// it would depend on pauses, and the first sequence that fails would not get shorter.
const DEVICE: &str = r#"
name = "checked"
summary = "a small device with a write cache"
[host]
bytes_per_second = 200000000
command_overhead_ns = 10000
queue_depth = 1
executes = 1
[flash]
part = "made below"
channels = 1
dies_per_channel = 1
capacity_bytes = 2097152
copy_back = true
[cache]
bytes = 65536
[cleaning]
background = false
idle_before_ns = 1000000
free_target_blocks = 4
suspend = "page"
"#;
/// Blocks of the die, of which the capacity fills two thirds.
// The rest keeps cleaning cheap: admission is checked here and not the layer.
const BLOCKS: u32 = 192;
const SECTOR_BYTES: usize = 512;
/// Few sectors, so that writes meet in the cache and overwrite each other.
const SECTORS_WRITTEN: u32 = 1024;
// A part of a page of 4 KiB, one page, two, five, and as many as the whole cache holds.
const LENGTHS: [u32; 5] = [1, 8, 16, 40, 128];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Write { sector: u64, sectors: u32 },
    Read { sector: u64, sectors: u32 },
    Flush,
    Pause { time_us: u64 },
    Cut,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { sector, sectors } => write!(f, "write {sectors} sectors at {sector}"),
            Self::Read { sector, sectors } => write!(f, "read {sectors} sectors at {sector}"),
            Self::Flush => f.write_str("flush"),
            Self::Pause { time_us } => write!(f, "nothing for {time_us} us"),
            Self::Cut => f.write_str("the power fails and comes back"),
        }
    }
}

/// What a sequence came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    writes: u64,
    admitted: u64,
    cuts: u64,
}

/// Checks the policy of this name.
///
/// # Errors
/// The first sequence that it does not keep, made as short as it can be.
pub fn check_admission(
    name: &str,
    effort: Effort,
    progress: Progress<'_>,
) -> Result<Checked, Broken> {
    let mut sum = Counts::default();
    for number in 0..effort.sequences {
        cancellation::check();
        progress(number, effort.sequences);
        let seed = effort.seed.wrapping_add(u64::from(number));
        let mut draw = Stream::new(seed, "admission check");
        let operations: Vec<Operation> = (0..effort.operations).map(|_| drawn(&mut draw)).collect();
        let mut fails = |some: &[Operation]| {
            cancellation::check();
            attempt(|| keeps(name, seed, some)).err()
        };
        match attempt(|| keeps(name, seed, &operations)) {
            Ok(counts) => {
                sum.writes += counts.writes;
                sum.admitted += counts.admitted;
                sum.cuts += counts.cuts;
            }
            Err(said) => {
                // No simpler operations: another sector or length may meet other pages in the cache.
                let (left, what) = shortest(&operations, said, &|_| Vec::new(), &mut fails);
                return Err(Broken {
                    what,
                    conditions: format!("a device of 2 MiB with a cache of 64 KiB, seed {seed}"),
                    operations: left.iter().map(ToString::to_string).collect(),
                    kept: number,
                });
            }
        }
    }
    progress(effort.sequences, effort.sequences);
    Ok(vec![
        ("sequences", u64::from(effort.sequences)),
        ("writes", sum.writes),
        ("writes admitted", sum.admitted),
        ("power cuts", sum.cuts),
    ])
}

fn drawn(draw: &mut Stream) -> Operation {
    let sectors = LENGTHS[draw.below(LENGTHS.len() as u32) as usize];
    // Multiples of half a page, so that writes share pages now and then.
    let sector = u64::from(draw.below(SECTORS_WRITTEN - sectors) / 4 * 4);
    match draw.below(20) {
        // Flushes and cuts are rare: between two of them the cache should fill.
        0 => Operation::Flush,
        1 => Operation::Cut,
        2 | 3 => Operation::Pause { time_us: u64::from(draw.below(5_000)) },
        4..8 => Operation::Read { sector, sectors },
        _ => Operation::Write { sector, sectors },
    }
}

/// # Errors
/// What was not kept, once, the second time, or by a copy.
fn keeps(name: &str, seed: u64, operations: &[Operation]) -> Result<Counts, String> {
    let mut first = Host::new(name, seed)?;
    let (early, late) = operations.split_at(operations.len() / 2);
    first.carry_out(early)?;
    // The engine copies devices in the middle of their life: a filled one, for every run.
    let mut copy = first.clone();
    first.carry_out(late)?;
    copy.carry_out(late)?;
    let mut second = Host::new(name, seed)?;
    second.carry_out(operations)?;
    for (other, what) in [(&second, "the second time"), (&copy, "by a copy of the object")] {
        let answers = || first.decisions.iter().zip(&other.decisions);
        if let Some(place) = answers().position(|(one, another)| one != another) {
            return Err(format!(
                "the answer for write {} was another one {what}; draw random numbers from self.random \
                 alone, and keep what is known in attributes of the object",
                place + 1
            ));
        }
    }
    Ok(first.counts)
}

/// A host that waits for each command, and what it expects of each sector.
#[derive(Clone)]
struct Host {
    device: FlashDevice,
    now_ns: u64,
    /// Writes of each sector that may be there after a cut, the last one at the end.
    versions: Vec<Vec<u32>>,
    last_version: u32,
    decisions: Vec<bool>,
    counts: Counts,
}

impl Host {
    fn new(name: &str, seed: u64) -> Result<Self, String> {
        let mut spec = DeviceSpec::parse("checked", DEVICE).map_err(|error| error.to_string())?;
        spec.set("cache.admission", name).map_err(|error| error.to_string())?;
        let device = FlashDevice::new(&spec, &part(), seed).map_err(|error| error.to_string())?;
        let mut host = Self {
            device,
            now_ns: 0,
            versions: vec![vec![0]; SECTORS_WRITTEN as usize],
            last_version: 0,
            decisions: Vec::new(),
            counts: Counts::default(),
        };
        host.device.store_bytes();
        Ok(host)
    }

    fn carry_out(&mut self, operations: &[Operation]) -> Result<(), String> {
        for operation in operations {
            let told = |error: device::DeviceError| format!("{operation}: {error}");
            match *operation {
                Operation::Pause { time_us } => self.now_ns += time_us * 1_000,
                Operation::Flush => {
                    let done = self.device.submit(self.now_ns, &Command::flush());
                    self.now_ns = done.map_err(told)?.done_ns;
                    // All that came before is durable now, and nothing older may come back.
                    self.versions.iter_mut().for_each(keep_last);
                }
                Operation::Read { sector, sectors } => {
                    let read = Command::read(sector, sectors);
                    self.now_ns = self.device.submit(self.now_ns, &read).map_err(told)?.done_ns;
                    self.look(sector, sectors, |versions, found| versions.last() == Some(&found))?;
                }
                Operation::Write { sector, sectors } => {
                    self.write(sector, sectors).map_err(told)?;
                }
                Operation::Cut => {
                    self.counts.cuts += 1;
                    self.device.cut_power(self.now_ns).map_err(told)?;
                    let ready = self.device.restore_power(self.now_ns, None).map_err(told)?;
                    self.now_ns = self.now_ns.max(ready.ready_ns);
                    self.look(0, SECTORS_WRITTEN, |versions, found| versions.contains(&found))?;
                    // What the cut left is on the flash, so it counts from now on.
                    for place in 0..SECTORS_WRITTEN {
                        self.versions[place as usize] = vec![self.found(place.into())?];
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, sector: u64, sectors: u32) -> Result<(), device::DeviceError> {
        self.last_version += 1;
        let range = sector..sector + u64::from(sectors);
        let bytes: Vec<u8> =
            range.clone().flat_map(|place| bytes_of(place, self.last_version)).collect();
        let command = Command::write(sector, sectors);
        let done = self.device.submit_write(self.now_ns, &command, &bytes)?;
        self.now_ns = done.done_ns;
        // The device says so itself: a write goes into the cache whole, or past it whole.
        let is_admitted = done.cached_sectors > 0;
        for place in range {
            let versions = &mut self.versions[place as usize];
            versions.push(self.last_version);
            // Past the cache it is on the flash when it is done, as with force unit access.
            if !is_admitted {
                keep_last(versions);
            }
        }
        self.decisions.push(is_admitted);
        self.counts.writes += 1;
        self.counts.admitted += u64::from(is_admitted);
        Ok(())
    }

    /// Compares what sectors hold.
    fn look(
        &self,
        sector: u64,
        sectors: u32,
        may_be: impl Fn(&[u32], u32) -> bool,
    ) -> Result<(), String> {
        for place in sector..sector + u64::from(sectors) {
            let found = self.found(place)?;
            let versions = &self.versions[place as usize];
            if !may_be(versions, found) {
                return Err(format!(
                    "sector {place} holds write {found}, though write {} may be there alone",
                    versions.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
                ));
            }
        }
        Ok(())
    }

    /// The write that a sector holds; 0 for none.
    fn found(&self, sector: u64) -> Result<u32, String> {
        // Not zeros: a read that fills nothing in must not pass for one of a sector never written.
        let mut bytes = [0xaa; SECTOR_BYTES];
        self.device.read_bytes(sector, &mut bytes).map_err(|error| error.to_string())?;
        let version = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if bytes == bytes_of(sector, version) {
            return Ok(version);
        }
        Err(format!("sector {sector} holds data that was never written to it"))
    }
}

fn keep_last(versions: &mut Vec<u32>) {
    versions.drain(..versions.len() - 1);
}

/// A part of 2 KiB pages, 8 to a block; the device joins two planes to pages of 4 KiB.
fn part() -> Part {
    let mut part = nand::find_part("generic-mlc-2x").expect("in the catalogue");
    let geometry = &mut part.geometry;
    // Small blocks are erased often, so cleaning comes within a short sequence.
    (geometry.page_data_bytes, geometry.page_oob_bytes) = (2048, 64);
    (geometry.pages_per_block, geometry.blocks) = (8, BLOCKS);
    part
}

/// What write `version` of a sector holds; version 0 is zeros.
fn bytes_of(sector: u64, version: u32) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    if version > 0 {
        // The sector as well: data at a wrong place must be no version of it.
        bytes[..4].copy_from_slice(&(sector as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

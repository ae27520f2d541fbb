//! Power cuts under a host that knows what each sector may hold afterwards.
//!
//! The host numbers its writes. After a cut a sector may hold the last write that a flush or force unit access made
//! durable, or any later one. A discard gives the contents up: until the next durable write the sector may hold
//! zeros or whatever it has held since the last durable write. Everything else is a version that is not permitted.

use crate::support::{device, small};
use device::{
    BlockDevice, Command, CutOperation, DeviceError, FlashDevice, Operation, StoredDevice,
};
use random::Stream;
use std::collections::BTreeMap;

const SECTOR: usize = 512;
/// Cuts of each device in the storm over all layers.
const CUTS: u32 = 240;

/// A write, or a discard, of a sector.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    /// 0 is a discard.
    pub(crate) number: u64,
    done_ns: u64,
    is_durable: bool,
}

/// A mistake of a device, made between it and the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The cache takes writes with force unit access like any other.
    FuaIsIgnored,
    /// A flush is answered as soon as it is taken up.
    FlushIsEarly,
}

/// What the host knows of each sector, and the device.
pub(crate) struct Host {
    pub(crate) device: FlashDevice,
    pub(crate) fault: Option<Fault>,
    pub(crate) sectors: u64,
    pub(crate) written: BTreeMap<u64, Vec<Write>>,
    pub(crate) last_number: u64,
    pub(crate) now_ns: u64,
    /// When the commands outstanding are done.
    outstanding: Vec<u64>,
    flushes: Vec<(u64, u64)>,
}

/// Bytes of a sector: the number of its write, and the sector itself in every other word.
fn bytes_of(number: u64, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&[number, sector ^ number << 32][index % 2].to_le_bytes());
    }
    bytes
}

impl Host {
    pub(crate) fn new(mut device: FlashDevice, sectors: u64) -> Self {
        device.store_bytes();
        Self {
            device,
            fault: None,
            sectors,
            written: BTreeMap::new(),
            last_number: 0,
            now_ns: 0,
            outstanding: Vec::new(),
            flushes: Vec::new(),
        }
    }

    /// Waits until the device takes another command.
    fn wait(&mut self) {
        let depth = self.device.queue_depth() as usize;
        self.outstanding.sort_unstable();
        if self.outstanding.len() >= depth {
            self.now_ns = self.now_ns.max(self.outstanding.remove(0));
        }
        self.outstanding.retain(|done_ns| *done_ns > self.now_ns);
    }

    /// A write, a read, a flush or a discard drawn at random; the read is checked. False if the supply failed.
    pub(crate) fn step(&mut self, draw: &mut Stream) -> Result<bool, String> {
        self.wait();
        // Sometimes the device is idle for long.
        self.now_ns +=
            if draw.below(20) == 0 { u64::from(draw.below(9)) * 1_000_000 } else { 1_000 };
        let sectors = [1, 2, 8, 16, 40][draw.below(5) as usize];
        // Few places, so that pages are written again and again.
        let sector = u64::from(draw.below((self.sectors - u64::from(sectors)) as u32)) / 2 * 2;
        let (kind, fua) = (draw.below(20), draw.below(5) == 0);
        let (operation, fua) = match kind {
            0 => (Operation::Flush, false),
            1 => (Operation::Discard, false),
            2..6 => (Operation::Read, false),
            _ => (Operation::Write, fua),
        };
        let command = match operation {
            Operation::Flush => Command::flush(),
            _ => Command { operation, sector, sectors, fua },
        };
        let range = sector..sector + u64::from(sectors);
        let done = if operation == Operation::Write {
            self.last_number += 1;
            let bytes: Vec<u8> =
                range.clone().flat_map(|sector| bytes_of(self.last_number, sector)).collect();
            let fua = fua && self.fault != Some(Fault::FuaIsIgnored);
            self.device.submit_write(self.now_ns, &Command { fua, ..command }, &bytes)
        } else {
            self.device.submit(self.now_ns, &command)
        };
        let is_early = operation == Operation::Flush && self.fault == Some(Fault::FlushIsEarly);
        let done_ns = match done {
            Ok(done) if is_early => done.start_ns,
            Ok(done) => done.done_ns,
            // It was never begun, so nothing of it is anywhere.
            Err(DeviceError::PowerLost) => return Ok(false),
            Err(error) => return Err(format!("{command:?}: {error}")),
        };
        self.outstanding.push(done_ns);
        match operation {
            Operation::Flush => self.flushes.push((self.now_ns, done_ns)),
            Operation::Read => {
                for sector in range {
                    self.check_read(sector)?;
                }
            }
            Operation::Write => {
                for sector in range {
                    let write = Write { number: self.last_number, done_ns, is_durable: fua };
                    self.written.entry(sector).or_default().push(write);
                }
            }
            Operation::Discard => {
                // Parts of pages stay; a page that is covered reads zeros.
                for sector in range {
                    if self.found(sector)? == 0 {
                        let write = Write { number: 0, done_ns, is_durable: false };
                        self.written.entry(sector).or_default().push(write);
                    }
                }
            }
        }
        Ok(true)
    }

    /// The number of the write that a sector holds.
    pub(crate) fn found(&self, sector: u64) -> Result<u64, String> {
        let mut bytes = [0; SECTOR];
        let read = self.device.read_bytes(sector, &mut bytes);
        read.map_err(|error| format!("sector {sector}: {error}"))?;
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        if number != 0 && bytes != bytes_of(number, sector) {
            return Err(format!("sector {sector} holds a mixture"));
        }
        Ok(number)
    }

    /// Without a cut a sector holds its last write.
    pub(crate) fn check_read(&self, sector: u64) -> Result<(), String> {
        let last = self.written.get(&sector).and_then(|writes| writes.last());
        let expected = last.map_or(0, |write| write.number);
        let found = self.found(sector)?;
        if found == expected {
            Ok(())
        } else {
            Err(format!("sector {sector}: {found} for {expected}"))
        }
    }

    /// The supply fails soon, at the latest when it is due.
    pub(crate) fn cut(&mut self, draw: &mut Stream) -> Result<u64, String> {
        let at_ns = self.now_ns + u64::from(draw.below(3_000_000));
        let at_ns = self.device.cut_ns().map_or(at_ns, |cut_ns| cut_ns.min(at_ns));
        let outage = self.device.cut_power(at_ns).map_err(|error| format!("cut: {error}"))?;
        Ok(outage.at_ns)
    }

    /// After a cut at `at_ns` each sector holds what it may; the host goes on from what it finds. Counts the
    /// sectors that hold another write than their last.
    pub(crate) fn check_all(&mut self, at_ns: u64) -> Result<u64, String> {
        let (mut older, mut kept) = (0, BTreeMap::new());
        for (sector, writes) in &self.written {
            let is_durable = |write: &Write| {
                let flushed = |(begin_ns, done_ns): &(u64, u64)| {
                    write.done_ns <= *begin_ns && *done_ns <= at_ns
                };
                // A discard may be undone by a cut, whatever was flushed.
                write.number != 0
                    && ((write.is_durable && write.done_ns <= at_ns)
                        || self.flushes.iter().any(flushed))
            };
            let floor = writes.iter().rposition(is_durable);
            let is_given_up = writes[floor.unwrap_or(0)..].iter().any(|write| write.number == 0);
            let permitted = if is_given_up { &writes[..] } else { &writes[floor.unwrap_or(0)..] };
            let found = self.found(*sector)?;
            // Without any durable write the sector may be as it was at first.
            if !(permitted.iter().any(|write| write.number == found)
                || (found == 0 && floor.is_none()))
            {
                let all: Vec<_> =
                    writes.iter().map(|write| (write.number, write.done_ns)).collect();
                return Err(format!(
                    "sector {sector} holds {found}; of {all:?} those from {floor:?} on are permitted"
                ));
            }
            older += u64::from(writes.last().is_some_and(|write| write.number != found));
            let last = Write { number: found, done_ns: 0, is_durable: found != 0 };
            // No layer records a discard: what was given up may come back at any later cut.
            let mut history = if found == 0 && is_given_up { writes.clone() } else { Vec::new() };
            for write in &mut history {
                write.is_durable = false;
            }
            history.push(last);
            kept.insert(*sector, history);
        }
        self.written = kept;
        self.flushes.clear();
        self.outstanding.clear();
        Ok(older)
    }
}

/// Cuts of one device, and how many sectors they set back.
pub(crate) fn storm(host: &mut Host, seed: u64, cuts: u32) -> Result<u64, String> {
    let mut draw = Stream::new(seed, "power cuts of devices");
    let mut older = 0;
    for cut in 0..cuts {
        let by_count = draw.below(4);
        match by_count {
            0 => host.device.cut_at(CutOperation::Program(u64::from(1 + draw.below(60)))),
            1 => host.device.cut_at(CutOperation::Erase(u64::from(1 + draw.below(6)))),
            _ => {}
        }
        for _ in 0..draw.below(60) {
            if !host.step(&mut draw)? {
                break;
            }
        }
        let failed_ns = host.device.outage().map(|outage| outage.at_ns);
        let at_ns = failed_ns.map_or_else(|| host.cut(&mut draw), Ok)?;
        host.now_ns = host.now_ns.max(at_ns) + 1_000_000;
        // The supply fails in the recovery, too.
        while draw.below(3) == 0 {
            let again = host.device.restore_power(host.now_ns, Some(u64::from(draw.below(40))));
            match again {
                Ok(recovery) => {
                    host.now_ns = recovery.ready_ns;
                    host.device.cut_power(host.now_ns).map_err(|error| error.to_string())?;
                }
                Err(DeviceError::PowerLost) => host.now_ns += 1_000_000,
                Err(error) => return Err(format!("cut {cut}, recovery: {error}")),
            }
        }
        let recovery = host
            .device
            .restore_power(host.now_ns, None)
            .map_err(|error| format!("cut {cut}: {error}"))?;
        host.now_ns = recovery.ready_ns;
        older +=
            host.check_all(at_ns).map_err(|error| format!("cut {cut} at {at_ns} ns: {error}"))?;
    }
    Ok(older)
}

/// A small device of a layer, and a host that works on a part of it.
pub(crate) fn host(ftl: &str, dies: &str, changes: &[(&str, &str)]) -> Host {
    let common = [
        ("flash.ftl", ftl),
        ("flash.capacity_bytes", "1048576"),
        ("flash.dies_per_channel", dies),
        ("host.queue_depth", "8"),
        ("host.executes", "4"),
    ];
    let all: Vec<_> = common.iter().chain(changes).copied().collect();
    Host::new(device(&small(&all), 160), 1_200)
}

pub(crate) const CACHE: (&str, &str) = ("cache.bytes", "65536");
const PARTS: (&str, &str) = ("flash.mapping_unit_bytes", "1024");
/// Where parts of a page are mapped, copies cross the channel.
const NO_COPY_BACK: (&str, &str) = ("flash.copy_back", "false");
const AHEAD: (&str, &str) = ("cleaning.steps_per_program", "2");
/// Twelve blocks of each die, six of them only while the layer has them free, hold one bit a cell.
pub(crate) const SLC_BYPASS: &[(&str, &str)] = &[
    CACHE,
    ("slc.read_ns", "25000"),
    ("slc.program_ns", "200000"),
    ("slc.erase_ns", "2000000"),
    ("slc.blocks_per_die", "12"),
    ("slc.dynamic_blocks_per_die", "12"),
    ("slc.fold_idle_ns", "3000000"),
];
pub(crate) const SLC_FOLD: &[(&str, &str)] = &[
    ("slc.read_ns", "25000"),
    ("slc.program_ns", "200000"),
    ("slc.erase_ns", "2000000"),
    ("slc.blocks_per_die", "6"),
    ("slc.when_full", "fold"),
];
pub(crate) const SLC_PARTS: &[(&str, &str)] = &[
    CACHE,
    NO_COPY_BACK,
    PARTS,
    BACKGROUND,
    SUSPEND,
    ("slc.read_ns", "25000"),
    ("slc.program_ns", "200000"),
    ("slc.erase_ns", "2000000"),
    ("slc.blocks_per_die", "6"),
    ("slc.dynamic_blocks_per_die", "20"),
    ("slc.fold_idle_ns", "3000000"),
    ("slc.when_full", "fold"),
];
/// Reads stop programs of the cache and cleaning.
const SUSPEND: (&str, &str) = ("suspend.per_operation", "3");
/// The host starts the background operations.
const MANUAL: &[(&str, &str)] = &[
    CACHE,
    ("host.executes", "1"),
    ("cleaning.free_target_blocks", "8"),
    ("cleaning.manual_bkops", "true"),
];
pub(crate) const BACKGROUND: (&str, &str) = ("cleaning.background", "true");

/// Each layer, with and without a cache, on one die and on several, whole pages and parts of them.
#[test]
fn no_cut_leaves_a_version_that_is_not_permitted() {
    let (mut set_back, mut cuts) = (BTreeMap::new(), 0);
    for entry in ftl::FTLS {
        let mut shapes: Vec<(&str, &[(&str, &str)])> =
            vec![("1", &[]), ("4", &[BACKGROUND]), ("2", &[CACHE])];
        shapes.push(("2", SLC_BYPASS));
        shapes.push(("1", SLC_FOLD));
        shapes.push(("2", MANUAL));
        if entry.maps_parts {
            shapes.extend([
                ("2", &[CACHE, AHEAD, BACKGROUND, SUSPEND] as &[_]),
                ("1", &[NO_COPY_BACK, PARTS, AHEAD]),
                ("4", &[NO_COPY_BACK, PARTS, CACHE, BACKGROUND]),
                ("2", SLC_PARTS),
            ]);
        }
        for (seed, (dies, changes)) in (7..).zip(shapes) {
            let older = storm(&mut host(entry.name, dies, changes), seed, CUTS);
            let older = older.unwrap_or_else(|error| {
                panic!("{}, {dies} dies, {changes:?}: {error}", entry.name)
            });
            *set_back.entry(changes.contains(&CACHE)).or_insert(0) += older;
            cuts += CUTS;
        }
    }
    assert!(cuts > 9_500, "{cuts} cuts");
    // A cache loses what no flush covered; the storm would find nothing if it never did.
    assert!(set_back[&true] > 10_000 && set_back[&false] > 100, "{set_back:?}");
}

/// The devices that are shipped, with few blocks, so that they clean.
#[test]
fn shipped_devices_keep_what_they_promise() {
    let mut tried = Vec::new();
    for mut spec in device::devices() {
        let Some(flash) = spec.flash.as_mut() else { continue };
        let part = nand::find_part(&flash.part).expect("of the catalogue");
        let block_bytes = part.geometry.block_bytes();
        flash.blocks = Some(40 * part.geometry.planes);
        spec.slc.blocks_per_die = spec.slc.blocks_per_die.min(4 * part.geometry.planes);
        let dies = flash.dies();
        flash.capacity_bytes = block_bytes * u64::from(part.geometry.planes) * 20 * u64::from(dies);
        let device = FlashDevice::new(&spec, &part, 1).expect("small enough");
        storm(&mut Host::new(device, 4_000), 3, 12)
            .unwrap_or_else(|error| panic!("{}: {error}", spec.name));
        tried.push(spec.name);
    }
    assert!(tried.len() >= 8, "{tried:?}");
}

/// A host that never finds anything would prove nothing.
#[test]
fn a_device_that_breaks_its_promise_is_found() {
    for fault in [Fault::FuaIsIgnored, Fault::FlushIsEarly] {
        let mut host = host("page", "2", &[CACHE]);
        host.fault = Some(fault);
        let error = storm(&mut host, 7, 100).expect_err("found within a hundred cuts");
        assert!(error.contains("are permitted"), "{error}");
    }
}

#[test]
fn the_same_commands_and_cuts_give_the_same_medium() {
    let digest = |seed| {
        let mut host = host("fast", "4", &[CACHE]);
        storm(&mut host, seed, 10).expect("nothing is lost");
        host.device.medium_digest()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

/// Bytes change neither times nor counts.
#[test]
fn a_device_that_stores_bytes_is_as_fast_as_one_that_counts() {
    for changes in [&[CACHE] as &[_], &[], &[NO_COPY_BACK, PARTS, CACHE], &[AHEAD, BACKGROUND]] {
        let mut spec = small(changes);
        spec.set("flash.capacity_bytes", "2097152").expect("a capacity");
        let (mut counts, mut stores) = (device(&spec, 160), device(&spec, 160));
        stores.store_bytes();
        let mut draw = Stream::new(5, "devices side by side");
        for number in 0..4_000_u64 {
            let (sector, sectors) = (u64::from(draw.below(3_000)), 1 + draw.below(30));
            let command = match draw.below(12) {
                0 => Command::flush(),
                1 => Command::discard(sector, sectors),
                2..5 => Command::read(sector, sectors),
                kind => Command { fua: kind == 5, ..Command::write(sector, sectors) },
            };
            let now_ns = number * 300_000;
            let expected = counts.submit(now_ns, &command).expect("served");
            let done = if command.operation == Operation::Write {
                let bytes = vec![1; command.transfer_bytes() as usize];
                stores.submit_write(now_ns, &command, &bytes)
            } else {
                stores.submit(now_ns, &command)
            };
            assert_eq!(done.expect("served"), expected, "command {number}");
        }
        assert_eq!(counts.statistics(), stores.statistics());
    }
}

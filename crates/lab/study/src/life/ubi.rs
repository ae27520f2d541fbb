//! A trace on UBI, over and over: a block device of one volume, as `mtdblock` over `gluebi` makes one.
//!
//! One logical erase block is held in memory. When another one is addressed, and at a flush, a changed
//! block is written back whole: that costs UBI a fresh block, and the old one an erase. Source: Linux 6.1,
//! `drivers/mtd/mtdblock.c`, functions `do_cached_write` and `write_cached_data`; `drivers/mtd/ubi/gluebi.c`.
//! Here the write back is an atomic change; the kernel unmaps and writes, with the same erases. Reads that
//! are not of the block in memory read flash. Trims and the contents of pages are left out: UBI's wear does
//! not depend on them.

use super::stack::Stack;
use crate::StudyError;
use crate::requests::Requests;
use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, OobLayout};
use nand::{Chip, FaultSettings, Part, Storage};
use sim::{Cpus, Simulation};
use std::cell::RefCell;
use std::rc::Rc;
use trace::{AddressRule, Operation};
use ubi::{
    AttachOptions, FormatOptions, LebNumber, PROFILES, Ubi, Volume, VolumeOptions, VolumeSize,
};

/// Time slice of the processor, which nothing here shares.
const TIMESLICE_NS: u64 = 10_000_000;
/// Blocks of a hundred that the volume leaves to UBI, beside those that it reserves itself.
const LEFT_PERCENT: u64 = 5;

/// A volume that a trace is replayed on.
pub(super) struct UbiStack {
    simulation: Simulation,
    mtd: Rc<Mtd>,
    ubi: Rc<Ubi>,
    volume: Rc<Volume>,
    writes: Rc<Vec<Request>>,
    host_bytes: u64,
    pass_bytes: u64,
    threshold: u32,
}

/// A piece of a request within one logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Write(u32),
    Read { leb: u32, offset: u32, bytes: u32 },
    Flush,
}

/// What the stack is made of.
pub(super) struct UbiPlan<'a> {
    pub(super) part: &'a Part,
    pub(super) layout: &'static OobLayout,
    /// Bytes of the volume; what UBI leaves if absent.
    pub(super) logical_bytes: Option<u64>,
    /// Difference of erase counters at which data moves; the kernel's if absent.
    pub(super) threshold: Option<u32>,
    /// The whole volume is written before.
    pub(super) fills_first: bool,
    pub(super) address: AddressRule,
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that `map_err` calls")]
fn failed(reason: impl ToString) -> StudyError {
    StudyError::Study { place: "ubi".into(), reason: reason.to_string() }
}

impl UbiStack {
    /// A formatted and attached device with one volume.
    ///
    /// # Errors
    /// A chip too small for UBI; a trace with addresses past the end, where the rule forbids them.
    pub(super) fn new(plan: &UbiPlan<'_>, requests: &Requests) -> Result<Self, StudyError> {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let cpus = Rc::new(Cpus::new(&sim, 1, TIMESLICE_NS));
        let options = MtdOptions {
            layout: plan.layout,
            costs: DriverCosts::default(),
            bad_blocks: BadBlocks::Table,
            reads_sub_pages: true,
            takes_time: false,
        };
        // Bytes, though contents are nothing here: UBI reads its headers back when it attaches.
        let chip = Chip::new(plan.part, Storage::Bytes, &FaultSettings::default());
        let mtd = Mtd::new(&sim, cpus.clone(), chip, options);
        let profile = PROFILES.last().ok_or_else(|| failed("no kernel is known"))?;
        let mut attach = AttachOptions::new(profile);
        attach.wear_threshold = plan.threshold.map_or(attach.wear_threshold, u64::from);
        let threshold = u32::try_from(attach.wear_threshold).unwrap_or(u32::MAX);
        let logical_bytes = plan.logical_bytes;
        let device = mtd.clone();
        let of = sim.clone();
        let fills_first = plan.fills_first;
        let (ubi, volume) = carried_out(&mut simulation, async move {
            let format = FormatOptions::default();
            Ubi::format(&of, cpus.clone(), device.clone(), &format).await.map_err(failed)?;
            let ubi = Ubi::attach(&of, cpus, device, attach).await.map_err(failed)?;
            let info = ubi.info();
            let left = u64::from(info.available_pebs) * (100 - LEFT_PERCENT) / 100;
            let bytes = logical_bytes.unwrap_or(left * u64::from(info.layout.leb_bytes));
            let size = VolumeSize::Bytes(bytes);
            let options = VolumeOptions { size, ..VolumeOptions::new("data") };
            let id = ubi.make_volume(&options).await.map_err(failed)?;
            let volume = Rc::new(ubi.open_volume(id).await.map_err(failed)?);
            if fills_first {
                let data = vec![0x5a; volume.leb_bytes() as usize];
                for leb in 0..volume.leb_count() {
                    volume.change(LebNumber::new(leb), &data).await.map_err(failed)?;
                }
            }
            Ok((ubi, volume))
        })?;
        let capacity_bytes = u64::from(volume.leb_count()) * u64::from(volume.leb_bytes());
        let leb_bytes = u64::from(volume.leb_bytes());
        let (pieces, pass_bytes) = split(requests, capacity_bytes, leb_bytes, plan.address)?;
        Ok(Self {
            simulation,
            mtd,
            ubi,
            volume,
            writes: Rc::new(pieces),
            host_bytes: 0,
            pass_bytes,
            threshold,
        })
    }

    /// Bytes that the volume offers.
    pub(super) fn capacity_bytes(&self) -> u64 {
        u64::from(self.volume.leb_count()) * u64::from(self.volume.leb_bytes())
    }
}

/// Runs a job to its end, and all that it sets in motion.
fn carried_out<T: 'static>(
    simulation: &mut Simulation,
    job: impl Future<Output = Result<T, StudyError>> + 'static,
) -> Result<T, StudyError> {
    let found = Rc::new(RefCell::new(None));
    let place = found.clone();
    let task = simulation.handle().spawn(async move {
        let value = job.await;
        *place.borrow_mut() = Some(value);
    });
    simulation.run();
    drop(task);
    let value = found.borrow_mut().take();
    value.unwrap_or_else(|| Err(failed("the work waits for ever")))
}

/// The requests of a trace by logical block, and the bytes they write.
fn split(
    requests: &Requests,
    capacity_bytes: u64,
    leb_bytes: u64,
    rule: AddressRule,
) -> Result<(Vec<Request>, u64), StudyError> {
    let (mut pieces, mut written) = (Vec::new(), 0);
    for (number, one) in (1..).zip(&requests.requests) {
        let is_write = matches!(one.operation, Operation::Write | Operation::WriteZeroes);
        if one.operation == Operation::Flush {
            pieces.push(Request::Flush);
        }
        if !is_write && one.operation != Operation::Read {
            continue;
        }
        let (mut at, mut left) = (one.offset_bytes, u64::from(one.length_bytes));
        if at.saturating_add(left) > capacity_bytes {
            match rule {
                AddressRule::Error => {
                    return Err(StudyError::Request {
                        number,
                        what: format!("{:?} of {left} bytes at byte {at}", one.operation)
                            .to_lowercase(),
                        reason: format!(
                            "past the end of the volume of {capacity_bytes} bytes; give the chip more \
                             blocks, or take a larger part"
                        ),
                    });
                }
                AddressRule::Clip => left = capacity_bytes.saturating_sub(at).min(left),
                AddressRule::Modulo => at %= capacity_bytes,
            }
        }
        if is_write {
            written += left;
        }
        while left > 0 {
            let (leb, offset) = (at / leb_bytes, at % leb_bytes);
            let bytes = left.min(leb_bytes - offset);
            let leb = leb as u32;
            pieces.push(if is_write {
                Request::Write(leb)
            } else {
                Request::Read { leb, offset: offset as u32, bytes: bytes as u32 }
            });
            left -= bytes;
            at = (at + bytes) % capacity_bytes;
        }
    }
    Ok((pieces, written))
}

/// Carries the pieces out, with one block in memory.
async fn replay(volume: &Volume, pieces: &[Request]) -> Result<(), StudyError> {
    let data = vec![0x5a; volume.leb_bytes() as usize];
    let mut held: Option<(u32, bool)> = None;
    for piece in pieces {
        let leb = match *piece {
            Request::Write(leb) | Request::Read { leb, .. } => Some(leb),
            Request::Flush => None,
        };
        let is_held = held.is_some_and(|(held, _)| Some(held) == leb);
        let is_read = matches!(piece, Request::Read { .. });
        // A read beside the block in memory goes to flash, and leaves that block where it is.
        if !is_held
            && !is_read
            && let Some((old, true)) = held.take()
        {
            volume.change(LebNumber::new(old), &data).await.map_err(failed)?;
        }
        match *piece {
            Request::Write(leb) => held = Some((leb, true)),
            Request::Read { leb, offset, bytes } if !is_held => {
                let mut place = vec![0; bytes as usize];
                volume
                    .read(LebNumber::new(leb), offset, &mut place, false)
                    .await
                    .map_err(failed)?;
            }
            Request::Read { .. } | Request::Flush => {}
        }
    }
    // Each pass ends as a close of the device does. A block held over to the next pass would hide
    // one erase a pass.
    if let Some((old, true)) = held {
        volume.change(LebNumber::new(old), &data).await.map_err(failed)?;
    }
    Ok(())
}

impl Stack for UbiStack {
    fn work(&mut self) -> Result<(), StudyError> {
        let (volume, pieces) = (self.volume.clone(), self.writes.clone());
        let ubi = self.ubi.clone();
        carried_out(&mut self.simulation, async move {
            replay(&volume, &pieces).await?;
            // Erases in the background belong to this pass: a window must not end before the wear
            // that it caused.
            ubi.finish_works().await.map_err(failed)
        })?;
        self.host_bytes += self.pass_bytes;
        Ok(())
    }

    fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    fn cycles(&self) -> Vec<u32> {
        self.mtd.with_chip(|chip| {
            (0..chip.geometry().blocks).map(|block| chip.erase_cycles(block)).collect()
        })
    }

    fn wears(&self) -> Vec<bool> {
        self.mtd.with_chip(|chip| {
            (0..chip.geometry().blocks).map(|block| !chip.is_bad(block)).collect()
        })
    }

    fn threshold(&self) -> Option<u32> {
        Some(self.threshold)
    }

    fn age(&mut self, erases: &[u32]) {
        self.mtd.with_chip(|chip| {
            for (block, more) in (0..).zip(erases) {
                chip.add_erase_cycles(block, *more);
            }
        });
        // UBI keeps counters of its own in memory; told to the chip alone, levelling would go on as
        // if there had been no gap.
        self.ubi.age(erases);
    }
}

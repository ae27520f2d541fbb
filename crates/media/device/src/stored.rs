//! A flash device that stores bytes and can lose its power.
//!
//! The bytes are kept beside the layers (see [`crate::medium`]); what a device counts and how long it takes are the
//! same with them and without. A power cut at a moment takes all dies at once: operations under way are
//! torn, those to come do not happen, and what the write cache held is lost unless it was programmed by then. So a
//! write without force unit access is durable once a flush that came after its completion is done.

use crate::cut_watch::CutWatch;
use crate::die::Dies;
use crate::flash::{FlashDevice, Piece};
use crate::medium::{Medium, TornOperation};
use crate::page_file::PageFile;
use crate::timeline::Moment;
use crate::{
    BlockDevice, Command, Completion, DeviceError, LoadError, Operation, SECTOR_BYTES, SavedPart,
};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The operation of a chip in which the supply is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOperation {
    /// The page program of this number from now on, over all dies in the order in which they are begun by the
    /// controller; the first is number 1.
    Program(u64),
    /// The erase of this number.
    Erase(u64),
}

/// What a power cut took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// When the supply failed, nanoseconds.
    pub at_ns: u64,
    /// Operations that were torn: at most one on each die, by the die's number.
    pub torn: Vec<(u32, TornOperation)>,
    /// Sectors in the write cache that were not on the medium.
    pub lost_cached_sectors: u64,
}

/// What it took to begin again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// When the last die has read what it needs, nanoseconds.
    pub ready_ns: u64,
    /// Pages and spare areas that the layers read.
    pub reads: u64,
    /// Programs and erases of the layers.
    pub changes: u64,
}

/// A device that stores bytes and can lose its power.
///
/// Bytes of a write go with its command ([`StoredDevice::submit_write`]); bytes of a read are there once its command
/// was submitted ([`StoredDevice::read_bytes`]). The order of submission is the order of contents.
pub trait StoredDevice: BlockDevice {
    /// Begins to store bytes. What the device holds reads as zeros; precondition it before.
    fn store_bytes(&mut self);

    /// Bytes of pages that are written from now on go to a file without a name in `folder`, not to memory. Nothing else
    /// changes. If the host's disk is full, they go to memory.
    ///
    /// # Errors
    /// Those of making a file there.
    fn keep_bytes_in(&mut self, folder: &Path) -> io::Result<()>;

    /// Submits a write with its bytes; see [`BlockDevice::submit`].
    ///
    /// # Errors
    /// As [`BlockDevice::submit`], and [`DeviceError::PowerLost`].
    ///
    /// # Panics
    /// If `bytes` are not those of the command's sectors, or the command is no write.
    fn submit_write(
        &mut self,
        now_ns: u64,
        command: &Command,
        bytes: &[u8],
    ) -> Result<Completion, DeviceError>;

    /// Copies what the host reads at `sector` to `bytes`, whole sectors.
    ///
    /// # Errors
    /// [`DeviceError::PastTheEnd`]; [`DeviceError::Gone`]; [`DeviceError::PowerLost`].
    fn read_bytes(&self, sector: u64, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// True if some byte of the page that holds `sector` may be other than zero, and the number of sectors from
    /// `sector` to the end of that page.
    fn allocation(&self, sector: u64) -> (bool, u64);

    /// Lets the supply fail in the middle of an operation to come; [`StoredDevice::cut_ns`] says when that is.
    fn cut_at(&mut self, operation: CutOperation);

    /// When the supply fails, once the operation of [`StoredDevice::cut_at`] is begun. Completions after that moment
    /// never reach the host.
    fn cut_ns(&self) -> Option<u64>;

    /// Nothing is asked of the device until `now_ns`: what it does by itself is begun by then, and
    /// [`StoredDevice::cut_ns`] knows of it.
    ///
    /// # Errors
    /// [`DeviceError::PowerLost`] if the supply failed meanwhile, or before; [`DeviceError::Ftl`] at the end of life.
    fn pass_time(&mut self, now_ns: u64) -> Result<(), DeviceError>;

    /// The supply fails at `at_ns`, or at [`StoredDevice::cut_ns`] if that is sooner.
    ///
    /// # Errors
    /// [`DeviceError::TimeWentBackwards`]; [`DeviceError::PowerLost`] if there is no power; [`DeviceError::Ftl`] at the
    /// end of life.
    fn cut_power(&mut self, at_ns: u64) -> Result<Outage, DeviceError>;

    /// The supply is back at `at_ns`: all layers build their tables anew from the medium.
    ///
    /// With `cut_after`, it fails again in the rebuild of each die, in the operation after so many; the device then
    /// stays without power.
    ///
    /// # Errors
    /// [`DeviceError::TimeWentBackwards`] before the cut; [`DeviceError::PowerLost`] if it failed again;
    /// [`DeviceError::Ftl`] if a layer cannot be built anew.
    fn restore_power(
        &mut self,
        at_ns: u64,
        cut_after: Option<u64>,
    ) -> Result<Recovery, DeviceError>;

    /// What the last cut took, if the device is without power.
    fn outage(&self) -> Option<&Outage>;

    /// The host takes the supply away in order, from `now_ns` on: the cache goes to the medium, every operation that is
    /// begun comes to its end, none is torn. A cut of [`StoredDevice::cut_at`] does not come any more. Returns when
    /// the device is without power, nanoseconds.
    ///
    /// # Errors
    /// As [`BlockDevice::submit`] of a flush; [`DeviceError::PowerLost`] if there is no power.
    fn shut_down(&mut self, now_ns: u64) -> Result<u64, DeviceError>;

    /// Hands over what the device holds, part by part, for [`StoredDevice::load`].
    ///
    /// # Errors
    /// What `each` gives.
    ///
    /// # Panics
    /// In debug builds if the device has power: what is under way is no part of what it holds.
    fn save(&self, each: &mut dyn FnMut(&SavedPart<'_>) -> io::Result<()>) -> io::Result<()>;

    /// Begins to store bytes, without power since `at_ns`: a new device that is about to hold what another one held.
    /// After the last [`StoredDevice::load`], [`StoredDevice::restore_power`] makes it go on.
    fn begin_without_power(&mut self, at_ns: u64);

    /// Takes over a part of what a device of the same description held.
    ///
    /// # Errors
    /// [`LoadError`]; what the device holds is of no use then.
    fn load(&mut self, part: SavedPart<'_>) -> Result<(), LoadError>;

    /// A digest of what the medium holds as of the last command: pages, wear and bytes. 32 bytes in hexadecimal.
    fn medium_digest(&self) -> String;
}

/// The state of a device that stores bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    /// The pieces of the write that is being submitted, in order; empty of a write without bytes.
    incoming: Vec<Arc<[u8]>>,
    /// Set while there is no power.
    outage: Option<Outage>,
    /// The latest moment up to which the medium has followed.
    followed_ns: u64,
}

impl FlashDevice {
    /// True between a power cut and the return of the supply.
    #[inline]
    pub(crate) fn is_without_power(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.outage.is_some())
    }

    /// The bytes of a piece of a page arrive in the controller.
    #[inline]
    pub(crate) fn arrive(&mut self, command: &Command, piece: Piece) {
        if self.stored.is_some() {
            self.store_piece(command, piece);
        }
    }

    #[cold]
    fn store_piece(&mut self, command: &Command, piece: Piece) {
        let (die, local) = self.die_of(piece.page);
        let index = piece.page - command.sector / u64::from(self.page_sectors());
        let Some(Stored { incoming, .. }) = &mut self.stored else { return };
        let Some(medium) = &mut self.dies.all[die].medium else { return };
        // A write without bytes counts, and leaves the bytes as they are.
        if let Some(bytes) = incoming.get(index as usize) {
            debug_assert_eq!(bytes.len() as u64, u64::from(piece.sectors()) * SECTOR_BYTES);
            medium.write(local, piece.first as usize * SECTOR_BYTES as usize, bytes);
        }
    }

    /// The host forgets whole pages of the device.
    pub(crate) fn forget(&mut self, pages: Range<u64>) {
        if self.stored.is_none() {
            return;
        }
        for page in pages {
            let (die, local) = self.die_of(page);
            if let Some(medium) = &mut self.dies.all[die].medium {
                medium.trim(local);
            }
        }
    }

    /// The supply fails now if the moment of [`StoredDevice::cut_at`] has come.
    #[inline]
    pub(crate) fn fail_if_due(&mut self, now_ns: u64) -> Result<(), DeviceError> {
        match self.dies.cut_watch.cut_ns {
            Some(cut_ns) if cut_ns <= now_ns => {
                self.fail(cut_ns);
                Err(DeviceError::PowerLost)
            }
            _ => Ok(()),
        }
    }

    /// The medium follows to the time of the last command: nothing fails before it any more.
    #[inline]
    pub(crate) fn let_time_pass(&mut self, now_ns: u64) {
        if self.stored.is_some() {
            self.follow(now_ns);
        }
    }

    #[cold]
    fn follow(&mut self, now_ns: u64) {
        let Dies { all, cut_watch, .. } = &mut self.dies;
        for medium in all.iter_mut().filter_map(|die| die.medium.as_mut()) {
            medium.settle(now_ns, cut_watch);
            // A moment at which the supply is to fail may lie before the next command.
            medium.advance(cut_watch.cut_ns.map_or(now_ns, |cut_ns| cut_ns.min(now_ns)));
        }
        if let Some(stored) = &mut self.stored {
            stored.followed_ns = now_ns;
        }
    }

    /// All dies lose their supply at `at_ns`, and the cache with them.
    fn fail(&mut self, at_ns: u64) {
        let mut torn = Vec::new();
        let Dies { all, cut_watch, .. } = &mut self.dies;
        for (die, number) in all.iter_mut().zip(0..) {
            let Some(medium) = &mut die.medium else { continue };
            medium.settle(at_ns, cut_watch);
            torn.extend(medium.cut_power(at_ns).map(|operation| (number, operation)));
        }
        *cut_watch = CutWatch::default();
        let lost_cached_sectors = self.empty_cache(at_ns);
        if let Some(activity) = &mut self.dies.activity {
            activity.lose_power(at_ns, lost_cached_sectors as u32);
        }
        if let Some(stored) = &mut self.stored {
            stored.outage = Some(Outage { at_ns, torn, lost_cached_sectors });
        }
    }
}

impl StoredDevice for FlashDevice {
    fn store_bytes(&mut self) {
        for die in &mut self.dies.all {
            let medium = Medium::new(die.layer.0.as_mut(), die.slc.as_deref_mut());
            die.medium = Some(Box::new(medium));
        }
        self.stored = Some(Stored::default());
    }

    fn keep_bytes_in(&mut self, folder: &Path) -> io::Result<()> {
        let page_bytes = self.page_sectors() as usize * SECTOR_BYTES as usize;
        let file = Arc::new(PageFile::new(folder, page_bytes)?);
        for medium in self.dies.all.iter_mut().filter_map(|die| die.medium.as_mut()) {
            medium.keep_in(Arc::clone(&file));
        }
        Ok(())
    }

    fn submit_write(
        &mut self,
        now_ns: u64,
        command: &Command,
        bytes: &[u8],
    ) -> Result<Completion, DeviceError> {
        assert_eq!(command.operation, Operation::Write, "only writes have bytes");
        assert_eq!(
            bytes.len() as u64,
            command.transfer_bytes(),
            "the bytes are those of the command"
        );
        if let Some(mut stored) = self.stored.take() {
            // Each whole page is copied once, to where it stays.
            let mut rest = bytes;
            for index in 0.. {
                if rest.is_empty() {
                    break;
                }
                let length = self.piece(command, index).sectors() as usize * SECTOR_BYTES as usize;
                let (here, behind) = rest.split_at(length.min(rest.len()));
                stored.incoming.push(here.into());
                rest = behind;
            }
            self.stored = Some(stored);
        }
        let done = self.submit(now_ns, command);
        if let Some(stored) = &mut self.stored {
            stored.incoming.clear();
        }
        done
    }

    fn read_bytes(&self, sector: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        if self.is_without_power() {
            return Err(DeviceError::PowerLost);
        }
        let sectors = bytes.len() as u64 / SECTOR_BYTES;
        debug_assert_eq!(sectors * SECTOR_BYTES, bytes.len() as u64, "whole sectors are read");
        let command = Command::read(sector, sectors as u32);
        command.check(self.sectors())?;
        let mut rest = bytes;
        for index in 0.. {
            if rest.is_empty() {
                break;
            }
            let piece = self.piece(&command, index);
            let (here, behind) =
                rest.split_at_mut(piece.sectors() as usize * SECTOR_BYTES as usize);
            rest = behind;
            let (die, local) = self.die_of(piece.page);
            let offset = piece.first as usize * SECTOR_BYTES as usize;
            let medium = self.dies.all[die].medium.as_ref();
            // A device that only counts holds zeros.
            if medium.is_none() {
                here.fill(0);
            }
            let is_held = medium.is_none_or(|medium| medium.read(local, offset, here));
            if !is_held {
                return Err(DeviceError::Gone {
                    sector: piece.page * u64::from(self.page_sectors()),
                });
            }
        }
        Ok(())
    }

    fn allocation(&self, sector: u64) -> (bool, u64) {
        let page_sectors = u64::from(self.page_sectors());
        let page = sector / page_sectors;
        let (die, local) = self.die_of(page);
        let medium = self.dies.all[die].medium.as_ref();
        let end = ((page + 1) * page_sectors).min(self.sectors());
        (medium.is_some_and(|medium| medium.is_allocated(local)), end - sector)
    }

    fn cut_at(&mut self, operation: CutOperation) {
        self.dies.cut_watch = match operation {
            CutOperation::Program(count) => CutWatch::at_program(count),
            CutOperation::Erase(count) => CutWatch::at_erase(count),
        };
    }

    fn cut_ns(&self) -> Option<u64> {
        self.dies.cut_watch.cut_ns
    }

    fn pass_time(&mut self, now_ns: u64) -> Result<(), DeviceError> {
        if self.is_without_power() {
            return Err(DeviceError::PowerLost);
        }
        self.idle_until(now_ns)?;
        self.fail_if_due(now_ns)?;
        self.let_time_pass(now_ns);
        Ok(())
    }

    fn cut_power(&mut self, at_ns: u64) -> Result<Outage, DeviceError> {
        let last_ns = self.stored.as_ref().map_or(0, |stored| stored.followed_ns);
        if at_ns < last_ns {
            return Err(DeviceError::TimeWentBackwards { now_ns: at_ns, last_ns });
        }
        if self.is_without_power() {
            return Err(DeviceError::PowerLost);
        }
        // Not later than a cut that is due.
        let at_ns = self.cut_ns().map_or(at_ns, |cut_ns| cut_ns.min(at_ns));
        // Idle time until then: the cache drains, dies clean.
        self.idle_until(at_ns)?;
        self.fail(at_ns);
        Ok(self.outage().cloned().unwrap_or_default())
    }

    fn restore_power(
        &mut self,
        at_ns: u64,
        cut_after: Option<u64>,
    ) -> Result<Recovery, DeviceError> {
        let mut recovery = Recovery { ready_ns: at_ns, ..Recovery::default() };
        // With power there is nothing to recover from.
        let Some(Outage { at_ns: last_ns, .. }) = self.outage().cloned() else {
            return Ok(recovery);
        };
        if at_ns < last_ns {
            return Err(DeviceError::TimeWentBackwards { now_ns: at_ns, last_ns });
        }
        self.power_up(at_ns);
        let mut failed = Ok(());
        for number in 0..self.dies.all.len() {
            let die = &mut self.dies.all[number];
            // Away while the time of the rebuild is booked: its changes are over already.
            let Some(mut medium) = die.medium.take() else { continue };
            let rebuilt = medium.rebuild(die.layer.0.as_mut(), die.slc.as_deref_mut(), cut_after);
            match rebuilt {
                Ok(work) => {
                    let ready =
                        self.dies.manage(number, Moment { ns: at_ns, cleaning_ns: 0 }, work);
                    recovery.ready_ns = recovery.ready_ns.max(ready.ns);
                    recovery.reads += work.counters.page_reads + work.counters.spare_reads;
                    recovery.changes += crate::die::changes(work);
                }
                // Of several the first one: the others are built anew with it at the next attempt.
                Err(error) => failed = failed.and(Err(error)),
            }
            self.dies.all[number].medium = Some(medium);
        }
        match failed {
            Ok(()) => {
                if let Some(stored) = &mut self.stored {
                    (stored.outage, stored.followed_ns) = (None, at_ns);
                }
                Ok(recovery)
            }
            Err(ftl::FtlError::Nand(nand::NandError::PowerLost)) => Err(DeviceError::PowerLost),
            Err(error) => Err(error.into()),
        }
    }

    fn outage(&self) -> Option<&Outage> {
        self.stored.as_ref()?.outage.as_ref()
    }

    fn shut_down(&mut self, now_ns: u64) -> Result<u64, DeviceError> {
        self.dies.cut_watch = CutWatch::default();
        let flushed_ns = self.submit(now_ns, &Command::flush())?.done_ns;
        // Cleaning may go on behind the flush. What is begun ends, and nothing more begins: idle time does not pass.
        self.let_time_pass(flushed_ns);
        let media = self.dies.all.iter().filter_map(|die| die.medium.as_ref());
        let end_ns = media.filter_map(|medium| medium.busy_until_ns()).fold(flushed_ns, u64::max);
        self.fail(end_ns);
        let outage = self.outage();
        debug_assert!(
            outage.is_none_or(|outage| outage.torn.is_empty() && outage.lost_cached_sectors == 0),
            "a supply that is taken away in order takes nothing: {outage:?}"
        );
        Ok(end_ns)
    }

    fn save(&self, each: &mut dyn FnMut(&SavedPart<'_>) -> io::Result<()>) -> io::Result<()> {
        debug_assert!(self.is_without_power(), "a device is saved without power");
        for (number, die) in (0..).zip(&self.dies.all) {
            if let Some(medium) = &die.medium {
                medium.save(number, each)?;
            }
        }
        Ok(())
    }

    fn begin_without_power(&mut self, at_ns: u64) {
        self.store_bytes();
        let outage = Some(Outage { at_ns, ..Outage::default() });
        self.stored = Some(Stored { outage, followed_ns: at_ns, ..Stored::default() });
    }

    fn load(&mut self, part: SavedPart<'_>) -> Result<(), LoadError> {
        let die = match &part {
            SavedPart::Die(saved) => saved.die,
            SavedPart::Page(page) => page.die,
        };
        let place = self.dies.all.get_mut(die as usize);
        let Some(medium) = place.and_then(|die| die.medium.as_mut()) else {
            return Err(LoadError::Part { die, what: "parts of this die" });
        };
        match part {
            SavedPart::Die(saved) => medium.load_die(*saved),
            SavedPart::Page(page) => medium.load_page(&page),
        }
    }

    fn medium_digest(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for medium in self.dies.all.iter().filter_map(|die| die.medium.as_ref()) {
            medium.digest(&mut hash);
        }
        hash.finalize().to_hex().to_string()
    }
}

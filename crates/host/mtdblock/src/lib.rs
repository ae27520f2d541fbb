//! `mtdblock`: raw NAND as a block device, with one erase block cached.
//!
//! A write of a sector reads the erase block that holds it, unless that is the one in memory, and changes
//! it there. The block goes back to the chip, by an erase and a program of every page, when a sector of
//! another block is written, at a flush, and when the device is closed. There is no wear levelling and bad
//! blocks are not passed over. **Between the erase and the last program a power cut loses the whole block**,
//! with sectors that were synced long ago.
//!
//! Source: `drivers/mtd/mtdblock.c` and `drivers/mtd/mtd_blkdevs.c` of Linux 2.6.29 to 6.12: a thread takes
//! one request at a time and hands its sectors over one by one, so that no write ever covers an erase block
//! and passes the cache by.

mod lent;

use block::{Part, ServedDevice, Serving};
use device::{Command, DeviceError, Operation};
use lent::LentPages;
use mtd::Mtd;
use shared_page::SharedPage;
use sim::{Cpus, Lock, Sim};
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of a sector (`blksize` of the translation layer).
pub const SECTOR_BYTES: usize = units::SECTOR_BYTES;

/// State of the cached block (`cache_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheState {
    Empty,
    Clean,
    Dirty,
}

/// The erase block in memory.
#[derive(Debug)]
struct Cache {
    state: CacheState,
    block: u32,
    bytes: Vec<u8>,
}

/// What the cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Sectors that were written into the block in memory.
    pub written_sectors: u64,
    /// Erase blocks that were read because a sector of them was written.
    pub fills: u64,
    /// Erase blocks that went back to the chip.
    pub write_backs: u64,
    /// Sectors that were read from the block in memory.
    pub cached_read_sectors: u64,
    /// Sectors that were read from the chip or its driver's page buffer.
    pub read_sectors: u64,
}

/// A raw NAND device as a block device.
pub struct MtdBlock {
    mtd: Rc<Mtd>,
    cpus: Rc<Cpus>,
    copy_ps_per_byte: u64,
    cache: Lock<Cache>,
    lent: Rc<LentPages>,
    statistics: Cell<CacheStatistics>,
}

impl MtdBlock {
    /// The block device over `mtd`. `copy_ps_per_byte` is processor time of bytes that are copied between
    /// bios and the cached block.
    pub fn new(sim: &Sim, cpus: Rc<Cpus>, mtd: Rc<Mtd>, copy_ps_per_byte: u64) -> Rc<Self> {
        // Allocated once: the kernel allocates `cache_data` at the first write and keeps it until
        // the last close.
        let bytes = vec![0; mtd.block_bytes() as usize];
        let cache = Cache { state: CacheState::Empty, block: 0, bytes };
        Rc::new(Self {
            lent: Rc::new(LentPages::new(mtd.clone())),
            mtd,
            cpus,
            copy_ps_per_byte,
            cache: Lock::new(sim, cache),
            statistics: Cell::default(),
        })
    }

    /// What the cache did since the device was opened.
    pub fn statistics(&self) -> CacheStatistics {
        self.statistics.get()
    }

    /// Writes the cached block to the chip if it differs (`mtdblock_flush`, and `mtdblock_release` at the
    /// last close).
    ///
    /// # Errors
    /// [`DeviceError::Medium`] if the erase or a program failed; the block stays dirty.
    pub async fn flush(&self) -> Result<(), DeviceError> {
        let mut cache = self.cache.lock().await;
        let done = self.write_back(&mut cache).await;
        self.audit(&cache);
        done
    }

    /// A page in memory has the bytes that a page of the device has, or will have once the writes submitted so
    /// far are on the chip. From then on they are kept there alone.
    pub fn keep_once(&self, page: u64, shared: &Rc<SharedPage>) {
        self.lent.add(page, shared);
    }

    fn count(&self, change: impl FnOnce(&mut CacheStatistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }

    /// Checks the cached block and the counts, in debug builds.
    fn audit(&self, cache: &Cache) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(cache.bytes.len(), self.mtd.block_bytes() as usize, "one erase block is cached");
        assert!(self.block_start(cache.block) < self.mtd.size_bytes(), "the block is the device's");
        let counted = self.statistics.get();
        let is_dirty = u64::from(cache.state == CacheState::Dirty);
        assert_eq!(
            counted.fills,
            counted.write_backs + is_dirty,
            "a block that was read goes back"
        );
        assert!(counted.fills <= counted.written_sectors, "a block is read for a written sector");
    }

    fn block_start(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.mtd.block_bytes())
    }

    fn failed(&self, block: u32) -> DeviceError {
        DeviceError::Medium { sector: self.block_start(block) / SECTOR_BYTES as u64 }
    }

    /// `write_cached_data`. The cache is empty afterwards, not clean: the kernel does not trust that
    /// no other task writes the chip.
    async fn write_back(&self, cache: &mut Cache) -> Result<(), DeviceError> {
        if cache.state != CacheState::Dirty {
            // Dirty only: a clean block that goes back would cost an erase for nothing.
            return Ok(());
        }
        let failed = |_| self.failed(cache.block);
        // Pages in memory that have their bytes from the chip get them back before they go.
        self.lent.take_back(cache.block);
        // Between this erase and the last program the block exists in memory alone; a cut here
        // loses it whole.
        self.mtd.erase(cache.block).await.map_err(failed)?;
        self.mtd.write(self.block_start(cache.block), &cache.bytes).await.map_err(failed)?;
        // After the program: an error before leaves the block dirty, and the next flush tries
        // again.
        cache.state = CacheState::Empty;
        self.lent.lend(cache.block);
        self.count(|counted| counted.write_backs += 1);
        Ok(())
    }

    /// `do_cached_write` of one sector.
    async fn write_sector(
        &self,
        cache: &mut Cache,
        sector: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        let (block, at) = self.place(sector);
        // One erase block fits into memory, so another one goes to the chip first.
        if cache.state == CacheState::Dirty && cache.block != block {
            self.write_back(cache).await?;
        }
        if cache.state == CacheState::Empty || cache.block != block {
            // Empty while it is read: an error on the way must not leave bytes of two blocks
            // behind.
            cache.state = CacheState::Empty;
            self.read_chip(self.block_start(block), &mut cache.bytes).await?;
            (cache.state, cache.block) = (CacheState::Clean, block);
            self.count(|counted| counted.fills += 1);
        }
        cache.bytes[at..at + SECTOR_BYTES].copy_from_slice(bytes);
        cache.state = CacheState::Dirty;
        self.count(|counted| counted.written_sectors += 1);
        Ok(())
    }

    /// `do_cached_read` of one sector.
    async fn read_sector(
        &self,
        cache: &Cache,
        sector: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let (block, at) = self.place(sector);
        // A dirty block must be read from memory; the chip has older bytes.
        if cache.state != CacheState::Empty && cache.block == block {
            into.copy_from_slice(&cache.bytes[at..at + SECTOR_BYTES]);
            self.count(|counted| counted.cached_read_sectors += 1);
            return Ok(());
        }
        self.count(|counted| counted.read_sectors += 1);
        self.read_chip(sector * SECTOR_BYTES as u64, into).await
    }

    fn place(&self, sector: u64) -> (u32, usize) {
        let offset = sector * SECTOR_BYTES as u64;
        let block_bytes = u64::from(self.mtd.block_bytes());
        ((offset / block_bytes) as u32, (offset % block_bytes) as usize)
    }

    async fn read_chip(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let failed = DeviceError::Medium { sector: offset / SECTOR_BYTES as u64 };
        match self.mtd.read(offset, into).await {
            Ok(status) if status.is_readable() => Ok(()),
            _ => Err(failed),
        }
    }

    /// One bio, sector by sector.
    async fn transfer(&self, operation: Operation, part: &Part) -> Result<(), DeviceError> {
        let length = part.sectors as usize * SECTOR_BYTES;
        let mut bytes = part.bytes.as_ref().map_or_else(|| vec![0; length], |bytes| bytes.take());
        bytes.resize(length, 0);
        let mut done = Ok(());
        {
            // Held for a bio and not for a request: `cache_mutex` lets a flush of another task in
            // between.
            let mut cache = self.cache.lock().await;
            let sectors = part.sector..part.sector + u64::from(part.sectors);
            for (sector, bytes) in sectors.zip(bytes.chunks_exact_mut(SECTOR_BYTES)) {
                done = match operation {
                    Operation::Write => self.write_sector(&mut cache, sector, bytes).await,
                    _ => self.read_sector(&cache, sector, bytes).await,
                };
                if done.is_err() {
                    break;
                }
            }
            self.audit(&cache);
        }
        // Bytes that were written go now: whoever waits for the bio looks at them no more.
        if let (Some(place), Operation::Read) = (&part.bytes, operation) {
            place.replace(bytes);
        }
        // After the transfer: the copy between bio and cache is the processor's, whichever way it
        // went.
        self.cpus.run(length as u64 * self.copy_ps_per_byte / 1000).await;
        done
    }
}

impl ServedDevice for MtdBlock {
    fn sectors(&self) -> u64 {
        self.mtd.size_bytes() / SECTOR_BYTES as u64
    }

    fn serve(&self, command: Command, parts: Vec<Part>) -> Serving<'_> {
        Box::pin(async move {
            command.check(self.sectors())?;
            match command.operation {
                Operation::Flush => self.flush().await,
                // A discard is not offered to the layers above.
                Operation::Discard => Ok(()),
                Operation::Read | Operation::Write => {
                    for part in &parts {
                        self.transfer(command.operation, part).await?;
                    }
                    Ok(())
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, CacheState, CacheStatistics, MtdBlock};
    use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
    use nand::{Chip, FaultSettings, Storage, find_part};
    use sim::{Cpus, Simulation};
    use std::rc::Rc;

    /// Checks a device whose cached block is dirty, with a fault.
    fn audited(fault: fn(&mut CacheStatistics, &mut Cache)) {
        let part = find_part("k9f2g08u0c").expect("in the catalogue");
        let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let sim = Simulation::new(1).handle();
        let cpus = Rc::new(Cpus::new(&sim, 1, 1_000_000));
        let options = MtdOptions {
            layout: find_layout("linux-large").expect("in the table"),
            costs: DriverCosts::default(),
            bad_blocks: BadBlocks::Table,
            reads_sub_pages: false,
            takes_time: true,
        };
        let device = MtdBlock::new(&sim, cpus.clone(), Mtd::new(&sim, cpus, chip, options), 0);
        let bytes = vec![0; device.mtd.block_bytes() as usize];
        let mut cache = Cache { state: CacheState::Dirty, block: 1, bytes };
        let mut counted =
            CacheStatistics { written_sectors: 9, fills: 2, write_backs: 1, ..Default::default() };
        device.statistics.set(counted);
        device.audit(&cache);
        fault(&mut counted, &mut cache);
        device.statistics.set(counted);
        device.audit(&cache);
    }

    #[test]
    #[should_panic(expected = "one erase block is cached")]
    fn a_short_block_is_seen() {
        audited(|_, cache| cache.bytes.truncate(512));
    }

    #[test]
    #[should_panic(expected = "the block is the device's")]
    fn a_block_behind_the_end_is_seen() {
        audited(|_, cache| cache.block = 1 << 20);
    }

    #[test]
    #[should_panic(expected = "a block that was read goes back")]
    fn a_block_that_was_lost_is_seen() {
        audited(|_, cache| cache.state = CacheState::Empty);
    }

    #[test]
    #[should_panic(expected = "a block is read for a written sector")]
    fn a_block_that_was_read_for_nothing_is_seen() {
        audited(|counted, _| counted.written_sectors = 1);
    }
}

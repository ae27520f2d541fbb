//! FAT on a block device in the table of file systems.

use block_medium::BlockMedium;
use fat::{CpuCosts, Fat, FindingCode as Code, FormatOptions, MountOptions, find_profile, format};
use fs_api::{DynFileSystem, Errno, FileSystem, Finding, Memory, Place};
use mount::guarantee::{
    ALL_TORN, Durable, ERASED_BLOCK, ExpectedFinding, Guarantee, Hazard, LOST_FILE, Order,
    READ_ONLY, STRANGE_NAME, WRONG_BYTES,
};
use mount::{
    BlockPath, Call, Counter, KernelMount, KernelSource, Kind, MTDBLOCK, Machine, MountError,
    MountRequest, MountedFileSystem, SharedMount, StillData,
};
use page_cache::PageCache;
use std::any::Any;
use std::rc::Rc;

pub(crate) const KIND: Kind = Kind {
    name: "fat",
    summary: "FAT with long names (vfat) on a block device, through bios and a scheduler: no log, no journal",
    is_shown: true,
    has_owners_and_links: false,
    is_on_block_device: true,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    profiles: &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"],
    is_over_ubi: false,
    kernel: KernelMount {
        type_name: "vfat",
        source: KernelSource::BlockDevice,
        options: "ro, rw, sync, discard, uid=NUMBER, gid=NUMBER, umask=OCTAL",
    },
    images_instead: Some("images of FAT are read and made by mtools, mkfs.vfat and fsck.vfat"),
    own_images: None,
    guarantee: Some(&GUARANTEE),
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// What survives a power cut.
const GUARANTEE: Guarantee = Guarantee {
    kind: "fat",
    // `fat_file_fsync` of `fs/fat/file.c` writes data, the sector of the entry and the tables, then flushes
    // the device. `sync` writes all, and nothing flushes: `fat_sops` of `fs/fat/inode.c` has no `sync_fs`.
    durable: Durable::AtFlush,
    // Sectors of the block device are written back in the order of their numbers, whatever they hold.
    order: Order::Sectors,
    order_of_torn_page: Order::Sectors,
    renames_in_two_steps: false,
    // `mkfs.vfat` is another program than the mount.
    is_made_in_steps: true,
    new_attribute_is_synced: false,
    keeps_modes: false,
    empties_before_unlink: &[],
    safe: "names and files that a sync wrote, once the device is flushed: by the fsync of any file in Linux \
           6.x, on mtdblock also by umount; bytes of a file whose name was safe at its own fsync",
    new_file: "its clusters are safe; its name may be missing or the short one, until a sync",
    beyond: "a name that was safe and not touched stays, with its bytes if the file was not changed; each \
             sector of all else is old or new, and a mount repairs nothing",
    beyond_torn_page: "the same",
    expected_findings: &[
        ExpectedFinding { code: Code::NotUnmounted.name(), torn: ALL_TORN },
        // What the mount met of the hazards.
        ExpectedFinding { code: Code::BadChain.name(), torn: ALL_TORN },
        ExpectedFinding { code: Code::BadDirectory.name(), torn: ALL_TORN },
    ],
    hazards: &[
        Hazard {
            name: "bad-chain",
            summary: "a chain of clusters leads to a free cluster or to none",
            finding: Some(Code::BadChain.name()),
        },
        Hazard {
            name: "bad-directory",
            summary: "a new directory does not begin with itself and its parent",
            finding: Some(Code::BadDirectory.name()),
        },
        Hazard {
            name: "cross-links",
            summary: "two files have the same cluster: freed clusters are another file's when the old name comes back",
            finding: Some(Code::CrossLinks.name()),
        },
        Hazard {
            name: "double-names",
            summary: "a name stands twice in a directory",
            finding: Some(Code::DoubleNames.name()),
        },
        Hazard {
            name: "long-chains",
            summary: "a file has more clusters than its size needs",
            finding: Some(Code::LongChains.name()),
        },
        Hazard {
            name: "lost-clusters",
            summary: "clusters are taken and no file's",
            finding: Some(Code::LostClusters.name()),
        },
        Hazard {
            name: "short-chains",
            summary: "a file has fewer clusters than its size needs",
            finding: Some(Code::ShortChains.name()),
        },
        Hazard {
            name: "stray-slots",
            summary: "slots of a long name stand without the short one",
            finding: Some(Code::StraySlots.name()),
        },
        Hazard {
            name: "table-differences",
            summary: "the copies of the table differ",
            finding: Some(Code::TableDifferences.name()),
        },
        Hazard {
            name: "wrong-free-count",
            summary: "FSInfo counts other free clusters than the table has",
            finding: Some(Code::WrongFreeCount.name()),
        },
        ERASED_BLOCK,
        LOST_FILE,
        READ_ONLY,
        STRANGE_NAME,
        WRONG_BYTES,
    ],
};

const BLOCK_BYTES: u64 = fat::SECTOR_BYTES as u64;
/// Sectors from the beginning that hold nothing on a blank device: there, other file systems have their
/// superblocks.
const BLANK_SECTORS: u32 = 8;
/// Largest volume that is checked whole.
const CHECKED_BYTES_MAX: u64 = 1 << 30;
/// A hundredth of a second, the unit of `dirty_writeback_centisecs`.
const CENTISECOND_NS: u64 = 10_000_000;

/// A mounted FAT volume, and the block device under it.
pub struct FatMount {
    /// The file system, whose calls the layer above makes.
    pub file_system: Fat,
    /// Its way to the device.
    pub path: BlockPath,
}

impl FatMount {
    /// The device is closed even if the file system fails.
    async fn unmounted(&self) -> Result<(), Errno> {
        // The file system first: it writes what the device's cache then holds.
        let unmounted = self.file_system.unmount().await;
        let closed = self.path.close(KIND.name).await.map_err(|_| Errno::Eio);
        unmounted.and(closed)
    }

    /// Compares tables, chains and directories with each other, as fsck.vfat does, once what is in memory
    /// is written. That the volume is mounted is no complaint.
    ///
    /// # Errors
    /// [`Errno::Enomem`] for a volume of more than a gibibyte, which the check would hold in memory.
    async fn checked(&self) -> Result<Vec<Finding>, Errno> {
        // The check holds the whole table in memory.
        if u64::from(self.file_system.volume().sectors) * BLOCK_BYTES > CHECKED_BYTES_MAX {
            return Err(Errno::Enomem);
        }
        // Written first: the check reads the medium past the file system.
        self.file_system.sync().await?;
        let found = fat::check(&self.path).await.map_err(|_| Errno::Eio)?;
        let counted = [
            (Code::LostClusters, "clusters that are taken but no file's", found.lost_clusters),
            (Code::CrossLinks, "clusters that two files have", found.cross_links),
            (
                Code::TableDifferences,
                "sectors in which the copies of the table differ",
                found.table_differences,
            ),
            (Code::BadChain, "chains that lead nowhere", found.broken_chains),
            (Code::LongChains, "files with more clusters than their size needs", found.long_chains),
            (
                Code::ShortChains,
                "files with fewer clusters than their size needs",
                found.short_chains,
            ),
            (Code::StraySlots, "slots of long names without a short one", found.stray_slots),
            (Code::DoubleNames, "names that stand twice in a directory", found.double_names),
            (
                Code::BadDirectory,
                "directories that do not begin with themselves and their parent",
                found.bad_directories,
            ),
            (
                Code::WrongFreeCount,
                "wrong numbers of free clusters in FSInfo",
                found.is_free_count_wrong.into(),
            ),
        ];
        let wrong = counted.into_iter().filter(|(.., count)| *count > 0);
        Ok(wrong
            .map(|(code, what, count)| code.at(Place::Whole, format!("{what}: {count}")))
            .collect())
    }

    /// Lets go of the sectors of metadata that are clean; tells how many.
    fn drop_sectors(&self) -> u64 {
        let before = self.sectors_in_memory();
        self.file_system.drop_caches();
        before - self.sectors_in_memory()
    }

    fn sectors_in_memory(&self) -> u64 {
        let kinds = self.file_system.memory().kinds;
        kinds.iter().find(|(name, ..)| *name == "buffer_head").map_or(0, |(_, count, _)| *count)
    }
}

impl MountedFileSystem for FatMount {
    fn file_system(&self) -> &DynFileSystem<'_> {
        DynFileSystem::from_ref(&self.file_system)
    }

    fn has_page_cache(&self) -> bool {
        true
    }

    fn block_path(&self) -> Option<&BlockPath> {
        Some(&self.path)
    }

    fn page_cache(&self) -> Option<Rc<PageCache>> {
        None
    }

    fn has_bounded_root(&self) -> bool {
        self.file_system.volume().root_slots > 0
    }

    fn protection_period_s(&self) -> Option<u64> {
        None
    }

    fn still_data(&self) -> StillData {
        // The layer of the card below it levels wear, if anything does.
        StillData::Stays
    }

    fn statistics(&self) -> Call<'_, Vec<Counter>> {
        Box::pin(async { Vec::new() })
    }

    fn findings(&self) -> Call<'_, Vec<Finding>> {
        Box::pin(async { self.file_system.findings() })
    }

    fn check(&self) -> Call<'_, Result<Vec<Finding>, Errno>> {
        Box::pin(self.checked())
    }

    fn unmount(&self) -> Call<'_, Result<(), Errno>> {
        Box::pin(self.unmounted())
    }

    fn shrink(&self) -> Call<'_, u64> {
        Box::pin(async { self.drop_sectors() })
    }

    fn memory(&self) -> Memory {
        self.file_system.memory()
    }

    fn counts_inodes(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Options as `fat_param_spec` of `fs/fat/inode.c` (Linux 6.12) has them, as far as they mean something
/// here. Free clusters are counted at the mount, as the first `statfs` after it would.
fn parse(request: &MountRequest, machine: &Machine) -> Result<MountOptions, MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = find_profile(name).expect("the table is tested");
    let writeback = &machine.board.writeback;
    let has_flusher = request.has_background && request.has_write_back;
    let entry_ns = machine.board.work.entry_ns;
    let mut options = MountOptions {
        flusher_interval_ns: if has_flusher {
            u64::from(writeback.dirty_writeback_centisecs) * CENTISECOND_NS
        } else {
            0
        },
        flusher_expire_ns: u64::from(writeback.dirty_expire_centisecs) * CENTISECOND_NS,
        costs: CpuCosts { directory_slot_ns: entry_ns, table_entry_ns: entry_ns },
        ..MountOptions::new(profile)
    };
    for option in &request.options {
        match option.as_str() {
            "ro" => options.is_read_only = true,
            "rw" => options.is_read_only = false,
            "sync" => options.is_synchronous = true,
            "discard" => options.discards = true,
            _ => set_number(&mut options, option)?,
        }
    }
    Ok(options)
}

/// `uid=` and `gid=` in decimal, `umask=` in octal.
fn set_number(options: &mut MountOptions, option: &str) -> Result<(), MountError> {
    let refused = || KIND.unknown_option(option);
    let (name, value) = option.split_once('=').ok_or_else(refused)?;
    let radix = if name == "umask" { 8 } else { 10 };
    let number = u32::from_str_radix(value, radix).map_err(|_| refused())?;
    match name {
        "uid" => options.uid = number,
        "gid" => options.gid = number,
        "umask" if number <= 0o777 => options.umask = number,
        _ => return Err(refused()),
    }
    Ok(())
}

fn medium<E: std::error::Error>(error: E) -> MountError {
    MountError::Medium { kind: KIND.name, reason: error.to_string() }
}

/// True of a device that was erased, or filled with zeros, at its beginning.
async fn is_blank(path: &BlockPath) -> Result<bool, MountError> {
    let sectors = path.read(0, BLANK_SECTORS).await.map_err(medium)?;
    // Erased flash is all ones, a new device all zeros.
    Ok([0, 0xff].iter().any(|byte| sectors.iter().all(|there| there == byte)))
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<SharedMount, MountError> {
    let options = parse(request, machine)?;
    let path = machine.block_path(&request.block, BLOCK_BYTES)?;
    if request.formats_blank && !options.is_read_only && is_blank(&path).await? {
        // By the seed, where mkfs.vfat takes the time.
        let volume_id = FormatOptions::default().volume_id ^ request.seed as u32;
        let new = FormatOptions { volume_id, ..FormatOptions::default() };
        format(&path, &new).await.map_err(medium)?;
        // Closed, so that the mount reads what a mkfs has left on the device.
        path.close(KIND.name).await?;
    }
    let under = Rc::new(path.clone());
    let mounted = Fat::mount(&machine.sim, machine.cpus.clone(), under, options).await;
    let file_system = mounted.map_err(medium)?;
    Ok(SharedMount::new(FatMount { file_system, path }))
}

//! NILFS2 over `mtdblock` in the table of file systems.

use block_medium::BlockMedium;
use fs_api::{DynFileSystem, Errno, FileSystem, Finding, Memory};
use mount::guarantee::{
    ALL_TORN, Durable, ERASED_BLOCK, ExpectedFinding, Guarantee, Hazard, Order,
};
use mount::{
    BlockPath, Call, Counter, KernelMount, KernelSource, Kind, MTDBLOCK, Machine, MountError,
    MountRequest, MountedFileSystem, SharedMount, StillData,
};
use nilfs2::FindingCode as Code;
use nilfs2::{
    CleanerSettings, CpuCosts, FormatOptions, MountOptions, Nilfs2, SUPERBLOCK_OFFSET, find_profile,
};
use page_cache::PageCache;
use std::any::Any;
use std::rc::Rc;

pub(crate) const KIND: Kind = Kind {
    name: "nilfs2",
    summary: "NILFS2 on a block device: a log with checkpoints, through bios and a scheduler to mtdblock",
    is_shown: true,
    has_owners_and_links: true,
    is_on_block_device: true,
    usual_block_device: MTDBLOCK,
    has_cleaner: true,
    profiles: &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"],
    is_over_ubi: false,
    kernel: KernelMount {
        type_name: "nilfs2",
        source: KernelSource::BlockDevice,
        options: "ro, rw, barrier, nobarrier, order=relaxed, order=strict, norecovery, discard, nodiscard, cp=CHECKPOINT, nogc, pp=SECONDS",
    },
    images_instead: None,
    own_images: None,
    guarantee: Some(&GUARANTEE),
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// What survives a power cut.
const GUARANTEE: Guarantee = Guarantee {
    kind: "nilfs2",
    // `nilfs_sync_file` of `fs/nilfs2/file.c` makes a checkpoint if the inode is queued
    // (`nilfs_inode_dirty`): if blocks of it were changed, not attributes alone.
    durable: Durable::AtCheckpoint,
    // `nilfs_search_super_root` of `fs/nilfs2/recovery.c` takes the newest log chain that is whole and ends in
    // a super root; `nilfs_do_roll_forward` then takes data-sync logs behind it over.
    order: Order::Checkpoints,
    order_of_torn_page: Order::Checkpoints,
    renames_in_two_steps: false,
    // `mkfs.nilfs2` is another program than the mount.
    is_made_in_steps: true,
    new_attribute_is_synced: false,
    keeps_modes: true,
    empties_before_unlink: &[],
    safe: "all that came before the fsync of a file or directory whose blocks were changed since the last \
           checkpoint; everything at sync and umount; bytes at fdatasync. Each flushes the device from Linux \
           2.6.35 on, unless it is mounted with nobarrier",
    new_file: "safe with its name if bytes were written to it; of an empty one, or of changed attributes, fsync \
               writes nothing",
    beyond: "the state of one checkpoint, whole, with bytes of fdatasync since: a later state than the safe one \
             if a timer or a full segment made one",
    beyond_torn_page: "the same: a log whose checksum is wrong does not count",
    expected_findings: &[ExpectedFinding { code: Code::RolledForward.name(), torn: ALL_TORN }],
    hazards: &[ERASED_BLOCK, SPLIT_CHECKPOINT],
};

/// `nilfs_segctor_do_construct` of `fs/nilfs2/segment.c` hands all logs of a checkpoint to the device and flushes
/// behind the last of them alone (`nilfs_flush_device`). `nilfs_search_super_root` of `fs/nilfs2/recovery.c` looks
/// into the next segment where a log does not fit, and takes a log with a super root without its first one.
const SPLIT_CHECKPOINT: Hazard = Hazard {
    name: "split-checkpoint",
    summary: "a device that was not flushed keeps the second log of a checkpoint, in the next segment, and loses \
              the first, from its cache or under way: the volume may not mount, or show files that cannot be read",
    finding: Some(Code::SplitCheckpoint.name()),
};

const BLOCK_BYTES: u64 = 4096;
/// Fewest segments of a file system that is made on a blank device: of fewer, those kept for the
/// cleaner would be most.
const SEGMENTS_MIN: u64 = 31;
/// Fewest blocks of a segment.
const SEGMENT_BLOCKS_MIN: u32 = 16;

/// A mounted NILFS2, and the block device under it.
pub struct Nilfs2Mount {
    /// The file system, whose calls the layer above makes.
    pub file_system: Nilfs2,
    /// Its way to the device.
    pub path: BlockPath,
    /// Seconds for which the cleaner keeps what users changed; none if no cleaner runs.
    pub protection_period_s: Option<u64>,
}

impl Nilfs2Mount {
    async fn unmounted(&self) -> Result<(), Errno> {
        let done = self.file_system.unmount().await;
        let closed = self.path.close(KIND.name).await;
        done.and(closed.map_err(|_| Errno::Eio))
    }
}

impl MountedFileSystem for Nilfs2Mount {
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
        false
    }

    fn protection_period_s(&self) -> Option<u64> {
        self.protection_period_s
    }

    fn still_data(&self) -> StillData {
        StillData::Stays
    }

    fn statistics(&self) -> Call<'_, Vec<Counter>> {
        Box::pin(async { Vec::new() })
    }

    fn findings(&self) -> Call<'_, Vec<Finding>> {
        Box::pin(async { self.file_system.findings() })
    }

    fn check(&self) -> Call<'_, Result<Vec<Finding>, Errno>> {
        Box::pin(self.file_system.check())
    }

    fn unmount(&self) -> Call<'_, Result<(), Errno>> {
        Box::pin(self.unmounted())
    }

    fn shrink(&self) -> Call<'_, u64> {
        Box::pin(self.file_system.shrink())
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

/// Options as `parse_options` of `fs/nilfs2/super.c` (Linux 2.6.30 to 6.1) takes them, and those that
/// `mount.nilfs2` keeps for itself: it starts the cleaner.
fn parse(
    request: &MountRequest,
    machine: &Machine,
) -> Result<(MountOptions, Option<CleanerSettings>), MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = find_profile(name).expect("the table is tested");
    let work = &machine.board.work;
    let mut options = MountOptions {
        // Without write-back by time no timer constructs segments either.
        has_timer: request.has_background && request.has_write_back,
        epoch_s: machine.now().seconds.cast_unsigned(),
        costs: CpuCosts {
            crc_ps_per_byte: work.crc32_ps_per_byte,
            copy_ps_per_byte: machine.board.costs.copy_ps_per_byte,
            log_block_ns: work.entry_ns,
            map_lookup_ns: work.entry_ns,
        },
        ..MountOptions::new(profile)
    };
    let mut cleaner = CleanerSettings::of(profile);
    let mut has_cleaner = request.has_background;
    for option in &request.options {
        match option.as_str() {
            "nogc" => has_cleaner = false,
            "ro" => options.is_read_only = true,
            "rw" => options.is_read_only = false,
            "barrier" => options.has_barrier = true,
            "nobarrier" => options.has_barrier = false,
            "order=relaxed" => options.has_strict_order = false,
            "order=strict" => options.has_strict_order = true,
            "norecovery" => options.skips_recovery = true,
            "discard" => options.discards = true,
            "nodiscard" => options.discards = false,
            _ => {
                let unknown = || KIND.unknown_option(option);
                let (key, number) = option.split_once('=').ok_or_else(unknown)?;
                let number = number.parse().map_err(|_| unknown())?;
                match key {
                    "cp" => options.checkpoint = Some(number),
                    "pp" => cleaner.protection_period_s = number,
                    _ => return Err(unknown()),
                }
            }
        }
    }
    // An old checkpoint is mounted read-only only (`nilfs_remount`, `nilfs_get_sb`).
    options.is_read_only |= options.checkpoint.is_some();
    Ok((options, (has_cleaner && !options.is_read_only).then_some(cleaner)))
}

fn medium<E: std::error::Error>(error: E) -> MountError {
    MountError::Medium { kind: KIND.name, reason: error.to_string() }
}

/// True of a device that was erased, or filled with zeros, where the superblock would be.
async fn is_blank(path: &BlockPath) -> Result<bool, MountError> {
    let block = path.read(0, 1).await.map_err(medium)?;
    let superblock = &block[SUPERBLOCK_OFFSET as usize..];
    Ok([0, 0xff].iter().any(|byte| superblock.iter().all(|there| there == byte)))
}

/// As mkfs.nilfs2 makes it, with smaller segments where the device is too small for its own.
async fn format(path: &BlockPath, request: &MountRequest, now_s: u64) -> Result<(), MountError> {
    let mut options = FormatOptions { now_s, ..FormatOptions::default() };
    // By the seed, where mkfs.nilfs2 draws at random.
    options.checksum_seed ^= request.seed as u32;
    let blocks = path.size_bytes() / BLOCK_BYTES;
    // Halved until there are segments enough for the cleaner to work with.
    while blocks / u64::from(options.blocks_per_segment) < SEGMENTS_MIN
        && options.blocks_per_segment > SEGMENT_BLOCKS_MIN
    {
        options.blocks_per_segment /= 2;
    }
    nilfs2::format(path, &options).await.map_err(medium)?;
    path.close(KIND.name).await
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<SharedMount, MountError> {
    let (options, cleaner) = parse(request, machine)?;
    let path = machine.block_path(&request.block, BLOCK_BYTES)?;
    if request.formats_blank && !options.is_read_only && is_blank(&path).await? {
        format(&path, request, options.epoch_s).await?;
    }
    let under = Rc::new(path.clone());
    let mounted = Nilfs2::mount(&machine.sim, machine.cpus.clone(), under, options).await;
    let file_system = mounted.map_err(|error| match error {
        nilfs2::MountError::SplitCheckpoint(_) => MountError::Damaged {
            kind: KIND.name,
            code: Code::SplitCheckpoint.name(),
            reason: error.to_string(),
        },
        error => medium(error),
    })?;
    // `mount.nilfs2` starts the cleaner after the mount (`nilfs_cleanerd`).
    if let Some(settings) = cleaner {
        file_system.start_cleaner(settings);
    }
    let protection_period_s = cleaner.map(|settings| settings.protection_period_s);
    Ok(SharedMount::new(Nilfs2Mount { file_system, path, protection_period_s }))
}

//! UBIFS over UBI in the table of file systems.

use fs_api::{DynFileSystem, Errno, FileSystem, Finding, Memory};
use mount::guarantee::{Durable, ExpectedFinding, Guarantee, Order, TORN_PAGE};
use mount::{
    BlockPath, Call, Counter, KernelMount, KernelSource, Kind, MTDBLOCK, Machine, MountError,
    MountRequest, Mounted, MountedFileSystem, SharedMount, StillData,
};
use page_cache::PageCache;
use std::any::Any;
use std::rc::Rc;
use ubi::FindingCode as Code;
use ubi::{Ubi, VolumeKind, VolumeOptions};
use ubifs::{
    Compressor, CpuCosts, MemoryVolume, MountOptions, NewFileSystem, Ubifs, Volume, find_profile,
};

pub(crate) const KIND: Kind = Kind {
    name: "ubifs",
    summary: "UBIFS over UBI: a journal and an index in a tree, written back through the page cache",
    is_shown: true,
    has_owners_and_links: true,
    is_on_block_device: false,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    profiles: &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"],
    is_over_ubi: true,
    kernel: KernelMount {
        type_name: "ubifs",
        source: KernelSource::UbiVolume,
        options: "ro, rw, sync, bulk_read, no_bulk_read, compr=none, compr=lzo, compr=zlib, compr=zstd",
    },
    images_instead: None,
    own_images: None,
    guarantee: Some(&GUARANTEE),
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// What survives a power cut.
const GUARANTEE: Guarantee = Guarantee {
    kind: "ubifs",
    durable: Durable::EachAtSync,
    // `ubifs_jnl_update` writes names to the base head, `ubifs_jnl_write_data` bytes to the
    // data head: each keeps its own order.
    order: Order::NamesInOrder,
    order_of_torn_page: Order::NamesInOrder,
    renames_in_two_steps: false,
    // `create_default_filesystem` writes superblock, master nodes, index and root inode one
    // after the other.
    is_made_in_steps: true,
    // The inode of a new attribute has `S_SYNC` (`create_xattr` of `fs/ubifs/xattr.c`), so that
    // `ubifs_jnl_update` writes the buffer of the head that all names go through.
    new_attribute_is_synced: true,
    keeps_modes: true,
    empties_before_unlink: &[],
    safe: "a file's bytes and attributes at its fsync, with its names and all names that were changed \
           before them; names that were exchanged at the fsync of their directory; all names when a new \
           extended attribute is made; everything at sync and umount",
    new_file: "safe with its name",
    beyond: "names, links and extended attributes as after one of the calls since, none left out; of each \
             file by itself mode, owner, size and each block of 4096 bytes old or new: bytes that were not \
             written back are zeros",
    beyond_torn_page: "the same: a page that was torn is behind the end of the journal",
    expected_findings: &[
        // The page that was torn, read by the recovery or by the attach.
        ExpectedFinding { code: Code::UnreadableData.name(), torn: TORN_PAGE },
        // The same, met by the wear-levelling before the recovery wrote it anew.
        ExpectedFinding { code: Code::UnreadableSource.name(), torn: TORN_PAGE },
        // A block that could not be read is tested before it is used again.
        ExpectedFinding { code: Code::TestedBlock.name(), torn: TORN_PAGE },
    ],
    hazards: &[],
};

/// Name of the volume that is made on a device without any.
const VOLUME: &str = "nandlab";

/// A mounted UBIFS, and the device that its volume is of.
pub struct UbifsMount {
    /// The file system, whose calls the layer above makes.
    pub file_system: Ubifs,
    /// The device; none under a volume in memory.
    pub ubi: Option<Rc<Ubi>>,
    /// The mount attached the device, and its end detaches it.
    is_attached_here: bool,
}

impl UbifsMount {
    async fn unmounted(&self) -> Result<(), Errno> {
        let done = self.file_system.unmount().await;
        // Only what this mount attached is detached; a script's `ubiattach` stays.
        if let (Some(ubi), true) = (&self.ubi, self.is_attached_here) {
            ubi.detach();
        }
        done
    }

    fn found(&self) -> Vec<Finding> {
        let mut findings = self.ubi.as_ref().map_or_else(Vec::new, |ubi| ubi.findings());
        findings.extend(self.file_system.findings());
        findings
    }
}

impl MountedFileSystem for UbifsMount {
    fn file_system(&self) -> &DynFileSystem<'_> {
        DynFileSystem::from_ref(&self.file_system)
    }

    fn has_page_cache(&self) -> bool {
        true
    }

    fn block_path(&self) -> Option<&BlockPath> {
        None
    }

    fn page_cache(&self) -> Option<Rc<PageCache>> {
        None
    }

    fn has_bounded_root(&self) -> bool {
        false
    }

    fn protection_period_s(&self) -> Option<u64> {
        None
    }

    fn still_data(&self) -> StillData {
        // UBI below it levels wear.
        StillData::Stays
    }

    fn statistics(&self) -> Call<'_, Vec<Counter>> {
        let done = self.file_system.statistics();
        let counters = vec![
            Counter::of_mount("replayed_nodes", done.replayed_nodes, "nodes"),
            Counter::of_mount("recovered_lebs", done.recovered_lebs, "blocks"),
            Counter::of_mount("commits", done.commits, "commits"),
            Counter::new("index_nodes_written", done.index_nodes_written, "nodes"),
            Counter::new("collections", done.collections, "passes"),
            Counter::new("collected_lebs", done.collected_lebs, "blocks"),
            Counter::new("moved_bytes", done.moved_bytes, "bytes"),
            Counter::new("padding_bytes", done.padding_bytes, "bytes"),
            Counter::new("data_nodes", done.data_nodes, "nodes"),
            Counter::new("data_bytes", done.data_bytes, "bytes"),
        ];
        Box::pin(async { counters })
    }

    fn findings(&self) -> Call<'_, Vec<Finding>> {
        Box::pin(async { self.found() })
    }

    fn check(&self) -> Call<'_, Result<Vec<Finding>, Errno>> {
        Box::pin(self.file_system.check())
    }

    fn unmount(&self) -> Call<'_, Result<(), Errno>> {
        Box::pin(self.unmounted())
    }

    fn shrink(&self) -> Call<'_, u64> {
        Box::pin(FileSystem::shrink(&self.file_system))
    }

    fn memory(&self) -> Memory {
        // Structures of both layers.
        let mut kinds = self.file_system.memory().kinds;
        kinds.extend(self.ubi.iter().flat_map(|ubi| ubi.memory_use().kinds));
        kinds.sort_unstable();
        Memory { kinds }
    }

    fn counts_inodes(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Mounts UBIFS on a volume in memory, without UBI and the chip; an empty one becomes a file system of sizes
/// that may be chosen.
///
/// # Errors
/// [`MountError::Option`] of an option that UBIFS has not; [`MountError::Medium`] if the volume holds no UBIFS.
pub async fn mount_volume(
    machine: &Machine,
    volume: Rc<MemoryVolume>,
    request: &MountRequest,
    new: NewFileSystem,
) -> Result<Mounted, MountError> {
    let options = MountOptions { new, ..parse(request, machine)? };
    let mounted = mounting(machine, Volume::Memory(volume), options).await;
    let file_system = mounted.map_err(|error| medium(error.to_string()))?;
    let mount = UbifsMount { file_system, ubi: None, is_attached_here: false };
    Ok(machine.mounted(SharedMount::new(mount), request.has_write_back))
}

fn mounting(
    machine: &Machine,
    volume: Volume,
    options: MountOptions,
) -> Call<'_, Result<Ubifs, ubifs::MountError>> {
    Box::pin(Ubifs::mount(&machine.sim, machine.cpus.clone(), volume, options))
}

/// A device that is attached by the mount itself; messages name the file system first.
async fn attach(machine: &Machine, request: &MountRequest) -> Result<Rc<Ubi>, MountError> {
    machine.attach_ubi_for_mount(request).await.map_err(|error| match error {
        MountError::Ubi { .. } => medium(error.to_string()),
        error => error,
    })
}

fn medium(reason: String) -> MountError {
    MountError::Medium { kind: KIND.name, reason }
}

/// The volume that is asked for, or the only one; one over the whole device if it has none.
async fn open(ubi: &Rc<Ubi>, request: &MountRequest) -> Result<ubi::Volume, MountError> {
    let refused = |error: ubi::UbiError| medium(format!("UBI: {error}"));
    let volumes = ubi.volumes();
    let id = match (&request.ubi.volume, &volumes[..]) {
        (Some(asked), _) => {
            let named = volumes.iter().find(|(_, name)| name == asked);
            named.map(|(id, _)| *id).ok_or_else(|| {
                let known: Vec<&str> = volumes.iter().map(|(_, name)| name.as_str()).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                medium(format!("there is no volume `{asked}`; the device has: {known}"))
            })?
        }
        // A blank device gets one volume of all its blocks, where a user would run ubimkvol.
        (None, []) => ubi.make_volume(&VolumeOptions::new(VOLUME)).await.map_err(refused)?,
        (None, [(id, _)]) => *id,
        (None, _) => {
            let known: Vec<&str> = volumes.iter().map(|(_, name)| name.as_str()).collect();
            return Err(medium(format!(
                "the device has {} volumes, name one: {}",
                known.len(),
                known.join(", ")
            )));
        }
    };
    let volume = ubi.open_volume(id).await.map_err(refused)?;
    if volume.kind() == VolumeKind::Static {
        let reason = format!("volume `{}` is static: UBIFS needs a dynamic one", volume.name());
        return Err(medium(reason));
    }
    Ok(volume)
}

/// Options as `ubifs_parse_options` of `fs/ubifs/super.c` (Linux 6.1) takes them.
fn parse(request: &MountRequest, machine: &Machine) -> Result<MountOptions, MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = find_profile(name).expect("the table is tested");
    let work = &machine.board.work;
    let mut options = MountOptions {
        has_thread: request.has_background,
        costs: CpuCosts {
            crc_ps_per_byte: work.crc32_ps_per_byte,
            copy_ps_per_byte: machine.board.costs.copy_ps_per_byte,
            lzo_compress_ps_per_byte: work.lzo_compress_ps_per_byte,
            lzo_decompress_ps_per_byte: work.lzo_decompress_ps_per_byte,
            zlib_compress_ps_per_byte: work.zlib_compress_ps_per_byte,
            zlib_decompress_ps_per_byte: work.zlib_decompress_ps_per_byte,
            zstd_compress_ps_per_byte: work.zstd_compress_ps_per_byte,
            zstd_decompress_ps_per_byte: work.zstd_decompress_ps_per_byte,
            znode_ns: work.entry_ns,
        },
        made_at: machine.now().seconds,
        ..MountOptions::new(profile)
    };
    // The timers of write buffers follow the interval of write-back (`wbuf_timer_init`).
    if !request.has_background || !request.has_write_back {
        options.write_buffer_interval_ns = None;
    }
    for option in &request.options {
        match option.as_str() {
            "ro" => options.is_read_only = true,
            "rw" => options.is_read_only = false,
            "sync" => options.is_synchronous = true,
            "bulk_read" => options.has_bulk_read = true,
            "no_bulk_read" => options.has_bulk_read = false,
            "compr=none" => options.compressor = Some(Compressor::None),
            "compr=lzo" => options.compressor = Some(Compressor::Lzo),
            "compr=zlib" => options.compressor = Some(Compressor::Zlib),
            "compr=zstd" => options.compressor = Some(Compressor::Zstd),
            _ => return Err(KIND.unknown_option(option)),
        }
    }
    Ok(options)
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<SharedMount, MountError> {
    let options = parse(request, machine)?;
    let attached = machine.attached_ubi();
    let is_attached_here = attached.is_none();
    // A device that a script has attached is used as it is.
    let ubi = match attached {
        Some(ubi) => ubi,
        None => attach(machine, request).await?,
    };
    let mounted = match open(&ubi, request).await {
        Ok(volume) => {
            let mounted = mounting(machine, Volume::Ubi(volume), options).await;
            mounted.map_err(|error| medium(error.to_string()))
        }
        Err(error) => Err(error),
    };
    match mounted {
        Ok(file_system) => {
            Ok(SharedMount::new(UbifsMount { file_system, ubi: Some(ubi), is_attached_here }))
        }
        Err(error) => {
            // A mount that fails leaves the device as it found it.
            if is_attached_here {
                ubi.detach();
            }
            Err(error)
        }
    }
}

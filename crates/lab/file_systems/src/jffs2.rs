//! JFFS2 on raw NAND in the table of file systems, and its options.

use crate::over_block::OverBlock;
use fs_api::{DynFileSystem, Errno, FileSystem, Finding, Memory};
use jffs2::FindingCode as Code;
use jffs2::{CleanMarkers, CpuCosts, Jffs2, MountOptions, find_profile};
use mount::guarantee::{
    ALL_TORN, Durable, ExpectedFinding, Guarantee, Hazard, LOST_ATTRIBUTE, LOST_NAME, OLD_TAIL,
    Order, TORN_PAGE,
};
use mount::{
    BlockPath, Call, Counter, KernelMount, KernelSource, Kind, MTDBLOCK, Machine, MountError,
    MountRequest, MountedFileSystem, SharedMount, StillData,
};
use page_cache::PageCache;
use std::any::Any;
use std::rc::Rc;

pub(crate) const KIND: Kind = Kind {
    name: "jffs2",
    summary: "JFFS2: a log of compressed nodes, scanned at mount",
    is_shown: true,
    has_owners_and_links: true,
    is_on_block_device: false,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    profiles: PROFILES,
    is_over_ubi: false,
    kernel: KernelMount {
        type_name: "jffs2",
        source: KernelSource::Mtd,
        options: "ro, rw, compr=none, compr=lzo, compr=zlib",
    },
    images_instead: None,
    own_images: None,
    guarantee: Some(&GUARANTEE),
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// What survives a power cut.
const GUARANTEE: Guarantee = Guarantee {
    kind: "jffs2",
    durable: Durable::AtSync,
    // Nodes reach the medium in the order of the calls, page by page through one write buffer.
    order: Order::Calls,
    // The software ECC of a torn page takes missing code bytes for wrong bits, so nodes that
    // were whole can be damaged.
    order_of_torn_page: Order::EachByItself,
    // `jffs2_rename` links the new name before it unlinks the old one.
    renames_in_two_steps: true,
    is_made_in_steps: false,
    new_attribute_is_synced: false,
    keeps_modes: true,
    empties_before_unlink: &[],
    safe: "all that was done to a file before its fsync, with all that came before that; everything at \
           sync and umount",
    new_file: "safe with its name if bytes were written to it since it was made; an empty one may keep \
               its inode and miss its name",
    beyond: "the state after one of the calls since, none left out; of the next call a write's first bytes, \
             or both names of a rename",
    beyond_torn_page: "each name and each file by itself is old or new, because software ECC takes missing \
                       code bytes for wrong bits and damages nodes that were whole",
    expected_findings: &[
        // Nodes reach over pages; one that was cut short is dropped.
        ExpectedFinding { code: Code::DamagedNode.name(), torn: ALL_TORN },
        ExpectedFinding { code: Code::DamagedName.name(), torn: ALL_TORN },
        ExpectedFinding { code: Code::DamagedAttribute.name(), torn: ALL_TORN },
        ExpectedFinding { code: Code::DamagedSummary.name(), torn: ALL_TORN },
        // A block that was not erased to its end.
        ExpectedFinding { code: Code::NoNodeOfInode.name(), torn: TORN_PAGE },
        // The name of a file whose own node stood in the torn page.
        ExpectedFinding { code: Code::InodeWithoutNode.name(), torn: TORN_PAGE },
        ExpectedFinding { code: Code::NameWithoutInode.name(), torn: TORN_PAGE },
        // A directory between the two steps of its rename.
        ExpectedFinding { code: Code::TwoNames.name(), torn: ALL_TORN },
    ],
    hazards: &[LOST_ATTRIBUTE, LOST_NAME, OLD_TAIL, REVIVED_NAME],
};

/// JFFS2: the highest inode number is taken from nodes of inodes alone (`jffs2_scan_make_ino_cache`).
const REVIVED_NAME: Hazard = Hazard {
    name: "revived-name",
    summary: "a torn page can keep the name of a new file and lose its inode; the next file that is made \
              gets the number, and the name with it",
    finding: Some(Code::NameWithoutInode.name()),
};

pub(crate) const PROFILES: &[&str] = &["linux-6.12", "linux-6.1", "linux-2.6.35", "linux-2.6.29"];

/// A mounted JFFS2, and the block device under it if there is one.
pub struct Jffs2Mount {
    /// The file system, whose calls the layer above makes.
    pub file_system: Jffs2,
    /// The block device under it; none on raw NAND.
    pub over_block: Option<OverBlock>,
}

impl Jffs2Mount {
    async fn unmounted(&self) -> Result<(), Errno> {
        let done = self.file_system.unmount().await;
        match &self.over_block {
            Some(over) => done.and(over.close().await),
            None => done,
        }
    }

    /// Lets go of clean pages of the block device; the kernel does not count them as objects.
    fn drop_pages(&self) -> u64 {
        if let Some(over) = &self.over_block {
            over.device.drop_pages();
        }
        0
    }
}

impl MountedFileSystem for Jffs2Mount {
    fn file_system(&self) -> &DynFileSystem<'_> {
        DynFileSystem::from_ref(&self.file_system)
    }

    fn has_page_cache(&self) -> bool {
        true
    }

    fn block_path(&self) -> Option<&BlockPath> {
        self.over_block.as_ref().map(|over| &over.path)
    }

    fn page_cache(&self) -> Option<Rc<PageCache>> {
        // Pages of the device are the cache that files share.
        self.over_block.as_ref().map(|over| over.device.mapping().cache().clone())
    }

    fn has_bounded_root(&self) -> bool {
        false
    }

    fn protection_period_s(&self) -> Option<u64> {
        None
    }

    fn still_data(&self) -> StillData {
        // `jffs2_find_gc_block` (fs/jffs2/gc.c): 2 of 128 draws take the list of clean blocks.
        StillData::MovesByChance { one_of: 64 }
    }

    fn statistics(&self) -> Call<'_, Vec<Counter>> {
        let done = self.file_system.statistics();
        let counters = vec![
            Counter::new("nodes_written", done.nodes_written, "nodes"),
            Counter::new("nodes_collected", done.nodes_collected, "nodes"),
            Counter::new("node_bytes", done.node_bytes, "bytes"),
            Counter::new("user_bytes", done.user_bytes, "bytes"),
            Counter::new("collector_passes", done.collector_passes, "passes"),
            Counter::new("foreground_passes", done.foreground_passes, "passes"),
            Counter::new("inodes_checked", done.inodes_checked, "inodes"),
            Counter::new("blocks_erased", done.blocks_erased, "blocks"),
            Counter::new("blocks_bad", done.blocks_bad, "blocks"),
            Counter::new("pages_flushed", done.pages_flushed, "pages"),
            Counter::new("padding_bytes", done.padding_bytes, "bytes"),
            Counter::new("summaries_written", done.summaries_written, "summaries"),
            Counter::new("summaries_read", done.summaries_read, "summaries"),
        ];
        Box::pin(async { counters })
    }

    fn findings(&self) -> Call<'_, Vec<Finding>> {
        Box::pin(async { self.file_system.findings() })
    }

    fn check(&self) -> Call<'_, Result<Vec<Finding>, Errno>> {
        // It keeps nothing twice that could contradict itself.
        Box::pin(async { Ok(Vec::new()) })
    }

    fn unmount(&self) -> Call<'_, Result<(), Errno>> {
        Box::pin(self.unmounted())
    }

    fn shrink(&self) -> Call<'_, u64> {
        Box::pin(async { self.drop_pages() })
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

// `JFFS2_COMPR_LZO` and `JFFS2_COMPR_ZLIB` of `include/uapi/linux/jffs2.h`.
const LZO: u8 = 7;
const ZLIB: u8 = 6;

/// Options as `jffs2_parse_param` of `fs/jffs2/super.c` (Linux 6.1) takes them, and one for what the
/// kernel sees at the kind of the device: where blocks say that they were erased.
pub(crate) fn parse(request: &MountRequest, machine: &Machine) -> Result<MountOptions, MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = find_profile(name).expect("the table is tested");
    let work = &machine.board.work;
    let mut options = MountOptions {
        has_thread: request.has_background,
        has_write_back: request.has_write_back,
        costs: CpuCosts {
            crc_ps_per_byte: work.crc32_ps_per_byte,
            copy_ps_per_byte: machine.board.costs.copy_ps_per_byte,
            zlib_compress_ps_per_byte: work.zlib_compress_ps_per_byte,
            zlib_decompress_ps_per_byte: work.zlib_decompress_ps_per_byte,
            lzo_compress_ps_per_byte: work.lzo_compress_ps_per_byte,
            lzo_decompress_ps_per_byte: work.lzo_decompress_ps_per_byte,
            rtime_compress_ps_per_byte: work.rtime_compress_ps_per_byte,
            rtime_decompress_ps_per_byte: work.rtime_decompress_ps_per_byte,
        },
        hz: machine.board.hz,
        seed: request.seed,
        ..MountOptions::new(profile)
    };
    for option in &request.options {
        match option.as_str() {
            "ro" => options.is_read_only = true,
            "rw" => options.is_read_only = false,
            // `compr=` forces one compressor for all files of the mount (`override_compr`).
            "compr=none" => options.compressors = Some(Vec::new()),
            "compr=lzo" => options.compressors = Some(vec![LZO]),
            "compr=zlib" => options.compressors = Some(vec![ZLIB]),
            // No option of the kernel, which decides by the kind of the device.
            "clean-markers=in-band" => options.clean_markers = CleanMarkers::InBand,
            _ => return Err(KIND.unknown_option(option)),
        }
    }
    Ok(options)
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<SharedMount, MountError> {
    let options = parse(request, machine)?;
    let (sim, cpus, mtd) = (&machine.sim, machine.cpus.clone(), machine.mtd.clone());
    let mounted = Jffs2::mount(sim, cpus, mtd, options).await;
    let file_system = mounted.map_err(|error| failed(KIND.name, &error))?;
    Ok(SharedMount::new(Jffs2Mount { file_system, over_block: None }))
}

pub(crate) fn failed(kind: &'static str, error: &jffs2::MountError) -> MountError {
    match error {
        jffs2::MountError::Call(errno) => MountError::Call { kind, errno: *errno },
        error => MountError::Medium { kind, reason: error.to_string() },
    }
}

//! YAFFS2 in the table of file systems.

use fs_api::{DynFileSystem, Errno, FileSystem, Finding, Memory};
use mount::guarantee::{
    ALL_TORN, DOUBLED_NAME, Durable, ERASED_CHUNK, ExpectedFinding, Guarantee, LOST_GROWTH,
    OLD_CHUNK, Order, RENAME_OVER_LINKED, REVIVED_TARGET, TORN_PAGE,
};
use mount::{
    BlockPath, Call, Counter, KernelMount, KernelSource, Kind, MTDBLOCK, Machine, MountError,
    MountRequest, MountedFileSystem, SharedMount, StillData,
};
use nand::Torn;
use page_cache::PageCache;
use std::any::Any;
use std::rc::Rc;
use yaffs2::FindingCode as Code;
use yaffs2::{CpuCosts, MountOptions, TagsPlace, Yaffs2, find_profile};

pub(crate) const KIND: Kind = Kind {
    name: "yaffs2",
    summary: "YAFFS2: a log of chunks with tags in the spare area, checkpointed",
    is_shown: true,
    has_owners_and_links: true,
    is_on_block_device: false,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    profiles: &["linux-6.1", "linux-2.6.35", "linux-2.6.29", "yaffs-direct"],
    is_over_ubi: false,
    kernel: KernelMount {
        type_name: "yaffs2",
        source: KernelSource::MtdBlock,
        options: "ro, rw, inband-tags, tags-ecc-on, tags-ecc-off, no-cache, no-checkpoint, no-checkpoint-read, no-checkpoint-write, disable-summary, empty-lost-and-found",
    },
    images_instead: None,
    own_images: None,
    guarantee: Some(&GUARANTEE),
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// What survives a power cut.
const GUARANTEE: Guarantee = Guarantee {
    kind: "yaffs2",
    // Each change of a name writes its object header before the call returns.
    durable: Durable::AtReturn,
    order: Order::CallsWithChunks,
    order_of_torn_page: Order::CallsWithChunks,
    renames_in_two_steps: false,
    // `yaffs_del_file` of the newer library makes a file empty before it deletes it.
    is_made_in_steps: false,
    new_attribute_is_synced: false,
    keeps_modes: true,
    empties_before_unlink: &["yaffs-direct"],
    safe: "every call that has returned; bytes that were written, and zeros by which truncate made a \
           file longer, at close, fsync, sync and umount",
    new_file: "safe with its name, before any sync",
    beyond: "of the call under way all or nothing; of a file being written each chunk old or new",
    beyond_torn_page: "the same: a chunk without tags does not count",
    expected_findings: &[
        // The block that was being written is left as it is.
        ExpectedFinding { code: Code::PartlyWritten.name(), torn: ALL_TORN },
        // A checkpoint cut short is not used.
        ExpectedFinding { code: Code::BadCheckpoint.name(), torn: ALL_TORN },
        // The summary of a block, torn.
        ExpectedFinding { code: Code::Unreadable.name(), torn: TORN_PAGE },
        // A page that was programmed without tags, or a block that was not erased to its end.
        ExpectedFinding { code: Code::NotErased.name(), torn: TORN_PAGE },
        // Spare areas that an erase left.
        ExpectedFinding { code: Code::BadTags.name(), torn: &[Torn::DataOnly] },
    ],
    hazards: &[
        DOUBLED_NAME,
        ERASED_CHUNK,
        LOST_GROWTH,
        OLD_CHUNK,
        RENAME_OVER_LINKED,
        REVIVED_TARGET,
    ],
};

/// A mounted YAFFS2, which its background task shares.
pub struct Yaffs2Mount(pub Rc<Yaffs2>);

impl MountedFileSystem for Yaffs2Mount {
    fn file_system(&self) -> &DynFileSystem<'_> {
        DynFileSystem::from_ref(&*self.0)
    }

    fn has_page_cache(&self) -> bool {
        // Only the library has none: its application reads and writes without a kernel.
        self.0.profile().has_page_cache
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
        // `yaffs2_find_refresh_block` (yaffs_yaffs2.c) does nothing below a period of 10.
        match self.0.profile().refresh_period {
            0..10 => StillData::Stays,
            _ => StillData::MovesSeldom,
        }
    }

    fn statistics(&self) -> Call<'_, Vec<Counter>> {
        Box::pin(async {
            let done = self.0.statistics().await;
            vec![
                Counter::of_mount(
                    "is_from_checkpoint",
                    done.is_from_checkpoint.into(),
                    "yes or no",
                ),
                Counter::of_mount("scanned_tags", done.tags_used, "pages"),
                Counter::new("gc_copies", done.gc_copies, "chunks"),
                Counter::new("all_gcs", done.all_gcs, "passes"),
                Counter::new("passive_gcs", done.passive_gcs, "passes"),
                Counter::new("gc_blocks", done.gc_blocks, "blocks"),
                Counter::new("retired_blocks", done.retired_blocks, "blocks"),
                Counter::new("cache_hits", done.cache_hits, "accesses"),
                Counter::new("checkpoints_written", done.checkpoints_written, "checkpoints"),
            ]
        })
    }

    fn findings(&self) -> Call<'_, Vec<Finding>> {
        Box::pin(async { self.0.findings().await.iter().map(Finding::from).collect() })
    }

    fn check(&self) -> Call<'_, Result<Vec<Finding>, Errno>> {
        // It keeps nothing twice that could contradict itself.
        Box::pin(async { Ok(Vec::new()) })
    }

    fn unmount(&self) -> Call<'_, Result<(), Errno>> {
        Box::pin(self.0.unmount())
    }

    fn shrink(&self) -> Call<'_, u64> {
        Box::pin(self.0.shrink())
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }

    fn counts_inodes(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Options as `yaffs_parse_options` of `yaffs_vfs_multi.c` (upstream) takes them.
fn parse(request: &MountRequest, machine: &Machine) -> Result<MountOptions, MountError> {
    let name = KIND.profile(request.profile.as_deref())?;
    let profile = find_profile(name).expect("the table is tested");
    let copy_ps_per_byte = machine.board.costs.copy_ps_per_byte;
    let mut options = MountOptions {
        costs: CpuCosts {
            copy_ps_per_byte,
            compare_ps: machine.board.work.entry_ns * 1000,
            scan_ps_per_chunk: machine.board.work.entry_ns * 1000,
            checkpoint_ps_per_byte: copy_ps_per_byte,
        },
        ..MountOptions::new(profile)
    };
    // Only the library stays in memory between mounts; a kernel forgets all.
    if !profile.has_page_cache {
        options.kept = machine.remembered();
    }
    for option in &request.options {
        match option.as_str() {
            "ro" => options.is_read_only = true,
            "rw" => options.is_read_only = false,
            "inband-tags" => options.tags = TagsPlace::Inband,
            "tags-ecc-off" => options.tags = TagsPlace::Spare,
            "tags-ecc-on" => options.tags = TagsPlace::SpareWithEcc,
            "no-cache" => options.caches = 0,
            "no-checkpoint-read" => options.reads_checkpoint = false,
            "no-checkpoint-write" => options.writes_checkpoint = false,
            "no-checkpoint" => {
                options.reads_checkpoint = false;
                options.writes_checkpoint = false;
            }
            "disable-summary" => options.writes_summaries = false,
            "empty-lost-and-found" | "empty-lost-and-found-on" => {
                options.empties_lost_and_found = true;
            }
            "empty-lost-and-found-off" => options.empties_lost_and_found = false,
            _ => return Err(KIND.unknown_option(option)),
        }
    }
    Ok(options)
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<SharedMount, MountError> {
    let options = parse(request, machine)?;
    // The library and older profiles have no background thread (`yaffs_bg_thread_fn`).
    let runs_background = request.has_background && options.profile.has_background;
    let (sim, cpus, mtd) = (&machine.sim, machine.cpus.clone(), machine.mtd.clone());
    let mounted = Yaffs2::mount(sim, cpus, mtd, options, machine.now())
        .await
        .map_err(|errno| MountError::Call { kind: KIND.name, errno })?;
    if runs_background {
        let background = mounted.clone();
        sim.spawn_named("yaffs-bg", async move { background.run_background().await });
    }
    Ok(SharedMount::new(Yaffs2Mount(mounted)))
}

//! YAFFS2 in the table of file systems.

use crate::kind::{Kind, MountError, MountRequest, unknown_option};
use crate::{AnyFileSystem, MTDBLOCK, Machine};
use yaffs2::{CpuCosts, MountOptions, TagsPlace, Yaffs2, find_profile};

pub(crate) const KIND: Kind = Kind {
    name: "yaffs2",
    summary: "YAFFS2: a log of chunks with tags in the spare area, checkpointed",
    is_on_block_device: false,
    usual_block_device: MTDBLOCK,
    has_cleaner: false,
    profiles: &["linux-6.1", "linux-2.6.35", "linux-2.6.29", "yaffs-direct"],
    mount: |machine, request| Box::pin(mount(machine, request)),
};

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
        options.kept = machine.library_kept.clone();
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
            _ => {
                let known = "ro, rw, inband-tags, tags-ecc-on, tags-ecc-off, no-cache, \
                             no-checkpoint, no-checkpoint-read, no-checkpoint-write, \
                             disable-summary, empty-lost-and-found";
                return Err(unknown_option(option, known));
            }
        }
    }
    Ok(options)
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<AnyFileSystem, MountError> {
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
    Ok(AnyFileSystem::Yaffs2(mounted))
}

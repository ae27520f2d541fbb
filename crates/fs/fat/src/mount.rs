//! Mounting and unmounting.
//!
//! Source: `fat_fill_super`, `fat_read_root` and `fat_put_super` of `fs/fat/inode.c`, Linux 6.12.
//!
//! May use: `boot`, `buffers`, `engine`, `finding`, `inode`, `names`, `profile`.

use crate::boot::{FIRST_CLUSTER, FatType, MountError, SECTOR_BYTES, Volume, decode_info};
use crate::buffers::Buffers;
use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::{Inode, ROOT};
use crate::names::{ATTRIBUTE_DIRECTORY, Record};
use crate::profile::MountOptions;
use block_medium::BlockMedium;
use fs_api::{Errno, Finding, Place, Time};
use sim::{Cpus, Lock, Sim, Timer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) async fn mount(
    sim: &Sim,
    cpus: Rc<Cpus>,
    medium: Rc<dyn BlockMedium>,
    options: MountOptions,
) -> Result<Rc<Engine>, MountError> {
    // One function: the steps of `fat_fill_super`, in its order; most of it names fields.
    if medium.block_bytes() != SECTOR_BYTES {
        return Err(MountError::Unsupported("blocks of another size than 512 bytes"));
    }
    let buffers = Buffers::new(sim, medium.clone());
    let volume = Volume::decode(&buffers.read(0).await?.bytes())?;
    if u64::from(volume.sectors) * SECTOR_BYTES as u64 > medium.size_bytes() {
        return Err(MountError::NotFat("the volume is larger than its medium".into()));
    }
    let (mut free, mut last) = (None, FIRST_CLUSTER);
    if let Some(sector) = volume.info_sector {
        let info = decode_info(&buffers.read(sector.into()).await?.bytes());
        (free, last) = info.unwrap_or((free, last));
    }
    // Where the search for free clusters goes on. Out of range it is taken modulo `max_cluster`, which
    // spreads rather than resets it (`fat_fill_super`); 0xFFFFFFFF for "unknown" is no exception.
    let last = (last % volume.cluster_end()).max(FIRST_CLUSTER);
    let engine = Rc::new(Engine {
        sim: sim.clone(),
        cpus,
        medium,
        options,
        volume,
        buffers,
        names_lock: Lock::new(sim, ()),
        table_lock: Lock::new(sim, ()),
        last_allocated: Cell::new(last),
        // FSInfo may be stale after a cut, so the number is shown but not relied on
        // (`free_clus_valid`).
        free_clusters: Cell::new(free.filter(|free| *free <= volume.clusters)),
        is_count_certain: Cell::new(false),
        is_info_dirty: Cell::new(false),
        inodes: RefCell::default(),
        places: RefCell::new(BTreeMap::new()),
        unfilled: RefCell::new(BTreeMap::new()),
        next_inode: Cell::new(ROOT + 1),
        timer: Timer::new(sim),
        is_timer_armed: Cell::new(false),
        is_read_only: Cell::new(options.is_read_only),
        is_ended: Cell::new(false),
        findings: RefCell::default(),
        cached_pages: RefCell::default(),
    });
    let damaged = |error: Errno| {
        let findings = engine.findings.borrow();
        MountError::Damaged(findings.last().map_or_else(|| error.to_string(), Finding::to_string))
    };
    if volume.is_dirty {
        engine.note(Code::NotUnmounted, Place::Whole, "the volume was not unmounted");
    }
    read_root(&engine).await.map_err(damaged)?;
    if options.counts_free_clusters && engine.free_clusters.get().is_none() {
        engine.count_free().await.map_err(damaged)?;
    }
    // Last: a mount that fails leaves the boot sector as it was.
    engine.set_state(true).await.map_err(damaged)?;
    engine.start_flusher();
    Ok(engine)
}

async fn read_root(engine: &Rc<Engine>) -> Result<(), Errno> {
    let start = match engine.volume.kind {
        FatType::Fat32 => engine.volume.root_cluster,
        _ => 0,
    };
    let attributes = ATTRIBUTE_DIRECTORY;
    let record = Record { attributes, start, ..Record::at(Time::default()) };
    let root = Rc::new(Inode::new(&engine.sim, ROOT, None, &record));
    // The root has no entry, and so no times.
    root.modified.set(Time::default());
    root.accessed.set(Time::default());
    engine.fill_directory(&root).await?;
    engine.inodes.borrow_mut().insert(ROOT, root);
    Ok(())
}

/// Ends a mount (`fat_put_super`).
pub(crate) async fn unmount(engine: &Engine) -> Result<(), Errno> {
    engine.is_ended.set(true);
    engine.timer.arm(engine.sim.now());
    engine.free_behind_ends().await?;
    engine.sync().await?;
    // Not on a volume that is read-only, or became it by damage: it stays marked (`fat_set_state`).
    // After all else is on the medium, or the mark would be gone while sectors are still missing.
    engine.set_state(false).await
}

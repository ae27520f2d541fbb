//! Mounting.
//!
//! Source: `init_nilfs`, `load_nilfs` in `fs/nilfs2/the_nilfs.c`; `nilfs_attach_checkpoint`.
//!
//! May use: `cleaner_switch`, `constructor`, `engine`, `file`, `finding`, `map`, `mount_error`, `profile`,
//! `records`, `recovery`, `segment_writer`, `summary`, `superblock`.

use crate::cleaner_switch::CleanerSwitch;
use crate::constructor::Constructor;
use crate::engine::{Engine, Geometry, LogPosition, Root, Superblocks};
use crate::file::File;
use crate::finding::Code;
use crate::map::Map;
use crate::mount_error::{MountError, RolledBack};
use crate::profile::MountOptions;
use crate::records::{
    CHECKPOINT_BYTES, Checkpoint, DAT_ENTRY_BYTES, IFILE_INODE, INODE_BYTES, Inode, ROOT_INODE,
    SEGMENT_USAGE_BYTES,
};
use crate::recovery::{Found, LogReader, find_checkpoint};
use crate::summary::LogHeader;
use crate::superblock::{
    STATE_ERROR, STATE_VALID, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock,
};
use block_medium::{BlockMedium, MediumError};
use fs_api::{Errno, Finding, Place};
use sim::{Cpus, Lock, RwLock, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

const BLOCK_BYTES: u64 = 4096;
/// Bytes of a page of raw NAND under the device, as most chips have them.
const NAND_PAGE_BYTES: usize = 2048;
// `NILFS_MIN_NRSVSEGS` of `include/uapi/linux/nilfs2_ondisk.h`.
/// Segments that are always kept for the cleaner.
const RESERVED_SEGMENTS_MIN: u64 = 8;
/// Bit of the compatible-for-reading features that is known: checkpoints count their blocks.
const FEATURE_BLOCK_COUNT: u64 = 1;

/// Both superblocks, the newer first, and whether the device's last one can be used.
async fn read_superblocks(medium: &dyn BlockMedium) -> Result<Superblocks, MountError> {
    let device_bytes = medium.size_bytes();
    let second = Superblock::second_offset(device_bytes);
    let mut found: Vec<(u64, Superblock)> = Vec::new();
    let mut buffers = BTreeMap::new();
    let mut why = String::new();
    for offset in [SUPERBLOCK_OFFSET, second] {
        if offset < SUPERBLOCK_OFFSET || offset + SUPERBLOCK_BYTES as u64 > device_bytes {
            continue;
        }
        // One place is enough, also where the device cannot read the other.
        let block = match medium.read_buffers(offset / BLOCK_BYTES, 1).await {
            Ok(block) => block,
            Err(error) => {
                why = error.to_string();
                continue;
            }
        };
        let at = (offset % BLOCK_BYTES) as usize;
        match Superblock::decode(&block[at..at + SUPERBLOCK_BYTES]) {
            Ok(superblock) => found.push((offset, superblock)),
            Err(error) if why.is_empty() => why = error,
            Err(_) => {}
        }
        buffers.insert(offset / BLOCK_BYTES, block);
    }
    // The newer one by its checkpoint (`nilfs_load_super_block`); the other stays as a second place
    // to begin at.
    if found.len() == 2 && found[1].1.last_checkpoint > found[0].1.last_checkpoint {
        found.swap(0, 1);
    }
    if found.is_empty() {
        return Err(MountError::NoSuperblock(why));
    }
    let has_spare = found.len() == 2;
    // A place that cannot be read is written anew with the first mount that writes.
    for offset in [SUPERBLOCK_OFFSET, second] {
        if found.len() == 1 && found[0].0 != offset && offset > 0 {
            let copy = found[0].1.clone();
            found.push((offset, copy));
        }
    }
    let written_s = found[0].1.written;
    Ok(Superblocks { pair: found, has_spare, buffers, writes: 0, written_s })
}

fn geometry(superblock: &Superblock, device_bytes: u64) -> Result<Geometry, MountError> {
    let unsupported = |why: String| Err(MountError::Unsupported(why));
    if superblock.block_bytes() != BLOCK_BYTES {
        return unsupported(format!("blocks of {} bytes; 4096 are", superblock.block_bytes()));
    }
    let records = [INODE_BYTES, DAT_ENTRY_BYTES, CHECKPOINT_BYTES, SEGMENT_USAGE_BYTES];
    if superblock.record_bytes.map(usize::from) != records {
        return unsupported(format!("records of {:?} bytes", superblock.record_bytes));
    }
    if superblock.revision != 2 || superblock.features[2] != 0 {
        return unsupported(format!(
            "revision {}, incompatible features {:#x}",
            superblock.revision, superblock.features[2]
        ));
    }
    let blocks_per_segment = u64::from(superblock.blocks_per_segment);
    let fits = superblock
        .segments
        .checked_mul(blocks_per_segment)
        .and_then(|blocks| blocks.checked_mul(BLOCK_BYTES))
        .is_some_and(|bytes| bytes <= device_bytes);
    if blocks_per_segment < 16 || superblock.segments < 2 || !fits {
        return unsupported(format!(
            "{} segments of {blocks_per_segment} blocks on a device of {device_bytes} bytes",
            superblock.segments
        ));
    }
    if superblock.first_data_block >= blocks_per_segment || superblock.first_data_block == 0 {
        return unsupported(format!("data begins at block {}", superblock.first_data_block));
    }
    let reserved = (superblock.segments * u64::from(superblock.reserved_percent)).div_ceil(100);
    Ok(Geometry {
        block_bytes: BLOCK_BYTES,
        blocks_per_segment,
        segments: superblock.segments,
        first_data_block: superblock.first_data_block,
        reserved_segments: reserved.max(RESERVED_SEGMENTS_MIN),
        checksum_seed: superblock.checksum_seed,
    })
}

struct Parts {
    sim: Sim,
    cpus: Rc<Cpus>,
    medium: Rc<dyn BlockMedium>,
    options: MountOptions,
}

impl Parts {
    fn engine(
        self,
        geometry: Geometry,
        superblocks: Superblocks,
        found: &Found,
        is_read_only: bool,
    ) -> Engine {
        let sim = self.sim;
        let [dat, cpfile, sufile] = Engine::super_root_files(&sim, &found.super_root);
        let nothing = File::new(&sim, IFILE_INODE, Inode::default(), Map::empty(IFILE_INODE));
        let constructor = Constructor::new(&sim, &superblocks.pair[0].1);
        Engine {
            cleaner: CleanerSwitch::new(&sim),
            constructor,
            geometry,
            superblocks: RefCell::new(superblocks),
            superblock_lock: Lock::new(&sim, ()),
            position: Cell::new(found.position),
            dat,
            cpfile,
            sufile,
            root: Root {
                ifile: nothing,
                inodes: Cell::new(0),
                blocks: Cell::new(0),
                files: RefCell::default(),
            },
            dirty_files: RefCell::default(),
            evictions: RefCell::default(),
            cleaned_files: RefCell::default(),
            cached_pages: RefCell::default(),
            transactions: RwLock::new(&sim, ()),
            clean_segments: Cell::new(0),
            is_read_only: Cell::new(is_read_only),
            findings: RefCell::default(),
            rolled_back: None,
            sim,
            cpus: self.cpus,
            medium: self.medium,
            options: self.options,
        }
    }
}

/// Where a mount goes on from.
struct Begun {
    /// The superblock that led to the checkpoint.
    superblock: Superblock,
    geometry: Geometry,
    reader: LogReader,
    found: Found,
    /// The mount before ended in an orderly way, and the newest log is the one that it left.
    is_valid: bool,
    rolled_back: Option<RolledBack>,
}

/// Where a superblock says that the newest log with a super root is (`nilfs_store_log_cursor`).
fn cursor(superblock: &Superblock, geometry: &Geometry) -> Result<LogPosition, MountError> {
    let start = superblock.last_log;
    if geometry.segment_of(start) >= geometry.segments || start < geometry.first_data_block {
        let why = format!("the superblock points to block {start}, outside the segments");
        return Err(MountError::NoCheckpoint(why));
    }
    Ok(LogPosition {
        last_log: start,
        last_sequence: superblock.last_sequence,
        last_checkpoint: superblock.last_checkpoint,
        ..LogPosition::default()
    })
}

/// Finds the newest checkpoint from the newer superblock on, or else from the older one.
///
/// The log that the newer superblock names can be torn: writes of a mount with `nobarrier` reach the
/// device in any order, and a cut inside the rewrite of an erase block takes along what was durable.
/// `load_nilfs` then copies the older superblock over the newer one in memory, drops the flag of an
/// orderly unmount, so that newer logs are looked for, and searches once more.
async fn begin_search(
    medium: &Rc<dyn BlockMedium>,
    superblocks: &mut Superblocks,
    rolls_back: bool,
) -> Result<Begun, MountError> {
    let superblock = superblocks.pair[0].1.clone();
    let geometry = geometry(&superblock, medium.size_bytes())?;
    let from = cursor(&superblock, &geometry)?;
    // Only after an orderly unmount does the superblock name the newest log; otherwise the logs
    // behind it are searched.
    let is_valid = superblock.state & STATE_VALID != 0 && superblock.state & STATE_ERROR == 0;
    let reader = LogReader::new(medium.clone(), geometry);
    let why = match find_checkpoint(&reader, from, is_valid).await? {
        Ok(found) => {
            let rolled_back = None;
            return Ok(Begun { superblock, geometry, reader, found, is_valid, rolled_back });
        }
        Err(why) => why,
    };
    if !rolls_back || !superblocks.has_spare {
        return Err(MountError::NoCheckpoint(why));
    }
    let spare = superblocks.pair[1].1.clone();
    if spare.block_size_shift != superblock.block_size_shift {
        return Err(MountError::NoCheckpoint(why));
    }
    // Of what the newer superblock said only the seed of the checksums and the position change.
    let geometry = Geometry { checksum_seed: spare.checksum_seed, ..geometry };
    let from = cursor(&spare, &geometry)?;
    let reader = LogReader::new(medium.clone(), geometry);
    let found = find_checkpoint(&reader, from, false).await?;
    let found = found.map_err(|also| {
        MountError::NoCheckpoint(format!("{why}; from the older superblock on: {also}"))
    })?;
    superblocks.pair[0].1 = spare.clone();
    let is_cut = !is_valid || has_blank_page(medium, superblock.last_log).await?;
    let (superblock, rolled_back) = (spare, Some(RolledBack { why, is_cut }));
    Ok(Begun { superblock, geometry, reader, found, is_valid: false, rolled_back })
}

/// A page of raw NAND in a log is blank, as an erase leaves it.
async fn has_blank_page(medium: &Rc<dyn BlockMedium>, start: u64) -> Result<bool, MediumError> {
    let first = medium.read_buffers(start, 1).await?;
    let blocks = LogHeader::decode(&first).map_or(1, |header| u64::from(header.blocks));
    let end = (start + blocks).min(medium.size_bytes() / BLOCK_BYTES);
    for block in start..end {
        let bytes = medium.read_buffers(block, 1).await?;
        let mut pages = bytes.chunks(NAND_PAGE_BYTES);
        if pages.any(|page| page.iter().all(|byte| *byte == 0xff)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Mounts a medium: superblocks, newest checkpoint, recovery.
pub(crate) async fn mount(
    sim: &Sim,
    cpus: Rc<Cpus>,
    medium: Rc<dyn BlockMedium>,
    options: MountOptions,
) -> Result<Rc<Engine>, MountError> {
    let mut superblocks = read_superblocks(&*medium).await?;
    let begun = begin_search(&medium, &mut superblocks, options.profile.rolls_back).await?;
    let Begun { superblock, geometry, reader, found, is_valid, rolled_back } = begun;
    let supports_features = superblock.features[1] & !FEATURE_BLOCK_COUNT == 0;
    let wanted = options.checkpoint;
    let newest = found.position.last_checkpoint;
    let is_old = wanted.is_some_and(|wanted| wanted != newest);
    let is_read_only = options.is_read_only || is_old || !supports_features;
    let parts = Parts { sim: sim.clone(), cpus, medium, options };
    let mut engine = parts.engine(geometry, superblocks, &found, is_read_only);
    let damaged = |engine: &Engine, error: Errno| {
        let findings = engine.findings.borrow();
        let why = findings.first().map_or_else(|| error.to_string(), Finding::to_string);
        if found.is_split { MountError::SplitCheckpoint(why) } else { MountError::Damaged(why) }
    };
    let counts = engine.segment_counts().await.map_err(|error| damaged(&engine, error))?;
    engine.clean_segments.set(counts.clean.min(geometry.segments));
    engine.rolled_back = rolled_back;
    let shown = wanted.unwrap_or(newest);
    let checkpoint = engine.checkpoint(shown).await.map_err(|error| damaged(&engine, error))?;
    let unknown = MountError::UnknownCheckpoint(shown);
    // The file of checkpoints lies in a log that is missing, or what stood there before it.
    let is_lost = found.is_split && shown == newest;
    let checkpoint = checkpoint.ok_or_else(|| {
        if is_lost { MountError::SplitCheckpoint(unknown.to_string()) } else { unknown }
    })?;
    engine.root = root_of(sim, &checkpoint);
    let engine = Rc::new(engine);
    if !is_valid && !is_old && !engine.options.skips_recovery {
        recover(&engine, &reader, &found).await.map_err(|error| damaged(&engine, error))?;
    }
    // `nilfs_fill_super` reads the root directory's inode (`nilfs_get_root_dentry`) after recovery and before
    // the superblocks say "mounted"; a mount whose root cannot be read fails.
    engine.file(ROOT_INODE).await.map_err(|error| damaged(&engine, error))?;
    if !is_read_only && !engine.is_read_only.get() {
        begin(&engine, !is_valid).await.map_err(|error| damaged(&engine, error))?;
    }
    if found.is_split {
        let why =
            "the log with the super root is there, and the first log of its checkpoint is not";
        engine.note(Code::SplitCheckpoint, Place::Whole, why);
    }
    Ok(engine)
}

fn root_of(sim: &Sim, checkpoint: &Checkpoint) -> Root {
    let map = Map::new(IFILE_INODE, checkpoint.ifile.map);
    Root {
        ifile: File::new(sim, IFILE_INODE, checkpoint.ifile.clone(), map),
        inodes: Cell::new(checkpoint.inodes),
        blocks: Cell::new(checkpoint.blocks),
        files: RefCell::default(),
    }
}

/// Rolls forward; what was found is written as a new checkpoint, or kept in memory by a mount that
/// may not write (`nilfs_salvage_orphan_logs`).
async fn recover(engine: &Rc<Engine>, reader: &LogReader, found: &Found) -> Result<(), Errno> {
    let was_read_only = engine.is_read_only.get();
    let salvaged = engine.roll_forward(reader, found).await?;
    if salvaged == 0 || was_read_only {
        return Ok(());
    }
    engine.note(
        Code::RolledForward,
        Place::Whole,
        format!("{salvaged} blocks were rolled forward"),
    );
    // The logs that were rolled forward stay as they are until the new checkpoint is written
    // elsewhere: a second cut repeats the recovery.
    engine.prepare_segments(found).await?;
    // The new checkpoint lies in a segment that no log leads to, so the superblock must name it.
    engine.constructor.needs_superblock.set(true);
    let _alone = engine.transactions.write().await;
    engine.construct(crate::segment_writer::Mode::Checkpoint).await
}

/// What a mount that writes does first.
async fn begin(engine: &Rc<Engine>, was_unclean: bool) -> Result<(), Errno> {
    if was_unclean {
        // `load_nilfs` marks the recovered state as valid; the mount then marks it as in use.
        engine.end_superblocks().await?;
    }
    engine.begin_superblocks().await?;
    engine.start_constructor();
    Ok(())
}

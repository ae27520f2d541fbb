//! Parameters of a mount, and what a device keeps from one mount to the next.
//!
//! Source: `yaffs_parse_options` of `yaffs_vfs_multi.c`, `struct yaffs_param`, `yaffs_guts_initialise`.
//!
//! May use: `collector`, `profile`.

use crate::collector::Collector;
use crate::profile::Profile;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The part of a page that holds the tags of its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagsPlace {
    /// First free bytes of the spare area, with their code (the default).
    SpareWithEcc,
    /// First free bytes of the spare area, without (`tags-ecc-off`).
    Spare,
    /// Last bytes of the page (`inband-tags`).
    Inband,
}

/// Processor time of the file system's own work, beside the driver's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCosts {
    /// A byte copied into or out of a chunk.
    pub copy_ps_per_byte: u64,
    /// A child of a directory compared with a name.
    pub compare_ps: u64,
    /// Tags looked at while scanning.
    pub scan_ps_per_chunk: u64,
    /// A byte of a checkpoint.
    pub checkpoint_ps_per_byte: u64,
}

/// Parameters of a mount.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the switches of the real mount options")]
pub struct MountOptions {
    /// Generation of the code.
    pub profile: &'static Profile,
    /// Where tags are stored, and whether with their code.
    pub tags: TagsPlace,
    /// Blocks that only collecting may use (`n_reserved_blocks`).
    pub reserved_blocks: u32,
    /// Chunks of the cache (`n_caches`; `no-cache` is 0).
    pub caches: u32,
    /// Nothing is written or erased, not even to clean up after a cut.
    pub is_read_only: bool,
    /// A checkpoint is used if there is one (`no-checkpoint-read`).
    pub reads_checkpoint: bool,
    /// A checkpoint is written by `sync` and the unmount (`no-checkpoint-write`).
    pub writes_checkpoint: bool,
    /// Blocks get summaries, if the profile has them (`disable-summary`).
    pub writes_summaries: bool,
    /// Every chunk is checked to be erased before it is written
    /// (`CONFIG_YAFFS_ALWAYS_CHECK_CHUNK_ERASED`).
    pub always_checks_erased: bool,
    /// Lost objects are deleted (`empty-lost-and-found`).
    pub empties_lost_and_found: bool,
    /// What the library's device keeps from one mount to the next.
    pub kept: Rc<KeptState>,
    /// Processor time that the file system's own work costs.
    pub costs: CpuCosts,
}

impl MountOptions {
    /// The defaults of a profile: 5 reserved blocks, 10 cached chunks, tags with their code.
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            tags: TagsPlace::SpareWithEcc,
            reserved_blocks: 5,
            caches: 10,
            is_read_only: false,
            reads_checkpoint: true,
            writes_checkpoint: true,
            writes_summaries: true,
            always_checks_erased: false,
            empties_lost_and_found: false,
            kept: Rc::default(),
            costs: CpuCosts::default(),
        }
    }
}

/// What a device keeps over an unmount.
///
/// A kernel makes a device for each mount. The library's is the application's: `yaffs_guts_initialise`
/// sets most of it anew, but neither where the searches for an object's number (`bucket_finder`) and
/// for an erased block (`alloc_block_finder`) go on, nor the collector's counters (`gc_skip`,
/// `gc_not_done`, `refresh_skip`) and its best candidate (`gc_dirtiest`, `gc_pages_in_use`).
#[derive(Debug, Default)]
pub struct KeptState {
    pub(crate) bucket_finder: Cell<u32>,
    pub(crate) alloc_finder: Cell<u32>,
    pub(crate) collector: RefCell<Collector>,
}

//! Which kernel is modelled, and what a mount may choose.
//!
//! May use no other file of the crate.

/// What differs between kernels: one row a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a difference of its own")]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// A superblock is written in one place and the other is brought up to date at this interval,
    /// seconds; newer kernels write them in turn.
    pub second_superblock_interval_s: Option<u64>,
    /// A mount whose newer superblock leads to no intact log begins at the older superblock instead
    /// (`load_nilfs` in `fs/nilfs2/the_nilfs.c`, since Linux 2.6.36).
    pub rolls_back: bool,
    /// A flush of the device precedes a superblock and follows a sync.
    pub flushes: bool,
    /// `fsync` first writes the file's data as `fdatasync` does (`filemap_write_and_wait` before the
    /// file system is called).
    pub fsync_writes_data_first: bool,
    /// `sync` first writes the data of each file as `fdatasync` does. Later the metadata files are among
    /// those that write-back visits, and a checkpoint precedes all.
    pub sync_writes_data_first: bool,
    /// The cleaner runs between two limits of clean segments; else all the time.
    pub cleaner_has_limits: bool,
    /// Blocks of metadata files are read ahead also where a missing one would be made (`nilfs_mdt_get_block`
    /// with `create`).
    pub reads_ahead_to_make: bool,
    /// Leaves of a block map are read ahead (`struct nilfs_btree_readahead_info`).
    pub reads_nodes_ahead: bool,
    /// The blocks of entries of the DAT and of the file of inodes that were asked for last stay in memory
    /// (`struct nilfs_palloc_cache`).
    pub keeps_last_entries: bool,
    /// A segment with an error is not written: the log ends with an error (`nilfs_sufile_mark_dirty`
    /// since Linux 6.7, and 6.1.68).
    pub refuses_erroneous_segments: bool,
}

/// All profiles, oldest first.
///
/// NILFS2 came with 2.6.30; "linux-2.6.29" is its module from outside the kernel's tree, with the
/// cleaner of that time. Sources: `fs/nilfs2` of Linux 2.6.32 and 6.1; the module's change log.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "linux-2.6.29",
        second_superblock_interval_s: Some(60),
        rolls_back: false,
        flushes: false,
        fsync_writes_data_first: true,
        sync_writes_data_first: true,
        cleaner_has_limits: false,
        reads_ahead_to_make: true,
        reads_nodes_ahead: false,
        keeps_last_entries: false,
        refuses_erroneous_segments: false,
    },
    Profile {
        name: "linux-2.6.35",
        second_superblock_interval_s: Some(60),
        rolls_back: false,
        flushes: true,
        fsync_writes_data_first: true,
        sync_writes_data_first: true,
        cleaner_has_limits: true,
        reads_ahead_to_make: false,
        reads_nodes_ahead: false,
        keeps_last_entries: false,
        refuses_erroneous_segments: false,
    },
    Profile {
        name: "linux-6.1",
        second_superblock_interval_s: None,
        rolls_back: true,
        flushes: true,
        fsync_writes_data_first: false,
        sync_writes_data_first: false,
        cleaner_has_limits: true,
        reads_ahead_to_make: false,
        reads_nodes_ahead: true,
        keeps_last_entries: true,
        refuses_erroneous_segments: true,
    },
    Profile {
        name: "linux-6.12",
        second_superblock_interval_s: None,
        rolls_back: true,
        flushes: true,
        fsync_writes_data_first: false,
        sync_writes_data_first: false,
        cleaner_has_limits: true,
        reads_ahead_to_make: false,
        reads_nodes_ahead: true,
        keeps_last_entries: true,
        refuses_erroneous_segments: true,
    },
];

/// The profile of a name.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Processor time of the engine's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCosts {
    /// CRC-32, picoseconds a byte.
    pub crc_ps_per_byte: u64,
    /// Copy of a block between buffers, picoseconds a byte.
    pub copy_ps_per_byte: u64,
    /// A block that the constructor takes into a log: its map, its DAT entry, its place.
    pub log_block_ns: u64,
    /// A search of a block map.
    pub map_lookup_ns: u64,
}

/// What a mount may choose.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of mount")]
pub struct MountOptions {
    /// The kernel that is modelled, a row of [`PROFILES`].
    pub profile: &'static Profile,
    /// Nothing is written to the medium; what a recovery finds is kept in memory.
    pub is_read_only: bool,
    /// The checkpoint to show; none for the newest. Others are read-only.
    pub checkpoint: Option<u64>,
    /// Data-sync logs behind the newest checkpoint are not rolled forward (`norecovery`).
    pub skips_recovery: bool,
    /// Data reaches the medium in the order of all changes (`order=strict`): no data-sync logs.
    pub has_strict_order: bool,
    /// Flushes of the device are sent (`barrier`).
    pub has_barrier: bool,
    /// Cleaned segments are discarded (`discard`).
    pub discards: bool,
    /// The constructor's timer runs; without it only calls and the watermark start it.
    pub has_timer: bool,
    /// Seconds since 1970 at the beginning of the simulation; the clock of logs adds virtual time.
    pub epoch_s: u64,
    /// Processor time of checksums, copies and look-ups.
    pub costs: CpuCosts,
}

impl MountOptions {
    /// A mount as the profile has it.
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            is_read_only: false,
            checkpoint: None,
            skips_recovery: false,
            has_strict_order: false,
            has_barrier: true,
            discards: false,
            has_timer: true,
            epoch_s: 1_700_000_000,
            costs: CpuCosts::default(),
        }
    }
}

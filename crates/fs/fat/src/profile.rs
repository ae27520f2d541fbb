//! Which kernel is modelled, and what a mount may choose.
//!
//! May use no other file of the crate.

/// What `fsync` of a file writes beside the file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsyncScope {
    /// Every dirty buffer of the device (`file_fsync` of `fs/sync.c`).
    Device,
    /// The sector of the file's directory entry and the dirty sectors of the tables (`fat_file_fsync`).
    File,
}

/// What differs between kernels: one row a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a difference of its own")]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// What `fsync` of a file writes beside the file's data.
    pub fsync: FsyncScope,
    /// `fsync` ends with a flush of the device (`blkdev_issue_flush` in `fat_file_fsync`).
    pub fsync_flushes: bool,
    /// The boot sector says that the volume is mounted (since Linux 3.10).
    pub marks_dirty: bool,
    /// A directory ends with the first slot that was never used. The captured traces of Linux 6.12.117
    /// have one read of an empty root directory of 32 sectors; `fat_get_entry` of older ones looks at all.
    pub ends_at_unused_slot: bool,
    /// Short names without a long one are shown in lower case: `shortname=lower`, the default before
    /// Linux 2.6.32; later ones have `mixed`.
    pub shows_lower_case: bool,
}

/// All profiles, oldest first.
///
/// Sources: `fs/fat/file.c` (`fat_file_fsync`), `fs/fat/inode.c` (`fat_set_state`, `parse_options`) and
/// `fs/fat/namei_vfat.c` of the kernels named.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "linux-2.6.29",
        fsync: FsyncScope::Device,
        fsync_flushes: false,
        marks_dirty: false,
        ends_at_unused_slot: false,
        shows_lower_case: true,
    },
    Profile {
        name: "linux-2.6.35",
        fsync: FsyncScope::File,
        fsync_flushes: false,
        marks_dirty: false,
        ends_at_unused_slot: false,
        shows_lower_case: false,
    },
    Profile {
        name: "linux-6.1",
        fsync: FsyncScope::File,
        fsync_flushes: true,
        marks_dirty: true,
        ends_at_unused_slot: false,
        shows_lower_case: false,
    },
    Profile {
        name: "linux-6.12",
        fsync: FsyncScope::File,
        fsync_flushes: true,
        marks_dirty: true,
        ends_at_unused_slot: true,
        shows_lower_case: false,
    },
];

/// The profile of a name.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Processor time of the engine's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCosts {
    /// A slot of a directory that is looked at.
    pub directory_slot_ns: u64,
    /// An entry of a table that is looked at.
    pub table_entry_ns: u64,
}

/// What a mount may choose.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of mount")]
pub struct MountOptions {
    /// The kernel whose behaviour the mount has.
    pub profile: &'static Profile,
    /// Nothing is written to the medium.
    pub is_read_only: bool,
    /// Owner of all files, as FAT stores none.
    pub uid: u32,
    /// Group of all files, as FAT stores none.
    pub gid: u32,
    /// Permission bits that files and directories do not have.
    pub umask: u32,
    /// A call returns when what it changed is on the medium (`sync`).
    pub is_synchronous: bool,
    /// Clusters that become free are discarded (`discard`).
    pub discards: bool,
    /// Free clusters are counted at mount where the volume does not have their number, as the first
    /// `statfs` does, which reads a whole table.
    pub counts_free_clusters: bool,
    /// Time from one look of the flusher for old metadata to the next (`dirty_writeback_centisecs`),
    /// nanoseconds; zero for none.
    pub flusher_interval_ns: u64,
    /// Age at which metadata is written back (`dirty_expire_centisecs`), nanoseconds.
    pub flusher_expire_ns: u64,
    /// Processor time that the engine's work costs.
    pub costs: CpuCosts,
}

impl MountOptions {
    /// A mount as the profile has it.
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            is_read_only: false,
            uid: 0,
            gid: 0,
            umask: 0o022,
            is_synchronous: false,
            discards: false,
            counts_free_clusters: true,
            flusher_interval_ns: 5_000_000_000,
            flusher_expire_ns: 30_000_000_000,
            costs: CpuCosts::default(),
        }
    }
}

//! Generations of the code: one table of what differs between them.
//!
//! May use no other file of the crate.

/// When a directory's header is written after a name in it came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentUpdate {
    /// With the next change of the directory itself.
    Never,
    /// With every change of a name.
    Immediate,
    /// By the background task, a sync or the unmount.
    Deferred,
}

/// How blocks are chosen and collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorKind {
    /// Before every write, ten chunks at a time, victims with at most two live chunks (`yaffs_guts.c`
    /// of 2009).
    Foreground,
    /// Five chunks at a time, thresholds that grow in the background, oldest dirty block after
    /// failures (`yaffs_guts.c` since 2010).
    Scattered,
}

/// A generation of the code: a row of the table of differences.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of differences, most of them yes or no")]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for the list of profiles.
    pub summary: &'static str,
    /// How the collector chooses blocks and how much it moves at a time.
    pub collector: CollectorKind,
    /// Files are read and written by way of a kernel's page cache.
    pub has_page_cache: bool,
    /// A background task collects and writes directories.
    pub has_background: bool,
    /// When the header of a directory follows a change of its names.
    pub parent_update: ParentUpdate,
    /// Blocks end with a summary of their tags.
    pub has_summaries: bool,
    /// Version in the markers of checkpoints; others are refused.
    pub checkpoint_version: u32,
    /// Blocks of the smallest device that gets checkpoints.
    pub checkpoint_blocks_min: u32,
    /// After a scan the block that was being written is left as it is.
    pub skips_open_block: bool,
    /// A failed write or check gives up the rest of the block.
    pub skips_after_error: bool,
    /// The first chunk that is written to a block not erased in this mount is read back.
    pub verifies_first_write: bool,
    /// Headers have 64-bit times and sizes.
    pub has_wide_headers: bool,
    /// Extended attributes are offered.
    pub has_xattrs: bool,
    /// The inode is held while its name is removed: the file goes by way of the unlinked directory.
    pub holds_unlinked: bool,
    /// A change of size is followed by a header for the other attributes.
    pub attributes_after_resize: bool,
    /// `sync` writes the headers of all files that changed, not only of closed ones.
    pub syncs_inodes: bool,
    /// A write is refused unless more than 20 chunks are free (`yaffs_hold_space`).
    pub holds_space: bool,
    /// Whole chunks are written by way of the cache as well (`cache_bypass_aligned` is off).
    pub caches_whole_chunks: bool,
    /// Closing a file empties its part of the cache.
    pub drops_cache_at_close: bool,
    /// Targets of symbolic links that are too long are refused, not cut off.
    pub refuses_long_targets: bool,
    /// A full cache flushes the whole object of the least recently used chunk, not the chunk alone.
    pub flushes_whole_object: bool,
    /// Collections from one to the next that takes the oldest full block, to refresh what it holds; below
    /// 10 none does (`yaffs2_find_refresh_block`).
    pub refresh_period: u32,
    /// Bytes of a pointer.
    pub pointer_bytes: u32,
    /// Bytes of an object in memory (`struct yaffs_obj`).
    pub object_bytes: u32,
}

/// All profiles, sorted by name.
///
/// Sources: `yaffs_guts.c`, `yaffs_yaffs2.c` and `yaffs_vfs_multi.c` of the upstream repository for
/// the last two; the trees of 2.6.29 and 2.6.35 follow that of a 2.6.32 vendor kernel and the upstream
/// history. There, `yaffs_UpdateParent` first writes the header of a directory in May 2009; the kernels
/// of 2.6.29 are older, and only set the times in memory (`update_dir_time` of `yaffs_fs.c`).
///
/// What the background task costs: it came with the collector of April 2010 (`yaffs_bg_thread_fn`,
/// `yaffs_bg_gc`). Every two seconds in which the checkpoint is not current it moves up to five chunks,
/// however much space there is: the most live chunks that a victim may have grows with each search in
/// vain to half a block (`yaffs_find_gc_block`), and after ten the oldest dirty block is taken whatever
/// it holds. Work that writes a little every few seconds, as a data logger does, so pays mainly for
/// copies. A logger's calls on the upstream code, over a chip of 512 blocks half full: 451 programs with
/// the code of May 2009 (413 here, where a checkpoint has the structures of a 32-bit host), 446 with
/// that of 2026 without the task, 1,397 with it (1,394 here).
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "linux-2.6.29",
        summary: "Android kernels of 2009: checkpoints of version 3, no summaries, no background task",
        collector: CollectorKind::Foreground,
        has_page_cache: true,
        has_background: false,
        parent_update: ParentUpdate::Never,
        has_summaries: false,
        checkpoint_version: 3,
        checkpoint_blocks_min: 0,
        skips_open_block: false,
        skips_after_error: false,
        verifies_first_write: false,
        has_wide_headers: false,
        has_xattrs: false,
        holds_unlinked: true,
        attributes_after_resize: true,
        syncs_inodes: false,
        holds_space: true,
        caches_whole_chunks: false,
        drops_cache_at_close: false,
        refuses_long_targets: true,
        flushes_whole_object: true,
        refresh_period: 0,
        pointer_bytes: 4,
        object_bytes: 124,
    },
    Profile {
        name: "linux-2.6.35",
        summary: "Android kernels of 2010: as 2.6.29, with directories written at once",
        collector: CollectorKind::Foreground,
        has_page_cache: true,
        has_background: false,
        parent_update: ParentUpdate::Immediate,
        has_summaries: false,
        checkpoint_version: 3,
        checkpoint_blocks_min: 60,
        skips_open_block: false,
        skips_after_error: false,
        verifies_first_write: true,
        has_wide_headers: false,
        has_xattrs: false,
        holds_unlinked: true,
        attributes_after_resize: true,
        syncs_inodes: false,
        holds_space: true,
        caches_whole_chunks: false,
        drops_cache_at_close: false,
        refuses_long_targets: true,
        flushes_whole_object: true,
        refresh_period: 0,
        pointer_bytes: 4,
        object_bytes: 124,
    },
    Profile {
        name: "linux-6.1",
        summary: "the upstream module on Linux 6.1: summaries, background task, deferred directories",
        collector: CollectorKind::Scattered,
        has_page_cache: true,
        has_background: true,
        parent_update: ParentUpdate::Deferred,
        has_summaries: true,
        checkpoint_version: 8,
        checkpoint_blocks_min: 60,
        skips_open_block: true,
        skips_after_error: true,
        verifies_first_write: true,
        has_wide_headers: true,
        has_xattrs: true,
        holds_unlinked: true,
        attributes_after_resize: true,
        syncs_inodes: true,
        holds_space: true,
        caches_whole_chunks: true,
        drops_cache_at_close: false,
        refuses_long_targets: true,
        flushes_whole_object: false,
        refresh_period: 500,
        pointer_bytes: 8,
        object_bytes: 200,
    },
    Profile {
        name: "yaffs-direct",
        summary: "the upstream library outside of a kernel",
        collector: CollectorKind::Scattered,
        has_page_cache: false,
        has_background: false,
        parent_update: ParentUpdate::Immediate,
        has_summaries: true,
        checkpoint_version: 8,
        checkpoint_blocks_min: 60,
        skips_open_block: true,
        skips_after_error: true,
        verifies_first_write: true,
        has_wide_headers: true,
        has_xattrs: true,
        holds_unlinked: false,
        attributes_after_resize: false,
        syncs_inodes: false,
        holds_space: false,
        caches_whole_chunks: true,
        drops_cache_at_close: true,
        refuses_long_targets: false,
        flushes_whole_object: false,
        // As the module has it (`yaffs_internal_read_super`): the recorded library was set up so. The
        // countdown begins at zero (`refresh_skip`), so the first collection takes the oldest block.
        refresh_period: 500,
        pointer_bytes: 8,
        object_bytes: 200,
    },
];

/// The profile of a name.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

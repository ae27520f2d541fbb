//! Which kernel is modelled, and what a mount may choose.
//!
//! May use no other file of the crate.

/// What differs between kernels: one row a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// Bytes at the beginning of a block that are looked at before it is called empty
    /// (`EMPTY_SCAN_SIZE`).
    pub empty_scan_bytes: u32,
    /// Pause of the collector's thread before each pass, nanoseconds.
    pub collector_pause_ns: u64,
    /// A write past the end makes a hole up to its first byte; else only up to its page, and the rest
    /// of the gap is left to what the page held.
    pub hole_reaches_position: bool,
    /// What a mount does with the names of a directory.
    pub directory_names: DirectoryNames,
    /// Write-buffer and erases are seen to by a write of the superblock at this interval
    /// (`write_super`), nanoseconds; newer kernels flush by a delayed work of the same interval.
    pub write_back_interval_ns: u64,
    /// The periodic write of the superblock also starts erases that are pending.
    pub write_super_erases: bool,
    /// Buckets of the table of inodes: fixed, or by the size of the flash.
    pub inode_buckets: Option<u32>,
    /// Compressors that are built in and on by default, by name.
    pub compressors: &'static [&'static str],
    /// Erase block summaries are written and read.
    pub has_summary: bool,
}

/// What a mount makes of two names of one directory, as a rename that was cut leaves them
/// (`jffs2_build_inode_pass1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryNames {
    /// The first name that is found gives the parent. A dead directory that names it, too, takes it along.
    FirstIsParent,
    /// Names are counted first, and parents are set when the dead are gone: one living name is enough.
    Counted,
}

/// All profiles, oldest first.
///
/// Sources: `fs/jffs2` of Linux 2.6.32 and 6.1, Kconfig defaults of the former, the configuration
/// of Debian for the newer ones. The pause of the thread came after 2.6.29.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "linux-2.6.29",
        empty_scan_bytes: 1024,
        collector_pause_ns: 0,
        hole_reaches_position: false,
        directory_names: DirectoryNames::FirstIsParent,
        write_back_interval_ns: 5_000_000_000,
        write_super_erases: true,
        inode_buckets: Some(128),
        compressors: &["zlib", "rtime"],
        has_summary: false,
    },
    Profile {
        name: "linux-2.6.35",
        empty_scan_bytes: 1024,
        collector_pause_ns: 50_000_000,
        hole_reaches_position: false,
        directory_names: DirectoryNames::FirstIsParent,
        write_back_interval_ns: 5_000_000_000,
        write_super_erases: true,
        inode_buckets: Some(128),
        compressors: &["zlib", "rtime"],
        has_summary: false,
    },
    Profile {
        name: "linux-6.1",
        empty_scan_bytes: 256,
        collector_pause_ns: 50_000_000,
        hole_reaches_position: true,
        directory_names: DirectoryNames::Counted,
        write_back_interval_ns: 5_000_000_000,
        write_super_erases: false,
        inode_buckets: None,
        compressors: &["lzo", "zlib", "rtime"],
        has_summary: true,
    },
    Profile {
        name: "linux-6.12",
        empty_scan_bytes: 256,
        collector_pause_ns: 50_000_000,
        hole_reaches_position: true,
        directory_names: DirectoryNames::Counted,
        write_back_interval_ns: 5_000_000_000,
        write_super_erases: false,
        inode_buckets: None,
        compressors: &["lzo", "zlib", "rtime"],
        has_summary: true,
    },
];

/// The profile of a name.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Where a block says that it was erased completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanMarkers {
    /// In the free bytes of the spare area of its first page: NAND.
    Spare,
    /// As a node at its beginning: NOR, whose spare areas are not looked at. Read-only here.
    InBand,
}

/// Processor time of the work on bytes, picoseconds a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCosts {
    /// CRC-32 of nodes and data.
    pub crc_ps_per_byte: u64,
    /// Copy between the flash buffers and the page.
    pub copy_ps_per_byte: u64,
    /// Compression by zlib, of the bytes that go in.
    pub zlib_compress_ps_per_byte: u64,
    /// Decompression by zlib, of the bytes that come out.
    pub zlib_decompress_ps_per_byte: u64,
    /// Compression by LZO, of the bytes that go in.
    pub lzo_compress_ps_per_byte: u64,
    /// Decompression by LZO, of the bytes that come out.
    pub lzo_decompress_ps_per_byte: u64,
    /// Compression by rtime, of the bytes that go in.
    pub rtime_compress_ps_per_byte: u64,
    /// Decompression by rtime, of the bytes that come out.
    pub rtime_decompress_ps_per_byte: u64,
}

impl CpuCosts {
    pub(crate) fn compress_ps_per_byte(&self, id: u8) -> u64 {
        match id {
            6 => self.zlib_compress_ps_per_byte,
            7 => self.lzo_compress_ps_per_byte,
            _ => self.rtime_compress_ps_per_byte,
        }
    }

    pub(crate) fn decompress_ps_per_byte(&self, id: u8) -> u64 {
        match id {
            6 => self.zlib_decompress_ps_per_byte,
            7 => self.lzo_decompress_ps_per_byte,
            0 => self.copy_ps_per_byte,
            _ => self.rtime_decompress_ps_per_byte,
        }
    }
}

/// What a mount may choose.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The kernel that is modelled, a row of [`PROFILES`].
    pub profile: &'static Profile,
    /// Where the marks of clean blocks stand.
    pub clean_markers: CleanMarkers,
    /// Nothing is written to the medium, not even erases that are due.
    pub is_read_only: bool,
    /// Ids of the compressors that are tried; none for all of the profile.
    pub compressors: Option<Vec<u8>>,
    /// Erase block summaries are written and read; none for what the profile says.
    pub has_summary: Option<bool>,
    /// The collector's thread runs.
    pub has_thread: bool,
    /// The write-buffer is flushed at the profile's interval.
    pub has_write_back: bool,
    /// Processor time of checksums, copies and compression.
    pub costs: CpuCosts,
    /// Ticks a second (`CONFIG_HZ`).
    pub hz: u32,
    /// Seed of what the kernel's clock reads at the beginning: its low bits say which list the next
    /// victim comes from, and whether a block is erased at once.
    pub seed: u64,
}

impl MountOptions {
    /// A mount as the profile has it.
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            clean_markers: CleanMarkers::Spare,
            is_read_only: false,
            compressors: None,
            has_summary: None,
            has_thread: true,
            has_write_back: true,
            costs: CpuCosts::default(),
            hz: 250,
            seed: 0,
        }
    }
}

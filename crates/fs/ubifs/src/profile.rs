//! Which kernel is modelled, and what a mount may choose. Uses compressors only.

use crate::compress::Compressor;

/// What differs between kernels: one row a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// Newest format that is read (`UBIFS_FORMAT_VERSION`).
    pub newest_format: u32,
    /// Format of file systems that are made on empty volumes. Newer kernels make format 5 with the
    /// flag of double hashes; here nothing but format 4 is ever made, which all of them read.
    pub made_format: u32,
    /// Compressor of file systems that are made on empty volumes.
    pub compressor: Compressor,
    /// Age at which write-buffers are written, nanoseconds.
    pub write_buffer_interval_ns: u64,
    /// Write-buffers take as much as is written at a stroke (`max_write_size`), not a unit only.
    pub has_wide_buffers: bool,
    /// A mount reads the root of the index once more, to check later commits against it
    /// (`dbg_old_index_check_init`, a debugging option in older kernels).
    pub reads_root_twice: bool,
    /// An inode that goes takes its extended attributes with it in one group of nodes
    /// (`ubifs_jnl_write_inode` with `kill_xattrs`); older kernels leave them to the index.
    pub deletes_attributes_by_node: bool,
}

/// All profiles, oldest first.
///
/// Sources: `fs/ubifs` of Linux 2.6.32 and 6.1, configuration of Debian.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "linux-2.6.29",
        newest_format: 4,
        made_format: 4,
        compressor: Compressor::Lzo,
        write_buffer_interval_ns: 5_000_000_000,
        has_wide_buffers: false,
        reads_root_twice: false,
        deletes_attributes_by_node: false,
    },
    Profile {
        name: "linux-2.6.35",
        newest_format: 4,
        made_format: 4,
        compressor: Compressor::Lzo,
        write_buffer_interval_ns: 3_000_000_000,
        has_wide_buffers: false,
        reads_root_twice: false,
        deletes_attributes_by_node: false,
    },
    Profile {
        name: "linux-6.1",
        newest_format: 5,
        made_format: 4,
        compressor: Compressor::Zstd,
        write_buffer_interval_ns: 5_000_000_000,
        has_wide_buffers: true,
        reads_root_twice: true,
        deletes_attributes_by_node: true,
    },
    Profile {
        name: "linux-6.12",
        newest_format: 5,
        made_format: 4,
        compressor: Compressor::Zstd,
        write_buffer_interval_ns: 5_000_000_000,
        has_wide_buffers: true,
        reads_root_twice: true,
        deletes_attributes_by_node: true,
    },
];

/// The profile of a name.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Processor time of the work on bytes, picoseconds a byte, and on the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCosts {
    /// CRC-32 of nodes read and written.
    pub crc_ps_per_byte: u64,
    /// Copy of data that is not compressed.
    pub copy_ps_per_byte: u64,
    /// Compression by LZO, of the bytes that go in.
    pub lzo_compress_ps_per_byte: u64,
    /// Decompression by LZO, of the bytes that come out.
    pub lzo_decompress_ps_per_byte: u64,
    /// Compression by zlib, of the bytes that go in.
    pub zlib_compress_ps_per_byte: u64,
    /// Decompression by zlib, of the bytes that come out.
    pub zlib_decompress_ps_per_byte: u64,
    /// Compression by zstd, of the bytes that go in.
    pub zstd_compress_ps_per_byte: u64,
    /// Decompression by zstd, of the bytes that come out.
    pub zstd_decompress_ps_per_byte: u64,
    /// One node of the index passed on the way down, nanoseconds.
    pub znode_ns: u64,
}

impl CpuCosts {
    pub(crate) fn compress_ps_per_byte(&self, compressor: Compressor) -> u64 {
        match compressor {
            Compressor::None => self.copy_ps_per_byte,
            Compressor::Lzo => self.lzo_compress_ps_per_byte,
            Compressor::Zlib => self.zlib_compress_ps_per_byte,
            Compressor::Zstd => self.zstd_compress_ps_per_byte,
        }
    }

    pub(crate) fn decompress_ps_per_byte(&self, compressor: Compressor) -> u64 {
        match compressor {
            Compressor::None => self.copy_ps_per_byte,
            Compressor::Lzo => self.lzo_decompress_ps_per_byte,
            Compressor::Zlib => self.zlib_decompress_ps_per_byte,
            Compressor::Zstd => self.zstd_decompress_ps_per_byte,
        }
    }
}

/// What a mount may choose.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct MountOptions {
    /// The kernel that is modelled, a row of [`PROFILES`].
    pub profile: &'static Profile,
    /// Nothing is written, not even what a power cut left to mend.
    pub is_read_only: bool,
    /// Compressor of what is written; none for the superblock's (`compr=`).
    pub compressor: Option<Compressor>,
    /// Every write reaches the medium before it returns (`-o sync`).
    pub is_synchronous: bool,
    /// Files that are read in order are read several pages at once (`bulk_read`; off by default).
    pub has_bulk_read: bool,
    /// The thread that commits in the background runs.
    pub has_thread: bool,
    /// Age at which write-buffers are written, nanoseconds; none: they wait to be asked.
    pub write_buffer_interval_ns: Option<u64>,
    /// Processor time of checksums, compression and index look-ups.
    pub costs: CpuCosts,
    /// Time of the root directory of a file system that is made, seconds since 1970.
    pub made_at: i64,
    /// Identity of a file system that is made.
    pub uuid: [u8; 16],
    /// Sizes of a file system that is made.
    pub new: NewFileSystem,
}

/// Sizes of a file system that is made on an empty volume; none: as the kernel chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewFileSystem {
    /// Eraseblocks that it may grow to (`mkfs.ubifs -c`).
    pub max_leb_count: Option<u32>,
    /// Bytes of the journal (`-j`).
    pub journal_bytes: Option<u64>,
    /// Bytes kept for the superuser (`-R`).
    pub reserved_bytes: Option<u64>,
}

impl MountOptions {
    /// A mount as the profile has it.
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            is_read_only: false,
            compressor: None,
            is_synchronous: false,
            has_bulk_read: false,
            has_thread: true,
            write_buffer_interval_ns: Some(profile.write_buffer_interval_ns),
            costs: CpuCosts::default(),
            made_at: 0,
            uuid: [0; 16],
            new: NewFileSystem::default(),
        }
    }
}

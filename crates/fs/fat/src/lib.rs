//! FAT12, FAT16 and FAT32 with long names: the real format, mounted and written in simulated time.
//!
//! [`Fat::mount`] takes a block device and offers the calls of [`fs_api::FileSystem`], as Linux's vfat
//! behaves. Metadata (sectors of the tables, of directories, FSInfo) is changed in buffers of the device and
//! written by a flusher, by `fsync` and by `sync`; data goes through the page cache of the layer above.
//! [`format()`] makes an empty volume as mkfs.vfat does, [`check()`] looks at all of one as fsck.vfat does.
//!
//! **What a power cut leaves.** FAT has no journal, and the kernel orders no metadata against other:
//!
//! - What `sync` wrote and no call changed since is there, byte by byte; the device's cache must have
//!   been flushed too, which only `fsync` asks for, and that in Linux 6.x, not in 2.6.
//! - `fsync` of a file writes its data, the sector of its short entry, then both tables. The file is found
//!   if its directory was on the medium before: `fsync` writes neither the slots of a long name in
//!   another sector nor the directories above a file, so a *new* file may be missing or have its short
//!   name only. Linux 2.6.29 wrote all dirty sectors of the device then.
//! - A cut in between leaves lost clusters, tables that differ, names with no clusters, files whose
//!   size and chain do not fit, and a file in no directory after a rename. Two files with the same clusters
//!   (cross-links) happen too: the table that frees a chain and the directory that still names it are not
//!   ordered, so freed clusters may already be another's when the old name comes back.
//!   `tests/all/power_cuts.rs` cuts some hundred calls at every sector: of 451 cuts on FAT12, 212 left nothing
//!   wrong, 226 lost clusters, 80 files shorter than their size, 76 chains that lead nowhere, 25 tables
//!   that differ, 2 cross-links; FAT16 and FAT32 are alike.
//! - A mount reads such a volume as it is; from Linux 3.10 on the boot sector says that it was not
//!   unmounted.
//!
//! The copies and deletions of a captured trace of Linux 6.12 write the same sectors of files and of
//! metadata here, operation by operation (`tests/all/captured_trace.rs`).
//!
//! Source of the behaviour: `fs/fat` of Linux 2.6.29 to 6.12. The format's crates are synchronous and
//! free clusters as soon as a name goes; what is modelled is when which sector is written, so the format
//! is read and written here. Left out: sectors of more than 512 bytes, code pages (short names are
//! ASCII), `dirsync` and `flush`, preallocation.
//!
//! Files form no circles: the header of each says which others it may use. Methods of
//! the engine, which several files implement, may call each other.

mod boot;
mod buffers;
mod check;
mod data;
mod directory;
mod engine;
mod file_system;
mod finding;
mod format;
mod inode;
mod inodes;
mod invariants;
mod join;
mod memory;
mod mount;
mod names;
mod operations;
mod profile;
mod table;
mod times;
mod write_back;
mod zeros;

pub use boot::{FatType, MountError, SECTOR_BYTES, Volume};
pub use check::{Check, check};
pub use file_system::Fat;
pub use finding::Code as FindingCode;
pub use format::{FormatError, FormatOptions, format};
pub use profile::{CpuCosts, FsyncScope, MountOptions, PROFILES, Profile, find_profile};

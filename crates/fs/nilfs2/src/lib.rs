//! NILFS2: the real on-media format, mounted, written, cleaned and recovered in simulated time.
//!
//! [`Nilfs2::mount`] finds the newest checkpoint of a block device and offers the calls of
//! [`fs_api::FileSystem`]. Everything is written as logs one behind the other: changed data, the B-trees
//! that lead to it, the files of inodes, checkpoints, segment usages and disk addresses, and last a
//! super root from which all of it is found. Data waits in memory for the constructor, which a timer, a
//! watermark, `fsync` and `sync` start. [`format`] makes an empty file system, [`Nilfs2::start_cleaner`] starts
//! the daemon that makes segments clean again, [`Nilfs2::check`] recomputes what the medium counts.
//!
//! The device is a [`block_medium::BlockMedium`] of blocks of 4 KiB. Source of the behaviour: `fs/nilfs2` of
//! Linux 2.6.32, 6.1 and 6.12, and the cleaner of nilfs-utils 2.2. Left out: blocks of
//! other sizes than 4 KiB, resizing, extended attributes (the kernel has none either).
//!
//! Files form no circles: the header of each says which others it may use. Methods of
//! the engine, which several files implement, may call each other.

mod ahead;
mod bytes;
mod check;
mod cleaner;
mod cleaner_daemon;
mod cleaner_settings;
mod cleaner_switch;
mod complete;
mod constructor;
mod constructor_thread;
mod cpfile;
mod dat;
mod directory;
mod engine;
mod file;
mod file_system;
mod finding;
mod format;
mod inode;
mod invariants;
mod log;
mod map;
mod mapping;
mod memory;
mod mount;
mod mount_error;
mod node;
mod operations;
mod palloc;
mod profile;
mod propagate;
mod read;
mod readings;
pub mod records;
mod recovery;
mod segment_writer;
mod sufile;
pub mod summary;
mod superblock;
mod supers;
mod tree;
mod tree_change;

pub use cleaner::Cleaned;
pub use cleaner_settings::CleanerSettings;
pub use file_system::Nilfs2;
pub use finding::Code as FindingCode;
pub use format::{FormatError, FormatOptions, format};
pub use mount_error::{MountError, RolledBack};
pub use profile::{CpuCosts, MountOptions, PROFILES, Profile, find_profile};
pub use superblock::{
    NO_SUPERBLOCK, STATE_ERROR, STATE_VALID, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock,
};

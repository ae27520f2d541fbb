//! JFFS2: the real on-media format, mounted, written, cleaned and recovered in simulated time.
//!
//! [`Jffs2::mount`] scans a raw NAND device and offers the calls of [`fs_api::FileSystem`]. The engine
//! works on the bytes that the kernel's file system writes, in its order: nodes are gathered in a
//! write-buffer of a page, garbage is collected node by node in the foreground and by a background
//! task, and a power cut loses what was not flushed. One table, [`PROFILES`], says how kernels differ.
//!
//! Source of the behaviour: `fs/jffs2` of Linux 2.6.32 and 6.1. Left out: NOR, but
//! for reading, Rubin compression, POSIX ACLs beyond their attributes, quotas of
//! the reserved pool.
//!
//! Files form no circles: the header of each says which others it may use. Methods of
//! the engine, which several files implement, may call each other.

mod attributes;
mod build;
mod clock;
pub mod compress;
mod engine;
mod erase;
mod file_system;
mod finding;
mod flash;
mod fragments;
mod gc;
mod gc_xattr;
mod inode;
mod invariants;
mod marks;
mod memory;
mod mount;
mod mount_error;
pub mod nodes;
mod operations;
mod profile;
mod read;
mod read_inode;
mod scan;
mod space;
mod state;
mod statistics;
mod structures;
mod summary;
mod summary_blocks;
mod thread;
mod write;
mod write_buffer;
mod xattr;

pub use finding::Code as FindingCode;
pub use flash::{Flash, clean_block};
pub use mount::{Jffs2, Space};
pub use mount_error::MountError;
pub use profile::{CleanMarkers, CpuCosts, MountOptions, PROFILES, Profile, find_profile};
pub use statistics::Statistics;
pub use summary::{SummaryEntry, parse_summary, summary_offset};

//! YAFFS2: a log of chunks on raw NAND, all of whose structure is in memory.
//!
//! Every page is a chunk: data of a file, or the header of an object. Tags in the spare area say
//! which, so that the file system is found again by reading tags; a checkpoint, written when nothing
//! changes, saves that. The sequence number of the block, then the page, decide what is newer. One
//! lock guards all of it.
//!
//! The real format is read and written; mounting, recovery and collecting cost simulated time through
//! [`mtd::Mtd`]. Four generations of the code differ by a row of [`PROFILES`].
//!
//! Left out: YAFFS1, big-endian media, Unicode names, soft deletion (the generations with checkpoints
//! cut files off before they delete them).
//!
//! Files form no circles: the header of each says which others it may use. Methods of
//! the device, which several files implement, may call each other.

#![expect(
    clippy::cast_possible_wrap,
    reason = "counts of chunks and blocks are below 2^31 by the check of the geometry, and signed as in the real structures"
)]

mod allocate;
mod attributes;
mod background;
mod blocks;
mod cache;
mod checkpoint;
mod checkpoint_image;
mod collector;
mod device;
mod file;
mod file_system;
mod format;
mod gc;
mod header;
mod inspect;
mod invariants;
mod memory;
mod mount;
mod names;
mod objects;
mod options;
mod profile;
mod scan;
mod statistics;
mod summary;
mod tags;
mod tnodes;
mod update;
mod xattr;

pub use blocks::{BlockInfo, BlockState};
pub use file_system::Yaffs2;
pub use format::ObjectKind;
pub use header::{HEADER_BYTES, Header, HeaderForm};
pub use options::{CpuCosts, KeptState, MountOptions, TagsPlace};
pub use profile::{CollectorKind, PROFILES, ParentUpdate, Profile, find_profile};
pub use statistics::{Finding, FindingCode, Statistics};
pub use tags::{EccResult, ExtraInfo, TAGS_BYTES, TAGS_ECC_BYTES, Tags};

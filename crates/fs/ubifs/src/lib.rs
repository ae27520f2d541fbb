//! UBIFS: the real on-media format, mounted, written, committed, cleaned and recovered in simulated time.
//!
//! [`Ubifs::mount`] takes a volume and offers the calls of [`fs_api::FileSystem`]. The engine works on the
//! bytes that the kernel's file system writes, in its order: operations go to the journal by way of
//! write-buffers, the index is kept in memory and written by commits, space is budgeted before anything
//! becomes dirty, garbage is collected eraseblock by eraseblock, and a mount after a power cut replays the
//! journal and mends what the cut tore. One table, [`PROFILES`], says how kernels differ.
//!
//! Source of the behaviour: `fs/ubifs` of Linux 2.6.32 and 6.1. Left out: authentication, encryption,
//! white-outs, and making file systems of format 5 (which are read and written where they are
//! found).
//!
//! Files stand in layers, and each uses those below it only: calls of a mount (`file_system`, `check`,
//! `info`) over the mount; the mount over the parts of the engine (`impl Engine`); those over the engine; the
//! engine over states (`tnc`, `lpt`, `journal`, …); states over formats (`nodes`, `keys`, `layout`, …). The header
//! of each file names its layer.

mod budget;
mod bulk_read;
mod check;
mod check_states;
mod commit;
mod commit_state;
mod compress;
mod engine;
mod error;
mod file_system;
mod files;
mod find;
mod finding;
mod format;
mod gc;
mod heads;
mod info;
mod inode;
mod inode_table;
mod journal;
mod keys;
mod layout;
mod leb_bytes;
mod log;
mod lookup;
mod lprops;
mod lpt;
mod lpt_commit;
mod lpt_format;
mod lpt_load;
mod lpt_shape;
mod master;
mod master_area;
mod memory;
mod memory_volume;
mod mount;
mod names;
mod nodes;
mod orphan_area;
mod orphans;
mod position;
mod profile;
mod records;
mod recovery;
mod replay;
mod reservation;
mod scan;
mod shrink;
mod space;
mod statistics;
mod superblock;
mod tnc;
mod tnc_commit;
mod tnc_edit;
mod tnc_names;
mod tnc_walk;
mod volume;
mod volume_shape;
mod write_buffer;
mod xattr;

pub use compress::Compressor;
pub use error::MountError;
pub use finding::Code as FindingCode;
pub use info::{Info, SuperblockInfo, ask_for_space_fixup, is_whole_node, read_superblock};
pub use memory_volume::{MemoryVolume, TornWrite, VolumeCounters};
pub use mount::Ubifs;
pub use nodes::MAX_NODE_BYTES;
pub use profile::{CpuCosts, MountOptions, NewFileSystem, PROFILES, Profile, find_profile};
pub use statistics::Statistics;
pub use volume::Volume;
pub use volume_shape::VolumeShape;

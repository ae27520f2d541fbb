//! UBI: logical erase blocks over raw NAND, in the real on-media format, in simulated time.
//!
//! [`Ubi::attach`] scans a device; its volumes are arrays of logical blocks that are written page
//! by page, changed atomically and unmapped. Underneath, blocks wear evenly, data moves away from
//! bits that flip, and blocks that fail are replaced. One table, [`PROFILES`], says how kernels
//! differ. A power cut at any operation leaves what [`Volume`] promises.
//!
//! Source of the behaviour: `drivers/mtd/ubi` of Linux 2.6.32 and 6.1. Left out: fastmap (such
//! images are attached by scanning), volumes as block devices, `gluebi`.

mod attach;
mod check_states;
mod device;
mod eba;
mod error;
mod finding;
mod format;
mod free_tree;
pub mod headers;
mod info;
mod io;
mod layout;
mod leb_locks;
mod memory;
mod moves;
mod numbers;
mod profile;
mod scan;
mod statistics;
mod ubinize;
mod ubinize_config;
mod volume;
mod volume_state;
pub mod volume_table;
mod volumes;
mod wear;
mod wear_state;

pub use device::Ubi;
pub use error::{AttachError, UbiError};
pub use finding::Code as FindingCode;
pub use format::FormatOptions;
pub use headers::VolumeKind;
pub use info::{Info, VolumeInfo};
pub use layout::{Layout, find_header_offset};
pub use mtd::{ReadStatus, first_written, is_blank, written_bytes};
pub use numbers::{LebAddress, LebNumber, PebNumber, VolumeNumber};
pub use profile::{AttachOptions, BadBlockReserve, CpuCosts, PROFILES, Profile, find_profile};
pub use statistics::Statistics;
pub use ubinize::{ImageOptions, VolumeImage, ubinize};
pub use ubinize_config::{ConfigError, VolumeSection, parse_config};
pub use volume::Volume;
pub use volumes::{VolumeOptions, VolumeSize};
pub use wear_state::DataType;

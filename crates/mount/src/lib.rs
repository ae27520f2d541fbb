//! The file systems over raw NAND by name, mounted over a chip and its driver.
//!
//! [`KINDS`] has a row for each file system: its profiles and how it is mounted. A [`Machine`] is the host
//! around a mount: virtual time, processors, the driver and the chip. [`run`] carries out a job on one,
//! in simulated time or, for tools, in none. [`Mounted`] is a file system of any kind with the layer
//! above it.

mod any;
mod block_device;
mod block_path;
mod fat;
mod jffs2;
mod jffs2_block2mtd;
mod kind;
mod machine;
mod nilfs2;
mod ubifs;
mod yaffs2;

pub use any::AnyFileSystem;
pub use block_device::{BlockDeviceChoice, MTDBLOCK};
pub use block_path::{BlockPath, BlockRequest};
pub use fat::FatMount;
pub use jffs2::Jffs2Mount;
pub use jffs2_block2mtd::OverBlock;
pub use kind::{KINDS, KernelProfile, Kind, MountError, MountRequest, UbiRequest, find_kind};
pub use machine::{Driver, Machine, Mounted, Outcome, run};
pub use nilfs2::Nilfs2Mount;
pub use ubifs::UbifsMount;

//! The contract of a mount: what a file system gives to the layer above it, to tools and to studies, and the
//! machine that it is mounted on.
//!
//! No file system is known here. [`Kind`] is a row of the table in `file_systems`, and
//! [`MountedFileSystem`] what its `mount` function leaves behind. A [`Machine`] is the host around a mount:
//! virtual time, processors, the driver and the chip. [`run`] carries out a job on one, in simulated time or,
//! for tools, in none. [`Mounted`] is a file system of any kind with the layer above it.

mod block_device;
mod block_path;
mod card;
pub mod guarantee;
mod images;
mod kind;
mod machine;
mod mounted;
mod ubi_device;

pub use block_device::{BlockDeviceChoice, MTDBLOCK};
pub use block_path::{BlockPath, BlockRequest};
pub use card::{CardContents, CardOperation, CardSlot};
pub use fs_api::{Finding, Place, Severity};
pub use guarantee::{Durable, ExpectedFinding, Guarantee, Hazard, Order};
pub use images::{ImageForm, ImageMedium, ImageSupport};
pub use kind::{
    KernelMount, KernelProfile, KernelSource, Kind, MountError, MountRequest, NEWEST_KERNEL,
    UbiRequest, Version, unknown_option,
};
pub use machine::{
    BlockWatcher, Driver, JOB, Machine, Mounted, Outcome, Watcher, run, run_watched,
};
pub use mounted::{Call, Counter, MountedFileSystem, Mounting, SharedMount, StillData};

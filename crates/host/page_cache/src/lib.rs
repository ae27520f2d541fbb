//! What file systems share between the calls of an application and the block layer.
//!
//! A [`BlockFile`] is a block device opened as a file. A [`PageCache`] holds pages of files; a
//! [`Mapping`] is one file in it, and a [`Backing`] what a file system supplies to read and write
//! its pages. Each device has a flusher that writes old pages, and any when too many are dirty;
//! writers are held to its pace. What is modelled is Linux 2.6.29 to 3.8; the board says which.
//!
//! Processor time of a call is paid at the latest before something else can notice, so that a call
//! on cached pages costs the simulation one event.

mod audit;
mod backing;
mod bandwidth;
mod block_file;
mod block_layer;
mod cache_device;
mod direct;
mod error;
mod flusher;
mod frames;
mod limits;
mod mapping;
mod page_cache;
mod page_tree;
mod read_ahead;
mod throttle;
mod transfer;
mod waits;
mod write;

pub use ::process::Process;
pub use backing::{Backing, Pending, Purpose, Task};
pub use block_file::BlockFile;
pub use block_layer::{check_kernel, queue_options};
pub use error::FileError;
pub use mapping::Mapping;
pub use page_cache::{CacheOptions, CacheStatistics, PageCache};
pub use read_ahead::{ReadAhead, Window};
pub use transfer::{Mode, Transfer};
pub use write::WriteHooks;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = units::PAGE_BYTES_U64;

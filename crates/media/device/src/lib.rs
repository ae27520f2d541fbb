//! Block devices as a host sees them: an eMMC card, an SSD, a rotating disk.
//!
//! A device is a pure state machine over virtual time. [`BlockDevice::submit`] takes the time and
//! a command and answers when it will be done; nothing calls back, nothing waits, nothing draws
//! random numbers. A flash device is a translation layer behind dies, channels, a host interface
//! and perhaps a write cache; each of them is a timeline.
//!
//! A flash device counts unless it is asked to store bytes ([`StoredDevice`]): it then reads back what was
//! written, and its supply can fail at any moment of simulated time.
//!
//! What is left out: power states, link training.

mod activity;
mod admission;
mod arbitration;
mod build;
mod cache;
mod capacity;
mod command;
mod constant;
mod contract;
mod cut_watch;
mod die;
mod disk;
mod disk_spec;
mod divisor;
mod flash;
mod host_queues;
mod host_spec;
mod medium;
mod page_file;
mod places;
mod precondition;
mod queued;
mod read_retry;
mod rules;
mod saved;
mod slc;
mod spec;
mod stored;
mod table;
mod timeline;

pub use activity::{Activity, ActivityKind, CacheEvent, ChannelUse, DeviceActivity};
pub use admission::{Admission, AdmissionEntry, AdmissionView, BuildAdmission, OWN_ADMISSIONS};
pub use build::build;
pub use command::{
    Command, Completion, DeviceError, DeviceFlash, DeviceStatistics, Operation, SECTOR_BYTES,
};
pub use constant::ConstantDevice;
pub use contract::BlockDevice;
pub use die::{BkopsLevel, SuspendSpec};
pub use disk::DiskDevice;
pub use disk_spec::{DiskSpec, SeekSpec};
pub use flash::FlashDevice;
pub use host_queues::{Arbitration, Coalescing, HostQueues, Weights};
pub use host_spec::{ArbitrationSpec, HostSpec};
pub use medium::TornOperation;
pub use precondition::{DEVICE_WRITES_MAX, Fill, Precondition, Preconditioning, Steadiness};
pub use queued::{Fetched, QueuedDevice};
pub use read_retry::ReadRetrySpec;
pub use saved::{LoadError, SavedChip, SavedContent, SavedDie, SavedPage, SavedPart, SavedVersion};
pub use slc::{SlcSpec, SlcStatistics, WhenFull};
pub use spec::{CacheSpec, Cleaning, DeviceSpec, FlashSpec, Published, SpecError, Suspend};
pub use stored::{CutOperation, Outage, Recovery, StoredDevice};
pub use table::{devices, find_device, find_or_load};

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Checks that a call panics, with a message that contains `message`.
    pub(crate) fn panics_with(message: &str, call: impl FnOnce()) {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err(message);
        let text = panic.downcast_ref::<String>().map_or_else(
            || panic.downcast_ref::<&str>().copied().unwrap_or_default(),
            String::as_str,
        );
        assert!(text.contains(message), "{text:?} is not {message:?}");
    }
}

//! Admission to the write cache: which writes go through it, and which past it.
//!
//! Built in is `all`: every write that may wait goes through the cache. A policy of the user's own answers for
//! each such write. A write that it refuses is done as a write with force unit access is: on the medium, with
//! what waits in the cache of the same pages.

use ftl::OwnRows;

/// Name of the policy that admits every write.
pub(crate) const ALL: &str = "all";

/// Admission policies of the user's own.
pub static OWN_ADMISSIONS: OwnRows<AdmissionEntry> = OwnRows::new();

/// What a policy may look at: a write, and the cache as it is then.
// Numbers only, no reference into the device: a policy in Python gets a copy, and can change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionView {
    /// When the command is taken up, nanoseconds.
    pub now_ns: u64,
    /// First sector of the write, of 512 bytes.
    pub sector: u64,
    /// Sectors of the write.
    pub sectors: u32,
    /// Those of them that wait in the cache: they take no more room.
    pub waiting_sectors: u32,
    /// Sectors that take room in the cache.
    pub used_sectors: u32,
    /// Sectors that have room in it.
    pub capacity_sectors: u32,
}

/// A rule that says which writes go through the cache.
// `Sync` as well: devices are shared between threads that copy them.
pub trait Admission: Send + Sync {
    /// True if the write goes through the cache.
    fn admits(&mut self, view: &AdmissionView) -> bool;

    /// A copy with its state.
    fn clone_box(&self) -> Box<dyn Admission>;
}

/// Makes a policy; the number is the seed of what it draws.
pub type BuildAdmission = &'static (dyn Fn(u64) -> Box<dyn Admission> + Sync);

/// A row of the table of policies.
pub struct AdmissionEntry {
    /// Name, as in `cache.admission`.
    pub name: &'static str,
    /// Makes it.
    pub build: BuildAdmission,
}

/// True of a name that `cache.admission` takes.
pub(crate) fn is_known(name: &str) -> bool {
    name == ALL || OWN_ADMISSIONS.find(name).is_some()
}

/// The policy of a device, which is copied with it.
pub(crate) struct Gate(Box<dyn Admission>);

impl Gate {
    /// The policy of that name, if it is one of the user's own.
    pub(crate) fn of(name: Option<&str>, seed: u64) -> Option<Self> {
        // None for `all` as well: the device then asks nobody for each write.
        OWN_ADMISSIONS.find(name?).map(|entry| Self((entry.build)(seed)))
    }

    pub(crate) fn admits(&mut self, view: &AdmissionView) -> bool {
        self.0.admits(view)
    }
}

impl Clone for Gate {
    fn clone(&self) -> Self {
        Self(self.0.clone_box())
    }
}

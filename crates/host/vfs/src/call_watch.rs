//! The time that calls of applications take, for a watcher that asks for it.

use crate::Vfs;
use fs_api::FileSystem;
use sim::Sim;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// `pread` of an open file.
    Read,
    /// `pwrite`, and `write` to the end.
    Write,
    /// `fsync`, `fdatasync` and `sync`.
    Sync,
    /// All that open, close, name and change files.
    Other,
}

/// A call that has returned, with an error or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Kind of the call.
    pub kind: CallKind,
    /// Bytes that it was asked to write, or that it read.
    pub bytes: u64,
    /// Simulated time from its begin to its return.
    pub duration_ns: u64,
}

/// A function that is called at the end of every call.
pub type Watcher = Rc<dyn Fn(Call)>;

/// The watcher of the calls of a mount, if there is one.
pub(crate) struct CallWatch {
    sim: Sim,
    watcher: RefCell<Option<Watcher>>,
}

impl CallWatch {
    pub(crate) fn new(sim: &Sim) -> Self {
        Self { sim: sim.clone(), watcher: RefCell::default() }
    }

    /// A call begins; it ends when what is returned goes.
    pub(crate) fn begin(&self, kind: CallKind) -> TimedCall {
        let told = self.watcher.borrow().clone();
        let watched = told.map(|watcher| (self.sim.clone(), watcher, self.sim.now()));
        TimedCall { watched, kind, bytes: Cell::new(0) }
    }
}

/// A call under way.
pub(crate) struct TimedCall {
    watched: Option<(Sim, Watcher, u64)>,
    kind: CallKind,
    bytes: Cell<u64>,
}

impl TimedCall {
    /// It moves so many bytes.
    pub(crate) fn moves(&self, bytes: usize) {
        self.bytes.set(bytes as u64);
    }
}

impl Drop for TimedCall {
    // At the drop, so that a call that ends with an error, or is cut, is counted as well.
    fn drop(&mut self) {
        if let Some((sim, watcher, start_ns)) = &self.watched {
            let duration_ns = sim.now() - start_ns;
            watcher(Call { kind: self.kind, bytes: self.bytes.get(), duration_ns });
        }
    }
}

impl<F: FileSystem + 'static> Vfs<F> {
    /// From now on `watcher` is called for every call that returns; none ends that.
    pub fn watch_calls(&self, watcher: Option<Watcher>) {
        self.watch.watcher.replace(watcher);
    }
}

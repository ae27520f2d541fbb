//! Devices that a thread of a driver serves: how long a command takes is known when it is done.

use device::{Command, DeviceError};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

// Shared, because the caller keeps its half while the driver's thread fills or reads the other.
/// The bytes that a bio moves: those to be written, or room for those that are read.
pub type Bytes = Rc<RefCell<Vec<u8>>>;

/// A part of a request: one bio.
#[derive(Clone, Debug)]
pub struct Part {
    /// First sector of the bio.
    pub sector: u64,
    /// Sectors of the bio.
    pub sectors: u32,
    /// Its bytes, if any were handed in with it.
    pub bytes: Option<Bytes>,
}

/// A command being carried out.
pub type Serving<'a> = Pin<Box<dyn Future<Output = Result<(), DeviceError>> + 'a>>;

/// A device under a driver that carries out one command after the other in a thread of its own, as
/// `mtd_blkdevs` does: it takes simulated time itself, and moves bytes.
pub trait ServedDevice {
    /// Sectors that the device offers.
    fn sectors(&self) -> u64;

    /// Carries a command out. The parts of a request stand in the order of their sectors; a flush has
    /// none.
    fn serve(&self, command: Command, parts: Vec<Part>) -> Serving<'_>;
}

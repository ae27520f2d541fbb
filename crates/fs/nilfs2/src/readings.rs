//! Blocks that are on their way from the device, for those who wait for them.
//!
//! May use no other file of the crate.

use block_medium::MediumError;
use sim::{Completion, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A block that is on its way (a locked `struct buffer_head`).
pub(crate) struct Reading {
    pub(crate) bytes: RefCell<Option<Result<Vec<u8>, MediumError>>>,
    pub(crate) done: Completion,
}

/// Blocks that were read ahead and not asked for yet, by key.
pub(crate) type Readings = RefCell<BTreeMap<u64, Rc<Reading>>>;

impl Reading {
    pub(crate) fn new(sim: &Sim) -> Rc<Self> {
        Rc::new(Self { bytes: RefCell::default(), done: Completion::new(sim) })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.is_done()
    }

    /// The bytes, once they are there; none if another who waited for them has taken them.
    pub(crate) async fn take(&self) -> Option<Result<Vec<u8>, MediumError>> {
        self.done.wait().await;
        self.bytes.take()
    }
}

/// Waits for a block that was read ahead and gives its bytes; none if it was not read ahead, the
/// read failed, or another task took the bytes meanwhile.
pub(crate) async fn arrived(ahead: &Readings, key: u64) -> Option<Vec<u8>> {
    let reading = ahead.borrow().get(&key).cloned()?;
    let taken = reading.take().await;
    // Removed after the wait: until then others must find it and wait, too.
    ahead.borrow_mut().remove(&key);
    taken?.ok()
}

//! Memory for the bytes of whole eraseblocks, used again and again.
//!
//! A mount reads some ten eraseblocks as a whole, and a check of the file system all that are in use. Memory
//! of this size goes back to the system when it is freed and comes back as pages of zeros: with a `Vec` for
//! each read, a tenth of the time of a power cut went there. Uses nothing of the crate.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Pieces of memory that are kept: more than are in use at once.
const KEPT_MAX: usize = 4;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes of an eraseblock, whose memory is kept for the next one.
#[derive(Debug)]
pub(crate) struct LebBytes(Vec<u8>);

impl LebBytes {
    /// As many bytes, with anything in them: the caller writes all of them.
    pub(crate) fn of_size(bytes: usize) -> Self {
        let mut kept = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
        kept.resize(bytes, 0);
        Self(kept)
    }
}

impl Drop for LebBytes {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        // At the end of a thread there is nothing to keep it in.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(bytes);
            }
        });
    }
}

impl Deref for LebBytes {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for LebBytes {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

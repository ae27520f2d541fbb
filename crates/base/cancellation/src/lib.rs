//! The request to stop all work of this process, and the way out of it.
//!
//! A user who presses Ctrl-C wants the work to end, wherever it is: in a simulation, in the scan of an
//! image, in a trace of gigabytes. The flag is one for the process. Loops that may run for long call
//! [`check`] once per batch, per task that is polled, or per page that is copied: a load without an
//! order, which costs nothing beside the work of a batch.
//!
//! **The way out.** [`check`] leaves by unwinding with an [`Interrupted`], and [`catch`] turns that into
//! an `Err` at the boundary of the engine. So no signature between the two knows of it, and whatever
//! lies on the stack is dropped: unfinished files are removed by their guards. The unwinding calls no
//! panic hook, and so prints nothing.
//!
//! **Determinism.** The flag ends a run and changes none: what was not interrupted has the same results
//! as without it, and a run that was interrupted has no results.

use std::any::Any;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Nothing is read or written by the order of the flag: a late look stops one batch later.
static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

/// The work was stopped before its end because that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Asks all work of this process to stop.
pub fn request() {
    IS_REQUESTED.store(true, Ordering::Relaxed);
}

/// Takes the request back: new work goes on to its end.
pub fn withdraw() {
    IS_REQUESTED.store(false, Ordering::Relaxed);
}

/// Whether all work shall stop.
#[inline]
pub fn is_requested() -> bool {
    IS_REQUESTED.load(Ordering::Relaxed)
}

/// Leaves the work if that was asked for: unwinds to the next [`catch`].
#[inline]
pub fn check() {
    if is_requested() {
        leave();
    }
}

#[cold]
#[inline(never)]
fn leave() {
    // What is dropped on the way out may come by a check; a second unwinding would abort the process.
    if !std::thread::panicking() {
        resume_unwind(Box::new(Interrupted));
    }
}

/// Carries out work that may be left by [`check`].
///
/// # Errors
/// [`Interrupted`] if it was left.
///
/// # Panics
/// With the panic of the work, if that has a defect.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Interrupted> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|reason| match reason.downcast::<Interrupted>() {
        Ok(interrupted) => *interrupted,
        Err(defect) => resume_unwind(defect),
    })
}

/// Whether what [`catch_unwind`] or the join of a thread gives is the way out, and not a defect.
pub fn is_interruption(reason: &(dyn Any + Send)) -> bool {
    reason.is::<Interrupted>()
}

/// A reader or writer that is left when all work shall stop: a file may be endless, or as large as a disk.
#[derive(Debug)]
pub struct Checked<T>(pub T);

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        check();
        self.0.read(into)
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check();
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

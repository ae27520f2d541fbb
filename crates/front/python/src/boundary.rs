//! Long work beside an interpreter that still heeds signals.
//!
//! The work has a thread of its own. The thread that called waits without the interpreter's lock and,
//! now and then, lets Python run the handlers of signals that came meanwhile. Once one of them raises,
//! the work is asked to stop (`cancellation`).

use crate::NandlabError;
use cancellation::Interrupted;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Time between two looks for signals: far below the two seconds in which everything ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Looks until work that does not stop is left to itself: it waits for a pipe or a disk that does not
/// answer, and the process ends without it. One second, half of what is promised.
const LOOKS_MAX: u32 = 50;
/// Futures of file systems nest deep; a main thread has as much.
const STACK_BYTES: usize = 16 << 20;

/// Calls under way: the first of them takes back what ended the one before.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// What became of work, and the exception that asked it to stop, if one did.
pub(crate) struct Carried<T> {
    pub(crate) outcome: Result<PyResult<T>, Interrupted>,
    pub(crate) stopped_by: Option<PyErr>,
}

impl<T> Carried<T> {
    /// The value of work that counts only as a whole.
    pub(crate) fn whole(self) -> PyResult<T> {
        match (self.stopped_by, self.outcome) {
            (Some(exception), _) => Err(exception),
            (None, Ok(outcome)) => outcome,
            (None, Err(Interrupted)) => Err(PyKeyboardInterrupt::new_err(())),
        }
    }

    /// The value, though somebody asked to stop: it says itself how much of it there is.
    pub(crate) fn part(self) -> PyResult<T> {
        match self.outcome {
            Ok(Ok(value)) => Ok(value),
            outcome => Carried { outcome, ..self }.whole(),
        }
    }
}

/// Carries out work that counts only as a whole; a signal whose handler raises ends it.
///
/// # Errors
/// Those of the work; the exception of the handler; an internal error with the message of a panic.
pub(crate) fn interruptible<T: Send + 'static>(
    python: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    carry_out(python, work)?.whole()
}

/// Carries out work; a signal whose handler raises asks it to stop.
///
/// # Errors
/// No thread can be started; an internal error with the message of a panic.
pub(crate) fn carry_out<T: Send + 'static>(
    python: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send + 'static,
) -> PyResult<Carried<T>> {
    let _call = Call::begin();
    let (sender, receiver) = channel();
    let carried = move || {
        let done =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cancellation::catch(work)));
        // Nobody listens any more to work that was left to itself.
        let _ = sender.send(done);
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(carried).map_err(|error| {
        NandlabError::new_err(format!("no thread can be started for the work: {error}"))
    })?;
    python.detach(move || wait(&receiver))
}

type Done<T> = Result<Result<PyResult<T>, Interrupted>, Box<dyn Any + Send>>;

fn wait<T>(receiver: &Receiver<Done<T>>) -> PyResult<Carried<T>> {
    let mut stopped_by = None;
    let mut looks = 0;
    loop {
        match receiver.recv_timeout(LOOK_INTERVAL) {
            Ok(Ok(outcome)) => return Ok(Carried { outcome, stopped_by }),
            Ok(Err(defect)) => return Err(internal_error(defect.as_ref())),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(internal_error(&"the work ended without a word"));
            }
            Err(RecvTimeoutError::Timeout) if stopped_by.is_some() => {
                looks += 1;
                if looks == LOOKS_MAX {
                    return Ok(Carried { outcome: Err(Interrupted), stopped_by });
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                stopped_by = Python::attach(look_for_signals).err();
                if stopped_by.is_some() {
                    cancellation::request();
                }
            }
        }
    }
}

/// Runs the handlers of signals that came; the exception of one that raises.
fn look_for_signals(python: Python<'_>) -> PyResult<()> {
    python.check_signals()
}

/// Calls the progress function; an exception of it asks the work to stop, and then the answer is false.
pub(crate) fn tell(progress: &Py<PyAny>, done: u64, total: u64, label: &str) -> bool {
    let goes_on = Python::attach(|python| progress.call1(python, (done, total, label)).is_ok());
    if !goes_on {
        cancellation::request();
    }
    goes_on
}

fn internal_error(defect: &(dyn Any + Send)) -> PyErr {
    NandlabError::new_err(study::internal_error(defect).to_string())
}

/// A call under way.
struct Call;

impl Call {
    fn begin() -> Self {
        if CALLS.fetch_add(1, Ordering::SeqCst) == 0 {
            cancellation::withdraw();
        }
        Self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

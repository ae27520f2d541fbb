//! What becomes of the commands of processes that run side by side.

use crate::record::note_failure;
use crate::session::Progress;
use crate::{Failure, LineTracks};
use mount::Machine;
use script::{Command, Failed, Observer, Place, RunError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Collects what the processes of a `concurrent` leave.
pub(crate) struct ProcessEnds {
    pub(crate) progress: Rc<RefCell<Progress>>,
    /// Commands of the whole script.
    pub(crate) count: u64,
    /// A call that fails is noted and passed over.
    pub(crate) keeps_going: bool,
    pub(crate) timeline: Option<(LineTracks, Machine)>,
    /// Calls that failed and were passed over.
    pub(crate) failures: RefCell<Vec<Failure>>,
    /// The first command that ends the script.
    pub(crate) error: RefCell<Option<(Place, String)>>,
    /// Somebody stopped the run.
    pub(crate) is_stopped: Cell<bool>,
}

impl Observer for ProcessEnds {
    fn begins(&self, _command: &Command) -> bool {
        // The others stop, too, once one of them has failed.
        if self.error.borrow().is_some() || self.is_stopped.get() {
            return false;
        }
        let goes_on = self.progress.borrow_mut().begins(self.count);
        self.is_stopped.set(!goes_on);
        goes_on
    }

    fn ends(
        &self,
        process: u32,
        place: &Place,
        start_ns: u64,
        end: Result<Option<RunError>, Failed>,
    ) -> bool {
        if let Some((timeline, machine)) = &self.timeline {
            timeline.line_of(process, place, start_ns, machine);
        }
        let reason = match end {
            Ok(None) => return true,
            Ok(Some(tried)) => tried.to_string(),
            Err(failed) if self.keeps_going && !matches!(failed, Failed::Line(_)) => {
                failed.to_string()
            }
            Err(failed) => {
                self.error.borrow_mut().get_or_insert((place.clone(), failed.to_string()));
                return false;
            }
        };
        note_failure(&mut self.failures.borrow_mut(), place, reason);
        true
    }
}

//! The calls of processes that run side by side, noted as those of one process are.

use crate::application::Done;
use crate::changes::Changes;
use crate::error::CrashError;
use crate::reference::{failure_of, is_refusal};
use crate::shadow_model::ShadowModel;
use mount::Kind;
use script::{Command, Failed, Observer, Place, RunError, Step};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Notes the calls of the processes of a `concurrent`.
pub(crate) struct ProcessEnds {
    shadow: Rc<ShadowModel>,
    changes: Changes,
    kind: &'static Kind,
    /// Operations that had changed the medium when the call under way began.
    begun_at: Cell<u64>,
    refused_lines: Cell<u64>,
    error: RefCell<Option<(Place, String)>>,
    /// The call that is under way.
    begun: RefCell<Option<Command>>,
    calls: RefCell<Vec<Done>>,
}

impl ProcessEnds {
    pub(crate) fn new(shadow: Rc<ShadowModel>, changes: Changes, kind: &'static Kind) -> Self {
        let (begun_at, refused_lines) = (Cell::new(0), Cell::new(0));
        let (error, begun, calls) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { shadow, changes, kind, begun_at, refused_lines, error, begun, calls }
    }

    /// Calls that the file system refused for want of space, or because it lacks them.
    pub(crate) fn refused_lines(&self) -> u64 {
        self.refused_lines.get()
    }

    /// The command that ended the script, if one did.
    pub(crate) fn error(&self) -> Option<CrashError> {
        let error = self.error.borrow().clone();
        error.map(|(place, reason)| CrashError::Line { place, reason })
    }

    /// The calls that ended, in their order.
    pub(crate) fn take_calls(&self) -> Vec<Done> {
        self.calls.take()
    }

    fn changes(&self) -> u64 {
        self.changes.count()
    }
}

impl Observer for ProcessEnds {
    fn begins(&self, command: &Command) -> bool {
        if !matches!(command.step, Step::Sleep { .. }) {
            self.shadow.history.borrow_mut().call_begins(&command.place);
            self.begun_at.set(self.changes());
            self.begun.replace(Some(command.clone()));
        }
        self.error.borrow().is_none()
    }

    fn ends(
        &self,
        process: u32,
        place: &Place,
        _start_ns: u64,
        end: Result<Option<RunError>, Failed>,
    ) -> bool {
        let begun = self.begun.take();
        let error = begun.as_ref().and_then(|command| failure_of(command, &end));
        match end {
            Ok(_) => {}
            Err(failed) if is_refusal(&failed, self.kind) => {
                self.refused_lines.set(self.refused_lines.get() + 1);
            }
            Err(failed) => {
                self.error.borrow_mut().get_or_insert((place.clone(), failed.to_string()));
                return false;
            }
        }
        // One call at a time: the one that began last is the one that returned.
        let (begun_at, now) = (self.begun_at.get(), self.changes());
        self.shadow.history.borrow_mut().call_returned(place, begun_at, now);
        if let Some(command) = begun {
            let done = Done { process, command, returned_at: now, error };
            self.calls.borrow_mut().push(done);
        }
        true
    }
}

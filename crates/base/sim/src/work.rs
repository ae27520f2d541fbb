//! Work that tasks report: when a collector, a commit or a write-back begins and ends.
//!
//! A watcher is told of both as they happen. Without one a report is a look at an empty place, and neither tasks nor
//! the clock ever see the difference.

use crate::executor::Sim;
use crate::task::TaskId;
use crate::work_watcher::WorkWatcher;
use std::rc::Rc;

/// A piece of work under way; it ends with this value, also where the task is dropped before it is done.
#[must_use = "the work ends when this is dropped"]
pub struct Work(Option<(Sim, Rc<dyn WorkWatcher>, u64)>);

impl Drop for Work {
    fn drop(&mut self) {
        if let Some((sim, watcher, task)) = self.0.take() {
            watcher.ends(task, sim.now());
        }
    }
}

impl Sim {
    /// Tells `watcher` of all work that begins from now on; nobody, if it is none.
    pub fn watch_work(&self, watcher: Option<Rc<dyn WorkWatcher>>) {
        *self.watcher().borrow_mut() = watcher;
    }

    /// The task that runs begins a piece of work, called `what` in the words of its layer.
    pub fn work(&self, what: &'static str) -> Work {
        let watcher = self.watcher().borrow().clone();
        // Nobody watches, or it is done outside of all tasks, where no time passes.
        let Some(watcher) = watcher else { return Work(None) };
        let Some((task, name)) = self.running_task() else { return Work(None) };
        watcher.begins(task, &name, what, self.now());
        Work(Some((self.clone(), watcher, task)))
    }
}

impl TaskId {
    /// True if no task runs.
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

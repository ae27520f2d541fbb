//! A machine with a file system as a timeline: its raw chip, its block device, and the work of its threads.

use crate::Tracks;
use block::RequestQueue;
use mount::{Machine, Watcher};
use mtd::Operation;
use sim::WorkWatcher;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;

/// The timeline of machines that run one after the other. Clones write to the same file.
#[derive(Clone)]
pub struct MachineTracks {
    tracks: Rc<RefCell<Tracks>>,
    /// The queue of the block device of the machine that runs.
    queue: Rc<RefCell<Option<RequestQueue>>>,
    /// When the machine that runs began.
    since_ns: Rc<Cell<u64>>,
}

/// Writes the work of tasks. Apart from the queue, which holds the simulation that holds this.
struct Works(Rc<RefCell<Tracks>>);

impl WorkWatcher for Works {
    fn begins(&self, task: u64, name: &str, what: &'static str, now_ns: u64) {
        // The task that a machine is made for makes the calls of applications.
        let name = if name == mount::JOB { "application" } else { name };
        self.0.borrow_mut().work_begins(task, name, what, now_ns);
    }

    fn ends(&self, task: u64, now_ns: u64) {
        self.0.borrow_mut().work_ends(task, now_ns);
    }
}

impl MachineTracks {
    /// A timeline that will be called `path`.
    ///
    /// # Errors
    /// What the system says of a file that cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let tracks = Rc::new(RefCell::new(Tracks::create(path)?));
        Ok(Self { tracks, queue: Rc::default(), since_ns: Rc::default() })
    }

    /// The tracks, for what else there is to show.
    pub fn tracks(&self) -> &RefCell<Tracks> {
        &self.tracks
    }

    /// Writes what the block device did so far, so that memory does not grow with the run.
    pub fn look(&self) {
        if let Some(queue) = &*self.queue.borrow() {
            self.tracks.borrow_mut().device(&queue.take_activity());
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// A write that failed, now or before.
    pub fn finish(&self) -> io::Result<()> {
        self.tracks.borrow_mut().finish()
    }
}

impl Watcher for MachineTracks {
    fn begins(&self, machine: &Machine) {
        self.tracks.borrow_mut().machine_begins(self.since_ns.get());
        let tracks = self.tracks.clone();
        machine.mtd.observe(Box::new(move |operation, since_ns, now_ns| {
            tracks.borrow_mut().chip(&name(operation), since_ns, now_ns);
        }));
        machine.sim.watch_work(Some(Rc::new(Works(self.tracks.clone()))));
        let (own, sim) = (self.clone(), machine.sim.clone());
        machine.watch_block_device(Some(Rc::new(move |queue: &RequestQueue| {
            own.look();
            // Another device, or the same one anew: nothing of the one before is in its cache.
            if own.queue.borrow().is_some() {
                own.tracks.borrow_mut().device_ends(sim.now());
            }
            queue.observe(own.tracks.clone());
            queue.record_activity(true);
            *own.queue.borrow_mut() = Some(queue.clone());
        })));
    }

    fn ends(&self, machine: &Machine) {
        self.look();
        *self.queue.borrow_mut() = None;
        machine.sim.watch_work(None);
        machine.watch_block_device(None);
        self.since_ns.set(self.since_ns.get() + machine.sim.now());
    }
}

/// What the array of the chip does, as `nandsim` and data sheets call it.
fn name(operation: Operation) -> String {
    match operation {
        Operation::Read { page } => format!("read page {page}"),
        Operation::SubPageRead { page, column } => {
            format!("read part of page {page} from byte {column}")
        }
        Operation::OobRead { page } => format!("read spare area of page {page}"),
        Operation::Program { page } => format!("program page {page}"),
        Operation::OobProgram { page } => format!("program spare area of page {page}"),
        Operation::Erase { block } => format!("erase block {block}"),
    }
}

//! A script as a timeline: its lines, the raw chip, and requests and dies of a block device.

use block::RequestQueue;
use mount::Machine;
use mtd::Operation;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;
use timeline::Tracks;

/// The timeline of a script that runs. Clones write to the same file.
#[derive(Clone)]
pub struct LineTracks {
    tracks: Rc<RefCell<Tracks>>,
    /// Lines of the script, the first of them number 1.
    lines: Rc<[String]>,
    /// The queue of the block device of the machine that runs.
    queue: Rc<RefCell<Option<RequestQueue>>>,
    /// When the machine that runs began.
    since_ns: Rc<Cell<u64>>,
}

impl LineTracks {
    /// The timeline of a script, that will be called `path`.
    ///
    /// # Errors
    /// What the system says of a file that cannot be made.
    pub fn create(path: &Path, script: &str) -> io::Result<Self> {
        Ok(Self {
            tracks: Rc::new(RefCell::new(Tracks::create(path)?)),
            lines: script.lines().map(|line| line.trim().to_owned()).collect(),
            queue: Rc::default(),
            since_ns: Rc::default(),
        })
    }

    /// A machine starts: its clock begins at zero, and its chip is watched.
    pub(crate) fn begin(&self, machine: &Machine) {
        self.tracks.borrow_mut().machine_begins(self.since_ns.get());
        let tracks = self.tracks.clone();
        machine.mtd.observe(Box::new(move |operation, since_ns, now_ns| {
            tracks.borrow_mut().chip(&name(operation), since_ns, now_ns);
        }));
    }

    /// A line was carried out. It may have opened a block device, which is watched from then on.
    pub(crate) fn line(&self, number: usize, start_ns: u64, machine: &Machine) {
        let text = self.lines.get(number - 1).map_or("", String::as_str);
        self.tracks.borrow_mut().line(text, start_ns, machine.sim.now());
        let mut queue = self.queue.borrow_mut();
        if queue.is_none()
            && let Some(path) = machine.opened_block_path()
        {
            path.queue().observe(self.tracks.clone());
            path.queue().record_activity(true);
            *queue = Some(path.queue().clone());
        }
        // Line by line, so that memory does not grow with the script.
        if let Some(queue) = &*queue {
            self.tracks.borrow_mut().device(&queue.take_activity());
        }
    }

    /// The machine ends, and another one may begin.
    pub(crate) fn end(&self, machine: &Machine) {
        if let Some(queue) = self.queue.borrow_mut().take() {
            self.tracks.borrow_mut().device(&queue.take_activity());
        }
        self.since_ns.set(self.since_ns.get() + machine.sim.now());
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// A write that failed, now or before.
    pub fn finish(&self) -> io::Result<()> {
        self.tracks.borrow_mut().finish()
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

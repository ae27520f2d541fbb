//! A script as a timeline: its lines, and what the machine did for them.

use mount::{Machine, Watcher};
use std::io;
use std::path::Path;
use std::rc::Rc;
use timeline::MachineTracks;

/// The timeline of a script that runs. Clones write to the same file.
#[derive(Clone)]
pub struct LineTracks {
    machine: MachineTracks,
    /// Lines of the script, the first of them number 1.
    lines: Rc<[String]>,
}

impl LineTracks {
    /// The timeline of a script, that will be called `path`.
    ///
    /// # Errors
    /// What the system says of a file that cannot be made.
    pub fn create(path: &Path, script: &str) -> io::Result<Self> {
        let lines = script.lines().map(|line| line.trim().to_owned()).collect();
        Ok(Self { machine: MachineTracks::create(path)?, lines })
    }

    /// A machine starts: its clock begins at zero, and it is watched.
    pub(crate) fn begin(&self, machine: &Machine) {
        self.machine.begins(machine);
    }

    /// A line was carried out.
    pub(crate) fn line(&self, number: usize, start_ns: u64, machine: &Machine) {
        let text = self.lines.get(number - 1).map_or("", String::as_str);
        self.machine.tracks().borrow_mut().line(text, start_ns, machine.sim.now());
        // Line by line, so that memory does not grow with the script.
        self.machine.look();
    }

    /// The machine ends, and another one may begin.
    pub(crate) fn end(&self, machine: &Machine) {
        self.machine.ends(machine);
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// A write that failed, now or before.
    pub fn finish(&self) -> io::Result<()> {
        self.machine.finish()
    }
}

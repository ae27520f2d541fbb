//! A script as a timeline: its lines, and what the machine did for them.

use mount::{Machine, Watcher};
use script::Place;
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
    pub(crate) fn line(&self, place: &Place, start_ns: u64, machine: &Machine) {
        let text = self.text(place);
        self.machine.tracks().borrow_mut().line(&text, start_ns, machine.sim.now());
        // Line by line, so that memory does not grow with the script.
        self.machine.look();
    }

    /// A line of a process was carried out, which has a track of its own.
    pub(crate) fn line_of(&self, process: u32, place: &Place, start_ns: u64, machine: &Machine) {
        let text = self.text(place);
        let mut tracks = self.machine.tracks().borrow_mut();
        tracks.line_of_process(process, &text, start_ns, machine.sim.now());
        drop(tracks);
        self.machine.look();
    }

    /// The line of a place as the script has it, with the passes of its blocks.
    fn text(&self, place: &Place) -> String {
        let text = place.line.checked_sub(1).and_then(|at| self.lines.get(at));
        let text = text.map_or("", String::as_str);
        if place.passes.is_empty() {
            return text.to_owned();
        }
        format!("{text} ({})", place.passes_text())
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

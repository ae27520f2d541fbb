//! Which lines make sense after which: what can be said of a script before it runs.

use crate::place::Place;
use crate::rest::{Expect, RestLine};
use crate::step::{ControlLine, Step, UBI_VOLUME};
use crate::tree::{Command, Line, Node, Script};
use std::collections::BTreeSet;

const NOT_ATTACHED: &str =
    "the chip is not attached to UBI: `cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl` must come first";

/// A script that mounts: one that neither mounts nor unmounts, nor does anything with UBI, is mounted
/// before its first line and unmounted after its last, as those were that made images. Its process ends before
/// that: what it has open is closed.
pub fn with_mounts(script: &Script) -> Script {
    let mounts = |command: &Command| {
        matches!(
            command.step,
            Step::Control(
                ControlLine::Mount { .. }
                    | ControlLine::MountGiven { .. }
                    | ControlLine::Unmount
                    | ControlLine::Format { .. }
                    | ControlLine::Attach(_)
                    | ControlLine::MakeVolume(_)
                    | ControlLine::Detach
            )
        )
    };
    if script.samples().any(|command| mounts(&command)) {
        return script.clone();
    }
    let line_of =
        |command: Option<Command>| Place::of_line(command.map_or(1, |command| command.place.line));
    let (first, last) = (line_of(script.samples().next()), line_of(script.samples().last()));
    let mount = Step::Control(ControlLine::MountGiven { blocks: None });
    let mounted = script.with_first(Line::fixed(first, mount));
    // A power cut at the end leaves nothing to unmount.
    let cut = Step::Control(ControlLine::PowerCut);
    if matches!(script.nodes.last(), Some(Node::Line(line)) if line.step == cut) {
        return mounted;
    }
    mounted
        .with_last(Line::fixed(last.clone(), Step::Exit))
        .with_last(Line::fixed(last, Step::Control(ControlLine::Unmount)))
}

/// Blocks that a script says its chip has (`mount blocks=N`), the first time it does.
pub fn blocks_wanted(script: &Script) -> Option<u32> {
    script.samples().find_map(|command| match command.step {
        Step::Control(ControlLine::MountGiven { blocks }) => blocks,
        _ => None,
    })
}

/// The file system of `mount -`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given<'a> {
    /// Name of the file system, as in the table of file systems.
    pub name: &'a str,
    /// It lies on a volume of UBI.
    pub is_over_ubi: bool,
}

/// Where the lines so far have led to: what is mounted, attached and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order<'a> {
    /// The file system of `mount -`.
    given: Option<Given<'a>>,
    is_mounted: bool,
    /// The chip is attached to UBI by a line of the script.
    is_attached: bool,
    has_chip: bool,
    /// Names of chips that were kept.
    kept: BTreeSet<String>,
    /// Names of trees that were kept.
    trees: BTreeSet<String>,
}

impl<'a> Order<'a> {
    /// Before the first line. `given` is the file system of `mount -`.
    pub fn new(given: Option<Given<'a>>) -> Self {
        let (kept, trees) = (BTreeSet::new(), BTreeSet::new());
        // A run begins with the chip that it is given.
        Self { given, is_mounted: false, is_attached: false, has_chip: true, kept, trees }
    }

    /// Goes on by a line.
    ///
    /// # Errors
    /// Why the line makes no sense here.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Control(line) => self.control(line),
            Step::Sleep { .. } | Step::Exit => Ok(()),
            _ if self.is_mounted => Ok(()),
            _ => Err("nothing is mounted: a mount line must come first".into()),
        }
    }

    // Longer than a screen: one arm a kind of control line, each with the message of its own refusal.
    fn control(&mut self, line: &ControlLine) -> Result<(), String> {
        match line {
            ControlLine::Mount { file_system, source, .. } => {
                if let Some(Given { name: asked, .. }) = self.given
                    && asked != file_system
                {
                    return Err(format!(
                        "the script mounts {file_system}, but {asked} was asked for: leave --fs out, \
                         or change the line to `mount -`"
                    ));
                }
                // A mount line names a volume, which only an attached chip has; `mount -` attaches
                // by itself.
                let is_over_ubi = source.starts_with(UBI_VOLUME);
                if is_over_ubi && !self.is_attached {
                    return Err(NOT_ATTACHED.into());
                }
                self.mount(file_system, is_over_ubi)
            }
            ControlLine::MountGiven { .. } => {
                let given = self.given.ok_or("which file system is mounted? give --fs")?;
                self.mount(given.name, given.is_over_ubi)
            }
            ControlLine::Unmount if self.is_mounted => {
                self.is_mounted = false;
                Ok(())
            }
            ControlLine::Unmount => Err("nothing is mounted".into()),
            ControlLine::Attach(_) => {
                self.needs_idle_chip()?;
                self.is_attached = true;
                Ok(())
            }
            ControlLine::MakeVolume(_) if self.is_attached => Ok(()),
            ControlLine::Detach if self.is_mounted => {
                Err("a volume is mounted: an umount line must come first".into())
            }
            ControlLine::Detach if self.is_attached => {
                self.is_attached = false;
                Ok(())
            }
            ControlLine::MakeVolume(_) | ControlLine::Detach => Err(NOT_ATTACHED.into()),
            ControlLine::RemoveChip => {
                self.needs_idle_chip()?;
                self.has_chip = false;
                Ok(())
            }
            ControlLine::AddChip if self.has_chip => {
                Err("the chip is there already: `cmd rmmod nandsim` takes it away".into())
            }
            ControlLine::AddChip => {
                // nandsim keeps its pages in memory, so the chip comes back erased.
                self.has_chip = true;
                Ok(())
            }
            ControlLine::Snap(name) | ControlLine::Save(name) => {
                // Also of a mounted chip: what is kept is what a power cut at this moment would
                // leave.
                self.needs_chip()?;
                self.kept.insert(name.clone());
                Ok(())
            }
            ControlLine::Load(name) if !self.kept.contains(name) => {
                Err(format!("no chip was kept as `{name}`: snap or save it first"))
            }
            // Contents that change below a mount contradict what it holds in memory.
            ControlLine::Load(_) | ControlLine::Format { .. } => self.needs_idle_chip(),
            ControlLine::PowerCut => {
                // Nothing is unmounted or detached: memory is lost, and the chip keeps its
                // contents.
                (self.is_mounted, self.is_attached) = (false, false);
                Ok(())
            }
            ControlLine::AtRest(RestLine::Tree(name)) => {
                self.trees.insert(name.clone());
                Ok(())
            }
            ControlLine::AtRest(RestLine::Expect(Expect::Tree(name)))
                if !self.trees.contains(name) =>
            {
                Err(format!("no tree was kept as `{name}`: put `tree {name}` before this line"))
            }
            ControlLine::Age { .. } | ControlLine::Wear { .. } => self.needs_chip(),
            ControlLine::Scrub if self.is_mounted => Ok(()),
            ControlLine::Scrub => Err("nothing is mounted: a mount line must come first".into()),
            ControlLine::Settle { .. }
            | ControlLine::Log(_)
            | ControlLine::Workload(_)
            | ControlLine::Phase(_)
            | ControlLine::End
            | ControlLine::DropCaches
            | ControlLine::AtRest(RestLine::Acknowledge(_) | RestLine::Expect(_)) => Ok(()),
        }
    }

    fn mount(&mut self, file_system: &str, is_over_ubi: bool) -> Result<(), String> {
        self.needs_chip()?;
        // Both would write to the chip, each past the other.
        if self.is_attached && !is_over_ubi {
            return Err(format!(
                "the chip is attached to UBI, which {file_system} does not use: `cmd ubidetach -d \
                 0` must come first"
            ));
        }
        if std::mem::replace(&mut self.is_mounted, true) {
            return Err("a file system is mounted already: umount it first".into());
        }
        Ok(())
    }

    fn needs_chip(&self) -> Result<(), String> {
        if self.has_chip {
            Ok(())
        } else {
            Err("there is no chip: `cmd modprobe nandsim` brings an erased one".into())
        }
    }

    /// The chip is there, and neither mounted nor attached.
    fn needs_idle_chip(&self) -> Result<(), String> {
        self.needs_chip()?;
        if self.is_mounted {
            return Err("the chip is in use: an umount line must come first".into());
        }
        if self.is_attached {
            return Err("the chip is attached to UBI: `cmd ubidetach -d 0` must come first".into());
        }
        Ok(())
    }
}

//! What can be said of a script before it runs.

use crate::{HarnessError, Setup};
use mount::{KINDS, Kind, find_kind};
use script::{Command, Harness, Step};
use std::collections::BTreeSet;

/// The file system over UBI.
const UBIFS: &str = "ubifs";
const NOT_ATTACHED: &str =
    "the chip is not attached to UBI: `cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl` must come first";
/// Longest `sleep` or `settle`: a year.
const MILLISECONDS_MAX: u64 = 366 * 24 * 3600 * 1000;

/// Blocks that a script says its chip has (`mount blocks=N`), the first time it does.
pub fn blocks_wanted(commands: &[Command]) -> Option<u32> {
    commands.iter().find_map(|command| match command.step {
        Step::Harness(Harness::MountGiven { blocks }) => blocks,
        _ => None,
    })
}

/// A script that can be carried out: every line makes sense after the lines before it.
///
/// A script that neither mounts nor unmounts, nor does anything with UBI, is mounted before its first
/// line and unmounted after its last, as those were that made images.
///
/// # Errors
/// The first line that does not, with the reason.
pub fn prepare(commands: &[Command], setup: &Setup) -> Result<Vec<Command>, HarnessError> {
    let mut commands = commands.to_vec();
    let is_bare = !commands.iter().any(|command| {
        matches!(
            command.step,
            Step::Harness(
                Harness::Mount { .. }
                    | Harness::MountGiven { .. }
                    | Harness::Unmount
                    | Harness::Format { .. }
                    | Harness::Attach(_)
                    | Harness::MakeVolume(_)
                    | Harness::Detach
            )
        )
    });
    if is_bare {
        let last = commands.last().map_or(1, |command| command.line);
        let first = commands.first().map_or(1, |command| command.line);
        let mount = Step::Harness(Harness::MountGiven { blocks: None });
        commands.insert(0, Command { line: first, step: mount });
        // A power cut at the end leaves nothing to unmount.
        if commands.last().is_none_or(|last| last.step != Step::Harness(Harness::PowerCut)) {
            commands.push(Command { line: last, step: Step::Harness(Harness::Unmount) });
        }
    }
    let mut state = State {
        setup,
        is_mounted: false,
        is_attached: false,
        has_chip: true,
        names: BTreeSet::new(),
    };
    for command in &commands {
        state
            .step(&command.step)
            .map_err(|reason| HarnessError::Line { line: command.line, reason })?;
    }
    Ok(commands)
}

/// What the lines so far have led to.
struct State<'a> {
    setup: &'a Setup,
    is_mounted: bool,
    /// The chip is attached to UBI by a line of the script.
    is_attached: bool,
    has_chip: bool,
    /// Names of chips that were kept.
    names: BTreeSet<&'a str>,
}

impl<'a> State<'a> {
    fn step<'c: 'a>(&mut self, step: &'c Step) -> Result<(), String> {
        match step {
            Step::Harness(line) => self.harness(line),
            Step::Sleep { milliseconds } => check_duration(*milliseconds),
            _ if self.is_mounted => Ok(()),
            _ => Err("nothing is mounted: a mount line must come first".into()),
        }
    }

    fn harness<'c: 'a>(&mut self, line: &'c Harness) -> Result<(), String> {
        match line {
            Harness::Mount { file_system, options, .. } => {
                let kind = find_kind(file_system).map_err(|error| error.to_string())?;
                if let Some(asked) = self.setup.kind
                    && asked.name != kind.name
                {
                    return Err(format!(
                        "the script mounts {}, but {} was asked for: leave --fs out, or change the \
                         line to `mount -`",
                        kind.name, asked.name
                    ));
                }
                kind.profile(self.setup.request.profile.as_deref())
                    .map_err(|error| error.to_string())?;
                if options.iter().any(String::is_empty) {
                    return Err(
                        "an option is empty: divide options by one comma, or write `-`".into()
                    );
                }
                if kind.name == UBIFS && !self.is_attached {
                    return Err(NOT_ATTACHED.into());
                }
                self.mount(kind)
            }
            Harness::MountGiven { blocks } => {
                let known = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
                let kind = self.setup.kind.ok_or_else(|| {
                    format!("which file system is mounted? give --fs: {}", known())
                })?;
                kind.profile(self.setup.request.profile.as_deref())
                    .map_err(|error| error.to_string())?;
                let found = self.setup.part.geometry.blocks;
                if let Some(wanted) = blocks.filter(|wanted| *wanted != found) {
                    return Err(format!(
                        "the script wants {wanted} blocks, but the chip has {found}"
                    ));
                }
                self.mount(kind)
            }
            Harness::Unmount if self.is_mounted => {
                self.is_mounted = false;
                Ok(())
            }
            Harness::Unmount => Err("nothing is mounted".into()),
            Harness::Settle { milliseconds } => check_duration(*milliseconds),
            Harness::Attach(_) => {
                self.needs_idle_chip()?;
                find_kind(UBIFS)
                    .and_then(|kind| kind.profile(self.setup.request.profile.as_deref()))
                    .map_err(|error| error.to_string())?;
                self.is_attached = true;
                Ok(())
            }
            Harness::MakeVolume(_) if self.is_attached => Ok(()),
            Harness::Detach if self.is_mounted => {
                Err("a volume is mounted: an umount line must come first".into())
            }
            Harness::Detach if self.is_attached => {
                self.is_attached = false;
                Ok(())
            }
            Harness::MakeVolume(_) | Harness::Detach => Err(NOT_ATTACHED.into()),
            Harness::RemoveChip => {
                self.needs_idle_chip()?;
                self.has_chip = false;
                Ok(())
            }
            Harness::AddChip if self.has_chip => {
                Err("the chip is there already: `cmd rmmod nandsim` takes it away".into())
            }
            Harness::AddChip => {
                self.has_chip = true;
                Ok(())
            }
            Harness::Snap(name) | Harness::Save(name) => {
                self.needs_chip()?;
                self.names.insert(name);
                Ok(())
            }
            Harness::Load(name) if !self.names.contains(name.as_str()) => {
                Err(format!("no chip was kept as `{name}`: snap or save it first"))
            }
            Harness::Load(_) | Harness::Format { .. } => self.needs_idle_chip(),
            Harness::PowerCut => {
                self.is_mounted = false;
                self.is_attached = false;
                Ok(())
            }
            Harness::Log(_)
            | Harness::Workload(_)
            | Harness::Phase(_)
            | Harness::End
            | Harness::DropCaches => Ok(()),
        }
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

    fn mount(&mut self, kind: &Kind) -> Result<(), String> {
        self.needs_chip()?;
        if self.is_attached && kind.name != UBIFS {
            return Err(format!(
                "the chip is attached to UBI, which {} knows nothing of: `cmd ubidetach -d 0` must come \
                 first",
                kind.name
            ));
        }
        if std::mem::replace(&mut self.is_mounted, true) {
            return Err("a file system is mounted already: umount it first".into());
        }
        Ok(())
    }
}

fn check_duration(milliseconds: u64) -> Result<(), String> {
    if milliseconds > MILLISECONDS_MAX {
        return Err(format!("{milliseconds} ms is more than a year"));
    }
    Ok(())
}

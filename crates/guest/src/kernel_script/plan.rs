//! What can be said of a script before a machine is booted for it.

use script::{Command, Harness, Step};
use std::collections::BTreeSet;

/// Blocks of the whole chip that nandsim makes, `nandsim-64MiB`.
pub(crate) const CHIP_BLOCKS: u32 = 512;
/// Longest `sleep` or `settle`: half an hour, for this clock is real.
const MILLISECONDS_MAX: u64 = 30 * 60 * 1000;

const NOT_ATTACHED: &str =
    "the chip is not attached to UBI: `cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl` must come first";
const ATTACHED: &str = "the chip is attached to UBI: `cmd ubidetach -d 0` must come first";

/// A line that cannot be carried out, with its number.
pub(crate) type LineError = (usize, String);

/// A script in the form in which a machine carries it out.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) commands: Vec<Command>,
    /// Blocks that the first `mount blocks=N` wants.
    pub(crate) blocks_wanted: Option<u32>,
    /// What `sleep` and `settle` wait at least.
    pub(crate) wait_milliseconds: u64,
}

/// Reads a script and looks for lines that the kernel, or the machine around it, has not.
///
/// A script that neither mounts nor unmounts, nor does anything with UBI, is mounted before its first
/// line and unmounted after its last. `file_system` is that of `mount -`.
///
/// # Errors
/// The first such line.
pub(crate) fn plan(text: &str, file_system: Option<&str>) -> Result<Plan, LineError> {
    let mut commands = script::parse(text).map_err(|error| (error.line, error.reason))?;
    let mounts = |command: &Command| {
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
    };
    if !commands.iter().any(mounts) {
        let (first, last) = (1, commands.last().map_or(1, |command| command.line));
        let mount = Step::Harness(Harness::MountGiven { blocks: None });
        commands.insert(0, Command { line: first, step: mount });
        commands.push(Command { line: last, step: Step::Harness(Harness::Unmount) });
    }
    let mut state = State {
        file_system,
        is_mounted: false,
        is_attached: false,
        has_chip: true,
        kept: BTreeSet::new(),
        wait: 0,
    };
    for command in &commands {
        state.step(&command.step).map_err(|reason| (command.line, reason))?;
    }
    let wait_milliseconds = state.wait;
    let blocks_wanted = commands.iter().find_map(|command| match command.step {
        Step::Harness(Harness::MountGiven { blocks }) => blocks,
        _ => None,
    });
    Ok(Plan { commands, blocks_wanted, wait_milliseconds })
}

/// What the lines so far have led to.
struct State<'a> {
    file_system: Option<&'a str>,
    is_mounted: bool,
    is_attached: bool,
    has_chip: bool,
    kept: BTreeSet<String>,
    wait: u64,
}

impl State<'_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Harness(line) => self.harness(line),
            Step::Sleep { milliseconds } => self.wait(*milliseconds),
            _ if self.is_mounted => Ok(()),
            _ => Err("nothing is mounted: a mount line must come first".into()),
        }
    }

    fn harness(&mut self, line: &Harness) -> Result<(), String> {
        match line {
            Harness::Mount { file_system, .. } => {
                if let Some(asked) = self.file_system
                    && asked != file_system
                {
                    return Err(format!(
                        "the script mounts {file_system}, but {asked} was asked for: leave --fs out, \
                         or change the line to `mount -`"
                    ));
                }
                if file_system == "ubifs" && !self.is_attached {
                    return Err(NOT_ATTACHED.into());
                }
                self.mount(file_system)
            }
            Harness::MountGiven { .. } => {
                let file_system =
                    self.file_system.ok_or("which file system is mounted? give --fs: jffs2, ubifs")?;
                self.mount(file_system)
            }
            Harness::Unmount if !self.is_mounted => Err("nothing is mounted".into()),
            Harness::Unmount => {
                self.is_mounted = false;
                Ok(())
            }
            Harness::Settle { milliseconds } => self.wait(*milliseconds),
            Harness::Attach(_) => {
                self.needs_idle_chip()?;
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
                file_name(name)?;
                self.kept.insert(name.clone());
                Ok(())
            }
            Harness::Load(name) if !self.kept.contains(name) => {
                Err(format!("no chip was kept as `{name}`: snap or save it first"))
            }
            Harness::Load(_) | Harness::Format { .. } => self.needs_idle_chip(),
            Harness::PowerCut => Err(
                "the power of a chip within a kernel cannot be cut: `powercut` is carried out by the \
                 simulation only, without --in kernel"
                    .into(),
            ),
            Harness::Log(_)
            | Harness::Workload(_)
            | Harness::Phase(_)
            | Harness::End
            | Harness::DropCaches => Ok(()),
        }
    }

    fn mount(&mut self, file_system: &str) -> Result<(), String> {
        check_file_system(file_system)?;
        self.needs_chip()?;
        if self.is_attached && file_system != "ubifs" {
            return Err(ATTACHED.into());
        }
        if std::mem::replace(&mut self.is_mounted, true) {
            return Err("a file system is mounted already: umount it first".into());
        }
        Ok(())
    }

    /// The chip is there, and neither mounted nor attached.
    fn needs_idle_chip(&self) -> Result<(), String> {
        self.needs_chip()?;
        if self.is_mounted {
            return Err("the chip is in use: an umount line must come first".into());
        }
        if self.is_attached {
            return Err(ATTACHED.into());
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

    fn wait(&mut self, milliseconds: u64) -> Result<(), String> {
        if milliseconds > MILLISECONDS_MAX {
            return Err(format!("{milliseconds} ms is more than half an hour of a real clock"));
        }
        self.wait += milliseconds;
        Ok(())
    }
}

fn check_file_system(name: &str) -> Result<(), String> {
    match name {
        "jffs2" | "ubifs" => Ok(()),
        "yaffs2" => Err(
            "no distribution kernel has YAFFS2: JFFS2 and UBIFS are carried out in a kernel; leave \
             --in kernel out for the simulation"
                .into(),
        ),
        _ => Err(format!("{name} is not carried out in a kernel: jffs2 and ubifs are")),
    }
}

/// The file in which a chip is kept under a name: the last part of it, as names may be paths.
pub(crate) fn file_name(name: &str) -> Result<&str, String> {
    std::path::Path::new(name)
        .file_name()
        .and_then(std::ffi::OsStr::to_str)
        .ok_or_else(|| format!("`{name}` cannot be the name of a file"))
}

#[cfg(test)]
mod tests {
    use super::{LineError, plan};

    fn refused(text: &str) -> LineError {
        plan(text, Some("jffs2")).expect_err("refused")
    }

    #[test]
    fn what_a_kernel_cannot_do_is_refused_with_the_line() {
        let (line, reason) = refused("mount -\n\npowercut\n");
        assert_eq!(line, 3);
        assert!(reason.contains("without --in kernel"));
        let (line, reason) = plan("mount yaffs2 /dev/mtdblock0 -\n", None).expect_err("refused");
        assert_eq!(line, 1);
        assert!(reason.contains("no distribution kernel has YAFFS2"));
        assert_eq!(refused("umount\n").1, "nothing is mounted");
        assert!(refused("mount -\numount\nload a\n").1.contains("snap or save it first"));
        assert!(refused("mount -\nsleep 99999999\n").1.contains("half an hour"));
        assert_eq!(refused("mount -\numount\nmkdir a 755\n").0, 3);
        assert!(plan("sync\n", None).expect_err("refused").1.contains("give --fs"));
    }

    #[test]
    fn lines_about_ubi_must_come_in_their_order() {
        let attach = "cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl\n";
        assert!(refused("mount ubifs ubi0:gold -\n").1.contains("asked for"));
        let ubifs = |text: &str| plan(text, Some("ubifs"));
        let reason = |text: &str| ubifs(text).expect_err("refused").1;
        assert!(reason("mount ubifs ubi0:gold -\n").starts_with("the chip is not attached"));
        assert!(reason("cmd ubidetach -d 0\n").starts_with("the chip is not attached"));
        assert!(reason(&format!("{attach}{attach}")).starts_with("the chip is attached to UBI"));
        assert!(
            reason(&format!("{attach}cmd rmmod nandsim\n")).starts_with("the chip is attached")
        );
        let mounted = format!("{attach}mount ubifs ubi0:gold -\ncmd ubidetach -d 0\n");
        assert!(reason(&mounted).starts_with("a volume is mounted"));
        ubifs(&format!("{attach}cmd ubidetach -d 0\n")).expect("nothing need be mounted");
        ubifs("mount -\numount\n").expect("a mount attaches by itself");
    }

    #[test]
    fn a_script_without_mounts_is_mounted_around() {
        let whole = plan("mkdir a 755\nsleep 20\nsettle 100\n", Some("jffs2")).expect("a plan");
        assert_eq!((whole.commands.len(), whole.wait_milliseconds), (5, 120));
        let sized = plan("mount blocks=64\nsync\n", Some("jffs2")).expect("a plan");
        assert_eq!((sized.commands.len(), sized.blocks_wanted), (2, Some(64)));
    }
}

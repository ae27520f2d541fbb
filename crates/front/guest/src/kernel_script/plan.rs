//! What can be said of a script before a machine is booted for it.

use crate::in_kernel;
use crate::play::LineError;
use script::{ControlLine, Given, Order, Script, ScriptError, Step, blocks_wanted, with_mounts};

/// Blocks of the whole chip that nandsim makes, `nandsim-64MiB`.
pub(crate) const CHIP_BLOCKS: u32 = 512;
/// Longest `sleep` or `settle`: half an hour, for this clock is real.
const MILLISECONDS_MAX: u64 = 30 * 60 * 1000;

/// A script in the form in which a machine carries it out.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) script: Script,
    /// Commands of all passes of its blocks.
    pub(crate) commands: u64,
    /// Blocks of the first `mount blocks=N`.
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
    let parsed = script::parse(text).map_err(|error| {
        let ScriptError { line, column, reason } = error;
        (format!("{line}:{column}"), reason)
    })?;
    let script = with_mounts(&parsed);
    let mut order = Order::new(file_system.map(|name| {
        let is_over_ubi = in_kernel::is_over_ubi(name);
        Given { name, is_over_ubi }
    }));
    // The line is named before a machine is booted: a boot takes seconds, and minutes without KVM.
    let surveyed = script.survey(&mut order, &mut |order, command| {
        let checked = check(&command.step, file_system).and_then(|()| order.step(&command.step));
        checked.map_err(|reason| Refused(command.place.behind_file(), reason))
    });
    surveyed.map_err(|Refused(place, reason)| (place, reason))?;
    for (place, _, duration_ms) in script.timed_blocks() {
        check_time(duration_ms).map_err(|reason| (place.behind_file(), reason))?;
    }
    let extent = script.extent();
    let blocks_wanted = blocks_wanted(&script);
    let (commands, wait_milliseconds) = (extent.commands, extent.wait_milliseconds);
    Ok(Plan { script, commands, blocks_wanted, wait_milliseconds })
}

/// A line that is refused: its place behind the name of the file, and why.
struct Refused(String, String);

impl From<ScriptError> for Refused {
    fn from(error: ScriptError) -> Self {
        Self(format!("{}:{}", error.line, error.column), error.reason)
    }
}

fn check_time(milliseconds: u64) -> Result<(), String> {
    if milliseconds > MILLISECONDS_MAX {
        return Err(format!("{milliseconds} ms is more than half an hour of a real clock"));
    }
    Ok(())
}

/// Whether the kernel and its machine have what a line asks for.
fn check(step: &Step, given: Option<&str>) -> Result<(), String> {
    match step {
        Step::Control(ControlLine::Mount { file_system, source, .. }) => {
            in_kernel::check(file_system)?;
            in_kernel::check_source(file_system, source)?;
        }
        Step::Control(ControlLine::MountGiven { .. }) => {
            in_kernel::check(
                given.ok_or("which file system is mounted? give --fs: jffs2, ubifs")?,
            )?;
        }
        Step::Control(ControlLine::Snap(name) | ControlLine::Save(name)) => {
            file_name(name)?;
        }
        Step::Control(ControlLine::PowerCut) => {
            return Err(
                "the power of a chip within a kernel cannot be cut: `powercut` is carried out \
                        by the simulation only, without --in kernel"
                    .into(),
            );
        }
        Step::Control(line) if line.is_aging() => {
            return Err(
                "the chip of a kernel has no model of bit errors: `age`, `wear` and `scrub` are \
                        carried out by the simulation only, without --in kernel"
                    .into(),
            );
        }
        Step::Control(ControlLine::Settle { milliseconds }) | Step::Sleep { milliseconds } => {
            check_time(*milliseconds)?;
        }
        _ => {}
    }
    Ok(())
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
        let (place, reason) = refused("mount -\n\npowercut\n");
        assert_eq!(place, "3");
        assert!(reason.contains("without --in kernel"));
        let (place, reason) = plan("mount yaffs2 /dev/mtdblock0 -\n", None).expect_err("refused");
        assert_eq!(place, "1");
        assert!(reason.contains("no distribution kernel has YAFFS2"));
        assert_eq!(refused("umount\n").1, "nothing is mounted");
        assert!(refused("mount -\numount\nload a\n").1.contains("snap or save it first"));
        assert!(refused("mount -\nsleep 99999999\n").1.contains("half an hour"));
        assert_eq!(refused("mount -\numount\nmkdir a 755\n").0, "3");
        assert_eq!(refused("mount -\nsnyc\n").0, "2:1");
        assert!(refused("every 1s for 31m {\nsync\n}\n").1.contains("half an hour"));
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
        assert_eq!((whole.commands, whole.wait_milliseconds), (6, 120));
        let sized = plan("mount blocks=64\nsync\n", Some("jffs2")).expect("a plan");
        assert_eq!((sized.commands, sized.blocks_wanted), (2, Some(64)));
    }
}

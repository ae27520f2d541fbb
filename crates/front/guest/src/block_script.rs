//! Scripts of system calls, carried out by the kernel of the machine on a file system on a disk whose
//! bios are being traced.

use crate::kernel_script::calls::Calls;
use crate::kernel_script::run;
use crate::play::{Clock, Ground, LineError, Stage, play};
use script::{Command, ControlLine, Step, with_mounts};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// What a script runs on.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The file system of `mount -`, in the kernel's words.
    pub(crate) file_system: String,
    /// Path of the disk to mount.
    pub(crate) device: String,
    /// Existing directory to mount on.
    pub(crate) mount_point: PathBuf,
    /// File of the trace that takes messages in, if there is a trace; each line is announced there before
    /// it begins.
    pub(crate) marker: Option<PathBuf>,
    /// Where calls that fail are noted, which then do not end the script: LINE, tab, why.
    pub(crate) failures: Option<PathBuf>,
    /// The file of the script.
    pub(crate) file: PathBuf,
}

/// Carries a script out. One that neither mounts nor unmounts is mounted before its first line and
/// unmounted after its last. Access times are not kept.
///
/// # Errors
/// The line that could not be carried out, with its number.
pub(crate) fn carry_out(text: &str, setup: &Setup) -> Result<(), String> {
    let script = script::parse(text).map_err(|error| error.to_string())?;
    let ground = Ground {
        file: setup.file.clone(),
        mount_point: setup.mount_point.clone(),
        keeps_going: setup.failures.is_some(),
        waits: true,
        clock: Clock::begin(),
    };
    let mut disk = Disk { setup, calls: Calls::below(&setup.mount_point) };
    play(&with_mounts(&script), &ground, &mut disk)
        .map_err(|(place, reason)| format!("line {place}: {reason}"))
}

/// The disk under a script.
struct Disk<'a> {
    setup: &'a Setup,
    calls: Calls,
}

impl Stage for Disk<'_> {
    fn command(&mut self, command: &Command) -> Result<(), LineError> {
        self.carry_out(command).map_err(|error| (command.place.behind_file(), error.to_string()))
    }

    fn failed(&mut self, place: &str, reason: &str) -> io::Result<()> {
        match &self.setup.failures {
            Some(failures) => {
                let mut file = OpenOptions::new().append(true).create(true).open(failures)?;
                writeln!(file, "{place}\t{reason}")
            }
            // What `try` lets pass is of no use to a trace.
            None => Ok(()),
        }
    }
}

impl Disk<'_> {
    fn carry_out(&mut self, command: &Command) -> io::Result<()> {
        let setup = self.setup;
        if let Some(marker) = &setup.marker {
            std::fs::write(marker, format!("nandlab line {}", command.place.line))?;
        }
        let mount_point = setup.mount_point.to_string_lossy().into_owned();
        match &command.step {
            Step::Sleep { milliseconds } => {
                sleep(Duration::from_millis(*milliseconds));
                Ok(())
            }
            Step::Control(ControlLine::MountGiven { .. }) => {
                // Without access times: a read would write, and bios of it would stand in the trace.
                let options = ["-t", &setup.file_system, "-o", "noatime", &setup.device];
                let mut arguments: Vec<String> = options.map(str::to_owned).into();
                arguments.push(mount_point);
                run("mount", &arguments)
            }
            Step::Control(ControlLine::Unmount) => run("umount", &[mount_point]),
            Step::Control(ControlLine::DropCaches) => {
                std::fs::write("/proc/sys/vm/drop_caches", "3")
            }
            // What an application relies on is checked where the power can be cut.
            Step::Control(ControlLine::AtRest(_)) => Ok(()),
            Step::Control(line) => {
                Err(io::Error::other(format!("{line:?} is nothing for a disk that is traced")))
            }
            _ => match (self.calls.carry_out(command), setup.failures.is_some()) {
                (Ok(None), _) => Ok(()),
                (Err(reason), false) => Err(io::Error::other(reason)),
                (Ok(Some(reason)) | Err(reason), _) => {
                    self.failed(&command.place.behind_file(), &reason)
                }
            },
        }
    }
}

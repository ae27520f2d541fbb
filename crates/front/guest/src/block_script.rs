//! Scripts of system calls, carried out by the kernel of the machine on a file system on a disk whose
//! bios are being traced.

use crate::kernel_script::{calls, run};
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
}

/// Carries a script out. One that neither mounts nor unmounts is mounted before its first line and
/// unmounted after its last. Access times are not kept.
///
/// # Errors
/// The line that could not be carried out, with its number.
pub(crate) fn carry_out(text: &str, setup: &Setup) -> Result<(), String> {
    let commands = script::parse(text).map_err(|error| error.to_string())?;
    for command in with_mounts(commands) {
        setup.command(&command).map_err(|error| format!("line {}: {error}", command.line))?;
    }
    Ok(())
}

impl Setup {
    fn command(&self, command: &Command) -> io::Result<()> {
        if let Some(marker) = &self.marker {
            std::fs::write(marker, format!("nandlab line {}", command.line))?;
        }
        let mount_point = self.mount_point.to_string_lossy().into_owned();
        match &command.step {
            Step::Sleep { milliseconds } => {
                sleep(Duration::from_millis(*milliseconds));
                Ok(())
            }
            Step::Control(ControlLine::MountGiven { .. }) => {
                // Without access times: a read would write, and bios of it would stand in the trace.
                let options = ["-t", &self.file_system, "-o", "noatime", &self.device];
                let mut arguments: Vec<String> = options.map(str::to_owned).into();
                arguments.push(mount_point);
                run("mount", &arguments)
            }
            Step::Control(ControlLine::Unmount) => run("umount", &[mount_point]),
            Step::Control(ControlLine::DropCaches) => {
                std::fs::write("/proc/sys/vm/drop_caches", "3")
            }
            Step::Control(line) => {
                Err(io::Error::other(format!("{line:?} is nothing for a disk that is traced")))
            }
            step => match (calls::make(&self.mount_point, step), &self.failures) {
                (Err(error), Some(failures)) => {
                    let mut file = OpenOptions::new().append(true).create(true).open(failures)?;
                    writeln!(file, "{}\t{}: {error}", command.line, calls::name(step))
                }
                (Err(error), None) => {
                    Err(io::Error::other(format!("{}: {error}", calls::name(step))))
                }
                (Ok(()), _) => Ok(()),
            },
        }
    }
}

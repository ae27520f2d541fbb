//! Scripts of system calls, carried out by the kernel of this machine in one of its directories.

use crate::kernel_script::calls::Calls;
use crate::play::{Clock, Ground, LineError, Stage, play};
use fs_api::FileType;
use rustix::process::{chroot, getegid, geteuid};
use script::{Command, ControlLine, Script, ScriptError, Step};
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

/// What a script runs in.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The file of the script, an absolute path.
    pub(crate) file: PathBuf,
    /// Existing directory that stands for the mount point.
    pub(crate) directory: PathBuf,
    /// A call that fails is noted and passed over.
    pub(crate) keeps_going: bool,
    /// `sleep` and `every` wait.
    pub(crate) waits: bool,
}

/// Who makes the calls, and how they are kept in the directory.
#[derive(Clone, Copy, Debug)]
struct Maker {
    uid: u32,
    gid: u32,
    /// The directory is the root of the process: no path leads out of it.
    is_confined: bool,
}

/// Carries a script out and prints what became of it, a line each: `failed`, place and reason; `phase`, name,
/// calls and nanoseconds; `refused`, place and reason, if a line ends the script. Columns have tabs between them.
///
/// # Errors
/// The script cannot be read.
pub(crate) fn carry_out(setup: &Setup) -> Result<(), String> {
    let text = std::fs::read_to_string(&setup.file).map_err(|error| error.to_string())?;
    if let Err((place, reason)) = checked_and_played(&text, setup) {
        println!("refused\t{place}\t{reason}");
    }
    Ok(())
}

fn checked_and_played(text: &str, setup: &Setup) -> Result<(), LineError> {
    let script = script::parse(text)
        .map_err(|error| (format!("{}:{}", error.line, error.column), error.reason))?;
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // What is wrong for every maker is told before the process changes its root.
    check(&script, Maker { uid, gid, is_confined: true })?;
    let outside = |error: io::Error| ("0".to_owned(), error.to_string());
    let (file, mount_point, is_confined) = confined(setup).map_err(outside)?;
    check(&script, Maker { uid, gid, is_confined })?;
    rustix::process::umask(rustix::fs::Mode::empty());
    let Setup { keeps_going, waits, .. } = *setup;
    let calls = Calls::below(&mount_point);
    let clock = Clock::begin();
    let ground = Ground { file, mount_point, keeps_going, waits, clock };
    let mut stage = Directory { calls, keeps_going, waits, clock, open: None };
    // A script without phases is one phase.
    let has_phases = script
        .samples()
        .any(|command| matches!(command.step, Step::Control(ControlLine::Phase(Some(_)))));
    if !has_phases {
        stage.phase(Some("script".to_owned()));
    }
    play(&script, &ground, &mut stage)?;
    stage.phase(None);
    Ok(())
}

/// Makes the directory the root of this process, if that is permitted; where script and directory are then.
///
/// Links with absolute targets then lead to the directory, as they lead to the mount point in the simulation.
/// The working directory stays the root of the machine (`ksys_chroot`, `fs/open.c`): relative paths are looked up
/// there. They lead to the script and to this program, which processes of `concurrent` need. The calls of a
/// script have absolute paths alone.
fn confined(setup: &Setup) -> io::Result<(PathBuf, PathBuf, bool)> {
    std::env::set_current_dir("/")?;
    match chroot(&setup.directory) {
        Ok(()) => {
            let file = setup.file.strip_prefix("/").map_err(io::Error::other)?;
            Ok((file.to_owned(), PathBuf::from("/"), true))
        }
        // Without CAP_SYS_CHROOT; paths are restricted then.
        Err(rustix::io::Errno::PERM) => Ok((setup.file.clone(), setup.directory.clone(), false)),
        Err(error) => Err(error.into()),
    }
}

/// A line that is refused: its place behind the name of the file, and why.
struct Refused(String, String);

impl From<ScriptError> for Refused {
    fn from(error: ScriptError) -> Self {
        Self(format!("{}:{}", error.line, error.column), error.reason)
    }
}

fn check(script: &Script, maker: Maker) -> Result<(), LineError> {
    let surveyed = script.survey(&mut (), &mut |(), command| {
        maker.check(&command.step).map_err(|reason| Refused(command.place.behind_file(), reason))
    });
    surveyed.map_err(|Refused(place, reason)| (place, reason))
}

impl Maker {
    /// Whether a directory of this machine has what a step asks for.
    fn check(self, step: &Step) -> Result<(), String> {
        match step {
            // What an application expects is asked after a power cut, and none comes here.
            Step::Control(
                ControlLine::Phase(_)
                | ControlLine::End
                | ControlLine::Workload(_)
                | ControlLine::AtRest(_),
            ) => {}
            Step::Control(_) => {
                return Err(
                    "a directory of this machine has no chip and no mount: leave the line out, \
                            or run the script without --in host"
                        .into(),
                );
            }
            // Whoever opened it would reach a device of this machine. A whiteout leads to none.
            Step::MakeNode {
                kind: FileType::CharacterDevice | FileType::BlockDevice,
                device,
                ..
            } if *device != (0, 0) => {
                return Err(
                    "a device would be one of this machine: only `c 0 0`, a whiteout, is made \
                            with --in host"
                        .into(),
                );
            }
            Step::MakeNode { kind: FileType::BlockDevice, .. } => {
                return Err("a device would be one of this machine; leave the line out".into());
            }
            Step::ChangeOwner { uid, gid, .. }
                if self.uid != 0 && (*uid, *gid) != (self.uid, self.gid) =>
            {
                return Err(format!(
                    "only root gives files to {uid}:{gid}: run as root, or leave the line out"
                ));
            }
            Step::SetAttribute { name, .. }
                if self.uid != 0
                    && [b"trusted.".as_slice(), b"security."]
                        .iter()
                        .any(|begin| name.starts_with(begin)) =>
            {
                return Err(
                    "only root sets attributes of `trusted` and `security`: run as root, or \
                            leave the line out"
                        .into(),
                );
            }
            _ => {}
        }
        if self.is_confined { Ok(()) } else { check_paths(step) }
    }
}

/// Refuses what could lead out of the directory, for a process whose root is that of the machine.
///
/// A path without `..` leads upwards only through a symbolic link. A link without `..`, and with no absolute target,
/// leads downwards wherever it is moved. So both together keep every call below the directory.
fn check_paths(step: &Step) -> Result<(), String> {
    let is_upwards = |path: &[u8]| path.split(|byte| *byte == b'/').any(|part| part == b"..");
    if paths_of(step).into_iter().any(is_upwards) {
        return Err(
            "`..` could lead out of the directory: only root, whose calls have the directory \
                    as their root, may use it"
                .into(),
        );
    }
    match step {
        Step::Symlink { target, .. } if target.starts_with(b"/") => Err(
            "the link would lead out of the directory: only root, whose calls have the directory \
                 as their root, may make one with an absolute target"
                .into(),
        ),
        _ => Ok(()),
    }
}

/// The paths of a step, and the target of a link.
fn paths_of(step: &Step) -> Vec<&[u8]> {
    match step {
        Step::Put { path, .. }
        | Step::PutMany { prefix: path, .. }
        | Step::Append { path, .. }
        | Step::Write { path, .. }
        | Step::RandomWrite { path, .. }
        | Step::Read { path, .. }
        | Step::Fsync { target: path, .. }
        | Step::Truncate { path, .. }
        | Step::Unlink { path }
        | Step::UnlinkMany { prefix: path, .. }
        | Step::MakeDirectory { path, .. }
        | Step::RemoveDirectory { path }
        | Step::ChangeMode { path, .. }
        | Step::ChangeOwner { path, .. }
        | Step::SetTimes { path, .. }
        | Step::MakeNode { path, .. }
        | Step::SetAttribute { path, .. }
        | Step::Allocate { path, .. }
        | Step::Open { path, .. } => vec![path],
        Step::Rename { from, to, .. } | Step::Link { from, to } => vec![from, to],
        Step::Symlink { target, path } => vec![target, path],
        Step::WriteOpen { .. }
        | Step::WriteOpenAt { .. }
        | Step::ReadOpenAt { .. }
        | Step::TruncateOpen { .. }
        | Step::Close { .. }
        | Step::Exit
        | Step::SyncAll
        | Step::Sleep { .. }
        | Step::Control(_) => Vec::new(),
    }
}

/// A phase under way.
struct Phase {
    name: String,
    calls: u64,
    begun_ns: u64,
}

/// The directory in which a script runs.
struct Directory {
    calls: Calls,
    keeps_going: bool,
    waits: bool,
    clock: Clock,
    open: Option<Phase>,
}

impl Stage for Directory {
    fn command(&mut self, command: &Command) -> Result<(), LineError> {
        match &command.step {
            Step::Control(ControlLine::Phase(name)) => self.phase(name.clone()),
            Step::Control(ControlLine::End) => self.phase(None),
            Step::Control(_) => {}
            Step::Sleep { milliseconds } => {
                if self.waits {
                    sleep(Duration::from_millis(*milliseconds));
                }
            }
            _ => {
                let place = command.place.behind_file();
                if let Some(phase) = &mut self.open {
                    phase.calls += 1;
                }
                match self.calls.carry_out(command) {
                    Ok(None) => {}
                    Err(reason) if !self.keeps_going => return Err((place, reason)),
                    Ok(Some(reason)) | Err(reason) => println!("failed\t{place}\t{reason}"),
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, place: &str, reason: &str) -> io::Result<()> {
        println!("failed\t{place}\t{reason}");
        Ok(())
    }
}

impl Directory {
    /// Ends the phase under way, and begins the next one if there is any.
    fn phase(&mut self, next: Option<String>) {
        let now_ns = self.clock.now_ns();
        if let Some(Phase { name, calls, begun_ns }) = self.open.take() {
            println!("phase\t{name}\t{calls}\t{}", now_ns.saturating_sub(begun_ns));
        }
        self.open = next.map(|name| Phase { name, calls: 0, begun_ns: now_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::{Maker, check};

    fn refused(text: &str, maker: Maker) -> (String, String) {
        check(&script::parse(text).expect("a script"), maker).expect_err("refused")
    }

    const ROOT: Maker = Maker { uid: 0, gid: 0, is_confined: true };
    const USER: Maker = Maker { uid: 7, gid: 8, is_confined: false };

    #[test]
    fn lines_for_a_chip_and_devices_are_refused_with_their_place() {
        for line in ["mount -", "umount", "powercut", "cmd rmmod nandsim", "snap a", "load a"] {
            let (place, reason) = refused(&format!("sync\n\n{line}\n"), ROOT);
            assert_eq!(place, "3", "{line}");
            assert!(reason.contains("no chip"), "{line}");
        }
        let (place, _) = refused("for i in 1..9 {\nsettle ${i}s\n}\n", ROOT);
        assert_eq!(place, "2 (i=1)");
        assert!(refused("mknod a 600 b 8 0\n", ROOT).1.contains("one of this machine"));
        assert!(refused("mknod a 600 b 0 0\n", ROOT).1.contains("one of this machine"));
        assert!(refused("mknod a 600 c 1 3\n", USER).1.contains("one of this machine"));
        let kept = "workload w\nphase a\nmknod a 600 c 0 0\nmknod p 600 p\nsleep 1\nend\n";
        for maker in [ROOT, USER] {
            check(&script::parse(kept).expect("a script"), maker).expect("it may run");
        }
    }

    #[test]
    fn what_takes_root_is_refused_for_others() {
        for line in ["chown a 1 1", "setxattr a trusted.x 00", "put ../a 644 0 1 z 0"] {
            assert_eq!(refused(line, USER).0, "1");
            check(&script::parse(line).expect("a script"), ROOT).expect("root may");
        }
        assert!(refused("symlink /etc a\n", USER).1.contains("absolute target"));
        assert!(refused("symlink d/../.. a\n", USER).1.contains("`..`"));
        assert!(refused("rename a d/../../b\n", USER).1.contains("`..`"));
        let kept = "chown a 7 8\nsymlink ..a b\nput /a 644 0 1 z 0\nsetxattr a user.x 00\n";
        check(&script::parse(kept).expect("a script"), USER).expect("it may run");
    }
}

//! Scripts of system calls, carried out by the kernel of the machine on JFFS2 or UBIFS over nandsim.

use crate::in_kernel;
use crate::play::{Clock, Ground, LineError, Stage, play};
use script::{Command, ControlLine, Step};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

pub(crate) mod calls;
mod chip;
mod plan;
pub(crate) mod tree;
mod ubi;

use calls::Calls;
pub(crate) use chip::run;
use chip::{Chip, LogCounts};
pub(crate) use plan::{CHIP_BLOCKS, Plan, plan};
use ubi::Ubi;

/// How long the chip is left alone before it is looked at again.
const LOOK: Duration = Duration::from_millis(20);
/// Times the idle time that is waited for, after which a chip that never rests is given up.
const REST_FACTOR: u64 = 100;
const PROGRESS_LINES: u64 = 50;

/// What a script runs on.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The file system of `mount -`.
    pub(crate) file_system: Option<String>,
    /// Blocks of the partition that is mounted.
    pub(crate) blocks: u32,
    /// Where UBI's volume identifier headers stand if a line does not say so.
    pub(crate) header_offset: Option<u32>,
    /// Existing directory to mount on.
    pub(crate) mount_point: PathBuf,
    /// Existing directory for what the run leaves: `phases.tsv`, `failures.tsv`, `file-system`,
    /// `manifest.tsv`, `end.oob` and the chips that were kept, in `kept`.
    pub(crate) output: PathBuf,
    /// Dump that the chip holds at the beginning.
    pub(crate) image: Option<PathBuf>,
    /// A call that fails is noted and passed over.
    pub(crate) keeps_going: bool,
    /// The file of the script.
    pub(crate) file: PathBuf,
    /// The chip is written to `end.oob` in the end.
    pub(crate) dumps: bool,
}

/// Carries a script out, and writes what it leaves.
///
/// The tree is read after the dump: a file system that was unmounted is mounted once more for it.
///
/// # Errors
/// The line that could not be carried out; line 0 for what comes before and after all lines.
pub(crate) fn carry_out(plan: &Plan, setup: Setup) -> Result<(), LineError> {
    let around = |error: io::Error| ("0".to_owned(), error.to_string());
    let mut chip = Chip::add(setup.blocks).map_err(around)?;
    if let Some(image) = &setup.image {
        chip.load(image).map_err(around)?;
    }
    // A script without phases is one phase, so that its operations are counted, too.
    let has_phases = plan
        .script
        .samples()
        .any(|command| matches!(command.step, Step::Control(ControlLine::Phase(Some(_)))));
    let ground = Ground {
        file: setup.file.clone(),
        mount_point: setup.mount_point.clone(),
        keeps_going: setup.keeps_going,
        waits: true,
        clock: Clock::begin(),
    };
    let ubi = Ubi::new(setup.header_offset);
    let every = plan.commands.div_ceil(PROGRESS_LINES).max(1);
    let mut session = Session {
        calls: Calls::below(&setup.mount_point),
        setup,
        progress: Progress { done: 0, every, of: plan.commands },
        chip,
        ubi,
        has_chip: true,
        mounted: None,
        last_mounted: None,
        open: (!has_phases).then(|| ("script".to_owned(), LogCounts::default())),
        phases: String::from("phase\tread_lines\tprograms\terases\n"),
        failures: String::new(),
    };
    play(&plan.script, &ground, &mut session)?;
    session.finish().map_err(around)
}

/// The mount under way, as its line names it.
#[derive(Clone, Debug)]
struct Mount {
    file_system: String,
    /// The volume, if a line names one.
    volume: Option<String>,
    options: Vec<String>,
    /// The mount attached the chip to UBI, and its end detaches it.
    attaches: bool,
}

/// Commands that were begun.
struct Progress {
    done: u64,
    /// After so many of them it is told how far the script is.
    every: u64,
    of: u64,
}

/// A script under way.
struct Session {
    setup: Setup,
    calls: Calls,
    progress: Progress,
    chip: Chip,
    ubi: Ubi,
    has_chip: bool,
    mounted: Option<Mount>,
    last_mounted: Option<Mount>,
    /// Name of the phase under way, and what was counted when it began.
    open: Option<(String, LogCounts)>,
    phases: String,
    failures: String,
}

impl Stage for Session {
    fn command(&mut self, command: &Command) -> Result<(), LineError> {
        let Progress { done, every, of } = &mut self.progress;
        if done.is_multiple_of(*every) {
            println!("nandlab script {done} {of}");
        }
        *done += 1;
        let place = || command.place.behind_file();
        let at = |error: io::Error| (place(), error.to_string());
        // The kernel's log is a ring: it is emptied before it can run over.
        self.chip.look().map_err(at)?;
        match &command.step {
            Step::Control(line) => self.harness(line).map_err(at),
            Step::Sleep { milliseconds } => {
                sleep(Duration::from_millis(*milliseconds));
                Ok(())
            }
            _ => match self.calls.carry_out(command) {
                Ok(None) => Ok(()),
                Err(reason) if !self.setup.keeps_going => Err((place(), reason)),
                Ok(Some(reason)) | Err(reason) => self.failed(&place(), &reason).map_err(at),
            },
        }
    }

    fn look(&mut self) -> io::Result<()> {
        self.chip.look().map(drop)
    }

    fn failed(&mut self, place: &str, reason: &str) -> io::Result<()> {
        let _ = writeln!(self.failures, "{place}\t{reason}");
        Ok(())
    }
}

impl Session {
    fn harness(&mut self, line: &ControlLine) -> io::Result<()> {
        match line {
            ControlLine::Log(is_counting) => self.chip.count(*is_counting),
            ControlLine::Phase(name) => self.phase(name.clone()),
            ControlLine::End => self.phase(None),
            ControlLine::Mount { file_system, source, options } => self.mount(Mount {
                file_system: file_system.clone(),
                volume: source.strip_prefix("ubi0:").map(str::to_owned),
                options: options.clone(),
                attaches: false,
            }),
            ControlLine::MountGiven { .. } => {
                let file_system = self.setup.file_system.clone().unwrap_or_default();
                let (volume, options) = (None, Vec::new());
                self.mount(Mount { file_system, volume, options, attaches: false })
            }
            ControlLine::Format { sequence, header_offset } => {
                self.ubi.format(*sequence, *header_offset)
            }
            ControlLine::Attach(attach) => self.ubi.attach(attach.header_offset),
            ControlLine::MakeVolume(volume) => Ubi::make_volume(&volume.name),
            ControlLine::Detach => self.ubi.detach(),
            ControlLine::Unmount => match self.calls.open_names().first() {
                // The kernel would say so, too, but not which file it is.
                Some(name) => Err(io::Error::other(format!(
                    "umount: EBUSY: device or resource busy; a file is open as `{name}`: `close {name}` \
                     comes first"
                ))),
                None => self.unmount(),
            },
            ControlLine::DropCaches => std::fs::write("/proc/sys/vm/drop_caches", "3"),
            ControlLine::Settle { milliseconds } => self.wait_until_idle(*milliseconds),
            ControlLine::RemoveChip => self.remove_chip(),
            ControlLine::AddChip => {
                self.has_chip = true;
                self.chip.erased()
            }
            ControlLine::Snap(name) | ControlLine::Save(name) => {
                let path = self.kept(name)?;
                self.chip.dump(&path)
            }
            ControlLine::Load(name) => {
                self.remove_chip()?;
                self.has_chip = true;
                self.chip.erased()?;
                let path = self.kept(name)?;
                self.chip.load(&path)
            }
            // The others were refused before the machine was booted.
            _ => Ok(()),
        }
    }

    /// Ends the phase under way, and begins the next one if there is any.
    fn phase(&mut self, next: Option<String>) -> io::Result<()> {
        let now = self.chip.counts()?;
        if let Some((name, then)) = self.open.take() {
            let LogCounts { read_lines, programs, erases } = now - then;
            let _ = writeln!(self.phases, "{name}\t{read_lines}\t{programs}\t{erases}");
        }
        self.open = next.map(|name| (name, now));
        Ok(())
    }

    fn mount(&mut self, mut mount: Mount) -> io::Result<()> {
        // A line `attach` may have come before; only what the mount attached is detached with it.
        let source = if in_kernel::is_over_ubi(&mount.file_system) {
            mount.attaches = !self.ubi.is_attached();
            if mount.attaches {
                self.ubi.attach(None)?;
            }
            let volume = mount.volume.clone().map_or_else(Ubi::only_volume, Ok)?;
            format!("ubi0:{volume}")
        } else {
            "mtd0".to_owned()
        };
        let mut arguments: Vec<String> = ["-t", &mount.file_system].map(str::to_owned).into();
        if !mount.options.is_empty() {
            arguments.extend(["-o".to_owned(), mount.options.join(",")]);
        }
        arguments.extend([source, self.mount_point()]);
        run("mount", &arguments)?;
        // The first file system decides how the dump of the chip is read, whatever is mounted later.
        let first = self.setup.output.join("file-system");
        if !first.exists() {
            std::fs::write(first, &mount.file_system)?;
        }
        self.mounted = Some(mount);
        Ok(())
    }

    fn unmount(&mut self) -> io::Result<()> {
        run("umount", &[self.mount_point()])?;
        self.last_mounted = self.mounted.take();
        if self.last_mounted.as_ref().is_some_and(|mount| mount.attaches) {
            self.ubi.detach()?;
        }
        Ok(())
    }

    fn mount_point(&self) -> String {
        self.setup.mount_point.to_string_lossy().into_owned()
    }

    fn remove_chip(&mut self) -> io::Result<()> {
        // The last lines of the log belong to the chip that goes.
        self.chip.look()?;
        self.has_chip = false;
        Chip::remove()
    }

    /// Waits until the chip has been idle for so long, from now on.
    fn wait_until_idle(&mut self, milliseconds: u64) -> io::Result<()> {
        let looks = Duration::from_millis(milliseconds).as_millis().div_ceil(LOOK.as_millis());
        let looks = u64::try_from(looks).map_err(io::Error::other)?;
        let mut quiet = 0;
        for _ in 0..looks.saturating_mul(REST_FACTOR) {
            sleep(LOOK);
            quiet = if self.chip.look()? { 0 } else { quiet + 1 };
            if quiet >= looks {
                return Ok(());
            }
        }
        // No time to wait is over at once, and makes no look.
        if looks == 0 {
            return Ok(());
        }
        Err(io::Error::other(format!("the chip was never idle for {milliseconds} ms")))
    }

    fn kept(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.setup.output.join("kept");
        std::fs::create_dir_all(&folder)?;
        plan::file_name(name).map(|file| folder.join(file)).map_err(io::Error::other)
    }

    fn finish(mut self) -> io::Result<()> {
        self.phase(None)?;
        let output = self.setup.output.clone();
        std::fs::write(output.join("phases.tsv"), &self.phases)?;
        std::fs::write(output.join("failures.tsv"), &self.failures)?;
        if !self.has_chip {
            return Ok(());
        }
        if self.setup.dumps {
            self.chip.dump(&output.join("end.oob"))?;
        }
        // After the dump: a mount changes the chip.
        if self.mounted.is_none() {
            let Some(mount) = self.last_mounted.take() else { return Ok(()) };
            if in_kernel::is_over_ubi(&mount.file_system) && !self.ubi.is_attached() {
                self.ubi.attach_again()?;
            }
            self.mount(mount)?;
        }
        let manifest = tree::manifest(Path::new(&self.setup.mount_point))?;
        std::fs::write(output.join("manifest.tsv"), manifest.to_tsv())?;
        self.unmount()
    }
}

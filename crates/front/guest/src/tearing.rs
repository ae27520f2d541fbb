//! Power cuts within the kernel of the machine: a module tears the chip at one operation of a script, the
//! chip is dumped as the cut left it, and the same kernel recovers it. Or a torn chip comes from elsewhere,
//! and is only recovered.

use crate::kernel_script::calls::Calls;
use crate::kernel_script::{run, tree};
use script::{Script, Step};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::thread::sleep;
use std::time::Duration;

/// Bytes of a block of the chip in a dump: 64 pages of 2048 bytes and their spare areas of 64.
const BLOCK_BYTES: u64 = 64 * (2048 + 64);
/// What the module reports, beside whether the power is off.
const PARAMETERS: [&str; 4] = ["counts", "torn_kind", "torn_address", "remaining"];
/// Checks that UBIFS makes of itself while they are switched on (`fs/ubifs/debug.c`).
const CHECKS: [&str; 5] = ["general", "index", "orphans", "lprops", "fs"];

/// What all cases of a run share.
#[derive(Debug)]
pub(crate) struct Setup {
    /// File system to mount: `jffs2` or `ubifs`.
    pub(crate) file_system: String,
    /// Blocks of the partition that is mounted.
    pub(crate) blocks: u32,
    /// Where UBI's volume identifier headers stand.
    pub(crate) header_offset: u32,
    /// File of the kernel module that tears the chip.
    pub(crate) module: PathBuf,
    /// Existing directory to mount on.
    pub(crate) mount_point: PathBuf,
    /// Existing directory for what each case leaves: `ID.oob`, `ID.first`, `ID.second`, `ID.failures`,
    /// `ID.result`, `ID.messages`; and `ID.error` if a step went wrong that must not.
    pub(crate) output: PathBuf,
}

/// A line of a plan.
#[derive(Debug)]
enum Case<'a> {
    /// `tear ID SCRIPT FORMATS REMAINING KINDS SHAPE SEED`: the script is cut; before JFFS2 is mounted,
    /// its clean markers are written if FORMATS is `yes`, and else the mount does so in the background.
    Tear { id: &'a str, script: &'a str, is_formatted: bool, parameters: [&'a str; 4] },
    /// `recover ID DEVICE BLOCK`: the chip is that which lies on the device from that block on.
    Recover { id: &'a str, device: &'a str, block: u64 },
}

impl<'a> Case<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["tear", id, script, formats, remaining, kinds, shape, seed] => Some(Self::Tear {
                id,
                script,
                is_formatted: formats == "yes",
                parameters: [remaining, kinds, shape, seed],
            }),
            ["recover", id, device, block] => {
                Some(Self::Recover { id, device, block: block.parse().ok()? })
            }
            _ => None,
        }
    }
}

/// Carries the cases of a plan out, one a line.
///
/// # Errors
/// A plan that cannot be read. What goes wrong within a case is written beside its other files.
pub(crate) fn carry_out(plan: &str, setup: &Setup) -> Result<(), String> {
    let text = std::fs::read_to_string(plan).map_err(|error| format!("{plan}: {error}"))?;
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    for (number, line) in text.lines().enumerate() {
        let case = Case::of(line).ok_or_else(|| format!("{plan}:{}: {line}", number + 1))?;
        println!("nandlab tear {number}");
        let (id, done) = match case {
            Case::Tear { id, script, is_formatted, parameters } => {
                (id, setup.tear(id, script, is_formatted, parameters))
            }
            Case::Recover { id, device, block } => (id, setup.recover(id, device, block)),
        };
        let mut error = done.err();
        if error.is_some() {
            // The next case begins with a machine like this one did; what was not there to undo fails.
            for undone in ["umount /mnt", "ubidetach -d 0", "rmmod tear"] {
                let (program, arguments) = undone.split_once(' ').unwrap_or((undone, ""));
                let _ = run(program, &words(arguments));
            }
        }
        let removed = run("rmmod", &words("nandsim"));
        error = error.or(removed.err());
        if let Some(error) = error {
            setup.write(id, "error", &format!("{error}\n")).map_err(|error| error.to_string())?;
        }
        setup.write(id, "messages", &messages()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What the kernel has said since this was called last.
fn messages() -> String {
    let said = Program::new("dmesg").arg("-c").output();
    said.map_or_else(
        |error| error.to_string(),
        |said| String::from_utf8_lossy(&said.stdout).into_owned(),
    )
}

impl Setup {
    fn write(&self, id: &str, ending: &str, text: &str) -> io::Result<()> {
        std::fs::write(self.output.join(format!("{id}.{ending}")), text)
    }

    fn command(line: &str) -> io::Result<()> {
        let mut words = line.split(' ').map(str::to_owned);
        let program = words.next().unwrap_or_default();
        run(&program, &words.collect::<Vec<_>>())
    }

    fn is_ubifs(&self) -> bool {
        crate::in_kernel::is_over_ubi(&self.file_system)
    }

    /// Loads nandsim with an erased chip.
    fn add_chip(&self) -> io::Result<()> {
        Self::command(&format!(
            "modprobe nandsim id_bytes=0x20,0xa2,0x00,0x15 parts={}",
            self.blocks
        ))
    }

    fn mount(&self) -> io::Result<()> {
        let source = if self.is_ubifs() { "ubi0_0" } else { "mtd0" };
        Self::command(&format!(
            "mount -t {} {source} {}",
            self.file_system,
            self.mount_point.display()
        ))
    }

    fn unmount(&self) -> io::Result<()> {
        Self::command(&format!("umount {}", self.mount_point.display()))
    }

    fn attach(&self) -> io::Result<()> {
        if !self.is_ubifs() {
            return Ok(());
        }
        Self::command(&format!("ubiattach /dev/ubi_ctrl -m 0 -d 0 -O {}", self.header_offset))
    }

    fn detach(&self) -> io::Result<()> {
        if self.is_ubifs() { Self::command("ubidetach -d 0") } else { Ok(()) }
    }

    fn check_itself(&self, is_on: bool) -> io::Result<()> {
        let value = if is_on { "1" } else { "0" };
        let write = |check| std::fs::write(format!("/sys/kernel/debug/ubifs/chk_{check}"), value);
        if self.is_ubifs() { CHECKS.into_iter().try_for_each(write) } else { Ok(()) }
    }

    /// A new file system, mounted.
    fn make(&self, is_formatted: bool) -> io::Result<()> {
        if self.is_ubifs() {
            Self::command(&format!("ubiformat /dev/mtd0 -q -y -Q 42 -O {}", self.header_offset))?;
            self.attach()?;
            Self::command("ubimkvol /dev/ubi0 -N nandlab -m")?;
        } else if is_formatted {
            Self::command("flash_erase -q -j /dev/mtd0 0 0")?;
        }
        self.mount()
    }

    fn tear(
        &self,
        id: &str,
        script: &str,
        is_formatted: bool,
        [remaining, kinds, shape, seed]: [&str; 4],
    ) -> io::Result<()> {
        let text = std::fs::read_to_string(script)?;
        let parsed = script::parse(&text).map_err(io::Error::other)?;
        self.add_chip()?;
        // The checks read the medium, and would be counted as operations.
        self.check_itself(false)?;
        self.make(is_formatted)?;
        // Only now, so that operations are counted from the script's first line on.
        Self::command(&format!(
            "insmod {} remaining={remaining} kinds={kinds} shape={shape} seed={seed}",
            self.module.display()
        ))?;
        let (last_line, failures) = self.play(&parsed)?;
        // Read before the next line sets it: a script may have ended before the operation to tear.
        let died = is_dead()?;
        std::fs::write(parameter("dead"), "1")?;
        let mut result = format!("last_line={last_line}\nis_cut={died}\n");
        for name in PARAMETERS {
            let value = std::fs::read_to_string(parameter(name))?;
            let _ = writeln!(result, "{name}={}", value.trim());
        }
        self.write(id, "result", &result)?;
        self.write(id, "failures", &failures)?;
        // While the file system is mounted and the chip is dead: an unmount would be no cut.
        let dump = self.output.join(format!("{id}.oob"));
        Self::command(&format!(
            "nanddump -q --oob --noecc --bb=dumpbad /dev/mtd0 -f {}",
            dump.display()
        ))?;
        // Writes of the unmount meet the dead chip, and change nothing of what was dumped.
        self.unmount()?;
        self.detach()?;
        Self::command("rmmod tear")?;
        self.list(id)
    }

    /// Makes the calls of a script until the power is cut: the last line, and the calls that failed.
    fn play(&self, script: &Script) -> io::Result<(usize, String)> {
        let mut failures = String::new();
        let mut last_line = 0;
        let mut calls = Calls::below(&self.mount_point);
        for command in script.commands() {
            last_line = command.place.line;
            if let Step::Sleep { milliseconds } = command.step {
                sleep(Duration::from_millis(milliseconds));
            } else {
                let made = calls.carry_out(&command);
                // The result of a call during which the power was cut has no meaning.
                if let (Ok(Some(reason)) | Err(reason), false) = (made, is_dead()?) {
                    let _ = writeln!(failures, "{}\t{reason}", command.place.behind_file());
                }
            }
            if is_dead()? {
                break;
            }
        }
        Ok((last_line, failures))
    }

    fn recover(&self, id: &str, device: &str, block: u64) -> io::Result<()> {
        self.add_chip()?;
        let image = Path::new("/tmp/recover.oob");
        let mut source = File::open(device)?;
        source.seek(SeekFrom::Start(block * BLOCK_BYTES))?;
        let length = u64::from(self.blocks) * BLOCK_BYTES;
        io::copy(&mut source.take(length), &mut File::create(image)?)?;
        // Blank pages too: `--skip-all-ffs` looks at the data alone, and would leave clean markers out.
        Self::command(&format!("nandwrite -q -o -n /dev/mtd0 {}", image.display()))?;
        self.list(id)
    }

    /// Mounts twice, and lists what each mount shows: the first one recovers, the second one must find
    /// the same.
    fn list(&self, id: &str) -> io::Result<()> {
        self.check_itself(true)?;
        self.attach()?;
        for ending in ["first", "second"] {
            self.mount()?;
            let listed = tree::manifest(&self.mount_point)?;
            self.write(id, ending, &listed.to_tsv())?;
            self.unmount()?;
        }
        self.detach()
    }
}

fn parameter(name: &str) -> PathBuf {
    Path::new("/sys/module/tear/parameters").join(name)
}

fn is_dead() -> io::Result<bool> {
    Ok(std::fs::read_to_string(parameter("dead"))?.starts_with('Y'))
}

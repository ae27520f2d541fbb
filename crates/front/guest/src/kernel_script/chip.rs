//! The chip of the kernel: nandsim, what its log shows, and its contents as dumps.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::{Add, AddAssign, Sub};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::plan::CHIP_BLOCKS;

/// Operations by nandsim's log, a line each. It has a line for the read of a page or a part of it, and
/// another of the same words for each change of the column, so that these are more than the reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogCounts {
    pub(crate) read_lines: u64,
    pub(crate) programs: u64,
    pub(crate) erases: u64,
}

impl Add for LogCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            read_lines: self.read_lines + other.read_lines,
            programs: self.programs + other.programs,
            erases: self.erases + other.erases,
        }
    }
}

impl AddAssign for LogCounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for LogCounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            read_lines: self.read_lines - other.read_lines,
            programs: self.programs - other.programs,
            erases: self.erases - other.erases,
        }
    }
}

/// `O_NONBLOCK` of Linux on x86.
const NONBLOCKING: i32 = 0o4000;
/// Longest record of `/dev/kmsg` (`PRINTK_MESSAGE_MAX`).
const RECORD_BYTES_MAX: usize = 8192;

/// The kernel's log, read from where it ended when this was made.
struct KernelLog {
    file: File,
}

impl KernelLog {
    fn open() -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).custom_flags(NONBLOCKING).open("/dev/kmsg")?;
        // Older records are of the boot, or of another script.
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// Operations that nandsim has logged since the last call.
    fn counts(&mut self) -> io::Result<LogCounts> {
        let mut counts = LogCounts::default();
        let mut record = [0; RECORD_BYTES_MAX];
        loop {
            match self.file.read(&mut record) {
                // A read of `/dev/kmsg` returns one record, never a part of one.
                Ok(length) => counts.add_line(&String::from_utf8_lossy(&record[..length])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(counts),
                // EPIPE: the ring has dropped records that were not read yet (`devkmsg_read`).
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    return Err(io::Error::other(
                        "the kernel's log ran over, and operations of the chip were lost",
                    ));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl LogCounts {
    fn add_line(&mut self, line: &str) {
        let Some((_, what)) = line.split_once("log: ") else { return };
        self.read_lines += u64::from(what.starts_with("read "));
        // nandsim spells it so.
        self.programs += u64::from(what.starts_with("programm "));
        self.erases += u64::from(what.starts_with("erase "));
    }
}

/// A chip of nandsim, of which the partition `mtd0` is used.
pub(crate) struct Chip {
    blocks: u32,
    log: KernelLog,
    counted: LogCounts,
    is_counting: bool,
}

impl Chip {
    /// Loads nandsim with an erased chip of so many blocks.
    pub(crate) fn add(blocks: u32) -> io::Result<Self> {
        let log = KernelLog::open()?;
        let mut chip = Self { blocks, log, counted: LogCounts::default(), is_counting: true };
        chip.erased()?;
        Ok(chip)
    }

    /// Loads nandsim again, after [`Self::remove`].
    pub(crate) fn erased(&mut self) -> io::Result<()> {
        let mut arguments = vec!["nandsim".into(), "id_bytes=0x20,0xa2,0x00,0x15".into()];
        arguments.push("log=1".into());
        if self.blocks < CHIP_BLOCKS {
            arguments.push(format!("parts={}", self.blocks));
        }
        run("modprobe", &arguments)?;
        std::fs::write("/sys/kernel/debug/dynamic_debug/control", "module nandsim +p")?;
        self.forget()
    }

    /// The chip goes, with all it holds.
    pub(crate) fn remove() -> io::Result<()> {
        run("rmmod", &["nandsim".into()])
    }

    /// Operations are counted from now on, or not.
    pub(crate) fn count(&mut self, is_counting: bool) -> io::Result<()> {
        self.counts()?;
        self.is_counting = is_counting;
        Ok(())
    }

    /// Operations that were counted since the beginning.
    pub(crate) fn counts(&mut self) -> io::Result<LogCounts> {
        self.look().map(|_| self.counted)
    }

    /// True if the chip carried out something since it was looked at last.
    pub(crate) fn look(&mut self) -> io::Result<bool> {
        let new = self.log.counts()?;
        if self.is_counting {
            self.counted += new;
        }
        Ok(new != LogCounts::default())
    }

    /// What the harness itself did to the chip is not counted.
    fn forget(&mut self) -> io::Result<()> {
        self.log.counts().map(drop)
    }

    /// Writes data and spare area of every page to a file, bits that are wrong left as they are.
    pub(crate) fn dump(&mut self, to: &Path) -> io::Result<()> {
        self.look()?;
        let to = to.to_string_lossy().into_owned();
        let options = ["-q", "--oob", "--noecc", "--bb=dumpbad", "/dev/mtd0", "-f"];
        run("nanddump", &options.map(str::to_owned).into_iter().chain([to]).collect::<Vec<_>>())?;
        self.forget()
    }

    /// Writes a dump to the chip, which must be erased.
    pub(crate) fn load(&mut self, from: &Path) -> io::Result<()> {
        self.look()?;
        let from = from.to_string_lossy().into_owned();
        let options = ["-q", "-o", "-n", "--skip-all-ffs", "/dev/mtd0"];
        run(
            "nandwrite",
            &options.map(str::to_owned).into_iter().chain([from]).collect::<Vec<_>>(),
        )?;
        self.forget()
    }
}

/// Runs a program of the machine; what it says is the error if it fails.
pub(crate) fn run(program: &str, arguments: &[String]) -> io::Result<()> {
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.trim().lines().last().unwrap_or("it gave no reason").to_owned();
    Err(io::Error::other(format!("{program} failed: {last}")))
}

#[cfg(test)]
mod tests {
    use super::LogCounts;

    #[test]
    fn lines_of_nandsim_are_counted_and_others_are_not() {
        let mut counts = LogCounts::default();
        for line in [
            "7,533,1240,-;[nandsim] log: read page 5\n",
            "7,534,1241,-;[nandsim] log: read OOB of page 5\n",
            "7,535,1242,-;[nandsim] log: programm page 6\n",
            "7,536,1243,-;[nandsim] log: erase sector at address 0x20000\n",
            "6,537,1244,-;jffs2: read page 5\n",
        ] {
            counts.add_line(line);
        }
        assert_eq!(counts, LogCounts { read_lines: 2, programs: 1, erases: 1 });
    }
}

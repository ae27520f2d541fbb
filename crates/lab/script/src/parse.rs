//! The language: what each line of a script may say.

use crate::order::UBI_VOLUME;
use crate::{DataKind, Xorshift};
use fs_api::FileType;
use std::str::SplitAsciiWhitespace;
use thiserror::Error;
use vfs::unescape_path;

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct ScriptError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// When a writer makes its bytes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// No call of its own: write-back brings the bytes to the medium.
    #[default]
    Never,
    /// Before the file is closed.
    AtEnd,
    /// After every call of `write`.
    Each,
}

/// Bytes and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteCall {
    /// Bytes of all calls together.
    pub length: u64,
    /// Bytes of one call; the last one may be shorter.
    pub chunk: u64,
    /// What the bytes are like.
    pub kind: DataKind,
    /// Seed of the bytes; 0 for bytes that the line holds.
    pub seed: u64,
    /// When they are made durable.
    pub sync: Sync,
}

impl WriteCall {
    /// Where each call writes, one behind the other from `first` on. A line may ask for more calls than
    /// memory could list.
    pub fn offsets(&self, first: u64) -> impl Iterator<Item = u64> + use<> {
        let (count, chunk) = (self.length.div_ceil(self.chunk), self.chunk);
        (0..count).map(move |number| first.saturating_add(number * chunk))
    }

    /// Where each of `count` calls writes that `rwrite` makes in a file of `file_bytes`.
    pub fn random_offsets(
        &self,
        count: u64,
        file_bytes: u64,
        place_seed: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let mut places = Xorshift::new(place_seed);
        // 31 bits: of a file with more blocks than that only the first are written.
        let (blocks, chunk) = (file_bytes / self.chunk, self.chunk);
        (0..count).map(move |_| (places.next_number() >> 33) % blocks * chunk)
    }
}

/// The name that `putn` and `unlinkn` make of a prefix and a number.
pub fn numbered(prefix: &[u8], number: u64) -> Vec<u8> {
    // Five digits, so that names sort by number; `numbers` refuses more.
    [prefix, format!("{number:05}").as_bytes()].concat()
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Number of the line, from 1.
    pub line: usize,
    /// What it asks for.
    pub step: Step,
}

/// A system call, a group of them, or a control line. Paths are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the calls the variants are named after"
)]
pub enum Step {
    /// `put`: make or empty a file and write it.
    Put { path: Vec<u8>, permissions: u32, call: WriteCall },
    /// `putn`: the same for many files, numbered in five digits; seeds count up.
    PutMany { prefix: Vec<u8>, numbers: std::ops::Range<u64>, permissions: u32, call: WriteCall },
    /// `append`: write to the end of a file.
    Append { path: Vec<u8>, call: WriteCall },
    /// `write`: write from an offset on.
    Write { path: Vec<u8>, offset: u64, call: WriteCall },
    /// `rwrite`: write blocks at random places; `call.length` is all bytes, `call.chunk` a block.
    RandomWrite { path: Vec<u8>, count: u64, file_bytes: u64, place_seed: u64, call: WriteCall },
    /// `read`: read a file in pieces, from `offset` on, `length` bytes or to its end.
    Read { path: Vec<u8>, chunk: u64, offset: u64, length: Option<u64> },
    /// `fsync` and `fdatasync`: makes one file durable.
    Fsync { path: Vec<u8> },
    /// `sync`: makes all files durable.
    SyncAll,
    /// `truncate`: sets the length of a file.
    Truncate { path: Vec<u8>, size: u64 },
    /// `rename`: moves a name.
    Rename { from: Vec<u8>, to: Vec<u8> },
    /// `link`: gives a file another name.
    Link { from: Vec<u8>, to: Vec<u8> },
    /// `symlink`: makes a symbolic link.
    Symlink { target: Vec<u8>, path: Vec<u8> },
    /// `unlink`: removes the name of a file.
    Unlink { path: Vec<u8> },
    /// `unlinkn`: removes the names of numbered files.
    UnlinkMany { prefix: Vec<u8>, numbers: std::ops::Range<u64> },
    /// `mkdir`: makes a directory.
    MakeDirectory { path: Vec<u8>, permissions: u32 },
    /// `rmdir`: removes an empty directory.
    RemoveDirectory { path: Vec<u8> },
    /// `chmod`: sets permission bits.
    ChangeMode { path: Vec<u8>, permissions: u32 },
    /// `chown`, of a symbolic link itself.
    ChangeOwner { path: Vec<u8>, uid: u32, gid: u32 },
    /// `utime`: sets the times of access and modification.
    SetTimes { path: Vec<u8>, accessed: i64, modified: i64 },
    /// `mknod`: makes a device, pipe or socket.
    MakeNode { path: Vec<u8>, permissions: u32, kind: FileType, device: (u32, u32) },
    /// `setxattr`: sets an extended attribute.
    SetAttribute { path: Vec<u8>, name: Vec<u8>, value: Vec<u8> },
    /// `sleep`: nothing happens for so many milliseconds.
    Sleep { milliseconds: u64 },
    /// Anything that is no system call.
    Control(ControlLine),
}

/// How `ubiattach` attaches the chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// `-O`: offset of the volume-identifier header.
    pub header_offset: Option<u32>,
}

/// The volume that `ubimkvol` makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// `-N`: its name. It takes all space there is (`-m`).
    pub name: String,
}

/// Lines that control the run itself: mounts, phases, chips that are kept and exchanged. The process of the
/// script makes no call for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlLine {
    /// `log on`, `log off`: chip operations are counted, or not.
    Log(bool),
    /// `workload NAME`: the workload begins.
    Workload(String),
    /// `phase NAME`: counters start for a phase; `phase -` stops them.
    Phase(Option<String>),
    /// `end`: closes the last phase.
    End,
    /// `mount TYPE SOURCE OPTIONS`: mounts; options are the kernel's, without any for `-`.
    Mount {
        /// `jffs2`, `yaffs2` or `ubifs`.
        file_system: String,
        /// `mtd0`, `/dev/mtdblock0` or `ubi0:NAME`.
        source: String,
        /// Options, divided by commas.
        options: Vec<String>,
    },
    /// `mount -` and `mount blocks=N`: mounts what the command line says, on so many blocks.
    MountGiven {
        /// Blocks of the chip.
        blocks: Option<u32>,
    },
    /// `umount`: ends the mount in an orderly way.
    Unmount,
    /// `drop`: the page cache forgets what is clean.
    DropCaches,
    /// `settle MS`: waits until the chip has been idle so long.
    Settle {
        /// How long the chip must be idle, in milliseconds.
        milliseconds: u64,
    },
    /// `cmd ubiformat /dev/mtd0 -q -y -Q N [-O N]`.
    Format {
        /// `-Q`: the image sequence number.
        sequence: u32,
        /// `-O`: offset of the volume-identifier header.
        header_offset: Option<u32>,
    },
    /// `cmd ubiattach -m 0 -d 0 [-O N] /dev/ubi_ctrl`.
    Attach(Attach),
    /// `cmd ubimkvol /dev/ubi0 -N NAME -m`.
    MakeVolume(Volume),
    /// `cmd ubidetach -d 0`: UBI lets go of the chip.
    Detach,
    /// `cmd rmmod nandsim`: the chip is gone.
    RemoveChip,
    /// `cmd modprobe nandsim …`: an erased chip.
    AddChip,
    /// `snap NAME`: the chip's contents at this moment, under a name.
    Snap(String),
    /// `save NAME N`: the same.
    Save(String),
    /// `load NAME`: an erased chip receives contents that were kept.
    Load(String),
    /// `powercut`: the supply fails between two operations, and comes back.
    PowerCut,
}

/// Reads a script. Empty lines and those that begin with `#` are left out.
///
/// # Errors
/// The first line that is none, with its number. Nothing is ever passed to a shell: a `cmd` that is
/// not one of those of the language is refused.
pub fn parse(text: &str) -> Result<Vec<Command>, ScriptError> {
    let mut commands = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line_text = line.trim();
        if line_text.is_empty() || line_text.starts_with('#') {
            continue;
        }
        let line = number + 1;
        let mut words = Words { words: line_text.split_ascii_whitespace() };
        let step = words.step().map_err(|reason| ScriptError { line, reason })?;
        commands.push(Command { line, step });
    }
    Ok(commands)
}

const CALLS: &[&str] = &[
    "append",
    "chmod",
    "chown",
    "cmd",
    "drop",
    "end",
    "fdatasync",
    "fsync",
    "link",
    "load",
    "log",
    "mkdir",
    "mknod",
    "mount",
    "phase",
    "powercut",
    "put",
    "putn",
    "read",
    "rename",
    "rmdir",
    "rwrite",
    "save",
    "setxattr",
    "settle",
    "sleep",
    "snap",
    "symlink",
    "sync",
    "truncate",
    "umount",
    "unlink",
    "unlinkn",
    "utime",
    "workload",
    "write",
];

/// The words of a line that are left.
struct Words<'a> {
    words: SplitAsciiWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn step(&mut self) -> Result<Step, String> {
        let call = self.word("a call")?;
        let step = match call {
            "put" => {
                let (path, permissions) = (self.path()?, self.octal("the mode")?);
                Step::Put { path, permissions, call: self.write_call()? }
            }
            "putn" => {
                let prefix = self.path()?;
                let numbers = self.numbers()?;
                let permissions = self.octal("the mode")?;
                Step::PutMany { prefix, numbers, permissions, call: self.write_call()? }
            }
            "append" => Step::Append { path: self.path()?, call: self.write_call()? },
            "write" => {
                let (path, offset) = (self.path()?, self.size("the offset")?);
                Step::Write { path, offset, call: self.write_call()? }
            }
            "rwrite" => self.random_write()?,
            "read" => self.read()?,
            // One step for both: recorded results of scripts have it so. A kernel's `fdatasync` may leave an
            // inode unwritten (`ubifs_fsync`), as `Vfs::fdatasync` does.
            "fsync" | "fdatasync" => Step::Fsync { path: self.path()? },
            "sync" => Step::SyncAll,
            "truncate" => Step::Truncate { path: self.path()?, size: self.size("the size")? },
            "rename" => Step::Rename { from: self.path()?, to: self.path()? },
            "link" => Step::Link { from: self.path()?, to: self.path()? },
            "symlink" => Step::Symlink { target: self.path()?, path: self.path()? },
            "unlink" => Step::Unlink { path: self.path()? },
            "unlinkn" => Step::UnlinkMany { prefix: self.path()?, numbers: self.numbers()? },
            "mkdir" => {
                Step::MakeDirectory { path: self.path()?, permissions: self.octal("the mode")? }
            }
            "rmdir" => Step::RemoveDirectory { path: self.path()? },
            "chmod" => {
                Step::ChangeMode { path: self.path()?, permissions: self.octal("the mode")? }
            }
            "chown" => Step::ChangeOwner {
                path: self.path()?,
                uid: self.number("the user")?,
                gid: self.number("the group")?,
            },
            "utime" => Step::SetTimes {
                path: self.path()?,
                accessed: self.number("the time of access")?,
                modified: self.number("the time of modification")?,
            },
            "mknod" => self.make_node()?,
            "setxattr" => {
                Step::SetAttribute { path: self.path()?, name: self.path()?, value: self.bytes()? }
            }
            "sleep" => Step::Sleep { milliseconds: self.number("milliseconds")? },
            _ => Step::Control(self.control(call)?),
        };
        // A word that was passed over could be an option that was meant.
        match self.words.next() {
            None => Ok(step),
            Some(word) => Err(format!("`{word}` is one word too many after `{call}`")),
        }
    }

    fn read(&mut self) -> Result<Step, String> {
        let (path, chunk) = (self.path()?, self.chunk()?);
        let (offset, length) = match self.optional_size("the offset")? {
            Some(offset) => (offset, Some(self.size("the length")?)),
            None => (0, None),
        };
        Ok(Step::Read { path, chunk, offset, length })
    }

    fn random_write(&mut self) -> Result<Step, String> {
        let path = self.path()?;
        let count: u64 = self.number("the count")?;
        let chunk = self.chunk()?;
        let file_bytes = self.size("the size of the file")?;
        // Places are remainders by the number of blocks, which must not be 0.
        if file_bytes < chunk {
            return Err(format!("a file of {file_bytes} bytes holds no block of {chunk}"));
        }
        let place_seed = self.number("the seed of the places")?;
        let length = count.checked_mul(chunk).ok_or("more bytes than there are numbers")?;
        let (kind, seed) = self.data(length)?;
        let call = WriteCall { length, chunk, kind, seed, sync: self.sync()? };
        Ok(Step::RandomWrite { path, count, file_bytes, place_seed, call })
    }

    fn make_node(&mut self) -> Result<Step, String> {
        let (path, permissions) = (self.path()?, self.octal("the mode")?);
        let kind = match self.word("the kind")? {
            "c" => FileType::CharacterDevice,
            "b" => FileType::BlockDevice,
            "p" => FileType::Fifo,
            "s" => FileType::Socket,
            other => return Err(format!("the kind is `{other}`, but must be c, b, p or s")),
        };
        // Only devices have a number (`init_special_inode`).
        let device = if kind.is_device() {
            (self.number("the major number")?, self.number("the minor number")?)
        } else {
            (0, 0)
        };
        Ok(Step::MakeNode { path, permissions, kind, device })
    }

    fn control(&mut self, call: &str) -> Result<ControlLine, String> {
        Ok(match call {
            "log" => match self.word("`on` or `off`")? {
                "on" => ControlLine::Log(true),
                "off" => ControlLine::Log(false),
                other => return Err(format!("log is `{other}`, but must be on or off")),
            },
            "workload" => ControlLine::Workload(self.word("a name")?.to_owned()),
            "phase" => match self.word("a name")? {
                "-" => ControlLine::Phase(None),
                name => ControlLine::Phase(Some(name.to_owned())),
            },
            "end" => ControlLine::End,
            "mount" => self.mount()?,
            "umount" => ControlLine::Unmount,
            "drop" => ControlLine::DropCaches,
            "settle" => ControlLine::Settle { milliseconds: self.number("milliseconds")? },
            "cmd" => self.program()?,
            "snap" => ControlLine::Snap(self.word("a name")?.to_owned()),
            "save" => {
                let name = self.word("a name")?.to_owned();
                // How many copies the recording program kept: they are alike here.
                let _: u32 = self.number("the number of copies")?;
                ControlLine::Save(name)
            }
            "load" => ControlLine::Load(self.word("a name")?.to_owned()),
            "powercut" => ControlLine::PowerCut,
            other => {
                return Err(match suggestion::nearest(other, CALLS.iter().copied()) {
                    Some(known) => format!("`{other}` is no call; did you mean `{known}`?"),
                    None => format!("`{other}` is no call; there are {}", CALLS.join(", ")),
                });
            }
        })
    }

    fn mount(&mut self) -> Result<ControlLine, String> {
        let first = self.word("a file system, `-` or blocks=N")?;
        if first == "-" {
            return Ok(ControlLine::MountGiven { blocks: None });
        }
        if let Some(blocks) = first.strip_prefix("blocks=") {
            let blocks =
                blocks.parse().map_err(|_| format!("`blocks={blocks}` needs a whole number"))?;
            return Ok(ControlLine::MountGiven { blocks: Some(blocks) });
        }
        let source = self.word("what is mounted")?;
        // Which file system lies where is said by the table of file systems, which whoever carries the line
        // out has.
        let is_volume = source.strip_prefix(UBI_VOLUME).is_some_and(|name| !name.is_empty());
        if !is_volume && !["mtd0", "/dev/mtdblock0"].contains(&source) {
            return Err(format!(
                "`{source}` cannot be mounted: write `mount jffs2 mtd0 -`, `mount yaffs2 /dev/mtdblock0 -` \
                 or `mount ubifs ubi0:NAME OPTIONS`"
            ));
        }
        let options = match self.word("options, or `-`")? {
            "-" => Vec::new(),
            options => options.split(',').map(str::to_owned).collect(),
        };
        Ok(ControlLine::Mount { file_system: first.to_owned(), source: source.to_owned(), options })
    }

    /// The few programs of the language, each in the forms that are carried out.
    fn program(&mut self) -> Result<ControlLine, String> {
        let mut words: Vec<&str> = self.words.by_ref().collect();
        // Programs print nothing here, so there is nothing to silence.
        if words.last() == Some(&">/dev/null") {
            words.pop();
        }
        let number = |word: &str| word.parse::<u32>().ok();
        // `-Q` must be given: without it ubiformat draws the image sequence number.
        let parsed = match words.as_slice() {
            ["ubiformat", "/dev/mtd0", "-q", "-y", "-Q", sequence] => number(sequence)
                .map(|sequence| ControlLine::Format { sequence, header_offset: None }),
            ["ubiformat", "/dev/mtd0", "-q", "-y", "-Q", sequence, "-O", offset] => {
                number(sequence).zip(number(offset)).map(|(sequence, offset)| ControlLine::Format {
                    sequence,
                    header_offset: Some(offset),
                })
            }
            ["ubiattach", "-m", "0", "-d", "0", "/dev/ubi_ctrl"] => {
                Some(ControlLine::Attach(Attach::default()))
            }
            ["ubiattach", "-m", "0", "-d", "0", "-O", offset, "/dev/ubi_ctrl"] => number(offset)
                .map(|offset| ControlLine::Attach(Attach { header_offset: Some(offset) })),
            // `-m` gives the volume all space that there is.
            ["ubimkvol", "/dev/ubi0", "-N", name, "-m"] => {
                Some(ControlLine::MakeVolume(Volume { name: (*name).to_owned() }))
            }
            ["ubidetach", "-d", "0"] => Some(ControlLine::Detach),
            ["rmmod", "nandsim"] => Some(ControlLine::RemoveChip),
            ["modprobe", "nandsim", ..] => Some(ControlLine::AddChip),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!(
                "`cmd {}` is not carried out: only ubiformat, ubiattach, ubimkvol, ubidetach, rmmod \
                 nandsim and modprobe nandsim are known, in the forms that the manual shows",
                words.join(" ")
            )
        })
    }

    fn write_call(&mut self) -> Result<WriteCall, String> {
        let (length, chunk) = (self.size("the length")?, self.chunk()?);
        let (kind, seed) = self.data(length)?;
        Ok(WriteCall { length, chunk, kind, seed, sync: self.sync()? })
    }

    /// The kind of the bytes with their seed, or the bytes of the line themselves, `length` of them.
    fn data(&mut self, length: u64) -> Result<(DataKind, u64), String> {
        let letter = self.word("the kind of data")?;
        if letter == "h" {
            let bytes = self.bytes()?;
            // What is missing could not be told from what was cut off.
            if bytes.len() as u64 != length {
                return Err(format!("the length is {length}, but there are {} bytes", bytes.len()));
            }
            return Ok((DataKind::Given(bytes.into()), 0));
        }
        let kind = DataKind::from_letter(letter).ok_or_else(|| {
            format!("the kind of data is `{letter}`, but must be x, t, r, z or h")
        })?;
        Ok((kind, self.number("the seed of the data")?))
    }

    fn sync(&mut self) -> Result<Sync, String> {
        match self.words.next() {
            None => Ok(Sync::Never),
            Some("fsync") => Ok(Sync::AtEnd),
            Some("fsynceach") => Ok(Sync::Each),
            Some(other) => Err(format!("`{other}` must be fsync or fsynceach")),
        }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.words.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn path(&mut self) -> Result<Vec<u8>, String> {
        let word = self.word("a path")?;
        unescape_path(word)
            .ok_or_else(|| format!("`{word}`: write bytes as %XX, and a percent sign as %25"))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let word = self.word("the value")?;
        let wrong = || format!("`{word}` is no value in hexadecimal");
        // Cutting a letter of several bytes in two would panic.
        if !word.len().is_multiple_of(2) || !word.is_ascii() {
            return Err(wrong());
        }
        (0..word.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&word[at..at + 2], 16).map_err(|_| wrong()))
            .collect()
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.word(what)?;
        word.parse().map_err(|_| format!("{what} is `{word}`, but must be a whole number"))
    }

    fn numbers(&mut self) -> Result<std::ops::Range<u64>, String> {
        let range = self.number("the first number")?..self.number("the number after the last")?;
        if range.end > 100_000 {
            return Err("numbers have five digits: they end below 100000".to_owned());
        }
        Ok(range)
    }

    fn octal(&mut self, what: &str) -> Result<u32, String> {
        let word = self.word(what)?;
        u32::from_str_radix(word, 8)
            .ok()
            .filter(|mode| *mode <= 0o7777)
            .ok_or_else(|| format!("{what} is `{word}`, but must be octal, at most 7777"))
    }

    fn optional_size(&mut self, what: &str) -> Result<Option<u64>, String> {
        self.words.next().map(|word| size_of(word, what)).transpose()
    }

    /// Decimal bytes, with k or m.
    fn size(&mut self, what: &str) -> Result<u64, String> {
        size_of(self.word(what)?, what)
    }

    fn chunk(&mut self) -> Result<u64, String> {
        // The bytes of a call are memory of this program.
        match self.size("the size of a call")? {
            0 => Err("the size of a call must not be 0".to_owned()),
            size if size > 1 << 30 => Err("the size of a call is more than 1 GiB".to_owned()),
            size => Ok(size),
        }
    }
}

/// Decimal bytes, with k or m.
fn size_of(word: &str, what: &str) -> Result<u64, String> {
    let (digits, shift) = match word.strip_suffix('k') {
        Some(digits) => (digits, 10),
        None => word.strip_suffix('m').map_or((word, 0), |digits| (digits, 20)),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("{what} is `{word}`, but must be bytes, with k or m"))
}

#[cfg(test)]
mod tests {
    use super::{ControlLine, DataKind, Step, Sync, parse};

    fn refused(text: &str) -> String {
        parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn lines_become_steps_with_their_numbers() {
        let script = "# a comment\n\nput a%20b 644 1k 4096 x 7 fsync\nphase -\n";
        let commands = parse(script).expect("a script");
        assert_eq!(commands.iter().map(|command| command.line).collect::<Vec<_>>(), [3, 4]);
        let Step::Put { path, permissions, call } = &commands[0].step else { panic!("a put") };
        assert_eq!((path.as_slice(), *permissions), (b"a b".as_slice(), 0o644));
        assert_eq!((call.length, call.sync), (1024, Sync::AtEnd));
        assert_eq!(commands[1].step, Step::Control(ControlLine::Phase(None)));
    }

    #[test]
    fn bytes_stand_in_a_line_and_reads_may_be_of_a_part() {
        let script =
            "write a 1k 3 2 h 00fF7a fsync\nputn b 0 2 600 0 1 h\nread a 4k\nread a 4k 8k 5\n";
        assert_eq!(refused(script), "line 2: the value is missing");
        let commands = parse(&script.replace(" 0 1 h", " 1 1 h 61")).expect("a script");
        let Step::Write { call, .. } = &commands[0].step else { panic!("a write") };
        assert_eq!(call.kind, DataKind::Given([0, 0xff, 0x7a].into()));
        assert_eq!((call.length, call.chunk, call.sync), (3, 2, Sync::AtEnd));
        let parts = commands[2..].iter().map(|command| match command.step {
            Step::Read { offset, length, .. } => (offset, length),
            _ => panic!("a read"),
        });
        assert_eq!(parts.collect::<Vec<_>>(), [(0, None), (8192, Some(5))]);
    }

    #[test]
    fn what_is_no_line_is_refused_with_a_reason() {
        assert_eq!(refused("unlnk a"), "line 1: `unlnk` is no call; did you mean `unlink`?");
        assert!(refused("sync\nput a 999 1 1 x 1").starts_with("line 2: the mode is `999`"));
        assert!(refused("put a 644 1 0 x 1").contains("must not be 0"));
        assert!(refused("write a 0 4 4 h 0102").contains("the length is 4, but there are 2 bytes"));
        assert!(refused("write a 0 2 2 h 010").contains("hexadecimal"));
        assert!(refused("write a 0 2 2 q 1").contains("x, t, r, z or h"));
        assert!(refused("read a 4k 8k").contains("the length is missing"));
        assert!(refused("read a 4k 8k much").contains("the length is `much`"));
        assert!(refused("unlink a b").contains("one word too many"));
        assert!(refused("unlink a%2").contains("%XX"));
        assert!(refused("setxattr a user.b 123").contains("hexadecimal"));
        assert!(refused("mount ext4 /dev/sda -").contains("`/dev/sda` cannot be mounted"));
        assert!(refused("cmd rm -rf /").contains("is not carried out"));
        assert!(refused("cmd ubiformat /dev/mtd0 -q -y -Q 42; reboot").contains("is not carried"));
    }
}

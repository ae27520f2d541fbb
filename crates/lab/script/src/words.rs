//! The words of a command, read as a step.

use crate::DataKind;
use crate::aging::{RATED_CELSIUS, aged_milliseconds, celsius_of};
use crate::commands::{COMMANDS, Group};
use crate::rest::{Expect, RestLine, file_expectation};
use crate::step::{
    AllocateMode, Attach, ControlLine, OpenData, OpenFlags, OpenSync, Step, Sync, UBI_VOLUME,
    Volume, WriteCall,
};
use crate::times::duration_of;
use fs_api::FileType;
use std::slice::Iter;
use vfs::{RenameMode, unescape_path};

/// A word of a script, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// Number of its first character in the line, from 1.
    pub(crate) column: usize,
}

impl Word {
    /// The column behind it, where a word that is missing would stand.
    pub(crate) fn end(&self) -> usize {
        self.column + self.text.chars().count() + 1
    }
}

/// Reads the words of a command as a step.
///
/// # Errors
/// Column and reason.
pub(crate) fn step_of(words: &[Word]) -> Result<Step, (usize, String)> {
    let end = words.last().map_or(1, Word::end);
    let mut reader = Words { rest: words.iter(), at: 1, end };
    reader.step().map_err(|reason| (reader.at, reason))
}

/// The words of a line that are left.
struct Words<'a> {
    rest: Iter<'a, Word>,
    /// Column of the word that was read last, or behind the last word if one is missing.
    at: usize,
    end: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.rest.next()?;
        self.at = word.column;
        Some(&word.text)
    }

    // Longer than a screen: one arm a call of the language.
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
            // By its number of words: a path has an offset and a chunk more.
            "write" if self.rest.len() == 4 => {
                Step::WriteOpen { name: self.name()?, data: self.open_data()? }
            }
            "write" => {
                let (path, offset) = (self.path()?, self.size("the offset")?);
                Step::Write { path, offset, call: self.write_call()? }
            }
            "rwrite" => self.random_write()?,
            "read" => self.read()?,
            // One step for both: recorded results of scripts have it so. A kernel's `fdatasync` may leave an
            // inode unwritten (`ubifs_fsync`), as `Vfs::fdatasync` does.
            "fsync" | "fdatasync" => {
                Step::Fsync { target: self.path()?, is_data_only: call == "fdatasync" }
            }
            "sync" => Step::SyncAll,
            "truncate" => Step::Truncate { path: self.path()?, size: self.size("the size")? },
            "rename" => {
                let (from, to) = (self.path()?, self.path()?);
                Step::Rename { from, to, mode: self.rename_mode()? }
            }
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
            "fallocate" => {
                let (path, offset) = (self.path()?, self.size("the offset")?);
                let length = self.size("the length")?;
                Step::Allocate { path, offset, length, mode: self.allocate_mode()? }
            }
            "open" => {
                let (name, path) = (self.name()?, self.path()?);
                Step::Open { name, path, flags: self.open_flags()? }
            }
            "pwrite" => {
                let (name, offset) = (self.name()?, self.size("the offset")?);
                Step::WriteOpenAt { name, offset, data: self.open_data()? }
            }
            "pread" => {
                let (name, offset) = (self.name()?, self.size("the offset")?);
                Step::ReadOpenAt { name, offset, length: self.call_bytes("the length")? }
            }
            "ftruncate" => Step::TruncateOpen { name: self.name()?, size: self.size("the size")? },
            "close" => Step::Close { name: self.name()? },
            "sleep" => Step::Sleep { milliseconds: self.milliseconds()? },
            _ => Step::Control(self.control(call)?),
        };
        // A word that was passed over could be an option that was meant.
        match self.next() {
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
            "settle" => ControlLine::Settle { milliseconds: self.milliseconds()? },
            "age" => self.age()?,
            "wear" => ControlLine::Wear { cycles: self.number("the number of cycles")? },
            "scrub" => ControlLine::Scrub,
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
            "expect" => ControlLine::AtRest(RestLine::Expect(self.expectation()?)),
            "expect-tree" => {
                let name = self.word("the name of a tree")?.to_owned();
                ControlLine::AtRest(RestLine::Expect(Expect::Tree(name)))
            }
            "tree" => ControlLine::AtRest(RestLine::Tree(self.word("a name")?.to_owned())),
            "ack" => {
                ControlLine::AtRest(RestLine::Acknowledge(self.number("the number of the step")?))
            }
            other => return Err(unknown(other)),
        })
    }

    /// `age 3 years at 55C`, or `age 90d`.
    fn age(&mut self) -> Result<ControlLine, String> {
        let first = self.word("the duration")?;
        // A number alone has its unit in the next word.
        let milliseconds = if first.bytes().all(|byte| byte.is_ascii_digit()) {
            let unit = self.word("the unit of the duration")?;
            aged_milliseconds(first, unit)?
        } else {
            let digits = first.bytes().take_while(u8::is_ascii_digit).count();
            let (number, unit) = first.split_at(digits);
            aged_milliseconds(number, unit)?
        };
        let celsius = match self.next() {
            None => RATED_CELSIUS,
            Some("at") => celsius_of(self.word("the temperature")?)?,
            Some(other) => {
                let hint = suggestion::hint(other, ["at"]);
                return Err(format!("`{other}` stands where `at` must{hint}"));
            }
        };
        Ok(ControlLine::Age { milliseconds, celsius })
    }

    fn expectation(&mut self) -> Result<Expect, String> {
        // All words at once: their number tells what the first of them means.
        let (mut words, mut columns) = (Vec::new(), Vec::new());
        while let Some(word) = self.rest.as_slice().first() {
            words.push((word.text.as_str(), self.path()?));
            columns.push(self.at);
        }
        file_expectation(&words).map_err(|(wrong, reason)| {
            self.at = columns.get(wrong).copied().unwrap_or(self.end);
            reason
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
        let mut words: Vec<&str> = self.rest.by_ref().map(|word| word.text.as_str()).collect();
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
            let bytes = self.bytes_and_runs(length)?;
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

    /// Bytes of one call to an open file.
    fn open_data(&mut self) -> Result<OpenData, String> {
        // One call: unlike `put`, these lines are no groups of calls.
        let length = self.call_bytes("the length")?;
        let (kind, seed) = self.data(length)?;
        Ok(OpenData { length, kind, seed })
    }

    fn rename_mode(&mut self) -> Result<RenameMode, String> {
        Ok(match self.next() {
            None => RenameMode::Replace,
            Some("noreplace") => RenameMode::NoReplace,
            Some("exchange") => RenameMode::Exchange,
            Some("whiteout") => RenameMode::Whiteout,
            Some(word) => return Err(format!("`{word}` must be noreplace, exchange or whiteout")),
        })
    }

    fn allocate_mode(&mut self) -> Result<AllocateMode, String> {
        Ok(match self.next() {
            None => AllocateMode::Grow,
            Some("keep-size") => AllocateMode::KeepSize,
            Some("punch-hole") => AllocateMode::PunchHole,
            Some(word) => return Err(format!("`{word}` must be keep-size or punch-hole")),
        })
    }

    /// Flags of open(2), divided by commas, and the mode behind them if a file may be made.
    fn open_flags(&mut self) -> Result<OpenFlags, String> {
        // One word, as the flags of open(2) are one argument.
        let text = self.word("the flags")?;
        let mut flags = OpenFlags::default();
        let mut makes = false;
        for flag in text.split(',') {
            match flag {
                "r" => flags.reads = true,
                "w" => flags.writes = true,
                "rw" => (flags.reads, flags.writes) = (true, true),
                "a" => (flags.writes, flags.appends) = (true, true),
                "creat" => makes = true,
                "excl" => flags.is_exclusive = true,
                "trunc" => flags.truncates = true,
                "sync" => flags.sync = OpenSync::All,
                // O_SYNC has the bit of O_DSYNC in Linux: with both, O_SYNC holds.
                "dsync" if flags.sync == OpenSync::All => {}
                "dsync" => flags.sync = OpenSync::Data,
                other => {
                    let hint = suggestion::hint(other, FLAGS);
                    return Err(format!("`{other}` must be one of {}{hint}", FLAGS.join(", ")));
                }
            }
        }
        if !flags.reads && !flags.writes {
            return Err(format!("`{text}` neither reads nor writes: add r, w, rw or a"));
        }
        if flags.truncates && !flags.writes {
            return Err(format!("`{text}` makes a file empty that is only read: add w"));
        }
        if flags.is_exclusive && !makes {
            return Err(format!("`{text}` has excl without creat, which means nothing"));
        }
        if makes {
            // A mode is asked for by open(2) with O_CREAT; 644 is what editors and shells give.
            flags.create = Some(if self.rest.len() > 0 { self.octal("the mode")? } else { 0o644 });
        }
        Ok(flags)
    }

    /// The name of an open file.
    fn name(&mut self) -> Result<String, String> {
        Ok(self.word("the name of an open file")?.to_owned())
    }

    fn sync(&mut self) -> Result<Sync, String> {
        match self.next() {
            None => Ok(Sync::Never),
            Some("fsync") => Ok(Sync::AtEnd),
            Some("fsynceach") => Ok(Sync::Each),
            Some(other) => Err(format!("`{other}` must be fsync or fsynceach")),
        }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, String> {
        if let Some(word) = self.next() {
            return Ok(word);
        }
        self.at = self.end;
        Err(format!("{what} is missing"))
    }

    fn path(&mut self) -> Result<Vec<u8>, String> {
        let word = self.word("a path")?;
        unescape_path(word)
            .ok_or_else(|| format!("`{word}`: write bytes as %XX, and a percent sign as %25"))
    }

    /// Bytes of a write: pieces between commas, each bytes, or bytes that are there several times.
    fn bytes_and_runs(&mut self, length: u64) -> Result<Vec<u8>, String> {
        let word = self.word("the value")?;
        let mut bytes = Vec::new();
        for piece in word.split(',') {
            let (unit, times) = piece.split_once('*').unwrap_or((piece, "1"));
            let unit = hexadecimal(unit)?;
            let times: u64 =
                times.parse().map_err(|_| format!("`{piece}`: `{times}` is no number of times"))?;
            // A wrong number must not fill the memory, and no bytes must not take for ever.
            let rest = length.saturating_sub(bytes.len() as u64);
            if times > 1 && (unit.is_empty() || times > rest / unit.len() as u64) {
                return Err(format!("the length is {length}, but `{piece}` does not fit into it"));
            }
            (0..times).for_each(|_| bytes.extend_from_slice(&unit));
        }
        Ok(bytes)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, String> {
        hexadecimal(self.word("the value")?)
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
        self.next().map(|word| size_of(word, what)).transpose()
    }

    /// Decimal bytes, with k or m.
    fn size(&mut self, what: &str) -> Result<u64, String> {
        size_of(self.word(what)?, what)
    }

    fn chunk(&mut self) -> Result<u64, String> {
        match self.call_bytes("the size of a call")? {
            0 => Err("the size of a call must not be 0".to_owned()),
            size => Ok(size),
        }
    }

    /// Bytes of one call, which are memory of this program.
    fn call_bytes(&mut self, what: &str) -> Result<u64, String> {
        match self.size(what)? {
            size if size > 1 << 30 => Err(format!("{what} is more than 1 GiB")),
            size => Ok(size),
        }
    }

    /// A time: a number of milliseconds, or a number with a unit.
    fn milliseconds(&mut self) -> Result<u64, String> {
        let word = self.word("the time")?;
        if let Ok(milliseconds) = word.parse() {
            return Ok(milliseconds);
        }
        let unit = "milliseconds, or a number with ms, s, m, h or d";
        duration_of(word).ok_or_else(|| format!("the time is `{word}`, but must be {unit}"))
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

/// Flags of `open`, for messages.
const FLAGS: [&str; 9] = ["r", "w", "rw", "a", "creat", "excl", "trunc", "sync", "dsync"];

/// What to say of a word that begins no line.
pub(crate) fn unknown(word: &str) -> String {
    let names = || COMMANDS.iter().filter(|row| row.group != Group::Closing).map(|row| row.name);
    match suggestion::nearest(word, names()) {
        Some(known) => format!("`{word}` is no call; did you mean `{known}`?"),
        None => {
            format!("`{word}` is no call; there are {}", names().collect::<Vec<_>>().join(", "))
        }
    }
}

/// The bytes of a word in hexadecimal.
fn hexadecimal(word: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{word}` is no value in hexadecimal");
    // Cutting a letter of several bytes in two would panic, and the parser of numbers takes a sign.
    if !word.len().is_multiple_of(2) || !word.bytes().all(|letter| letter.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    (0..word.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&word[at..at + 2], 16).map_err(|_| wrong()))
        .collect()
}

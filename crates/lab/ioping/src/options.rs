//! The command line.

use crate::profile::{Profile, Version};
use crate::suffix::{parse_bytes, parse_count, parse_time_ns};
use thiserror::Error;

/// An option that is unknown, not modelled, incomplete, or newer than the version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("ioping {option}: {reason}")]
pub struct OptionError {
    /// The option, or the word of the command line.
    pub option: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// What the tool is given to work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A directory: the tool makes a file in it, writes it and syncs it before it measures.
    Directory,
    /// A file that is there.
    File,
    /// A block device as a whole.
    Device,
}

/// Targets by the word that names them.
const TARGETS: [(&str, Target); 3] =
    [("directory", Target::Directory), ("file", Target::File), ("device", Target::Device)];

/// Whether requests read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All of them read.
    Read,
    /// All of them write (`-W`).
    Write,
    /// Odd requests write, even ones read (`-G`).
    Alternate,
}

impl Access {
    /// True if the request of this number, from 1 on, writes.
    pub fn writes(self, number: u64) -> bool {
        match self {
            Self::Read => false,
            Self::Write => true,
            Self::Alternate => number % 2 == 1,
        }
    }
}

/// A command line of ioping.
#[allow(clippy::struct_excessive_bools, reason = "switches of a command line, each of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The version whose command line it is.
    pub profile: &'static Profile,
    /// What it works on.
    pub target: Target,
    /// Whether requests read or write.
    pub access: Access,
    /// The target is opened with `O_DIRECT` (`-D`).
    pub is_direct: bool,
    /// The page cache is neither emptied before a request nor synced after a write (`-C`).
    pub is_cached: bool,
    /// The target is opened with `O_SYNC` or `O_DSYNC` (`-Y`, `-y`).
    pub is_synchronous: bool,
    /// One request behind the other instead of random places (`-L`).
    pub is_linear: bool,
    /// Bytes of a request (`-s`).
    pub size_bytes: u64,
    /// Bytes of the target that are worked on (`-S`); none for all of a file or device.
    pub working_set_bytes: Option<u64>,
    /// First byte of the working set (`-o`).
    pub offset_bytes: u64,
    /// Nanoseconds between requests (`-i`, `-r`, `-l`).
    pub interval_ns: u64,
    /// Requests that share an interval (`-b`); 0 and 1 are the same.
    pub burst: u64,
    /// Requests after which it ends (`-c`); 0 for no such end.
    pub count: u64,
    /// Nanoseconds after which it ends (`-w`); 0 for no such end.
    pub deadline_ns: u64,
    /// Requests at the beginning that no statistics hold (`-a`).
    pub warm_up: u64,
    /// Quicker requests are left out of the statistics (`-t`).
    pub shortest_ns: u64,
    /// Slower requests are left out of the statistics (`-T`).
    pub longest_ns: u64,
    /// No line for each request (`-q`).
    pub is_quiet: bool,
    /// One line of bare numbers at the end (`-B`).
    pub is_batch: bool,
    /// The file of a directory has a fixed name, and stays (`-k`).
    pub keeps_file: bool,
}

/// An option: letter, long name, whether a value follows, and the first version that has it.
type OptionRow = (char, &'static str, bool, Version);

/// All options, by letter.
const OPTIONS: &[OptionRow] = &[
    ('A', "async", false, Version::V0_7),
    ('B', "batch", false, Version::V0_7),
    ('C', "cached", false, Version::V0_4),
    ('D', "direct", false, Version::V0_4),
    ('G', "read-write", false, Version::V1_0),
    ('H', "hipri", false, Version::V1_3),
    ('I', "time", false, Version::V1_3),
    ('J', "json", false, Version::V1_2),
    ('L', "linear", false, Version::V0_4),
    ('N', "nowait", false, Version::V1_3),
    ('P', "print-interval", true, Version::V0_7),
    ('R', "rapid", false, Version::V0_5),
    ('S', "work-size", true, Version::V0_4),
    ('T', "max-time", true, Version::V1_0),
    ('W', "write", false, Version::V0_7),
    ('Y', "sync", false, Version::V1_0),
    ('a', "warmup", true, Version::V1_2),
    ('b', "burst", true, Version::V1_3),
    ('c', "count", true, Version::V0_4),
    ('e', "entropy", true, Version::V1_3),
    ('i', "interval", true, Version::V0_4),
    ('k', "keep", false, Version::V0_9),
    ('l', "speed-limit", true, Version::V1_0),
    ('o', "work-offset", true, Version::V0_4),
    ('p', "print-count", true, Version::V0_4),
    ('q', "quiet", false, Version::V0_4),
    ('r', "rate-limit", true, Version::V1_2),
    ('s', "size", true, Version::V0_4),
    ('t', "min-time", true, Version::V1_0),
    ('w', "work-time", true, Version::V0_4),
    ('y', "dsync", false, Version::V1_0),
];

const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of a request unless `-s` names them.
const SIZE_BYTES: u64 = 4 << 10;
/// The same with `-L`, since 0.5.
const LINEAR_SIZE_BYTES: u64 = 256 << 10;
/// Bytes of the file in a directory unless `-S` names them.
const WORKING_SET_BYTES: u64 = 1 << 20;
/// The same with `-R`, or with `-L` in 0.5.
const LARGE_WORKING_SET_BYTES: u64 = 64 << 20;
/// Largest request: each is a buffer of the tool.
const SIZE_BYTES_MAX: u64 = 1 << 30;
/// Longest interval and time, a day: more is a slip, and would simulate for hours.
const TIME_NS_MAX: u64 = 86_400 * SECOND_NS;
/// Requests that a command line may ask for.
const COUNT_MAX: u64 = 100_000_000;

impl Options {
    /// Reads a command line of a version, without the name of the program. The last word is the target:
    /// `directory`, `file` or `device`.
    ///
    /// # Errors
    /// [`OptionError`] for an option that the version does not have, that is not modelled, or whose value does
    /// not fit; for a command line without a target or without an end.
    pub fn parse(text: &str, profile: &'static Profile) -> Result<Self, OptionError> {
        let mut reader = Reader::new(profile);
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            if let Some(long) = word.strip_prefix("--") {
                if profile.version < Version::V1_2 {
                    return Err(wrong(
                        word,
                        format!("{} has no long names: use letters", profile.name),
                    ));
                }
                let known = OPTIONS.iter().find(|(_, name, ..)| *name == long);
                let Some(row) = known else { return Err(wrong(word, "is not known here")) };
                reader.take(row, "", &mut words)?;
            } else if let Some(letters) =
                word.strip_prefix('-').filter(|letters| !letters.is_empty())
            {
                // Letters stand side by side; what follows one that takes a value is the value.
                let mut rest = letters;
                while let Some(letter) = rest.chars().next() {
                    rest = &rest[letter.len_utf8()..];
                    let Some(row) = OPTIONS.iter().find(|(known, ..)| *known == letter) else {
                        let known: String = OPTIONS.iter().map(|(letter, ..)| letter).collect();
                        let reason = format!("is not known here: {known} are");
                        return Err(wrong(&format!("-{letter}"), reason));
                    };
                    if row.2 {
                        reader.take(row, rest, &mut words)?;
                        rest = "";
                    } else {
                        reader.take(row, "", &mut words)?;
                    }
                }
            } else {
                reader.target(word)?;
            }
        }
        reader.finish()
    }

    /// Bytes that the tool works on, if its target has `target_bytes`; for a directory, those of the file that
    /// it makes.
    ///
    /// # Errors
    /// [`OptionError`] for a target that is too small for the working set, or a working set that holds no
    /// request.
    pub fn working_set_on(&self, target_bytes: u64) -> Result<u64, OptionError> {
        let of_target = target_bytes.saturating_sub(self.offset_bytes);
        let bytes = match self.working_set_bytes {
            Some(bytes) if bytes > of_target => {
                let reason = format!("{bytes} bytes do not fit into a target of {target_bytes}");
                return Err(wrong("-S", reason));
            }
            Some(bytes) => bytes,
            None => of_target,
        };
        if self.size_bytes > bytes {
            let reason = format!("a request of {} bytes is larger than {bytes}", self.size_bytes);
            return Err(wrong("-s", reason));
        }
        Ok(bytes)
    }
}

/// A command line while it is read: what was given, before one option changes what another one means.
struct Reader {
    options: Options,
    target: Option<Target>,
    /// `-W` and `-G` so far: a file or device takes three of them.
    writes: u32,
    size_bytes: Option<u64>,
    default_size_bytes: u64,
    default_set_bytes: u64,
    has_interval: bool,
    has_deadline: bool,
    /// Bytes a second of `-l`, and requests a second of `-r`.
    speed_limit: Option<u64>,
    rate_limit: Option<u64>,
}

impl Reader {
    fn new(profile: &'static Profile) -> Self {
        let options = Options {
            profile,
            target: Target::Directory,
            access: Access::Read,
            is_direct: false,
            is_cached: false,
            is_synchronous: false,
            is_linear: false,
            size_bytes: SIZE_BYTES,
            working_set_bytes: None,
            offset_bytes: 0,
            interval_ns: SECOND_NS,
            burst: 0,
            count: 0,
            deadline_ns: 0,
            warm_up: profile.warm_up,
            shortest_ns: 0,
            longest_ns: u64::MAX,
            is_quiet: false,
            is_batch: false,
            keeps_file: false,
        };
        Self {
            options,
            target: None,
            writes: 0,
            size_bytes: None,
            default_size_bytes: SIZE_BYTES,
            default_set_bytes: WORKING_SET_BYTES,
            has_interval: false,
            has_deadline: false,
            speed_limit: None,
            rate_limit: None,
        }
    }

    /// Takes an option; `attached` is what stands behind its letter in the same word.
    ///
    /// It is long because it has one arm for each option.
    fn take<'a>(
        &mut self,
        (letter, _, takes_value, since): &OptionRow,
        attached: &'a str,
        words: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), OptionError> {
        let option = format!("-{letter}");
        let version = self.options.profile.version;
        if version < *since {
            let name = self.options.profile.name;
            let first = crate::PROFILES.iter().find(|profile| profile.version == *since);
            let first = first.map_or("a later version", |profile| profile.name);
            return Err(wrong(
                &option,
                format!("{name} does not have it; {first} is the first that does"),
            ));
        }
        let value = match (*takes_value, attached) {
            (false, _) => "",
            (true, "") => {
                words.next().ok_or_else(|| wrong(&option, "a value is missing behind it"))?
            }
            (true, attached) => attached,
        };
        let fits = |parsed: Result<u64, String>, least: u64, most: u64| {
            let number = parsed.map_err(|reason| wrong(&option, reason))?;
            if (least..=most).contains(&number) {
                return Ok(number);
            }
            Err(wrong(&option, format!("`{value}` is out of range: {least} to {most}")))
        };
        let time = |least| fits(parse_time_ns(value), least, TIME_NS_MAX);
        // Since 1.0 what is given in words of its own is kept, whatever the order of the options.
        let keeps_given = version >= Version::V1_0;
        let options = &mut self.options;
        match letter {
            'C' => options.is_cached = true,
            'D' => options.is_direct = true,
            'Y' | 'y' => options.is_synchronous = true,
            'G' => {
                options.access = Access::Alternate;
                self.writes += 1;
            }
            // `-G` writes in turns even if `-W` stands beside it, before it or behind it.
            'W' => {
                if options.access == Access::Read {
                    options.access = Access::Write;
                }
                self.writes += 1;
            }
            'L' => {
                options.is_linear = true;
                if version >= Version::V0_5 {
                    self.default_size_bytes = LINEAR_SIZE_BYTES;
                    self.size_bytes = self.size_bytes.filter(|_| keeps_given);
                }
                // One version only: 0.6 moved the large working set from `-L` to `-R`.
                if version == Version::V0_5 {
                    self.default_set_bytes = LARGE_WORKING_SET_BYTES;
                }
            }
            'R' => {
                options.is_quiet = true;
                if !(keeps_given && self.has_interval) {
                    options.interval_ns = 0;
                }
                if !(keeps_given && self.has_deadline) {
                    options.deadline_ns = 3 * SECOND_NS;
                }
                if version >= Version::V0_6 {
                    self.default_set_bytes = LARGE_WORKING_SET_BYTES;
                }
            }
            'i' => {
                options.interval_ns = time(0)?;
                self.has_interval = true;
            }
            'w' => {
                options.deadline_ns = time(0)?;
                self.has_deadline = true;
            }
            'l' => self.speed_limit = Some(fits(parse_bytes(value), 1, u64::MAX)?),
            'r' => self.rate_limit = Some(fits(parse_count(value), 1, SECOND_NS)?),
            's' => self.size_bytes = Some(fits(parse_bytes(value), 512, SIZE_BYTES_MAX)?),
            'S' => options.working_set_bytes = Some(fits(parse_bytes(value), 512, u64::MAX)?),
            'o' => options.offset_bytes = fits(parse_bytes(value), 0, u64::MAX)?,
            'a' => options.warm_up = fits(parse_count(value), 0, COUNT_MAX)?,
            'b' => options.burst = fits(parse_count(value), 0, COUNT_MAX)?,
            'c' => options.count = fits(parse_count(value), 0, COUNT_MAX)?,
            't' => options.shortest_ns = time(0)?,
            'T' => options.longest_ns = time(0)?,
            'q' => options.is_quiet = true,
            'B' => (options.is_quiet, options.is_batch) = (true, true),
            'k' => options.keeps_file = true,
            // Where the lines go changes no request.
            'I' | 'J' => {}
            'A' | 'H' | 'N' => return Err(wrong(&option, "asynchronous I/O is not modelled")),
            'e' => return Err(wrong(&option, "numbers are drawn from the seed of the study")),
            'p' | 'P' => return Err(wrong(&option, "periodic statistics are not modelled")),
            _ => unreachable!("every row of the table is an arm"),
        }
        Ok(())
    }

    fn target(&mut self, word: &str) -> Result<(), OptionError> {
        let known = TARGETS.iter().find(|(name, _)| *name == word);
        let Some((_, target)) = known else {
            let reason = "is no target: write `directory`, `file` or `device`";
            return Err(wrong(word, reason));
        };
        if self.target.replace(*target).is_some() {
            return Err(wrong(word, "is a second target; the tool takes one"));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Options, OptionError> {
        let Some(target) = self.target else {
            return Err(wrong("TARGET", "is missing: end with `directory`, `file` or `device`"));
        };
        let options = &mut self.options;
        options.target = target;
        options.size_bytes = self.size_bytes.unwrap_or(self.default_size_bytes);
        // `O_DIRECT` takes whole sectors, and the kernel's EINVAL would come only with the first request.
        if !options.size_bytes.is_multiple_of(512) && options.is_direct {
            return Err(wrong("-s", "must be a multiple of 512 bytes with -D"));
        }
        if target == Target::Directory {
            // The file is as large as the working set, and holds one request at least.
            let bytes = self.default_set_bytes.max(options.size_bytes);
            options.working_set_bytes.get_or_insert(bytes);
        } else if options.access != Access::Read && self.writes < 3 {
            return Err(wrong("-W", "overwrites a file or device: give it three times, -WWW"));
        }
        // A direct write is followed by no flush here, so `O_SYNC` would be ignored without a word.
        if options.is_direct && options.is_synchronous {
            return Err(wrong("-Y", "is not modelled together with -D"));
        }
        // Limits lengthen the interval, and since 1.2 an interval that is not given begins at none.
        let has_limit = self.speed_limit.is_some() || self.rate_limit.is_some();
        if has_limit && !self.has_interval && options.profile.version >= Version::V1_2 {
            options.interval_ns = 0;
        }
        // In 128 bits: a large request times a second of nanoseconds is more than 64 hold.
        let by_speed = self.speed_limit.map_or(0, |bytes| {
            let interval_ns =
                u128::from(options.size_bytes) * u128::from(SECOND_NS) / u128::from(bytes);
            u64::try_from(interval_ns).unwrap_or(u64::MAX)
        });
        let by_rate = self.rate_limit.map_or(0, |count| SECOND_NS / count);
        options.interval_ns = options.interval_ns.max(by_speed).max(by_rate);
        if options.interval_ns > TIME_NS_MAX {
            return Err(wrong("-l", "makes an interval of more than a day"));
        }
        if options.count == 0 && options.deadline_ns == 0 {
            return Err(wrong("-c", "nothing ends it but a signal: give -c, -w or -R"));
        }
        Ok(self.options)
    }
}

fn wrong(option: &str, reason: impl Into<String>) -> OptionError {
    OptionError { option: option.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::{Access, OPTIONS, Options, Target};
    use crate::find_profile;

    fn parse(version: &str, text: &str) -> Result<Options, String> {
        let profile = find_profile(version).expect("a version");
        Options::parse(text, profile).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_sorted_and_each_is_carried_out() {
        assert!(OPTIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (letter, long, takes_value, _) in OPTIONS {
            let value = if *takes_value { " 512" } else { "" };
            // No option panics: it changes something, or is refused by name.
            for name in [format!("-{letter}"), format!("--{long}")] {
                if let Err(error) = parse("v1.3", &format!("{name}{value} -c 1 -WWW device")) {
                    assert!(error.contains(&format!("-{letter}")), "{name}: {error}");
                }
            }
        }
    }

    #[test]
    fn letters_stand_side_by_side_and_values_behind_them() {
        let options = parse("v1.3", "-DWc10 -s64k -S 1m -i0.5 directory").unwrap();
        assert!(options.is_direct && !options.is_linear);
        assert_eq!(
            (options.target, options.access, options.count),
            (Target::Directory, Access::Write, 10)
        );
        assert_eq!((options.size_bytes, options.working_set_bytes), (64 << 10, Some(1 << 20)));
        assert_eq!((options.interval_ns, options.warm_up), (500_000_000, 1));
        assert_eq!(parse("v1.3", "--direct --count 10 file").unwrap().count, 10);
    }

    #[test]
    fn defaults_and_their_order_follow_the_version() {
        let size = |version, text| parse(version, text).unwrap().size_bytes;
        assert_eq!(size("v0.4", "-L -c 1 file"), 4 << 10);
        assert_eq!(size("v0.5", "-L -c 1 file"), 256 << 10);
        // Until 0.9 the later option decides; since 1.0 a given size stays.
        assert_eq!(size("v0.9", "-s 8k -L -c 1 file"), 256 << 10);
        assert_eq!(size("v0.9", "-L -s 8k -c 1 file"), 8 << 10);
        assert_eq!(size("v1.0", "-s 8k -L -c 1 file"), 8 << 10);
        let rapid = |version, text| {
            let options = parse(version, text).unwrap();
            (options.interval_ns, options.deadline_ns, options.working_set_bytes.unwrap() >> 20)
        };
        assert_eq!(rapid("v0.5", "-R directory"), (0, 3_000_000_000, 1));
        assert_eq!(rapid("v0.5", "-L -c 1 directory"), (1_000_000_000, 0, 64));
        assert_eq!(rapid("v0.9", "-i 2 -w 5 -R directory"), (0, 3_000_000_000, 64));
        assert_eq!(rapid("v1.0", "-i 2 -w 5 -R directory"), (2_000_000_000, 5_000_000_000, 64));
        assert_eq!(rapid("v1.0", "-s 2m -c 1 directory").2, 2);
        let interval = |version, text| parse(version, text).unwrap().interval_ns;
        assert_eq!(interval("v1.0", "-l 2k -c 1 file"), 2_000_000_000);
        assert_eq!(interval("v1.0", "-l 8k -c 1 file"), 1_000_000_000);
        assert_eq!(interval("v1.3", "-l 8k -c 1 file"), 500_000_000);
        assert_eq!(interval("v1.3", "-r 100 -c 1 file"), 10_000_000);
        assert_eq!(interval("v1.3", "-i 1 -r 100 -c 1 file"), 1_000_000_000);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        for (version, text, expected) in [
            ("v0.6", "-W -c 1 directory", "-W: v0.6 does not have it; v0.7 is the first that does"),
            ("v0.4", "-R directory", "-R: v0.4 does not have it; v0.5"),
            ("v1.0", "--direct -c 1 file", "v1.0 has no long names"),
            ("v1.3", "--drect -c 1 file", "--drect: is not known here"),
            ("v1.3", "-c 1", "TARGET: is missing"),
            ("v1.3", "-c 1 file device", "device: is a second target"),
            ("v1.3", "-c 1 /dev/sda", "/dev/sda: is no target"),
            ("v1.3", "file", "-c: nothing ends it but a signal"),
            ("v1.3", "-c", "-c: a value is missing"),
            ("v1.3", "-c 1x file", "-c: `1x` has an unknown unit"),
            ("v1.3", "-s 100 -c 1 file", "-s: `100` is out of range: 512 to"),
            ("v1.3", "-D -s 1000 -c 1 file", "-s: must be a multiple of 512"),
            ("v1.3", "-W -c 1 file", "-WWW"),
            ("v1.3", "-WW -c 1 device", "-WWW"),
            ("v1.3", "-DY -c 1 file", "-Y: is not modelled together with -D"),
            ("v1.3", "-A -c 1 file", "-A: asynchronous I/O is not modelled"),
            ("v1.3", "-p 10 -c 1 file", "-p: periodic statistics"),
            ("v1.3", "-z -c 1 file", "-z: is not known here"),
            ("v1.3", "-i 2000h -c 1 file", "-i: `2000h` is out of range"),
        ] {
            let error = parse(version, text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(parse("v1.3", "-WWW -c 1 device").is_ok());
        assert!(parse("v1.3", "-WWG -c 1 device").is_ok_and(|one| one.access == Access::Alternate));
    }

    #[test]
    fn a_working_set_lies_within_its_target() {
        let on = |text: &str, bytes| {
            let options = parse("v1.3", text).unwrap();
            options.working_set_on(bytes).map_err(|error| error.to_string())
        };
        assert_eq!(on("-c 1 file", 1 << 20), Ok(1 << 20));
        assert_eq!(on("-o 4k -c 1 file", 1 << 20), Ok((1 << 20) - 4096));
        assert_eq!(on("-S 64k -c 1 file", 1 << 20), Ok(64 << 10));
        assert!(on("-S 2m -c 1 file", 1 << 20).unwrap_err().contains("do not fit"));
        assert!(on("-o 2m -c 1 file", 1 << 20).unwrap_err().contains("larger than 0"));
        assert!(on("-s 2m -c 1 file", 1 << 20).unwrap_err().contains("-s: a request of"));
    }
}

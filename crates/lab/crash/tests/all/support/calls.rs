//! Random calls. They are made without looking at any file system, so a part of a list is a list, too,
//! and many of them fail: then both must fail alike.

use random::Stream;
use std::fmt;

/// A call, or something that happens between calls.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// A line of the language of scripts.
    Line(String),
    /// Opens a file and keeps it open, whatever becomes of its name.
    Open(String),
    /// Writes to one of the open files.
    WriteOpen { number: usize, offset: u64, length: usize, seed: u64 },
    /// Closes one of the open files.
    Close { number: usize },
    /// Takes an extended attribute away.
    RemoveAttribute { path: String, name: &'static str },
    /// Unmounts and mounts again; or syncs, loses the power between two operations, and mounts again.
    Remount { is_clean: bool },
    /// Writes until there is no space, looks, and makes room again.
    Fill,
    /// Writes a file and looks at the free space.
    Measure { seed: u64 },
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(out, "{line}"),
            Self::Open(path) => write!(out, "# open {path} and keep it open"),
            Self::WriteOpen { number, offset, length, seed } => {
                write!(out, "# write {length} bytes at {offset} to open file {number}: x {seed}")
            }
            Self::Close { number } => write!(out, "# close open file {number}"),
            Self::RemoveAttribute { path, name } => write!(out, "# removexattr {path} {name}"),
            Self::Remount { is_clean: true } => write!(out, "umount\nmount -"),
            Self::Remount { is_clean: false } => write!(out, "sync\npowercut\nmount -"),
            Self::Fill => write!(out, "# write until ENOSPC, then make room again"),
            Self::Measure { seed } => write!(out, "put measured 600 100000 65536 x {seed}"),
        }
    }
}

/// Names of the attributes.
const ATTRIBUTES: [&str; 3] = ["user.a", "user.bb", "trusted.c"];
const DIRECTORIES: [&str; 5] = ["", "", "", "d0/", "d0/e/"];
/// Files have one of so many names in each directory.
const NAMES: u32 = 6;

fn path(stream: &mut Stream) -> String {
    let directory = DIRECTORIES[stream.below(5) as usize];
    let number = stream.below(NAMES);
    let stem = if number.is_multiple_of(4) { "a-name-of-more-than-fifteen-bytes" } else { "n" };
    format!("{directory}{stem}{number}")
}

fn length(stream: &mut Stream) -> u32 {
    let most = [1, 100, 2048, 5000, 5000, 20_000, 40_000][stream.below(7) as usize];
    1 + stream.below(most)
}

/// The bytes of a write: how they are cut into calls, what they are like, their seed, when they are
/// synced.
fn written(stream: &mut Stream) -> String {
    let chunk = [700, 3000, 4096, 65_536][stream.below(4) as usize];
    let kind = ["x", "x", "t", "r", "z"][stream.below(5) as usize];
    let sync = ["", "", "", " fsync", " fsynceach"][stream.below(5) as usize];
    format!("{chunk} {kind} {}{sync}", stream.below(100_000))
}

fn line(stream: &mut Stream) -> String {
    let path = |stream: &mut Stream| path(stream);
    match stream.below(100) {
        0..=17 => {
            let (path, bytes) = (path(stream), length(stream));
            format!("put {path} 644 {bytes} {}", written(stream))
        }
        18..=25 => {
            let (path, bytes) = (path(stream), length(stream).min(9000));
            format!("append {path} {bytes} {}", written(stream))
        }
        26..=40 => {
            // Often past the end: a hole.
            let (path, offset) = (path(stream), stream.below(30_000));
            let bytes = length(stream);
            format!("write {path} {offset} {bytes} {}", written(stream))
        }
        41..=43 => {
            let (path, seed) = (path(stream), stream.below(1000));
            format!("rwrite {path} {} 2048 24000 {seed} x {seed}", 1 + stream.below(5))
        }
        44..=52 => format!("truncate {} {}", path(stream), stream.below(30_000)),
        53..=62 => format!("unlink {}", path(stream)),
        63..=73 => format!("rename {} {}", path(stream), path(stream)),
        74..=78 => format!("link {} {}", path(stream), path(stream)),
        79..=80 => format!("symlink ../to/{} {}", stream.below(1000), path(stream)),
        81..=84 => {
            format!("mkdir {} 750", ["d0", "d1", "d0/e", "d1/f"][stream.below(4) as usize])
        }
        85 => format!("rmdir {}", ["d1", "d1", "d0/e", "d1/f"][stream.below(4) as usize]),
        86 => {
            let names = ["d0", "d1", "d0/e", "d1/f"];
            let (from, to) = (stream.below(4) as usize, stream.below(4) as usize);
            format!("rename {} {}", names[from], names[to])
        }
        87 => format!("mknod {} 600 c {} 3", path(stream), stream.below(200)),
        88..=89 => {
            let mode = ["600", "4755", "444"][stream.below(3) as usize];
            format!("chmod {} {mode}", path(stream))
        }
        90 => {
            format!("chown {} {} {}", path(stream), stream.below(60_000), stream.below(60_000))
        }
        91..=94 => {
            let (path, name) = (path(stream), ATTRIBUTES[stream.below(3) as usize]);
            let value = "5a".repeat(1 + stream.below(60) as usize);
            format!("setxattr {path} {name} {value}")
        }
        95 => format!("utime {} {} 7", path(stream), stream.below(1000)),
        96..=97 => format!("fsync {}", path(stream)),
        98 => "sync".into(),
        _ => format!("read {} 4096", path(stream)),
    }
}

/// A list of calls.
pub(crate) fn random_calls(seed: u64, count: usize) -> Vec<Call> {
    let mut stream = Stream::new(seed, "random calls");
    let call = |number: usize, stream: &mut Stream| match stream.below(200) {
        0..=2 => Call::Open(path(stream)),
        3..=7 => Call::WriteOpen {
            number: stream.below(3) as usize,
            offset: stream.below(20_000).into(),
            length: 1 + stream.below(6000) as usize,
            seed: number as u64,
        },
        8..=9 => Call::Close { number: stream.below(3) as usize },
        10..=11 => {
            Call::RemoveAttribute { path: path(stream), name: ATTRIBUTES[stream.below(3) as usize] }
        }
        12 => Call::Remount { is_clean: stream.below(2) == 0 },
        13 if stream.below(4) == 0 => Call::Fill,
        14 => Call::Measure { seed: number as u64 },
        _ => Call::Line(line(stream)),
    };
    let first = ["mkdir d0 750", "mkdir d0/e 750", "mkdir d1 750"];
    let first = first.map(|line| Call::Line(line.into()));
    first.into_iter().chain((3..count).map(|number| call(number, &mut stream))).collect()
}

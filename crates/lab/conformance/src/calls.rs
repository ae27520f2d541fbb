//! Random lines of scripts. They are made without looking at any file system, so many of them fail: then
//! the file system and the model must fail alike.

use fs_api::Errno;
use random::Stream;

/// Something that is done to a file system and to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A line of the language of scripts.
    Line(String),
    /// A line that breaks a limit of file systems, which the model has not: it is refused.
    Refused(String, Errno),
    /// Takes an extended attribute away.
    RemoveAttribute(String),
    /// Drops what the layer above remembers and can read again.
    DropCaches,
    /// Unmounts and mounts again.
    Remount,
}

/// Where the lines work, and which they are.
#[derive(Clone, Debug)]
pub struct Area {
    /// What all paths begin with: nothing, or a directory and a slash.
    pub prefix: String,
    /// Owners, modes, links, devices and extended attributes are used.
    pub has_owners_and_links: bool,
    /// Files have one of so many names in each directory.
    pub names: u32,
    /// No file is written behind this offset but by a write that begins before it.
    pub file_bytes: u32,
}

const DIRECTORIES: [&str; 5] = ["", "", "", "d0/", "d0/e/"];
/// So few that most calls meet a name that is there.
const NAMES: u32 = 6;
/// Several pages of memory, and more than one erase block of small parts.
const FILE_BYTES: u32 = 30_000;
const ATTRIBUTE: &str = "user.a";
/// A name has at most 255 bytes (`NAME_MAX`, `include/uapi/linux/limits.h`).
const NAME_BYTES_MAX: usize = 255;
/// A symbolic link that leads to itself.
const RING: &str = "ring";

impl Area {
    /// All of a file system.
    pub fn whole(has_owners_and_links: bool) -> Self {
        let (names, file_bytes) = (NAMES, FILE_BYTES);
        Self { prefix: String::new(), has_owners_and_links, names, file_bytes }
    }

    /// Calls that change a file write less than those that make one, so that files are of many pieces.
    fn write_bytes(&self) -> u32 {
        self.file_bytes / 10 * 3
    }

    /// The path of a file, which may be there or not.
    pub fn path(&self, stream: &mut Stream) -> String {
        let directory = DIRECTORIES[stream.below(5) as usize];
        let number = stream.below(self.names);
        // YAFFS2 keeps names of up to 15 bytes in memory, and reads longer ones from the medium.
        let stem = if number.is_multiple_of(4) { "a-name-of-more-than-fifteen-bytes" } else { "n" };
        format!("{}{directory}{stem}{number}", self.prefix)
    }

    /// The path of a directory, which may be there or not.
    pub fn directory(&self, stream: &mut Stream) -> String {
        let name = ["d0", "d1", "d0/e", "d1/f"][stream.below(4) as usize];
        format!("{}{name}", self.prefix)
    }

    /// A line that every file system can carry out.
    fn plain(&self, stream: &mut Stream) -> String {
        match stream.below(20) {
            0..=3 => {
                let (path, bytes) = (self.path(stream), 1 + stream.below(self.file_bytes / 3 * 2));
                format!("put {path} 644 {bytes} {}", written(stream))
            }
            4..=5 => {
                let (path, bytes) = (self.path(stream), 1 + stream.below(self.write_bytes()));
                format!("append {path} {bytes} {}", written(stream))
            }
            6..=8 => {
                let (path, offset) = (self.path(stream), stream.below(self.file_bytes));
                let bytes = 1 + stream.below(self.write_bytes());
                format!("write {path} {offset} {bytes} {}", written(stream))
            }
            9..=10 => format!("truncate {} {}", self.path(stream), stream.below(self.file_bytes)),
            11..=12 => format!("unlink {}", self.path(stream)),
            13..=14 => format!("rename {} {}", self.path(stream), self.path(stream)),
            15 => format!("mkdir {} 755", self.directory(stream)),
            16 => format!("rmdir {}", self.directory(stream)),
            17 => format!("rename {} {}", self.directory(stream), self.directory(stream)),
            // Syncs are rare, so that a cut has something to lose.
            18 => format!("fsync {}", self.path(stream)),
            _ => "sync".into(),
        }
    }

    /// A line about what FAT has not: owners, modes, links, devices, extended attributes.
    fn posix(&self, stream: &mut Stream) -> Call {
        Call::Line(match stream.below(8) {
            0..=1 => format!("link {} {}", self.path(stream), self.path(stream)),
            2 => format!("symlink ../to/{} {}", stream.below(1000), self.path(stream)),
            3 => format!("mknod {} 600 c {} 3", self.path(stream), stream.below(200)),
            4 => format!("chmod {} 4755", self.path(stream)),
            5 => {
                let path = self.path(stream);
                format!("chown {path} {} {}", stream.below(60_000), stream.below(60_000))
            }
            6 => {
                let value = "5a".repeat(1 + stream.below(60) as usize);
                format!("setxattr {} {ATTRIBUTE} {value}", self.path(stream))
            }
            _ => return Call::RemoveAttribute(self.path(stream)),
        })
    }

    /// A line that fails in most states, each for a reason of its own.
    fn failing(&self, stream: &mut Stream) -> Call {
        let prefix = &self.prefix;
        Call::Line(match stream.below(8) {
            // A directory with names in it; into itself.
            0 => format!("rmdir {prefix}d0"),
            1 => format!("rename {prefix}d0 {prefix}d0/e/inside"),
            // A directory where a file is meant, and the other way round.
            2 => format!("unlink {}", self.directory(stream)),
            3 => format!("rmdir {}", self.path(stream)),
            4 => format!("mkdir {}/below 755", self.path(stream)),
            5 => format!("mkdir {} 755", self.path(stream)),
            6 if self.has_owners_and_links => format!("append {prefix}{RING} 10 700 x 1"),
            6 => format!("unlink {prefix}nothing"),
            _ => {
                let long = "l".repeat(NAME_BYTES_MAX + 1);
                let line = format!("mkdir {prefix}{long} 755");
                return Call::Refused(line, Errno::Enametoolong);
            }
        })
    }

    /// A list of calls.
    pub fn random_calls(&self, seed: u64, count: usize) -> Vec<Call> {
        let mut stream = Stream::new(seed, "calls of any file system");
        let mut calls = self.first_calls();
        while calls.len() < count {
            calls.push(self.draw(&mut stream));
        }
        calls
    }

    /// What a history begins with, so that its first calls find directories.
    pub fn first_calls(&self) -> Vec<Call> {
        let prefix = &self.prefix;
        let mut calls = ["d0", "d0/e", "d1"]
            .map(|name| Call::Line(format!("mkdir {prefix}{name} 755")))
            .to_vec();
        if self.has_owners_and_links {
            calls.push(Call::Line(format!("symlink {RING} {prefix}{RING}")));
        }
        calls
    }

    /// One call.
    pub fn draw(&self, stream: &mut Stream) -> Call {
        // A remount costs more than a hundred calls, so it is rare.
        match stream.below(60) {
            0 => Call::Remount,
            59 => Call::DropCaches,
            1..=12 if self.has_owners_and_links => self.posix(stream),
            13..=18 => self.failing(stream),
            _ => Call::Line(self.plain(stream)),
        }
    }

    /// Lines alone, for a process of its own.
    pub fn random_lines(&self, seed: u64, count: usize) -> Vec<String> {
        let lines = self.random_calls(seed, count).into_iter();
        lines
            .filter_map(|call| if let Call::Line(line) = call { Some(line) } else { None })
            .collect()
    }
}

/// How a write is cut into calls, what its bytes are like, their seed, when they are synced.
fn written(stream: &mut Stream) -> String {
    // Parts of a page, over the border of pages, a page, more than one request.
    let chunk = [700, 3000, 4096, 65_536][stream.below(4) as usize];
    let kind = ["x", "t", "r", "z"][stream.below(4) as usize];
    let sync = ["", "", "", " fsync"][stream.below(4) as usize];
    format!("{chunk} {kind} {}{sync}", stream.below(100_000))
}

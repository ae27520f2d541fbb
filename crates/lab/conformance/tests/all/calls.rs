//! Random lines of scripts. They are made without looking at any file system, so many of them fail: then
//! the file system and the model must fail alike.

use random::Stream;

/// Something that is done to a file system and to the model.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// A line of the language of scripts.
    Line(String),
    /// Takes an extended attribute away.
    RemoveAttribute(String),
    /// Unmounts and mounts again.
    Remount,
}

const DIRECTORIES: [&str; 5] = ["", "", "", "d0/", "d0/e/"];
/// Files have one of so many names in each directory.
const NAMES: u32 = 6;
const ATTRIBUTE: &str = "user.a";

fn path(stream: &mut Stream) -> String {
    let directory = DIRECTORIES[stream.below(5) as usize];
    let number = stream.below(NAMES);
    let stem = if number.is_multiple_of(4) { "a-name-of-more-than-fifteen-bytes" } else { "n" };
    format!("{directory}{stem}{number}")
}

/// How a write is cut into calls, what its bytes are like, their seed, when they are synced.
fn written(stream: &mut Stream) -> String {
    let chunk = [700, 3000, 4096, 65_536][stream.below(4) as usize];
    let kind = ["x", "t", "r", "z"][stream.below(4) as usize];
    let sync = ["", "", "", " fsync"][stream.below(4) as usize];
    format!("{chunk} {kind} {}{sync}", stream.below(100_000))
}

fn directory(stream: &mut Stream) -> &'static str {
    ["d0", "d1", "d0/e", "d1/f"][stream.below(4) as usize]
}

/// A line that every file system can carry out.
fn plain(stream: &mut Stream) -> String {
    match stream.below(20) {
        0..=3 => {
            let (path, bytes) = (path(stream), 1 + stream.below(20_000));
            format!("put {path} 644 {bytes} {}", written(stream))
        }
        4..=5 => {
            let (path, bytes) = (path(stream), 1 + stream.below(9000));
            format!("append {path} {bytes} {}", written(stream))
        }
        6..=8 => {
            let (path, offset) = (path(stream), stream.below(30_000));
            let bytes = 1 + stream.below(9000);
            format!("write {path} {offset} {bytes} {}", written(stream))
        }
        9..=10 => format!("truncate {} {}", path(stream), stream.below(30_000)),
        11..=12 => format!("unlink {}", path(stream)),
        13..=14 => format!("rename {} {}", path(stream), path(stream)),
        15 => format!("mkdir {} 755", directory(stream)),
        16 => format!("rmdir {}", directory(stream)),
        17 => format!("rename {} {}", directory(stream), directory(stream)),
        18 => format!("fsync {}", path(stream)),
        _ => "sync".into(),
    }
}

/// A line about what FAT has not: owners, modes, links, devices, extended attributes.
fn posix(stream: &mut Stream) -> Call {
    Call::Line(match stream.below(8) {
        0..=1 => format!("link {} {}", path(stream), path(stream)),
        2 => format!("symlink ../to/{} {}", stream.below(1000), path(stream)),
        3 => format!("mknod {} 600 c {} 3", path(stream), stream.below(200)),
        4 => format!("chmod {} 4755", path(stream)),
        5 => format!("chown {} {} {}", path(stream), stream.below(60_000), stream.below(60_000)),
        6 => {
            let value = "5a".repeat(1 + stream.below(60) as usize);
            format!("setxattr {} {ATTRIBUTE} {value}", path(stream))
        }
        _ => return Call::RemoveAttribute(path(stream)),
    })
}

/// A list of calls.
pub(crate) fn random_calls(seed: u64, count: usize, has_owners_and_links: bool) -> Vec<Call> {
    let mut stream = Stream::new(seed, "calls of any file system");
    let first = ["mkdir d0 755", "mkdir d0/e 755", "mkdir d1 755"];
    let first = first.map(|line| Call::Line(line.into()));
    let calls = (3..count).map(|_| match stream.below(60) {
        0 => Call::Remount,
        1..=12 if has_owners_and_links => posix(&mut stream),
        _ => Call::Line(plain(&mut stream)),
    });
    first.into_iter().chain(calls).collect()
}

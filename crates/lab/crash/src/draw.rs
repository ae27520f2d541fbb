//! Random scripts for a search: the calls that the tests of file systems share, and what those leave out.
//!
//! Lines are drawn without looking at any file system. So a part of a script is a script, and each call may fail
//! (`try`).

use crate::script_text::{Item, items_of};
use conformance::{Area, Call};
use random::Stream;

/// Lines of a script that is drawn, and how many more there may be.
const LINES: (u32, u32) = (8, 33);
/// Files hold at most so many bytes: within a page, of a few pages, of several erase blocks.
const FILE_BYTES: [u32; 4] = [3000, 12_000, 30_000, 100_000];
/// Names of extended attributes, which differ in their handlers (`user_`, `trusted_`, `security_`).
const ATTRIBUTES: [&str; 3] = ["user.b", "trusted.c", "security.d"];
/// What makes a name of an open file one of its own: opening it twice is refused before any call.
const OPEN_NAMES: u32 = 100_000;

/// What a script is drawn from.
pub(crate) struct Draw {
    area: Area,
    /// Files stay open over lines; such a script does not unmount, which would end with EBUSY.
    keeps_open: bool,
    open: Vec<String>,
}

impl Draw {
    /// Draws the habits of a script: the size and number of its files, open files or mounts.
    pub(crate) fn new(has_owners_and_links: bool, stream: &mut Stream) -> Self {
        let mut area = Area::whole(has_owners_and_links);
        area.file_bytes = FILE_BYTES[stream.below(4) as usize];
        // Few names meet often: a rename over a file that is open needs both to hit the same one.
        area.names = 2 + stream.below(6);
        Self { area, keeps_open: stream.below(2) == 0, open: Vec::new() }
    }

    /// A draw of more lines for a script: it mounts only if no file is open there.
    pub(crate) fn for_script(
        has_owners_and_links: bool,
        items: &[Item],
        stream: &mut Stream,
    ) -> Self {
        let mut draw = Self::new(has_owners_and_links, stream);
        draw.keeps_open |= opens(items);
        // Words about open files need the flag alone; where blocks mount, none may be opened.
        if mounts(items) {
            draw.keeps_open = false;
        }
        draw
    }

    /// A script of its own.
    pub(crate) fn script(&mut self, stream: &mut Stream) -> Vec<Item> {
        let first = self.area.first_calls().into_iter();
        let first = first.filter_map(|call| match call {
            Call::Line(line) => Some(Item::line(&format!("try {line}"))),
            _ => None,
        });
        let mut items: Vec<Item> = first.collect();
        let count = LINES.0 + stream.below(LINES.1);
        for _ in 0..count {
            items.extend(self.items(stream));
        }
        items
    }

    /// One line, or a block, or lines that belong together.
    pub(crate) fn items(&mut self, stream: &mut Stream) -> Vec<Item> {
        match stream.below(40) {
            0 => self.processes(stream),
            1 => {
                let count = 2 + stream.below(4);
                vec![Item::Block {
                    head: vec!["repeat".into(), count.to_string()],
                    bodies: vec![self.lines(1 + stream.below(3), stream)],
                }]
            }
            2 if !self.keeps_open => items_of("repeat 1 { umount\nmount - }"),
            3 => vec![Item::line(["sleep 1s", "sleep 6s", "sleep 40s"][stream.below(3) as usize])],
            4 => vec![Self::fill(stream)],
            5..=9 if self.keeps_open => vec![self.open_file(stream)],
            _ => self.lines(1, stream),
        }
    }

    fn lines(&self, count: u32, stream: &mut Stream) -> Vec<Item> {
        (0..count).map(|_| Item::line(&format!("try {}", self.line(stream)))).collect()
    }

    /// A system call.
    fn line(&self, stream: &mut Stream) -> String {
        if stream.below(3) == 0 {
            return self.other(stream);
        }
        loop {
            match self.area.draw(stream) {
                Call::Line(line) | Call::Refused(line, _) => return line,
                // No lines of the language, or none that does anything here.
                Call::RemoveAttribute(_) | Call::DropCaches | Call::Remount => {}
            }
        }
    }

    /// Calls that the shared draws leave out.
    fn other(&self, stream: &mut Stream) -> String {
        let (path, second) = (self.area.path(stream), self.area.path(stream));
        let directory = self.area.directory(stream);
        let below = |bound: u32, stream: &mut Stream| stream.below(bound);
        let has_posix = self.area.has_owners_and_links;
        let bytes = self.area.file_bytes;
        match below(16, stream) {
            0 => format!("fsync {}", ["d0", "d0/e", ".", "d1"][below(4, stream) as usize]),
            1 | 2 => format!("fdatasync {path}"),
            3 => format!("rename {path} {second} noreplace"),
            4 => format!("rename {path} {second} exchange"),
            5 => format!("rename {path} {directory} exchange"),
            6 => format!("rename {path} {second} whiteout"),
            7 | 8 => {
                let mode = ["", " keep-size", " punch-hole"][below(3, stream) as usize];
                format!(
                    "fallocate {path} {} {}{mode}",
                    below(bytes, stream),
                    1 + below(bytes, stream)
                )
            }
            9 => {
                let (count, seed) = (1 + below(5, stream), below(1000, stream));
                let sync = ["", " fsync", " fsynceach"][below(3, stream) as usize];
                format!("rwrite {path} {count} 512 {} {seed} x {seed}{sync}", bytes.max(4096))
            }
            10 => format!("utime {path} {} {}", below(1000, stream), below(1000, stream)),
            11 => format!("read {path} 4096"),
            12 if has_posix => {
                let kind = ["p", "s", "b 8 1", "c 1 3"][below(4, stream) as usize];
                format!("mknod {path} 644 {kind}")
            }
            13 if has_posix => format!("symlink {second} {path}"),
            14 if has_posix => {
                let name = ATTRIBUTES[below(3, stream) as usize];
                let value = "5a".repeat([0, 1, 59, 300, 1500][below(5, stream) as usize]);
                format!(
                    "setxattr {directory} {name} {}",
                    if value.is_empty() { "00" } else { &value }
                )
            }
            _ => format!("unlink {path}"),
        }
    }

    /// Many files, or one that is larger than most media; or room again.
    fn fill(stream: &mut Stream) -> Item {
        let (count, seed) = (4 + stream.below(30), stream.below(1000));
        Item::line(&match stream.below(5) {
            0 => format!("try putn d0/b 0 {count} 644 40000 4096 x {seed}"),
            1 => format!("try putn b 0 {count} 644 300 4096 t {seed}"),
            2 => format!("try put big 644 3000000 65536 x {seed}"),
            3 => "try unlink big".into(),
            _ => format!("try unlinkn d0/b 0 {count}"),
        })
    }

    /// A call on an open file.
    fn open_file(&mut self, stream: &mut Stream) -> Item {
        let (path, seed) = (self.area.path(stream), stream.below(1000));
        let (at, bytes) = (stream.below(self.area.file_bytes), 1 + stream.below(9000));
        let known = stream.below(self.open.len().max(1) as u32) as usize;
        let Some(name) = self.open.get(known).filter(|_| stream.below(5) > 0).cloned() else {
            let name = format!("o{}", stream.below(OPEN_NAMES));
            let flags = [
                "rw",
                "rw,creat",
                "rw,creat,trunc",
                "a,creat",
                "rw,creat,excl",
                "rw,sync",
                "w,dsync",
            ];
            self.open.push(name.clone());
            return Item::line(&format!(
                "try open {name} {path} {}",
                flags[stream.below(7) as usize]
            ));
        };
        Item::line(&match stream.below(10) {
            0..=2 => format!("try write {name} {bytes} x {seed}"),
            3..=4 => format!("try pwrite {name} {at} {bytes} t {seed}"),
            5 => format!("try ftruncate {name} {at}"),
            6 => format!("try fsync {name}"),
            7 => format!("try fdatasync {name}"),
            // Its name goes, or is another file's.
            8 => format!("try unlink {path}"),
            _ => {
                self.open.retain(|one| *one != name);
                format!("try close {name}")
            }
        })
    }

    /// Processes side by side.
    fn processes(&self, stream: &mut Stream) -> Vec<Item> {
        let count = 2 + stream.below(2);
        let bodies = (0..count).map(|_| self.lines(1 + stream.below(5), stream)).collect();
        vec![Item::Block { head: vec!["concurrent".into()], bodies }]
    }
}

fn opens(items: &[Item]) -> bool {
    items.iter().any(|item| item.name() == "open")
}

fn mounts(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Line(_) => item.name() == "umount",
        Item::Block { bodies, .. } => bodies.iter().any(|body| mounts(body)),
    })
}

/// A script that is a little other than a kept one: lines gone, moved, repeated, new, or of another kept script.
pub(crate) fn mutated(
    kept: &[Item],
    other: &[Item],
    has_owners_and_links: bool,
    stream: &mut Stream,
) -> Vec<Item> {
    let mut items = kept.to_vec();
    for _ in 0..=stream.below(4) {
        let at = stream.below(items.len() as u32 + 1) as usize;
        let end = (at + 1 + stream.below(6) as usize).min(items.len());
        match stream.below(6) {
            0 if items.len() > 4 => drop(items.drain(at.min(end)..end)),
            1 if at < items.len() => {
                let moved: Vec<Item> = items.drain(at..end).collect();
                let to = stream.below(items.len() as u32 + 1) as usize;
                drop(items.splice(to..to, moved));
            }
            2 if at < items.len() => {
                // A name is opened once.
                let again = items[at..end].iter().filter(|item| item.name() != "open");
                let again: Vec<Item> = again.cloned().collect();
                drop(items.splice(at..at, again));
            }
            3 if !(mounts(other) && opens(&items) || opens(other) && mounts(&items)) => {
                let from = stream.below(other.len() as u32 + 1) as usize;
                let to = (from + 1 + stream.below(8) as usize).min(other.len());
                let known: Vec<&Item> = items.iter().filter(|item| item.name() == "open").collect();
                let new = other[from.min(to)..to].iter().filter(|item| !known.contains(item));
                let new: Vec<Item> = new.cloned().collect();
                drop(items.splice(at..at, new));
            }
            4 => items.truncate(items.len().min(at.max(4))),
            _ => {
                let mut draw = Draw::for_script(has_owners_and_links, &items, stream);
                for _ in 0..=stream.below(4) {
                    let new = draw.items(stream);
                    drop(items.splice(at..at, new));
                }
            }
        }
    }
    items.truncate(MOST_ITEMS);
    items
}

/// Lines and blocks of a mutated script: its cuts take time with the square of them.
const MOST_ITEMS: usize = 60;

#[cfg(test)]
mod tests {
    use super::{Draw, mutated};
    use crate::script_text::{items_of, text_of};
    use random::Stream;
    use std::collections::BTreeSet;

    fn drawn(seed: u64, has_owners_and_links: bool) -> String {
        let mut stream = Stream::new(seed, "test");
        let mut draw = Draw::new(has_owners_and_links, &mut stream);
        text_of(&draw.script(&mut stream))
    }

    #[test]
    fn drawn_and_mutated_scripts_are_scripts_with_every_kind_of_call() {
        let mut words = BTreeSet::new();
        let mut before = items_of(&drawn(1000, true));
        for seed in 0..300 {
            let text = drawn(seed, true);
            script::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            words.extend(text.split_whitespace().map(str::to_owned));
            let items = items_of(&text);
            let mut stream = Stream::new(seed, "mutants");
            let mutant = text_of(&mutated(&items, &before, true, &mut stream));
            script::parse(&mutant).unwrap_or_else(|error| panic!("{error}: {mutant}"));
            before = items;
        }
        let calls = "put append write rwrite read fsync fdatasync sync truncate rename link symlink unlink \
                     unlinkn putn mkdir rmdir chmod chown utime mknod setxattr fallocate open pwrite \
                     ftruncate close concurrent repeat umount mount sleep noreplace exchange whiteout \
                     keep-size punch-hole fsynceach p s b c trusted.c";
        for call in calls.split_whitespace() {
            assert!(words.contains(call), "{call}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_script_again_and_another_seed_another_one() {
        assert_eq!(drawn(3, true), drawn(3, true));
        assert_ne!(drawn(3, true), drawn(4, true));
        assert!(!drawn(5, false).contains("chown"));
    }
}

//! Workloads that a kernel ran on a simulated chip, replayed: operations of the chip by phase.
//!
//! Expected are the counts of Linux 6.12 (`oplog/counts.csv` of the golden data); where the kernel's
//! own runs differ, or its page cache serves the collector, a margin stands in the table.

mod support;

use jffs2::{Jffs2, MountOptions};
use posix::{FileSystem, InodeNumber, NewInode, PAGE_BYTES};
use script::{Data, DataKind, Xorshift};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use support::{Bench, CALLER, blank, quiet, read_file, run, text};

/// The stream of a kind, by its letter.
fn stream(kind: &str, seed: u64) -> Data {
    Data::new(DataKind::from_letter(kind).expect("a kind of data"), seed)
}

/// Reads, programs and erases of the chip.
type Counts = [u64; 3];

struct Replay {
    /// Pages that the page cache of the host would hold.
    cached: RefCell<BTreeSet<(InodeNumber, u64)>>,
    bench: Bench,
    fs: Option<Jffs2>,
    phases: Vec<(String, Counts)>,
    phase: String,
    before: Counts,
}

impl Replay {
    fn counts(&self) -> Counts {
        let counters = self.bench.mtd.with_chip(|chip| chip.counters());
        [counters.reads(), counters.programs(), counters.erases]
    }

    fn end_phase(&mut self, next: &str) {
        let now = self.counts();
        let spent = [0, 1, 2].map(|at| now[at] - self.before[at]);
        if !self.phase.is_empty() {
            self.phases.push((self.phase.clone(), spent));
        }
        (self.phase, self.before) = (next.to_owned(), now);
    }

    fn fs(&self) -> &Jffs2 {
        self.fs.as_ref().expect("mounted")
    }

    async fn find(&self, path: &str) -> (InodeNumber, String) {
        let mut inode = 1;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return (inode, part.to_owned());
            }
            inode = self.fs().lookup(inode, part.as_bytes()).await.expect("a directory");
        }
        (inode, String::new())
    }

    /// Writes as the page cache does: what it does not hold it reads, even if all of it is written.
    async fn write(&self, inode: InodeNumber, offset: u64, data: &[u8]) {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (number, start) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
            let count = rest.len().min(PAGE_BYTES - start);
            let mut page = [0; PAGE_BYTES];
            if self.cached.borrow_mut().insert((inode, number)) || count < PAGE_BYTES {
                self.fs().read_page(inode, number, &mut page).await.expect("it reads");
            }
            page[start..start + count].copy_from_slice(&rest[..count]);
            let part = start..start + count;
            self.fs().write_page(&CALLER, inode, number, &page, part).await.expect("written");
            at += count as u64;
            rest = &rest[count..];
        }
    }

    async fn settle(&self) {
        let mut quiet_ms = 0;
        let mut before = self.counts();
        while quiet_ms < 1200 {
            self.bench.sim.sleep(100_000_000).await;
            let now = self.counts();
            quiet_ms = if now == before { quiet_ms + 100 } else { 0 };
            before = now;
        }
    }

    async fn put(
        &self,
        path: &str,
        bytes: usize,
        chunk: usize,
        mut data: Data,
        syncs: Option<&str>,
    ) {
        let (directory, name) = self.find(path).await;
        let fs = self.fs();
        let inode = fs.make(&CALLER, directory, name.as_bytes(), NewInode::Regular(0o644)).await;
        let inode = inode.expect("made");
        let mut at = 0;
        while at < bytes {
            let part = data.take(chunk.min(bytes - at));
            self.write(inode, at as u64, &part).await;
            at += part.len();
        }
        if syncs.is_some() {
            fs.fsync(&CALLER, inode).await.expect("synced");
        }
    }

    async fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[..] {
            ["phase", name] => self.end_phase(name),
            ["mount", ..] => {
                let options = MountOptions { has_thread: true, ..quiet(3) };
                self.fs = Some(self.bench.mount(options).await);
            }
            ["umount"] => {
                self.fs().unmount().await.expect("it unmounts");
                self.fs = None;
            }
            ["settle", _] => self.settle().await,
            ["mkdir", path, _] => {
                let (directory, name) = self.find(path).await;
                let new = NewInode::Directory(0o755);
                self.fs().make(&CALLER, directory, name.as_bytes(), new).await.expect("made");
            }
            ["sync"] => self.fs().sync().await.expect("synced"),
            ["put", path, _, bytes, chunk, kind, seed, ..] => {
                let (bytes, chunk) = (bytes.parse().expect("bytes"), chunk.parse().expect("bytes"));
                let data = stream(kind, seed.parse().expect("a seed"));
                self.put(path, bytes, chunk, data, words.get(7).copied()).await;
            }
            ["putn", prefix, _, _, _, _, _, kind, _] => {
                for file in number(2)..number(3) {
                    let data = stream(kind, number(8) + file);
                    let path = format!("{prefix}{file:05}");
                    self.put(&path, number(5) as usize, number(6) as usize, data, None).await;
                }
            }
            ["rwrite", path, _, _, _, _, kind, _, ..] => {
                let (directory, name) = self.find(path).await;
                let inode = self.fs().lookup(directory, name.as_bytes()).await.expect("a file");
                let (block, bytes) = (number(3), number(4));
                let (mut places, mut data) = (Xorshift::new(number(5)), stream(kind, number(7)));
                let syncs = words.get(8).copied();
                for _ in 0..number(2) {
                    let offset = (places.next_number() >> 33) % (bytes / block) * block;
                    let part = data.take(block as usize);
                    self.write(inode, offset, &part).await;
                    if syncs == Some("fsynceach") {
                        self.fs().fsync(&CALLER, inode).await.expect("synced");
                    }
                }
                if syncs == Some("fsync") {
                    self.fs().fsync(&CALLER, inode).await.expect("synced");
                }
            }
            ["read", path, _] => {
                let (directory, name) = self.find(path).await;
                let inode = self.fs().lookup(directory, name.as_bytes()).await.expect("a file");
                let shown = self.fs().attributes(inode).await.expect("attributes");
                read_file(self.fs(), inode, shown.size_bytes).await.expect("it reads");
            }
            ["unlinkn", prefix, _, _] => {
                for file in number(2)..number(3) {
                    self.unlink(&format!("{prefix}{file:05}")).await;
                }
            }
            ["unlink", path] => self.unlink(path).await,
            ["drop"] => {
                self.cached.borrow_mut().clear();
                if let Some(fs) = &self.fs {
                    for inode in 2..2000 {
                        fs.forget(inode).await.expect("forgotten");
                    }
                }
            }
            ["log" | "workload", ..] | [] => {}
            _ => panic!("unknown: {line}"),
        }
    }

    async fn unlink(&self, path: &str) {
        let (directory, name) = self.find(path).await;
        let inode = self.fs().lookup(directory, name.as_bytes()).await.expect("a file");
        self.fs().unlink(&CALLER, directory, name.as_bytes()).await.expect("unlinked");
        self.fs().forget(inode).await.expect("forgotten");
    }
}

fn replay(script: &str, blocks: u32) -> Vec<(String, Counts)> {
    let result = Rc::new(RefCell::new(Vec::new()));
    let (out, script) = (result.clone(), text(script));
    run(blank(blocks), true, move |bench| async move {
        let mut replay = Replay {
            cached: RefCell::default(),
            bench,
            fs: None,
            phases: Vec::new(),
            phase: String::new(),
            before: [0; 3],
        };
        for line in script.lines() {
            replay.line(line).await;
            if line.starts_with("phase end-umount") {
                break;
            }
        }
        if let Some(fs) = &replay.fs {
            fs.unmount().await.expect("it unmounts");
        }
        out.replace(replay.phases);
    });
    let phases = result.take();
    assert!(!phases.is_empty(), "the script did not come to its end");
    phases
}

/// Phase, counts of the kernel (reads, programs, erases), margins in percent of reads and programs
/// and in erases. Phases joined by `+` are added up: what the thread does before `mount` returns is a
/// matter of timing.
type Row = (&'static str, Counts, [u64; 3]);

fn compare(script: &str, blocks: u32, rows: &[Row]) {
    let phases = replay(script, blocks);
    let mut wrong = Vec::new();
    for (name, expected, margins) in rows {
        let mut found = [0; 3];
        for part in name.split('+') {
            let (_, counts) = phases.iter().find(|(phase, _)| phase == part).expect("a phase");
            (0..3).for_each(|at| found[at] += counts[at]);
        }
        let is_near = |at: usize| {
            let margin = if at == 2 { margins[2] } else { expected[at] * margins[at] / 100 };
            found[at].abs_diff(expected[at]) <= margin
        };
        if !(0..3).all(is_near) {
            wrong.push(format!("{name}: {found:?}, the kernel {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{script}:\n{}", wrong.join("\n"));
}

#[test]
fn incompressible_data_costs_what_it_costs_the_kernel() {
    let rows: [Row; 10] = [
        ("first-mount+first-mount-bg", [36_352, 512, 512], [0; 3]),
        ("create", [0, 60, 0], [0; 3]),
        ("seq-s4k", [3, 2097, 0], [0; 3]),
        ("seq-s32k", [1, 2094, 0], [0; 3]),
        ("rnd-end", [2, 524, 0], [0; 3]),
        // Which block is collected is drawn; pages come from the kernel's cache.
        ("rnd-each", [1336, 1013, 10], [10, 2, 1]),
        ("read", [5258, 0, 0], [0; 3]),
        ("full-umount", [0, 1, 0], [0; 3]),
        ("re-mount+re-mount-bg", [10_530, 0, 0], [3, 0, 0]),
        ("delete", [5505, 50, 47], [3, 4, 2]),
    ];
    compare("jffs2-base-x.ops", 512, &rows);
}

#[test]
fn text_costs_what_it_costs_the_kernel() {
    let rows: [Row; 9] = [
        ("first-mount+first-mount-bg", [36_352, 512, 512], [0; 3]),
        ("create", [0, 34, 0], [0; 3]),
        ("seq-s4k", [4, 831, 0], [0; 3]),
        // An fsync makes a pass of the collector, and which block that reads is drawn.
        ("seq-s32k", [1, 828, 0], [400, 1, 0]),
        ("rnd-end", [5, 208, 0], [20, 0, 0]),
        ("rnd-each", [1061, 503, 6], [15, 6, 1]),
        ("read", [3958, 0, 0], [1, 0, 0]),
        ("re-mount+re-mount-bg", [8033, 0, 0], [3, 0, 0]),
        ("delete", [3634, 21, 18], [3, 10, 2]),
    ];
    compare("jffs2-base-t.ops", 512, &rows);
}

#[test]
fn filling_and_mounting_costs_what_it_costs_the_kernel() {
    let rows: [Row; 6] = [
        ("fill1", [0, 16_755, 0], [0; 3]),
        ("fill1-mount+fill1-mount-bg", [27_665, 0, 0], [1, 0, 0]),
        ("fill2", [132, 8378, 0], [0; 3]),
        ("fill2-mount+fill2-mount-bg", [39_673, 0, 0], [1, 0, 0]),
        ("ow", [5966, 2157, 0], [2, 1, 1]),
        ("ow-mount+ow-mount-bg", [40_830, 0, 0], [1, 0, 0]),
    ];
    compare("jffs2-fill-x.ops", 512, &rows);
}

#[test]
fn collecting_costs_about_what_it_costs_the_kernel() {
    // The kernel's own runs differ by up to 13 percent; here every page is read from the medium.
    let rows: [Row; 4] = [
        ("first-mount+first-mount-bg", [4544, 64, 64], [0; 3]),
        ("fill", [0, 1309, 0], [0; 3]),
        ("ow1", [1250, 1419, 12], [10, 3, 1]),
        ("ow2+ow3+ow4", [7900, 5130, 78], [15, 7, 8]),
    ];
    compare("jffs2-gc-x.ops", 64, &rows);
}

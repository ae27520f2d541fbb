//! The bios that scripts cause here are those that blktrace recorded of Linux 6.12: for each line as many
//! logs, of the same size, at the same place, in the same order, from the same task and with the same flags.
//!
//! Processor time costs nothing and the device answers at once, so that what the kernel does by the way of a
//! race has one outcome here: `races.tsv` holds a run in which it had the same. A checkpoint may be asked for before the
//! first superblock of a `sync` or behind it; `sync` visits the file of inodes before or after files that were
//! overwritten; and a removed directory is deleted before or after the log that ends a `sync`.
//! `python/tests/test_kernel_bios_nilfs2.py` makes the recordings in `data/bios` again.

use crate::recorder;
use crate::support;

use block_medium::MemoryMedium;
use board::Board;
use fs_api::FileSystem;
use nilfs2::{
    FormatOptions, MountOptions, Nilfs2, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock, format,
};
use recorder::{Event, Recorder};
use script::{Command, ControlLine, Runner, Step, parse};
use sim::{Cpus, Sim, Simulation};
use std::collections::BTreeSet;
use std::rc::Rc;
use support::{profile, text};
use vfs::Vfs;

const EPOCH_S: u64 = 1_600_000_000;
const BLOCK_SECTORS: u64 = 8;

/// The disk of a script, from its first line.
struct Disk {
    mebibytes: u64,
    segment_blocks: u32,
    interval_s: u32,
}

impl Disk {
    fn of_script(script: &str) -> Self {
        let head = script.lines().next().expect("a first line");
        let value = |name: &str| -> u32 {
            let mut words = head.split(' ').filter_map(|word| word.strip_prefix(name));
            let value = words.next().and_then(|rest| rest.strip_prefix('='));
            value.expect(name).parse().expect("a number")
        };
        Self {
            mebibytes: value("mebibytes").into(),
            segment_blocks: value("segment_blocks"),
            interval_s: value("interval_s"),
        }
    }

    /// As mkfs.nilfs2 and nilfs-tune make it.
    async fn make(&self) -> MemoryMedium {
        let medium = MemoryMedium::new(4096, self.mebibytes << 20);
        let fresh = FormatOptions {
            blocks_per_segment: self.segment_blocks,
            now_s: EPOCH_S,
            ..FormatOptions::default()
        };
        format(&medium, &fresh).await.expect("it is made");
        let size = self.mebibytes << 20;
        for offset in [SUPERBLOCK_OFFSET, Superblock::second_offset(size)] {
            let mut block = medium.block(offset / 4096);
            let raw = &mut block[(offset % 4096) as usize..][..SUPERBLOCK_BYTES];
            let superblock = Superblock::decode(raw).expect("it was just made");
            raw.copy_from_slice(
                &Superblock { commit_interval: self.interval_s, ..superblock }.encode(),
            );
            medium.set_block(offset / 4096, &block);
        }
        medium
    }
}

/// A script under way.
struct Session {
    sim: Sim,
    cpus: Rc<Cpus>,
    recorder: Rc<Recorder>,
    mounted: Option<(Nilfs2, Rc<Vfs<Nilfs2>>)>,
}

impl Session {
    async fn command(&mut self, command: &Command) {
        self.recorder.line.set(command.place.line);
        match &command.step {
            Step::Control(ControlLine::MountGiven { .. }) => {
                let options = MountOptions { epoch_s: EPOCH_S, ..MountOptions::new(profile()) };
                let fs =
                    Nilfs2::mount(&self.sim, self.cpus.clone(), self.recorder.clone(), options);
                let fs = fs.await.expect("it mounts");
                let board = Board::without_costs();
                let vfs = Vfs::cached(&self.sim, &self.cpus, &Rc::new(board), Rc::new(fs.clone()));
                self.mounted = Some((fs, Rc::new(vfs)));
            }
            Step::Control(ControlLine::Unmount) => {
                let (fs, _) = self.mounted.take().expect("it is mounted");
                fs.unmount().await.expect("it unmounts");
                self.recorder.forget_buffers();
            }
            step => {
                let (_, vfs) = self.mounted.as_ref().expect("it is mounted");
                if matches!(step, Step::Control(ControlLine::DropCaches)) {
                    vfs.drop_caches().await.expect("they are dropped");
                    return;
                }
                let runner = Runner::new(&self.sim, vfs.clone(), EPOCH_S.cast_signed());
                let done = runner.step(step).await;
                done.unwrap_or_else(|error| panic!("line {}: {error}", command.place));
            }
        }
    }
}

/// The bios of a script here.
fn ours(name: &str) -> Vec<Event> {
    let script = text(&format!("bios/{name}.ops"));
    let disk = Disk::of_script(&script);
    let commands = parse(&script).expect("a script");
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let task = simulation.handle().spawn(async move {
        let recorder = Rc::new(Recorder::new(disk.make().await));
        let mut session = Session { sim: sim.clone(), cpus, recorder, mounted: None };
        for command in &commands.commands().collect::<Vec<_>>() {
            session.command(command).await;
        }
        session.recorder.take()
    });
    simulation.run();
    task.try_take().expect("it came to its end")
}

/// The bios that were recorded.
fn theirs(name: &str) -> Vec<Event> {
    let table = text(&format!("bios/{name}.tsv"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let number = |index: usize| cells[index].parse::<u64>().expect("a number");
        let (sector, bios) = (number(3), number(5));
        let sectors = number(4) / bios;
        let event = move |index: u64, line: usize, is_thread, rwbs: &str| Event {
            line,
            is_thread,
            rwbs: rwbs.to_owned(),
            sector: sector + index * sectors,
            sectors,
        };
        let (line, is_thread, rwbs) = (number(0) as usize, cells[1] == "segctord", cells[2]);
        (0..bios).map(|index| event(index, line, is_thread, rwbs)).collect::<Vec<_>>()
    };
    table.lines().skip(1).flat_map(row).collect()
}

/// Scripts, and how many logs, superblocks and flushes they cause.
const SCRIPTS: &[(&str, usize)] = &[
    ("directories", 33),
    ("large", 18),
    ("races", 55),
    ("reads", 81),
    ("small", 129),
    ("timer", 9),
];

/// Bios that write or flush. Those of one log are joined: a bio of the kernel holds 256 pieces of memory,
/// and how many pages are one piece is a matter of which were free.
fn writes(events: &[Event]) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::new();
    for event in events.iter().filter(|event| event.rwbs.contains('W')) {
        match joined.last_mut() {
            Some(last) if last.rwbs == "W" => {
                assert!(last.sectors >= 256 * BLOCK_SECTORS, "only long logs are of several bios");
                assert_eq!((last.line, last.sector + last.sectors), (event.line, event.sector));
                last.sectors += event.sectors;
                last.rwbs.clone_from(&event.rwbs);
            }
            _ => joined.push(event.clone()),
        }
    }
    joined
}

/// Places and lengths of the reads of a line, by the process or the thread, read ahead or not. Those of
/// less than a block are the first look at the superblocks, in blocks of 1 KiB; here blocks of 4 KiB are
/// read at once.
fn reads(events: &[Event], line: usize) -> Vec<(u64, u64)> {
    let is_read = |event: &&Event| {
        event.line == line && event.rwbs.starts_with('R') && event.sectors >= BLOCK_SECTORS
    };
    events.iter().filter(is_read).map(|event| (event.sector, event.sectors)).collect()
}

/// All that is written: each log, superblock and flush is the same, in the same order.
#[test]
fn writes_are_those_of_the_kernel() {
    for (name, count) in SCRIPTS {
        let (ours, theirs) = (ours(name), theirs(name));
        let (ours, theirs) = (writes(&ours), writes(&theirs));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{name}: here, and there");
        }
        assert_eq!((ours.len(), theirs.len()), (*count, *count), "{name}");
    }
}

/// Lines whose reads differ in order or number, how many blocks only one side reads at most, and why.
const EXPLAINED: &[(&str, usize, usize, &str)] =
    &[("small", 21, 1, KEPT_PAGE), ("reads", 17, 0, WINDOW)];
/// All other lines that read.
const EQUAL_LINES: usize = 24;
const KEPT_PAGE: &str = "a file that is cut has its last page in the page cache; here it is read";
const WINDOW: &str =
    "a call for more than the read-ahead window reads as much as a request may hold";

/// All that is read: the same blocks in the same bios, but for lines that are explained.
#[test]
fn reads_are_those_of_the_kernel() {
    let mut equal_lines = 0;
    for (name, _) in SCRIPTS {
        let (ours, theirs) = (ours(name), theirs(name));
        let last = ours.iter().chain(&theirs).map(|event| event.line).max().expect("bios");
        for line in 0..=last {
            let (ours, theirs) = (reads(&ours, line), reads(&theirs, line));
            let explained = EXPLAINED.iter().find(|entry| (entry.0, entry.1) == (*name, line));
            let Some((_, _, most, why)) = explained else {
                equal_lines += usize::from(!theirs.is_empty());
                assert_eq!(ours, theirs, "{name}: reads of line {line}, here and there");
                continue;
            };
            assert_ne!(ours, theirs, "{name}: line {line} needs no explanation: {why}");
            let (ours, theirs) = (blocks(&ours), blocks(&theirs));
            let apart = ours.symmetric_difference(&theirs).count();
            assert!(
                apart <= *most,
                "{name}: line {line}: {apart} blocks apart, {most} are explained"
            );
        }
    }
    assert_eq!(equal_lines, EQUAL_LINES);
}

/// The first sectors of all blocks that were read.
fn blocks(reads: &[(u64, u64)]) -> BTreeSet<u64> {
    let each = |&(sector, sectors): &(u64, u64)| {
        (sector..sector + sectors).step_by(BLOCK_SECTORS as usize)
    };
    reads.iter().flat_map(each).collect()
}

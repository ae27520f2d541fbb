//! What a mount finds when a cut tore the log that a superblock names, or a later one.
//!
//! A run is written down bio by bio. Every prefix of it is mounted, with the next bio cut inside, and with
//! one bio left out that no flush had made durable. What a sync promised is there. Then the log that the
//! newer superblock names is torn: the mount begins at the older superblock, as `load_nilfs` does, and
//! refuses the medium only if both superblocks name the torn log.

use crate::support;

use block_medium::{BlockMedium, MemoryMedium, Pending, WriteFlags};
use fs_api::{FileSystem, NewInode, PAGE_BYTES};
use nilfs2::summary::{LOG_END, LogHeader};
use nilfs2::{
    FormatOptions, MountError, MountOptions, Nilfs2, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET,
    Superblock, find_profile, format,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::{Bench, CALLER, quiet, read_file, run};

const BLOCK: usize = 4096;
const DEVICE_BYTES: u64 = 8 << 20;
/// The second superblock stands behind it.
const LAST_LOG_BLOCK: u64 = DEVICE_BYTES / BLOCK as u64 - 2;
const FILES: usize = 4;
/// Number of the round that wrote a file last; also the byte that fills it. None: not made yet.
type Versions = [u8; FILES];

/// One write, or a flush if it has no bytes.
#[derive(Clone)]
struct Entry {
    block: u64,
    bytes: Vec<u8>,
    flags: WriteFlags,
}

/// A device in memory that keeps what was written to it, in order.
struct History {
    medium: MemoryMedium,
    entries: RefCell<Vec<Entry>>,
}

impl BlockMedium for History {
    fn block_bytes(&self) -> usize {
        self.medium.block_bytes()
    }

    fn size_bytes(&self) -> u64 {
        self.medium.size_bytes()
    }

    fn read(&self, first: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        self.medium.read(first, blocks)
    }

    fn write(
        &self,
        block: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        self.entries.borrow_mut().push(Entry { block, bytes: bytes.clone(), flags });
        self.medium.write(block, bytes, flags)
    }

    fn flush(&self) -> Pending<'_, ()> {
        let flags = WriteFlags { flushes_before: true, ..WriteFlags::default() };
        self.entries.borrow_mut().push(Entry { block: 0, bytes: Vec::new(), flags });
        self.medium.flush()
    }
}

/// What a sync promised when it returned.
#[derive(Clone, Copy)]
struct Promise {
    /// Bios up to then.
    entries: usize,
    checkpoint: u64,
    versions: Versions,
}

/// A run: the medium before it, its bios, and what was promised.
struct Recording {
    before: MemoryMedium,
    entries: Vec<Entry>,
    promises: Vec<Promise>,
    newest: Versions,
}

/// Blocks of a file as a round writes it.
fn pages_of(version: u8) -> u64 {
    1 + u64::from(version) * 7 % 19
}

/// Rounds of writes, each of which ends with one of the calls that make something durable.
fn record(has_barrier: bool) -> Recording {
    let (before, is_done) = run(MemoryMedium::new(BLOCK, DEVICE_BYTES), |bench| async move {
        let options = FormatOptions { blocks_per_segment: 32, ..FormatOptions::default() };
        format(&*bench.medium, &options).await.expect("it is made");
    });
    assert!(is_done);
    let before = before.after_cut(None);
    let medium = before.after_cut(None);
    let history = Rc::new(History { medium, entries: RefCell::default() });
    let promises: Rc<RefCell<Vec<Promise>>> = Rc::default();
    let newest = Rc::new(Cell::new([0; FILES]));
    let (kept, made, last) = (history.clone(), promises.clone(), newest.clone());
    let (_, is_done) = run(MemoryMedium::new(BLOCK, BLOCK as u64), |bench| async move {
        let medium: Rc<dyn BlockMedium> = history.clone();
        let options = MountOptions { has_barrier, ..quiet() };
        let fs = Nilfs2::mount(&bench.sim, bench.cpus.clone(), medium, options).await;
        let fs = fs.expect("it mounts");
        let mut versions = [0; FILES];
        for round in 1..36_u8 {
            let which = usize::from(round) % FILES;
            versions[which] = round;
            last.set(versions);
            let file = write_round(&fs, which, round).await;
            match round % 5 {
                0 => fs.sync().await.expect("it syncs"),
                1 | 3 => fs.sync_data(file).await.expect("it syncs"),
                _ => fs.fsync(&CALLER, file).await.expect("it syncs"),
            }
            promises.borrow_mut().push(Promise {
                entries: history.entries.borrow().len(),
                checkpoint: fs.newest_checkpoint(),
                versions,
            });
            // A superblock that is ten seconds old is written with the next log.
            bench.sim.sleep(4_000_000_000).await;
        }
        fs.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    let (entries, promises) = (kept.entries.take(), made.take());
    Recording { before, entries, promises, newest: newest.get() }
}

async fn write_round(fs: &Nilfs2, which: usize, round: u8) -> u64 {
    let name = [b'a' + which as u8];
    let file = match fs.lookup(fs.root(), &name).await {
        Ok(file) => file,
        Err(_) => {
            fs.make(&CALLER, fs.root(), &name, NewInode::Regular(0o600)).await.expect("it is made")
        }
    };
    for page in 0..pages_of(round) {
        let (bytes, part) = ([round; PAGE_BYTES], 0..PAGE_BYTES);
        fs.write_page(&CALLER, file, page, &bytes, part).await.expect("it is written");
    }
    file
}

fn apply(medium: &MemoryMedium, entry: &Entry, blocks: usize, has_half: bool) {
    for (index, bytes) in entry.bytes.chunks_exact(BLOCK).enumerate().take(blocks) {
        medium.set_block(entry.block + index as u64, bytes);
    }
    if has_half && let Some(bytes) = entry.bytes.chunks_exact(BLOCK).nth(blocks) {
        // A page of 2 KiB was programmed, the next one was not.
        let at = entry.block + blocks as u64;
        let mut torn = medium.block(at);
        torn[..BLOCK / 2].copy_from_slice(&bytes[..BLOCK / 2]);
        medium.set_block(at, &torn);
    }
}

impl Recording {
    fn prefix(&self, count: usize) -> MemoryMedium {
        let medium = self.before.after_cut(None);
        for entry in &self.entries[..count] {
            apply(&medium, entry, usize::MAX, false);
        }
        medium
    }

    /// What was promised when so many bios had been written.
    fn promise(&self, count: usize) -> Promise {
        let made = self.promises.iter().rev().find(|promise| promise.entries <= count);
        let nothing = Promise { entries: 0, checkpoint: 1, versions: [0; FILES] };
        made.copied().unwrap_or(nothing)
    }

    /// Bios before `count` that no flush had made durable.
    fn volatile(&self, count: usize) -> std::ops::Range<usize> {
        let flushes = self.entries[..count].iter().rposition(|entry| entry.flags.flushes_before);
        flushes.unwrap_or(0)..count
    }
}

/// A log that another of the same construction follows. Nothing flushes the device between the two, and
/// `nilfs_search_super_root` takes a super root in the next segment though the log before it is lost: then
/// the checkpoint leads to blocks that were never written. Real kernels lose such a medium, too; see
/// [`a_log_that_is_lost_before_its_continuation_takes_the_medium`].
fn begins_chain(entry: &Entry) -> bool {
    let header = LogHeader::decode(&entry.bytes[..BLOCK]);
    header.is_some_and(|header| header.flags & LOG_END == 0)
}

/// Mounts, reading only and writing; every file is of one round, no older than promised. Tells whether the
/// medium was mounted.
fn shows(medium: &MemoryMedium, least: Versions, most: Versions, label: &str) -> bool {
    let is_mounted = Rc::new(Cell::new(false));
    let (reported, name) = (is_mounted.clone(), label.to_owned());
    let (_, is_done) = run(medium.after_cut(None), |bench| async move {
        for round in 0..3 {
            let options = MountOptions { is_read_only: round == 0, ..quiet() };
            let fs = match bench.try_mount(options).await {
                Ok(fs) => fs,
                Err(MountError::NoCheckpoint(_)) if round == 0 => return,
                Err(error) => panic!("{name}: {error}"),
            };
            reported.set(true);
            assert_versions(&fs, least, most, &name).await;
            if round > 0 {
                assert_eq!(fs.check().await.expect("it is read"), [], "{name}");
                let file = fs.make(&CALLER, fs.root(), &[round], NewInode::Regular(0o600)).await;
                let file = file.expect("it is made");
                let bytes = [round; PAGE_BYTES];
                let written = fs.write_page(&CALLER, file, 0, &bytes, 0..PAGE_BYTES).await;
                written.expect("it is written");
                fs.unmount().await.expect("it unmounts");
            }
        }
    });
    assert!(is_done, "{label}");
    is_mounted.get()
}

async fn assert_versions(fs: &Nilfs2, least: Versions, most: Versions, label: &str) {
    for which in 0..FILES {
        let Ok(file) = fs.lookup(fs.root(), &[b'a' + which as u8]).await else {
            assert_eq!(least[which], 0, "{label}: file {which} is lost");
            continue;
        };
        let shown = fs.attributes(file).await.expect("it is there");
        let content = read_file(fs, file, shown.size_bytes).await.expect("it is read");
        let version = content.first().copied().unwrap_or(0);
        assert!((least[which]..=most[which]).contains(&version), "{label}: file {which} {version}");
        let written = usize::try_from(pages_of(version)).expect("few") * PAGE_BYTES;
        // Behind them an earlier round may have written more.
        let is_whole =
            content.get(..written).is_some_and(|all| all.iter().all(|it| *it == version));
        assert!(is_whole, "{label}: file {which} is of two rounds");
    }
}

#[test]
fn every_prefix_and_every_gap_keeps_what_was_synced() {
    let recording = record(true);
    let (mut inside, mut gaps, mut hazards) = (0, 0, 0);
    for count in 0..=recording.entries.len() {
        let medium = recording.prefix(count);
        let least = recording.promise(count).versions;
        let shows = |medium: &MemoryMedium, label: String| {
            assert!(shows(medium, least, recording.newest, &label), "{label} is refused");
        };
        shows(&medium, format!("{count} bios"));
        if let Some(entry) = recording.entries.get(count) {
            let blocks = entry.bytes.len() / BLOCK;
            for cut in 0..blocks {
                let torn = medium.after_cut(None);
                apply(&torn, entry, cut, true);
                shows(&torn, format!("{count} bios and {cut} blocks"));
                inside += 1;
            }
        }
        for left_out in recording.volatile(count) {
            let entry = &recording.entries[left_out];
            if entry.bytes.is_empty() || entry.flags.is_durable {
                continue;
            }
            if begins_chain(entry) && left_out + 1 < count {
                hazards += 1;
                continue;
            }
            let blocks = entry.bytes.len() / BLOCK;
            // All of the bio, then single blocks in it.
            for lost in [0..blocks, 0..1, blocks / 2..blocks / 2 + 1, blocks - 1..blocks] {
                let medium = recording.prefix(left_out);
                let kept = (0..blocks).filter(|block| !lost.contains(block));
                for block in kept {
                    let bytes = &entry.bytes[block * BLOCK..][..BLOCK];
                    medium.set_block(entry.block + block as u64, bytes);
                }
                let later = &recording.entries[left_out + 1..count];
                for entry in later {
                    apply(&medium, entry, usize::MAX, false);
                }
                shows(&medium, format!("{count} bios without {lost:?} of {left_out}"));
                gaps += 1;
            }
        }
    }
    let counts = (inside, gaps, hazards);
    assert!(inside > 200 && gaps > 100 && (1..gaps / 4).contains(&hazards), "{counts:?}");
}

/// The checkpoint that a mount comes to, and what is wrong with it.
fn newest_of(medium: &MemoryMedium) -> Result<u64, MountError> {
    let found = Rc::new(RefCell::new(None));
    let reported = found.clone();
    let (_, is_done) = run(medium.after_cut(None), |bench| async move {
        let mounted = bench.try_mount(MountOptions { is_read_only: true, ..quiet() }).await;
        reported.replace(Some(mounted.map(|fs| fs.newest_checkpoint())));
    });
    assert!(is_done);
    found.take().expect("it was mounted or refused")
}

/// Linux 6.1 and 6.12 say `error -5 while loading last checkpoint (checkpoint number=19)` of such a disk,
/// and mount neither it nor anything older: the walk goes on at the next segment after a log that is not
/// intact (`strayed` in `nilfs_search_super_root`, `fs/nilfs2/recovery.c`), and the super root there wins.
#[test]
fn a_log_that_is_lost_before_its_continuation_takes_the_medium() {
    let recording = record(true);
    let (mut refused, mut mounted) = (0, 0);
    for count in 0..=recording.entries.len() {
        for left_out in recording.volatile(count) {
            let entry = &recording.entries[left_out];
            if entry.bytes.is_empty() || !begins_chain(entry) || left_out + 1 >= count {
                continue;
            }
            let medium = recording.prefix(left_out);
            for entry in &recording.entries[left_out + 1..count] {
                apply(&medium, entry, usize::MAX, false);
            }
            let newest = newest_of(&recording.prefix(count)).expect("nothing is lost");
            let label = format!("{count} bios without {left_out}");
            match newest_of(&medium) {
                // What is lost was none of the blocks that the mount itself needs.
                Ok(found) => {
                    assert_eq!(found, newest, "{label}");
                    mounted += 1;
                }
                Err(MountError::SplitCheckpoint(_)) => refused += 1,
                Err(error) => panic!("{label}: {error}"),
            }
        }
    }
    assert!(refused > 0, "{refused} refused, {mounted} mounted");
}

/// Both superblocks as they stand on a medium, the newer first.
fn superblocks(medium: &MemoryMedium) -> Vec<Superblock> {
    let second = Superblock::second_offset(DEVICE_BYTES);
    let mut found: Vec<Superblock> = [SUPERBLOCK_OFFSET, second]
        .into_iter()
        .filter_map(|offset| {
            let block = medium.block(offset / BLOCK as u64);
            let at = (offset % BLOCK as u64) as usize;
            Superblock::decode(&block[at..at + SUPERBLOCK_BYTES]).ok()
        })
        .collect();
    found.sort_by_key(|superblock| std::cmp::Reverse(superblock.last_checkpoint));
    found
}

/// Blocks of a log: the summary's first block says how many there are.
fn log_blocks(medium: &MemoryMedium, start: u64) -> u64 {
    let header = LogHeader::decode(&medium.block(start)).expect("a log");
    header.blocks.into()
}

#[test]
fn a_torn_newest_log_leads_back_to_an_earlier_position() {
    let recording = record(true);
    let (mut rolled_back, mut refused) = (0, 0);
    for count in 2..=recording.entries.len() {
        let medium = recording.prefix(count);
        let pair = superblocks(&medium);
        let start = pair[0].last_log;
        let blocks = log_blocks(&medium, start);
        let has_earlier = pair.len() == 2 && pair[1].last_log != start;
        let earlier = recording.promises.iter().rev();
        let mut earlier =
            earlier.filter(|it| it.checkpoint < pair.last().map_or(0, |it| it.last_checkpoint));
        let least = earlier.next().map_or([0; FILES], |it| it.versions);
        for torn in [0, blocks / 2, blocks - 1] {
            for byte in [0, 0xff] {
                let medium = medium.after_cut(None);
                medium.set_block(start + torn, &[byte; BLOCK]);
                let label = format!("{count} bios, block {torn} of the log torn");
                let is_mounted = shows(&medium, least, recording.newest, &label);
                assert_eq!(is_mounted, has_earlier, "{label}: {start}");
                rolled_back += u32::from(is_mounted);
                refused += u32::from(!is_mounted);
            }
        }
    }
    assert!(rolled_back > 100 && refused > 10, "{rolled_back} rolled back, {refused} refused");
}

/// Without flushes a superblock may be durable before the log that it names.
#[test]
fn without_barriers_a_lost_log_leads_back() {
    let recording = record(false);
    let mut rolled_back = 0;
    for count in 2..=recording.entries.len() {
        let pair = superblocks(&recording.prefix(count));
        let names = |entry: &Entry| entry.block == pair[0].last_log && !entry.bytes.is_empty();
        let Some(lost) = recording.entries[..count].iter().rposition(names) else { continue };
        let rest = &recording.entries[lost + 1..count];
        let is_superblock = |entry: &Entry| entry.block == 0 || entry.block > LAST_LOG_BLOCK;
        if rest.is_empty()
            || !rest.iter().all(is_superblock)
            || pair[1].last_log == pair[0].last_log
        {
            continue;
        }
        let medium = recording.prefix(lost);
        for entry in rest {
            apply(&medium, entry, usize::MAX, false);
        }
        let label = format!("{count} bios without {lost}");
        assert!(shows(&medium, [0; FILES], recording.newest, &label), "{label} is refused");
        rolled_back += 1;
    }
    assert!(rolled_back > 3, "{rolled_back} logs that a superblock names were lost");
}

#[test]
fn kernels_before_2_6_36_refuse_a_torn_newest_log() {
    let recording = record(true);
    let medium = recording.prefix(recording.entries.len() - 1);
    let pair = superblocks(&medium);
    assert_ne!(pair[0].last_log, pair[1].last_log);
    medium.set_block(pair[0].last_log, &[0; BLOCK]);
    let (_, is_done) = run(medium, |bench: Bench| async move {
        let old = find_profile("linux-2.6.35").expect("in the table");
        let options = MountOptions { is_read_only: true, ..MountOptions::new(old) };
        let refused = bench.try_mount(options).await.err();
        assert!(matches!(refused, Some(MountError::NoCheckpoint(_))), "{refused:?}");
        let fs = bench.mount(MountOptions { is_read_only: true, ..quiet() }).await;
        assert!(fs.newest_checkpoint() >= pair[1].last_checkpoint);
    });
    assert!(is_done);
}

//! Damaged images of NILFS2: a message or a report, never a panic and never a loop.
//!
//! Every case has a seed, and the message names it. `NANDLAB_FORGERIES` asks for more of them.
#![allow(clippy::disallowed_methods, reason = "how much is tried is the user's choice")]

use crate::processor_time::Stopwatch;
use block_medium::{BlockMedium, MemoryMedium};
use fs_api::{Caller, FileSystem, NewInode, Time};
use image::{AnyImage, OpenOptions};
use nilfs2::records::SUPER_ROOT_BYTES;
use nilfs2::summary::{LOG_SUPER_ROOT, LogHeader, seal};
use nilfs2::{
    CleanerSettings, FormatOptions, MountOptions, Nilfs2, PROFILES, SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSET, Superblock, format,
};
use random::Stream;
use sim::{Cpus, Sim, Simulation};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use vfs::{OpenOptions as Opening, Vfs};

const BLOCK: usize = 4096;
const DEVICE_BYTES: u64 = 3 << 20;
const CALLER: Caller = Caller { uid: 3, gid: 4, now: Time::from_seconds(1_600_000_000) };
/// No damage makes a file longer than this be read.
const FILE_BYTES_MAX: u64 = 1 << 20;
const FLIPS: u64 = 100_000;
/// No case may take longer, in processor time.
const LONGEST: Duration = Duration::from_secs(20);

async fn write(vfs: &Vfs<Nilfs2>, path: &str, bytes: &[u8]) {
    let options = Opening { create: Some(0o640), truncate: true, ..Opening::default() };
    let file = vfs.open(&CALLER, path.as_bytes(), options).await.expect("it opens");
    vfs.write(&CALLER, &file, 0, bytes).await.expect("it fits");
    vfs.close(&CALLER, file).await.expect("it closes");
}

async fn fill(sim: Sim, cpus: Rc<Cpus>, medium: Rc<dyn BlockMedium>, unmounts: bool) {
    let fresh = FormatOptions { blocks_per_segment: 32, ..FormatOptions::default() };
    format(&*medium, &fresh).await.expect("it is made");
    let profile = PROFILES.last().expect("there are profiles");
    let options = MountOptions { has_timer: false, ..MountOptions::new(profile) };
    let fs = Nilfs2::mount(&sim, cpus, medium, options).await.expect("it mounts");
    let vfs = Vfs::new(&sim, Rc::new(fs.clone()));
    let mut stream = Stream::new(7, "contents");
    vfs.make(&CALLER, b"d", NewInode::Directory(0o755)).await.expect("made");
    vfs.make(&CALLER, b"d/device", NewInode::Special(0o020_600, (5, 1))).await.expect("made");
    vfs.make(&CALLER, b"d/link", NewInode::Symlink(b"../text")).await.expect("made");
    write(&vfs, "text", "segment block log ".repeat(4000).as_bytes()).await;
    vfs.link(&CALLER, b"text", b"d/text").await.expect("linked");
    for round in 0..6 {
        for file in 0..4 {
            let noise: Vec<u8> = (0..9000 + 7000 * file).map(|_| stream.next_u64() as u8).collect();
            write(&vfs, &format!("d/file{file}"), &noise[round * 100..]).await;
        }
        let checkpoint = fs.make_checkpoint().await.expect("it is made");
        if round == 1 {
            fs.change_checkpoint(checkpoint, true).await.expect("it is there");
        }
        if round == 3 {
            fs.sync().await.expect("synced");
            let settings = CleanerSettings { protection_period_s: 0, ..CleanerSettings::default() };
            fs.clean(&settings, 2, 0).await.expect("it cleans");
        }
    }
    vfs.unlink(&CALLER, b"d/file0").await.expect("removed");
    fs.sync().await.expect("synced");
    if unmounts {
        vfs.unmount().await.expect("it unmounts");
    } else {
        // A log of data alone behind the newest checkpoint.
        let inode = vfs.resolve(b"text").await.expect("there");
        write(&vfs, "text", b"rolled forward").await;
        fs.sync_data(inode).await.expect("synced");
    }
    assert_eq!(fs.findings(), []);
    sim.stop();
}

fn sample(unmounts: bool) -> Vec<u8> {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let medium = Rc::new(MemoryMedium::new(BLOCK, DEVICE_BYTES));
    sim.spawn(fill(sim.clone(), cpus, medium.clone(), unmounts));
    simulation.run();
    let mut image = Vec::new();
    medium.save(&mut image).expect("it is in memory");
    image
}

fn asked() -> OpenOptions {
    OpenOptions { file_system: Some("nilfs2".into()), ..OpenOptions::default() }
}

/// All that reads an image; only how it ends matters. True if it was opened and something was found.
fn try_all(bytes: Vec<u8>, checkpoint: Option<u64>, case: &str) -> bool {
    let start = Stopwatch::of_thread();
    let options = OpenOptions { checkpoint, ..asked() };
    let mut is_found = false;
    if let Ok(image) = AnyImage::from_bytes(Path::new("damaged"), bytes, &options) {
        let report = image.check_within(FILE_BYTES_MAX);
        is_found = report.is_ok_and(|report| !report.findings.is_empty());
        // A message is as good as a description.
        let _ = image.info();
    }
    assert!(start.elapsed() < LONGEST, "{case} took {:?}", start.elapsed());
    is_found
}

/// Blocks that hold something.
fn used_blocks(bytes: &[u8]) -> Vec<usize> {
    let blocks = bytes.chunks_exact(BLOCK).enumerate();
    blocks.filter(|(_, block)| block.iter().any(|it| *it != 0)).map(|(number, _)| number).collect()
}

#[test]
fn samples_are_sound() {
    for unmounts in [true, false] {
        let image = AnyImage::from_bytes(Path::new("sound"), sample(unmounts), &asked());
        let image = image.expect("it opens");
        let report = image.check().expect("it mounts");
        assert_eq!(report.findings, []);
        assert_eq!(report.notes.len(), usize::from(!unmounts), "{:?}", report.notes);
        let rows = image.list(true).expect("it mounts").manifest.rows;
        let text = rows.iter().find(|row| row.path == "text").expect("there");
        let expected = if unmounts { 72_000 } else { 14 };
        assert_eq!((rows.len(), text.size_bytes), (10, expected));
    }
}

#[test]
fn nilfs2_survives_100_000_flips() {
    let samples = [sample(true), sample(false)];
    let used = samples.each_ref().map(|sample| used_blocks(sample));
    let (mut flips, mut found) = (0, 0);
    for seed in 0.. {
        if flips >= FLIPS {
            break;
        }
        let mut stream = Stream::new(seed, "flips");
        let which = seed as usize % 2;
        let mut damaged = samples[which].clone();
        let count = 4 << stream.below(6);
        for _ in 0..count {
            let block = used[which][stream.below(used[which].len() as u32) as usize];
            let bit = stream.below(8 * BLOCK as u32) as usize;
            damaged[block * BLOCK + bit / 8] ^= 1 << (bit % 8);
        }
        flips += count;
        let checkpoint = if seed % 5 == 0 { Some(3) } else { None };
        found += u32::from(try_all(damaged, checkpoint, &format!("flips {seed}")));
    }
    assert!(found > 500, "{found} found");
}

#[test]
fn truncated_images_are_told() {
    let sound = sample(true);
    let mut stream = Stream::new(3, "lengths");
    for _ in 0..100 {
        let length = 2048 + stream.below(sound.len() as u32 - 2048) as usize;
        let case = format!("cut to {length}");
        assert!(try_all(sound[..length].to_vec(), None, &case), "{case}: nothing is found");
    }
}

/// Senseless numbers in a superblock, with a sound checksum.
fn forge_superblock(bytes: &mut [u8], stream: &mut Stream) {
    let second = Superblock::second_offset(DEVICE_BYTES) as usize;
    for at in [SUPERBLOCK_OFFSET as usize, second] {
        let raw = &mut bytes[at..at + SUPERBLOCK_BYTES];
        for _ in 0..=stream.below(2) {
            let field = 20 + 4 * stream.below(65) as usize;
            raw[field..field + 4].copy_from_slice(&(senseless(stream) as u32).to_le_bytes());
        }
        raw[16..20].fill(0);
        let seed = u32::from_le_bytes(raw[12..16].try_into().expect("four bytes"));
        let sum = crc(seed, &raw[..280]);
        raw[16..20].copy_from_slice(&sum.to_le_bytes());
        Superblock::decode(raw).expect("the checksum is sound");
    }
}

/// The CRC of the format: reflected, begun with a seed, without a last exclusive or.
fn crc(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 }
        })
    })
}

fn senseless(stream: &mut Stream) -> u64 {
    match stream.below(6) {
        0 => 0,
        1 => u64::MAX,
        2 => stream.below(0x200).into(),
        3 => 1 << stream.below(64),
        4 => stream.below(800).into(),
        _ => stream.next_u64(),
    }
}

/// Senseless numbers anywhere in the newest log, with sound checksums.
fn forge_log(bytes: &mut [u8], stream: &mut Stream) {
    let superblocks = [SUPERBLOCK_OFFSET, Superblock::second_offset(DEVICE_BYTES)]
        .map(|at| Superblock::decode(&bytes[at as usize..]).expect("it is sound"));
    let newest = superblocks.iter().max_by_key(|it| it.last_checkpoint).expect("two");
    let seed = newest.checksum_seed;
    let start = newest.last_log as usize * BLOCK;
    let header = LogHeader::decode(&bytes[start..start + BLOCK]).expect("a log");
    assert!(header.flags & LOG_SUPER_ROOT != 0);
    let blocks = header.blocks as usize;
    let log = &mut bytes[start..start + blocks * BLOCK];
    for _ in 0..=stream.below(4) {
        // Some of them in the inodes of the super root, where everything begins.
        let at = if stream.below(4) == 0 {
            (blocks - 1) * BLOCK + 8 + 8 * stream.below(48) as usize
        } else {
            let block = 1 + stream.below(blocks as u32 - 1) as usize;
            let room = if stream.below(2) == 0 { 64 } else { BLOCK as u32 / 8 };
            block * BLOCK + 8 * stream.below(room) as usize
        };
        let bytes = [1, 2, 4, 8][stream.below(4) as usize];
        log[at..at + bytes].copy_from_slice(&senseless(stream).to_le_bytes()[..bytes]);
    }
    let root = &mut log[(blocks - 1) * BLOCK..];
    let sum = crc(seed, &root[4..SUPER_ROOT_BYTES]);
    root[..4].copy_from_slice(&sum.to_le_bytes());
    seal(log, header.summary_bytes, seed);
}

#[test]
fn senseless_numbers_with_sound_checksums_never_panic() {
    let forgeries =
        std::env::var("NANDLAB_FORGERIES").map_or(400, |text| text.parse().expect("a number"));
    let mut found = 0;
    for unmounts in [true, false] {
        let sound = sample(unmounts);
        for seed in 0..forgeries {
            let mut stream = Stream::new(seed, "forgery");
            let mut damaged = sound.clone();
            if stream.below(4) == 0 {
                forge_superblock(&mut damaged, &mut stream);
            } else {
                forge_log(&mut damaged, &mut stream);
            }
            let checkpoint = if seed % 5 == 0 { Some(4) } else { None };
            let case = format!("forged {seed}, unmounted {unmounts}");
            found += u64::from(try_all(damaged, checkpoint, &case));
        }
    }
    assert!(found > forgeries / 2, "{found} found");
}

/// Every byte of both superblocks, of the summary of the newest log, and of its super root: each is under a
/// checksum, so that a change is reported, or what is shown is what was shown before.
#[test]
fn every_byte_under_a_checksum_that_changes_is_told() {
    let sound = sample(true);
    let open = |bytes: Vec<u8>| AnyImage::from_bytes(Path::new("changed"), bytes, &asked());
    let superblock = Superblock::decode(&sound[SUPERBLOCK_OFFSET as usize..][..SUPERBLOCK_BYTES]);
    let superblock = superblock.expect("sound");
    let second = Superblock::second_offset(DEVICE_BYTES) as usize;
    let start = superblock.last_log as usize * BLOCK;
    let header = LogHeader::decode(&sound[start..]).expect("a log");
    assert!(header.flags & LOG_SUPER_ROOT != 0);
    let super_root = start + (header.blocks as usize - 1) * BLOCK;
    let places = [
        SUPERBLOCK_OFFSET as usize..SUPERBLOCK_OFFSET as usize + 280,
        second..second + 280,
        start..start + header.summary_bytes as usize,
        super_root..super_root + SUPER_ROOT_BYTES,
    ];
    let mut missed = Vec::new();
    for (which, place) in places.into_iter().enumerate() {
        for at in place.clone() {
            let mut changed = sound.clone();
            changed[at] ^= 1 << (at % 8);
            let Ok(image) = open(changed) else { continue };
            let report = image.check().expect("a report");
            let is_told = !report.findings.is_empty()
                || report.notes.iter().any(|note| note.place.contains("superblock"));
            if !is_told {
                missed.push((which, at - place.start));
            }
        }
    }
    assert!(missed.is_empty(), "place, byte: {missed:?}");
}

//! FAT, NILFS2 and JFFS2 over block2mtd on their block devices: random calls, compared with a file system in memory.

use file_systems::find_kind;
use fs_api::{Errno, FileSystem, NewInode};
use mount::{BlockDeviceChoice, BlockRequest, Driver, Machine, MountRequest, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use random::Stream;
use std::rc::Rc;
use vfs::{Manifest, MemoryFileSystem, OpenOptions, Vfs};

/// They differ in more than case: FAT finds `A` where `a` is meant.
const NAMES: [&str; 5] = ["a", "b.txt", "a name of more than one slot.jpeg", "x[1];y+z", ".hidden"];
const CARD: &str = "emmc-4.5-64gb";

fn chip() -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 128;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

fn driver() -> Driver {
    Driver::of_tool(find_layout("linux-large").expect("in the table"))
}

fn request(device: &str) -> MountRequest {
    let device = BlockDeviceChoice::find(device).expect("a device");
    MountRequest {
        block: BlockRequest { device, ..BlockRequest::default() },
        ..MountRequest::default()
    }
}

/// A path, with a directory in front of every second one.
fn path(stream: &mut Stream) -> String {
    let name = |stream: &mut Stream| NAMES[stream.below(NAMES.len() as u32) as usize];
    if stream.below(2) == 0 {
        return name(stream).to_owned();
    }
    format!("{}/{}", name(stream), name(stream))
}

/// One call; both file systems get the same one from clones of the same stream.
async fn call<F: FileSystem + 'static>(
    machine: &Machine,
    vfs: &Vfs<F>,
    mut stream: Stream,
) -> Result<(), Errno> {
    let caller = machine.root();
    let (path, other) = (path(&mut stream), path(&mut stream));
    let (path, other) = (path.as_bytes(), other.as_bytes());
    match stream.below(12) {
        0..=4 => {
            let truncate = stream.below(3) == 0;
            let open = OpenOptions { create: Some(0o755), truncate, ..OpenOptions::default() };
            let file = vfs.open(&caller, path, open).await?;
            let offset = u64::from(stream.below(30_000));
            let bytes: Vec<u8> =
                (0..stream.below(40_000)).map(|_| stream.next_u64() as u8).collect();
            let written = vfs.write(&caller, &file, offset, &bytes).await;
            if stream.below(4) == 0 {
                vfs.fsync(&caller, &file).await?;
            }
            vfs.close(&caller, file).await?;
            written
        }
        5 => vfs.truncate(&caller, path, stream.below(50_000).into()).await,
        6 => vfs.unlink(&caller, path).await,
        7 => vfs.remove_directory(&caller, path).await,
        8 | 9 => vfs.make(&caller, path, NewInode::Directory(0o755)).await.map(drop),
        _ => vfs.rename(&caller, path, other).await,
    }
}

/// Paths, kinds, sizes and hashes: FAT has neither owners nor whole times.
async fn shown<F: FileSystem>(fs: &F) -> Vec<(String, char, u64, Option<String>)> {
    let rows = Manifest::of(fs).await.expect("it lists").rows;
    let rows = rows.into_iter().filter(|row| row.path != ".nilfs");
    rows.map(|row| (row.path, row.kind, row.size_bytes, row.sha256)).collect()
}

/// Carries calls out over several mounts of one machine.
fn agree(kind: &'static str, device: &'static str, seed: u64) -> Chip {
    let outcome = run(chip(), &driver(), seed, async move |machine| {
        let kind = find_kind(kind).expect("in the table");
        let model = Vfs::new(&machine.sim, Rc::new(MemoryFileSystem::new(&machine.root())));
        let mut numbers = Stream::new(seed, "calls");
        let mut done = 0;
        for round in 0..5 {
            let request = request(device);
            let mounted = machine.mount(kind, &request).await.expect("it mounts");
            let label = format!("{} on {device}, seed {seed}, mount {round}", kind.name);
            let same = async || {
                let (ours, known) =
                    (shown(&*mounted.file_system).await, shown(&**model.file_system()).await);
                assert_eq!(ours, known, "{label}");
            };
            same().await;
            for _ in 0..80 {
                let stream = Stream::new(numbers.next_u64(), "call");
                let ours = call(&machine, &mounted.vfs, stream.clone()).await;
                assert_eq!(ours, call(&machine, &model, stream).await, "{label}");
                done += u32::from(ours.is_ok());
                if numbers.below(20) == 0 {
                    machine.sim.sleep(40_000_000_000).await;
                }
            }
            mounted.vfs.sync().await.expect("it syncs");
            same().await;
            mounted.vfs.drop_caches().await.expect("it drops");
            same().await;
            if (kind.name, device) != ("fat", CARD) {
                // The check of FAT holds the whole volume in memory: not one of 58 GiB.
                let complaints = mounted.file_system.check().await.expect("it is read");
                assert_eq!(complaints, [], "{label}");
            }
            assert_eq!(mounted.file_system.findings().await, [], "{label}");
            mounted.unmount().await.expect("it unmounts");
        }
        assert!(done > 75, "{done} calls did something");
    });
    assert!(outcome.value.is_some());
    outcome.chip
}

#[test]
fn fat_over_mtdblock_agrees_with_the_model() {
    for seed in 0..4 {
        let chip = agree("fat", mount::MTDBLOCK, seed);
        assert!(chip.counters().erases > 0, "the chip holds it");
    }
}

#[test]
fn fat_over_a_card_agrees_with_the_model_and_leaves_the_chip_alone() {
    for seed in 4..6 {
        let chip = agree("fat", CARD, seed);
        assert_eq!(chip.counters().programs() + chip.counters().erases, 0);
    }
}

#[test]
fn jffs2_over_block2mtd_on_a_card_agrees_with_the_model() {
    for seed in 7..10 {
        let chip = agree("jffs2-block2mtd", CARD, seed);
        assert_eq!(chip.counters().programs() + chip.counters().erases, 0);
    }
}

/// What the card did for a file of 8 pages, call by call.
#[test]
fn jffs2_over_block2mtd_meets_the_queue_in_reads_write_back_and_the_unmount_alone() {
    let outcome = run(chip(), &driver(), 1, async |machine| {
        let kind = find_kind("jffs2-block2mtd").expect("in the table");
        let plain = machine.mount(kind, &MountRequest::default()).await.err().expect("refused");
        let mounted = machine.mount(kind, &request(CARD)).await.expect("it mounts");
        let counts = || {
            let path = mounted.file_system.block_path().expect("a block device");
            let statistics = path.queue().statistics().expect("a timed device");
            (statistics.reads, statistics.written_sectors)
        };
        let caller = machine.root();
        let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = mounted.vfs.open(&caller, b"f", open).await.expect("opened");
        let bytes: Vec<u8> = (0..32_768_u32).map(|byte| (byte * 7 / 3) as u8 ^ 0x5a).collect();
        let before = counts();
        mounted.vfs.write(&caller, &file, 0, &bytes).await.expect("written");
        mounted.vfs.fsync(&caller, &file).await.expect("synced");
        let after_fsync = counts();
        mounted.vfs.close(&caller, file).await.expect("closed");
        let dirty = mounted.vfs.dirty_pages();
        machine.sim.sleep(40_000_000_000).await;
        let after_write_back = counts();
        let dirty_later = mounted.vfs.dirty_pages();
        mounted.unmount().await.expect("unmounted");
        let mounted = machine.mount(kind, &request(CARD)).await.expect("it mounts");
        let file = mounted.vfs.open(&caller, b"f", OpenOptions::default()).await.expect("there");
        let mut back = vec![0; bytes.len()];
        mounted.vfs.read(&file, 0, &mut back).await.expect("read");
        assert!(back == bytes, "the bytes come back");
        (plain.to_string(), before, after_fsync, dirty, after_write_back, dirty_later)
    });
    let (plain, before, after_fsync, dirty, after_write_back, dirty_later) =
        outcome.value.expect("no power cut");
    assert!(plain.contains("block2mtd takes no MTD") && plain.contains(CARD), "{plain}");
    // Pages are read before they are written, and nothing is written by `write` and `fsync`.
    assert!(after_fsync.0 > before.0 && after_fsync.1 == before.1, "{before:?} {after_fsync:?}");
    assert!(dirty > 1 && dirty_later == 0, "{dirty}, later {dirty_later} pages dirty");
    assert_eq!(after_write_back.1 - after_fsync.1, dirty * 8, "the flusher writes each page once");
}

#[test]
fn nilfs2_over_a_card_agrees_with_the_model() {
    agree("nilfs2", CARD, 6);
}

#[test]
fn a_card_takes_its_own_time_and_serves_raw_nand_to_nobody() {
    let outcome = run(chip(), &driver(), 1, async |machine| {
        let card = request(CARD);
        let refused = machine.mount(find_kind("yaffs2").expect("in the table"), &card).await;
        let told = refused.err().expect("refused").to_string();
        let fat = find_kind("fat").expect("in the table");
        let before_ns = machine.sim.now();
        let mounted = machine.mount(fat, &card).await.expect("it mounts");
        let path = mounted.file_system.block_path().expect("a block device");
        let statistics = path.queue().statistics().expect("a timed device");
        (told, machine.sim.now() - before_ns, statistics.written_sectors, path.mtdblock().is_some())
    });
    let (told, elapsed_ns, written_sectors, is_mtdblock) = outcome.value.expect("no power cut");
    let reason = "yaffs2 works on raw NAND itself; leave the block device out, or choose a file system that stands on one (`nandlab list file-systems`)";
    assert_eq!(told, format!("block device `{CARD}`: {reason}"));
    assert!(elapsed_ns > 1_000_000 && written_sectors > 100 && !is_mtdblock);
}

#[test]
fn what_a_cut_left_blank_is_not_formatted_anew() {
    for (name, device) in [("fat", "mtdblock"), ("nilfs2", "mtdblock"), ("jffs2-block2mtd", CARD)] {
        let outcome = run(chip(), &driver(), 1, async move |machine| {
            let kind = find_kind(name).expect("in the table");
            let asked = MountRequest { formats_blank: false, ..request(device) };
            let refused = machine.mount(kind, &asked).await.err().map(|error| error.to_string());
            (refused, machine.mount(kind, &request(device)).await.is_ok())
        });
        let (refused, is_mounted) = outcome.value.expect("no power cut");
        assert!(refused.is_some_and(|reason| reason.contains(name)), "{name}");
        assert!(is_mounted, "{name}: it is formatted where that is asked for");
    }
}

//! Damaged volumes: an error, or a mount that works as far as it can; never a panic, never without end.

use crate::support;

use fs_api::{FileSystem, NewInode};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use support::host::Host;
use support::{data, load, quiet, read_only, run, run_chip};
use ubi::LebNumber;
use ubifs::{MemoryVolume, MountOptions, Volume, VolumeShape};
use vfs::Manifest;

const SHAPE: VolumeShape =
    VolumeShape { leb_bytes: 129_024, leb_count: 50, min_io_bytes: 2048, max_write_bytes: 2048 };

type Contents = Vec<Option<Vec<u8>>>;

/// Eraseblocks of a volume that a kernel wrote.
fn contents() -> Contents {
    let result = Rc::new(RefCell::new(Vec::new()));
    let out = result.clone();
    let chip = load(&data("ubifs-gc.oob.zst"));
    let (_, is_done) = run_chip("linux-large", chip, false, move |bench| async move {
        let ubi = bench.attach(None).await;
        let volume = ubi.open_volume(0).await.expect("volume 0");
        for leb in 0..volume.leb_count() {
            let mut bytes = vec![0; volume.leb_bytes() as usize];
            volume.read(LebNumber::new(leb), 0, &mut bytes, false).await.expect("it reads");
            out.borrow_mut().push(volume.is_mapped(LebNumber::new(leb)).then_some(bytes));
        }
        ubi.detach();
    });
    assert!(is_done);
    result.take()
}

/// Mounts, reads and writes what can be, and tells whether it was mounted.
fn use_it(contents: Contents, options: MountOptions) -> bool {
    let mounted = Rc::new(RefCell::new(false));
    let seen = mounted.clone();
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        let Ok(fs) = bench.try_mount(Volume::Memory(memory), options).await else { return };
        seen.replace(true);
        let _ = Manifest::of(&fs).await;
        let _ = fs.check().await;
        let host = Host::new(&bench, fs);
        if host.make("new", NewInode::Regular(0o644)).await.is_ok() {
            let _ = host.write("new", 0, &[7; 9000]).await;
            let _ = host.fsync("new").await;
        }
        let _ = host.sync().await;
        let _ = host.fs.findings();
        let _ = host.fs.space();
        let _ = host.unmount().await;
    });
    assert!(is_done);
    mounted.take()
}

fn damage(contents: &Contents, stream: &mut Stream, lebs: std::ops::Range<usize>) -> Contents {
    let mut damaged = contents.clone();
    for _ in 0..=stream.next_u64() % 4 {
        let leb = lebs.start + stream.next_u64() as usize % lebs.len();
        let Some(bytes) = &mut damaged[leb] else { continue };
        let used = bytes.iter().rposition(|byte| *byte != 0xff).map_or(1, |last| last + 1);
        let at = stream.next_u64() as usize % used;
        let count = (1 << (stream.next_u64() % 12)).min(bytes.len() - at);
        match stream.next_u64() % 4 {
            0 => bytes[at] ^= 1 << (stream.next_u64() % 8),
            1 => bytes[at..at + count].fill(0),
            2 => bytes[at..at + count].fill(0xff),
            _ => bytes[at..at + count].iter_mut().for_each(|byte| *byte = stream.next_u64() as u8),
        }
    }
    damaged
}

#[test]
fn damaged_bytes_anywhere() {
    let contents = contents();
    let mut stream = Stream::new(5, "damage");
    let (mut mounted, mut refused) = (0, 0);
    for round in 0..90 {
        // Superblock, masters and log more often than their size tells.
        let lebs = if round % 3 == 0 { 0..10 } else { 0..50 };
        let damaged = damage(&contents, &mut stream, lebs);
        let options = if round % 2 == 0 { read_only() } else { quiet() };
        if use_it(damaged, options) { mounted += 1 } else { refused += 1 }
    }
    assert!(mounted > 20 && refused > 2, "{mounted} mounted, {refused} refused");
}

#[test]
fn eraseblocks_that_are_gone_or_exchanged() {
    let contents = contents();
    for leb in 0..50 {
        let mut gone = contents.clone();
        gone[leb] = None;
        use_it(gone, quiet());
        let mut exchanged = contents.clone();
        exchanged.swap(leb, (leb * 7 + 3) % 50);
        use_it(exchanged, quiet());
    }
}

/// A walk through the entries looks up the one behind each name: an empty name would lead to the first one
/// again.
#[test]
fn entries_without_names_end() {
    let contents = contents();
    let mut forged = contents.clone();
    let mut count = 0;
    for bytes in forged.iter_mut().flatten() {
        for at in (0..bytes.len() - 24).step_by(8) {
            // Entries of directories and of attributes.
            if bytes[at..at + 4] != [0x31, 0x18, 0x10, 0x06] || !matches!(bytes[at + 20], 2 | 3) {
                continue;
            }
            let length = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().expect("four"));
            let node = &mut bytes[at..at + length as usize];
            node[50..52].fill(0);
            node[56] = 0;
            let sum = !crc32fast::hash(&node[8..]);
            node[4..8].copy_from_slice(&sum.to_le_bytes());
            count += 1;
        }
    }
    assert!(count > 50, "{count} entries");
    use_it(forged.clone(), read_only());
    use_it(forged, quiet());
}

#[test]
fn an_empty_volume_that_may_not_be_written_is_refused() {
    assert!(!use_it(vec![None; 50], read_only()));
    assert!(use_it(vec![None; 50], quiet()));
}

#[test]
fn the_root_can_be_asked_for_all_there_is() {
    let is_done = run(|bench| async move {
        let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
        let fs = bench.mount(Volume::Memory(memory), quiet()).await;
        let root = fs.attributes(fs.root()).await.expect("attributes");
        assert_eq!((root.links, root.size_bytes, root.permissions), (2, 160, 0o755));
        let space = fs.space();
        assert!(space.free_blocks <= space.blocks && space.available_blocks < space.free_blocks);
        assert!(fs.memory().total_bytes() > 100_000);
    });
    assert!(is_done);
}

/// Eraseblocks of a file system that was made, mounted and unmounted.
fn fresh() -> Contents {
    let result = Rc::new(RefCell::new(Vec::new()));
    let out = result.clone();
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
        let fs = bench.mount(Volume::Memory(memory.clone()), quiet()).await;
        Host::new(&bench, fs).unmount().await.expect("it unmounts");
        out.replace(memory.contents(|_| false));
    });
    assert!(is_done);
    result.take()
}

/// Writes a field of 64 bits into all copies of the master node, with a right CRC.
fn set_in_master(contents: &mut Contents, at: usize, value: u64) {
    let mut count = 0;
    for leb in &mut contents[1..3] {
        let bytes = leb.as_mut().expect("it is mapped");
        for node in bytes.chunks_exact_mut(2048) {
            let node = &mut node[..512];
            if node[..4] != 0x0610_1831_u32.to_le_bytes() || node[20] != 7 {
                continue;
            }
            node[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let crc = !crc32fast::hash(&node[8..]);
            node[4..8].copy_from_slice(&crc.to_le_bytes());
            count += 1;
        }
    }
    assert!(count >= 2, "{count} master nodes");
}

/// A field of 32 bits of the newest copy of the master node.
fn word_of_master(contents: &Contents, at: usize) -> u64 {
    let bytes = contents[1].as_ref().expect("it is mapped");
    let is_master = |node: &&[u8]| node[..4] == 0x0610_1831_u32.to_le_bytes() && node[20] == 7;
    let newest = bytes.chunks_exact(2048).rfind(is_master).expect("a master node");
    u32::from_le_bytes(newest[at..at + 4].try_into().expect("four bytes")).into()
}

/// Why a volume is not mounted.
fn refusal(contents: Contents) -> String {
    let reason = Rc::new(RefCell::new(String::new()));
    let out = reason.clone();
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        let mounted = bench.try_mount(Volume::Memory(memory), quiet()).await;
        out.replace(mounted.err().expect("it is refused").to_string());
    });
    assert!(is_done);
    reason.take()
}

/// The collector would write over the index.
#[test]
fn a_reserve_of_the_collector_that_is_in_use_is_refused() {
    let mut contents = fresh();
    let index_leb = word_of_master(&contents, 64);
    set_in_master(&mut contents, 60, index_leb | index_leb << 32);
    let reason = refusal(contents);
    assert!(reason.contains("reserved for the collector and in use"), "{reason}");
}

/// The next commit would write behind it: `validate_master` of `fs/ubifs/master.c` refuses it as well.
#[test]
fn a_head_of_the_lpt_within_a_unit_of_writing_is_refused() {
    let mut contents = fresh();
    let (leb, offset) = (word_of_master(&contents, 128), word_of_master(&contents, 132));
    set_in_master(&mut contents, 128, leb | (offset + 8) << 32);
    let reason = refusal(contents);
    assert!(reason.contains("the numbers of the master node cannot be"), "{reason}");
}

#[test]
fn inode_numbers_end_at_the_watermark() {
    let mut contents = fresh();
    set_in_master(&mut contents, 24, 0xffff_fefe);
    let mut at_end = contents.clone();
    set_in_master(&mut at_end, 24, 0xffff_ff00);
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        let fs = bench.mount(Volume::Memory(memory), quiet()).await;
        let host = Host::new(&bench, fs);
        let make = async |name: &'static str| host.make(name, NewInode::Regular(0o644)).await;
        assert_eq!(make("one").await, Ok(0xffff_feff));
        assert_eq!(make("two").await, Ok(0xffff_ff00));
        assert_eq!(make("three").await, Err(fs_api::Errno::Einval));
        // A master node beyond it is refused (`validate_master`).
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, at_end));
        assert!(bench.try_mount(Volume::Memory(memory), quiet()).await.is_err());
    });
    assert!(is_done);
}

#[test]
fn the_names_of_attributes_count_their_ends() {
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
        let fs = bench.mount(Volume::Memory(memory), quiet()).await;
        let host = Host::new(&bench, fs);
        host.open("file").await.expect("it is made");
        // 255 bytes and a zero each: 256 of them fill `XATTR_LIST_MAX`, which is 65,536.
        for number in 0..256 {
            let name = format!("user.{number:0250}");
            let set = host.set_attribute("file", name.as_bytes(), Some(b"x")).await;
            set.unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        let set = host.set_attribute("file", b"user.n", Some(b"x")).await;
        assert_eq!(set, Err(fs_api::Errno::Enospc));
    });
    assert!(is_done);
}

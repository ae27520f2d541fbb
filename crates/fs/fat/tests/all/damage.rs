//! Damaged volumes: an error or a finding, never a panic or an endless loop.

use crate::support;

use block_medium::MemoryMedium;
use fat::{Fat, FatType, FormatOptions, Volume, check};
use fs_api::{Changes, Errno, FileSystem, FileType, NewInode, PAGE_BYTES};
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;
use support::work::Pair;
use support::{CALLER, formatted, options, run};

/// Looks at everything, within reason; gives the number of calls that failed.
async fn look_at_all(fs: &Fat) -> u64 {
    let (mut failed, mut seen) = (0, 0);
    let mut rest = vec![fs.root()];
    while let Some(inode) = rest.pop() {
        seen += 1;
        let Ok(shown) = fs.attributes(inode).await else {
            failed += 1;
            continue;
        };
        match shown.kind {
            FileType::Directory if seen < 500 => match fs.read_directory(inode).await {
                Ok(entries) => rest.extend(entries.into_iter().map(|entry| entry.inode)),
                Err(_) => failed += 1,
            },
            FileType::Regular => {
                for page in 0..(shown.size_bytes / PAGE_BYTES as u64 + 1).min(50) {
                    let mut bytes = [0; PAGE_BYTES];
                    failed += u64::from(fs.read_page(inode, page, &mut bytes).await.is_err());
                }
            }
            _ => {}
        }
    }
    fs.check_invariants();
    failed
}

/// Changes something everywhere it may.
async fn change_all(fs: &Fat) {
    let root = fs.root();
    let Ok(entries) = fs.read_directory(root).await else { return };
    for (index, entry) in entries.iter().take(20).enumerate() {
        let to = Changes { size_bytes: Some(50_000), ..Changes::default() };
        let _ = fs.change(&CALLER, entry.inode, &to).await;
        let page = [1; PAGE_BYTES];
        let _ = fs.write_page(&CALLER, entry.inode, 19, &page, 0..PAGE_BYTES).await;
        let _ = fs.make(&CALLER, entry.inode, b"below", NewInode::Regular(0o644)).await;
        if index % 2 == 0 {
            let _ = fs.unlink(&CALLER, root, &entry.name).await;
            let _ = fs.forget(entry.inode).await;
        } else {
            let _ = fs.rename(&CALLER, (root, &entry.name), (root, b"renamed")).await;
        }
    }
    let _ = fs.make(&CALLER, root, b"new", NewInode::Directory(0o700)).await;
    let _ = fs.count_free_clusters().await;
    fs.check_invariants();
    let _ = fs.sync().await;
    let _ = fs.unmount().await;
    fs.check_invariants();
}

fn populated(kind: FatType) -> MemoryMedium {
    let format =
        FormatOptions { kind: Some(kind), cluster_sectors: Some(1), ..FormatOptions::default() };
    let bytes = if kind == FatType::Fat12 { 1 << 20 } else { 3 << 20 };
    let (medium, is_done) = run(formatted(bytes, format), |bench| async move {
        let mut stream = Stream::new(7, "damage");
        let pair = Pair::new(&bench.sim, bench.kernel(options()).await);
        for _ in 0..150 {
            pair.step(&mut stream, 20_000).await;
        }
        pair.ours.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    medium.after_cut(None)
}

#[test]
fn damage_is_an_error_or_a_finding() {
    for kind in [FatType::Fat12, FatType::Fat16, FatType::Fat32] {
        let image = populated(kind);
        let volume = Volume::decode(&image.block(0)).expect("a volume");
        // Metadata stands in front; directories among the data.
        let used: Vec<u64> = (0..u64::from(volume.sectors))
            .filter(|sector| image.block(*sector) != [0; 512])
            .collect();
        let (mut noticed, mut refused) = (0, 0);
        for seed in 0..300 {
            let mut stream = Stream::new(seed, "flips");
            let medium = image.after_cut(None);
            for _ in 0..=stream.below(8) {
                let sector = used[stream.below(used.len() as u32) as usize];
                let mut bytes = medium.block(sector);
                for _ in 0..=stream.below(10) {
                    bytes[stream.below(512) as usize] = stream.next_u64() as u8;
                    if stream.below(2) == 0 {
                        bytes[stream.below(64) as usize] ^= 1 << stream.below(8);
                    }
                }
                medium.set_block(sector, &bytes);
            }
            let result = Rc::new(Cell::new((false, false)));
            let reported = result.clone();
            let (_, is_done) = run(medium, move |bench| async move {
                let checked = check(&*bench.medium).await;
                let Ok(fs) = bench.try_mount(options()).await else {
                    reported.set((false, true));
                    return;
                };
                let is_wrong = checked.is_ok_and(|found| !found.is_clean());
                let failed = look_at_all(&fs).await;
                reported.set((is_wrong || failed > 0 || !fs.findings().is_empty(), false));
                change_all(&fs).await;
            });
            assert!(is_done, "{kind:?}, seed {seed}");
            noticed += u32::from(result.get().0);
            refused += u32::from(result.get().1);
        }
        assert!(noticed > 30 && refused > 0, "{kind:?}: {noticed} noticed, {refused} refused");
    }
}

#[test]
fn a_directory_with_a_broken_chain_is_listed_and_cannot_be_looked_up() {
    let format = FormatOptions { cluster_sectors: Some(1), ..FormatOptions::default() };
    let (_, is_done) = run(formatted(1 << 20, format), |bench| async move {
        let fs = bench.mount(options()).await;
        let root = fs.root();
        fs.make(&CALLER, root, b"SUB", NewInode::Directory(0o755)).await.expect("it is made");
        fs.make(&CALLER, root, b"FILE", NewInode::Regular(0o644)).await.expect("it is made");
        fs.unmount().await.expect("it unmounts");
        // Cluster 3, the directory's, is free: its entry reached the medium, and its chain did not.
        let start = fs.volume().table_start.into();
        let mut table = bench.medium.block(start);
        assert_eq!(table[4..6], [0xf0, 0xff]);
        (table[4], table[5]) = (0, 0);
        bench.medium.set_block(start, &table);
        let fs = bench.mount(options()).await;
        let root = fs.root();
        for _ in 0..2 {
            let listed = fs.read_directory(root).await.expect("names alone");
            let names: Vec<&[u8]> = listed.iter().map(|entry| &entry.name[..]).collect();
            assert_eq!(names, [b"SUB".as_slice(), b"FILE"]);
            assert_eq!(fs.attributes(listed[0].inode).await, Err(Errno::Eio));
            assert!(fs.attributes(listed[1].inode).await.is_ok());
        }
        assert_eq!(fs.lookup(root, b"SUB").await, Err(Errno::Eio));
        assert!(fs.lookup(root, b"FILE").await.is_ok());
        fs.check_invariants();
    });
    assert!(is_done);
}

#[test]
fn a_chain_in_a_ring_is_found() {
    let format = FormatOptions { cluster_sectors: Some(1), ..FormatOptions::default() };
    let (_, is_done) = run(formatted(1 << 20, format), |bench| async move {
        let fs = bench.mount(options()).await;
        let file = fs.make(&CALLER, fs.root(), b"FILE", NewInode::Regular(0o644)).await;
        let file = file.expect("it is made");
        let page = [1; PAGE_BYTES];
        fs.write_page(&CALLER, file, 0, &page, 0..PAGE_BYTES).await.expect("it is written");
        fs.unmount().await.expect("it unmounts");
        let volume = *fs.volume();
        // The entry of the second of eight clusters leads back to the first.
        let mut table = bench.medium.block(volume.table_start.into());
        assert_eq!(table[4..9], [0x40, 0x00, 0x05, 0x60, 0x00]);
        table[6] = 0x03;
        bench.medium.set_block(volume.table_start.into(), &table);
        let fs = bench.mount(options()).await;
        let file = fs.lookup(fs.root(), b"FILE").await.expect("it is there");
        let to = Changes { size_bytes: Some(600_000), ..Changes::default() };
        assert!(fs.change(&CALLER, file, &to).await.is_err());
        assert!(fs.is_read_only() && !fs.findings().is_empty(), "{:?}", fs.findings());
    });
    assert!(is_done);
}

#[test]
fn a_chain_that_does_not_fit_its_size_is_found() {
    // Eight clusters of 512 bytes. (Size that the entry gets, chains too long, chains too short.)
    for (size_bytes, long, short) in [(4096_u32, 0, 0), (3585, 0, 0), (3584, 1, 0), (4097, 0, 1)] {
        let format = FormatOptions { cluster_sectors: Some(1), ..FormatOptions::default() };
        let (_, is_done) = run(formatted(1 << 20, format), move |bench| async move {
            let fs = bench.mount(options()).await;
            let file = fs.make(&CALLER, fs.root(), b"FILE", NewInode::Regular(0o644)).await;
            let page = [1; PAGE_BYTES];
            let file = file.expect("it is made");
            fs.write_page(&CALLER, file, 0, &page, 0..PAGE_BYTES).await.expect("it is written");
            fs.unmount().await.expect("it unmounts");
            let root = u64::from(fs.volume().root_start);
            let mut sector = bench.medium.block(root);
            assert_eq!(sector[28..32], 4096_u32.to_le_bytes());
            sector[28..32].copy_from_slice(&size_bytes.to_le_bytes());
            bench.medium.set_block(root, &sector);
            let found = check(&*bench.medium).await.expect("a volume");
            assert_eq!((found.long_chains, found.short_chains), (long, short), "{size_bytes}");
        });
        assert!(is_done);
    }
}

/// A volume of FAT12 with a file, mounted; the entry of the file's second cluster leads nowhere.
async fn with_broken_chain(bench: &support::Bench) -> (Fat, fs_api::InodeNumber) {
    let fs = bench.mount(options()).await;
    let file = fs.make(&CALLER, fs.root(), b"FILE", NewInode::Regular(0o644)).await;
    let file = file.expect("it is made");
    fs.write_page(&CALLER, file, 0, &[1; PAGE_BYTES], 0..PAGE_BYTES).await.expect("it is written");
    fs.unmount().await.expect("it unmounts");
    let volume = *fs.volume();
    let mut table = bench.medium.block(volume.table_start.into());
    // Entry 4 of twelve bits: no volume of a mebibyte has this cluster.
    (table[6], table[7]) = (0xf0, table[7] & 0xf0 | 0x0e);
    bench.medium.set_block(volume.table_start.into(), &table);
    let fs = bench.mount(options()).await;
    let file = fs.lookup(fs.root(), b"FILE").await.expect("it is there");
    (fs, file)
}

fn has_name(medium: &MemoryMedium, name: &[u8]) -> bool {
    let volume = Volume::decode(&medium.block(0)).expect("a volume");
    let root = u64::from(volume.root_start)..u64::from(volume.data_start);
    root.into_iter().any(|sector| medium.block(sector).windows(name.len()).any(|at| at == name))
}

#[test]
fn what_was_done_before_damage_was_found_reaches_the_medium() {
    let format = FormatOptions { cluster_sectors: Some(1), ..FormatOptions::default() };
    // By the unmount, by `sync`, by `fsync` and by the flusher.
    for way in 0..4 {
        let format = format.clone();
        let (_, is_done) = run(formatted(1 << 20, format), move |bench| async move {
            let (fs, file) = with_broken_chain(&bench).await;
            let new = fs.make(&CALLER, fs.root(), b"BEFORE", NewInode::Regular(0o644)).await;
            new.expect("it is made");
            let to = Changes { size_bytes: Some(600_000), ..Changes::default() };
            assert!(fs.change(&CALLER, file, &to).await.is_err());
            assert!(fs.is_read_only() && fs.dirty_sectors() > 0);
            assert!(!has_name(&bench.medium, b"BEFORE"));
            match way {
                0 => fs.unmount().await.expect("it unmounts"),
                1 => fs.sync().await.expect("it syncs"),
                // A name is in the directory's sectors: the file's own `fsync` does not write it.
                2 => fs.fsync(&CALLER, fs.root()).await.expect("it syncs"),
                _ => bench.sim.sleep(120_000_000_000).await,
            }
            let is_written = has_name(&bench.medium, b"BEFORE");
            assert!(is_written, "way {way}: {} sectors are dirty", fs.dirty_sectors());
            let make = fs.make(&CALLER, fs.root(), b"AFTER", NewInode::Regular(0o644)).await;
            assert_eq!(make, Err(fs_api::Errno::Erofs));
            // The volume stays marked: a check has to clear it.
            let state = bench.medium.block(0)[37];
            assert_eq!(state & 1, 1, "way {way}");
        });
        assert!(is_done, "way {way}");
    }
}

#[test]
fn fsync_on_a_read_only_mount_has_nothing_to_do() {
    let format = FormatOptions::default();
    let (_, is_done) = run(formatted(1 << 20, format), |bench| async move {
        let fs = bench.mount(options()).await;
        let file = fs.make(&CALLER, fs.root(), b"FILE", NewInode::Regular(0o644)).await;
        file.expect("it is made");
        fs.unmount().await.expect("it unmounts");
        let fs = bench.mount(fat::MountOptions { is_read_only: true, ..options() }).await;
        let file = fs.lookup(fs.root(), b"FILE").await.expect("it is there");
        let before = bench.medium.after_cut(None);
        assert_eq!(fs.fsync(&CALLER, file).await, Ok(()));
        fs.unmount().await.expect("it unmounts");
        for sector in 0..u64::from(fs.volume().sectors) {
            assert_eq!(bench.medium.block(sector), before.block(sector));
        }
    });
    assert!(is_done);
}

/// A volume of FAT32 whose FSInfo is changed before each mount.
fn with_info(number: u32) -> u32 {
    let format = FormatOptions {
        kind: Some(FatType::Fat32),
        cluster_sectors: Some(1),
        ..FormatOptions::default()
    };
    let taken = Rc::new(Cell::new(0));
    let place = taken.clone();
    let (_, is_done) = run(formatted(36 << 20, format), move |bench| async move {
        let volume = Volume::decode(&bench.medium.block(0)).expect("a volume");
        let sector = u64::from(volume.info_sector.expect("FAT32 has one"));
        let mut info = bench.medium.block(sector);
        info[492..496].copy_from_slice(&number.to_le_bytes());
        bench.medium.set_block(sector, &info);
        let fs = bench.mount(options()).await;
        let file = fs.make(&CALLER, fs.root(), b"FILE", NewInode::Regular(0o644)).await;
        let file = file.expect("it is made");
        let page = [1; PAGE_BYTES];
        fs.write_page(&CALLER, file, 0, &page, 0..512).await.expect("it is written");
        fs.unmount().await.expect("it unmounts");
        let info = bench.medium.block(sector);
        place.set(u32::from_le_bytes(info[492..496].try_into().expect("four bytes")));
    });
    assert!(is_done);
    taken.get()
}

#[test]
fn the_search_begins_at_the_remainder_of_a_cluster_out_of_range() {
    let format = FormatOptions {
        kind: Some(FatType::Fat32),
        cluster_sectors: Some(1),
        ..FormatOptions::default()
    };
    let medium = formatted(36 << 20, format);
    let end = Volume::decode(&medium.block(0)).expect("a volume").clusters + 2;
    assert_eq!(with_info(1000), 1001);
    assert_eq!(with_info(end + 1000), 1001);
    assert_eq!(with_info(3 * end), 3, "at least cluster 2");
    assert_eq!(with_info(u32::MAX), u32::MAX % end + 1, "no exception for an unknown one");
}

#[test]
fn a_search_in_vain_has_fsinfo_written() {
    let format = FormatOptions {
        kind: Some(FatType::Fat32),
        cluster_sectors: Some(8),
        ..FormatOptions::default()
    };
    let (_, is_done) = run(formatted(8 << 20, format), |bench| async move {
        let volume = Volume::decode(&bench.medium.block(0)).expect("a volume");
        let sector = u64::from(volume.info_sector.expect("FAT32 has one"));
        let fs = bench.mount(options()).await;
        let file = fs.make(&CALLER, fs.root(), b"FILE", NewInode::Regular(0o644)).await;
        let file = file.expect("it is made");
        // All clusters but the one of the root directory.
        let size = u64::from(volume.clusters - 1) * volume.cluster_bytes();
        let to = Changes { size_bytes: Some(size), ..Changes::default() };
        fs.change(&CALLER, file, &to).await.expect("it fits");
        fs.unmount().await.expect("it unmounts");
        // A stale number, as a cut leaves it.
        let mut info = bench.medium.block(sector);
        info[488..492].copy_from_slice(&1000_u32.to_le_bytes());
        bench.medium.set_block(sector, &info);
        let fs = bench.mount(options()).await;
        let other = fs.make(&CALLER, fs.root(), b"OTHER", NewInode::Regular(0o644)).await;
        let other = other.expect("it is made");
        let page = [1; PAGE_BYTES];
        let written = fs.write_page(&CALLER, other, 0, &page, 0..512).await;
        assert_eq!(written, Err(fs_api::Errno::Enospc));
        fs.unmount().await.expect("it unmounts");
        assert_eq!(bench.medium.block(sector)[488..492], [0; 4]);
    });
    assert!(is_done);
}

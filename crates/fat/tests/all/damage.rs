//! Damaged volumes: an error or a finding, never a panic or an endless loop.

use crate::support;

use fat::{Fat, FatType, FormatOptions, Volume, check};
use medium::MemoryMedium;
use posix::{Changes, FileSystem, FileType, NewInode, PAGE_BYTES};
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
    let _ = fs.sync().await;
    let _ = fs.unmount().await;
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
            let told = result.clone();
            let (_, is_done) = run(medium, move |bench| async move {
                let checked = check(&*bench.medium).await;
                let Ok(fs) = bench.try_mount(options()).await else {
                    told.set((false, true));
                    return;
                };
                let is_wrong = checked.is_ok_and(|found| !found.is_clean());
                let failed = look_at_all(&fs).await;
                told.set((is_wrong || failed > 0 || !fs.findings().is_empty(), false));
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

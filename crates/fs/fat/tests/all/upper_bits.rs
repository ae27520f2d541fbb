//! The four upper bits of an entry of FAT32's table have no meaning: they are passed over when an entry
//! is read, and stay when it is written (`fat32_ent_put` of `fs/fat/fatent.c`).

use crate::support;

use block_medium::MemoryMedium;
use fat::{FatType, FormatOptions, Volume, check};
use support::work::write_file;
use support::{CALLER, Found, formatted, options, run, tree};
use vfs::OpenOptions;

const SECTOR_BYTES: usize = 512;
const FIRST_DATA_CLUSTER: u32 = 2;

/// Bits that stand above every entry of data, other ones in each.
fn upper_bits(cluster: u32) -> u8 {
    ((cluster % 15 + 1) << 4) as u8
}

/// The sector of an entry in a copy of the table, and the place of the upper bits in it.
fn place(volume: &Volume, copy: u32, cluster: u32) -> (u64, usize) {
    let byte = 4 * cluster as usize + 3;
    let first = volume.table_start + copy * volume.table_sectors;
    (u64::from(first) + (byte / SECTOR_BYTES) as u64, byte % SECTOR_BYTES)
}

fn entries(volume: &Volume) -> impl Iterator<Item = (u32, u32)> {
    let clusters = FIRST_DATA_CLUSTER..FIRST_DATA_CLUSTER + volume.clusters;
    (0..volume.tables).flat_map(move |copy| clusters.clone().map(move |cluster| (copy, cluster)))
}

fn mark(medium: &MemoryMedium, volume: &Volume) {
    for (copy, cluster) in entries(volume) {
        let (sector, at) = place(volume, copy, cluster);
        let mut bytes = medium.block(sector);
        bytes[at] = bytes[at] & 0x0f | upper_bits(cluster);
        medium.set_block(sector, &bytes);
    }
}

#[test]
fn the_upper_bits_of_fat32_are_passed_over_and_stay() {
    let format = FormatOptions {
        kind: Some(FatType::Fat32),
        cluster_sectors: Some(1),
        ..FormatOptions::default()
    };
    let medium = formatted(3 << 20, format);
    let volume = Volume::decode(&medium.block(0)).expect("a volume");
    assert_eq!((volume.kind, volume.tables), (FatType::Fat32, 2));
    mark(&medium, &volume);
    let created = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
    let content = |tag: u8| -> Vec<u8> { (0..40_000).map(|at| (at % 241) as u8 ^ tag).collect() };
    let (medium, is_done) = run(medium, move |bench| async move {
        let vfs = bench.kernel(options()).await;
        for (name, tag) in [(b"a", 1), (b"b", 2), (b"c", 3)] {
            write_file(&vfs, name, created, 0, &content(tag), true).await.expect("written");
        }
        // Entries that were chained are free again, and are chained anew in other places.
        vfs.unlink(&CALLER, b"a").await.expect("removed");
        vfs.truncate(&CALLER, b"b", 700).await.expect("cut");
        write_file(&vfs, b"d", created, 0, &content(4), true).await.expect("written");
        vfs.unmount().await.expect("unmounted");
    });
    assert!(is_done);
    for (copy, cluster) in entries(&volume) {
        let (sector, at) = place(&volume, copy, cluster);
        let found = medium.block(sector)[at] & 0xf0;
        assert_eq!(found, upper_bits(cluster), "cluster {cluster} of table {copy}");
    }
    let (_, is_done) = run(medium.after_cut(None), move |bench| async move {
        let found = check(&*bench.medium).await.expect("it is read");
        assert!(found.is_clean(), "{found:?}");
        let found = tree(&bench.mount(options()).await).await;
        assert_eq!(found.len(), 3);
        assert_eq!(found["/b"], Found::File(content(2)[..700].to_vec()));
        assert_eq!(found["/c"], Found::File(content(3)));
        assert_eq!(found["/d"], Found::File(content(4)));
    });
    assert!(is_done);
}

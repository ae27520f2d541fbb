//! What reaches the device, when, and in which order.

use crate::support;

use block_medium::{Bio, MemoryMedium};
use fat::{Fat, FormatOptions, MountOptions, Volume, find_profile};
use fs_api::FileSystem;
use std::rc::Rc;
use support::work::write_file;
use support::{CALLER, formatted, options, run};
use vfs::{OpenOptions, Vfs};

const SECOND_NS: u64 = 1_000_000_000;
const CREATING: OpenOptions = OpenOptions {
    create: Some(0o644),
    truncate: false,
    append: false,
    sync: false,
    data_sync: false,
    exclusive: false,
    access: vfs::Access::ReadWrite,
};

/// What a write is, by its place.
fn kinds(bios: &[Bio], volume: &Volume) -> Vec<String> {
    let tables = volume.table_start + volume.table_sectors;
    let of = |bio: &Bio| match bio.block as u32 {
        _ if bio.blocks == 0 => "flush".to_owned(),
        0 => "boot".into(),
        block if block < volume.table_start => "info".into(),
        block if block < tables => "table".into(),
        block if block < volume.root_start => "copy".into(),
        block if block < volume.data_start => "root".into(),
        _ => format!("data {}", bio.blocks),
    };
    let mut all: Vec<String> = bios.iter().map(of).collect();
    all.dedup();
    all
}

async fn copy(vfs: &Vfs<Fat>, path: &[u8], bytes: usize, syncs: bool) {
    let content = vec![7; bytes];
    write_file(vfs, path, CREATING, 0, &content, syncs).await.expect("it is written");
}

/// Bios of one file that is made, written and synced.
fn bios_of_a_copy(profile: &'static str) -> Vec<String> {
    let medium = formatted(20 << 20, FormatOptions::default());
    let volume = Volume::decode(&medium.block(0)).expect("a volume");
    let (medium, is_done) = run(medium, move |bench| async move {
        let profile = find_profile(profile).expect("in the table");
        let vfs = bench.kernel(MountOptions::new(profile)).await;
        copy(&vfs, b"other", 5000, false).await;
        vfs.sync().await.expect("it syncs");
        bench.medium.take_bios();
        copy(&vfs, b"A file with a long name", 300_000, true).await;
    });
    assert!(is_done);
    let bios = medium.take_bios();
    assert!(bios.iter().filter(|bio| bio.blocks > 0).all(|bio| bio.flags.is_sync));
    kinds(&bios, &volume)
}

#[test]
fn fsync_writes_data_then_the_entry_then_the_tables() {
    // 300,000 bytes in bios of at most 256 sectors.
    let data = ["data 256", "data 74"];
    let expected = [&data[..], &["root", "table", "copy"]].concat();
    assert_eq!(bios_of_a_copy("linux-2.6.35"), expected);
    assert_eq!(bios_of_a_copy("linux-6.12"), [&expected[..], &["flush"]].concat());
    // All sectors of the device that are dirty, in the order of their places.
    let all = [&data[..], &["table", "copy", "root"]].concat();
    assert_eq!(bios_of_a_copy("linux-2.6.29"), all);
}

#[test]
fn metadata_is_written_when_it_is_thirty_seconds_old() {
    let (_, is_done) = run(formatted(20 << 20, FormatOptions::default()), |bench| async move {
        let vfs = bench.kernel(options()).await;
        let fs = vfs.file_system().clone();
        copy(&vfs, b"file", 50_000, false).await;
        bench.sim.sleep(29 * SECOND_NS).await;
        assert!(fs.dirty_sectors() > 0);
        bench.medium.take_bios();
        bench.sim.sleep(40 * SECOND_NS).await;
        assert_eq!(fs.dirty_sectors(), 0);
        let found = kinds(&bench.medium.take_bios(), fs.volume());
        let has = |kind: &str| found.iter().any(|found| found.starts_with(kind));
        assert!(has("table") && has("copy") && has("root") && has("data"), "{found:?}");
        assert!(!has("flush"), "no flush was asked for");
        // Then all is quiet.
        bench.sim.sleep(1000 * SECOND_NS).await;
        assert_eq!(bench.medium.take_bios(), []);
    });
    assert!(is_done);
}

#[test]
fn the_boot_sector_tells_of_a_mount_since_linux_3_10() {
    for (profile, tells) in [("linux-2.6.35", false), ("linux-6.12", true)] {
        let medium = formatted(4 << 20, FormatOptions::default());
        let is_dirty =
            |medium: &MemoryMedium| Volume::decode(&medium.block(0)).expect("a volume").is_dirty;
        let options = MountOptions::new(find_profile(profile).expect("in the table"));
        let (mounted, is_done) = run(medium.after_cut(None), move |bench| async move {
            bench.mount(options).await;
        });
        assert!(is_done);
        assert_eq!(is_dirty(&mounted), tells, "{profile}");
        let (unmounted, is_done) = run(mounted.after_cut(None), move |bench| async move {
            let fs = bench.mount(options).await;
            assert_eq!(fs.findings().len(), usize::from(tells), "{profile}");
            fs.unmount().await.expect("it unmounts");
        });
        assert!(is_done);
        // One that was not unmounted stays marked until it is checked.
        assert_eq!(is_dirty(&unmounted), tells, "{profile}");
    }
}

#[test]
fn neighbours_are_read_together() {
    let medium = formatted(20 << 20, FormatOptions::default());
    let (medium, is_done) = run(medium, |bench| async move {
        let vfs = bench.kernel(options()).await;
        copy(&vfs, b"file", 400_000, false).await;
        vfs.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    let (_, is_done) = run(medium.after_cut(None), |bench| async move {
        let vfs = bench.kernel(options()).await;
        let file = vfs.open(&CALLER, b"file", OpenOptions::default()).await.expect("it opens");
        bench.medium.take_reads();
        let mut content = vec![0; 400_000];
        assert_eq!(vfs.read(&file, 0, &mut content).await, Ok(400_000));
        assert!(content.iter().all(|byte| *byte == 7));
        let reads = bench.medium.take_reads();
        let start = u64::from(vfs.file_system().volume().data_start);
        let (data, tables): (Vec<_>, Vec<_>) = reads.iter().partition(|(at, _)| *at >= start);
        let sectors: u32 = data.iter().map(|(_, sectors)| *sectors).sum();
        assert_eq!(sectors, 400_000_u32.div_ceil(512));
        assert!(data.len() <= 8, "{data:?}");
        // Counting free clusters at mount left the table in memory.
        assert_eq!(tables, []);
        vfs.close(&CALLER, file).await.expect("it closes");
    });
    assert!(is_done);
}

#[test]
fn deleting_writes_no_data_and_frees_the_chain() {
    let (_, is_done) = run(formatted(20 << 20, FormatOptions::default()), |bench| async move {
        let fs = Rc::new(bench.mount(options()).await);
        let vfs: Vfs<Fat> = bench.kernel_over((*fs).clone());
        let free = fs.space().free_blocks;
        copy(&vfs, b"file", 400_000, true).await;
        assert_eq!(free - fs.space().free_blocks, 400_000_u64.div_ceil(2048));
        let memory = fs.memory();
        let caches = memory.kinds.iter().find(|(kind, ..)| *kind == "fat_cache");
        assert_eq!(caches.map(|(_, count, _)| *count), Some(1), "one run, as all is in one piece");
        bench.medium.take_bios();
        vfs.unlink(&CALLER, b"file").await.expect("it is removed");
        assert_eq!(fs.space().free_blocks, free);
        assert_eq!(bench.medium.take_bios(), [], "all of it waits in memory");
        vfs.sync().await.expect("it syncs");
        let found = kinds(&bench.medium.take_bios(), fs.volume());
        assert_eq!(found, ["table", "copy", "root"]);
        assert!(fs.memory().total_bytes() > 0);
    });
    assert!(is_done);
}

#[test]
fn a_mount_reads_what_the_kernel_reads() {
    // The boot sector, then the root directory: up to a slot never used, or all 32 sectors.
    for (profile, sectors) in [("linux-6.12", 1), ("linux-2.6.35", 32)] {
        let (_, is_done) =
            run(formatted(20 << 20, FormatOptions::default()), move |bench| async move {
                bench.medium.take_reads();
                let profile = find_profile(profile).expect("in the table");
                let options =
                    MountOptions { counts_free_clusters: false, ..MountOptions::new(profile) };
                let fs = bench.mount(options).await;
                let root = u64::from(fs.volume().root_start);
                let expected: Vec<_> = std::iter::once((0, 1))
                    .chain((root..root + sectors).map(|it| (it, 1)))
                    .collect();
                assert_eq!(bench.medium.take_reads(), expected);
                // Counting free clusters asks for the table in large pieces.
                assert!(fs.count_free_clusters().await.is_ok());
                assert_eq!(bench.medium.take_reads(), [(4, fs.volume().table_sectors)]);
            });
        assert!(is_done);
    }
}

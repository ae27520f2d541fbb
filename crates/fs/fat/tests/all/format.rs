//! Volumes are made as mkfs.vfat makes them, and what others write is read.

use crate::support;

use block_medium::{BlockMedium, MemoryMedium};
use fat::{FatType, FormatError, FormatOptions, MountError, Volume, format};
use fs_api::FileSystem;
use std::io::{Read, Write};
use std::process::Command;
use std::rc::Rc;
use support::work::write_file;
use support::{
    CALLER, Found, assert_clean, dosfstools, formatted, options, run, save, temporary, tree,
};
use vfs::OpenOptions;

/// The first bytes of a volume that mkfs.vfat makes; none if it is not installed.
fn made_by_mkfs(kib: u64, arguments: &[&str], bytes: usize) -> Option<Vec<u8>> {
    let path = temporary(&format!("mkfs-{kib}{}.img", arguments.concat()));
    std::fs::File::create(&path).and_then(|it| it.set_len(kib * 1024)).expect("a place for it");
    let made = dosfstools(Command::new("mkfs.vfat").arg("--invariant").args(arguments).arg(&path))?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut image = vec![0; bytes.min(kib as usize * 1024)];
    let mut file = std::fs::File::open(&path).expect("it was made");
    file.read_exact(&mut image).expect("it is as long");
    std::fs::remove_file(&path).expect("it was there");
    Some(image)
}

fn assert_same_as_mkfs(kib: u64, arguments: &[&str], options: FormatOptions) {
    let medium = formatted(kib * 1024, options);
    let volume = Volume::decode(&medium.block(0)).expect("a volume");
    let sectors = volume.data_start + volume.cluster_sectors;
    let Some(image) = made_by_mkfs(kib, arguments, sectors as usize * 512) else {
        return;
    };
    for (sector, expected) in (0_u64..).zip(image.chunks_exact(512)) {
        let (mut found, mut expected) = (medium.block(sector), expected.to_vec());
        if expected.starts_with(&[0xeb]) {
            // The program that says that this is no bootable disk.
            let start = if volume.kind == FatType::Fat32 { 90 } else { 62 };
            found[start..510].fill(0);
            expected[start..510].fill(0);
        }
        let first = found.iter().zip(&expected).position(|(one, other)| one != other);
        assert_eq!(first, None, "{kib} KiB {arguments:?}, sector {sector}: {volume:?}");
    }
}

#[test]
fn every_size_is_made_as_mkfs_does() {
    for kib in [
        256, 1000, 2048, 3000, 4096, 4097, 8192, 8400, 16_384, 33_000, 65_536, 102_400, 131_072,
        131_073, 262_144, 300_000, 520_000, 524_288, 600_000,
    ] {
        assert_same_as_mkfs(kib, &[], FormatOptions::default());
    }
}

#[test]
fn choices_are_made_as_mkfs_does() {
    let with = |kind, cluster_sectors| FormatOptions {
        kind: Some(kind),
        cluster_sectors: Some(cluster_sectors),
        ..FormatOptions::default()
    };
    assert_same_as_mkfs(4000, &["-F12", "-s8"], with(FatType::Fat12, 8));
    assert_same_as_mkfs(40_000, &["-F16", "-s2"], with(FatType::Fat16, 2));
    assert_same_as_mkfs(50_000, &["-F32", "-s1"], with(FatType::Fat32, 1));
    assert_same_as_mkfs(50_000, &["-F32", "-s4"], with(FatType::Fat32, 4));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let (_, is_done) = run(MemoryMedium::new(512, 8 << 20), |bench| async move {
        let make = async |kind, cluster_sectors: Option<u32>, label: Option<&str>| {
            let label = label.map(str::to_owned);
            let options =
                FormatOptions { kind, cluster_sectors, label, ..FormatOptions::default() };
            format(&*bench.medium, &options).await.expect_err("it is refused")
        };
        assert_eq!(make(None, Some(3), None).await, FormatError::ClusterSectors(3));
        assert_eq!(make(Some(FatType::Fat16), Some(16), None).await, FormatError::NoFit);
        assert_eq!(make(None, None, Some("a label too long")).await, FormatError::Label);
        let error = bench.try_mount(options()).await.err().expect("it is refused");
        assert_eq!(error, MountError::NotFat("no reserved sectors".into()));
        assert_eq!(error.to_string(), "no FAT volume here: no reserved sectors");
    });
    assert!(is_done);
}

/// What an independent implementation of the format reads of what we wrote.
#[test]
fn another_reader_finds_our_files() {
    for kind in [FatType::Fat12, FatType::Fat16, FatType::Fat32] {
        let bytes = if kind == FatType::Fat12 { 4 << 20 } else { 36 << 20 };
        let medium =
            formatted(bytes, FormatOptions { kind: Some(kind), ..FormatOptions::default() });
        let (medium, is_done) = run(medium, |bench| async move {
            let vfs = bench.kernel(options()).await;
            let new = fs_api::NewInode::Directory(0o755);
            vfs.make(&CALLER, b"A directory with a long name", new).await.expect("it is made");
            for number in 0..40_usize {
                let path = format!("A directory with a long name/file number {number}.bin");
                let content = vec![number as u8; number * 700];
                let creating = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
                let written = write_file(&vfs, path.as_bytes(), creating, 0, &content, false);
                written.await.expect("it is written");
            }
            vfs.unmount().await.expect("it unmounts");
        });
        assert!(is_done);
        assert_clean(&medium, &format!("readers {kind:?}"));
        let path = save(&medium, &format!("readers-{kind:?}.img"));
        let file = std::fs::File::options().read(true).write(true).open(&path).expect("there");
        let volume = fatfs::FileSystem::new(file, fatfs::FsOptions::new()).expect("a volume");
        let directory = volume.root_dir().open_dir("a directory with a long name");
        let directory = directory.expect("it is there");
        for number in 0..40_usize {
            let name = format!("file number {number}.bin");
            let mut content = Vec::new();
            let mut file = directory.open_file(&name).expect("it is there");
            file.read_to_end(&mut content).expect("it is read");
            assert_eq!(content, vec![number as u8; number * 700], "{name}");
        }
        // And back: what it writes is read here.
        let other = volume.root_dir().create_dir("Theirs").expect("it is made");
        for number in 0..20_usize {
            let mut file = other.create_file(&format!("Their file {number}.txt")).expect("made");
            file.write_all(&vec![b'x'; number * 999]).expect("it is written");
        }
        directory.remove("file number 3.bin").expect("it is removed");
        drop(other);
        drop(directory);
        volume.unmount().expect("it unmounts");
        let mut file = std::fs::File::open(&path).expect("it is there");
        let medium = MemoryMedium::load(512, &mut file).expect("it is in memory");
        std::fs::remove_file(&path).expect("it was there");
        let (_, is_done) = run(medium, |bench| async move {
            let fs = bench.mount(options()).await;
            let found = tree(&fs).await;
            assert_eq!(found.len(), 2 + 39 + 20);
            for number in 0..20_usize {
                let expected = Found::File(vec![b'x'; number * 999]);
                assert_eq!(found.get(&format!("/Theirs/Their file {number}.txt")), Some(&expected));
            }
            assert_eq!(fs.findings(), []);
            fs.unmount().await.expect("it unmounts");
        });
        assert!(is_done);
    }
}

#[test]
fn a_label_is_no_file() {
    let Some(image) = made_by_mkfs(3000, &["-nLABEL"], usize::MAX) else {
        return;
    };
    let medium = MemoryMedium::load(512, &mut &image[..]).expect("it is in memory");
    let (medium, is_done) = run(medium, |bench| async move {
        let medium: Rc<dyn BlockMedium> = bench.medium.clone();
        assert_eq!(medium.block_bytes(), 512);
        let fs = bench.mount(options()).await;
        assert_eq!(tree(&fs).await.len(), 0);
        let root = fs.root();
        let new = fs_api::NewInode::Regular(0o644);
        fs.make(&CALLER, root, b"LABEL", new).await.expect("a label is no name");
        fs.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    assert_clean(&medium, "a label");
}

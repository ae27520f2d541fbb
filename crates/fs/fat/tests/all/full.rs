//! Volumes without room: calls say so, nothing is lost, and all room comes back.

use crate::support;

use fat::{FatType, FormatOptions};
use fs_api::{Changes, Errno, FileSystem, NewInode};
use std::collections::BTreeMap;
use support::work::write_file;
use support::{CALLER, Found, assert_clean, assert_same, formatted, options, run, tree};
use vfs::OpenOptions;

const CREATING: OpenOptions = OpenOptions {
    create: Some(0o644),
    truncate: false,
    append: false,
    sync: false,
    data_sync: false,
    exclusive: false,
    access: vfs::Access::ReadWrite,
};

#[test]
fn a_full_volume_says_so_and_loses_nothing() {
    for kind in [FatType::Fat12, FatType::Fat32] {
        let bytes = if kind == FatType::Fat12 { 2 << 20 } else { 36 << 20 };
        let format = FormatOptions { kind: Some(kind), ..FormatOptions::default() };
        let (medium, is_done) = run(formatted(bytes, format), move |bench| async move {
            let vfs = bench.kernel(options()).await;
            let fs = vfs.file_system().clone();
            fs.count_free_clusters().await.expect("it counts");
            let empty = fs.space();
            let root_bytes = fs.attributes(fs.root()).await.expect("it is there").size_bytes;
            for round in 0..2_u8 {
                let mut expected = BTreeMap::new();
                for number in 0.. {
                    let path = format!("file number {number}");
                    let content = vec![round + 1; 100_000 + number * 300];
                    match write_file(&vfs, path.as_bytes(), CREATING, 0, &content, false).await {
                        Ok(()) => drop(expected.insert(format!("/{path}"), Found::File(content))),
                        Err(error) => {
                            assert_eq!(error, Errno::Enospc);
                            vfs.unlink(&CALLER, path.as_bytes()).await.expect("it is removed");
                            break;
                        }
                    }
                }
                assert!(expected.len() > 10);
                let hole = Changes { size_bytes: Some(bytes * 2), ..Changes::default() };
                let error = vfs.change(&CALLER, b"file number 2", &hole).await;
                assert_eq!(error, Err(Errno::Enospc));
                let small = b"xxxxxxxxx";
                let small = write_file(&vfs, b"file number 1", CREATING, 0, small, false).await;
                assert_eq!(small, Ok(()), "what has clusters is changed");
                let Some(Found::File(one)) = expected.get_mut("/file number 1") else {
                    panic!("it was made");
                };
                one[..9].fill(b'x');
                vfs.sync().await.expect("it syncs");
                assert_same("full", &tree(&*fs).await, &expected);
                for path in expected.keys() {
                    vfs.unlink(&CALLER, &path.as_bytes()[1..]).await.expect("it is removed");
                }
                // The root directory of FAT32 keeps what it grew by; that of FAT12 has its own place.
                let root = fs.attributes(fs.root()).await.expect("it is there").size_bytes;
                let kept = (root - root_bytes) / u64::from(empty.block_bytes);
                assert_eq!(fs.space().free_blocks, empty.free_blocks - kept);
                assert_eq!(kept > 0, kind == FatType::Fat32);
            }
            vfs.unmount().await.expect("it unmounts");
        });
        assert!(is_done);
        assert_clean(&medium, &format!("full {kind:?}"));
    }
}

#[test]
fn the_root_directory_of_fat16_has_its_size() {
    let (medium, is_done) =
        run(formatted(20 << 20, FormatOptions::default()), |bench| async move {
            let fs = bench.mount(options()).await;
            let mut made = 0;
            loop {
                let name = format!("FILE{made}");
                match fs.make(&CALLER, fs.root(), name.as_bytes(), NewInode::Regular(0o644)).await {
                    Ok(_) => made += 1,
                    Err(error) => {
                        assert_eq!(error, Errno::Enospc);
                        break;
                    }
                }
            }
            assert_eq!(made, 512);
            let long = NewInode::Directory(0o755);
            let made = fs.make(&CALLER, fs.root(), b"another", long).await;
            assert_eq!(made, Err(Errno::Enospc));
            // A directory elsewhere grows, and what it took comes back.
            fs.unlink(&CALLER, fs.root(), b"file7").await.expect("a name in any case");
            let directory = fs.make(&CALLER, fs.root(), b"D", NewInode::Directory(0o755)).await;
            let directory = directory.expect("there is room again");
            for number in 0..700 {
                let name = format!("a name of three slots or thereabouts {number}");
                let new = NewInode::Regular(0o644);
                fs.make(&CALLER, directory, name.as_bytes(), new).await.expect("it is made");
            }
            assert_eq!(fs.read_directory(directory).await.expect("it lists").len(), 700);
            fs.unmount().await.expect("it unmounts");
        });
    assert!(is_done);
    assert_clean(&medium, "root directory");
}

#[test]
fn what_fat_does_not_have_is_refused_as_the_kernel_does() {
    let (medium, is_done) = run(formatted(4 << 20, FormatOptions::default()), |bench| async move {
        let fs = bench.mount(options()).await;
        let root = fs.root();
        let file = fs.make(&CALLER, root, b"file", NewInode::Regular(0o600)).await.expect("made");
        let link = fs.link(&CALLER, file, root, b"other").await;
        let symlink = fs.make(&CALLER, root, b"s", NewInode::Symlink(b"t")).await;
        let pipe = fs.make(&CALLER, root, b"p", NewInode::Special(0o010_644, (0, 0))).await;
        assert_eq!(
            (link, symlink, pipe),
            (Err(Errno::Eperm), Err(Errno::Eperm), Err(Errno::Eperm))
        );
        let chown = Changes { uid: Some(7), ..Changes::default() };
        assert_eq!(fs.change(&CALLER, file, &chown).await, Err(Errno::Eperm));
        let permissions = async |wanted| {
            let to = Changes { permissions: Some(wanted), ..Changes::default() };
            let changed = fs.change(&CALLER, file, &to).await;
            (changed, fs.attributes(file).await.expect("it is there").permissions)
        };
        assert_eq!(permissions(0o4755).await, (Err(Errno::Eperm), 0o755));
        assert_eq!(permissions(0o600).await, (Ok(()), 0o755), "passed over");
        assert_eq!(permissions(0o555).await, (Ok(()), 0o555));
        assert_eq!(permissions(0o755).await, (Ok(()), 0o755));
        for (name, error) in [
            (&b"a?"[..], Errno::Einval),
            (b"end ", Errno::Einval),
            (b"\xff", Errno::Einval),
            (&[b'n'; 256], Errno::Enametoolong),
        ] {
            let made = fs.make(&CALLER, root, name, NewInode::Regular(0o600)).await;
            assert_eq!(made, Err(error), "{name:?}");
        }
        let big = Changes { size_bytes: Some(1 << 32), ..Changes::default() };
        assert_eq!(fs.change(&CALLER, file, &big).await, Err(Errno::Efbig));
        assert_eq!(fs.lookup(root, b"FILE").await, Ok(file), "names are the same in any case");
        fs.rename(&CALLER, (root, b"file"), (root, b"File")).await.expect("it is renamed");
        let names = fs.read_directory(root).await.expect("it lists");
        assert_eq!(names.len(), 1);
        fs.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    assert_clean(&medium, "refused");
}

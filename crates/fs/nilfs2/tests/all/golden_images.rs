//! Images that mkfs.nilfs2 and the kernel wrote, against what the kernel shows of them.

use crate::support;

use fs_api::{FileSystem, NewInode};
use nilfs2::MountOptions;
use nilfs2::records::CHECKPOINT_MINOR;
use std::cell::Cell;
use std::rc::Rc;
use support::{
    CALLER, assert_same, checkpoints, expected, load, manifest, quiet, read_only, run, text,
};

#[test]
fn images_show_what_the_kernel_shows() {
    for name in ["mkfs", "clean", "gc", "killed"] {
        let done = run(load(name), move |bench| async move {
            let fs = bench.mount(read_only()).await;
            assert_same(name, &manifest(&fs).await, &expected(name));
            assert_eq!(fs.findings(), [], "{name}");
            fs.drop_caches();
            assert_same(name, &manifest(&fs).await, &expected(name));
            assert_eq!(fs.check().await.expect("it is read"), [], "{name}");
        });
        assert!(done.1, "{name}");
    }
}

#[test]
fn every_checkpoint_shows_what_the_kernel_shows() {
    for (name, least) in [("clean", 70), ("gc", 10), ("killed", 10)] {
        let all = checkpoints(name);
        assert!(all.len() >= least, "{name}: {} manifests", all.len());
        let count = all.len();
        let compared = Rc::new(Cell::new(0));
        let counter = compared.clone();
        run(load(name), move |bench| async move {
            for (number, expected) in all {
                let options = MountOptions { checkpoint: Some(number), ..read_only() };
                let fs = bench.mount(options).await;
                let label = format!("{name}, checkpoint {number}");
                assert_same(&label, &manifest(&fs).await, &expected);
                assert_eq!(fs.findings(), [], "{label}");
                counter.set(counter.get() + 1);
            }
        });
        assert_eq!(compared.get(), count, "{name}");
    }
}

#[test]
fn checkpoints_are_listed_as_lscp_lists_them() {
    for name in ["clean", "gc", "killed"] {
        let listing = text(&format!("{name}.lscp.txt"));
        let done = run(load(name), move |bench| async move {
            let fs = bench.mount(read_only()).await;
            let found: Vec<String> = fs
                .checkpoints()
                .await
                .expect("they are listed")
                .iter()
                .map(|checkpoint| {
                    let mode = if checkpoint.is_snapshot() { "ss" } else { "cp" };
                    let minor = checkpoint.flags & CHECKPOINT_MINOR != 0;
                    format!(
                        "{} {mode} {} {} {}",
                        checkpoint.number,
                        if minor { "i" } else { "-" },
                        checkpoint.blocks,
                        checkpoint.inodes
                    )
                })
                .collect();
            let expected: Vec<String> = listing
                .lines()
                .skip(1)
                .map(|line| {
                    let columns: Vec<&str> = line.split_whitespace().collect();
                    [columns[0], columns[3], columns[4], columns[5], columns[6]].join(" ")
                })
                .collect();
            assert_same(name, &found, &expected);
        });
        assert!(done.1, "{name}");
    }
}

#[test]
fn a_killed_machines_image_is_written_on() {
    let done = run(load("killed"), move |bench| async move {
        let fs = bench.mount(quiet()).await;
        assert_same("killed", &manifest(&fs).await, &expected("killed"));
        assert_eq!(fs.check().await.expect("it is read"), []);
        fs.make(&CALLER, fs.root(), b"new", NewInode::Directory(0o700)).await.expect("made");
        fs.sync().await.expect("it syncs");
        fs.unlink(&CALLER, fs.root(), b"new").await.expect("removed");
        fs.unmount().await.expect("it unmounts");
        let fs = bench.mount(read_only()).await;
        let without_root =
            |lines: Vec<String>| lines.into_iter().filter(|it| !it.ends_with("\t.")).collect();
        let (found, expected): (Vec<_>, Vec<_>) =
            (without_root(manifest(&fs).await), without_root(expected("killed")));
        assert_same("mounted again", &found, &expected);
        assert_eq!(fs.check().await.expect("it is read"), []);
    });
    assert!(done.1);
}

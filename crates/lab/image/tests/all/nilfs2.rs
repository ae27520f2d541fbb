//! NILFS2: images that mkfs.nilfs2 and the kernel wrote list and extract as the kernel shows them, each
//! of their checkpoints too; what is made lists as the tree it was made of; bad input is refused with its reason.

use crate::support;

use image::{
    AnyImage, ExtractOptions, ImageError, MakeOptions, Nilfs2MakeOptions, OpenOptions,
    UbiMakeOptions, diff, make,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use support::scratch;
use vfs::Manifest;

const GOLDEN: [&str; 4] = ["mkfs", "clean", "gc", "killed"];

fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fs/nilfs2/tests/data").join(name);
    zstd::decode_all(&std::fs::read(path).expect("readable")[..]).expect("a sound archive")
}

fn text(name: &str) -> String {
    String::from_utf8(data(name)).expect("text")
}

/// A golden image as a file of the test that asks.
fn unpacked(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = scratch(&format!("{name}-{number}.nilfs2"));
    std::fs::write(&path, data(&format!("{name}.img.zst"))).expect("written");
    path
}

fn open(path: &Path, checkpoint: Option<u64>) -> AnyImage {
    let options = OpenOptions { checkpoint, ..OpenOptions::default() };
    AnyImage::open(path, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(path: &Path, options: &OpenOptions) -> String {
    AnyImage::open(path, options).err().expect("refused").to_string()
}

fn manifest(image: &AnyImage) -> Manifest {
    let listing = image.list(true).expect("it mounts");
    assert_eq!(listing.damage, []);
    listing.manifest
}

/// Rows of a manifest without its head.
fn rows(manifest: &str) -> BTreeSet<&str> {
    manifest.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn golden_images_list_as_the_kernel_shows_them() {
    for name in GOLDEN {
        let path = unpacked(name);
        let image = open(&path, None);
        assert_eq!(image.file_system(), "nilfs2");
        let shown = manifest(&image).to_tsv();
        assert_eq!(rows(&shown), rows(&text(&format!("{name}.manifest.tsv.zst"))), "{name}");
        let report = image.check().expect("it mounts");
        assert_eq!(report.findings, [], "{name}");
        let expected_notes = usize::from(name == "killed");
        assert_eq!(report.notes.len(), expected_notes, "{name}: {:?}", report.notes);
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn every_checkpoint_lists_as_the_kernel_shows_it() {
    for (name, least) in [("clean", 70), ("gc", 10), ("killed", 10)] {
        let path = unpacked(name);
        let all = text(&format!("{name}.checkpoints.txt.zst"));
        let mut count = 0;
        for part in all.split("## cp").skip(1) {
            let (number, expected) = part.split_once(".tsv\n").expect("a name");
            let image = open(&path, Some(number.parse().expect("a number")));
            let shown = manifest(&image).to_tsv();
            assert_eq!(rows(&shown), rows(expected), "{name}, checkpoint {number}");
            count += 1;
        }
        assert!(count >= least, "{name}: {count} checkpoints");
        std::fs::remove_file(path).expect("removed");
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Names, kinds, sizes, times and contents of a tree of the host; `.nilfs` is not the user's.
fn host_tree(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let metadata = path.symlink_metadata().expect("it is there");
        let below = path.strip_prefix(directory).expect("below").as_os_str().to_owned();
        let kind = metadata.file_type();
        let content = if kind.is_file() { std::fs::read(&path).expect("a file") } else { vec![] };
        let target = kind.is_symlink().then(|| std::fs::read_link(&path).expect("a link"));
        let size = if kind.is_dir() { 0 } else { metadata.size() };
        let sum = vfs::hexadecimal(&<sha2::Sha256 as sha2::Digest>::digest(&content));
        let (uid, gid) = if is_root() { (metadata.uid(), metadata.gid()) } else { (0, 0) };
        let mode = if kind.is_symlink() { 0o777 } else { metadata.mode() & 0o7777 };
        lines.push(format!(
            "{} {kind:?} {mode:o} {uid} {gid} {size} {} {} {sum} {target:?}",
            below.display(),
            metadata.mtime(),
            metadata.rdev()
        ));
        if kind.is_dir() {
            let names = std::fs::read_dir(&path).expect("names");
            todo.extend(names.map(|entry| entry.expect("one").path()));
        }
    }
    lines.retain(|line| !line.starts_with(".nilfs "));
    lines.sort();
    lines
}

fn extract(image: &AnyImage, name: &str) -> PathBuf {
    let to = scratch(name);
    let options = ExtractOptions { has_devices: is_root(), has_owners: is_root() };
    let extracted = image.extract(&to, options).expect("it extracts");
    let unexpected = extracted.left_out.iter().filter(|(_, what)| !what.contains("left out"));
    assert_eq!(unexpected.count(), 0, "{:?}", extracted.left_out);
    to
}

/// What was extracted makes an image that lists as the one it came from.
#[test]
fn golden_images_extract_as_they_list() {
    for (name, checkpoint) in [("clean", None), ("clean", Some(9)), ("gc", None), ("killed", None)]
    {
        let path = unpacked(name);
        let image = open(&path, checkpoint);
        let label = format!("{name}-{}", checkpoint.unwrap_or(0));
        let to = extract(&image, &label);
        let made = scratch(&format!("{label}.again"));
        make(Some(&to), &made, &options()).expect("it is made");
        let differences = diff(&manifest(&image), &manifest(&open(&made, None)));
        // Owners and devices are made by root alone.
        let differences = differences.into_iter().filter(|difference| {
            let mut columns = difference.columns.iter();
            is_root() || columns.any(|(column, _, _)| !matches!(*column, "uid" | "gid" | "type"))
        });
        assert_eq!(differences.collect::<Vec<_>>(), [], "{label}");
        std::fs::remove_dir_all(to).expect("removed");
        std::fs::remove_file(made).expect("removed");
        std::fs::remove_file(path).expect("removed");
    }
}

fn options() -> MakeOptions {
    MakeOptions {
        file_system: "nilfs2".into(),
        device_table: None,
        squashes_owners: false,
        squashes_permissions: false,
        padding: None,
        size_limit_bytes: None,
        has_oob: false,
        part: String::new(),
        blocks: None,
        page_bytes: None,
        profile: None,
        mount_options: Vec::new(),
        latest_time: None,
        ubi: UbiMakeOptions::default(),
        nilfs2: Nilfs2MakeOptions { blocks_per_segment: Some(64), ..Nilfs2MakeOptions::default() },
    }
}

/// A tree with all that files can be, and one that takes a B-tree.
fn sample_tree(name: &str) -> PathBuf {
    let root = scratch(name);
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("sub/deeper")).expect("made");
    std::fs::write(root.join("empty"), b"").expect("written");
    std::fs::write(root.join("sub/text"), "segment block log ".repeat(400_000)).expect("written");
    for number in 0..300 {
        let path = root.join(format!("sub/deeper/a name that is rather long {number}"));
        std::fs::write(path, number.to_string()).expect("written");
    }
    std::fs::hard_link(root.join("sub/text"), root.join("another name")).expect("linked");
    symlink("sub/text", root.join("link")).expect("linked");
    std::fs::set_permissions(root.join("sub/text"), PermissionsExt::from_mode(0o4750))
        .expect("set");
    std::fs::set_permissions(root.join("sub"), PermissionsExt::from_mode(0o1777)).expect("set");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
    for path in ["sub/text", "sub/deeper", "sub", "."] {
        std::fs::File::open(root.join(path)).expect("open").set_modified(time).expect("set");
    }
    root
}

#[test]
fn what_is_made_comes_out_again() {
    let from = sample_tree("made-from");
    let to = scratch("made.nilfs2");
    let made = make(Some(&from), &to, &options()).expect("it is made");
    assert_eq!(std::fs::metadata(&to).expect("there").len(), made.file_bytes);
    let image = open(&to, None);
    let report = image.check().expect("it mounts");
    assert_eq!((report.findings, report.notes), (vec![], vec![]));
    let out = extract(&image, "made-out");
    assert_eq!(host_tree(&out), host_tree(&from));
    // The file of the cleaner's daemon is there twice: as mkfs makes it, and in the tree.
    let again = scratch("again.nilfs2");
    make(Some(&out), &again, &options()).expect("it is made");
    assert_eq!(manifest(&open(&again, None)).to_tsv(), manifest(&image).to_tsv());
    for path in [from, out] {
        std::fs::remove_dir_all(path).expect("removed");
    }
}

#[test]
fn the_same_tree_makes_the_same_image() {
    let from = sample_tree("made-twice");
    let image = |name: &str, latest_time| {
        let to = scratch(name);
        make(Some(&from), &to, &MakeOptions { latest_time, ..options() }).expect("it is made");
        std::fs::read(&to).expect("there")
    };
    assert!(image("once", Some(1_100_000_000)) == image("twice", Some(1_100_000_000)));
    let other = AnyImage::open(&scratch("once"), &OpenOptions::default()).expect("it opens");
    assert!(manifest(&other).rows.iter().all(|row| row.modified <= 1_100_000_000));
    let uuid =
        |name: &str| open(&scratch(name), None).info().expect("it mounts")["superblock"].clone();
    let once = uuid("once")["uuid"].clone();
    std::fs::write(from.join("empty"), b"no more").expect("written");
    image("changed", Some(1_100_000_000));
    assert_ne!(once, uuid("changed")["uuid"]);
    std::fs::remove_dir_all(from).expect("removed");
}

// One function: what is checked at the end are the options that stand at its beginning.
#[test]
fn tables_squashing_and_the_words_of_mkfs() {
    let from = sample_tree("squashed");
    let table = scratch("nilfs2.table");
    std::fs::write(&table, "/dev d 755 0 0 - - - - -\n/dev/tty c 666 10 20 5 3 2 1 3\n")
        .expect("written");
    let to = scratch("squashed.nilfs2");
    let nilfs2 = Nilfs2MakeOptions {
        size_bytes: Some(64 << 20),
        blocks_per_segment: Some(128),
        label: Some("rootfs".into()),
        reserved_percent: Some(10),
    };
    let with = MakeOptions {
        device_table: Some(table),
        squashes_owners: true,
        squashes_permissions: true,
        nilfs2,
        ..options()
    };
    assert_eq!(make(Some(&from), &to, &with).expect("it is made").file_bytes, 64 << 20);
    let image = open(&to, None);
    let rows = manifest(&image).rows;
    let row = |path: &str| rows.iter().find(|row| row.path == path).expect("there");
    assert_eq!((row("dev/tty4").device, row("dev/tty4").uid), (Some((5, 5)), 0));
    assert_eq!(row("sub/text").permissions, 0o750);
    let info = image.info().expect("it mounts");
    let superblock = &info["superblock"];
    let shown = ["label", "segments", "blocks_per_segment", "reserved_percent", "state"];
    let shown = shown.map(|name| superblock[name].clone());
    assert_eq!(Value::from(shown.to_vec()), serde_json::json!(["rootfs", 127, 128, 10, "valid"]));

    let refused = |nilfs2| {
        let never = scratch("never");
        let error =
            make(Some(&from), &never, &MakeOptions { nilfs2, ..options() }).expect_err("refused");
        assert!(!never.exists() && !scratch("never.unfinished").exists());
        error.to_string()
    };
    let none = Nilfs2MakeOptions::default();
    for (nilfs2, expected) in [
        (Nilfs2MakeOptions { size_bytes: Some(1 << 20), ..none.clone() }, "--size: 0 segments fit"),
        (
            Nilfs2MakeOptions {
                size_bytes: Some(8 << 20),
                blocks_per_segment: Some(16),
                ..none.clone()
            },
            "a device more --size",
        ),
        (
            Nilfs2MakeOptions { blocks_per_segment: Some(24), ..none.clone() },
            "--blocks-per-segment: a segment of 24 blocks",
        ),
        (Nilfs2MakeOptions { label: Some("x".repeat(81)), ..none.clone() }, "--label: "),
        (Nilfs2MakeOptions { reserved_percent: Some(100), ..none }, "--reserved-percent: 100"),
    ] {
        let error = refused(nilfs2);
        assert!(error.contains(expected), "{error}");
    }
    std::fs::remove_dir_all(from).expect("removed");
}

/// Checkpoints in `info` are those of lscp.
#[test]
fn checkpoints_and_segments_are_described() {
    for name in ["clean", "gc", "killed"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fs/nilfs2/tests/data");
        let listed = std::fs::read_to_string(path.join(format!("{name}.lscp.txt"))).expect("text");
        let path = unpacked(name);
        let info = open(&path, None).info().expect("it mounts");
        let shown: Vec<String> = info["checkpoints"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|row| {
                let flag = if row["is_minor"] == true { "i" } else { "-" };
                let mode = row["mode"].as_str().expect("a word");
                format!("{} {mode} {flag} {} {}", row["number"], row["blocks"], row["inodes"])
            })
            .collect();
        let expected: Vec<String> = listed
            .lines()
            .skip(1)
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                [words[0], words[3], words[4], words[5], words[6]].join(" ")
            })
            .collect();
        assert_eq!(shown, expected, "{name}");
        let segments = info["segments"].as_array().expect("a list");
        let active = segments.iter().filter(|row| row["status"] == "ad-").count();
        assert_eq!(active, 2, "{name}: the one that is filled and the next");
        std::fs::remove_file(path).expect("removed");
    }
}

#[test]
fn wrong_options_name_what_would_be_right() {
    let path = unpacked("gc");
    let none = OpenOptions::default();
    for (options, expected) in [
        (
            OpenOptions { checkpoint: Some(1), ..none.clone() },
            "has no checkpoint 1: it has 15, from 3 to 35;",
        ),
        (OpenOptions { checkpoint: Some(u64::MAX), ..none.clone() }, "has no checkpoint 1844"),
        (OpenOptions { volume: Some("root".into()), ..none.clone() }, "--volume: "),
        (OpenOptions { page_bytes: Some(2048), ..none.clone() }, "--page-size: "),
        (OpenOptions { profile: Some("dos".into()), ..none.clone() }, "linux-2.6.29 are known"),
        (
            OpenOptions { file_system: Some("ext4".into()), ..none.clone() },
            "jffs2-block2mtd, nilfs2, ubifs, yaffs2 are known",
        ),
    ] {
        let error = refused(&path, &options);
        assert!(error.contains(expected), "{error}");
    }
    let other = scratch("no.nilfs2");
    std::fs::write(&other, b"nothing of that sort").expect("written");
    let nilfs2 = OpenOptions { file_system: Some("nilfs2".into()), ..none.clone() };
    assert!(refused(&other, &nilfs2).contains("no superblock of NILFS2"));
    let checkpoint = OpenOptions { checkpoint: Some(1), ..none.clone() };
    assert!(refused(&other, &checkpoint).contains("--checkpoint: "));
    assert!(refused(&other, &none).contains("superblock of NILFS2"));
    std::fs::remove_file(path).expect("removed");
}

/// A place without a superblock is what a cut leaves; a superblock with a wrong bit is not.
#[test]
fn one_superblock_is_enough_and_the_other_is_missed() {
    let places = [("first", 1024), ("second", (128 << 20) - 4096)];
    for ((name, at), is_gone) in places.into_iter().flat_map(|it| [(it, true), (it, false)]) {
        let mut bytes = data("clean.img.zst");
        if is_gone {
            bytes[at..at + 280].fill(0);
        } else {
            bytes[at + 60] ^= 1;
        }
        let path = scratch(&format!("{name}.nilfs2"));
        std::fs::write(&path, bytes).expect("written");
        let image = open(&path, None);
        assert_eq!(rows(&manifest(&image).to_tsv()), rows(&text("clean.manifest.tsv.zst")));
        let report = image.check().expect("it mounts");
        assert_eq!(report.findings.len(), usize::from(!is_gone), "{:?}", report.findings);
        let told = if is_gone { &report.notes } else { &report.findings };
        let place = format!("{name} superblock");
        assert_eq!(told.iter().filter(|remark| remark.place == place).count(), 1, "{told:?}");
        std::fs::remove_file(path).expect("removed");
    }
}

/// Of an image that was cut short is read what is there, and what is not is reported.
#[test]
fn images_that_were_cut_short_are_read_as_far_as_they_go() {
    let whole = data("clean.img.zst");
    let sound = unpacked("clean");
    let newest = open(&sound, None).info().expect("it mounts")["superblock"]["last_log_block"]
        .as_u64()
        .expect("a number");
    std::fs::remove_file(sound).expect("removed");
    let path = scratch("short.nilfs2");
    let check = |bytes: usize| {
        std::fs::write(&path, &whole[..bytes]).expect("written");
        open(&path, None).check().expect("a report")
    };
    let report = check((newest as usize + 600) * 4096);
    assert!(report.notes.iter().any(|note| note.what.contains("cut short")), "{report:?}");
    assert_eq!(report.findings.len(), 1, "only the second superblock is missing: {report:?}");
    assert_eq!(
        manifest(&open(&path, None)).to_tsv().lines().count(),
        1 + rows(&text("clean.manifest.tsv.zst")).len()
    );
    let report = check(newest as usize * 4096);
    assert!(report.findings.iter().any(|found| found.place == "NILFS2"), "{report:?}");
    assert!(matches!(open(&path, None).list(false), Err(ImageError::Nilfs2 { .. })));
    for bytes in [1, 1023, 1024, 1303, 2047, 4096, 5000, 1 << 20] {
        std::fs::write(&path, &whole[..bytes]).expect("written");
        match AnyImage::open(&path, &OpenOptions::default()) {
            Ok(image) => assert!(!image.check().expect("a report").findings.is_empty()),
            Err(error) => assert!(bytes < 2048, "{bytes} bytes: {error}"),
        }
    }
}

/// One wrong bit in a file's data is in no checksum but that of its log.
#[test]
fn wrong_bits_in_data_are_found() {
    let whole = data("clean.img.zst");
    let used: Vec<usize> =
        (2..32_000).filter(|block| whole[block * 4096..][..4096].iter().any(|b| *b != 0)).collect();
    let options = OpenOptions { file_system: Some("nilfs2".into()), ..OpenOptions::default() };
    for block in used.iter().step_by(used.len() / 20) {
        let mut damaged = whole.clone();
        damaged[block * 4096 + 77] ^= 4;
        let image = AnyImage::from_bytes(Path::new("wrong"), damaged, &options);
        let report = image.expect("it opens").check().expect("a report");
        assert!(!report.findings.is_empty(), "block {block}");
    }
}

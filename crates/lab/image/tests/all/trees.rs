//! Trees onto the host and back: what was extracted and what was made is what it was.

use crate::support;

use image::{
    AnyImage, ExtractOptions, MakeOptions, Nilfs2MakeOptions, Padding, UbiMakeOptions, make,
};
use sha2::{Digest, Sha256};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use support::{chip, golden, jffs2_data, open, scratch, ubi_data, yaffs2_data};
use vfs::{ManifestRow, escape_path, hexadecimal};

/// Devices and owners of files need root.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What a directory of the host holds, as rows of a manifest.
fn host_rows(directory: &Path) -> Vec<(String, ManifestRow)> {
    let mut rows = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let metadata = path.symlink_metadata().expect("it is there");
        let kind = metadata.file_type();
        let below = path.strip_prefix(directory).expect("below");
        let name = escape_path(below.as_os_str().as_encoded_bytes());
        let letter = match () {
            () if kind.is_dir() => 'd',
            () if kind.is_symlink() => 'l',
            () if kind.is_char_device() => 'c',
            () if kind.is_block_device() => 'b',
            () if kind.is_fifo() => 'p',
            () if kind.is_socket() => 's',
            () => 'f',
        };
        let device = metadata.rdev();
        let target = kind.is_symlink().then(|| std::fs::read_link(&path).expect("a link"));
        rows.push((
            name.clone(),
            ManifestRow {
                kind: letter,
                permissions: metadata.mode() & 0o7777,
                links: if kind.is_dir() { 0 } else { metadata.nlink() as u32 },
                uid: metadata.uid(),
                gid: metadata.gid(),
                size_bytes: if matches!(letter, 'f' | 'l') { metadata.size() } else { 0 },
                modified: metadata.mtime(),
                device: (matches!(letter, 'c' | 'b'))
                    .then(|| (rustix::fs::major(device), rustix::fs::minor(device))),
                sha256: kind
                    .is_file()
                    .then(|| hexadecimal(&Sha256::digest(std::fs::read(&path).expect("a file")))),
                target: target.map(|target| escape_path(target.as_os_str().as_encoded_bytes())),
                extended: Vec::new(),
                path: name,
            },
        ));
        if kind.is_dir() {
            todo.extend(
                std::fs::read_dir(&path).expect("names").map(|entry| entry.expect("one").path()),
            );
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

/// Rows of an image as a host can show them.
fn image_rows(image: &AnyImage, is_root: bool) -> Vec<(String, ManifestRow)> {
    let listing = image.list(true).expect("it mounts");
    assert_eq!(listing.damage, []);
    let rows =
        listing.manifest.rows.into_iter().filter(|row| is_root || !"cbps".contains(row.kind));
    let mut rows: Vec<(String, ManifestRow)> = rows
        .map(|row| {
            let name = if row.path == "." { String::new() } else { row.path.clone() };
            let links = if row.kind == 'd' { 0 } else { row.links };
            (name.clone(), ManifestRow { links, extended: Vec::new(), path: name, ..row })
        })
        .collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

fn without_owners(rows: &[(String, ManifestRow)]) -> Vec<ManifestRow> {
    rows.iter()
        .map(|(_, row)| {
            let mut row = row.clone();
            if !is_root() {
                (row.uid, row.gid) = (0, 0);
            }
            // UBIFS keeps the number of a device as data and shows its length as size; the host shows none.
            if "cb".contains(row.kind) {
                row.size_bytes = 0;
            }
            // Linux gives symbolic links all permissions.
            if row.kind == 'l' {
                row.permissions = 0o777;
            }
            row
        })
        .collect()
}

fn extract(image: &AnyImage, name: &str) -> std::path::PathBuf {
    let to = scratch(name);
    let options = ExtractOptions { has_devices: is_root(), has_owners: is_root() };
    let extracted = image.extract(&to, options).expect("it extracts");
    let unexpected = extracted.left_out.iter().filter(|(_, what)| !what.contains("left out"));
    assert_eq!(unexpected.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
    to
}

#[test]
fn golden_images_extract_as_they_list() {
    let jffs2 = ["clean", "cut1", "gc", "unclean-torn", "mkfs-lzo-cm"];
    let yaffs2 = ["direct-gc", "direct-unclean", "linux61-clean", "mkimage"];
    let ubifs = ["ubifs-gc", "ubifs-unclean-torn", "ubi-zlib-s2048", "ubi-none-s512"];
    let all = jffs2.map(|name| (jffs2_data(), name)).into_iter();
    let all = all.chain(yaffs2.map(|name| (yaffs2_data(), name)));
    for (data, name) in all.chain(ubifs.map(|name| (ubi_data(), name))) {
        let image = golden(&data, name);
        let to = extract(&image, name);
        let (shown, found) = (image_rows(&image, is_root()), host_rows(&to));
        let (shown, found) = (without_owners(&shown), without_owners(&found));
        for (shown, found) in shown.iter().zip(&found) {
            assert_eq!(shown, found, "{name}");
        }
        assert_eq!(shown.len(), found.len(), "{name}");
        std::fs::remove_dir_all(to).expect("removed");
    }
}

#[test]
fn nothing_that_is_there_is_overwritten() {
    let image = golden(&jffs2_data(), "mkfs-zlib");
    let to = scratch("precious");
    std::fs::create_dir_all(&to).expect("made");
    let options = ExtractOptions { has_devices: false, has_owners: false };
    let error = image.extract(&to, options).expect_err("refused").to_string();
    assert!(error.contains("precious") && error.contains("exists"), "{error}");
}

fn options(file_system: &str) -> MakeOptions {
    MakeOptions {
        file_system: file_system.into(),
        device_table: None,
        squashes_owners: false,
        squashes_permissions: false,
        padding: None,
        size_limit_bytes: None,
        has_oob: true,
        part: "nandsim-64MiB".into(),
        blocks: Some(64),
        page_bytes: None,
        profile: None,
        mount_options: Vec::new(),
        latest_time: None,
        ubi: UbiMakeOptions::default(),
        nilfs2: Nilfs2MakeOptions::default(),
    }
}

/// A tree with all that files can be.
fn sample_tree(name: &str) -> std::path::PathBuf {
    let root = scratch(name);
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(root.join("sub/deeper")).expect("made");
    std::fs::write(root.join("empty"), b"").expect("written");
    std::fs::write(root.join("sub/text"), "flash block page ".repeat(4000)).expect("written");
    let noise: Vec<u8> = (0..70_001_u64).map(|at| ((at * at * 0x9e37_79b9) >> 13) as u8).collect();
    std::fs::write(root.join("sub/deeper/noise with spaces"), noise).expect("written");
    std::fs::hard_link(root.join("sub/text"), root.join("another name")).expect("linked");
    symlink("sub/text", root.join("link")).expect("linked");
    std::fs::set_permissions(root.join("sub/text"), PermissionsExt::from_mode(0o4750))
        .expect("set");
    std::fs::set_permissions(root.join("sub"), PermissionsExt::from_mode(0o1777)).expect("set");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
    for path in ["sub/text", "sub/deeper/noise with spaces", "sub/deeper", "sub"] {
        let file = std::fs::File::open(root.join(path)).expect("open");
        file.set_modified(time).expect("set");
    }
    root
}

#[test]
fn what_is_made_lists_as_the_tree_it_was_made_of() {
    let from = sample_tree("tree");
    for file_system in ["jffs2", "ubifs", "yaffs2"] {
        for has_oob in [true, false] {
            if file_system == "yaffs2" && !has_oob {
                continue;
            }
            let to = scratch(&format!("{file_system}-{has_oob}.made"));
            let made = make(Some(&from), &to, &MakeOptions { has_oob, ..options(file_system) });
            let made = made.expect("it is made");
            let image = open(&to);
            assert_eq!(image.file_system(), file_system);
            let shown = image_rows(&image, true);
            let found = host_rows(&from);
            let is_lost = |row: &&(String, ManifestRow)| row.0 != "lost+found";
            let shown: Vec<_> = shown.iter().filter(is_lost).collect();
            assert_eq!(shown.len(), found.len());
            for ((_, shown), (_, found)) in shown.into_iter().zip(&found) {
                assert_eq!(shown, found, "{file_system}");
            }
            let bytes = std::fs::metadata(&to).expect("there").len();
            assert_eq!(bytes, made.file_bytes);
            // A chip that was flashed has headers on every block.
            let is_whole = file_system == "ubifs" && has_oob;
            let room = if file_system == "ubifs" { 64 * 1024 * 48 } else { 64 * 1024 * 8 };
            assert!(is_whole || bytes < room, "{bytes} bytes: blank blocks were not left out");
            let report = image.check().expect("it mounts");
            assert_eq!((report.findings, report.lost_steps), (Vec::new(), 0), "{file_system}");
            std::fs::remove_file(to).expect("removed");
        }
    }
    std::fs::remove_dir_all(from).expect("removed");
}

#[test]
fn the_same_tree_makes_the_same_image() {
    let from = sample_tree("tree-twice");
    for file_system in ["jffs2", "ubifs", "yaffs2"] {
        let images = ["once", "again"].map(|name| {
            let to = scratch(&format!("{file_system}.{name}"));
            let options = MakeOptions { latest_time: Some(1_100_000_000), ..options(file_system) };
            make(Some(&from), &to, &options).expect("it is made");
            let rows = image_rows(&open(&to), true);
            assert!(
                rows.iter()
                    .all(|(name, row)| row.modified <= 1_100_000_000 || name == "lost+found")
            );
            std::fs::read(&to).expect("there")
        });
        assert!(images[0] == images[1], "{file_system}");
    }
}

#[test]
fn tables_squashing_padding_and_limits() {
    let from = sample_tree("tree-squashed");
    let table = scratch("table");
    std::fs::write(
        &table,
        "# devices\n/dev d 755 0 0 - - - - -\n/dev/tty c 666 10 20 5 3 2 1 3\n/empty f 640 7 8\n",
    )
    .expect("written");
    let to = scratch("squashed.made");
    let with = MakeOptions {
        device_table: Some(table.clone()),
        squashes_permissions: true,
        padding: Some(Padding::Block),
        ..options("jffs2")
    };
    let made = make(Some(&from), &to, &with).expect("it is made");
    assert_eq!((made.pages % 64, made.file_bytes), (0, u64::from(made.pages) * 2112));
    let rows = image_rows(&open(&to), true);
    let row = |name: &str| &rows.iter().find(|row| row.0 == name).expect("there").1;
    assert_eq!(row("dev/tty2").device, Some((5, 3)));
    assert_eq!((row("dev/tty4").device, row("dev/tty4").uid), (Some((5, 5)), 10));
    assert!(rows.iter().all(|row| row.0 != "dev/tty5"));
    assert_eq!((row("empty").permissions, row("empty").gid), (0o640, 8));
    assert_eq!(row("sub/text").permissions, 0o750, "set-uid is gone, the rest was not for writing");
    let squashed = MakeOptions {
        squashes_owners: true,
        padding: Some(Padding::Bytes(1 << 20)),
        ..with.clone()
    };
    let made = make(Some(&from), &to, &squashed).expect("it is made");
    assert_eq!(made.pages, 512);
    assert!(image_rows(&open(&to), true).iter().all(|(_, row)| (row.uid, row.gid) == (0, 0)));

    let small = MakeOptions { size_limit_bytes: Some(4096), ..options("jffs2") };
    let error = make(Some(&from), &scratch("never"), &small).expect_err("too large").to_string();
    assert!(error.contains("4096 are allowed"), "{error}");
    let mut stream = random::Stream::new(1, "noise");
    let noise: Vec<u8> = (0..900_000).map(|_| stream.next_u64() as u8).collect();
    std::fs::write(from.join("large"), noise).expect("written");
    let tiny = MakeOptions { blocks: Some(6), ..options("jffs2") };
    let error = make(Some(&from), &scratch("never"), &tiny).expect_err("too small").to_string();
    assert!(error.contains("--blocks"), "{error}");
    std::fs::write(&table, "/no/such c 644 0 0 1 2\n").expect("written");
    let wrong = MakeOptions { device_table: Some(table), ..options("jffs2") };
    let error = make(Some(&from), &scratch("never"), &wrong).expect_err("no parent").to_string();
    assert!(error.contains("line 1") && error.contains("parent"), "{error}");
    assert!(!scratch("never").exists() && !scratch("never.unfinished").exists());
}

/// mtd-utils reads what is made here.
#[test]
fn other_readers_understand_it() {
    let Ok(_) = Command::new("jffs2dump").arg("--version").output() else {
        eprintln!("left out: jffs2dump and jffs2reader of mtd-utils are not installed");
        return;
    };
    let from = sample_tree("dumped");
    let to = scratch("dumped.made");
    make(Some(&from), &to, &MakeOptions { has_oob: false, ..options("jffs2") })
        .expect("it is made");
    let shown = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).output().expect("it runs");
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    };
    let image = to.to_str().expect("a path");
    let nodes = shown("jffs2dump", &["-c", image]);
    assert!(
        nodes.contains("Dirent") && !nodes.contains("Wrong") && !nodes.contains("Invalid"),
        "{nodes}"
    );
    // jffs2reader shows the size in the first node of an inode, and reads no LZO: names are compared.
    let names = shown("jffs2reader", &["-d", "/", image]);
    for name in ["/another name", "/empty", "/link  -> sub/text", "/sub/"] {
        assert!(names.contains(name), "{names}");
    }
}

/// The bytes of an image with names that lead out of the directory, and a link to `target`.
fn forged(target: &[u8]) -> Vec<u8> {
    use jffs2::nodes::{DirentNode, InodeNode, padded};
    let entry = |version, inode, kind, name: &[u8]| {
        let name = name.to_vec();
        DirentNode { parent: 1, version, inode, changed: 0, kind, name }.to_bytes()
    };
    let inode = |number, mode, data: &[u8]| {
        let (version, data_bytes) = (1, data.len() as u32);
        let node = InodeNode { inode: number, version, mode, data_bytes, ..InodeNode::default() };
        InodeNode { file_bytes: data_bytes, ..node }.to_bytes(data)
    };
    let mut bytes = Vec::new();
    for node in [
        inode(2, 0o040_755, b""),
        inode(3, 0o100_644, b"evil"),
        inode(4, 0o120_777, target),
        entry(1, 2, 4, b".."),
        entry(2, 3, 8, b"../evil"),
        entry(3, 4, 10, b"out"),
        entry(4, 3, 8, b"out/evil"),
        entry(5, 3, 8, b"/evil"),
        entry(6, 3, 8, b"good"),
    ] {
        bytes.extend_from_slice(&node);
        bytes.resize(padded(bytes.len() as u32) as usize, 0xff);
    }
    bytes
}

/// Names that lead out of the directory, as only a forged image has them.
#[test]
fn no_image_reaches_outside_of_its_directory() {
    let outside = scratch("outside");
    std::fs::create_dir_all(&outside).expect("made");
    let path = scratch("forged.jffs2");
    std::fs::write(&path, forged(outside.to_str().expect("a path").as_bytes())).expect("written");
    let to = scratch("inside");
    let options = ExtractOptions { has_devices: false, has_owners: false };
    let extracted = open(&path).extract(&to, options).expect("it extracts");
    assert_eq!(extracted.left_out.len(), 4, "{:?}", extracted.left_out);
    assert!(!to.join("evil").exists());
    assert_eq!(std::fs::read(to.join("good")).expect("there"), b"evil");
    assert_eq!(std::fs::read_dir(&outside).expect("there").count(), 0);
    assert!(!to.with_file_name("evil").exists());
}

/// A plain image is found to be one at every length, also where its nodes end with what would be
/// the first page of an image with spare areas.
#[test]
fn short_plain_images_have_no_spare_areas() {
    for target_bytes in 1..=254 {
        let path = scratch("short.jffs2");
        std::fs::write(&path, forged(&vec![b'x'; target_bytes])).expect("written");
        let image = open(&path);
        let form = chip(&image).form;
        assert_eq!((form.file_system, form.has_oob), ("jffs2", false), "{target_bytes}");
    }
}

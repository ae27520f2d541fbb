//! What the tests share: golden images of the engines' tests, unpacked.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use image::{AnyImage, ChipImage, OpenOptions};
use std::path::{Path, PathBuf};

pub(crate) const MANIFEST: &str = "manifest.tsv";

pub(crate) fn jffs2_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fs/jffs2/tests/data")
}

pub(crate) fn yaffs2_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fs/yaffs2/tests/data")
}

/// Images of UBI.
pub(crate) fn ubi_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fs/ubi/tests/data")
}

/// Dumps of chips with UBIFS that a kernel wrote.
pub(crate) const UBIFS_DUMPS: [&str; 6] =
    ["ubifs-clean", "ubifs-gc", "ubifs-cut1", "ubifs-cut3", "ubifs-unclean", "ubifs-unclean-torn"];
/// Images of mkfs.ubifs and ubinize.
pub(crate) const UBI_IMAGES: [&str; 4] =
    ["ubi-lzo-s2048", "ubi-zlib-s2048", "ubi-none-s512", "ubi-zstd-s512"];

/// What a kernel shows of an image of UBI.
pub(crate) fn ubifs_manifest(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fs/ubifs/tests/data");
    let name = name.strip_prefix("ubifs-").map_or(name.replace("ubi-", "mkfs-"), str::to_owned);
    text(&data, &name, MANIFEST)
}

pub(crate) fn text(data: &Path, name: &str, ending: &str) -> String {
    let path = data.join(format!("{name}.{ending}"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file of this test in this run.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let run = Path::new(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    let directory = run.join(std::thread::current().name().unwrap_or_default().replace(':', "-"));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// The bytes of a golden image.
pub(crate) fn bytes(data: &Path, name: &str) -> Vec<u8> {
    if name == "unclean-torn" {
        let mut image = bytes(data, "unclean");
        let page = &mut image[31810 * 2112..31811 * 2112];
        page[1024..2048].fill(0xff);
        page[2048 + 52..].fill(0xff);
        return image;
    }
    if name == "ubifs-unclean-torn" {
        let mut image = bytes(data, "ubifs-unclean");
        let page = &mut image[9023 * 2112..9024 * 2112];
        page[1024..2048].fill(0xff);
        page[2048 + 52..].fill(0xff);
        return image;
    }
    let file = ["oob", "img", "ubi"].map(|ending| data.join(format!("{name}.{ending}.zst")));
    let file = file.iter().find(|path| path.exists()).expect("a golden image");
    zstd::decode_all(&std::fs::read(file).expect("readable")[..]).expect("a sound archive")
}

/// A golden image as a file.
pub(crate) fn unpacked(data: &Path, name: &str) -> PathBuf {
    let path = scratch(&format!("{}-{name}.image", data.components().count()));
    std::fs::write(&path, bytes(data, name)).expect("written");
    path
}

pub(crate) fn open(path: &Path) -> AnyImage {
    AnyImage::open(path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The image of a chip.
pub(crate) fn chip(image: &AnyImage) -> &ChipImage {
    image.get().expect("it is of a chip")
}

/// A golden image, loaded.
pub(crate) fn golden(data: &Path, name: &str) -> AnyImage {
    let path = unpacked(data, name);
    let image = open(&path);
    std::fs::remove_file(path).expect("removed");
    image
}

/// Compares rows of YAFFS2 with a stored manifest, without some columns.
pub(crate) fn compare(name: &str, shown: &[String], manifest: &str, ignored: &[usize]) {
    let stored = text(&yaffs2_data(), name, &format!("{manifest}.tsv"));
    let stored: Vec<&str> = stored.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(shown.len(), stored.len(), "{name} {manifest}");
    let mut wrong = Vec::new();
    for (shown, stored) in shown.iter().zip(stored) {
        let shown_fields: Vec<&str> = shown.split('\t').collect();
        let stored_fields: Vec<&str> = stored.split('\t').collect();
        let is_fixed = matches!(stored_fields[11], "lost+found" | ".");
        let differs = (0..12).any(|column| {
            let is_ignored = ignored.contains(&column)
                || column == 6 && is_fixed
                || column == 0 && stored_fields[0] == "?";
            !is_ignored && shown_fields[column] != stored_fields[column]
        });
        if differs {
            wrong.push(format!("- {stored}\n+ {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{name} {manifest}:\n{}", wrong.join("\n"));
}

//! Images that real implementations wrote list as those show them.

use crate::support;

use image::{AnyImage, Jffs2Form, OpenOptions};
use support::{MANIFEST, chip, compare, golden, jffs2_data, yaffs2_data};

fn rows(image: &AnyImage) -> Vec<String> {
    let listing = image.list(true).expect("it mounts");
    assert_eq!(listing.damage, []);
    listing.manifest.to_tsv().lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn jffs2_lists_byte_for_byte() {
    for name in ["clean", "unclean", "cut1", "cut2", "gc", "unclean-torn"] {
        let image = golden(&jffs2_data(), name);
        assert_eq!(
            (image.file_system(), chip(&image).layout.name),
            ("jffs2", "linux-large"),
            "{name}"
        );
        let listing = image.list(true).expect("it mounts");
        assert_eq!(
            listing.manifest.to_tsv(),
            support::text(&jffs2_data(), name, MANIFEST),
            "{name}"
        );
    }
    for name in ["mkfs-zlib", "mkfs-rtime", "mkfs-summary", "mkfs-lzo-cm"] {
        let image = golden(&jffs2_data(), name);
        assert_eq!(
            (image.file_system(), chip(&image).layout.name),
            ("jffs2", "linux-large-no-ecc"),
            "{name}"
        );
        let form: &Jffs2Form = chip(&image).details().expect("it is JFFS2");
        assert_eq!(form.has_markers_in_band, name == "mkfs-lzo-cm");
        let listing = image.list(true).expect("it mounts");
        assert_eq!(
            listing.manifest.to_tsv(),
            support::text(&jffs2_data(), name, MANIFEST),
            "{name}"
        );
    }
}

/// The direct library's `stat` shows no owners, no devices and no kinds of special files, the module's
/// clock begins at its boot, and the time of lost+found, which has no header, is that of the mount.
#[test]
fn yaffs2_lists_as_both_implementations_show_it() {
    const OWNERS: &[usize] = &[3, 4, 7];
    const TIME: &[usize] = &[6];
    for name in ["direct-clean-nockpt", "direct-cut1", "direct-gc", "direct-unclean"] {
        let image = golden(&yaffs2_data(), name);
        assert_eq!(
            (image.file_system(), chip(&image).layout.name),
            ("yaffs2", "linux-large"),
            "{name}"
        );
        let rows = rows(&image);
        compare(name, &rows, "manifest", OWNERS);
        compare(name, &rows, "manifest-linux61", TIME);
    }
    compare("linux61-clean", &rows(&golden(&yaffs2_data(), "linux61-clean")), "manifest", &[]);
    let image = golden(&yaffs2_data(), "mkimage");
    assert_eq!(
        (chip(&image).form.layout.name, chip(&image).layout.name),
        ("bare", "linux-large-no-ecc")
    );
    compare("mkimage", &rows(&image), "manifest", OWNERS);
}

fn layout(path: &std::path::Path, options: &OpenOptions) -> &'static str {
    chip(&AnyImage::open(path, options).expect("it opens")).layout.name
}

#[test]
fn what_is_said_is_believed() {
    let path = support::unpacked(&jffs2_data(), "gc");
    let options = OpenOptions {
        file_system: Some("jffs2".into()),
        oob_layout: Some("linux-large".into()),
        page_bytes: Some(2048),
        ..OpenOptions::default()
    };
    assert_eq!(layout(&path, &options), "linux-large");
    let options = OpenOptions { ecc: Some("none".into()), ..OpenOptions::default() };
    assert_eq!(layout(&path, &options), "linux-large-no-ecc");
    for (options, expected) in [
        (OpenOptions { file_system: Some("ext4".into()), ..OpenOptions::default() }, "--fs: "),
        (OpenOptions { oob_layout: Some("large".into()), ..OpenOptions::default() }, "linux-large"),
        (OpenOptions { ecc: Some("bch".into()), ..OpenOptions::default() }, "hamming, none"),
        (OpenOptions { page_bytes: Some(1000), ..OpenOptions::default() }, "512 and 2048"),
        (OpenOptions { vid_header_offset: Some(512), ..OpenOptions::default() }, "UBI"),
        (OpenOptions { block_bytes: Some(3000), ..OpenOptions::default() }, "--block-size"),
        (OpenOptions { profile: Some("dos".into()), ..OpenOptions::default() }, "linux-6.12"),
    ] {
        let error = AnyImage::open(&path, &options).err().expect("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

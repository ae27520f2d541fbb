//! Images that the real code wrote show what the real code showed of them.

use crate::common;

use common::{Bench, chip_of, data, manifest, part, stored_manifest, without};
use nand::{Chip, ImageLayout};
use yaffs2::{MountOptions, TAGS_ECC_BYTES, find_profile};

/// Columns of a manifest.
const UID: usize = 3;
const GID: usize = 4;
const MTIME: usize = 6;
const DEVICE: usize = 7;
const XATTR: usize = 10;

struct Case {
    image: &'static str,
    manifest: &'static str,
    profile: &'static str,
    from_checkpoint: bool,
    /// Files that were only made longer: no scan finds that.
    extended: usize,
    ignored: &'static [usize],
}

/// The library shows neither owners nor kinds of special files, the module's clock differs.
const DIRECT: &[usize] = &[UID, GID, DEVICE];
const MODULE: &[usize] = &[MTIME];

const CASES: &[Case] = &[
    Case {
        image: "direct-clean-nockpt",
        manifest: "manifest",
        profile: "yaffs-direct",
        from_checkpoint: false,
        extended: 0,
        ignored: DIRECT,
    },
    Case {
        image: "direct-clean-nockpt",
        manifest: "manifest-linux61",
        profile: "linux-6.1",
        from_checkpoint: false,
        extended: 0,
        ignored: MODULE,
    },
    Case {
        image: "direct-cut1",
        manifest: "manifest",
        profile: "yaffs-direct",
        from_checkpoint: false,
        extended: 0,
        ignored: DIRECT,
    },
    Case {
        image: "direct-cut1",
        manifest: "manifest-linux61",
        profile: "linux-6.1",
        from_checkpoint: false,
        extended: 0,
        ignored: MODULE,
    },
    Case {
        image: "direct-gc",
        manifest: "manifest",
        profile: "yaffs-direct",
        from_checkpoint: true,
        extended: 2,
        ignored: DIRECT,
    },
    Case {
        image: "direct-gc",
        manifest: "manifest-linux61",
        profile: "linux-6.1",
        from_checkpoint: true,
        extended: 2,
        ignored: MODULE,
    },
    Case {
        image: "direct-unclean",
        manifest: "manifest",
        profile: "yaffs-direct",
        from_checkpoint: false,
        extended: 0,
        ignored: DIRECT,
    },
    Case {
        image: "direct-unclean",
        manifest: "manifest-linux61",
        profile: "linux-6.1",
        from_checkpoint: false,
        extended: 0,
        ignored: MODULE,
    },
    Case {
        image: "linux61-clean",
        manifest: "manifest",
        profile: "linux-6.1",
        from_checkpoint: true,
        extended: 2,
        ignored: &[],
    },
];

fn show(options: MountOptions, chip: Chip) -> (Vec<Vec<u8>>, bool) {
    let mut bench = Bench::new(chip, "linux-large");
    let shown = bench.run(options, |_, fs| async move {
        let rows = manifest(&fs).await;
        (rows, fs.statistics().await.is_from_checkpoint)
    });
    shown.expect("no power cut")
}

fn compare(name: &str, shown: &[Vec<u8>], stored: &[Vec<u8>], ignored: &[usize]) -> usize {
    let mut wrong = 0;
    // The time of lost+found, which has no header, is that of the mount.
    let simple = |row: &Vec<u8>| {
        let is_lost_and_found = row.ends_with(b"\tlost+found");
        without(row, &[ignored, if is_lost_and_found { &[MTIME] } else { &[] }].concat())
    };
    let shown: Vec<String> = shown.iter().map(simple).collect();
    let stored: Vec<String> = stored.iter().map(simple).collect();
    for row in shown.iter().filter(|row| !stored.contains(row)) {
        eprintln!("{name}: shown  {row}");
        wrong += 1;
    }
    for row in stored.iter().filter(|row| !shown.contains(row)) {
        eprintln!("{name}: stored {row}");
        wrong += 1;
    }
    wrong
}

#[test]
fn every_image_shows_what_the_real_code_shows() {
    for case in CASES {
        let name = format!("{} {}", case.image, case.profile);
        let stored = stored_manifest(&format!("{}.{}.tsv", case.image, case.manifest));
        for reads_checkpoint in [true, false] {
            let profile = find_profile(case.profile).expect("in the table");
            let mut options = MountOptions::new(profile);
            options.reads_checkpoint = reads_checkpoint;
            options.is_read_only = true;
            let chip = chip_of(&format!("{}.oob.zst", case.image), 0);
            let (shown, from_checkpoint) = show(options, chip);
            assert_eq!(from_checkpoint, case.from_checkpoint && reads_checkpoint, "{name}");
            let found = compare(&name, &shown, &stored, case.ignored);
            let lost = if reads_checkpoint { 0 } else { case.extended };
            assert_eq!(found, 2 * lost, "{name}");
        }
    }
}

#[test]
fn older_profiles_read_newer_images_by_scanning() {
    for profile in ["linux-2.6.29", "linux-2.6.35"] {
        let mut options = MountOptions::new(find_profile(profile).expect("in the table"));
        options.is_read_only = true;
        let chip = chip_of("linux61-clean.oob.zst", 0);
        let (shown, from_checkpoint) = show(options, chip);
        assert!(!from_checkpoint);
        let stored = stored_manifest("linux61-clean.manifest.tsv");
        assert_eq!(compare(profile, &shown, &stored, &[XATTR]), 2 * 2);
    }
}

/// The image of mkyaffs2image has its tags at the first spare byte, where chips keep the bad mark: a
/// flasher moves them to the free bytes, and adds the ECC. Headers have no extra info.
#[test]
fn an_image_of_mkyaffs2image_is_read() {
    let layout = mtd::find_layout("linux-large").expect("in the table");
    let mut image = data("mkimage.oob.zst");
    for page in image.chunks_exact_mut(2112) {
        let (bytes, spare) = page.split_at_mut(2048);
        let tags = spare[..TAGS_ECC_BYTES].to_vec();
        spare.fill(0xff);
        layout.scatter(&tags, 0, spare);
        layout.protect(bytes, spare);
    }
    let chip = Chip::load_image(&part(64), &mut &image[..], ImageLayout::WithOob).expect("fits");
    let mut options = MountOptions::new(find_profile("yaffs-direct").expect("in the table"));
    options.is_read_only = true;
    let (shown, _) = show(options, chip);
    // The library shows no kinds of special files: a question mark.
    let stored = stored_manifest("mkimage.manifest.tsv");
    let stored = stored.iter().zip(&shown).map(|(row, shown)| match row[0] {
        b'?' => [&shown[..1], &row[1..]].concat(),
        _ => row.clone(),
    });
    let stored: Vec<Vec<u8>> = stored.collect();
    // Root and lost+found are not in the image: their times are those of the mount.
    let wrong = compare("mkimage", &shown, &stored, &[UID, GID, DEVICE]);
    assert_eq!(wrong, 2, "the root as shown and as stored");
}

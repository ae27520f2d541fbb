//! Checks of YAFFS2: silent about what the real code leaves, whole or cut; loud about what it does not.

use crate::samples;

use file_systems::find_kind;
use fs_api::{Caller, FileSystem, NewInode, Time};
use image::{AnyImage, ExtractOptions, OpenOptions};
use mount::{Driver, MountRequest, Mounted, run};
use mtd::find_layout;
use nand::{Chip, CutPoint, FaultSettings, ImageLayout, Part, Storage, Torn, find_part};
use samples::{BLOCK_BYTES, sample};
use std::path::Path;
use vfs::{Manifest, OpenOptions as FileOptions, ReadLimits};

const CALLER: Caller = Caller { uid: 3, gid: 4, now: Time::from_seconds(1_600_000_000) };
const PAGE_BYTES: usize = 2112;
const STRIDE: usize = BLOCK_BYTES as usize / 2048 * PAGE_BYTES;

fn load(bytes: &[u8]) -> AnyImage {
    let options = OpenOptions {
        file_system: Some("yaffs2".into()),
        oob_layout: Some("linux-large".into()),
        ecc: None,
        block_bytes: Some(BLOCK_BYTES),
        ..OpenOptions::default()
    };
    AnyImage::from_bytes(Path::new("tried"), bytes.to_vec(), &options).expect("it loads")
}

fn findings(image: &AnyImage) -> Vec<String> {
    let report = image.check_within(1 << 20).expect("it mounts");
    report.findings.iter().map(|one| format!("{}: {}", one.place, one.what)).collect()
}

fn tree(image: &AnyImage) -> Manifest {
    let limits = ReadLimits { has_hashes: true, file_bytes_max: 1 << 20 };
    image.list_within(limits).expect("it mounts").manifest
}

fn small_part() -> Part {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.pages_per_block = BLOCK_BYTES / 2048;
    part.geometry.blocks = 64;
    part
}

async fn put(mounted: &Mounted, path: String, length: usize) {
    let options = FileOptions { create: Some(0o640), truncate: true, ..FileOptions::default() };
    let file = mounted.vfs.open(&CALLER, path.as_bytes(), options).await.expect("it opens");
    let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
    mounted.vfs.write(&CALLER, &file, 0, &bytes).await.expect("it fits");
    if length.is_multiple_of(2) {
        mounted.vfs.fsync(&CALLER, &file).await.expect("it syncs");
    }
    mounted.vfs.close(&CALLER, file).await.expect("it closes");
}

/// Overwrites, renames, links and deletions, with blocks collected, and mounts in between.
async fn work(mounted: &Mounted, rounds: usize) {
    let vfs = &mounted.vfs;
    for round in 0..rounds {
        for file in 0..5 {
            put(mounted, format!("f{file}"), 1500 * (file + 1) + 700 * round).await;
        }
        let name = |what: &str| format!("{what}{round}").into_bytes();
        vfs.make(&CALLER, &name("link"), NewInode::Symlink(b"f0")).await.expect("made");
        vfs.link(&CALLER, b"f1", &name("hard")).await.expect("linked");
        vfs.truncate(&CALLER, b"f2", 1000).await.expect("cut off");
        vfs.rename(&CALLER, b"f3", b"f0").await.expect("moved");
        vfs.unlink(&CALLER, b"f1").await.expect("removed");
        vfs.set_extended_attribute(&CALLER, b"f2", b"user.a", Some(b"v")).await.expect("set");
        if round % 2 == 1 {
            vfs.unlink(&CALLER, &name("link")).await.expect("removed");
            vfs.unlink(&CALLER, &name("hard")).await.expect("removed");
            vfs.sync().await.expect("synced");
        }
    }
}

/// A dump of a chip whose power failed at its `at`th operation; none if the work ended before.
fn cut_image(torn: Torn, point: CutPoint, at: u64) -> Option<Vec<u8>> {
    let mut chip = Chip::new(&small_part(), Storage::Bytes, &FaultSettings::default());
    chip.set_torn(torn);
    chip.cut_power_after(at, point);
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let outcome = run(chip, &driver, 1, move |machine| async move {
        let kind = find_kind("yaffs2").expect("in the table");
        for rounds in [3, 4, 5] {
            let request = MountRequest { has_background: false, ..MountRequest::default() };
            let mounted = machine.mount(kind, &request).await.expect("it mounts");
            work(&mounted, rounds).await;
            for round in 0..rounds {
                for what in ["link", "hard"] {
                    // Some are gone already.
                    let _ = mounted.vfs.unlink(&CALLER, format!("{what}{round}").as_bytes()).await;
                }
            }
            mounted.unmount().await.expect("it unmounts");
        }
    });
    if outcome.value.is_some() {
        return None;
    }
    let mut chip = outcome.chip;
    chip.power_on();
    let mut image = Vec::new();
    chip.save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    Some(image)
}

#[test]
fn a_power_cut_leaves_nothing_to_complain_of() {
    let mut cuts = 0;
    let mut wrong = Vec::new();
    for (torn, point, first) in [
        (Torn::Nothing, CutPoint::Inside, 3),
        (Torn::Prefix, CutPoint::Inside, 7),
        (Torn::DataOnly, CutPoint::Inside, 11),
        (Torn::Nothing, CutPoint::Before, 5),
        (Torn::Nothing, CutPoint::After, 13),
    ] {
        for at in (first..).step_by(29) {
            let Some(image) = cut_image(torn, point, at) else { break };
            cuts += 1;
            let told = findings(&load(&image));
            if !told.is_empty() {
                wrong.push(format!("{torn:?} {point:?} at {at}: {}", told.join("; ")));
            }
        }
    }
    assert!(cuts > 60, "{cuts}");
    assert!(wrong.is_empty(), "{} of {cuts}:\n{}", wrong.len(), wrong.join("\n"));
}

/// A checkpoint says which chunks there are, so nothing can go unseen. Without one, a block that is gone
/// may have been collected: only what refers to it tells, as files to their directory.
#[test]
fn every_block_that_is_erased_is_noticed_if_a_checkpoint_counts_on_it() {
    let whole = sample("yaffs2", true);
    let expected = tree(&load(&whole));
    assert_eq!(findings(&load(&whole)), Vec::<String>::new());
    let mut changed = 0;
    for block in 0..whole.len() / STRIDE {
        let mut image = whole.clone();
        image[block * STRIDE..(block + 1) * STRIDE].fill(0xff);
        let image = load(&image);
        if tree(&image).rows == expected.rows {
            continue;
        }
        changed += 1;
        let told = findings(&image);
        let place = format!("block {block} ");
        assert!(told.iter().any(|one| one.starts_with(&place)), "{place}: {told:?}");
    }
    assert!(changed >= 3, "{changed} blocks hold something");
}

/// A block that was open at a mount from a checkpoint has a summary without what was written before.
#[test]
fn a_summary_of_a_block_written_in_two_mounts_is_no_contradiction() {
    let chip = Chip::new(&small_part(), Storage::Bytes, &FaultSettings::default());
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let outcome = run(chip, &driver, 1, move |machine| async move {
        let kind = find_kind("yaffs2").expect("in the table");
        for mount in 0..3 {
            let request = MountRequest { has_background: false, ..MountRequest::default() };
            let mounted = machine.mount(kind, &request).await.expect("it mounts");
            put(&mounted, format!("a{mount}"), 3000).await;
            put(&mounted, format!("b{mount}"), 5001).await;
            mounted.unmount().await.expect("it unmounts");
        }
    });
    let mut image = Vec::new();
    outcome.chip.save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    assert_eq!(findings(&load(&image)), Vec::<String>::new());
}

#[test]
fn names_that_no_call_makes_are_told_and_not_extracted() {
    for name in [&b".."[..], b".", b"../x", b"a/b", b"/", b"/etc"] {
        let chip = Chip::new(&small_part(), Storage::Bytes, &FaultSettings::default());
        let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
        let outcome = run(chip, &driver, 1, move |machine| async move {
            let kind = find_kind("yaffs2").expect("in the table");
            let request = MountRequest { has_background: false, ..MountRequest::default() };
            let mounted = machine.mount(kind, &request).await.expect("it mounts");
            put(&mounted, "sound".into(), 100).await;
            let fs = &mounted.file_system;
            let root = fs.root();
            fs.make(&CALLER, root, name, NewInode::Regular(0o644)).await.expect("made");
            mounted.unmount().await.expect("it unmounts");
        });
        let mut image = Vec::new();
        outcome.chip.save_image(&mut image, ImageLayout::WithOob).expect("it saves");
        let image = load(&image);
        let told = findings(&image);
        let shown = name.escape_ascii().to_string();
        assert!(told.iter().any(|one| one.contains(&shown)), "{shown}: {told:?}");
        let outside = crate::support::scratch("names");
        let inside = outside.join("extracted");
        std::fs::create_dir_all(&outside).expect("made");
        let done = image
            .extract(&inside, ExtractOptions { has_devices: false, has_owners: false })
            .expect("it extracts");
        assert_eq!(done.left_out.len(), 1, "{shown}: {:?}", done.left_out);
        assert_eq!(std::fs::read_dir(&outside).expect("there").count(), 1, "{shown}");
        assert!(inside.join("sound").is_file(), "{shown}");
        std::fs::remove_dir_all(&outside).expect("removed");
    }
}

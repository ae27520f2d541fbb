//! Images of UBI and UBIFS that Linux and mtd-utils wrote: recognised, listed, checked.

use crate::support;

use file_systems::{UbifsMount, find_kind};
use image::{
    AnyImage, BareForm, ExtractOptions, MakeOptions, Nilfs2MakeOptions, OpenOptions, UbiForm,
    UbiMakeOptions, make,
};
use mount::{Driver, MountRequest};
use serde_json::json;
use std::path::{Path, PathBuf};
use support::{UBI_IMAGES, UBIFS_DUMPS, bytes, chip, scratch, ubi_data, ubifs_manifest};
use ubi::headers::{Decoded, EraseCounterHeader, HEADER_BYTES};

fn from_bytes(bytes: Vec<u8>) -> AnyImage {
    let options = OpenOptions::default();
    AnyImage::from_bytes("image".as_ref(), bytes, &options)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn load(name: &str) -> AnyImage {
    from_bytes(bytes(&ubi_data(), name))
}

/// The file system of an image of ubinize, as mkfs.ubifs wrote it.
fn bare(name: &str) -> Vec<u8> {
    let from = if name.ends_with("s2048") { 4096 } else { 2048 };
    let image = bytes(&ubi_data(), name);
    // Both copies of the volume table come first.
    let blocks = image.chunks_exact(131_072).skip(2);
    blocks.flat_map(|block| block[from..].to_vec()).collect()
}

#[test]
fn golden_images_list_byte_for_byte() {
    for name in UBIFS_DUMPS.into_iter().chain(UBI_IMAGES) {
        let image = load(name);
        let is_dump = name.starts_with("ubifs");
        assert_eq!(
            (chip(&image).kind.name, chip(&image).form.has_oob),
            ("ubifs", is_dump),
            "{name}"
        );
        assert_eq!(
            chip(&image).layout.name,
            if is_dump { "linux-large" } else { "no code" },
            "{name}"
        );
        let form: &UbiForm = chip(&image).details().expect("it is UBI");
        let offset = if name.ends_with("s2048") { 2048 } else { 512 };
        assert_eq!((form.block_bytes, form.header_offset), (131_072, offset), "{name}");
        let listing = image.list(true).expect("it mounts");
        assert_eq!(listing.damage, [], "{name}");
        assert!(listing.manifest.to_tsv() == ubifs_manifest(name), "{name} lists otherwise");
    }
}

#[test]
fn bare_file_systems_list_as_on_ubi() {
    for name in UBI_IMAGES {
        let image = from_bytes(bare(name));
        assert!(chip(&image).details::<BareForm>().is_some(), "{name}");
        let listing = image.list(true).expect("it mounts");
        assert!(listing.manifest.to_tsv() == ubifs_manifest(name), "{name} lists otherwise");
        let report = image.check().expect("it mounts");
        assert_eq!((report.findings, report.notes), (Vec::new(), Vec::new()), "{name}");
        let info = image.info().expect("it mounts");
        assert_eq!(info["ubifs"]["unmounted_cleanly"], true);
    }
}

#[test]
fn what_kernels_and_tools_leave_is_consistent() {
    for name in UBIFS_DUMPS.into_iter().chain(UBI_IMAGES) {
        let report = load(name).check().expect("it mounts");
        for note in &report.notes {
            eprintln!("{name}: {}: {}", note.place, note.what);
        }
        assert_eq!(report.findings, [], "{name}");
    }
}

/// A header without its ECC, as a cut leaves it, is torn whatever the number of its set bits: the ECC
/// "corrects" a bit of those where it is odd.
#[test]
fn headers_that_were_cut_before_their_ecc_are_no_findings() {
    const PAGE_WITH_SPARE: usize = 2112;
    let image = bytes(&ubi_data(), "ubifs-clean");
    let block_bytes = 64 * PAGE_WITH_SPARE;
    let is_free = |block: &[u8]| {
        block.starts_with(b"UBI#") && block[512..2048].iter().all(|byte| *byte == 0xff)
    };
    let free = image.chunks_exact(block_bytes).position(is_free).expect("a block is free");
    let mut parities = [0; 2];
    for erase_counter in 1..20 {
        let mut torn = image.clone();
        let page = &mut torn[free * block_bytes..][..PAGE_WITH_SPARE];
        let known = page[..HEADER_BYTES].try_into().expect("64 bytes");
        let Decoded::Sound(header) = EraseCounterHeader::decode(known) else {
            panic!("the header is sound");
        };
        let header = EraseCounterHeader { erase_counter, ..header }.encode();
        page[..HEADER_BYTES].copy_from_slice(&header);
        // The codes of `linux-large`.
        page[2048 + 40..].fill(0xff);
        let bits: u32 = header.iter().map(|byte| byte.count_ones()).sum();
        parities[bits as usize % 2] += 1;
        let report = from_bytes(torn).check().expect("it mounts");
        assert_eq!(report.findings, [], "erase counter {erase_counter}");
        assert_eq!(report.corrected_bits, 0, "erase counter {erase_counter}");
    }
    assert!(parities.iter().all(|count| *count > 3), "both parities are tried: {parities:?}");
}

#[test]
fn what_an_image_is_can_be_told() {
    for (name, clean, compressor) in [
        ("ubifs-clean", true, "lzo"),
        ("ubifs-gc", true, "lzo"),
        ("ubifs-unclean", false, "lzo"),
        ("ubi-zlib-s2048", true, "zlib"),
        ("ubi-none-s512", true, "none"),
        ("ubi-zstd-s512", true, "zstd"),
    ] {
        let image = load(name);
        let info = image.info().expect("it mounts");
        let volume = &info["volumes"][0];
        assert_eq!((&volume["id"], &volume["kind"]), (&0.into(), &"dynamic".into()), "{name}");
        assert_eq!(volume["name"], if name.starts_with("ubifs") { "gold" } else { "vol" });
        assert_eq!(volume["ubifs"]["unmounted_cleanly"], clean, "{name}");
        assert_eq!(volume["ubifs"]["compressor"], compressor, "{name}");
        assert_eq!(volume["ubifs"]["key_hash"], "r5", "{name}");
        let offset = if name.ends_with("s2048") { 2048 } else { 512 };
        assert_eq!(info["ubi"]["vid_header_offset"], offset, "{name}");
        let leb_bytes = if offset == 2048 { 126_976 } else { 129_024 };
        assert_eq!(info["ubi"]["leb_bytes"], leb_bytes, "{name}");
        assert_eq!(info["geometry"]["page_bytes"], 2048);
        if name.starts_with("ubifs") {
            assert_eq!(info["ubi"]["image_sequence"], 11, "{name}");
        }
    }
}

fn options(ubi: UbiMakeOptions) -> MakeOptions {
    MakeOptions {
        file_system: "ubifs".into(),
        device_table: None,
        squashes_owners: true,
        squashes_permissions: false,
        padding: None,
        size_limit_bytes: None,
        has_oob: false,
        part: "nandsim-64MiB".into(),
        blocks: None,
        page_bytes: None,
        profile: None,
        mount_options: Vec::new(),
        latest_time: Some(1_600_000_000),
        ubi,
        nilfs2: Nilfs2MakeOptions::default(),
    }
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut stream = random::Stream::new(bytes as u64, "noise");
    (0..bytes).map(|_| stream.next_u64() as u8).collect()
}

/// A directory with a file of noise and one of text.
fn tree(name: &str) -> PathBuf {
    let from = scratch(name);
    std::fs::create_dir_all(from.join("sub")).expect("made");
    std::fs::write(from.join("sub/noise"), noise(300_001)).expect("written");
    std::fs::write(from.join("text"), "flash block page ".repeat(9000)).expect("written");
    from
}

#[test]
fn what_is_made_has_the_sizes_that_were_asked_for() {
    let from = tree("sizes");
    let to = scratch("sizes.made");
    for (header_offset, is_bare, has_oob) in [
        (None, false, false),
        (Some(2048), false, false),
        (None, false, true),
        (Some(2048), false, true),
        (None, true, false),
        (Some(2048), true, false),
    ] {
        let ubi = UbiMakeOptions {
            is_bare,
            vid_header_offset: header_offset,
            max_leb_count: Some(300),
            journal_bytes: Some(1 << 20),
            reserved_bytes: Some(70_000),
            fixes_space: true,
            volume: (!is_bare).then(|| "data".into()),
            erase_counter: 7,
            ..UbiMakeOptions::default()
        };
        let made =
            make(Some(&from), &to, &MakeOptions { has_oob, ..options(ubi) }).expect("it is made");
        assert_eq!(made.names, 4);
        let image = AnyImage::open(&to, &OpenOptions::default()).expect("it opens");
        let of_chip = chip(&image);
        let is_found_bare = of_chip.details::<BareForm>().is_some();
        assert_eq!((is_found_bare, of_chip.form.has_oob), (is_bare, has_oob));
        assert_eq!(of_chip.form.layout.page_bytes, 2048, "{header_offset:?} {is_bare} {has_oob}");
        let report = image.check().expect("it mounts");
        assert_eq!(report.findings, [], "{header_offset:?} {is_bare} {has_oob}");
        let info = image.info().expect("it mounts");
        let ubifs = if is_bare { &info["ubifs"] } else { &info["volumes"][0]["ubifs"] };
        let leb_bytes = if header_offset.is_some() { 126_976 } else { 129_024 };
        let expected = json!({
            "unmounted_cleanly": true,
            "format": 4,
            "leb_bytes": leb_bytes,
            "max_lebs": 300,
            "compressor": "lzo",
            "reserved_bytes": 70_000,
            "space_fixup": true,
        });
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(ubifs[name], *value, "{name}: {info:#}");
        }
        if !is_bare && !has_oob {
            assert_eq!(info["ubi"]["erase_counter_max"], 7);
            assert_eq!(info["volumes"][0]["name"], "data");
        }
        let rows = image.list(true).expect("it mounts").manifest.rows;
        let paths: Vec<&str> = rows.iter().map(|row| &row.path[..]).collect();
        assert_eq!(paths, [".", "sub", "sub/noise", "text"]);
    }
    std::fs::remove_dir_all(from).expect("removed");
}

const CONFIG: &str = "
[kernel]
mode=ubi
image=KERNEL
vol_id=3
vol_type=static
vol_size=1MiB
vol_name=kernel
[rootfs]
mode=ubi
vol_id=1
vol_name=rootfs
vol_size=20MiB
vol_flags=autoresize
[spare]
mode=ubi
image=KERNEL
vol_id=9
vol_name=spare
";

/// An image with a static volume, a file system and other data; and the static volume's data.
fn configured(name: &str) -> (PathBuf, Vec<u8>) {
    let (from, kernel, config) =
        (tree(name), scratch(&format!("{name}.zImage")), scratch(&format!("{name}.cfg")));
    let data = noise(300_000);
    std::fs::write(&kernel, &data).expect("written");
    let text = CONFIG.replace("KERNEL", kernel.to_str().expect("a path"));
    std::fs::write(&config, text).expect("written");
    let to = scratch(&format!("{name}.made"));
    let ubi = UbiMakeOptions {
        config: Some(config),
        volume: Some("rootfs".into()),
        ..UbiMakeOptions::default()
    };
    make(Some(&from), &to, &options(ubi)).expect("it is made");
    (to, data)
}

fn open_volume(path: &Path, volume: Option<&str>) -> AnyImage {
    let options = OpenOptions { volume: volume.map(str::to_owned), ..OpenOptions::default() };
    AnyImage::open(path, &options).expect("it opens")
}

#[test]
fn volumes_are_named_and_static_ones_are_files() {
    let (path, kernel) = configured("volumes");
    // Without a name all volumes are listed: a file system below its volume's name, raw data as its file.
    let all = open_volume(&path, None).list(true).expect("it attaches");
    let paths: Vec<&str> = all.manifest.rows.iter().map(|row| &row.path[..]).collect();
    let in_rootfs = paths.iter().filter(|path| path.starts_with("rootfs")).count();
    assert_eq!((in_rootfs, paths.contains(&"kernel.bin")), (4, true), "{paths:?}");
    assert!(paths.contains(&"rootfs/sub/noise"), "{paths:?}");
    assert!(all.notes.iter().any(|note| note.contains("`spare` holds no")), "{:?}", all.notes);
    let error = open_volume(&path, Some("boot")).list(true).expect_err("refused").to_string();
    assert!(error.contains("no volume `boot`"), "{error}");
    let rows = open_volume(&path, Some("rootfs")).list(true).expect("it mounts").manifest.rows;
    assert_eq!(rows.len(), 4);
    let image = open_volume(&path, Some("kernel"));
    let listing = image.list(true).expect("it attaches");
    let row = &listing.manifest.rows[0];
    assert_eq!((&row.path[..], row.size_bytes, row.kind), ("kernel.bin", 300_000, 'f'));
    assert!(listing.notes[0].contains("CRCs are right"), "{:?}", listing.notes);
    let to = scratch("volumes.out");
    let options = ExtractOptions { has_devices: false, has_owners: false };
    let extracted = image.extract(&to, options).expect("it extracts");
    assert_eq!((extracted.names, extracted.left_out), (1, Vec::new()));
    assert!(std::fs::read(to.join("kernel.bin")).expect("there") == kernel);
    // All volumes are checked, and the raw one is left alone.
    let report = open_volume(&path, None).check().expect("it attaches");
    assert_eq!(report.findings, []);
    assert!(report.notes.iter().any(|note| note.place == "volume spare"), "{:?}", report.notes);
    let info = open_volume(&path, None).info().expect("it attaches");
    let holds: Vec<_> = (0..3).map(|at| info["volumes"][at]["holds"].as_str()).collect();
    assert_eq!(holds, [Some("ubifs"), Some("raw data"), Some("no ubifs")]);
}

#[test]
fn damage_of_volumes_is_named() {
    let (path, kernel) = configured("damaged");
    let sound = std::fs::read(&path).expect("there");
    let check = |bytes: &[u8]| from_bytes(bytes.to_vec()).check().expect("a report").findings;
    // A byte of the static volume; the first block with its data.
    let at = sound.windows(64).position(|part| *part == kernel[..64]).expect("there");
    let mut damaged = sound.clone();
    damaged[at + 1000] ^= 1;
    let found = check(&damaged);
    assert!(found.iter().any(|one| one.what.contains("CRC of the data is wrong")), "{found:?}");
    assert!(found.iter().any(|one| one.place == "volume kernel"), "{found:?}");
    // One copy of the volume table, then both.
    let record = sound.windows(6).position(|part| part == b"rootfs").expect("there");
    let mut damaged = sound.clone();
    damaged[record] ^= 1;
    let found = check(&damaged);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("copy 1") && found[0].what.contains("CRC"), "{found:?}");
    damaged[record + 131_072] ^= 1;
    let found = check(&damaged);
    assert!(found.iter().any(|one| one.what.contains("both copies")), "{found:?}");
    // Headers.
    for (offset, what) in [(10, "erase counter header"), (512 + 14, "volume identifier header")] {
        let mut damaged = sound.clone();
        damaged[5 * 131_072 + offset] ^= 1;
        let found = check(&damaged);
        assert!(found.iter().any(|one| one.what.contains(what)), "{found:?}");
        assert!(found[0].place.starts_with("block 5 page 0"), "{found:?}");
    }
    // Data of the file system.
    let noise = noise(300_001);
    let node =
        sound.windows(64).position(|part| *part == noise[..64]).expect("it is not compressed");
    let mut damaged = sound.clone();
    damaged[node] ^= 1;
    let found = check(&damaged);
    assert!(found.iter().any(|one| one.place.contains("sub/noise")), "{found:?}");
}

/// A torn erase left the spare areas. Where their ECC "corrects" a bit of an erased step, the block is no less cut.
#[test]
fn headers_whose_erase_left_the_spare_areas_are_no_findings() {
    let sound = bytes(&ubi_data(), UBIFS_DUMPS[0]);
    let (page_bytes, raw_bytes) = (2048, 2048 + 64);
    // Each check reads the whole image, so a few blocks do. In block 0 all steps of the headers are "corrected".
    for block in 0..6 {
        let mut torn = sound.clone();
        for page in torn[block * 64 * raw_bytes..][..64 * raw_bytes].chunks_exact_mut(raw_bytes) {
            page[..page_bytes].fill(0xff);
        }
        let found = from_bytes(torn).check().map_or(Vec::new(), |report| report.findings);
        let of_headers = found.iter().filter(|one| one.what.contains("header is wrong"));
        assert_eq!(of_headers.collect::<Vec<_>>(), Vec::<&image::Remark>::new(), "block {block}");
    }
}

/// A small file system on a large volume: it grows with the first writable mount, and takes writes.
#[test]
fn what_is_made_grows_and_takes_writes() {
    let from = tree("grows");
    let to = scratch("grows.made");
    let ubi = UbiMakeOptions { fixes_space: true, ..UbiMakeOptions::default() };
    make(Some(&from), &to, &MakeOptions { has_oob: true, ..options(ubi) }).expect("it is made");
    let image = AnyImage::open(&to, &OpenOptions::default()).expect("it opens");
    let before = image.info().expect("it mounts");
    let driver = Driver::of_tool(chip(&image).layout);
    let outcome = mount::run(chip(&image).chip.clone(), &driver, 0, |machine| async move {
        let request = MountRequest { has_background: false, ..MountRequest::default() };
        let kind = find_kind("ubifs").expect("in the table");
        let mounted = machine.mount(kind, &request).await.expect("it mounts");
        let (vfs, root) = (&mounted.vfs, machine.root());
        let create = vfs::OpenOptions { create: Some(0o644), ..vfs::OpenOptions::default() };
        for number in 0..150 {
            let path = format!("sub/{number}").into_bytes();
            let file = vfs.open(&root, &path, create).await.expect("it opens");
            vfs.write(&root, &file, 0, &noise(100_000)).await.expect("there is room");
            vfs.close(&root, file).await.expect("it closes");
        }
        vfs.sync().await.expect("it syncs");
        assert_eq!(mounted.file_system.check().await.expect("it reads"), []);
        let ubifs = mounted.file_system.get::<UbifsMount>().expect("UBIFS");
        let superblock = ubifs.file_system.info().superblock;
        assert!(!superblock.needs_space_fixup);
        mounted.unmount().await.expect("it unmounts");
        superblock.leb_count
    });
    let leb_count = u64::from(outcome.value.expect("it ends"));
    let first = before["volumes"][0]["ubifs"]["lebs"].as_u64().expect("a number");
    assert!(first < 100 && leb_count > 480, "{first} LEBs, then {leb_count}");
    let mut bytes = Vec::new();
    outcome.chip.save_image(&mut bytes, nand::ImageLayout::WithOob).expect("it saves");
    let image = from_bytes(bytes);
    assert_eq!(image.check().expect("it mounts").findings, []);
    assert_eq!(image.list(true).expect("it mounts").manifest.rows.len(), 154);
}

/// ubinize makes a volume without a size as small as its contents; the first attach makes it larger.
#[test]
fn a_volume_that_is_resized_need_not_have_room() {
    let bare = bare("ubi-zlib-s2048");
    let part = nand::find_part("nandsim-64MiB").expect("in the catalogue");
    let layout = ubi::Layout::of_geometry(&part.geometry, 512, Some(2048)).expect("a layout");
    let config = "[v]\nmode=ubi\nimage=x\nvol_id=0\nvol_name=vol\nvol_flags=autoresize\n";
    let section = ubi::parse_config(config).expect("it is right").remove(0);
    let volumes = [ubi::VolumeImage { section, data: bare }];
    let made = ubi::ubinize(&layout, ubi::ImageOptions::default(), &volumes).expect("made");
    let image = from_bytes(made);
    let listing = image.list(true).expect("it mounts");
    assert!(listing.manifest.to_tsv() == ubifs_manifest("ubi-zlib-s2048"));
    assert_eq!(image.check().expect("it mounts").findings, []);
}

#[test]
fn mistakes_are_told() {
    let from = tree("mistakes");
    let to = scratch("mistakes.made");
    let because = |ubi: UbiMakeOptions, change: fn(&mut MakeOptions), expected: &str| {
        let mut options = options(ubi);
        change(&mut options);
        let error = make(Some(&from), &to, &options).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!to.exists());
    };
    let none = UbiMakeOptions::default;
    because(UbiMakeOptions { leb_bytes: Some(4096), ..none() }, |_| (), "--leb-size");
    let bare = UbiMakeOptions { leb_bytes: Some(4096), is_bare: true, ..none() };
    because(bare, |_| (), "15 KiB");
    let bare = UbiMakeOptions { is_bare: true, ..none() };
    because(bare, |options| options.has_oob = true, "--oob");
    because(UbiMakeOptions { vid_header_offset: Some(100), ..none() }, |_| (), "--vid-hdr-offset");
    because(UbiMakeOptions { max_leb_count: Some(10), ..none() }, |_| (), "too few");
    because(none(), |options| options.blocks = Some(20), "too few");
    because(none(), |options| options.size_limit_bytes = Some(100), "100 are allowed");
    because(none(), |options| options.mount_options = vec!["y".into()], "compr=zlib");
    because(UbiMakeOptions { config: Some("nowhere.cfg".into()), ..none() }, |_| (), "nowhere.cfg");
    let tiny = UbiMakeOptions { max_leb_count: Some(20), ..none() };
    std::fs::write(from.join("large"), noise(3_000_000)).expect("written");
    because(tiny, |_| (), "does not fit");
}

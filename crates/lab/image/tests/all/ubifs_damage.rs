//! UBI and UBIFS: what a power cut leaves is no inconsistency, and no damage that changes what is listed goes
//! unnoticed.

use crate::support::scratch;

use file_systems::find_kind;
use fs_api::{Caller, NewInode, Time};
use image::{AnyImage, ExtractOptions, FILE_BYTES_MAX, OpenOptions};
use mount::{Driver, MountRequest, Mounted, run};
use mtd::{OobLayout, find_layout};
use nand::{Chip, CutPoint, FaultSettings, ImageLayout, Storage, Torn, find_part};
use random::Stream;
use ubi::headers::crc32;
use vfs::{Manifest, OpenOptions as FileOptions, ReadLimits};

const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_600_000_000) };
const PAGE_BYTES: usize = 2048;
const STRIDE: usize = PAGE_BYTES + 64;
/// UBIFS needs eraseblocks of 15 KiB or more.
const PAGES_PER_BLOCK: usize = 16;
/// Where UBI puts its second header and the data, with sub-pages of 512 bytes.
const VID_OFFSET: usize = 512;
const DATA_OFFSET: usize = 2048;

fn layout() -> &'static OobLayout {
    find_layout("linux-large").expect("in the table")
}

fn blank_chip() -> Chip {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.pages_per_block = PAGES_PER_BLOCK as u32;
    part.geometry.blocks = 40;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

fn dump(chip: &Chip) -> Vec<u8> {
    let mut image = Vec::new();
    chip.save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    image
}

/// Runs work over a file system on a chip, until it ends or the power is cut; whether it came to its end.
fn work<F: Future<Output = ()> + 'static>(
    chip: Chip,
    job: impl FnOnce(Mounted) -> F + 'static,
) -> (Chip, bool) {
    let outcome = run(chip, &Driver::of_tool(layout()), 1, move |machine| async move {
        let kind = find_kind("ubifs").expect("in the table");
        let request = MountRequest { has_background: false, ..MountRequest::default() };
        job(machine.mount(kind, &request).await.expect("it mounts")).await;
    });
    (outcome.chip, outcome.value.is_some())
}

async fn write(mounted: &Mounted, path: &str, bytes: &[u8], syncs: bool) {
    let options = FileOptions { create: Some(0o640), truncate: true, ..FileOptions::default() };
    let file = mounted.vfs.open(&CALLER, path.as_bytes(), options).await.expect("it opens");
    mounted.vfs.write(&CALLER, &file, 0, bytes).await.expect("it fits");
    if syncs {
        mounted.vfs.fsync(&CALLER, &file).await.expect("it syncs");
    }
    mounted.vfs.close(&CALLER, file).await.expect("it closes");
}

/// Some of everything, and a commit.
async fn fill(mounted: &Mounted, stream: &mut Stream) {
    let vfs = &mounted.vfs;
    vfs.make(&CALLER, b"d", NewInode::Directory(0o755)).await.expect("made");
    vfs.make(&CALLER, b"d/device", NewInode::Special(0o020_600, (5, 1))).await.expect("made");
    vfs.make(&CALLER, b"d/link", NewInode::Symlink(b"../text")).await.expect("made");
    vfs.make(&CALLER, b"ab", NewInode::Symlink(b"two letters")).await.expect("made");
    write(mounted, "seven77", b"seven letters", false).await;
    write(mounted, "text", "flash block page ".repeat(40).as_bytes(), true).await;
    vfs.link(&CALLER, b"text", b"d/text").await.expect("linked");
    for (name, value) in [(&b"user.a"[..], &b"value"[..]), (b"user.b", b"\0\x01")] {
        vfs.set_extended_attribute(&CALLER, b"text", name, Some(value)).await.expect("set");
    }
    for file in 0..4 {
        let noise: Vec<u8> = (0..1500 + 3000 * file).map(|_| stream.next_u64() as u8).collect();
        write(mounted, &format!("d/file{file}"), &noise, true).await;
    }
    vfs.sync().await.expect("synced");
}

/// What the next commit would take in, synced file by file.
async fn leave_in_the_journal(mounted: &Mounted, stream: &mut Stream) {
    let vfs = &mounted.vfs;
    vfs.unlink(&CALLER, b"d/link").await.expect("removed");
    vfs.unlink(&CALLER, b"d/device").await.expect("removed");
    vfs.unlink(&CALLER, b"d/file0").await.expect("removed");
    vfs.rename(&CALLER, b"d/file1", b"moved").await.expect("moved");
    vfs.truncate(&CALLER, b"d/file2", 1000).await.expect("cut off");
    vfs.set_extended_attribute(&CALLER, b"d/file3", b"user.c", Some(b"new")).await.expect("set");
    for file in 0..3 {
        let noise: Vec<u8> = (0..5000).map(|_| stream.next_u64() as u8).collect();
        write(mounted, &format!("late{file}"), &noise, true).await;
    }
}

/// A dump of a file system, unmounted or with a journal to replay.
fn sample(unmounts: bool) -> Vec<u8> {
    let (chip, is_done) = work(blank_chip(), move |mounted| async move {
        let mut stream = Stream::new(7, "contents");
        fill(&mounted, &mut stream).await;
        leave_in_the_journal(&mounted, &mut stream).await;
        if unmounts {
            mounted.unmount().await.expect("it unmounts");
        }
    });
    assert!(is_done);
    dump(&chip)
}

fn load(bytes: &[u8]) -> AnyImage {
    // A damaged image need not look like one any more.
    let options = OpenOptions {
        file_system: Some("ubifs".into()),
        oob_layout: Some("linux-large".into()),
        block_bytes: Some((PAGES_PER_BLOCK * PAGE_BYTES) as u32),
        ..OpenOptions::default()
    };
    AnyImage::from_bytes("image".as_ref(), bytes.to_vec(), &options)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// What is listed, and whether something is said to be wrong with it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    manifest: Option<Manifest>,
    is_damaged: bool,
    /// What `check` complains of; an error counts.
    complaints: Vec<String>,
}

fn see(image: &AnyImage) -> Seen {
    let limits = ReadLimits { has_hashes: true, file_bytes_max: FILE_BYTES_MAX };
    let listing = image.list_within(limits);
    let is_damaged = listing.as_ref().map_or(true, |listing| !listing.damage.is_empty());
    let complaints = match image.check() {
        Ok(report) => report.findings.into_iter().map(|one| format!("{one:?}")).collect(),
        Err(error) => vec![error.to_string()],
    };
    Seen { manifest: listing.ok().map(|listing| listing.manifest), is_damaged, complaints }
}

/// Work that commits often and collects: most of it is in the journal or in a commit at any moment.
async fn churn(mounted: Mounted) {
    let vfs = &mounted.vfs;
    let mut stream = Stream::new(9, "churn");
    fill(&mounted, &mut stream).await;
    leave_in_the_journal(&mounted, &mut stream).await;
    for round in 0..40_u32 {
        let noise: Vec<u8> = (0..12_000).map(|_| stream.next_u64() as u8).collect();
        write(&mounted, &format!("d/turn{}", round % 9), &noise, round % 3 == 0).await;
        let name = format!("s{round}");
        vfs.make(&CALLER, name.as_bytes(), NewInode::Symlink(b"somewhere")).await.expect("made");
        if round % 2 == 0 {
            vfs.set_extended_attribute(&CALLER, b"text", b"user.a", Some(&noise[..100]))
                .await
                .expect("set");
            vfs.unlink(&CALLER, name.as_bytes()).await.expect("removed");
        }
        if round % 4 == 1 {
            vfs.sync().await.expect("synced");
        }
    }
    mounted.unmount().await.expect("it unmounts");
}

/// Every image that a kernel recovers is consistent: of the first operations all are cut, of the others one
/// in `STEP`.
#[test]
fn what_a_cut_leaves_is_consistent() {
    const ALL: u64 = 60;
    const STEP: u64 = 11;
    for torn in [Torn::Nothing, Torn::Prefix, Torn::DataOnly] {
        let (mut cuts, mut operations, mut wrong) = (0, 0, Vec::new());
        // Before, the file system is being made.
        let made = work(blank_chip(), |mounted| async move {
            mounted.unmount().await.expect("it unmounts");
        });
        loop {
            let mut chip = made.0.clone();
            chip.set_torn(torn);
            chip.cut_power_after(operations, CutPoint::Inside);
            let (chip, is_done) = work(chip, churn);
            if is_done {
                break;
            }
            cuts += 1;
            let image = load(&dump(&chip));
            let seen = see(&image);
            if seen.is_damaged || !seen.complaints.is_empty() {
                wrong.push(format!("{torn:?}, operation {operations}: {:?}", seen.complaints));
            }
            operations += if cuts < ALL { 1 } else { STEP };
        }
        eprintln!("{torn:?}: {cuts} cuts in {operations} operations");
        assert!(cuts > 80, "{cuts} cuts");
        assert!(wrong.is_empty(), "{} of {cuts}:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Erases a block of a dump.
fn erase(bytes: &mut [u8], block: usize) {
    bytes[block * PAGES_PER_BLOCK * STRIDE..(block + 1) * PAGES_PER_BLOCK * STRIDE].fill(0xff);
}

#[test]
fn no_block_is_lost_in_silence() {
    // An eraseblock of a journal that is not replayed yet may be blank after a recovery that was cut: of
    // such images nothing can be said here.
    for unmounts in [true] {
        let sound = sample(unmounts);
        let before = see(&load(&sound));
        assert_eq!((before.is_damaged, &before.complaints), (false, &Vec::new()), "{unmounts}");
        let (mut changed, mut silent) = (0, Vec::new());
        for block in 0..sound.len() / (PAGES_PER_BLOCK * STRIDE) {
            let mut damaged = sound.clone();
            erase(&mut damaged, block);
            let after = see(&load(&damaged));
            // Under the newest copy of the volume table lies one from before the volume was made: that is what
            // a removal leaves which was cut short, and a kernel finishes it (`process_lvol`, vtbl.c).
            let notes = load(&damaged).check().map(|report| report.notes).unwrap_or_default();
            if notes.iter().any(|note| note.what.contains("its copies differ")) {
                continue;
            }
            if after.manifest != before.manifest || after.is_damaged {
                changed += 1;
                if after.complaints.is_empty() {
                    silent.push(block);
                }
            }
        }
        assert!(changed > 5, "{changed} blocks matter");
        assert_eq!(silent, Vec::<usize>::new(), "unmounted {unmounts}");
    }
}

/// Writes bytes of a block's data into a dump, with the code that belongs to them.
fn put(dump: &mut [u8], block: usize, offset: usize, bytes: &[u8]) {
    for (at, byte) in (offset..).zip(bytes) {
        let page = (block * PAGES_PER_BLOCK + at / PAGE_BYTES) * STRIDE;
        dump[page + at % PAGE_BYTES] = *byte;
    }
    let pages = offset / PAGE_BYTES..=(offset + bytes.len() - 1) / PAGE_BYTES;
    for page in pages {
        let start = (block * PAGES_PER_BLOCK + page) * STRIDE;
        let (data, spare) = dump[start..start + STRIDE].split_at_mut(PAGE_BYTES);
        spare[40..].fill(0xff);
        layout().protect(data, spare);
    }
}

/// Data of a block, without spare areas.
fn data_of(dump: &[u8], block: usize) -> Vec<u8> {
    let pages = dump[block * PAGES_PER_BLOCK * STRIDE..].chunks_exact(STRIDE).take(PAGES_PER_BLOCK);
    pages.flat_map(|page| &page[..PAGE_BYTES]).copied().collect()
}

/// A record on the medium under a checksum of its own.
#[derive(Clone, Debug)]
struct Place {
    block: usize,
    offset: usize,
    bytes: Vec<u8>,
}

/// Nodes of a kind.
fn nodes(dump: &[u8], kind: u8) -> Vec<Place> {
    let mut found = Vec::new();
    for block in 0..dump.len() / (PAGES_PER_BLOCK * STRIDE) {
        let data = data_of(dump, block);
        for offset in (DATA_OFFSET..data.len() - 24).step_by(8) {
            let rest = &data[offset..];
            if rest[..4] != [0x31, 0x18, 0x10, 0x06] || rest[20] != kind {
                continue;
            }
            let length = u32::from_le_bytes(rest[16..20].try_into().expect("four bytes")) as usize;
            found.push(Place { block, offset, bytes: rest[..length].to_vec() });
        }
    }
    found
}

fn sealed(mut node: Vec<u8>) -> Vec<u8> {
    let sum = crc32(&node[8..]);
    node[4..8].copy_from_slice(&sum.to_le_bytes());
    node
}

/// A kind of record, and where its fields begin.
struct Kind {
    name: &'static str,
    number: u8,
    fields: &'static [usize],
}

/// Fields of UBIFS's nodes by `fs/ubifs/ubifs-media.h`: the common header, then those of each kind. Flipped is
/// the lowest bit of the first byte of each field, in the first three nodes of a kind that are in use.
const KINDS: [Kind; 8] = [
    Kind {
        name: "inode",
        number: 0,
        fields: &[
            0, 4, 8, 16, 20, 21, 24, 28, 40, 48, 56, 64, 72, 80, 84, 88, 92, 96, 100, 104, 108,
            112, 116, 120, 128, 132,
        ],
    },
    Kind { name: "data", number: 1, fields: &[0, 4, 8, 16, 20, 21, 24, 28, 40, 44, 46, 48] },
    Kind { name: "entry", number: 2, fields: &[0, 4, 8, 16, 20, 21, 24, 28, 40, 49, 50, 52, 56] },
    Kind {
        name: "attribute",
        number: 3,
        fields: &[0, 4, 8, 16, 20, 21, 24, 28, 40, 49, 50, 52, 56],
    },
    Kind {
        name: "superblock",
        number: 6,
        fields: &[
            0, 4, 8, 16, 20, 21, 26, 27, 28, 32, 36, 40, 44, 48, 56, 60, 64, 68, 72, 76, 80, 84,
            88, 92, 96, 104, 108, 124,
        ],
    },
    Kind { name: "reference", number: 8, fields: &[0, 4, 8, 16, 20, 21, 24, 28, 32] },
    Kind { name: "index", number: 9, fields: &[0, 4, 8, 16, 20, 21, 24, 26, 28, 32, 36, 40, 44] },
    Kind { name: "commit start", number: 10, fields: &[0, 4, 8, 16, 20, 21, 24] },
];

/// Flips a bit and looks: whether the record was needed, what is said, and what is listed.
fn flipped(sound: &[u8], place: &Place, field: usize) -> Seen {
    let mut damaged = sound.to_vec();
    put(&mut damaged, place.block, place.offset + field, &[place.bytes[field] ^ 1]);
    see(&load(&damaged))
}

#[test]
fn a_wrong_bit_of_a_node_in_use_is_never_believed() {
    const NODES: usize = 3;
    let sound = sample(true);
    let before = see(&load(&sound));
    for Kind { name, number, fields } in KINDS {
        let mut in_use = 0;
        let mut silent = Vec::new();
        for place in nodes(&sound, number) {
            // What is out of use is never read: a whole node that is gone is evidence.
            let mut gone = sound.clone();
            put(&mut gone, place.block, place.offset, &vec![0; place.bytes.len()]);
            if see(&load(&gone)).complaints.is_empty() {
                continue;
            }
            in_use += 1;
            for field in fields.iter().filter(|field| **field < place.bytes.len()) {
                let after = flipped(&sound, &place, *field);
                if after.complaints.is_empty() {
                    silent.push((place.block, place.offset, *field));
                }
            }
            if in_use == NODES {
                break;
            }
        }
        assert!(in_use > 0, "{name}: none is in use");
        assert_eq!(silent, [], "{name}");
    }
    // Of the master node there are two: the other one is taken.
    for place in nodes(&sound, 7) {
        for field in [0, 4, 8, 16, 20, 24, 32, 40, 44, 48, 60, 72, 80, 112, 120, 128, 136, 152, 164]
        {
            let after = flipped(&sound, &place, field);
            let is_same = after.manifest == before.manifest && !after.is_damaged;
            assert!(is_same || !after.complaints.is_empty(), "master {place:?} {field}");
        }
    }
}

/// In a journal that is to be replayed a node that was torn off the end is no damage: the others are.
#[test]
fn a_wrong_bit_in_the_journal_is_not_believed() {
    let sound = sample(false);
    let before = see(&load(&sound));
    assert_eq!(before.complaints, Vec::<String>::new());
    let (mut refused, mut dropped) = (0, 0);
    for kind in [0, 1, 2, 3, 4, 5, 11] {
        for place in nodes(&sound, kind) {
            for field in [4, 16, 24, 26] {
                let after = flipped(&sound, &place, field);
                let is_same = after.manifest == before.manifest && !after.is_damaged;
                match (after.complaints.is_empty(), is_same) {
                    (false, _) => refused += 1,
                    (true, true) => {}
                    (true, false) => {
                        // Only a node behind which nothing was written can be gone like this: its header
                        // says where it ends (`no_more_nodes`, fs/ubifs/recovery.c).
                        let data = data_of(&sound, place.block);
                        let end = data.iter().rposition(|byte| *byte != 0xff).expect("written");
                        let last = place.offset + place.bytes.len() - 1;
                        assert_eq!(last / PAGE_BYTES, end / PAGE_BYTES, "{place:?}");
                        dropped += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 20, "{refused} refused, {dropped} dropped");
}

/// Headers of UBI: magic, version, fields, checksum.
#[test]
fn a_wrong_bit_of_a_header_is_never_believed() {
    let sound = sample(true);
    let before = see(&load(&sound));
    let mut headers = 0;
    for block in 0..sound.len() / (PAGES_PER_BLOCK * STRIDE) {
        let data = data_of(&sound, block);
        let is_mapped = data[VID_OFFSET..VID_OFFSET + 4] == *b"UBI!";
        let own = [0, 4, 8, 16, 20, 24, 60].map(|field| (0, field));
        let volume =
            [0, 4, 5, 6, 7, 8, 12, 20, 24, 28, 32, 40, 60].map(|field| (VID_OFFSET, field));
        let volume = volume.iter().filter(|_| is_mapped);
        for (offset, field) in own.iter().chain(volume) {
            headers += 1;
            let place =
                Place { block, offset: *offset, bytes: data[*offset..offset + 64].to_vec() };
            let after = flipped(&sound, &place, *field);
            assert!(!after.complaints.is_empty(), "block {block}: {offset} {field}");
            let is_same = after.manifest == before.manifest && !after.is_damaged;
            assert!(is_same || *offset == VID_OFFSET, "block {block}: {offset} {field}");
        }
    }
    assert!(headers > 300, "{headers} fields");
}

#[test]
fn a_superblock_that_lost_a_bit_is_missed() {
    let sound = sample(true);
    let places = nodes(&sound, 6);
    let [place] = &places[..] else { panic!("one superblock") };
    for bit in 0..32 {
        let mut damaged = sound.clone();
        let byte = place.bytes[bit / 8] ^ 1 << (bit % 8);
        put(&mut damaged, place.block, place.offset + bit / 8, &[byte]);
        let image = load(&damaged);
        let report = image.check().expect("a report");
        assert!(
            report.findings.iter().any(|one| one.what.contains("superblock")),
            "bit {bit}: {report:?}"
        );
        let error = image.list(true).expect_err("refused").to_string();
        assert!(error.contains("superblock"), "{error}");
    }
}

/// Gives an entry another name of the same length, or none, and a right checksum.
fn renamed(sound: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut damaged = sound.to_vec();
    for place in nodes(sound, 2) {
        let mut node = place.bytes.clone();
        if usize::from(node[50]) != old.len() || node[56..56 + old.len()] != *old {
            continue;
        }
        node[50] = new.len() as u8;
        node[56..56 + old.len()].fill(0);
        node[56..56 + new.len()].copy_from_slice(new);
        put(&mut damaged, place.block, place.offset, &sealed(node));
    }
    damaged
}

#[test]
fn names_that_no_file_can_have_are_refused() {
    let sound = sample(true);
    for (old, new) in [
        (&b"ab"[..], &b".."[..]),
        (b"ab", b"."),
        (b"ab", b""),
        (b"ab", b"a/"),
        (b"ab", b"a\0"),
        (b"seven77", b"../../x"),
        (b"seven77", b"/etc/pw"),
    ] {
        let image = load(&renamed(&sound, old, new));
        let seen = see(&image);
        let shown = new.escape_ascii();
        assert!(seen.is_damaged, "{shown}: it is listed without a word");
        assert!(!seen.complaints.is_empty(), "{shown}");
        let rows = seen.manifest.expect("it mounts").rows;
        assert!(rows.iter().all(|row| !row.path.contains("..")), "{shown}: {rows:?}");
        let to = scratch(&format!("names-{}", new.len()));
        let options = ExtractOptions { has_devices: false, has_owners: false };
        let extracted = image.extract(&to, options).expect("it extracts");
        assert!(!extracted.left_out.is_empty(), "{shown}");
        assert!(!to.join("../../x").exists() && !to.join("x").exists(), "{shown}");
        std::fs::remove_dir_all(&to).expect("removed");
    }
}

#[test]
fn a_name_under_the_hash_of_another_is_told() {
    let sound = sample(true);
    for (old, new) in [(&b"ab"[..], &b"qq"[..]), (b"seven77", b"8seven8")] {
        let report = load(&renamed(&sound, old, new)).check().expect("it mounts");
        assert!(
            report.findings.iter().any(|one| one.what.contains("its hash is not that of its key")),
            "{report:?}"
        );
    }
}

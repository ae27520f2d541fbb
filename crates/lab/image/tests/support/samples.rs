//! Small images with nodes and chunks of every kind, made by the engines.

use file_systems::find_kind;
use fs_api::{Caller, NewInode, Time};
use mount::{Driver, MountRequest, Mounted, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, ImageLayout, Storage, find_part};
use random::Stream;
use vfs::OpenOptions;

/// Blocks of eight pages make images that mount in no time.
pub(crate) const BLOCK_BYTES: u32 = 8 * 2048;
/// UBIFS needs eraseblocks of 15 KiB or more.
pub(crate) fn block_bytes(file_system: &str) -> u32 {
    if file_system == "ubifs" { 2 * BLOCK_BYTES } else { BLOCK_BYTES }
}

const CALLER: Caller = Caller { uid: 3, gid: 4, now: Time::from_seconds(1_600_000_000) };

async fn write(mounted: &Mounted, path: &str, bytes: &[u8]) {
    let options = OpenOptions { create: Some(0o640), truncate: true, ..OpenOptions::default() };
    let file = mounted.vfs.open(&CALLER, path.as_bytes(), options).await.expect("it opens");
    mounted.vfs.write(&CALLER, &file, 0, bytes).await.expect("it fits");
    mounted.vfs.fsync(&CALLER, &file).await.expect("it syncs");
    mounted.vfs.close(&CALLER, file).await.expect("it closes");
}

async fn fill(mounted: &Mounted) {
    let vfs = &mounted.vfs;
    let mut stream = Stream::new(7, "contents");
    vfs.make(&CALLER, b"d", NewInode::Directory(0o755)).await.expect("made");
    vfs.make(&CALLER, b"d/device", NewInode::Special(0o020_600, (5, 1))).await.expect("made");
    vfs.make(&CALLER, b"d/link", NewInode::Symlink(b"../text")).await.expect("made");
    write(mounted, "text", "flash block page ".repeat(40).as_bytes()).await;
    vfs.link(&CALLER, b"text", b"d/text").await.expect("linked");
    for (name, value) in [(&b"user.a"[..], &b"value"[..]), (b"user.b", b"\0\x01")] {
        vfs.set_extended_attribute(&CALLER, b"text", name, Some(value)).await.expect("set");
    }
    for round in 0..2 {
        for file in 0..4 {
            let noise: Vec<u8> = (0..1500 + 700 * file).map(|_| stream.next_u64() as u8).collect();
            write(mounted, &format!("d/file{file}"), &noise[round * 100..]).await;
        }
    }
    vfs.unlink(&CALLER, b"d/file0").await.expect("removed");
    vfs.rename(&CALLER, b"d/file1", b"moved").await.expect("moved");
    vfs.truncate(&CALLER, b"d/file2", 1000).await.expect("cut off");
    vfs.sync().await.expect("synced");
}

/// A dump with spare areas. YAFFS2 writes checkpoints on devices of 60 blocks or more.
pub(crate) fn sample(file_system: &'static str, unmounts: bool) -> Vec<u8> {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.pages_per_block = block_bytes(file_system) / 2048;
    part.geometry.blocks = match file_system {
        "yaffs2" => 64,
        "ubifs" => 32,
        _ => 12,
    };
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let outcome = run(chip, &driver, 1, move |machine| async move {
        let kind = find_kind(file_system).expect("in the table");
        let request = MountRequest { has_background: false, ..MountRequest::default() };
        let mounted = machine.mount(kind, &request).await.expect("it mounts");
        fill(&mounted).await;
        // What the writer itself complains of would be no fault of the damage.
        assert_eq!(mounted.file_system.findings().await, []);
        if unmounts {
            mounted.unmount().await.expect("it unmounts");
        }
    });
    let mut image = Vec::new();
    outcome.chip.save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    image
}

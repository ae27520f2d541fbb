//! Every file system, under every profile: what is written, unmounted and mounted again is there.

use file_systems::{KINDS, find_kind};
use fs_api::{Changes, NewInode};
use mount::{Driver, Machine, MountRequest, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use vfs::{Manifest, OpenOptions};

fn blank() -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 64;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

fn driver() -> Driver {
    Driver::of_tool(find_layout("linux-large").expect("in the table"))
}

async fn fill(machine: &Machine, kind: &'static mount::Kind, request: &MountRequest) -> Manifest {
    let mounted = machine.mount(kind, request).await.expect("a blank device mounts");
    let (vfs, root) = (&mounted.vfs, machine.root());
    vfs.make(&root, b"d", NewInode::Directory(0o755)).await.expect("made");
    let options = OpenOptions { create: Some(0o640), ..OpenOptions::default() };
    let file = vfs.open(&root, b"d/f", options).await.expect("opened");
    vfs.write(&root, &file, 5000, &vec![7; 20_000]).await.expect("written");
    vfs.close(&root, file).await.expect("closed");
    if kind.has_owners_and_links {
        vfs.make(&root, b"l", NewInode::Symlink(b"d/f")).await.expect("made");
        let changes = Changes { uid: Some(12), ..Changes::default() };
        vfs.change(&root, b"d/f", &changes).await.expect("changed");
    }
    vfs.sync().await.expect("synced");
    let manifest = Manifest::of(&*mounted.file_system).await.expect("it lists");
    mounted.unmount().await.expect("unmounted");
    manifest
}

#[test]
fn what_is_written_is_there_after_the_next_mount() {
    // A card would be gone with the machine.
    for kind in KINDS.iter().filter(|kind| kind.usual_block_device == mount::MTDBLOCK) {
        for profile in kind.profiles {
            let asked = || MountRequest { profile: Some((*profile).into()), ..Default::default() };
            let written = run(blank(), &driver(), 1, async move |machine| {
                fill(&machine, kind, &asked()).await
            });
            let read = run(written.chip, &driver(), 1, async move |machine| {
                let request =
                    MountRequest { profile: asked().profile, ..MountRequest::read_only() };
                let mounted = machine.mount(kind, &request).await.expect("it mounts");
                let found = Manifest::of(&*mounted.file_system).await.expect("it lists");
                (found, mounted.file_system.findings().await)
            });
            let (found, findings) = read.value.expect("no power cut");
            let names = |manifest: &Manifest| {
                manifest.rows.iter().map(|row| row.path.clone()).collect::<Vec<_>>()
            };
            let written = written.value.expect("no power cut");
            assert_eq!(names(&found), names(&written), "{} {profile}", kind.name);
            let file = |manifest: &Manifest| {
                manifest.rows.iter().find(|row| row.path == "d/f").cloned().expect("there")
            };
            assert_eq!(file(&found), file(&written), "{} {profile}", kind.name);
            assert_eq!(file(&found).uid == 12, kind.has_owners_and_links, "{}", kind.name);
            assert_eq!(findings, [], "{} {profile}", kind.name);
        }
    }
}

#[test]
fn an_option_that_no_kernel_knows_is_refused_by_name() {
    let outcome = run(blank(), &driver(), 1, async |machine| {
        let request = MountRequest { options: vec!["compr=zstd".into()], ..Default::default() };
        machine.mount(find_kind("jffs2").expect("in the table"), &request).await.err()
    });
    assert_eq!(
        outcome.value.flatten().expect("refused").to_string(),
        "mount option `compr=zstd`: not one of those that are known: ro, rw, compr=none, \
         compr=lzo, compr=zlib"
    );
}

#[test]
fn a_volume_that_is_not_there_is_refused_and_leaves_the_device_free() {
    let kind = find_kind("ubifs").expect("in the table");
    let outcome = run(blank(), &driver(), 1, async move |machine| {
        let mounted = machine.mount(kind, &MountRequest::default()).await.expect("it mounts");
        mounted.unmount().await.expect("unmounted");
        let ubi = mount::UbiRequest { volume: Some("gone".into()), ..Default::default() };
        let refused = machine.mount(kind, &MountRequest { ubi, ..Default::default() }).await.err();
        let programs = || machine.mtd.with_chip(|chip| chip.counters().programs());
        let before = programs();
        let again = machine.mount(kind, &MountRequest::read_only()).await.is_ok();
        (refused.map(|error| error.to_string()), again, programs() - before)
    });
    let (refused, again, programs) = outcome.value.expect("no power cut");
    let refused = refused.expect("refused");
    assert!(refused.ends_with("no volume `gone`; the device has: nandlab"), "{refused}");
    assert!(again);
    assert_eq!(programs, 0, "nothing of the first attach writes on");
}

/// Bytes of a file after its writer lost the power right after the write returned.
fn bytes_after_a_cut(options: &[&str]) -> u64 {
    let kind = find_kind("ubifs").expect("in the table");
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    let request = MountRequest { options, ..MountRequest::default() };
    let written = run(blank(), &driver(), 1, async move |machine| {
        let mounted = machine.mount(kind, &request).await.expect("a blank device mounts");
        let root = machine.root();
        let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = mounted.vfs.open(&root, b"f", open).await.expect("opened");
        mounted.vfs.write(&root, &file, 0, &[7; 9000]).await.expect("written");
    });
    let read = run(written.chip, &driver(), 1, async move |machine| {
        let mounted = machine.mount(kind, &MountRequest::default()).await.expect("it mounts");
        mounted.vfs.stat(b"f").await.map_or(0, |found| found.size_bytes)
    });
    read.value.expect("no power cut")
}

#[test]
fn a_synchronous_mount_keeps_what_a_write_returned_for() {
    assert_eq!(bytes_after_a_cut(&["sync"]), 9000);
    assert_eq!(bytes_after_a_cut(&[]), 0);
}

//! What calls write to the journal, byte for byte as kernels do, and what a mount makes of it after a cut.

use crate::support;

use fs_api::{Errno, FileSystem, NewInode};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::host::Host;
use support::nodes::{ATTRIBUTE, DATA, ENTRY, INODE, RawNode, TRUNCATION, journal_nodes};
use support::{manifest, quiet, read_only, run};
use ubifs::{MemoryVolume, MountOptions, Volume, VolumeShape, find_profile};

type Contents = Vec<Option<Vec<u8>>>;

const SHAPE: VolumeShape =
    VolumeShape { leb_bytes: 126_976, leb_count: 48, min_io_bytes: 2048, max_write_bytes: 2048 };

/// A new file system: what some work leaves of it when the power is cut behind the last call.
fn cut_after<F: Future<Output = ()> + 'static>(
    options: MountOptions,
    work: impl FnOnce(Rc<Host>, Rc<MemoryVolume>) -> F + 'static,
) -> Contents {
    let result = Rc::new(RefCell::new(Vec::new()));
    let out = result.clone();
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
        let fs = bench.mount(Volume::Memory(memory.clone()), options).await;
        work(Host::new(&bench, fs), memory.clone()).await;
        out.replace(memory.contents(|_| false));
    });
    assert!(is_done);
    result.take()
}

/// What a mount of these contents lists; it has nothing to complain of.
fn listed(contents: &Contents, options: MountOptions) -> Vec<String> {
    let result = Rc::new(RefCell::new(Vec::new()));
    let (out, contents) = (result.clone(), contents.clone());
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        let mounted = bench.try_mount(Volume::Memory(memory), options).await;
        let fs = mounted.unwrap_or_else(|error| panic!("{error}"));
        out.replace(manifest(&fs).await);
        assert_eq!(fs.check().await.expect("it reads"), []);
        assert_eq!(fs.findings(), []);
    });
    assert!(is_done);
    result.take()
}

/// Inodes of every kind, with what their nodes hold.
async fn make_one_of_each(host: &Host) {
    let make = async |path: &str, new: NewInode<'_>| host.make(path, new).await.expect("made");
    make("link", NewInode::Symlink(b"some target")).await;
    make("character", NewInode::Special(0o020_644, (300, 70_000))).await;
    make("block", NewInode::Special(0o060_644, (8, 1))).await;
    make("pipe", NewInode::Special(0o010_644, (0, 0))).await;
    make("socket", NewInode::Special(0o140_644, (0, 0))).await;
    make("directory", NewInode::Directory(0o755)).await;
    host.write("file", 0, &[7; 5000]).await.expect("written");
    for name in [&b"user.one"[..], b"user.two"] {
        host.set_attribute("file", name, Some(b"a value")).await.expect("set");
    }
}

const EACH: [&str; 7] = ["link", "character", "block", "pipe", "socket", "directory", "file"];

/// Makes one of each, commits, deletes them, and syncs a file so that the journal is on the medium.
fn deleted(options: MountOptions, renames_over: bool) -> Contents {
    cut_after(options, move |host, _| async move {
        make_one_of_each(&host).await;
        host.sync().await.expect("synced");
        for name in EACH {
            if renames_over && name != "directory" {
                let over = format!("over-{name}");
                host.make(&over, NewInode::Regular(0o644)).await.expect("made");
                host.rename(&over, name).await.expect("renamed");
            } else {
                host.unlink(name).await.expect("unlinked");
            }
        }
        host.open("later").await.expect("made");
        host.fsync("later").await.expect("synced");
    })
}

/// `pack_inode` keeps the length of the data of an inode that goes, and leaves the data out: such a node
/// is no damage.
#[test]
fn inodes_of_every_kind_are_deleted_as_kernels_do() {
    for name in ["linux-2.6.35", "linux-6.12"] {
        for renames_over in [false, true] {
            let profile = find_profile(name).expect("in the table");
            let options = MountOptions { profile, ..quiet() };
            let contents = deleted(options, renames_over);
            let nodes = journal_nodes(&contents);
            let gone: Vec<&RawNode> = nodes
                .iter()
                .filter(|node| node.kind() == INODE && node.links_and_data().0 == 0)
                .collect();
            assert!(gone.iter().all(|node| node.bytes.len() == 160), "no data is written");
            let mut lengths: Vec<u32> = gone.iter().map(|node| node.links_and_data().1).collect();
            lengths.sort_unstable();
            // Of the file there are two: its name went, then it and both attributes.
            let wanted = match name {
                "linux-6.12" => vec![0, 0, 0, 0, 0, 4, 4, 7, 7, 11],
                _ => vec![0, 0, 0, 0, 4, 4, 11],
            };
            assert_eq!(lengths, wanted, "{name} {renames_over}");
            for options in [read_only(), quiet()] {
                let rows = listed(&contents, options);
                let left = if renames_over { 8 } else { 2 };
                assert_eq!(rows.len(), left, "{name} {renames_over}: {rows:?}");
            }
        }
    }
}

/// Attributes of an inode go in one group with it, the inode last.
#[test]
fn attributes_of_a_file_go_with_it_in_one_group() {
    let contents = deleted(quiet(), false);
    let nodes = journal_nodes(&contents);
    let last = nodes.iter().rposition(|node| {
        node.kind() == INODE && node.links_and_data() == (0, 0) && node.word(116) == 2
    });
    let last = last.expect("the file with two attributes");
    assert_eq!(nodes[last].word(48), 0, "`ubifs_evict_inode` has cut the file");
    let group: Vec<_> = nodes[last - 2..=last]
        .iter()
        .map(|node| (node.kind(), node.group(), node.links_and_data()))
        .collect();
    assert_eq!(group, [(INODE, 1, (0, 7)), (INODE, 1, (0, 7)), (INODE, 2, (0, 0))]);
}

/// An attribute of a directory inherits what a file in it would (`inherit_flags`), one of a file nothing.
#[test]
fn attributes_of_directories_inherit_flags() {
    const COMPRESSED: u32 = 1;
    const IS_ATTRIBUTE: u32 = 0x20;
    let contents = cut_after(quiet(), |host, _| async move {
        make_one_of_each(&host).await;
        host.set_attribute("directory", b"user.three", Some(b"value")).await.expect("set");
    });
    let nodes = journal_nodes(&contents);
    let inodes = nodes.iter().filter(|node| node.kind() == INODE);
    let flags: Vec<u32> =
        inodes.map(|node| node.word(108)).filter(|flags| flags & IS_ATTRIBUTE != 0).collect();
    assert_eq!(flags, [IS_ATTRIBUTE, IS_ATTRIBUTE, IS_ATTRIBUTE | COMPRESSED]);
}

/// Nodes of the base head end a group each time; data nodes belong to none.
#[test]
fn groups_are_marked_as_kernels_do() {
    let contents = cut_after(quiet(), |host, _| async move {
        make_one_of_each(&host).await;
        host.write("file", 0, &[8; 9000]).await.expect("written");
        host.fsync("file").await.expect("synced");
        host.truncate("file", 4999).await.expect("cut");
        host.truncate("file", 4096).await.expect("cut");
        host.set_attribute("file", b"user.one", Some(b"other")).await.expect("set");
        host.set_attribute("file", b"user.two", None).await.expect("removed");
        host.rename("file", "moved").await.expect("renamed");
        host.open("later").await.expect("made");
        host.fsync("later").await.expect("synced");
    });
    // The first node of the root was made with the file system and stands alone (`ubifs_write_node`).
    let is_first = |node: &RawNode| (node.kind(), node.inode(), node.group()) == (INODE, 1, 0);
    let nodes: Vec<RawNode> =
        journal_nodes(&contents).into_iter().filter(|node| !is_first(node)).collect();
    let (data, others): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| node.group() == 0);
    // The shortened block of a cut belongs to the group of the cut.
    assert!(data.iter().all(|node| node.kind() == DATA && node.bytes.len() > 48));
    let mut kinds: Vec<Vec<u8>> = vec![Vec::new()];
    for node in others {
        kinds.last_mut().expect("one").push(node.kind());
        match node.group() {
            1 => {}
            2 => kinds.push(Vec::new()),
            other => panic!("group {other}"),
        }
    }
    assert_eq!(kinds.pop(), Some(Vec::new()), "the last group has an end");
    let name = vec![ENTRY, INODE, INODE];
    let new_attribute = vec![ATTRIBUTE, INODE, INODE];
    for wanted in [
        &name,
        &new_attribute,
        &vec![INODE],
        &vec![INODE, TRUNCATION, DATA],
        &vec![INODE, TRUNCATION],
        &vec![INODE, INODE],
        &vec![ENTRY, ENTRY, INODE],
    ] {
        assert!(kinds.contains(wanted), "{wanted:?} is not in {kinds:?}");
    }
    let known = kinds.iter().all(|group| group.len() <= 3);
    assert!(known, "{kinds:?}");
}

/// Writes to the volume, and bytes of nodes, that some calls cost.
fn cost(calls: impl AsyncFn(&Host) + 'static, options: MountOptions) -> u64 {
    let cost = Rc::new(Cell::new(0));
    let out = cost.clone();
    cut_after(options, move |host, memory| async move {
        host.open("file").await.expect("made");
        host.open("other").await.expect("made");
        for number in 0..20 {
            let name = format!("user.old{number}").into_bytes();
            host.set_attribute("file", &name, Some(b"value")).await.expect("set");
        }
        host.fsync("file").await.expect("synced");
        let before = memory.counters().writes;
        calls(&host).await;
        out.set(memory.counters().writes - before);
    });
    cost.get()
}

/// Sets twenty attributes of the file, or removes them, call by call.
async fn set_all(host: &Host, prefix: &str, value: Option<&[u8]>) {
    for number in 0..20 {
        let name = format!("user.{prefix}{number}").into_bytes();
        host.set_attribute("file", &name, value).await.expect("set");
    }
}

/// The inode of a new attribute is synchronous (`create_xattr`); a change and a removal are not.
#[test]
fn a_new_attribute_is_written_at_once_and_a_change_is_not() {
    let synchronous = || MountOptions { is_synchronous: true, ..quiet() };
    let new = cost(async |host: &Host| set_all(host, "new", Some(b"value")).await, quiet());
    assert_eq!(new, 20, "a program each");
    // Two inodes of 160 bytes and the value: 20 x 328 bytes are three units and a rest.
    let changed = cost(async |host: &Host| set_all(host, "old", Some(b"other")).await, quiet());
    assert_eq!(changed, 3);
    let changed =
        cost(async |host: &Host| set_all(host, "old", Some(b"other")).await, synchronous());
    assert_eq!(changed, 3, "the kernel does not write the buffer here");
    // An entry of 67 or 68 bytes and two inodes of 160: 20 x 392 bytes.
    let removed = cost(async |host: &Host| set_all(host, "old", None).await, quiet());
    assert_eq!(removed, 3);
    let removed = cost(async |host: &Host| set_all(host, "old", None).await, synchronous());
    assert_eq!(removed, 20);
}

/// What was done to names before an attribute was made is on the medium with it.
#[test]
fn a_new_attribute_takes_all_names_with_it() {
    let contents = cut_after(quiet(), |host, _| async move {
        host.make("directory", NewInode::Directory(0o755)).await.expect("made");
        host.open("directory/one").await.expect("made");
        host.open("two").await.expect("made");
        host.set_attribute("two", b"user.name", Some(b"value")).await.expect("set");
        host.open("three").await.expect("made");
    });
    let rows = listed(&contents, quiet());
    let paths: Vec<&str> = rows.iter().filter_map(|row| row.rsplit('\t').next()).collect();
    assert_eq!(paths, [".", "directory", "directory/one", "two"]);
    assert!(rows[3].contains("user.name=76616c7565"), "{}", rows[3]);
}

/// Linux 6.1 says EINVAL of a prefix alone and EOPNOTSUPP of one that it does not know
/// (`xattr_resolve_name` in `fs/xattr.c`).
#[test]
fn a_prefix_alone_is_no_name_of_an_attribute() {
    cut_after(quiet(), |host, _| async move {
        host.open("file").await.expect("made");
        for (name, error) in [
            (&b"user."[..], Errno::Einval),
            (b"trusted.", Errno::Einval),
            (b"security.", Errno::Einval),
            (b"system.", Errno::Eopnotsupp),
            (b"bogus.a", Errno::Eopnotsupp),
        ] {
            let refused = host.set_attribute("file", name, Some(b"value")).await;
            assert_eq!(refused, Err(error), "{}", String::from_utf8_lossy(name));
        }
    });
}

/// `stat` shows the length of a device's number, as of any other data (`ubifs_mknod`, `ubifs_getattr`).
#[test]
fn a_device_has_the_size_of_its_number() {
    let contents = cut_after(quiet(), |host, _| async move {
        make_one_of_each(&host).await;
        for (path, size) in [("character", 4), ("block", 4), ("pipe", 0), ("link", 11)] {
            assert_eq!(host.attributes(path).await.expect("shown").size_bytes, size, "{path}");
        }
        host.sync().await.expect("synced");
    });
    for (path, size) in [("character", "4"), ("block", "4"), ("pipe", "0"), ("link", "11")] {
        let rows = listed(&contents, read_only());
        let row = rows.iter().find(|row| row.ends_with(&format!("\t{path}"))).expect("listed");
        assert_eq!(row.split('\t').nth(5), Some(size), "{row}");
    }
}

/// A dirty page with the new end of a file is written as short as it will be, and no inode before it
/// (`do_truncation`): the block is not written twice.
#[test]
fn a_cut_within_a_dirty_page_writes_it_once() {
    let contents = cut_after(quiet(), |host, _| async move {
        host.write("file", 0, &[7; 8000]).await.expect("written");
        host.truncate("file", 5000).await.expect("cut");
        host.fsync("file").await.expect("synced");
    });
    let nodes = journal_nodes(&contents);
    let blocks: Vec<(u8, u32)> = nodes
        .iter()
        .filter(|node| node.kind() == DATA)
        .map(|node| (node.group(), node.word(40)))
        .collect();
    assert_eq!(
        blocks,
        [(0, 904), (0, 4096)],
        "group and bytes: the cut one, then that of the fsync"
    );
    let cut = nodes.iter().position(|node| node.kind() == TRUNCATION).expect("a cut");
    assert_eq!((nodes[cut].group(), nodes[cut - 1].kind()), (2, INODE));
    let rows = listed(&contents, quiet());
    assert!(rows[1].starts_with("f\t0644\t1\t0\t0\t5000\t"), "{}", rows[1]);
}

/// A rename under `-o sync` writes the inode that moved, too (`do_rename`).
#[test]
fn a_synchronous_rename_writes_what_moved() {
    let options = MountOptions { is_synchronous: true, ..quiet() };
    let contents = cut_after(options, |host, _| async move {
        host.open("old").await.expect("made");
        host.now.set(1_800_000_000);
        host.rename("old", "new").await.expect("renamed");
        assert_eq!(host.fs.dirty_inodes(), [], "nothing waits for write-back");
    });
    let nodes = journal_nodes(&contents);
    let last = nodes.last().expect("written");
    let seconds = u64::from(last.word(64)) | u64::from(last.word(68)) << 32;
    assert_eq!((last.kind(), last.group(), seconds), (INODE, 2, 1_800_000_000));
}

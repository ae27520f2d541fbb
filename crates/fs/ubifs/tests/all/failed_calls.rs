//! Calls that fail in the middle: what is in memory must still agree with the medium.

use crate::support;

use fs_api::{Caller, Errno, FileSystem, InodeNumber, NewInode, Time};
use std::rc::Rc;
use support::{quiet, run};
use ubifs::{MemoryVolume, MountOptions, Ubifs, Volume, VolumeShape};

const SHAPE: VolumeShape =
    VolumeShape { leb_bytes: 126_976, leb_count: 40, min_io_bytes: 2048, max_write_bytes: 2048 };
const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };

/// A tree: `from/file`, `from/empty/` and `to/file`.
struct Tree {
    from: InodeNumber,
    to: InodeNumber,
    file: InodeNumber,
    empty: InodeNumber,
    replaced: InodeNumber,
}

impl Tree {
    async fn make(fs: &Ubifs) -> Self {
        let directory = async |name: &[u8], parent| {
            fs.make(&CALLER, parent, name, NewInode::Directory(0o755)).await.expect("made")
        };
        let file = async |parent| {
            fs.make(&CALLER, parent, b"file", NewInode::Regular(0o644)).await.expect("made")
        };
        let (from, to) = (directory(b"from", fs.root()).await, directory(b"to", fs.root()).await);
        let (empty, replaced) = (directory(b"empty", from).await, file(to).await);
        Self { from, to, file: file(from).await, empty, replaced }
    }

    /// Links and sizes of all inodes.
    async fn shown(&self, fs: &Ubifs) -> Vec<(u32, u64)> {
        let mut shown = Vec::new();
        for inode in [self.from, self.to, self.file, self.empty, self.replaced] {
            let found = fs.attributes(inode).await.expect("it is in memory");
            shown.push((found.links, found.size_bytes));
        }
        shown
    }

    async fn call(&self, fs: &Ubifs, name: &str) -> Result<(), Errno> {
        let Self { from, to, file, .. } = *self;
        match name {
            "make" => fs.make(&CALLER, to, b"new", NewInode::Directory(0o755)).await.map(drop),
            "link" => fs.link(&CALLER, file, to, b"link").await,
            "unlink" => fs.unlink(&CALLER, to, b"file").await,
            "rmdir" => fs.unlink(&CALLER, from, b"empty").await,
            "rename" => fs.rename(&CALLER, (from, b"file"), (to, b"a longer name")).await,
            "rename a directory" => fs.rename(&CALLER, (from, b"empty"), (to, b"moved")).await,
            "replace" => fs.rename(&CALLER, (from, b"file"), (to, b"file")).await,
            _ => fs.rename(&CALLER, (from, b"file"), (from, b"a longer name")).await,
        }
    }
}

const CALLS: [&str; 8] = [
    "make",
    "link",
    "unlink",
    "rmdir",
    "rename",
    "rename a directory",
    "replace",
    "rename in place",
];

/// `ubifs_link`, `ubifs_unlink`, `ubifs_mkdir` and `do_rename` of `fs/ubifs/dir.c` take links and sizes back
/// at `out_cancel`.
#[test]
fn links_and_sizes_stay_where_a_call_fails() {
    for call in CALLS {
        let is_done = run(async move |bench| {
            let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
            // Each call writes its group before it returns, so that it meets the error.
            let options = MountOptions { is_synchronous: true, ..quiet() };
            let fs = bench.mount(Volume::Memory(memory.clone()), options).await;
            let tree = Tree::make(&fs).await;
            let before = tree.shown(&fs).await;
            memory.become_read_only();
            assert_eq!(tree.call(&fs, call).await, Err(Errno::Erofs), "{call}");
            assert_eq!(tree.shown(&fs).await, before, "{call}");
        });
        assert!(is_done);
    }
}

/// The same calls, where nothing fails, change something: the test above compares what they change.
#[test]
fn links_and_sizes_change_where_a_call_succeeds() {
    for call in CALLS {
        let is_done = run(async move |bench| {
            let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
            let fs = bench.mount(Volume::Memory(memory), quiet()).await;
            let tree = Tree::make(&fs).await;
            let before = tree.shown(&fs).await;
            assert_eq!(tree.call(&fs, call).await, Ok(()), "{call}");
            assert_ne!(tree.shown(&fs).await, before, "{call}");
            assert_eq!(fs.check_states().await, [], "{call}");
            assert_eq!(fs.check().await, Ok(Vec::new()), "{call}");
        });
        assert!(is_done);
    }
}

//! How calls answer paths that end oddly, and follow symbolic links: every answer is that of Linux
//! (`fs/namei.c`), as a kernel gave it on a tmpfs.

use fs_api::{Caller, Changes, Errno, NewInode, Time};
use sim::Simulation;
use std::rc::Rc;
use vfs::{MemoryFileSystem, OpenOptions, Vfs};

const ROOT: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };

type Calls = Vfs<MemoryFileSystem>;

/// Runs a job over a tree: `d/e/`, files `f` and `d/g`, links `way` to `d`, `to-file` to `d/g`, `ring` to
/// itself and `dangling` to `made`, and a FIFO.
fn run<F: Future<Output = ()> + 'static>(job: impl FnOnce(Rc<Calls>) -> F + 'static) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let vfs = Rc::new(Vfs::new(&sim, Rc::new(MemoryFileSystem::new(&ROOT))));
    let task = sim.spawn(async move {
        for (path, new) in [
            (b"d".as_slice(), NewInode::Directory(0o755)),
            (b"d/e/", NewInode::Directory(0o755)),
            (b"f", NewInode::Regular(0o644)),
            (b"d/g", NewInode::Regular(0o644)),
            (b"way", NewInode::Symlink(b"d")),
            (b"to-file", NewInode::Symlink(b"d/g")),
            (b"ring", NewInode::Symlink(b"./ring")),
            (b"dangling", NewInode::Symlink(b"made")),
            (b"fifo", NewInode::Special(0o10_600, (0, 0))),
        ] {
            vfs.make(&ROOT, path, new).await.expect("it is new");
        }
        job(vfs).await;
    });
    simulation.run();
    assert!(task.is_finished());
}

async fn create(vfs: &Calls, path: &[u8]) -> Result<(), Errno> {
    let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
    let file = vfs.open(&ROOT, path, options).await?;
    vfs.close(&ROOT, file).await
}

#[test]
fn links_are_followed_by_calls_on_what_they_lead_to() {
    run(async |vfs| {
        let file = vfs.open(&ROOT, b"to-file", OpenOptions::default()).await.expect("a file");
        vfs.write(&ROOT, &file, 0, b"through").await.expect("written");
        vfs.close(&ROOT, file).await.expect("closed");
        assert_eq!(vfs.stat(b"d/g").await.expect("there").size_bytes, 7);
        vfs.truncate(&ROOT, b"way/../to-file", 3).await.expect("shorter");
        assert_eq!(vfs.stat(b"d/g").await.expect("there").size_bytes, 3);
        let changes = Changes { permissions: Some(0o600), ..Changes::default() };
        vfs.change(&ROOT, b"to-file", &changes).await.expect("changed");
        assert_eq!(vfs.stat(b"d/g").await.expect("there").permissions, 0o600);
        create(&vfs, b"dangling").await.expect("made where the link leads");
        vfs.stat(b"made").await.expect("there");
        let owner = Changes { uid: Some(7), ..Changes::default() };
        vfs.change_itself(&ROOT, b"to-file", &owner).await.expect("changed");
        assert_eq!(vfs.stat(b"d/g").await.expect("there").uid, 0);
        assert_eq!(vfs.stat(b"to-file").await.expect("there").uid, 7);
    });
}

#[test]
fn forty_links_are_followed_and_one_more_is_not() {
    run(async |vfs| {
        vfs.make(&ROOT, b"0", NewInode::Symlink(b"f")).await.expect("new");
        for number in 1..41_u32 {
            let (path, target) = (format!("{number}"), format!("{}", number - 1));
            let new = NewInode::Symlink(target.as_bytes());
            vfs.make(&ROOT, path.as_bytes(), new).await.expect("new");
        }
        create(&vfs, b"39").await.expect("forty links");
        assert_eq!(create(&vfs, b"40").await, Err(Errno::Eloop));
        assert_eq!(create(&vfs, b"ring").await, Err(Errno::Eloop));
        assert_eq!(vfs.resolve(b"ring/x").await, Err(Errno::Eloop));
    });
}

#[test]
fn dots_and_slashes_at_the_end_have_answers_of_their_own() {
    run(async |vfs| {
        let removed = |path: &'static [u8]| vfs.remove_directory(&ROOT, path);
        assert_eq!(removed(b"d/.").await, Err(Errno::Einval));
        assert_eq!(removed(b"d/..").await, Err(Errno::Enotempty));
        assert_eq!(removed(b"/").await, Err(Errno::Ebusy));
        assert_eq!(removed(b"way/").await, Err(Errno::Enotdir));
        assert_eq!(removed(b"f").await, Err(Errno::Enotdir));
        assert_eq!(vfs.unlink(&ROOT, b"d/.").await, Err(Errno::Eisdir));
        assert_eq!(vfs.unlink(&ROOT, b"f/").await, Err(Errno::Enotdir));
        assert_eq!(vfs.unlink(&ROOT, b"absent/").await, Err(Errno::Enoent));
        assert_eq!(create(&vfs, b"absent/").await, Err(Errno::Eisdir));
        assert_eq!(create(&vfs, b"fifo").await, Err(Errno::Enxio));
        let link = NewInode::Symlink(b"x");
        assert_eq!(vfs.make(&ROOT, b"absent/", link).await, Err(Errno::Enoent));
        assert_eq!(vfs.make(&ROOT, b"d/..", link).await, Err(Errno::Eexist));
        assert_eq!(vfs.make(&ROOT, b"absent", NewInode::Symlink(b"")).await, Err(Errno::Enoent));
        assert_eq!(vfs.link(&ROOT, b"d", b"f").await, Err(Errno::Eexist));
        assert_eq!(vfs.link(&ROOT, b"d", b"absent").await, Err(Errno::Eperm));
        removed(b"d/e/").await.expect("a directory may have its slash");
    });
}

#[test]
fn renames_ask_for_slashes_then_ancestors_then_kinds() {
    run(async |vfs| {
        let renamed = |from: &'static [u8], to: &'static [u8]| vfs.rename(&ROOT, from, to);
        assert_eq!(renamed(b"d/.", b"x").await, Err(Errno::Ebusy));
        assert_eq!(renamed(b"f", b"d/..").await, Err(Errno::Ebusy));
        assert_eq!(renamed(b"absent", b"x").await, Err(Errno::Enoent));
        assert_eq!(renamed(b"f/", b"x").await, Err(Errno::Enotdir));
        assert_eq!(renamed(b"way/", b"x").await, Err(Errno::Enotdir));
        assert_eq!(renamed(b"d", b"d/e/x").await, Err(Errno::Einval));
        assert_eq!(renamed(b"d", b"way/e").await, Err(Errno::Einval));
        assert_eq!(renamed(b"d/g", b"d").await, Err(Errno::Enotempty));
        assert_eq!(renamed(b"way/g", b"d").await, Err(Errno::Enotempty));
        assert_eq!(renamed(b"f", b"d").await, Err(Errno::Eisdir));
        assert_eq!(renamed(b"d/e", b"f").await, Err(Errno::Enotdir));
        renamed(b"d/e/", b"e/").await.expect("a directory may have its slash");
    });
}

#[test]
fn what_is_made_in_a_set_group_directory_has_its_group() {
    run(async |vfs| {
        let changes = Changes { permissions: Some(0o2755), gid: Some(6), ..Changes::default() };
        vfs.change(&ROOT, b"d", &changes).await.expect("changed");
        create(&vfs, b"d/file").await.expect("made");
        vfs.make(&ROOT, b"d/below", NewInode::Directory(0o700)).await.expect("made");
        let file = vfs.stat(b"d/file").await.expect("there");
        let below = vfs.stat(b"d/below").await.expect("there");
        assert_eq!((file.gid, file.permissions), (6, 0o644));
        assert_eq!((below.gid, below.permissions), (6, 0o2700));
    });
}

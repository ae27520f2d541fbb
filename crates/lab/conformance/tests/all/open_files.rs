//! Open files on every file system: bytes stay with the file and not with its name, and calls that some have and
//! some have not are answered as their kernels do.

use crate::every_kind::{chip, driver, request};
use conformance::CALLER;
use file_systems::KINDS;
use fs_api::{Errno, FileSystem};
use mount::{Kind, SharedMount, run};
use script::{Data, DataKind, Event, Runner, parse};
use std::rc::Rc;
use vfs::{OpenFile, OpenOptions, Vfs};

/// Kinds with their profiles, on the device that a test has.
fn every_profile() -> impl Iterator<Item = (&'static Kind, &'static str)> {
    let kinds = KINDS.iter().filter(|kind| kind.name != "jffs2-block2mtd");
    kinds.flat_map(|kind| kind.profiles.iter().map(move |profile| (kind, *profile)))
}

fn bytes(seed: u64) -> Vec<u8> {
    Data::new(DataKind::Incompressible, seed).take(20_000)
}

async fn contents(vfs: &Vfs<SharedMount>, file: &OpenFile) -> Result<Vec<u8>, Errno> {
    let mut into = vec![0; 30_000];
    let count = vfs.read(file, 0, &mut into).await?;
    into.truncate(count);
    Ok(into)
}

/// Writes a file and leaves it open.
async fn open_with(vfs: &Vfs<SharedMount>, path: &[u8], seed: u64) -> Result<OpenFile, Errno> {
    let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
    let file = vfs.open(&CALLER, path, options).await?;
    vfs.write(&CALLER, &file, 0, &bytes(seed)).await?;
    Ok(file)
}

async fn unlinked_and_replaced(vfs: &Vfs<SharedMount>) -> Result<(), Errno> {
    let unlinked = open_with(vfs, b"unlinked", 1).await?;
    let replaced = open_with(vfs, b"replaced", 2).await?;
    let moved = open_with(vfs, b"moved", 3).await?;
    vfs.unlink(&CALLER, b"unlinked").await?;
    vfs.rename(&CALLER, b"moved", b"replaced").await?;
    vfs.sync().await?;
    vfs.drop_caches().await?;
    assert_eq!(vfs.stat(b"unlinked").await, Err(Errno::Enoent));
    for (file, seed) in [(&unlinked, 1), (&replaced, 2), (&moved, 3)] {
        assert!(contents(vfs, file).await? == bytes(seed), "file {seed}");
        // Written behind the removal of the name, too.
        vfs.write(&CALLER, file, 20_000, &[seed as u8; 100]).await?;
        vfs.fsync(&CALLER, file).await?;
        let all = contents(vfs, file).await?;
        assert!(all.len() == 20_100 && all[20_000..].iter().all(|byte| u64::from(*byte) == seed));
    }
    // The name is free for another file.
    let other = open_with(vfs, b"unlinked", 4).await?;
    assert!(contents(vfs, &unlinked).await?[..20_000] == bytes(1));
    for file in [unlinked, replaced, moved, other] {
        vfs.close(&CALLER, file).await?;
    }
    for path in [&b"unlinked"[..], b"replaced"] {
        vfs.unlink(&CALLER, path).await?;
    }
    vfs.sync().await?;
    assert!(!vfs.has_open_files());
    Ok(())
}

/// Removes and replaces names of open files again and again; the bytes of them must not stay.
async fn over_and_over(vfs: Rc<Vfs<SharedMount>>, kind: &Kind) -> Result<(), Errno> {
    const ROUNDS: u64 = 16;
    unlinked_and_replaced(&vfs).await?;
    let free = vfs.file_system().space().free_blocks;
    for _ in 0..ROUNDS {
        unlinked_and_replaced(&vfs).await?;
    }
    let space = vfs.file_system().space();
    let lost_bytes = free.saturating_sub(space.free_blocks) * u64::from(space.block_bytes);
    // Half of what the files had: JFFS2 counts what is obsolete in the block that it writes as lost, and the log of
    // NILFS2 keeps all until a cleaner comes.
    assert!(lost_bytes < ROUNDS * 40_000 || kind.name == "nilfs2", "{}: {lost_bytes}", kind.name);
    Ok(())
}

#[test]
fn bytes_of_an_open_file_outlive_its_name() {
    // The library refuses such calls: the engine would delete the file at once.
    for (kind, profile) in every_profile().filter(|(_, profile)| *profile != "yaffs-direct") {
        let outcome = run(chip(128), &driver(), 1, async move |machine| {
            let mounted = machine.mount(kind, &request(kind, profile)).await.expect("mounted");
            let done = over_and_over(mounted.vfs.clone(), kind).await;
            assert_eq!(done, Ok(()), "{} {profile}", kind.name);
            mounted.unmount().await.expect("unmounted");
            assert_eq!(mounted.file_system.findings().await, [], "{} {profile}", kind.name);
        });
        outcome.value.expect("the power is not cut");
    }
}

/// Plays a script; the first line that does not end as it says.
fn play(kind: &'static Kind, profile: &'static str, text: &str) -> Result<(), String> {
    let script = parse(text).map_err(|error| error.to_string())?;
    let outcome = run(chip(128), &driver(), 1, async move |machine| {
        let mounted = machine.mount(kind, &request(kind, profile)).await;
        let mounted = mounted.map_err(|error| error.to_string())?;
        let runner = Runner::new(&machine.sim, mounted.vfs.clone(), 0);
        let mut walk = script.walk();
        while let Some(event) = walk.next(0).map_err(|error| error.to_string())? {
            let Event::Command(command) = event else { return Err("no command".into()) };
            let done = runner.carry_out(&command).await;
            done.map_err(|error| format!("line {}: {error}", command.place))?;
        }
        runner.close_all().await.map_err(|error| error.to_string())?;
        mounted.unmount().await.map_err(|error| error.to_string())?;
        match mounted.file_system.findings().await.first() {
            Some(finding) => Err(finding.text.clone()),
            None => Ok(()),
        }
    });
    outcome.value.expect("the power is not cut")
}

/// Flags of `renameat2` and calls of `fallocate` that a file system of a profile has.
fn lines_of(kind: &Kind, profile: &str) -> String {
    let is_new = profile.starts_with("linux-6.");
    let answer = |has: bool, refusal: &str| match (is_new, has) {
        (false, _) => "fails ENOSYS ".to_owned(),
        (true, true) => String::new(),
        (true, false) => format!("fails {refusal} "),
    };
    let exchange = answer(["fat", "ubifs"].contains(&kind.name), "EINVAL");
    let whiteout = answer(kind.name == "ubifs", "EINVAL");
    let free = answer(true, "");
    let taken = answer(false, "EEXIST");
    let has_fallocate = is_new && kind.name == "fat";
    let fallocate = if has_fallocate { "" } else { "fails EOPNOTSUPP " };
    format!(
        "mkdir d 755\nmkdir d/e 755\nput a 644 9000 4096 x 1\nput d/b 644 5000 4096 x 2\n\
         {taken}rename a d/b noreplace\n{free}rename a c noreplace\n{free}rename c a noreplace\n\
         {exchange}rename a d/b exchange\n{exchange}rename a d/e exchange\n\
         {exchange}rename a d/e exchange\n{missing}rename a nothing exchange\n\
         {whiteout}rename a w whiteout\n\
         put f 644 100 100 x 3\n{fallocate}fallocate f 0 100k keep-size\n\
         {fallocate}fallocate f 0 50k\nfails EOPNOTSUPP fallocate f 0 4k punch-hole\n\
         fails EINVAL fallocate f 0 0\nfails ENOENT fallocate nothing 0 1\nappend f 100 100 x 4\n\
         fsync d\nsync\n",
        missing = answer(false, "ENOENT"),
    )
}

#[test]
fn flags_of_rename_and_fallocate_are_answered_as_by_the_kernels() {
    for (kind, profile) in every_profile().filter(|(kind, _)| kind.name != "toyfs") {
        let text = lines_of(kind, profile);
        assert_eq!(play(kind, profile, &text), Ok(()), "{} {profile}\n{text}", kind.name);
    }
}

#[test]
fn calls_on_open_files_answer_as_linux_does() {
    let text = "put a 644 100 100 x 1\nmkdir d 755\nfails EEXIST open x a w,creat,excl\n\
                open r a r\nopen w a w\nopen d d r\nfails EISDIR open e d rw\n\
                fails EBADF pwrite r 0 10 x 1\nfails EBADF pread w 0 10\nfails EINVAL ftruncate r 5\n\
                fails EISDIR pread d 0 10\nfsync d\nfdatasync d\nfdatasync w\nftruncate w 5000\n\
                pwrite w 4000 3000 x 2\nwrite w 3 h 010203\nwrite w 3 h 040506\npread r 0 6\n\
                fails EBADF close nothing\nclose r\nfails EBADF pread r 0 1\n\
                open s a w,sync\npwrite s 0 100 x 3\nopen t a w,dsync\npwrite t 0 100 x 3\n\
                open p a a\npwrite p 0 10 x 4\nwrite p 10 x 5\n";
    for (kind, profile) in every_profile() {
        assert_eq!(play(kind, profile, text), Ok(()), "{} {profile}", kind.name);
    }
    let (jffs2, profile) = every_profile().find(|(kind, _)| kind.name == "jffs2").expect("a row");
    let twice = play(jffs2, profile, "open a a w,creat\nopen a a r\n").expect_err("it is open");
    assert_eq!(twice, "line 2: open: a file is open as `a` already: `close a` comes first");
    let wrong = play(jffs2, profile, "fails ENOSPC unlink a\n").expect_err("it fails otherwise");
    assert!(
        wrong.contains("ENOSPC: no space left on device was expected, but found unlink: ENOENT")
    );
    let wrong = play(jffs2, profile, "fails ENOSPC mkdir a 755\n").expect_err("it succeeds");
    assert!(wrong.ends_with("was expected, but the call succeeded"));
    let (yaffs2, library) =
        every_profile().find(|(_, profile)| *profile == "yaffs-direct").expect("a row");
    let text = "put a 644 10 10 x 1\nput b 644 10 10 x 2\nopen o a rw\nfails EBUSY unlink a\n\
                fails EBUSY rename b a\nlink a c\nunlink a\nclose o\nunlink c\nunlink b\n";
    assert_eq!(play(yaffs2, library, text), Ok(()));
    let wrong = play(yaffs2, library, "open o a rw,creat\nunlink a\n").expect_err("refused");
    assert!(wrong.ends_with("open without a name here: close it first"), "{wrong}");
}

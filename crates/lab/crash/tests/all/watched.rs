//! What the watcher of a file system notes of each call: the states that a cut may leave, when each began,
//! which file was being written, and from when on it is safe.

use crate::support::trees::standard;
use crash::{Facts, History, Recorder, ShadowModel, Tree, find_guarantee};
use fs_api::{
    Caller, Changes, Errno, FileSystem, InodeNumber, NewInode, PAGE_BYTES, PageRun, Time,
};
use std::cell::Cell;
use std::fmt::Write as _;
use std::rc::Rc;
use vfs::MemoryFileSystem;

const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time { seconds: 0, nanoseconds: 0 } };
const ROOT: InodeNumber = 1;

/// A file system in memory that is watched. The clock goes by one whenever it is read, so that a call
/// returns later than it began; [`Watched::at`] sets it.
struct Watched {
    recorder: Recorder<MemoryFileSystem>,
    shadow: Rc<ShadowModel>,
    clock: Rc<Cell<u64>>,
}

impl Watched {
    fn new(kind: &str, profile: &'static str) -> Self {
        let guarantee = find_guarantee(kind).expect("in the table");
        let real = Rc::new(MemoryFileSystem::new(&CALLER));
        let clock = Rc::new(Cell::new(0));
        let shadow = done(async {
            let tree = Tree::read(&*real).await.expect("it reads");
            Rc::new(ShadowModel::new(guarantee, &tree).await.expect("a model"))
        });
        let ticking = clock.clone();
        let now = move || ticking.replace(ticking.get() + 1);
        let recorder = Recorder::new(real, now, shadow.clone(), profile);
        Self { recorder, shadow, clock }
    }

    /// The next call begins when so many operations have changed the medium.
    fn at(&self, operation: u64) -> &Recorder<MemoryFileSystem> {
        self.clock.set(operation);
        &self.recorder
    }

    fn file(&self, directory: InodeNumber, name: &str) -> InodeNumber {
        let new = NewInode::Regular(0o644);
        done(self.recorder.make(&CALLER, directory, name.as_bytes(), new)).expect("made")
    }

    fn directory(&self, name: &str) -> InodeNumber {
        let new = NewInode::Directory(0o755);
        done(self.recorder.make(&CALLER, ROOT, name.as_bytes(), new)).expect("made")
    }

    fn link(&self, inode: InodeNumber, name: &str) {
        done(self.recorder.link(&CALLER, inode, ROOT, name.as_bytes())).expect("linked");
    }

    /// Bytes of one page, all the same.
    fn write(&self, inode: InodeNumber, page: u64, part: std::ops::Range<usize>, byte: u8) {
        let bytes = [byte; PAGE_BYTES];
        done(self.recorder.write_page(&CALLER, inode, page, &bytes, part)).expect("written");
    }

    /// The states that were noted since there were so many.
    fn since(&self, count: usize) -> Vec<String> {
        let history = self.shadow.history();
        history.states()[count..].iter().map(|state| line(&state.tree)).collect()
    }

    fn count(&self) -> usize {
        self.shadow.history().states().len()
    }

    /// First and last state of the window of a cut, counted from the newest, which is 0, backwards.
    fn window(&self, operation: u64) -> (usize, usize) {
        let (history, newest) = (self.shadow.history(), self.count() - 1);
        let window = history.window(operation);
        (newest - window.states.start(), newest - window.states.end())
    }

    /// Files of which less than the window's first state is safe.
    fn dirty(&self, operation: u64) -> usize {
        self.shadow.history().window(operation).dirty.len()
    }
}

/// Runs what never waits.
fn done<T>(job: impl Future<Output = T>) -> T {
    let mut job = std::pin::pin!(job);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match job.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("nothing here waits"),
    }
}

/// A tree in a line: names, and of files the links and runs of bytes.
fn line(tree: &Tree) -> String {
    let mut text = String::new();
    for (path, row) in tree.rows.iter().filter(|(path, _)| !path.is_empty()) {
        let Facts { links, kind, .. } = &row.facts;
        let _ = write!(text, " {}", String::from_utf8_lossy(path));
        if *kind == fs_api::FileType::Directory {
            text.push('/');
            continue;
        }
        assert_eq!(row.facts.size_bytes, row.content.len() as u64, "the size is that of the bytes");
        if *links > 1 {
            let _ = write!(text, " x{links}");
        }
        for run in row.content.to_vec().chunk_by(|a, b| a == b) {
            let _ = write!(text, " {}*{}", run.len(), run[0]);
        }
    }
    text.trim_start().to_owned()
}

fn hazards(history: &History, count: usize) -> Vec<&'static str> {
    history.states()[count..]
        .iter()
        .map(|state| state.hazard.map_or("", |hazard| hazard.name))
        .collect()
}

#[test]
fn a_call_may_be_cut_from_its_begin_to_its_return() {
    let watched = Watched::new("yaffs2", "any");
    watched.at(10);
    let directory = watched.directory("d");
    watched.at(20);
    watched.file(directory, "f");
    assert_eq!(watched.since(1), ["d/", "d/ d/f"]);
    assert_eq!(watched.window(9), (2, 2));
    assert_eq!(watched.window(10), (2, 1), "the first call may be there, or not");
    assert_eq!(watched.window(15), (1, 1), "it has returned");
    assert_eq!(watched.window(20), (1, 0));
    assert_eq!(watched.window(21), (0, 0));
    let history = watched.shadow.history();
    let begun: Vec<u64> = history.states().iter().map(|state| state.begun_at).collect();
    assert_eq!(begun, [0, 10, 20]);
}

/// UBIFS: `fsync` of an inode makes its names safe, with all names that were changed before them
/// (`ubifs_fsync`, `ubifs_sync_wbufs_by_inode` of `fs/ubifs`): each call names the inodes it concerns.
// One function: most of it is the table of calls.
#[test]
fn every_call_that_changes_names_tells_which_inodes_they_concern() {
    type Change = fn(&Watched, InodeNumber, InodeNumber, InodeNumber);
    let cases: [(&str, Change, &[&str]); 5] = [
        (
            "make",
            |watched, d, _, _| {
                watched.file(d, "new");
            },
            &["d"],
        ),
        (
            "link",
            |watched, d, _, f| {
                done(watched.recorder.link(&CALLER, f, d, b"second")).expect("linked");
            },
            &["d", "f"],
        ),
        (
            "unlink",
            |watched, d, _, _| {
                done(watched.recorder.unlink(&CALLER, d, b"f")).expect("unlinked");
            },
            &["d", "f"],
        ),
        (
            "rename",
            |watched, d, e, _| {
                done(watched.recorder.rename(&CALLER, (d, b"f"), (e, b"g"))).expect("renamed");
            },
            &["d", "e", "f"],
        ),
        (
            "setxattr",
            |watched, _, _, f| {
                let set = watched.recorder.set_extended_attribute(&CALLER, f, b"user.k", None);
                done(set).expect("removed");
            },
            &["f"],
        ),
    ];
    for (name, change, concerned) in cases {
        for asked in ["d", "e", "f", "other"] {
            let watched = Watched::new("ubifs", "any");
            let (d, e) = (watched.directory("d"), watched.directory("e"));
            let (f, other) = (watched.file(d, "f"), watched.file(ROOT, "other"));
            let set =
                watched.recorder.set_extended_attribute(&CALLER, f, b"user.k", Some(b"value"));
            done(set).expect("set");
            done(watched.recorder.sync()).expect("synced");
            watched.at(100);
            change(&watched, d, e, f);
            watched.at(200);
            let inode = match asked {
                "d" => d,
                "e" => e,
                "f" => f,
                _ => other,
            };
            done(watched.recorder.fsync(&CALLER, inode)).expect("synced");
            let is_safe = watched.window(300) == (0, 0);
            assert_eq!(is_safe, concerned.contains(&asked), "{name}: fsync of {asked}");
        }
    }
}

/// `create_xattr` of `fs/ubifs/xattr.c` makes an inode with `S_SYNC`; `change_xattr` and
/// `ubifs_xattr_remove` write nothing at once.
#[test]
fn a_new_attribute_of_ubifs_is_safe_when_the_call_returns() {
    let watched = Watched::new("ubifs", "any");
    let f = watched.file(ROOT, "f");
    let set = |operation, value: Option<&[u8]>| {
        let recorder = watched.at(operation);
        done(recorder.set_extended_attribute(&CALLER, f, b"user.k", value)).expect("set");
        watched.window(operation + 50).0
    };
    assert_eq!(set(100, Some(b"new")), 0);
    assert_eq!(set(200, Some(b"another")), 1, "an attribute that was there");
    assert_eq!(set(300, None), 2, "it is taken away");
    assert_eq!(set(400, Some(b"again")), 0, "with all before it");
}

/// JFFS2 (`jffs2_rename` of `fs/jffs2/dir.c`): the new name is linked, then the old one is taken away.
#[test]
fn a_rename_of_jffs2_shows_both_names_in_between() {
    let watched = Watched::new("jffs2", "any");
    let (d, f) = (watched.directory("d"), watched.file(ROOT, "f"));
    watched.write(f, 0, 0..3, 7);
    watched.file(d, "inside");
    watched.file(ROOT, "dx");
    let (count, to) = (watched.count(), (d, b"g".as_slice()));
    done(watched.at(100).rename(&CALLER, (ROOT, b"f"), to)).expect("renamed");
    let both = "d/ d/g x2 3*7 d/inside dx f x2 3*7";
    assert_eq!(watched.since(count), [both, "d/ d/g 3*7 d/inside dx"]);
    assert!(watched.shadow.history().states()[count..].iter().all(|state| state.begun_at == 100));
    // A directory with all that is in it, and with nothing whose name only begins like its own.
    let count = watched.count();
    done(watched.at(200).rename(&CALLER, (ROOT, b"d"), (ROOT, b"e"))).expect("renamed");
    let both = "d/ d/g 3*7 d/inside dx e/ e/g 3*7 e/inside";
    assert_eq!(watched.since(count), [both, "dx e/ e/g 3*7 e/inside"]);
}

#[test]
fn a_rename_of_jffs2_takes_a_link_of_what_it_replaces_at_once() {
    let watched = Watched::new("jffs2", "any");
    watched.file(ROOT, "f");
    let old = watched.file(ROOT, "old");
    watched.link(old, "other");
    watched.file(ROOT, "beside");
    let count = watched.count();
    done(watched.at(100).rename(&CALLER, (ROOT, b"f"), (ROOT, b"old"))).expect("renamed");
    let both = "beside f x2 old x2 other";
    assert_eq!(watched.since(count), [both, "beside old other"]);
    let history = watched.shadow.history();
    let inode = |path: &str| history.states()[count].tree.rows[path.as_bytes()].inode;
    assert_eq!(inode("f"), inode("old"));
    assert_ne!(inode("old"), inode("other"));
}

/// YAFFS2 writes one header, which names what it replaces; the scan deletes that under all its names.
#[test]
fn a_rename_of_yaffs2_over_one_of_several_names_is_a_hazard() {
    let renamed = |links: usize| {
        let watched = Watched::new("yaffs2", "any");
        let (d, old) = (watched.directory("d"), watched.file(ROOT, "old"));
        for number in 1..links {
            watched.link(old, &format!("other{number}"));
        }
        watched.file(d, "f");
        let count = watched.count();
        done(watched.at(100).rename(&CALLER, (ROOT, b"d"), (ROOT, b"dir"))).expect("renamed");
        let plain = hazards(&watched.shadow.history(), count);
        assert_eq!(plain, [""], "it replaces nothing");
        let count = watched.count();
        done(watched.at(200).rename(&CALLER, (d, b"f"), (ROOT, b"old"))).expect("renamed");
        (watched.since(count), hazards(&watched.shadow.history(), count))
    };
    assert_eq!(renamed(1), (vec!["dir/ old".to_owned()], vec![""]));
    let states = ["dir/ old other1 x2", "dir/ old", "dir/ old other1"].map(str::to_owned);
    assert_eq!(renamed(2), (states.to_vec(), vec!["doubled-name", "rename-over-linked", ""]));
}

/// The library of YAFFS2 cuts a file off before it deletes it (`yaffs_unlink_obj` of the direct interface);
/// the kernel module does not.
#[test]
fn a_last_name_that_is_taken_away_shows_an_empty_file_first_with_the_library_alone() {
    let unlinked = |profile, names: &[&str], is_link: bool| {
        let watched = Watched::new("yaffs2", profile);
        let d = watched.directory("d");
        if is_link {
            let new = NewInode::Symlink(b"target");
            done(watched.recorder.make(&CALLER, d, b"f", new)).expect("made");
        } else {
            let f = watched.file(d, "f");
            watched.write(f, 0, 0..5, 7);
            for name in names {
                watched.link(f, name);
            }
        }
        let count = watched.count();
        done(watched.at(100).unlink(&CALLER, d, b"f")).expect("unlinked");
        assert_eq!(watched.window(100).1, 0, "all began with the call");
        (watched.since(count).join(" | "), hazards(&watched.shadow.history(), count).join("|"))
    };
    let told = |states: &str, hazards: &str| (states.to_owned(), hazards.to_owned());
    assert_eq!(unlinked("yaffs-direct", &[], false), told("d/ d/f | d/", "|"));
    assert_eq!(unlinked("linux", &[], false), told("d/", ""));
    assert_eq!(unlinked("yaffs-direct", &[], true), told("d/", ""));
    // One of several names: another one of them stands twice while the first is taken away.
    let doubled = told("d/ g x2 5*7 | d/ g 5*7", "doubled-name|");
    assert_eq!(unlinked("yaffs-direct", &["g"], false), doubled);
    assert_eq!(unlinked("linux", &["g"], false), doubled);
}

#[test]
fn jffs2_takes_one_of_several_names_away_in_one_step() {
    let watched = Watched::new("jffs2", "any");
    let f = watched.file(ROOT, "f");
    watched.link(f, "g");
    let count = watched.count();
    done(watched.recorder.unlink(&CALLER, ROOT, b"f")).expect("unlinked");
    assert_eq!(
        (watched.since(count), hazards(&watched.shadow.history(), count)),
        (vec!["g".into()], vec![""])
    );
}

/// Which file the states were a write to, as the model numbers it.
fn written(watched: &Watched, count: usize) -> Vec<bool> {
    watched.shadow.history().states()[count..].iter().map(|state| state.written.is_some()).collect()
}

#[test]
fn a_write_behind_the_end_shows_the_gap_before_the_bytes() {
    let watched = Watched::new("yaffs2", "any");
    let f = watched.file(ROOT, "f");
    let count = watched.count();
    watched.at(100);
    watched.write(f, 0, 0..3, 7);
    watched.write(f, 0, 3..5, 8);
    assert_eq!(watched.since(count), ["f 3*7", "f 3*7 2*8"], "no gap where the file ends");
    let count = watched.count();
    watched.at(200);
    watched.write(f, 2, 100..200, 9);
    assert_eq!(watched.since(count), ["f 3*7 2*8 8287*0", "f 3*7 2*8 8287*0 100*9"]);
    assert_eq!(written(&watched, count), [true, true]);
    assert_eq!(watched.window(200).1, 0, "both began with the call");
    // Of what is only in memory nothing is safe when the call returns, and all when the file is flushed.
    assert_eq!((watched.window(300).0, watched.dirty(300)), (4, 0));
    done(watched.at(400).flush(&CALLER, f)).expect("flushed");
    assert_eq!((watched.window(500).0, watched.dirty(500)), (0, 0));
    let count = watched.count();
    done(watched.at(600).begin_behind_end(&CALLER, f, 8400)).expect("begun");
    assert_eq!(watched.since(count), ["f 3*7 2*8 8287*0 100*9 8*0"]);
}

#[test]
fn the_pages_of_a_run_are_states_one_by_one() {
    let watched = Watched::new("yaffs2", "any");
    let f = watched.file(ROOT, "f");
    watched.write(f, 0, 0..PAGE_BYTES, 1);
    let count = watched.count();
    let pages = [[2; PAGE_BYTES], [3; PAGE_BYTES], [4; PAGE_BYTES]];
    let run = PageRun {
        first: 1,
        pages: &pages,
        bytes: 2 * PAGE_BYTES + 10,
        is_waited_for: true,
        is_direct: false,
    };
    done(watched.at(100).write_pages(&CALLER, f, run)).expect("written");
    let states = ["f 4096*1 4096*2", "f 4096*1 4096*2 4096*3", "f 4096*1 4096*2 4096*3 10*4"];
    assert_eq!(watched.since(count), states);
    assert_eq!((written(&watched, count), watched.window(100).1), (vec![true; 3], 0));
}

/// A page that the layer above changed and did not hand over before a sync is an error of that layer: of
/// those that it forgets no recovery could tell.
#[test]
fn a_sync_is_refused_while_pages_are_owed() {
    let watched = Watched::new("ubifs", "any");
    let (f, g) = (watched.file(ROOT, "f"), watched.file(ROOT, "g"));
    let owe = |inode, page| {
        done(watched.recorder.end_write(&CALLER, inode, page, 0..10)).expect("changed");
    };
    let fsync = |inode| done(watched.recorder.fsync(&CALLER, inode));
    let sync = || (done(watched.recorder.sync()), done(watched.recorder.unmount()));
    for page in [1, 3, 5] {
        owe(f, page);
    }
    owe(g, 1);
    owe(g, 9);
    assert_eq!((fsync(f), fsync(g)), (Err(Errno::Eio), Err(Errno::Eio)));
    let pages = [[2; PAGE_BYTES]; 3];
    let run = PageRun {
        first: 1,
        pages: &pages,
        bytes: 3 * PAGE_BYTES,
        is_waited_for: true,
        is_direct: false,
    };
    done(watched.recorder.write_pages(&CALLER, f, run)).expect("written");
    assert_eq!(fsync(f), Err(Errno::Eio), "page 5 is behind the run");
    watched.write(f, 5, 0..10, 2);
    assert_eq!((fsync(f), fsync(g)), (Ok(()), Err(Errno::Eio)));
    // What is cut off is not written any more: of g the page that holds byte 4096 stays.
    let cut = Changes { size_bytes: Some(4097), ..Changes::default() };
    done(watched.recorder.change(&CALLER, g, &cut)).expect("cut");
    assert_eq!((fsync(g), sync()), (Err(Errno::Eio), (Err(Errno::Eio), Err(Errno::Eio))));
    watched.write(g, 1, 0..1, 2);
    assert_eq!((fsync(g), sync()), (Ok(()), (Ok(()), Ok(()))));
    // Of a page that begins at the new end nothing is left, and other files owe what they did.
    owe(f, 1);
    owe(f, 7);
    owe(g, 1);
    let cut = Changes { size_bytes: Some(4096), ..Changes::default() };
    done(watched.recorder.change(&CALLER, g, &cut)).expect("cut");
    assert_eq!((fsync(g), fsync(f)), (Ok(()), Err(Errno::Eio)));
    owe(g, 0);
    done(watched.recorder.forget(f)).expect("forgotten");
    assert_eq!((fsync(f), fsync(g)), (Ok(()), Err(Errno::Eio)));
}

/// UBIFS writes the size of a file back apart from its bytes (`ubifs_write_end`, `ubifs_writepage`).
#[test]
fn a_file_that_grew_in_memory_may_show_zeros() {
    let watched = Watched::new("ubifs", "any");
    let f = watched.file(ROOT, "f");
    let count = watched.count();
    let end_write = |operation, page, part| {
        done(watched.at(operation).end_write(&CALLER, f, page, part)).expect("changed");
    };
    end_write(100, 1, 10..20);
    end_write(200, 1, 30..40);
    end_write(300, 1, 0..40);
    end_write(400, 0, 0..PAGE_BYTES);
    assert_eq!(watched.since(count), ["f 4116*0", "f 4136*0"], "it grows twice");
    assert_eq!(written(&watched, count), [true, true]);
    assert_eq!((watched.window(100).1, watched.window(200).1), (1, 0));
    watched.write(f, 1, 10..40, 7);
    assert_eq!(watched.since(count + 2), ["f 4106*0 30*7"]);
}

#[test]
fn what_a_change_makes_safe_depends_on_the_size() {
    let changed = |kind, changes: Changes| {
        let watched = Watched::new(kind, "any");
        let f = watched.file(ROOT, "f");
        watched.write(f, 0, 0..10, 7);
        done(watched.recorder.sync()).expect("synced");
        let count = watched.count();
        done(watched.at(100).change(&CALLER, f, &changes)).expect("changed");
        // Nothing is noted of a file that is in memory only before something is safe beside it.
        watched.file(ROOT, "g");
        if kind == "ubifs" {
            done(watched.recorder.fsync(&CALLER, ROOT)).expect("synced");
        }
        (watched.since(count)[0].clone(), written(&watched, count)[0], watched.dirty(500))
    };
    let size = |bytes| Changes { size_bytes: Some(bytes), ..Changes::default() };
    let mode = Changes { permissions: Some(0o600), ..Changes::default() };
    let told = |state: &str, is_written, dirty| (state.to_owned(), is_written, dirty);
    assert_eq!(changed("yaffs2", size(20)), told("f 10*7 10*0", true, 1), "zeros are in memory");
    assert_eq!(changed("yaffs2", size(10)), told("f 10*7", true, 0));
    assert_eq!(changed("yaffs2", size(4)), told("f 4*7", true, 0));
    assert_eq!(changed("yaffs2", mode), told("f 10*7", false, 0));
    // UBIFS writes attributes back later, and so the root's `fsync` leaves those of the file behind.
    assert_eq!(changed("ubifs", mode), told("f 10*7", false, 2));
}

/// A file that is made shorter is written to its end (`yaffs_resize_file` flushes the cache); setting the
/// size that it has flushes nothing.
#[test]
fn a_file_that_is_cut_off_is_safe_with_what_was_written_before() {
    let dirty = |bytes| {
        let watched = Watched::new("yaffs2", "any");
        let f = watched.file(ROOT, "f");
        watched.write(f, 0, 0..10, 7);
        let cut = Changes { size_bytes: Some(bytes), ..Changes::default() };
        done(watched.at(100).change(&CALLER, f, &cut)).expect("changed");
        watched.dirty(500)
    };
    assert_eq!([4, 9, 10, 11].map(dirty), [0, 0, 1, 1]);
}

/// JFFS2: `fsync` writes the write buffer out, and so all nodes up to the newest of the file; the inode's
/// node comes before the node of its name (`jffs2_create`).
#[test]
fn fsync_of_a_file_of_jffs2_makes_its_own_records_safe() {
    let watched = Watched::new("jffs2", "any");
    let f = watched.file(ROOT, "f");
    done(watched.at(100).fsync(&CALLER, f)).expect("synced");
    assert_eq!(watched.window(150), (1, 0), "the name may be missing");
    watched.write(f, 0, 0..3, 7);
    let g = watched.file(ROOT, "g");
    watched.write(g, 0, 0..3, 8);
    done(watched.at(200).fsync(&CALLER, f)).expect("synced");
    assert_eq!(watched.window(250), (2, 0), "what followed the write may be missing");
    let mode = Changes { permissions: Some(0o600), ..Changes::default() };
    done(watched.recorder.change(&CALLER, f, &mode)).expect("changed");
    done(watched.at(300).fsync(&CALLER, g)).expect("synced");
    assert_eq!(watched.window(350), (1, 0));
    done(watched.at(400).fsync(&CALLER, f)).expect("synced");
    assert_eq!(watched.window(450), (0, 0));
}

/// A medium that holds something already: the model begins with all of it.
#[test]
fn a_history_begins_with_the_tree_that_the_medium_holds() {
    let guarantee = find_guarantee("jffs2").expect("in the table");
    let tree = standard();
    let shadow = done(ShadowModel::new(guarantee, &tree)).expect("a model");
    let history = shadow.history();
    let begun = &history.states()[0].tree;
    assert_eq!(history.states().len(), 1);
    let told = |tree: &Tree| -> Vec<String> {
        let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        tree.rows.iter().map(|(path, row)| name(path) + ": " + &row.describe()).collect()
    };
    assert_eq!(told(begun), told(&tree));
    assert!(begun.is_same(&tree), "the bytes, too");
    assert_eq!(begun.rows[b"first".as_slice()].inode, begun.rows[b"second".as_slice()].inode);
}

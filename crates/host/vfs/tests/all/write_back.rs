//! Files that are written back: what is dirty when, what reaches the file system, in which order.

use crate::support;

use board::Board;
use fs_api::{Caller, Changes, Errno, FileSystem, PAGE_BYTES, Time};
use random::Stream;
use sim::{Cpus, Sim, Simulation};
use std::cell::RefCell;
use std::rc::Rc;
use support::{Event, WritesBack};
use vfs::{OpenFile, OpenOptions, Vfs};

const ROOT: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };
const SECOND_NS: u64 = 1_000_000_000;

/// A mount, and where its events are seen.
#[derive(Clone)]
struct Bench {
    sim: Sim,
    fs: Rc<WritesBack>,
    vfs: Rc<Vfs<WritesBack>>,
}

impl Bench {
    async fn open(&self, path: &[u8]) -> OpenFile {
        self.vfs.open(&ROOT, path, creating()).await.expect("it opens")
    }

    async fn write(&self, file: &OpenFile, at: u64, bytes: &[u8]) {
        self.vfs.write(&ROOT, file, at, bytes).await.expect("written");
    }

    /// Bytes of a file as the file system has them.
    async fn below(&self, path: &[u8]) -> Vec<u8> {
        let inode = self.fs.inner.lookup(self.fs.root(), path).await.expect("it is there");
        let size = self.fs.inner.attributes(inode).await.expect("it is there").size_bytes;
        let mut bytes = Vec::new();
        let mut whole = [0; PAGE_BYTES];
        for page in 0..size.div_ceil(PAGE_BYTES as u64) {
            self.fs.inner.read_page(inode, page, &mut whole).await.expect("it reads");
            bytes.extend_from_slice(&whole);
        }
        bytes.truncate(size as usize);
        bytes
    }
}

fn creating() -> OpenOptions {
    OpenOptions { create: Some(0o644), ..OpenOptions::default() }
}

/// A kernel with memory for so many pages.
fn board(kernel: &str, pages: u64) -> Board {
    let mut board = Board::without_costs();
    board.kernel = kernel.into();
    board.available_bytes = pages * PAGE_BYTES as u64;
    board.memory_bytes = 2 * board.available_bytes;
    board.costs.syscall_ns = 1000;
    board.costs.page_ns = 200;
    board
}

/// Runs a job to its end; what the file system saw.
fn run_on<F: Future<Output = ()> + 'static>(
    board: Board,
    job: impl FnOnce(Bench) -> F,
) -> Vec<Event> {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let fs = Rc::new(WritesBack::new(&sim, &ROOT));
    let vfs = Rc::new(Vfs::cached(&sim, &cpus, &Rc::new(board), fs.clone()));
    let task = sim.spawn(job(Bench { sim: sim.clone(), fs: fs.clone(), vfs }));
    let end = simulation.run();
    assert!(task.is_finished(), "{end:?}: {}", simulation.blocked_tasks().join(", "));
    fs.events.take()
}

fn run<F: Future<Output = ()> + 'static>(pages: u64, job: impl FnOnce(Bench) -> F) -> Vec<Event> {
    run_on(board("6.12", pages), job)
}

#[test]
fn a_write_stays_in_memory_until_it_is_thirty_seconds_old() {
    let events = run(1000, async |bench| {
        let file = bench.open(b"f").await;
        bench.write(&file, 0, &[7; 3 * PAGE_BYTES]).await;
        bench.vfs.close(&ROOT, file).await.expect("closed");
        bench.sim.sleep(29 * SECOND_NS).await;
        assert_eq!((bench.fs.promises(), bench.fs.events.borrow().len()), (3, 0));
        bench.sim.sleep(7 * SECOND_NS).await;
        assert_eq!(bench.fs.promises(), 0);
        assert_eq!(bench.below(b"f").await, [7; 3 * PAGE_BYTES]);
    });
    let [Event::Page(at, _, 0), Event::Page(_, _, 1), Event::Page(_, _, 2), Event::Inode(..)] =
        events[..]
    else {
        panic!("pages, then attributes: {events:?}");
    };
    assert!((30 * SECOND_NS..36 * SECOND_NS).contains(&at), "{at}");
}

#[test]
fn without_an_interval_nothing_is_written_by_time() {
    let mut board = board("6.12", 1000);
    board.writeback.dirty_writeback_centisecs = 0;
    let events = run_on(board, async |bench| {
        let file = bench.open(b"f").await;
        bench.write(&file, 0, b"something").await;
        bench.sim.sleep(1000 * SECOND_NS).await;
    });
    assert_eq!(events, []);
}

#[test]
fn attributes_alone_are_written_in_time() {
    let events = run(1000, async |bench| {
        let file = bench.open(b"f").await;
        bench.vfs.close(&ROOT, file).await.expect("closed");
        bench.vfs.sync().await.expect("synced");
        let to = Changes { permissions: Some(0o600), ..Changes::default() };
        bench.vfs.change(&ROOT, b"f", &to).await.expect("changed");
        bench.sim.sleep(40 * SECOND_NS).await;
        assert!(bench.fs.dirty_inodes().is_empty());
    });
    assert!(matches!(events[..], [Event::Inode(30_000_000_000.., _)]), "{events:?}");
}

#[test]
fn fsync_writes_the_file_and_nothing_else() {
    let events = run(1000, async |bench| {
        let (one, two) = (bench.open(b"1").await, bench.open(b"2").await);
        bench.write(&one, 0, &[1; 2 * PAGE_BYTES]).await;
        bench.write(&two, 0, &[2; 5]).await;
        bench.vfs.fsync(&ROOT, &two).await.expect("synced");
        assert_eq!(bench.below(b"2").await, [2; 5]);
        assert_eq!(bench.fs.promises(), 2);
        let syncing = OpenOptions { sync: true, ..creating() };
        let three = bench.vfs.open(&ROOT, b"3", syncing).await.expect("it opens");
        bench.write(&three, 4090, &[3; 10]).await;
        assert_eq!(bench.fs.promises(), 2);
        bench.fs.events.borrow_mut().push(Event::Fsync(0, 0));
        bench.vfs.sync().await.expect("synced");
        assert_eq!(bench.fs.promises(), 0);
    });
    let kinds: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Page(_, inode, page) => (0, *inode, *page),
            Event::Inode(_, inode) => (1, *inode, 0),
            Event::Fsync(_, inode) => (2, *inode, 0),
        })
        .collect();
    // Inodes are 2, 3 and 4.
    let of_two = [(0, 3, 0), (2, 3, 0), (1, 3, 0)];
    let of_three = [(0, 4, 0), (0, 4, 1), (2, 4, 0), (1, 4, 0)];
    let of_sync = [(2, 0, 0), (0, 2, 0), (0, 2, 1), (1, 2, 0)];
    assert_eq!(kinds, [&of_two[..], &of_three[..], &of_sync[..]].concat());
}

#[test]
fn a_write_back_that_failed_is_told_once() {
    run(1000, async |bench| {
        let file = bench.open(b"f").await;
        bench.write(&file, 0, b"lost").await;
        bench.fs.fails.set(true);
        bench.sim.sleep(40 * SECOND_NS).await;
        bench.fs.fails.set(false);
        assert_eq!(bench.vfs.fsync(&ROOT, &file).await, Err(Errno::Eio));
        assert_eq!(bench.vfs.fsync(&ROOT, &file).await, Ok(()));
    });
}

#[test]
fn who_finds_no_space_is_told_when_writing() {
    run(1000, async |bench| {
        bench.fs.space_pages.set(4);
        let file = bench.open(b"f").await;
        // Old pages are written to make room.
        bench.write(&file, 0, &vec![1; 10 * PAGE_BYTES]).await;
        assert!(bench.fs.pages_written().len() >= 6);
        bench.fs.space_pages.set(0);
        let refused = bench.vfs.write(&ROOT, &file, 0, &[2; PAGE_BYTES]).await;
        assert_eq!(refused, Err(Errno::Enospc));
        bench.vfs.fsync(&ROOT, &file).await.expect("what was promised is written");
        assert_eq!(bench.below(b"f").await, vec![1; 10 * PAGE_BYTES]);
        let mut bytes = [0; 100];
        bench.vfs.read(&file, 0, &mut bytes).await.expect("it reads");
        assert_eq!(bytes, [1; 100]);
    });
}

#[test]
fn what_is_deleted_or_cut_off_is_never_written() {
    let events = run(1000, async |bench| {
        let file = bench.open(b"f").await;
        bench.write(&file, 0, &vec![1; 8 * PAGE_BYTES]).await;
        bench.vfs.truncate(&ROOT, b"f", 2 * PAGE_BYTES as u64).await.expect("cut");
        bench.vfs.unlink(&ROOT, b"f").await.expect("unlinked");
        bench.vfs.close(&ROOT, file).await.expect("closed");
        assert_eq!((bench.fs.promises(), bench.vfs.cached_pages()), (0, 0));
        bench.sim.sleep(60 * SECOND_NS).await;
    });
    // Cutting asks for space, which the oldest pages that stay give.
    assert!(events.iter().all(|event| !matches!(event, Event::Page(_, _, 2..))), "{events:?}");
}

#[test]
fn writers_are_held_where_memory_is_small() {
    for kernel in ["2.6.29", "2.6.35", "3.4", "6.12"] {
        run_on(board(kernel, 400), async |bench| {
            let file = bench.open(b"f").await;
            for page in 0..2000 {
                bench.write(&file, page * PAGE_BYTES as u64, &[1; PAGE_BYTES]).await;
            }
            let most = bench.fs.most_promised.get();
            assert!((20..130).contains(&most), "{most} dirty pages of 400");
            // Two thousand pages at a millisecond each.
            assert!(bench.sim.now() > SECOND_NS, "{}", bench.sim.now());
            assert!(bench.vfs.cached_pages() <= 400);
        });
    }
}

#[test]
fn drop_caches_keeps_what_is_dirty() {
    run(1000, async |bench| {
        let file = bench.open(b"clean").await;
        bench.write(&file, 0, &[1; PAGE_BYTES]).await;
        bench.vfs.sync().await.expect("synced");
        let dirty = bench.open(b"dirty").await;
        bench.write(&dirty, 0, &[2; PAGE_BYTES]).await;
        bench.vfs.close(&ROOT, file).await.expect("closed");
        bench.vfs.close(&ROOT, dirty).await.expect("closed");
        bench.vfs.drop_caches().await.expect("dropped");
        assert_eq!((bench.vfs.cached_pages(), bench.fs.promises()), (1, 1));
        assert_eq!(bench.fs.shrinks.get(), 2, "once more after much was found");
        bench.vfs.unmount().await.expect("unmounted");
        assert_eq!(bench.below(b"dirty").await, [2; PAGE_BYTES]);
    });
}

#[test]
fn each_write_asks_for_capabilities_and_takes_them_away() {
    run(1000, async |bench| {
        let file = bench.open(b"f").await;
        let name = b"security.capability";
        let set = bench.vfs.set_extended_attribute(&ROOT, b"f", name, Some(b"all")).await;
        set.expect("set");
        for at in 0..3 {
            bench.write(&file, at, b"x").await;
        }
        bench.write(&file, 0, b"").await;
        assert_eq!(bench.fs.queries.get(), 3);
        let inode = bench.vfs.resolve(b"f").await.expect("it is there");
        let gone = bench.fs.inner.extended_attribute(inode, name).await;
        assert_eq!(gone, Err(Errno::Enodata));
    });
}

/// Random calls of a process on files of its own, against bytes in memory.
async fn random_calls(bench: &Bench, seed: u64, steps: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut stream = Stream::new(seed, "calls");
    let names: Vec<Vec<u8>> = (0..3).map(|file| format!("{seed}-{file}").into_bytes()).collect();
    let mut models = vec![Vec::new(); names.len()];
    let caller = ROOT;
    let mut files = Vec::new();
    for name in &names {
        files.push(Some(bench.open(name).await));
    }
    for step in 0..steps {
        let which = stream.below(3) as usize;
        let (name, model) = (&names[which], &mut models[which]);
        let file = files[which].as_ref().expect("it is open");
        let at = stream.below(100_000) as usize;
        let count = 1 + stream.below(12_000) as usize;
        match stream.below(24) {
            0 | 1 => {
                bench.vfs.truncate(&caller, name, at as u64).await.expect("cut");
                model.resize(at, 0);
            }
            2 => bench.vfs.drop_caches().await.expect("dropped"),
            3 => bench.vfs.fsync(&caller, file).await.expect("synced"),
            4 => bench.vfs.sync().await.expect("synced"),
            5 => bench.sim.sleep(u64::from(stream.below(20)) * SECOND_NS).await,
            6 => {
                bench.vfs.unlink(&caller, name).await.expect("unlinked");
                let old = files[which].take().expect("it is open");
                bench.vfs.close(&caller, old).await.expect("closed");
                files[which] = Some(bench.open(name).await);
                model.clear();
            }
            7..16 => {
                let bytes = vec![step as u8; count];
                bench.vfs.write(&caller, file, at as u64, &bytes).await.expect("written");
                model.resize(model.len().max(at + count), 0);
                model[at..at + count].copy_from_slice(&bytes);
            }
            _ => {
                let mut bytes = vec![0xee; count];
                let found = bench.vfs.read(file, at as u64, &mut bytes).await.expect("it reads");
                let end = model.len().min(at + count);
                assert_eq!(bytes[..found], model[at.min(end)..end], "{seed}, step {step}");
            }
        }
    }
    for file in files.into_iter().flatten() {
        bench.vfs.close(&caller, file).await.expect("closed");
    }
    names.into_iter().zip(models).collect()
}

fn storm(kernel: &str, pages: u64) -> Vec<Event> {
    run_on(board(kernel, pages), async move |bench| {
        // More than is dirty at a time where memory is small, so that space is short now and then.
        bench.fs.space_pages.set(60);
        let models = Rc::new(RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for seed in 1..=3 {
            let (bench, models) = (bench.clone(), models.clone());
            tasks.push(bench.sim.clone().spawn(async move {
                let done = random_calls(&bench, seed, 400).await;
                models.borrow_mut().extend(done);
            }));
        }
        for task in tasks {
            task.await;
        }
        bench.vfs.unmount().await.expect("unmounted");
        assert_eq!(bench.fs.promises(), 0);
        let models = models.take();
        assert_eq!(models.len(), 9);
        for (name, model) in models {
            assert!(bench.below(&name).await == model, "{}", String::from_utf8_lossy(&name));
        }
    })
}

#[test]
fn writers_and_the_flusher_at_a_time() {
    for kernel in ["2.6.29", "2.6.35", "3.4", "6.12"] {
        for pages in [8, 64, 2000] {
            assert!(storm(kernel, pages).len() > 1000);
        }
    }
}

#[test]
fn what_is_written_when_is_the_same_every_time() {
    assert_eq!(storm("6.12", 64), storm("6.12", 64));
}

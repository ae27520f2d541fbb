//! Files by way of the caches of a kernel, against bytes in memory.

use board::Board;
use fs_api::{Caller, Errno, NewInode, Time};
use random::Stream;
use sim::{Cpus, RunEnd, Sim, Simulation};
use std::rc::Rc;
use vfs::{MemoryFileSystem, OpenOptions, Vfs};

const ROOT: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };

/// Runs a job on an empty file system under a cache of `pages` pages.
fn run<F: Future<Output = ()> + 'static>(
    pages: u64,
    job: impl FnOnce(Sim, Rc<Vfs<MemoryFileSystem>>) -> F,
) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let mut board = Board::without_costs();
    board.available_bytes = pages * 4096;
    board.costs.syscall_ns = 1000;
    board.costs.copy_ps_per_byte = 500;
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let memory = Rc::new(MemoryFileSystem::new(&ROOT));
    let vfs = Rc::new(Vfs::cached(&sim, &cpus, &Rc::new(board), memory));
    let task = sim.spawn(job(sim.clone(), vfs));
    let end = simulation.run();
    assert!(task.is_finished(), "{end:?}");
    assert_eq!(end, RunEnd::Blocked { tasks: 1 }, "only the flusher waits");
}

fn creating() -> OpenOptions {
    OpenOptions { create: Some(0o644), ..OpenOptions::default() }
}

#[test]
fn what_is_read_is_what_was_written_however_few_pages_stay() {
    for (seed, pages) in [(1, 4), (2, 16), (3, 1000)] {
        run(pages, async move |_, vfs| {
            let mut stream = Stream::new(seed, "calls");
            let file = vfs.open(&ROOT, b"f", creating()).await.unwrap();
            let mut model: Vec<u8> = Vec::new();
            for step in 0..2000_u32 {
                let at = stream.below(100_000) as usize;
                let count = 1 + stream.below(20_000) as usize;
                match stream.below(10) {
                    0 => {
                        vfs.truncate(&ROOT, b"f", at as u64).await.unwrap();
                        model.resize(at, 0);
                    }
                    1 => vfs.drop_caches().await.unwrap(),
                    2..6 => {
                        let bytes = vec![step as u8; count];
                        vfs.write(&ROOT, &file, at as u64, &bytes).await.unwrap();
                        model.resize(model.len().max(at + count), 0);
                        model[at..at + count].copy_from_slice(&bytes);
                    }
                    _ => {
                        let mut bytes = vec![0xee; count];
                        let found = vfs.read(&file, at as u64, &mut bytes).await.unwrap();
                        let end = model.len().min(at + count);
                        assert_eq!(bytes[..found], model[at.min(end)..end], "step {step}");
                    }
                }
            }
            assert!(vfs.cached_pages() <= pages);
            vfs.close(&ROOT, file).await.unwrap();
        });
    }
}

#[test]
fn a_read_that_is_remembered_costs_the_call_and_the_copy() {
    run(1000, async |sim, vfs| {
        let file = vfs.open(&ROOT, b"f", creating()).await.unwrap();
        vfs.write(&ROOT, &file, 0, &[1; 8192]).await.unwrap();
        assert_eq!(vfs.cached_pages(), 2);
        let before = sim.now();
        vfs.read(&file, 0, &mut [0; 8192]).await.unwrap();
        assert_eq!(sim.now() - before, 1000 + 8192 / 2);
        vfs.drop_caches().await.unwrap();
        assert_eq!(vfs.cached_pages(), 0);
        vfs.close(&ROOT, file).await.unwrap();
    });
}

#[test]
fn a_name_that_comes_and_goes_is_never_mistaken() {
    run(1000, async |_, vfs| {
        assert_eq!(vfs.stat(b"d/a").await.unwrap_err(), Errno::Enoent);
        vfs.make(&ROOT, b"d", NewInode::Directory(0o755)).await.unwrap();
        assert_eq!(vfs.stat(b"d/a").await.unwrap_err(), Errno::Enoent);
        let file = vfs.open(&ROOT, b"d/a", creating()).await.unwrap();
        vfs.write(&ROOT, &file, 0, b"one").await.unwrap();
        vfs.link(&ROOT, b"d/a", b"d/b").await.unwrap();
        vfs.rename(&ROOT, b"d/a", b"c").await.unwrap();
        assert_eq!(vfs.stat(b"d/a").await.unwrap_err(), Errno::Enoent);
        assert_eq!(vfs.stat(b"c").await.unwrap().links, 2);
        vfs.unlink(&ROOT, b"c").await.unwrap();
        vfs.unlink(&ROOT, b"d/b").await.unwrap();
        assert_eq!(vfs.stat(b"d/b").await.unwrap_err(), Errno::Enoent);
        // The file is open: it can still be read.
        let mut bytes = [0; 3];
        assert_eq!(vfs.read(&file, 0, &mut bytes).await, Ok(3));
        assert_eq!(&bytes, b"one");
        vfs.close(&ROOT, file).await.unwrap();
        vfs.remove_directory(&ROOT, b"d").await.unwrap();
        assert_eq!(vfs.stat(b"d/b").await.unwrap_err(), Errno::Enoent);
        assert_eq!(vfs.cached_pages(), 0);
    });
}

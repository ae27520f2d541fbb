//! What the page cache says of a file's pages, and what its calls may not wait for or write.

use crate::flusher::{Bench, bench, bench_of, dirty};
use crate::support;

use page_cache::{FileError, PAGE_BYTES, Process, WriteHooks};
use std::cell::Cell;
use std::ops::Range;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn a_file_is_dirty_until_its_pages_are_written() {
    let Bench { mut simulation, sim, files, .. } = bench("3.4");
    let job = sim.clone().spawn(async move {
        let file = &files[0];
        assert!(!file.is_dirty());
        dirty(file, 5..7).await;
        assert!(file.is_dirty());
        assert_eq!(file.unwritten_pages(), 2);
        file.fsync(Process::new(10)).await.expect("written");
        assert!(!file.is_dirty());
        assert_eq!(file.unwritten_pages(), 0);
        // A range ends before its end.
        let found = [0..5, 4..6, 5..6, 7..9].map(|pages: Range<u64>| file.has_pages(&pages));
        assert_eq!(found, [false, true, true, false]);
    });
    simulation.run_until(SECOND_NS);
    assert!(job.is_finished());
}

/// A file system short of space passes over pages that are held: it may hold them itself.
#[test]
fn relief_of_a_shortage_waits_for_no_page() {
    let Bench { mut simulation, sim, files, written, .. } = bench("3.4");
    let job = sim.clone().spawn(async move {
        dirty(&files[0], 3..6).await;
        let held = files[0].lock_pages(4).await;
        assert_eq!(held, [4, 5]);
        files[0].cache().clone().relieve(0, 100).await;
        files[0].unlock_pages(&held);
    });
    simulation.run_until(SECOND_NS);
    assert!(job.is_finished(), "it waits for the pages that its caller holds");
    assert_eq!(*written.borrow(), [(0, 3)]);
}

/// The flusher waits for a page that a task is changing; it does not leave it out.
#[test]
fn a_sync_waits_for_a_page_that_is_held() {
    let Bench { mut simulation, sim, files, written, .. } = bench("3.4");
    let job = sim.clone().spawn(async move {
        dirty(&files[0], 3..5).await;
        let held = files[0].lock_pages(4).await;
        let (file, clock) = (files.clone(), sim.clone());
        sim.spawn(async move {
            clock.sleep(1_000_000).await;
            file[0].unlock_pages(&held);
        });
        files[0].cache().clone().write_all(0).await;
    });
    simulation.run_until(SECOND_NS);
    assert!(job.is_finished());
    assert_eq!(*written.borrow(), [(0, 3), (0, 4)]);
}

/// A file system that sets space aside without trouble.
struct Ready(Cell<u32>);

impl WriteHooks for Ready {
    async fn begin(&self, _: u64, _: Range<usize>, is_cached: bool) -> Result<bool, FileError> {
        self.0.set(self.0.get() + 1);
        // A page that is not in memory would have to be read.
        Ok(!is_cached)
    }

    async fn end(&self, _: u64, _: Range<usize>) -> Result<(), FileError> {
        Ok(())
    }
}

#[test]
fn a_page_is_changed_once_space_is_set_aside() {
    let Bench { mut simulation, sim, files, .. } = bench("3.4");
    let job = sim.clone().spawn(async move {
        let hooks = Ready(Cell::new(0));
        let new = vec![7; 2 * PAGE_BYTES as usize];
        files[0]
            .write_hooked(Process::new(10), 0..2 * PAGE_BYTES, &new, 0, &hooks)
            .await
            .expect("written");
        // Each page is asked for, read, and asked for again.
        assert_eq!(hooks.0.get(), 4);
        assert_eq!(files[0].unwritten_pages(), 2);
    });
    simulation.run_until(SECOND_NS);
    assert!(job.is_finished(), "the page is never what it was");
}

/// More than the background limit starts the flusher at once; its timer of five seconds is for old
/// pages (`balance_dirty_pages` calls `bdi_start_background_writeback`).
#[test]
fn the_flusher_starts_with_the_first_look_over_the_background_limit() {
    for kernel in ["2.6.29", "2.6.35", "3.1", "3.4"] {
        let mut board = support::board();
        board.kernel = kernel.into();
        board.available_bytes = 64 << 20;
        let mut rig = support::rig(board);
        let (background, dirty_most) = rig.cache.dirty_limits();
        let (file, sim, cache) = (rig.file.clone(), rig.sim.clone(), rig.cache.clone());
        let left = rig.run(async move {
            let pages = u64::midpoint(background, dirty_most);
            // The writers of the first kernels look every 1,024 pages: once over the limit, here.
            file.write(Process::new(10), 0, pages.min(2048) * 4096, page_cache::Mode::Buffered)
                .await
                .expect("written");
            sim.sleep(SECOND_NS).await;
            cache.statistics().dirty
        });
        assert!(left <= background, "{kernel}: {left} of {background} pages");
    }
}

/// A writer over the limit looks again after a tenth of a second, or when the queue has room
/// (`congestion_wait(HZ/10)` in `balance_dirty_pages` of Linux 2.6.29).
#[test]
fn a_writer_waits_a_tenth_of_a_second_for_a_congested_queue() {
    let Bench { mut simulation, sim, files, congestion, .. } = bench("2.6.29");
    congestion.until_ns.set(SECOND_NS);
    let (_, most) = files[0].cache().dirty_limits();
    let clock = sim.clone();
    let job = sim.clone().spawn(async move {
        dirty(&files[0], 0..most + 2048).await;
        clock.now()
    });
    simulation.run_until(10 * SECOND_NS);
    let end_ns = job.try_take().expect("the writer ends");
    // The copies take 40 ms, and a single wait the rest.
    assert!((100_000_000..200_000_000).contains(&end_ns), "{end_ns} ns");
}

/// Since Linux 3.2 a file's turn is half a second's worth of the device's speed
/// (`writeback_chunk_size`), which the flusher estimates while it works (`wb_update_bandwidth`). The
/// estimate begins at 100 MiB/s; this device writes 20 MiB/s.
#[test]
fn turns_become_shorter_on_a_device_slower_than_the_first_estimate() {
    let Bench { mut simulation, sim, files, written, .. } = bench_of("3.4", 4 << 30, 200_000);
    let held = files.clone();
    sim.clone().spawn(async move {
        dirty(&files[0], 0..50_000).await;
        dirty(&files[1], 0..50_000).await;
    });
    simulation.run_until(90 * SECOND_NS);
    let written = written.borrow();
    let turns: Vec<usize> =
        written.chunk_by(|one, next| one.0 == next.0).map(<[(usize, u64)]>::len).collect();
    assert!(turns[1..4].is_sorted_by(|one, next| one > next), "{turns:?}");
    drop(held);
}

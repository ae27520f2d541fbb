//! Reading through the cache.

use crate::support;

use page_cache::{Mode, Process};
use sched::Direction;
use support::{MIB, board, rig};

/// Windows as `mm/readahead.c` of Linux 3.4 opens them with 128 KiB of read-ahead.
#[test]
fn a_stream_opens_windows_of_4_8_16_and_32_pages() {
    for (call_bytes, windows) in [
        (4096, vec![(0, 4), (4, 8), (12, 16), (28, 32), (60, 32), (92, 32)]),
        (16_384, vec![(0, 8), (8, 16), (24, 32), (56, 32), (88, 32)]),
        (131_072, vec![(0, 64), (64, 32), (96, 32)]),
    ] {
        let mut rig = rig(board());
        let file = rig.file.clone();
        rig.run(async move {
            for offset in (0..80 * 4096 / call_bytes * call_bytes).step_by(call_bytes as usize) {
                file.read(Process::new(10), offset, call_bytes, Mode::Buffered).await.unwrap();
            }
        });
        let bios = rig.completed.borrow().pages(Direction::Read);
        assert_eq!(bios, windows[..bios.len()], "calls of {call_bytes}");
        assert!(bios.len() + 1 >= windows.len());
    }
}

#[test]
fn random_reads_read_what_is_asked_for_and_only_once() {
    let mut rig = rig(board());
    let file = rig.file.clone();
    rig.run(async move {
        for _ in 0..2 {
            for page in [5000, 100, 70_000, 300] {
                file.read(Process::new(10), page * 4096, 8192, Mode::Buffered).await.unwrap();
            }
        }
    });
    let bios = rig.completed.borrow().pages(Direction::Read);
    assert_eq!(bios, [(5000, 2), (100, 2), (70_000, 2), (300, 2)]);
}

#[test]
fn two_readers_of_a_page_make_one_bio() {
    let mut rig = rig(board());
    for pid in [10, 11] {
        let file = rig.file.clone();
        rig.sim.spawn(async move {
            let page = file.read(Process::new(pid), 9000 * 4096, 4096, Mode::Buffered).await;
            assert!(page.expect("inside the device").latency_ns >= support::SERVICE_NS);
        });
    }
    let sim = rig.sim.clone();
    rig.run(async move { sim.sleep(100_000_000).await });
    assert_eq!(rig.completed.borrow().pages(Direction::Read), [(9000, 1)]);
}

#[test]
fn a_cached_read_costs_the_call_the_page_and_the_copy() {
    let mut rig = rig(board());
    let file = rig.file.clone();
    let transfer = rig.run(async move {
        file.read(Process::new(10), 0, 4096, Mode::Buffered).await.unwrap();
        file.read(Process::new(10), 0, 4096, Mode::Buffered).await.unwrap()
    });
    let costs = &rig.board.costs;
    let copy_ns = 4096 * costs.copy_ps_per_byte / 1000;
    assert_eq!(transfer.latency_ns, costs.syscall_ns + costs.page_ns + copy_ns);
}

#[test]
fn memory_bounds_the_cache_and_old_pages_go_first() {
    let mut board = board();
    board.available_bytes = MIB;
    let mut rig = rig(board);
    let (file, cache) = (rig.file.clone(), rig.cache.clone());
    rig.run(async move {
        for page in 0..1000 {
            file.read(Process::new(10), page * 7 * 4096, 4096, Mode::Buffered).await.unwrap();
            assert!(cache.statistics().pages <= 256);
        }
        let before = cache.statistics();
        assert!(before.evicted >= 744);
        file.read(Process::new(10), 999 * 7 * 4096, 4096, Mode::Buffered).await.unwrap();
        assert_eq!(cache.statistics(), before, "the last page is still there");
        file.read(Process::new(10), 7 * 4096, 4096, Mode::Buffered).await.unwrap();
        assert_eq!(cache.statistics().evicted, before.evicted + 1, "an early one is not");
    });
}

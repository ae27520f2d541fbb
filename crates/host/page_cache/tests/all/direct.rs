//! Direct transfers against sums of their parts.

use crate::support;

use device::ConstantDevice;
use page_cache::{FileError, Mode, Process};
use sched::Direction;
use support::{DEVICE_BYTES, MIB, SERVICE_NS, board, rig, rig_over};

#[test]
fn a_small_call_costs_system_call_submission_service_and_completion() {
    let mut rig = rig(board());
    let file = rig.file.clone();
    for is_read in [true, false] {
        let file = file.clone();
        let transfer = rig.run(async move {
            let process = Process::new(10);
            if is_read {
                file.read(process, 4096, 4096, Mode::Direct).await
            } else {
                file.write(process, 4096, 4096, Mode::Direct).await
            }
        });
        let transfer = transfer.expect("inside the device");
        let costs = &rig.board.costs;
        let sum = costs.syscall_ns + costs.bio_submit_ns + SERVICE_NS + costs.bio_complete_ns;
        assert_eq!((transfer.bytes, transfer.latency_ns), (4096, sum));
        assert_eq!(transfer.slowest.expect("a bio").q2c_ns(), SERVICE_NS);
    }
    let completed = rig.completed.borrow();
    let flags: Vec<_> =
        completed.0.iter().map(|times| (times.bio.sync, times.bio.noidle)).collect();
    assert_eq!(flags, [(true, false); 2]);
}

#[test]
fn a_large_call_is_cut_at_the_limits_of_bio_and_queue() {
    for (max_sectors, bio_pages) in [(1024, 128), (4096, 256), (248, 31)] {
        let device = Box::new(ConstantDevice::new(DEVICE_BYTES / 512, SERVICE_NS, 2));
        let mut rig = rig_over(board(), device, max_sectors);
        let file = rig.file.clone();
        let call = async move { file.read(Process::new(10), 0, 4 * MIB, Mode::Direct).await };
        let transfer = rig.run(call).expect("inside the device");
        assert_eq!(transfer.bytes, 4 * MIB);
        let mut bios = rig.completed.borrow().pages(Direction::Read);
        bios.sort_unstable();
        let mut expected = Vec::new();
        let mut at = 0;
        while at < 1024 {
            expected.push((at, bio_pages.min(1024 - at)));
            at += bio_pages;
        }
        assert_eq!(bios, expected, "max_sectors {max_sectors}");
    }
}

#[test]
fn the_end_of_one_bio_overlaps_with_the_service_of_the_next() {
    let mut rig = rig(board());
    let file = rig.file.clone();
    let call = async move { file.write(Process::new(10), 0, 2 * MIB, Mode::Direct).await };
    let transfer = rig.run(call).expect("inside the device");
    let costs = &rig.board.costs;
    let sum = costs.syscall_ns + 4 * costs.bio_submit_ns + 4 * SERVICE_NS + costs.bio_complete_ns;
    assert_eq!(transfer.latency_ns, sum);
}

#[test]
fn the_seventeenth_bio_makes_the_plug_go() {
    let mut rig = rig(board());
    let file = rig.file.clone();
    let call = async move { file.write(Process::new(10), 0, 10 * MIB, Mode::Direct).await };
    rig.run(call).expect("inside the device");
    let costs = &rig.board.costs;
    let completed = rig.completed.borrow();
    let mut inserts: Vec<u64> = completed.0.iter().map(|times| times.insert_ns).collect();
    inserts.sort_unstable();
    let first_ns = costs.syscall_ns + 17 * costs.bio_submit_ns;
    assert_eq!(inserts[..16], [first_ns; 16]);
    assert_eq!(inserts[16..], [first_ns + 3 * costs.bio_submit_ns; 4]);
}

#[test]
fn what_does_not_fit_is_refused_or_cut_short() {
    let mut rig = rig(board());
    let file = rig.file.clone();
    rig.run(async move {
        let process = Process::new(10);
        let odd = file.read(process, 100, 512, Mode::Direct).await;
        assert_eq!(odd, Err(FileError::Misaligned { offset: 100, end: 612 }));
        for mode in [Mode::Direct, Mode::Buffered] {
            let past = file.write(process, DEVICE_BYTES, 512, mode).await;
            assert_eq!(past, Err(FileError::NoSpace { offset: DEVICE_BYTES, size: DEVICE_BYTES }));
            let short = file.write(process, DEVICE_BYTES - 4096, 8192, mode).await.map(|t| t.bytes);
            assert_eq!(short, Ok(4096));
            let none = file.read(process, DEVICE_BYTES, 4096, mode).await.map(|t| t.bytes);
            assert_eq!(none, Ok(0));
        }
    });
}

#[test]
fn a_direct_call_sees_and_replaces_what_the_cache_holds() {
    let mut rig = rig(board());
    let file = rig.file.clone();
    let cache = rig.cache.clone();
    rig.run(async move {
        let process = Process::new(10);
        file.write(process, 0, 8192, Mode::Buffered).await.expect("dirty");
        file.read(process, 4096, 4096, Mode::Direct).await.expect("written before");
        assert_eq!((cache.statistics().dirty, cache.statistics().pages), (1, 2));
        file.write(process, 0, 4096, Mode::Direct).await.expect("written before");
        assert_eq!((cache.statistics().dirty, cache.statistics().pages), (0, 1));
    });
    assert_eq!(rig.completed.borrow().pages(Direction::Write), [(1, 1), (0, 1), (0, 1)]);
}

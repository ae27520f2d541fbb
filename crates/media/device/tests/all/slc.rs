//! The SLC cache: hand-computed times, and the signatures of its kinds.

use crate::support::{device, keep_busy, small};
use device::{BlockDevice, Command, FlashDevice, Precondition, Preconditioning};

const PAGE: u32 = 8;
const OVERHEAD_NS: u64 = 10_000;
const HOST_NS: u64 = 20_480;
const TRANSFER_NS: u64 = 21_120;
const LOWER_NS: u64 = 400_000;
const UPPER_NS: u64 = 1_800_000;

/// Blocks with one bit a cell: half of the eight pages of the part, both planes together.
fn cached(changes: &[(&str, &str)]) -> FlashDevice {
    let times = [
        ("slc.read_ns", "25000"),
        ("slc.program_ns", "200000"),
        ("slc.erase_ns", "2000000"),
        // Two blocks of both planes: eight pages.
        ("slc.blocks_per_die", "4"),
    ];
    let all: Vec<_> = times.iter().chain(changes).copied().collect();
    device(&small(&all), 1_200)
}

fn write(device: &mut FlashDevice, now_ns: u64, page: u64) -> u64 {
    let command = Command::write(page * u64::from(PAGE), PAGE);
    device.submit(now_ns, &command).expect("written").done_ns - now_ns
}

fn read(device: &mut FlashDevice, now_ns: u64, page: u64) -> u64 {
    let command = Command::read(page * u64::from(PAGE), PAGE);
    device.submit(now_ns, &command).expect("read").done_ns - now_ns
}

#[test]
fn writes_take_the_time_of_one_bit_a_cell_until_the_pool_is_full() {
    let slc_ns = OVERHEAD_NS + HOST_NS + TRANSFER_NS + 200_000;
    let mut device = cached(&[]);
    let mut now_ns = 0;
    for page in 0..8 {
        assert_eq!(write(&mut device, now_ns, page), slc_ns, "page {page}");
        now_ns += 1_000_000;
    }
    // Past the pool a write is one of the layer: its lower page.
    assert_eq!(write(&mut device, now_ns, 8), slc_ns - 200_000 + LOWER_NS);
    // A page with a copy in the pool goes there again: four pages are folded first, to three lower pages and an upper one.
    let moved_ns = 4 * (25_000 + 2 * TRANSFER_NS) + 3 * LOWER_NS + UPPER_NS + 2_000_000;
    assert_eq!(write(&mut device, now_ns + 1_000_000, 4), moved_ns + slc_ns);
    let statistics = device.statistics();
    assert_eq!((statistics.slc.written_pages, statistics.slc.stale_pages), (9, 1));
    assert_eq!((statistics.chip.page_programs, statistics.slc_chip.page_programs), (14, 9));
    // Reads take the time of where the page lies.
    let slc_read_ns = OVERHEAD_NS + 25_000 + TRANSFER_NS + HOST_NS;
    assert_eq!(read(&mut device, now_ns + 12_000_000, 5), slc_read_ns);
    assert_eq!(read(&mut device, now_ns + 13_000_000, 0), slc_read_ns + 50_000);
}

#[test]
fn a_full_pool_that_folds_makes_the_write_wait_for_a_block() {
    let mut device = cached(&[("slc.when_full", "fold")]);
    let mut now_ns = 0;
    for page in 0..8 {
        write(&mut device, now_ns, page);
        now_ns += 1_000_000;
    }
    // The oldest block: four pages are read and programmed, lower pages all, then it is erased.
    let fold_ns = 4 * (25_000 + TRANSFER_NS + TRANSFER_NS + LOWER_NS) + 2_000_000;
    let slc_ns = OVERHEAD_NS + HOST_NS + TRANSFER_NS + 200_000;
    assert_eq!(write(&mut device, now_ns, 8), fold_ns + slc_ns);
    assert_eq!(device.statistics().slc.folded_pages, 4);
    // Then there is room for three more; page 4 is written again.
    now_ns += 10_000_000;
    for page in [9, 10, 4] {
        assert_eq!(write(&mut device, now_ns, page), slc_ns);
        now_ns += 1_000_000;
    }
    // So one of the four pages of the next block is stale and is not moved; the others become upper pages.
    let fold_ns = 3 * (25_000 + TRANSFER_NS + TRANSFER_NS + UPPER_NS) + 2_000_000;
    assert_eq!(write(&mut device, now_ns, 11), fold_ns + slc_ns);
    let statistics = device.statistics();
    assert_eq!((statistics.slc.folded_pages, statistics.slc.stale_pages), (7, 1));
}

#[test]
fn idle_time_gives_the_burst_back() {
    let mut device = cached(&[("slc.fold_idle_ns", "5000000")]);
    let burst = |device: &mut FlashDevice, from_ns: u64| {
        let times: Vec<u64> =
            (0..8).map(|page| write(device, from_ns + page * 300_000, page)).collect();
        times
    };
    let first = burst(&mut device, 0);
    // At once, the pool is full.
    assert!(burst(&mut device, 2_500_000).iter().sum::<u64>() > first.iter().sum::<u64>() * 3 / 2);
    let mut device = cached(&[("slc.fold_idle_ns", "5000000")]);
    burst(&mut device, 0);
    assert_eq!(burst(&mut device, 100_000_000), first);
    let statistics = device.statistics();
    assert_eq!((statistics.slc.folded_pages, statistics.foreground_cleaning_ns), (8, 0));
    assert!(statistics.background_cleaning_ns > 8 * LOWER_NS);
}

/// Pages written before throughput falls, on a device that is filled to so many percent.
fn burst_pages(filled_permille: u32) -> u64 {
    let mut device =
        cached(&[("slc.dynamic_blocks_per_die", "1100"), ("flash.capacity_bytes", "16777216")]);
    if filled_permille > 0 {
        let fill = Precondition {
            fill: device::Fill::Permille(filled_permille),
            ..Preconditioning::Fill.steps(1).expect("a fill")
        };
        device.precondition(&fill).expect("filled");
    }
    let mut now_ns = 0;
    for page in 0..4_096 {
        let spent_ns = write(&mut device, now_ns, page);
        if spent_ns > OVERHEAD_NS + HOST_NS + TRANSFER_NS + 200_000 {
            return page;
        }
        now_ns += spent_ns;
    }
    4_096
}

#[test]
fn a_dynamic_pool_shrinks_as_the_device_fills() {
    let bursts: Vec<u64> = [0, 300, 600, 900].map(burst_pages).into();
    assert!(bursts.windows(2).all(|pair| pair[1] <= pair[0]), "{bursts:?}");
    assert!(bursts[0] > 3 * bursts[3] && bursts[3] >= 8, "{bursts:?}");
}

#[test]
fn full_pools_write_with_one_cliff_or_in_a_saw_tooth() {
    let times = |when_full: &str| {
        let mut device = cached(&[("slc.when_full", when_full), ("slc.blocks_per_die", "40")]);
        let writes = (0..400).map(|page| Command::write(page * u64::from(PAGE), PAGE));
        let (served, _) = keep_busy(&mut device, 0, 1, writes);
        served.iter().map(|(at_ns, done)| done.done_ns - at_ns).collect::<Vec<u64>>()
    };
    let (bypass, fold) = (times("bypass"), times("fold"));
    // Eighty pages in both.
    assert_eq!(bypass[..80], fold[..80]);
    let mean = |times: &[u64]| times.iter().sum::<u64>() / times.len() as u64;
    assert!(mean(&bypass[80..]) > 3 * mean(&bypass[..80]));
    // Folding is slower than the layer alone: each page is programmed twice.
    assert!(mean(&fold[80..]) > mean(&bypass[80..]));
    let waits = fold[80..].iter().filter(|time_ns| **time_ns > 2_000_000).count();
    assert_eq!(waits, 80, "every fourth write waits for a block");
}

#[test]
fn preconditioning_leaves_it_empty_and_its_counts_at_zero() {
    let mut device = cached(&[]);
    for page in 0..6 {
        write(&mut device, page * 1_000_000, page);
    }
    let fill = Preconditioning::Fill.steps(1).expect("a fill");
    device.precondition(&fill).expect("filled");
    let statistics = device.statistics();
    assert_eq!((statistics.slc, statistics.slc_chip), Default::default());
    // The pages come from the layer, and there is room for eight again.
    assert_eq!(read(&mut device, 0, 0), OVERHEAD_NS + 75_000 + TRANSFER_NS + HOST_NS);
    let slc_ns = OVERHEAD_NS + HOST_NS + TRANSFER_NS + 200_000;
    for page in 0..8 {
        assert_eq!(write(&mut device, 1_000_000 * (page + 1), page), slc_ns, "page {page}");
    }
    assert!(write(&mut device, 20_000_000, 9) > slc_ns);
}

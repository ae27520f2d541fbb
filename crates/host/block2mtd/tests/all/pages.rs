//! Bytes, pages and bios of the driver, over a block device in memory.

use block_medium::MemoryMedium;
use block2mtd::{AttachError, Block2Mtd, Options, Statistics};
use board::Board;
use mtd::{RamError, RamMtd};
use page_cache::{CacheOptions, PAGE_BYTES, PageCache};
use random::Stream;
use sim::{Cpus, Sim, Simulation};
use std::cell::RefCell;
use std::rc::Rc;

const BLOCK_BYTES: u32 = 16 << 10;
const PAGE: usize = PAGE_BYTES as usize;

fn options() -> Options {
    Options {
        block_bytes: BLOCK_BYTES,
        size_bytes: u64::MAX,
        takes_time: false,
        holds_writers: true,
    }
}

/// The driver over a medium, on a host with so much memory for pages.
fn attach(
    sim: &Sim,
    medium: &Rc<MemoryMedium>,
    options: Options,
    available_bytes: u64,
) -> Result<Rc<Block2Mtd>, AttachError> {
    let board = Rc::new(Board { available_bytes, ..Board::without_costs() });
    let cpus = Rc::new(Cpus::new(sim, 1, 10_000_000));
    let cache_options = CacheOptions { stores_bytes: true };
    let cache = PageCache::new(sim, &cpus, &board, cache_options);
    Block2Mtd::attach(sim, &cache, medium.clone(), options)
}

fn run<F: Future<Output = ()> + 'static>(job: impl FnOnce(Sim) -> F) -> bool {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let work = job(sim.clone());
    let task = sim.clone().spawn_named("job", async move {
        work.await;
        sim.stop();
    });
    simulation.run();
    task.is_finished()
}

fn zeros(blocks: u64) -> Rc<MemoryMedium> {
    Rc::new(MemoryMedium::new(PAGE, blocks * u64::from(BLOCK_BYTES)))
}

#[test]
fn pages_are_read_one_by_one_and_stay_in_memory() {
    let medium = zeros(4);
    assert!(run(move |sim| async move {
        let device = attach(&sim, &medium, options(), 1 << 30).expect("it can be");
        let mut bytes = vec![1; 3 * PAGE];
        device.read(100, &mut bytes).await.expect("read");
        assert_eq!(bytes, vec![0; 3 * PAGE]);
        assert_eq!(medium.take_reads(), [(0, 1), (1, 1), (2, 1), (3, 1)]);
        device.read(0, &mut bytes).await.expect("read");
        assert_eq!(medium.take_reads(), []);
        device.drop_pages();
        device.read(0, &mut bytes[..1]).await.expect("read");
        assert_eq!(medium.take_reads(), [(0, 1)]);
    }));
}

#[test]
fn a_write_reads_the_page_and_dirties_it_only_if_it_differs() {
    let medium = zeros(4);
    assert!(run(move |sim| async move {
        let device = attach(&sim, &medium, options(), 1 << 30).expect("it can be");
        device.write(0, &vec![0; 2 * PAGE]).await.expect("written");
        assert_eq!(device.statistics(), Statistics { same_pages: 2, ..Statistics::default() });
        assert_eq!(device.mapping().unwritten_pages(), 0);
        device.write(PAGE_BYTES - 1, &[7, 8]).await.expect("written");
        assert_eq!(device.mapping().unwritten_pages(), 2);
        device.write(8 * PAGE_BYTES, &[9; PAGE]).await.expect("written");
        assert_eq!(medium.take_reads(), [(0, 1), (1, 1), (8, 1)], "a whole page is read, too");
        assert_eq!(medium.take_bios(), []);
        device.sync().await.expect("synced");
        let bios = medium.take_bios();
        let places: Vec<_> = bios.iter().map(|bio| (bio.block, bio.blocks)).collect();
        assert_eq!(places, [(0, 2), (8, 1)]);
        let is_callers = |flags: &block_medium::Bio| {
            flags.flags.is_sync
                && !flags.flags.flushes_before
                && flags.process == process::Process::INIT
        };
        assert!(bios.iter().all(is_callers), "{bios:?}");
        assert_eq!(medium.block(0)[PAGE - 1], 7);
        assert_eq!(medium.block(1)[..2], [8, 0]);
        device.sync().await.expect("synced");
        assert_eq!(medium.take_bios(), []);
    }));
}

#[test]
fn an_erase_fills_the_pages_that_are_not_blank() {
    let medium = zeros(4);
    medium.set_block(5, &[0xff; PAGE]);
    assert!(run(move |sim| async move {
        let device = attach(&sim, &medium, options(), 1 << 30).expect("it can be");
        device.erase(1).await.expect("erased");
        let statistics = device.statistics();
        assert_eq!((statistics.erased_pages, statistics.blank_pages), (3, 1));
        device.sync().await.expect("synced");
        let places: Vec<_> = medium.take_bios().iter().map(|bio| (bio.block, bio.blocks)).collect();
        assert_eq!(places, [(4, 1), (6, 2)]);
        assert!((4..8).all(|page| medium.block(page) == [0xff; PAGE]));
        assert_eq!(medium.block(8), [0; PAGE]);
    }));
}

#[test]
fn nothing_reaches_past_the_end_and_odd_sizes_are_refused() {
    let medium = Rc::new(MemoryMedium::new(PAGE, 4 * u64::from(BLOCK_BYTES) + PAGE_BYTES));
    assert!(run(move |sim| async move {
        let device = attach(&sim, &medium, options(), 1 << 30).expect("it can be");
        let end = 4 * u64::from(BLOCK_BYTES);
        assert_eq!(device.size_bytes(), end, "a part of an erase block is left out");
        assert_eq!(device.write(end - 1, &[1, 2]).await, Err(RamError { offset: end - 1 }));
        assert_eq!(device.read(u64::MAX, &mut [0]).await, Err(RamError { offset: u64::MAX }));
        assert_eq!(device.erase(4).await, Err(RamError { offset: end }));
        let odd = Options { block_bytes: 6000, ..options() };
        let refused = attach(&sim, &medium, odd, 1 << 30).err().expect("refused");
        assert_eq!(refused.to_string(), "an erase block of 6000 bytes: choose a multiple of 4096");
        let large = Options { block_bytes: 1 << 20, ..options() };
        let refused = attach(&sim, &medium, large, 1 << 30).err();
        assert!(matches!(refused, Some(AttachError::TooSmall { .. })), "{refused:?}");
        let sectors = Rc::new(MemoryMedium::new(512, 1 << 20));
        let refused = attach(&sim, &sectors, options(), 1 << 30).err();
        assert_eq!(refused, Some(AttachError::DeviceBlock { bytes: 512 }));
    }));
}

/// Kernels before 3.10 let the driver dirty all memory.
#[test]
fn writers_are_held_where_the_kernel_holds_them() {
    for (holds_writers, most) in [(true, 110), (false, 600)] {
        let medium = zeros(256);
        assert!(run(move |sim| async move {
            let asked = Options { holds_writers, ..options() };
            // Of 512 pages a fifth may be dirty.
            let device = attach(&sim, &medium, asked, 512 * PAGE_BYTES).expect("it can be");
            let mut dirty = 0;
            for page in 0..600 {
                device.write(page * PAGE_BYTES, &[1]).await.expect("written");
                dirty = dirty.max(device.mapping().unwritten_pages());
            }
            assert!((most - 30..=most + 30).contains(&dirty), "{holds_writers}: {dirty} dirty");
        }));
    }
}

/// Random reads, writes, erases and syncs against an array; then the power fails. Every page on the medium is
/// one that was in memory at some time, and after a sync the latest, but for the half of the last.
#[test]
fn bytes_come_back_and_a_cut_leaves_pages_of_some_time() {
    for seed in 0..12_u64 {
        let medium = zeros(8);
        let history: Rc<RefCell<Vec<Vec<Vec<u8>>>>> =
            Rc::new(RefCell::new(vec![vec![vec![0; PAGE]]; 32]));
        let (device_medium, states) = (medium.clone(), history.clone());
        let done = run(move |sim| async move {
            let device =
                attach(&sim, &device_medium, options(), 1 << 30).expect("it can be an MTD");
            device_medium.cut_power_after(150 + seed * 20);
            let mut stream = Stream::new(seed, "bytes");
            let mut model = vec![0_u8; 32 * PAGE];
            loop {
                let at = stream.below(31 * 4096) as usize;
                match stream.below(20) {
                    0..=10 => {
                        let count = 1 + stream.below(4096) as usize;
                        let bytes: Vec<u8> = (0..count).map(|_| stream.next_u64() as u8).collect();
                        model[at..at + count].copy_from_slice(&bytes);
                        for page in at / PAGE..=(at + count - 1) / PAGE {
                            let page_bytes = model[page * PAGE..(page + 1) * PAGE].to_vec();
                            states.borrow_mut()[page].push(page_bytes);
                        }
                        device.write(at as u64, &bytes).await.expect("written");
                    }
                    11..=16 => {
                        let mut bytes = vec![0; 4096];
                        device.read(at as u64, &mut bytes).await.expect("read");
                        assert_eq!(bytes, model[at..at + 4096], "seed {seed}");
                    }
                    17 => {
                        let block = stream.below(8);
                        let first = (block * BLOCK_BYTES) as usize;
                        model[first..first + BLOCK_BYTES as usize].fill(0xff);
                        for page in first / PAGE..first / PAGE + 4 {
                            states.borrow_mut()[page].push(vec![0xff; PAGE]);
                        }
                        device.erase(block).await.expect("erased");
                    }
                    18 => {
                        device.sync().await.expect("synced");
                        for (page, bytes) in (0..).zip(model.chunks_exact(PAGE)) {
                            assert_eq!(device_medium.block(page), bytes, "seed {seed}");
                        }
                    }
                    _ => sim.sleep(u64::from(stream.below(20)) * 1_000_000_000).await,
                }
            }
        });
        assert!(!done && medium.is_cut());
        let is_known = |page: u64| {
            let there = medium.block(page);
            history.borrow()[page as usize].contains(&there)
        };
        let torn = (0..32).filter(|page| !is_known(*page)).count();
        assert!(torn <= 1, "seed {seed}: {torn} pages that never were");
    }
}

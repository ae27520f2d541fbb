//! Sectors through the request queue onto a chip: bytes, and what they cost it.

use block::{Bytes, Plugging, PoolRules, QueueOptions, RequestQueue};
use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
use mtdblock::MtdBlock;
use nand::{Chip, FaultSettings, Storage, find_part};
use random::Stream;
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, find_scheduler};
use shared_page::SharedPage;
use sim::{Cpus, RunEnd, Sim, Simulation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const BLOCKS: u32 = 16;
const SECTORS_PER_BLOCK: u64 = 256;
const PAGES_PER_BLOCK: u64 = 64;

#[derive(Clone)]
struct Rig {
    sim: Sim,
    mtd: Rc<Mtd>,
    device: Rc<MtdBlock>,
    queue: RequestQueue,
}

fn bio(direction: Direction, sector: u64, sectors: u32) -> Bio {
    let class = Class::BestEffort;
    Bio { pid: 1, direction, sync: true, noidle: false, class, level: 4, sector, sectors }
}

impl Rig {
    async fn write(&self, sector: u64, bytes: Vec<u8>) {
        let bio = bio(Direction::Write, sector, (bytes.len() / 512) as u32);
        let bytes: Bytes = Rc::new(RefCell::new(bytes));
        let handle = self.queue.submit_bytes(bio, Some(bytes), None).await;
        handle.wait().await.expect("written");
    }

    async fn read(&self, sector: u64, sectors: u32) -> Vec<u8> {
        let bytes: Bytes = Rc::default();
        let bio = bio(Direction::Read, sector, sectors);
        self.queue.submit_bytes(bio, Some(bytes.clone()), None).await.wait().await.expect("read");
        bytes.take()
    }

    /// Reads, programs and erases of the chip so far.
    fn counts(&self) -> [u64; 3] {
        let counters = self.mtd.with_chip(|chip| chip.counters());
        [counters.reads(), counters.programs(), counters.erases]
    }
}

fn run(job: impl AsyncFnOnce(Rig) + 'static) {
    run_with_block_pages(PAGES_PER_BLOCK as u32, job);
}

fn run_with_block_pages(pages_per_block: u32, job: impl AsyncFnOnce(Rig) + 'static) {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = BLOCKS;
    part.geometry.pages_per_block = pages_per_block;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 1_000_000));
    let options = MtdOptions {
        layout: find_layout("linux-large").expect("in the table"),
        costs: DriverCosts::default(),
        bad_blocks: BadBlocks::Table,
        reads_sub_pages: false,
        takes_time: true,
    };
    let mtd = Mtd::new(&sim, cpus.clone(), chip, options);
    let device = MtdBlock::new(&sim, cpus, mtd.clone(), 3000);
    let entry = find_scheduler("deadline").expect("in the table");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let elevator = Elevator::new(entry, &settings, ElevatorOptions::default());
    let options = QueueOptions {
        plugging: Plugging::Queue,
        pool: PoolRules::PerDirection,
        max_sectors: 255,
        queue_depth: 0,
        cores: 1,
    };
    let queue = RequestQueue::served(&sim, elevator, device.clone(), options);
    let rig = Rig { sim: sim.clone(), mtd, device, queue };
    sim.clone().spawn(async move {
        job(rig).await;
        sim.stop();
    });
    assert_eq!(simulation.run(), RunEnd::Stopped);
}

fn pattern(sector: u64, sectors: u64, salt: u64) -> Vec<u8> {
    (sector..sector + sectors)
        .flat_map(|sector| [sector as u8 ^ salt as u8, salt as u8].repeat(256))
        .collect()
}

#[test]
fn an_erase_block_that_is_written_in_order_costs_one_read_one_erase_and_one_program_of_it() {
    run(async |rig| {
        for sector in (0..SECTORS_PER_BLOCK).step_by(8) {
            rig.write(sector, pattern(sector, 8, 1)).await;
        }
        assert_eq!(rig.counts(), [PAGES_PER_BLOCK, 0, 0], "it is in memory");
        rig.queue.flush(1).await.expect("flushed");
        assert_eq!(rig.counts(), [PAGES_PER_BLOCK, PAGES_PER_BLOCK, 1]);
        let counted = rig.device.statistics();
        assert_eq!((counted.fills, counted.write_backs, counted.written_sectors), (1, 1, 256));
        rig.queue.flush(1).await.expect("flushed");
        assert_eq!(rig.counts(), [PAGES_PER_BLOCK, PAGES_PER_BLOCK, 1], "nothing differs");
    });
}

#[test]
fn writes_that_change_between_two_blocks_cost_a_block_each() {
    run(async |rig| {
        for turn in 0..6 {
            rig.write((turn % 2) * SECTORS_PER_BLOCK, pattern(0, 8, turn)).await;
        }
        // The sixth is still in memory.
        assert_eq!(rig.counts(), [6 * PAGES_PER_BLOCK, 5 * PAGES_PER_BLOCK, 5]);
    });
}

#[test]
fn sectors_of_a_page_are_read_from_the_chip_once() {
    run(async |rig| {
        rig.write(0, pattern(0, 8, 1)).await;
        rig.device.flush().await.expect("flushed");
        let before = rig.counts()[0];
        assert_eq!(rig.read(0, 8).await, pattern(0, 8, 1));
        assert_eq!(rig.counts()[0] - before, 2, "two pages of four sectors");
        rig.write(8, pattern(8, 8, 2)).await;
        let before = rig.counts()[0];
        assert_eq!(rig.read(8, 8).await, pattern(8, 8, 2));
        assert_eq!(rig.counts()[0], before, "the block is in memory");
    });
}

#[test]
fn what_was_written_last_is_what_is_read() {
    run(async |rig| {
        let sectors = u64::from(BLOCKS) * SECTORS_PER_BLOCK;
        let mut model = vec![0xff; sectors as usize * 512];
        let mut numbers = Stream::new(7, "sectors");
        for turn in 0..600 {
            let count = u64::from(1 + numbers.below(24));
            let sector = u64::from(numbers.below((sectors - count) as u32));
            let place = sector as usize * 512..(sector + count) as usize * 512;
            if numbers.below(3) == 0 {
                assert_eq!(rig.read(sector, count as u32).await, model[place]);
            } else {
                let bytes = pattern(sector, count, turn);
                model[place].copy_from_slice(&bytes);
                rig.write(sector, bytes).await;
            }
        }
        rig.queue.flush(1).await.expect("flushed");
        let mut chip = vec![0; model.len()];
        assert!(rig.mtd.read(0, &mut chip).await.expect("read").is_readable());
        assert!(chip == model);
    });
}

/// A page in memory, what it holds, and whether the chip has ever lent it.
struct InMemory {
    page: Rc<SharedPage>,
    bytes: Vec<u8>,
    was_lent: bool,
}

#[test]
fn a_page_in_memory_keeps_its_bytes_whatever_is_written_over_those_of_the_chip() {
    run(async |rig| {
        let sectors = u64::from(BLOCKS) * SECTORS_PER_BLOCK;
        let mut numbers = Stream::new(9, "lent pages");
        let mut pages: Vec<InMemory> = Vec::new();
        for turn in 0..300 {
            let place = u64::from(numbers.below((sectors / 8) as u32));
            let bytes = pattern(place * 8, 8, turn);
            let page = SharedPage::zeroed();
            page.change(|own| own.copy_from_slice(&bytes));
            // Before the write is carried out, or after it.
            let is_early = numbers.below(2) == 0;
            if is_early {
                rig.device.keep_once(place, &page);
            }
            rig.write(place * 8, bytes.clone()).await;
            if !is_early {
                rig.device.keep_once(place, &page);
            }
            pages.push(InMemory { page, bytes, was_lent: false });
            // A part of some page, which nobody has in memory as it is then.
            let sector = u64::from(numbers.below(sectors as u32));
            rig.write(sector, pattern(sector, 1, turn + 1000)).await;
            for InMemory { page, bytes, was_lent } in &mut pages {
                *was_lent |= page.is_lent();
                assert!(page.look(|held| held[..] == bytes[..]), "turn {turn}");
            }
        }
        let lent = pages.iter().filter(|it| it.page.is_lent()).count();
        let returned = pages.iter().filter(|it| it.was_lent && !it.page.is_lent()).count();
        assert!(lent > 50 && returned > 50, "{lent} are lent, {returned} were");
    });
}

#[test]
fn a_page_that_lies_in_two_erase_blocks_is_not_lent() {
    for (pages_per_block, is_lent) in [(1, false), (2, true)] {
        run_with_block_pages(pages_per_block, async move |rig| {
            let page = SharedPage::zeroed();
            rig.write(0, vec![0; 4096]).await;
            rig.device.flush().await.expect("flushed");
            rig.device.keep_once(0, &page);
            assert_eq!(page.is_lent(), is_lent, "{pages_per_block} pages of 2 KiB in a block");
        });
    }
}

#[test]
fn requests_that_wait_for_the_thread_are_merged_and_one_is_served_at_a_time() {
    run(async |rig| {
        let started_ns = rig.sim.now();
        // The first goes to the thread, which reads its block for long; the others wait and merge.
        let mut handles = Vec::new();
        for sector in [0, 512, 520, 528] {
            let bytes: Bytes = Rc::new(RefCell::new(pattern(sector, 8, 3)));
            let bio = bio(Direction::Write, sector, 8);
            handles.push(rig.queue.submit_bytes(bio, Some(bytes), None).await);
        }
        let mut completed = Vec::new();
        for handle in &handles {
            completed.push(handle.wait().await.expect("written"));
        }
        assert!(!completed[1].is_merged && completed[2].is_merged && completed[3].is_merged);
        assert_eq!(completed[1].complete_ns, completed[3].complete_ns, "one request");
        assert_eq!(completed[1].issue_ns, completed[0].complete_ns, "one after the other");
        assert!(completed[0].complete_ns > started_ns);
        assert_eq!(completed[1].wait.writes_ns, completed[0].complete_ns - completed[1].insert_ns);
        assert_eq!(rig.read(512, 24).await, pattern(512, 24, 3));
    });
}

#[test]
fn sectors_outside_the_device_and_dead_blocks_are_errors() {
    run(async |rig| {
        let sectors = u64::from(BLOCKS) * SECTORS_PER_BLOCK;
        let beyond = bio(Direction::Read, sectors - 4, 8);
        let handle = rig.queue.submit(beyond, None).await;
        handle.wait().await.expect_err("past the end");
        rig.mtd.mark_bad(3).await.expect("marked");
        rig.write(3 * SECTORS_PER_BLOCK, pattern(0, 8, 1)).await;
        rig.queue.flush(1).await.expect_err("the block cannot be erased");
    });
}

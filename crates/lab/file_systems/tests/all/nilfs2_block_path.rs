//! NILFS2 on its way to the chip: in which order its logs reach the device under each scheduler, and
//! what its cleaner is for.

use block::{BioTimes, Observer};
use board::find_board;
use file_systems::find_kind;
use fs_api::Errno;
use mount::{BlockRequest, Driver, MountRequest, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use sched::{Direction, find_scheduler};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use vfs::OpenOptions;

/// Sectors of a block of NILFS2: a superblock is written alone.
const BLOCK_SECTORS: u32 = 8;

fn blank(blocks: u32) -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = blocks;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

#[derive(Default)]
struct Writes(Vec<BioTimes>);

impl Observer for Writes {
    fn completed(&mut self, times: &BioTimes) {
        if times.bio.direction == Direction::Write {
            self.0.push(*times);
        }
    }
}

/// The bios that an `fsync` of four mebibytes writes, without those of superblocks.
fn log_writes(scheduler: &str) -> Vec<BioTimes> {
    let board = Rc::new(find_board("s5pv210-datasheet").expect("in the catalogue"));
    let driver = Driver::of_board(find_layout("linux-large").expect("in the table"), board);
    let scheduler = find_scheduler(scheduler).expect("in the table");
    let request = MountRequest {
        profile: Some("linux-2.6.29".into()),
        block: BlockRequest::new(scheduler),
        ..MountRequest::default()
    };
    let outcome = run(blank(512), &driver, 1, async move |machine| {
        let kind = find_kind("nilfs2").expect("in the table");
        let mounted = machine.mount(kind, &request).await.expect("a blank device mounts");
        let seen = Rc::new(RefCell::new(Writes::default()));
        mounted.file_system.block_path().expect("a block device").queue().observe(seen.clone());
        let (vfs, root) = (&mounted.vfs, machine.root());
        let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&root, b"f", options).await.expect("opened");
        vfs.write(&root, &file, 0, &vec![7; 4 << 20]).await.expect("written");
        vfs.fsync(&root, &file).await.expect("synced");
        seen.take().0
    });
    let mut writes = outcome.value.expect("no power cut");
    let last = writes.iter().map(|times| times.bio.sector).max().expect("something was written");
    let is_superblock = |times: &BioTimes| {
        times.bio.sectors == BLOCK_SECTORS && (times.bio.sector == 0 || times.bio.sector == last)
    };
    writes.retain(|times| !is_superblock(times));
    writes
}

/// Synchronous bios that went to the device before one that was queued earlier and stands before them.
fn overtaking(writes: &[BioTimes]) -> usize {
    let overtakes = |late: &&BioTimes| {
        writes.iter().any(|early| {
            !early.bio.sync
                && early.bio.sector < late.bio.sector
                && early.queue_ns <= late.queue_ns
                && early.issue_ns > late.issue_ns
        })
    };
    writes.iter().filter(|times| times.bio.sync).filter(overtakes).count()
}

/// First sectors in the order in which they went to the device, and whether a caller waits for them.
fn issued(writes: &[BioTimes]) -> Vec<(u64, bool)> {
    let mut writes = writes.to_vec();
    writes.sort_by_key(|times| (times.issue_ns, times.bio.sector));
    writes.iter().map(|times| (times.bio.sector, times.bio.sync)).collect()
}

#[test]
fn noop_writes_logs_in_the_order_of_their_addresses() {
    let writes = log_writes("noop");
    let issued = issued(&writes);
    assert!(issued.iter().any(|(_, sync)| *sync) && issued.iter().any(|(_, sync)| !sync));
    assert!(issued.is_sorted(), "{issued:?}");
    assert_eq!(overtaking(&writes), 0);
}

#[test]
fn schedulers_that_prefer_synchronous_requests_write_the_end_of_a_log_first() {
    for scheduler in ["sfq", "cfq-2.6.29", "anticipatory"] {
        let writes = log_writes(scheduler);
        assert!(overtaking(&writes) > 0, "{scheduler}: {:?}", issued(&writes));
    }
}

/// Mounts with one request, then with another on the same machine: does the second mount write through
/// the first one's queue?
fn shares_the_queue(first: BlockRequest, second: BlockRequest) -> bool {
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let outcome = run(blank(128), &driver, 1, async move |machine| {
        let kind = find_kind("nilfs2").expect("in the table");
        let seen = Rc::new(RefCell::new(Writes::default()));
        let mut counts = Vec::new();
        for block in [first, second] {
            let request = MountRequest { block, ..MountRequest::default() };
            let mounted = machine.mount(kind, &request).await.expect("it mounts");
            if counts.is_empty() {
                let path = mounted.file_system.block_path().expect("on a block device");
                path.queue().observe(seen.clone());
            }
            mounted.unmount().await.expect("it is unmounted");
            counts.push(seen.borrow().0.len());
        }
        counts
    });
    let counts = outcome.value.expect("no power cut");
    assert!(counts[0] > 0, "an unmount writes");
    counts[1] > counts[0]
}

#[test]
fn another_tunable_is_another_queue() {
    let scheduler = find_scheduler("anticipatory").expect("in the table");
    let given = BTreeMap::from([("antic_expire".to_owned(), sched::Value::Integer(0))]);
    let settings = scheduler.settings(&given).expect("it fits");
    let usual = BlockRequest::new(scheduler);
    let other = BlockRequest { settings, ..usual.clone() };
    let short = BlockRequest { max_sectors: Some(64), ..usual.clone() };
    assert!(shares_the_queue(usual.clone(), usual.clone()));
    assert!(!shares_the_queue(usual.clone(), other));
    assert!(!shares_the_queue(usual, short));
}

/// Writes a mebibyte over and over, with two minutes between, and unmounts.
fn overwritten(option: &str, times: usize) -> Result<(), Errno> {
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let request = MountRequest { options: vec![option.into()], ..MountRequest::default() };
    let outcome = run(blank(512), &driver, 1, async move |machine| {
        let kind = find_kind("nilfs2").expect("in the table");
        let mounted = machine.mount(kind, &request).await.expect("a blank device mounts");
        let (vfs, root) = (&mounted.vfs, machine.root());
        let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&root, b"f", options).await?;
        for round in 0..times {
            vfs.write(&root, &file, 0, &vec![round as u8; 1 << 20]).await?;
            vfs.fsync(&root, &file).await?;
            machine.sim.sleep(120_000_000_000).await;
        }
        assert_eq!(mounted.file_system.check().await?, []);
        vfs.close(&root, file).await?;
        mounted.unmount().await
    });
    outcome.value.expect("no power cut")
}

#[test]
fn the_cleaner_makes_room_once_the_protection_period_is_over() {
    assert_eq!(overwritten("nogc", 60), Err(Errno::Enospc));
    assert_eq!(overwritten("pp=86400", 60), Err(Errno::Enospc));
    assert_eq!(overwritten("pp=60", 60), Ok(()));
}

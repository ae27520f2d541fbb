//! Which process a bio belongs to, above a file system on a block device: the scheduler sees every process of
//! an application, the flusher and the log writer, and serves them by the priority of each.
//!
//! Source of the expectations: `submit_bio` and `get_io_context` of `block/`, `fs/fs-writeback.c` and
//! `fs/nilfs2/segment.c`, Linux 2.6.32; `fs/jffs2/background.c` and `drivers/mtd/devices/block2mtd.c`, Linux 6.12.

use block::{BioTimes, Observer};
use board::find_board;
use file_systems::find_kind;
use mount::{BlockDeviceChoice, BlockRequest, Driver, Machine, MountRequest, Mounted, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use process::{Class, Process};
use sched::{Direction, find_scheduler};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use vfs::OpenOptions;

/// Number of the first process of an application.
const FIRST_PID: u32 = 100;
/// Number of the first process of the priority test.
const FIRST_READER: u32 = 200;
/// Bytes of each process's file: longer than a read-ahead, so that each reads several times.
const FILE_BYTES: usize = 256 << 10;
/// Size of JFFS2 over block2mtd: ten files are more than half of it, so that collections are soon due.
const JFFS2_MIB: u32 = 4;
/// Longer than it takes until dirty pages are old, and until a checkpoint is due.
const LONG_NS: u64 = 60_000_000_000;

/// The bios that are complete.
#[derive(Default)]
struct Seen(Vec<BioTimes>);

impl Observer for Seen {
    fn completed(&mut self, times: &BioTimes) {
        self.0.push(*times);
    }
}

impl Seen {
    /// The processes of bios, in the order of their numbers. Empty flushes are no writes.
    fn pids(&self, direction: Direction) -> BTreeSet<u32> {
        let of = |times: &&BioTimes| times.bio.direction == direction && times.bio.sectors > 0;
        self.0.iter().filter(of).map(|times| times.bio.pid).collect()
    }

    /// The same, and the bios are forgotten.
    fn take_pids(&mut self, direction: Direction) -> BTreeSet<u32> {
        let pids = self.pids(direction);
        self.0.clear();
        pids
    }
}

fn chip() -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    // 64 MiB: ten files and their copies in the log of NILFS2.
    part.geometry.blocks = 512;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

/// A host whose kernel has flushers.
fn driver() -> Driver {
    let board = Rc::new(find_board("odroid-xu").expect("in the catalogue"));
    Driver::of_board(find_layout("linux-large").expect("in the table"), board)
}

fn request(device: &str, scheduler: &str) -> MountRequest {
    let device = BlockDeviceChoice::find(device).expect("a device");
    let scheduler = find_scheduler(scheduler).expect("in the table");
    MountRequest {
        block: BlockRequest { device, ..BlockRequest::new(scheduler) },
        ..MountRequest::default()
    }
}

fn name(pid: u32) -> Vec<u8> {
    format!("file-{pid}").into_bytes()
}

/// What a process of the test does with its file.
#[derive(Clone, Copy)]
enum Work {
    Read,
    Write,
    WriteAndSync,
    Remove,
}

async fn work(machine: Machine, mounted: Rc<Mounted>, pid: u32, work: Work) {
    let (vfs, root) = (&mounted.vfs, machine.root());
    if let Work::Remove = work {
        vfs.unlink(&root, &name(pid)).await.expect("removed");
        return;
    }
    let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
    let file = vfs.open(&root, &name(pid), options).await.expect("opened");
    match work {
        Work::Read => {
            let mut bytes = vec![0; FILE_BYTES];
            assert_eq!(vfs.read(&file, 0, &mut bytes).await, Ok(FILE_BYTES));
            assert!(bytes.iter().all(|byte| *byte == pid as u8));
        }
        Work::Write | Work::WriteAndSync => {
            vfs.write(&root, &file, 0, &vec![pid as u8; FILE_BYTES]).await.expect("written");
        }
        Work::Remove => unreachable!("it opens no file"),
    }
    if let Work::WriteAndSync = work {
        vfs.fsync(&root, &file).await.expect("synced");
    }
    vfs.close(&root, file).await.expect("closed");
}

/// Lets every process do the same at the same time, each as itself.
async fn all(machine: &Machine, mounted: &Rc<Mounted>, processes: u32, what: Work) {
    let tasks: Vec<_> = (FIRST_PID..FIRST_PID + processes)
        .map(|pid| {
            let task = work(machine.clone(), mounted.clone(), pid, what);
            machine.sim.spawn_as(Process::new(pid), format!("process {pid}"), task)
        })
        .collect();
    for task in tasks {
        task.await;
    }
}

/// Processes of the bios of each phase: reads, write-back by age, and the writes that `fsync` waits for.
struct Identities {
    readers: BTreeSet<u32>,
    write_back: BTreeSet<u32>,
    fsync: BTreeSet<u32>,
}

fn identities(kind: &'static str, device: &'static str, processes: u32) -> Identities {
    let outcome = run(chip(), &driver(), 1, async move |machine| {
        let kind = find_kind(kind).expect("in the table");
        let mounted = machine.mount(kind, &request(device, "cfq-3.4")).await.expect("it mounts");
        let mounted = Rc::new(mounted);
        all(&machine, &mounted, processes, Work::WriteAndSync).await;
        mounted.vfs.sync().await.expect("synced");
        mounted.vfs.drop_caches().await.expect("dropped");
        let seen = Rc::new(RefCell::new(Seen::default()));
        let path = mounted.file_system.block_path().expect("on a block device");
        path.queue().observe(seen.clone());
        all(&machine, &mounted, processes, Work::Read).await;
        let readers = seen.borrow_mut().take_pids(Direction::Read);
        all(&machine, &mounted, processes, Work::Write).await;
        machine.sim.sleep(LONG_NS).await;
        let write_back = seen.borrow_mut().take_pids(Direction::Write);
        all(&machine, &mounted, processes, Work::WriteAndSync).await;
        // A slow device may let pages grow old meanwhile: asynchronous writes are the flusher's.
        seen.borrow_mut().0.retain(|times| times.bio.sync);
        let fsync = seen.borrow_mut().take_pids(Direction::Write);
        Identities { readers, write_back, fsync }
    });
    outcome.value.expect("no power cut")
}

fn is_one_kernel_thread(pids: &BTreeSet<u32>) -> bool {
    pids.len() == 1 && pids.iter().all(|pid| Process::new(*pid).is_kernel_thread())
}

/// Writes of `fsync` are FAT's callers' own; data, tables and entries that grow old are the flusher's, which
/// is one for all of them.
#[test]
fn fat_submits_as_the_caller_and_as_the_flusher() {
    for processes in [3, 5, 10] {
        for device in ["emmc-4.5-64gb", "mtdblock"] {
            let seen = identities("fat", device, processes);
            let label = format!("{processes} processes on {device}");
            let pids: BTreeSet<u32> = (FIRST_PID..FIRST_PID + processes).collect();
            assert_eq!(seen.readers, pids, "{label}: readers");
            assert!(is_one_kernel_thread(&seen.write_back), "{label}: {:?}", seen.write_back);
            assert_eq!(seen.fsync, pids, "{label}: fsync");
        }
    }
}

/// Logs are the log writer's, whoever waits for them.
#[test]
fn nilfs2_reads_as_the_caller_and_writes_logs_as_its_thread() {
    for processes in [3, 5, 10] {
        for device in ["emmc-4.5-64gb", "mtdblock"] {
            let seen = identities("nilfs2", device, processes);
            let label = format!("{processes} processes on {device}");
            let pids: BTreeSet<u32> = (FIRST_PID..FIRST_PID + processes).collect();
            assert_eq!(seen.readers, pids, "{label}: readers");
            assert!(is_one_kernel_thread(&seen.write_back), "{label}: {:?}", seen.write_back);
            assert_eq!(seen.fsync, seen.write_back, "{label}: logs of fsync");
        }
    }
}

/// Mounts JFFS2 over block2mtd, without its thread, with a file for each process. The files are written page by
/// page in turn, and nodes are as long as pages, so that each erase block holds some of every file. Nothing of
/// them is in memory in the end.
async fn jffs2_with_files(machine: &Machine, processes: u32) -> Rc<Mounted> {
    let kind = find_kind("jffs2-block2mtd").expect("in the table");
    let asked = MountRequest {
        // Linux 6.12 writes summaries and does not mark nodes that are obsolete, so removals write next to
        // nothing.
        profile: Some("linux-6.12".into()),
        options: vec!["compr=none".into(), format!("size={JFFS2_MIB}")],
        has_background: false,
        ..request("emmc-4.5-64gb", "cfq-3.4")
    };
    let mounted = Rc::new(machine.mount(kind, &asked).await.expect("it mounts"));
    let (vfs, root) = (&mounted.vfs, machine.root());
    let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
    let mut files = Vec::new();
    for pid in FIRST_PID..FIRST_PID + processes {
        files.push((pid, vfs.open(&root, &name(pid), options).await.expect("opened")));
    }
    for offset in (0..FILE_BYTES as u64).step_by(units::PAGE_BYTES) {
        for (pid, file) in &files {
            let page = [*pid as u8; units::PAGE_BYTES];
            vfs.write(&root, file, offset, &page).await.expect("written");
        }
    }
    for (_, file) in files {
        vfs.close(&root, file).await.expect("closed");
    }
    vfs.sync().await.expect("synced");
    vfs.drop_caches().await.expect("dropped");
    mounted
}

/// A counter of the mount.
async fn counter(mounted: &Mounted, name: &str) -> u64 {
    let counters = mounted.file_system.statistics().await;
    counters.iter().find(|counter| counter.name == name).expect("it is counted").value
}

/// A writer that finds too few free blocks collects in its own call (`jffs2_reserve_space` of
/// `fs/jffs2/nodemgmt.c`), and reads as itself.
#[test]
fn jffs2_over_block2mtd_collects_as_a_writer_that_lacks_room() {
    let outcome = run(chip(), &driver(), 1, async |machine| {
        let mounted = jffs2_with_files(&machine, 10).await;
        all(&machine, &mounted, 9, Work::Remove).await;
        mounted.vfs.drop_caches().await.expect("dropped");
        let seen = Rc::new(RefCell::new(Seen::default()));
        let path = mounted.file_system.block_path().expect("on a block device");
        path.queue().observe(seen.clone());
        all(&machine, &mounted, 8, Work::Write).await;
        let passes = counter(&mounted, "foreground_passes").await;
        let reads = seen.borrow().pids(Direction::Read);
        (passes, reads, counter(&mounted, "nodes_collected").await)
    });
    let (passes, reads, collected) = outcome.value.expect("no power cut");
    assert!(passes > 0 && collected > 0, "{passes} passes, {collected} nodes collected");
    assert!(!reads.is_empty(), "nothing was read");
    assert!(reads.iter().all(|pid| (FIRST_PID..FIRST_PID + 8).contains(pid)), "{reads:?}");
}

/// A process of the priority test: reads a file page by page, in an order that no read-ahead serves.
async fn read_scattered(machine: Machine, mounted: Rc<Mounted>, name: Vec<u8>) {
    let root = machine.root();
    let file = mounted.vfs.open(&root, &name, OpenOptions::default()).await.expect("opened");
    let mut bytes = vec![0; 512];
    let pages = (FILE_BYTES / units::PAGE_BYTES) as u64;
    for step in 0..pages {
        // 37 has no common divisor with a power of two: every page once.
        let page = step * 37 % pages;
        let offset = units::page_start(page);
        assert_eq!(mounted.vfs.read(&file, offset, &mut bytes).await, Ok(bytes.len()));
    }
    mounted.vfs.close(&root, file).await.expect("closed");
}

/// Shares of the second process's reads that went to the device before the first process had read all.
fn share_served_early(kind: &'static str, second: Class) -> f64 {
    let outcome = run(chip(), &driver(), 1, async move |machine| {
        let kind = find_kind(kind).expect("in the table");
        let mounted = machine.mount(kind, &request("disk-7200", "cfq-3.4")).await;
        let mounted = Rc::new(mounted.expect("it mounts"));
        all(&machine, &mounted, 2, Work::WriteAndSync).await;
        mounted.vfs.sync().await.expect("synced");
        mounted.vfs.drop_caches().await.expect("dropped");
        let seen = Rc::new(RefCell::new(Seen::default()));
        let path = mounted.file_system.block_path().expect("on a block device");
        path.queue().observe(seen.clone());
        // New processes: CFQ may have merged the queues of those that wrote, whose blocks are neighbours
        // (`cfq_setup_merge`), and a merged queue has one class.
        let tasks = [(0, Class::BestEffort), (1, second)].map(|(which, class)| {
            let process =
                Process::new(FIRST_READER + which).with_priority(class, process::NORMAL_LEVEL);
            let task = read_scattered(machine.clone(), mounted.clone(), name(FIRST_PID + which));
            machine.sim.spawn_as(process, format!("reader {}", process.pid), task)
        });
        for task in tasks {
            task.await;
        }
        seen.take().0
    });
    let completed = outcome.value.expect("no power cut");
    let of =
        |pid: u32| completed.iter().filter(move |times| times.bio.pid == pid && !times.is_merged);
    let end_ns = of(FIRST_READER).map(|times| times.issue_ns).max().expect("it read");
    let early = of(FIRST_READER + 1).filter(|times| times.issue_ns < end_ns).count();
    early as f64 / of(FIRST_READER + 1).count() as f64
}

#[test]
fn cfq_lets_an_idle_process_wait_above_a_file_system() {
    for kind in ["fat", "nilfs2"] {
        let (equal, idle) =
            (share_served_early(kind, Class::BestEffort), share_served_early(kind, Class::Idle));
        assert!(equal > 0.5, "{kind}: {equal} of the reads of an equal process");
        assert!(idle < 0.1, "{kind}: {idle} of the reads of an idle process");
    }
}

//! The tool on mounted file systems: what its calls ask of the medium, counted by hand.

use board::Board;
use device::DeviceStatistics;
use file_systems::find_kind;
use fs_api::{Caller, FileSystem, Time};
use ioping::{FILE_PATH, Options, Report, find_profile, start_on_mount};
use mount::{BlockDeviceChoice, BlockRequest, Driver, MountRequest, run};
use nand::{Chip, Counters, FaultSettings, Storage, find_part};
use std::rc::Rc;
use vfs::OpenOptions;

const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time { seconds: 1, nanoseconds: 0 } };
const DEVICE: &str = "emmc-4.5-64gb";
/// Bytes of the file that is the target `file`.
const FILE_BYTES: u64 = 256 << 10;

/// A file system, its profile, and whether it stands on the device or on raw NAND.
#[derive(Clone, Copy)]
struct Place {
    file_system: &'static str,
    profile: &'static str,
    has_device: bool,
}

const FAT: Place = Place { file_system: "fat", profile: "linux-6.1", has_device: true };
const NILFS2: Place = Place { file_system: "nilfs2", profile: "linux-6.1", has_device: true };
const JFFS2: Place = Place { file_system: "jffs2", profile: "linux-6.1", has_device: false };
const YAFFS2: Place = Place { file_system: "yaffs2", profile: "linux-6.1", has_device: false };
const UBIFS: Place = Place { file_system: "ubifs", profile: "linux-6.1", has_device: false };
const ALL: [Place; 5] = [FAT, JFFS2, NILFS2, UBIFS, YAFFS2];

/// What a run leaves.
struct Done {
    report: Report,
    /// Names in the root directory, and free blocks of the file system, before and after.
    names: [Vec<Vec<u8>>; 2],
    free_blocks: [u64; 2],
}

impl Done {
    /// What the chip did while requests were made.
    fn chip(&self) -> Counters {
        let [begin, end] = self.report.medium_work.expect("a file system counts");
        end.chip - begin.chip
    }

    /// What the device did meanwhile: reads, writes, flushes, sectors read and written.
    fn device(&self) -> [u64; 5] {
        let of = |done: DeviceStatistics| {
            let DeviceStatistics { reads, writes, flushes, read_sectors, written_sectors, .. } =
                done;
            [reads, writes, flushes, read_sectors, written_sectors]
        };
        let [begin, end] = self.report.medium_work.expect("a file system counts");
        let (begin, end) = (of(begin.device.expect("timed")), of(end.device.expect("timed")));
        std::array::from_fn(|index| end[index] - begin[index])
    }
}

fn board() -> Board {
    board::find_board("odroid-xu").expect("in the catalogue")
}

fn machine_of<T: 'static, F: Future<Output = T> + 'static>(
    place: Place,
    job: impl FnOnce(mount::Machine, MountRequest) -> F,
) -> T {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 160;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = mtd::find_layout("linux-large").expect("in the table");
    let driver = Driver::of_board(layout, Rc::new(board()));
    let mut block = BlockRequest::default();
    if place.has_device {
        block.device = BlockDeviceChoice::find(DEVICE).expect("in the catalogue");
    }
    let profile = Some(place.profile.to_owned());
    let request = MountRequest { profile, block, ..MountRequest::default() };
    let outcome = run(chip, &driver, 1, |machine| job(machine, request));
    outcome.value.expect("nothing cuts the power")
}

fn try_run(place: Place, version: &str, text: &str, makes_file: bool) -> Done {
    let profile = find_profile(version).expect("a version");
    let options = Rc::new(Options::parse(text, profile).expect("a command line"));
    machine_of(place, async move |machine, request| {
        let kind = find_kind(place.file_system).expect("in the table");
        let mounted = machine.mount(kind, &request).await.expect("blank");
        let vfs = &mounted.vfs;
        if makes_file {
            let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
            let file = vfs.open(&CALLER, FILE_PATH, open).await.expect("made");
            vfs.write(&CALLER, &file, 0, &vec![7; FILE_BYTES as usize]).await.expect("written");
            vfs.close(&CALLER, file).await.expect("closed");
        }
        vfs.sync().await.expect("synced");
        machine.sim.sleep(60_000_000_000).await;
        vfs.drop_caches().await.expect("dropped");
        let root = mounted.file_system.root();
        let names = async || -> Vec<Vec<u8>> {
            let entries = mounted.file_system.read_directory(root).await.expect("read");
            entries.into_iter().map(|entry| entry.name).collect()
        };
        let free = || mounted.file_system.space().free_blocks;
        let before = (names().await, free());
        let access = options.access;
        let report = start_on_mount(&machine, &mounted, &options, access, FILE_BYTES, 1000).await;
        let after = (names().await, free());
        Done { report, names: [before.0, after.0], free_blocks: [before.1, after.1] }
    })
}

fn run_on(place: Place, version: &str, text: &str) -> Done {
    let done = try_run(place, version, text, true);
    assert_eq!(done.report.error, None, "{} {text}", place.file_system);
    done
}

#[test]
fn cached_reads_of_a_file_that_was_just_written_cost_no_operation_of_the_medium() {
    let costs = board().costs;
    // A system call, the look-up of a page, and the copy of its bytes: no more.
    let expected_ns = costs.syscall_ns + costs.page_ns + 4096 * costs.copy_ps_per_byte / 1000;
    for place in ALL {
        let done = run_on(place, "v1.3", "-C -i 1ms -c 9 directory");
        assert_eq!(done.chip(), Counters::default(), "{}", place.file_system);
        if place.has_device {
            assert_eq!(done.device(), [0; 5], "{}", place.file_system);
        }
        let valid = &done.report.valid;
        assert_eq!(valid.count(), 8);
        assert_eq!(
            (valid.min_ns(), valid.max_ns()),
            (expected_ns, expected_ns),
            "{}",
            place.file_system
        );
    }
}

#[test]
fn without_c_every_read_comes_from_the_medium() {
    // One read of eight sectors a request: the page was dropped, and nothing is read ahead. Of a file that was
    // not used before, FAT also reads the sector of the table that has its chain.
    for (place, text, of_table) in [
        (FAT, "-i 1ms -c 9 directory", 0),
        (FAT, "-L -s 4k -i 1ms -c 9 file", 1),
        (NILFS2, "-i 1ms -c 9 directory", 0),
    ] {
        for version in ["v0.4", "v0.9", "v1.3"] {
            let done = run_on(place, version, text).device();
            let expected = [9 + of_table, 0, 0, 72 + of_table, 0];
            assert_eq!(done, expected, "{text} of {version}");
        }
    }
    // Two pages of the chip a request, but for those in the cache that YAFFS2 has of its own.
    let chip = run_on(YAFFS2, "v1.3", "-i 1ms -c 9 directory").chip();
    assert!((9..=18).contains(&chip.page_reads), "{chip:?}");
    assert_eq!(chip.page_programs, 0);
}

#[test]
fn the_time_of_a_write_holds_its_fdatasync() {
    let text = |cached: &str| format!("-W {cached} -i 1ms -c 5 directory");
    // The sectors of the page and a flush: the entry with the new time is left for later.
    let synced = run_on(FAT, "v1.3", &text(""));
    assert_eq!(synced.device(), [0, 5, 5, 0, 40]);
    // A log of a summary and the page, and a flush. The page was dropped before the clock was read, and is read
    // again, though all of it is written: the layer above file systems that write through does so.
    let logged = run_on(NILFS2, "v1.3", &text(""));
    assert_eq!(logged.device(), [5, 5, 5, 40, 80]);
    for (place, synced) in [(FAT, synced), (NILFS2, logged)] {
        // With `-C` the page stays dirty in memory.
        let cached = run_on(place, "v1.3", &text("-C"));
        assert_eq!(cached.device(), [0; 5], "{}", place.file_system);
        assert!(cached.report.valid.max_ns() * 10 < synced.report.valid.min_ns());
    }
}

#[test]
fn a_directory_keeps_nothing_but_with_k() {
    for place in ALL {
        let done = run_on(place, "v1.3", "-W -i 0 -c 20 directory");
        assert_eq!(done.names[0], done.names[1], "{}", place.file_system);
    }
    let done = run_on(FAT, "v1.3", "-W -i 0 -c 20 directory");
    assert_eq!(done.free_blocks[0], done.free_blocks[1]);
    let kept = run_on(FAT, "v1.3", "-k -W -i 0 -c 20 directory");
    assert_eq!(kept.names[1].len(), kept.names[0].len() + 1, "{:?}", kept.names);
    assert!(kept.names[1].contains(&b"ioping.tmp".to_vec()));
    assert!(kept.free_blocks[1] < kept.free_blocks[0]);
}

#[test]
fn bytes_that_are_all_the_same_compress_until_0_8() {
    let programs =
        |version: &str| run_on(JFFS2, version, "-W -i 1ms -c 10 directory").chip().page_programs;
    // A node of stars fits into a page of the chip. The sync fills the rest of the page.
    assert_eq!((programs("v0.7"), programs("v0.8")), (10, 10));
    // One of drawn bytes takes three; to fill the last of them the sync also moves old nodes.
    let drawn = ["v0.9", "v1.0", "v1.3"].map(programs);
    assert!(drawn.iter().all(|count| (30..40).contains(count)), "{drawn:?}");
}

#[test]
fn direct_transfers_go_as_far_as_the_kernel_lets_them() {
    for place in [JFFS2, UBIFS, YAFFS2] {
        let done = try_run(place, "v1.3", "-D -c 1 directory", true);
        let said = done.report.error.expect("refused").to_string();
        assert_eq!(said, "fcntl(O_DIRECT): EINVAL: invalid argument", "{}", place.file_system);
    }
    // With `-C` as well, every request reaches the device.
    let device = |place: Place, text: &str| run_on(place, "v1.3", text).device();
    assert_eq!(device(FAT, "-D -C -i 1ms -c 9 directory"), [9, 0, 0, 72, 0]);
    assert_eq!(device(NILFS2, "-D -C -i 1ms -c 9 directory"), [9, 0, 0, 72, 0]);
    assert_eq!(device(FAT, "-D -C -W -i 1ms -c 5 directory"), [0, 5, 0, 0, 40]);
    // NILFS2 takes such a write through the cache, where it reads the page first, and writes a log of it before
    // the call returns.
    assert_eq!(device(NILFS2, "-D -C -W -i 1ms -c 5 directory"), [5, 5, 0, 40, 80]);
    // What was written directly is read so, and through the cache.
    machine_of(FAT, async move |machine, request| {
        let mounted =
            machine.mount(find_kind("fat").expect("a row"), &request).await.expect("blank");
        let vfs = &mounted.vfs;
        let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&CALLER, b"f", open).await.expect("made");
        vfs.write(&CALLER, &file, 0, &[1; 16384]).await.expect("written");
        let direct = vfs.open(&CALLER, b"f", open).await.expect("opened");
        vfs.set_direct(&direct).expect("FAT has it");
        let mut into = [0; 16384];
        assert_eq!(vfs.read(&direct, 0, &mut into).await, Ok(16384));
        assert_eq!(into, [1; 16384], "what was dirty is written before");
        vfs.write(&CALLER, &direct, 4096, &[2; 4096]).await.expect("written");
        assert_eq!(vfs.read(&file, 0, &mut into).await, Ok(16384));
        assert_eq!(into[4095..=4096], [1, 2], "the cache keeps nothing of a direct write");
        assert_eq!(into[8191..=8192], [2, 1]);
        // Behind the end it goes through the cache, and is on the device when the call returns.
        vfs.write(&CALLER, &direct, 16384, &[3; 4096]).await.expect("written");
        assert_eq!(vfs.dirty_pages(), 0);
        assert_eq!(vfs.read(&file, 16384, &mut into).await, Ok(4096));
        assert_eq!(into[..4096], [3; 4096]);
        assert!(vfs.write(&CALLER, &direct, 100, &[2; 4096]).await.is_err(), "no whole page");
    });
}

#[test]
fn a_file_that_is_not_there_is_told_with_the_call() {
    let done = try_run(FAT, "v1.3", "-c 1 file", false);
    let said = done.report.error.expect("refused").to_string();
    assert_eq!(said, "open: ENOENT: no such file or directory");
    assert_eq!(done.report.requests, 0);
}

#[test]
fn fdatasync_leaves_a_new_time_for_later_where_the_kernel_does() {
    // Operations of the medium that a sync of a page written over takes: `fsync`, then `fdatasync`.
    let syncs = |place: Place| {
        machine_of(place, async move |machine, request| {
            let kind = find_kind(place.file_system).expect("in the table");
            let mounted = machine.mount(kind, &request).await.expect("blank");
            let vfs = &mounted.vfs;
            let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
            let file = vfs.open(&CALLER, b"f", open).await.expect("made");
            vfs.write(&CALLER, &file, 0, &[1; 8192]).await.expect("written");
            vfs.fsync(&CALLER, &file).await.expect("synced");
            let work = || {
                let path = mounted.file_system.block_path();
                let device = path.and_then(|path| path.queue().statistics());
                let chip = machine.mtd.with_chip(|chip| chip.counters()).page_programs;
                device.map_or(chip, |device| device.written_sectors)
            };
            let mut took = Vec::new();
            for data_only in [false, true] {
                let now = Time { seconds: 100 + i64::from(data_only) * 100, nanoseconds: 0 };
                let caller = Caller { now, ..CALLER };
                vfs.write(&caller, &file, 4096, &[data_only.into(); 4096]).await.expect("written");
                let before = work();
                if data_only {
                    vfs.fdatasync(&caller, &file).await.expect("synced");
                } else {
                    vfs.fsync(&caller, &file).await.expect("synced");
                }
                took.push(work() - before);
            }
            // A file that has grown is another matter: its new end must be found.
            vfs.write(&CALLER, &file, 8192, &[5; 4096]).await.expect("written");
            vfs.fdatasync(&CALLER, &file).await.expect("synced");
            took
        })
    };
    // The sector of the entry.
    assert_eq!(syncs(FAT), [9, 8]);
    assert_eq!(syncs(Place { profile: "linux-2.6.29", ..FAT }), [9, 9]);
    let of_log = syncs(NILFS2);
    assert!(of_log[0] > of_log[1] && of_log[1] == 16, "{of_log:?}");
    for (place, is_less) in [(JFFS2, false), (UBIFS, true), (YAFFS2, true)] {
        let took = syncs(place);
        assert_eq!(took[1] < took[0], is_less, "{}: {took:?}", place.file_system);
    }
    let took = syncs(Place { profile: "linux-2.6.35", ..YAFFS2 });
    assert_eq!(took[0], took[1]);
}

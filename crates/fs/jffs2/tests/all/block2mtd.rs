//! JFFS2 over `block2mtd`: random work against the model, remounts, and what a power cut leaves of pages that
//! are written back in any order.

use crate::support;

use block_medium::MemoryMedium;
use block2mtd::{Block2Mtd, Options};
use board::Board;
use conformance::{Area, Model, SideBySide, play_lines};
use fs_api::{Errno, FileSystem, NewInode};
use jffs2::nodes::{ACCURATE, HEADER_BYTES, Header};
use jffs2::{Flash, Jffs2, MountError, MountOptions, clean_block, find_profile};
use page_cache::{CacheOptions, PAGE_BYTES, PageCache};
use random::Stream;
use sim::{Cpus, Sim, Simulation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use support::{CALLER, read_file, write};
use vfs::Vfs;

const BLOCK_BYTES: u32 = 64 << 10;

/// A mount over a block device in memory, and the driver between them.
struct Stack {
    fs: Rc<Jffs2>,
    device: Rc<Block2Mtd>,
}

/// What a test has at hand inside the simulation.
#[derive(Clone)]
struct Bench {
    sim: Sim,
    medium: Rc<MemoryMedium>,
    /// Hundredths of a second between the looks of the flusher; none if it never writes by itself.
    write_back_centisecs: u32,
}

impl Bench {
    async fn try_mount(&self, options: MountOptions) -> Result<Stack, MountError> {
        let mut board = Board::without_costs();
        board.writeback.dirty_writeback_centisecs = self.write_back_centisecs;
        let cpus = Rc::new(Cpus::new(&self.sim, 1, 10_000_000));
        let cache_options = CacheOptions { stores_bytes: true };
        let cache = PageCache::new(&self.sim, &cpus, &Rc::new(board), cache_options);
        let driver = Options {
            block_bytes: BLOCK_BYTES,
            size_bytes: u64::MAX,
            takes_time: false,
            holds_writers: true,
        };
        let device = Block2Mtd::attach(&self.sim, &cache, self.medium.clone(), driver);
        let device = device.expect("it can be an MTD");
        let flash = Flash::Ram(device.clone());
        let fs = Jffs2::mount(&self.sim, cpus, flash, options).await?;
        Ok(Stack { fs: Rc::new(fs), device })
    }

    async fn mount(&self, options: MountOptions) -> Stack {
        self.try_mount(options).await.expect("it mounts")
    }
}

fn run<F: Future<Output = ()> + 'static>(
    medium: &Rc<MemoryMedium>,
    write_back_centisecs: u32,
    job: impl FnOnce(Bench) -> F,
) -> bool {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let bench = Bench { sim: sim.clone(), medium: medium.clone(), write_back_centisecs };
    let work = job(bench);
    let task = sim.clone().spawn_named("job", async move {
        work.await;
        sim.stop();
    });
    simulation.run();
    task.is_finished()
}

/// A device that `flash_erase -j` left.
fn formatted(blocks: u32) -> Rc<MemoryMedium> {
    let medium = MemoryMedium::new(4096, u64::from(blocks * BLOCK_BYTES));
    let clean = clean_block(BLOCK_BYTES);
    for block in 0..u64::from(blocks) {
        for (page, bytes) in (block * u64::from(BLOCK_BYTES) / PAGE_BYTES..).zip(clean.chunks(4096))
        {
            medium.set_block(page, bytes);
        }
    }
    Rc::new(medium)
}

/// A mount without threads that marks obsolete nodes in place, or keeps summaries instead.
fn quiet(marks: bool, seed: u64) -> MountOptions {
    MountOptions { has_summary: Some(!marks), ..support::quiet(seed) }
}

/// As a kernel has it, with its threads.
fn of_kernel(name: &str, seed: u64) -> MountOptions {
    let profile = find_profile(name).expect("in the table");
    MountOptions { seed, ..MountOptions::new(profile) }
}

/// Nodes on the medium by whether they are marked obsolete.
fn nodes_on(medium: &MemoryMedium) -> BTreeMap<(u16, bool), u32> {
    let mut found = BTreeMap::new();
    let bytes: Vec<u8> =
        (0..medium.stored_blocks().len() as u64).flat_map(|page| medium.block(page)).collect();
    for block in bytes.chunks(BLOCK_BYTES as usize) {
        let mut at = 0;
        while at + HEADER_BYTES <= block.len() {
            let header = Header::parse(&block[at..]);
            if header.is_valid() && header.total_bytes >= HEADER_BYTES as u32 {
                let is_marked = header.node_type & ACCURATE == 0;
                *found.entry((header.node_type | ACCURATE, is_marked)).or_default() += 1;
                at += header.total_bytes.next_multiple_of(4) as usize;
            } else {
                at += 4;
            }
        }
    }
    found
}

#[test]
fn a_device_of_zeros_is_refused_and_one_of_ones_is_blank_flash() {
    let zeros = Rc::new(MemoryMedium::new(4096, 8 * u64::from(BLOCK_BYTES)));
    assert!(run(&zeros, 0, |bench| async move {
        let refused = bench.try_mount(quiet(true, 1)).await.err();
        assert_eq!(refused, Some(MountError::NoNodes));
    }));
    let ones = Rc::new(MemoryMedium::new(4096, 8 * u64::from(BLOCK_BYTES)));
    (0..128).for_each(|page| ones.set_block(page, &[0xff; 4096]));
    assert!(run(&ones, 0, |bench| async move {
        let Stack { fs, device } = bench.mount(quiet(true, 1)).await;
        while fs.collect().await {}
        assert_eq!(fs.space_by_use().free_blocks, 8);
        assert_eq!(device.statistics().blank_pages, 128, "erases change nothing there");
        fs.unmount().await.expect("it unmounts");
    }));
    assert_eq!(nodes_on(&ones), BTreeMap::from([((0x2003, false), 8)]), "a mark in every block");
}

#[test]
fn a_mount_of_clean_blocks_reads_one_page_of_each() {
    let medium = formatted(40);
    medium.take_reads();
    let device = medium.clone();
    assert!(run(&medium, 0, move |bench| async move {
        let stack = bench.mount(quiet(true, 1)).await;
        let reads = device.take_reads();
        assert_eq!(reads, (0..40).map(|block| (block * 16, 1)).collect::<Vec<_>>());
        assert_eq!(stack.fs.space_by_use().free_blocks, 40);
        stack.fs.check_invariants();
    }));
}

/// Nothing but `sync` and the unmount brings a file to the medium; the flusher does, in its time.
#[test]
fn fsync_writes_nothing_and_the_flusher_everything() {
    let medium = formatted(16);
    let device = medium.clone();
    assert!(run(&medium, 500, move |bench| async move {
        let Stack { fs, .. } = bench.mount(quiet(true, 1)).await;
        let inode = fs.make(&CALLER, 1, b"f", NewInode::Regular(0o600)).await.expect("made");
        write(&fs, &CALLER, inode, 0, &vec![7; 50_000]).await.expect("written");
        fs.fsync(&CALLER, inode).await.expect("synced");
        assert_eq!(device.take_bios(), Vec::new(), "fsync has no write-buffer to flush");
        bench.sim.sleep(40_000_000_000).await;
        let bios = device.take_bios();
        assert!(!bios.is_empty() && bios.iter().all(|bio| !bio.flags.is_sync), "{bios:?}");
        write(&fs, &CALLER, inode, 0, &[8; 100]).await.expect("written");
        fs.sync().await.expect("synced");
        let bios = device.take_bios();
        assert!(!bios.is_empty() && bios.iter().all(|bio| bio.flags.is_sync), "{bios:?}");
        fs.unmount().await.expect("it unmounts");
        assert_eq!(device.take_bios(), Vec::new());
    }));
}

#[test]
fn obsolete_nodes_are_marked_where_no_summary_is_kept() {
    for marks in [true, false] {
        let medium = formatted(16);
        assert!(run(&medium, 0, move |bench| async move {
            let Stack { fs, .. } = bench.mount(quiet(marks, 1)).await;
            for name in [&b"kept"[..], b"gone"] {
                let inode = fs.make(&CALLER, 1, name, NewInode::Regular(0o600)).await;
                let inode = inode.expect("made");
                write(&fs, &CALLER, inode, 0, &[1; 4096]).await.expect("written");
                write(&fs, &CALLER, inode, 0, &[2; 4096]).await.expect("written");
            }
            let gone = fs.lookup(1, b"gone").await.expect("there");
            fs.unlink(&CALLER, 1, b"gone").await.expect("removed");
            fs.forget(gone).await.expect("forgotten");
            // Of each file its first node and the data that was written over; of the removed one the
            // rest, its entry, and the mark of the block.
            assert_eq!(fs.statistics().nodes_marked, if marks { 7 } else { 0 });
            fs.unmount().await.expect("it unmounts");
        }));
        let found = nodes_on(&medium);
        let marked = |node: u16| found.get(&(node, true)).copied().unwrap_or(0);
        let expected = if marks { (5, 1, 1) } else { (0, 0, 0) };
        assert_eq!((marked(0xe002), marked(0xe001), marked(0x2003)), expected, "marks {marks}");
        // The removal stays: it is the newest entry of its name.
        assert_eq!(found[&(0xe001, false)], if marks { 2 } else { 3 }, "marks {marks}");
        assert!(run(&medium, 0, move |bench| async move {
            let Stack { fs, .. } = bench.mount(quiet(marks, 2)).await;
            assert_eq!(fs.lookup(1, b"gone").await, Err(Errno::Enoent));
            let kept = fs.lookup(1, b"kept").await.expect("there");
            assert_eq!(read_file(&fs, kept, 4096).await.expect("it reads"), [2; 4096]);
            assert_eq!(fs.findings(), []);
        }));
    }
}

/// Random work over several mounts, on a device that is nearly full.
#[test]
fn the_model_agrees_over_remounts() {
    for seed in 0..4_u64 {
        // Old kernels may show what stood behind the end of a file once it is read in again.
        let (options, mounts): (fn(u64) -> MountOptions, u64) = match seed {
            0 => (|seed| quiet(true, seed), 3),
            1 => (|seed| quiet(false, seed), 3),
            2 => (|seed| of_kernel("linux-2.6.29", seed), 1),
            _ => (|seed| of_kernel("linux-6.1", seed), 2),
        };
        let medium = formatted(14);
        let model = Rc::new(RefCell::new(None::<Model>));
        for mount in 0..mounts {
            let model = model.clone();
            assert!(run(&medium, 500, move |bench| async move {
                let label = format!("seed {seed} mount {mount}");
                let Stack { fs, device } = bench.mount(options(seed << 8 | mount)).await;
                let known = model.take();
                let known = match known {
                    Some(known) => known,
                    None => Model::new(&*fs, true).await.that_may_be_full(),
                };
                let side = SideBySide::bare(&bench.sim, &fs, &known);
                assert_eq!(side.compare().await, Ok(()), "{label}");
                let mut stream = Stream::new(seed << 8 | mount, "random work");
                for step in 0..2000 {
                    let done = side.step(&area(), &mut stream).await;
                    done.unwrap_or_else(|wrong| panic!("{label}: {wrong}")).ok();
                    if step % 100 == 0 {
                        bench.sim.sleep(7_000_000_000).await;
                        fs.check_invariants();
                    }
                }
                assert_eq!(side.compare().await, Ok(()), "{label} before unmount");
                let statistics = fs.statistics();
                let collected = statistics.nodes_collected;
                assert!(mount == 0 || collected > 0, "{label}: {statistics:?}");
                let erased = device.statistics().erased_pages;
                assert!(mount == 0 || erased > 0, "{label}: {erased}");
                assert_eq!(fs.findings(), [], "{label}");
                fs.unmount().await.expect("it unmounts");
                fs.check_invariants();
                model.replace(Some(known));
            }));
        }
    }
}

/// As many files as fill most of a device.
fn area() -> Area {
    Area { names: 12, ..Area::whole(true) }
}

/// Fills a device and unmounts it.
fn filled(marks: bool, seed: u64) -> (Rc<MemoryMedium>, Model) {
    let medium = formatted(12);
    let kept = Rc::new(RefCell::new(None));
    let model = kept.clone();
    assert!(run(&medium, 500, move |bench| async move {
        let Stack { fs, .. } = bench.mount(quiet(marks, seed)).await;
        let model = Model::new(&*fs, true).await.that_may_be_full();
        let side = SideBySide::bare(&bench.sim, &fs, &model);
        for call in area().first_calls() {
            assert_eq!(side.call(&call).await, Ok(Ok(())));
        }
        let mut stream = Stream::new(seed, "filling");
        for _ in 0..1500 {
            side.step(&area(), &mut stream).await.unwrap_or_else(|wrong| panic!("{wrong}")).ok();
        }
        fs.unmount().await.expect("it unmounts");
        model.note_synced().await;
        kept.replace(Some(model));
    }));
    (medium, model.take().expect("it was filled"))
}

// One function: work, cut and what is found belong to one device, whose label they share.
/// A cut after an unmount, or while nothing is written after a sync, loses nothing: the medium has it all.
/// One in between leaves some of the pages that were dirty, and what was synced before may be gone: the
/// collector's copy and the erase of what it copied are written in any order. A mount works all the same.
#[test]
fn any_part_of_the_pages_written_back_can_be_mounted_and_written() {
    let mut cuts = 0;
    let mut losses = 0;
    for (marks, seed) in [(true, 11), (false, 12)] {
        let (filled, model) = filled(marks, seed);
        for cut in 0..24_u64 {
            let label = format!("marks {marks}, cut {cut}");
            let medium = Rc::new(filled.after_cut(None));
            let (known, forked) = (model.clone(), Rc::new(RefCell::new(None)));
            let (kept, device) = (forked.clone(), medium.clone());
            let done = run(&medium, 100, move |bench| async move {
                let model = known.fork().await;
                kept.replace(Some(model.clone()));
                device.cut_power_after(cut * 9 + 1);
                let Stack { fs, .. } = bench.mount(quiet(marks, cut)).await;
                let side = SideBySide::bare(&bench.sim, &fs, &model);
                let mut stream = Stream::new(cut, "power cut work");
                for step in 0..1000 {
                    let _ = side.step(&area(), &mut stream).await;
                    if step % 10 == 0 {
                        bench.sim.sleep(4_000_000_000).await;
                    }
                }
            });
            // Where the power holds out to the end of the work, it goes then, with what is dirty in memory.
            assert_ne!(done, medium.is_cut(), "{label}");
            cuts += 1;
            // Writes that no flush made durable may be lost one by one.
            let mut lost = Stream::new(cut, "lost");
            let left = Rc::new(medium.after_cut((cut % 2 == 1).then_some(&mut lost)));
            let worked = forked.take().expect("the work began");
            let missing = Rc::new(RefCell::new(0));
            let count = missing.clone();
            let reported = label.clone();
            assert!(
                run(&left, 0, move |bench| async move {
                    let Stack { fs, .. } = bench.mount(quiet(marks, cut + 100)).await;
                    fs.check_invariants();
                    let promise = worked.promise().borrow().clone();
                    let lost = promise.lost(&worked, &*fs).await;
                    *count.borrow_mut() = lost.len();
                    let made = fs.make(&CALLER, 1, b"after", NewInode::Regular(0o600)).await;
                    if let Ok(inode) = made {
                        write(&fs, &CALLER, inode, 0, &[9; 9000]).await.expect("written");
                        while fs.collect().await {}
                        let back = read_file(&fs, inode, 9000).await.expect("it reads");
                        assert_eq!(back, [9; 9000], "{reported}");
                    }
                    fs.unmount().await.expect("it unmounts");
                    fs.check_invariants();
                }),
                "{label}"
            );
            losses += u32::from(*missing.borrow() > 0);
        }
        // What the unmount left is whole, even if the device loses all that it may.
        let left = Rc::new(filled.after_cut(None));
        assert!(run(&left, 0, move |bench| async move {
            let Stack { fs, .. } = bench.mount(quiet(marks, 7)).await;
            assert_eq!(model.compare(&*fs).await, Ok(()), "after an unmount");
        }));
    }
    // Of those of these seeds, 22 lost files that were synced and not touched since.
    assert!(cuts > 30 && losses > 0 && losses < cuts, "{losses} of {cuts}");
}

#[test]
fn noise_in_written_pages_never_panics() {
    let (filled, _) = filled(true, 31);
    for seed in 0..40_u64 {
        let medium = Rc::new(filled.after_cut(None));
        let mut noise = Stream::new(seed, "noise");
        for _ in 0..=noise.below(30) {
            let page = u64::from(noise.below(12 * 16));
            let mut bytes = medium.block(page);
            match noise.below(4) {
                0 => bytes.fill(0),
                1 => bytes.fill(0xff),
                2 => bytes[noise.below(4096) as usize] ^= 1 << noise.below(8),
                _ => {
                    // Sectors of two states of the page, as a torn write of a page leaves them.
                    let other = medium.block(u64::from(noise.below(12 * 16)));
                    let sectors = noise.below(8) as usize * 512;
                    bytes[..sectors].copy_from_slice(&other[..sectors]);
                }
            }
            medium.set_block(page, &bytes);
        }
        run(&medium, 0, move |bench| async move {
            let Ok(Stack { fs, .. }) = bench.try_mount(quiet(true, seed)).await else { return };
            let _ = support::manifest(&fs).await;
            let vfs = Rc::new(Vfs::new(&bench.sim, fs.clone()));
            // Names and contents are anything: what counts is that calls come back.
            let lines = area().random_lines(seed, 100);
            play_lines(&bench.sim, &vfs, &lines).await.expect("lines of the language");
            let _ = fs.unmount().await;
            fs.check_invariants();
        });
    }
}

/// A disk that Linux 6.12 wrote over block2mtd (erased by `flash_erase -j`, 70 rounds of writes, links,
/// renames and deletions, summaries kept) shows what the kernel showed, is written further, and stays so.
#[test]
fn a_disk_of_the_kernel_shows_what_the_kernel_shows() {
    let image = support::data("block2mtd.img.zst");
    for marks in [false, true] {
        let medium = MemoryMedium::load(4096, &mut &image[..]).expect("whole pages");
        let medium = Rc::new(medium);
        assert!(run(&medium, 0, move |bench| async move {
            let Stack { fs, .. } = bench.mount(quiet(marks, 1)).await;
            let statistics = fs.statistics();
            assert!(marks || statistics.summaries_read > 3, "{statistics:?}");
            let expected = support::expected("block2mtd.manifest.tsv");
            support::assert_same("block2mtd", &support::manifest(&fs).await, &expected);
            assert_eq!(fs.findings(), []);
            fs.check_invariants();
            let inode = fs.make(&CALLER, 1, b"ours", NewInode::Regular(0o600)).await;
            let inode = inode.expect("made");
            let mut noise = Stream::new(1, "ours");
            for _ in 0..60 {
                let bytes: Vec<u8> = (0..30_000).map(|_| noise.next_u64() as u8).collect();
                write(&fs, &CALLER, inode, 0, &bytes).await.expect("written");
                while fs.collect().await {}
            }
            fs.unlink(&CALLER, 1, b"ours").await.expect("removed");
            fs.forget(inode).await.expect("forgotten");
            assert!(fs.statistics().blocks_erased > 10, "{:?}", fs.statistics());
            fs.unmount().await.expect("it unmounts");
        }));
        assert!(run(&medium, 0, move |bench| async move {
            let Stack { fs, .. } = bench.mount(quiet(marks, 2)).await;
            let expected = support::expected("block2mtd.manifest.tsv");
            let root = |line: &String| line.ends_with("\t.");
            let mut found = support::manifest(&fs).await;
            // The root's time is that of its newest entry.
            found.retain(|line| !root(line));
            let expected: Vec<String> = expected.into_iter().filter(|line| !root(line)).collect();
            support::assert_same("block2mtd, written further", &found, &expected);
            assert_eq!(fs.findings(), []);
        }));
    }
}

//! Random calls beside the model of all file systems where the suite over their table does not go: on chips so
//! small that the collector works all the time, under failing blocks, with options that no mount option sets.

use crate::support;

use conformance::{Area, Model, SideBySide};
use fs_api::{Errno, FileSystem, NewInode};
use jffs2::{CpuCosts, Jffs2, MountOptions, PROFILES, Statistics};
use nand::{Chip, FaultSettings};
use random::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::{CALLER, blank, quiet, read_file, run, write};

/// How a random run is set up.
struct Setup {
    steps: u32,
    mounts: u32,
    takes_time: bool,
    options: fn(u64) -> MountOptions,
}

/// More files than [`Area::whole`] has, so that they fill a small chip.
fn area() -> Area {
    Area { names: 60, file_bytes: 60_000, ..Area::whole(true) }
}

/// One mount: calls beside the model, with a look at the accounts after each; how many found no room.
async fn work_on(fs: &Rc<Jffs2>, side: &SideBySide<Jffs2>, mut stream: Stream, steps: u32) -> u32 {
    let fail = |wrong: String| panic!("{wrong}\n{:?}", fs.findings());
    let mut refused = 0;
    side.compare().await.unwrap_or_else(fail);
    for call in area().first_calls() {
        // Later mounts find the directories: both sides say so.
        let _ = side.call(&call).await.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for _ in 0..steps {
        let done = side.step(&area(), &mut stream).await;
        let done = done.unwrap_or_else(|wrong| panic!("{wrong}\n{:?}", fs.findings()));
        refused += u32::from(done == Err(Errno::Enospc));
        fs.check_invariants();
    }
    side.compare().await.unwrap_or_else(fail);
    refused
}

fn work(chip: Chip, seed: u64, setup: &Setup) -> (u32, Statistics) {
    let model = Rc::new(RefCell::new(None::<Model>));
    let refused = Rc::new(Cell::new(0));
    let statistics = Rc::new(Cell::new(Statistics::default()));
    let mut chip = chip;
    for mount in 0..setup.mounts {
        let (model, refused, statistics) = (model.clone(), refused.clone(), statistics.clone());
        let options = (setup.options)(seed + u64::from(mount));
        let done = Rc::new(Cell::new(false));
        let (is_done, steps) = (done.clone(), setup.steps);
        let (left, end) = run(chip, setup.takes_time, move |bench| async move {
            let fs = Rc::new(bench.mount(options).await);
            let known = model.take();
            let known = match known {
                Some(known) => known,
                None => Model::new(&*fs, true).await.that_may_be_full(),
            };
            let side = SideBySide::bare(&bench.sim, &fs, &known);
            let stream = Stream::new(seed << 8 | u64::from(mount), "random work");
            refused.set(refused.get() + work_on(&fs, &side, stream, steps).await);
            fs.unmount().await.expect("it unmounts");
            fs.check_invariants();
            let (before, now) = (statistics.get(), fs.statistics());
            statistics.set(Statistics {
                programs_recovered: before.programs_recovered + now.programs_recovered,
                foreground_passes: before.foreground_passes + now.foreground_passes,
                collector_passes: before.collector_passes + now.collector_passes,
                ..now
            });
            model.replace(Some(known));
            is_done.set(true);
        });
        assert!(done.get(), "seed {seed} mount {mount} ended as {end:?}");
        chip = left;
    }
    (refused.get(), statistics.get())
}

/// Four tasks write files of their own at the same time while the thread collects.
#[test]
fn tasks_side_by_side_keep_everything() {
    const TASKS: u64 = 4;
    let done = Rc::new(Cell::new(0));
    let count = done.clone();
    let (chip, _) = run(blank(16), true, move |bench| async move {
        let options = MountOptions {
            costs: CpuCosts {
                crc_ps_per_byte: 7_000,
                zlib_compress_ps_per_byte: 300_000,
                lzo_compress_ps_per_byte: 80_000,
                ..CpuCosts::default()
            },
            has_thread: true,
            has_write_back: true,
            ..quiet(5)
        };
        let fs = Rc::new(bench.mount(options).await);
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (fs, count) = (fs.clone(), count.clone());
                bench.sim.spawn(async move {
                    write_alone(&fs, task).await;
                    count.set(count.get() + 1);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        fs.check_invariants();
        let statistics = fs.statistics();
        assert!(statistics.nodes_collected > 0, "{statistics:?}");
        assert!(!fs.memory().kinds.is_empty() && fs.memory().total_bytes() > 0);
        fs.unmount().await.expect("it unmounts");
    });
    assert_eq!(done.get(), TASKS);
    assert!(chip.counters().erases > 16);
}

async fn write_alone(fs: &Jffs2, task: u64) {
    let mut stream = Stream::new(task, "side by side");
    let name = format!("task{task}");
    let inode = fs.make(&CALLER, 1, name.as_bytes(), NewInode::Regular(0o600)).await;
    let inode = inode.expect("made");
    let mut known = vec![0; 100_000];
    for round in 0..150 {
        let offset = stream.below(95_000) as usize;
        let count = 1 + stream.below(5000) as usize;
        let data: Vec<u8> = (0..count).map(|_| stream.next_u64() as u8).collect();
        write(fs, &CALLER, inode, offset as u64, &data).await.expect("written");
        known[offset..offset + count].copy_from_slice(&data);
        if round % 7 == 0 {
            fs.fsync(&CALLER, inode).await.expect("synced");
            let bytes = fs.attributes(inode).await.expect("attributes").size_bytes;
            let back = read_file(fs, inode, bytes).await.expect("it reads");
            assert_eq!(back, known[..bytes as usize], "task {task} round {round}");
        }
    }
}

#[test]
fn a_small_chip_is_collected_in_the_foreground() {
    let mut refusals = 0;
    for seed in 10..14 {
        let setup = Setup {
            steps: 2500,
            mounts: 3,
            takes_time: false,
            // Every other mount is without summaries and LZO.
            options: |seed| MountOptions {
                has_summary: Some(seed % 2 == 0),
                compressors: (seed % 2 == 1).then(|| vec![6, 2]),
                ..quiet(seed)
            },
        };
        let (refused, statistics) = work(blank(14), seed, &setup);
        refusals += refused;
        assert!(statistics.foreground_passes > 0, "{statistics:?}");
    }
    assert!(refusals > 0, "the chip was never full");
}

#[test]
fn the_thread_collects_in_the_background() {
    for seed in 20..22 {
        let setup = Setup {
            steps: 2500,
            mounts: 3,
            takes_time: true,
            options: |seed| MountOptions { has_thread: true, has_write_back: true, ..quiet(seed) },
        };
        let (_, statistics) = work(blank(16), seed, &setup);
        assert!(statistics.collector_passes > statistics.foreground_passes, "{statistics:?}");
    }
}

/// The suite leaves them out: they may show what stood behind the end of a file once it is read in again.
#[test]
fn old_profiles_work_within_one_mount() {
    for (profile, seed) in PROFILES.iter().zip(0..) {
        if profile.hole_reaches_position {
            continue;
        }
        let setup = Setup {
            steps: 800,
            mounts: 1,
            takes_time: true,
            options: |seed| MountOptions {
                has_thread: true,
                has_write_back: true,
                seed,
                ..MountOptions::new(&PROFILES[seed as usize % PROFILES.len()])
            },
        };
        work(blank(16), seed, &setup);
    }
}

#[test]
fn work_goes_on_where_programs_and_erases_fail() {
    for seed in 30..33 {
        let mut chip = blank(24);
        chip.set_faults(&FaultSettings {
            seed,
            program_failure_probability: 0.004,
            erase_failure_probability: 0.03,
            ..FaultSettings::default()
        });
        let setup = Setup { steps: 1500, mounts: 3, takes_time: false, options: quiet };
        let (_, statistics) = work(chip, seed, &setup);
        assert!(statistics.programs_recovered > 0, "{statistics:?}");
    }
}

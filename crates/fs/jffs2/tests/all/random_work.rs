//! Random work against a model in memory, with remounts, on large and small chips.

use crate::support;

use fs_api::{Errno, FileSystem, NewInode};
use jffs2::{CpuCosts, Jffs2, MountOptions, PROFILES};
use nand::{Chip, FaultSettings};
use random::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::model::{Model, write};
use support::{CALLER, blank, quiet, read_file, run};

/// How a random run is set up.
struct Setup {
    blocks: u32,
    bytes_max: usize,
    steps: u32,
    mounts: u32,
    takes_time: bool,
    options: fn(u64) -> MountOptions,
}

fn work(chip: Chip, seed: u64, setup: &Setup) -> (u32, jffs2::Statistics) {
    let model = Rc::new(RefCell::new(Some(Model::new(setup.bytes_max))));
    let refused = Rc::new(Cell::new(0));
    let statistics = Rc::new(Cell::new(jffs2::Statistics::default()));
    let mut chip = chip;
    for mount in 0..setup.mounts {
        let (model, refused, statistics) = (model.clone(), refused.clone(), statistics.clone());
        let options = (setup.options)(seed + u64::from(mount));
        let done = Rc::new(Cell::new(false));
        let (is_done, steps) = (done.clone(), setup.steps);
        let (left, end) = run(chip, setup.takes_time, move |bench| async move {
            let mut known = model.take().expect("one run at a time");
            let fs = bench.mount(options).await;
            let label = format!("seed {seed} mount {mount}");
            known.compare(&fs, &label).await;
            let mut stream = Stream::new(seed << 8 | u64::from(mount), "random work");
            for step in 0..steps {
                match known.step(&fs, &mut stream).await {
                    Ok(()) => {}
                    Err(Errno::Enospc) => refused.set(refused.get() + 1),
                    Err(error) => panic!("{label} step {step}: {error}\n{:?}", fs.findings()),
                }
            }
            known.compare(&fs, &format!("{label} before unmount")).await;
            fs.unmount().await.expect("it unmounts");
            fs.check_invariants();
            let (before, now) = (statistics.get(), fs.statistics());
            statistics.set(jffs2::Statistics {
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
fn a_large_chip_keeps_everything() {
    for seed in 0..4 {
        let setup = Setup {
            blocks: 64,
            bytes_max: 1 << 20,
            steps: 400,
            mounts: 4,
            takes_time: false,
            // Every other mount is without summaries and LZO.
            options: |seed| MountOptions {
                has_summary: Some(seed % 2 == 0),
                compressors: (seed % 2 == 1).then(|| vec![6, 2]),
                ..quiet(seed)
            },
        };
        let (refused, _) = work(blank(64), seed, &setup);
        assert_eq!(refused, 0);
        assert_eq!(setup.blocks, 64);
    }
}

#[test]
fn a_small_chip_is_collected_in_the_foreground() {
    for seed in 10..14 {
        let setup = Setup {
            blocks: 14,
            bytes_max: 2_000_000,
            steps: 2500,
            mounts: 3,
            takes_time: false,
            options: quiet,
        };
        let (_, statistics) = work(blank(14), seed, &setup);
        assert!(statistics.foreground_passes > 0, "{statistics:?}");
    }
}

#[test]
fn the_thread_collects_in_the_background() {
    for seed in 20..22 {
        let setup = Setup {
            blocks: 16,
            bytes_max: 1_200_000,
            steps: 1500,
            mounts: 3,
            takes_time: true,
            options: |seed| MountOptions { has_thread: true, has_write_back: true, ..quiet(seed) },
        };
        let (_, statistics) = work(blank(16), seed, &setup);
        assert!(statistics.collector_passes > statistics.foreground_passes, "{statistics:?}");
    }
}

#[test]
fn every_profile_works() {
    for (profile, seed) in PROFILES.iter().zip(0..) {
        let setup = Setup {
            blocks: 16,
            bytes_max: 1_200_000,
            steps: 800,
            // Old kernels may show what stood behind the end of a file once it is read in again.
            mounts: if profile.hole_reaches_position { 2 } else { 1 },
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
        let setup = Setup {
            blocks: 24,
            bytes_max: 1_200_000,
            steps: 1500,
            mounts: 3,
            takes_time: false,
            options: quiet,
        };
        let (_, statistics) = work(chip, seed, &setup);
        assert!(statistics.programs_recovered > 0, "{statistics:?}");
    }
}

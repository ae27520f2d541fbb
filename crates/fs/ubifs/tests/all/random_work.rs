//! Random calls beside the model of all file systems where the suite over their table does not go: on volumes
//! so small that calls wait for commits and the collector, with small eraseblocks, with a look at all states
//! after each call.

use crate::support;

use conformance::{Area, Model, SideBySide};
use random::Stream;
use sim::Sim;
use std::cell::Cell;
use std::rc::Rc;
use support::host::Host;
use support::{quiet, run};
use ubifs::{Compressor, MemoryVolume, MountOptions, Volume, VolumeShape};

fn volume(sim: &Sim, lebs: u32, leb_bytes: u32) -> Rc<MemoryVolume> {
    let shape =
        VolumeShape { leb_bytes, leb_count: lebs, min_io_bytes: 2048, max_write_bytes: 2048 };
    Rc::new(MemoryVolume::new(sim, shape))
}

/// What a run is made of.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    lebs: u32,
    leb_bytes: u32,
    steps: u32,
    names: u32,
    file_bytes: u32,
    compressor: Compressor,
    /// Steps from one check of the whole medium to the next. Such a check loads all of the index and of the LEB
    /// properties, so that a run with a check after each step hardly reads nodes as a mount does. What is in
    /// memory is checked after each step of every run.
    full_check_steps: u32,
}

/// Works, and returns what the mounts have done: commits, eraseblocks collected, eraseblocks of the index
/// whose gaps were filled.
fn work(run_of: Run) -> [u64; 3] {
    let done = Rc::new(Cell::new([0; 3]));
    let out = done.clone();
    let is_done = run(move |bench| async move {
        let Run { seed, steps, compressor, .. } = run_of;
        let mut stream = Stream::new(seed, "work");
        let memory = volume(&bench.sim, run_of.lebs, run_of.leb_bytes);
        let options = MountOptions { compressor: Some(compressor), has_thread: true, ..quiet() };
        let area = Area { names: run_of.names, file_bytes: run_of.file_bytes, ..Area::whole(true) };
        let mount = async || {
            Host::new(&bench, bench.mount(Volume::Memory(memory.clone()), options.clone()).await)
        };
        let mut host = mount().await;
        let model = Model::new(&*host.fs, true).await.that_may_be_full();
        let mut side = SideBySide::new(&bench.sim, &host.vfs, &model);
        for call in area.first_calls() {
            assert_eq!(side.call(&call).await, Ok(Ok(())));
        }
        for step in 1..=steps {
            let label = format!("seed {seed} step {step}");
            let done = side.step(&area, &mut stream).await;
            done.unwrap_or_else(|wrong| panic!("{label}: {wrong}")).ok();
            assert_eq!(host.fs.findings(), [], "{label}");
            assert_eq!(host.fs.check_states().await, [], "{label}");
            if step % run_of.full_check_steps == 0 {
                let wrong = host.fs.check().await.expect("it reads");
                assert_eq!(wrong, [], "{label}");
            }
            if step % 300 == 0 {
                assert_eq!(side.compare().await, Ok(()), "{label}");
                host.unmount().await.expect("it unmounts");
                let (now, before) = (host.fs.statistics(), out.get());
                let now = [now.commits, now.collected_lebs, now.gap_lebs];
                out.set([0, 1, 2].map(|at| before[at] + now[at]));
                host = mount().await;
                side = SideBySide::new(&bench.sim, &host.vfs, &model);
                assert_eq!(side.compare().await, Ok(()), "{label}, mounted again");
            }
        }
        host.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    done.get()
}

const RUN: Run = Run {
    seed: 1,
    lebs: 120,
    leb_bytes: 126_976,
    steps: 3000,
    names: 60,
    file_bytes: 60_000,
    compressor: Compressor::Lzo,
    full_check_steps: 97,
};

#[test]
fn little_room() {
    let run = Run { seed: 2, lebs: 30, compressor: Compressor::None, ..RUN };
    let [commits, collected, _] = work(run);
    assert!(commits > 100 && collected > 100, "{commits} commits, {collected} collected");
}

#[test]
fn small_blocks() {
    let run = Run { seed: 3, lebs: 200, leb_bytes: 16_384, compressor: Compressor::Zstd, ..RUN };
    let [commits, collected, _] = work(run);
    assert!(commits > 100 && collected > 100, "{commits} commits, {collected} collected");
}

#[test]
fn much_index() {
    let run = Run {
        seed: 4,
        lebs: 40,
        leb_bytes: 16_384,
        steps: 6000,
        names: 150,
        file_bytes: 600,
        compressor: Compressor::Zlib,
        full_check_steps: 97,
    };
    let [commits, collected, gaps] = work(run);
    assert!(commits > 100 && collected > 100 && gaps > 0, "{commits} {collected} {gaps}");
}

/// The rules of the medium hold after each call, not only now and then.
#[test]
fn every_step_is_checked() {
    let run = Run { seed: 5, lebs: 24, steps: 1500, full_check_steps: 1, ..RUN };
    let [commits, collected, _] = work(run);
    assert!(commits > 20 && collected > 20, "{commits} commits, {collected} collected");
}

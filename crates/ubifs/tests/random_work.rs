//! Random work against a model, with remounts, commits and collection on small volumes.

mod support;

use posix::FileSystem;
use random::Stream;
use sim::Sim;
use std::rc::Rc;
use support::host::Host;
use support::work::Model;
use support::{quiet, run};
use ubifs::{Compressor, MemoryVolume, MountOptions, Volume, VolumeShape};

fn volume(sim: &Sim, lebs: u32, leb_bytes: u32) -> Rc<MemoryVolume> {
    let shape =
        VolumeShape { leb_bytes, leb_count: lebs, min_io_bytes: 2048, max_write_bytes: 2048 };
    Rc::new(MemoryVolume::new(sim, shape))
}

fn work(seed: u64, lebs: u32, leb_bytes: u32, steps: u32, compressor: Compressor) {
    let is_done = run(move |bench| async move {
        let mut stream = Stream::new(seed, "work");
        let memory = volume(&bench.sim, lebs, leb_bytes);
        let options = MountOptions { compressor: Some(compressor), has_thread: true, ..quiet() };
        let mut model = Model::default();
        let mut host =
            Host::new(bench.mount(Volume::Memory(memory.clone()), options.clone()).await);
        for step in 0..steps {
            model.step(&host, &mut stream, 60_000).await;
            let label = format!("seed {seed} step {step}");
            if step % 97 == 96 {
                assert_eq!(
                    host.fs.check().await.expect("it reads"),
                    Vec::<String>::new(),
                    "{label}"
                );
            }
            if step % 301 == 300 {
                model.compare(&host, &label).await;
                host.unmount().await.expect("it unmounts");
                host =
                    Host::new(bench.mount(Volume::Memory(memory.clone()), options.clone()).await);
                model.compare(&host, &format!("{label}, mounted again")).await;
            }
            assert_eq!(host.fs.findings(), Vec::<String>::new(), "{label}");
        }
        let statistics = host.fs.statistics();
        println!("{seed}: {statistics:?} {:?}", host.fs.space());
        host.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
}

#[test]
fn much_room() {
    work(1, 120, 126_976, 3000, Compressor::Lzo);
}

#[test]
fn little_room() {
    work(2, 40, 126_976, 3000, Compressor::None);
}

#[test]
fn small_blocks() {
    work(3, 200, 16_384, 3000, Compressor::Zstd);
}

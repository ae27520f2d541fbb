//! Power cuts between and within the operations of a volume: what was synced stays, and everything adds
//! up after each recovery.

use crate::support;

use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use support::host::Host;
use support::work::Model;
use support::{quiet, run};
use ubifs::{Compressor, MemoryVolume, MountOptions, TornWrite, Volume, VolumeShape};

type Contents = Vec<Option<Vec<u8>>>;

const SHAPE: VolumeShape =
    VolumeShape { leb_bytes: 32_768, leb_count: 64, min_io_bytes: 2048, max_write_bytes: 2048 };

fn options() -> MountOptions {
    MountOptions { compressor: Some(Compressor::Lzo), has_thread: true, ..quiet() }
}

/// A volume on which some work was done, and the model of it.
fn filled(seed: u64, steps: u32) -> (Contents, Model) {
    let result = Rc::new(RefCell::new(None));
    let out = result.clone();
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
        let host = Host::new(&bench, bench.mount(Volume::Memory(memory.clone()), options()).await);
        let (mut model, mut stream) = (Model::default(), Stream::new(seed, "fill"));
        for _ in 0..steps {
            model.step(&host, &mut stream, 9_000).await;
        }
        model.sync(&host).await.expect("it syncs");
        host.unmount().await.expect("it unmounts");
        out.replace(Some((memory.contents(|_| false), model)));
    });
    assert!(is_done);
    result.take().expect("it came to its end")
}

/// Works until the power is cut; what the volume holds then, and false if it was not cut.
fn work(
    contents: Contents,
    mut model: Model,
    cut: (u64, TornWrite),
    seed: u64,
) -> (Contents, bool) {
    let volume = Rc::new(RefCell::new(None));
    let shared = volume.clone();
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        shared.replace(Some(memory.clone()));
        memory.cut_power_after(cut.0, cut.1);
        let host = Host::new(&bench, bench.mount(Volume::Memory(memory), options()).await);
        let mut stream = Stream::new(seed, "work");
        for _ in 0..250 {
            model.step(&host, &mut stream, 9_000).await;
        }
    });
    let memory = volume.take().expect("the work began");
    let returns = |leb: u32| (u64::from(leb) * 2_654_435_761 + seed) >> 7 & 1 == 1;
    (memory.contents(returns), !is_done)
}

/// Mounts after a cut and looks; if the power is cut again meanwhile, what the volume holds then.
fn recover(
    contents: Contents,
    model: &Model,
    cut: Option<(u64, TornWrite)>,
    label: String,
) -> (Contents, bool) {
    let volume = Rc::new(RefCell::new(None));
    let (shared, promise, mut fork) = (volume.clone(), model.promise.clone(), model.fork());
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        shared.replace(Some(memory.clone()));
        if let Some((operations, torn)) = cut {
            memory.cut_power_after(operations, torn);
        }
        let mounted = bench.try_mount(Volume::Memory(memory.clone()), options()).await;
        let fs = mounted.unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_eq!(fs.check().await.expect("it reads"), [], "{label}");
        let host = Host::new(&bench, fs);
        promise.compare(&host, &label).await;
        fork.start_anew();
        let mut stream = Stream::new(cut.map_or(1, |cut| cut.0), "after");
        for _ in 0..10 {
            fork.step(&host, &mut stream, 9_000).await;
        }
        host.sync().await.expect("it syncs");
        assert_eq!(host.fs.check().await.expect("it reads"), [], "{label}");
        host.unmount().await.expect("it unmounts");
        let fs = bench.mount(Volume::Memory(memory), options()).await;
        assert_eq!(fs.findings(), [], "{label}");
        assert_eq!(fs.check().await.expect("it reads"), [], "{label}");
    });
    let memory = volume.take().expect("the mount began");
    (memory.contents(|leb| leb % 2 == 0), !is_done)
}

fn storm(torn: TornWrite, seed: u64, stride: u64) {
    let (contents, model) = filled(seed, 120);
    let mut cuts = 0;
    for k in 0..400 {
        let operations = k * stride + seed % stride;
        let label = format!("{torn:?}, cut {operations}");
        let fork = model.fork();
        let promised = fork.promise.clone();
        let before = model.under(promised);
        let (left, is_cut) = work(contents.clone(), fork, (operations, torn), seed + 1);
        if !is_cut {
            break;
        }
        cuts += 1;
        let mut left = left;
        if k % 2 == 0 {
            // A second cut while the first is recovered from.
            let label = format!("{label}, cut again");
            let (again, is_cut) = recover(left, &before, Some((1 + k * 3 % 40, torn)), label);
            if !is_cut {
                continue;
            }
            left = again;
        }
        let (_, is_cut) = recover(left, &before, None, label);
        assert!(!is_cut);
    }
    assert!(cuts > 20, "{cuts} cuts");
}

#[test]
fn synced_data_survives_where_a_torn_write_never_began() {
    storm(TornWrite::Nothing, 1, 2);
}

#[test]
fn synced_data_survives_where_half_a_write_is_there() {
    storm(TornWrite::Half, 12, 2);
}

#[test]
fn synced_data_survives_where_the_last_write_is_whole() {
    storm(TornWrite::Whole, 23, 1);
}

//! Power cuts between and within the operations of a volume: what was synced stays, and everything adds
//! up after each recovery.

use crate::support;

use conformance::{Area, Call, Model, SideBySide};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use support::host::Host;
use support::{Bench, quiet, run};
use ubifs::{Compressor, MemoryVolume, MountOptions, TornWrite, Ubifs, Volume, VolumeShape};

type Contents = Vec<Option<Vec<u8>>>;

const SHAPE: VolumeShape =
    VolumeShape { leb_bytes: 32_768, leb_count: 64, min_io_bytes: 2048, max_write_bytes: 2048 };

/// As many small files as fill most of a volume.
fn area() -> Area {
    Area { names: 12, file_bytes: 12_000, ..Area::whole(true) }
}

/// Calls beside the model; one that has no room is left out.
pub(crate) async fn play(side: &SideBySide<Ubifs>, stream: &mut Stream, calls: u32) {
    for _ in 0..calls {
        let done = side.step(&area(), stream).await;
        done.unwrap_or_else(|wrong| panic!("{wrong}")).ok();
    }
}

/// Work on a fresh file system, synced; the model of it.
pub(crate) async fn fill(bench: &Bench, host: &Host, seed: u64, calls: u32) -> Model {
    let model = Model::new(&*host.fs, true).await.that_may_be_full();
    let side = SideBySide::new(&bench.sim, &host.vfs, &model);
    for call in area().first_calls() {
        assert_eq!(side.call(&call).await, Ok(Ok(())));
    }
    play(&side, &mut Stream::new(seed, "fill"), calls).await;
    assert_eq!(side.call(&Call::Line("sync".into())).await, Ok(Ok(())));
    model
}

/// Looks for what must be there after a cut, and works on with what is there.
pub(crate) async fn look_and_work(
    bench: &Bench,
    host: &Host,
    model: &Model,
    seed: u64,
    label: &str,
) {
    assert_eq!(host.fs.check().await.expect("it reads"), [], "{label}");
    let promise = model.promise().borrow().clone();
    let lost = promise.lost(model, &*host.fs).await;
    assert!(lost.is_empty(), "{label}: {lost:?}");
    // The promise is still that of `model`: a second cut is judged by what this work has synced.
    let found = model.of_what_is_there(&*host.fs).await.expect("it reads");
    let side = SideBySide::new(&bench.sim, &host.vfs, &found);
    play(&side, &mut Stream::new(seed, "after"), 20).await;
    assert_eq!(side.call(&Call::Line("sync".into())).await, Ok(Ok(())), "{label}");
    assert_eq!(host.fs.check().await.expect("it reads"), [], "{label}");
    assert_eq!(side.compare().await, Ok(()), "{label}, worked on");
    host.unmount().await.expect("it unmounts");
}

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
        let model = fill(&bench, &host, seed, steps).await;
        host.unmount().await.expect("it unmounts");
        out.replace(Some((memory.contents(|_| false), model)));
    });
    assert!(is_done);
    result.take().expect("it came to its end")
}

/// Works until the power is cut; what the volume holds then, the model with what is promised, and whether it was
/// cut.
fn work(
    contents: Contents,
    model: &Model,
    cut: (u64, TornWrite),
    seed: u64,
) -> (Contents, Model, bool) {
    let volume = Rc::new(RefCell::new(None));
    let (shared, known) = (volume.clone(), model.clone());
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        let model = known.fork().await;
        shared.replace(Some((memory.clone(), model.clone())));
        memory.cut_power_after(cut.0, cut.1);
        let host = Host::new(&bench, bench.mount(Volume::Memory(memory), options()).await);
        let side = SideBySide::new(&bench.sim, &host.vfs, &model);
        play(&side, &mut Stream::new(seed, "work"), 400).await;
    });
    let (memory, model) = volume.take().expect("the work began");
    let returns = |leb: u32| (u64::from(leb) * 2_654_435_761 + seed) >> 7 & 1 == 1;
    (memory.contents(returns), model, !is_done)
}

/// Mounts after a cut and looks; if the power is cut again meanwhile, what the volume holds then.
fn recover(
    contents: Contents,
    model: &Model,
    cut: Option<(u64, TornWrite)>,
    label: String,
) -> (Contents, bool) {
    let volume = Rc::new(RefCell::new(None));
    let (shared, model) = (volume.clone(), model.clone());
    let is_done = run(move |bench| async move {
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        shared.replace(Some(memory.clone()));
        if let Some((operations, torn)) = cut {
            memory.cut_power_after(operations, torn);
        }
        let mounted = bench.try_mount(Volume::Memory(memory.clone()), options()).await;
        let fs = mounted.unwrap_or_else(|error| panic!("{label}: {error}"));
        let host = Host::new(&bench, fs);
        look_and_work(&bench, &host, &model, cut.map_or(1, |cut| cut.0), &label).await;
        let fs = bench.mount(Volume::Memory(memory), options()).await;
        assert_eq!(fs.findings(), [], "{label}");
        assert_eq!(fs.check().await.expect("it reads"), [], "{label}");
    });
    let memory = volume.take().expect("the mount began");
    (memory.contents(|leb| leb % 2 == 0), !is_done)
}

fn storm(torn: TornWrite, seed: u64, stride: u64) {
    let (contents, model) = filled(seed, 200);
    let mut cuts = 0;
    for k in 0..400 {
        let operations = k * stride + seed % stride;
        let label = format!("{torn:?}, cut {operations}");
        let (left, model, is_cut) = work(contents.clone(), &model, (operations, torn), seed + 1);
        if !is_cut {
            break;
        }
        cuts += 1;
        let mut left = left;
        if k % 2 == 0 {
            // A second cut while the first is recovered from.
            let label = format!("{label}, cut again");
            let (again, is_cut) = recover(left, &model, Some((1 + k * 3 % 40, torn)), label);
            if !is_cut {
                continue;
            }
            left = again;
        }
        let (_, is_cut) = recover(left, &model, None, label);
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

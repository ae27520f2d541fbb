//! Several writers and the flusher at a time on a small volume: files as written, everything adds up.

use crate::support;

use board::Board;
use fs_api::{Caller, Errno, Time};
use random::Stream;
use std::rc::Rc;
use support::{Bench, quiet, run};
use ubifs::{Compressor, MemoryVolume, MountOptions, Ubifs, Volume, VolumeShape};
use vfs::{OpenOptions, Vfs};

const SHAPE: VolumeShape =
    VolumeShape { leb_bytes: 126_976, leb_count: 60, min_io_bytes: 2048, max_write_bytes: 2048 };
const SECOND_NS: u64 = 1_000_000_000;

const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };

fn options() -> MountOptions {
    MountOptions { compressor: Some(Compressor::None), has_thread: true, ..quiet() }
}

/// A kernel with memory for so many pages, of which a fifth may be dirty.
fn mount_under(bench: &Bench, fs: Ubifs, pages: u64) -> Rc<Vfs<Ubifs>> {
    let mut board = Board::without_costs();
    board.available_bytes = pages * 4096;
    board.memory_bytes = 2 * board.available_bytes;
    board.costs.copy_ps_per_byte = 500;
    Rc::new(Vfs::cached(&bench.sim, &bench.cpus, &Rc::new(board), Rc::new(fs)))
}

/// Writes, cuts, syncs and deletes files of its own; what they must hold.
async fn write(bench: Bench, vfs: Rc<Vfs<Ubifs>>, pid: u32) -> Vec<(String, Vec<u8>)> {
    let mut stream = Stream::new(u64::from(pid), "writer");
    let mut models = vec![Vec::new(); 4];
    let name = |which: usize| format!("{pid}-{which}");
    for step in 0..300_u32 {
        let which = stream.below(4) as usize;
        let (path, model) = (name(which), &mut models[which]);
        let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&CALLER, path.as_bytes(), options).await.expect("it opens");
        let at = stream.below(300_000) as usize;
        match stream.below(12) {
            0 | 1 => {
                vfs.truncate(&CALLER, path.as_bytes(), at as u64).await.expect("cut");
                model.resize(at, 0);
            }
            2 => vfs.fsync(&CALLER, &file).await.expect("synced"),
            3 => bench.sim.sleep(u64::from(stream.below(10)) * SECOND_NS).await,
            4 => {
                vfs.unlink(&CALLER, path.as_bytes()).await.expect("unlinked");
                model.clear();
            }
            _ => {
                for page in 0..=stream.below(30) as usize {
                    let (at, bytes) = (at + page * 4096, vec![step as u8; 4096]);
                    match vfs.write(&CALLER, &file, at as u64, &bytes).await {
                        Ok(()) => {
                            model.resize(model.len().max(at + 4096), 0);
                            model[at..at + 4096].copy_from_slice(&bytes);
                        }
                        // A page may be written in part before there is no space for the next.
                        Err(Errno::Enospc) => {
                            vfs.truncate(&CALLER, path.as_bytes(), 0).await.expect("emptied");
                            model.clear();
                            break;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        vfs.close(&CALLER, file).await.expect("closed");
    }
    // A file that was deleted last is not there: an empty model says nothing of it.
    (0..4).map(|which| (name(which), std::mem::take(&mut models[which]))).collect()
}

async fn compare(vfs: &Vfs<Ubifs>, models: &[(String, Vec<u8>)], label: &str) {
    for (path, model) in models.iter().filter(|(_, model)| !model.is_empty()) {
        let file = vfs.open(&CALLER, path.as_bytes(), OpenOptions::default()).await;
        let file = file.expect("it is there");
        let mut bytes = vec![0xee; model.len() + 1];
        let count = vfs.read(&file, 0, &mut bytes).await.expect("it reads");
        assert!(bytes[..count] == model[..], "{label}: {path}");
        vfs.close(&CALLER, file).await.expect("closed");
    }
}

#[test]
fn files_are_as_written_however_many_write() {
    for pages in [64, 600, 10_000] {
        let is_done = run(async move |bench| {
            let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
            let fs = bench.mount(Volume::Memory(memory.clone()), options()).await;
            let vfs = mount_under(&bench, fs, pages);
            let writers: Vec<_> = (1..=4)
                .map(|pid| bench.sim.spawn(write(bench.clone(), vfs.clone(), pid)))
                .collect();
            let mut models = Vec::new();
            for writer in writers {
                models.extend(writer.await);
            }
            let label = format!("{pages} pages");
            compare(&vfs, &models, &label).await;
            vfs.sync().await.expect("synced");
            assert!(fs_api::FileSystem::dirty_inodes(&**vfs.file_system()).is_empty());
            let wrong = vfs.file_system().check().await.expect("it reads");
            assert_eq!(wrong, [], "{label}");
            assert_eq!(vfs.file_system().check_states().await, [], "{label}");
            vfs.unmount().await.expect("unmounted");
            drop(vfs);
            let fs = bench.mount(Volume::Memory(memory), options()).await;
            assert_eq!(fs.findings(), [], "{label}");
            compare(&mount_under(&bench, fs, pages), &models, &label).await;
        });
        assert!(is_done);
    }
}

#[test]
fn what_is_old_survives_without_a_sync_and_what_is_young_does_not() {
    let is_done = run(async move |bench| {
        let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
        let write_buffer_interval_ns = Some(5 * SECOND_NS);
        let options = MountOptions { write_buffer_interval_ns, ..options() };
        let fs = bench.mount(Volume::Memory(memory.clone()), options.clone()).await;
        let vfs = mount_under(&bench, fs, 10_000);
        let creating = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        for (path, bytes) in [(b"old", 1), (b"new", 2)] {
            let file = vfs.open(&CALLER, path, creating).await.expect("it opens");
            vfs.write(&CALLER, &file, 0, &[bytes; 12_000]).await.expect("written");
            vfs.close(&CALLER, file).await.expect("closed");
            bench.sim.sleep(if bytes == 1 { 45 * SECOND_NS } else { 10 * SECOND_NS }).await;
        }
        // The power goes: what the volume holds now is mounted elsewhere.
        let contents = memory.contents(|_| false);
        let memory = Rc::new(MemoryVolume::with_contents(&bench.sim, SHAPE, contents));
        let after = mount_under(&bench, bench.mount(Volume::Memory(memory), options).await, 10_000);
        compare(&after, &[("old".into(), vec![1; 12_000])], "after the cut").await;
        // The name of the other has reached the medium, its bytes have not.
        assert_eq!(after.stat(b"new").await.expect("it is there").size_bytes, 0);
        // The first mount would write its buffers for ever.
        bench.sim.stop();
    });
    assert!(is_done);
}

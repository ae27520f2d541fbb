//! Dirty space is counted once: of each node that falls out of use, at once and again when the journal is
//! replayed.

use crate::support;

use fs_api::{Errno, NewInode};
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;
use support::host::Host;
use support::{Bench, quiet, read_only, run};
use ubifs::{Compressor, MemoryVolume, MountOptions, Volume, VolumeShape};

const SHAPE: VolumeShape =
    VolumeShape { leb_bytes: 32_768, leb_count: 40, min_io_bytes: 2048, max_write_bytes: 2048 };

fn options() -> MountOptions {
    MountOptions { compressor: Some(Compressor::None), ..quiet() }
}

async fn mounted(bench: &Bench) -> (Rc<Host>, Rc<MemoryVolume>) {
    let memory = Rc::new(MemoryVolume::new(&bench.sim, SHAPE));
    let fs = bench.mount(Volume::Memory(memory.clone()), options()).await;
    (Host::new(bench, fs), memory)
}

/// Every eraseblock is what is in use, free and dirty in it; as the mount has it, and as one has it that
/// replays the journal.
async fn is_counted_once(bench: &Bench, host: &Host, memory: &MemoryVolume, label: &str) {
    let wrong = host.fs.check().await.expect("it reads");
    assert_eq!(wrong, [], "after {label}");
    let left = MemoryVolume::with_contents(&bench.sim, SHAPE, memory.contents(|_| false));
    let fs = bench.mount(Volume::Memory(Rc::new(left)), read_only()).await;
    let wrong = fs.check().await.expect("it reads");
    assert_eq!(wrong, [], "{label}, replayed");
    assert_eq!(fs.findings(), [], "{label}, replayed");
}

#[test]
fn every_call_makes_a_node_dirty_once() {
    let is_done = run(|bench| async move {
        let (host, memory) = mounted(&bench).await;
        let mut noise = Stream::new(3, "dirty space");
        for round in 0..3 {
            let bytes: Vec<u8> = (0..9000).map(|_| noise.next_u64() as u8).collect();
            let look = async |label: &str| {
                // What is in the write-buffers reaches the medium, as the mount counts it.
                host.open("witness").await.expect("made");
                host.fsync("witness").await.expect("synced");
                is_counted_once(&bench, &host, &memory, &format!("{label}, round {round}")).await;
            };
            host.write("file", 0, &bytes).await.expect("written");
            host.fsync("file").await.expect("synced");
            look("a write").await;
            host.write("file", 4096, &bytes[..4096]).await.expect("written");
            host.fsync("file").await.expect("synced");
            look("an overwrite").await;
            host.truncate("file", 5000).await.expect("cut");
            look("a cut within a block").await;
            host.truncate("file", 4096).await.expect("cut");
            look("a cut between blocks").await;
            host.make("link", NewInode::Symlink(b"target")).await.expect("made");
            host.make("device", NewInode::Special(0o020_600, (1, 2))).await.expect("made");
            host.make("directory", NewInode::Directory(0o755)).await.expect("made");
            look("new names").await;
            for value in [&b"one"[..], b"another value"] {
                host.set_attribute("file", b"user.name", Some(value)).await.expect("set");
                host.set_attribute("file", b"user.more", Some(value)).await.expect("set");
                look("an attribute").await;
            }
            host.set_attribute("file", b"user.name", None).await.expect("removed");
            look("an attribute that goes").await;
            host.rename("link", "moved").await.expect("renamed");
            look("a rename").await;
            host.rename("moved", "device").await.expect("renamed");
            look("a rename over another name").await;
            if round == 1 {
                host.sync().await.expect("synced");
                look("a commit").await;
            }
            for name in ["file", "device", "directory"] {
                host.unlink(name).await.expect("removed");
                look("a removal").await;
            }
        }
        host.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
}

/// An eraseblock that was collected and written again since the last commit has properties from before:
/// what they call dirty is gone, and must not be added to what the replay finds (`set_bud_lprops`).
#[test]
fn what_was_collected_before_a_cut_is_not_dirty_twice() {
    let replayed = Rc::new(Cell::new(0));
    let out = replayed.clone();
    let is_done = run(move |bench| async move {
        let (host, memory) = mounted(&bench).await;
        let mut stream = Stream::new(5, "collected");
        let mut noise =
            |bytes: usize| -> Vec<u8> { (0..bytes).map(|_| stream.next_u64() as u8).collect() };
        let mut files = 0;
        while files < 60 && host.write(&format!("f{files}"), 0, &noise(16_384)).await.is_ok() {
            host.fsync(&format!("f{files}")).await.expect("synced");
            files += 1;
        }
        // Room for the journal to go on without a commit, and not for more.
        for file in 0..files / 8 {
            host.unlink(&format!("f{}", file * 7)).await.expect("removed");
        }
        host.sync().await.expect("synced");
        let mut before = host.fs.statistics();
        let mut is_reused = false;
        for round in 0..400_u64 {
            let file = format!("f{}", round * 5 % files);
            if host.attributes(&file).await.is_err() {
                continue;
            }
            match host.write(&file, round % 4 * 4096, &noise(4096)).await {
                Ok(()) => host.fsync(&file).await.expect("synced"),
                Err(error) => assert_eq!(error, Errno::Enospc),
            }
            let now = host.fs.statistics();
            if now.commits != before.commits {
                (before, is_reused) = (now, false);
            }
            is_reused |= now.collected_lebs > before.collected_lebs;
            if is_reused {
                is_counted_once(&bench, &host, &memory, &format!("round {round}")).await;
                out.set(out.get() + 1);
            }
        }
    });
    assert!(is_done);
    assert!(replayed.get() > 20, "{} cuts behind a collection", replayed.get());
}

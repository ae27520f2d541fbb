//! Several processes at a time, over a device that takes its time.

use crate::support;

use block_medium::{BlockMedium, MediumError, MemoryMedium, Pending, WriteFlags};
use fat::{Fat, FormatOptions, MountOptions};
use fs_api::{FileSystem, NewInode};
use random::Stream;
use sim::Sim;
use std::collections::BTreeMap;
use std::rc::Rc;
use support::work::write_file;
use support::{CALLER, Found, assert_clean, assert_same, formatted, options, run, tree};
use vfs::{OpenOptions, Vfs};

/// A device that answers late.
struct Slow {
    sim: Sim,
    inner: Rc<MemoryMedium>,
}

impl Slow {
    fn late<T: 'static>(&self, answer: Result<T, MediumError>, ns: u64) -> Pending<'static, T> {
        let sim = self.sim.clone();
        Box::pin(async move {
            sim.sleep(ns).await;
            answer
        })
    }
}

impl BlockMedium for Slow {
    fn block_bytes(&self) -> usize {
        self.inner.block_bytes()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read(&self, first: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        Box::pin(async move {
            self.sim.sleep(70_000).await;
            self.inner.read(first, blocks).await
        })
    }

    fn write(
        &self,
        first: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        Box::pin(async move {
            // A full queue makes the submitter wait now and then.
            self.sim.sleep(first % 3 * 1000).await;
            let done = self.inner.write(first, bytes, flags).await?.await;
            Ok(self.late(done, 300_000 + first % 7 * 10_000))
        })
    }

    fn flush(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            self.sim.sleep(1_000_000).await;
            self.inner.flush().await
        })
    }
}

/// One process: its files, in a directory of its own; what must be there at the end.
async fn process(vfs: Rc<Vfs<Fat>>, sim: Sim, number: u64) -> BTreeMap<String, Found> {
    let mut stream = Stream::new(number, "process");
    let top = format!("process {number}");
    vfs.make(&CALLER, top.as_bytes(), NewInode::Directory(0o755)).await.expect("it is made");
    let mut expected = BTreeMap::new();
    for round in 0..150_u32 {
        let path = format!("{top}/a file of this process {}", stream.below(12));
        let known = format!("/{path}");
        match stream.below(8) {
            0 if expected.contains_key(&known) => {
                vfs.unlink(&CALLER, path.as_bytes()).await.expect("it is removed");
                expected.remove(&known);
            }
            1 if expected.contains_key(&known) => {
                let to = format!("{top}/renamed {}", stream.below(3));
                vfs.rename(&CALLER, path.as_bytes(), to.as_bytes()).await.expect("it is renamed");
                let found = expected.remove(&known).expect("it was there");
                expected.insert(format!("/{to}"), found);
            }
            2 => sim.sleep(9_000_000_000).await,
            3 => vfs.sync().await.expect("it syncs"),
            _ => {
                let content = vec![round as u8; stream.below(30_000) as usize];
                let options =
                    OpenOptions { create: Some(0o644), truncate: true, ..OpenOptions::default() };
                let syncs = stream.below(3) == 0;
                let written = write_file(&vfs, path.as_bytes(), options, 0, &content, syncs).await;
                written.expect("it is written");
                expected.insert(known, Found::File(content));
            }
        }
    }
    expected.insert(format!("/{top}"), Found::Directory(2));
    expected
}

#[test]
fn processes_that_work_at_once_do_not_disturb_each_other() {
    let medium = formatted(8 << 20, FormatOptions::default());
    let (medium, is_done) = run(medium, |bench| async move {
        let slow = Slow { sim: bench.sim.clone(), inner: bench.medium.clone() };
        let options: MountOptions = options();
        let fs = Fat::mount(&bench.sim, bench.cpus.clone(), Rc::new(slow), options).await;
        let vfs = Rc::new(bench.kernel_over(fs.expect("it mounts")));
        let tasks: Vec<_> = (0..4)
            .map(|number| bench.sim.spawn(process(vfs.clone(), bench.sim.clone(), number)))
            .collect();
        let mut expected = BTreeMap::new();
        for task in tasks {
            expected.extend(task.await);
        }
        vfs.sync().await.expect("it syncs");
        assert_same("at once", &tree(&**vfs.file_system()).await, &expected);
        assert!(expected.len() > 20);
        let fs = vfs.file_system();
        assert_eq!(fs.findings(), []);
        let free = fs.space().free_blocks;
        vfs.unmount().await.expect("it unmounts");
        let again = bench.mount(options).await;
        assert_eq!(again.space().free_blocks, free);
        assert_same("mounted again", &tree(&again).await, &expected);
        again.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    assert_clean(&medium, "at once");
}

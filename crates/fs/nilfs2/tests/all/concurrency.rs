//! Several processes at once over a device that takes time, with the constructor's timer and the
//! cleaner beside them: everybody reads what it wrote, and nothing contradicts itself.

use crate::support;

use block_medium::{BlockMedium, MemoryMedium, Pending, WriteFlags};
use fs_api::{Changes, FileSystem, InodeNumber, NewInode, PAGE_BYTES};
use nilfs2::{CleanerSettings, FormatOptions, MountOptions, Nilfs2, format};
use random::Stream;
use sim::{Sim, Simulation};
use std::collections::BTreeMap;
use std::rc::Rc;
use support::{CALLER, profile};

const READ_NS: u64 = 90_000;
const WRITE_NS_PER_BLOCK: u64 = 40_000;
const FILES: u32 = 6;
const PAGES: u32 = 400;

/// A device in memory that takes time; reads overtake writes.
struct SlowMedium {
    sim: Sim,
    memory: MemoryMedium,
}

impl BlockMedium for SlowMedium {
    fn block_bytes(&self) -> usize {
        self.memory.block_bytes()
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn read(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        Box::pin(async move {
            self.sim.sleep(READ_NS * u64::from(blocks)).await;
            self.memory.read(first_block, blocks).await
        })
    }

    fn write(
        &self,
        first_block: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        Box::pin(async move {
            let sim = self.sim.clone();
            let time_ns = (bytes.len() / PAGE_BYTES) as u64 * WRITE_NS_PER_BLOCK;
            sim.sleep(1000).await;
            let done = self.memory.write(first_block, bytes, flags).await?;
            Ok(Box::pin(async move {
                sim.sleep(time_ns).await;
                done.await
            }) as Pending<'static, ()>)
        })
    }

    fn flush(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            self.sim.sleep(READ_NS).await;
            self.memory.flush().await
        })
    }
}

/// What a process has written to one of its files: the byte each page is full of, 0 in holes.
#[derive(Default)]
struct Known {
    inode: InodeNumber,
    pages: Vec<u8>,
}

async fn assert_page(fs: &Nilfs2, known: &Known, page: usize, label: &str) {
    let mut bytes = [0; PAGE_BYTES];
    fs.read_page(known.inode, page as u64, &mut bytes).await.expect("it is read");
    assert!(bytes == [known.pages[page]; PAGE_BYTES], "{label}: page {page} has {}", bytes[0]);
}

// One function: each arm changes the file system and what is known of it together.
/// A process in its own directory.
async fn process(sim: Sim, fs: Nilfs2, number: u32) -> BTreeMap<String, Vec<u8>> {
    let mut stream = Stream::new(number.into(), "process");
    let label = format!("process {number}");
    let name = format!("d{number}");
    let new = NewInode::Directory(0o755);
    let directory = fs.make(&CALLER, fs.root(), name.as_bytes(), new).await.expect("made");
    let mut files: BTreeMap<String, Known> = BTreeMap::new();
    for step in 0..600_u32 {
        let name = format!("f{}", stream.below(FILES));
        let raw = name.as_bytes();
        if !files.contains_key(&name) {
            let new = NewInode::Regular(0o644);
            let inode = fs.make(&CALLER, directory, raw, new).await.expect("it is made");
            files.insert(name.clone(), Known { inode, pages: Vec::new() });
        }
        let known = files.get_mut(&name).expect("it was made");
        match stream.below(20) {
            0 => {
                let inode = known.inode;
                fs.unlink(&CALLER, directory, raw).await.expect("it is removed");
                fs.forget(inode).await.expect("it is forgotten");
                files.remove(&name);
            }
            1 => {
                let pages = stream.below(PAGES) as usize;
                let size_bytes = Some((pages * PAGE_BYTES) as u64);
                let to = Changes { size_bytes, ..Changes::default() };
                fs.change(&CALLER, known.inode, &to).await.expect("it is cut");
                known.pages.resize(pages, 0);
            }
            2 => fs.fsync(&CALLER, known.inode).await.expect("it syncs"),
            3 => fs.sync_data(known.inode).await.expect("it syncs"),
            4 if step % 10 == 0 => fs.sync().await.expect("it syncs"),
            5 => _ = fs.drop_caches(),
            6..=10 => {
                for _ in 0..8 {
                    if !known.pages.is_empty() {
                        let page = stream.below(known.pages.len() as u32) as usize;
                        assert_page(&fs, known, page, &label).await;
                    }
                }
            }
            _ => {
                let first = stream.below(PAGES) as usize;
                for page in first..first + 1 + stream.below(20) as usize {
                    let byte = 1 + stream.below(250) as u8;
                    let (bytes, part) = ([byte; PAGE_BYTES], 0..PAGE_BYTES);
                    let wrote =
                        fs.write_page(&CALLER, known.inode, page as u64, &bytes, part).await;
                    wrote.expect("it is written");
                    if known.pages.len() <= page {
                        known.pages.resize(page + 1, 0);
                    }
                    known.pages[page] = byte;
                }
            }
        }
        sim.sleep(u64::from(stream.below(60)) * 1_000_000).await;
    }
    for known in files.values() {
        for page in 0..known.pages.len() {
            assert_page(&fs, known, page, &label).await;
        }
    }
    files.into_iter().map(|(name, known)| (name, known.pages)).collect()
}

#[test]
fn processes_read_what_they_wrote() {
    let mut simulation = Simulation::new(3);
    let sim = simulation.handle();
    let cpus = Rc::new(sim::Cpus::new(&sim, 1, 10_000_000));
    let medium =
        Rc::new(SlowMedium { sim: sim.clone(), memory: MemoryMedium::new(4096, 96 << 20) });
    let task = sim.spawn(async move {
        let sim = medium.sim.clone();
        let fresh = FormatOptions { blocks_per_segment: 128, ..FormatOptions::default() };
        format(&*medium, &fresh).await.expect("it is made");
        let options = MountOptions::new(profile());
        let mount = || Nilfs2::mount(&sim, cpus.clone(), medium.clone(), options);
        let fs = mount().await.expect("it mounts");
        let settings = CleanerSettings {
            protection_period_s: 1,
            min_clean_percent: 70,
            max_clean_percent: 90,
            clean_check_interval_s: 1,
            ..CleanerSettings::default()
        };
        fs.start_cleaner(settings);
        let processes: Vec<_> =
            (0..4).map(|number| sim.spawn(process(sim.clone(), fs.clone(), number))).collect();
        let mut trees = Vec::new();
        for process in processes {
            trees.push(process.await);
        }
        fs.sync().await.expect("it syncs");
        assert_eq!(fs.check().await.expect("it is read"), []);
        assert_eq!(fs.findings(), []);
        fs.unmount().await.expect("it unmounts");
        let fs = mount().await.expect("it mounts");
        for (number, tree) in trees.into_iter().enumerate() {
            let name = format!("d{number}");
            let directory = fs.lookup(fs.root(), name.as_bytes()).await.expect("it is there");
            for (name, pages) in tree {
                let inode = fs.lookup(directory, name.as_bytes()).await.expect("it is there");
                let known = Known { inode, pages };
                for page in 0..known.pages.len() {
                    assert_page(&fs, &known, page, "mounted again").await;
                }
            }
        }
        assert_eq!(fs.check().await.expect("it is read"), []);
        medium.memory.written_blocks()
    });
    simulation.run();
    let written = task.try_take().expect("it came to its end");
    assert!(written > 10_000, "{written} blocks");
}

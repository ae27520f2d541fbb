//! What the tests share: media, simulations, trees and manifests.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use block_medium::{BlockMedium, MemoryMedium};
use conformance::{Area, Model, SideBySide};
use fs_api::{Caller, Errno, FileSystem, FileType, InodeNumber, PAGE_BYTES, Time};
use nilfs2::{MountOptions, Nilfs2, Profile, find_profile};
use random::Stream;
use sha2::{Digest, Sha256};
use sim::{Cpus, Sim, Simulation};
use std::path::Path;
use std::rc::Rc;
use vfs::{escape_path, hexadecimal};

pub(crate) fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "zst") {
        zstd::decode_all(&bytes[..]).expect("a sound archive")
    } else {
        bytes
    }
}

pub(crate) fn text(name: &str) -> String {
    String::from_utf8(data(name)).expect("text")
}

pub(crate) fn load(name: &str) -> MemoryMedium {
    MemoryMedium::load(4096, &mut &data(&format!("{name}.img.zst"))[..]).expect("it is in memory")
}

pub(crate) fn profile() -> &'static Profile {
    find_profile("linux-6.12").expect("in the table")
}

pub(crate) const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };

/// What a test has at hand inside the simulation.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) medium: Rc<MemoryMedium>,
}

impl Bench {
    pub(crate) async fn mount(&self, options: MountOptions) -> Nilfs2 {
        self.try_mount(options).await.expect("it mounts")
    }

    pub(crate) async fn try_mount(
        &self,
        options: MountOptions,
    ) -> Result<Nilfs2, nilfs2::MountError> {
        let medium: Rc<dyn BlockMedium> = self.medium.clone();
        Nilfs2::mount(&self.sim, self.cpus.clone(), medium, options).await
    }
}

/// Options of a mount without a timer.
pub(crate) fn quiet() -> MountOptions {
    MountOptions { has_timer: false, ..MountOptions::new(profile()) }
}

pub(crate) fn read_only() -> MountOptions {
    MountOptions { is_read_only: true, ..quiet() }
}

/// Runs a job over a medium; gives the medium back, and whether the job came to its end.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    medium: MemoryMedium,
    job: impl FnOnce(Bench) -> F,
) -> (Rc<MemoryMedium>, bool) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let medium = Rc::new(medium);
    let task = sim.spawn(job(Bench { sim: sim.clone(), cpus, medium: medium.clone() }));
    simulation.run();
    // Threads of the file system may wait for ever; what counts is that the job came to its end.
    (medium, task.is_finished())
}

/// Random calls beside the model of all file systems, with a look at the lists in memory after each.
pub(crate) struct Work {
    fs: Rc<Nilfs2>,
    side: SideBySide<Nilfs2>,
    area: Area,
    stream: Stream,
}

impl Work {
    /// On a file system in which nothing was done yet, with so many names of files in each directory.
    pub(crate) async fn new(bench: &Bench, fs: &Rc<Nilfs2>, seed: u64, names: u32) -> Self {
        let model = Model::new(&**fs, true).await.that_may_be_full();
        let area = Area { names, ..Area::whole(true) };
        let calls = area.first_calls();
        let work = Self::beside(bench, fs, seed, &model, area);
        for call in calls {
            assert_eq!(work.side.call(&call).await, Ok(Ok(())));
        }
        work
    }

    /// On a file system that a model is known of.
    pub(crate) fn beside(
        bench: &Bench,
        fs: &Rc<Nilfs2>,
        seed: u64,
        model: &Model,
        area: Area,
    ) -> Self {
        let side = SideBySide::bare(&bench.sim, fs, model);
        Self { fs: fs.clone(), side, area, stream: Stream::new(seed, "work") }
    }

    pub(crate) fn model(&self) -> &Model {
        self.side.model()
    }

    /// Calls; how many found no room.
    pub(crate) async fn play(&mut self, calls: u32) -> u32 {
        let mut refused = 0;
        for _ in 0..calls {
            let done = self.side.step(&self.area, &mut self.stream).await;
            let done = done.unwrap_or_else(|wrong| panic!("{wrong}; {:?}", self.fs.findings()));
            refused += u32::from(done == Err(Errno::Enospc));
            self.fs.check_invariants();
        }
        refused
    }

    pub(crate) async fn assert_same(&self, label: &str) {
        assert_eq!(self.side.compare().await, Ok(()), "{label}");
    }
}

pub(crate) async fn read_file(
    fs: &Nilfs2,
    inode: InodeNumber,
    bytes: u64,
) -> Result<Vec<u8>, Errno> {
    let mut content = Vec::new();
    let mut page = [0; PAGE_BYTES];
    for number in 0..bytes.div_ceil(PAGE_BYTES as u64) {
        fs.read_page(inode, number, &mut page).await?;
        content.extend_from_slice(&page);
    }
    content.truncate(bytes as usize);
    Ok(content)
}

/// All names with all that can be seen of them, a line each, as manifests are written.
pub(crate) async fn manifest(fs: &Nilfs2) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest: Vec<(Vec<u8>, InodeNumber)> = vec![(b".".to_vec(), fs.root())];
    while let Some((path, inode)) = rest.pop() {
        let line = describe(fs, &path, inode).await;
        if line.starts_with('d') {
            for entry in fs.read_directory(inode).await.expect("it lists") {
                let child = if path == b"." {
                    entry.name.clone()
                } else {
                    [&path[..], b"/", &entry.name].concat()
                };
                rest.push((child, entry.inode));
            }
        }
        lines.push((path, line));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

async fn describe(fs: &Nilfs2, path: &[u8], inode: InodeNumber) -> String {
    let shown = fs.attributes(inode).await;
    let Ok(shown) = shown else { return format!("?\t{}", escape_path(path)) };
    let is_file = shown.kind == FileType::Regular;
    let sha = if is_file {
        match read_file(fs, inode, shown.size_bytes).await {
            Ok(content) => hexadecimal(&Sha256::digest(&content)),
            Err(error) => format!("{error:?}"),
        }
    } else {
        "-".into()
    };
    let target = match shown.kind {
        FileType::Symlink => escape_path(&fs.read_link(inode).await.expect("a target")),
        _ => "-".into(),
    };
    let device = if shown.kind.is_device() {
        format!("{}:{}", shown.device.0, shown.device.1)
    } else {
        "-".into()
    };
    let size = match shown.kind {
        FileType::Regular | FileType::Symlink => shown.size_bytes,
        _ => 0,
    };
    format!(
        "{}\t{:04o}\t{}\t{}\t{}\t{size}\t{}\t{device}\t{sha}\t{target}\t-\t{}",
        shown.kind.letter(),
        shown.permissions,
        shown.links,
        shown.uid,
        shown.gid,
        shown.modified.seconds,
        escape_path(path)
    )
}

/// Lines of a manifest without its comment.
pub(crate) fn lines(manifest: &str) -> Vec<String> {
    manifest.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

pub(crate) fn expected(name: &str) -> Vec<String> {
    lines(&text(&format!("{name}.manifest.tsv.zst")))
}

/// Manifests of all checkpoints, by number.
pub(crate) fn checkpoints(name: &str) -> Vec<(u64, Vec<String>)> {
    text(&format!("{name}.checkpoints.txt.zst"))
        .split("## cp")
        .skip(1)
        .map(|part| {
            let (number, manifest) = part.split_once(".tsv\n").expect("a name");
            (number.parse().expect("a number"), lines(manifest))
        })
        .collect()
}

pub(crate) fn assert_same(name: &str, found: &[String], expected: &[String]) {
    let difference: Vec<_> = found
        .iter()
        .filter(|line| !expected.contains(line))
        .map(|line| format!("+ {line}"))
        .chain(expected.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}")))
        .take(30)
        .collect();
    assert!(
        difference.is_empty(),
        "{name}: {} lines differ:\n{}",
        difference.len(),
        difference.join("\n")
    );
    assert_eq!(found.len(), expected.len(), "{name}");
}

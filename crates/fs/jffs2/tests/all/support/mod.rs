//! What the tests share: chips, simulations, a page cache, trees and manifests.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use fs_api::{Caller, Errno, FileSystem, FileType, InodeNumber, PAGE_BYTES, Time};
use jffs2::{Jffs2, MountOptions, Profile, find_profile};
use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
use nand::{Chip, FaultSettings, ImageLayout, Part, Storage, find_part};
use sha2::{Digest, Sha256};
use sim::{Cpus, RunEnd, Sim, Simulation};
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

pub(crate) fn part(blocks: u32) -> Part {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = blocks;
    part
}

pub(crate) fn blank(blocks: u32) -> Chip {
    Chip::new(&part(blocks), Storage::Bytes, &FaultSettings::default())
}

/// A chip with an image; bytes up to the next page are blank.
pub(crate) fn load(image: &[u8], layout: ImageLayout, blocks: u32) -> Chip {
    let mut image = image.to_vec();
    let page = if layout == ImageLayout::WithOob { 2112 } else { 2048 };
    image.resize(image.len().next_multiple_of(page), 0xff);
    Chip::load_image(&part(blocks), &mut &image[..], layout).expect("it fits")
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
    pub(crate) mtd: Rc<Mtd>,
}

impl Bench {
    pub(crate) async fn mount(&self, options: MountOptions) -> Jffs2 {
        Jffs2::mount(&self.sim, self.cpus.clone(), self.mtd.clone(), options)
            .await
            .expect("it mounts")
    }
}

/// Options of a mount where nothing runs beside the test.
pub(crate) fn quiet(seed: u64) -> MountOptions {
    MountOptions { has_thread: false, has_write_back: false, seed, ..MountOptions::new(profile()) }
}

/// Runs a job over a chip; gives the chip back, and how the run ended.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    chip: Chip,
    takes_time: bool,
    job: impl FnOnce(Bench) -> F,
) -> (Chip, RunEnd) {
    run_with("linux-large", chip, takes_time, job)
}

/// [`run`] with an OOB layout.
pub(crate) fn run_with<F: Future<Output = ()> + 'static>(
    layout: &str,
    chip: Chip,
    takes_time: bool,
    job: impl FnOnce(Bench) -> F,
) -> (Chip, RunEnd) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let options = MtdOptions {
        layout: find_layout(layout).expect("in the table"),
        costs: DriverCosts::default(),
        bad_blocks: BadBlocks::Table,
        reads_sub_pages: true,
        takes_time,
    };
    let mtd = Mtd::new(&sim, cpus.clone(), chip, options);
    let task = sim.spawn(job(Bench { sim: sim.clone(), cpus, mtd: mtd.clone() }));
    // Threads of the file system may wait for ever; what counts is that the job came to its end.
    let end = simulation.run();
    let end = if end != RunEnd::Stopped && task.is_finished() { RunEnd::Idle } else { end };
    drop(task);
    drop(simulation);
    (mtd.with_chip(|chip| chip.clone()), end)
}

/// Writes bytes as the page cache does: a page at a time, read first if it is written in part.
pub(crate) async fn write(
    fs: &Jffs2,
    caller: &Caller,
    inode: InodeNumber,
    offset: u64,
    data: &[u8],
) -> Result<(), Errno> {
    let (mut at, mut rest) = (offset, data);
    while !rest.is_empty() {
        let (number, start) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
        let count = rest.len().min(PAGE_BYTES - start);
        let mut page = [0; PAGE_BYTES];
        let bytes = fs.attributes(inode).await?.size_bytes;
        if count < PAGE_BYTES && number * (PAGE_BYTES as u64) < bytes {
            fs.read_page(inode, number, &mut page).await?;
        }
        page[start..start + count].copy_from_slice(&rest[..count]);
        fs.write_page(caller, inode, number, &page, start..start + count).await?;
        at += count as u64;
        rest = &rest[count..];
    }
    Ok(())
}

pub(crate) async fn read_file(
    fs: &Jffs2,
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
pub(crate) async fn manifest(fs: &Jffs2) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest: Vec<(Vec<u8>, InodeNumber)> = vec![(b".".to_vec(), fs.root())];
    // On a damaged medium directories may lie within each other.
    let mut listed = std::collections::BTreeSet::new();
    while let Some((path, inode)) = rest.pop() {
        let line = describe(fs, &path, inode).await;
        if line.starts_with('d') && listed.insert(inode) {
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

async fn describe(fs: &Jffs2, path: &[u8], inode: InodeNumber) -> String {
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
    let mut attributes = Vec::new();
    for name in fs.list_attributes(inode).await.expect("names") {
        let value = fs.extended_attribute(inode, &name).await.expect("a value");
        attributes.push(format!("{}={}", escape_path(&name), hexadecimal(&value)));
    }
    attributes.sort();
    let attributes = if attributes.is_empty() { "-".into() } else { attributes.join(",") };
    let size = match shown.kind {
        FileType::Regular | FileType::Symlink => shown.size_bytes,
        _ => 0,
    };
    format!(
        "{}\t{:04o}\t{}\t{}\t{}\t{size}\t{}\t{device}\t{sha}\t{target}\t{attributes}\t{}",
        shown.kind.letter(),
        shown.permissions,
        shown.links,
        shown.uid,
        shown.gid,
        shown.modified.seconds,
        escape_path(path)
    )
}

/// Lines of a manifest file without its comment.
pub(crate) fn expected(name: &str) -> Vec<String> {
    text(name).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

pub(crate) fn assert_same(name: &str, found: &[String], expected: &[String]) {
    let difference: Vec<_> = found
        .iter()
        .filter(|line| !expected.contains(line))
        .map(|line| format!("+ {line}"))
        .chain(expected.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}")))
        .collect();
    assert!(
        difference.is_empty(),
        "{name}: {} lines differ:\n{}",
        difference.len(),
        difference.join("\n")
    );
    assert_eq!(found.len(), expected.len(), "{name}");
}

//! What the tests share: chips from images, mounts, manifests.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod ops;

use fs_api::{Caller, FileSystem, FileType, InodeNumber, PAGE_BYTES, Time};
use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
use nand::{Chip, FaultSettings, ImageLayout, Part, Storage, find_part};
use sha2::{Digest, Sha256};
use sim::{Cpus, RunEnd, Sim, Simulation};
use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use vfs::{escape_path, hexadecimal};
use yaffs2::{MountOptions, Yaffs2};

pub(crate) const ROOT: Caller =
    Caller { uid: 0, gid: 0, now: Time { seconds: 1_300_000_000, nanoseconds: 0 } };

/// The part that the golden images were made on, with a number of blocks.
pub(crate) fn part(blocks: u32) -> Part {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = blocks;
    part
}

pub(crate) fn blank_chip(blocks: u32) -> Chip {
    Chip::new(&part(blocks), Storage::Bytes, &FaultSettings::default())
}

pub(crate) fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    if path.extension().is_some_and(|extension| extension == "zst") {
        zstd::decode_all(&bytes[..]).expect("a compressed file")
    } else {
        bytes
    }
}

/// The chip of an image; a short image gets a chip of `blocks_min` blocks.
pub(crate) fn chip_of(name: &str, blocks_min: u32) -> Chip {
    let image = data(name);
    let blocks = (image.len() as u32).div_ceil(64 * 2112).max(blocks_min);
    Chip::load_image(&part(blocks), &mut &image[..], ImageLayout::WithOob).expect("an image")
}

/// A device over a chip, and what runs it.
pub(crate) struct Bench {
    pub simulation: Simulation,
    pub mtd: Rc<Mtd>,
    pub cpus: Rc<Cpus>,
}

impl Bench {
    pub(crate) fn new(chip: Chip, layout: &str) -> Self {
        Self::timed(chip, layout, false)
    }

    pub(crate) fn timed(chip: Chip, layout: &str, takes_time: bool) -> Self {
        let simulation = Simulation::new(1);
        let sim = simulation.handle();
        let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
        let options = MtdOptions {
            layout: find_layout(layout).expect("in the table"),
            costs: DriverCosts::default(),
            bad_blocks: BadBlocks::Table,
            reads_sub_pages: false,
            takes_time,
        };
        let mtd = Mtd::new(&sim, cpus.clone(), chip, options);
        Self { simulation, mtd, cpus }
    }

    /// Mounts, and runs a job on it; its result, or none if the power was cut.
    pub(crate) fn run<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        options: MountOptions,
        job: impl FnOnce(Sim, Rc<Yaffs2>) -> F + 'static,
    ) -> Option<T> {
        let sim = self.simulation.handle();
        let (cpus, mtd) = (self.cpus.clone(), self.mtd.clone());
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        let handle = sim.clone();
        sim.spawn(async move {
            let mounted = Yaffs2::mount(&handle, cpus, mtd, options, ROOT.now).await;
            let done = job(handle, mounted.expect("mounted")).await;
            place.borrow_mut().replace(done);
        });
        let end = self.simulation.run();
        assert!(matches!(end, RunEnd::Idle | RunEnd::Stopped), "{end:?}");
        result.take()
    }

    /// The chip as it is now.
    pub(crate) fn chip(&self) -> Chip {
        self.mtd.with_chip(|chip| chip.clone())
    }
}

/// All bytes of a file.
pub(crate) async fn read_all(fs: &Yaffs2, inode: InodeNumber, size: u64) -> Vec<u8> {
    let mut all = Vec::new();
    let mut page = [0; PAGE_BYTES];
    while (all.len() as u64) < size {
        fs.read_page(inode, all.len() as u64 / PAGE_BYTES as u64, &mut page).await.expect("read");
        let count = (size - all.len() as u64).min(PAGE_BYTES as u64);
        all.extend_from_slice(&page[..count as usize]);
    }
    all
}

// One function: a row is put together from what each kind of inode has.
/// The lines of a manifest as a mount shows it, sorted by path.
pub(crate) async fn manifest(fs: &Yaffs2) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    let mut todo = vec![(Vec::<u8>::new(), fs.root())];
    while let Some((path, inode)) = todo.pop() {
        // A hard link to nothing has no attributes.
        let Ok(stat) = fs.attributes(inode).await else { continue };
        let (mut sum, mut target, mut device) = ("-".to_owned(), b"-".to_vec(), "-".to_owned());
        match stat.kind {
            FileType::Regular => {
                // Sizes beyond the device are those of damaged headers.
                let size = stat.size_bytes.min(fs.space().blocks * 2048);
                let bytes = read_all(fs, inode, size).await;
                sum = hexadecimal(&Sha256::digest(&bytes));
            }
            FileType::Symlink => {
                target = escape_path(&fs.read_link(inode).await.expect("a link")).into_bytes();
            }
            FileType::Directory => {
                for entry in fs.read_directory(inode).await.expect("a directory") {
                    let mut child = path.clone();
                    if !child.is_empty() {
                        child.push(b'/');
                    }
                    child.extend_from_slice(&entry.name);
                    todo.push((child, entry.inode));
                }
            }
            kind if kind.is_device() => device = format!("{}:{}", stat.device.0, stat.device.1),
            _ => {}
        }
        let mut xattrs = Vec::new();
        if fs.profile().has_xattrs {
            let mut names = fs.list_attributes(inode).await.expect("names");
            names.sort();
            for name in names {
                let value = fs.extended_attribute(inode, &name).await.expect("a value");
                let name = String::from_utf8(name).expect("a name");
                xattrs.push(format!("{name}={}", hexadecimal(&value)));
            }
        }
        let size = if stat.kind == FileType::Directory { 0 } else { stat.size_bytes };
        let xattrs = if xattrs.is_empty() { "-".to_owned() } else { xattrs.join(",") };
        let mut row = format!(
            "{}\t{:04o}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t",
            stat.kind.letter(),
            stat.permissions,
            stat.links,
            stat.uid,
            stat.gid,
            size,
            stat.modified.seconds,
            device,
            sum
        )
        .into_bytes();
        row.extend_from_slice(&target);
        row.extend_from_slice(format!("\t{xattrs}\t").as_bytes());
        row.extend_from_slice(&if path.is_empty() {
            b".".to_vec()
        } else {
            escape_path(&path).into_bytes()
        });
        rows.push((path, row));
    }
    rows.sort();
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The rows of a stored manifest.
pub(crate) fn stored_manifest(name: &str) -> Vec<Vec<u8>> {
    let text = data(name);
    let rows = text.split(|byte| *byte == b'\n');
    let mut rows: Vec<Vec<u8>> =
        rows.filter(|row| !row.is_empty() && row[0] != b'#').map(<[u8]>::to_vec).collect();
    rows.sort_by_key(|row| {
        let path = row.rsplit(|byte| *byte == b'\t').next().expect("a path").to_vec();
        if path == b"." { Vec::new() } else { path }
    });
    rows
}

/// A row without some of its columns.
pub(crate) fn without(row: &[u8], columns: &[usize]) -> String {
    let fields = row.split(|byte| *byte == b'\t').enumerate();
    let kept = fields.map(|(column, field)| {
        if columns.contains(&column) { "*".into() } else { String::from_utf8_lossy(field) }
    });
    kept.collect::<Vec<_>>().join(" ")
}

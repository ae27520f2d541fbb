//! `scrub`: bit errors by file, and what their readers get.

use crate::aging::Aged;
use fs_api::{Errno, FileType};
use mount::{Driver, Kind, Machine, MountRequest, Mounted};
use nand::{Chip, EccCounters, ErrorModel, FaultSettings};
use script::Place;
use std::collections::{BTreeMap, BTreeSet};
use vfs::tree::{FoundNode, read_all, walk, walk_damaged};

/// What the reads of one file or directory met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileErrors {
    /// Path from the root of the mount; empty for the root itself.
    pub path: Vec<u8>,
    /// Bits that the ECC corrected.
    pub corrected_bits: u64,
    /// Page reads with a codeword that the ECC gave up.
    pub uncorrectable_reads: u64,
    /// Name of the error that the read ended with, or why nothing can be mounted; none if all bytes came.
    pub error: Option<String>,
    /// Bytes that came and are not those that were written, or that are missing at the end.
    pub wrong_bytes: u64,
}

impl FileErrors {
    /// Whether its user gets an error or wrong bytes.
    pub fn is_lost(&self) -> bool {
        self.error.is_some() || self.wrong_bytes > 0
    }
}

/// What a line `scrub` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// Where the line stands.
    pub place: Place,
    /// How the chip was aged before.
    pub aged: Aged,
    /// Erases of the block that was erased least, and of the one that was erased most.
    pub erase_cycles: (u32, u32),
    /// Bits that the ECC corrects in one codeword.
    pub ecc_correctable_bits: u32,
    /// Data bytes of one codeword.
    pub ecc_codeword_bytes: u32,
    /// Files and directories that were looked at.
    pub count: u64,
    /// Those that met bit errors, or that were lost, by path.
    pub files: Vec<FileErrors>,
}

/// Where a line stands, and what the chip is by then.
pub(crate) struct Stand<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) errors: &'a ErrorModel,
    pub(crate) place: &'a Place,
    pub(crate) aged: &'a Aged,
}

/// How the file system was mounted, so that a copy of the chip can be mounted alike.
pub(crate) struct MountAsked<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) kind: &'static Kind,
    pub(crate) request: &'a MountRequest,
}

/// Reads every file from the chip, past the page cache. A read disturbs its block, as all reads do.
///
/// # Errors
/// A sentence if what was written cannot be read without bit errors either.
pub(crate) async fn scrub(
    stand: &Stand<'_>,
    mounted: &Mounted,
    mount: &MountAsked<'_>,
    written: &mut Written,
) -> Result<Scrub, String> {
    let machine = stand.machine;
    let file_system = &*mounted.file_system;
    let mut damage = BTreeMap::new();
    let start = ecc(machine);
    let nodes = walk_damaged(file_system, |path, found| {
        damage.insert(path.to_vec(), found.errno());
    })
    .await;
    // Reads of names and inodes belong to no single file: they are told as those of the root.
    let mut of_names = errors_since(machine, start);
    let (mut files, mut contents) = (Vec::new(), BTreeMap::new());
    for FoundNode { path, inode, attributes } in nodes {
        let before = ecc(machine);
        let mut error = damage.get(&path).copied();
        if attributes.is_some_and(|attributes| attributes.kind == FileType::Regular) {
            let mut bytes = Vec::new();
            match read_all(file_system, inode, |piece| bytes.extend_from_slice(piece)).await {
                Ok(()) => drop(contents.insert(path.clone(), bytes)),
                Err(errno) => error = Some(errno),
            }
        }
        let is_root = path.is_empty();
        let found =
            if is_root { std::mem::take(&mut of_names) } else { errors_since(machine, before) };
        files.push(FileErrors { path, error: error.map(Errno::name), ..found });
    }
    // Without a read that the ECC gave up everything is what was written. One of a mount counts, too: it may have
    // dropped a name.
    let known = written.before.as_ref().map_or(start, Chip::ecc_counters);
    if errors_since(machine, known).uncorrectable_reads > 0 {
        compare(&mut files, &contents, written.tree(machine, mount)?);
    }
    Ok(stand.scrub_of(files))
}

impl Stand<'_> {
    /// What stands in place of the next scrub if the aged chip cannot be mounted: all files are lost.
    pub(crate) fn mount_failed(&self, reason: &str) -> Scrub {
        let error = Some(format!("the mount fails: {reason}"));
        self.scrub_of(vec![FileErrors { error, ..FileErrors::default() }])
    }

    fn scrub_of(&self, mut files: Vec<FileErrors>) -> Scrub {
        let count = files.len() as u64;
        files.retain(|file| file.corrected_bits + file.uncorrectable_reads > 0 || file.is_lost());
        Scrub {
            place: self.place.clone(),
            aged: self.aged.clone(),
            erase_cycles: self.machine.mtd.with_chip(|chip| erase_cycles(chip)),
            ecc_correctable_bits: self.errors.ecc_correctable_bits,
            ecc_codeword_bytes: self.errors.ecc_codeword_bytes,
            count,
            files,
        }
    }
}

/// Files of a tree by their paths; none of what is no regular file.
type Tree = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What the files hold if no bit is wrong.
///
/// Asked of a copy of the chip and not of the chip itself: a file system drops what it cannot read when it mounts,
/// or when it first looks at an inode (JFFS2: `jffs2_get_inode_nodes` of `fs/jffs2/readinode.c`), and what moves
/// blocks writes wrong bytes with a right code.
#[derive(Default)]
pub(crate) struct Written {
    /// The chip before time passed; none if the script has written since.
    before: Option<Chip>,
    tree: Option<Tree>,
}

impl Written {
    /// Keeps the chip as it is before time passes, unless it is known from before more time.
    pub(crate) fn keep(&mut self, machine: &Machine) {
        if self.before.is_none() {
            // Blocks are shared until one is written, so a copy costs little.
            self.before = Some(machine.mtd.with_chip(|chip| chip.clone()));
            self.tree = None;
        }
    }

    fn tree(&mut self, machine: &Machine, mount: &MountAsked<'_>) -> Result<&Tree, String> {
        if self.tree.is_none() || self.before.is_none() {
            let now = || machine.mtd.with_chip(|chip| chip.clone());
            let chip = self.before.clone().unwrap_or_else(now);
            self.tree = Some(tree_without_errors(chip, mount)?);
        }
        Ok(self.tree.as_ref().expect("read above"))
    }
}

/// The tree on a chip that reads without bit errors, on a machine of its own.
fn tree_without_errors(mut chip: Chip, mount: &MountAsked<'_>) -> Result<Tree, String> {
    chip.set_faults(&FaultSettings::default());
    let (kind, request) = (mount.kind, mount.request.clone());
    let read = |machine: Machine| async move {
        let mounted = machine.mount(kind, &request).await.map_err(|error| error.to_string())?;
        let mut tree = Tree::new();
        let told = |error: Errno| error.to_string();
        for node in walk(&*mounted.file_system).await.map_err(told)? {
            let mut bytes = None;
            if node.attributes.kind == FileType::Regular {
                let kept = bytes.insert(Vec::new());
                let see = |piece: &[u8]| kept.extend_from_slice(piece);
                read_all(&*mounted.file_system, node.inode, see).await.map_err(told)?;
            }
            tree.insert(node.path, bytes);
        }
        Ok(tree)
    };
    let outcome = mount::run(chip, mount.driver, mount.request.seed, read);
    let tree = outcome.value.ok_or("the power failed")?;
    tree.map_err(|reason: String| {
        format!("scrub: without bit errors the chip has no tree: {reason}")
    })
}

/// Tells wrong bytes, and names that are gone, by what was written.
fn compare(files: &mut Vec<FileErrors>, contents: &BTreeMap<Vec<u8>, Vec<u8>>, written: &Tree) {
    for file in files.iter_mut().filter(|file| file.error.is_none()) {
        let Some((read, sound)) = contents.get(&file.path).zip(written.get(&file.path)) else {
            continue;
        };
        let sound = sound.as_deref().unwrap_or_default();
        let differ = read.iter().zip(sound).filter(|(one, other)| one != other).count();
        file.wrong_bytes = (differ + read.len().abs_diff(sound.len())) as u64;
    }
    let seen: BTreeSet<_> = files.iter().map(|file| file.path.clone()).collect();
    // Names that a mount dropped, and those below a directory that cannot be read.
    let gone = written.keys().filter(|path| !seen.contains(*path));
    let error = Some(Errno::Enoent.name());
    files.extend(gone.map(|path| FileErrors {
        path: path.clone(),
        error: error.clone(),
        ..FileErrors::default()
    }));
    files.sort_by(|one, other| one.path.cmp(&other.path));
}

fn ecc(machine: &Machine) -> EccCounters {
    machine.mtd.with_chip(|chip| chip.ecc_counters())
}

fn errors_since(machine: &Machine, before: EccCounters) -> FileErrors {
    let after = ecc(machine);
    FileErrors {
        corrected_bits: after.corrected_bits - before.corrected_bits,
        uncorrectable_reads: after.uncorrectable_reads - before.uncorrectable_reads,
        ..FileErrors::default()
    }
}

fn erase_cycles(chip: &Chip) -> (u32, u32) {
    let blocks = 0..chip.geometry().blocks;
    let cycles = || blocks.clone().map(|block| chip.erase_cycles(block));
    (cycles().min().unwrap_or(0), cycles().max().unwrap_or(0))
}

//! `age`, `wear` and `scrub`: what time without power leaves of the files.

use mount::{Machine, Mounted};
use nand::{Chip, EccCounters, ErrorModel, rated_retention_ns};
use script::{ControlLine, Place, Script, Step};
use vfs::tree::{read_all, walk_damaged};

/// How the chip was aged so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aged {
    /// Time that passed at any temperature, milliseconds.
    pub milliseconds: u64,
    /// The same in nanoseconds at the rated temperature of 40 degrees Celsius.
    pub rated_ns: u64,
    /// The temperatures, in the order in which each first came, degrees Celsius.
    pub celsius: Vec<i32>,
}

/// What the reads of one file or directory met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileErrors {
    /// Path from the root of the mount; empty for the root itself.
    pub path: Vec<u8>,
    /// Bits that the ECC corrected.
    pub corrected_bits: u64,
    /// Page reads with a codeword that the ECC gave up.
    pub uncorrectable_reads: u64,
    /// Name of the error that the read ended with; none if all bytes came.
    pub error: Option<String>,
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

/// Whether a script asks for bit errors. Others run on a chip without any, and draw nothing.
pub(crate) fn draws_bit_errors(script: &Script) -> bool {
    script.samples().any(|command| matches!(&command.step, Step::Control(line) if line.is_aging()))
}

/// Refuses more time than a chip can count.
pub(crate) fn check_age(milliseconds: u64, celsius: i32) -> Result<(), String> {
    if rated_retention_ns(milliseconds, f64::from(celsius)) == u64::MAX {
        return Err("the time is worth more than 584 years at 40C: take less, or a lower \
                    temperature"
            .into());
    }
    Ok(())
}

impl Aged {
    /// Lets time pass for the cells. The clock of the host stands still: it has no power.
    pub(crate) fn pass(&mut self, chip: &mut Chip, milliseconds: u64, celsius: i32) {
        let rated_ns = rated_retention_ns(milliseconds, f64::from(celsius));
        chip.age(rated_ns);
        self.milliseconds = self.milliseconds.saturating_add(milliseconds);
        self.rated_ns = self.rated_ns.saturating_add(rated_ns);
        if !self.celsius.contains(&celsius) {
            self.celsius.push(celsius);
        }
    }
}

/// Reads every file from the chip, past the page cache. A read disturbs its block, as all reads do.
pub(crate) async fn scrub(
    machine: &Machine,
    mounted: &Mounted,
    errors: &ErrorModel,
    place: &Place,
    aged: &Aged,
) -> Scrub {
    let file_system = &*mounted.file_system;
    let mut files = Vec::new();
    let mut lost = Vec::new();
    let before = ecc(machine);
    let nodes = walk_damaged(file_system, |path, damage| {
        lost.push((path.to_vec(), damage.errno().name()));
    })
    .await;
    // Reads of names and inodes belong to no single file: they are told as those of the root.
    let mut root = errors_since(machine, before, Vec::new());
    for node in &nodes {
        let before = ecc(machine);
        let is_file =
            node.attributes.is_some_and(|attributes| attributes.kind == fs_api::FileType::Regular);
        let damage = lost.iter().find(|(path, _)| *path == node.path);
        let mut error = damage.map(|(_, errno)| errno.clone());
        if is_file && let Err(errno) = read_all(file_system, node.inode, |_| {}).await {
            error.get_or_insert_with(|| errno.name());
        }
        let mut found = errors_since(machine, before, node.path.clone());
        found.error.clone_from(&error);
        if node.path.is_empty() {
            root.error = error;
        } else {
            files.push(found);
        }
    }
    let count = nodes.len() as u64;
    files.insert(0, root);
    files.retain(|file| file.corrected_bits + file.uncorrectable_reads > 0 || file.error.is_some());
    Scrub {
        place: place.clone(),
        aged: aged.clone(),
        erase_cycles: machine.mtd.with_chip(|chip| erase_cycles(chip)),
        ecc_correctable_bits: errors.ecc_correctable_bits,
        ecc_codeword_bytes: errors.ecc_codeword_bytes,
        count,
        files,
    }
}

fn ecc(machine: &Machine) -> EccCounters {
    machine.mtd.with_chip(|chip| chip.ecc_counters())
}

fn errors_since(machine: &Machine, before: EccCounters, path: Vec<u8>) -> FileErrors {
    let after = ecc(machine);
    FileErrors {
        path,
        corrected_bits: after.corrected_bits - before.corrected_bits,
        uncorrectable_reads: after.uncorrectable_reads - before.uncorrectable_reads,
        error: None,
    }
}

fn erase_cycles(chip: &Chip) -> (u32, u32) {
    let blocks = 0..chip.geometry().blocks;
    let cycles = || blocks.clone().map(|block| chip.erase_cycles(block));
    (cycles().min().unwrap_or(0), cycles().max().unwrap_or(0))
}

/// Carries `age` or `wear` out on the chip; other lines do nothing here.
pub(crate) fn age_or_wear(line: &ControlLine, machine: &Machine, aged: &mut Aged) {
    machine.mtd.with_chip(|chip| match line {
        ControlLine::Age { milliseconds, celsius } => aged.pass(chip, *milliseconds, *celsius),
        ControlLine::Wear { cycles } => chip.set_erase_counts(*cycles),
        _ => {}
    });
}

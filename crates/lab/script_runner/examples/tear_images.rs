//! Carries a script of system calls out on a chip and writes the chip as it is after power cuts.
//!
//!     tear_images FILE_SYSTEM SCRIPT BLOCKS HEADER_OFFSET CUTS SEED DIRECTORY
//!
//! Each cut tears one operation of the script: two of five any one, and three of a rarer kind, in turn, as a
//! uniform choice hits programs of data pages almost always. Shapes are those of [`Torn`], and random bits:
//! each bit that the operation changes does so with probability one half. An image is named after its cut,
//! and a line of standard output says what was torn: `NAME KIND SHAPE OPERATION`.

use file_systems::find_kind;
use mount::{Driver, MountRequest, UbiRequest};
use mtd::find_layout;
use nand::{Chip, CutPoint, FaultSettings, ImageLayout, RawOperation, Storage, Torn, find_part};
use random::Stream;
use script::Script;
use script_runner::Setup;
use std::error::Error;
use std::fs::{read_to_string, write};
use std::io::Write as _;
use std::path::Path;

const PAGES_PER_BLOCK: u32 = 64;
/// What UBI and UBIFS write at the beginning of their headers and nodes (`drivers/mtd/ubi/ubi-media.h`,
/// `fs/ubifs/ubifs-media.h`).
const UBI_MAGIC: &[u8] = b"UBI";
const UBIFS_MAGIC: &[u8] = &[0x31, 0x18, 0x10, 0x06];
/// Where a node of UBIFS keeps its type, and that of the master node.
const UBIFS_MASTER: (usize, u8) = (20, 7);
/// A volume identifier header stands on the second sub-page of its block, if not on the second page.
const SUB_PAGE_BYTES: usize = 512;

const SHAPES: [(&str, Option<Torn>); 4] = [
    ("nothing", Some(Torn::Nothing)),
    ("first-half", Some(Torn::Prefix)),
    ("without-spare", Some(Torn::DataOnly)),
    ("random-bits", None),
];

/// The kind of an operation, as the module of the kernel names it.
fn kind_of(operation: &RawOperation) -> &'static str {
    match operation {
        RawOperation::PageProgram { data, .. }
            if [0, SUB_PAGE_BYTES].iter().any(|at| data[*at..].starts_with(UBI_MAGIC)) =>
        {
            "ubi-header"
        }
        RawOperation::PageProgram { data, .. }
            if data.starts_with(UBIFS_MAGIC) && data[UBIFS_MASTER.0] == UBIFS_MASTER.1 =>
        {
            "ubifs-master"
        }
        RawOperation::PageProgram { at, .. } if at.page + 1 == PAGES_PER_BLOCK => "last-page",
        RawOperation::PageProgram { .. } => "program",
        RawOperation::SpareProgram { .. } => "spare-program",
        RawOperation::Erase { .. } | RawOperation::MarkBad { .. } => "erase",
    }
}

/// What a script did to a chip.
struct Torture {
    before: Chip,
    journal: Vec<RawOperation>,
}

/// One script after the other on the same chip.
fn run(chip: Chip, script: &Script, setup: &Setup) -> Result<Chip, Box<dyn Error>> {
    Ok(script_runner::run(script, chip, setup, Box::new(|_, _| true))?.0)
}

impl Torture {
    fn new(setup: &Setup, script: &Script) -> Result<Self, Box<dyn Error>> {
        let chip = Chip::new(&setup.part, Storage::Bytes, &FaultSettings::default());
        // The file system is made before the journal begins: a kernel does not go on with one half made.
        let before = run(chip, &script::parse("mount -\numount\n")?, setup)?;
        let mut watched = before.clone();
        watched.start_journal();
        let journal = run(watched, script, setup)?.take_journal();
        Ok(Self { before, journal })
    }

    fn choose(&self, turn: usize, random: &mut Stream) -> usize {
        let rare: Vec<&str> = ["spare-program", "erase", "ubi-header", "ubifs-master", "last-page"]
            .into_iter()
            .filter(|kind| self.journal.iter().any(|operation| kind_of(operation) == *kind))
            .collect();
        let wanted = match turn % 5 {
            0 | 1 => None,
            _ if rare.is_empty() => None,
            place => Some(rare[(turn / 5 * 3 + place - 2) % rare.len()]),
        };
        let fits: Vec<usize> = (0..self.journal.len())
            .filter(|at| wanted.is_none_or(|kind| kind_of(&self.journal[*at]) == kind))
            .collect();
        fits[random.below(u32::try_from(fits.len()).expect("few")) as usize]
    }

    /// The image of the chip with an operation torn.
    fn image(&self, at: usize, torn: Option<Torn>, random: &mut Stream) -> Vec<u8> {
        let mut chip = self.before.clone();
        for operation in &self.journal[..at] {
            let _ = chip.apply(operation);
        }
        let old = bytes_of(&chip);
        if let Some(torn) = torn {
            chip.set_torn(torn);
            chip.cut_power_after(0, CutPoint::Inside);
        }
        let _ = chip.apply(&self.journal[at]);
        chip.power_on();
        let mut new = bytes_of(&chip);
        if torn.is_none() {
            for (new, old) in new.iter_mut().zip(old).filter(|(new, old)| **new != *old) {
                let stay = random.next_u64() as u8;
                *new = (*new & !stay) | (old & stay);
            }
        }
        new
    }
}

fn bytes_of(chip: &Chip) -> Vec<u8> {
    let mut bytes = Vec::new();
    chip.save_image(&mut bytes, ImageLayout::WithOob).expect("a chip that stores bytes");
    bytes
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, script, blocks, offset, cuts, seed, directory] = &arguments[..] else {
        return Err("FILE_SYSTEM SCRIPT BLOCKS HEADER_OFFSET CUTS SEED DIRECTORY".into());
    };
    let seed = seed.parse()?;
    let mut part = find_part("nandsim-64MiB").ok_or("the part is in the catalogue")?;
    let chip_blocks = Some(part.geometry.blocks);
    part.geometry.blocks = blocks.parse()?;
    let request = MountRequest {
        has_write_back: true,
        seed,
        ubi: UbiRequest { header_offset: Some(offset.parse()?), chip_blocks, volume: None },
        ..MountRequest::default()
    };
    let setup = Setup {
        kind: Some(find_kind(kind)?),
        driver: Driver::of_tool(find_layout("linux-large").ok_or("there is the layout")?),
        request,
        part,
        keeps_going: true,
        logs_operations: false,
    };
    let torture = Torture::new(&setup, &script::parse(&read_to_string(script)?)?)?;
    let mut random = Stream::new(seed, "tear");
    for turn in 0..cuts.parse()? {
        let at = torture.choose(turn, &mut random);
        let (shape, torn) = SHAPES[random.below(4) as usize];
        let name =
            format!("{}-{at}-{shape}", Path::new(script).file_stem().unwrap_or_default().display());
        let image = torture.image(at, torn, &mut random);
        write(Path::new(directory).join(format!("{name}.oob")), image)?;
        let operation = &torture.journal[at];
        writeln!(std::io::stdout(), "{name} {} {shape} {operation}", kind_of(operation))?;
    }
    Ok(())
}

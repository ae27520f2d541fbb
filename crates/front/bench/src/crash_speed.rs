//! How fast a file system is crash-tested: a mount, a check, a write and a second mount for each cut.

use crate::processor_time::Stopwatch;
use crash::{Crash, Cuts, Sabotage, Setup, TORN_MODELS, guarantees};
use file_systems::find_kind;
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, PageAddress, Storage, find_part};
use serde::Serialize;

/// 32 blocks of 128 KiB: 4 MiB.
const BLOCKS: u32 = 32;
const WORKERS: usize = 2;
/// A little of everything; every line is synced.
const SCRIPT: &str = "mkdir d 755\nputn d/f 0 24 644 3000 4096 x 1\nsync\nrename d/f00003 d/g\n\
                      append d/g 5000 4096 t 7 fsync\nlink d/g h\ntruncate d/f00005 100\n\
                      unlinkn d/f 6 12\nputn d/f 6 20 644 9000 4096 x 50\nsync\n";

/// Cut points a second of a file system.
#[derive(Serialize)]
pub(crate) struct CrashSpeed {
    /// Name of the file system.
    pub(crate) name: &'static str,
    /// Cut points in a second of processor time, on two workers.
    pub(crate) cuts_per_s: f64,
    /// The same, in copies of the chip with all of its pages read once.
    pub(crate) ratio_to_copy_and_scan: f64,
}

fn blank() -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = BLOCKS;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

/// Copies of a chip a second, each with every page read.
fn copies_per_s() -> f64 {
    const COPIES: u32 = 200;
    let chip = blank();
    let (mut data, mut oob) = (vec![0; 2048], vec![0; 64]);
    let start = Stopwatch::start();
    for _ in 0..COPIES {
        let mut copy = chip.clone();
        for block in 0..BLOCKS {
            for page in 0..64 {
                copy.read_raw(PageAddress::new(block, page), &mut data, &mut oob)
                    .expect("a healthy chip");
            }
        }
    }
    f64::from(COPIES) / start.seconds()
}

/// Measures every file system.
pub(crate) fn measure() -> Vec<CrashSpeed> {
    let script = script::parse(SCRIPT).expect("a script");
    let copies_per_s = copies_per_s();
    let speed = |name: &'static str| {
        let setup = Setup {
            kind: name,
            request: MountRequest::default(),
            layout: find_layout("linux-large").expect("in the table"),
            seed: 1,
            sabotage: Sabotage::None,
        };
        let crash = Crash::new(&blank(), &setup, &script).expect("the script runs");
        let cuts = Cuts { workers: Some(WORKERS), ..Cuts::default() };
        let start = Stopwatch::start();
        let outcome = crash.run(&cuts, |_, _| true).expect("there are cut points");
        let cuts_per_s = outcome.cuts() as f64 / start.seconds();
        assert_eq!(outcome.cuts(), crash.operations() * TORN_MODELS.len() as u64);
        assert_eq!(outcome.violations().next(), None, "{name}");
        CrashSpeed { name, cuts_per_s, ratio_to_copy_and_scan: cuts_per_s / copies_per_s }
    };
    // On a block device most of a cut is that device.
    let is_on_chip = |kind: &&str| find_kind(kind).is_ok_and(|kind| !kind.is_on_block_device);
    guarantees().map(|guarantee| guarantee.kind).filter(is_on_chip).map(speed).collect()
}

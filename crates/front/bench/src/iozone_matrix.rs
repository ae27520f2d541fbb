//! A whole matrix of IOzone on file systems over raw NAND, against the chip alone.
//!
//! The matrix is that of the study `scheduler-filesystem` under one scheduler: both file systems, five
//! sizes, a write and a read with a mount before each, ten repeats. The bare loop programs and reads
//! the same bytes on a chip without driver, ECC or file system.

use crate::processor_time::Stopwatch;
use nand::{Chip, FaultSettings, PageAddress, Storage, find_part};
use std::error::Error;
use std::fs;

const STUDY: &str = r#"
name = "bench"
title = "bench"
question = "How fast?"
seed = 1
repeats = 10
part = "k9f2g08u0c"
[workload]
kind = "iozone"
options = "-i 0 -i 1 -s {file_mib}m -r 32k -e -c -U -+n"
[host]
board = "s5pv210-datasheet"
[axes]
file_system = ["jffs2", "yaffs2"]
file_mib = [1, 2, 4, 8, 16]
data = ["random"]
"#;
const WORKERS: usize = 2;
/// Bytes of file data of the matrix, written and read again.
const MATRIX_BYTES: u64 = 2 * 10 * (1 + 2 + 4 + 8 + 16) * (1 << 20);

pub(crate) struct IozoneMatrix {
    pub(crate) seconds: f64,
    pub(crate) bare_seconds: f64,
}

impl IozoneMatrix {
    /// Time of the bare loop as a part of the matrix's.
    pub(crate) fn ratio(&self) -> f64 {
        self.bare_seconds / self.seconds
    }
}

pub(crate) fn measure() -> Result<IozoneMatrix, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("nandlab-bench-{}.toml", std::process::id()));
    fs::write(&path, STUDY)?;
    let study = study::load(&path, &[], None, false);
    fs::remove_file(&path)?;
    let study = study?;
    let start = Stopwatch::start();
    study::run_study(&study, WORKERS, &mut |_, _, _| true)?;
    let seconds = start.seconds();
    Ok(IozoneMatrix { seconds, bare_seconds: bare_seconds()? })
}

/// Programs and reads as many bytes page by page.
fn bare_seconds() -> Result<f64, Box<dyn Error>> {
    let part = find_part("k9f2g08u0c").ok_or("the part is in the catalogue")?;
    let geometry = part.geometry.clone();
    let mut data = vec![0; geometry.page_data_bytes as usize];
    let mut spare = vec![0xff; geometry.page_oob_bytes as usize];
    let mut left = MATRIX_BYTES / u64::from(geometry.page_data_bytes);
    let start = Stopwatch::start();
    while left > 0 {
        let mut chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let pages = left.min(u64::from(geometry.pages())) as u32;
        let place = |page| {
            PageAddress::new(page / geometry.pages_per_block, page % geometry.pages_per_block)
        };
        for page in 0..pages {
            data[..4].copy_from_slice(&page.to_le_bytes());
            chip.program_raw(place(page), &data, &spare)?;
        }
        for page in 0..pages {
            chip.read_raw(place(page), &mut data, &mut spare)?;
        }
        left -= u64::from(pages);
    }
    Ok(start.seconds())
}

//! Making an empty UBI device of any chip, as `ubiformat -q -y` does.
//!
//! Source: `ubi-utils/ubiformat.c`, `lib/libscan.c` and `lib/libubigen.c` of mtd-utils 2.1.5, and
//! the operations that it made on a simulated chip. Uses `io.rs` and formats.

use crate::device::Ubi;
use crate::error::{AttachError, UbiError};
use crate::headers::{Decoded, ERASE_COUNTER_MAX, EraseCounterHeader, HEADER_BYTES, VolumeHeader};
use crate::io::{HeaderRead, Io};
use crate::layout::Layout;
use crate::moves::data_length;
use crate::numbers::{LebAddress, LebNumber, PebNumber};
use crate::profile::CpuCosts;
use crate::volume_state::LAYOUT;
use crate::volume_table::{VolumeRecord, encode, slots};
use mtd::Mtd;
use sim::{Cpus, Sim};
use std::rc::Rc;

/// What formatting may choose.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Random number that distinguishes this image from others (`-Q`).
    pub image_sequence: u32,
    /// Where the volume identifier headers will stand (`-O`); none for the default.
    pub header_offset: Option<u32>,
    /// Blocks keep their erase counters; else all begin with 0 (`-e 0`).
    pub keeps_counters: bool,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self { image_sequence: 0, header_offset: None, keeps_counters: true }
    }
}

impl Ubi {
    /// Erases all good blocks, gives them erase counters and writes an empty volume table.
    ///
    /// # Errors
    /// [`AttachError::Offset`], [`AttachError::TooFewBlocks`]; [`AttachError::Operation`] of the chip.
    pub async fn format(
        sim: &Sim,
        cpus: Rc<Cpus>,
        mtd: Rc<Mtd>,
        options: &FormatOptions,
    ) -> Result<(), AttachError> {
        let io = open(sim, cpus, mtd, options)?;
        let layout = io.layout;
        let mut for_table = Vec::new();
        // All counters are read before the first erase, for blocks without one get the mean of the
        // others.
        for (peb, counter) in next_counters(&io, options.keeps_counters).await? {
            if let Err(error) = io.sync_erase(peb, false).await {
                give_up(&io, peb, error).await?;
            } else if for_table.len() < 2 {
                // The volume table comes last: an interrupted run leaves no valid image.
                for_table.push((peb, counter));
            } else if let Err(error) = io.write_counter(peb, counter).await {
                give_up(&io, peb, error).await?;
            }
        }
        if for_table.len() < 2 {
            let available = for_table.len() as u32;
            return Err(AttachError::TooFewBlocks { available, wanted: 2 });
        }
        let records = vec![None; slots(layout.leb_bytes) as usize];
        for ((peb, counter), copy) in for_table.into_iter().zip((0..).map(LebNumber::new)) {
            let block = table_block(&layout, options.image_sequence, counter, copy, &records);
            // The whole block with both headers in one go, as the tool writes it; the kernel writes
            // headers and table apart.
            io.write(peb, 0, &block).await?;
        }
        Ok(())
    }

    /// Writes an image that `ubinize` made to the good blocks and formats the rest (`ubiformat -f`).
    ///
    /// Blocks keep their erase counters, whatever the image says; blank pages at the end of a block are
    /// not written.
    ///
    /// # Errors
    /// [`AttachError::NotUbi`] if the image is none; [`AttachError::OtherOffset`] if its headers
    /// stand elsewhere; [`AttachError::TooFewBlocks`]; [`AttachError::Operation`] of the chip.
    pub async fn flash(
        sim: &Sim,
        cpus: Rc<Cpus>,
        mtd: Rc<Mtd>,
        image: &[u8],
        options: &FormatOptions,
    ) -> Result<(), AttachError> {
        let io = open(sim, cpus, mtd, options)?;
        let block_bytes = io.layout.peb_bytes as usize;
        if image.is_empty() || !image.len().is_multiple_of(block_bytes) {
            return Err(AttachError::NotUbi);
        }
        let mut blocks = image.chunks_exact(block_bytes).zip((0..).map(PebNumber::new));
        let wanted = (image.len() / block_bytes) as u32;
        let mut written = 0;
        for (peb, counter) in next_counters(&io, options.keeps_counters).await? {
            let mut erased = io.sync_erase(peb, false).await.map(drop);
            if erased.is_ok() {
                erased = match blocks.next() {
                    Some((block, number)) => {
                        let block = renumbered(&io.layout, options, block, number, counter)?;
                        written += 1;
                        io.write(peb, 0, &block).await
                    }
                    None => io.write_counter(peb, counter).await,
                };
            }
            if let Err(error) = erased {
                give_up(&io, peb, error).await?;
            }
        }
        if written < wanted {
            return Err(AttachError::TooFewBlocks { available: written, wanted });
        }
        Ok(())
    }
}

fn open(
    sim: &Sim,
    cpus: Rc<Cpus>,
    mtd: Rc<Mtd>,
    options: &FormatOptions,
) -> Result<Io, AttachError> {
    let layout = Layout::new(&mtd, options.header_offset)?;
    let io = Io::new(sim, cpus, mtd, layout, CpuCosts::default());
    io.image_sequence.set(options.image_sequence);
    Ok(io)
}

/// A block of an image with another erase counter, without the blank pages at its end.
fn renumbered(
    layout: &Layout,
    options: &FormatOptions,
    block: &[u8],
    number: PebNumber,
    erase_counter: u64,
) -> Result<Vec<u8>, AttachError> {
    let header: &[u8; HEADER_BYTES] =
        block[..HEADER_BYTES].try_into().expect("a block is longer than a header");
    let Decoded::Sound(header) = EraseCounterHeader::decode(header) else {
        return Err(AttachError::NotUbi);
    };
    if (header.header_offset, header.data_offset) != (layout.header_offset, layout.data_offset) {
        return Err(AttachError::OtherOffset {
            peb: number,
            found: header.header_offset,
            found_data: header.data_offset,
            wanted: layout.header_offset,
            wanted_data: layout.data_offset,
        });
    }
    let image_sequence = match options.image_sequence {
        0 => header.image_sequence,
        chosen => chosen,
    };
    let header = EraseCounterHeader { erase_counter, image_sequence, ..header };
    let mut block = block.to_vec();
    block[..HEADER_BYTES].copy_from_slice(&header.encode());
    // Blank pages stay unwritten: on NAND each may be programmed once, and file systems write them
    // later (`drop_ffs`).
    block.truncate(data_length(&block, layout.min_io_bytes));
    Ok(block)
}

/// Good blocks and the erase counters that they get by one more erase.
async fn next_counters(io: &Io, keeps_counters: bool) -> Result<Vec<(PebNumber, u64)>, UbiError> {
    let counters = scan_counters(io).await?;
    let known: Vec<u64> = counters.iter().filter_map(|(_, counter)| *counter).collect();
    let mean = known.iter().sum::<u64>().checked_div(known.len() as u64).unwrap_or(0);
    let next = |old: Option<u64>| match old {
        _ if !keeps_counters => 0,
        // One more than before, for the erase that comes now; the mean is not raised, as in
        // `ubiformat`.
        Some(old) => (old + 1).min(ERASE_COUNTER_MAX),
        None => mean,
    };
    Ok(counters.into_iter().map(|(peb, old)| (peb, next(old))).collect())
}

/// Good blocks and their erase counters.
async fn scan_counters(io: &Io) -> Result<Vec<(PebNumber, Option<u64>)>, UbiError> {
    let mut counters = Vec::new();
    for peb in (0..io.layout.peb_count).map(PebNumber::new) {
        if io.is_bad(peb).await? {
            continue;
        }
        let counter = match io.read_counter(peb).await? {
            HeaderRead::Sound { header, .. } if header.check().is_ok() => {
                Some(header.erase_counter)
            }
            HeaderRead::Sound { .. } | HeaderRead::Blank { .. } | HeaderRead::Bad { .. } => None,
        };
        counters.push((peb, counter));
    }
    Ok(counters)
}

async fn give_up(io: &Io, peb: PebNumber, error: UbiError) -> Result<(), UbiError> {
    if error.is_io() { io.mark_bad(peb).await } else { Err(error) }
}

/// A whole block with a copy of the volume table, blank to its end.
pub(crate) fn table_block(
    layout: &Layout,
    image_sequence: u32,
    erase_counter: u64,
    copy: LebNumber,
    records: &[Option<VolumeRecord>],
) -> Vec<u8> {
    // The tools pad the table with blank bytes, the kernel with zeros.
    let table = encode(records, 0);
    let header = VolumeHeader::dynamic(LebAddress { volume: LAYOUT, leb: copy }, 0);
    let mut block = vec![0xff; layout.peb_bytes as usize];
    put_headers(layout, image_sequence, erase_counter, &header, &mut block);
    let from = layout.data_offset as usize;
    block[from..from + table.len()].copy_from_slice(&table);
    block
}

/// Puts both headers into the bytes of a block.
pub(crate) fn put_headers(
    layout: &Layout,
    image_sequence: u32,
    erase_counter: u64,
    header: &VolumeHeader,
    block: &mut [u8],
) {
    let counter = EraseCounterHeader {
        version: 1,
        erase_counter,
        header_offset: layout.header_offset,
        data_offset: layout.data_offset,
        image_sequence,
    };
    block[..HEADER_BYTES].copy_from_slice(&counter.encode());
    let at = layout.header_offset as usize;
    block[at..at + HEADER_BYTES].copy_from_slice(&header.encode());
}

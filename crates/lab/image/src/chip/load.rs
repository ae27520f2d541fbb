//! Dumps as chips: bytes are loaded under a driver that fits.

use crate::candidate::default_block_bytes;
use crate::chip::dump::{Dump, Prepared};
use crate::chip::image::{ChipForm, ChipImage, Form};
use crate::error::ImageError;
use crate::options::OpenOptions;
use cancellation::Checked;
use file_systems::find_kind;
use mount::MountRequest;
use mtd::OobLayout;
use nand::{Chip, FaultSettings, ImageLayout, Part, Storage, find_part};
use std::path::Path;
use std::rc::Rc;

/// Pages that are added to an image for volumes that are not all there.
const MISSING_PAGES_MAX: u32 = 1 << 20;
/// Blocks that every file system here is content with.
const BLOCKS_MIN: u32 = 16;
/// Pages of a block of a chip that no one reads.
const UNUSED_PAGES_PER_BLOCK: u32 = 64;

/// Loads the dump of a chip, of which it is known what it holds.
///
/// # Errors
/// [`ImageError::Option`] if the blocks cannot be of the size that is asked for;
/// [`ImageError::Mount`] of an unknown profile.
pub(crate) fn load(
    path: &Path,
    mut bytes: Vec<u8>,
    dump: &Dump,
    options: &OpenOptions,
) -> Result<ChipImage, ImageError> {
    let (file_bytes, form) = (bytes.len() as u64, dump.form);
    let page_bytes = form.layout.page_bytes;
    let block_bytes = dump.on_chip.block_bytes().or(options.block_bytes);
    let block_bytes = block_bytes.unwrap_or(default_block_bytes(page_bytes));
    if !block_bytes.is_multiple_of(page_bytes) || block_bytes < 2 * page_bytes {
        let reason = format!("{block_bytes} is not a whole number of {page_bytes}-byte pages");
        return Err(ImageError::Option { option: "--block-size", reason });
    }
    let mut notes = Vec::new();
    let rest = bytes.len() % form.stride();
    if rest > 0 {
        if form.has_oob {
            notes.push(format!(
                "the image ends {rest} bytes into page {}: the dump was cut short",
                bytes.len() / form.stride()
            ));
        }
        // The rest of the last page is taken for erased.
        bytes.resize(bytes.len().next_multiple_of(form.stride()), 0xff);
    }
    let Prepared { layout, blocks_wanted, on_chip } =
        dump.on_chip.prepare(&mut bytes, &form, block_bytes);
    let pages_per_block = block_bytes / page_bytes;
    let pages = (bytes.len() / form.stride()) as u32;
    let blocks = pages.div_ceil(pages_per_block);
    let missing = blocks_wanted.saturating_sub(blocks.into());
    // A damaged table must not ask for a chip without end.
    let missing = missing.min(u64::from(MISSING_PAGES_MAX / pages_per_block)) as u32;
    if missing > 0 {
        notes.push(format!(
            "the volumes want {missing} erase blocks more than the image has: \
             those are taken to be blank"
        ));
    }
    let part = part_of(layout, pages_per_block, (blocks + missing).max(BLOCKS_MIN));
    let corrected_marks =
        if form.has_oob { correct_marks(&mut bytes, &part, form.stride()) } else { Vec::new() };
    let kept = if form.has_oob { ImageLayout::WithOob } else { ImageLayout::DataOnly };
    let chip = Chip::load_image(&part, &mut Checked(&bytes[..]), kept)
        .map_err(|error| ImageError::content(path, error.to_string()))?;
    assert!(blocks <= chip.geometry().blocks, "the chip holds all of the image");
    // Not held beside the chip that was made of it.
    drop(bytes);
    let image = unmounted(path, chip, form, options, on_chip)?;
    Ok(ChipImage { layout, file_bytes, blocks, notes, corrected_marks, ..image })
}

/// An image that is no dump: its chip is blank, and is not read.
///
/// # Errors
/// [`ImageError::Mount`] of an unknown profile.
pub(crate) fn load_without_chip(
    path: &Path,
    form: Form,
    options: &OpenOptions,
    on_chip: Rc<dyn ChipForm>,
) -> Result<ChipImage, ImageError> {
    let part = part_of(form.layout, UNUSED_PAGES_PER_BLOCK, BLOCKS_MIN);
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    unmounted(path, chip, form, options, on_chip)
}

/// A chip with the request that mounts it.
fn unmounted(
    path: &Path,
    chip: Chip,
    form: Form,
    options: &OpenOptions,
    on_chip: Rc<dyn ChipForm>,
) -> Result<ChipImage, ImageError> {
    let failed = |source| ImageError::Mount { path: path.to_owned(), source: Box::new(source) };
    let kind = find_kind(form.file_system).map_err(failed)?;
    let mut request = MountRequest::read_only();
    request.profile = Some(kind.profile(options.profile.as_deref()).map_err(failed)?.to_owned());
    request.ubi.volume.clone_from(&options.volume);
    on_chip.ask(&mut request);
    Ok(ChipImage {
        path: path.to_owned(),
        kind,
        form,
        chip,
        layout: form.layout,
        file_bytes: 0,
        blocks: 0,
        request,
        notes: Vec::new(),
        corrected_marks: Vec::new(),
        on_chip,
    })
}

/// The part of a dump: of the size of the image, with rules that matter to no reader.
fn part_of(layout: &OobLayout, pages_per_block: u32, blocks: u32) -> Part {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.page_data_bytes = layout.page_bytes;
    part.geometry.page_oob_bytes = layout.oob_bytes;
    part.geometry.pages_per_block = pages_per_block;
    part.geometry.blocks = blocks;
    // Small pages have the mark in the sixth spare byte (`NAND_SMALL_BADBLOCK_POS`).
    part.geometry.bad_mark_oob_offset = if layout.page_bytes == 512 { 5 } else { 0 };
    part
}

/// A mark with a single wrong bit is bit rot, not a mark: those are zero. Numbers of such pages.
fn correct_marks(bytes: &mut [u8], part: &Part, stride: usize) -> Vec<u32> {
    let geometry = &part.geometry;
    let place = (geometry.page_data_bytes + geometry.bad_mark_oob_offset) as usize;
    let mut pages = Vec::new();
    for (page, number) in bytes.chunks_exact_mut(stride).zip(0_u32..) {
        if page[place].count_ones() == 7 {
            page[place] = 0xff;
            pages.push(number);
        }
    }
    pages
}

//! Images of chips made from a tree of the host.
//!
//! The file system itself writes them: the tree is copied onto a blank chip and unmounted. Blocks behind the
//! last one that holds data are left out.

use crate::candidate::default_block_bytes;
use crate::contract::Made;
use crate::error::ImageError;
use crate::options::{MakeOptions, Padding};
use crate::tree_copy::{copy, read_source};
use crate::unfinished::finish;
use mount::{Driver, Kind, MountRequest};
use mtd::{LAYOUTS, OobLayout};
use nand::{Chip, FaultSettings, PageAddress, Part, Storage, find_part, load_part};
use std::io::{BufWriter, Write};
use std::path::Path;

/// The order of blocks in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOrder {
    /// As they stand on the chip.
    InPlace,
    /// As they were written, by a file system that takes the blocks of a blank chip from the last to the first.
    Written,
}

/// Makes an image of a directory; the file appears when it is complete.
///
/// # Errors
/// [`ImageError`]: the tree cannot be read or does not fit, an option is wrong.
pub(crate) fn make_chip(
    kind: &'static Kind,
    from: &Path,
    to: &Path,
    options: &MakeOptions,
    order: BlockOrder,
) -> Result<Made, ImageError> {
    let profile = kind
        .profile(options.profile.as_deref())
        .map_err(|error| ImageError::Option { option: "--profile", reason: error.to_string() })?;
    let (part, layout) = find_chip(options)?;
    let source = read_source(from, options)?;
    let names = source.nodes.len() as u64;
    // Nothing writes by time: the image depends on the tree alone.
    let mut request = MountRequest {
        profile: Some(profile.to_owned()),
        has_background: false,
        has_write_back: false,
        ..MountRequest::default()
    };
    request.options.clone_from(&options.mount_options);
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let shown = to.to_owned();
    let outcome = mount::run(chip, &Driver::of_tool(layout), 0, move |machine| async move {
        let mount_error = |source| {
            let source = Box::new(source);
            ImageError::Mount { path: shown.clone(), source }
        };
        let mounted = machine.mount(kind, &request).await.map_err(mount_error)?;
        copy(&mounted.vfs, &source).await
    });
    outcome.value.expect("no power cut is asked for")?;
    let saved = save(&outcome.chip, to, options, order);
    saved.map(|(pages, file_bytes)| Made { names, pages, file_bytes })
}

/// The part that is asked for, with the sizes that are asked for, and a layout with ECC for it.
///
/// # Errors
/// [`ImageError::Option`].
pub(crate) fn find_chip(options: &MakeOptions) -> Result<(Part, &'static OobLayout), ImageError> {
    let refuse = |option, reason| ImageError::Option { option, reason };
    let mut part = match find_part(&options.part) {
        Some(part) => part,
        None => load_part(Path::new(&options.part)).map_err(|error| {
            refuse("--part", format!("{error}: give a name of `nandlab list parts`, or a file"))
        })?,
    };
    if let Some(page_bytes) = options.page_bytes {
        let layouts = || LAYOUTS.iter().filter(|layout| !layout.ecc_places.is_empty());
        let Some(layout) = layouts().find(|layout| layout.page_bytes == page_bytes) else {
            let reason =
                format!("no layout has pages of {page_bytes} bytes: 512 and 2048 are known");
            return Err(refuse("--page-size", reason));
        };
        if page_bytes != part.geometry.page_data_bytes {
            let pages = default_block_bytes(page_bytes) / page_bytes;
            let blocks = part.geometry.capacity_bytes() / u64::from(page_bytes * pages);
            part.geometry.page_data_bytes = page_bytes;
            part.geometry.page_oob_bytes = layout.oob_bytes;
            part.geometry.pages_per_block = pages;
            part.geometry.blocks = blocks.min(1 << 16) as u32;
        }
    }
    part.geometry.blocks = options.blocks.unwrap_or(part.geometry.blocks);
    let checked = part.geometry.check().and_then(|()| part.geometry.check_memory());
    checked.map_err(|reason| refuse("--blocks", reason))?;
    let geometry = &part.geometry;
    let fits = |layout: &&OobLayout| {
        let size = (layout.page_bytes, layout.oob_bytes);
        size == (geometry.page_data_bytes, geometry.page_oob_bytes) && !layout.ecc_places.is_empty()
    };
    let layout = LAYOUTS.iter().find(fits).ok_or_else(|| {
        let (data, oob) = (geometry.page_data_bytes, geometry.page_oob_bytes);
        refuse("--part", format!("no layout is made for pages of {data} + {oob} bytes"))
    })?;
    Ok((part, layout))
}

/// The blocks of an image: each a block of the chip, and the pages of it up to the last with data.
fn used_blocks(chip: &Chip, order: BlockOrder) -> Vec<(u32, u32)> {
    let geometry = chip.geometry();
    let data_bytes = geometry.page_data_bytes as usize;
    let used_pages = |block: u32| {
        let pages = chip.block_pages(block).into_iter().flatten();
        // A page with blank data is not used, even if its spare area has a mark.
        let is_used = |page: &[u8]| page[..data_bytes].iter().any(|byte| *byte != 0xff);
        pages.zip(1..).filter(|(page, _)| is_used(page)).last().map_or(0, |(_, end)| end)
    };
    let mut blocks: Vec<(u32, u32)> =
        (0..geometry.blocks).map(|block| (block, used_pages(block))).collect();
    match order {
        BlockOrder::Written => {
            blocks.retain(|(_, pages)| *pages > 0);
            blocks.reverse();
        }
        // Blocks within keep their places; those behind the last are left out.
        BlockOrder::InPlace => while blocks.pop_if(|(_, pages)| *pages == 0).is_some() {},
    }
    assert!(blocks.last().is_none_or(|(_, pages)| *pages > 0), "the last block holds data");
    blocks
}

fn save(
    chip: &Chip,
    to: &Path,
    options: &MakeOptions,
    order: BlockOrder,
) -> Result<(u32, u64), ImageError> {
    let geometry = chip.geometry();
    let page_bytes = u64::from(geometry.page_data_bytes);
    let blocks = used_blocks(chip, order);
    let used = blocks
        .last()
        .map_or(0, |(_, pages)| (blocks.len() as u32 - 1) * geometry.pages_per_block + pages);
    if let Some(limit) = options.size_limit_bytes
        && u64::from(used) * page_bytes > limit
    {
        let reason = format!(
            "the image has {} bytes of data, {limit} are allowed",
            u64::from(used) * page_bytes
        );
        return Err(ImageError::Option { option: "--size-limit", reason });
    }
    let pages = match options.padding {
        None => used,
        Some(Padding::Block) => used.next_multiple_of(geometry.pages_per_block),
        Some(Padding::Bytes(bytes)) => {
            let pages = bytes.div_ceil(page_bytes);
            if pages > u64::from(geometry.pages()) {
                let reason =
                    format!("{bytes} bytes are more than the chip has: give more --blocks");
                return Err(ImageError::Option { option: "--pad", reason });
            }
            used.max(pages as u32)
        }
    };
    let bytes = finish(to, |to| write_pages(chip, to, &blocks, pages, options.has_oob))?;
    Ok((pages, bytes))
}

fn write_pages(
    chip: &Chip,
    to: &Path,
    blocks: &[(u32, u32)],
    pages: u32,
    has_oob: bool,
) -> std::io::Result<u64> {
    let geometry = chip.geometry();
    let data_bytes = geometry.page_data_bytes as usize;
    let kept = if has_oob { data_bytes + geometry.page_oob_bytes as usize } else { data_bytes };
    let blank = vec![0xff; kept];
    let mut writer = BufWriter::new(std::fs::File::create(to)?);
    for page in 0..pages {
        cancellation::check();
        let (block, index) = (page / geometry.pages_per_block, page % geometry.pages_per_block);
        let place = blocks.get(block as usize).map(|(block, _)| PageAddress::new(*block, index));
        let bytes = place.and_then(|at| chip.page_bytes(at)).map(|bytes| &bytes[..kept]);
        writer.write_all(bytes.unwrap_or(&blank))?;
    }
    writer.flush()?;
    Ok(u64::from(pages) * kept as u64)
}

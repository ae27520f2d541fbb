//! Making an image from the contents of volumes, as `ubinize` does.
//!
//! The image is what [`crate::Ubi::flash`] takes. Source: `lib/libubigen.c` and
//! `ubi-utils/ubinize.c` of mtd-utils 2.1.5; images made by it are made here byte by byte the same. Uses
//! formats only.

use crate::format::{put_headers, table_block};
use crate::headers::{VolumeHeader, VolumeKind, crc32};
use crate::layout::Layout;
use crate::numbers::{LebAddress, LebNumber, VolumeNumber};
use crate::volume_state::LAYOUT_LEBS;
use crate::volume_table::{VolumeRecord, slots};
use crate::{UbiError, ubinize_config::VolumeSection};

/// A volume of an image with its contents.
#[derive(Clone, Debug)]
pub struct VolumeImage {
    /// What the configuration says.
    pub section: VolumeSection,
    /// Contents; shorter than the volume.
    pub data: Vec<u8>,
}

/// What an image may choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageOptions {
    /// Erase counter of all blocks (`-e`).
    pub erase_counter: u64,
    /// Random number that distinguishes this image from others (`-Q`).
    pub image_sequence: u32,
}

/// The bytes of an image: whole blocks, data of pages only.
///
/// # Errors
/// [`UbiError::Invalid`] if contents do not fit a volume, or its alignment no block.
pub fn ubinize(
    layout: &Layout,
    options: ImageOptions,
    volumes: &[VolumeImage],
) -> Result<Vec<u8>, UbiError> {
    let mut records = vec![None; slots(layout.leb_bytes) as usize];
    for volume in volumes {
        let section = &volume.section;
        let Some(place) = records.get_mut(section.id as usize) else {
            return Err(UbiError::Invalid(format!(
                "section [{}]: vol_id {} does not fit the volume table of {} records",
                section.section,
                section.id,
                slots(layout.leb_bytes)
            )));
        };
        *place = Some(record(layout, volume)?);
    }
    let mut image = Vec::new();
    let ImageOptions { erase_counter, image_sequence } = options;
    for copy in LebNumber::new(0).run(LAYOUT_LEBS) {
        image.extend(table_block(layout, image_sequence, erase_counter, copy, &records));
    }
    for volume in volumes {
        let Some(Some(record)) = records.get(volume.section.id as usize) else { continue };
        let usable_bytes = layout.usable_bytes(record.data_pad) as usize;
        let used_lebs = volume.data.len().div_ceil(usable_bytes) as u32;
        for (data, leb) in volume.data.chunks(usable_bytes).zip((0..).map(LebNumber::new)) {
            // Sequence number 0, as the tool has it: an attach takes such blocks for older than all
            // others.
            let address = LebAddress { volume: VolumeNumber::new(volume.section.id), leb };
            let mut header = VolumeHeader::dynamic(address, record.data_pad);
            if record.kind == VolumeKind::Static {
                header.kind = VolumeKind::Static.code();
                header.used_lebs = used_lebs;
                header.data_bytes = data.len() as u32;
                header.data_crc = crc32(data);
            }
            let start = image.len();
            // Blank to the end of the block; `flash` leaves the blank pages out.
            image.resize(start + layout.peb_bytes as usize, 0xff);
            let block = &mut image[start..];
            put_headers(layout, image_sequence, erase_counter, &header, block);
            let from = layout.data_offset as usize;
            block[from..from + data.len()].copy_from_slice(data);
        }
    }
    Ok(image)
}

fn record(layout: &Layout, volume: &VolumeImage) -> Result<VolumeRecord, UbiError> {
    let section = &volume.section;
    let refuse =
        |what: String| Err(UbiError::Invalid(format!("section [{}]: {what}", section.section)));
    let alignment = section.alignment;
    if alignment == 0 || alignment > layout.leb_bytes {
        return refuse(format!("vol_alignment {alignment} is more than {}", layout.leb_bytes));
    }
    if alignment != 1 && !alignment.is_multiple_of(layout.min_io_bytes) {
        return refuse(format!(
            "vol_alignment {alignment} is no multiple of a page of {}",
            layout.min_io_bytes
        ));
    }
    let data_pad = layout.leb_bytes % alignment;
    let data_bytes = volume.data.len() as u64;
    let size_bytes = section.size_bytes.unwrap_or(data_bytes).max(1);
    if data_bytes > size_bytes {
        return refuse(format!(
            "the image has {data_bytes} bytes, vol_size says {size_bytes}; raise vol_size"
        ));
    }
    let usable_bytes = u64::from(layout.usable_bytes(data_pad));
    let Ok(reserved_pebs) = u32::try_from(size_bytes.div_ceil(usable_bytes)) else {
        return refuse(format!("{size_bytes} bytes are more than a chip can have"));
    };
    Ok(VolumeRecord {
        reserved_pebs,
        alignment,
        data_pad,
        kind: section.kind,
        update_marker: false,
        name: section.name.clone().into_bytes(),
        is_auto_resized: section.is_auto_resized,
        skips_check: section.skips_check,
    })
}

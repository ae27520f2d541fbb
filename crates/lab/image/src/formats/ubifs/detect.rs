//! What the bytes of an image say of UBI, and of UBIFS that stands alone.
//!
//! Every block of UBI begins with a header that says where the others stand. The size of pages and
//! blocks with which most blocks begin so is that of the image; plain images have no pages, so that the
//! superblock of UBIFS tells their size, or else the place of the headers.

use crate::candidate::Known;
use crate::chip::{Form, is_protected};
use mtd::{Ecc, OobLayout, find_layout};
use std::collections::BTreeMap;
use std::ops::Range;
use ubi::headers::{Decoded, EraseCounterHeader, HEADER_BYTES, LAYOUT_VOLUME, VolumeHeader};
use ubi::volume_table;
use ubifs::{SuperblockInfo, read_superblock};

/// Name of the file system.
pub(super) const NAME: &str = "ubifs";
/// Share of the written blocks that begin with a header.
const SHARE_MIN: f64 = 0.3;
/// Pages of a block, and data bytes of the blocks of plain images, that are tried.
const PAGES_PER_BLOCK: std::ops::RangeInclusive<u32> = 3..=9;
const BLOCK_BITS: std::ops::RangeInclusive<u32> = 12..=23;
/// Bytes of a superblock of UBIFS.
const SUPERBLOCK_BYTES: usize = 4096;

/// Where UBI has its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UbiForm {
    /// Data bytes of a physical block.
    pub block_bytes: u32,
    /// Where the volume identifier header stands in a block.
    pub header_offset: u32,
    /// Where data begins in a block.
    pub data_offset: u32,
}

/// Pages without a code, by size and the parts that can be programmed one by one. A plain image has no
/// spare areas; those of a chip that would hold it stay blank.
static WITHOUT_CODE: [OobLayout; 24] = {
    const fn layout(page_bytes: u32, sub_pages: u32) -> OobLayout {
        OobLayout {
            name: "no code",
            summary: "pages whose spare areas are not looked at",
            page_bytes,
            // As parts of 2048 + 64 bytes; nothing is written there.
            oob_bytes: page_bytes / 32,
            ecc: Ecc::None,
            ecc_places: &[],
            free_places: &[],
            sub_pages,
        }
    }
    [
        layout(512, 1),
        layout(512, 2),
        layout(512, 4),
        layout(512, 8),
        layout(1024, 1),
        layout(1024, 2),
        layout(1024, 4),
        layout(1024, 8),
        layout(2048, 1),
        layout(2048, 2),
        layout(2048, 4),
        layout(2048, 8),
        layout(4096, 1),
        layout(4096, 2),
        layout(4096, 4),
        layout(4096, 8),
        layout(8192, 1),
        layout(8192, 2),
        layout(8192, 4),
        layout(8192, 8),
        layout(16384, 1),
        layout(16384, 2),
        layout(16384, 4),
        layout(16384, 8),
    ]
};

/// Where the header of a volume and the data begin in a block, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Offsets {
    header: u32,
    data: u32,
}

/// So many bytes from an offset on.
fn from(offset: u32, bytes: usize) -> Range<usize> {
    offset as usize..offset as usize + bytes
}

/// Pages of a size whose spare areas are not looked at, programmed in parts small enough for a header
/// at an offset.
fn without_code(page_bytes: u32, offsets: Offsets) -> Option<&'static OobLayout> {
    let header_offset = offsets.header;
    let mut fitting = WITHOUT_CODE.iter().filter(|layout| layout.page_bytes == page_bytes);
    let fits = |layout: &&OobLayout| {
        header_offset.is_multiple_of(layout.page_bytes / layout.sub_pages) && header_offset > 0
    };
    fitting.clone().find(fits).or_else(|| fitting.next())
}

/// How blocks are tried: data and spare bytes of a page (a plain image has no pages), pages of a block.
#[derive(Clone, Copy)]
struct Shape {
    page_bytes: usize,
    oob_bytes: usize,
    pages: usize,
}

impl Shape {
    /// The shape of a form that was found.
    fn of(form: &Form, ubi: UbiForm) -> Self {
        let page_bytes = form.layout.page_bytes as usize;
        let oob_bytes = form.stride() - page_bytes;
        Self { page_bytes, oob_bytes, pages: ubi.block_bytes as usize / page_bytes }
    }

    fn stride(&self) -> usize {
        (self.page_bytes + self.oob_bytes) * self.pages
    }

    /// Data of a block, as far as it goes.
    fn data(&self, block: &[u8], range: Range<usize>) -> Vec<u8> {
        let bytes = range.len();
        let mut data = Vec::with_capacity(bytes);
        let mut at = range.start;
        while data.len() < bytes {
            let (page, within) = (at / self.page_bytes, at % self.page_bytes);
            let start = page * (self.page_bytes + self.oob_bytes) + within;
            let count = (self.page_bytes - within).min(bytes - data.len());
            let Some(part) = block.get(start..start + count) else { break };
            data.extend_from_slice(part);
            at += count;
        }
        data
    }
}

fn shapes(known: &Known) -> impl Iterator<Item = Shape> + '_ {
    // Without spare areas the pages of a block lie in a row, as one.
    let plain = BLOCK_BITS.map(|bits| Shape { page_bytes: 1 << bits, oob_bytes: 0, pages: 1 });
    let paged = [(2048, 64), (512, 16)].into_iter().flat_map(|(page_bytes, oob_bytes)| {
        PAGES_PER_BLOCK.map(move |bits| Shape { page_bytes, oob_bytes, pages: 1 << bits })
    });
    let asked = known.is_block_size_given.then_some(known.block_bytes as usize);
    let own = asked.into_iter().flat_map(|bytes| {
        let paged = [(2048, 64), (512, 16)].into_iter();
        let paged = paged.filter(move |(page_bytes, _)| bytes >= *page_bytes);
        let paged = paged.map(move |(page_bytes, oob_bytes)| Shape {
            page_bytes,
            oob_bytes,
            pages: bytes / page_bytes,
        });
        paged.chain([Shape { page_bytes: bytes, oob_bytes: 0, pages: 1 }])
    });
    let general = plain.chain(paged).filter(move |_| asked.is_none());
    own.chain(general).filter(|shape| {
        let fits = |bytes: u32| shape.oob_bytes == 0 || shape.page_bytes == bytes as usize;
        // The spare area that is asked for says that there is one.
        known.page_bytes.is_none_or(fits)
            && (known.layout.is_none() || shape.oob_bytes > 0)
            && known.has_oob.is_none_or(|asked| asked == (shape.oob_bytes > 0))
    })
}

fn counter_of(block: &[u8]) -> Option<EraseCounterHeader> {
    let bytes = block.get(..HEADER_BYTES)?.try_into().ok()?;
    match EraseCounterHeader::decode(bytes) {
        Decoded::Sound(header) => Some(header),
        Decoded::Blank | Decoded::Bad => None,
    }
}

fn header_of(block: &[u8], shape: Shape, header_offset: u32) -> Option<VolumeHeader> {
    let header = shape.data(block, from(header_offset, HEADER_BYTES));
    match VolumeHeader::decode(header.as_slice().try_into().ok()?) {
        Decoded::Sound(header) => Some(header),
        Decoded::Blank | Decoded::Bad => None,
    }
}

/// Blocks that begin with a header, those that should, and the offsets that most headers name.
struct Found {
    shape: Shape,
    counters: u32,
    /// Headers that stand where the first ones say: not if pages have another size.
    headers: u32,
    others: u32,
    offsets: Offsets,
}

impl Found {
    fn new(image: &[u8], shape: Shape) -> Self {
        let (mut counters, mut headers, mut others) = (0, 0, 0);
        let mut offsets: BTreeMap<Offsets, u32> = BTreeMap::new();
        for block in image.chunks(shape.stride()) {
            cancellation::check();
            if let Some(header) = counter_of(block) {
                counters += 1;
                headers += u32::from(header_of(block, shape, header.header_offset).is_some());
                let named = Offsets { header: header.header_offset, data: header.data_offset };
                *offsets.entry(named).or_default() += 1;
            } else if block.iter().take(HEADER_BYTES).any(|byte| *byte != 0xff) {
                // A block that is written and has no header speaks against the shape.
                others += 1;
            }
        }
        let most = offsets.iter().max_by_key(|(_, count)| **count);
        let offsets = most.map(|(offsets, _)| *offsets).unwrap_or_default();
        Self { shape, counters, headers, others, offsets }
    }

    fn share(&self) -> f64 {
        f64::from(self.counters) / f64::from(self.counters + self.others).max(1.0)
    }

    /// Pages of 512 + 16 bytes stand where those of 2048 + 64 do, and so do headers at multiples of 2048:
    /// the places that the headers name decide then.
    fn score(&self) -> (i64, usize, bool) {
        let headers = i64::from(self.counters) + i64::from(self.headers);
        let page_bytes = page_bytes_by(self.offsets) as usize;
        let fits = self.shape.oob_bytes == 0 || self.shape.page_bytes == page_bytes;
        (headers - i64::from(self.others), self.shape.stride(), fits)
    }
}

/// The form of an image of UBI; none if too few blocks begin with its header.
pub(super) fn detect_ubi(image: &[u8], known: &Known) -> Option<(Form, UbiForm)> {
    if known.file_system.is_some_and(|name| name != NAME) {
        return None;
    }
    let found = shapes(known).map(|shape| Found::new(image, shape));
    let best = found.filter(|found| found.counters > 0).max_by_key(Found::score)?;
    let is_wanted = known.file_system == Some(NAME);
    if best.share() < SHARE_MIN && !is_wanted {
        return None;
    }
    let shape = best.shape;
    // What the user says counts more than what headers say.
    let offsets =
        Offsets { header: known.vid_header_offset.unwrap_or(best.offsets.header), ..best.offsets };
    let Offsets { header: header_offset, data: data_offset } = offsets;
    let block_bytes = (shape.page_bytes * shape.pages) as u32;
    let has_oob = shape.oob_bytes > 0;
    let page_bytes = if has_oob {
        shape.page_bytes as u32
    } else {
        let stored = superblock_in(image, shape, data_offset).map(|found| found.min_io_bytes);
        let page_bytes = known.page_bytes.or(stored);
        page_bytes.unwrap_or_else(|| page_bytes_by(offsets))
    };
    let plain = without_code(page_bytes, offsets)?;
    let layout = if has_oob { layout_of(image, shape, plain, known) } else { plain };
    let form = Form { file_system: NAME, has_oob, layout, share: best.share() };
    Some((form, UbiForm { block_bytes, header_offset, data_offset }))
}

/// The size of a page by the places of headers and data: data begins at a page, headers at parts of one.
fn page_bytes_by(offsets: Offsets) -> u32 {
    let Offsets { header: header_offset, data: data_offset } = offsets;
    // No page is larger than 16 KiB here.
    let largest = |offset: u32| 1_u32 << offset.trailing_zeros().min(14);
    // The header has the second page, and data begin at the third.
    if data_offset == 2 * header_offset && header_offset >= 512 {
        return largest(header_offset).max(512);
    }
    largest(data_offset).max(512)
}

/// The layout with the code of Linux, where it agrees with most of the written pages, or as it is asked.
fn layout_of(
    image: &[u8],
    shape: Shape,
    plain: &'static OobLayout,
    known: &Known,
) -> &'static OobLayout {
    let name = if shape.page_bytes == 2048 { "linux-large" } else { "linux-small" };
    let protected = find_layout(name).expect("in the table");
    let has_code = match (known.layout, known.has_ecc) {
        (Some(asked), _) => !asked.ecc_places.is_empty(),
        (None, Some(has_ecc)) => has_ecc,
        (None, None) => {
            let pages = image.chunks_exact(shape.page_bytes + shape.oob_bytes);
            is_protected(pages.map(|page| page.split_at(shape.page_bytes)), protected)
        }
    };
    if has_code { protected } else { plain }
}

/// The first superblock of UBIFS in the blocks.
fn superblock_in(image: &[u8], shape: Shape, data_offset: u32) -> Option<SuperblockInfo> {
    image.chunks(shape.stride()).find_map(|block| {
        let data = shape.data(block, from(data_offset, SUPERBLOCK_BYTES));
        read_superblock(&data).ok()
    })
}

/// Share of the written blocks that begin with a header, in an image of this form.
pub(super) fn share_of_headers(image: &[u8], form: &Form, ubi: UbiForm) -> f64 {
    Found::new(image, Shape::of(form, ubi)).share()
}

/// The form of a file system that stands alone, as mkfs.ubifs makes it.
pub(super) fn detect_bare(image: &[u8], known: &Known) -> Option<(Form, SuperblockInfo)> {
    if known.file_system.is_some_and(|name| name != NAME) || known.layout.is_some() {
        return None;
    }
    let superblock = read_superblock(image).ok()?;
    let is_possible = (4096..=1 << 24).contains(&superblock.leb_bytes)
        && superblock.min_io_bytes.is_power_of_two()
        && superblock.min_io_bytes <= superblock.leb_bytes;
    let layout = find_layout("linux-large-no-ecc")?;
    let form = Form { file_system: NAME, has_oob: false, layout, share: 1.0 };
    is_possible.then_some((form, superblock))
}

/// Whether a volume table can be read where the headers say: not in a dump whose spare areas stand
/// apart, in which the first header of every block is in its place and nothing else is.
pub(super) fn has_volume_table(image: &[u8], form: &Form, ubi: UbiForm) -> bool {
    blocks_wanted(image, form, ubi) > 0
}

/// Blocks that the volumes of an image want: those of plain images are often not all there.
pub(super) fn blocks_wanted(image: &[u8], form: &Form, ubi: UbiForm) -> u64 {
    /// Blocks of the volume table, of wear levelling and of atomic changes.
    const OWN_BLOCKS: u64 = 4;
    let shape = Shape::of(form, ubi);
    let tables = image.chunks(shape.stride()).filter_map(|block| {
        let header = header_of(block, shape, ubi.header_offset)?;
        if header.volume != LAYOUT_VOLUME {
            return None;
        }
        let leb_bytes = ubi.block_bytes.checked_sub(ubi.data_offset)?;
        let bytes = volume_table::table_bytes(leb_bytes, 1) as usize;
        let table = shape.data(block, from(ubi.data_offset, bytes));
        let records = volume_table::decode(&table, leb_bytes).ok()?;
        Some(records.iter().flatten().map(|record| u64::from(record.reserved_pebs)).sum::<u64>())
    });
    tables.max().map_or(0, |blocks| blocks + OWN_BLOCKS)
}

/// Gives the volume of a plain image that asks for all blocks that are left (`autoresize`) as many as UBIFS
/// needs, as the first attach would: ubinize makes it as small as its contents.
pub(super) fn grow_auto_resized(image: &mut [u8], form: &Form, ubi: UbiForm) {
    /// The fewest blocks of such a volume; UBIFS needs 17.
    const BLOCKS_MIN: u32 = 64;
    if form.has_oob {
        return;
    }
    let shape = Shape { page_bytes: ubi.block_bytes as usize, oob_bytes: 0, pages: 1 };
    let Some(leb_bytes) = ubi.block_bytes.checked_sub(ubi.data_offset) else { return };
    for block in image.chunks_mut(shape.stride()) {
        let header = header_of(block, shape, ubi.header_offset);
        if header.is_none_or(|header| header.volume != LAYOUT_VOLUME) {
            continue;
        }
        let from = ubi.data_offset as usize;
        let bytes = volume_table::table_bytes(leb_bytes, 1) as usize;
        let Some(table) = block.get_mut(from..from + bytes) else { continue };
        let Ok(mut records) = volume_table::decode(table, leb_bytes) else { continue };
        for record in records.iter_mut().flatten().filter(|record| record.is_auto_resized) {
            record.reserved_pebs = record.reserved_pebs.max(BLOCKS_MIN);
        }
        table.copy_from_slice(&volume_table::encode(&records, bytes));
    }
}

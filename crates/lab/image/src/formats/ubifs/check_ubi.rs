//! Checks of UBI: both headers of every block, what they say of each other, and the volume table.
//!
//! Blocks that newer ones replace stay until they are erased, and a power cut leaves headers, copies and
//! erases unfinished: that is how the format works. What no history leaves behind is an inconsistency: a
//! header whose CRC is wrong though its page was written whole, two blocks of one sequence number, a
//! volume table of which no copy is right.

use super::detect::UbiForm;
use crate::medium::{BlockData, Medium, PageState};
use crate::report::Report;
use std::collections::BTreeMap;
use ubi::headers::{
    Decoded, ERASE_COUNTER_MAX, EraseCounterHeader, FASTMAP_VOLUMES, HEADER_BYTES, LAYOUT_VOLUME,
    VolumeHeader, crc32,
};
use ubi::volume_table::{VolumeRecord, decode, table_bytes};

/// Version of the format of UBI's headers.
const VERSION: u8 = 1;
/// Code of static volumes in headers.
const STATIC: u8 = 2;

/// How many headers and blocks there are of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UbiCounts {
    /// Good blocks by their erase counter.
    pub erase_counters: BTreeMap<u64, u32>,
    /// Good blocks whose erase counter is lost.
    pub lost_counters: u32,
    /// Blocks that hold a logical block, older copies among them.
    pub mapped: u32,
    /// Blocks with an erase counter and nothing else.
    pub free: u32,
    /// Blocks that hold what a newer block replaces.
    pub replaced: u32,
    /// Blocks with data whose volume identifier header is wrong.
    pub corrupted: u32,
    /// Blocks of a fastmap.
    pub fastmap: u32,
    /// Random number of the image, as most headers say.
    pub image_sequence: u32,
}

/// A place in the image: a block, and bytes from its beginning.
#[derive(Clone, Copy)]
struct Within {
    block: u32,
    offset: u32,
}

/// A block that holds a logical block.
struct Holder {
    block: u32,
    header: VolumeHeader,
    /// The bytes under the CRC are what it says; true where there is no CRC.
    is_sound: bool,
    /// A page of the block was cut short.
    is_torn: bool,
    /// Of the volume table: its records, or what is wrong with them.
    table: Option<Result<Vec<Option<VolumeRecord>>, String>>,
}

struct Walk<'a> {
    medium: &'a Medium<'a>,
    form: UbiForm,
    report: &'a mut Report,
    counts: UbiCounts,
    /// Blocks by volume and logical block.
    holders: BTreeMap<(u32, u32), Vec<Holder>>,
    /// Blocks by the image that they belong to: how many, and one of them.
    images: BTreeMap<u32, (u32, u32)>,
}

/// Looks at every header of an image.
pub(super) fn check_ubi(medium: &Medium<'_>, form: UbiForm, report: &mut Report) -> UbiCounts {
    let (counts, holders, images) = (UbiCounts::default(), BTreeMap::new(), BTreeMap::new());
    let mut walk = Walk { medium, form, report, counts, holders, images };
    for block in (0..medium.blocks).filter(|block| !medium.is_bad(*block)) {
        match medium.block(block) {
            Some(data) => walk.block(block, &data),
            // Nothing is programmed, so the counter is not known: UBI takes the mean of all.
            None => walk.counts.lost_counters += 1,
        }
    }
    walk.check_images();
    walk.check_copies();
    walk.check_volumes();
    walk.counts
}

fn header_at(data: &[u8], at: u32) -> Option<&[u8; HEADER_BYTES]> {
    data.get(at as usize..at as usize + HEADER_BYTES)?.try_into().ok()
}

impl Walk<'_> {
    fn place(&self, at: Within) -> String {
        self.medium.place(at.block * self.medium.block_bytes() + at.offset)
    }

    /// Whether a page is as a power cut leaves it, or lost to the ECC, which is reported already.
    fn is_page_unsure(&self, read: &BlockData, offset: u32) -> bool {
        let page = read.pages.get((offset / self.medium.page_bytes) as usize);
        !matches!(page, Some(PageState::Sound | PageState::Blank | PageState::Corrected(_)))
    }

    fn block(&mut self, block: u32, read: &BlockData) {
        self.report.add_pages(self.medium, block, read);
        let UbiForm { header_offset, data_offset, .. } = self.form;
        if read.is_half_erased() {
            self.report.add_note(
                self.place(Within { block, offset: 0 }),
                "the erase of the block was cut short",
            );
        }
        let counter = header_at(&read.data, 0).map_or(Decoded::Bad, EraseCounterHeader::decode);
        match counter {
            Decoded::Sound(header) => self.counter(block, &header),
            Decoded::Blank | Decoded::Bad => {
                self.counts.lost_counters += 1;
                if !read.is_blank() {
                    let is_unsure = self.is_page_unsure(read, 0) || read.is_half_erased();
                    let what = match counter {
                        Decoded::Blank => "the block is written but has no erase counter header",
                        _ => "the CRC of the erase counter header is wrong",
                    };
                    self.report.add(is_unsure, self.place(Within { block, offset: 0 }), what);
                }
            }
        }
        let header = header_at(&read.data, header_offset);
        let holds_data = read.data.iter().skip(data_offset as usize).any(|byte| *byte != 0xff);
        match header.map_or(Decoded::Bad, VolumeHeader::decode) {
            Decoded::Sound(header) => self.header(block, header, read),
            Decoded::Blank if !holds_data => self.counts.free += 1,
            found => {
                let what = match found {
                    Decoded::Blank => "the block holds data but no volume identifier header",
                    _ => "the CRC of the volume identifier header is wrong",
                };
                self.counts.corrupted += u32::from(holds_data);
                // A kernel takes a bad header before blank data for one that a cut tore, and erases the
                // block (`check_corruption` of `drivers/mtd/ubi/attach.c`).
                let is_harmless = !holds_data
                    || self.is_page_unsure(read, header_offset)
                    || read.is_half_erased();
                self.report.add(
                    is_harmless,
                    self.place(Within { block, offset: header_offset }),
                    what,
                );
            }
        }
    }

    fn counter(&mut self, block: u32, header: &EraseCounterHeader) {
        *self.counts.erase_counters.entry(header.erase_counter).or_default() += 1;
        let image = self.images.entry(header.image_sequence).or_insert((0, block));
        image.0 += 1;
        let what = if header.version != VERSION {
            format!("UBI version {} is not known", header.version)
        } else if header.erase_counter > ERASE_COUNTER_MAX {
            format!("erase counter {} is too large", header.erase_counter)
        } else if (header.header_offset, header.data_offset)
            != (self.form.header_offset, self.form.data_offset)
        {
            format!(
                "headers and data stand at {} and {}, in other blocks at {} and {}",
                header.header_offset,
                header.data_offset,
                self.form.header_offset,
                self.form.data_offset
            )
        } else {
            return;
        };
        self.report.add_finding(self.place(Within { block, offset: 0 }), what);
    }

    fn header(&mut self, block: u32, header: VolumeHeader, read: &BlockData) {
        // Internal volumes have numbers from `UBI_INTERNAL_VOL_START` on, that of the layout
        // volume.
        if header.volume > LAYOUT_VOLUME {
            let is_fastmap = FASTMAP_VOLUMES.contains(&header.volume);
            self.counts.fastmap += u32::from(is_fastmap);
            if !is_fastmap {
                let what = format!("the block is of internal volume {:#x}", header.volume);
                self.report
                    .add_note(self.place(Within { block, offset: self.form.header_offset }), what);
            }
            return;
        }
        self.counts.mapped += 1;
        let data = &read.data[(self.form.data_offset as usize).min(read.data.len())..];
        let covered = data.get(..header.data_bytes as usize);
        // Only copies and static volumes have a CRC of their data.
        let has_crc = header.copy_flag == 1 || header.kind == STATIC;
        let is_sound = !has_crc || covered.is_some_and(|covered| crc32(covered) == header.data_crc);
        let is_torn = read
            .pages
            .iter()
            .any(|page| matches!(page, PageState::TornProgram | PageState::TornErase));
        let table = (header.volume == LAYOUT_VOLUME).then(|| {
            let leb_bytes = self.form.block_bytes.saturating_sub(self.form.data_offset);
            let bytes = table_bytes(leb_bytes, 1) as usize;
            decode(&data[..bytes.min(data.len())], leb_bytes)
        });
        let holder = Holder { block, header, is_sound, is_torn, table };
        self.holders.entry((header.volume, header.lnum)).or_default().push(holder);
    }

    /// All blocks belong to one image; those never written since it was flashed may say nothing.
    fn check_images(&mut self) {
        let most = self.images.iter().filter(|(image, _)| **image != 0);
        let most = most.max_by_key(|(_, (blocks, _))| *blocks).map_or(0, |(image, _)| *image);
        self.counts.image_sequence = most;
        for (image, (blocks, first)) in std::mem::take(&mut self.images) {
            if image != 0 && image != most {
                let what = format!(
                    "{blocks} blocks belong to image {image}, others to {most}: this is the first"
                );
                self.report.add_finding(self.place(Within { block: first, offset: 0 }), what);
            }
        }
    }

    /// Several blocks of one logical block: the newest counts, the others wait to be erased.
    fn check_copies(&mut self) {
        for ((volume, lnum), mut holders) in std::mem::take(&mut self.holders) {
            holders.sort_by_key(|holder| (holder.header.sequence_number, holder.block));
            for pair in holders.windows(2) {
                let number = pair[0].header.sequence_number;
                // `ubigen` leaves the sequence number of all blocks at 0.
                if number == pair[1].header.sequence_number && number != 0 {
                    let (one, other) = (pair[0].block, pair[1].block);
                    let what = format!(
                        "volume {volume} LEB {lnum}: sequence number {number} is that of block {one}"
                    );
                    self.report.add_finding(
                        self.place(Within { block: other, offset: self.form.header_offset }),
                        what,
                    );
                }
            }
            let count = holders.len() as u32;
            self.counts.replaced += count - 1;
            for holder in &holders {
                if holder.is_sound {
                    continue;
                }
                // A copy that was never finished leaves the block that it was made of.
                let is_harmless = count > 1 || holder.is_torn;
                let what = format!("volume {volume} LEB {lnum}: the CRC of the data is wrong");
                let place =
                    self.place(Within { block: holder.block, offset: self.form.data_offset });
                self.report.add(is_harmless, place, what);
            }
            // Only the newest is needed from here on.
            if let Some(newest) = holders.pop() {
                self.holders.insert((volume, lnum), vec![newest]);
            }
        }
        let replaced = self.counts.replaced;
        if replaced > 0 {
            let what = format!(
                "{replaced} blocks hold what newer ones replace; they wait for their erase"
            );
            self.report.add_note("UBI", what);
        }
        if self.counts.fastmap > 0 {
            let what =
                format!("{} blocks are of a fastmap; all blocks are scanned", self.counts.fastmap);
            self.report.add_note("UBI", what);
        }
    }

    /// The newest block of a logical block.
    fn newest(&self, volume: u32, lnum: u32) -> Option<&Holder> {
        self.holders.get(&(volume, lnum)).and_then(|holders| holders.first())
    }

    /// The records of the table; copies that differ are those of an interrupted change.
    fn records(&mut self) -> Option<Vec<Option<VolumeRecord>>> {
        let mut good: Vec<Vec<Option<VolumeRecord>>> = Vec::new();
        for lnum in 0..2 {
            let Some(holder) = self.newest(LAYOUT_VOLUME, lnum) else {
                self.report.add_note("volume table", format!("copy {} is missing", lnum + 1));
                continue;
            };
            let (block, is_torn) = (holder.block, holder.is_torn);
            match holder.table.clone() {
                Some(Ok(records)) => good.push(records),
                Some(Err(reason)) => {
                    let place = self.place(Within { block, offset: self.form.data_offset });
                    let what = format!("volume table, copy {}: {reason}", lnum + 1);
                    self.report.add(is_torn, place, what);
                }
                None => {}
            }
        }
        if let [first, second] = &good[..]
            && first != second
        {
            self.report.add_note("volume table", "its copies differ: a change was cut short");
        }
        if good.is_empty() {
            self.report.add_finding("volume table", "no copy of it is right");
        }
        good.into_iter().next()
    }

    /// Volumes as the table has them beside what blocks say.
    fn check_volumes(&mut self) {
        let Some(records) = self.records() else { return };
        let mut strangers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut findings = Vec::new();
        let mut lebs: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for ((volume, lnum), holders) in &self.holders {
            let Some(holder) = holders.first() else { continue };
            if *volume == LAYOUT_VOLUME {
                continue;
            }
            let Some(Some(record)) = records.get(*volume as usize) else {
                *strangers.entry(*volume).or_default() += 1;
                continue;
            };
            let header = &holder.header;
            let is_static = record.kind == ubi::VolumeKind::Static;
            let what = if *lnum >= record.reserved_pebs {
                format!("lies behind the end of the volume, at {}", record.reserved_pebs)
            } else if (header.kind == STATIC) != is_static {
                format!("is not {}, as the volume table says", record.kind.name())
            } else if header.data_pad != record.data_pad {
                "has another alignment than the volume table says".into()
            } else {
                let seen = lebs.entry(*volume).or_insert((0, header.used_lebs));
                seen.0 += 1;
                continue;
            };
            findings.push((holder.block, format!("volume {volume} LEB {lnum} {what}")));
        }
        for (block, what) in findings {
            self.report
                .add_finding(self.place(Within { block, offset: self.form.header_offset }), what);
        }
        for (volume, blocks) in strangers {
            let what =
                format!("{blocks} blocks, but no record in the volume table: it was removed");
            self.report.add_note(format!("volume {volume}"), what);
        }
        for (number, record) in (0_u32..).zip(&records) {
            let Some(record) = record else { continue };
            let place = format!("volume {number} ({})", String::from_utf8_lossy(&record.name));
            let (found, expected) = lebs.get(&number).copied().unwrap_or((0, 0));
            if record.update_marker {
                self.report
                    .add_note(place, "an update was begun and not ended: its data is incomplete");
            } else if record.kind == ubi::VolumeKind::Static && found < expected {
                let what = format!("{found} of its {expected} blocks are there");
                self.report.add_finding(place, what);
            }
        }
    }
}

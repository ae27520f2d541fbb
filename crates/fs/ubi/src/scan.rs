//! The scan of a whole device: both headers of each block, in order.
//!
//! Source: `drivers/mtd/ubi/attach.c` of Linux 6.1 (`scan_peb`, `ubi_add_to_av`, `compare_lebs`,
//! `check_corruption`, `late_analysis`). Uses the reads of `io.rs` and formats.

use crate::error::{AttachError, UbiError};
use crate::finding::Code;
use crate::headers::{
    Compatibility, EraseCounterHeader, FASTMAP_VOLUMES, LAYOUT_VOLUME, VolumeHeader, VolumeKind,
    crc32,
};
use crate::io::{HeaderRead, Io};
use crate::numbers::{LebAddress, LebNumber, PebNumber, VolumeNumber};
use fs_api::Place;
use mtd::is_blank;
use std::collections::{BTreeMap, VecDeque};

/// A block that belongs to no volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedBlock {
    pub(crate) peb: PebNumber,
    /// None if its header was lost.
    pub(crate) erase_counter: Option<u64>,
    /// The logical block that it held.
    pub(crate) leb: Option<LebAddress>,
}

impl ScannedBlock {
    /// The block of a logical block that is not wanted any more.
    pub(crate) fn left_by(leb: &ScannedLeb) -> Self {
        let held = leb.header.address();
        Self { peb: leb.peb, erase_counter: leb.erase_counter, leb: Some(held) }
    }
}

/// A logical block as it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedLeb {
    pub(crate) peb: PebNumber,
    pub(crate) erase_counter: Option<u64>,
    pub(crate) header: VolumeHeader,
    /// The ECC had work: its contents move to another block soon.
    pub(crate) needs_scrub: bool,
}

/// A volume as its blocks show it.
#[derive(Clone, Debug)]
pub(crate) struct ScannedVolume {
    pub(crate) kind: VolumeKind,
    pub(crate) compatibility: u8,
    pub(crate) data_pad: u32,
    /// Blocks of a static volume.
    pub(crate) used_lebs: u32,
    pub(crate) lebs: BTreeMap<LebNumber, ScannedLeb>,
}

/// What the scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) volumes: BTreeMap<VolumeNumber, ScannedVolume>,
    pub(crate) free: VecDeque<ScannedBlock>,
    pub(crate) erase: VecDeque<ScannedBlock>,
    /// Blocks with data under a header that cannot be read: left alone.
    pub(crate) corrupted: Vec<ScannedBlock>,
    /// Blocks of internal volumes that ask to be left alone.
    pub(crate) alien: Vec<ScannedBlock>,
    pub(crate) bad: Vec<PebNumber>,
    pub(crate) blank: u32,
    maybe_bad: u32,
    counter_sum: u64,
    counters: u64,
    pub(crate) erase_counter_max: u64,
    pub(crate) erase_counter_mean: u64,
    pub(crate) sequence_number_max: u64,
    pub(crate) image_sequence: u32,
    /// No block has a header.
    pub(crate) is_empty: bool,
    pub(crate) has_fastmap: bool,
}

/// Which of two blocks holds the logical block.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    second_is_newer: bool,
    /// The newer one needs to be moved.
    needs_scrub: bool,
    /// The one that lost is a copy that was never finished.
    loser_is_corrupt: bool,
}

impl Scan {
    /// Scans all blocks and decides which of them hold data.
    pub(crate) async fn run(io: &Io, preserves_corrupted: bool) -> Result<Self, AttachError> {
        let mut scan = Self::default();
        // In order of number. Which of two equal blocks counts as "first" depends on it.
        for peb in (0..io.layout.peb_count).map(PebNumber::new) {
            scan.block(io, peb, preserves_corrupted).await?;
        }
        debug_assert_eq!(scan.pebs(), io.layout.peb_count as usize, "each block is found once");
        scan.conclude(io)?;
        Ok(scan)
    }

    /// Blocks that stand in a list or belong to a volume, bad ones among them.
    fn pebs(&self) -> usize {
        let of_volumes: usize = self.volumes.values().map(|volume| volume.lebs.len()).sum();
        let lists = [self.corrupted.len(), self.alien.len(), self.bad.len()];
        of_volumes + self.free.len() + self.erase.len() + lists.iter().sum::<usize>()
    }

    // One function: what the first header was decides what the second may be (`scan_peb`).
    async fn block(
        &mut self,
        io: &Io,
        peb: PebNumber,
        preserves_corrupted: bool,
    ) -> Result<(), AttachError> {
        if io.is_bad(peb).await? {
            self.bad.push(peb);
            return Ok(());
        }
        let (counter, counter_had_errors) = match io.read_counter(peb).await? {
            HeaderRead::Sound { header, had_errors } => {
                self.check_counter(io, peb, &header)?;
                (Ok(header.erase_counter), had_errors)
            }
            HeaderRead::Blank { had_errors } => {
                self.blank += 1;
                // Blank from its first page on: the counter is lost with an erase that was cut
                // before its header. It gets the mean.
                self.add_erase(ScannedBlock { peb, erase_counter: None, leb: None }, had_errors);
                return Ok(());
            }
            HeaderRead::Bad { is_lost } => (Err(is_lost), true),
        };
        let erase_counter = counter.ok();
        let block = ScannedBlock { peb, erase_counter, leb: None };
        match io.read_header(peb).await? {
            HeaderRead::Sound { header, had_errors } => {
                // A right CRC over impossible fields is no damage by the medium, so the attach is
                // refused instead of the block erased.
                header.check(io.layout.leb_bytes).map_err(|reason| medium(peb, &reason))?;
                if counter.is_err() {
                    io.find(
                        Code::LostCounter,
                        Place::Block(peb.into()),
                        format!("block {peb}: the erase counter is lost"),
                    );
                }
                let needs_scrub = had_errors || counter_had_errors;
                let leb = ScannedLeb { peb, erase_counter, header, needs_scrub };
                self.sound_block(io, leb).await?;
            }
            // Free only if both headers read cleanly: bits that flip in an erased block hint at an
            // erase that was cut.
            HeaderRead::Blank { had_errors: false } if !counter_had_errors => {
                self.free.push_back(block);
            }
            HeaderRead::Blank { .. } => self.add_erase(block, true),
            HeaderRead::Bad { is_lost } => {
                // Both headers beyond the ECC: a bad block whose mark was lost, or another system's
                // data. `conclude` allows two of them on a blank device.
                if is_lost && counter == Err(true) {
                    self.maybe_bad += 1;
                }
                self.add_bad_header(io, block, preserves_corrupted).await?;
            }
        }
        // Mean and maximum count every block whose counter is known, whatever becomes of it.
        if let Some(counter) = erase_counter {
            self.counter_sum += counter;
            self.counters += 1;
            self.erase_counter_max = self.erase_counter_max.max(counter);
        }
        Ok(())
    }

    /// A block whose volume identifier header cannot be read is erased, or left alone with its data.
    async fn add_bad_header(
        &mut self,
        io: &Io,
        block: ScannedBlock,
        preserves_corrupted: bool,
    ) -> Result<(), UbiError> {
        let peb = block.peb;
        let is_known = block.erase_counter.is_some();
        if !(is_known && preserves_corrupted && holds_data(io, peb).await?) {
            self.add_erase(block, true);
            return Ok(());
        }
        let text =
            format!("block {peb}: data under a volume identifier header that cannot be read");
        io.find(Code::DamagedHeader, Place::Block(peb.into()), text);
        self.corrupted.push(block);
        Ok(())
    }

    // To the front what bits flip in: it is erased first (`add_to_list` with `to_head`).
    fn add_erase(&mut self, block: ScannedBlock, is_urgent: bool) {
        if is_urgent {
            self.erase.push_front(block);
        } else {
            self.erase.push_back(block);
        }
    }

    fn check_counter(
        &mut self,
        io: &Io,
        peb: PebNumber,
        header: &EraseCounterHeader,
    ) -> Result<(), AttachError> {
        header.check().map_err(|reason| medium(peb, &reason))?;
        let layout = &io.layout;
        // An image of another page or sub-page size. The kernel refuses it as well: it cannot find
        // the second header.
        if (header.header_offset, header.data_offset) != (layout.header_offset, layout.data_offset)
        {
            return Err(AttachError::OtherOffset {
                peb,
                found: header.header_offset,
                found_data: header.data_offset,
                wanted: layout.header_offset,
                wanted_data: layout.data_offset,
            });
        }
        // Blocks that were never written since the image was flashed may have no number.
        if self.image_sequence == 0 {
            self.image_sequence = header.image_sequence;
        }
        if header.image_sequence != 0 && header.image_sequence != self.image_sequence {
            return Err(medium(
                peb,
                &format!(
                    "it belongs to image {}, those before to {}; erase the chip before an image is written",
                    header.image_sequence, self.image_sequence
                ),
            ));
        }
        Ok(())
    }

    /// A block with a sound volume identifier header.
    async fn sound_block(&mut self, io: &Io, leb: ScannedLeb) -> Result<(), AttachError> {
        let header = leb.header;
        let block = ScannedBlock::left_by(&leb);
        // Internal volumes. The header itself says what an implementation shall do that does not
        // know them.
        if header.volume > LAYOUT_VOLUME {
            self.has_fastmap |= FASTMAP_VOLUMES.contains(&header.volume);
            let what = format!("block {} of internal volume {:#x}", leb.peb, header.volume);
            match header.compatibility() {
                Some(Compatibility::Delete) => self.add_erase(block, true),
                Some(Compatibility::ReadOnly) => {
                    io.become_read_only(&format!("{what} asks for it"));
                    self.alien.push(block);
                }
                Some(Compatibility::Preserve) => {
                    io.find(
                        Code::AlienBlock,
                        Place::Block(leb.peb.into()),
                        format!("{what} is left alone"),
                    );
                    self.alien.push(block);
                }
                Some(Compatibility::Reject | Compatibility::User) | None => {
                    return Err(AttachError::Medium(format!(
                        "{what} forbids to attach the device"
                    )));
                }
            }
            return Ok(());
        }
        self.add_leb(io, leb).await
    }

    async fn add_leb(&mut self, io: &Io, leb: ScannedLeb) -> Result<(), AttachError> {
        let header = leb.header;
        // Of losers, too: the next number has to be above anything that a later scan may see.
        self.sequence_number_max = self.sequence_number_max.max(header.sequence_number);
        let kind = header.volume_kind().expect("the header was checked");
        let LebAddress { volume: number, leb: place } = header.address();
        let volume = self.volumes.entry(number).or_insert_with(|| ScannedVolume {
            kind,
            compatibility: header.compatibility,
            data_pad: header.data_pad,
            used_lebs: header.used_lebs,
            lebs: BTreeMap::new(),
        });
        let found = (kind, header.compatibility, header.data_pad);
        if found != (volume.kind, volume.compatibility, volume.data_pad)
            || header.used_lebs != volume.used_lebs
        {
            return Err(medium(leb.peb, "its header contradicts other blocks of the volume"));
        }
        let Some(first) = volume.lebs.get(&place).copied() else {
            volume.lebs.insert(place, leb);
            return Ok(());
        };
        // Images made by tools have no sequence numbers; then there is nothing to go by.
        if first.header.sequence_number == header.sequence_number && header.sequence_number != 0 {
            return Err(medium(
                leb.peb,
                &format!("it has the same sequence number as block {}", first.peb),
            ));
        }
        // Two blocks of one LEB: a move, a change or an update met a power cut, or the old one
        // waits for its erase.
        let result = compare(io, &first, &leb).await?;
        let (winner, loser) = if result.second_is_newer { (leb, first) } else { (first, leb) };
        let volume = self.volumes.get_mut(&number).expect("it was found or made");
        let needs_scrub = winner.needs_scrub || (result.second_is_newer && result.needs_scrub);
        volume.lebs.insert(place, ScannedLeb { needs_scrub, ..winner });
        let block = ScannedBlock::left_by(&loser);
        self.add_erase(block, result.loser_is_corrupt);
        Ok(())
    }

    /// Whether UBI was here: some block has an erase counter, or all are blank.
    pub(crate) fn has_headers(&self) -> bool {
        self.is_empty || self.counters > 0
    }

    /// Means, and whether this is UBI's at all.
    fn conclude(&mut self, io: &Io) -> Result<(), AttachError> {
        let peb_count = io.layout.peb_count - self.bad.len() as u32 - self.alien.len() as u32;
        if !self.corrupted.is_empty() {
            // A few blocks lose headers to power cuts; a twentieth of the device means that
            // something else is wrong. Eight only where a twentieth is none (`peb_count / 20 ?: 8` in
            // `late_analysis` of `attach.c`).
            let corrupted_max = if peb_count < 20 { 8 } else { peb_count / 20 };
            let count = self.corrupted.len() as u32;
            if count >= corrupted_max {
                return Err(AttachError::Medium(format!(
                    "{count} blocks hold data under headers that cannot be read: too many to go on"
                )));
            }
        }
        // Nothing but blank blocks is an empty device, which gets a volume table.
        if self.blank + self.maybe_bad == peb_count {
            // A few blocks may have gone bad; more of them are data of another system.
            if self.maybe_bad > 2 {
                return Err(AttachError::NotUbi);
            }
            self.is_empty = true;
        }
        self.erase_counter_mean = self.counter_sum.checked_div(self.counters).unwrap_or(0);
        let mean = self.erase_counter_mean;
        let lebs = self.volumes.values_mut().flat_map(|volume| volume.lebs.values_mut());
        let of_volumes = lebs.map(|leb| &mut leb.erase_counter);
        let lists = self.free.iter_mut().chain(&mut self.erase);
        let lists = lists.chain(&mut self.corrupted).chain(&mut self.alien);
        for counter in lists.map(|block| &mut block.erase_counter).chain(of_volumes) {
            // A lost counter cannot be known; the mean does the least harm to the levelling.
            counter.get_or_insert(mean);
        }
        Ok(())
    }
}

fn medium(peb: PebNumber, reason: &str) -> AttachError {
    AttachError::Medium(format!("erase block {peb}: {reason}"))
}

/// Whether the data of a block with a bad header is worth keeping: an erase that was interrupted
/// leaves bytes that the ECC gives up or that are blank (`check_corruption`).
async fn holds_data(io: &Io, peb: PebNumber) -> Result<bool, UbiError> {
    let mut data = vec![0; io.layout.leb_bytes as usize];
    let status = io.read_data(peb, 0, &mut data).await?;
    io.charge_copy(data.len()).await;
    // Data that reads without a single flipped bit was not erased half: it is kept for tools that
    // can make sense of it.
    Ok(status.is_readable() && status.corrected_bits == 0 && !is_blank(&data))
}

/// The higher sequence number wins, unless it is a copy whose data is not what its CRC says.
async fn compare(
    io: &Io,
    first: &ScannedLeb,
    second: &ScannedLeb,
) -> Result<Comparison, AttachError> {
    // Without numbers (images by tools) the block found first wins.
    let second_is_newer = second.header.sequence_number > first.header.sequence_number;
    let newer = if second_is_newer { second } else { first };
    // A plain block has no CRC to check: its header was written first, and whatever data follow are
    // what the user wrote.
    if newer.header.copy_flag == 0 {
        return Ok(Comparison { second_is_newer, needs_scrub: false, loser_is_corrupt: false });
    }
    let mut needs_scrub = false;
    // The kernel keeps no header of the block that it found first and reads it again.
    if !second_is_newer {
        match io.read_header(first.peb).await? {
            HeaderRead::Sound { had_errors, .. } => needs_scrub = had_errors,
            HeaderRead::Blank { .. } | HeaderRead::Bad { .. } => {
                return Err(medium(first.peb, "its header cannot be read a second time"));
            }
        }
    }
    let mut data = vec![0; newer.header.data_bytes as usize];
    let status = io.read_data(newer.peb, 0, &mut data).await?;
    needs_scrub |= status.corrected_bits > 0 || !status.is_readable();
    io.charge_crc(data.len()).await;
    if crc32(&data) == newer.header.data_crc {
        Ok(Comparison { second_is_newer, needs_scrub, loser_is_corrupt: false })
    } else {
        // The copy was cut: the source is still there and whole, for it is erased only after the
        // copy is complete.
        let second_is_newer = !second_is_newer;
        Ok(Comparison { second_is_newer, needs_scrub: false, loser_is_corrupt: true })
    }
}

//! Attaching a device: scan, volume table, reserves.
//!
//! Source: `drivers/mtd/ubi/build.c`, `attach.c` and `vtbl.c` of Linux 2.6.32 and 6.1.
//! Above the device: uses the scan, and makes the states that it begins with.

use crate::device::{SetAside, Ubi};
use crate::error::{AttachError, UbiError};
use crate::finding::Code;
use crate::headers::{ERASE_COUNTER_MAX, VolumeHeader, VolumeKind};
use crate::io::Io;
use crate::layout::Layout;
use crate::numbers::{LebAddress, LebNumber, VolumeNumber};
use crate::profile::{AttachOptions, BadBlockReserve};
use crate::scan::{Scan, ScannedBlock, ScannedLeb, ScannedVolume};
use crate::volume_state::{LAYOUT, LAYOUT_LEBS, OWN_PEBS, VolumeState, Volumes};
use crate::volume_table::{VolumeRecord, decode, encode, slots, table_bytes};
use crate::wear_state::{WearState, Work};
use fs_api::Place;
use mtd::Mtd;
use random::Stream;
use sim::{Cpus, Sim};
use std::collections::BTreeMap;
use std::rc::Rc;

impl Ubi {
    /// Attaches what the device holds; a blank one becomes an empty UBI device.
    ///
    /// All blocks are scanned, whether the image has a fastmap or not.
    ///
    /// # Errors
    /// [`AttachError::NotUbi`], [`AttachError::Offset`], [`AttachError::OtherOffset`],
    /// [`AttachError::TooFewBlocks`]; [`AttachError::Medium`] where headers contradict each other;
    /// [`AttachError::Operation`] of the chip.
    pub async fn attach(
        sim: &Sim,
        cpus: Rc<Cpus>,
        mtd: Rc<Mtd>,
        options: AttachOptions,
    ) -> Result<Rc<Self>, AttachError> {
        let layout = Layout::new(&mtd, options.header_offset)?;
        let io = Io::new(sim, cpus, mtd, layout, options.costs);
        let mut scan = Scan::run(&io, options.profile.preserves_corrupted).await?;
        // A blank device gets a volume table, which a read-only attach must not write.
        if scan.is_empty && options.is_read_only {
            return Err(AttachError::NotUbi);
        }
        if scan.is_empty {
            scan.image_sequence = Stream::new(options.seed, "ubi image sequence").next_u64() as u32;
        }
        // Before anything is written: each erase counter header carries the number, and a block
        // with another one makes the next attach fail.
        io.image_sequence.set(scan.image_sequence);
        // After the scan, for the number of a blank device; before the volume table is read, which
        // may repair a copy.
        if options.is_read_only {
            io.is_read_only.set(true);
        }
        if scan.has_fastmap {
            io.find(
                Code::Fastmap,
                Place::Whole,
                "the image has a fastmap, which is left aside: all blocks were scanned",
            );
        }
        // The order of `ubi_attach` and `ubi_read_volume_table`: table, volumes, reserves, wear,
        // and only then writes by the thread. A failure up to there leaves the medium as it was,
        // but for copies of the table.
        let records = read_table(&io, &mut scan).await?;
        check_volumes(&io, &mut scan, &records)?;
        let volumes = make_volumes(&io, &scan, records, &options)?;
        let wear = make_wear(&io, &scan, &options);
        let mut ubi = Self::new(io, options, volumes, wear);
        // Numbers go on above the highest one seen, so that whatever is written from now on is
        // newer than all that stands on the medium.
        ubi.sequence_number.set(scan.sequence_number_max);
        let numbers = |blocks: &[ScannedBlock]| blocks.iter().map(|block| block.peb).collect();
        ubi.set_aside =
            SetAside { corrupted: numbers(&scan.corrupted), alien: numbers(&scan.alien) };
        ubi.has_fastmap = scan.has_fastmap;
        let ubi = Rc::new(ubi);
        // Before the thread starts: it may find blocks bad that the volume is to be given.
        ubi.auto_resize().await?;
        ubi.start_thread().await;
        Ok(ubi)
    }
}

/// Reads both copies of the volume table and puts right what differs (`process_lvol`).
// One function: the cases of a missing table and of two different copies exclude each other.
async fn read_table(io: &Io, scan: &mut Scan) -> Result<Vec<Option<VolumeRecord>>, AttachError> {
    let leb_bytes = io.layout.leb_bytes;
    let bytes = table_bytes(leb_bytes, io.layout.min_io_bytes) as usize;
    let Some(volume) = scan.volumes.get(&LAYOUT) else {
        if !scan.has_headers() {
            return Err(AttachError::NotUbi);
        }
        // Blocks with headers but no table: not an empty device but a damaged one, which must not
        // be overwritten.
        if !scan.is_empty {
            return Err(AttachError::Medium(
                "the volume table is on no block of the device".into(),
            ));
        }
        let records = vec![None; slots(leb_bytes) as usize];
        for copy in LebNumber::new(0).run(LAYOUT_LEBS) {
            write_table_copy(io, scan, copy, &encode(&records, bytes)).await?;
        }
        return Ok(records);
    };
    // `ubi_read_volume_table` refuses more as well: a sound image cannot have them
    // (`UBI_LAYOUT_VOLUME_EBS`).
    if volume.lebs.keys().any(|leb| leb.get() >= LAYOUT_LEBS) {
        return Err(AttachError::Medium("the volume table has more than two blocks".into()));
    }
    let mut copies = read_copies(io, scan, bytes).await?;
    // `process_lvol`: a difference means that a power cut came between the two copies. Each is
    // whole by itself, so the older one is overwritten and no change is half done.
    let second = copies.pop().expect("there are two");
    let first = copies.pop().expect("there are two");
    let (good, wrong_copy) = match (first, second) {
        (Ok(first), Ok(second)) if first.0 == second.0 => return Ok(first.1),
        // The first copy is written first, so it is the newer one.
        (Ok(first), other) => {
            let reason = other.err().unwrap_or_else(|| "it is older".into());
            io.find(
                Code::DamagedTable,
                Place::Whole,
                format!("volume table, copy 2: {reason}; it is written anew"),
            );
            (first, LebNumber::new(1))
        }
        (Err(reason), Ok(second)) => {
            io.find(
                Code::DamagedTable,
                Place::Whole,
                format!("volume table, copy 1: {reason}; it is written anew"),
            );
            (second, LebNumber::new(0))
        }
        (Err(first), Err(second)) => {
            return Err(AttachError::Medium(format!(
                "both copies of the volume table are damaged: {first}; {second}"
            )));
        }
    };
    if !io.is_read_only.get() {
        write_table_copy(io, scan, wrong_copy, &good.0).await?;
    }
    Ok(good.1)
}

/// A copy of the volume table: its bytes and records, or what is wrong with it.
type TableCopy = Result<(Vec<u8>, Vec<Option<VolumeRecord>>), String>;

/// Reads both copies of the volume table, the first one first.
async fn read_copies(
    io: &Io,
    scan: &mut Scan,
    bytes: usize,
) -> Result<Vec<TableCopy>, AttachError> {
    let mut copies = Vec::new();
    for copy in LebNumber::new(0).run(LAYOUT_LEBS) {
        let Some(leb) = scan.volumes.get(&LAYOUT).and_then(|volume| volume.lebs.get(&copy)) else {
            copies.push(Err("it is missing".to_owned()));
            continue;
        };
        let peb = leb.peb;
        let mut table = vec![0; bytes];
        let status = io.read_data(peb, 0, &mut table).await?;
        io.charge_crc(table.len()).await;
        if status.corrected_bits > 0 || !status.is_readable() {
            let volume = scan.volumes.get_mut(&LAYOUT).expect("it was found");
            // Also where the ECC gave up: the CRC of each record decides whether the copy is good,
            // and a good one moves to another block soon.
            volume.lebs.get_mut(&copy).expect("it was found").needs_scrub = true;
        }
        copies.push(decode(&table, io.layout.leb_bytes).map(|records| (table, records)));
    }
    Ok(copies)
}

/// Writes a copy of the volume table before the device is attached (`create_vtbl`).
async fn write_table_copy(
    io: &Io,
    scan: &mut Scan,
    copy: LebNumber,
    table: &[u8],
) -> Result<(), AttachError> {
    let mut tries = 0;
    let (block, header) = loop {
        // Not through the wear levelling, which does not exist yet.
        let block = early_block(io, scan).await?;
        // A number of its own for each attempt: a block that failed may still come back in the next
        // scan.
        scan.sequence_number_max += 1;
        let mut header = VolumeHeader::dynamic(LebAddress { volume: LAYOUT, leb: copy }, 0);
        header.sequence_number = scan.sequence_number_max;
        let written = match io.write_header(block.peb, &header).await {
            Ok(()) => io.write_data(block.peb, 0, table).await,
            failed => failed,
        };
        match written {
            Ok(()) => break (block, header),
            Err(error) if error.is_io() && tries < crate::io::RETRIES => {
                // Not marked bad here: the thread erases it, and judges it, once the device is
                // attached.
                scan.erase.push_back(block);
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    };
    let volume = scan.volumes.entry(LAYOUT).or_insert_with(|| ScannedVolume {
        kind: VolumeKind::Dynamic,
        compatibility: header.compatibility,
        data_pad: 0,
        used_lebs: 0,
        lebs: BTreeMap::new(),
    });
    let ScannedBlock { peb, erase_counter, .. } = block;
    // The old block is only given up when the new one is complete.
    let old =
        volume.lebs.insert(copy, ScannedLeb { peb, erase_counter, header, needs_scrub: false });
    if let Some(old) = old {
        scan.erase.push_back(ScannedBlock::left_by(&old));
    }
    Ok(())
}

/// A free block before the device is attached; one is erased if there is none
/// (`ubi_early_get_peb`).
async fn early_block(io: &Io, scan: &mut Scan) -> Result<ScannedBlock, AttachError> {
    if let Some(block) = scan.free.pop_front() {
        return Ok(block);
    }
    let mut failed = Vec::new();
    let mut found = None;
    // From the front, where the scan has put blocks with flipped bits: as in the kernel, a block that
    // fails is kept and the next one tried.
    while let Some(block) = scan.erase.pop_front() {
        let counter = block.erase_counter.unwrap_or(scan.erase_counter_mean) + 1;
        let counter = counter.min(ERASE_COUNTER_MAX);
        let erased = match io.sync_erase(block.peb, false).await {
            Ok(_) => io.write_counter(block.peb, counter).await,
            Err(error) => Err(error),
        };
        match erased {
            Ok(()) => {
                found = Some(ScannedBlock { erase_counter: Some(counter), ..block });
                break;
            }
            Err(error) if error.is_io() => failed.push(block),
            Err(error) => return Err(error.into()),
        }
    }
    scan.erase.extend(failed);
    found.ok_or(AttachError::Operation(UbiError::NoSpace))
}

/// Compares volumes found with those of the table; ends removals that were interrupted.
fn check_volumes(
    io: &Io,
    scan: &mut Scan,
    records: &[Option<VolumeRecord>],
) -> Result<(), AttachError> {
    // A volume is removed by its record in the table first; its blocks follow. A power cut in
    // between is completed here (`check_attaching_info`).
    let unknown: Vec<VolumeNumber> = scan
        .volumes
        .keys()
        .copied()
        .filter(|id| *id != LAYOUT)
        .filter(|id| !matches!(records.get(id.index()), Some(Some(_))))
        .collect();
    for id in unknown {
        io.find(
            Code::UnknownVolume,
            Place::Whole,
            format!("volume {id} is not in the volume table: its blocks are erased"),
        );
        let volume = scan.volumes.remove(&id).expect("its number was found");
        scan.erase.extend(volume.lebs.values().map(ScannedBlock::left_by));
    }
    for (record, id) in records.iter().zip((0..).map(VolumeNumber::new)) {
        let (Some(record), Some(volume)) = (record, scan.volumes.get(&id)) else {
            continue;
        };
        let refuse = |what: &str| Err(AttachError::Medium(format!("volume {id}: {what}")));
        let last = volume.lebs.last_key_value().map_or(0, |(leb, _)| leb.get());
        // The map of the volume has so many entries. Where a kernel shrinks the record before it
        // erases, this is how a cut in between ends.
        if last >= record.reserved_pebs {
            return refuse("a block lies beyond its end");
        }
        if volume.kind != record.kind {
            return refuse("its blocks and the volume table differ on whether it is static");
        }
        if volume.data_pad != record.data_pad {
            return refuse("its blocks and the volume table differ on its alignment");
        }
        if volume.used_lebs > record.reserved_pebs {
            return refuse("it has more blocks than the volume table says");
        }
    }
    Ok(())
}

/// Volumes and reserves in memory (`init_volumes`, `ubi_eba_init`).
// One function: each reserve is taken from what the ones before it have left.
fn make_volumes(
    io: &Io,
    scan: &Scan,
    records: Vec<Option<VolumeRecord>>,
    options: &AttachOptions,
) -> Result<Volumes, AttachError> {
    let layout = &io.layout;
    let mut volumes = Volumes::default();
    volumes.bad_pebs = scan.bad.len() as u32;
    volumes.good_pebs = layout.peb_count - volumes.bad_pebs;
    volumes.preserved_pebs = scan.corrupted.len() as u32 + scan.alien.len() as u32;
    let usable = volumes.good_pebs - volumes.preserved_pebs;
    let of_users: u64 =
        records.iter().flatten().map(|record| u64::from(record.reserved_pebs)).sum();
    // One block for wear levelling, one for atomic changes (`WL_RESERVED_PEBS`,
    // `EBA_RESERVED_PEBS`): without them no move and no change could begin.
    let wanted = of_users + u64::from(LAYOUT_LEBS + OWN_PEBS);
    if wanted > u64::from(usable) {
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        return Err(AttachError::TooFewBlocks { available: usable, wanted });
    }
    volumes.by_id.insert(LAYOUT, VolumeState::of_layout(layout));
    for (record, id) in records.into_iter().zip((0..).map(VolumeNumber::new)) {
        if let Some(record) = record {
            volumes.by_id.insert(id, VolumeState::new(record, layout));
        }
    }
    for (id, volume) in &mut volumes.by_id {
        let Some(found) = scan.volumes.get(id) else { continue };
        for (number, leb) in &found.lebs {
            volume.map[number.index()] = Some(leb.peb);
        }
        if volume.record.kind == VolumeKind::Static {
            take_static_sizes(io, volume, found);
        }
    }
    volumes.available_pebs = usable;
    volumes.reserve(wanted as u32);
    let bad_limit = |per_1024: u32| {
        // Of the whole chip, as the vendors promise it: all bad blocks may lie in this partition
        // (`get_bad_peb_limit`).
        let blocks = u64::from(options.chip_blocks.unwrap_or(layout.peb_count));
        (blocks * u64::from(per_1024)).div_ceil(1024) as u32
    };
    volumes.bad_limit = match (options.bad_blocks_per_1024, options.profile.bad_block_reserve) {
        (Some(share), _) | (None, BadBlockReserve::Per1024OfChip(share)) => Some(bad_limit(share)),
        (None, BadBlockReserve::PercentOfGood(_)) => None,
    };
    volumes.calculate_reserve();
    // Last: what is left after all volumes have theirs. Too few is a warning, not an error.
    volumes.fill_reserve();
    volumes.assert_sums();
    if volumes.bad_reserve < volumes.bad_reserve_level {
        io.find(
            Code::SmallReserve,
            Place::Whole,
            format!(
                "{} blocks are kept for those that go bad, {} should be",
                volumes.bad_reserve, volumes.bad_reserve_level
            ),
        );
    }
    Ok(volumes)
}

/// Data of a static volume, as its blocks count it.
fn take_static_sizes(io: &Io, volume: &mut VolumeState, found: &ScannedVolume) {
    volume.used_lebs = found.used_lebs;
    let last = found.used_lebs.checked_sub(1).map(LebNumber::new);
    let last = last.and_then(|last| found.lebs.get(&last));
    volume.last_leb_bytes = last.map_or(0, |leb| leb.header.data_bytes);
    // A static volume without a block is no reason to refuse the device; opening it is left
    // to its user.
    volume.is_corrupted = found.lebs.len() as u32 != found.used_lebs;
    if volume.is_corrupted {
        io.find(
            Code::MissingBlocks,
            Place::Whole,
            format!(
                "static volume {} misses {} blocks",
                volume.label(),
                found.used_lebs.saturating_sub(found.lebs.len() as u32)
            ),
        );
    }
}

/// Blocks in memory (`ubi_wl_init`).
fn make_wear(io: &Io, scan: &Scan, options: &AttachOptions) -> WearState {
    let mut wear = WearState::new(io.layout.peb_count, options.wear_threshold);
    let mean = scan.erase_counter_mean;
    let counter = |counter: Option<u64>| counter.unwrap_or(mean);
    for block in &scan.erase {
        wear.set_counter(block.peb, counter(block.erase_counter));
        // Not tortured: a header cut off by a power loss looks like a worn block, and torture costs
        // three erases.
        wear.works.push_back(Work::Erase { peb: block.peb, leb: block.leb, tortures: false });
    }
    for block in &scan.free {
        wear.set_counter(block.peb, counter(block.erase_counter));
        wear.add_free(block.peb);
    }
    for leb in scan.volumes.values().flat_map(|volume| volume.lebs.values()) {
        wear.set_counter(leb.peb, counter(leb.erase_counter));
        if leb.needs_scrub {
            wear.add_scrub(leb.peb);
        } else {
            wear.add_used(leb.peb);
        }
    }
    wear.erase_counter_max = wear.erase_counter_max.max(scan.erase_counter_max);
    // The spread of erase counters may call for a move from the start on.
    wear.schedule_move();
    wear
}

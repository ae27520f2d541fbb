//! Logical blocks: mapped on demand, written, changed atomically, unmapped.
//!
//! Source: `drivers/mtd/ubi/eba.c` of Linux 2.6.32 and 6.1. A part of the device: uses it, its states and
//! `io.rs`.

use crate::device::Ubi;
use crate::error::UbiError;
use crate::finding::Code;
use crate::headers::{VolumeHeader, VolumeKind, crc32};
use crate::io::{HeaderRead, RETRIES};
use crate::numbers::{LebAddress, LebNumber, PebNumber, VolumeNumber};
use crate::volume_state::{LAYOUT, LAYOUT_LEBS};
use crate::wear_state::DataType;
use fs_api::Place;
use mtd::ReadStatus;

/// A read of data of a logical block.
struct DataRead {
    status: ReadStatus,
    /// Bits flipped in it or in its header: the block moves soon, unless the read failed.
    needs_scrub: bool,
}

/// Contents of a block of a static volume.
pub(crate) struct StaticLeb<'a> {
    /// Padded to whole units.
    pub(crate) data: &'a [u8],
    /// Bytes of it that count.
    pub(crate) data_bytes: u32,
    /// Blocks of the whole volume.
    pub(crate) used_lebs: u32,
}

impl DataRead {
    /// The block is lost: no byte of it was read.
    const LOST: Self =
        Self { status: ReadStatus { corrected_bits: 0, lost_steps: 1 }, needs_scrub: false };
}

impl Ubi {
    /// The physical block of a logical one.
    pub(crate) fn mapping(&self, address: LebAddress) -> Option<PebNumber> {
        let volumes = self.volumes.borrow();
        volumes.by_id.get(&address.volume)?.map.get(address.leb.index()).copied().flatten()
    }

    pub(crate) fn set_mapping(&self, address: LebAddress, peb: Option<PebNumber>) {
        debug_assert!(
            peb.is_none_or(|peb| self.wear.borrow().is_in_use(peb)),
            "LEB {address}: block {peb:?} was taken before it is mapped"
        );
        let mut volumes = self.volumes.borrow_mut();
        let volume = volumes.by_id.get_mut(&address.volume);
        if let Some(entry) = volume.and_then(|volume| volume.map.get_mut(address.leb.index())) {
            *entry = peb;
        }
    }

    fn kind_of(&self, volume: VolumeNumber) -> VolumeKind {
        let volumes = self.volumes.borrow();
        volumes.by_id.get(&volume).map_or(VolumeKind::Dynamic, |volume| volume.record.kind)
    }

    fn data_pad(&self, volume: VolumeNumber) -> u32 {
        self.volumes.borrow().by_id.get(&volume).map_or(0, |volume| volume.record.data_pad)
    }

    /// Reads bytes of a logical block; unmapped ones are blank (`ubi_eba_read_leb`).
    ///
    /// With `checks`, all of a block of a static volume is read and compared with its CRC; a difference
    /// counts as a step that the ECC gave up, and so does a header that is corrupt. Where the CRC is
    /// right, nothing is lost, whatever the ECC says.
    pub(crate) async fn read_leb(
        &self,
        address: LebAddress,
        offset: u32,
        into: &mut [u8],
        checks: bool,
    ) -> Result<ReadStatus, UbiError> {
        let lock = self.leb_locks.of(address);
        // The mapping is only looked at under the lock: a move or an unmap may change it until
        // then.
        let _held = lock.read().await;
        let Some(peb) = self.mapping(address) else {
            // An unmapped block reads as an erased one. File systems rely on it.
            into.fill(0xff);
            return Ok(ReadStatus::default());
        };
        let is_static = self.kind_of(address.volume) == VolumeKind::Static;
        let read = if checks {
            self.read_checked(peb, offset, into).await?
        } else {
            let status = self.io.read_data(peb, offset, into).await?;
            if is_static && !status.is_readable() {
                // What the ECC gives up may be padding, or be right all the same: the CRC of a
                // static block decides ("force data checking" in `ubi_eba_read_leb` of `eba.c`).
                self.read_forced(peb, offset, into).await?
            } else {
                DataRead { status, needs_scrub: status.corrected_bits > 0 }
            }
        };
        let status = read.status;
        // Corrected data is still right, but the next bit might be too much: the block moves soon
        // (`ubi_wl_scrub_peb`). Of a read that failed nothing is scrubbed: `ubi_eba_read_leb` leaves
        // before its end.
        if read.needs_scrub && status.is_readable() {
            self.scrub_block(peb).await;
        }
        if !status.is_readable() {
            self.io.find(
                Code::UnreadableData,
                Place::Block(peb.into()),
                format!("block {peb}, LEB {address}: data cannot be read"),
            );
        }
        Ok(status)
    }

    /// Reads all that a static block's CRC covers, and returns the part that was asked for.
    async fn read_checked(
        &self,
        peb: PebNumber,
        offset: u32,
        into: &mut [u8],
    ) -> Result<DataRead, UbiError> {
        let Some((header, had_errors)) = self.header_to_check(peb).await? else {
            return Ok(DataRead::LOST);
        };
        let mut data = vec![0xff; (header.data_bytes as usize).max(offset as usize + into.len())];
        let covered = header.data_bytes as usize;
        let status = self.io.read_data(peb, 0, &mut data[..covered]).await?;
        let read = self.compare(peb, &header, &data[..covered], status).await;
        into.copy_from_slice(&data[offset as usize..offset as usize + into.len()]);
        Ok(DataRead { needs_scrub: read.needs_scrub || had_errors, ..read })
    }

    /// Reads what the ECC has given up once more, and goes by the CRC (the second pass of
    /// `ubi_eba_read_leb`).
    ///
    /// The CRC is compared with the bytes of this read alone, as in the kernel: a part of a block that
    /// the ECC gives up is lost.
    async fn read_forced(
        &self,
        peb: PebNumber,
        offset: u32,
        into: &mut [u8],
    ) -> Result<DataRead, UbiError> {
        let Some((header, _)) = self.header_to_check(peb).await? else {
            return Ok(DataRead::LOST);
        };
        let status = self.io.read_data(peb, offset, into).await?;
        let read = self.compare(peb, &header, into, status).await;
        Ok(DataRead { needs_scrub: true, ..read })
    }

    /// The header whose CRC is to be compared, and whether its bits flipped; none if it is corrupt.
    ///
    /// # Errors
    /// [`UbiError::Corrupt`] if it is blank; the device is read-only then.
    async fn header_to_check(
        &self,
        peb: PebNumber,
    ) -> Result<Option<(VolumeHeader, bool)>, UbiError> {
        match self.io.read_header(peb).await? {
            HeaderRead::Sound { header, had_errors } => Ok(Some((header, had_errors))),
            // A loss of this block alone: `ubi_eba_read_leb` makes `-EBADMSG` of `UBI_IO_BAD_HDR` and
            // `UBI_IO_BAD_HDR_EBADMSG`, and the device stays writable.
            HeaderRead::Bad { .. } => {
                self.io.find(
                    Code::DamagedHeader,
                    Place::Block(peb.into()),
                    format!("block {peb}: its volume identifier header is corrupt"),
                );
                Ok(None)
            }
            // The attach has read a header here. Its loss is no wear of cells, so nothing is
            // written any more.
            HeaderRead::Blank { .. } => {
                let reason = "its volume identifier header is blank".to_owned();
                self.io.become_read_only(&format!("block {peb}: {reason}"));
                Err(UbiError::Corrupt { peb, reason })
            }
        }
    }

    /// Lets the CRC of a static block decide about its data.
    async fn compare(
        &self,
        peb: PebNumber,
        header: &VolumeHeader,
        data: &[u8],
        mut status: ReadStatus,
    ) -> DataRead {
        let needs_scrub = status.corrected_bits > 0 || !status.is_readable();
        self.io.charge_crc(data.len()).await;
        if crc32(data) == header.data_crc {
            status.lost_steps = 0;
        } else {
            self.io.find(
                Code::WrongCrc,
                Place::Block(peb.into()),
                format!("block {peb}: the CRC of its data is wrong"),
            );
            // The callers of UBI see one kind of loss (`-EBADMSG`), whether the ECC or the CRC
            // noticed.
            status.lost_steps = status.lost_steps.max(1);
        }
        DataRead { status, needs_scrub }
    }

    /// Writes whole units; an unmapped block is mapped first (`ubi_eba_write_leb`).
    pub(crate) async fn write_leb(
        &self,
        address: LebAddress,
        offset: u32,
        data: &[u8],
        data_type: DataType,
    ) -> Result<(), UbiError> {
        self.refuse_read_only()?;
        let lock = self.leb_locks.of(address);
        // Exclusive over the whole write: a concurrent move would copy half of it.
        let _held = lock.write().await;
        let Some(peb) = self.mapping(address) else {
            let header = VolumeHeader::dynamic(address, self.data_pad(address.volume));
            return self.write_new(header, offset, data, data_type).await;
        };
        match self.io.write_data(peb, offset, data).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_io() => {
                self.io.find(
                    Code::FailedWrite,
                    Place::Block(peb.into()),
                    format!("block {peb}, LEB {address}: {error}"),
                );
                self.recover(peb, address, offset, data).await
            }
            Err(error) => Err(error),
        }
    }

    fn refuse_read_only(&self) -> Result<(), UbiError> {
        if self.is_read_only() { Err(UbiError::ReadOnly) } else { Ok(()) }
    }

    /// Writes a header and data to a new block and maps it; other blocks are tried if one fails
    /// (`try_write_vid_and_data`). The block mapped before is given back.
    async fn write_new(
        &self,
        mut header: VolumeHeader,
        offset: u32,
        data: &[u8],
        data_type: DataType,
    ) -> Result<(), UbiError> {
        let address = header.address();
        let mut tries = 0;
        loop {
            // A new number for each attempt, and drawn under the lock of the logical block: of two
            // blocks of one LEB the one mapped later has the higher number.
            header.sequence_number = self.next_sequence_number();
            let peb = self.get_block(data_type).await?;
            let written = match self.io.write_header(peb, &header).await {
                Ok(()) if data.is_empty() => Ok(()),
                // Header first: pages of NAND are programmed in order. A cut after it leaves a
                // mapped block with no data, or half of it, which users of plain writes have to
                // expect.
                Ok(()) => self.io.write_data(peb, offset, data).await,
                failed => failed,
            };
            let Err(error) = written else {
                let old = self.mapping(address);
                // The mapping before the old block goes: readers find the new one from here on, and
                // a move of the old one sees that it is not wanted any more.
                self.set_mapping(address, Some(peb));
                return match old {
                    Some(old) => self.put_block(address, old, false).await,
                    None => Ok(()),
                };
            };
            self.io.find(
                Code::FailedWrite,
                Place::Block(peb.into()),
                format!("block {peb}, LEB {address}: {error}"),
            );
            // Tortured before it is used again: it has just failed to take a program.
            self.put_block(address, peb, true).await?;
            tries += 1;
            if !error.is_io() || tries > RETRIES {
                self.io.become_read_only("a logical block could not be written");
                return Err(error);
            }
            self.io.count(|counts| counts.programs_recovered += 1);
        }
    }

    /// Moves what a block holds before `offset`, and the data that it did not take, to another block
    /// (`recover_peb`).
    async fn recover(
        &self,
        from: PebNumber,
        address: LebAddress,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        let mut tries = 0;
        loop {
            // No matter what its data were: the type is not stored anywhere.
            let to = self.get_block(DataType::Unknown).await?;
            let error = match self.try_recover(from, to, offset, data).await {
                Ok(()) => {
                    self.io.count(|counts| counts.programs_recovered += 1);
                    self.set_mapping(address, Some(to));
                    return self.put_block(address, from, true).await;
                }
                Err(error) => error,
            };
            self.put_block(address, to, true).await?;
            tries += 1;
            if !error.is_io() || tries > RETRIES {
                self.io.become_read_only("data of a failed block could not be moved");
                return Err(error);
            }
        }
    }

    async fn try_recover(
        &self,
        from: PebNumber,
        to: PebNumber,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        let HeaderRead::Sound { mut header, .. } = self.io.read_header(from).await? else {
            let reason = "its volume identifier header cannot be read any more".to_owned();
            return Err(UbiError::Corrupt { peb: from, reason });
        };
        let _buffer = self.buffer_lock.lock().await;
        let mut whole = vec![0xff; offset as usize + data.len()];
        // What stood behind `offset` is not copied: pages are written in order, so nothing did.
        if offset > 0 {
            let status = self.io.read_data(from, 0, &mut whole[..offset as usize]).await?;
            // The old block keeps what can still be read of it; the device becomes read-only
            // (`try_recover_peb`).
            if !status.is_readable() {
                let reason = "the data before a failed write cannot be read any more".to_owned();
                return Err(UbiError::Corrupt { peb: from, reason });
            }
        }
        whole[offset as usize..].copy_from_slice(data);
        header.sequence_number = self.next_sequence_number();
        // Newer kernels make the target look like a copy (`try_recover_peb`): after a cut the CRC
        // decides between it and the old block. Without it a half written target would win by its
        // number.
        if self.options.profile.recovers_with_copy_flag {
            self.io.charge_crc(whole.len()).await;
            header.copy_flag = 1;
            header.data_bytes = whole.len() as u32;
            header.data_crc = crc32(&whole);
        }
        debug_assert_ne!(from, to, "a block cannot replace itself");
        // The old block stays untouched and mapped until the new one is complete.
        self.io.write_header(to, &header).await?;
        self.io.write_data(to, 0, &whole).await
    }

    /// Replaces all data of a logical block: after a power cut it is the old or the new
    /// (`ubi_eba_atomic_leb_change`).
    pub(crate) async fn change_leb(
        &self,
        address: LebAddress,
        data: &[u8],
        data_type: DataType,
    ) -> Result<(), UbiError> {
        self.refuse_read_only()?;
        if data.is_empty() {
            // A CRC of nothing would say nothing: the block is emptied, then mapped.
            self.unmap_leb(address).await?;
            return self.write_leb(address, 0, &[], data_type).await;
        }
        // One at a time on the whole device (`alc_mutex`): only one block is kept for it.
        let _alone = self.change_lock.lock().await;
        let lock = self.leb_locks.of(address);
        let _held = lock.write().await;
        self.io.charge_crc(data.len()).await;
        let mut header = VolumeHeader::dynamic(address, self.data_pad(address.volume));
        // The flag and the CRC make the change atomic: the new header is on the medium before its
        // data, and a scan takes the older block where the data do not match.
        header.copy_flag = 1;
        header.data_bytes = data.len() as u32;
        header.data_crc = crc32(data);
        self.io.count(|counts| counts.changes += 1);
        self.write_new(header, 0, data, data_type).await
    }

    /// Writes a block of a static volume (`ubi_eba_write_leb_st`).
    pub(crate) async fn write_static_leb(
        &self,
        address: LebAddress,
        StaticLeb { data, data_bytes, used_lebs }: StaticLeb<'_>,
    ) -> Result<(), UbiError> {
        self.refuse_read_only()?;
        let lock = self.leb_locks.of(address);
        let _held = lock.write().await;
        self.io.charge_crc(data_bytes as usize).await;
        let header = VolumeHeader {
            kind: VolumeKind::Static.code(),
            data_bytes,
            used_lebs,
            data_crc: crc32(&data[..data_bytes as usize]),
            ..VolumeHeader::dynamic(address, self.data_pad(address.volume))
        };
        self.write_new(header, 0, data, DataType::Unknown).await
    }

    /// Takes the physical block away from a logical one, to be erased in the background
    /// (`ubi_eba_unmap_leb`).
    pub(crate) async fn unmap_leb(&self, address: LebAddress) -> Result<(), UbiError> {
        self.refuse_read_only()?;
        let lock = self.leb_locks.of(address);
        let _held = lock.write().await;
        let Some(peb) = self.mapping(address) else { return Ok(()) };
        // Nothing is written. Until the erase a power cut brings the old contents back, as
        // `ubi_leb_unmap` warns.
        self.set_mapping(address, None);
        self.put_block(address, peb, false).await
    }

    /// Writes both copies of the volume table (`ubi_change_vtbl_record`).
    pub(crate) async fn write_table(&self, table: &[u8]) -> Result<(), UbiError> {
        // One copy after the other, so that one is whole at any time. `ubi_change_vtbl_record`
        // unmapped each copy first in old kernels, which has the same guarantee by the other copy.
        for leb in LebNumber::new(0).run(LAYOUT_LEBS) {
            let address = LebAddress { volume: LAYOUT, leb };
            if self.options.profile.changes_table_atomically {
                self.change_leb(address, table, DataType::LongTerm).await?;
            } else {
                self.unmap_leb(address).await?;
                self.write_leb(address, 0, table, DataType::LongTerm).await?;
            }
        }
        Ok(())
    }
}

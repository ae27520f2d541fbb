//! Making, removing, renaming, resizing and updating volumes.
//!
//! Source: `drivers/mtd/ubi/vmt.c`, `vtbl.c` and `upd.c` of Linux 6.1. A part of the device: uses it, its
//! states and formats.

use crate::device::Ubi;
use crate::eba::StaticLeb;
use crate::error::UbiError;
use crate::headers::VolumeKind;
use crate::moves::data_length;
use crate::numbers::{LebAddress, LebNumber, VolumeNumber};
use crate::volume::Volume;
use crate::volume_state::VolumeState;
use crate::volume_table::{NAME_BYTES_MAX, VolumeRecord, encode, slots, table_bytes};
use crate::wear_state::DataType;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a volume to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeSize {
    /// As many blocks as hold these bytes.
    Bytes(u64),
    /// All blocks that are left (`ubimkvol -m`).
    All,
}

/// A volume to be made.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Name, which no other volume may have.
    pub name: String,
    /// Number; none for the lowest that is free.
    pub id: Option<u32>,
    /// Whether it is dynamic or static.
    pub kind: VolumeKind,
    /// How much it holds.
    pub size: VolumeSize,
    /// The usable bytes of a block are a multiple of this.
    pub alignment: u32,
}

impl VolumeOptions {
    /// A dynamic volume over all that is left.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            id: None,
            kind: VolumeKind::Dynamic,
            size: VolumeSize::All,
            alignment: 1,
        }
    }
}

impl Ubi {
    pub(crate) fn usable_bytes(&self, record: &VolumeRecord) -> u32 {
        self.io.layout.usable_bytes(record.data_pad)
    }

    /// Numbers and names of all volumes, by number.
    pub fn volumes(&self) -> Vec<(u32, String)> {
        let volumes = self.volumes.borrow();
        let name = |record: &VolumeRecord| String::from_utf8_lossy(&record.name).into_owned();
        volumes.of_users().map(|(id, volume)| (id.get(), name(&volume.record))).collect()
    }

    fn find_volume(&self, name: &str) -> Option<VolumeNumber> {
        let volumes = self.volumes.borrow();
        volumes
            .of_users()
            .find(|(_, volume)| volume.record.name == name.as_bytes())
            .map(|(id, _)| id)
    }

    fn new_record(&self, options: &VolumeOptions) -> Result<VolumeRecord, UbiError> {
        let layout = &self.io.layout;
        let name = options.name.as_bytes();
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(&0) {
            return Err(UbiError::Invalid(format!(
                "a volume's name has 1 to {NAME_BYTES_MAX} bytes, none of them zero"
            )));
        }
        let alignment = options.alignment;
        let is_possible = (1..=layout.leb_bytes).contains(&alignment)
            && (alignment == 1 || alignment.is_multiple_of(layout.min_io_bytes));
        if !is_possible {
            return Err(UbiError::Invalid(format!(
                "alignment {alignment} is neither 1 nor a multiple of {} up to {}",
                layout.min_io_bytes, layout.leb_bytes
            )));
        }
        let data_pad = layout.leb_bytes % alignment;
        let usable_bytes = u64::from(layout.usable_bytes(data_pad));
        let available = self.volumes.borrow().available_pebs;
        let wanted = match options.size {
            VolumeSize::Bytes(0) => {
                return Err(UbiError::Invalid("a volume has one byte at least".into()));
            }
            VolumeSize::Bytes(bytes) => bytes.div_ceil(usable_bytes),
            // With nothing left one block is asked for, so that the error names a number.
            VolumeSize::All => u64::from(available.max(1)),
        };
        if wanted > u64::from(available) {
            return Err(UbiError::VolumeTooLarge { wanted, available });
        }
        Ok(VolumeRecord {
            reserved_pebs: wanted as u32,
            alignment,
            data_pad,
            kind: options.kind,
            update_marker: false,
            name: name.to_vec(),
            is_auto_resized: false,
            skips_check: false,
        })
    }

    /// Makes a volume (`ubi_create_volume`); its number.
    ///
    /// # Errors
    /// [`UbiError::Invalid`], [`UbiError::Exists`], [`UbiError::VolumeTooLarge`], [`UbiError::ReadOnly`];
    /// [`UbiError::Io`] or [`UbiError::NoSpace`] of the table.
    pub async fn make_volume(&self, options: &VolumeOptions) -> Result<u32, UbiError> {
        let _alone = self.device_lock.lock().await;
        if self.is_read_only() {
            return Err(UbiError::ReadOnly);
        }
        let slots = slots(self.io.layout.leb_bytes);
        let id = {
            let volumes = self.volumes.borrow();
            let is_unused = |id: &u32| !volumes.by_id.contains_key(&VolumeNumber::new(*id));
            let id = options.id.or_else(|| (0..slots).find(is_unused));
            let Some(id) = id.filter(|id| *id < slots).map(VolumeNumber::new) else {
                return Err(UbiError::Invalid(format!(
                    "numbers of volumes go from 0 to {}",
                    slots - 1
                )));
            };
            if volumes.by_id.contains_key(&id) {
                return Err(UbiError::Exists(id.to_string()));
            }
            id
        };
        if self.find_volume(&options.name).is_some() {
            return Err(UbiError::Exists(options.name.clone()));
        }
        let record = self.new_record(options)?;
        // Blocks of an earlier volume of this number must not be found by a later attach.
        self.flush_works(id, None).await?;
        let pebs = record.reserved_pebs;
        {
            let mut volumes = self.volumes.borrow_mut();
            if pebs > volumes.available_pebs {
                let available = volumes.available_pebs;
                return Err(UbiError::VolumeTooLarge { wanted: pebs.into(), available });
            }
            volumes.reserve(pebs);
            volumes.by_id.insert(id, VolumeState::new(record, &self.io.layout));
        }
        // The table is the last step: a volume exists when it is written. What fails before is
        // undone in memory.
        if let Err(error) = self.store_table().await {
            let mut volumes = self.volumes.borrow_mut();
            volumes.by_id.remove(&id);
            volumes.release(pebs);
            volumes.assert_sums();
            return Err(error);
        }
        self.volumes.borrow().assert_sums();
        Ok(id.get())
    }

    /// Writes the table as the volumes in memory say.
    pub(crate) async fn store_table(&self) -> Result<(), UbiError> {
        let layout = self.io.layout;
        let records = self.volumes.borrow().records(slots(layout.leb_bytes));
        let bytes = table_bytes(layout.leb_bytes, layout.min_io_bytes) as usize;
        let table = encode(&records, bytes);
        self.io.charge_crc(table.len()).await;
        self.write_table(&table).await
    }

    /// Changes a volume's record, here and on the medium; it stays as it was if that fails.
    async fn change_record(
        &self,
        id: VolumeNumber,
        change: impl FnOnce(&mut VolumeState),
    ) -> Result<(), UbiError> {
        let old = {
            let mut volumes = self.volumes.borrow_mut();
            let Some(volume) = volumes.by_id.get_mut(&id) else {
                return Err(UbiError::NoVolume(id.to_string()));
            };
            let old = volume.record.clone();
            change(volume);
            old
        };
        let stored = self.store_table().await;
        if stored.is_err()
            && let Some(volume) = self.volumes.borrow_mut().by_id.get_mut(&id)
        {
            volume.record = old;
        }
        stored
    }

    /// Removes a volume with all it holds (`ubi_remove_volume`).
    ///
    /// # Errors
    /// [`UbiError::NoVolume`], [`UbiError::ReadOnly`], [`UbiError::Io`] or [`UbiError::NoSpace`] of the table.
    pub async fn remove_volume(&self, id: u32) -> Result<(), UbiError> {
        let id = VolumeNumber::new(id);
        let _alone = self.device_lock.lock().await;
        if self.is_read_only() {
            return Err(UbiError::ReadOnly);
        }
        let lebs = {
            let volumes = self.volumes.borrow();
            let volume = volumes.of_users().find(|(number, _)| *number == id);
            volume.ok_or_else(|| UbiError::NoVolume(id.to_string()))?.1.record.reserved_pebs
        };
        let layout = self.io.layout;
        let mut records = self.volumes.borrow().records(slots(layout.leb_bytes));
        records[id.index()] = None;
        let bytes = table_bytes(layout.leb_bytes, layout.min_io_bytes) as usize;
        // The table first, then the blocks: after a cut the attach finds blocks without a record
        // and erases them. The other order would leave a volume with holes.
        self.write_table(&encode(&records, bytes)).await?;
        self.unmap_lebs(id, 0..lebs).await?;
        let mut volumes = self.volumes.borrow_mut();
        volumes.by_id.remove(&id);
        volumes.release(lebs);
        volumes.fill_reserve();
        volumes.assert_sums();
        Ok(())
    }

    /// Gives volumes other names, all at once (`ubi_rename_volumes`).
    ///
    /// # Errors
    /// [`UbiError::NoVolume`], [`UbiError::Exists`], [`UbiError::Invalid`].
    pub async fn rename_volumes(&self, names: &[(u32, &str)]) -> Result<(), UbiError> {
        let _alone = self.device_lock.lock().await;
        if self.is_read_only() {
            return Err(UbiError::ReadOnly);
        }
        let old: Vec<(VolumeNumber, Vec<u8>)> = {
            let volumes = self.volumes.borrow();
            let of_users = volumes.of_users();
            of_users.map(|(id, volume)| (id, volume.record.name.clone())).collect()
        };
        let mut new = old.clone();
        for (id, name) in names {
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
                return Err(UbiError::Invalid(format!("{name:?} cannot be a volume's name")));
            }
            let place = new.iter_mut().find(|(number, _)| number.get() == *id);
            place.ok_or_else(|| UbiError::NoVolume(id.to_string()))?.1 = name.as_bytes().to_vec();
        }
        for (at, (_, name)) in new.iter().enumerate() {
            if new[..at].iter().any(|(_, other)| other == name) {
                return Err(UbiError::Exists(String::from_utf8_lossy(name).into_owned()));
            }
        }
        // All names in one table, so a swap of two names is atomic.
        self.name_volumes(&new);
        let stored = self.store_table().await;
        if stored.is_err() {
            self.name_volumes(&old);
        }
        stored
    }

    fn name_volumes(&self, names: &[(VolumeNumber, Vec<u8>)]) {
        let mut volumes = self.volumes.borrow_mut();
        for (id, name) in names {
            if let Some(volume) = volumes.by_id.get_mut(id) {
                volume.record.name.clone_from(name);
            }
        }
    }

    /// Gives a volume more or fewer blocks (`ubi_resize_volume`).
    ///
    /// # Errors
    /// [`UbiError::NoVolume`], [`UbiError::VolumeTooLarge`], [`UbiError::Invalid`] if a static
    /// volume's data would not fit.
    pub async fn resize_volume(&self, id: u32, lebs: u32) -> Result<(), UbiError> {
        let _alone = self.device_lock.lock().await;
        self.resize(VolumeNumber::new(id), lebs, false).await
    }

    // One function: a power cut between two of its steps must leave a volume that can be attached.
    async fn resize(
        &self,
        id: VolumeNumber,
        lebs: u32,
        ends_auto_resize: bool,
    ) -> Result<(), UbiError> {
        let old = {
            let mut volumes = self.volumes.borrow_mut();
            let available = volumes.available_pebs;
            let Some(volume) = volumes.by_id.get_mut(&id) else {
                return Err(UbiError::NoVolume(id.to_string()));
            };
            let old = volume.record.reserved_pebs;
            let is_static = volume.record.kind == VolumeKind::Static;
            if lebs == 0 || (is_static && lebs < volume.used_lebs) {
                return Err(UbiError::Invalid(format!(
                    "{lebs} blocks cannot hold volume {}",
                    volume.label()
                )));
            }
            if lebs > old + available {
                return Err(UbiError::VolumeTooLarge { wanted: lebs.into(), available });
            }
            // Grown at once and shrunk at the end, so that neither order of the steps below meets a
            // LEB without an entry.
            volume.map.resize(lebs.max(old) as usize, None);
            if lebs > old {
                volumes.reserve(lebs - old);
            }
            old
        };
        // `ubi_resize_volume` of `drivers/mtd/ubi/vmt.c`; the flush erases what was unmapped.
        let erases_first = self.options.profile.erases_before_shrinking;
        if erases_first && lebs < old {
            self.unmap_lebs(id, lebs..old).await?;
            self.flush_works(id, None).await?;
        }
        let stored = self
            .change_record(id, |volume| {
                volume.record.reserved_pebs = lebs;
                volume.record.is_auto_resized &= !ends_auto_resize;
                if volume.record.kind == VolumeKind::Dynamic {
                    volume.used_lebs = lebs;
                }
            })
            .await;
        if let Err(error) = stored {
            self.undo_resize(id, old..lebs);
            return Err(error);
        }
        if !erases_first {
            self.unmap_lebs(id, lebs..old).await?;
        }
        let mut volumes = self.volumes.borrow_mut();
        if let Some(volume) = volumes.by_id.get_mut(&id) {
            volume.map.truncate(lebs as usize);
        }
        let freed = old.saturating_sub(lebs);
        volumes.release(freed);
        volumes.fill_reserve();
        volumes.assert_sums();
        Ok(())
    }

    /// The table was not written: the volume has its old size again.
    fn undo_resize(&self, id: VolumeNumber, grown: Range<u32>) {
        let old = grown.start;
        let mut volumes = self.volumes.borrow_mut();
        // Nothing if the volume was to shrink.
        volumes.release(grown.len() as u32);
        if let Some(volume) = volumes.by_id.get_mut(&id) {
            volume.map.truncate(old as usize);
            if volume.record.kind == VolumeKind::Dynamic {
                volume.used_lebs = old;
            }
        }
        volumes.assert_sums();
    }

    async fn unmap_lebs(&self, volume: VolumeNumber, lebs: Range<u32>) -> Result<(), UbiError> {
        for leb in lebs.map(LebNumber::new) {
            self.unmap_leb(LebAddress { volume, leb }).await?;
        }
        Ok(())
    }

    /// Gives the volume with the flag for it all blocks that are left (`autoresize`).
    pub(crate) async fn auto_resize(&self) -> Result<(), UbiError> {
        if self.is_read_only() {
            return Ok(());
        }
        let (found, available) = {
            let volumes = self.volumes.borrow();
            let found = volumes
                .of_users()
                .find(|(_, volume)| volume.record.is_auto_resized)
                .map(|(id, volume)| (id, volume.record.reserved_pebs));
            (found, volumes.available_pebs)
        };
        match found {
            // The flag goes with the same table that has the new size: a cut leaves both or
            // neither. With no block left only the flag goes.
            Some((id, lebs)) => self.resize(id, lebs + available, true).await,
            None => Ok(()),
        }
    }

    /// Opens a volume by its number.
    ///
    /// A static volume is read once, to compare its CRCs; one that fails is opened all the same,
    /// as the kernel opens it, and [`Volume::is_corrupted`] says so.
    ///
    /// # Errors
    /// [`UbiError::NoVolume`]; [`UbiError::Incomplete`] after an update that was interrupted.
    pub async fn open_volume(self: &Rc<Self>, id: u32) -> Result<Volume, UbiError> {
        let id = VolumeNumber::new(id);
        let (needs_check, lebs, last_bytes, usable_bytes) = {
            let volumes = self.volumes.borrow();
            let volume = volumes.of_users().find(|(number, _)| *number == id);
            let (_, volume) = volume.ok_or_else(|| UbiError::NoVolume(id.to_string()))?;
            if volume.record.update_marker {
                return Err(UbiError::Incomplete(volume.label()));
            }
            let needs_check =
                !volume.is_checked && !volume.record.skips_check && !volume.is_corrupted;
            let usable_bytes = self.usable_bytes(&volume.record);
            (needs_check, volume.used_lebs, volume.last_leb_bytes, usable_bytes)
        };
        if needs_check {
            let mut is_corrupted = false;
            for number in 0..lebs {
                let bytes = if number + 1 == lebs { last_bytes } else { usable_bytes };
                let address = LebAddress { volume: id, leb: LebNumber::new(number) };
                let mut data = vec![0; bytes as usize];
                let status = self.read_leb(address, 0, &mut data, true).await?;
                is_corrupted |= !status.is_readable();
            }
            if let Some(volume) = self.volumes.borrow_mut().by_id.get_mut(&id) {
                volume.is_checked = true;
                volume.is_corrupted |= is_corrupted;
            }
        }
        Ok(Volume::new(self, id, usable_bytes))
    }

    /// Opens a volume by its name.
    ///
    /// # Errors
    /// As [`Ubi::open_volume`].
    pub async fn open_volume_named(self: &Rc<Self>, name: &str) -> Result<Volume, UbiError> {
        match self.find_volume(name) {
            Some(id) => self.open_volume(id.get()).await,
            None => Err(UbiError::NoVolume(format!("{name:?}"))),
        }
    }

    /// Writes a volume anew, all of it (`ubiupdatevol`). Until the end the volume counts as incomplete.
    ///
    /// # Errors
    /// [`UbiError::NoVolume`], [`UbiError::VolumeTooLarge`], and as [`Volume::write`].
    pub async fn update_volume(&self, id: u32, data: &[u8]) -> Result<(), UbiError> {
        let id = VolumeNumber::new(id);
        let _alone = self.device_lock.lock().await;
        if self.is_read_only() {
            return Err(UbiError::ReadOnly);
        }
        let (kind, reserved_pebs, usable_bytes) = {
            let volumes = self.volumes.borrow();
            let volume = volumes.of_users().find(|(number, _)| *number == id);
            let (_, volume) = volume.ok_or_else(|| UbiError::NoVolume(id.to_string()))?;
            let record = &volume.record;
            (record.kind, record.reserved_pebs, self.usable_bytes(record))
        };
        let lebs = data.len().div_ceil(usable_bytes as usize) as u32;
        if lebs > reserved_pebs {
            let wanted = lebs.into();
            return Err(UbiError::VolumeTooLarge { wanted, available: reserved_pebs });
        }
        // The mark is on the medium before the first block goes, and leaves it after the last is
        // written: an update that is cut is seen by the next open (`set_update_marker`).
        self.change_record(id, |volume| volume.record.update_marker = true).await?;
        self.unmap_lebs(id, 0..reserved_pebs).await?;
        // Old blocks beside new ones would contradict them after a power cut (Linux before 3.7 took
        // the risk).
        self.flush_works(id, None).await?;
        let min_io_bytes = self.io.layout.min_io_bytes;
        for (part, leb) in data.chunks(usable_bytes as usize).zip((0..).map(LebNumber::new)) {
            let address = LebAddress { volume: id, leb };
            let mut padded = part.to_vec();
            match kind {
                VolumeKind::Dynamic => {
                    padded.resize(part.len().next_multiple_of(min_io_bytes as usize), 0xff);
                    // Blank pages at the end are not written, so that a file system can use them;
                    // static blocks are never written again and are padded with zeros.
                    padded.truncate(data_length(&padded, min_io_bytes));
                    self.write_leb(address, 0, &padded, DataType::Unknown).await?;
                }
                VolumeKind::Static => {
                    padded.resize(part.len().next_multiple_of(min_io_bytes as usize), 0);
                    let data_bytes = part.len() as u32;
                    let part = StaticLeb { data: &padded, data_bytes, used_lebs: lebs };
                    self.write_static_leb(address, part).await?;
                }
            }
        }
        self.flush_works(id, None).await?;
        self.change_record(id, |volume| {
            volume.record.update_marker = false;
            volume.is_corrupted = false;
            volume.is_checked = true;
            if kind == VolumeKind::Static {
                volume.used_lebs = lebs;
                let full_bytes = u64::from(lebs.saturating_sub(1)) * u64::from(usable_bytes);
                volume.last_leb_bytes =
                    (data.len() as u64 - full_bytes.min(data.len() as u64)) as u32;
            }
        })
        .await
    }
}

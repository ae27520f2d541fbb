//! An open volume: the calls that a file system makes.
//!
//! Source: `drivers/mtd/ubi/kapi.c` of Linux 6.1. Uses the device.

use crate::device::Ubi;
use crate::error::UbiError;
use crate::headers::VolumeKind;
use crate::numbers::{LebAddress, LebNumber, VolumeNumber};
use crate::wear_state::DataType;
use mtd::ReadStatus;
use std::rc::Rc;

/// An open volume. Clones are the same volume.
#[derive(Clone)]
pub struct Volume {
    ubi: Rc<Ubi>,
    number: VolumeNumber,
    leb_bytes: u32,
    data_type: DataType,
}

impl Volume {
    pub(crate) fn new(ubi: &Rc<Ubi>, number: VolumeNumber, leb_bytes: u32) -> Self {
        Self { ubi: ubi.clone(), number, leb_bytes, data_type: DataType::Unknown }
    }

    /// The same volume; blocks that are mapped through this handle hold data of a kind. Only old kernels
    /// choose blocks by it.
    #[must_use]
    pub fn with_data_type(&self, data_type: DataType) -> Self {
        Self { data_type, ..self.clone() }
    }

    /// The device that the volume is on.
    pub fn ubi(&self) -> &Rc<Ubi> {
        &self.ubi
    }

    /// Number of the volume.
    pub fn id(&self) -> u32 {
        self.number.get()
    }

    /// Name of the volume.
    pub fn name(&self) -> String {
        let volumes = self.ubi.volumes.borrow();
        let volume = volumes.by_id.get(&self.number);
        volume.map_or_else(String::new, |volume| {
            String::from_utf8_lossy(&volume.record.name).into_owned()
        })
    }

    /// Bytes of a logical block that can be used.
    pub fn leb_bytes(&self) -> u32 {
        self.leb_bytes
    }

    /// Logical blocks of the volume, as its record has them now.
    pub fn leb_count(&self) -> u32 {
        let volumes = self.ubi.volumes.borrow();
        volumes.by_id.get(&self.number).map_or(0, |volume| volume.record.reserved_pebs)
    }

    /// Kind of the volume.
    pub fn kind(&self) -> VolumeKind {
        let volumes = self.ubi.volumes.borrow();
        volumes.by_id.get(&self.number).map_or(VolumeKind::Dynamic, |volume| volume.record.kind)
    }

    /// Bytes of data: all of a dynamic volume.
    pub fn used_bytes(&self) -> u64 {
        let volumes = self.ubi.volumes.borrow();
        volumes.by_id.get(&self.number).map_or(0, |volume| volume.used_bytes(&self.ubi.io.layout))
    }

    /// Whether blocks of the static volume are missing or not what their CRCs say.
    pub fn is_corrupted(&self) -> bool {
        self.ubi.volumes.borrow().by_id.get(&self.number).is_some_and(|volume| volume.is_corrupted)
    }

    /// Smallest unit that is written.
    pub fn min_io_bytes(&self) -> u32 {
        self.ubi.io.layout.min_io_bytes
    }

    /// Largest unit that the chip takes at once: a page.
    pub fn max_write_bytes(&self) -> u32 {
        self.ubi.io.layout.min_io_bytes
    }

    /// Whether nothing can be written.
    pub fn is_read_only(&self) -> bool {
        self.ubi.is_read_only()
    }

    fn address(&self, leb: LebNumber) -> LebAddress {
        LebAddress { volume: self.number, leb }
    }

    fn check(&self, leb: LebNumber, offset: u32, bytes: usize) -> Result<(), UbiError> {
        let end = u64::from(offset) + bytes as u64;
        // By the record as it is now: the volume may have been resized since it was opened.
        if leb.get() < self.leb_count() && end <= u64::from(self.leb_bytes) {
            return Ok(());
        }
        Err(UbiError::Invalid(format!(
            "bytes {offset} to {end} of logical block {leb} lie outside the volume of {} blocks of {} bytes",
            self.leb_count(),
            self.leb_bytes
        )))
    }

    fn check_write(&self, leb: LebNumber, offset: u32, bytes: usize) -> Result<(), UbiError> {
        self.check(leb, offset, bytes)?;
        let unit = self.min_io_bytes();
        if self.kind() == VolumeKind::Static {
            return Err(UbiError::Invalid("a static volume is updated as a whole".into()));
        }
        if !offset.is_multiple_of(unit) || !bytes.is_multiple_of(unit as usize) {
            return Err(UbiError::Invalid(format!(
                "offset {offset} and length {bytes} are no multiples of {unit}"
            )));
        }
        Ok(())
    }

    /// Reads bytes of a logical block; what has no physical block is blank (`ubi_leb_read`).
    ///
    /// The bytes are there even where the ECC gave up, as the status says. With `checks`, all of a
    /// static volume's block is read and its CRC compared; a wrong one counts as lost bytes.
    ///
    /// # Errors
    /// [`UbiError::Invalid`], [`UbiError::Io`].
    pub async fn read(
        &self,
        leb: LebNumber,
        offset: u32,
        into: &mut [u8],
        checks: bool,
    ) -> Result<ReadStatus, UbiError> {
        self.check(leb, offset, into.len())?;
        let checks = checks && self.kind() == VolumeKind::Static;
        self.ubi.read_leb(self.address(leb), offset, into, checks).await
    }

    /// Writes whole pages; a block without a physical one is given one (`ubi_leb_write`).
    ///
    /// # Errors
    /// [`UbiError::Invalid`], [`UbiError::ReadOnly`], [`UbiError::NoSpace`], [`UbiError::Io`].
    pub async fn write(&self, leb: LebNumber, offset: u32, data: &[u8]) -> Result<(), UbiError> {
        self.check_write(leb, offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        self.ubi.write_leb(self.address(leb), offset, data, self.data_type).await
    }

    /// Replaces the contents of a logical block: old or new after a power cut (`ubi_leb_change`).
    ///
    /// # Errors
    /// [`UbiError::Invalid`], [`UbiError::ReadOnly`], [`UbiError::NoSpace`], [`UbiError::Io`].
    pub async fn change(&self, leb: LebNumber, data: &[u8]) -> Result<(), UbiError> {
        self.check_write(leb, 0, data.len())?;
        self.ubi.change_leb(self.address(leb), data, self.data_type).await
    }

    /// Empties a logical block; its physical one is erased in the background, and may come back after
    /// a power cut (`ubi_leb_unmap`).
    ///
    /// # Errors
    /// [`UbiError::Invalid`], [`UbiError::ReadOnly`].
    pub async fn unmap(&self, leb: LebNumber) -> Result<(), UbiError> {
        self.check_write(leb, 0, 0)?;
        self.ubi.unmap_leb(self.address(leb)).await
    }

    /// Empties a logical block for good: its physical one is erased when this returns
    /// (`ubi_leb_erase`).
    ///
    /// # Errors
    /// As [`Volume::unmap`]; [`UbiError::Io`] of the erase.
    pub async fn erase(&self, leb: LebNumber) -> Result<(), UbiError> {
        self.check_write(leb, 0, 0)?;
        self.ubi.unmap_leb(self.address(leb)).await?;
        self.ubi.flush_works(self.number, Some(leb)).await
    }

    /// Gives an empty logical block a physical one (`ubi_leb_map`).
    ///
    /// # Errors
    /// [`UbiError::Mapped`], [`UbiError::Invalid`], [`UbiError::ReadOnly`], [`UbiError::NoSpace`],
    /// [`UbiError::Io`].
    pub async fn map(&self, leb: LebNumber) -> Result<(), UbiError> {
        self.check_write(leb, 0, 0)?;
        if self.is_mapped(leb) {
            return Err(UbiError::Mapped(leb));
        }
        self.ubi.write_leb(self.address(leb), 0, &[], self.data_type).await
    }

    /// Whether a logical block has a physical one.
    pub fn is_mapped(&self, leb: LebNumber) -> bool {
        self.ubi.mapping(self.address(leb)).is_some()
    }

    /// Waits until the chip has all that was written (`ubi_sync`). The driver keeps nothing back, so it has.
    #[expect(clippy::unused_async, reason = "a driver with a buffer would wait here")]
    pub async fn sync(&self) {}
}

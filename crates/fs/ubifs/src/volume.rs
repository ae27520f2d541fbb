//! What UBIFS stands on: logical eraseblocks that are written in order and unmapped as a whole.
//!
//! Uses `ubi`, the volume of memory and positions.

use crate::memory_volume::MemoryVolume;
use crate::position::{LebNumber, Position};
use crate::volume_shape::VolumeShape;
use fs_api::Errno;
use std::rc::Rc;
use ubi::UbiError;

/// What a file system is mounted on.
#[derive(Clone)]
pub enum Volume {
    /// A dynamic volume of UBI.
    Ubi(ubi::Volume),
    /// Eraseblocks in memory, without UBI and a chip.
    Memory(Rc<MemoryVolume>),
}

fn errno(error: &UbiError) -> Errno {
    match error {
        UbiError::ReadOnly => Errno::Erofs,
        UbiError::NoSpace => Errno::Enospc,
        _ => Errno::Eio,
    }
}

impl Volume {
    pub(crate) fn shape(&self) -> VolumeShape {
        match self {
            Self::Ubi(volume) => VolumeShape {
                leb_bytes: volume.leb_bytes(),
                leb_count: volume.leb_count(),
                min_io_bytes: volume.min_io_bytes(),
                max_write_bytes: volume.max_write_bytes(),
            },
            Self::Memory(volume) => volume.shape(),
        }
    }

    /// Reads; bytes that the ECC gives up are left to the checksums of the nodes.
    pub(crate) async fn read(&self, from: Position, into: &mut [u8]) -> Result<(), Errno> {
        match self {
            Self::Ubi(volume) => volume
                .read(from.leb, from.offset, into, false)
                .await
                .map(|_| ())
                .map_err(|error| errno(&error)),
            Self::Memory(volume) => volume.read(from, into),
        }
    }

    pub(crate) async fn write(&self, to: Position, bytes: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Ubi(volume) => {
                volume.write(to.leb, to.offset, bytes).await.map_err(|error| errno(&error))
            }
            Self::Memory(volume) => volume.write(to, bytes).await,
        }
    }

    /// Replaces the contents, all or nothing.
    pub(crate) async fn change(&self, leb: LebNumber, bytes: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Ubi(volume) => volume.change(leb, bytes).await.map_err(|error| errno(&error)),
            Self::Memory(volume) => volume.change(leb, bytes).await,
        }
    }

    /// Lets the contents go; they may come back if the power is cut soon.
    pub(crate) async fn unmap(&self, leb: LebNumber) -> Result<(), Errno> {
        match self {
            Self::Ubi(volume) => volume.unmap(leb).await.map_err(|error| errno(&error)),
            Self::Memory(volume) => volume.unmap(leb).await,
        }
    }

    pub(crate) async fn map(&self, leb: LebNumber) -> Result<(), Errno> {
        match self {
            Self::Ubi(volume) => volume.map(leb).await.map_err(|error| errno(&error)),
            Self::Memory(volume) => volume.map(leb).await,
        }
    }

    pub(crate) fn is_mapped(&self, leb: LebNumber) -> bool {
        match self {
            Self::Ubi(volume) => volume.is_mapped(leb),
            Self::Memory(volume) => volume.is_mapped(leb),
        }
    }

    pub(crate) async fn sync(&self) -> Result<(), Errno> {
        match self {
            Self::Ubi(volume) => {
                volume.sync().await;
                Ok(())
            }
            Self::Memory(_) => Ok(()),
        }
    }
}

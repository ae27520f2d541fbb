//! What is asked of a device that is served, and what it is made from.

use device::{DeviceError, Precondition};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thiserror::Error;

/// Bytes of a sector.
pub(crate) const SECTOR_BYTES: u64 = device::SECTOR_BYTES;

/// When the supply fails by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CutAfter {
    /// In the page program of this number, from the start on; the first is number 1.
    Programs(u64),
    /// In the erase of this number.
    Erases(u64),
    /// At this simulated time, nanoseconds.
    Nanoseconds(u64),
    /// As the flush of this number is answered.
    Flushes(u64),
}

/// What a device is made from. Together with a log it gives the same state again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CoreOptions {
    /// The device with all changes made to it.
    pub device: device::DeviceSpec,
    /// What it holds before the first request; nothing without.
    pub precondition: Option<Precondition>,
    /// Seed of all that is drawn.
    pub seed: u64,
    /// When the supply fails by itself.
    pub cut_after: Option<CutAfter>,
    /// Folder of a file that holds the bytes of pages; in memory without. It changes nothing else, so no log has it.
    #[serde(skip)]
    pub bytes_in: Option<PathBuf>,
}

/// A request of a client, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work<'bytes> {
    /// Read sectors; the bytes come from [`Core::read_bytes`].
    Read {
        /// First sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
    /// Write whole sectors.
    Write {
        /// First sector.
        sector: u64,
        /// Their bytes.
        bytes: &'bytes [u8],
        /// The bytes are durable when the reply is due.
        fua: bool,
    },
    /// Write zeros. They are written like other bytes: a discard may be undone by a power cut.
    Zero {
        /// First sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
        /// The zeros are durable when the reply is due.
        fua: bool,
    },
    /// All that was answered before is durable when the reply is due.
    Flush,
    /// The host gives sectors up.
    Discard {
        /// First sector.
        sector: u64,
        /// Number of sectors.
        sectors: u32,
    },
}

impl Work<'_> {
    /// Place in [`Account::latencies`], and the bytes that it moves.
    pub(crate) fn kind(&self) -> (usize, u64) {
        match self {
            Self::Read { sectors, .. } => (0, u64::from(*sectors) * SECTOR_BYTES),
            Self::Write { bytes, .. } => (1, bytes.len() as u64),
            Self::Zero { sectors, .. } => (1, u64::from(*sectors) * SECTOR_BYTES),
            Self::Flush => (2, 0),
            Self::Discard { .. } => (3, 0),
        }
    }
}

/// Why a request has no reply, or one that tells an error.
#[derive(Debug, Error)]
pub enum Failure {
    /// The device has no power. No reply may be sent.
    #[error("the device has no power")]
    PowerLost,
    /// The device could not carry the request out.
    #[error(transparent)]
    Device(DeviceError),
    /// The log or the image could not be written. Nothing more may be answered.
    #[error("the {file} cannot be written: {reason}")]
    File {
        /// The log or the image.
        file: &'static str,
        /// What the system said.
        reason: std::io::Error,
    },
}

impl Failure {
    pub(crate) fn of(file: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |reason| Self::File { file, reason }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::PowerLost => Self::PowerLost,
            other => Self::Device(other),
        }
    }
}

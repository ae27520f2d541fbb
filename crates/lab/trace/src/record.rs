//! The one record every trace format maps to.
//!
//! Addresses and lengths are bytes and times are nanoseconds, whatever the source counted in.
//! A record holds no wall clock, process or queue: nothing that a replay cannot repeat.

use std::ops::BitOr;

/// One request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time since the first record of the trace.
    pub arrival_ns: u64,
    /// What is asked of the device.
    pub operation: Operation,
    /// Disk, volume, unit or file, in the numbering of the source.
    pub device: u32,
    /// First byte that is addressed.
    pub offset_bytes: u64,
    /// Bytes addressed; 0 only for a flush.
    pub length_bytes: u32,
    /// Modifiers of the request; most formats have none.
    pub flags: Flags,
    /// Time the original device took, for calibration; a replay ignores it.
    pub latency_ns: Option<u64>,
    /// File-system operation that caused the request, in traces captured by nandlab:
    /// 0 is the set-up, 1 the first operation.
    pub file_operation: Option<u32>,
}

impl Record {
    /// A plain request of device 0: no flags, latency or file-system operation.
    pub const fn new(
        arrival_ns: u64,
        operation: Operation,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Self {
        Self {
            arrival_ns,
            operation,
            device: 0,
            offset_bytes,
            length_bytes,
            flags: Flags::NONE,
            latency_ns: None,
            file_operation: None,
        }
    }
}

/// What a request asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Data from the device.
    Read,
    /// Data to the device.
    Write,
    /// The range is no longer needed (discard, unmap).
    Trim,
    /// Make every completed write durable.
    Flush,
    /// The range shall read as zeroes.
    WriteZeroes,
}

impl Operation {
    /// Every operation, in the order of its code in the digest and in the Parquet dictionary.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::Trim, Self::Flush, Self::WriteZeroes];

    /// Name in the Parquet form.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::WriteZeroes => "write_zeroes",
        }
    }

    /// The operation of a code, which is its position in [`Self::ALL`].
    pub(crate) const fn of_code(code: i32) -> Self {
        // As numbers, so that a compiler turns a column of them at once.
        match code {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Trim,
            3 => Self::Flush,
            _ => Self::WriteZeroes,
        }
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

/// Modifiers of a request, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// The request is a plain one.
    pub const NONE: Self = Self(0);
    /// The data is durable before the request completes.
    pub const FUA: Self = Self(1);
    /// A task waits for the request.
    pub const SYNC: Self = Self(2);
    /// The request concerns metadata of the file system.
    pub const META: Self = Self(4);
    /// A guess about the future, not a demand.
    pub const READAHEAD: Self = Self(8);

    /// The bits, as the Parquet form stores them.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Flags of these bits; none if a bit has no meaning.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        // Four bits have a meaning.
        if bits < 16 { Some(Self(bits)) } else { None }
    }

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags, if `condition` holds.
    pub(crate) const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

//! Little-endian numbers in blocks, and the checksum that covers them.
//!
//! May use no other file of the crate.

/// The little-endian `u16` at byte `at`; panics behind the end.
pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// The little-endian `u32` at byte `at`; panics behind the end.
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The little-endian `u64` at byte `at`; panics behind the end.
pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Stores a `u16` little-endian at byte `at`; panics behind the end.
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Stores a `u32` little-endian at byte `at`; panics behind the end.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Stores a `u64` little-endian at byte `at`; panics behind the end.
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// CRC-32 as `crc32_le` of the kernel computes it: reflected, begun with the file system's seed, not
/// inverted at the end.
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// A checksum over nothing yet.
    pub(crate) fn new(seed: u32) -> Self {
        // The library inverts its start value and its result; `crc32_le` of the kernel does
        // neither.
        Self(crc32fast::Hasher::new_with_initial(!seed))
    }

    /// Continues the checksum over more bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub(crate) fn finish(self) -> u32 {
        !self.0.finalize()
    }

    /// The checksum of one piece.
    pub(crate) fn of(seed: u32, bytes: &[u8]) -> u32 {
        let mut sum = Self::new(seed);
        sum.update(bytes);
        sum.finish()
    }
}

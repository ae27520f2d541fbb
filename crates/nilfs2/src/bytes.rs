//! Little-endian numbers in blocks, and the checksum that covers them.

/// Reads a `u16`.
pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// Reads a `u32`.
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads a `u64`.
pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Writes a `u16`.
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Writes a `u32`.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes a `u64`.
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// CRC-32 as `crc32_le` of the kernel computes it: reflected, begun with the file system's seed, not
/// inverted at the end.
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// A checksum over nothing yet.
    pub(crate) fn new(seed: u32) -> Self {
        Self(crc32fast::Hasher::new_with_initial(!seed))
    }

    /// Takes bytes in.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum.
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

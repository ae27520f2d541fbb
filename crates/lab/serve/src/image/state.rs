//! What a device holds without power, as bytes.
//!
//! The simulated time, u64. Then each part of the device ([`device::SavedPart`]): u32 length, not zero, and its bytes in
//! the format of postcard. Then u32 zero, and the BLAKE3 digest of all of this, 32 bytes.

use device::StoredDevice;
use std::io::{self, Read, Write};

pub(crate) const DIGEST_BYTES: usize = blake3::OUT_LEN;

/// Longest part that is read: the chips of a die of a terabyte have less.
pub(crate) const PART_BYTES_MAX: u32 = 1 << 30;

/// Writes what a device without power holds.
pub(crate) fn write(to: &mut impl Write, at_ns: u64, device: &dyn StoredDevice) -> io::Result<()> {
    let mut to = Hashed { inner: to, hash: blake3::Hasher::new() };
    to.write_all(&at_ns.to_le_bytes())?;
    let mut bytes = Vec::new();
    device.save(&mut |part| {
        bytes.clear();
        bytes = postcard::to_extend(part, std::mem::take(&mut bytes)).map_err(io::Error::other)?;
        // Before the old file goes: what cannot be read again must not take its place.
        if bytes.len() > PART_BYTES_MAX as usize {
            return Err(io::Error::other("a die holds more than an image can keep"));
        }
        to.write_all(&(bytes.len() as u32).to_le_bytes())?;
        to.write_all(&bytes)
    })?;
    to.write_all(&0_u32.to_le_bytes())?;
    let digest = to.hash.finalize();
    to.inner.write_all(digest.as_bytes())
}

/// Hashes what passes.
pub(crate) struct Hashed<'inner, T> {
    pub(crate) inner: &'inner mut T,
    pub(crate) hash: blake3::Hasher,
}

impl<T: Write> Write for Hashed<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Hashed<'_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }
}

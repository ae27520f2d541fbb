//! What a device holds without power, as bytes.
//!
//! The simulated time, u64. Then each part of the device ([`device::SavedPart`]): u32 length, not zero, and its bytes in
//! the format of postcard. Then u32 zero, and the BLAKE3 digest of all of this, 32 bytes.

use crate::core::{Core, CoreOptions};
use crate::record::{read_u32, read_u64};
use device::{SavedPart, StoredDevice};
use std::io::{self, Read, Write};

const DIGEST_BYTES: usize = blake3::OUT_LEN;

/// Longest part that is read: the chips of a die of a terabyte have less.
const PART_BYTES_MAX: u32 = 1 << 30;

/// Writes what a device without power holds.
pub(super) fn write(to: &mut impl Write, at_ns: u64, device: &dyn StoredDevice) -> io::Result<()> {
    let mut to = Hashed { inner: to, hash: blake3::Hasher::new() };
    to.write_all(&at_ns.to_le_bytes())?;
    let mut bytes = Vec::new();
    device.save(&mut |part| {
        cancellation::check();
        bytes.clear();
        bytes = postcard::to_extend(part, std::mem::take(&mut bytes)).map_err(io::Error::other)?;
        to.write_all(&(bytes.len() as u32).to_le_bytes())?;
        to.write_all(&bytes)
    })?;
    to.write_all(&0_u32.to_le_bytes())?;
    let digest = to.hash.finalize();
    to.inner.write_all(digest.as_bytes())
}

/// Makes a device that holds what was written; it has no power.
///
/// # Errors
/// A sentence: what is damaged.
pub(super) fn read(input: &mut impl Read, options: &CoreOptions) -> Result<Core, String> {
    let mut input = Hashed { inner: input, hash: blake3::Hasher::new() };
    let at_ns = read_u64(&mut input).map_err(|error| told(&error))?;
    let mut core = Core::without_power(options, at_ns)?;
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        cancellation::check();
        let length = read_u32(&mut input).map_err(|error| told(&error))?;
        if length == 0 {
            break;
        }
        if length > PART_BYTES_MAX {
            return Err(format!("part {number} has {length} bytes"));
        }
        // As it comes: a length that is damaged must not ask for memory.
        bytes.clear();
        let taken = input
            .by_ref()
            .take(u64::from(length))
            .read_to_end(&mut bytes)
            .map_err(|error| told(&error))?;
        if taken < length as usize {
            return Err(told(&io::ErrorKind::UnexpectedEof.into()));
        }
        let part: SavedPart<'_> =
            postcard::from_bytes(&bytes).map_err(|error| format!("part {number}: {error}"))?;
        core.load(part).map_err(|error| format!("part {number}: {error}"))?;
    }
    let digest = input.hash.finalize();
    let mut recorded = [0; DIGEST_BYTES];
    input.inner.read_exact(&mut recorded).map_err(|error| told(&error))?;
    if digest == recorded { Ok(core) } else { Err("its digest is another one".into()) }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends in the middle of it".into(),
        _ => error.to_string(),
    }
}

/// Hashes what passes.
struct Hashed<'inner, T> {
    inner: &'inner mut T,
    hash: blake3::Hasher,
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

//! The beginning of a log or an image: which it is, and how its device was made.

use crate::record::read_u32;
use crate::work::CoreOptions;
use std::io::{self, Read, Write};

/// Longest description of a device that is read. Real ones have some kilobytes.
const OPTIONS_BYTES_MAX: u32 = 1 << 20;

/// Writes how a device was made.
pub(crate) fn write_options(
    to: &mut impl Write,
    magic: &[u8],
    options: &CoreOptions,
) -> io::Result<()> {
    let told = serde_json::to_vec(options)?;
    to.write_all(magic)?;
    to.write_all(&(told.len() as u32).to_le_bytes())?;
    to.write_all(&told)
}

/// Reads how a device was made.
pub(crate) fn read_options(input: &mut impl Read, magic: &[u8]) -> Result<CoreOptions, String> {
    let mut found = vec![0; magic.len()];
    input.read_exact(&mut found).map_err(|error| error.to_string())?;
    if found != magic {
        return Err("it begins with something else".into());
    }
    let length = read_u32(input).map_err(|error| error.to_string())?;
    if length > OPTIONS_BYTES_MAX {
        return Err(format!("its options take {length} bytes"));
    }
    let mut told = vec![0; length as usize];
    input.read_exact(&mut told).map_err(|error| error.to_string())?;
    serde_json::from_slice(&told).map_err(|error| error.to_string())
}

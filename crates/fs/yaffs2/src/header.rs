//! The object header: 512 bytes at the start of a chunk, little endian.
//!
//! What a kind does not use stays 0xFF. Extended attributes may stand behind it in the same page.
//!
//! Source: `yaffs_guts.h` (`struct yaffs_obj_hdr`) for the fields; places and fillings are those of
//! images written by mkyaffs2image, the direct library and the Linux module.
//!
//! May use: `format`.

use crate::format::{ALIAS_BYTES_MAX, NAME_BYTES_MAX, ObjectKind};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 512;

const NAME: usize = 10;
const NAME_FIELD: usize = 256;
const MODE: usize = 268;
const UID: usize = 272;
const GID: usize = 276;
const TIMES: usize = 280;
const SIZE_LOW: usize = 292;
const EQUIVALENT: usize = 296;
const ALIAS: usize = 300;
const DEVICE: usize = 460;
const WIDE_TIMES: [usize; 3] = [472, 480, 464];
const INBAND_SHADOWS: usize = 488;
const INBAND_SHRINK: usize = 492;
const SIZE_HIGH: usize = 496;
const SHADOWS: usize = 504;
const SHRINK: usize = 508;
const NOT_SET: u32 = u32::MAX;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind as stored; a number of no kind in a damaged one.
    pub kind: u32,
    /// Object number of the directory that the object is in.
    pub parent: u32,
    /// Name, without the NUL.
    pub name: Vec<u8>,
    /// Type and permission bits (`st_mode`).
    pub mode: u32,
    /// User who owns the object.
    pub uid: u32,
    /// Group that the object belongs to.
    pub gid: u32,
    /// Times of access, of modification, of change, in seconds.
    pub times: [i64; 3],
    /// Bytes of a file; none for other kinds.
    pub size_bytes: Option<u64>,
    /// Object that a hard link names.
    pub equivalent: Option<u32>,
    /// Target of a symbolic link.
    pub alias: Option<Vec<u8>>,
    /// Device number as the kernel encodes it.
    pub device: u32,
    /// Object that this one replaces.
    pub shadows: u32,
    /// The file was shrunk, or deleted, with this header.
    pub is_shrink: bool,
}

/// Differences between generations of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderForm {
    /// Times are stored in 64 bits as well, sizes have a high half.
    pub is_wide: bool,
    /// Shadowing and shrinking stand at the places that in-band tags leave free.
    pub inband: bool,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn text(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|byte| *byte != 0).collect()
}

impl Header {
    /// Reads a header from the start of a chunk, which must be at least 512 bytes long.
    pub fn parse(chunk: &[u8], form: HeaderForm) -> Self {
        let kind = word(chunk, 0);
        let is = |wanted: ObjectKind| kind == wanted.number();
        let time = |index: usize| {
            let low = word(chunk, TIMES + 4 * index);
            let wide = WIDE_TIMES[index];
            match word(chunk, wide + 4) {
                NOT_SET => i64::from(low),
                high => i64::from(high) << 32 | i64::from(word(chunk, wide)),
            }
        };
        let high = match word(chunk, SIZE_HIGH) {
            NOT_SET => 0,
            high => u64::from(high),
        };
        let (shadows, shrink) = if form.inband {
            (word(chunk, INBAND_SHADOWS), word(chunk, INBAND_SHRINK))
        } else {
            (word(chunk, SHADOWS), word(chunk, SHRINK))
        };
        Self {
            kind,
            parent: word(chunk, 4),
            name: text(&chunk[NAME..NAME + NAME_BYTES_MAX]),
            mode: word(chunk, MODE),
            uid: word(chunk, UID),
            gid: word(chunk, GID),
            times: [time(0), time(1), time(2)],
            size_bytes: is(ObjectKind::File).then(|| high << 32 | u64::from(word(chunk, SIZE_LOW))),
            equivalent: is(ObjectKind::HardLink).then(|| word(chunk, EQUIVALENT)),
            alias: is(ObjectKind::Symlink).then(|| text(&chunk[ALIAS..ALIAS + ALIAS_BYTES_MAX])),
            device: word(chunk, DEVICE),
            // All bits set is "not written", and no object has a negative number.
            shadows: if shadows > i32::MAX as u32 { 0 } else { shadows },
            is_shrink: shrink != 0 && shrink != NOT_SET,
        }
    }

    /// Writes the header over the start of a chunk; what stands behind it is left.
    pub fn write(&self, chunk: &mut [u8], form: HeaderForm) {
        chunk[..HEADER_BYTES].fill(0xff);
        put(chunk, 0, self.kind);
        put(chunk, 4, self.parent);
        let name = &self.name[..self.name.len().min(NAME_BYTES_MAX)];
        // The field is zeroed as a whole, as in `yaffs_update_oh`, so that no rest of a longer name
        // stands in it.
        chunk[NAME..NAME + NAME_FIELD].fill(0);
        chunk[NAME..NAME + name.len()].copy_from_slice(name);
        put(chunk, MODE, self.mode);
        put(chunk, UID, self.uid);
        put(chunk, GID, self.gid);
        for (index, time) in self.times.iter().enumerate() {
            put(chunk, TIMES + 4 * index, *time as u32);
            if form.is_wide {
                put(chunk, WIDE_TIMES[index], *time as u32);
                put(chunk, WIDE_TIMES[index] + 4, (*time >> 32) as u32);
            }
        }
        if let Some(size) = self.size_bytes {
            write_size(chunk, size, form);
        }
        put(chunk, EQUIVALENT, self.equivalent.unwrap_or(NOT_SET));
        if let Some(alias) = &self.alias {
            let alias = &alias[..alias.len().min(ALIAS_BYTES_MAX)];
            chunk[ALIAS..=ALIAS + ALIAS_BYTES_MAX].fill(0);
            chunk[ALIAS..ALIAS + alias.len()].copy_from_slice(alias);
        }
        put(chunk, DEVICE, self.device);
        // Real images have this one set with or without in-band tags, but `inband_is_shrink` at all
        // bits set without them.
        put(chunk, INBAND_SHADOWS, self.shadows);
        put(chunk, SHADOWS, self.shadows);
        put(chunk, SHRINK, self.is_shrink.into());
        if form.inband {
            put(chunk, INBAND_SHRINK, self.is_shrink.into());
        }
    }

    /// Changes a stored header as collecting does: its shrinking and shadowing are done with, the
    /// size of a file is brought up to date.
    pub fn clear_flags(chunk: &mut [u8], size: Option<u64>, form: HeaderForm) {
        put(chunk, SHRINK, 0);
        put(chunk, SHADOWS, 0);
        put(chunk, INBAND_SHADOWS, 0);
        if form.inband {
            put(chunk, INBAND_SHRINK, 0);
        }
        if let Some(size) = size {
            write_size(chunk, size, form);
        }
    }
}

fn write_size(chunk: &mut [u8], size: u64, form: HeaderForm) {
    put(chunk, SIZE_LOW, size as u32);
    if form.is_wide {
        put(chunk, SIZE_HIGH, (size >> 32) as u32);
    }
}

/// The number that directories keep of a name, to compare before the name itself.
///
/// Source: `yaffs_calc_name_sum`.
pub(crate) fn name_sum(name: &[u8]) -> u16 {
    // Less than half of the longest name takes part (`i < (YAFFS_MAX_NAME_LENGTH / 2)`, from 1 on), and
    // of each byte the lowest five bits, so that names which differ in case alone have the same sum.
    let weights = 1..NAME_BYTES_MAX as u16 / 2;
    name.iter().zip(weights).fold(0_u16, |sum, (byte, weight)| {
        sum.wrapping_add((u16::from(*byte) & 0x1f).wrapping_mul(weight))
    })
}

#[cfg(test)]
mod tests {
    use super::name_sum;

    /// `i < (YAFFS_MAX_NAME_LENGTH / 2)` from 1 on, with names of 255 bytes at most.
    #[test]
    fn a_hundred_and_twenty_six_bytes_of_a_name_count() {
        let name = [b'b'; 200];
        let sum: u16 = (1..=126).map(|weight| 2 * weight).sum();
        assert_eq!(name_sum(&name[..126]), sum);
        assert_eq!(name_sum(&name[..127]), sum);
        assert_eq!(name_sum(&name), sum);
        assert_ne!(name_sum(&name[..125]), sum);
    }
}

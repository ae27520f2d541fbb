//! The two headers of a physical erase block, big endian.
//!
//! Source: `drivers/mtd/ubi/ubi-media.h` (structures) and `io.c` (what a sound header must say). Uses
//! numbers only.

use crate::numbers::{LebAddress, LebNumber, VolumeNumber};

/// Bytes of either header.
pub const HEADER_BYTES: usize = 64;
/// Greatest erase counter (`UBI_MAX_ERASECOUNTER`).
pub const ERASE_COUNTER_MAX: u64 = 0x7fff_ffff;
/// Number of the volume that holds the volume table.
pub const LAYOUT_VOLUME: u32 = 0x7fff_efff;
/// Numbers of the volumes of the fastmap: anchor, data.
pub const FASTMAP_VOLUMES: [u32; 2] = [0x7fff_f000, 0x7fff_f001];
/// Volumes of users have lower numbers.
pub const VOLUMES_MAX: u32 = 128;

const ERASE_COUNTER_MAGIC: u32 = 0x5542_4923;
const VOLUME_ID_MAGIC: u32 = 0x5542_4921;
const VERSION: u8 = 1;

/// CRC-32 as UBI has it: all ones at first, not inverted at the end.
pub fn crc32(bytes: &[u8]) -> u32 {
    // The crate inverts at the end, the format does not.
    !crc32fast::hash(bytes)
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// What the bytes at the place of a header are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// A header whose CRC is right.
    Sound(T),
    /// All bits are set.
    Blank,
    /// Neither a sound header nor blank: torn, worn or foreign.
    Bad,
}

fn decode<T>(bytes: &[u8; HEADER_BYTES], magic: u32, take: impl FnOnce() -> T) -> Decoded<T> {
    if be32(bytes, 0) == magic && crc32(&bytes[..60]) == be32(bytes, 60) {
        Decoded::Sound(take())
    // Blank means that nothing was written since the erase: a block that may be used without
    // another one.
    } else if bytes.iter().all(|byte| *byte == 0xff) {
        Decoded::Blank
    } else {
        Decoded::Bad
    }
}

fn seal(mut bytes: [u8; HEADER_BYTES], magic: u32) -> [u8; HEADER_BYTES] {
    bytes[..4].copy_from_slice(&magic.to_be_bytes());
    // The rest of both headers is zero (`padding1`, `padding2`), and covered by the CRC.
    bytes[4] = VERSION;
    let crc = crc32(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// Erase counter header: the first bytes of every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraseCounterHeader {
    /// Version of the format.
    pub version: u8,
    /// Erases of the block.
    pub erase_counter: u64,
    /// Where the volume identifier header stands, bytes from the block's beginning.
    pub header_offset: u32,
    /// Where data begins, bytes from the block's beginning.
    pub data_offset: u32,
    /// Random number of the image; 0 if it has none.
    pub image_sequence: u32,
}

impl EraseCounterHeader {
    /// The header in bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Decoded<Self> {
        decode(bytes, ERASE_COUNTER_MAGIC, || Self {
            version: bytes[4],
            erase_counter: be64(bytes, 8),
            header_offset: be32(bytes, 16),
            data_offset: be32(bytes, 20),
            image_sequence: be32(bytes, 24),
        })
    }

    /// The bytes of the header; the version is the one that this crate writes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[8..16].copy_from_slice(&self.erase_counter.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.header_offset.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.data_offset.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.image_sequence.to_be_bytes());
        seal(bytes, ERASE_COUNTER_MAGIC)
    }

    /// Says what a header with a right CRC has wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("UBI version {} is not known, only {VERSION}", self.version));
        }
        if self.erase_counter > ERASE_COUNTER_MAX {
            return Err(format!("erase counter {} is too large", self.erase_counter));
        }
        Ok(())
    }
}

/// Kind of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeKind {
    /// Blocks are written by their user as it likes.
    Dynamic,
    /// Written as a whole, read-only after that, with a CRC over each block.
    Static,
}

impl VolumeKind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Dynamic => 1,
            Self::Static => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Dynamic),
            2 => Some(Self::Static),
            _ => None,
        }
    }

    /// Word of the kind in configurations and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Static => "static",
        }
    }
}

/// What an implementation that does not know an internal volume shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// It is no internal volume, but one of users.
    User,
    /// Erase its blocks and go on.
    Delete,
    /// Attach the device read-only.
    ReadOnly,
    /// Leave its blocks alone.
    Preserve,
    /// Refuse to attach the device.
    Reject,
}

impl Compatibility {
    fn code(self) -> u8 {
        match self {
            Self::User => 0,
            Self::Delete => 1,
            Self::ReadOnly => 2,
            Self::Preserve => 4,
            Self::Reject => 5,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::User, Self::Delete, Self::ReadOnly, Self::Preserve, Self::Reject]
            .into_iter()
            .find(|compatibility| compatibility.code() == code)
    }
}

/// Volume identifier header: which logical block a physical one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeHeader {
    /// Version of the format.
    pub version: u8,
    /// Code of the kind, 1 dynamic or 2 static.
    pub kind: u8,
    /// 1 if the block is a copy or an atomic change, whose data has a CRC.
    pub copy_flag: u8,
    /// Code of the compatibility.
    pub compatibility: u8,
    /// Number of the volume.
    pub volume: u32,
    /// Number of the logical block within its volume.
    pub lnum: u32,
    /// Bytes of data under the CRC.
    pub data_bytes: u32,
    /// Blocks of a static volume.
    pub used_lebs: u32,
    /// Bytes at the end that the volume's alignment leaves unused.
    pub data_pad: u32,
    /// CRC of the data.
    pub data_crc: u32,
    /// Number of this header among all.
    pub sequence_number: u64,
}

impl VolumeHeader {
    /// Header of an empty block of a dynamic volume.
    pub fn dynamic(address: LebAddress, data_pad: u32) -> Self {
        let (volume, lnum) = (address.volume.get(), address.leb.get());
        Self {
            version: VERSION,
            // An empty block of a static volume cannot exist: its header counts bytes.
            kind: VolumeKind::Dynamic.code(),
            copy_flag: 0,
            compatibility: Self::compatibility_of(volume).code(),
            volume,
            lnum,
            data_bytes: 0,
            used_lebs: 0,
            data_pad,
            data_crc: 0,
            sequence_number: 0,
        }
    }

    /// The logical block that the physical one holds.
    pub fn address(&self) -> LebAddress {
        LebAddress { volume: VolumeNumber::new(self.volume), leb: LebNumber::new(self.lnum) }
    }

    fn compatibility_of(volume: u32) -> Compatibility {
        // `UBI_LAYOUT_VOLUME_COMPAT`: an implementation without volume tables must not
        // attach the device.
        if volume == LAYOUT_VOLUME { Compatibility::Reject } else { Compatibility::User }
    }

    /// The header in bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Decoded<Self> {
        decode(bytes, VOLUME_ID_MAGIC, || Self {
            version: bytes[4],
            kind: bytes[5],
            copy_flag: bytes[6],
            compatibility: bytes[7],
            volume: be32(bytes, 8),
            lnum: be32(bytes, 12),
            data_bytes: be32(bytes, 20),
            used_lebs: be32(bytes, 24),
            data_pad: be32(bytes, 28),
            data_crc: be32(bytes, 32),
            sequence_number: be64(bytes, 40),
        })
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[5] = self.kind;
        bytes[6] = self.copy_flag;
        bytes[7] = self.compatibility;
        let words = [
            (8, self.volume),
            (12, self.lnum),
            (20, self.data_bytes),
            (24, self.used_lebs),
            (28, self.data_pad),
            (32, self.data_crc),
        ];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        bytes[40..48].copy_from_slice(&self.sequence_number.to_be_bytes());
        seal(bytes, VOLUME_ID_MAGIC)
    }

    /// Kind of the volume.
    pub fn volume_kind(&self) -> Option<VolumeKind> {
        VolumeKind::from_code(self.kind)
    }

    /// What to do with an internal volume that is not known.
    pub fn compatibility(&self) -> Option<Compatibility> {
        Compatibility::from_code(self.compatibility)
    }

    /// Says what a header with a right CRC has wrong (`validate_vid_hdr`).
    pub(crate) fn check(&self, leb_bytes: u32) -> Result<(), String> {
        let says = |what: &str| Err(format!("{what} in the volume identifier header"));
        if self.version != VERSION {
            return Err(format!("UBI version {} is not known, only {VERSION}", self.version));
        }
        let Some(kind) = self.volume_kind() else { return says("an unknown kind of volume") };
        let Some(compatibility) = self.compatibility() else {
            return says("an unknown compatibility");
        };
        let is_user = self.volume < LAYOUT_VOLUME;
        if is_user != (compatibility == Compatibility::User) {
            return says("a compatibility that does not belong to the volume");
        }
        if self.copy_flag > 1 || self.lnum > i32::MAX as u32 {
            return says("a copy flag or block number out of range");
        }
        // Numbers are given one by one: no device comes near half of them.
        if self.sequence_number > u64::MAX / 2 {
            return says("a sequence number out of range");
        }
        // The pad is the rest of a division of the block by the alignment, which is always less
        // than half of the block.
        if self.data_pad >= leb_bytes / 2 {
            return says("a pad of half a block or more");
        }
        let usable_bytes = leb_bytes - self.data_pad;
        match kind {
            VolumeKind::Static => {
                let is_last = self.used_lebs.checked_sub(1) == Some(self.lnum);
                let size_is_right = if is_last {
                    (1..=usable_bytes).contains(&self.data_bytes)
                } else {
                    self.lnum < self.used_lebs && self.data_bytes == usable_bytes
                };
                if !size_is_right {
                    return says("a data size that does not belong to a static volume");
                }
            }
            VolumeKind::Dynamic => {
                let is_empty = self.data_bytes == 0 && self.data_crc == 0;
                let size_is_right = match self.copy_flag {
                    // Plain blocks say nothing of their data; only copies and atomic changes have a
                    // size and a CRC.
                    0 => is_empty,
                    _ => (1..=usable_bytes).contains(&self.data_bytes),
                };
                if !size_is_right || self.used_lebs != 0 {
                    return says("a data size that does not belong to a dynamic volume");
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoded, EraseCounterHeader, HEADER_BYTES, VolumeHeader, be32};
    use crate::numbers::{LebAddress, LebNumber, VolumeNumber};

    #[test]
    fn headers_come_back() {
        let counter = EraseCounterHeader {
            version: 1,
            erase_counter: 77,
            header_offset: 512,
            data_offset: 2048,
            image_sequence: 11,
        };
        assert_eq!(EraseCounterHeader::decode(&counter.encode()), Decoded::Sound(counter));
        let address = LebAddress { volume: VolumeNumber::new(3), leb: LebNumber::new(9) };
        let mut volume = VolumeHeader::dynamic(address, 0);
        assert_eq!(volume.address(), address);
        (volume.sequence_number, volume.copy_flag) = (1 << 40, 1);
        (volume.data_bytes, volume.data_crc) = (100, 7);
        assert_eq!(VolumeHeader::decode(&volume.encode()), Decoded::Sound(volume));
        assert_eq!(volume.check(126_976), Ok(()));
        volume.copy_flag = 0;
        assert!(volume.check(126_976).is_err());
        let mut bytes = volume.encode();
        bytes[13] ^= 1;
        assert_eq!(VolumeHeader::decode(&bytes), Decoded::Bad);
        assert_eq!(VolumeHeader::decode(&[0xff; HEADER_BYTES]), Decoded::Blank);
    }

    /// The header that Linux 6.12 wrote after `ubiformat -Q 11` and one erase.
    #[test]
    fn the_crc_is_the_kernels() {
        let header = EraseCounterHeader {
            version: 1,
            erase_counter: 1,
            header_offset: 512,
            data_offset: 2048,
            image_sequence: 11,
        };
        assert_eq!(be32(&header.encode(), 60), 0xdae0_5104);
    }
}

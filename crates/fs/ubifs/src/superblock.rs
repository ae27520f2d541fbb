//! The superblock: what never changes but the number of eraseblocks.
//!
//! Source: `fs/ubifs/sb.c`. A format: uses formats and the sizes that a mount may choose.

use crate::compress::Compressor;
use crate::lpt_shape::{LptInput, LptShape};
use crate::nodes::{SUPERBLOCK_BYTES, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::profile::NewFileSystem;
use crate::volume_shape::VolumeShape;

/// Flags of the superblock.
pub(crate) mod flag {
    pub(crate) const BIG_LPT: u32 = 2;
    pub(crate) const SPACE_FIXUP: u32 = 4;
    pub(crate) const DOUBLE_HASH: u32 = 8;
    pub(crate) const ENCRYPTION: u32 = 0x10;
    pub(crate) const AUTHENTICATION: u32 = 0x20;
    pub(crate) const ALL: u32 = 0x3e;
}

/// Fewest eraseblocks of each area.
const MIN_LOG_LEBS: u32 = 2;
const MIN_LPT_LEBS: u32 = 2;
const MIN_ORPHAN_LEBS: u32 = 1;
/// Eraseblocks that the index always has (`MIN_INDEX_LEBS`).
pub(crate) const MIN_INDEX_LEBS: u32 = 2;
const MIN_MAIN_LEBS: u32 = MIN_INDEX_LEBS + 1 + 6;
const MIN_BUD_LEBS: u32 = 3;
const MIN_JOURNAL_LEBS: u32 = MIN_LOG_LEBS + MIN_BUD_LEBS;
/// Fewest eraseblocks of all.
pub(crate) const MIN_LEBS: u32 =
    1 + 2 + MIN_LOG_LEBS + MIN_LPT_LEBS + MIN_ORPHAN_LEBS + MIN_MAIN_LEBS;
const MIN_LEB_BYTES: u32 = 15 * 1024;
const MIN_FANOUT: u32 = 3;
/// Defaults of a file system that the kernel makes on an empty volume.
const JOURNAL_PERCENT: u64 = 5;
const MAX_JOURNAL_BYTES: u64 = 32 << 20;
const RESERVED_PERCENT: u64 = 5;
const MAX_RESERVED_BYTES: u64 = 5 << 20;
const SAVED_COUNT: u32 = 256;
const FANOUT: u32 = 8;
const NEWEST_FORMAT: u32 = 5;
const OFFSET_OF_PADDING: usize = 256;

/// What the superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) flags: u32,
    pub(crate) min_io: u32,
    pub(crate) leb_bytes: u32,
    pub(crate) leb_count: u32,
    pub(crate) max_leb_count: u32,
    pub(crate) max_bud_bytes: u64,
    pub(crate) log_lebs: u32,
    pub(crate) lpt_lebs: u32,
    pub(crate) orphan_lebs: u32,
    pub(crate) head_count: u32,
    pub(crate) fanout: u32,
    pub(crate) saved_count: u32,
    pub(crate) format: u32,
    pub(crate) compressor: u16,
    pub(crate) reserved_uid: u32,
    pub(crate) reserved_gid: u32,
    pub(crate) reserved_bytes: u64,
    pub(crate) time_unit_ns: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) hash: u8,
    pub(crate) key_format: u8,
    /// Read-only compatible version, and what authentication puts behind it.
    rest: Vec<u8>,
}

impl Superblock {
    pub(crate) fn parse(node: &[u8]) -> Self {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&node[108..124]);
        Self {
            hash: node[26],
            key_format: node[27],
            flags: u32_at(node, 28),
            min_io: u32_at(node, 32),
            leb_bytes: u32_at(node, 36),
            leb_count: u32_at(node, 40),
            max_leb_count: u32_at(node, 44),
            max_bud_bytes: u64_at(node, 48),
            log_lebs: u32_at(node, 56),
            lpt_lebs: u32_at(node, 60),
            orphan_lebs: u32_at(node, 64),
            head_count: u32_at(node, 68),
            fanout: u32_at(node, 72),
            saved_count: u32_at(node, 76),
            format: u32_at(node, 80),
            compressor: u16_at(node, 84),
            reserved_uid: u32_at(node, 88),
            reserved_gid: u32_at(node, 92),
            reserved_bytes: u64_at(node, 96),
            time_unit_ns: u32_at(node, 104),
            uuid,
            rest: node[124..].to_vec(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut node = vec![0; SUPERBLOCK_BYTES];
        node[26] = self.hash;
        node[27] = self.key_format;
        put_u32(&mut node, 28, self.flags);
        put_u32(&mut node, 32, self.min_io);
        put_u32(&mut node, 36, self.leb_bytes);
        put_u32(&mut node, 40, self.leb_count);
        put_u32(&mut node, 44, self.max_leb_count);
        put_u64(&mut node, 48, self.max_bud_bytes);
        put_u32(&mut node, 56, self.log_lebs);
        put_u32(&mut node, 60, self.lpt_lebs);
        put_u32(&mut node, 64, self.orphan_lebs);
        put_u32(&mut node, 68, self.head_count);
        put_u32(&mut node, 72, self.fanout);
        put_u32(&mut node, 76, self.saved_count);
        put_u32(&mut node, 80, self.format);
        put_u16(&mut node, 84, self.compressor);
        put_u32(&mut node, 88, self.reserved_uid);
        put_u32(&mut node, 92, self.reserved_gid);
        put_u64(&mut node, 96, self.reserved_bytes);
        put_u32(&mut node, 104, self.time_unit_ns);
        node[108..124].copy_from_slice(&self.uuid);
        node[124..].copy_from_slice(&self.rest);
        node
    }

    pub(crate) fn has_big_lpt(&self) -> bool {
        self.flags & flag::BIG_LPT != 0
    }

    fn area_lebs(&self) -> u64 {
        3 + u64::from(self.log_lebs) + u64::from(self.lpt_lebs) + u64::from(self.orphan_lebs)
    }

    /// Why this cannot be the superblock of a file system on such a volume (`validate_sb`).
    // One function: a list of conditions, each of which stands alone.
    pub(crate) fn check(&self, shape: VolumeShape, newest_format: u32) -> Result<(), String> {
        if self.flags & flag::AUTHENTICATION != 0 {
            return Err("it is authenticated; images without authentication can be mounted".into());
        }
        if self.flags & flag::ENCRYPTION != 0 {
            return Err("it is encrypted; images without fscrypt can be mounted".into());
        }
        if self.format > newest_format {
            return Err(format!(
                "its format is {}, the kernel of this profile reads up to {newest_format}",
                self.format
            ));
        }
        if self.flags & !flag::ALL != 0 {
            return Err(format!("its flags {:#x} are not known", self.flags));
        }
        if self.min_io != shape.min_io_bytes {
            return Err(format!(
                "its unit of writing is {} bytes, the volume's {}",
                self.min_io, shape.min_io_bytes
            ));
        }
        if self.leb_bytes != shape.leb_bytes {
            return Err(format!(
                "its eraseblocks have {} bytes, the volume's {}; attach with the VID header offset \
                 that the image was made for",
                self.leb_bytes, shape.leb_bytes
            ));
        }
        let areas = self.area_lebs();
        if u64::from(self.leb_count) < areas + u64::from(self.head_count) + 8
            || self.leb_count > shape.leb_count
        {
            return Err(format!(
                "it has {} eraseblocks, the volume {}",
                self.leb_count, shape.leb_count
            ));
        }
        let main_lebs = u64::from(self.leb_count).saturating_sub(areas);
        let is_possible = self.hash == 0
            && self.key_format == 0
            && self.leb_bytes >= MIN_LEB_BYTES
            && self.min_io >= 8
            && self.min_io.is_power_of_two()
            // Volumes of UBI have whole units; a file taken for one may not.
            && self.leb_bytes.is_multiple_of(self.min_io)
            && self.log_lebs >= MIN_LOG_LEBS
            && self.lpt_lebs >= MIN_LPT_LEBS
            && self.orphan_lebs >= MIN_ORPHAN_LEBS
            && main_lebs >= u64::from(MIN_MAIN_LEBS)
            && self.max_leb_count >= self.leb_count
            && self.max_leb_count < 1 << 28
            && self.max_bud_bytes >= u64::from(self.leb_bytes) * u64::from(MIN_BUD_LEBS)
            && self.max_bud_bytes <= u64::from(self.leb_bytes) * main_lebs
            && self.head_count == 1
            && self.fanout >= MIN_FANOUT
            && u64::from(self.fanout) * 20 + 28 <= u64::from(self.leb_bytes)
            && (self.saved_count <= SAVED_COUNT || u64::from(self.saved_count) <= main_lebs)
            && Compressor::from_number(self.compressor).is_some()
            && self.reserved_bytes <= u64::from(self.leb_bytes) * main_lebs
            && (1..=1_000_000_000).contains(&self.time_unit_ns)
            // Format 5 exists for double hashes only (`ubifs_read_superblock`).
            && (self.format < NEWEST_FORMAT || self.flags & flag::DOUBLE_HASH != 0);
        if is_possible { Ok(()) } else { Err("its numbers contradict each other".into()) }
    }

    // One function: the size of each area depends on those before it.
    /// The superblock of a file system that a kernel makes on an empty volume
    /// (`create_default_filesystem`); none if the volume is too small.
    pub(crate) fn default_for(
        shape: VolumeShape,
        format: u32,
        compressor: Compressor,
        new: NewFileSystem,
    ) -> Option<Self> {
        let (leb_bytes, leb_count) = (u64::from(shape.leb_bytes), shape.leb_count);
        if leb_count < MIN_LEBS || shape.leb_bytes < MIN_LEB_BYTES {
            return None;
        }
        let mut journal =
            (u64::from(leb_count) * JOURNAL_PERCENT / 100).max(MIN_JOURNAL_LEBS.into());
        if journal * leb_bytes > MAX_JOURNAL_BYTES {
            journal = MAX_JOURNAL_BYTES / leb_bytes;
        }
        if let Some(bytes) = new.journal_bytes {
            journal = (bytes / leb_bytes).clamp(MIN_JOURNAL_LEBS.into(), leb_count.into());
        }
        let max_leb_count = new.max_leb_count.unwrap_or(leb_count).max(leb_count);
        let reference = u64::from(64_u32.next_multiple_of(shape.min_io_bytes));
        let mut fewest = MIN_LEBS;
        // Twice the references that a full journal needs, one for the commit, one to write on meanwhile.
        let mut log_lebs = (2 * reference * journal).div_ceil(leb_bytes) as u32 + 1;
        // `create_default_filesystem`: with eraseblocks to spare, one more lets writes go on while
        // a commit is made.
        if leb_count - fewest > 8 {
            log_lebs += 1;
            fewest += 1;
        }
        let buds = (journal as u32).saturating_sub(log_lebs).max(MIN_BUD_LEBS);
        let orphan_lebs = MIN_ORPHAN_LEBS + u32::from(leb_count - fewest > 1);
        let both_lebs = leb_count.checked_sub(3 + log_lebs + orphan_lebs)?;
        // The tree has room for all eraseblocks that may come.
        let input = LptInput {
            leb_bytes: shape.leb_bytes,
            min_io: shape.min_io_bytes,
            leb_count: max_leb_count,
            max_leb_count,
            main_lebs: both_lebs,
            lpt_lebs: 2,
            saved_count: SAVED_COUNT,
            is_big: false,
        };
        let (tree, lpt_lebs, _) = LptShape::fit(input, both_lebs + (max_leb_count - leb_count))?;
        let main_lebs = both_lebs.checked_sub(lpt_lebs)?;
        let mut rest = vec![0; SUPERBLOCK_BYTES - 124];
        if format >= NEWEST_FORMAT {
            // No hash algorithm: not authenticated.
            rest[OFFSET_OF_PADDING - 124..OFFSET_OF_PADDING - 122].fill(0xff);
        }
        Some(Self {
            flags: if tree.is_big { flag::BIG_LPT } else { 0 }
                | if format >= NEWEST_FORMAT { flag::DOUBLE_HASH } else { 0 },
            min_io: shape.min_io_bytes,
            leb_bytes: shape.leb_bytes,
            leb_count,
            max_leb_count,
            max_bud_bytes: u64::from(buds) * leb_bytes,
            log_lebs,
            lpt_lebs,
            orphan_lebs,
            head_count: 1,
            fanout: FANOUT,
            saved_count: SAVED_COUNT,
            format,
            compressor: compressor.number(),
            reserved_uid: 0,
            reserved_gid: 0,
            reserved_bytes: new.reserved_bytes.unwrap_or(
                (u64::from(main_lebs) * leb_bytes * RESERVED_PERCENT / 100).min(MAX_RESERVED_BYTES),
            ),
            // `DEFAULT_TIME_GRAN`: the kernel keeps whole seconds for file systems that it makes.
            time_unit_ns: 1_000_000_000,
            uuid: [0; 16],
            hash: 0,
            key_format: 0,
            rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Superblock, flag};
    use crate::compress::Compressor;
    use crate::profile::NewFileSystem;
    use crate::volume_shape::VolumeShape;

    const SHAPE: VolumeShape = VolumeShape {
        leb_bytes: 126_976,
        leb_count: 2004,
        min_io_bytes: 2048,
        max_write_bytes: 2048,
    };

    fn made() -> Superblock {
        Superblock::default_for(SHAPE, 4, Compressor::Lzo, NewFileSystem::default())
            .expect("it fits")
    }

    #[test]
    fn a_default_file_system_is_the_kernels() {
        let superblock = made();
        assert_eq!((superblock.max_bud_bytes, superblock.log_lebs), (94 * 126_976, 6));
        assert_eq!(u64::from(superblock.leb_count) - superblock.area_lebs(), 1991);
        assert_eq!(superblock.check(SHAPE, 4), Ok(()));
        assert_eq!(Superblock::parse(&superblock.to_bytes()), superblock);
        let small = VolumeShape { leb_count: 16, ..SHAPE };
        let new = NewFileSystem::default();
        assert!(Superblock::default_for(small, 4, Compressor::Lzo, new).is_none());
    }

    #[test]
    fn a_superblock_that_cannot_be_mounted_has_a_reason() {
        let because = |change: fn(&mut Superblock), shape: VolumeShape, what: &str| {
            let mut superblock = made();
            change(&mut superblock);
            let reason = superblock.check(shape, 5).expect_err("refused");
            assert!(reason.contains(what), "{reason}");
        };
        because(|it| it.flags |= flag::AUTHENTICATION, SHAPE, "authenticated");
        because(|it| it.flags |= flag::ENCRYPTION, SHAPE, "encrypted");
        because(|it| it.format = 6, SHAPE, "format is 6");
        because(|it| it.format = 5, SHAPE, "contradict");
        because(|it| it.flags |= 0x100, SHAPE, "not known");
        because(|it| it.fanout = 2, SHAPE, "contradict");
        let odd = VolumeShape { leb_bytes: 126_977, ..SHAPE };
        because(|it| it.leb_bytes = 126_977, odd, "contradict");
        because(|_| (), VolumeShape { leb_bytes: 129_024, ..SHAPE }, "header offset");
        because(|_| (), VolumeShape { leb_count: 2003, ..SHAPE }, "2003");
        let mut double = made();
        (double.format, double.flags) = (5, flag::DOUBLE_HASH);
        assert_eq!(double.check(SHAPE, 5), Ok(()));
        assert!(double.check(SHAPE, 4).is_err());
    }
}

//! The boot sector: where everything is on a volume.
//!
//! Source: `fat_read_bpb` and `fat_fill_super` of `fs/fat/inode.c`, Linux 6.12.
//!
//! May use no other file of the crate.

use thiserror::Error;

/// Bytes of the sectors that are supported.
pub const SECTOR_BYTES: usize = units::SECTOR_BYTES;
/// Number of the first cluster of data.
pub(crate) const FIRST_CLUSTER: u32 = 2;
/// Most clusters that a volume has whose entries take 12 bits (`MAX_FAT12`).
pub(crate) const CLUSTERS_12_MAX: u32 = 0xff4;
/// Most clusters of a volume whose entries take 16 bits (`MAX_FAT16` of `fs/fat/fat.h`).
const CLUSTERS_16_MAX: u32 = 0xfff4;
/// Most clusters of a volume whose entries take 32 bits (`MAX_FAT32`).
const CLUSTERS_32_MAX: u32 = 0x0fff_fff6;
/// The bit of the state byte that a mount sets.
const STATE_DIRTY: u8 = 1;

/// Why a medium cannot be mounted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MountError {
    /// The boot sector is of no FAT volume.
    #[error("no FAT volume here: {0}")]
    NotFat(String),
    /// The volume is one that is not supported.
    #[error("{0} are not supported")]
    Unsupported(&'static str),
    /// A read of the medium failed.
    #[error(transparent)]
    Medium(#[from] block_medium::MediumError),
    /// What the mount reads makes no sense.
    #[error("the volume is damaged: {0}")]
    Damaged(String),
}

/// Width of the entries of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FatType {
    /// 12 bits, two entries in three bytes.
    Fat12,
    /// 16 bits, all of which count.
    Fat16,
    /// 32 bits, of which 28 count.
    Fat32,
}

impl FatType {
    /// Bits of an entry.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Fat12 => 12,
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }

    /// The entry of the last cluster of a chain, as it is written.
    pub(crate) const fn end_mark(self) -> u32 {
        match self {
            Self::Fat12 => 0xfff,
            Self::Fat16 => 0xffff,
            Self::Fat32 => 0x0fff_ffff,
        }
    }

    /// Where a state byte stands in the boot sector.
    pub(crate) const fn state_offset(self) -> usize {
        match self {
            Self::Fat12 | Self::Fat16 => 37,
            Self::Fat32 => 65,
        }
    }
}

/// The layout of a volume, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Width of table entries.
    pub kind: FatType,
    /// Sectors of a cluster.
    pub cluster_sectors: u32,
    /// First sector of the first table.
    pub table_start: u32,
    /// Sectors of a table.
    pub table_sectors: u32,
    /// Copies of the table.
    pub tables: u32,
    /// First sector of the root directory of FAT12 and FAT16.
    pub root_start: u32,
    /// Slots of that root directory.
    pub root_slots: u32,
    /// First cluster of the root directory of FAT32, else zero.
    pub root_cluster: u32,
    /// First sector of cluster 2.
    pub data_start: u32,
    /// Clusters of data, without the two that are none.
    pub clusters: u32,
    /// Sector of FSInfo of FAT32, if it has one.
    pub info_sector: Option<u32>,
    /// Sectors of the volume.
    pub sectors: u32,
    /// The volume was not unmounted in an orderly way.
    pub is_dirty: bool,
}

impl Volume {
    /// Reads a boot sector.
    ///
    /// # Errors
    /// [`MountError::NotFat`] with what is wrong, [`MountError::Unsupported`].
    pub fn decode(sector: &[u8]) -> Result<Self, MountError> {
        // One function: each check relies on the fields that the checks before it have accepted, in
        // the order of `fat_fill_super` and `fat_read_bpb`.
        let not_fat = |why: &str| Err(MountError::NotFat(why.into()));
        let u16_at = |at: usize| u32::from(u16::from_le_bytes([sector[at], sector[at + 1]]));
        let u32_at = |at: usize| u16_at(at) | u16_at(at + 2) << 16;
        if sector.len() < SECTOR_BYTES {
            return not_fat("the medium is shorter than a boot sector");
        }
        let (reserved, tables, media) = (u16_at(14), u32::from(sector[16]), sector[21]);
        if reserved == 0 {
            return not_fat("no reserved sectors");
        }
        if tables == 0 {
            return not_fat("no tables");
        }
        // `fat_valid_media`. The signature 0x55AA is not asked for, as in the kernel.
        if media != 0xf0 && media < 0xf8 {
            return not_fat("no media type");
        }
        let sector_bytes = u16_at(11);
        if !sector_bytes.is_power_of_two() || !(512..=4096).contains(&sector_bytes) {
            return not_fat("a sector size that cannot be");
        }
        if sector_bytes as usize != SECTOR_BYTES {
            return Err(MountError::Unsupported("sectors of more than 512 bytes"));
        }
        let cluster_sectors = u32::from(sector[13]);
        if !cluster_sectors.is_power_of_two() {
            return not_fat("a cluster size that cannot be");
        }
        // Only the place of the table's length decides on FAT32. Between the other two the number
        // of clusters does.
        let is_32 = u16_at(22) == 0 && u32_at(36) != 0;
        let table_sectors = if is_32 { u32_at(36) } else { u16_at(22) };
        if table_sectors == 0 {
            return not_fat("tables of no sectors");
        }
        let root_slots = u16_at(17);
        if !root_slots.is_multiple_of(SECTOR_BYTES as u32 / 32) {
            return not_fat("a root directory that ends within a sector");
        }
        // The older field goes before; the newer one counts where it is zero.
        let sectors = if u16_at(19) == 0 { u32_at(32) } else { u16_at(19) };
        let table_start = reserved;
        let root_start =
            tables.checked_mul(table_sectors).and_then(|all| all.checked_add(reserved));
        let Some(root_start) = root_start else { return not_fat("tables larger than a volume") };
        let data_start = root_start.saturating_add(root_slots * 32 / SECTOR_BYTES as u32);
        if data_start >= sectors {
            return not_fat("no room for data");
        }
        let clusters = (sectors - data_start) / cluster_sectors;
        let kind = match clusters {
            // Whatever the number of clusters: a small FAT32 volume is one, against Microsoft's
            // rule.
            _ if is_32 => FatType::Fat32,
            0..=CLUSTERS_12_MAX => FatType::Fat12,
            _ => FatType::Fat16,
        };
        // A table may be too short for the clusters: the kernel counts those that it has entries for.
        let entries = u64::from(table_sectors) * SECTOR_BYTES as u64 * 8 / u64::from(kind.bits());
        let clusters = u64::from(clusters).min(entries.saturating_sub(2)) as u32;
        let clusters_max = if kind == FatType::Fat32 { CLUSTERS_32_MAX } else { CLUSTERS_16_MAX };
        if clusters == 0 || clusters > clusters_max {
            return not_fat("a number of clusters that cannot be");
        }
        let (root_cluster, info_sector) = match kind {
            FatType::Fat32 => {
                // A zero stands for sector 1 (`fat_fill_super`). That it lies in the reserved
                // sectors is asked here only: the kernel goes by the signatures in it.
                (u32_at(44), Some(u16_at(48).max(1)).filter(|sector| *sector < reserved))
            }
            _ => (0, None),
        };
        Ok(Self {
            kind,
            cluster_sectors,
            table_start,
            table_sectors,
            tables,
            root_start,
            root_slots,
            root_cluster,
            data_start,
            clusters,
            info_sector,
            sectors,
            is_dirty: sector[kind.state_offset()] & STATE_DIRTY != 0,
        })
    }

    /// Bytes of a cluster.
    pub fn cluster_bytes(&self) -> u64 {
        u64::from(self.cluster_sectors) * SECTOR_BYTES as u64
    }

    /// The number behind that of the last cluster (`max_cluster`).
    pub(crate) fn cluster_end(&self) -> u32 {
        self.clusters + FIRST_CLUSTER
    }

    /// True of the number of a cluster of data.
    pub(crate) fn has_cluster(&self, cluster: u32) -> bool {
        (FIRST_CLUSTER..self.cluster_end()).contains(&cluster)
    }

    /// First sector of a cluster.
    pub(crate) fn sector_of(&self, cluster: u32) -> u64 {
        // Entries 0 and 1 of the table have other uses, so data begins with cluster 2.
        let index = u64::from(cluster - FIRST_CLUSTER);
        u64::from(self.data_start) + index * u64::from(self.cluster_sectors)
    }

    /// Sets or clears the bit that says whether the volume is mounted.
    pub(crate) fn set_dirty(&self, sector: &mut [u8], is_dirty: bool) {
        let state = &mut sector[self.kind.state_offset()];
        *state = if is_dirty { *state | STATE_DIRTY } else { *state & !STATE_DIRTY };
    }
}

/// The counters of FAT32's FSInfo sector: free clusters, none where the sector does not have them, and
/// the one allocated last as it stands there. None if it is no FSInfo.
pub(crate) fn decode_info(sector: &[u8]) -> Option<(Option<u32>, u32)> {
    let at = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes"));
    let stored = |value: u32| (value != u32::MAX).then_some(value);
    (at(0) == 0x4161_5252 && at(484) == 0x6141_7272).then(|| (stored(at(488)), at(492)))
}

#[cfg(test)]
mod tests {
    use super::{FatType, MountError, Volume};

    /// A boot sector of 512-byte sectors: one reserved, two tables of 64, 512 slots, clusters of 4 sectors.
    fn fat16(sectors: u16) -> [u8; 512] {
        let mut sector = [0; 512];
        sector[11..13].copy_from_slice(&512_u16.to_le_bytes());
        sector[13] = 4;
        sector[14..16].copy_from_slice(&1_u16.to_le_bytes());
        sector[16] = 2;
        sector[17..19].copy_from_slice(&512_u16.to_le_bytes());
        sector[19..21].copy_from_slice(&sectors.to_le_bytes());
        sector[21] = 0xf8;
        sector[22..24].copy_from_slice(&64_u16.to_le_bytes());
        sector
    }

    #[test]
    fn the_parts_of_a_volume_follow_each_other() {
        let volume = Volume::decode(&fat16(60_000)).expect("a volume");
        // 1 reserved, 128 of tables, 32 of the root directory; (60,000 - 161) / 4 clusters.
        assert_eq!((volume.table_start, volume.root_start, volume.data_start), (1, 129, 161));
        assert_eq!(
            (volume.kind, volume.clusters, volume.sectors),
            (FatType::Fat16, 14_959, 60_000)
        );
        assert_eq!((volume.cluster_end(), volume.cluster_bytes()), (14_961, 2048));
        assert!(volume.has_cluster(2) && volume.has_cluster(14_960));
        assert!(!volume.has_cluster(1) && !volume.has_cluster(14_961));
        assert_eq!((volume.sector_of(2), volume.sector_of(3)), (161, 165));
        // More sectors than 16 bits hold stand in another field; a table has 16,384 entries.
        let mut large = fat16(0);
        large[32..36].copy_from_slice(&70_000_u32.to_le_bytes());
        let volume = Volume::decode(&large).expect("a volume");
        assert_eq!((volume.sectors, volume.clusters), (70_000, 16_382));
        // 4084 clusters are the most of FAT12 (`MAX_FAT12`).
        let kind = |clusters: u16| {
            Volume::decode(&fat16(161 + 4 * clusters)).map(|volume| (volume.kind, volume.clusters))
        };
        assert_eq!(kind(4084).expect("a volume"), (FatType::Fat12, 4084));
        assert_eq!(kind(4085).expect("a volume"), (FatType::Fat16, 4085));
        assert_eq!(kind(1).expect("a volume"), (FatType::Fat12, 1));
    }

    /// `fat_read_bpb` of `fs/fat/inode.c`: what no volume can be, field by field.
    #[test]
    fn every_field_that_cannot_be_is_told() {
        let message_of = |changes: &[(usize, &[u8])]| {
            let mut sector = fat16(60_000);
            for (at, bytes) in changes {
                sector[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            match Volume::decode(&sector) {
                Ok(_) => "a volume".to_owned(),
                Err(MountError::NotFat(why)) => why,
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(message_of(&[]), "a volume");
        assert_eq!(message_of(&[(14, &[0, 0])]), "no reserved sectors");
        assert_eq!(message_of(&[(16, &[0])]), "no tables");
        // 0xf0 and all from 0xf8 on (`fat_valid_media`).
        for (media, is_one) in [(0xf0, true), (0xf7, false), (0xf8, true), (0xff, true), (0, false)]
        {
            let expected = if is_one { "a volume" } else { "no media type" };
            assert_eq!(message_of(&[(21, &[media])]), expected, "{media:#x}");
        }
        for bytes in [0_u16, 256, 768, 8192] {
            let expected = "a sector size that cannot be";
            assert_eq!(message_of(&[(11, &bytes.to_le_bytes())]), expected, "{bytes}");
        }
        assert!(message_of(&[(11, &4096_u16.to_le_bytes())]).contains("more than 512 bytes"));
        for count in [0, 3] {
            assert_eq!(message_of(&[(13, &[count])]), "a cluster size that cannot be");
        }
        assert_eq!(message_of(&[(22, &[0, 0])]), "tables of no sectors");
        assert_eq!(message_of(&[(17, &[8, 2])]), "a root directory that ends within a sector");
        assert_eq!(message_of(&[(19, &[161, 0])]), "no room for data");
        assert_eq!(message_of(&[(19, &[164, 0])]), "a number of clusters that cannot be");
        assert_eq!(message_of(&[(19, &[165, 0])]), "a volume");
        assert!(matches!(Volume::decode(&[0; 511]), Err(MountError::NotFat(_))));
    }

    /// Two halves of 32-bit fields: a volume of FAT32 has its tables' length and its root in the second part.
    #[test]
    fn a_volume_of_fat32_tells_its_tables_and_root_in_32_bits() {
        let mut sector = fat16(0);
        sector[14..16].copy_from_slice(&32_u16.to_le_bytes());
        sector[17..19].copy_from_slice(&[0, 0]);
        sector[22..24].copy_from_slice(&[0, 0]);
        sector[32..36].copy_from_slice(&1_000_000_u32.to_le_bytes());
        sector[36..40].copy_from_slice(&70_000_u32.to_le_bytes());
        sector[44..48].copy_from_slice(&0x0001_0002_u32.to_le_bytes());
        sector[48..50].copy_from_slice(&1_u16.to_le_bytes());
        let volume = Volume::decode(&sector).expect("a volume");
        assert_eq!((volume.kind, volume.table_sectors), (FatType::Fat32, 70_000));
        assert_eq!((volume.root_cluster, volume.info_sector), (0x0001_0002, Some(1)));
        assert_eq!((volume.data_start, volume.clusters), (140_032, 214_992));
        // The sector of FSInfo is one of the reserved ones, or there is none.
        sector[48..50].copy_from_slice(&32_u16.to_le_bytes());
        assert_eq!(Volume::decode(&sector).expect("a volume").info_sector, None);
    }

    /// The most clusters that FAT32 can number are `MAX_FAT32` of `fs/fat/fat.h`.
    #[test]
    fn the_largest_volumes_of_fat32_have_so_many_clusters() {
        let mut sector = fat16(0);
        sector[13] = 1;
        sector[14..16].copy_from_slice(&32_u16.to_le_bytes());
        sector[16] = 1;
        sector[17..19].copy_from_slice(&[0, 0]);
        sector[22..24].copy_from_slice(&[0, 0]);
        let table_sectors = 0x20_0000_u32;
        sector[36..40].copy_from_slice(&table_sectors.to_le_bytes());
        for (clusters, is_one) in
            [(0x0fff_fff4_u32, true), (0x0fff_fff6, true), (0x0fff_fff7, false)]
        {
            let sectors = 32 + table_sectors + clusters;
            sector[32..36].copy_from_slice(&sectors.to_le_bytes());
            let volume = Volume::decode(&sector).map(|volume| volume.clusters);
            assert_eq!(volume.ok(), is_one.then_some(clusters), "{clusters:#x}");
        }
    }
}

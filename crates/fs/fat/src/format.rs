//! Making an empty volume, as mkfs.vfat does.
//!
//! Source: `mkfs.fat.c` of dosfstools 4.2 (`establish_params`, `setup_tables`). Left out: the layouts of
//! floppy disks, for which mkfs.vfat has a table by size.
//!
//! May use: `boot`, `names`.

use crate::boot::{FatType, SECTOR_BYTES};
use crate::names::{Record, SLOT_BYTES};
use block_medium::{BlockMedium, MediumError, WriteFlags};
use fs_api::Time;
use thiserror::Error;

const SECTOR: u64 = SECTOR_BYTES as u64;
const TABLES: u64 = 2;
const MEDIA_FIXED_DISK: u8 = 0xf8;
/// Most clusters for entries of 12, 16 and 28 bits, and fewest for 16 bits.
const CLUSTERS_MAX: [u64; 3] = [4084, 65_524, 268_435_446];
const CLUSTERS_16_MIN: u64 = 4087;
/// Volumes of so many bytes and more have entries of 32 bits.
const FAT32_BYTES: u64 = 512 << 20;
/// Structures of volumes of so many sectors and fewer are not aligned to clusters.
const TINY_SECTORS: u64 = 8192;

/// What may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Width of entries; none for the usual one of the size.
    pub kind: Option<FatType>,
    /// Sectors of a cluster; none for the usual number.
    pub cluster_sectors: Option<u32>,
    /// Serial number of the volume.
    pub volume_id: u32,
    /// Label: eleven bytes of ASCII at most; none is "NO NAME".
    pub label: Option<String>,
}

impl Default for FormatOptions {
    /// The serial number is that of `mkfs.vfat --invariant`.
    fn default() -> Self {
        Self { kind: None, cluster_sectors: None, volume_id: 0x1234_abcd, label: None }
    }
}

/// Why no volume can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The device has too few or too many clusters of the size.
    #[error("no volume fits: too few or too many clusters; choose another size of clusters")]
    NoFit,
    /// A size of clusters that cannot be.
    #[error("a cluster cannot have {0} sectors: a power of two up to 128")]
    ClusterSectors(u32),
    /// A label that cannot be.
    #[error("a label has eleven letters of ASCII at most")]
    Label,
    /// A write to the medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// Sizes of a volume, in sectors.
struct Layout {
    kind: FatType,
    sectors: u64,
    track_sectors: u64,
    heads: u64,
    cluster_sectors: u64,
    reserved: u64,
    table_sectors: u64,
    root_slots: u64,
    clusters: u64,
}

/// Tracks and heads of a disk, by its sectors, as the standard of SD cards has them.
fn geometry(sectors: u64) -> (u64, u64) {
    const TABLE: [(u64, u64, u64); 9] = [
        (2, 16, 2),
        (16, 32, 2),
        (32, 32, 4),
        (128, 32, 8),
        (256, 32, 16),
        (504, 63, 16),
        (1008, 63, 32),
        (2016, 63, 64),
        (4032, 63, 128),
    ];
    let fits = |row: &&(u64, u64, u64)| sectors * SECTOR <= row.0 << 20;
    TABLE.iter().find(fits).map_or((63, 255), |(_, track, heads)| (*track, *heads))
}

fn layout(device_bytes: u64, options: &FormatOptions) -> Result<Layout, FormatError> {
    // One function: every size depends on the ones before it, and mkfs.vfat computes them in this
    // order.
    let all = device_bytes / SECTOR;
    let (track_sectors, heads) = geometry(all);
    // Whole tracks only, as the tool rounds down: the last sectors of a device may stay outside of
    // the volume.
    let sectors = all / track_sectors * track_sectors;
    let is_32 = match options.kind {
        // The size decides unless a width was asked for; a small volume may be made FAT32 on
        // request.
        Some(kind) => kind == FatType::Fat32,
        None => device_bytes >= FAT32_BYTES,
    };
    let mut cluster_sectors = match options.cluster_sectors {
        Some(chosen) if !chosen.is_power_of_two() || chosen > 128 => {
            return Err(FormatError::ClusterSectors(chosen));
        }
        Some(chosen) => u64::from(chosen),
        None if is_32 => match device_bytes >> 20 {
            0..260 => 1,
            260..8192 => 8,
            8192..16_384 => 16,
            16_384..32_768 => 32,
            _ => 64,
        },
        None => 4,
    };
    let is_aligned = sectors > TINY_SECTORS;
    let root_slots = if is_32 { 0 } else { 512 };
    loop {
        // Tables and data begin at multiples of a cluster, so that clusters lie on the blocks of
        // flash media as far as the start of the partition does.
        let align = |count: u64| {
            if is_aligned { count.next_multiple_of(cluster_sectors) } else { count }
        };
        let reserved = align(if is_32 { 32 } else { 1 });
        let root_sectors = root_slots * SLOT_BYTES as u64 / SECTOR;
        let Some(room) = sectors.checked_sub(reserved + align(root_sectors)) else {
            return Err(FormatError::NoFit);
        };
        // In bits of an entry: first how many clusters there are if tables are as short as can be.
        let fit = |kind: FatType| {
            let bits = u64::from(kind.bits());
            let per_cluster = 8 * cluster_sectors * SECTOR + TABLES * bits;
            let clusters = (8 * room * SECTOR + TABLES * 2 * bits) / per_cluster;
            let table_bytes = ((clusters + 2) * bits).div_ceil(8);
            let table_sectors = align(table_bytes.div_ceil(SECTOR));
            let clusters = room.saturating_sub(TABLES * table_sectors) / cluster_sectors;
            // Aligned tables hold more entries than are needed, but a volume must not have more
            // clusters than entries.
            let entries = table_sectors * SECTOR * 8 / bits;
            let (index, least) = match kind {
                FatType::Fat12 => (0, 1),
                FatType::Fat16 => (1, CLUSTERS_16_MIN),
                FatType::Fat32 => (2, 1),
            };
            let fits = (least..=entries.min(CLUSTERS_MAX[index])).contains(&clusters);
            fits.then_some((clusters, table_sectors, kind))
        };
        let kinds: &[FatType] = match options.kind {
            Some(FatType::Fat12) => &[FatType::Fat12],
            Some(FatType::Fat16) => &[FatType::Fat16],
            _ if is_32 => &[FatType::Fat32],
            _ => &[FatType::Fat12, FatType::Fat16],
        };
        // Of two widths that fit, the one with more clusters.
        let best = kinds.iter().filter_map(|kind| fit(*kind)).max_by_key(|fit| (fit.0, fit.2));
        if let Some((clusters, table_sectors, kind)) = best {
            let (reserved, root_slots) = (reserved, align(root_sectors) * SECTOR / 32);
            return Ok(Layout {
                kind,
                sectors,
                track_sectors,
                heads,
                cluster_sectors,
                reserved,
                table_sectors,
                root_slots,
                clusters,
            });
        }
        // Too many clusters of this size for any width: the tool tries the next one.
        cluster_sectors *= 2;
        if options.cluster_sectors.is_some() || cluster_sectors > 128 {
            return Err(FormatError::NoFit);
        }
    }
}

/// Makes an empty volume on a medium of blocks of 512 bytes. Sectors of data stay as they are.
///
/// # Errors
/// [`FormatError::NoFit`], [`FormatError::ClusterSectors`] and [`FormatError::Label`] for the options,
/// [`FormatError::Medium`] if the device fails.
pub async fn format(medium: &dyn BlockMedium, options: &FormatOptions) -> Result<(), FormatError> {
    let layout = layout(medium.size_bytes(), options)?;
    let label = label_of(options)?;
    let boot = boot_sector(&layout, options, &label);
    let zeros = vec![0; SECTOR_BYTES];
    let root_sectors = match layout.kind {
        FatType::Fat32 => layout.cluster_sectors,
        _ => layout.root_slots * SLOT_BYTES as u64 / SECTOR,
    };
    let end = layout.reserved + TABLES * layout.table_sectors + root_sectors;
    let root_start = end - root_sectors;
    for sector in 0..end {
        let is_table_start =
            (0..TABLES).any(|table| sector == layout.reserved + table * layout.table_sectors);
        // FAT32 keeps copies of the boot sector and of FSInfo six sectors on; FAT12 and FAT16 have
        // no room for them.
        let bytes = if sector == 0 || layout.kind == FatType::Fat32 && sector == 6 {
            boot.clone()
        } else if layout.kind == FatType::Fat32 && (sector == 1 || sector == 7) {
            info_sector(&layout)
        } else if is_table_start {
            table_head(layout.kind)
        } else if sector == root_start && options.label.is_some() {
            let record = Record { name: label, attributes: 8, ..Record::at(Time::default()) };
            let mut root = zeros.clone();
            root[..SLOT_BYTES].copy_from_slice(&record.encode());
            root
        } else {
            zeros.clone()
        };
        medium.write(sector, bytes, WriteFlags::default()).await?.await?;
    }
    medium.flush().await?;
    Ok(())
}

fn label_of(options: &FormatOptions) -> Result<[u8; 11], FormatError> {
    let label = options.label.as_deref().unwrap_or("NO NAME");
    let is_sound = label.len() <= 11 && label.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    if !is_sound {
        return Err(FormatError::Label);
    }
    let mut bytes = [b' '; 11];
    bytes[..label.len()].copy_from_slice(label.as_bytes());
    Ok(bytes)
}

fn boot_sector(layout: &Layout, options: &FormatOptions, label: &[u8; 11]) -> Vec<u8> {
    let mut sector = vec![0; SECTOR_BYTES];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    let is_32 = layout.kind == FatType::Fat32;
    let u16_of = |value: u64| (value as u16).to_le_bytes();
    let u32_of = |value: u64| (value as u32).to_le_bytes();
    put(0, if is_32 { b"\xeb\x58\x90mkfs.fat" } else { b"\xeb\x3c\x90mkfs.fat" });
    put(11, &u16_of(SECTOR));
    put(13, &[layout.cluster_sectors as u8]);
    put(14, &u16_of(layout.reserved));
    put(16, &[TABLES as u8]);
    put(17, &u16_of(layout.root_slots));
    if layout.sectors < 65_536 && !is_32 {
        put(19, &u16_of(layout.sectors));
    } else {
        put(32, &u32_of(layout.sectors));
    }
    put(21, &[MEDIA_FIXED_DISK]);
    put(24, &u16_of(layout.track_sectors));
    put(26, &u16_of(layout.heads));
    let extended = if is_32 {
        put(36, &u32_of(layout.table_sectors));
        put(44, &u32_of(2));
        put(48, &u16_of(1));
        put(50, &u16_of(6));
        64
    } else {
        put(22, &u16_of(layout.table_sectors));
        36
    };
    put(extended, &[0x80, 0, 0x29]);
    put(extended + 3, &options.volume_id.to_le_bytes());
    put(extended + 7, label);
    put(extended + 18, format!("FAT{}   ", layout.kind.bits()).as_bytes());
    put(510, &[0x55, 0xaa]);
    sector
}

/// FAT32's counters: all clusters but that of the root directory are free.
fn info_sector(layout: &Layout) -> Vec<u8> {
    let mut sector = vec![0; SECTOR_BYTES];
    sector[..4].copy_from_slice(b"RRaA");
    sector[484..488].copy_from_slice(b"rrAa");
    sector[488..492].copy_from_slice(&(layout.clusters as u32 - 1).to_le_bytes());
    sector[492..496].copy_from_slice(&2_u32.to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// The entries of no cluster, and of FAT32's root directory.
fn table_head(kind: FatType) -> Vec<u8> {
    let mut sector = vec![0; SECTOR_BYTES];
    let head: &[u8] = match kind {
        FatType::Fat12 => &[0xf8, 0xff, 0xff],
        FatType::Fat16 => &[0xf8, 0xff, 0xff, 0xff],
        FatType::Fat32 => &[0xf8, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0x0f, 0xf8, 0xff, 0xff, 0x0f],
    };
    sector[..head.len()].copy_from_slice(head);
    sector
}

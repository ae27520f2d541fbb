//! A look at everything on a volume: what fsck.vfat would find.
//!
//! May use: `boot`, `names`.

use crate::boot::{FIRST_CLUSTER, FatType, MountError, SECTOR_BYTES, Volume, decode_info};
use crate::names::{DOT, DOT_DOT, Entry, Parser, SLOT_BYTES, Seen};
use block_medium::BlockMedium;

/// What is wrong with a volume, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Files and directories that names lead to.
    pub files: u64,
    /// Clusters that are taken but no file's.
    pub lost_clusters: u64,
    /// Times a chain came to a cluster that another had.
    pub cross_links: u64,
    /// Sectors in which the copies of the table differ.
    pub table_differences: u64,
    /// Chains that lead to free clusters or to none.
    pub broken_chains: u64,
    /// Files with more clusters than their size needs.
    pub long_chains: u64,
    /// Files with fewer clusters than their size needs.
    pub short_chains: u64,
    /// Slots of long names without a short one.
    pub stray_slots: u64,
    /// Names that stand twice in a directory.
    pub double_names: u64,
    /// Directories that do not begin with themselves and their parent.
    pub bad_directories: u64,
    /// FSInfo has another number of free clusters than there are.
    pub is_free_count_wrong: bool,
    /// The boot sector says that the volume was not unmounted.
    pub is_dirty: bool,
}

impl Check {
    /// True if nothing at all is wrong.
    pub fn is_clean(&self) -> bool {
        *self == Self { files: self.files, ..Self::default() }
    }
}

struct Checker {
    volume: Volume,
    /// Sectors of the volume, read at need.
    bytes: Vec<u8>,
    entries: Vec<u32>,
    is_used: Vec<bool>,
    found: Check,
}

/// Looks at all of a volume; the medium is not changed.
///
/// # Errors
/// [`MountError::NotFat`] and [`MountError::Unsupported`] for the boot sector, [`MountError::Medium`] if the
/// medium cannot be read.
pub async fn check(medium: &dyn BlockMedium) -> Result<Check, MountError> {
    let boot = medium.read(0, 1).await?;
    let volume = Volume::decode(&boot)?;
    if u64::from(volume.sectors) * SECTOR_BYTES as u64 > medium.size_bytes() {
        return Err(MountError::NotFat("the volume is larger than its medium".into()));
    }
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < volume.sectors {
        let count = (volume.sectors - at).min(medium.bio_blocks_max());
        bytes.extend(medium.read(at.into(), count).await?);
        at += count;
    }
    let mut checker = Checker {
        volume,
        entries: Vec::new(),
        is_used: vec![false; volume.cluster_end() as usize],
        found: Check { is_dirty: volume.is_dirty, ..Check::default() },
        bytes,
    };
    checker.read_tables();
    checker.walk();
    checker.count();
    Ok(checker.found)
}

impl Checker {
    fn sectors(&self, first: u64, count: u64) -> &[u8] {
        &self.bytes[first as usize * SECTOR_BYTES..(first + count) as usize * SECTOR_BYTES]
    }

    fn read_tables(&mut self) {
        let volume = self.volume;
        let (first, length) = (u64::from(volume.table_start), u64::from(volume.table_sectors));
        for copy in 1..u64::from(volume.tables) {
            for sector in first..first + length {
                let is_same = self.sectors(sector, 1) == self.sectors(sector + copy * length, 1);
                self.found.table_differences += u64::from(!is_same);
            }
        }
        let table = self.sectors(first, length);
        let u16_at = |at: usize| u32::from(u16::from_le_bytes([table[at], table[at + 1]]));
        let entry = |cluster: usize| match volume.kind {
            FatType::Fat12 => {
                let both = u16_at(cluster + cluster / 2);
                if cluster.is_multiple_of(2) { both & 0xfff } else { both >> 4 }
            }
            FatType::Fat16 => u16_at(2 * cluster),
            FatType::Fat32 => (u16_at(4 * cluster) | u16_at(4 * cluster + 2) << 16) & 0x0fff_ffff,
        };
        self.entries = (0..volume.cluster_end() as usize).map(entry).collect();
    }

    /// Clusters of a chain, marked as used; ends where something is wrong.
    fn chain(&mut self, start: u32) -> Vec<u32> {
        // Marks from …8 on end a chain; …7 is a bad cluster, which no chain may have.
        let end_mark = self.volume.kind.end_mark() & !0xf | 0x8;
        let mut chain = Vec::new();
        if start == 0 {
            return chain;
        }
        let mut cluster = start;
        loop {
            if !self.volume.has_cluster(cluster) || self.entries[cluster as usize] == 0 {
                self.found.broken_chains += 1;
                break;
            }
            if std::mem::replace(&mut self.is_used[cluster as usize], true) {
                self.found.cross_links += 1;
                break;
            }
            chain.push(cluster);
            let next = self.entries[cluster as usize];
            if next >= end_mark {
                break;
            }
            cluster = next;
        }
        chain
    }

    fn slots_of(&self, chain: &[u32]) -> Vec<u8> {
        let sectors = u64::from(self.volume.cluster_sectors);
        let bytes = |cluster: &u32| self.sectors(self.volume.sector_of(*cluster), sectors).to_vec();
        chain.iter().flat_map(bytes).collect()
    }

    fn walk(&mut self) {
        let volume = self.volume;
        let root = if volume.kind == FatType::Fat32 {
            let chain = self.chain(volume.root_cluster);
            self.slots_of(&chain)
        } else {
            let sectors = u64::from(volume.root_slots) * SLOT_BYTES as u64 / SECTOR_BYTES as u64;
            self.sectors(volume.root_start.into(), sectors).to_vec()
        };
        let mut rest = vec![(root, None)];
        while let Some((slots, own)) = rest.pop() {
            let entries = self.entries_of(&slots);
            let mut entries = entries.into_iter();
            if let Some((start, parent)) = own {
                let is_sound = |entry: Option<Entry>, name, start| {
                    entry.is_some_and(|it| it.record.name == name && it.record.start == start)
                };
                let is_own = is_sound(entries.next(), DOT, start);
                let is_parents = is_sound(entries.next(), DOT_DOT, parent);
                self.found.bad_directories += u64::from(!is_own || !is_parents);
            }
            let parent = own.map_or(0, |(start, _)| start);
            for entry in entries {
                self.found.files += 1;
                let chain = self.chain(entry.record.start);
                if entry.record.is_directory() {
                    rest.push((self.slots_of(&chain), Some((entry.record.start, parent))));
                    continue;
                }
                let size = u64::from(entry.record.size_bytes);
                let needed = size.div_ceil(volume.cluster_bytes());
                // A chain that is too long wastes space; one that is too short loses data. Power
                // cuts make both.
                self.found.long_chains += u64::from(chain.len() as u64 > needed);
                self.found.short_chains += u64::from((chain.len() as u64) < needed);
            }
        }
    }

    fn entries_of(&mut self, slots: &[u8]) -> Vec<Entry> {
        let mut parser = Parser::default();
        let mut entries: Vec<Entry> = Vec::new();
        let mut parts = 0;
        for (number, slot) in slots.chunks_exact(SLOT_BYTES).enumerate() {
            match parser.push(number as u32, slot, self.volume.kind) {
                Seen::Entry(entry) => {
                    let used = u64::from(entry.slots.1 - entry.slots.0);
                    self.found.stray_slots += parts - used;
                    parts = 0;
                    entries.push(entry);
                }
                // The label is no part of a name.
                Seen::Part if slot[11] & 0x3f != 0x0f => {}
                Seen::Part => parts += 1,
                Seen::Free => self.found.stray_slots += std::mem::take(&mut parts),
            }
        }
        let mut names: Vec<_> = entries.iter().map(|entry| entry.record.name).collect();
        names.sort_unstable();
        self.found.double_names +=
            names.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        entries
    }

    fn count(&mut self) {
        let (mut free, mut lost) = (0, 0);
        let bad = self.volume.kind.end_mark() & !0xf | 0x7;
        for cluster in FIRST_CLUSTER as usize..self.entries.len() {
            let entry = self.entries[cluster];
            free += u32::from(entry == 0);
            lost += u64::from(entry != 0 && entry != bad && !self.is_used[cluster]);
        }
        self.found.lost_clusters = lost;
        if let Some(sector) = self.volume.info_sector {
            let stored = decode_info(self.sectors(sector.into(), 1)).and_then(|info| info.0);
            self.found.is_free_count_wrong = stored.is_some_and(|stored| stored != free);
        }
    }
}

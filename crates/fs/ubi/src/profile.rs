//! Which kernel is modelled, and what an attach may choose. Uses nothing of the crate.

/// What differs between kernels: one row a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a difference of its own")]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// Blocks kept for those that go bad: a share of the good blocks, in percent, or a share of the
    /// whole chip in 1024ths.
    pub bad_block_reserve: BadBlockReserve,
    /// A user may say how long data will stay; blocks are chosen by it (`dtype`).
    pub has_data_types: bool,
    /// The volume table is changed atomically; else each copy is unmapped and written anew.
    pub changes_table_atomically: bool,
    /// A block that has been moved is read back and compared.
    pub verifies_moves: bool,
    /// A move that ends before its target is written leaves the target free, and one that finds its
    /// block in use leaves both blocks as they were. Else the target is erased, and a block in use is
    /// tried again until it is moved.
    pub keeps_clean_targets: bool,
    /// A block with a bad volume identifier header and data is left alone; else it is erased.
    pub preserves_corrupted: bool,
    /// A block written by the recovery of a failed program carries the CRC of its data.
    pub recovers_with_copy_flag: bool,
    /// A volume that shrinks loses the blocks behind its new end before the table says so. In the
    /// other order a power cut between the two leaves blocks that no volume can have, and the next
    /// attach refuses the device.
    pub erases_before_shrinking: bool,
    /// Buffers of a physical block's size that the device keeps.
    pub block_buffers: u64,
}

/// How many blocks are kept for those that go bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBlockReserve {
    /// This share of the good blocks, two at least.
    PercentOfGood(u32),
    /// The greatest number of bad blocks of the whole chip, less those that are bad.
    Per1024OfChip(u32),
}

/// All profiles, oldest first.
///
/// Sources: `drivers/mtd/ubi` of Linux 2.6.32, 6.1 and 6.12, with the defaults of Kconfig.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "linux-2.6.29",
        bad_block_reserve: BadBlockReserve::PercentOfGood(1),
        has_data_types: true,
        changes_table_atomically: false,
        verifies_moves: true,
        keeps_clean_targets: false,
        preserves_corrupted: false,
        recovers_with_copy_flag: false,
        erases_before_shrinking: false,
        block_buffers: 2,
    },
    Profile {
        name: "linux-2.6.35",
        bad_block_reserve: BadBlockReserve::PercentOfGood(1),
        has_data_types: true,
        changes_table_atomically: false,
        verifies_moves: true,
        keeps_clean_targets: false,
        preserves_corrupted: false,
        recovers_with_copy_flag: false,
        erases_before_shrinking: false,
        block_buffers: 2,
    },
    Profile {
        name: "linux-6.1",
        bad_block_reserve: BadBlockReserve::Per1024OfChip(20),
        has_data_types: false,
        changes_table_atomically: true,
        verifies_moves: false,
        keeps_clean_targets: true,
        preserves_corrupted: true,
        recovers_with_copy_flag: true,
        erases_before_shrinking: true,
        block_buffers: 1,
    },
    Profile {
        name: "linux-6.12",
        bad_block_reserve: BadBlockReserve::Per1024OfChip(20),
        has_data_types: false,
        changes_table_atomically: true,
        verifies_moves: false,
        keeps_clean_targets: true,
        preserves_corrupted: true,
        recovers_with_copy_flag: true,
        erases_before_shrinking: true,
        block_buffers: 1,
    },
];

/// The profile of a name.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Processor time of the work on bytes, picoseconds a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCosts {
    /// Computing a CRC-32 over headers or data.
    pub crc_ps_per_byte: u64,
    /// Comparison with blank bytes, copies.
    pub copy_ps_per_byte: u64,
}

/// What an attach may choose.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// The kernel whose behaviour the device has.
    pub profile: &'static Profile,
    /// Where the volume identifier headers stand; none for right after the erase counter header's
    /// unit (`ubiattach -O`).
    pub header_offset: Option<u32>,
    /// Bad blocks that 1024 blocks of the chip may have (`max_beb_per1024`); none for the profile's.
    pub bad_blocks_per_1024: Option<u32>,
    /// Blocks of the whole chip, where the device is a part of it.
    pub chip_blocks: Option<u32>,
    /// Difference of erase counters from which on data is moved (`CONFIG_MTD_UBI_WL_THRESHOLD`).
    pub wear_threshold: u64,
    /// Nothing is written or erased, not even a damaged copy of the volume table.
    pub is_read_only: bool,
    /// The background thread runs; else erases wait until a free block is wanted.
    pub has_thread: bool,
    /// Processor time that work on bytes costs.
    pub costs: CpuCosts,
    /// Seed of the image sequence number that an empty device is given.
    pub seed: u64,
}

impl AttachOptions {
    /// An attach as the profile has it.
    pub fn new(profile: &'static Profile) -> Self {
        Self {
            profile,
            header_offset: None,
            bad_blocks_per_1024: None,
            chip_blocks: None,
            wear_threshold: 4096,
            is_read_only: false,
            has_thread: true,
            costs: CpuCosts::default(),
            seed: 0,
        }
    }
}

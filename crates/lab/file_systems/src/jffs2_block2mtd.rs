//! JFFS2 on a block device that `block2mtd` makes an MTD, in the table of file systems.

use crate::jffs2::{Jffs2Mount, PROFILES, failed, parse};
use crate::over_block::OverBlock;
use block_medium::{BlockMedium, WriteFlags};
use block2mtd::{Block2Mtd, Options};
use jffs2::{Flash, Jffs2, clean_block};
use mount::guarantee::{Durable, Guarantee, Order, PAGES_IN_ANY_ORDER};
use mount::{
    BlockPath, KernelMount, KernelSource, Kind, Machine, MountError, MountRequest, SharedMount,
    unknown_option,
};
use page_cache::{CacheOptions, PAGE_BYTES, PageCache};
use std::rc::Rc;

/// What it stands on where nothing else is asked for: `block2mtd` refuses `mtdblock`.
const USUAL_CARD: &str = "emmc-4.5-64gb";

pub(crate) const KIND: Kind = Kind {
    name: "jffs2-block2mtd",
    summary: "JFFS2 over block2mtd on a block device: through the device's page cache, write-back, bios and a scheduler",
    is_shown: true,
    has_owners_and_links: true,
    is_on_block_device: true,
    usual_block_device: USUAL_CARD,
    has_cleaner: false,
    profiles: PROFILES,
    is_over_ubi: false,
    kernel: KernelMount {
        type_name: "jffs2",
        source: KernelSource::BlockDevice,
        options: "ro, rw, compr=none, compr=lzo, compr=zlib, erasesize=KIB, size=MIB",
    },
    images_instead: Some("what it leaves on a block device is an image of jffs2"),
    own_images: None,
    guarantee: Some(&GUARANTEE),
    mount: |machine, request| Box::pin(mount(machine, request)),
};

/// What survives a power cut: that it mounts.
const GUARANTEE: Guarantee = Guarantee {
    kind: "jffs2-block2mtd",
    // `sync` writes the pages of the device (`sync_bdevs` of `fs/sync.c`) and flushes nothing; `fsync` of a file
    // ends at the MTD, which has no `sync` (`block2mtd_sync` is called by `mtd_sync` alone).
    durable: Durable::AtFlush,
    order: Order::Pages,
    order_of_torn_page: Order::Pages,
    renames_in_two_steps: true,
    // `flash_erase -j` is another program than the mount.
    is_made_in_steps: true,
    new_attribute_is_synced: false,
    keeps_modes: true,
    empties_before_unlink: &[],
    safe: "nothing: sync writes the pages of the device, and no flush follows",
    new_file: "nothing",
    beyond: "it mounts and works on; what it shows may be of different times",
    beyond_torn_page: "the same",
    expected_findings: &[],
    hazards: &[PAGES_IN_ANY_ORDER],
};

/// From this kernel on, at the latest, whoever dirties pages of the device waits if too many are: 3.6 has it
/// not, 3.10 has it.
const HOLDS_WRITERS_SINCE: (u32, u32, u32) = (3, 10, 0);

/// Parameters of the driver, and the request of the mount without them.
struct Asked {
    block_bytes: u32,
    size_bytes: u64,
    request: MountRequest,
}

/// `erasesize=KIB` is the driver's parameter; `size=MIB` stands for the size of a partition. Without them
/// blocks and device are as large as those of the machine's raw NAND, so that the two compare.
fn asked(request: &MountRequest, machine: &Machine) -> Result<Asked, MountError> {
    let mut asked = Asked {
        block_bytes: machine.mtd.block_bytes(),
        size_bytes: machine.mtd.size_bytes(),
        request: MountRequest { options: Vec::new(), ..request.clone() },
    };
    for option in &request.options {
        let number = |text: &str| {
            let parsed = text.parse::<u32>().ok().filter(|number| (1..=4096).contains(number));
            parsed.ok_or_else(|| unknown_option(option, "erasesize=KIB, size=MIB, each 1 to 4096"))
        };
        if let Some(kib) = option.strip_prefix("erasesize=") {
            asked.block_bytes = number(kib)? << 10;
        } else if let Some(mib) = option.strip_prefix("size=") {
            asked.size_bytes = u64::from(number(mib)?) << 20;
        } else {
            asked.request.options.push(option.clone());
        }
    }
    Ok(asked)
}

fn medium<E: std::error::Error>(error: E) -> MountError {
    MountError::Medium { kind: KIND.name, reason: error.to_string() }
}

/// True of a device that is delivered as zeros. One of ones is blank flash to JFFS2 already.
async fn is_blank(path: &BlockPath) -> Result<bool, MountError> {
    let page = path.read(0, 1).await.map_err(medium)?;
    Ok(page.iter().all(|byte| *byte == 0))
}

/// Leaves the device as `flash_erase -j` would, which a mount asks for: JFFS2 refuses zeros. Past the page
/// cache, so that it is empty for the mount.
async fn format(path: &BlockPath, block_bytes: u32, size_bytes: u64) -> Result<(), MountError> {
    let clean = clean_block(block_bytes);
    let bio_bytes = path.bio_blocks_max() as usize * PAGE_BYTES as usize;
    let flags = WriteFlags::default();
    for block in 0..size_bytes / u64::from(block_bytes) {
        let mut page = block * u64::from(block_bytes) / PAGE_BYTES;
        for bytes in clean.chunks(bio_bytes) {
            let written = path.write(page, bytes.to_vec(), flags).await;
            written.map_err(medium)?.await.map_err(medium)?;
            page += bytes.len() as u64 / PAGE_BYTES;
        }
    }
    Ok(())
}

async fn mount(machine: &Machine, request: &MountRequest) -> Result<SharedMount, MountError> {
    let Asked { block_bytes, size_bytes, request } = asked(request, machine)?;
    let options = parse(&request, machine)?;
    let path = machine.block_path(&request.block, PAGE_BYTES)?;
    let board = machine.writing_back(request.has_write_back);
    let cache_options = CacheOptions { stores_bytes: true };
    // The device's page cache, whose memory the files of JFFS2 share.
    let cache = PageCache::new(&machine.sim, &machine.cpus, &board, cache_options);
    let driver = Options {
        block_bytes,
        size_bytes: size_bytes.min(path.size_bytes()),
        takes_time: machine.mtd.takes_time(),
        holds_writers: board.is_kernel_at_least(HOLDS_WRITERS_SINCE),
    };
    let attached = Block2Mtd::attach(&machine.sim, &cache, Rc::new(path.clone()), driver);
    let device = attached.map_err(|error| MountError::BlockDevice {
        device: request.block.device.name().into(),
        reason: error.to_string(),
    })?;
    // Formatted past the cache and before the mount, which refuses zeros.
    if request.formats_blank && !options.is_read_only && is_blank(&path).await? {
        format(&path, block_bytes, driver.size_bytes).await?;
    }
    let (sim, cpus) = (&machine.sim, machine.cpus.clone());
    let mounted = Jffs2::mount(sim, cpus, Flash::Ram(device.clone()), options).await;
    let file_system = mounted.map_err(|error| failed(KIND.name, &error))?;
    let over_block = Some(OverBlock { device, path, kind: KIND.name });
    Ok(SharedMount::new(Jffs2Mount { file_system, over_block }))
}

//! Memory of a run that writes a file to NILFS2, against the bytes that it writes.
//!
//! The bytes are drawn at random, so that nothing can be kept of them but themselves. They pass the page
//! cache, the log writer and the block layer, and stay on the medium. The slope between a small and a large
//! file leaves out what every mount takes.

use crate::ALLOCATOR;
use file_systems::find_kind;
use mount::{BlockDeviceChoice, BlockRequest, Driver, MTDBLOCK, MountRequest, run};
use mtd::find_layout;
use nand::random::Stream;
use nand::{Chip, FaultSettings, Storage, find_part};
use vfs::OpenOptions;

/// Bytes of a call.
const CALL_BYTES: usize = 65_536;
/// Bytes of the file: a small one and a large one.
const WRITTEN_BYTES: [usize; 2] = [64 << 20, 256 << 20];
/// Blocks of 128 KiB in 512 MiB: the large file twice, so that no segment has to be cleaned.
const CHIP_BLOCKS: u32 = 4096;
/// A card that keeps time only: the block layer keeps its bytes.
const CARD: &str = "emmc-4.5-64gb";

/// Peak heap of a run over one block device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nilfs2Memory {
    /// Name of the block device under the file system.
    pub(crate) device: &'static str,
    /// Most bytes in use over bytes written, of the small and the large file.
    pub(crate) bytes_per_byte: [f64; 2],
    /// Bytes that a further byte written takes.
    pub(crate) slope: f64,
}

/// Measures `mtdblock` over raw NAND, then a card.
pub(crate) fn measure() -> [Nilfs2Memory; 2] {
    [MTDBLOCK, CARD].map(|device| {
        let [small, large] = WRITTEN_BYTES.map(|bytes| peak_bytes(device, bytes) as f64);
        let [small_bytes, large_bytes] = WRITTEN_BYTES.map(|bytes| bytes as f64);
        Nilfs2Memory {
            device,
            bytes_per_byte: [small / small_bytes, large / large_bytes],
            slope: (large - small) / (large_bytes - small_bytes),
        }
    })
}

/// Most heap in use while a file of so many bytes is written, synced and unmounted.
fn peak_bytes(device: &'static str, written_bytes: usize) -> usize {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = CHIP_BLOCKS;
    let device = BlockDeviceChoice::find(device).expect("in the table");
    let request = MountRequest {
        block: BlockRequest { device, ..BlockRequest::default() },
        ..MountRequest::default()
    };
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let outcome = run(chip, &driver, 1, async move |machine| {
        let kind = find_kind("nilfs2").expect("in the table");
        let mounted = machine.mount(kind, &request).await.expect("a blank device");
        let (vfs, root) = (mounted.vfs.clone(), machine.root());
        let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&root, b"file", options).await.expect("opened");
        let mut stream = Stream::new(1, "nilfs2 memory");
        let mut data = vec![0; CALL_BYTES];
        for at in (0..written_bytes).step_by(CALL_BYTES) {
            // Anew for each call: no page of the file is like another.
            for word in data.chunks_exact_mut(8) {
                word.copy_from_slice(&stream.next_u64().to_le_bytes());
            }
            vfs.write(&root, &file, at as u64, &data).await.expect("written");
        }
        vfs.close(&root, file).await.expect("closed");
        vfs.sync().await.expect("synced");
        mounted.unmount().await.expect("unmounted");
    });
    outcome.value.expect("the power stays");
    ALLOCATOR.peak_usage() - before
}

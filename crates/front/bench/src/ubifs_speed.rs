//! How fast UBIFS over UBI is simulated: attach and mount of a filled chip, and sequential writing
//! through the page cache, against a loop that copies the same bytes and computes their CRC.

use crate::processor_time::Stopwatch;
use file_systems::find_kind;
use mount::{Driver, MountRequest, run};
use mtd::find_layout;
use nand::random::Stream;
use nand::{Chip, FaultSettings, Storage, find_part};
use serde::Serialize;
use std::hint::black_box;
use vfs::OpenOptions;

/// Bytes of a call.
const CALL_BYTES: usize = 65_536;
/// Bytes of a node of UBIFS with its data.
const NODE_BYTES: usize = 4096;
const WRITTEN_BYTES: usize = 128 << 20;
const FILE_BYTES: usize = 1 << 20;
/// Three quarters of 256 MiB.
const FILLED_BYTES: usize = 192 << 20;
const ROUNDS: usize = 5;

/// Processor time of work on a chip of 256 MiB that stores bytes.
#[derive(Serialize)]
pub(crate) struct UbifsSpeed {
    /// Attach and mount of the chip, 75 % full and cleanly unmounted.
    pub(crate) attach_and_mount_s: f64,
    /// User data written and synced in a second, without compression.
    pub(crate) write_mib_per_s: f64,
    /// The same against copying and computing the CRC once.
    pub(crate) write_ratio: f64,
}

fn blank() -> Chip {
    let part = find_part("k9f2g08u0c").expect("in the catalogue");
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

fn driver() -> Driver {
    Driver::of_tool(find_layout("linux-large").expect("in the table"))
}

fn request() -> MountRequest {
    MountRequest { options: vec!["compr=none".into()], ..MountRequest::default() }
}

fn data() -> Vec<u8> {
    let mut stream = Stream::new(1, "ubifs");
    (0..CALL_BYTES).map(|_| stream.below(256) as u8).collect()
}

/// Writes files of so many bytes each; the chip, and the seconds from the first call to the return of
/// `sync`.
fn write(file_bytes: usize, all_bytes: usize) -> (Chip, f64) {
    let outcome = run(blank(), &driver(), 1, async move |machine| {
        let kind = find_kind("ubifs").expect("in the table");
        let mounted = machine.mount(kind, &request()).await.expect("a blank chip");
        let (vfs, root, data) = (mounted.vfs.clone(), machine.root(), data());
        let start = Stopwatch::start();
        for number in 0..all_bytes / file_bytes {
            let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
            let name = format!("file{number}");
            let file = vfs.open(&root, name.as_bytes(), options).await.expect("opened");
            for call in 0..file_bytes / CALL_BYTES {
                let at = (call * CALL_BYTES) as u64;
                vfs.write(&root, &file, at, &data).await.expect("written");
            }
            vfs.close(&root, file).await.expect("closed");
        }
        vfs.sync().await.expect("synced");
        let seconds = start.seconds();
        mounted.unmount().await.expect("unmounted");
        seconds
    });
    (outcome.chip, outcome.value.expect("the power stays"))
}

fn attach_and_mount(chip: &Chip) -> f64 {
    let outcome = run(chip.clone(), &driver(), 1, async |machine| {
        let kind = find_kind("ubifs").expect("in the table");
        let start = Stopwatch::start();
        let mounted = machine.mount(kind, &request()).await.expect("a sound chip");
        let seconds = start.seconds();
        drop(mounted);
        seconds
    });
    outcome.value.expect("the power stays")
}

/// Seconds in which the bytes are copied, node by node, and their CRC is computed.
fn bare_loop() -> f64 {
    let data = data();
    let mut copy = vec![0; WRITTEN_BYTES];
    let start = Stopwatch::start();
    for (at, to) in copy.chunks_exact_mut(NODE_BYTES).enumerate() {
        let from = at * NODE_BYTES % CALL_BYTES;
        to.copy_from_slice(&data[from..from + NODE_BYTES]);
        black_box(ubi::headers::crc32(to));
    }
    black_box(&copy);
    start.seconds()
}

fn best(measure: impl Fn() -> f64) -> f64 {
    (0..ROUNDS).map(|_| measure()).fold(f64::MAX, f64::min)
}

/// Measures the mount and the write, the best of several rounds each.
pub(crate) fn measure() -> UbifsSpeed {
    let (filled, _) = write(FILE_BYTES, FILLED_BYTES);
    let attach_and_mount_s = best(|| attach_and_mount(&filled));
    let bare_s = best(bare_loop);
    let write_s = best(|| write(WRITTEN_BYTES, WRITTEN_BYTES).1);
    UbifsSpeed {
        attach_and_mount_s,
        write_mib_per_s: (WRITTEN_BYTES >> 20) as f64 / write_s,
        write_ratio: bare_s / write_s,
    }
}

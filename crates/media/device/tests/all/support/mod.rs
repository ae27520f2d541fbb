//! Small devices, and a host that keeps a number of commands outstanding.
#![allow(dead_code, reason = "every test file uses a part of this")]

use device::{BlockDevice, Command, Completion, DeviceSpec, FlashDevice};
use nand::{Part, find_part};
use std::collections::BinaryHeap;

/// A small flash device; the tests change what they are about.
pub(crate) const SMALL: &str = r#"
name = "small"
summary = "a small device for tests"
[host]
bytes_per_second = 200000000
command_overhead_ns = 10000
queue_depth = 2
executes = 1
[flash]
part = "in the test"
channels = 1
dies_per_channel = 1
capacity_bytes = 8388608
copy_back = true
[cache]
bytes = 0
[cleaning]
background = false
idle_before_ns = 1000000
free_target_blocks = 4
suspend = "page"
[sources]
"#;

/// [`SMALL`] with changes.
pub(crate) fn small(changes: &[(&str, &str)]) -> DeviceSpec {
    let mut spec = DeviceSpec::parse("small", SMALL).expect("a device");
    for (key, value) in changes {
        spec.set(key, value).expect(key);
    }
    spec
}

/// An MLC part of two planes of 2 KiB pages, 8 to a block: pages of 4 KiB with the planes joined.
pub(crate) fn small_part(blocks: u32) -> Part {
    let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
    part.geometry.page_data_bytes = 2048;
    part.geometry.page_oob_bytes = 64;
    part.geometry.pages_per_block = 8;
    part.geometry.blocks = blocks;
    part
}

/// A device of `spec` over [`small_part`] with `blocks` blocks a die.
pub(crate) fn device(spec: &DeviceSpec, blocks: u32) -> FlashDevice {
    FlashDevice::new(spec, &small_part(blocks), 1).expect("dies are large enough")
}

/// Keeps `depth` commands outstanding from `from_ns` on: the next one is submitted when the one
/// that is done first is done. Returns submissions and completions, and the time of the last one.
pub(crate) fn keep_busy(
    device: &mut dyn BlockDevice,
    from_ns: u64,
    depth: usize,
    commands: impl IntoIterator<Item = Command>,
) -> (Vec<(u64, Completion)>, u64) {
    let mut outstanding = BinaryHeap::new();
    let (mut now_ns, mut last_ns) = (from_ns, from_ns);
    let mut served = Vec::new();
    for command in commands {
        if outstanding.len() == depth {
            let std::cmp::Reverse(done_ns) = outstanding.pop().expect("depth is not zero");
            now_ns = now_ns.max(done_ns);
        }
        let completion = device.submit(now_ns, &command).expect("a healthy device");
        last_ns = last_ns.max(completion.done_ns);
        outstanding.push(std::cmp::Reverse(completion.done_ns));
        served.push((now_ns, completion));
    }
    (served, last_ns)
}

//! All tests of file systems on raw NAND: a row each.

use super::contract::{Needs, Test};
use super::{benchmark, burst, copy_delete, files, life, lifecycle, mounting, script_once};

/// All tests, sorted by name.
pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "burst",
        summary: "an application writes at a rate; the power is cut; which of the acknowledged bytes are left",
        axes: &["rate_kib_per_s"],
        needs: Needs::Nothing,
        has_block_device: false,
        takes_time: true,
        carry_out: burst::run_burst,
    },
    Test {
        name: "copy-delete",
        summary: "the file workload of captured traces: a directory is filled, files are copied and deleted",
        axes: &["file_set", "operations"],
        needs: Needs::Nothing,
        has_block_device: true,
        takes_time: true,
        carry_out: copy_delete::run_copy_delete,
    },
    Test {
        name: "files",
        summary: "kernel memory with many files of 1 KiB: made, mounted anew, all touched",
        axes: &["files"],
        needs: Needs::Nothing,
        has_block_device: false,
        takes_time: false,
        carry_out: files::run_files,
    },
    Test {
        name: "iozone",
        summary: "IOzone: writes without fsync, first read cold, re-read warm, random writes twice",
        axes: &["data", "file_mib"],
        needs: Needs::Options,
        has_block_device: false,
        takes_time: true,
        carry_out: benchmark::run_benchmark,
    },
    Test {
        name: "life",
        summary: "a script over and over: bytes until the first block, and 1 % of them, reach their rated cycles",
        axes: &[],
        needs: Needs::OptionsOrScript,
        has_block_device: false,
        takes_time: true,
        carry_out: life::run_life,
    },
    Test {
        name: "lifecycle",
        summary: "a script or IOzone, then mounts: throughput, latencies, memory, wear, mount after unmount and cut",
        axes: &[],
        needs: Needs::OptionsOrScript,
        has_block_device: true,
        takes_time: true,
        carry_out: lifecycle::run_lifecycle,
    },
    Test {
        name: "mount",
        summary: "time of a mount after an orderly unmount; of UBI's attach, too",
        axes: &[],
        needs: Needs::Nothing,
        has_block_device: false,
        takes_time: true,
        carry_out: mounting::run_mount,
    },
    Test {
        name: "mount-after-cut",
        summary: "time of a mount after the power was cut while a file was being written",
        axes: &["written_mib"],
        needs: Needs::Nothing,
        has_block_device: false,
        takes_time: true,
        carry_out: mounting::run_mount_after_cut,
    },
    Test {
        name: "script",
        summary: "a script, or each of the axis `script`, once on one mount: flash operations, latencies, wear",
        axes: &["script"],
        needs: Needs::Script,
        has_block_device: true,
        takes_time: true,
        carry_out: script_once::run_script,
    },
];

#[cfg(test)]
mod tests {
    use super::TESTS;

    #[test]
    fn the_table_is_sorted_and_its_names_are_unique() {
        assert!(TESTS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}

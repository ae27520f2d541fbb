//! A program fails, and what stood in its page is given up by another task while it is written elsewhere.

use crate::support;

use fs_api::{FileSystem, NewInode};
use nand::FaultSettings;
use random::Stream;
use std::rc::Rc;
use support::{CALLER, blank, manifest, quiet, run, write};

/// More than one erase block of 128 KiB, so that the block being written holds nodes of one file alone.
const FILE_BYTES: usize = 160 << 10;

fn every_program_fails(probability: f64) -> FaultSettings {
    FaultSettings { program_failure_probability: probability, ..FaultSettings::default() }
}

/// `jffs2_do_clear_inode` marks the nodes of a deleted file obsolete under the lock of the inode alone, while
/// `jffs2_wbuf_recover` writes them to another block. The block must not be filed for its erase by both.
#[test]
fn a_file_is_forgotten_while_its_last_page_is_recovered() {
    let (chip, _) = run(blank(16), true, move |bench| async move {
        let fs = Rc::new(bench.mount(quiet(1)).await);
        let inode = fs.make(&CALLER, 1, b"gone", NewInode::Regular(0o600)).await.expect("made");
        // It has no name, and is open still.
        fs.unlink(&CALLER, 1, b"gone").await.expect("unlinked");
        let mut noise = Stream::new(1, "bytes");
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|_| noise.next_u64() as u8).collect();
        write(&fs, &CALLER, inode, 0, &bytes).await.expect("written");
        bench.mtd.with_chip(|chip| chip.set_faults(&every_program_fails(1.0)));
        let (syncing, mtd) = (fs.clone(), bench.mtd.clone());
        let sync = bench.sim.spawn(async move { syncing.sync().await });
        while mtd.with_chip(|chip| chip.failures().0) == 0 {
            bench.sim.sleep(1_000).await;
        }
        mtd.with_chip(|chip| chip.set_faults(&every_program_fails(0.0)));
        assert!(!sync.is_finished(), "the page is being recovered");
        fs.forget(inode).await.expect("forgotten");
        sync.await.expect("synced");
        assert_eq!(fs.statistics().programs_recovered, 1);
        fs.check_invariants();
        while fs.collect().await {}
        fs.check_invariants();
        assert!(fs.statistics().blocks_erased > 0, "{:?}", fs.statistics());
        fs.unmount().await.expect("it unmounts");
    });
    let (_, end) = run(chip, false, move |bench| async move {
        let fs = bench.mount(quiet(2)).await;
        let names = manifest(&fs).await;
        assert_eq!(names.len(), 1, "the root alone: {names:?}");
        assert_eq!(fs.findings(), []);
        fs.check_invariants();
    });
    assert_eq!(end, sim::RunEnd::Idle);
}

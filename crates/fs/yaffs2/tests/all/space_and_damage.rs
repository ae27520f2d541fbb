//! A full device, damaged media, the background task, memory.

use crate::common;

use common::ops::Shell;
use common::{Bench, chip_of, data, manifest, part};
use fs_api::{Changes, Errno, FileSystem, NewInode, PAGE_BYTES};
use nand::{Chip, FaultSettings, ImageLayout, PageAddress, Storage};
use script::Xorshift;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use yaffs2::{
    HEADER_BYTES, Header, HeaderForm, MountOptions, PROFILES, TAGS_ECC_BYTES, Tags, find_profile,
};

fn small_chip() -> Chip {
    let mut part = part(64);
    part.geometry.pages_per_block = 16;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

/// Runs a job with a shell; what it returns.
fn with_shell<T: 'static, F: Future<Output = T> + 'static>(
    chip: Chip,
    options: MountOptions,
    takes_time: bool,
    job: impl FnOnce(Shell) -> F + 'static,
) -> (T, Bench) {
    let mut bench = Bench::timed(chip, "linux-large", takes_time);
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    sim.clone().spawn(async move {
        let mut shell = Shell::new(sim, mtd, cpus, options);
        shell.has_background = takes_time && shell.has_background;
        let done = job(shell).await;
        place.borrow_mut().replace(done);
    });
    bench.simulation.run();
    (result.take().expect("ran to the end"), bench)
}

/// Every header of the images that the newest code wrote comes out byte for byte.
#[test]
fn headers_are_written_as_the_real_code_writes_them() {
    let form = HeaderForm { is_wide: true, inband: false };
    let mut count = 0;
    for image in ["linux61-clean", "direct-gc", "direct-cut1"] {
        for page in data(&format!("{image}.oob.zst")).chunks_exact(2112) {
            let mut spare = [0; TAGS_ECC_BYTES];
            spare.copy_from_slice(&page[2050..2050 + TAGS_ECC_BYTES]);
            let (tags, _) = Tags::from_bytes_with_ecc(&spare);
            if tags.is_unused() || tags.extra.is_none() {
                continue;
            }
            assert_eq!(tags.to_bytes(), spare[..16], "{image}");
            let header = Header::parse(page, form);
            let mut written = vec![0; HEADER_BYTES];
            header.write(&mut written, form);
            assert_eq!(written, page[..HEADER_BYTES], "{image}: {header:?}");
            count += 1;
        }
    }
    assert!(count > 1000, "{count}");
}

#[test]
fn a_full_device_says_so_and_recovers() {
    for profile in PROFILES {
        let name = profile.name;
        let job = move |mut shell: Shell| async move {
            shell.mount().await;
            for round in 0..6 {
                let mut files = 0;
                let end = loop {
                    let line = format!("put f{files} 644 30000 4096 x {}", files + round);
                    match shell.line(&line).await {
                        Ok(()) => files += 1,
                        Err(error) => break error,
                    }
                    assert!(files < 200, "{name}: never full");
                };
                assert_eq!(end, Errno::Enospc, "{name}");
                assert!(files > 30, "{name}: full after {files} files");
                let before = manifest(&shell.fs.clone().expect("mounted")).await;
                shell.unmount().await;
                shell.mount().await;
                let after = manifest(&shell.fs.clone().expect("mounted")).await;
                // The file that did not fit may have lost its end, not more.
                let same = before.iter().filter(|row| after.contains(row)).count();
                assert!(same + 3 >= before.len(), "{name}: {same} of {}", before.len());
                for index in 0..=files {
                    let removed = shell.line(&format!("unlink f{index}")).await;
                    assert!(removed.is_ok() || index == files, "{name}: {removed:?}");
                }
                shell.line("sync").await.expect("synced");
            }
            shell.unmount().await;
        };
        with_shell(small_chip(), MountOptions::new(profile), false, job);
    }
}

/// Bytes turned around in an image: mounting, looking and writing never panic and always end.
#[test]
fn damaged_media_are_survived() {
    let image = data("direct-gc.oob.zst");
    for seed in 0..24_u64 {
        let mut damaged = image.clone();
        let mut random = Xorshift::new(seed + 100);
        for _ in 0..[3, 40, 2000][seed as usize % 3] {
            let page = (random.next_number() >> 20) as usize % (damaged.len() / 2112);
            let bytes = &mut damaged[page * 2112..(page + 1) * 2112];
            // Spare areas and headers more often than the rest, but never a bad mark.
            let at = match random.next_number() >> 40 & 3 {
                0 => 2050 + (random.next_number() >> 33) as usize % 28,
                1 => (random.next_number() >> 33) as usize % 512,
                2 => (random.next_number() >> 33) as usize % 2048,
                _ => 2050 + (random.next_number() >> 33) as usize % 16,
            };
            bytes[at] = (random.next_number() >> 33) as u8;
            if seed % 2 == 1 && at >= 2050 {
                // With a code that agrees, the nonsense is believed.
                let mut tags = [0; 16];
                tags.copy_from_slice(&bytes[2050..2066]);
                let protected = Tags::from_bytes(&tags).to_bytes_with_ecc();
                bytes[2050..2050 + 28].copy_from_slice(&protected);
            }
        }
        let chip =
            Chip::load_image(&part(64), &mut &damaged[..], ImageLayout::WithOob).expect("fits");
        let profile =
            find_profile(["linux-6.1", "yaffs-direct", "linux-2.6.29"][seed as usize % 3]);
        let mut options = MountOptions::new(profile.expect("in the table"));
        options.reads_checkpoint = seed % 4 < 2;
        with_shell(chip, options, false, |mut shell| async move {
            shell.is_strict = false;
            shell.mount().await;
            manifest(&shell.fs.clone().expect("mounted")).await;
            for index in 0..20 {
                // Names may be taken, or space short.
                let _ = shell.line(&format!("put new{index} 644 40000 4096 x {index}")).await;
                let _ = shell.line(&format!("unlink new{}", index / 2)).await;
            }
            shell.unmount().await;
            shell.mount().await;
            manifest(&shell.fs.clone().expect("mounted")).await;
        });
    }
}

#[test]
fn the_background_task_collects_while_nothing_happens() {
    let options = MountOptions::new(find_profile("linux-6.1").expect("in the table"));
    let (statistics, bench) = with_shell(small_chip(), options, true, |mut shell| async move {
        shell.mount().await;
        for index in 0..40 {
            shell.line(&format!("put f{index} 644 20000 4096 x {index}")).await.expect("room");
        }
        for index in (0..40).filter(|index| index % 8 != 0) {
            shell.line(&format!("unlink f{index}")).await.expect("there");
        }
        let before = shell.fs.clone().expect("mounted").statistics().await;
        shell.line("settle 60000").await.expect("slept");
        let after = shell.fs.clone().expect("mounted").statistics().await;
        shell.unmount().await;
        (before, after)
    });
    let (before, after) = statistics;
    assert!(after.background_gcs > before.background_gcs, "{after:?}");
    assert!(after.erasures > before.erasures, "{after:?}");
    // The task ended with the mount.
    assert!(bench.simulation.blocked_tasks().is_empty());
}

#[test]
fn memory_grows_with_objects_and_shrinks_with_them() {
    let options = MountOptions::new(find_profile("linux-2.6.29").expect("in the table"));
    with_shell(common::blank_chip(512), options, false, |mut shell| async move {
        shell.mount().await;
        let fs = shell.fs.clone().expect("mounted");
        let empty = fs.memory().total_bytes();
        for index in 0..300 {
            shell.line(&format!("put f{index} 644 1000 4096 x 1")).await.expect("room");
        }
        let full = fs.memory().total_bytes();
        // An object of 124 bytes and a node of 36 each, in batches of 100.
        assert_eq!(full - empty, 300 * (124 + 32), "{:?}", fs.memory());
        for index in 0..300 {
            shell.line(&format!("unlink f{index}")).await.expect("there");
        }
        assert_eq!(fs.memory().total_bytes(), empty);
        let space = fs.space();
        assert!(space.free_blocks > space.blocks * 9 / 10);
    });
}

/// A block marked bad between two mounts is left alone.
#[test]
fn bad_blocks_are_not_used() {
    let options = MountOptions::new(find_profile("linux-6.1").expect("in the table"));
    let mut chip = chip_of("direct-clean-nockpt.oob.zst", 0);
    let free: Vec<u32> =
        (0..512).filter(|block| !chip.is_programmed(PageAddress::new(*block, 0))).collect();
    for block in &free[..20] {
        chip.mark_bad(*block).expect("marked");
    }
    let ((), bench) = with_shell(chip, options, false, |mut shell| async move {
        shell.mount().await;
        for index in 0..200 {
            shell.line(&format!("put new{index} 644 100000 4096 x 1")).await.expect("room");
        }
        shell.unmount().await;
    });
    let chip = bench.chip();
    for block in &free[..20] {
        assert!(!chip.is_programmed(PageAddress::new(*block, 0)));
    }
}

/// `yaffs_guts_initialise` numbers the first block 1: with a reserve of five, eight blocks are too few.
#[test]
fn the_smallest_device_has_four_blocks_more_than_its_reserve() {
    for (blocks, is_mounted) in [(8, false), (9, true)] {
        let mut part = part(blocks);
        part.geometry.pages_per_block = 16;
        let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let options = MountOptions::new(find_profile("linux-6.1").expect("in the table"));
        assert_eq!(options.reserved_blocks, 5);
        let mut bench = Bench::timed(chip, "linux-large", false);
        let sim = bench.simulation.handle();
        let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        sim.clone().spawn(async move {
            let now = fs_api::Time::from_seconds(1_700_000_000);
            let fs = yaffs2::Yaffs2::mount(&sim, cpus, mtd, options, now).await;
            place.replace(Some(fs.err()));
        });
        bench.simulation.run();
        let expected = if is_mounted { None } else { Some(Errno::Einval) };
        assert_eq!(result.take(), Some(expected), "{blocks} blocks");
    }
}

/// Tags number 1,048,575 chunks of a file: a kernel refuses what lies behind (`s_maxbytes`).
#[test]
fn a_file_ends_with_the_last_chunk_that_tags_can_number() {
    const BYTES_MAX: u64 = 0xf_ffff * 2048;
    let options = MountOptions::new(find_profile("linux-6.1").expect("in the table"));
    let job = |mut shell: Shell| async move {
        shell.mount().await;
        let fs = shell.fs.clone().expect("mounted");
        let new = NewInode::Regular(0o644);
        let file = fs.make(&common::ROOT, fs.root(), b"file", new).await.expect("made");
        let resized = |bytes| Changes { size_bytes: Some(bytes), ..Changes::default() };
        let grown = fs.change(&common::ROOT, file, &resized(BYTES_MAX + 1)).await;
        assert_eq!(grown, Err(Errno::Efbig));
        fs.change(&common::ROOT, file, &resized(BYTES_MAX)).await.expect("the longest file");
        let (last, page) = (BYTES_MAX / PAGE_BYTES as u64, [7; PAGE_BYTES]);
        let written = fs.write_page(&common::ROOT, file, last, &page, 0..PAGE_BYTES).await;
        assert_eq!(written, Err(Errno::Efbig));
        fs.write_page(&common::ROOT, file, last, &page, 0..2048).await.expect("its last chunk");
        assert!(fs.check_invariants().await);
        shell.unmount().await;
        shell.mount().await;
        let fs = shell.fs.clone().expect("mounted");
        let mut back = [0; PAGE_BYTES];
        fs.read_page(file, last, &mut back).await.expect("read");
        assert_eq!((back[0], back[2047], back[2048]), (7, 7, 0));
    };
    with_shell(small_chip(), options, false, job);
}

//! The calls that made an image, made again: the same tags on the same pages.

use crate::common;

use common::ops::Shell;
use common::{Bench, blank_chip, data, manifest, stored_manifest, without};
use nand::ImageLayout;
use std::cell::RefCell;
use std::rc::Rc;
use yaffs2::{MountOptions, find_profile};

/// Replays a script; pages of the image whose tags differ, and pages of the image in use.
fn differing_pages(
    image: &str,
    blocks: u32,
    writes_checkpoint: bool,
    unmounts: bool,
) -> (Vec<usize>, usize) {
    let mut bench = Bench::new(blank_chip(blocks), "linux-large");
    let mut options = MountOptions::new(find_profile("yaffs-direct").expect("in the table"));
    options.writes_checkpoint = writes_checkpoint;
    let text = String::from_utf8(data(&format!("{image}.ops"))).expect("a script");
    let sim = bench.simulation.handle();
    let mut shell = Shell::new(sim.clone(), bench.mtd.clone(), bench.cpus.clone(), options);
    sim.spawn(async move {
        // The library refuses some calls.
        shell.is_strict = false;
        shell.mount().await;
        shell.run(&text).await;
        if unmounts {
            shell.unmount().await;
        }
    });
    bench.simulation.run();
    let mut shown = Vec::new();
    bench.chip().save_image(&mut shown, ImageLayout::WithOob).expect("memory");
    let real = data(&format!("{image}.oob.zst"));
    let tags = |page: &[u8]| page[2050..2066].to_vec();
    let pages = shown.chunks_exact(2112).zip(real.chunks_exact(2112)).enumerate();
    let (mut used, mut differing) = (0, Vec::new());
    for (index, (shown, real)) in pages {
        used += usize::from(tags(real) != [0xff; 16]);
        if tags(shown) != tags(real) {
            differing.push(index);
        }
    }
    (differing, used)
}

#[test]
fn the_same_calls_make_the_same_image() {
    let (differing, used) = differing_pages("direct-clean-nockpt", 512, false, true);
    assert_eq!((differing, used), (Vec::new(), 3723));
    // Whoever made the image read all files in the middle, and left the cache in another order.
    let (differing, used) = differing_pages("direct-unclean", 512, true, false);
    assert_eq!((differing, used), (vec![916, 917, 918, 919], 1231));
}

/// The same tree comes of the same calls, 93 collected blocks included.
#[test]
fn the_same_calls_make_the_same_tree() {
    const IGNORED: &[usize] = &[1, 3, 4, 6, 7];
    for (image, blocks, wanted) in [
        ("direct-clean-nockpt", 512, "before-umount"),
        ("direct-gc", 64, "before-umount"),
        ("direct-unclean", 512, "live"),
    ] {
        let mut bench = Bench::new(blank_chip(blocks), "linux-large");
        let options = MountOptions::new(find_profile("yaffs-direct").expect("in the table"));
        let text = String::from_utf8(data(&format!("{image}.ops"))).expect("a script");
        let sim = bench.simulation.handle();
        let mut shell = Shell::new(sim.clone(), bench.mtd.clone(), bench.cpus.clone(), options);
        let shown = Rc::new(RefCell::new(Vec::new()));
        let place = shown.clone();
        sim.spawn(async move {
            shell.is_strict = false;
            shell.mount().await;
            shell.run(&text).await;
            let fs = shell.fs.clone().expect("mounted");
            *place.borrow_mut() = manifest(&fs).await;
        });
        bench.simulation.run();
        let shown: Vec<String> = shown.take().iter().map(|row| without(row, IGNORED)).collect();
        let wanted = stored_manifest(&format!("{image}.{wanted}.tsv"));
        let wanted: Vec<String> = wanted.iter().map(|row| without(row, IGNORED)).collect();
        assert_eq!(shown, wanted, "{image}");
    }
}

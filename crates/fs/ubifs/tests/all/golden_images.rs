//! Images that Linux and mkfs.ubifs wrote, against what the kernel shows of them.

use crate::support;

use nand::Chip;
use std::cell::RefCell;
use std::rc::Rc;
use support::{assert_same, blank, data, expected, load, manifest, quiet, read_only, run_chip};
use ubi::{FormatOptions, Ubi};
use ubifs::{MountOptions, Volume};

/// Attaches, mounts, compares the tree; gives the chip back.
fn compare(name: &str, chip: Chip, header_offset: Option<u32>, options: MountOptions) -> Chip {
    let found = Rc::new(RefCell::new(Vec::new()));
    let (seen, label) = (found.clone(), name.to_owned());
    let (chip, is_done) = run_chip("linux-large", chip, false, move |bench| async move {
        let ubi = bench.attach(header_offset).await;
        let volume = ubi.open_volume(0).await.expect("volume 0");
        let is_writable = !options.is_read_only;
        let fs = bench.mount(Volume::Ubi(volume), options).await;
        seen.replace(manifest(&fs).await);
        assert_eq!(fs.findings(), [], "{label}");
        assert_eq!(fs.check().await.expect("it reads"), [], "{label}");
        if is_writable {
            fs_api::FileSystem::unmount(&fs).await.expect("it unmounts");
        }
        ubi.detach();
    });
    assert!(is_done, "{name} was not mounted");
    assert_same(name, &found.borrow(), &expected(&format!("{name}.manifest.tsv")));
    chip
}

#[test]
fn kernel_written_chips_show_what_the_kernel_shows() {
    for name in ["clean", "gc", "unclean", "cut1", "cut3"] {
        let chip = load(&data(&format!("ubifs-{name}.oob.zst")));
        compare(name, chip.clone(), None, read_only());
        let mended = compare(name, chip, None, quiet());
        compare(name, mended, None, quiet());
    }
}

#[test]
fn a_torn_page_costs_what_it_costs_the_kernel() {
    let mut image = data("ubifs-unclean.oob.zst");
    let page = &mut image[9023 * 2112..9024 * 2112];
    page[1024..2048].fill(0xff);
    page[2048 + 52..].fill(0xff);
    compare("unclean-torn", load(&image), None, read_only());
    let mended = compare("unclean-torn", load(&image), None, quiet());
    compare("unclean-torn", mended, None, quiet());
}

/// A chip onto which an image was flashed.
fn flashed(name: &str, header_offset: Option<u32>) -> Chip {
    let image = data(&format!("ubi-{name}.ubi.zst"));
    let (chip, is_done) = run_chip("linux-large", blank(512), false, move |bench| async move {
        let options = FormatOptions { header_offset, ..FormatOptions::default() };
        let (sim, cpus, mtd) = (bench.sim.clone(), bench.cpus.clone(), bench.mtd().clone());
        Ubi::flash(&sim, cpus, mtd, &image, &options).await.expect("it is flashed");
    });
    assert!(is_done);
    chip
}

#[test]
fn images_of_mkfs_show_what_the_kernel_shows() {
    let images = [
        ("lzo-s2048", Some(2048)),
        ("none-s512", None),
        ("zlib-s2048", Some(2048)),
        ("zstd-s512", None),
    ];
    for (name, header_offset) in images {
        let chip = flashed(name, header_offset);
        let label = format!("mkfs-{name}");
        compare(&label, chip.clone(), header_offset, read_only());
        let mounted = compare(&label, chip, header_offset, quiet());
        compare(&label, mounted, header_offset, quiet());
    }
}

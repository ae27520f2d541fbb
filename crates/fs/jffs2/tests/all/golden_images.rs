//! Images that other implementations wrote, against what the kernel shows of them.

use crate::support;

use jffs2::compress::find_compressor;
use jffs2::nodes::{
    DIRENT, DirentNode, HEADER_BYTES, Header, INODE, INODE_BYTES, InodeNode, XATTR, XREF,
    XattrNode, XrefNode,
};
use jffs2::{CleanMarkers, MountOptions};
use nand::{Chip, ImageLayout};
use std::cell::RefCell;
use std::rc::Rc;
use support::{assert_same, data, expected, load, manifest, quiet, run_with};

/// Mounts a chip, compares the tree, and once more after all nodes were checked.
fn compare(name: &str, layout: &str, chip: Chip, options: MountOptions) {
    let found = Rc::new(RefCell::new(Vec::new()));
    let seen = found.clone();
    run_with(layout, chip, false, move |bench| async move {
        let fs = bench.mount(options).await;
        fs.check_invariants();
        let lines = manifest(&fs).await;
        seen.borrow_mut().push(lines);
        fs.check_invariants();
        drop(fs);
    });
    let expected = expected(&format!("{name}.manifest.tsv"));
    let found = found.borrow();
    assert_eq!(found.len(), 1, "{name} was not mounted");
    assert_same(name, &found[0], &expected);
}

fn read_only(has_summary: bool) -> MountOptions {
    MountOptions { is_read_only: true, has_summary: Some(has_summary), ..quiet(1) }
}

#[test]
fn kernel_written_chips_show_what_the_kernel_shows() {
    for name in ["clean", "unclean", "cut1", "cut2"] {
        let image = data(&format!("{name}.oob.zst"));
        for has_summary in [true, false] {
            let chip = load(&image, ImageLayout::WithOob, 512);
            compare(name, "linux-large", chip, read_only(has_summary));
        }
    }
}

#[test]
fn a_small_chip_under_collection_shows_what_the_kernel_shows() {
    let image = data("gc.oob.zst");
    for has_summary in [true, false] {
        compare(
            "gc",
            "linux-large",
            load(&image, ImageLayout::WithOob, 24),
            read_only(has_summary),
        );
    }
}

#[test]
fn a_torn_page_costs_what_it_costs_the_kernel() {
    let mut image = data("unclean.oob.zst");
    let page = &mut image[31810 * 2112..31811 * 2112];
    page[1024..2048].fill(0xff);
    page[2048 + 52..].fill(0xff);
    compare(
        "unclean-torn",
        "linux-large",
        load(&image, ImageLayout::WithOob, 512),
        read_only(true),
    );
}

#[test]
fn images_of_mkfs_show_what_the_kernel_shows() {
    for name in ["mkfs-zlib", "mkfs-rtime", "mkfs-summary", "mkfs-lzo-cm"] {
        let image = data(&format!("{name}.img.zst"));
        for has_summary in [true, false] {
            let chip = load(&image, ImageLayout::DataOnly, 24);
            let mut options = read_only(has_summary);
            if name == "mkfs-lzo-cm" {
                options.clean_markers = CleanMarkers::InBand;
            }
            // Such an image has no ECC: nandwrite would add it.
            compare(name, "bare", chip, options);
        }
    }
}

/// Nodes on the kernel's chips parse and come out again byte for byte, compressed data included.
#[test]
fn nodes_of_the_kernel_are_written_as_the_kernel_writes_them() {
    let image = data("clean.oob.zst");
    let medium: Vec<u8> =
        image.chunks_exact(2112).flat_map(|page| &page[..2048]).copied().collect();
    let (mut nodes, mut packed) = (0, 0);
    let mut at = 0;
    while at + HEADER_BYTES <= medium.len() {
        let header = Header::parse(&medium[at..]);
        if !header.is_valid() {
            at += 4;
            continue;
        }
        let bytes = &medium[at..at + header.total_bytes as usize];
        at += (header.total_bytes as usize).next_multiple_of(4);
        let again = match header.node_type {
            INODE => InodeNode::parse(bytes).map(|node| node.to_bytes(&bytes[INODE_BYTES..])),
            DIRENT => DirentNode::parse(bytes).map(|node| node.to_bytes()),
            XATTR => XattrNode::parse(bytes).map(|node| node.to_bytes()),
            XREF => XrefNode::parse(bytes).map(XrefNode::to_bytes),
            _ => continue,
        };
        assert!(again.as_deref() == Some(bytes), "{at:#x}: {header:?}");
        nodes += 1;
        let Some(node) = InodeNode::parse(bytes).filter(|_| header.node_type == INODE) else {
            continue;
        };
        if node.compressor == 7 {
            let lzo = find_compressor(7).expect("in the table");
            let stored = &bytes[INODE_BYTES..];
            let data = lzo.decompress(stored, node.data_bytes as usize).expect("sound");
            let (_, again) = lzo.compress(&data, data.len()).expect("it shrinks");
            assert!(again == stored, "{at:#x}: {} and {} bytes", again.len(), stored.len());
            packed += 1;
        }
    }
    assert!(nodes > 1000 && packed > 200, "{nodes} nodes, {packed} of them LZO");
}

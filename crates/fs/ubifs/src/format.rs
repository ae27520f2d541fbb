//! Making an empty file system, as the kernel does on an empty volume.
//!
//! Source: `fs/ubifs/sb.c` (`create_default_filesystem`), `lpt.c` (`ubifs_create_dflt_lpt`). Uses a volume,
//! formats and the master's state, and no engine: there is none yet.

use crate::error::MountError;
use crate::inode::{FIRST_INODE, ROOT, flag as inode_flag};
use crate::keys::Key;
use crate::layout::{LOG_LEB, Layout, MASTER_LEB, SUPERBLOCK_LEB};
use crate::lprops::SpaceSums;
use crate::lpt_format::{NEVER_WRITTEN, Properties};
use crate::master::Master;
use crate::nodes::{
    Group, INODE_BYTES, IndexNode, InodeNode, Place, commit_start, kind, padded, seal,
};
use crate::position::{LebNumber, Position};
use crate::profile::MountOptions;
use crate::superblock::Superblock;
use crate::volume::Volume;

// One function: the numbers of each area go into the master node.
/// Writes an empty file system, as a kernel does it (`create_default_filesystem`).
pub(crate) async fn make_file_system(
    volume: &Volume,
    options: &MountOptions,
) -> Result<(), MountError> {
    let shape = volume.shape();
    let compressor = options.compressor.unwrap_or(options.profile.compressor);
    let too_small = MountError::TooSmall { lebs: shape.leb_count, leb_bytes: shape.leb_bytes };
    let format = options.profile.made_format;
    let mut superblock =
        Superblock::default_for(shape, format, compressor, options.new).ok_or(too_small)?;
    superblock.uuid = options.uuid;
    let layout = Layout::new(&superblock, shape);
    let align = |bytes: usize| bytes.next_multiple_of(shape.min_io_bytes as usize) as u32;
    let (index_bytes, main) = (IndexNode::bytes_of(1), layout.main_first);
    let whole = layout.leb_bytes;

    // Two eraseblocks of the main area are in use: one of the index, one with the root directory.
    let (index_used, inode_used) = (align(index_bytes), align(INODE_BYTES));
    let index_space = index_bytes.next_multiple_of(8) as u32;
    let first = [
        Properties { free: whole - index_used, dirty: index_used - index_space, is_index: true },
        Properties {
            free: whole - inode_used,
            dirty: inode_used - INODE_BYTES as u32,
            is_index: false,
        },
    ];
    let lpt = make_lpt(&layout, &first);
    // A cut within these writes leaves a volume that is not empty and has no valid master: it cannot be
    // mounted, and neither can the kernel's.
    for (leb, bytes) in &lpt.lebs {
        volume.write(Position::start_of(*leb), bytes).await?;
    }

    let dirty = u64::from(first[0].dirty + first[1].dirty);
    let main_bytes = u64::from(layout.main_lebs) * u64::from(whole);
    let master = Master {
        highest_inode: FIRST_INODE,
        commit: 0,
        flags: 0,
        log_leb: LOG_LEB,
        root: Place::new(Position::start_of(main), index_bytes as u32),
        // The third main eraseblock is the collector's reserve (`create_default_filesystem`).
        gc_leb: Some(main + 2),
        index_head: Position::new(main, index_used),
        index_bytes: u64::from(index_space),
        sums: SpaceSums {
            empty_lebs: layout.main_lebs - 2,
            taken_empty_lebs: 0,
            index_lebs: 1,
            free: main_bytes - u64::from(index_used) - u64::from(inode_used),
            dirty,
            used: INODE_BYTES as u64,
            dead: 0,
            dark: u64::from(layout.main_lebs - 1) * u64::from(layout.dark_watermark),
        },
        lpt_root: lpt.root,
        lpt_head: lpt.head,
        lpt_table: lpt.table,
        lpt_saved: lpt.saved,
        scan_leb: main,
        leb_count: superblock.leb_count,
    };
    let stamp = (options.made_at, 0);
    let root = InodeNode {
        key: Key::inode(ROOT),
        creation: 1,
        size: INODE_BYTES as u64,
        accessed: stamp,
        changed: stamp,
        modified: stamp,
        links: 2,
        mode: 0o040_755,
        // `UBIFS_COMPR_FL` on the root is inherited by everything below it.
        flags: inode_flag::COMPRESS,
        ..InodeNode::default()
    };
    let place = Place::new(Position::start_of(main + 1), INODE_BYTES as u32);
    let index = IndexNode { level: 0, branches: vec![(Key::inode(ROOT), place)] };
    let nodes = [
        (kind::SUPERBLOCK, superblock.to_bytes(), SUPERBLOCK_LEB),
        (kind::INODE, root.to_bytes(), main + 1),
        (kind::INDEX, index.to_bytes(), main),
        (kind::MASTER, master.to_bytes(), MASTER_LEB),
        (kind::MASTER, master.to_bytes(), MASTER_LEB + 1),
        (kind::COMMIT_START, commit_start(0), LOG_LEB),
    ];
    for ((kind, mut node, leb), sequence) in nodes.into_iter().zip(2..) {
        seal(&mut node, kind, sequence, Group::None);
        volume.write(Position::start_of(leb), &padded(node, shape.min_io_bytes)).await?;
    }
    Ok(())
}

/// A tree of LEB properties that is written for the first time.
struct NewLpt {
    lebs: Vec<(LebNumber, Vec<u8>)>,
    root: Position,
    head: Position,
    table: Position,
    saved: Position,
}

/// Lays out the tree of a main area in which all eraseblocks but the first are empty
/// (`ubifs_create_dflt_lpt`): nodes from the lowest level up, then the tables.
fn make_lpt(layout: &Layout, first: &[Properties; 2]) -> NewLpt {
    let shape = &layout.lpt;
    let (whole, min_io) = (layout.leb_bytes, layout.min_io);
    let area = layout.lpt_area();
    let (mut leb, mut bytes) = (layout.lpt_first, Vec::<u8>::new());
    let mut full: Vec<(LebNumber, Vec<u8>)> = Vec::new();
    let mut table = vec![(whole, 0); layout.lpt_lebs as usize];
    let close = |leb: LebNumber, mut bytes: Vec<u8>, table: &mut Vec<(u32, u32)>| {
        let end = bytes.len() as u32;
        let padded = end.next_multiple_of(min_io);
        table[(leb - area.first) as usize] = (whole - padded, padded - end);
        bytes.resize(padded as usize, 0xff);
        (leb, bytes)
    };
    let mut put = |node: Vec<u8>, table: &mut Vec<(u32, u32)>| {
        if bytes.len() + node.len() > whole as usize {
            full.push(close(leb, std::mem::take(&mut bytes), table));
            leb = leb + 1;
        }
        let place = Position::new(leb, bytes.len() as u32);
        bytes.extend_from_slice(&node);
        place
    };
    let empty = Properties { free: whole, ..Properties::default() };
    let mut places = Vec::new();
    for number in 0..shape.pnode_count {
        let mut lebs = [empty; 4];
        if number == 0 {
            lebs[..2].copy_from_slice(first);
        }
        places.push(put(shape.pack_pnode(number, &lebs), &mut table));
    }
    for level in 0..shape.height {
        let mut above = Vec::new();
        for (number, children) in (0_u32..).zip(places.chunks(4)) {
            let mut branches = [NEVER_WRITTEN; 4];
            branches[..children.len()].copy_from_slice(children);
            let full_number = shape.nnode_number(level as usize, number);
            above.push(put(shape.pack_nnode(full_number, &branches, area), &mut table));
        }
        places = above;
    }
    let root = places[0];
    let mut saved = NEVER_WRITTEN;
    if shape.is_big {
        let lebs: Vec<_> = (0..shape.saved_count)
            .map(|at| layout.main_first + at.min(layout.main_lebs - 1))
            .collect();
        saved = put(shape.pack_saved(&lebs), &mut table);
    }
    let table_place = put(vec![0; shape.table_bytes as usize], &mut table);
    let head_offset = (bytes.len() as u32).next_multiple_of(min_io);
    full.push(close(leb, bytes, &mut table));
    let packed = shape.pack_table(&table);
    let last = &mut full.last_mut().expect("the last was just put").1;
    let at = table_place.offset as usize;
    last[at..at + packed.len()].copy_from_slice(&packed);
    let head = Position::new(leb, head_offset);
    NewLpt { lebs: full, root, head, table: table_place, saved }
}

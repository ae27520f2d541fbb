//! RAM that a controller needs for the tables of each layer.

use crate::support::{build, page_bytes, small_part};
use ftl::{FTLS, Value, find_ftl};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;

const LOGICAL_PAGES: u32 = 256;

/// Bytes of 32 logical blocks of eight pages on 80 blocks, with four log blocks where a layer has them.
/// Numbers of blocks take two bytes, addresses of pages four.
const RAM_BYTES: &[(&str, u64)] = &[
    // The block map, and the offset in its logical block of every page of a log.
    ("bast", 2 * 32 + 2 * 4 * 8),
    // Four translation pages are found through the directory; 4096 entries of eight bytes are cached.
    ("dftl", 4 * 4 + 8 * 4096),
    // The block map, a page map of three random logs, and the sequential log with its owner and length.
    ("fast", 2 * 32 + 4 * 3 * 8 + 6),
    // Two units with a page map and four blocks; 30 others, and five of them open.
    ("hybrid", 4 * (2 * 8 + 4) + 2 * 30 + 6 * 5),
    // The block map, a page map of two random logs, and two sequential logs with owner and length.
    ("kast", 2 * 32 + 4 * 2 * 8 + 6 * 2),
    // The block map, a page map of two random logs, and two sequential logs with owner and length.
    ("last", 2 * 32 + 4 * 2 * 8 + 6 * 2),
    // Original and moved block, and a bit a page.
    ("lexar", 32 * (2 + 2 + 1)),
    // Primary and replacement block.
    ("m-systems", 2 * 2 * 32),
    // A head for every virtual unit, a successor for every unit.
    ("m-systems-anand", 2 * (32 + 80)),
    // Half of a block is space for rewrites, so 64 blocks hold the data.
    ("mitsubishi", 2 * 64),
    ("page", 4 * 256),
    // The block map, a page map of four log blocks, and which of eight groups has which of them.
    ("sast", 2 * 32 + 4 * 4 * 8 + 2 * (8 + 4)),
    // Two superblocks of 16 + 2 blocks: number, count and a bit a page of each block. Two directories each, of 64
    // pages. 64 tables of eight pages are cached.
    ("superblock", 2 * 18 * (2 + 2 + 1) + 4 * 2 * 2 + 2 * 64 * 8),
];

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("ram of all layers", || ram_of_all_layers().map_err(Failed::from))]
}

fn ram_of_all_layers() -> Result<(), String> {
    let mut measured = Vec::new();
    for entry in FTLS {
        if find_ftl(entry.name).map(|found| found.name) != Some(entry.name) {
            return Err(format!("{} is not found by its name", entry.name));
        }
        let mut given = BTreeMap::new();
        if entry.parameters.iter().any(|parameter| parameter.name == "log_blocks") {
            given.insert("log_blocks".to_owned(), Value::Integer(4));
        }
        let mut ftl = build(entry, &small_part(8, 80), LOGICAL_PAGES, &given)?;
        let empty = ftl.ram_bytes();
        for lpn in 0..LOGICAL_PAGES {
            ftl.write(lpn, Some(&page_bytes(lpn, 1))).map_err(|error| error.to_string())?;
        }
        if ftl.ram_bytes() != empty {
            return Err(format!("{}: tables are there from the beginning", entry.name));
        }
        measured.push((entry.name, empty));
    }
    if measured != RAM_BYTES {
        return Err(format!("{measured:?}"));
    }
    (find_ftl("none").is_none()).then_some(()).ok_or_else(|| "there is no such layer".into())
}

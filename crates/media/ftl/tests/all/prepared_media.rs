//! Media that random work hardly ever leads to: prepared page by page, or cut between two erases.

use crate::support;

use ftl::{Ftl, FtlError, Settings, Value, VirtualPage, find_ftl};
use libtest_mimic::{Failed, Trial};
use nand::{Chip, CutPoint, FaultSettings, NandError, PageAddress, Role, Storage, Tag};
use std::collections::BTreeMap;
use support::{PAGE_BYTES, build, page_bytes, small_part, version_of};

const PAGES: u32 = 4;
const BLOCKS: u32 = 16;
const LOGICAL_PAGES: u32 = 8;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: String, run: fn(&str) -> Result<(), String>, layer: &'static str| {
        trials
            .push(Trial::test(format!("{layer}/{name}"), move || run(layer).map_err(Failed::from)));
    };
    add("stale page of a full log".into(), stale_page_of_a_full_log, "bast");
    add("two sequential logs".into(), two_sequential_logs, "fast");
    for layer in ["bast", "fast", "hybrid", "lexar", "superblock"] {
        add("trim cut between its erases".into(), trim_cut_between_its_erases, layer);
    }
    for layer in ["bast", "fast"] {
        add("tag beside a log".into(), tag_beside_a_log, layer);
    }
    for layer in ["last", "sast"] {
        add("shared log in place".into(), shared_log_in_place, layer);
    }
    trials
}

fn given(layer: &str) -> BTreeMap<String, Value> {
    let entry = find_ftl(layer).expect("in the table");
    // Few log blocks, and a card without a page-mapped area.
    let tight = [("log_blocks", 4), ("page_mapped_units", 0)].into_iter();
    tight
        .filter(|(name, _)| entry.parameters.iter().any(|parameter| parameter.name == *name))
        .map(|(name, number)| (name.to_owned(), Value::Integer(number)))
        .collect()
}

/// A page of a medium: its place, what it says it is, and the version of the bytes it holds.
type Prepared = (PageAddress, Tag, u32);

/// Pages of a block from offset 0 on: logical page, sequence number, role, version.
fn block(number: u32, pages: &[(u32, u64, Role, u32)]) -> Vec<Prepared> {
    let page = |(page, (lpn, sequence, role, version)): (u32, &(u32, u64, Role, u32))| {
        (PageAddress::new(number, page), Tag::new(*lpn, *sequence, *role), *version)
    };
    (0..).zip(pages).map(page).collect()
}

/// A layer that wakes up over a medium.
fn over(layer: &str, pages: &[Prepared]) -> Result<Box<dyn Ftl>, String> {
    let part = small_part(PAGES, BLOCKS);
    let mut chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    for (at, tag, version) in pages {
        let bytes = page_bytes(tag.lpn(), *version);
        chip.program(*at, *tag, Some(&bytes)).map_err(|error| error.to_string())?;
    }
    let entry = find_ftl(layer).expect("in the table");
    let settings =
        Settings::new(entry.parameters, &given(layer)).map_err(|error| error.to_string())?;
    let mut ftl =
        ftl::build(entry, chip, LOGICAL_PAGES, &settings).map_err(|error| error.to_string())?;
    ftl.rebuild().map_err(|error| format!("rebuild: {error}"))?;
    Ok(ftl)
}

fn version(ftl: &mut dyn Ftl, lpn: u32) -> Result<Option<u32>, String> {
    let mut bytes = [0; PAGE_BYTES];
    ftl.read(lpn, Some(&mut bytes)).map_err(|error| format!("page {lpn}: {error}"))?;
    Ok(version_of(lpn, &bytes).or((bytes == [0; PAGE_BYTES]).then_some(0)))
}

fn write(ftl: &mut dyn Ftl, lpn: u32, number: u32) -> Result<(), String> {
    ftl.write(lpn, Some(&page_bytes(lpn, number))).map_err(|error| format!("page {lpn}: {error}"))
}

fn assert_version(ftl: &mut dyn Ftl, lpn: u32, expected: u32, place: &str) -> Result<(), String> {
    match version(ftl, lpn)? {
        Some(found) if found == expected => Ok(()),
        found => Err(format!("{place}: page {lpn} holds version {found:?}, not {expected}")),
    }
}

/// A log block is full and in order, but one of its pages is older than the copy in the data block:
/// the log may not become the data block as it is. Two guards see to it: a rebuild seals both blocks, and a
/// merge asks for the newest copy of each page.
fn stale_page_of_a_full_log(layer: &str) -> Result<(), String> {
    for stale in 0..PAGES {
        let data = |page: u32| {
            let is_newer = page == stale;
            let sequence = if is_newer { 20 } else { u64::from(page) };
            (
                page,
                sequence,
                if is_newer { Role::Log } else { Role::Data },
                1 + u32::from(is_newer) * 2,
            )
        };
        let data: Vec<_> = (0..PAGES).map(data).collect();
        let log: Vec<_> =
            (0..PAGES).map(|page| (page, 10 + u64::from(page), Role::Log, 2)).collect();
        let mut ftl = over(layer, &[block(0, &data), block(1, &log)].concat())?;
        let written = (stale + 1) % PAGES;
        write(ftl.as_mut(), written, 4)?;
        for lpn in 0..PAGES {
            let expected = match lpn {
                _ if lpn == stale => 3,
                _ if lpn == written => 4,
                _ => 2,
            };
            assert_version(ftl.as_mut(), lpn, expected, &format!("stale page {stale}"))?;
        }
    }
    Ok(())
}

/// A merge of the first sequential log was finished and its old data block, with a page that was
/// trimmed, not erased; then a second sequential log was begun. That one is the log, the first is data.
fn two_sequential_logs(layer: &str) -> Result<(), String> {
    use Role::{Data, SequentialLog};
    // Both orders of the logical blocks: the older log may come first or last in the scan.
    for older in [0, PAGES] {
        let newer = PAGES - older;
        let data = |first: u32, sequence: u64| -> Vec<_> {
            (0..PAGES).map(|page| (first + page, sequence + u64::from(page), Data, 1)).collect()
        };
        let merged =
            [(older, 10, SequentialLog, 2), (older + 1, 11, Data, 1), (older + 2, 12, Data, 1)];
        let begun = [(newer, 20, SequentialLog, 2)];
        let medium = [
            block(0, &data(older, 0)),
            block(1, &data(newer, 4)),
            block(2, &merged),
            block(3, &begun),
        ];
        let mut ftl = over(layer, &medium.concat())?;
        let place = format!("the older log is of page {older}");
        for offset in 0..PAGES {
            let expected = if offset == 0 { 2 } else { 1 };
            assert_version(ftl.as_mut(), newer + offset, expected, &place)?;
            if offset < PAGES - 1 {
                assert_version(ftl.as_mut(), older + offset, expected, &place)?;
            }
        }
        let tables = ftl.tables();
        let logs = tables.iter().find(|table| table.title == "log blocks").ok_or("no table")?;
        let sequential: Vec<_> =
            logs.rows.iter().filter(|row| row[0] == "sequential").map(|row| &row[1..3]).collect();
        let expected = ["3".to_owned(), (newer / PAGES).to_string()];
        if sequential != [&expected[..]] {
            return Err(format!("{place}: the sequential logs are {sequential:?}"));
        }
    }
    Ok(())
}

/// A shared log block begins with page 0 of a logical block and goes on in place, and a younger data block has a page
/// that is newer: it is no finished merge, so the log block keeps its newest pages. Nor is the log block a merge that was
/// cut, with or without the data block that it belongs to.
fn shared_log_in_place(layer: &str) -> Result<(), String> {
    use Role::{Data, Log, SequentialLog};
    let log = block(1, &[(0, 10, SequentialLog, 2), (1, 30, Log, 3)]);
    let older: Vec<_> = (0..PAGES).map(|page| (page, u64::from(page), Data, 1)).collect();
    // What each page holds: of the older data block, of none, of the younger one.
    let cases = [
        (block(2, &older), [2, 3, 1, 1]),
        (Vec::new(), [2, 3, 0, 0]),
        (block(2, &[(0, 20, Data, 4)]), [4, 3, 0, 0]),
    ];
    for (data, mut expected) in cases {
        let mut ftl = over(layer, &[data, log.clone()].concat())?;
        let place = format!("versions {expected:?}");
        for number in 5..5 + 3 * PAGES {
            for (lpn, version) in (0..).zip(expected) {
                assert_version(ftl.as_mut(), lpn, version, &place)?;
            }
            let lpn = (number + 1) % PAGES;
            write(ftl.as_mut(), lpn, number)?;
            expected[lpn as usize] = number;
        }
    }
    Ok(())
}

/// The last page of a logical block is trimmed, and the power fails after the first of the two
/// erases: what is still there is the newest data, never data that had been replaced.
fn trim_cut_between_its_erases(layer: &str) -> Result<(), String> {
    let part = small_part(PAGES, BLOCKS);
    let entry = find_ftl(layer).expect("in the table");
    let mut ftl = build(entry, &part, LOGICAL_PAGES, &given(layer))?;
    for lpn in 0..PAGES {
        write(ftl.as_mut(), lpn, 1)?;
    }
    let newest = [2, 2, 1, 1];
    for lpn in 0..2 {
        write(ftl.as_mut(), lpn, 2)?;
    }
    for lpn in 0..PAGES - 1 {
        ftl.trim(lpn).map_err(|error| error.to_string())?;
    }
    let erases = ftl.flash().chip().counters().erases;
    for (operation, point) in [(0, CutPoint::After), (1, CutPoint::Before), (1, CutPoint::Inside)] {
        let mut cut = ftl.clone_box();
        cut.flash_mut().chip_mut().cut_power_after(operation, point);
        if cut.trim(PAGES - 1) != Err(FtlError::Nand(NandError::PowerLost)) {
            return Err("the trim does not erase two blocks".into());
        }
        cut.flash_mut().chip_mut().power_on();
        if cut.flash().chip().counters().erases == erases {
            return Err("nothing was erased before the cut".into());
        }
        cut.rebuild().map_err(|error| error.to_string())?;
        for lpn in 0..PAGES {
            let found = version(cut.as_mut(), lpn)?;
            if ![Some(0), Some(newest[lpn as usize])].contains(&found) {
                return Err(format!("operation {operation} {point:?}: page {lpn} is {found:?}"));
            }
        }
    }
    Ok(())
}

/// A page that is written in place while its logical block has a log says so: the remnant of a
/// half-erased data block must not look like the finished target of a merge.
fn tag_beside_a_log(layer: &str) -> Result<(), String> {
    let part = small_part(PAGES, BLOCKS);
    let entry = find_ftl(layer).expect("in the table");
    let mut ftl = build(entry, &part, LOGICAL_PAGES, &given(layer))?;
    let role =
        |ftl: &dyn Ftl, lpn: u32| ftl.locate(lpn).map(|at| (at, ftl.flash().peek(at).role()));
    write(ftl.as_mut(), 0, 1)?;
    let home = role(ftl.as_ref(), 0).ok_or("page 0 is nowhere")?;
    write(ftl.as_mut(), 0, 2)?;
    write(ftl.as_mut(), 1, 1)?;
    // The other logical block has no log, and so no reason to say anything.
    write(ftl.as_mut(), PAGES, 1)?;
    let beside = role(ftl.as_ref(), 1).ok_or("page 1 is nowhere")?;
    let other = role(ftl.as_ref(), PAGES).ok_or("its page is nowhere")?;
    let log_role = if layer == "fast" { Role::SequentialLog } else { Role::Log };
    let expected = (VirtualPage::new(home.0.block, 1), log_role);
    if home.1 == Role::Data && beside == expected && other.1 == Role::Data {
        return Ok(());
    }
    Err(format!("page 0 {home:?}, page 1 {beside:?}, page {PAGES} {other:?}"))
}

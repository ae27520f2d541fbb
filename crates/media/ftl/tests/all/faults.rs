//! Data that the chip loses: pages with more bit errors than the ECC corrects, and the lower pages
//! that a power cut takes along on parts with two bits a cell.
#![allow(clippy::print_stdout, reason = "the losses are reported, not asserted")]

use crate::support;

use ftl::{FTLS, Ftl, FtlEntry, FtlError, Value};
use libtest_mimic::{Failed, Trial};
use nand::random::Stream;
use nand::{CutPoint, FaultSettings, NandError, Part};
use std::collections::BTreeMap;
use support::{PAGE_BYTES, build, page_bytes, small_part, version_of};

const LOGICAL_PAGES: u32 = 64;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for entry in FTLS.iter().copied() {
        trials.push(Trial::test(format!("{}/uncorrectable", entry.name), move || {
            uncorrectable(entry).map_err(Failed::from)
        }));
        trials.push(Trial::test(format!("{}/paired pages", entry.name), move || {
            let (cuts, lost) = paired_pages(entry)?;
            println!(
                "{}: {lost} acknowledged pages lost with a paired page in {cuts} cuts",
                entry.name
            );
            Ok(())
        }));
    }
    trials
}

fn few_logs(entry: &FtlEntry) -> BTreeMap<String, Value> {
    let logs = entry.parameters.iter().filter(|parameter| parameter.name == "log_blocks");
    logs.map(|parameter| (parameter.name.to_owned(), Value::Integer(4))).collect()
}

/// While every read fails, data that is moved is lost; it stays lost when reads work again, and a
/// new write heals it. No read ever gives older data.
fn uncorrectable(entry: &FtlEntry) -> Result<(), String> {
    let given = few_logs(entry);
    let settings =
        ftl::Settings::new(entry.parameters, &given).map_err(|error| error.to_string())?;
    let mut part = small_part(8, 4096);
    part.geometry.blocks = (entry.blocks_required)(&part.geometry, LOGICAL_PAGES, &settings) + 2;
    part.errors.erase_cycles_max = 10;
    part.errors.rber_worn = 0.05;
    let mut ftl = build(entry, &part, LOGICAL_PAGES, &given)?;
    let mut versions = vec![0_u32; LOGICAL_PAGES as usize];
    let mut draw = Stream::new(7, "uncorrectable");
    let write = |ftl: &mut dyn Ftl, versions: &mut Vec<u32>, lpn: u32, number: u32| {
        versions[lpn as usize] = number;
        ftl.write(lpn, Some(&page_bytes(lpn, number)))
            .map_err(|error| format!("write {number}: {error}"))
    };
    for number in 1..=600 {
        let lpn = if number <= LOGICAL_PAGES { number - 1 } else { draw.below(LOGICAL_PAGES) };
        write(ftl.as_mut(), &mut versions, lpn, number)?;
    }
    // Far beyond the end of life every read fails.
    let chip = ftl.flash_mut().chip_mut();
    chip.set_erase_counts(part.errors.erase_cycles_max * 2);
    chip.set_faults(&FaultSettings { seed: 8, bit_errors: true, ..FaultSettings::default() });
    for lpn in 0..LOGICAL_PAGES {
        match ftl.read(lpn, Some(&mut [0; PAGE_BYTES])) {
            Err(FtlError::Lost { lpn: lost }) if lost == lpn => {}
            other => return Err(format!("page {lpn} reads {other:?} where no read succeeds")),
        }
    }
    for number in 601..=900 {
        write(ftl.as_mut(), &mut versions, draw.below(LOGICAL_PAGES), number)?;
    }
    ftl.flash_mut().chip_mut().set_faults(&FaultSettings::default());
    let lost = lost_pages(ftl.as_mut(), &versions)?;
    if lost.is_empty() {
        return Err("no page was moved while reads failed: the run proves too little".into());
    }
    // Moved again, by writes to other pages, and found again by a rebuild: still lost.
    let kept: Vec<u32> = (0..LOGICAL_PAGES).filter(|lpn| !lost.contains(lpn)).collect();
    for number in 901..=1200 {
        let Some(lpn) = kept.get(draw.below(kept.len().max(1) as u32) as usize) else { break };
        write(ftl.as_mut(), &mut versions, *lpn, number)?;
    }
    for rebuilds in [false, true] {
        if rebuilds {
            ftl.rebuild().map_err(|error| format!("rebuild: {error}"))?;
        }
        let still_lost = lost_pages(ftl.as_mut(), &versions)?;
        if still_lost != lost {
            return Err(format!(
                "lost pages were {lost:?}, now {still_lost:?} (rebuilt: {rebuilds})"
            ));
        }
    }
    for lpn in &lost {
        write(ftl.as_mut(), &mut versions, *lpn, 2000 + lpn)?;
    }
    let still_lost = lost_pages(ftl.as_mut(), &versions)?;
    if still_lost.is_empty() {
        Ok(())
    } else {
        Err(format!("overwritten, but lost: {still_lost:?}"))
    }
}

/// The pages that report their loss; an error if another page does not hold its version.
fn lost_pages(ftl: &mut dyn Ftl, versions: &[u32]) -> Result<Vec<u32>, String> {
    let mut lost = Vec::new();
    for (lpn, version) in (0..).zip(versions) {
        let mut bytes = [0xaa; PAGE_BYTES];
        match ftl.read(lpn, Some(&mut bytes)) {
            Ok(()) if version_of(lpn, &bytes) == Some(*version) => {}
            Ok(()) => {
                return Err(format!(
                    "page {lpn} holds {:?}, not version {version}",
                    version_of(lpn, &bytes)
                ));
            }
            Err(FtlError::Lost { .. }) => lost.push(lpn),
            Err(error) => return Err(format!("page {lpn}: {error}")),
        }
    }
    Ok(lost)
}

/// A small part of the kind of the K9GAG08U0M: two bits a cell, pages in sequence, one program each.
fn small_mlc_part() -> Part {
    let mut part = nand::find_part("k9gag08u0m").expect("in the catalogue");
    part.geometry.page_data_bytes = PAGE_BYTES as u32;
    part.geometry.pages_per_block = 16;
    part.geometry.blocks = 40;
    part
}

/// Cuts the power inside programs; returns the cuts, and the acknowledged pages found lost or old.
///
/// A part that keeps two pages in one row of cells loses the first with a torn second, whatever the
/// layer does: how much is lost is reported, not asserted. Rebuilds and later writes must succeed,
/// and no page may ever show the data of another.
fn paired_pages(entry: &FtlEntry) -> Result<(u32, u32), String> {
    let mut ftl = build(entry, &small_mlc_part(), LOGICAL_PAGES, &few_logs(entry))?;
    let mut versions = vec![0_u32; LOGICAL_PAGES as usize];
    let mut acknowledged = versions.clone();
    let mut draw = Stream::new(9, "paired pages");
    let (mut cuts, mut lost, mut number) = (0, 0, 0);
    while cuts < 300 {
        number += 1;
        let lpn = draw.below(LOGICAL_PAGES);
        if draw.below(4) == 0 {
            ftl.flash_mut().chip_mut().cut_power_after(u64::from(draw.below(8)), CutPoint::Inside);
        }
        match ftl.write(lpn, Some(&page_bytes(lpn, number))) {
            Ok(()) => {
                versions[lpn as usize] = number;
                acknowledged[lpn as usize] = number;
            }
            Err(FtlError::Nand(NandError::PowerLost)) => {
                cuts += 1;
                ftl.flash_mut().chip_mut().power_on();
                ftl.rebuild().map_err(|error| format!("rebuild after {cuts} cuts: {error}"))?;
                lost += adopt(ftl.as_mut(), &mut versions, &acknowledged, (lpn, number))?;
            }
            Err(error) => return Err(format!("write {number}: {error}")),
        }
    }
    Ok((cuts, lost))
}

/// Counts the pages that are not what was acknowledged, and takes what is found as given.
fn adopt(
    ftl: &mut dyn Ftl,
    versions: &mut [u32],
    acknowledged: &[u32],
    under_way: (u32, u32),
) -> Result<u32, String> {
    let mut lost = 0;
    for (lpn, version) in (0..).zip(versions) {
        let mut bytes = [0xaa; PAGE_BYTES];
        match ftl.read(lpn, Some(&mut bytes)) {
            Ok(()) => {}
            Err(FtlError::Lost { .. }) => {
                lost += 1;
                continue;
            }
            Err(error) => return Err(format!("page {lpn}: {error}")),
        }
        let found = version_of(lpn, &bytes)
            .ok_or_else(|| format!("page {lpn} holds another page's data"))?;
        // A page that was given up may be found again; one that never was written may not.
        let is_known =
            found <= acknowledged[lpn as usize] || found <= *version || under_way == (lpn, found);
        if !is_known {
            return Err(format!("page {lpn} holds version {found}, which was not acknowledged"));
        }
        lost += u32::from(found < *version);
        *version = found;
    }
    Ok(lost)
}

//! Checks of NILFS2: superblocks, the checksums of all logs, what the checkpoint counts, the trees of the
//! newest checkpoint and of the snapshots.

use super::device::{DeviceImage, newest};
use crate::error::ImageError;
use crate::report::Report;
use fs_api::{Errno, Finding};
use nilfs2::{NO_SUPERBLOCK, Nilfs2, RolledBack, STATE_ERROR, STATE_VALID, Superblock};
use std::collections::BTreeSet;
use vfs::{Damage, Manifest, ReadLimits};

/// What was found out about one checkpoint.
struct Checked {
    damage: Vec<Damage>,
    complaints: Result<Vec<Finding>, Errno>,
    findings: Vec<Finding>,
    rolled_back: Option<RolledBack>,
    snapshots: Vec<u64>,
}

impl DeviceImage {
    /// Checks everything; with a checkpoint that was asked for, its tree in place of the newest.
    ///
    /// # Errors
    /// [`ImageError::Option`] if there is no such checkpoint.
    pub(super) fn check_within(&self, file_bytes_max: u64) -> Result<Report, ImageError> {
        let mut report = Report::default();
        for note in &self.notes {
            report.add_note("image", note.clone());
        }
        check_superblocks(&self.medium.superblocks(), &mut report);
        let limits = ReadLimits { has_hashes: true, file_bytes_max };
        let checked = self.run(move |fs| check_mounted(fs, limits));
        let checked = match checked {
            // A wrong option is the user's; anything else is found in the image.
            Err(error @ ImageError::Option { .. }) => return Err(error),
            Err(error) => {
                report.add_finding("NILFS2", error.to_string());
                return Ok(report);
            }
            Ok(checked) => checked,
        };
        if let Some(RolledBack { why, is_cut }) = checked.rolled_back {
            let what = format!("{why}: the mount goes back to the older superblock, as kernels do");
            report.add(is_cut, "superblock".into(), what);
        }
        for damage in checked.damage {
            report.add_finding(format!("path {}", damage.path), damage.what);
        }
        // Each read of a damaged block says so again.
        for finding in checked.findings.into_iter().collect::<BTreeSet<_>>() {
            report.add_finding("NILFS2", finding.text);
        }
        match checked.complaints {
            Ok(complaints) => {
                for complaint in complaints {
                    report.add_finding("NILFS2", complaint.text);
                }
            }
            Err(errno) => {
                report.add_finding("NILFS2", format!("it cannot be checked whole: {errno}"));
            }
        }
        // The tree that is shown was read above.
        for number in checked.snapshots.into_iter().filter(|it| Some(*it) != self.checkpoint) {
            self.check_tree(number, limits, &mut report);
        }
        Ok(report)
    }

    /// Reads the tree of a checkpoint.
    fn check_tree(&self, number: u64, limits: ReadLimits, report: &mut Report) {
        let place = format!("checkpoint {number}");
        let read = self.run_at(Some(number), move |fs| async move {
            Manifest::fingerprinted(&fs, &limits).await.1
        });
        match read {
            Err(error) => report.add_finding(place, error.to_string()),
            Ok(damage) => {
                for damage in damage {
                    report.add_finding(format!("{place} path {}", damage.path), damage.what);
                }
            }
        }
    }
}

async fn check_mounted(fs: Nilfs2, limits: ReadLimits) -> Checked {
    let (_, damage) = Manifest::fingerprinted(&fs, &limits).await;
    let mut complaints = fs.check_logs().await;
    // What a checkpoint counts can be compared only where the newest is shown.
    if let (Ok(found), true) = (&mut complaints, fs.shows_newest()) {
        match fs.check().await {
            Ok(more) => found.extend(more),
            Err(errno) => complaints = Err(errno),
        }
    }
    let snapshots = fs.checkpoints().await.unwrap_or_default();
    let snapshots = snapshots.iter().filter(|checkpoint| checkpoint.is_snapshot());
    let snapshots = snapshots.map(|checkpoint| checkpoint.number).collect();
    let rolled_back = fs.rolled_back().cloned();
    Checked { damage, complaints, findings: fs.findings(), rolled_back, snapshots }
}

/// A superblock lies within one sector. A disk leaves that as it was or as it shall be, but a chip of
/// raw NAND under the device erases the block around it first: a cut there leaves nothing in its place.
/// Kernels mount the other one (`nilfs_load_super_block` in `fs/nilfs2/the_nilfs.c`), so this is a note. A
/// magic number with a wrong checksum behind it is what no cut leaves.
fn check_superblocks(superblocks: &[Result<Superblock, String>; 2], report: &mut Report) {
    for (place, found) in ["first superblock", "second superblock"].into_iter().zip(superblocks) {
        if let Err(why) = found {
            let is_gone = why == NO_SUPERBLOCK;
            let remark = "a mount uses the other one, and writes this one anew";
            let what = if is_gone { format!("{why}: {remark}") } else { why.clone() };
            report.add(is_gone, place.into(), what);
        }
    }
    if let [Ok(first), Ok(second)] = superblocks {
        let shape = |it: &Superblock| {
            (it.uuid, it.checksum_seed, it.segments, it.blocks_per_segment, it.device_bytes)
        };
        if shape(first) != shape(second) {
            report.add_finding("second superblock", "it is of another file system than the first");
        }
    }
    let Some(superblock) = newest(superblocks) else { return };
    if superblock.state & STATE_ERROR != 0 {
        report.add_finding("superblock", "the kernel met an error on this file system");
    } else if superblock.state & STATE_VALID == 0 {
        report.add_note("superblock", "it was not unmounted: a mount looks for newer logs");
    }
}

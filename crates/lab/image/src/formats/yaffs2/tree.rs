//! Checks of the tree of YAFFS2: the checkpoint beside a scan.

use super::check::compare_with_checkpoint;
use super::detect::TagsForm;
use crate::chip::ChipImage;
use crate::diff::pairs;
use crate::error::ImageError;
use crate::report::Report;
use file_systems::Yaffs2Mount;
use vfs::{Damage, Manifest, ManifestRow, ReadLimits};
use yaffs2::{BlockInfo, Finding};

/// Whether a checkpoint was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Checkpoint {
    /// The file system has none, or there is none.
    #[default]
    None,
    /// The mount came from it.
    Used,
    /// It could not be used.
    Bad(&'static str),
}

impl Checkpoint {
    /// As descriptions of images have it.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Used => "valid".to_owned(),
            Self::Bad(reason) => format!("unusable: {reason}"),
        }
    }
}

/// What was seen while a tree was read.
struct Tree {
    manifest: Manifest,
    damage: Vec<Damage>,
    findings: Vec<Finding>,
    checkpoint: Checkpoint,
    /// All blocks as the mount has them, and which of their pages are in use.
    blocks: Vec<(BlockInfo, Vec<bool>)>,
}

/// Reads the tree as a mount shows it, and as a scan does.
///
/// # Errors
/// [`ImageError::Mount`].
pub(super) fn check_tree(
    tags: TagsForm,
    image: &ChipImage,
    limits: ReadLimits,
    report: &mut Report,
) -> Result<(), ImageError> {
    let tree = read_tree(image, true, limits)?;
    for damage in &tree.damage {
        report.add_finding(format!("path {}", damage.path), damage.what.clone());
    }
    // A mount from a checkpoint believes it; a scan sees every chunk.
    let from_scan = read_tree(image, false, limits)?;
    add_findings(&from_scan.findings, report);
    match tree.checkpoint {
        Checkpoint::None => {}
        Checkpoint::Used => {
            compare_with_checkpoint(&image.medium(), tags, &tree.blocks, report);
            compare(&tree.manifest, &from_scan.manifest, report);
        }
        Checkpoint::Bad(reason) => {
            report.add_note("checkpoint", format!("it cannot be used: {reason}"));
        }
    }
    Ok(())
}

/// Reads the tree, from the checkpoint if there is one or by a scan.
fn read_tree(
    image: &ChipImage,
    reads_checkpoint: bool,
    limits: ReadLimits,
) -> Result<Tree, ImageError> {
    let mut request = image.request.clone();
    if !reads_checkpoint {
        // A mount option of YAFFS2: all chunks are scanned.
        request.options.push("no-checkpoint-read".into());
    }
    image.run_as(request, move |_, mounted| async move {
        let fs = &*mounted.file_system;
        let (manifest, damage) = Manifest::fingerprinted(fs, &limits).await;
        let Yaffs2Mount(fs) = fs.get().expect("the row of YAFFS2 mounts it");
        let findings = fs.findings().await;
        let checkpoint = checkpoint_of(fs.statistics().await.is_from_checkpoint, &findings);
        let blocks = fs.block_map().await;
        Tree { manifest, damage, findings, checkpoint, blocks }
    })
}

/// What a scan by the engine said of objects; what concerns pages is left out, since the check of
/// the medium has it with the place.
fn add_findings(findings: &[Finding], report: &mut Report) {
    for finding in findings {
        let (object, what) = match finding {
            Finding::KindMismatch { object } => (object, "its headers and data are of two kinds"),
            Finding::BadParent { object } => (object, "its parent is no directory"),
            Finding::DanglingLink { object } => (object, "the hard link leads nowhere"),
            Finding::Lost { object } => (object, "it hangs on nothing"),
            _ => continue,
        };
        report.add_finding(format!("object {object}"), what);
    }
}

/// Whether a mount used the checkpoint, by what it found.
pub(super) fn checkpoint_of(is_used: bool, findings: &[Finding]) -> Checkpoint {
    let bad = findings.iter().find_map(|finding| match finding {
        Finding::BadCheckpoint { reason } => Some(*reason),
        _ => None,
    });
    match bad {
        Some(reason) => Checkpoint::Bad(reason),
        None if is_used => Checkpoint::Used,
        None => Checkpoint::None,
    }
}

/// Compares the tree of a checkpoint with that of a scan.
fn compare(checkpoint: &Manifest, scan: &Manifest, report: &mut Report) {
    for (left, right) in pairs(checkpoint, scan) {
        let (place, what) = match (left, right) {
            (Some(left), Some(right)) if left == right => continue,
            (Some(left), Some(right)) => {
                let is_extended = left.kind == 'f'
                    && left.size_bytes > right.size_bytes
                    && ManifestRow { size_bytes: 0, sha256: None, ..left.clone() }
                        == ManifestRow { size_bytes: 0, sha256: None, ..right.clone() };
                let place = format!("path {}", left.path);
                if is_extended {
                    let what = "it was made longer without being written: \
                                only the checkpoint knows, a scan does not";
                    report.add_note(place, what);
                    continue;
                }
                // Without a header its times are those of the mount.
                if left.path == "lost+found" || left.path == "." {
                    continue;
                }
                (place, "the checkpoint says otherwise than a scan")
            }
            (Some(left), None) => (format!("path {}", left.path), "a scan does not find it"),
            (None, Some(right)) => {
                (format!("path {}", right.path), "the checkpoint does not have it")
            }
            (None, None) => continue,
        };
        report.add_finding(place, what);
    }
}

//! An fsck that never writes: the medium, then the tree, then the checkpoint beside a scan.

use crate::check_jffs2::{Jffs2Counts, check_jffs2};
use crate::check_ubi::{UbiCounts, check_ubi};
use crate::check_yaffs2::{Yaffs2Counts, check_yaffs2, compare_with_checkpoint};
use crate::list::FILE_BYTES_MAX;
use crate::medium::Medium;
use crate::report::Report;
use crate::{Image, ImageError, Listing};
use file_systems::Yaffs2Mount;
use mount::{Counter, ImageMedium, Severity};
use vfs::{Manifest, ManifestRow, ReadLimits};
use yaffs2::{BlockInfo, Finding};

/// Counts of what is on the medium, by file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Nodes and marks of JFFS2.
    Jffs2(Jffs2Counts),
    /// Headers and blocks of UBI.
    Ubi(UbiCounts),
    /// UBIFS without UBI: its nodes are looked at where it is mounted.
    Ubifs,
    /// Chunks and objects of YAFFS2.
    Yaffs2(Yaffs2Counts),
    /// Of a file system whose row has tools of its own.
    Own(Vec<Counter>),
}

/// Whether a checkpoint was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Checkpoint {
    /// The file system has none, or there is none.
    #[default]
    None,
    /// The mount came from it.
    Used,
    /// It could not be used.
    Bad(&'static str),
}

/// What was seen while a tree was read.
struct Tree {
    listing: Listing,
    findings: Vec<Finding>,
    checkpoint: Checkpoint,
    /// Of YAFFS2: all blocks as the mount knows them.
    blocks: Vec<(BlockInfo, Vec<bool>)>,
}

impl Image {
    /// Checks everything.
    ///
    /// # Errors
    /// [`ImageError::Mount`] if the image does not mount at all.
    pub fn check(&self) -> Result<Report, ImageError> {
        self.check_within(FILE_BYTES_MAX)
    }

    /// [`Image::check`] that reads no file longer than `file_bytes_max`.
    ///
    /// # Errors
    /// [`ImageError::Mount`] if the image does not mount at all.
    pub fn check_within(&self, file_bytes_max: u64) -> Result<Report, ImageError> {
        let (mut report, _) = self.check_medium();
        let limits = ReadLimits { has_hashes: true, file_bytes_max };
        // UBI may hold several volumes, each with a tree of its own.
        if self.kind.is_over_ubi {
            self.check_ubifs(limits, &mut report);
            return Ok(report);
        }
        let tree = self.tree(true, limits)?;
        for damage in &tree.listing.damage {
            report.find(format!("path {}", damage.path), damage.what.clone());
        }
        if self.kind.name == "yaffs2" {
            // A mount from a checkpoint believes it; a scan sees every chunk.
            let from_scan = self.tree(false, limits)?;
            add_findings(&from_scan.findings, &mut report);
            match tree.checkpoint {
                Checkpoint::None => {}
                Checkpoint::Used => {
                    let medium = Medium::new(self);
                    compare_with_checkpoint(&medium, self.form.tags, &tree.blocks, &mut report);
                    compare(&tree.listing.manifest, &from_scan.listing.manifest, &mut report);
                }
                Checkpoint::Bad(reason) => {
                    report.note("checkpoint", format!("it cannot be used: {reason}"));
                }
            }
        }
        Ok(report)
    }

    /// Checks the medium alone; and counts what is on it.
    pub fn check_medium(&self) -> (Report, Counts) {
        let mut report = Report::default();
        for note in &self.notes {
            report.note("image", note.clone());
        }
        let medium = Medium::new(self);
        for page in &self.corrected_marks {
            report.corrected_bits += 1;
            let place = medium.place(page * medium.page_bytes);
            report.note(place, "the bad mark has a single wrong bit: it is not believed");
        }
        for block in (0..medium.blocks).filter(|block| medium.is_bad(*block)) {
            report.note(medium.place(block * medium.block_bytes()), "the block is marked bad");
        }
        let counts = if let Some(support) = self.kind.images.own() {
            let (chip, layout, blocks) = (&self.chip, self.layout, self.blocks);
            let (findings, counts) = support.check_medium(&ImageMedium { chip, layout, blocks });
            for finding in findings {
                let is_harmless = finding.severity == Severity::Note;
                report.say(is_harmless, finding.place.to_string(), finding.text);
            }
            Counts::Own(counts)
        } else if self.kind.name == "yaffs2" {
            Counts::Yaffs2(check_yaffs2(&medium, self.form.tags, &mut report))
        } else if let Some(ubi) = self.form.ubi {
            Counts::Ubi(check_ubi(&medium, ubi, &mut report))
        } else if self.form.is_bare {
            Counts::Ubifs
        } else {
            Counts::Jffs2(check_jffs2(&medium, &mut report))
        };
        (report, counts)
    }

    /// Reads the tree, from the checkpoint if there is one or by a scan.
    fn tree(&self, reads_checkpoint: bool, limits: ReadLimits) -> Result<Tree, ImageError> {
        let mut request = self.request.clone();
        if !reads_checkpoint {
            // A mount option of YAFFS2: all chunks are scanned.
            request.options.push("no-checkpoint-read".into());
        }
        self.run_as(request, move |_, mounted| async move {
            let fs = &*mounted.file_system;
            let (manifest, damage) = Manifest::fingerprinted(fs, &limits).await;
            let listing = Listing { manifest, damage, notes: Vec::new() };
            let (mut findings, mut checkpoint) = (Vec::new(), Checkpoint::None);
            let mut blocks = Vec::new();
            if let Some(Yaffs2Mount(fs)) = fs.get() {
                findings = fs.findings().await;
                checkpoint = checkpoint_of(fs.statistics().await.is_from_checkpoint, &findings);
                blocks = fs.block_map().await;
            }
            Tree { listing, findings, checkpoint, blocks }
        })
    }
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
        report.find(format!("object {object}"), what);
    }
}

pub(crate) fn checkpoint_of(is_used: bool, findings: &[Finding]) -> Checkpoint {
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
                    report.note(place, what);
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
        report.find(place, what);
    }
}

/// Rows of two manifests by path.
pub(crate) fn pairs<'m>(
    left: &'m Manifest,
    right: &'m Manifest,
) -> Vec<(Option<&'m ManifestRow>, Option<&'m ManifestRow>)> {
    // Manifests are sorted by the bytes of their paths, the root first.
    let key = |row: &&'m ManifestRow| (row.path != ".", vfs::unescape_path(&row.path));
    let mut pairs = Vec::new();
    let (mut lefts, mut rights) = (left.rows.iter().peekable(), right.rows.iter().peekable());
    loop {
        let order = match (lefts.peek(), rights.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => key(a).cmp(&key(b)),
        };
        // Both go on where the paths are equal.
        pairs.push((
            order.is_le().then(|| lefts.next()).flatten(),
            order.is_ge().then(|| rights.next()).flatten(),
        ));
    }
}

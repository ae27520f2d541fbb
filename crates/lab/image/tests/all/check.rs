//! Checks of golden images: none is inconsistent, and damage is named.

use crate::support;

use support::{golden, jffs2_data, yaffs2_data};

#[test]
fn what_real_implementations_leave_is_consistent() {
    let jffs2 = [
        "clean",
        "unclean",
        "cut1",
        "cut2",
        "gc",
        "unclean-torn",
        "mkfs-zlib",
        "mkfs-rtime",
        "mkfs-summary",
        "mkfs-lzo-cm",
    ]
    .map(|name| (jffs2_data(), name));
    let yaffs2 = [
        "direct-clean-nockpt",
        "direct-cut1",
        "direct-gc",
        "direct-unclean",
        "linux61-clean",
        "mkimage",
    ]
    .map(|name| (yaffs2_data(), name));
    let mut wrong = Vec::new();
    for (data, name) in jffs2.into_iter().chain(yaffs2) {
        let report = golden(&data, name).check().expect("it mounts");
        eprintln!("{name}: {} notes", report.notes.len());
        for note in report.notes.iter().take(10) {
            eprintln!("    {}: {}", note.place, note.what);
        }
        for finding in report.findings.iter().take(20) {
            wrong.push(format!("{name}: {}: {}", finding.place, finding.what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Why a volume cannot be mounted. Uses nothing of the crate.

use fs_api::{Errno, Finding};
use thiserror::Error;

/// Why a volume cannot be mounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// LEB 0 does not begin with a whole superblock node; the text is what was found there.
    #[error("no superblock of UBIFS in LEB 0: {0}; is this a volume of UBIFS?")]
    NoSuperblock(String),
    /// A superblock that cannot be used here.
    #[error("the superblock cannot be used: {0}")]
    BadSuperblock(String),
    /// The volume is too small for a file system.
    #[error(
        "{lebs} LEBs of {leb_bytes} bytes are too few for a file system; make the volume larger"
    )]
    TooSmall {
        /// Eraseblocks of the volume.
        lebs: u32,
        /// Bytes of one eraseblock.
        leb_bytes: u32,
    },
    /// The volume is empty and nothing may be written.
    #[error("the volume is empty; mount it writable once to make a file system")]
    Empty,
    /// The file system is damaged, or the medium failed.
    #[error("{error}: {}", joined(findings))]
    Damaged {
        /// What the call returned.
        error: Errno,
        /// What was found wrong.
        findings: Vec<Finding>,
    },
}

impl From<Errno> for MountError {
    fn from(error: Errno) -> Self {
        Self::Damaged { error, findings: Vec::new() }
    }
}

fn joined(findings: &[Finding]) -> String {
    let texts: Vec<&str> = findings.iter().map(|finding| finding.text.as_str()).collect();
    texts.join("; ")
}

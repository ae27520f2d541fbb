//! What an image holds, as rows.

use serde_json::{Map, Value, json};
use vfs::{Damage, Manifest, ManifestRow, escape_path};

/// The longest file that is read: keys of UBIFS tell 2^29 blocks of 4 KiB apart (`UBIFS_S_KEY_BLOCK_BITS`),
/// and the file systems without a medium of that size can have no longer one. Holes take no time.
pub const FILE_BYTES_MAX: u64 = 1 << 41;

/// What an image holds.
#[derive(Debug)]
pub struct Listing {
    /// Names in the order of the bytes of their paths.
    pub manifest: Manifest,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// What is to be said of it, a sentence each.
    pub notes: Vec<String>,
}

impl Listing {
    /// A listing without any names.
    pub(crate) fn empty() -> Self {
        Self { manifest: Manifest { rows: Vec::new() }, damage: Vec::new(), notes: Vec::new() }
    }

    /// The same below a directory.
    pub(crate) fn below(mut self, directory: &str) -> Self {
        // A volume may be called anything but NUL; paths in a manifest are escaped.
        let directory = escape_path(directory.as_bytes());
        let place = |path: &str| match path {
            "." => directory.clone(),
            path => format!("{directory}/{path}"),
        };
        for row in &mut self.manifest.rows {
            row.path = place(&row.path);
        }
        for damage in &mut self.damage {
            damage.path = place(&damage.path);
        }
        self
    }

    /// An object for each name; `sha256` is there only where hashes were asked for.
    pub fn to_json(&self, has_hashes: bool) -> Value {
        self.manifest.rows.iter().map(|row| row_json(row, has_hashes)).collect()
    }
}

fn row_json(row: &ManifestRow, has_hashes: bool) -> Value {
    let extended: Map<String, Value> =
        row.extended.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut object = json!({
        "path": row.path,
        "type": row.kind.to_string(),
        "mode": format!("{:04o}", row.permissions),
        "nlink": row.links,
        "uid": row.uid,
        "gid": row.gid,
        "size": row.size_bytes,
        "mtime": row.modified,
        "rdev": row.device.map(|(major, minor)| format!("{major}:{minor}")),
        "sha256": row.sha256,
        "target": row.target,
        "xattrs": extended,
    });
    // Absent, and not null: null is the hash of what is no regular file.
    if !has_hashes && let Some(fields) = object.as_object_mut() {
        fields.shift_remove("sha256");
    }
    object
}

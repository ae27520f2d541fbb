//! What an image holds, as rows.

use crate::{Image, ImageError};
use serde_json::{Map, Value, json};
use vfs::{Damage, Manifest, ManifestRow, ReadLimits};

/// The longest file that is read: as long as JFFS2 can say, and twice what YAFFS2 can hold.
pub const FILE_BYTES_MAX: u64 = u32::MAX as u64;

/// What an image holds.
#[derive(Debug)]
pub struct Listing {
    /// Names in the order of the bytes of their paths.
    pub manifest: Manifest,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

impl Image {
    /// Lists everything, with the hashes of the files if they are wanted.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn list(&self, has_hashes: bool) -> Result<Listing, ImageError> {
        self.list_within(ReadLimits { has_hashes, file_bytes_max: FILE_BYTES_MAX })
    }

    /// [`Image::list`] with other limits.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn list_within(&self, limits: ReadLimits) -> Result<Listing, ImageError> {
        self.run(move |_, mounted| async move {
            let (manifest, damage) = Manifest::of_damaged(&*mounted.file_system, &limits).await;
            Listing { manifest, damage }
        })
    }
}

impl Listing {
    /// An object for each name; `sha256` is there only where hashes were wanted.
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
    if !has_hashes && let Some(fields) = object.as_object_mut() {
        fields.shift_remove("sha256");
    }
    object
}

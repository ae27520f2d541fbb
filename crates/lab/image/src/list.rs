//! What an image holds, as rows.

use crate::volumes::{Holding, raw_name, read_raw};
use crate::{Image, ImageError};
use fs_api::Errno;
use mount::MountRequest;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use ubi::VolumeInfo;
use vfs::{Damage, Manifest, ManifestRow, ReadLimits, escape_path, hexadecimal};

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
        let volumes = self.volumes()?;
        match &volumes[..] {
            // A static volume is a file and no tree.
            [(volume, Holding::Raw)] => self.list_raw(volume, limits.has_hashes),
            [_, _, ..] => self.list_volumes(&volumes, &limits),
            _ => self.list_mounted(self.request.clone(), limits),
        }
    }

    fn list_mounted(
        &self,
        request: MountRequest,
        limits: ReadLimits,
    ) -> Result<Listing, ImageError> {
        self.run_as(request, move |_, mounted| async move {
            let (manifest, damage) = Manifest::of_damaged(&*mounted.file_system, &limits).await;
            Listing { manifest, damage, notes: Vec::new() }
        })
    }

    /// Several volumes, each below a directory of its name.
    fn list_volumes(
        &self,
        volumes: &[(VolumeInfo, Holding)],
        limits: &ReadLimits,
    ) -> Result<Listing, ImageError> {
        let mut all = Listing {
            manifest: Manifest { rows: Vec::new() },
            damage: Vec::new(),
            notes: Vec::new(),
        };
        for (volume, holding) in volumes {
            let name = &volume.name;
            let listing = match holding {
                Holding::Raw => self.list_raw(volume, limits.has_hashes)?,
                Holding::Nothing => {
                    all.notes.push(format!("volume `{name}` is empty: nothing was ever written"));
                    continue;
                }
                Holding::Other => {
                    all.notes.push(format!("volume `{name}` holds no file system of UBIFS"));
                    continue;
                }
                Holding::Ubifs => {
                    let mut request = self.request.clone();
                    request.ubi.volume = Some(name.clone());
                    match self.list_mounted(request, *limits) {
                        Ok(listing) => listing.below(name),
                        // One volume that does not mount hides no other.
                        Err(error) => {
                            let path = escape_path(name.as_bytes());
                            let what = error.to_string();
                            all.damage.push(Damage { path, errno: Errno::Eio, what });
                            continue;
                        }
                    }
                }
            };
            all.manifest.rows.extend(listing.manifest.rows);
            all.damage.extend(listing.damage);
            all.notes.extend(listing.notes);
        }
        Ok(all)
    }

    /// A static volume as the file that it is extracted to.
    fn list_raw(&self, volume: &VolumeInfo, has_hashes: bool) -> Result<Listing, ImageError> {
        let (id, path) = (volume.id, escape_path(raw_name(volume).as_bytes()));
        let read = self.run_ubi(move |ubi| async move { read_raw(&ubi, id).await })?;
        let mut listing = Listing {
            manifest: Manifest { rows: Vec::new() },
            damage: Vec::new(),
            notes: Vec::new(),
        };
        let data = match read {
            Ok((data, true)) => {
                let name = &volume.name;
                let note =
                    format!("volume `{name}` is static: it holds raw data, whose CRCs are right");
                listing.notes.push(note);
                data
            }
            Ok((data, false)) => {
                let what = "the data of the static volume is not what its CRCs say".into();
                listing.damage.push(Damage { path: path.clone(), errno: Errno::Eio, what });
                data
            }
            Err(error) => {
                let what = error.to_string();
                listing.damage.push(Damage { path: path.clone(), errno: Errno::Eio, what });
                Vec::new()
            }
        };
        // A volume has no attributes; these are those of a file that all may read.
        listing.manifest.rows.push(ManifestRow {
            kind: 'f',
            permissions: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            size_bytes: data.len() as u64,
            modified: 0,
            device: None,
            sha256: has_hashes.then(|| hexadecimal(&Sha256::digest(&data))),
            target: None,
            extended: Vec::new(),
            path,
        });
        Ok(listing)
    }
}

impl Listing {
    /// The same below a directory.
    fn below(mut self, directory: &str) -> Self {
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

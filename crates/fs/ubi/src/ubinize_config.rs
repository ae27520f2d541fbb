//! The configuration of `ubinize`: an ini file, one section a volume.
//!
//! Source: `ubinize(8)` of mtd-utils 2.1.5. Uses formats only.

use crate::headers::VolumeKind;
use thiserror::Error;

/// A volume of an image, as its section says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSection {
    /// Name of the section.
    pub section: String,
    /// File with the volume's contents; none for an empty volume.
    pub image: Option<String>,
    /// Number of the volume (`vol_id`).
    pub id: u32,
    /// Name of the volume (`vol_name`).
    pub name: String,
    /// Dynamic or static (`vol_type`).
    pub kind: VolumeKind,
    /// Bytes; none for as many as the image has.
    pub size_bytes: Option<u64>,
    /// Unit of the block size.
    pub alignment: u32,
    /// Takes all blocks that are left when first attached.
    pub is_auto_resized: bool,
    /// The CRCs of the static volume are not checked when it is opened.
    pub skips_check: bool,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct ConfigError {
    /// Line, from 1 on.
    pub line: usize,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// Keys that a section may have.
const KEYS: &[&str] = &[
    "image",
    "mode",
    "vol_alignment",
    "vol_flags",
    "vol_flash",
    "vol_id",
    "vol_name",
    "vol_size",
    "vol_type",
];

/// A section as it stands: its line, its name, and key, value and line of its settings.
struct Section {
    line: usize,
    name: String,
    settings: Vec<(String, String, usize)>,
}

impl Section {
    fn get(&self, key: &str) -> Option<(&str, usize)> {
        let setting = self.settings.iter().find(|(name, _, _)| name == key);
        setting.map(|(_, value, line)| (value.as_str(), *line))
    }

    fn need(&self, key: &str) -> Result<(&str, usize), ConfigError> {
        self.get(key).ok_or_else(|| ConfigError {
            line: self.line,
            reason: format!("section [{}] has no {key}", self.name),
        })
    }
}

/// Volumes in the order of their sections.
///
/// # Errors
/// [`ConfigError`] with the line.
pub fn parse_config(text: &str) -> Result<Vec<VolumeSection>, ConfigError> {
    let sections = split(text)?;
    let mut volumes: Vec<VolumeSection> = Vec::new();
    for section in &sections {
        let volume = volume(section)?;
        let refuse = |reason| Err(ConfigError { line: section.line, reason });
        for other in &volumes {
            if other.id == volume.id {
                return refuse(format!("number {} is that of [{}], too", volume.id, other.section));
            }
            if other.name == volume.name {
                return refuse(format!(
                    "name {:?} is that of [{}], too",
                    volume.name, other.section
                ));
            }
            if other.is_auto_resized && volume.is_auto_resized {
                return refuse(format!("[{}] is autoresize already; one can be", other.section));
            }
        }
        volumes.push(volume);
    }
    if volumes.is_empty() {
        let reason = "there is no section; a volume is described by one".to_owned();
        return Err(ConfigError { line: 1, reason });
    }
    Ok(volumes)
}

fn split(text: &str) -> Result<Vec<Section>, ConfigError> {
    let mut sections: Vec<Section> = Vec::new();
    for (text, line) in text.lines().zip(1..) {
        let refuse = |reason: String| Err(ConfigError { line, reason });
        let text = text.split(['#', ';']).next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            if sections.iter().any(|section| section.name == name) {
                return refuse(format!("section [{name}] is there already"));
            }
            sections.push(Section { line, name: name.to_owned(), settings: Vec::new() });
            continue;
        }
        let Some((key, value)) = text.split_once('=') else {
            return refuse(format!("{text:?} is neither [section] nor key=value"));
        };
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        if !KEYS.contains(&key) {
            return refuse(format!("{key:?} is not known; keys are {}", KEYS.join(", ")));
        }
        let Some(section) = sections.last_mut() else {
            return refuse(format!("{key} stands before the first section"));
        };
        if section.get(key).is_some() {
            return refuse(format!("{key} is given twice"));
        }
        section.settings.push((key.to_owned(), value.to_owned(), line));
    }
    Ok(sections)
}

// One function: each key of a section is read and checked once.
fn volume(section: &Section) -> Result<VolumeSection, ConfigError> {
    let (mode, line) = section.need("mode")?;
    if mode != "ubi" {
        let reason = format!("mode {mode:?} is not known; write mode=ubi");
        return Err(ConfigError { line, reason });
    }
    let (id, line) = section.need("vol_id")?;
    let id = id.parse().ok().filter(|id| *id < crate::headers::VOLUMES_MAX).ok_or_else(|| {
        let reason = format!("vol_id {id:?} is no number from 0 to 127");
        ConfigError { line, reason }
    })?;
    let (name, line) = section.need("vol_name")?;
    if name.is_empty() || name.len() > crate::volume_table::NAME_BYTES_MAX {
        let reason = "vol_name has 1 to 127 bytes".to_owned();
        return Err(ConfigError { line, reason });
    }
    let kind = match section.get("vol_type") {
        None | Some(("dynamic", _)) => VolumeKind::Dynamic,
        Some(("static", _)) => VolumeKind::Static,
        Some((other, line)) => {
            let reason = format!("vol_type {other:?} is neither dynamic nor static");
            return Err(ConfigError { line, reason });
        }
    };
    let size_bytes = section.get("vol_size").map(|(text, line)| size(text, line)).transpose()?;
    let image = section.get("image").map(|(path, _)| path.to_owned());
    if image.is_none() && size_bytes.is_none() {
        let reason = format!("section [{}] has neither image nor vol_size", section.name);
        return Err(ConfigError { line: section.line, reason });
    }
    if image.is_none() && kind == VolumeKind::Static {
        let reason = format!("static volume [{}] has no image", section.name);
        return Err(ConfigError { line: section.line, reason });
    }
    let alignment = match section.get("vol_alignment") {
        None => 1,
        Some((text, line)) => {
            text.parse().ok().filter(|alignment| *alignment > 0).ok_or_else(|| ConfigError {
                line,
                reason: format!("vol_alignment {text:?} is no number above 0"),
            })?
        }
    };
    let (mut is_auto_resized, mut skips_check) = (false, false);
    if let Some((flags, line)) = section.get("vol_flags") {
        for flag in flags.split([',', ' ']).filter(|flag| !flag.is_empty()) {
            match flag {
                "autoresize" => is_auto_resized = true,
                "skip-check" => skips_check = true,
                _ => {
                    let reason =
                        format!("flag {flag:?} is not known; flags are autoresize, skip-check");
                    return Err(ConfigError { line, reason });
                }
            }
        }
    }
    Ok(VolumeSection {
        section: section.name.clone(),
        image,
        id,
        name: name.to_owned(),
        kind,
        size_bytes,
        alignment,
        is_auto_resized,
        skips_check,
    })
}

/// Bytes as `30MiB`, `512KiB`, `1GiB` or a plain number.
fn size(text: &str, line: usize) -> Result<u64, ConfigError> {
    let digits = text.find(|at: char| !at.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" => Some(0),
        "KiB" | "k" | "K" => Some(10),
        "MiB" | "m" | "M" => Some(20),
        "GiB" | "g" | "G" => Some(30),
        _ => None,
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .zip(shift)
        .and_then(|(number, shift)| number.checked_mul(1 << shift).filter(|bytes| *bytes > 0));
    bytes.ok_or_else(|| ConfigError {
        line,
        reason: format!("vol_size {text:?} is no size; write it as 30MiB, 512KiB or in bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::{VolumeKind, VolumeSection, parse_config};

    const CONFIG: &str = "\
# two volumes
[kernel]
mode=ubi
image=zImage
vol_id=0
vol_size=2MiB
vol_type=static
vol_name=kernel

[rootfs]
mode = ubi
image = \"root.ubifs\"  ; the rest
vol_id = 4
vol_name = root
vol_flags = autoresize
";

    #[test]
    fn sections_are_volumes() {
        let volumes = parse_config(CONFIG).expect("it is right");
        let kernel = VolumeSection {
            section: "kernel".into(),
            image: Some("zImage".into()),
            id: 0,
            name: "kernel".into(),
            kind: VolumeKind::Static,
            size_bytes: Some(2 << 20),
            alignment: 1,
            is_auto_resized: false,
            skips_check: false,
        };
        assert_eq!(volumes[0], kernel);
        assert_eq!((volumes[1].id, volumes[1].kind), (4, VolumeKind::Dynamic));
        assert_eq!(volumes[1].image.as_deref(), Some("root.ubifs"));
        assert!(volumes[1].is_auto_resized && volumes[1].size_bytes.is_none());
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let cases = [
            ("", 1, "no section"),
            ("vol_id=1", 1, "before the first section"),
            ("[a]\nwhat", 2, "neither"),
            ("[a]\nfoo=1", 2, "keys are"),
            ("[a]\nmode=ubi\nvol_id=200", 3, "0 to 127"),
            ("[a]\nmode=jffs2", 2, "mode=ubi"),
            ("[a]\nmode=ubi\nvol_id=1\nvol_name=x", 1, "neither image nor vol_size"),
            ("[a]\nmode=ubi\nvol_id=1\nvol_name=x\nvol_size=3x", 5, "30MiB"),
            ("[a]\nmode=ubi\nvol_id=1\nvol_name=x\nvol_size=99999999999GiB", 5, "30MiB"),
            ("[a]\nmode=ubi\nvol_id=1\nvol_name=x\nvol_size=1\nvol_type=big", 6, "nor static"),
        ];
        for (text, line, part) in cases {
            let error = parse_config(text).expect_err(text);
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.reason.contains(part), "{text:?}: {error}");
        }
        let twice = CONFIG.replace("vol_id = 4", "vol_id = 0");
        assert!(parse_config(&twice).is_err_and(|error| error.line == 10));
    }
}

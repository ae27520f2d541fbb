//! What a file system holds, as a table that can be compared.

use crate::tree;
use posix::{Errno, FileSystem, FileType};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Column heads of the table.
const HEAD: &str = "#type\tmode\tnlink\tuid\tgid\tsize\tmtime\trdev\tsha256\ttarget\txattr\tpath";

/// A row: one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestRow {
    /// Kind, as one letter: f d l c b p s.
    pub kind: char,
    /// Permission bits.
    pub permissions: u32,
    /// Number of links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes; zero for directories.
    pub size_bytes: u64,
    /// Last change of the data, seconds.
    pub modified: i64,
    /// Device number of devices.
    pub device: Option<(u32, u32)>,
    /// Hash of the contents of regular files, in hexadecimal.
    pub sha256: Option<String>,
    /// Target of symbolic links, escaped.
    pub target: Option<String>,
    /// Extended attributes, sorted: name, value in hexadecimal.
    pub extended: Vec<(String, String)>,
    /// Path, escaped; `.` for the root.
    pub path: String,
}

/// All rows, in the order of the bytes of the paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The rows.
    pub rows: Vec<ManifestRow>,
}

impl Manifest {
    /// Reads everything.
    ///
    /// # Errors
    /// The first of the file system.
    pub async fn of<F: FileSystem>(file_system: &F) -> Result<Self, Errno> {
        let mut rows = Vec::new();
        for node in tree::walk(file_system).await? {
            let attributes = node.attributes;
            let mut sha256 = None;
            if attributes.kind == FileType::Regular {
                let mut hash = Sha256::new();
                tree::read_all(file_system, node.inode, |bytes| hash.update(bytes)).await?;
                sha256 = Some(hexadecimal(&hash.finalize()));
            }
            let mut extended = Vec::new();
            let names = match file_system.list_attributes(node.inode).await {
                Err(Errno::Eopnotsupp) => Vec::new(),
                names => names?,
            };
            for name in names {
                let value = file_system.extended_attribute(node.inode, &name).await?;
                extended.push((escape_path(&name), hexadecimal(&value)));
            }
            extended.sort();
            let target = match attributes.kind {
                FileType::Symlink => Some(escape_path(&file_system.read_link(node.inode).await?)),
                _ => None,
            };
            let is_directory = attributes.kind == FileType::Directory;
            rows.push(ManifestRow {
                kind: attributes.kind.letter(),
                permissions: attributes.permissions,
                links: attributes.links,
                uid: attributes.uid,
                gid: attributes.gid,
                size_bytes: if is_directory { 0 } else { attributes.size_bytes },
                modified: attributes.modified.seconds,
                device: attributes.kind.is_device().then_some(attributes.device),
                sha256,
                target,
                extended,
                path: if node.path.is_empty() { ".".into() } else { escape_path(&node.path) },
            });
        }
        Ok(Self { rows })
    }

    /// The table: tabs between columns, `-` for what a row has not.
    pub fn to_tsv(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for row in &self.rows {
            let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
            let device = row.device.map(|(major, minor)| format!("{major}:{minor}"));
            let extended: Vec<String> =
                row.extended.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let extended = (!extended.is_empty()).then(|| extended.join(","));
            let _ = writeln!(
                text,
                "{}\t{:04o}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                row.kind,
                row.permissions,
                row.links,
                row.uid,
                row.gid,
                row.size_bytes,
                row.modified,
                or_dash(&device),
                or_dash(&row.sha256),
                or_dash(&row.target),
                or_dash(&extended),
                row.path
            );
        }
        text
    }
}

/// Bytes as pairs of hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes as text without spaces and control characters: those, `%` and what is not UTF-8 become `%XX`.
pub fn escape_path(bytes: &[u8]) -> String {
    let mut text = String::new();
    for piece in bytes.utf8_chunks() {
        for letter in piece.valid().chars() {
            if letter == '%' || letter == ' ' || letter.is_ascii_control() {
                let _ = write!(text, "%{:02X}", letter as u32);
            } else {
                text.push(letter);
            }
        }
        for byte in piece.invalid() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The bytes of an escaped text; none if a `%` is not followed by two hexadecimal digits.
pub fn unescape_path(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, later)) = rest.split_first() {
        rest = later;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(later.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &later[2..];
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{escape_path, unescape_path};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn spaces_and_damaged_text_are_escaped() {
        assert_eq!(escape_path("été sp%".as_bytes()), "été%20sp%25");
        assert_eq!(escape_path(&[0x61, 0xff, 0x0a]), "a%FF%0A");
        assert_eq!(unescape_path("a%2"), None);
        assert_eq!(unescape_path("a%zz"), None);
    }

    proptest! {
        #[test]
        fn escaped_bytes_come_back(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(unescape_path(&escape_path(&bytes)), Some(bytes));
        }
    }
}

//! What a file system holds, as a table that can be compared.

use crate::contents::{FileHashes, ReadError, fingerprint};
use crate::tree::{self, FoundNode, TreeDamage};
use fs_api::{Errno, FileSystem, FileType, InodeNumber};
use std::fmt::Write as _;

/// Column heads of the table.
const HEAD: &str = "#type\tmode\tnlink\tuid\tgid\tsize\tmtime\trdev\tsha256\ttarget\txattr\tpath";

/// A row: one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestRow {
    /// Kind, as one letter: f d l c b p s; `?` if the inode cannot be read, and then nothing but the
    /// path is known.
    pub kind: char,
    /// Permission bits, without the kind.
    pub permissions: u32,
    /// Names of the inode.
    pub links: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
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
    /// One row for each name.
    pub rows: Vec<ManifestRow>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Path, escaped; `.` for the root.
    pub path: String,
    /// What a call on it answers.
    pub errno: Errno,
    /// What is wrong with it.
    pub what: String,
}

/// How much is read of a file system that may be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Contents of files are read and hashed.
    pub has_hashes: bool,
    /// A file that claims to be longer is not read: its header is damaged, or all of it is a hole.
    pub file_bytes_max: u64,
}

/// What stands for the contents of files.
enum Hashes {
    Sha256(FileHashes),
    Fingerprint,
}

impl Hashes {
    async fn of<F: FileSystem>(
        &mut self,
        file_system: &F,
        inode: InodeNumber,
    ) -> Result<[u8; 32], ReadError> {
        match self {
            Self::Sha256(hashes) => hashes.sha256(file_system, inode).await,
            Self::Fingerprint => fingerprint(file_system, inode).await,
        }
    }
}

impl Manifest {
    /// Reads everything.
    ///
    /// # Errors
    /// The [`Errno`] of the first call that failed, [`Errno::Eio`] for damage.
    pub async fn of<F: FileSystem>(file_system: &F) -> Result<Self, Errno> {
        let limits = ReadLimits { has_hashes: true, file_bytes_max: u64::MAX };
        let (manifest, damage) = Self::of_damaged(file_system, &limits).await;
        damage.first().map_or(Ok(manifest), |damage| Err(damage.errno))
    }

    /// Reads what can be read; and what could not be. Names of directories that were listed before
    /// are listed, but nothing below them.
    pub async fn of_damaged<F: FileSystem>(
        file_system: &F,
        limits: &ReadLimits,
    ) -> (Self, Vec<Damage>) {
        let hashes = limits.has_hashes.then(|| Hashes::Sha256(FileHashes::default()));
        Self::read(file_system, limits, hashes).await
    }

    /// [`Manifest::of_damaged`] for comparisons within a program: in place of SHA-256 it has a digest to
    /// which holes of any length cost nothing.
    pub async fn fingerprinted<F: FileSystem>(
        file_system: &F,
        limits: &ReadLimits,
    ) -> (Self, Vec<Damage>) {
        Self::read(file_system, limits, limits.has_hashes.then_some(Hashes::Fingerprint)).await
    }

    async fn read<F: FileSystem>(
        file_system: &F,
        // Damage is collected while rows are: one unreadable inode must not end the comparison.
        limits: &ReadLimits,
        mut hashes: Option<Hashes>,
    ) -> (Self, Vec<Damage>) {
        let mut damage = Vec::new();
        let nodes = tree::walk_damaged(file_system, |path, found| {
            let what = match found {
                TreeDamage::Attributes(errno) => format!("the inode cannot be read: {errno}"),
                TreeDamage::Names(errno) => format!("the directory cannot be read: {errno}"),
                TreeDamage::SecondName => "the directory has another name already".into(),
                TreeDamage::LongPath => "the path is too long".into(),
                TreeDamage::BadName => "no file can have this name".into(),
            };
            damage.push(Damage { path: shown_path(path), errno: found.errno(), what });
        })
        .await;
        let mut rows = Vec::new();
        for node in nodes {
            rows.push(row_of(file_system, &node, limits, &mut hashes, &mut damage).await);
        }
        (Self { rows }, damage)
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

/// The row of a name. What cannot be read of it is left out and added to `damage`.
async fn row_of<F: FileSystem>(
    file_system: &F,
    node: &FoundNode,
    limits: &ReadLimits,
    hashes: &mut Option<Hashes>,
    damage: &mut Vec<Damage>,
) -> ManifestRow {
    let path = shown_path(&node.path);
    let Some(attributes) = node.attributes else { return ManifestRow::unreadable(path) };
    let mut fail = |errno: Errno, what: &str| {
        damage.push(Damage { path: path.clone(), errno, what: format!("{what}: {errno}") });
    };
    let mut sha256 = None;
    if attributes.kind == FileType::Regular
        && let Some(hashes) = hashes
    {
        // A header that claims an absurd size would keep the reader busy for hours.
        if attributes.size_bytes > limits.file_bytes_max {
            let size = attributes.size_bytes;
            fail(Errno::Efbig, &format!("a file of {size} bytes is not read"));
        } else {
            match hashes.of(file_system, node.inode).await {
                Ok(hash) => sha256 = Some(hexadecimal(&hash)),
                Err(error) => fail(error.errno, "the contents cannot be read"),
            }
        }
    }
    let extended = extended_of(file_system, node.inode, &mut fail).await;
    let mut target = None;
    if attributes.kind == FileType::Symlink {
        match file_system.read_link(node.inode).await {
            Ok(bytes) => target = Some(escape_path(&bytes)),
            Err(errno) => fail(errno, "the target cannot be read"),
        }
    }
    let is_directory = attributes.kind == FileType::Directory;
    ManifestRow {
        kind: attributes.kind.letter(),
        permissions: attributes.permissions,
        links: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        // Sizes of directories differ between file systems and say nothing.
        size_bytes: if is_directory { 0 } else { attributes.size_bytes },
        modified: attributes.modified.seconds,
        device: attributes.kind.is_device().then_some(attributes.device),
        sha256,
        target,
        extended,
        path,
    }
}

/// Names and values of extended attributes. What cannot be read is left out and handed to `fail`.
async fn extended_of<F: FileSystem>(
    file_system: &F,
    inode: InodeNumber,
    fail: &mut impl FnMut(Errno, &str),
) -> Vec<(String, String)> {
    let mut extended = Vec::new();
    let names = match file_system.list_attributes(inode).await {
        Ok(names) => names,
        // Not an error: a file system without extended attributes has none.
        Err(Errno::Eopnotsupp) => Vec::new(),
        Err(errno) => {
            fail(errno, "the extended attributes cannot be read");
            Vec::new()
        }
    };
    for name in names {
        match file_system.extended_attribute(inode, &name).await {
            Ok(value) => extended.push((escape_path(&name), hexadecimal(&value))),
            Err(errno) => fail(errno, &format!("attribute {} cannot be read", escape_path(&name))),
        }
    }
    // Sorted, because file systems list them in orders of their own.
    extended.sort();
    extended
}

impl ManifestRow {
    fn unreadable(path: String) -> Self {
        Self {
            kind: '?',
            permissions: 0,
            links: 0,
            uid: 0,
            gid: 0,
            size_bytes: 0,
            modified: 0,
            device: None,
            sha256: None,
            target: None,
            extended: Vec::new(),
            path,
        }
    }
}

/// A path as the table has it.
fn shown_path(path: &[u8]) -> String {
    if path.is_empty() { ".".into() } else { escape_path(path) }
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
        // Spaces separate columns in other tools, `%` begins an escape, and control characters
        // would break lines.
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

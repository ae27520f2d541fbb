//! What a file system shows, so that two of them can be compared row by row.

use crate::content::Content;
use fs_api::{Attributes, Errno, FileSystem, FileType, InodeNumber, PAGE_BYTES};
use mount::guarantee::{Guarantee, Order};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use vfs::{escape_path, hexadecimal};

/// All of a name but times, and but links and sizes of directories: file systems differ in these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Kind of the inode.
    pub kind: FileType,
    /// Permission bits of the inode.
    pub permissions: u32,
    /// Numbers of owner and group.
    pub owner: (u32, u32),
    /// Names of the inode; zero for directories.
    pub links: u32,
    /// Bytes; zero for directories.
    pub size_bytes: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes by name.
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Bytes of an attribute that a message shows: a value of 64 KiB would hide all else.
const SHOWN_VALUE_BYTES: usize = 16;

/// A name and what it leads to.
#[derive(Clone, Debug)]
pub struct Row {
    /// Inode, as its file system counts them.
    pub inode: InodeNumber,
    /// All but the bytes.
    pub facts: Facts,
    /// Bytes of a regular file.
    pub content: Content,
}

impl Row {
    /// True if both show the same; their inodes may have other numbers.
    pub fn is_same(&self, other: &Self) -> bool {
        self.facts == other.facts && self.content == other.content
    }

    /// One line for messages.
    pub fn describe(&self) -> String {
        let Facts { kind, permissions, owner, links, size_bytes, device, target, extended } =
            &self.facts;
        let links =
            if *kind == FileType::Directory { String::new() } else { format!(" links {links}") };
        let rest = match kind {
            FileType::Regular => format!(", {size_bytes} bytes"),
            FileType::Symlink => format!(" to {}", escape_path(target)),
            kind if kind.is_device() => format!(", {}:{}", device.0, device.1),
            _ => String::new(),
        };
        let mut text =
            format!("{} {permissions:04o} {}:{}{links}{rest}", kind.letter(), owner.0, owner.1);
        for (name, value) in extended {
            let shown = &value[..value.len().min(SHOWN_VALUE_BYTES)];
            let _ = write!(text, " {}={}", escape_path(name), hexadecimal(shown));
            if shown.len() < value.len() {
                let _ = write!(text, "... of {} bytes", value.len());
            }
        }
        text
    }
}

/// All names, by path from the root; the root's own is empty.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Names that lead to an inode.
    pub rows: BTreeMap<Vec<u8>, Arc<Row>>,
    /// Names that a directory tells, and that lead nowhere.
    pub dangling: Vec<Vec<u8>>,
    /// Names whose inode cannot be read.
    pub unreadable: Vec<Vec<u8>>,
}

impl Tree {
    /// Reads all names, attributes and bytes below the root.
    ///
    /// # Errors
    /// The first of the file system, with the path; but names without a readable inode are only noted.
    pub async fn read<F: FileSystem>(file_system: &F) -> Result<Self, (Vec<u8>, Errno)> {
        Self::read_known(file_system, &mut BTreeMap::new(), false).await
    }

    /// The tree, with those extended attributes of another one that its names lack.
    pub(crate) fn with_attributes_of(&self, other: &Self) -> Self {
        let mut tree = self.clone();
        for (path, row) in &mut tree.rows {
            let Some(known) = other.rows.get(path) else { continue };
            let is_missing = |name: &&Vec<u8>| !row.facts.extended.contains_key(*name);
            if known.facts.extended.keys().any(|name| is_missing(&name)) {
                let mut extended = known.facts.extended.clone();
                extended.extend(row.facts.extended.clone());
                let facts = Facts { extended, ..row.facts.clone() };
                *row = Arc::new(Row { facts, ..(**row).clone() });
            }
        }
        tree
    }

    /// The tree, with those names of another one that it lacks.
    pub(crate) fn with_names_of(&self, other: &Self) -> Self {
        let mut tree = self.clone();
        for (path, row) in &other.rows {
            tree.rows.entry(path.clone()).or_insert_with(|| row.clone());
        }
        tree
    }

    /// Reads what a guarantee speaks of. Where it allows damage, names that lead to it are only noted.
    ///
    /// # Errors
    /// As [`Tree::read`].
    pub(crate) async fn read_of<F: FileSystem>(
        file_system: &F,
        guarantee: &'static Guarantee,
    ) -> Result<Self, (Vec<u8>, Errno)> {
        let allows_damage = matches!(guarantee.order, Order::Sectors | Order::Pages);
        let read = Self::read_known(file_system, &mut BTreeMap::new(), allows_damage).await;
        read.map(|tree| tree.kept_by(guarantee))
    }

    /// The tree without what its medium does not keep: modes, owners and links on FAT.
    pub(crate) fn kept_by(mut self, guarantee: &'static Guarantee) -> Self {
        if !guarantee.keeps_modes {
            for row in self.rows.values_mut() {
                let facts = &mut Arc::make_mut(row).facts;
                (facts.permissions, facts.owner, facts.links) = (0, (0, 0), 0);
            }
        }
        self
    }

    /// Reads everything but the bytes of files in `contents`; adds those that were read to it. What cannot be
    /// read is noted if damage is allowed.
    pub(crate) async fn read_known<F: FileSystem>(
        file_system: &F,
        contents: &mut BTreeMap<InodeNumber, Content>,
        allows_damage: bool,
    ) -> Result<Self, (Vec<u8>, Errno)> {
        let mut tree = Self::default();
        let mut waiting = vec![(Vec::new(), file_system.root())];
        let mut directories = BTreeSet::new();
        while let Some((path, inode)) = waiting.pop() {
            let attributes = match file_system.attributes(inode).await {
                Ok(attributes) => attributes,
                Err(Errno::Enoent) => {
                    tree.dangling.push(path);
                    continue;
                }
                Err(Errno::Eio) => {
                    tree.unreadable.push(path);
                    continue;
                }
                Err(error) => return Err((path, error)),
            };
            // A damaged directory can lead to one above it: each is read once.
            if attributes.kind == FileType::Directory && !directories.insert(inode) && allows_damage
            {
                tree.unreadable.push(path);
                continue;
            }
            let row = read_row(file_system, inode, &attributes, contents).await;
            let row = match row {
                Err(Errno::Eio) if allows_damage => {
                    tree.unreadable.push(path);
                    continue;
                }
                row => row.map_err(|error| (path.clone(), error))?,
            };
            if attributes.kind == FileType::Directory {
                let entries = match file_system.read_directory(inode).await {
                    Err(Errno::Eio) if allows_damage => {
                        tree.unreadable.push(path.clone());
                        Vec::new()
                    }
                    entries => entries.map_err(|error| (path.clone(), error))?,
                };
                for entry in entries {
                    let mut below = Vec::with_capacity(path.len() + 1 + entry.name.len());
                    if !path.is_empty() {
                        below.extend_from_slice(&path);
                        below.push(b'/');
                    }
                    below.extend_from_slice(&entry.name);
                    waiting.push((below, entry.inode));
                }
            }
            tree.rows.insert(path, Arc::new(row));
        }
        tree.dangling.sort();
        tree.unreadable.sort();
        Ok(tree)
    }

    /// Uses the rows of `older` that are the same, and the pages of files: what did not change is in memory once.
    pub(crate) fn share(&mut self, older: &Self) {
        for (path, row) in &mut self.rows {
            let Some(old) = older.rows.get(path).filter(|old| old.inode == row.inode) else {
                continue;
            };
            // Pages first: bytes that are the same are then one, and are not compared again.
            if !row.content.is_shared_with(&old.content) {
                Arc::make_mut(row).content.share(&old.content);
            }
            if old.is_same(row) {
                *row = old.clone();
            }
        }
    }

    /// True if both show the same names.
    pub fn is_same(&self, other: &Self) -> bool {
        self.rows.len() == other.rows.len()
            && self.rows.iter().zip(&other.rows).all(|((path, row), (other_path, other))| {
                path == other_path && (Arc::ptr_eq(row, other) || row.is_same(other))
            })
    }

    /// The first path at which they differ.
    pub fn first_difference(&self, other: &Self) -> Option<Vec<u8>> {
        let differs = |(path, row): &(&Vec<u8>, &Arc<Row>)| {
            other.rows.get(*path).is_none_or(|other| !row.is_same(other))
        };
        let mine = self.rows.iter().find(differs).map(|(path, _)| path);
        let only_theirs = other.rows.keys().find(|path| !self.rows.contains_key(*path));
        mine.into_iter().chain(only_theirs).min().cloned()
    }
}

/// The bytes of a file that says how many it has.
// Not by `vfs::tree::read_all`, whose pieces of 64 KiB suit long files: a tree of short ones is read twice
// for each cut.
async fn read_content<F: FileSystem>(
    file_system: &F,
    inode: InodeNumber,
    size_bytes: u64,
) -> Result<Content, Errno> {
    let (mut pages, mut start) = (Vec::new(), 0);
    let mut bytes = Vec::new();
    loop {
        // A byte more than there is: a file that ends here is seen to end.
        let rest = (size_bytes as usize).saturating_sub(start) + 1;
        let room = rest.min(16 * PAGE_BYTES);
        bytes.resize(room, 0);
        let count = file_system.read_bytes(inode, start as u64, &mut bytes).await?;
        pages.extend(bytes[..count].chunks(PAGE_BYTES).map(Arc::from));
        start += count;
        if count < room {
            return Ok(Content::of_pages(pages));
        }
    }
}

pub(crate) async fn read_row<F: FileSystem>(
    file_system: &F,
    inode: InodeNumber,
    attributes: &Attributes,
    contents: &mut BTreeMap<InodeNumber, Content>,
) -> Result<Row, Errno> {
    let is_directory = attributes.kind == FileType::Directory;
    let mut facts = Facts {
        kind: attributes.kind,
        permissions: attributes.permissions,
        owner: (attributes.uid, attributes.gid),
        links: if is_directory { 0 } else { attributes.links },
        size_bytes: 0,
        device: attributes.device,
        target: Vec::new(),
        extended: BTreeMap::new(),
    };
    let mut content = Content::default();
    match attributes.kind {
        FileType::Symlink => facts.target = file_system.read_link(inode).await?,
        FileType::Regular => {
            facts.size_bytes = attributes.size_bytes;
            if let Some(known) = contents.get(&inode) {
                content = known.clone();
            } else {
                content = read_content(file_system, inode, attributes.size_bytes).await?;
                contents.insert(inode, content.clone());
            }
        }
        _ => {}
    }
    match file_system.list_attributes(inode).await {
        Ok(names) => {
            for name in names {
                let value = file_system.extended_attribute(inode, &name).await?;
                facts.extended.insert(name, value);
            }
        }
        Err(Errno::Eopnotsupp) => {}
        Err(error) => return Err(error),
    }
    Ok(Row { inode, facts, content })
}

/// Trees that tests make up.
#[cfg(test)]
pub(crate) mod made_up {
    use super::{Facts, Row, Tree};
    use crate::content::Content;
    use fs_api::FileType;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// A file of these bytes.
    pub(crate) fn row(bytes: &[u8]) -> Arc<Row> {
        let facts = Facts {
            kind: FileType::Regular,
            permissions: 0o644,
            owner: (0, 0),
            links: 1,
            size_bytes: bytes.len() as u64,
            device: (0, 0),
            target: Vec::new(),
            extended: BTreeMap::new(),
        };
        Arc::new(Row { inode: 1, facts, content: Content::new(bytes) })
    }

    /// Files by their paths.
    pub(crate) fn tree(files: &[(&str, &[u8])]) -> Tree {
        let rows = files.iter().map(|(path, bytes)| (path.as_bytes().to_vec(), row(bytes)));
        Tree { rows: rows.collect(), ..Tree::default() }
    }
}

//! Trees and histories that are made by hand.

use crash::{Content, Facts, Guarantee, History, Mismatch, Order, Row, Tree, find_guarantee};
use fs_api::{FileType, InodeNumber};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Those that promise something of what is shown.
pub(crate) fn guarantees() -> impl Iterator<Item = &'static Guarantee> {
    crash::guarantees().filter(|guarantee| guarantee.order != Order::Pages)
}

pub(crate) fn guarantee(kind: &str) -> &'static Guarantee {
    find_guarantee(kind).expect("in the table")
}

fn row(inode: InodeNumber, kind: FileType, permissions: u32) -> Row {
    let facts = Facts {
        kind,
        permissions,
        owner: (0, 0),
        links: u32::from(kind != FileType::Directory),
        size_bytes: 0,
        device: (0, 0),
        target: Vec::new(),
        extended: BTreeMap::new(),
    };
    Row { inode, facts, content: Content::default() }
}

pub(crate) fn file(inode: InodeNumber, permissions: u32, bytes: &[u8]) -> Arc<Row> {
    let mut row = row(inode, FileType::Regular, permissions);
    row.facts.size_bytes = bytes.len() as u64;
    row.content = Content::new(bytes);
    Arc::new(row)
}

pub(crate) fn directory(inode: InodeNumber, permissions: u32) -> Arc<Row> {
    Arc::new(row(inode, FileType::Directory, permissions))
}

pub(crate) fn symlink(inode: InodeNumber, target: &[u8]) -> Arc<Row> {
    let mut row = row(inode, FileType::Symlink, 0o777);
    row.facts.target = target.to_vec();
    Arc::new(row)
}

/// A tree with a name of every kind: directory, files, one of them with an owner and an extended
/// attribute, a symbolic link, a device, and a file with two names.
pub(crate) fn standard() -> Tree {
    let bytes = |count: usize| -> Vec<u8> { (0..count).map(|at| (at % 251) as u8 + 1).collect() };
    let mut tree = Tree::default();
    let mut add = |path: &str, row: Arc<Row>| {
        tree.rows.insert(path.as_bytes().to_vec(), row);
    };
    add("", directory(1, 0o755));
    add("d", directory(2, 0o755));
    add("d/f", file(3, 0o644, &bytes(10_000)));
    let mut g = Arc::unwrap_or_clone(file(4, 0o600, &bytes(5000)));
    g.facts.owner = (7, 8);
    g.facts.extended.insert(b"user.k".to_vec(), b"v1".to_vec());
    add("g", Arc::new(g));
    add("l", symlink(5, b"d/f"));
    let mut n = row(6, FileType::CharacterDevice, 0o660);
    n.facts.device = (5, 1);
    add("n", Arc::new(n));
    let mut twice = Arc::unwrap_or_clone(file(7, 0o640, &bytes(300)));
    twice.facts.links = 2;
    let twice = Arc::new(twice);
    add("first", twice.clone());
    add("second", twice);
    tree
}

pub(crate) fn remove(tree: &mut Tree, path: &str) {
    tree.rows.remove(path.as_bytes()).expect("there");
}

/// Changes a row; the size of a file follows its bytes.
pub(crate) fn edit(tree: &mut Tree, path: &str, change: impl FnOnce(&mut Row)) {
    let row = Arc::make_mut(tree.rows.get_mut(path.as_bytes()).expect("there"));
    change(row);
    if row.facts.kind == FileType::Regular {
        row.facts.size_bytes = row.content.len() as u64;
    }
}

/// Changes the bytes of a file.
pub(crate) fn change_content(row: &mut Row, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = row.content.to_vec();
    change(&mut bytes);
    row.content = Content::new(&bytes);
}

/// A call of a history: the tree that it leads to, and what returned afterwards.
pub(crate) struct At {
    pub(crate) tree: Tree,
    written: Option<InodeNumber>,
    is_synced: bool,
}

impl At {
    pub(crate) fn synced(tree: &Tree) -> Self {
        Self { tree: tree.clone(), written: None, is_synced: true }
    }

    pub(crate) fn unsynced(tree: &Tree) -> Self {
        Self { tree: tree.clone(), written: None, is_synced: false }
    }

    /// A write to an inode, which no sync followed.
    pub(crate) fn written(tree: &Tree, inode: InodeNumber) -> Self {
        Self { tree: tree.clone(), written: Some(inode), is_synced: false }
    }

    /// Tells a history of the call, which ends at `now`, in the order in which a watcher does.
    pub(crate) fn tell(&self, history: &mut History, now: u64) {
        if let Some(inode) = self.written {
            history.file_dirtied(inode);
        }
        history.push(now - 5, self.tree.clone(), self.written);
        if self.written.is_none() {
            history.returned(now);
        }
        if self.is_synced {
            history.synced(now);
        }
    }
}

pub(crate) fn told(mismatch: &Mismatch) -> String {
    let Mismatch { was_safe, path, expected, found } = mismatch;
    let path = String::from_utf8_lossy(path);
    format!("safe {was_safe}, {path}: expected {expected}; found {found}")
}

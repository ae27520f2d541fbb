//! What must be there after a power cut: what was synced, and not touched since.

use crate::model::Model;
use fs_api::FileSystem;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{ManifestRow, tree};

/// Names with all that can be compared of them when they were last synced, and those touched since.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    synced: BTreeMap<String, ManifestRow>,
    touched: BTreeSet<String>,
}

fn is_at_or_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The paths that a line of a script may name.
fn paths_of(line: &str) -> Vec<&str> {
    // No line has more than two; a number or a target of a link in their place is no path of the tree.
    line.split_whitespace().skip(1).take(2).collect()
}

impl Promise {
    pub(crate) fn sync(&mut self, rows: Vec<ManifestRow>) {
        // Whatever was touched before is as durable as the rest now.
        self.synced = rows.into_iter().map(|row| (row.path.clone(), row)).collect();
        self.touched.clear();
    }

    /// Notes all names that a line may change, before it begins: a cut may come at any time from then on.
    pub(crate) async fn touch(model: &Model, line: &str) {
        let named = paths_of(line);
        let nodes = tree::walk(&*model.tree).await.expect("memory is whole");
        let nodes = nodes.iter().map(|node| (String::from_utf8_lossy(&node.path), node.inode));
        let nodes: Vec<_> = nodes.collect();
        let is_named =
            |path: &str| !path.is_empty() && named.iter().any(|top| is_at_or_below(path, top));
        // A file with two names changes under both. A rename over one of them even deletes it under both, if
        // YAFFS2 is cut behind the first header: the hazard `rename-over-linked`.
        let inodes: BTreeSet<_> =
            nodes.iter().filter(|(path, _)| is_named(path)).map(|(_, inode)| *inode).collect();
        let touched = nodes.iter().filter(|(_, inode)| inodes.contains(inode));
        // Also names that are not there yet: a cut may leave them behind.
        let promise = model.promise();
        let mut promise = promise.borrow_mut();
        promise.touched.extend(touched.map(|(path, _)| path.to_string()));
        promise.touched.extend(named.iter().map(|path| (*path).to_owned()));
    }

    /// A file was synced alone: it is promised if the way to it is.
    pub(crate) fn fsync(&mut self, row: &ManifestRow) {
        let mut parents = row.path.match_indices('/').map(|(at, _)| &row.path[..at]);
        if parents.all(|path| self.synced.contains_key(path) && !self.touched.contains(path)) {
            self.synced.insert(row.path.clone(), row.clone());
            self.touched.remove(&row.path);
        }
    }

    /// Names that are promised.
    pub fn len(&self) -> usize {
        self.synced.keys().filter(|path| !self.touched.contains(*path)).count()
    }

    /// Nothing is promised.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is promised, and is not there as it was.
    pub async fn lost(&self, model: &Model, found: &impl FileSystem) -> Vec<String> {
        // What cannot be read may be something that was never promised.
        let rows = model.readable_rows(found).await.0.into_iter();
        let rows: BTreeMap<String, ManifestRow> = rows.map(|row| (row.path.clone(), row)).collect();
        let kept = self.synced.iter().filter(|(path, _)| !self.touched.contains(*path));
        let lost = kept.filter(|(path, row)| rows.get(*path) != Some(row));
        lost.map(|(path, row)| format!("{row:?}; there is {:?}", rows.get(path))).collect()
    }
}

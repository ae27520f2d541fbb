//! From scanned nodes to a tree: names counted, what has none dropped.
//!
//! Source: `fs/jffs2/build.c`.
//!
//! May use: `engine`, `finding`, `nodes`, `state`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::DT_DIR;
use crate::profile::DirectoryNames;
use crate::state::State;
use fs_api::Place;
use std::collections::BTreeSet;

impl Engine {
    /// Counts the names of every inode and drops inodes without one (`jffs2_build_filesystem`).
    pub(crate) fn build(&self) {
        let state = &mut *self.state.borrow_mut();
        state.is_scanning = false;
        let directory_names = self.options.profile.directory_names;
        let inodes: Vec<u32> = state.inodes.keys().copied().collect();
        for parent in &inodes {
            self.count_children(state, *parent);
        }
        let mut dead: Vec<u32> = inodes
            .iter()
            .copied()
            .filter(|inode| state.inodes[inode].parent_or_links == 0)
            .collect();
        // The kernel walks its list from the front; `pop` takes the last.
        dead.reverse();
        while let Some(inode) = dead.pop() {
            drop_inode(state, inode, directory_names, &mut dead);
        }
        if directory_names == DirectoryNames::Counted {
            self.set_parents(state, &inodes);
        }
        state.build_attributes();
        for cache in state.inodes.values_mut() {
            cache.scanned = Vec::new();
        }
    }

    /// Pass 1: every entry is a name of its child.
    fn count_children(&self, state: &mut State, parent: u32) {
        let entries = std::mem::take(&mut state.inode_cache(parent).scanned);
        for entry in &entries {
            if entry.inode == 0 {
                continue;
            }
            let Some(child) = state.inodes.get_mut(&entry.inode) else {
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                self.find(
                    Code::NameWithoutInode,
                    Place::Inode(parent.into()),
                    format!("{name} in inode {parent}: no inode {}", entry.inode),
                );
                state.mark_obsolete(entry.node);
                continue;
            };
            // The field holds the parent of a directory, since directories need no link count (`pino_nlink`). Newer
            // kernels count first, and set the parent when the dead are gone.
            if entry.kind != DT_DIR
                || self.options.profile.directory_names == DirectoryNames::Counted
            {
                child.parent_or_links += 1;
            } else if child.parent_or_links == 0 {
                child.parent_or_links = parent;
            } else if entry.inode != 1 {
                self.find_two_names(entry.inode);
            }
        }
        state.inode_cache(parent).scanned = entries;
    }

    /// Pass 3 of newer kernels: directories that are left get their parents. A second name of one may be gone by
    /// now, with a dead directory that held it: then it is one name again.
    fn set_parents(&self, state: &mut State, inodes: &[u32]) {
        let entries: Vec<(u32, u32)> = inodes
            .iter()
            .flat_map(|parent| {
                let scanned = state.inodes[parent].scanned.iter();
                let directories = scanned.filter(|entry| entry.kind == DT_DIR && entry.inode != 0);
                directories.map(|entry| (*parent, entry.inode))
            })
            .collect();
        let mut named = BTreeSet::new();
        for (parent, inode) in entries {
            let Some(child) = state.inodes.get_mut(&inode) else { continue };
            child.parent_or_links = parent;
            if !named.insert(inode) {
                // JFFS2 has no hard links to directories, but a rename that was cut leaves both names. The kernel
                // reports it and goes on with the last one.
                self.find_two_names(inode);
            }
        }
    }

    fn find_two_names(&self, inode: u32) {
        let place = Place::Inode(inode.into());
        self.find(Code::TwoNames, place, format!("directory {inode} has two names"));
    }
}

/// Pass 2: all of an inode without a name is obsolete, and its children have a name less.
fn drop_inode(state: &mut State, inode: u32, directory_names: DirectoryNames, dead: &mut Vec<u32>) {
    let Some(cache) = state.inodes.get_mut(&inode) else { return };
    let entries = std::mem::take(&mut cache.scanned);
    let nodes = cache.nodes.clone();
    for node in nodes {
        state.mark_obsolete(node);
    }
    for entry in entries {
        let Some(child) = state.inodes.get_mut(&entry.inode) else { continue };
        if child.parent_or_links == 0 {
            continue;
        }
        // Older kernels drop a directory with any of its names, also if another one is alive
        // (`jffs2_build_remove_unlinked_inode`).
        let is_dropped = entry.kind == DT_DIR && directory_names == DirectoryNames::FirstIsParent;
        child.parent_or_links =
            if is_dropped { 0 } else { child.parent_or_links.saturating_sub(1) };
        if child.parent_or_links == 0 {
            dead.push(entry.inode);
        }
    }
}

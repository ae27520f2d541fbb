//! From scanned nodes to a tree: names counted, what has none dropped.
//!
//! Source: `fs/jffs2/build.c`.
//!
//! May use: `engine`, `finding`, `nodes`, `state`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::DT_DIR;
use crate::state::State;
use fs_api::Place;

impl Engine {
    /// Counts the names of every inode and drops inodes without one (`jffs2_build_filesystem`).
    pub(crate) fn build(&self) {
        let state = &mut *self.state.borrow_mut();
        state.is_scanning = false;
        let parents: Vec<u32> = state.inodes.keys().copied().collect();
        for parent in &parents {
            self.count_children(state, *parent);
        }
        let mut dead: Vec<u32> =
            parents.into_iter().filter(|inode| state.inodes[inode].parent_or_links == 0).collect();
        // The kernel walks its list from the front; `pop` takes the last.
        dead.reverse();
        while let Some(inode) = dead.pop() {
            drop_inode(state, inode, &mut dead);
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
            if entry.kind == DT_DIR {
                // JFFS2 has no hard links to directories, but a rename that was cut leaves both
                // names. The kernel reports it and goes on.
                if child.parent_or_links > 0 && entry.inode != 1 {
                    self.find(
                        Code::TwoNames,
                        Place::Inode(entry.inode.into()),
                        format!("directory {} has two names", entry.inode),
                    );
                }
                // The field holds the parent of a directory, since directories need no link count
                // (`pino_nlink`).
                child.parent_or_links = parent;
            } else {
                child.parent_or_links += 1;
            }
        }
        state.inode_cache(parent).scanned = entries;
    }
}

/// Pass 2: all of an inode without a name is obsolete, and its children have a name less.
fn drop_inode(state: &mut State, inode: u32, dead: &mut Vec<u32>) {
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
        child.parent_or_links =
            if entry.kind == DT_DIR { 0 } else { child.parent_or_links.saturating_sub(1) };
        if child.parent_or_links == 0 {
            dead.push(entry.inode);
        }
    }
}

//! Extended attributes in memory: values, and references to them from inodes.
//!
//! Source: `struct jffs2_xattr_datum` and `jffs2_xattr_ref` of `fs/jffs2/xattr.h`.
//!
//! May use: `structures`.

use crate::structures::{NodeId, Owner};
use std::collections::BTreeMap;

/// A value with its name (`jffs2_xattr_datum`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Datum {
    pub(crate) version: u32,
    /// Oldest first; at most the last is live.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) references: u32,
    /// Prefix, name and value, once read.
    pub(crate) loaded: Option<(u8, Vec<u8>, Vec<u8>)>,
}

/// A reference of an inode to a value (`jffs2_xattr_ref`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    pub(crate) inode: u32,
    pub(crate) id: u32,
    pub(crate) sequence: u32,
    /// Oldest first; at most the last is live.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) is_dead: bool,
}

/// All values and references in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) data: BTreeMap<u32, Datum>,
    pub(crate) references: BTreeMap<u32, Reference>,
    pub(crate) highest_id: u32,
    pub(crate) highest_sequence: u32,
    pub(crate) next_reference: u32,
}

impl Attributes {
    pub(crate) fn link(&mut self, owner: Owner, node: NodeId) {
        match owner {
            Owner::Datum(id) => self.data.entry(id).or_default().nodes.push(node),
            Owner::Reference(number) => {
                if let Some(reference) = self.references.get_mut(&number) {
                    reference.nodes.push(node);
                }
            }
            Owner::None | Owner::Inode(_) => {}
        }
    }

    pub(crate) fn unlink(&mut self, owner: Owner, node: NodeId) {
        let nodes = match owner {
            Owner::Datum(id) => self.data.get_mut(&id).map(|datum| &mut datum.nodes),
            Owner::Reference(number) => {
                self.references.get_mut(&number).map(|reference| &mut reference.nodes)
            }
            Owner::None | Owner::Inode(_) => None,
        };
        if let Some(nodes) = nodes {
            nodes.retain(|other| *other != node);
        }
    }

    /// Forgets what is neither used nor on the medium.
    pub(crate) fn drop_dead(&mut self) {
        self.data.retain(|_, datum| datum.references > 0 || !datum.nodes.is_empty());
        self.references.retain(|_, reference| !reference.is_dead || !reference.nodes.is_empty());
    }

    /// Values and references in memory, and bytes of names and values.
    pub(crate) fn memory(&self) -> (u64, u64, u64) {
        let loaded = self.data.values().filter_map(|datum| datum.loaded.as_ref());
        let bytes = loaded.map(|(_, name, value)| (name.len() + value.len() + 1) as u64).sum();
        (self.data.len() as u64, self.references.len() as u64, bytes)
    }

    /// Makes a reference of an inode to a value; returns its number in memory.
    pub(crate) fn new_reference(&mut self, inode: u32, id: u32) -> u32 {
        let number = self.next_reference;
        self.next_reference += 1;
        self.references.insert(number, Reference { inode, id, ..Reference::default() });
        number
    }
}

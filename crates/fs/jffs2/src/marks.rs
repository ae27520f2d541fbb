//! Obsolete nodes, marked so where they stand.
//!
//! Source: the second half of `jffs2_mark_node_obsolete`, `fs/jffs2/nodemgmt.c`, Linux 2.6.29 to 6.12. It
//! is done on a medium whose bits can be written over again, unless summaries are kept, which would not
//! agree with the marks (`jffs2_can_mark_obsolete`). Here marks wait until the change that they belong to is
//! done; a block that is erased meanwhile takes its marks with it.
//!
//! May use: `engine`, `finding`, `nodes`, `state`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::{ACCURATE, HEADER_BYTES, Header, padded};
use crate::state::{InodeState, NodeId, NodeRef, Owner, State};
use fs_api::Place;

impl Engine {
    /// Writes the marks that wait.
    pub(crate) async fn write_marks(&self) {
        while self.has_marks() {
            // No block is erased while a node of it is marked.
            let _held = self.erased_nodes.lock().await;
            let Some(id) = self.state.borrow_mut().marks.pop_front() else { return };
            let node = self.state.borrow().node(id);
            if self.mark_on_medium(node).await {
                self.state.borrow_mut().unlink_marked(id);
                self.count(|statistics| statistics.nodes_marked += 1);
            }
        }
    }

    fn has_marks(&self) -> bool {
        !self.state.borrow().marks.is_empty()
    }

    /// Clears a bit in the type of the node, which its CRC does not cover; false if that is not the node
    /// that was expected, if it was marked before, or if the medium failed.
    async fn mark_on_medium(&self, node: NodeRef) -> bool {
        let mut bytes = [0; HEADER_BYTES];
        if self.flash.read(node.offset, &mut bytes).await.is_err() {
            return false;
        }
        let header = Header::parse(&bytes);
        // Never clear a bit in bytes that are not this node.
        if padded(header.total_bytes) != node.length || header.node_type & ACCURATE == 0 {
            return false;
        }
        let marked = Header { node_type: header.node_type & !ACCURATE, ..header };
        let written = self.flash.write(node.offset, &marked.to_bytes()).await;
        if let Err(error) = &written {
            self.find(
                Code::FailedWrite,
                Place::Address(node.offset.into()),
                format!("{:#x}: the node could not be marked: {error}", node.offset),
            );
        }
        written.is_ok()
    }
}

impl State {
    /// A node that is marked on the medium is no longer its owner's.
    fn unlink_marked(&mut self, id: NodeId) {
        match self.node(id).owner {
            Owner::None => {}
            Owner::Inode(inode) => {
                let Some(cache) = self.inodes.get_mut(&inode) else { return };
                cache.nodes.retain(|other| *other != id);
                let is_gone = cache.nodes.is_empty()
                    && cache.parent_or_links == 0
                    && cache.state != InodeState::Present;
                if is_gone {
                    self.inodes.remove(&inode);
                }
            }
            owner => {
                self.attributes.unlink(owner, id);
                self.attributes.drop_dead();
            }
        }
    }
}

//! Collecting extended attributes.
//!
//! Source: `fs/jffs2/xattr.c`.
//!
//! May use: `engine`, `nodes`, `state`, `summary`, `write`.

use crate::engine::Engine;
use crate::nodes::{XATTR, XREF, XREF_BYTES, XattrNode};
use crate::state::{NodeId, NodeState, Owner};
use crate::summary::entry_bytes;
use crate::write::{Allocation, NodeToWrite};
use fs_api::Errno;

impl Engine {
    /// Collects a value (`jffs2_garbage_collect_xattr_datum`).
    pub(crate) async fn collect_datum(&self, id: u32, node: NodeId) -> Result<(), Errno> {
        // The caller holds the allocation lock, which comes before this one.
        let _exclusive = self.attribute_lock.write().await;
        let is_used = self
            .state
            .borrow()
            .attributes
            .data
            .get(&id)
            .is_some_and(|datum| datum.references > 0 && datum.nodes.last() == Some(&node));
        let loaded = if is_used { self.load_datum(id).await? } else { None };
        if let Some((prefix, name, value)) = loaded {
            let version = {
                let attributes = &mut self.state.borrow_mut().attributes;
                let Some(datum) = attributes.data.get_mut(&id) else { return Ok(()) };
                // The copy must win over the old node if a cut leaves both.
                datum.version = datum.version.wrapping_add(1);
                datum.version
            };
            let bytes = XattrNode { id, version, prefix, name, value }.to_bytes();
            self.reserve_collecting(bytes.len() as u32, entry_bytes(XATTR, 0)).await?;
            let owner = Owner::Datum(id);
            let (state, allocation) = (NodeState::Pristine, Allocation::Collect);
            self.write_node(NodeToWrite { bytes, state, owner, allocation }).await?;
        }
        self.state.borrow_mut().mark_obsolete(node);
        Ok(())
    }

    /// Collects a reference (`jffs2_garbage_collect_xattr_ref`).
    pub(crate) async fn collect_reference(&self, number: u32, node: NodeId) -> Result<(), Errno> {
        let _exclusive = self.attribute_lock.write().await;
        // An end without older nodes on the medium hides nothing any more, so it is dropped.
        let is_needed =
            self.state.borrow().attributes.references.get(&number).is_some_and(|reference| {
                reference.nodes.last() == Some(&node)
                    && (!reference.is_dead || reference.nodes.len() > 1)
            });
        if is_needed {
            self.reserve_collecting(XREF_BYTES as u32, entry_bytes(XREF, 0)).await?;
            self.save_reference(number, Allocation::Collect).await?;
        }
        self.state.borrow_mut().mark_obsolete(node);
        Ok(())
    }
}

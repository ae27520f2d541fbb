//! Extended attributes: values, and references to them from inodes.
//!
//! Source: `fs/jffs2/xattr.c`. Two differences are on purpose. A value that is replaced has the end
//! of its old reference written down, where the kernel remembers it in memory alone and may show the
//! old value again after the new one is removed. And values are compared with their CRC when they
//! are first wanted, not by the thread.
//!
//! May use: `attributes`, `engine`, `finding`, `nodes`, `state`, `summary`, `write`.

use crate::attributes::Reference;
use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::{XATTR, XREF, XREF_BYTES, XattrNode, XrefNode, padded};
use crate::state::{NodeId, NodeState, Owner, State};
use crate::summary::entry_bytes;
use crate::write::{Allocation, NodeToWrite};
use fs_api::{Errno, Place};

/// Prefixes of names, with their numbers on the medium.
const PREFIXES: [(u8, &[u8]); 5] = [
    (1, b"user."),
    (2, b"security."),
    (3, b"system.posix_acl_access"),
    (4, b"system.posix_acl_default"),
    (5, b"trusted."),
];

impl State {
    /// Links a value that the scan found; an older version of it is obsolete. The scan has read the header alone
    /// (`jffs2_scan_xattr_node`), so the newer one may be without its value.
    pub(crate) fn link_xattr(&mut self, at: u32, length: u32, id: u32, version: u32) {
        self.attributes.highest_id = self.attributes.highest_id.max(id);
        let before = self.attributes.data.get(&id).map(|datum| datum.version);
        let Some(node) = self.link(at, length, NodeState::Pristine, Owner::Datum(id)) else {
            return;
        };
        let Some(datum) = self.attributes.data.get_mut(&id) else { return };
        if before.is_some_and(|before| before > version) {
            let last = datum.nodes.len() - 1;
            // The last node must be the live one.
            datum.nodes.swap(last, last - 1);
            self.mark_obsolete(node);
            return;
        }
        datum.version = version;
        let older: Vec<NodeId> =
            datum.nodes.iter().copied().filter(|other| *other != node).collect();
        for node in older {
            self.mark_obsolete(node);
        }
    }

    /// Links a reference that the scan found. Of one inode and value the highest number counts.
    pub(crate) fn link_xref(&mut self, at: u32, node: &XrefNode) {
        let attributes = &mut self.attributes;
        attributes.highest_sequence = attributes.highest_sequence.max(node.sequence & !1);
        let same = attributes
            .references
            .iter()
            .find(|(_, other)| other.inode == node.inode && other.id == node.id)
            .map(|(number, _)| *number);
        let number = same.unwrap_or_else(|| attributes.new_reference(node.inode, node.id));
        let before = attributes.references.get(&number).map_or(0, |reference| reference.sequence);
        let length = padded(XREF_BYTES as u32);
        let Some(linked) = self.link(at, length, NodeState::Pristine, Owner::Reference(number))
        else {
            return;
        };
        let Some(reference) = self.attributes.references.get_mut(&number) else { return };
        if same.is_some() && node.sequence < before {
            let last = reference.nodes.len() - 1;
            reference.nodes.swap(last, last - 1);
            self.mark_obsolete(linked);
            return;
        }
        reference.sequence = node.sequence;
        reference.is_dead = node.sequence & 1 == 1;
        let older: Vec<NodeId> =
            reference.nodes.iter().copied().filter(|other| *other != linked).collect();
        for node in older {
            self.mark_obsolete(node);
        }
    }

    /// Ties references to inodes once all are known (`jffs2_build_xattr_subsystem`).
    pub(crate) fn build_attributes(&mut self) {
        let numbers: Vec<u32> = self.attributes.references.keys().copied().collect();
        for number in numbers {
            let reference = self.attributes.references[&number].clone();
            let has_inode =
                self.inodes.get(&reference.inode).is_some_and(|cache| cache.parent_or_links > 0);
            let datum = self.attributes.data.get_mut(&reference.id);
            match datum {
                Some(datum) if has_inode && !reference.is_dead && !datum.nodes.is_empty() => {
                    datum.references += 1;
                    self.inode_cache(reference.inode).references.push(number);
                }
                _ => self.bury(number),
            }
        }
        let unused: Vec<u32> = self
            .attributes
            .data
            .iter()
            .filter(|(_, datum)| datum.references == 0)
            .map(|(id, _)| *id)
            .collect();
        for id in unused {
            self.drop_datum(id);
        }
        self.attributes.drop_dead();
    }

    /// A reference ends; unless it hides older ones on the medium, so does its node.
    fn bury(&mut self, number: u32) {
        let Some(reference) = self.attributes.references.get_mut(&number) else { return };
        let is_marker = reference.sequence & 1 == 1;
        reference.is_dead = true;
        let nodes = reference.nodes.clone();
        // Older nodes with an even number still stand on the medium: the end must outlive them.
        if is_marker && nodes.len() > 1 {
            return;
        }
        for node in nodes {
            self.mark_obsolete(node);
        }
    }

    fn drop_datum(&mut self, id: u32) {
        let Some(datum) = self.attributes.data.get_mut(&id) else { return };
        datum.loaded = None;
        let nodes = datum.nodes.clone();
        for node in nodes {
            self.mark_obsolete(node);
        }
    }

    fn release_datum(&mut self, id: u32) {
        let Some(datum) = self.attributes.data.get_mut(&id) else { return };
        datum.references = datum.references.saturating_sub(1);
        if datum.references == 0 {
            self.drop_datum(id);
        }
    }

    /// The attributes of a deleted inode end with it (`jffs2_xattr_delete_inode`).
    pub(crate) fn delete_attributes(&mut self, inode: u32) {
        let Some(cache) = self.inodes.get_mut(&inode) else { return };
        for number in std::mem::take(&mut cache.references) {
            let id = self.attributes.references.get(&number).map(|reference| reference.id);
            self.bury(number);
            if let Some(id) = id {
                self.release_datum(id);
            }
        }
        self.attributes.drop_dead();
    }
}

/// The number of a name's prefix, and the rest of the name.
fn split(name: &[u8]) -> Result<(u8, &[u8]), Errno> {
    for (number, prefix) in PREFIXES {
        if let Some(rest) = name.strip_prefix(prefix) {
            let is_whole = matches!(number, 3 | 4);
            if is_whole != rest.is_empty() {
                return Err(Errno::Einval);
            }
            return if rest.len() > 255 { Err(Errno::Erange) } else { Ok((number, rest)) };
        }
    }
    Err(Errno::Eopnotsupp)
}

fn joined(prefix: u8, name: &[u8]) -> Option<Vec<u8>> {
    let (_, start) = PREFIXES.iter().find(|(number, _)| *number == prefix)?;
    Some([start, name].concat())
}

/// An attribute of an inode: number of the reference, prefix, name, value.
type Found = (u32, u8, Vec<u8>, Vec<u8>);

impl Engine {
    /// Reads a value if it was not read before.
    pub(crate) async fn load_datum(
        &self,
        id: u32,
    ) -> Result<Option<(u8, Vec<u8>, Vec<u8>)>, Errno> {
        let node = {
            let state = self.state.borrow();
            let Some(datum) = state.attributes.data.get(&id) else { return Ok(None) };
            if datum.loaded.is_some() {
                return Ok(datum.loaded.clone());
            }
            let Some(node) = datum.nodes.last() else { return Ok(None) };
            state.node(*node)
        };
        let mut bytes = vec![0; node.length as usize];
        self.read(node.offset, &mut bytes).await?;
        self.charge_crc(bytes.len()).await;
        // No older node of the value is tried, though the collector may have copied a whole one
        // (`do_load_xattr_datum`): a cut of that copy loses the attribute.
        let Some(parsed) = XattrNode::parse(&bytes) else {
            self.find(
                Code::DamagedAttribute,
                Place::Address(node.offset.into()),
                format!("{:#x}: the extended attribute is damaged", node.offset),
            );
            return Ok(None);
        };
        let loaded = Some((parsed.prefix, parsed.name, parsed.value));
        if let Some(datum) = self.state.borrow_mut().attributes.data.get_mut(&id) {
            datum.loaded.clone_from(&loaded);
        }
        Ok(loaded)
    }

    /// The attributes of an inode; of two of one name the older ends (`check_xattr_ref_inode`).
    async fn attributes_of(&self, inode: u32) -> Result<Vec<Found>, Errno> {
        let numbers = self
            .state
            .borrow()
            .inodes
            .get(&inode)
            .map(|cache| cache.references.clone())
            .unwrap_or_default();
        let mut found: Vec<(u32, Found)> = Vec::new();
        for number in numbers {
            let reference = self.state.borrow().attributes.references.get(&number).cloned();
            let Some(Reference { id, sequence, .. }) = reference else { continue };
            let Some((prefix, name, value)) = self.load_datum(id).await? else { continue };
            let new = (sequence, (number, prefix, name, value));
            let same = found.iter().position(|(_, old)| old.1 == new.1.1 && old.2 == new.1.2);
            match same {
                Some(at) if found[at].0 > sequence => {}
                Some(at) => found[at] = new,
                None => found.push(new),
            }
        }
        Ok(found.into_iter().map(|(_, attribute)| attribute).collect())
    }

    pub(crate) async fn list_xattrs(&self, inode: u32) -> Result<Vec<Vec<u8>>, Errno> {
        let _shared = self.attribute_lock.read().await;
        let found = self.attributes_of(inode).await?;
        Ok(found.into_iter().filter_map(|(_, prefix, name, _)| joined(prefix, &name)).collect())
    }

    pub(crate) async fn get_xattr(&self, inode: u32, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let (prefix, rest) = split(name)?;
        let _shared = self.attribute_lock.read().await;
        let found = self.attributes_of(inode).await?;
        found
            .into_iter()
            .find(|(_, other, name, _)| *other == prefix && name == rest)
            .map(|(_, _, _, value)| value)
            .ok_or(Errno::Enodata)
    }

    /// Sets or removes an attribute (`do_jffs2_setxattr`).
    pub(crate) async fn set_xattr(
        &self,
        inode: u32,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let (prefix, rest) = split(name)?;
        let node = XattrNode {
            prefix,
            name: rest.to_vec(),
            value: value.unwrap_or(&[]).to_vec(),
            ..XattrNode::default()
        };
        if node.value.len() > 0xffff || node.to_bytes().len() as u32 > self.block_bytes / 2 {
            return Err(Errno::Erange);
        }
        let old = {
            let _shared = self.attribute_lock.read().await;
            let found = self.attributes_of(inode).await?;
            let found =
                found.into_iter().find(|(_, other, name, _)| *other == prefix && name == rest);
            found.map(|(number, ..)| number)
        };
        if value.is_none() {
            return self.end_reference(inode, old.ok_or(Errno::Enodata)?).await;
        }
        // Value, then reference, then the end of the old reference: a cut between them shows the
        // old value or the new one.
        let id = self.write_datum(node).await?;
        let number = {
            let attributes = &mut self.state.borrow_mut().attributes;
            let same = attributes.references.iter().find(|(number, other)| {
                other.inode == inode && other.id == id && (other.is_dead || Some(**number) == old)
            });
            let number = same.map(|(number, _)| *number);
            number.unwrap_or_else(|| attributes.new_reference(inode, id))
        };
        if Some(number) == old {
            self.state.borrow_mut().release_datum(id);
            return Ok(());
        }
        if let Some(reference) = self.state.borrow_mut().attributes.references.get_mut(&number) {
            reference.is_dead = false;
        }
        if let Err(error) = self.write_reference(number, Allocation::Normal).await {
            let state = &mut *self.state.borrow_mut();
            state.bury(number);
            state.release_datum(id);
            return Err(error);
        }
        self.state.borrow_mut().inode_cache(inode).references.push(number);
        match old {
            Some(old) => self.end_reference(inode, old).await,
            None => Ok(()),
        }
    }

    /// Writes the end of a reference, and drops the value with its last reference.
    async fn end_reference(&self, inode: u32, number: u32) -> Result<(), Errno> {
        let set_dead = |is_dead: bool| {
            let attributes = &mut self.state.borrow_mut().attributes;
            let reference = attributes.references.get_mut(&number)?;
            reference.is_dead = is_dead;
            Some(reference.id)
        };
        let Some(id) = set_dead(true) else { return Ok(()) };
        if let Err(error) = self.write_reference(number, Allocation::Deletion).await {
            set_dead(false);
            return Err(error);
        }
        let state = &mut *self.state.borrow_mut();
        state.inode_cache(inode).references.retain(|other| *other != number);
        state.bury(number);
        state.release_datum(id);
        Ok(())
    }

    /// Writes a value, unless the same is there already (`create_xattr_datum`).
    async fn write_datum(&self, mut node: XattrNode) -> Result<u32, Errno> {
        {
            let attributes = &mut self.state.borrow_mut().attributes;
            let same = attributes.data.iter_mut().find(|(_, datum)| {
                datum.references > 0
                    && datum.loaded.as_ref().is_some_and(|(prefix, name, value)| {
                        (*prefix, name, value) == (node.prefix, &node.name, &node.value)
                    })
            });
            if let Some((id, datum)) = same {
                datum.references += 1;
                return Ok(*id);
            }
            attributes.highest_id = attributes.highest_id.wrapping_add(1);
            node.id = attributes.highest_id;
        }
        let room = self
            .reserve(
                padded(node.to_bytes().len() as u32),
                Allocation::Normal,
                entry_bytes(XATTR, 0),
            )
            .await?;
        let _exclusive = self.attribute_lock.write().await;
        let bytes = node.to_bytes();
        self.charge_crc(bytes.len()).await;
        let id = node.id;
        let write = NodeToWrite {
            bytes,
            state: NodeState::Pristine,
            owner: Owner::Datum(id),
            allocation: Allocation::Normal,
        };
        let written = self.write_node(write).await;
        drop(room);
        written?;
        if let Some(datum) = self.state.borrow_mut().attributes.data.get_mut(&id) {
            datum.references = 1;
            datum.loaded = Some((node.prefix, node.name, node.value));
        }
        Ok(id)
    }

    async fn write_reference(&self, number: u32, allocation: Allocation) -> Result<(), Errno> {
        let room = self.reserve(XREF_BYTES as u32, allocation, entry_bytes(XREF, 0)).await?;
        let _exclusive = self.attribute_lock.write().await;
        let written = self.save_reference(number, allocation).await;
        drop(room);
        written
    }

    /// Writes a reference where space is reserved (`save_xattr_ref`).
    pub(crate) async fn save_reference(
        &self,
        number: u32,
        allocation: Allocation,
    ) -> Result<(), Errno> {
        let (bytes, older) = {
            let attributes = &mut self.state.borrow_mut().attributes;
            // Steps of two: the lowest bit says that the reference has ended
            // (`XREF_DELETE_MARKER`).
            attributes.highest_sequence = attributes.highest_sequence.wrapping_add(2);
            let sequence = attributes.highest_sequence;
            let Some(reference) = attributes.references.get_mut(&number) else { return Ok(()) };
            reference.sequence = sequence | u32::from(reference.is_dead);
            let (inode, id) = (reference.inode, reference.id);
            let node = XrefNode { inode, id, sequence: reference.sequence };
            (node.to_bytes(), reference.nodes.clone())
        };
        let owner = Owner::Reference(number);
        let state = NodeState::Pristine;
        self.write_node(NodeToWrite { bytes, state, owner, allocation }).await?;
        let state = &mut *self.state.borrow_mut();
        for node in older {
            state.mark_obsolete(node);
        }
        Ok(())
    }
}

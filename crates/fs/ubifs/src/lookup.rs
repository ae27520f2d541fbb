//! Reading through the index.
//!
//! Source: `fs/ubifs/tnc.c` (`ubifs_tnc_locate`, `ubifs_tnc_lookup_nm`, `ubifs_tnc_next_ent`). A part of
//! the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::keys::Key;
use crate::nodes::{EntryNode, InodeNode};
use fs_api::{Errno, Place as FoundAt};
use std::ops::Range;

impl Engine {
    /// The node of a key, and whether it was found at all.
    ///
    /// The node is read without the index's lock; if its eraseblock was collected meanwhile, once
    /// more with it.
    pub(crate) async fn tnc_lookup(&self, key: Key) -> Result<Option<Vec<u8>>, Errno> {
        let mut is_safe = false;
        loop {
            let held = self.tnc_lock.lock().await;
            let (found, spot) = self.find_key(key, false).await?;
            if !found {
                return Ok(None);
            }
            let (place, before) = (self.place_at(spot), self.collected.get());
            let held = if is_safe { Some(held) } else { None };
            let read = self.read_keyed(place, key).await;
            drop(held);
            // The kernel repeats only if the eraseblock itself was collected (`maybe_leb_gced`).
            // Here any collection repeats the read.
            if self.collected.get() == before || is_safe {
                return read.map(Some);
            }
            is_safe = true;
        }
    }

    /// The entry with a name (`ubifs_tnc_lookup_nm`).
    pub(crate) async fn tnc_lookup_name(
        &self,
        key: Key,
        name: &[u8],
    ) -> Result<Option<EntryNode>, Errno> {
        let _held = self.tnc_lock.lock().await;
        let (found, spot) = self.find_key(key, false).await?;
        if !found {
            return Ok(None);
        }
        let (found, spot) = self.find_name(spot, name).await?;
        if !found {
            return Ok(None);
        }
        let leaf = self.read_leaf(spot).await?;
        EntryNode::parse(&leaf).map(Some).ok_or(Errno::Eio)
    }

    /// The entry of the same directory or inode behind a name; an empty name: the first from the key
    /// on (`ubifs_tnc_next_ent`).
    pub(crate) async fn next_entry(
        &self,
        key: Key,
        name: &[u8],
    ) -> Result<Option<EntryNode>, Errno> {
        let _held = self.tnc_lock.lock().await;
        let (found, mut spot) = self.find_key(key, false).await?;
        let mut stays = found && name.is_empty();
        if found && !name.is_empty() {
            (_, spot) = if self.is_mounting.get() {
                self.find_name_in_replay(spot, name, true).await?
            } else {
                self.find_name(spot, name).await?
            };
            stays = false;
        }
        if !stays {
            match self.next(spot).await? {
                Some(next) => spot = next,
                None => return Ok(None),
            }
        }
        let next = self.key_at(spot);
        if next.inode != key.inode || next.kind() != key.kind() {
            return Ok(None);
        }
        let leaf = self.read_leaf(spot).await?;
        let entry = EntryNode::parse(&leaf).ok_or(Errno::Eio)?;
        let is_same = next == key && !name.is_empty() && entry.name.as_slice() <= name;
        if next < key || is_same || entry.name.is_empty() {
            // A walk through all of them would never end.
            self.find(
                Code::BadNames,
                FoundAt::Inode(key.inode.into()),
                format!("entries of inode {} are out of order or without a name", key.inode),
            );
            return Err(Errno::Eio);
        }
        Ok(Some(entry))
    }

    /// Runs of blocks of a file that are in the index; a block that is not in it is a hole.
    pub(crate) async fn data_blocks(&self, inode: u64) -> Result<Vec<Range<u64>>, Errno> {
        let first = Key::data(inode, 0);
        let _held = self.tnc_lock.lock().await;
        let (found, spot) = self.find_key(first, false).await?;
        let mut next = if found { Some(spot) } else { self.next(spot).await? };
        let mut runs: Vec<Range<u64>> = Vec::new();
        while let Some(spot) = next {
            let key = self.key_at(spot);
            if key.inode != first.inode || key.kind() != first.kind() {
                break;
            }
            let block = u64::from(key.low());
            match runs.last_mut() {
                Some(last) if block == last.end => last.end += 1,
                Some(last) if block < last.end => return Err(Errno::Eio),
                _ => runs.push(block..block + 1),
            }
            next = self.next(spot).await?;
        }
        Ok(runs)
    }

    pub(crate) async fn read_inode(&self, inode: u64) -> Result<InodeNode, Errno> {
        // Keys hold 32 bits. Without this test a damaged entry would lead to another inode.
        if inode > u64::from(u32::MAX) {
            return Err(Errno::Eio);
        }
        let node = self.tnc_lookup(Key::inode(inode)).await?.ok_or(Errno::Enoent)?;
        InodeNode::parse(&node).ok_or(Errno::Eio)
    }
}

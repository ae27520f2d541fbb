//! Recomputes what the medium counts and says twice: the kernel has no checker.
//!
//! May use: `bytes`, `engine`, `file`, `file_system`, `finding`, `map`, `node`, `records`.

use crate::bytes::get_u32;
use crate::engine::Engine;
use crate::file::File;
use crate::file_system::Nilfs2;
use crate::finding::Code;
use crate::map::{Map, Pointers};
use crate::node;
use crate::records::{
    DAT_ENTRY_BYTES, DatEntry, FIRST_USER_INODE, INODE_BYTES, Inode, NO_END, ROOT_INODE,
};
use fs_api::{Errno, FileType, Finding, Place};
use std::collections::BTreeMap;

/// Findings of a check.
#[derive(Default)]
struct Check {
    findings: Vec<Finding>,
    /// Who uses a virtual block.
    virtual_blocks: BTreeMap<u64, u64>,
    /// Who uses a block of the device.
    blocks: BTreeMap<u64, String>,
}

impl Check {
    fn find(&mut self, text: String) {
        // A damaged tree can produce a finding per block; the first ones say what is wrong.
        if self.findings.len() < 200 {
            self.findings.push(Code::Contradiction.at(Place::Whole, text));
        }
    }
}

impl Nilfs2 {
    /// Everything that contradicts itself in the newest checkpoint and what was changed since; nothing
    /// if all is well.
    ///
    /// # Errors
    /// [`Errno::Eio`] if something cannot be read at all.
    pub async fn check(&self) -> Result<Vec<Finding>, Errno> {
        let engine = &self.engine;
        let mut check = Check::default();
        engine.check_segments(&mut check).await?;
        let mut blocks = 0;
        // Their blocks are not part of a checkpoint, so they are walked but not counted
        // (`blocks_count` of `struct nilfs_root` leaves them out).
        for file in [&engine.dat, &engine.cpfile, &engine.sufile] {
            engine.check_map(file, &mut check).await?;
        }
        blocks += engine.check_map(&engine.root.ifile, &mut check).await?;
        let inodes = engine.check_inodes(&mut check, &mut blocks).await?;
        if inodes != engine.root.inodes.get() {
            check.find(format!("{inodes} inodes, {} counted", engine.root.inodes.get()));
        }
        if blocks != engine.root.blocks.get() {
            check.find(format!("{blocks} blocks, {} counted", engine.root.blocks.get()));
        }
        engine.check_dat(&mut check).await?;
        engine.check_checkpoints(&mut check).await?;
        Ok(check.findings)
    }
}

impl Nilfs2 {
    /// Segments with logs whose checksums are wrong: less of them is intact than is counted in use.
    ///
    /// # Errors
    /// [`Errno::Eio`] if the segments cannot be listed.
    pub async fn check_logs(&self) -> Result<Vec<Finding>, Errno> {
        let mut check = Check::default();
        for (number, usage) in (0..).zip(self.segments().await?) {
            if !usage.is_dirty() || usage.blocks == 0 {
                continue;
            }
            let Ok(logs) = self.logs(number).await else {
                check.find(format!("segment {number}: its logs cannot be read"));
                continue;
            };
            let intact: u64 = logs.iter().map(|(_, header, _)| u64::from(header.blocks)).sum();
            if intact < usage.blocks.into() {
                let at = self.engine.geometry.segment_range(number).0 + intact;
                check.find(format!(
                    "segment {number}: the log at block {at} is not intact: {intact} of {} blocks are",
                    usage.blocks
                ));
            }
        }
        Ok(check.findings)
    }
}

impl Engine {
    async fn check_segments(&self, check: &mut Check) -> Result<(), Errno> {
        let counts = self.segment_counts().await?;
        let (mut clean, mut dirty) = (0, 0);
        for segment in 0..self.geometry.segments {
            let usage = self.segment_usage(segment).await?;
            clean += u64::from(usage.is_clean());
            dirty += u64::from(usage.is_dirty());
            if u64::from(usage.blocks) > self.geometry.blocks_per_segment {
                check.find(format!("segment {segment} has {} blocks in use", usage.blocks));
            }
        }
        if (clean, dirty) != (counts.clean, counts.dirty) {
            check.find(format!(
                "{clean} clean and {dirty} dirty segments, {} and {} counted",
                counts.clean, counts.dirty
            ));
        }
        Ok(())
    }

    /// Notes all blocks of a file's map; gives their number.
    async fn check_map(&self, file: &File, check: &mut Check) -> Result<u64, Errno> {
        let (pointers, root) = {
            let map = file.map.borrow();
            (map.pointers, map.root)
        };
        let is_tree = file.map.borrow().is_tree();
        if let Some(fault) = node::fault(&root).filter(|_| is_tree) {
            check.find(format!("inode {}: the map's root is {fault}", file.number));
            return Ok(0);
        }
        let mut rest = if is_tree { node::entries(&root) } else { Vec::new() };
        let mut level = if is_tree { node::level(&root) } else { 0 };
        let mut count = 0;
        if !is_tree {
            for (_, pointer) in file.map.borrow().direct_entries() {
                self.check_pointer(file, pointers, pointer, check);
                count += 1;
            }
        }
        while level > 0 {
            let mut below = Vec::new();
            for (key, pointer) in &rest {
                let is_new = self.check_pointer(file, pointers, *pointer, check);
                count += 1;
                // What is there twice was looked at, and a tree that leads into itself has no end.
                if level > 1 && is_new {
                    let buffer = self.node_block(file, *pointer).await?;
                    let data = buffer.data.borrow();
                    if node::key(&data, 0) != *key || node::level(&data) != level - 1 {
                        check.find(format!("inode {}: the node of {key} differs", file.number));
                    }
                    below.extend(node::entries(&data));
                }
            }
            if !rest.windows(2).all(|pair| pair[0].0 < pair[1].0) {
                check.find(format!("inode {}: keys of level {level} out of order", file.number));
            }
            rest = below;
            level -= 1;
        }
        Ok(count)
    }

    /// Records the file that uses a pointer's target; false if another use is recorded already.
    fn check_pointer(
        &self,
        file: &File,
        pointers: Pointers,
        pointer: u64,
        check: &mut Check,
    ) -> bool {
        if pointers == Pointers::Physical {
            // Blocks of the DAT that no log has placed yet have pointers from 2^63 on.
            let is_placed = pointer < 1 << 63;
            return !is_placed
                || self.check_block(pointer, &format!("inode {}", file.number), check);
        }
        let Some(other) = check.virtual_blocks.insert(pointer, file.number) else { return true };
        check.find(format!("virtual block {pointer} is of inodes {other} and {}", file.number));
        false
    }

    /// Records the user of a block of the device; false if another use is recorded already.
    fn check_block(&self, block: u64, user: &str, check: &mut Check) -> bool {
        if block < self.geometry.first_data_block || block >= self.geometry.blocks() {
            check.find(format!("{user}: block {block} is outside the segments"));
        } else if let Some(other) = check.blocks.insert(block, user.to_owned()) {
            check.find(format!("block {block} is of {other} and of {user}"));
            return false;
        }
        true
    }

    /// Numbers of all entries of the DAT or the file of inodes that are in use; counts of free ones are
    /// compared.
    async fn used_entries(&self, file: &File, check: &mut Check) -> Result<Vec<u64>, Errno> {
        let layout = self.layout(file);
        let mut numbers = Vec::new();
        for block in self.map_keys(file).await? {
            let Some(group) = layout.group_of_bitmap(block) else { continue };
            let Some(first) = group.checked_mul(layout.per_group()) else {
                check.find(format!(
                    "inode {}: there is no place for its block {block}",
                    file.number
                ));
                continue;
            };
            let Some(bitmap) = self.data_block(file, block).await? else { continue };
            let taken = bits(&bitmap.data.borrow());
            let descriptors = self.data_block(file, layout.descriptor_block(group)).await?;
            let counted = descriptors
                .map(|buffer| get_u32(&buffer.data.borrow(), layout.free_count_at(group)));
            let free = layout.per_group() as u32 - taken.len() as u32;
            if counted != Some(free) {
                check.find(format!(
                    "inode {}: group {group} has {free} free entries, {counted:?} counted",
                    file.number
                ));
            }
            numbers.extend(taken.into_iter().map(|bit| first + bit));
        }
        Ok(numbers)
    }

    async fn check_inodes(&self, check: &mut Check, blocks: &mut u64) -> Result<u64, Errno> {
        let ifile = &self.root.ifile;
        // The root directory counts, the reserved inodes below 11 do not.
        let mut inodes = 1;
        let mut names: BTreeMap<u64, u64> = BTreeMap::new();
        let mut numbers = vec![ROOT_INODE];
        let of_users = self.used_entries(ifile, check).await?.into_iter();
        numbers.extend(of_users.filter(|number| *number >= FIRST_USER_INODE));
        inodes += numbers.len() as u64 - 1;
        for number in numbers.iter().copied() {
            let (buffer, at) = self.known_entry_block(ifile, number).await?;
            let inode = Inode::decode(&buffer.data.borrow()[at..at + INODE_BYTES]);
            let known = self.file(number).await;
            if known.is_err() && inode.links > 0 {
                check.find(format!("inode {number} cannot be read"));
                continue;
            }
            // A file that was deleted while the constructor held it, when the power failed, stays
            // without a name for ever, as in the kernel.
            let file = known.unwrap_or_else(|_| {
                let map = Map::new(number, inode.map);
                File::new(&self.sim, number, inode, map)
            });
            if !file.kind().is_some_and(FileType::is_device) {
                *blocks += self.check_map(&file, check).await?;
            }
            let is_named = file.inode.borrow().links > 0;
            if is_named && file.kind() == Some(FileType::Directory) {
                // Its own name, and `..` of each directory in it.
                // The root has no name above it; its own `..` stands for one.
                *names.entry(number).or_default() += 1 + u64::from(number == ROOT_INODE);
                for entry in self.names(&file).await? {
                    *names.entry(entry.inode).or_default() += 1;
                    let child = self.file(entry.inode).await;
                    if child.is_ok_and(|child| child.kind() == Some(FileType::Directory)) {
                        *names.entry(number).or_default() += 1;
                    }
                }
            }
        }
        for number in numbers {
            let Ok(file) = self.file(number).await else { continue };
            let links = u64::from(file.inode.borrow().links);
            let found = names.get(&number).copied().unwrap_or(0);
            if links != 0 && links != found {
                check.find(format!("inode {number} has {found} names, {links} counted"));
            }
        }
        Ok(inodes)
    }

    /// Every entry that lives is used once, and every use has an entry.
    async fn check_dat(&self, check: &mut Check) -> Result<(), Errno> {
        let mut users = std::mem::take(&mut check.virtual_blocks);
        for number in self.used_entries(&self.dat, check).await?.into_iter().filter(|it| *it > 0) {
            let (buffer, at) = self.known_entry_block(&self.dat, number).await?;
            let entry = DatEntry::decode(&buffer.data.borrow()[at..at + DAT_ENTRY_BYTES]);
            let user = users.remove(&number);
            // Entries with an end belong to older checkpoints. They are the cleaner's to free, so
            // no user is no fault.
            if (entry.end == NO_END) != user.is_some() {
                check.find(format!("virtual block {number} {entry:?} is used by {user:?}"));
            }
            if entry.block != 0 {
                self.check_block(entry.block, &format!("virtual block {number}"), check);
            }
        }
        for (number, inode) in users {
            check.find(format!("virtual block {number} of inode {inode} is free"));
        }
        Ok(())
    }

    async fn check_checkpoints(&self, check: &mut Check) -> Result<(), Errno> {
        let counts = self.checkpoint_counts().await?;
        let all = self.checkpoints().await?;
        let snapshots = all.iter().filter(|checkpoint| checkpoint.is_snapshot());
        let listed: Vec<u64> = snapshots.map(|checkpoint| checkpoint.number).collect();
        if all.len() as u64 != counts.checkpoints || listed.len() as u64 != counts.snapshots {
            check.find(format!(
                "{} checkpoints, {} of them snapshots; {} and {} counted",
                all.len(),
                listed.len(),
                counts.checkpoints,
                counts.snapshots
            ));
        }
        if self.snapshots().await? != listed {
            check.find(format!("the list of snapshots is not {listed:?}"));
        }
        Ok(())
    }
}

/// Numbers of the bits that are set.
fn bits(bitmap: &[u8]) -> Vec<u64> {
    let all = 0..bitmap.len() as u64 * 8;
    all.filter(|bit| bitmap[(bit / 8) as usize] & (1 << (bit % 8)) != 0).collect()
}

//! Inodes: found in the file of inodes, made, changed and deleted there.
//!
//! Source: `fs/nilfs2/inode.c`, `ifile.c`.
//!
//! May use: `bytes`, `engine`, `file`, `finding`, `map`, `records`.

use crate::engine::Engine;
use crate::file::{Buffer, Contents, EntryBlock, File};
use crate::finding::Code;
use crate::map::Map;
use crate::records::{INODE_BYTES, Inode, MAP_BYTES};
use fs_api::{Attributes, Caller, Errno, FileType, Place};
use std::rc::Rc;

/// Bytes that a symbolic link's target may have.
const TARGET_BYTES_MAX: usize = 4095;

/// Device number as an inode keeps it (`huge_encode_dev`).
fn encode_device((major, minor): (u32, u32)) -> u64 {
    u64::from((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

fn decode_device(code: u64) -> (u32, u32) {
    let code = code as u32;
    ((code & 0x000f_ff00) >> 8, (code & 0xff) | ((code >> 12) & 0x000f_ff00))
}

/// Refuses targets that a block cannot hold with their end.
pub(crate) fn check_target(target: &[u8]) -> Result<(), Errno> {
    if target.len() > TARGET_BYTES_MAX { Err(Errno::Enametoolong) } else { Ok(()) }
}

impl File {
    /// Attributes as `stat` shows them.
    pub(crate) fn attributes(&self) -> Attributes {
        let inode = self.inode.borrow();
        let kind = FileType::from_mode(inode.mode.into()).unwrap_or(FileType::Regular);
        let device = if kind.is_device() {
            decode_device(crate::bytes::get_u64(&self.map.borrow().root, 0))
        } else {
            (0, 0)
        };
        Attributes {
            kind,
            permissions: u32::from(inode.mode) & 0o7777,
            links: inode.links.into(),
            uid: inode.uid,
            gid: inode.gid,
            size_bytes: inode.size_bytes,
            // There is no time of access on the medium.
            accessed: inode.modified,
            modified: inode.modified,
            changed: inode.changed,
            device,
        }
    }
    /// Kind of the file.
    pub(crate) fn kind(&self) -> Option<FileType> {
        FileType::from_mode(self.inode.borrow().mode.into())
    }
}

impl Engine {
    /// A file by its inode, from memory or the file of inodes (`nilfs_iget`).
    pub(crate) async fn file(&self, number: u64) -> Result<Rc<File>, Errno> {
        if let Some(file) = self.root.files.borrow().get(&number) {
            return Ok(file.clone());
        }
        let ifile = &self.root.ifile;
        let (block, at) = self.layout(ifile).entry(number);
        ifile.asked_for(EntryBlock::Entries, block);
        let buffer = self.data_block(ifile, block).await?.ok_or(Errno::Enoent)?;
        let inode = Inode::decode(&buffer.data.borrow()[at..at + INODE_BYTES]);
        // An inode without names is being deleted, or was when the power failed
        // (`__nilfs_read_inode`, ESTALE there).
        if inode.links == 0 || FileType::from_mode(inode.mode.into()).is_none() {
            return Err(Errno::Enoent);
        }
        let mut files = self.root.files.borrow_mut();
        let new = || File::new(&self.sim, number, inode.clone(), Map::new(number, inode.map));
        Ok(files.entry(number).or_insert_with(new).clone())
    }

    /// Writes attributes into the file of inodes' block in memory (`nilfs_mark_inode_dirty`).
    pub(crate) async fn write_inode(&self, file: &Rc<File>) -> Result<(), Errno> {
        let ifile = &self.root.ifile;
        let (buffer, at) = self.known_entry_block(ifile, file.number).await?;
        let mut data = buffer.data.borrow_mut();
        let raw = &mut data[at..at + INODE_BYTES];
        file.inode.borrow().encode_attributes(raw);
        // The number of a device stands where other inodes have their map (`i_device_code`).
        if file.kind().is_some_and(FileType::is_device) {
            raw[56..112].copy_from_slice(&file.map.borrow().root);
        }
        drop(data);
        ifile.dirty(&buffer);
        Ok(())
    }

    /// The block of a file's inode belongs to the next checkpoint.
    pub(crate) async fn touch_inode_block(&self, file: &File) -> Result<(), Errno> {
        let ifile = &self.root.ifile;
        let (buffer, _) = self.known_entry_block(ifile, file.number).await?;
        ifile.dirty(&buffer);
        Ok(())
    }

    /// A new inode without a name (`nilfs_new_inode`).
    pub(crate) async fn new_inode(
        &self,
        caller: &Caller,
        mode: u32,
        device: (u32, u32),
    ) -> Result<Rc<File>, Errno> {
        let ifile = &self.root.ifile;
        let number = self.allocate_entry(ifile, 0).await?;
        let (buffer, at) = self.entry_block(ifile, number).await?;
        let mut map = [0; MAP_BYTES];
        if FileType::from_mode(mode).is_some_and(FileType::is_device) {
            map[..8].copy_from_slice(&encode_device(device).to_le_bytes());
        }
        let inode = Inode {
            changed: caller.now,
            modified: caller.now,
            uid: caller.uid,
            gid: caller.gid,
            mode: mode as u16,
            links: 1,
            map,
            ..Inode::default()
        };
        inode.encode(&mut buffer.data.borrow_mut()[at..at + INODE_BYTES]);
        ifile.dirty(&buffer);
        self.root.inodes.set(self.root.inodes.get() + 1);
        let file = File::new(&self.sim, number, inode, Map::new(number, map));
        file.needs_checkpoint.set(true);
        self.root.files.borrow_mut().insert(number, file.clone());
        Ok(file)
    }

    /// Deletes an inode that has no names (`nilfs_evict_inode`).
    pub(crate) async fn delete_inode(&self, file: &Rc<File>) -> Result<(), Errno> {
        if !file.kind().is_some_and(FileType::is_device) {
            // Data in memory first, so that the constructor does not find a dirty block that the
            // map no longer has.
            self.drop_data(file, 0);
            self.map_truncate(file, 0).await?;
        }
        self.write_inode(file).await?;
        let ifile = &self.root.ifile;
        let (buffer, at) = self.known_entry_block(ifile, file.number).await?;
        // The kernel clears the flags of a free inode, and leaves the rest.
        buffer.data.borrow_mut()[at + 52..at + 56].fill(0);
        self.free_entry(ifile, file.number).await?;
        ifile.dirty(&buffer);
        self.root.inodes.set(self.root.inodes.get().saturating_sub(1));
        self.root.files.borrow_mut().remove(&file.number);
        self.dirty_files.borrow_mut().retain(|other| !Rc::ptr_eq(other, file));
        file.is_queued.set(false);
        Ok(())
    }

    /// Forgets data in memory from a block on.
    pub(crate) fn drop_data(&self, file: &File, first: u64) {
        let gone = file.data.borrow_mut().split_off(&first);
        let dirty = gone.values().filter(|buffer| buffer.is_dirty.get()).count() as u64;
        let counted = &self.constructor.dirty_blocks;
        counted.set(counted.get().saturating_sub(dirty));
    }

    /// Puts a whole block of data into a file, for the constructor to write. The block is mapped if
    /// it was a hole.
    pub(crate) async fn put_data(
        &self,
        file: &Rc<File>,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<(), Errno> {
        self.put_contents(file, offset, Contents::Own(bytes)).await
    }

    /// As [`Engine::put_data`], of contents that the page cache may hold as well.
    pub(crate) async fn put_contents(
        &self,
        file: &Rc<File>,
        offset: u64,
        contents: Contents,
    ) -> Result<(), Errno> {
        if let Some(buffer) = file.cached(offset) {
            buffer.replace(contents);
            self.dirty_data(file, &buffer);
            return Ok(());
        }
        let is_mapped = self.map_lookup(file, offset).await?.is_some();
        let buffer = Buffer::new(offset, Vec::new(), false);
        buffer.replace(contents);
        // A block that was never in a log has a virtual number that no checkpoint shows, so it
        // needs no new one.
        buffer.is_volatile.set(!is_mapped);
        let buffer = file.data.borrow_mut().entry(offset).or_insert(buffer).clone();
        if !is_mapped && let Err(error) = self.map_insert(file, offset).await {
            file.data.borrow_mut().remove(&offset);
            return Err(error);
        }
        self.dirty_data(file, &buffer);
        Ok(())
    }

    /// A data block was changed.
    pub(crate) fn dirty_data(&self, file: &Rc<File>, buffer: &Buffer) {
        let is_new = !buffer.is_dirty.replace(true);
        self.file_is_dirty(file, u64::from(is_new));
    }

    /// Cuts a file off, or makes it longer (`nilfs_truncate`).
    pub(crate) async fn truncate(&self, file: &Rc<File>, size_bytes: u64) -> Result<(), Errno> {
        let block_bytes = self.geometry.block_bytes;
        let old = file.inode.borrow().size_bytes;
        let keeps = size_bytes.div_ceil(block_bytes);
        let tail = (size_bytes % block_bytes) as usize;
        // The bytes behind the new end become zero on the medium: the file may grow again
        // (`nilfs_truncate`, `block_truncate_page`).
        if size_bytes < old && tail > 0 {
            let last = size_bytes / block_bytes;
            if let Some(bytes) = self.read_data(file, last).await? {
                let mut bytes = bytes;
                bytes[tail..].fill(0);
                self.put_data(file, last, bytes).await?;
            }
        }
        file.inode.borrow_mut().size_bytes = size_bytes;
        if size_bytes < old {
            self.drop_data(file, keeps);
            self.map_truncate(file, keeps).await?;
        }
        file.needs_checkpoint.set(true);
        self.file_is_dirty(file, 0);
        Ok(())
    }

    /// A block of a file without keeping it; none in a hole.
    pub(crate) async fn read_data(
        &self,
        file: &File,
        offset: u64,
    ) -> Result<Option<Vec<u8>>, Errno> {
        if let Some(buffer) = file.cached(offset) {
            return Ok(Some(buffer.look(<[u8]>::to_vec)));
        }
        if file.keeps_blocks() {
            let buffer = self.data_block(file, offset).await?;
            return Ok(buffer.map(|buffer| buffer.data.borrow().clone()));
        }
        let Some(pointer) = self.map_lookup(file, offset).await? else { return Ok(None) };
        // A block that was mapped meanwhile is in memory.
        if let Some(buffer) = file.cached(offset) {
            return Ok(Some(buffer.look(<[u8]>::to_vec)));
        }
        let block = self.physical(file, pointer).await?;
        Ok(Some(self.read_block(block).await?))
    }

    /// Target of a symbolic link.
    pub(crate) async fn target_of(&self, file: &File) -> Result<Vec<u8>, Errno> {
        let size = file.inode.borrow().size_bytes as usize;
        if size > TARGET_BYTES_MAX {
            return Err(self.damaged(
                Code::BadInode,
                Place::Inode(file.number),
                format!("inode {}: a link of {size} bytes", file.number),
            ));
        }
        let mut bytes = self.read_data(file, 0).await?.unwrap_or_default();
        bytes.resize(size.max(bytes.len()), 0);
        bytes.truncate(size);
        Ok(bytes)
    }
}

//! Directories: ext2's records in blocks.
//!
//! A record has inode (8 bytes), its own length (2), the name's length (1), the kind (1) and the
//! name; records are aligned to 8 bytes and do not cross blocks. Source: `fs/nilfs2/dir.c`.
//!
//! May use: `bytes`, `engine`, `file`, `finding`.

use crate::bytes::{get_u16, get_u64, put_u16, put_u64};
use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::finding::Code;
use fs_api::{Caller, DirectoryEntry, Errno, FileType};
use std::rc::Rc;

/// Bytes that a name may have.
pub(crate) const NAME_BYTES_MAX: usize = 255;
const HEADER_BYTES: usize = 12;
/// Blocks from which on a directory counts as damaged. The kernel compares with the inode's block
/// count instead (`nilfs_find_entry`).
const BLOCKS_MAX: u64 = 1 << 16;

/// Bytes of a record with a name of so many bytes.
fn record_bytes(name_bytes: usize) -> usize {
    (HEADER_BYTES + name_bytes).next_multiple_of(8)
}

/// Bytes of a record that is there; one that fills a block of 64 KiB is written as 65535.
fn length(block: &[u8], at: usize) -> usize {
    match get_u16(block, at + 8) {
        // `nilfs_rec_len_from_disk`: 65536 does not fit into the field.
        u16::MAX => 1 << 16,
        bytes => bytes.into(),
    }
}

fn name(block: &[u8], at: usize) -> &[u8] {
    &block[at + HEADER_BYTES..at + HEADER_BYTES + block[at + 10] as usize]
}

fn kind_code(kind: FileType) -> u8 {
    match kind {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::CharacterDevice => 3,
        FileType::BlockDevice => 4,
        FileType::Fifo => 5,
        FileType::Socket => 6,
        FileType::Symlink => 7,
    }
}

/// First bytes of all records of a block; none if they make no sense.
fn records(block: &[u8]) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < block.len() {
        if at + record_bytes(1) > block.len() {
            return None;
        }
        let bytes = length(block, at);
        let fits = bytes >= record_bytes(1)
            && bytes.is_multiple_of(8)
            && at + bytes <= block.len()
            && record_bytes(block[at + 10] as usize) <= bytes;
        if !fits {
            return None;
        }
        all.push(at);
        at += bytes;
    }
    Some(all)
}

/// After a change: the records still fill the block.
#[inline]
#[track_caller]
fn assert_records(block: &[u8]) {
    debug_assert!(records(block).is_some(), "records of a directory fill its block");
}

fn write_record(block: &mut [u8], at: usize, inode: u64, name: &[u8], kind: FileType) {
    put_u64(block, at, inode);
    block[at + 10] = name.len() as u8;
    block[at + 11] = kind_code(kind);
    block[at + HEADER_BYTES..at + HEADER_BYTES + name.len()].copy_from_slice(name);
}

/// Takes the first gap that is long enough: a free record, or the end of one that is used.
fn take_gap(block: &mut [u8], records: &[usize], needed: usize) -> Option<usize> {
    for at in records.iter().copied() {
        let (bytes, is_free) = (length(block, at), get_u64(block, at) == 0);
        let used = if is_free { 0 } else { record_bytes(block[at + 10] as usize) };
        if bytes < used + needed {
            continue;
        }
        if !is_free {
            put_u16(block, at + 8, used as u16);
            put_u16(block, at + used + 8, (bytes - used) as u16);
        }
        return Some(at + used);
    }
    None
}

/// Where a name was found.
pub(crate) struct Place {
    buffer: Rc<Buffer>,
    at: usize,
    pub(crate) inode: u64,
}

impl Engine {
    fn directory_blocks(&self, directory: &File) -> Result<u64, Errno> {
        if directory.kind() != Some(FileType::Directory) {
            return Err(Errno::Enotdir);
        }
        let size = directory.inode.borrow().size_bytes;
        let blocks = size.div_ceil(self.geometry.block_bytes);
        if blocks > BLOCKS_MAX {
            let number = directory.number;
            return Err(self.damaged(
                Code::BadDirectory,
                fs_api::Place::Inode(number),
                format!("inode {number}: a directory of {size} bytes"),
            ));
        }
        Ok(blocks)
    }

    /// A block of a directory and where its records begin; none in a hole.
    async fn records_of(
        &self,
        directory: &File,
        block: u64,
    ) -> Result<Option<(Rc<Buffer>, Vec<usize>)>, Errno> {
        let Some(buffer) = self.data_block(directory, block).await? else { return Ok(None) };
        let found = records(&buffer.data.borrow());
        match found {
            Some(records) => Ok(Some((buffer, records))),
            None => Err(self.damaged(
                Code::BadDirectory,
                fs_api::Place::Inode(directory.number),
                format!(
                    "inode {}: block {block} of the directory makes no sense",
                    directory.number
                ),
            )),
        }
    }

    /// The record of a name in a directory, if there is one.
    pub(crate) async fn find_name(
        &self,
        directory: &File,
        wanted: &[u8],
    ) -> Result<Option<Place>, Errno> {
        for block in 0..self.directory_blocks(directory)? {
            let Some((buffer, records)) = self.records_of(directory, block).await? else {
                continue;
            };
            let data = buffer.data.borrow();
            let is_it = |at: &&usize| get_u64(&data, **at) != 0 && name(&data, **at) == wanted;
            if let Some(at) = records.iter().find(is_it).copied() {
                let inode = get_u64(&data, at);
                drop(data);
                return Ok(Some(Place { buffer, at, inode }));
            }
        }
        Ok(None)
    }

    /// Names but `.` and `..`, in their order on the medium.
    pub(crate) async fn names(&self, directory: &File) -> Result<Vec<DirectoryEntry>, Errno> {
        let mut all = Vec::new();
        for block in 0..self.directory_blocks(directory)? {
            let Some((buffer, records)) = self.records_of(directory, block).await? else {
                continue;
            };
            let data = buffer.data.borrow();
            for at in records {
                let (inode, name) = (get_u64(&data, at), name(&data, at));
                if inode != 0 && name != b"." && name != b".." {
                    all.push(DirectoryEntry { name: name.to_vec(), inode });
                }
            }
        }
        Ok(all)
    }

    /// The directory was changed.
    async fn touch(&self, caller: &Caller, directory: &Rc<File>) -> Result<(), Errno> {
        {
            let mut inode = directory.inode.borrow_mut();
            (inode.modified, inode.changed) = (caller.now, caller.now);
        }
        // Names are metadata: a data-sync log cannot carry them.
        directory.needs_checkpoint.set(true);
        self.write_inode(directory).await
    }

    /// Adds a name that is not there: in the first gap, else in a new block.
    pub(crate) async fn add_name(
        &self,
        caller: &Caller,
        directory: &Rc<File>,
        new: &[u8],
        file: &File,
    ) -> Result<(), Errno> {
        let kind = file.kind().unwrap_or(FileType::Regular);
        let needed = record_bytes(new.len());
        let blocks = self.directory_blocks(directory)?;
        for block in 0..blocks {
            let Some((buffer, records)) = self.records_of(directory, block).await? else {
                continue;
            };
            let gap = take_gap(&mut buffer.data.borrow_mut(), &records, needed);
            if let Some(at) = gap {
                write_record(&mut buffer.data.borrow_mut(), at, file.number, new, kind);
                assert_records(&buffer.data.borrow());
                self.dirty_data(directory, &buffer);
                return self.touch(caller, directory).await;
            }
        }
        let mut block = vec![0; self.geometry.block_bytes as usize];
        let whole = block.len() as u16;
        put_u16(&mut block, 8, whole);
        write_record(&mut block, 0, file.number, new, kind);
        self.put_data(directory, blocks, block).await?;
        directory.inode.borrow_mut().size_bytes = (blocks + 1) * self.geometry.block_bytes;
        self.touch(caller, directory).await
    }

    /// Removes a name: its room goes to the record before it.
    pub(crate) async fn remove_name(
        &self,
        caller: &Caller,
        directory: &Rc<File>,
        place: &Place,
    ) -> Result<(), Errno> {
        {
            let mut data = place.buffer.data.borrow_mut();
            let all = records(&data).ok_or(Errno::Eio)?;
            let end = place.at + length(&data, place.at);
            // The first record of a block has none before it: it stays, with inode 0
            // (`nilfs_delete_entry`).
            let before = all.iter().rfind(|at| **at < place.at).copied();
            if let Some(before) = before {
                put_u16(&mut data, before + 8, (end - before) as u16);
            }
            put_u64(&mut data, place.at, 0);
            assert_records(&data);
        }
        self.dirty_data(directory, &place.buffer);
        self.touch(caller, directory).await
    }

    /// A name leads to another inode now.
    pub(crate) async fn set_name(
        &self,
        caller: &Caller,
        directory: &Rc<File>,
        place: &Place,
        file: &File,
    ) -> Result<(), Errno> {
        {
            let mut data = place.buffer.data.borrow_mut();
            put_u64(&mut data, place.at, file.number);
            data[place.at + 11] = kind_code(file.kind().unwrap_or(FileType::Regular));
        }
        self.dirty_data(directory, &place.buffer);
        self.touch(caller, directory).await
    }

    /// The first block of a new directory: `.` and `..`.
    pub(crate) async fn make_empty(&self, file: &Rc<File>, parent: u64) -> Result<(), Errno> {
        let mut block = vec![0; self.geometry.block_bytes as usize];
        let (first, rest) = (record_bytes(1), block.len() - record_bytes(1));
        put_u16(&mut block, 8, first as u16);
        write_record(&mut block, 0, file.number, b".", FileType::Directory);
        put_u16(&mut block, first + 8, rest as u16);
        write_record(&mut block, first, parent, b"..", FileType::Directory);
        assert_records(&block);
        self.put_data(file, 0, block).await?;
        file.inode.borrow_mut().size_bytes = self.geometry.block_bytes;
        Ok(())
    }

    /// True if there are no names but `.` and `..`.
    pub(crate) async fn is_empty_directory(&self, file: &File) -> Result<bool, Errno> {
        Ok(self.names(file).await?.is_empty())
    }
}

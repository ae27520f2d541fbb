//! A block device of plain bytes, without time: for tools, and for tests that cut its power.

use crate::contract::{BlockMedium, MediumError, Pending, WriteFlags};
use process::Process;
use random::Stream;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{pending, ready};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::rc::Rc;

type Block = Rc<[u8]>;

/// A write that a device was asked for; one of no blocks is a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bio {
    /// First block of the write.
    pub block: u64,
    /// Blocks that are written; 0 for a flush.
    pub blocks: u32,
    /// Flags it was submitted with.
    pub flags: WriteFlags,
    /// The process that submitted it.
    pub process: Process,
}

/// Blocks in memory; those never written are zero and take no room. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryMedium {
    block_bytes: usize,
    size_bytes: u64,
    blocks: RefCell<BTreeMap<u64, Block>>,
    /// What blocks held before writes that no flush has made durable, oldest first.
    volatile: RefCell<Vec<(u64, Option<Block>)>>,
    written_blocks: Cell<u64>,
    cut_after: Cell<Option<u64>>,
    is_cut: Cell<bool>,
    bios: RefCell<Vec<Bio>>,
    reads: RefCell<Vec<(u64, u32)>>,
}

impl MemoryMedium {
    /// A device of zeros.
    pub fn new(block_bytes: usize, size_bytes: u64) -> Self {
        Self {
            block_bytes,
            size_bytes,
            blocks: RefCell::default(),
            volatile: RefCell::default(),
            written_blocks: Cell::default(),
            cut_after: Cell::default(),
            is_cut: Cell::default(),
            bios: RefCell::default(),
            reads: RefCell::default(),
        }
    }

    /// A device with an image.
    pub fn load(block_bytes: usize, image: &mut impl Read) -> io::Result<Self> {
        let mut medium = Self::new(block_bytes, 0);
        let mut blocks = BTreeMap::new();
        loop {
            let mut block = vec![0; block_bytes];
            let mut filled = 0;
            // A reader may return less than was asked for before the end.
            while filled < block_bytes {
                let count = image.read(&mut block[filled..])?;
                if count == 0 {
                    break;
                }
                filled += count;
            }
            // Zeros are not stored, so an image of holes takes no room.
            if block.iter().any(|byte| *byte != 0) {
                blocks.insert(medium.size_bytes / block_bytes as u64, block.into());
            }
            medium.size_bytes += filled as u64;
            if filled < block_bytes {
                medium.blocks = RefCell::new(blocks);
                return Ok(medium);
            }
        }
    }

    /// Writes the whole device as an image.
    pub fn save(&self, to: &mut impl Write) -> io::Result<()> {
        let blocks = self.blocks.borrow();
        let zeros = vec![0; self.block_bytes];
        let block_bytes = self.block_bytes as u64;
        for block in 0..self.size_bytes.div_ceil(block_bytes) {
            let rest = self.size_bytes - block * block_bytes;
            let bytes = blocks.get(&block).map_or(&zeros[..], |block| block.as_ref());
            to.write_all(&bytes[..rest.min(block_bytes) as usize])?;
        }
        Ok(())
    }

    /// Numbers of the blocks that were ever written, in order; all others are zero.
    pub fn stored_blocks(&self) -> Vec<u64> {
        self.blocks.borrow().keys().copied().collect()
    }

    /// The bytes of one block.
    pub fn block(&self, block: u64) -> Vec<u8> {
        let blocks = self.blocks.borrow();
        blocks.get(&block).map_or_else(|| vec![0; self.block_bytes], |block| block.to_vec())
    }

    /// Replaces one block at once.
    ///
    /// # Panics
    /// If there are not as many bytes as a block has.
    pub fn set_block(&self, block: u64, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.block_bytes);
        self.blocks.borrow_mut().insert(block, bytes.into());
    }

    /// Blocks written up to now.
    pub fn written_blocks(&self) -> u64 {
        self.written_blocks.get()
    }

    /// The power fails after so many more blocks: the next one is half written, and no request after
    /// it is ever done.
    pub fn cut_power_after(&self, blocks: u64) {
        self.cut_after.set(Some(self.written_blocks.get() + blocks));
    }

    /// True after the power failed.
    pub fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// The device after the power came back. If a stream is given, each write that no flush has made
    /// durable is lost with even odds, as of a device with a write cache.
    ///
    /// Any subset of those writes may be left, and what is left was carried out in order. So a write
    /// that is kept hides the loss of an older one to the same block.
    #[must_use]
    pub fn after_cut(&self, lose: Option<&mut Stream>) -> Self {
        let mut blocks = self.blocks.borrow().clone();
        if let Some(stream) = lose {
            let volatile = self.volatile.borrow();
            // Blocks that a newer write has settled; and the half block that the cut tore.
            let (mut settled, mut torn_half) = (BTreeSet::new(), None);
            for (number, (block, before)) in volatile.iter().enumerate().rev() {
                // Drawn for settled blocks as well, so that one more write to a block does not
                // change what becomes of the others.
                let is_lost = stream.below(2) == 0;
                // The cut ends the transfer of the last write: its second half is whatever older
                // writes left.
                let is_torn = self.is_cut.get() && number + 1 == volatile.len();
                if settled.contains(block) {
                    continue;
                }
                if !is_lost && !is_torn {
                    settled.insert(*block);
                    continue;
                }
                if !is_lost {
                    torn_half = Some((*block, self.block(*block)));
                }
                match before {
                    Some(before) => blocks.insert(*block, before.clone()),
                    None => blocks.remove(block),
                };
            }
            if let Some((block, mut whole)) = torn_half {
                let half = self.block_bytes / 2;
                let zeros = vec![0; self.block_bytes];
                let old = blocks.get(&block).map_or(&zeros[..], |block| block.as_ref());
                whole[half..].copy_from_slice(&old[half..]);
                blocks.insert(block, whole.into());
            }
        }
        Self { blocks: RefCell::new(blocks), ..Self::new(self.block_bytes, self.size_bytes) }
    }

    /// Writes since the last call, in order.
    pub fn take_bios(&self) -> Vec<Bio> {
        self.bios.take()
    }

    /// Reads since the last call, in order: first block, blocks.
    pub fn take_reads(&self) -> Vec<(u64, u32)> {
        self.reads.take()
    }

    fn put(&self, block: u64, bytes: &[u8]) -> bool {
        let mut whole = bytes.to_vec();
        // The first half of the block is new, the second old, as a cut within a transfer leaves it.
        let cut = self.cut_after.get() == Some(self.written_blocks.get());
        if cut {
            let old = self.block(block);
            let half = self.block_bytes / 2;
            whole[half..].copy_from_slice(&old[half..]);
            self.is_cut.set(true);
        }
        let before = self.blocks.borrow_mut().insert(block, whole.into());
        self.volatile.borrow_mut().push((block, before));
        self.written_blocks.set(self.written_blocks.get() + 1);
        !cut
    }

    /// The blocks from one on, if the device has them all.
    fn checked(&self, first_block: u64, count: u32) -> Result<Range<u64>, MediumError> {
        let has = self.size_bytes / self.block_bytes as u64;
        let end = first_block.checked_add(count.into()).filter(|end| *end <= has);
        end.map(|end| first_block..end).ok_or(MediumError { block: first_block })
    }
}

impl BlockMedium for MemoryMedium {
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        if self.is_cut.get() {
            return Box::pin(pending());
        }
        // Memory takes no time, so that a scan of it is one poll.
        cancellation::check();
        self.reads.borrow_mut().push((first_block, blocks));
        let read = self.checked(first_block, blocks);
        Box::pin(ready(read.map(|blocks| blocks.flat_map(|block| self.block(block)).collect())))
    }

    fn read_ahead(&self, first_block: u64, blocks: u32) {
        self.reads.borrow_mut().push((first_block, blocks));
    }

    fn write(
        &self,
        first_block: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        if self.is_cut.get() {
            return Box::pin(pending());
        }
        cancellation::check();
        let count = (bytes.len() / self.block_bytes) as u32;
        let blocks = match self.checked(first_block, count) {
            Ok(blocks) => blocks,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        // A flush before the write makes all earlier ones durable.
        if flags.flushes_before {
            self.volatile.borrow_mut().clear();
        }
        self.bios.borrow_mut().push(Bio {
            block: first_block,
            blocks: count,
            flags,
            process: process::current(),
        });
        for (block, bytes) in blocks.clone().zip(bytes.chunks_exact(self.block_bytes)) {
            // The power failed within: the call never returns.
            if !self.put(block, bytes) {
                return Box::pin(pending());
            }
        }
        // Only these blocks: `REQ_FUA` says nothing of others.
        if flags.is_durable {
            let mut volatile = self.volatile.borrow_mut();
            volatile.retain(|(block, _)| !blocks.contains(block));
        }
        Box::pin(ready(Ok(Box::pin(ready(Ok(()))) as Pending<'static, ()>)))
    }

    fn flush(&self) -> Pending<'_, ()> {
        if self.is_cut.get() {
            return Box::pin(pending());
        }
        let flags = WriteFlags { flushes_before: true, ..WriteFlags::default() };
        let process = process::current();
        self.bios.borrow_mut().push(Bio { block: 0, blocks: 0, flags, process });
        self.volatile.borrow_mut().clear();
        Box::pin(ready(Ok(())))
    }
}

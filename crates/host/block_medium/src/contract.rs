//! The block device under a file system, as the file system sees it.

use shared_page::SharedPage;
use std::future::{Future, ready};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use thiserror::Error;

/// A read or write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the block device failed at block {block}")]
pub struct MediumError {
    /// First block of the request.
    pub block: u64,
}

/// How a write is to be carried out (`REQ_SYNC`, `REQ_PREFLUSH`, `REQ_FUA`).
#[allow(clippy::struct_excessive_bools, reason = "flags of a request, each of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// A task waits for it (`REQ_SYNC`).
    pub is_sync: bool,
    /// What was written before is durable before it begins.
    pub flushes_before: bool,
    /// It is durable when it is done.
    pub is_durable: bool,
    /// It comes past the page cache: another may follow closely, for which a scheduler may wait
    /// (`WRITE_ODIRECT` has no `REQ_NOIDLE`).
    pub is_direct: bool,
}

/// What waits for a request.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, MediumError>> + 'a>>;

/// A device of blocks. Each call is one bio: the blocks in it stand together.
///
/// A bio belongs to the process that runs when it is submitted ([`process::current`]), as in a kernel: a thread
/// of a file system submits as itself ([`process::run_as`]), a call of a process as that process.
pub trait BlockMedium {
    /// Bytes of a block, as the file system chose them (`sb_set_blocksize`): a multiple of 512.
    fn block_bytes(&self) -> usize;

    /// Bytes of the device.
    fn size_bytes(&self) -> u64;

    /// Most blocks that one bio may hold.
    fn bio_blocks_max(&self) -> u32 {
        // `BIO_MAX_PAGES`.
        256
    }

    /// Reads blocks that follow each other.
    fn read(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>>;

    /// Submits a read. The outer future waits until the queue takes the bio in, the inner one for the
    /// bytes, so that several bios can be under way.
    fn submit_read(&self, first_block: u64, blocks: u32) -> Pending<'_, Pending<'static, Vec<u8>>> {
        Box::pin(async move {
            // A device without time is done at once; the inner future only hands the bytes over.
            let bytes = self.read(first_block, blocks).await?;
            Ok(Box::pin(ready(Ok(bytes))) as Pending<'static, Vec<u8>>)
        })
    }

    /// Reads through the device's own buffers (`sb_bread`): blocks that were read ahead of are waited for,
    /// not read again. Pages of files and of metadata files have buffers of their own, and are read past
    /// these.
    fn read_buffers(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        self.read(first_block, blocks)
    }

    /// Submits reads into the device's own buffers, for which no task waits (`sb_breadahead`).
    fn read_ahead(&self, first_block: u64, blocks: u32) {
        // Nothing is kept: a later read asks the device itself.
        let _ = (first_block, blocks);
    }

    /// Submits a write of whole blocks. The outer future waits until the queue takes the bio in, the
    /// inner one until it is done.
    fn write(
        &self,
        first_block: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>>;

    /// The bytes of a block are also those of a page in memory, once the writes submitted so far are carried
    /// out. A device that holds them may lend them to the page. What is read, what takes time and what a
    /// power cut leaves are the same whether it does or not.
    fn keep_once(&self, block: u64, page: &Rc<SharedPage>) {
        // A hint: bytes that are kept twice are right, too.
        let _ = (block, page);
    }

    /// Waits until what was written is durable (`blkdev_issue_flush`).
    fn flush(&self) -> Pending<'_, ()>;

    /// Discards blocks: what they hold is not needed any more (`blkdev_issue_discard`).
    fn discard(&self, blocks: Range<u64>) {
        // A hint: a device may ignore it, and the bytes stay as they were.
        let _ = blocks;
    }
}

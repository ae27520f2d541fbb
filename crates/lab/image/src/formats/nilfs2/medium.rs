//! The bytes of an image as a block device that nothing is written to.

use crate::content::Content;
use block_medium::{BlockMedium, MediumError, Pending, WriteFlags};
use nilfs2::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock};
use std::future::ready;
use std::rc::Rc;

pub(super) const BLOCK_BYTES: usize = 4096;
/// A device that was cut short is believed to have been larger by so much at most.
const MISSING_BYTES_MAX: u64 = 4 << 30;

/// A read-only device. Blocks behind the end of an image that was cut short cannot be read.
pub(crate) struct DeviceMedium {
    content: Rc<Content>,
    /// Bytes of the device: those of the image, unless its superblock says that there were more.
    size_bytes: u64,
}

impl DeviceMedium {
    /// The device of an image, which is read as it is needed.
    pub(super) fn new(content: Rc<Content>) -> Self {
        let image_bytes = content.length();
        let mut medium = Self { content, size_bytes: image_bytes };
        if let Ok(superblock) = medium.superblock_at(SUPERBLOCK_OFFSET) {
            let most = image_bytes + MISSING_BYTES_MAX;
            // A damaged number must not make a device without end.
            medium.size_bytes = superblock.device_bytes.clamp(image_bytes, most);
        }
        assert!(medium.size_bytes >= image_bytes, "no byte of the image is behind the device");
        medium
    }

    /// Bytes of the image.
    pub(super) fn image_bytes(&self) -> u64 {
        self.content.length()
    }

    /// Both superblocks, or what is wrong with them.
    pub(super) fn superblocks(&self) -> [Result<Superblock, String>; 2] {
        let second = Superblock::second_offset(self.size_bytes);
        [SUPERBLOCK_OFFSET, second].map(|offset| self.superblock_at(offset))
    }

    /// One of the superblocks is sound.
    pub(super) fn has_superblock(&self) -> bool {
        self.superblocks().iter().any(Result::is_ok)
    }

    fn superblock_at(&self, offset: u64) -> Result<Superblock, String> {
        let mut raw = [0; SUPERBLOCK_BYTES];
        self.content
            .read_at(offset, &mut raw)
            .map_err(|_| "the image ends before it".to_owned())?;
        Superblock::decode(&raw)
    }
}

impl BlockMedium for DeviceMedium {
    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// One: a block that cannot be read takes no other along.
    fn bio_blocks_max(&self) -> u32 {
        1
    }

    fn read(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        // The device takes no time, so that a scan of it is one poll.
        cancellation::check();
        let mut bytes = vec![0; blocks as usize * BLOCK_BYTES];
        let offset = first_block.checked_mul(BLOCK_BYTES as u64);
        let read = offset.is_some_and(|offset| self.content.read_at(offset, &mut bytes).is_ok());
        let error = MediumError { block: first_block };
        Box::pin(ready(if read { Ok(bytes) } else { Err(error) }))
    }

    fn write(
        &self,
        first_block: u64,
        _: Vec<u8>,
        _: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        Box::pin(ready(Err(MediumError { block: first_block })))
    }

    fn flush(&self) -> Pending<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}

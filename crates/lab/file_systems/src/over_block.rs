//! The block device under a mount of JFFS2, by way of `block2mtd`.

use block2mtd::Block2Mtd;
use fs_api::Errno;
use mount::BlockPath;
use std::rc::Rc;

/// The block device under a mount of JFFS2.
pub struct OverBlock {
    /// The block device as an MTD.
    pub device: Rc<Block2Mtd>,
    /// The way to the block device.
    pub path: BlockPath,
    /// Name of the file system in messages.
    pub(crate) kind: &'static str,
}

impl OverBlock {
    /// The driver closes the block device.
    ///
    /// # Errors
    /// [`Errno::Eio`] if the device failed.
    pub(crate) async fn close(&self) -> Result<(), Errno> {
        // Only clean pages go; what was dirty has been written by the unmount.
        self.device.drop_pages();
        self.path.close(self.kind).await.map_err(|_| Errno::Eio)
    }
}

//! What a mount shows of itself: counters, blocks, findings.
//!
//! May use: `blocks`, `device`, `file_system`, `statistics`.

use crate::blocks::BlockInfo;
use crate::device::BlockPage;
use crate::file_system::Yaffs2;
use crate::statistics::{Finding, Statistics};

impl Yaffs2 {
    /// Counters since the mount.
    pub async fn statistics(&self) -> Statistics {
        self.device.lock().await.statistics
    }

    /// What is known of every block of the device, in order, and which of its chunks are in use.
    pub async fn block_map(&self) -> Vec<(BlockInfo, Vec<bool>)> {
        let device = self.device.lock().await;
        let mut map = Vec::new();
        for (block, info) in device.blocks.iter() {
            let pages = 0..device.pages_per_block;
            let used =
                pages.map(|page| device.blocks.is_used(device.chunk(BlockPage { block, page })));
            map.push((*info, used.collect()));
        }
        map
    }

    /// What was found amiss since the mount began; at most a thousand.
    pub async fn findings(&self) -> Vec<Finding> {
        self.device.lock().await.findings.clone()
    }
}

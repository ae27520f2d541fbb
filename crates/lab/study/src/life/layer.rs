//! A trace on a translation layer, over and over.

use super::stack::Stack;
use crate::StudyError;
use crate::replay::Replay;
use crate::requests::Requests;

/// The layer, and the trace.
pub(super) struct LayerStack<'a> {
    pub(super) replay: Replay,
    pub(super) requests: &'a Requests,
}

impl Stack for LayerStack<'_> {
    fn work(&mut self) -> Result<(), StudyError> {
        for one in &self.requests.requests {
            // A pass of a long trace takes minutes, and Ctrl-C must not wait for its end.
            cancellation::check();
            self.replay.serve(one.operation, one.offset_bytes, one.length_bytes)?;
        }
        Ok(())
    }

    fn host_bytes(&self) -> u64 {
        self.replay.host().write_bytes
    }

    fn cycles(&self) -> Vec<u32> {
        let chip = self.replay.ftl().flash().chip();
        (0..chip.geometry().blocks).map(|block| chip.erase_cycles(block)).collect()
    }

    fn wears(&self) -> Vec<bool> {
        let flash = self.replay.ftl().flash();
        let blocks = 0..flash.geometry().blocks;
        let mut wears: Vec<bool> = blocks.map(|block| !flash.chip().is_bad(block)).collect();
        // They would stay at the cycles of delivery, and so look like a spread that levelling
        // allows.
        for block in flash.reserve_list() {
            wears[block as usize] = false;
        }
        wears
    }

    fn threshold(&self) -> Option<u32> {
        self.replay.ftl().flash().wear_threshold()
    }

    fn age(&mut self, erases: &[u32]) {
        self.replay.age(erases);
    }
}

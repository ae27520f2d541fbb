//! Freeing nodes of the index in memory that were not used for a while.
//!
//! Source: `fs/ubifs/shrinker.c`. Above the engine: uses it and the state of the index.

use crate::engine::Engine;
use crate::mount::Ubifs;
use crate::tnc::{Tnc, ZnodeId};

/// Ages at which nodes go, nanoseconds: first old ones, then young ones, then all.
const AGES_NS: [u64; 3] = [20_000_000_000, 5_000_000_000, 0];
/// Nodes that are requested at a time (`SHRINK_BATCH`).
const BATCH: u64 = 128;

impl Engine {
    /// Frees clean subtrees from the root down, if their top was last used so long ago, until enough
    /// are free (`shrink_tnc`); returns how many nodes were freed.
    fn shrink_index(&self, wanted: u64, age_ns: u64) -> u64 {
        let now = self.sim.now();
        let mut tnc = self.tnc.borrow_mut();
        let mut freed = 0;
        let mut level: Vec<ZnodeId> = tnc.root.child.into_iter().collect();
        while !level.is_empty() && freed < wanted {
            let mut below = Vec::new();
            for id in level {
                let znode = tnc.get(id);
                if freed >= wanted {
                    break;
                }
                if !znode.is_dirty && now.saturating_sub(znode.used_ns) >= age_ns {
                    tnc.branch_to_mut(id).child = None;
                    freed += tnc.remove_subtree(id);
                } else if znode.level > 0 {
                    below.extend(znode.branches.iter().filter_map(|branch| branch.child));
                }
            }
            level = below;
        }
        freed
    }
}

impl Tnc {
    /// Nothing below a clean node is dirty.
    fn remove_subtree(&mut self, id: ZnodeId) -> u64 {
        let (mut rest, mut count) = (vec![id], 0);
        while let Some(id) = rest.pop() {
            let znode = self.remove(id);
            debug_assert!(!znode.is_dirty, "a dirty node has dirty ones above it");
            rest.extend(znode.branches.iter().filter_map(|branch| branch.child));
            count += 1;
        }
        count
    }
}

impl Ubifs {
    /// Frees memory for the kernel, as `drop_caches` does (`ubifs_shrinker`): twice as many nodes of the
    /// index are requested as could be freed, in batches. If a batch finds none left, a
    /// commit is started, which makes dirty ones clean. Returns how many were freed.
    pub fn shrink(&self) -> u64 {
        let engine = &self.engine;
        // A task that walks through the index holds its lock and must not lose nodes.
        // The kernel's shrinker only tries the lock: the task that frees memory may hold it already
        // (`shrink_tnc_trees`).
        let Some(_held) = engine.tnc_lock.try_lock() else { return 0 };
        let clean = || engine.tnc.borrow().clean;
        let freeable = clean();
        let (mut wanted, mut freed) = (2 * freeable, 0);
        // `do_shrink_slab` of `mm/vmscan.c`: a remainder below the batch is left for the next call.
        while wanted > 0 && (wanted >= BATCH || wanted >= freeable) {
            let batch = wanted.min(BATCH);
            if clean() == 0 {
                if engine.tnc.borrow().dirty > 0 {
                    engine.request_background_commit();
                }
                break;
            }
            let mut now = 0;
            for age_ns in AGES_NS {
                if now < batch {
                    now += engine.shrink_index(batch - now, age_ns);
                }
            }
            freed += now;
            wanted -= batch;
        }
        engine.count(|statistics| statistics.shrunk_nodes += freed);
        freed
    }
}

//! Letting go of index nodes in memory that were not used for a while.
//!
//! Source: `fs/ubifs/shrinker.c`.

use crate::engine::Engine;
use crate::mount::Ubifs;
use crate::tnc::ZnodeId;

/// Ages at which nodes go, nanoseconds: first old ones, then young ones, then all.
const OLD_NS: u64 = 20_000_000_000;
const YOUNG_NS: u64 = 5_000_000_000;

impl Engine {
    /// Clean nodes below which nothing is dirty, if they were last used so long ago
    /// (`shrink_tnc`); tells how many went.
    fn shrink_index(&self, age_ns: u64) -> u64 {
        let now = self.sim.now();
        let mut tnc = self.tnc.borrow_mut();
        let Some(root) = tnc.root.child else { return 0 };
        let mut order: Vec<ZnodeId> = Vec::new();
        let mut rest = vec![root];
        while let Some(id) = rest.pop() {
            order.push(id);
            let znode = tnc.get(id);
            if znode.level > 0 {
                rest.extend(znode.branches.iter().filter_map(|branch| branch.child));
            }
        }
        let mut freed = 0;
        // Children come behind their parent.
        for id in order.into_iter().rev() {
            let znode = tnc.get(id);
            let has_children =
                znode.level > 0 && znode.branches.iter().any(|branch| branch.child.is_some());
            if znode.is_dirty || has_children || now.saturating_sub(znode.used_ns) < age_ns {
                continue;
            }
            tnc.branch_to_mut(id).child = None;
            tnc.remove(id);
            freed += 1;
        }
        freed
    }
}

impl Ubifs {
    /// The kernel is short of memory and asks for nodes of the index (`ubifs_shrinker`): if none is
    /// clean, a commit is started, which makes some so. Tells how many went.
    pub fn shrink(&self, nodes: u64) -> u64 {
        let engine = &self.engine;
        // Whoever walks through the index must not lose it.
        let Some(_held) = engine.tnc_lock.try_lock() else { return 0 };
        let mut freed = 0;
        for age_ns in [OLD_NS, YOUNG_NS, 0] {
            if freed < nodes {
                freed += engine.shrink_index(age_ns);
            }
        }
        // The kernel asks again until nothing is left to free.
        if engine.tnc.borrow().clean == 0 && engine.tnc.borrow().dirty > 0 {
            engine.request_background_commit();
        }
        engine.count(|statistics| statistics.shrunk_nodes += freed);
        freed
    }
}

//! A lock for each logical block that is in use (`ltree_lookup` of `drivers/mtd/ubi/eba.c`). Uses numbers
//! only.

use crate::numbers::LebAddress;
use sim::{RwLock, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Idle locks are forgotten when there are more than this.
const IDLE_MAX: usize = 64;

/// Locks by logical block.
pub(crate) struct LebLocks {
    sim: Sim,
    locks: RefCell<BTreeMap<LebAddress, Rc<RwLock<()>>>>,
}

/// True if a call holds the lock or waits for it; the map has one reference more.
fn is_in_use(lock: &Rc<RwLock<()>>) -> bool {
    Rc::strong_count(lock) > 1
}

impl LebLocks {
    pub(crate) fn new(sim: &Sim) -> Self {
        Self { sim: sim.clone(), locks: RefCell::default() }
    }

    /// The lock of a logical block.
    pub(crate) fn of(&self, address: LebAddress) -> Rc<RwLock<()>> {
        let mut locks = self.locks.borrow_mut();
        if let Some(lock) = locks.get(&address) {
            return lock.clone();
        }
        // The kernel frees each at its last user; collecting them now and then saves the
        // bookkeeping, and order does not depend on it.
        if locks.len() > IDLE_MAX {
            locks.retain(|_, lock| is_in_use(lock));
        }
        let lock = Rc::new(RwLock::new(&self.sim, ()));
        locks.insert(address, lock.clone());
        lock
    }

    /// Logical blocks in use, as the kernel's tree of locks has them.
    pub(crate) fn len(&self) -> usize {
        self.locks.borrow().values().filter(|lock| is_in_use(lock)).count()
    }
}

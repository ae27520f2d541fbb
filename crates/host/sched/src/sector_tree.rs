//! Requests in the order of their sectors (`elv_rb_*` of `block/elevator.c`).

use crate::{RequestId, Requests};
use std::collections::BTreeMap;

// Sector and serial number: equal sectors keep the order of their insertion, as `elv_rb_add` of 3.4
// does.
type Key = (u64, u64);

/// Requests sorted by first sector; equal sectors stand in the order of insertion.
///
/// A front merge moves a request's first sector while it is in the tree: the tree remembers under
/// which sector it was inserted, and [`SectorTree::remove`] goes by that.
#[derive(Clone, Debug, Default)]
pub struct SectorTree {
    by_sector: BTreeMap<Key, RequestId>,
    keys: Vec<Key>,
    inserted: u64,
}

impl SectorTree {
    /// Inserts a request under its first sector.
    pub fn insert(&mut self, requests: &Requests, id: RequestId) {
        let key = (requests[id].sector(), self.inserted);
        self.inserted += 1;
        if self.keys.len() <= id.index() {
            self.keys.resize(id.index() + 1, (0, 0));
        }
        debug_assert!(
            self.by_sector.get(&self.keys[id.index()]) != Some(&id),
            "a request is in a tree once"
        );
        self.keys[id.index()] = key;
        self.by_sector.insert(key, id);
    }

    /// Takes a request, which is in the tree, out.
    // By the key of the insertion: a front merge has changed the request's sector by now.
    pub fn remove(&mut self, id: RequestId) {
        let removed = self.by_sector.remove(&self.keys[id.index()]);
        debug_assert_eq!(removed, Some(id), "only what is in the tree is taken out");
    }

    /// The first inserted of the requests that start at `sector`.
    pub fn find(&self, sector: u64) -> Option<RequestId> {
        self.by_sector.range((sector, 0)..=(sector, u64::MAX)).next().map(|(_, id)| *id)
    }

    /// The request after `id` in the order of sectors (`rb_next`).
    pub fn next(&self, id: RequestId) -> Option<RequestId> {
        let (sector, order) = self.keys[id.index()];
        self.by_sector.range((sector, order + 1)..).next().map(|(_, id)| *id)
    }

    /// The request before `id` in the order of sectors (`rb_prev`).
    pub fn previous(&self, id: RequestId) -> Option<RequestId> {
        self.by_sector.range(..self.keys[id.index()]).next_back().map(|(_, id)| *id)
    }

    /// The request with the lowest sector.
    pub fn first(&self) -> Option<RequestId> {
        self.by_sector.first_key_value().map(|(_, id)| *id)
    }

    /// The request at or after `sector` with the lowest sector.
    pub fn at_or_after(&self, sector: u64) -> Option<RequestId> {
        self.by_sector.range((sector, 0)..).next().map(|(_, id)| *id)
    }

    /// Whether a request is in the tree.
    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.keys.get(id.index()).is_some_and(|key| self.by_sector.get(key) == Some(&id))
    }

    /// Checks that each request stands under its first sector.
    ///
    /// # Panics
    /// A request stands under another sector.
    pub(crate) fn audit(&self, requests: &Requests) {
        for ((sector, _), id) in &self.by_sector {
            assert_eq!(*sector, requests[*id].sector(), "a request stands under its first sector");
        }
    }

    /// Requests in the tree.
    pub fn len(&self) -> usize {
        self.by_sector.len()
    }

    /// Bytes held: keys by request, and a leaf entry for each request in the tree.
    pub fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<Key>()
            + self.by_sector.len() * (size_of::<Key>() + size_of::<RequestId>())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.by_sector.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::SectorTree;
    use crate::tests::panics_with;
    use crate::{Bio, Class, Direction, Request, RequestId, Requests};

    #[test]
    fn every_broken_membership_is_seen() {
        let mut requests = Requests::default();
        let bio = Bio {
            pid: 1,
            direction: Direction::Read,
            sync: true,
            noidle: false,
            class: Class::BestEffort,
            level: 4,
            sector: 8,
            sectors: 8,
        };
        let id = requests.add(Request { sorted: true, ..Request::new(bio) });
        let mut tree = SectorTree::default();
        tree.insert(&requests, id);
        panics_with("a request is in a tree once", || tree.clone().insert(&requests, id));
        assert!(tree.contains(id));
        tree.audit(&requests);
        requests[id].bio.sector = 7;
        panics_with("a request stands under its first sector", || tree.audit(&requests));
        tree.remove(id);
        assert!(!tree.contains(id));
        panics_with("only what is in the tree is taken out", || tree.remove(id));
        requests.remove(id);
        panics_with("a request ends once", || requests.remove(RequestId(0)));
    }
}

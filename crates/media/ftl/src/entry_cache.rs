//! A cache of map entries with plain or segmented LRU replacement.
//!
//! Segmented: a new entry enters the probationary segment and moves to the protected one, at most
//! half of the cache, when it is used again; victims come from the probationary segment first.
//! Source: Karedla, Love, Wherry, "Caching strategies to improve disk system performance",
//! IEEE Computer 27(3), 1994, as DFTL uses it.

const NONE: u32 = u32::MAX;

/// Which logical pages have their map entry in RAM, and which of these are dirty.
#[derive(Clone, Debug)]
pub(crate) struct EntryCache {
    /// Slot of a logical page, or `NONE`.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    unused: Vec<u32>,
    lists: [List; 2],
    protected_max: u32,
    capacity: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    lpn: u32,
    older: u32,
    newer: u32,
    list: u8,
    dirty: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    length: u32,
}

const EMPTY: List = List { oldest: NONE, newest: NONE, length: 0 };
const PROBATIONARY: u8 = 0;
const PROTECTED: u8 = 1;

impl EntryCache {
    pub(crate) fn new(logical_pages: u32, capacity: u32, segmented: bool) -> Self {
        Self {
            slot_of: vec![NONE; logical_pages as usize],
            slots: Vec::new(),
            unused: Vec::new(),
            lists: [EMPTY; 2],
            protected_max: if segmented { capacity / 2 } else { 0 },
            capacity,
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn clear(&mut self) {
        self.slot_of.fill(NONE);
        self.slots.clear();
        self.unused.clear();
        self.lists = [EMPTY; 2];
    }

    pub(crate) fn contains(&self, lpn: u32) -> bool {
        self.slot_of[lpn as usize] != NONE
    }

    /// Marks an entry as used; false if it is not cached.
    pub(crate) fn touch(&mut self, lpn: u32) -> bool {
        let slot = self.slot_of[lpn as usize];
        if slot == NONE {
            return false;
        }
        self.unlink(slot);
        // Plain LRU is the probationary list alone.
        if self.protected_max == 0 {
            self.link(slot, PROBATIONARY);
            return true;
        }
        self.link(slot, PROTECTED);
        // The oldest protected entry is demoted, not evicted: it gets a second chance on the other
        // list.
        if self.lists[PROTECTED as usize].length > self.protected_max {
            let demoted = self.lists[PROTECTED as usize].oldest;
            self.unlink(demoted);
            self.link(demoted, PROBATIONARY);
        }
        true
    }

    /// Adds a clean entry; the caller has made room.
    pub(crate) fn insert(&mut self, lpn: u32) {
        if self.touch(lpn) {
            return;
        }
        let new = Slot { lpn, older: NONE, newer: NONE, list: PROBATIONARY, dirty: false };
        debug_assert!(self.cached() < self.capacity, "the caller has made room");
        let slot = if let Some(slot) = self.unused.pop() {
            self.slots[slot as usize] = new;
            slot
        } else {
            self.slots.push(new);
            self.slots.len() as u32 - 1
        };
        self.slot_of[lpn as usize] = slot;
        self.link(slot, PROBATIONARY);
    }

    pub(crate) fn remove(&mut self, lpn: u32) {
        debug_assert!(self.contains(lpn), "only cached entries are evicted");
        debug_assert!(!self.is_dirty(lpn), "a dirty entry is written before it is evicted");
        let slot = std::mem::replace(&mut self.slot_of[lpn as usize], NONE);
        self.unlink(slot);
        self.unused.push(slot);
    }

    /// The entry to evict next if the cache is full.
    pub(crate) fn victim(&self) -> Option<u32> {
        let [probationary, protected] = self.lists;
        if probationary.length + protected.length < self.capacity {
            return None;
        }
        // Only when the probationary list is empty is a protected entry given up.
        let slot = if probationary.length > 0 { probationary.oldest } else { protected.oldest };
        Some(self.slots[slot as usize].lpn)
    }

    pub(crate) fn is_dirty(&self, lpn: u32) -> bool {
        self.slots[self.slot_of[lpn as usize] as usize].dirty
    }

    pub(crate) fn set_dirty(&mut self, lpn: u32, dirty: bool) {
        let slot = self.slot_of[lpn as usize];
        self.slots[slot as usize].dirty = dirty;
    }

    /// Marks all cached entries of `first..first + count` as clean.
    pub(crate) fn clean_range(&mut self, first: u32, count: u32) {
        let end = (first + count).min(self.slot_of.len() as u32);
        for lpn in first..end {
            if self.contains(lpn) {
                self.set_dirty(lpn, false);
            }
        }
    }

    /// Cached pages, next victim first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter().flat_map(move |list| {
            let linked = |slot: u32| (slot != NONE).then_some(slot);
            std::iter::successors(linked(list.oldest), move |slot| {
                linked(self.slots[*slot as usize].newer)
            })
            .map(|slot| self.slots[slot as usize].lpn)
        })
    }

    fn link(&mut self, slot: u32, list: u8) {
        let ends = &mut self.lists[list as usize];
        let entry = &mut self.slots[slot as usize];
        (entry.older, entry.newer, entry.list) = (ends.newest, NONE, list);
        let previous = std::mem::replace(&mut ends.newest, slot);
        ends.length += 1;
        match previous {
            NONE => ends.oldest = slot,
            previous => self.slots[previous as usize].newer = slot,
        }
    }

    fn cached(&self) -> u32 {
        self.lists.iter().map(|list| list.length).sum()
    }

    /// Checks lists, slots and sums, in debug builds.
    pub(crate) fn audit(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut seen = 0;
        for lpn in self.entries() {
            let slot = self.slot_of[lpn as usize];
            assert!(
                slot != NONE && self.slots[slot as usize].lpn == lpn,
                "page {lpn} is listed and its slot is another's"
            );
            seen += 1;
        }
        assert_eq!(seen, self.cached(), "lists are as long as they say");
        assert_eq!(seen as usize + self.unused.len(), self.slots.len(), "every slot has a use");
        assert!(seen <= self.capacity, "the cache holds no more than it may");
        assert!(
            self.lists[PROTECTED as usize].length <= self.protected_max,
            "the protected segment holds no more than it may"
        );
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { older, newer, list, .. } = self.slots[slot as usize];
        let ends = &mut self.lists[list as usize];
        debug_assert!(
            if older == NONE {
                ends.oldest == slot
            } else {
                self.slots[older as usize].newer == slot
            },
            "the older entry leads to the one that leaves"
        );
        ends.length -= 1;
        match older {
            NONE => ends.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.lists[list as usize].newest = older,
            newer => self.slots[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryCache, PROTECTED};
    use crate::tests::panics_with;

    /// What breaks a rule.
    type Break = fn(&mut EntryCache);

    /// Pages 0 to 3 of 8 in a cache of four, page 2 dirty and page 1 protected.
    fn cache() -> EntryCache {
        let mut cache = EntryCache::new(8, 4, true);
        (0..4).for_each(|lpn| cache.insert(lpn));
        cache.set_dirty(2, true);
        assert!(cache.touch(1));
        cache.audit();
        cache
    }

    #[test]
    fn every_broken_rule_is_seen() {
        let broken: [(&str, Break); 9] = [
            ("the caller has made room", |cache| cache.insert(5)),
            ("only cached entries are evicted", |cache| cache.remove(5)),
            ("a dirty entry is written before", |cache| cache.remove(2)),
            ("the older entry leads to the one that leaves", |cache| {
                cache.slots[2].older = 1;
                cache.set_dirty(2, false);
                cache.remove(2);
            }),
            ("its slot is another's", |cache| {
                cache.slot_of.swap(0, 3);
                cache.audit();
            }),
            ("lists are as long as they say", |cache| {
                cache.lists[0].length += 1;
                cache.audit();
            }),
            ("every slot has a use", |cache| {
                cache.unused.push(3);
                cache.audit();
            }),
            ("the cache holds no more than it may", |cache| {
                cache.capacity = 3;
                cache.audit();
            }),
            ("the protected segment holds no more", |cache| {
                assert_eq!(cache.lists[PROTECTED as usize].length, 1);
                cache.protected_max = 0;
                cache.audit();
            }),
        ];
        for (message, break_it) in broken {
            panics_with(message, || break_it(&mut cache()));
        }
    }
}

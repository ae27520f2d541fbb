//! Categories of eraseblocks, so that one for a purpose is found at once.
//!
//! Source: `fs/ubifs/lprops.c`. Three categories are heaps of limited size, the others lists. A state:
//! uses formats only.

use crate::layout::Layout;
use crate::lpt_format::Properties;
use crate::position::MainIndex;

/// Entries of a heap (`LPT_HEAP_SZ`).
const HEAP_ENTRIES: usize = 256;

/// Category of an eraseblock: what it can be used for next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Category {
    #[default]
    None,
    /// Has more dirty than free space, enough to be worth collecting.
    Dirty,
    /// Of the index, with room for a node.
    DirtyIndex,
    /// Not of the index, with free space.
    Free,
    Empty,
    /// Nothing in it is in use.
    Freeable,
    /// Of the index, and nothing in it is in use.
    FreeableIndex,
}

const HEAPS: [Category; 3] = [Category::Dirty, Category::DirtyIndex, Category::Free];

/// Which of the heaps, in the order of [`HEAPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heap(usize);

impl Heap {
    fn of(category: Category) -> Option<Self> {
        HEAPS.iter().position(|heap| *heap == category).map(Self)
    }
}

/// Sums over the properties of all eraseblocks of the main area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceSums {
    pub(crate) empty_lebs: u32,
    pub(crate) taken_empty_lebs: u32,
    pub(crate) index_lebs: u32,
    pub(crate) free: u64,
    pub(crate) dirty: u64,
    pub(crate) used: u64,
    pub(crate) dead: u64,
    pub(crate) dark: u64,
}

impl SpaceSums {
    /// Counts an eraseblock of the main area (`ubifs_change_lp`).
    pub(crate) fn add(&mut self, properties: Properties, is_taken: bool, layout: &Layout) {
        let Properties { free, dirty, is_index } = properties;
        if free == layout.leb_bytes {
            self.empty_lebs += 1;
            self.taken_empty_lebs += u32::from(is_taken);
        }
        self.free += u64::from(free);
        self.dirty += u64::from(dirty);
        // Sums of used, dead and dark space are those of data only.
        if is_index {
            self.index_lebs += 1;
            return;
        }
        let space = free + dirty;
        if space < layout.dead_watermark {
            self.dead += u64::from(space);
        } else {
            self.dark += u64::from(layout.dark(space));
        }
        self.used += u64::from(layout.leb_bytes.saturating_sub(space));
    }

    /// Free and dirty space, which collecting makes free, reaches what a single node may need.
    pub(crate) fn allow_writing(&self, dark_watermark: u32) -> bool {
        self.free.saturating_add(self.dirty) >= u64::from(dark_watermark)
    }
}

/// An eraseblock of the main area whose properties are in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leb {
    pub(crate) properties: Properties,
    /// In use by a head, a commit or the collector: it is in no category.
    pub(crate) is_taken: bool,
    pub(crate) category: Category,
    heap_position: usize,
}

/// A change of properties; what is none stays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) free: Option<u32>,
    pub(crate) dirty: Option<u32>,
    pub(crate) is_index: Option<bool>,
    pub(crate) is_taken: Option<bool>,
}

impl Change {
    pub(crate) const TAKE: Self =
        Self { free: None, dirty: None, is_index: None, is_taken: Some(true) };
    pub(crate) const RETURN: Self =
        Self { free: None, dirty: None, is_index: None, is_taken: Some(false) };
}

/// All eraseblocks of the main area, numbered from its beginning, with their categories and sums.
#[derive(Default)]
pub(crate) struct Lebs {
    pub(crate) all: Vec<Leb>,
    heaps: [Vec<MainIndex>; 3],
    /// Lists; the newest entry is the last.
    empty: Vec<MainIndex>,
    freeable: Vec<MainIndex>,
    freeable_index: Vec<MainIndex>,
    none: Vec<MainIndex>,
    pub(crate) sums: SpaceSums,
}

impl Lebs {
    pub(crate) fn new(count: u32) -> Self {
        Self { all: vec![Leb::default(); count as usize], ..Self::default() }
    }

    pub(crate) fn get(&self, number: MainIndex) -> &Leb {
        &self.all[number.index()]
    }

    /// The heap of a category, the best first.
    pub(crate) fn heap(&self, category: Category) -> &[MainIndex] {
        Heap::of(category).map_or(&[], |heap| &self.heaps[heap.0])
    }

    /// The newest entry of a list is the last.
    pub(crate) fn list(&self, category: Category) -> &[MainIndex] {
        match category {
            Category::Empty => &self.empty,
            Category::Freeable => &self.freeable,
            Category::FreeableIndex => &self.freeable_index,
            _ => &self.none,
        }
    }

    /// Whether an eraseblock is in the heap or the list of its category, and in the place that it knows.
    pub(crate) fn is_listed(&self, number: MainIndex) -> bool {
        let Leb { category, heap_position, .. } = *self.get(number);
        if HEAPS.contains(&category) {
            return self.heap(category).get(heap_position) == Some(&number);
        }
        self.list(category).contains(&number)
    }

    /// Whether no entry of a heap ranks above the one that it hangs from.
    pub(crate) fn are_heaps_ordered(&self) -> bool {
        (0..HEAPS.len()).map(Heap).all(|heap| {
            let ranks: Vec<u32> =
                self.heaps[heap.0].iter().map(|number| self.rank(heap, *number)).collect();
            (1..ranks.len()).all(|at| ranks[(at - 1) / 2] >= ranks[at])
        })
    }

    pub(crate) fn is_heap_full(&self, category: Category) -> bool {
        self.heap(category).len() >= HEAP_ENTRIES
    }

    fn list_mut(&mut self, category: Category) -> &mut Vec<MainIndex> {
        match category {
            Category::Empty => &mut self.empty,
            Category::Freeable => &mut self.freeable,
            Category::FreeableIndex => &mut self.freeable_index,
            _ => &mut self.none,
        }
    }

    pub(crate) fn categorise(leb: &Leb, layout: &Layout) -> Category {
        let Properties { free, dirty, is_index } = leb.properties;
        if leb.is_taken {
            Category::None
        } else if free == layout.leb_bytes {
            Category::Empty
        } else if free + dirty == layout.leb_bytes {
            if is_index { Category::FreeableIndex } else { Category::Freeable }
        // Sums of used, dead and dark space are those of data only; the index has its own budget
        // (`ubifs_change_lp`).
        } else if is_index {
            let has_room = free + dirty >= layout.min_index_node;
            if has_room { Category::DirtyIndex } else { Category::None }
        // Collection gains the dirty space, a journal head the free space: the larger decides
        // (`ubifs_categorize_lprops`).
        } else if dirty >= layout.dead_watermark && dirty > free {
            Category::Dirty
        } else if free > 0 {
            Category::Free
        } else {
            Category::None
        }
    }

    /// What the heap of a category is ordered by.
    fn rank(&self, heap: Heap, number: MainIndex) -> u32 {
        let Properties { free, dirty, .. } = self.get(number).properties;
        match HEAPS[heap.0] {
            Category::Free => free,
            Category::DirtyIndex => free + dirty,
            _ => dirty,
        }
    }

    fn place(&mut self, heap: Heap, position: usize, number: MainIndex) {
        self.heaps[heap.0][position] = number;
        self.all[number.index()].heap_position = position;
    }

    fn move_up(&mut self, heap: Heap, number: MainIndex) {
        let rank = self.rank(heap, number);
        let mut position = self.get(number).heap_position;
        while position > 0 {
            let above = (position - 1) / 2;
            let other = self.heaps[heap.0][above];
            // Equal ranks keep their order, as in `move_up_lpt_heap`: the order decides which
            // eraseblock is used next.
            if self.rank(heap, other) >= rank {
                return;
            }
            self.place(heap, position, other);
            self.place(heap, above, number);
            position = above;
        }
    }

    fn adjust(&mut self, heap: Heap, number: MainIndex) {
        let before = self.get(number).heap_position;
        self.move_up(heap, number);
        let mut position = self.get(number).heap_position;
        if position != before {
            return;
        }
        let rank = self.rank(heap, number);
        loop {
            let (left, right) = (position * 2 + 1, position * 2 + 2);
            let at = |position: usize| self.heaps[heap.0].get(position).copied();
            let Some(left_number) = at(left) else { return };
            let left_rank = self.rank(heap, left_number);
            let right_rank = at(right).map(|number| self.rank(heap, number));
            let below = if right_rank.is_some_and(|right_rank| right_rank > left_rank) {
                right
            } else {
                left
            };
            let other = self.heaps[heap.0][below];
            if self.rank(heap, other) <= rank {
                return;
            }
            self.place(heap, position, other);
            self.place(heap, below, number);
            position = below;
        }
    }

    /// Puts an eraseblock into a heap; false if that is full and it is not better than the entry it
    /// is compared with.
    fn add_to_heap(&mut self, heap: Heap, number: MainIndex) -> bool {
        if self.heaps[heap.0].len() < HEAP_ENTRIES {
            self.heaps[heap.0].push(number);
            self.all[number.index()].heap_position = self.heaps[heap.0].len() - 1;
        } else {
            // The kernel takes an entry of the lower half by the address of the newcomer.
            const LOWER: usize = HEAP_ENTRIES / 2 - 1;
            let position = (number.index() & LOWER) + LOWER;
            let other = self.heaps[heap.0][position];
            if self.rank(heap, number) <= self.rank(heap, other) {
                return false;
            }
            self.all[other.index()].category = Category::None;
            self.none.push(other);
            self.place(heap, position, number);
        }
        debug_assert!(self.heaps[heap.0].len() <= HEAP_ENTRIES, "the heap is of limited size");
        self.move_up(heap, number);
        true
    }

    pub(crate) fn add(&mut self, number: MainIndex, category: Category) {
        let mut category = category;
        match Heap::of(category) {
            Some(heap) => {
                if !self.add_to_heap(heap, number) {
                    category = Category::None;
                    self.none.push(number);
                }
            }
            None => self.list_mut(category).push(number),
        }
        self.all[number.index()].category = category;
    }

    fn remove(&mut self, number: MainIndex) {
        let Leb { category, heap_position, .. } = *self.get(number);
        if let Some(heap) = Heap::of(category) {
            debug_assert_eq!(self.heaps[heap.0][heap_position], number, "a heap knows its places");
            let last = self.heaps[heap.0].pop().expect("the eraseblock is in it");
            if heap_position < self.heaps[heap.0].len() {
                self.place(heap, heap_position, last);
                self.adjust(heap, last);
            }
            return;
        }
        let list = self.list_mut(category);
        let at = list.iter().rposition(|other| *other == number);
        debug_assert!(at.is_some(), "the eraseblock is in the list of its category {category:?}");
        if let Some(at) = at {
            list.remove(at);
        }
    }

    /// An eraseblock fell off a full heap; there may be room again (`ubifs_ensure_cat`).
    pub(crate) fn ensure_category(&mut self, number: MainIndex, layout: &Layout) {
        if self.get(number).category != Category::None {
            return;
        }
        let category = Self::categorise(self.get(number), layout);
        if category != Category::None {
            self.remove(number);
            self.add(number, category);
        }
    }

    fn account(&mut self, number: MainIndex, layout: &Layout, adds: bool) {
        let leb = *self.get(number);
        let sums = &mut self.sums;
        let count32 = |sum: &mut u32| *sum = if adds { *sum + 1 } else { sum.saturating_sub(1) };
        let count = |sum: &mut u64, bytes: u32| {
            *sum = if adds { *sum + u64::from(bytes) } else { sum.saturating_sub(bytes.into()) };
        };
        let Properties { free, dirty, is_index } = leb.properties;
        if free == layout.leb_bytes {
            count32(&mut sums.empty_lebs);
            if leb.is_taken {
                count32(&mut sums.taken_empty_lebs);
            }
        }
        count(&mut sums.free, free);
        count(&mut sums.dirty, dirty);
        if is_index {
            count32(&mut sums.index_lebs);
            return;
        }
        let space = free + dirty;
        if space < layout.dead_watermark {
            count(&mut sums.dead, space);
        } else {
            count(&mut sums.dark, layout.dark(space));
        }
        count(&mut sums.used, layout.leb_bytes.saturating_sub(space));
    }

    /// The only place where properties change (`ubifs_change_lp`).
    pub(crate) fn change(&mut self, number: MainIndex, change: Change, layout: &Layout) {
        debug_assert!(
            change.free.is_none_or(|free| free <= layout.leb_bytes),
            "free space {change:?} fits the eraseblock"
        );
        self.account(number, layout, false);
        let leb = &mut self.all[number.index()];
        if let Some(free) = change.free {
            // The LPT stores counts in units of eight bytes.
            leb.properties.free = free.next_multiple_of(8);
        }
        if let Some(dirty) = change.dirty {
            leb.properties.dirty = dirty.next_multiple_of(8);
        }
        leb.properties.is_index = change.is_index.unwrap_or(leb.properties.is_index);
        leb.is_taken = change.is_taken.unwrap_or(leb.is_taken);
        self.account(number, layout, true);
        let (old, new) = (self.get(number).category, Self::categorise(self.get(number), layout));
        if old != new {
            self.remove(number);
            self.add(number, new);
        } else if let Some(heap) = Heap::of(new) {
            self.adjust(heap, number);
        }
    }

    /// Eraseblocks that can be had for the index or for data without collecting: empty, freeable, and
    /// those of the index that wait for the end of a commit; less what is taken.
    pub(crate) fn available_lebs(&self, waiting: u32) -> i64 {
        i64::from(self.sums.empty_lebs) + i64::from(self.freeable.len() as u32) + i64::from(waiting)
            - i64::from(self.sums.taken_empty_lebs)
    }
}

#[cfg(test)]
mod tests {
    use super::SpaceSums;

    /// `check_free_space` of `super.c`: less than the dark watermark is too little.
    #[test]
    fn less_than_the_dark_watermark_does_not_allow_writing() {
        for (free, dirty, is_enough) in [
            (0, 0, false),
            (4096, 2047, false),
            (4096, 2048, true),
            (0, 6144, true),
            (6144, 0, true),
        ] {
            let sums = SpaceSums { free, dirty, ..SpaceSums::default() };
            assert_eq!(sums.allow_writing(6144), is_enough, "{free} free, {dirty} dirty");
        }
    }
}

//! Which pages to read when a process misses one, or comes to a marked one.
//!
//! Source: `ondemand_readahead` and its helpers of `mm/readahead.c`, Linux 3.4. The look for pages
//! that a stream left behind came with 2.6.31. Of the hints (`fadvise`, `madvise`) only
//! `POSIX_FADV_RANDOM` is modelled, as since 2.6.34 (`FMODE_RANDOM`). The limit by free memory is not.

use crate::page_tree::PageTree;

/// Pages to read: `count` from `first` on. No call has asked for the last `ahead` of them yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first page of the window.
    pub first: u64,
    /// Pages of the window.
    pub count: u64,
    /// Pages read ahead; the first of them is marked. Zero marks none.
    pub ahead: u64,
}

/// The read-ahead of an open file (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAhead {
    start: u64,
    size: u64,
    ahead: u64,
    /// Page of the last byte read; none before the first read.
    previous: Option<u64>,
    /// `POSIX_FADV_RANDOM`: what is asked for is read, and no more.
    is_random: bool,
}

/// What the read-ahead looks at besides its own state.
pub(crate) struct Request<'a> {
    pub(crate) pages: &'a PageTree,
    /// Page that is missing, or marked.
    pub(crate) index: u64,
    /// Pages that the rest of the call wants.
    pub(crate) wanted: u64,
    /// Largest window, in pages (`read_ahead_kb`).
    pub(crate) most: u64,
    /// The page is there and marked.
    pub(crate) is_marked: bool,
    /// The kernel looks for traces of a stream in the cache.
    pub(crate) looks_back: bool,
}

impl ReadAhead {
    /// The state after `POSIX_FADV_RANDOM`.
    pub fn random() -> Self {
        Self { is_random: true, ..Self::default() }
    }

    /// A call read up to this page.
    pub(crate) fn read_to(&mut self, page: u64) {
        self.previous = Some(page);
    }

    /// The pages to read now; none if a marker turns out to lead nowhere.
    pub(crate) fn plan(&mut self, request: &Request<'_>) -> Option<Window> {
        let Request { index, wanted, most, .. } = *request;
        // Read as one piece, however large (`force_page_cache_readahead`); nothing is marked, so no window
        // follows.
        if self.is_random {
            return Some(Window { first: index, count: wanted, ahead: 0 });
        }
        // A fresh state is zero, so its window "ends" at page 0; that case is the start of the file.
        let is_expected =
            // The marker, or the page after the window: a process that reads in order comes to one
            // of both.
            index == self.start + self.size - self.ahead || index == self.start + self.size;
        let follows = match self.previous {
            Some(previous) => index == previous || index == previous + 1,
            None => index == 0,
        };
        if index == 0 {
            self.begin(index, wanted, most);
        } else if is_expected {
            // The window follows the last one, whatever was asked for, and grows.
            self.start += self.size;
            self.size = next_size(self.size, most);
            self.ahead = self.size;
        } else if request.is_marked {
            // The state belongs to another stream; the next hole in the cache shows where this
            // one's window ends.
            let hole = index + 1 + request.pages.present_from(index + 1, most);
            // More pages in the cache than a window: nothing to read for a while.
            if hole - index > most {
                return None;
            }
            self.start = hole;
            self.size = next_size(hole - index + wanted, most);
            self.ahead = self.size;
        } else if wanted > most || follows {
            // Large, or next to the last read: the beginning of a stream.
            self.begin(index, wanted, most);
        } else {
            let mut history =
                if request.looks_back { request.pages.present_before(index, most) } else { 0 };
            // A random read is read as it is, and leaves the state alone.
            if history == 0 {
                return Some(Window { first: index, count: wanted, ahead: 0 });
            }
            // A run that reaches back to the file's beginning is a stream from its start
            // (`try_context_readahead`).
            if history >= index {
                history *= 2;
            }
            self.start = index;
            self.size = first_size(history + wanted, most);
            self.ahead = self.size;
        }
        // A window whose first page is its own marker is joined with the next one at once.
        if index == self.start && self.size == self.ahead {
            self.ahead = next_size(self.size, most);
            self.size += self.ahead;
        }
        Some(Window { first: self.start, count: self.size, ahead: self.ahead })
    }

    fn begin(&mut self, index: u64, wanted: u64, most: u64) {
        self.start = index;
        self.size = first_size(wanted, most);
        // A read smaller than its window leaves the rest as read-ahead, whose first page is marked.
        self.ahead = if self.size > wanted { self.size - wanted } else { self.size };
    }
}

/// Size of a first window for a read of `wanted` pages.
// `get_init_ra_size` with the kernel's 32 and 4.
fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// Size of the window after one of `size` pages.
// `get_next_ra_size`: fourfold while small, then twofold, up to the limit.
fn next_size(size: u64, most: u64) -> u64 {
    let grown = if size < most / 16 { size * 4 } else { size * 2 };
    grown.min(most)
}

#[cfg(test)]
mod tests {
    use super::{ReadAhead, Request, Window};
    use crate::page_tree::PageTree;

    fn plan(ahead: &mut ReadAhead, pages: &PageTree, index: u64, wanted: u64) -> Option<Window> {
        let is_marked = pages.get(index).is_some();
        ahead.plan(&Request { pages, index, wanted, most: 32, is_marked, looks_back: true })
    }

    /// Reads pages one after another as a process does, and lists the windows.
    fn windows(wanted: u64, pages_read: u64) -> Vec<(u64, u64, u64)> {
        let mut pages = PageTree::default();
        let mut ahead = ReadAhead::default();
        let mut marker = None;
        let mut found = Vec::new();
        for index in 0..pages_read {
            let rest = wanted - index % wanted;
            if pages.get(index).is_none() || marker == Some(index) {
                let window = plan(&mut ahead, &pages, index, rest).expect("a stream");
                for page in window.first..window.first + window.count {
                    pages.insert(page, 0);
                }
                marker = Some(window.first + window.count - window.ahead);
                found.push((window.first, window.count, window.ahead));
            }
            if rest == 1 {
                ahead.read_to(index);
            }
        }
        found
    }

    #[test]
    fn a_reader_of_single_pages_gets_4_then_8_16_and_32() {
        assert_eq!(
            windows(1, 60),
            [(0, 4, 3), (4, 8, 8), (12, 16, 16), (28, 32, 32), (60, 32, 32)]
        );
    }

    #[test]
    fn a_reader_of_four_pages_begins_with_eight() {
        assert_eq!(windows(4, 24), [(0, 8, 4), (8, 16, 16), (24, 32, 32)]);
    }

    #[test]
    fn a_reader_of_the_largest_window_reads_the_next_one_with_it() {
        assert_eq!(windows(32, 96), [(0, 64, 32), (64, 32, 32), (96, 32, 32)]);
    }

    #[test]
    fn a_random_reader_gets_what_it_asks_for() {
        let pages = PageTree::default();
        let mut ahead = ReadAhead::default();
        for index in [500, 90, 7000] {
            let window = plan(&mut ahead, &pages, index, 2);
            assert_eq!(window, Some(Window { first: index, count: 2, ahead: 0 }));
            ahead.read_to(index + 1);
        }
    }

    #[test]
    fn pages_before_a_miss_make_it_a_stream() {
        let mut pages = PageTree::default();
        for page in 96..100 {
            pages.insert(page, 0);
        }
        let mut ahead = ReadAhead::default();
        ahead.read_to(5);
        let window = plan(&mut ahead, &pages, 100, 1);
        assert_eq!(window, Some(Window { first: 100, count: 48, ahead: 32 }));
    }
}

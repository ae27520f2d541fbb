//! What must hold of the page cache between two changes, checked over the whole cache in debug builds.

use crate::frames::{DIRTY, UPTODATE, WRITE_BACK};
use crate::page_cache::CacheState;
use crate::page_tree::Tag;

/// Pages and files up to which the cache is checked after every change.
///
/// Tests of single rules use fewer than 64 pages, so a fault is found by the change that makes it. A larger cache
/// is checked once in as many changes as it has pages and files: the cost of a change does not grow with the
/// cache. All checks together take 5 % of the processor time of this crate's tests (2 cores, `perf`).
const CHECKED_AT_ONCE: u64 = 64;

/// Dirty pages and pages under write-back.
type Amounts = (u64, u64);

impl CacheState {
    /// A change is complete: checks the whole cache if it is small, or if a check is due.
    #[inline]
    pub(crate) fn changed(&mut self) {
        if cfg!(debug_assertions) {
            self.unchecked_changes += 1;
            let size = self.frames.len() + self.mappings.len() as u64;
            if size <= CHECKED_AT_ONCE || self.unchecked_changes >= size {
                self.unchecked_changes = 0;
                self.audit();
            }
        }
    }

    /// Checks all counts, tags and lists against the pages.
    ///
    /// # Panics
    /// A rule is broken.
    pub(crate) fn audit(&self) {
        self.frames.audit();
        self.audit_frames();
        self.audit_files();
        self.audit_counts();
        self.audit_lists();
        self.audit_free_numbers();
    }

    /// Every page in memory is the page of its file, with the tags that its flags say.
    fn audit_frames(&self) {
        for frame_number in self.frames.numbers() {
            let frame = self.frames.get(frame_number);
            let pages = &self.mappings[frame.mapping as usize].pages;
            let found = pages.get(frame.index);
            assert_eq!(found, Some(frame_number), "a page in memory is its file's page");
            for (flag, tag) in [(DIRTY, Tag::Dirty), (WRITE_BACK, Tag::WriteBack)] {
                let is_flagged = frame.flags & flag != 0;
                assert_eq!(
                    pages.has(frame.index, tag),
                    is_flagged,
                    "tag {tag:?} is the page's flag"
                );
            }
            // `set_page_dirty` is for pages that are up to date: what is written is the file's.
            let is_written = frame.flags & (DIRTY | WRITE_BACK) != 0;
            assert!(!is_written || frame.flags & UPTODATE != 0, "what is written is up to date");
            let stores_bytes = self.options.stores_bytes;
            assert_eq!(
                frame.bytes.is_some(),
                stores_bytes,
                "a page has bytes if the cache stores them"
            );
        }
    }

    /// The tree of each file is sound, and only pages in memory have errors of reads.
    fn audit_files(&self) {
        for mapping in &self.mappings {
            mapping.pages.audit();
            let is_there = |index: &u64| mapping.pages.get(*index).is_some();
            let errors = &mapping.read_errors;
            assert!(errors.keys().all(is_there), "a page whose read failed is in memory");
        }
    }

    /// Counts of files, of devices and of the whole cache agree with the pages.
    fn audit_counts(&self) {
        let mut by_device = vec![Amounts::default(); self.devices.len()];
        let mut pages = 0;
        for mapping in &self.mappings {
            let (dirty, write_back) = &mut by_device[mapping.device as usize];
            *dirty += mapping.dirty;
            *write_back += mapping.write_back;
            assert_eq!(mapping.pages.count(Tag::Dirty), mapping.dirty, "dirty pages of a file");
            let being_written = mapping.pages.count(Tag::WriteBack);
            assert_eq!(being_written, mapping.write_back, "pages of a file being written");
            pages += mapping.pages.count(Tag::Present);
        }
        assert_eq!(pages, self.frames.len(), "pages of all files are the pages in memory");
        let (mut dirtied, mut written) = (0, 0);
        for (device, amounts) in self.devices.iter().zip(&by_device) {
            assert_eq!(*amounts, (device.dirty, device.write_back), "counts of a device");
            // Less only if dirty pages were cut off.
            let ever_dirty = device.written + device.dirty + device.write_back;
            assert!(ever_dirty <= device.dirtied, "a page that is written was dirtied");
            dirtied += device.dirtied;
            written += device.written;
        }
        let all = by_device.iter().fold(Amounts::default(), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let of = &self.statistics;
        assert_eq!(all, (of.dirty, of.write_back), "counts of the cache");
        assert_eq!((dirtied, written), (of.dirtied, of.written), "sums of the cache");
    }

    /// A dirty file is on exactly one list of its device, or a task is writing it.
    fn audit_lists(&self) {
        let mut times_listed = vec![0_u32; self.mappings.len()];
        for (number, device) in self.devices.iter().enumerate() {
            for file in device.lists.files() {
                times_listed[*file as usize] += 1;
                let mapping = &self.mappings[*file as usize];
                assert_eq!(mapping.device as usize, number, "a file is on lists of its own device");
                assert!(mapping.backing.is_some(), "a file that was taken out is on no list");
                assert!(!mapping.is_syncing, "a file that is being written is on no list");
                assert!(mapping.dirtied_ns.is_some(), "a file on a list has an age");
            }
            // `move_expired_inodes` ends at the first file that is too young.
            let age = |file: &u32| self.mappings[*file as usize].dirtied_ns;
            let dirty = &device.lists.dirty;
            assert!(dirty.iter().map(age).is_sorted(), "the file dirty for longest is first");
        }
        for (mapping, times) in self.mappings.iter().zip(&times_listed) {
            assert!(*times <= 1, "a file is on one list at most");
            let is_at_work = mapping.is_syncing || *times == 1;
            assert!(!mapping.is_dirty() || is_at_work, "a dirty file is on a list");
            assert!(mapping.dirtied_ns.is_none() || is_at_work, "a file with an age is on a list");
            let has_age = mapping.dirtied_ns.is_some();
            assert!(!mapping.is_dirty() || has_age, "a dirty file has an age");
        }
    }

    /// Each number is that of a file or free, and nothing is left of the file that had a free one.
    fn audit_free_numbers(&self) {
        let mut is_free = vec![false; self.mappings.len()];
        for number in &self.free_mappings {
            let was_free = std::mem::replace(&mut is_free[*number as usize], true);
            assert!(!was_free, "a number is free once");
        }
        for (mapping, is_free) in self.mappings.iter().zip(is_free) {
            assert_eq!(mapping.backing.is_none(), is_free, "a number is free if no file has it");
            let is_empty = mapping.pages.count(Tag::Present) == 0
                && !mapping.is_dirty()
                && !mapping.is_syncing
                && mapping.dirtied_ns.is_none()
                && mapping.write_error.is_none()
                && mapping.next_write == 0;
            assert!(!is_free || is_empty, "nothing is left of a file that was taken out");
        }
    }
}

#[cfg(test)]
mod tests;

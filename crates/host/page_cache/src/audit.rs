//! What must hold of the page cache between two events, checked whole in debug builds.

use crate::frames::{BUSY, DIRTY, LOCKED, UPTODATE, WRITE_BACK};
use crate::page_cache::CacheState;
use crate::page_tree::Tag;

/// Dirty pages and pages under write-back.
type Amounts = (u64, u64);

impl CacheState {
    /// Checks all counts, tags and lists against the pages, in debug builds.
    ///
    /// It costs a look at every page, so it is called when a flusher has come to rest and after a `sync`, not
    /// at each change.
    pub(crate) fn audit(&self, stores_bytes: bool) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.audit_frames(stores_bytes);
        self.audit_counts();
        self.audit_lists();
    }

    /// Every page in memory is the page of its file, with the tags that its flags say.
    fn audit_frames(&self, stores_bytes: bool) {
        let mut frames = 0;
        for number in self.frames.numbers() {
            frames += 1;
            let frame = self.frames.get(number);
            let pages = &self.mappings[frame.mapping as usize].pages;
            assert_eq!(pages.get(frame.index), Some(number), "a page in memory is its file's page");
            for (flag, tag) in [(DIRTY, Tag::Dirty), (WRITE_BACK, Tag::WriteBack)] {
                let is_flagged = frame.flags & flag != 0;
                assert_eq!(pages.has(frame.index, tag), is_flagged, "tag {tag:?} is the page's flag");
            }
            assert!(
                frame.flags & (DIRTY | WRITE_BACK) == 0 || frame.flags & UPTODATE != 0,
                "what is written is up to date"
            );
            assert_eq!(frame.bytes.is_some(), stores_bytes, "pages have bytes if the cache keeps them");
        }
        assert_eq!(frames, self.frames.len(), "every page in memory is in the list of last use");
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
            assert_eq!(mapping.pages.count(Tag::WriteBack), mapping.write_back, "pages being written");
            pages += mapping.pages.count(Tag::Present);
        }
        assert_eq!(pages, self.frames.len(), "pages of all files");
        for (device, amounts) in self.devices.iter().zip(&by_device) {
            assert_eq!(*amounts, (device.dirty, device.write_back), "counts of a device");
            assert!(
                device.written + device.dirty + device.write_back <= device.dirtied,
                "no page is written that was not dirtied"
            );
        }
        let all = by_device.iter().fold(Amounts::default(), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let statistics = &self.statistics;
        assert_eq!(all, (statistics.dirty, statistics.write_back), "counts of the cache");
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
            }
        }
        for (mapping, times) in self.mappings.iter().zip(&times_listed) {
            assert!(*times <= 1, "a file is on one list at most");
            let is_at_work = mapping.is_syncing || *times == 1;
            assert!(!mapping.is_dirty() || is_at_work, "a dirty file is on a list");
            assert_eq!(mapping.dirtied_ns.is_some(), is_at_work, "a file on a list has an age");
        }
        for number in &self.free_mappings {
            let mapping = &self.mappings[*number as usize];
            assert!(mapping.backing.is_none(), "a free number has no file");
            assert_eq!(mapping.pages.count(Tag::Present), 0, "a free number has no pages");
        }
    }

    /// Checks that a page may leave the memory: no task holds it, and nothing of it is to be written.
    pub(crate) fn check_unused(flags: u8) {
        debug_assert_eq!(flags & BUSY, 0, "a page that leaves is clean, and no task holds it");
        debug_assert_eq!(flags & LOCKED, 0);
    }
}

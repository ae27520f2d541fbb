//! Each rule of the audit fails on a state that breaks it.

use super::CHECKED_AT_ONCE;
use crate::backing::Pending;
use crate::frames::{DIRTY, UPTODATE, WRITE_BACK};
use crate::page_cache::CacheState;
use crate::page_tree::Tag;
use crate::{Backing, CacheOptions, FileError, Mapping, PageCache, Process, Purpose, Task};
use board::Board;
use sim::{Cpus, Simulation};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A medium without contents that answers at once.
struct Empty;

impl Backing for Empty {
    fn pages(&self) -> u64 {
        1 << 20
    }

    fn read_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        _: &'a Task,
    ) -> Pending<'a, ()> {
        mapping.end_read(pages, Ok(()));
        Box::pin(std::future::ready(()))
    }

    fn write_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        _: Purpose,
        _: &'a Task,
    ) -> Pending<'a, ()> {
        mapping.end_write(pages, Ok(()));
        Box::pin(std::future::ready(()))
    }

    fn flush(&self, _: Process) -> Pending<'_, Result<(), FileError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// File 0 has a clean page, a dirty one and one that is being written; file 1 has dirty attributes; number 2
/// is free. Device 1 has no files.
fn filled() -> Rc<PageCache> {
    let simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 6_000_000));
    let board = Rc::new(Board::without_costs());
    let cache = PageCache::new(&sim, &cpus, &board, CacheOptions { stores_bytes: true });
    let device = cache.add_device();
    cache.add_device();
    let files = [0, 1, 2].map(|_| cache.clone().add_mapping(device, Rc::new(Empty)));
    for page in 0..3 {
        cache.insert(0, page, UPTODATE);
    }
    cache.set_dirty(0, 1);
    cache.set_dirty(0, 2);
    cache.begin_write(0, 2..3);
    files[1].set_attributes_dirty();
    assert!(files[2].remove_if_unused());
    cache.state.borrow().audit();
    cache
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Breaks a rule, and checks that the audit names it.
fn finds(rule: &str, fault: impl FnOnce(&mut CacheState)) {
    let cache = filled();
    let mut state = cache.state.borrow_mut();
    fault(&mut state);
    let found = catch_unwind(AssertUnwindSafe(|| state.audit())).expect_err(rule);
    let message = message_of(&*found);
    assert!(message.contains(rule), "{message:?} is not {rule:?}");
}

/// The frame of page 0 of file 0, which is clean.
fn clean(state: &CacheState) -> u32 {
    state.mappings[0].pages.get(0).expect("it is there")
}

#[test]
fn faults_of_frames_are_found() {
    finds("a page in memory is its file's page", |state| {
        let frame = clean(state);
        state.frames.get_mut(frame).index = 9;
    });
    finds("tag Dirty is the page's flag", |state| {
        let frame = clean(state);
        state.frames.get_mut(frame).flags |= DIRTY;
    });
    finds("tag WriteBack is the page's flag", |state| {
        let frame = clean(state);
        state.frames.get_mut(frame).flags |= WRITE_BACK;
    });
    finds("what is written is up to date", |state| {
        let frame = state.mappings[0].pages.get(1).expect("it is there");
        state.frames.get_mut(frame).flags &= !UPTODATE;
    });
    finds("a page has bytes if the cache stores them", |state| {
        let frame = clean(state);
        state.frames.get_mut(frame).bytes = None;
    });
    finds("a page whose read failed is in memory", |state| {
        state.mappings[0].read_errors.insert(7, FileError::FileSystem(fs_api::Errno::Eio));
    });
}

#[test]
fn faults_of_counts_are_found() {
    finds("dirty pages of a file", |state| state.mappings[0].dirty += 1);
    finds("pages of a file being written", |state| state.mappings[0].write_back = 0);
    finds("pages of all files are the pages in memory", |state| {
        state.mappings[0].pages.insert(9, 0);
    });
    finds("counts of a device", |state| state.devices[0].dirty -= 1);
    finds("counts of a device", |state| state.devices[1].write_back += 1);
    finds("a page that is written was dirtied", |state| state.devices[0].dirtied = 1);
    finds("counts of the cache", |state| state.statistics.dirty += 1);
    finds("sums of the cache", |state| state.statistics.written += 1);
    finds("sums of the cache", |state| state.statistics.dirtied += 1);
}

#[test]
fn faults_of_lists_are_found() {
    finds("a file is on lists of its own device", |state| {
        let file = state.devices[0].lists.dirty.pop_front();
        state.devices[1].lists.dirty.extend(file);
    });
    finds("a file that was taken out is on no list", |state| {
        state.devices[0].lists.io.push_back(2);
    });
    finds("a file that is being written is on no list", |state| {
        state.mappings[0].is_syncing = true;
    });
    finds("a file on a list has an age", |state| state.mappings[1].dirtied_ns = None);
    finds("the file dirty for longest is first", |state| {
        state.mappings[0].dirtied_ns = Some(1);
    });
    finds("a file is on one list at most", |state| state.devices[0].lists.more.push_back(0));
    finds("a dirty file is on a list", |state| state.devices[0].lists.remove(1));
    finds("a file with an age is on a list", |state| {
        state.devices[0].lists.remove(1);
        state.mappings[1].has_dirty_attributes = false;
    });
    finds("a dirty file has an age", |state| {
        state.devices[0].lists.remove(1);
        state.mappings[1].is_syncing = true;
        state.mappings[1].dirtied_ns = None;
    });
}

#[test]
fn faults_of_free_numbers_are_found() {
    finds("a number is free once", |state| state.free_mappings.push(2));
    finds("a number is free if no file has it", |state| state.free_mappings.clear());
    finds("a number is free if no file has it", |state| state.free_mappings.push(1));
    finds("nothing is left of a file that was taken out", |state| {
        state.mappings[2].write_error = Some(FileError::FileSystem(fs_api::Errno::Eio));
    });
    finds("nothing is left of a file that was taken out", |state| {
        state.mappings[2].next_write = 3;
    });
}

/// Attributes that were to be written go with a file that is taken out, as with an inode (`clear_inode`).
#[test]
fn nothing_is_left_of_a_file_with_dirty_attributes() {
    let cache = filled();
    cache.remove_mapping(1);
    let state = cache.state.borrow();
    assert!(!state.mappings[1].is_dirty());
    state.audit();
}

#[test]
fn a_small_cache_is_checked_after_each_change_and_a_large_one_in_turn() {
    for pages in [0, CHECKED_AT_ONCE] {
        let cache = filled();
        for page in 10..10 + pages {
            cache.insert(0, page, UPTODATE);
        }
        cache.state.borrow_mut().audit();
        cache.state.borrow_mut().unchecked_changes = 0;
        cache.state.borrow_mut().statistics.dirty += 1;
        let size = 3 + pages + 3;
        let changes = (1..1000).find(|_| {
            let change = AssertUnwindSafe(|| cache.clear_flags(0, 0, 0));
            catch_unwind(change).is_err()
        });
        assert_eq!(changes, Some(if pages == 0 { 1 } else { size }));
    }
}

#[test]
fn a_chunk_of_the_tree_is_in_the_sets_of_its_tags() {
    finds("a page with a tag is in memory", |state| {
        // A page that is not there: nothing may be set for it.
        state.mappings[0].pages.set(5, Tag::Dirty, true);
    });
}

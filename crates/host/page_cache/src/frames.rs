//! The memory that pages stand in, and the order in which it is given up.

use shared_page::SharedPage;
use std::rc::Rc;

const NIL: u32 = u32::MAX;

/// The bytes of the page are those of the file.
pub(crate) const UPTODATE: u8 = 1;
/// The page differs from the medium.
pub(crate) const DIRTY: u8 = 2;
/// The page is being written.
pub(crate) const WRITE_BACK: u8 = 4;
/// The page is being read or changed.
pub(crate) const LOCKED: u8 = 8;
/// A read of the page asks for the next window of read-ahead.
pub(crate) const MARKER: u8 = 16;

// What a task holds, or what the medium lacks: giving it up would lose it or pull it from under a
// task.
/// What must not be given up.
const BUSY: u8 = DIRTY | WRITE_BACK | LOCKED;

/// A page in memory.
pub(crate) struct Frame {
    pub(crate) mapping: u32,
    pub(crate) flags: u8,
    pub(crate) index: u64,
    newer: u32,
    older: u32,
    /// Shared with a file system that has taken the page over, or none if no bytes are stored.
    pub(crate) bytes: Option<Rc<SharedPage>>,
}

/// All frames, in a list from the page used last to the one unused for longest.
pub(crate) struct Frames {
    slots: Vec<Frame>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), newest: NIL, oldest: NIL }
    }

    pub(crate) fn len(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }

    pub(crate) fn get(&self, frame: u32) -> &Frame {
        &self.slots[frame as usize]
    }

    pub(crate) fn get_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.slots[frame as usize]
    }

    pub(crate) fn insert(&mut self, mapping: u32, index: u64, flags: u8) -> u32 {
        let frame = Frame { mapping, flags, index, newer: NIL, older: NIL, bytes: None };
        let number = if let Some(number) = self.free.pop() {
            self.slots[number as usize] = frame;
            number
        } else {
            self.slots.push(frame);
            (self.slots.len() - 1) as u32
        };
        self.link(number);
        number
    }

    pub(crate) fn remove(&mut self, frame: u32) {
        self.unlink(frame);
        // Freed now, since a frame that is not used again may stay in the list of free ones for the
        // rest of the run.
        self.slots[frame as usize].bytes = None;
        self.free.push(frame);
    }

    /// The page was used.
    pub(crate) fn touch(&mut self, frame: u32) {
        if self.newest != frame {
            self.unlink(frame);
            self.link(frame);
        }
    }

    /// The page to give up: of the `scan` pages unused for longest, the first that is not busy.
    /// Busy ones that were looked at go to the other end of the list, as in the kernel's
    /// `shrink_page_list` (`mm/vmscan.c`, Linux 3.4).
    pub(crate) fn victim(&mut self, scan: u32) -> Option<u32> {
        for _ in 0..scan {
            let oldest = self.oldest;
            if oldest == NIL {
                return None;
            }
            if self.get(oldest).flags & BUSY == 0 {
                return Some(oldest);
            }
            self.touch(oldest);
        }
        None
    }

    /// All pages in memory, the one used last first.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let next = |frame: u32| (frame != NIL).then_some(frame);
        std::iter::successors(next(self.newest), move |frame| next(self.get(*frame).older))
    }

    /// Checks that each slot is either in the list of last use, linked both ways, or free.
    ///
    /// # Panics
    /// A rule is broken.
    pub(crate) fn audit(&self) {
        let mut before = NIL;
        // A list that is a ring would not end: no more steps than slots.
        for frame in self.numbers().take(self.slots.len() + 1) {
            assert_eq!(self.get(frame).newer, before, "the list of last use is linked both ways");
            before = frame;
        }
        assert_eq!(self.oldest, before, "the list of last use ends at its end");
        let listed = self.numbers().take(self.slots.len() + 1).count();
        let (free, slots) = (self.free.len(), self.slots.len());
        assert_eq!(listed + free, slots, "free frames and used frames are all frames");
        let is_empty = |frame: &u32| self.get(*frame).bytes.is_none();
        assert!(self.free.iter().all(is_empty), "a free frame holds no bytes");
    }

    fn link(&mut self, frame: u32) {
        let before = std::mem::replace(&mut self.newest, frame);
        self.slots[frame as usize].newer = NIL;
        self.slots[frame as usize].older = before;
        match before {
            NIL => self.oldest = frame,
            before => self.slots[before as usize].newer = frame,
        }
    }

    fn unlink(&mut self, frame: u32) {
        let Frame { newer, older, .. } = self.slots[frame as usize];
        match newer {
            NIL => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DIRTY, Frames, SharedPage};

    #[test]
    fn the_page_unused_for_longest_that_is_not_busy_is_given_up() {
        let mut frames = Frames::new();
        let numbers: Vec<u32> = (0..4).map(|index| frames.insert(0, index, 0)).collect();
        frames.touch(numbers[0]);
        frames.get_mut(numbers[1]).flags = DIRTY;
        assert_eq!(frames.victim(8), Some(numbers[2]));
        frames.remove(numbers[2]);
        assert_eq!(frames.victim(8), Some(numbers[3]));
        frames.remove(numbers[3]);
        assert_eq!(frames.victim(8), Some(numbers[0]));
        frames.remove(numbers[0]);
        assert_eq!(frames.victim(8), None);
        assert_eq!(frames.len(), 1);
    }

    /// Three frames in use and a free one, with a fault.
    fn audited(fault: impl FnOnce(&mut Frames)) {
        let mut frames = Frames::new();
        for index in 0..4 {
            frames.insert(0, index, 0);
        }
        frames.remove(1);
        frames.audit();
        fault(&mut frames);
        frames.audit();
    }

    #[test]
    #[should_panic(expected = "the list of last use is linked both ways")]
    fn a_link_back_that_is_wrong_is_found() {
        audited(|frames| frames.slots[0].newer = 3);
    }

    #[test]
    #[should_panic(expected = "the list of last use ends at its end")]
    fn a_wrong_end_is_found() {
        audited(|frames| frames.oldest = 2);
    }

    #[test]
    #[should_panic(expected = "free frames and used frames are all frames")]
    fn a_frame_that_is_neither_free_nor_used_is_found() {
        audited(|frames| frames.free.clear());
    }

    #[test]
    #[should_panic(expected = "a free frame holds no bytes")]
    fn a_free_frame_with_bytes_is_found() {
        audited(|frames| frames.slots[1].bytes = Some(SharedPage::zeroed()));
    }
}

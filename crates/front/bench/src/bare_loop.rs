//! The baseline: greedy page mapping over plain arrays, without chip, counters or rules.
//!
//! It does what the layer `page` does for a uniform random write, and nothing else: map, reverse
//! map, valid counts, a queue of free blocks and linked lists of blocks by valid count.

use nand::random::Stream;

const NONE: u32 = u32::MAX;

/// Greedy page mapping over arrays.
pub(crate) struct BareLoop {
    pages_per_block: u32,
    map: Vec<u32>,
    owner: Vec<u32>,
    valid: Vec<u16>,
    is_closed: Vec<bool>,
    head: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    free: Vec<u32>,
    open: u32,
    page: u32,
    /// Pages programmed, to compare the work done with the layer's.
    pub(crate) programs: u64,
}

impl BareLoop {
    pub(crate) fn new(blocks: u32, pages_per_block: u32, logical_pages: u32) -> Self {
        let mut free: Vec<u32> = (0..blocks).rev().collect();
        let open = free.pop().expect("at least one block");
        Self {
            pages_per_block,
            map: vec![NONE; logical_pages as usize],
            owner: vec![NONE; (blocks * pages_per_block) as usize],
            valid: vec![0; blocks as usize],
            is_closed: vec![false; blocks as usize],
            head: vec![NONE; pages_per_block as usize + 1],
            next: vec![NONE; blocks as usize],
            previous: vec![NONE; blocks as usize],
            free,
            open,
            page: 0,
            programs: 0,
        }
    }

    /// Writes one logical page, and cleans before it if that is due.
    #[inline]
    pub(crate) fn write(&mut self, lpn: u32) {
        if self.page == self.pages_per_block {
            while self.free.len() <= 1 {
                self.clean();
            }
            if self.page == self.pages_per_block {
                self.open_block();
            }
        }
        self.append(lpn);
    }

    #[inline]
    fn append(&mut self, lpn: u32) {
        if self.page == self.pages_per_block {
            self.open_block();
        }
        let old = self.map[lpn as usize];
        if old != NONE {
            let block = old / self.pages_per_block;
            if self.is_closed[block as usize] {
                self.unlink(block);
                self.valid[block as usize] -= 1;
                self.link(block);
            } else {
                self.valid[block as usize] -= 1;
            }
        }
        let page = self.open * self.pages_per_block + self.page;
        self.map[lpn as usize] = page;
        self.owner[page as usize] = lpn;
        self.valid[self.open as usize] += 1;
        self.page += 1;
        self.programs += 1;
        if self.page == self.pages_per_block {
            self.is_closed[self.open as usize] = true;
            self.link(self.open);
        }
    }

    fn open_block(&mut self) {
        self.open = self.free.pop().expect("cleaning leaves a block");
        self.page = 0;
    }

    fn clean(&mut self) {
        let victim = *self.head.iter().find(|block| **block != NONE).expect("a closed block");
        self.unlink(victim);
        self.is_closed[victim as usize] = false;
        let first = victim * self.pages_per_block;
        for page in first..first + self.pages_per_block {
            let lpn = self.owner[page as usize];
            if self.map[lpn as usize] == page {
                self.append(lpn);
            }
        }
        self.valid[victim as usize] = 0;
        self.free.insert(0, victim);
    }

    #[inline]
    fn link(&mut self, block: u32) {
        let head = &mut self.head[self.valid[block as usize] as usize];
        self.next[block as usize] = *head;
        self.previous[block as usize] = NONE;
        if *head != NONE {
            self.previous[*head as usize] = block;
        }
        *head = block;
    }

    #[inline]
    fn unlink(&mut self, block: u32) {
        let (previous, next) = (self.previous[block as usize], self.next[block as usize]);
        match previous {
            NONE => self.head[self.valid[block as usize] as usize] = next,
            previous => self.next[previous as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
    }
}

/// Writes `count` uniform random pages.
pub(crate) fn run(bare: &mut BareLoop, stream: &mut Stream, count: u64) {
    let pages = bare.map.len() as u32;
    for _ in 0..count {
        bare.write(stream.below(pages));
    }
}

//! DFTL: the page map lives on flash, a cache of entries in RAM.
//!
//! Translation pages hold the map, `entries_per_page` entries each; the global translation
//! directory (GTD) in RAM says where they lie. The cached mapping table (CMT) holds single entries.
//! A lookup that misses evicts one entry (a dirty one costs a read and a program of its
//! translation page) and reads the translation page it needs. With `batch_update` an eviction
//! writes all dirty entries of the same translation page at once. Cleaning takes data and
//! translation blocks alike, the one with the fewest valid pages; the entries of moved data pages
//! are changed in the CMT if cached, else in their translation pages, one program for each.
//!
//! When to expect what: RAM of the cache instead of 4 bytes a page; random reads over more pages
//! than the cache holds cost a second read each.
//!
//! Source: Gupta, Kim, Urgaonkar, "DFTL: a flash translation layer employing demand-based selective
//! caching of page-level address mappings", ASPLOS 2009.

use crate::cleaning;
use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::entry_cache::EntryCache;
use crate::page_log::{PageLog, newest_pages};
use crate::recovery::Scan;
use crate::settings::{Kind, Parameter};
use crate::{CleanStep, Flash, FtlError, Locations, Settings, VirtualPage};
use nand::{Chip, Role, Tag};

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "dftl",
    summary: "DFTL: page map on flash, a cache of entries in RAM",
    source: "Gupta, Kim, Urgaonkar, ASPLOS 2009",
    features: Features {
        mapping: "page, cached",
        first_write: "out of place",
        overwrite: "out of place",
        block_kinds: "data, translation",
    },
    parameters: &[
        Parameter {
            name: "cmt_entries",
            kind: Kind::Integer { min: 2, max: 1_000_000_000 },
            default: "4096",
            summary: "entries of the cached mapping table",
        },
        Parameter {
            name: "cmt_policy",
            kind: Kind::Choice(&["slru", "lru"]),
            default: "slru",
            summary: "replacement in the cache: segmented LRU (half protected), or plain LRU",
        },
        Parameter {
            name: "batch_update",
            kind: Kind::Switch,
            default: "true",
            summary: "an eviction writes all dirty entries of its translation page",
        },
        Parameter {
            name: "entries_per_page",
            kind: Kind::Integer { min: 0, max: 65536 },
            default: "0",
            summary: "map entries in a translation page; 0 = page bytes / 4",
        },
        Parameter {
            name: "low_water",
            kind: Kind::Integer { min: 3, max: 1_000_000 },
            default: "3",
            summary: "clean while at most this many blocks are free",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        let entries = entries_per_page(geometry.page_data_bytes, settings);
        let pages = logical_pages + logical_pages.div_ceil(entries);
        // Two open blocks, and one for the pages that the last round of updates made stale.
        pages.div_ceil(geometry.pages_per_block) + settings.integer("low_water") + 3
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Dftl::new(flash, logical_pages, settings)),
};

const DATA: usize = 0;
// Host data, translation pages and copies have open blocks of their own, so that pages of a like
// age lie together.
const TRANSLATION: usize = 1;
const COPIES: usize = 2;

fn entries_per_page(page_data_bytes: u32, settings: &Settings) -> u32 {
    match settings.integer("entries_per_page") {
        0 => page_data_bytes / 4,
        entries => entries,
    }
}

#[derive(Clone)]
struct Dftl {
    log: PageLog,
    /// What all translation pages and the cache say together.
    map: Locations,
    /// Global translation directory: where each translation page lies.
    directory: Vec<Option<VirtualPage>>,
    cache: EntryCache,
    entries_per_page: u32,
    batch_update: bool,
    /// Contents of the translation page being written, on chips that store bytes.
    buffer: Vec<u8>,
    /// Translation pages whose entries cleaning moved, to be rewritten.
    moved: Vec<u32>,
}

impl Dftl {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let entries_per_page = entries_per_page(flash.geometry().page_data_bytes, settings);
        // The paper's cleaning is greedy over data and translation blocks alike.
        let policy = cleaning::find_policy("greedy").expect("a listed policy");
        let buffer_bytes =
            if flash.chip().stores_bytes() { flash.geometry().page_data_bytes } else { 0 };
        Self {
            map: Locations::new(logical_pages),
            directory: vec![None; logical_pages.div_ceil(entries_per_page) as usize],
            cache: EntryCache::new(
                logical_pages,
                settings.integer("cmt_entries"),
                settings.word("cmt_policy") == "slru",
            ),
            entries_per_page,
            batch_update: settings.switch("batch_update"),
            buffer: vec![0; buffer_bytes as usize],
            moved: Vec::new(),
            log: PageLog::new(flash, (policy.build)(settings), true, settings.integer("low_water")),
        }
    }

    /// Brings the entry of a page into the cache.
    fn look_up(&mut self, lpn: u32) -> Result<(), FtlError> {
        if self.cache.touch(lpn) {
            return Ok(());
        }
        self.make_room()?;
        // The page is read even if the whole entry is about to be overwritten: the cache holds
        // entries, not pages.
        self.read_translation_page(lpn / self.entries_per_page)?;
        self.cache.insert(lpn);
        Ok(())
    }

    /// Evicts entries until the cache has room for one more.
    fn make_room(&mut self) -> Result<(), FtlError> {
        while let Some(victim) = self.cache.victim() {
            // A clean entry is in its translation page already and costs nothing to drop.
            if self.cache.is_dirty(victim) {
                let page = victim / self.entries_per_page;
                self.read_translation_page(page)?;
                self.write_translation_page(page, TRANSLATION)?;
                // The page was filled after any cleaning, so it holds what cleaning changed in this
                // entry.
                self.cache.set_dirty(victim, false);
                if self.batch_update {
                    self.cache.clean_range(page * self.entries_per_page, self.entries_per_page);
                }
                // Cleaning for the translation page may itself have changed the cache.
                continue;
            }
            self.cache.remove(victim);
        }
        Ok(())
    }

    /// Reads a translation page, if it exists.
    fn read_translation_page(&mut self, page: u32) -> Result<(), FtlError> {
        match self.directory[page as usize] {
            Some(at) => self.log.flash.read(at, page, None),
            None => Ok(()),
        }
    }

    fn write_translation_page(&mut self, page: u32, stream: usize) -> Result<(), FtlError> {
        // A rewrite within cleaning must not clean in its turn; it takes what its caller left free.
        let at = if stream == TRANSLATION {
            self.place(stream)?
        } else {
            self.log.next_or_open(TRANSLATION)?
        };
        // The whole page is filled from the map: an update on flash is a read and a write of all
        // its entries.
        self.fill_buffer(page);
        self.log.flash.program(at, page, Role::Translation, Some(&self.buffer))?;
        self.map_translation_page(page, at);
        Ok(())
    }

    /// The newest copy of a translation page is at `at` now; the old copy becomes stale.
    fn map_translation_page(&mut self, page: u32, at: VirtualPage) {
        if let Some(old) = self.directory[page as usize].replace(at) {
            self.log.valid.remove(old.block);
        }
        self.log.wrote(TRANSLATION, at);
    }

    /// Puts the entries of a translation page into the buffer: packed block and page, all ones if unmapped.
    fn fill_buffer(&mut self, page: u32) {
        let pages_per_block = self.log.flash.pages_per_block();
        for (entry, bytes) in (0..self.entries_per_page).zip(self.buffer.chunks_exact_mut(4)) {
            let at = self.map.get(page * self.entries_per_page + entry);
            let packed = at.map_or(u32::MAX, |at| at.block * pages_per_block + at.page);
            bytes.copy_from_slice(&packed.to_le_bytes());
        }
    }

    /// The next page for a host or translation write, cleaning first where a block must be opened.
    fn place(&mut self, stream: usize) -> Result<VirtualPage, FtlError> {
        // Room in the open block: cleaning is looked at only where a block would be opened.
        if let Some(at) = self.log.next(stream) {
            return Ok(at);
        }
        loop {
            while self.log.must_clean() {
                let victim = self.log.take_victim()?;
                self.empty(victim)?;
            }
            // Rewrites that had to wait go first now; each may need room, so the limit is tested
            // again.
            let Some(page) = self.moved.pop() else { break };
            self.rewrite_translation_page(page)?;
        }
        self.log.next_or_open(stream)
    }

    /// The newest copy of a logical page is at `at` now; the old copy becomes stale.
    fn map_page(&mut self, lpn: u32, at: VirtualPage, stream: usize) {
        if let Some(old) = self.map.get(lpn) {
            // The old copy becomes stale with the new program, not before: a cut between keeps the
            // old one.
            self.log.valid.remove(old.block);
        }
        self.map.set(lpn, at);
        self.log.wrote(stream, at);
    }

    /// Moves the valid pages of a block and erases it.
    ///
    /// Only the pages of the victim may take the last free block, because a rebuild can take them
    /// back. Changed translation pages are written when the victim is erased; those that would open
    /// the last block wait for the next opportunity. The spare areas alone would show the moves too.
    fn empty(&mut self, victim: u32) -> Result<(), FtlError> {
        for page in 0..self.log.flash.pages_per_block() {
            let from = VirtualPage::new(victim, page);
            let tag = self.log.flash.peek(from);
            if self.is_newest(tag, from) {
                self.move_page(tag, from)?;
            }
        }
        // Erased before translation pages are rewritten, so that the rewrites have a free block.
        self.log.release(victim)?;
        // Each changed translation page is read and written once, whatever number of its entries moved.
        while self.log.next(TRANSLATION).is_some() || self.log.flash.free_blocks() > 1 {
            let Some(page) = self.moved.pop() else { break };
            self.rewrite_translation_page(page)?;
        }
        Ok(())
    }

    fn rewrite_translation_page(&mut self, page: u32) -> Result<(), FtlError> {
        self.read_translation_page(page)?;
        self.write_translation_page(page, COPIES)
    }

    fn is_newest(&self, tag: Tag, at: VirtualPage) -> bool {
        if tag.role() == Role::Translation {
            self.directory.get(tag.lpn() as usize) == Some(&Some(at))
        } else {
            self.map.is_newest(tag.lpn(), at)
        }
    }

    fn move_page(&mut self, tag: Tag, from: VirtualPage) -> Result<(), FtlError> {
        let lpn = tag.lpn();
        if tag.role() == Role::Translation {
            let to = self.log.next_or_open(TRANSLATION)?;
            self.log.flash.copy(from, to, lpn, Role::Translation)?;
            self.map_translation_page(lpn, to);
            return Ok(());
        }
        // Copies keep their role and number but get a new sequence number, by which a rebuild
        // prefers them.
        let to = self.log.next_or_open(COPIES)?;
        self.log.flash.copy(from, to, lpn, Role::Data)?;
        self.map_page(lpn, to, COPIES);
        let page = lpn / self.entries_per_page;
        // A cached entry is the newest in any case; it is made dirty in place of a rewrite.
        if self.cache.contains(lpn) {
            self.cache.set_dirty(lpn, true);
        } else if !self.moved.contains(&page) {
            // Once for each translation page, however many of its entries moved.
            self.moved.push(page);
        }
        Ok(())
    }

    /// Finds the newest copy of every translation page.
    fn rebuild_directory(&mut self, scan: &Scan) -> Vec<u64> {
        let mut newest = vec![0; self.directory.len()];
        self.directory.fill(None);
        for (found, block) in scan.blocks.iter().zip(0..) {
            for (page, tag) in found.tags().filter(|(_, tag)| tag.role() == Role::Translation) {
                let index = tag.lpn() as usize;
                if index < newest.len()
                    // A chip of a larger layer may show translation pages that this one does not
                    // have.
                    && (self.directory[index].is_none() || newest[index] < tag.sequence())
                {
                    newest[index] = tag.sequence();
                    self.directory[index] = Some(VirtualPage::new(block, page));
                }
            }
        }
        newest
    }
}

impl Ftl for Dftl {
    fn logical_pages(&self) -> u32 {
        self.map.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        self.map.check(lpn)?;
        self.look_up(lpn)?;
        self.map.read(&mut self.log.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.log.flash.audit_is_due() {
            self.audit();
            self.cache.audit();
            let data = (0..self.map.logical_pages()).filter(|lpn| self.map.get(*lpn).is_some());
            self.log.audit(data.count() + self.directory.iter().flatten().count());
        }
        // Before the page is placed: the lookup may evict and so clean, which would move the
        // frontier.
        self.map.check(lpn)?;
        self.look_up(lpn)?;
        let at = self.place(DATA)?;
        self.log.flash.program(at, lpn, Role::Data, data)?;
        self.map_page(lpn, at, DATA);
        self.cache.set_dirty(lpn, true);
        Ok(())
    }

    /// A step is a whole block: the translation pages that it changes are written with it.
    fn clean_step(&mut self, free_target: u32) -> Result<CleanStep, FtlError> {
        // Cleaning between requests has a target of its own, given by the device.
        if self.log.flash.free_blocks() >= free_target as usize {
            return Ok(CleanStep::Idle);
        }
        let Some(victim) = self.log.take_worthwhile_victim() else { return Ok(CleanStep::Idle) };
        self.empty(victim)?;
        Ok(CleanStep::Freed)
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.map.check(lpn)?;
        self.look_up(lpn)?;
        if let Some(old) = self.map.get(lpn) {
            self.log.valid.remove(old.block);
            self.map.clear(lpn);
            self.cache.set_dirty(lpn, true);
        }
        Ok(())
    }

    /// Entries newer than their translation page are dirty again; more than the cache holds are
    /// written out.
    fn rebuild(&mut self) -> Result<(), FtlError> {
        let scan = self.log.scan()?;
        let logical_pages = self.map.logical_pages();
        self.map = newest_pages(&scan, logical_pages);
        let written_at = self.rebuild_directory(&scan);
        self.cache.clear();
        self.moved.clear();
        let (map, directory) = (&self.map, &self.directory);
        let victim = self.log.rebuild(&scan, COPIES, |tag, at| {
            if tag.role() == Role::Translation {
                directory.get(tag.lpn() as usize) == Some(&Some(at))
            } else {
                map.is_newest(tag.lpn(), at)
            }
        })?;
        // A rebuild without a free block cleans at once, before the cache needs translation pages.
        if let Some(victim) = victim {
            self.empty(victim)?;
        }
        for lpn in 0..logical_pages {
            let Some(at) = self.map.get(lpn) else { continue };
            let page = (lpn / self.entries_per_page) as usize;
            let sequence = self.log.flash.peek(at).sequence();
            // Newer than its translation page: the entry was in the cache only, and is dirty again.
            if self.directory[page].is_none() || sequence > written_at[page] {
                self.make_room()?;
                self.cache.insert(lpn);
                self.cache.set_dirty(lpn, true);
            }
        }
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.map.get(lpn)
    }

    /// Four bytes a translation page for the directory, eight a cached entry.
    fn ram_bytes(&self) -> u64 {
        4 * self.directory.len() as u64 + 8 * u64::from(self.cache.capacity())
    }

    fn tables(&self) -> Vec<Table> {
        let directory = self.directory.iter().zip(0_u32..).filter_map(|(at, page)| {
            at.map(|at| vec![page.to_string(), at.block.to_string(), at.page.to_string()])
        });
        let cached = self.cache.entries().map(|lpn| {
            let at =
                self.map.get(lpn).map_or("none".into(), |at| format!("{}:{}", at.block, at.page));
            let dirty = if self.cache.is_dirty(lpn) { "dirty" } else { "clean" };
            vec![lpn.to_string(), at, dirty.to_owned()]
        });
        vec![
            Table {
                title: "global translation directory",
                columns: vec!["translation page", "block", "page"],
                rows: directory.collect(),
            },
            Table {
                title: "cached mapping table, next victim first",
                columns: vec!["logical page", "block:page", "state"],
                rows: cached.collect(),
            },
        ]
    }

    fn flash(&self) -> &Flash {
        &self.log.flash
    }

    fn flash_mut(&mut self) -> &mut Flash {
        &mut self.log.flash
    }

    fn into_chip(self: Box<Self>) -> Chip {
        self.log.flash.into_chip()
    }

    fn clone_box(&self) -> Box<dyn Ftl> {
        Box::new(self.clone())
    }
}

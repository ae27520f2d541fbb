//! A medium without power, as it is kept in a file.

use super::{Content, Durable, Follower, Medium, Version};
use crate::page_file::{PageBytes, PageFile};
use crate::{LoadError, SavedChip, SavedContent, SavedDie, SavedPage, SavedPart, SavedVersion};
use std::io;
use std::sync::Arc;

impl Medium {
    /// When the last change that was begun is over, nanoseconds; none is under way without.
    pub(crate) fn busy_until_ns(&self) -> Option<u64> {
        self.pending.back().map(|last| last.end_ns)
    }

    /// Hands over all parts of the medium of a die, in an order that does not depend on how they are held.
    ///
    /// # Errors
    /// What `each` gives, and bytes that the host cannot read.
    pub(crate) fn save(
        &self,
        die: u32,
        each: &mut dyn FnMut(&SavedPart<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        debug_assert!(self.pending.is_empty(), "nothing is under way without power");
        let mut given_up: Vec<_> = self.given_up.iter().map(|(lpn, last)| (*lpn, *last)).collect();
        given_up.sort_unstable();
        each(&SavedPart::Die(Box::new(SavedDie {
            die,
            layer: self.layer.saved(),
            slc: self.slc.as_ref().map(Follower::saved),
            given_up,
            last_version: self.last_version,
        })))?;
        let mut pages: Vec<_> = self.durable.iter().collect();
        pages.sort_unstable_by_key(|(lpn, _)| **lpn);
        for (lpn, durable) in pages {
            durable.newest.look(|newest| match &durable.before {
                None => each(&SavedPart::Page(SavedPage { die, lpn: *lpn, newest, before: None })),
                Some(before) => before.look(|before| {
                    let before = Some(before);
                    each(&SavedPart::Page(SavedPage { die, lpn: *lpn, newest, before }))
                }),
            })?;
        }
        Ok(())
    }

    /// Takes the chips over. The layer above finds them once it is built anew ([`Medium::rebuild`]).
    pub(crate) fn load_die(&mut self, saved: SavedDie) -> Result<(), LoadError> {
        let die = saved.die;
        match (&mut self.slc, saved.slc) {
            (Some(slc), Some(saved)) => slc.load(die, saved)?,
            (None, None) => {}
            _ => return Err(LoadError::Part { die, what: "blocks of an SLC cache" }),
        }
        self.layer.load(die, saved.layer)?;
        self.given_up = saved.given_up.into_iter().collect();
        self.last_version = saved.last_version;
        Ok(())
    }

    /// Takes the bytes of a page over.
    pub(crate) fn load_page(&mut self, page: &SavedPage<'_>) -> Result<(), LoadError> {
        let wrong = |what| LoadError::Part { die: page.die, what };
        let is_whole = |version: &SavedVersion<'_>| match version.content {
            SavedContent::Bytes(bytes) => bytes.len() == self.page_bytes,
            SavedContent::Zeros | SavedContent::Gone => true,
        };
        if ![Some(&page.newest), page.before.as_ref()].into_iter().flatten().all(is_whole) {
            return Err(wrong("bytes of a page"));
        }
        let durable = Durable {
            newest: Version::loaded(&page.newest, self.page_file.as_ref()),
            before: page
                .before
                .as_ref()
                .map(|before| Version::loaded(before, self.page_file.as_ref())),
        };
        match self.durable.insert(page.lpn, durable) {
            None => Ok(()),
            Some(_) => Err(wrong("two versions of a page")),
        }
    }
}

impl Version {
    /// Looks at the version.
    ///
    /// # Errors
    /// The host cannot read its file of pages.
    fn look<T>(&self, look: impl FnOnce(SavedVersion<'_>) -> io::Result<T>) -> io::Result<T> {
        fn of(number: u64, content: SavedContent<'_>) -> SavedVersion<'_> {
            SavedVersion { number, content }
        }
        let number = self.number;
        match &self.content {
            Content::Zeros => look(of(number, SavedContent::Zeros)),
            Content::Gone => look(of(number, SavedContent::Gone)),
            Content::Bytes(held) => held
                .look(|bytes| look(of(number, SavedContent::Bytes(bytes))))
                .unwrap_or_else(|| Err(io::Error::other("the file of pages cannot be read"))),
        }
    }

    fn loaded(saved: &SavedVersion<'_>, file: Option<&Arc<PageFile>>) -> Self {
        let content = match saved.content {
            SavedContent::Zeros => Content::Zeros,
            SavedContent::Gone => Content::Gone,
            SavedContent::Bytes(bytes) => Content::Bytes(PageBytes::keep(bytes.into(), file)),
        };
        Self { number: saved.number, content }
    }
}

impl Follower {
    fn saved(&self) -> SavedChip {
        SavedChip { chip: self.chip.state(), versions: self.versions.clone() }
    }

    fn load(&mut self, die: u32, saved: SavedChip) -> Result<(), LoadError> {
        let geometry = self.chip.geometry();
        let (blocks, pages) = (geometry.blocks as usize, geometry.pages_per_block as usize);
        let is_block = |block: &Option<Box<[u64]>>| {
            block.as_ref().is_none_or(|versions| versions.len() == pages)
        };
        if saved.versions.len() != blocks || !saved.versions.iter().all(is_block) {
            return Err(LoadError::Part { die, what: "versions of pages" });
        }
        self.chip.set_state(saved.chip).map_err(|reason| LoadError::Chip { die, reason })?;
        self.versions = saved.versions;
        Ok(())
    }
}

//! Bytes of pages, in memory or in a file of the host.
//!
//! A page in a file has a place of its own, which is free again when the last version that has it is gone. The file has
//! no name, so it is gone with the device. If the host's disk is full, a page stays in memory: the device goes on.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that takes bytes of pages, all of one size.
#[derive(Debug)]
pub(crate) struct PageFile {
    file: File,
    page_bytes: usize,
    places: Mutex<Places>,
}

/// Which places of the file hold a page.
#[derive(Debug, Default)]
struct Places {
    /// Places from here on were never used.
    end: u64,
    free: Vec<u64>,
}

impl PageFile {
    /// A file without a name in `folder`, for pages of `page_bytes`.
    ///
    /// # Errors
    /// Those of making a file there.
    pub(crate) fn new(folder: &Path, page_bytes: usize) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (path, file) = loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".nandlab-pages-{}-{number}", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                // Left by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => break (path, opened?),
            }
        };
        // Nobody else needs it, and a server that is killed leaves nothing behind.
        std::fs::remove_file(&path)?;
        Ok(Self { file, page_bytes, places: Mutex::default() })
    }

    fn take(&self) -> u64 {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // The lowest ones first would keep the file short, and cost a search.
        places.free.pop().unwrap_or_else(|| {
            places.end += 1;
            places.end - 1
        })
    }

    fn give_back(&self, place: u64) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(place < places.end, "a place is given back once");
        places.free.push(place);
    }

    fn offset(&self, place: u64) -> u64 {
        place * self.page_bytes as u64
    }
}

/// The bytes of a page.
#[derive(Clone, Debug)]
pub(crate) enum PageBytes {
    Memory(Arc<[u8]>),
    File(Arc<FilePage>),
}

/// A place of a file, as long as a version of a page has it.
#[derive(Debug)]
pub(crate) struct FilePage {
    file: Arc<PageFile>,
    place: u64,
}

impl Drop for FilePage {
    fn drop(&mut self) {
        self.file.give_back(self.place);
    }
}

impl PageBytes {
    /// Keeps a page: in the file, if there is one with room.
    pub(crate) fn keep(bytes: Arc<[u8]>, file: Option<&Arc<PageFile>>) -> Self {
        let Some(file) = file else { return Self::Memory(bytes) };
        debug_assert_eq!(bytes.len(), file.page_bytes, "whole pages are kept");
        let page = FilePage { place: file.take(), file: Arc::clone(file) };
        match file.file.write_all_at(&bytes, file.offset(page.place)) {
            Ok(()) => Self::File(Arc::new(page)),
            Err(_) => Self::Memory(bytes),
        }
    }

    /// Copies bytes from `offset` on; false if the host cannot read its file.
    pub(crate) fn copy_to(&self, offset: usize, bytes: &mut [u8]) -> bool {
        match self {
            Self::Memory(held) => {
                bytes.copy_from_slice(&held[offset..offset + bytes.len()]);
                true
            }
            Self::File(page) => {
                let begin = page.file.offset(page.place) + offset as u64;
                page.file.file.read_exact_at(bytes, begin).is_ok()
            }
        }
    }

    /// Looks at all of them; none if the host cannot read its file.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self {
            Self::Memory(held) => Some(look(held)),
            Self::File(page) => {
                let mut bytes = vec![0; page.file.page_bytes];
                self.copy_to(0, &mut bytes).then(|| look(&bytes))
            }
        }
    }

    /// The bytes in memory, to be changed; none if the host cannot read its file.
    pub(crate) fn into_memory(self) -> Option<Arc<[u8]>> {
        match self {
            Self::Memory(held) => Some(held),
            Self::File(_) => self.look(|bytes| Arc::from(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PageBytes, PageFile};
    use std::sync::Arc;

    #[test]
    fn a_place_is_used_again_when_no_version_has_it() {
        let file = Arc::new(PageFile::new(&std::env::temp_dir(), 4).expect("a file"));
        let keep = |byte: u8| PageBytes::keep(Arc::from([byte; 4]), Some(&file));
        let (first, second) = (keep(1), keep(2));
        let copy = first.clone();
        drop(first);
        let third = keep(3);
        let length = || file.file.metadata().expect("of a file").len();
        assert_eq!(length(), 12, "the copy has the first place");
        drop(copy);
        let fourth = keep(4);
        assert_eq!(length(), 12, "the first place again");
        let mut found = [0; 2];
        for (page, byte) in [(&second, 2), (&third, 3), (&fourth, 4)] {
            assert!(page.copy_to(1, &mut found));
            assert_eq!(found, [byte; 2]);
            assert_eq!(page.look(|bytes| bytes == [byte; 4]), Some(true));
        }
        assert_eq!(fourth.into_memory().as_deref(), Some(&[4; 4][..]));
    }

    #[test]
    fn a_folder_that_is_none_is_told() {
        let missing = std::env::temp_dir().join("no such folder");
        assert!(PageFile::new(&missing, 4).is_err());
    }
}

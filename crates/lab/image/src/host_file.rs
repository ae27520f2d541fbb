//! A file of the host, as the pages of it that hold anything.
//!
//! What is zero is a hole of the image, however the host stores it: the same contents make the same image
//! on every host. `mkfs.ubifs` does so, too. Where the host records holes (`SEEK_DATA`), they are not
//! even read, so that time and memory follow the data and not the length.

use crate::error::ImageError;
use fs_api::PAGE_BYTES;
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;
const PAGE: u64 = PAGE_BYTES as u64;

/// What follows in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Bytes from an offset on, which is that of a page; no page of them is zero as a whole.
    Data(u64, &'a [u8]),
    /// So many bytes are zero.
    Zeros(u64),
}

/// A file that is read once, from its beginning to its end.
pub(crate) struct HostFile {
    file: File,
    bytes: u64,
    at: u64,
    /// Bytes that were read, and where they begin.
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl HostFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ImageError> {
        let failed = ImageError::io(path);
        let file = File::open(path).map_err(&failed)?;
        let bytes = file.metadata().map_err(&failed)?.len();
        Ok(Self { file, bytes, at: 0, buffer: Vec::new(), buffer_at: 0 })
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next piece; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        cancellation::check();
        if self.at >= self.bytes {
            return Ok(None);
        }
        let start = self.at;
        if self.buffered().is_empty() {
            let data = self.next_data();
            if data > start {
                self.at = data;
                return Ok(Some(Piece::Zeros(data - start)));
            }
            self.fill()?;
        }
        let is_zero = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let pages = self.buffered().chunks(PAGE_BYTES);
        let is_hole = self.buffered().chunks(PAGE_BYTES).next().is_some_and(is_zero);
        let count: usize = pages.take_while(|page| is_zero(page) == is_hole).map(<[u8]>::len).sum();
        self.at += count as u64;
        if is_hole {
            return Ok(Some(Piece::Zeros(count as u64)));
        }
        let from = (start - self.buffer_at) as usize;
        Ok(Some(Piece::Data(start, &self.buffer[from..from + count])))
    }

    fn buffered(&self) -> &[u8] {
        let from = usize::try_from(self.at - self.buffer_at).unwrap_or(usize::MAX);
        self.buffer.get(from..).unwrap_or(&[])
    }

    /// The page from which on the host has data; the end of the file if there is none.
    fn next_data(&self) -> u64 {
        match seek(&self.file, SeekFrom::Data(self.at)) {
            // In whole pages, so that pieces begin at pages.
            Ok(data) => (data / PAGE * PAGE).clamp(self.at, self.bytes),
            Err(rustix::io::Errno::NXIO) => self.bytes,
            // A host without holes: all of it is read.
            Err(_) => self.at,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let needed = (self.bytes - self.at).min(BUFFER_BYTES as u64) as usize;
        self.buffer.resize(needed, 0);
        self.buffer_at = self.at;
        let mut filled = 0;
        while filled < needed {
            match self.file.read_at(&mut self.buffer[filled..], self.at + filled as u64)? {
                // The file was cut meanwhile: what is there now is all of it.
                0 => break,
                count => filled += count,
            }
        }
        if filled < needed {
            self.buffer.truncate(filled);
            self.bytes = self.at + filled as u64;
        }
        Ok(())
    }
}

/// Bytes of the pages that are written into an image: those that hold anything, and the last.
pub(crate) fn data_bytes(path: &Path) -> Result<u64, ImageError> {
    let mut file = HostFile::open(path)?;
    let (mut bytes, mut is_hole) = (0, false);
    while let Some(piece) = file.next().map_err(ImageError::io(path))? {
        is_hole = matches!(piece, Piece::Zeros(_));
        if let Piece::Data(_, data) = piece {
            bytes += data.len() as u64;
        }
    }
    // The last page is written even if it is a hole: it gives the file its length.
    Ok(bytes + if is_hole { PAGE } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::{BUFFER_BYTES, HostFile, Piece};
    use fs_api::PAGE_BYTES;
    use std::os::unix::fs::FileExt;

    /// Pieces as (is data, offset, bytes).
    fn pieces(path: &std::path::Path) -> Vec<(bool, u64, u64)> {
        let mut file = HostFile::open(path).expect("it opens");
        let (mut found, mut at): (Vec<(bool, u64, u64)>, u64) = (Vec::new(), 0);
        while let Some(piece) = file.next().expect("it is read") {
            let (is_data, bytes) = match piece {
                Piece::Data(offset, bytes) => {
                    assert_eq!(offset, at);
                    (true, bytes.len() as u64)
                }
                Piece::Zeros(bytes) => (false, bytes),
            };
            match found.last_mut() {
                Some(last) if last.0 == is_data => last.2 += bytes,
                _ => found.push((is_data, at, bytes)),
            }
            at += bytes;
        }
        found
    }

    #[test]
    fn pages_of_zeros_are_holes_however_they_are_stored() {
        let folder = std::env::temp_dir().join(format!("host-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let page = PAGE_BYTES as u64;
        let length = 40 * BUFFER_BYTES as u64 + 10;
        let (sparse, plain) = (folder.join("sparse"), folder.join("plain"));
        let file = std::fs::File::create(&sparse).expect("a file");
        file.set_len(length).expect("a hole");
        let mut whole = vec![0; length as usize];
        for at in [3 * page + 7, 5 * page, 20 * BUFFER_BYTES as u64 - 1] {
            file.write_all_at(b"x", at).expect("written");
            whole[at as usize] = b'x';
        }
        std::fs::write(&plain, &whole).expect("written");
        let found = pieces(&sparse);
        assert_eq!(found, pieces(&plain));
        let last = 20 * BUFFER_BYTES as u64 - page;
        let expected = [
            (false, 0, 3 * page),
            (true, 3 * page, page),
            (false, 4 * page, page),
            (true, 5 * page, page),
            (false, 6 * page, last - 6 * page),
            (true, last, page),
            (false, last + page, length - last - page),
        ];
        assert_eq!(found, expected);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}

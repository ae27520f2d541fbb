//! Contents of files whose size is only claimed: holes are handed on as such, and take no time.

use fs_api::{Errno, FileSystem, InodeNumber, PAGE_BYTES};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const PAGE: u64 = PAGE_BYTES as u64;
/// Pages that are handed on together: 64 KiB.
const PIECE_PAGES: u64 = 16;
/// Pages of a file that are tried one by one if its map is damaged: four gigabytes.
const PAGES_TRIED_MAX: u64 = 1 << 20;
/// Zeros that are handed out at once: enough that a hole of gigabytes costs what its hash costs.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// What follows in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of pages that lie on the medium, from an offset on.
    Data(u64, &'a [u8]),
    /// So many bytes lie nowhere, and are zero.
    Hole(u64),
}

/// A file that could not be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Where reading failed, bytes.
    pub offset: u64,
    /// The answer of the file system.
    pub errno: Errno,
}

/// Hands a file to `see`, in order and without gaps; holes are not read.
///
/// # Errors
/// A [`ReadError`] with the [`Errno`] of the first call that failed, of the file system or of `see`.
pub async fn read_pieces<F: FileSystem>(
    file_system: &F,
    inode: InodeNumber,
    mut see: impl FnMut(Piece<'_>) -> Result<(), Errno>,
) -> Result<(), ReadError> {
    let at = |offset: u64| move |errno| ReadError { offset, errno };
    let bytes = file_system.attributes(inode).await.map_err(at(0))?.size_bytes;
    let pages = bytes.div_ceil(PAGE);
    let ranges = match file_system.data_pages(inode).await {
        Ok(Some(ranges)) => ranges,
        // A file system that keeps no map of a file: all of it counts as data.
        Ok(None) => std::iter::once(0..pages).collect(),
        // Parts of a file whose map is damaged may be read still.
        Err(_) if pages <= PAGES_TRIED_MAX => std::iter::once(0..pages).collect(),
        Err(errno) => return Err(ReadError { offset: 0, errno }),
    };
    let mut piece = Vec::new();
    let mut next = 0;
    for range in ranges {
        // Ranges of a damaged map may overlap or lie behind the end; each page is handed on once.
        let (first, end) = (range.start.max(next), range.end.min(pages));
        if first >= end {
            continue;
        }
        if first > next {
            see(Piece::Hole((first - next) * PAGE)).map_err(at(next * PAGE))?;
        }
        for start in (first..end).step_by(PIECE_PAGES as usize) {
            // Between pieces: a file of gigabytes must not delay a request to stop.
            cancellation::check();
            let offset = start * PAGE;
            piece.clear();
            for page in start..end.min(start + PIECE_PAGES) {
                let mut page_bytes = [0; PAGE_BYTES];
                let read = file_system.read_page(inode, page, &mut page_bytes).await;
                read.map_err(at(page * PAGE))?;
                piece.extend_from_slice(&page_bytes);
            }
            // The last page reaches past the end of the file.
            piece.truncate((bytes - offset).min(piece.len() as u64) as usize);
            see(Piece::Data(offset, &piece)).map_err(at(offset))?;
        }
        next = end;
    }
    // The rest up to the end, which need not be a whole page.
    if next < pages {
        see(Piece::Hole(bytes - next * PAGE)).map_err(at(next * PAGE))?;
    }
    Ok(())
}

/// Hands so many zeros to `see`, in large pieces.
pub fn add_zeros(bytes: u64, mut see: impl FnMut(&[u8])) {
    let mut left = bytes;
    while left > 0 {
        cancellation::check();
        let count = left.min(ZEROS.len() as u64);
        see(&ZEROS[..count as usize]);
        left -= count;
    }
}

/// SHA-256 over the contents of files that may be holes for the most part.
///
/// Many files of a damaged tree claim the same size and begin with a hole: that of each length is
/// hashed once.
#[derive(Default)]
pub struct FileHashes {
    /// What follows after so many zeros at the beginning.
    after_zeros: BTreeMap<u64, Sha256>,
}

impl FileHashes {
    /// The hash of a file, as bytes.
    ///
    /// # Errors
    /// A [`ReadError`] with the [`Errno`] of the first call that failed, [`Errno::Eio`] for damage.
    pub async fn sha256<F: FileSystem>(
        &mut self,
        file_system: &F,
        inode: InodeNumber,
    ) -> Result<[u8; 32], ReadError> {
        let mut hash = Sha256::new();
        let mut is_begun = false;
        let add = |piece: Piece<'_>| {
            match piece {
                // A hole at the beginning is the common case of damaged headers, and its hash is
                // kept by length.
                Piece::Data(_, bytes) => hash.update(bytes),
                Piece::Hole(bytes) if is_begun => add_zeros(bytes, |zeros| hash.update(zeros)),
                Piece::Hole(bytes) => hash = self.of_zeros(bytes),
            }
            is_begun = true;
            Ok(())
        };
        read_pieces(file_system, inode, add).await?;
        Ok(hash.finalize().into())
    }

    fn of_zeros(&mut self, bytes: u64) -> Sha256 {
        let known = self.after_zeros.range(..=bytes).next_back();
        let (done, mut hash) =
            // The longest known run of zeros is a prefix of every longer one.
            known.map_or((0, Sha256::new()), |(done, hash)| (*done, hash.clone()));
        add_zeros(bytes - done, |zeros| hash.update(zeros));
        self.after_zeros.insert(bytes, hash.clone());
        hash
    }
}

/// A digest that differs for files of different contents within the same program: pages of zeros count
/// as holes, and these by their length alone.
///
/// # Errors
/// A [`ReadError`] with the [`Errno`] of the first call that failed, [`Errno::Eio`] for damage.
pub async fn fingerprint<F: FileSystem>(
    file_system: &F,
    inode: InodeNumber,
) -> Result<[u8; 32], ReadError> {
    let mut hash = Sha256::new();
    let add = |piece: Piece<'_>| {
        if let Piece::Data(offset, bytes) = piece {
            for (page, bytes) in (offset / PAGE..).zip(bytes.chunks(PAGE_BYTES)) {
                // Zeros count as a hole, so that a file system that stores them and one that does
                // not agree.
                if bytes.iter().any(|byte| *byte != 0) {
                    hash.update(page.to_le_bytes());
                    hash.update(bytes);
                }
            }
        }
        Ok(())
    };
    read_pieces(file_system, inode, add).await?;
    Ok(hash.finalize().into())
}

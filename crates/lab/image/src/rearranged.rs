//! Dumps whose bytes were rearranged: a programmer's tool, another byte order, spare areas apart.
//!
//! An image in which nothing certain is found is put back in each way of a table, and looked at
//! again. What is found then is reported together with the command that undoes it; the image itself
//! is not read so, because a guess must not become a listing.

use crate::candidate::Known;
use crate::chip::{Found, detect};
use crate::table::{formats, forms};

/// Bytes that are put back and looked at: 64 blocks of 64 pages and their spare areas.
const SAMPLE_BYTES: usize = 64 * 64 * PAGE_BYTES;
/// Data and spare bytes of a large page: the only chips whose dumps were met rearranged.
const DATA_BYTES: usize = 2048;
const SPARE_BYTES: usize = 64;
const PAGE_BYTES: usize = DATA_BYTES + SPARE_BYTES;
/// Pages of a block of such a chip.
const BLOCK_PAGES: usize = 64;

/// A way to rearrange a dump: how it is put back, and what to tell the user.
struct Rearrangement {
    /// Puts back a part of the image from its beginning.
    undo: fn(&[u8]) -> Vec<u8>,
    /// What is the matter, and what undoes it.
    advice: &'static str,
}

const REARRANGEMENTS: &[Rearrangement] = &[
    Rearrangement {
        undo: |image| swapped(sample(image), 2),
        advice: "its bytes are swapped in pairs (a 16-bit bus): undo it with `dd conv=swab`",
    },
    Rearrangement {
        undo: |image| swapped(sample(image), 4),
        advice: "its bytes are reversed in words of four (the other byte order): \
                 undo it with `objcopy -I binary -O binary --reverse-bytes=4`",
    },
    Rearrangement {
        undo: |image| sample(image).iter().map(|byte| !byte).collect(),
        advice: "all its bits are inverted: write it again with every byte XORed with 0xFF",
    },
    Rearrangement {
        undo: |image| interleaved(sample(image), BLOCK_PAGES),
        advice: "the spare areas stand behind the data of each block: \
                 write each page with its 64 spare bytes behind it, as `nanddump --oob` does",
    },
    Rearrangement {
        // Two pages of 2 KiB are one of 4 KiB, with 128 spare bytes.
        undo: |image| interleaved(sample(image), 2),
        advice: "its spare areas stand behind every second page of 2 KiB, as on a chip with pages of 4 KiB: \
                 pages of 512 bytes and of 2 KiB alone are known here",
    },
    Rearrangement {
        undo: |image| interleaved_from_halves(image),
        advice: "the spare areas of all pages stand behind the data of the whole chip: \
                 write each page with its 64 spare bytes behind it, as `nanddump --oob` does",
    },
    Rearrangement {
        undo: |image| {
            let pages = sample(image).chunks_exact(PAGE_BYTES);
            pages.flat_map(|page| [&page[SPARE_BYTES..], &page[..SPARE_BYTES]].concat()).collect()
        },
        advice: "the spare area of each page stands before its data: write it behind, as `nanddump --oob` does",
    },
    Rearrangement {
        undo: |image| {
            let pages = sample(image).chunks_exact(PAGE_BYTES + SPARE_BYTES);
            pages.flat_map(|page| &page[..PAGE_BYTES]).copied().collect()
        },
        advice: "it has 128 spare bytes a page, of which 64 are known here: keep the first 2112 bytes of every 2176",
    },
];

/// What was done to an image in which nothing certain is found, with the remedy; none if no known
/// rearrangement explains it.
pub(crate) fn find_rearrangement(image: &[u8], known: &Known) -> Option<String> {
    let found = REARRANGEMENTS.iter().find_map(|rearrangement| {
        let restored = (rearrangement.undo)(image);
        Some((file_system_in(&restored, known)?, rearrangement.advice))
    });
    if let Some((file_system, advice)) = found {
        return Some(format!("not certain: this looks like {file_system}, but {advice}"));
    }
    // Last, for four bytes are weak evidence beside a whole sample that fits.
    let skipped = header_before_ubi(image)?;
    Some(format!(
        "not certain: this looks like UBI behind {skipped} other bytes: cut them off with `dd bs={skipped} skip=1`"
    ))
}

/// The file system that is certain to be in a part of an image.
fn file_system_in(image: &[u8], known: &Known) -> Option<&'static str> {
    let is_certain = |name, is_certain_in: fn(&[u8], &Known) -> bool| {
        let is_meant = known.file_system.is_none_or(|asked| asked == name);
        is_meant && is_certain_in(image, known)
    };
    for format in formats() {
        if format.signature.is_some_and(|row| is_certain(format.name, row.is_certain_in)) {
            return Some(format.name);
        }
    }
    match detect(image, known, &forms()) {
        Found::Certain(dump) => Some(dump.form.file_system),
        Found::Uncertain(_) | Found::Nothing => None,
    }
}

fn sample(image: &[u8]) -> &[u8] {
    &image[..image.len().min(SAMPLE_BYTES)]
}

fn swapped(image: &[u8], word_bytes: usize) -> Vec<u8> {
    image.chunks_exact(word_bytes).flat_map(|word| word.iter().rev()).copied().collect()
}

/// Groups of pages whose spare areas stand behind their data, page by page.
fn interleaved(image: &[u8], pages: usize) -> Vec<u8> {
    let mut restored = Vec::with_capacity(image.len());
    for group in image.chunks_exact(pages * PAGE_BYTES) {
        let (data, spare) = group.split_at(pages * DATA_BYTES);
        interleave(data, spare, &mut restored);
    }
    restored
}

/// The first pages of a chip whose spare areas stand behind the data of all of it.
fn interleaved_from_halves(image: &[u8]) -> Vec<u8> {
    let pages = image.len() / PAGE_BYTES;
    let (data, spare) = image.split_at(pages * DATA_BYTES);
    // Where the halves meet depends on the whole image; only what is put back is a sample.
    let pages = pages.min(SAMPLE_BYTES / PAGE_BYTES);
    let mut restored = Vec::with_capacity(pages * PAGE_BYTES);
    interleave(&data[..pages * DATA_BYTES], &spare[..pages * SPARE_BYTES], &mut restored);
    restored
}

fn interleave(data: &[u8], spare: &[u8], restored: &mut Vec<u8>) {
    for (data, spare) in data.chunks_exact(DATA_BYTES).zip(spare.chunks_exact(SPARE_BYTES)) {
        restored.extend_from_slice(data);
        restored.extend_from_slice(spare);
    }
}

/// Bytes before the first header of UBI, if the image does not begin with it: a vendor's header.
fn header_before_ubi(image: &[u8]) -> Option<usize> {
    /// The first four bytes of UBI's first header (`UBI_EC_HDR_MAGIC`).
    const MAGIC: &[u8; 4] = b"UBI#";
    /// Vendors' headers are a few KiB.
    const HEADER_BYTES_MAX: usize = 64 << 10;
    let beginning = &image[..image.len().min(HEADER_BYTES_MAX)];
    beginning.windows(MAGIC.len()).position(|bytes| bytes == MAGIC).filter(|at| *at > 0)
}

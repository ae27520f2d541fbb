//! How much of an image tags of YAFFS2 explain.

use crate::chip::{Form, is_blank, pages, share};
use yaffs2::{EccResult, TAGS_BYTES, TAGS_ECC_BYTES, Tags};

/// The first four bytes of JFFS2's mark of a clean block in the spare area.
const JFFS2_MARKER: u32 = 0x2003_1985;
/// Object whose chunks are block summaries (`YAFFS_OBJECTID_SUMMARY`).
const OBJECT_SUMMARY: u32 = 0x10;

/// How tags stand in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagsForm {
    /// In the free bytes of the spare area, with their code.
    SpareWithEcc,
    /// In the free bytes of the spare area, without.
    Spare,
    /// At the end of the page.
    Inband,
}

/// Share of the written pages that have sensible tags.
pub(crate) fn tags_share(image: &[u8], form: &Form, place: TagsForm) -> f64 {
    let (mut written, mut tagged) = (0_u32, 0_u32);
    for (data, oob) in pages(image, form) {
        // An erased page has no tags in any form, and would count against the right one.
        if is_blank(data) {
            continue;
        }
        written += 1;
        let mut stored = [0xff; TAGS_ECC_BYTES];
        match place {
            TagsForm::Inband => stored[..TAGS_BYTES].copy_from_slice(&data[data.len() - 16..]),
            _ => form.layout.gather(oob, 0, &mut stored),
        }
        let tags = if place == TagsForm::SpareWithEcc {
            let (tags, result) = Tags::from_bytes_with_ecc(&stored);
            // A corrected bit is still evidence: chips flip bits, and chance seldom makes a code.
            (result != EccResult::Unfixed).then_some(tags)
        } else {
            let mut bytes = [0; TAGS_BYTES];
            bytes.copy_from_slice(&stored[..TAGS_BYTES]);
            Some(Tags::from_bytes(&bytes))
        };
        let is_sensible = |tags: Tags| {
            let is_known = tags.object == OBJECT_SUMMARY
                || tags.is_checkpoint()
                || tags.object > 0 && tags.is_sane(tags.sequence, form.layout.page_bytes);
            // JFFS2's mark of a clean block would be sensible tags, where these have no code.
            let is_marker = tags.sequence == JFFS2_MARKER;
            is_known && !is_marker && (tags.is_checkpoint() || tags.has_data_sequence())
        };
        tagged += u32::from(tags.is_some_and(is_sensible));
    }
    share(tagged.into(), written.into())
}

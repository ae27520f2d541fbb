//! The table of formats, and what follows from all its rows.

use crate::chip::Dump;
use crate::contract::Format;
use crate::formats::{jffs2, nilfs2, of_row, ubifs, yaffs2};
use file_systems::{KINDS, find_kind};

/// Formats of images, sorted by name. Those that rows of the table of file systems bring themselves come
/// beside them: [`formats`].
pub(crate) const FORMATS: &[Format] =
    &[jffs2::FORMAT, nilfs2::FORMAT, ubifs::FORMAT, yaffs2::FORMAT];

/// What is said of a file in which no format is found. A test holds that it names all rows of [`FORMATS`].
pub(crate) const NOTHING_FOUND: &str = "neither headers of UBI, nor nodes of JFFS2, nor tags of YAFFS2, nor a superblock of NILFS2 \
     are found in it; if it is one of them, say which: --fs, --oob-layout, --page-size";

/// All formats, those with the best evidence first: that order tells which of two is believed.
pub(crate) fn formats() -> Vec<Format> {
    let of_rows = KINDS.iter().filter_map(of_row::format);
    let mut formats: Vec<Format> = FORMATS.iter().copied().chain(of_rows).collect();
    formats.sort_by_key(|format| format.evidence);
    formats
}

/// The forms of all formats, in the order in which they are tried on a dump.
pub(crate) fn forms() -> Vec<Dump> {
    let of = |format: Format| (format.forms)(find_kind(format.name).expect("a row; tested"));
    formats().into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{FORMATS, NOTHING_FOUND, formats, forms};
    use file_systems::KINDS;

    #[test]
    fn each_file_system_has_one_format_or_a_reason_for_none() {
        assert!(FORMATS.is_sorted_by_key(|format| format.name));
        for kind in KINDS {
            let found = formats().iter().filter(|format| format.name == kind.name).count();
            let is_missing = kind.images_instead.is_some();
            assert_eq!(found, usize::from(!is_missing), "{}", kind.name);
        }
        assert!(formats().iter().all(|format| KINDS.iter().any(|kind| kind.name == format.name)));
    }

    #[test]
    fn every_format_can_be_found() {
        for format in formats() {
            let is_tried = forms().iter().any(|dump| dump.form.file_system == format.name);
            assert!(is_tried || format.signature.is_some(), "{}", format.name);
        }
        for format in FORMATS {
            // UBIFS is found by the headers of UBI.
            let shown = format.name.strip_suffix("fs").filter(|name| *name == "ubi");
            let shown = shown.unwrap_or(format.name).to_uppercase();
            assert!(NOTHING_FOUND.contains(&shown), "{shown}");
        }
    }
}

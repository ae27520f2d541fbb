//! What the bytes of an image say of its format and its spare areas.
//!
//! Every form that is known is tried on the whole image, and the one that explains most of it wins: of
//! JFFS2 the share of bytes that lie in nodes with sound headers, of YAFFS2 the share of written
//! pages with sensible tags. Where both file systems could be meant, tags win: files may hold nodes.
//! A form that explains too little is not believed (`SHARE_CERTAIN`): a listing made with a wrong form
//! shows an empty or a garbled file system. `rearranged.rs` then looks for what was done to the bytes.
//! Formats with headers of their own, as UBI, are looked for before.

use crate::candidate::Known;
use crate::chip::dump::Dump;
use crate::chip::image::Form;
use mtd::OobLayout;
use std::cmp::Ordering;

/// Share of an image that has to be explained where the user names the file system.
const SHARE_MIN: f64 = 0.02;
/// Share from which on a form is believed without a word of the user. Dumps of kernels explain 0.99 and
/// more, torn and collected ones included; the best wrong form of a rearranged dump explained 0.504
/// (tags without ECC in a dump whose bytes are swapped in pairs, where every other word looks sensible).
const SHARE_CERTAIN: f64 = 0.75;
/// Images shorter than this are filled up with 0xFF before they are looked at.
const SMALL_BYTES: usize = 2 * 2112;

/// What is found in an image.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// A form that explains the image, or that the user asked for.
    Certain(Dump),
    /// The best form explains too little to be believed.
    Uncertain(Dump),
    /// No form explains anything.
    Nothing,
}

/// The form that explains most of an image, of those that are tried in this order.
pub(crate) fn detect(image: &[u8], known: &Known, forms: &[Dump]) -> Found {
    match best_form(image, known, forms) {
        Some(dump) if dump.form.share >= SHARE_CERTAIN || known.file_system.is_some() => {
            Found::Certain(dump)
        }
        Some(dump) => Found::Uncertain(dump),
        None => Found::Nothing,
    }
}

fn best_form(image: &[u8], known: &Known, forms: &[Dump]) -> Option<Dump> {
    // The last page of a plain image may be short, and the only one.
    let file_bytes = image.len();
    let mut whole = Vec::new();
    if file_bytes < SMALL_BYTES {
        whole.extend_from_slice(image);
        whole.resize(SMALL_BYTES, 0xff);
    }
    let image = if whole.is_empty() { image } else { &whole[..] };
    let mut best: Option<(Form, &Dump)> = None;
    for dump in fitting(known, forms) {
        if dump.form.has_oob && file_bytes < dump.form.stride() {
            continue;
        }
        let share = dump.on_chip.share(image, &dump.form, known.block_bytes);
        debug_assert!((0.0..=1.0).contains(&share), "{:?} explains {share}", dump.form);
        let form = Form { share, ..dump.form };
        let is_better = |best: Form| match form.share.total_cmp(&best.share) {
            Ordering::Greater => true,
            Ordering::Equal => is_likelier(image, file_bytes, &form, &best),
            Ordering::Less => false,
        };
        if form.share >= SHARE_MIN && best.is_none_or(|(best, _)| is_better(best)) {
            best = Some((form, dump));
        }
        if dump.settling_share.is_some_and(|settling| form.share >= settling) {
            break;
        }
    }
    let (form, dump) = best?;
    let layout = with_code(image, &form, dump.layout_with_ecc, known);
    Some(Dump { form: Form { layout, ..form }, ..dump.clone() })
}

/// Which of two forms that explain as much is meant. An image with little in it is explained with spare
/// areas as well as without: its first page holds all nodes, and the rest is blank. A file of whole
/// pages of one form only is of that form; else spare areas are believed in where one is not blank.
fn is_likelier(image: &[u8], file_bytes: usize, form: &Form, best: &Form) -> bool {
    let is_whole = |form: &Form| file_bytes.is_multiple_of(form.stride());
    match (is_whole(form), is_whole(best)) {
        (true, false) => true,
        (false, true) => false,
        _ => {
            let has_spares =
                |form: &Form| !form.has_oob || pages(image, form).any(|(_, oob)| !is_blank(oob));
            has_spares(form) && !has_spares(best)
        }
    }
}

/// The first form that fits what is known, for an image in which nothing is found.
pub(crate) fn assume(known: &Known, has_oob: bool, forms: &[Dump]) -> Option<Dump> {
    let dump = fitting(known, forms).find(|dump| dump.form.has_oob == has_oob && !dump.is_rare);
    let dump = dump.or_else(|| fitting(known, forms).next())?;
    let is_protected = dump.form.has_oob && known.has_ecc != Some(false);
    let layout = if is_protected { dump.layout_with_ecc } else { dump.form.layout };
    Some(Dump { form: Form { layout, ..dump.form }, ..dump.clone() })
}

fn fitting<'f>(known: &Known, forms: &'f [Dump]) -> impl Iterator<Item = &'f Dump> {
    let known = *known;
    forms.iter().filter(move |dump| {
        let Form { file_system, has_oob, layout, .. } = dump.form;
        let has_name = |asked: &OobLayout| {
            asked.name == layout.name || asked.name == dump.layout_with_ecc.name
        };
        known.file_system.is_none_or(|name| name == file_system)
            && known.page_bytes.is_none_or(|bytes| bytes == layout.page_bytes)
            && known.has_oob.is_none_or(|asked| asked == has_oob)
            && known.layout.is_none_or(has_name)
            // Without spare areas the size of a page is not to be seen, and matters to no reader.
            && (has_oob || layout.page_bytes == 2048 || known.page_bytes == Some(512))
    })
}

/// The layout with or without ECC, by what is known or else by most of the written pages.
fn with_code(
    image: &[u8],
    form: &Form,
    layout_with_ecc: &'static OobLayout,
    known: &Known,
) -> &'static OobLayout {
    if !form.has_oob || layout_with_ecc.ecc_places.is_empty() {
        return form.layout;
    }
    if let Some(asked) = known.layout {
        return asked;
    }
    if let Some(has_ecc) = known.has_ecc {
        return if has_ecc { layout_with_ecc } else { form.layout };
    }
    if is_protected(pages(image, form), layout_with_ecc) { layout_with_ecc } else { form.layout }
}

/// Whether the code of a layout agrees with most of the written pages: data and spare bytes.
pub(crate) fn is_protected<'i>(
    pages: impl Iterator<Item = (&'i [u8], &'i [u8])>,
    layout: &OobLayout,
) -> bool {
    let (mut sound, mut wrong, mut without_code) = (0_u32, 0_u32, 0_u32);
    for (data, oob) in pages {
        cancellation::check();
        let has_code = layout.ecc_places.iter().any(|place| !is_blank(&oob[place.clone()]));
        if is_blank(data) || !has_code {
            // A page without a code is torn, or of an image without codes.
            without_code += u32::from(!is_blank(data));
            continue;
        }
        let (_, lost) = layout.correct(&mut data.to_vec(), oob);
        if lost == 0 {
            sound += 1;
        } else {
            wrong += 1;
        }
    }
    if sound + wrong == 0 {
        // One power cut tears one page, and a torn page has no code. A single page without a code is
        // therefore no evidence that the chip has none: chips with spare areas do.
        return without_code == 1;
    }
    sound >= wrong + without_code
}

/// Nothing was ever written to these bytes.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xff)
}

/// Data and spare bytes of all whole pages.
pub(crate) fn pages<'i>(
    image: &'i [u8],
    form: &Form,
) -> impl Iterator<Item = (&'i [u8], &'i [u8])> {
    let data_bytes = form.layout.page_bytes as usize;
    image.chunks_exact(form.stride()).map(move |page| {
        cancellation::check();
        page.split_at(data_bytes)
    })
}

/// A part of a whole, from 0 to 1; of nothing it is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    debug_assert!(part <= whole, "{part} of {whole}");
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

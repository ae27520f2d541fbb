//! What the bytes of an image say of its file system and its spare areas.
//!
//! Every form that is known is tried on the whole image, and the one that explains most of it wins: of
//! JFFS2 the share of bytes that lie in nodes with sound headers, of YAFFS2 the share of written
//! pages with sensible tags. Where both file systems could be meant, tags win: files may hold nodes.
//! A form that explains too little is not believed (`SHARE_CERTAIN`): a listing made with a wrong form
//! shows an empty or a garbled file system. `rearranged.rs` then looks for what was done to the bytes.
//! UBI is looked for before: `detect_ubi.rs`.

use crate::detect_ubi::UbiForm;
use file_systems::{KINDS, find_kind};
use jffs2::nodes::{
    ACCURATE, CLEANMARKER, DIRENT, DirentNode, HEADER_BYTES, Header, INODE, INODE_BYTES, InodeNode,
    crc, padded,
};
use mount::{ImageForm, ImageSupport};
use mtd::{OobLayout, find_layout};
use std::cmp::Ordering;
use yaffs2::{EccResult, TAGS_BYTES, TAGS_ECC_BYTES, Tags};

/// Share of an image that has to be explained where the user names the file system.
const SHARE_MIN: f64 = 0.02;
/// Share from which on a form is believed without a word of the user. Dumps of kernels explain 0.99 and
/// more, torn and collected ones included; the best wrong form of a rearranged dump explained 0.504
/// (tags without ECC in a dump whose bytes are swapped in pairs, where every other word looks sensible).
const SHARE_CERTAIN: f64 = 0.75;
/// Share of tags from which on nothing else is looked for.
const TAGS_SHARE: f64 = 0.5;
/// Blocks that are looked at for nodes: they are slower to find than tags.
const NODE_BLOCKS_MAX: usize = 64;
/// Images shorter than this are filled up with 0xFF before they are looked at.
const SMALL_BYTES: usize = 2 * 2112;
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

/// A form in which images are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Name of the file system.
    pub file_system: &'static str,
    /// Spare areas are in the image.
    pub has_oob: bool,
    /// Layout of pages and spare areas.
    pub layout: &'static OobLayout,
    /// Where YAFFS2 has its tags.
    pub tags: TagsForm,
    /// Of JFFS2: blocks begin with the node that says that they were erased (NOR style).
    pub has_markers_in_band: bool,
    /// Share of the image that it explains.
    pub share: f64,
    /// Of UBI: where it has its headers.
    pub ubi: Option<UbiForm>,
    /// UBIFS without UBI: the eraseblocks of a volume in a row.
    pub is_bare: bool,
}

impl Form {
    /// Bytes of a page in the image.
    pub fn stride(&self) -> usize {
        let oob_bytes = if self.has_oob { self.layout.oob_bytes } else { 0 };
        (self.layout.page_bytes + oob_bytes) as usize
    }

    /// Tags stand at the first spare byte, where chips keep the bad mark, as mkyaffs2image writes
    /// them; a flasher puts them into the free bytes.
    pub fn is_for_flasher(&self) -> bool {
        self.file_system == "yaffs2" && self.layout.name == "bare" && self.has_oob
    }
}

/// What is known beforehand: only forms that fit are tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    /// Name of the file system.
    pub(crate) file_system: Option<&'a str>,
    /// Spare area; its ECC is not compared.
    pub(crate) layout: Option<&'static OobLayout>,
    /// Whether pages have their ECC.
    pub(crate) has_ecc: Option<bool>,
    /// Bytes of data of a page.
    pub(crate) page_bytes: Option<u32>,
    /// Whether the image has spare areas.
    pub(crate) has_oob: Option<bool>,
    /// Bytes of data of an erase block.
    pub(crate) block_bytes: u32,
    /// The size of a block is given by an option.
    pub(crate) is_block_size_given: bool,
    /// Where UBI has its second header.
    pub(crate) vid_header_offset: Option<u32>,
}

/// (file system, spare areas, layout without page ECC, the same with it, tags)
type Row = (&'static str, bool, &'static str, &'static str, TagsForm);

const FORMS: &[Row] = &[
    ("yaffs2", true, "linux-large-no-ecc", "linux-large", TagsForm::SpareWithEcc),
    ("yaffs2", true, "linux-large-no-ecc", "linux-large", TagsForm::Spare),
    ("yaffs2", true, "bare", "bare", TagsForm::SpareWithEcc),
    ("yaffs2", true, "bare", "bare", TagsForm::Spare),
    ("yaffs2", true, "linux-large-no-ecc", "linux-large", TagsForm::Inband),
    ("yaffs2", false, "linux-large-no-ecc", "linux-large-no-ecc", TagsForm::Inband),
    ("jffs2", true, "linux-large-no-ecc", "linux-large", TagsForm::SpareWithEcc),
    ("jffs2", true, "linux-small-no-ecc", "linux-small", TagsForm::SpareWithEcc),
    ("jffs2", false, "linux-large-no-ecc", "linux-large-no-ecc", TagsForm::SpareWithEcc),
    ("jffs2", false, "linux-small-no-ecc", "linux-small-no-ecc", TagsForm::SpareWithEcc),
];

/// What is found in an image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// A form that explains the image, or that the user asked for.
    Certain(Form),
    /// The best form explains too little to be believed.
    Uncertain(Form),
    /// No form explains anything.
    Nothing,
}

/// The form that explains most of an image.
pub(crate) fn detect(image: &[u8], known: &Known<'_>) -> Found {
    match best_form(image, known) {
        Some(form) if form.share >= SHARE_CERTAIN || known.file_system.is_some() => {
            Found::Certain(form)
        }
        Some(form) => Found::Uncertain(form),
        None => Found::Nothing,
    }
}

fn best_form(image: &[u8], known: &Known<'_>) -> Option<Form> {
    // The last page of a plain image may be short, and the only one.
    let file_bytes = image.len();
    let mut whole = Vec::new();
    if file_bytes < SMALL_BYTES {
        whole.extend_from_slice(image);
        whole.resize(SMALL_BYTES, 0xff);
    }
    let image = if whole.is_empty() { image } else { &whole[..] };
    let forms = fitting(known).filter(|form| !form.has_oob || file_bytes >= form.stride());
    let forms = forms.map(|form| Form { share: share_of(image, &form, known), ..form });
    let mut best: Option<Form> = None;
    for form in forms {
        let is_better = |best: Form| match form.share.total_cmp(&best.share) {
            Ordering::Greater => true,
            Ordering::Equal => is_likelier(image, file_bytes, &form, &best),
            Ordering::Less => false,
        };
        if form.share >= SHARE_MIN && best.is_none_or(is_better) {
            best = Some(form);
        }
        // Tags explain a page better than nodes do: rows of nodes need not be tried.
        if form.file_system == "yaffs2" && form.share >= TAGS_SHARE {
            break;
        }
    }
    let best = best?;
    Some(Form { layout: with_ecc(image, &best, known), ..best })
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
pub(crate) fn assume(known: &Known<'_>, has_oob: bool) -> Option<Form> {
    // Tags in the page are rare: nothing speaks for them.
    let form = fitting(known).find(|form| form.has_oob == has_oob && form.tags != TagsForm::Inband);
    let form = form.or_else(|| fitting(known).next())?;
    let is_protected = form.has_oob && known.has_ecc != Some(false);
    Some(if is_protected { Form { layout: protected(&form), ..form } } else { form })
}

/// The forms of this crate, then those that rows of the table of file systems bring.
fn forms() -> impl Iterator<Item = Row> {
    let own = KINDS.iter().filter_map(|kind| Some((kind.name, kind.images.own()?)));
    let own = own.flat_map(|(name, support)| {
        let row = move |form: &ImageForm| {
            (name, form.has_oob, form.layout, form.layout_with_ecc, TagsForm::SpareWithEcc)
        };
        support.forms().iter().map(row)
    });
    FORMS.iter().copied().chain(own)
}

fn fitting<'k>(known: &'k Known<'_>) -> impl Iterator<Item = Form> + 'k {
    forms().filter_map(|(file_system, has_oob, plain, protected, tags)| {
        let layout = find_layout(plain)?;
        let fits = known.file_system.is_none_or(|name| name == file_system)
            && known.page_bytes.is_none_or(|bytes| bytes == layout.page_bytes)
            && known.has_oob.is_none_or(|asked| asked == has_oob)
            && known.layout.is_none_or(|asked| asked.name == plain || asked.name == protected)
            // Without spare areas the size of a page is not to be seen, and matters to no reader.
            && (has_oob || layout.page_bytes == 2048 || known.page_bytes == Some(512));
        let has_markers_in_band = false;
        let (share, ubi, is_bare) = (0.0, None, false);
        let form =
            Form { file_system, has_oob, layout, tags, has_markers_in_band, share, ubi, is_bare };
        fits.then_some(form)
    })
}

/// What the row of the table brings for images of a file system.
pub(crate) fn own_support(file_system: &str) -> Option<&'static dyn ImageSupport> {
    find_kind(file_system).ok()?.images.own()
}

fn share_of(image: &[u8], form: &Form, known: &Known<'_>) -> f64 {
    if let Some(support) = own_support(form.file_system) {
        let pages_per_block = (known.block_bytes / form.layout.page_bytes).max(1) as usize;
        support.share(&mut pages(image, form), pages_per_block)
    } else if form.file_system == "yaffs2" {
        tags_share(image, form)
    } else {
        let nodes = nodes_share(image, form, known.block_bytes);
        if form.has_oob { nodes.max(marked_share(image, form, known.block_bytes)) } else { nodes }
    }
}

/// Share of the blocks whose spare area says that JFFS2 erased them (`jffs2_write_nand_cleanmarker`):
/// on a chip with a single torn node nothing else tells of the file system.
fn marked_share(image: &[u8], form: &Form, block_bytes: u32) -> f64 {
    let pages_per_block = (block_bytes / form.layout.page_bytes).max(1) as usize;
    let (mut marked, mut blocks) = (0, 0);
    for block in image.chunks_exact(form.stride() * pages_per_block) {
        let (_, oob) = block[..form.stride()].split_at(form.layout.page_bytes as usize);
        let mut first_bytes = [0; 4];
        form.layout.gather(oob, 0, &mut first_bytes);
        marked += u64::from(u32::from_le_bytes(first_bytes) == JFFS2_MARKER);
        blocks += 1;
    }
    share(marked, blocks)
}

/// The layout with ECC of the same kind of page.
fn protected(form: &Form) -> &'static OobLayout {
    let row = forms().find(|row| row.2 == form.layout.name && row.1);
    row.and_then(|row| find_layout(row.3)).unwrap_or(form.layout)
}

/// The layout with or without ECC, by what is known or else by most of the written pages.
fn with_ecc(image: &[u8], form: &Form, known: &Known<'_>) -> &'static OobLayout {
    let layout = protected(form);
    if !form.has_oob || layout.ecc_places.is_empty() {
        return form.layout;
    }
    if let Some(asked) = known.layout {
        return asked;
    }
    if let Some(has_ecc) = known.has_ecc {
        return if has_ecc { layout } else { form.layout };
    }
    if is_protected(pages(image, form), layout) { layout } else { form.layout }
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

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xff)
}

/// Data and spare bytes of all whole pages.
fn pages<'i>(image: &'i [u8], form: &Form) -> impl Iterator<Item = (&'i [u8], &'i [u8])> {
    let data_bytes = form.layout.page_bytes as usize;
    image.chunks_exact(form.stride()).map(move |page| {
        cancellation::check();
        page.split_at(data_bytes)
    })
}

fn tags_share(image: &[u8], form: &Form) -> f64 {
    let (mut written, mut tagged) = (0_u32, 0_u32);
    for (data, oob) in pages(image, form) {
        if is_blank(data) {
            continue;
        }
        written += 1;
        let mut stored = [0xff; TAGS_ECC_BYTES];
        match form.tags {
            TagsForm::Inband => stored[..TAGS_BYTES].copy_from_slice(&data[data.len() - 16..]),
            _ => form.layout.gather(oob, 0, &mut stored),
        }
        let tags = if form.tags == TagsForm::SpareWithEcc {
            let (tags, result) = Tags::from_bytes_with_ecc(&stored);
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

fn nodes_share(image: &[u8], form: &Form, block_bytes: u32) -> f64 {
    let pages_per_block = (block_bytes / form.layout.page_bytes).max(1) as usize;
    let mut inside = 0;
    let mut outside = 0;
    let mut looked_at = 0;
    for block in image.chunks(form.stride() * pages_per_block) {
        // What is left of a page that is not whole is data of a plain image, whose last page may be
        // short; a page with a spare area is whole, or the form is not right.
        let rest = block.chunks_exact(form.stride()).remainder();
        let mut data: Vec<u8> = pages(block, form).flat_map(|(data, _)| data).copied().collect();
        if !form.has_oob {
            data.extend_from_slice(rest);
        }
        if is_blank(&data) {
            continue;
        }
        let (found, other) = cover(&data);
        inside += found;
        outside += other;
        if form.has_oob {
            outside += rest.iter().filter(|byte| **byte != 0xff).count() as u64;
        }
        looked_at += 1;
        if looked_at == NODE_BLOCKS_MAX {
            break;
        }
    }
    share(inside, inside + outside)
}

/// Bytes in nodes with sound checksums, and other bytes that are not blank.
fn cover(block: &[u8]) -> (u64, u64) {
    let (mut inside, mut outside, mut at) = (0, 0, 0);
    while at + HEADER_BYTES <= block.len() {
        let header = Header::parse(&block[at..]);
        // Bounded, so that rounding up cannot overflow.
        let length = padded(header.total_bytes.min(1 << 30)) as usize;
        if block[at..at + 4] == [0xff; 4] {
            at += 4;
        } else if header.is_valid() && length >= HEADER_BYTES && at + length <= block.len() {
            // A sound header may be all of a node that lies where it seems to: in the wrong form,
            // the rest of it is elsewhere.
            if is_whole(&header, &block[at..at + length]) {
                inside += length as u64;
            } else {
                outside += length as u64;
            }
            at += length;
        } else {
            outside += 4;
            at += 4;
        }
    }
    (inside, outside)
}

/// The checksums of inode and directory nodes hold; other nodes are few.
fn is_whole(header: &Header, node: &[u8]) -> bool {
    // Where nodes are marked obsolete in place, the checksum of the node is still that of the type as it
    // was (`jffs2_mark_node_obsolete`, fs/jffs2/nodemgmt.c); that of the header leaves the mark out.
    if header.node_type & ACCURATE == 0 {
        return true;
    }
    match header.node_type | ACCURATE {
        DIRENT => DirentNode::parse(node).is_some(),
        INODE => InodeNode::parse(node).is_some_and(|inode| {
            let stored = node.get(INODE_BYTES..INODE_BYTES + inode.stored_bytes as usize);
            stored.is_some_and(|stored| crc(stored) == inode.data_crc)
        }),
        _ => true,
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Whether blocks begin with the node that says that they were erased.
pub(crate) fn has_markers_in_band(image: &[u8], form: &Form, block_bytes: u32) -> bool {
    let pages_per_block = (block_bytes / form.layout.page_bytes).max(1) as usize;
    image.chunks(form.stride() * pages_per_block).any(|block| {
        let Some(first) = block.get(..HEADER_BYTES) else { return false };
        let header = Header::parse(first);
        header.is_valid() && header.node_type == CLEANMARKER
    })
}

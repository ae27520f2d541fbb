//! Checks of YAFFS2: the tags of every chunk, every header, and what they say of each other.
//!
//! Chunks that newer ones replace, and all chunks of deleted objects, stay until their block is
//! collected: that is how the format works. So does a page that a power cut tore. What no history
//! leaves behind is an inconsistency: tags or data beyond their codes, a header that says otherwise
//! than its tags, an object without a header, a summary that says otherwise than the tags.

use super::detect::TagsForm;
use crate::medium::{BlockData, Medium, PageState};
use crate::report::Report;
use nand::PageAddress;
use std::collections::BTreeMap;
use std::ops::Range;
use yaffs2::{
    BlockInfo, BlockState, EccResult, Header, HeaderForm, ObjectKind, TAGS_BYTES, TAGS_ECC_BYTES,
    Tags,
};

// `YAFFS_OBJECTID_ROOT` and the others of `yaffs_guts.h`.
const ROOT: u32 = 1;
const LOST_AND_FOUND: u32 = 2;
const UNLINKED: u32 = 3;
const DELETED: u32 = 4;
/// Pretended object whose chunks are block summaries.
const SUMMARY: u32 = 0x10;
/// In the tags of a bad block that could not be marked (`YAFFS_SEQUENCE_BAD_BLOCK`).
const SEQUENCE_BAD: u32 = 0xffff_0000;
/// Bytes of an entry of a summary, and of its head.
const ENTRY_BYTES: usize = 12;
const HEAD_BYTES: usize = 16;

/// How many chunks and blocks there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkCounts {
    /// Chunks of data, replaced ones among them.
    pub data_chunks: u64,
    /// Chunks with headers of objects.
    pub headers: u64,
    /// Blocks with a summary.
    pub summaries: u64,
    /// Blocks of a checkpoint.
    pub checkpoint_blocks: u64,
    /// Objects that have a header and are not deleted.
    pub objects: u64,
    /// Tags that their code corrected.
    pub corrected_tags: u64,
}

/// Age of a chunk: sequence number of its block, place.
type Age = (u32, PageAddress);

/// The newest header of an object.
struct Newest {
    age: Age,
    header: Header,
}

struct Walk<'a> {
    medium: &'a Medium<'a>,
    tags: TagsForm,
    report: &'a mut Report,
    counts: ChunkCounts,
    headers: BTreeMap<u32, Newest>,
    /// The newest header of an object that has tags but no data.
    blank_headers: BTreeMap<u32, Age>,
    /// The newest chunk of each part of an object.
    chunks: BTreeMap<(u32, u32), Age>,
}

/// Looks at every chunk of an image.
pub(super) fn check_chunks(
    medium: &Medium<'_>,
    tags: TagsForm,
    report: &mut Report,
) -> ChunkCounts {
    let mut walk = Walk::new(medium, tags, report);
    for block in 0..medium.blocks {
        if !medium.is_bad(block)
            && let Some(read) = medium.block(block)
        {
            walk.block(block, &read);
        }
    }
    walk.objects();
    walk.counts
}

impl<'a> Walk<'a> {
    fn new(medium: &'a Medium<'a>, tags: TagsForm, report: &'a mut Report) -> Self {
        Self {
            medium,
            tags,
            report,
            counts: ChunkCounts::default(),
            headers: BTreeMap::new(),
            blank_headers: BTreeMap::new(),
            chunks: BTreeMap::new(),
        }
    }

    fn place(&self, at: PageAddress) -> String {
        let page = at.block * self.medium.pages_per_block + at.page;
        self.medium.place(page * self.medium.page_bytes)
    }

    /// Reads the tags of a page; none if it has none.
    fn tags(&mut self, at: PageAddress, read: &BlockData) -> Option<Tags> {
        let (page_bytes, index) = (self.medium.page_bytes as usize, at.page as usize);
        let mut stored = [0xff; TAGS_ECC_BYTES];
        let mut bytes = [0xff; TAGS_BYTES];
        match self.tags {
            TagsForm::Inband => {
                // The tags without their code take the last bytes of the page.
                let end = (index + 1) * page_bytes;
                bytes.copy_from_slice(&read.data[end - TAGS_BYTES..end]);
            }
            TagsForm::Spare | TagsForm::SpareWithEcc => {
                let oob_bytes = self.medium.layout().oob_bytes as usize;
                let spare = &read.spare[index * oob_bytes..(index + 1) * oob_bytes];
                self.medium.layout().gather(spare, 0, &mut stored);
                bytes.copy_from_slice(&stored[..TAGS_BYTES]);
            }
        }
        let (tags, result) = match self.tags {
            TagsForm::SpareWithEcc => Tags::from_bytes_with_ecc(&stored),
            _ => (Tags::from_bytes(&bytes), EccResult::Clean),
        };
        match result {
            EccResult::Clean => {}
            EccResult::Fixed => {
                self.counts.corrected_tags += 1;
                self.report.corrected_bits += 1;
                self.report.add_note(self.place(at), "the code of the tags corrected 1 bit");
            }
            EccResult::Unfixed => {
                let what = "the tags are beyond what their code corrects";
                let is_torn = read.pages[index] == PageState::TornErase;
                self.report.add(is_torn, self.place(at), what);
                return None;
            }
        }
        if !tags.is_unused() {
            return Some(tags);
        }
        let is_written = !matches!(read.pages[index], PageState::Blank | PageState::TornErase);
        if is_written && read.pages[index] != PageState::TornProgram {
            // Data whose code is there, but whose tags are not, was never written so.
            let is_blank = read.data[index * page_bytes..(index + 1) * page_bytes]
                .iter()
                .all(|byte| *byte == 0xff);
            if !is_blank {
                // A program that was cut short may leave data and nothing of the spare area. There are
                // data whose code is all ones, so sound data do not prove that a code was written.
                let layout = self.medium.layout();
                let oob_bytes = layout.oob_bytes as usize;
                let spare = &read.spare[index * oob_bytes..(index + 1) * oob_bytes];
                let has_code =
                    |place: &Range<usize>| spare[place.clone()].iter().any(|b| *b != 0xff);
                let is_torn = !layout.ecc_places.iter().any(has_code);
                self.report.add(is_torn, self.place(at), "the page has no tags");
            }
        }
        None
    }

    fn block(&mut self, block: u32, read: &BlockData) {
        self.report.add_pages(self.medium, block, read);
        let mut sequence = None;
        let mut summary = Vec::new();
        let mut entries: Vec<[u32; 3]> = Vec::new();
        for page in 0..self.medium.pages_per_block {
            let at = PageAddress::new(block, page);
            let Some(tags) = self.tags(at, read) else {
                // An entry that is compared with nothing.
                entries.push([u32::MAX; 3]);
                continue;
            };
            let page_bytes = self.medium.page_bytes as usize;
            let data = &read.data[page as usize * page_bytes..(page as usize + 1) * page_bytes];
            let first = *sequence.get_or_insert(tags.sequence);
            if tags.sequence == SEQUENCE_BAD {
                self.report
                    .add_note(self.place(PageAddress::new(block, 0)), "the block was given up");
                return;
            }
            if tags.is_checkpoint() {
                self.counts.checkpoint_blocks += u64::from(page == 0);
                entries.push([u32::MAX; 3]);
                continue;
            }
            if tags.sequence != first {
                let what = format!(
                    "the sequence number is {:#x}, that of the block is {first:#x}",
                    tags.sequence
                );
                self.report.add_finding(self.place(at), what);
                entries.push([u32::MAX; 3]);
                continue;
            }
            if tags.object == SUMMARY && is_erased(data) {
                let what = "the summary is erased, its tags are not: an erase was cut short";
                self.report.add_note(self.place(at), what);
                continue;
            }
            if tags.object == SUMMARY {
                join_summary(&mut summary, &data[..(tags.bytes as usize).min(data.len())]);
                continue;
            }
            entries.push(tags.packed());
            if tags.object == 0
                || !tags.has_data_sequence()
                || !tags.is_sane(first, self.medium.page_bytes)
            {
                let what = format!("tags that make no sense: {}", shown(&tags));
                self.report.add_finding(self.place(at), what);
                continue;
            }
            self.chunk(at, tags, data);
        }
        if !summary.is_empty() {
            self.summary(block, sequence.unwrap_or_default(), &summary, &entries);
        }
    }

    fn chunk(&mut self, at: PageAddress, tags: Tags, data: &[u8]) {
        let age = (tags.sequence, at);
        let newest = self.chunks.entry((tags.object, tags.chunk)).or_insert(age);
        if newest.0 == age.0 && newest.1.block != at.block && !is_first_sequence(age.0) {
            let what = format!(
                "object {} part {} stands in block {} too, which has the same sequence number",
                tags.object, tags.chunk, newest.1.block
            );
            self.report.add_finding(self.place(at), what);
        }
        if age > self.chunks[&(tags.object, tags.chunk)] {
            self.chunks.insert((tags.object, tags.chunk), age);
        }
        if tags.chunk > 0 {
            self.counts.data_chunks += 1;
            return;
        }
        self.counts.headers += 1;
        if is_erased(data) {
            // An erase that was cut short took the data and left the tags. The chunks of such a block
            // had been copied before: a newer header must be somewhere.
            let newest = self.blank_headers.entry(tags.object).or_insert(age);
            *newest = age.max(*newest);
            return;
        }
        let is_inband = self.tags == TagsForm::Inband;
        let header = Header::parse(data, HeaderForm { is_wide: true, inband: is_inband });
        self.compare_with_tags(at, &tags, &header);
        if self.headers.get(&tags.object).is_none_or(|newest| newest.age < age) {
            self.headers.insert(tags.object, Newest { age, header });
        }
    }

    fn compare_with_tags(&mut self, at: PageAddress, tags: &Tags, header: &Header) {
        let object = tags.object;
        let kind = ObjectKind::from_number(header.kind);
        if kind.is_none_or(|kind| kind == ObjectKind::Unknown) {
            let what = format!("the header of object {object} is of no kind");
            return self.report.add_finding(self.place(at), what);
        }
        let Some(extra) = tags.extra else { return };
        let said = [
            ("kind", extra.kind, header.kind),
            ("parent", extra.parent, header.parent),
            ("shrinking", extra.is_shrink.into(), header.is_shrink.into()),
        ];
        for (what, in_tags, in_header) in said {
            if in_tags != in_header {
                let what = format!(
                    "object {object}: the tags say {what} {in_tags}, the header {in_header}"
                );
                self.report.add_finding(self.place(at), what);
            }
        }
        let size = match kind {
            // Tags have 32 bits for a length.
            Some(ObjectKind::File) => header.size_bytes.map(|size| size as u32),
            Some(ObjectKind::HardLink) => header.equivalent,
            _ => None,
        };
        if let Some(size) = size.filter(|size| *size != extra.size_or_equivalent) {
            let what = format!(
                "object {object}: the tags say {} bytes, or that object; the header says {size}",
                extra.size_or_equivalent
            );
            self.report.add_finding(self.place(at), what);
        }
    }

    /// Compares the summary of a block with the tags of its chunks.
    fn summary(&mut self, block: u32, sequence: u32, bytes: &[u8], entries: &[[u32; 3]]) {
        self.counts.summaries += 1;
        let place = self.place(PageAddress::new(block, entries.len() as u32));
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let body = bytes.get(HEAD_BYTES..).unwrap_or_default();
        let sum = body.iter().fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
        let is_sound = body.len() >= entries.len() * ENTRY_BYTES
            && [words[0], words[2], words[3]] == [1, sequence, sum];
        if !is_sound {
            return self.report.add_finding(place, "the summary of the block is damaged");
        }
        for (entry, page) in entries.iter().zip(0_u32..) {
            let listed = &words[4 + 3 * page as usize..][..3];
            // A page that was given up has neither tags nor an entry. A block that was open at a mount
            // from a checkpoint has no entries for what was written before: `yaffs_summary_init`
            // begins with an empty table, and a scan reads the tags where object 0 stands.
            let is_unknown = listed[0] == 0;
            if listed != entry && *entry != [u32::MAX; 3] && !is_unknown {
                let what = "the summary of the block says otherwise than the tags";
                self.report.add_finding(self.place(PageAddress::new(block, page)), what);
            }
        }
    }

    /// What the newest headers say of each other.
    fn objects(&mut self) {
        for (object, age) in std::mem::take(&mut self.blank_headers) {
            if self.headers.get(&object).is_none_or(|newest| newest.age < age) {
                let what = format!("the newest header of object {object} is erased");
                self.report.add_finding(self.place(age.1), what);
            }
        }
        let mut headless: BTreeMap<u32, (Age, u32)> = BTreeMap::new();
        for ((object, part), age) in &self.chunks {
            if *part > 0 && !self.headers.contains_key(object) {
                headless.entry(*object).or_insert((*age, 0)).1 += 1;
            }
        }
        for (object, ((_, at), parts)) in headless {
            let what = format!("object {object} has {parts} chunks of data but no header");
            self.report.add_finding(self.place(at), what);
        }
        let mut remarks = Vec::new();
        for (object, newest) in &self.headers {
            let at = newest.age.1;
            let parent = newest.header.parent;
            if *object <= DELETED {
                continue;
            }
            // What is unlinked or deleted waits for collection.
            if matches!(parent, UNLINKED | DELETED) {
                continue;
            }
            self.counts.objects += 1;
            let mut find = |what: String| remarks.push((self.place(at), what));
            if let Some(what) = wrong_name(&newest.header.name) {
                find(format!("object {object} {what}"));
            }
            if let Some(what) = self.wrong_parent(*object) {
                find(what);
            }
            if let Some(target) = newest.header.equivalent {
                let found = self.headers.get(&target).map(|newest| &newest.header);
                // No call makes a link to a link.
                let is_good = found.is_some_and(|found| {
                    found.kind != ObjectKind::HardLink.number() && found.parent != DELETED
                });
                if !is_good {
                    find(format!("object {object} is a hard link to object {target}, not there"));
                }
            }
        }
        for (place, what) in remarks {
            self.report.add_finding(place, what);
        }
    }

    /// Why an object does not hang on the root.
    fn wrong_parent(&self, object: u32) -> Option<String> {
        let mut at = object;
        // More steps than objects mean a ring.
        for _ in 0..=self.headers.len() {
            if matches!(at, ROOT | LOST_AND_FOUND | UNLINKED | DELETED) {
                return None;
            }
            let Some(newest) = self.headers.get(&at) else {
                return Some(format!("object {object} hangs on object {at}, which has no header"));
            };
            if at != object && newest.header.kind != ObjectKind::Directory.number() {
                return Some(format!("object {object} hangs on object {at}, no directory"));
            }
            at = newest.header.parent;
        }
        Some(format!("object {object} lies within itself"))
    }
}

/// Nothing is left of the data of a page. Where the code of what was there before stands yet, it may have
/// "corrected" a bit of each step; headers and summaries have thousands of zero bits.
fn is_erased(data: &[u8]) -> bool {
    const STEP_BYTES: usize = 256;
    let zeros: u32 = data.iter().map(|byte| byte.count_zeros()).sum();
    zeros as usize <= data.len() / STEP_BYTES
}

/// What no call can have made of a name: the real code hands it on as it is, or makes up another.
fn wrong_name(name: &[u8]) -> Option<String> {
    match name {
        b"" => Some("has no name".into()),
        b"." | b".." => Some(format!("is called `{}`", name.escape_ascii())),
        _ if name.contains(&b'/') => {
            Some(format!("has a name with a slash: `{}`", name.escape_ascii()))
        }
        _ => None,
    }
}

/// Compares the blocks of a checkpoint with the medium.
///
/// The first write or erase after a checkpoint erases it (`yaffs2_checkpt_invalidate`). So the medium
/// must hold every chunk that a checkpoint counts as in use; a block that lost some was erased by
/// something else. Without a checkpoint nothing tells which blocks there should be: collected ones
/// leave gaps in the sequence numbers, too.
pub(super) fn compare_with_checkpoint(
    medium: &Medium<'_>,
    tags: TagsForm,
    blocks: &[(BlockInfo, Vec<bool>)],
    report: &mut Report,
) {
    // Of each page the walk over the medium has reported already what its codes say.
    let mut reported_before = Report::default();
    let mut walk = Walk::new(medium, tags, &mut reported_before);
    for (block, (info, used)) in (0..medium.blocks).zip(blocks) {
        let is_counted = matches!(info.state, BlockState::Allocating | BlockState::Full);
        if !is_counted || medium.is_bad(block) {
            continue;
        }
        let read = medium.block(block);
        let lost = (0..medium.pages_per_block).zip(used).filter(|(_, is_used)| **is_used).filter(
            |(page, _)| match &read {
                None => true,
                Some(read) => walk
                    .tags(PageAddress::new(block, *page), read)
                    .is_none_or(|tags| tags.sequence != info.sequence),
            },
        );
        let lost: Vec<u32> = lost.map(|(page, _)| page).collect();
        if let Some(first) = lost.first() {
            let place = walk.place(PageAddress::new(block, *first));
            let what = format!(
                "the checkpoint counts {} chunks of the block as in use that are not there",
                lost.len()
            );
            report.add_finding(place, what);
        }
    }
}

/// Adds a chunk to the summary of its block.
fn join_summary(summary: &mut Vec<u8>, chunk: &[u8]) {
    // Every chunk of a summary begins with the head; the last one's is believed.
    let (head, body) = chunk.split_at(chunk.len().min(HEAD_BYTES));
    let known = summary.len().min(HEAD_BYTES);
    summary.splice(..known, head.iter().copied());
    summary.extend_from_slice(body);
}

/// mkyaffs2image gives all blocks the first number.
fn is_first_sequence(sequence: u32) -> bool {
    sequence == 0x1000
}

fn shown(tags: &Tags) -> String {
    let Tags { sequence, object, chunk, bytes, .. } = tags;
    format!("sequence {sequence:#x}, object {object}, part {chunk}, {bytes} bytes")
}

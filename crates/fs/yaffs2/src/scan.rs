//! Mounting by a scan: blocks from the newest to the oldest, chunks from the last to the first. What
//! is met first is the newest, and stays.
//!
//! Source: `yaffs_yaffs2.c` (`yaffs2_scan_backwards`, `yaffs2_scan_chunk`).
//!
//! May use: `blocks`, `device`, `format`, `header`, `objects`, `statistics`, `tags`.

use crate::blocks::BlockState;
use crate::device::{BlockPage, Device};
use crate::format::{
    FIRST_SEQUENCE, OBJECT_DELETED, OBJECT_LOST_AND_FOUND, OBJECT_ROOT, OBJECT_UNLINKED,
    ObjectKind, SEQUENCE_BAD, SEQUENCE_CHECKPOINT,
};
use crate::header::Header;
use crate::objects::{Body, Object, new_body};
use crate::statistics::Finding;
use crate::tags::{EccResult, Tags, kind_of};

/// What a scan takes from a header: from its tags, or from the page.
struct Seen {
    kind: u32,
    parent: u32,
    size: u64,
    is_shrink: bool,
    equivalent: u32,
    shadows: u32,
    /// The page, if it was read.
    header: Option<Header>,
}

impl Seen {
    fn of_tags(tags: &Tags) -> Option<Self> {
        let extra = tags.extra?;
        Some(Self {
            kind: extra.kind,
            parent: extra.parent,
            size: extra.size_or_equivalent.into(),
            is_shrink: extra.is_shrink,
            equivalent: extra.size_or_equivalent,
            shadows: 0,
            header: None,
        })
    }

    fn of_header(header: Header) -> Self {
        Self {
            kind: header.kind,
            parent: header.parent,
            size: header.size_bytes.unwrap_or_default(),
            is_shrink: header.is_shrink,
            equivalent: header.equivalent.unwrap_or_default(),
            shadows: header.shadows,
            header: Some(header),
        }
    }
}

impl Device {
    /// Finds all objects and chunks.
    pub(crate) async fn scan(&mut self) {
        self.checkpoint.blocks_in = 0;
        let order = self.scan_blocks().await;
        let mut links = Vec::new();
        // Backwards, so that the first version met is the valid one and nothing has to be undone:
        // no chunk is compared with another.
        for (_, block) in order.into_iter().rev() {
            self.scan_block(block, &mut links).await;
        }
        if self.profile.skips_open_block {
            self.skip_rest_of_block();
        }
        self.join_links(&links);
    }

    /// Looks at the first tags of every block; those to scan, by sequence number.
    async fn scan_blocks(&mut self) -> Vec<(u32, u32)> {
        self.sequence = FIRST_SEQUENCE;
        let mut order = Vec::new();
        for block in self.blocks.numbers() {
            let (mut state, sequence) = self.query_block(block).await;
            if state == BlockState::NeedsScan {
                match sequence {
                    SEQUENCE_CHECKPOINT => state = BlockState::Checkpoint,
                    // Written where the driver could not mark the block, see `retire_block`.
                    SEQUENCE_BAD => state = BlockState::Dead,
                    _ => {}
                }
            }
            let info = self.blocks.get_mut(block);
            info.state = state;
            info.sequence = sequence;
            match state {
                BlockState::Checkpoint => self.checkpoint.blocks_in += 1,
                BlockState::Empty => {
                    self.erased_blocks += 1;
                    self.free_chunks += self.pages_per_block as i32;
                }
                BlockState::NeedsScan => {
                    // A block out of range is left as it is, neither scanned nor erased, as in
                    // `yaffs2_scan_backwards`. It stays "to be scanned", which no allocator takes.
                    let tags = Tags { sequence, ..Tags::data(0, 0, 0) };
                    if tags.has_data_sequence() {
                        order.push((sequence, block));
                        self.sequence = self.sequence.max(sequence);
                    } else {
                        self.report(Finding::BadSequence { block });
                    }
                }
                _ => {}
            }
        }
        order.sort_unstable();
        order
    }

    async fn scan_block(&mut self, block: u32, links: &mut Vec<u32>) {
        let has_summary = self.summary_read(block).await;
        let pages = if has_summary { self.chunks_before_summary() } else { self.pages_per_block };
        let mut has_found = false;
        // From the last page on, for the same reason as the blocks.
        for page in (0..pages).rev() {
            if !matches!(
                self.blocks.get(block).state,
                BlockState::NeedsScan | BlockState::Allocating
            ) {
                break;
            }
            self.cpu_debt_ps += self.options.costs.scan_ps_per_chunk;
            self.scan_chunk(BlockPage { block, page }, has_summary, &mut has_found, links).await;
        }
        let info = self.blocks.get_mut(block);
        if info.state == BlockState::NeedsScan {
            info.state = BlockState::Full;
        }
        // Nothing of it was kept, so it is erased here and not by the collector, unless older
        // blocks still need its shrink header.
        if info.state == BlockState::Full && info.pages_in_use == 0 && !info.has_shrink_header {
            self.erase_dirty_block(block).await;
        }
    }

    async fn scan_chunk(
        &mut self,
        at: BlockPage,
        has_summary: bool,
        has_found: &mut bool,
        links: &mut Vec<u32>,
    ) {
        let BlockPage { block, page } = at;
        let chunk = self.chunk(at);
        let sequence = self.blocks.get(block).sequence;
        let entry = if has_summary { self.summary[page as usize] } else { [0; 3] };
        let (tags, result) = if entry[0] == 0 {
            self.statistics.tags_used += 1;
            self.read_tags(chunk).await
        } else {
            self.statistics.summary_used += 1;
            (Tags::from_packed(sequence, entry), EccResult::Clean)
        };
        if tags.is_unused() && result != EccResult::Unfixed {
            self.scan_unused(at, *has_found);
            // Every chunk that holds nothing counts as free, also where it can only be used after
            // an erase: collecting turns them into erased ones.
            self.free_chunks += 1;
        } else if result == EccResult::Unfixed {
            self.free_chunks += 1;
        } else if !tags.is_sane(sequence, self.chunk_bytes) || tags.object == 0 {
            self.report(Finding::BadTags { chunk });
            self.free_chunks += 1;
        } else {
            *has_found = true;
            self.blocks.set_used(chunk);
            self.blocks.get_mut(block).pages_in_use += 1;
            if tags.chunk > 0 {
                self.scan_data(chunk, &tags).await;
            } else {
                self.scan_header(chunk, &tags, links).await;
            }
        }
    }

    fn scan_unused(&mut self, BlockPage { block, page }: BlockPage, has_found: bool) {
        if has_found {
            // Left out because it was not erased.
            return;
        }
        let sequence = self.sequence;
        let info = self.blocks.get_mut(block);
        if page == 0 {
            info.state = BlockState::Empty;
            self.erased_blocks += 1;
            if self.alloc_block == Some(block) {
                self.alloc_block = None;
            }
        // Only the youngest block can have been open. Where the profile says so `scan` closes it at
        // once, for its next page may be half programmed and look erased.
        } else if info.sequence == sequence {
            info.state = BlockState::Allocating;
            self.alloc_block = Some(block);
            self.alloc_page = page;
            self.alloc_finder = block;
        } else if page + 1 == self.pages_per_block {
            self.report(Finding::PartlyWritten { block });
        }
    }

    async fn scan_data(&mut self, chunk: u32, tags: &Tags) {
        let number = tags.object;
        self.find_or_create(number, ObjectKind::File);
        let start = u64::from(tags.chunk - 1) * u64::from(self.chunk_bytes);
        let Some(object) = self.objects.get_mut(number) else { return };
        let is_valid = object.is_valid;
        let is_kept = object.file_mut().is_some_and(|file| {
            // Valid if no younger header cut the file before it and no younger version was met.
            // That the page's data are whole is not checked: a torn page with good tags wins over
            // an older one, as on the real code.
            let is_kept = start < file.shrink_bytes && file.tree.get(tags.chunk) == 0;
            // Once a header was met its size stands: chunks older than it cannot have made the file
            // longer.
            if start < file.shrink_bytes && !is_valid {
                // Without a header yet, the chunks tell the size.
                let end = start + u64::from(tags.bytes);
                if file.stored_bytes < end {
                    file.stored_bytes = end;
                    file.size_bytes = end;
                }
            }
            is_kept
        });
        if is_kept {
            object.data_chunks += 1;
            self.with_tree(number, |tree| tree.set(tags.chunk, chunk));
        } else {
            // Void by a later cut of the file, or there is a newer one.
            self.delete_chunk(chunk).await;
        }
    }

    async fn scan_header(&mut self, chunk: u32, tags: &Tags, links: &mut Vec<u32>) {
        let number = tags.object;
        let kind = tags.extra.and_then(|extra| kind_of(extra.kind));
        if let Some(kind) = kind {
            self.find_or_create(number, kind);
        }
        let is_directory_of_ours = matches!(number, OBJECT_ROOT | OBJECT_LOST_AND_FOUND);
        let is_valid = self.objects.get(number).is_some_and(|object| object.is_valid);
        let shadows = tags.extra.is_some_and(|extra| extra.shadows);
        // The page is read only for what tags lack: the number of a shadowed object, and the
        // attributes of the two fixed directories.
        let seen = match Seen::of_tags(tags) {
            Some(seen) if kind.is_some() && !shadows && (is_valid || !is_directory_of_ours) => seen,
            _ => {
                let mut data = vec![0; self.chunk_bytes as usize];
                self.read_chunk(chunk, &mut data).await;
                Seen::of_header(Header::parse(&data, self.header_form()))
            }
        };
        let Some(kind) = kind_of(seen.kind).filter(|kind| *kind != ObjectKind::Unknown) else {
            // The page is gone, though its tags are not.
            self.report(Finding::BadTags { chunk });
            self.delete_chunk(chunk).await;
            return;
        };
        self.find_or_create(number, kind);
        if is_valid {
            self.scan_old_header(chunk, tags, kind, &seen).await;
        } else if is_directory_of_ours {
            // Their place in the tree is fixed.
            if let Some(header) = &seen.header {
                self.apply_header(number, header);
            }
            if let Some(object) = self.objects.get_mut(number) {
                object.is_valid = true;
                object.header_chunk = chunk;
            }
        } else {
            self.retype(number, kind).await;
            self.scan_new_header(chunk, tags, &seen, links);
        }
    }

    /// A header that a newer one replaced: what it says of cutting the file off still holds.
    async fn scan_old_header(&mut self, chunk: u32, tags: &Tags, kind: ObjectKind, seen: &Seen) {
        let block = self.block_of(chunk);
        let object = self.objects.get_mut(tags.object);
        if let Some(file) = object.and_then(Object::file_mut)
            && kind == ObjectKind::File
        {
            let is_gone = matches!(seen.parent, OBJECT_DELETED | OBJECT_UNLINKED);
            if seen.is_shrink || is_gone {
                // A file that was once deleted had no bytes then: its older chunks belong to
                // nothing, even if the number was given out again.
                let size = if is_gone { 0 } else { seen.size };
                file.shrink_bytes = file.shrink_bytes.min(size);
                self.blocks.get_mut(block).has_shrink_header = true;
            }
        }
        self.delete_chunk(chunk).await;
    }

    /// The object was taken for one of another kind.
    async fn retype(&mut self, number: u32, kind: ObjectKind) {
        if self.is_kind(number, kind) {
            return;
        }
        self.report(Finding::KindMismatch { object: number });
        if self.is_kind(number, ObjectKind::File) {
            self.drop_all_chunks(number).await;
        }
        for child in self.objects.get(number).map(Object::children).unwrap_or_default() {
            self.objects.move_to(child, OBJECT_LOST_AND_FOUND);
        }
        let file = self.objects.get(number).and_then(Object::file);
        self.tree_nodes -= u64::from(file.map_or(0, |file| file.tree.node_count()));
        if let Some(object) = self.objects.get_mut(number) {
            object.body = new_body(kind);
        }
        self.count_object(number);
    }

    fn scan_new_header(&mut self, chunk: u32, tags: &Tags, seen: &Seen, links: &mut Vec<u32>) {
        let number = tags.object;
        if let Some(header) = &seen.header {
            self.apply_header(number, header);
        }
        if seen.shadows > 0 && seen.shadows <= crate::format::OBJECT_MAX {
            self.scan_shadowed(seen.shadows);
        }
        let parent = self.scan_parent(number, seen.parent);
        self.objects.move_to(number, parent);
        if seen.is_shrink {
            let block = self.block_of(chunk);
            self.blocks.get_mut(block).has_shrink_header = true;
        }
        let Some(object) = self.objects.get_mut(number) else { return };
        object.is_valid = true;
        object.header_chunk = chunk;
        object.is_lazy = seen.header.is_none();
        object.is_dirty = false;
        let is_gone = object.is_gone();
        match &mut object.body {
            Body::File(file) => {
                if file.stored_bytes < seen.size {
                    file.stored_bytes = seen.size;
                    file.size_bytes = seen.size;
                }
                file.shrink_bytes = file.shrink_bytes.min(seen.size);
            }
            Body::HardLink(equivalent) if !is_gone => {
                *equivalent = seen.equivalent;
                links.push(number);
            }
            _ => {}
        }
    }

    /// The directory that a header names, or lost+found if it cannot be one.
    fn scan_parent(&mut self, number: u32, parent: u32) -> u32 {
        if parent == 0 || parent > crate::format::OBJECT_MAX || parent == number {
            self.report(Finding::BadParent { object: number });
            return OBJECT_LOST_AND_FOUND;
        }
        self.find_or_create(parent, ObjectKind::Directory);
        if let Some(object) = self.objects.get_mut(parent)
            && matches!(object.body, Body::Unknown)
        {
            object.body = new_body(ObjectKind::Directory);
        }
        if self.is_kind(parent, ObjectKind::Directory) {
            return parent;
        }
        self.report(Finding::BadParent { object: number });
        OBJECT_LOST_AND_FOUND
    }

    /// An object that a newer one replaced, unless it was seen since.
    fn scan_shadowed(&mut self, number: u32) {
        // The shadowed object was seen with a younger header: the rename was not completed by a
        // deletion, or its number is in use again. Either way the younger word holds.
        if self.objects.get(number).is_some() {
            return;
        }
        self.find_or_create(number, ObjectKind::File);
        self.objects.move_to(number, OBJECT_UNLINKED);
        if let Some(object) = self.objects.get_mut(number) {
            object.is_shadowed = true;
            object.is_valid = true;
            if let Some(file) = object.file_mut() {
                file.shrink_bytes = 0;
            }
        }
    }
}

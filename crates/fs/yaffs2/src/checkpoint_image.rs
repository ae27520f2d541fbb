//! What is in a checkpoint: the device, all blocks, all objects with their trees.
//!
//! Source: `yaffs_yaffs2.c` (`yaffs2_wr_checkpt_data` and around it).
//!
//! May use: `blocks`, `checkpoint`, `device`, `format`, `objects`, `statistics`, `tnodes`.

use crate::blocks::{BlockInfo, BlockState};
use crate::checkpoint::Stream;
use crate::device::Device;
use crate::format::{MAGIC, ObjectKind};
use crate::objects::{Body, Object};
use crate::statistics::Finding;
use crate::tnodes::{CHUNK_MAX, pack_leaf, unpack_leaf};

const NONE: u32 = u32::MAX;

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

impl Device {
    /// Writes a checkpoint unless the one on the medium is current (`yaffs_checkpoint_save`).
    pub(crate) async fn save_checkpoint(&mut self) {
        if self.checkpoint.is_current || self.is_read_only {
            return;
        }
        // Never two on the medium: a reader takes the first stream that it meets. From here until
        // the new one is complete a mount has to scan, which it can at any time.
        self.invalidate_checkpoint().await;
        if !self.has_checkpoints() {
            return;
        }
        debug_assert_eq!(
            self.cache.dirty_object(),
            None,
            "sizes in a checkpoint are those on the medium: the cache is flushed before"
        );
        let Some(mut stream) = self.open_checkpoint().await else { return };
        // Head, device with its blocks, objects, tail, sum: the order of `yaffs2_wr_checkpt_data`.
        // The end is known only by the tail marker, so a stream that was cut is never taken for
        // whole.
        let mut is_good = self.put_marker(&mut stream, 1).await
            && self.put_device(&mut stream).await
            && self.put_objects(&mut stream).await
            && self.put_marker(&mut stream, 0).await;
        if is_good {
            let sum = stream.composite_sum();
            is_good = self.put(&mut stream, &sum.to_le_bytes()).await;
        }
        // The last chunk goes out here, and with it the sum: that page decides whether there is a
        // checkpoint.
        is_good &= self.close_checkpoint(stream).await;
        self.checkpoint.is_current = is_good;
        self.statistics.checkpoints_written += u64::from(is_good);
    }

    async fn put_marker(&mut self, stream: &mut Stream, head: u32) -> bool {
        let words = [16, MAGIC, self.profile.checkpoint_version, head];
        self.put(stream, &bytes_of(&words)).await
    }

    async fn put_device(&mut self, stream: &mut Stream) -> bool {
        let (_, device_bytes) = self.record_bytes();
        let mut words = vec![
            device_bytes as u32,
            self.erased_blocks as u32,
            // The open block goes on being written after the mount: unlike a scan, a checkpoint
            // records that nothing behind the last page was touched.
            self.alloc_block.unwrap_or(NONE),
            self.alloc_page,
            self.free_chunks as u32,
            self.deleted_files,
            self.objects.unlinked_files,
            0,
            self.sequence,
        ];
        if self.profile.checkpoint_version < 8 {
            // Written for the size's sake, but not read back: a wrong value would pin shrink
            // headers, and the search finds the right one again.
            words.push(self.oldest_dirty.map_or(0, |(sequence, _)| sequence));
        }
        let has_summary_bit = self.profile.checkpoint_version >= 8;
        let infos: Vec<u8> =
            self.blocks.iter().flat_map(|(_, info)| info.to_bytes(has_summary_bit)).collect();
        let bits = self.blocks.bits().to_vec();
        self.put(stream, &bytes_of(&words)).await
            && self.put(stream, &infos).await
            && self.put(stream, &bits).await
    }

    async fn put_objects(&mut self, stream: &mut Stream) -> bool {
        let (object_bytes, _) = self.record_bytes();
        let (leaf_bytes, width) = self.leaf_shape();
        for number in self.objects.numbers() {
            // Objects that are only held by an open file are dead on the medium already; the real
            // list has them removed from it (`deferred_free`).
            let Some(object) = self.objects.live(number) else { continue };
            let mut bytes = object_record(object, object_bytes);
            if let Some(file) = object.file() {
                file.tree.for_each_leaf(|first, chunks| {
                    bytes.extend_from_slice(&first.to_le_bytes());
                    bytes.extend_from_slice(&pack_leaf(chunks, width, leaf_bytes));
                });
                // All bits set ends a file's leaves, as no chunk has that number.
                bytes.extend_from_slice(&NONE.to_le_bytes());
            }
            if !self.put(stream, &bytes).await {
                return false;
            }
        }
        // An object of all bits set ends the list; only its first word, the size, is right, for a
        // reader checks that first.
        let mut end = vec![0xff; object_bytes];
        end[..4].copy_from_slice(&(object_bytes as u32).to_le_bytes());
        self.put(stream, &end).await
    }

    /// Reads a checkpoint; whether the device is as it says.
    pub(crate) async fn restore_checkpoint(&mut self) -> bool {
        if !self.options.reads_checkpoint {
            return false;
        }
        let mut stream = self.open_checkpoint_to_read();
        let read = self.take_all(&mut stream).await;
        let was_found = self.checkpoint.blocks_in > 0;
        self.close_checkpoint_to_read(&stream);
        if let Err(reason) = read {
            // No finding where no stream begins: a device that was never unmounted has none.
            if was_found {
                self.report(Finding::BadCheckpoint { reason });
            }
            return false;
        }
        self.checkpoint.is_current = true;
        self.statistics.is_from_checkpoint = true;
        true
    }

    async fn take_all(&mut self, stream: &mut Stream) -> Result<(), &'static str> {
        self.take_marker(stream, 1).await?;
        self.take_device(stream).await?;
        let links = self.take_objects(stream).await?;
        self.take_marker(stream, 0).await?;
        let sum = stream.composite_sum();
        let mut stored = [0; 4];
        if !self.take(stream, &mut stored).await || u32::from_le_bytes(stored) != sum {
            return Err("wrong sum");
        }
        // After all objects are there: a link may stand before what it names. Not before the sum is
        // right, or a damaged stream would fill the findings with links.
        self.join_links(&links);
        Ok(())
    }

    async fn take_marker(&mut self, stream: &mut Stream, head: u32) -> Result<(), &'static str> {
        let mut bytes = [0; 16];
        if !self.take(stream, &mut bytes).await {
            return Err("the stream ends");
        }
        let wanted = [16, MAGIC, self.profile.checkpoint_version, head];
        if words_of(&bytes) == wanted { Ok(()) } else { Err("another version or form") }
    }

    async fn take_device(&mut self, stream: &mut Stream) -> Result<(), &'static str> {
        let (_, device_bytes) = self.record_bytes();
        let mut head = vec![0; device_bytes];
        let mut infos = vec![0; self.blocks.count() as usize * 8];
        let mut bits = vec![0; self.blocks.bits().len()];
        let is_whole = self.take(stream, &mut head).await
            && self.take(stream, &mut infos).await
            && self.take(stream, &mut bits).await;
        let words = words_of(&head);
        if !is_whole || words[0] as usize != device_bytes {
            return Err("the device is of another form");
        }
        let chunks = self.blocks.count() * self.pages_per_block;
        // The real code believes these numbers. They are checked here, and below, so that no
        // damaged stream can bring the simulation down; a refusal costs a scan.
        if words[1] > self.blocks.count() || words[4] > chunks {
            return Err("more is free than there is");
        }
        self.erased_blocks = words[1] as i32;
        // None is stored as minus one, see `put_device`.
        self.alloc_block = Some(words[2]).filter(|block| self.blocks.holds(*block));
        self.alloc_page = words[3];
        self.free_chunks = words[4] as i32;
        self.deleted_files = words[5];
        self.objects.unlinked_files = words[6];
        self.sequence = words[8];
        let pages = self.pages_per_block as i32;
        let has_summary_bit = self.profile.checkpoint_version >= 8;
        for (block, stored) in self.blocks.numbers().zip(infos.chunks_exact(8)) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(stored);
            let info = BlockInfo::from_bytes(bytes, has_summary_bit);
            if !(0..=pages).contains(&info.pages_in_use) {
                return Err("a block with too many chunks");
            }
            *self.blocks.get_mut(block) = info;
        }
        self.blocks.set_bits(&bits);
        if self.alloc_block.is_some() && self.alloc_page >= self.pages_per_block {
            return Err("a page past the end of its block");
        }
        Ok(())
    }

    async fn take_objects(&mut self, stream: &mut Stream) -> Result<Vec<u32>, &'static str> {
        let (object_bytes, _) = self.record_bytes();
        let mut links = Vec::new();
        loop {
            let mut record = vec![0; object_bytes];
            if !self.take(stream, &mut record).await {
                return Err("the stream ends");
            }
            let words = words_of(&record);
            if words[0] as usize != object_bytes {
                return Err("an object is of another form");
            }
            let number = words[1];
            if number == NONE {
                return Ok(links);
            }
            self.take_object(number, &words)?;
            if self.is_kind(number, ObjectKind::HardLink) {
                links.push(number);
            }
            if self.is_kind(number, ObjectKind::File) {
                self.take_tree(stream, number).await?;
            }
        }
    }

    fn take_object(&mut self, number: u32, words: &[u32]) -> Result<(), &'static str> {
        let (parent, header, flags) = (words[2], words[3], words[4]);
        let kind = ObjectKind::from_number(flags & 7).ok_or("an object of no kind")?;
        if number == 0 || number > crate::format::OBJECT_MAX {
            return Err("an object of no number");
        }
        if header != 0 && !self.blocks.holds_chunk(header) {
            return Err("a header outside of the device");
        }
        self.find_or_create(number, kind);
        if !self.is_kind(number, kind) {
            return Err("two kinds of one object");
        }
        if parent != 0 {
            self.find_or_create(parent, ObjectKind::Directory);
            if !self.is_kind(parent, ObjectKind::Directory) {
                return Err("a parent that is no directory");
            }
            // This counts unlinked files again, though the stream has carried their number already:
            // it is put back below.
            self.objects.move_to(number, parent);
        }
        let unlinked_files = self.objects.unlinked_files;
        let object = self.objects.get_mut(number).ok_or("an object is missing")?;
        let flag = |bit: u32| flags >> bit & 1 != 0;
        object.header_chunk = header;
        object.is_deleted = flag(3);
        object.is_unlinked = flag(5);
        object.is_fake = flag(6);
        object.may_rename = flag(7);
        object.may_unlink = flag(8);
        object.serial = (flags >> 9) as u8;
        object.data_chunks = words[5] as i32;
        object.is_valid = true;
        // Names and attributes are not in a checkpoint. They are read from the header when they are
        // first asked for, which is what makes such a mount fast.
        object.is_lazy = header != 0;
        let value = u64::from(words[6]) | words.get(7).map_or(0, |high| u64::from(*high) << 32);
        match &mut object.body {
            Body::File(file) => {
                file.size_bytes = value;
                // A stream is only written after the cache was flushed, so one size serves for
                // both.
                file.stored_bytes = value;
            }
            Body::HardLink(equivalent) => *equivalent = value as u32,
            _ => {}
        }
        self.objects.unlinked_files = unlinked_files;
        Ok(())
    }

    async fn take_tree(&mut self, stream: &mut Stream, number: u32) -> Result<(), &'static str> {
        let (leaf_bytes, width) = self.leaf_shape();
        loop {
            let mut first = [0; 4];
            if !self.take(stream, &mut first).await {
                return Err("the stream ends");
            }
            let first = u32::from_le_bytes(first);
            if first == NONE {
                return Ok(());
            }
            let mut bytes = vec![0; leaf_bytes];
            if !self.take(stream, &mut bytes).await {
                return Err("the stream ends");
            }
            let leaf = unpack_leaf(&bytes, width);
            let is_inside = leaf.iter().all(|chunk| *chunk == 0 || self.blocks.holds_chunk(*chunk));
            if first > CHUNK_MAX || !is_inside {
                return Err("a chunk outside of the device");
            }
            self.with_tree(number, |tree| tree.set_leaf(first, leaf));
        }
    }

    /// The object of a number, made if it is not there.
    pub(crate) fn find_or_create(&mut self, number: u32, kind: ObjectKind) {
        if self.objects.get(number).is_none() {
            let now = self.now;
            self.objects.create(number, kind, now);
            self.count_object(number);
        }
    }

    /// Hangs hard links, youngest first, to the objects they name.
    pub(crate) fn join_links(&mut self, links: &[u32]) {
        // The list was gathered youngest first; hung in from its end, the youngest comes to stand
        // last, where `unlink_object` looks for a successor.
        for link in links.iter().rev() {
            let Some(Object { body: Body::HardLink(equivalent), .. }) = self.objects.get(*link)
            else {
                continue;
            };
            let equivalent = *equivalent;
            match self.objects.get_mut(equivalent) {
                Some(target) if !matches!(target.body, Body::HardLink(_)) => {
                    target.links.push(*link);
                }
                _ => self.report(Finding::DanglingLink { object: *link }),
            }
        }
    }

    /// Whether the block being written may go on being written.
    pub(crate) fn check_open_block(&mut self) {
        if let Some(block) = self.alloc_block
            // A damaged or foreign stream may name a block as open whose state says otherwise;
            // writing on in it would fail, or mix sequence numbers.
            && self.blocks.get(block).state != BlockState::Allocating
        {
            self.alloc_block = None;
        }
    }
}

fn object_record(object: &Object, object_bytes: usize) -> Vec<u8> {
    // Bit fields of `struct yaffs_checkpt_obj` from the lowest bit on. Bit 4 is `soft_del`, which
    // nothing sets here.
    let flags = object.kind().number()
        | u32::from(object.is_deleted) << 3
        | u32::from(object.is_unlinked) << 5
        | u32::from(object.is_fake) << 6
        | u32::from(object.may_rename) << 7
        | u32::from(object.may_unlink) << 8
        | u32::from(object.serial) << 9;
    let value = match &object.body {
        Body::File(file) => file.size_bytes,
        Body::HardLink(equivalent) => u64::from(*equivalent),
        _ => 0,
    };
    let mut words = vec![
        object_bytes as u32,
        object.number,
        object.parent.unwrap_or_default(),
        object.header_chunk,
        flags,
        object.data_chunks as u32,
        value as u32,
    ];
    if object_bytes >= 32 {
        words.push((value >> 32) as u32);
    }
    bytes_of(&words)
}

//! What must hold of a whole mount between two calls, whatever the medium says.
//!
//! What the medium counts and says twice is compared by [`Nilfs2::check`], which finds damage as well.
//! The tests alone use it.
//!
//! May use: `engine`, `file`, `file_system`.

use crate::engine::Engine;
use crate::file::File;
use crate::file_system::Nilfs2;
use std::rc::Rc;

impl Nilfs2 {
    /// Compares what the mount keeps in memory with itself: blocks of files, lists of the constructor, the
    /// place of the next log. Damage of the medium changes none of it.
    ///
    /// # Panics
    /// If the memory contradicts itself, which is a defect of this crate.
    pub fn check_invariants(&self) {
        self.engine.assert_invariants();
    }
}

impl Engine {
    fn assert_invariants(&self) {
        self.assert_position();
        for file in [&self.dat, &self.cpfile, &self.sufile, &self.root.ifile] {
            self.assert_blocks(file);
        }
        for (number, file) in &*self.root.files.borrow() {
            assert_eq!(file.number, *number, "the key of a file is its inode");
            assert!(file.cleaned_checkpoint.is_none(), "inode {number} is no copy of the cleaner");
            self.assert_blocks(file);
        }
        // The constructor holds the transactions while it works, and its lists change meanwhile.
        if self.transactions.try_write().is_some() {
            self.assert_lists();
        }
    }

    /// The next log has a place in a segment, behind the newest one with a super root.
    fn assert_position(&self) {
        let position = self.position.get();
        let geometry = &self.geometry;
        assert!(position.segment < geometry.segments, "{position:?}");
        assert!(position.next_segment < geometry.segments, "{position:?}");
        assert!(position.offset <= geometry.blocks_per_segment, "{position:?}");
        assert!(position.last_sequence <= position.sequence, "{position:?}");
        assert!(position.last_checkpoint < position.checkpoint, "{position:?}");
        assert!(geometry.segment_of(position.last_log) < geometry.segments, "{position:?}");
    }

    /// Blocks stand under their keys, have their size, and are of the kind of their list.
    fn assert_blocks(&self, file: &File) {
        for (buffers, is_node) in [(&file.data, false), (&file.nodes, true)] {
            for (key, buffer) in &*buffers.borrow() {
                assert_eq!(buffer.key.get(), *key, "inode {}: key of a block", file.number);
                assert_eq!(buffer.is_node, is_node, "inode {}: kind of {key}", file.number);
                assert_eq!(
                    buffer.look(<[u8]>::len) as u64,
                    self.geometry.block_bytes,
                    "inode {}: bytes of {key}",
                    file.number
                );
            }
        }
    }

    /// What is dirty is in the list from which the constructor writes it.
    fn assert_lists(&self) {
        let dirty = self.dirty_files.borrow();
        for (index, file) in dirty.iter().enumerate() {
            assert!(file.is_queued.get(), "inode {} is listed as dirty", file.number);
            let others = &dirty[index + 1..];
            assert!(
                !others.iter().any(|other| Rc::ptr_eq(other, file)),
                "inode {} is listed as dirty twice",
                file.number
            );
        }
        for file in self.root.files.borrow().values() {
            let is_listed = dirty.iter().any(|other| Rc::ptr_eq(other, file));
            assert_eq!(file.is_queued.get(), is_listed, "inode {} in the list", file.number);
            assert!(
                is_listed || file.dirty_data().is_empty(),
                "dirty data of inode {} would never be written",
                file.number
            );
        }
        for file in &*self.evictions.borrow() {
            assert_eq!(file.inode.borrow().links, 0, "inode {} is to be deleted", file.number);
            assert!(!file.is_queued.get(), "inode {} is to be deleted", file.number);
        }
    }
}

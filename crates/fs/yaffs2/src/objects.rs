//! Objects in memory: files, directories, links; found by number, and by name in their directory.
//!
//! May use: `format`, `header`, `options`, `tnodes`.

use crate::format::{
    BUCKETS, OBJECT_DELETED, OBJECT_LOST_AND_FOUND, OBJECT_ROOT, OBJECT_UNLINKED, ObjectKind,
    SHORT_NAME_BYTES,
};
use crate::header::name_sum;
use crate::options::KeptState;
use crate::tnodes::ChunkTree;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What kinds have of their own.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    File(FileBody),
    Directory(BTreeMap<u64, u32>),
    Symlink(Option<Vec<u8>>),
    HardLink(u32),
    Special,
    Unknown,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FileBody {
    /// With what the cache holds.
    pub(crate) size_bytes: u64,
    /// As the chunks on the medium tell.
    pub(crate) stored_bytes: u64,
    /// While scanning: chunks from here on are void.
    pub(crate) shrink_bytes: u64,
    pub(crate) tree: ChunkTree,
}

/// An object (`struct yaffs_obj`).
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the real structure")]
pub(crate) struct Object {
    pub(crate) number: u32,
    pub(crate) parent: Option<u32>,
    /// Key in the parent's children: the younger the greater.
    stamp: u64,
    pub(crate) header_chunk: u32,
    pub(crate) body: Body,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) times: [i64; 3],
    pub(crate) device: u32,
    pub(crate) short_name: Option<Vec<u8>>,
    pub(crate) name_sum: u16,
    /// Hard links to this object, youngest last.
    pub(crate) links: Vec<u32>,
    pub(crate) data_chunks: i32,
    pub(crate) serial: u8,
    pub(crate) is_deleted: bool,
    pub(crate) is_unlinked: bool,
    pub(crate) is_fake: bool,
    pub(crate) may_rename: bool,
    pub(crate) may_unlink: bool,
    pub(crate) is_dirty: bool,
    pub(crate) is_valid: bool,
    pub(crate) is_lazy: bool,
    pub(crate) is_shadowed: bool,
    /// In the list of directories whose header is to be written.
    pub(crate) is_dirty_directory: bool,
    /// Freed when the last user is gone.
    pub(crate) is_deferred: bool,
    /// None if not known yet.
    pub(crate) has_xattrs: Option<bool>,
}

impl Object {
    pub(crate) fn kind(&self) -> ObjectKind {
        match self.body {
            Body::File(_) => ObjectKind::File,
            Body::Directory(_) => ObjectKind::Directory,
            Body::Symlink(_) => ObjectKind::Symlink,
            Body::HardLink(_) => ObjectKind::HardLink,
            Body::Special => ObjectKind::Special,
            Body::Unknown => ObjectKind::Unknown,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub(crate) fn file(&self) -> Option<&FileBody> {
        match &self.body {
            Body::File(file) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn file_mut(&mut self) -> Option<&mut FileBody> {
        match &mut self.body {
            Body::File(file) => Some(file),
            _ => None,
        }
    }

    /// Numbers of a directory's children, youngest first.
    pub(crate) fn children(&self) -> Vec<u32> {
        match &self.body {
            Body::Directory(children) => children.values().rev().copied().collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn has_children(&self) -> bool {
        matches!(&self.body, Body::Directory(children) if !children.is_empty())
    }

    pub(crate) fn set_name(&mut self, name: &[u8]) {
        self.short_name =
            // Longer names live on the medium alone (`YAFFS_SHORT_NAME_LENGTH`): each comparison
            // with an equal sum costs a page read.
            (!name.is_empty() && name.len() <= SHORT_NAME_BYTES).then(|| name.to_vec());
        self.name_sum = name_sum(name);
    }

    /// Whether it has no name: its parent is one of the two directories for such.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.parent, Some(OBJECT_UNLINKED | OBJECT_DELETED))
    }
}

/// The body of a new object.
pub(crate) fn new_body(kind: ObjectKind) -> Body {
    match kind {
        // No limit yet: a scan lowers it with each header that it meets, from the youngest on.
        ObjectKind::File => Body::File(FileBody { shrink_bytes: u64::MAX, ..FileBody::default() }),
        ObjectKind::Directory => Body::Directory(BTreeMap::new()),
        ObjectKind::Symlink => Body::Symlink(None),
        ObjectKind::HardLink => Body::HardLink(0),
        ObjectKind::Special => Body::Special,
        ObjectKind::Unknown => Body::Unknown,
    }
}

/// Every object of the file system: its whole tree is kept in memory.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    by_number: FxHashMap<u32, Object>,
    /// Numbers by their lowest bits, youngest last.
    buckets: Vec<Vec<u32>>,
    kept: Rc<KeptState>,
    stamps: u64,
    pub(crate) unlinked_files: u32,
    /// Directories whose header is to be written, in the order in which they came.
    pub(crate) dirty_directories: Vec<u32>,
}

impl Objects {
    /// The four directories that always are. The search for numbers goes on where `kept` says.
    pub(crate) fn new(now: i64, kept: Rc<KeptState>) -> Self {
        let mut all = Self {
            by_number: FxHashMap::default(),
            buckets: vec![Vec::new(); BUCKETS as usize],
            kept,
            stamps: 0,
            unlinked_files: 0,
            dirty_directories: Vec::new(),
        };
        let fake = [
            (OBJECT_UNLINKED, 0o040_000),
            (OBJECT_DELETED, 0o040_000),
            (OBJECT_ROOT, 0o040_755),
            (OBJECT_LOST_AND_FOUND, 0o040_700),
        ];
        for (number, mode) in fake {
            let mut object = Self::blank(number, ObjectKind::Directory, now);
            object.is_fake = true;
            object.may_rename = false;
            object.may_unlink = false;
            object.mode = mode;
            all.insert(object);
        }
        all.move_to(OBJECT_LOST_AND_FOUND, OBJECT_ROOT);
        all
    }

    fn blank(number: u32, kind: ObjectKind, now: i64) -> Object {
        Object {
            number,
            parent: None,
            stamp: 0,
            header_chunk: 0,
            body: new_body(kind),
            mode: 0,
            uid: 0,
            gid: 0,
            times: [now; 3],
            device: 0,
            short_name: None,
            name_sum: 0,
            links: Vec::new(),
            data_chunks: 0,
            serial: 0,
            is_deleted: false,
            is_unlinked: false,
            is_fake: false,
            may_rename: true,
            may_unlink: true,
            is_dirty: false,
            is_valid: false,
            is_lazy: false,
            is_shadowed: false,
            is_dirty_directory: false,
            is_deferred: false,
            has_xattrs: None,
        }
    }

    fn insert(&mut self, object: Object) {
        let number = object.number;
        self.buckets[(number % BUCKETS) as usize].push(number);
        let other = self.by_number.insert(number, object);
        debug_assert!(other.is_none(), "object {number} is there once");
    }

    pub(crate) fn count(&self) -> u32 {
        self.by_number.len() as u32
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Object> {
        self.by_number.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Object> {
        self.by_number.get_mut(&number)
    }

    /// An object that is not waiting to be freed.
    pub(crate) fn live(&self, number: u32) -> Option<&Object> {
        self.get(number).filter(|object| !object.is_deferred)
    }

    /// Makes an object; it stands in lost+found until it is moved.
    pub(crate) fn create(&mut self, number: u32, kind: ObjectKind, now: i64) {
        let object = Self::blank(number, kind, now);
        self.insert(object);
        self.move_to(number, OBJECT_LOST_AND_FOUND);
    }

    /// A number that no object has: the emptiest of the next ten lists, the lowest free one in it.
    ///
    /// Source: `yaffs_find_nice_bucket`, `yaffs_new_obj_id`.
    pub(crate) fn free_number(&mut self) -> u32 {
        let (mut chosen, mut shortest) = (0, usize::MAX);
        for _ in 0..10 {
            if shortest <= 4 {
                break;
            }
            let bucket = (self.kept.bucket_finder.get() + 1) % BUCKETS;
            self.kept.bucket_finder.set(bucket);
            let length = self.buckets[bucket as usize].len();
            if length < shortest {
                (chosen, shortest) = (bucket, length);
            }
        }
        // Below 256 are the format's own numbers, so a list's first number is its index and 256.
        let mut number = chosen + BUCKETS;
        while self.by_number.contains_key(&number) {
            number += BUCKETS;
        }
        number
    }

    /// All numbers: list by list, youngest first.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.buckets.iter().flat_map(|bucket| bucket.iter().rev().copied()).collect()
    }

    /// Takes an object out of its directory.
    pub(crate) fn detach(&mut self, number: u32) {
        let Some(object) = self.by_number.get_mut(&number) else { return };
        let (parent, stamp) = (object.parent.take(), object.stamp);
        if let Some(Object { body: Body::Directory(children), .. }) =
            parent.and_then(|parent| self.by_number.get_mut(&parent))
        {
            children.remove(&stamp);
        }
    }

    /// Puts an object into a directory, as its youngest child.
    pub(crate) fn move_to(&mut self, number: u32, directory: u32) {
        self.detach(number);
        self.stamps += 1;
        let stamp = self.stamps;
        if let Some(Object { body: Body::Directory(children), .. }) =
            self.by_number.get_mut(&directory)
        {
            let other = children.insert(stamp, number);
            debug_assert_eq!(other, None, "a stamp is given once");
        }
        let Some(object) = self.by_number.get_mut(&number) else { return };
        object.parent = Some(directory);
        object.stamp = stamp;
        if object.is_gone() {
            object.is_unlinked = true;
            object.may_rename = false;
            self.unlinked_files += 1;
        }
    }

    /// Takes an object out of its directory and out of all lists.
    pub(crate) fn free(&mut self, number: u32) {
        self.detach(number);
        if self.by_number.remove(&number).is_some() {
            self.buckets[(number % BUCKETS) as usize].retain(|other| *other != number);
        }
        self.dirty_directories.retain(|other| *other != number);
    }

    /// Notes that a directory's header is to be written.
    pub(crate) fn note_dirty_directory(&mut self, number: u32) {
        if let Some(object) = self.by_number.get_mut(&number)
            && !std::mem::replace(&mut object.is_dirty_directory, true)
        {
            self.dirty_directories.push(number);
        }
    }

    /// The next directory whose header is to be written: the last that came.
    pub(crate) fn take_dirty_directory(&mut self) -> Option<u32> {
        // `yaffs_update_dirty_dirs` takes the head of a list that is filled at its head.
        let number = self.dirty_directories.pop()?;
        if let Some(object) = self.by_number.get_mut(&number) {
            object.is_dirty_directory = false;
        }
        Some(number)
    }

    /// Lists, directories and links agree with the objects.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn assert_invariants(&self) {
        for (bucket, numbers) in (0..).zip(&self.buckets) {
            for (index, number) in numbers.iter().enumerate() {
                assert_eq!(number % BUCKETS, bucket, "the list of object {number}");
                assert!(!numbers[..index].contains(number), "object {number} is listed once");
                let object = self.by_number.get(number);
                let object = object.unwrap_or_else(|| panic!("object {number} is listed only"));
                assert_eq!(object.number, *number, "the key of an object is its number");
                self.assert_object(object);
            }
        }
        let listed: usize = self.buckets.iter().map(Vec::len).sum();
        assert_eq!(listed, self.by_number.len(), "every object is in a list");
        for (index, number) in self.dirty_directories.iter().enumerate() {
            assert!(
                !self.dirty_directories[..index].contains(number),
                "directory {number} waits for its header once"
            );
            assert!(
                self.get(*number).is_some_and(|object| object.is_dirty_directory),
                "directory {number} waits for its header"
            );
        }
    }

    fn assert_object(&self, object: &Object) {
        let number = object.number;
        if let Body::Directory(children) = &object.body {
            for (stamp, child) in children {
                let found = self.get(*child);
                assert_eq!(
                    found.map(|child| (child.parent, child.stamp)),
                    Some((Some(number), *stamp)),
                    "child {child} of directory {number}"
                );
            }
        }
        for link in &object.links {
            assert!(
                self.get(*link).is_some_and(
                    |link| matches!(link.body, Body::HardLink(target) if target == number)
                ),
                "link {link} names object {number}"
            );
        }
    }
}

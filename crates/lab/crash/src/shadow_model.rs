//! The shadow of a watched file system: a model to which every call is applied too, and the history that its
//! states make.

use crate::content::Content;
use crate::history::History;
use crate::tree::{Row, Tree, read_row};
use fs_api::{
    Caller, Changes, Errno, FileSystem, FileType, InodeNumber, NewInode, PAGE_BYTES, Time,
};
use mount::guarantee::Guarantee;
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use vfs::MemoryFileSystem;

/// A model in memory that follows a file system call by call, with the history of its states.
pub struct ShadowModel {
    pub(crate) model: MemoryFileSystem,
    /// Inodes of the model by those of the file system.
    pub(crate) numbers: RefCell<BTreeMap<InodeNumber, InodeNumber>>,
    /// Bytes of the model's files that did not change since they were last looked at.
    contents: RefCell<BTreeMap<InodeNumber, Content>>,
    pub(crate) history: RefCell<History>,
}

/// Who makes the model; times are not compared.
// Names of who made what are compared, so the model is made by the same caller throughout.
const MODEL_CALLER: Caller = Caller { uid: 0, gid: 0, now: Time { seconds: 0, nanoseconds: 0 } };

impl ShadowModel {
    /// A shadow model that begins with what a file system shows.
    ///
    /// # Errors
    /// Those of the model: none for a tree that a file system shows.
    pub async fn new(guarantee: &'static Guarantee, tree: &Tree) -> Result<Self, Errno> {
        let model = MemoryFileSystem::new(&MODEL_CALLER);
        let mut numbers = BTreeMap::new();
        // In the order of paths, so a directory is adopted before what it holds.
        for (path, row) in &tree.rows {
            let number = adopt(&model, &numbers, path, row, tree).await?;
            numbers.insert(row.inode, number);
        }
        let mut contents = BTreeMap::new();
        let first = Tree::read_known(&model, &mut contents, false).await;
        let first = first.map_err(|(_, error)| error)?.kept_by(guarantee);
        Ok(Self {
            model,
            numbers: numbers.into(),
            contents: contents.into(),
            history: History::new(guarantee, first).into(),
        })
    }

    /// The states that were noted.
    pub fn history(&self) -> Ref<'_, History> {
        self.history.borrow()
    }

    /// The model's number; of an inode that it does not know, one that does not exist.
    // The largest number is never given out, so a call on it fails in the model as it should.
    pub(crate) fn number(&self, inode: InodeNumber) -> InodeNumber {
        self.numbers.borrow().get(&inode).copied().unwrap_or(InodeNumber::MAX)
    }

    /// The tree of the model now.
    async fn tree(&self) -> Result<Tree, Errno> {
        let mut contents = self.contents.take();
        let read = Tree::read_known(&self.model, &mut contents, false).await;
        self.contents.replace(contents);
        let guarantee = self.history.borrow().guarantee();
        let mut tree = read.map_err(|(_, error)| error)?.kept_by(guarantee);
        debug_assert!(tree.dangling.is_empty() && tree.unreadable.is_empty(), "memory is whole");
        // Rows that did not change are shared with the state before: a history of thousands of
        // states fits into memory.
        tree.share(&self.history.borrow().newest().tree);
        Ok(tree)
    }

    /// Notes the state after a call that began at `begun_at`.
    pub(crate) async fn note(
        &self,
        begun_at: u64,
        written: Option<InodeNumber>,
    ) -> Result<(), Errno> {
        if let Some(inode) = written {
            // Bytes of other files are taken from the last look, so a state costs what changed.
            self.contents.borrow_mut().remove(&inode);
        }
        let tree = self.tree().await?;
        let nameless = match written {
            Some(inode) if tree.rows.values().all(|row| row.inode != inode) => {
                let attributes = self.model.attributes(inode).await?;
                let mut contents = BTreeMap::new();
                Some(read_row(&self.model, inode, &attributes, &mut contents).await?)
            }
            _ => None,
        };
        let mut history = self.history.borrow_mut();
        history.push(begun_at, tree, written);
        if let Some(row) = nameless {
            history.nameless_written(row);
        }
        Ok(())
    }

    pub(crate) fn newest(&self) -> Tree {
        (*self.history.borrow().newest().tree).clone()
    }
}

/// Makes a name of a tree in the model; the inode's number there.
async fn adopt(
    model: &MemoryFileSystem,
    numbers: &BTreeMap<InodeNumber, InodeNumber>,
    path: &[u8],
    row: &Row,
    tree: &Tree,
) -> Result<InodeNumber, Errno> {
    let facts = &row.facts;
    let number = if path.is_empty() {
        model.root()
    } else {
        let cut = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = cut.map_or((&path[..0], path), |cut| (&path[..cut], &path[cut + 1..]));
        let directory = numbers[&tree.rows[parent].inode];
        // A second name of an inode that is there is a link, not a file.
        if let Some(number) = numbers.get(&row.inode) {
            model.link(&MODEL_CALLER, *number, directory, name).await?;
            return Ok(*number);
        }
        let new = match facts.kind {
            FileType::Regular => NewInode::Regular(facts.permissions),
            FileType::Directory => NewInode::Directory(facts.permissions),
            FileType::Symlink => NewInode::Symlink(&facts.target),
            kind => NewInode::Special(kind.mode_bits() | facts.permissions, facts.device),
        };
        model.make(&MODEL_CALLER, directory, name, new).await?
    };
    let (uid, gid) = (Some(facts.owner.0), Some(facts.owner.1));
    let permissions = Some(facts.permissions);
    model
        .change(&MODEL_CALLER, number, &Changes { uid, gid, permissions, ..Changes::default() })
        .await?;
    for (page, bytes) in row.content.pages().enumerate() {
        let mut whole = [0; PAGE_BYTES];
        whole[..bytes.len()].copy_from_slice(bytes);
        model.write_page(&MODEL_CALLER, number, page as u64, &whole, 0..bytes.len()).await?;
    }
    for (name, value) in &facts.extended {
        model.set_extended_attribute(&MODEL_CALLER, number, name, Some(value)).await?;
    }
    Ok(number)
}

//! Paths, walked as Linux walks them (`fs/namei.c`).

use crate::vfs::Vfs;
use fs_api::{Errno, FileSystem, FileType, InodeNumber};
use std::borrow::Cow;
use std::ops::Range;

/// Symbolic links that one path may lead through (`MAXSYMLINKS`, include/linux/namei.h).
const LINKS_MAX: u32 = 40;
/// Longest path of a call and longest target of a link, bytes (`PATH_MAX` without its closing zero).
const PATH_BYTES_MAX: usize = 4095;

/// What a component of a path is (`enum` beside `struct nameidata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Name,
    /// The component `.`, the directory itself.
    Dot,
    /// The component `..`, the directory above.
    DotDot,
    /// The path has no component at all.
    Root,
}

/// A component of a path, and whether slashes stand behind it.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) kind: PieceKind,
    name: Range<usize>,
    pub(crate) has_slash: bool,
}

/// A path under way: the directories that it has led through from the root, and what is left of it.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'p> {
    text: Cow<'p, [u8]>,
    /// Where the rest of the text begins.
    at: usize,
    /// From the root to where the walk stands. `..` goes back along them, as it does in the kernel along
    /// the parents of dentries: behind a link it leads to the parent of where the link led.
    directories: Vec<InodeNumber>,
    links: u32,
}

impl<'p> Walk<'p> {
    fn new(root: InodeNumber, path: &'p [u8]) -> Result<Self, Errno> {
        check_length(path)?;
        Ok(Self { text: path.into(), at: 0, directories: vec![root], links: 0 })
    }

    /// Where the walk stands.
    pub(crate) fn directory(&self) -> InodeNumber {
        *self.directories.last().expect("the root is never left")
    }

    /// The name of a component.
    pub(crate) fn name(&self, piece: &Piece) -> &[u8] {
        &self.text[piece.name.clone()]
    }

    /// True if a directory is where the walk stands, or above it.
    pub(crate) fn leads_through(&self, directory: InodeNumber) -> bool {
        self.directories.contains(&directory)
    }

    fn is_at_end(&self) -> bool {
        self.text[self.at..].iter().all(|byte| *byte == b'/')
    }

    fn next_piece(&mut self) -> Piece {
        let is_slash = |byte: &u8| *byte == b'/';
        let rest = &self.text[self.at..];
        let begin = self.at + rest.iter().position(|byte| !is_slash(byte)).unwrap_or(rest.len());
        let rest = &self.text[begin..];
        let end = begin + rest.iter().position(is_slash).unwrap_or(rest.len());
        self.at = end;
        let kind = match &self.text[begin..end] {
            b"" => PieceKind::Root,
            b"." => PieceKind::Dot,
            b".." => PieceKind::DotDot,
            _ => PieceKind::Name,
        };
        // Whether the text goes on: slashes behind the last component ask for a directory.
        Piece { kind, name: begin..end, has_slash: end < self.text.len() }
    }

    /// `..` of the root is the root.
    fn go_up(&mut self) {
        if self.directories.len() > 1 {
            self.directories.pop();
        }
    }

    /// Goes on with the target of a link, then with what stood behind the link. An absolute target begins
    /// at the root of the mount, which stands for the root directory here.
    fn go_by(&mut self, target: &[u8]) {
        if target.first() == Some(&b'/') {
            self.directories.truncate(1);
        }
        // What stood behind the link is walked after its target; the text grows, but `LINKS_MAX`
        // bounds it.
        self.text = [target, &self.text[self.at..]].concat().into();
        self.at = 0;
    }
}

/// `getname` refuses a path that is too long. An empty path is the root of the mount here, since
/// paths are relative to it.
pub(crate) fn check_length(path: &[u8]) -> Result<(), Errno> {
    if path.len() > PATH_BYTES_MAX { Err(Errno::Enametoolong) } else { Ok(()) }
}

impl<F: FileSystem + 'static> Vfs<F> {
    /// Walks to the last component of a path, which is not looked up (`filename_parentat`).
    pub(crate) async fn parent<'p>(&self, path: &'p [u8]) -> Result<(Walk<'p>, Piece), Errno> {
        let mut walk = Walk::new(self.file_system().root(), path)?;
        let last = self.walk_to_last(&mut walk).await?;
        Ok((walk, last))
    }

    /// `link_path_walk`: every component but the last must lead to a directory.
    pub(crate) async fn walk_to_last(&self, walk: &mut Walk<'_>) -> Result<Piece, Errno> {
        loop {
            let piece = walk.next_piece();
            if walk.is_at_end() {
                // The last component is left to the caller, who may make or remove it.
                return Ok(piece);
            }
            match piece.kind {
                PieceKind::Dot | PieceKind::Root => {}
                PieceKind::DotDot => walk.go_up(),
                PieceKind::Name => {
                    let inode = self.lookup(walk.directory(), walk.name(&piece)).await?;
                    match self.file_system().attributes(inode).await?.kind {
                        FileType::Directory => walk.directories.push(inode),
                        FileType::Symlink => self.follow(walk, inode).await?,
                        _ => return Err(Errno::Enotdir),
                    }
                }
            }
        }
    }

    /// Goes on by way of a symbolic link (`pick_link`).
    pub(crate) async fn follow(&self, walk: &mut Walk<'_>, link: InodeNumber) -> Result<(), Errno> {
        // Counted for the whole path, not for each link (`nd->total_link_count`).
        walk.links += 1;
        if walk.links > LINKS_MAX {
            return Err(Errno::Eloop);
        }
        let target = self.file_system().read_link(link).await?;
        walk.go_by(&target);
        Ok(())
    }

    /// The inode that a path names, a symbolic link itself.
    ///
    /// A slash behind the last component asks for a directory, and follows a link to it.
    ///
    /// # Errors
    /// [`Errno::Enoent`], [`Errno::Enotdir`], [`Errno::Eloop`], [`Errno::Enametoolong`], and the file
    /// system's.
    pub async fn resolve(&self, path: &[u8]) -> Result<InodeNumber, Errno> {
        self.resolve_with(path, false).await
    }

    /// The inode that a path leads to, by way of symbolic links (`LOOKUP_FOLLOW`).
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn resolve_followed(&self, path: &[u8]) -> Result<InodeNumber, Errno> {
        self.resolve_with(path, true).await
    }

    async fn resolve_with(&self, path: &[u8], follows: bool) -> Result<InodeNumber, Errno> {
        let (mut walk, mut last) = self.parent(path).await?;
        loop {
            match last.kind {
                PieceKind::Dot | PieceKind::Root => return Ok(walk.directory()),
                PieceKind::DotDot => {
                    walk.go_up();
                    return Ok(walk.directory());
                }
                PieceKind::Name => {}
            }
            let inode = self.lookup(walk.directory(), walk.name(&last)).await?;
            // Without `LOOKUP_FOLLOW` a link at the end is the answer, unless a slash stands behind
            // it.
            if !follows && !last.has_slash {
                return Ok(inode);
            }
            match self.file_system().attributes(inode).await?.kind {
                FileType::Symlink => self.follow(&mut walk, inode).await?,
                FileType::Directory => return Ok(inode),
                _ if last.has_slash => return Err(Errno::Enotdir),
                _ => return Ok(inode),
            }
            last = self.walk_to_last(&mut walk).await?;
        }
    }
}

//! Names in the index: several may have one hash; the entries are read to distinguish them.
//!
//! Source: `fs/ubifs/tnc.c` (`resolve_collision`, `fallible_resolve_collision`). A part of the engine: uses
//! the engine, states and formats.

use crate::engine::Engine;
use crate::nodes::{EntryNode, Header, key_of};
use crate::tnc::Spot;
use fs_api::Errno;

/// How a name in the index compares to the one that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Less,
    Same,
    Greater,
    /// The entry cannot be read: it was collected before the cut.
    Gone,
}

impl Engine {
    async fn compare(&self, spot: Spot, name: &[u8], may_be_gone: bool) -> Result<Compared, Errno> {
        let leaf = if may_be_gone && !self.is_entry_there(spot).await? {
            return Ok(Compared::Gone);
        } else {
            self.read_leaf(spot).await?
        };
        let entry = EntryNode::parse(&leaf).ok_or(Errno::Eio)?;
        Ok(match entry.name.as_slice().cmp(name) {
            std::cmp::Ordering::Less => Compared::Less,
            std::cmp::Ordering::Equal => Compared::Same,
            std::cmp::Ordering::Greater => Compared::Greater,
        })
    }

    /// Whether the entry of a branch can be read; silently, for replays.
    async fn is_entry_there(&self, spot: Spot) -> Result<bool, Errno> {
        let (leaf, place, key) = {
            let tnc = self.tnc.borrow();
            let branch = tnc.branch(spot.znode, spot.at.expect("on a branch"));
            (branch.leaf.clone(), branch.place, branch.key)
        };
        if leaf.is_some() {
            return Ok(true);
        }
        let mut bytes = vec![0; place.bytes as usize];
        self.read(place.position(), &mut bytes).await?;
        let header = Header::check(&bytes);
        let is_there = header.is_ok_and(|header| {
            u32::from(header.kind) == key.kind()
                && header.bytes == bytes.len()
                && key_of(&bytes) == key
        });
        if is_there {
            let at = spot.at.expect("on a branch");
            self.tnc.borrow_mut().get_mut(spot.znode).branches[at].leaf = Some(bytes.into());
        }
        Ok(is_there)
    }

    /// Among entries with one hash, the one with a name; or where it would be put in
    /// (`resolve_collision`).
    pub(crate) async fn find_name(&self, spot: Spot, name: &[u8]) -> Result<(bool, Spot), Errno> {
        let key = self.key_at(spot);
        let mut here = spot;
        match self.compare(here, name, false).await? {
            Compared::Same => Ok((true, here)),
            Compared::Greater => loop {
                let Some(left) = self.previous(here).await? else {
                    return Ok((false, Spot { at: None, ..here }));
                };
                if self.key_at(left) != key {
                    // Behind the end of a node is before the beginning of the next.
                    let is_end = left.znode != here.znode;
                    return Ok((false, if is_end { Spot { at: None, ..here } } else { left }));
                }
                here = left;
                match self.compare(here, name, false).await? {
                    Compared::Less => return Ok((false, here)),
                    Compared::Same => return Ok((true, here)),
                    _ => {}
                }
            },
            _ => loop {
                let Some(right) = self.next(here).await? else { return Ok((false, here)) };
                if self.key_at(right) != key {
                    return Ok((false, here));
                }
                match self.compare(right, name, false).await? {
                    Compared::Greater => return Ok((false, here)),
                    Compared::Same => return Ok((true, right)),
                    _ => here = right,
                }
            },
        }
    }

    /// As [`Self::find_name`] while the journal is replayed: entries may be missing, because a commit that
    /// was cut has unmapped what the journal makes void. If a name that is to be removed is not found,
    /// one that is missing is taken for it (`fallible_resolve_collision`).
    pub(crate) async fn find_name_in_replay(
        &self,
        spot: Spot,
        name: &[u8],
        is_adding: bool,
    ) -> Result<(bool, Spot), Errno> {
        let key = self.key_at(spot);
        let mut first = spot;
        while let Some(left) = self.previous(first).await? {
            if self.key_at(left) != key {
                break;
            }
            first = left;
        }
        let (mut behind, mut gone) = (None, None);
        let mut here = Some(first);
        while let Some(at) = here.filter(|at| self.key_at(*at) == key) {
            match self.compare(at, name, true).await? {
                Compared::Same => return Ok((true, at)),
                Compared::Less => behind = Some(at),
                Compared::Gone => gone = gone.or(Some(at)),
                Compared::Greater => {}
            }
            here = self.next(at).await?;
        }
        if let Some(gone) = gone.filter(|_| !is_adding) {
            return Ok((true, gone));
        }
        let before = Spot { at: first.at.and_then(|at| at.checked_sub(1)), ..first };
        Ok((false, behind.unwrap_or(before)))
    }
}

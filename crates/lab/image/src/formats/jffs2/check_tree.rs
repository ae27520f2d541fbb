//! What the nodes of JFFS2 say of each other: names, inodes, contents, and what of them is missing.
//!
//! The format keeps no list of what there is. The collector takes away what newer nodes replaced, so a
//! name without a trace may have been deleted or lost. Three things are conclusive:
//!
//! - A name that can be reached leads to an inode without any node: the inode is written before its name
//!   (`jffs2_create` in `fs/jffs2/dir.c`), and the collector copies the last node of an inode that lives.
//! - Bytes before the end of a file are in no node: a file grows by nodes that say what they hold, holes
//!   too (`jffs2_write_begin`, `jffs2_do_setattr`), and each length stands in the node that reaches it.
//! - The medium is one plain log, of which the collector copied nothing (see `log.rs`), and
//!   names are missing that nothing on it takes away.

use super::log::{Log, Versioned};
use crate::medium::Medium;
use crate::report::Report;
use jffs2::nodes::{DirentNode, InodeNode};
use std::collections::{BTreeMap, BTreeSet};
use vfs::escape_path;

/// Inode number of the root directory.
pub(crate) const ROOT: u32 = 1;
/// Kind of directories in entries (`DT_DIR`).
const DT_DIR: u8 = 4;
/// Format bits of a mode, and those of a regular file.
const FORMAT_BITS: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
/// A page of file data: older kernels leave a hole inside one of which no node tells.
const PAGE_BYTES: u32 = units::PAGE_BYTES as u32;
/// Lost parts of one file that are reported one by one.
const PARTS_MAX: usize = 8;

/// An inode node, as far as others are compared with it.
#[derive(Clone, Copy)]
struct Held {
    place: u32,
    /// Bytes of the file that it holds.
    offset: u32,
    bytes: u32,
    /// Length of the file as of it.
    file_bytes: u32,
    mode: u32,
}

/// An entry of a directory.
struct Entry {
    place: u32,
    inode: u32,
    kind: u8,
    name: Vec<u8>,
}

/// What all nodes together say.
#[derive(Default)]
pub(crate) struct Tree {
    /// Of each inode its nodes by version.
    inodes: BTreeMap<u32, BTreeMap<u32, Held>>,
    /// Of each directory its entries by version.
    entries: BTreeMap<u32, BTreeMap<u32, Entry>>,
    /// Places of extended attributes, by their number.
    attributes: BTreeMap<u32, u32>,
    /// The newest reference by inode and attribute: sequence number, place.
    references: BTreeMap<(u32, u32), (u32, u32)>,
    /// Inodes of nodes that a cut tore; none where the tear leaves no number.
    torn: BTreeSet<Option<u32>>,
    /// Names that lay in what cuts tore, at most.
    torn_names: u64,
    has_torn_attribute: bool,
    log: Log,
}

impl Tree {
    /// Takes in an inode node; the place of another one of the same version that holds other bytes.
    pub(crate) fn add_inode(&mut self, block: u32, place: u32, node: &InodeNode) -> Option<u32> {
        self.log.add_inode(block, Versioned { inode: node.inode, version: node.version });
        let held = Held {
            place,
            offset: node.offset,
            bytes: node.data_bytes,
            file_bytes: node.file_bytes,
            mode: node.mode,
        };
        // A node that is collected as it is keeps its version (`jffs2_garbage_collect_pristine`).
        let known = self.inodes.entry(node.inode).or_default().entry(node.version).or_insert(held);
        ((known.offset, known.bytes) != (held.offset, held.bytes)).then_some(known.place)
    }

    /// Takes in an entry; the place of another one of the same version that says something else.
    pub(crate) fn add_entry(&mut self, block: u32, place: u32, node: DirentNode) -> Option<u32> {
        self.log.add_entry(block, Versioned { inode: node.parent, version: node.version });
        let DirentNode { parent, version, inode, kind, name, .. } = node;
        let versions = self.entries.entry(parent).or_default();
        if let Some(known) = versions.get(&version) {
            return ((&known.name, known.inode) != (&name, inode)).then_some(known.place);
        }
        versions.insert(version, Entry { place, inode, kind, name });
        None
    }

    pub(crate) fn add_attribute(&mut self, id: u32, place: u32) {
        self.attributes.insert(id, place);
    }

    pub(crate) fn add_reference(&mut self, inode: u32, id: u32, sequence: u32, place: u32) {
        let newest = self.references.entry((inode, id)).or_default();
        if sequence >= newest.0 {
            *newest = (sequence, place);
        }
    }

    /// Takes in a node of an inode that a cut tore.
    pub(crate) fn add_torn(&mut self, inode: Option<u32>) {
        self.torn.insert(inode);
    }

    /// Takes in entries of directories that a cut tore. Others may be whole behind them: the ECC of a page
    /// that lacks its code "corrects" a bit here and there, and damages what was written.
    pub(crate) fn add_torn_names(&mut self, names: u64) {
        self.torn_names += names;
    }

    /// Takes in an extended attribute that a cut tore.
    pub(crate) fn add_torn_attribute(&mut self) {
        self.has_torn_attribute = true;
    }

    fn is_torn(&self, inode: u32) -> bool {
        self.torn.contains(&Some(inode)) || self.torn.contains(&None)
    }

    /// Part of the medium is known to be gone, so that gaps say nothing.
    pub(crate) fn has_lost_part(&mut self) {
        self.log.has_copies = true;
    }

    /// The newest entry of each name of a directory.
    fn newest(&self, directory: u32) -> BTreeMap<&[u8], &Entry> {
        let entries = self.entries.get(&directory).into_iter().flat_map(BTreeMap::values);
        // In the order of versions, so that a later entry of a name takes the place of an earlier
        // one.
        entries.map(|entry| (&entry.name[..], entry)).collect()
    }

    pub(crate) fn check(&self, medium: &Medium<'_>, report: &mut Report) {
        let reached = self.check_names(medium, report);
        for inode in &reached.inodes {
            self.check_contents(medium, *inode, report);
        }
        self.check_reach(report);
        self.check_missing(&reached, report);
        for ((inode, id), (sequence, place)) in &self.references {
            // An odd sequence number takes the attribute away.
            let is_alive = sequence % 2 == 0 && reached.inodes.contains(inode);
            if is_alive && !self.attributes.contains_key(id) {
                let what = format!("inode {inode} refers to attribute {id}, which is not there");
                report.add(self.has_torn_attribute, medium.place(*place), what);
            }
        }
    }

    /// Follows the names from the root. What cannot be reached was deleted, or its name is lost: a
    /// directory that was removed leaves entries whose inodes are long gone.
    fn check_names(&self, medium: &Medium<'_>, report: &mut Report) -> Reached {
        let mut reached = Reached::default();
        reached.inodes.insert(ROOT);
        reached.directories.insert(ROOT);
        let mut names: BTreeMap<u32, u32> = BTreeMap::new();
        let mut rest = vec![ROOT];
        while let Some(directory) = rest.pop() {
            for (name, entry) in self.newest(directory) {
                // An entry of inode 0 takes the name away (`jffs2_do_unlink`).
                if entry.inode == 0 {
                    continue;
                }
                let shown = format!("`{}` in directory {directory}", escape_path(name));
                if !self.inodes.contains_key(&entry.inode) && entry.inode != ROOT {
                    // A kernel passes over the name (`jffs2_build_inode_pass1` in `fs/jffs2/build.c`).
                    let is_torn = self.is_torn(entry.inode);
                    let remark = if is_torn { " (a write was cut short)" } else { "" };
                    let what =
                        format!("{shown} names inode {}, which is not there{remark}", entry.inode);
                    report.add(is_torn, medium.place(entry.place), what);
                    continue;
                }
                reached.inodes.insert(entry.inode);
                if entry.kind != DT_DIR {
                    continue;
                }
                let count = names.entry(entry.inode).or_default();
                *count += 1;
                if *count > 1 || entry.inode == ROOT {
                    // A rename writes the new name before it takes the old one away (`jffs2_rename`).
                    let is_cut = *count == 2 && entry.inode != ROOT;
                    let what = format!("{shown}: directory {} has another name", entry.inode);
                    let remark = if is_cut { " (a rename was cut short)" } else { "" };
                    report.add(is_cut, medium.place(entry.place), what + remark);
                }
                if reached.directories.insert(entry.inode) {
                    rest.push(entry.inode);
                }
            }
        }
        reached
    }

    /// Every byte of a file before its end is in a node.
    fn check_contents(&self, medium: &Medium<'_>, inode: u32, report: &mut Report) {
        let Some(nodes) = self.inodes.get(&inode) else { return };
        let Some(newest) = nodes.values().next_back() else { return };
        if newest.mode & FORMAT_BITS != REGULAR {
            return;
        }
        let place = medium.place(newest.place);
        for (from, to) in uncovered(nodes.values(), newest.file_bytes).take(PARTS_MAX) {
            let what = format!("inode {inode}: bytes {from} to {} are in no node", to - 1);
            // In older kernels (`jffs2_write_begin`) the hole before a write ends where the page begins.
            let is_hole = from / PAGE_BYTES == to / PAGE_BYTES && to < newest.file_bytes;
            let is_torn = self.is_torn(inode);
            let remark = match (is_hole, is_torn) {
                (true, _) => " (older kernels leave such holes)",
                (_, true) => " (a write was cut short)",
                _ => "",
            };
            report.add(is_hole || is_torn, place.clone(), what + remark);
        }
    }

    /// Directories that hang on each other instead of on the root.
    fn check_reach(&self, report: &mut Report) {
        let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
        for directory in self.entries.keys() {
            let directories = self.newest(*directory).into_values();
            let directories = directories.filter(|entry| entry.kind == DT_DIR && entry.inode != 0);
            parents.extend(directories.map(|entry| (entry.inode, *directory)));
        }
        for inode in parents.keys() {
            let mut at = *inode;
            let mut steps = 0;
            while let Some(parent) = parents.get(&at)
                && at != ROOT
                && steps <= parents.len()
            {
                at = *parent;
                steps += 1;
            }
            // More steps than directories mean a ring.
            if steps > parents.len() {
                report.add_finding(format!("inode {inode}"), "the directory lies within itself");
            }
        }
    }

    /// Inodes that had a name, of which the medium has none any more.
    fn nameless(&self) -> u64 {
        let entries = self.entries.values().flat_map(BTreeMap::values);
        let named: BTreeSet<u32> = entries.map(|entry| entry.inode).collect();
        let nameless = self.inodes.iter().filter(|(inode, nodes)| {
            // The first node is written before the name, and a cut may come between them.
            let had_name = nodes.keys().any(|version| *version > 1);
            let is_named = **inode == ROOT || named.contains(inode);
            !is_named && (had_name || self.entries.contains_key(inode))
        });
        nameless.count() as u64
    }

    /// Names that the medium implies though it does not hold them.
    fn check_missing(&self, reached: &Reached, report: &mut Report) {
        let nameless = self.nameless();
        let entries = self.entries.values().flat_map(BTreeMap::values);
        let named: BTreeSet<u32> = entries.map(|entry| entry.inode).collect();
        let removals = self.entries.values().flat_map(BTreeMap::values);
        let removals = removals.filter(|entry| entry.inode == 0).count() as u64;
        let gaps = self.gaps(reached, &named);
        let missing: u64 = gaps.iter().map(|gap| gap.versions).sum();
        let is_unnamed = |inode: &&u32| **inode != ROOT && !named.contains(inode);
        let has_unnamed = self.inodes.keys().any(|inode| is_unnamed(&inode));
        let is_plain = !self.log.is_copied() && (removals > 0 || !self.has_rewritten_entries());
        if is_plain && nameless > removals + self.torn_names {
            // Without copies the removal of a name stays: the collector alone drops it.
            let inodes = counted(nameless, "inode was", "inodes were");
            let removed = counted(removals, "name was", "names were");
            let what = format!(
                "{inodes} written to without a name, and {removed} removed: names are lost"
            );
            report.add_finding("names", what);
        } else if is_plain
            && missing > self.torn_names
            && gaps.iter().any(|gap| {
                let is_explained = removals > 0 || !has_unnamed && gap.may_be_rewritten();
                gap.is_loss() || !is_explained
            })
        {
            let entries = counted(missing, "entry of a directory is", "entries of directories are");
            let what = format!(
                "{entries} missing, and nothing on the medium takes names away: names are lost"
            );
            report.add_finding("names", what);
        } else if missing + nameless > 0 {
            report.add_note("names", told_as_gone(missing, nameless));
        }
    }

    /// An entry names an older inode than an entry before it, and it is the only name of that inode. Without any
    /// removal it was not renamed: the collector wrote it again, with a version of its own
    /// (`jffs2_garbage_collect_dirent` of `fs/jffs2/gc.c`). It may have dropped removals, too.
    fn has_rewritten_entries(&self) -> bool {
        let mut names: BTreeMap<u32, usize> = BTreeMap::new();
        for entry in self.entries.values().flat_map(BTreeMap::values) {
            *names.entry(entry.inode).or_default() += 1;
        }
        self.entries.values().any(|entries| {
            let mut youngest = 0;
            entries.values().any(|entry| {
                let is_older = entry.inode < youngest && names[&entry.inode] == 1;
                youngest = youngest.max(entry.inode);
                is_older
            })
        })
    }

    /// Stretches of versions without a node in the directories that can be reached.
    fn gaps(&self, reached: &Reached, named: &BTreeSet<u32>) -> Vec<Gap> {
        // mkfs.jffs2 counts the entries of all directories on, from zero; a kernel each directory's own.
        let is_of_mkfs = self.entries.values().any(|entries| entries.contains_key(&0));
        if is_of_mkfs {
            let all: BTreeSet<u32> =
                self.entries.values().flat_map(BTreeMap::keys).copied().collect();
            let count = all.last().map_or(0, |last| u64::from(*last) + 1);
            let versions = count - all.len() as u64;
            return vec![Gap { versions, inodes: 0, removals: 0, later: 0 }];
        }
        reached.directories.iter().flat_map(|directory| self.gaps_of(*directory, named)).collect()
    }

    fn gaps_of(&self, directory: u32, named: &BTreeSet<u32>) -> Vec<Gap> {
        // A directory counts the versions of its inode and of its entries together.
        let entries = self.entries.get(&directory);
        let own = self.inodes.get(&directory).into_iter().flat_map(BTreeMap::keys);
        let versions: BTreeSet<u32> =
            own.chain(entries.into_iter().flat_map(BTreeMap::keys)).copied().collect();
        let mut gaps = Vec::new();
        let mut before = 0;
        for version in versions {
            if version > before + 1 && entries.is_some() {
                gaps.push(self.gap(directory, named, before, version));
            }
            before = version;
        }
        gaps
    }

    /// The gap between two versions of a directory.
    fn gap(&self, directory: u32, named: &BTreeSet<u32>, before: u32, after: u32) -> Gap {
        let entries = &self.entries[&directory];
        // Numbers of inodes grow: the entries on both sides of the gap tell which were made
        // meanwhile.
        let older = entries.range(..=before).map(|(_, entry)| entry.inode);
        let oldest = older.max().unwrap_or(0).max(directory);
        let younger = entries.range(after..).map(|(_, entry)| entry.inode);
        let youngest = younger.filter(|inode| *inode > oldest).min().unwrap_or(oldest + 1);
        let own_after = self.inodes.get(&directory).map_or(0, |nodes| nodes.range(after..).count());
        let has_first =
            |inode: &u32| self.inodes.get(inode).is_some_and(|nodes| nodes.contains_key(&1));
        // The collector writes the nodes of an inode again with later versions. It is not gone if it has a name.
        let is_known = |inode: &u32| has_first(inode) || named.contains(inode);
        let known = self.inodes.range(oldest + 1..youngest);
        let known = known.filter(|(inode, _)| is_known(inode)).count() as u64;
        let mut seen = BTreeSet::new();
        let mut removals = 0;
        for (version, entry) in entries {
            let is_first = seen.insert(&entry.name);
            removals += u64::from(is_first && entry.inode == 0 && *version > before);
        }
        Gap {
            versions: u64::from(after - before) - 1,
            inodes: u64::from(youngest - oldest) - 1 - known,
            removals,
            later: (entries.range(after..).count() + own_after) as u64,
        }
    }
}

/// What is not there and need not be lost; at least one of the two numbers is not zero.
fn told_as_gone(missing: u64, nameless: u64) -> String {
    let entries =
        counted(missing, "older entry of a directory is", "older entries of directories are");
    let inodes = counted(nameless, "inode has no name", "inodes have no name");
    let told = match (missing, nameless) {
        (_, 0) => format!("{entries} gone"),
        (0, _) => inodes,
        _ => format!("{entries} gone, and {inodes}"),
    };
    format!("{told}: replaced, deleted or lost; the medium does not tell which")
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What can be reached from the root.
#[derive(Default)]
struct Reached {
    inodes: BTreeSet<u32>,
    directories: BTreeSet<u32>,
}

/// A stretch of versions of a directory without a node.
struct Gap {
    versions: u64,
    /// Inodes made meanwhile of which the first node is not there, either.
    inodes: u64,
    /// Removals behind it of names that have no older entry.
    removals: u64,
    /// Nodes of the directory behind it.
    later: u64,
}

impl Gap {
    /// The collector may have written the entries again, behind the gap: no inode is gone with them.
    fn may_be_rewritten(&self) -> bool {
        self.inodes == 0 && self.versions <= self.later
    }

    /// As many inodes are gone as entries. What is deleted takes two entries an inode, its name and the
    /// removal, and what fills a directory that was removed takes far fewer.
    fn is_loss(&self) -> bool {
        // Between three quarters of an inode and one and a half for each entry.
        let inodes = 4 * self.inodes;
        self.versions > 1
            && (3 * self.versions..=6 * self.versions).contains(&inodes)
            && 2 * self.removals < self.versions
    }
}

/// Bytes before the end of a file that no node holds.
fn uncovered<'n>(
    nodes: impl Iterator<Item = &'n Held>,
    file_bytes: u32,
) -> impl Iterator<Item = (u32, u32)> {
    let mut held: Vec<(u32, u32)> =
        nodes.map(|node| (node.offset, node.offset.saturating_add(node.bytes))).collect();
    // The end of the file closes the last gap.
    held.push((file_bytes, file_bytes));
    held.sort_unstable();
    let mut end = 0;
    held.into_iter().filter_map(move |(from, to)| {
        let gap = (end, from.min(file_bytes));
        end = end.max(to);
        (gap.0 < gap.1).then_some(gap)
    })
}

#[cfg(test)]
mod tests {
    use super::told_as_gone;

    #[test]
    fn numbers_of_zero_and_one_make_sentences() {
        let end = ": replaced, deleted or lost; the medium does not tell which";
        for (missing, nameless, told) in [
            (1, 0, "1 older entry of a directory is gone"),
            (0, 1, "1 inode has no name"),
            (2, 3, "2 older entries of directories are gone, and 3 inodes have no name"),
        ] {
            assert_eq!(told_as_gone(missing, nameless), format!("{told}{end}"));
        }
    }
}

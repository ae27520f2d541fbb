//! Whether a tree that was found after a cut is one of those that the guarantee allows.

use crate::explanation::{describe_beside, describe_either, explain, leads_nowhere};
use crate::history::{History, State, Window};
use crate::judge_checkpoints::checkpoints;
use crate::judge_names::names_in_order;
use crate::judge_sectors::sectors;
use crate::judgement::{Judgement, Mismatch};
use crate::mixture::{is_mixture, is_mixture_with_old_tail, is_mixture_with_older};
use crate::tree::{Facts, Row, Tree};
use fs_api::{FileType, InodeNumber};
use mount::guarantee::{ERASED_CHUNK, LOST_GROWTH, OLD_CHUNK, OLD_TAIL, Order, PAGES_IN_ANY_ORDER};
use mtd::ECC_STEP_BYTES;
use nand::Torn;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Judges a tree by what may be found after a cut.
///
/// `window` is [`History::window`] of the operation that was torn, and `torn` what is left of that.
///
/// # Errors
/// The path that says best what the guarantee does not allow; one that was safe comes first.
pub fn judge(
    history: &History,
    window: &Window,
    torn: Torn,
    found: &Tree,
) -> Result<Judgement, Mismatch> {
    assert!(*window.states.end() < history.states().len(), "the window is of this history");
    if history.guarantee().order(torn) == Order::Sectors {
        return sectors(history, window, found);
    }
    if history.guarantee().order(torn) == Order::Pages {
        return Ok(pages(history, window, found));
    }
    let judged = judge_as_found(history, window, torn, found);
    let hazards = history.guarantee().hazards;
    if judged.is_ok() {
        return judged;
    }
    if window.is_recovery_cut
        && let Some(hazard) = history.hazard_behind_recoveries(window, found)
    {
        return Ok(Judgement::Hazard(hazard));
    }
    // Holes are what the same chunks are once the erase is complete: where those are allowed, bytes of the erase are
    // what its cut leaves of them. Another file may have lost its growth by then.
    if torn == Torn::DataOnly
        && hazards.contains(&ERASED_CHUNK)
        && let Some(holes) = with_holes(found)
        && (judge_as_found(history, window, torn, &holes).is_ok()
            || has_lost_growth(history, window, torn, &holes))
    {
        return Ok(Judgement::Hazard(&ERASED_CHUNK));
    }
    if has_lost_growth(history, window, torn, found) {
        return Ok(Judgement::Hazard(&LOST_GROWTH));
    }
    judged
}

/// True if the tree is allowed with zeros that a truncate added. They exist in memory alone until a checkpoint.
// Any state may have them: a write behind them takes the checkpoint away before its bytes are on the medium
// (`yaffs2_checkpt_invalidate`).
fn has_lost_growth(history: &History, window: &Window, torn: Torn, found: &Tree) -> bool {
    // Only a file system that has this hazard is judged a second time.
    if !history.guarantee().hazards.contains(&LOST_GROWTH) {
        return false;
    }
    let (first, last) = (*window.states.start(), *window.states.end());
    // A cut of a recovery may bring a replaced file back besides.
    let is_revived = |grown: &Tree| {
        window.is_recovery_cut && history.hazard_behind_recoveries(window, grown).is_some()
    };
    let is_allowed = |named: &State, known: &State| {
        grown(named, known, found).is_some_and(|grown| {
            judge_as_found(history, window, torn, &grown).is_ok() || is_revived(&grown)
        })
    };
    // A file whose bytes are not written yet may have been longer by zeros alone before the window began.
    let dirty_since = window.dirty.values().copied().min().unwrap_or(first).min(first);
    let older = &history.states()[dirty_since..first];
    history.states()[first..=last].iter().rev().any(|state| {
        is_allowed(state, state) || older.iter().rev().any(|older| is_allowed(state, older))
    })
}

/// Nothing is promised: a tree is a state of the calls, or a hazard.
fn pages(history: &History, window: &Window, found: &Tree) -> Judgement {
    let states = &history.states()[window.states.clone()];
    let is_whole = found.unreadable.is_empty() && found.dangling.is_empty();
    if is_whole && states.iter().any(|state| state.tree.is_same(found)) {
        Judgement::State
    } else {
        Judgement::Hazard(&PAGES_IN_ANY_ORDER)
    }
}

/// The tree, with zeros in place of erased chunks of files; none if no file has any.
fn with_holes(found: &Tree) -> Option<Tree> {
    let mut holes = found.clone();
    let mut has_holes = false;
    for row in holes.rows.values_mut() {
        let is_hole = |page: &[u8]| page.chunks(LEAST_CHUNK_BYTES).any(is_erased);
        if !row.content.pages().any(is_hole) {
            continue;
        }
        let content = row.content.with_pages(|page| {
            let mut other = is_hole(page).then(|| page.to_vec())?;
            let chunks = other.chunks_mut(LEAST_CHUNK_BYTES);
            chunks.filter(|chunk| is_erased(chunk)).for_each(|chunk| chunk.fill(0));
            Some(other)
        });
        *row = Arc::new(Row { content, ..(**row).clone() });
        has_holes = true;
    }
    has_holes.then_some(holes)
}

/// True if a chunk is erased but for one bit of each step: the code that an erase left in the spare area may differ
/// from that of erased bytes as the code of one wrong bit does, and the ECC "corrects" that bit.
fn is_erased(chunk: &[u8]) -> bool {
    let zeros = |step: &[u8]| step.iter().map(|byte| byte.count_zeros()).sum::<u32>();
    chunk.chunks(ECC_STEP_BYTES).all(|step| zeros(step) <= 1)
}

/// The page of the smallest NAND chips, of which larger chunks are multiples.
const LEAST_CHUNK_BYTES: usize = 512;

/// The tree, with the zeros that files lack at their ends beside a state; none if no file does. What stands before
/// those zeros may be of another state: a write may have been cut whose file had not grown on the medium. The
/// file behind a name is that of `named`.
fn grown(named: &State, known: &State, found: &Tree) -> Option<Tree> {
    let mut grown = found.clone();
    let mut has_grown = false;
    for (path, row) in &mut grown.rows {
        let Some(inode) = named.tree.rows.get(path).map(|row| row.inode) else { continue };
        let mut rows = known.tree.rows.values();
        let Some(known) = rows.find(|row| row.inode == inode) else { continue };
        let lacks = row.content.len() < known.content.len()
            && known.content.bytes().skip(row.content.len()).all(|byte| byte == 0);
        if known.facts.kind == FileType::Regular && lacks {
            let mut longer = (**row).clone();
            longer.content = row.content.grown_to(known.content.len());
            longer.facts.size_bytes = known.facts.size_bytes;
            *row = Arc::new(longer);
            has_grown = true;
        }
    }
    has_grown.then_some(grown)
}

fn judge_as_found(
    history: &History,
    window: &Window,
    torn: Torn,
    found: &Tree,
) -> Result<Judgement, Mismatch> {
    let states = &history.states()[window.states.clone()];
    let order = history.guarantee().order(torn);
    // Where each file stands by itself, an unreadable one is among the outcomes that are allowed.
    let unreadable = found.unreadable.first().filter(|_| order != Order::EachByItself);
    if let Some(path) = unreadable.or(found.dangling.first()) {
        // The hazard that explains the names that do lead somewhere, else any of the call that was cut.
        let mut struck = states.iter().filter(|state| state.hazard.is_some());
        let nearest = struck.clone().find(|state| state.tree.is_same(found));
        let hazard = nearest.or_else(|| struck.next()).and_then(|state| state.hazard);
        if let Some(hazard) = hazard.filter(|_| unreadable.is_none()) {
            return Ok(Judgement::Hazard(hazard));
        }
        return Err(leads_nowhere(states, path));
    }
    let differing = match compared(states, found) {
        Compared::Whole(state) => {
            return Ok(state.hazard.map_or(Judgement::State, Judgement::Hazard));
        }
        Compared::Differing(differing) => differing,
    };
    // A state that differs in bytes alone may be one with a write that was under way.
    let struck = |allows: &dyn Fn(usize, InodeNumber, &[u8]) -> bool| {
        differing.iter().enumerate().position(|(at, files)| {
            let files = files.as_ref();
            files.is_some_and(|files| files.iter().all(|(inode, path)| allows(at, *inode, path)))
        })
    };
    let is_part = |at: usize, inode: InodeNumber, path: &[u8]| match order {
        Order::Calls => is_part_of_write(&states[at..], path, inode, found),
        Order::CallsWithChunks | Order::EachByItself => {
            is_of_chunks(history, window, inode, &found.rows[path], is_mixture)
        }
        Order::NamesInOrder | Order::Checkpoints | Order::Sectors | Order::Pages => false,
    };
    if let Some(at) = struck(&is_part) {
        return Ok(states[at].hazard.map_or(Judgement::PartOfWrite, Judgement::Hazard));
    }
    if history.guarantee().hazards.contains(&OLD_CHUNK) {
        let is_old = |_: usize, inode: InodeNumber, path: &[u8]| {
            let known = versions_of(history, inode, 0..=*window.states.end());
            let is_of = |versions: &[&Row], row: &Row| is_mixture_with_older(versions, &known, row);
            is_of_chunks(history, window, inode, &found.rows[path], is_of)
        };
        if struck(&is_old).is_some() {
            return Ok(Judgement::Hazard(&OLD_CHUNK));
        }
    }
    match order {
        Order::EachByItself => return by_itself(states, found),
        Order::NamesInOrder => return names_in_order(history, window, found),
        Order::Checkpoints => return checkpoints(history, window, found),
        Order::Calls | Order::CallsWithChunks | Order::Sectors | Order::Pages => {}
    }
    Err(explain(states, &window.dirty, found))
}

/// Each name by itself: it is there as in one of the states, or not there as in one of them.
fn by_itself(states: &[State], found: &Tree) -> Result<Judgement, Mismatch> {
    let mut judgement = Judgement::PartOfWrite;
    let mut wrong = None;
    let paths = states.iter().flat_map(|state| state.tree.rows.keys());
    let paths: BTreeSet<&Vec<u8>> = paths.chain(found.rows.keys()).collect();
    for path in paths {
        let rows = || states.iter().map(|state| state.tree.rows.get(path));
        let is_allowed = match found.rows.get(path) {
            None => rows().any(|row| row.is_none()) || is_remade(states, path),
            Some(row) if is_of_versions(states, &[path], row, is_mixture) => true,
            Some(row) => {
                // Names stand in their directory by its inode number (`pino` of `struct jffs2_raw_dirent`). So what
                // was lost of a directory shows under the path that the directory has by now.
                let others = paths_of_name(states, path);
                let others: Vec<&Vec<u8>> = others.iter().collect();
                if is_of_versions(states, &others, row, is_mixture) {
                    true
                } else if is_of_versions(states, &others, row, is_mixture_with_old_tail) {
                    judgement = Judgement::Hazard(&OLD_TAIL);
                    true
                } else {
                    false
                }
            }
        };
        if !is_allowed {
            let (old, new) = (rows().next().flatten(), rows().next_back().flatten());
            let mismatch = Mismatch {
                was_safe: rows().all(|row| row.is_some_and(|row| row.is_same(old.unwrap_or(row)))),
                path: path.clone(),
                expected: describe_either(old, new),
                found: describe_beside(new, found.rows.get(path)),
            };
            // What was safe and untouched is the worst, and is reported before anything else.
            if mismatch.was_safe {
                return Err(mismatch);
            }
            wrong = wrong.or(Some(mismatch));
        }
    }
    wrong.map_or(Ok(judgement), Err)
}

/// True if a path names one inode in one state and another in the next: both may be missing.
fn is_remade(states: &[State], path: &[u8]) -> bool {
    let mut inodes = states.iter().map(|state| state.tree.rows.get(path).map(|row| row.inode));
    let first = inodes.next().flatten();
    inodes.any(|inode| inode != first)
}

/// The paths of a name in any state, where its directory, or one above it, was renamed between them.
fn paths_of_name(states: &[State], path: &[u8]) -> BTreeSet<Vec<u8>> {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        return BTreeSet::from([path.to_vec()]);
    };
    let (parent, name) = (&path[..slash], &path[slash..]);
    let parents = paths_of_name(states, parent);
    let all = || states.iter().flat_map(|state| &state.tree.rows);
    let is_parent = |(path, _): &(&Vec<u8>, &Arc<Row>)| parents.contains(*path);
    let directories: BTreeSet<InodeNumber> =
        all().filter(is_parent).map(|(_, row)| row.inode).collect();
    let renamed = all().filter(|(_, row)| directories.contains(&row.inode)).map(|(path, _)| path);
    parents.iter().chain(renamed).map(|parent| [parent, name].concat()).collect()
}

/// True if a row has nothing that none of the versions of its paths has.
fn is_of_versions(
    states: &[State],
    paths: &[&Vec<u8>],
    found: &Row,
    is_mixture: fn(&[&Row], &Row) -> bool,
) -> bool {
    let versions =
        paths.iter().flat_map(|path| states.iter().filter_map(|state| state.tree.rows.get(*path)));
    let inodes: BTreeSet<InodeNumber> =
        versions.filter(|row| row.facts.kind == found.facts.kind).map(|row| row.inode).collect();
    inodes.into_iter().any(|inode| {
        let mut rows: Vec<&Row> = Vec::new();
        // Bytes that an open file got after its name was deleted show if a torn page lost the deletion.
        let all = states.iter().flat_map(|state| state.tree.rows.values().chain(&state.nameless));
        for row in all {
            if row.inode == inode && !rows.iter().any(|known| std::ptr::eq(*known, row.as_ref())) {
                rows.push(row);
            }
        }
        let facts = &found.facts;
        // Attributes can be of different states, since each record is old or new by itself.
        let has = |wanted: &dyn Fn(&Facts) -> bool| rows.iter().any(|row| wanted(&row.facts));
        let has_attribute = |name: &[u8], value: Option<&Vec<u8>>| {
            let mut known = rows.iter().map(|row| row.facts.extended.get(name));
            // A new value is a reference to it, and a mark that the old one is deleted (`do_jffs2_setxattr` of
            // `fs/jffs2/xattr.c`): where each record stands by itself, the mark can be there alone.
            let is_replaced = rows.windows(2).any(|pair| {
                let [old, new] = [pair[0], pair[1]].map(|row| row.facts.extended.get(name));
                old.is_some() && new != old
            });
            known.any(|known| known == value) || (value.is_none() && is_replaced)
        };
        let names: BTreeSet<&Vec<u8>> =
            rows.iter().flat_map(|row| row.facts.extended.keys()).collect();
        let is_settled = rows.iter().all(|row| row.facts.links == rows[0].facts.links)
            && !is_renamed(states, inode);
        has(&|known| known.permissions == facts.permissions)
            && has(&|known| known.owner == facts.owner)
            && has(&|known| known.target == facts.target && known.device == facts.device)
            // Links follow from names, so they may differ while names change.
            && (!is_settled || rows[0].facts.links == facts.links)
            && facts.extended.keys().all(|name| names.contains(name))
            && names.iter().all(|name| has_attribute(name, facts.extended.get(*name)))
            && is_mixture(&rows, found)
    })
}

/// True if the names of an inode are not the same in all states.
fn is_renamed(states: &[State], inode: InodeNumber) -> bool {
    let names = |state: &State| -> Vec<Vec<u8>> {
        let rows = state.tree.rows.iter().filter(|(_, row)| row.inode == inode);
        rows.map(|(path, _)| path.clone()).collect()
    };
    let first = names(&states[0]);
    states[1..].iter().any(|state| names(state) != first)
}

/// Files, by the inode of the state, that differ in their bytes alone; with a name of each.
type Differing = BTreeMap<InodeNumber, Vec<u8>>;

/// What a tree is beside the states.
enum Compared<'a> {
    /// It is this state, the newest that it is: the one that explains most.
    Whole(&'a State),
    /// It is none of them. Of each state, files in whose bytes alone they differ; none if they differ in
    /// more.
    Differing(Vec<Option<Differing>>),
}

/// Compares a tree with the states, the newest first.
fn compared<'a>(states: &'a [State], found: &Tree) -> Compared<'a> {
    // Rows are shared between states, so a path is compared once for each version and not for each
    // state.
    let mut known = vec![None; found.rows.len()];
    let mut all = Vec::with_capacity(states.len());
    for state in states.iter().rev() {
        let differing = differing(&state.tree, found, &mut known);
        if differing.as_ref().is_some_and(BTreeMap::is_empty) {
            return Compared::Whole(state);
        }
        all.push(differing);
    }
    all.reverse();
    Compared::Differing(all)
}

/// Files in whose bytes alone a tree differs from a state; none if it differs in more. `known` is how
/// each row differs from the one that was last at its path.
fn differing<'a>(
    state: &'a Tree,
    found: &Tree,
    known: &mut [Option<(&'a Arc<Row>, Difference)>],
) -> Option<Differing> {
    if state.rows.len() != found.rows.len() {
        return None;
    }
    let mut files = Differing::new();
    // Both are sorted and have as many names: they have the same ones if each pair does.
    for (((path, row), known), (other_path, other)) in found.rows.iter().zip(known).zip(&state.rows)
    {
        if path != other_path {
            return None;
        }
        let difference = match known {
            Some((same, difference)) if Arc::ptr_eq(same, other) => *difference,
            _ => difference(other, row),
        };
        *known = Some((other, difference));
        match difference {
            Difference::None => {}
            Difference::Bytes(inode) => {
                files.entry(inode).or_insert_with(|| path.clone());
            }
            Difference::More => return None,
        }
    }
    Some(files)
}

/// How a row differs from another.
#[derive(Clone, Copy)]
enum Difference {
    None,
    /// In the bytes of a file.
    Bytes(InodeNumber),
    More,
}

fn difference(known: &Row, found: &Row) -> Difference {
    if known.is_same(found) {
        return Difference::None;
    }
    let mut facts = known.facts.clone();
    // The size goes with the bytes: a file that is being written has both in between.
    facts.size_bytes = found.facts.size_bytes;
    if facts == found.facts && facts.kind == FileType::Regular {
        Difference::Bytes(known.inode)
    } else {
        Difference::More
    }
}

/// True if a file is between the first of the states and the next one, which is a write to it.
fn is_part_of_write(states: &[State], path: &[u8], inode: InodeNumber, found: &Tree) -> bool {
    let [old, new, ..] = states else { return false };
    if new.written != Some(inode) {
        return false;
    }
    match (old.tree.rows.get(path), new.tree.rows.get(path)) {
        (Some(old), Some(new)) => is_mixture(&[old, new], &found.rows[path]),
        _ => false,
    }
}

/// True if a file was being written, and each of its bytes is one of those that it had since it was safe.
fn is_of_chunks(
    history: &History,
    window: &Window,
    inode: InodeNumber,
    found: &Row,
    is_of: impl Fn(&[&Row], &Row) -> bool,
) -> bool {
    let (first, last) = (*window.states.start(), *window.states.end());
    // A file that was changed in memory before the window began has versions older than the window.
    let since = window.dirty.get(&inode).copied().unwrap_or(first).min(first);
    let states = &history.states()[since..=last];
    states.iter().any(|state| state.written == Some(inode))
        && is_of(&versions_of(history, inode, since..=last), found)
}

/// The contents that a file had in these states, each once while it lasted.
fn versions_of(history: &History, inode: InodeNumber, states: RangeInclusive<usize>) -> Vec<&Row> {
    let mut versions: Vec<&Row> = Vec::new();
    for row in history.rows_of(inode, states).filter_map(<[_]>::first) {
        if versions.last().is_none_or(|last| !last.content.is_shared_with(&row.content)) {
            versions.push(row);
        }
    }
    versions
}

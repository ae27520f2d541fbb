//! Calls carried out on a file system and on the model, side by side.

use crate::calls::Call;
use fs_api::{Caller, Errno, FileSystem, Time};
use mount::Kind;
use script::{Runner, parse};
use sim::Sim;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use vfs::{Manifest, ManifestRow, MemoryFileSystem, Vfs};

pub(crate) const CALLER: Caller =
    Caller { uid: 0, gid: 0, now: Time { seconds: 0, nanoseconds: 0 } };
/// Calls between two comparisons of all that is there.
const COMPARED_EVERY: usize = 60;

/// The model, over all mounts of a history.
#[derive(Clone)]
pub(crate) struct Model {
    tree: Rc<MemoryFileSystem>,
    /// Paths of what a file system keeps for itself since it was made (`lost+found`, `.nilfs`).
    own: Rc<Vec<String>>,
    /// Calls that failed, by the name of the error.
    errors: Rc<RefCell<BTreeMap<String, u32>>>,
}

impl Model {
    /// Beside a file system in which nothing was done yet.
    pub(crate) async fn new(made: &impl FileSystem) -> Self {
        let manifest = Manifest::of(made).await.expect("a new file system can be listed");
        let own = manifest.rows.into_iter().map(|row| row.path).collect();
        let tree = Rc::new(MemoryFileSystem::new(&CALLER));
        Self { tree, own: Rc::new(own), errors: Rc::default() }
    }

    fn count(&self, done: Result<(), Errno>) {
        if let Err(errno) = done {
            *self.errors.borrow_mut().entry(format!("{errno:?}")).or_default() += 1;
        }
    }

    /// Calls that failed, by the name of the error.
    pub(crate) fn errors(&self) -> BTreeMap<String, u32> {
        self.errors.borrow().clone()
    }

    /// Carries lines out as one process; how each ended.
    pub(crate) async fn play_lines(
        &self,
        sim: &Sim,
        lines: &[String],
    ) -> Result<Vec<Result<(), Errno>>, String> {
        play_lines(sim, &Rc::new(Vfs::new(sim, self.tree.clone())), lines).await
    }

    /// Those of the lines that succeed, one after the other, on the empty model.
    pub(crate) async fn succeeding(sim: &Sim, lines: Vec<String>) -> Result<Vec<String>, String> {
        let tree = Rc::new(MemoryFileSystem::new(&CALLER));
        let done = play_lines(sim, &Rc::new(Vfs::new(sim, tree)), &lines).await?;
        let both = lines.into_iter().zip(done);
        Ok(both.filter_map(|(line, done)| done.is_ok().then_some(line)).collect())
    }
}

/// Carries lines out as one process; how each ended.
///
/// # Errors
/// A line that is not of the language.
pub(crate) async fn play_lines<F: FileSystem + 'static>(
    sim: &Sim,
    vfs: &Rc<Vfs<F>>,
    lines: &[String],
) -> Result<Vec<Result<(), Errno>>, String> {
    let runner = Runner::new(sim, vfs.clone(), 0);
    let mut ends = Vec::new();
    for line in lines {
        let step = &parse(line).map_err(|error| format!("{line}: {error}"))?[0].step;
        ends.push(runner.step(step).await.map(drop).map_err(|error| error.error));
    }
    Ok(ends)
}

/// Carries calls out up to the next remount; the number of the first call that is left.
///
/// # Errors
/// The call that went otherwise than on the model, and how.
pub(crate) async fn play<F: FileSystem + 'static>(
    sim: &Sim,
    kind: &Kind,
    vfs: &Rc<Vfs<F>>,
    model: &Model,
    calls: &[Call],
    first: usize,
) -> Result<usize, String> {
    let model_vfs = Rc::new(Vfs::new(sim, model.tree.clone()));
    let runner = Runner::new(sim, vfs.clone(), 0);
    let model_runner = Runner::new(sim, model_vfs.clone(), 0);
    compare(kind, vfs, model).await.map_err(|wrong| format!("call {first}, mounted: {wrong}"))?;
    for (number, call) in calls.iter().enumerate().skip(first) {
        let wrong = |wrong: String| format!("call {number}, {call:?}: {wrong}");
        match call {
            Call::Remount => {
                compare(kind, vfs, model).await.map_err(wrong)?;
                return Ok(number + 1);
            }
            Call::Line(line) => {
                let step = &parse(line).map_err(|error| wrong(error.to_string()))?[0].step;
                let done = runner.step(step).await.map(drop).map_err(|error| error.error);
                model.count(done);
                // What a file system does not offer is refused, and leaves nothing behind.
                if done != Err(Errno::Eopnotsupp) {
                    let known = model_runner.step(step).await.map(drop);
                    same(done, known.map_err(|error| error.error)).map_err(wrong)?;
                }
            }
            Call::DropCaches => {
                vfs.drop_caches().await.map_err(|error| wrong(error.to_string()))?;
            }
            Call::Refused(line, errno) => {
                let step = &parse(line).map_err(|error| wrong(error.to_string()))?[0].step;
                let done = runner.step(step).await.map(drop).map_err(|error| error.error);
                model.count(done);
                if done != Err(*errno) {
                    return Err(wrong(format!("{done:?}, where {errno} is meant")));
                }
            }
            Call::RemoveAttribute(path) => {
                let (path, name) = (path.as_bytes(), &b"user.a"[..]);
                let done = vfs.set_extended_attribute(&CALLER, path, name, None).await;
                model.count(done);
                if done != Err(Errno::Eopnotsupp) {
                    let known = model_vfs.set_extended_attribute(&CALLER, path, name, None).await;
                    same(done, known).map_err(wrong)?;
                }
            }
        }
        if number % COMPARED_EVERY == 0 {
            compare(kind, vfs, model).await.map_err(wrong)?;
        }
    }
    compare(kind, vfs, model).await?;
    Ok(calls.len())
}

fn same(done: Result<(), Errno>, known: Result<(), Errno>) -> Result<(), String> {
    if done == known {
        return Ok(());
    }
    Err(format!("{done:?}, and the model says {known:?}"))
}

/// All that is there is the same.
///
/// # Errors
/// What differs.
pub(crate) async fn compare<F: FileSystem + 'static>(
    kind: &Kind,
    vfs: &Rc<Vfs<F>>,
    model: &Model,
) -> Result<(), String> {
    // The tree is read below the page cache.
    vfs.sync().await.map_err(|error| format!("sync: {error}"))?;
    let found = Manifest::of(&**vfs.file_system()).await;
    let found = found.map_err(|error| format!("it cannot be listed: {error:?}"))?;
    let known =
        Manifest::of(&*model.tree).await.map_err(|error| format!("the model: {error:?}"))?;
    let seen = |manifest: Manifest| {
        let rows = manifest.rows.into_iter();
        let rows = rows.filter(|row| row.path != "." && !model.own.contains(&row.path));
        rows.map(|row| seen_in(kind, row)).collect::<Vec<_>>()
    };
    let (found, known) = (seen(found), seen(known));
    match found.iter().zip(&known).find(|(found, known)| found != known) {
        Some((found, known)) => Err(format!("{found:?}, and the model has {known:?}")),
        None if found.len() != known.len() => {
            Err(format!("{} names, and the model has {}", found.len(), known.len()))
        }
        None => Ok(()),
    }
}

/// What every file system keeps of a row. Times are compared by tests of each.
fn seen_in(kind: &Kind, row: ManifestRow) -> ManifestRow {
    // A device has the size of what the inode keeps of it, or none.
    let size_bytes = if matches!(row.kind, 'f' | 'l') { row.size_bytes } else { 0 };
    let row = ManifestRow { modified: 0, size_bytes, ..row };
    if kind.has_owners_and_links {
        // Directories count their directories or not, as each file system does.
        let links = if row.kind == 'd' { 0 } else { row.links };
        return ManifestRow { links, ..row };
    }
    ManifestRow { permissions: 0, links: 0, uid: 0, gid: 0, ..row }
}

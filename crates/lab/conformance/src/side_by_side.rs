//! Calls carried out on a file system and on the model, side by side.

use crate::calls::{Area, Call};
use crate::model::{CALLER, Model};
use crate::promise::Promise;
use fs_api::{Errno, FileSystem};
use random::Stream;
use script::{Runner, Step, parse};
use sim::Sim;
use std::rc::Rc;
use vfs::{MemoryFileSystem, OpenOptions, Vfs};

/// Bytes that a file is read by when the model takes it over.
const READ_BYTES: usize = 4096;

/// A mount and the model beside it.
pub struct SideBySide<F> {
    vfs: Rc<Vfs<F>>,
    runner: Runner<F>,
    model: Model,
    model_vfs: Rc<Vfs<MemoryFileSystem>>,
    model_runner: Runner<MemoryFileSystem>,
}

impl<F: FileSystem + 'static> SideBySide<F> {
    /// A mount beside the model of what it shows.
    pub fn new(sim: &Sim, vfs: &Rc<Vfs<F>>, model: &Model) -> Self {
        let model_vfs = Rc::new(Vfs::new(sim, model.tree.clone()));
        Self {
            vfs: vfs.clone(),
            runner: Runner::new(sim, vfs.clone(), 0),
            model: model.clone(),
            model_runner: Runner::new(sim, model_vfs.clone(), 0),
            model_vfs,
        }
    }

    /// A file system without a kernel above it: every call reaches it.
    pub fn bare(sim: &Sim, file_system: &Rc<F>, model: &Model) -> Self {
        Self::new(sim, &Rc::new(Vfs::new(sim, file_system.clone())), model)
    }

    /// The mount.
    pub fn vfs(&self) -> &Rc<Vfs<F>> {
        &self.vfs
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Draws a call and carries it out; how it ended. A remount is left to the caller: nothing is done then.
    ///
    /// # Errors
    /// What differs from the model.
    pub async fn step(
        &self,
        area: &Area,
        stream: &mut Stream,
    ) -> Result<Result<(), Errno>, String> {
        self.call(&area.draw(stream)).await
    }

    /// Carries a call out on both; how it ended.
    ///
    /// # Errors
    /// What differs from the model.
    pub async fn call(&self, call: &Call) -> Result<Result<(), Errno>, String> {
        let done = match call {
            Call::Remount => Ok(Ok(())),
            Call::DropCaches => Ok(self.vfs.drop_caches().await),
            Call::Line(line) => self.line(line).await,
            Call::Refused(line, errno) => self.refused(line, *errno).await,
            Call::RemoveAttribute(path) => self.remove_attribute(path).await,
        };
        done.map_err(|wrong| format!("{call:?}: {wrong}"))
    }

    async fn line(&self, line: &str) -> Result<Result<(), Errno>, String> {
        let step = step_of(line)?;
        // Before the call: the power may be cut within it, and then nothing behind it is carried out.
        Promise::touch(&self.model, line).await;
        let done = self.runner.step(&step).await.map(drop).map_err(|error| error.error);
        self.model.count(done);
        match done {
            // What a file system does not offer is refused, and leaves nothing behind.
            Err(Errno::Eopnotsupp) => return Ok(done),
            Err(Errno::Enospc) if self.model.may_be_full => {
                if let Some(path) = written_by(&step) {
                    self.take_over(path).await?;
                }
                return Ok(done);
            }
            _ => {}
        }
        // The file system comes first: its answer says whether the model takes part.
        let known = self.model_runner.step(&step).await.map(drop).map_err(|error| error.error);
        same(done, known)?;
        match (&step, done) {
            (Step::SyncAll, Ok(())) => self.model.note_synced().await,
            (Step::Fsync { target, .. }, Ok(())) => self.note_fsynced(target).await,
            _ => {}
        }
        Ok(done)
    }

    async fn note_fsynced(&self, path: &[u8]) {
        let rows = self.model.rows(&*self.model.tree).await.expect("memory is whole");
        let path = String::from_utf8_lossy(path);
        if let Some(row) = rows.iter().find(|row| row.path == path && row.kind == 'f') {
            self.model.promise().borrow_mut().fsync(row);
        }
    }

    async fn refused(&self, line: &str, errno: Errno) -> Result<Result<(), Errno>, String> {
        let done = self.runner.step(&step_of(line)?).await.map(drop).map_err(|error| error.error);
        self.model.count(done);
        if done != Err(errno) {
            return Err(format!("{done:?}, where {errno} is meant"));
        }
        Ok(done)
    }

    async fn remove_attribute(&self, path: &str) -> Result<Result<(), Errno>, String> {
        Promise::touch(&self.model, &format!("setxattr {path}")).await;
        let (path, name) = (path.as_bytes(), &b"user.a"[..]);
        let done = self.vfs.set_extended_attribute(&CALLER, path, name, None).await;
        self.model.count(done);
        let is_left_out = done == Err(Errno::Eopnotsupp)
            || (done == Err(Errno::Enospc) && self.model.may_be_full);
        if !is_left_out {
            same(done, self.model_vfs.set_extended_attribute(&CALLER, path, name, None).await)?;
        }
        Ok(done)
    }

    /// A write had no room for all of it: what is there of the file is what the model has from now on.
    async fn take_over(&self, path: &[u8]) -> Result<(), String> {
        let text = |error: Errno| format!("taken over: {error}");
        let Ok(file) = self.vfs.open(&CALLER, path, OpenOptions::default()).await else {
            return Ok(());
        };
        let (mut bytes, mut piece) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            let offset = bytes.len() as u64;
            match self.vfs.read(&file, offset, &mut piece).await.map_err(text)? {
                0 => break,
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
        self.vfs.close(&CALLER, file).await.map_err(text)?;
        let shown = self.vfs.stat(path).await.map_err(text)?;
        let options = OpenOptions {
            create: Some(shown.permissions),
            truncate: true,
            ..OpenOptions::default()
        };
        let file = self.model_vfs.open(&CALLER, path, options).await.map_err(text)?;
        self.model_vfs.write(&CALLER, &file, 0, &bytes).await.map_err(text)?;
        self.model_vfs.close(&CALLER, file).await.map_err(text)
    }

    /// All that is there is the same.
    ///
    /// # Errors
    /// What differs.
    pub async fn compare(&self) -> Result<(), String> {
        // The tree is read below the page cache.
        match self.vfs.sync().await {
            Err(Errno::Enospc) if self.model.may_be_full => {}
            done => done.map_err(|error| format!("sync: {error}"))?,
        }
        self.model.compare(&**self.vfs.file_system()).await
    }

    /// Bytes of a file of the model; none if there is none.
    pub async fn model_bytes(&self, path: &str) -> Option<u64> {
        self.model_vfs.stat(path.as_bytes()).await.ok().map(|shown| shown.size_bytes)
    }

    /// Two paths name one file.
    pub async fn are_one_file(&self, one: &str, other: &str) -> bool {
        let (one, other) = (
            self.model_vfs.resolve(one.as_bytes()).await,
            self.model_vfs.resolve(other.as_bytes()).await,
        );
        one.is_ok() && one == other
    }
}

fn step_of(line: &str) -> Result<Step, String> {
    let script = parse(line).map_err(|error| format!("{line}: {error}"))?;
    let command = script.commands().next().ok_or_else(|| format!("{line}: no line"))?;
    Ok(command.step)
}

/// The file that a step writes page by page, so that it may be done in part.
fn written_by(step: &Step) -> Option<&[u8]> {
    match step {
        Step::Put { path, .. }
        | Step::Append { path, .. }
        | Step::Write { path, .. }
        | Step::Truncate { path, .. } => Some(path),
        _ => None,
    }
}

fn same(done: Result<(), Errno>, known: Result<(), Errno>) -> Result<(), String> {
    if done == known {
        return Ok(());
    }
    Err(format!("{done:?}, and the model says {known:?}"))
}

/// Carries lines out as one process; how each ended.
///
/// # Errors
/// A line that is not of the language.
pub async fn play_lines<F: FileSystem + 'static>(
    sim: &Sim,
    vfs: &Rc<Vfs<F>>,
    lines: &[String],
) -> Result<Vec<Result<(), Errno>>, String> {
    let runner = Runner::new(sim, vfs.clone(), 0);
    let mut ends = Vec::new();
    for line in lines {
        let done = runner.step(&step_of(line)?).await.map(drop);
        ends.push(done.map_err(|error| error.error));
    }
    Ok(ends)
}

/// Carries lines out on the model as one process; how each ended.
///
/// # Errors
/// A line that is not of the language.
pub async fn play_lines_on_model(
    sim: &Sim,
    model: &Model,
    lines: &[String],
) -> Result<Vec<Result<(), Errno>>, String> {
    play_lines(sim, &Rc::new(Vfs::new(sim, model.tree.clone())), lines).await
}

/// Those of the lines that succeed, one after the other, on the empty model.
///
/// # Errors
/// A line that is not of the language.
pub async fn succeeding(sim: &Sim, lines: Vec<String>) -> Result<Vec<String>, String> {
    let tree = Rc::new(MemoryFileSystem::new(&CALLER));
    let done = play_lines(sim, &Rc::new(Vfs::new(sim, tree)), &lines).await?;
    let both = lines.into_iter().zip(done);
    Ok(both.filter_map(|(line, done)| done.is_ok().then_some(line)).collect())
}

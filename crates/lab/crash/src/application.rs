//! A script as its application sees it: the calls that succeeded, carried out again on files in memory.
//!
//! The states of the history are those that were handed to the file system. A page that waits in the page cache
//! is none of them, but the application has written it. So its view is a model of its own.

use crate::error::CrashError;
use crate::expectation::{Acknowledged, Expectation, Held, Rest};
use crate::shadow_model::ShadowModel;
use crate::tree::{Row, Tree, read_row};
use fs_api::{Errno, FileSystem};
use mount::guarantee::Guarantee;
use script::{Command, ControlLine, Expect, FileForm, Place, RestLine, Runner, Step};
use sim::{Sim, Simulation};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use vfs::{MemoryFileSystem, Vfs, escape_path};

/// A command of the run without a cut, in the order in which commands ended.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// The process that made the call; 0 for that of the script itself.
    pub(crate) process: u32,
    pub(crate) command: Command,
    /// Operations that had changed the medium when it returned.
    pub(crate) returned_at: u64,
    /// How its call failed, whether or not that was expected.
    pub(crate) error: Option<Errno>,
}

/// The files of the application, and what was said of them so far.
struct Application {
    sim: Sim,
    vfs: Rc<Vfs<MemoryFileSystem>>,
    /// What each process has open.
    runners: BTreeMap<u32, Runner<MemoryFileSystem>>,
    expectations: Vec<Expectation>,
    /// Trees that were kept, by name, with when.
    trees: BTreeMap<String, Vec<Rest>>,
    /// A line that may have done a part of its work.
    unclear: Option<Place>,
}

/// The expectations of a run, with what was held at their rest points.
///
/// # Errors
/// [`CrashError::Line`] of an expectation that the run without a cut does not keep, or that cannot be followed.
pub(crate) fn expectations(
    guarantee: &'static Guarantee,
    first: &Tree,
    calls: &[Done],
) -> Result<Vec<Expectation>, CrashError> {
    let is_expectation = |done: &&Done| {
        matches!(done.command.step, Step::Control(ControlLine::AtRest(RestLine::Expect(_))))
    };
    // Most scripts have none: for them nothing is carried out twice.
    if calls.iter().find(is_expectation).is_none() {
        return Ok(Vec::new());
    }
    let calls = calls.to_vec();
    followed(guarantee, first, async move |mut application| {
        for done in &calls {
            application.follow(done).await?;
        }
        application.end().await?;
        Ok(application.expectations)
    })
}

/// The application's tree after these commands.
///
/// # Errors
/// [`CrashError::Line`] of a call that cannot be followed.
pub(crate) fn tree_after(
    guarantee: &'static Guarantee,
    first: &Tree,
    calls: &[Done],
) -> Result<Tree, CrashError> {
    let calls = calls.to_vec();
    followed(guarantee, first, async move |mut application| {
        for done in &calls {
            application.call(done).await?;
        }
        if let Some(done) = calls.last() {
            application.must_be_clear(&done.command.place)?;
        }
        application.tree().await
    })
}

/// Runs `job` on the files that a run begins with, in a simulation of its own.
fn followed<T: 'static>(
    guarantee: &'static Guarantee,
    first: &Tree,
    job: impl AsyncFnOnce(Application) -> Result<T, CrashError> + 'static,
) -> Result<T, CrashError> {
    let mut simulation = Simulation::new(1);
    let (sim, first) = (simulation.handle(), first.clone());
    let within = sim.clone();
    let done = sim.spawn(async move {
        let shadow = ShadowModel::new(guarantee, &first).await;
        let shadow = shadow.map_err(|error| CrashError::Read { path: ".".into(), error })?;
        let vfs = Rc::new(Vfs::new(&within, Rc::new(shadow.model)));
        let application = Application {
            sim: within,
            vfs,
            runners: BTreeMap::new(),
            expectations: Vec::new(),
            trees: BTreeMap::new(),
            unclear: None,
        };
        job(application).await
    });
    simulation.run();
    done.try_take().expect("files in memory wait for nothing")
}

impl Application {
    async fn follow(&mut self, done: &Done) -> Result<(), CrashError> {
        let Step::Control(ControlLine::AtRest(line)) = &done.command.step else {
            return self.call(done).await;
        };
        let (place, at) = (&done.command.place, done.returned_at);
        self.must_be_clear(place)?;
        match line {
            RestLine::Tree(name) => {
                let held = Held::Tree(Arc::new(self.tree().await?));
                self.keep_tree(name, Rest { at, held });
                Ok(())
            }
            RestLine::Expect(expect) => self.expect(expect, place, at).await,
            RestLine::Acknowledge(number) => self.acknowledge(*number, place, at).await,
        }
    }

    /// What the files hold is known: no line before failed halfway.
    fn must_be_clear(&self, place: &Place) -> Result<(), CrashError> {
        let Some(unclear) = &self.unclear else { return Ok(()) };
        let reason = format!(
            "the call of line {unclear} failed halfway, so what the files hold is not known: `expect` and \
             --show need calls that succeed"
        );
        Err(CrashError::Line { place: place.clone(), reason })
    }

    /// Makes a call that succeeded.
    async fn call(&mut self, done: &Done) -> Result<(), CrashError> {
        let Command { place, step, .. } = &done.command;
        if matches!(step, Step::Control(_) | Step::Sleep { .. }) {
            return Ok(());
        }
        if let Some(error) = done.error {
            if is_in_parts(step) && matches!(error, Errno::Enospc | Errno::Eio) {
                self.unclear.get_or_insert_with(|| place.clone());
            }
            return Ok(());
        }
        // Names of open files are those of a process, and two processes may use the same one.
        let runner = self
            .runners
            .entry(done.process)
            .or_insert_with(|| Runner::new(&self.sim, self.vfs.clone(), 0));
        match runner.step(step).await {
            // The file system may refuse what memory allows, but what it allowed must be possible here.
            Ok(_) => Ok(()),
            Err(error) => {
                let reason = format!("files in memory answer this call otherwise ({error})");
                Err(CrashError::Line { place: place.clone(), reason })
            }
        }
    }

    fn keep_tree(&mut self, name: &str, rest: Rest) {
        for expectation in &mut self.expectations {
            if expectation.expect == Expect::Tree(name.to_owned()) {
                expectation.rests.push(rest.clone());
            }
        }
        self.trees.entry(name.to_owned()).or_default().push(rest);
    }

    async fn expect(&mut self, expect: &Expect, place: &Place, at: u64) -> Result<(), CrashError> {
        // The same expectation in a later line, or in the next pass of a block, is a rest point of the first.
        let known = self.expectations.iter().position(|known| known.expect == *expect);
        if let Some(known) = known {
            return self.rest(known, place, at).await;
        }
        let rests = match expect {
            // The newest: older ones were no promise of a line that was not passed.
            Expect::Tree(name) => self.trees.get(name).and_then(|kept| kept.last().cloned()),
            _ => None,
        };
        self.expectations.push(Expectation {
            expect: expect.clone(),
            place: place.clone(),
            from: at,
            rests: rests.into_iter().collect(),
            acknowledged: Vec::new(),
        });
        self.rest(self.expectations.len() - 1, place, at).await
    }

    /// Adds a rest point to an expectation of files.
    async fn rest(&mut self, number: usize, place: &Place, at: u64) -> Result<(), CrashError> {
        let held = match &self.expectations[number].expect {
            Expect::File { path, .. } => vec![self.row(path).await?],
            Expect::OneOf(paths) => vec![self.row(&paths[0]).await?, self.row(&paths[1]).await?],
            // Trees are kept where a line says so, and nowhere else.
            Expect::Tree(_) => return Ok(()),
        };
        let expectation = &mut self.expectations[number];
        if let Some(reason) = contradiction(expectation, &held) {
            let reason = format!("{}: {reason}", expectation.expect);
            return Err(CrashError::Line { place: place.clone(), reason });
        }
        expectation.rests.push(Rest { at, held: Held::Files(held) });
        Ok(())
    }

    async fn acknowledge(&mut self, number: u64, place: &Place, at: u64) -> Result<(), CrashError> {
        for expectation in 0..self.expectations.len() {
            self.rest(expectation, place, at).await?;
        }
        // After the rest points were added: of files that is the one of this line, of trees the last that was kept.
        for Expectation { rests, acknowledged, .. } in &mut self.expectations {
            let (place, rest) = (place.clone(), rests.len() - 1);
            acknowledged.push(Acknowledged { at, number, place, rest });
        }
        Ok(())
    }

    /// The end of the script is a rest point: behind its last line an update is over.
    async fn end(&mut self) -> Result<(), CrashError> {
        for expectation in 0..self.expectations.len() {
            let place = self.expectations[expectation].place.clone();
            self.must_be_clear(&place)?;
            self.rest(expectation, &place, u64::MAX).await?;
        }
        Ok(())
    }

    async fn row(&self, path: &[u8]) -> Result<Option<Arc<Row>>, CrashError> {
        let failed = |error| CrashError::Read { path: escape_path(path), error };
        let files = self.vfs.file_system();
        let mut inode = files.root();
        for name in path.split(|byte| *byte == b'/') {
            inode = match files.lookup(inode, name).await {
                Ok(inode) => inode,
                Err(Errno::Enoent | Errno::Enotdir) => return Ok(None),
                Err(error) => return Err(failed(error)),
            };
        }
        let attributes = files.attributes(inode).await.map_err(failed)?;
        let row = read_row(&**files, inode, &attributes, &mut BTreeMap::new()).await;
        row.map(|row| Some(Arc::new(row))).map_err(failed)
    }

    async fn tree(&self) -> Result<Tree, CrashError> {
        let read = Tree::read(&**self.vfs.file_system()).await;
        read.map_err(|(path, error)| CrashError::Read { path: escape_path(&path), error })
    }
}

/// True if a call of this line may fail in its middle, or between two of its calls.
fn is_in_parts(step: &Step) -> bool {
    matches!(
        step,
        Step::Put { .. }
            | Step::PutMany { .. }
            | Step::Append { .. }
            | Step::Write { .. }
            | Step::RandomWrite { .. }
            | Step::UnlinkMany { .. }
            | Step::WriteOpen { .. }
            | Step::WriteOpenAt { .. }
    )
}

/// Why the files at a rest point are not as the expectation itself says; none if they are.
fn contradiction(expectation: &Expectation, held: &[Option<Arc<Row>>]) -> Option<String> {
    match &expectation.expect {
        Expect::File { form: FileForm::Whole, .. } if held[0].is_none() => {
            Some("the file is not there at this rest point, without any cut".into())
        }
        Expect::File { form: FileForm::Prefix, .. } => {
            let Some(Held::Files(before)) = expectation.rests.last().map(|rest| &rest.held) else {
                return None;
            };
            let before = before[0].as_ref()?;
            let grew = held[0].as_ref().is_some_and(|row| row.content.starts_with(&before.content));
            (!grew).then(|| {
                "the file did more than grow since the rest point before, without any cut".into()
            })
        }
        Expect::OneOf(_) if held[0].is_some() == held[1].is_some() => {
            let count = if held[0].is_some() { "both files are" } else { "neither file is" };
            Some(format!("{count} there at this rest point, without any cut"))
        }
        _ => None,
    }
}

//! The run without a cut: what is written to the medium, and the states it stands for.

use crate::application::Done;
use crate::card_cuts::CardRun;
use crate::changes::{Changes, is_on_card};
use crate::error::CrashError;
use crate::guarantee::find_guarantee;
use crate::history::History;
use crate::mount_lines::MountWay;
use crate::process_ends::ProcessEnds;
use crate::recorder::Recorder;
use crate::shadow_model::ShadowModel;
use crate::tree::Tree;
use fs_api::{Errno, FileType};
use mount::guarantee::Guarantee;
use mount::{
    CardContents, Counter, Driver, Kind, Machine, MountError, MountRequest, SharedMount, run,
};
use mtd::OobLayout;
use nand::{Chip, RawOperation};
use script::{
    Command, ControlLine, Event, Expectation, Failed, Place, RunError, Runner, Script, Step, Sync,
    Walk,
};
use std::rc::Rc;
use vfs::{Vfs, escape_path};

/// What is mounted, on which machine.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Name of the file system.
    pub kind: &'static str,
    /// How it is mounted; a mount line of the script adds its options.
    pub request: MountRequest,
    /// Spare area; the driver is that of a tool: nothing takes time.
    pub layout: &'static OobLayout,
    /// Seed of all that is random in a run.
    pub seed: u64,
    /// A test of the checker.
    pub sabotage: Sabotage,
}

/// How a test of the checker damages what is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// The run is checked as it is: no damage.
    #[default]
    None,
    /// `fsync` and `sync` do nothing.
    ForgetSyncs,
    /// A program of a page is not carried out: the n-th of the journal.
    LoseProgram(usize),
    /// `fsync` of these does nothing, and is noted: the file system breaks its word.
    ForgetFsyncs(Forgotten),
    /// The file system is never asked for `fsync` of these, and the application is told that it is done: a fault
    /// of the layer above, of which no guarantee of a file system speaks.
    SwallowFsyncs(Forgotten),
}

/// Whose `fsync` a sabotage concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Of all but directories.
    Files,
    /// Of directories.
    Directories,
}

impl Forgotten {
    pub(crate) fn has(self, kind: FileType) -> bool {
        (kind == FileType::Directory) == (self == Self::Directories)
    }
}

/// A run without a cut.
pub(crate) struct Reference {
    /// The chip before it.
    pub(crate) before: Chip,
    /// How the script mounts, which is how it is mounted after a cut.
    pub(crate) request: MountRequest,
    /// What changed the medium.
    pub(crate) journal: Vec<RawOperation>,
    /// The same on a card, of which the chip is a measure only.
    pub(crate) card: Option<CardRun>,
    /// States that the calls led to.
    pub(crate) history: History,
    /// Commands, in the order in which they ended.
    pub(crate) calls: Vec<Done>,
    /// Lines that the file system refused for want of space, or because it does not offer the call.
    pub(crate) refused_lines: u64,
    /// What the last mount counted, if it did not end before.
    pub(crate) counters: Vec<Counter>,
}

/// A file system that is watched, and the process that works on it.
type Watched = (Rc<Vfs<Recorder<SharedMount>>>, Runner<Recorder<SharedMount>>);

/// A session under way: what lines work on.
struct Session {
    machine: Machine,
    changes: Changes,
    kind: &'static Kind,
    way: MountWay,
    sabotage: Sabotage,
    epoch_seconds: i64,
    shadow: Option<Rc<ShadowModel>>,
    /// The file system itself, below the one that watches it.
    file_system: Option<Rc<SharedMount>>,
    mounted: Option<Watched>,
    refused_lines: u64,
    calls: Vec<Done>,
}

/// The medium when the journal begins.
struct Before {
    chip: Chip,
    card: CardContents,
}

impl Session {
    /// Mounts an image, and begins the journal anew: the medium as the mount left it, which is no cut point.
    async fn mount_image(
        &mut self,
        guarantee: &'static Guarantee,
        before: Before,
    ) -> Result<Before, CrashError> {
        // Nothing is made where nothing is: the image is what is cut.
        let formats_blank = std::mem::replace(&mut self.way.request.formats_blank, false);
        let profile = self.kind.profile(self.way.request.profile.as_deref())?;
        let mounted = self.machine.mount(self.kind, &self.way.request).await;
        let mounted = mounted.map_err(|error| self.way.refused(error))?;
        self.way.request.formats_blank = formats_blank;
        let chip = self.machine.mtd.with_chip(|chip| {
            chip.take_journal();
            let copy = chip.clone();
            chip.start_journal();
            copy
        });
        // What the mount wrote counts as flushed.
        let card =
            CardRun { before: before.card, journal: self.machine.card().take_journal() }.end();
        self.machine.card().start_journal();
        self.watch(guarantee, profile, &mounted.file_system).await?;
        Ok(Before { chip, card })
    }

    async fn mount(&mut self, guarantee: &'static Guarantee) -> Result<(), CrashError> {
        let request = &self.way.request;
        let mounted = self.machine.mount(self.kind, request).await;
        let mounted = mounted.map_err(|error| self.way.refused(error))?;
        let profile = self.kind.profile(request.profile.as_deref())?;
        self.watch(guarantee, profile, &mounted.file_system).await
    }

    /// Watches a file system from here on.
    async fn watch(
        &mut self,
        guarantee: &'static Guarantee,
        profile: &'static str,
        file_system: &Rc<SharedMount>,
    ) -> Result<(), CrashError> {
        let shadow = if let Some(shadow) = &self.shadow {
            shadow.clone()
        } else {
            let read = |(path, error): (Vec<u8>, Errno)| {
                let path = escape_path(&path);
                CrashError::Read { path, error }
            };
            let tree = Tree::read_of(&**file_system, guarantee).await.map_err(read)?;
            let shadow = ShadowModel::new(guarantee, &tree).await;
            Rc::new(shadow.map_err(|error| read((Vec::new(), error)))?)
        };
        self.shadow = Some(shadow.clone());
        let changes = self.changes.clone();
        let now = move || changes.count();
        let recorder = Recorder::new(file_system.clone(), now, shadow, profile)
            .watching_flushes(self.machine.opened_block_path().and_then(|path| {
                path.flushes()?;
                Some(Box::new(move || path.flushes().unwrap_or(0)) as Box<dyn Fn() -> u64>)
            }))
            .sabotaged(self.sabotage);
        let (Machine { sim, cpus, board, .. }, recorder) = (&self.machine, Rc::new(recorder));
        let vfs = match file_system.page_cache() {
            // Files share the memory of the device's pages.
            Some(pages) => Vfs::cached_in(sim, cpus, board, pages, recorder),
            None if file_system.has_page_cache() => Vfs::cached(sim, cpus, board, recorder),
            None => Vfs::new(sim, recorder),
        };
        let vfs = Rc::new(vfs);
        let runner = Runner::new(sim, vfs.clone(), self.epoch_seconds).one_call_at_a_time();
        self.mounted = Some((vfs, runner));
        self.file_system = Some(file_system.clone());
        Ok(())
    }

    /// Operations that have changed the medium.
    fn changes(&self) -> u64 {
        self.changes.count()
    }

    /// Carries the script out.
    async fn play(&mut self, script: &Script) -> Result<(), CrashError> {
        let mut walk = script.walk();
        while let Some(event) = walk.next(self.machine.sim.now())? {
            match event {
                Event::Wait(until_ns) => self.machine.sim.sleep_until(until_ns).await,
                Event::Command(command) => {
                    let begun_at = self.changes();
                    let error = self.step(&command).await?;
                    let returned_at = self.changes();
                    let command = *command;
                    if let Some(shadow) = &self.shadow {
                        let mut history = shadow.history.borrow_mut();
                        history.call_returned(&command.place, begun_at, returned_at);
                    }
                    self.calls.push(Done { process: 0, command, returned_at, error });
                }
                Event::Processes(place, walks) => self.processes(&place, walks).await?,
            }
        }
        Ok(())
    }

    /// Runs processes side by side, one call after the other: a call that another one interrupts would have two
    /// states at once.
    async fn processes(&mut self, place: &Place, walks: Vec<Walk>) -> Result<(), CrashError> {
        let (Some((_, runner)), Some(shadow)) = (&self.mounted, &self.shadow) else {
            return Err(not_mounted(place));
        };
        let ends = Rc::new(ProcessEnds::new(shadow.clone(), self.changes.clone(), self.kind));
        runner.run_processes(walks, ends.clone()).await;
        self.refused_lines += ends.refused_lines();
        self.calls.extend(ends.take_calls());
        ends.error().map_or(Ok(()), Err)
    }

    /// Carries a line out; how its call failed, if that is no reason to stop.
    async fn step(&mut self, command: &Command) -> Result<Option<Errno>, CrashError> {
        let place = &command.place;
        let failed = |reason: String| CrashError::Line { place: place.clone(), reason };
        if let Some(shadow) = &self.shadow {
            shadow.history.borrow_mut().call_begins(place);
        }
        if matches!(command.step, Step::Exit) && self.mounted.is_none() {
            return Ok(None);
        }
        let Step::Control(control) = &command.step else {
            let Some((_, runner)) = &self.mounted else {
                return Err(not_mounted(place));
            };
            let command = &self.spoiled(command).await;
            let end = runner.carry_out(command).await;
            let error = failure_of(command, &end);
            return match end {
                Ok(_) => Ok(error),
                Err(refusal) if is_refusal(&refusal, self.kind) => {
                    self.refused_lines += 1;
                    Ok(error)
                }
                Err(error) => Err(failed(error.to_string())),
            };
        };
        self.control(control, place).await.map(|()| None)
    }

    /// The command as a layer carries it out that swallows calls of `fsync`.
    async fn spoiled(&self, command: &Command) -> Command {
        let mut spoiled = command.clone();
        let (Sabotage::SwallowFsyncs(whose), Some((vfs, _))) = (self.sabotage, &self.mounted)
        else {
            return spoiled;
        };
        match &mut spoiled.step {
            Step::Fsync { target, .. } => {
                // The name of an open file goes before a path: none of the scripts with a sabotage has one.
                let found = vfs.stat(target).await;
                if found.is_ok_and(|attributes| whose.has(attributes.kind)) {
                    // A step that succeeds, and of which the file system learns nothing.
                    spoiled.step = Step::Sleep { milliseconds: 0 };
                }
            }
            Step::Put { call, .. }
            | Step::PutMany { call, .. }
            | Step::Append { call, .. }
            | Step::Write { call, .. }
            | Step::RandomWrite { call, .. }
                if whose == Forgotten::Files =>
            {
                call.sync = Sync::Never;
            }
            _ => {}
        }
        spoiled
    }

    async fn control(&mut self, control: &ControlLine, place: &Place) -> Result<(), CrashError> {
        let failed = |reason: String| CrashError::Line { place: place.clone(), reason };
        match control {
            ControlLine::Log(_)
            | ControlLine::Workload(_)
            | ControlLine::Phase(_)
            | ControlLine::End
            | ControlLine::DropCaches
            | ControlLine::Settle { .. }
            | ControlLine::AtRest(_) => Ok(()),
            ControlLine::Mount { .. } | ControlLine::MountGiven { .. }
                if self.mounted.is_some() =>
            {
                // The first mount of a script is the one that was made before its first line, in its way.
                Ok(())
            }
            ControlLine::Mount { .. } | ControlLine::MountGiven { .. } => {
                let guarantee = find_guarantee(self.kind.name).expect("checked before the run");
                self.mount(guarantee).await
            }
            ControlLine::Unmount => {
                let Some((vfs, runner)) = self.mounted.take() else {
                    return Err(failed("nothing is mounted".into()));
                };
                if let Some(name) = runner.open_names().first() {
                    let advice = format!("a file is open as `{name}`: `close {name}` comes first");
                    return Err(failed(format!("umount: {}; {advice}", Errno::Ebusy)));
                }
                vfs.unmount().await.map_err(|error| failed(format!("umount: {error}")))
            }
            _ => unreachable!("refused before the run"),
        }
    }
}

fn not_mounted(place: &Place) -> CrashError {
    let reason = "nothing is mounted: put `mount -` before this line".to_owned();
    CrashError::Line { place: place.clone(), reason }
}

/// How a call failed, whether or not its line expects that; none if it succeeded.
pub(crate) fn failure_of(
    command: &Command,
    end: &Result<Option<RunError>, Failed>,
) -> Option<Errno> {
    match (end, command.expectation) {
        (Ok(Some(error)) | Err(Failed::Call(error)), _) => Some(error.error),
        (Ok(None), Expectation::Failure(expected)) => Some(expected),
        _ => None,
    }
}

/// A call for which there is no space, or which the file system lacks: it changed nothing that a cut could show.
pub(crate) fn is_refusal(failed: &Failed, kind: &Kind) -> bool {
    // Links and devices end with EPERM where a file system has none (`vfs_link` of `fs/namei.c`).
    let lacks_call = |error| error == Errno::Eperm && !kind.has_owners_and_links;
    let is_refused =
        |error: Errno| matches!(error, Errno::Enospc | Errno::Eopnotsupp) || lacks_call(error);
    matches!(failed, Failed::Call(error) if is_refused(error.error))
}

/// A chip or card whose file system was mounted once, which makes it if there is none.
fn made(
    (chip, card): (&Chip, &CardContents),
    setup: &Setup,
    kind: &'static Kind,
    way: &MountWay,
) -> Result<(Chip, CardContents), CrashError> {
    let (request, before) = (way.request.clone(), card.clone());
    let outcome =
        run(chip.clone(), &Driver::of_tool(setup.layout), setup.seed, async move |machine| {
            machine.card().insert(before.clone(), machine.mtd.size_bytes());
            machine.card().start_journal();
            make_volume(&machine, &request).await?;
            let mounted = machine.mount(kind, &request).await?;
            let unmounted = mounted.unmount().await;
            unmounted.map_err(|errno| MountError::Call { kind: kind.name, errno })?;
            Ok(CardRun { before, journal: machine.card().take_journal() }.end())
        });
    let done: Result<CardContents, MountError> =
        outcome.value.expect("the power of this run is not cut");
    let contents = done.map_err(|error| way.refused(error))?;
    Ok((outcome.chip, contents))
}

/// Makes the volume that a mount line names, where the device has none: such a script has no line that
/// would (`cmd ubimkvol`).
async fn make_volume(machine: &Machine, request: &MountRequest) -> Result<(), MountError> {
    let Some(name) = &request.ubi.volume else { return Ok(()) };
    let ubi = machine.attach_ubi(request).await?;
    if ubi.volumes().is_empty() {
        machine.make_ubi_volume(name).await?;
    }
    machine.detach_ubi();
    Ok(())
}

/// Runs a script to its end. The medium holds an image if there is a card to `image`, which is empty where the image
/// is on the chip: then it is mounted before the first cut point, and what it shows is safe.
pub(crate) fn reference(
    chip: &Chip,
    image: Option<&CardContents>,
    setup: &Setup,
    script: &Script,
) -> Result<Reference, CrashError> {
    let kind = file_systems::find_kind(setup.kind)?;
    kind.profile(setup.request.profile.as_deref())?;
    let no_guarantee = CrashError::NoGuarantee { kind: kind.name };
    let guarantee = find_guarantee(setup.kind).ok_or(no_guarantee)?;
    let way = MountWay::of(script, kind, &setup.request, chip.geometry().blocks)?;
    let request = way.request.clone();
    let (sabotage, script) = (setup.sabotage, script.clone());
    let driver = Driver::of_tool(setup.layout);
    // The card comes as it is delivered.
    let given = (chip, &CardContents::default());
    let (chip, contents) = match image {
        Some(card) => (chip.clone(), card.clone()),
        None if guarantee.is_made_in_steps => made(given, setup, kind, &way)?,
        None => (chip.clone(), CardContents::default()),
    };
    let begins_mounted = image.is_some();
    let mut journaled = chip.clone();
    journaled.start_journal();
    let epoch_seconds = driver.epoch_seconds;
    let is_on_card = is_on_card(kind, &request);
    let mut before = Before { chip, card: contents.clone() };
    let outcome = run(journaled, &driver, setup.seed, async move |machine| {
        machine.card().insert(contents, machine.mtd.size_bytes());
        machine.card().start_journal();
        let changes = Changes::of(&machine, kind, &way.request);
        let mut session = Session {
            machine,
            changes,
            kind,
            way,
            sabotage,
            epoch_seconds,
            shadow: None,
            file_system: None,
            mounted: None,
            refused_lines: 0,
            calls: Vec::new(),
        };
        if begins_mounted {
            before = session.mount_image(guarantee, before).await?;
        } else {
            session.mount(guarantee).await?;
        }
        session.play(&script).await?;
        let shadow = session.shadow.expect("mounted before the first line");
        let history = shadow.history.borrow().clone();
        let card = session.machine.card().take_journal();
        let counters = match &session.file_system {
            Some(file_system) if session.mounted.is_some() => file_system.statistics().await,
            _ => Vec::new(),
        };
        let end = (before, history, session.refused_lines, card, session.calls, counters);
        Ok::<_, CrashError>(end)
    });
    let (before, history, refused_lines, card, calls, counters) =
        outcome.value.expect("the power of this run is not cut")?;
    let mut chip_after = outcome.chip;
    let journal = chip_after.take_journal();
    let Before { chip: before, card: contents } = before;
    let card = is_on_card.then_some(CardRun { before: contents, journal: card });
    Ok(Reference { before, request, journal, card, history, calls, refused_lines, counters })
}

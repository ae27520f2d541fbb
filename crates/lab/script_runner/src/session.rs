//! Carrying a script out, on one machine after another.

use crate::aging::{Aged, draws_bit_errors};
use crate::process_ends::ProcessEnds;
use crate::record::{Meter, note_failure};
use crate::scrub::{MountAsked, Stand, Written, scrub};
use crate::{LineTracks, Record, SoFar, prepare};
use file_systems::find_kind;
use fs_api::Errno;
use mount::{Driver, Finding, Kind, Machine, MountError, MountRequest, Mounted};
use mtd::Mtd;
use nand::{Chip, FaultSettings, Part, Storage};
use random::Stream;
use script::{Command, ControlLine, Event, Failed, Place, RunError, Runner, Script, Step, Walk};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use thiserror::Error;

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

/// Why a script was not carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunnerError {
    /// A line cannot be carried out.
    #[error("line {place}: {reason}")]
    Line {
        /// Where the line stands, and the passes of its blocks.
        place: Place,
        /// Why, and what would be right.
        reason: String,
    },
    /// The chip lost its power by a cut that was set before the script began.
    #[error("the chip lost its power")]
    PowerLost,
    /// Whoever watched stopped the run.
    #[error("stopped")]
    Stopped,
}

/// Called with how many commands are done, and of how many; false stops the run.
pub type Watch = Box<dyn FnMut(u64, u64) -> bool>;

/// Who else learns of a run.
#[derive(Clone, Default)]
pub struct Observed {
    /// What was counted at the end of the last whole line. It keeps that when the run is left by an unwinding
    /// (`cancellation`).
    pub so_far: Rc<RefCell<SoFar>>,
    /// The timeline of the run; whoever made it finishes it.
    pub timeline: Option<LineTracks>,
}

/// What a script runs on.
#[derive(Clone)]
pub struct Setup {
    /// The file system of `mount -`.
    pub kind: Option<&'static Kind>,
    /// The driver, and the host.
    pub driver: Driver,
    /// What every mount is asked for; a mount line adds its options.
    pub request: MountRequest,
    /// The chip's part, for chips that replace it.
    pub part: Part,
    /// A call that fails is noted and passed over.
    pub keeps_going: bool,
    /// Every operation of the chip is logged.
    pub logs_operations: bool,
}

/// Carries a script out over a chip; the chip as the script leaves it, and what was measured.
///
/// A file system that is mounted at the end stays so: the chip is as it stands at that moment.
/// After `powercut` the next line runs on a machine of its own, a second later. Where between two seconds
/// the host's clock stands at the beginning is drawn by the seed: some file systems keep whole seconds and
/// write an inode again when one is over.
///
/// # Errors
/// As [`prepare`]; a mount that fails; a call that fails, unless such calls are passed over.
pub fn run(
    script: &Script,
    chip: Chip,
    setup: &Setup,
    watch: Watch,
) -> Result<(Chip, Record), RunnerError> {
    run_observed(script, chip, setup, watch, &Observed::default())
}

/// As [`run`], observed.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    script: &Script,
    chip: Chip,
    setup: &Setup,
    watch: Watch,
    observed: &Observed,
) -> Result<(Chip, Record), RunnerError> {
    let script = prepare(script, setup)?;
    let mut setup = setup.clone();
    setup.driver.epoch_nanoseconds =
        Stream::new(setup.request.seed, "clock").below(NANOSECONDS_PER_SECOND);
    // `phase -` ends a phase and begins none: a script with nothing else still is one phase.
    let has_phases = script
        .samples()
        .any(|command| matches!(command.step, Step::Control(ControlLine::Phase(Some(_)))));
    let mut session = Session {
        walk: script.walk(),
        count: script.extent().commands,
        clock_base_ns: 0,
        is_over: false,
        meter: Meter::new(setup.logs_operations),
        setup,
        is_counting: true,
        first_phase: (!has_phases).then(|| "script".to_owned()),
        record: Record::default(),
        error: None,
        progress: Rc::new(RefCell::new(Progress { done: 0, watch })),
        so_far: observed.so_far.clone(),
        timeline: observed.timeline.clone(),
        draws_bit_errors: draws_bit_errors(&script),
        aged: Aged::default(),
        written: Written::default(),
    };
    let mut chip = chip;
    if session.draws_bit_errors {
        chip.keep_bit_errors(session.setup.request.seed);
    }
    loop {
        let driver = session.setup.driver.clone();
        let seed = session.setup.request.seed;
        // A machine for each supply of power: a cut loses all memory.
        let outcome = mount::run(chip, &driver, seed, |machine| session.play(machine));
        // Without a value the job did not end: the chip lost its power under it.
        session = outcome.value.ok_or(RunnerError::PowerLost)?;
        chip = outcome.chip;
        if let Some(error) = session.error {
            return Err(error);
        }
        if session.is_over {
            session.record.lateness = session.walk.lateness();
            return Ok((chip, session.record));
        }
    }
}

/// A script under way.
struct Session {
    setup: Setup,
    walk: Walk,
    /// Commands of all passes.
    count: u64,
    /// Simulated time on the machines before this one.
    clock_base_ns: u64,
    /// The last command was carried out, or an aged chip could not be mounted.
    is_over: bool,
    meter: Meter,
    /// `log on`: kept over a change of machines.
    is_counting: bool,
    first_phase: Option<String>,
    record: Record,
    error: Option<RunnerError>,
    progress: Rc<RefCell<Progress>>,
    so_far: Rc<RefCell<SoFar>>,
    timeline: Option<LineTracks>,
    /// The script has a line about aging.
    draws_bit_errors: bool,
    aged: Aged,
    written: Written,
}

/// Commands that were begun, and who is told of them.
pub(crate) struct Progress {
    done: u64,
    watch: Watch,
}

impl Progress {
    /// A command begins; false if somebody stopped the run.
    pub(crate) fn begins(&mut self, count: u64) -> bool {
        // A block that is counted by its last pass may have more commands than that.
        let goes_on = (self.watch)(self.done.min(count), count);
        self.done += 1;
        goes_on
    }
}

/// What is mounted, and the process that works on it.
struct Mount {
    mounted: Mounted,
    kind: &'static Kind,
    request: MountRequest,
    runner: Runner<mount::SharedMount>,
}

impl Session {
    /// Runs until the script ends, fails, or cuts the power.
    async fn play(mut self, machine: Machine) -> Self {
        if self.is_counting {
            self.meter.resume(&machine.mtd);
        }
        if let Some(timeline) = &self.timeline {
            timeline.begin(&machine);
        }
        // Taken: a machine after a cut goes on with the phase.
        if let Some(name) = self.first_phase.take() {
            self.meter.phase(Some(&name), &machine.mtd, 0, &mut self.record);
        }
        let mut mount = None;
        loop {
            let event = match self.walk.next(self.clock_base_ns + machine.sim.now()) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    let place = Place { passes: self.walk.passes(), ..Place::of_line(error.line) };
                    self.error = Some(RunnerError::Line { place, reason: error.reason });
                    return self;
                }
            };
            if let Event::Command(command) = &event
                && command.step == Step::Control(ControlLine::PowerCut)
            {
                if self.begins() {
                    self.cut_power(&machine);
                }
                return self;
            }
            if !self.event(event, &machine, &mut mount).await {
                return self;
            }
            if self.is_over {
                break;
            }
        }
        self.is_over = true;
        self.meter.phase(None, &machine.mtd, machine.sim.now(), &mut self.record);
        let place = self.so_far.borrow().place.clone();
        self.so_far.borrow_mut().follow(&self.record, None, place);
        self.meter.suspend(&machine.mtd, &mut self.record);
        if let Some(timeline) = &self.timeline {
            timeline.end(&machine);
        }
        self.record.is_mounted = mount.is_some();
        // What stays mounted is asked here for what an unmount would have reported.
        if let Some(mount) = &mount {
            self.note(mount.mounted.file_system.findings().await);
        }
        self
    }

    /// Tells that a command begins; false if somebody stopped the run.
    fn begins(&mut self) -> bool {
        let goes_on = self.progress.borrow_mut().begins(self.count);
        if !goes_on {
            self.error = Some(RunnerError::Stopped);
        }
        goes_on
    }

    /// Does what the walk came to; false if the run ends with that.
    async fn event(&mut self, event: Event, machine: &Machine, mount: &mut Option<Mount>) -> bool {
        let start_ns = machine.sim.now();
        let (place, done) = match event {
            Event::Wait(until_ns) => {
                machine.sim.sleep_until(until_ns - self.clock_base_ns).await;
                return true;
            }
            Event::Command(command) => {
                if !self.begins() {
                    return false;
                }
                let done = self.command(&command, machine, mount).await;
                let done = done.map_err(|reason| (command.place.clone(), reason));
                (command.place, done)
            }
            Event::Processes(place, walks) => {
                let done = self.processes(walks, machine, mount.as_ref()).await;
                if self.error.is_some() {
                    return false;
                }
                (place, done)
            }
        };
        if let Some(timeline) = &self.timeline {
            timeline.line(&place, start_ns, machine);
        }
        if let Err((place, reason)) = done {
            self.error = Some(RunnerError::Line { place, reason });
            return false;
        }
        let unfinished = self.meter.unfinished(&machine.mtd, machine.sim.now());
        self.so_far.borrow_mut().follow(&self.record, unfinished, place);
        true
    }

    /// Runs the processes of a `concurrent` to their ends.
    async fn processes(
        &mut self,
        walks: Vec<Walk>,
        machine: &Machine,
        mount: Option<&Mount>,
    ) -> Result<(), (Place, String)> {
        let Some(Mount { runner, .. }) = mount else { return Ok(()) };
        self.written = Written::default();
        let ends = Rc::new(ProcessEnds {
            progress: self.progress.clone(),
            count: self.count,
            keeps_going: self.setup.keeps_going,
            timeline: self.timeline.clone().map(|timeline| (timeline, machine.clone())),
            failures: RefCell::new(std::mem::take(&mut self.record.failures)),
            error: RefCell::default(),
            is_stopped: Cell::new(false),
        });
        runner.run_processes(walks, ends.clone()).await;
        self.record.failures = ends.failures.take();
        if ends.is_stopped.get() {
            self.error = Some(RunnerError::Stopped);
        }
        ends.error.take().map_or(Ok(()), Err)
    }

    /// The supply fails between two operations; the host comes back a second later.
    fn cut_power(&mut self, machine: &Machine) {
        self.is_counting = self.meter.is_counting();
        self.meter.suspend(&machine.mtd, &mut self.record);
        self.meter.change_machine(machine.sim.now());
        self.clock_base_ns += machine.sim.now();
        if let Some(timeline) = &self.timeline {
            timeline.end(machine);
        }
        let now = machine.now();
        debug_assert!(now.seconds >= self.setup.driver.epoch_seconds, "the clock never goes back");
        self.setup.driver.epoch_seconds = now.seconds + 1;
        self.setup.driver.epoch_nanoseconds = now.nanoseconds;
    }

    async fn command(
        &mut self,
        command: &Command,
        machine: &Machine,
        mount: &mut Option<Mount>,
    ) -> Result<(), String> {
        match &command.step {
            Step::Control(line) => self.control(&command.place, line, machine, mount).await,
            Step::Sleep { milliseconds } => {
                // Here and not in the runner: scripts may sleep with nothing mounted.
                machine.sim.sleep(milliseconds * 1_000_000).await;
                Ok(())
            }
            _ => {
                // What was written before time passed is not all that the files hold now.
                self.written = Written::default();
                let mount = mount.as_ref().expect("prepared scripts mount first");
                match mount.runner.carry_out(command).await {
                    Ok(None) => Ok(()),
                    Ok(Some(tried)) => {
                        let failures = &mut self.record.failures;
                        note_failure(failures, &command.place, tried.to_string());
                        Ok(())
                    }
                    Err(failed) => self.failed(&command.place, &failed),
                }
            }
        }
    }

    /// A call that failed ends the run, or is noted.
    fn failed(&mut self, place: &Place, failed: &Failed) -> Result<(), String> {
        if !self.setup.keeps_going {
            return Err(failed.to_string());
        }
        note_failure(&mut self.record.failures, place, failed.to_string());
        Ok(())
    }

    // Longer than a screen: one arm a kind of control line.
    async fn control(
        &mut self,
        place: &Place,
        line: &ControlLine,
        machine: &Machine,
        mount: &mut Option<Mount>,
    ) -> Result<(), String> {
        let mtd = &machine.mtd;
        match line {
            ControlLine::Log(true) => self.meter.resume(mtd),
            ControlLine::Log(false) => self.meter.suspend(mtd, &mut self.record),
            ControlLine::Phase(name) => {
                self.meter.phase(name.as_deref(), mtd, machine.sim.now(), &mut self.record);
            }
            ControlLine::End => self.meter.phase(None, mtd, machine.sim.now(), &mut self.record),
            ControlLine::Mount { file_system, source, options } => {
                let kind = find_kind(file_system).map_err(|error| error.to_string())?;
                let mut request = self.setup.request.clone();
                request.options.extend_from_slice(options);
                request.ubi.volume = source.strip_prefix("ubi0:").map(str::to_owned);
                *mount = self.mount_or_lose(place, machine, kind, &request).await?;
            }
            ControlLine::MountGiven { .. } => {
                let kind = self.setup.kind.expect("prepared scripts name the file system");
                let request = self.setup.request.clone();
                *mount = self.mount_or_lose(place, machine, kind, &request).await?;
            }
            ControlLine::Unmount => {
                let open =
                    mount.as_ref().map(|mount| mount.runner.open_names()).unwrap_or_default();
                if let Some(name) = open.first() {
                    // The kernel keeps such a mount, whatever a script may do next.
                    let advice =
                        format!("; a file is open as `{name}`: `close {name}` comes first");
                    let (call, error) = ("umount", Errno::Ebusy);
                    return Err(RunError { call, error, advice }.to_string());
                }
                // Gone even if unmounting fails: nothing can be done with it any more.
                let Mount { mounted, .. } = mount.take().expect("prepared scripts mount first");
                let done = mounted.unmount().await;
                self.note(mounted.file_system.findings().await);
                if let Err(error) = done {
                    return self.failed(place, &Failed::Call(RunError::new("umount", error)));
                }
            }
            ControlLine::DropCaches => {
                if let Some(Mount { mounted, .. }) = mount {
                    let dropped = mounted.vfs.drop_caches().await;
                    if let Err(error) = dropped {
                        return self.failed(place, &Failed::Call(RunError::new("drop", error)));
                    }
                }
            }
            ControlLine::Age { milliseconds, celsius } => {
                if let Err(error) = synced(mount.as_ref()).await {
                    return self.failed(place, &Failed::Call(RunError::new("age", error)));
                }
                self.written.keep(machine);
                mtd.with_chip(|chip| self.aged.pass(chip, *milliseconds, *celsius));
            }
            ControlLine::Wear { cycles } => mtd.with_chip(|chip| chip.set_erase_counts(*cycles)),
            ControlLine::Scrub => {
                // What is compared lies on the chip, and not in memory alone.
                if let Err(error) = synced(mount.as_ref()).await {
                    return self.failed(place, &Failed::Call(RunError::new("scrub", error)));
                }
                let Mount { mounted, kind, request, .. } =
                    mount.as_ref().expect("prepared scripts mount first");
                let errors = &self.setup.part.errors;
                let stand = Stand { machine, errors, place, aged: &self.aged };
                let asked = MountAsked { driver: &self.setup.driver, kind, request };
                let found = scrub(&stand, mounted, &asked, &mut self.written).await?;
                self.record.scrubs.push(found);
            }
            ControlLine::Settle { milliseconds } => wait_until_idle(machine, *milliseconds).await?,
            ControlLine::AddChip => {
                self.written = Written::default();
                let part = &self.setup.part;
                // A new chip of the part, without the faults that were asked of the first.
                let mut chip = Chip::new(part, Storage::Bytes, &FaultSettings::default());
                if self.draws_bit_errors {
                    chip.keep_bit_errors(self.setup.request.seed);
                }
                mtd.replace_chip(chip);
            }
            ControlLine::Snap(name) | ControlLine::Save(name) => {
                self.record.kept.insert(name.clone(), copy(mtd));
            }
            ControlLine::Load(name) => {
                self.written = Written::default();
                let kept = self.record.kept.get(name).expect("prepared scripts keep first");
                // A copy, so that the kept chip can be loaded again.
                mtd.replace_chip(kept.clone());
            }
            // The chip goes when the next one comes; `Order` refuses what would need it until then.
            // Expectations are not looked at: that would read the chip, and change what is counted.
            ControlLine::RemoveChip | ControlLine::Workload(_) | ControlLine::AtRest(_) => {}
            ControlLine::PowerCut => unreachable!("carried out by the caller"),
            ControlLine::Format { .. }
            | ControlLine::Attach(_)
            | ControlLine::MakeVolume(_)
            | ControlLine::Detach => {
                self.written = Written::default();
                self.ubi(line, machine).await.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// What `ubiformat` and the programs beside it do.
    async fn ubi(&mut self, line: &ControlLine, machine: &Machine) -> Result<(), MountError> {
        let mut request = self.setup.request.clone();
        let default = request.ubi.header_offset;
        match line {
            ControlLine::Format { sequence, header_offset } => {
                request.ubi.header_offset = header_offset.or(default);
                machine.format_ubi(*sequence, &request.ubi).await
            }
            ControlLine::Attach(attach) => {
                request.ubi.header_offset = attach.header_offset.or(default);
                machine.attach_ubi(&request).await.map(drop)
            }
            ControlLine::MakeVolume(volume) => machine.make_ubi_volume(&volume.name).await,
            ControlLine::Detach => {
                let ubi = machine.attached_ubi().expect("prepared scripts attach first");
                self.note(ubi.findings());
                machine.detach_ubi();
                Ok(())
            }
            _ => unreachable!("no line about UBI"),
        }
    }

    /// What was found wrong with the medium; layers that live on report the same again.
    fn note(&mut self, findings: Vec<Finding>) {
        for Finding { text: finding, .. } in findings {
            if !self.record.findings.contains(&finding) {
                self.record.findings.push(finding);
            }
        }
    }

    /// Mounts. That an aged chip cannot be mounted is what the script asks for: it ends with that finding.
    async fn mount_or_lose(
        &mut self,
        place: &Place,
        machine: &Machine,
        kind: &'static Kind,
        request: &MountRequest,
    ) -> Result<Option<Mount>, String> {
        match self.mount(machine, kind, request).await {
            Err(reason) if self.aged.milliseconds > 0 => {
                let errors = &self.setup.part.errors;
                let stand = Stand { machine, errors, place, aged: &self.aged };
                self.record.scrubs.push(stand.mount_failed(&reason));
                self.is_over = true;
                Ok(None)
            }
            mounted => mounted.map(Some),
        }
    }

    async fn mount(
        &mut self,
        machine: &Machine,
        kind: &'static Kind,
        request: &MountRequest,
    ) -> Result<Mount, String> {
        let mounted = machine.mount(kind, request).await.map_err(|error| error.to_string())?;
        if self.record.file_system.is_none() {
            self.record.file_system = Some(kind.name);
            self.record.profile = kind.profile(request.profile.as_deref()).ok();
        }
        let Driver { epoch_seconds, epoch_nanoseconds, .. } = self.setup.driver;
        // One process makes all calls of a script.
        let runner = Runner::new(&machine.sim, mounted.vfs.clone(), epoch_seconds)
            .with_epoch_nanoseconds(epoch_nanoseconds)
            .with_clock_base(self.clock_base_ns);
        Ok(Mount { mounted, kind, request: request.clone(), runner })
    }
}

/// Writes what is dirty, if anything is mounted.
async fn synced(mount: Option<&Mount>) -> Result<(), Errno> {
    match mount {
        Some(Mount { mounted, .. }) => mounted.vfs.sync().await,
        None => Ok(()),
    }
}

fn copy(mtd: &Mtd) -> Chip {
    // Blocks are shared until one is written, so a copy costs little.
    mtd.with_chip(|chip| chip.clone())
}

/// Times the idle time that is waited for, after which a chip that never rests is given up.
const SETTLE_FACTOR: u64 = 1000;

/// Waits until the chip has been idle for so long, from now on.
async fn wait_until_idle(machine: &Machine, milliseconds: u64) -> Result<(), String> {
    let idle_ns = milliseconds * 1_000_000;
    let begin_ns = machine.sim.now();
    loop {
        let quiet_ns = machine.mtd.last_operation_ns().max(begin_ns) + idle_ns;
        let now_ns = machine.sim.now();
        if quiet_ns <= now_ns {
            return Ok(());
        }
        // A background thread may write for ever, each time before the chip was idle long enough.
        if now_ns - begin_ns > idle_ns.saturating_mul(SETTLE_FACTOR) {
            return Err(format!(
                "the chip was never idle for {milliseconds} ms within {} s of simulated time",
                (now_ns - begin_ns) / 1_000_000_000
            ));
        }
        machine.sim.sleep_until(quiet_ns).await;
    }
}

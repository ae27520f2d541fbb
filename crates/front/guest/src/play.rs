//! Walking through a script on a real clock, with a process of the system for each process of the script.

use crate::kernel_script::calls::Calls;
use rustix::time::{ClockId, clock_gettime};
use script::{Command, Event, Pass, Place, Script, Step, Walk};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// How long is waited at once, so that whoever plays can look after what else goes on.
const LOOK: Duration = Duration::from_millis(20);

/// A command that ends the script: its place behind the name of the file, and why.
pub(crate) type LineError = (String, String);

/// The clock of a script: nanoseconds since it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begun_ns: u64,
}

impl Clock {
    /// A script begins now.
    pub(crate) fn begin() -> Self {
        Self { begun_ns: monotonic_ns() }
    }

    /// Nanoseconds since then.
    pub(crate) fn now_ns(self) -> u64 {
        // The begin may lie before that of the machine, where waits are left out.
        monotonic_ns().wrapping_sub(self.begun_ns)
    }

    /// The clock of a script that did not wait up to a time, as if it had.
    fn advanced_to(self, until_ns: u64) -> Self {
        let left_ns = until_ns.saturating_sub(self.now_ns());
        Self { begun_ns: self.begun_ns.wrapping_sub(left_ns) }
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Who carries a script out.
pub(crate) trait Stage {
    /// Carries a command out.
    ///
    /// # Errors
    /// Why it ends the script.
    fn command(&mut self, command: &Command) -> Result<(), LineError>;

    /// Looks after what goes on beside the script, from time to time while it waits.
    ///
    /// # Errors
    /// What went wrong there.
    fn look(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// A call of a process failed and was passed over.
    fn failed(&mut self, place: &str, reason: &str) -> io::Result<()>;
}

/// Where a script and its processes find what they need.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The file of the script, which processes read anew.
    pub(crate) file: PathBuf,
    pub(crate) mount_point: PathBuf,
    /// A call that fails is noted and passed over.
    pub(crate) keeps_going: bool,
    /// `sleep` and `every` wait; otherwise what comes next begins at once.
    pub(crate) waits: bool,
    pub(crate) clock: Clock,
}

/// Carries a script out.
///
/// # Errors
/// The command that ends it.
pub(crate) fn play(
    script: &Script,
    ground: &Ground,
    stage: &mut impl Stage,
) -> Result<(), LineError> {
    play_walk(script.walk(), ground, stage)
}

fn play_walk(mut walk: Walk, ground: &Ground, stage: &mut impl Stage) -> Result<(), LineError> {
    let mut ground = ground.clone();
    loop {
        let event = walk.next(ground.clock.now_ns());
        let event = event.map_err(|error| {
            let place = Place { passes: walk.passes(), ..Place::of_line(error.line) };
            (place.behind_file(), error.reason)
        })?;
        match event {
            None => return Ok(()),
            Some(Event::Command(command)) => stage.command(&command)?,
            Some(Event::Wait(until_ns)) if !ground.waits => {
                ground.clock = ground.clock.advanced_to(until_ns);
            }
            Some(Event::Wait(until_ns)) => {
                wait_until(ground.clock, until_ns, stage).map_err(|error| outside(&error))?;
            }
            Some(Event::Processes(_, walks)) => run_processes(&walks, &ground, stage)?,
        }
    }
}

/// An error that no line is to blame for.
fn outside(error: &io::Error) -> LineError {
    ("0".into(), error.to_string())
}

fn wait_until(clock: Clock, until_ns: u64, stage: &mut impl Stage) -> io::Result<()> {
    loop {
        let left_ns = until_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 {
            return Ok(());
        }
        sleep(LOOK.min(Duration::from_nanos(left_ns)));
        stage.look()?;
    }
}

/// Starts a process of the system for each walk, and waits for all of them.
fn run_processes(walks: &[Walk], ground: &Ground, stage: &mut impl Stage) -> Result<(), LineError> {
    let started: io::Result<Vec<Child>> = walks.iter().map(|walk| start(walk, ground)).collect();
    let mut waiting = started.map_err(|error| outside(&error))?;
    // Looked at all the time: the kernel's log of a chip is a ring, which processes fill.
    while waiting.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
        sleep(LOOK);
        stage.look().map_err(|error| outside(&error))?;
    }
    let mut first = None;
    for child in waiting.drain(..) {
        let output = child.wait_with_output().map_err(|error| outside(&error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let (place, reason) = line.split_once('\t').unwrap_or(("0", line));
            match place.strip_prefix('!') {
                Some(place) => {
                    first.get_or_insert((place.to_owned(), reason.to_owned()));
                }
                None => stage.failed(place, reason).map_err(|error| outside(&error))?,
            }
        }
        if !output.status.success() {
            let reason = format!("a process of the script ended with {}", output.status);
            first.get_or_insert(("0".to_owned(), reason));
        }
    }
    first.map_or(Ok(()), Err)
}

fn start(walk: &Walk, ground: &Ground) -> io::Result<Child> {
    let brace = walk.place();
    let passes = walk.passes().iter().map(word_of).collect::<Vec<_>>().join(",");
    // Where the mount point is the root of this process, /proc is found from the working directory alone.
    let is_confined = ground.mount_point == Path::new("/");
    std::process::Command::new(if is_confined { "proc/self/exe" } else { "/proc/self/exe" })
        .arg("process")
        .arg("--file")
        .arg(&ground.file)
        .arg("--mount-point")
        .arg(&ground.mount_point)
        .args(["--keep-going", if ground.keeps_going { "yes" } else { "no" }])
        .args(["--waits", if ground.waits { "yes" } else { "no" }])
        .args(["--line", &brace.line.to_string(), "--column", &brace.column.to_string()])
        .args(["--begun-ns", &ground.clock.begun_ns.to_string()])
        .args(["--passes", &format!("-{passes}")])
        .stdout(Stdio::piped())
        .spawn()
}

/// A pass as a word: `i=17`, or `=3` without a variable.
fn word_of(pass: &Pass) -> String {
    format!("{}={}", pass.variable.as_deref().unwrap_or(""), pass.number)
}

fn passes_of(text: &str) -> Option<Vec<Pass>> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (name, number) = word.split_once('=')?;
            let variable = (!name.is_empty()).then(|| name.into());
            Some(Pass { variable, number: number.parse().ok()? })
        })
        .collect()
}

/// The process whose opening brace stands at a line and a column of the script.
#[derive(Debug)]
pub(crate) struct ProcessPlan<'a> {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) begun_ns: u64,
    /// A dash, and the passes of the blocks around it.
    pub(crate) passes: &'a str,
}

/// Carries a process of a script out. Calls that fail and are passed over go to standard output, one a line; the
/// command that ends it is marked there.
///
/// # Errors
/// There is no such process, or its script cannot be read.
pub(crate) fn play_process(
    plan: &ProcessPlan<'_>,
    file: &Path,
    mount_point: &Path,
    (keeps_going, waits): (bool, bool),
) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let script = script::parse(&text).map_err(|error| error.to_string())?;
    let passes = plan.passes.strip_prefix('-').and_then(passes_of).ok_or("no passes")?;
    let walk = script.process_at(plan.line, plan.column, passes).ok_or("no such process")?;
    let clock = Clock { begun_ns: plan.begun_ns };
    let (file, mount_point) = (file.to_owned(), mount_point.to_owned());
    let mut stage = ProcessStage { calls: Calls::below(&mount_point), keeps_going, waits };
    let ground = Ground { file, mount_point, keeps_going, waits, clock };
    if let Err((place, reason)) = play_walk(walk, &ground, &mut stage) {
        println!("!{place}\t{reason}");
    }
    Ok(())
}

/// A process of a script, which tells its parent what failed.
struct ProcessStage {
    calls: Calls,
    keeps_going: bool,
    waits: bool,
}

impl Stage for ProcessStage {
    fn command(&mut self, command: &Command) -> Result<(), LineError> {
        if let Step::Sleep { milliseconds } = command.step {
            if self.waits {
                sleep(Duration::from_millis(milliseconds));
            }
            return Ok(());
        }
        let place = command.place.behind_file();
        match self.calls.carry_out(command) {
            Ok(None) => Ok(()),
            Err(reason) if !self.keeps_going => Err((place, reason)),
            Ok(Some(reason)) | Err(reason) => {
                self.failed(&place, &reason).map_err(|error| outside(&error))
            }
        }
    }

    fn failed(&mut self, place: &str, reason: &str) -> io::Result<()> {
        println!("{place}\t{reason}");
        Ok(())
    }
}

//! A search for scripts that break a guarantee, by draws and by what they reach.
//!
//! Runs come in batches. The scripts of a batch are drawn, or made from kept ones, from what was kept before the
//! batch. They run side by side, and what they found is put together in their order. So the outcome depends on the
//! seed, the corpus and the number of runs, and on nothing else.

use crate::coverage::{Signals, add_counters, add_signals, classes};
use crate::cuts::{CutOf, Cuts};
use crate::draw::{Draw, mutated};
use crate::error::CrashError;
use crate::failure::{Bench, Failure, FailureKind, failures_of};
use crate::minimise::{Minimised, Minimising, minimise};
use crate::recoveries::Recoveries;
use crate::script_text::{Item, items_of, text_of};
use random::Stream;
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// Scripts that run before the next ones are drawn: a multiple of the processors of most machines.
const BATCH: u64 = 16;
/// Cut points of a script, in each torn model: a new script shows more than all cuts of a known one.
const CUT_POINTS: u64 = 40;
/// Kept scripts. The oldest goes first, as what it reached is known.
const MOST_KEPT: usize = 2000;
/// Different failures that are minimised and kept; of others only the number is.
const MOST_FOUND: usize = 200;
/// Signals and reasons that are remembered. A search of hours has some thousands.
const MOST_SIGNALS: usize = 1 << 18;

/// What a search does.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// Seed of all draws.
    pub seed: u64,
    /// Scripts to run; none to go on until it is asked to stop.
    pub runs: Option<u64>,
    /// How deep recoveries are cut: 0 not at all, 2 also the recovery from a cut of a recovery.
    pub depth: usize,
    /// Owners, modes, links, devices and extended attributes are drawn.
    pub has_owners_and_links: bool,
}

/// Counts of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SearchCounts {
    /// Scripts that were run.
    pub runs: u64,
    /// Those of them that could not be cut: nothing was written, or a line failed that must not.
    pub refused_runs: u64,
    /// Calls of the others.
    pub calls: u64,
    /// Cuts of their runs.
    pub cuts: u64,
    /// Cuts of the recoveries from them.
    pub recovery_cuts: u64,
    /// Cuts of the recoveries from those.
    pub second_recovery_cuts: u64,
    /// Different signals.
    pub signals: u64,
    /// Scripts that showed a new one.
    pub kept: u64,
    /// Cuts that failed.
    pub failed_cuts: u64,
    /// Different failures.
    pub failures: u64,
}

/// A failure, and the smallest script that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What failed, in a word or two.
    pub name: String,
    /// The run that showed it first.
    pub run: u64,
    /// The smallest script, behind [`crate::HEAD_LINES`] lines that are left to the caller.
    pub text: String,
    /// What that shows.
    pub failure: Failure,
    /// True if a smaller one may exist.
    pub is_unfinished: bool,
}

/// What became of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchOutcome {
    /// Its counts.
    pub counts: SearchCounts,
    /// How many signals there are of each class.
    pub classes: BTreeMap<String, u64>,
    /// The failures, in the order of the runs.
    pub found: Vec<Found>,
    /// Why runs could not be cut, without numbers, and how many of them.
    pub refusals: BTreeMap<String, u64>,
    /// BLAKE3 over what all runs showed, its first 64 bits in hexadecimal.
    pub digest: String,
    /// True if it was stopped before the number of runs that was asked for.
    pub interrupted: bool,
}

/// How far a search is.
#[derive(Clone, Debug, Serialize)]
pub struct SearchState<'a> {
    /// Its counts.
    pub counts: &'a SearchCounts,
    /// Scripts that were kept since the last time.
    pub kept: Vec<String>,
    /// A failure that was found and minimised since.
    pub found: Option<&'a Found>,
    /// Scripts that were tried to make a failing one smaller, if that goes on.
    pub tried: Option<u64>,
}

/// A script that was run.
struct Run {
    items: Vec<Item>,
    cuts: Cuts,
    counts: SearchCounts,
    signals: Signals,
    failures: Vec<Failure>,
    refusal: Option<String>,
}

struct Search<'a> {
    bench: &'a Bench,
    plan: &'a SearchPlan,
    kept: Vec<Vec<Item>>,
    signals: Signals,
    known: Vec<FailureKind>,
    outcome: SearchOutcome,
    digest: blake3::Hasher,
    progress: &'a mut dyn FnMut(&SearchState<'_>) -> bool,
}

/// Searches. `corpus` holds scripts that earlier searches kept, which are run first and not counted as runs.
///
/// `progress` is told after each batch, and of each script that is tried for a smaller one. The search ends when it
/// answers false.
///
/// # Errors
/// [`CrashError::Workers`] if no threads can be started; [`CrashError::Line`] of a script of the corpus that is
/// none.
pub fn search(
    bench: &Bench,
    plan: &SearchPlan,
    corpus: &[String],
    progress: &mut dyn FnMut(&SearchState<'_>) -> bool,
) -> Result<SearchOutcome, CrashError> {
    let pool = ThreadPoolBuilder::new().num_threads(bench.workers.unwrap_or(0)).build();
    let pool = pool.map_err(|error| CrashError::Workers { reason: error.to_string() })?;
    let outcome = SearchOutcome {
        counts: SearchCounts::default(),
        classes: BTreeMap::new(),
        found: Vec::new(),
        refusals: BTreeMap::new(),
        digest: String::new(),
        interrupted: false,
    };
    let (kept, signals, known) = (Vec::new(), Signals::new(), Vec::new());
    let digest = blake3::Hasher::new();
    let mut search = Search { bench, plan, kept, signals, known, outcome, digest, progress };
    let mut given: Vec<Vec<Item>> = Vec::new();
    for text in corpus {
        script::parse(text)?;
        given.push(items_of(text));
    }
    let run = |one: &(u64, Vec<Item>)| carry_out(bench, plan, one.0, one.1.clone());
    for (number, scripts) in given.chunks(BATCH as usize).enumerate() {
        // Numbers from the other end: a script of the corpus draws nothing that a run draws, too.
        let first = u64::MAX - number as u64 * BATCH;
        let scripts = scripts.iter().cloned().enumerate();
        let scripts: Vec<_> = scripts.map(|(at, items)| (first - at as u64, items)).collect();
        let runs = cancellation::catch(|| pool.install(|| scripts.par_iter().map(run).collect()));
        let Ok(runs) = runs else { return Ok(search.end(true)) };
        search.add(runs, false);
    }
    loop {
        let done = search.outcome.counts.runs;
        let count = plan.runs.map_or(BATCH, |runs| BATCH.min(runs - done));
        if count == 0 {
            return Ok(search.end(false));
        }
        let scripts: Vec<_> = (done..done + count).map(|run| (run, search.script(run))).collect();
        let runs = cancellation::catch(|| pool.install(|| scripts.par_iter().map(run).collect()));
        let Ok(runs) = runs else { return Ok(search.end(true)) };
        if !search.add(runs, true) {
            let is_part = plan.runs.is_some_and(|runs| search.outcome.counts.runs < runs);
            return Ok(search.end(is_part || plan.runs.is_none()));
        }
    }
}

impl Search<'_> {
    /// The script of a run: drawn, or made from a kept one.
    fn script(&self, run: u64) -> Vec<Item> {
        let mut stream = Stream::new(self.plan.seed, &format!("script {run}"));
        let has_owners_and_links = self.plan.has_owners_and_links;
        // One of four is new: changed scripts alone would stay near the first ones.
        if self.kept.is_empty() || stream.below(4) == 0 {
            return Draw::new(has_owners_and_links, &mut stream).script(&mut stream);
        }
        let mut pick = || &self.kept[stream.below(self.kept.len() as u32) as usize];
        let (kept, other) = (pick(), pick());
        mutated(kept, other, has_owners_and_links, &mut stream)
    }

    /// Puts the results of a batch to the others; false if the search is to stop.
    fn add(&mut self, runs: Vec<Run>, is_counted: bool) -> bool {
        let (mut kept, mut failing) = (Vec::new(), Vec::new());
        for run in runs {
            let number = self.outcome.counts.runs;
            if is_counted {
                self.count(&run);
            }
            let is_new = run.signals.iter().any(|signal| !self.signals.contains(signal));
            if is_new && self.signals.len() < MOST_SIGNALS {
                self.signals.extend(run.signals.iter().cloned());
                kept.push(text_of(&run.items));
                self.kept.push(run.items.clone());
                self.outcome.counts.kept += u64::from(is_counted);
            }
            for failure in &run.failures {
                if !self.known.contains(&failure.kind) && self.known.len() < MOST_FOUND {
                    self.known.push(failure.kind.clone());
                    failing.push((number, text_of(&run.items), run.cuts.clone(), failure.clone()));
                }
            }
        }
        let surplus = self.kept.len().saturating_sub(MOST_KEPT);
        self.kept.drain(..surplus);
        self.outcome.counts.signals = self.signals.len() as u64;
        self.outcome.counts.failures = self.known.len() as u64;
        let state = SearchState { counts: &self.outcome.counts, kept, found: None, tried: None };
        let mut goes_on = (self.progress)(&state);
        // After the scripts that were kept are told: a smallest script may take minutes.
        for (run, text, cuts, failure) in failing {
            goes_on = self.minimise(run, &text, &cuts, failure, goes_on);
        }
        goes_on
    }

    fn count(&mut self, run: &Run) {
        let (all, one) = (&mut self.outcome.counts, &run.counts);
        all.runs += 1;
        all.refused_runs += one.refused_runs;
        all.calls += one.calls;
        all.cuts += one.cuts;
        all.recovery_cuts += one.recovery_cuts;
        all.second_recovery_cuts += one.second_recovery_cuts;
        all.failed_cuts += one.failed_cuts;
        let refusals = &mut self.outcome.refusals;
        if let Some(reason) = &run.refusal
            && (refusals.len() < MOST_FOUND || refusals.contains_key(reason))
        {
            *refusals.entry(reason.clone()).or_default() += 1;
        }
        // Not the smallest scripts: a search whose time ends would have others than the one that repeats it.
        let shown = format!("{one:?}{:?}{:?}", run.signals, run.failures);
        self.digest.update(shown.as_bytes());
    }

    /// Minimises a failure; of a search that is to stop, the script is kept as it is.
    fn minimise(
        &mut self,
        run: u64,
        text: &str,
        cuts: &Cuts,
        failure: Failure,
        mut goes_on: bool,
    ) -> bool {
        let (counts, progress) = (&self.outcome.counts, &mut self.progress);
        let mut told = |state: Minimising| {
            let tried = Some(state.tried);
            let state = SearchState { counts, kept: Vec::new(), found: None, tried };
            goes_on = goes_on && progress(&state);
            goes_on
        };
        let cuts = Cuts { workers: self.bench.workers, ..cuts.clone() };
        let smaller = minimise(self.bench, text, &cuts, Some(&failure.kind), &mut told);
        let name = failure.kind.name();
        // Stopped before the first script was tried: the one that was found is told.
        let Minimised { text, failure, interrupted: is_unfinished, .. } =
            smaller.ok().flatten().unwrap_or_else(|| {
                let text = text_of(&items_of(text));
                Minimised { text, failure, tried: 0, interrupted: true }
            });
        let found = Found { name, run, text, failure, is_unfinished };
        let state = SearchState { counts, kept: Vec::new(), found: Some(&found), tried: None };
        goes_on &= (self.progress)(&state);
        self.outcome.found.push(found);
        goes_on
    }

    fn end(mut self, interrupted: bool) -> SearchOutcome {
        self.outcome.classes = classes(&self.signals);
        let digest = self.digest.finalize().to_hex();
        digest[..DIGEST_LETTERS].clone_into(&mut self.outcome.digest);
        self.outcome.interrupted = interrupted;
        self.outcome
    }
}

/// Hexadecimal digits of a digest, as those of failing scripts have.
const DIGEST_LETTERS: usize = 16;

/// Runs a script and cuts it, on the thread of the caller.
fn carry_out(bench: &Bench, plan: &SearchPlan, number: u64, items: Vec<Item>) -> Run {
    let mut stream = Stream::new(plan.seed, &format!("cuts {number}"));
    let text = text_of(&items);
    let mut run = Run {
        items,
        cuts: Cuts::default(),
        counts: SearchCounts::default(),
        signals: Signals::new(),
        failures: Vec::new(),
        refusal: None,
    };
    let crash = match script::parse(&text).map_err(CrashError::from).map(|one| bench.run(&one)) {
        Ok(Ok(Ok(crash))) => crash,
        Ok(Err(failure)) => {
            run.counts.failed_cuts += 1;
            run.failures.push(failure);
            return run;
        }
        Ok(Ok(Err(error))) | Err(error) => {
            run.counts.refused_runs += 1;
            run.refusal = Some(crate::failure::without_numbers(&error.to_string()));
            return run;
        }
    };
    let every = crash.operations().div_ceil(CUT_POINTS);
    run.cuts = Cuts {
        every,
        first: u64::from(stream.below(every as u32)),
        workers: Some(1),
        recoveries: Recoveries::Drawn { depth: plan.depth, seed: stream.next_u64() },
        ..Cuts::default()
    };
    let names: Vec<String> = text.lines().map(|line| Item::line(line).name().to_owned()).collect();
    add_counters(&crash.counters, &mut run.signals);
    let (signals, failures, counts) = (&mut run.signals, &mut run.failures, &mut run.counts);
    counts.calls = crash.calls.len() as u64;
    let look = |cut: &CutOf<'_>| {
        add_signals(&crash, cut, &names, signals);
        counts.cuts += 1;
        for one in &cut.result.deeper {
            match one.then.len() {
                1 => counts.recovery_cuts += 1,
                _ => counts.second_recovery_cuts += 1,
            }
        }
        for failure in failures_of(&crash, cut) {
            counts.failed_cuts += 1;
            if !failures.iter().any(|known: &Failure| known.kind == failure.kind) {
                failures.push(failure);
            }
        }
        true
    };
    let done = crash.run_watched(&run.cuts, |_, _| true, look);
    debug_assert!(done.is_ok(), "all models fit, and no cut point is asked for");
    if done.is_ok_and(|outcome| outcome.interrupted) {
        // What is left of a batch that is stopped counts for nothing.
        cancellation::check();
    }
    run
}

//! All cut points of a script, side by side.

use crate::application::{self, Done};
use crate::card_cuts::{CardRun, CardState};
use crate::check::{Check, CheckOutcome, Checks, CutPlace, FilesLeft};
use crate::error::CrashError;
use crate::expectation::{Expectation, Symptom};
use crate::expectation_outcome::{BrokenBy, ExpectationOutcome, Tally};
use crate::first_mount::FirstMount;
use crate::guarantee::{CACHE_MODELS, TORN_MODELS, TornModel};
use crate::history::History;
use crate::judgement::Judgement;
use crate::recover::{Fault, Looked, Recovered, Seen, Trial, ViolationKind, judge_again, recover};
use crate::recoveries::{Recoveries, Then, spelled};
use crate::recovery_cuts::{Deeper, Left};
use crate::reference::{Reference, Sabotage, Setup, reference};
use crate::rewrites::Rewrites;
use crate::tree::Tree;
use cancellation::Interrupted;
use mount::guarantee::ERASED_BLOCK;
use mount::{CardContents, CardOperation, Counter};
use nand::{Chip, CutPoint, RawOperation, Torn};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use script::{Place, Script};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Which cuts are made.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// Every how many operations.
    pub every: u64,
    /// The first of them, below `every`.
    pub first: u64,
    /// This operation alone, by its number in the journal.
    pub only: Option<u64>,
    /// The torn models to cut with; all that fit the medium if there are none.
    pub torn: Vec<&'static TornModel>,
    /// Threads; none for one a processor.
    pub workers: Option<usize>,
    /// Cuts within the recoveries from these cuts.
    pub recoveries: Recoveries,
}

impl Default for Cuts {
    fn default() -> Self {
        let (torn, recoveries) = (Vec::new(), Recoveries::None);
        Self { every: 1, first: 0, only: None, torn, workers: None, recoveries }
    }
}

/// A guarantee that was broken, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Cut point: operations that had changed the medium before the one that was torn.
    pub cut_point: u64,
    /// The operation that was torn, in words.
    pub operation: String,
    /// Name of the torn model.
    pub torn: &'static str,
    /// Cuts within the recovery that followed, as [`spelled`] writes them; nothing for none.
    pub then: String,
    /// What kind of violation it is.
    pub kind: ViolationKind,
    /// Path of what is wrong; `.` for all of the file system.
    pub path: String,
    /// What the guarantee says.
    pub expected: String,
    /// What was found in place of that.
    pub found: String,
    /// Line of the script that was under way.
    pub line: usize,
    /// The passes of its blocks, such as `pass 3, i=17`; nothing outside of blocks.
    pub passes: String,
}

impl Violation {
    /// A fault with its cut, and with the cuts within the recovery that came behind it.
    pub(crate) fn of(
        fault: Fault,
        first: Then,
        operation: String,
        then: &[Then],
        place: &Place,
    ) -> Self {
        Self {
            cut_point: first.cut_point,
            operation,
            torn: first.torn.name,
            then: spelled(then),
            kind: fault.kind,
            path: fault.path,
            expected: fault.expected,
            found: fault.found,
            line: place.line,
            passes: place.passes_text(),
        }
    }
}

/// What became of the cuts of a torn model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TornOutcome {
    /// Name of the torn model.
    pub torn: &'static str,
    /// Cuts that were made.
    pub cuts: u64,
    /// Cuts within the recoveries from them; their violations and hazards are among the others.
    pub recovery_cuts: u64,
    /// Recoveries without a violation.
    pub recovered: u64,
    /// Those of them where a write was found done in part.
    pub partial_writes: u64,
    /// Those of them where the write afterwards found no space.
    pub full: u64,
    /// Cuts, those within recoveries included, where a known hazard of the real code struck, by its name; several
    /// may strike at once.
    pub hazards: BTreeMap<&'static str, u64>,
    /// Violations, by cut point.
    pub violations: Vec<Violation>,
    /// Cuts after which an expectation of the script does not hold, by symptom; one that breaks several counts
    /// for each symptom once.
    pub broken_expectations: BTreeMap<&'static str, u64>,
}

impl TornOutcome {
    fn new(torn: &'static str) -> Self {
        Self {
            torn,
            cuts: 0,
            recovery_cuts: 0,
            recovered: 0,
            partial_writes: 0,
            full: 0,
            hazards: BTreeMap::new(),
            violations: Vec::new(),
            broken_expectations: BTreeMap::new(),
        }
    }

    fn add(&mut self, result: &CutResult) {
        self.cuts += 1;
        let symptoms: BTreeSet<Symptom> = result.broken.iter().map(|one| one.1.symptom).collect();
        for symptom in symptoms {
            *self.broken_expectations.entry(symptom.name()).or_default() += 1;
        }
        match &result.recovered {
            Ok(recovered) => {
                self.recovered += 1;
                self.full += u64::from(recovered.is_full);
                self.partial_writes += u64::from(recovered.judgement == Judgement::PartOfWrite);
                self.add_hazards(recovered);
            }
            Err(violation) => self.violations.push((**violation).clone()),
        }
        self.recovery_cuts += result.deeper.len() as u64;
        for one in &result.deeper {
            match &one.recovered {
                Ok(recovered) => self.add_hazards(recovered),
                Err(violation) => self.violations.push((**violation).clone()),
            }
        }
        let own = self.violations.iter().filter(|violation| violation.then.is_empty()).count();
        debug_assert_eq!(self.recovered + own as u64, self.cuts);
    }

    fn add_hazards(&mut self, recovered: &Recovered) {
        let mut hazards = recovered.hazards.clone();
        if let Judgement::Hazard(hazard) = recovered.judgement {
            hazards.insert(hazard.name);
        }
        for name in hazards {
            *self.hazards.entry(name).or_default() += 1;
        }
    }
}

/// What became of all cuts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Operations of the run without a cut that change the medium.
    pub operations: u64,
    /// Those of them that erase.
    pub erases: u64,
    /// Lines that were refused in that run: no space, or a call that the file system lacks.
    pub refused_lines: u64,
    /// Outcomes by torn model, in the order of the models.
    pub torn: Vec<TornOutcome>,
    /// What became of the expectations of the script, line by line; empty if it has none.
    pub expectations: Vec<ExpectationOutcome>,
    /// What the check of the user's own said of the cuts, if there is one.
    pub check: Option<CheckOutcome>,
    /// True if not all cuts were made because the run was asked to stop.
    pub interrupted: bool,
}

/// What a cut was found to leave.
pub(crate) struct CutResult {
    pub(crate) recovered: Result<Recovered, Box<Violation>>,
    /// Expectations that do not hold.
    pub(crate) broken: Vec<BrokenBy>,
    /// What a check of the user's own looks at, if there is one.
    files: Option<FilesLeft>,
    /// What the first mount showed, until `files` has it.
    shown: Option<Tree>,
    /// What the first mount did, if it was watched.
    pub(crate) mount: Option<FirstMount>,
    /// Cuts within the recovery.
    pub(crate) deeper: Vec<Deeper>,
}

/// A cut, for whoever looks at each of them.
pub(crate) struct CutOf<'a> {
    pub(crate) at: usize,
    pub(crate) model: &'static TornModel,
    pub(crate) result: &'a CutResult,
}

impl Outcome {
    /// All violations, in the order of the torn models.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.torn.iter().flat_map(|torn| &torn.violations)
    }

    /// Cuts after which an expectation does not hold.
    pub fn broken_expectations(&self) -> u64 {
        self.expectations.iter().map(|one| one.failed).sum()
    }

    /// Writes the sentences about broken expectations and about the check, which name calls by the script's source.
    pub fn tell(&mut self, source: &str) {
        self.expectations.iter_mut().for_each(|one| one.tell(source));
        self.check.iter_mut().for_each(|check| check.tell(source));
    }

    /// Cut points, once for each torn model.
    pub fn cuts(&self) -> u64 {
        self.torn.iter().map(|torn| torn.cuts).sum()
    }
}

/// A script that was run once without a cut, ready to be cut.
pub struct Crash {
    setup: Setup,
    journal: Vec<RawOperation>,
    /// The run on a card; of the chip nothing changes then.
    card: Option<CardRun>,
    history: Arc<History>,
    before: Chip,
    /// Blocks that a block device erases and writes back; none on raw NAND.
    rewrites: Rewrites,
    refused_lines: u64,
    pub(crate) calls: Vec<Done>,
    /// What the run counted.
    pub(crate) counters: Vec<Counter>,
    expectations: Vec<Expectation>,
}

/// The chip before a block device erased a block to write it back.
struct BeforeRewrite {
    operation: usize,
    chip: Chip,
    /// True if it keeps the guarantee, once that was asked.
    is_kept: Option<bool>,
}

/// The chip, and the card if there is one, between two operations.
#[derive(Clone)]
struct Medium {
    chip: Chip,
    card: Option<CardState>,
}

/// Cut points that follow each other, and the medium before the first of them.
struct Stretch {
    medium: Medium,
    operations: std::ops::Range<usize>,
}

/// Operations of a stretch: fewer make more copies of the chip, more leave workers idle at the end.
const STRETCH: usize = 32;
/// Stretches between two calls of the progress.
const BATCH: usize = 16;

/// How cuts are made of a stretch.
struct How<'a, F> {
    models: &'a [&'static TornModel],
    is_cut: &'a F,
    /// True if the files that are found are wanted, too.
    keeps_files: bool,
    recoveries: &'a Recoveries,
}

impl Crash {
    /// Runs a script without a cut.
    ///
    /// # Errors
    /// [`CrashError::NoGuarantee`] of the file system, [`CrashError::Line`] of a line that fails,
    /// [`CrashError::Mount`], [`CrashError::NoOperation`] if nothing is written.
    pub fn new(chip: &Chip, setup: &Setup, script: &Script) -> Result<Self, CrashError> {
        Self::run_once(chip, None, setup, script)
    }

    /// Runs a script without a cut on an image: that of the chip, or what a card holds. Cuts begin when it is
    /// mounted, and what it shows then is safe.
    ///
    /// # Errors
    /// As [`Crash::new`]; [`CrashError::Mount`] also if there is nothing to mount.
    pub fn from_image(
        chip: &Chip,
        card: &CardContents,
        setup: &Setup,
        script: &Script,
    ) -> Result<Self, CrashError> {
        Self::run_once(chip, Some(card), setup, script)
    }

    fn run_once(
        chip: &Chip,
        image: Option<&CardContents>,
        setup: &Setup,
        script: &Script,
    ) -> Result<Self, CrashError> {
        let Reference {
            before,
            request,
            mut journal,
            card,
            history,
            calls,
            refused_lines,
            counters,
        } = reference(chip, image, setup, script)?;
        if card.as_ref().map_or(journal.len(), |card| card.journal.len()) == 0 {
            return Err(CrashError::NoOperation);
        }
        // A test of the checker: erased bytes in place of a program show whether a lost write is
        // noticed.
        if let Sabotage::LoseProgram(number) = setup.sabotage {
            let programs = journal.iter_mut().filter_map(|operation| match operation {
                RawOperation::PageProgram { data, oob, .. } => Some((data, oob)),
                _ => None,
            });
            if let Some((data, oob)) = programs.into_iter().nth(number) {
                data.fill(0xff);
                oob.fill(0xff);
            }
        }
        // The options of the script's mount lines are part of the request by now.
        // After a cut it is mounted as the script mounts it.
        let (setup, history) = (Setup { request, ..setup.clone() }, Arc::new(history));
        let first = &history.states()[0].tree;
        let expectations = application::expectations(history.guarantee(), first, &calls)?;
        let is_rewritten = card.is_none() && history.guarantee().hazards.contains(&ERASED_BLOCK);
        let rewrites = if is_rewritten { Rewrites::of(&journal) } else { Rewrites::default() };
        Ok(Self {
            setup,
            journal,
            card,
            history,
            before,
            rewrites,
            refused_lines,
            calls,
            counters,
            expectations,
        })
    }

    /// Operations that change the medium: the cut points.
    pub fn operations(&self) -> u64 {
        self.count() as u64
    }

    fn count(&self) -> usize {
        self.card.as_ref().map_or(self.journal.len(), |card| card.journal.len())
    }

    /// What changed the chip, in order; nothing where the file system is on a card.
    pub fn journal(&self) -> &[RawOperation] {
        &self.journal
    }

    /// What was done to the card, in order; none of a chip.
    pub(crate) fn card_journal(&self) -> Option<&[CardOperation]> {
        self.card.as_ref().map(|card| &card.journal[..])
    }

    /// The chip before the run.
    pub(crate) fn before(&self) -> &Chip {
        &self.before
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(crate) fn history_shared(&self) -> &Arc<History> {
        &self.history
    }

    /// The states of the run without a cut.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The expectations of the script, with what its files held at their rest points.
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }

    /// Cuts, recovers and judges. Cut points run side by side; the outcome does not depend on how
    /// many do.
    ///
    /// `progress` gets the number of cuts done, and of all; the run ends early if it returns false.
    ///
    /// # Errors
    /// [`CrashError::NoCutPoint`] if the only one that is asked for does not exist;
    /// [`CrashError::Workers`] if no threads can be started.
    pub fn run(
        &self,
        cuts: &Cuts,
        progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<Outcome, CrashError> {
        self.run_all(cuts, None, progress, |_| true)
    }

    /// The same with a check of the user's own, which looks at the files that each cut left. Files behind a cut
    /// within a recovery are not shown to it.
    ///
    /// # Errors
    /// As [`Crash::run`].
    pub fn run_checked(
        &self,
        cuts: &Cuts,
        check: Option<&mut Check<'_>>,
        progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<Outcome, CrashError> {
        self.run_all(cuts, check, progress, |_| true)
    }

    /// As [`Crash::run`], with somebody who looks at each cut, in order, and ends the run by answering false.
    pub(crate) fn run_watched(
        &self,
        cuts: &Cuts,
        progress: impl FnMut(u64, u64) -> bool,
        look: impl FnMut(&CutOf<'_>) -> bool,
    ) -> Result<Outcome, CrashError> {
        self.run_all(cuts, None, progress, look)
    }

    fn run_all(
        &self,
        cuts: &Cuts,
        check: Option<&mut Check<'_>>,
        mut progress: impl FnMut(u64, u64) -> bool,
        mut look: impl FnMut(&CutOf<'_>) -> bool,
    ) -> Result<Outcome, CrashError> {
        assert!(cuts.every > 0, "every operation, or every second one, and so on");
        let operations = self.operations();
        if let Some(asked) = cuts.only.filter(|asked| *asked >= operations) {
            return Err(CrashError::NoCutPoint { asked, operations });
        }
        let is_cut = |at: usize| match cuts.only {
            Some(only) => at as u64 == only,
            None => at as u64 % cuts.every == cuts.first % cuts.every,
        };
        let cut_points: Vec<usize> = (0..self.count()).filter(|at| is_cut(*at)).collect();
        let models = self.models(&cuts.torn)?;
        let total = (cut_points.len() * models.len()) as u64;
        let mut outcomes: Vec<TornOutcome> =
            models.iter().map(|model| TornOutcome::new(model.name)).collect();
        let workers = Workers::new(cuts.workers)?;
        let mut tally = Tally::new(&self.expectations, &self.history);
        let mut checks = check.map(|check| Checks::new(check, &self.history, &self.calls));
        let how = How {
            models: &models,
            is_cut: &is_cut,
            keeps_files: checks.is_some(),
            recoveries: &cuts.recoveries,
        };
        // Files of a batch are in memory together: enough for all workers then, and no more.
        let most = if how.keeps_files {
            let sparse = cuts.every.div_ceil(STRETCH as u64).min(BATCH as u64) as usize;
            BATCH.min(workers.count().saturating_mul(sparse))
        } else {
            BATCH
        };
        let mut done = 0;
        let card = self.card.as_ref().map(CardRun::start);
        let mut medium = Medium { chip: self.before.clone(), card };
        let (mut from, mut goes_on) = (0, true);
        while from < self.count() && goes_on {
            let stretches = self.next_stretches(&mut medium, from, most);
            from = stretches.last().map_or(self.count(), |last| last.operations.end);
            let cut = |stretch: &Stretch| self.cut_stretch(stretch, &how);
            // Results come in the order of the stretches, whichever worker is done first.
            let batch = || workers.map(&stretches, cut);
            let results: Vec<Vec<CutResult>> = match cancellation::catch(batch) {
                Ok(results) => results,
                // The outcome holds what was judged before, and says that it is not all.
                Err(Interrupted) => break,
            };
            let mut results: Vec<CutResult> = results.into_iter().flatten().collect();
            // Each cut point has one result for each model, in their order.
            let place = |number: usize| (cut_points[number / models.len()], number % models.len());
            if let Some(checks) = &mut checks {
                let left = results.iter_mut().filter_map(|result| result.files.take());
                let left = left.enumerate().map(|(number, left)| {
                    let (at, model) = place(done as usize + number);
                    let place: CutPlace = (at as u64, models[model].name, self.operation(at));
                    (place, left)
                });
                if !checks.look_at(&left.collect::<Vec<_>>()) {
                    break;
                }
            }
            for result in results {
                let (at, model) = place(done as usize);
                let outcome = &mut outcomes[model];
                outcome.add(&result);
                goes_on &= look(&CutOf { at, model: models[model], result: &result });
                let operation = self.operation(at);
                tally.add(at as u64, outcome.torn, "", &operation, result.broken);
                for Deeper { then, operation, broken, .. } in result.deeper {
                    tally.add(at as u64, outcome.torn, &spelled(&then), &operation, broken);
                }
                done += 1;
            }
            goes_on &= progress(done, total);
        }
        let is_erase = |operation: &&RawOperation| matches!(operation, RawOperation::Erase { .. });
        let erases = self.journal.iter().filter(is_erase).count() as u64;
        let (refused_lines, interrupted) = (self.refused_lines, done < total);
        let (expectations, check) = (tally.outcomes(), checks.map(Checks::outcome));
        let torn = outcomes;
        Ok(Outcome { operations, erases, refused_lines, torn, expectations, check, interrupted })
    }

    /// The models that are asked for, or all that fit.
    ///
    /// # Errors
    /// [`CrashError::TornModel`] of one that does not fit the medium.
    pub fn models(
        &self,
        asked: &[&'static TornModel],
    ) -> Result<Vec<&'static TornModel>, CrashError> {
        let fitting = if self.card.is_some() { CACHE_MODELS } else { TORN_MODELS };
        if let Some(wrong) = asked.iter().find(|model| !fitting.contains(model)) {
            let known: Vec<&str> = fitting.iter().map(|model| model.name).collect();
            return Err(CrashError::TornModel { name: wrong.name, known: known.join(", ") });
        }
        Ok(if asked.is_empty() { fitting.iter().collect() } else { asked.to_vec() })
    }

    /// Carries an operation out.
    fn apply(&self, medium: &mut Medium, at: usize) {
        match (&self.card, &mut medium.card) {
            (Some(run), Some(state)) => run.apply(state, at),
            // A program or erase that failed does so again: the faults are the chip's.
            _ => drop(medium.chip.apply(&self.journal[at])),
        }
    }

    /// The next stretches, each with a copy of the medium as it is before it. `medium` is as it is before the
    /// first of them, and is taken on to the end of the last.
    ///
    /// A few at a time: a copy shares the blocks that were not written meanwhile, and no others. Copies
    /// for a whole journal would take memory in proportion to it.
    fn next_stretches(&self, medium: &mut Medium, from: usize, most: usize) -> Vec<Stretch> {
        let mut stretches = Vec::with_capacity(most);
        let mut start = from;
        while stretches.len() < most && start < self.count() {
            // A block that is rewritten belongs to one stretch, which knows how it was before.
            let last = self.count().min(start + STRETCH) - 1;
            let end = self.rewrites.around(last).map_or(last + 1, |rewrite| rewrite.end);
            cancellation::check();
            stretches.push(Stretch { medium: medium.clone(), operations: start..end });
            for at in start..end {
                self.apply(medium, at);
            }
            start = end;
        }
        stretches
    }

    fn cut_stretch(
        &self,
        stretch: &Stretch,
        how: &How<'_, impl Fn(usize) -> bool + Sync>,
    ) -> Vec<CutResult> {
        let mut medium = stretch.medium.clone();
        let mut results = Vec::new();
        let mut last_files: Option<FilesLeft> = None;
        let mut last = None;
        let mut whole = None;
        for at in stretch.operations.clone() {
            if self.rewrites.around(at).is_some_and(|rewrite| rewrite.start == at) {
                let chip = medium.chip.clone();
                whole = Some(BeforeRewrite { operation: at, chip, is_kept: None });
            }
            if (how.is_cut)(at) {
                // All models of a cut point work on the same chip, each on a copy.
                for model in how.models {
                    let mut result = self.cut(&medium, at, model, &mut last, how.recoveries);
                    if how.keeps_files {
                        let fault = result.recovered.as_ref().err();
                        let fault = fault.map(|fault| format!("{}: {}", fault.path, fault.found));
                        let left = FilesLeft::of(result.shown.take(), fault, last_files.as_ref());
                        result.files = Some(last_files.insert(left).clone());
                    }
                    result.recovered = result
                        .recovered
                        .or_else(|violation| self.explained(violation, model, whole.as_mut()));
                    results.push(result);
                }
            }
            // The operation itself is carried out after it was torn in the copies.
            self.apply(&mut medium, at);
        }
        results
    }

    /// A violation within the rewrite of a block is the block device's, if the chip with the block as it was
    /// before keeps the guarantee.
    fn explained(
        &self,
        violation: Box<Violation>,
        model: &TornModel,
        whole: Option<&mut BeforeRewrite>,
    ) -> Result<Recovered, Box<Violation>> {
        let at = violation.cut_point as usize;
        // An erase of which nothing was done leaves the block whole: nothing else explains what is wrong.
        let is_whole = |operation: usize| operation == at && model.torn == Torn::Nothing;
        let is_torn = |whole: &&mut BeforeRewrite| {
            let rewrite = self.rewrites.around(at);
            !is_whole(whole.operation)
                && rewrite.is_some_and(|rewrite| rewrite.start == whole.operation)
        };
        let Some(whole) = whole.filter(is_torn) else { return Err(violation) };
        let is_kept = *whole.is_kept.get_or_insert_with(|| {
            let window = self.history.window(whole.operation as u64);
            let history = self.history.clone();
            let trial = Trial { history, window, torn: Torn::Nothing, is_reordered: false };
            self.recover_left(Left::Chip(Box::new(whole.chip.clone())), &trial, false)
                .recovered
                .is_ok()
        });
        if is_kept {
            Ok(Recovered::new(Judgement::Hazard(&ERASED_BLOCK), false))
        } else {
            Err(violation)
        }
    }

    /// Tears one operation in a copy of the chip, and judges what a mount makes of it.
    ///
    /// `last` is the last medium whose recovery came to its end. A torn mark is not there, an erase of a
    /// blank block changes nothing, and of a page whose second half is blank as much is left with all of its
    /// data: such cuts follow each other, and leave the same medium.
    fn cut(
        &self,
        before: &Medium,
        at: usize,
        model: &'static TornModel,
        last: &mut Option<(Chip, Seen)>,
        recoveries: &Recoveries,
    ) -> CutResult {
        let window = self.history.window(at as u64);
        // The line of the last state that may have been reached: the one the user looks for.
        let place = self.history.states()[*window.states.end()].place.clone();
        let trial = Trial::new(&self.history, window, model);
        let left = match (&self.card, &before.card, model.cached) {
            (Some(run), Some(state), Some(cached)) => {
                Left::Card(run.left(state, at, cached, self.setup.seed))
            }
            _ => Left::Chip(Box::new(self.torn_chip(&before.chip, at, model))),
        };
        let looked = match &left {
            Left::Chip(chip) => self.recover_chip(chip, &trial, last, recoveries.is_some()),
            Left::Card(_) => self.recover_left(left.clone(), &trial, recoveries.is_some()),
        };
        let broken = self.broken(at as u64, looked.shown.as_ref());
        let first = Then { cut_point: at as u64, torn: model };
        let (mut mount, mut deeper) = (looked.mount, Vec::new());
        if let (Ok(recovered), Some(mount)) = (&looked.recovered, &mut mount)
            && self.is_judged_further(recovered, mount, &trial)
        {
            let writes = std::mem::take(&mut mount.writes);
            self.cut_recovery(&left, &writes, &trial, recoveries, &[first], &mut deeper);
        }
        let recovered = looked.recovered.map_err(|fault| {
            Box::new(Violation::of(fault, first, self.operation(at), &[], &place))
        });
        CutResult { recovered, broken, shown: looked.shown, files: None, mount, deeper }
    }

    /// The chip after the power was cut in the middle of an operation, with the power back.
    pub(crate) fn torn_chip(&self, before: &Chip, at: usize, model: &'static TornModel) -> Chip {
        torn(before, &self.journal[at], model)
    }

    /// Expectations that do not hold for what was found after a cut.
    pub(crate) fn broken(&self, cut: u64, found: Option<&Tree>) -> Vec<BrokenBy> {
        let judged = self.expectations.iter().enumerate();
        let judged = judged.map(|(number, one)| (number, one.judge(cut, found)));
        judged.filter_map(|(number, result)| Some((number, *result.err()?))).collect()
    }

    /// Recovers a chip and judges it, unless it is as the last one was.
    fn recover_chip(
        &self,
        chip: &Chip,
        trial: &Trial,
        last: &mut Option<(Chip, Seen)>,
        is_watched: bool,
    ) -> Looked {
        if let Some((medium, seen)) = &*last
            && medium.is_same_medium(chip)
        {
            let shown = Some(seen.found.clone());
            let recovered = without_defect(|| judge_again(seen, trial)).flatten();
            // Cuts within this recovery were made when it was.
            return Looked { recovered, seen: None, shown, mount: None };
        }
        let mut looked = self.recover_left(Left::Chip(Box::new(chip.clone())), trial, is_watched);
        *last = looked.seen.take().map(|seen| (chip.clone(), seen));
        looked
    }

    /// Recovers what a cut left, and judges it. A card's chip is a measure only.
    pub(crate) fn recover_left(&self, left: Left, trial: &Trial, is_watched: bool) -> Looked {
        let (chip, contents) = match left {
            Left::Chip(chip) => (*chip, CardContents::default()),
            Left::Card(contents) => (self.before.clone(), contents),
        };
        let recovery = || recover(chip, contents, &self.setup, trial, is_watched);
        without_defect(recovery).unwrap_or_else(|fault| Looked {
            recovered: Err(fault),
            seen: None,
            shown: None,
            mount: None,
        })
    }

    /// What a cut of a card leaves on it; none on a raw chip.
    ///
    /// # Panics
    /// If there is no such operation.
    pub fn card_after(&self, cut: u64, model: &'static TornModel) -> Option<CardContents> {
        let (run, cached) = (self.card.as_ref()?, model.cached?);
        let cut = cut as usize;
        let mut state = run.start();
        for at in 0..cut {
            run.apply(&mut state, at);
        }
        Some(run.left(&state, cut, cached, self.setup.seed))
    }

    /// An operation in words.
    pub(crate) fn operation(&self, at: usize) -> String {
        match &self.card {
            Some(card) => card.journal[at].to_string(),
            None => self.journal[at].to_string(),
        }
    }
}

/// A chip after the power was cut in the middle of this operation, with the power back.
pub(crate) fn torn(before: &Chip, operation: &RawOperation, model: &'static TornModel) -> Chip {
    let mut chip = before.clone();
    chip.set_torn(model.torn);
    // The cut hits the next operation, in its middle; the torn model says what is left.
    chip.cut_power_after(0, CutPoint::Inside);
    let _ = chip.apply(operation);
    chip.power_on();
    chip
}

/// Threads for stretches: one alone is the caller's own.
struct Workers(Option<ThreadPool>);

impl Workers {
    fn new(count: Option<usize>) -> Result<Self, CrashError> {
        if count == Some(1) {
            return Ok(Self(None));
        }
        let pool = ThreadPoolBuilder::new().num_threads(count.unwrap_or(0)).build();
        let pool = pool.map_err(|error| CrashError::Workers { reason: error.to_string() })?;
        Ok(Self(Some(pool)))
    }

    fn count(&self) -> usize {
        self.0.as_ref().map_or(1, ThreadPool::current_num_threads)
    }

    /// Results in the order of the stretches.
    fn map<T: Send>(&self, of: &[Stretch], one: impl Fn(&Stretch) -> T + Sync + Send) -> Vec<T> {
        match &self.0 {
            Some(pool) => pool.install(|| of.par_iter().map(one).collect()),
            None => of.iter().map(one).collect(),
        }
    }
}

/// Recovers; a defect of the engine is a violation of its own and must not end the run.
pub(crate) fn without_defect<T>(recover: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(recover)).map_err(|panic| {
        if cancellation::is_interruption(panic.as_ref()) {
            resume_unwind(panic);
        }
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Fault {
            kind: ViolationKind::Defect,
            path: ".".into(),
            expected: "a recovery".into(),
            found: text.unwrap_or("a defect of the engine").to_owned(),
            hazard: None,
        }
    })
}

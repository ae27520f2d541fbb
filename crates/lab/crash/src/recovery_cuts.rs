//! Cuts while the mount after a cut changes the medium, and while the mount after that does.

use crate::card_cuts::{Cached, CardRun};
use crate::cuts::{Crash, Violation, torn};
use crate::expectation_outcome::BrokenBy;
use crate::first_mount::{FirstMount, Writes};
use crate::history::Window;
use crate::judgement::Judgement;
use crate::recover::{Recovered, Trial};
use crate::recoveries::{Recoveries, Then};
use crate::rewrites::Rewrites;
use mount::CardContents;
use mount::guarantee::ERASED_BLOCK;
use nand::{Chip, RawOperation, Torn};

/// What a cut left of the medium.
#[derive(Clone)]
pub(crate) enum Left {
    Chip(Box<Chip>),
    Card(CardContents),
}

/// A cut within a recovery, judged.
pub(crate) struct Deeper {
    /// The cuts behind that of the script.
    pub(crate) then: Vec<Then>,
    /// The operation that was torn last, in words.
    pub(crate) operation: String,
    pub(crate) recovered: Result<Recovered, Box<Violation>>,
    pub(crate) broken: Vec<BrokenBy>,
    pub(crate) mount: Option<FirstMount>,
}

/// What two cuts left of their operations: a part of a page that one of them left stays behind the other. Whatever a
/// prefix explains is explained by data without spare areas, too, and not the other way round.
fn with_parts_of_both(one: Torn, other: Torn) -> Torn {
    let either = |torn| one == torn || other == torn;
    let most_first = [Torn::DataOnly, Torn::Prefix, Torn::Unreadable];
    most_first.into_iter().find(|torn| either(*torn)).unwrap_or(Torn::Nothing)
}

/// A recovery that is cut: what it began with, what it wrote, and how it was cut before.
struct Recovery<'a> {
    trial: &'a Trial,
    recoveries: &'a Recoveries,
    before: &'a [Then],
}

impl Crash {
    /// True if cuts within a recovery are judged: a lost block makes no difference twice, and nothing is promised
    /// behind a mount that told of a hazard.
    pub(crate) fn is_judged_further(
        &self,
        recovered: &Recovered,
        mount: &FirstMount,
        trial: &Trial,
    ) -> bool {
        let guarantee = self.history().guarantee();
        let is_told = |code: &&str| guarantee.hazard_at_mount(code).is_some();
        // mtdblock keeps the only copy of an erased block in memory (`mtdblock.c`, `erase_write`): whatever stood in
        // it is gone, so that a second cut can break nothing that was still promised.
        recovered.judgement != Judgement::Hazard(&ERASED_BLOCK)
            && !(trial.is_reordered && mount.findings.iter().any(is_told))
    }

    /// Cuts a recovery from what was left, which wrote this. Results of cuts within the recoveries that follow
    /// stand behind that of their cut.
    pub(crate) fn cut_recovery(
        &self,
        left: &Left,
        writes: &Writes,
        trial: &Trial,
        recoveries: &Recoveries,
        before: &[Then],
        deeper: &mut Vec<Deeper>,
    ) {
        let recovery = Recovery { trial, recoveries, before };
        // --torn chooses how the script is cut; a recovery is cut in every way, as nobody chose its operations.
        let models = self.models(&[]).expect("all that fit the medium");
        let chosen = |operations| recoveries.chosen(before, operations, &models);
        match (left, writes) {
            (Left::Chip(chip), Writes::Chip(journal)) => {
                self.cut_chip(&recovery, chip, journal, &chosen(journal.len()), deeper);
            }
            (Left::Card(contents), Writes::Card(journal)) => {
                let run = CardRun { before: contents.clone(), journal: journal.clone() };
                self.cut_card(&recovery, &run, &chosen(journal.len()), deeper);
            }
            _ => unreachable!("a mount writes to the medium that it is on"),
        }
    }

    fn cut_chip(
        &self,
        recovery: &Recovery<'_>,
        chip: &Chip,
        journal: &[RawOperation],
        chosen: &[Then],
        deeper: &mut Vec<Deeper>,
    ) {
        let is_rewritten = self.history().guarantee().hazards.contains(&ERASED_BLOCK);
        let rewrites = if is_rewritten { Rewrites::of(journal) } else { Rewrites::default() };
        // Behind the last cut nothing is looked at: a recovery may go on for hundreds of operations.
        let last = chosen.last().map_or(0, |then| then.cut_point as usize + 1);
        let (mut medium, mut whole) = (chip.clone(), None);
        for (at, operation) in journal[..last].iter().enumerate() {
            let rewrite = rewrites.around(at);
            if rewrite.is_some_and(|rewrite| rewrite.start == at) {
                whole = Some(medium.clone());
            }
            for then in chosen.iter().filter(|then| then.cut_point == at as u64) {
                let torn = torn(&medium, operation, then.torn);
                // An erase of which nothing was done leaves its block whole.
                let is_whole = rewrite.is_none_or(|rewrite| rewrite.start == at)
                    && then.torn.torn == Torn::Nothing;
                let before_rewrite = whole.as_ref().filter(|_| rewrite.is_some() && !is_whole);
                let words = operation.to_string();
                self.cut_again(
                    recovery,
                    &Left::Chip(Box::new(torn)),
                    *then,
                    words,
                    before_rewrite,
                    deeper,
                );
            }
            // A program or erase that failed does so again: the faults are the chip's.
            let _ = medium.apply(operation);
        }
    }

    fn cut_card(
        &self,
        recovery: &Recovery<'_>,
        run: &CardRun,
        chosen: &[Then],
        deeper: &mut Vec<Deeper>,
    ) {
        let last = chosen.last().map_or(0, |then| then.cut_point as usize + 1);
        // The cache is empty when the power returns: what the first cut kept is on the medium by now.
        let mut state = run.start();
        for at in 0..last {
            for then in chosen.iter().filter(|then| then.cut_point == at as u64) {
                let cached = then.torn.cached.expect("a model of caches");
                let left = Left::Card(run.left(&state, at, cached, self.setup().seed));
                let words = run.journal[at].to_string();
                self.cut_again(recovery, &left, *then, words, None, deeper);
            }
            run.apply(&mut state, at);
        }
    }

    /// Recovers from a cut within a recovery. `before_rewrite` is the chip before a block device erased the block
    /// that it was writing back.
    fn cut_again(
        &self,
        recovery: &Recovery<'_>,
        left: &Left,
        then: Then,
        operation: String,
        before_rewrite: Option<&Chip>,
        deeper: &mut Vec<Deeper>,
    ) {
        let Recovery { trial, recoveries, before } = *recovery;
        let torn = with_parts_of_both(trial.torn, then.torn.torn);
        let is_reordered = trial.is_reordered || then.torn.cached == Some(Cached::Reordered);
        let window = Window { is_recovery_cut: true, ..trial.window.clone() };
        let trial = Trial { window, torn, is_reordered, ..trial.clone() };
        let looked = self.recover_left(left.clone(), &trial, true);
        let (mut mount, broken) =
            (looked.mount, self.broken(before[0].cut_point, looked.shown.as_ref()));
        let path: Vec<Then> = before.iter().copied().chain([then]).collect();
        let is_explained = || {
            before_rewrite.is_some_and(|chip| {
                let whole = Left::Chip(Box::new(chip.clone()));
                self.recover_left(whole, &trial, false).recovered.is_ok()
            })
        };
        let recovered = match looked.recovered {
            Err(_) if is_explained() => Ok(Recovered::new(Judgement::Hazard(&ERASED_BLOCK), false)),
            Err(fault) => {
                let place = &self.history().states()[*trial.window.states.end()].place;
                let words =
                    format!("{}, then {operation}", self.operation(before[0].cut_point as usize));
                Err(Box::new(Violation::of(fault, before[0], words, &path[1..], place)))
            }
            other => other.map_err(|_| unreachable!("an error was taken above")),
        };
        let goes_on = match (&recovered, &mount) {
            (Ok(recovered), Some(mount)) => self.is_judged_further(recovered, mount, &trial),
            _ => false,
        };
        let writes = mount.as_mut().map(|mount| std::mem::take(&mut mount.writes));
        let then = path[1..].to_vec();
        deeper.push(Deeper { then, operation, recovered, broken, mount });
        if let Some(writes) = writes.filter(|_| goes_on) {
            self.cut_recovery(left, &writes, &trial, recoveries, &path, deeper);
        }
    }
}

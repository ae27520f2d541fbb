//! What a search counts as new: signals, which are short texts.
//!
//! No signal says which lines of code ran. A signal says what happened on the medium around a cut, and what the
//! mount after it counted, found and wrote:
//!
//! | class | holds |
//! |---|---|
//! | `medium` | the operation before the torn one, the torn one, the one after it, and the torn model |
//! | `calls` | the last call that had returned, the call that the cut hits, and the torn operation |
//! | `count` | a counter of the mount after the cut, or of the run without one, and the bits of its value |
//! | `found` | a finding of that mount |
//! | `wrote` | the bits of the number of operations by which that mount changed the medium |
//! | `end` | how the cut was judged: as a state, as a part of a write, as a hazard, or as a violation |
//!
//! Cuts within recoveries have the last four, apart by their depth.

use crate::cuts::{Crash, CutOf};
use crate::first_mount::FirstMount;
use crate::judgement::Judgement;
use crate::recover::Recovered;
use mount::{CardOperation, Counter};
use nand::RawOperation;
use script::Place;
use std::collections::{BTreeMap, BTreeSet};

/// Signals of a run.
pub(crate) type Signals = BTreeSet<String>;

/// How many signals there are of each class.
pub(crate) fn classes(signals: &Signals) -> BTreeMap<String, u64> {
    let mut classes = BTreeMap::new();
    for signal in signals {
        let class = signal.split([' ', '/']).next().unwrap_or(signal);
        *classes.entry(class.to_owned()).or_default() += 1;
    }
    classes
}

/// Adds the signals of a cut. `names` are the first words of the lines of the script.
pub(crate) fn add_signals(crash: &Crash, cut: &CutOf<'_>, names: &[String], signals: &mut Signals) {
    let (before, torn, after) = around(crash, cut.at);
    signals.insert(format!("medium {before}{torn}{after} {}", cut.model.name));
    let calls = crash.history().calls_around(cut.at as u64);
    let name =
        |place: Option<&Place>| place.and_then(|place| names.get(place.line.checked_sub(1)?));
    let name = |place: Option<&Place>| name(place).map_or("-", String::as_str);
    let (returned, next) = (name(calls.returned.as_ref()), name(calls.next.as_ref()));
    signals.insert(format!("calls {returned} {next} {torn}"));
    let result = cut.result;
    add_end(0, &result.recovered, signals);
    add_mount(0, result.mount.as_ref(), signals);
    for one in &result.deeper {
        let depth = one.then.len();
        add_end(depth, &one.recovered, signals);
        add_mount(depth, one.mount.as_ref(), signals);
    }
}

/// Adds what the run without a cut counted.
pub(crate) fn add_counters(counters: &[Counter], signals: &mut Signals) {
    add_counted("run", counters, signals);
}

fn add_counted(when: &str, counters: &[Counter], signals: &mut Signals) {
    let counted = counters.iter().filter(|counter| counter.value > 0);
    signals.extend(
        counted.map(|Counter { name, value, .. }| format!("count/{when} {name} {}", bits(*value))),
    );
}

fn bits(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

fn add_mount(depth: usize, mount: Option<&FirstMount>, signals: &mut Signals) {
    let Some(mount) = mount else { return };
    add_counted(&format!("mount{depth}"), &mount.counters, signals);
    add_counted(&format!("write{depth}"), &mount.counters_after_write, signals);
    signals.extend(mount.findings.iter().map(|code| format!("found/{depth} {code}")));
    signals.insert(format!("wrote/{depth} {}", bits(mount.operations as u64)));
}

fn add_end<E: AsRef<crate::cuts::Violation>>(
    depth: usize,
    end: &Result<Recovered, E>,
    signals: &mut Signals,
) {
    match end {
        Ok(Recovered { judgement, is_full, hazards, .. }) => {
            let judged = match judgement {
                Judgement::State => "state",
                Judgement::PartOfWrite => "part-of-write",
                Judgement::Hazard(hazard) => hazard.name,
            };
            signals.insert(format!("end/{depth} {judged} {is_full}"));
            signals.extend(hazards.iter().map(|hazard| format!("end/{depth} {hazard}")));
        }
        Err(violation) => {
            signals.insert(format!("end/{depth} {:?}", violation.as_ref().kind));
        }
    }
}

/// Letters for the operation before the torn one, for that one, and for the one after it.
fn around(crash: &Crash, at: usize) -> (char, char, char) {
    let letter = |at: Option<usize>| {
        let at = at.filter(|at| *at < crash.operations() as usize);
        at.map_or('-', |at| match crash.card_journal() {
            Some(journal) => card_letter(&journal[..=at]),
            None => chip_letter(&journal_up_to(crash, at), crash),
        })
    };
    (letter(at.checked_sub(1)), letter(Some(at)), letter(Some(at + 1)))
}

fn journal_up_to(crash: &Crash, at: usize) -> [Option<&RawOperation>; 2] {
    let journal = crash.journal();
    [at.checked_sub(1).and_then(|before| journal.get(before)), journal.get(at)]
}

/// A program goes on in its block (`p`), begins elsewhere (`P`), begins a block (`f`) or ends it (`l`).
fn chip_letter([before, this]: &[Option<&RawOperation>; 2], crash: &Crash) -> char {
    let block = |operation: Option<&RawOperation>| match operation {
        Some(RawOperation::PageProgram { at, .. }) => Some(at.block),
        _ => None,
    };
    let last = crash.before().geometry().pages_per_block - 1;
    match this {
        Some(RawOperation::PageProgram { at, .. }) if at.page == 0 => 'f',
        Some(RawOperation::PageProgram { at, .. }) if at.page == last => 'l',
        Some(RawOperation::PageProgram { at, .. }) if block(*before) == Some(at.block) => 'p',
        Some(RawOperation::PageProgram { .. }) => 'P',
        Some(RawOperation::SpareProgram { .. }) => 's',
        Some(RawOperation::Erase { .. }) => 'e',
        Some(RawOperation::MarkBad { .. }) => 'b',
        None => '-',
    }
}

/// A write goes on where the one before ended (`w`) or elsewhere (`W`), or writes become durable (`d`).
fn card_letter(journal: &[CardOperation]) -> char {
    match journal {
        [.., CardOperation::Durable { .. }] => 'd',
        [
            ..,
            CardOperation::Write { sector: first, bytes },
            CardOperation::Write { sector, .. },
        ] if first + units::sector_of(bytes.len() as u64) == *sector => 'w',
        _ => 'W',
    }
}

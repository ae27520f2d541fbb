//! A script on a file system, over and over, until the pace of wear is known: how long the flash lasts.
//!
//! The file system stays mounted. The script runs again and again on what the pass before it left; a call
//! that makes what is there already is passed over. Wear is followed and extrapolated as for translation
//! layers ([`crate::life`]), with windows of passes. UBI sees the wear that is left out: its counters in memory
//! follow at once, and the header of a block from its next erase on, before anything reads it. JFFS2 and YAFFS2
//! keep no erase counts; what they do with data that lies still is [`StillData`].
//!
//! Two kinds of life stay without an end. YAFFS2 with a refresh of old blocks moves still data so seldom that
//! windows do not show it. And a script may be so small that [`Accelerator::gives_up`]. Then there are two
//! bounds: the least that the most worn block allows, and the estimate for even wear.

use super::boot::Boot;
use super::contract::{Context, RawNandRun};
use super::lifecycle::{Stop, play};
use super::lifecycle_metrics::full;
use crate::StudyError;
use crate::life::{Accelerator, Levelling, Next, Simulated, reached};
use crate::metric::{Metric, TestRow};
use mount::{Machine, SharedMount, StillData};
use script::Script;
use std::cell::Cell;
use std::rc::Rc;
use vfs::{CallKind, Vfs};

/// Passes of the script that are simulated where no end can be extrapolated.
const PASSES_MAX: u32 = 64;
/// Passes that are simulated at most; what has no end by then has a bound.
/// One of the shipped data logger takes up to a tenth of a second: two file systems stay below a minute.
const ALL_PASSES_MAX: u32 = 192;

/// How far the work wore the flash.
struct Worn {
    host_bytes: u64,
    simulated_bytes: u64,
    elapsed_ns: u64,
    passes: u32,
    erases: u64,
    hottest: u32,
    first_bytes: Option<u64>,
    one_percent_bytes: Option<u64>,
}

/// Wears the flash by the script.
///
/// # Errors
/// [`StudyError::Study`] with the error of a call or of the mount. A full file system is a result.
pub(super) fn run_life(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    if plan.script.is_empty() {
        return Err(plan.failed("a life needs a script; IOzone has no passes"));
    }
    let (value, _) =
        plan.on_machine(
            context,
            |machine, own, seed| async move { wear(&machine, &own, seed).await },
        )?;
    match value {
        Ok(worn) => Ok(vec![TestRow::new("life", metrics(plan, &worn))]),
        Err(Stop::Full) => Ok(vec![full("life")]),
        Err(Stop::Failed(reason)) => Err(plan.failed(reason)),
    }
}

/// Cycles of each block.
fn cycles_of(machine: &Machine) -> Vec<u32> {
    machine.mtd.with_chip(|chip| {
        (0..chip.geometry().blocks).map(|block| chip.erase_cycles(block)).collect()
    })
}

async fn wear(machine: &Machine, plan: &RawNandRun, seed: u64) -> Result<Worn, Stop> {
    let boot = Boot::of(machine, plan, seed).await;
    let Boot { mounted, .. } = boot.map_err(|error| Stop::Failed(error.to_string()))?;
    let limit = plan.host.part.errors.erase_cycles_max;
    let still_data = mounted.file_system.still_data();
    let worn =
        follow(machine, &mounted.vfs, &plan.script, (still_data, limit), true, ALL_PASSES_MAX)
            .await?;
    mounted.unmount().await?;
    machine.detach_ubi();
    Ok(worn)
}

/// Carries the script out again and again until 1 % of the blocks have had `limit` cycles.
///
/// # Errors
/// The first pass finds no space; a call fails.
async fn follow(
    machine: &Machine,
    vfs: &Rc<Vfs<SharedMount>>,
    script: &Script,
    (still_data, limit): (StillData, u32),
    has_gaps: bool,
    passes_max: u32,
) -> Result<Worn, Stop> {
    let written = Rc::new(Cell::new(0_u64));
    let counted = written.clone();
    vfs.watch_calls(Some(Rc::new(move |call: vfs::Call| {
        if call.kind == CallKind::Write {
            counted.set(counted.get() + call.bytes);
        }
    })));
    let start = cycles_of(machine);
    let wears: Vec<bool> =
        machine.mtd.with_chip(|chip| (0..start.len() as u32).map(|at| !chip.is_bad(at)).collect());
    // The kernel's threshold, which `AttachOptions` has as well.
    let levelling = match (machine.attached_ubi(), still_data) {
        (Some(ubi), _) => Levelling::Threshold(ubi.wear_threshold()),
        (None, StillData::MovesByChance { one_of }) => Levelling::ByChance(one_of),
        (None, _) => Levelling::None,
    };
    // Windows do not show how still data moves, and a gap would leave it out.
    let is_bound = has_gaps && still_data == StillData::MovesSeldom;
    let passes_max = if is_bound { PASSES_MAX } else { passes_max };
    let has_gaps = has_gaps && !is_bound;
    let mut life = Accelerator::new(limit, None, &start, wears, has_gaps).of_passes(levelling);
    let (mut passes, mut left_out) = (0, vec![0_u32; start.len()]);
    let begin_ns = machine.sim.now();
    loop {
        match play(machine, script, vfs, passes > 0).await {
            // A log that grows fills the flash in some pass: the passes before are a bound.
            Err(Stop::Full) if passes > 0 => break,
            played => played?,
        }
        passes += 1;
        if passes == 1 {
            // What the first pass dirtied is written before it counts.
            vfs.sync().await?;
        }
        let next = life.after_work(&cycles_of(machine), written.get());
        if let Next::Age(erases) = &next {
            machine.mtd.with_chip(|chip| {
                for (block, more) in (0..).zip(erases) {
                    chip.add_erase_cycles(block, *more);
                }
            });
            // JFFS2 and YAFFS2 on the bare device keep no erase counts that a gap could make wrong.
            if let Some(ubi) = machine.attached_ubi() {
                ubi.age(erases);
            }
            left_out.iter_mut().zip(erases).for_each(|(sum, more)| *sum += more);
        }
        let is_over = life.gives_up() || passes >= passes_max;
        if next == Next::Done || is_over || written.get() == 0 {
            break;
        }
    }
    let elapsed_ns = machine.sim.now() - begin_ns;
    vfs.watch_calls(None);
    let worn = cycles_of(machine);
    let erased: Vec<u32> =
        worn.iter().zip(&start).zip(&left_out).map(|((now, then), out)| now - then - out).collect();
    Ok(Worn {
        host_bytes: life.host_bytes(written.get()),
        simulated_bytes: written.get(),
        elapsed_ns,
        passes,
        erases: erased.iter().copied().map(u64::from).sum(),
        hottest: erased.iter().copied().max().unwrap_or(0),
        first_bytes: reached(life.curve(), limit, |point| point.first),
        one_percent_bytes: reached(life.curve(), limit, |point| point.one_percent),
    })
}

fn metrics(plan: &RawNandRun, worn: &Worn) -> Vec<Metric> {
    let limit = plan.host.part.errors.erase_cycles_max;
    let simulated = Simulated {
        host_bytes: worn.host_bytes,
        played_bytes: worn.simulated_bytes,
        hottest: worn.hottest,
    };
    let bound = simulated.at_least(limit);
    let first = worn.first_bytes.unwrap_or(bound);
    let one_percent = worn.one_percent_bytes.unwrap_or(bound);
    let days = worn.elapsed_ns as f64 / 86_400e9;
    vec![
        Metric::count("is_full", 0, "yes or no"),
        Metric::count("life_first_block_host_bytes", first, "bytes"),
        Metric::count("life_one_percent_host_bytes", one_percent, "bytes"),
        Metric::count("life_is_bound", u64::from(worn.first_bytes.is_none()), "yes or no"),
        // The first block may reach its limit in the passes that are simulated, and 1 % of them not.
        Metric::count(
            "life_one_percent_is_bound",
            u64::from(worn.one_percent_bytes.is_none()),
            "yes or no",
        ),
        Metric::count("life_passes", u64::from(worn.passes), "passes"),
        Metric::count("life_simulated_host_bytes", worn.simulated_bytes, "bytes"),
        Metric::count("life_simulated_erases", worn.erases, "erases"),
        Metric::count("life_hottest_erases", worn.hottest.into(), "erases"),
        Metric::count("life_erase_cycles_max", limit.into(), "erases"),
        Metric::number(
            "life_bytes_per_day",
            worn.simulated_bytes as f64 / days.max(1e-12),
            "bytes/day",
        ),
    ]
}

#[cfg(test)]
mod tests;

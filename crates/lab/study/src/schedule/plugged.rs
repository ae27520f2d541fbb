//! The same through the whole block layer, with plugs.

use super::table::{Row, RowEvent, shown_us};
use super::{Resolved, wrong};
use crate::StudyError;
use block::{BioTimes, Plug, Plugging, PoolRules, QueueOptions, RequestQueue};
use sched::{Elevator, ElevatorOptions};
use sim::Simulation;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

/// As many requests as there are rows may be queued: a limit would make arrivals wait.
const NR_REQUESTS: u32 = 1 << 30;

/// Rows of one process that come one after the other at one time share a plug.
pub(super) fn schedule_plugged(resolved: Resolved, rows: &[Row]) -> Result<String, StudyError> {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let options = ElevatorOptions { nr_requests: NR_REQUESTS, ..resolved.elevator };
    let elevator = Elevator::new(resolved.entry, &resolved.settings, options);
    let queue_options = QueueOptions {
        plugging: resolved.plugging,
        pool: PoolRules::PerSync,
        max_sectors: options.max_sectors,
        queue_depth: resolved.queue_depth,
        cores: 1,
    };
    let queue = RequestQueue::new(&sim, elevator, resolved.device, queue_options);
    let completed: Rc<RefCell<Vec<(usize, BioTimes)>>> = Rc::default();
    let failure = Rc::new(RefCell::new(None));
    let (rows, task_completed, task_failure) = (rows.to_vec(), completed.clone(), failure.clone());
    sim.clone().spawn(async move {
        let plug = Plug::new();
        for (id, row) in rows.iter().enumerate() {
            sim.sleep_until(row.time_ns).await;
            let bio = match row.event {
                RowEvent::Submit(bio) => bio,
                RowEvent::Exit(pid) => {
                    queue.exit(pid);
                    continue;
                }
            };
            let handle = queue.submit(bio, Some(&plug)).await;
            let (completed, failure) = (task_completed.clone(), task_failure.clone());
            // A task for each request, so that rows arrive at their times.
            sim.spawn(async move {
                match handle.wait().await {
                    Ok(times) => completed.borrow_mut().push((id, times)),
                    Err(error) => drop(failure.borrow_mut().get_or_insert(error)),
                }
            });
            let goes_on = rows.get(id + 1).is_some_and(|next| {
                next.time_ns == row.time_ns
                    && matches!(next.event, RowEvent::Submit(other) if other.pid == bio.pid)
            });
            // The plug ends with the last row of a batch, as `blk_finish_plug` ends one.
            if resolved.plugging == Plugging::Task && !goes_on {
                queue.unplug(&plug);
            }
        }
    });
    simulation.run();
    if let Some(error) = failure.borrow_mut().take() {
        return wrong("device", error.to_string());
    }
    let mut completed = completed.borrow_mut();
    // In the order of dispatch; bios of one request in that of sectors.
    completed.sort_by_key(|(id, times)| (times.issue_ns, times.complete_ns, times.bio.sector, *id));
    let mut printed = String::from("id,dispatch_us,complete_us\n");
    for (id, times) in completed.iter() {
        let (dispatch, complete) = (shown_us(times.issue_ns), shown_us(times.complete_ns));
        let _ = writeln!(printed, "{id},{dispatch},{complete}");
    }
    Ok(printed)
}

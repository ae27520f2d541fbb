//! A recorded sequence of events: which request would be chosen at every dispatch call.

use super::table::{Line, Table};
use super::{ScheduleOptions, wrong};
use crate::StudyError;
use sched::{Elevator, RequestId};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Columns of a recording. `id` is the recorder's name of the request; at a dispatch call it is the
/// request that was chosen, empty if there was none.
const COLUMNS: [&str; 8] = ["time_us", "event", "id", "pid", "op", "sync", "sector", "sectors"];

const EVENTS: [&str; 5] = ["complete", "dispatch", "exit", "insert", "merge"];

/// Replays a recording and answers with a table `line,time_us,id,recorded` of dispatch calls.
///
/// `insert` brings a request, `merge` a bio that became part of request `id`, `dispatch` is a call
/// for work, `complete` the end of request `id`, `exit` that of a process. Timers of the scheduler
/// fire when their time comes, before what is recorded at the same time.
///
/// # Errors
/// A line that is none; a completion of a request that was not chosen here, or a merge that would
/// not have been made here: from there on the two histories are different ones.
pub fn schedule_events(
    shown: &str,
    text: &str,
    options: &ScheduleOptions,
) -> Result<String, StudyError> {
    let resolved = options.resolve()?;
    let elevator = Elevator::new(resolved.entry, &resolved.settings, resolved.elevator);
    let table = Table::open(shown, text, &COLUMNS, &["ioprio"])?;
    let mut recording = Recording {
        elevator,
        by_name: BTreeMap::new(),
        names: BTreeMap::new(),
        printed: String::from("line,time_us,id,recorded\n"),
        first_difference: None,
        device_sectors: resolved.device.sectors(),
        sync_write_noidle: options.sync_write_noidle,
    };
    let mut last_ns = 0;
    for line in table.lines() {
        cancellation::check();
        let line = line?;
        let time_ns = line.time_ns()?;
        if time_ns < last_ns {
            return line
                .wrong("time_us", "is before that of the row above: sort the table by time");
        }
        last_ns = time_ns;
        recording.fire_timers(time_ns);
        recording.event(&line, time_ns)?;
    }
    Ok(recording.printed)
}

struct Recording {
    elevator: Elevator,
    by_name: BTreeMap<String, RequestId>,
    names: BTreeMap<RequestId, String>,
    printed: String,
    first_difference: Option<usize>,
    device_sectors: u64,
    sync_write_noidle: bool,
}

impl Recording {
    fn fire_timers(&mut self, time_ns: u64) {
        while let Some(due_ns) = self.elevator.timer_ns().filter(|due_ns| *due_ns <= time_ns) {
            self.elevator.timer(due_ns);
            // A timer that is due at the same time again would fire for ever.
            if self.elevator.timer_ns() == Some(due_ns) {
                break;
            }
        }
    }

    fn event(&mut self, line: &Line, time_ns: u64) -> Result<(), StudyError> {
        match line.cell("event") {
            "insert" => {
                let bio = line.bio(line.pid()?, self.sync_write_noidle, self.device_sectors)?;
                let name = line.cell("id").to_owned();
                if name.is_empty() || self.by_name.contains_key(&name) {
                    return line.wrong("id", "must be a new name for the request");
                }
                let id = self.elevator.insert(time_ns, bio);
                self.by_name.insert(name.clone(), id);
                self.names.insert(id, name);
            }
            "merge" => self.merge(line, time_ns)?,
            "dispatch" => {
                let chosen = self.elevator.next(time_ns);
                let name = chosen.map_or("", |id| self.names[&id].as_str());
                let recorded = line.cell("id");
                // For the message of the first event that cannot be followed.
                if name != recorded {
                    self.first_difference.get_or_insert(line.number);
                }
                let (number, time) = (line.number, line.cell("time_us"));
                let _ = writeln!(self.printed, "{number},{time},{name},{recorded}");
            }
            "complete" => {
                let id = self.known(line)?;
                if !self.elevator.queue().requests[id].started {
                    return self.differs(line, "is complete, but was not chosen here");
                }
                self.elevator.complete(time_ns, id);
                let name = self.names.remove(&id).unwrap_or_default();
                self.by_name.remove(&name);
            }
            "exit" => {
                let pid = line.pid()?;
                // Requests that the scheduler gave up with the process.
                for id in self.elevator.exit(time_ns, pid) {
                    let name = self.names.remove(&id).unwrap_or_default();
                    self.by_name.remove(&name);
                }
            }
            other => {
                let error = StudyError::unknown("event", other, EVENTS.into_iter());
                return line.wrong("event", &format!("is none: {error}"));
            }
        }
        Ok(())
    }

    fn merge(&mut self, line: &Line, time_ns: u64) -> Result<(), StudyError> {
        let into = self.known(line)?;
        let bio = line.bio(line.pid()?, self.sync_write_noidle, self.device_sectors)?;
        let Some(merged) = self.elevator.try_merge(time_ns, &bio) else {
            return self.differs(line, "would not have taken this bio here");
        };
        // Where two requests became one, the recorder may name either.
        if merged.survivor != into && merged.absorbed != Some(into) {
            let other = self.names[&merged.survivor].clone();
            return self
                .differs(line, &format!("was not the one that took this bio here: {other} was"));
        }
        if let Some(absorbed) = merged.absorbed {
            let name = self.names.remove(&absorbed).unwrap_or_default();
            self.by_name.remove(&name);
        }
        Ok(())
    }

    fn known(&self, line: &Line) -> Result<RequestId, StudyError> {
        match self.by_name.get(line.cell("id")) {
            Some(id) => Ok(*id),
            None => line.wrong("id", "names no request that was inserted and is not complete"),
        }
    }

    fn differs<T>(&self, line: &Line, reason: &str) -> Result<T, StudyError> {
        let since = match self.first_difference {
            Some(number) => format!("; the choices differ since line {number}"),
            None => String::new(),
        };
        let place = format!("line {}", line.number);
        wrong(&place, format!("request {} {reason}{since}", line.cell("id")))
    }
}

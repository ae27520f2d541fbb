//! A recorded sequence of events: which request would be chosen at every dispatch call.

use super::table::{Line, Table};
use super::{ScheduleOptions, wrong};
use crate::StudyError;
use sched::{Bio, Elevator, Joins, RequestId};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Columns of a recording. `id` is the recorder's name of the request; at a dispatch call it is the
/// request that was chosen, empty if there was none.
const COLUMNS: [&str; 8] = ["time_us", "event", "id", "pid", "op", "sync", "sector", "sectors"];

/// Columns that a recording may have: a priority, and what `absorb`, `insert` and `requeue` say besides.
const MORE_COLUMNS: [&str; 5] = ["ioprio", "absorbed", "place", "mergeable", "zone"];

const EVENTS: [&str; 8] =
    ["absorb", "complete", "dispatch", "exit", "insert", "join", "merge", "requeue"];

/// Where a request goes that is in no queue of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    Tail,
}

/// Replays a recording and answers with a table `line,time_us,id,recorded` of dispatch calls.
///
/// `insert` brings a request, which goes to the head of the dispatch list if `place` is `head`. `merge` is a
/// bio that became part of request `id`, `join` a whole request from a plug that became its end. With
/// `absorb` the queued request `absorbed` becomes the end of request `id`, which stays. `dispatch` is a call
/// for work, `requeue` gives request `id` back from the driver to the head or tail of the dispatch list,
/// `complete` is the end of request `id`, `exit` that of a process. Timers of the scheduler fire when their
/// time comes, before what is recorded at the same time.
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
    let table = Table::open(shown, text, &COLUMNS, &MORE_COLUMNS)?;
    let mut recording = Recording {
        elevator,
        by_name: BTreeMap::new(),
        names: BTreeMap::new(),
        printed: String::from("line,time_us,id,recorded\n"),
        first_difference: None,
        scheduler: resolved.entry.name,
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
    scheduler: &'static str,
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
            "insert" => self.insert(line, time_ns)?,
            "merge" => self.merge(line, time_ns)?,
            "join" => self.join(line, time_ns)?,
            "absorb" => self.absorb(line, time_ns)?,
            "requeue" => self.requeue(line, time_ns)?,
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
                let id = self.known(line, "id")?;
                if !self.elevator.queue().requests[id].started {
                    return self.differs(line, "is complete, but was not chosen here");
                }
                self.elevator.complete(time_ns, id);
                self.forget(id);
            }
            "exit" => {
                let pid = line.pid()?;
                // Requests that the scheduler gave up with the process.
                for id in self.elevator.exit(time_ns, pid) {
                    self.forget(id);
                }
            }
            other => {
                let error = StudyError::unknown("event", other, EVENTS.into_iter());
                return line.wrong("event", &format!("is none: {error}"));
            }
        }
        Ok(())
    }

    fn bio(&self, line: &Line) -> Result<(Bio, Joins), StudyError> {
        let discards = line.cell("op") == "D";
        let bio = line.bio_or_discard(line.pid()?, self.sync_write_noidle, self.device_sectors)?;
        let joins = match line.cell("mergeable") {
            "" | "1" if discards => Joins::Discards,
            "" | "1" => Joins::Data,
            "0" => Joins::Nothing,
            _ => return line.wrong("mergeable", "must be 0, or 1 or empty"),
        };
        Ok((bio, joins))
    }

    fn insert(&mut self, line: &Line, time_ns: u64) -> Result<(), StudyError> {
        let (bio, joins) = self.bio(line)?;
        let name = line.cell("id").to_owned();
        if name.is_empty() || self.by_name.contains_key(&name) {
            return line.wrong("id", "must be a new name for the request");
        }
        let id = match place(line)? {
            Some(Place::Head) => {
                self.asks_for_dispatch_list(line)?;
                self.elevator.insert_at_head(time_ns, bio)
            }
            Some(Place::Tail) => {
                return line.wrong("place", "must be head or empty: other new requests are queued");
            }
            None => self.elevator.insert_of(time_ns, bio, joins, zone(line)?),
        };
        self.by_name.insert(name.clone(), id);
        self.names.insert(id, name);
        Ok(())
    }

    fn join(&mut self, line: &Line, time_ns: u64) -> Result<(), StudyError> {
        let into = self.known(line, "id")?;
        let (bio, joins) = self.bio(line)?;
        match self.elevator.merge_behind_of(time_ns, &bio, joins) {
            Some(survivor) if survivor == into => Ok(()),
            Some(survivor) => self.was_other(line, survivor),
            None => self.differs(line, "would not have taken this request here"),
        }
    }

    fn absorb(&mut self, line: &Line, time_ns: u64) -> Result<(), StudyError> {
        let (into, absorbed) = (self.known(line, "id")?, self.known(line, "absorbed")?);
        if into == absorbed {
            return line.wrong("absorbed", "is the request that stays: name the one that is gone");
        }
        match self.elevator.join_behind(time_ns, absorbed) {
            Some(survivor) if survivor == into => {
                self.forget(absorbed);
                Ok(())
            }
            Some(survivor) => self.was_other(line, survivor),
            None => {
                let reason = format!("would not have absorbed {} here", line.cell("absorbed"));
                self.differs(line, &reason)
            }
        }
    }

    fn requeue(&mut self, line: &Line, time_ns: u64) -> Result<(), StudyError> {
        let id = self.known(line, "id")?;
        let Some(place) = place(line)? else {
            return line.wrong("place", "must be head or tail: where the request is put");
        };
        self.asks_for_dispatch_list(line)?;
        if !self.elevator.queue().requests[id].started {
            return self.differs(line, "is given back, but was not chosen here");
        }
        self.elevator.requeue(time_ns, id, place == Place::Head);
        Ok(())
    }

    /// Refuses what only some schedulers model.
    fn asks_for_dispatch_list(&self, line: &Line) -> Result<(), StudyError> {
        if self.elevator.scheduler().takes_back() {
            return Ok(());
        }
        let reason = format!(
            "at the dispatch list is not modelled with {}, only with schedulers such as sfq, sfq2 and mq-deadline",
            self.scheduler
        );
        line.wrong("event", &reason)
    }

    fn forget(&mut self, id: RequestId) {
        let name = self.names.remove(&id).unwrap_or_default();
        self.by_name.remove(&name);
    }

    fn merge(&mut self, line: &Line, time_ns: u64) -> Result<(), StudyError> {
        let into = self.known(line, "id")?;
        let (bio, joins) = self.bio(line)?;
        let Some(merged) = self.elevator.try_merge_of(time_ns, &bio, joins) else {
            return self.differs(line, "would not have taken this bio here");
        };
        // Where two requests became one, the recorder may name either.
        if merged.survivor != into && merged.absorbed != Some(into) {
            return self.was_other(line, merged.survivor);
        }
        if let Some(absorbed) = merged.absorbed {
            self.forget(absorbed);
        }
        Ok(())
    }

    fn was_other<T>(&self, line: &Line, survivor: RequestId) -> Result<T, StudyError> {
        let other = &self.names[&survivor];
        self.differs(line, &format!("was not the one that took this part here: {other} was"))
    }

    fn known(&self, line: &Line, column: &str) -> Result<RequestId, StudyError> {
        match self.by_name.get(line.cell(column)) {
            Some(id) => Ok(*id),
            None => line.wrong(column, "names no request that was inserted and is not complete"),
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

/// The zone that a write needs for itself.
fn zone(line: &Line) -> Result<Option<u32>, StudyError> {
    match (line.cell("zone"), line.cell("op")) {
        ("", _) => Ok(None),
        (_, "W") => line.number("zone", "the number of a zone, or empty").map(Some),
        _ => line.wrong("zone", "must be empty: only writes need a zone for themselves"),
    }
}

/// The end of the dispatch list that a line names.
fn place(line: &Line) -> Result<Option<Place>, StudyError> {
    match line.cell("place") {
        "" => Ok(None),
        "head" => Ok(Some(Place::Head)),
        "tail" => Ok(Some(Place::Tail)),
        other => {
            let error = StudyError::unknown("place", other, ["head", "tail"].into_iter());
            line.wrong("place", &format!("is none: {error}"))
        }
    }
}

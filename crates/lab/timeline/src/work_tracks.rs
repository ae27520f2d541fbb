//! Work that tasks report, as a track for each of them: collectors, commits, write-back.

use crate::{Timeline, Track};
use std::io;

/// Tracks of the tasks that work.
#[derive(Debug, Default)]
pub(crate) struct WorkTracks {
    parent: Option<Track>,
    lanes: Vec<Lane>,
}

/// The track of a task, or of several of one name one after the other, as a thread has after each mount.
#[derive(Debug)]
struct Lane {
    name: String,
    track: Option<Track>,
    /// Its task, as long as some work is under way.
    task: u64,
    open: Vec<Open>,
}

/// Work under way.
#[derive(Debug)]
struct Open {
    what: &'static str,
    begin_ns: u64,
    is_written: bool,
}

impl WorkTracks {
    /// A task begins a piece of work.
    pub(crate) fn begin(&mut self, task: u64, name: &str, what: &'static str, begin_ns: u64) {
        let is_own =
            |lane: &&mut Lane| lane.name == name && (lane.open.is_empty() || lane.task == task);
        let open = Open { what, begin_ns, is_written: false };
        if let Some(lane) = self.lanes.iter_mut().find(is_own) {
            lane.task = task;
            lane.open.push(open);
        } else {
            let name = name.to_owned();
            self.lanes.push(Lane { name, track: None, task, open: vec![open] });
        }
    }

    /// A task ends what it began last. What took no time is not shown: a look that found nothing to do.
    pub(crate) fn end(
        &mut self,
        timeline: &mut Timeline,
        task: u64,
        end_ns: u64,
    ) -> io::Result<()> {
        let is_its = |lane: &&mut Lane| lane.task == task && !lane.open.is_empty();
        let Some(lane) = self.lanes.iter_mut().find(is_its) else { return Ok(()) };
        let is_shown =
            lane.open.last().is_some_and(|open| open.is_written || open.begin_ns < end_ns);
        if !is_shown {
            lane.open.pop();
            return Ok(());
        }
        let parent = match self.parent {
            Some(parent) => parent,
            None => *self.parent.insert(timeline.track("work of the file system", None)?),
        };
        let track = match lane.track {
            Some(track) => track,
            None => *lane.track.insert(timeline.track(&lane.name, Some(parent))?),
        };
        // What is around it first: at one moment a viewer takes beginnings in the order of the file.
        for open in lane.open.iter_mut().filter(|open| !open.is_written) {
            timeline.begin(track, open.what, open.begin_ns)?;
            open.is_written = true;
        }
        lane.open.pop();
        timeline.end(track, end_ns)
    }
}

#[cfg(test)]
mod tests {
    use crate::Tracks;
    use crate::decode::{Event, events, path};

    #[test]
    fn work_nests_and_what_takes_no_time_is_left_out() {
        let path = path("work");
        let mut tracks = Tracks::create(&path).expect("a file");
        tracks.work_begins(7, "collector", "pass", 10);
        tracks.work_begins(7, "collector", "look", 10);
        tracks.work_ends(7, 10);
        tracks.work_begins(7, "collector", "erase", 10);
        // Another task of the same name, which works at the same time.
        tracks.work_begins(8, "collector", "pass", 15);
        tracks.work_ends(7, 20);
        tracks.work_ends(8, 25);
        tracks.work_ends(7, 30);
        tracks.finish().expect("written");
        let all = events(&path);
        std::fs::remove_file(&path).expect("a file of this test");
        let begin = |what: &str| Event::Begin(what.to_owned());
        let told = [
            (10, begin("pass")),
            (10, begin("erase")),
            (20, Event::End),
            (15, begin("pass")),
            (25, Event::End),
            (30, Event::End),
        ];
        assert!(all.iter().map(|(at_ns, _, event)| (*at_ns, event.clone())).eq(told), "{all:?}");
        assert!(all.iter().all(|(_, track, _)| track == "collector"));
    }
}

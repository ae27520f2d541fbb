//! The requests, the dies and the processes of a run as tracks of a timeline.

use crate::{Lanes, Timeline, Track};
use block::{BioTimes, Observer};
use device::{Activity, ActivityKind, SECTOR_BYTES};
use sched::Direction;
use std::io;
use std::path::Path;

/// A timeline that is being written. The first error is kept, and ends the writing.
pub struct Tracks {
    timeline: Timeline,
    requests: Lanes,
    dies: Track,
    /// Tracks of the dies, in their order.
    die: Vec<Track>,
    /// The counter of outstanding requests, if someone counts them.
    depth: Option<Track>,
    error: Option<io::Error>,
}

impl Tracks {
    /// A timeline that will be called `path`.
    ///
    /// # Errors
    /// What the system says of a file that cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut timeline = Timeline::create(path)?;
        let requests = Lanes::new(&mut timeline, "request")?;
        let dies = timeline.track("dies", None)?;
        Ok(Self { timeline, requests, dies, die: Vec::new(), depth: None, error: None })
    }

    /// Writes, unless an earlier write has failed.
    fn with(&mut self, write: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = write(self).err();
        }
    }

    /// So many requests are outstanding from now on.
    pub fn outstanding(&mut self, at_ns: u64, requests: u64) {
        self.with(|tracks| {
            let depth = match tracks.depth {
                Some(depth) => depth,
                None => tracks.timeline.counter("requests outstanding", None)?,
            };
            tracks.depth = Some(depth);
            tracks.timeline.count(depth, at_ns, requests)
        });
    }

    /// What the dies did.
    pub fn dies(&mut self, activity: &[Activity]) {
        self.with(|tracks| activity.iter().try_for_each(|one| tracks.die(one)));
    }

    /// What a process waited for: name, begin and end of each call, in the order of their ends.
    pub fn process<'a>(&mut self, name: &str, calls: impl Iterator<Item = (&'a str, u64, u64)>) {
        self.with(|tracks| {
            let mut lanes = Lanes::new(&mut tracks.timeline, name)?;
            for (call, start_ns, end_ns) in calls {
                // A process with several requests under way has as many lanes.
                let lane = lanes.lane(&mut tracks.timeline, start_ns, end_ns)?;
                tracks.timeline.slice(lane, call, start_ns, end_ns)?;
            }
            Ok(())
        });
    }

    fn die(&mut self, activity: &Activity) -> io::Result<()> {
        // Dies are named when they first do something: the device does not say how many it has.
        while self.die.len() <= activity.die as usize {
            let name = format!("die {}", self.die.len());
            self.die.push(self.timeline.track(&name, Some(self.dies))?);
        }
        let kind = match activity.kind {
            ActivityKind::Read => "read",
            ActivityKind::Program => "program",
            ActivityKind::ForegroundCleaning => "cleaning within a write",
            ActivityKind::BackgroundCleaning => "cleaning in idle time",
        };
        let track = self.die[activity.die as usize];
        self.timeline.slice(track, kind, activity.start_ns, activity.end_ns)
    }

    /// A request with its parts, one behind the other: limit of requests, plug, scheduler, device.
    fn request(&mut self, times: &BioTimes) -> io::Result<()> {
        // Requests overlap, and slices of a track must not.
        let lane = self.requests.lane(&mut self.timeline, times.queue_ns, times.complete_ns)?;
        let kind = match times.bio.direction {
            _ if times.bio.sectors == 0 => "flush",
            Direction::Read => "read",
            Direction::Write => "write",
        };
        let (sector, bytes) = (times.bio.sector, u64::from(times.bio.sectors) * SECTOR_BYTES);
        let name = format!("{kind} {bytes} B at sector {sector}");
        self.timeline.begin(lane, &name, times.queue_ns)?;
        let parts = [
            ("limit of requests", times.queue_ns, times.get_ns),
            ("plug", times.get_ns, times.insert_ns),
            ("scheduler", times.insert_ns, times.issue_ns),
            ("device", times.issue_ns, times.complete_ns),
        ];
        for (part, start_ns, end_ns) in parts.into_iter().filter(|(_, start, end)| start < end) {
            self.timeline.slice(lane, part, start_ns, end_ns)?;
        }
        self.timeline.end(lane, times.complete_ns)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The first write that failed, now or before.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.timeline.finish(),
        }
    }
}

impl Observer for Tracks {
    fn completed(&mut self, times: &BioTimes) {
        self.with(|tracks| tracks.request(times));
    }
}

//! The requests, the device, the processes, the lines of a script, the raw chip and the work of threads of a run as
//! tracks of a timeline.

use crate::device_tracks::DeviceTracks;
use crate::work_tracks::WorkTracks;
use crate::{Lanes, Timeline, Track};
use block::{BioTimes, Observer};
use device::{DeviceActivity, SECTOR_BYTES};
use sched::Direction;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// A timeline that is being written. The first error is kept, and ends the writing.
pub struct Tracks {
    timeline: Timeline,
    /// Made when the first of them comes, so that a run without a block device has none.
    requests: Option<Lanes>,
    device: DeviceTracks,
    work: WorkTracks,
    /// The counter of outstanding requests, if someone counts them.
    depth: Option<Track>,
    /// Lines of a script.
    script: Option<Track>,
    /// Lines of its processes that run side by side, by their numbers.
    processes: BTreeMap<u32, Option<Track>>,
    /// The array of a raw chip.
    chip: Option<Track>,
    error: Option<io::Error>,
}

impl Tracks {
    /// A timeline that will be called `path`.
    ///
    /// # Errors
    /// What the system says of a file that cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            timeline: Timeline::create(path)?,
            requests: None,
            device: DeviceTracks::default(),
            work: WorkTracks::default(),
            depth: None,
            script: None,
            processes: BTreeMap::new(),
            chip: None,
            error: None,
        })
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

    /// A machine begins at `at_ns`, after another one: times are those of its clock from now on.
    pub fn machine_begins(&mut self, at_ns: u64) {
        self.with(|tracks| {
            let end_ns = at_ns.saturating_sub(tracks.timeline.offset_ns());
            tracks.device.machine_ends(&mut tracks.timeline, end_ns)
        });
        self.timeline.set_offset(at_ns);
    }

    /// A line of a script was carried out.
    pub fn line(&mut self, text: &str, start_ns: u64, end_ns: u64) {
        self.with(|tracks| {
            let track = named(&mut tracks.timeline, &mut tracks.script, "script")?;
            tracks.timeline.slice(track, text, start_ns, end_ns)
        });
    }

    /// A line of a process of a script was carried out, beside those of other processes.
    pub fn line_of_process(&mut self, process: u32, text: &str, start_ns: u64, end_ns: u64) {
        self.with(|tracks| {
            let own = tracks.processes.entry(process).or_default();
            let name = format!("script, process {process}");
            let track = named(&mut tracks.timeline, own, &name)?;
            tracks.timeline.slice(track, text, start_ns, end_ns)
        });
    }

    /// The array of a raw chip did something.
    pub fn chip(&mut self, what: &str, start_ns: u64, end_ns: u64) {
        self.with(|tracks| {
            let track = named(&mut tracks.timeline, &mut tracks.chip, "chip")?;
            tracks.timeline.slice(track, what, start_ns, end_ns)
        });
    }

    /// What the dies, the channels and the write cache of a device did.
    pub fn device(&mut self, activity: &DeviceActivity) {
        self.with(|tracks| tracks.device.add(&mut tracks.timeline, activity));
    }

    /// A device is gone at `at_ns`, and another one may follow.
    pub(crate) fn device_ends(&mut self, at_ns: u64) {
        self.with(|tracks| tracks.device.machine_ends(&mut tracks.timeline, at_ns));
    }

    /// A task begins a piece of work, which nests in what it began before.
    pub fn work_begins(&mut self, task: u64, name: &str, what: &'static str, at_ns: u64) {
        self.work.begin(task, name, what, at_ns);
    }

    /// A task ends what it began last.
    pub fn work_ends(&mut self, task: u64, at_ns: u64) {
        self.with(|tracks| tracks.work.end(&mut tracks.timeline, task, at_ns));
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

    /// A request with its parts, one behind the other: limit of requests, plug, scheduler, device.
    fn request(&mut self, times: &BioTimes) -> io::Result<()> {
        // Requests overlap, and slices of a track must not.
        let mut requests = match self.requests.take() {
            Some(requests) => requests,
            None => Lanes::new(&mut self.timeline, "request")?,
        };
        let lane = requests.lane(&mut self.timeline, times.queue_ns, times.complete_ns);
        self.requests = Some(requests);
        let lane = lane?;
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
        self.with(|tracks| tracks.device.finish(&mut tracks.timeline));
        match self.error.take() {
            Some(error) => Err(error),
            None => self.timeline.finish(),
        }
    }
}

/// A track of this name, made when it is first asked for.
fn named(timeline: &mut Timeline, track: &mut Option<Track>, name: &str) -> io::Result<Track> {
    match track {
        Some(track) => Ok(*track),
        None => Ok(*track.insert(timeline.track(name, None)?)),
    }
}

impl Observer for Tracks {
    fn completed(&mut self, times: &BioTimes) {
        self.with(|tracks| tracks.request(times));
    }
}

//! What happened when, as a trace that Perfetto opens.
//!
//! A trace has tracks, which may lie below each other, and on them slices (from, to) and counters. Slices of one
//! track must nest; [`Lanes`] spreads those that overlap over several tracks. Events may be written in any order:
//! a viewer sorts them.

#[cfg(test)]
mod decode;
mod device_tracks;
mod machine_tracks;
mod tracks;
mod wire;
mod work_tracks;

pub use machine_tracks::MachineTracks;
pub use tracks::Tracks;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A track of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(u64);

/// A trace that is being written. It takes its name when it is finished; before, it is a file beside it.
#[derive(Debug)]
pub struct Timeline {
    file: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    tracks: u64,
    /// Added to all times: when the machine began whose clock they are of.
    offset_ns: u64,
    is_finished: bool,
    /// The packet and the message in it that are being made: used again for each.
    packet: Vec<u8>,
    message: Vec<u8>,
}

impl Timeline {
    /// A trace that will be called `path`.
    ///
    /// # Errors
    /// What the system says of a file that cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        // Beside the target: a rename between file systems is none.
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = BufWriter::new(File::create(&temporary)?);
        let (packet, message) = (Vec::new(), Vec::new());
        let path = path.to_owned();
        let (tracks, offset_ns, is_finished) = (0, 0, false);
        Ok(Self { file, temporary, path, tracks, offset_ns, is_finished, packet, message })
    }

    /// When the machine began whose clock times are of.
    pub(crate) fn offset_ns(&self) -> u64 {
        self.offset_ns
    }

    /// Times are those of a clock that began at `offset_ns`, from now on: of a machine that started after another.
    pub fn set_offset(&mut self, offset_ns: u64) {
        debug_assert!(offset_ns >= self.offset_ns, "machines start one after the other");
        self.offset_ns = offset_ns;
    }

    /// A new track, below `parent` if one is given.
    ///
    /// # Errors
    /// What the system says of a write that fails, here and in all other calls.
    pub fn track(&mut self, name: &str, parent: Option<Track>) -> io::Result<Track> {
        self.describe(name, parent, false)
    }

    /// A new track of a counter.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn counter(&mut self, name: &str, parent: Option<Track>) -> io::Result<Track> {
        self.describe(name, parent, true)
    }

    fn describe(
        &mut self,
        name: &str,
        parent: Option<Track>,
        is_counter: bool,
    ) -> io::Result<Track> {
        // 0 is a track of its own in Perfetto: the one that all events without a track are on.
        self.tracks += 1;
        let track = Track(self.tracks);
        self.message.clear();
        wire::field(&mut self.message, wire::TRACK_UUID, track.0);
        wire::bytes(&mut self.message, wire::TRACK_NAME, name.as_bytes());
        if let Some(parent) = parent {
            wire::field(&mut self.message, wire::TRACK_PARENT, parent.0);
        }
        if is_counter {
            // An empty description: a counter without a unit.
            wire::bytes(&mut self.message, wire::TRACK_COUNTER, &[]);
        }
        self.send(None, wire::PACKET_TRACK)?;
        Ok(track)
    }

    /// Something that lasted from `start_ns` to `end_ns`.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn slice(
        &mut self,
        track: Track,
        name: &str,
        start_ns: u64,
        end_ns: u64,
    ) -> io::Result<()> {
        self.begin(track, name, start_ns)?;
        self.end(track, end_ns)
    }

    /// Something begins; what begins later on the same track must end earlier.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn begin(&mut self, track: Track, name: &str, at_ns: u64) -> io::Result<()> {
        self.message.clear();
        wire::field(&mut self.message, wire::EVENT_TYPE, wire::SLICE_BEGIN);
        wire::field(&mut self.message, wire::EVENT_TRACK, track.0);
        wire::bytes(&mut self.message, wire::EVENT_NAME, name.as_bytes());
        self.send(Some(at_ns), wire::PACKET_EVENT)
    }

    /// What began last on this track ends.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn end(&mut self, track: Track, at_ns: u64) -> io::Result<()> {
        self.message.clear();
        wire::field(&mut self.message, wire::EVENT_TYPE, wire::SLICE_END);
        wire::field(&mut self.message, wire::EVENT_TRACK, track.0);
        self.send(Some(at_ns), wire::PACKET_EVENT)
    }

    /// Something that takes no time.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn instant(&mut self, track: Track, name: &str, at_ns: u64) -> io::Result<()> {
        self.message.clear();
        wire::field(&mut self.message, wire::EVENT_TYPE, wire::INSTANT);
        wire::field(&mut self.message, wire::EVENT_TRACK, track.0);
        wire::bytes(&mut self.message, wire::EVENT_NAME, name.as_bytes());
        self.send(Some(at_ns), wire::PACKET_EVENT)
    }

    /// The value of a counter from `at_ns` on.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn count(&mut self, counter: Track, at_ns: u64, value: u64) -> io::Result<()> {
        self.message.clear();
        wire::field(&mut self.message, wire::EVENT_TYPE, wire::COUNTER);
        wire::field(&mut self.message, wire::EVENT_TRACK, counter.0);
        wire::field(&mut self.message, wire::EVENT_COUNTER_VALUE, value);
        self.send(Some(at_ns), wire::PACKET_EVENT)
    }

    /// Writes the message as the only one of a packet.
    fn send(&mut self, at_ns: Option<u64>, field: u32) -> io::Result<()> {
        // Messages are written from the inside out, since each begins with its length.
        self.packet.clear();
        if let Some(at_ns) = at_ns {
            wire::field(&mut self.packet, wire::PACKET_TIMESTAMP, self.offset_ns + at_ns);
        }
        // Events of one sequence are taken in order where their times are equal.
        wire::field(&mut self.packet, wire::PACKET_SEQUENCE, 1);
        wire::bytes(&mut self.packet, field, &self.message);
        self.message.clear();
        wire::bytes(&mut self.message, wire::TRACE_PACKET, &self.packet);
        self.file.write_all(&self.message)
    }

    /// Writes what is left and gives the file its name.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn finish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        std::fs::rename(&self.temporary, &self.path)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        if !self.is_finished {
            // Half of a trace is of no use; what cannot be removed stays under a name of its own.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Tracks for slices that overlap: each goes to the first track that is free when it begins.
#[derive(Debug)]
pub struct Lanes {
    name: String,
    parent: Track,
    /// Tracks, and when the last slice of each ends.
    tracks: Vec<(Track, u64)>,
}

impl Lanes {
    /// Lanes below a track of this name.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn new(timeline: &mut Timeline, name: &str) -> io::Result<Self> {
        let parent = timeline.track(name, None)?;
        Ok(Self::below(parent, name))
    }

    /// Lanes of this name below a track that is there.
    pub fn below(parent: Track, name: &str) -> Self {
        Self { name: name.to_owned(), parent, tracks: Vec::new() }
    }

    /// The track for a slice from `start_ns` to `end_ns`.
    ///
    /// Slices come in the order in which they end, as requests complete.
    ///
    /// # Errors
    /// As [`Timeline::track`].
    pub fn lane(
        &mut self,
        timeline: &mut Timeline,
        start_ns: u64,
        end_ns: u64,
    ) -> io::Result<Track> {
        // Over all machines, for each of them has a clock of its own.
        let (start_ns, end_ns) = (timeline.offset_ns + start_ns, timeline.offset_ns + end_ns);
        // The first that is free, so that a quiet trace has few tracks.
        let free = self.tracks.iter_mut().find(|(_, busy_until_ns)| *busy_until_ns <= start_ns);
        if let Some((track, busy_until_ns)) = free {
            *busy_until_ns = end_ns;
            return Ok(*track);
        }
        let name = format!("{} {}", self.name, self.tracks.len());
        let track = timeline.track(&name, Some(self.parent))?;
        self.tracks.push((track, end_ns));
        Ok(track)
    }
}

#[cfg(test)]
mod tests {
    use super::decode::{Field, fields, of, path};
    use super::{Lanes, Timeline};
    use std::collections::BTreeMap;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let path = path("read");
        let mut timeline = Timeline::create(&path).expect("a file");
        let device = timeline.track("device", None).expect("written");
        let die = timeline.track("die 0", Some(device)).expect("written");
        let depth = timeline.counter("queue depth", None).expect("written");
        timeline.slice(die, "program", 1_000, 301_000).expect("written");
        timeline.count(depth, 2_000, 300).expect("written");
        assert!(!path.exists(), "a trace has its name when it is whole");
        timeline.finish().expect("written");
        let packets: Vec<Vec<Field>> = fields(&std::fs::read(&path).expect("a file"))
            .into_iter()
            .map(|(field, _, packet)| {
                assert_eq!(field, 1);
                fields(&packet)
            })
            .collect();
        std::fs::remove_file(&path).expect("a file of this test");
        let tracks: Vec<(String, u64, Option<u64>)> = packets
            .iter()
            .filter_map(|packet| of(packet, 60))
            .map(|(.., track)| {
                let track = fields(track);
                let name = String::from_utf8(of(&track, 2).expect("a name").2.clone());
                (
                    name.expect("text"),
                    of(&track, 1).expect("a number").1,
                    of(&track, 5).map(|f| f.1),
                )
            })
            .collect();
        let names = [("device", 1, None), ("die 0", 2, Some(1)), ("queue depth", 3, None)];
        assert!(tracks.iter().map(|(name, id, parent)| (name.as_str(), *id, *parent)).eq(names));
        let events: Vec<(u64, u64, u64, u64)> = packets
            .iter()
            .filter_map(|packet| Some((of(packet, 8)?.1, fields(&of(packet, 11)?.2))))
            .map(|(at, event)| {
                let value = |field| of(&event, field).map_or(0, |found| found.1);
                (at, value(9), value(11), value(30))
            })
            .collect();
        assert_eq!(events, [(1_000, 1, 2, 0), (301_000, 2, 2, 0), (2_000, 4, 3, 300)]);
    }

    #[test]
    fn a_trace_that_is_not_finished_leaves_no_file() {
        let path = path("half");
        let timeline = Timeline::create(&path).expect("a file");
        let temporary = timeline.temporary.clone();
        assert!(temporary.exists());
        drop(timeline);
        assert!(!temporary.exists() && !path.exists());
    }

    #[test]
    fn slices_of_a_lane_do_not_overlap() {
        let path = path("lanes");
        let mut timeline = Timeline::create(&path).expect("a file");
        let mut lanes = Lanes::new(&mut timeline, "requests").expect("written");
        let slices = [(0, 10), (2, 11), (10, 12), (11, 13), (3, 20), (20, 21)];
        let mut busy: BTreeMap<u64, u64> = BTreeMap::new();
        for (start, end) in slices {
            let lane = lanes.lane(&mut timeline, start, end).expect("written");
            let before = busy.insert(lane.0, end);
            assert!(before.is_none_or(|until| until <= start), "{start} to {end}");
        }
        assert_eq!(busy.len(), 3);
    }
}

//! What a device did as tracks: its dies, its channels, and its write cache with a counter.
//!
//! The device books ahead, so transfers and changes of the cache come out of order. They wait here until nothing that
//! begins earlier can come: a viewer takes ends before beginnings at one moment only if they are written so.

use crate::{Lanes, Timeline, Track};
use device::{Activity, ActivityKind, CacheEvent, ChannelUse, DeviceActivity};
use std::collections::BTreeMap;
use std::io;

/// Tracks of a device. None is made before the device does something that is shown there.
#[derive(Debug, Default)]
pub(crate) struct DeviceTracks {
    dies: Numbered,
    channels: Numbered,
    /// Transfers that were not written, by their beginnings.
    transfers: BTreeMap<(u64, u32), ChannelUse>,
    cache: Option<CacheTracks>,
    /// By how much the sectors in the cache change, by time, as far as it was not written.
    changes: BTreeMap<u64, i64>,
    held_sectors: i64,
}

/// Tracks with a number each below a common one.
#[derive(Debug, Default)]
struct Numbered {
    parent: Option<Track>,
    tracks: Vec<Track>,
}

impl Numbered {
    /// The track of a number; those below it are made too, as the device does not say how many there are.
    fn track(
        &mut self,
        timeline: &mut Timeline,
        names: [&str; 2],
        number: u32,
    ) -> io::Result<Track> {
        while self.tracks.len() <= number as usize {
            let parent = match self.parent {
                Some(parent) => parent,
                None => *self.parent.insert(timeline.track(names[0], None)?),
            };
            let name = format!("{} {}", names[1], self.tracks.len());
            self.tracks.push(timeline.track(&name, Some(parent))?);
        }
        Ok(self.tracks[number as usize])
    }
}

/// Tracks of the write cache.
#[derive(Debug)]
struct CacheTracks {
    /// When sectors come and go.
    events: Track,
    sectors: Track,
    flushes: Lanes,
}

impl CacheTracks {
    fn new(timeline: &mut Timeline) -> io::Result<Self> {
        let events = timeline.track("write cache", None)?;
        let sectors = timeline.counter("sectors in the write cache", Some(events))?;
        Ok(Self { events, sectors, flushes: Lanes::below(events, "flush of the write cache") })
    }
}

impl DeviceTracks {
    /// Adds what a device did since the last call.
    pub(crate) fn add(
        &mut self,
        timeline: &mut Timeline,
        activity: &DeviceActivity,
    ) -> io::Result<()> {
        activity.dies.iter().try_for_each(|interval| self.die(timeline, interval))?;
        let waiting = activity.channels.iter();
        self.transfers.extend(waiting.map(|one| ((one.start_ns, one.channel), *one)));
        activity.cache.iter().try_for_each(|event| self.cache(timeline, event))?;
        self.write_before(timeline, activity.settled_ns)
    }

    /// A machine ends at `end_ns` of its clock: what was booked beyond that does not happen.
    pub(crate) fn machine_ends(&mut self, timeline: &mut Timeline, end_ns: u64) -> io::Result<()> {
        self.write_before(timeline, end_ns)?;
        self.transfers.clear();
        self.changes.clear();
        self.held_sectors = 0;
        match &self.cache {
            Some(cache) => timeline.count(cache.sectors, end_ns, 0),
            None => Ok(()),
        }
    }

    /// Writes all that waits.
    pub(crate) fn finish(&mut self, timeline: &mut Timeline) -> io::Result<()> {
        self.write_before(timeline, u64::MAX)
    }

    /// Writes what begins before `before_ns`, in the order of time.
    fn write_before(&mut self, timeline: &mut Timeline, before_ns: u64) -> io::Result<()> {
        while let Some(first) = self.transfers.first_entry() {
            if first.key().0 >= before_ns {
                break;
            }
            let ChannelUse { channel, die, start_ns, end_ns, kind } = first.remove();
            let track = self.channels.track(timeline, ["channels", "channel"], channel)?;
            timeline.slice(track, &format!("{}, die {die}", name_of(kind)), start_ns, end_ns)?;
        }
        while let Some(first) = self.changes.first_entry() {
            if *first.key() >= before_ns {
                break;
            }
            let (at_ns, change) = first.remove_entry();
            self.held_sectors += change;
            debug_assert!(self.held_sectors >= 0, "sectors come before they go");
            if let Some(cache) = &self.cache {
                timeline.count(cache.sectors, at_ns, self.held_sectors.max(0) as u64)?;
            }
        }
        Ok(())
    }

    fn die(&mut self, timeline: &mut Timeline, activity: &Activity) -> io::Result<()> {
        let track = self.dies.track(timeline, ["dies", "die"], activity.die)?;
        timeline.slice(track, name_of(activity.kind), activity.start_ns, activity.end_ns)
    }

    fn cache(&mut self, timeline: &mut Timeline, event: &CacheEvent) -> io::Result<()> {
        let tracks = match &mut self.cache {
            Some(tracks) => tracks,
            None => self.cache.insert(CacheTracks::new(timeline)?),
        };
        let (name, at_ns, change) = match *event {
            CacheEvent::Enter { at_ns, sectors } => {
                (format!("{sectors} sectors enter"), at_ns, i64::from(sectors))
            }
            CacheEvent::Programmed { at_ns, sectors } => {
                (format!("{sectors} sectors are programmed"), at_ns, -i64::from(sectors))
            }
            CacheEvent::Withdrawn { at_ns, sectors } => {
                (format!("{sectors} sectors are withdrawn"), at_ns, -i64::from(sectors))
            }
            CacheEvent::Flush { start_ns, end_ns, sectors } => {
                let lane = tracks.flushes.lane(timeline, start_ns, end_ns)?;
                let name = format!("flush of {sectors} sectors");
                return timeline.slice(lane, &name, start_ns, end_ns);
            }
            CacheEvent::Lost { at_ns, sectors } => {
                timeline.instant(tracks.events, &format!("{sectors} sectors are lost"), at_ns)?;
                // Up to the moment itself, as what ends then has ended.
                self.write_before(timeline, at_ns + 1)?;
                self.transfers.clear();
                self.changes.clear();
                self.changes.insert(at_ns, -self.held_sectors);
                return Ok(());
            }
        };
        timeline.instant(tracks.events, &name, at_ns)?;
        *self.changes.entry(at_ns).or_default() += change;
        Ok(())
    }
}

fn name_of(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::Read => "read",
        ActivityKind::Program => "program",
        ActivityKind::ForegroundCleaning => "cleaning within a write",
        ActivityKind::BackgroundCleaning => "cleaning in idle time",
    }
}

#[cfg(test)]
mod tests {
    use crate::Tracks;
    use crate::decode::{Event, events, path};
    use device::{ActivityKind, CacheEvent, ChannelUse, DeviceActivity};

    fn transfer(channel: u32, start_ns: u64, end_ns: u64) -> ChannelUse {
        ChannelUse { channel, die: channel, start_ns, end_ns, kind: ActivityKind::Read }
    }

    /// Begins and ends on tracks of this name, in the order of the file.
    fn moments(all: &[(u64, String, Event)], track: &str) -> Vec<(u64, bool)> {
        let of_it = all.iter().filter(|(_, name, _)| name == track);
        of_it.map(|(at_ns, _, event)| (*at_ns, matches!(event, Event::Begin(_)))).collect()
    }

    fn counts(all: &[(u64, String, Event)]) -> Vec<(u64, u64)> {
        let count = |(at_ns, _, event): &(u64, String, Event)| match event {
            Event::Count(value) => Some((*at_ns, *value)),
            _ => None,
        };
        all.iter().filter_map(count).collect()
    }

    #[test]
    fn transfers_are_written_in_the_order_of_time() {
        let path = path("transfers");
        let mut tracks = Tracks::create(&path).expect("a file");
        // Booked ahead, and a later booking takes the gap before.
        let ahead = vec![transfer(0, 30, 40), transfer(1, 30, 35), transfer(0, 10, 20)];
        for channels in [ahead, vec![transfer(0, 20, 30)]] {
            let settled_ns = 15;
            tracks.device(&DeviceActivity { channels, settled_ns, ..DeviceActivity::default() });
        }
        tracks.finish().expect("written");
        let all = events(&path);
        std::fs::remove_file(&path).expect("a file of this test");
        let zero = [(10, true), (20, false), (20, true), (30, false), (30, true), (40, false)];
        assert_eq!(moments(&all, "channel 0"), zero);
        assert_eq!(moments(&all, "channel 1"), [(30, true), (35, false)]);
    }

    #[test]
    fn the_counter_adds_up_over_machines_and_power_cuts() {
        let path = path("counter");
        let mut tracks = Tracks::create(&path).expect("a file");
        let cache = vec![
            CacheEvent::Enter { at_ns: 10, sectors: 8 },
            CacheEvent::Programmed { at_ns: 90, sectors: 8 },
            CacheEvent::Enter { at_ns: 20, sectors: 4 },
            CacheEvent::Withdrawn { at_ns: 25, sectors: 4 },
            CacheEvent::Flush { start_ns: 30, end_ns: 90, sectors: 8 },
        ];
        tracks.device(&DeviceActivity { cache, settled_ns: 50, ..DeviceActivity::default() });
        let cache = vec![CacheEvent::Lost { at_ns: 60, sectors: 8 }];
        tracks.device(&DeviceActivity { cache, settled_ns: 60, ..DeviceActivity::default() });
        // After the cut, and what the machine does not live to see.
        let cache = vec![
            CacheEvent::Enter { at_ns: 70, sectors: 2 },
            CacheEvent::Programmed { at_ns: 200, sectors: 2 },
        ];
        tracks.device(&DeviceActivity { cache, settled_ns: 65, ..DeviceActivity::default() });
        tracks.machine_begins(100);
        let cache = vec![CacheEvent::Enter { at_ns: 5, sectors: 1 }];
        tracks.device(&DeviceActivity { cache, settled_ns: 0, ..DeviceActivity::default() });
        tracks.finish().expect("written");
        let all = events(&path);
        std::fs::remove_file(&path).expect("a file of this test");
        let told = [(10, 8), (20, 12), (25, 8), (60, 0), (70, 2), (100, 0), (105, 1)];
        assert_eq!(counts(&all), told);
        assert_eq!(moments(&all, "flush of the write cache 0"), [(30, true), (90, false)]);
        let lost = Event::Instant("8 sectors are lost".to_owned());
        assert!(all.contains(&(60, "write cache".to_owned(), lost)));
    }

    #[test]
    #[should_panic(expected = "sectors come before they go")]
    fn sectors_that_go_before_they_come_are_seen() {
        let mut tracks = Tracks::create(&path("unheard")).expect("a file");
        let cache = vec![CacheEvent::Programmed { at_ns: 10, sectors: 8 }];
        tracks.device(&DeviceActivity { cache, settled_ns: 20, ..DeviceActivity::default() });
    }
}

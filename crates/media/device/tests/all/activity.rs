//! What a device records: transfers of channels, and what is in its write cache at any moment.

use crate::support::{device, keep_busy, small};
use device::{
    ActivityKind, BlockDevice, CacheEvent, ChannelUse, Command, DeviceActivity, FlashDevice,
    Operation, Precondition, StoredDevice,
};
use random::Stream;
use std::collections::BTreeMap;

/// Sectors of a page of the small part with its planes joined.
const PAGE: u32 = 8;
/// A page and its spare area over the channel of that part.
const TRANSFER_NS: u64 = 21_120;

const FOUR_DIES: [(&str, &str); 3] =
    [("flash.channels", "2"), ("flash.dies_per_channel", "2"), ("flash.copy_back", "false")];

/// Devices with a write cache, which execute one command at a time.
const CACHED: &[&[(&str, &str)]] = &[
    &[("cache.bytes", "65536")],
    &[("cache.bytes", "32768"), FOUR_DIES[0], FOUR_DIES[1], FOUR_DIES[2]],
    &[("cache.bytes", "65536"), FOUR_DIES[0], ("cleaning.background", "true")],
    &[("cache.bytes", "65536"), ("host.prefetches", "true"), FOUR_DIES[0], FOUR_DIES[1]],
    &[("cache.bytes", "65536"), ("flash.copy_back", "false"), ("flash.mapping_unit_bytes", "1024")],
    &[
        ("cache.bytes", "65536"),
        ("cleaning.background", "true"),
        ("suspend.per_operation", "4"),
        ("suspend.latency_ns", "20000"),
        ("suspend.resume_ns", "20000"),
        FOUR_DIES[1],
    ],
    &[
        ("cache.bytes", "65536"),
        ("slc.read_ns", "25000"),
        ("slc.program_ns", "200000"),
        ("slc.erase_ns", "2000000"),
        ("slc.blocks_per_die", "4"),
        ("slc.fold_idle_ns", "1000000"),
    ],
];

/// The same devices, and those that execute several commands at once or have no cache.
fn kinds() -> Vec<Vec<(&'static str, &'static str)>> {
    let alone = CACHED.iter().map(|kind| kind.to_vec());
    let together = CACHED.iter().map(|kind| [*kind, &[("host.executes", "8")]].concat());
    let uncached = [vec![], FOUR_DIES.to_vec(), vec![("flash.ftl", "fast"), FOUR_DIES[0]]];
    alone.chain(together).chain(uncached).collect()
}

/// A full device that records.
fn recording(changes: &[(&str, &str)]) -> FlashDevice {
    let mut found = device(&small(changes), 1_200);
    found.precondition(&Precondition::default()).expect("fresh");
    found.record_activity(true);
    found
}

/// Commands drawn at random: writes to few places, some past the cache, reads, discards, flushes.
fn draw(stream: &mut Stream) -> Command {
    let sectors = [1, 3, 8, 16, 40][stream.below(5) as usize];
    let sector = u64::from(stream.below(2_048));
    match stream.below(20) {
        0 | 1 => Command::flush(),
        2 => Command::discard(sector, sectors),
        3..7 => Command::read(sector, sectors),
        7 | 8 => Command { fua: true, ..Command::write(sector, sectors) },
        _ => Command::write(sector, sectors),
    }
}

/// Moments of commands: close together, or after a pause in which the cache drains and dies clean.
fn pause(stream: &mut Stream) -> u64 {
    let most_ns = [1, 100_000, 4_000_000][stream.below(3) as usize];
    u64::from(stream.below(most_ns))
}

/// Sectors in the cache after all that happens by `at_ns`.
fn held(cache: &[CacheEvent], at_ns: u64) -> i64 {
    let changes = cache.iter().filter(|event| event.at_ns() <= at_ns);
    changes
        .map(|event| match *event {
            CacheEvent::Enter { sectors, .. } => i64::from(sectors),
            CacheEvent::Programmed { sectors, .. } | CacheEvent::Withdrawn { sectors, .. } => {
                -i64::from(sectors)
            }
            CacheEvent::Flush { .. } => 0,
            CacheEvent::Lost { .. } => panic!("nothing cuts the power"),
        })
        .sum()
}

/// Adds what was recorded, and checks that nothing comes after it was said to be settled.
fn add(all: &mut DeviceActivity, more: DeviceActivity) {
    let settled_ns = all.settled_ns;
    assert!(more.channels.iter().all(|transfer| transfer.start_ns >= settled_ns), "{settled_ns}");
    assert!(more.cache.iter().all(|event| event.at_ns() >= settled_ns), "{settled_ns}: {more:?}");
    all.dies.extend(more.dies);
    all.channels.extend(more.channels);
    all.cache.extend(more.cache);
    all.settled_ns = more.settled_ns;
}

/// The first two transfers of a channel that overlap.
fn overlap(channels: &[ChannelUse]) -> Option<[ChannelUse; 2]> {
    let mut by_channel: BTreeMap<u32, Vec<ChannelUse>> = BTreeMap::new();
    for transfer in channels {
        by_channel.entry(transfer.channel).or_default().push(*transfer);
    }
    by_channel.values_mut().find_map(|transfers| {
        transfers.sort_by_key(|transfer| transfer.start_ns);
        let pair = transfers.windows(2).find(|pair| pair[0].end_ns > pair[1].start_ns)?;
        Some([pair[0], pair[1]])
    })
}

fn busy_ns(channels: &[ChannelUse], channel: u32) -> u64 {
    let of_it = channels.iter().filter(|transfer| transfer.channel == channel);
    of_it.map(|transfer| transfer.end_ns - transfer.start_ns).sum()
}

#[test]
fn transfers_of_a_channel_never_overlap_and_add_up() {
    for changes in kinds() {
        let mut stream = Stream::new(5, "activity");
        let mut device = recording(&changes);
        let mut all = DeviceActivity::default();
        let mut now_ns = 0;
        for _ in 0..600 {
            now_ns += pause(&mut stream);
            device.submit(now_ns, &draw(&mut stream)).expect("healthy");
            add(&mut all, device.take_activity());
        }
        assert_eq!(overlap(&all.channels), None, "{changes:?}");
        let busy = device.channel_busy_ns();
        for (channel, busy_of_it) in (0..).zip(&busy) {
            assert_eq!(busy_ns(&all.channels, channel), *busy_of_it, "{changes:?}");
        }
        assert!(busy.iter().all(|busy_ns| *busy_ns > 1_000_000), "{changes:?}: {busy:?}");
        // Each die is on its channel, and has it while it works.
        for transfer in &all.channels {
            assert_eq!(transfer.channel, transfer.die % busy.len() as u32);
            assert!(transfer.start_ns < transfer.end_ns);
        }
        let broken = [all.channels[0], ChannelUse { start_ns: 0, ..all.channels[0] }];
        assert!(overlap(&broken).is_some(), "the check sees an overlap");
    }
}

#[test]
fn a_channel_moves_each_page_once() {
    // Without cleaning the pages of the host are all that crosses: known without the record.
    let mut device = device(&small(&FOUR_DIES), 1_200);
    device.record_activity(true);
    let writes = (0..100).map(|page| Command::write(page * u64::from(PAGE), PAGE));
    let (_, end_ns) = keep_busy(&mut device, 0, 2, writes);
    let reads = (0..60).map(|page| Command::read(page * u64::from(PAGE), PAGE));
    keep_busy(&mut device, end_ns, 2, reads);
    let channels = device.take_activity().channels;
    for (kind, pages) in [(ActivityKind::Program, 100), (ActivityKind::Read, 60)] {
        let of_kind: Vec<_> = channels.iter().filter(|one| one.kind == kind).collect();
        assert_eq!(of_kind.len(), pages);
        assert!(of_kind.iter().all(|one| one.end_ns - one.start_ns == TRANSFER_NS));
    }
    assert_eq!(device.channel_busy_ns(), [80 * TRANSFER_NS; 2]);
}

#[test]
fn the_counter_is_what_a_flush_finds() {
    for changes in CACHED {
        let mut stream = Stream::new(9, "activity");
        let mut device = recording(changes);
        let capacity = cache_sectors(changes);
        let (mut now_ns, mut found, mut all) = (0, 0, DeviceActivity::default());
        for _ in 0..1_000 {
            now_ns += pause(&mut stream);
            device.submit(now_ns, &draw(&mut stream)).expect("healthy");
            add(&mut all, device.take_activity());
        }
        for event in &all.cache {
            let now = held(&all.cache, event.at_ns());
            assert!((0..=capacity).contains(&now), "{changes:?}: {now} of {capacity}: {event:?}");
            if let CacheEvent::Flush { start_ns, end_ns, sectors } = *event {
                assert_eq!(
                    held(&all.cache, start_ns),
                    i64::from(sectors),
                    "{changes:?}: {event:?}"
                );
                assert_eq!(held(&all.cache, end_ns), 0, "{changes:?}: {event:?}");
                found += u64::from(sectors);
            }
        }
        assert!(found > 500, "{changes:?}: flushes found {found} sectors");
    }
}

/// Sectors of the cache of a device with these changes.
fn cache_sectors(changes: &[(&str, &str)]) -> i64 {
    small(changes).cache.bytes.cast_signed() / 512
}

#[test]
fn sectors_come_before_they_go_however_many_commands_are_executed() {
    for changes in kinds() {
        let mut stream = Stream::new(11, "activity");
        let mut device = recording(&changes);
        let mut now_ns = 0;
        for _ in 0..600 {
            now_ns += pause(&mut stream);
            device.submit(now_ns, &draw(&mut stream)).expect("healthy");
        }
        let cache = device.take_activity().cache;
        assert_eq!(cache.is_empty(), cache_sectors(&changes) == 0, "{changes:?}");
        for event in &cache {
            assert!(held(&cache, event.at_ns()) >= 0, "{changes:?}: {event:?}");
        }
    }
}

#[test]
fn a_cut_loses_what_the_counter_says() {
    for changes in CACHED {
        let (mut stream, mut lost_in_all) = (Stream::new(13, "activity"), 0);
        for _ in 0..40 {
            let mut device = recording(changes);
            device.store_bytes();
            let (mut now_ns, mut done_ns) = (0, 0);
            for _ in 0..30 {
                now_ns += pause(&mut stream);
                // A flush has taken all out of the cache before it is done.
                let command = draw(&mut stream);
                if command.operation != Operation::Flush {
                    done_ns =
                        device.submit(now_ns, &command).expect("healthy").done_ns.max(done_ns);
                }
            }
            // What is on its way into the cache is lost too, and is in no counter.
            let cut_ns = done_ns.max(now_ns) + u64::from(stream.below(2_000_000));
            // A copy without the cut says what is there: the record of the device that is cut ends with it.
            let mut spared = device.clone();
            // A read: what happens by itself happens until then, and no sector comes or goes.
            spared.submit(cut_ns, &Command::read(8_000, 1)).expect("healthy");
            let counted = held(&spared.take_activity().cache, cut_ns);
            let outage = device.cut_power(cut_ns).expect("it has power");
            assert_eq!(
                outage.lost_cached_sectors.cast_signed(),
                counted,
                "{changes:?} at {cut_ns}"
            );
            lost_in_all += outage.lost_cached_sectors;
            let record = device.take_activity();
            let lost = CacheEvent::Lost { at_ns: cut_ns, sectors: counted as u32 };
            assert_eq!(record.cache.last(), Some(&lost));
            assert!(record.dies.iter().all(|interval| interval.end_ns <= cut_ns));
            assert!(record.channels.iter().all(|transfer| transfer.end_ns <= cut_ns));
            // Nothing that is recorded after the power is back lies before.
            let back_ns = device.restore_power(cut_ns, None).expect("healthy").ready_ns;
            device.submit(back_ns, &Command::write(0, 64)).expect("healthy");
            device.submit(back_ns, &Command::flush()).expect("healthy");
            let transfers = [record.channels, device.take_activity().channels].concat();
            assert_eq!(overlap(&transfers), None, "{changes:?}");
        }
        assert!(lost_in_all > 100, "{changes:?}: {lost_in_all}");
    }
}

#[test]
fn a_flush_worked_out_by_hand() {
    let mut device = device(&small(&[("cache.bytes", "65536")]), 1_024);
    device.record_activity(true);
    let mut now_ns = 0;
    for page in [9, 0] {
        let write = Command::write(page * u64::from(PAGE), PAGE);
        now_ns = device.submit(now_ns, &write).expect("healthy").done_ns;
    }
    let flush = device.submit(now_ns, &Command::flush()).expect("healthy");
    // Each write has an overhead of 10,000 ns and crosses the interface in 20,480 ns. The first begins to be programmed
    // as it comes, in a lower page.
    let first_ns = 30_480 + TRANSFER_NS + 400_000;
    let activity = device.take_activity();
    let mut cache = activity.cache;
    cache.sort_by_key(CacheEvent::at_ns);
    assert_eq!(
        cache,
        [
            CacheEvent::Enter { at_ns: 30_480, sectors: 8 },
            CacheEvent::Enter { at_ns: 60_960, sectors: 8 },
            CacheEvent::Flush { start_ns: 70_960, end_ns: flush.done_ns, sectors: 16 },
            CacheEvent::Programmed { at_ns: first_ns, sectors: 8 },
            CacheEvent::Programmed { at_ns: flush.done_ns, sectors: 8 },
        ]
    );
    let transfer = |start_ns| ChannelUse {
        channel: 0,
        die: 0,
        start_ns,
        end_ns: start_ns + TRANSFER_NS,
        kind: ActivityKind::Program,
    };
    assert_eq!(activity.channels, [transfer(30_480), transfer(first_ns)]);
}

#[test]
fn a_write_past_the_cache_takes_no_sector_along_before_it_has_come() {
    let mut device = device(&small(&[("cache.bytes", "65536"), ("host.executes", "2")]), 1_024);
    device.record_activity(true);
    // The die is busy, so the second page waits in the cache, once it has crossed the interface.
    device.submit(0, &Command::write(9 * u64::from(PAGE), PAGE)).expect("healthy");
    device.submit(0, &Command::write(0, PAGE)).expect("healthy");
    // Begun as the first is done, while the second is on the interface.
    device.submit(1, &Command { fua: true, ..Command::write(0, 1) }).expect("healthy");
    let mut cache = device.take_activity().cache;
    cache.sort_by_key(CacheEvent::at_ns);
    // Two pages of 20,480 ns each, after an overhead of 10,000 ns.
    assert_eq!(
        cache,
        [
            CacheEvent::Enter { at_ns: 30_480, sectors: 8 },
            CacheEvent::Enter { at_ns: 50_960, sectors: 8 },
            CacheEvent::Withdrawn { at_ns: 50_960, sectors: 8 },
        ]
    );
}

#[test]
fn nothing_is_kept_of_a_device_that_does_not_record() {
    let mut device = device(&small(CACHED[1]), 1_200);
    let writes = (0..100).map(|page| Command::write(page * u64::from(PAGE), PAGE));
    let (_, end_ns) = keep_busy(&mut device, 0, 1, writes);
    let nothing =
        DeviceActivity { settled_ns: device.take_activity().settled_ns, ..Default::default() };
    assert_eq!(device.take_activity(), nothing);
    // What is in the cache as the record begins is its first entry.
    device.record_activity(true);
    device.submit(end_ns, &Command::flush()).expect("healthy");
    let cache = device.take_activity().cache;
    let flushed = cache.iter().find_map(|event| match *event {
        CacheEvent::Flush { start_ns, sectors, .. } => Some((start_ns, sectors)),
        _ => None,
    });
    let (start_ns, sectors) = flushed.expect("a flush");
    assert!(sectors > 0);
    assert_eq!(held(&cache, start_ns), i64::from(sectors));
}

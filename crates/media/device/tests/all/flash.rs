//! What holds for every flash device, on small devices and random commands.

use crate::support;

use device::{
    ActivityKind, BlockDevice, Command, DeviceError, DeviceSpec, Fill, FlashDevice, Operation,
    Precondition, build, find_device,
};
use nand::Counters;
use proptest::prelude::*;
use random::Stream;
use support::{device, keep_busy, small, small_part};

/// Sectors of a page of the small part with its planes joined.
const PAGE: u32 = 8;

/// The kinds of device that the random tests go through.
const KINDS: &[&[(&str, &str)]] = &[
    &[],
    &[("flash.copy_back", "false")],
    &[("flash.channels", "2"), ("flash.dies_per_channel", "2"), ("host.executes", "8")],
    &[("cache.bytes", "65536")],
    &[
        ("flash.channels", "2"),
        ("flash.dies_per_channel", "2"),
        ("host.executes", "4"),
        ("cache.bytes", "32768"),
        ("cleaning.background", "true"),
        ("flash.copy_back", "false"),
    ],
    &[("cleaning.background", "true"), ("cleaning.suspend", "block"), ("cache.bytes", "16384")],
    &[("flash.ftl", "fast")],
    &[("flash.ftl", "dftl"), ("cleaning.background", "true")],
    &[("cleaning.takes_time", "false"), ("cleaning.background", "true")],
];

/// A device of a kind; dies have an eighth more blocks than they need, and some.
fn device_of(kind: usize) -> FlashDevice {
    let spec = small(KINDS[kind]);
    let dies = spec.flash.as_ref().expect("flash").dies();
    device(&spec, 2 * (256 / dies + 32))
}

fn command(sectors: u64) -> impl Strategy<Value = Command> {
    let operation = prop_oneof![
        4 => Just(Operation::Read),
        8 => Just(Operation::Write),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Discard),
    ];
    (operation, 0..sectors, 1_u32..200, any::<bool>()).prop_map(
        move |(operation, sector, length, fua)| {
            let length = u64::from(length).min(sectors - sector) as u32;
            Command {
                operation,
                sector,
                sectors: length,
                fua: fua && operation == Operation::Write,
            }
        },
    )
}

/// Pauses and commands: one after the other, or close together.
fn life() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let pause = prop_oneof![Just(0), 0_u64..100_000, 0_u64..30_000_000];
    // A quarter of the device, so that pages are overwritten and the dies clean.
    prop::collection::vec((pause, command(4096)), 1..160)
}

/// Chip time of all layers.
fn chip_busy_ns(device: &FlashDevice) -> u64 {
    device.layers().map(|layer| layer.flash().chip().busy_ns().iter().sum::<u64>()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Completions obey the interface and the order; time and counts add up; a clone and a second
    /// device say the same to the nanosecond.
    #[test]
    fn a_life(kind in 0..KINDS.len(), commands in life(), fork in 0_usize..160) {
        let mut device = device_of(kind);
        // Full, so that cleaning is never far.
        device.precondition(&Precondition { until_all_clean: true, ..Precondition::default() }).expect("fresh");
        let mut twin = device_of(kind);
        twin.precondition(&Precondition { until_all_clean: true, ..Precondition::default() }).expect("fresh");
        device.record_activity(true);
        twin.record_activity(true);
        let spec = small(KINDS[kind]);
        let (mut now_ns, mut before, mut clone) = (0, (0, 0), None);
        let (mut written, mut read) = (0, 0);
        for (number, (pause_ns, command)) in commands.iter().enumerate() {
            now_ns += pause_ns;
            if number == fork {
                clone = Some(device.clone_box());
            }
            let completion = device.submit(now_ns, command).expect("healthy");
            prop_assert_eq!(Ok(completion), twin.submit(now_ns, command));
            if let Some(clone) = &mut clone {
                prop_assert_eq!(Ok(completion), clone.submit(now_ns, command));
            }
            let transfer_ns = command.transfer_bytes() * 1_000_000_000 / spec.host.bytes_per_second;
            let rounding_ns = 32;
            prop_assert!(completion.start_ns >= now_ns);
            prop_assert!(
                completion.done_ns + rounding_ns
                    >= completion.start_ns + spec.host.command_overhead_ns + transfer_ns
            );
            prop_assert!(completion.cleaning_ns <= completion.done_ns - now_ns);
            prop_assert!(completion.start_ns >= before.0, "commands begin in order");
            if spec.host.executes == 1 {
                prop_assert!(completion.start_ns >= before.1, "one at a time");
            }
            if !spec.cleaning.takes_time {
                prop_assert_eq!(completion.cleaning_ns, 0);
            }
            before = (completion.start_ns, completion.done_ns);
            match command.operation {
                Operation::Write => written += u64::from(command.sectors),
                Operation::Read => read += u64::from(command.sectors),
                Operation::Flush | Operation::Discard => {}
            }
        }
        let statistics = device.statistics();
        prop_assert_eq!(statistics.submitted, commands.len() as u64);
        prop_assert_eq!(statistics.completed, statistics.submitted);
        prop_assert_eq!((statistics.written_sectors, statistics.read_sectors), (written, read));
        prop_assert_eq!(statistics, twin.statistics());
        let mut chips = Counters::default();
        device.layers().for_each(|layer| chips += layer.flash().chip().counters());
        prop_assert_eq!(statistics.chip, chips);
        if spec.cleaning.takes_time {
            let copies_ns = chip_busy_ns(&device) - statistics.die_busy_ns;
            if spec.flash.as_ref().is_some_and(|flash| !flash.copy_back) {
                prop_assert_eq!(copies_ns, 0, "dies are busy as long as their chips");
            } else {
                // What copy-back saves is two transfers a copy; of a copy that is half done on a die, one.
                let copies = chips.page_reads.min(chips.page_programs);
                let dies = device.layers().count() as u64;
                prop_assert!(copies_ns <= 20_640 * (2 * copies + dies));
            }
        } else {
            prop_assert_eq!((statistics.foreground_cleaning_ns, statistics.background_cleaning_ns), (0, 0));
        }
        let activity = device.take_activity();
        prop_assert_eq!(&activity, &twin.take_activity());
        let activity = activity.dies;
        for die in 0..device.layers().count() as u32 {
            let mut last_ns = 0;
            for interval in activity.iter().filter(|interval| interval.die == die) {
                prop_assert!(interval.start_ns >= last_ns, "a die does one thing at a time");
                prop_assert!(interval.end_ns > interval.start_ns);
                last_ns = interval.end_ns;
            }
        }
    }

    /// What a flushed device's layers hold is what the bare layers hold after the same writes.
    #[test]
    fn layers_hold_what_bare_layers_hold(
        commands in prop::collection::vec(command(4096), 1..120)
    ) {
        let mut device = device_of(2);
        let mut bare: Vec<_> = device.layers().map(ftl::Ftl::clone_box).collect();
        let dies = bare.len() as u64;
        for command in &commands {
            device.submit(0, command).expect("healthy");
            let end = command.sector + u64::from(command.sectors);
            let page = u64::from(PAGE);
            let pages = match command.operation {
                Operation::Write => command.sector / page..end.div_ceil(page),
                Operation::Discard => command.sector.div_ceil(page)..end / page,
                Operation::Read | Operation::Flush => 0..0,
            };
            for page in pages {
                let layer = &mut bare[(page % dies) as usize];
                let lpn = (page / dies) as u32;
                match command.operation {
                    Operation::Discard => layer.trim(lpn),
                    _ => layer.write(lpn, None),
                }.expect("healthy");
            }
        }
        for (layer, bare) in device.layers().zip(&bare) {
            prop_assert_eq!(layer.tables(), bare.tables());
            let (ours, theirs) = (layer.flash().chip().counters(), bare.flash().chip().counters());
            prop_assert_eq!((ours.page_programs, ours.erases), (theirs.page_programs, theirs.erases));
        }
    }
}

/// Time to read pages 0.. of a filled device in one command.
fn sequential_read_ns(channels: &str, dies_per_channel: &str, bytes_per_second: &str) -> u64 {
    let spec = small(&[
        ("flash.channels", channels),
        ("flash.dies_per_channel", dies_per_channel),
        ("host.bytes_per_second", bytes_per_second),
        ("host.command_overhead_ns", "0"),
    ]);
    let mut device = device(&spec, 1024);
    device.precondition(&Precondition::default()).expect("fresh");
    device.submit(0, &Command::read(0, 64 * PAGE)).expect("healthy").done_ns
}

#[test]
fn dies_and_channels_speed_reads_up_until_a_bus_limits() {
    // tR 75 us; 4224 bytes at 5 ns take 21.12 us over the channel.
    let (array_ns, transfer_ns, pages) = (75_000, 21_120, 64);
    let fast = "1000000000000";
    let host_ns = 4; // A page over a host interface that hardly counts.
    assert_eq!(sequential_read_ns("1", "1", fast), pages * (array_ns + transfer_ns) + host_ns);
    // Two dies share a channel that is used less than half of the time.
    assert_eq!(
        sequential_read_ns("1", "2", fast),
        pages / 2 * (array_ns + transfer_ns) + transfer_ns + host_ns
    );
    // Eight dies keep it busy: after the first array time it never rests.
    assert_eq!(sequential_read_ns("1", "8", fast), array_ns + pages * transfer_ns + host_ns);
    // Four channels of two dies: each die reads eight pages, and the last four come at once.
    assert_eq!(
        sequential_read_ns("4", "2", fast),
        pages / 8 * (array_ns + transfer_ns) + transfer_ns + 4 * host_ns
    );
    // A host interface of 40 us a page limits all of it.
    let page_ns = 40_960;
    assert_eq!(sequential_read_ns("4", "2", "100000000"), array_ns + transfer_ns + pages * page_ns);
}

#[test]
fn a_part_of_a_page_costs_a_read_and_lower_and_upper_pages_their_own_times() {
    let (overhead_ns, page_ns) = (10_000, 20_480);
    let (read_ns, transfer_ns, lower_ns, upper_ns) = (75_000, 21_120, 400_000, 1_800_000);
    let mut device = device(&small(&[]), 1024);
    let mut now_ns = 0;
    let mut time = |command: &Command| {
        let start_ns = now_ns;
        now_ns = device.submit(now_ns, command).expect("healthy").done_ns;
        now_ns - start_ns
    };
    // Pages 0 to 3 of a block are lower ones, 4 and 5 upper ones.
    for program_ns in [lower_ns, lower_ns, lower_ns, lower_ns, upper_ns] {
        let spent_ns = time(&Command::write(0, PAGE));
        assert_eq!(spent_ns, overhead_ns + page_ns + transfer_ns + program_ns);
    }
    // Page 5; the rest of the page is read while the sector crosses the interface.
    let spent_ns = time(&Command::write(0, 1));
    assert_eq!(spent_ns, overhead_ns + read_ns + 2 * transfer_ns + upper_ns);
    // Page 6: the last two of a block are upper ones. Of a page never written nothing is read.
    let spent_ns = time(&Command::write(800, 1));
    assert_eq!(spent_ns, overhead_ns + 2_560 + transfer_ns + upper_ns);
    // Reading what was never written asks no die.
    assert_eq!(time(&Command::read(1600, PAGE)), overhead_ns + page_ns);
}

#[test]
fn the_cache_takes_writes_until_it_is_full_and_then_the_dies_set_the_pace() {
    let spec = small(&[("cache.bytes", "65536")]);
    let mut device = device(&spec, 1024);
    let writes = (0..400).map(|page| Command::write(page * u64::from(PAGE), PAGE));
    let (served, end_ns) = keep_busy(&mut device, 0, 1, writes);
    let latency = |index: usize| served[index].1.done_ns - served[index].0;
    let cached_ns = 10_000 + 20_480;
    assert!((0..16).all(|index| latency(index) == cached_ns), "sixteen pages fit");
    let late: u64 = (200..400).map(latency).sum();
    let die_ns = 21_120 + 1_100_000; // Half of the pages are upper ones.
    assert!((late / 200).abs_diff(die_ns) < die_ns / 20, "{}", late / 200);
    // A flush leaves nothing behind: another one finds nothing to do.
    let flushed = device.submit(end_ns, &Command::flush()).expect("healthy");
    assert!(flushed.done_ns - end_ns > 10 * die_ns);
    assert_eq!(device.statistics().chip.page_programs, 400);
    let again = device.submit(flushed.done_ns, &Command::flush()).expect("healthy");
    assert_eq!(again.done_ns - again.start_ns, 10_000);
}

#[test]
fn writes_to_a_page_meet_in_the_cache_and_reads_find_them_there() {
    let mut device = device(&small(&[("cache.bytes", "65536")]), 1024);
    // The die is busy with page 9, so page 0 waits; its eight sectors cost one program.
    let busy = device.submit(0, &Command::write(9 * u64::from(PAGE), PAGE)).expect("healthy");
    let mut now_ns = busy.done_ns;
    for sector in 0..8 {
        now_ns = device.submit(now_ns, &Command::write(sector, 1)).expect("healthy").done_ns;
    }
    let read = device.submit(now_ns, &Command::read(0, PAGE)).expect("healthy");
    assert_eq!(read.cached_sectors, 8);
    assert_eq!(read.done_ns - now_ns, 10_000 + 20_480);
    let flushed = device.submit(read.done_ns, &Command::flush()).expect("healthy");
    assert_eq!(device.statistics().chip.page_programs, 2);
    assert_eq!(device.statistics().read_modify_writes, 0);
    // On the medium now, the page is read from its die.
    let read = device.submit(flushed.done_ns, &Command::read(0, PAGE)).expect("healthy");
    assert_eq!((read.cached_sectors, device.statistics().chip.page_reads), (0, 1));
}

#[test]
fn force_unit_access_goes_past_the_cache_with_what_waited_there() {
    let mut device = device(&small(&[("cache.bytes", "65536")]), 1024);
    let busy = device.submit(0, &Command::write(9 * u64::from(PAGE), PAGE)).expect("healthy");
    let half = device.submit(busy.done_ns, &Command::write(0, 4)).expect("healthy");
    let other_half = Command { fua: true, ..Command::write(4, 4) };
    let done = device.submit(half.done_ns, &other_half).expect("healthy");
    assert!(done.done_ns - done.start_ns > 400_000, "it is programmed");
    let flushed = device.submit(done.done_ns, &Command::flush()).expect("healthy");
    assert_eq!(flushed.done_ns - done.done_ns, 10_000, "nothing was left in the cache");
    assert_eq!(
        (device.statistics().chip.page_programs, device.statistics().chip.page_reads),
        (2, 0)
    );
}

#[test]
fn a_read_waits_for_one_cached_program_at_most() {
    let mut device = device(&small(&[("cache.bytes", "1048576")]), 1024);
    device.precondition(&Precondition::default()).expect("fresh");
    let writes = (0..200).map(|page| Command::write(page * u64::from(PAGE), PAGE));
    let (_, end_ns) = keep_busy(&mut device, 0, 1, writes);
    for number in 0..50 {
        let now_ns = end_ns + number * 3_000_000;
        let read = device.submit(now_ns, &Command::read(12_000, PAGE)).expect("healthy");
        let most_ns = 1_800_000 + 21_120 + 75_000 + 21_120 + 10_000 + 20_480;
        assert!(read.done_ns - now_ns <= most_ns, "{}", read.done_ns - now_ns);
    }
}

/// A full device with background cleaning after 1 ms, on the point of cleaning.
fn idle_cleaner(changes: &[(&str, &str)]) -> FlashDevice {
    let mut spec: DeviceSpec =
        small(&[("cleaning.background", "true"), ("cleaning.free_target_blocks", "6")]);
    for (key, value) in changes {
        spec.set(key, value).expect(key);
    }
    let mut device = device(&spec, 2 * 288);
    device
        .precondition(&Precondition { until_all_clean: true, ..Precondition::default() })
        .expect("fresh");
    device.record_activity(true);
    device
}

#[test]
fn idle_dies_clean_up_to_the_target_and_not_before_the_pause() {
    let mut device = idle_cleaner(&[]);
    let free =
        |device: &FlashDevice| device.layers().map(|layer| layer.flash().free_blocks()).max();
    let before = free(&device).expect("a die");
    assert!(before < 6, "{before}");
    device.submit(900_000, &Command::read(0, PAGE)).expect("healthy");
    assert_eq!(device.statistics().background_cleaning_ns, 0);
    device.submit(2_000_000_000, &Command::read(0, PAGE)).expect("healthy");
    assert_eq!(free(&device), Some(6));
    let activity = device.take_activity().dies;
    let cleaning: Vec<_> =
        activity.iter().filter(|one| one.kind == ActivityKind::BackgroundCleaning).collect();
    let reads: Vec<_> = activity.iter().filter(|one| one.kind == ActivityKind::Read).collect();
    assert_eq!(cleaning.len(), 1, "once begun it goes on without a pause");
    assert_eq!(cleaning[0].start_ns, reads[0].end_ns + 1_000_000);
    let spent_ns = cleaning[0].end_ns - cleaning[0].start_ns;
    assert_eq!(device.statistics().background_cleaning_ns, spent_ns);
    assert_eq!(device.statistics().foreground_cleaning_ns, 0);
}

#[test]
fn a_command_waits_for_one_step_of_cleaning_and_reports_it() {
    let (copy_ns, erase_ns) = (75_000 + 1_800_000, 3_800_000);
    let service_ns = 10_000 + 75_000 + 21_120 + 20_480;
    let mut longest_ns = 0;
    for arrival in 0..200 {
        let mut device = idle_cleaner(&[]);
        let now_ns = 1_000_000 + arrival * 137_000;
        let read = device.submit(now_ns, &Command::read(0, PAGE)).expect("healthy");
        assert_eq!(read.done_ns - now_ns, service_ns + read.cleaning_ns, "nothing else delays it");
        assert!(read.cleaning_ns <= copy_ns.max(erase_ns), "{}", read.cleaning_ns);
        longest_ns = longest_ns.max(read.cleaning_ns);
    }
    assert!(longest_ns > copy_ns, "some arrival meets an erase");
    // By blocks, it waits for all copies of the block and its erase.
    let mut device = idle_cleaner(&[("cleaning.suspend", "block")]);
    let read = device.submit(1_000_001 + 10_000, &Command::read(0, PAGE)).expect("healthy");
    assert!(read.cleaning_ns > erase_ns + 75_000, "{}", read.cleaning_ns);
}

#[test]
fn cleaning_after_a_discard_does_not_begin_before_it() {
    let spec = small(&[("cleaning.background", "true"), ("cleaning.free_target_blocks", "40")]);
    let mut device = device(&spec, 2 * 288);
    device.precondition(&Precondition::default()).expect("fresh");
    device.record_activity(true);
    let second_ns = 1_000_000_000;
    let read = Command::read(1000 * u64::from(PAGE), PAGE);
    // Too few blocks are free, but every page is valid: there is nothing to clean.
    device.submit(second_ns, &read).expect("healthy");
    device.submit(2 * second_ns, &read).expect("healthy");
    assert_eq!(device.statistics().background_cleaning_ns, 0);
    device.submit(3 * second_ns, &Command::discard(0, 64 * PAGE)).expect("healthy");
    device.submit(4 * second_ns, &read).expect("healthy");
    let activity = device.take_activity().dies;
    let first = activity.iter().find(|one| one.kind == ActivityKind::BackgroundCleaning);
    // The discard itself takes the overhead of a command.
    assert_eq!(first.expect("the trimmed blocks").start_ns, 3 * second_ns + 10_000);
}

#[test]
fn cleaning_that_takes_no_time_changes_the_time_and_not_the_work() {
    let run = |takes_time: &str| {
        let mut device = device(&small(&[("cleaning.takes_time", takes_time)]), 2 * 288);
        device
            .precondition(&Precondition { until_all_clean: true, ..Precondition::default() })
            .expect("fresh");
        let mut stream = Stream::new(3, "test");
        let writes = (0..2_000).map(|_| Command::write(u64::from(stream.below(2048) * PAGE), PAGE));
        let (served, end_ns) = keep_busy(&mut device, 0, 1, writes);
        let cleaning_ns: u64 = served.iter().map(|(_, completion)| completion.cleaning_ns).sum();
        (device.statistics(), end_ns, cleaning_ns)
    };
    let (with, with_end_ns, with_cleaning_ns) = run("true");
    let (without, without_end_ns, without_cleaning_ns) = run("false");
    assert_eq!(with.chip, without.chip);
    assert!(with.cleaned_blocks > 100 && with.cleaned_blocks == without.cleaned_blocks);
    // One write at a time: what cleaning took is all the difference, to the nanosecond.
    assert_eq!(with_end_ns - without_end_ns, with.foreground_cleaning_ns);
    assert_eq!((with_cleaning_ns, without_cleaning_ns), (with.foreground_cleaning_ns, 0));
}

#[test]
fn preconditioning_fills_as_asked_and_leaves_no_counts() {
    for (fill, pages) in
        [(Fill::Permille(500), 1024), (Fill::Bytes(40_960), 10), (Fill::AllBut(4096), 2047)]
    {
        let mut device = device(&small(&[("flash.channels", "2")]), 1024);
        device.precondition(&Precondition { fill, ..Precondition::default() }).expect("fresh");
        let mapped: usize = device.layers().map(|layer| layer.tables()[0].rows.len()).sum();
        assert_eq!(mapped, pages, "{fill:?}");
        assert_eq!(device.statistics(), device::DeviceStatistics::default());
    }
}

#[test]
fn mistakes_and_the_end_of_life_are_errors_that_change_nothing() {
    let mut device = device(&small(&[]), 1024);
    let sectors = device.sectors();
    assert_eq!(device.submit(5, &Command::read(0, 0)), Err(DeviceError::Empty { sector: 0 }));
    for (sector, count) in [(sectors, 1), (sectors - 1, 2), (u64::MAX, 1)] {
        let error = device.submit(5, &Command::write(sector, count)).expect_err("past the end");
        assert!(matches!(error, DeviceError::PastTheEnd { .. }), "{error}");
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(
        device.submit(4, &Command::flush()),
        Err(DeviceError::TimeWentBackwards { now_ns: 4, last_ns: 5 })
    );
    let first = device.submit(5, &Command::write(0, PAGE)).expect("healthy");
    assert_eq!((first.start_ns, device.statistics().completed), (5, 1));
}

#[test]
fn impossible_devices_are_refused_with_the_key() {
    for (changes, blocks, says) in [
        (&[("flash.capacity_bytes", "16777216")] as &[_], 256, "flash.capacity_bytes asks for"),
        (&[("flash.capacity_bytes", "8388608")], 514, "needs"),
        (&[("cache.bytes", "512")], 1024, "cache.bytes must be 0 or hold a page"),
        (&[("flash.settings.cleaning", "best")], 1024, "flash.settings"),
        (&[("flash.bus", "warp")], 1024, "unknown mode `warp`"),
    ] {
        let error = FlashDevice::new(&small(changes), &small_part(blocks), 1).err().expect(says);
        assert!(error.to_string().contains(says), "{error}");
    }
    let mut spec = find_device("emmc-4.5-64gb").expect("a preset");
    spec.set("flash.part", "generic-mcl-2x").expect("a word");
    let error = build(&spec, 1).err().expect("no part").to_string();
    assert!(error.contains("did you mean `generic-mlc-2x`?"), "{error}");
}

#[test]
fn a_flush_waits_for_what_an_earlier_one_is_still_programming() {
    let spec = small(&[("cache.bytes", "65536"), ("host.executes", "2")]);
    let mut device = device(&spec, 1_200);
    for page in 0..4 {
        device.submit(0, &Command::write(page * 8, 8)).expect("written");
    }
    let first = device.submit(1_000_000, &Command::flush()).expect("flushed");
    // The first flush has emptied the cache; its programs take milliseconds.
    let second = device.submit(1_000_001, &Command::flush()).expect("flushed");
    assert!(first.done_ns > 1_500_000, "{first:?}");
    assert_eq!(second.done_ns, first.done_ns);
    // With nothing to wait for a flush is done at once.
    let third = device.submit(first.done_ns, &Command::flush()).expect("flushed");
    assert_eq!(third.done_ns - third.start_ns, 10_000);
}

/// A device of one die of planar TLC, whose pages take 58, 78 and 107 us to read.
fn planar_tlc(changes: &[(&str, &str)]) -> FlashDevice {
    let mut part = nand::find_part("generic-tlc-2d").expect("in the catalogue");
    (part.geometry.page_data_bytes, part.geometry.page_oob_bytes) = (2048, 64);
    (part.geometry.pages_per_block, part.geometry.blocks) = (12, 1024);
    FlashDevice::new(&small(changes), &part, 1).expect("large enough")
}

#[test]
fn a_read_takes_the_time_of_its_page_type_on_every_layer() {
    for entry in ftl::FTLS {
        let mut device = planar_tlc(&[("flash.ftl", entry.name), ("flash.copy_back", "false")]);
        let mut now_ns = 0;
        for page in 0..64 {
            let write = Command::write(page * u64::from(PAGE), PAGE);
            now_ns = device.submit(now_ns, &write).expect("healthy").done_ns;
        }
        for page in 0..64 {
            let at = device.layers().next().expect("one die").locate(page as u32).expect("written");
            let array_ns = [58_000, 78_000, 107_000][at.page as usize % 3];
            // Pages of both planes over the channel: 4,224 bytes at 2.5 ns.
            let (transfer_ns, host_ns, overhead_ns) = (10_560, 20_480, 10_000);
            let done = device.submit(now_ns, &Command::read(page * u64::from(PAGE), PAGE));
            let done_ns = done.expect("healthy").done_ns;
            // Layers that look for the newest copy, or keep the map on flash, read more before it.
            let least_ns = overhead_ns + array_ns + transfer_ns + host_ns;
            assert!(done_ns - now_ns >= least_ns, "{}, page {page}", entry.name);
            if entry.name == "page" {
                assert_eq!(done_ns - now_ns, least_ns, "page {page}");
            }
            now_ns = done_ns;
        }
    }
}

#[test]
fn cleaning_reads_each_page_in_its_own_time() {
    let mut device =
        planar_tlc(&[("flash.capacity_bytes", "20971520"), ("flash.copy_back", "false")]);
    let mut stream = random::Stream::new(1, "writes of a device that cleans");
    let mut now_ns = 0;
    for _ in 0..12_000 {
        let page = u64::from(stream.below(5_000));
        let write = Command::write(page * u64::from(PAGE), PAGE);
        now_ns = device.submit(now_ns, &write).expect("healthy").done_ns;
    }
    let chip = device.layers().next().expect("one die").flash().chip();
    let statistics = device.statistics();
    assert!(statistics.chip.page_reads > 1_000, "{statistics:?}");
    // All that the die did was reads and programs of whole pages and erases, each in its own time.
    let programs = chip.programs_by_position().into_iter().zip([558_000, 2_201_000, 5_001_000]);
    let expected_ns = statistics.chip.page_reads * (58_000 + 10_560)
        + chip.extra_read_ns()
        + programs.map(|(count, program_ns)| count * (program_ns + 10_560)).sum::<u64>()
        + statistics.chip.erases * 2_274_000;
    assert!(chip.extra_read_ns() > 20_000 * 1_000);
    assert_eq!(statistics.die_busy_ns, expected_ns);
}

#[test]
fn a_packed_command_has_one_overhead_and_a_header() {
    let spec = small(&[("cache.bytes", "65536"), ("host.packed_writes", "8")]);
    let writes: Vec<Command> = (0..4).map(|page| Command::write(page * 80, PAGE)).collect();
    let (overhead_ns, page_ns, header_ns) = (10_000, 20_480, 2_560);
    let mut packs = device(&spec, 1024);
    assert_eq!(packs.packed_writes(), 8);
    let done = packs.submit_packed(0, &writes).expect("healthy");
    assert_eq!(done.done_ns, overhead_ns + header_ns + 4 * page_ns);
    assert_eq!((packs.statistics().writes, packs.statistics().completed), (4, 4));
    let mut alone = device(&spec, 1024);
    let mut now_ns = 0;
    for write in &writes {
        now_ns = alone.submit(now_ns, write).expect("healthy").done_ns;
    }
    assert_eq!(now_ns, 4 * (overhead_ns + page_ns));
    // Both have the same on the medium after a flush.
    let chip = |device: &mut FlashDevice| {
        let flushed = device.submit(now_ns, &Command::flush()).expect("healthy");
        (flushed.done_ns > now_ns, device.statistics().chip)
    };
    assert_eq!(chip(&mut packs), chip(&mut alone));
    // One command outside of the device refuses all.
    let outside = [writes[0], Command::write(1 << 40, 8)];
    let refused = packs.submit_packed(1_000_000_000, &outside);
    assert!(matches!(refused, Err(DeviceError::PastTheEnd { .. })), "{refused:?}");
}

#[test]
fn a_flush_waits_for_what_a_write_past_the_cache_has_taken_along() {
    let spec = small(&[("cache.bytes", "65536"), ("host.executes", "2")]);
    let mut device = device(&spec, 1_200);
    // Keeps the die busy, so that the next page waits in the cache.
    device.submit(0, &Command::write(800, PAGE)).expect("written");
    device.submit(60_000, &Command::write(0, 4)).expect("written");
    let past = Command { fua: true, ..Command::write(4, 4) };
    let past = device.submit(100_000, &past).expect("written");
    // The first four sectors were answered before the flush, and are programmed with the other four.
    let flushed = device.submit(100_001, &Command::flush()).expect("flushed");
    assert!(past.done_ns > 400_000, "{past:?}");
    assert_eq!(flushed.done_ns, past.done_ns);
}

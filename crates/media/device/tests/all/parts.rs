//! Devices whose layer maps parts of a page: what is programmed and read together, and what queued reads save.

use crate::support;

use device::{BlockDevice, Command, FlashDevice, Precondition};
use support::{device, small};

/// A small device with pages of 4 KiB in parts of 1 KiB: two sectors each, four to a page.
const PARTS: [(&str, &str); 3] = [
    ("flash.copy_back", "false"),
    ("flash.mapping_unit_bytes", "1024"),
    ("host.command_overhead_ns", "0"),
];

fn parted(changes: &[(&str, &str)]) -> FlashDevice {
    let all: Vec<(&str, &str)> = PARTS.iter().chain(changes).copied().collect();
    device(&small(&all), 1_200)
}

fn programs(device: &FlashDevice) -> u64 {
    device.statistics().chip.page_programs
}

fn reads(device: &FlashDevice) -> u64 {
    device.statistics().chip.page_reads
}

#[test]
fn the_cache_gathers_parts_from_anywhere_into_one_program() {
    let mut device = parted(&[("cache.bytes", "65536")]);
    for (number, sector) in (0..).zip([0, 400, 90, 8_000]) {
        device.submit(number, &Command::write(sector, 2)).expect("written");
        // Three parts wait for a fourth, however long it takes.
        assert_eq!(programs(&device), 0);
    }
    device.submit(10_000_000, &Command::read(0, 2)).expect("read");
    assert_eq!((programs(&device), device.statistics().read_modify_writes), (1, 0));
}

#[test]
fn a_flush_programs_what_has_gathered() {
    let mut device = parted(&[("cache.bytes", "65536")]);
    device.submit(0, &Command::write(40, 2)).expect("written");
    let done = device.submit(1_000, &Command::flush()).expect("flushed").done_ns;
    assert!(done > 400_000, "a program takes its time: {done}");
    assert_eq!(programs(&device), 1);
    // The padding is lost room, not another page: the next part begins a page of its own.
    device.submit(done, &Command::write(42, 2)).expect("written");
    device.submit(done, &Command::flush()).expect("flushed");
    assert_eq!(programs(&device), 2);
}

#[test]
fn without_a_cache_each_write_is_a_program_of_its_own() {
    let mut device = parted(&[]);
    // A whole page, a part, and a sector of a part that was written: it is read first.
    for (sector, sectors) in [(0, 8), (80, 2), (80, 1)] {
        let now = device.statistics().die_busy_ns + 10_000_000 * sector;
        device.submit(now, &Command::write(sector, sectors)).expect("written");
    }
    assert_eq!((programs(&device), reads(&device)), (3, 1));
}

#[test]
fn parts_of_one_array_page_cost_one_array_time() {
    let mut device = parted(&[("cache.bytes", "65536")]);
    // One program has parts 0 to 2 and part 40, the next one parts 3 and 41.
    for sector in [0, 2, 4, 80, 6, 82] {
        device.submit(0, &Command::write(sector, 2)).expect("written");
    }
    let at = device.submit(1, &Command::flush()).expect("flushed").done_ns;
    let before = reads(&device);
    let three = device.submit(at, &Command::read(0, 6)).expect("read");
    assert_eq!(reads(&device) - before, 1);
    let four = device.submit(three.done_ns, &Command::read(0, 8)).expect("read");
    assert_eq!(reads(&device) - before, 3);
    // 75 us for the array once more, in which the first parts cross the interface.
    let longer_ns = (four.done_ns - four.start_ns) - (three.done_ns - three.start_ns);
    assert!((60_000..90_000).contains(&longer_ns), "{longer_ns}");
}

#[test]
fn a_part_that_was_never_written_costs_nothing() {
    let mut device = parted(&[]);
    let done = device.submit(0, &Command::read(100, 2)).expect("read");
    assert_eq!(reads(&device), 0);
    assert!(done.done_ns < 75_000, "{done:?}");
}

#[test]
fn a_discarded_part_is_stale_and_not_written_later() {
    let mut device = parted(&[("cache.bytes", "65536")]);
    device.submit(0, &Command::write(0, 8)).expect("written");
    let at = device.submit(1, &Command::flush()).expect("flushed").done_ns;
    device.submit(at, &Command::write(20, 2)).expect("written");
    device.submit(at + 1, &Command::discard(0, 4)).expect("discarded");
    device.submit(at + 2, &Command::discard(20, 2)).expect("discarded");
    let at = device.submit(at + 3, &Command::flush()).expect("flushed").done_ns;
    assert_eq!(programs(&device), 1, "what was in the cache is not needed any more");
    let before = reads(&device);
    device.submit(at, &Command::read(0, 4)).expect("read");
    assert_eq!(reads(&device), before);
    device.submit(at + 1, &Command::read(4, 4)).expect("read");
    assert_eq!(reads(&device), before + 1);
}

/// A cache of three parts before two dies: no die ever has the four of a page.
#[test]
fn a_cache_that_is_too_small_to_gather_a_page_still_drains() {
    let mut device = parted(&[("cache.bytes", "3072"), ("flash.dies_per_channel", "2")]);
    let mut at = 0;
    for number in 0..40 {
        at = device.submit(at, &Command::write(number * 6, 2)).expect("written").done_ns;
    }
    device.submit(at, &Command::flush()).expect("flushed");
    assert!(programs(&device) >= 14, "{}", programs(&device));
}

#[test]
fn random_overwrites_of_parts_do_not_read_and_amplify_less_than_whole_pages() {
    let steady = Precondition { steady: true, ..Precondition::default() };
    let mut device = parted(&[("cache.bytes", "65536"), ("flash.capacity_bytes", "16777216")]);
    let steadiness = device.precondition(&steady).expect("prepared").expect("a search");
    assert!(steadiness.is_reached, "{steadiness:?}");
    // 16 MiB on 1,200 blocks of 16 KiB: a tenth and more of the pages is spare.
    assert!((1.0..6.0).contains(&steadiness.write_amplification), "{steadiness:?}");
    let (mut at, mut stream) = (0, random::Stream::new(1, "parts"));
    for _ in 0..400 {
        let sector = u64::from(stream.below(16_384)) * 2;
        at = device.submit(at, &Command::write(sector, 2)).expect("written").done_ns;
    }
    device.submit(at, &Command::flush()).expect("flushed");
    let statistics = device.statistics();
    assert_eq!(statistics.read_modify_writes, 0);
    let host_pages = 100.0;
    let amplification = statistics.chip.page_programs as f64 / host_pages;
    assert!(amplification < 2.0 * steadiness.write_amplification, "{amplification}");
}

/// Two reads on two dies: with a queue to look ahead in, the second array works while the first is transferred.
#[test]
fn queued_reads_are_prefetched_and_keep_their_order() {
    let done = |prefetches| {
        let changes = [
            ("flash.dies_per_channel", "2"),
            ("host.queue_depth", "32"),
            ("host.prefetches", prefetches),
        ];
        let mut device = parted(&changes);
        device.submit(0, &Command::write(0, 16)).expect("written");
        let at = device.submit(1, &Command::flush()).expect("flushed").done_ns;
        [0, 8]
            .map(|sector| device.submit(at, &Command::read(sector, 2)).expect("read").done_ns - at)
    };
    let ([first, second], [early_first, early_second]) = (done("false"), done("true"));
    assert_eq!(first, early_first, "one read alone is no faster");
    assert!(early_first < early_second, "tasks are executed in order");
    // All but the transfers of the second read was done before its turn.
    assert!(second - early_second >= 75_000, "{second} and {early_second}");
}

/// A full device under random writes: the longest one waits for a few pages instead of a whole block.
#[test]
fn cleaning_after_each_program_keeps_writes_from_waiting_for_a_block() {
    let longest_ns = |steps| {
        let mut device = parted(&[
            ("flash.capacity_bytes", "16777216"),
            ("cleaning.steps_per_program", steps),
            ("cleaning.free_target_blocks", "4"),
        ]);
        let steady = Precondition { steady: true, ..Precondition::default() };
        device.precondition(&steady).expect("prepared");
        let (mut at, mut longest_ns, mut stream) = (0, 0, random::Stream::new(1, "steps"));
        for _ in 0..2_000 {
            let sector = u64::from(stream.below(4_096)) * 8;
            let done = device.submit(at, &Command::write(sector, 8)).expect("written");
            longest_ns = longest_ns.max(done.done_ns - at);
            at = done.done_ns;
        }
        assert!(device.statistics().foreground_cleaning_ns > 0, "nothing was cleaned");
        longest_ns
    };
    let (whole, spread) = (longest_ns("0"), longest_ns("2"));
    assert!(spread * 2 < whole, "{spread} and {whole}");
}

/// The command queue is the card's, not the layer's: it helps a layer that maps whole pages as much.
#[test]
fn queued_reads_are_prefetched_whatever_the_layer_maps() {
    let second_ns = |prefetches| {
        let changes = [
            ("flash.dies_per_channel", "2"),
            ("flash.ftl", "dftl"),
            ("host.prefetches", prefetches),
        ];
        let mut device = parted(&changes);
        device.submit(0, &Command::write(0, 16)).expect("written");
        let at = device.submit(1, &Command::flush()).expect("flushed").done_ns;
        let done = [0, 8].map(|sector| device.submit(at, &Command::read(sector, 8)).expect("read"));
        done[1].done_ns - at
    };
    let (one_by_one, prefetched) = (second_ns("false"), second_ns("true"));
    assert!(one_by_one - prefetched >= 75_000, "{one_by_one} and {prefetched}");
}

/// A read that is prefetched waits on its die while the commands in front are served: what the die cleans
/// then is not in the time that the read itself takes.
#[test]
fn a_prefetched_read_has_no_more_cleaning_than_time_of_its_own() {
    let mut device = parted(&[
        ("flash.capacity_bytes", "16777216"),
        ("flash.dies_per_channel", "2"),
        ("host.prefetches", "true"),
        ("host.queue_depth", "2"),
        // Drains of the cache clean beside the commands.
        ("cache.bytes", "65536"),
    ]);
    let steady = Precondition { steady: true, ..Precondition::default() };
    device.precondition(&steady).expect("prepared");
    let (mut at, mut stream) = (0, random::Stream::new(1, "prefetched"));
    for _ in 0..300 {
        let mut ends = 0;
        for number in 0..40 {
            let sector = u64::from(stream.below(4_096)) * 8;
            let command = match number {
                0..16 => Command::write(sector, 8),
                16 => Command::flush(),
                _ => Command::read(sector, 8),
            };
            // The reads come together while the flush drains the cache.
            at += if number == 17 { 200_000 } else { 0 };
            let done = device.submit(at, &command).expect("served");
            assert!(done.start_ns + done.own_cleaning_ns <= done.done_ns, "{command:?}: {done:?}");
            ends = ends.max(done.done_ns);
        }
        at = at.max(ends);
    }
}

/// Places of parts are found by shifts: a page of three planes, or of twelve parts, would be found elsewhere.
#[test]
fn a_page_that_has_no_power_of_two_of_parts_is_refused() {
    let mut part = support::small_part(1_200);
    part.geometry.planes = 3;
    let spec = small(&PARTS);
    let refused = FlashDevice::new(&spec, &part, 1).err().expect("six parts").to_string();
    assert!(refused.contains("mapping_unit_bytes") && refused.contains("6144"), "{refused}");
}

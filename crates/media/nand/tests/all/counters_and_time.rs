//! The five counters and the busy time that follows from them.

use crate::support;

use nand::{
    Cell, Chip, ChipOperation, Cost, Counters, CutPoint, FaultSettings, NandError, PageAddress,
};
use nand::{Storage, find_part};
use support::{byte_chip, cell_part, small_part, tag};

fn chip_of(name: &str) -> Chip {
    let part = find_part(name).expect("in the catalogue");
    Chip::new(&part, Storage::Tags, &FaultSettings::default())
}

/// Part; page read, spare read, page program at each position, spare program, erase.
type Times = (&'static str, u64, u64, &'static [u64], u64, u64);

#[test]
fn times_are_those_of_the_data_sheets() {
    let expected: [Times; 4] = [
        // 528 B at 50 ns are 26.4 us, 16 B 0.8 us.
        ("k9f5608u0d", 41_400, 15_800, &[226_400], 200_800, 2_000_000),
        // 2112 B at 30 ns are 63.36 us, 64 B 1.92 us.
        ("k9f1g08u0a", 88_360, 26_920, &[263_360], 201_920, 2_000_000),
        // 2112 B at 25 ns are 52.8 us, 64 B 1.6 us.
        ("k9f2g08u0c", 92_800, 41_600, &[302_800], 251_600, 2_000_000),
        // 4224 B at 25 ns are 105.6 us, 128 B 3.2 us.
        ("k9gag08u0m", 165_600, 63_200, &[505_600, 1_305_600], 403_200, 1_500_000),
    ];
    for (name, read_ns, spare_read_ns, program_ns, spare_program_ns, erase_ns) in expected {
        let part = find_part(name).expect("in the catalogue");
        let (timing, geometry) = (&part.timing, &part.geometry);
        assert_eq!(timing.page_read_ns(geometry), read_ns, "{name}");
        assert_eq!(timing.spare_read_ns(geometry), spare_read_ns, "{name}");
        for (position, time_ns) in program_ns.iter().enumerate() {
            assert_eq!(timing.page_program_ns(geometry, position), *time_ns, "{name} {position}");
        }
        assert_eq!(timing.spare_program_ns(geometry), spare_program_ns, "{name}");
        assert_eq!(timing.erase_ns, erase_ns, "{name}");
    }
}

#[test]
fn each_operation_raises_its_counter_and_adds_its_time() {
    let mut chip = chip_of("k9f5608u0d");
    let at = PageAddress::new(3, 4);
    chip.program(at, tag(1), None).expect("program");
    chip.copy(at, PageAddress::new(3, 5), tag(1)).expect("copy");
    chip.program_spare(at, nand::Tag::link()).expect("mark");
    chip.read_spare(at).expect("spare");
    chip.read_spare(at).expect("spare");
    chip.erase(3).expect("erase");
    let counters = chip.counters();
    let expected =
        Counters { page_reads: 1, spare_reads: 2, page_programs: 2, spare_programs: 1, erases: 1 };
    assert_eq!(counters, expected);
    assert_eq!(counters.weighted(Cost { read: 1, program: 7, erase: 63 }), 3 + 7 * 3 + 63);
    assert_eq!(chip.busy_ns(), [41_400 + 2 * 15_800, 2 * 226_400 + 200_800, 2_000_000]);
    assert_eq!(chip.erase_counts()[3], 1);
}

#[test]
fn a_full_two_bit_block_takes_the_sum_of_lower_and_upper_pages() {
    let mut chip = chip_of("k9gag08u0m");
    for page in 0..128 {
        chip.program(PageAddress::new(0, page), tag(page), None).expect("program");
        if page == 5 {
            // Pages 0 to 3 are lower, 4 and 5 upper.
            assert_eq!(chip.busy_ns()[1], 4 * 505_600 + 2 * 1_305_600);
        }
    }
    assert_eq!(chip.busy_ns(), [0, 64 * 505_600 + 64 * 1_305_600, 0]);
}

/// Performs one operation of every kind on `block`; how each of them ended.
fn one_of_each(chip: &mut Chip, block: u32) -> Vec<Result<(), NandError>> {
    let at = PageAddress::new(block, 0);
    vec![
        chip.program(at, tag(1), None),
        chip.program_spare(at, nand::Tag::link()),
        chip.read(at).map(|_| ()),
        chip.read_spare(at).map(|_| ()),
        chip.erase(block),
        chip.mark_bad(block),
    ]
}

/// Counters as the log shows them.
fn logged(log: &[ChipOperation]) -> Counters {
    let mut counters = Counters::default();
    for operation in log {
        *match operation {
            ChipOperation::PageRead(_) => &mut counters.page_reads,
            ChipOperation::SpareRead(_) => &mut counters.spare_reads,
            ChipOperation::PageProgram(..) => &mut counters.page_programs,
            ChipOperation::SpareProgram(_) => &mut counters.spare_programs,
            ChipOperation::Erase(_) => &mut counters.erases,
        } += 1;
    }
    counters
}

#[test]
fn what_began_is_counted_and_logged_whatever_became_of_it() {
    let fails = FaultSettings {
        program_failure_probability: 1.0,
        erase_failure_probability: 1.0,
        ..FaultSettings::default()
    };
    for faults in [FaultSettings::default(), fails] {
        for operation in 0..6 {
            for point in [CutPoint::Before, CutPoint::Inside, CutPoint::After] {
                let mut chip = Chip::new(&small_part(), Storage::Bytes, &faults);
                chip.start_log();
                chip.cut_power_after(operation, point);
                let outcomes = one_of_each(&mut chip, 2);
                assert!(outcomes.contains(&Err(NandError::PowerLost)));
                let counters = chip.counters();
                let begun = counters.reads() + counters.programs() + counters.erases;
                assert_eq!(begun, operation + u64::from(point != CutPoint::Before));
                assert_eq!(logged(&chip.take_log()), counters, "operation {operation} {point:?}");
                assert_eq!(u64::from(chip.erase_counts()[2]), counters.erases);
            }
        }
    }
}

#[test]
fn torn_and_failed_programs_take_the_time_of_their_position() {
    let mut part = cell_part(Cell::Mlc, 8);
    part.timing.program_ns = vec![100_000, 900_000];
    let mut chip = byte_chip(&part);
    for page in 0..4 {
        chip.program(PageAddress::new(0, page), tag(page), None).expect("program");
    }
    chip.cut_power_after(0, CutPoint::Inside);
    assert_eq!(chip.program(PageAddress::new(0, 4), tag(4), None), Err(NandError::PowerLost));
    assert_eq!(chip.busy_ns()[1], 4 * 100_000 + 900_000);
}

#[test]
fn setting_counters_to_zero_keeps_contents_and_wear() {
    let mut chip = byte_chip(&small_part());
    chip.erase(1).expect("erase");
    chip.erase(1).expect("erase");
    chip.program(PageAddress::new(1, 0), tag(9), None).expect("program");
    chip.reset_counters();
    assert_eq!(chip.counters(), Counters::default());
    assert_eq!((chip.busy_ns(), chip.erase_counts()[1], chip.failures()), ([0; 3], 0, (0, 0)));
    assert_eq!(chip.peek(PageAddress::new(1, 0)), tag(9));
    chip.erase(1).expect("erase");
    assert_eq!((chip.erase_counts()[1], chip.erase_cycles(1), chip.erase_cycles(0)), (1, 3, 0));
    chip.set_erase_counts(50);
    assert_eq!((chip.erase_counts()[1], chip.erase_cycles(1)), (50, 50));
}

#[test]
fn a_raw_driver_counts_whole_and_spare_operations_by_whether_data_moves() {
    let mut chip = byte_chip(&small_part());
    let at = PageAddress::new(0, 0);
    chip.program_raw(at, &[0; 100], &[]).expect("first half");
    chip.program_raw(at, &[], &[0xff; 16]).expect("spare");
    chip.read_raw(at, &mut [0; 10], &mut [0; 16]).expect("read");
    chip.read_raw(at, &mut [], &mut [0; 16]).expect("spare");
    let expected =
        Counters { page_reads: 1, spare_reads: 1, page_programs: 1, spare_programs: 1, erases: 0 };
    assert_eq!(chip.counters(), expected);
    let mut tags = Chip::new(&small_part(), Storage::Tags, &FaultSettings::default());
    assert_eq!(tags.read_data(at, &mut [0; 10]), Err(NandError::NoStorage));
    assert_eq!(tags.read_raw(at, &mut [0; 10], &mut []), Err(NandError::NoStorage));
    assert_eq!(tags.program_raw(at, &[0; 10], &[]), Err(NandError::NoStorage));
    assert_eq!(tags.counters(), Counters::default(), "a refused operation is not counted");
}

#[test]
fn counters_of_several_chips_add_up_and_reads_and_programs_are_of_both_kinds() {
    let one = Counters {
        page_reads: 1,
        spare_reads: 20,
        page_programs: 300,
        spare_programs: 4000,
        erases: 50_000,
    };
    let mut sum = one;
    sum += one;
    assert_eq!(sum - one, one);
    assert_eq!((sum.reads(), sum.programs(), sum.erases), (42, 8600, 100_000));
    assert_eq!(sum.weighted(Cost { read: 1, program: 10, erase: 100 }), 42 + 86_000 + 10_000_000);
}

/// K9F2G08U0C: 64 pages of 2 KiB are 128 KiB, 2048 blocks are 256 MiB.
#[test]
fn sizes_of_a_part_are_those_of_its_data_areas() {
    let geometry = find_part("k9f2g08u0c").expect("in the catalogue").geometry;
    assert_eq!((geometry.block_bytes(), geometry.capacity_bytes()), (128 << 10, 256 << 20));
    assert_eq!(geometry.pages(), 131_072);
    let half = geometry.with_blocks(1024);
    assert_eq!((half.block_bytes(), half.capacity_bytes()), (128 << 10, 128 << 20));
}

#[test]
fn a_read_takes_the_time_of_its_page_type() {
    let mut part = find_part("generic-tlc-2d").expect("in the catalogue");
    (part.geometry.blocks, part.geometry.pages_per_block) = (4, 6);
    let transfer_ns = part.timing.transfer_ns(16_384 + 1_216);
    let spare_ns = part.timing.transfer_ns(1_216);
    let mut chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    let at = |page| PageAddress::new(0, page);
    (0..6).for_each(|page| chip.program(at(page), tag(page), None).expect("programmed"));
    // Lower, centre and upper page, then the same of the next word line.
    for (page, array_ns) in [(0, 58_000), (1, 78_000), (2, 107_000), (4, 78_000)] {
        let before = chip.busy_ns()[0];
        chip.read(at(page)).expect("read");
        assert_eq!(chip.busy_ns()[0] - before, array_ns + transfer_ns, "page {page}");
        chip.read_spare(at(page)).expect("read");
        assert_eq!(chip.busy_ns()[0] - before, 2 * array_ns + transfer_ns + spare_ns);
    }
    // A copy reads its source, alone or in a run; the page it programs does not matter.
    let before = chip.extra_read_ns();
    chip.copy(at(2), PageAddress::new(1, 0), tag(2)).expect("copied");
    assert_eq!(chip.extra_read_ns() - before, 49_000);
    let is_run = chip.copy_run(0, &[0, 1], PageAddress::new(1, 1), 9, nand::Role::Data);
    assert!(!is_run, "a run does not say which pages it reads");
    chip.reset_counters();
    assert_eq!((chip.extra_read_ns(), chip.busy_ns()[0]), (0, 0));
}

//! Manual background operations: the host starts them when the card's answer urges.

use crate::support::{device, keep_busy, small};
use device::{BkopsLevel, BlockDevice, Command, DeviceSpec, FlashDevice, Preconditioning};
use random::Stream;

const PAGE: u32 = 8;
/// Eight free blocks are the target; a card without spread cleaning.
const MANUAL: [(&str, &str); 2] =
    [("cleaning.free_target_blocks", "8"), ("cleaning.manual_bkops", "true")];

fn filled(changes: &[(&str, &str)]) -> FlashDevice {
    let mut device = device(&small(changes), 600);
    let fill = Preconditioning::Fill.steps(1).expect("a fill");
    device.precondition(&fill).expect("a fresh device");
    device
}

/// Random writes of a page over the device.
fn writes(device: &FlashDevice, count: usize) -> Vec<Command> {
    let pages = device.sectors() as u32 / PAGE;
    let mut stream = Stream::new(3, "bkops");
    (0..count)
        .map(|_| Command::write(u64::from(stream.below(pages)) * u64::from(PAGE), PAGE))
        .collect()
}

#[test]
fn the_write_that_meets_the_urgent_level_ends_after_the_cleaning() {
    let mut card = filled(&MANUAL);
    let mut twin = filled(&MANUAL[..1]);
    let mut now_ns = 0;
    let mut levels = Vec::new();
    for command in writes(&card, 2_000) {
        let level = card.bkops_level();
        let before = card.statistics();
        let done = card.submit(now_ns, &command).expect("written");
        let started = card.statistics().bkops - before.bkops;
        levels.push(level);
        if started == 0 {
            // Below the level the card is like one that nobody tells to clean.
            assert!(card.bkops_level() < BkopsLevel::PerformanceImpacted);
            assert_eq!(done.cleaning_ns, 0);
        } else {
            assert_eq!(started, 1);
            // It cleans until the target is free again, and the next command waits for that.
            assert_eq!(card.bkops_level(), BkopsLevel::None);
            let cleaned = card.statistics().background_cleaning_ns - before.background_cleaning_ns;
            assert_eq!(done.cleaning_ns, cleaned);
            assert!(cleaned >= 3_000_000, "an erase takes longer than {cleaned} ns");
            let read = card.submit(now_ns, &Command::read(0, PAGE)).expect("read");
            assert_eq!(read.start_ns, done.done_ns);
            now_ns = read.done_ns;
        }
        now_ns = now_ns.max(done.done_ns);
        twin.submit(now_ns, &command).expect("written");
    }
    assert!(card.statistics().bkops > 10, "{}", card.statistics().bkops);
    assert!(levels.contains(&BkopsLevel::NonCritical));
    // All cleaning is the host's: no write had to empty a block before it could go on.
    assert_eq!(card.statistics().foreground_cleaning_ns, 0);
    assert!(twin.statistics().foreground_cleaning_ns > 0);
    assert_eq!(twin.statistics().bkops, 0);
}

#[test]
fn a_burst_after_idle_time_is_fast_only_where_the_card_cleans_by_itself() {
    let automatic = [("cleaning.free_target_blocks", "8"), ("cleaning.background", "true")];
    let longest = |changes: &[(&str, &str)]| {
        let mut device = filled(changes);
        let commands = writes(&device, 1_200);
        let (_, end_ns) = keep_busy(&mut device, 0, 1, commands[..1_000].iter().copied());
        // A second of idle time.
        let burst = commands[1_000..1_020].iter().copied();
        let (served, _) = keep_busy(&mut device, end_ns + 1_000_000_000, 1, burst);
        served.iter().map(|(at_ns, done)| done.done_ns - at_ns).max()
    };
    let (manual_ns, automatic_ns) = (longest(&MANUAL), longest(&automatic));
    assert!(manual_ns > automatic_ns.map(|ns| 2 * ns), "{manual_ns:?} {automatic_ns:?}");
}

#[test]
fn what_does_not_go_with_manual_operations_is_refused() {
    let check = |changes: &[(&str, &str)]| -> Result<DeviceSpec, String> {
        let mut spec = small(&[]);
        for (key, value) in changes {
            spec.set(key, value).map_err(|error| error.to_string())?;
        }
        spec.check().map(|()| spec)
    };
    assert!(check(&MANUAL).is_ok());
    for (changes, says) in [
        (
            [("cleaning.free_target_blocks", "3"), MANUAL[1]],
            "free_target_blocks must be at least 4 with manual_bkops = true",
        ),
        (
            [("cleaning.background", "true"), MANUAL[1]],
            "manual_bkops must be false with background = true",
        ),
        ([("host.executes", "2"), MANUAL[1]], "manual_bkops needs host.executes = 1"),
    ] {
        let error = check(&changes).expect_err(says);
        assert!(error.contains(says), "{error}");
    }
}

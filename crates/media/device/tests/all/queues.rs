//! Several submission queues: shares and latencies that can be worked out by hand.

use crate::support::{SMALL, device, small};
use device::{
    Arbitration, BlockDevice, Coalescing, Command, ConstantDevice, DeviceSpec, Fetched, HostQueues,
    QueuedDevice, Weights,
};
use random::Stream;
use std::collections::BTreeMap;

/// Time of every command of the constant device.
const SERVICE_NS: u64 = 10_000;

fn queues(count: u32) -> HostQueues {
    let (executes, burst) = (1, Some(1));
    let (arbitration, coalescing) = (Arbitration::RoundRobin, None);
    HostQueues { count, executes, burst, arbitration, coalescing }
}

fn constant(queues: &HostQueues) -> QueuedDevice {
    QueuedDevice::new(Box::new(ConstantDevice::new(1 << 20, SERVICE_NS, 64)), queues)
}

/// What became of a command: when it was sent, begun and told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_field_names, reason = "a unit is no name")]
struct Times {
    sent_ns: u64,
    start_ns: u64,
    told_ns: u64,
}

/// A host whose processes keep so many commands outstanding.
struct Host {
    device: QueuedDevice,
    now_ns: u64,
    next: u64,
    /// Process and times of commands under way.
    under_way: BTreeMap<u64, (usize, Times)>,
    /// Times of those that are done, by process.
    done: Vec<Vec<Times>>,
}

impl Host {
    fn new(device: QueuedDevice, processes: usize) -> Self {
        let done = vec![Vec::new(); processes];
        Self { device, now_ns: 0, next: 0, under_way: BTreeMap::new(), done }
    }

    fn send(&mut self, process: usize, queue: usize, command: &Command) {
        let sent_ns = self.now_ns;
        let times = Times { sent_ns, start_ns: 0, told_ns: 0 };
        self.under_way.insert(self.next, (process, times));
        self.device.ring(queue, self.next, command);
        self.next += 1;
        self.fetch();
    }

    fn fetch(&mut self) {
        while let Some(Fetched { number, completion, error }) = self.device.fetch(self.now_ns) {
            assert_eq!(error, None);
            self.under_way.get_mut(&number).expect("under way").1.start_ns = completion.start_ns;
        }
    }

    /// Passes to the next event; the processes that were told of a command.
    fn step(&mut self) -> Option<Vec<usize>> {
        self.now_ns = self.device.next_ns()?;
        while self.device.end(self.now_ns).is_some() {}
        self.fetch();
        let mut told = Vec::new();
        while let Some(number) = self.device.tell(self.now_ns) {
            let (process, mut times) = self.under_way.remove(&number).expect("under way");
            times.told_ns = self.now_ns;
            self.done[process].push(times);
            told.push(process);
        }
        Some(told)
    }

    /// Processes with a depth and a queue each read until the time is over.
    fn run(&mut self, processes: &[(usize, usize)], until_ns: u64) {
        for (process, (depth, queue)) in processes.iter().enumerate() {
            (0..*depth).for_each(|_| self.send(process, *queue, &Command::read(0, 8)));
        }
        while self.now_ns < until_ns {
            for process in self.step().expect("there is always work") {
                self.send(process, processes[process].1, &Command::read(0, 8));
            }
        }
    }

    /// The latency of each process once all of its commands take the same time.
    fn latency(&self, process: usize) -> u64 {
        let done = &self.done[process];
        let latency = |times: &Times| times.told_ns - times.sent_ns;
        let last = latency(done.last().expect("it was served"));
        assert!(done[done.len() / 2..].iter().all(|times| latency(times) == last), "{done:?}");
        last
    }
}

/// A deep queue (32) beside a shallow one (1), on a drive that is never idle: the shallow one waits for what the arbiter
/// takes from the deep one in its turn, and by Little's law the deep one for the rest.
#[test]
fn a_deep_queue_does_not_starve_a_shallow_one() {
    let measured = |queues: &HostQueues, shallow: usize| {
        let mut host = Host::new(constant(queues), 2);
        host.run(&[(32, 0), (1, shallow)], 20_000 * SERVICE_NS);
        [0, 1].map(|process| host.latency(process) / SERVICE_NS)
    };
    assert_eq!(measured(&queues(1), 0), [33, 33], "in one queue everyone waits for all");
    // Each turn takes a burst of the deep queue and one command of the shallow one.
    for power in 0..5 {
        let burst = 1 << power;
        let two = HostQueues { burst: Some(burst), ..queues(2) };
        let mut host = Host::new(constant(&two), 2);
        host.run(&[(32, 0), (1, 1)], 20_000 * SERVICE_NS);
        assert_eq!(host.latency(1) / SERVICE_NS, u64::from(burst) + 1, "a burst of {burst}");
        let [deep, shallow] = [0, 1].map(|process| host.done[process].len() as u64);
        assert!(deep.abs_diff(u64::from(burst) * shallow) <= u64::from(burst), "{deep}, {shallow}");
    }
    assert_eq!(measured(&queues(2), 1), [64, 2], "one of each: a half of the drive");
}

#[test]
fn weights_are_shares_of_a_drive_that_is_never_idle() {
    let weights =
        Weights { queues_urgent: 0, queues_high: 1, queues_low: 1, high: 4, medium: 2, low: 1 };
    let weighted = HostQueues { arbitration: Arbitration::Weighted(weights), ..queues(3) };
    let mut host = Host::new(constant(&weighted), 3);
    host.run(&[(16, 0), (16, 1), (16, 2)], 7_000 * SERVICE_NS);
    assert_eq!([0, 1, 2].map(|process| host.done[process].len()), [4_000, 2_000, 1_000]);
    // An urgent queue with a command at every moment leaves nothing to the others.
    let urgent = Weights { queues_urgent: 1, queues_high: 0, ..weights };
    let weighted = HostQueues { arbitration: Arbitration::Weighted(urgent), ..queues(3) };
    let mut host = Host::new(constant(&weighted), 3);
    host.run(&[(2, 0), (16, 1), (16, 2)], 1_000 * SERVICE_NS);
    assert_eq!([0, 1, 2].map(|process| host.done[process].len()), [1_000, 0, 0]);
    // With one it is idle for a moment after each, and the drive fetches another one.
    let mut host = Host::new(constant(&weighted), 3);
    host.run(&[(1, 0), (16, 1), (16, 2)], 6_000 * SERVICE_NS);
    assert_eq!([0, 1, 2].map(|process| host.done[process].len()), [3_000, 2_000, 1_000]);
}

#[test]
fn an_interrupt_tells_of_several_completions_or_of_an_old_one() {
    let coalescing = Some(Coalescing { entries: 4, time_ns: 100_000 });
    let mut host = Host::new(constant(&HostQueues { coalescing, ..queues(2) }), 2);
    (0..6).for_each(|_| host.send(0, 0, &Command::read(0, 8)));
    host.send(1, 1, &Command::read(0, 8));
    while host.step().is_some() {}
    let told = |process: usize| -> Vec<u64> {
        host.done[process].iter().map(|times| times.told_ns / 1_000).collect()
    };
    // The second queue has its turn after the first command: done at 20 us, and told 100 us later. The fourth of the
    // first queue is done at 50 us, the fifth at 60 us.
    assert_eq!(told(0), [50, 50, 50, 50, 160, 160]);
    assert_eq!(told(1), [120]);
    // The place of a command is free at its end, not when the host is told.
    let starts: Vec<u64> = host.done[0].iter().map(|times| times.start_ns / 1_000).collect();
    assert_eq!(starts, [0, 20, 30, 40, 50, 60]);
}

/// One queue makes of a device what it is without: commands begin in the order in which they came.
#[test]
fn one_queue_changes_no_time() {
    for (executes, cache) in [("1", "0"), ("4", "0"), ("4", "65536")] {
        let changes =
            [("host.executes", executes), ("host.queue_depth", "16"), ("cache.bytes", cache)];
        let mut direct = device(&small(&changes), 600);
        let executes = executes.parse().expect("a number");
        let one = HostQueues { executes, ..queues(1) };
        let mut host = Host::new(QueuedDevice::new(direct.clone_box(), &one), 1);
        let mut stream = Stream::new(1, "queues");
        let mut expected = Vec::new();
        for number in 0..3_000 {
            let sector = u64::from(stream.below(2_000)) * 8;
            let sectors = 1 + stream.below(24);
            let command = match stream.below(20) {
                0 => Command::flush(),
                1 => Command::discard(sector, sectors),
                2..9 => Command::read(sector, sectors),
                _ => Command::write(sector, sectors),
            };
            let now_ns = number * u64::from(100_000 + stream.below(200_000)) / 2;
            let now_ns = now_ns.max(host.now_ns);
            while host.device.next_ns().is_some_and(|next_ns| next_ns <= now_ns) {
                host.step();
            }
            host.now_ns = now_ns;
            host.send(0, 0, &command);
            let completion = direct.submit(now_ns, &command).expect("a healthy device");
            expected.push((now_ns, completion.start_ns, completion.done_ns));
        }
        while host.step().is_some() {}
        let mut found: Vec<_> = host.done[0]
            .iter()
            .map(|times| (times.sent_ns, times.start_ns, times.told_ns))
            .collect();
        found.sort_unstable();
        expected.sort_unstable();
        let waited = expected.iter().filter(|(sent_ns, start_ns, _)| start_ns > sent_ns).count();
        assert!(waited > 500, "{waited} commands waited for a place");
        assert_eq!(found, expected);
        assert_eq!(host.device.device().statistics(), direct.statistics());
    }
}

#[test]
fn a_device_file_has_one_queue_unless_it_says_other() {
    assert_eq!(device(&small(&[]), 600).host_queues(), None);
    let spec = small(&[
        ("host.arbitration", "weighted_round_robin"),
        ("host.arbitration_burst", "3"),
        ("host.interrupt_coalescing_threshold", "7"),
        ("host.interrupt_coalescing_time_us", "200"),
        ("host.queues_urgent", "1"),
        ("host.submission_queues", "4"),
        ("host.weight_high", "8"),
    ]);
    let weights =
        Weights { queues_urgent: 1, queues_high: 0, queues_low: 0, high: 8, medium: 1, low: 1 };
    let expected = HostQueues {
        count: 4,
        executes: 1,
        burst: Some(8),
        arbitration: Arbitration::Weighted(weights),
        coalescing: Some(Coalescing { entries: 8, time_ns: 200_000 }),
    };
    assert_eq!(device(&spec, 600).host_queues(), Some(expected));
    let no_limit = small(&[("host.submission_queues", "2"), ("host.arbitration_burst", "7")]);
    assert_eq!(device(&no_limit, 600).host_queues().map(|queues| queues.burst), Some(None));
    let off = small(&[
        ("host.interrupt_coalescing_threshold", "0"),
        ("host.interrupt_coalescing_time_us", "200"),
    ]);
    assert_eq!(device(&off, 600).host_queues(), None, "either of the two at zero is off");
}

#[test]
fn keys_of_queues_are_refused_where_they_do_not_fit() {
    let weighted = "arbitration = \"weighted_round_robin\"\nsubmission_queues = 2\n";
    for (keys, says) in [
        ("submission_queues = 0", "host.submission_queues must be 1 to 1024"),
        ("arbitration_burst = 8", "host.arbitration_burst must be 0 to 7"),
        ("arbitration = \"weighted\"", "expected `round_robin` or `weighted_round_robin`"),
        ("weight_high = 2", "host.weight_high needs host.arbitration = \"weighted_round_robin\""),
        ("queues_urgent = 1", "host.queues_urgent needs host.arbitration"),
        (&format!("{weighted}weight_low = 257"), "host.weight_low must be 1 to 256"),
        (
            &format!("{weighted}queues_high = 2\nqueues_low = 1"),
            "host.submission_queues must be at least queues_urgent + queues_high + queues_low",
        ),
        (
            "submission_queues = 2\nprefetches = true",
            "host.submission_queues must be 1 with host.prefetches",
        ),
        (
            "interrupt_coalescing_threshold = 3",
            "host.interrupt_coalescing_threshold needs host.interrupt_coalescing_time_us",
        ),
        (
            "interrupt_coalescing_time_us = 100",
            "host.interrupt_coalescing_time_us needs host.interrupt_coalescing_threshold",
        ),
        (
            "interrupt_coalescing_time_us = 150",
            "host.interrupt_coalescing_time_us must be 0 to 25500 in steps of 100",
        ),
    ] {
        let text = SMALL.replacen("executes = 1\n", &format!("executes = 1\n{keys}\n"), 1);
        let error = DeviceSpec::parse("mine.toml", &text).expect_err(keys).to_string();
        assert!(error.starts_with("mine.toml: ") && error.contains(says), "{keys}: {error}");
    }
    let mut disk = device::find_device("disk-7200").expect("a preset");
    disk.set("host.submission_queues", "2").expect("a number of queues");
    let error = device::build(&disk, 1).err().expect("a disk has one").to_string();
    assert!(error.contains("host.submission_queues must be 1 for a disk"), "{error}");
}
